//! Logins by the user's SSH agent: real sshd, ssh-agent, ssh and git, each host with an sshd of its own on port 22.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringfence_testing::{BoundedCommand as _, Json, Running, limit, missing};
use rustix::process::{getegid, geteuid};

use crate::rows::{Outcome, Row, world_of};
use crate::servers::Servers;
use crate::support::World;

pub(crate) const ROWS: &[(&str, Row)] = &[
    ("ssh: a key of the agent logs in and clones at the granted host", logs_in),
    ("ssh: every kind of host key and user key", kinds_of_keys),
    ("ssh: another host is refused, and the denial's grant opens it", another_host),
    ("ssh: nothing but logins is signed, and no key is changed", only_logins),
    ("ssh: a forwarded agent signs nothing", forwarded),
    ("ssh: a client that binds to no host is refused", unbound),
    ("ssh: a login that does not name the host's key needs its own grant", login_unbound),
    ("ssh: a certificate is granted by the fingerprint of its key", certificate),
    ("ssh: an agent that ends is a refusal and a gap", agent_ends),
    ("ssh: an agent that is started again is used again", agent_restarts),
    ("ssh: more refusals than can be listed are a gap", flood),
    ("ssh: grants that cannot work are clear errors", errors),
];

const SSHD: &str = "/usr/sbin/sshd";

/// The granted host, and the other one.
const ONE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);
const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 12);

const NET: &str = "allow:one.test:22@127.0.0.0/8,two.test:22@127.0.0.0/8";

/// Two hosts, and an agent with two keys that both accept.
struct Scene {
    world: World,
    /// Fingerprints of the keys.
    keys: [String; 2],
    _processes: Vec<Running>,
}

impl Scene {
    /// `None`, and a loud line, where the programs are missing.
    fn new(servers: &Servers) -> Option<Self> {
        for program in [SSHD, "/usr/bin/ssh", "/usr/bin/ssh-agent", "/usr/bin/unshare"] {
            if !Path::new(program).exists() {
                missing("tools", &format!("{program} is not installed"));
                return None;
            }
        }
        servers.name("one.test", &[[IpAddr::from(ONE)]]);
        servers.name("two.test", &[[IpAddr::from(TWO)]]);
        let world = world_of(servers);
        let root = world.root().to_owned();
        let agent = root.join("agent");
        let world = world.var("SSH_AUTH_SOCK", agent.to_str().unwrap());
        std::fs::create_dir(world.home().join(".ssh")).unwrap();
        let key = |name: &str, kind: &str| {
            let file = root.join(name);
            let (path, comment) = (file.to_str().unwrap(), format!("the key {name}"));
            tool(&world, "ssh-keygen", &["-q", "-t", kind, "-N", "", "-C", &comment, "-f", path]);
            file
        };
        let mine = [key("first", "ed25519"), key("second", "rsa")];
        let authorized: String = mine.iter().map(|key| public(key)).collect();
        world.write("authorized", &authorized);
        let mut processes = Vec::new();
        for (name, at, kinds) in
            [("one", ONE, &["ed25519", "ecdsa", "rsa"][..]), ("two", TWO, &["ed25519"])]
        {
            let keys: Vec<PathBuf> =
                kinds.iter().map(|kind| key(&format!("{name}.{kind}"), kind)).collect();
            processes.push(sshd(&world, name, at, &keys));
        }
        let mut command = with_users(&world, "ssh-agent");
        command.args(["-D", "-a"]).arg(&agent).stdout(Stdio::null()).stderr(Stdio::null());
        processes.push(command.bounded_spawn_within(10 * limit()).unwrap());
        until(|| UnixStream::connect(&agent).is_ok(), "ssh-agent");
        for key in &mine {
            tool(&world, "ssh-add", &["-q", key.to_str().unwrap()]);
        }
        let keys = mine.map(|key| {
            let line = tool(&world, "ssh-keygen", &["-l", "-f", key.to_str().unwrap()]);
            line.split(' ').nth(1).unwrap().to_owned()
        });
        let scene = Self { world, keys, _processes: processes };
        scene.know(&[("one.test", "one.ed25519")]);
        Some(scene)
    }

