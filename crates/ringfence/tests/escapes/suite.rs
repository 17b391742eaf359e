//! Chooses documents, runs their rows two documents at a time, and says what came of it the way libtest does.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ringfence_testing::{BoundedCommand as _, Json, limit, test_threads};
use rustix::net::{AddressFamily, SocketType};

use crate::container::{Job, Owner, Report};
use crate::document::{
    self, Build, Document, Expectation, Family, Kernel, Language, Named, Need, Program, Row,
    RowKind,
};
use crate::invocation::{self, Invocation, Start};
use crate::layers::Layer;
use crate::{honesty, program};

/// So many attacks there are; a document that gets lost is noticed.
const DOCUMENTS_MIN: usize = 337;

/// Documents run at a time unless `--test-threads` or `RUST_TEST_THREADS` says otherwise, as for libtest: rows are short, and
/// the machines this runs on have two processors.
const N_WORKERS: usize = 2;

/// The ordinary user a root caller also runs everything as: `nobody`, who owns nothing.
const NOBODY: u32 = 65534;

/// Makes a whiteout where Landlock handles `LANDLOCK_ACCESS_FS_MAKE_CHAR` and grants it nowhere. No ABI tells the
/// answer: the exemption goes to old kernels too.
const MAKE_WHITEOUT: &str = r#"
import stat
PR_SET_NO_NEW_PRIVS, MAKE_CHAR = 38, 1 << 6
rights = bytearray(MAKE_CHAR.to_bytes(8, sys.byteorder))
ruleset = syscall("landlock_create_ruleset", rights, len(rights), 0)
syscall("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
syscall("landlock_restrict_self", ruleset, 0)
attempt(lambda: os.mknod(WORKSPACE + "/whiteout", stat.S_IFCHR | 0o644, 0))
"#;

/// As whom a document is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// As whoever runs the tests.
    Own,
    /// As an ordinary user, for a root caller.
    Nobody,
}

enum Verdict {
    Passed,
    Failed(String),
    Ignored(String),
}

pub(crate) fn main(args: impl Iterator<Item = String>) -> ExitCode {
    match attempt(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(args: impl Iterator<Item = String>) -> Result<ExitCode, String> {
    let asked = Asked::parse(args);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../escapes");
    let documents = document::read_all(&dir)?;
    if documents.len() < DOCUMENTS_MIN {
        return Err(format!("{} documents, at least {DOCUMENTS_MIN} expected", documents.len()));
    }
    honesty::refuses_unreadable()?;
    let (honest, lies) = (honesty::honest()?, honesty::untrue()?);
    let root = is_host_root();
    let callers: &[Caller] = if root { &[Caller::Own, Caller::Nobody] } else { &[Caller::Own] };
    let own = |document| Test { caller: Caller::Own, document, lie: None };
    let mut tests: Vec<Test<'_>> = honest.iter().map(own).collect();
    tests.extend(lies.iter().map(|(document, row)| Test {
        caller: Caller::Own,
        document,
        lie: Some(row),
    }));
    for caller in callers {
        let test = |document| Test { caller: *caller, document, lie: None };
        tests.extend(documents.iter().map(test));
    }
    let n_all = tests.len();
    tests.retain(|test| asked.wants(&test.name()));
    if asked.list {
        for test in &tests {
            println!("{}: test", test.name());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let suite = Suite::new(root)?;
    println!("\nrunning {} tests", tests.len());
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(String, Verdict)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..asked.n_workers {
            scope.spawn(|| {
                while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = test.judge(suite.run(test.caller, test.document));
                    let name = test.name();
                    let word = match &verdict {
                        Verdict::Passed => "ok".to_owned(),
                        Verdict::Failed(_) => "FAILED".to_owned(),
                        Verdict::Ignored(why) => format!("ignored, {why}"),
                    };
                    if let Ok(mut results) = results.lock() {
                        println!("test {name} ... {word}");
                        results.push((name, verdict));
                    }
                }
            });
        }
    });
    let results = results.into_inner().map_err(|_| "a worker panicked")?;
    Ok(conclude(&results, n_all - tests.len(), started))
}

/// A document run as somebody.
struct Test<'a> {
    caller: Caller,
    document: &'a Document,
    /// For a document that lies: the row that must fail.
    lie: Option<&'a str>,
}

