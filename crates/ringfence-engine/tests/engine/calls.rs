//! Programs and commands.

use std::time::{Duration, Instant};

use ringfence_audit::{Expectations, Record};
use ringfence_engine::admission::AdmissionSettings;
use ringfence_engine::{
    CodeCall, CodePolicy, CommandCall, HostContext, KeepFiles, Redaction, SessionOptions,
};
use ringfence_jail::Launcher;
use ringfence_spec::{AuditState, Code, CodePreset, Ran, Start, Status, WorkerSpeedups};

use crate::world::{World, on_runtime, policy};

fn code(code: &str) -> CodeCall {
    CodeCall { code: code.into(), ..CodeCall::default() }
}

fn shell(script: &str) -> CommandCall {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    CommandCall { argv, ..CommandCall::default() }
}

pub(crate) fn a_program_runs_and_is_written_down(world: &World) {
    let engine = world.engine();
    let ran = on_runtime(engine.execute("ann", code("print('hi')\n6 * 7")));
    assert_eq!(ran.outcome.status, Status::Ok, "{:?}", ran.outcome);
    assert_eq!((ran.outcome.stdout.as_str(), ran.outcome.value.as_deref()), ("hi\n", Some("42")));
    assert_eq!(ran.outcome.enforcement.unwrap().audit, AuditState::On);
    let rows = world.rows();
    let of_run: Vec<_> = rows.iter().filter(|r| r.client.as_deref() == Some("ann")).collect();
    assert_eq!(of_run.len(), 2, "{rows:?}");
    assert!(of_run.iter().all(|row| row.tool.as_deref() == Some("execute_code")));
    assert_eq!(of_run[0].run_id.as_deref(), Some(&*ran.outcome.run_id.to_string()));
    let metrics = engine.metrics();
    let counted = "ringfence_calls_total{tool=\"execute_code\",status=\"ok\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
}

pub(crate) fn each_level_of_speedups_runs_the_same_and_is_in_the_metrics(world: &World) {
    let levels = [
        (WorkerSpeedups::Off, &[][..]),
        (WorkerSpeedups::Safe, &["heap", "seeds"][..]),
        (WorkerSpeedups::Full, &["code", "fork", "heap", "seeds"][..]),
    ];
    for (level, parts) in levels {
        let policy = CodePolicy { speedups: level, ..policy(CodePreset::Open) };
        let engine = world.builder().code_policy(policy).build().unwrap();
        let drawn: std::collections::HashSet<_> = (0..4)
            .map(|_| {
                let program = "import random\nprint(random.getrandbits(64))";
                let outcome = on_runtime(engine.execute("ann", code(program))).outcome;
                assert_eq!(outcome.status, Status::Ok, "{level:?} {outcome:?}");
                // The fork that made the worker is not the program's.
                assert_eq!(outcome.denials, [], "{level:?}");
                outcome.stdout
            })
            .collect();
        assert_eq!(drawn.len(), 4, "{level:?}: two workers drew the same");
        let metrics = engine.metrics();
        let mut active: Vec<_> = metrics
            .lines()
            .filter_map(|line| {
                line.strip_prefix("ringfence_worker_speedup{part=\"")?.split('"').next()
            })
            // These depend on processor and kernel.
            .filter(|part| !["calls", "loop", "pages"].contains(part))
            .collect();
        active.sort_unstable();
        assert_eq!(active, parts, "{level:?}");
        let native = metrics.contains("ringfence_worker_speedup{part=\"loop\"}");
        assert_eq!(native, level == WorkerSpeedups::Full && cfg!(target_arch = "x86_64"));
    }
}

