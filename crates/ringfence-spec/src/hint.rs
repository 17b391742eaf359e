//! Ways out of a refusal, as data: each front end words them with what its reader has. A person at the command line has
//! flags, a model has the arguments of its tools, a program has the fields of a request; none of them has the others'.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Span;

/// Reader of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// A person, with flags.
    CommandLine,
    /// A model, with the arguments of MCP tools.
    Mcp,
    /// A program, with the fields of a JSON request.
    Rest,
}

impl Face {
    /// Every face.
    pub const ALL: [Self; 3] = [Self::CommandLine, Self::Mcp, Self::Rest];
}

/// A limit that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitKind {
    /// Wall time.
    Timeout,
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// Disk space.
    Disk,
}

impl LimitKind {
    /// Every limit.
    pub const ALL: [Self; 5] = [Self::Timeout, Self::Cpu, Self::Memory, Self::Pids, Self::Disk];

    /// The setting's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Disk => "disk",
        }
    }

    /// The way out that a program has by itself.
    const fn instead(self) -> &'static str {
        match self {
            Self::Timeout => "do less in one run, or split the work",
            Self::Cpu => "compute less in one run, or split the work",
            Self::Memory => "hold less in memory at once",
            Self::Pids => "start fewer processes and threads at once",
            Self::Disk => "write less, or remove files that are no longer needed",
        }
    }
}

/// A way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Words that hold for every reader.
    Text(String),
    /// A limit of the policy ended the run.
    Limit(LimitKind),
    /// A limit of the policy ended the run, which a file has lowered: a flag cannot raise it.
    LimitOfFile {
        /// The limit.
        kind: LimitKind,
        /// The file.
        file: String,
    },
    /// The time that the caller asked for ended the run; the operator's limit is longer.
    LongerTime(Span),
    /// A module that the preset does not have.
    Import(String),
    /// A package that the interpreter does not have.
    Package(String),
    /// A unix socket that was not granted.
    Socket(String),
    /// The smallest rule that allows a refused connection.
    Network(String),
    /// An interpreter must be named.
    Python,
    /// A program tried to start a child process.
    ChildProcess,
    /// A line of a notebook that begins with this sign, `!` or `%`, in plain Python.
    NotebookLine(char),
    /// No session has this id.
    NewSession,
    /// The directory to work in cannot be made writable, such as a home.
    OtherDirectory,
    /// Something that a flag changes and only the operator can change for other readers.
    Operator {
        /// The words with the flag.
        command_line: String,
        /// The request to the operator.
        request: String,
    },
}

impl Hint {
    /// A way out by a flag, which readers without flags ask the operator for.
    pub fn operator(command_line: impl Into<String>, request: impl Into<String>) -> Self {
        Self::Operator { command_line: command_line.into(), request: request.into() }
    }

    /// The words for a reader.
    pub fn words(&self, face: Face) -> String {
        let at_command_line = face == Face::CommandLine;
        match self {
            Self::Text(text) => text.clone(),
            Self::Limit(kind) if at_command_line => {
                format!("raise it with `--{}`, within the operator's ceiling", kind.name())
            }
            Self::Limit(kind) => {
                format!("{}; the operator's `{}` is the limit", kind.instead(), kind.name())
            }
            Self::LimitOfFile { kind, file } if at_command_line => {
                format!("raise `{}` in `{file}`, which sets it", kind.name())
            }
            Self::LimitOfFile { kind, file } => {
                format!("{}; `{}` in `{file}` is the limit", kind.instead(), kind.name())
            }
            Self::LongerTime(_) if at_command_line => {
                "raise it with `--timeout`, within the operator's ceiling".to_owned()
            }
            Self::LongerTime(most) => format!("raise `timeout_s`; the operator allows {most}"),
            Self::Import(module) if at_command_line => format!(
                "do without it; the preset `data` has it, `--allow-import {module}` adds it"
            ),
            Self::Import(module) => {
                format!("do without it, or ask the operator to allow the import of `{module}`")
            }
            Self::Package(name) if at_command_line => format!(
                "`{name}` is not installed for this run's Python; install it there, or choose another with `--python`"
            ),
            Self::Package(name) => format!(
                "`{name}` is not installed for this run's Python and cannot be downloaded; do without it, or ask the operator \
                 to install it"
            ),
            Self::Socket(path) if at_command_line => format!(
                "unix sockets outside the run's own /tmp, /run and home are refused; grant this one with `--socket {path}`"
            ),
            Self::Socket(path) => format!(
                "unix sockets outside the run's own /tmp, /run and home are refused; do without it, or ask the operator to \
                 grant `{path}`"
            ),
            Self::Network(rule) if at_command_line => {
                format!("no rule allows it; `--net allow:{rule}` does")
            }
            Self::Network(rule) => {
                format!("no rule allows it; do without it, or ask the operator to allow `{rule}`")
            }
            Self::Python if at_command_line => {
                "name one with `--python PATH`; versions 3.9 to 3.14 work".to_owned()
            }
            Self::Python => "ask the operator to name a Python of version 3.9 to 3.14".to_owned(),
            Self::ChildProcess => {
                let none = "this run has no child processes; do the work in Python itself";
                let way = match face {
                    Face::CommandLine => "allow some with `--code-processes 4`",
                    Face::Mcp => "start programs with the tool `run_command`",
                    Face::Rest => "start programs as a run with `command`",
                };
                format!("{none}, or {way}")
            }
            Self::NotebookLine('!') => {
                let way = match face {
                    Face::CommandLine => "`ringfence run`",
                    Face::Mcp => "the tool `run_command`",
                    Face::Rest => "a run with `command`",
                };
                format!("`!` is a notebook's, and this is plain Python: run the command with {way}")
            }
            Self::NotebookLine(sign) => {
                format!("`{sign}` is a notebook's, and this is plain Python: leave the line out")
            }
            Self::NewSession => {
                let (known, make) = match face {
                    Face::CommandLine => ("`ringfence session ls`", "`ringfence session new`"),
                    Face::Mcp => (
                        "the answer that made it",
                        "`{\"action\": \"create\"}` of the tool `session`",
                    ),
                    Face::Rest => ("`GET /api/v1/sessions`", "`POST /api/v1/sessions`"),
                };
                format!(
                    "compare its id with {known}, or make one with {make}; a session ends 24 hours after it was made"
                )
            }
            Self::OtherDirectory if at_command_line => {
                "start in a project directory, or use `--preset readonly`".to_owned()
            }
            Self::OtherDirectory => {
                "give `session`, whose /workspace is writable, or ask the operator to start the service in a project directory"
                    .to_owned()
            }
            Self::Operator { command_line, .. } if at_command_line => command_line.clone(),
            Self::Operator { request, .. } => format!("ask the operator {request}"),
        }
    }

