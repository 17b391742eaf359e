//! The lists against a real Python: no module on them shows another one, or a builtin that runs code, under a name that the
//! rules let through.

#![allow(clippy::disallowed_methods)]

use std::process::Command;

use ringfence_screen::{importable, screen};
use ringfence_spec::CodePreset;
use ringfence_testing::{BoundedCommand as _, Json, missing};

/// For each module that is there: members that are modules, submodules, and members that are dangerous by themselves.
const SCRIPT: &str = r#"
import builtins, importlib, json, operator, pkgutil, sys, types
DANGEROUS = [getattr(builtins, n) for n in "eval exec compile __import__ getattr setattr delattr vars globals locals input breakpoint".split()]
DANGEROUS += [types.FunctionType, types.CodeType, types.ModuleType, operator.attrgetter, operator.methodcaller]
found = {}
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
    except ImportError:
        continue
    inner = [m.name for m in pkgutil.iter_modules(getattr(module, "__path__", []))]
    members = {n: getattr(module, n, None) for n in dir(module)}
    modules = [n for n, v in members.items() if isinstance(v, types.ModuleType)]
    dangerous = [n for n, v in members.items() if any(v is d for d in DANGEROUS)]
    opens = [n for n, v in members.items() if v is open]
    found[name] = {"opens": opens, "modules": sorted({*inner, *modules}), "dangerous": dangerous}
print(json.dumps(found))
"#;

fn host() -> Option<Json> {
    // Another Python can be named, to hold the lists against several.
    let python = std::env::var("RINGFENCE_TEST_PYTHON").unwrap_or("/usr/bin/python3".into());
    let output = Command::new(&python).args(["-c", SCRIPT]).args(importable()).bounded_output();
    match output {
        Ok(output) if output.status.success() => Some(Json::parse(&output.stdout)),
        _ => {
            missing("python", &format!("this host has no {python} that lists its modules"));
            None
        }
    }
}

#[test]
fn no_module_on_a_list_shows_another_way() {
    let Some(found) = host() else { return };
    let refused = |source: &str| !screen(source.as_bytes(), CodePreset::Standard, &[]).safe;
    let modules = found.as_object().unwrap();
    assert!(modules.len() > 30, "{}", modules.len());
    for name in modules.keys() {
        let members = |kind: &str| {
            let list = found[name][kind].as_array().unwrap().clone();
            list.into_iter().map(|m| m.as_str().unwrap().to_owned())
        };
        for member in members("modules").chain(members("dangerous")).chain(members("opens")) {
            for source in [
                format!("import {name} as m\nq = m.{member}"),
                format!("from {name} import {member} as m\nq = m"),
            ] {
                assert!(refused(&source), "let through:\n{source}");
            }
        }
    }
}