impl Test<'_> {
    fn name(&self) -> String {
        match self.caller {
            Caller::Own => format!("escapes::{}", self.document.name),
            Caller::Nobody => format!("escapes::as_nobody::{}", self.document.name),
        }
    }

    fn judge(&self, verdict: Verdict) -> Verdict {
        match (self.lie, verdict) {
            (None, verdict) | (Some(_), verdict @ Verdict::Ignored(_)) => verdict,
            (Some(row), Verdict::Failed(why)) if why.starts_with(&format!("row `{row}` ")) => {
                Verdict::Passed
            }
            (Some(row), Verdict::Failed(why)) => {
                Verdict::Failed(format!("row `{row}` should have failed, but: {why}"))
            }
            (Some(row), Verdict::Passed) => {
                Verdict::Failed(format!("row `{row}` should have failed"))
            }
        }
    }
}

fn conclude(results: &[(String, Verdict)], n_filtered: usize, started: Instant) -> ExitCode {
    let failed: Vec<_> = results
        .iter()
        .filter_map(|(name, verdict)| match verdict {
            Verdict::Failed(why) => Some((name, why)),
            _ => None,
        })
        .collect();
    let ignored = results.iter().filter(|(_, v)| matches!(v, Verdict::Ignored(_))).count();
    if !failed.is_empty() {
        println!("\nfailures:\n");
        for (name, why) in &failed {
            println!("---- {name} ----\n{why}\n");
        }
        println!("failures:");
        for (name, _) in &failed {
            println!("    {name}");
        }
    }
    if ignored > 0 {
        println!(
            "\nSKIPPED: {ignored} attacks were not tried on this host; the reasons are above."
        );
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; {ignored} ignored; 0 measured; {n_filtered} filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        results.len() - failed.len() - ignored,
        failed.len(),
        started.elapsed().as_secs_f64(),
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(101) }
}

/// The command line, as far as libtest's matters.
struct Asked {
    words: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
    n_workers: usize,
}

impl Asked {
    fn parse(mut args: impl Iterator<Item = String>) -> Self {
        let number = |text: String| text.parse().ok().filter(|n| *n > 0);
        let mut asked = Self {
            words: Vec::new(),
            skip: Vec::new(),
            exact: false,
            list: false,
            n_workers: test_threads().unwrap_or(N_WORKERS),
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--exact" => asked.exact = true,
                "--list" => asked.list = true,
                "--skip" => asked.skip.extend(args.next()),
                "--test-threads" => {
                    asked.n_workers = args.next().and_then(number).unwrap_or(asked.n_workers);
                }
                "--format" | "--color" | "--logfile" | "-Z" => {
                    args.next();
                }
                flag if flag.starts_with("--test-threads=") => {
                    let n = flag.trim_start_matches("--test-threads=").to_owned();
                    asked.n_workers = number(n).unwrap_or(asked.n_workers);
                }
                flag if flag.starts_with('-') => {}
                _ => asked.words.push(arg),
            }
        }
        asked
    }

    fn wants(&self, name: &str) -> bool {
        let matches = |word: &String| if self.exact { name == word } else { name.contains(word) };
        (self.words.is_empty() || self.words.iter().any(matches)) && !self.skip.iter().any(matches)
    }
}

/// What this host lacks, and where the binaries are.
struct Suite {
    root: bool,
    stage: tempfile::TempDir,
    /// Features whose absence is a failure.
    required: Vec<String>,
    /// How many times slower than usual this machine is.
    slowness: u32,
    /// Why no container can be made, if so; for each caller.
    no_container: [Option<String>; 2],
    kernel: Kernel,
    no_cgroup: [bool; 2],
}

impl Suite {
    fn new(root: bool) -> Result<Self, String> {
        let stage = stage().map_err(|e| format!("cannot lay out the binaries: {e}"))?;
        let required = std::env::var("RINGFENCE_TEST_REQUIRE").unwrap_or_default();
        let mut suite = Self {
            root,
            stage,
            required: required.split(',').map(|w| w.trim().to_owned()).collect(),
            slowness: slowness()?,
            no_container: [None, None],
            kernel: Kernel {
                landlock_abi: ringfence_engine::host::probe::landlock_abi(),
                holds_whiteouts: false,
            },
            // Only the host's root can have cgroups in a container: see `tree`.
            no_cgroup: [!root || ringfence_engine::host::probe::cgroup().is_err(), true],
        };
        if !Path::new(program::PYTHON).exists() {
            return Err(format!("the attacks need {}", program::PYTHON));
        }
        for (slot, caller) in [Caller::Own, Caller::Nobody].into_iter().enumerate() {
            if caller == Caller::Own || root {
                let owners = [suite.thin(caller), suite.whole(caller)];
                let tried = owners.into_iter().try_for_each(|owner| {
                    let nothing =
                        Invocation { argv: vec!["/bin/true".to_owned()], stdin: String::new() };
                    suite.contain(caller, owner, nothing, None, "none").map(|_| ())
                });
                suite.no_container[slot] = tried.err();
            }
        }
        if suite.kernel.landlock_abi > 0 && suite.no_container[0].is_none() {
            suite.kernel.holds_whiteouts = suite.holds_whiteouts()?;
        }
        Ok(suite)
    }

