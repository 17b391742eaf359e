//! Python behind the fence: `exec`, `batch`, `repl`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use ringfence_testing::{BoundedCommand as _, Json, json, missing};

use crate::support::{Ran, World, project};

fn exec(world: &World, flags: &[&str], code: &str) -> (i32, Json) {
    let mut args = vec!["exec", "--json"];
    args.extend(flags);
    args.extend(["-c", code]);
    let ran = world.ringfence(&args);
    (ran.code, ran.json())
}

fn fed(world: &World, args: &[&str], input: &str) -> Ran {
    let mut child = world
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .bounded_spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Ran::from(&output)
}

/// Runs items through `batch`; outcomes by id.
pub(crate) fn batch(world: &World, flags: &[&str], items: &[Json]) -> BTreeMap<String, Json> {
    let mut args = vec!["batch"];
    args.extend(flags);
    let lines: Vec<String> = items.iter().map(Json::to_string).collect();
    let input = lines.join("\n");
    let ran = fed(world, &args, &input);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines = Json::lines(&ran.stdout).into_iter();
    lines.map(|value| (value["id"].as_str().unwrap_or_default().to_owned(), value)).collect()
}

fn corpus() -> PathBuf {
    project().join("corpus")
}

/// The programs of a directory: name and text.
fn programs(dir: &std::path::Path) -> Vec<(String, String)> {
    let mut list: Vec<(String, String)> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .filter(|path| path.file_name().is_some_and(|n| n != "check.py"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    list.sort();
    list
}

fn header<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().take(3).find_map(|line| line.strip_prefix("# ")?.strip_prefix(key))
}

/// Flags for an interpreter that has numpy and pandas: the usual one, or else the system's, which CI installs them for.
pub(crate) fn with_libraries(world: &World) -> &'static [&'static str] {
    if has(world, &[], "numpy,pandas") { &[] } else { &["--python", "/usr/bin/python3"] }
}

/// Returns true if the interpreter that runs has what a program needs.
pub(crate) fn has(world: &World, flags: &[&str], needs: &str) -> bool {
    let test = match needs.strip_prefix("python>=3.") {
        Some(minor) => format!("import sys; sys.exit(sys.version_info[1] < {minor})"),
        None => format!("import {}", needs.replace(',', ", ")),
    };
    exec(world, &[&["--preset", "open"], flags].concat(), &test).0 == 0
}

#[test]
fn output_value_and_exit_code_come_back() {
    let world = World::new();
    let (code, outcome) = exec(&world, &[], "print('hi')\n40 + 2");
    assert_eq!((code, &outcome["status"], &outcome["stdout"]), (0, &json!("ok"), &json!("hi\n")));
    assert_eq!(outcome["value"], "42");
    let (code, outcome) = exec(&world, &["--preset", "open"], "import sys; sys.exit(7)");
    assert_eq!((code, &outcome["status"]), (7, &json!("error")));
    assert_eq!(outcome["exit_code"], 7);
}

#[test]
fn every_layer_is_in_the_receipt() {
    let (_, outcome) = exec(&World::new(), &[], "1");
    let enforcement = &outcome["enforcement"];
    for (layer, value) in [
        ("tier", "namespaces"),
        ("screen", "data"),
        ("process", "pidns"),
        ("syscalls", "allowlist"),
        ("network", "none"),
        ("output", "on"),
    ] {
        assert_eq!(enforcement[layer], value, "{outcome}");
    }
    assert!(enforcement["filesystem"].as_str().unwrap().starts_with("pivot_root"));
}

#[test]
fn an_exception_is_told_with_its_line_and_no_frame_of_ours() {
    let (code, outcome) = exec(&World::new(), &[], "def f():\n    return 1 / 0\n\nf()\n");
    assert_eq!((code, &outcome["status"]), (1, &json!("error")));
    assert_eq!(outcome["exception"]["type"], "ZeroDivisionError");
    assert_eq!(outcome["exception"]["line"], 2);
    let stderr = outcome["stderr"].as_str().unwrap();
    assert!(stderr.contains("File \"main.py\", line 4, in <module>"), "{stderr}");
    assert!(stderr.contains("return 1 / 0"), "{stderr}");
    assert!(!stderr.contains("guest"), "{stderr}");
}