    /// Writes the user's list of host keys, with hashed names as Debian's ssh does.
    fn know(&self, hosts: &[(&str, &str)]) {
        let line =
            |(host, key): &(&str, &str)| format!("{host} {}", public(&self.world.root().join(key)));
        let list: String = hosts.iter().map(line).collect();
        let file = self.world.write("home/.ssh/known_hosts", &list);
        tool(&self.world, "ssh-keygen", &["-q", "-H", "-f", file.to_str().unwrap()]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("|1|"), "{text}");
    }

    fn run(&self, grants: &[&str], script: &str) -> Outcome {
        let flags = grants.iter().flat_map(|grant| ["--ssh-agent", grant]);
        let flags: Vec<&str> = ["--net", NET].into_iter().chain(flags).collect();
        let script = format!("exec 2>&1\nalias ssh='ssh -o BatchMode=yes'\n{script}");
        let (code, json) = self.world.sh_json(&flags, &script);
        Outcome(code, json)
    }
}

/// The public half of a key, as a line.
fn public(key: &Path) -> String {
    std::fs::read_to_string(key.with_added_extension("pub")).unwrap()
}

/// Runs a program on the host and returns what it says.
fn tool(world: &World, program: &str, args: &[&str]) -> String {
    let output = with_users(world, program).args(args).bounded_output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until a server is there.
fn until(is_there: impl Fn() -> bool, what: &str) {
    let end = Instant::now() + Duration::from_mins(1);
    while !is_there() {
        assert!(Instant::now() < end, "{what} does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A program on the host, in a mount namespace with a list of users and a /run of its own: the programs of OpenSSH want
/// their user to have an entry, and root's sshd wants a directory in /run.
fn with_users(world: &World, program: &str) -> Command {
    let root = world.root().display();
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let users = world.write(
        "passwd",
        &format!(
            "git:x:{uid}:{gid}::{root}:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
        ),
    );
    let prepare = format!(
        "mount --bind {} /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd",
        users.display()
    );
    let mut command = world.here(Command::new("/usr/bin/unshare"));
    if geteuid().is_root() {
        command.args(["--mount", "sh", "-c", &format!("{prepare} && exec \"$@\"")]);
    } else {
        let back = format!("unshare --map-user={uid} --map-group={gid}");
        let script = format!("{prepare} && exec {back} \"$@\"");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]);
    }
    command.args(["sh", program]);
    command
}

/// An sshd at port 22 of an address, with a user `git` whom both keys may log in as.
fn sshd(world: &World, name: &str, at: Ipv4Addr, keys: &[PathBuf]) -> Running {
    let root = world.root().display();
    let keys: Vec<String> = keys.iter().map(|key| format!("HostKey {}\n", key.display())).collect();
    let keys = keys.concat();
    let config = world.write(
        &format!("{name}.conf"),
        &format!(
            "ListenAddress {at}:22\n{keys}AuthorizedKeysFile {root}/authorized\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\nLogLevel DEBUG\n"
        ),
    );
    let mut command = with_users(world, SSHD);
    command.args(["-D", "-E", &format!("{root}/{name}.log"), "-f"]).arg(config);
    let running = command.bounded_spawn_within(10 * limit()).unwrap();
    until(|| TcpStream::connect(SocketAddr::from((at, 22))).is_ok(), SSHD);
    running
}

fn logs_in(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let world = &scene.world;
    let repository = world.root().join("repository");
    let at = repository.to_str().unwrap();
    tool(world, "git", &["init", "-q", "-b", "main", at]);
    world.write("repository/answer.txt", "forty-two\n");
    tool(world, "git", &["-C", at, "add", "."]);
    let author = ["-c", "user.name=t", "-c", "user.email=t@t.test"];
    tool(world, "git", &[&["-C", at][..], &author, &["commit", "-qm", "one"]].concat());
    let [first, second] = &scene.keys;
    let grant = format!("{first}@one.test");
    let script = format!(
        "ssh-add -l\nssh git@one.test echo logged in\ngit clone -q ssh://git@one.test{at} clone && cat clone/answer.txt\n\
         ls ~/.ssh; env | grep SSH_"
    );
    let ran = scene.run(&[&grant], &script);
    ran.says("logged in").says("forty-two").says(first).says("SSH_AUTH_SOCK=/run/ringfence/");
    assert!(!ran.stdout().contains(second), "{}", ran.stdout());
    // No prompt, no warning, and no key that ssh learned by itself.
    assert!(!ran.stdout().contains("Warning"), "{}", ran.stdout());
    assert!(!ran.stdout().contains("known_hosts"), "{}", ran.stdout());
    let signed: Vec<_> =
        ran.connections("allowed").into_iter().filter(|c| c["door"] == "ssh_agent").collect();
    assert_eq!(signed.len(), 2, "{}", ran.1);
    assert_eq!(signed[0]["host"], "one.test");
    assert_eq!(signed[0]["port"], 22);
    assert_eq!(signed[0]["rule"].as_str().unwrap(), format!("ssh_agent:{grant}"));
    let ledger = world.ringfence(&["audit", "ls", "--tool", "network", "--json"]).stdout;
    assert!(ledger.contains("ssh_agent:SHA256:"), "{ledger}");
    // The preset with an /etc of its own.
    let flags = ["--net", NET, "--ssh-agent", "one.test", "--preset", "minimal"];
    let login = "ssh -o BatchMode=yes git@one.test echo logged in";
    Outcome(0, world.sh_json(&flags, login).1).says("logged in");
    // Without the grant there is no agent.
    let ran = scene.run(&[], "echo agent: ${SSH_AUTH_SOCK:-none}; ls /run/ringfence || true");
    ran.says("agent: none");
    assert!(!ran.stdout().contains("ssh-agent"), "{}", ran.stdout());
}

fn kinds_of_keys(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    std::fs::rename(
        scene.world.root().join("first.pub"),
        scene.world.home().join(".ssh/first.pub"),
    )
    .unwrap();
    let second = scene.world.root().join("second.pub");
    for kind in ["ed25519", "ecdsa", "rsa"] {
        scene.know(&[("one.test", &format!("one.{kind}"))]);
        // Every key, one by its file, and one by its file below the home.
        for (grant, n) in [
            ("one.test".to_owned(), 2),
            (format!("{}@one.test", second.display()), 1),
            ("~/.ssh/first.pub@one.test".to_owned(), 1),
        ] {
            // The host's other keys are not learned from one login for the next.
            let script = "ssh-add -l | wc -l; ssh git@one.test echo logged in once && ssh git@one.test echo and twice";
            let ran = scene.run(&[&grant], script);
            ran.says(&format!("{n}\nlogged in once\nand twice\n"));
        }
    }
}

fn another_host(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let [first, second] = &scene.keys;
    scene.know(&[("one.test", "one.ed25519"), ("two.test", "two.ed25519")]);
    let login = "ssh -o StrictHostKeyChecking=no git@two.test echo logged in";
    let grant = format!("{first}@two.test");
    let ran = scene.run(&[&format!("{first}@one.test")], login);
    assert!(!ran.stdout().contains("logged in"), "{}", ran.stdout());
    ran.denied(&["ssh_agent(sign for two.test)", &format!("`--ssh-agent {grant}`")]);
    assert!(ran.connections("allowed").iter().all(|c| c["door"] != "ssh_agent"), "{}", ran.1);
    scene.run(&[&grant], login).says("logged in");
    // The other key is for the other host.
    let both = [&*format!("{first}@one.test"), &*format!("{second}@two.test")];
    let ran = scene.run(&both, "ssh -v git@one.test echo one\nssh -v git@two.test echo two");
    ran.says("\none\n").says("\ntwo\n");
    let offered =
        |key: &str| ran.stdout().matches(&format!("Offering public key: the key {key}")).count();
    assert_eq!((offered("first"), offered("second")), (1, 1), "{}", ran.stdout());
    // A host that answers with another key than the known one is not the granted host.
    scene.know(&[("one.test", "two.ed25519")]);
    let ran = scene.run(
        &["one.test"],
        "ssh -o StrictHostKeyChecking=no -o GlobalKnownHostsFile=/dev/null git@one.test echo logged in",
    );
    assert!(!ran.stdout().contains("logged in"), "{}", ran.stdout());
    ran.denied(&["ssh_agent(sign)", "is not the one that it was known by"]);
}

fn only_logins(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let script = "ssh-add -D; ssh-add -x </dev/null; ssh-keygen -q -t ed25519 -N '' -f mine; ssh-add mine
ssh-add -L > keys.pub; head -1 keys.pub > key.pub; echo x > file; ssh-keygen -Y sign -n git -f key.pub file
ls file.sig; ssh-add -d key.pub; ssh git@one.test echo logged in";
    let ran = scene.run(&["one.test"], script);
    ran.says("logged in").says("agent refused operation").says("Failed to remove all identities");
    assert!(!ran.stdout().contains("\nfile.sig"), "{}", ran.stdout());
    for request in ["remove_all_identities", "remove_identity", "add_identity"] {
        ran.denied(&[&format!("ssh_agent({request})"), "only list keys and log in"]);
    }
    ran.denied(&["ssh_agent(sign)", "only logins are signed"]);
    let keys = tool(&scene.world, "ssh-add", &["-l"]);
    assert_eq!(keys.lines().count(), 2, "{keys}");
}

fn forwarded(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    // From the granted host, with the agent that ssh forwards to it, on to the other one and to itself.
    let onward = |at: Ipv4Addr| {
        format!(
            "ssh -A git@one.test ssh -o BatchMode=yes -o StrictHostKeyChecking=no git@{at} echo onward"
        )
    };
    let script = format!("{}\n{}\nssh -A git@one.test echo logged in", onward(TWO), onward(ONE));
    let ran = scene.run(&["one.test"], &script);
    ran.says("logged in");
    assert!(!ran.stdout().contains("onward"), "{}", ran.stdout());
    ran.denied(&["ssh_agent(sign)", "forwarded to another host"]);
}

/// A client without `session-bind@openssh.com`, as in paramiko, libssh2 and OpenSSH before 8.9.
fn unbound(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let program = r#"
import os, socket, struct
def text(b): return struct.pack(">I", len(b)) + b
def ask(body):
    s.sendall(text(body)); n, = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL)); return s.recv(n, socket.MSG_WAITALL)
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SSH_AUTH_SOCK"])
keys = ask(b"\x0b"); n, = struct.unpack(">I", keys[5:9]); key = keys[9:9 + n]
kind = key[4:4 + struct.unpack(">I", key[:4])[0]]
data = text(b"x" * 32) + b"\x32" + text(b"git") + text(b"ssh-connection") + text(b"publickey") + b"\1" + text(kind) + text(key)
print("answer", ask(b"\x0d" + text(key) + text(data) + struct.pack(">I", 0)))
s.sendall(struct.pack(">I", 256 * 1024 + 1) + b"\x0b")
try:
    print("oversized", s.recv(1))
except ConnectionResetError:
    print("oversized b''")
"#;
    let flags = ["--net", NET, "--ssh-agent", "one.test"];
    let (code, json) = scene.world.python(&flags, program);
    let ran = Outcome(code, json);
    ran.says("answer b'\\x05'").says("oversized b''");
    ran.denied(&["ssh_agent(sign)", "has not bound its connection to a host", "OpenSSH 8.9"]);
}