/// Processes below this one that are zygotes: Pythons whose parent is none.
fn zygotes() -> Vec<u32> {
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let stat = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = text.split_once('(')?.1.rsplit_once(')')?;
        let parent: u32 = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some((name.to_owned(), parent))
    };
    let is_python = |pid: u32| stat(pid).is_some_and(|(name, _)| name.starts_with("python"));
    let is_ours = |pid: u32| {
        let mut above = std::iter::successors(Some(pid), |pid| Some(stat(*pid)?.1));
        above.any(|pid| pid == std::process::id())
    };
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let parent = stat(*pid).map(|(_, parent)| parent);
        is_python(*pid) && parent.is_some_and(|parent| !is_python(parent)) && is_ours(*pid)
    })
    .collect()
}

pub(crate) fn a_zygote_that_dies_is_replaced_while_the_others_serve(world: &World) {
    const THREADS: usize = 4;
    let policy = CodePolicy { zygotes: "3".parse().ok(), ..policy(CodePreset::Open) };
    let engine = world.builder().code_policy(policy).parallel(THREADS).build().unwrap();
    engine.start_workers().unwrap();
    let up = |n: usize| {
        let line = format!("ringfence_zygotes_up {n}\n");
        let until = Instant::now() + ringfence_testing::limit();
        while !engine.metrics().contains(&line) {
            assert!(Instant::now() < until, "{}", engine.metrics());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    up(3);
    let (_wanted, cancel) = ringfence_engine::cancel::pair().unwrap();
    let call = ringfence_engine::Call::Code(code("print(1)"));
    let killed = std::sync::atomic::AtomicBool::new(false);
    let (n_ok, n_killed) = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut n_ok, mut n_killed, mut n_after) = (0, 0, 0);
                    while n_after < 25 {
                        n_after += usize::from(killed.load(std::sync::atomic::Ordering::SeqCst));
                        match engine.run_blocking("ann", "test", &call, &cancel).outcome {
                            outcome if outcome.status == Status::Ok => n_ok += 1,
                            // Its worker was one of the zygote's.
                            outcome if outcome.status == Status::Killed => n_killed += 1,
                            outcome => panic!("{outcome:?}"),
                        }
                    }
                    (n_ok, n_killed)
                })
            })
            .collect();
        let victims = zygotes();
        assert_eq!(victims.len(), 3, "{victims:?}");
        let victim = rustix::process::Pid::from_raw(victims[0].cast_signed()).unwrap();
        rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
        killed.store(true, std::sync::atomic::Ordering::SeqCst);
        let ended = runs.into_iter().map(|run| run.join().unwrap());
        ended.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1))
    });
    // Besides those that ran at that moment, none noticed.
    assert!(n_killed <= THREADS && n_ok >= 25 * THREADS - n_killed, "{n_ok} {n_killed}");
    up(3);
    assert!(engine.metrics().contains("ringfence_zygotes_total 4\n"), "{}", engine.metrics());
}

pub(crate) fn a_command_runs_and_is_written_down(world: &World) {
    let engine = world.engine();
    let call =
        CommandCall { stdin: b"in".to_vec(), ..shell("cat; echo out; echo err >&2; exit 3") };
    let ran = on_runtime(engine.command("ann", call));
    let outcome = ran.outcome;
    assert_eq!((outcome.status, outcome.exit_code), (Status::Error, Some(3)), "{outcome:?}");
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("inout\n", "err\n"));
    assert_eq!(world.rows().iter().filter(|r| r.client.as_deref() == Some("ann")).count(), 2);
}

pub(crate) fn what_screening_refuses_does_not_run(world: &World) {
    let engine = world.builder().code_policy(policy(CodePreset::Standard)).build().unwrap();
    let ran = on_runtime(engine.execute("ann", code("import os\nos.remove('x')")));
    assert_eq!((ran.outcome.status, ran.outcome.ran), (Status::Blocked, Ran::No));
    assert_eq!(ran.outcome.denials[0].rule.as_str(), "import_not_allowed");
}

