//! Runs one command from policy to outcome: survey, plan, launch, and mapping of its end to the contract's status.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_jail::survey::{Asked, Caller, found, host_facts, request};
use ringfence_jail::{
    Budget, Ending, Finished, LaunchError, Launcher, Permit, PreforkedChild, Registry, RunIdentity,
    StdioMode, StopReason, Task,
};
use ringfence_plan::{
    FileKind, HostFacts, HostWorkspace, MappedDir, MaskKind, Mount, NetworkCapture, NetworkWay,
    Plan, SshAgentFacts, UserNamespaces, plan_command,
};
use ringfence_screen::scrub::Scrub;
use ringfence_spec::{
    Code, Denial, DenialRule, Encoding, Fallback, Hint, LimitKind, Outcome, Policy, Problem, Ran,
    RunId, SetAside, Span, Start, Status, Tier, Truncated, Usage, WorkspaceChanges, escape_name,
};

use crate::call::{Hook, PlanHook};
use crate::credentials::{self, Prepared};
use crate::host_context::HostContext;
use crate::launched::{self, CommandInput, LaunchPlan};
use crate::redacted_stream::RedactedStream;
use crate::ssh_agent;
use crate::text::{self, encode, millis};
use crate::verdict::{self, End, Kind, RunVerdict};

/// Limits of the workspace survey before a run. A checkout of the largest public repositories takes some hundreds of
/// entries and a few megabytes.
const SURVEY_MAX: Duration = Duration::from_secs(10);
const SURVEY_ENTRIES_MAX: u32 = 120_000;
const SURVEY_BYTES_MAX: u64 = 64 << 20;

/// Connection of a run's input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Byte for byte to this process's own stdin, stdout and stderr.
    Passthrough,
    /// The same without secrets, which are replaced as the output passes.
    Redacted,
    /// Passed through a terminal of the run's own.
    Terminal,
    /// Captured in the outcome.
    Capture,
}

impl Io {
    /// Returns the supervisor's mode; `bytes_max` bounds captured output of a stream.
    pub(crate) fn mode(self, bytes_max: u64) -> StdioMode {
        match self {
            Self::Passthrough | Self::Terminal => StdioMode::Passthrough,
            Self::Redacted => StdioMode::Filtered(RedactedStream::passthrough),
            Self::Capture => StdioMode::Capture { bytes_max },
        }
    }
}

/// A child that creates its namespaces while the parent parses and surveys, or the reason there is none.
pub struct Prefork(Result<Option<Box<PreforkedChild>>, LaunchError>);

impl Prefork {
    /// Forks a child for a command. The calling process must have one thread.
    pub fn for_command() -> Self {
        Self(PreforkedChild::start(RunIdentity::Command).map(|child| Some(Box::new(child))))
    }

    /// Forks a child for Python code. The calling process must have one thread.
    pub fn for_code() -> Self {
        Self(PreforkedChild::start(RunIdentity::Code).map(|child| Some(Box::new(child))))
    }

    /// No child yet: one is forked once the plan is made.
    pub fn none() -> Self {
        Self(Ok(None))
    }

    /// Returns the child, or `None` if the host has no namespaces; the run detects that again.
    pub(crate) fn into_child(self) -> Result<Option<PreforkedChild>, Problem> {
        match self.0 {
            Ok(child) => Ok(child.map(|child| *child)),
            Err(LaunchError::NoNamespaces(_) | LaunchError::NoRoom(_)) => Ok(None),
            Err(fault) => Err(problem_of(fault)),
        }
    }
}

impl std::fmt::Debug for Prefork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefork").finish_non_exhaustive()
    }
}

/// Launch method of a command, the only difference between the front ends.
pub(crate) enum CommandLaunch<'a> {
    /// As a child of this process, which must have one thread.
    Foreground {
        prefork: Prefork,
        permit: Permit<'a>,
        /// Receives the gaps of a weaker tier before the program starts.
        warn: &'a dyn Fn(&str),
    },
    /// By the launcher, from any thread.
    Launcher { launcher: &'a Launcher, given: CommandInput<'a> },
}

