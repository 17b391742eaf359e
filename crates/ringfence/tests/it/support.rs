//! A workspace, a home, and one call that runs a command behind the fence in them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ringfence_testing::{BoundedCommand as _, Json, Running, TimeLimit, limit, missing, say};
use rustix::fs::OFlags;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

/// The binary under test.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("RINGFENCE_TEST_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_ringfence").into(), PathBuf::from)
}

/// Directories of the project that tests read while they run.
const READ_BY_TESTS: [&str; 5] = ["corpus", "dist", "plugins", SNAPSHOTS, SNIPPETS];
const SNAPSHOTS: &str = "crates/ringfence/tests/it/snapshots";
const SNIPPETS: &str = "crates/ringfence/tests/snippets";

/// The project, or a copy of [`READ_BY_TESTS`] that this user can read: a checkout of root's is often below `/root`.
pub(crate) fn project() -> PathBuf {
    std::env::var_os("RINGFENCE_TEST_PROJECT")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../..").into(), PathBuf::from)
}

pub(crate) fn snapshots() -> PathBuf {
    project().join(SNAPSHOTS)
}

pub(crate) fn snippets() -> PathBuf {
    project().join(SNIPPETS)
}

/// A directory with a home and a workspace in it, gone with the test.
pub(crate) struct World {
    dir: tempfile::TempDir,
    vars: Vec<(String, String)>,
    /// For what waits on no process: a listener, a thread. Some tests start dozens of processes, each with a limit.
    _limit: TimeLimit,
}

/// A run that is there and goes on; killed with the test if nobody waits for its end.
pub(crate) struct Live(Running);

impl Live {
    /// The supervisor.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Ends the supervisor without asking.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Closes its stdin and waits: the exit code, and what it still said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        drop(self.0.stdin.take());
        let mut rest = String::new();
        self.0.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (self.0.wait().unwrap().code(), rest)
    }
}