pub(crate) fn a_client_can_only_narrow_its_time(world: &World) {
    let engine = world.engine();
    let (brief, long) = (Duration::from_millis(300), Duration::from_secs(9999));
    on_runtime(async {
        let call = CodeCall { timeout: Some(brief), ..code("while True: pass") };
        let ran = engine.execute("ann", call).await;
        assert_eq!(ran.outcome.status, Status::Timeout);
        let call = CommandCall { timeout: Some(brief), ..shell("sleep 30") };
        assert_eq!(engine.command("ann", call).await.outcome.status, Status::Timeout);
        let call = CodeCall { timeout: Some(Duration::ZERO), ..code("while True: pass") };
        assert_eq!(engine.execute("ann", call).await.outcome.status, Status::Timeout);
        let call = CodeCall { timeout: Some(long), ..code("1") };
        let outcome = engine.execute("ann", call).await.outcome;
        assert_eq!(outcome.status, Status::Ok);
        let note = "the operator's time limit of 30s was used: 9999 s is above it";
        assert_eq!(outcome.notes, [note]);
        let call = CommandCall { timeout: Some(long), ..shell("true") };
        let outcome = engine.command("ann", call).await.outcome;
        assert_eq!((outcome.status, outcome.notes.len()), (Status::Ok, 1));
        let call = CommandCall { timeout: Some(Duration::from_secs(10)), ..shell("true") };
        assert!(engine.command("ann", call).await.outcome.notes.is_empty());
    });
}

pub(crate) fn a_dropped_call_ends_its_processes(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        // So that what follows measures cancellation, not the start of a pool.
        engine.execute("ann", code("1")).await;
        let brief = Duration::from_millis(400);
        let endless = engine.execute("ann", code("while True: pass"));
        assert!(tokio::time::timeout(brief, endless).await.is_err());
        let endless = engine.command("ann", shell("sleep 1000 & while :; do :; done"));
        assert!(tokio::time::timeout(brief, endless).await.is_err());
        // A call gives its place back before its last row is written, by a task that ends with this runtime. On a busy
        // machine the second one may not have begun by then, and is told as interrupted.
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_ended = |row: &ringfence_audit::Record| {
            let code = row.details.as_ref().and_then(|d| d["code"].as_str());
            matches!(code, Some("cancelled" | "interrupted"))
        };
        while engine.admission().counts().running > 0
            || world.rows().iter().filter(|row| is_ended(row)).count() < 2
        {
            assert!(Instant::now() < deadline, "still running: {:#?}", world.rows());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

pub(crate) fn a_rejected_call_says_when_to_come_again(world: &World) {
    let settings = AdmissionSettings { rate_per_minute: Some(1), ..AdmissionSettings::default() };
    let engine = world.builder().admission(settings).build().unwrap();
    on_runtime(async {
        assert_eq!(engine.execute("ann", code("1")).await.outcome.status, Status::Ok);
        let ran = engine.execute("ann", code("1")).await;
        assert_eq!((ran.outcome.status, ran.outcome.ran), (Status::Rejected, Ran::No));
        let error = ran.outcome.error.unwrap();
        assert_eq!((error.code.as_str(), error.retry_after_ms), ("rate_limited", Some(60_000)));
        assert_eq!(engine.execute("bob", code("1")).await.outcome.status, Status::Ok);
    });
    assert!(
        world.rows().iter().any(|row| row.status == Some(ringfence_audit::RunStatus::Rejected))
    );
}

pub(crate) fn two_engines_of_one_process_end_each_for_itself(_: &World) {
    let (first, second) = (Launcher::start().unwrap(), Launcher::start().unwrap());
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(first);
        let _ = done.send(());
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(30)), Ok(()), "it waits for the other");
    drop(second);
}

