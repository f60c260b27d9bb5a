//! Packets of hosts: counted without looking at them, or captured.

use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libc::{c_int, c_void, socklen_t};

use super::bpf::{Sum, load};
use super::check;
use super::filter::{counting, of_host};
use super::pcap::Packet;

/// Bytes kept of a captured packet.
const BYTES_MAX: u32 = 65_535;
/// The buffer of a capture.
const CAPTURE_BUFFER: c_int = 4 << 20;

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Each packet is a datagram.
    Udp,
    /// Packets are segments.
    Tcp,
    /// Packets have chunks.
    Sctp,
}

impl Protocol {
    const fn number(self) -> u8 {
        match self {
            Protocol::Udp => 17,
            Protocol::Tcp => 6,
            Protocol::Sctp => 132,
        }
    }
}

/// Counts the packets between two hosts that arrive at this machine, those over loopback included. A program
/// in the kernel counts; no packet is copied. Datagrams that go through the kernel as one (`UDP_SEGMENT`)
/// count each.
#[derive(Debug)]
pub struct PacketCounter {
    sum: Sum,
    _socket: OwnedFd,
}

impl PacketCounter {
    /// Begins to count.
    ///
    /// # Errors
    /// Without the rights to open packet sockets and to load programs (`CAP_NET_RAW` and `CAP_BPF`), or if
    /// the kernel has neither.
    pub fn new(protocol: Protocol, one: Ipv4Addr, other: Ipv4Addr) -> io::Result<PacketCounter> {
        let sum = Sum::new()?;
        let program = load(&counting(protocol.number(), one, other, sum.number()))?;
        let socket = unbound()?;
        set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, program.as_raw_fd())?;
        bind(&socket)?;
        Ok(PacketCounter { sum, _socket: socket })
    }

    /// Packets since the beginning.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn read(&self) -> io::Result<u64> {
        self.sum.read()
    }
}

/// Takes packets of a host.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
}

impl Capture {
    /// Begins to take the packets from and to a host that arrive at this machine.
    ///
    /// # Errors
    /// Without the right to open packet sockets (`CAP_NET_RAW`), or if the kernel has none.
    pub fn of(host: Ipv4Addr) -> io::Result<Capture> {
        let socket = packet_socket(&of_host(host, BYTES_MAX), CAPTURE_BUFFER)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        Ok(Capture { socket })
    }

    /// The packets of the time from now on, this number at most.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn packets(self, time: Duration, most: usize) -> io::Result<Vec<Packet>> {
        let until = Instant::now() + time;
        let mut packets = Vec::new();
        let mut buffer = vec![0_u8; BYTES_MAX as usize];
        while packets.len() < most {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if self.is_readable(left)? {
                packets.extend(self.next(&mut buffer)?);
            }
        }
        Ok(packets)
    }

    fn is_readable(&self, within: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Rounded up, so that the rest of a millisecond is no busy loop.
        let timeout = c_int::try_from(within.as_millis() + 1).unwrap_or(c_int::MAX);
        // SAFETY: the one entry is writable.
        match check(unsafe { libc::poll(&raw mut poll, 1, timeout) }) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A packet with the time at which the kernel had it.
    fn next(&self, buffer: &mut [u8]) -> io::Result<Option<Packet>> {
        // Room for one control message, aligned as its header is.
        let mut control = [0_u64; 8];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: a message header of zeros is one without addresses and buffers.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: header, buffer and control buffer are writable for the lengths in the header.
        let read = unsafe {
            libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT | libc::MSG_TRUNC)
        };
        let Ok(length) = usize::try_from(read) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
        };
        let at = stamp(&header)
            .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let bytes = buffer.get(..length.min(buffer.len())).unwrap_or_default().to_vec();
        Ok(Some(Packet { at, length, bytes }))
    }
}

/// The time since 1970 in the control messages of a received packet.
fn stamp(header: &libc::msghdr) -> Option<Duration> {
    // SAFETY: recvmsg(2) has filled the control buffer that the header points to, and set its length.
    let message = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    if (message.cmsg_level, message.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: a message of this type has a timespec, which may be unaligned.
    let time = unsafe { libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned() };
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// A socket that gets nothing yet.
fn unbound() -> io::Result<OwnedFd> {
    // SAFETY: the call has no addresses.
    let socket = check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: socket(2) has just given us this descriptor, and nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// A socket that gets the IPv4 packets which arrive and pass the filter, from their IP header on.
fn packet_socket(program: &[libc::sock_filter], buffer: c_int) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, buffer)?;
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is readable for its length; the kernel copies it and does not write to it.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast::<c_void>(),
            size_of_val(&program) as socklen_t,
        )
    })?;
    bind(&socket)?;
    Ok(socket)
}

