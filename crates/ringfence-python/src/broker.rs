//! Calls of a running program to the host: a service by name, a call id, JSON arguments, and a JSON result or a failure.
//! Frames of the guest's are hostile: bounded, checked, and one that is malformed ends the reading of its channel. Calls are
//! made on a thread of their own, so that the deadline, the memory limit and the output of the run are watched meanwhile.
//!
//! Arguments and large results are in the host's memory, which no limit of the run counts. So a run has at most one large
//! result, which is taken back when its next call begins or when it ends, whatever the guest has read of it.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfence_sys::{CallError, RevocableMemoryFile};
use serde_json::json;

use crate::channel::{self, CHUNK_BYTES, Frame};

/// Calls that wait while one is made. The guest's own module makes one at a time.
const WAITING_MAX: usize = 16;

/// The longest name of a service.
const SERVICE_BYTES_MAX: usize = 64;

/// The longest arguments of a call.
const ARGUMENTS_BYTES_MAX: usize = 16 << 20;

/// The longest arguments of the calls that wait or are made, together.
const ARGUMENTS_BYTES_ALL: usize = 2 * ARGUMENTS_BYTES_MAX;

/// The largest result.
const RESULT_BYTES_MAX: usize = 64 << 20;

/// Services that a program may call.
pub trait Broker: Send + Sync + fmt::Debug {
    /// Makes one call. `arguments` is the guest's text: anything. `stop` is set when the run has ended.
    fn call(
        &self,
        service: &str,
        arguments: &[u8],
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, CallFailure>;
}

/// Reason that a call failed; an exception inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailure {
    /// A stable name.
    pub code: String,
    /// One sentence for the program.
    pub message: String,
}

/// A call of the guest's.
struct Call {
    id: u32,
    service: String,
    arguments: Vec<u8>,
}

/// The calls of one run. Dropping it ends their thread after the call that it makes.
pub(crate) struct Calls {
    broker: Option<Arc<dyn Broker>>,
    thread: Option<SyncSender<Call>>,
    /// The beginning of the next call's arguments.
    begun: Vec<u8>,
    held: Arc<Held>,
    stop: Arc<AtomicBool>,
}

/// Memory of the host that a run uses.
#[derive(Default)]
struct Held {
    /// Bytes of arguments of the calls that wait or are made.
    argument_bytes: AtomicUsize,
    /// The last result, if it is large.
    result: Mutex<Option<RevocableMemoryFile>>,
}

impl Held {
    fn result(&self) -> MutexGuard<'_, Option<RevocableMemoryFile>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    pub(crate) fn new(broker: Option<Arc<dyn Broker>>) -> Self {
        Self { broker, thread: None, begun: Vec::new(), held: Arc::default(), stop: Arc::default() }
    }

    /// Takes the beginning of a call's arguments, which do not fit into one frame. Returns false if they are too long.
    pub(crate) fn begin(&mut self, frame: &Frame) -> bool {
        let fits =
            self.broker.is_some() && self.begun.len() + frame.body.len() <= ARGUMENTS_BYTES_MAX;
        if fits {
            self.begun.extend_from_slice(&frame.body);
        }
        fits
    }

    /// Takes a call frame. Returns false if the frame is not one, or if more calls wait than an honest guest makes.
    pub(crate) fn take(&mut self, channel: &OwnedFd, frame: &Frame) -> bool {
        let Some(mut call) = parse(&frame.body) else { return false };
        if !self.begun.is_empty() {
            let begun = std::mem::take(&mut self.begun);
            call.arguments = [begun, call.arguments].concat();
        }
        let Some(broker) = &self.broker else {
            let failure = CallFailure {
                code: "no_session".to_owned(),
                message: "code_api answers in sessions only: make one, and name it in the call"
                    .to_owned(),
            };
            return answer(channel.as_fd(), call.id, Err(failure)).is_ok();
        };
        if self.thread.is_none() {
            let Ok(channel) = channel.try_clone() else { return false };
            let (sender, receiver) = sync_channel(WAITING_MAX);
            let (broker, stop) = (Arc::clone(broker), Arc::clone(&self.stop));
            let held = Arc::clone(&self.held);
            let thread = std::thread::Builder::new().name("ringfence-calls".to_owned());
            let started =
                thread.spawn(move || serve(&channel, broker.as_ref(), &receiver, &held, &stop));
            if started.is_err() {
                return false;
            }
            self.thread = Some(sender);
        }
        let n_more = call.arguments.len();
        let n_before = self.held.argument_bytes.fetch_add(n_more, Ordering::Relaxed);
        n_before + n_more <= ARGUMENTS_BYTES_ALL
            && self.thread.as_ref().is_some_and(|thread| thread.try_send(call).is_ok())
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        *self.held.result() = None;
    }
}

