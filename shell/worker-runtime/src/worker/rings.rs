//! One worker's side of the rings to the others.

use super::deferred::Deferred;
use crate::counters::Counters;
use crate::shared::{Hop, Mailbox, Shared};
use crate::transport::stream::Ticket;
use std::sync::Arc;
use wire::{ConnId, Flow, Identity, Time};

/// A buffer that grew beyond this is freed after its hop.
const KEEP_CAPACITY: usize = 16 << 10;
/// Capacity of a new buffer: most messages fit.
const NEW_CAPACITY: usize = 2 << 10;

/// The rings to the other workers, and the mailbox of this one.
pub struct Rings<N> {
    me: u16,
    shared: Arc<Shared<N>>,
    counters: Arc<Counters>,
    /// Which workers' rings got an entry since the last [`Rings::rouse`].
    touched: Vec<bool>,
    any_touched: bool,
    deferred: Deferred,
    /// Connections of other workers to tell of at the end of the round.
    settling: Vec<ConnId>,
}

impl<N> Rings<N> {
    /// The rings of worker `me`.
    pub fn new(me: u16, shared: Arc<Shared<N>>) -> Rings<N> {
        let counters = Arc::clone(&shared.counters[usize::from(me)]);
        let touched = vec![false; shared.mailboxes.len()];
        let deferred = Deferred::new(touched.len(), shared.mailboxes[usize::from(me)].places());
        Rings { me, shared, counters, touched, any_touched: false, deferred, settling: Vec::new() }
    }

    /// The number of this worker.
    pub fn me(&self) -> u16 {
        self.me
    }

    /// The number of workers.
    pub fn workers(&self) -> u16 {
        self.shared.mailboxes.len() as u16
    }

    /// What all share.
    pub fn shared(&self) -> &Shared<N> {
        &self.shared
    }

    /// This worker's mailbox.
    pub fn mailbox(&self) -> &Mailbox<N> {
        &self.shared.mailboxes[usize::from(self.me)]
    }

    /// A buffer of this worker holding `bytes`.
    fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.mailbox().spare.pop().unwrap_or_else(|| Vec::with_capacity(NEW_CAPACITY));
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// Gives a buffer back to the worker it is of.
    pub fn give_back(&self, owner: u16, buffer: Vec<u8>) {
        if buffer.capacity() <= KEEP_CAPACITY
            && let Some(mailbox) = self.shared.mailboxes.get(usize::from(owner))
        {
            let _ = mailbox.spare.push(buffer);
        }
    }

    fn push(&mut self, to: u16, hop: Hop) -> Result<(), Hop> {
        let Some(mailbox) = self.shared.mailboxes.get(usize::from(to)) else { return Err(hop) };
        mailbox.give(hop)?;
        self.touched[usize::from(to)] = true;
        self.any_touched = true;
        Ok(())
    }

    /// Hands a message to the worker that owns it; `false` if its ring is full.
    pub fn hand_over(&mut self, to: u16, flow: Flow, bytes: &[u8], arrived: Option<Time>) -> bool {
        let hop = Hop::Message { flow, bytes: self.fill(bytes), from: self.me, arrived };
        match self.push(to, hop) {
            Ok(()) => {
                self.counters.hops_out.one();
                true
            }
            Err(hop) => {
                if let Hop::Message { bytes, .. } = hop {
                    self.give_back(self.me, bytes);
                }
                false
            }
        }
    }

    /// Hands a message to the worker that owns the connection it is for; `false` if that cannot be.
    pub fn hand_to_send(&mut self, conn: ConnId, bytes: &[u8], ticket: Ticket) -> bool {
        let hop = Hop::Send { conn, bytes: self.fill(bytes), ticket };
        match self.push(conn.worker(), hop) {
            Ok(()) => true,
            Err(hop) => {
                if let Hop::Send { bytes, .. } = hop {
                    self.give_back(self.me, bytes);
                }
                false
            }
        }
    }

    /// Tells a worker something that should not be lost: kept here while its ring is full, within limits.
    pub fn tell(&mut self, to: u16, hop: Hop) {
        // What waits for the same worker goes first.
        if self.defers_for(to) {
            return self.defer(to, hop);
        }
        if let Err(hop) = self.push(to, hop) {
            self.defer(to, hop);
        }
    }

    /// Beyond the limit a hop that need not arrive is lost and counted; the machines' own timers have to
    /// notice then.
    fn defer(&mut self, to: u16, hop: Hop) {
        self.counters.ring_drops.add(u64::from(!self.deferred.keep(to, hop)));
    }

    /// Passes the identity of a peer to every other worker.
    pub fn tell_identity(&mut self, conn: ConnId, identity: &Arc<Identity>) {
        let me = self.me;
        for worker in (0..self.workers()).filter(|&worker| worker != me) {
            self.tell(worker, Hop::Identified(conn, Arc::clone(identity)));
        }
    }

    /// Tells every other worker that a connection is gone.
    pub fn tell_gone(&mut self, conn: ConnId) {
        let me = self.me;
        for worker in (0..self.workers()).filter(|&worker| worker != me) {
            self.tell(worker, Hop::Gone(conn));
        }
    }

    /// Asks every other worker to tell when it has answered what it was given of a connection.
    pub fn ask_to_settle(&mut self, conn: ConnId) {
        let me = self.me;
        for worker in (0..self.workers()).filter(|&worker| worker != me) {
            self.tell(worker, Hop::Settle(conn));
        }
    }

    /// Notes a connection whose worker asks for that.
    pub fn settle(&mut self, conn: ConnId) {
        self.settling.push(conn);
    }

    /// Tells of those noted. To be called when all answers of the round have been handed over.
    pub fn tell_settled(&mut self) {
        while let Some(conn) = self.settling.pop() {
            self.tell(conn.worker(), Hop::Settled(conn));
        }
    }

    /// Sends deferred items again. The order for each worker is kept.
    pub fn retry(&mut self) {
        if self.deferred.is_empty() {
            return;
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        deferred.retry(|to, hop| self.push(to, hop));
        self.deferred = deferred;
    }

    /// Whether something is deferred.
    pub fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Whether as much is deferred as may be: nothing is to begin that adds to it.
    pub fn defers_most(&self) -> bool {
        self.deferred.is_full()
    }

    /// Whether something for this worker is deferred.
    pub fn defers_for(&self, to: u16) -> bool {
        self.deferred.waits_for(to)
    }

    /// Wakes the workers that have been given something and sleep.
    pub fn rouse(&mut self) {
        if !self.any_touched {
            return;
        }
        self.any_touched = false;
        for (mailbox, touched) in self.shared.mailboxes.iter().zip(&mut self.touched) {
            if std::mem::take(touched) {
                mailbox.rouse();
            }
        }
    }
}
