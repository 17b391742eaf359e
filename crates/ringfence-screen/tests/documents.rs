//! docs/screening.md names what the code has.

#![allow(clippy::disallowed_methods)]

use std::path::Path;

use ringfence_screen::{RULES, STRICT_BUILTINS, importable};

#[test]
fn the_document_names_every_rule_builtin_and_module() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screening.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rules = RULES.iter().map(|rule| rule.name.as_str());
    for name in rules.chain(STRICT_BUILTINS).chain(importable()) {
        assert!(text.contains(&format!("`{name}`")), "docs/screening.md does not name `{name}`");
    }
    for rule in RULES {
        let row = format!("| `{}` | {} |", rule.name, rule.up_to);
        assert!(text.contains(&row), "docs/screening.md has no row beginning with {row}");
    }
}
