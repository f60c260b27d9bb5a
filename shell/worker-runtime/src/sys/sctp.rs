//! SCTP sockets (RFC 6458), which keep the boundaries of messages. Each has one association, or a listening
//! socket has all that peers open.

use super::socket::{SocketOptions, bind, connect, local_addr, new_socket, set, set_buffers};
use super::{RawAddr, check, check_len};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Names of `linux/sctp.h` that the `libc` crate does not have.
const SCTP_SOCKOPT_BINDX_ADD: libc::c_int = 100;
const SPP_HB_ENABLE: u32 = 1;
const SPP_HB_DISABLE: u32 = 1 << 1;
pub(super) const MSG_NOTIFICATION: libc::c_int = 0x8000;
const SCTP_ASSOC_CHANGE: u16 = (1 << 15) + 1;
const SCTP_PEER_ADDR_CHANGE: u16 = (1 << 15) + 2;
const SCTP_PARTIAL_DELIVERY_EVENT: u16 = (1 << 15) + 6;
const SCTP_ADDR_UNREACHABLE: i32 = 1;
/// States of an association in a notification.
const SCTP_COMM_UP: u16 = 0;
const SCTP_COMM_LOST: u16 = 1;
const SCTP_RESTART: u16 = 2;
const SCTP_SHUTDOWN_COMP: u16 = 3;
const SCTP_PARTIAL_DELIVERY_POINT: libc::c_int = 19;
/// The requested size of a buffer that many associations share, in bytes. The system may give less.
const MANY_BUFFER: usize = 4 << 20;
/// The largest message that the kernel keeps until it is complete, in bytes. It delivers longer ones in
/// parts.
const KEPT: libc::c_int = 64 << 10;

/// What is asked of associations. Times are in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpOptions {
    /// Between two heartbeats of an idle path; zero: none are sent.
    pub heartbeat: u32,
    /// The retransmission timeout before anything was measured, and its bounds.
    pub rto: (u32, u32, u32),
    /// Retransmissions in a row after which a path counts as unreachable.
    pub path_retransmissions: u16,
    /// Retransmissions in a row, over all paths, after which the association ends.
    pub retransmissions: u16,
    /// Streams that a peer may open towards us.
    pub streams: u16,
    /// Whether the associations of a listening socket stay with it (one-to-many style, section 3), instead of
    /// having sockets of their own (one-to-one style, section 4).
    pub many: bool,
}

/// `sctp_rtoinfo` (RFC 6458 section 8.1.1).
#[repr(C)]
struct RtoInfo {
    association: i32,
    initial: u32,
    max: u32,
    min: u32,
}

/// `sctp_assocparams` (section 8.1.2). What is zero stays as it is.
#[repr(C)]
struct AssociationParameters {
    association: i32,
    retransmissions: u16,
    destinations: u16,
    peer_window: u32,
    local_window: u32,
    cookie_life: u32,
}

/// `sctp_paddrparams` (section 8.1.12), which is packed in the kernel. What is zero stays as it is.
#[repr(C, packed)]
struct PathParameters {
    association: i32,
    address: [u8; 128],
    heartbeat: u32,
    retransmissions: u16,
    mtu: u32,
    delay: u32,
    flags: u32,
    flow_label: u32,
    dscp: u8,
    end: u8,
}

const _: () = assert!(size_of::<RtoInfo>() == 16 && size_of::<AssociationParameters>() == 20);
const _: () = assert!(size_of::<PathParameters>() == 156);
const _: () = assert!(std::mem::offset_of!(PathParameters, flags) == 146);
const _: () = assert!(size_of::<libc::sctp_sndinfo>() == 16 && size_of::<libc::sctp_initmsg>() == 8);

/// What a read brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The peer has ended the association.
    Ended,
    /// This number of bytes of a message that goes on.
    Part(usize),
    /// This number of bytes, the last of a message.
    Last(usize),
    /// The kernel gave up a message of which it had delivered a part.
    Abandoned,
    /// A path to the peer does not work any more.
    PathLost,
    /// An association was established.
    Up,
    /// The peer has restarted the association and has lost its earlier state (RFC 9260 section 5.2).
    Restarted,
    /// The association has ended, by a SHUTDOWN, an ABORT or a timeout.
    Gone,
    /// Something else that the kernel has to say.
    Nothing,
}

/// Sets an option of SCTP to a value of the kernel's form.
fn set_value<T>(fd: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is readable for `len` bytes during the call.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_SCTP, name, std::ptr::from_ref(value).cast(), len)
    })?;
    Ok(())
}

