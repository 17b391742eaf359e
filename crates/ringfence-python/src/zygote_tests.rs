//! Zygotes and workers that crash, hang or lie before the first program.

use super::*;
use crate::fake_peer::{self, Lent, hang_up, hung, pidfd, plan, soon};

/// A requested worker, and the channel that the zygote was given for it.
fn pending() -> (PendingWorker, OwnedFd) {
    let (ours, zygotes) = channel::pair().unwrap();
    let zygote = Zygote::fake(ours);
    let mut pending = zygote.ask(1, ForkPriority::Usual, &[]).unwrap();
    let mut asked = channel::receive(&zygotes, RecvFlags::DONTWAIT).unwrap().unwrap();
    assert_eq!((asked.kind, asked.fds.len()), (b'S', 4));
    (pending.pop().unwrap(), asked.fds.pop().unwrap())
}

fn fake_zygote() -> (Zygote, OwnedFd) {
    let (ours, theirs) = channel::pair().unwrap();
    (Zygote::fake(ours), theirs)
}

#[test]
fn a_worker_is_ready_after_its_frames_in_their_order_and_not_otherwise() {
    /// Frames with their numbers of descriptors; whether it is ready, or the words of the error.
    type Case = (&'static [(&'static [u8], usize)], Result<bool, &'static str>);
    let cases: &[Case] = &[
        (&[], Ok(false)),
        (&[(b"W", 3)], Ok(false)),
        (&[(b"W", 3), (b"R", 0)], Ok(true)),
        (&[(b"R", 0)], Err("failed")),
        (&[(b"W", 0), (b"R", 0)], Err("failed")),
        (&[(b"W", 2)], Err("failed")),
        (&[(b"W", 4)], Err("failed")),
        (&[(b"W", 200)], Err("failed")),
        (&[(b"W", 3), (b"W", 3)], Err("failed")),
        // Not asked for.
        (&[(b"L", 1)], Err("failed")),
        (&[(b"W", 3), (b"D{}", 0)], Err("failed: {}")),
        (&[(b"Emount: EPERM", 0)], Err("failed: mount: EPERM")),
        (&[(b"E\xff\xfe", 0)], Err("failed")),
        (&[(b"", 0)], Err("gone")),
        (&[(b"W", 3), (b"", 3)], Err("gone")),
    ];
    for (frames, expected) in cases {
        let (mut pending, guest) = pending();
        let lent = Lent::new();
        for (frame, n_fds) in *frames {
            fake_peer::send(&guest, frame, &vec![lent.fd(); *n_fds]);
        }
        let is_ready = soon(|| pending.is_ready(&plan()));
        match (is_ready, expected) {
            (Ok(is_ready), Ok(expected)) => assert_eq!(is_ready, *expected, "{frames:?}"),
            (Err(error), Err(words)) => {
                assert!(error.to_string().contains(words), "{frames:?}: {error}");
            }
            (is_ready, _) => panic!("{frames:?}: {is_ready:?}"),
        }
        drop(pending);
        lent.check_closed();
    }
}

#[test]
fn a_listener_is_taken_from_a_worker_that_has_one() {
    let plan = WorkerPlan { listener: true, ..plan() };
    for n_fds in [0, 1, 2] {
        let (mut pending, guest) = pending();
        let lent = Lent::new();
        fake_peer::send(&guest, b"L", &vec![lent.fd(); n_fds]);
        assert!(!pending.is_ready(&plan).unwrap());
        assert_eq!(pending.listener.is_some(), n_fds > 0);
        drop(pending);
        lent.check_closed();
    }
}

#[test]
fn a_worker_that_closes_its_channel_is_gone_and_a_long_reason_is_cut_short() {
    let (mut pending, guest) = pending();
    hang_up(guest);
    assert_eq!(pending.is_ready(&plan()).unwrap_err().errno, Errno::PIPE);
    let (mut pending, guest) = self::pending();
    fake_peer::send(&guest, &vec![b'E'; 100_000], &[]);
    let error = pending.is_ready(&plan()).unwrap_err();
    assert!(error.to_string().len() < 600, "{error}");
}

/// What becomes of a worker that sends this as its pidfd.
fn fenced_by(fd: &OwnedFd) -> CallError {
    let (mut pending, guest) = pending();
    let lent = Lent::new();
    fake_peer::send(&guest, b"W", &[lent.fd(), lent.fd(), fd.as_fd()]);
    fake_peer::send(&guest, b"R", &[]);
    assert!(pending.is_ready(&plan()).unwrap());
    let error = soon(|| pending.fenced(rustix::process::getuid().as_raw())).unwrap_err();
    lent.check_closed();
    error
}

