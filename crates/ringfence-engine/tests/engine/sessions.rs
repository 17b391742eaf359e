//! Sessions.

use std::time::{Duration, Instant};

use ringfence_engine::{
    CodeCall, CommandCall, Engine, ReplState, SessionId, SessionOptions, SessionSettings,
};
use ringfence_spec::{Outcome, Status};

use crate::world::{World, on_runtime};

async fn cell(engine: &Engine, owner: &str, session: &SessionId, code: &str) -> Outcome {
    let call =
        CodeCall { code: code.into(), session: Some(session.to_owned()), ..CodeCall::default() };
    engine.execute(owner, call).await.outcome
}

pub(crate) fn a_session_keeps_variables_and_files(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let outcome = cell(&engine, "ann", &id, "x = 41\nopen('a.txt', 'w').write('kept')").await;
        assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
        let outcome = cell(&engine, "ann", &id, "import os\nos._exit(7)").await;
        assert_eq!(outcome.status, Status::Killed, "{outcome:?}");
        let outcome = cell(
            &engine,
            "ann",
            &id,
            "import os\nx + 1, open('a.txt').read(), os.environ['SESSION_ID']",
        )
        .await;
        assert_eq!(outcome.value, Some(format!("(42, 'kept', '{id}')")), "{outcome:?}");
        assert_eq!(outcome.session_id.as_deref(), Some(id.as_str()));
        let argv = ["sh", "-c", "cat a.txt; echo more > b.txt"].map(Into::into).to_vec();
        let call = CommandCall { argv, session: Some(id.clone()), ..CommandCall::default() };
        let outcome = engine.command("ann", call).await.outcome;
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Ok, "kept"), "{outcome:?}");
        let outcome = cell(&engine, "ann", &id, "open('b.txt').read()").await;
        assert_eq!(outcome.value.as_deref(), Some("'more\\n'"), "{outcome:?}");
        cell(
            &engine,
            "ann",
            &id,
            "import os\nos.mkdir('r')\nopen('r/x', 'w').close()\nos.chmod('r', 0)",
        )
        .await;
        engine.session_close("ann", &id).await.unwrap();
        assert!(!world.data().join("sessions").join(id.as_str()).exists());
        let outcome = cell(&engine, "ann", &id, "1").await;
        assert_eq!(outcome.error.unwrap().code.as_str(), "session_unknown");
    });
}

pub(crate) fn a_cell_lists_the_files_it_made_or_changed(world: &World) {
    // Stands for matplotlib, which need not be installed: one figure, current, with a flag that it changed.
    const FIGURES: &str = r#"
import sys, types
class Figure:
    number, stale = 1, True
    def savefig(self, path):
        open(path, "wb").write(b"\x89PNG")
        self.stale = False
figure, plt = Figure(), types.ModuleType("matplotlib.pyplot")
plt.get_fignums, plt.gcf, plt.figure = lambda: [1], lambda: figure, lambda number: figure
sys.modules["matplotlib.pyplot"] = plt
"#;
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let write = |name: &'static str, text: &'static str| {
            let options = ringfence_engine::files::WriteOptions::default();
            engine.file_write("ann", &id, name.into(), text.into(), options)
        };
        write("given", "1").await.unwrap();
        let artifacts = async |code: &str| {
            let outcome = cell(&engine, "ann", &id, code).await;
            assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
            outcome.artifacts.into_iter().map(|a| (a.path, a.bytes)).collect::<Vec<_>>()
        };
        let listed = |list: &[(&str, u64)]| {
            list.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)).collect::<Vec<_>>()
        };
        let code =
            "import os\nos.mkdir('d')\nopen('a', 'w').write('12')\nopen('d/b', 'w').write('3')";
        assert_eq!(artifacts(code).await, listed(&[("a", 2), ("d/b", 1)]));
        assert_eq!(artifacts("open('a').read()").await, []);
        // The same size, and times set back.
        let code = "import os\nopen('a', 'w').write('34')\nos.utime('a', (0, 0))";
        assert_eq!(artifacts(code).await, listed(&[("a", 2)]));
        assert_eq!(artifacts("os.rename('given', 'taken')").await, listed(&[("taken", 1)]));
        // A file of the client's is not the program's.
        write("given", "again").await.unwrap();
        assert_eq!(artifacts("1").await, []);
        let outcome = cell(&engine, "ann", &id, "open('a', 'w').write('5')\n1 / 0").await;
        assert_eq!(outcome.artifacts.len(), 1, "{outcome:?}");

        assert_eq!(artifacts(FIGURES).await, listed(&[("figure-1.png", 4)]));
        assert_eq!(artifacts("1").await, []);
        assert_eq!(artifacts("figure.stale = True").await, listed(&[("figure-2.png", 4)]));
        assert_eq!(artifacts("def no(path): raise ValueError('cannot draw')\nfigure.stale, figure.savefig = True, no").await, []);
        let outcome = cell(&engine, "ann", &id, "2").await;
        assert_eq!(
            (outcome.value.as_deref(), outcome.stderr.contains("cannot draw")),
            (Some("2"), true)
        );
    });
}