#[test]
fn screening_refuses_before_anything_runs() {
    let world = World::new();
    let source = "import os\nos.system('x')";
    let (code, outcome) = exec(&world, &["--preset", "standard"], source);
    assert_eq!((code, &outcome["status"], &outcome["ran"]), (126, &json!("blocked"), &json!("no")));
    let denial = &outcome["denials"][0];
    assert_eq!((&denial["line"], &denial["column"]), (&json!(1), &json!(8)));
    assert_eq!(denial["layer"], "screen");
    let ran = world.ringfence(&[
        "exec",
        "--preset",
        "standard",
        "--allow-import",
        "os",
        "-c",
        "import os; print(1)",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1\n"), "{}", ran.stderr);
}

#[test]
fn core_dumps_keep_the_limit_that_starts_no_handler_alone_and_warm() {
    let world = World::new();
    let program = crate::caps::GIVES_UP_CORE_DUMPS;
    let said = json!("(1, 1) (1, 1)\n(32, 32)\n");
    let (code, outcome) = exec(&world, &["--preset", "open"], program);
    assert_eq!((code, &outcome["stdout"]), (0, &said), "{outcome}");
    let warm = batch(&world, &["--preset", "open"], &[json!({"id": "a", "code": program})]);
    assert_eq!(warm["a"]["stdout"], said, "{}", warm["a"]);
}

#[test]
fn each_limit_has_its_own_name() {
    let world = World::new();
    let open = |more: &[&str], code: &str| {
        let flags = [&["--preset", "open"][..], more].concat();
        let (exit, outcome) = exec(&world, &flags, code);
        let error = &outcome["error"];
        let error = if error.is_null() { "none" } else { error["code"].as_str().unwrap() };
        (exit, outcome["status"].as_str().unwrap().to_owned(), error.to_owned())
    };
    let told = |exit, status: &str, code: &str| (exit, status.to_owned(), code.to_owned());
    assert_eq!(
        open(&["--timeout", "400ms"], "while True: pass"),
        told(124, "timeout", "wall_deadline")
    );
    assert_eq!(open(&["--cpu", "1s"], "while True: pass"), told(124, "timeout", "cpu_limit"));
    assert_eq!(
        open(&["--memory", "200M"], "x = bytearray(300 << 20)"),
        told(137, "memory", "memory_limit")
    );
    assert_eq!(
        open(&[], "import sys\nsys.setrecursionlimit(100)\ndef f(): f()\nf()"),
        told(1, "error", "none")
    );
    assert_eq!(open(&[], "raise KeyboardInterrupt"), told(130, "error", "none"));
    assert_eq!(open(&[], "import os; os._exit(3)"), told(3, "error", "none"));
    assert_eq!(open(&[], "import ctypes; ctypes.string_at(0)"), told(139, "killed", "crash"));
}

#[test]
fn files_go_in_and_come_out() {
    let world = World::new();
    let data = world.write("work/in.csv", "a,b\n1,2\n");
    let out = world.root().join("out");
    let code = "print(open('data/x.csv').read())\nimport os\nos.makedirs('d')\nopen('d/r.txt', 'w').write('done')\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')";
    let file = format!("{}:data/x.csv", data.display());
    let flags = ["--preset", "open", "--file", &file, "--artifacts", out.to_str().unwrap()];
    let (status, outcome) = exec(&world, &flags, code);
    assert_eq!(status, 0, "{outcome}");
    assert_eq!(outcome["stdout"], "a,b\n1,2\n\n");
    let paths: Vec<&str> = outcome["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|artifact| artifact["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["d/r.txt"], "links and pipes are no files, and what was given is no news");
    assert!(!out.join("data").exists());
    assert_eq!(std::fs::read_to_string(out.join("d/r.txt")).unwrap(), "done");
    assert!(!out.join("link").exists() && !out.join("pipe").exists());
    let ran = world.ringfence(&["exec", "--file", &format!("{}:../x", data.display()), "-c", "1"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}

#[test]
fn an_environment_of_the_systems_python_has_its_packages_wherever_it_lies() {
    let world = World::new();
    // As `python3 -m venv` makes it; below `/tmp`, where runs have something of their own.
    let real = std::fs::canonicalize("/usr/bin/python3").unwrap();
    let library = real.file_name().unwrap().to_str().unwrap();
    world.write("venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n");
    world.write(&format!("venv/lib/{library}/site-packages/of_mine.py"), "WORD = 'mine'\n");
    let bin = world.root().join("venv/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", bin.join("python3")).unwrap();
    std::os::unix::fs::symlink("python3", bin.join("python")).unwrap();
    let python = bin.join("python");
    let flags = ["--preset", "open", "--python", python.to_str().unwrap()];
    let code = "import of_mine; open('/tmp/x', 'w').close(); print(of_mine.WORD)";
    let (status, outcome) = exec(&world, &flags, code);
    assert_eq!((status, &outcome["stdout"]), (0, &json!("mine\n")), "{outcome}");
    let outcomes = batch(&world, &flags, &[json!({"id": "x", "code": code})]);
    assert_eq!(outcomes["x"]["stdout"], "mine\n", "{}", outcomes["x"]);
}

#[test]
fn what_the_host_would_obey_is_not_copied_out() {
    let world = World::new();
    let out = world.root().join("out");
    let code = "import os\nos.makedirs('.git'); os.makedirs('a/.claude')\n\
                for name in ('.git/config', '.mcp.json', 'HEAD', 'a/commondir', 'a/.claude/settings.json', 'x\\x1b[31m', 'good'):\n    \
                open(name, 'w').write('x')";
    let flags = ["--preset", "open", "--artifacts", out.to_str().unwrap()];
    let (status, outcome) = exec(&world, &flags, code);
    assert_eq!((status, &outcome["status"]), (0, &json!("ok")), "{outcome}");
    let error = outcome["error"]["message"].as_str().unwrap();
    for name in [".git/config", "HEAD", "commondir", "control character"] {
        assert!(error.contains(name), "{error}");
    }
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["good"]);
}

#[test]
fn a_file_that_cannot_be_copied_costs_no_outcome_and_no_disk() {
    let world = World::new();
    let out = world.root().join("out");
    std::fs::create_dir_all(out.join("taken")).unwrap();
    let code = "open('taken', 'w').write('x')\nopen('good', 'w').write('y')\nopen(b'\\xff', 'w').write('z')\n\
                for i in range(5): open('hole%d' % i, 'wb').truncate(60 << 20)\nprint('done')";
    let flags = ["--preset", "open", "--artifacts", out.to_str().unwrap()];
    let (status, outcome) = exec(&world, &flags, code);
    // Its output is there. The outcome is not a success.
    assert_eq!(
        (status, &outcome["status"], &outcome["exit_code"], &outcome["stdout"]),
        (125, &json!("failed"), &json!(0), &json!("done\n"))
    );
    assert_eq!(outcome["error"]["code"], "artifacts_incomplete", "{outcome}");
    assert_eq!(std::fs::read_to_string(out.join("good")).unwrap(), "y");
    let copied: u64 = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap())
        .filter(std::fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum();
    assert!(copied <= 100 << 20, "{copied}");
    assert!(
        !out.read_dir().unwrap().any(|e| e
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".ringfence"))
    );
}

#[test]
fn a_pipe_that_nobody_writes_to_makes_nobody_wait() {
    let world = World::new();
    let fifo = world.work().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).bounded_status().unwrap().success());
    let fifo = fifo.to_str().unwrap();
    assert_eq!(world.ringfence(&["exec", "--file", fifo, "-c", "1"]).code, 2);
    assert_eq!(world.ringfence(&["exec", fifo]).code, 0);
    assert_eq!(world.ringfence(&["exec", "--python", fifo, "-c", "1"]).code, 125);
    // Our own stdin, open and silent, is waited for as long as the program would have had.
    let started = std::time::Instant::now();
    let mut child = world
        .command(&["exec", "--timeout", "3s", "-c", "print(1)"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .bounded_spawn()
        .unwrap();
    let stdin = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(stdin);
    assert!(started.elapsed() < std::time::Duration::from_mins(1));
}

#[test]
fn stdin_reaches_the_program() {
    let world = World::new();
    let code = "import sys; print(sys.stdin.read().upper())";
    let ran = fed(&world, &["exec", "--preset", "open", "-c", code], "hello");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "HELLO\n"), "{}", ran.stderr);
    let ran = fed(&world, &["exec", "-"], "print(6 * 7)");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "42\n"), "{}", ran.stderr);
}

