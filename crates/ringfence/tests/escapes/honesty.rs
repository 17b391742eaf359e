//! The harness tried on documents that lie: each must be refused, and for the right reason.
//! A harness that passes everything would look exactly like a fence that holds.

use crate::document::{Document, parse};

/// An honest document. Every lie below changes one thing in it.
const HONEST: &str = r#"# Leave for a new user namespace

Prose.

- Class: syscalls
- Layer: syscalls

```python attack
attempt(lambda: syscall("unshare", 0x10000000))
```

```python twin
print("OK")
```

| row | expect |
|---|---|
| off | ESCAPED |
| on | STOPPED EPERM denial=namespaces |
| without syscalls | ESCAPED |
| twin | OK |
"#;

/// A change, and what the error must then say. These are not even run.
const UNREADABLE: &[(&str, &str, &str)] = &[
    ("# Leave", "Leave", "`# Title`"),
    ("\nProse.\n", "", "no prose"),
    ("Class: syscalls", "Class: magic", "`magic` is none of"),
    ("- Class: syscalls\n", "", "no `- Class:`"),
    ("Layer: syscalls", "Layer: luck", "`luck` is none of"),
    ("Layer: syscalls", "Layer: network", "takes out `network`"),
    ("- Layer: syscalls\n", "- Layer: syscalls\n- Retries: 3\n", "`Retries` is not known"),
    ("python attack", "perl attack", "`perl`"),
    ("python twin", "python attack", "`attack` twice"),
    ("| off | ESCAPED |\n", "", "row `off`"),
    ("| off | ESCAPED |", "| off | STOPPED EPERM |", "row `off`"),
    ("| on | STOPPED EPERM denial=namespaces |\n", "", "row `on`"),
    ("STOPPED EPERM denial=namespaces", "ESCAPED", "row `on` expects ESCAPED"),
    ("STOPPED EPERM denial=namespaces", "denial=namespaces", "neither a line nor a status"),
    ("| without syscalls | ESCAPED |\n", "", "`without LAYER`"),
    ("without syscalls", "without hope", "layer `hope`"),
    ("without syscalls", "without syscalls from landlock 6", "missing for the other kernels"),
    (
        "| without syscalls |",
        "| without syscalls from landlock 6 | ESCAPED |\n| without syscalls |",
        "twice",
    ),
    ("| on |", "| on from landlock 6 |", "only `without`"),
    ("without syscalls", "without syscalls from landlock six", "no Landlock ABI"),
    ("- Layer: syscalls\n", "- Layer: syscalls\n- Needs: luck\n", "`Needs: luck`"),
    ("| twin | OK |\n", "", "row `twin`"),
    ("| twin | OK |", "| twin | OK |\n| twin | OK |", "twice"),
];

/// A change, and the row that must then fail.
const UNTRUE: &[(&str, &str, &str, &str)] = &[
    (
        "an_attack_that_does_nothing",
        "syscall(\"unshare\", 0x10000000)",
        "os.stat(\"/nowhere\")",
        "off",
    ),
    ("an_attack_nobody_stops", "syscall(\"unshare\", 0x10000000)", "os.stat(\"/\")", "on"),
    ("another_errno", "STOPPED EPERM", "STOPPED EACCES", "on"),
    ("a_denial_that_was_not_reported", "denial=namespaces", "denial=mount", "on"),
    ("a_status_that_was_not", "STOPPED EPERM denial=namespaces", "status=killed", "on"),
    (
        "a_layer_that_is_not_the_one",
        "| without syscalls |",
        "| without syscalls | ESCAPED |\n| without landlock |",
        "without landlock",
    ),
    ("a_broken_twin", "print(\"OK\")", "print(\"OK\"); syscall(\"unshare\", 0x10000000)", "twin"),
];

/// The honest document itself, which must pass.
pub(crate) fn honest() -> Result<Document, String> {
    parse("harness::an_honest_document", HONEST)
}

/// Whether every unreadable document is refused for its own reason.
pub(crate) fn refuses_unreadable() -> Result<(), String> {
    for (from, to, reason) in UNREADABLE {
        let text = changed(from, to)?;
        match parse("lie", &text) {
            Ok(_) => return Err(format!("`{from}` changed to `{to}` was accepted")),
            Err(why) if why.contains(reason) => {}
            Err(why) => return Err(format!("`{from}` changed to `{to}`: `{why}`, not `{reason}`")),
        }
    }
    Ok(())
}

/// Documents that read well and are not true, with the row that must fail.
pub(crate) fn untrue() -> Result<Vec<(Document, &'static str)>, String> {
    let read = |(name, from, to, row): &(&str, &str, &str, &'static str)| {
        let document = parse(&format!("harness::notices_{name}"), &changed(from, to)?)?;
        Ok((document, *row))
    };
    UNTRUE.iter().map(read).collect()
}

fn changed(from: &str, to: &str) -> Result<String, String> {
    if HONEST.contains(from) {
        return Ok(HONEST.replacen(from, to, 1));
    }
    Err(format!("`{from}` is not in the honest document"))
}
