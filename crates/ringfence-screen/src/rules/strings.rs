//! Format strings of the strict preset (R1.4): `"{0.__class__}".format(x)` reads attributes that no syntax tree shows.

use ruff_python_ast::Expr;

/// Returns true if a literal has a replacement field that reads a private attribute: `{0._x}`, `{x[_y]}`,
/// `{:{0.__class__}}`.
pub(crate) fn names_a_private_attribute(text: &str) -> bool {
    let mut depth = 0_u32;
    let mut previous = '\0';
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '_' if depth > 0 && matches!(previous, '.' | '[') => return true,
            _ => {}
        }
        previous = c;
    }
    false
}

/// Returns true if `.format` on this value takes a format string that is in the source.
pub(crate) fn is_literal(receiver: &Expr) -> bool {
    matches!(receiver, Expr::StringLiteral(_))
}

/// Returns true if a method formats by a string: `str.format` and its kin.
pub(crate) fn formats(method: &str) -> bool {
    matches!(method, "format" | "format_map")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_read_private_attributes_count() {
        for text in ["{0.__class__}", "{x._y}", "{a[__b]}", "{:{w.__class__}}", "a {0.b.__c__} d"] {
            assert!(names_a_private_attribute(text), "{text}");
        }
        for text in ["{}", "{0.name}", "__class__", "x.__class__", "{a_b}", "{_}", "{a} ._b"] {
            assert!(!names_a_private_attribute(text), "{text}");
        }
    }
}
