//! docs/screening.md and docs/redaction.md name what the code has.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
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

#[test]
fn the_document_names_every_rule_of_redaction() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/redaction.md");
    let text = std::fs::read_to_string(path).unwrap();
    let missing: BTreeSet<&str> = ringfence_screen::redact::rule_names()
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/redaction.md does not name {missing:?}");
}
