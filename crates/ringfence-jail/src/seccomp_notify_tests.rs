//! Runs that make hostile calls, or die in the middle of one. A run is a thread with the filter of a command, or a process.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::time::Instant;

use ringfence_sys::seccomp::Instruction;
use ringfence_sys::{Interrupter, Namespaces};
use rustix::event::PollFlags;
use rustix::net::SocketType;
use rustix::pipe::PipeFlags;

use super::*;
use crate::fake_peer::{self, Lent, SOON, filter, is_alone, limit_descriptors, soon};

/// Installs the filter of a command on this thread. `None`, loudly, where a fence around this one has a listener.
fn install() -> Option<OwnedFd> {
    let insns = seccomp::compile(filter()).insns;
    let insns: Vec<Instruction> =
        insns.iter().map(|i| Instruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect();
    rustix::thread::set_no_new_privs(true).unwrap();
    match ringfence_sys::seccomp::install_with_listener(&insns) {
        Ok(listener) => Some(listener),
        Err(error) => {
            ringfence_testing::missing("notify", &error.to_string());
            None
        }
    }
}

fn listener_of(fd: OwnedFd, sockets: Vec<FileId>) -> Listener {
    Listener::new(fd, filter(), None, sockets, None)
}

/// Does something on a thread behind the filter, and answers its calls. Returns the result and the denials.
fn fenced<T: Send + 'static>(
    sockets: Vec<FileId>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<(T, Vec<Denial>)> {
    let (tell, told) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let listener = install();
        let is_fenced = listener.is_some();
        tell.send(listener).unwrap();
        if is_fenced {
            answer.send(work()).unwrap();
        }
    });
    let mut listener = listener_of(told.recv().unwrap()?, sockets);
    let done = soon(|| {
        loop {
            if let Ok(done) = answered.try_recv() {
                return done;
            }
            if ringfence_sys::is_ready_within(
                listener.fd(),
                PollFlags::IN,
                Duration::from_millis(20),
            ) {
                let _ = listener.step(None);
            }
        }
    });
    thread.join().unwrap();
    Some((done, listener.into_denials()))
}

fn unix_socket() -> OwnedFd {
    rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()
}

fn unix_address(path: &[u8]) -> Vec<u8> {
    [&AF_UNIX.to_ne_bytes()[..], path].concat()
}

#[test]
fn hostile_addresses_are_answered_like_the_kernel_does_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let _outside = UnixListener::bind(at("outside")).unwrap();
    let allowed = UnixListener::bind(at("allowed")).unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    std::os::unix::fs::symlink("outside", at("link")).unwrap();
    let stat = rustix::fs::stat(at("allowed")).unwrap();
    let sockets = vec![FileId { dev: stat.st_dev, ino: stat.st_ino }];
    let cases: Vec<(Vec<u8>, Result<(), Errno>)> = vec![
        (vec![], Err(Errno::INVAL)),
        (vec![1], Err(Errno::INVAL)),
        (vec![0xff; 2], Err(Errno::INVAL)),
        (vec![0xff; ADDRESS_BYTES_MAX], Err(Errno::INVAL)),
        (vec![1; ADDRESS_BYTES_MAX + 1], Err(Errno::INVAL)),
        (vec![1; 1 << 20], Err(Errno::INVAL)),
        // No name, and an abstract one without a listener.
        (unix_address(b""), Err(Errno::INVAL)),
        (unix_address(b"\0ringfence-unused"), Err(Errno::CONNREFUSED)),
        (unix_address(&[b'/'; 108]), Err(Errno::ACCESS)),
        (unix_address(&[b'x'; 108]), Err(Errno::NOENT)),
        (unix_address(b"\xff\xfe\0"), Err(Errno::NOENT)),
        (unix_address(at("missing").as_bytes()), Err(Errno::NOENT)),
        (unix_address(at("loop").as_bytes()), Err(Errno::LOOP)),
        (unix_address(at("outside/x").as_bytes()), Err(Errno::NOTDIR)),
        (unix_address(at("outside").as_bytes()), Err(Errno::ACCESS)),
        (unix_address(at("link").as_bytes()), Err(Errno::ACCESS)),
        (unix_address(b"../../../../../../../../../../../etc/passwd"), Err(Errno::ACCESS)),
        (unix_address(b"/proc/self/fd/0"), Err(Errno::LOOP)),
        (unix_address(at("allowed").as_bytes()), Ok(())),
        // The end of the name, and what follows it.
        (unix_address(&[at("allowed").as_bytes(), b"\0/../outside"].concat()), Ok(())),
    ];
    let addresses: Vec<Vec<u8>> = cases.iter().map(|(address, _)| address.clone()).collect();
    let connects = move || -> Vec<Result<(), Errno>> {
        addresses.iter().map(|address| ringfence_sys::connect_raw(unix_socket(), address)).collect()
    };
    let Some((answers, denials)) = fenced(sockets, connects) else { return };
    for ((address, expected), answer) in cases.iter().zip(answers) {
        let shown = String::from_utf8_lossy(&address[..address.len().min(60)]);
        assert_eq!(answer, *expected, "{shown}");
    }
    assert!(denials.iter().all(|denial| denial.rule == DenialRule::UnixSocket), "{denials:?}");
    assert!(denials.len() >= 3);
    drop(allowed);
}