fn serve(
    channel: &OwnedFd,
    broker: &dyn Broker,
    calls: &Receiver<Call>,
    held: &Held,
    stop: &Arc<AtomicBool>,
) {
    while let Ok(Call { id, service, arguments }) = calls.recv() {
        // The guest's own module has read a result before it makes the next call.
        *held.result() = None;
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let result = broker.call(&service, &arguments, stop);
        held.argument_bytes.fetch_sub(arguments.len(), Ordering::Relaxed);
        drop(arguments);
        // Locked meanwhile: nothing is sent to a run that has ended, and its end takes back what was sent before.
        let mut last = held.result();
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // On failure the guest is gone: its death ends the run.
        let Ok(large) = answer(channel.as_fd(), id, result) else { return };
        *last = large;
    }
}

/// `ID SERVICE`, a line feed, the arguments.
fn parse(body: &[u8]) -> Option<Call> {
    let end = body.iter().take(SERVICE_BYTES_MAX + 12).position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&body[..end]).ok()?;
    let (id, service) = head.split_once(' ')?;
    let is_name = (1..=SERVICE_BYTES_MAX).contains(&service.len())
        && service.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-/".contains(&b));
    is_name.then_some(())?;
    Some(Call {
        id: id.parse().ok()?,
        service: service.to_owned(),
        arguments: body[end + 1..].to_vec(),
    })
}

