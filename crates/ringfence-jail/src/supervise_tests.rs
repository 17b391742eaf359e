//! Runs whose child crashes, hangs or sends garbage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfence_sys::Signals;
use rustix::pipe::PipeFlags;

use super::*;
use crate::fake_peer::{self, FakeProcess, Lent, send, soon};
use crate::registry::RunKey;
use crate::stdio::{Capture as OutputCapture, StdioPumps};

/// The child's side of a run.
struct FakeChild {
    process: FakeProcess,
    report: Option<OwnedFd>,
    control: Option<OwnedFd>,
}

impl FakeChild {
    fn reports(&self, packet: &[u8], fds: &[std::os::fd::BorrowedFd<'_>]) {
        send(self.report.as_ref().unwrap(), packet, fds);
    }

    fn controls(&self, packet: &[u8]) {
        send(self.control.as_ref().unwrap(), packet, &[]);
    }

    /// As exec does.
    fn starts(&mut self) {
        self.report = None;
    }
}

/// A run of this plan before its first message.
fn run(plan: &Plan) -> (Supervisor<'_>, FakeChild) {
    let registry: &'static Registry = Box::leak(Box::new(Registry::new("/nonexistent".as_ref())));
    let hold = registry.hold(&[], &[], &[], &RunKey::of_this_process("test")).unwrap();
    let process = FakeProcess::hung();
    let (report, report_inside) = channel::pair().unwrap();
    let (control, control_inside) = channel::pair().unwrap();
    let running = Running {
        plan,
        registry,
        git: GitWatch::begin(plan),
        pid: process.pid,
        pidfd: process.pidfd.try_clone().unwrap(),
        subreaper: None,
        report,
        control,
        signals: SignalFd::new(Signals::of(&[])).unwrap(),
        plumbing: StdioPumps::default(),
        cleanup: Cleanup { leaf: None, scratch: None, hold },
        cancel: None,
        credentials: None,
        agent: None,
        published: Vec::new(),
    };
    let child = FakeChild { process, report: Some(report_inside), control: Some(control_inside) };
    (Supervisor::new(running, None), child)
}

#[track_caller]
fn is_error_of_supervisor(result: Result<Finished, NotStarted>, errno: Errno) {
    match result {
        Err(NotStarted::Supervisor(error)) => assert_eq!(error.errno, errno, "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_that_dies_without_a_word_started_nothing() {
    let plan = fake_peer::plan(60_000);
    let (supervisor, child) = run(&plan);
    child.process.kill();
    is_error_of_supervisor(soon(|| supervisor.work()), Errno::CHILD);
    assert!(child.process.is_reaped());
}

#[test]
fn a_child_that_hangs_before_it_starts_is_killed_in_time() {
    let plan = fake_peer::plan(1);
    let (mut supervisor, child) = run(&plan);
    assert_eq!(supervisor.deadline(), Some(supervisor.launched + SETUP_MIN));
    supervisor.launched = supervisor.launched.checked_sub(SETUP_MIN).unwrap();
    assert!(matches!(soon(|| supervisor.work()), Err(NotStarted::SetupTimeout)));
    assert!(child.process.is_reaped());
}

#[test]
fn a_failed_step_is_reported_whatever_its_words() {
    let plan = fake_peer::plan(60_000);
    let long = vec![b'x'; 10_000];
    let texts: [&[u8]; 5] = [b"step\0call", b"step", b"", b"\xff\0\xff", &long];
    for text in texts {
        let (supervisor, mut child) = run(&plan);
        let head = [&b"F"[..], &Errno::PERM.raw_os_error().to_ne_bytes(), &[200]].concat();
        child.reports(&[&head, text].concat(), &[]);
        child.starts();
        child.process.kill();
        let Err(NotStarted::Step(failure)) = soon(|| supervisor.work()) else { panic!() };
        assert_eq!((failure.part, failure.error.errno), (SetupPart::Other, Errno::PERM));
        assert!(failure.step.len() <= 4096);
        assert!(child.process.is_reaped());
    }
}

#[test]
fn garbage_instead_of_a_report_ends_the_run() {
    let plan = fake_peer::plan(60_000);
    let long = vec![b'?'; 20_000];
    let failed_with = |errno: i32| [&b"F"[..], &errno.to_ne_bytes(), b"\0step\0call"].concat();
    let numbers = [i32::MIN, -1, 0, 4096, i32::MAX].map(failed_with);
    // Packets and the number of descriptors they come with.
    let mut packets: Vec<(&[u8], usize)> = vec![
        (b"?", 0),
        (&long, 3),
        (b"\0", 1),
        (b"R", 0),
        (b"R", 2),
        (b"L", 0),
        (b"L", 253),
        (b"T", 0),
        (b"N\x01", 0),
        (b"N", 1),
        (b"N\x01\x01", 1),
        (b"X", 0),
        (b"S\x01\x02", 0),
        (b"K", 0),
        (b"F", 0),
        (b"F\x01\0", 0),
        (b"O", 0),
        (b"O\x01\x01\x01\x01", 1),
        (b"O\x02\0\0\0", 3),
    ];
    packets.extend(numbers.iter().map(|packet| (&packet[..], 0)));
    for (packet, n_fds) in packets {
        let shown = String::from_utf8_lossy(&packet[..packet.len().min(20)]).into_owned();
        // While the child lives, and with its death.
        for dies in [false, true] {
            let (supervisor, child) = run(&plan);
            let lent = Lent::new();
            child.reports(packet, &vec![lent.fd(); n_fds]);
            if dies {
                child.process.kill();
            }
            let ended = soon(|| supervisor.work());
            match ended {
                Err(NotStarted::Supervisor(error)) => {
                    assert_eq!(error.errno, Errno::PROTO, "{shown}: {error}");
                }
                other => panic!("{shown}: {other:?}"),
            }
            assert!(child.process.is_reaped(), "{shown}");
            lent.check_closed();
        }
    }
}

#[test]
fn messages_of_other_parties_are_ignored_and_their_descriptors_closed() {
    let plan = fake_peer::plan(60_000);
    let (supervisor, mut child) = run(&plan);
    let lent = Lent::new();
    // The last two are for plans with a filter and a network.
    for (packet, n_fds) in
        [(&b"G"[..], 3), (b"P", 5), (b"C", 5), (b"K\x09\0\0\0", 1), (b"L", 1), (b"N\x01\0\x01", 2)]
    {
        child.reports(packet, &vec![lent.fd(); n_fds]);
    }
    child.starts();
    child.controls(b"X\x07\0\0\0");
    let finishing = std::thread::spawn(move || {
        let dead = child.process.pidfd.try_clone().unwrap();
        // After the control message was read, or with it: it counts either way.
        child.process.kill();
        (child, dead)
    });
    let finished = soon(|| supervisor.work()).unwrap();
    assert_eq!(finished.ending, Ending::Exited(7));
    let (child, _) = finishing.join().unwrap();
    assert!(child.process.is_reaped());
    lent.check_closed();
}

#[test]
fn a_program_that_hangs_is_stopped_at_its_deadline() {
    let plan = fake_peer::plan(100);
    let (supervisor, mut child) = run(&plan);
    child.starts();
    let finished = soon(|| supervisor.work()).unwrap();
    assert_eq!((finished.stopped, finished.ending), (Some(StopReason::Wall), Ending::Swept));
    assert!(finished.wall >= Duration::from_millis(100));
    assert!(child.process.is_reaped());
}

#[test]
fn garbage_on_the_control_socket_is_no_end_and_the_deadline_holds() {
    let plan = fake_peer::plan(100);
    for packet in [&b"?"[..], b"X", b"", b"S\x01", b"F\0\0\0\0"] {
        let (supervisor, mut child) = run(&plan);
        child.controls(packet);
        child.starts();
        let finished = soon(|| supervisor.work()).unwrap();
        assert_eq!((finished.stopped, finished.ending), (Some(StopReason::Wall), Ending::Swept));
        assert!(child.process.is_reaped());
    }
}

#[test]
fn an_end_of_any_number_is_passed_on() {
    let plan = fake_peer::plan(60_000);
    for (kind, number) in [(b'X', i32::MIN), (b'X', 256), (b'S', -1), (b'S', i32::MAX)] {
        let (supervisor, mut child) = run(&plan);
        child.starts();
        child.controls(&[&[kind], &number.to_ne_bytes()[..]].concat());
        child.process.kill();
        let expected = if kind == b'X' { Ending::Exited(number) } else { Ending::Signaled(number) };
        assert_eq!(soon(|| supervisor.work()).unwrap().ending, expected);
    }
}

/// Sends the same packet with this pause, or as fast as it is read, until the other end closes or the flag is set.
fn flood(
    socket: OwnedFd,
    packet: Vec<u8>,
    pause: Duration,
) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let flooding = std::thread::spawn(move || {
        let until = Instant::now() + fake_peer::SOON * 2;
        while !told.load(Ordering::Relaxed) && Instant::now() < until {
            if rustix::net::send(&socket, &packet, rustix::net::SendFlags::NOSIGNAL).is_err() {
                return;
            }
            std::thread::sleep(pause);
        }
    });
    (is_over, flooding)
}

#[test]
fn a_flood_of_messages_delays_neither_deadline_nor_signal() {
    // On the control socket.
    let plan = fake_peer::plan(100);
    let (supervisor, mut child) = run(&plan);
    child.starts();
    let (is_over, flooding) = flood(child.control.take().unwrap(), b"G".to_vec(), Duration::ZERO);
    let finished = soon(|| supervisor.work()).unwrap();
    assert_eq!(finished.stopped, Some(StopReason::Wall));
    is_over.store(true, Ordering::Relaxed);
    flooding.join().unwrap();
    // On the report socket, while a signal waits for the start of the program: a message for every while it waits.
    let (mut supervisor, mut child) = run(&plan);
    let report = child.report.take().unwrap();
    let (is_over, talking) = flood(report, b"G".to_vec(), START_TIMEOUT / 5);
    soon(|| supervisor.pass_on(Signal::TERM.as_raw()));
    assert_eq!(supervisor.stopped, Some(StopReason::Caller(Signal::TERM.as_raw())));
    let ended = soon(|| supervisor.work());
    assert!(matches!(ended, Err(NotStarted::Interrupted(15))), "{ended:?}");
    assert!(child.process.is_reaped());
    is_over.store(true, Ordering::Relaxed);
    talking.join().unwrap();
}

#[test]
fn messages_after_the_death_of_a_child_are_read_up_to_a_bound() {
    let plan = fake_peer::plan(60_000);
    let (mut supervisor, child) = run(&plan);
    for _ in 0..=LAST_MESSAGES_MAX {
        child.reports(b"G", &[]);
    }
    child.process.kill();
    soon(|| supervisor.hear_last()).unwrap();
    assert!(
        ringfence_sys::is_ready(&supervisor.run.report, PollFlags::IN),
        "all of them were read"
    );
    is_error_of_supervisor(soon(|| supervisor.work()), Errno::CHILD);
}

#[test]
fn a_caller_that_goes_away_cancels_its_run() {
    let plan = fake_peer::plan(60_000);
    for starts in [false, true] {
        let (mut supervisor, mut child) = run(&plan);
        let (cancel, caller) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        supervisor.run.cancel = Some(cancel);
        if starts {
            child.starts();
            soon(|| supervisor.hear_report()).unwrap();
        }
        drop(caller);
        match soon(|| supervisor.work()) {
            Ok(finished) if starts => assert_eq!(finished.stopped, Some(StopReason::Cancelled)),
            Err(NotStarted::Interrupted(9)) if !starts => {}
            other => panic!("{other:?}"),
        }
        assert!(child.process.is_reaped());
    }
}

#[test]
fn the_second_signal_kills_a_program_that_ignores_the_first() {
    let plan = fake_peer::plan(60_000);
    let (mut supervisor, mut child) = run(&plan);
    child.starts();
    let term = Signal::TERM.as_raw();
    soon(|| supervisor.pass_on(term));
    let control = child.control.as_ref().unwrap();
    let told = channel::receive(control).unwrap();
    assert!(matches!(told, Some(Message::Signal(15))), "{told:?}");
    assert!(!ringfence_sys::is_ready(&child.process.pidfd, PollFlags::IN));
    // Its reader is gone.
    child.control = None;
    soon(|| supervisor.pass_on(term));
    let finished = soon(|| supervisor.work()).unwrap();
    assert_eq!(finished.stopped, Some(StopReason::Caller(term)));
    assert!(child.process.is_reaped());
}

#[test]
fn a_listener_that_is_none_is_given_up() {
    let filter = ringfence_plan::seccomp::compile(fake_peer::filter());
    let plan = Plan { seccomp: Some(filter), ..fake_peer::plan(100) };
    let (mut supervisor, mut child) = run(&plan);
    // It has something to read, and never an answer to give.
    let (pipe, full) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    rustix::io::write(&full, b"x").unwrap();
    child.reports(b"L", &[pipe.as_fd()]);
    soon(|| supervisor.hear_report()).unwrap();
    supervisor.answer(PollFlags::IN);
    assert!(!supervisor.listener_open);
    child.starts();
    let finished = soon(|| supervisor.work()).unwrap();
    assert_eq!(finished.stopped, Some(StopReason::Wall));
    assert!(finished.denials.is_empty());
}

#[test]
fn a_root_that_is_none_holds_nothing_up_and_comes_back() {
    let plan = fake_peer::plan(100);
    let (supervisor, mut child) = run(&plan);
    let lent = Lent::new();
    // Twice: the second takes the place of the first.
    child.reports(b"R", &[lent.fd()]);
    child.reports(b"R", &[lent.fd()]);
    child.starts();
    let finished = soon(|| supervisor.work()).unwrap();
    assert!(finished.root.is_some());
    drop(finished);
    lent.check_closed();
}

#[test]
fn output_in_the_pipes_is_kept_after_a_crash() {
    let plan = fake_peer::plan(60_000);
    let (mut supervisor, mut child) = run(&plan);
    let mut writers = Vec::new();
    for _ in 0..2 {
        let (read, write) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let output = Output::new(1 << 20);
        supervisor.run.plumbing.captures.push(OutputCapture { from: Some(read), output });
        writers.push(write);
    }
    rustix::io::write(&writers[0], b"out").unwrap();
    rustix::io::write(&writers[1], b"err").unwrap();
    child.starts();
    child.process.kill();
    // The writers stay open, and are not waited for.
    let finished = soon(|| supervisor.work()).unwrap();
    let (stdout, stderr) = finished.output.unwrap();
    assert_eq!((stdout.parts().0, stderr.parts().0), (b"out".to_vec(), b"err".to_vec()));
}
