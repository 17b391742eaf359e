//! The words every attack and twin starts with, and the command that runs one.

use std::fmt::Write as _;

use ringfence_plan::seccomp::{self, Arch};

use crate::document::{Document, Language, Program};

pub(crate) const PYTHON: &str = "/usr/bin/python3";
pub(crate) const HOME: &str = "/home/victim";
pub(crate) const WORKSPACE: &str = "/home/victim/project";
pub(crate) const SECRET: &str = "/home/victim/.ssh/id_ed25519";
/// In `/etc`, which a run sees read-only: a socket that can be seen can be tried.
pub(crate) const SOCKET: &str = "/etc/victim/agent.sock";
/// The network namespace is the container's own, so the number is free.
pub(crate) const PORT: u16 = 7777;
/// The bystander: the first child of the container's first process.
pub(crate) const VICTIM: u32 = 2;

/// Past the last number of any table.
const NUMBERS_END: i32 = 1024;

/// Name server of the container, with its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    None,
    Served,
}

impl Names {
    pub(crate) fn of(document: &Document) -> Self {
        if document.names.is_some() { Self::Served } else { Self::None }
    }
}

/// Program and arguments: the prelude and the document's text as one argument.
pub(crate) fn argv(program: &Program, names: Names, canary: &str) -> Vec<String> {
    let command = match program.language {
        Language::Python => PYTHON,
        Language::Shell => "/bin/sh",
    };
    vec![command.to_owned(), "-c".to_owned(), text(program, names, canary)]
}

/// The prelude and the document's text.
pub(crate) fn text(program: &Program, names: Names, canary: &str) -> String {
    let prelude = match program.language {
        Language::Python => python_prelude(names, canary),
        Language::Shell => shell_prelude(canary),
    };
    prelude + &program.text
}

/// The words, with their values.
pub(crate) fn words(canary: &str) -> [(&'static str, String); 7] {
    [
        ("WORKSPACE", WORKSPACE.to_owned()),
        ("HOME", HOME.to_owned()),
        ("SECRET", SECRET.to_owned()),
        ("CANARY", canary.to_owned()),
        ("SOCKET", SOCKET.to_owned()),
        ("PORT", PORT.to_string()),
        ("VICTIM", VICTIM.to_string()),
    ]
}

fn shell_prelude(canary: &str) -> String {
    words(canary).iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "export {name}='{value}'");
        text
    })
}

fn python_prelude(names: Names, canary: &str) -> String {
    let mut text = String::new();
    for (name, value) in words(canary) {
        let number = matches!(name, "PORT" | "VICTIM");
        let quote = if number { "" } else { "'" };
        let _ = writeln!(text, "{name} = {quote}{value}{quote}");
    }
    text.push_str("_NUMBERS = {");
    if let Some(arch) = Arch::NATIVE {
        for nr in 0..NUMBERS_END {
            if let Some(name) = seccomp::name(arch, nr) {
                let _ = write!(text, "'{name}':{nr},");
            }
        }
    }
    text.push_str("}\n");
    text.push_str(include_str!("prelude.py"));
    if names == Names::Served {
        text.push_str(include_str!("network_prelude.py"));
    }
    text
}
