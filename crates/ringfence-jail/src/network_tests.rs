//! Network helpers that crash, hang or send garbage.

use std::net::TcpStream;

use ringfence_plan::SshAgentPlan;

use super::*;
use crate::fake_peer::{
    Lent, SOON, closed_network, hang_up, is_alone, limit_descriptors, send, soon,
};

/// A capture whose helper is a process that hangs; the test speaks for it.
fn capture() -> (Capture, OwnedFd) {
    let (ours, theirs) = ringfence_sys::packet_pair().unwrap();
    let speaks = theirs.try_clone().unwrap();
    let helper = Helper::execute(Command::new("/bin/sleep").arg("987"), ours, theirs).unwrap();
    let mut capture = Capture::new(closed_network(), Vec::new(), None, None);
    (capture.helper, capture.was_started) = (Some(helper), true);
    (capture, speaks)
}

/// The helper's process, to see its end.
fn process(capture: &Capture) -> OwnedFd {
    let pid = Pid::from_raw(capture.helper_pid().unwrap()).unwrap();
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
}

fn connection(host: &str) -> Connection {
    Connection {
        host: host.to_owned(),
        port: Some(443),
        address: None,
        rule: None,
        verdict: ConnectionVerdict::Denied,
        reason: None,
        grant: None,
        door: ConnectionDoor::Captured,
        sent_bytes: u64::MAX,
        received_bytes: u64::MAX,
        requests: u64::MAX,
        duration_ms: f64::NAN,
        program: Some("made up".to_owned()),
        count: u64::MAX,
    }
}

fn says(helper: &OwnedFd, event: &NetworkEvent) {
    send(helper, &postcard::to_allocvec(event).unwrap(), &[]);
}

fn event(connection: Connection) -> NetworkEvent {
    NetworkEvent::Connection { client: None, connection: Box::new(connection) }
}

#[test]
fn a_helper_that_talks_nonsense_is_killed_and_named() {
    let long = vec![b'x'; EVENT_BYTES_MAX * 4];
    let packets: [&[u8]; 4] = [b"?", &[0xff; 64], &long, b"\x01"];
    for packet in packets {
        let (mut capture, helper) = capture();
        let dead = process(&capture);
        let lent = Lent::new();
        send(&helper, packet, &[lent.fd(); 5]);
        says(&helper, &NetworkEvent::Gap("said later".to_owned()));
        soon(|| capture.collect());
        assert!(ringfence_sys::is_ready_within(&dead, PollFlags::IN, SOON));
        assert!(capture.is_lost());
        let report = soon(|| capture.finish());
        assert_eq!(report.gaps.len(), 1, "{:?}", report.gaps);
        assert!(report.gaps[0].contains("ended too early"));
        lent.check_closed();
    }
}

#[test]
fn a_helper_that_dies_is_a_gap_unless_the_run_was_over_and_it_had_reported_everything() {
    for (has_ended, is_over, n_gaps) in [(false, false, 1), (true, false, 1), (true, true, 0)] {
        let (mut capture, helper) = capture();
        let dead = process(&capture);
        if has_ended {
            says(&helper, &NetworkEvent::End);
        }
        hang_up(helper);
        capture.helper.as_mut().unwrap().child.kill().unwrap();
        assert!(ringfence_sys::is_ready_within(&dead, PollFlags::IN, SOON));
        if !is_over {
            soon(|| capture.step());
            assert!(capture.is_lost());
        }
        assert_eq!(soon(|| capture.finish()).gaps.len(), n_gaps);
    }
}

#[test]
fn an_empty_report_is_the_end_of_a_helper() {
    let (mut capture, helper) = capture();
    let dead = process(&capture);
    send(&helper, b"", &[]);
    soon(|| capture.collect());
    assert!(capture.is_lost());
    assert_eq!(soon(|| capture.finish()).gaps.len(), 1);
    assert!(ringfence_sys::is_ready_within(&dead, PollFlags::IN, SOON));
}

#[test]
fn a_helper_that_hangs_at_the_end_is_killed_in_time() {
    let (capture, helper) = capture();
    let dead = process(&capture);
    let report = soon(|| capture.finish());
    assert_eq!(report.gaps, ["the last connections are not listed"]);
    assert!(ringfence_sys::is_ready_within(&dead, PollFlags::IN, SOON));
    drop(helper);
}

