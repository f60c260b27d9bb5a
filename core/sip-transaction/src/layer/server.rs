//! Server transactions.

use super::{Deadlines, Event, Inbound, Layer, Short};
use crate::id::ServerId;
use crate::key::{Key, MethodCode, Prepared};
use crate::machine::{ServerAct, ServerInput, Step, invite_server, plain_server};
use crate::pool::{self, Pool};
use crate::share::Payer;
use crate::timers::Clock;
use crate::wheel::Owner;
use core::mem;
use sip_message::{Limits, Message, Method, Parsed};
use wire::{Credit, Flow, Outbox, Time};

/// What a server transaction costs besides its buffer: itself, its timer, its place in the index, and what the allocator
/// adds.
const COST: usize = 256;
/// Responses that may have to go without a copy if the bytes held are at their limit are longer than this.
const LARGE: usize = 2_048;
/// Bytes of a credit that provisional responses other than 100 leave for the final one at least. After a 100 a client
/// repeats its INVITE no more, so nothing else will pay for the final response.
const FOR_FINAL: u32 = 600;
/// What a final response may be longer than the provisional one before it: a session description.
const SESSION: u32 = 400;

/// One server transaction.
pub(super) struct Server {
    /// The key, then the last response while it may have to be sent again.
    buffer: Vec<u8>,
    /// Bytes of the key in `buffer`; of these, the core.
    key_len: u16,
    core_len: u16,
    pub(super) hash: u64,
    user: u64,
    times: Deadlines,
    /// Where the first request came from. Responses go nowhere else, whoever repeats the request.
    reply: Flow,
    /// Bytes that may still be sent, see [`Layer::bound_replies`].
    credit: Credit,
    payer: Payer,
    method: MethodCode,
    state: State,
}

