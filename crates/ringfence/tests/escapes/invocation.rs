//! What a row runs: the program as it is, behind a face of Ringfence, or behind a plan with a layer less.

use serde_json::json;

use crate::document::{Build, Document, Face, RowKind};
use crate::program::{self, Names, PYTHON};
use crate::tree::STAGE;

/// How an interpreter comes by its program. A command is always started alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Alone,
    Warm,
}

/// A command line, and what it reads.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) argv: Vec<String>,
    pub(crate) stdin: String,
}

/// The ways in which a row is run: it must hold for each.
pub(crate) fn starts(face: Face, kind: &RowKind) -> &'static [Start] {
    match (face, kind) {
        (Face::Exec, RowKind::On(Build::Any) | RowKind::Twin) => &[Start::Alone, Start::Warm],
        (Face::Exec, RowKind::On(Build::Warm)) => &[Start::Warm],
        _ => &[Start::Alone],
    }
}

/// What a row runs, with these flags.
pub(crate) fn of(
    document: &Document,
    kind: &RowKind,
    start: Start,
    flags: &[String],
    canary: &str,
) -> Invocation {
    let program = match kind {
        RowKind::Twin => &document.twin,
        _ => &document.attack,
    };
    let bare = program::argv(program, Names::of(document), canary);
    let mut argv = match kind {
        RowKind::Off => return Invocation { argv: bare, stdin: String::new() },
        RowKind::On(_) | RowKind::Twin => vec![format!("{STAGE}/ringfence")],
        RowKind::Without(layers) => {
            let layers: Vec<&str> = layers.iter().map(|l| l.name()).collect();
            let escapes = format!("{STAGE}/escapes");
            vec![escapes, "--without".to_owned(), layers.join("+"), "ringfence".to_owned()]
        }
    };
    let text = program::text(program, Names::of(document), canary);
    let open = ["--preset", "open", "--python", PYTHON];
    let mut stdin = String::new();
    match (document.face, start) {
        (Face::Run, _) => {
            argv.extend(["run", "--json"].map(str::to_owned));
            argv.extend_from_slice(flags);
            argv.push("--".to_owned());
            argv.extend(bare);
        }
        (Face::Exec, Start::Alone) => {
            argv.extend(["exec", "--json"].map(str::to_owned));
            argv.extend(open.map(str::to_owned));
            argv.extend_from_slice(flags);
            argv.extend(["-c".to_owned(), text]);
        }
        (Face::Exec, Start::Warm) => {
            argv.extend(["batch", "-j", "1"].map(str::to_owned));
            argv.extend(open.map(str::to_owned));
            argv.extend_from_slice(flags);
            stdin = json!({"id": document.name, "code": text}).to_string() + "\n";
        }
    }
    Invocation { argv, stdin }
}