/// A command to run.
pub(crate) struct CommandRunner<'a> {
    policy: &'a Policy,
    caller: Caller,
    asked: Asked,
    registry: Registry,
    run_id: RunId,
    io: Io,
    hook: Option<&'a PlanHook>,
    prepared: Option<Prepared>,
    ssh_agent: Option<SshAgentFacts>,
}

impl<'a> CommandRunner<'a> {
    /// Collects the inputs of a run; does not survey the host yet.
    pub(crate) fn new(
        policy: &'a Policy,
        place: &HostContext,
        run_id: RunId,
        argv: Vec<OsString>,
        io: Io,
    ) -> Self {
        let temp = place.environment.get(OsStr::new("TMPDIR")).map(PathBuf::from);
        let is_directory = |t: &PathBuf| found(t).is_some_and(|f| f.kind == FileKind::Directory);
        let temp = temp.filter(is_directory).unwrap_or_else(|| "/tmp".into());
        Self {
            policy,
            caller: place.caller(),
            asked: Asked {
                argv,
                cwd: place.cwd.clone(),
                cwd_id: place.cwd_id,
                terminal: io == Io::Terminal,
                capture: io == Io::Capture,
                host_scratch: temp.join(format!("ringfence-{}", run_id.short())),
                session: None,
                home: home(place),
                git_config_files: git_config_files(place),
            },
            registry: Registry::new(&place.state),
            run_id,
            io,
            hook: None,
            prepared: None,
            ssh_agent: None,
        }
    }

    /// Reads the credentials of the policy and the keys that its SSH grants need, on the host.
    pub(crate) fn with_credentials(mut self, place: &HostContext) -> Result<Self, Problem> {
        let mut place = place.clone();
        self.ssh_agent = ssh_agent::prepare(self.policy, &place)?;
        self.prepared = credentials::prepare(self.policy, &mut place)?;
        if self.prepared.is_some() {
            self.caller = place.caller();
        }
        Ok(self)
    }