    fn holds_whiteouts(&self) -> Result<bool, String> {
        let program = Program { language: Language::Python, text: MAKE_WHITEOUT.to_owned() };
        let argv = program::argv(&program, program::Names::None, "none");
        let invocation = Invocation { argv, stdin: String::new() };
        let owner = self.thin(Caller::Own);
        let report = self.contain(Caller::Own, owner, invocation, None, "none")?;
        match report.stdout.trim() {
            "STOPPED EACCES" => Ok(true),
            "ESCAPED" => Ok(false),
            other => Err(format!("cannot try a whiteout: `{other}`\n{}", report.stderr)),
        }
    }

    fn requires(&self, feature: &str) -> bool {
        self.required.iter().any(|w| w == feature)
    }

    fn run(&self, caller: Caller, document: &Document) -> Verdict {
        if let Some(why) = self.missing(caller, document) {
            return why;
        }
        for row in &document.rows {
            let other = if self.no_cgroup[caller as usize] { Build::Cgroup } else { Build::Rlimit };
            if row.kind == RowKind::On(other) {
                continue;
            }
            // The other half of the pair is judged.
            if !row.kernels.include(self.kernel) {
                continue;
            }
            match self.row(caller, document, row) {
                Verdict::Passed => {}
                other => return other,
            }
        }
        Verdict::Passed
    }

    /// What the host lacks for this document. Loud, and a failure where it is required.
    fn missing(&self, caller: Caller, document: &Document) -> Option<Verdict> {
        let verdict = |feature: &str, why: String| {
            Some(if self.requires(feature) {
                Verdict::Failed(format!("RINGFENCE_TEST_REQUIRE names `{feature}`: {why}"))
            } else {
                Verdict::Ignored(format!("SKIPPED: {why}"))
            })
        };
        if let Some(why) = &self.no_container[caller as usize] {
            return verdict("namespaces", format!("no container can be made: {}", why.trim()));
        }
        let names_landlock = document.rows.iter().any(
            |row| matches!(&row.kind, RowKind::Without(layers) if layers.contains(&Layer::Landlock)),
        );
        if self.kernel.landlock_abi == 0 && names_landlock {
            return verdict("landlock", "this kernel has no Landlock".into());
        }
        for need in &document.needs {
            match need {
                Need::Cgroup if self.no_cgroup[caller as usize] => {
                    // For a root caller the other pass has them; that one is held to it.
                    if caller == Caller::Nobody {
                        return Some(Verdict::Ignored("needs cgroups, which nobody has".into()));
                    }
                    return verdict("cgroup", "no cgroup can be made here".into());
                }
                Need::X86_64 if !cfg!(target_arch = "x86_64") => {
                    return Some(Verdict::Ignored("an attack on x86-64".into()));
                }
                Need::Family(family) if !has(*family) => {
                    return verdict("attacks", format!("this kernel has no {family:?} sockets"));
                }
                _ => {}
            }
        }
        None
    }

    fn row(&self, caller: Caller, document: &Document, row: &Row) -> Verdict {
        for start in invocation::starts(document.face, &row.kind) {
            match self.row_started(caller, document, row, *start) {
                Verdict::Passed => {}
                other => return other,
            }
        }
        Verdict::Passed
    }

