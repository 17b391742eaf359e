//! `ringfence session`: files go in and out of a session as they are.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use ringfence_testing::{BoundedCommand as _, json};

use crate::support::{Ran, World, have};

/// Makes a session and returns its id.
fn new(world: &World) -> String {
    let made = world.ringfence(&["session", "new"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    made.stdout.trim().to_owned()
}

/// Every byte, and more than one read of a session's file returns.
fn bytes() -> Vec<u8> {
    (0..=255u8).cycle().take((11 << 20) + 7).collect()
}

#[test]
fn files_go_in_and_out_of_a_session_unchanged() {
    let world = World::new();
    let id = new(&world);
    std::fs::write(world.work().join("in.bin"), bytes()).unwrap();
    let ok = |args: &[&str]| {
        let ran = world.ringfence(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        ran.stdout
    };
    assert_eq!(ok(&["session", "put", &id, "in.bin"]), "");
    assert_eq!(ok(&["session", "put", &id, "in.bin", "deep/down/"]), "");
    assert_eq!(ok(&["session", "get", &id, "deep/down/in.bin", "out.bin"]), "");
    assert_eq!(std::fs::read(world.work().join("out.bin")).unwrap(), bytes());
    // A directory takes the file under its own name; without a place it comes here.
    std::fs::create_dir(world.work().join("dir")).unwrap();
    ok(&["session", "get", &id, "in.bin", "dir"]);
    assert_eq!(std::fs::read(world.work().join("dir/in.bin")).unwrap(), bytes());
    std::fs::write(world.work().join("in.bin"), "other").unwrap();
    ok(&["session", "get", &id, "in.bin"]);
    assert_eq!(std::fs::read(world.work().join("in.bin")).unwrap(), bytes());
    assert_eq!(world.names().len(), 3, "no draft is left: {:?}", world.names());

    let shown = ok(&["session", "put", &id, "in.bin", "x", "--json"]);
    assert_eq!(shown, format!("{{\"path\":\"x\",\"bytes\":{}}}\n", bytes().len()));
    let rows = ok(&["audit", "ls", "--tool", "write_file", "--json"]);
    assert!(rows.contains("deep/down/in.bin"), "a copy is written down: {rows}");
}

#[test]
fn a_dash_is_stdin_and_stdout() {
    let world = World::new();
    let id = new(&world);
    let mut put = world
        .command(&["session", "put", &id, "-", "piped"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .bounded_spawn()
        .unwrap();
    put.stdin.take().unwrap().write_all(&bytes()).unwrap();
    let put = Ran::from(&put.wait_with_output().unwrap());
    assert_eq!(put.code, 0, "{}", put.stderr);
    let get = world.command(&["session", "get", "--json", &id, "piped", "-"]).bounded_output();
    assert_eq!(get.unwrap().stdout, bytes());
    let nameless = world.ringfence(&["session", "put", &id, "-"]);
    assert_eq!(nameless.code, 2);
    assert!(nameless.stderr.contains("session put ID - NAME"), "{}", nameless.stderr);
}

#[test]
fn a_link_in_the_place_of_a_copy_is_refused_and_never_followed() {
    let world = World::new();
    let id = new(&world);
    world.write("work/file", "new");
    let victim = world.write("home/victim", "old");
    assert_eq!(world.ringfence(&["session", "put", &id, "file"]).code, 0);
    // The run makes the workspace one that runs have written, and plants links in it.
    let planted = format!(
        "ln -s {} to-file; ln -s {} to-nothing; ln -s {} to-dir",
        victim.display(),
        world.home().join("nothing").display(),
        world.home().display()
    );
    assert_eq!(world.sh(&[], &planted).code, 0);
    for local in ["to-file", "to-dir", "to-dir/victim", "to-nothing"] {
        let got = world.ringfence(&["session", "get", &id, "file", local]);
        assert_eq!(got.code, 126, "{local}: {}", got.stderr);
        assert!(got.stderr.contains("leads out of the workspace"), "{local}: {}", got.stderr);
    }
    let put = world.ringfence(&["session", "put", &id, "to-file", "stolen"]);
    assert_eq!(put.code, 126, "{}", put.stderr);
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "old");
    assert!(!world.home().join("nothing").exists() && !world.home().join("file").exists());
    std::fs::create_dir(world.work().join("dir")).unwrap();
    for (args, code) in [
        (&["put", &id, "missing"][..], 2),
        (&["put", &id, "dir"], 2),
        (&["put", &id, "/dev/zero", "x"], 2),
        (&["put", &id, "file", "../x"], 126),
        (&["put", &id, "file", ".env"], 126),
        (&["get", &id, "missing"], 2),
        (&["get", &id, "file", "no/such/dir/x"], 2),
        (&["get", "0123456789abcdef0123456789abcdef", "file"], 127),
    ] {
        let ran = world.ringfence(&[&["session"], args].concat());
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_session_lists_its_files_with_size_and_time_and_its_names_escaped() {
    let world = World::new();
    let id = new(&world);
    world.write("work/file", "12345");
    for name in ["b.txt", "dir/inner"] {
        assert_eq!(world.ringfence(&["session", "put", &id, "file", name]).code, 0, "{name}");
    }
    let shown = world.ringfence(&["session", "show", &id]).json();
    let workspace = std::path::Path::new(shown["workspace"].as_str().unwrap());
    std::fs::write(workspace.join("a\u{1b}[31m\n"), "").unwrap();
    std::os::unix::fs::symlink("b.txt", workspace.join("link")).unwrap();

    let names = world.ringfence(&["session", "ls", &id]).stdout;
    assert_eq!(names, "a\\u{1b}[31m\\n\nb.txt\ndir/\nlink\n");
    let long = world.ringfence(&["session", "ls", "-l", &id]).stdout;
    let lines: Vec<&str> = long.lines().collect();
    assert!(lines[1].starts_with("-rw") && lines[1].ends_with("Z  b.txt"), "{long}");
    assert!(lines[1].contains("           5  20"), "{long}");
    assert!(lines[2].starts_with("drwx") && lines[3].ends_with("link -> b.txt"), "{long}");
    assert_eq!(world.ringfence(&["session", "ls", &id, "dir"]).stdout, "dir/inner\n");
    let listed = world.ringfence(&["session", "ls", "--json", &id, "dir"]).json();
    assert_eq!(listed["truncated"], json!(false));
    assert_eq!(listed["entries"][0]["bytes"], json!(5));

    let sessions = world.ringfence(&["session", "ls", "-l"]).stdout;
    assert!(sessions.starts_with(&format!("{id}\t")) && sessions.ends_with("\trw\n"), "{sessions}");
    assert_eq!(world.ringfence(&["session", "ls"]).stdout, format!("{id}\n"));
}

#[test]
fn commands_and_programs_work_on_a_sessions_files() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let id = new(&world);
    world.write("work/mine", "not the session's");
    let ran = world.sh(&["--session", &id], "pwd; ls -A; echo from-run > a; echo $SESSION_ID");
    assert_eq!((ran.code, ran.stdout), (0, format!("/workspace\n{id}\n")), "{}", ran.stderr);
    let exec = |flags: &[&str], code: &str| {
        world.ringfence(&[&["exec", "--session", &id], flags, &["-c", code, "word"]].concat())
    };
    let ran = exec(
        &[],
        "import os, sys; print(open('a').read(), os.listdir(), sys.argv[1:]); open('b', 'w').write('from-exec')",
    );
    let shown = "from-run\n ['a'] ['word']\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (0, shown), "{}", ran.stderr);
    // Files stay, variables do not.
    assert_eq!(exec(&[], "x = 1").code, 0);
    let ran = exec(&["--json"], "open('b').read(), 'x' in globals()").json();
    assert_eq!(ran["value"], json!("('from-exec', False)"), "{ran}");
    assert_eq!(ran["session_id"], json!(id));
    assert_eq!(ran["artifacts"], json!([]), "nothing was made: {ran}");
    let ran = exec(&["--json", "--artifacts", "out"], "open('c', 'w').write('x')").json();
    assert_eq!(ran["artifacts"][0]["path"], json!("c"), "{ran}");
    let copied = std::fs::read_dir(world.work().join("out")).unwrap();
    assert_eq!(copied.count(), 1, "only what the program made is copied out");
    let (code, ran) = world.sh_json(&["--session", &id], "cat b; ls /etc/hostname");
    assert_eq!((code, &ran["session_id"]), (0, &json!(id)), "{ran}");
    let plan = world.ringfence(&["explain", "--session", &id, "--", "true"]).stdout;
    assert!(plan.contains("/workspace"), "{plan}");

    let missing = exec(&[], "open('mine')");
    let hint = format!("ringfence session put {id} mine");
    assert!(missing.stderr.contains(&hint), "{}", missing.stderr);
    for (args, code) in [
        (&["run", "--session", &id, "--cwd", "/", "--", "true"][..], 2),
        (&["run", "--session", &id, "--preset", "workspace", "--", "true"], 2),
        (&["run", "--session", "0123456789abcdef0123456789abcdef", "--", "true"], 127),
        (&["exec", "--session", &id, "--file", "mine", "-c", "1"], 2),
        (&["exec", "--session", "0123456789abcdef0123456789abcdef", "-c", "1"], 127),
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_read_only_session_and_the_disk_limit_hold_for_programs_of_the_command_line() {
    if !have("namespaces") {
        return;
    }
    let world = World::new();
    let id = world.ringfence(&["session", "new", "--read-only"]).stdout.trim().to_owned();
    for args in [
        &["run", "--session", &id, "--", "touch", "x"][..],
        &["exec", "--session", &id, "-c", "open('x', 'w')"],
    ] {
        let ran = world.ringfence(args);
        assert!(ran.stderr.contains("Read-only file system"), "{args:?}: {}", ran.stderr);
    }
    let id = new(&world);
    // Many small files: a single large one is the file size limit's.
    let fill = "import time\nfor i in range(400):\n    open(str(i), 'wb').write(b'x' * (1 << 18))\ntime.sleep(20)";
    let ran = world.ringfence(&["exec", "--json", "--disk", "8M", "--session", &id, "-c", fill]);
    assert_eq!(ran.json()["error"]["code"], json!("disk_limit"), "{}", ran.stdout);
}

#[test]
fn a_data_directory_that_everybody_may_write_to_is_refused_and_keeps_its_mode() {
    let world = World::new();
    let shared = world.root().join("shared data");
    std::fs::create_dir(&shared).unwrap();
    let dir = shared.to_str().unwrap();
    let mode = || shared.metadata().unwrap().permissions().mode() & 0o7777;
    let own = format!("{dir}/ringfence");
    for (bits, way) in [
        (0o1777, format!("use one of your own in it: `'{own}'`")),
        (0o777, format!("`chmod go-w '{dir}'`")),
    ] {
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(bits)).unwrap();
        let hint = format!("hint: choose another with `--data-dir`, or {way}\n");
        for args in [
            &["session", "ls"][..],
            &["session", "new"],
            &["session", "gc"],
            &["session", "show", "0123456789abcdef0123456789abcdef"],
            &["run"],
        ] {
            let end: &[&str] = if args == ["run"] { &["--", "true"] } else { &[] };
            let ran = world.ringfence(&[args, &["--data-dir", dir], end].concat());
            assert_eq!(ran.code, 125, "{args:?}: {}", ran.stderr);
            assert!(ran.stderr.contains("every user may write to it"), "{args:?}: {}", ran.stderr);
            assert!(ran.stderr.ends_with(&hint), "{args:?}: {}", ran.stderr);
            assert_eq!(mode(), bits, "{args:?}");
        }
        if bits & 0o1000 != 0 {
            assert_eq!(world.ringfence(&["session", "new", "--data-dir", &own]).code, 0);
        }
    }
    let chmod = std::process::Command::new("chmod").arg("go-w").arg(&shared).bounded_status();
    assert!(chmod.unwrap().success());
    assert_eq!(world.ringfence(&["session", "new", "--data-dir", dir]).code, 0);
    assert_eq!(mode(), 0o755);
}

#[test]
fn a_granted_directory_is_for_commands_without_a_session() {
    let world = World::new();
    let id = new(&world);
    let granted = world.root().join("granted");
    std::fs::create_dir(&granted).unwrap();
    let granted = granted.to_str().unwrap();
    let run = ["run", "--session", &id];
    // The flag is a mistake, a setting is for other commands.
    let ran = world.ringfence(&[&run[..], &["--rw", granted, "--", "true"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let hint = format!("hint: leave out `--rw`; `ringfence session put {id} {granted}`");
    assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
    let world = world.var("RINGFENCE_RW", granted);
    let script = ["--json", "--", "sh", "-c", &format!("echo x > here; touch {granted}/x")];
    let outcome = world.ringfence(&[&run[..], &script].concat()).json();
    assert_eq!(outcome["status"], "error", "{outcome}");
    assert!(
        outcome["notes"][0].as_str().unwrap().starts_with("`rw` is for commands without a session")
    );
    assert_eq!(world.ringfence(&["session", "ls", &id]).stdout, "here\n");
    let ran = world.sh(&[], &format!("touch {granted}/x"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// What is printed between backquotes, with the binary under test in the place of `ringfence`.
fn followed(world: &World, hint: &str) -> Ran {
    let (_, way) = hint.split_once("hint: ").unwrap_or_else(|| panic!("{hint}"));
    let command = way.split('`').nth(1).unwrap_or_else(|| panic!("{hint}"));
    let command =
        command.replace("ringfence ", &format!("{} ", crate::support::binary().display()));
    let mut shell = world.here(std::process::Command::new("sh"));
    Ran::from(&shell.args(["-c", &command]).bounded_output().unwrap())
}

#[test]
fn a_directory_is_put_by_the_command_that_is_named() {
    let world = World::new();
    let id = new(&world);
    world.write("work/my project/a.txt", "a");
    world.write("elsewhere/deep/b.txt", "b");
    let elsewhere = world.root().join("elsewhere/deep/");
    for dir in ["my project", elsewhere.to_str().unwrap()] {
        let put = world.ringfence(&["session", "put", &id, dir]);
        assert_eq!(put.code, 2, "{}", put.stderr);
        let followed = followed(&world, &put.stderr);
        assert_eq!(followed.code, 0, "{}: {}", put.stderr, followed.stderr);
    }
    let listed = world.ringfence(&["session", "ls", &id, "my project"]).stdout;
    assert_eq!(listed, "my project/a.txt\n");
    assert_eq!(world.ringfence(&["session", "ls", &id, "deep"]).stdout, "deep/b.txt\n");
}

#[test]
fn a_program_that_is_in_the_session_is_run_by_the_command_that_is_named() {
    let world = World::new();
    let id = new(&world);
    world.write("work/local.py", "print(open('data').read())");
    world.write("work/data", "found");
    for (file, name) in [("local.py", "my tool.py"), ("data", "data")] {
        assert_eq!(world.ringfence(&["session", "put", &id, file, name]).code, 0);
    }
    let ran = world.ringfence(&["exec", "--session", &id, "my tool.py"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let followed = followed(&world, &ran.stderr);
    assert_eq!((followed.code, followed.stdout.as_str()), (0, "found\n"), "{}", followed.stderr);
    let ran = world.ringfence(&["exec", "--session", &id, "nowhere.py"]);
    assert!(ran.code == 2 && !ran.stderr.contains("hint"), "{}", ran.stderr);
}