pub(crate) fn foreign_and_unknown_ids_are_alike(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let anns = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let unknown = "0".repeat(32);
        let traversal = "../../../../../../../../etc/pas";
        let mut answers = Vec::new();
        for id in [anns.as_str(), &unknown, traversal, "", "\0"] {
            let id = &SessionId::from(id);
            let asked = Instant::now();
            let answer = engine.session_info("bob", id).await.unwrap_err();
            let took = asked.elapsed();
            assert!(took >= Duration::from_millis(5), "{id}: {took:?}");
            answers.push((answer.code, answer.message, answer.hint));
            assert_eq!(
                cell(&engine, "bob", id, "1").await.error.unwrap().code.as_str(),
                "session_unknown"
            );
            assert!(engine.session_fork("bob", id).await.is_err());
            assert!(engine.session_close("bob", id).await.is_err());
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert!(engine.session_list("bob").await.unwrap().is_empty());
        assert!(engine.session_info("ann", &anns).await.is_ok());
    });
}

pub(crate) fn a_fork_is_a_copy(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let make = "import os\nos.makedirs('d/e')\nopen('d/e/f', 'w').write('1')\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')";
        let outcome = cell(&engine, "ann", &id, make).await;
        assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
        let copy = engine.session_fork("ann", &id).await.unwrap();
        assert_eq!(copy.forked_from.as_ref().unwrap(), &id);
        let copy = copy.id;
        cell(&engine, "ann", &copy, "open('d/e/f', 'w').write('2')").await;
        let outcome =
            cell(&engine, "ann", &id, "import os\nopen('d/e/f').read(), os.readlink('link')").await;
        assert_eq!(outcome.value.as_deref(), Some("('1', '/etc/passwd')"), "{outcome:?}");
        let outcome =
            cell(&engine, "ann", &copy, "import os\nopen('d/e/f').read(), sorted(os.listdir('.'))")
                .await;
        assert_eq!(outcome.value.as_deref(), Some("('2', ['d', 'link'])"), "{outcome:?}");
    });
}

pub(crate) fn rollback_takes_variables_back(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        for code in ["x = 1", "x = 2", "x = 3"] {
            assert_eq!(cell(&engine, "ann", &id, code).await.status, Status::Ok);
        }
        let info = engine.session_rollback("ann", &id, 1).await.unwrap();
        assert_eq!(info.repl, ReplState::Live);
        assert_eq!(cell(&engine, "ann", &id, "x").await.value.as_deref(), Some("1"));
        assert!(engine.session_rollback("ann", &id, 99).await.is_err());
    });
}

pub(crate) fn sessions_live_and_die_to_the_second(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        cell(&engine, "ann", &id, "x = 1\nopen('f', 'w').write('kept')").await;
        world.clock.advance_ms(2 * 3_600_000 - 1);
        assert!(engine.sweep().await.unwrap().dormant.is_empty());
        world.clock.advance_ms(1);
        let swept = engine.sweep().await.unwrap();
        assert_eq!(swept.dormant.len(), 1);
        assert_eq!(engine.session_info("ann", &id).await.unwrap().repl, ReplState::Dormant);
        let outcome = cell(&engine, "ann", &id, "open('f').read(), 'x' in globals()").await;
        assert_eq!(outcome.value.as_deref(), Some("('kept', False)"));
        assert_eq!(outcome.error.unwrap().code.as_str(), "session_woke");
        world.clock.advance_ms(22 * 3_600_000 - 1);
        assert!(engine.session_info("ann", &id).await.is_ok());
        world.clock.advance_ms(1);
        assert_eq!(
            engine.session_info("ann", &id).await.unwrap_err().code.as_str(),
            "session_unknown"
        );
        assert_eq!(engine.sweep().await.unwrap().expired.len(), 1);
        assert!(!world.data().join("sessions").join(id.as_str()).exists());
    });
}