#[test]
fn a_helper_that_never_stops_talking_is_heard_in_turns_and_ended_in_time() {
    let (mut capture, helper) = capture();
    let flooding = std::thread::spawn(move || {
        for n in 0u64.. {
            let gap = NetworkEvent::Gap(format!("{n} {}", "x".repeat(2000)));
            let gap = postcard::to_allocvec(&gap).unwrap();
            if rustix::net::send(&helper, &gap, SendFlags::NOSIGNAL).is_err() {
                return;
            }
        }
    });
    for _ in 0..3 {
        soon(|| capture.collect());
    }
    let report = soon(|| capture.finish());
    // One more for those that were not heard.
    assert_eq!(report.gaps.len(), GAPS_MAX + 1);
    assert!(report.gaps.iter().all(|gap| gap.chars().count() <= 500));
    flooding.join().unwrap();
}

#[test]
fn the_agent_is_connected_to_again_at_most_once_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().canonicalize().unwrap().join("agent");
    let agent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let (mut capture, helper) = capture();
    capture.plan.ssh_agent = Some(SshAgentPlan { socket: socket.clone(), access: Vec::new() });
    let answered = || {
        let mut body = [0u8; 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let flags = RecvFlags::DONTWAIT;
        let (n, fds) =
            ringfence_sys::receive_packet(&helper, &mut body, &mut space, flags).unwrap();
        assert_eq!(&body[..n], AGENT_PACKET);
        fds.len()
    };
    capture.hear(NetworkEvent::AgentEnded);
    assert_eq!(answered(), 1);
    capture.hear(NetworkEvent::AgentEnded);
    assert_eq!(answered(), 0);
    capture.agent_reconnected_at =
        Some(Instant::now().checked_sub(AGENT_RECONNECT_INTERVAL).unwrap());
    capture.hear(NetworkEvent::AgentEnded);
    assert_eq!(answered(), 1);
    // A link in its place is not followed.
    let moved = dir.path().join("moved");
    std::fs::rename(&socket, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &socket).unwrap();
    for _ in 0..2 {
        capture.agent_reconnected_at = None;
        capture.hear(NetworkEvent::AgentEnded);
        assert_eq!(answered(), 0);
    }
    let gaps = &capture.reports.gaps;
    assert!(gaps.len() == 1 && gaps[0].contains("SSH agent outside the run"), "{gaps:?}");
    drop(agent);
}

#[test]
fn numbers_and_lists_of_a_helper_are_bounded() {
    let (mut capture, helper) = capture();
    for _ in 0..2 {
        says(&helper, &NetworkEvent::Unlisted(u64::MAX));
        says(&helper, &event(connection("one.test")));
    }
    soon(|| capture.collect());
    let known = &capture.reports.connections[0];
    assert_eq!((known.count, known.program.as_deref()), (u64::MAX, None));
    for n in 0..REFUSED_MAX + 50 {
        says(&helper, &event(connection(&format!("{n}.test"))));
        let verdict = ConnectionVerdict::Allowed;
        says(&helper, &event(Connection { verdict, ..connection("fine.test") }));
        let address = IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(n).unwrap()));
        says(&helper, &NetworkEvent::Named { host: "x".repeat(1000), address });
        soon(|| capture.collect());
    }
    let names = (0..u32::try_from(NAMES_MAX).unwrap() + 10).map(|n| Ipv4Addr::from_bits(!n));
    for name in names {
        capture.hear(NetworkEvent::Named { host: String::new(), address: IpAddr::V4(name) });
    }
    assert_eq!(capture.names.len(), NAMES_MAX);
    let reports = &capture.reports;
    assert_eq!((reports.n_denied, reports.denials.len()), (REFUSED_MAX, REFUSED_MAX));
    assert_eq!(reports.n_unlisted, u64::MAX);
    for _ in 0..CONNECTIONS_MAX {
        let verdict = ConnectionVerdict::Allowed;
        capture.hear(event(Connection { verdict, ..connection("fine.test") }));
    }
    assert_eq!(capture.reports.n_made, CONNECTIONS_MAX);
    says(&helper, &NetworkEvent::End);
    drop(helper);
    capture.helper.as_mut().unwrap().child.kill().unwrap();
    let report = soon(|| capture.finish());
    assert_eq!(report.connections.len(), CONNECTIONS_MAX + REFUSED_MAX);
}

