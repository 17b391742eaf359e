//! Sessions whose processes crash, hang or lie.

use std::process::{Command, Stdio};

use ringfence_testing::{BoundedCommand, Running};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};

use super::*;
use crate::fake_peer::{self, FakeGuest, Lent, job, large_job, soon};

/// The first process of a session with some children, each of which can pass for its fork.
fn head() -> (Running, Vec<u32>) {
    let mut command = Command::new("sh");
    let script = "for i in 1 2 3; do sleep 987 & done; echo ready; wait";
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut head = command.bounded_spawn().unwrap();
    let mut word = [0; 6];
    std::io::Read::read_exact(head.stdout.as_mut().unwrap(), &mut word).unwrap();
    let pid = head.id();
    let children = ringfence_sys::read_kernel_file(format!("/proc/{pid}/task/{pid}/children"));
    let children: Vec<u32> =
        children.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(children.len(), 3);
    (head, children)
}

fn pidfd_of(pid: u32) -> OwnedFd {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Kills a process that was not waited for.
fn kill(pid: u32) {
    let _ = rustix::process::pidfd_send_signal(pidfd_of(pid), rustix::process::Signal::KILL);
}

/// Reads nothing until the host closes its end.
fn hold(channel: &OwnedFd) {
    let mut fds = [PollFd::new(channel, PollFlags::HUP)];
    let _ = rustix::event::poll(&mut fds, None);
}

/// A session, its first process and that one's children.
struct Session {
    repl: Repl,
    guest: FakeGuest,
    children: Vec<u32>,
}

impl Session {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Worker)) -> Self {
        let (head, children) = head();
        let (mut worker, guest) = fake_peer::worker_of(head);
        // Closed at its other end: no process is under the filter.
        let (listener, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        worker.listener = Some(listener);
        change(&mut worker);
        let repl = Repl::start_in(worker, &fake_peer::plan(), None).unwrap();
        Self { repl, guest, children }
    }

    /// Waits for the request to fork, on another thread; `act` answers it with the channel of the new process.
    fn at_fork(&self, act: impl FnOnce(&OwnedFd, OwnedFd) + Send + 'static) {
        let channel = self.guest.channel.try_clone().unwrap();
        std::thread::spawn(move || {
            while let Ok(Some(mut frame)) = channel::receive(&channel, RecvFlags::empty()) {
                if frame.kind == b'K' {
                    return act(&channel, frame.fds.pop().unwrap());
                }
            }
        });
    }

    /// Answers the next request to fork with one of the children, which then does something.
    fn forks(&mut self, act: impl FnOnce(OwnedFd) + Send + 'static) -> OwnedFd {
        let child = pidfd_of(self.children.pop().unwrap());
        let sent = child.try_clone().unwrap();
        self.at_fork(move |channel, inside| {
            fake_peer::send(channel, b"P7", &[sent.as_fd()]);
            act(inside);
        });
        child
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.children.drain(..).for_each(kill);
    }
}

/// Reads a program, and says this.
fn says(channel: &OwnedFd, frames: &[&[u8]]) {
    while let Ok(Some(frame)) = channel::receive(channel, RecvFlags::empty()) {
        if frame.kind == b'J' {
            for frame in frames {
                fake_peer::send(channel, frame, &[]);
            }
            return;
        }
    }
}

fn is_dead(pidfd: &OwnedFd) -> bool {
    ringfence_sys::is_ready_within(pidfd, PollFlags::IN, fake_peer::SOON)
}

