//! Real tools work in a workspace fence. docs/tools.md holds the table; a tool that is not installed is said loudly.

use std::process::Command;

use ringfence_testing::{BoundedCommand as _, missing};

use crate::support::World;

/// Names and texts of files.
type Files = &'static [(&'static str, &'static str)];

/// Ways to call the tool, files to lay out first, script. The first way that answers outside the fence is taken; the
/// script knows it as `$tool`.
const TOOLS: &[(&[&str], Files, &str)] = &[
    (&["gcc"], &[("m.c", "int main(){return 0;}")], "gcc -o m m.c && ./m"),
    (
        &["make"],
        &[("m.c", "int main(){return 0;}"), ("Makefile", "all:\n\tgcc -o m m.c\n")],
        "make && ./m",
    ),
    (
        &["cargo"],
        &[
            ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            ("src/main.rs", "fn main() {}"),
        ],
        "cargo build --offline && ./target/debug/x",
    ),
    (
        &["node"],
        &[],
        "node -e 'const s=require(\"net\").createServer().listen(0,\"127.0.0.1\",()=>s.close())'",
    ),
    (
        &["npm"],
        &[(
            "package.json",
            "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"hi\":\"node -e 1\"}}",
        )],
        "npm run hi",
    ),
    (
        // The system's may have what an own one, found first, has not.
        &["python3 -m pytest", "/usr/bin/python3 -m pytest"],
        &[("test_a.py", "def test_a(tmp_path):\n    assert tmp_path.exists()\n")],
        "$tool -q",
    ),
    (&["rg"], &[("a.txt", "needle")], "rg needle ."),
    (
        &["tar"],
        &[("a.txt", "x")],
        "tar cf t.tar a.txt && mkdir x && tar xf t.tar -C x && cat x/a.txt",
    ),
    (
        &["sqlite3"],
        &[],
        "sqlite3 t.db 'create table t(a); insert into t values(1); select a from t'",
    ),
    (
        // Which comes with java; the other way round is not sure.
        &["javac"],
        &[("A.java", "class A{public static void main(String[] a){}}")],
        "javac A.java && java A",
    ),
    (&["bash"], &[], "bash -c 'set -m; seq 100 | sort -r | head -3; sleep 0.05 & wait %1; jobs'"),
    (
        &["python3"],
        &[],
        "python3 -c 'import multiprocessing as m; p=m.Pool(2); print(p.map(abs,[1,2])); p.close()'",
    ),
];

/// Returns true if this user can run the tool outside the fence.
fn answers(way: &str) -> bool {
    let asked = Command::new("sh").args(["-c", &format!("{way} --version")]).bounded_output();
    asked.is_ok_and(|o| o.status.success())
}

