//! One command run from settings to outcome: survey, plan, jail, and what the numbers mean.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use ringfence_jail::survey::{Asked, Caller, found, host_facts, request};
use ringfence_jail::{
    Budget, Early, Ending, Fault, Finished, Launcher, Permit, Registry, SoFar, StdioMode,
    StopReason, Task, Who,
};
use ringfence_plan::{FileKind, HostFacts, HostWorkspace, Plan, UserNamespaces, plan_command};
use ringfence_screen::scrub::Scrub;
use ringfence_spec::{
    Denial, DeniedBy, Encoding, ErrorInfo, Fallback, Layer, Outcome, Policy, Problem, Ran, RunId,
    SetAside, Start, Status, Tier, Truncated, Usage, WorkspaceChanges,
};

use crate::ids::fresh_id;
use crate::launched;
use crate::place::Place;
use crate::text::{self, encode, millis, raise};

/// Bounds of the look at a workspace before a run. A checkout of the largest public repositories takes some hundreds of
/// entries and a few megabytes.
const SURVEY_MAX: Duration = Duration::from_secs(10);
const SURVEY_ENTRIES_MAX: u32 = 120_000;
const SURVEY_BYTES_MAX: u64 = 64 << 20;

/// What the kernel ends a program with that enters it by a door that the filter knows no calls of.
pub(crate) const SIGSYS: i32 = 31;

/// What that means.
pub(crate) const SYSCALL_ENTRY: &str =
    "the program used a system call entry that the fence refuses";

/// How a run's input and output are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Straight through.
    Passthrough {
        /// With a terminal of its own.
        terminal: bool,
    },
    /// Into the outcome.
    Capture,
}

/// A child that makes its namespaces while we read the command line and look around; or why there is none.
pub struct HeadStart(Result<Option<Early>, Fault>);

impl HeadStart {
    /// Begins. The calling process must have one thread.
    pub fn new(who: Who) -> Self {
        Self(Early::start(who))
    }

    /// The child, if there is one; none where the host has no namespaces, which the run will find out again.
    pub fn into_early(self) -> Result<Option<Early>, Problem> {
        match self.0 {
            Ok(early) => Ok(early),
            Err(Fault::NoNamespaces(_)) => Ok(None),
            Err(fault) => Err(problem_of(fault)),
        }
    }
}

/// A command about to be run.
pub struct Fence<'a> {
    policy: &'a Policy,
    caller: Caller,
    asked: Asked,
    registry: Registry,
    run_id: RunId,
    io: Io,
}

impl<'a> Fence<'a> {
    /// Gathers what a run needs; looks at nothing yet.
    pub fn new(
        policy: &'a Policy,
        place: &Place,
        argv: Vec<OsString>,
        io: Io,
    ) -> Result<Self, Problem> {
        let run_id = fresh_id()?;
        let temp = place.environment.get(std::ffi::OsStr::new("TMPDIR")).map(PathBuf::from);
        let is_directory = |t: &PathBuf| found(t).is_some_and(|f| f.kind == FileKind::Directory);
        let temp = temp.filter(is_directory).unwrap_or_else(|| "/tmp".into());
        Ok(Self {
            policy,
            caller: place.caller(),
            asked: Asked {
                argv,
                cwd: place.cwd.clone(),
                terminal: io == Io::Passthrough { terminal: true },
                capture: io == Io::Capture,
                host_scratch: temp.join(format!("ringfence-{}", run_id.short())),
                session: None,
                home: home(place),
                git_config_files: git_config_files(place),
            },
            registry: Registry::new(&place.state),
            run_id,
            io,
        })
    }

    /// Works in a session's directory, and sees nothing of the caller's.
    #[must_use]
    pub fn in_session(mut self, session: HostWorkspace) -> Self {
        self.asked.cwd = "/".into();
        self.asked.session = Some(session);
        self
    }

    /// This run's name.
    pub fn run_id(&self) -> RunId {
        self.run_id
    }

    /// The plan that would run. Namespaces are probed first, because nothing else will tell.
    pub fn explain(&self) -> Result<Plan, Problem> {
        let mut facts = self.survey()?;
        if let Err(refused) = ringfence_jail::probe::namespaces() {
            facts.user_namespaces = UserNamespaces::Refused(refused.to_string());
        }
        self.plan(&facts)
    }

