//! Many datagrams received in one system call.

use super::{RawAddr, check};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The largest datagram there is, rounded up.
const DATAGRAM: usize = 65_535;

/// Room for one control message with a time: header and `timespec`, aligned as the kernel wants.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; Control::ROOM]);

impl Control {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const ROOM: usize = Control::HEADER + size_of::<libc::timespec>();

    /// Microseconds since 1970, if it holds a time. Read as plain bytes: length, level, kind, then seconds and
    /// nanoseconds.
    fn micros(&self) -> Option<u64> {
        let word = |at: usize| Some(u64::from_ne_bytes(*self.0.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(i32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?));
        let header = (half(size_of::<usize>())?, half(size_of::<usize>() + 4)?);
        let stamped = header == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let (seconds, nanos) = (word(Control::HEADER)?, word(Control::HEADER + 8)?);
        stamped.then(|| seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }
}

pub(super) const EMPTY_IOVEC: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

pub(super) const fn empty_header() -> libc::mmsghdr {
    let msg_hdr = libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: ptr::null_mut(),
        msg_iovlen: 0,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    libc::mmsghdr { msg_hdr, msg_len: 0 }
}

/// Receive buffers for a batch of datagrams, allocated once. Pages that no datagram was long enough
/// to reach are never touched, so they cost no memory.
pub struct RecvBatch {
    bytes: Vec<u8>,
    addrs: Vec<RawAddr>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// When each came; none if nobody asks.
    stamps: Vec<Control>,
    filled: usize,
}

// SAFETY: the raw pointers in `iovecs` and `headers` point into the other vectors of the same
// value, which move with it and are never reallocated.
unsafe impl Send for RecvBatch {}

impl RecvBatch {
    /// Room for `capacity` datagrams, and for their times of arrival if those are `stamped`.
    pub fn new(capacity: usize, stamped: bool) -> RecvBatch {
        let capacity = capacity.clamp(1, 1024);
        let mut batch = RecvBatch {
            bytes: vec![0; capacity * DATAGRAM],
            addrs: vec![RawAddr::empty(); capacity],
            iovecs: vec![EMPTY_IOVEC; capacity],
            headers: vec![empty_header(); capacity],
            stamps: vec![Control([0; Control::ROOM]); if stamped { capacity } else { 0 }],
            filled: 0,
        };
        for (iovec, buffer) in batch.iovecs.iter_mut().zip(batch.bytes.chunks_exact_mut(DATAGRAM)) {
            *iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: DATAGRAM };
        }
        let parts = batch.iovecs.iter_mut().zip(batch.addrs.iter_mut());
        for (header, (iovec, addr)) in batch.headers.iter_mut().zip(parts) {
            header.msg_hdr.msg_iov = iovec;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_name = addr.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = RawAddr::CAPACITY;
        }
        for (header, stamp) in batch.headers.iter_mut().zip(batch.stamps.iter_mut()) {
            header.msg_hdr.msg_control = stamp.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = Control::ROOM as _;
        }
        batch
    }

    /// How many datagrams fit.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Receives what is there, up to the capacity, and answers how many.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; else what the socket says.
    pub fn recv(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        // The kernel has overwritten the room for the address with its length.
        for header in &mut self.headers[..self.filled] {
            header.msg_hdr.msg_namelen = RawAddr::CAPACITY;
        }
        for header in self.headers[..self.filled].iter_mut().take(self.stamps.len()) {
            header.msg_hdr.msg_controllen = Control::ROOM as _;
        }
        self.filled = 0;
        let room = self.headers.len() as libc::c_uint;
        // SAFETY: each header points at a buffer and an address of this value, of the lengths given,
        // and nothing else refers to them while `self` is borrowed.
        let n = check(unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::recvmmsg(fd.as_raw_fd(), headers, room, libc::MSG_DONTWAIT, ptr::null_mut())
        })?;
        self.filled = usize::try_from(n).unwrap_or(0);
        Ok(self.filled)
    }

    /// Datagram `index` of the last batch; `None` past its end or when the sender has no address.
    pub fn message(&self, index: usize) -> Option<(&[u8], SocketAddr)> {
        let header = self.headers[..self.filled].get(index)?;
        let bytes = self.bytes.get(index * DATAGRAM..)?.get(..header.msg_len as usize)?;
        Some((bytes, self.addrs.get(index)?.get()?))
    }

    /// When datagram `index` of the last batch came, by the wall clock, in microseconds since 1970; `None` if
    /// the socket was not asked to note it.
    pub fn stamp(&self, index: usize) -> Option<u64> {
        let header = self.headers[..self.filled].get(index)?;
        let stamp = self.stamps.get(index).filter(|_| header.msg_hdr.msg_controllen >= Control::ROOM as _);
        stamp.and_then(Control::micros)
    }

    /// The first buffer, for a plain receive of one datagram.
    pub fn first_buffer(&mut self) -> &mut [u8] {
        &mut self.bytes[..DATAGRAM]
    }
}