/// A socket that is bound to these addresses, of one family and with one port, and not yet used.
fn bound(local: &[SocketAddr], any: SocketAddr, (shared, many): (bool, bool)) -> io::Result<OwnedFd> {
    let style = if many { libc::SOCK_SEQPACKET } else { libc::SOCK_STREAM };
    let fd = new_socket(&any, style, libc::IPPROTO_SCTP)?;
    if local.iter().any(|address| address.port() != 0) {
        // Associations of an earlier server that are being shut down are no hindrance; a listener is.
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    }
    if shared {
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    let Some((first, more)) = local.split_first() else { return Ok(fd) };
    bind(fd.as_fd(), *first)?;
    if !more.is_empty() {
        let port = local_addr(fd.as_fd())?.port();
        let mut packed = Vec::new();
        for address in more {
            packed.extend_from_slice(RawAddr::new(SocketAddr::new(address.ip(), port)).bytes());
        }
        let len = packed.len() as libc::socklen_t;
        // SAFETY: `packed` is readable for `len` bytes during the call.
        check(unsafe {
            let (level, name) = (libc::IPPROTO_SCTP, SCTP_SOCKOPT_BINDX_ADD);
            libc::setsockopt(fd.as_raw_fd(), level, name, packed.as_ptr().cast(), len)
        })?;
    }
    Ok(fd)
}

/// What associations of this socket are like.
fn set_options(fd: BorrowedFd<'_>, sctp: &SctpOptions, options: &SocketOptions) -> io::Result<()> {
    set(fd, libc::IPPROTO_SCTP, libc::SCTP_NODELAY, 1)?;
    let (initial, min, max) = sctp.rto;
    set_value(fd, libc::SCTP_RTOINFO, &RtoInfo { association: 0, initial, max, min })?;
    let association = AssociationParameters {
        association: 0,
        retransmissions: sctp.retransmissions,
        destinations: 0,
        peer_window: 0,
        local_window: 0,
        cookie_life: 0,
    };
    set_value(fd, libc::SCTP_ASSOCINFO, &association)?;
    let path = PathParameters {
        association: 0,
        address: [0; 128],
        heartbeat: sctp.heartbeat,
        retransmissions: sctp.path_retransmissions,
        mtu: 0,
        delay: 0,
        flags: if sctp.heartbeat > 0 { SPP_HB_ENABLE } else { SPP_HB_DISABLE },
        flow_label: 0,
        dscp: 0,
        end: 0,
    };
    set_value(fd, libc::SCTP_PEER_ADDR_PARAMS, &path)?;
    // We send over stream zero alone, without order, and with the protocol identifier zero (RFC 4168
    // section 5).
    let streams = libc::sctp_initmsg {
        sinit_num_ostreams: 1,
        sinit_max_instreams: sctp.streams,
        sinit_max_attempts: 0,
        sinit_max_init_timeo: 0,
    };
    set_value(fd, libc::SCTP_INITMSG, &streams)?;
    let send = libc::sctp_sndinfo {
        snd_sid: 0,
        snd_flags: libc::SCTP_UNORDERED as u16,
        snd_ppid: 0,
        snd_context: 0,
        snd_assoc_id: 0,
    };
    set_value(fd, libc::SCTP_DEFAULT_SNDINFO, &send)?;
    // `sctp_event_subscribe`: association, address and partial delivery.
    set_value(fd, libc::SCTP_EVENTS, &[0u8, 1, 1, 0, 0, 0, 1, 0])?;
    if options.receive_buffer > 0 || options.send_buffer > 0 {
        set_buffers(fd, options);
    }
    // If the buffer is smaller than twice this size, the kernel does not accept it and delivers parts
    // earlier.
    let _ = set(fd, libc::IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT, KEPT);
    Ok(())
}

/// Whether the associations of a socket share its receive buffer, and its send buffer. System settings
/// decide this (`net.sctp.rcvbuf_policy` and `sndbuf_policy`).
pub fn sctp_shared_buffers() -> (bool, bool) {
    let shared = |name| {
        let policy = std::fs::read_to_string(format!("/proc/sys/net/sctp/{name}"));
        policy.map_or(true, |policy| policy.trim() == "0")
    };
    (shared("rcvbuf_policy"), shared("sndbuf_policy"))
}

/// The port that a listener would get.
///
/// # Errors
/// `EPROTONOSUPPORT` if the kernel has no SCTP.
pub fn sctp_probe(local: &[SocketAddr], any: SocketAddr) -> io::Result<u16> {
    Ok(local_addr(bound(local, any, (false, false))?.as_fd())?.port())
}

/// A listening socket on these addresses, shared with the other workers' by `SO_REUSEPORT`. Accepted
/// associations inherit its options.
pub fn sctp_listen(
    local: &[SocketAddr],
    any: SocketAddr,
    sctp: &SctpOptions,
    options: &SocketOptions,
) -> io::Result<OwnedFd> {
    let fd = bound(local, any, (true, sctp.many))?;
    set_options(fd.as_fd(), sctp, options)?;
    if sctp.many {
        let room = |shared: bool, own: usize| if shared { MANY_BUFFER } else { own };
        let (receive, send) = sctp_shared_buffers();
        let (receive, send) = (room(receive, options.receive_buffer), room(send, options.send_buffer));
        set_buffers(fd.as_fd(), &SocketOptions { receive_buffer: receive, send_buffer: send, ..*options });
        // Each read says whose message it is.
        set(fd.as_fd(), libc::IPPROTO_SCTP, libc::SCTP_RECVRCVINFO, 1)?;
        // A long message that is delivered in parts does not delay those of other associations.
        set(fd.as_fd(), libc::IPPROTO_SCTP, libc::SCTP_FRAGMENT_INTERLEAVE, 1)?;
    }
    // SAFETY: no pointers.
    check(unsafe { libc::listen(fd.as_raw_fd(), options.backlog.max(1)) })?;
    Ok(fd)
}

/// Stops a listening socket from accepting new associations. Existing ones continue.
pub fn stop_listening(fd: BorrowedFd<'_>) {
    // SAFETY: no pointers. A failure leaves the caller to refuse them.
    let _ = check(unsafe { libc::listen(fd.as_raw_fd(), 0) });
}

/// Begins an association with `remote` from these addresses and a port of the kernel's choice. The outcome is
/// known when the socket becomes writable; [`take_error`](super::take_error) says it.
pub fn sctp_connect(
    local: &[SocketAddr],
    remote: SocketAddr,
    sctp: &SctpOptions,
    options: &SocketOptions,
) -> io::Result<OwnedFd> {
    let fd = bound(local, remote, (false, false))?;
    set_options(fd.as_fd(), sctp, options)?;
    connect(fd.as_fd(), remote)?;
    Ok(fd)
}

/// Reads one message, or a part of it, without waiting.
pub fn recv_record(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Record> {
    let mut iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero header is one without any part.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut iovec, 1);
    // SAFETY: the header points at a buffer that is writable for the length given.
    let n = check_len(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) })?;
    if header.msg_flags & MSG_NOTIFICATION != 0 {
        return Ok(notification(buffer.get(..n).unwrap_or_default()));
    }
    Ok(match header.msg_flags & libc::MSG_EOR != 0 {
        _ if n == 0 => Record::Ended,
        true => Record::Last(n),
        false => Record::Part(n),
    })
}

