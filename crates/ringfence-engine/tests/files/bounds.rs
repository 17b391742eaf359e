//! Trees that are too wide or too deep: answered within bounds, counted, and deleted.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringfence_engine::files::{
    Depth, Entry, EntryKind, FileRules, LIST_ENTRIES_MAX, OnConflict, Parents,
};
use rustix::fs::{CWD, Mode, OFlags};

use crate::world::{CREATE, LOOKUPS, World, code};

/// Makes directories below each other, deeper than any path can name, and a file at the bottom.
fn dig(world: &World, n_levels: usize) {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let open = |dir: &OwnedFd, name: &str| rustix::fs::openat(dir, name, flags, Mode::empty());
    let mut at = rustix::fs::openat(CWD, world.inside(""), flags, Mode::empty()).unwrap();
    for n in 0..n_levels {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        if n % 100 == 0 {
            rustix::fs::mkdirat(&at, "side", Mode::RWXU).unwrap();
        }
        at = open(&at, "d").unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let file = rustix::fs::openat(&at, "bottom", flags, Mode::RWXU).unwrap();
    rustix::io::write(&file, &vec![b'x'; 1 << 20]).unwrap();
}

#[test]
fn a_hundred_thousand_entries_are_listed_in_part_and_quickly() {
    let world = World::new();
    for n in 0..100_000 {
        std::fs::File::create(world.inside(format!("f{n:06}"))).unwrap();
    }
    std::fs::create_dir(world.inside("z")).unwrap();
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        let start = Instant::now();
        let listing = workspace.list(".", 2, 50).unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
        assert!(listing.truncated && listing.more);
        assert_eq!(listing.entries.len(), 50);
        assert_eq!(listing.entries[49].path, "f000049", "the first in order, not any");
        let listing = workspace.list(".", 1, usize::MAX).unwrap();
        assert_eq!(listing.entries.len(), LIST_ENTRIES_MAX);
        let start = Instant::now();
        assert_eq!(workspace.usage().unwrap().n_entries, 100_001);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
    // The count is believed for a while: a write does not cost a walk.
    let workspace = world.open(LOOKUPS[0]);
    workspace.usage().unwrap();
    let start = Instant::now();
    for n in 0..20 {
        workspace.write(format!("w{n}"), b"x", CREATE).unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    world.remove();
}

#[test]
fn a_listing_of_long_names_is_bounded_in_bytes_and_read_in_pages() {
    let world = World::new();
    // Not UTF-8, so that every path is given twice, and as deep as is listed.
    let name = |n: usize| OsString::from_vec([format!("{n:04}").as_bytes(), &[0xff; 100]].concat());
    let dir: PathBuf = (0..31).map(name).collect();
    std::fs::create_dir_all(world.inside(&dir)).unwrap();
    for n in 0..1000 {
        std::fs::File::create(world.inside(dir.join(name(n)))).unwrap();
    }
    let workspace = world.open(LOOKUPS[0]);
    let (mut n_listed, mut n_pages) = (0, 0);
    loop {
        let page = workspace.list_from(".", 32, n_listed, LIST_ENTRIES_MAX).unwrap();
        let n_bytes: usize = page.entries.iter().map(json_bytes).sum();
        assert!(n_bytes < 9 << 20, "{n_bytes}");
        assert_eq!((page.truncated, page.entries.is_empty()), (page.more, false));
        n_listed += page.entries.len();
        n_pages += 1;
        if !page.more {
            break;
        }
        assert!(n_bytes > 8 << 20, "{n_bytes}");
    }
    assert_eq!(n_listed, 1031);
    assert!(n_pages > 1, "{n_pages}");
}

fn json_bytes(entry: &Entry) -> usize {
    serde_json::to_string(entry).unwrap().len()
}

#[test]
fn a_very_deep_tree_is_counted_moved_and_deleted() {
    for lookup in LOOKUPS {
        let world = World::new();
        dig(&world, 3000);
        world.put("beside", "x");
        let rules = FileRules { quota_bytes: Some(1 << 20), ..FileRules::default() };
        let workspace = world.open_by(rules, lookup);
        let usage = workspace.usage().unwrap();
        assert!(usage.complete);
        assert_eq!(usage.n_entries, 3000 + 30 + 2);
        assert!(usage.bytes >= 1 << 20, "what is at the bottom counts");
        assert_eq!(code(&workspace.write("new", b"x", CREATE)), "quota_exceeded");
        let listing = workspace.list(".", usize::MAX, 100).unwrap();
        assert!(listing.entries.len() < 100);
        let (fail, stay) = (OnConflict::Fail, Parents::MustExist);
        workspace.rename("d", "e", fail, stay).unwrap();
        let deleted = workspace.delete("e", Depth::All).unwrap();
        assert_eq!(deleted.n_entries, 3000 + 29 + 1);
        assert_eq!(world.names("."), ["beside", "side"]);
        assert_eq!(code(&workspace.write("new", b"x", CREATE)), "ok");
    }
}

#[test]
fn empty_files_use_up_the_quota_too() {
    let world = World::new();
    let rules = FileRules { quota_bytes: Some(1 << 20), ..FileRules::default() };
    let workspace = world.open_by(rules, LOOKUPS[0]);
    let n_written = (0..100)
        .take_while(|n| code(&workspace.write(format!("f{n}"), b"", CREATE)) == "ok")
        .count();
    // 16 KiB each.
    assert_eq!(n_written, 64);
    assert_eq!(code(&workspace.write("one more", b"", CREATE)), "quota_exceeded");
    workspace.delete("f0", Depth::All).unwrap();
    assert_eq!(code(&workspace.write("one more", b"", CREATE)), "ok");
}

#[test]
fn deleting_removes_links_and_not_what_they_point_to() {
    for lookup in LOOKUPS {
        let world = World::new();
        world.put("d/x", "");
        world.put("kept/y", "");
        world.link(world.outside(), "d/out");
        world.link("../kept", "d/in");
        let before = world.beside();
        let workspace = world.open(lookup);
        assert_eq!(code(&workspace.delete("d", Depth::One)), "not_empty");
        assert_eq!(workspace.delete("d", Depth::All).unwrap().n_entries, 4);
        assert_eq!(world.names("kept"), ["y"]);
        assert_eq!(world.beside(), before);
    }
}

#[test]
fn depth_is_how_many_levels_are_listed() {
    let world = World::new();
    world.put("a/b/c/d", "");
    let workspace = world.open(LOOKUPS[0]);
    let paths = |depth| {
        let listing = workspace.list("a", depth, 10).unwrap();
        listing.entries.into_iter().map(|e| (e.path, e.kind)).collect::<Vec<_>>()
    };
    let rows = [
        ("a/b".to_owned(), EntryKind::Directory),
        ("a/b/c".to_owned(), EntryKind::Directory),
        ("a/b/c/d".to_owned(), EntryKind::File),
    ];
    for depth in 1..=3 {
        assert_eq!(paths(depth), rows[..depth]);
    }
}