/// A login by plain `publickey`, as at servers other than OpenSSH's.
fn login_unbound(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let first = &scene.keys[0];
    let login = "ssh -o PubkeyAuthentication=unbound git@one.test echo logged in";
    let ran = scene.run(&[&format!("{first}@one.test")], login);
    assert!(!ran.stdout().contains("logged in"), "{}", ran.stdout());
    let grant = format!("{first}@one.test!");
    let named = format!("`--ssh-agent {grant}`");
    ran.denied(&["ssh_agent(sign for one.test)", "not bound to the host's key", &named]);
    let ran = scene.run(&[&grant], login);
    ran.says("logged in");
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("gets at the private key of one.test"), "{gaps}");
}

/// An agent that takes the connection and closes it.
fn agent_ends(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let socket = scene.world.root().join("ending");
    let listener = UnixListener::bind(&socket).unwrap();
    let ending = std::thread::spawn(move || drop(listener.accept()));
    let ran = run_with_agent(&scene, &socket);
    ending.join().unwrap();
    assert!(!ran.stdout().contains("logged in"), "{}", ran.1);
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    let gap = "the SSH agent outside the run does not answer: no agent listens there";
    assert_eq!(gaps.matches(gap).count(), 1, "{gaps}");
}

/// Lists keys and logs in with the agent at this socket.
fn run_with_agent(scene: &Scene, socket: &Path) -> Outcome {
    let script = "ssh-add -l; ssh -o BatchMode=yes git@one.test echo logged in";
    let args = ["run", "--json", "--net", NET, "--ssh-agent", "one.test", "--", "sh", "-c", script];
    let mut command = scene.world.command(&args);
    let output = command.env("SSH_AUTH_SOCK", socket).bounded_output().unwrap();
    Outcome(0, Json::parse(String::from_utf8(output.stdout).unwrap()))
}

