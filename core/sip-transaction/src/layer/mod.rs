//! The transaction layer of one worker.

mod client;
mod server;
mod write;

#[cfg(test)]
mod tests;

use crate::id::{ClientId, Generations, Sender, ServerId, sender};
use crate::index::Index;
use crate::key::{KeyReader, MethodCode};
use crate::machine::{ClientInput, ServerInput, Set, Step};
use crate::pool::Pool;
use crate::share::{Payer, Share};
use crate::slab::Slab;
use crate::timers::{Clock, Timers};
use crate::wheel::{NEVER, Owner, TimerId, Wheel};
use client::Client;
use server::Server;
use std::sync::Arc;
use wire::{Outbox, Time};

/// Timers that one call of [`Layer::handle_timeout`] lets fire, and nodes it moves, at most. At 100
/// to 200 ns each this bounds the pause; the rest follows at the next call, which is due at once.
const WORK: u32 = 256;

/// How many transactions there may be at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Server transactions.
    pub server: usize,
    /// Client transactions, reserved ones included. Each may have one CANCEL beside it.
    pub client: usize,
    /// Bytes that transactions hold, of both sides, and what the transaction user charges besides.
    pub bytes: usize,
}

/// A received request that the client transactions of its branches share.
pub type Original = Arc<Vec<u8>>;

/// What there is too little of for another transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Short {
    /// Transactions are at their limit.
    Transactions,
    /// The bytes held are.
    Bytes,
    /// Unproven senders, or the one who asks, hold their share of either.
    Share,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { server: 1_000_000, client: 1_000_000, bytes: 1 << 30 }
    }
}

/// What a received request is to the transaction user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inbound {
    /// A new request, neither ACK nor CANCEL.
    New(ServerId),
    /// Nothing: a retransmission (answered already if there is an answer), or an ACK for a failure.
    Absorbed,
    /// An ACK for no failure of ours, so for a 2xx: the transaction user routes it.
    AckOutside,
    /// A CANCEL, with a transaction of its own to be answered in.
    Cancel {
        /// The CANCEL's transaction.
        id: ServerId,
        /// The INVITE to be cancelled. It may have been answered meanwhile, see
        /// [`Layer::is_answered`]; then the CANCEL has no effect on it (RFC 3261 9.2).
        invite: Option<ServerId>,
        /// Whether a transaction of any method matched: the answer is 200, else 481 (9.2), or a
        /// proxy forwards the CANCEL statelessly (16.10).
        matched: bool,
    },
    /// There is no room for another server transaction.
    Full(Short),
}

/// What a received response is to the transaction user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A response to act on.
    Deliver {
        /// What the transaction user gave to [`Layer::send_request`].
        user: u64,
    },
    /// A retransmission, or an answer to a CANCEL.
    Absorbed,
    /// A response to nothing we sent. It must not be forwarded (RFC 6026 section 6).
    Unknown,
}

/// What time or the transport did to a transaction.
///
/// Each client transaction that was sent ends with exactly one of [`Event::ClientTimeout`],
/// [`Event::ClientUnreachable`] and [`Event::ClientGone`], each server transaction with exactly one
/// [`Event::ServerGone`], unless it was abandoned. The id is invalid from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // `id` and `user` are the same in all of them
pub enum Event {
    /// No final response: timers B and F, 64*T1 after a CANCEL (RFC 3261 9.1), or an INVITE that
    /// rang for [`Timers::lifetime`] without anything new. To be treated as a 408 (16.7), after a
    /// CANCEL as a 487.
    ClientTimeout { id: ClientId, user: u64 },
    /// The request, or the ACK of a failure, could not be sent (17.1.4). Treated as a 503 (16.9)
    /// unless a final response has been delivered.
    ClientUnreachable { id: ClientId, user: u64 },
    /// A client transaction that had its final response is over (timers D, K, M).
    ClientGone { id: ClientId, user: u64 },
    /// A server transaction is over: timers I, J, L, H, or it was not answered in time.
    ServerGone { id: ServerId, user: u64 },
    /// No ACK came for a failure (timer H, 17.2.1). [`Event::ServerGone`] follows.
    AckTimeout { id: ServerId, user: u64 },
    /// A response could not be sent (17.2.4). The transaction stays (RFC 6026 8.8).
    ServerUnreachable { id: ServerId, user: u64 },
    /// A timer of the transaction user fired.
    User { token: u64 },
}