/// Neither many connections to one host, nor failed ones, nor many under one rule hide another.
#[test]
fn no_connection_hides_one_to_another_host() {
    let mut reports = NetworkReport::default();
    let made = |host: &str, rule: &str, verdict| Connection {
        verdict,
        rule: Some(rule.to_owned()),
        sent_bytes: 2,
        count: 1,
        ..connection(host)
    };
    let many = CONNECTIONS_MAX + 100;
    for n in 0..many {
        let failed = made(&format!("{n}.fails.test"), "*.fails.test", ConnectionVerdict::Failed);
        reports.add(failed, None, false);
        reports.add(made("one.test", "one.test", ConnectionVerdict::Allowed), None, false);
    }
    reports.add(made("other.test", "other.test", ConnectionVerdict::Allowed), None, false);
    for n in 0..many {
        let wild = made(&format!("{n}.wild.test"), "*.wild.test", ConnectionVerdict::Allowed);
        reports.add(wild, None, false);
    }
    reports.add(made("last.test", "last.test", ConnectionVerdict::Allowed), None, false);
    let of = |host: &str| {
        let rows: Vec<_> = reports.connections.iter().filter(|c| c.host == host).collect();
        (rows.len(), rows.iter().map(|c| c.count).sum(), rows.iter().map(|c| c.sent_bytes).sum())
    };
    let n = u64::try_from(many).unwrap();
    assert_eq!(of("one.test"), (CONNECTIONS_MAX, n, 2 * n));
    assert_eq!(of("other.test"), (1, 1, 2));
    assert_eq!(of("last.test"), (1, 1, 2));
    let most = CONNECTIONS_MAX + OTHER_HOSTS_MAX + REFUSED_MAX + 1;
    assert!(reports.connections.len() <= most);
}

/// The path of a refused request stays in its line.
#[test]
fn a_reason_has_no_character_that_is_not_seen() {
    let mut reports = NetworkReport::default();
    let reason = Some("`GET /\u{2028}x\u{202e}y\u{9b}z`".to_owned());
    reports.add(Connection { reason, ..connection("a.test") }, None, false);
    let shown = format!("{:?}{:?}", reports.connections, reports.denials);
    assert!(shown.contains("u{2028}x"), "{shown}");
    assert!(!shown.contains(['\u{2028}', '\u{202e}', '\u{9b}']), "{shown}");
}

#[test]
fn a_stopped_helper_is_killed_at_the_next_look() {
    let (mut capture, helper) = capture();
    let dead = process(&capture);
    let _ = rustix::process::pidfd_send_signal(&dead, rustix::process::Signal::STOP);
    let until = Instant::now() + SOON;
    while !capture.helper.as_ref().unwrap().is_stopped() {
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
    capture.look(Instant::now());
    assert!(!ringfence_sys::is_ready(&dead, PollFlags::IN), "it was not yet time");
    capture.look_at = Some(Instant::now());
    capture.look(Instant::now());
    assert!(ringfence_sys::is_ready_within(&dead, PollFlags::IN, SOON));
    drop(helper);
}

#[test]
fn a_helper_that_cannot_be_started_is_a_gap_and_closes_the_listeners() {
    let lent = Lent::new();
    let listener = NetworkListener { kind: ListenerKind::Captured, port: 443, ipv6: false };
    let listeners = vec![(listener, lent.fd().try_clone_to_owned().unwrap())];
    // This program does not become a helper.
    let mut capture = Capture::new(closed_network(), listeners, None, None);
    assert!(!capture.is_lost());
    soon(|| capture.step());
    lent.check_closed();
    assert!(capture.is_lost() && capture.fds().next().is_none());
    let report = soon(|| capture.finish());
    assert!(report.gaps[0].contains("no connection could be made"), "{:?}", report.gaps);
}

#[test]
fn redirected_connections_are_closed_without_a_helper_and_with_one_that_does_not_read() {
    let redirects = Redirects::new().unwrap();
    let connect = || {
        let family = AddressFamily::INET;
        let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
        soon(|| redirects.connect(&socket)).unwrap();
        TcpStream::from(socket)
    };
    let is_closed = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(SOON)).unwrap();
        matches!(std::io::Read::read(&mut stream, &mut [0]), Ok(0))
    };
    let stream = connect();
    redirects.pass_on(None);
    assert!(is_closed(stream));
    let (ours, theirs) = ringfence_sys::packet_pair().unwrap();
    while rustix::net::send(&ours, &[0; 4096], SendFlags::DONTWAIT).is_ok() {}
    let stream = connect();
    soon(|| redirects.pass_on(Some(&ours)));
    assert!(is_closed(stream));
    hang_up(theirs);
    let stream = connect();
    soon(|| redirects.pass_on(Some(&ours)));
    assert!(is_closed(stream));
}