    fn row_started(&self, caller: Caller, document: &Document, row: &Row, start: Start) -> Verdict {
        let Some(canary) = canary() else {
            return Verdict::Failed("no randomness for a canary".into());
        };
        let words = program::words(&canary);
        let flags = match row.kind {
            RowKind::Twin => patient(&document.flags, self.slowness),
            _ => document.flags.clone(),
        };
        let flags = flags.iter().map(|flag| {
            words
                .iter()
                .fold(flag.clone(), |flag, (name, value)| flag.replace(&format!("${name}"), value))
        });
        let flags: Vec<String> = flags.collect();
        let invocation = invocation::of(document, &row.kind, start, &flags, &canary);
        let owner = match &row.kind {
            RowKind::Off | RowKind::Without(_) => self.thin(caller),
            RowKind::On(_) | RowKind::Twin => self.whole(caller),
        };
        let around = Around {
            setup: document.setup.clone(),
            check: document.check.clone().filter(|_| row.kind != RowKind::Twin),
            names: document.names.clone(),
        };
        let report = self.contain(caller, owner, invocation, Some(around), &canary);
        let how = match start {
            Start::Alone => "",
            Start::Warm => " in a warm worker",
        };
        let report = match report {
            Ok(report) => report,
            Err(error) => return Verdict::Failed(format!("row `{}`{how}: {error}", row.kind)),
        };
        let judged = judge(&row.kind, &row.expect, &report);
        match judged {
            Ok(None) => Verdict::Passed,
            Ok(Some(why)) if self.requires("attacks") => {
                Verdict::Failed(format!("RINGFENCE_TEST_REQUIRE names `attacks`: {why}"))
            }
            Ok(Some(why)) => Verdict::Ignored(format!("SKIPPED: {why}")),
            Err(why) => Verdict::Failed(format!(
                "row `{}`{how} expects `{}`: {why}\n{}\nstdout:\n{}\nstderr:\n{}{}",
                row.kind,
                row.expect,
                report.ended,
                report.stdout,
                report.stderr,
                report.check.as_ref().map_or(String::new(), |c| format!("\ncheck:\n{c}")),
            )),
        }
    }

    /// Whose container a row without the whole fence gets: never the host root's.
    fn thin(&self, caller: Caller) -> Owner {
        if self.root && caller == Caller::Own { Owner::Foreign } else { Owner::Caller }
    }

    /// Whose container a row behind the whole fence gets.
    fn whole(&self, caller: Caller) -> Owner {
        if self.root && caller == Caller::Own { Owner::HostRoot } else { Owner::Caller }
    }

    fn contain(
        &self,
        caller: Caller,
        owner: Owner,
        Invocation { argv, stdin }: Invocation,
        around: Option<Around>,
        canary: &str,
    ) -> Result<Report, String> {
        let Around { setup, check, names } = around.unwrap_or_default();
        let job = Job {
            stage: self.stage.path().to_owned(),
            owner,
            canary: canary.to_owned(),
            setup,
            check,
            names,
            argv,
            stdin,
        };
        let mut command = Command::new(self.stage.path().join("escapes"));
        command.arg("--container").stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).current_dir("/").env_remove("RUST_BACKTRACE");
        if caller == Caller::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        let text = serde_json::to_vec(&job).map_err(|e| e.to_string())?;
        let say = |e: std::io::Error| format!("container: {e}");
        // The container has a limit for the program of a row; this is for the container.
        let mut child = command.bounded_spawn_within(2 * limit()).map_err(say)?;
        if let Some(mut stdin) = child.stdin.take() {
            std::io::Write::write_all(&mut stdin, &text).map_err(say)?;
        }
        let done = child.wait_with_output().map_err(say)?;
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        serde_json::from_slice(&done.stdout).map_err(|e| format!("container: {e}"))
    }
}

/// What a row has besides its program.
#[derive(Default)]
struct Around {
    setup: Option<String>,
    check: Option<String>,
    names: Option<Vec<Named>>,
}

