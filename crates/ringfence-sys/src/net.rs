//! Sockets: interface flags, routes, listeners on every address, addresses as raw bytes, packets that carry descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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

/// Makes every IPv4 and IPv6 address local to this network namespace, so that a listener on the wildcard address accepts
/// connections to any of them: one route of type `local` for everything, on the loopback. Returns false for IPv6 if the
/// kernel has it switched off.
pub fn route_everything_to_loopback() -> Result<RoutedFamilies, CallError> {
    let socket = route_socket()?;
    add_local_route(&socket, libc::AF_INET)?;
    let ipv6 = match add_local_route(&socket, libc::AF_INET6) {
        Ok(()) => true,
        // IPv6 is not compiled in, or `disable_ipv6` is set: then no address of it can be reached at all.
        Err(error)
            if matches!(
                error.errno,
                Errno::ACCESS | Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::PERM
            ) =>
        {
            false
        }
        Err(error) => return Err(error),
    };
    Ok(RoutedFamilies { ipv6 })
}

/// Address families whose every address is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedFamilies {
    /// True if IPv6 is one of them; IPv4 always is.
    pub ipv6: bool,
}

/// The index of `lo`: the kernel makes it first in each network namespace (net/core/dev.c).
const LOOPBACK_INDEX: u32 = 1;

fn route_socket() -> Result<OwnedFd, CallError> {
    // Protocol 0 of this family is NETLINK_ROUTE.
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)
        .named(|| "socket(AF_NETLINK, NETLINK_ROUTE)")
}

/// struct nlmsghdr and struct rtmsg.
const ROUTE_HEADER_BYTES: usize = 16 + 12;

/// Offset of `rtm_type` in a message.
const ROUTE_TYPE_OFFSET: usize = 16 + 7;

/// Sends one rtnetlink(7) message about a route, with one attribute, and returns the answer's type and bytes. The kernel
/// answers before send(2) returns.
fn ask_route(
    socket: &OwnedFd,
    kind: u16,
    flags: libc::c_int,
    route: [u8; 8],
    attribute: (u16, &[u8]),
    call: &dyn Fn() -> String,
) -> Result<(u16, Vec<u8>), CallError> {
    let (attribute, value) = attribute;
    let length = ROUTE_HEADER_BYTES + 4 + value.len();
    let mut message = Vec::with_capacity(length);
    // struct nlmsghdr: length, type, flags, sequence, port.
    message.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&u16::try_from(flags).unwrap_or(0).to_ne_bytes());
    message.extend_from_slice(&1u32.to_ne_bytes());
    message.extend_from_slice(&0u32.to_ne_bytes());
    // struct rtmsg: family, destination length, source length, tos, table, protocol, scope, type; then its flags.
    message.extend_from_slice(&route);
    message.extend_from_slice(&0u32.to_ne_bytes());
    // struct rtattr: length, type, value.
    message.extend_from_slice(&u16::try_from(4 + value.len()).unwrap_or(0).to_ne_bytes());
    message.extend_from_slice(&attribute.to_ne_bytes());
    message.extend_from_slice(value);
    rustix::io::retry_on_intr(|| rustix::net::send(socket, &message, SendFlags::empty()))
        .named(call)?;
    let mut answer = vec![0u8; 4096];
    let (received, _) = rustix::io::retry_on_intr(|| {
        rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT)
    })
    .named(call)?;
    answer.truncate(received);
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    let kind = kind.ok_or_else(|| CallError::new(call(), Errno::PROTO))?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        // struct nlmsgerr follows the header: 0, or a negated errno.
        let code = answer.get(16..20).and_then(|code| code.try_into().ok());
        let code = code.map_or(libc::EPROTO, |code| -i32::from_ne_bytes(code));
        if code != 0 {
            return Err(CallError::new(call(), Errno::from_raw_os_error(code)));
        }
    }
    Ok((kind, answer))
}

/// Adds `local default dev lo table local scope host`.
fn add_local_route(socket: &OwnedFd, family: libc::c_int) -> Result<(), CallError> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let route = [
        u8::try_from(family).unwrap_or(0),
        0,
        0,
        0,
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
    ];
    let interface = LOOPBACK_INDEX.to_ne_bytes();
    let call = || format!("RTM_NEWROUTE(family {family}, local default dev lo)");
    ask_route(socket, libc::RTM_NEWROUTE, flags, route, (libc::RTA_OIF, &interface), &call)
        .map(|_| ())
}