#[test]
fn what_was_tried_comes_back_with_a_hint_that_works() {
    let world = World::new();
    let (_, outcome) = exec(&world, &["--preset", "open"], "open('/etc/passwd')");
    let denial = &outcome["denials"][0];
    assert_eq!((&denial["rule"], &denial["by"]), (&json!("not_visible"), &json!("guest")));
    assert!(denial["hint"].as_str().unwrap().contains("/workspace"));
    let (code, _) = exec(&world, &["--preset", "open"], "open('/workspace/x', 'w').write('1')");
    assert_eq!(code, 0);
}

#[test]
fn a_limit_that_the_program_met_is_named_with_its_flag() {
    let world = World::new();
    let full = "open('x', 'wb').write(bytes(20 << 20))";
    let threads = "import threading, time\nfor _ in range(90): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()";
    for (flags, code, rule, flag) in [
        (["--disk", "5M"], full, "disk_limit", "--disk"),
        (["--pids", "8"], threads, "pids_limit", "--pids"),
    ] {
        let (exit, outcome) = exec(&world, &[&["--preset", "open"][..], &flags].concat(), code);
        assert_eq!(exit, 1, "{outcome}");
        let denials = outcome["denials"].as_array().unwrap();
        let denial = denials.iter().find(|denial| denial["rule"] == rule);
        let hint = denial.and_then(|denial| denial["hint"].as_str());
        assert!(hint.is_some_and(|hint| hint.contains(flag)), "{outcome}");
    }
}

#[test]
fn a_module_that_is_not_installed_is_named() {
    let (code, outcome) =
        exec(&World::new(), &["--allow-import", "no_such_module"], "import no_such_module");
    assert_eq!((code, &outcome["status"]), (1, &json!("error")), "{outcome}");
    let denial = &outcome["denials"][0];
    assert_eq!(denial["rule"], "module_missing", "{outcome}");
    assert!(denial["hint"].as_str().unwrap().contains("not installed for this run's Python"));
}