#[test]
fn redirected_connections_leave_descriptors_for_the_supervisor() {
    let name = "network::tests::redirected_connections_leave_descriptors_for_the_supervisor";
    if !is_alone(name) {
        return;
    }
    limit_descriptors(256);
    let redirects = Redirects::new().unwrap();
    let mut sockets = Vec::new();
    let refused = loop {
        let family = AddressFamily::INET;
        let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
        let connected = soon(|| redirects.connect(&socket));
        sockets.push(socket);
        if connected.is_err() {
            break connected;
        }
    };
    assert_eq!(refused, Err(Errno::AGAIN));
    assert!(sockets.len() > 60, "{}", sockets.len());
    let spare: Vec<_> = (0..60).map(|_| redirects.alarm.try_clone().unwrap()).collect();
    drop(spare);
    // The helper takes them, and they are closed here.
    redirects.pass_on(None);
    soon(|| redirects.connect(&sockets.pop().unwrap())).unwrap();
}

#[test]
fn a_connect_that_is_given_up_reaches_no_later_listener() {
    use rustix::net::{SocketFlags, SocketType, socket_with};
    let stream = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
    };
    let bound = stream();
    rustix::net::sockopt::set_socket_reuseaddr(&bound, true).unwrap();
    rustix::net::bind(&bound, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    rustix::net::listen(&bound, 0).unwrap();
    let listener = TcpListener::from(bound);
    let to = listener.local_addr().unwrap();
    // With a full backlog the last one goes on connecting.
    let mut connecting: Vec<OwnedFd> = (0..4).map(|_| stream()).collect();
    for socket in &connecting {
        let _ = rustix::net::connect(socket, &to);
    }
    let last = connecting.pop().unwrap();
    assert_eq!(rustix::net::getpeername(&last).map(|_| ()), Err(Errno::NOTCONN));
    abandon(&last, listener);
    drop(connecting);
    let later = TcpListener::bind(to).unwrap();
    // The kernel repeats the first packet of a connection after a second.
    let until = Instant::now() + Duration::from_millis(1500);
    assert!(!ringfence_sys::ready_by(&later, PollFlags::IN, until).unwrap());
}

