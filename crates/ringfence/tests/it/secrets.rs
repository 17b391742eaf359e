//! Canaries where secrets live: unreachable in every preset.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Command;

use ringfence_testing::{BoundedCommand as _, needs_root};

use crate::support::{Ran, World, binary, have, is_root, rules};

const CANARY: &str = "canary-5f1d";

/// A world full of canaries, and a program that looks for them in every way it knows.
fn planted() -> (World, String, TcpListener, UnixListener) {
    let world = World::new().var("AWS_SECRET_ACCESS_KEY", CANARY).var("API_TOKEN", CANARY);
    for name in [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".gnupg/secring.gpg",
        ".kube/config",
        ".netrc",
        ".git-credentials",
        ".npmrc",
        ".pypirc",
        ".cargo/credentials.toml",
        ".docker/config.json",
        ".config/gh/hosts.yml",
        ".bash_history",
        ".config/ringfence/x",
        ".mozilla/cookies",
        "notes.txt",
        ".bashrc",
    ] {
        world.write(&format!("home/{name}"), CANARY);
    }
    for name in [".env", ".env.local", ".env.production"] {
        world.write(&format!("work/{name}"), CANARY);
    }
    world.write("work/.env.example", "PUBLIC=1");
    world.write("state/ringfence/key", CANARY);
    world.write("home/.cargo/config.toml", "ok");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = world.home().join("agent.sock");
    let unix = UnixListener::bind(&socket).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let (first, second) = CANARY.split_at(5);
    let (root, socket) = (world.root().display().to_string(), socket.display().to_string());
    let program = format!(
        "
import os, socket, stat

# In two pieces, so that it does not find itself in its own command line.
canary = {first:?} + {second:?}
found = []
for top in ({root:?}, os.path.expanduser('~'), '/proc/1', '/proc/self', '/etc'):
    for dirpath, dirs, files in os.walk(top):
        if dirpath.startswith('/proc/') and dirpath.count('/') > 3: dirs[:] = []
        for f in files:
            p = os.path.join(dirpath, f)
            try:
                # Only plain files: a pipe or terminal among somebody's descriptors would wait for ever.
                if not stat.S_ISREG(os.stat(p).st_mode): continue
                data = open(p, 'rb').read(65536)
            except OSError: continue
            if canary.encode() in data: found.append(p)
if any(canary in v for v in os.environ.values()): found.append('environ')
try: found.append('shadow ' + open('/etc/shadow').read()[:4])
except OSError: pass
s = socket.socket(); s.settimeout(2)
try: s.connect(('127.0.0.1', {port})); found.append('tcp')
except OSError: pass
u = socket.socket(socket.AF_UNIX)
try: u.connect({socket:?}); found.append('unix')
except OSError: pass
print(found)"
    );
    (world, program, tcp, unix)
}

#[test]
fn canaries_are_unreachable_in_every_preset() {
    for preset in ["workspace", "readonly", "minimal"] {
        let (world, program, _tcp, _unix) = planted();
        let (code, outcome) = world.python(&["--preset", preset], &program);
        assert_eq!(code, 0, "{outcome}");
        assert_eq!(outcome["stdout"], "[]\n", "{preset}");
    }
}

#[test]
fn the_program_that_looks_for_canaries_finds_them_without_the_fence() {
    let (world, program, _tcp, _unix) = planted();
    let mut command = std::process::Command::new("/usr/bin/python3");
    command
        .args(["-c", &program])
        .stdin(std::process::Stdio::null())
        .current_dir(world.work())
        .env("HOME", world.home());
    let output = command.env("API_TOKEN", CANARY).bounded_output().unwrap();
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    for what in [".ssh/id_ed25519", ".env.local", "environ", "tcp", "unix", ".netrc"] {
        assert!(found.contains(what), "{what}: {found}");
    }
}

