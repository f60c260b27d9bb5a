//! Many datagrams received in one system call.

use super::pinned::Pinned;
use super::{RawAddr, check};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The largest datagram there is, rounded up.
const DATAGRAM: usize = 65_535;

/// Room for the control messages of a datagram, aligned as the kernel wants: its time, header and `timespec`,
/// and how long the datagrams are of which it was joined, header and `int`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; Control::ROOM]);

impl Control {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const ROOM: usize = 2 * Control::HEADER + size_of::<libc::timespec>() + 8;

    /// What the control message of this level and kind says, among those in the first `filled` bytes. Read as
    /// plain bytes: length, level, kind, then what it says; the next one begins where eight divides.
    fn find(&self, filled: usize, level: i32, kind: i32) -> Option<&[u8]> {
        let mut rest = self.0.get(..filled)?;
        loop {
            let length = usize::from_ne_bytes(*rest.first_chunk()?);
            let half = |at: usize| Some(i32::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
            let of = (half(size_of::<usize>())?, half(size_of::<usize>() + 4)?);
            let told = rest.get(Control::HEADER..length)?;
            if of == (level, kind) {
                return Some(told);
            }
            rest = rest.get(length.next_multiple_of(8)..)?;
        }
    }

    /// Microseconds since 1970, if a time is told.
    fn micros(&self, filled: usize) -> Option<u64> {
        let told = self.find(filled, libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)?;
        let (seconds, rest) = told.split_first_chunk()?;
        let (seconds, nanos) = (u64::from_ne_bytes(*seconds), u64::from_ne_bytes(*rest.first_chunk()?));
        Some(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }

    /// How long each is but the last, if datagrams were joined.
    fn size(&self, filled: usize) -> Option<usize> {
        let told = self.find(filled, libc::IPPROTO_UDP, super::socket::UDP_GRO)?;
        usize::try_from(i32::from_ne_bytes(*told.first_chunk()?)).ok().filter(|&size| size > 0)
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
    bytes: Pinned<u8>,
    addrs: Pinned<RawAddr>,
    iovecs: Pinned<libc::iovec>,
    headers: Pinned<libc::mmsghdr>,
    /// What the kernel says of each; none if nobody asks.
    told: Pinned<Control>,
    filled: usize,
}

// SAFETY: the raw pointers in `iovecs` and `headers` point into the other parts of the same value, which are
// nobody else's.
unsafe impl Send for RecvBatch {}

impl RecvBatch {
    /// Room for `capacity` datagrams. With `told`, also for what the kernel says of them: when they came, and
    /// of which datagrams they were joined.
    pub fn new(capacity: usize, told: bool) -> RecvBatch {
        let capacity = capacity.clamp(1, 1024);
        let mut batch = RecvBatch {
            bytes: Pinned::new(vec![0; capacity * DATAGRAM]),
            addrs: Pinned::new(vec![RawAddr::empty(); capacity]),
            iovecs: Pinned::new(vec![EMPTY_IOVEC; capacity]),
            headers: Pinned::new(vec![empty_header(); capacity]),
            told: Pinned::new(vec![Control([0; Control::ROOM]); if told { capacity } else { 0 }]),
            filled: 0,
        };
        for index in 0..capacity {
            let buffer = batch.bytes.place(index * DATAGRAM);
            let (iovec, addr) = (batch.iovecs.place(index), batch.addrs.place(index));
            let told = told.then(|| batch.told.place(index));
            batch.iovecs.all_mut()[index] = libc::iovec { iov_base: buffer.cast(), iov_len: DATAGRAM };
            let header = &mut batch.headers.all_mut()[index].msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (iovec, 1);
            // What the kernel writes first of an address is its bytes.
            (header.msg_name, header.msg_namelen) = (addr.cast(), RawAddr::CAPACITY);
            if let Some(told) = told {
                (header.msg_control, header.msg_controllen) = (told.cast(), Control::ROOM as _);
            }
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
        let told = self.told.len();
        for (index, header) in self.headers.all_mut()[..self.filled].iter_mut().enumerate() {
            header.msg_hdr.msg_namelen = RawAddr::CAPACITY;
            if index < told {
                header.msg_hdr.msg_controllen = Control::ROOM as _;
            }
        }
        self.filled = 0;
        let room = self.headers.len() as libc::c_uint;
        let headers = self.headers.place(0);
        // SAFETY: each header points at a buffer and an address of this value, of the lengths given,
        // and nothing else refers to them while `self` is borrowed.
        let n = check(unsafe {
            libc::recvmmsg(fd.as_raw_fd(), headers, room, libc::MSG_DONTWAIT, ptr::null_mut())
        })?;
        self.filled = usize::try_from(n).unwrap_or(0);
        Ok(self.filled)
    }

    /// What came as `index` of the last batch, one datagram or several of one sender that the kernel joined;
    /// `None` past its end or when the sender has no address.
    pub fn messages(&self, index: usize) -> Option<(impl Iterator<Item = &[u8]>, SocketAddr)> {
        let header = self.headers.all()[..self.filled].get(index)?;
        let bytes = self.bytes.all().get(index * DATAGRAM..)?.get(..header.msg_len as usize)?;
        let joined =
            self.told.all().get(index).and_then(|told| told.size(header.msg_hdr.msg_controllen as _));
        let each = bytes.chunks(joined.unwrap_or(DATAGRAM));
        Some((each, self.addrs.all().get(index)?.get()?))
    }

    /// When datagram `index` of the last batch came, by the wall clock, in microseconds since 1970; `None` if
    /// the socket was not asked to note it.
    pub fn stamp(&self, index: usize) -> Option<u64> {
        let header = self.headers.all()[..self.filled].get(index)?;
        self.told.all().get(index)?.micros(header.msg_hdr.msg_controllen as _)
    }

    /// The first buffer, for a plain receive of one datagram: from sockets that do not join them.
    pub fn first_buffer(&mut self) -> &mut [u8] {
        &mut self.bytes.all_mut()[..DATAGRAM]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SendBatch, ask_for_stamps, ask_to_join};
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// What comes of datagrams of these lengths, each of another byte, and how many pieces the kernel made of
    /// them.
    fn received(lengths: &[usize], asked: impl Fn(&UdpSocket), told: bool) -> (Vec<Vec<u8>>, usize) {
        let (ours, theirs) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        asked(&ours);
        let to = ours.local_addr().unwrap();
        let texts: Vec<Vec<u8>> = (1..).zip(lengths).map(|(byte, &length)| vec![byte; length]).collect();
        let mut send = SendBatch::new(64, true);
        let sent = send.send(theirs.as_fd(), false, texts.iter().map(|text| (&text[..], to))).unwrap();
        assert_eq!(sent, lengths.len());
        let mut batch = RecvBatch::new(64, told);
        let from = theirs.local_addr().unwrap();
        let (mut all, mut pieces) = (Vec::new(), 0);
        while all.len() < texts.len() {
            // A busy kernel delivers later.
            let Ok(received) = batch.recv(ours.as_fd()) else {
                std::thread::yield_now();
                continue;
            };
            for index in 0..received {
                let (messages, source) = batch.messages(index).unwrap();
                assert_eq!(source, from);
                all.extend(messages.map(<[u8]>::to_vec));
                assert_eq!(batch.stamp(index).is_some(), told);
            }
            assert!(batch.messages(received).is_none());
            pieces += received;
        }
        assert_eq!(all, texts);
        (all, pieces)
    }

    /// What is kept from call to call stays good whatever is borrowed between; for what Miri sees of it see
    /// `pinned`.
    #[test]
    fn a_batch_is_filled_again_after_its_buffers_were_lent() {
        let (ours, theirs) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut batch = RecvBatch::new(2, true);
        for round in 0..3 {
            theirs.send_to(&[1], ours.local_addr().unwrap()).unwrap();
            let received = loop {
                match batch.recv(ours.as_fd()) {
                    Ok(received) => break received,
                    Err(_) => std::thread::yield_now(),
                }
            };
            let (messages, _) = batch.messages(0).unwrap();
            assert_eq!(messages.collect::<Vec<_>>(), [&[1]], "round {round}");
            assert!(batch.messages(received).is_none());
            batch.first_buffer().fill(9);
        }
    }

    #[test]
    fn what_the_kernel_joined_is_parted() {
        let asked = |socket: &UdpSocket| {
            ask_for_stamps(socket.as_fd()).unwrap();
            ask_to_join(socket.as_fd()).unwrap();
        };
        for lengths in [&[400; 5][..], &[400, 400, 400, 7], &[9, 8, 8, 8, 300, 300], &[1_000; 20], &[1]] {
            let (all, pieces) = received(lengths, asked, true);
            assert_eq!(
                pieces == 1,
                all.len() == 1 || lengths.windows(2).all(|two| two[0] == two[1]) || lengths[3] == 7
            );
        }
    }

    #[test]
    fn without_being_asked_it_joins_nothing() {
        let (_, pieces) = received(&[400, 400, 400, 7], |_| {}, false);
        assert_eq!(pieces, 4);
        let stamped = |socket: &UdpSocket| ask_for_stamps(socket.as_fd()).unwrap();
        assert_eq!(received(&[400, 400, 400, 7], stamped, true).1, 4);
    }

    #[test]
    fn what_is_no_control_message_tells_nothing() {
        let mut control = Control([0; Control::ROOM]);
        for byte in [0, 1, 16, 0x7f, 0xff] {
            control.0.fill(byte);
            for filled in 0..=Control::ROOM + 8 {
                assert_eq!((control.micros(filled), control.size(filled)), (None, None));
            }
        }
    }
}