/// The first connection is closed, as by an agent that ends; the second one leads to the real agent. The path is a link, as
/// users of tmux have it.
fn agent_restarts(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let agent = scene.world.root().join("agent");
    let (socket, link) = (scene.world.root().join("restarting"), scene.world.root().join("link"));
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        drop(listener.accept());
        let (mut inside, _) = listener.accept().unwrap();
        let mut outside = UnixStream::connect(agent).unwrap();
        let (mut requests, mut asked) = (inside.try_clone().unwrap(), outside.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut requests, &mut asked));
        let _ = std::io::copy(&mut outside, &mut inside);
    });
    let ran = run_with_agent(&scene, &link);
    ran.says(&scene.keys[0]).says("logged in");
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    assert!(!gaps.contains("SSH agent"), "{gaps}");
}

fn certificate(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let world = &scene.world;
    let file = |name: &str| world.root().join(name).to_str().unwrap().to_owned();
    let (authority, first) = (file("authority"), file("first"));
    tool(world, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &authority]);
    let public_key = format!("{first}.pub");
    tool(world, "ssh-keygen", &["-q", "-s", &authority, "-I", "me", "-n", "git", &public_key]);
    // Adds the certificate beside the key.
    tool(world, "ssh-add", &["-q", &first]);
    let certificate = format!("{first}-cert.pub");
    let printed = tool(world, "ssh-keygen", &["-l", "-f", &certificate]);
    assert_eq!(printed.split(' ').nth(1).unwrap(), scene.keys[0], "{printed}");
    // The host accepts the certificate alone.
    let authorized = format!("cert-authority {}", public(Path::new(&authority)));
    world.write("authorized", &authorized);
    for key in [&scene.keys[0], &certificate] {
        let script = "ssh-add -l; ssh git@one.test echo logged in";
        let ran = scene.run(&[&format!("{key}@one.test")], script);
        ran.says("(ED25519-CERT)").says("logged in");
        assert_eq!(ran.stdout().matches(&scene.keys[0]).count(), 2, "{}", ran.stdout());
        assert!(!ran.stdout().contains(&scene.keys[1]), "{}", ran.stdout());
    }
    // The other key has none.
    let ran =
        scene.run(&[&format!("{}@one.test", scene.keys[1])], "ssh git@one.test echo logged in");
    assert!(!ran.stdout().contains("logged in"), "{}", ran.stdout());
}