pub(crate) fn a_quota_ends_the_cell_that_passes_it(world: &World) {
    let settings = SessionSettings { quota_bytes: 4 << 20, ..SessionSettings::default() };
    let engine = world.builder().sessions(settings).build().unwrap();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        cell(&engine, "ann", &id, "x = 1\nopen('kept', 'w').write('kept')").await;
        let fill = "import os, time\nwhile True:\n    with open('big', 'ab') as f: f.write(bytes(1 << 16)); f.flush()\n    time.sleep(0.002)";
        let outcome = cell(&engine, "ann", &id, fill).await;
        assert_eq!(outcome.status, Status::Killed, "{outcome:?}");
        assert_eq!(outcome.error.unwrap().code.as_str(), "quota_exceeded");
        let outcome = cell(&engine, "ann", &id, "1").await;
        assert_eq!(outcome.error.unwrap().code.as_str(), "quota_exceeded", "nothing more runs");
        std::fs::remove_file(world.data().join("sessions").join(id.as_str()).join("workspace/big"))
            .unwrap();
        let outcome = cell(&engine, "ann", &id, "x, open('kept').read()").await;
        assert_eq!(outcome.value.as_deref(), Some("(1, 'kept')"), "{outcome:?}");
    });
}

/// Interpreters stay in memory between cells: a client with many sessions keeps the variables of those used last.
pub(crate) fn the_interpreters_of_an_owner_are_limited(world: &World) {
    let settings =
        SessionSettings { live_per_owner_max: 2, live_max: 3, ..SessionSettings::default() };
    let engine = world.builder().sessions(settings).build().unwrap();
    on_runtime(async {
        let mut ids = Vec::new();
        // Ann's third takes her first's place, and of the four then the owner with the most gives way.
        for owner in ["ann", "ann", "ann", "bob", "eve"] {
            let id = engine.session_create(owner, SessionOptions::default()).await.unwrap().id;
            let outcome = cell(&engine, owner, &id, "x = 1").await;
            assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
            ids.push((owner, id));
        }
        let mut live = Vec::new();
        for (owner, id) in &ids {
            live.push(engine.session_info(owner, id).await.unwrap().repl == ReplState::Live);
        }
        assert_eq!(live, [false, false, true, true, true]);
        let outcome = cell(&engine, "ann", &ids[0].1, "'x' in globals()").await;
        assert_eq!(outcome.value.as_deref(), Some("False"), "{outcome:?}");
        assert_eq!(outcome.error.unwrap().code.as_str(), "session_woke");
    });
}

pub(crate) fn a_changed_state_is_refused(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let file = world.data().join("sessions").join(id.as_str()).join("session.json");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"ann\"", "\"bob\"")).unwrap();
        assert_eq!(
            engine.session_info("bob", &id).await.unwrap_err().code.as_str(),
            "session_tampered"
        );
        std::fs::write(&file, &text).unwrap();
        assert!(engine.session_info("ann", &id).await.is_ok());
        std::fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert_eq!(
            engine.session_info("ann", &id).await.unwrap_err().code.as_str(),
            "session_tampered"
        );
    });
}