/// The kernel's route to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// To another host.
    Unicast,
    /// The address is this host's own.
    Local,
    /// Broadcast, multicast, blackhole and the like.
    Other,
}

/// Asks the kernel which kind of route it would use for an address now; of IPv4 inside IPv6, for the IPv4 address, which is
/// what it dials.
pub fn route_kind(address: IpAddr) -> Result<RouteKind, CallError> {
    let address = address.to_canonical();
    let (family, bits, bytes) = match address {
        IpAddr::V4(v4) => (libc::AF_INET, 32, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, 128, v6.octets().to_vec()),
    };
    let route = [u8::try_from(family).unwrap_or(0), bits, 0, 0, 0, 0, 0, 0];
    let call = || format!("RTM_GETROUTE({address})");
    let socket = route_socket()?;
    let flags = libc::NLM_F_REQUEST;
    let (kind, answer) =
        ask_route(&socket, libc::RTM_GETROUTE, flags, route, (libc::RTA_DST, &bytes), &call)?;
    match answer.get(ROUTE_TYPE_OFFSET) {
        Some(&libc::RTN_UNICAST) if kind == libc::RTM_NEWROUTE => Ok(RouteKind::Unicast),
        Some(&libc::RTN_LOCAL) if kind == libc::RTM_NEWROUTE => Ok(RouteKind::Local),
        Some(_) if kind == libc::RTM_NEWROUTE => Ok(RouteKind::Other),
        _ => Err(CallError::new(call(), Errno::PROTO)),
    }
}

/// Connections that may wait on one listener.
const BACKLOG: i32 = 4096;

/// Binds a TCP listener to a port of every IPv4 or every IPv6 address. Without `SO_REUSEPORT`: with it, another process
/// of the namespace could bind the same port and take over connections.
pub fn listen_on_every_address(family: IpFamily, port: u16) -> Result<OwnedFd, CallError> {
    let socket = wildcard_socket(family, SocketType::STREAM, port)?;
    rustix::net::listen(&socket, BACKLOG).named(|| format!("listen(port {port})"))?;
    Ok(socket)
}

/// Makes a TCP socket of the calling thread's network namespace, for connections that another process makes.
pub fn stream_socket(family: IpFamily) -> Result<OwnedFd, CallError> {
    let family = match family {
        IpFamily::V4 => AddressFamily::INET,
        IpFamily::V6 => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None).named(|| "socket")
}

/// Binds a UDP socket to a port of every address, which tells the address that each datagram was sent to.
pub fn receive_on_every_address(family: IpFamily, port: u16) -> Result<OwnedFd, CallError> {
    let socket = wildcard_socket(family, SocketType::DGRAM, port)?;
    let (level, option) = match family {
        IpFamily::V4 => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        IpFamily::V6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    set_int(&socket, level, option, 1).map_err(|e| CallError::new("setsockopt(IP_PKTINFO)", e))?;
    // Hundreds of clients may ask at once. Past the host's limit only with CAP_NET_ADMIN in the namespace; else as much
    // as that limit allows.
    let force = set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, DATAGRAM_BUFFER_BYTES);
    if force.is_err() {
        set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, DATAGRAM_BUFFER_BYTES)
            .map_err(|e| CallError::new("setsockopt(SO_RCVBUF)", e))?;
    }
    Ok(socket)
}

/// Room for datagrams that wait: some thousand short ones.
const DATAGRAM_BUFFER_BYTES: libc::c_int = 4 << 20;

fn set_int(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: setsockopt(2) reads one `int`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            socklen(size_of::<libc::c_int>()),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// An address family of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6, without IPv4 addresses mapped into it.
    V6,
}