#[test]
fn output_past_its_limit_keeps_head_and_tail_and_counts() {
    let code = "print('a' * 100)\nfor _ in range(3000): print('x' * 100)\nprint('z' * 100)";
    let (_, outcome) = exec(&World::new(), &["--output", "10K"], code);
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("aaa") && stdout.trim_end().ends_with("zzz"), "{}", stdout.len());
    assert!(stdout.len() < 12_000);
    assert_eq!(outcome["truncated"]["stdout"], true);
    assert!(outcome["truncated"]["dropped_bytes"].as_u64().unwrap() > 200_000);
}

#[test]
fn escapes_of_a_terminal_are_made_visible() {
    let (_, outcome) = exec(&World::new(), &[], "print('\\x1b[31mred \\u202e')");
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(!stdout.contains('\x1b') && !stdout.contains('\u{202e}'), "{stdout:?}");
}

#[test]
fn bad_use_is_refused_before_anything_starts() {
    let world = World::new();
    for (args, code) in [
        (&["exec"][..], 2),
        (&["exec", "missing.py"], 2),
        (&["exec", "--preset", "workspace", "-c", "1"], 2),
        (&["exec", "--rw", "/tmp", "-c", "1"], 2),
        (&["exec", "--memory", "0", "-c", "1"], 2),
        (&["exec", "--python", "/nonexistent/python3", "-c", "1"], 125),
        (&["exec", "--python", "/bin/ls", "-c", "1"], 125),
        (&["run", "--allow-import", "os", "--", "true"], 2),
        (&["batch", "missing.jsonl"], 2),
    ] {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("error:"), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_batch_answers_every_line_whatever_is_in_it() {
    let world = World::new();
    let input = concat!(
        "{\"id\": \"a\", \"code\": \"print(1)\"}\n",
        "not json\n",
        "\n",
        "{\"id\": \"b\", \"code\": \"1/0\"}\n",
        "{\"id\": \"c\", \"code\": \"while True: pass\", \"timeout_ms\": 300}\n",
        "{\"id\": \"d\", \"command\": \"echo from sh\"}\n",
        "{\"id\": \"e\", \"code\": \"1\", \"surprise\": 1}\n",
        "{\"id\": \"f\", \"code\": \"print(open('n.txt').read())\", \"files\": {\"../n.txt\": \"x\"}}\n",
        "{\"id\": \"g\", \"code\": \"object.__subclasses__()\"}",
    );
    let ran = fed(&world, &["batch", "-j", "2"], input);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("8 items"), "{}", ran.stderr);
    let mut seen: Vec<(String, String)> = ran
        .stdout
        .lines()
        .map(|line| {
            let value = Json::parse(line);
            (value["id"].to_string(), value["status"].as_str().unwrap().to_owned())
        })
        .collect();
    seen.sort();
    let expected = [
        ("\"a\"", "ok"),
        ("\"b\"", "error"),
        ("\"c\"", "timeout"),
        ("\"d\"", "ok"),
        ("\"e\"", "error"),
        ("\"f\"", "error"),
        ("\"g\"", "blocked"),
        ("null", "error"),
    ];
    let seen: Vec<(&str, &str)> = seen.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(seen, expected);
}

#[test]
fn commands_of_a_batch_are_held_and_written_down() {
    let world = World::new();
    world.write("work/plain.txt", "visible");
    world.write("work/.env", "canary");
    let items = [
        json!({"id": "seen", "command": "cat plain.txt"}),
        json!({"id": "hidden", "command": ["cat", ".env"]}),
        json!({"id": "stdin", "command": "cat", "stdin": "passed on"}),
        json!({"id": "slow", "command": "sleep 60", "timeout_ms": 200}),
        json!({"id": "words", "command": ["echo", 1]}),
        json!({"id": "none", "command": []}),
    ];
    let outcomes = batch(&world, &["--timeout", "20s"], &items);
    let stdout = |id: &str| outcomes[id]["stdout"].as_str().unwrap().to_owned();
    assert_eq!(stdout("seen"), "visible");
    assert!(!outcomes["hidden"].to_string().contains("canary"), "{}", outcomes["hidden"]);
    assert_eq!(outcomes["hidden"]["status"], "error");
    assert_eq!(stdout("stdin"), "passed on");
    assert_eq!(outcomes["slow"]["error"]["code"], "wall_deadline");
    assert_eq!(outcomes["words"]["error"]["code"], "bad_item");
    assert_eq!(outcomes["none"]["error"]["code"], "bad_item");
    let rows = world.ringfence(&["audit", "ls", "--json"]).stdout;
    let of_slow = outcomes["slow"]["run_id"].as_str().unwrap();
    assert!(rows.contains(of_slow), "{rows}");
}

#[test]
fn a_batch_is_resumed_where_it_stopped() {
    let world = World::new();
    let items: Vec<String> =
        (0..20).map(|i| json!({"id": i, "code": format!("print({i})")}).to_string()).collect();
    let items = items.join("\n");
    let first = fed(&world, &["batch", "-j", "2"], &items);
    let half: Vec<&str> = first.stdout.lines().take(11).collect();
    // The last line of a killed batch may be cut in two.
    let partial = format!("{}\n{}", half.join("\n"), "{\"id\": 19, \"sta");
    let earlier = world.write("work/earlier.jsonl", &partial);
    let again = fed(&world, &["batch", "--resume", earlier.to_str().unwrap()], &items);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let id = |line: &str| Json::parse(line)["id"].as_u64().unwrap();
    let mut ids: Vec<u64> = half.iter().copied().chain(again.stdout.lines()).map(id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..20).collect::<Vec<_>>());
    assert!(again.stderr.contains("9 items") && again.stderr.contains("11 were done before"));
}