    /// Replaces it by its words for a reader.
    pub fn word_for(&mut self, face: Face) {
        if !matches!(self, Self::Text(_)) {
            *self = Self::Text(self.words(face));
        }
    }

    /// Changes words that hold for every reader.
    pub fn edit(&mut self, edit: impl FnOnce(&mut String)) {
        match self {
            Self::Text(text)
            | Self::Import(text)
            | Self::Package(text)
            | Self::Socket(text)
            | Self::Network(text) => edit(text),
            Self::Limit(_)
            | Self::LimitOfFile { .. }
            | Self::LongerTime(_)
            | Self::Python
            | Self::ChildProcess
            | Self::NotebookLine(_)
            | Self::NewSession
            | Self::OtherDirectory
            | Self::Operator { .. } => {}
        }
    }
}

impl Default for Hint {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Hint {
    /// Words it for the command line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Face::CommandLine))
    }
}

/// The form between Ringfence's own processes: the words are chosen where the reader is known.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Hint")]
enum HintData {
    Text(String),
    Limit(LimitKind),
    LimitOfFile { kind: LimitKind, file: String },
    LongerTime(Span),
    Import(String),
    Package(String),
    Socket(String),
    Network(String),
    Python,
    ChildProcess,
    NotebookLine(char),
    NewSession,
    OtherDirectory,
    Operator { command_line: String, request: String },
}

impl Serialize for Hint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            HintData::serialize(self, serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer).map(Self::Text)
        } else {
            HintData::deserialize(deserializer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each; a new kind does not compile until it has a row.
    fn every() -> Vec<Hint> {
        let rows = vec![
            Hint::Text("use threads".to_owned()),
            Hint::Limit(LimitKind::Timeout),
            Hint::Limit(LimitKind::Cpu),
            Hint::Limit(LimitKind::Memory),
            Hint::Limit(LimitKind::Pids),
            Hint::Limit(LimitKind::Disk),
            Hint::LimitOfFile { kind: LimitKind::Memory, file: "ringfence.toml".to_owned() },
            Hint::LongerTime(Span::secs(30)),
            Hint::Import("yaml".to_owned()),
            Hint::Package("yaml".to_owned()),
            Hint::Socket("/run/x.sock".to_owned()),
            Hint::Network("example.com:8443".to_owned()),
            Hint::Python,
            Hint::ChildProcess,
            Hint::NotebookLine('!'),
            Hint::NotebookLine('%'),
            Hint::NewSession,
            Hint::OtherDirectory,
            Hint::operator("pass `--proc none`", "to start the service with `proc` set to `none`"),
        ];
        for row in &rows {
            match row {
                Hint::Text(_)
                | Hint::Limit(_)
                | Hint::LimitOfFile { .. }
                | Hint::LongerTime(_)
                | Hint::Import(_)
                | Hint::Package(_)
                | Hint::Socket(_)
                | Hint::Network(_)
                | Hint::Python
                | Hint::ChildProcess
                | Hint::NotebookLine(_)
                | Hint::NewSession
                | Hint::OtherDirectory
                | Hint::Operator { .. } => {}
            }
        }
        rows
    }

    #[test]
    fn each_reader_is_told_only_what_it_has() {
        const ARGUMENTS: [&str; 3] = ["`timeout_s`", "`session`", "POST"];
        for hint in every() {
            let [command_line, mcp, rest] = Face::ALL.map(|face| hint.words(face));
            assert!(!ARGUMENTS.iter().any(|name| command_line.contains(name)), "{command_line}");
            for words in [mcp, rest] {
                assert!(!words.contains("`--") && !words.is_empty(), "{words}");
            }
        }
        let mut hint = Hint::Limit(LimitKind::Memory);
        hint.word_for(Face::Mcp);
        assert_eq!(
            hint.to_string(),
            "hold less in memory at once; the operator's `memory` is the limit"
        );
    }
}
