//! What the network says about datagrams that did not arrive (ip(7), `IP_RECVERR`).

use super::{RawAddr, check_len};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// ICMP "destination unreachable" and its code for "fragmentation needed", which the kernel sees to.
const ICMP_UNREACHABLE: u8 = 3;
const ICMP_FRAGMENTATION_NEEDED: u8 = 4;
/// ICMP "parameter problem".
const ICMP_PARAMETER: u8 = 12;
/// The same two of ICMPv6.
const ICMP6_UNREACHABLE: u8 = 1;
const ICMP6_PARAMETER: u8 = 4;
/// Room for the control message: a header, the error and the address of who reports it.
const CONTROL: usize = 128;

/// A datagram of ours that the network gave back.
pub struct Returned {
    /// Where it was to go.
    pub to: SocketAddr,
    /// How many bytes of its beginning the report repeats.
    pub len: usize,
    /// Whether it cannot be delivered. Otherwise the report is of a kind that RFC 3261 section 18.4
    /// ignores.
    pub lost: bool,
}

/// Takes one report from the socket and writes the quoted beginning of the datagram to `buffer`.
///
/// # Errors
/// `WouldBlock` if there are no more reports.
pub fn take_returned(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<Returned>> {
    let mut raw = RawAddr::empty();
    let mut control = [0u64; CONTROL / 8];
    let mut iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: an all-zero header is one without any part.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = raw.as_mut_ptr().cast();
    header.msg_namelen = RawAddr::CAPACITY;
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points at an address, a buffer and control room that are writable for the
    // lengths given.
    let len = check_len(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) })?;
    let Some(to) = raw.get() else { return Ok(None) };
    Ok(extended_error(&header).map(|error| Returned { to, len, lost: is_loss(&error) }))
}

/// The error that a control message holds.
fn extended_error(header: &libc::msghdr) -> Option<libc::sock_extended_err> {
    // SAFETY: the kernel has filled the control room, whose length `header` tells; the macros stay
    // within it. What is read of a message is no longer than its header says.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = message.as_ref() {
            let kind = (control.cmsg_level, control.cmsg_type);
            let wanted =
                kind == (libc::SOL_IP, libc::IP_RECVERR) || kind == (libc::SOL_IPV6, libc::IPV6_RECVERR);
            let needed = libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32);
            if wanted && control.cmsg_len >= needed as _ {
                return Some(libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned());
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    None
}

/// RFC 3261 section 18.4: unreachable hosts, networks, ports and protocols and parameter problems are
/// failures to send; time exceeded and source quench are nothing.
fn is_loss(error: &libc::sock_extended_err) -> bool {
    let fragmentation = error.ee_type == ICMP_UNREACHABLE && error.ee_code == ICMP_FRAGMENTATION_NEEDED;
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP => {
            matches!(error.ee_type, ICMP_UNREACHABLE | ICMP_PARAMETER) && !fragmentation
        }
        libc::SO_EE_ORIGIN_ICMP6 => matches!(error.ee_type, ICMP6_UNREACHABLE | ICMP6_PARAMETER),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_will_not_arrive_is_lost() {
        let error = |ee_origin, ee_type, ee_code| libc::sock_extended_err {
            ee_errno: 0,
            ee_origin,
            ee_type,
            ee_code,
            ee_pad: 0,
            ee_info: 0,
            ee_data: 0,
        };
        let (v4, v6) = (libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6);
        for (origin, kind, code) in [(v4, 3, 0), (v4, 3, 1), (v4, 3, 2), (v4, 3, 3), (v4, 3, 13), (v4, 12, 0)]
        {
            assert!(is_loss(&error(origin, kind, code)), "{kind}/{code}");
        }
        assert!(is_loss(&error(v6, 1, 4)) && is_loss(&error(v6, 4, 0)));
        // Fragmentation needed, source quench, time exceeded; packet too big, time exceeded; our own.
        for (origin, kind, code) in [(v4, 3, 4), (v4, 4, 0), (v4, 11, 0), (v6, 2, 0), (v6, 3, 0)] {
            assert!(!is_loss(&error(origin, kind, code)), "{kind}/{code}");
        }
        assert!(!is_loss(&error(libc::SO_EE_ORIGIN_LOCAL, 3, 3)));
    }
}