pub(crate) fn closing_ends_the_cell_that_runs(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        assert_eq!(cell(&engine, "ann", &id, "x = 1").await.status, Status::Ok);
        let run = |code: &'static str| {
            let (engine, id) = (engine.clone(), id.clone());
            tokio::spawn(async move { cell(&engine, "ann", &id, code).await })
        };
        let endless = run("open('began', 'w').close()\nwhile True: pass");
        let began = world.data().join("sessions").join(id.as_str()).join("workspace/began");
        while !began.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let waiting = run("x");
        let asked = Instant::now();
        engine.session_close("ann", &id).await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(25), "{:?}", asked.elapsed());
        let outcome = endless.await.unwrap();
        assert_eq!(outcome.error.unwrap().code.as_str(), "cancelled");
        // It came before the end or behind it, but it does not run in a session that is gone.
        assert_eq!(waiting.await.unwrap().error.unwrap().code.as_str(), "session_unknown");
        assert!(!world.data().join("sessions").join(id.as_str()).exists());
    });
}

pub(crate) fn closing_ends_the_command_that_runs(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let command = |script: &str| {
            let argv = ["sh", "-c", script].map(Into::into).to_vec();
            let call = CommandCall { argv, session: Some(id.clone()), ..CommandCall::default() };
            let engine = engine.clone();
            tokio::spawn(async move { engine.command("ann", call).await.outcome })
        };
        let session = world.data().join("sessions").join(id.as_str());
        // One that makes what is removed again, as fast as it can.
        let endless =
            command("touch began; while :; do mkdir -p x/y; ln -sfn /usr z; touch x/y/f; done");
        while !session.join("workspace/began").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let asked = Instant::now();
        engine.session_close("ann", &id).await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(25), "{:?}", asked.elapsed());
        assert!(!session.exists());
        assert_eq!(endless.await.unwrap().error.unwrap().code.as_str(), "cancelled");
        let late = command("true").await.unwrap();
        assert_eq!(late.error.unwrap().code.as_str(), "session_unknown");
    });
}

/// Two engines on one data directory stand for two processes: each has its own list of sessions.
pub(crate) fn a_session_closed_elsewhere_is_removed_after_its_last_run(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let session = world.data().join("sessions").join(id.as_str());
        let argv = ["sh", "-c", "touch began; sleep 600"].map(Into::into).to_vec();
        let call = CommandCall { argv, session: Some(id.clone()), ..CommandCall::default() };
        let run = engine.clone();
        let run = tokio::spawn(async move { run.command("ann", call).await.outcome });
        while !session.join("workspace/began").exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (data, settings) = (world.data(), SessionSettings::default());
        let clock = std::sync::Arc::clone(&world.clock) as std::sync::Arc<_>;
        let refused = tokio::task::spawn_blocking(move || {
            let other = ringfence_engine::Sessions::open(&data, settings, clock).unwrap();
            let refused = other.close("ann", &id).unwrap_err();
            other.sweep();
            refused
        });
        assert_eq!(refused.await.unwrap().code.as_str(), "session_unremovable");
        assert!(session.join("workspace/began").exists(), "a run still works there");
        // Finds the session closed, and ends its run.
        engine.sweep().await.unwrap();
        assert_eq!(run.await.unwrap().error.unwrap().code.as_str(), "cancelled");
        engine.sweep().await.unwrap();
        assert!(!session.exists());
    });
}

pub(crate) fn closing_removes_trees_of_any_depth_and_permissions(world: &World) {
    // Deeper than a path or a table of descriptors is long. The kernel's rules look at every parent of each new directory: the
    // time grows with the square.
    const DEEP: &str = "import os\nos.mkdir('a')\nopen('a/f', 'w').close()\nos.chmod('a', 0o555)\n\
                        os.mkdir('closed')\nos.chmod('closed', 0)\nos.symlink('/usr', 'link')\n\
                        for _ in range(6_000): os.mkdir('d'); os.chdir('d')";
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let outcome = cell(&engine, "ann", &id, DEEP).await;
        assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
        let session = world.data().join("sessions").join(id.as_str());
        // The same as left by a service that was killed while it closed the session.
        let left = session.with_file_name("0123456789abcdef".repeat(2));
        let second = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let outcome = cell(&engine, "ann", &second, DEEP).await;
        assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
        std::fs::create_dir(&left).unwrap();
        let workspace = session.with_file_name(second.as_str()).join("workspace");
        std::fs::rename(workspace, left.join("workspace")).unwrap();
        // What a slow disk does not remove in time is left to the sweep.
        let _ = engine.session_close("ann", &id).await;
        // One sweep has ten seconds, and a slow disk needs more.
        for _ in 0..20 {
            engine.sweep().await.unwrap();
            if !left.exists() && !session.exists() {
                return;
            }
        }
        panic!("{left:?} is not removed");
    });
}