fn wildcard_socket(family: IpFamily, kind: SocketType, port: u16) -> Result<OwnedFd, CallError> {
    let (domain, address) = match family {
        IpFamily::V4 => (AddressFamily::INET, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        IpFamily::V6 => (AddressFamily::INET6, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(domain, kind, flags, None)
        .named(|| format!("socket({family:?})"))?;
    if family == IpFamily::V6 {
        rustix::net::sockopt::set_ipv6_v6only(&socket, true).named(|| "setsockopt(IPV6_V6ONLY)")?;
    }
    rustix::net::bind(&socket, &SocketAddr::new(address, port))
        .named(|| format!("bind({address}:{port})"))?;
    Ok(socket)
}

/// A datagram and both its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its length in the buffer; a longer one was cut.
    pub length: usize,
    /// Its sender.
    pub from: SocketAddr,
    /// The address it was sent to.
    pub to: IpAddr,
}

/// Aligned room for one `in_pktinfo` or `in6_pktinfo` with its header.
#[repr(C, align(8))]
struct PacketInfoSpace([u8; 64]);

/// Receives one datagram from a socket of [`receive_on_every_address`]. `EAGAIN` if there is none.
pub fn receive_datagram(socket: impl AsFd, buffer: &mut [u8]) -> Result<Datagram, Errno> {
    // SAFETY: plain data for which all zero bytes are a valid value.
    let mut peer: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = PacketInfoSpace([0; 64]);
    // SAFETY: plain data for which all zero bytes are a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = std::ptr::from_mut(&mut peer).cast();
    message.msg_namelen = socklen(size_of::<libc::sockaddr_storage>());
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: every pointer in `message` is to a live buffer of the length beside it.
    let received = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) };
    let length = usize::try_from(received).map_err(|_| last_errno())?;
    let from = socket_address(&peer).ok_or(Errno::AFNOSUPPORT)?;
    let mut to = None;
    // SAFETY: `message` was filled by recvmsg(2), and its control buffer is alive.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a whole header inside the control buffer.
        let found = unsafe { *header };
        let kind = (found.cmsg_level, found.cmsg_type);
        // SAFETY: the data of a header inside the control buffer.
        let data = unsafe { libc::CMSG_DATA(header) };
        if kind == (libc::IPPROTO_IP, libc::IP_PKTINFO) {
            // SAFETY: the kernel writes a whole `in_pktinfo` for this type, at any alignment.
            let info: libc::in_pktinfo = unsafe { std::ptr::read_unaligned(data.cast()) };
            to = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
        } else if kind == (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) {
            // SAFETY: the kernel writes a whole `in6_pktinfo` for this type, at any alignment.
            let info: libc::in6_pktinfo = unsafe { std::ptr::read_unaligned(data.cast()) };
            to = Some(IpAddr::from(info.ipi6_addr.s6_addr));
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(Datagram { length, from, to: to.ok_or(Errno::PROTO)? })
}

/// Answers a datagram from the address it was sent to: a client whose socket is connected accepts no other.
pub fn answer_datagram(socket: impl AsFd, bytes: &[u8], asked: &Datagram) -> Result<(), Errno> {
    let mut control = PacketInfoSpace([0; 64]);
    // SAFETY: plain data for which all zero bytes are a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the control buffer is longer than a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: as above.
    let data = unsafe { libc::CMSG_DATA(header) };
    let (level, kind, size) = match asked.to {
        IpAddr::V4(to) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(to.octets()) },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            // SAFETY: the buffer holds a header and 48 more bytes.
            unsafe { std::ptr::write_unaligned(data.cast(), info) };
            (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>())
        }
        IpAddr::V6(to) => {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr { s6_addr: to.octets() },
                ipi6_ifindex: 0,
            };
            // SAFETY: the buffer holds a header and 48 more bytes.
            unsafe { std::ptr::write_unaligned(data.cast(), info) };
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>())
        }
    };
    let size = u32::try_from(size).unwrap_or(0);
    // SAFETY: CMSG_LEN only computes.
    let length = unsafe { libc::CMSG_LEN(size) };
    // SAFETY: CMSG_SPACE only computes.
    let space = unsafe { libc::CMSG_SPACE(size) };
    // SAFETY: plain data for which all zero bytes are a valid value.
    let mut own: libc::cmsghdr = unsafe { std::mem::zeroed() };
    (own.cmsg_level, own.cmsg_type, own.cmsg_len) = (level, kind, length as _);
    // SAFETY: a header inside the control buffer, as above.
    unsafe { *header = own };
    message.msg_controllen = space as _;
    let (name, name_length) = raw_address(asked.from);
    message.msg_name = std::ptr::from_ref(&name).cast_mut().cast();
    message.msg_namelen = name_length;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: sendmsg(2) reads from buffers that are alive and as long as `message` says.
    let sent =
        unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if sent < 0 { Err(last_errno()) } else { Ok(()) }
}

