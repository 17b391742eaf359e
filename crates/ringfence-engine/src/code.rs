//! Python runs from settings to outcome: interpreter, plan, pool, screening, and the verdict.

use std::num::NonZero;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use std::sync::{Arc, OnceLock};

use ringfence_jail::survey::{found, host_facts, readable};
use ringfence_jail::{Launcher, Permit, Registry};
use ringfence_plan::{
    Checkpoints, CodePlan, CodeRequest, FileKind, HostFacts, HostWorkspace, Plan, PythonFacts,
    WORKSPACE, is_too_broad, plan_code, plan_one_shot,
};
use ringfence_python::{
    Artifacts, Attempt, Ended, Exit, Finished, GuestReport, Interpreter, Job, Listing, OneShot,
    OneShotChannel, OneShotTask, Output, Pool, Preload, Processes, Raised, Repl, Snapshot,
    ZygoteKeeper, discover, run_one_shot,
};
use ringfence_screen::ScreenVerdict;
use ringfence_screen::scrub::{Html, Scrub};
use ringfence_spec::{
    Code, CodePreset, CommandPreset, Count, Denial, DenialRule, DeniedBy, Enforcement, Exception,
    Hint, Layer, LimitKind, Limits, Outcome, Problem, ProblemKind, Ran, RunId, Span, Start, Status,
    Usage, WorkerSpeedups, WorkspaceChanges, escape_name, shell_word,
};

use crate::call::{Hook, PlanHook};
use crate::command::{self, Io, Prefork};
use crate::engine::RunResult;
use crate::files::check_copy;
use crate::host_context::HostContext;
use crate::ids::{fresh_id, some_id};
use crate::launched::{self, CommandInput, LaunchPlan};
use crate::text::{encode, info, millis, truncated};
use crate::verdict::{self, End, Kind, RunVerdict};

/// Modules that a zygote imports before the first run: those that programs of the preset import most.
const PRELOAD_STANDARD: &[&str] = &[
    "_ast",
    "linecache",
    "traceback",
    "math",
    "json",
    "re",
    "datetime",
    "collections",
    "itertools",
    "functools",
    "random",
    "string",
    "statistics",
    "dataclasses",
    "enum",
    "typing",
    "decimal",
    "csv",
    "textwrap",
    "heapq",
    "copy",
];

/// Additional modules for data work, if the interpreter has them.
const PRELOAD_DATA: &[&str] = &["numpy", "pandas"];

/// Packages that a zygote loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packages {
    /// Modules of the standard library.
    Standard,
    /// Those of the preset too.
    All,
}

/// Warm-up program: the operations programs of the preset use most. Prints nothing; may fail if a module is missing.
const WARM_UP_STANDARD: &str = include_str!("warm_up/standard.py");

/// Additional warm-up program for data work.
const WARM_UP_DATA: &str = include_str!("warm_up/data.py");

/// Screening rules for Python code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRules {
    /// The screening preset.
    pub preset: CodePreset,
    /// The loosest preset that the operator allows: hints name none beyond it.
    pub loosest: CodePreset,
    /// Modules that code may import besides the preset's.
    pub extra_imports: Vec<String>,
}

impl Default for CodeRules {
    fn default() -> Self {
        let (preset, loosest) = (CodePreset::default(), CodePreset::Open);
        Self { preset, loosest, extra_imports: Vec::new() }
    }
}

impl CodeRules {
    /// Judges a program.
    pub fn screen(&self, code: &[u8]) -> ScreenVerdict {
        let mut verdict = ringfence_screen::screen(code, self.preset, &self.extra_imports);
        if self.loosest < CodePreset::Data {
            for violation in &mut verdict.violations {
                self.leave_out_presets(&mut violation.hint);
            }
        }
        verdict
    }

    /// Takes the presets out of a hint that are looser than the operator allows.
    fn leave_out_presets(&self, hint: &mut Hint) {
        match hint {
            Hint::Import(module) => {
                let command_line = format!("do without it; `--allow-import {module}` adds it");
                *hint = Hint::operator(command_line, format!("to allow the import of `{module}`"));
            }
            Hint::Operator { command_line, .. }
                if self.loosest < CodePreset::Standard
                    && command_line.contains("--preset standard") =>
            {
                *hint = "do without it: the operator allows no preset but `strict`".into();
            }
            Hint::Text(text) => {
                if let Some(at) = text.find("; the preset `data`") {
                    text.truncate(at);
                }
            }
            _ => {}
        }
    }
}

