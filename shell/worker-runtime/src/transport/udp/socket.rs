//! One datagram socket: sending alone or in batches, and what waits for room in the kernel.

use super::open::UdpSocket;
use super::receive_mode::{BATCH_PAYS, ReceiveMode};
use super::returned::Reports;
use crate::counters::Counters;
use crate::sys::{self, Interest, Poller, SendBatch, errno, is_transient};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::{ListenerId, Outbox, Transmit};

/// Datagrams to one address and of one length from which on it is cheaper to have the kernel cut one into
/// them. Measured on loopback, 400 bytes each, microseconds a datagram: 18.6 against 21.6 at bursts of 4, 6.1
/// against 9.5 at 12, 2.7 against 6.7 at 32.
const GROUP_PAYS: usize = 3;

/// Datagrams up to this length fit into one packet nearly everywhere. Longer ones are sent in a way
/// that allows fragments from the start, others when the kernel says that they do not fit.
const ONE_PACKET: usize = 1_400;
/// How often a datagram is sent again because the socket held an error of an earlier one.
const ATTEMPTS: usize = 8;
/// Looks in a row that found nothing, after which a socket is looked at only where epoll says so.
const IDLE: u8 = 16;

/// A datagram socket of one worker.
pub(super) struct Socket {
    id: ListenerId,
    fd: Arc<OwnedFd>,
    /// Where it is connected to, if it is.
    peer: Option<SocketAddr>,
    /// The number of the generator's second socket at the same address, and where that is connected to.
    twin: Option<(SocketAddr, u16)>,
    data: u64,
    receive_mode: ReceiveMode,
    /// Looks in a row that found nothing.
    idle: u8,
    /// Transmits of the present outbox that go out here.
    queue: Vec<u32>,
    waiting: Waiting,
}

/// Copies of datagrams that the kernel had no room for, in the order in which they are sent.
struct Waiting {
    datagrams: VecDeque<(Vec<u8>, SocketAddr)>,
    most: usize,
}

impl Socket {
    /// One that epoll reports as `data`, in which `most` datagrams may wait for room.
    pub fn new(UdpSocket { id, fd, peer }: UdpSocket, data: u64, most: usize) -> Socket {
        let (receive_mode, queue, waiting) =
            (ReceiveMode::default(), Vec::new(), Waiting { datagrams: VecDeque::new(), most });
        Socket { id, fd, peer, twin: None, data, receive_mode, idle: 0, queue, waiting }
    }

    /// Whose address it has.
    #[inline]
    pub fn id(&self) -> ListenerId {
        self.id
    }

    /// The socket.
    #[inline]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Socket number `twin` at the same address is connected to `peer`.
    pub fn set_twin(&mut self, peer: SocketAddr, twin: u16) {
        self.twin = Some((peer, twin));
    }

    /// The number of the socket at the same address that is connected to `peer`.
    #[inline]
    pub fn twin_for(&self, peer: SocketAddr) -> Option<u16> {
        self.twin.filter(|(to, _)| *to == peer).map(|(_, twin)| twin)
    }

    /// How traffic wants it to be received from.
    pub fn receive_mode(&mut self) -> &mut ReceiveMode {
        &mut self.receive_mode
    }

    /// This number of datagrams came in a batch.
    pub fn received(&mut self, count: usize) {
        self.receive_mode.received(count);
        self.idle = if count > 0 { 0 } else { self.idle.saturating_add(1) };
    }

    /// Whether one of the last looks found something.
    pub fn is_lively(&self) -> bool {
        self.idle < IDLE
    }