/// Counters and gauges.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Server transactions now.
    pub server: usize,
    /// Client transactions now, reserved ones and CANCELs included.
    pub client: usize,
    /// Of the client transactions, the CANCELs.
    pub cancels: usize,
    /// Timers running now.
    pub timers: usize,
    /// Bytes in message buffers kept for later use.
    pub idle_bytes: usize,
    /// Bytes held.
    pub held_bytes: usize,
    /// Of these, those of unproven senders.
    pub unproven_bytes: usize,
    /// Bytes held besides by what gives way when memory is short.
    pub yielding_bytes: usize,
    /// Bytes that may be held.
    pub most_bytes: usize,
    /// Server transactions ever.
    pub servers_created: u64,
    /// Client transactions ever.
    pub clients_created: u64,
    /// Requests refused because there was no room, and reservations not given.
    pub refused: u64,
    /// Of these, those refused because of the bytes held.
    pub refused_bytes: u64,
    /// Of these, those of unproven senders who hold their share.
    pub refused_share: u64,
    /// Responses not sent because an unproven sender would get more than three times what it sent.
    pub withheld: u64,
    /// Retransmitted requests received.
    pub requests_absorbed: u64,
    /// Retransmitted responses received.
    pub responses_absorbed: u64,
    /// Responses received that belong to no transaction.
    pub responses_unknown: u64,
    /// ACKs for failures received.
    pub acks_absorbed: u64,
    /// Requests sent again.
    pub requests_resent: u64,
    /// Responses sent again, by timer G or for a retransmitted request.
    pub responses_resent: u64,
    /// ACKs for failures sent, repeated ones included.
    pub acks_sent: u64,
    /// CANCELs sent, repeated ones not included.
    pub cancels_sent: u64,
    /// Client transactions that got no final response.
    pub client_timeouts: u64,
    /// Failures that were not acknowledged.
    pub ack_timeouts: u64,
    /// Server transactions that the transaction user never answered.
    pub unanswered: u64,
    /// Transmits of ours that the transport could not deliver.
    pub undeliverable: u64,
}

/// All transactions of one worker. See the [crate documentation](crate).
pub struct Layer {
    clock: Clock,
    servers: Slab<Server>,
    clients: Slab<Client>,
    server_share: Share,
    client_share: Share,
    /// Server transactions of each method, so that a request of one that has none need not be searched for.
    by_method: [u32; MethodCode::GROUPS],
    index: Index,
    wheel: Wheel,
    pool: Pool,
    keys: KeyReader,
    /// Memory for the key of the next request.
    room: Vec<u8>,
    generations: Generations,
    /// For reading our own stored messages again, to build ACK and CANCEL.
    scratch: sip_message::Index,
    /// A message made again from what its branches share.
    whole: Vec<u8>,
    counts: Counts,
    /// The latest time seen.
    now: u64,
}

impl Layer {
    /// A layer without transactions. `seed` must be secret and random: ids and hash keys are made
    /// from it.
    pub fn new(timers: Timers, limits: Limits, seed: [u64; 2]) -> Layer {
        Layer {
            clock: Clock::new(&timers),
            servers: Slab::new(limits.server),
            clients: Slab::new(limits.client.saturating_mul(2)),
            server_share: Share::new(limits.server),
            client_share: Share::new(limits.client),
            by_method: [0; MethodCode::GROUPS],
            index: Index::new(),
            wheel: Wheel::new(),
            pool: Pool::new(limits.bytes),
            keys: KeyReader::new(seed),
            room: Vec::with_capacity(256),
            generations: Generations::new([!seed[0], seed[1].rotate_left(32)]),
            scratch: sip_message::Index::new(),
            whole: Vec::new(),
            counts: Counts::default(),
            now: 0,
        }
    }