/// Policy of Python runs.
#[derive(Clone, Debug)]
pub struct CodePolicy {
    /// Screening rules.
    pub rules: CodeRules,
    /// Limits of each run.
    pub limits: Limits,
    /// The requested interpreter.
    pub python: Option<PathBuf>,
    /// Speed-ups of warm workers.
    pub speedups: WorkerSpeedups,
    /// Zygotes that make warm workers; `None` for a quarter of the processors, within 1 to 8 and the host's memory.
    pub zygotes: Option<Count>,
    /// Files and directories of the host that runs may read, at their own paths.
    pub ro: Vec<PathBuf>,
    /// Child processes of a program without a session, its threads included, at once; `None` for no child processes.
    pub processes: Option<Count>,
}

impl Default for CodePolicy {
    fn default() -> Self {
        let rules = CodeRules::default();
        Self {
            limits: Limits::for_code(rules.preset),
            rules,
            python: None,
            speedups: WorkerSpeedups::default(),
            zygotes: None,
            ro: Vec::new(),
            processes: None,
        }
    }
}

impl CodePolicy {
    /// Maximum bytes that a run may leave.
    pub(crate) fn disk_bytes_max(&self) -> u64 {
        self.limits.disk.map_or(u64::MAX, ringfence_spec::ByteSize::bytes)
    }
}

/// State shared by all Python runs under one policy, however they are started.
#[derive(Debug)]
pub(crate) struct PythonContext {
    rules: CodeRules,
    limits: Limits,
    interpreter: Interpreter,
    state: PathBuf,
    facts: HostFacts,
    request: CodeRequest,
    speedups: WorkerSpeedups,
    zygotes: Option<Count>,
    scrub: OnceLock<Scrub>,
}

/// Python runs in warm workers.
#[derive(Debug)]
pub(crate) struct PooledRunner {
    context: PythonContext,
    plan: CodePlan,
    /// Hash of the plan, reported in every outcome.
    policy_sha256: String,
}

/// A single Python run, in its own interpreter.
#[derive(Debug)]
pub(crate) struct OneShotRunner {
    context: PythonContext,
    plan: Plan,
    io: Io,
}

/// Returns the interpreter that Python runs under this policy would use.
pub fn python_facts(policy: &CodePolicy, place: &HostContext) -> Result<PythonFacts, Problem> {
    PythonContext::new(policy, place).map(|context| context.interpreter.facts)
}

/// Use of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Single runs.
    Pool {
        /// Maximum concurrent runs.
        n_parallel: usize,
    },
    /// A session.
    Session,
}

impl PythonContext {
    /// Finds the interpreter and surveys the host.
    fn new(policy: &CodePolicy, place: &HostContext) -> Result<Self, Problem> {
        let variable = |name: &str| place.environment.get(std::ffi::OsStr::new(name)).cloned();
        let facts = host_facts(&place.caller(), CommandPreset::Minimal)?;
        let registry = Registry::new(&place.state);
        // Commands may write the working directory, if their plan allows it.
        let workspace = Some(place.cwd.clone()).filter(|cwd| !is_too_broad(cwd, &facts));
        let written_by_runs = |path: &Path| {
            let inside = workspace.as_ref().filter(|workspace| path.starts_with(workspace));
            let root = inside.cloned().or_else(|| registry.written_by_runs(path));
            root.filter(|root| !registry.is_out_of_reach(root, path))
        };
        let interpreter = discover(
            policy.python.as_deref(),
            &ringfence_python::InterpreterSearch {
                path: variable("PATH").unwrap_or_default(),
                pyenv_version: variable("PYENV_VERSION"),
                cwd: place.cwd.clone(),
                written_by_runs: &written_by_runs,
            },
        )?;
        let (readable, secrets) =
            readable(&policy.ro, &registry, &command::survey_budget(policy.limits.timeout))?;
        let mut visible = interpreter.visible.clone();
        visible.extend(readable);
        let request = CodeRequest {
            python: interpreter.facts.clone(),
            visible,
            secrets,
            links: interpreter.links.clone(),
            n_workers_max: 1,
            screen: Some(policy.rules.preset.name().to_owned()),
            checkpoints: Checkpoints::None,
            workspace: None,
            capture: true,
            processes: policy.processes,
        };
        Ok(Self {
            rules: policy.rules.clone(),
            limits: policy.limits.clone(),
            interpreter,
            state: place.state.clone(),
            facts,
            request,
            speedups: policy.speedups,
            zygotes: policy.zygotes,
            scrub: OnceLock::new(),
        })
    }

