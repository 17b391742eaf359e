//! Random operations, against a map in memory that says what each must answer and what must be there afterwards.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringfence_engine::files::{
    Depth, EntryKind, OnConflict, Parents, Workspace, WriteMode, WriteOptions,
};

use crate::world::{LOOKUPS, REPLACE, World, code};

/// Paths from the workspace down; `None` is a directory.
type Model = BTreeMap<String, Option<Vec<u8>>>;

#[derive(Clone, Debug)]
enum Op {
    Write(String, Vec<u8>, WriteMode, Parents),
    Read(String, usize, usize),
    Rename(String, String, OnConflict, Parents),
    Delete(String, Depth),
    List(String),
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", ".env"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn op() -> impl Strategy<Value = Op> {
    let mode = prop::sample::select(vec![WriteMode::Create, WriteMode::Replace, WriteMode::Append]);
    let parents = || prop::sample::select(vec![Parents::MustExist, Parents::Create]);
    let conflict = prop::sample::select(vec![OnConflict::Fail, OnConflict::Replace]);
    let depth = prop::sample::select(vec![Depth::One, Depth::All]);
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        4 => (path(), bytes, mode, parents()).prop_map(|(p, b, m, c)| Op::Write(p, b, m, c)),
        2 => (path(), 0..25usize, 0..25usize).prop_map(|(p, o, l)| Op::Read(p, o, l)),
        3 => (path(), path(), conflict, parents()).prop_map(|(f, t, c, p)| Op::Rename(f, t, c, p)),
        2 => (path(), depth).prop_map(|(p, d)| Op::Delete(p, d)),
        1 => path().prop_map(Op::List),
    ]
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

/// What a path without a usable parent is answered.
fn way(model: &Model, path: &str) -> Result<(), &'static str> {
    let Some(parent) = parent(path) else { return Ok(()) };
    way(model, parent)?;
    match model.get(parent) {
        Some(None) => Ok(()),
        Some(Some(_)) => Err("not_a_directory"),
        None => Err("not_found"),
    }
}

/// The same where missing directories are made.
fn make_way(model: &mut Model, path: &str, parents: Parents) -> Result<(), &'static str> {
    match way(model, path) {
        Err("not_found") if parents == Parents::Create => {
            let parent = parent(path).unwrap();
            make_way(model, parent, parents)?;
            model.insert(parent.to_owned(), None);
            Ok(())
        }
        other => other,
    }
}

fn protected(path: &str) -> bool {
    path.split('/').any(|name| name == ".env")
}

fn below<'a>(model: &'a Model, path: &str) -> impl Iterator<Item = String> + use<'a> {
    let prefix = format!("{path}/");
    model.keys().filter(move |p| p.starts_with(&prefix)).cloned()
}

fn expected(model: &mut Model, op: &Op) -> (&'static str, Option<Vec<u8>>) {
    let answer = match op {
        Op::Write(path, bytes, mode, parents) => write(model, path, bytes, *mode, *parents),
        Op::Rename(from, to, conflict, parents) => rename(model, from, to, *conflict, *parents),
        Op::Delete(path, depth) => delete(model, path, *depth),
        Op::Read(path, offset, limit) => match (way(model, path), model.get(path)) {
            (Err(code), _) => Err(code),
            (_, None) => Err("not_found"),
            (_, Some(None)) => Err("not_a_file"),
            (_, Some(Some(bytes))) => {
                let range = bytes.iter().skip(*offset).take(*limit);
                return ("ok", Some(range.copied().collect()));
            }
        },
        Op::List(path) => match (way(model, path), model.get(path)) {
            (Err(code), _) => Err(code),
            (_, None) => Err("not_found"),
            (_, Some(Some(_))) => Err("not_a_directory"),
            (_, Some(None)) => Ok(()),
        },
    };
    (answer.err().unwrap_or("ok"), None)
}