    /// Lets timers fire. The work of one call is bounded: if more is due, [`Layer::next_deadline`]
    /// is not later than `now`.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox, events: &mut Vec<Event>) {
        self.now = now.as_micros();
        let mut budget = WORK;
        while let Some(owner) = self.wheel.poll(self.now, &mut budget) {
            self.fetch_upcoming();
            match owner {
                Owner::Client(slot) => self.client_due(slot, out, events),
                Owner::Server(slot) => self.server_due(slot, out, events),
                Owner::User(token) => events.push(Event::User { token }),
            }
        }
    }

    /// Nobody has looked at a transaction that ends for half a minute: node, transaction and bucket come from far away, and
    /// each says where the next one is. So while one is worked on, the processor fetches the node of the sixth after it, the
    /// transaction of the fifth, and the bucket of the third, which that one's transaction says: it takes longer than one is
    /// worked on.
    #[inline]
    fn fetch_upcoming(&self) {
        let [_, _, third, _, fifth] = self.wheel.upcoming();
        if let Some(Owner::Server(slot)) = third
            && let Some(server) = self.servers.at(slot)
        {
            self.index.prefetch(server.hash);
        }
        match fifth {
            Some(Owner::Client(slot)) => self.clients.prefetch(slot),
            Some(Owner::Server(slot)) => self.servers.prefetch(slot),
            _ => {}
        }
    }

    /// When [`Layer::handle_timeout`] should be called next: at most 4.1 ms after the earliest timer,
    /// so that near ones are handled together. May be too early, which is harmless.
    pub fn next_deadline(&self) -> Option<Time> {
        let at = self.wheel.next_deadline();
        (at != NEVER).then(|| Time::from_micros(at))
    }

    /// Arms a timer of the transaction user: [`Event::User`] with `token` comes at `at`. The
    /// transaction user bounds their number; here each costs 32 bytes.
    pub fn schedule(&mut self, at: Time, token: u64) -> TimerId {
        self.wheel.schedule(at.as_micros(), token)
    }

    /// Cancels a timer. One that has fired, or [`TimerId::NONE`], is ignored.
    pub fn unschedule(&mut self, timer: TimerId) {
        self.wheel.unschedule(timer);
    }

    /// The transport could not send something with this token. Tokens that are not this layer's are
    /// ignored.
    pub fn undeliverable(&mut self, token: u64, events: &mut Vec<Event>) {
        match sender(token) {
            Some(Sender::Client(id)) if self.clients.get(id.slot, id.generation).is_some() => {
                self.counts.undeliverable += 1;
                self.client_failed(id.slot, events);
            }
            Some(Sender::Server(id)) if self.servers.get(id.slot, id.generation).is_some() => {
                self.counts.undeliverable += 1;
                self.server_failed(id.slot, events);
            }
            _ => {}
        }
    }

    /// A request of the client transaction `id` was not delivered, whatever said so: as
    /// [`Layer::undeliverable`], where the transmit's token is not at hand.
    pub fn lost(&mut self, id: ClientId, events: &mut Vec<Event>) {
        self.undeliverable(id.token(), events);
    }

    /// Whether a transmit token is one of this layer's. Those of others must have bit 63 clear.
    pub fn owns(token: u64) -> bool {
        sender(token).is_some()
    }

    /// Whether there is room for `amount` bytes more, whoever wants them.
    pub fn has_room(&self, amount: usize) -> bool {
        self.pool.held.has_room(amount)
    }

    /// Bytes that the transaction user holds for `payer` were `old` and are `new`.
    pub fn charge(&mut self, payer: Payer, old: usize, new: usize) {
        self.pool.held.resize(payer, old, new);
    }

    /// Sets the bytes that the transaction user holds and gives up when there is an [excess](Layer::excess). Admission does
    /// not count them.
    pub fn set_yielding(&mut self, bytes: usize) {
        self.pool.held.set_yielding(bytes);
    }

    /// Of these bytes, those that have to go.
    #[inline]
    pub fn excess(&self) -> usize {
        self.pool.held.excess()
    }

    /// Counts a response that the transaction user did not send because too few bytes were received.
    pub fn withheld(&mut self) {
        self.counts.withheld += 1;
    }

    /// Charges a request to `payer` until [`Layer::release`] was called for each that has it.
    pub fn hold(&mut self, payer: Payer, original: &Original) {
        self.pool.held.take(payer, original.capacity());
    }

    /// Gives up a request that was held. The last one gets it back, to be used again.
    pub fn release(&mut self, payer: Payer, mut original: Original) -> Option<Original> {
        let capacity = Arc::get_mut(&mut original)?.capacity();
        self.pool.held.give(payer, capacity);
        Some(original)
    }

    /// Counters and gauges.
    pub fn counts(&self) -> Counts {
        Counts {
            server: self.servers.len(),
            client: self.clients.len(),
            timers: self.wheel.armed(),
            idle_bytes: self.pool.idle_bytes(),
            held_bytes: self.pool.held.held(),
            unproven_bytes: self.pool.held.unproven(),
            yielding_bytes: self.pool.held.yielding(),
            most_bytes: self.pool.held.limit(),
            ..self.counts
        }
    }
}