fn socklen(size: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(size).unwrap_or(0)
}

fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}

fn socket_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: `sockaddr_storage` is aligned for, and larger than, every socket address.
            let a: &libc::sockaddr_in = unsafe { &*std::ptr::from_ref(storage).cast() };
            let ip = IpAddr::from(a.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(a.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let a: &libc::sockaddr_in6 = unsafe { &*std::ptr::from_ref(storage).cast() };
            Some(SocketAddr::new(IpAddr::from(a.sin6_addr.s6_addr), u16::from_be(a.sin6_port)))
        }
        _ => None,
    }
}

fn raw_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: plain data for which all zero bytes are a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: `sockaddr_storage` is aligned for, and larger than, every socket address.
            let a: &mut libc::sockaddr_in =
                unsafe { &mut *std::ptr::from_mut(&mut storage).cast() };
            a.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
            a.sin_port = v4.port().to_be();
            a.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            (storage, socklen(size_of::<libc::sockaddr_in>()))
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above.
            let a: &mut libc::sockaddr_in6 =
                unsafe { &mut *std::ptr::from_mut(&mut storage).cast() };
            a.sin6_family = libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or(0);
            a.sin6_port = v6.port().to_be();
            a.sin6_addr.s6_addr = v6.ip().octets();
            (storage, socklen(size_of::<libc::sockaddr_in6>()))
        }
    }
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
    Err(last_errno())
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
    send_packet_with(socket, parts, fds, space, SendFlags::empty())
}

/// Sends one packet with these flags: `DONTWAIT` fails with EAGAIN if the other side has not read the last ones.
pub fn send_packet_with(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    fds: &[BorrowedFd<'_>],
    space: &mut [MaybeUninit<u8>],
    flags: SendFlags,
) -> Result<(), CallError> {
    let mut ancillary = SendAncillaryBuffer::new(space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(CallError::new("sendmsg with too many descriptors", Errno::TOOBIG));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, parts, &mut ancillary, SendFlags::NOSIGNAL | flags)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_its_own_addresses_from_others() {
        for (address, kind) in [
            ("127.0.0.1", RouteKind::Local),
            ("127.3.2.1", RouteKind::Local),
            ("::1", RouteKind::Local),
            ("::ffff:127.0.0.1", RouteKind::Local),
        ] {
            assert_eq!(route_kind(address.parse().unwrap()).unwrap(), kind, "{address}");
        }
        // Unreachable on a host without a network, and never this host's own.
        let elsewhere = route_kind("192.0.2.1".parse().unwrap());
        assert!(!matches!(elsewhere, Ok(RouteKind::Local)), "{elsewhere:?}");
    }

    #[test]
    fn a_datagram_is_answered_from_the_address_it_was_sent_to() {
        let cases = [
            (IpFamily::V4, "127.0.0.1:0", IpAddr::from([127, 0, 0, 7])),
            (IpFamily::V6, "[::1]:0", IpAddr::from(Ipv6Addr::LOCALHOST)),
        ];
        for (family, client, to) in cases {
            let server = receive_on_every_address(family, 0).unwrap();
            let port = rustix::net::getsockname(&server).unwrap();
            let port = SocketAddr::try_from(port).unwrap().port();
            let client = std::net::UdpSocket::bind(client).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            client.connect((to, port)).unwrap();
            client.send(b"question").unwrap();
            let mut buffer = [0; 64];
            let mut fds = [rustix::event::PollFd::new(&server, rustix::event::PollFlags::IN)];
            let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
            rustix::event::poll(&mut fds, Some(&patience)).unwrap();
            let asked = receive_datagram(&server, &mut buffer).unwrap();
            assert_eq!((&buffer[..asked.length], asked.to), (&b"question"[..], to));
            assert_eq!(asked.from, client.local_addr().unwrap());
            answer_datagram(&server, b"answer", &asked).unwrap();
            let n = client.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..n], b"answer");
            assert_eq!(receive_datagram(&server, &mut buffer), Err(Errno::AGAIN));
        }
    }
}
