//! Children whose supervisor is gone, silent or sends garbage.

use std::os::fd::RawFd;

use ringfence_sys::Ended;
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;

use super::*;
use crate::fake_peer::{Lent, is_dead, send, soon};

/// The supervisor's ends.
struct FakeSupervisor {
    report: OwnedFd,
    control: Option<OwnedFd>,
}

fn wires() -> (FakeSupervisor, Handover) {
    let inside = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 4).unwrap();
    let ((report, report_inside), (control, control_inside)) =
        (channel::pair().unwrap(), channel::pair().unwrap());
    let null = || {
        Some(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap())
    };
    let handover = Handover {
        report: inside(&report_inside),
        control: inside(&control_inside),
        stdio: [null(), null(), null()],
        channel: None,
    };
    (FakeSupervisor { report, control: Some(control) }, handover)
}

/// A child that takes its steps on this thread.
fn child() -> (FakeSupervisor, Child) {
    let (supervisor, handover) = wires();
    let child = Child {
        orders: Orders::default(),
        handover,
        root: None,
        terminal: None,
        cgroup_tasks: Vec::new(),
        prepared: VecDeque::new(),
    };
    (supervisor, child)
}

impl FakeSupervisor {
    fn sends(&self, packet: &[u8], fds: &[std::os::fd::BorrowedFd<'_>]) {
        send(self.control.as_ref().unwrap(), packet, fds);
    }

    /// The failure that the child reported.
    #[track_caller]
    fn failure(&self) -> Failure {
        match channel::receive(&self.report) {
            Ok(Some(Message::Failed(failure))) => failure,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_child_without_its_supervisor_stops_at_the_step_that_waits_for_it() {
    for step in [Step::TakeIdentity, Step::TakeSupplies, Step::TakeLeave, Step::DieWithParent] {
        let (mut supervisor, mut child) = child();
        supervisor.control = None;
        assert!(!soon(|| child.follow(&[step.clone(), Step::Execute])));
        let failure = supervisor.failure();
        assert_eq!(failure.step, format!("{step:?}"));
        assert_eq!(failure.part, SetupPart::of(&step));
        let gone = matches!(failure.error.errno, Errno::PIPE | Errno::SRCH);
        assert!(gone, "{}", failure.error);
        // Only the first failure is told, and nothing was executed.
        assert!(!ringfence_sys::is_ready(&supervisor.report, PollFlags::IN));
    }
    // For the test's own process, that step is undone.
    rustix::process::set_parent_process_death_signal(None).unwrap();
}

#[test]
fn garbage_and_other_messages_are_not_what_a_step_waits_for() {
    let packets: [(&[u8], usize); 8] = [
        (b"?", 1),
        (b"", 3),
        (b"K", 0),
        (b"K\x09\0\0\0", 1),
        (b"X\0\0\0\0", 0),
        (b"F\0\0\0\0", 0),
        (b"O\x01\0\0\0", 5),
        (&[b'G'; 0], 0),
    ];
    for step in [Step::TakeIdentity, Step::TakeSupplies, Step::TakeLeave] {
        for (packet, n_fds) in packets {
            let (supervisor, mut child) = child();
            let lent = Lent::new();
            supervisor.sends(packet, &vec![lent.fd(); n_fds]);
            assert!(!soon(|| child.follow(std::slice::from_ref(&step))), "{step:?} {packet:?}");
            let failure = supervisor.failure();
            assert!(matches!(failure.error.errno, Errno::PIPE | Errno::PROTO), "{}", failure.error);
            drop(child);
            lent.check_closed();
        }
    }
}

#[test]
fn messages_in_the_wrong_order_are_refused() {
    for (step, kind) in [
        (Step::TakeIdentity, b'P'),
        (Step::TakeIdentity, b'C'),
        (Step::TakeSupplies, b'G'),
        (Step::TakeSupplies, b'C'),
        (Step::TakeLeave, b'P'),
        (Step::TakeLeave, b'G'),
    ] {
        let (supervisor, mut child) = child();
        let lent = Lent::new();
        supervisor.sends(&[kind], &[lent.fd(); 2]);
        assert!(!soon(|| child.follow(std::slice::from_ref(&step))), "{step:?}");
        assert_eq!(supervisor.failure().error.errno, Errno::PIPE, "{step:?}");
        drop(child);
        lent.check_closed();
    }
}

#[test]
fn a_cgroup_that_cannot_be_joined_ends_the_setup() {
    let (supervisor, mut child) = child();
    // Closed at its other end, which is not what a file of a cgroup is.
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    supervisor.sends(b"C", &[read.as_fd()]);
    drop(write);
    assert!(!soon(|| child.follow(&[Step::TakeLeave, Step::JoinCgroup])));
    let failure = supervisor.failure();
    assert_eq!((failure.step.as_str(), failure.error.errno), ("JoinCgroup", Errno::BADF));
}

#[test]
fn steps_out_of_order_fail_and_do_not_panic() {
    let steps = [
        Step::SealRoot,
        Step::DetachOldRoot,
        Step::SizeRoot { bytes_max: u64::MAX, inodes_max: 0 },
        Step::NoExecute { at: "/".into() },
        Step::Mount(Mount::Text { at: "/x".into(), text: String::new() }),
        Step::Landlock,
        Step::Seccomp,
    ];
    for step in steps {
        let (supervisor, mut child) = child();
        assert!(!soon(|| child.follow(std::slice::from_ref(&step))), "{step:?}");
        assert_eq!(supervisor.failure().error.errno, Errno::INVAL, "{step:?}");
    }
}

#[test]
fn orders_that_are_none_are_refused_in_time() {
    let memory = |bytes: &[u8]| ringfence_sys::memory_file("orders", bytes).unwrap();
    let sparse = |bytes| {
        let file = memory(b"");
        rustix::fs::ftruncate(&file, bytes).unwrap();
        file
    };
    let (pipe, _full) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let files = [
        memory(b""),
        memory(&[0xff; 4096]),
        memory(&[0; 3]),
        // Longer than any plan, and as long as the longest.
        sparse(1 << 40),
        sparse(16 << 20),
        // Would wait.
        pipe,
        std::fs::File::open("/").unwrap().into(),
        std::fs::File::open("/dev/zero").unwrap().into(),
    ];
    for (n, file) in files.iter().enumerate() {
        let (supervisor, mut child) = child();
        supervisor.sends(b"O\0\0\0\0", &[file.as_fd()]);
        let received = soon(|| child.receive_orders());
        // Zeros are a plan of nothing, which does nothing.
        let is_nothing = received.as_ref().is_ok_and(|orders| *orders == Orders::default());
        assert!(received.is_err() || is_nothing, "{n}: {received:?}");
    }
    for (packet, n_fds) in
        [(&b"O\0\0\0\0"[..], 0), (b"O\x01\x01\x01\x01", 4), (b"O\0\0\0", 1), (b"G", 0)]
    {
        let (supervisor, mut child) = child();
        supervisor.sends(packet, &vec![files[0].as_fd(); n_fds]);
        assert!(soon(|| child.receive_orders()).is_err(), "{packet:?}");
    }
}

/// A process of its own that obeys these orders. The thread that made it stands still until it ends, and returns its end.
fn walking(orders: Orders, handover: Handover) -> std::thread::JoinHandle<Ended> {
    let numbers: Vec<RawFd> = handover.numbers();
    std::thread::spawn(move || {
        let pid = ringfence_sys::vfork(move || walk(orders, handover)).unwrap();
        // The process closed its own copies of these.
        for number in numbers {
            ringfence_sys::close_range_between(number, number).unwrap();
        }
        ringfence_sys::reap_pid(pid).unwrap().ended
    })
}

/// Orders to become init, and to run a shell.
fn init_and(script: &str) -> Orders {
    Orders {
        setup: vec![Step::CloseDescriptors, Step::ForkPayload],
        payload: vec![Step::NewSession, Step::DieWithParent, Step::Execute],
        argv: ["/bin/sh", "-c", script].map(Into::into).into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/".into(),
        ..Orders::default()
    }
}

/// Starts init and a program that writes its pid and waits. Returns the program too.
fn init_and_program() -> (FakeSupervisor, std::thread::JoinHandle<Ended>, OwnedFd) {
    let (supervisor, mut handover) = wires();
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    handover.stdio[1] = Some(rustix::io::fcntl_dupfd_cloexec(&write, 4).unwrap());
    drop(write);
    let walking = walking(init_and("echo $$; exec sleep 987"), handover);
    let mut line = [0; 16];
    let n = soon(|| rustix::io::read(&read, &mut line)).unwrap();
    let pid = std::str::from_utf8(&line[..n]).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let program = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    (supervisor, walking, program)
}

#[test]
fn init_ends_with_its_supervisor_and_on_any_message_but_a_signal() {
    let packets: [Option<&[u8]>; 6] =
        [None, Some(b"?"), Some(b""), Some(b"G"), Some(b"K\x01"), Some(b"X\0\0\0\0")];
    for packet in packets {
        let (mut supervisor, walking, program) = init_and_program();
        match packet {
            Some(packet) => supervisor.sends(packet, &[]),
            None => supervisor.control = None,
        }
        let ended = soon(|| walking.join()).unwrap();
        assert!(matches!(ended, Ended::Exited(0 | 1)), "{packet:?}: {ended:?}");
        // By its namespace in a real run, here with its parent.
        assert!(is_dead(&program), "{packet:?}");
    }
}

#[test]
fn init_passes_signals_on_and_ignores_numbers_that_are_none() {
    let (supervisor, walking, program) = init_and_program();
    for number in [i32::MIN, -9, -1, 0, 65, 4096, i32::MAX] {
        supervisor.sends(&[&b"K"[..], &number.to_ne_bytes()].concat(), &[]);
    }
    assert!(!ringfence_sys::is_ready(&program, PollFlags::IN));
    let term = Signal::TERM.as_raw();
    supervisor.sends(&[&b"K"[..], &term.to_ne_bytes()].concat(), &[]);
    let told = soon(|| channel::receive(supervisor.control.as_ref().unwrap())).unwrap();
    assert!(matches!(told, Some(Message::Ended(Ended::Signaled(n))) if n == term), "{told:?}");
    assert_eq!(soon(|| walking.join()).unwrap(), Ended::Exited(0));
    assert!(is_dead(&program));
}

#[test]
fn the_end_of_a_program_is_told_with_its_code() {
    for (script, expected) in [("exit 7", Ended::Exited(7)), ("kill -9 $$", Ended::Signaled(9))] {
        let (supervisor, handover) = wires();
        let walking = walking(init_and(script), handover);
        let told = soon(|| channel::receive(supervisor.control.as_ref().unwrap())).unwrap();
        assert!(matches!(told, Some(Message::Ended(ended)) if ended == expected), "{told:?}");
        assert_eq!(soon(|| walking.join()).unwrap(), Ended::Exited(0));
    }
}

#[test]
fn a_program_that_cannot_be_executed_is_reported() {
    for (program, errno) in
        [("/nonexistent", Errno::NOENT), ("/", Errno::ACCESS), ("/dev/null", Errno::ACCESS)]
    {
        let (supervisor, handover) = wires();
        let orders = Orders { argv: vec![program.into()], ..init_and("") };
        let walking = walking(orders, handover);
        let failure = soon(|| supervisor.failure());
        assert_eq!((failure.part, failure.error.errno), (SetupPart::Execute, errno), "{program}");
        let told = soon(|| channel::receive(supervisor.control.as_ref().unwrap())).unwrap();
        assert!(matches!(told, Some(Message::Ended(Ended::Exited(_)))), "{told:?}");
        soon(|| walking.join()).unwrap();
    }
}

#[test]
fn a_child_whose_setup_fails_exits_and_executes_nothing() {
    let (mut supervisor, handover) = wires();
    supervisor.control = None;
    let setup = vec![Step::CloseDescriptors, Step::TakeSupplies, Step::ForkPayload];
    let orders = Orders { setup, ..init_and("exit 0") };
    let walking = walking(orders, handover);
    assert_eq!(soon(|| supervisor.failure()).step, "TakeSupplies");
    assert_eq!(soon(|| walking.join()).unwrap(), Ended::Exited(EXIT_FAILED));
}
