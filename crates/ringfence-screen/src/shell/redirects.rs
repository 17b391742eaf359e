//! Redirections: the files a command is connected to, and the text on its input.

use brush_parser::ast;

use super::tree::{Input, Position, ShellPart};
use super::words::{self, Word};
use super::{Direction, Reason, Redirect, Simple};

impl ShellPart {
    /// Records the files that a command reads and writes, and its input.
    pub(crate) fn redirect(
        &mut self,
        redirect: &ast::IoRedirect,
        simple: &mut Simple,
        place: &mut Position,
    ) {
        match redirect {
            ast::IoRedirect::File(_, kind, target) => self.file(kind, target, simple, place),
            ast::IoRedirect::OutputAndError(word, append) => {
                let direction = if *append { Direction::Append } else { Direction::Write };
                for path in self.word(word, place) {
                    simple.redirects.push(Redirect { direction, path });
                }
            }
            ast::IoRedirect::HereString(_, word) => {
                let words = self.word(word, place);
                place.input = Some(match words.first().and_then(Word::text) {
                    Some(text) => Input::Text(text.to_owned()),
                    None => Input::Hidden("…".into()),
                });
            }
            ast::IoRedirect::HereDocument(_, document) => {
                if !document.requires_expansion {
                    place.input = Some(Input::Text(document.doc.value.clone()));
                    return;
                }
                let expanded = words::expand_document(&document.doc.value);
                self.spend(expanded.n_bytes);
                self.inner(&expanded.scripts, place);
                if expanded.broken {
                    self.opaque(Reason::Syntax { message: "a here-document".into() });
                }
                place.input = Some(match expanded.words.first().and_then(Word::text) {
                    Some(text) if !expanded.broken => Input::Text(text.to_owned()),
                    _ => Input::Hidden("…".into()),
                });
            }
        }
    }

    fn file(
        &mut self,
        kind: &ast::IoFileRedirectKind,
        target: &ast::IoFileRedirectTarget,
        simple: &mut Simple,
        place: &mut Position,
    ) {
        use ast::IoFileRedirectKind as Kind;
        let direction = match kind {
            Kind::Read | Kind::DuplicateInput => Direction::Read,
            Kind::Write | Kind::Clobber | Kind::DuplicateOutput => Direction::Write,
            Kind::Append => Direction::Append,
            Kind::ReadAndWrite => Direction::ReadWrite,
        };
        match target {
            ast::IoFileRedirectTarget::Fd(_) => {}
            ast::IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                self.process_substitution(subshell, place);
                if direction == Direction::Read {
                    place.input = Some(Input::Hidden("…".into()));
                }
            }
            ast::IoFileRedirectTarget::Filename(word)
            | ast::IoFileRedirectTarget::Duplicate(word) => {
                for path in self.word(word, place) {
                    // `>&2`, `<&-`: descriptors.
                    let descriptor = path.text().is_some_and(|t| {
                        t == "-" || t.trim_end_matches('-').bytes().all(|b| b.is_ascii_digit())
                    });
                    if matches!(kind, Kind::DuplicateInput | Kind::DuplicateOutput) && descriptor {
                        continue;
                    }
                    if direction == Direction::Read {
                        place.input = Some(Input::Hidden(path.shown()));
                    }
                    simple.redirects.push(Redirect { direction, path });
                }
            }
        }
    }
}