/// The state of a process, as a letter.
fn state_of(pid: u32) -> char {
    let stat = ringfence_sys::read_kernel_file(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn a_session_that_does_not_fork_is_broken_in_time() {
    let mut session = Session::new();
    let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
    assert_eq!(broken.code, Code::Repl);
    assert_eq!(session.repl.checkpoints(), [0]);
}

#[test]
fn answers_to_a_fork_that_are_none_break_the_session() {
    type Answer = fn(&OwnedFd, &Lent);
    let answers: [Answer; 7] = [
        |channel, _| fake_peer::send(channel, b"", &[]),
        |channel, _| fake_peer::send(channel, b"Nno more processes", &[]),
        |channel, _| fake_peer::send(channel, b"D{\"exit\": 0}", &[]),
        |channel, _| fake_peer::send(channel, b"P7", &[]),
        |channel, lent| fake_peer::send(channel, b"P7", &[lent.fd()]),
        |channel, lent| fake_peer::send(channel, b"P7", &[lent.fd(), lent.fd()]),
        |channel, lent| fake_peer::send(channel, b"P-1", &[lent.fd(); 200]),
    ];
    for answer in answers {
        let mut session = Session::new();
        let (tell, told) = std::sync::mpsc::channel();
        session.at_fork(move |channel, _| {
            let lent = Lent::new();
            answer(channel, &lent);
            tell.send(lent).unwrap();
        });
        let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
        assert_eq!(broken.code, Code::Repl);
        told.recv().unwrap().check_closed();
    }
}

#[test]
fn a_process_that_is_no_child_of_the_session_is_neither_stopped_nor_killed() {
    let another = fake_peer::hung();
    // Of another process, of a child's child, of the first process itself.
    let (parent, grandchildren) = head();
    for (pid, cells) in [(another.id(), 1), (grandchildren[0], 1), (0, 1), (another.id(), 2)] {
        let mut session = Session::new();
        let pid = if pid == 0 { session.guest.process.id() } else { pid };
        if cells == 2 {
            session.forks(|inside| says(&inside, &[b"D{\"exit\": 0}"]));
            session.repl.cell(&job(60_000), &[], None).unwrap();
            // Its own checkpoint is lost with it: the one before is asked next.
            let (head, _inside) = channel::pair().unwrap();
            session.repl.chain[1].ends.channel = head;
        }
        let pidfd = pidfd_of(pid);
        session.at_fork(move |channel, _| fake_peer::send(channel, b"P7", &[pidfd.as_fd()]));
        let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
        assert!(broken.to_string().contains("another process"), "{broken}");
        assert_eq!(session.repl.checkpoints(), [0]);
        if pid != session.guest.process.id() {
            assert_eq!(state_of(pid), 'S', "a process of the host was stopped or killed");
        }
    }
    drop(parent);
    grandchildren.into_iter().for_each(kill);
}

#[test]
fn the_pidfd_of_a_thread_is_refused() {
    let mut session = Session::new();
    let pid = Pid::from_raw(i32::try_from(session.children[0]).unwrap()).unwrap();
    let flags = PidfdFlags::from_bits_retain(rustix::fs::OFlags::EXCL.bits());
    // Before Linux 6.9 there are none.
    let Ok(thread) = rustix::process::pidfd_open(pid, flags) else {
        return ringfence_testing::missing("pidfd of a thread", "this kernel has none");
    };
    session.at_fork(move |channel, _| fake_peer::send(channel, b"P7", &[thread.as_fd()]));
    let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
    assert!(broken.to_string().contains("of a thread"), "{broken}");
}

/// Waits for a request to fork, and answers it after a fork that the guard let through.
fn forks_and_answers(channel: &OwnedFd, guard: &Guard, answer: &[u8]) {
    while let Ok(Some(frame)) = channel::receive(channel, RecvFlags::empty()) {
        if frame.kind == b'K' {
            *guard.grant() = Grant::Used;
            return fake_peer::send(channel, answer, &[]);
        }
    }
}

#[test]
fn a_fork_that_is_not_handed_over_ends_the_session_and_not_only_its_head() {
    for answer in [&b"Nno more processes"[..], b"P7"] {
        let mut session = Session::new();
        let guard = Arc::clone(&session.repl.base.guard);
        let child = session.forks(move |inside| {
            says(&inside, &[b"D{\"exit\": 0}"]);
            forks_and_answers(&inside, &guard, answer);
        });
        let cell = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap();
        assert_eq!(cell.ended, CellEnd::Kept);
        let first = pidfd_of(session.guest.process.id());
        let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
        assert_eq!(broken.code, Code::Repl);
        assert!(is_dead(&first), "the session goes on");
        // The kernel ends it with the first one; here they are not in one namespace.
        let _ = rustix::process::pidfd_send_signal(&child, rustix::process::Signal::KILL);
    }
}

#[test]
fn a_head_that_makes_no_branch_is_given_up() {
    let mut session = Session::new();
    let child = session.forks(|inside| {
        says(&inside, &[b"D{\"exit\": 0}"]);
        // It reads the request, and answers later.
        let _ = channel::receive(&inside, RecvFlags::empty());
        fake_peer::send(&inside, b"Nlater", &[]);
    });
    soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap();
    assert_eq!(soon(|| session.repl.branch()).unwrap_err().code, Code::Repl);
    assert!(is_dead(&child));
    // The next cell tells it, and no program before that leaves no trace.
    for lost in [0, 1] {
        session.forks(|inside| says(&inside, &[b"D{\"exit\": 0}"]));
        let run = |repl: &mut Repl| match lost {
            0 => repl.ask(&job(60_000)),
            _ => repl.cell(&job(60_000), &[], None),
        };
        let cell = soon(|| run(&mut session.repl)).unwrap();
        assert_eq!((cell.ended, cell.lost), (CellEnd::Kept, lost));
    }
    // Without an earlier checkpoint the session ends.
    let mut session = Session::new();
    session.at_fork(|channel, _| fake_peer::send(channel, b"Nlater", &[]));
    assert_eq!(soon(|| session.repl.branch()).unwrap_err().code, Code::Repl);
    assert!(is_dead(&pidfd_of(session.guest.process.id())));
}

#[test]
fn an_earlier_fork_is_not_taken_for_a_new_one() {
    let mut session = Session::new();
    let child = session.forks(drop);
    let branch = session.repl.branch().unwrap();
    let sent = child.try_clone().unwrap();
    session.at_fork(move |channel, _| fake_peer::send(channel, b"P7", &[sent.as_fd()]));
    let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
    assert!(broken.to_string().contains("an earlier fork"), "{broken}");
    // Nor a process that is dead, and not yet waited for.
    drop(branch);
    assert!(is_dead(&child));
    session.at_fork(move |channel, _| fake_peer::send(channel, b"P7", &[child.as_fd()]));
    let broken = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap_err();
    assert_eq!(broken.code, Code::Repl);
}

#[test]
fn a_cell_that_reports_its_end_is_kept_and_stopped() {
    let mut session = Session::new();
    let child = session.forks(|inside| says(&inside, &[b"G", b"D{\"exit\": 0}"]));
    let cell = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap();
    assert_eq!((cell.ended, cell.number, cell.lost), (CellEnd::Kept, 1, 0));
    assert_eq!(session.repl.checkpoints(), [0, 1]);
    let pid = session.repl.chain[1].host_pid;
    let until = Instant::now() + fake_peer::SOON;
    while state_of(pid) != 'T' {
        assert!(Instant::now() < until, "it runs between cells");
        std::thread::yield_now();
    }
    session.repl.rollback(0).unwrap();
    assert!(is_dead(&child));
    assert_eq!(session.repl.rollback(1).unwrap_err().code, Code::NoCheckpoint);
}

#[test]
fn a_cell_that_crashes_hangs_or_lies_is_undone() {
    type Act = fn(OwnedFd);
    let hang: Act = |inside| {
        says(&inside, &[b"G"]);
        hold(&inside);
    };
    let cases: [(Act, Job, CellEnd); 6] = [
        (drop, job(60_000), CellEnd::Died),
        (|inside| says(&inside, &[b"?"]), job(60_000), CellEnd::Died),
        (|inside| says(&inside, &[b"G", b"Dnull"]), job(60_000), CellEnd::Died),
        (|inside| says(&inside, &[b"", b"D{\"exit\": 0}"]), job(60_000), CellEnd::Died),
        (hang, job(100), CellEnd::Deadline),
        (
            |inside| {
                let report =
                    br#"D{"exit": 1, "exception": {"type": "MemoryError", "message": ""}}"#;
                says(&inside, &[report]);
            },
            job(60_000),
            CellEnd::Memory,
        ),
    ];
    for (act, job, expected) in cases {
        let mut session = Session::new();
        let child = session.forks(act);
        let cell = soon(|| session.repl.cell(&job, &[], None)).unwrap();
        assert_eq!(cell.ended, expected);
        assert_eq!(session.repl.checkpoints(), [0]);
        assert!(is_dead(&child), "{expected:?}");
    }
}

#[test]
fn a_cell_whose_process_is_killed_is_undone() {
    let mut session = Session::new();
    let pid = *session.children.last().unwrap();
    let child = session.forks(move |inside| {
        says(&inside, &[]);
        kill(pid);
        // The channel stays open: the death itself is noticed.
        hold(&inside);
    });
    let cell = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap();
    assert_eq!((cell.ended, is_dead(&child)), (CellEnd::Died, true));
}

#[test]
fn a_cell_that_does_not_read_its_files_ends_at_its_deadline_or_when_it_is_cancelled() {
    let hold = |inside: OwnedFd| hold(&inside);
    let mut session = Session::new();
    let child = session.forks(hold);
    let cell = soon(|| session.repl.cell(&large_job(200), &[], None)).unwrap();
    assert_eq!((cell.ended, is_dead(&child)), (CellEnd::Deadline, true));
    let (cancel, caller) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    drop(caller);
    let child = session.forks(hold);
    let cell = soon(|| session.repl.cell(&large_job(60_000), &[cancel.as_fd()], None)).unwrap();
    assert_eq!((cell.ended, is_dead(&child)), (CellEnd::Cancelled, true));
}

#[test]
fn output_without_end_does_not_hold_up_the_end_of_a_cell() {
    let mut session = Session::with(|worker| {
        let zero = std::fs::File::open("/dev/zero").unwrap();
        worker.ends.stdout = Some(zero.into());
    });
    let child = session.forks(|inside| hold(&inside));
    let cell = soon(|| session.repl.cell(&job(100), &[], None)).unwrap();
    assert_eq!((cell.ended, is_dead(&child)), (CellEnd::Deadline, true));
    assert!(cell.stdout.total_bytes > 0);
    session.forks(|inside| says(&inside, &[b"D{\"exit\": 0}"]));
    let cell = soon(|| session.repl.cell(&job(60_000), &[], None)).unwrap();
    assert_eq!(cell.ended, CellEnd::Kept);
}

#[test]
fn a_session_that_ends_kills_all_its_processes() {
    let mut session = Session::new();
    let child = session.forks(|inside| says(&inside, &[b"D{\"exit\": 0}"]));
    session.repl.cell(&job(60_000), &[], None).unwrap();
    let head = pidfd_of(session.guest.process.id());
    let repl =
        Repl { base: Arc::clone(&session.repl.base), chain: Vec::new(), n_cells: 0, n_lost: 0 };
    let repl = std::mem::replace(&mut session.repl, repl);
    soon(|| drop(repl));
    assert!(is_dead(&child));
    // The other handle still holds the first process.
    assert!(!ringfence_sys::is_ready(&head, PollFlags::IN));
    drop(session);
    assert!(is_dead(&head));
}

#[test]
fn a_session_needs_a_listener() {
    let (worker, guest) = fake_peer::worker();
    let refused = Repl::start_in(worker, &fake_peer::plan(), None).unwrap_err();
    assert_eq!(refused.code, Code::Repl);
    assert!(guest.is_killed());
}

#[test]
fn unread_frames_are_dropped_only_until_the_deadline() {
    let (ours, inside) = channel::pair().unwrap();
    let fill = || {
        for _ in 0..8 {
            channel::send(&inside, b'x', &[b"unread"], &[]).unwrap();
        }
    };
    let later = Instant::now() + FORK_MAX;
    fill();
    drain(&ours, later).unwrap();
    // Nothing is left.
    assert!(channel::receive(&ours, RecvFlags::DONTWAIT).is_err());
    drain(&ours, later).unwrap();
    fill();
    assert_eq!(drain(&ours, Instant::now()).unwrap_err().errno, Errno::PROTO);
}
