//! A table of hostile paths, each tried by every operation in both ways of looking up: the exact answer, and nothing outside
//! read or changed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixListener;

use ringfence_engine::files::{Depth, Lookup, OnConflict, Parents, Workspace};
use ringfence_spec::Problem;

use crate::world::{APPEND, CANARY, LOOKUPS, REPLACE, World, code, fifo, in_namespace};

/// What each operation answers, by what a path is.
/// The columns: read, list, stat, replace, append, delete, move away, move to it.
type Answers = [&'static str; 8];

const OUTSIDE: Answers = ["path_outside"; 8];
const INVALID: Answers = ["name_invalid"; 8];
/// A directory on the way is a link.
const THROUGH_LINK: Answers = ["path_link"; 8];
/// The last name is a link: it can be looked at, deleted and moved as itself.
const LINK: Answers =
    ["path_link", "path_link", "ok", "path_link", "path_link", "ok", "ok", "exists"];
const BELOW_FILE: Answers = ["not_a_directory"; 8];
/// A plain file written as a directory.
const FILE_SLASH: Answers = [
    "not_a_directory",
    "not_a_directory",
    "not_a_directory",
    "not_a_file",
    "not_a_file",
    "not_a_directory",
    "not_a_directory",
    "not_a_directory",
];
const SPECIAL: Answers =
    ["not_a_file", "not_a_directory", "ok", "not_a_file", "not_a_file", "ok", "ok", "exists"];
const DIRECTORY: Answers =
    ["not_a_file", "ok", "ok", "not_a_file", "not_a_file", "ok", "ok", "exists"];
const DIRECTORY_SLASH: Answers =
    ["not_a_file", "ok", "ok", "not_a_file", "not_a_file", "ok", "ok", "not_a_directory"];
const WORKSPACE: Answers = [
    "not_a_file",
    "ok",
    "ok",
    "not_a_file",
    "not_a_file",
    "name_invalid",
    "name_invalid",
    "name_invalid",
];
/// Looks hostile and is only a name: it stays in the workspace.
const A_NAME: Answers =
    ["not_found", "not_found", "not_found", "ok", "ok", "not_found", "not_found", "ok"];
const NO_PARENT: Answers = ["not_found"; 8];
/// No new file is called this, but one that is there can be dealt with.
const NOT_FOR_NEW: Answers = [
    "not_found",
    "not_found",
    "not_found",
    "name_invalid",
    "name_invalid",
    "not_found",
    "not_found",
    "name_invalid",
];
/// Protected by name, and there.
const PROTECTED: Answers = [
    "ok",
    "not_a_directory",
    "ok",
    "path_forbidden",
    "path_forbidden",
    "path_forbidden",
    "path_forbidden",
    "path_forbidden",
];
/// Protected by name, and not there.
const PROTECTED_MISSING: Answers = [
    "not_found",
    "not_found",
    "not_found",
    "path_forbidden",
    "path_forbidden",
    "path_forbidden",
    "path_forbidden",
    "path_forbidden",
];

fn rows() -> Vec<(Vec<u8>, Answers)> {
    let text: &[(&[&str], Answers)] = &[
        (
            &[
                "..",
                "../",
                "../outside/secret.txt",
                "../../../../../../../../etc/passwd",
                "dir/../../outside/secret.txt",
                "dir/sub/../../../outside/secret.txt",
                "./../outside/secret.txt",
                "dir/./.././../outside/secret.txt",
                "missing/../../outside/secret.txt",
                "../ws2/secret.txt",
                "../ws/plain.txt",
                "dir//..//..//outside/secret.txt",
                "/",
                "//",
                "/.",
                "/..",
                "/etc/passwd",
                "/etc/shadow",
                "//etc/passwd",
                "/./etc/passwd",
                "/../etc/passwd",
                "/proc/self/environ",
                "/proc/self/root/etc/passwd",
                "/proc/self/cwd/secret.txt",
                "/proc/self/fd/0",
                "/dev/stdin",
                "/dev/zero",
                "/sys/kernel",
                "/tmp",
                "/workspace/..",
                "/workspace/../etc/passwd",
                "/workspace/../workspace/plain.txt",
                "/workspace/dir/../../outside/secret.txt",
                "/workspace2/secret.txt",
                "/workspac",
                "/workspace.txt",
                "/WORKSPACE/plain.txt",
                "/home/workspace/plain.txt",
            ],
            OUTSIDE,
        ),
        (&["", "\0", "plain.txt\0", "plain.txt\0.png", "../\0", "dir/\0/secret.txt"], INVALID),
        (
            &[
                "to-outside/secret.txt",
                "to-outside/sub/secret.txt",
                "to-outside/new.txt",
                "to-outside/missing/new.txt",
                "to-etc/passwd",
                "to-root/etc/passwd",
                "chain1/secret.txt",
                "dir/to-outside/secret.txt",
                "to-parent/outside/secret.txt",
                "to-parent/ws2/secret.txt",
                "to-proc/environ",
                "to-proc/root/etc/passwd",
                "to-proc/cwd/secret.txt",
                "to-fd/0",
                "to-dir/inner.txt",
                "to-dir/../plain.txt/../to-dir/inner.txt",
                "loop/x",
                "loop-a/x",
                "dangling/x",
                "dangling-in/x",
                "to-here/plain.txt",
                "to-here/to-here/plain.txt",
                "/workspace/to-outside/secret.txt",
            ],
            THROUGH_LINK,
        ),
        (
            &[
                "to-secret",
                "to-outside",
                "chain1",
                "to-etc",
                "to-root",
                "to-proc",
                "to-magic",
                "to-parent",
                "to-plain",
                "to-dir",
                "to-here",
                "to-fifo",
                "to-null",
                "loop",
                "loop-a",
                "dangling",
                "dangling-in",
                "dir/../to-secret",
                "/workspace/to-secret",
                "to-long",
            ],
            LINK,
        ),
        (&["plain.txt/x", "plain.txt/x/y", "fifo/x", "socket/x", "dir/inner.txt/new"], BELOW_FILE),
        (&["plain.txt/", "plain.txt/.", "dir/inner.txt//"], FILE_SLASH),
        (&["fifo", "socket", "dir/../fifo"], SPECIAL),
        (&["dir", "/workspace/dir"], DIRECTORY),
        (&["dir/", "dir/.", "dir/sub/.."], DIRECTORY_SLASH),
        (&[".", "./", "/workspace", "/workspace/", "dir/..", "missing/.."], WORKSPACE),
        (
            &[
                "..\\..\\etc\\passwd",
                "%2e%2e%2foutside",
                "..;",
                "...",
                "....",
                ".. ",
                " ..",
                "..\u{200b}",
                "\u{2025}",
                "\u{ff0e}\u{ff0e}",
                "~",
                "~root",
                "$HOME",
                "`id`",
                "$(id)",
                "*",
                "-rf",
                "a b",
                "con",
                "C:",
                "file:",
                "name.",
                "name ",
                ".gitignore",
                ".github",
                "\u{202e}txt.exe",
                "grün",
            ],
            A_NAME,
        ),
        (
            &[
                "%2e%2e/outside/secret.txt",
                "..%2foutside/secret.txt/x",
                "....//outside/secret.txt",
                "\u{2024}\u{2024}/outside/secret.txt",
                "\u{ff0e}\u{ff0e}/outside/secret.txt",
                "..\u{2215}outside/secret.txt",
                ".. /outside/secret.txt",
                "file:///etc/passwd",
                "C:/Windows/win.ini",
                "missing/new.txt",
            ],
            NO_PARENT,
        ),
        (&["a\nb", "a\rb", "\u{1b}[2J", "a\tb", "\u{7f}"], NOT_FOR_NEW),
        (
            &[
                ".git/config",
                "/workspace/.git/config",
                "dir/../.git/config",
                "./.git//config",
                ".env",
                "keep/.env.local",
                "missing/../.env",
                "config.json",
                "dir/sub/../../config.json",
            ],
            PROTECTED,
        ),
        (
            &[
                ".git/hooks/pre-commit",
                ".GIT/config",
                ".git./config",
                ".git /config",
                ".g\u{200c}it/config",
                ".envrc",
                ".ENV",
                ".env ",
                ".env.",
                "Config.JSON",
                "config.json.",
                "dir/.git",
                ".mcp.json",
                ".claude/settings.json",
            ],
            PROTECTED_MISSING,
        ),
    ];
    let mut rows: Vec<(Vec<u8>, Answers)> = text
        .iter()
        .flat_map(|(paths, answers)| paths.iter().map(|p| (p.as_bytes().to_vec(), *answers)))
        .collect();
    rows.push((vec![b'n'; 256], INVALID));
    rows.push((vec![b'n'; 255], A_NAME));
    rows.push((vec![b'a'; 5000], INVALID));
    rows.push((b"a/".repeat(2000).into_iter().chain(*b"a").collect(), NO_PARENT));
    rows.push((b"../".repeat(1300), OUTSIDE));
    rows.push((b"dir/../".repeat(500), WORKSPACE));
    // Overlong UTF-8 of `..` and `/`, and a byte that is no text.
    rows.push((b"\xc0\xae\xc0\xae".to_vec(), A_NAME));
    rows.push((b"..\xc0\xafoutside".to_vec(), A_NAME));
    rows.push((b"\xff\xfe".to_vec(), A_NAME));
    rows.push((b".env\xff".to_vec(), PROTECTED_MISSING));
    rows
}

fn world() -> World {
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

#[test]
fn following_the_hint_of_a_link_succeeds() {
    let world = world();
    for lookup in LOOKUPS {
        let workspace = world.open(lookup);
        for (link, target) in [("to-plain", "plain.txt"), ("to-dir/inner.txt", "dir/inner.txt")] {
            let hint = workspace.read(link, 0, None).unwrap_err().hint.unwrap();
            assert_eq!(hint, format!("name what it points to: `{target}`"));
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
