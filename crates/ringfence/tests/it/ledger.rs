//! What is written down of commands, and the commands that read it.

use ringfence_testing::{BoundedCommand as _, Json, json};

use crate::support::{Ran, World};

fn ringfence(world: &World, args: &[&str]) -> Ran {
    Ran::from(&world.command(args).bounded_output().unwrap())
}

fn ledger(world: &World) -> std::path::PathBuf {
    world.root().join("state/ringfence/ledger")
}

fn runs(world: &World, filter: &[&str]) -> Vec<Json> {
    let mut args = vec!["audit", "ls", "--json"];
    args.extend(filter);
    let ran = ringfence(world, &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()["records"].as_array().unwrap().clone()
}

#[test]
fn every_kind_of_run_is_written_down() {
    let world = World::new();
    assert_eq!(ringfence(&world, &["run", "--", "sh", "-c", "exit 3"]).code, 3);
    assert_eq!(ringfence(&world, &["exec", "-c", "print(1)"]).code, 0);
    assert_eq!(ringfence(&world, &["exec", "-c", "object.__subclasses__()"]).code, 126);
    world.write(
        "work/items.jsonl",
        "{\"id\": 1, \"code\": \"1\"}\n{\"id\": 2, \"command\": \"true\"}\n",
    );
    assert_eq!(ringfence(&world, &["batch", "items.jsonl"]).code, 0);
    world.write("work/cells", "x = 1\n\nx\n\n");
    let cells = std::fs::File::open(world.work().join("cells")).unwrap();
    assert!(world.command(&["repl"]).stdin(cells).bounded_output().unwrap().status.success());
    let count = |filter: &[&str]| runs(&world, filter).len();
    assert_eq!(count(&["--tool", "run"]), 1);
    assert_eq!(count(&["--tool", "exec"]), 2);
    assert_eq!(count(&["--tool", "batch"]), 2, "a program and a command");
    assert_eq!(count(&["--tool", "repl"]), 2);
    assert_eq!(count(&["--status", "blocked"]), 1);
    let failed = &runs(&world, &["--status", "error"])[0];
    assert_eq!(failed["details"]["exit_code"], 3);
    assert_eq!(failed["details"]["arguments"], "sh -c exit 3");
    let shown = ringfence(&world, &["audit", "show", failed["run_id"].as_str().unwrap(), "--json"]);
    assert!(shown.json()["start"].is_object() && shown.json()["end"].is_object());
    assert_eq!(ringfence(&world, &["audit", "verify"]).code, 0);
    let report = ringfence(&world, &["audit", "report", "--json"]).json();
    assert_eq!(report["by_status"]["blocked"], 1);
    let export = ringfence(&world, &["audit", "export", "--format", "csv"]);
    assert!(export.stdout.starts_with("seq,at_ms,kind"), "{}", export.stdout);
}

#[test]
fn a_row_is_told_by_what_was_started_and_our_sentences_as_they_are() {
    let world = World::new();
    world.write(
        "home/.config/ringfence/config.toml",
        "[[rules.deny]]\nname = \"no-dd\"\ncommands = [{ program = \"dd\" }]\n",
    );
    world.write("work/tool.py", "print(1)");
    assert_eq!(ringfence(&world, &["exec", "tool.py", "--fast", "x"]).code, 0);
    assert_eq!(ringfence(&world, &["exec", "-c", "print(1)"]).code, 0);
    assert_eq!(ringfence(&world, &["run", "--", "echo", "`date`\u{1b}[2J"]).code, 0);
    let what = |args: &[&str]| {
        let listed = ringfence(&world, &[&["audit", "ls"], args].concat()).stdout;
        let cells = listed.lines().map(|line| line.rsplit('\t').next().unwrap().to_owned());
        cells.collect::<Vec<_>>()
    };
    let all = what(&[]);
    assert_eq!(all[0], "echo `date`\\u{1b}[2J");
    assert!(all[1].starts_with("code ") && all[1].ends_with(", 8 bytes"), "{}", all[1]);
    assert_eq!(all[2], "tool.py --fast x");
    assert_eq!(ringfence(&world, &["run", "--", "dd"]).code, 126);
    let shown = ringfence(&world, &["audit", "export"]).stdout;
    assert!(!shown.contains("u{60}"), "{shown}");
}

#[test]
fn a_changed_ledger_is_found() {
    let world = World::new();
    for word in ["one", "two", "three"] {
        ringfence(&world, &["run", "--", "echo", word]);
    }
    assert_eq!(ringfence(&world, &["audit", "verify"]).code, 0);
    // After a whole verification the rows are in the database.
    let db = ledger(&world).join("ledger.db");
    let bytes = std::fs::read(&db).unwrap();
    let find = |bytes: &[u8]| bytes.windows(8).position(|w| w == b"echo two");
    let (file, mut bytes) = if find(&bytes).is_some() {
        (db, bytes)
    } else {
        let wal = ledger(&world).join("ledger.db-wal");
        let bytes = std::fs::read(&wal).unwrap();
        (wal, bytes)
    };
    let at = find(&bytes).unwrap();
    bytes[at + 5] = b'T';
    std::fs::write(&file, &bytes).unwrap();
    // An honest run after it is not accused.
    assert_eq!(ringfence(&world, &["run", "--", "true"]).code, 0);
    let verified = ringfence(&world, &["audit", "verify"]);
    let told = "row 5: the body is not the one that was written\n\
                TAMPERED: 1 finding, first at row 5; 6 of 9 rows verified\n";
    assert_eq!((verified.code, verified.stdout.as_str()), (1, told));
    let copy = format!(
        "ringfence: keep a copy for inquiry: `cp -a {} ELSEWHERE`\n",
        ledger(&world).display()
    );
    assert!(verified.stderr.starts_with(&copy), "{}", verified.stderr);
    assert!(verified.stderr.contains("`ringfence audit verify --anchor FILE`"));
}

#[test]
fn an_older_copy_is_found_by_an_anchor() {
    let world = World::new();
    ringfence(&world, &["run", "--", "true"]);
    let copy = world.root().join("copy");
    let copied =
        std::process::Command::new("cp").arg("-a").arg(ledger(&world)).arg(&copy).bounded_status();
    assert!(copied.unwrap().success());
    ringfence(&world, &["run", "--", "true"]);
    let anchor = world.root().join("anchor");
    let anchor = anchor.to_str().unwrap();
    assert_eq!(ringfence(&world, &["audit", "anchor", "--to", anchor]).code, 0);
    assert_eq!(ringfence(&world, &["audit", "verify", "--anchor", anchor]).code, 0);
    std::fs::remove_dir_all(ledger(&world)).unwrap();
    std::fs::rename(&copy, ledger(&world)).unwrap();
    let verified = ringfence(&world, &["audit", "verify", "--anchor", anchor]);
    assert_eq!(verified.code, 1, "{}", verified.stdout);
}

#[test]
fn a_run_whose_beginning_cannot_be_written_does_not_begin() {
    let world = World::new();
    world.write("state/ringfence/ledger", "no directory");
    let ran = ringfence(&world, &["run", "--", "touch", "ran"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(!world.work().join("ran").exists());
    let ran = ringfence(&world, &["exec", "--json", "-c", "print(1)"]);
    assert_eq!((ran.code, &ran.json()["ran"]), (125, &Json::from("no")));
    let ran = ringfence(&world, &["run", "--audit", "off", "--json", "--", "touch", "ran"]);
    assert_eq!((ran.code, &ran.json()["enforcement"]["audit"]), (0, &Json::from("off")));
    assert!(world.work().join("ran").exists());
}

#[test]
fn a_ledger_is_kept_as_its_owner_decided() {
    let world = World::new();
    let key = world.write("home/.config/ringfence/ledger.key", &"5e".repeat(32));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, mode).unwrap();
    let flags = ["--durability", "power", "--key-file", key.to_str().unwrap()];
    let decided = world.ringfence(&[&["audit", "settings"], &flags[..]].concat());
    assert_eq!(decided.json()["durability"], "power", "{}", decided.stderr);
    assert_eq!(world.ringfence(&["audit", "settings"]).json(), decided.json());
    assert_eq!(world.ringfence(&["run", "--", "echo", "needle-7d"]).code, 0);
    let listed = world.ringfence(&["audit", "ls", "--json"]).json().to_string();
    assert!(listed.contains("needle-7d"), "{listed}");
    std::fs::remove_file(&key).unwrap();
    let listed = world.ringfence(&["audit", "ls", "--json"]).json().to_string();
    assert!(!listed.contains("needle-7d"), "{listed}");
    assert_eq!(world.ringfence(&["audit", "verify"]).code, 0, "verifying needs no key");
    let ran = world.ringfence(&["run", "--", "touch", "made"]);
    assert!(ran.code == 125 && ran.stderr.contains("ledger.key"), "{} {}", ran.code, ran.stderr);
    assert!(!world.work().join("made").exists());
    let ran = world.ringfence(&["audit", "settings", "--durability", "luck"]);
    assert_eq!(ran.code, 2);
}

#[test]
fn bad_questions_get_clear_answers() {
    let world = World::new();
    ringfence(&world, &["run", "--", "true"]);
    for (args, code) in [
        (&["audit", "ls", "--status", "weird"][..], 2),
        (&["audit", "ls", "--since", "yesterday"], 2),
        (&["audit", "ls", "--limit", "0"], 2),
        (&["audit", "ls", "--after", "nonsense"], 2),
        (&["audit", "show", "zzzz"], 2),
        (&["audit", "export", "--format", "xml"], 2),
        (&["audit", "--data-dir", "/proc/nowhere", "ls"], 125),
        (&["session", "show", "../../etc"], 127),
        (&["session", "rm", "0123456789abcdef0123456789abcdef"], 127),
    ] {
        let ran = ringfence(&world, args);
        assert_eq!(ran.code, code, "{args:?}: {} {}", ran.stdout, ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_session_outlives_the_command_that_made_it() {
    let world = World::new();
    let id = ringfence(&world, &["session", "new"]).stdout.trim().to_owned();
    assert_eq!(id.len(), 32);
    let repl = |id: &str, cells: &str| {
        world.write("work/cells", cells);
        let cells = std::fs::File::open(world.work().join("cells")).unwrap();
        let output = world
            .command(&["repl", "--preset", "open", "--session", id])
            .stdin(cells)
            .bounded_output();
        Ran::from(&output.unwrap())
    };
    let ran = repl(&id, "open('note', 'w').write('kept')\n\nx = 1\n\n");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // Files stay; variables were the REPL's, which ended with its command.
    let ran = repl(&id, "open('note').read(), 'x' in globals()\n\n");
    assert_eq!(ran.stdout, "('kept', False)\n", "{}", ran.stderr);
    let shown = ringfence(&world, &["session", "show", &id]).json();
    let file = std::path::Path::new(shown["workspace"].as_str().unwrap()).join("note");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "kept");
    std::fs::write(
        std::path::Path::new(shown["workspace"].as_str().unwrap()).join("notes"),
        "one\nTwo\n",
    )
    .unwrap();
    let found = ringfence(&world, &["grep", "--session", &id, "-i", "-C", "1", "two"]);
    assert_eq!((found.code, found.stdout.as_str()), (0, "notes-1-one\nnotes:2:Two\n"));
    assert_eq!(ringfence(&world, &["grep", "--session", &id, "three"]).code, 1);
    assert_eq!(ringfence(&world, &["grep", "--session", &id, "("]).code, 2);
    for (args, code, out) in [
        (&["-e", "-x", "-e", "one"][..], 0, "notes:1:one\n"),
        (&["-n", "one"], 0, "notes:1:one\n"),
        (&["-e", "one", "notes"], 0, "notes:1:one\n"),
        (&["-A", "1", "--", "one"], 0, "notes:1:one\nnotes-2-Two\n"),
        (&["-B1", "-s", "Two"], 0, "notes-1-one\nnotes:2:Two\n"),
        (&["-S", "two"], 0, "notes:2:Two\n"),
        (&["-S", "TWO"], 1, ""),
        (&["-i", "-s", "two"], 1, ""),
        (&["-w", "on|tw|Two"], 0, "notes:2:Two\n"),
        (&["-v", "-c", "o$"], 0, "note:1\nnotes:1\n"),
        (&["-vl", "kept"], 0, "notes\n"),
        (&["-l", "-m", "1", "."], 0, "note\n"),
        (&["-U", r"one\nT"], 0, "notes:1:one\nnotes:2:Two\n"),
        (&["-t", "py", "."], 1, ""),
        (&["--no-hidden", "--ignore", "-t", "txt", "."], 1, ""),
        (&["-t", "pithon", "."], 2, ""),
        (&["-l", "-c", "."], 2, ""),
        (&["-e", "a", "b", "c"], 2, ""),
        (&["--no-hidden"], 2, ""),
    ] {
        let found = ringfence(&world, &[&["grep", "--session", &id], args].concat());
        assert_eq!((found.code, found.stdout.as_str()), (code, out), "{args:?} {}", found.stderr);
    }
    let rows = ringfence(&world, &["audit", "ls", "--json", "--tool", "grep"]).stdout;
    assert!(rows.contains("two in ."), "a search is written down: {rows}");
    let copy = ringfence(&world, &["session", "fork", &id]).stdout.trim().to_owned();
    assert_eq!(repl(&copy, "open('note').read()\n\n").stdout, "'kept'\n");
    assert_eq!(ringfence(&world, &["session", "ls"]).stdout.lines().count(), 2);
    assert_eq!(ringfence(&world, &["session", "rm", &id]).code, 0);
    assert_eq!(ringfence(&world, &["session", "show", &id]).code, 127);
    assert_eq!(repl(&id, "1\n\n").code, 127);
    assert_eq!(ringfence(&world, &["session", "gc"]).json()["expired"], json!([]));
    assert_eq!(ringfence(&world, &["audit", "verify"]).code, 0);
}

#[test]
fn an_archive_is_verified_as_text_and_as_json() {
    let world = World::new();
    assert_eq!(ringfence(&world, &["run", "--", "true"]).code, 0);
    let until = "9999999999999";
    let expired = ringfence(&world, &["audit", "expire", "--before", until]).json();
    let archive = expired["archive"].as_str().unwrap();
    let verify = |more: &[&str]| {
        ringfence(&world, &[&["audit", "verify", "--archive", archive], more].concat())
    };
    let found = verify(&["--json"]).json();
    let root = found["root"].as_str().unwrap();
    let text = format!("intact: {} rows, root key {root}\n", expired["rows"]);
    let plain = verify(&[]);
    assert_eq!((plain.code, plain.stdout), (0, text));
    let changed = std::fs::read_to_string(archive).unwrap().replacen("true", "else", 1);
    let copy = world.write("changed.jsonl", &changed);
    let ran = ringfence(&world, &["audit", "verify", "--archive", copy.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("row ") && ran.stdout.contains("\nTAMPERED: "),
        "{}",
        ran.stdout
    );
}

/// `/dev/full` refuses every write.
#[test]
fn rows_that_cannot_be_written_are_an_error() {
    let world = World::new();
    assert_eq!(ringfence(&world, &["run", "--", "true"]).code, 0);
    for args in [&["audit", "tail", "-f"][..], &["audit", "tail", "-f", "--json"]] {
        let mut command = world.command(args);
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        command.stderr(std::process::Stdio::piped());
        let child = command.bounded_spawn().unwrap();
        let ran = Ran::from(&child.wait_with_output().unwrap());
        assert_eq!(ran.code, 125, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("cannot write all of the answer"), "{}", ran.stderr);
    }
}

#[test]
fn a_run_sees_nothing_of_the_data_directory_wherever_it_is() {
    let world = World::new();
    std::fs::create_dir_all(world.work().join("deep")).unwrap();
    std::os::unix::fs::symlink(world.work(), world.root().join("link")).unwrap();
    let through = world.root().join("link/linked");
    for data in ["./st", "./deep/st", through.to_str().unwrap()] {
        let look = "cat st/ledger/ledger.intake deep/st/ledger/ledger.intake linked/ledger/ledger.intake; \
                    mv deep deep2; mv st st2; mv linked linked2; ls";
        // The first run makes it, the second finds it.
        for _ in 0..2 {
            let ran = ringfence(&world, &["run", "--data-dir", data, "--", "sh", "-c", look]);
            assert!(!ran.stdout.contains("run_start"), "{data}: {}", ran.stdout);
        }
        let verified =
            ringfence(&world, &["audit", "--data-dir", data, "ls", "--tool", "run", "--json"]);
        assert_eq!(verified.json()["records"].as_array().unwrap().len(), 2, "{data}");
        for name in ["st", "deep", "linked", "st2", "deep2", "linked2"] {
            let _ = std::fs::remove_dir_all(world.work().join(name));
        }
        std::fs::create_dir_all(world.work().join("deep")).unwrap();
    }
}
