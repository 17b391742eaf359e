//! `ringfence check`: a verdict for people and for programs, and the contract's exit codes.

use std::io::Write as _;
use std::process::Stdio;

use ringfence_testing::{BoundedCommand as _, json};

use crate::support::{Ran, World};

#[test]
fn a_safe_program_is_0_and_a_refused_one_126() {
    let world = World::new();
    let safe = world.ringfence(&["check", "-c", "import json\nprint(json.dumps({}))"]);
    assert_eq!(
        (safe.code, safe.stdout.as_str()),
        (0, "allowed by preset data\n"),
        "{}",
        safe.stderr
    );
    let noted = world.ringfence(&["check", "-c", "import os"]);
    let text =
        "allowed by preset data\n  line 1   allowed and noted, high risk: import_not_allowed os\n";
    assert_eq!((noted.code, noted.stdout.as_str()), (0, text), "{}", noted.stderr);
    let refused = world.ringfence(&["check", "--preset", "standard", "-c", "import os"]);
    assert_eq!(
        (refused.code, refused.stdout.as_str(), refused.stderr.as_str()),
        (
            126,
            "refused by preset standard, risk high\n  1:8      import_not_allowed: os\n             hint: do without it; the preset `data` has it, `--allow-import os` adds it\n",
            ""
        )
    );
}

#[test]
fn the_verdict_is_one_object() {
    let world = World::new();
    let source = "x = 1\neval('1')";
    let ran = world.ringfence(&["check", "--json", "--preset", "standard", "-c", source]);
    assert_eq!(ran.code, 126);
    assert_eq!(
        ran.json(),
        json!({
            "preset": "standard", "safe": false, "risk": "high",
            "violations": [{
                "rule": "call_not_allowed", "subject": "eval", "line": 2, "column": 1,
                "hint": "write the expression itself; to read data use `json.loads`",
            }],
            "findings": [],
        })
    );
    let ran = world.ringfence(&["check", "--json", "-c", source]);
    let finding = json!({"rule": "call_not_allowed", "subject": "eval", "line": 2, "risk": "high"});
    assert_eq!(
        ran.json(),
        json!({"preset": "data", "safe": true, "risk": "high", "violations": [], "findings": [finding]})
    );
    let ran = world.ringfence(&["check", "--json", "-c", "1"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.json()["violations"], json!([]));
}

#[test]
fn code_comes_from_a_file_or_stdin() {
    let world = World::new();
    world.write("work/good.py", "print(1)\n");
    world.write("work/bad.py", "print(print.__globals__)\n");
    assert_eq!(world.ringfence(&["check", "good.py"]).code, 0);
    assert_eq!(world.ringfence(&["check", "bad.py"]).code, 126);
    let stdin = |text: &str| {
        let mut child = world
            .command(&["check", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .bounded_spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        Ran::from(&child.wait_with_output().unwrap()).code
    };
    assert_eq!(stdin("print(1)"), 0);
    assert_eq!(stdin("object.__subclasses__()"), 126);
    let large = world.write("work/large.py", &"#".repeat(60_000));
    let large = large.to_str().unwrap();
    assert_eq!(world.ringfence(&["check", large]).code, 0);
    let ran = world.ringfence(&["check", "--preset", "standard", large]);
    assert!(ran.stdout.contains("source_too_large"), "{}", ran.stdout);
}

#[test]
fn the_preset_comes_from_the_flag_else_the_settings() {
    let code = |world: &World, args: &[&str]| {
        world.ringfence(&[&["check"], args, &["-c", "open('x')"]].concat()).code
    };
    assert_eq!(code(&World::new(), &[]), 0);
    assert_eq!(code(&World::new(), &["--preset", "standard"]), 126);
    assert_eq!(code(&World::new().var("RINGFENCE_CODE_PRESET", "standard"), &[]), 126);
    assert_eq!(code(&World::new().var("RINGFENCE_PRESET", "standard"), &[]), 126);
    assert_eq!(code(&World::new().var("RINGFENCE_PRESET", "readonly"), &[]), 0);
    assert_eq!(
        code(&World::new().var("RINGFENCE_CODE_PRESET", "data"), &["--preset", "strict"]),
        126
    );
    let world = World::new();
    world.write(
        "home/.config/ringfence/config.toml",
        "code_preset = \"open\"\ncommand_preset = \"readonly\"\n",
    );
    assert_eq!(code(&world, &[]), 0);
    let shown = world.ringfence(&["policy", "show", "--json"]).json();
    assert_eq!(shown["code_preset"]["value"], "open");
    assert_eq!(shown["command_preset"]["value"], "readonly");
}

#[test]
fn an_operator_sets_a_floor() {
    let world = World::new();
    world.write("policy.toml", "code_preset_at_least = \"standard\"\n");
    let policy = world.root().join("policy.toml");
    let check = |flags: &[&str]| {
        let args = [&["check", "--policy", policy.to_str().unwrap()], flags, &["-c", "open('x')"]];
        world.ringfence(&args.concat())
    };
    // The default becomes the floor; a tighter preset may be asked for, a looser one not.
    let ran = check(&[]);
    assert_eq!(ran.code, 126, "{}", ran.stdout);
    assert!(ran.stdout.starts_with("refused by preset standard"), "{}", ran.stdout);
    assert!(check(&["--preset", "strict"]).stdout.contains("preset strict"));
    for looser in ["data", "open"] {
        let ran = check(&["--preset", looser]);
        assert_eq!((ran.code, ran.stdout.as_str()), (126, ""));
        assert!(ran.stderr.contains("ask for `standard`, or a tighter preset"), "{}", ran.stderr);
    }
}

#[test]
fn a_module_can_be_added_by_flag_variable_and_file() {
    let source = "import yaml";
    let standard = || World::new().var("RINGFENCE_CODE_PRESET", "standard");
    assert_eq!(standard().ringfence(&["check", "-c", source]).code, 126);
    assert_eq!(standard().ringfence(&["check", "--allow-import", "yaml", "-c", source]).code, 0);
    let world = standard().var("RINGFENCE_ALLOW_IMPORT", "requests,yaml");
    assert_eq!(world.ringfence(&["check", "-c", source]).code, 0);
    let world = standard();
    world.write("policy.toml", "allow_import = [\"yaml\"]\n");
    let policy = world.root().join("policy.toml");
    assert_eq!(
        world.ringfence(&["check", "--policy", policy.to_str().unwrap(), "-c", source]).code,
        0
    );
}

#[test]
fn bad_usage_is_2_and_says_what() {
    let world = World::new();
    let rows: &[(&[&str], &str)] = &[
        (&["check"], "required"),
        (&["check", "-c", "1", "x.py"], "cannot be used with"),
        (&["check", "no-such-file.py"], "no-such-file.py"),
        (&["check", "."], "cannot read `.`"),
        (&["check", "--preset", "workspace", "-c", "1"], "choose data, standard, strict or open"),
        (&["check", "--allow-import", "a b", "-c", "1"], "--allow-import"),
    ];
    for (args, needle) in rows {
        let ran = world.ringfence(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(needle), "{args:?}: {}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_file_of_another_encoding_does_not_break_the_answer() {
    let world = World::new();
    std::fs::write(world.work().join("latin.py"), b"x = '\xe9'\n\x1b[31m").unwrap();
    let ran = world.ringfence(&["check", "latin.py"]);
    assert_eq!(ran.code, 126);
    assert!(ran.stdout.contains("source_not_utf8: byte 0xe9"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\x1b'));
}
