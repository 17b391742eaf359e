//! Runs in workers whose guest crashes, hangs or lies.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::pipe::PipeFlags;

use super::*;
use crate::fake_peer::{self, FakeGuest, Lent, job, large_job, soon};

/// Runs a job, while the guest does something on another thread.
#[track_caller]
fn run(job: &Job, guest: impl FnOnce(&mut FakeGuest) + Send + 'static) -> Finished {
    let (worker, mut fake) = fake_peer::worker();
    let acting = std::thread::spawn(move || {
        guest(&mut fake);
        fake
    });
    let around = RunContext { memory_bytes_max: None, cancel: None, spare: || true };
    let finished = soon(|| worker.run(job, &around, None)).unwrap();
    assert!(acting.join().unwrap().is_killed(), "a process is left");
    finished
}

/// A guest that reads its job up to `J`, and begins.
fn begin(guest: &FakeGuest) {
    while let Ok(Some(frame)) = channel::receive(&guest.channel, RecvFlags::empty()) {
        if frame.kind == b'J' {
            return guest.says(b"G");
        }
    }
}

#[test]
fn a_guest_that_dies_ends_its_run_silently_whatever_it_had_done() {
    let moments: [fn(&mut FakeGuest); 4] = [
        |_| {},
        |guest| begin(guest),
        |guest| {
            begin(guest);
            guest.says(b"Phalf done");
        },
        // Half of a call.
        |guest| {
            begin(guest);
            guest.says(b"q[1, 2");
        },
    ];
    for act in moments {
        let finished = run(&job(60_000), move |guest| {
            act(guest);
            guest.dies();
        });
        assert_eq!(finished.ended, Ended::Silently(None));
        assert!(finished.said.is_none() && finished.refused.is_none());
    }
}

#[test]
fn output_written_before_the_death_is_kept() {
    let finished = run(&job(60_000), |guest| {
        rustix::io::write(&guest.stdout, b"out").unwrap();
        rustix::io::write(&guest.stderr, b"err").unwrap();
        guest.dies();
    });
    let [stdout, stderr] = [finished.stdout, finished.stderr].map(|output| output.parts().0);
    assert_eq!((stdout, stderr), (b"out".to_vec(), b"err".to_vec()));
}

#[test]
fn a_guest_that_hangs_is_killed_at_the_deadline() {
    let moments: [fn(&mut FakeGuest); 2] = [|_| {}, |guest| begin(guest)];
    for act in moments {
        assert_eq!(run(&job(100), act).ended, Ended::Deadline);
    }
}

