//! Frames between the host and the guest: one packet each, its first byte its kind, with a few descriptors.
//! Whatever comes from inside is bounded here and judged by whoever reads it.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_sys::{CallError, Named};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// The longest frame either side sends.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 18;

/// Bytes of a file or of code that go into one frame: what a socket takes at once with the kernel's default buffer.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Descriptors that one frame may carry.
const FDS_MAX: usize = 4;

/// A connected pair.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), CallError> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .named(|| "socketpair(AF_UNIX, SOCK_SEQPACKET)")
}

/// Sends one frame: its kind, its body, descriptors.
pub(crate) fn send(
    socket: impl AsFd,
    kind: u8,
    body: &[&[u8]],
    fds: &[BorrowedFd<'_>],
) -> Result<(), CallError> {
    let kind = [kind];
    let mut slices = vec![IoSlice::new(&kind)];
    slices.extend(body.iter().map(|part| IoSlice::new(part)));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(CallError::new("sendmsg with too many descriptors", rustix::io::Errno::TOOBIG));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, &slices, &mut ancillary, SendFlags::NOSIGNAL)
    })
    .map(|_| ())
    .named(|| "sendmsg")
}

/// One frame that was received.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Its first byte.
    pub(crate) kind: u8,
    /// The rest.
    pub(crate) body: Vec<u8>,
    /// Descriptors that came with it.
    pub(crate) fds: Vec<OwnedFd>,
}

/// Receives one frame; `None` when the other side is gone. Waits if the socket does.
pub(crate) fn receive(socket: impl AsFd, flags: RecvFlags) -> Result<Option<Frame>, CallError> {
    let mut body: Vec<u8> = Vec::with_capacity(4096);
    let mut fds = Vec::new();
    // Most frames are short; a longer one is asked for its length first.
    let length = rustix::io::retry_on_intr(|| {
        rustix::net::recv(&socket, &mut [0u8; 1][..], flags | RecvFlags::PEEK | RecvFlags::TRUNC)
    })
    .named(|| "recv(MSG_PEEK)")?;
    let length = length.1.min(FRAME_BYTES_MAX);
    body.resize(length.max(1), 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut body)],
            &mut ancillary,
            flags | RecvFlags::CMSG_CLOEXEC,
        )
    })
    .named(|| "recvmsg")?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    body.truncate(received.bytes);
    if body.is_empty() {
        return Ok(None);
    }
    let kind = body.remove(0);
    Ok(Some(Frame { kind, body, fds }))
}
