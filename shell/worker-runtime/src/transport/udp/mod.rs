//! Datagrams: receiving in batches or one by one as the traffic has it, sending likewise.

mod open;
mod receive_buffers;
mod receive_mode;
mod returned;
mod socket;
mod stamps;

pub use open::{UdpSocket, open};
pub use receive_mode::{BATCH_PAYS, Looks};

use super::Sink;
use crate::config::RuntimeConfig;
use crate::counters::Counters;
use crate::sys::{self, Poller, RecvBatch, SendBatch};
use receive_buffers::ReceiveBuffers;
use returned::Reports;
use socket::Socket;
use stamps::Stamps;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::{Flow, Outbox, Time, Transmit};

/// With more sockets than that epoll is asked in every grain which have something.
const FEW: usize = 8;
/// Full batches taken from one socket before others get their turn.
pub const BATCHES: usize = 4;

/// What was taken from a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Nothing is there.
    Nothing,
    /// What the network said of a datagram sent before.
    Report,
    /// A datagram.
    Datagram,
}

/// The datagram sockets of one worker.
pub struct Datagrams {
    sockets: Vec<Socket>,
    /// Socket numbers by listener; `u16::MAX` where the listener is of another transport.
    by_listener: Vec<u16>,
    /// Datagrams that may wait at a socket.
    max_waiting: usize,
    /// Whether all is taken in batches: the kernel may join what comes, or notes when it does, and only a
    /// batch says so.
    batched: bool,
    /// Whether the kernel notes when datagrams come.
    stamped: bool,
    /// Whether what comes together is answered together, so that it goes through the kernel as one.
    defers: bool,
    /// Sockets with transmits in their queue: there may be thousands without.
    pending: Vec<u16>,
    recv: RecvBatch,
    send: SendBatch,
    receive_buffers: ReceiveBuffers,
    reports: Reports,
    counters: Arc<Counters>,
}

impl Datagrams {
    /// These sockets, watched by `poller`, which reports each as what `data` answers for its number.
    pub fn new(
        config: &RuntimeConfig,
        sockets: Vec<UdpSocket>,
        counters: Arc<Counters>,
        (poller, data): (&Poller, impl Fn(usize) -> u64),
        now: Time,
    ) -> io::Result<Datagrams> {
        let size = sockets.iter().map(|socket| sys::receive_buffer(socket.fd.as_fd())).min().unwrap_or(0);
        let receive_buffers =
            ReceiveBuffers::new(config.udp_hold, sockets.len(), size, config.udp_buffer_most, now);
        let stamped = config.generator.are_stamped();
        let mut datagrams = Datagrams {
            sockets: Vec::with_capacity(sockets.len()),
            by_listener: vec![u16::MAX; config.listeners.len()],
            max_waiting: config.udp_send_queue,
            batched: config.generator.together || config.generator.stamps,
            stamped,
            defers: config.segment,
            pending: Vec::new(),
            recv: RecvBatch::new(config.batch, config.generator.together || stamped),
            send: SendBatch::new(config.batch, config.segment),
            receive_buffers,
            reports: Reports::new(Arc::clone(&counters)),
            counters,
        };
        for (number, socket) in sockets.into_iter().enumerate() {
            let data = data(number);
            poller.add(socket.fd.as_fd(), sys::Interest::READ, data)?;
            datagrams.add(socket, data);
        }
        Ok(datagrams)
    }

    /// Adds a socket that epoll reports as `data`; a listener's own before its twin.
    fn add(&mut self, socket: UdpSocket, data: u64) {
        let UdpSocket { id, peer, .. } = socket;
        let number = self.sockets.len() as u16;
        if let Some(entry) = self.by_listener.get_mut(usize::from(id.0)) {
            match (peer, self.sockets.get_mut(usize::from(*entry))) {
                (Some(peer), Some(first)) => first.set_twin(peer, number),
                _ => *entry = number,
            }
        }
        self.sockets.push(Socket::new(socket, data, self.max_waiting));
    }