    /// The error of a run that could not write the files of its call.
    fn not_given(&self, why: &str, job: &Job) -> Problem {
        let problem = Problem::usage(Code::NotGiven, "the run could not be given its files");
        let bytes: u64 = job.files.iter().map(|(_, content)| content.len() as u64).sum();
        match self.limits.disk {
            // The limit holds for each file and for all of them; directories count too.
            Some(disk) if bytes > disk.bytes() / 10 * 9 => problem
                .cause(format!("{why}: they have {bytes} bytes, and the run's disk holds {disk}"))
                .hint(Hint::operator(
                    "read them where they are with `--ro PATH`, or raise the limit with `--disk`",
                    "for a larger `disk`, or for a directory in `ro`",
                )),
            _ => problem.cause(why),
        }
    }

    /// Creates a job for this code with the policy's limits.
    pub(crate) fn job(&self, code: Vec<u8>) -> Job {
        Job {
            code,
            timeout: self.limits.timeout.map(|t| Duration::from_millis(t.millis())),
            output_bytes_max: self.limits.output.bytes(),
            ..Job::default()
        }
    }

    /// Judges the end of a run with this timeout.
    fn judge(&self, end: End, kind: Kind, timeout: Option<Duration>) -> RunVerdict {
        let timeout = timeout.and_then(|t| Span::from_millis(u64::try_from(t.as_millis()).ok()?));
        verdict::judge(end, kind, &self.limits, timeout)
    }

    /// Returns the layer 7 scrubber, applied to all output of the guest.
    pub(crate) fn scrub(&self) -> &Scrub {
        self.scrub.get_or_init(|| {
            let paths = self.interpreter.prefixes.iter();
            let strict = self.rules.preset == CodePreset::Strict;
            Scrub {
                paths: paths
                    .map(|p| (p.to_string_lossy().into_owned(), "<python>".into()))
                    .collect(),
                html: if strict { Html::Escape } else { Html::Keep },
                bytes_max: None,
            }
        })
    }

    /// Scrubs the texts that the guest reported itself.
    fn scrubbed(&self, mut outcome: Outcome) -> Outcome {
        let scrub = self.scrub();
        let clean = |text: &mut String| *text = scrub.bytes(text.as_bytes()).text;
        outcome.value.iter_mut().for_each(clean);
        if let Some(exception) = &mut outcome.exception {
            clean(&mut exception.kind);
            clean(&mut exception.message);
        }
        for denial in outcome.denials.iter_mut().filter(|d| d.by == DeniedBy::Guest) {
            clean(&mut denial.subject);
            denial.hint.edit(clean);
        }
        outcome
    }
}

impl OneShotRunner {
    /// Finds the interpreter and makes the plan, with a session's directory as workspace if there is one.
    pub(crate) fn new(
        policy: &CodePolicy,
        place: &HostContext,
        io: Io,
        workspace: Option<HostWorkspace>,
        hook: Option<&PlanHook>,
    ) -> Result<Self, Problem> {
        let mut context = PythonContext::new(policy, place)?;
        context.request.capture = io == Io::Capture;
        context.request.workspace = workspace;
        let mut plan = plan_one_shot(&context.limits, &context.request, &context.facts)?;
        let processes = match policy.processes {
            Some(_) => Processes::Allowed,
            None => Processes::Refused,
        };
        plan.argv = ringfence_python::argv(&context.interpreter, processes);
        if let Some(Hook(edit)) = hook {
            edit(&mut plan)?;
        }
        Ok(Self { context, plan, io })
    }

    /// Returns the outcome of code that screening refused.
    pub(crate) fn blocked(&self, run_id: RunId, verdict: &ScreenVerdict) -> Outcome {
        blocked(run_id, &self.plan.enforcement, verdict)
    }

    /// Returns its plan.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the context of its run.
    pub(crate) fn context(&self) -> &PythonContext {
        &self.context
    }