/// How far files of this process may grow: past it the disk is full.
fn room(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

pub(crate) fn while_the_ledger_is_full_nothing_runs(world: &World) {
    // SIGXFSZ: writes past the limit then fail instead of killing.
    ringfence_sys::ignore(25);
    let engine = world.engine();
    let work = |name: &str| world.work().join(name);
    let intake = || std::fs::metadata(world.ledger().join("ledger.intake")).unwrap().len();
    on_runtime(async {
        assert_eq!(engine.execute("ann", code("1")).await.outcome.status, Status::Ok);
        // Room for half a row.
        let before = intake();
        room(Some(before + 100));
        for _ in 0..3 {
            let command = engine.command("ann", shell("touch ran")).await.outcome;
            let program = engine.execute("ann", code("print(1)")).await.outcome;
            for outcome in [command, program] {
                assert_eq!((outcome.status, outcome.ran), (Status::Failed, Ran::No), "{outcome:?}");
                assert_eq!(
                    (outcome.error.unwrap().code.as_str(), outcome.stdout),
                    ("ledger_full", String::new())
                );
            }
            assert!(engine.session_create("ann", SessionOptions::default()).await.is_err());
        }
        assert!(!work("ran").exists());
        assert_eq!(intake(), before, "half a row is left");
        room(None);
        // Each program that was refused took a worker with it; who comes when there is one again finds it.
        while engine.metrics().contains("ringfence_workers_waiting 0\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let outcome = engine.execute("ann", code("print(1)")).await.outcome;
        assert_eq!((outcome.status, outcome.start), (Status::Ok, Some(Start::Warm)), "{outcome:?}");
        // It fills up while a command runs: what was done is told, and that it could not be written down.
        let running = engine.clone();
        let script = "touch began; while [ ! -e go ]; do sleep 0.05; done; echo done";
        let running = tokio::spawn(async move { running.command("ann", shell(script)).await });
        while !work("began").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        room(Some(intake() + 100));
        std::fs::write(work("go"), "").unwrap();
        let outcome = running.await.unwrap().outcome;
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Failed, "done\n"));
        assert_eq!(outcome.error.unwrap().code.as_str(), "ledger_full");
        room(None);
        assert_eq!(engine.command("ann", shell("true")).await.outcome.status, Status::Ok);
    });
    let found = ringfence_audit::verify(&world.ledger(), &Expectations::default()).unwrap();
    assert!(found.intact, "{:?}", found.findings);
}

pub(crate) fn rules_refuse_and_alerts_are_raised(world: &World) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let rules = r#"{"deny": [{"name": "no-push", "commands": [{"program": "git", "arguments": ["push"]}]},
                             {"name": "no-keys", "tools": ["read_file"], "paths": ["**/*.pem"]}]}"#;
    let n_told = std::sync::Arc::new(AtomicUsize::new(0));
    let told = std::sync::Arc::clone(&n_told);
    let sink: ringfence_engine::AlertSink = Box::new(move |_| {
        told.fetch_add(1, Ordering::SeqCst);
    });
    let watch = ringfence_engine::watch::AlertSettings { bytes_read: 4096, ..Default::default() };
    let builder = world.builder().rules(serde_json::from_str(rules).unwrap());
    let engine = builder.on_alert(sink).watch(watch).build().unwrap();
    on_runtime(async {
        let outcome = engine.command("ann", shell("true && git push")).await.outcome;
        assert_eq!((outcome.status, outcome.ran), (Status::Blocked, Ran::No), "{outcome:?}");
        assert!(outcome.error.unwrap().message.contains("no-push"));
        let outcome = engine.command("ann", shell("echo git push")).await.outcome;
        assert_eq!(outcome.stdout, "git push\n");
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let read = |path: &'static str| engine.file_read("ann", &id, path.into(), 0, None);
        assert_eq!(read("a/key.pem").await.unwrap_err().code.as_str(), "rule");
        assert_eq!(read("../../etc/passwd").await.unwrap_err().code.as_str(), "path_outside");
        let options = ringfence_engine::files::WriteOptions::default();
        engine.file_write("ann", &id, "large".into(), vec![b'x'; 5000], options).await.unwrap();
        assert_eq!(read("large").await.unwrap().bytes.len(), 5000);
    });
    assert!(n_told.load(Ordering::SeqCst) > 0, "leaving the workspace is told");
    let rows = world.rows();
    let alert = rows.iter().find(|row| row.kind == Some(ringfence_audit::Kind::Alert)).unwrap();
    assert_eq!(alert.client.as_deref(), Some("ann"));
    let is_about = |name: &str| rows.iter().any(|row| format!("{row:?}").contains(name));
    assert!(is_about("large_read"), "bytes that a client reads are counted: {rows:#?}");
    assert!(rows.iter().all(|row| row.run_id.is_none() || row.risk.is_some()), "{rows:#?}");
}

