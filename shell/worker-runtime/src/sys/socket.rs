//! Sockets: making, binding, connecting, and plain sends and receives.

use super::{RawAddr, check, check_len, check_long, errno};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Bytes of a stream that wait in the kernel before it takes no more, besides what is on its way to the peer.
const UNSENT: libc::c_int = 32 << 10;

/// What is asked of a new socket.
#[derive(Clone, Copy, Default)]
pub struct SocketOptions {
    /// Bytes of kernel receive buffer; zero leaves the kernel's own choice.
    pub receive_buffer: usize,
    /// Bytes of kernel send buffer; zero leaves the kernel's own choice.
    pub send_buffer: usize,
    /// How long sent bytes may stay unacknowledged before the kernel gives the connection up,
    /// in milliseconds; zero leaves the kernel's own choice (about 15 minutes). Streams only.
    pub user_timeout_ms: u32,
    /// Length of the queue of connections not yet accepted. Listening sockets only.
    pub backlog: i32,
}

pub(super) fn new_socket(
    family: &SocketAddr,
    kind: libc::c_int,
    protocol: libc::c_int,
) -> io::Result<OwnedFd> {
    let domain = if family.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the descriptor returned is ours alone.
    let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(domain, kind, protocol))?) };
    if domain == libc::AF_INET6 {
        set(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    Ok(fd)
}

pub(super) fn set(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` bytes during the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), len) })?;
    Ok(())
}

fn get(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes during the call.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Whether the kernel has an option.
pub(super) fn knows(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> bool {
    get(fd, level, name).is_ok()
}

pub(super) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::new(address);
    // SAFETY: `raw` is readable for its length during the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), raw.as_ptr(), raw.len()) })?;
    Ok(())
}

/// Asks for a buffer size, beyond the system's limit if the process may, and answers what it got.
/// Less than asked is no error.
fn buffer(fd: BorrowedFd<'_>, name: libc::c_int, force: libc::c_int, bytes: usize) -> usize {
    let wanted = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if wanted > 0 && set(fd, libc::SOL_SOCKET, force, wanted).is_err() {
        let _ = set(fd, libc::SOL_SOCKET, name, wanted);
    }
    size(fd, name)
}

/// The size of a buffer as it was asked for: the kernel doubles the figure for its own bookkeeping and says
/// the doubled one.
fn size(fd: BorrowedFd<'_>, name: libc::c_int) -> usize {
    get(fd, libc::SOL_SOCKET, name).map_or(0, |n| usize::try_from(n / 2).unwrap_or(0))
}

pub(super) fn set_buffers(fd: BorrowedFd<'_>, options: &SocketOptions) -> (usize, usize) {
    let receive = buffer(fd, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, options.receive_buffer);
    let send = buffer(fd, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, options.send_buffer);
    (receive, send)
}

/// The size of the receive buffer, as it would be asked for.
pub fn receive_buffer(fd: BorrowedFd<'_>) -> usize {
    size(fd, libc::SO_RCVBUF)
}

/// Asks for a larger receive buffer, beyond the system's limit if the process may, and answers what it has
/// then.
pub fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> usize {
    buffer(fd, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, bytes)
}

/// A datagram socket on `address`, shared with the other workers' by `SO_REUSEPORT`, and the receive
/// and send buffer sizes it got, in bytes.
pub fn udp_bind(address: SocketAddr, options: &SocketOptions) -> io::Result<(OwnedFd, usize, usize)> {
    let fd = new_socket(&address, libc::SOCK_DGRAM, 0)?;
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    let (receive, send) = set_buffers(fd.as_fd(), options);
    // Both only help, so a kernel that has not got them is no hindrance.
    let _ = match address {
        SocketAddr::V4(_) => set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        SocketAddr::V6(_) => set(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    };
    let _ = set_fragments(fd.as_fd(), false);
    bind(fd.as_fd(), address)?;
    Ok((fd, receive, send))
}

/// Connects a datagram socket: it receives datagrams of `peer` alone, before other sockets at its address,
/// and [`send`] sends there.
pub fn udp_connect(fd: BorrowedFd<'_>, peer: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::new(peer);
    // SAFETY: `raw` is readable for its length during the call.
    check(unsafe { libc::connect(fd.as_raw_fd(), raw.as_ptr(), raw.len()) })?;
    Ok(())
}

/// `UDP_GRO` of udp(7), which the `libc` crate does not name for every system.
pub(super) const UDP_GRO: libc::c_int = 104;

/// Lets the kernel join datagrams of one length from one sender (udp(7), `UDP_GRO`), for
/// [`RecvBatch::messages`](super::RecvBatch::messages) to part. Kernels before 5.0 cannot.
pub fn ask_to_join(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::IPPROTO_UDP, UDP_GRO, 1)
}

/// Has the kernel note when each datagram came (socket(7), `SO_TIMESTAMPNS`), for
/// [`RecvBatch::stamp`](super::RecvBatch::stamp).
pub fn ask_for_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Whether the datagrams of an IPv4 socket may leave in fragments (ip(7), `IP_MTU_DISCOVER`). Where
/// they may not, the kernel refuses what is longer than the path takes with `EMSGSIZE`, and saves
/// itself the choice of an identification for each of the others, which says nothing about a
/// datagram that is never cut (RFC 6864 section 4.1).
fn set_fragments(fd: BorrowedFd<'_>, allowed: bool) -> io::Result<()> {
    let value = if allowed { libc::IP_PMTUDISC_WANT } else { libc::IP_PMTUDISC_DO };
    set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value)
}

/// As [`send_to`], or [`send`] without an address, in fragments if need be. Dearer by two system calls.
pub fn send_in_fragments(fd: BorrowedFd<'_>, bytes: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
    let plainly = || match to {
        Some(to) => send_to(fd, bytes, to),
        None => send(fd, bytes),
    };
    if to.map_or_else(|| local_addr(fd), Ok)?.is_ipv6() {
        return plainly();
    }
    set_fragments(fd, true)?;
    let sent = plainly();
    set_fragments(fd, false)?;
    sent
}

/// Fails if a datagram socket holds `address` already, and answers it with a free port in place of
/// port 0. `SO_REUSEPORT` would let two servers of one user share a port and each lose half of the
/// traffic, even where the port was the kernel's choice; a plain bind does not.
pub fn udp_probe(address: SocketAddr) -> io::Result<SocketAddr> {
    let fd = new_socket(&address, libc::SOCK_DGRAM, 0)?;
    bind(fd.as_fd(), address)?;
    local_addr(fd.as_fd())
}

/// As [`udp_probe`], for listening stream sockets. Connections of an earlier server that wait out
/// their last minute are no hindrance.
pub fn tcp_probe(address: SocketAddr) -> io::Result<SocketAddr> {
    let fd = new_socket(&address, libc::SOCK_STREAM, 0)?;
    if address.port() != 0 {
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    bind(fd.as_fd(), address)?;
    local_addr(fd.as_fd())
}

fn set_stream_options(fd: BorrowedFd<'_>, options: &SocketOptions) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    // What the peer's window has no room for waits here, where it is known who waits: in the kernel it would
    // be megabytes. Kernels before 3.12 have not got it.
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, UNSENT);
    set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    if options.user_timeout_ms > 0 {
        let ms = libc::c_int::try_from(options.user_timeout_ms).unwrap_or(libc::c_int::MAX);
        set(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ms)?;
    }
    // Zero means automatic here, so only a wish is passed on.
    if options.receive_buffer > 0 || options.send_buffer > 0 {
        set_buffers(fd, options);
    }
    Ok(())
}

/// A listening stream socket on `address`, shared with the other workers' by `SO_REUSEPORT`.
/// Accepted connections inherit its options.
pub fn tcp_listen(address: SocketAddr, options: &SocketOptions) -> io::Result<OwnedFd> {
    let fd = new_socket(&address, libc::SOCK_STREAM, 0)?;
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    set_stream_options(fd.as_fd(), options)?;
    bind(fd.as_fd(), address)?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), options.backlog.max(1)) })?;
    Ok(fd)
}

/// Begins a connection to `remote` from the address `local` and a port of the kernel's choice.
/// The outcome is known when the socket becomes writable; [`take_error`] says it.
pub fn tcp_connect(local: IpAddr, remote: SocketAddr, options: &SocketOptions) -> io::Result<OwnedFd> {
    let fd = new_socket(&remote, libc::SOCK_STREAM, 0)?;
    set_stream_options(fd.as_fd(), options)?;
    if !local.is_unspecified() {
        // The port is chosen at connect, per destination, so that many connections fit one address.
        set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        bind(fd.as_fd(), SocketAddr::new(local, 0))?;
    }
    connect(fd.as_fd(), remote)?;
    Ok(fd)
}

/// Begins to connect a stream.
pub(super) fn connect(fd: BorrowedFd<'_>, remote: SocketAddr) -> io::Result<()> {
    let raw = RawAddr::new(remote);
    // SAFETY: `raw` is readable for its length during the call.
    match check(unsafe { libc::connect(fd.as_raw_fd(), raw.as_ptr(), raw.len()) }) {
        Ok(_) => Ok(()),
        Err(error) if errno(&error) == libc::EINPROGRESS => Ok(()),
        Err(error) => Err(error),
    }
}

/// One waiting connection of a listening socket.
pub fn accept(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut raw = RawAddr::empty();
    let (name, len) = (raw.as_mut_ptr(), raw.len_mut_ptr());
    // SAFETY: `raw` is writable for the room it names; the descriptor returned is ours alone.
    let accepted = unsafe {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::accept4(fd.as_raw_fd(), name, len, flags))?)
    };
    let peer = raw.get().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    Ok((accepted, peer))
}

/// The address a socket is bound to.
pub(super) fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut raw = RawAddr::empty();
    let (name, len) = (raw.as_mut_ptr(), raw.len_mut_ptr());
    // SAFETY: `raw` is writable for the room it names.
    check(unsafe { libc::getsockname(fd.as_raw_fd(), name, len) })?;
    raw.get().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// The error a socket holds, if any; asking clears it.
pub fn take_error(fd: BorrowedFd<'_>) -> io::Result<()> {
    match get(fd, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Reads from a stream without waiting. Zero is the end of it.
pub fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: `buffer` is writable for its length.
    check_len(unsafe {
        libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT)
    })
}

/// Whether the peer of a stream has ended its direction and everything before was read. It takes nothing.
///
/// # Errors
/// Those of the socket; that nothing has come is one.
pub fn is_at_end(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut byte = [0u8];
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: `byte` is writable for its length.
    check_len(unsafe { libc::recv(fd.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len(), flags) })
        .map(|n| n == 0)
}

/// Writes to a stream or a connected datagram socket without waiting and without a signal.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let nobody = std::ptr::null::<libc::sockaddr>();
    // SAFETY: `bytes` is readable for its length; the arguments are those of sendto(2), without an address.
    check_long(unsafe {
        let (data, len) = (bytes.as_ptr(), bytes.len());
        libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), data, len, flags, nobody, 0)
    })
}

/// Receives one datagram without waiting.
///
/// This call, [`send`] and [`send_to`] are made for every message. They go past the C library's own
/// functions, which are points where a thread may be cancelled and pay for that on the way in and out; nobody
/// cancels threads here.
pub fn recv_from(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    let mut raw = RawAddr::empty();
    let (name, len) = (raw.as_mut_ptr(), raw.len_mut_ptr());
    // SAFETY: `buffer` and `raw` are writable for the lengths they name; the arguments are those of
    // recvfrom(2).
    let n = check_long(unsafe {
        let (data, room) = (buffer.as_mut_ptr(), buffer.len());
        libc::syscall(libc::SYS_recvfrom, fd.as_raw_fd(), data, room, libc::MSG_DONTWAIT, name, len)
    })?;
    let from = raw.get().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    Ok((n, from))
}

/// Sends one datagram without waiting.
pub fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
    let raw = RawAddr::new(to);
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` and `raw` are readable for their lengths; the arguments are those of sendto(2).
    check_long(unsafe {
        let (data, len) = (bytes.as_ptr(), bytes.len());
        libc::syscall(libc::SYS_sendto, fd.as_raw_fd(), data, len, flags, raw.as_ptr(), raw.len())
    })
}

/// Tells the peer that nothing more will come.
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) })?;
    Ok(())
}