    /// Runs a screened program. The calling process must have one thread.
    pub(crate) fn run(
        &self,
        run_id: RunId,
        job: &Job,
        prefork: Prefork,
        permit: Permit<'_>,
    ) -> Result<(Outcome, Option<Artifacts>), Problem> {
        let child = prefork.into_child()?;
        let before = self.session_files()?;
        let name = run_id.short();
        let registry = Registry::new(&self.context.state);
        let mode = self.io.mode(job.output_bytes_max);
        let task = OneShotTask { plan: &self.plan, job, registry: &registry, name: &name, mode };
        let alone = run_one_shot(&task, child, permit)?;
        self.outcome(run_id, job, alone, before)
    }

    /// Runs a screened program by the launcher, from any thread.
    pub(crate) fn run_launched(
        &self,
        run_id: RunId,
        job: &Job,
        launcher: &Launcher,
        given: CommandInput<'_>,
    ) -> Result<(Outcome, Option<Artifacts>), Problem> {
        let before = self.session_files()?;
        let (channel, inside) = OneShotChannel::new(job)?;
        let launch = LaunchPlan {
            launcher,
            plan: &self.plan,
            state: &self.context.state,
            name: &run_id.short(),
            credentials: None,
        };
        let finished = std::thread::scope(|scope| {
            scope.spawn(|| channel.feed(job));
            launched::run_with_channel(launch, given, inside)
        });
        self.outcome(run_id, job, channel.collect(finished)?, before)
    }

    /// The files of the session that the program works in, and their state before it.
    fn session_files(&self) -> Result<Option<(Snapshot, Artifacts)>, Problem> {
        let Some(workspace) = &self.context.request.workspace else { return Ok(None) };
        let files = Artifacts::of_directory(&workspace.found.path).map_err(|e| {
            Problem::internal(Code::Workspace, "cannot open the session's directory").cause(e)
        })?;
        Ok(Some((files.snapshot(), files)))
    }

    fn outcome(
        &self,
        run_id: RunId,
        job: &Job,
        alone: OneShot,
        before: Option<(Snapshot, Artifacts)>,
    ) -> Result<(Outcome, Option<Artifacts>), Problem> {
        if let Some(why) = alone.refused {
            return Err(self.context.not_given(&why, job));
        }
        let scrub = self.context.scrub();
        let mut outcome =
            command::outcome(run_id, &self.plan, alone.finished, Kind::Program, scrub);
        if let Some(said) = alone.said {
            outcome.value = said.value;
            outcome.exception = said.exception.as_ref().map(exception);
            outcome.denials.extend(said.denials.iter().map(denial));
        }
        for denial in &mut outcome.denials {
            if matches!(denial.rule, DenialRule::Processes | DenialRule::Exec) {
                denial.hint = Hint::ChildProcess;
            }
        }
        let raised = outcome.exception.as_ref().map(|e| e.kind.as_str());
        if outcome.status == Status::Error && raised == Some(MEMORY_ERROR) {
            let end = End::MemoryRefused(outcome.exit_code.unwrap_or(1));
            let verdict = verdict::judge(end, Kind::Program, &self.context.limits, None);
            outcome.denials.extend(verdict.denial());
            (outcome.status, outcome.error) = (verdict.status, verdict.error);
        }
        let files = match before {
            Some((before, files)) => Some(files.since(&before)),
            None => alone.artifacts,
        };
        if let Some(files) = &files {
            add_artifacts(&mut outcome, files.list_changed(&job.files));
        }
        Ok((self.context.scrubbed(outcome), files))
    }
}

impl PooledRunner {
    /// Finds the interpreter and makes the plan.
    pub(crate) fn new(
        policy: &CodePolicy,
        place: &HostContext,
        mode: Mode,
    ) -> Result<Self, Problem> {
        Self::with_workspace(policy, place, mode, None)
    }

    /// Finds the interpreter and makes the plan, with a host directory as workspace.
    pub(crate) fn with_workspace(
        policy: &CodePolicy,
        place: &HostContext,
        mode: Mode,
        workspace: Option<HostWorkspace>,
    ) -> Result<Self, Problem> {
        let mut context = PythonContext::new(policy, place)?;
        (context.request.n_workers_max, context.request.checkpoints) = match mode {
            Mode::Pool { n_parallel } => {
                (u32::try_from(3 * n_parallel).unwrap_or(u32::MAX), Checkpoints::None)
            }
            Mode::Session => (16, Checkpoints::ByTheHost),
        };
        context.request.workspace = workspace;
        let plan = plan_code(&context.limits, &context.request, &context.facts)?;
        let policy_sha256 = plan.zygote.sha256();
        Ok(Self { context, plan, policy_sha256 })
    }

