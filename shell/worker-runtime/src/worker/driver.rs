//! The machine of a worker, and where the messages go that its sockets receive: to the machine, or to the
//! worker that owns them.

use super::host::{Host, Notice};
use super::rings::Rings;
use crate::counters::Counters;
use crate::monotonic_now;
use crate::transport::Sink;
use std::sync::Arc;
use wire::{Arrival, ConnId, Flow, Machine, Outbox, Time};

/// A machine, its outbox, and the rings to the other workers' machines.
pub(super) struct Driver<H: Host> {
    host: H,
    out: Outbox,
    rings: Rings<Notice<H>>,
    counters: Arc<Counters>,
    /// When this round began.
    now: Time,
    /// Whether what comes in datagrams is most probably this worker's.
    steered: bool,
    /// Whether the kernel notes when datagrams come.
    stamped: bool,
}

impl<H: Host> Driver<H> {
    /// Hosts a machine whose datagrams the kernel has `steered` or not, and `stamped` or not.
    pub fn new(
        host: H,
        rings: Rings<Notice<H>>,
        counters: Arc<Counters>,
        (steered, stamped): (bool, bool),
        now: Time,
    ) -> Driver<H> {
        Driver { host, out: Outbox::new(), rings, counters, now, steered, stamped }
    }

    /// When this round began.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// A round begins.
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// The machine, to be asked something.
    #[inline]
    pub fn machine(&self) -> &H::Machine {
        self.host.machine()
    }

    /// Has the machine do something.
    #[inline]
    pub fn drive<R>(&mut self, act: impl FnOnce(&mut H::Machine, Time, &mut Outbox) -> R) -> R {
        act(self.host.machine_mut(), self.now, &mut self.out)
    }

    /// What the machine wants sent.
    #[inline]
    pub fn out(&self) -> &Outbox {
        &self.out
    }

    /// What the machine wants sent has been seen to.
    #[inline]
    pub fn clear_out(&mut self) {
        self.out.clear();
    }

    /// Takes what the machine wants sent, to be given [back](Driver::give_back) with its memory.
    pub fn take_out(&mut self) -> Outbox {
        std::mem::take(&mut self.out)
    }

    /// What the machine wanted sent has been seen to.
    pub fn give_back(&mut self, mut out: Outbox) {
        debug_assert!(self.out.is_empty(), "the machine wanted nothing meanwhile");
        out.clear();
        self.out = out;
    }

    /// The rings to the other workers.
    #[inline]
    pub fn rings(&self) -> &Rings<Notice<H>> {
        &self.rings
    }

    /// The rings to the other workers.
    #[inline]
    pub fn rings_mut(&mut self) -> &mut Rings<Notice<H>> {
        &mut self.rings
    }

    /// Takes a message of a stream unless its owner's ring is full. The owner gets the identity of the peer
    /// first, which may have to wait for room.
    pub fn offer(&mut self, flow: Flow, bytes: &[u8]) -> bool {
        let taken = match self.other_owner(bytes) {
            Some(owner) if flow.transport.is_secure() && self.rings.defers_for(owner) => false,
            Some(owner) => self.rings.hand_over(owner, flow, bytes, None),
            None => {
                self.deliver(flow, bytes, None);
                true
            }
        };
        self.counters.tcp_messages_in.add(u64::from(taken));
        taken
    }

    /// Takes a message of ours that another worker received.
    pub fn take_over(&mut self, flow: Flow, bytes: &[u8], arrived: Option<Time>) {
        self.counters.hops_in.one();
        // One that came since this round began came now.
        self.deliver(flow, bytes, arrived.filter(|at| *at < self.now));
    }

    /// A connection was begun for the message with this token.
    pub fn connected(&mut self, token: u64, conn: ConnId) {
        self.host.connected(self.now, token, conn);
    }

    /// Takes something that another thread posted.
    pub fn notice(&mut self, notice: Notice<H>) {
        self.counters.notices.one();
        self.host.machine_mut().notice(self.now, notice, &mut self.out);
    }

    /// The worker that owns this, if it is not this one.
    fn other_owner(&self, bytes: &[u8]) -> Option<u16> {
        let workers = self.rings.workers();
        if workers <= 1 {
            return None;
        }
        let owner = self.machine().owner(bytes, workers)? % workers;
        (owner != self.rings.me()).then_some(owner)
    }

    /// Gives the machine a message of its own.
    fn deliver(&mut self, flow: Flow, message: &[u8], arrived: Option<Time>) {
        // A message that came after the round began came when it began.
        let at = arrived.map(|arrived| arrived.min(self.now));
        let arrival = Arrival { at, ..Arrival::new(self.now, flow, message) };
        self.host.machine_mut().receive(arrival, &mut self.out);
    }
}

/// A message that is received whole is lost if its owner's ring is full.
impl<H: Host> Sink for Driver<H> {
    fn message(&mut self, flow: Flow, bytes: &[u8], arrived: Option<Time>) {
        if bytes.is_empty() {
            return;
        }
        let other = if self.steered && arrived.is_none() {
            let steered = Some((self.rings.me(), self.rings.workers()));
            let arrival = Arrival { steered, ..Arrival::new(self.now, flow, bytes) };
            self.host.machine_mut().receive(arrival, &mut self.out)
        } else {
            let other = self.other_owner(bytes);
            if other.is_none() {
                self.deliver(flow, bytes, arrived);
            }
            other
        };
        if let Some(owner) = other {
            // The owner may sleep for a grain. It came before this moment, perhaps after the round began.
            let arrived = arrived.or_else(|| self.stamped.then(monotonic_now));
            let taken = self.rings.hand_over(owner, flow, bytes, arrived);
            self.counters.udp_hops.add(u64::from(taken));
            self.counters.ring_drops.add(u64::from(!taken));
        }
    }

    fn many(&mut self) {
        self.rings.rouse();
    }
}
