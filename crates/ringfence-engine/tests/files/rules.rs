//! What the rules forbid, whichever way it is tried.

use ringfence_engine::files::{
    Depth, FileAccess, FileRules, OnConflict, Parents, Patterns, WriteOptions,
};

use crate::world::{APPEND, CREATE, LOOKUPS, REPLACE, World, code};

fn policy() -> FileRules {
    FileRules {
        write_forbidden: Patterns::parse(["safe/*.lock", ".git/"]).unwrap(),
        read_forbidden: Patterns::parse(["secrets/*.pem", "**/.ssh/**"]).unwrap(),
        ..FileRules::default()
    }
}

#[test]
fn what_may_not_be_read_cannot_be_read_by_going_round() {
    for lookup in LOOKUPS {
        let world = World::new();
        world.put("secrets/key.pem", "KEY");
        world.put("home/.ssh/id", "KEY");
        world.put("open/x", "");
        world.link("secrets/key.pem", "innocent");
        let workspace = world.open_by(policy(), lookup);
        let (replace, make) = (OnConflict::Replace, Parents::Create);
        for path in
            ["secrets/key.pem", "open/../secrets/key.pem", "Secrets/KEY.pem", "home/.ssh/id"]
        {
            assert_eq!(code(&workspace.read(path, 0, None)), "path_forbidden", "{path}");
            assert_eq!(code(&workspace.stat(path)), "path_forbidden", "{path}");
            assert_eq!(
                code(&workspace.write(path, b"", APPEND)),
                match path {
                    // Appending answers the hash of the whole, so it reads; a new file has nothing to read.
                    "Secrets/KEY.pem" => "not_found",
                    _ => "path_forbidden",
                },
                "{path}"
            );
            assert_eq!(code(&workspace.rename(path, "open/y", replace, make)), "path_forbidden");
        }
        assert_eq!(code(&workspace.list("home/.ssh", 1, 9)), "path_forbidden");
        // The directory above, which is no match itself.
        assert_eq!(code(&workspace.rename("secrets", "open/s", replace, make)), "path_forbidden");
        assert_eq!(code(&workspace.rename("home", "open/h", replace, make)), "path_forbidden");
        // The hint of a link does not name what may not be read.
        assert_eq!(workspace.read("innocent", 0, None).unwrap_err().hint, None);
        let listing = workspace.list("home", 5, 100).unwrap();
        let paths: Vec<_> = listing.entries.iter().map(|e| e.path.as_str()).collect();
        assert_eq!(paths, ["home/.ssh"], "its name is told, what is in it is not");
    }
}

#[test]
fn a_directory_is_not_moved_to_where_its_files_would_be_protected() {
    for lookup in LOOKUPS {
        let world = World::new();
        world.put("plan/a.lock", "");
        world.put("ours/b.lock", "");
        let workspace = world.open_by(policy(), lookup);
        let (fail, stay) = (OnConflict::Fail, Parents::MustExist);
        let answer = workspace.rename("plan", "safe", fail, stay).unwrap_err();
        assert_eq!(answer.code.as_str(), "path_forbidden");
        assert_eq!(
            answer.cause.as_deref(),
            Some("it holds `safe/a.lock`, a name that the policy protects")
        );
        assert_eq!(code(&workspace.rename("plan", "free", fail, stay)), "ok");
    }
}

#[test]
fn a_directory_with_a_protected_name_in_it_is_not_deleted_in_part() {
    let world = World::new();
    world.put("repo/.git/config", "");
    world.put("repo/a/b/c", "");
    let workspace = world.open(LOOKUPS[0]);
    assert_eq!(code(&workspace.delete("repo", Depth::All)), "path_forbidden");
    assert_eq!(world.names("repo/a/b"), ["c"]);
    assert_eq!(code(&workspace.delete("repo/a", Depth::All)), "ok");
}

#[test]
fn a_read_only_session_reads_and_changes_nothing() {
    let world = World::new();
    world.put("a/x", "text");
    let rules = FileRules { access: FileAccess::ReadOnly, ..FileRules::default() };
    let workspace = world.open_by(rules, LOOKUPS[0]);
    assert_eq!(workspace.read("a/x", 0, None).unwrap().bytes, b"text");
    assert_eq!(code(&workspace.list(".", 2, 10)), "ok");
    for options in [REPLACE, CREATE, APPEND] {
        assert_eq!(code(&workspace.write("a/y", b"", options)), "read_only");
    }
    let nested = WriteOptions { parents: Parents::Create, ..REPLACE };
    assert_eq!(code(&workspace.write("new/dir/y", b"", nested)), "read_only");
    assert_eq!(code(&workspace.delete("a/x", Depth::One)), "read_only");
    let moved = workspace.rename("a/x", "y", OnConflict::Fail, Parents::MustExist);
    assert_eq!(code(&moved), "read_only");
    assert_eq!(world.names("."), ["a"]);
}