    /// Returns the context shared by its runs.
    pub(crate) fn context(&self) -> &PythonContext {
        &self.context
    }

    /// Returns the outcome of code that screening refused.
    pub(crate) fn blocked(&self, run_id: RunId, verdict: &ScreenVerdict) -> Outcome {
        blocked(run_id, &self.plan.worker.enforcement, verdict)
    }

    /// Returns the plan of its runs.
    pub(crate) fn plan(&self) -> &CodePlan {
        &self.plan
    }

    /// Returns the keeper of the zygote that workers are forked from.
    fn keeper(
        &self,
        launcher: &Arc<Launcher>,
        packages: Packages,
    ) -> Result<ZygoteKeeper, Problem> {
        Ok(ZygoteKeeper::new(
            Arc::clone(launcher),
            &self.plan,
            &self.context.interpreter,
            &self.preload(packages),
            self.context.state.clone(),
            fresh_id()?.short(),
        ))
    }

    /// Starts enough workers that `n_parallel` concurrent runs find one waiting.
    pub(crate) fn pool(
        &self,
        launcher: &Arc<Launcher>,
        n_parallel: usize,
    ) -> Result<Pool, Problem> {
        let n_waiting = NonZero::new(2 * n_parallel).unwrap_or(NonZero::<usize>::MIN);
        let n_zygotes = self.context.zygotes.map_or_else(
            || {
                let n_processors = std::thread::available_parallelism().map_or(1, NonZero::get);
                ringfence_python::zygotes_within(n_processors, crate::builder::memory_total_bytes())
                    .min(n_parallel.max(1))
            },
            |n| n.get() as usize,
        );
        let keeper = |_| self.keeper(launcher, Packages::All);
        let keepers = (0..n_zygotes).map(keeper).collect::<Result<_, _>>()?;
        // Loading these takes up to seconds, in which the first programs would wait.
        let early = self.loads_data_packages().then(|| self.keeper(launcher, Packages::Standard));
        Pool::start(keepers, early.transpose()?, &self.plan, n_waiting)
    }

    /// Starts a session's REPL. It loads the packages that its cells import: its caller waits for it to start.
    pub(crate) fn repl(&self, launcher: &Arc<Launcher>) -> Result<Repl, Problem> {
        Repl::start(self.keeper(launcher, Packages::Standard)?, &self.plan)
    }

    /// Returns true if workers of the preset have data packages loaded, and the interpreter has one.
    fn loads_data_packages(&self) -> bool {
        let has = |dir: &PathBuf| {
            PRELOAD_DATA.iter().any(|name| rustix::fs::lstat(dir.join(name)).is_ok())
        };
        self.context.rules.preset == CodePreset::Data
            && self.context.interpreter.facts.packages.iter().any(has)
    }

    fn preload(&self, packages: Packages) -> Preload {
        let mut modules = PRELOAD_STANDARD.to_vec();
        let mut warm_up = WARM_UP_STANDARD.to_owned();
        if packages == Packages::All && self.context.rules.preset == CodePreset::Data {
            modules.extend(PRELOAD_DATA);
            warm_up.push_str(WARM_UP_DATA);
        }
        if self.plan.worker.listener {
            // A session has a single worker, and its caller waits for it to start.
            warm_up.clear();
        }
        Preload {
            modules: modules.into_iter().map(str::to_owned).collect(),
            warm_up,
            own_modules: self.context.rules.preset.has_own_modules(),
            speedups: self.context.speedups,
        }
    }

    /// Runs a screened program once `permit` allows it, until `cancel` becomes readable or is closed.
    pub(crate) fn run(
        &self,
        run_id: RunId,
        pool: &Pool,
        job: &Job,
        cancel: Option<BorrowedFd<'_>>,
        permit: Option<Permit<'_>>,
    ) -> RunResult {
        match pool.run(job, cancel, permit) {
            Ok((finished, ..)) if finished.ended == Ended::Refused => {
                let why = finished.refused.unwrap_or_default();
                let problem = self.context.not_given(&why, job);
                RunResult::of(Outcome::not_started(run_id, Status::Error, &problem))
            }
            Ok((finished, start, slot)) => {
                let listing = finished.artifacts.list_changed(&job.files);
                let first_byte = finished.first_byte;
                let (mut outcome, files) = self.outcome(run_id, job, finished, start);
                add_artifacts(&mut outcome, listing);
                let slot = Some(slot);
                RunResult { files: Some(files), first_byte, slot, ..RunResult::of(outcome) }
            }
            Err(problem) => {
                let status = match problem.kind {
                    ProblemKind::Usage | ProblemKind::NotFound => Status::Error,
                    _ => Status::Failed,
                };
                RunResult::of(Outcome::not_started(run_id, status, &problem))
            }
        }
    }

