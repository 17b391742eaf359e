//! Colour and amount of what is printed: `--color`, `--quiet` and `--verbose`, and the variables that terminals agree on
//! (<https://no-color.org>, <https://bixense.com/clicolors>). Set once, before anything is printed.

use std::ffi::OsStr;
use std::sync::OnceLock;

use crate::cli::{Color, OutputFlags};

/// A stream of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Appearance of a text on a terminal. Never the only carrier of a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Heading,
    Good,
    Warning,
    Bad,
    Hint,
    Faint,
}

impl Look {
    /// Select Graphic Rendition of ECMA-48; the sixteen colours follow the terminal's theme.
    const fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
            Self::Hint => "36",
            Self::Faint => "2",
        }
    }
}

static FLAGS: OnceLock<OutputFlags> = OnceLock::new();

/// Applies the flags to everything printed from now on. The first call counts.
pub(crate) fn set(flags: OutputFlags) {
    let _ = FLAGS.set(flags);
}

fn flags() -> OutputFlags {
    FLAGS.get().copied().unwrap_or_default()
}

/// Returns true if notes and progress are not wanted.
pub(crate) fn is_quiet() -> bool {
    flags().quiet
}

/// Returns true if details are wanted.
pub(crate) fn is_verbose() -> bool {
    flags().verbose
}

/// Returns true if a stream is a terminal.
pub(crate) fn is_terminal(stream: Stream) -> bool {
    rustix::termios::isatty(match stream {
        Stream::Stdout => rustix::stdio::stdout(),
        Stream::Stderr => rustix::stdio::stderr(),
    })
}

/// Returns the width of the terminal that stdout is; `None` if it is none.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    is_terminal(Stream::Stdout).then_some(match size.ws_col {
        // A terminal that does not know its size.
        0 => 80,
        n => usize::from(n),
    })
}

/// Returns true if a stream gets colours.
pub(crate) fn is_coloured(stream: Stream) -> bool {
    decide(flags().color, &|name| std::env::var_os(name), &|| is_terminal(stream))
}

fn decide(
    color: Color,
    variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
    is_terminal: &dyn Fn() -> bool,
) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let is = |name, value: &str| variable(name).is_some_and(|found| found == OsStr::new(value));
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if set("NO_COLOR").is_some() => false,
        Color::Auto if set("CLICOLOR_FORCE").is_some() && !is("CLICOLOR_FORCE", "0") => true,
        Color::Auto => !is("TERM", "dumb") && !is("CLICOLOR", "0") && is_terminal(),
    }
}

/// Returns a text in colour where the stream gets colours, else as it is.
pub(crate) fn paint(stream: Stream, look: Look, text: &str) -> String {
    if is_coloured(stream) { painted(look, text) } else { text.to_owned() }
}

/// Returns a text in colour.
pub(crate) fn painted(look: Look, text: &str) -> String {
    format!("\u{1b}[{}m{text}\u{1b}[0m", look.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_flag_then_the_variables_then_the_terminal() {
        type Row = (Color, &'static [(&'static str, &'static str)], bool, bool);
        let rows: &[Row] = &[
            (Color::Auto, &[], true, true),
            (Color::Auto, &[], false, false),
            (Color::Auto, &[("NO_COLOR", "1")], true, false),
            (Color::Auto, &[("NO_COLOR", "")], true, true),
            (Color::Auto, &[("TERM", "dumb")], true, false),
            (Color::Auto, &[("CLICOLOR", "0")], true, false),
            (Color::Auto, &[("CLICOLOR_FORCE", "1")], false, true),
            (Color::Auto, &[("CLICOLOR_FORCE", "0")], false, false),
            (Color::Auto, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true, false),
            (Color::Auto, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], false, true),
            (Color::Always, &[("NO_COLOR", "1")], false, true),
            (Color::Never, &[("CLICOLOR_FORCE", "1")], true, false),
        ];
        for (color, variables, terminal, coloured) in rows {
            let variable = |name: &str| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into())
            };
            let got = decide(*color, &variable, &|| *terminal);
            assert_eq!(got, *coloured, "{color:?} {variables:?} terminal: {terminal}");
        }
    }
}