#[test]
fn tools_people_use_work() {
    // The caller's own toolchains live in its real home; only the workspace is invented here.
    let mut failed = Vec::new();
    for (ways, files, script) in TOOLS {
        let Some(tool) = ways.iter().find(|way| answers(way)) else {
            missing("tools", &format!("{} is not installed for this user", ways.join(", ")));
            continue;
        };
        let world = World::new();
        for (name, text) in *files {
            world.write(&format!("work/{name}"), text);
        }
        let mut command =
            world.command(&["run", "--", "sh", "-c", &format!("tool='{tool}'; {script}")]);
        for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let output = command.bounded_output().unwrap();
        if output.status.success() {
            println!("ok {tool}");
        } else {
            failed.push(format!(
                "{tool}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn git_works_from_a_subdirectory_and_only_that_is_writable() {
    let world = World::new();
    world.write("repo/top.txt", "1\n");
    world.write("repo/.env", "CANARY=1\n");
    world.write("repo/sub/inner.txt", "2\n");
    let git = |line: &str| {
        let script = format!("cd {} && {line}", world.root().join("repo").display());
        let output =
            world.here(std::process::Command::new("sh")).args(["-c", &script]).bounded_output();
        assert!(output.unwrap().status.success(), "{line}");
    };
    git(
        "git init -q && git add top.txt sub && git -c user.name=a -c user.email=a@b commit -qm first",
    );
    let sub = world.root().join("repo/sub");
    let script = "git log --format=%s && git status --short && cat ../top.txt; \
                  touch ../new; cat ../.env; echo 3 > inner.txt; git status --short";
    let ran = world.ringfence(&["run", "--cwd", sub.to_str().unwrap(), "--", "sh", "-c", script]);
    assert_eq!(ran.stdout, "first\n?? ../.env\n1\n M inner.txt\n?? ../.env\n", "{}", ran.stderr);
    assert!(!world.root().join("repo/new").exists() && !ran.stdout.contains("CANARY"));
    // Outside of a repository, parent directories stay hidden.
    world.write("plain/sub/x", "");
    world.write("plain/top.txt", "1\n");
    let sub = world.root().join("plain/sub");
    let ran = world.ringfence(&["run", "--cwd", sub.to_str().unwrap(), "--", "cat", "../top.txt"]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
}

#[test]
fn a_command_that_only_the_host_sees_is_told_with_its_place() {
    let world = World::new();
    let tool = world.write_executable("elsewhere/own-tool", "#!/bin/sh\necho hi\n");
    let dir = world.root().join("elsewhere");
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let world = world.var("PATH", &path);
    let ran = world.ringfence(&["run", "--", "own-tool"]);
    assert_eq!(ran.code, 127);
    let hint = format!("the host has `{}`, which this run does not see", tool.display());
    assert!(ran.stderr.contains(&hint), "{}", ran.stderr);
    let ran = world.ringfence(&["run", "--ro", dir.to_str().unwrap(), "--", "own-tool"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hi\n"), "{}", ran.stderr);
    assert!(!world.ringfence(&["run", "--", "no-such-tool"]).stderr.contains("the host has"));
}

#[test]
fn a_script_whose_interpreter_is_missing_is_not_called_missing_itself() {
    let world = World::new();
    let script = |name: &str, text: &str| world.write_executable(&format!("work/{name}"), text);
    script("gone", "#!/no/such/interpreter -x\n");
    script("windows", "#!/bin/sh\r\necho hi\r\n");
    let interpreter = world.write_executable("elsewhere/run", "#!/bin/sh\necho run\n");
    script("unseen", &format!("#!{}\n", interpreter.display()));
    let unseen = format!("add `--ro {}`", interpreter.display());
    for (command, hint) in [
        ("./gone", "names `/no/such/interpreter`, which does not exist"),
        ("./windows", "ends with a carriage return"),
        ("./unseen", unseen.as_str()),
        ("true --version", "have a shell read the line with `sh -c`"),
    ] {
        let ran = world.ringfence(&["run", "--", command]);
        assert_eq!(ran.code, 127, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(hint), "{command}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("hint: ").count(), 1, "{command}: {}", ran.stderr);
    }
    let ran = world.ringfence(&["run", "--ro", interpreter.to_str().unwrap(), "--", "./unseen"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "run\n"), "{}", ran.stderr);
    // The same for what is there and cannot be executed.
    world.write("work/plain", "echo hi\n");
    script("no-interpreter", "echo hi\n");
    std::fs::create_dir(world.work().join("directory")).unwrap();
    for (command, hint) in [
        ("./plain", "`chmod +x`"),
        ("./no-interpreter", "such as `#!/bin/sh`"),
        ("./directory", "is a directory"),
    ] {
        let ran = world.ringfence(&["run", "--", command]);
        assert_eq!(ran.code, 126, "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(hint), "{command}: {}", ran.stderr);
    }
    let ran = world.ringfence(&["run", "--", "sh", "./plain"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "hi\n"), "{}", ran.stderr);
    let hidden = world.root().join("elsewhere");
    let hidden = hidden.to_str().unwrap();
    let ran = world.ringfence(&["run", "--hide", hidden, "--", interpreter.to_str().unwrap()]);
    assert!(ran.stderr.contains("is hidden from this run"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("--ro"), "{}", ran.stderr);
    let ran = world.ringfence(&["run", "--", "no such tool"]);
    assert!(!ran.stderr.contains("hint"), "{}", ran.stderr);
}

#[test]
fn a_program_in_place_of_a_subcommand_is_told_the_way_to_run_it() {
    let world = World::new();
    world.write("work/main.py", "print(1)\n");
    for (word, way) in
        [("ls", "`ringfence run -- ls`"), ("main.py", "`ringfence exec main.py`"), ("no-such", "")]
    {
        let ran = world.ringfence(&[word, "-l"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("unrecognized subcommand"), "{}", ran.stderr);
        assert!(ran.stderr.contains(way), "{word}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains("tip:"), !way.is_empty(), "{word}: {}", ran.stderr);
    }
}

#[test]
fn a_host_in_place_of_a_network_policy_is_told_as_a_rule() {
    let ran = World::new().ringfence(&["run", "--net", "pypi.org", "--", "true"]);
    assert!(ran.code == 2 && ran.stderr.contains("write allow:pypi.org"), "{}", ran.stderr);
}