/// Compares; `Some` says why the attack cannot be tried on this kernel.
fn judge(kind: &RowKind, expect: &Expectation, report: &Report) -> Result<Option<String>, String> {
    // An attack that succeeds may have killed whoever would have told the outcome; then the check's word is enough.
    let told = report.check.is_none() || expect.line.as_deref() != Some("ESCAPED");
    let outcome: Option<Json> = match kind {
        RowKind::Off => None,
        _ if !told => None,
        _ => Some(
            serde_json::from_str(report.stdout.trim())
                .map_err(|e| format!("no outcome was printed: {e}"))?,
        ),
    };
    let text = |value: &Json, key: &str| -> Result<String, String> {
        let text = value[key].as_str().ok_or_else(|| format!("`{key}` is no text: {value}"))?;
        Ok(text.to_owned())
    };
    let stdout = match (&report.check, &outcome) {
        (Some(check), _) => check.clone(),
        (None, Some(outcome)) => text(outcome, "stdout")?,
        (None, None) => report.stdout.clone(),
    };
    let last = stdout.lines().last().unwrap_or_default();
    if *kind == RowKind::Off
        && let Some(why) = last.strip_prefix("ABSENT ")
    {
        return Ok(Some(why.to_owned()));
    }
    let status = outcome.as_ref().map(|o| text(o, "status")).transpose()?;
    if let Some(line) = &expect.line {
        if line != last {
            return Err(format!("the last line is `{last}`"));
        }
        // A twin must also end well; how an attack leaves does not matter, if it left by itself.
        let good: &[&str] = if *kind == RowKind::Twin { &["ok"] } else { &["ok", "error"] };
        let by_itself = status.as_ref().is_none_or(|s| good.contains(&s.as_str()));
        if expect.status.is_none() && !by_itself && report.check.is_none() {
            return Err(format!("the run ended with status `{}`", status.unwrap_or_default()));
        }
    }
    let Some(outcome) = &outcome else { return Ok(None) };
    if expect.status.is_none() && outcome["ran"] != "yes" {
        return Err("the program did not run".to_owned());
    }
    let error = &outcome["error"];
    let code = if error.is_null() { "none".to_owned() } else { text(error, "code")? };
    if expect.status.is_some() && expect.status != status {
        return Err(format!("the status is `{}`, code `{code}`", status.unwrap_or_default()));
    }
    if expect.code.as_ref().is_some_and(|c| *c != code) {
        return Err(format!("the code is `{code}`"));
    }
    if let Some(rule) = &expect.denial {
        let denials = outcome["denials"].as_array().into_iter().flatten();
        let denials: Vec<(&str, &str, &str)> = denials
            .filter_map(|denial| {
                let reason = denial.get("argument").and_then(Json::as_str).unwrap_or_default();
                Some((denial["rule"].as_str()?, denial["subject"].as_str()?, reason))
            })
            .collect();
        let fits = |(known, subject, reason): &(&str, &str, &str)| {
            known == rule
                && expect.subject.as_ref().is_none_or(|want| want == subject)
                && expect.because.as_ref().is_none_or(|want| reason.contains(want.as_str()))
        };
        if !denials.iter().any(fits) {
            return Err(format!("the denials are {denials:?}"));
        }
    }
    if let Some(connection) = &expect.connection {
        let connections = outcome.get("connections").and_then(Json::as_array);
        let known: Vec<String> = connections.into_iter().flatten().map(connection_text).collect();
        if !known.contains(connection) {
            return Err(format!("the connections are {known:?}"));
        }
    }
    Ok(None)
}

/// A connection of an outcome as documents write it.
fn connection_text(connection: &Json) -> String {
    let text = |key: &str| connection[key].as_str().unwrap_or_default().to_owned();
    let port = connection["port"].as_u64().map_or(String::new(), |port| format!(":{port}"));
    format!("{}/{}{port}", text("verdict"), text("host"))
}

/// `RINGFENCE_TEST_SLOWNESS`, for emulated machines.
fn slowness() -> Result<u32, String> {
    match std::env::var("RINGFENCE_TEST_SLOWNESS") {
        Ok(text) => text.parse().map_err(|_| format!("RINGFENCE_TEST_SLOWNESS: `{text}`")),
        Err(_) => Ok(1),
    }
}

/// The flags with more time: what a twin shows is that it works, and on a slow machine only starting may take as long
/// as a document allows the attack.
fn patient(flags: &[String], slowness: u32) -> Vec<String> {
    let mut flags = flags.to_vec();
    for at in 1..flags.len() {
        let seconds = flags[at].strip_suffix('s').and_then(|n| n.parse::<u32>().ok());
        if let (Some(seconds), "--timeout" | "--cpu") = (seconds, flags[at - 1].as_str()) {
            flags[at] = format!("{}s", seconds * slowness);
        }
    }
    flags
}

/// Returns true if such a socket can be had outside every fence.
fn has(family: Family) -> bool {
    let (family, kind, protocol) = match family {
        Family::Netfilter => {
            (AddressFamily::NETLINK, SocketType::RAW, Some(rustix::net::netlink::NETFILTER))
        }
        Family::Vsock => (AddressFamily::VSOCK, SocketType::STREAM, None),
    };
    rustix::net::socket(family, kind, protocol).is_ok()
}

/// Root of a user namespace is an ordinary user of the host: only the host's own has every id.
fn is_host_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn canary() -> Option<String> {
    let mut random = [0u8; 12];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).ok()?;
    let hex: Vec<String> = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("canary-{}", hex.concat()))
}

/// A directory anybody can read, with copies of the binaries: the build's own may be in somebody's home.
fn stage() -> std::io::Result<tempfile::TempDir> {
    let stage = tempfile::Builder::new().prefix("ringfence-escapes-").tempdir()?;
    let open = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(stage.path(), open())?;
    std::fs::create_dir(stage.path().join("root"))?;
    let binaries = [
        (std::env::current_exe()?, "escapes"),
        (PathBuf::from(env!("CARGO_BIN_EXE_ringfence")), "ringfence"),
    ];
    for (from, name) in binaries {
        let to = stage.path().join(name);
        std::fs::copy(from, &to)?;
        std::fs::set_permissions(&to, open())?;
    }
    Ok(stage)
}