/// Sends the result of a call: in the frame, or as a memory file if it is large. Returns that file.
fn answer(
    channel: BorrowedFd<'_>,
    id: u32,
    result: Result<Vec<u8>, CallFailure>,
) -> Result<Option<RevocableMemoryFile>, CallError> {
    let failed = |code: &str, message: &str| json!({"code": code, "message": message}).to_string();
    let (word, body) = match result {
        Ok(body) if body.len() > RESULT_BYTES_MAX => {
            ("no", failed("too_large", "the result is too large").into_bytes())
        }
        Ok(body) => ("ok", body),
        Err(CallFailure { code, message }) => ("no", failed(&code, &message).into_bytes()),
    };
    let head = format!("{id} {word}\n");
    if body.len() <= CHUNK_BYTES {
        channel::send_now(channel, b'A', &[head.as_bytes(), &body], &[])?;
        return Ok(None);
    }
    let memory = RevocableMemoryFile::new("ringfence-result", &body)?;
    channel::send_now(channel, b'A', &[head.as_bytes()], &[memory.as_fd()])?;
    Ok(Some(memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Echo;

    impl Broker for Echo {
        fn call(
            &self,
            service: &str,
            arguments: &[u8],
            _: &Arc<AtomicBool>,
        ) -> Result<Vec<u8>, CallFailure> {
            match service {
                "echo" => Ok(arguments.to_vec()),
                "large" => Ok(vec![b'x'; 1 << 20]),
                other => {
                    Err(CallFailure { code: "unknown".into(), message: format!("no {other}") })
                }
            }
        }
    }

    fn frame(body: &[u8]) -> Frame {
        Frame { kind: b'Q', body: body.to_vec(), fds: Vec::new() }
    }

    fn heard(guests: &OwnedFd) -> (Vec<u8>, usize) {
        let frame = channel::receive(guests, rustix::net::RecvFlags::empty()).unwrap().unwrap();
        assert_eq!(frame.kind, b'A');
        (frame.body, frame.fds.len())
    }

    #[test]
    fn calls_are_answered_with_their_id_and_large_results_as_files() {
        let (ours, guests) = channel::pair().unwrap();
        let mut calls = Calls::new(Some(Arc::new(Echo)));
        for id in 1..100 {
            assert!(calls.take(&ours, &frame(format!("{id} echo\n[{id}]").as_bytes())));
            assert_eq!(heard(&guests), (format!("{id} ok\n[{id}]").into_bytes(), 0));
        }
        assert!(calls.take(&ours, &frame(b"7 large\n{}")));
        assert_eq!(heard(&guests), (b"7 ok\n".to_vec(), 1));
        assert!(calls.take(&ours, &frame(b"8 other\n{}")));
        let (body, _) = heard(&guests);
        assert!(body.starts_with(b"8 no\n") && body.windows(8).any(|w| w == b"no other"));
        let mut none = Calls::new(None);
        assert!(none.take(&ours, &frame(b"9 echo\n{}")));
        assert!(heard(&guests).0.starts_with(b"9 no\n"));
    }

    /// The memory files of the next `n` answers, and their bytes.
    fn held_bytes(guests: &OwnedFd, n: usize) -> (Vec<OwnedFd>, i64) {
        let mut held = Vec::new();
        for _ in 0..n {
            let flags = rustix::net::RecvFlags::empty();
            held.extend(channel::receive(guests, flags).unwrap().unwrap().fds);
        }
        let n_bytes = sum_bytes(&held);
        (held, n_bytes)
    }

    fn sum_bytes(files: &[OwnedFd]) -> i64 {
        files.iter().map(|file| rustix::fs::fstat(file).unwrap().st_size).sum()
    }

    #[test]
    fn a_run_has_one_large_result_whatever_the_guest_keeps() {
        let (ours, guests) = channel::pair().unwrap();
        let mut calls = Calls::new(Some(Arc::new(Echo)));
        // None is read before the last is there.
        for id in 0..10 {
            assert!(calls.take(&ours, &frame(format!("{id} large\n{{}}").as_bytes())));
        }
        let (held, n_bytes) = held_bytes(&guests, 10);
        assert_eq!((held.len(), n_bytes), (10, 1 << 20));
        // Nor is one left after the run.
        drop(calls);
        assert_eq!(sum_bytes(&held), 0);
    }

    #[test]
    fn the_arguments_that_wait_are_bounded_together() {
        let (ours, _guests) = channel::pair().unwrap();
        let (tell, told) = sync_channel(1);
        let mut calls = Calls::new(Some(Arc::new(Slow(tell))));
        let chunk = frame(&vec![b' '; CHUNK_BYTES]);
        // Each has the longest arguments of a call; the first is being made.
        let mut ask = || {
            (0..ARGUMENTS_BYTES_MAX / CHUNK_BYTES).all(|_| calls.begin(&chunk))
                && calls.take(&ours, &frame(b"1 any\n"))
        };
        assert!(ask() && ask());
        told.recv_timeout(crate::fake_peer::SOON).unwrap();
        assert!(!ask());
    }

    #[test]
    fn malformed_frames_are_refused() {
        let (ours, _guests) = channel::pair().unwrap();
        let mut calls = Calls::new(Some(Arc::new(Echo)));
        let long = format!("1 {}\n", "x".repeat(SERVICE_BYTES_MAX + 1));
        for body in [
            &b""[..],
            b"\n",
            b"1\n",
            b"1 \n",
            b"x echo\n",
            b"-1 echo\n",
            b"99999999999 echo\n",
            b"1 a b\n",
            b"1 \xff\n",
            b"1 echo",
            long.as_bytes(),
        ] {
            assert!(!calls.take(&ours, &frame(body)), "{body:?}");
        }
    }

    /// Bytes that an honest guest's frames become by chance; xorshift64, so that a failure can be repeated.
    fn mutated(state: &mut u64) -> Frame {
        let mut next = || {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            usize::try_from(*state >> 33).unwrap()
        };
        let all: [&[u8]; 6] =
            [b"1 echo\n{}", b"4294967295 large\n", b"2 other\n[[[", b"\n", b"3 a.b/c-d\n", b"x"];
        let mut body = all[next() % all.len()].to_vec();
        for _ in 0..next() % 4 {
            let at = next() % (body.len() + 1);
            match next() % 3 {
                0 => body.insert(at, next().to_le_bytes()[0]),
                1 => body.truncate(at),
                _ => body.extend(std::iter::repeat_n(next().to_le_bytes()[0], next() % 70_000)),
            }
        }
        let kind = if next() % 4 == 0 { b'q' } else { b'Q' };
        Frame { kind, body, fds: Vec::new() }
    }

    #[test]
    fn any_frames_are_taken_or_refused_and_leave_no_thread() {
        for seed in 1..400u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let (ours, guests) = channel::pair().unwrap();
            let broker: Arc<dyn Broker> = Arc::new(Echo);
            let mut calls = Calls::new(Some(Arc::clone(&broker)));
            for _ in 0..20 {
                let frame = mutated(&mut state);
                // A refused frame ends the reading of the channel.
                let is_taken = match frame.kind {
                    b'q' => calls.begin(&frame),
                    _ => calls.take(&ours, &frame),
                };
                if !is_taken {
                    break;
                }
                if state % 3 == 0 {
                    while channel::receive(&guests, rustix::net::RecvFlags::DONTWAIT).is_ok() {}
                }
            }
            drop(calls);
            drop(guests);
            all_gone(&broker, seed);
        }
    }

    /// Waits until no thread holds the broker any more.
    fn all_gone(broker: &Arc<dyn Broker>, seed: u64) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while Arc::strong_count(broker) > 1 {
            assert!(std::time::Instant::now() < deadline, "a thread is left, seed {seed}");
            std::thread::yield_now();
        }
    }

    /// Answers when the run has ended, as a search does that looks at `stop`.
    #[derive(Debug)]
    struct Slow(SyncSender<()>);

    impl Broker for Slow {
        fn call(&self, _: &str, _: &[u8], stop: &Arc<AtomicBool>) -> Result<Vec<u8>, CallFailure> {
            self.0.send(()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_guest_that_dies_in_the_middle_of_a_call_leaves_nothing_pending() {
        let (ours, guests) = channel::pair().unwrap();
        let (tell, told) = sync_channel(1);
        let broker: Arc<dyn Broker> = Arc::new(Slow(tell));
        let mut calls = Calls::new(Some(Arc::clone(&broker)));
        // One is made, the others wait.
        for _ in 0..5 {
            assert!(calls.take(&ours, &frame(b"1 any\n{}")));
        }
        told.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
        drop(guests);
        drop(calls);
        all_gone(&broker, 0);
        assert!(told.try_recv().is_err(), "a call was made after the end of the run");
    }

    #[test]
    fn a_guest_that_does_not_listen_cannot_queue_calls_without_end() {
        let (ours, guests) = channel::pair().unwrap();
        let mut calls = Calls::new(Some(Arc::new(Echo)));
        let body = [b"1 echo\n".to_vec(), vec![b'x'; 60_000]].concat();
        let refused = (0..1000).find(|_| !calls.take(&ours, &frame(&body)));
        assert!(refused.is_some_and(|n| n < 200), "{refused:?}");
        drop(guests);
    }
}
