//! `ringfence exec FILE ARG…` does as `python FILE ARG…` does.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringfence_testing::BoundedCommand as _;

use crate::support::{Ran, World};

#[test]
fn a_script_has_its_own_name_and_arguments() {
    let world = World::new();
    world.write(
        "work/tool.py",
        "import sys\nprint(sys.argv, __file__, __name__)\nraise ValueError(1)\n",
    );
    // Flags after the file are the program's.
    let ran = world.ringfence(&["exec", "tool.py", "--json", "-x", "a b"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.stdout, "['tool.py', '--json', '-x', 'a b'] tool.py __main__\n");
    assert!(ran.stderr.contains("File \"tool.py\", line 3, in <module>"), "{}", ran.stderr);
    for args in [
        &["exec", "-c", "import sys; print(sys.argv[1:])", "a", "b"][..],
        &["exec", "-c", "import sys; print(sys.argv[1:])", "--", "a", "b"],
    ] {
        assert_eq!(world.ringfence(args).stdout, "['a', 'b']\n", "{args:?}");
    }
    let ran = world.ringfence(&["exec", "--jsn", "tool.py"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("`--jsn` is not a flag"), "{}", ran.stderr);
    assert_eq!(world.ringfence(&["exec"]).code, 2);
}

#[test]
fn a_program_without_a_file_is_read_from_stdin() {
    let world = World::new();
    let script = format!(
        "echo 'import sys; print(sys.argv)' | {0} exec; {0} exec < /dev/null",
        crate::support::binary().display()
    );
    let mut shell = world.here(std::process::Command::new("sh"));
    let ran = Ran::from(&shell.args(["-c", &script]).bounded_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (2, "['main.py']\n"), "{}", ran.stderr);
    assert_eq!(
        ran.stderr,
        "error: there is no program to run\n  cause: no FILE and no `-c CODE` is given, and stdin is empty\n  \
         hint: name its FILE, pass `-c CODE`, or send it to stdin, which `-` names\n"
    );
    // At a terminal it does not wait for input.
    let (_master, slave) = crate::support::pty(24, 80);
    let mut command = world.command(&["exec"]);
    let ran = Ran::from(&command.stdin(slave).bounded_output().unwrap());
    assert!(ran.code == 2 && ran.stderr.contains("stdin is a terminal"), "{}", ran.stderr);
}

/// A hint is copied into a shell.
#[test]
fn names_in_hints_are_words_for_a_shell() {
    let world = World::new();
    let script = |hint: &str| {
        let (_, way) = hint.split_once("copy it in with `").unwrap_or_else(|| panic!("{hint}"));
        let (flag, _) = way.split_once('`').unwrap();
        let code = "print(open(\"it's a file\").read())";
        world.write("work/code.py", code);
        let ringfence = crate::support::binary();
        let command = if flag.starts_with("ringfence ") {
            format!("{}{}", ringfence.display(), flag.strip_prefix("ringfence").unwrap())
        } else {
            format!("{} exec {flag} code.py", ringfence.display())
        };
        let mut shell = world.here(std::process::Command::new("sh"));
        Ran::from(&shell.args(["-c", &command]).bounded_output().unwrap())
    };
    world.write("work/it's a file", "found");
    let code = "open(\"it's a file\")";
    let ran = script(&world.ringfence(&["exec", "-c", code]).stderr);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "found\n"), "{}", ran.stderr);
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    let ran = script(&world.ringfence(&["exec", "--session", &id, "-c", code]).stderr);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(world.ringfence(&["exec", "--session", &id, "-c", code]).code, 0);
    world.write("else where/data", "3");
    let path = world.root().join("else where/data");
    let ran = world.ringfence(&["exec", "-c", &format!("open({:?})", path.to_str().unwrap())]);
    let hint = format!("`--ro '{}'`", path.display());
    assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
}

#[test]
fn five_refusals_are_printed_and_all_with_verbose() {
    let world = World::new();
    let code = "object.__subclasses__()\n".repeat(8);
    let refusals = |args: &[&str]| {
        let ran = world.ringfence(&[args, &["exec", "-c", &code]].concat());
        assert_eq!(ran.code, 126, "{}", ran.stderr);
        ran.stderr.matches("`__subclasses__`").count()
    };
    assert_eq!((refusals(&[]), refusals(&["--verbose"])), (5, 8));
}