/// Which machine, and its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
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

    /// Bytes of its buffer.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.buffer.capacity()
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

    /// Reads what a request is matched by and asks the processor for the place where it is going to be looked for, which is
    /// mostly in no cache. [`Layer::absorb`] is best called after some work that does not depend on it. When the request is
    /// dealt with, [`Layer::finish`] takes the memory back.
    #[inline]
    pub fn prepare<'a>(&mut self, message: &'a Message<'a>) -> Prepared<'a> {
        if self.is_first_of(message.method()) {
            return Prepared::unread(message);
        }
        let key = self.keys.read(message, mem::take(&mut self.room));
        self.index.prefetch(key.hash());
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
        self.now = now.as_micros();
        let method = request.method();
        if self.is_first_of(method) {
            return (method == Method::Ack).then_some(Inbound::AckOutside);
        }
        self.with_key(request, |layer, key| match method {
            Method::Ack => Some(layer.receive_ack(key, request)),
            Method::Cancel => Some(layer.receive_cancel(key, request, reply, out)),
            _ => layer.find_same(key, MethodCode::of(method)).map(|slot| layer.repeated(slot, request, out)),
        })
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

    /// Whether there is no transaction that a request of this method could belong to, as calls in a proxy without
    /// transactions: nothing was received before.
    #[inline]
    fn is_first_of(&self, method: Method<'_>) -> bool {
        // An ACK belongs to an INVITE, a CANCEL to any, and all others to one of their own method.
        let sought = if method == Method::Ack { MethodCode::INVITE } else { MethodCode::of(method) };
        self.by_method.get(sought.group()) == Some(&0) && method != Method::Cancel
    }

    /// Makes the transaction of a request that [`Layer::absorb`] found to be new, on the account of `payer`. There has to be
    /// room for the request itself, which its user may keep.
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
        self.now = now.as_micros();
        self.admits(payer, request.bytes().len().saturating_add(COST))?;
        let method = MethodCode::of(request.method());
        self.with_key(request, |layer, key| layer.create(key, method, reply, payer))
            .ok_or(Short::Transactions)
    }

    /// Whether there is room for one more server transaction and these bytes.
    fn admits(&mut self, payer: Payer, bytes: usize) -> Result<(), Short> {
        if self.server_share.admits(payer, 1) && self.pool.held.admits(payer, bytes) {
            return Ok(());
        }
        self.counts.refused += 1;
        if !self.server_share.has_room(1) {
            return Err(Short::Transactions);
        }
        if !self.has_room(bytes) {
            self.counts.refused_bytes += 1;
            return Err(Short::Bytes);
        }
        self.counts.refused_share += 1;
        Err(Short::Share)
    }

    /// Bounds what is sent in a server transaction to three times the bytes received in it (RFC 3261 section
    /// 26.1.5), for a sender that has not shown that it receives: its address may be forged. A retransmission
    /// counts as received. Provisional responses leave room for a final one.
    pub fn bound_replies(&mut self, id: ServerId, received: usize) {
        if let Some(server) = self.servers.get_mut(id.slot, id.generation) {
            server.credit = Credit::of(received);
        }
    }

    /// Whether the transaction user may send `len` bytes to the sender besides, which are then paid for. Nothing if the
    /// transaction is over.
    pub fn pays(&mut self, id: ServerId, len: usize) -> bool {
        let pays =
            self.servers.get_mut(id.slot, id.generation).is_some_and(|server| server.credit.pays(len, 0));
        self.counts.withheld += u64::from(!pays);
        pays
    }

    /// A keyed hash of what a request is matched by, which its ACK, its CANCEL and its repetitions share. Nobody may be
    /// shown it: hash it again.
    pub fn hash_of(&mut self, request: &Prepared<'_>) -> u64 {
        self.with_key(request, |_, key| key.hash())
    }

    /// Sends a response of the transaction user and keeps it as long as it may have to be repeated.
    ///
    /// False, and nothing is sent, if the id is stale, if there is no such status, if a final response has
    /// been sent (but 2xx to an INVITE are forwarded again until timer L, RFC 6026 7.1), or if RFC 4320
    /// forbids it: to a non-INVITE request no 1xx but 100, no 100 over UDP before
    /// [`Timers::early_trying`], no 408.
    ///
    /// [`Timers::early_trying`]: crate::Timers::early_trying
    pub fn respond(
        &mut self,
        now: Time,
        id: ServerId,
        status: u16,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        self.now = now.as_micros();
        let Some(server) = self.servers.get_mut(id.slot, id.generation) else { return false };
        if matches!(server.state, State::Plain(_)) && forbidden(server, status, self.now, &self.clock) {
            return false;
        }
        let input = match status {
            100..=199 => ServerInput::Provisional,
            200..=299 => ServerInput::Success,
            300..=699 => ServerInput::Failure,
            _ => return false,
        };
        let step = server.step(input, &self.clock);
        let (ServerAct::Send, Some(state)) = (step.act, step.state) else { return false };
        let range = out.send_with(server.reply, id.token(), write);
        server.state = state;
        let reserve = if (101..200).contains(&status) { for_final(range.len()) } else { 0 };
        if !server.credit.pays(range.len(), reserve) {
            out.take_back();
            self.counts.withheld += 1;
        }
        let fits = range.len() <= LARGE || self.pool.held.has_room(range.len());
        let sent = if server.repeats() && fits { out.bytes().get(range).unwrap_or(&[]) } else { &[] };
        server.keep(sent, &mut self.pool);
        server.times.follow(&step, self.now, &self.clock, &mut self.wheel);
        true
    }

    /// Gives an INVITE that has no final response yet its whole lifetime again, as a provisional response
    /// does: its user is trying something new, and nobody has heard of it yet.
    pub fn renew(&mut self, now: Time, id: ServerId) {
        self.now = now.as_micros();
        let end = self.now.saturating_add(self.clock.lifetime);
        if let Some(server) = self.servers.get_mut(id.slot, id.generation)
            && server.state == State::Invite(invite_server::State::Proceeding)
        {
            server.times.end = end;
        }
    }

    /// What was given to [`Layer::set_user`]; 0 before that.
    pub fn user_of(&self, id: ServerId) -> Option<u64> {
        self.servers.get(id.slot, id.generation).map(|server| server.user)
    }

    /// Attaches a number of the transaction user's to a server transaction; events carry it.
    pub fn set_user(&mut self, id: ServerId, user: u64) {
        if let Some(server) = self.servers.get_mut(id.slot, id.generation) {
            server.user = user;
        }
    }

    /// Where the responses of a server transaction go.
    pub fn reply_of(&self, id: ServerId) -> Option<Flow> {
        self.servers.get(id.slot, id.generation).map(|server| server.reply)
    }

    /// On whose account it is.
    pub fn payer_of(&self, id: ServerId) -> Option<Payer> {
        self.servers.get(id.slot, id.generation).map(|server| server.payer)
    }

    /// Whether a final response has been sent; `None` if there is no such transaction.
    pub fn is_answered(&self, id: ServerId) -> Option<bool> {
        self.servers.get(id.slot, id.generation).map(Server::is_answered)
    }

    /// Forgets a server transaction without an event. What arrives for it later is a new request;
    /// not answering and waiting for [`Event::ServerGone`] is usually better.
    pub fn abandon_server(&mut self, id: ServerId) {
        if self.servers.get(id.slot, id.generation).is_some() {
            self.remove_server(id.slot);
        }
    }

    /// An ACK belongs to the INVITE whose key it has (17.2.3). One for a failure ends here, all others
    /// go to the transaction user.
    fn receive_ack(&mut self, key: &Key, message: &Message<'_>) -> Inbound {
        let Some(slot) = self.find(key, |server| server.method == MethodCode::INVITE) else {
            return Inbound::AckOutside;
        };
        let old = key.is_old();
        let Some(server) = self.servers.at_mut(slot) else { return Inbound::AckOutside };
        // The key of an RFC 2543 client is the same for the ACK of a 2xx from another branch: only
        // the To tag tells (17.2.3).
        let completed = server.state == State::Invite(invite_server::State::Completed);
        if old && completed && !same_to_tag(server.response(), message, &mut self.scratch) {
            return Inbound::AckOutside;
        }
        // In "Accepted" an ACK of an RFC 3261 client has a branch of its own and is not found at all; one
        // that is found comes from a client that does it wrong, and is the transaction user's as well.
        let step = server.step(ServerInput::Ack, &self.clock);
        if step.act == ServerAct::PassAck {
            return Inbound::AckOutside;
        }
        self.counts.acks_absorbed += 1;
        if completed {
            server.state = step.state.unwrap_or(server.state);
            server.keep(&[], &mut self.pool);
            server.times.follow(&step, self.now, &self.clock, &mut self.wheel);
        }
        Inbound::Absorbed
    }

    /// A CANCEL has a transaction of its own and names another (9.2).
    fn receive_cancel(&mut self, key: &Key, message: &Message<'_>, reply: Flow, out: &mut Outbox) -> Inbound {
        if let Some(slot) = self.find_same(key, MethodCode::CANCEL) {
            return self.repeated(slot, message, out);
        }
        let target = self.find(key, |server| server.method != MethodCode::CANCEL);
        let invite = target
            .filter(|&slot| self.servers.at(slot).is_some_and(|server| server.method == MethodCode::INVITE));
        let payer =
            invite.and_then(|slot| self.servers.at(slot)).map_or(Payer::PROVEN, |server| server.payer);
        let invite = invite.and_then(|slot| self.server_id(slot));
        // It makes room, so it needs none of its own share.
        match self.create(key, MethodCode::CANCEL, reply, payer) {
            Some(id) => Inbound::Cancel { id, invite, matched: target.is_some() },
            None => Inbound::Full(Short::Transactions),
        }
    }

    /// A request that was received before.
    fn repeated(&mut self, slot: u32, message: &Message<'_>, out: &mut Outbox) -> Inbound {
        self.counts.requests_absorbed += 1;
        let Some(server) = self.servers.at_mut(slot) else { return Inbound::Absorbed };
        server.credit.grant(message.bytes().len());
        let step = server.step(ServerInput::Request, &self.clock);
        if step.act == ServerAct::Resend {
            self.resend_response(slot, out);
        }
        Inbound::Absorbed
    }

    /// Sends the last response again, if there is one.
    fn resend_response(&mut self, slot: u32, out: &mut Outbox) {
        let Some(id) = self.server_id(slot) else { return };
        let Some(server) = self.servers.at_mut(slot) else { return };
        if !server.response().is_empty() {
            let reserve = if server.is_answered() { 0 } else { for_final(server.response().len()) };
            let len = server.response().len();
            if !server.credit.pays(len, reserve) {
                self.counts.withheld += 1;
                return;
            }
            out.send(server.reply, id.token(), server.response());
            self.counts.responses_resent += 1;
        }
    }

    /// A timer of a server transaction fired.
    pub(super) fn server_due(&mut self, slot: u32, out: &mut Outbox, events: &mut Vec<Event>) {
        let now = self.now;
        let Some(id) = self.server_id(slot) else { return };
        let Some(server) = self.servers.at_mut(slot) else { return };
        if !server.times.fired(now, &self.clock, &mut self.wheel) {
            return;
        }
        let user = server.user;
        let answered = server.is_answered();
        let step = server.step(server.times.server_input(now), &self.clock);
        if let Some(state) = step.state {
            server.state = state;
            server.times.follow(&step, now, &self.clock, &mut self.wheel);
        }
        match step.act {
            ServerAct::Resend => self.resend_response(slot, out),
            ServerAct::AckTimeout => {
                self.counts.ack_timeouts += 1;
                events.push(Event::AckTimeout { id, user });
            }
            ServerAct::Gone if !answered => self.counts.unanswered += 1,
            _ => {}
        }
        if step.state.is_none() {
            self.remove_server(slot);
            events.push(Event::ServerGone { id, user });
        }
    }

    /// A response could not be sent.
    pub(super) fn server_failed(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(id) = self.server_id(slot) else { return };
        let Some(server) = self.servers.at(slot) else { return };
        if server.step(ServerInput::SendFailed, &self.clock).act == ServerAct::Unreachable {
            events.push(Event::ServerUnreachable { id, user: server.user });
        }
    }

    /// Makes a transaction for the request with this key.
    fn create(&mut self, key: &Key, method: MethodCode, reply: Flow, payer: Payer) -> Option<ServerId> {
        if self.servers.is_full() {
            self.counts.refused += 1;
            return None;
        }
        let mut buffer = self.pool.take(payer, key.whole().len());
        buffer.extend_from_slice(key.whole());
        let step = if method == MethodCode::INVITE {
            wrap(invite_server::start(&self.clock), State::Invite)
        } else {
            wrap(plain_server::start(&self.clock), State::Plain)
        };
        let generation = self.generations.next();
        let hash = key.hash();
        let slot = self.servers.insert(
            generation,
            Server {
                key_len: buffer.len() as u16,
                core_len: key.core().len() as u16,
                buffer,
                hash,
                user: 0,
                times: Deadlines::new(0),
                reply,
                credit: Credit::UNBOUNDED,
                payer,
                method,
                state: step.state.unwrap_or(State::Plain(plain_server::State::Trying)),
            },
        )?;
        let node = self.wheel.reserve(Owner::Server(slot));
        if let Some(server) = self.servers.at_mut(slot) {
            server.times.node = node;
            server.times.follow(&step, self.now, &self.clock, &mut self.wheel);
        }
        self.server_share.take(payer, 1);
        self.pool.held.take(payer, COST);
        self.index.insert(hash, slot);
        if let Some(count) = self.by_method.get_mut(method.group()) {
            *count += 1;
        }
        self.counts.servers_created += 1;
        Some(ServerId { slot, generation })
    }

    /// Destroys a transaction; what it held can be used again at once.
    fn remove_server(&mut self, slot: u32) {
        if let Some(server) = self.servers.remove(slot) {
            self.index.remove(server.hash, slot);
            if let Some(count) = self.by_method.get_mut(server.method.group()) {
                *count -= 1;
            }
            self.wheel.release(server.times.node);
            self.server_share.give(server.payer, 1);
            self.pool.held.give(server.payer, COST);
            self.pool.give(server.payer, server.buffer);
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
            self.servers.at(slot).is_some_and(|server| {
                server.hash == hash
                    && usize::from(server.core_len) == core.len()
                    && server.buffer.starts_with(core)
                    && wanted(server)
            })
        })
    }

    /// The id of the transaction in a slot.
    fn server_id(&self, slot: u32) -> Option<ServerId> {
        self.servers.generation(slot).map(|generation| ServerId { slot, generation })
    }
}

/// What a provisional response of `provisional` bytes leaves of a credit.
fn for_final(provisional: usize) -> u32 {
    u32::try_from(provisional).unwrap_or(u32::MAX).saturating_add(SESSION).max(FOR_FINAL)
}

/// What RFC 4320 4.1 and 4.2 forbid to send to a non-INVITE request.
fn forbidden(server: &Server, status: u16, now: u64, clock: &Clock) -> bool {
    match status {
        408 => true,
        100 => {
            let received = server.times.end.saturating_sub(clock.non_invite_lifetime);
            !server.reply.transport.is_reliable() && now < received.saturating_add(clock.early_trying)
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
