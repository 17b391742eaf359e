//! The table: what is asked, and what comes of it whoever asks.

use ringfence_testing::{Json, json};

/// One request.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// As REST takes it: `code` or `command`, and perhaps `timeout_s`.
    pub(crate) asked: Json,
    pub(crate) status: &'static str,
    /// Fields of the outcome by JSON pointer, so that faces do not agree on something else.
    pub(crate) expected: Vec<(&'static str, Json)>,
}

/// A file of the workspace that no run may read.
pub(crate) const SECRET: &str = ".env";

/// What the operator decided: a rule about commands, and that secrets are taken out of answers.
pub(crate) const OPERATOR: &str = r#"
redact = "on"

[[rules.deny]]
name = "no-push"
commands = [{ program = "git", arguments = ["push"] }]
reason = "pushing is for people"
"#;

/// An operator who lets nobody run Python.
pub(crate) const NO_PYTHON: &str = r#"
[[rules.deny]]
name = "no-python"
tools = ["execute_code"]
reason = "commands only"
"#;

/// What comes of a program then.
pub(crate) fn without_python() -> Vec<Row> {
    vec![code("a program that a rule refuses", "6 * 7", "blocked", refused())]
}

fn refused() -> [(&'static str, Json); 2] {
    [("/error/code", json!("rule")), ("/ran", json!("no"))]
}

/// Every row.
pub(crate) fn rows() -> Vec<Row> {
    let long = "print('x' * 11_000_000)";
    let red = "print('\\x1b[31mred\\u202e')";
    let trace = "def f():\n    raise ValueError('no')\nf()";
    let import = "/denials/0/rule";
    vec![
        code("a value", "6 * 7", "ok", [("/value", json!("42")), ("/stdout", json!(""))]),
        code("no value", "None", "ok", [("/value", json!(null))]),
        code("output", "print('hi')", "ok", [("/stdout", json!("hi\n")), ("/value", json!(null))]),
        code("output and a value", "print('a')\n6 * 7", "ok", [("/value", json!("42"))]),
        code(
            "unicode",
            "print('ä 漢 🦀')\n'ß'",
            "ok",
            [("/stdout", json!("ä 漢 🦀\n")), ("/value", json!("'ß'"))],
        ),
        code("a module", "import json\njson.dumps({'ä': [1, None]})", "ok", []),
        code("escape sequences", red, "ok", []),
        code("long output", long, "ok", [("/truncated/stdout", json!(true))]),
        code("an exception", "1 / 0", "error", [("/exception/type", json!("ZeroDivisionError"))]),
        code("an exception below", trace, "error", [("/exception/type", json!("ValueError"))]),
        code("an exit code", "raise SystemExit(3)", "error", [("/exit_code", json!(3))]),
        code(
            "output and an exit code",
            "print('x' * 100)\nexit(3)",
            "error",
            [("/exit_code", json!(3))],
        ),
        code("a syntax error", "x = (", "blocked", [("/ran", json!("no"))]),
        code("a finding", "import os", "ok", [("/findings/0/rule", json!("import_not_allowed"))]),
        code(
            "several rules",
            "import gc, sys\nsys.settrace(gc.get_objects)",
            "blocked",
            [(import, json!("module_member_not_allowed"))],
        ),
        code(
            "reflection",
            "().__class__.__base__.__subclasses__()",
            "blocked",
            [("/ran", json!("no"))],
        ),
        code(
            "a file",
            "open('/etc/shadow').read()",
            "error",
            [("/exception/type", json!("FileNotFoundError"))],
        ),
        slow(code("no end", "while True: pass", "timeout", [("/stdout", json!(""))])),
        slow(code(
            "output and no end",
            "print('x', flush=True)\nwhile True: pass",
            "timeout",
            [("/stdout", json!("x\n"))],
        )),
        code("memory", "a = bytearray(10 ** 10)", "memory", []),
        line(
            "a command",
            "echo out; echo err >&2",
            "ok",
            [("/stdout", json!("out\n")), ("/stderr", json!("err\n"))],
        ),
        line("a command that reads", "cat; echo end", "ok", [("/stdout", json!("end\n"))]),
        line("a command in unicode", "echo 'ä 漢 🦀'", "ok", [("/stdout", json!("ä 漢 🦀\n"))]),
        line(
            "bytes that are no text",
            "printf '\\377\\376'",
            "ok",
            [("/encoding", json!("base64"))],
        ),
        line(
            "long output of a command",
            "head -c 11000000 /dev/zero | tr '\\0' x",
            "ok",
            [("/truncated/stdout", json!(true))],
        ),
        line("a command that fails", "echo out; exit 5", "error", [("/exit_code", json!(5))]),
        line(
            "a command that is not there",
            "no-such-command",
            "error",
            [("/exit_code", json!(127))],
        ),
        line("a command killed by itself", "kill -9 $$", "killed", [("/signal", json!(9))]),
        line(
            "a secret of the workspace",
            "cat .env",
            "error",
            [("/exit_code", json!(1)), ("/stdout", json!(""))],
        ),
        line("a command that a rule refuses", "true; git push origin main", "blocked", refused()),
        code(
            "a secret in a program's output",
            "print('gh' + 'p_x7Kq9LmZ2vRt4WbN8yHd3FsJ6pGc1TeUaQ5o')",
            "ok",
            [("/stdout", json!("[redacted:github-token]\n"))],
        ),
        line(
            "a secret in a command's output",
            "printf 'gh%s\\n' p_x7Kq9LmZ2vRt4WbN8yHd3FsJ6pGc1TeUaQ5o",
            "ok",
            [("/stdout", json!("[redacted:github-token]\n"))],
        ),
        line("a directory of the host's", "echo x > /etc/x", "error", []),
        line("a system call", "unshare -r true", "error", [(import, json!("namespaces"))]),
        slow(line(
            "a command without an end",
            "echo up; sleep 60",
            "timeout",
            [("/stdout", json!("up\n"))],
        )),
    ]
}

fn code<const N: usize>(
    name: &'static str,
    code: &str,
    status: &'static str,
    expected: [(&'static str, Json); N],
) -> Row {
    Row { name, asked: json!({"code": code}), status, expected: expected.into() }
}

fn line<const N: usize>(
    name: &'static str,
    command: &str,
    status: &'static str,
    expected: [(&'static str, Json); N],
) -> Row {
    Row { name, asked: json!({"command": command}), status, expected: expected.into() }
}

/// With less time than the policy gives.
fn slow(mut row: Row) -> Row {
    row.asked.insert("timeout_s", 1.5);
    row
}