    fn credentials(&self) -> Option<BorrowedFd<'_>> {
        self.prepared.as_ref().map(|prepared| prepared.memory.as_fd())
    }

    /// Sets a hook that edits the plan before launch.
    #[must_use]
    pub(crate) fn with_hook(mut self, hook: Option<&'a PlanHook>) -> Self {
        self.hook = hook;
        self
    }

    /// Runs in a session's directory; the caller's directory is not visible.
    #[must_use]
    pub(crate) fn in_session(mut self, session: HostWorkspace) -> Self {
        self.asked.cwd = "/".into();
        self.asked.cwd_id = None;
        self.asked.session = Some(session);
        self
    }

    /// Returns the plan without launching it. Probes for namespaces, because no launch will report a refusal.
    pub(crate) fn explain(&self) -> Result<Plan, Problem> {
        let mut facts = self.survey()?;
        if let Err(refused) = ringfence_jail::probe::namespaces() {
            facts.user_namespaces = UserNamespaces::Refused(refused.to_string());
        }
        self.plan(&facts)
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, launch: CommandLaunch<'_>) -> Result<(Plan, Finished), Problem> {
        match launch {
            CommandLaunch::Foreground { prefork, permit, warn } => {
                for notice in self.registry.sweep() {
                    warn(&notice);
                }
                let mut facts = self.survey()?;
                let mut child = match prefork.0 {
                    Ok(child) => child.map(|child| *child),
                    // Forking the child is also the namespace probe.
                    Err(LaunchError::NoNamespaces(error)) => {
                        facts.user_namespaces = UserNamespaces::Refused(error.to_string());
                        None
                    }
                    // By the time that the plan is made there may be room.
                    Err(LaunchError::NoRoom(_)) => None,
                    Err(fault) => return Err(problem_of(fault)),
                };
                self.run_planned(facts, |plan| {
                    self.warn(plan, warn);
                    self.foreground(plan, child.take(), permit)
                })
            }
            CommandLaunch::Launcher { launcher, given } => {
                let (state, name) = (&self.caller.state, self.run_id.short());
                let ran = self.run_planned(self.survey()?, |plan| {
                    let (name, credentials) = (name.as_str(), self.credentials());
                    launched::run(LaunchPlan { launcher, plan, state, name, credentials }, given)
                });
                // Names that a run left because another one needed them.
                for notice in self.registry.sweep() {
                    tracing::warn!("{notice}");
                }
                ran
            }
        }
    }

    /// Plans and launches. If the host refuses the planned namespaces or the capture of connections, plans again without
    /// them; the policy decides whether that fallback is allowed.
    fn run_planned(
        &self,
        mut facts: HostFacts,
        mut launch: impl FnMut(&Plan) -> Result<Finished, LaunchError>,
    ) -> Result<(Plan, Finished), Problem> {
        loop {
            let plan = self.plan(&facts)?;
            match launch(&plan) {
                Ok(finished) => return Ok((plan, finished)),
                Err(LaunchError::NoNamespaces(refused)) if plan.tier == Tier::Namespaces => {
                    facts.user_namespaces = UserNamespaces::Refused(refused.to_string());
                }
                Err(LaunchError::NoCapture(refused))
                    if plan.network.as_ref().is_some_and(|n| n.way == NetworkWay::Captured) =>
                {
                    facts.network_capture = NetworkCapture::Refused(refused.to_string());
                }
                Err(fault) => return Err(problem_of(fault)),
            }
        }
    }

    fn foreground(
        &self,
        plan: &Plan,
        child: Option<PreforkedChild>,
        permit: Permit<'_>,
    ) -> Result<Finished, LaunchError> {
        let name = self.run_id.short();
        let task = Task {
            plan,
            registry: &self.registry,
            name: &name,
            mode: self.io.mode(self.policy.limits.output.bytes()),
            terminal: self.io == Io::Terminal,
            channel: None,
            credentials: self.credentials(),
            cancel: None,
            permit,
        };
        match child.map(|child| child.run(&task)) {
            // A plan that cannot be sent to the preforked child runs in a new child, which inherits it.
            None | Some(Err(LaunchError::NeedsNewChild)) => ringfence_jail::run(&task),
            Some(done) => done,
        }
    }

    fn survey(&self) -> Result<HostFacts, Problem> {
        host_facts(&self.caller, self.policy.preset)
    }

    fn plan(&self, facts: &HostFacts) -> Result<Plan, Problem> {
        let budget = survey_budget(self.policy.limits.timeout);
        let mut request = request(self.policy, self.asked.clone(), &self.registry, &budget)?;
        request.mapped = self.own_directories()?;
        if let Some(Prepared { interception, .. }) = &self.prepared {
            request.hidden.extend(interception.hidden.iter().cloned());
            request.interception = Some(interception.clone());
        }
        request.ssh_agent.clone_from(&self.ssh_agent);
        let mut plan = plan_command(self.policy, &request, facts)?;
        if let Some(Hook(edit)) = self.hook {
            edit(&mut plan)?;
        }
        Ok(plan)
    }

    /// Makes the directories that runs under this policy's name keep, and finds them.
    fn own_directories(&self) -> Result<Vec<MappedDir>, Problem> {
        let Some((name, directories)) = &self.policy.own_directories else { return Ok(Vec::new()) };
        let root = self.caller.state.join("agents").join(name);
        let make = |at: &String| {
            let path = root.join(at.trim_start_matches('.').replace('/', "-"));
            let cannot = |why: &dyn std::fmt::Display| {
                let message = format!("cannot make `{}`", path.display());
                Problem::cannot_build(Code::DataDir, message).cause(why)
            };
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .map_err(|e| cannot(&e))?;
            let found = found(&path).filter(|found| found.kind == FileKind::Directory);
            let found = found.ok_or_else(|| cannot(&"it is not a directory"))?;
            Ok(MappedDir { found, at: at.into() })
        };
        directories.iter().map(make).collect()
    }

    /// Warns before the program starts if the tier is weaker than namespaces: a fallback is never silent.
    fn warn(&self, plan: &Plan, warn: &dyn Fn(&str)) {
        if plan.tier == Tier::Namespaces || self.io == Io::Capture {
            return;
        }
        let loud = if plan.tier == Tier::None && self.policy.fallback == Fallback::Warn {
            "WARNING: "
        } else {
            ""
        };
        warn(&format!("{loud}running in the `{}` tier; this run cannot promise:", plan.tier));
        for gap in &plan.enforcement.gaps {
            warn(&format!("  - {gap}"));
        }
    }
}