    fn outcome(
        &self,
        run_id: RunId,
        job: &Job,
        finished: Finished,
        start: Start,
    ) -> (Outcome, Artifacts) {
        let end = end_of(&self.context.limits, finished.ended, finished.said.as_ref());
        let verdict = self.context.judge(end, Kind::Program, job.timeout);
        let exit = match finished.ended {
            Ended::Silently(exit) => exit,
            _ => None,
        };
        let said = finished.said.unwrap_or_default();
        let memory = exit.map_or(said.memory_peak_bytes(), |exit| exit.memory_peak_bytes);
        let cpu = exit.map_or(finished.cpu, |exit| exit.cpu);
        let mut outcome = self.base(run_id, verdict, finished.stdout, finished.stderr);
        outcome.value.clone_from(&said.value);
        outcome.exception = said.exception.as_ref().map(exception);
        outcome.denials.extend(said.denials.iter().map(denial));
        outcome.usage.wall_ms = millis(finished.wall);
        outcome.usage.cpu_ms = millis(cpu);
        outcome.usage.memory_peak_bytes = Some(memory).filter(|bytes| *bytes > 0);
        outcome.start = Some(start);
        (self.context.scrubbed(outcome), finished.artifacts)
    }

    /// Returns the outcome of a session's cell.
    pub(crate) fn cell_outcome(
        &self,
        cell: ringfence_python::Cell,
        timeout: Option<Duration>,
    ) -> Outcome {
        use ringfence_python::CellEnd;
        let run_id = some_id();
        let undone = "the cell was undone; the session keeps the variables it had before";
        let end = match cell.ended {
            CellEnd::Memory if cell.said.is_none() => End::MemoryKilled,
            CellEnd::Kept | CellEnd::Memory => {
                end_of(&self.context.limits, Ended::Done, cell.said.as_ref())
            }
            CellEnd::Deadline => End::Wall,
            CellEnd::Cancelled => End::Cancelled,
            CellEnd::Died => End::Silent,
        };
        let mut verdict = self.context.judge(end, Kind::Cell, timeout);
        if cell.ended != CellEnd::Kept
            && let Some(error) = &mut verdict.error
        {
            error.hint = Some(undone.into());
        }
        if cell.lost > 0 && verdict.error.is_none() {
            let message = format!(
                "the state after the last {} cells could not be gone on from; this cell began before them",
                cell.lost
            );
            verdict.error = Some(info(Code::CheckpointLost, message, None));
        }
        let said = cell.said.unwrap_or_default();
        let mut outcome = self.base(run_id, verdict, cell.stdout, cell.stderr);
        outcome.value.clone_from(&said.value);
        outcome.exception = said.exception.as_ref().map(exception);
        outcome.denials.extend(cell.denials);
        outcome.denials.extend(said.denials.iter().map(denial));
        for denial in outcome.denials.iter_mut().filter(|d| d.hint == Hint::ChildProcess) {
            // Whatever the policy allows single programs.
            denial.hint =
                "a session's cells have no child processes; do the work in Python itself".into();
        }
        outcome.usage.wall_ms = millis(cell.wall);
        outcome.usage.cpu_ms = millis(cell.cpu);
        outcome.usage.memory_peak_bytes = Some(said.memory_peak_bytes()).filter(|b| *b > 0);
        outcome.start = Some(Start::Warm);
        self.context.scrubbed(outcome)
    }

    fn base(&self, run_id: RunId, verdict: RunVerdict, stdout: Output, stderr: Output) -> Outcome {
        let truncated = truncated(&stdout, &stderr);
        let usage = Usage {
            stdout_bytes: Some(stdout.total_bytes),
            stderr_bytes: Some(stderr.total_bytes),
            ..Usage::default()
        };
        let (stdout, stderr, encoding) = encode(stdout, stderr, self.context.scrub());
        let denials = verdict.denial();
        let mut enforcement = self.plan.worker.enforcement.clone();
        enforcement.policy_sha256 = Some(self.policy_sha256.clone());
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
            workspace: WorkspaceChanges::default(),
            denials: denials.into_iter().collect(),
            connections: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
            unobserved: self.plan.worker.unobserved.clone(),
            enforcement: Some(enforcement),
            usage,
            start: None,
            error: verdict.error,
        }
    }
}