/// What a notification says (section 6.1): its kind in the first two bytes; of a path, its state behind the
/// address; of an association, its state behind the header.
pub(super) fn notification(bytes: &[u8]) -> Record {
    let half = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|two| u16::from_ne_bytes(*two));
    let path = || bytes.get(136..).and_then(|rest| rest.first_chunk()).map(|s| i32::from_ne_bytes(*s));
    match (half(0), half(8)) {
        (Some(SCTP_PARTIAL_DELIVERY_EVENT), _) => Record::Abandoned,
        (Some(SCTP_PEER_ADDR_CHANGE), _) if path() == Some(SCTP_ADDR_UNREACHABLE) => Record::PathLost,
        (Some(SCTP_ASSOC_CHANGE), Some(SCTP_COMM_UP)) => Record::Up,
        (Some(SCTP_ASSOC_CHANGE), Some(SCTP_RESTART)) => Record::Restarted,
        (Some(SCTP_ASSOC_CHANGE), Some(SCTP_COMM_LOST | SCTP_SHUTDOWN_COMP)) => Record::Gone,
        _ => Record::Nothing,
    }
}

/// The association that a notification is about; zero: none.
pub(super) fn notified(bytes: &[u8]) -> i32 {
    let kind = bytes.first_chunk().map(|kind| u16::from_ne_bytes(*kind));
    let at = match kind {
        Some(SCTP_ASSOC_CHANGE) => 16,
        Some(SCTP_PEER_ADDR_CHANGE) => 144,
        Some(SCTP_PARTIAL_DELIVERY_EVENT) => 12,
        _ => return 0,
    };
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |id| i32::from_ne_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_told_apart() {
        let mut bytes = [0; 148];
        assert_eq!(notification(&bytes), Record::Nothing);
        assert_eq!(notification(&[]), Record::Nothing);
        bytes[..2].copy_from_slice(&SCTP_PEER_ADDR_CHANGE.to_ne_bytes());
        assert_eq!(notification(&bytes), Record::Nothing, "available");
        bytes[136..140].copy_from_slice(&SCTP_ADDR_UNREACHABLE.to_ne_bytes());
        assert_eq!(notification(&bytes), Record::PathLost);
        assert_eq!(notification(&bytes[..100]), Record::Nothing, "cut");
        assert_eq!(notification(&SCTP_PARTIAL_DELIVERY_EVENT.to_ne_bytes()), Record::Abandoned);
        bytes[144..148].copy_from_slice(&7i32.to_ne_bytes());
        assert_eq!((notified(&bytes), notified(&bytes[..147]), notified(&[])), (7, 0, 0));
    }

    #[test]
    fn changes_of_associations_are_told_apart() {
        let mut bytes = [0; 20];
        bytes[..2].copy_from_slice(&SCTP_ASSOC_CHANGE.to_ne_bytes());
        bytes[16..].copy_from_slice(&9i32.to_ne_bytes());
        let states = [(0u16, Record::Up), (1, Record::Gone), (2, Record::Restarted), (3, Record::Gone)];
        for (state, record) in states.into_iter().chain([(4, Record::Nothing)]) {
            bytes[8..10].copy_from_slice(&state.to_ne_bytes());
            assert_eq!((notification(&bytes), notified(&bytes)), (record, 9), "{state}");
        }
        assert_eq!(notification(&bytes[..9]), Record::Nothing, "cut");
    }
}