#[test]
fn a_guest_that_does_not_read_its_files_is_killed_at_the_deadline() {
    let finished = run(&large_job(200), |_| {});
    assert_eq!(finished.ended, Ended::Deadline);
    // The frame that lets the program begin waits behind the files.
    let (worker, fake) = fake_peer::worker();
    let around = RunContext { memory_bytes_max: None, cancel: None, spare: || true };
    let n_permits = AtomicU32::new(0);
    let grant = || {
        n_permits.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let finished = soon(|| worker.run(&large_job(200), &around, Some(Permit(&grant)))).unwrap();
    assert_eq!(finished.ended, Ended::Deadline);
    assert_eq!(n_permits.into_inner(), 1);
    assert!(fake.is_killed());
}

#[test]
fn a_guest_that_dies_before_it_has_read_its_files_ends_its_run() {
    let finished = run(&large_job(60_000), |guest| {
        let _ = channel::receive(&guest.channel, RecvFlags::empty());
        guest.dies();
    });
    assert_eq!(finished.ended, Ended::Silently(None));
}

#[test]
fn a_run_is_cancelled_while_its_guest_does_not_read() {
    for job in [large_job(60_000), job(60_000)] {
        let (worker, fake) = fake_peer::worker();
        let (cancel, caller) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        drop(caller);
        let cancel = Some(cancel.as_fd());
        let around = RunContext { memory_bytes_max: None, cancel, spare: || true };
        let finished = soon(|| worker.run(&job, &around, None)).unwrap();
        assert_eq!(finished.ended, Ended::Cancelled);
        assert!(fake.is_killed());
    }
}

#[test]
fn a_job_for_no_guest_at_all_is_over_at_once() {
    let (worker, mut fake) = fake_peer::worker();
    fake.dies();
    (fake.channel, _) = channel::pair().unwrap();
    let around = RunContext { memory_bytes_max: None, cancel: None, spare: || true };
    let finished = soon(|| worker.run(&large_job(60_000), &around, None)).unwrap();
    assert_eq!(finished.ended, Ended::Silently(None));
    drop(fake);
}

#[test]
fn garbage_is_no_report() {
    let deep = [b"D{\"exit\":0,\"value\":".to_vec(), vec![b'['; 100_000]].concat();
    let long = [b"D".to_vec(), vec![b'{'; 150_000]].concat();
    let frames: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\0".to_vec(),
        b"D".to_vec(),
        b"Dnull".to_vec(),
        b"D{}".to_vec(),
        b"D{\"exit\": 1e999}".to_vec(),
        b"D{\"exit\": 99999999999999999999}".to_vec(),
        b"D{\"exit\": 0, \"rss_kb\": -1}".to_vec(),
        b"D{\"exit\": 0, \"denials\": [{\"rule\": 5, \"subject\": \"\"}]}".to_vec(),
        b"D\xff\xfe".to_vec(),
        // Calls without a broker's protocol.
        b"Q".to_vec(),
        b"Qno id\n".to_vec(),
        b"q1 echo".to_vec(),
        // Frames of other parties, and in the wrong order.
        b"Z{}".to_vec(),
        b"W".to_vec(),
        b"R".to_vec(),
        b"A1 ok\n".to_vec(),
        b"J".to_vec(),
        deep,
        long,
    ];
    for frame in frames {
        let shown = String::from_utf8_lossy(&frame[..frame.len().min(30)]).into_owned();
        let finished = run(&job(60_000), move |guest| {
            begin(guest);
            guest.says(&frame);
            // Too late: nothing more is read.
            guest.says(b"D{\"exit\": 0}");
            guest.dies();
        });
        assert_eq!(finished.ended, Ended::Silently(None), "{shown}");
        assert!(finished.said.is_none(), "{shown}");
    }
}

#[test]
fn descriptors_that_come_with_frames_are_closed() {
    for n in [1, 4, 5, 100] {
        let lent = Lent::new();
        let copy = lent.fd().try_clone_to_owned().unwrap();
        run(&job(60_000), move |guest| {
            begin(guest);
            let fds = vec![copy.as_fd(); n];
            fake_peer::send(&guest.channel, b"Pdone", &fds);
            fake_peer::send(&guest.channel, b"D{\"exit\": 0}", &fds);
            guest.dies();
        });
        lent.check_closed();
    }
}

#[test]
fn a_report_is_believed_once_its_process_is_dead() {
    let finished = run(&job(60_000), |guest| {
        begin(guest);
        guest.says(b"D{\"exit\": 3, \"cpu_s\": 0.5, \"rss_kb\": 2}");
        guest.dies();
    });
    assert_eq!(finished.ended, Ended::Done);
    let said = finished.said.unwrap();
    assert_eq!((said.exit, said.memory_peak_bytes()), (3, 2048));
    assert_eq!(finished.cpu, Duration::from_millis(500));
    // One that lives on is not: it is killed at the deadline.
    let finished = run(&job(600), |guest| {
        begin(guest);
        guest.says(b"D{\"exit\": 0}");
    });
    assert_eq!(finished.ended, Ended::Deadline);
    assert!(finished.said.is_none());
}

#[test]
fn numbers_and_lists_of_a_report_are_bounded() {
    let denial = r#"{"rule": "network", "subject": "x"}"#;
    let denials = vec![denial; 1000].join(",");
    for cpu in ["-1", "1e300", "-0.0"] {
        let report = format!(
            r#"D{{"exit": -9223372036854775808, "cpu_s": {cpu}, "rss_kb": 18446744073709551615, "denials": [{denials}]}}"#
        );
        let finished = run(&job(60_000), move |guest| {
            begin(guest);
            guest.says(report.as_bytes());
            guest.dies();
        });
        assert_eq!(finished.cpu, Duration::ZERO, "{cpu}");
        let said = finished.said.unwrap();
        assert_eq!((said.exit, said.denials.len()), (i64::MIN, DENIALS_MAX));
        assert_eq!(said.memory_peak_bytes(), u64::MAX);
    }
}