#[test]
fn a_socket_that_is_no_tcp_socket_is_not_redirected() {
    let redirects = Redirects::new().unwrap();
    let (unix, _peer) = ringfence_sys::packet_pair().unwrap();
    assert_eq!(soon(|| redirects.connect(&unix)), Err(Errno::AFNOSUPPORT));
    let (pipe, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    assert_eq!(soon(|| redirects.connect(&pipe)), Err(Errno::NOTSOCK));
    assert!(redirects.accepted.lock().unwrap().is_empty());
}

#[test]
fn remembered_clients_are_bounded_and_sockets_without_a_port_are_none() {
    let clients = Clients::default();
    let client = |pid| Client { pid, program: None };
    let (unix, _peer) = ringfence_sys::packet_pair().unwrap();
    clients.remember(unix.as_fd(), client(1));
    assert!(clients.0.lock().unwrap().programs.is_empty());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    clients.remember(listener.as_fd(), client(1));
    clients.remember(listener.as_fd(), client(2));
    assert_eq!(clients.find(port), Some(client(2)));
    let mut table = clients.0.lock().unwrap();
    let others = (0..=u16::MAX).filter(|other| *other != port).take(CLIENTS_MAX - 1);
    table.order.extend(others.clone());
    table.programs.extend(others.map(|port| (port, client(3))));
    drop(table);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let newest = listener.local_addr().unwrap().port();
    clients.remember(listener.as_fd(), client(4));
    let n = clients.0.lock().unwrap().programs.len();
    // The port may be one of those that are there.
    assert!(n <= CLIENTS_MAX, "{n}");
    assert_eq!(clients.find(newest), Some(client(4)));
}

/// The helper may report a connection before the thread that made it has told its client.
#[test]
fn a_connection_is_listed_with_a_client_that_is_told_after_its_report() {
    let (mut capture, helper) = capture();
    let sockets = [0, 0].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    for socket in &sockets {
        let client = Some(socket.local_addr().unwrap());
        let connection = Box::new(connection("early.test"));
        says(&helper, &NetworkEvent::Connection { client, connection });
    }
    capture.collect();
    assert!(capture.reports.connections.is_empty());
    let client = Client { pid: 7, program: Some("late".to_owned()) };
    capture.clients.remember(sockets[0].as_fd(), client);
    capture.collect();
    let programs = |capture: &Capture| -> Vec<Option<String>> {
        capture.reports.connections.iter().map(|c| c.program.clone()).collect()
    };
    assert_eq!(programs(&capture), [Some("late".to_owned())]);
    // The other one is listed in the end, without a name.
    drop(helper);
    assert_eq!(capture.finish().connections.len(), 2);
}

/// The next packet that the helper gets, and the text of its memory file.
fn next_packet(helper: &OwnedFd) -> (Vec<u8>, Option<String>) {
    let mut body = [0u8; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let got =
        ringfence_sys::receive_packet(helper, &mut body, &mut space, RecvFlags::DONTWAIT).unwrap();
    let text = got.1.into_iter().next().map(|fd| std::io::read_to_string(std::fs::File::from(fd)));
    (body[..got.0].to_vec(), text.map(Result::unwrap))
}

fn capture_with_secret(source: &str) -> (Capture, OwnedFd) {
    let (mut capture, helper) = capture();
    capture.plan.reread = vec![Some(format!("T={source}@h.test").parse().unwrap()), None];
    capture.secrets = SecretReader::new(capture.plan.reread.clone());
    (capture, helper)
}

#[test]
fn a_secret_is_read_again_for_the_helper_no_more_often_than_once_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "value-one\n").unwrap();
    let (mut capture, helper) = capture_with_secret(&format!("file:{}", file.display()));
    for index in [0, 0, 1, 7] {
        says(&helper, &NetworkEvent::RereadSecret(index));
    }
    soon(|| capture.collect());
    assert_eq!(next_packet(&helper), (b"V\0\0".to_vec(), Some("value-one".to_owned())));
    assert_eq!(next_packet(&helper), (b"V\0\0".to_vec(), None));
    assert_eq!(next_packet(&helper), (b"V\x01\0".to_vec(), None));
    assert_eq!(next_packet(&helper), (b"V\x07\0".to_vec(), None));
    drop(helper);
    // Nothing was promised that did not happen.
    let gaps = soon(|| capture.finish()).gaps.join("\n");
    assert!(!gaps.contains("not read again"), "{gaps}");
}

#[test]
fn a_command_that_hangs_or_prints_nonsense_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let script = format!("cmd:echo $$ > {0}; sleep 987 & echo $! >> {0}; wait", pids.display());
    let (mut capture, helper) = capture_with_secret(&script);
    says(&helper, &NetworkEvent::RereadSecret(0));
    soon(|| capture.collect());
    let n_fds = capture.fds().count();
    // A second question while the command runs starts no second one.
    says(&helper, &NetworkEvent::RereadSecret(0));
    soon(|| capture.step());
    assert_eq!(capture.fds().count(), n_fds);
    let read = || std::fs::read_to_string(&pids).unwrap_or_default();
    soon(|| {
        while read().lines().count() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    drop(helper);
    // The command is killed with the run, and its children.
    soon(|| capture.finish());
    for pid in read().lines() {
        let path = format!("/proc/{pid}/stat");
        let is_alive = || std::fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z "));
        soon(|| {
            while is_alive() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    }
    for (command, reason) in [
        ("echo short", "fewer than 8"),
        ("echo two words here", "no header can carry"),
        ("head -c 99999 /dev/zero", "prints more than"),
        ("exit 3", "exit status: 3"),
    ] {
        let (mut capture, helper) = capture_with_secret(&format!("cmd:{command}"));
        says(&helper, &NetworkEvent::RereadSecret(0));
        let until = Instant::now() + SOON;
        while !ringfence_sys::is_ready(&helper, PollFlags::IN) && Instant::now() < until {
            capture.step();
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(next_packet(&helper), (b"V\0\0".to_vec(), None), "{command}");
        drop(helper);
        let gaps = soon(|| capture.finish()).gaps.join("\n");
        assert!(gaps.contains(reason), "{command}: {gaps}");
    }
}