/// A copy of the workspace by its filesystem has no masks: on btrfs everybody may make one of what they own.
#[test]
fn a_snapshot_of_the_workspace_shows_no_secret() {
    if !needs_root("only root mounts a filesystem here") || !have("btrfs") {
        return;
    }
    let world = World::new();
    let image = world.root().join("disk");
    std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
    let program = "
import errno, fcntl, os, struct
SNAP_CREATE = 0x50009401
here = os.open('.', os.O_RDONLY)
try:
    fcntl.ioctl(here, SNAP_CREATE, bytearray(struct.pack('q4088s', here, b'copy')), True)
    print(open('copy/.env').read())
except OSError as error:
    print(errno.errorcode[error.errno])
";
    world.write("home/attack.py", program);
    // In a mount namespace of its own, so that nothing is left mounted whatever happens.
    let script = "
mkfs.btrfs -q -f \"$1\" >&2 && mkdir disk && mount -o loop \"$1\" disk && cd disk || exit 1
echo SECRET=canary > .env
echo here > file
cp ../../home/attack.py .
chown -R 1000:1000 .
\"$2\" run --json -- sh -c 'python3 attack.py; cp --reflink=always file clone && cat clone'";
    let mut command = world.here(Command::new("unshare"));
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(&image).arg(crate::support::binary());
    let ran = Ran::from(&command.bounded_output().unwrap());
    let outcome = ran.json();
    assert_eq!(outcome["stdout"], "EPERM\nhere\n", "{outcome}");
    assert_eq!(rules(&outcome), ["snapshots"], "{outcome}");
}

#[test]
fn a_granted_home_still_hides_its_secrets() {
    let (world, program, _tcp, _unix) = planted();
    std::fs::remove_file(world.home().join("notes.txt")).unwrap();
    std::fs::remove_file(world.home().join(".bashrc")).unwrap();
    let home = world.home();
    let (code, outcome) = world.python(&["--ro", home.to_str().unwrap()], &program);
    assert_eq!(code, 0, "{outcome}");
    assert_eq!(outcome["stdout"], "[]\n");
}

#[test]
fn a_toolchains_variable_opens_no_more_than_a_directory_of_its_own() {
    let world = World::new();
    world.write("home/notes.txt", "CANARY");
    world.write("beside/notes.txt", "CANARY");
    world.write("home/tools/bin/tool", "a tool");
    let home = world.home();
    std::os::unix::fs::symlink(world.root(), home.join("out")).unwrap();
    world.write("home/.ssh/id", "CANARY");
    std::os::unix::fs::symlink(home.join(".ssh"), home.join("secretly")).unwrap();
    world.write("home/tools/credentials.toml", "CANARY");
    let (root, beside) = (world.root().to_path_buf(), world.root().join("beside"));
    for (value, shows_tool) in [
        (home.join("tools"), true),
        (home.join("tools/"), true),
        (home.join(".."), false),
        (home.join("secretly"), false),
        (home.join("tools/../.."), false),
        (home.join("out"), false),
        (home.clone(), false),
        (root, false),
    ] {
        let script = format!(
            "cat {0}/notes.txt {1}/notes.txt {0}/tools/bin/tool {0}/.ssh/id {0}/secretly/id {0}/tools/credentials.toml",
            home.display(),
            beside.display()
        );
        let mut command = world.command(&["run", "--", "sh", "-c", &script]);
        let output = command.env("CARGO_HOME", &value).bounded_output().unwrap();
        let seen = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(seen, if shows_tool { "a tool" } else { "" }, "{}", value.display());
    }
}

#[test]
fn a_secret_behind_a_link_on_its_way_is_hidden_where_it_really_is() {
    let world = World::new();
    world.write("home/dotfiles/config/gh/hosts.yml", "CANARY");
    world.write("home/dotfiles/config/plain", "plain");
    let (home, dotfiles) = (world.home(), world.home().join("dotfiles"));
    std::os::unix::fs::symlink(dotfiles.join("config"), home.join(".config")).unwrap();
    let script = format!("cd {}/config && cat plain gh/hosts.yml", dotfiles.display());
    let ran = world.sh(&["--ro", dotfiles.to_str().unwrap()], &script);
    assert_eq!(ran.stdout, "plain", "{}", ran.stderr);
}

#[test]
fn a_secret_is_never_granted() {
    let (world, ..) = planted();
    for flag in ["--ro", "--rw"] {
        let ssh = world.home().join(".ssh");
        let ran = world.ringfence(&["run", flag, ssh.to_str().unwrap(), "--", "true"]);
        assert_eq!(ran.code, 126, "{}", ran.stderr);
        assert!(ran.stderr.contains("never visible"), "{}", ran.stderr);
    }
    let ran = world.ringfence(&[
        "run",
        "--cwd",
        world.home().join(".ssh").to_str().unwrap(),
        "--",
        "true",
    ]);
    assert_eq!(ran.code, 126);
}