#[test]
fn collected_files_are_in_the_outcome() {
    let item = json!({
        "id": "x", "code": "open('r.txt', 'w').write(open('in.txt').read() * 2)",
        "files": {"in.txt": "ab"}, "collect": true,
    });
    let outcomes = batch(&World::new(), &["--preset", "data"], &[item]);
    let texts: Vec<&Json> =
        outcomes["x"]["artifacts"].as_array().unwrap().iter().map(|a| &a["text"]).collect();
    assert_eq!(texts, [&json!("abab")], "{}", outcomes["x"]);
}

#[test]
fn ordinary_programs_run() {
    let world = World::new();
    let programs = programs(&corpus());
    assert!(programs.len() >= 150, "{}", programs.len());
    let python = with_libraries(&world);
    let mut able: BTreeMap<&str, bool> = BTreeMap::new();
    for (_, text) in &programs {
        if let Some(needs) = header(text, "needs: ") {
            able.entry(needs).or_insert_with(|| has(&world, python, needs));
        }
    }
    for (needs, _) in able.iter().filter(|(_, able)| !**able) {
        missing("libraries", &format!("this Python has no {needs}"));
    }
    let runnable: Vec<&(String, String)> = programs
        .iter()
        .filter(|(_, text)| header(text, "needs: ").is_none_or(|needs| able[needs]))
        .collect();
    for preset in ["standard", "data", "open"] {
        let items: Vec<Json> =
            runnable.iter().map(|(name, text)| json!({"id": name, "code": text})).collect();
        let outcomes = batch(&world, &[&["--preset", preset], python].concat(), &items);
        let mut wrong = Vec::new();
        for (name, text) in &runnable {
            let outcome = &outcomes[name.as_str()];
            let allowed = header(text, "presets: ").unwrap().split(',').any(|p| p == preset);
            let right = if allowed {
                let expected = std::fs::read_to_string(corpus().join(format!("{name}.out")));
                outcome["status"] == "ok" && outcome["stdout"] == expected.unwrap()
            } else {
                outcome["status"] == "blocked"
            };
            if !right {
                let denials = outcome["denials"].to_string();
                let stderr = outcome["stderr"].as_str().unwrap();
                wrong.push(format!("{name}: {} {denials} {stderr}", outcome["status"]));
            }
        }
        assert!(wrong.is_empty(), "{preset}: {}\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn attacks_are_stopped_with_screening_off() {
    let world = World::new();
    let attacks = programs(&corpus().join("attacks"));
    assert!(attacks.len() >= 60, "{}", attacks.len());
    let here: Vec<&(String, String)> = attacks
        .iter()
        .filter(|(_, text)| {
            header(text, "needs: ").is_none_or(|needs| needs == std::env::consts::ARCH)
        })
        .collect();
    let items: Vec<Json> = here
        .iter()
        .map(|(name, text)| json!({"id": name, "code": text, "timeout_ms": 6000}))
        .collect();
    let flags = ["--preset", "open", "--cpu", "4s"];
    let warm = batch(&world, &flags, &items);
    let alone = |(name, text): &&(String, String)| {
        let file = format!("{name}.py");
        world.write(&format!("work/{file}"), text);
        let mut args = vec!["exec", "--json", "--timeout", "6s"];
        args.extend(flags);
        args.push(&file);
        let output =
            world.command(&args).current_dir(world.work()).stdin(Stdio::null()).bounded_output();
        let outcome = Json::parse(&output.unwrap().stdout);
        hole(&format!("{name}, alone"), text, &outcome)
    };
    let mut holes: Vec<String> = here
        .iter()
        .filter_map(|(name, text)| hole(&format!("{name}, warm"), text, &warm[name.as_str()]))
        .collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = here
            .chunks(here.len().div_ceil(4))
            .map(|chunk| scope.spawn(|| chunk.iter().filter_map(alone).collect::<Vec<_>>()))
            .collect();
        holes.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap()));
    });
    assert!(holes.is_empty(), "{}", holes.join("\n"));
}

