//! Datagrams: receiving in batches or one by one as the traffic has it, sending likewise.

use super::Worker;
use super::habit::{BATCH_PAYS, Habit, Looks};
use super::peers::Peers;
use super::returned::Reports;
use super::stamps::Stamps;
use crate::config::RuntimeConfig;
use crate::counters::Counters;
use crate::listen::{Lent, UdpSocket};
use crate::monotonic_now;
use crate::streams::is_transient;
use crate::sys::{self, Interest, Poller, SendBatch, errno};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use wire::{Flow, ListenerId, Machine, Outbox, Time, Transmit};

/// With more sockets than that epoll is asked in every grain which have something.
const FEW: usize = 8;
/// Grains in which a socket had nothing, after which it is looked at only where epoll says so.
const IDLE: u8 = 16;

/// Full batches taken from one socket before others get their turn.
const BATCHES: usize = 4;
/// Datagrams to one address and of one length from which on it is cheaper to have the kernel cut one into
/// them. Measured on loopback, 400 bytes each, microseconds a datagram: 18.6 against 21.6 at bursts of 4, 6.1
/// against 9.5 at 12, 2.7 against 6.7 at 32.
const GROUP_PAYS: usize = 3;

/// Datagrams up to this length fit into one packet nearly everywhere. Longer ones are sent in a way
/// that allows fragments from the start, others when the kernel says that they do not fit.
const ONE_PACKET: usize = 1_400;
/// How often a datagram is sent again because the socket held an error of an earlier one.
const ATTEMPTS: usize = 8;

struct Socket {
    id: ListenerId,
    fd: Arc<OwnedFd>,
    /// Where it is connected to, if it is.
    peer: Option<SocketAddr>,
    /// The number of the one at the same address that is connected for good, and where to.
    twin: Option<(SocketAddr, u16)>,
    /// It is one of those that are connected to whom much is sent, and may be without a peer.
    lent: Lent,
    data: u64,
    habit: Habit,
    /// Looks in a row that found nothing.
    idle: u8,
    /// Transmits of the outbox at hand that go out here.
    queue: Vec<u32>,
    /// Copies of what the kernel had no room for.
    backlog: VecDeque<(Vec<u8>, SocketAddr)>,
}

/// The datagram sockets of one worker.
pub struct Datagrams {
    /// Those that only send are the last.
    sockets: Vec<Socket>,
    /// How many others there are.
    hearing: usize,
    /// Socket numbers by listener; `u16::MAX` where the listener is of another transport.
    by_listener: Vec<u16>,
    max_backlog: usize,
    /// Who else gets a socket that is connected.
    peers: Peers,
    /// Whether all is taken in batches: the kernel may join what comes, or notes when it does, and only a
    /// batch says so.
    batched: bool,
    /// Whether what comes together is answered together, so that it goes through the kernel as one.
    defers: bool,
    /// Sockets with transmits in their queue: there may be thousands without.
    pending: Vec<u16>,
    /// What came back.
    pub(super) reports: Reports,
    counters: Arc<Counters>,
}

impl Datagrams {
    /// No sockets yet.
    pub fn new(config: &RuntimeConfig, counters: Arc<Counters>) -> Datagrams {
        let by_listener = vec![u16::MAX; config.listeners.len()];
        Datagrams {
            sockets: Vec::new(),
            hearing: 0,
            by_listener,
            max_backlog: config.udp_send_queue,
            peers: Peers::new(),
            batched: config.together || config.stamps,
            defers: config.segment.is_some(),
            pending: Vec::new(),
            reports: Reports::default(),
            counters,
        }
    }