    /// Runs it to its end.
    pub fn run(
        &self,
        head_start: HeadStart,
        permit: Permit<'_>,
    ) -> Result<(Plan, Finished), Problem> {
        for notice in self.registry.sweep() {
            eprintln!("ringfence: {notice}");
        }
        let mut facts = self.survey()?;
        let early = match head_start.0 {
            Ok(early) => early,
            // The child's birth is also the probe for namespaces.
            Err(Fault::NoNamespaces(error)) => {
                facts.user_namespaces = UserNamespaces::Refused(error.to_string());
                None
            }
            Err(fault) => return Err(problem_of(fault)),
        };
        let plan = self.plan(&facts)?;
        self.warn(&plan);
        let result = match early {
            Some(early) => match self.task(&plan, permit, |task| early.run(task)) {
                Err(Fault::NotSendable) => self.launch(&plan, permit),
                other => other,
            },
            None => self.launch(&plan, permit),
        };
        match result {
            Ok(finished) => Ok((plan, finished)),
            Err(Fault::NoNamespaces(refused)) if plan.tier == Tier::Namespaces => {
                // What is left may do, if the policy accepts it; the plan says.
                facts.user_namespaces = UserNamespaces::Refused(refused.to_string());
                let plan = self.plan(&facts)?;
                self.warn(&plan);
                self.launch(&plan, permit).map(|finished| (plan, finished)).map_err(problem_of)
            }
            Err(fault) => Err(problem_of(fault)),
        }
    }

    /// Runs it to its end by the launcher. From any thread.
    pub fn run_by(
        &self,
        launcher: &Launcher,
        stdin: &[u8],
        cancel: BorrowedFd<'_>,
        so_far: Option<&SoFar>,
    ) -> Result<(Plan, Finished), Problem> {
        let mut facts = self.survey()?;
        let (state, name) = (&self.caller.state, self.run_id.short());
        let output_bytes_max = self.policy.limits.output.bytes();
        let given = launched::Given { stdin, output_bytes_max, cancel, so_far };
        let plan = self.plan(&facts)?;
        match launched::run(launcher, &plan, state, &name, given) {
            Ok(finished) => Ok((plan, finished)),
            Err(Fault::NoNamespaces(refused)) if plan.tier == Tier::Namespaces => {
                // What is left may do, if the policy accepts it; the plan says.
                facts.user_namespaces = UserNamespaces::Refused(refused.to_string());
                let plan = self.plan(&facts)?;
                let finished = launched::run(launcher, &plan, state, &name, given);
                finished.map(|finished| (plan, finished)).map_err(problem_of)
            }
            Err(fault) => Err(problem_of(fault)),
        }
    }

    fn survey(&self) -> Result<HostFacts, Problem> {
        host_facts(&self.caller, self.policy.preset)
    }

    fn plan(&self, facts: &HostFacts) -> Result<Plan, Problem> {
        let budget = survey_budget(self.policy);
        let request = request(self.policy, self.asked.clone(), &self.registry, &budget)?;
        plan_command(self.policy, &request, facts)
    }

    fn stdio(&self) -> (StdioMode, bool) {
        match self.io {
            Io::Passthrough { terminal } => (StdioMode::Passthrough, terminal),
            Io::Capture => {
                (StdioMode::Capture { bytes_max: self.policy.limits.output.bytes() }, false)
            }
        }
    }

    fn launch(&self, plan: &Plan, permit: Permit<'_>) -> Result<Finished, Fault> {
        self.task(plan, permit, ringfence_jail::run)
    }

    fn task<T>(&self, plan: &Plan, permit: Permit<'_>, work: impl FnOnce(&Task<'_>) -> T) -> T {
        let (mode, terminal) = self.stdio();
        let name = self.run_id.short();
        work(&Task {
            plan,
            registry: &self.registry,
            name: &name,
            mode,
            terminal,
            channel: None,
            cancel: None,
            permit,
        })
    }

    /// Never silently weaker: less than the full tier is said before the program starts.
    fn warn(&self, plan: &Plan) {
        if plan.tier == Tier::Namespaces || self.io == Io::Capture {
            return;
        }
        let loud = if plan.tier == Tier::None && self.policy.fallback == Fallback::Warn {
            "WARNING: "
        } else {
            ""
        };
        eprintln!("ringfence: {loud}running in the `{}` tier; this run cannot promise:", plan.tier);
        for gap in &plan.enforcement.gaps {
            eprintln!("ringfence:   - {gap}");
        }
    }
}