/// What an attack got that it should not have.
fn hole(name: &str, text: &str, outcome: &Json) -> Option<String> {
    let (status, stdout) = (&outcome["status"], outcome["stdout"].as_str().unwrap());
    let stopped = header(text, "expect: ").unwrap().split(" or ").any(|expected| {
        match (expected.strip_prefix("status="), expected.strip_prefix("STOPPED ")) {
            (Some(wanted), _) => status == wanted,
            (_, Some(words)) => {
                let line = stdout.trim_end();
                let said = words.split('|').any(|word| line == format!("STOPPED {word}"));
                said && status == "ok"
            }
            _ => false,
        }
    });
    (!stopped || stdout.contains("ESCAPED")).then(|| {
        let stdout: String = stdout.chars().take(200).collect();
        format!("{name}: {status} {stdout:?} {}", outcome["stderr"])
    })
}

#[test]
fn what_works_or_is_looked_for_by_the_interpreter_is_no_denial() {
    let world = World::new();
    let programs = [
        ("loop", "import asyncio\nasyncio.run(asyncio.sleep(0))"),
        ("handler", "import atexit\natexit.register(lambda: 1 // 0)"),
        ("deleted", "class A:\n    def __del__(self): 1 // 0\nA()"),
    ];
    let items: Vec<Json> = programs.map(|(id, code)| json!({"id": id, "code": code})).to_vec();
    let mut outcomes = batch(&world, &["--preset", "open"], &items);
    for (id, code) in programs {
        let output =
            world.command(&["exec", "--preset", "open", "--json", "-c", code]).bounded_output();
        let alone = Json::parse(&output.unwrap().stdout);
        for outcome in [outcomes.remove(id).unwrap(), alone] {
            assert_eq!(outcome["denials"], json!([]), "{id}: {outcome}");
        }
    }
}

#[test]
fn two_runs_see_nothing_of_each_other() {
    let world = World::new();
    let look = "import os, time\n\
                open('/tmp/mine', 'w').write('x'); open('/dev/shm/mine', 'w').write('x')\n\
                open('mine', 'w').write('x')\n\
                time.sleep(0.3)\n\
                print(sorted(os.listdir('/tmp')), sorted(os.listdir('/dev/shm')), os.listdir('.'))\n\
                print([p for p in os.listdir('/proc') if p.isdigit()])";
    let items: Vec<Json> = ["a", "b", "c"].map(|id| json!({"id": id, "code": look})).to_vec();
    for (id, outcome) in batch(&world, &["--preset", "open", "-j", "3"], &items) {
        let expected = "['mine'] ['mine'] ['mine']\n['1']\n";
        assert_eq!(outcome["stdout"], expected, "{id}: {outcome}");
    }
}

#[test]
fn no_two_runs_draw_the_same_numbers() {
    let world = World::new();
    let open = "import os, random\n\
                print(random.random(), random.gauss(0, 1), os.urandom(8), sep='\\n')";
    let data = "import random\nimport numpy as np\n\
                print(random.random(), random.gauss(0, 1), *np.random.rand(2).tolist(), sep='\\n')";
    let mut presets = vec![("open", open)];
    let python = with_libraries(&world);
    if has(&world, python, "numpy") {
        presets.push(("data", data));
    } else {
        missing("libraries", "this Python has no numpy");
    }
    for (preset, draw) in presets {
        let items: Vec<Json> =
            (0..6).map(|id| json!({"id": id.to_string(), "code": draw})).collect();
        let flags = [&["--preset", preset, "-j", "2"], python].concat();
        let outcomes = batch(&world, &flags, &items);
        let said: Vec<&str> =
            outcomes.values().flat_map(|o| o["stdout"].as_str().unwrap().lines()).collect();
        let different: std::collections::BTreeSet<&str> = said.iter().copied().collect();
        assert!(said.len() >= 18 && different.len() == said.len(), "{preset}: {outcomes:?}");
    }
}

#[test]
fn a_session_keeps_its_variables_through_everything() {
    let world = World::new();
    let cells = [
        ("x = 41", "ok"),
        ("x += 1\nwhile True: pass", "timeout"),
        ("x += 1\nimport os; os._exit(0)", "killed"),
        ("x += 1\nimport ctypes; ctypes.string_at(0)", "killed"),
        ("x += 1\ny = bytearray(600 << 20)", "memory"),
        ("import os; os.fork()", "error"),
        ("import sys; sys.stdout = None", "ok"),
        ("import os; os.close(1); os.close(2)", "ok"),
        ("raise ValueError('\\ud800')", "error"),
        ("'\u{1f600}' * 20000", "ok"),
        ("import sys; sys.exit(2 ** 70)", "error"),
        ("import os; os.write(3, b'D{')", "killed"),
        ("import builtins; del builtins.len", "ok"),
        ("def f():\n    return x + 1", "ok"),
        ("f()", "ok"),
    ];
    let lines: Vec<String> = cells.iter().map(|(cell, _)| json!(cell).to_string()).collect();
    let input = lines.join("\n");
    let args = ["repl", "--json", "--preset", "open", "--timeout", "500ms"];
    let ran = fed(&world, &args, &input);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let outcomes = Json::lines(&ran.stdout);
    let statuses: Vec<&str> = outcomes.iter().map(|o| o["status"].as_str().unwrap()).collect();
    let expected: Vec<&str> = cells.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, expected, "{}", ran.stdout);
    assert_eq!(outcomes[cells.len() - 1]["value"], "42");
    let undone = outcomes[1]["error"]["hint"].as_str().unwrap();
    assert!(undone.contains("the session keeps the variables"), "{undone}");
}

