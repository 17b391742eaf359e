//! A table of hostile paths, each tried by every operation in both ways of looking up: the exact answer, and nothing outside
//! read or changed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;

use ringfence_engine::files::{Depth, Lookup, OnConflict, Parents, Workspace};
use ringfence_spec::Problem;
use ringfence_sys::seccomp::Instruction;
use rustix::io::Errno;

use crate::rows::rows;
use crate::world::{APPEND, CANARY, LOOKUPS, REPLACE, World, code, fifo, in_namespace};

pub(crate) fn world() -> World {
    let world = World::new();
    world.put("plain.txt", "plain");
    world.put("move-me", "moved");
    world.put("dir/inner.txt", "inner");
    world.put("dir/sub/deep.txt", "deep");
    world.put(".git/config", "[core]");
    world.put(".env", "KEY=1");
    world.put("keep/.env.local", "KEY=2");
    world.put("config.json", "{}");
    let outside = world.outside();
    world.link(&outside, "to-outside");
    world.link("../../outside", "dir/to-outside");
    world.link(outside.join("secret.txt"), "to-secret");
    world.link("/etc", "to-etc");
    world.link("/", "to-root");
    world.link("chain2", "chain1");
    world.link("chain3", "chain2");
    world.link(&outside, "chain3");
    world.link("..", "to-parent");
    world.link("/proc/self", "to-proc");
    world.link("/proc/self/fd", "to-fd");
    world.link("/proc/self/exe", "to-magic");
    world.link("plain.txt", "to-plain");
    world.link("dir", "to-dir");
    world.link(".", "to-here");
    world.link("fifo", "to-fifo");
    world.link("/dev/null", "to-null");
    world.link("loop", "loop");
    world.link("loop-b", "loop-a");
    world.link("loop-a", "loop-b");
    world.link(outside.join("missing"), "dangling");
    world.link("nowhere", "dangling-in");
    world.link("x/".repeat(1500), "to-long");
    fifo(&world.inside("fifo"));
    drop(UnixListener::bind(world.inside("socket")).unwrap());
    world
}

/// Everything an operation returns, as text, so that a canary in it would be seen.
fn attempt(workspace: &Workspace, column: usize, path: &OsStr) -> Result<String, Problem> {
    let (fail, stay) = (OnConflict::Fail, Parents::MustExist);
    match column {
        0 => workspace.read(path, 0, None).map(|c| String::from_utf8_lossy(&c.bytes).into_owned()),
        1 => workspace.list(path, 3, 1000).map(|l| format!("{l:?}")),
        2 => workspace.stat(path).map(|e| format!("{:?}", e.kind)),
        3 => workspace.write(path, b"new", REPLACE).map(|w| w.sha256),
        4 => workspace.write(path, b"new", APPEND).map(|w| w.sha256),
        5 => workspace.delete(path, Depth::All).map(|_| String::new()),
        6 => workspace.rename(path, "moved-away", fail, stay).map(|()| String::new()),
        _ => workspace.rename("move-me", path, fail, stay).map(|()| String::new()),
    }
}

