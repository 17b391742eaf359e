//! The two sockets between supervisor and run: `report` (closed by exec) and `control` (held by init). Messages are one
//! byte of kind, a short body and at most [`FDS_MAX`] descriptors. A malformed message is an error, never a panic.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringfence_plan::Step;
use ringfence_sys::CallError;
pub(crate) use ringfence_sys::packet_pair as pair;
use rustix::io::Errno;
use rustix::net::RecvFlags;

/// Descriptors in one message: the kernel's own limit, `SCM_MAX_FD`.
const FDS_MAX: usize = 253;

/// The longest body: a failed step with its call.
const BODY_BYTES_MAX: usize = 4096;

/// A message between supervisor and run.
#[derive(Debug)]
pub(crate) enum Message {
    /// Child to supervisor: the root of the run's own memory filesystem.
    Root(OwnedFd),
    /// Child to supervisor: the listener of its filter.
    Listener(OwnedFd),
    /// Child to supervisor: the master side of its terminal.
    Terminal(OwnedFd),
    /// Child to supervisor: the listeners of its network, in the plan's order; `None` where the kernel has no IPv6.
    Network(Vec<Option<OwnedFd>>),
    /// Child to supervisor: it has done the steps that come before its orders.
    Ready,
    /// Child to supervisor: a step failed.
    Failed(Failure),
    /// Init to supervisor: the program ended.
    Ended(ringfence_sys::Ended),
    /// Supervisor to a child forked before its plan: the child's part of the plan.
    Orders {
        /// The serialized steps, as a memory file.
        orders: OwnedFd,
        /// Become 0, 1 and 2; `None` for a stream of the run's own terminal.
        stdio: [Option<OwnedFd>; 3],
        /// Becomes 3.
        channel: Option<OwnedFd>,
    },
    /// Supervisor to child: the id maps are written.
    Go,
    /// Supervisor to child: the mounts prepared for it, in the plan's order.
    Supplies(Vec<OwnedFd>),
    /// Supervisor to child: the program may start, in the cgroups with these files.
    Leave(Vec<OwnedFd>),
    /// Supervisor to init: send the program this signal.
    Signal(i32),
}

/// Parts of the setup whose failures have explanations of their own. Sent as a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupPart {
    /// Making namespaces and using the rights they give.
    Namespaces,
    /// Capturing connections in the network namespace.
    Network,
    /// Mounting `/proc`.
    Proc,
    /// Installing the system call filter.
    Seccomp,
    /// Executing the program.
    Execute,
    /// Keeping what was mounted before the plan: a child with a new view of the host can run it.
    SystemView,
    /// Any other step.
    Other,
}

impl SetupPart {
    const ALL: [Self; 7] = [
        Self::Namespaces,
        Self::Network,
        Self::Proc,
        Self::Seccomp,
        Self::Execute,
        Self::SystemView,
        Self::Other,
    ];

    /// The part that a step belongs to.
    pub(crate) fn of(step: &Step) -> Self {
        match step {
            Step::Unshare { .. }
            | Step::TakeIdentity
            | Step::PrivateMounts
            | Step::Hostname { .. }
            | Step::LoopbackUp
            | Step::NewRoot => Self::Namespaces,
            Step::CaptureNetwork { .. } => Self::Network,
            Step::Mount(mount) if mount.at() == Path::new("/proc") => Self::Proc,
            Step::Seccomp => Self::Seccomp,
            Step::Execute => Self::Execute,
            _ => Self::Other,
        }
    }

    fn from_byte(byte: u8) -> Self {
        Self::ALL.into_iter().find(|part| *part as u8 == byte).unwrap_or(Self::Other)
    }
}

/// A step that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Part of the setup that the step belongs to.
    pub(crate) part: SetupPart,
    /// The step, as the rendered plan shows it.
    pub(crate) step: String,
    /// The failed call and its error.
    pub(crate) error: CallError,
}