/// Limits the host's work before a run, whatever earlier runs left in the workspace: ten seconds, or the run's timeout
/// if that is shorter.
pub(crate) fn survey_budget(timeout: Option<Span>) -> Budget {
    let time = timeout.map_or(SURVEY_MAX, |t| t.duration().min(SURVEY_MAX));
    Budget::new(SURVEY_ENTRIES_MAX, SURVEY_BYTES_MAX, time)
}

fn home(place: &HostContext) -> Option<PathBuf> {
    let home = place.environment.get(OsStr::new("HOME")).map(PathBuf::from);
    home.filter(|home| home.is_absolute())
}

/// Returns the paths of git's system and user configuration: git-config(1), FILES.
fn git_config_files(place: &HostContext) -> Vec<PathBuf> {
    let variable = |name: &str| place.environment.get(OsStr::new(name)).map(PathBuf::from);
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

/// The problem of a host that has no process or namespace left.
fn no_room(error: &dyn std::fmt::Display) -> Problem {
    Problem::cannot_build(Code::Launch, "the host has no room for another run just now")
        .cause(error)
        .hint("try again when other programs have ended; `ulimit -u` and /proc/sys/user/max_*_namespaces are the limits")
}

/// Converts a launch fault to a problem.
fn problem_of(fault: LaunchError) -> Problem {
    let cannot = || Problem::internal(Code::Launch, "cannot launch the run");
    match fault {
        LaunchError::Problem(problem) => problem,
        LaunchError::NoNamespaces(error) | LaunchError::NoCapture(error) => cannot().cause(error),
        LaunchError::NoRoom(error) => no_room(&error),
        LaunchError::NeedsNewChild => cannot(),
    }
}

/// Converts a finished run to the contract's outcome.
pub(crate) fn outcome(
    run_id: RunId,
    plan: &Plan,
    finished: Finished,
    kind: Kind,
    scrub: &Scrub,
) -> Outcome {
    let RunVerdict { status, exit_code, signal, error } = judge(plan, &finished, kind);
    let verdict = RunVerdict { status, exit_code, signal, error };
    let mut denials = finished.denials;
    denials.extend(refused_forks(plan, finished.forks_refused));
    denials.extend(verdict.denial());
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
    // A passthrough run shows its hash nowhere, so none is computed.
    enforcement.policy_sha256 = captured.then(|| plan.sha256());
    let set_aside = finished.set_aside.into_iter().map(set_aside).collect();
    Outcome {
        run_id,
        session_id: None,
        status: verdict.status,
        ran: Ran::Yes,
        exit_code: verdict.exit_code,
        signal: verdict.signal,
        stdout,
        stderr,
        value: None,
        exception: None,
        truncated,
        encoding,
        artifacts: Vec::new(),
        workspace: WorkspaceChanges { protected_created: finished.protected_created, set_aside },
        denials,
        connections: finished.connections,
        findings: Vec::new(),
        notes: hidden_files(plan, verdict.status),
        unobserved: plan.unobserved.clone(),
        enforcement: Some(enforcement),
        usage,
        start: Some(Start::Cold),
        error: verdict.error,
    }
}

/// Maximum number of hidden files that a note names.
const HIDDEN_MAX: usize = 3;

/// Names the hidden files of the workspace if the command failed: one that walks the whole tree, as `git add -A` does, fails
/// because of them. The kernel does not report who was refused by a file's permissions, so this is no denial.
fn hidden_files(plan: &Plan, status: Status) -> Vec<String> {
    if status != Status::Error {
        return Vec::new();
    }
    let below = |at: &PathBuf| {
        let mut roots = plan.disk_roots.iter();
        roots.find_map(|root| at.strip_prefix(&root.path).ok().map(Path::to_owned))
    };
    let masks = plan.mounts().filter_map(|mount| match mount {
        Mount::Mask { at, kind: MaskKind::File } => below(at),
        _ => None,
    });
    let names: Vec<String> = masks
        .take(HIDDEN_MAX)
        .map(|path| escape_name(&path.to_string_lossy()).into_owned())
        .collect();
    if names.is_empty() {
        return Vec::new();
    }
    let [listed, left_out] = [("`", "`, `"), ("':!", "' ':!")]
        .map(|(before, between)| format!("{before}{}", names.join(between)));
    vec![format!(
        "hidden from this run: {listed}`; what walks the whole directory must leave it out, such as `git add -A -- {left_out}'`"
    )]
}

fn set_aside(aside: ringfence_jail::SetAside) -> SetAside {
    SetAside { path: aside.path, moved_to: aside.moved_to, reason: aside.reason }
}

const SIGPIPE: i32 = 13;

fn judge(plan: &Plan, finished: &Finished, kind: Kind) -> RunVerdict {
    let by_memory = finished.oom_kills > 0 && !matches!(finished.ending, Ending::Exited(0));
    let end = match (finished.stopped, finished.ending) {
        (Some(StopReason::Wall), _) => End::Wall,
        (Some(StopReason::Cpu), _) => End::Cpu,
        (Some(StopReason::Disk), _) => End::Disk,
        (Some(StopReason::Memory), _) => End::MemoryKilled,
        (Some(StopReason::Cancelled), _) => End::Cancelled,
        _ if by_memory => End::MemoryKilled,
        (_, Ending::Exited(code)) => End::Exited(code),
        (_, Ending::Signaled(signal)) => End::Signaled(signal),
        (_, Ending::Swept) => End::Swept,
    };
    let mut verdict = verdict::judge(end, kind, &plan.limits, None);
    if let (Some(cause), Some(error)) = (&finished.unmeasured, &mut verdict.error) {
        let what = if end == End::Cpu { "CPU time" } else { "memory" };
        error.message = format!(
            "the run's {what} could not be measured ({cause}), which counts as more than the limit, and the run was killed"
        );
        // A higher limit could not be measured either.
        error.hint = None;
    }
    // Report the kernel's wait status even if a limit decided: a shell reports its child's death as its own exit code.
    (verdict.exit_code, verdict.signal) = match finished.ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Signaled(signal) => (None, Some(signal)),
        Ending::Swept => (None, Some(9)),
    };
    if let Some(lost) = &finished.output_lost {
        let message = format!("not all of the program's output could be written ({lost})");
        let hint = Some("make room where the output goes, or have it read".to_owned());
        let lost = text::info(Code::OutputLost, message, hint.map(Hint::from));
        // The program succeeded, but its output is lost, so `ok` becomes `failed`.
        verdict.status = if verdict.status == Status::Ok { Status::Failed } else { verdict.status };
        // A program that was stopped by its closed output has the same cause.
        let by_closed_output = finished.ending == Ending::Signaled(SIGPIPE);
        verdict.error = verdict.error.filter(|_| !by_closed_output).or(Some(lost));
    }
    verdict
}

/// Returns a denial for the forks that the kernel counted as refused.
fn refused_forks(plan: &Plan, forks_refused: u64) -> Option<Denial> {
    let pids = plan.limits.pids.filter(|_| forks_refused > 0)?;
    Some(verdict::limit_denial(
        DenialRule::PidsLimit,
        format!("more than {pids} processes and threads at once"),
        Hint::Limit(LimitKind::Pids),
        forks_refused,
    ))
}