#[test]
fn a_session_goes_back_and_branches() {
    let world = World::new();
    let input = "x = 1\n\nx = 2\n\n:rollback 1\n\nx\n\n:branch\n\nx = 10\n\n:switch\n\nx\n\n:switch\n\nx\n\n:rollback 99\n";
    let ran = fed(&world, &["repl"], input);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "back after cell 1; files are as they are", "{}", ran.stdout);
    assert_eq!(lines[1], "1");
    assert_eq!((lines[2], lines[3], lines[4]), ("in branch 2", "in branch 1", "1"));
    assert_eq!((lines[5], lines[6]), ("in branch 2", "10"), "{}", ran.stdout);
    assert!(lines[7].contains("no checkpoint after cell 99"), "{}", ran.stdout);
}

#[test]
fn a_refused_cell_is_told_once() {
    let world = World::new();
    // In a pipe a cell ends at an empty line.
    let ran = fed(&world, &["repl", "--preset", "standard"], "if 1:\n  import os\n\n6 * 7\n");
    let told = "ringfence: the preset `standard` refuses the program:\n\
                ringfence: 2:10: import_not_allowed `os`\n\
                ringfence:   hint: do without it; the preset `data` has it, `--allow-import os` adds it\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "42\n", told));
    let ran = fed(&world, &["repl", "--memory", "64M"], "x = bytearray(1 << 30)\n");
    assert_eq!(ran.stderr.matches("asked for more than 64M").count(), 1, "{}", ran.stderr);
}