#[test]
fn a_worker_without_a_pidfd_is_refused() {
    let (pipe, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    assert_eq!(fenced_by(&pipe).errno, Errno::SRCH);
    let mut dead = hung();
    let fd = pidfd(&dead);
    dead.kill().unwrap();
    dead.wait().unwrap();
    assert_eq!(fenced_by(&fd).errno, Errno::SRCH);
}

#[test]
fn a_process_of_the_host_is_refused_as_a_worker_and_left_alone() {
    let mut another = hung();
    let error = fenced_by(&pidfd(&another));
    assert!(error.to_string().contains("not fenced"), "{error}");
    // Signals are handled in their order: had it been killed, this would find it dead or dying.
    assert!(another.try_wait().unwrap().is_none(), "a process of the host was killed");
    let is_dying =
        ringfence_sys::is_ready_within(pidfd(&another), PollFlags::IN, Duration::from_millis(200));
    assert!(!is_dying, "a process of the host was killed");
}

#[test]
fn frames_of_a_zygote_are_parsed_strictly() {
    let cases: &[(&[u8], Option<&str>)] = &[
        (b"P\0\0\0", Some("Born([])")),
        (b"P\0\0\0\x07\0\0\0", Some("Born([7])")),
        // The rest of a number is none.
        (b"P\0\0\0\x07\0\0\0\x01\x02\x03", Some("Born([7])")),
        (b"P\0\0", None),
        (b"P", None),
        (b"N12", Some("Exit(12, None)")),
        (b"N", None),
        (b"N-1", None),
        (b"N4294967296", None),
        (
            b"X7 9 10 11",
            Some("Exit(7, Some(Exit { status: 9, cpu: 10ms, memory_peak_bytes: 11264 }))"),
        ),
        (
            b"X7 -2147483648 0 18446744073709551615",
            Some(
                "Exit(7, Some(Exit { status: -2147483648, cpu: 0ns, memory_peak_bytes: 18446744073709551615 }))",
            ),
        ),
        (b"X7 9 10", None),
        (b"X", None),
        (b"X-7 9 10 11", None),
        (b"X7 9 -10 11", None),
        (b"X7 2147483648 0 0", None),
        (b"X7 9 18446744073709551616 0", None),
        (b"X\xff \xff \xff \xff", None),
        (b"Z{}", None),
        (b"W", None),
        (b"\0", None),
        (b"", None),
    ];
    for (frame, expected) in cases {
        let (zygote, theirs) = fake_zygote();
        fake_peer::send(&theirs, frame, &[]);
        let heard = zygote.next_frame();
        let heard = heard.ok().flatten().map(|frame| format!("{frame:?}"));
        assert_eq!(heard.as_deref(), *expected, "{}", String::from_utf8_lossy(frame));
    }
}

#[test]
fn an_exit_status_of_any_number_has_a_signal_or_a_code() {
    for status in [i32::MIN, -1, 0, 1, 9, 0x7f, 0x100, 0xff00, i32::MAX] {
        let exit = Exit { status, cpu: Duration::ZERO, memory_peak_bytes: 0 };
        assert!(exit.signal().is_some() != exit.code().is_some(), "{status}");
    }
}

#[test]
fn a_zygote_that_is_silent_has_no_frame_and_one_that_is_gone_is_an_error() {
    let (zygote, theirs) = fake_zygote();
    assert!(zygote.next_frame().unwrap().is_none());
    let at = Instant::now() + Duration::from_millis(50);
    let late = soon(|| wait_for_frame(&zygote, "waiting", at)).unwrap_err();
    assert_eq!((late.errno, late.call.as_str()), (Errno::TIMEDOUT, "waiting"));
    hang_up(theirs);
    assert_eq!(zygote.next_frame().unwrap_err().errno, Errno::PIPE);
    assert_eq!(zygote.ask_exit(1).unwrap_err().errno, Errno::PIPE);
    let asked = zygote.ask(1, ForkPriority::Usual, &[]).unwrap_err();
    assert_eq!(asked.errno, Errno::PIPE);
}

#[test]
fn a_frame_of_another_kind_is_not_the_expected_one() {
    for (frame, words) in [(&b"Nno more"[..], "no more"), (b"X", "failed"), (b"", "gone")] {
        let (zygote, theirs) = fake_zygote();
        fake_peer::send(&theirs, frame, &[]);
        let error = expect(&zygote.channel, b'P', Instant::now() + Duration::from_secs(20));
        let error = soon(|| error).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let (zygote, _theirs) = fake_zygote();
    let error = expect(&zygote.channel, b'P', Instant::now() + Duration::from_millis(50));
    assert_eq!(error.unwrap_err().errno, Errno::TIMEDOUT);
}

#[test]
fn a_worker_that_the_zygote_does_not_make_is_an_error() {
    let answers: [fn(&OwnedFd, Vec<OwnedFd>); 4] = [
        |_, _| {},
        |zygote, _| fake_peer::send(zygote, b"X1 0 0 0", &[]),
        // It claims to have made one, and its channel closes.
        |zygote, _| fake_peer::send(zygote, b"P\0\0\0\x07\0\0\0", &[]),
        |zygote, fds| {
            fake_peer::send(zygote, b"P\0\0\0\x07\0\0\0", &[]);
            fake_peer::send(&fds[3], b"?", &[]);
        },
    ];
    for answer in answers {
        let (zygote, theirs) = fake_zygote();
        let acting = std::thread::spawn(move || {
            let asked = channel::receive(&theirs, RecvFlags::empty()).unwrap().unwrap();
            answer(&theirs, asked.fds);
        });
        assert!(soon(|| zygote.worker(&plan(), 0)).is_err());
        acting.join().unwrap();
    }
}
