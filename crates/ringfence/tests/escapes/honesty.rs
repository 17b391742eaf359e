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
    ("denial=namespaces", "subject=unshare", "the subject or reason of no denial"),
    ("- Layer: syscalls\n", "- Layer: syscalls\n- Names: a.test\n", "then its addresses"),
    (
        "- Layer: syscalls\n",
        "- Layer: syscalls\n- Names: a.test b.test\n",
        "`b.test` is no address",
    ),
    ("without syscalls", "without syscalls from landlock 6", "missing for the other kernels"),
    (
        "| without syscalls |",
        "| without syscalls from landlock 6 | ESCAPED |\n| without syscalls |",
        "twice",
    ),
    ("| on |", "| on from landlock 6 |", "only `without`"),
    ("| on |", "| on warm |", "row `on`"),
    ("| on |", "| on warm | STOPPED EPERM |\n| on |", "both `on cgroup` and `on rlimit`"),
    ("- Layer: syscalls\n", "- Layer: syscalls\n- Face: luck\n", "`Face: luck`"),
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
    (
        "a_denial_of_something_else",
        "denial=namespaces",
        "denial=namespaces subject=lookup(a.test)",
        "on",
    ),
    ("a_denial_for_another_reason", "denial=namespaces", "denial=namespaces because=private", "on"),
    (
        "a_connection_that_was_not",
        "denial=namespaces",
        "denial=namespaces connection=denied/a.test:443",
        "on",
    ),
    ("a_status_that_was_not", "STOPPED EPERM denial=namespaces", "status=killed", "on"),
    (
        "a_layer_that_is_not_the_one",
        "| without syscalls |",
        "| without syscalls | ESCAPED |\n| without landlock |",
        "without landlock",
    ),
    ("a_broken_twin", "print(\"OK\")", "print(\"OK\"); syscall(\"unshare\", 0x10000000)", "twin"),
];

/// What makes the honest document one about Python code. Refusals in a warm worker are observed by nobody.
const OF_CODE: &[(&str, &str)] =
    &[("- Layer: syscalls\n", "- Layer: syscalls\n- Face: exec\n"), (" denial=namespaces", "")];

/// The same for documents about code.
const UNREADABLE_OF_CODE: &[(&str, &str, &str)] = &[
    ("python twin", "sh twin", "runs Python alone"),
    ("| on |", "| on alone |", "both `on alone` and `on warm`"),
    ("| on |", "| on cgroup | STOPPED EPERM |\n| on |", "both `on alone` and `on warm`"),
];

/// The same for documents about code.
const UNTRUE_OF_CODE: &[(&str, &str, &str, &str)] = &[
    ("code_that_does_nothing", "syscall(\"unshare\", 0x10000000)", "os.stat(\"/nowhere\")", "off"),
    (
        "code_nobody_stops_alone",
        "| on |",
        "| on warm | STOPPED EPERM |\n| on alone | STOPPED EACCES |\n| without landlock |",
        "on alone",
    ),
    (
        "code_nobody_stops_in_a_warm_worker",
        "| on |",
        "| on alone | STOPPED EPERM |\n| on warm | STOPPED EACCES |\n| without landlock |",
        "on warm",
    ),
    (
        "a_layer_of_code_that_is_not_the_one",
        "| without syscalls |",
        "| without syscalls | ESCAPED |\n| without landlock |",
        "without landlock",
    ),
];

/// The honest documents themselves, which must pass.
pub(crate) fn honest() -> Result<[Document; 2], String> {
    Ok([
        parse("harness::an_honest_document", HONEST)?,
        parse("harness::an_honest_document_of_code", &of_code()?)?,
    ])
}

/// Returns an error unless every unreadable document is refused for its own reason.
pub(crate) fn refuses_unreadable() -> Result<(), String> {
    let code = of_code()?;
    let lies = UNREADABLE.iter().map(|lie| (HONEST, lie));
    let lies = lies.chain(UNREADABLE_OF_CODE.iter().map(|lie| (code.as_str(), lie)));
    for (honest, (from, to, reason)) in lies {
        let text = changed(honest, from, to)?;
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
    let code = of_code()?;
    let lies = UNTRUE.iter().map(|lie| (HONEST, lie));
    let lies = lies.chain(UNTRUE_OF_CODE.iter().map(|lie| (code.as_str(), lie)));
    let read = |(honest, (name, from, to, row)): (&str, &(&str, &str, &str, &'static str))| {
        let document = parse(&format!("harness::notices_{name}"), &changed(honest, from, to)?)?;
        Ok((document, *row))
    };
    lies.map(read).collect()
}

fn of_code() -> Result<String, String> {
    OF_CODE.iter().try_fold(HONEST.to_owned(), |text, (from, to)| changed(&text, from, to))
}

fn changed(honest: &str, from: &str, to: &str) -> Result<String, String> {
    if honest.contains(from) {
        return Ok(honest.replacen(from, to, 1));
    }
    Err(format!("`{from}` is not in the honest document"))
}