fn flood(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let program = r#"
import os, socket, struct
def text(b): return struct.pack(">I", len(b)) + b
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SSH_AUTH_SOCK"])
for n in range(2000):
    s.sendall(text(b"\x1b" + text(b"extension%d" % n)))
    assert s.recv(5, socket.MSG_WAITALL) == text(b"\x05")
# As many connections as there are places, each with a message that never ends, and one more that waits for its turn.
held = []
for n in range(64):
    c = socket.socket(socket.AF_UNIX); c.connect(os.environ["SSH_AUTH_SOCK"]); c.sendall(b"\0\1"); held.append(c)
held.pop().close()
c = socket.socket(socket.AF_UNIX); c.connect(os.environ["SSH_AUTH_SOCK"]); s.close()
c.sendall(text(b"\x1b" + text(b"query"))); print("served", len(c.recv(100)) > 0)
"#;
    let flags = ["--net", NET, "--ssh-agent", "one.test"];
    let (code, json) = scene.world.python(&flags, program);
    let ran = Outcome(code, json);
    ran.says("served True");
    let n = ran.denials().iter().filter(|denial| denial.contains("ssh_agent(extension")).count();
    assert_eq!(n, 256, "{:?}", ran.denials());
    let gaps = ran.1["enforcement"]["gaps"].to_string();
    assert!(gaps.contains("further requests that the SSH agent refused"), "{gaps}");
}

