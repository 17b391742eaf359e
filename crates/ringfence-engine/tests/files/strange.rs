//! Files that are not what they seem: special, shared, growing, sparse, with names that are no text, with odd owners and modes.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use ringfence_engine::files::{
    ContentKind, Depth, EntryKind, FileRules, OnConflict, Parents, WriteOptions,
};
use ringfence_testing::{BoundedCommand as _, missing, needs_root};

use crate::world::{APPEND, CREATE, LOOKUPS, REPLACE, World, code, fifo};

#[test]
fn a_range_says_where_it_ends_and_what_it_is() {
    let world = World::new();
    world.put("f", "0123456789");
    let workspace = world.open(LOOKUPS[0]);
    // offset, limit, bytes, more
    let rows: &[(u64, Option<u64>, &str, bool)] = &[
        (0, None, "0123456789", false),
        (0, Some(4), "0123", true),
        (4, Some(6), "456789", false),
        (4, Some(100), "456789", false),
        (10, None, "", false),
        (11, Some(1), "", false),
        (0, Some(0), "", true),
        (u64::MAX, Some(5), "", false),
        (i64::MAX as u64, Some(u64::MAX), "", false),
    ];
    for (offset, limit, bytes, more) in rows {
        let read = workspace.read("f", *offset, *limit).unwrap();
        assert_eq!((read.bytes.as_slice(), read.more), (bytes.as_bytes(), *more), "{offset}");
        assert_eq!((read.total_bytes, read.kind), (10, ContentKind::Text));
    }
    let whole = workspace.read("f", 0, None).unwrap();
    // `printf 0123456789 | sha256sum`
    assert_eq!(whole.sha256, "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
}

#[test]
fn special_files_are_answered_at_once() {
    let world = World::new();
    fifo(&world.inside("pipe"));
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        let start = Instant::now();
        assert_eq!(code(&workspace.read("pipe", 0, None)), "not_a_file");
        assert_eq!(code(&workspace.write("pipe", b"x", REPLACE)), "not_a_file");
        assert_eq!(code(&workspace.write("pipe", b"x", APPEND)), "not_a_file");
        assert_eq!(workspace.stat("pipe").unwrap().kind, EntryKind::Special);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_file_under_lease_is_answered_at_once() {
    let world = World::new();
    world.put("f", "x");
    // F_SETLEASE is 1024, F_WRLCK 1 (fcntl(2)); SIGIO is ignored, so the lease is not given up.
    let holder = "import fcntl,os,signal,sys,time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        fd = os.open(sys.argv[1], os.O_RDWR)\nfcntl.fcntl(fd, 1024, 1)\nprint('held', flush=True)\ntime.sleep(60)";
    let child = std::process::Command::new("python3")
        .args(["-c", holder])
        .arg(world.inside("f"))
        .stdout(std::process::Stdio::piped())
        .bounded_spawn();
    let Ok(mut child) = child else {
        missing("python", "no python3");
        return;
    };
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "held\n");
    for lookup in LOOKUPS {
        let start = Instant::now();
        assert_eq!(code(&world.open(lookup).read("f", 0, None)), "busy");
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_file_that_grows_is_read_to_its_bound() {
    let world = World::new();
    world.put("log", "");
    let rules = FileRules { read_bytes_max: 1 << 20, ..FileRules::default() };
    let workspace = world.open_by(rules, LOOKUPS[0]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = world.inside("log");
            let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            for _ in 0..2000 {
                file.write_all(&[b'x'; 8192]).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let start = Instant::now();
        let mut longest = 0;
        while longest < 1 << 20 && start.elapsed() < Duration::from_secs(20) {
            let read = workspace.read("log", 0, None).unwrap();
            assert!(read.bytes.len() <= 1 << 20);
            assert!(read.total_bytes >= read.bytes.len() as u64);
            longest = read.bytes.len();
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(longest, 1 << 20);
    });
    assert!(workspace.read("log", 0, None).unwrap().total_bytes >= 1 << 20);
}

#[test]
fn a_huge_file_with_holes_is_read_in_part_and_costs_no_quota() {
    let world = World::new();
    let file = std::fs::File::create(world.inside("holes")).unwrap();
    file.set_len(1 << 42).unwrap();
    let rules = FileRules { quota_bytes: Some(1 << 20), ..FileRules::default() };
    let workspace = world.open_by(rules, LOOKUPS[0]);
    let read = workspace.read("holes", 1 << 41, Some(10)).unwrap();
    assert_eq!((read.bytes.as_slice(), read.total_bytes, read.more), (&[0; 10][..], 1 << 42, true));
    assert_eq!(read.kind, ContentKind::Binary);
    assert_eq!(workspace.read("holes", 0, None).unwrap().bytes.len(), 10 << 20);
    assert!(workspace.usage().unwrap().bytes < 1 << 20);
    // Appending copies, so it is refused before it starts.
    assert_eq!(code(&workspace.write("holes", b"x", APPEND)), "too_large");
    assert_eq!(code(&workspace.write("other", b"x", CREATE)), "ok");
}

#[test]
fn writing_a_file_with_several_names_leaves_the_others_alone() {
    let world = World::new();
    world.put("a", "old");
    std::fs::hard_link(world.inside("a"), world.inside("b")).unwrap();
    let workspace = world.open(LOOKUPS[0]);
    assert_eq!(workspace.stat("a").unwrap().n_links, 2);
    workspace.write("a", b"new", REPLACE).unwrap();
    assert_eq!(workspace.read("b", 0, None).unwrap().bytes, b"old");
    workspace.write("b", b"er", APPEND).unwrap();
    assert_eq!(workspace.read("b", 0, None).unwrap().bytes, b"older");
    assert_eq!(workspace.read("a", 0, None).unwrap().bytes, b"new");
}

#[test]
fn a_hard_link_to_somebody_elses_file_is_neither_read_nor_written() {
    if !needs_root("only root can make such a link here") {
        return;
    }
    let world = World::new();
    chown(world.inside(""), Some(1234), Some(1234)).unwrap();
    std::fs::hard_link(world.outside().join("secret.txt"), world.inside("mine")).unwrap();
    let before = world.beside();
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        assert_eq!(code(&workspace.read("mine", 0, None)), "path_shared");
        assert_eq!(code(&workspace.write("mine", b"x", REPLACE)), "path_shared");
        assert_eq!(code(&workspace.write("mine", b"x", APPEND)), "path_shared");
    }
    assert_eq!(world.beside(), before);
}

#[test]
fn what_root_writes_belongs_to_the_workspaces_owner() {
    if !needs_root("it is about what root writes") {
        return;
    }
    let world = World::new();
    chown(world.inside(""), Some(1234), Some(4321)).unwrap();
    let nested = WriteOptions { parents: Parents::Create, ..REPLACE };
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        workspace.write("x/y/f", b"1", nested).unwrap();
        workspace.write("x/y/f", b"2", APPEND).unwrap();
        for path in ["x", "x/y", "x/y/f"] {
            let meta = std::fs::metadata(world.inside(path)).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (1234, 4321), "{path}");
        }
        workspace.delete("x", Depth::All).unwrap();
    }
}

#[test]
fn a_replaced_file_keeps_its_permissions_but_no_set_user_id() {
    let world = World::new();
    let workspace = world.open(LOOKUPS[0]);
    for (before, after) in [(0o755, 0o755), (0o600, 0o600), (0o4755, 0o755), (0o2770, 0o770)] {
        world.put("f", "old");
        let path = world.inside("f");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
        workspace.write("f", b"new", REPLACE).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, after, "{before:o}");
    }
}

