//! Flags that only one kind of run has: refused where the other kind is started, left out for it where both are.

use ringfence_spec::{Code, CodePreset, Problem};

use super::Subject;
use crate::cli::PolicyFlags;

/// A flag's name, and a function that removes the flag and returns true if it was given.
type OwnFlag = (&'static str, fn(&mut PolicyFlags) -> bool);

const OF_PYTHON: &[OwnFlag] = &[
    ("python", |flags| flags.python.take().is_some()),
    ("allow-import", |flags| taken(&mut flags.allow_import)),
    ("code-processes", |flags| flags.code_processes.take().is_some()),
];

const OF_COMMANDS: &[OwnFlag] = &[
    ("rw", |flags| taken(&mut flags.rw)),
    ("hide", |flags| taken(&mut flags.hide)),
    ("socket", |flags| taken(&mut flags.socket)),
    ("secret", |flags| taken(&mut flags.secret)),
    ("ssh-agent", |flags| taken(&mut flags.ssh_agent)),
    ("net-request", |flags| taken(&mut flags.net_request)),
    ("net-limit", |flags| taken(&mut flags.net_limit)),
    ("publish", |flags| taken(&mut flags.publish)),
    ("env", |flags| taken(&mut flags.env)),
    ("cwd", |flags| flags.cwd.take().is_some()),
    ("proc", |flags| flags.proc.take().is_some()),
];

/// Names the flags that help leaves out for this kind of run. Of two more, Python takes only the value it has anyway.
pub(crate) fn foreign_flags(subject: Subject) -> Vec<&'static str> {
    let (foreign, more): (_, &[&str]) = match subject {
        Subject::Command => (OF_PYTHON, &[]),
        Subject::Code => (OF_COMMANDS, &["net", "fallback"]),
    };
    foreign.iter().map(|(flag, _)| *flag).chain(more.iter().copied()).collect()
}

fn taken(list: &mut Vec<String>) -> bool {
    !std::mem::take(list).is_empty()
}

/// A flag without meaning for this kind of run is an error, not ignored.
pub(super) fn refuse_foreign(flags: &PolicyFlags, subject: Subject) -> Result<(), Problem> {
    let (foreign, code, whose) = match subject {
        Subject::Command => {
            (OF_PYTHON, Code::FlagForPython, "is for Python runs and means nothing for a command")
        }
        Subject::Code => (
            OF_COMMANDS,
            Code::FlagForCommands,
            "is for commands and means nothing for Python, which sees a directory of its own",
        ),
    };
    let mut flags = flags.clone();
    match foreign.iter().find(|(_, take)| take(&mut flags)) {
        None => Ok(()),
        Some((flag, _)) => Err(Problem::usage(code, format!("`--{flag}` {whose}"))),
    }
}

/// For command lines that start both commands and Python: `mcp`, `serve`, `batch`.
impl PolicyFlags {
    /// Returns the flags for Python, without those that only apply to commands.
    pub(crate) fn for_code(&self) -> Self {
        let mut flags = self.without(OF_COMMANDS);
        // Python may be told that it has no network and no weaker tier; for commands more can be said.
        (flags.net, flags.fallback, flags.own_directories) = (None, None, None);
        flags.preset = flags.preset.filter(|preset| is_for_code(preset));
        flags
    }

    /// Returns the flags for commands, without those that only apply to Python.
    pub(crate) fn for_commands(&self) -> Self {
        let mut flags = self.without(OF_PYTHON);
        flags.preset = flags.preset.filter(|preset| !is_for_code(preset));
        flags
    }

    fn without(&self, foreign: &[OwnFlag]) -> Self {
        let mut flags = self.clone();
        for (_, take) in foreign {
            take(&mut flags);
        }
        flags
    }
}

/// Returns true for a code preset. Code and command presets share no name.
pub(super) fn is_for_code(preset: &str) -> bool {
    preset.parse::<CodePreset>().is_ok()
}
