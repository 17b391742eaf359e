//! The interpreter is trusted code: where it may come from, what of its place is shown, and that looking for it cannot be
//! held up.

use ringfence_testing::BoundedCommand as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::support::{Ran, World, is_root};

/// A virtual environment in the workspace that a fenced command has made and planted code in.
fn planted() -> World {
    let world = World::new();
    let script = "python3 -m venv --without-pip .venv && site=$(echo .venv/lib/python3.*/site-packages) && \
        echo 'import sys; sys.planted = 1; sys.stderr.write(\"PLANTED\\n\")' > $site/planted.pth && \
        echo 'raise SystemExit(\"PLANTED\")' > $site/sitecustomize.py";
    let ran = world.sh(&[], script);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    world
}

/// `ringfence ARGS` as after `. .venv/bin/activate`.
fn activated(world: &World, args: &[&str], stdin: &str) -> Ran {
    use std::io::Write as _;
    let path = format!("{}:/usr/bin:/bin", world.work().join(".venv/bin").display());
    let mut command = world.command(args);
    command.env("PATH", path).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.bounded_spawn().unwrap();
    // A command that is refused does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    Ran::from(&child.wait_with_output().unwrap())
}

#[test]
fn an_environment_that_a_run_could_write_is_not_kept_warm() {
    let world = planted();
    let cell = "import sys; print(hasattr(sys, 'planted'), sys.prefix.endswith('.venv'))";
    let ran = activated(&world, &["repl"], cell);
    assert_eq!(ran.code, 126, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("cannot be kept warm"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("PLANTED"), "{}", ran.stderr);
    // Following the hint helps.
    let ran = activated(&world, &["repl", "--python", "/usr/bin/python3"], cell);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "False False\n"), "{}", ran.stderr);
    // Neither does it help to start somewhere else.
    let python = world.work().join(".venv/bin/python3");
    let mut command = world.command(&["repl", "--python", python.to_str().unwrap()]);
    let ran = Ran::from(&command.current_dir(world.home()).bounded_output().unwrap());
    assert_eq!(ran.code, 126, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn many_programs_of_such_an_environment_run_one_by_one_and_say_so() {
    let world = planted();
    let code = "import sys; print(hasattr(sys, 'planted'), sys.prefix.endswith('.venv'))";
    let items = format!("{{\"id\": 1, \"code\": \"{code}\"}}\n{{\"id\": 2, \"code\": \"6*7\"}}\n");
    let ran = activated(&world, &["batch", "-j", "1"], &items);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let outcomes: Vec<_> =
        ran.stdout.lines().map(|line| ringfence_testing::Json::parse(line)).collect();
    assert_eq!(outcomes[0]["stdout"], "False True\n", "{}", outcomes[0]);
    assert_eq!(outcomes[1]["value"], "42", "{}", outcomes[1]);
    for outcome in &outcomes {
        assert_eq!(outcome["start"], "cold", "{outcome}");
        let gaps = outcome["enforcement"]["gaps"].to_string();
        assert!(gaps.contains("which runs may write"), "{gaps}");
    }
}

#[test]
fn a_run_in_a_directory_of_roots_leaves_the_system_python_trusted() {
    if is_root() {
        // A run of root's could write there. The suite is run again as an ordinary user.
        return;
    }
    let world = World::new();
    let mut command = world.command(&["run", "--", "true"]);
    let ran = Ran::from(&command.current_dir("/usr/lib").bounded_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let item = world.work().join("item");
    std::fs::write(&item, "{\"id\": 1, \"code\": \"6*7\"}\n").unwrap();
    let flags = ["batch", "--python", "/usr/bin/python3", item.to_str().unwrap()];
    let batch = world.ringfence(&flags);
    assert_eq!(batch.code, 0, "{}", batch.stderr);
    let gaps = batch.json()["enforcement"]["gaps"].to_string();
    assert!(!gaps.contains("which runs may write"), "{gaps}");
}

#[test]
fn a_single_program_of_such_an_environment_runs_and_says_so() {
    let world = planted();
    let code = "import sys; print(hasattr(sys, 'planted'), sys.prefix.endswith('.venv'))";
    let ran = activated(&world, &["exec", "--preset", "open", "--json", "-c", code], "");
    let outcome = ran.json();
    assert_eq!(outcome["stdout"], "False True\n", "{outcome}");
    assert!(!outcome["stderr"].to_string().contains("PLANTED"), "{outcome}");
    let gaps = outcome["enforcement"]["gaps"].to_string();
    assert!(gaps.contains(".venv") && gaps.contains("which runs may write"), "{gaps}");
    // The receipt names the place; of a system's interpreter it has no gap.
    assert!(outcome["enforcement"]["python"].as_str().unwrap().contains(".venv"), "{outcome}");
    let flags = ["exec", "--json", "--python", "/usr/bin/python3", "-c", "1"];
    let outcome = world.ringfence(&flags).json();
    assert!(outcome["enforcement"]["python"].as_str().unwrap().ends_with(" /usr"), "{outcome}");
    assert_eq!(outcome["enforcement"]["gaps"].as_array().unwrap().len(), 0, "{outcome}");
}

#[test]
fn an_environment_elsewhere_is_used_with_its_packages() {
    let world = World::new();
    let venv = world.root().join("venv");
    let made = std::process::Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .bounded_status()
        .unwrap();
    assert!(made.success());
    let site = std::fs::read_dir(venv.join("lib")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(site.join("site-packages/own_package.py"), "answer = 42").unwrap();
    let python = venv.join("bin/python3");
    let item = "{\"id\": 1, \"code\": \"import own_package; own_package.answer\"}\n";
    let mut command =
        world.command(&["batch", "--preset", "open", "--python", python.to_str().unwrap()]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .bounded_spawn()
        .unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), item.as_bytes());
    let ran = Ran::from(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.json()["value"], "42", "{}", ran.stdout);
}

#[test]
fn of_an_interpreters_place_only_python_is_shown() {
    let world = World::new();
    world.write("work/.env", "TOKEN=1");
    world.write("work/secret.txt", "x");
    // The project itself looks like an environment.
    world.write("work/pyvenv.cfg", "home = /usr/bin\n");
    std::fs::create_dir_all(world.work().join("bin")).unwrap();
    symlink("/usr/bin/python3", world.work().join("bin/python3")).unwrap();
    let list = format!("import os; print(sorted(os.listdir({:?})))", world.work());
    let ran =
        world.ringfence(&["exec", "--preset", "open", "--python", "bin/python3", "-c", &list]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "['bin', 'pyvenv.cfg']\n");
    // A workspace called `lib` does not show the directory above it.
    let project = World::new();
    let lib = project.work().join("lib");
    std::fs::create_dir(&lib).unwrap();
    project.write("work/.env", "TOKEN=1");
    let real = std::fs::canonicalize("/usr/bin/python3").unwrap();
    std::fs::copy(&real, lib.join("python3")).unwrap();
    let version = real.file_name().unwrap().to_str().unwrap().to_owned();
    project.write(&format!("work/lib/{version}/os.py"), "");
    let list = format!("import os; print(os.path.exists({:?}))", project.work().join(".env"));
    let mut command =
        project.command(&["exec", "--preset", "open", "--python", "./python3", "-c", &list]);
    let ran = Ran::from(&command.current_dir(&lib).bounded_output().unwrap());
    assert_ne!(ran.stdout, "True\n", "{}", ran.stderr);
}

#[test]
fn nothing_where_pyenv_keeps_its_version_holds_a_run_up() {
    let world = World::new();
    let root = world.root().join("pyenv");
    std::fs::create_dir_all(root.join("shims")).unwrap();
    std::fs::create_dir_all(root.join("versions/3.x")).unwrap();
    symlink("/usr/bin", root.join("versions/3.x/bin")).unwrap();
    world.write("pyenv/shims/python3", "#!/bin/sh\nexec pyenv\n");
    world.write("pyenv/version", "3.x\n");
    let path = format!("{}:/usr/bin:/bin", root.join("shims").display());
    let plants: [&dyn Fn(&std::path::Path); 3] = [
        &|at| {
            let made = std::process::Command::new("mkfifo").arg(at).bounded_status().unwrap();
            assert!(made.success());
        },
        &|at| symlink("/dev/zero", at).unwrap(),
        &|at| std::fs::write(at, "x".repeat(1 << 20)).unwrap(),
    ];
    for plant in plants {
        let at = world.work().join(".python-version");
        let _ = std::fs::remove_file(&at);
        plant(&at);
        let began = Instant::now();
        let mut command = world.command(&["exec", "-c", "print(1)"]);
        let ran = Ran::from(&command.env("PATH", &path).bounded_output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "1\n"), "{}", ran.stderr);
        assert!(began.elapsed() < Duration::from_mins(1));
    }
}