fn errors(servers: &Servers) {
    let Some(scene) = Scene::new(servers) else { return };
    let world = &scene.world;
    let refused = |net: &str, grant: &str, words: &[&str]| {
        let args = ["run", "--net", net, "--ssh-agent", grant, "--", "echo", "started"];
        let ran = world.ringfence(&args);
        assert_ne!(ran.code, 0, "{grant}");
        assert!(!ran.stdout.contains("started"), "{grant}");
        for word in words {
            assert!(ran.stderr.contains(word), "{grant}: {word} in {}", ran.stderr);
        }
    };
    refused("none", "one.test", &["no rule allows", "--net allow:one.test:22`"]);
    refused("allow:one.test@127.0.0.0/8", "one.test", &["--net allow:one.test:22"]);
    refused(NET, "git@one.test", &["`git` is not a key", "SHA256:FINGERPRINT@HOST"]);
    refused(NET, "two.test", &["no key of two.test is known", "ssh-keyscan two.test"]);
    refused(NET, "/nonexistent.pub@one.test", &["cannot read `/nonexistent.pub`"]);
    let private = world.root().join("first");
    let private = private.to_str().unwrap();
    refused(
        NET,
        &format!("{private}@one.test"),
        &["is not a public key", &format!("{private}.pub@one.test")],
    );
    // A key that nothing here can verify signatures of.
    let odd = world.root().join("odd");
    let odd = odd.to_str().unwrap();
    tool(world, "ssh-keygen", &["-q", "-t", "ecdsa", "-b", "521", "-N", "", "-f", odd]);
    scene.know(&[("two.test", "odd")]);
    refused(NET, "two.test", &["no key of two.test is known", "ecdsa-sha2-nistp521"]);
    scene.know(&[("one.test", "one.ed25519")]);
    // A workspace cannot give it to itself.
    world.write("work/ringfence.toml", "ssh_agent = [\"one.test\"]\n");
    let ran = world.ringfence(&["run", "--net", NET, "--", "true"]);
    assert!(
        ran.code != 0 && ran.stderr.contains("`ssh_agent` cannot be set there"),
        "{}",
        ran.stderr
    );
    std::fs::remove_file(world.work().join("ringfence.toml")).unwrap();
    let ran = world.ringfence(&["exec", "--ssh-agent", "one.test", "-c", "1"]);
    assert!(ran.stderr.contains("`--ssh-agent` is for commands"), "{}", ran.stderr);
    let run = ["run", "--net", NET, "--ssh-agent", "one.test", "--", "true"];
    // No agent, an agent that ended, a file, and no variable.
    let agent = |value: &str, words: &[&str]| {
        let mut command = world.command(&run);
        let output = command.env("SSH_AUTH_SOCK", value).bounded_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{value}");
        for word in words {
            assert!(stderr.contains(word), "{value}: {word} in {stderr}");
        }
    };
    agent("", &["there is no SSH agent", "ssh-agent"]);
    agent("relative", &["there is no SSH agent"]);
    agent("/nonexistent", &["cannot connect to the SSH agent at `/nonexistent`", "no such file"]);
    agent(private, &["is not a socket"]);
    let stale = world.root().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    agent(stale.to_str().unwrap(), &["no agent listens there"]);
    // Last: it gives the world to another user.
    let ran = world.without_namespaces(&run);
    assert!(ran.code == 125 && ran.stderr.contains("no unix sockets"), "{}", ran.stderr);
}
