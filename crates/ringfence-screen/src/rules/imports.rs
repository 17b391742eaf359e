//! Import statements, and the way from a module to its members (R1.3).

use ringfence_spec::{CodePreset, Hint};

use super::modules::{self, Known, Module};
use super::{IMPORT_NOT_ALLOWED, MODULE_MEMBER_NOT_ALLOWED, Rule};
use crate::verdict::ScreenRisk;

/// The object that a name stands for after an import.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Imported {
    /// A module whose members are known.
    Module(&'static Module),
    /// A function, a class, a value, or a module the operator named.
    Value,
}

/// A refused import or member.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) rule: &'static Rule,
    pub(crate) risk: ScreenRisk,
    pub(crate) subject: String,
    pub(crate) hint: Hint,
}

/// Decides whether a module may be imported, and returns the object that its name then stands for.
pub(crate) fn module(
    path: &str,
    preset: CodePreset,
    extra: &[String],
) -> Result<Imported, Refusal> {
    match modules::find(path, preset, extra) {
        Known::Listed(module) => Ok(Imported::Module(module)),
        Known::Extra => Ok(Imported::Value),
        Known::No => Err(not_allowed(path, preset)),
    }
}

fn not_allowed(path: &str, preset: CodePreset) -> Refusal {
    let top = path.split('.').next().unwrap_or(path);
    let listed = matches!(modules::find(path, CodePreset::Standard, &[]), Known::Listed(_));
    let hint = match instead(path) {
        _ if preset == CodePreset::Strict => {
            let which = if listed { "which has it" } else { "which has imports" };
            Hint::operator(
                format!("the preset `strict` has no imports; use `--preset standard`, {which}"),
                format!("for the preset `standard`, {which}; `strict` has no imports"),
            )
        }
        Some(instead) => instead.into(),
        None => Hint::Import(path.to_owned()),
    };
    let risk = if modules::reaches_out(top) { ScreenRisk::High } else { IMPORT_NOT_ALLOWED.risk };
    Refusal { rule: &IMPORT_NOT_ALLOWED, risk, subject: path.to_owned(), hint }
}

/// An alternative within the lists.
fn instead(path: &str) -> Option<&'static str> {
    Some(match path.split('.').next().unwrap_or(path) {
        "pickle" | "marshal" | "shelve" | "dill" => "use `json` to keep data",
        "requests" | "urllib" | "http" | "httpx" | "socket" | "aiohttp" => {
            "a code run has no network; pass the data in as a file"
        }
        "subprocess" | "multiprocessing" | "pty" => "a code run starts no processes",
        "builtins" | "importlib" | "imp" => "use the `import` statement",
        _ => return None,
    })
}

/// The object that a member of a module stands for: `import x; x.member`, `from x import member`.
pub(crate) fn member(
    of: &'static Module,
    path: &str,
    member: &str,
    preset: CodePreset,
    extra: &[String],
) -> Result<Imported, Refusal> {
    let below = || format!("{path}.{member}");
    if !extra.is_empty() && matches!(modules::find(&below(), preset, extra), Known::Extra) {
        return Ok(Imported::Value);
    }
    let refuse = |hint: String| Refusal {
        rule: &MODULE_MEMBER_NOT_ALLOWED,
        risk: MODULE_MEMBER_NOT_ALLOWED.risk,
        subject: below(),
        hint: hint.into(),
    };
    if !of.has(member) || of.has_inner_beside(member) {
        return Err(refuse(match (of.few(), member_instead(&below())) {
            (_, Some(instead)) => instead.to_owned(),
            (Some(few), None) => format!("of `{path}` this preset has {}", few.join(", ")),
            (None, None) => format!("this member of `{path}` is not available"),
        }));
    }
    if of.parent
        && let Known::Listed(module) = modules::find(&below(), preset, &[])
    {
        return Ok(Imported::Module(module));
    }
    if !of.owns(member)
        && let Some(module) = of.beside(member)
    {
        return Ok(Imported::Module(module));
    }
    // A member that a module imported for itself leads to that other module.
    if modules::is_standard_library(member) && !of.owns(member) {
        return match modules::find(member, preset, extra) {
            Known::Listed(module) => Ok(Imported::Module(module)),
            Known::Extra => Ok(Imported::Value),
            Known::No => {
                Err(refuse(format!("it is the module `{member}`, which is not on the list")))
            }
        };
    }
    if member.starts_with('_') && !is_public_dunder(member) {
        return Err(refuse("use a member without a leading underscore".to_owned()));
    }
    Ok(Imported::Value)
}

/// Returns true for a dunder member that is plain text in every module, or that the lists name.
fn is_public_dunder(member: &str) -> bool {
    super::attributes::is_dunder(member) && super::attributes::is_harmless_dunder(member)
}

fn member_instead(path: &str) -> Option<&'static str> {
    Some(match path {
        "abc.ABCMeta" => "derive from `abc.ABC`",
        "dataclasses.make_dataclass" => "write a `class` statement with `@dataclass`",
        "functools.singledispatch" | "functools.singledispatchmethod" => {
            "choose by `isinstance`, or by a dict from type to function"
        }
        "functools.update_wrapper" => "use `functools.wraps(function)`",
        "string.Formatter" => "use an f-string or `str.format`",
        "typing.get_type_hints" => "a dataclass has `dataclasses.fields(x)`",
        _ => return None,
    })
}