/// The two timers of a transaction, on one node of the wheel.
struct Deadlines {
    node: u32,
    /// What the timer that sends again was last set to, in microseconds.
    interval: u32,
    resend: u64,
    end: u64,
    /// When the node fires. Often before the earlier of the two, so that putting a timer off costs
    /// nothing (the node is armed anew when it has fired too early); never after it by more than a tick, and
    /// by T1 as well if it merely keeps a finished transaction in memory.
    armed: u64,
}

impl Deadlines {
    fn new(node: u32) -> Deadlines {
        Deadlines { node, interval: 0, resend: NEVER, end: NEVER, armed: NEVER }
    }

    /// Does to the timers what a step says.
    fn follow<S, A>(&mut self, step: &Step<S, A>, now: u64, clock: &Clock, wheel: &mut Wheel) {
        if (step.resend, step.end) == (Set::Keep, Set::Keep) {
            return;
        }
        match step.resend {
            Set::Keep => {}
            Set::Off => self.resend = NEVER,
            Set::After(interval) | Set::Loosely(interval) => {
                self.interval = u32::try_from(interval).unwrap_or(u32::MAX);
                self.resend = now.saturating_add(interval);
            }
        }
        let (delay, late) = match step.end {
            Set::Keep | Set::Off => (NEVER, 0),
            Set::After(delay) => (delay, 0),
            Set::Loosely(delay) => (delay, clock.t1),
        };
        if delay != NEVER {
            self.end = now.saturating_add(delay);
        }
        self.arm(now, late, clock, wheel);
    }

    /// Sees to it that the node fires in time, at most `late` after the first timer.
    ///
    /// A node that fires far too early is moved now; one that fires a little early, or too early in a
    /// good while, is left. New transactions are armed for 64*T1 and T1, so that nothing needs to be
    /// moved when their final response comes within T1 and they are then to be kept for 64*T1.
    fn arm(&mut self, now: u64, late: u64, clock: &Clock, wheel: &mut Wheel) {
        let first = self.resend.min(self.end);
        let target = first.min(now.saturating_add(clock.t1_x64 + clock.t1));
        let soon = 8 * clock.t1;
        // What is long may be a tick longer.
        let long = now.saturating_add(clock.t1 / 2);
        let tick = |at: u64| if at > long { Wheel::end_of_tick(at) } else { at };
        let too_late = tick(first.saturating_add(late)) < self.armed;
        let too_early = self.armed < now.saturating_add(soon) && self.armed.saturating_add(soon) < target;
        if too_late || too_early {
            self.armed = tick(target);
            wheel.arm(self.node, self.armed);
        }
    }

    /// Whether one of the timers is due, now that the node has fired; if not, it is armed again.
    fn fired(&mut self, now: u64, clock: &Clock, wheel: &mut Wheel) -> bool {
        self.armed = NEVER;
        let due = self.resend.min(self.end) <= now;
        if !due {
            self.arm(now, 0, clock, wheel);
        }
        due
    }

    /// What a client transaction is told when its node fires.
    fn client_input(&self, now: u64) -> ClientInput {
        if self.end <= now {
            ClientInput::EndDue
        } else {
            ClientInput::ResendDue { interval: u64::from(self.interval) }
        }
    }

    /// What a server transaction is told when its node fires.
    fn server_input(&self, now: u64) -> ServerInput {
        if self.end <= now {
            ServerInput::EndDue
        } else {
            ServerInput::ResendDue { interval: u64::from(self.interval) }
        }
    }
}