#[test]
fn a_refusal_is_believed_before_the_program_begins_and_shown_on_one_line() {
    let refusal = format!("Ebad\n\x1b[31m{}", "x".repeat(10_000));
    let with_file = Job { files: vec![("a".to_owned(), b"x".to_vec())], ..job(60_000) };
    let said = refusal.clone();
    let finished = run(&with_file, move |guest| {
        guest.says(said.as_bytes());
        guest.dies();
    });
    assert_eq!(finished.ended, Ended::Refused);
    let refused = finished.refused.unwrap();
    assert!(refused.starts_with("bad  [31mxx") && refused.chars().count() == 300, "{refused}");
    let said = refusal.clone();
    let begun = run(&with_file, move |guest| {
        begin(guest);
        guest.says(said.as_bytes());
        guest.dies();
    });
    // Nothing to refuse: without files, a guest does not say that it begins.
    let without = run(&job(60_000), move |guest| {
        guest.says(refusal.as_bytes());
        guest.dies();
    });
    for finished in [begun, without] {
        assert_eq!((finished.ended, finished.refused), (Ended::Silently(None), None));
    }
}

#[test]
fn a_stream_that_never_ends_does_not_hold_up_the_end() {
    let zero = || {
        let file = std::fs::File::open("/dev/zero").unwrap();
        Some(OwnedFd::from(file))
    };
    let (mut worker, fake) = fake_peer::worker();
    (worker.ends.stdout, worker.ends.stderr) = (zero(), zero());
    let around = RunContext { memory_bytes_max: None, cancel: None, spare: || true };
    let finished = soon(|| worker.run(&job(100), &around, None)).unwrap();
    assert_eq!(finished.ended, Ended::Deadline);
    assert!(finished.stdout.total_bytes > 0 && finished.stderr.total_bytes > 0);
    assert!(fake.is_killed());
}

#[test]
fn everything_in_a_pipe_is_read_at_the_end() {
    let (mut worker, guest) = fake_peer::worker();
    rustix::pipe::fcntl_setpipe_size(&guest.stdout, 256 << 10).unwrap();
    rustix::io::write(&guest.stdout, &vec![b'x'; 200 << 10]).unwrap();
    let job = job(60_000);
    let mut run = Run::new(Instant::now(), &[], &job);
    worker.ends.drain_streams(&mut run);
    assert_eq!(run.stdout.total_bytes, 200 << 10);
}

#[test]
fn a_guest_that_closes_its_input_gets_no_more_of_it() {
    let job = Job { stdin: vec![b'x'; 1 << 20], ..job(300) };
    let finished = run(&job, |guest| {
        let (_, closed) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        guest.stdin = closed;
    });
    assert_eq!(finished.ended, Ended::Deadline);
}

#[test]
fn a_worker_that_is_dropped_is_killed_and_leaves_no_descriptor() {
    let (mut worker, fake) = fake_peer::worker();
    let lent = Lent::new();
    worker.mounts = Some(lent.fd().try_clone_to_owned().unwrap());
    drop(worker);
    assert!(fake.is_killed());
    lent.check_closed();
    let hung_up = ringfence_sys::is_ready_within(&fake.channel, PollFlags::IN, fake_peer::SOON);
    assert!(hung_up);
}

#[test]
fn memory_of_a_process_that_is_gone_or_was_never_there_exceeds_no_limit() {
    for pid in [0, u32::MAX, i32::MAX.unsigned_abs()] {
        let mut memory = MemoryWatch::new(pid, Some(1));
        memory.look_at = Instant::now();
        assert!(!memory.is_past(), "{pid}");
        assert!(memory.look_at > Instant::now());
    }
    let own = std::process::id();
    let mut memory =
        MemoryWatch { host_pid: own, bytes_max: Some(u64::MAX), look_at: Instant::now() };
    assert!(!memory.is_past());
}
