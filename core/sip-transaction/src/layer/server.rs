//! Server transactions.

use super::shared::Shared;
use crate::events::{Event, Inbound, Short};
use crate::id::ServerId;
use crate::index::{Index, SLOTS};
use crate::key::{Key, MethodCode};
use crate::machine::{ServerAct, ServerInput, Step, invite_server, plain_server};
use crate::pool::{self, Pool};
use crate::share::{Payer, Share};
use crate::timers::Clock;
use crate::timing::{Deadlines, Timing};
use crate::wheel::Owner;
use ::timing::Slab;
use core::mem;
use sip_message::{Limits, Message, Method, Parsed};
use wire::{Credit, Flow, Outbox};

/// What a server transaction costs besides its buffer: itself, its timer, its place in the index, and what
/// the allocator adds.
const COST: usize = 256;
/// Responses that may have to go without a copy if the bytes held are at their limit are longer than this.
const LARGE: usize = 2_048;
/// Bytes of a credit that provisional responses other than 100 leave for the final one at least. After a 100
/// a client repeats its INVITE no more, so nothing else will pay for the final response.
const FOR_FINAL: u32 = 600;
/// What a final response may be longer than the provisional one before it: a session description.
const SESSION: u32 = 400;

/// One server transaction.
struct Server {
    /// The key, then the last response while it may have to be sent again.
    buffer: Vec<u8>,
    /// Bytes of the key in `buffer`; of these, the core.
    key_len: u16,
    core_len: u16,
    hash: u64,
    user: u64,
    times: Deadlines,
    /// Where the first request came from. Responses go nowhere else, whoever repeats the request.
    reply: Flow,
    /// Bytes that may still be sent, see [`Servers::bound_replies`].
    credit: Credit,
    payer: Payer,
    method: MethodCode,
    state: State,
}

// With key, index entry and timer node: what a finished call holds, see the crate documentation.
const _: () = assert!(size_of::<Server>() <= 144);

/// Which machine, and its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Invite(invite_server::State),
    Plain(plain_server::State),
}

impl Server {
    /// Asks the machine, changes nothing: the caller first does what depends on the old state.
    fn step(&self, input: ServerInput, clock: &Clock) -> Step<State, ServerAct> {
        let reliable = self.reply.transport.is_reliable();
        match self.state {
            State::Invite(state) => wrap(invite_server::step(state, input, clock, reliable), State::Invite),
            State::Plain(state) => wrap(plain_server::step(state, input, clock, reliable), State::Plain),
        }
    }

    /// Whether a final response has been sent.
    fn is_answered(&self) -> bool {
        !matches!(
            self.state,
            State::Invite(invite_server::State::Proceeding)
                | State::Plain(plain_server::State::Trying | plain_server::State::Proceeding)
        )
    }

    /// The key.
    fn key(&self) -> &[u8] {
        self.buffer.get(..usize::from(self.key_len)).unwrap_or(&[])
    }

    /// The key without its core.
    fn tail(&self) -> &[u8] {
        self.buffer.get(usize::from(self.core_len)..usize::from(self.key_len)).unwrap_or(&[])
    }

    /// The last response, if it is kept.
    fn response(&self) -> &[u8] {
        self.buffer.get(usize::from(self.key_len)..).unwrap_or(&[])
    }

    /// Whether the response just sent may have to be sent again. An accepted INVITE's never is
    /// (RFC 6026 7.1); nor is any final non-INVITE response over a reliable transport.
    fn repeats(&self) -> bool {
        match self.state {
            State::Invite(state) => {
                matches!(state, invite_server::State::Proceeding | invite_server::State::Completed)
            }
            State::Plain(plain_server::State::Completed) => !self.reply.transport.is_reliable(),
            State::Plain(_) => true,
        }
    }

    /// Keeps a response in place of the one kept before; an empty one keeps none.
    ///
    /// The buffer is cut to fit each time: what a transaction holds for the next 32 s is decided here.
    fn keep(&mut self, response: &[u8], pool: &mut Pool) {
        let key_len = usize::from(self.key_len);
        let len = key_len + response.len();
        if !pool::fits(self.buffer.capacity(), len) {
            let mut fitting = pool.take(self.payer, len);
            fitting.extend_from_slice(self.key());
            pool.give(self.payer, mem::replace(&mut self.buffer, fitting));
        }
        self.buffer.truncate(key_len);
        self.buffer.extend_from_slice(response);
    }
}

