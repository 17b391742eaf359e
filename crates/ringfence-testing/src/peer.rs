//! The other end of what a test drives: packets with descriptors, a descriptor that tells whether it was closed, and a bound on
//! the work under test.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::pipe::PipeFlags;

use crate::TimeLimit;

/// More than any test of one call needs, on a loaded machine; a wait without a bound takes longer.
pub const SOON: Duration = Duration::from_secs(20);

/// Does something that must not take longer than [`SOON`].
///
/// # Panics
///
/// If it did. Ends the process, should the work never end.
#[track_caller]
pub fn soon<T>(work: impl FnOnce() -> T) -> T {
    let _limit = TimeLimit::new();
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    done
}

/// Sends a packet, empty ones included.
///
/// # Panics
///
/// If it cannot be sent.
#[track_caller]
pub fn send_packet(socket: impl AsFd, packet: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    let parts = [IoSlice::new(packet)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
}

/// Closes a socket so that its peer sees the end at once. Closing alone may not do that: a process that another test starts
/// meanwhile has a copy until it executes its program.
pub fn hang_up(socket: OwnedFd) {
    let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
    drop(socket);
}

/// A descriptor to send away. Tells whether every copy of it was closed.
#[derive(Debug)]
pub struct Lent {
    ours: OwnedFd,
    lent: OwnedFd,
}

impl Lent {
    /// A descriptor of which there is one copy.
    ///
    /// # Panics
    ///
    /// If there are no descriptors left.
    #[expect(clippy::new_without_default, reason = "it makes a pipe")]
    pub fn new() -> Self {
        let (ours, lent) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        Self { ours, lent }
    }

    /// The descriptor to send.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.lent.as_fd()
    }

    /// Closes the own copy. The hang-up of a pipe comes with the last one.
    ///
    /// # Panics
    ///
    /// If another copy is still open after [`SOON`].
    #[track_caller]
    pub fn check_closed(self) {
        drop(self.lent);
        let patience = Timespec::try_from(SOON).unwrap();
        let mut fds = [PollFd::new(&self.ours, PollFlags::IN)];
        let n = rustix::event::poll(&mut fds, Some(&patience)).unwrap();
        assert!(n > 0, "a descriptor is left open");
    }
}
