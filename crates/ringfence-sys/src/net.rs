//! Two things about sockets that rustix does not do: interface flags and addresses as raw bytes.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

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