    /// Adds a socket that epoll reports as `data`; those that only send after all others.
    pub fn add(&mut self, socket: UdpSocket, data: u64) {
        let UdpSocket { id, peer, lent, .. } = socket;
        let number = self.sockets.len() as u16;
        debug_assert!(!lent.hears() || self.hearing == self.sockets.len(), "in this order");
        self.hearing += usize::from(lent.hears());
        if lent != Lent::No {
            self.peers.add_spare(id, number);
        } else if let Some(entry) = self.by_listener.get_mut(usize::from(id.0)) {
            match (peer, self.sockets.get_mut(usize::from(*entry))) {
                (Some(peer), Some(first)) => first.twin = Some((peer, number)),
                _ => *entry = number,
            }
        }
        self.sockets.push(Socket::new(socket, data));
    }

    /// How many sockets there are that datagrams come by.
    pub fn count(&self) -> usize {
        self.hearing
    }

    /// The sockets that datagrams come by.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> + Clone {
        self.sockets.get(..self.hearing).unwrap_or_default().iter().map(|socket| socket.fd.as_fd())
    }

    /// Whether there are so few sockets that a look at those in use is cheaper than asking epoll, and none of
    /// them waits for room, of which only epoll tells.
    pub fn may_be_looked_at(&self) -> bool {
        self.hearing <= FEW && self.sockets.iter().all(|socket| socket.backlog.is_empty())
    }

    /// Whether socket `number` is in use: it had something in one of the last grains.
    pub fn is_lively(&self, number: usize) -> bool {
        self.sockets.get(number).is_some_and(|socket| socket.idle < IDLE)
    }

    /// The socket that datagrams of `flow` leave by.
    #[inline]
    fn number_of(&mut self, flow: &Flow) -> u16 {
        if let Some(number) = self.peers.count(flow) {
            return number;
        }
        let number = self.by_listener.get(usize::from(flow.listener.0)).copied().unwrap_or(u16::MAX);
        match self.sockets.get(usize::from(number)).and_then(|socket| socket.twin) {
            Some((peer, twin)) if peer == flow.remote => twin,
            _ => number,
        }
    }

    /// Notes that transmit `index` goes out by `flow`; `false` if no datagrams can.
    pub fn enqueue(&mut self, flow: &Flow, index: u32) -> bool {
        let number = self.number_of(flow);
        match self.sockets.get_mut(usize::from(number)) {
            Some(socket) => {
                if socket.queue.is_empty() {
                    self.pending.push(number);
                }
                socket.queue.push(index);
                true
            }
            None => false,
        }
    }

    /// Sends one transmit at once, past the queues, which are empty. `fail` is told if the kernel refused it.
    /// `false`, and nothing is done, if no datagrams go out by its flow.
    #[inline]
    pub fn send_lone(
        &mut self,
        out: &Outbox,
        transmit: &Transmit,
        poller: &Poller,
        fail: impl FnMut(u64),
    ) -> bool {
        let number = self.number_of(&transmit.flow);
        let Some(socket) = self.sockets.get_mut(usize::from(number)) else { return false };
        let bytes = out.message(transmit);
        let to = if socket.peer.is_some() { None } else { Some(transmit.flow.remote) };
        // What waits already goes first.
        let sent = match socket.backlog.is_empty() {
            true => send_one(socket.fd.as_fd(), bytes, to, &mut self.reports, &self.counters),
            false => Err(io::ErrorKind::WouldBlock.into()),
        };
        match sent {
            Ok(_) => {
                self.counters.udp_out.one();
                self.counters.udp_bytes_out.add(bytes.len() as u64);
            }
            Err(error) => {
                socket.refused(&error, bytes, transmit, self.max_backlog, poller, &self.counters, fail)
            }
        }
        true
    }

    /// Sends what was enqueued. `fail` is told of transmits that the kernel refused.
    pub fn send(&mut self, out: &Outbox, batch: &mut SendBatch, poller: &Poller, mut fail: impl FnMut(u64)) {
        for number in self.pending.drain(..) {
            let Some(socket) = self.sockets.get_mut(usize::from(number)) else { continue };
            let queue = std::mem::take(&mut socket.queue);
            let mut rest = queue.as_slice();
            while let Some((&first, others)) = rest.split_first() {
                let done = match socket.send(out, rest, batch, &mut self.reports, &self.counters) {
                    Ok(n) => n.max(1),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        let Some(transmit) = out.transmits().get(first as usize) else { break };
                        let (bytes, most) = (out.message(transmit), self.max_backlog);
                        socket.refused(&error, bytes, transmit, most, poller, &self.counters, &mut fail);
                        1
                    }
                };
                rest = if done == 1 { others } else { rest.get(done..).unwrap_or_default() };
            }
            socket.queue = queue;
            socket.queue.clear();
        }
    }

    /// The kernel has room again.
    pub fn writable(&mut self, number: usize, poller: &Poller) {
        let Some(socket) = self.sockets.get_mut(number) else { return };
        while let Some((bytes, to)) = socket.backlog.front() {
            // What was kept for another peer still goes there.
            let to = if socket.peer == Some(*to) { None } else { Some(*to) };
            match send_one(socket.fd.as_fd(), bytes, to, &mut self.reports, &self.counters) {
                Err(error) if is_transient(&error) => return,
                Ok(n) => {
                    self.counters.udp_out.one();
                    self.counters.udp_bytes_out.add(n as u64);
                }
                // Once more, without a peer.
                Err(_) if socket.may_lose_its_peer() && socket.peer.take().is_some() => continue,
                // Too late to tell anyone; the sender's timers see to it.
                Err(_) => self.counters.udp_send_errors.one(),
            }
            socket.backlog.pop_front();
        }
        let _ = poller.modify(socket.fd.as_fd(), Interest::READ, socket.data);
    }

    /// Connects sockets to the peers that most goes to, now and then.
    pub fn connect_busy(&mut self, now: Time, listeners: &[crate::Listener]) {
        let sockets = &self.sockets;
        let waits = |number| sockets.get(usize::from(number)).is_none_or(|socket| !socket.backlog.is_empty());
        let lost = |number| sockets.get(usize::from(number)).is_none_or(|socket| socket.peer.is_none());
        for wish in self.peers.wishes(now, waits, lost) {
            let number = wish.instead.or_else(|| self.peers.take_spare(wish.listener));
            let listener = listeners.get(usize::from(wish.listener.0));
            let (Some(number), Some(listener)) = (number, listener) else { continue };
            let Some(socket) = self.sockets.get_mut(usize::from(number)) else { continue };
            match socket.connect(listener.address, wish.peer) {
                Ok(()) => {
                    tracing::debug!(peer = %wish.peer, "a connected socket");
                    self.peers.granted(&wish, number);
                }
                Err(error) => {
                    tracing::debug!(peer = %wish.peer, %error, "no connected socket");
                    // Without an address of its own it has nothing to do with the peer.
                    if socket.lent != Lent::Unbound {
                        self.peers.denied(&wish);
                    }
                    if wish.instead.is_none() {
                        self.peers.add_spare(wish.listener, number);
                    }
                }
            }
        }
    }

    /// When to look for more in socket `number`, of which so many datagrams were taken.
    fn looks(&mut self, number: usize, taken: usize) -> Option<&mut Looks> {
        self.sockets.get_mut(number).map(|socket| socket.habit.after(taken))
    }

    /// Takes what the network says about datagrams of socket `number`.
    pub(super) fn collect(&mut self, number: usize) {
        if let Some(socket) = self.sockets.get(number) {
            self.reports.collect(socket.fd.as_fd(), &self.counters);
        }
    }
}