pub(crate) fn what_a_killed_maker_left_is_no_session_and_goes(world: &World) {
    let half = world.data().join("sessions").join("0123456789abcdef".repeat(2));
    std::fs::create_dir_all(half.join("workspace/d")).unwrap();
    std::fs::write(half.join("session.json.next"), "{").unwrap();
    std::fs::write(world.data().join("sessions.key.next"), "short").unwrap();
    let engine = world.engine();
    on_runtime(async {
        let whole = engine.session_create("ann", SessionOptions::default()).await.unwrap();
        assert!(!half.exists());
        assert!(!world.data().join("sessions.key.next").exists());
        engine.sweep().await.unwrap();
        assert_eq!(engine.session_list("ann").await.unwrap(), [whole]);
    });
}

pub(crate) fn files_of_a_session_are_its_owners(world: &World) {
    use ringfence_engine::files::{Depth, Edit, OnConflict, Precondition, WriteOptions};
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let write = |owner: &'static str, path: &'static str| {
            let content = b"print('from a file')".to_vec();
            engine.file_write(owner, &id, path.into(), content, WriteOptions::default())
        };
        write("ann", "a.py").await.unwrap();
        write("ann", "edited.py").await.unwrap();
        let edits = vec![Edit { old: "from a".to_owned(), new: "of the".to_owned(), all: false }];
        let path = "edited.py".into();
        engine.file_edit("ann", &id, path, edits, Precondition::Any).await.unwrap();
        assert_eq!(write("bob", "b.py").await.unwrap_err().code.as_str(), "session_unknown");
        assert_eq!(write("ann", "../b.py").await.unwrap_err().code.as_str(), "path_outside");
        assert_eq!(write("ann", ".env").await.unwrap_err().code.as_str(), "path_forbidden");
        let outcome = cell(&engine, "ann", &id, "exec(open('a.py').read())").await;
        assert_eq!(outcome.stdout, "from a file\n", "{outcome:?}");
        let read =
            engine.file_read("ann", &id, "/workspace/a.py".into(), 7, Some(4)).await.unwrap();
        assert_eq!(read.bytes, b"from");
        // A link that a run leaves leads nobody out.
        cell(&engine, "ann", &id, "import os\nos.symlink('/etc/passwd', 'link')").await;
        let through = engine.file_read("ann", &id, "link".into(), 0, None).await;
        assert_eq!(through.unwrap_err().code.as_str(), "path_link");
        engine.file_move("ann", &id, "a.py".into(), "c.py".into(), OnConflict::Fail).await.unwrap();
        let names = engine.file_list("ann", &id, ".".into(), 1, 100).await.unwrap();
        assert!(names.entries.iter().any(|entry| entry.path == "c.py"), "{names:?}");
        engine.file_delete("ann", &id, "c.py".into(), Depth::One).await.unwrap();
        assert_eq!(
            engine.file_stat("ann", &id, "c.py".into()).await.unwrap_err().code.as_str(),
            "not_found"
        );
        let frozen = engine
            .session_create(
                "ann",
                SessionOptions { access: ringfence_engine::files::FileAccess::ReadOnly },
            )
            .await
            .unwrap()
            .id;
        let refused = engine
            .file_write("ann", &frozen, "x".into(), Vec::new(), WriteOptions::default())
            .await;
        assert_eq!(refused.unwrap_err().code.as_str(), "read_only");
        let outcome = cell(&engine, "ann", &frozen, "open('x', 'w')").await;
        let raised = outcome.exception.as_ref().map(|e| e.message.as_str());
        assert_eq!(raised, Some("[Errno 30] Read-only file system: 'x'"), "{outcome:?}");
    });
    let rows = world.rows();
    let wrote = rows.iter().find(|row| {
        row.tool.as_deref() == Some("write_file")
            && row.details.as_ref().is_some_and(|d| d["writes"][0]["sha256"].is_string())
    });
    assert!(wrote.is_some(), "a write's content hash is written down");
    let whole = b"print('of the file')";
    let edited = rows.iter().filter(|row| row.tool.as_deref() == Some("edit_file"));
    let writes = edited.filter_map(|row| row.details.as_ref().map(|d| d["writes"][0].clone()));
    let sha256 = ringfence_audit::Digest::of(whole).to_string();
    assert!(
        writes.clone().any(|write| write["sha256"] == sha256 && write["bytes"] == whole.len()),
        "an edit is written down with the hash of the file: {:?}",
        writes.collect::<Vec<_>>()
    );
}