/// Work that the host does before a run, whatever earlier runs left in the workspace: at most ten seconds, or the run's own
/// time if that is less.
fn survey_budget(policy: &Policy) -> Budget {
    let time = policy.limits.timeout.map_or(SURVEY_MAX, |t| t.duration().min(SURVEY_MAX));
    Budget::new(SURVEY_ENTRIES_MAX, SURVEY_BYTES_MAX, time)
}

fn home(place: &Place) -> Option<PathBuf> {
    let home = place.environment.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
    home.filter(|home| home.is_absolute())
}

/// Where git reads the user's and the system's configuration: git-config(1), FILES.
fn git_config_files(place: &Place) -> Vec<PathBuf> {
    let variable =
        |name: &str| place.environment.get(std::ffi::OsStr::new(name)).map(PathBuf::from);
    if let Some(file) = variable("GIT_CONFIG_GLOBAL") {
        return vec!["/etc/gitconfig".into(), file];
    }
    let home = home(place);
    let config = variable("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute());
    let config = config.or_else(|| home.as_ref().map(|home| home.join(".config")));
    let mut files = vec![PathBuf::from("/etc/gitconfig")];
    files.extend(config.map(|dir| dir.join("git/config")));
    files.extend(home.map(|home| home.join(".gitconfig")));
    files
}

/// What a fault is for people.
fn problem_of(fault: Fault) -> Problem {
    let cannot = || Problem::internal("launch", "cannot launch the run");
    match fault {
        Fault::Problem(problem) => problem,
        Fault::NoNamespaces(error) => cannot().cause(error),
        Fault::NotSendable => cannot(),
    }
}

/// What a finished run means, as the contract's outcome.
pub fn outcome(run_id: RunId, plan: &Plan, finished: Finished, scrub: &Scrub) -> Outcome {
    let (status, error) = judge(plan, &finished);
    let mut denials = finished.denials;
    denials.extend(limit_denials(plan, status, error.as_ref(), finished.forks_refused));
    let (exit_code, signal) = match finished.ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Signaled(number) => (None, Some(number)),
        Ending::Swept => (None, Some(9)),
    };
    let mut usage = Usage {
        wall_ms: millis(finished.wall),
        cpu_ms: millis(finished.cpu),
        memory_peak_bytes: finished.memory_peak_bytes,
        stdout_bytes: None,
        stderr_bytes: None,
    };
    let mut truncated = Truncated::default();
    let (mut stdout, mut stderr, mut encoding) = (String::new(), String::new(), Encoding::Utf8);
    let captured = finished.output.is_some();
    if let Some((out, err)) = finished.output {
        usage.stdout_bytes = Some(out.total_bytes);
        usage.stderr_bytes = Some(err.total_bytes);
        truncated = text::truncated(&out, &err);
        (stdout, stderr, encoding) = encode(out, err, scrub);
    }
    let mut enforcement = plan.enforcement.clone();
    enforcement.gaps.extend(finished.gaps);
    // Nobody sees the hash of a passthrough run.
    enforcement.policy_sha256 = captured.then(|| plan.sha256());
    Outcome {
        run_id,
        session_id: None,
        status,
        ran: Ran::Yes,
        exit_code,
        signal,
        stdout,
        stderr,
        value: None,
        exception: None,
        truncated,
        encoding,
        artifacts: Vec::new(),
        workspace: WorkspaceChanges {
            protected_created: finished.protected_created,
            set_aside: finished.set_aside.into_iter().map(set_aside).collect(),
        },
        denials,
        unobserved: plan.unobserved.clone(),
        enforcement: Some(enforcement),
        usage,
        start: Some(Start::Cold),
        error,
    }
}

fn set_aside(aside: ringfence_jail::SetAside) -> SetAside {
    SetAside { path: aside.path, moved_to: aside.moved_to, reason: aside.reason }
}

fn judge(plan: &Plan, finished: &Finished) -> (Status, Option<ErrorInfo>) {
    let (status, error) = judge_ending(plan, finished);
    let Some(lost) = &finished.output_lost else { return (status, error) };
    let message = format!("not all of the program's output could be written ({lost})");
    let hint = Some("make room where the output goes, or have it read".to_owned());
    let lost = text::info("output_lost", message, hint);
    // A program that ended well did not fail; what it said is lost all the same.
    let status = if status == Status::Ok { Status::Failed } else { status };
    (status, error.or(Some(lost)))
}