#[test]
fn a_project_is_readable_at_its_own_path_and_its_modules_import() {
    let world = World::new();
    world.write("work/tool.py", "import helper\nprint(helper.x, open(__file__).read()[:6])\n");
    world.write("work/helper.py", "x = 1\n");
    world.write("work/.env", "CANARY=1\n");
    let ran = world.ringfence(&["exec", "--ro", ".", "tool.py"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1 import\n"), "{}", ran.stderr);
    // Readable, not writable, and its secrets are masked.
    for (act, error) in [
        ("open(d + '/new', 'w')", "OSError"),
        ("open(d + '/.env').read()", "PermissionError"),
        ("os.remove(d + '/helper.py')", "OSError"),
    ] {
        let code = format!(
            "import os\nd = {:?}\ntry:\n    {act}\n    print('done')\nexcept {error} as e:\n    print('refused')",
            world.work().display().to_string()
        );
        let ran = world.ringfence(&["exec", "--ro", ".", "-c", &code]);
        assert_eq!(ran.stdout, "refused\n", "{act}: {}", ran.stderr);
    }
    // Without the grant nothing of it is there.
    let ran = world.ringfence(&["exec", "tool.py"]);
    assert!(ran.stderr.contains("No module named 'helper'"), "{}", ran.stderr);
}

#[test]
fn files_and_directories_are_copied_in_and_only_changes_come_out() {
    let world = World::new();
    world.write("work/data/a.csv", "1\n");
    world.write("work/data/deep/b.csv", "2\n");
    world.write("work/sales.csv", "3\n");
    std::os::unix::fs::symlink("/etc/passwd", world.work().join("data/link")).unwrap();
    let code = "import os\n\
        found = sorted(os.path.join(d, f) for d, _, fs in os.walk('.') for f in fs)\n\
        open('data/a.csv', 'a').write('more')\n\
        open('new.txt', 'w').write('new')\n\
        print(found)";
    let args = ["exec", "--json", "--file", "data", "--file", "sales.csv", "-c", code];
    let outcome = world.ringfence(&args).json();
    let expected = "['./data/a.csv', './data/deep/b.csv', './sales.csv']\n";
    assert_eq!(outcome["stdout"], expected, "{outcome}");
    let artifacts = outcome["artifacts"].as_array().unwrap();
    let paths: Vec<_> = artifacts.iter().map(|a| a["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["data/a.csv", "new.txt"]);
}

#[test]
fn a_file_that_does_not_fit_is_told_the_bound_and_read_where_it_is() {
    let world = World::new();
    let sized = |name: &str, bytes: u64| {
        world.write(&format!("work/{name}"), "");
        let file = std::fs::OpenOptions::new().write(true).open(world.work().join(name)).unwrap();
        file.set_len(bytes).unwrap();
    };
    let exec = |flags: &[&str]| {
        let code = "import os; print(sorted(os.listdir()))";
        world.ringfence(&[&["exec"], flags, &["-c", code]].concat())
    };
    sized("much", 101 << 20);
    let ran = exec(&["--file", "much"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let told = "they have 105906176 bytes, and the run's disk holds 100M";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let hint = "read them where they are with `--ro PATH`, or raise the limit with `--disk`";
    assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    let followed = exec(&["--file", "much", "--disk", "200M"]);
    assert_eq!((followed.code, followed.stdout.as_str()), (0, "['much']\n"), "{}", followed.stderr);
    // More than the host reads.
    sized("more", (1 << 30) + 1);
    let ran = exec(&["--file", "more"]);
    let told = "it has 1073741825 bytes; `--file` copies at most 1 GiB";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    sized("dir/more", (1 << 30) + 1);
    let ran = exec(&["--file", "dir"]);
    assert!(
        ran.stderr.contains("more: `--file` copies at most 1 GiB of a directory"),
        "{}",
        ran.stderr
    );
    let path = world.work().join("more");
    let size = format!("import os; print(os.path.getsize({path:?}))");
    let ran = world.ringfence(&["exec", "--ro", "more", "-c", &size]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1073741825\n"), "{}", ran.stderr);
}

#[test]
fn a_file_that_is_missing_inside_and_present_outside_is_told_with_its_flag() {
    let world = World::new();
    world.write("work/sales.csv", "3\n");
    let ran = world.ringfence(&["exec", "-c", "open('sales.csv')"]);
    assert_eq!(ran.code, 1);
    let line = "`sales.csv` is in your directory, not in the program's: copy it in with `--file sales.csv`";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    let ran = world.ringfence(&["exec", "-c", "open('other.csv')"]);
    assert!(!ran.stderr.contains("--file"), "{}", ran.stderr);
}

#[test]
fn a_program_imports_the_modules_of_its_directory() {
    let world = World::new();
    let code = "open('own.py', 'w').write('answer = 42')\nimport own\nprint(own.answer)";
    let outcome = world.ringfence(&["exec", "--json", "-c", code]).json();
    assert_eq!(outcome["stdout"], "42\n", "{outcome}");
    // No compiled modules beside it.
    let artifacts = outcome["artifacts"].as_array().unwrap();
    assert!(artifacts.len() == 1 && artifacts[0]["path"] == "own.py", "{outcome}");
    // So do workers and the cells of a session.
    let item = format!("{}", ringfence_testing::json!({"id": 1, "code": code}));
    world.write("work/item", &format!("{item}\n"));
    let outcome = world.ringfence(&["batch", "item"]).json();
    assert_eq!(outcome["stdout"], "42\n", "{outcome}");
    let cells = world.write("work/cells", &format!("{}\n", ringfence_testing::json!(code)));
    let mut repl = world.command(&["repl", "--json"]);
    let output = repl.stdin(std::fs::File::open(cells).unwrap()).bounded_output().unwrap();
    let outcome = crate::support::Ran::from(&output).json();
    assert_eq!(outcome["stdout"], "42\n", "{outcome}");
    // A module is not screened, so that a preset which allows certain imports has none of its own.
    world.write("work/math.py", "print('mine')");
    let flags = ["exec", "--preset", "standard", "--file", "math.py", "-c"];
    let ran = world.ringfence(&[&flags[..], &["import math; print(math.floor(2.5))"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "2\n"), "{}", ran.stderr);
    world.write("work/own.py", "answer = 42");
    let flags = ["exec", "--preset", "standard", "--allow-import", "own", "--file", "own.py", "-c"];
    let ran = world.ringfence(&[&flags[..], &["import own"]].concat());
    assert!(ran.stderr.contains("No module named 'own'"), "{}", ran.stderr);
}

#[test]
fn a_file_elsewhere_on_the_host_is_told_with_its_flag() {
    let world = World::new();
    let file = world.write("elsewhere/data.csv", "3\n");
    let code = format!("print(open({:?}).read())", file.to_str().unwrap());
    let ran = world.ringfence(&["exec", "-c", &code]);
    assert_eq!(ran.code, 1);
    let flag = format!("--ro {}", file.display());
    assert!(
        ran.stderr.contains(&format!("not in this run: to read it, show it with `{flag}`")),
        "{}",
        ran.stderr
    );
    let ran = world.ringfence(&["exec", "--ro", file.to_str().unwrap(), "-c", &code]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "3\n\n"), "{}", ran.stderr);
    // What the host does not have either has no flag.
    let ran = world.ringfence(&["exec", "-c", "open('/no/such/file')"]);
    assert!(ran.stderr.contains("is not visible in this run"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("--ro"), "{}", ran.stderr);
}

#[test]
fn a_module_beside_the_program_is_told_with_its_flag() {
    let world = World::new();
    world.write("work/app/helper.py", "answer = 42\n");
    world.write("work/app/main.py", "from helper import answer\nprint(answer)\n");
    let ran = world.ringfence(&["exec", "app/main.py"]);
    assert_eq!(ran.code, 1);
    let line = "`app/helper.py` is beside your program, not in this run: show it with `--ro app`";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    assert!(!ran.stderr.contains("is not installed"), "{}", ran.stderr);
    let ran = world.ringfence(&["exec", "--ro", "app", "app/main.py"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "42\n"), "{}", ran.stderr);
    // Code without a file has the caller's directory beside it.
    world.write("work/helper.py", "answer = 43\n");
    let code = "import helper; print(helper.answer)";
    let ran = world.ringfence(&["exec", "-c", code]);
    assert!(ran.stderr.contains("copy it in with `--file helper.py`"), "{}", ran.stderr);
    let ran = world.ringfence(&["exec", "--file", "helper.py", "-c", code]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "43\n"), "{}", ran.stderr);
    // A module found nowhere counts as a missing package; one that the program can do without is not mentioned.
    let ran = world.ringfence(&["exec", "-c", "import no_such_module"]);
    assert!(ran.stderr.contains("`no_such_module` is not installed"), "{}", ran.stderr);
    let code = "try:\n    import no_such_module\nexcept ImportError:\n    print('without')";
    let ran = world.ringfence(&["exec", "-c", code]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("without\n", ""));
}

#[test]
fn code_that_stands_for_a_file_is_told_its_flag() {
    let world = World::new();
    let ran = world.ringfence(&["exec", "print(6*7)"]);
    assert!(ran.code == 2 && ran.stderr.contains("given with `-c`"), "{}", ran.stderr);
    let ran = world.ringfence(&["exec", "nowhere.py"]);
    assert!(ran.code == 2 && !ran.stderr.contains("hint"), "{}", ran.stderr);
}

#[test]
fn artifacts_that_cannot_be_copied_are_no_success() {
    let world = World::new();
    // A directory where the file would be: so for root too.
    world.write("work/out/a/x", "");
    let flags = ["exec", "--artifacts", "out", "-c"];
    let ran = world.ringfence(&[&flags[..], &["open('a', 'w').write('x')"]].concat());
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("files were not copied"), "{}", ran.stderr);
    // A program that failed keeps its own exit code.
    let ran = world
        .ringfence(&[&flags[..], &["open('a', 'w').write('x'); raise SystemExit(7)"]].concat());
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    assert!(ran.stderr.contains("files were not copied"), "{}", ran.stderr);
}

#[test]
fn a_place_for_artifacts_is_judged_before_the_program_starts() {
    let world = World::new();
    world.write("work/taken", "");
    for (dir, cause) in [
        ("taken", "cause: it is not a directory\n"),
        ("taken/x", "taken` is not a directory\n"),
        ("no/such", "no` does not exist\n"),
    ] {
        let ran = world.ringfence(&["exec", "--artifacts", dir, "-c", "print('ran')"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{dir}: {}", ran.stderr);
        assert!(ran.stderr.contains(cause), "{dir}: {}", ran.stderr);
    }
    assert_eq!(world.names().len(), 1, "{:?}", world.names());
    let ran = world.ringfence(&["exec", "--artifacts", "new", "-c", "open('r', 'w').write('x')"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(std::fs::read(world.work().join("new/r")).unwrap(), b"x");
}

#[test]
fn files_that_are_gone_with_the_program_are_named() {
    let world = World::new();
    let code = "for name in 'abcde': open(name, 'w').write('x')";
    let note = "ringfence: the program made files, which are gone with its directory: `a`, `b`, `c`, 2 more; \
                `--artifacts DIR` copies them out\n";
    assert_eq!(world.ringfence(&["exec", "-c", code]).stderr, note);
    let one = world.ringfence(&["exec", "-c", "open('r.txt', 'w').write('x')"]).stderr;
    assert!(one.contains("made a file, which is gone with its directory: `r.txt`;"), "{one}");
    let id = world.ringfence(&["session", "new"]).stdout.trim().to_owned();
    for quiet in [&["--artifacts", "out"][..], &["--session", &id], &["--quiet"], &["--json"]] {
        let ran = world.ringfence(&[&["exec"], quiet, &["-c", code]].concat());
        assert_eq!(ran.stderr, "", "{quiet:?}");
    }
}

#[test]
fn output_streams_and_has_no_bound() {
    let world = World::new();
    let code = "import time\nprint('first', flush=True)\ntime.sleep(60)";
    let mut child = world
        .command(&["exec", "-c", code])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .bounded_spawn()
        .unwrap();
    let began = Instant::now();
    let mut first = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!((&first, began.elapsed() < Duration::from_secs(29)), (b"first\n", true));
    child.kill().unwrap();
    child.wait().unwrap();
    let code = "import sys\nfor n in range(30): sys.stdout.buffer.write(bytes([n]) * 1_000_000)";
    let output = world.command(&["exec", "-c", code]).bounded_output().unwrap();
    assert!(output.status.success());
    let n = output.stdout.len();
    assert!(
        n == 30_000_000
            && output.stdout.chunks(1_000_000).zip(0..).all(|(c, n)| c.iter().all(|b| *b == n)),
        "{n}"
    );
    // An operator who has secrets taken out of answers gets them taken out here too, within the limit.
    let world = world.var("RINGFENCE_REDACT", "on");
    let code = "print('gh' + 'p_x7Kq9LmZ2vRt4WbN8yHd3FsJ6pGc1TeUaQ5o')";
    let ran = world.ringfence(&["exec", "-c", code]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "[redacted:github-token]\n"));
}