fn write(
    model: &mut Model,
    path: &str,
    bytes: &[u8],
    mode: WriteMode,
    parents: Parents,
) -> Result<(), &'static str> {
    if protected(path) {
        return Err("path_forbidden");
    }
    make_way(model, path, parents)?;
    let mut content = match (model.get(path), mode) {
        (Some(_), WriteMode::Create) => return Err("exists"),
        (Some(None), _) => return Err("not_a_file"),
        (Some(Some(old)), WriteMode::Append) => old.clone(),
        _ => Vec::new(),
    };
    content.extend_from_slice(bytes);
    model.insert(path.to_owned(), Some(content));
    Ok(())
}

fn rename(
    model: &mut Model,
    from: &str,
    to: &str,
    conflict: OnConflict,
    parents: Parents,
) -> Result<(), &'static str> {
    if protected(from) || protected(to) {
        return Err("path_forbidden");
    }
    way(model, from)?;
    let is_directory = match model.get(from) {
        None => return Err("not_found"),
        Some(content) => content.is_none(),
    };
    if is_directory {
        if to == from || to.starts_with(&format!("{from}/")) {
            return Err("name_invalid");
        }
        if below(model, from).any(|p| protected(&p)) {
            return Err("path_forbidden");
        }
    }
    make_way(model, to, parents)?;
    match model.get(to) {
        Some(_) if is_directory || conflict == OnConflict::Fail => return Err("exists"),
        Some(None) => return Err("exists"),
        _ => {}
    }
    for old in below(model, from).chain([from.to_owned()]).collect::<Vec<_>>() {
        let content = model.remove(&old).unwrap();
        model.insert(format!("{to}{}", &old[from.len()..]), content);
    }
    Ok(())
}

fn delete(model: &mut Model, path: &str, depth: Depth) -> Result<(), &'static str> {
    if protected(path) {
        return Err("path_forbidden");
    }
    way(model, path)?;
    let below: Vec<String> = below(model, path).collect();
    match model.get(path) {
        None => return Err("not_found"),
        Some(None) if depth == Depth::One && !below.is_empty() => return Err("not_empty"),
        Some(None) if below.iter().any(|p| protected(p)) => return Err("path_forbidden"),
        _ => {}
    }
    for path in below.iter().map(String::as_str).chain([path]) {
        model.remove(path);
    }
    Ok(())
}

fn actual(workspace: &Workspace, op: &Op) -> (&'static str, Option<Vec<u8>>) {
    match op {
        Op::Write(path, bytes, mode, parents) => {
            let options = WriteOptions { mode: *mode, parents: *parents, ..REPLACE };
            (code(&workspace.write(path, bytes, options)), None)
        }
        Op::Read(path, offset, limit) => {
            let answer = workspace.read(path, *offset as u64, Some(*limit as u64));
            (code(&answer), answer.ok().map(|c| c.bytes))
        }
        Op::Rename(from, to, conflict, parents) => {
            (code(&workspace.rename(from, to, *conflict, *parents)), None)
        }
        Op::Delete(path, depth) => (code(&workspace.delete(path, *depth)), None),
        Op::List(path) => (code(&workspace.list(path, 9, 1000)), None),
    }
}

fn everything(workspace: &Workspace) -> Model {
    let listing = workspace.list(".", 9, 1000).unwrap();
    assert!(!listing.truncated);
    let content = |path: &str| workspace.read(path, 0, None).unwrap().bytes;
    listing
        .entries
        .into_iter()
        .map(|e| {
            let content = (e.kind == EntryKind::File).then(|| content(&e.path));
            (e.path, content)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_operation_does_what_the_model_says(ops in prop::collection::vec(op(), 1..40)) {
        for lookup in LOOKUPS {
            let world = World::new();
            // Something protected, so that directories hold it.
            world.put("a/b/.env", "KEY");
            let mut model: Model = [("a", None), ("a/b", None), ("a/b/.env", Some("KEY"))]
                .map(|(p, c)| (p.to_owned(), c.map(|c| c.as_bytes().to_vec())))
                .into();
            let workspace = world.open(lookup);
            let before = world.beside();
            for op in &ops {
                prop_assert_eq!(actual(&workspace, op), expected(&mut model, op), "{:?}", op);
            }
            prop_assert_eq!(everything(&workspace), model);
            prop_assert_eq!(world.beside(), before);
        }
    }
}
