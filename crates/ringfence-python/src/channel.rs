//! Frames between the host and the guest: one packet each, the first byte its kind, with a few descriptors. Frames from
//! the guest are bounded here and checked by their reader.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) use ringfence_sys::packet_pair as pair;
use ringfence_sys::{CallError, Named};
use rustix::net::{RecvFlags, SendFlags};

/// Maximum size of a frame.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 18;

/// Bytes of a file or of code in one frame: as many as a socket takes at once with the kernel's default buffer.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Maximum number of descriptors in a frame from the guest.
const FDS_MAX: usize = 4;

/// Maximum number of descriptors in a frame to the guest; `guest/speedups.py` and the code of its loop have room for as
/// many.
pub(crate) const FDS_SENT_MAX: usize = 32;

/// Room for the frames of a worker before its program: `W`, `L`, `R`, and the reason of an `E`.
const SHORT_BYTES: usize = 512;

/// Sends one frame: its kind, its body, descriptors.
pub(crate) fn send(
    socket: impl AsFd,
    kind: u8,
    body: &[&[u8]],
    fds: &[BorrowedFd<'_>],
) -> Result<(), CallError> {
    send_with(socket, kind, body, fds, SendFlags::empty())
}

/// Sends one frame to a guest that waits for it; fails if it has not read the last ones.
pub(crate) fn send_now(
    socket: impl AsFd,
    kind: u8,
    body: &[&[u8]],
    fds: &[BorrowedFd<'_>],
) -> Result<(), CallError> {
    send_with(socket, kind, body, fds, SendFlags::DONTWAIT)
}

fn send_with(
    socket: impl AsFd,
    kind: u8,
    body: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), CallError> {
    let kind = [kind];
    let parts: Vec<IoSlice<'_>> =
        std::iter::once(&kind[..]).chain(body.iter().copied()).map(IoSlice::new).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_SENT_MAX))];
    ringfence_sys::send_packet_with(socket, &parts, fds, &mut space, flags)
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

/// Receives one frame without waiting, cut off after [`SHORT_BYTES`]; `None` if the other side is gone.
pub(crate) fn receive_short(socket: impl AsFd) -> Result<Option<Frame>, CallError> {
    let mut bytes = [0; SHORT_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let (n, fds) =
        ringfence_sys::receive_packet(socket, &mut bytes, &mut space, RecvFlags::DONTWAIT)?;
    let frame = bytes[..n.min(SHORT_BYTES)].split_first();
    Ok(frame.map(|(kind, body)| Frame { kind: *kind, body: body.to_vec(), fds }))
}

/// Receives one frame; `None` if the other side is gone. Waits if the socket blocks.
pub(crate) fn receive(socket: impl AsFd, flags: RecvFlags) -> Result<Option<Frame>, CallError> {
    // Frames differ in length by four orders of magnitude, so the length is read first.
    let (_, length) = rustix::io::retry_on_intr(|| {
        rustix::net::recv(&socket, &mut [0u8; 1][..], flags | RecvFlags::PEEK | RecvFlags::TRUNC)
    })
    .named(|| "recv(MSG_PEEK)")?;
    let mut body = vec![0; length.clamp(1, FRAME_BYTES_MAX)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let (received, fds) = ringfence_sys::receive_packet(socket, &mut body, &mut space, flags)?;
    body.truncate(received);
    if body.is_empty() {
        return Ok(None);
    }
    let kind = body.remove(0);
    Ok(Some(Frame { kind, body, fds }))
}
