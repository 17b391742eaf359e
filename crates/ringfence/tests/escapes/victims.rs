//! What attacks are after: a home with secrets, a project with a repository, system files, a bystander process,
//! and a server on sockets. All of it invented, all of it marked with the row's own canary.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ringfence_sys::{CallError, Forked, Named};
use rustix::event::{PollFd, PollFlags};

use crate::document::Named as NamedHost;
use crate::naive_proxy;
use crate::program::{PORT, SOCKET, VICTIM};
use crate::servers::{Places, Servers};

/// Where a container engine listens. Whoever reaches it owns the machine.
const ENGINE: &str = "/run/docker.sock";
/// A datagram socket beside the other one.
const DATAGRAM: &str = "/etc/victim/agent.dgram";
/// The abstract socket's name.
const ABSTRACT: &[u8] = b"victim";

/// What the name server and the web servers heard, for `Check` lines.
const SERVERS_LOG: &str = "/var/log/servers";

/// Files only their owner reads; `CANARY` stands for the canary.
const SECRETS: &[(&str, &str)] = &[
    ("/etc/shadow", "root:$6$CANARY:19000:0:99999:7:::\n"),
    ("/etc/sudoers", "root ALL=(ALL) ALL # CANARY\n"),
    ("/home/victim/.aws/credentials", "[default]\naws_secret_access_key = CANARY\n"),
    ("/home/victim/.bash_history", "export TOKEN=CANARY\n"),
    ("/home/victim/.cargo/credentials.toml", "[registry]\ntoken = \"CANARY\"\n"),
    ("/home/victim/.config/gh/hosts.yml", "github.com:\n  oauth_token: CANARY\n"),
    ("/home/victim/.git-credentials", "https://victim:CANARY@github.com\n"),
    ("/home/victim/.netrc", "machine example.com password CANARY\n"),
    ("/home/victim/.npmrc", "//registry.npmjs.org/:_authToken=CANARY\n"),
    ("/home/victim/.ssh/id_ed25519", "CANARY\n"),
    ("/home/victim/project/.env", "TOKEN=CANARY\n"),
    ("/root/.ssh/id_ed25519", "CANARY\n"),
];

/// Files everybody reads.
const PLAIN: &[(&str, &str)] = &[
    ("/etc/group", "root:x:0:\ntty:x:5:\nvictim:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/hostname", "victim\n"),
    ("/etc/hosts", "127.0.0.1 localhost victim\n::1 localhost\n"),
    (
        "/etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nvictim:x:1000:1000:CANARY:/home/victim:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
    ("/etc/resolv.conf", "nameserver 127.0.0.1\n"),
    ("/etc/victim/readme", "The sockets of the victim.\n"),
    ("/home/victim/.bashrc", "# victim's\n"),
    ("/home/victim/.gitconfig", "[user]\n\tname = Victim\n\temail = victim@example.com\n"),
    ("/home/victim/.profile", "# victim's\n"),
    ("/home/victim/notes.txt", "CANARY\n"),
    ("/home/victim/other-project/secret.txt", "CANARY\n"),
    ("/home/victim/project/.git/HEAD", "ref: refs/heads/main\n"),
    (
        "/home/victim/project/.git/config",
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
    ),
    ("/home/victim/project/README.md", "# Project\n"),
    ("/home/victim/project/main.py", "print(\"hello\")\n"),
    ("/var/log/auth.log", "CANARY\n"),
];

const DIRECTORIES: &[&str] = &[
    "/etc/cron.d",
    "/etc/profile.d",
    "/etc/sudoers.d",
    "/home/victim/project/.git/hooks",
    "/home/victim/project/.git/objects/info",
    "/home/victim/project/.git/objects/pack",
    "/home/victim/project/.git/refs/heads",
    "/home/victim/project/.git/refs/tags",
];

/// Puts every file in its place.
pub(crate) fn place(canary: &str) -> Result<(), CallError> {
    for path in DIRECTORIES {
        std::fs::create_dir_all(path).named(|| format!("mkdir({path:?})"))?;
    }
    let files = SECRETS.iter().map(|f| (f, 0o600)).chain(PLAIN.iter().map(|f| (f, 0o644)));
    for ((path, text), mode) in files {
        let path = Path::new(path);
        let parent = path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).named(|| format!("mkdir({parent:?})"))?;
        let text = text.replace("CANARY", canary);
        std::fs::write(path, text).named(|| format!("write({path:?})"))?;
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).named(|| format!("chmod({path:?})"))?;
    }
    Ok(())
}

