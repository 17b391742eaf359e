//! Rules for class definitions (R1.4): no metaclass, no descriptor, no hook that runs while another class is made or
//! copied.

use ruff_python_ast::{Expr, StmtClassDef};
use ruff_text_size::Ranged as _;

use super::{DESCRIPTOR_METHOD, METACLASS, Rule, SPECIAL_METHOD_NOT_ALLOWED, attributes};

/// Classes whose subclasses are metaclasses.
const METACLASSES: &[&str] = &["ABCMeta", "EnumMeta", "EnumType", "NamedTupleMeta", "type"];

/// Faults of the head of a class: offset, subject and hint.
pub(crate) fn judge_head(class: &StmtClassDef) -> Vec<(u32, String, &'static str)> {
    let mut found = Vec::new();
    let Some(arguments) = &class.arguments else { return found };
    for keyword in &arguments.keywords {
        let hint = "remove it; to have abstract methods derive from `abc.ABC`";
        match keyword.arg.as_ref().map(|arg| arg.id.as_str()) {
            Some("metaclass") => found.push((keyword.start().to_u32(), "metaclass=".into(), hint)),
            Some(_) => {}
            None => found.push((
                keyword.start().to_u32(),
                "**".into(),
                "write the keywords of a class out; they could hold a metaclass",
            )),
        }
    }
    for base in &arguments.args {
        let name = match base {
            Expr::Name(name) => name.id.as_str(),
            Expr::Attribute(attribute) => attribute.attr.id.as_str(),
            Expr::Call(call) if matches!(&*call.func, Expr::Name(n) if n.id.as_str() == "type") => {
                "type"
            }
            _ => continue,
        };
        if METACLASSES.contains(&name) {
            found.push((
                base.start().to_u32(),
                name.to_owned(),
                "derive from an ordinary class; a class of classes is a metaclass",
            ));
        }
    }
    found
}

/// The rule of [`judge_head`].
pub(crate) const HEAD: &Rule = &METACLASS;

/// The rule that the name of a function or a class variable breaks, if any.
pub(crate) fn judge_definition(name: &str) -> Option<(&'static Rule, &'static str)> {
    if !attributes::is_dunder(name) {
        return None;
    }
    match name {
        "__get__" | "__set__" | "__delete__" | "__set_name__" => {
            Some((&DESCRIPTOR_METHOD, "use `property` for a computed attribute"))
        }
        "__init_subclass__" => {
            Some((&SPECIAL_METHOD_NOT_ALLOWED, "use a class decorator, or call a function"))
        }
        "__class_getitem__" => {
            Some((&SPECIAL_METHOD_NOT_ALLOWED, "derive from `typing.Generic[T]`"))
        }
        _ if attributes::is_attribute_protocol(name) || attributes::is_harmless_dunder(name) => {
            None
        }
        _ => {
            Some((&SPECIAL_METHOD_NOT_ALLOWED, "give it an ordinary name and call it by that name"))
        }
    }
}