#[test]
fn a_secret_behind_a_link_is_hidden_at_both_ends() {
    let world = World::new();
    world.write("vault/id", CANARY);
    std::os::unix::fs::symlink(world.root().join("vault"), world.home().join(".ssh")).unwrap();
    let root = world.root().to_str().unwrap().to_owned();
    let script = format!("cat {root}/vault/id; cat {root}/home/.ssh/id; echo done");
    let (_, outcome) = world.sh_json(&["--ro", &root], &script);
    assert_eq!(outcome["stdout"], "done\n", "{outcome}");
}

#[test]
fn toolchains_stay_visible_without_their_credentials() {
    let (world, ..) = planted();
    let (_, outcome) = world.sh_json(&[], "cat ~/.cargo/config.toml; ls -A ~; cat .env.example");
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("ok.cargo\n"), "{stdout}");
    assert!(stdout.ends_with("PUBLIC=1"));
    assert!(!stdout.contains(".ssh"));
}

#[test]
fn hidden_paths_are_hidden_and_their_neighbours_are_not() {
    let world = World::new();
    world.write("work/data/secret", CANARY);
    world.write("work/data2/plain", "plain");
    let hide = world.work().join("data");
    let (_, outcome) = world
        .sh_json(&["--hide", hide.to_str().unwrap()], "cat data/secret; ls data; cat data2/plain");
    assert_eq!(outcome["stdout"], "plain", "{outcome}");
}

#[test]
fn the_environment_is_scrubbed_and_granted_by_name() {
    let world = World::new()
        .var("TOKEN", CANARY)
        .var("TERM", "xterm")
        .var("LC_TIME", "C")
        .var("GIT_DIR", "/x");
    let gits = if is_root() { "GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0 " } else { "" };
    let (_, outcome) = world.sh_json(&[], "env | cut -d= -f1 | sort | tr '\\n' ' '");
    assert_eq!(
        outcome["stdout"],
        format!(
            "CARGO_NET_RETRY {gits}HOME LANG LC_TIME LOGNAME PATH PIP_RETRIES PWD SHELL TERM TMPDIR USER UV_HTTP_RETRIES npm_config_fetch_retries "
        ),
        "{outcome}"
    );
    let (_, outcome) = world.sh_json(&["--env", "TOKEN", "--env", "X=y"], "echo $TOKEN $X");
    assert_eq!(outcome["stdout"], format!("{CANARY} y\n"));
}

#[test]
fn the_hosts_name_and_users_are_not_told() {
    let (_, outcome) = World::new().sh_json(
        &[],
        "uname -n; cut -d: -f1 /etc/passwd | tr '\\n' ' '; cat /proc/cmdline /proc/keys; hostname",
    );
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("ringfence\nroot nobody agent "), "{stdout}");
}

#[test]
fn a_socket_that_listens_in_a_granted_directory_is_not_reachable() {
    let world = World::new();
    std::fs::create_dir(world.root().join("shared")).unwrap();
    let path = world.root().join("shared/s");
    let listener = UnixListener::bind(&path).unwrap();
    let shared = world.root().join("shared");
    let program = format!(
        "
import socket
u = socket.socket(socket.AF_UNIX)
try: u.connect({:?}); print('in')
except OSError as e: print(e.errno)
try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); print('datagram')
except OSError as e: print(e.errno)
try: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); print('datagram')
except OSError as e: print(e.errno)",
        path.to_str().unwrap()
    );
    let (_, outcome) = world.python(&["--ro", shared.to_str().unwrap()], &program);
    let stdout = outcome["stdout"].as_str().unwrap();
    assert!(!stdout.contains("in") && !stdout.contains("datagram"), "{outcome}");
    drop(listener);
}