/// A machine's step as a step of either.
fn wrap<S>(step: Step<S, ServerAct>, state: impl FnOnce(S) -> State) -> Step<State, ServerAct> {
    Step { state: step.state.map(state), act: step.act, resend: step.resend, end: step.end }
}

/// All server transactions, by slot and by key.
pub(super) struct Servers {
    slab: Slab<Server>,
    share: Share,
    /// How many there are of each method, so that a request of one that has none need not be searched for.
    by_method: [u32; MethodCode::GROUPS],
    index: Index,
}

impl Servers {
    /// None, and `limit` at most.
    pub fn new(limit: usize) -> Servers {
        Servers {
            slab: Slab::new(limit.min(SLOTS)),
            share: Share::new(limit),
            by_method: [0; MethodCode::GROUPS],
            index: Index::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    fn get(&self, id: ServerId) -> Option<&Server> {
        self.slab.get(id.slot, id.generation)
    }

    fn get_mut(&mut self, id: ServerId) -> Option<&mut Server> {
        self.slab.get_mut(id.slot, id.generation)
    }

    /// Whether there is a transaction with this id.
    pub fn has(&self, id: ServerId) -> bool {
        self.get(id).is_some()
    }

    /// Asks the processor for the transaction in this slot.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        self.slab.prefetch(slot);
    }

    /// Asks the processor for the place in the index of the transaction in this slot.
    #[inline]
    pub fn prefetch_place_of(&self, slot: u32) {
        if let Some(server) = self.slab.at(slot) {
            self.index.prefetch(server.hash);
        }
    }

    /// Asks the processor for the place in the index where requests with this key are.
    #[inline]
    pub fn prefetch_key(&self, key: &Key) {
        self.index.prefetch(key.hash());
    }

    /// Whether there is no transaction that a request of this method could belong to, as calls in a proxy
    /// without transactions: nothing was received before.
    #[inline]
    pub fn is_first_of(&self, method: Method<'_>) -> bool {
        // An ACK belongs to an INVITE, a CANCEL to any, and all others to one of their own method.
        let sought = if method == Method::Ack { MethodCode::INVITE } else { MethodCode::of(method) };
        self.by_method.get(sought.group()) == Some(&0) && method != Method::Cancel
    }

    /// What a request with this key belongs to, see [`Layer::absorb`](crate::Layer::absorb).
    pub fn absorb(
        &mut self,
        shared: &mut Shared,
        key: &Key,
        request: &Message<'_>,
        reply: Flow,
        out: &mut Outbox,
    ) -> Option<Inbound> {
        match request.method() {
            Method::Ack => Some(self.receive_ack(shared, key, request)),
            Method::Cancel => Some(self.receive_cancel(shared, key, request, reply, out)),
            method => {
                let slot = self.find_same(key, MethodCode::of(method))?;
                Some(self.repeated(shared, slot, request, out))
            }
        }
    }

    /// Whether there is room for one more, and for a request of so many bytes.
    ///
    /// # Errors
    /// What there is no room in.
    pub fn admits(&self, shared: &mut Shared, payer: Payer, request: usize) -> Result<(), Short> {
        let bytes = request.saturating_add(COST);
        if self.share.admits(payer, 1) && shared.pool.held.admits(payer, bytes) {
            return Ok(());
        }
        shared.counts.refused += 1;
        if !self.share.has_room(1) {
            return Err(Short::Transactions);
        }
        if !shared.pool.held.has_room(bytes) {
            shared.counts.refused_bytes += 1;
            return Err(Short::Bytes);
        }
        shared.counts.refused_share += 1;
        Err(Short::Share)
    }

    /// Bounds what is sent, see [`Layer::bound_replies`](crate::Layer::bound_replies).
    pub fn bound_replies(&mut self, id: ServerId, received: usize) {
        if let Some(server) = self.get_mut(id) {
            server.credit = Credit::of(received);
        }
    }

    /// Whether the transaction user may send `len` bytes to the sender besides, which are then paid for.
    /// Nothing if the transaction is over.
    pub fn pays(&mut self, id: ServerId, len: usize) -> bool {
        self.get_mut(id).is_some_and(|server| server.credit.pays(len, 0))
    }

    /// Sends a response of the transaction user, see [`Layer::respond`](crate::Layer::respond).
    pub fn respond(
        &mut self,
        shared: &mut Shared,
        id: ServerId,
        status: u16,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Some(server) = self.get_mut(id) else { return false };
        if matches!(server.state, State::Plain(_)) && forbidden(server, status, &shared.timing) {
            return false;
        }
        let input = match status {
            100..=199 => ServerInput::Provisional,
            200..=299 => ServerInput::Success,
            300..=699 => ServerInput::Failure,
            _ => return false,
        };
        let step = server.step(input, shared.timing.clock());
        let (ServerAct::Send, Some(state)) = (step.act, step.state) else { return false };
        let range = out.send_with(server.reply, id.token(), write);
        server.state = state;
        let reserve = if (101..200).contains(&status) { for_final(range.len()) } else { 0 };
        if !server.credit.pays(range.len(), reserve) {
            out.take_back();
            shared.counts.withheld += 1;
        }
        let fits = range.len() <= LARGE || shared.pool.held.has_room(range.len());
        let sent = if server.repeats() && fits { out.bytes().get(range).unwrap_or(&[]) } else { &[] };
        server.keep(sent, &mut shared.pool);
        server.times.follow(&step, &mut shared.timing);
        true
    }

    /// Gives an INVITE its whole lifetime again, see [`Layer::renew`](crate::Layer::renew).
    pub fn renew(&mut self, shared: &Shared, id: ServerId) {
        if let Some(server) = self.get_mut(id)
            && server.state == State::Invite(invite_server::State::Proceeding)
        {
            server.times.renew(&shared.timing);
        }
    }

    /// What was given to [`Servers::set_user`]; 0 before that.
    pub fn user_of(&self, id: ServerId) -> Option<u64> {
        self.get(id).map(|server| server.user)
    }

    /// Attaches a number of the transaction user's to a server transaction; events carry it.
    pub fn set_user(&mut self, id: ServerId, user: u64) {
        if let Some(server) = self.get_mut(id) {
            server.user = user;
        }
    }

    /// Where the responses of a server transaction go.
    pub fn reply_of(&self, id: ServerId) -> Option<Flow> {
        self.get(id).map(|server| server.reply)
    }

    /// On whose account it is.
    pub fn payer_of(&self, id: ServerId) -> Option<Payer> {
        self.get(id).map(|server| server.payer)
    }

    /// Whether a final response has been sent; `None` if there is no such transaction.
    pub fn is_answered(&self, id: ServerId) -> Option<bool> {
        self.get(id).map(Server::is_answered)
    }

    /// Forgets a transaction without an event.
    pub fn abandon(&mut self, shared: &mut Shared, id: ServerId) {
        if self.has(id) {
            self.remove(shared, id.slot);
        }
    }

    /// An ACK belongs to the INVITE whose key it has (17.2.3). One for a failure ends here, all others
    /// go to the transaction user.
    fn receive_ack(&mut self, shared: &mut Shared, key: &Key, message: &Message<'_>) -> Inbound {
        let Some(slot) = self.find(key, |server| server.method == MethodCode::INVITE) else {
            return Inbound::AckOutside;
        };
        let old = key.is_old();
        let Some(server) = self.slab.at_mut(slot) else { return Inbound::AckOutside };
        // The key of an RFC 2543 client is the same for the ACK of a 2xx from another branch: only
        // the To tag tells (17.2.3).
        let completed = server.state == State::Invite(invite_server::State::Completed);
        if old && completed && !same_to_tag(server.response(), message, &mut shared.scratch) {
            return Inbound::AckOutside;
        }
        // In "Accepted" an ACK of an RFC 3261 client has a branch of its own and is not found at all; one
        // that is found comes from a client that does it wrong, and is the transaction user's as well.
        let step = server.step(ServerInput::Ack, shared.timing.clock());
        if step.act == ServerAct::PassAck {
            return Inbound::AckOutside;
        }
        shared.counts.acks_absorbed += 1;
        if completed {
            server.state = step.state.unwrap_or(server.state);
            server.keep(&[], &mut shared.pool);
            server.times.follow(&step, &mut shared.timing);
        }
        Inbound::Absorbed
    }

    /// A CANCEL has a transaction of its own and names another (9.2).
    fn receive_cancel(
        &mut self,
        shared: &mut Shared,
        key: &Key,
        message: &Message<'_>,
        reply: Flow,
        out: &mut Outbox,
    ) -> Inbound {
        if let Some(slot) = self.find_same(key, MethodCode::CANCEL) {
            return self.repeated(shared, slot, message, out);
        }
        let target = self.find(key, |server| server.method != MethodCode::CANCEL);
        let invite = target
            .filter(|&slot| self.slab.at(slot).is_some_and(|server| server.method == MethodCode::INVITE));
        let payer = invite.and_then(|slot| self.slab.at(slot)).map_or(Payer::PROVEN, |server| server.payer);
        let invite = invite.and_then(|slot| self.id(slot));
        // It makes room, so it needs none of its own share.
        match self.create(shared, key, MethodCode::CANCEL, reply, payer) {
            Some(id) => Inbound::Cancel { id, invite, matched: target.is_some() },
            None => Inbound::Full(Short::Transactions),
        }
    }

    /// A request that was received before.
    fn repeated(
        &mut self,
        shared: &mut Shared,
        slot: u32,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Inbound {
        shared.counts.requests_absorbed += 1;
        let Some(server) = self.slab.at_mut(slot) else { return Inbound::Absorbed };
        server.credit.grant(message.bytes().len());
        let step = server.step(ServerInput::Request, shared.timing.clock());
        if step.act == ServerAct::Resend {
            self.resend_response(shared, slot, out);
        }
        Inbound::Absorbed
    }

    /// Sends the last response again, if there is one.
    fn resend_response(&mut self, shared: &mut Shared, slot: u32, out: &mut Outbox) {
        let Some(id) = self.id(slot) else { return };
        let Some(server) = self.slab.at_mut(slot) else { return };
        if !server.response().is_empty() {
            let reserve = if server.is_answered() { 0 } else { for_final(server.response().len()) };
            let len = server.response().len();
            if !server.credit.pays(len, reserve) {
                shared.counts.withheld += 1;
                return;
            }
            out.send(server.reply, id.token(), server.response());
            shared.counts.responses_resent += 1;
        }
    }

    /// A timer of a server transaction fired.
    pub fn due(&mut self, shared: &mut Shared, slot: u32, out: &mut Outbox, events: &mut Vec<Event>) {
        let Some(id) = self.id(slot) else { return };
        let Some(server) = self.slab.at_mut(slot) else { return };
        if !server.times.fired(&mut shared.timing) {
            return;
        }
        let user = server.user;
        let answered = server.is_answered();
        let step = server.step(server.times.server_input(shared.timing.now()), shared.timing.clock());
        if let Some(state) = step.state {
            server.state = state;
            server.times.follow(&step, &mut shared.timing);
        }
        match step.act {
            ServerAct::Resend => self.resend_response(shared, slot, out),
            ServerAct::AckTimeout => {
                shared.counts.ack_timeouts += 1;
                events.push(Event::AckTimeout { id, user });
            }
            ServerAct::Gone if !answered => shared.counts.unanswered += 1,
            _ => {}
        }
        if step.state.is_none() {
            self.remove(shared, slot);
            events.push(Event::ServerGone { id, user });
        }
    }

    /// A response could not be sent.
    pub fn failed(&self, shared: &Shared, slot: u32, events: &mut Vec<Event>) {
        let Some(id) = self.id(slot) else { return };
        let Some(server) = self.slab.at(slot) else { return };
        if server.step(ServerInput::SendFailed, shared.timing.clock()).act == ServerAct::Unreachable {
            events.push(Event::ServerUnreachable { id, user: server.user });
        }
    }

    /// Makes a transaction for the request with this key.
    pub fn create(
        &mut self,
        shared: &mut Shared,
        key: &Key,
        method: MethodCode,
        reply: Flow,
        payer: Payer,
    ) -> Option<ServerId> {
        if self.slab.is_full() {
            shared.counts.refused += 1;
            return None;
        }
        let mut buffer = shared.pool.take(payer, key.whole().len());
        buffer.extend_from_slice(key.whole());
        let step = if method == MethodCode::INVITE {
            wrap(invite_server::start(shared.timing.clock()), State::Invite)
        } else {
            wrap(plain_server::start(shared.timing.clock()), State::Plain)
        };
        let generation = shared.generations.next();
        let hash = key.hash();
        let server = Server {
            key_len: buffer.len() as u16,
            core_len: key.core().len() as u16,
            buffer,
            hash,
            user: 0,
            times: Deadlines::NONE,
            reply,
            credit: Credit::UNBOUNDED,
            payer,
            method,
            state: step.state.unwrap_or(State::Plain(plain_server::State::Trying)),
        };
        let slot = self.slab.insert(server, |_| generation)?;
        if let Some(server) = self.slab.at_mut(slot) {
            server.times.reserve(Owner::Server(slot), &mut shared.timing);
            server.times.follow(&step, &mut shared.timing);
        }
        self.share.take(payer, 1);
        shared.pool.held.take(payer, COST);
        self.index.insert(hash, slot);
        if let Some(count) = self.by_method.get_mut(method.group()) {
            *count += 1;
        }
        shared.counts.servers_created += 1;
        Some(ServerId { slot, generation })
    }

    /// Bytes of the buffer of a transaction.
    #[cfg(test)]
    pub fn kept_bytes(&self, id: ServerId) -> usize {
        self.get(id).map_or(0, |server| server.buffer.capacity())
    }

    /// Destroys a transaction; what it held can be used again at once.
    fn remove(&mut self, shared: &mut Shared, slot: u32) {
        if let Some(server) = self.slab.remove(slot) {
            self.index.remove(server.hash, slot);
            if let Some(count) = self.by_method.get_mut(server.method.group()) {
                *count -= 1;
            }
            server.times.release(&mut shared.timing);
            self.share.give(server.payer, 1);
            shared.pool.held.give(server.payer, COST);
            shared.pool.give(server.payer, server.buffer);
        }
    }

    /// The transaction that a request with this key is a retransmission of.
    fn find_same(&self, key: &Key, method: MethodCode) -> Option<u32> {
        let tail = key.tail();
        self.find(key, |server| server.method == method && server.tail() == tail)
    }

    /// A transaction whose key has the same core.
    fn find(&self, key: &Key, wanted: impl Fn(&Server) -> bool) -> Option<u32> {
        let (hash, core) = (key.hash(), key.core());
        self.index.find(hash, |slot| {
            // The hash decides nearly always; the key is compared because "nearly" is not enough.
            self.slab.at(slot).is_some_and(|server| {
                server.hash == hash
                    && usize::from(server.core_len) == core.len()
                    && server.buffer.starts_with(core)
                    && wanted(server)
            })
        })
    }

    /// The id of the transaction in a slot.
    fn id(&self, slot: u32) -> Option<ServerId> {
        self.slab.generation(slot).map(|generation| ServerId { slot, generation })
    }
}

/// What a provisional response of `provisional` bytes leaves of a credit.
fn for_final(provisional: usize) -> u32 {
    u32::try_from(provisional).unwrap_or(u32::MAX).saturating_add(SESSION).max(FOR_FINAL)
}

/// What RFC 4320 4.1 and 4.2 forbid to send to a non-INVITE request.
fn forbidden(server: &Server, status: u16, timing: &Timing) -> bool {
    let clock = timing.clock();
    match status {
        408 => true,
        100 => {
            let received = server.times.end().saturating_sub(clock.non_invite_lifetime);
            !server.reply.transport.is_reliable()
                && timing.now() < received.saturating_add(clock.early_trying)
        }
        101..=199 => true,
        _ => false,
    }
}

/// Whether an ACK has the To tag of the response it is for. Tags are tokens, so case is nothing.
fn same_to_tag(response: &[u8], ack: &Message<'_>, scratch: &mut sip_message::Index) -> bool {
    match sip_message::parse(response, scratch, &Limits::READ_BEFORE) {
        Parsed::Good(response) => response.to_tag().eq_ignore_ascii_case(ack.to_tag()),
        _ => false,
    }
}