/// Lists the files that a run left, and reports a gap if the list is incomplete.
pub(crate) fn add_artifacts(outcome: &mut Outcome, listing: Listing) {
    outcome.artifacts = listing.artifacts;
    if let Some(enforcement) = outcome.enforcement.as_mut().filter(|_| !listing.is_complete) {
        enforcement.gaps.push("the run left files that are not listed: too many, or in a directory that cannot be opened".to_owned());
    }
}

/// The exception that Python raises when an allocation is refused.
const MEMORY_ERROR: &str = "MemoryError";

/// Determines the end of a program from the reports of its worker, the zygote and the guest.
fn end_of(limits: &Limits, ended: Ended, said: Option<&GuestReport>) -> End {
    match ended {
        Ended::Deadline => End::Wall,
        Ended::Cancelled => End::Cancelled,
        Ended::Memory => End::MemoryKilled,
        Ended::Silently(exit) => exit.map_or(End::Silent, |exit| end_of_exit(limits, exit)),
        Ended::Done => {
            let code = said.map_or(0, |said| said.exit);
            let code = i32::try_from(code & 0xff).unwrap_or(1);
            let raised = said.and_then(|said| said.exception.as_ref());
            match raised {
                Some(raised) if raised.kind == MEMORY_ERROR => End::MemoryRefused(code),
                _ => End::Exited(code),
            }
        }
        // Refused before it began: reported as a problem, never judged.
        Ended::Refused => End::Silent,
    }
}

fn end_of_exit(limits: &Limits, exit: Exit) -> End {
    if let Some(code) = exit.code() {
        return End::Exited(code);
    }
    let cpu_limit = limits.cpu.map(|cpu| Duration::from_millis(cpu.millis()));
    // The kernel enforces the limit in ticks but reports scaled times; on a busy virtual machine they differ by a
    // fifth. Nothing else kills a run that has used so much CPU time.
    let near = |limit: Duration| exit.cpu.mul_f64(1.5) >= limit;
    let full = limits.memory.is_some_and(|m| exit.memory_peak_bytes >= m.bytes() / 10 * 8);
    match exit.signal() {
        Some(9) if cpu_limit.is_some_and(near) => End::Cpu,
        Some(9) if full => End::OutOfMemory,
        Some(9) => End::KilledFromOutside,
        signal => End::Signaled(signal.unwrap_or(0)),
    }
}

fn exception(raised: &Raised) -> Exception {
    Exception { kind: raised.kind.clone(), message: raised.message.clone(), line: raised.line }
}

/// Converts an attempt that the guest's interpreter reported to a denial.
fn denial(tried: &Attempt) -> Denial {
    let subject = escape_name(&tried.subject);
    // The guest's word: any other name counts as the last.
    let rule = match tried.rule {
        rule @ (DenialRule::NotVisible
        | DenialRule::ReadOnly
        | DenialRule::ModuleMissing
        | DenialRule::DiskLimit
        | DenialRule::PidsLimit
        | DenialRule::ChildProcess) => rule,
        _ => DenialRule::Network,
    };
    let subject = match rule {
        // A socket that is refused is told before there is an address.
        DenialRule::Network if subject.is_empty() => "socket".into(),
        _ => subject,
    };
    let (layer, hint) = match rule {
        DenialRule::NotVisible => (
            Layer::Filesystem,
            format!(
                "`{subject}` is not visible in this run; files you may use are under `{WORKSPACE}`"
            )
            .into(),
        ),
        DenialRule::ReadOnly => (
            Layer::Filesystem,
            format!("`{subject}` cannot be written; write under `{WORKSPACE}` or `/tmp`").into(),
        ),
        DenialRule::ModuleMissing => (Layer::Filesystem, Hint::Package(subject.to_string())),
        DenialRule::ChildProcess => (Layer::Process, Hint::ChildProcess),
        DenialRule::DiskLimit => (Layer::Resources, Hint::Limit(LimitKind::Disk)),
        DenialRule::PidsLimit => (Layer::Resources, Hint::Limit(LimitKind::Pids)),
        _ => (Layer::Network, "this run has no network; pass the data in as a file".into()),
    };
    Denial { by: DeniedBy::Guest, ..Denial::new(layer, rule, subject.into_owned(), hint) }
}