/// Makes the close of a connection a reset, so that it leaves nothing behind in the kernel.
pub fn reset_on_close(fd: BorrowedFd<'_>) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let len = size_of::<libc::linger>() as libc::socklen_t;
    let value = (&raw const linger).cast();
    // SAFETY: `linger` is readable for `len` bytes. A failure only makes the close an ordinary one.
    let _ = check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, len) });
}

/// What the kernel says of a socket's receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Bytes that wait, as the kernel counts them: with what it needs around them, and what was taken given
    /// back in large steps.
    pub waiting: u32,
    /// How many datagrams it has dropped because the buffer was full or a filter said so, modulo 2^32.
    pub drops: u32,
}

/// What waits in a socket, and what was lost (sock(7), `SO_MEMINFO`; `include/uapi/linux/sock_diag.h` numbers
/// its fields). All of it is zero where the kernel does not say.
pub fn received(fd: BorrowedFd<'_>) -> Received {
    const SK_MEMINFO_RMEM_ALLOC: usize = 0;
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0u32; 16];
    let mut len = size_of_val(&info) as libc::socklen_t;
    let value = info.as_mut_ptr().cast();
    // SAFETY: `info` is writable for `len` bytes.
    let result = check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, value, &raw mut len)
    });
    match result {
        Ok(_) => Received { waiting: info[SK_MEMINFO_RMEM_ALLOC], drops: info[SK_MEMINFO_DROPS] },
        Err(_) => Received::default(),
    }
}

