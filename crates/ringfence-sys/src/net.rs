//! What we ask of sockets: interface flags, addresses as raw bytes, packets that carry descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::{CallError, Named};

/// Brings the loopback of this network namespace up.
pub fn loopback_up() -> Result<(), CallError> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
        .named(|| "socket(AF_INET, SOCK_DGRAM)")?;
    // SAFETY: `ifreq` is plain data for which all zero bytes are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
        // `c_char` is signed on some processors and not on others; ASCII fits both.
        *slot = libc::c_char::try_from(*byte).unwrap_or(0);
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which outlives the call.
    let result = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, std::ptr::from_ref(&request))
    };
    if result == 0 { Ok(()) } else { Err(CallError::last("ioctl(SIOCSIFFLAGS, lo, IFF_UP)")) }
}

/// Connects a socket to an address given as the bytes another process passed to connect(2).
pub fn connect_raw(socket: impl AsFd, address: &[u8]) -> Result<(), Errno> {
    let fd = socket.as_fd().as_raw_fd();
    let length = libc::socklen_t::try_from(address.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel copies `length` bytes from `address`, which is that long, and checks their meaning itself.
    let result = unsafe { libc::connect(fd, address.as_ptr().cast(), length) };
    if result == 0 {
        return Ok(());
    }
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Err(Errno::from_raw_os_error(code))
}

/// A connected pair of sockets that keep packets apart, each end closed by exec.
pub fn packet_pair() -> Result<(OwnedFd, OwnedFd), CallError> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .named(|| "socketpair(AF_UNIX, SOCK_SEQPACKET)")
}

/// Sends one packet with descriptors. `space` is `cmsg_space!` for as many as it may carry.
pub fn send_packet(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    fds: &[BorrowedFd<'_>],
    space: &mut [MaybeUninit<u8>],
) -> Result<(), CallError> {
    let mut ancillary = SendAncillaryBuffer::new(space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(CallError::new("sendmsg with too many descriptors", Errno::TOOBIG));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, parts, &mut ancillary, SendFlags::NOSIGNAL)
    })
    .map(|_| ())
    .named(|| "sendmsg")
}

/// Receives one packet into `body`: how long it was, 0 when the other side is gone, and the descriptors that came with it,
/// no more of them than `space` is for.
pub fn receive_packet(
    socket: impl AsFd,
    body: &mut [u8],
    space: &mut [MaybeUninit<u8>],
    flags: RecvFlags,
) -> Result<(usize, Vec<OwnedFd>), CallError> {
    let mut ancillary = RecvAncillaryBuffer::new(space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(body)], &mut ancillary, flags)
    })
    .named(|| "recvmsg")?;
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            fds.extend(more);
        }
    }
    Ok((received.bytes, fds))
}