pub(crate) fn a_dropped_search_gives_its_place_back(world: &World) {
    use ringfence_engine::files::{GrepBounds, GrepQuery, WriteOptions};
    let engine = world.engine();
    on_runtime(async {
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        let bit = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).count_ones() % 2 == 1;
        let text =
            (0_u64..5_000_000).map(|n| if n % 1000 == 0 { b'\n' } else { b'0' + u8::from(bit(n)) });
        let options = WriteOptions::default();
        engine.file_write("ann", &id, "x".into(), text.collect(), options).await.unwrap();
        let query = GrepQuery {
            patterns: vec!["(?:[01]*1[01]{90}){10}[^01]".to_owned()],
            bounds: GrepBounds { time_max: Duration::from_mins(10), ..GrepBounds::default() },
            ..GrepQuery::default()
        };
        let slow = engine.file_grep("ann", &id, ".".into(), query);
        assert!(tokio::time::timeout(Duration::from_millis(400), slow).await.is_err());
        let deadline = Instant::now() + Duration::from_secs(20);
        while engine.admission().counts().running > 0 {
            assert!(Instant::now() < deadline, "still searching");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Where threads live, the process of the next cell gets new locks, whatever the program made of its streams.
pub(crate) fn a_session_goes_on_after_threads_and_closed_streams(world: &World) {
    const THREAD: &str = "import sys, threading, time, os, _io, _thread\nx = 1\nout = sys.stdout\n\
                          threading.Thread(target=time.sleep, args=(60,), daemon=True).start()";
    let engine = world.engine();
    on_runtime(async {
        for spoilt in [
            "os.close(1)",
            "os.close(2)",
            "os.dup2(os.open('.', 0), 1)",
            "_io.open = _io.FileIO = None",
            "_thread.allocate_lock = sys._current_frames = None",
            "sys.stdout = None",
        ] {
            let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
            for code in [THREAD, spoilt] {
                let outcome = cell(&engine, "ann", &id, code).await;
                assert_eq!(outcome.status, Status::Ok, "{spoilt}: {outcome:?}");
            }
            for value in ["2", "3"] {
                let outcome = cell(&engine, "ann", &id, "x += 1\nx").await;
                assert_eq!(outcome.value.as_deref(), Some(value), "{spoilt}: {outcome:?}");
            }
            engine.session_close("ann", &id).await.unwrap();
        }
        // A reference to a stream writes to the cell that uses it.
        let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
        cell(&engine, "ann", &id, THREAD).await;
        for word in ["one", "two"] {
            let code = format!("print('{word}', out is sys.stdout, file=out, end='')");
            let outcome = cell(&engine, "ann", &id, &code).await;
            assert_eq!(outcome.stdout, format!("{word} True"), "{outcome:?}");
        }
    });
}

/// A seed holds for the session, not for its cell: the process of the next cell is a fork, and no generator starts anew in it.
pub(crate) fn random_numbers_go_on_from_cell_to_cell(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        // A fork of a process with threads is another.
        let thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n";
        for before in ["", thread] {
            let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
            let seed = &format!("{before}import random\nrandom.seed(1)\nrandom.random()");
            for (code, value) in [
                (seed.as_str(), "0.13436424411240122"),
                ("random.random()", "0.8474337369372327"),
                ("random.random()", "0.763774618976614"),
            ] {
                let outcome = cell(&engine, "ann", &id, code).await;
                assert_eq!(outcome.value.as_deref(), Some(value), "{before}: {outcome:?}");
            }
            engine.session_close("ann", &id).await.unwrap();
        }
    });
}

/// Replaces the guest's `checkpoint` by one whose fork goes on while its parent answers with `answer`.
fn stowaway(answer: &str) -> String {
    format!(
        r#"
import os, sys, time
frame = sys._getframe()
while frame.f_code.co_name != "serve":
    frame = frame.f_back
names = frame.f_locals["otherwise"].__globals__
fork = names["fork"]
def evil(channel, frame, fds, *rest):
    pid = fork()
    if pid == 0:
        while True:
            with open("stowaway", "a") as file:
                file.write("x")
            time.sleep(0.01)
    {answer}
    return True
names["checkpoint"] = evil
"#
    )
}

/// A fork that the session does not hand over ends the session: no process is left that nothing watches.
pub(crate) fn no_fork_is_kept_from_the_host(world: &World) {
    let engine = world.engine();
    on_runtime(async {
        for answer in [
            // Nothing, a failure that did not happen, itself, the first process, no process, one thread of it.
            "time.sleep(60)",
            "channel.send(b'Nno more processes')",
            "channel.send(b'P1', [os.pidfd_open(os.getpid())])",
            "channel.send(b'P1', [os.pidfd_open(1)])",
            "channel.send(b'P1', [])",
            "channel.send(b'P1', [os.pidfd_open(pid, os.O_EXCL)])",
        ] {
            let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
            let outcome = cell(&engine, "ann", &id, "x = 1").await;
            assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
            let outcome = cell(&engine, "ann", &id, &stowaway(answer)).await;
            assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
            let outcome = cell(&engine, "ann", &id, "x").await;
            let code = outcome.error.as_ref().map(|error| error.code.as_str());
            // Not a failure of the service's: code that does this could shut out all clients.
            assert_eq!((outcome.status, code), (Status::Killed, Some("repl")), "{outcome:?}");
            // It may have begun to write before it was ended, and does not go on.
            let file = world.data().join("sessions").join(id.as_str()).join("workspace/stowaway");
            let size = || std::fs::metadata(&file).map_or(0, |file| file.len());
            let before = size();
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(size(), before, "{answer}: it runs between cells");
            // The next cell begins anew, with the session's files.
            let outcome = cell(&engine, "ann", &id, "'x' in globals()").await;
            assert_eq!(outcome.value.as_deref(), Some("False"), "{answer}: {outcome:?}");
            engine.session_close("ann", &id).await.unwrap();
        }
    });
}

/// A process that the host stopped is not made to go on, by another one or by a timer of its own.
pub(crate) fn no_process_of_a_session_wakes_itself_or_another(world: &World) {
    const WRITES: &str = r#"
import ctypes, os, signal, sys, threading, time
def write():
    while True:
        with open("stowaway", "a") as file:
            file.write("x")
        time.sleep(0.01)
"#;
    const PARENT: &str = r#"
frame = sys._getframe()
while frame.f_code.co_name != "serve":
    frame = frame.f_back
names = frame.f_locals["otherwise"].__globals__
old, me = names["checkpoint"], os.getpid()
def evil(channel, frame, fds, *rest):
    done = old(channel, frame, fds, *rest)
    if os.getpid() == me:
        write()
    return done
names["checkpoint"] = evil
"#;
    const TIMER: &str = r#"
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("how", ctypes.c_int), ("rest", ctypes.c_char * 48)]
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
libc.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0, b"")), ctypes.byref(timer))
libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 50_000_000, 0, 50_000_000), None)
threading.Thread(target=write, daemon=True).start()
"#;
    let engine = world.engine();
    on_runtime(async {
        for cells in [&[PARENT, "os.kill(me, signal.SIGCONT)"][..], &[TIMER]] {
            let id = engine.session_create("ann", SessionOptions::default()).await.unwrap().id;
            cell(&engine, "ann", &id, WRITES).await;
            for code in cells {
                cell(&engine, "ann", &id, code).await;
            }
            let file = world.data().join("sessions").join(id.as_str()).join("workspace/stowaway");
            let size = || std::fs::metadata(&file).map_or(0, |file| file.len());
            // A write that had begun may still end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let before = size();
            tokio::time::sleep(Duration::from_millis(400)).await;
            assert_eq!(size(), before, "it runs between cells: {}", cells[0]);
            engine.session_close("ann", &id).await.unwrap();
        }
    });
}
