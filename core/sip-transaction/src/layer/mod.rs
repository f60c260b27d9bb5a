//! The transaction layer of one worker.

mod client;
mod server;
mod shared;
mod write;

#[cfg(test)]
mod tests;

use crate::counts::Counts;
use crate::events::{Event, Inbound, Outcome, Short};
use crate::id::{ClientId, Generations, Sender, ServerId, sender};
use crate::key::{Key, KeyReader, MethodCode, Prepared};
use crate::pool::{Original, Pool};
use crate::share::Payer;
use crate::timers::Timers;
use crate::timing::Timing;
use crate::wheel::{Owner, TimerId};
use client::Clients;
use core::mem;
use server::Servers;
use shared::Shared;
use sip_message::{Message, Method, Splices};
use wire::{Flow, Outbox, Time};

pub use client::ClientRequest;

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

impl Default for Limits {
    fn default() -> Limits {
        Limits { server: 1_000_000, client: 1_000_000, bytes: 1 << 30 }
    }
}

/// All transactions of one worker. See the [crate documentation](crate).
pub struct Layer {
    servers: Servers,
    clients: Clients,
    shared: Shared,
    keys: KeyReader,
    /// Memory for the key of the next request.
    room: Vec<u8>,
}

/// Time, timers and what both kinds of transactions have.
impl Layer {
    /// A layer without transactions. `seed` must be secret and random: ids and hash keys are made
    /// from it.
    pub fn new(timers: Timers, limits: Limits, seed: [u64; 2]) -> Layer {
        Layer {
            servers: Servers::new(limits.server),
            clients: Clients::new(limits.client),
            shared: Shared {
                timing: Timing::new(&timers),
                pool: Pool::new(limits.bytes),
                generations: Generations::new([!seed[0], seed[1].rotate_left(32)]),
                scratch: sip_message::Index::new(),
                counts: Counts::default(),
            },
            keys: KeyReader::new(seed),
            room: Vec::with_capacity(256),
        }
    }