fn try_all(lookup: Lookup) {
    let columns = ["read", "list", "stat", "write", "append", "delete", "move from", "move to"];
    let mut wrong = Vec::new();
    let mut world = world();
    for (path, answers) in rows() {
        for (column, act) in columns.iter().enumerate() {
            let workspace = world.open(lookup);
            let before = world.beside();
            let answer = attempt(&workspace, column, OsStr::from_bytes(&path));
            let row = format!("{act} {:.60?}", String::from_utf8_lossy(&path));
            if code(&answer) != answers[column] {
                wrong.push(format!("{row}: {answer:?}, expected {}", answers[column]));
            }
            assert_eq!(world.beside(), before, "{row} changed something outside");
            let told = match &answer {
                Ok(text) => text.clone(),
                Err(problem) => problem.to_string(),
            };
            assert!(!told.contains(CANARY), "{row} told what is outside: {told}");
            if answer.is_err() {
                let host = world.outside();
                let host = host.parent().unwrap().to_str().unwrap();
                assert!(!told.contains(host), "{row} told a host path: {told}");
            }
            if answer.is_ok() && column > 2 {
                world = self::world();
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as expected:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn there_are_more_than_a_hundred_hostile_paths() {
    assert!(rows().len() > 100, "{}", rows().len());
}

#[test]
fn hostile_paths_by_openat2() {
    try_all(Lookup::Kernel);
}

#[test]
fn hostile_paths_by_hand() {
    try_all(Lookup::ByHand);
}

/// Old kernels answer ENOSYS to openat2, old container filters EPERM. The filter is on a thread that ends with the test.
#[test]
fn hostile_paths_where_openat2_is_refused() {
    for errno in [Errno::NOSYS, Errno::PERM] {
        let thread = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            let refuse = 0x0005_0000 | u32::try_from(errno.raw_os_error()).unwrap();
            // Load the number; is it 437, openat2 on every architecture? then refuse; else allow.
            let filter = [
                (0x20, 0, 0, 0),
                (0x15, 0, 1, 437),
                (0x06, 0, 0, refuse),
                (0x06, 0, 0, 0x7fff_0000),
            ]
            .map(|(code, jt, jf, k)| Instruction { code, jt, jf, k });
            ringfence_sys::seccomp::install(&filter).unwrap();
            let flags = rustix::fs::ResolveFlags::empty();
            let (read, mode) = (rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
            let answer = rustix::fs::openat2(rustix::fs::CWD, "/", read, mode, flags);
            assert_eq!(answer.unwrap_err(), errno, "the filter does nothing");
            try_all(Lookup::Kernel);
        });
        thread.join().unwrap();
    }
}

#[test]
fn following_the_hint_of_a_link_succeeds() {
    let world = world();
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        for (link, target) in [("to-plain", "plain.txt"), ("to-dir/inner.txt", "dir/inner.txt")] {
            let hint = workspace.read(link, 0, None).unwrap_err().hint.unwrap();
            assert_eq!(hint, format!("name what it points to: `{target}`").into());
            assert!(workspace.read(target, 0, None).is_ok());
        }
        for link in ["to-secret", "dangling-in", "loop", "to-fifo"] {
            assert_eq!(workspace.read(link, 0, None).unwrap_err().hint, None, "{link}");
        }
    }
}

#[test]
fn what_is_mounted_inside_is_not_entered() {
    let world = world();
    world.put("mnt/hidden", "");
    world.put("bound.txt", "under");
    let outside = world.outside();
    let setup = format!(
        "mount --bind {0} \"$DIR/mnt\" && mount --bind {0}/secret.txt \"$DIR/bound.txt\"",
        outside.display()
    );
    in_namespace("hostile::inner_mounts", &world.inside(""), &setup);
}

#[test]
#[ignore = "run by what_is_mounted_inside_is_not_entered in namespaces of its own"]
fn inner_mounts() {
    let dir = std::env::var_os("DIR").unwrap();
    for lookup in LOOKUPS {
        let rules = ringfence_engine::files::FileRules::default();
        let workspace = Workspace::open_with(dir.as_ref(), rules, lookup).unwrap();
        for path in ["mnt", "mnt/secret.txt", "mnt/new", "bound.txt"] {
            for column in 0..8 {
                let answer = attempt(&workspace, column, OsStr::new(path));
                // A name that something is mounted on cannot be taken by another file.
                let expected: &[&str] = match (column, path) {
                    (7, "mnt" | "bound.txt") => &["exists", "path_mount", "busy"],
                    _ => &["path_mount"],
                };
                let found = code(&answer);
                assert!(expected.contains(&found), "{lookup:?} {column} {path}: {answer:?}");
            }
        }
        let listing = workspace.list(".", 3, 1000).unwrap();
        assert!(listing.entries.iter().all(|e| !e.path.contains("secret.txt")), "{listing:?}");
        assert!(workspace.usage().unwrap().complete);
        assert_eq!(code(&workspace.read("plain.txt", 0, None)), "ok");
    }
}