/// Returns the outcome of code that screening refused.
fn blocked(run_id: RunId, enforcement: &Enforcement, verdict: &ScreenVerdict) -> Outcome {
    let first = verdict.violations.first();
    let by = enforcement
        .screen
        .as_ref()
        .map_or_else(String::new, |preset| format!(" by the preset `{preset}`"));
    let message = first.map_or_else(
        || format!("screening{by} refused the program"),
        |v| format!("screening{by} refused `{}` in line {}: {}", v.subject, v.line, v.rule),
    );
    let problem = Problem::refused(Code::Screen, message);
    let mut outcome = Outcome::not_started(run_id, Status::Blocked, &problem);
    if let Some(error) = &mut outcome.error {
        error.hint = first.map(|v| v.hint.clone());
    }
    outcome.denials = verdict.violations.iter().cloned().map(Denial::from).collect();
    outcome.enforcement = Some(enforcement.clone());
    outcome
}

/// The host directory for a run's files. Opened before the run, without links: while it runs, another run may put a link at its
/// path.
pub(crate) struct OutputDir<'a> {
    path: &'a Path,
    opened: OwnedFd,
}

impl<'a> OutputDir<'a> {
    /// Opens the directory before the program starts, so that no result is lost for a wrong path. Makes it if it does not exist,
    /// but no directory above it: a mistyped path would become one.
    pub(crate) fn open(path: &'a Path, place: &HostContext) -> Result<Self, Problem> {
        let real = place.without_planted_links(path, "artifacts")?;
        let unusable = |code, cause: String| {
            let message = format!("cannot copy files of the run to `{}`", path.display());
            Problem::usage(code, message).cause(cause)
        };
        let kind = |path: &Path| found(path).map(|found| found.kind);
        let parent = real.parent().unwrap_or(Path::new("/"));
        match (kind(&real), kind(parent)) {
            (Some(FileKind::Directory), _) | (None, Some(FileKind::Directory)) => {}
            (Some(_), _) => {
                return Err(unusable(Code::NotADirectory, "it is not a directory".to_owned()));
            }
            (None, Some(_)) => {
                let cause = format!("`{}` is not a directory", parent.display());
                return Err(unusable(Code::NotADirectory, cause));
            }
            (None, None) => {
                let cause = format!("`{}` does not exist", parent.display());
                let mkdir = format!("`mkdir -p {}`", shell_word(&parent.to_string_lossy()));
                return Err(unusable(Code::PathNotFound, cause).hint(mkdir));
            }
        }
        let opened = ringfence_jail::make_directory(&real, 0o777)
            .map_err(|e| unusable(Code::NoPermission, e.to_string()))?;
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(&opened, ".", access, rustix::fs::AtFlags::EACCESS)
            .map_err(|e| unusable(Code::NoPermission, format!("it cannot be written: {e}")))?;
        Ok(Self { path, opened })
    }
}

/// Copies a run's files to a host directory. The outcome reports files that were not copied. Its status is no longer `ok`
/// if copying failed; a name that is refused does not change it.
pub(crate) fn copy_out(
    outcome: &mut Outcome,
    files: &Artifacts,
    given: &[(String, Vec<u8>)],
    to: &OutputDir<'_>,
    bytes_max: u64,
) {
    let left_out = files.copy_to(&to.opened, given, bytes_max, check_copy);
    let to = to.path;
    if outcome.status == Status::Ok && !left_out.failed.is_empty() {
        outcome.status = Status::Failed;
    }
    let reasons = [left_out.failed, left_out.refused].concat();
    if !reasons.is_empty() && outcome.error.is_none() {
        let message =
            format!("files were not copied to `{}`: {}", to.display(), reasons.join("; "));
        outcome.error = Some(info(Code::ArtifactsIncomplete, message, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_testing::BoundedCommand as _;

    #[test]
    fn warm_up_says_nothing_and_does_not_fail() {
        let whole = format!("{WARM_UP_STANDARD}\ncompile({WARM_UP_DATA:?}, 'data', 'exec')\n");
        let python =
            std::process::Command::new("python3").args(["-I", "-c", &whole]).bounded_output();
        let python = python.unwrap();
        let said = [python.stdout, python.stderr].concat();
        assert!(python.status.success() && said.is_empty(), "{}", said.escape_ascii());
    }
}
