//! Associations that share a socket of SCTP (RFC 6458 section 3, one-to-many style).

use super::sctp::{MSG_NOTIFICATION, Record, notification, notified};
use super::{RawAddr, check, check_len};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Names of `linux/sctp.h` that the `libc` crate does not have.
const SCTP_SOCKOPT_PEELOFF_FLAGS: libc::c_int = 122;
const SCTP_ABORT: u16 = 1 << 2;
const SCTP_EOF: u16 = libc::MSG_FIN as u16;

/// `sctp_peeloff_flags_arg_t`.
#[repr(C)]
struct PeelOff {
    association: i32,
    socket: libc::c_int,
    flags: libc::c_uint,
}

/// Room for a control message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control(MaybeUninit<[u8; 64]>);

/// The result of a read of a shared socket.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Of which association.
    pub association: i32,
    /// What.
    pub record: Record,
    /// The primary address of the peer, or the source address of the message.
    pub remote: Option<SocketAddr>,
}

/// Reads one message of any association of a shared socket, a part of one, or a notification.
pub fn recv_arrival(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Arrival> {
    let mut iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let (mut raw, mut control) = (RawAddr::empty(), Control(MaybeUninit::uninit()));
    // SAFETY: an all-zero header is one without any part.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut iovec, 1);
    (header.msg_name, header.msg_namelen) = (raw.as_mut_ptr().cast(), RawAddr::CAPACITY);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), size_of::<Control>());
    // SAFETY: the header points at places that are writable for the lengths given.
    let n = check_len(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) })?;
    let remote = raw.get();
    if header.msg_flags & MSG_NOTIFICATION != 0 {
        let bytes = buffer.get(..n).unwrap_or_default();
        return Ok(Arrival { association: notified(bytes), record: notification(bytes), remote });
    }
    let record = match header.msg_flags & libc::MSG_EOR != 0 {
        _ if n == 0 => Record::Nothing,
        true => Record::Last(n),
        false => Record::Part(n),
    };
    Ok(Arrival { association: owner(&header), record, remote })
}

/// The association of a message, from its `sctp_rcvinfo`; zero: unknown.
fn owner(header: &libc::msghdr) -> i32 {
    // SAFETY: the kernel has filled the control buffer as far as the header says, and the macros stay within
    // it; the data is read without regard to its alignment.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(found) = next.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::IPPROTO_SCTP, libc::SCTP_RCVINFO) {
                let info = libc::CMSG_DATA(found).cast::<libc::sctp_rcvinfo>();
                return std::ptr::read_unaligned(info).rcv_assoc_id;
            }
            next = libc::CMSG_NXTHDR(header, found);
        }
    }
    0
}

/// One association of a shared socket. Dropping the value ends it, unless the kernel has ended it.
pub struct Association {
    socket: Arc<OwnedFd>,
    id: i32,
    /// It ends by an ABORT instead of a SHUTDOWN.
    aborts: bool,
    /// The association has ended already.
    over: bool,
}

impl Association {
    /// An association of this socket, by the kernel's number.
    pub fn new(socket: Arc<OwnedFd>, id: i32) -> Association {
        Association { socket, id, aborts: false, over: false }
    }

    /// The kernel's number, which is unique among the present associations.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Sends a message over stream 0, without order and with the protocol identifier 0 (RFC 4168 section 5).
    pub fn send(&self, message: &[u8]) -> io::Result<usize> {
        self.tell(libc::SCTP_UNORDERED as u16, message)
    }

    /// The kernel ends it by a SHUTDOWN after all sent data has arrived.
    pub fn finish(&mut self) -> io::Result<()> {
        self.tell(SCTP_EOF, &[]).map(drop)
    }

    /// It will end by an ABORT.
    pub fn abort_on_drop(&mut self) {
        self.aborts = true;
    }

    /// The kernel has ended it.
    pub fn is_over(&mut self) {
        self.over = true;
    }

    /// Gives it its own socket, with its unread data (section 9.2).
    pub fn peel_off(&mut self) -> io::Result<OwnedFd> {
        let flags = (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as libc::c_uint;
        let mut wanted = PeelOff { association: self.id, socket: -1, flags };
        let mut len = size_of::<PeelOff>() as libc::socklen_t;
        // SAFETY: `wanted` is readable and writable for `len` bytes; the descriptor returned is ours alone.
        let socket = unsafe {
            let (level, name) = (libc::IPPROTO_SCTP, SCTP_SOCKOPT_PEELOFF_FLAGS);
            let value = (&raw mut wanted).cast();
            check(libc::getsockopt(self.socket.as_raw_fd(), level, name, value, &raw mut len))?;
            OwnedFd::from_raw_fd(wanted.socket)
        };
        self.over = true;
        Ok(socket)
    }

    fn tell(&self, flags: u16, message: &[u8]) -> io::Result<usize> {
        send_to_association(self.socket.as_fd(), self.id, flags, message)
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        if !self.over {
            // It may have ended meanwhile.
            let _ = self.tell(if self.aborts { SCTP_ABORT } else { SCTP_EOF }, &[]);
        }
    }
}

/// The kernel ends the association of a socket that was peeled off: shutdown(2) has no effect there.
pub fn finish_peeled(fd: BorrowedFd<'_>) -> io::Result<()> {
    send_to_association(fd, 0, SCTP_EOF, &[]).map(drop)
}

fn send_to_association(fd: BorrowedFd<'_>, id: i32, flags: u16, message: &[u8]) -> io::Result<usize> {
    let info =
        libc::sctp_sndinfo { snd_sid: 0, snd_flags: flags, snd_ppid: 0, snd_context: 0, snd_assoc_id: id };
    let mut iovec = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
    let mut control = Control(MaybeUninit::zeroed());
    // SAFETY: an all-zero header is one without any part.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    if !message.is_empty() {
        (header.msg_iov, header.msg_iovlen) = (&raw mut iovec, 1);
    }
    let len = size_of::<libc::sctp_sndinfo>() as libc::c_uint;
    // SAFETY: no pointers.
    let room = unsafe { libc::CMSG_SPACE(len) } as usize;
    debug_assert!(room <= size_of::<Control>());
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), room);
    // SAFETY: the control buffer has room for this one message, so the first header lies within it.
    unsafe {
        if let Some(first) = libc::CMSG_FIRSTHDR(&raw const header).as_mut() {
            (first.cmsg_level, first.cmsg_type) = (libc::IPPROTO_SCTP, libc::SCTP_SNDINFO);
            first.cmsg_len = libc::CMSG_LEN(len) as usize;
            std::ptr::write_unaligned(libc::CMSG_DATA(first).cast(), info);
        }
    }
    let how = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points at a message and a control buffer that are readable for the lengths given.
    check_len(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, how) })
}
