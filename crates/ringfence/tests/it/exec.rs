//! `ringfence exec FILE ARG…` does as `python FILE ARG…` does.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ringfence_testing::BoundedCommand as _;

use crate::support::World;

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
