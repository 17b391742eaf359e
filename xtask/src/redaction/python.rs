//! Vectors in Python tests: rows of `parametrize` and tables of `(text, verdict)` (detect-secrets).

use std::collections::HashMap;

use ruff_python_ast::visitor::{Visitor, walk_expr};
use ruff_python_ast::{Expr, Stmt};

use super::Vector;

/// Vectors of one file.
pub(crate) fn tests(rule: &str, source: &str) -> Vec<Vector> {
    let Ok(module) = ruff_python_parser::parse_module(source) else { return Vec::new() };
    let module = module.into_syntax();
    let mut rows = Rows { rule, texts: HashMap::new(), found: Vec::new() };
    for statement in &module.body {
        if let Stmt::Assign(assign) = statement
            && let [Expr::Name(name)] = assign.targets.as_slice()
            && let Some(text) = rows.text(&assign.value)
        {
            rows.texts.insert(name.id.to_string(), text);
        }
        rows.visit_stmt(statement);
    }
    rows.found
}

struct Rows<'r> {
    rule: &'r str,
    texts: HashMap<String, String>,
    found: Vec<Vector>,
}

impl Rows<'_> {
    /// A text: literals, names of texts, sums and `format`.
    fn text(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::StringLiteral(literal) => Some(literal.value.to_str().to_owned()),
            Expr::Name(name) => self.texts.get(name.id.as_str()).cloned(),
            Expr::BinOp(sum) => Some(self.text(&sum.left)? + &self.text(&sum.right)?),
            Expr::Call(call) => {
                let Expr::Attribute(method) = &*call.func else { return None };
                if method.attr.as_str() != "format" {
                    return None;
                }
                // Doubled braces are literal ones; those of an inserted text stay as they are.
                let mut text =
                    self.text(&method.value)?.replace("{{", "\u{1}").replace("}}", "\u{2}");
                for arg in &call.arguments.args {
                    text = text.replacen("{}", &self.text(arg)?, 1);
                }
                for keyword in &call.arguments.keywords {
                    let name = format!("{{{}}}", keyword.arg.as_ref()?.as_str());
                    text = text.replace(&name, &self.text(&keyword.value)?);
                }
                Some(text.replace('\u{1}', "{").replace('\u{2}', "}"))
            }
            _ => None,
        }
    }

    fn row(&mut self, items: &[Expr]) {
        let [text, verdict] = items else { return };
        let Some(text) = self.text(text) else { return };
        let (leak, secret) = match verdict {
            Expr::BooleanLiteral(literal) => (literal.value, None),
            Expr::NoneLiteral(_) => (false, None),
            Expr::Name(_) => match self.text(verdict) {
                Some(secret) => (true, Some(secret)),
                None => return,
            },
            _ => return,
        };
        let secrets = secret.into_iter().filter(|s| text.contains(s.as_str())).collect();
        let rule = self.rule.to_owned();
        self.found.push(Vector { rule, text, secrets, leak, ..Vector::default() });
    }
}

impl<'a> Visitor<'a> for Rows<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Tuple(tuple) = expr {
            self.row(&tuple.elts);
        }
        walk_expr(self, expr);
    }
}