/// Sends one datagram, from a connected socket without an address.
#[inline]
fn send_one(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    to: Option<SocketAddr>,
    reports: &mut Reports,
    counters: &Counters,
) -> io::Result<usize> {
    let whole = bytes.len() <= ONE_PACKET;
    counters.syscalls.one();
    match attempt(fd, bytes, to, whole) {
        Ok(sent) => Ok(sent),
        Err(error) => send_again(error, whole, fd, bytes, to, reports, counters),
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
    counters: &Counters,
) -> io::Result<usize> {
    let mut attempts = 1;
    loop {
        if is_transient(&error) || errno(&error) == libc::ENOBUFS {
            return Err(error);
        }
        let told = reports.collect(fd, counters) > 0;
        let too_long = whole && errno(&error) == libc::EMSGSIZE;
        whole &= !too_long;
        if attempts == ATTEMPTS || (attempts > 1 && !told && !too_long) {
            return Err(error);
        }
        attempts += 1;
        counters.syscalls.one();
        error = match attempt(fd, bytes, to, whole) {
            Ok(sent) => return Ok(sent),
            Err(error) => error,
        };
    }
}

impl Socket {
    /// One that epoll reports as `data`.
    fn new(UdpSocket { id, fd, peer, lent }: UdpSocket, data: u64) -> Socket {
        let (habit, queue, backlog) = (Habit::default(), Vec::new(), VecDeque::new());
        Socket { id, fd, peer, twin: None, lent, data, habit, idle: 0, queue, backlog }
    }

    /// Whether it is one that gets peers in turn, and can send without.
    fn may_lose_its_peer(&self) -> bool {
        matches!(self.lent, Lent::Bound | Lent::Mute)
    }

    /// Connects one that is lent to another peer. On an error it has none: the kernel keeps the old one, but
    /// may write the new one's address into what is sent there (Linux, IPv4, whatever speaks against the new
    /// one). So each send names it.
    fn connect(&mut self, address: SocketAddr, peer: SocketAddr) -> io::Result<()> {
        if self.lent == Lent::Unbound {
            sys::udp_bind_later(self.fd.as_fd(), address)?;
            self.lent = Lent::Bound;
        }
        self.peer = None;
        sys::udp_connect(self.fd.as_fd(), peer)?;
        self.peer = Some(peer);
        Ok(())
    }

    /// A lent socket whose peer cannot be reached by it is as any other from now on: something may have
    /// disconnected it (`ss --kill`, a container's network). Whether this datagram went out so.
    fn sent_without_peer(&mut self, bytes: &[u8], to: SocketAddr) -> bool {
        let taken = self.may_lose_its_peer() && self.peer.take().is_some();
        let whole = bytes.len() <= ONE_PACKET;
        // Twice: the first may meet what the end of the connection has left.
        taken && (0..2).any(|_| attempt(self.fd.as_fd(), bytes, Some(to), whole).is_ok())
    }

    /// Sends the first of `queue`, several at once if there are several.
    fn send(
        &self,
        out: &Outbox,
        queue: &[u32],
        batch: &mut SendBatch,
        reports: &mut Reports,
        counters: &Counters,
    ) -> io::Result<usize> {
        if !self.backlog.is_empty() {
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
            counters.syscalls.one();
            batch.send(self.fd.as_fd(), self.peer.is_some(), messages()).map(Some)
        } else {
            Ok(None)
        };
        // A batch that met an error may have met that of an earlier datagram.
        let sent = match together {
            Ok(Some(sent)) => {
                counters.udp_segmented.add(batch.sent_together(sent) as u64);
                sent
            }
            others => {
                let to = if self.peer.is_some() { None } else { Some(first_to) };
                let sent = send_one(self.fd.as_fd(), first, to, reports, counters).map(|_| 1)?;
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
        most: usize,
        poller: &Poller,
        counters: &Counters,
        mut fail: impl FnMut(u64),
    ) {
        if is_transient(error) {
            let room = self.keep(bytes, transmit.flow.remote, most, poller);
            counters.udp_send_drops.add(u64::from(!room));
        } else if errno(error) == libc::ENOBUFS {
            counters.udp_send_drops.one();
        } else if self.sent_without_peer(bytes, transmit.flow.remote) {
            counters.udp_out.one();
            counters.udp_bytes_out.add(bytes.len() as u64);
        } else {
            counters.udp_send_errors.one();
            fail(transmit.token);
        }
    }

    /// Keeps a copy of a datagram until the kernel has room; `false` if there are too many.
    fn keep(&mut self, bytes: &[u8], to: SocketAddr, max: usize, poller: &Poller) -> bool {
        if self.backlog.len() >= max {
            return false;
        }
        if self.backlog.is_empty() {
            let both = Interest::READ.and(Interest::WRITE);
            let _ = poller.modify(self.fd.as_fd(), both, self.data);
        }
        self.backlog.push_back((bytes.to_vec(), to));
        true
    }
}

impl<M: Machine> Worker<M> {
    /// Takes datagrams from socket `number` and sends what the machine answers. What is left there,
    /// epoll reports again.
    pub(super) fn receive_datagrams(&mut self, number: usize) {
        let Some(socket) = self.datagrams.sockets.get_mut(number) else { return };
        // Many that are connected do not keep those waiting that are not.
        let batches = if socket.lent == Lent::No || socket.peer.is_none() { BATCHES } else { 1 };
        if !socket.habit.batches && !self.datagrams.batched && !self.grain.is_dense() {
            let taken = self.receive_plainly(number);
            if taken < BATCH_PAYS {
                return;
            }
        }
        for round in 0..batches {
            if round > 0 {
                self.now = monotonic_now();
            }
            let received = self.receive_batch(number);
            if let Some(socket) = self.datagrams.sockets.get_mut(number) {
                socket.habit.received(received);
                socket.idle = if received > 0 { 0 } else { socket.idle.saturating_add(1) };
            }
            // Fewer than fit: the last look found nothing, or a report, of which epoll tells.
            if received < self.recv.capacity() {
                return;
            }
        }
        self.grain.more();
    }

    /// Takes datagrams one by one, as long as looking for more pays, and answers how many.
    fn receive_plainly(&mut self, number: usize) -> usize {
        let taken = self.receive_some(number);
        if self.datagrams.defers {
            self.dispatch();
            self.links.rouse();
        }
        taken
    }

    fn receive_some(&mut self, number: usize) -> usize {
        // Of the first a report has told.
        if !self.receive_one(number) {
            return 0;
        }
        for taken in 1..BATCH_PAYS {
            if !self.datagrams.looks(number, taken).is_some_and(Looks::wanted) {
                return taken;
            }
            let more = self.receive_one(number);
            if let Some(looks) = self.datagrams.looks(number, taken) {
                looks.done(more);
            }
            if !more {
                return taken;
            }
        }
        BATCH_PAYS
    }

    /// Takes one datagram, or what was said of one sent before; `false` if there was neither.
    fn receive_one(&mut self, number: usize) -> bool {
        let Worker { datagrams, recv, machine, links, out, counters, now, grain, steered, stamped, .. } =
            self;
        let Some(socket) = datagrams.sockets.get(number) else { return false };
        counters.syscalls.one();
        let (n, from) = match sys::recv_from(socket.fd.as_fd(), recv.first_buffer()) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => {
                datagrams.reports.collect(socket.fd.as_fd(), counters);
                return true;
            }
        };
        let id = socket.id;
        grain.note(1);
        counters.udp_batches.one();
        counters.udp_in.one();
        counters.udp_bytes_in.add(n as u64);
        if let Some(bytes) = recv.first_buffer().get(..n) {
            let (now, steered, stamped) = (*now, *steered, *stamped);
            let mut sink = Sink { machine, links, out, counters, now, stamped, steered };
            sink.take(Flow::udp(id, from), bytes, None);
        }
        if !self.datagrams.defers {
            self.dispatch();
        }
        self.links.rouse();
        true
    }

    fn receive_batch(&mut self, number: usize) -> usize {
        let Worker { datagrams, recv, machine, links, out, counters, now, grain, steered, stamped, .. } =
            self;
        let Some(socket) = datagrams.sockets.get(number) else { return 0 };
        let id = socket.id;
        counters.syscalls.one();
        let received = match recv.recv(socket.fd.as_fd()) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return 0,
            Err(_) => {
                // What was said of earlier sends stands before what has come, which is for next time.
                datagrams.reports.collect(socket.fd.as_fd(), counters);
                return 0;
            }
        };
        counters.udp_batches.one();
        let stamps = stamped.then(|| Stamps::new(*now));
        let (mut count, mut total) = (0, 0);
        let (now, stamped, steered) = (*now, *stamped, *steered);
        let mut sink = Sink { machine, links, out, counters, now, stamped, steered };
        for index in 0..received {
            let Some((messages, from)) = recv.messages(index) else { continue };
            let arrived = stamps.as_ref().and_then(|stamps| stamps.time(recv.stamp(index)?));
            // An empty one is none to the machine, but it came.
            let before = count;
            for bytes in messages {
                count += 1;
                total += bytes.len();
                sink.take(Flow::udp(id, from), bytes, arrived);
            }
            count = count.max(before + 1);
            // Many that came as one may be more than a ring takes while its owner sleeps.
            if count > before + 1 {
                sink.links.rouse();
            }
        }
        counters.udp_in.add(count as u64);
        counters.udp_bytes_in.add(total as u64);
        grain.note(count);
        self.dispatch_unless_dense();
        self.links.rouse();
        received
    }
}

/// Where received messages go: to the machine, or to the worker that owns them.
pub(super) struct Sink<'a, M: Machine> {
    pub machine: &'a mut M,
    pub links: &'a mut super::Links<M::Notice>,
    pub out: &'a mut Outbox,
    pub counters: &'a Counters,
    pub now: Time,
    /// Whether its worker notes when messages came.
    pub stamped: bool,
    /// Whether a datagram is most probably this worker's.
    pub steered: bool,
}