#[test]
fn nothing_of_python_is_left_when_its_caller_is_killed() {
    let world = World::new();
    let endless = "while True: pass";
    world.write("work/items.jsonl", &format!("{{\"id\": 1, \"code\": \"{endless}\"}}\n"));
    let alone = ["exec", "--preset", "open", "-c", endless];
    let warm = ["batch", "--preset", "open", "-j", "1", "items.jsonl"];
    // Alone: init and interpreter. Warm: keeper, supervisor, init, zygote, worker.
    for (command, n_processes) in [(&alone[..], 2), (&warm[..], 5)] {
        let mut child = world
            .command(command)
            .current_dir(world.work())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .bounded_spawn()
            .unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut below = Vec::new();
        while below.len() < n_processes {
            assert!(std::time::Instant::now() < deadline, "not there: {below:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
            below = descendants(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while below.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            assert!(std::time::Instant::now() < deadline, "still there: {below:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Every process below `pid` now.
fn descendants(pid: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let parent = rest.split(' ').nth(1).and_then(|ppid| ppid.parse().ok());
        if let (Ok(pid), Some(parent)) = (entry.file_name().to_string_lossy().parse(), parent) {
            parents.insert(pid, parent);
        }
    }
    let is_below = |mut at: u32| {
        while let Some(parent) = parents.get(&at) {
            if *parent == pid {
                return true;
            }
            at = *parent;
        }
        false
    };
    parents.keys().copied().filter(|at| is_below(*at)).collect()
}

#[test]
fn a_program_cannot_say_that_it_never_ran() {
    let world = World::new();
    let forge = "import os\nprint('did things', flush=True)\nos.write(3, b'E\\x1b[31mforged\\n')\nos._exit(7)";
    let output = world
        .command(&["exec", "--preset", "open", "--json", "-c", forge])
        .bounded_output()
        .unwrap();
    let alone = Json::parse(&output.stdout);
    let warm = batch(&world, &["--preset", "open"], &[json!({"id": "x", "code": forge})]);
    for outcome in [&alone, &warm["x"]] {
        assert_eq!(
            (&outcome["ran"], &outcome["exit_code"]),
            (&json!("yes"), &json!(7)),
            "{outcome}"
        );
        assert_eq!(outcome["stdout"], "did things\n");
        assert!(!outcome.to_string().contains("forged"));
    }
}

#[test]
fn memory_that_no_limit_counts_is_counted() {
    let world = World::new();
    let grow = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mremap.restype = ctypes.c_void_p\n\
        at = [int(l.split('-')[0], 16) for l in open('/proc/thread-self/maps') if '[stack]' in l][0]\n\
        m = libc.mremap(ctypes.c_void_p(at), 4096, 600 << 20, 1, 0)\n\
        for i in range(0, 590 << 20, 1 << 20):\n    ctypes.memset(m + i, 1, 1 << 20)\n    print(i, flush=True)\n\
        import time\nfor _ in range(500):\n    print(end='.', flush=True)\n    time.sleep(0.01)\nprint('ESCAPED')";
    let flags = ["--preset", "open", "--memory", "64M"];
    // Nor is it hidden by the end of a process's first thread.
    let thread = format!(
        "def grow():\n    {}\nimport ctypes, threading, time\n\
         threading.Thread(target=grow).start()\nctypes.CDLL(None).syscall({}, 0)",
        grow.replace('\n', "\n    "),
        if cfg!(target_arch = "x86_64") { 60 } else { 93 }
    );
    let items = [json!({"id": "x", "code": grow}), json!({"id": "y", "code": thread})];
    for (id, outcome) in batch(&world, &flags, &items) {
        assert_eq!(outcome["status"], "memory", "{id}: {outcome}");
    }
}

#[test]
fn what_could_not_be_given_never_ran() {
    let world = World::new();
    // A file, and another below it.
    let files = json!({"a": "x", "a/b": "y"});
    let items: Vec<Json> =
        (0..60).map(|id| json!({"id": id.to_string(), "code": "1", "files": files})).collect();
    for (id, outcome) in batch(&world, &["--preset", "open", "-j", "2"], &items) {
        assert_eq!(outcome["ran"], "no", "{id}: {outcome}");
    }
}

#[test]
fn nothing_is_left_of_a_program_with_a_large_file_whose_caller_is_killed() {
    let world = World::new();
    world.write("work/large", &"x".repeat(3 << 20));
    for ms in [5, 20, 40, 80] {
        let args =
            ["exec", "--preset", "open", "--file", "large", "-c", "import time; time.sleep(30)"];
        let mut child = world
            .command(&args)
            .current_dir(world.work())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .bounded_spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(ms));
        let below = descendants(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while below.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            assert!(std::time::Instant::now() < deadline, "still there: {below:?}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The command lines of a process's descendants.
fn command_lines(of: u32) -> Vec<String> {
    let mut found = Vec::new();
    let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    for child in children.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok())
    {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        found.push(String::from_utf8_lossy(&line).into_owned());
        found.extend(command_lines(child));
    }
    found
}

#[test]
fn no_plan_is_in_a_command_line() {
    let world = World::new();
    let mut child = world
        .command(&["repl", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .bounded_spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\"6*7\"\n").unwrap();
    let mut answer = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut answer).unwrap();
    assert!(answer.contains("42"), "{answer}");
    let lines = command_lines(child.id());
    assert!(lines.iter().any(|line| line.contains("python")), "{lines:?}");
    for line in lines {
        assert!(line.len() < 600, "{} bytes: {}…", line.len(), &line[..200]);
    }
    drop(stdin);
    child.wait().unwrap();
}

#[test]
fn a_cell_may_add_no_more_than_its_limit() {
    let world = World::new();
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    let cell = "n = 0\nimport time\nfor i in range(15):\n    n += open('k%d' % i, 'wb').write(b'x' * (20 << 20))\n    time.sleep(0.1)\nn";
    let args = ["repl", "--json", "--preset", "open", "--session", &id, "--disk", "50M"];
    let input = format!("{}\n{}\n", json!(cell), json!("6 * 7"));
    let ran = fed(&world, &args, &input);
    let outcomes = Json::lines(&ran.stdout);
    assert_eq!(outcomes[0]["error"]["code"], "disk_limit", "{}", outcomes[0]);
    // The session goes on, and the next cell has a limit of its own.
    assert_eq!(outcomes[1]["value"], "42", "{}", outcomes[1]);
}

/// Its owner may write in a directory without being able to list it.
#[test]
fn a_directory_that_cannot_be_listed_hides_nothing_from_a_cells_limit() {
    let world = World::new();
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    let cell = "import os, time\nos.mkdir('d', 0o300)\nfor i in range(30):\n    open('d/%d' % i, 'wb').write(b'x' * (1 << 20))\n    time.sleep(0.05)";
    let args = ["repl", "--json", "--preset", "open", "--session", &id, "--disk", "2M"];
    let input = format!("{}\n{}\n", json!(cell), json!("6 * 7"));
    let ran = fed(&world, &args, &input);
    let outcomes = Json::lines(&ran.stdout);
    assert_eq!(outcomes[0]["error"]["code"], "disk_limit", "{}", outcomes[0]);
    assert_eq!(outcomes[1]["value"], "42", "{}", outcomes[1]);
}

#[test]
fn output_that_nobody_takes_holds_no_exec_up() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let code = "import os\nwhile True: os.write(1, b'x' * 65536)";
    let mut command = world.command(&["exec", "--preset", "open", "--timeout", "1s", "-c", code]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let status = command.bounded_status_within(Duration::from_mins(1)).expect("it ends by itself");
    assert_eq!(status.code(), Some(124));
    drop(reader);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = world.command(&["exec", "-c", "print(1)"]);
    command.stdout(full).stderr(Stdio::null());
    assert_eq!(command.bounded_status().unwrap().code(), Some(125));
}