/// Starts a process that minds its own business, with the canary in its environment.
pub(crate) fn stand_by(canary: &str) -> Result<(), String> {
    let mut sleep = Command::new("/bin/sleep");
    sleep.arg("infinity").env_clear().env("TOKEN", canary);
    // Nobody waits for it: it ends with the container.
    let child = sleep.spawn().map_err(|e| format!("bystander: {e}"))?;
    if child.id() == VICTIM { Ok(()) } else { Err(format!("the bystander is {}", child.id())) }
}

/// Listens everywhere, then leaves a process behind that tells the canary to whoever asks.
pub(crate) fn serve(canary: &str) -> Result<(), String> {
    let say = |e: std::io::Error| format!("listen: {e}");
    let listeners = [
        Listener::Unix(UnixListener::bind(SOCKET).map_err(say)?),
        Listener::Unix(UnixListener::bind(ENGINE).map_err(say)?),
        Listener::Unix(
            SocketAddr::from_abstract_name(ABSTRACT)
                .and_then(|name| UnixListener::bind_addr(&name))
                .map_err(say)?,
        ),
        Listener::Tcp(TcpListener::bind(("127.0.0.1", PORT)).map_err(say)?),
        Listener::Tcp(TcpListener::bind((Ipv6Addr::LOCALHOST, PORT)).map_err(say)?),
        Listener::Udp(UdpSocket::bind(("127.0.0.1", PORT)).map_err(say)?),
        Listener::Datagram(UnixDatagram::bind(DATAGRAM).map_err(say)?),
    ];
    match ringfence_sys::fork().map_err(|e| e.to_string())? {
        Forked::Child => attend(&listeners, canary),
        Forked::Parent { .. } => Ok(()),
    }
}

/// Leaves a process behind that is every host of the internet: name server on port 53, web servers and a filtering proxy
/// with mistakes. Returns when all of them listen.
pub(crate) fn serve_network(names: &[NamedHost]) -> Result<(), String> {
    let (mut ready, tell) = std::io::pipe().map_err(|e| format!("pipe: {e}"))?;
    match ringfence_sys::fork().map_err(|e| e.to_string())? {
        Forked::Child => {
            drop(ready);
            // A panic has said why, and the parent reads no byte.
            let _ = std::panic::catch_unwind(|| attend_network(names, &tell));
            ringfence_sys::exit_now(1)
        }
        Forked::Parent { .. } => {
            drop(tell);
            ready.read_exact(&mut [0]).map_err(|_| "the servers did not start".to_owned())
        }
    }
}

fn attend_network(names: &[NamedHost], mut tell: &std::io::PipeWriter) {
    // One wildcard socket for both families.
    let web = Ipv6Addr::UNSPECIFIED.into();
    let resolver = (Ipv4Addr::UNSPECIFIED, 53).into();
    let servers = Servers::start(Places { resolver, web, log: Some(SERVERS_LOG.into()) });
    for NamedHost { name, answers } in names {
        servers.name(name, answers);
    }
    if naive_proxy::start(Arc::new(servers)).is_ok() && tell.write_all(&[0]).is_ok() {
        loop {
            std::thread::park();
        }
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
    Udp(UdpSocket),
    Datagram(UnixDatagram),
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(socket) => socket.as_fd(),
            Self::Tcp(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
            Self::Datagram(socket) => socket.as_fd(),
        }
    }
}

/// The server's life. Ends with the container.
fn attend(listeners: &[Listener], canary: &str) -> ! {
    let mut fds: Vec<PollFd<'_>> =
        listeners.iter().map(|l| PollFd::from_borrowed_fd(l.fd(), PollFlags::IN)).collect();
    let text = format!("{canary}\n");
    // A connection closed with something unread in it is reset, and the answer may be lost with it.
    let mut heard: Vec<Box<dyn std::any::Any>> = Vec::new();
    loop {
        if rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None)).is_err() {
            ringfence_sys::exit_now(1);
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            // A caller that is gone again needs no answer.
            match listener {
                Listener::Unix(socket) => {
                    if let Ok((mut peer, _)) = socket.accept() {
                        let _ = peer.write_all(text.as_bytes());
                        let _ = peer.shutdown(std::net::Shutdown::Write);
                        heard.push(Box::new(peer));
                    }
                }
                Listener::Tcp(socket) => {
                    if let Ok((mut peer, _)) = socket.accept() {
                        let _ = peer.write_all(text.as_bytes());
                        let _ = peer.shutdown(std::net::Shutdown::Write);
                        heard.push(Box::new(peer));
                    }
                }
                Listener::Udp(socket) => {
                    if let Ok((_, peer)) = socket.recv_from(&mut [0; 512]) {
                        let _ = socket.send_to(text.as_bytes(), peer);
                    }
                }
                Listener::Datagram(socket) => {
                    let _ = socket.recv_from(&mut [0; 512]);
                }
            }
        }
    }
}