#[test]
fn stdin_from_a_file_cannot_be_turned_against_the_file() {
    let world = World::new();
    let file = world.write("outside.txt", "original");
    let program = "
import os
for attack in (lambda: os.fchmod(0, 0o777), lambda: open('/proc/self/fd/0', 'w').write('x'), lambda: os.ftruncate(0, 0), lambda: open('/dev/stdin', 'r+')):
    # On the pipe that stands in for the file these may well work; the file must not notice.
    try: attack()
    except OSError: pass
print(open(0).read())";
    let mut command = world.command(&["run", "--", "/usr/bin/python3", "-c", program]);
    let output = command.stdin(std::fs::File::open(&file).unwrap()).bounded_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("original"), "{stdout}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "original");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o111, 0);
}

/// A shell that reads its script from a pipe goes on with the line that a run puts there.
#[test]
fn a_pipe_on_stdin_takes_nothing_from_the_run() {
    let world = World::new();
    let attack = "for n in 0 1 2; do echo 'echo planted' > /proc/self/fd/\\$n; done 2>/dev/null";
    let program = binary();
    let script = format!("'{}' run -- sh -c \"{attack}\"\necho after\n", program.display());
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(script.as_bytes()).unwrap();
    drop(writer);
    let output = world.here(Command::new("sh")).stdin(reader).bounded_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    // Where the run may write to its own output in this way, the line is there, and not executed.
    let lines: Vec<&str> = stdout.lines().filter(|line| *line != "echo planted").collect();
    assert_eq!(lines, ["after"], "{}", String::from_utf8_lossy(&output.stderr));
}

/// As if the program had the caller's own: `while read` loops, and programs one after the other.
#[test]
fn stdin_that_the_run_does_not_read_is_left_to_the_next_reader() {
    let world = World::new();
    let list = world.write("list", "a\nb\nc\n");
    let run = format!("'{}' run --", binary().display());
    for (script, expected) in [
        (format!("while read line; do {run} true; echo $line; done"), "a\nb\nc\n"),
        (format!("{run} dd bs=1 count=3 status=none; echo; cat"), "a\nb\n\nc\n"),
        (format!("{run} cat; cat"), "a\nb\nc\n"),
        (format!("{run} sh -c 'exec <&-; sleep 0.1'; cat"), "a\nb\nc\n"),
        // What the run adds to its own pipe does not take the file back to lines that were read before.
        (
            format!(
                "read one; read two; {run} sh -c '(echo xyz > /proc/self/fd/0) 2>/dev/null & sleep 0.1'; cat"
            ),
            "c\n",
        ),
    ] {
        let list = list.display();
        for script in
            [format!("cat '{list}' | {{ {script}; }}"), format!("{{ {script}; }} < '{list}'")]
        {
            let mut shell = world.here(Command::new("sh"));
            let output = shell.args(["-c", &script]).bounded_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{script}");
        }
    }
}

#[test]
fn a_pipe_that_the_run_makes_non_blocking_blocks_again_afterwards() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = world.command(&[
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        "import os; os.set_blocking(1, False)",
    ]);
    let status = command.stdout(writer.try_clone().unwrap()).bounded_status().unwrap();
    assert!(status.success());
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{flags:?}");
    drop(reader);
}

#[test]
fn stdout_to_a_file_receives_bytes_and_nothing_else() {
    let world = World::new();
    let path = world.root().join("out");
    let file = std::fs::File::create(&path).unwrap();
    (&file).write_all(b"before ").unwrap();
    let mut command = world.command(&[
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        "
import os
os.write(1, b'bytes')
try: os.ftruncate(1, 0)
except OSError: pass
try: os.fchmod(1, 0o6777)
except OSError: pass",
    ]);
    assert!(command.stdout(file).bounded_status().unwrap().success());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before bytes");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o6111, 0);
}

/// Root's run has what it is granted as its owner, so the names of the catalogue are masked there.
#[test]
fn a_grant_of_the_system_shows_root_no_password_hashes() {
    if !needs_root("only root may read them outside") {
        return;
    }
    let world = World::new();
    assert!(std::fs::read("/etc/shadow").is_ok());
    for flags in [
        &[][..],
        &["--ro", "/etc"],
        &["--ro", "/etc/shadow"],
        &["--preset", "readonly", "--cwd", "/etc"],
    ] {
        let ran = world.sh(flags, "cat /etc/shadow");
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("shadow"),
            "{flags:?}: {}",
            ran.stderr
        );
    }
}
