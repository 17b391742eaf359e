//! The hostile paths and their answers, as data.

/// What each operation answers, by what a path is.
/// The columns: read, list, stat, replace, append, delete, move away, move to it.
pub(crate) type Answers = [&'static str; 8];

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

/// Every path, as bytes, and what it is answered in the tree that `hostile.rs` makes.
pub(crate) fn rows() -> Vec<(Vec<u8>, Answers)> {
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