    /// Whether nothing waits for room.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.waiting.datagrams.is_empty()
    }

    /// Notes that transmit `index` goes out here; `true` if it is the first.
    pub fn enqueue(&mut self, index: u32) -> bool {
        self.queue.push(index);
        self.queue.len() == 1
    }

    /// Sends one transmit at once, past the queue, which is empty. `fail` is told if the kernel refused it.
    #[inline]
    pub fn send_lone(
        &mut self,
        bytes: &[u8],
        transmit: &Transmit,
        reports: &mut Reports,
        poller: &Poller,
        fail: impl FnMut(u64),
    ) {
        let to = if self.peer.is_some() { None } else { Some(transmit.flow.remote) };
        // What waits already goes first.
        let sent = match self.has_room() {
            true => send_one(self.fd.as_fd(), bytes, to, reports),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        match sent {
            Ok(_) => {
                let counters = reports.counters();
                counters.udp_out.one();
                counters.udp_bytes_out.add(bytes.len() as u64);
            }
            Err(error) => self.refused(&error, bytes, transmit, poller, reports.counters(), fail),
        }
    }

    /// Sends what was enqueued. `fail` gets the tokens of transmits that the kernel refused.
    pub fn send_queue(
        &mut self,
        out: &Outbox,
        batch: &mut SendBatch,
        reports: &mut Reports,
        poller: &Poller,
        mut fail: impl FnMut(u64),
    ) {
        let queue = std::mem::take(&mut self.queue);
        let mut rest = queue.as_slice();
        while let Some((&first, others)) = rest.split_first() {
            let done = match self.send(out, rest, batch, reports) {
                Ok(n) => n.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let transmit = out.transmits().get(first as usize);
                    let Some(transmit) = invariant::some!(transmit, "a queued message is in the outbox")
                    else {
                        break;
                    };
                    let bytes = out.message(transmit);
                    self.refused(&error, bytes, transmit, poller, reports.counters(), &mut fail);
                    1
                }
            };
            rest = if done == 1 { others } else { rest.get(done..).unwrap_or_default() };
        }
        self.queue = queue;
        self.queue.clear();
    }

    /// Sends the first of `queue`, several at once if there are several.
    fn send(
        &self,
        out: &Outbox,
        queue: &[u32],
        batch: &mut SendBatch,
        reports: &mut Reports,
    ) -> io::Result<usize> {
        if !self.has_room() {
            // What waits already goes first.
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let message = |&index: &u32| {
            let transmit = out.transmits().get(index as usize)?;
            Some((out.message(transmit), transmit.flow.remote))
        };
        let Some((first, first_to)) = queue.first().and_then(message) else { return Ok(1) };
        let fits = |bytes: &[u8]| bytes.len() <= ONE_PACKET;
        let messages = || queue.iter().filter_map(message).take_while(|(bytes, _)| fits(bytes));
        let pays = || queue.len() >= BATCH_PAYS || batch.together(messages().take(GROUP_PAYS)) >= GROUP_PAYS;
        let together = if queue.len() >= GROUP_PAYS && fits(first) && pays() {
            reports.counters().syscalls.one();
            batch.send(self.fd.as_fd(), self.peer.is_some(), messages()).map(Some)
        } else {
            Ok(None)
        };
        // A batch that met an error may have met that of an earlier datagram.
        let sent = match together {
            Ok(Some(sent)) => {
                reports.counters().udp_segmented.add(batch.sent_together(sent) as u64);
                sent
            }
            others => {
                let to = if self.peer.is_some() { None } else { Some(first_to) };
                let sent = send_one(self.fd.as_fd(), first, to, reports).map(|_| 1)?;
                // Alone it went.
                if let Err(error) = others
                    && batch.may_blame_cutting(&error)
                {
                    batch.spare(first_to, &error);
                }
                sent
            }
        };
        let bytes: usize = queue.iter().take(sent).filter_map(message).map(|(bytes, _)| bytes.len()).sum();
        let counters = reports.counters();
        counters.udp_out.add(sent as u64);
        counters.udp_bytes_out.add(bytes as u64);
        Ok(sent)
    }

    /// Sees to a datagram that the kernel did not take: one it has no room for is kept, or dropped; of any
    /// other `fail` is told.
    #[cold]
    fn refused(
        &mut self,
        error: &io::Error,
        bytes: &[u8],
        transmit: &Transmit,
        poller: &Poller,
        counters: &Counters,
        mut fail: impl FnMut(u64),
    ) {
        if is_transient(error) {
            let room = self.keep(bytes, transmit.flow.remote, poller);
            counters.udp_send_drops.add(u64::from(!room));
        } else if errno(error) == libc::ENOBUFS {
            counters.udp_send_drops.one();
        } else {
            counters.udp_send_errors.one();
            fail(transmit.token);
        }
    }

    /// Keeps a copy of a datagram until the kernel has room; `false` if there are too many.
    pub fn keep(&mut self, bytes: &[u8], to: SocketAddr, poller: &Poller) -> bool {
        if self.waiting.datagrams.len() >= self.waiting.most {
            return false;
        }
        if self.has_room() {
            let both = Interest::READ.and(Interest::WRITE);
            let _ = poller.modify(self.fd.as_fd(), both, self.data);
        }
        self.waiting.datagrams.push_back((bytes.to_vec(), to));
        true
    }

    /// The kernel has room again: sends what waits.
    pub fn writable(&mut self, reports: &mut Reports, poller: &Poller) {
        while let Some((bytes, to)) = self.waiting.datagrams.front() {
            let to = if self.peer.is_some() { None } else { Some(*to) };
            match send_one(self.fd.as_fd(), bytes, to, reports) {
                Err(error) if is_transient(&error) => return,
                Ok(n) => {
                    reports.counters().udp_out.one();
                    reports.counters().udp_bytes_out.add(n as u64);
                }
                // Too late to tell anyone; the sender's timers see to it.
                Err(_) => reports.counters().udp_send_errors.one(),
            }
            self.waiting.datagrams.pop_front();
        }
        let _ = poller.modify(self.fd.as_fd(), Interest::READ, self.data);
    }
}

/// Sends one datagram, from a connected socket without an address.
#[inline]
fn send_one(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    to: Option<SocketAddr>,
    reports: &mut Reports,
) -> io::Result<usize> {
    let whole = bytes.len() <= ONE_PACKET;
    reports.counters().syscalls.one();
    match attempt(fd, bytes, to, whole) {
        Ok(sent) => Ok(sent),
        Err(error) => send_again(error, whole, fd, bytes, to, reports),
    }
}

#[inline]
fn attempt(fd: BorrowedFd<'_>, bytes: &[u8], to: Option<SocketAddr>, whole: bool) -> io::Result<usize> {
    match to {
        Some(to) if whole => sys::send_to(fd, bytes, to),
        None if whole => sys::send(fd, bytes),
        _ => sys::send_in_fragments(fd, bytes, to),
    }
}

/// What the network said of earlier datagrams makes a send fail that has nothing to do with them, so it is
/// taken first and the send repeated.
#[cold]
fn send_again(
    mut error: io::Error,
    mut whole: bool,
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    to: Option<SocketAddr>,
    reports: &mut Reports,
) -> io::Result<usize> {
    let mut attempts = 1;
    loop {
        if is_transient(&error) || errno(&error) == libc::ENOBUFS {
            return Err(error);
        }
        let told = reports.collect(fd) > 0;
        let too_long = whole && errno(&error) == libc::EMSGSIZE;
        whole &= !too_long;
        if attempts == ATTEMPTS || (attempts > 1 && !told && !too_long) {
            return Err(error);
        }
        attempts += 1;
        reports.counters().syscalls.one();
        error = match attempt(fd, bytes, to, whole) {
            Ok(sent) => return Ok(sent),
            Err(error) => error,
        };
    }
}
