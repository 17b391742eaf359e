//! The commands of a shell command line: a flat list of simple commands, found through pipes, lists, subshells,
//! substitutions, loops, functions, here-documents, and programs that run other programs (`sudo`, `xargs`, `bash -c`).
//!
//! Used for rules, risk and records, never as the boundary (the jail is). Never guesses: a part that cannot be read is
//! listed in [`Shape::opaque`] with the reason. Runs nothing, expands no variable, reads no file.

mod bounds;
mod braces;
mod redirects;
mod scripts;
mod shells;
mod tree;
mod words;
mod wrappers;

use serde::Serialize;

pub use bounds::{COMMAND_BYTES_MAX, COMMANDS_MAX, DEPTH_MAX, STEPS_MAX};
pub use words::{Part, Word};

/// The commands of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Every simple command in it, in the order they are written. A command that runs another comes before it: for
    /// `sudo rm x` the list is `sudo rm x` and `rm x`.
    pub commands: Vec<Simple>,
    /// Reasons for parts that could not be read.
    pub opaque: Vec<Reason>,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Simple {
    /// The program and its arguments. Empty where there are only assignments or redirections.
    pub words: Vec<Word>,
    /// Variables set for it, or for the shell.
    pub assignments: Vec<Assignment>,
    /// Files it is connected to.
    pub redirects: Vec<Redirect>,
    /// The programs that run it, outermost first: `sudo`, `xargs`, `bash`.
    pub within: Vec<String>,
    /// Programs whose output is its input through pipes: the nearest eight, nearest last.
    pub fed_by: Vec<String>,
}

/// A variable and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Word,
}

/// A redirection from or to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Redirect {
    /// Its direction.
    pub direction: Direction,
    /// The file.
    pub path: Word,
}

/// Direction of a redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`
    Write,
    /// `>>`
    Append,
    /// `<>`
    ReadWrite,
}

/// Reason that a part could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Reason {
    /// More bytes than are read.
    TooLong,
    /// More nesting than is followed.
    TooDeep,
    /// More commands than are listed.
    TooMany,
    /// More work than a command line is given.
    TooCostly,
    /// Not the grammar of a shell.
    Syntax {
        /// The parser's message.
        message: String,
    },
    /// The program is an expansion: `$cmd x`.
    UnknownProgram {
        /// The known part of its name.
        program: String,
    },
    /// The text of a script is an expansion: `eval "$x"`, `bash -c "$x"`.
    UnknownScript {
        /// The program that would run it.
        program: String,
    },
    /// A shell takes its commands from its input.
    ShellReadsInput {
        /// The shell.
        program: String,
        /// The program that feeds it, empty if it is the caller's own input.
        from: String,
    },
    /// A program of another language is given as text: `python -c`.
    OtherLanguage {
        /// The interpreter.
        program: String,
    },
    /// A program that is not a known wrapper gets a shell with a script as arguments.
    UnknownWrapper {
        /// The program.
        program: String,
    },
}

/// Reads a command line.
///
/// ```
/// let shape = ringfence_screen::shell::shape("echo hi | sudo tee /etc/motd");
/// let programs: Vec<_> = shape.commands.iter().filter_map(|c| c.program()).collect();
/// assert_eq!(programs, ["echo", "sudo", "tee"]);
/// assert!(shape.opaque.is_empty());
/// ```
pub fn shape(command: &str) -> Shape {
    read(command).shape
}

/// Steps that reading a command line takes: at most [`STEPS_MAX`], which also stands for more.
pub fn cost(command: &str) -> usize {
    read(command).n_steps
}

fn read(command: &str) -> tree::ShellPart {
    let mut found = tree::ShellPart::default();
    scripts::read(command, &tree::Position::default(), &mut found);
    found
}

/// Reads a list of words that is executed without a shell: nothing in them is expanded.
pub fn shape_of_argv(argv: &[String]) -> Shape {
    let mut found = tree::ShellPart::default();
    if argv.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
        found.opaque(Reason::TooLong);
        return found.shape;
    }
    let words = argv.iter().map(|word| Word::known(word)).collect();
    let simple = Simple { words, ..Simple::default() };
    wrappers::add(simple, &tree::Position::default(), &mut found);
    found.shape
}

impl Simple {
    /// The program's name without its directory, where it is known.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?.text()?;
        Some(name.rsplit('/').next().unwrap_or(name))
    }

    /// The arguments, without the program.
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}
