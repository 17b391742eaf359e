//! `docs/reference/errors.md` is generated from the enums. After a change: `RINGFENCE_UPDATE=1 cargo test -p ringfence-spec`.

#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;

use ringfence_spec::{Code, DenialRule};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md");

fn page() -> String {
    let mut page = String::from(
        "# Error codes and denial rules\n\n\
         Generated from `crates/ringfence-spec/src/code.rs`; `ringfence-spec::reference` compares. Names are stable: programs may \
         compare them. Messages and hints are for people and may change.\n\n\
         ## Error codes\n\n\
         `error.code` of an outcome, and the code of every refusal before a run. Exit codes: [cli.md](cli.md).\n\n\
         | code | meaning |\n|---|---|\n",
    );
    for code in Code::ALL {
        writeln!(page, "| `{code}` | {} |", code.meaning()).unwrap();
    }
    page.push_str(
        "\n## Denial rules\n\n`denials[].rule` of an outcome. Refusals that every program meets without harm (`clone3`, `openat2`, …) are not reported: \
         `ringfence explain` names their rules.\n\n| rule | what was refused |\n|---|---|\n",
    );
    for rule in DenialRule::ALL {
        writeln!(page, "| `{rule}` | {} |", rule.meaning()).unwrap();
    }
    page
}

#[test]
fn the_reference_lists_every_code_and_rule() {
    if std::env::var_os("RINGFENCE_UPDATE").is_some() {
        std::fs::write(FILE, page()).unwrap();
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(written == page(), "run `RINGFENCE_UPDATE=1 cargo test -p ringfence-spec`");
}