#[test]
fn refusals_without_end_are_counted_and_not_kept() {
    let n_kinds = u32::try_from(DENIALS_MAX).unwrap() + 40;
    let calls = move || -> Vec<Errno> {
        // Families that no run may have.
        (100..100 + n_kinds)
            .map(|family| {
                let family = AddressFamily::from_raw(u16::try_from(family).unwrap());
                rustix::net::socket(family, SocketType::STREAM, None).unwrap_err()
            })
            .collect()
    };
    let Some((answers, denials)) = fenced(Vec::new(), calls) else { return };
    assert!(answers.iter().all(|errno| *errno == answers[0]), "{answers:?}");
    assert_eq!(denials.len(), DENIALS_MAX + 1);
    let last = denials.last().unwrap();
    assert_eq!((last.rule, last.count), (DenialRule::More, 40));
}

#[test]
fn the_same_refusal_is_one_denial_and_slows_down_after_many() {
    let began = Instant::now();
    let n_calls = FREE_REFUSALS + 50;
    let calls =
        move || (0..n_calls).filter(|_| ringfence_sys::unshare(Namespaces::USER).is_err()).count();
    let Some((n_refused, denials)) = fenced(Vec::new(), calls) else { return };
    assert_eq!(u64::try_from(n_refused).unwrap(), n_calls);
    assert_eq!((denials.len(), denials[0].count), (1, n_calls));
    assert!(began.elapsed() >= BACK_PRESSURE * 50);
}

/// A call of connect(2) that no process waits in.
fn made_up(pid: u32, args: [u64; 3]) -> Notification {
    let nr = seccomp::number(filter().arch, "connect").unwrap();
    Notification { id: 7, pid, nr, args: [args[0], args[1], args[2], 0, 0, 0] }
}

