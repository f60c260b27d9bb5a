//! Many datagrams sent in one system call.

use super::{RawAddr, check, errno};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Most datagrams that the kernel cuts one from (udp(7), `UDP_SEGMENT`; `UDP_MAX_SEGMENTS` of older kernels).
const SEGMENTS: usize = 64;
/// Most bytes of those together; a datagram has room for 65,507.
const TOGETHER: usize = 60_000;

/// Peers remembered to whom the kernel could not cut, and how many there may be before it is asked no more.
const SPARED: usize = 8;
const MANY_FAULTS: usize = 64;

/// A control message that says how long the datagrams are which the kernel is to cut, aligned as it wants:
/// header, then the length in 16 bits.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Cut([u8; Cut::ROOM]);

impl Cut {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const ROOM: usize = Cut::HEADER + 8;
    const UDP_SEGMENT: i32 = 103;

    fn every(size: u16) -> Cut {
        let mut bytes = [0; Cut::ROOM];
        let parts: [&[u8]; 4] = [
            &(Cut::HEADER + size_of::<u16>()).to_ne_bytes(),
            &libc::IPPROTO_UDP.to_ne_bytes(),
            &Cut::UDP_SEGMENT.to_ne_bytes(),
            &size.to_ne_bytes(),
        ];
        let all = parts.into_iter().flatten();
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        Cut(bytes)
    }
}

/// Datagrams that go through the kernel as one: to the same address, of the same length but for the last,
/// which may be shorter. They leave the machine as if each had been sent alone; until then a capture shows
/// one, and where nobody listens on this machine one ICMP message tells of them all.
#[derive(Clone, Copy)]
struct Group {
    to: SocketAddr,
    size: usize,
    total: usize,
    count: usize,
    ended: bool,
}

impl Group {
    fn of(bytes: &[u8], to: SocketAddr) -> Group {
        Group { to, size: bytes.len(), total: bytes.len(), count: 1, ended: false }
    }

    /// Adds one, if it can be one of them.
    fn takes(&mut self, bytes: &[u8], to: SocketAddr) -> bool {
        let room = !self.ended && self.count < SEGMENTS && self.total + bytes.len() <= TOGETHER;
        if !room || bytes.len() > self.size || to != self.to {
            return false;
        }
        self.ended = bytes.len() < self.size;
        self.total += bytes.len();
        self.count += 1;
        true
    }
}

/// Headers for a batch of datagrams to send. The bytes stay where they are.
pub struct SendBatch {
    addrs: Vec<RawAddr>,
    /// One for each datagram.
    iovecs: Vec<libc::iovec>,
    /// One for each group of datagrams.
    headers: Vec<libc::mmsghdr>,
    cuts: Vec<Cut>,
    groups: Vec<Group>,
    /// Whether the kernel is to cut datagrams.
    cutting: bool,
    /// Whether it was asked if it can.
    asked: bool,
    /// Peers to whom it could not, the last ones, and how often one was added: each datagram to them goes
    /// alone.
    spared: Vec<SocketAddr>,
    faults: usize,
}