impl<M: Machine> Sink<'_, M> {
    /// Takes a datagram: it is lost if its owner's ring is full.
    fn take(&mut self, flow: Flow, bytes: &[u8], arrived: Option<Time>) {
        if bytes.is_empty() {
            return;
        }
        let other = if self.steered && arrived.is_none() {
            let place = (self.links.me(), self.links.workers());
            self.machine.receive_steered(self.now, flow, bytes, place, self.out)
        } else {
            let other = self.other_owner(bytes);
            if other.is_none() {
                self.deliver(flow, bytes, arrived);
            }
            other
        };
        if let Some(owner) = other {
            let taken = self.hand_over(owner, flow, bytes, arrived);
            self.counters.udp_hops.add(u64::from(taken));
            self.counters.ring_drops.add(u64::from(!taken));
        }
    }

    /// Takes a message unless its owner's ring is full.
    pub(super) fn offer(&mut self, flow: Flow, bytes: &[u8]) -> bool {
        match self.other_owner(bytes) {
            Some(owner) => self.hand_over(owner, flow, bytes, None),
            None => {
                self.deliver(flow, bytes, None);
                true
            }
        }
    }

    /// The worker that owns this, if it is not this one.
    fn other_owner(&self, bytes: &[u8]) -> Option<u16> {
        let workers = self.links.workers();
        if workers <= 1 {
            return None;
        }
        let owner = self.machine.owner(bytes, workers)? % workers;
        (owner != self.links.me()).then_some(owner)
    }

    fn hand_over(&mut self, owner: u16, flow: Flow, bytes: &[u8], arrived: Option<Time>) -> bool {
        // The owner may sleep for a grain. It came before this moment, perhaps after the round began.
        let arrived = arrived.or_else(|| self.stamped.then(monotonic_now));
        self.links.hand_over(owner, flow, bytes, arrived)
    }

    fn deliver(&mut self, flow: Flow, bytes: &[u8], arrived: Option<Time>) {
        match arrived {
            // A message that came after the round began came when it began.
            Some(arrived) => {
                self.machine.receive_late(self.now, arrived.min(self.now), flow, bytes, self.out);
            }
            None => self.machine.receive(self.now, flow, bytes, self.out),
        }
    }
}

#[cfg(test)]
mod tests;