#[test]
fn names_that_are_no_text_can_be_listed_read_moved_and_deleted() {
    let world = World::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    world.put(name, "latin");
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        let entry = workspace.list(".", 1, 10).unwrap().entries.remove(0);
        assert_eq!(entry.path, "caf\u{fffd}");
        let raw = base64::engine::general_purpose::STANDARD.decode(entry.path_base64.unwrap());
        let raw = raw.unwrap();
        assert_eq!(raw, name.as_bytes());
        let path = OsStr::from_bytes(&raw);
        assert_eq!(workspace.read(path, 0, None).unwrap().bytes, b"latin");
        let (fail, stay) = (OnConflict::Fail, Parents::MustExist);
        workspace.rename(path, "plain", fail, stay).unwrap();
        workspace.rename("plain", path, fail, stay).unwrap();
    }
    let workspace = world.open(LOOKUPS[0]);
    workspace.delete(name, Depth::One).unwrap();
    world.put("line\nbreak", "x");
    assert_eq!(code(&workspace.read("line\nbreak", 0, None)), "ok");
    assert_eq!(code(&workspace.delete("line\nbreak", Depth::One)), "ok");
}

#[test]
fn a_directory_closed_to_its_owner_is_removed_and_hides_nothing_from_the_quota() {
    let world = World::new();
    world.put("closed/below/f", [b'x'; 8192]);
    let closed = std::fs::Permissions::from_mode(0o000);
    std::fs::set_permissions(world.inside("closed"), closed).unwrap();
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        // Root reads it; anybody else says that it cannot be counted, and writes no more.
        let root = rustix::process::geteuid().is_root();
        assert_eq!(workspace.usage().unwrap().complete, root);
        let expected = if root { "ok" } else { "quota_unknown" };
        assert_eq!(code(&workspace.write("new", b"x", REPLACE)), expected);
    }
    world.remove();
}