// SAFETY: the raw pointers are set and used within one call of `send`.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// Room for `capacity` datagrams. If `cutting`, several of one length to one address go through the
    /// kernel as one (udp(7), `UDP_SEGMENT`), where it can.
    pub fn new(capacity: usize, cutting: bool) -> SendBatch {
        let capacity = capacity.clamp(1, 1024);
        SendBatch {
            addrs: vec![RawAddr::empty(); capacity],
            iovecs: vec![super::batch::EMPTY_IOVEC; capacity],
            headers: vec![super::batch::empty_header(); capacity],
            cuts: vec![Cut([0; Cut::ROOM]); capacity],
            groups: Vec::with_capacity(capacity),
            cutting,
            asked: false,
            spared: Vec::new(),
            faults: 0,
        }
    }

    /// How many of those that were sent last, so many, went together with others.
    pub fn sent_together(&self, sent: usize) -> usize {
        let mut all = 0;
        let groups = self.groups.iter().take_while(|group| {
            all += group.count;
            all <= sent
        });
        groups.filter(|group| group.count > 1).map(|group| group.count).sum()
    }

    /// The kernel cuts no datagrams here: none are sent together from now on.
    pub fn stop_cutting(&mut self) {
        self.cutting = false;
    }

    /// The kernel could not cut what goes to this peer: its way is narrower than the datagrams are long, or
    /// leads through IPsec or a device that leaves checksums to the kernel. If that is so of many, of none
    /// from now on.
    #[cold]
    pub fn spare(&mut self, peer: SocketAddr, error: &io::Error) {
        if self.spared.len() == SPARED {
            self.spared.remove(0);
        }
        self.spared.push(peer);
        self.faults += 1;
        log_events::workers::segmentation_refused(&peer, &error);
        if self.faults > MANY_FAULTS {
            log_events::workers::segmentation_given_up();
            self.stop_cutting();
        }
    }

    /// Whether an error that the first of several met that were sent together may be due to that. Others may
    /// be what a router said of a datagram sent before.
    pub fn may_blame_cutting(&self, error: &io::Error) -> bool {
        let cannot = [libc::EINVAL, libc::EIO, libc::EMSGSIZE];
        self.groups.first().is_some_and(|group| group.count > 1) && cannot.contains(&errno(error))
    }

    /// How many of `messages`, from the first on, would go through the kernel as one datagram.
    pub fn together<'a>(&self, mut messages: impl Iterator<Item = (&'a [u8], SocketAddr)>) -> usize {
        let Some((bytes, to)) = messages.next().filter(|(_, to)| self.cutting && !self.spared.contains(to))
        else {
            return 0;
        };
        let mut group = Group::of(bytes, to);
        1 + messages.take_while(|(bytes, to)| group.takes(bytes, *to)).count()
    }

    /// Sends the first of `messages`, as many as fit, and answers how many the kernel took. From a
    /// `connected` socket they go to its peer.
    ///
    /// # Errors
    /// The error that the first datagram met, or the first that were sent as one; the others were not tried
    /// then.
    pub fn send<'a>(
        &mut self,
        fd: BorrowedFd<'_>,
        connected: bool,
        messages: impl Iterator<Item = (&'a [u8], SocketAddr)>,
    ) -> io::Result<usize> {
        self.groups.clear();
        if self.cutting && !self.asked {
            // Kernels before 4.18 pass over what they do not know, and would send them as one indeed.
            self.asked = true;
            if !super::socket::knows(fd, libc::IPPROTO_UDP, Cut::UDP_SEGMENT) {
                self.stop_cutting();
            }
        }
        let (cutting, spared) = (self.cutting, self.spared.as_slice());
        for (iovec, (bytes, to)) in self.iovecs.iter_mut().zip(messages) {
            *iovec = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let cutting = cutting && (spared.is_empty() || !spared.contains(&to));
            let joined = self.groups.last_mut().is_some_and(|group| cutting && group.takes(bytes, to));
            if !joined {
                self.groups.push(Group::of(bytes, to));
            }
        }
        self.point(connected);
        let (count, flags) = (self.groups.len() as libc::c_uint, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        // SAFETY: the first `count` headers point at addresses, control messages and vectors of this value,
        // and those at slices that the caller keeps borrowed; the kernel only reads the payload.
        let n = check(unsafe { libc::sendmmsg(fd.as_raw_fd(), self.headers.as_mut_ptr(), count, flags) })?;
        let taken = self.groups.iter().take(usize::try_from(n).unwrap_or(0));
        Ok(taken.map(|group| group.count).sum())
    }

    /// Makes a header for each group.
    fn point(&mut self, connected: bool) {
        let mut iovecs = self.iovecs.as_mut_slice();
        let slots = self.headers.iter_mut().zip(self.addrs.iter_mut()).zip(self.cuts.iter_mut());
        for (((header, addr), cut), group) in slots.zip(&self.groups) {
            let header = &mut header.msg_hdr;
            (header.msg_name, header.msg_namelen) = (ptr::null_mut(), 0);
            if !connected {
                addr.set(group.to);
                (header.msg_name, header.msg_namelen) = (addr.as_mut_ptr().cast(), addr.len());
            }
            let (own, rest) = iovecs.split_at_mut(group.count);
            (header.msg_iov, header.msg_iovlen) = (own.as_mut_ptr(), own.len() as _);
            iovecs = rest;
            (header.msg_control, header.msg_controllen) = (ptr::null_mut(), 0);
            if group.count > 1 {
                *cut = Cut::every(group.size as u16);
                (header.msg_control, header.msg_controllen) = (cut.0.as_mut_ptr().cast(), Cut::ROOM as _);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Sends texts of these lengths to a peer, and answers what it received and how many groups there were.
    fn sent(connected: bool, cutting: bool, lengths: &[usize]) -> (Vec<Vec<u8>>, usize) {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = peer.local_addr().unwrap();
        let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
        if connected {
            ours.connect(to).unwrap();
        }
        let texts: Vec<Vec<u8>> = (1..).zip(lengths).map(|(n, &length)| vec![n; length]).collect();
        let mut batch = SendBatch::new(128, cutting);
        let messages = texts.iter().map(|text| (text.as_slice(), to));
        assert_eq!(batch.send(ours.as_fd(), connected, messages).unwrap(), lengths.len());
        let mut buffer = [0; 2_048];
        let heard = lengths.iter().map(|_| {
            let n = peer.recv(&mut buffer).unwrap();
            buffer[..n].to_vec()
        });
        let heard: Vec<Vec<u8>> = heard.collect();
        assert_eq!(heard, texts, "each as it was sent, in order");
        (heard, batch.groups.len())
    }

    #[test]
    fn equal_lengths_go_as_one_and_arrive_apart() {
        for connected in [false, true] {
            assert_eq!(sent(connected, true, &[300; 100]).1, 2, "64 and 36");
            assert_eq!(sent(connected, true, &[300, 300, 299, 299, 301, 1, 1_400]).1, 4);
            assert_eq!(sent(connected, true, &[7]).1, 1);
            assert_eq!(sent(connected, false, &[300; 10]).1, 10);
            assert_eq!(sent(connected, true, &[1_400; 50]).1, 2, "42 in 60,000 bytes");
        }
    }

    #[test]
    fn only_one_address_goes_together() {
        let batch = SendBatch::new(8, true);
        let (a, b): (SocketAddr, SocketAddr) =
            ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        let text = &b"text"[..];
        let together = |list: &[(&'static [u8], SocketAddr)]| batch.together(list.iter().copied());
        assert_eq!(together(&[(text, a), (text, a), (text, b), (text, a)]), 2);
        assert_eq!(together(&[(text, a), (b"te", a), (text, a)]), 2);
        assert_eq!(together(&[(b"te", a), (text, a)]), 1);
        assert_eq!(together(&[]), 0);
    }

    /// One whose way does not let the kernel cut keeps nobody else's from going together; many do.
    #[test]
    fn who_cannot_be_sent_to_together_is_sent_to_alone() {
        let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (narrow, wide) = (peer(), peer());
        let [narrow, wide] = [&narrow, &wide].map(|peer| peer.local_addr().unwrap());
        let mut batch = SendBatch::new(8, true);
        let to = |to: SocketAddr| [(&b"text"[..], to); 4].into_iter();
        let groups = |batch: &mut SendBatch, peer| {
            assert_eq!(batch.send(ours.as_fd(), false, to(peer)).unwrap(), 4);
            batch.groups.len()
        };
        assert_eq!([groups(&mut batch, narrow), groups(&mut batch, wide)], [1, 1]);
        let said = |number| io::Error::from_raw_os_error(number);
        for number in [libc::EINVAL, libc::EIO, libc::EMSGSIZE] {
            assert!(batch.may_blame_cutting(&said(number)));
        }
        assert!(!batch.may_blame_cutting(&said(libc::ENOPROTOOPT)), "of a datagram before");
        batch.spare(narrow, &said(libc::EMSGSIZE));
        assert_eq!([groups(&mut batch, narrow), groups(&mut batch, wide)], [4, 1]);
        assert!(!batch.may_blame_cutting(&said(libc::ENOBUFS)));
        assert_eq!([batch.together(to(narrow)), batch.together(to(wide))], [0, 4]);
        (0..MANY_FAULTS as u16).for_each(|n| batch.spare(([127, 0, 0, 1], n).into(), &said(libc::EIO)));
        assert_eq!((groups(&mut batch, wide), batch.spared.len()), (4, SPARED));
    }
}