/// What a run did.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The outcome, for runs with `--json`.
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| {
            panic!("not one JSON object ({e}): {}\n{}", self.stdout, self.stderr)
        })
    }

    pub(crate) fn from(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A terminal: its master and its slave.
pub(crate) fn pty(rows: u16, columns: u16) -> (std::fs::File, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&slave, size).unwrap();
    (std::fs::File::from(master), slave)
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("ringfence-it-").tempdir().unwrap();
        for name in ["home", "work", "state"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir, vars: Vec::new(), _limit: TimeLimit::of(10 * limit()) }
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Writes a file below the world, with its parents.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a program below the world.
    pub(crate) fn write_executable(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Sets a variable of the caller's.
    pub(crate) fn var(mut self, name: &str, value: &str) -> Self {
        self.vars.push((name.into(), value.into()));
        self
    }

    /// `ringfence ARGS` in the workspace.
    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.here(Command::new(binary()));
        command.args(args);
        command
    }

    /// A command in the workspace, with this world's home and variables.
    pub(crate) fn here(&self, mut command: Command) -> Command {
        command.current_dir(self.work()).stdin(Stdio::null());
        command.env("HOME", self.home()).env("XDG_STATE_HOME", self.dir.path().join("state"));
        for name in [
            "XDG_CONFIG_HOME",
            "CARGO_HOME",
            "PYENV_ROOT",
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "TMPDIR",
        ] {
            command.env_remove(name);
        }
        for (name, value) in &self.vars {
            command.env(name, value);
        }
        command
    }

    /// `ringfence ARGS`, to its end.
    pub(crate) fn ringfence(&self, args: &[&str]) -> Ran {
        Ran::from(&self.command(args).bounded_output().unwrap())
    }

    /// `ringfence run FLAGS -- sh -c SCRIPT`.
    pub(crate) fn sh(&self, flags: &[&str], script: &str) -> Ran {
        let args = [&["run"], flags, &["--", "sh", "-c", script]].concat();
        self.ringfence(&args)
    }

    /// The same with `--json`: the exit code and the outcome.
    pub(crate) fn sh_json(&self, flags: &[&str], script: &str) -> (i32, Json) {
        let ran = self.sh(&[flags, &["--json"]].concat(), script);
        (ran.code, ran.json())
    }

    /// `ringfence run FLAGS --json -- python3 -c PROGRAM`.
    pub(crate) fn python(&self, flags: &[&str], program: &str) -> (i32, Json) {
        let args = [&["run", "--json"], flags, &["--", "/usr/bin/python3", "-c", program]].concat();
        let ran = self.ringfence(&args);
        (ran.code, ran.json())
    }

    /// The same with bytes on stdin and raw output.
    pub(crate) fn sh_with_stdin(&self, script: &str, stdin: &[u8]) -> Output {
        let mut child = self
            .command(&["run", "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .bounded_spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let bytes = stdin.to_vec();
        let writer = std::thread::spawn(move || {
            let _ = pipe.write_all(&bytes);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// `ringfence run -- sh -c SCRIPT`, which begins with the line `up` when it is ready, and may read its stdin to wait
    /// Runs `ringfence ARGS` where user namespaces are used up, so in the landlock tier.
    pub(crate) fn without_namespaces(&self, args: &[&str]) -> Ran {
        Ran::from(&self.command_without_namespaces(args).bounded_output().unwrap())
    }

    /// The same, not started yet: in a user namespace whose own limit is zero.
    pub(crate) fn command_without_namespaces(&self, args: &[&str]) -> Command {
        let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
        let unshare = ["unshare", "-U", "--map-current-user", "--keep-caps"];
        self.wrapped(&[&unshare[..], &["sh", "-c", script, "sh"]].concat(), args)
    }

    /// `WRAPPER ringfence ARGS`, as an ordinary user: root is refused in a namespace that maps no other user, so the world
    /// is given to one, with a copy of the binary.
    pub(crate) fn wrapped(&self, wrapper: &[&str], args: &[&str]) -> Command {
        let mut line: Vec<OsString> = Vec::new();
        let mut program = binary();
        if is_root() {
            let copy = self.root().join("ringfence");
            if !copy.exists() {
                std::fs::copy(&program, &copy).unwrap();
            }
            program = copy;
            let chown =
                Command::new("chown").args(["-R", "61234:61234"]).arg(self.root()).bounded_status();
            assert!(chown.unwrap().success());
            line.extend(
                ["setpriv", "--reuid=61234", "--regid=61234", "--clear-groups"].map(Into::into),
            );
        }
        line.extend(wrapper.iter().map(Into::into));
        line.push(program.into());
        line.extend(args.iter().map(Into::into));
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        let mut command = self.here(command);
        command.env_remove("TMPDIR").stdin(Stdio::null());
        command
    }

    /// for [`Live::end`].
    pub(crate) fn sh_live(&self, script: &str) -> Live {
        self.live(&["run", "--", "sh", "-c", script])
    }

    /// `ringfence ARGS`, which begins with the line `up` when it is ready.
    pub(crate) fn live(&self, args: &[&str]) -> Live {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut live = Live(command.bounded_spawn().unwrap());
        let mut up = [0u8; 3];
        live.0.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        assert_eq!(&up, b"up\n");
        live
    }

    /// Every name below the workspace.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        std::fs::read_dir(self.work())
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }
}

/// Returns true if this process is the host's root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An id that no distribution hands out and no passwd knows.
const ORDINARY_ID: u32 = 61_234;

/// Runs this test binary once more under an unprivileged uid, if this is root and the first time.
pub(crate) fn again_as_an_ordinary_user() {
    if !is_root() || std::env::var_os("RINGFENCE_TEST_AGAIN").is_some() {
        return;
    }
    let dir = tempfile::Builder::new().prefix("ringfence-again-").tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &std::path::Path, name: &str| {
        let to = dir.path().join(name);
        // By another process: a descriptor of ours, open for writing and inherited by a fork of another test's, would
        // make the copy "text file busy".
        assert!(Command::new("cp").args([from, &to]).bounded_status().unwrap().success());
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let ringfence = copy(&binary(), "ringfence");
    let files = dir.path().join("project");
    std::fs::create_dir(&files).unwrap();
    let copied = Command::new("cp")
        .args(["-r", "--parents"])
        .args(READ_BY_TESTS)
        .arg(&files)
        .current_dir(project())
        .bounded_status();
    assert!(copied.unwrap().success(), "cannot copy what tests read");
    let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(&files).bounded_status();
    assert!(readable.unwrap().success(), "cannot make the copy readable");
    let temp = dir.path().join("tmp");
    std::fs::create_dir(&temp).unwrap();
    std::os::unix::fs::chown(&temp, Some(ORDINARY_ID), Some(ORDINARY_ID)).unwrap();
    let output = Command::new(tests)
        .env("RINGFENCE_TEST_AGAIN", "1")
        .env("RINGFENCE_TEST_BINARY", ringfence)
        .env("RINGFENCE_TEST_PROJECT", files)
        // Else insta asks cargo, which this user may not have.
        .env("INSTA_WORKSPACE_ROOT", dir.path())
        // They are root's to write.
        .env("INSTA_UPDATE", "no")
        .env("HOME", &temp)
        .env("TMPDIR", &temp)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(&temp)
        .gid(ORDINARY_ID)
        .uid(ORDINARY_ID)
        // All tests, one more time.
        .bounded_output_within(15 * limit())
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| line.starts_with("SKIPPED ")) {
        say(&format!("{line}, as an ordinary user"));
    }
    assert!(output.status.success(), "{text}\n{said}");
    println!("{}", text.lines().last().unwrap_or_default());
}

/// Returns true if a feature is there that some tests need. If not: a loud line, or a failure if `RINGFENCE_TEST_REQUIRE` names
/// it.
pub(crate) fn have(feature: &str) -> bool {
    let world = World::new();
    let report = world.ringfence(&["doctor", "--json"]).json();
    let ok = |name: &str| {
        report["checks"].as_array().unwrap().iter().any(|c| c["name"] == name && c["ok"] == true)
    };
    let present = match feature {
        "namespaces" => ok("user namespaces"),
        "landlock" => ok("landlock"),
        "notify" => ok("observed denials"),
        "cgroup" => ok("cgroup limits") || !is_root(),
        "static" => {
            let found = Command::new("cc").arg("-print-file-name=libc.a").bounded_output();
            found.is_ok_and(|found| found.stdout.starts_with(b"/"))
        }
        // The kernel's part, and the program that makes one.
        "btrfs" | "ext4" => {
            let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            known.contains(&format!("\t{feature}\n"))
                && Command::new(format!("mkfs.{feature}")).arg("-V").bounded_output().is_ok()
        }
        other => panic!("unknown feature {other}"),
    };
    if !present {
        missing(feature, &format!("this host has no {feature}"));
    }
    present
}

/// The names of denials in an outcome.
pub(crate) fn rules(outcome: &Json) -> Vec<String> {
    outcome["denials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["rule"].as_str().unwrap().to_owned())
        .collect()
}