    /// Lets timers fire. The work of one call is bounded: if more is due, [`Layer::next_deadline`]
    /// is not later than `now`.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox, events: &mut Vec<Event>) {
        self.shared.timing.set_now(now);
        let mut budget = WORK;
        while let Some(owner) = self.shared.timing.poll(&mut budget) {
            self.fetch_upcoming();
            match owner {
                Owner::Client(slot) => self.clients.due(&mut self.shared, slot, out, events),
                Owner::Server(slot) => self.servers.due(&mut self.shared, slot, out, events),
                Owner::User(token) => events.push(Event::User { token }),
            }
        }
    }

    /// Nobody has looked at a transaction that ends for half a minute: node, transaction and bucket come from
    /// far away, and each says where the next one is. So while one is worked on, the processor fetches the
    /// node of the sixth after it, the transaction of the fifth, and the bucket of the third, which that
    /// one's transaction says: it takes longer than one is worked on.
    #[inline]
    fn fetch_upcoming(&self) {
        let [_, _, third, _, fifth] = self.shared.timing.upcoming();
        if let Some(Owner::Server(slot)) = third {
            self.servers.prefetch_place_of(slot);
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
        self.shared.timing.next_deadline()
    }

    /// Arms a timer of the transaction user: [`Event::User`] with `token` comes at `at`. The
    /// transaction user bounds their number; here each costs 32 bytes.
    pub fn schedule(&mut self, at: Time, token: u64) -> TimerId {
        self.shared.timing.schedule(at, token)
    }

    /// Cancels a timer. One that has fired, or [`TimerId::NONE`], is ignored.
    pub fn unschedule(&mut self, timer: TimerId) {
        self.shared.timing.unschedule(timer);
    }

    /// The transport could not send something with this token. Tokens that are not this layer's are
    /// ignored.
    pub fn undeliverable(&mut self, token: u64, events: &mut Vec<Event>) {
        match sender(token) {
            Some(Sender::Client(id)) if self.clients.has(id) => {
                self.shared.counts.undeliverable += 1;
                self.clients.failed(&mut self.shared, id.slot, events);
            }
            Some(Sender::Server(id)) if self.servers.has(id) => {
                self.shared.counts.undeliverable += 1;
                self.servers.failed(&self.shared, id.slot, events);
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
        self.shared.pool.held.has_room(amount)
    }

    /// Bytes that the transaction user holds for `payer` were `old` and are `new`.
    pub fn charge(&mut self, payer: Payer, old: usize, new: usize) {
        self.shared.pool.held.resize(payer, old, new);
    }

    /// Sets the bytes that the transaction user holds and gives up when there is an [excess](Layer::excess).
    /// Admission does not count them.
    pub fn set_yielding(&mut self, bytes: usize) {
        self.shared.pool.held.set_yielding(bytes);
    }

    /// Of these bytes, those that have to go.
    #[inline]
    pub fn excess(&self) -> usize {
        self.shared.pool.held.excess()
    }

    /// Counts a response that the transaction user did not send because too few bytes were received.
    pub fn withheld(&mut self) {
        self.shared.counts.withheld += 1;
    }

    /// Charges a request to `payer` until [`Layer::release`] was called for each that has it.
    pub fn hold(&mut self, payer: Payer, original: &Original) {
        self.shared.pool.hold(payer, original);
    }

    /// Gives up a request that was held. The last one gets it back, to be used again.
    pub fn release(&mut self, payer: Payer, original: Original) -> Option<Original> {
        self.shared.pool.release(payer, original)
    }

    /// Counters and gauges.
    pub fn counts(&self) -> Counts {
        let Shared { timing, pool, counts, .. } = &self.shared;
        Counts {
            server: self.servers.len(),
            client: self.clients.len(),
            timers: timing.armed(),
            idle_bytes: pool.idle_bytes(),
            held_bytes: pool.held.held(),
            unproven_bytes: pool.held.unproven(),
            yielding_bytes: pool.held.yielding(),
            most_bytes: pool.held.limit(),
            ..*counts
        }
    }
}

/// Server transactions.
impl Layer {
    /// Matches a request and, if it is new, makes a transaction for it: [`Layer::absorb`] and
    /// [`Layer::accept`] in one, for transaction users that have nothing to check in between.
    pub fn receive_request(
        &mut self,
        now: Time,
        message: &Message<'_>,
        reply: Flow,
        out: &mut Outbox,
    ) -> Inbound {
        let request = self.prepare(message);
        let inbound = match self.absorb(now, &request, reply, out) {
            Some(inbound) => inbound,
            None => self.accept(now, &request, reply, Payer::PROVEN).map_or_else(Inbound::Full, Inbound::New),
        };
        self.finish(request);
        inbound
    }

    /// Reads what a request is matched by and asks the processor for the place where it is going to be looked
    /// for, which is mostly in no cache. [`Layer::absorb`] is best called after some work that does not
    /// depend on it. When the request is dealt with, [`Layer::finish`] takes the memory back.
    #[inline]
    pub fn prepare<'a>(&mut self, message: &'a Message<'a>) -> Prepared<'a> {
        if self.servers.is_first_of(message.method()) {
            return Prepared::unread(message);
        }
        let key = self.keys.read(message, mem::take(&mut self.room));
        self.servers.prefetch_key(&key);
        Prepared::read(message, key)
    }

    /// Takes the memory of a request that was dealt with, for the next one.
    #[inline]
    pub fn finish(&mut self, request: Prepared<'_>) {
        if let Some(key) = request.into_key() {
            self.room = key.into_bytes();
        }
    }

    /// Matches a request with the transactions there are. `None`: it is new, and nothing is remembered
    /// of it until [`Layer::accept`], so that a request which is refused without a transaction costs no
    /// memory. `reply` is where its responses go (RFC 3261 18.2.2, RFC 3581); a retransmission is
    /// answered from stored bytes to where the first one's went, so it matters for a CANCEL only.
    pub fn absorb(
        &mut self,
        now: Time,
        request: &Prepared<'_>,
        reply: Flow,
        out: &mut Outbox,
    ) -> Option<Inbound> {
        self.shared.timing.set_now(now);
        let method = request.method();
        if self.servers.is_first_of(method) {
            return (method == Method::Ack).then_some(Inbound::AckOutside);
        }
        self.with_key(request, |layer, key| layer.servers.absorb(&mut layer.shared, key, request, reply, out))
    }

    /// Does something with the key of a request, which is read now if it was not before.
    #[inline]
    fn with_key<R>(&mut self, request: &Prepared<'_>, work: impl FnOnce(&mut Layer, &Key) -> R) -> R {
        if let Some(key) = request.key() {
            return work(self, key);
        }
        let key = self.keys.read(request, mem::take(&mut self.room));
        let result = work(self, &key);
        self.room = key.into_bytes();
        result
    }

    /// Makes the transaction of a request that [`Layer::absorb`] found to be new, on the account of `payer`.
    /// There has to be room for the request itself, which its user may keep.
    ///
    /// # Errors
    /// What there is no room in.
    pub fn accept(
        &mut self,
        now: Time,
        request: &Prepared<'_>,
        reply: Flow,
        payer: Payer,
    ) -> Result<ServerId, Short> {
        self.shared.timing.set_now(now);
        self.servers.admits(&mut self.shared, payer, request.bytes().len())?;
        let method = MethodCode::of(request.method());
        self.with_key(request, |layer, key| {
            layer.servers.create(&mut layer.shared, key, method, reply, payer)
        })
        .ok_or(Short::Transactions)
    }

    /// A keyed hash of what a request is matched by, which its ACK, its CANCEL and its repetitions share.
    /// Nobody may be shown it: hash it again.
    pub fn hash_of(&mut self, request: &Prepared<'_>) -> u64 {
        self.with_key(request, |_, key| key.hash())
    }

    /// Bounds what is sent in a server transaction to three times the bytes received in it (RFC 3261 section
    /// 26.1.5), for a sender that has not shown that it receives: its address may be forged. A retransmission
    /// counts as received. Provisional responses leave room for a final one.
    pub fn bound_replies(&mut self, id: ServerId, received: usize) {
        self.servers.bound_replies(id, received);
    }

    /// Whether the transaction user may send `len` bytes to the sender besides, which are then paid for.
    /// Nothing if the transaction is over.
    pub fn pays(&mut self, id: ServerId, len: usize) -> bool {
        let pays = self.servers.pays(id, len);
        self.shared.counts.withheld += u64::from(!pays);
        pays
    }

    /// Sends a response of the transaction user and keeps it as long as it may have to be repeated.
    ///
    /// False, and nothing is sent, if the id is stale, if there is no such status, if a final response has
    /// been sent (but 2xx to an INVITE are forwarded again until timer L, RFC 6026 7.1), or if RFC 4320
    /// forbids it: to a non-INVITE request no 1xx but 100, no 100 over UDP before
    /// [`Timers::early_trying`], no 408.
    pub fn respond(
        &mut self,
        now: Time,
        id: ServerId,
        status: u16,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.shared.timing.set_now(now);
        self.servers.respond(&mut self.shared, id, status, out, write)
    }

    /// Gives an INVITE that has no final response yet its whole lifetime again, as a provisional response
    /// does: its user is trying something new, and nobody has heard of it yet.
    pub fn renew(&mut self, now: Time, id: ServerId) {
        self.shared.timing.set_now(now);
        self.servers.renew(&self.shared, id);
    }

    /// What was given to [`Layer::set_user`]; 0 before that.
    pub fn user_of(&self, id: ServerId) -> Option<u64> {
        self.servers.user_of(id)
    }

    /// Attaches a number of the transaction user's to a server transaction; events carry it.
    pub fn set_user(&mut self, id: ServerId, user: u64) {
        self.servers.set_user(id, user);
    }

    /// Where the responses of a server transaction go.
    pub fn reply_of(&self, id: ServerId) -> Option<Flow> {
        self.servers.reply_of(id)
    }

    /// On whose account it is.
    pub fn payer_of(&self, id: ServerId) -> Option<Payer> {
        self.servers.payer_of(id)
    }

    /// Whether a final response has been sent; `None` if there is no such transaction.
    pub fn is_answered(&self, id: ServerId) -> Option<bool> {
        self.servers.is_answered(id)
    }

    /// Forgets a server transaction without an event. What arrives for it later is a new request;
    /// not answering and waiting for [`Event::ServerGone`] is usually better.
    pub fn abandon_server(&mut self, id: ServerId) {
        self.servers.abandon(&mut self.shared, id);
    }
}

/// Client transactions.
impl Layer {
    /// The id of a request to be sent, known before its branch is written; `None` if there is no room for it
    /// on the account of `payer`. One that is neither sent nor abandoned disappears after 64*T1, without an
    /// event.
    pub fn reserve_client(&mut self, payer: Payer) -> Option<ClientId> {
        self.clients.reserve(&mut self.shared, payer)
    }

    /// Sends the request of a reserved id. `write` appends the message; the branch of its top Via must
    /// carry [`ClientId::encode`]. The bytes are kept while they may be needed: of an INVITE until its
    /// final response (its ACK and CANCEL are made from them), of others until theirs and only over
    /// UDP. ACK has no transaction (RFC 3261 17.1) and must not be sent with this.
    ///
    /// False, and nothing is sent, if it is one, if the id is stale, or if its request was sent already.
    pub fn send_request(
        &mut self,
        now: Time,
        request: &ClientRequest<'_>,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.shared.timing.set_now(now);
        let number = self.keys.method_number(request.method);
        self.clients.send(&mut self.shared, request, number, out, write)
    }

    /// As [`Layer::send_request`], of a request that is `original` with these edits: all branches of a large
    /// one share it, and keep only what they differ in. `original` must be held, see [`Layer::hold`].
    pub fn send_edited(
        &mut self,
        now: Time,
        request: &ClientRequest<'_>,
        (original, edits): (&Original, &Splices),
        out: &mut Outbox,
    ) -> bool {
        self.shared.timing.set_now(now);
        let number = self.keys.method_number(request.method);
        self.clients.send_edited(&mut self.shared, request, number, (original, edits), out)
    }

    /// A response whose top Via is ours, with the id from its branch. The method in CSeq must be the
    /// request's (17.1.3). Failures of INVITEs are acknowledged here, each time they come.
    pub fn receive_response(
        &mut self,
        now: Time,
        id: ClientId,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Outcome {
        self.shared.timing.set_now(now);
        let number = self.keys.method_number(message.method());
        self.clients.receive(&mut self.shared, (id, number), message, out)
    }

    /// Cancels an INVITE (9.1): sends CANCEL at once if a provisional response has come, else when the
    /// first comes. Other methods, and INVITEs with a final response, are left alone. Without a final
    /// response within 64*T1 the INVITE ends with [`Event::ClientTimeout`].
    ///
    /// `extra_headers` are whole lines to add, such as Reason (RFC 3326).
    pub fn cancel(&mut self, now: Time, id: ClientId, extra_headers: &[u8], out: &mut Outbox) {
        self.shared.timing.set_now(now);
        self.clients.cancel(&mut self.shared, id, extra_headers, out);
    }

    /// Forgets a client transaction, sent or only reserved, and its CANCEL, without an event. What
    /// arrives for it later is unknown.
    pub fn abandon(&mut self, id: ClientId) {
        self.clients.abandon(&mut self.shared, id);
    }

    /// Sends a request three times at most, however long nothing answers: its receiver may never have asked
    /// for it.
    pub fn spare(&mut self, id: ClientId) {
        self.clients.spare(id);
    }

    /// What was given to [`Layer::send_request`].
    pub fn user_of_client(&self, id: ClientId) -> Option<u64> {
        self.clients.user_of(id)
    }

    /// Where the request went.
    pub fn flow_of_client(&self, id: ClientId) -> Option<Flow> {
        self.clients.flow_of(id)
    }

    /// Whether a provisional response has come and no final one yet: a CANCEL would go out at once.
    pub fn is_proceeding(&self, id: ClientId) -> bool {
        self.clients.is_proceeding(id)
    }
}