pub(crate) fn secrets_are_not_written_down(world: &World) {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9".repeat(2));
    let engine = world.builder().redaction(Redaction::Answers).build().unwrap();
    let ran = on_runtime(engine.command("ann", shell(&format!("echo token {secret}"))));
    assert_eq!(ran.outcome.status, Status::Ok);
    assert!(!ran.outcome.stdout.contains(&secret), "{}", ran.outcome.stdout);
    let ran = on_runtime(engine.execute("ann", code(&format!("print('{secret}')"))));
    assert!(!ran.outcome.stdout.contains(&secret), "{}", ran.outcome.stdout);
    drop(engine);
    let mut pending = vec![world.ledger()];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{path:?} holds the secret");
        }
    }
}

/// Entries of a directory of the kernel's about this process.
fn count(dir: &str) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

/// Processes that are children of this one, or of its children.
fn descendants(of: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let children =
        std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        found.push(child);
        found.extend(descendants(child));
    }
    found
}

/// Files that no listing names, deeper than it goes, are held with a result all the same.
pub(crate) fn results_are_kept_by_the_memory_they_hold(world: &World) {
    let engine = world.engine();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (megabytes, is_kept) in [(0, true), (20, false)] {
        let program = format!(
            "import os\nfor n in range(18):\n    os.mkdir('d')\n    os.chdir('d')\nwith open('f', 'wb') as f:\n    f.write(bytes({megabytes} << 20))"
        );
        let first = runtime.block_on(async {
            let mut first = None;
            for _ in 0..3 {
                let run = engine.start("me", "me", code(&program), KeepFiles::Yes).unwrap();
                let ended = run.ended().await.unwrap();
                assert_eq!(ended.outcome.status, Status::Ok, "{:?}", ended.outcome.error);
                assert!(ended.outcome.artifacts.is_empty(), "{:?}", ended.outcome.artifacts);
                first.get_or_insert_with(|| run.id().to_string());
            }
            // The next one puts those of before in order.
            let last = engine.start("me", "me", code("1"), KeepFiles::Yes).unwrap();
            last.ended().await.unwrap();
            first.unwrap()
        });
        assert_eq!(engine.find_run("me", &first).is_some(), is_kept, "{megabytes} MB");
    }
}