    /// How many sockets there are.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// The sockets.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> + Clone {
        self.sockets.iter().map(Socket::fd)
    }

    /// Whether there are so few sockets that a look at those in use is cheaper than asking epoll, and none of
    /// them waits for room, of which only epoll tells.
    pub fn may_be_looked_at(&self) -> bool {
        self.sockets.len() <= FEW && self.sockets.iter().all(Socket::has_room)
    }

    /// Whether socket `number` is in use: it had something in one of the last grains.
    pub fn is_lively(&self, number: usize) -> bool {
        self.sockets.get(number).is_some_and(Socket::is_lively)
    }

    /// Whether the kernel notes when datagrams come.
    pub fn are_stamped(&self) -> bool {
        self.stamped
    }

    /// Whether what comes together is answered together.
    #[inline]
    pub fn defers(&self) -> bool {
        self.defers
    }

    /// Datagrams that fit into a batch.
    pub fn batch(&self) -> usize {
        self.recv.capacity()
    }

    /// The socket that datagrams of `flow` leave by.
    #[inline]
    fn number_of(&self, flow: &Flow) -> u16 {
        let number = self.by_listener.get(usize::from(flow.listener.0)).copied().unwrap_or(u16::MAX);
        let twin = self.sockets.get(usize::from(number)).and_then(|socket| socket.twin_for(flow.remote));
        twin.unwrap_or(number)
    }

    /// Notes that transmit `index` goes out by `flow`; `false` if no datagrams can.
    pub fn enqueue(&mut self, flow: &Flow, index: u32) -> bool {
        let number = self.number_of(flow);
        let Some(socket) = self.sockets.get_mut(usize::from(number)) else { return false };
        if socket.enqueue(index) {
            self.pending.push(number);
        }
        true
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
        socket.send_lone(out.message(transmit), transmit, &mut self.reports, poller, fail);
        true
    }

    /// Sends what was enqueued. `fail` gets the tokens of transmits that the kernel refused.
    pub fn send(&mut self, out: &Outbox, poller: &Poller, mut fail: impl FnMut(u64)) {
        for number in self.pending.drain(..) {
            if let Some(socket) = self.sockets.get_mut(usize::from(number)) {
                socket.send_queue(out, &mut self.send, &mut self.reports, poller, &mut fail);
            }
        }
    }

    /// The kernel has room again.
    pub fn writable(&mut self, number: usize, poller: &Poller) {
        if let Some(socket) = self.sockets.get_mut(number) {
            socket.writable(&mut self.reports, poller);
        }
    }

    /// Has the receive buffers follow what comes, now and then.
    pub fn fit_buffers(&mut self, now: Time) {
        let (datagrams, bytes) = self.counters.datagrams();
        if let Some(wanted) = self.receive_buffers.wants(now, datagrams, bytes) {
            self.make_room(wanted);
        }
    }

    /// More comes than the sockets' buffers hold for long, or much less.
    #[cold]
    fn make_room(&mut self, wanted: usize) {
        let got = self.descriptors().map(|socket| sys::set_receive_buffer(socket, wanted)).min();
        let (wanted_kb, got_kb) = (wanted >> 10, got.unwrap_or(0) >> 10);
        if self.receive_buffers.got(got.unwrap_or(0)) {
            tracing::debug!(got_kb, "receive buffers for datagrams");
        } else {
            log_events::workers::receive_buffers_small(wanted_kb, got_kb);
        }
    }

    /// Whether the network said something that the machines were not told.
    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// What the network gave back: where a datagram was sent, and how it began.
    pub fn take_reports(&mut self) -> Vec<(SocketAddr, Box<[u8]>)> {
        self.reports.take()
    }

    /// Takes what the network says about datagrams of socket `number`.
    pub fn collect(&mut self, number: usize) {
        if let Some(socket) = self.sockets.get(number) {
            self.reports.collect(socket.fd());
        }
    }

    /// Whether datagrams are taken from socket `number` in batches from the start.
    pub fn takes_batches(&mut self, number: usize) -> bool {
        self.batched || self.sockets.get_mut(number).is_some_and(|socket| socket.receive_mode().batches)
    }

    /// When to look for more in socket `number`, of which `taken` datagrams were taken.
    pub fn looks(&mut self, number: usize, taken: usize) -> Option<&mut Looks> {
        self.sockets.get_mut(number).map(|socket| socket.receive_mode().after(taken))
    }

    /// Takes one datagram of socket `number`, or what was said of one sent before.
    #[inline]
    pub fn receive_one(&mut self, number: usize, sink: &mut impl Sink) -> Taken {
        let socket = invariant::some!(self.sockets.get(number), "epoll reports sockets that were added");
        let Some(socket) = socket else { return Taken::Nothing };
        self.counters.syscalls.one();
        let (n, from) = match sys::recv_from(socket.fd(), self.recv.first_buffer()) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Taken::Nothing,
            Err(_) => {
                self.reports.collect(socket.fd());
                return Taken::Report;
            }
        };
        let id = socket.id();
        self.counters.udp_batches.one();
        self.counters.udp_in.one();
        self.counters.udp_bytes_in.add(n as u64);
        // An empty one is no message.
        if let Some(bytes) = self.recv.first_buffer().get(..n).filter(|bytes| !bytes.is_empty()) {
            sink.message(Flow::udp(id, from), bytes, None);
        }
        Taken::Datagram
    }

    /// Takes a batch of socket `number`. How many pieces the kernel gave, each of one datagram or several,
    /// and how many datagrams those were.
    pub fn receive_batch(&mut self, number: usize, now: Time, sink: &mut impl Sink) -> (usize, usize) {
        let socket = invariant::some!(self.sockets.get_mut(number), "epoll reports sockets that were added");
        let Some(socket) = socket else { return (0, 0) };
        let id = socket.id();
        self.counters.syscalls.one();
        let received = match self.recv.recv(socket.fd()) {
            Ok(received) => received,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    // What was said of earlier sends stands before what has come, which is for next time.
                    self.reports.collect(socket.fd());
                }
                0
            }
        };
        socket.received(received);
        if received == 0 {
            return (0, 0);
        }
        self.counters.udp_batches.one();
        let stamps = self.stamped.then(|| Stamps::new(now));
        let (mut count, mut total) = (0, 0);
        for index in 0..received {
            let Some((messages, from)) = self.recv.messages(index) else { continue };
            let arrived = stamps.as_ref().and_then(|stamps| stamps.time(self.recv.stamp(index)?));
            // An empty one is none to the machine, but it came.
            let before = count;
            for bytes in messages {
                count += 1;
                total += bytes.len();
                sink.message(Flow::udp(id, from), bytes, arrived);
            }
            count = count.max(before + 1);
            // Many that came as one may be more than a ring takes while its owner sleeps.
            if count > before + 1 {
                sink.many();
            }
        }
        self.counters.udp_in.add(count as u64);
        self.counters.udp_bytes_in.add(total as u64);
        (received, count)
    }
}

#[cfg(test)]
mod tests;