/// From here on a socket gets the IPv4 packets of all interfaces: its filter must be there before.
fn bind(socket: &OwnedFd) -> io::Result<()> {
    // SAFETY: an address of zeros is one of all interfaces.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    let length = size_of_val(&address) as socklen_t;
    // SAFETY: the address is readable for its length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }).map(|_| ())
}

fn set(socket: &OwnedFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of_val(&value) as socklen_t;
    // SAFETY: the value is readable for its length.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) })
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const SENDER: Ipv4Addr = Ipv4Addr::new(127, 15, 9, 1);
    const RECEIVER: Ipv4Addr = Ipv4Addr::new(127, 15, 9, 2);
    const THIRD: Ipv4Addr = Ipv4Addr::new(127, 15, 9, 4);

    fn send(from: Ipv4Addr, to: Ipv4Addr, count: usize) {
        let socket = UdpSocket::bind((from, 0)).expect("a socket");
        for _ in 0..count {
            socket.send_to(b"text", (to, 9)).expect("sent");
        }
    }

    /// Without the right to open packet sockets there is nothing to test.
    fn may() -> bool {
        match Capture::of(SENDER) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                false
            }
        }
    }

    /// Nothing where this program may not load programs into the kernel.
    fn counter(protocol: Protocol, one: Ipv4Addr, other: Ipv4Addr) -> Option<PacketCounter> {
        match PacketCounter::new(protocol, one, other) {
            Ok(counter) => Some(counter),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                None
            }
        }
    }

    #[test]
    fn counter_counts_all_packets_between_two_hosts() {
        let of = |protocol| counter(protocol, SENDER, RECEIVER);
        let (Some(datagrams), Some(segments)) = (of(Protocol::Udp), of(Protocol::Tcp)) else { return };
        send(SENDER, RECEIVER, 1_000);
        send(RECEIVER, SENDER, 10);
        for (from, to) in [(SENDER, SENDER), (RECEIVER, RECEIVER), (THIRD, RECEIVER), (SENDER, THIRD)] {
            send(from, to, 10);
        }
        assert_eq!((datagrams.read().expect("read"), segments.read().expect("read")), (1_010, 0));
    }

    #[test]
    fn datagrams_that_are_sent_as_one_count_each() {
        let (from, to) = (Ipv4Addr::new(127, 15, 9, 5), Ipv4Addr::new(127, 15, 9, 6));
        let Some(counter) = counter(Protocol::Udp, from, to) else { return };
        let (socket, receiver) = (UdpSocket::bind((from, 0)), UdpSocket::bind((to, 0)));
        let (socket, receiver) = (socket.expect("a socket"), receiver.expect("a socket"));
        const UDP_SEGMENT: c_int = 103;
        set(&socket.try_clone().expect("a copy").into(), libc::SOL_UDP, UDP_SEGMENT, 4).expect("Linux 4.18");
        socket.send_to(b"aaaabbbbcc", receiver.local_addr().expect("bound")).expect("sent");
        assert_eq!(counter.read().expect("read"), 3);
    }

    #[test]
    fn capture_has_packets_in_order_with_times() {
        if !may() {
            return;
        }
        let host = Ipv4Addr::new(127, 15, 9, 3);
        // Where nobody listens, an ICMP message comes back.
        let receiver = UdpSocket::bind((RECEIVER, 0)).expect("a socket");
        let capture = Capture::of(host).expect("a capture");
        let before = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let sender = UdpSocket::bind((host, 0)).expect("a socket");
        for _ in 0..5 {
            sender.send_to(b"text", receiver.local_addr().expect("bound")).expect("sent");
        }
        let packets = capture.packets(Duration::from_secs(20), 5).expect("taken");
        assert_eq!(packets.len(), 5);
        // IPv4 and UDP headers, four bytes of text.
        assert!(packets.iter().all(|packet| packet.length == 32 && packet.bytes.ends_with(b"text")));
        assert!(
            packets.iter().all(|packet| packet.at >= before && packet.at < before + Duration::from_secs(20))
        );
        assert!(packets.is_sorted_by_key(|packet| packet.at));
    }
}
