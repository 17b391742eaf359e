//! Rules of the preset `data`: constructs that have no use but to break the interpreter open. Everything else that
//! `standard` refuses is noted there and runs.

use ruff_python_ast::visitor::source_order::{self, SourceOrderVisitor};
use ruff_python_ast::{
    Expr, ExprAttribute, ExprCall, ExprContext, ExprStringLiteral, Identifier, Stmt,
};
use ruff_text_size::{Ranged as _, TextSize};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{MODULE_MEMBER_NOT_ALLOWED, calls};
use crate::verdict::Findings;

/// Attributes that lead to the interpreter from any value.
const ALWAYS: &[&str] = &[
    "__builtins__",
    "__globals__",
    "_getframe",
    "ag_frame",
    "cr_frame",
    "f_builtins",
    "f_globals",
    "f_locals",
    "func_globals",
    "gi_frame",
];

/// Members of modules that do.
const MEMBERS: &[(&str, &[&str])] = &[
    ("ctypes", &["pythonapi"]),
    ("gc", &["get_objects", "get_referrers"]),
    ("sys", &["_getframe", "settrace"]),
];

/// Attributes on the way from a class to `object`.
const TO_OBJECT: &[&str] = &["__base__", "__bases__", "__mro__", "mro"];

/// Builtin types besides those of plain values whose subclasses are classes of the interpreter. Sorted.
const OTHER_TYPES: &[&str] = &["BaseException", "Exception", "bytearray", "range"];

/// Keeps those of `standard`'s findings that break the interpreter open, and returns the others. Adds members of
/// modules, which `standard` refuses by their import. `extra` are modules that the operator allows.
pub(crate) fn keep_escape_findings(
    body: &[Stmt],
    extra: &[String],
    findings: &mut Findings,
) -> Findings {
    let mut search = Search { extra, ..Search::default() };
    search.visit_body(body);
    let others = findings.split_off(|rule, subject, offset| {
        rule.is_attribute()
            && (ALWAYS.contains(&subject) || search.places.contains(&TextSize::new(offset)))
    });
    for (at, subject) in search.members {
        let hint = "it opens the interpreter itself; use the values of the program";
        findings.add(&MODULE_MEMBER_NOT_ALLOWED, at.to_u32(), &subject, hint);
    }
    others
}

/// Finds the places of attributes that only their context makes a break.
#[derive(Default)]
struct Search<'a> {
    extra: &'a [String],
    /// Names of modules in the program.
    modules: FxHashMap<&'a str, &'static (&'static str, &'static [&'static str])>,
    places: FxHashSet<TextSize>,
    members: Vec<(TextSize, String)>,
}

impl<'a> Search<'a> {
    fn module(&self, name: &str) -> Option<&'static (&'static str, &'static [&'static str])> {
        let known = MEMBERS.iter().find(|(module, _)| *module == name)?;
        (!self.extra.iter().any(|extra| extra == name)).then_some(known)
    }

    fn member(&mut self, of: &Expr, name: &str, at: TextSize) {
        let Expr::Name(base) = of else { return };
        if let Some((module, members)) = self.modules.get(base.id.as_str())
            && members.contains(&name)
        {
            self.members.push((at, format!("{module}.{name}")));
        }
    }

    fn attribute(&mut self, attribute: &'a ExprAttribute) {
        let Identifier { id, .. } = &attribute.attr;
        let at = attribute.attr.start();
        let breaks = match id.as_str() {
            "__subclasses__" => is_builtin(&attribute.value),
            "__code__" => attribute.ctx != ExprContext::Load,
            name => return self.member(&attribute.value, name, at),
        };
        if breaks {
            self.places.insert(at);
        }
    }

    /// `getattr(x, "__subclasses__")` and `setattr(f, "__code__", c)`, which say the same.
    fn call(&mut self, call: &'a ExprCall) {
        let Expr::Name(function) = &*call.func else { return };
        let [object, Expr::StringLiteral(ExprStringLiteral { value, .. }), ..] =
            &*call.arguments.args
        else {
            return;
        };
        let at = call.arguments.args[1].start();
        let breaks = match (function.id.as_str(), value.to_str()) {
            ("getattr", "__subclasses__") => is_builtin(object),
            ("setattr" | "delattr", "__code__") => true,
            ("getattr", name) => return self.member(object, name, at),
            _ => false,
        };
        if breaks {
            self.places.insert(at);
        }
    }
}

impl<'a> SourceOrderVisitor<'a> for Search<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    if let Some(module) = self.module(&alias.name.id) {
                        let name = alias.asname.as_ref().unwrap_or(&alias.name);
                        self.modules.insert(name.id.as_str(), module);
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let of = import.module.as_ref().and_then(|of| self.module(&of.id));
                for alias in &import.names {
                    let name = alias.name.id.as_str();
                    if let Some((module, members)) = of
                        && members.contains(&name)
                    {
                        self.members.push((alias.start(), format!("{module}.{name}")));
                    }
                }
            }
            _ => {}
        }
        source_order::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Attribute(attribute) => self.attribute(attribute),
            Expr::Call(call) => self.call(call),
            _ => {}
        }
        source_order::walk_expr(self, expression);
    }
}

/// Returns true if an expression is a literal, a builtin type, or leads from a value to `object`.
fn is_builtin(mut expression: &Expr) -> bool {
    loop {
        expression = match expression {
            Expr::Attribute(attribute) if TO_OBJECT.contains(&attribute.attr.id.as_str()) => {
                return true;
            }
            Expr::Attribute(attribute) => &attribute.value,
            Expr::Subscript(subscript) => &subscript.value,
            Expr::Call(call) => match (&*call.func, &*call.arguments.args) {
                // `type(x)` is the class of `x`.
                (Expr::Name(name), [of]) if name.id.as_str() == "type" => of,
                (function, _) => function,
            },
            Expr::Name(name) => {
                let name = name.id.as_str();
                return calls::TYPES.contains(&name) || OTHER_TYPES.contains(&name);
            }
            literal => {
                return literal.is_literal_expr()
                    || matches!(
                        literal,
                        Expr::Tuple(_)
                            | Expr::List(_)
                            | Expr::Dict(_)
                            | Expr::Set(_)
                            | Expr::FString(_)
                            | Expr::ListComp(_)
                            | Expr::SetComp(_)
                            | Expr::DictComp(_)
                            | Expr::Generator(_)
                            | Expr::Lambda(_)
                    );
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted() {
        for list in [ALWAYS, calls::TYPES, OTHER_TYPES, TO_OBJECT] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
        }
    }
}