/// What went over a TCP connection.
#[derive(Clone, Copy, Default, Debug)]
pub struct Traffic {
    /// Since data came or were sent last.
    pub idle: Duration,
    /// Bytes received.
    pub received: u64,
    /// Bytes that the peer has acknowledged.
    pub acknowledged: u64,
}

/// What the kernel counts of a TCP connection (tcp(7), `TCP_INFO`; `struct tcp_info` in
/// `include/uapi/linux/tcp.h`). All of it is zero where the kernel does not say.
pub fn traffic(fd: BorrowedFd<'_>) -> Traffic {
    /// Places of 32-bit fields.
    const LAST_DATA_SENT: usize = 11;
    const LAST_DATA_RECV: usize = 13;
    /// Places of 64-bit fields.
    const BYTES_ACKED: usize = 15;
    const BYTES_RECEIVED: usize = 16;
    let mut info = [0u64; 32];
    let mut len = size_of_val(&info) as libc::socklen_t;
    let value = info.as_mut_ptr().cast();
    // SAFETY: `info` is writable for `len` bytes.
    let asked =
        unsafe { libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, value, &raw mut len) };
    if check(asked).is_err() {
        return Traffic::default();
    }
    let half = |at: usize| {
        let bytes = info[at / 2].to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = bytes;
        u32::from_ne_bytes(if at.is_multiple_of(2) { [a, b, c, d] } else { [e, f, g, h] })
    };
    let idle = half(LAST_DATA_SENT).min(half(LAST_DATA_RECV));
    Traffic {
        idle: Duration::from_millis(idle.into()),
        received: info[BYTES_RECEIVED],
        acknowledged: info[BYTES_ACKED],
    }
}

/// A descriptor held in reserve for the time when there are no others.
pub fn null_descriptor() -> io::Result<OwnedFd> {
    std::fs::File::open("/dev/null").map(OwnedFd::from)
}