/// Sends one message.
pub(crate) fn send(socket: impl AsFd, message: &Message) -> Result<(), CallError> {
    let (body, fds): (Vec<u8>, Vec<BorrowedFd<'_>>) = match message {
        Message::Root(fd) => (b"R".to_vec(), vec![fd.as_fd()]),
        Message::Listener(fd) => (b"L".to_vec(), vec![fd.as_fd()]),
        Message::Terminal(fd) => (b"T".to_vec(), vec![fd.as_fd()]),
        Message::Orders { orders, stdio, channel } => {
            let slots = stdio.iter().chain([channel]);
            let present: Vec<u8> = slots.clone().map(|fd| u8::from(fd.is_some())).collect();
            let given = slots.flatten().map(AsFd::as_fd);
            (tagged(b'O', &present), std::iter::once(orders.as_fd()).chain(given).collect())
        }
        Message::Network(listeners) => {
            let present: Vec<u8> = listeners.iter().map(|fd| u8::from(fd.is_some())).collect();
            (tagged(b'N', &present), listeners.iter().flatten().map(AsFd::as_fd).collect())
        }
        Message::Ready => (b"Y".to_vec(), Vec::new()),
        Message::Go => (b"G".to_vec(), Vec::new()),
        Message::Supplies(fds) => (b"P".to_vec(), fds.iter().map(AsFd::as_fd).collect()),
        Message::Leave(fds) => (b"C".to_vec(), fds.iter().map(AsFd::as_fd).collect()),
        Message::Signal(number) => (tagged(b'K', &number.to_ne_bytes()), Vec::new()),
        Message::Ended(ringfence_sys::Ended::Exited(code)) => {
            (tagged(b'X', &code.to_ne_bytes()), Vec::new())
        }
        Message::Ended(ringfence_sys::Ended::Signaled(number)) => {
            (tagged(b'S', &number.to_ne_bytes()), Vec::new())
        }
        Message::Failed(failure) => {
            let mut body = tagged(b'F', &failure.error.errno.raw_os_error().to_ne_bytes());
            body.push(failure.part as u8);
            body.extend_from_slice(failure.step.as_bytes());
            body.push(0);
            body.extend_from_slice(failure.error.call.as_bytes());
            body.truncate(BODY_BYTES_MAX);
            (body, Vec::new())
        }
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    ringfence_sys::send_packet(socket, &[IoSlice::new(&body)], &fds, &mut space)
}

/// Receives one message; `None` if the other side is gone. Waits only if the socket blocks.
pub(crate) fn receive(socket: impl AsFd) -> Result<Option<Message>, CallError> {
    let mut body = [0u8; BODY_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let flags = RecvFlags::empty();
    let (received, mut fds) = ringfence_sys::receive_packet(socket, &mut body, &mut space, flags)?;
    let body = &body[..received];
    let Some((kind, rest)) = body.split_first() else {
        return Ok(None);
    };
    let number = || rest.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
    let mut one = || if fds.len() == 1 { fds.pop() } else { None };
    let message = match kind {
        b'R' => one().map(Message::Root),
        b'L' => one().map(Message::Listener),
        b'T' => one().map(Message::Terminal),
        b'O' => orders(rest, fds),
        b'N' => network(rest, fds),
        b'Y' => Some(Message::Ready),
        b'G' => Some(Message::Go),
        b'P' => Some(Message::Supplies(fds)),
        b'C' => Some(Message::Leave(fds)),
        b'K' => number().map(Message::Signal),
        b'X' => number().map(|n| Message::Ended(ringfence_sys::Ended::Exited(n))),
        b'S' => number().map(|n| Message::Ended(ringfence_sys::Ended::Signaled(n))),
        b'F' => number().and_then(errno).map(|errno| {
            let part = SetupPart::from_byte(rest.get(4).copied().unwrap_or(u8::MAX));
            let text = String::from_utf8_lossy(rest.get(5..).unwrap_or_default());
            let (step, call) = text.split_once('\0').unwrap_or((&text, ""));
            let error = CallError::new(call, errno);
            Message::Failed(Failure { part, step: step.to_owned(), error })
        }),
        _ => None,
    };
    message.map(Some).ok_or_else(|| CallError::new("recvmsg: unknown message", Errno::PROTO))
}

/// An error number from another process. `None` if it is none: [`Errno::from_raw_os_error`] panics then.
pub(crate) fn errno(number: i32) -> Option<Errno> {
    (1..4096).contains(&number).then(|| Errno::from_raw_os_error(number))
}

fn orders(present: &[u8], fds: Vec<OwnedFd>) -> Option<Message> {
    let present: [u8; 4] = present.try_into().ok()?;
    let expected: usize = present.iter().map(|flag| usize::from(*flag)).sum();
    if fds.len() != 1 + expected || present.iter().any(|flag| *flag > 1) {
        return None;
    }
    let mut fds = fds.into_iter();
    let orders = fds.next()?;
    let [stdin, stdout, stderr, channel] =
        present.map(|flag| if flag == 1 { fds.next() } else { None });
    Some(Message::Orders { orders, stdio: [stdin, stdout, stderr], channel })
}

fn network(present: &[u8], fds: Vec<OwnedFd>) -> Option<Message> {
    let expected: usize = present.iter().map(|flag| usize::from(*flag == 1)).sum();
    if fds.len() != expected {
        return None;
    }
    let mut fds = fds.into_iter();
    let listeners = present.iter().map(|flag| if *flag == 1 { fds.next() } else { None });
    Some(Message::Network(listeners.collect()))
}

fn tagged(kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[kind], rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_peer::{self, Lent};

    #[test]
    fn a_failure_arrives_whole() {
        let (a, b) = pair().unwrap();
        let error = CallError::new("mount(\"proc\")", Errno::PERM);
        for part in SetupPart::ALL {
            let failure = Failure { part, step: "proc".into(), error: error.clone() };
            send(&a, &Message::Failed(failure)).unwrap();
            let Some(Message::Failed(failure)) = receive(&b).unwrap() else { panic!("no failure") };
            assert_eq!((failure.part, failure.step.as_str()), (part, "proc"));
            assert_eq!(failure.error, error);
        }
    }

    #[test]
    fn nonsense_is_an_error_and_a_closed_peer_is_none() {
        let (a, b) = pair().unwrap();
        rustix::io::write(&a, b"?nonsense").unwrap();
        assert!(receive(&b).is_err());
        rustix::io::write(&a, b"R").unwrap();
        assert!(receive(&b).is_err(), "a root without a descriptor");
        rustix::io::write(&a, b"K\x01").unwrap();
        assert!(receive(&b).is_err(), "a number cut short");
        drop(a);
        assert!(receive(&b).unwrap().is_none());
    }

    #[test]
    fn every_message_needs_exactly_its_descriptors_and_the_others_are_closed() {
        let (a, b) = pair().unwrap();
        // The packet, the numbers of descriptors with which it is a message.
        let cases: [(&[u8], &[usize]); 12] = [
            (b"R", &[1]),
            (b"L", &[1]),
            (b"T", &[1]),
            (b"O\0\0\0\0", &[1]),
            (b"O\x01\x01\x01\x01", &[5]),
            (b"O\x02\0\0\0", &[]),
            (b"O\0\0\0\0\0", &[]),
            (b"N\x01\0\x01", &[2]),
            (b"N", &[0]),
            // None is needed, and those that come are closed.
            (b"G", &[0, 1, 2, 3, 5, 253]),
            (b"P", &[0, 1, 2, 3, 5, 253]),
            (b"C", &[0, 1, 2, 3, 5, 253]),
        ];
        for (packet, expected) in cases {
            for n in [0, 1, 2, 3, 5, 253] {
                let lent = Lent::new();
                fake_peer::send(&a, packet, &vec![lent.fd(); n]);
                let is_message = receive(&b).is_ok();
                assert_eq!(is_message, expected.contains(&n), "{packet:?} with {n}");
                lent.check_closed();
            }
        }
    }

    #[test]
    fn numbers_that_are_no_error_are_no_failure() {
        let (a, b) = pair().unwrap();
        for (number, is_one) in
            [(i32::MIN, false), (-1, false), (0, false), (1, true), (4095, true), (4096, false)]
        {
            rustix::io::write(&a, &tagged(b'F', &number.to_ne_bytes())).unwrap();
            assert_eq!(receive(&b).is_ok(), is_one, "{number}");
        }
    }

    #[test]
    fn a_message_longer_than_any_is_cut_off_and_the_next_one_is_whole() {
        let (a, b) = pair().unwrap();
        let step = "x".repeat(100_000);
        let error = CallError::new("call", Errno::PERM);
        send(&a, &Message::Failed(Failure { part: SetupPart::Proc, step, error })).unwrap();
        fake_peer::send(&a, &vec![b'?'; 100_000], &[]);
        send(&a, &Message::Go).unwrap();
        let Some(Message::Failed(failure)) = receive(&b).unwrap() else { panic!("no failure") };
        assert_eq!((failure.part, failure.error.call.as_str()), (SetupPart::Proc, ""));
        assert!(failure.step.len() < BODY_BYTES_MAX);
        assert!(receive(&b).is_err());
        assert!(matches!(receive(&b).unwrap(), Some(Message::Go)));
    }
}