pub(crate) fn the_last_handle_ends_everything(world: &World) {
    let engine = world.engine();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (run, kept) = runtime.block_on(async {
        let session = engine.session_create("me", SessionOptions::default()).await.unwrap().id;
        let cell = CodeCall { session: Some(session), ..code("x = 1") };
        assert_eq!(engine.execute("me", cell).await.outcome.status, Status::Ok);
        assert_eq!(engine.execute("me", code("1")).await.outcome.status, Status::Ok);
        let call = CommandCall {
            argv: ["sh", "-c", "echo up; sleep 600"].map(Into::into).to_vec(),
            ..CommandCall::default()
        };
        let run = engine.start("me", "me", call, KeepFiles::No).unwrap();
        while run.partial().stdout.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(engine.find_run("me", &run.id().to_string()).is_some());
        assert!(engine.find_run("other", &run.id().to_string()).is_none());
        assert_eq!(engine.n_running(), 1);
        (run, engine.clone())
    });
    let own = std::process::id();
    assert!(count("/proc/self/task") > 1 && descendants(own).len() > 3);
    drop(engine);
    assert!(run.is_running(), "another handle holds it");
    drop(kept);
    runtime.block_on(async { assert!(run.ended().await.is_none()) });
    drop(runtime);
    let began = std::time::Instant::now();
    while count("/proc/self/task") > 1 || !descendants(own).is_empty() {
        assert!(began.elapsed() < ringfence_testing::limit(), "{:?}", descendants(own));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub(crate) fn a_panic_is_one_calls_problem(world: &World) {
    const STAGES: [&str; 5] = ["inspect", "launch", "collect", "record", "observe"];
    // A client is named after the stage that its calls panic at.
    let engine = world.builder().on_stage(|stage, client| {
        assert!(stage != client, "a panic of the test's at `{stage}`");
    });
    let engine = engine.build().unwrap();
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        if !text.contains("of the test's") {
            eprintln!("{text}");
        }
    }));
    on_runtime(async {
        let mut sessions = std::collections::HashMap::new();
        for client in STAGES {
            let id = engine.session_create(client, SessionOptions::default()).await.unwrap().id;
            sessions.insert(client, id);
        }
        let good = async {
            for n in 0..40 {
                let ran = engine.execute("good", code(&format!("{n} + 1"))).await;
                let value = (n + 1).to_string();
                assert_eq!(ran.outcome.value.as_deref(), Some(value.as_str()), "{:?}", ran.outcome);
            }
        };
        let bad = async {
            for client in STAGES.iter().cycle().take(40) {
                let cell = CodeCall { session: sessions.get(client).cloned(), ..code("1") };
                let outcomes = [
                    engine.execute(client, code("1")).await.outcome,
                    engine.command(client, shell("true")).await.outcome,
                    engine.execute(client, cell).await.outcome,
                ];
                for outcome in outcomes {
                    let error = outcome.error.map(|error| error.code.as_str());
                    match *client {
                        // The answer was there already.
                        "observe" => assert_ne!(outcome.status, Status::Failed, "{error:?}"),
                        _ => assert_eq!(
                            (outcome.status, error),
                            (Status::Failed, Some("internal")),
                            "{client}"
                        ),
                    }
                }
            }
        };
        tokio::join!(good, bad);
        assert_eq!(engine.admission().counts().running, 0);
        assert_eq!(engine.n_running(), 0);
    });
    let _ = std::panic::take_hook();
    let rows = world.rows();
    for client in ["inspect", "launch", "collect"] {
        let ends = rows.iter().filter(|row| row.client.as_deref() == Some(client));
        let is_internal = |row: &&Record| {
            row.details.as_ref().is_some_and(|details| details["code"] == "internal")
        };
        let failed = ends.filter(is_internal).count();
        assert_eq!(failed, 24, "{client}");
    }
}

/// Commands of an engine start in the directory it was built for, not in whatever a run has put at that path.
pub(crate) fn a_working_directory_that_a_run_replaced_is_not_followed(world: &World) {
    let (sub, victim) = (world.work().join("sub"), world.data().parent().unwrap().join("victim"));
    std::fs::create_dir(&sub).unwrap();
    std::fs::create_dir(&victim).unwrap();
    let place = HostContext { cwd: sub.clone(), ..world.place() };
    let engine = world.builder().host(place).build().unwrap();
    let ran = on_runtime(engine.command("ann", shell("touch made")));
    assert_eq!(ran.outcome.status, Status::Ok, "{:?}", ran.outcome);
    std::fs::rename(&sub, world.work().join("moved")).unwrap();
    std::os::unix::fs::symlink(&victim, &sub).unwrap();
    for directory in [false, true] {
        if directory {
            std::fs::remove_file(&sub).unwrap();
            std::fs::create_dir(&sub).unwrap();
        }
        let ran = on_runtime(engine.command("ann", shell("touch planted")));
        let error = ran.outcome.error.as_ref();
        assert_eq!(error.map(|e| e.code), Some(Code::CwdMoved), "{:?}", ran.outcome);
    }
    assert!(!victim.join("planted").exists() && !sub.join("planted").exists());
}