fn judge_ending(plan: &Plan, finished: &Finished) -> (Status, Option<ErrorInfo>) {
    let limits = &plan.limits;
    let info = |code: &str, message: String, hint| Some(text::info(code, message, hint));
    let shown = |value: Option<String>| value.unwrap_or_default();
    match finished.stopped {
        Some(StopReason::Wall) => {
            let limit = shown(limits.timeout.map(|v| v.to_string()));
            let message = format!("the run was still going after {limit} and was killed");
            return (Status::Timeout, info("wall_deadline", message, Some(raise("timeout"))));
        }
        Some(StopReason::Cpu) => {
            let limit = shown(limits.cpu.map(|v| v.to_string()));
            let message = format!("the run used more than {limit} of CPU time and was killed");
            return (Status::Timeout, info("cpu_limit", message, Some(raise("cpu"))));
        }
        Some(StopReason::Disk) => {
            let limit = shown(limits.disk.map(|v| v.to_string()));
            let message =
                format!("the run added more than {limit} to the workspace and was killed");
            return (Status::Killed, info("disk_limit", message, Some(raise("disk"))));
        }
        Some(StopReason::Memory) => return (Status::Memory, Some(memory_error(plan))),
        Some(StopReason::Caller(_)) | None => {}
    }
    if finished.oom_kills > 0 && !matches!(finished.ending, Ending::Exited(0)) {
        return (Status::Memory, Some(memory_error(plan)));
    }
    match finished.ending {
        Ending::Exited(0) => (Status::Ok, None),
        Ending::Exited(_) => (Status::Error, None),
        // SIGXCPU: the per-process limit stands one second above the tree's.
        Ending::Signaled(24) if limits.cpu.is_some() => {
            let message = "the program used up its CPU time".to_owned();
            (Status::Timeout, info("cpu_limit", message, Some(raise("cpu"))))
        }
        Ending::Signaled(25) => {
            let limit = shown(limits.disk.map(|v| v.to_string()));
            let message = format!("the program wrote a file larger than {limit}");
            (Status::Killed, info("file_size_limit", message, Some(raise("disk"))))
        }
        Ending::Signaled(SIGSYS) => {
            (Status::Killed, info("syscall_entry", SYSCALL_ENTRY.to_owned(), None))
        }
        Ending::Signaled(number) => {
            let message = format!("the program was ended by signal {number}");
            (Status::Killed, info("signal", message, None))
        }
        Ending::Swept => {
            let message = "the run was ended from outside".to_owned();
            (Status::Killed, info("ended_from_outside", message, None))
        }
    }
}

fn memory_error(plan: &Plan) -> ErrorInfo {
    let limit = plan.limits.memory.map(|v| v.to_string()).unwrap_or_default();
    ErrorInfo {
        code: "memory_limit".to_owned(),
        message: format!("the run used more than {limit} of memory and was killed"),
        hint: Some(
            "use less memory, or raise it with `--memory`, within the operator's ceiling"
                .to_owned(),
        ),
        retry_after_ms: None,
    }
}

/// Limits that were hit, as denials: what the kernel or the watch counted, nothing guessed.
fn limit_denials(
    plan: &Plan,
    status: Status,
    error: Option<&ErrorInfo>,
    forks_refused: u64,
) -> Vec<Denial> {
    let mut list = Vec::new();
    if let Some(pids) = plan.limits.pids.filter(|_| forks_refused > 0) {
        list.push(resource_denial(
            "pids_limit",
            format!("more than {pids} processes and threads at once"),
            "start fewer processes at once, or raise `--pids`".to_owned(),
            forks_refused,
        ));
    }
    list.extend(limit_denial(status, error));
    list
}

/// The limit that ended a run, as a denial.
pub(crate) fn limit_denial(status: Status, error: Option<&ErrorInfo>) -> Option<Denial> {
    let limit = matches!(status, Status::Timeout | Status::Memory | Status::Killed);
    let error =
        error.filter(|e| limit && e.code.ends_with("limit") || e.code == "wall_deadline")?;
    let hint = error.hint.clone().unwrap_or_default();
    Some(resource_denial(&error.code, error.message.clone(), hint, 1))
}

fn resource_denial(rule: &str, subject: String, hint: String, count: u64) -> Denial {
    Denial {
        layer: Layer::Resources,
        rule: rule.to_owned(),
        subject,
        line: None,
        column: None,
        hint,
        by: DeniedBy::Host,
        syscall: None,
        argument: None,
        pid: None,
        program: None,
        count,
    }
}
