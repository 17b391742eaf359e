//! Frames between the host and the guest: one packet each, the first byte its kind, with a few descriptors. Frames from
//! the guest are bounded here and checked by their reader.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

pub(crate) use ringfence_sys::packet_pair as pair;
use ringfence_sys::{CallError, Named};
use rustix::event::PollFlags;
use rustix::io::Errno;
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

/// Sends one frame; waits for a guest that has not read the last ones, at most until `deadline`.
pub(crate) fn send_by(
    socket: impl AsFd,
    kind: u8,
    body: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    deadline: Instant,
) -> Result<(), CallError> {
    send_while(&socket, kind, body, fds, || {
        ringfence_sys::ready_by(&socket, PollFlags::OUT, deadline)
    })
}

/// Sends one frame; waits by `wait` for a guest that has not read the last ones, until that returns false.
pub(crate) fn send_while(
    socket: impl AsFd,
    kind: u8,
    body: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    wait: impl Fn() -> Result<bool, CallError>,
) -> Result<(), CallError> {
    loop {
        match send_now(&socket, kind, body, fds) {
            Err(error) if error.errno == Errno::AGAIN => {}
            sent => return sent,
        }
        if !wait()? {
            return Err(CallError::new("sendmsg: the guest does not read", Errno::TIMEDOUT));
        }
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fake_peer::{self, Lent, hang_up, soon};

    #[test]
    fn a_frame_of_a_guest_is_cut_off_at_its_bound() {
        let (ours, guests) = pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&guests, 4 << 20).unwrap();
        let most = rustix::net::sockopt::socket_send_buffer_size(&guests).unwrap();
        // As large as this host lets a guest send at once.
        let frame = vec![b'x'; most / 2];
        fake_peer::send(&guests, &frame, &[]);
        fake_peer::send(&guests, &frame, &[]);
        let heard = receive(&ours, RecvFlags::DONTWAIT).unwrap().unwrap();
        assert_eq!(heard.body.len(), frame.len().min(FRAME_BYTES_MAX) - 1);
        let heard = receive_short(&ours).unwrap().unwrap();
        assert_eq!((heard.kind, heard.body.len()), (b'x', SHORT_BYTES - 1));
        // Nothing of the parts that were cut off is left.
        assert_eq!(receive_short(&ours).unwrap_err().errno, Errno::AGAIN);
    }

    #[test]
    fn descriptors_beyond_the_bound_never_arrive_and_the_others_are_closed() {
        let (ours, guests) = pair().unwrap();
        for n_sent in [0, 1, 4, 5, 6, 253] {
            let lent = Lent::new();
            for _ in 0..2 {
                fake_peer::send(&guests, b"W", &vec![lent.fd(); n_sent]);
            }
            let long = receive(&ours, RecvFlags::DONTWAIT).unwrap().unwrap();
            let short = receive_short(&ours).unwrap().unwrap();
            // The padding of the buffer has room for a few more.
            for n in [long.fds.len(), short.fds.len()] {
                assert!(n == n_sent || (n_sent > FDS_MAX && n <= FDS_MAX + 2), "{n} of {n_sent}");
            }
            drop((long, short));
            lent.check_closed();
        }
    }

    #[test]
    fn an_empty_packet_and_a_closed_end_are_the_end() {
        let (ours, guests) = pair().unwrap();
        let lent = Lent::new();
        for _ in 0..2 {
            fake_peer::send(&guests, b"", &[lent.fd()]);
        }
        assert!(receive(&ours, RecvFlags::DONTWAIT).unwrap().is_none());
        assert!(receive_short(&ours).unwrap().is_none());
        lent.check_closed();
        hang_up(guests);
        assert!(soon(|| receive(&ours, RecvFlags::empty())).unwrap().is_none());
        assert!(receive_short(&ours).unwrap().is_none());
        assert_eq!(send_now(&ours, b'K', &[], &[]).unwrap_err().errno, Errno::PIPE);
    }

    #[test]
    fn a_guest_that_does_not_read_is_waited_for_until_the_deadline() {
        let (ours, guests) = pair().unwrap();
        let chunk = vec![0; CHUNK_BYTES];
        while send_now(&ours, b'S', &[&chunk], &[]).is_ok() {}
        let lent = Lent::new();
        let within = |ms| Instant::now() + Duration::from_millis(ms);
        let sent = soon(|| send_by(&ours, b'S', &[b"x"], &[lent.fd()], within(50)));
        assert_eq!(sent.unwrap_err().errno, Errno::TIMEDOUT);
        lent.check_closed();
        let reading = std::thread::spawn(move || {
            let mut frames = std::iter::from_fn(|| receive(&guests, RecvFlags::empty()).ok()?);
            let last = frames.find(|frame| frame.kind == b'!');
            hang_up(guests);
            last.map(|frame| frame.body).unwrap_or_default()
        });
        soon(|| send_by(&ours, b'!', &[b"at last"], &[], within(20_000))).unwrap();
        assert_eq!(reading.join().unwrap(), b"at last");
        let sent = soon(|| send_by(&ours, b'S', &[], &[], within(20_000)));
        assert_eq!(sent.unwrap_err().errno, Errno::PIPE);
    }
}