#[test]
fn arguments_are_checked_before_anything_is_done_with_them() {
    // Not a listener: no call waits there.
    let (pipe, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let listener = listener_of(pipe, Vec::new());
    let own = std::process::id();
    let lent = Lent::new();
    let fd = u64::try_from(lent.fd().as_raw_fd()).unwrap();
    let address = [1u8; 16];
    let there = std::ptr::from_ref(&address) as u64;
    for (what, call, expected) in [
        ("a length of -1", made_up(own, [fd, there, u64::MAX]), Errno::INVAL),
        ("a length of 129", made_up(own, [fd, there, 129]), Errno::INVAL),
        ("no address", made_up(own, [fd, 0, 16]), Errno::FAULT),
        ("an address of the kernel", made_up(own, [fd, u64::MAX - 15, 16]), Errno::FAULT),
        ("descriptor -1", made_up(own, [u64::MAX, there, 16]), Errno::BADF),
        ("descriptor 2^31 - 1", made_up(own, [0x7fff_ffff, there, 16]), Errno::BADF),
        ("no process", made_up(u32::MAX, [fd, there, 16]), Errno::SRCH),
        ("pid 0", made_up(0, [fd, there, 16]), Errno::SRCH),
        // Everything is right, but the call does not wait any more.
        ("a call that is over", made_up(own, [fd, there, 16]), Errno::SRCH),
    ] {
        let target = soon(|| listener.target(&call, None));
        assert_eq!(target.err(), Some(expected), "{what}");
    }
    lent.check_closed();
}

#[test]
fn a_run_that_dies_in_the_middle_of_a_call_gets_no_answer() {
    let (ours, theirs) = ringfence_sys::packet_pair().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let address = unix_address(dir.path().join("socket").display().to_string().as_bytes());
    let process = std::thread::spawn(move || {
        // It stands still until the process is killed.
        let pid = ringfence_sys::vfork(|| {
            if let Some(listener) = install() {
                fake_peer::send(&theirs, b"L", &[listener.as_fd()]);
                drop(listener);
                let _ = ringfence_sys::connect_raw(unix_socket(), &address);
            }
        })
        .unwrap();
        drop(theirs);
        ringfence_sys::reap_pid(pid).unwrap().ended
    });
    let received = soon(|| {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let flags = rustix::net::RecvFlags::empty();
        ringfence_sys::receive_packet(&ours, &mut [0; 8], &mut space, flags)
    });
    let Some(fd) = received.unwrap().1.pop() else {
        process.join().unwrap();
        return;
    };
    let mut listener = listener_of(fd, Vec::new());
    assert!(ringfence_sys::is_ready_within(listener.fd(), PollFlags::IN, SOON));
    let call = ringfence_sys::seccomp::receive(listener.fd()).unwrap().unwrap();
    let pid = Pid::from_raw(i32::try_from(call.pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(process.join().unwrap(), ringfence_sys::Ended::Signaled(9));
    assert!(soon(|| listener.connect(&call, None)).is_ok());
    assert!(listener.target(&call, None).is_err());
    // The listener hangs up, and a step on it ends.
    assert!(ringfence_sys::is_ready_within(listener.fd(), PollFlags::IN, SOON));
    let _ = soon(|| listener.step(None));
    assert!(listener.into_denials().is_empty());
}

#[test]
fn connects_to_a_peer_that_hangs_take_so_many_threads_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("full");
    let (peer, first) = full_peer(&path);
    let bytes = unix_address(path.display().to_string().as_bytes());
    let queue = ConnectQueue::default();
    let (pipe, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let pipe = Arc::new(pipe);
    let lent = Lent::new();
    for id in 0..100 {
        let keep = Some(lent.fd().try_clone_to_owned().unwrap());
        let to = ConnectTo::Address { bytes: bytes.clone(), _keep: keep };
        let job = ConnectJob { socket: unix_socket(), to, clients: None };
        let client = Client { pid: 1, program: None };
        let listener = Arc::clone(&pipe);
        let connect = WaitingConnect { id, job, client, listener, has_waited: false };
        assert!(queue.submit(connect, None));
    }
    let until = Instant::now() + SOON;
    let state = || {
        let state = queue.0.lock().unwrap();
        (state.n_threads, state.waiting.len())
    };
    while state() != (CONNECTS_MAX, 100 - CONNECTS_MAX) {
        assert!(Instant::now() < until, "{:?}", state());
        std::thread::sleep(Duration::from_millis(5));
    }
    // Every connect fails now, those that waited too.
    drop(peer);
    drop(first);
    while state() != (0, 0) {
        assert!(Instant::now() < until, "{:?}", state());
        std::thread::sleep(Duration::from_millis(5));
    }
    lent.check_closed();
}

/// A peer at `path` that has no place for one more connection, and the connection that took the only one.
fn full_peer(path: &Path) -> (OwnedFd, UnixStream) {
    let peer = unix_socket();
    rustix::net::bind(&peer, &rustix::net::SocketAddrUnix::new(path).unwrap()).unwrap();
    rustix::net::listen(&peer, 0).unwrap();
    (peer, UnixStream::connect(path).unwrap())
}

#[test]
fn connects_that_wait_leave_descriptors_for_the_supervisor() {
    let name = "seccomp_notify::tests::connects_that_wait_leave_descriptors_for_the_supervisor";
    if !is_alone(name) {
        return;
    }
    limit_descriptors(256);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("full");
    let (peer, first) = full_peer(&path);
    // Not a listener: no caller waits for any of these connects.
    let (pipe, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let listener = listener_of(pipe, Vec::new());
    let queue = listener.connects.clone();
    let submit = |id| {
        let node = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let bytes = unix_address(format!("/proc/self/fd/{}", node.as_raw_fd()).as_bytes());
        let to = ConnectTo::Address { bytes, _keep: Some(node) };
        let job = ConnectJob { socket: unix_socket(), to, clients: None };
        let client = Client { pid: 1, program: None };
        let listener = Arc::clone(&listener.fd);
        let connect = WaitingConnect { id, job, client, listener, has_waited: false };
        queue.submit(connect, None)
    };
    let until = Instant::now() + SOON;
    let n_threads = u64::try_from(CONNECTS_MAX).unwrap();
    let mut is_accepted = true;
    let mut n_refused = 0;
    for id in 0..1000 {
        // All threads are busy before one more waits.
        while id == n_threads && !queue.lock().waiting.is_empty() {
            assert!(Instant::now() < until, "no thread takes a connect");
            std::thread::yield_now();
        }
        let was_accepted = std::mem::replace(&mut is_accepted, submit(id));
        while !is_accepted && queue.lock().is_closing {
            assert!(Instant::now() < until, "abandoned connects are not closed");
            std::thread::yield_now();
        }
        // The first refusal drops those without a caller.
        assert!(was_accepted || is_accepted, "{id}");
        n_refused += u64::from(!is_accepted);
        let spare: Vec<_> = (0..60).map(|_| File::open("/dev/null").unwrap()).collect();
        drop(spare);
    }
    assert!(n_refused > 10, "{n_refused}");
    // The run ends while its peer hangs.
    assert!(submit(1000) || submit(1001));
    assert!(!queue.lock().waiting.is_empty());
    listener.into_denials();
    let state = queue.lock();
    assert_eq!((state.n_threads, state.waiting.len()), (CONNECTS_MAX, 0));
    drop((state, peer, first));
}

/// A socket that takes long to close, and its peer.
fn lingering() -> (TcpStream, TcpListener) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(SOON * 2)).unwrap();
    // More than peers that do not read take.
    stream.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut stream, &[0; 4096]).is_ok() {}
    (stream, listener)
}

/// The run closes its descriptor while a connect is judged: the last one is the supervisor's.
#[test]
fn a_close_that_waits_is_interrupted() {
    let (stream, peer) = lingering();
    let interrupter = Interrupter::new().unwrap();
    let began = Instant::now();
    let interruptions = interrupter.every(Duration::from_millis(20));
    drop(stream);
    drop(interruptions);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(peer);
}

/// A call to connect(2) that was interrupted, with the last descriptor of a socket that is closed slowly.
#[test]
fn a_socket_that_lingers_does_not_hold_the_supervisor_up() {
    let (stream, listener) = lingering();
    let (pipe, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let pipe = listener_of(pipe, Vec::new());
    let to = ConnectTo::address(Vec::new());
    let job = ConnectJob { socket: stream.into(), to, clients: None };
    let (client, fd) = (Client { pid: 1, program: None }, Arc::clone(&pipe.fd));
    let waiting = WaitingConnect { id: 1, job, client, listener: fd, has_waited: true };
    pipe.connects.lock().waiting.push_back(waiting);
    soon(|| pipe.into_denials());
    drop(listener);
}

#[test]
fn connects_with_a_caller_are_performed_or_refused_and_never_dropped() {
    const CALLERS: usize = 180;
    let name =
        "seccomp_notify::tests::connects_with_a_caller_are_performed_or_refused_and_never_dropped";
    if !is_alone(name) {
        return;
    }
    // Each caller has one descriptor, here too, and each connect two.
    limit_descriptors(512);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("full");
    let (peer, first) = full_peer(&path);
    rustix::io::ioctl_fionbio(&peer, true).unwrap();
    let stat = rustix::fs::stat(&path).unwrap();
    let sockets = vec![FileId { dev: stat.st_dev, ino: stat.st_ino }];
    let address = unix_address(path.display().to_string().as_bytes());
    let connects = move || -> Vec<Result<(), Errno>> {
        let (tell, told) = mpsc::channel();
        for _ in 0..CALLERS {
            let (tell, address, socket) = (tell.clone(), address.clone(), unix_socket());
            let caller = move || tell.send(ringfence_sys::connect_raw(socket, &address)).unwrap();
            std::thread::Builder::new().stack_size(128 << 10).spawn(caller).unwrap();
        }
        // The first answer is a refusal: all others wait until the peer accepts.
        let mut answers = vec![told.recv().unwrap()];
        assert_eq!(answers, [Err(Errno::AGAIN)]);
        while answers.len() < CALLERS {
            if rustix::net::accept(&peer).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
            answers.extend(told.try_iter());
        }
        answers
    };
    let Some((answers, denials)) = fenced(sockets, connects) else { return };
    drop(first);
    assert!(denials.is_empty(), "{denials:?}");
    assert!(answers.iter().all(|a| matches!(a, Ok(()) | Err(Errno::AGAIN))), "{answers:?}");
    let n_made = answers.iter().filter(|answer| answer.is_ok()).count();
    assert!(n_made > CONNECTS_MAX + 20, "{n_made}");
}

#[test]
fn addresses_cut_short_name_no_peer() {
    let v4 = [&AF_INET.to_ne_bytes()[..], &443u16.to_be_bytes(), &[192, 0, 2, 1], &[0; 8]].concat();
    let v6 = [&AF_INET6.to_ne_bytes()[..], &443u16.to_be_bytes(), &[0; 4], &[0x20; 16], &[0; 4]]
        .concat();
    assert_eq!(peer(&v4), Some("192.0.2.1:443".parse().unwrap()));
    assert_eq!(peer(&v6).map(|peer| peer.port()), Some(443));
    for n in 0..8 {
        assert_eq!(peer(&v4[..n]), None, "{n}");
    }
    for n in 0..24 {
        assert_eq!(peer(&v6[..n]), None, "{n}");
    }
    let mapped = std::net::Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]).octets();
    let mapped = [&AF_INET6.to_ne_bytes()[..], &[0, 80], &[0; 4], &mapped, &[0; 4]].concat();
    assert_eq!(peer(&mapped), Some("127.0.0.1:80".parse().unwrap()));
    assert_eq!(internet_peer(&mapped), None);
}

#[test]
fn a_program_is_named_in_printable_characters_or_not_at_all() {
    assert_eq!((program_name(u32::MAX), program_name(0)), (None, None));
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("a\u{1b}[31m\u{202e}b");
    let sleep = ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| Path::new(path).exists());
    std::os::unix::fs::symlink(sleep.unwrap(), &link).unwrap();
    let process = fake_peer::FakeProcess::of(&format!("exec '{}' 987", link.display()));
    let until = Instant::now() + SOON;
    let (pid, mut names) = (process.pid.unsigned_abs(), ProgramNames::default());
    // It is read again each time: a process keeps its id when it executes another program.
    while names.of(pid).as_deref() != Some("a[31mb") {
        assert!(Instant::now() < until, "{:?}", names.of(pid));
        std::thread::yield_now();
    }
    drop(process);
    assert_eq!(names.of(pid), None);
}
