//! Client transactions.

use super::shared::Shared;
use super::write;
use crate::events::{Event, Outcome};
use crate::id::ClientId;
use crate::index::SLOTS;
use crate::key::MethodCode;
use crate::machine::{ClientAct, ClientInput, Step, invite_client, plain_client};
use crate::pool::{Original, Pool};
use crate::share::{Payer, Share};
use crate::timers::Clock;
use crate::timing::Deadlines;
use crate::wheel::Owner;
use ::timing::Slab;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sip_message::{Limits, Message, Method, Parsed, Splices, apply_packed};
use std::collections::BTreeMap;
use wire::{Delivery, Flow, ListenerId, Outbox};

/// What a client transaction costs besides its buffer: itself, its timer, and what the allocator adds.
const COST: usize = 256;
/// No relative.
const NIL: u32 = u32::MAX;

/// A request to be sent in a client transaction.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// Reserved for it, and encoded in the branch of its top Via.
    pub id: ClientId,
    /// Its method.
    pub method: Method<'a>,
    /// Where it goes.
    pub flow: Flow,
    /// A number of the transaction user's; events carry it.
    pub user: u64,
    /// How it goes over a stream. Its ACK and its CANCEL open no connection if it opens none.
    pub delivery: Delivery,
    /// The name that the peer has to prove where the transport is secure ([`Outbox::verifies`]); its ACK and
    /// its CANCEL go to the same peer.
    pub name: &'a [u8],
}

/// One client transaction.
struct Client {
    /// The request while it may be needed: to be sent again, and of an INVITE to make its ACK and CANCEL
    /// from. After a failure of an INVITE over UDP, its ACK. Where there is an original, the edits that make
    /// the request from it.
    buffer: Vec<u8>,
    original: Option<Original>,
    payer: Payer,
    user: u64,
    times: Deadlines,
    flow: Flow,
    /// The method, see [`KeyReader::method_number`](crate::key::KeyReader::method_number).
    method: u32,
    /// Of an INVITE, the slot of its CANCEL; of a CANCEL, the slot of its INVITE.
    relative: u32,
    /// How often it may still be sent again.
    again: u8,
    /// As [`Delivery::existing`]: its ACK and its CANCEL open no connection either.
    existing: bool,
    /// A CANCEL that waits for a provisional response (9.1): its extra header lines.
    waiting_cancel: Option<Box<[u8]>>,
    state: State,
}

// With timer node: what a finished call holds, see the crate documentation.
const _: () = assert!(size_of::<Client>() <= 160);

/// Which machine, and its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// An id without a request.
    Reserved,
    Invite(invite_client::State),
    Plain(plain_client::State),
}

impl Client {
    /// A reservation.
    fn new(payer: Payer) -> Client {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Client {
            buffer: Vec::new(),
            original: None,
            payer,
            user: 0,
            times: Deadlines::NONE,
            flow: Flow::udp(ListenerId(0), nowhere),
            method: 0,
            relative: NIL,
            again: u8::MAX,
            existing: false,
            waiting_cancel: None,
            state: State::Reserved,
        }
    }

    /// Asks the machine, changes nothing. A reservation knows only its end.
    fn step(&self, input: ClientInput, clock: &Clock) -> Step<State, ClientAct> {
        let reliable = self.flow.transport.is_reliable();
        match self.state {
            State::Invite(state) => wrap(invite_client::step(state, input, clock, reliable), State::Invite),
            State::Plain(state) => wrap(plain_client::step(state, input, clock, reliable), State::Plain),
            State::Reserved => Step::terminated(ClientAct::Nothing),
        }
    }

    /// Whether it is a CANCEL of ours, which has no user and raises no events.
    fn is_cancel(&self) -> bool {
        self.method == CANCEL
    }

    /// Whether the request may still be needed in the present state.
    fn needs_request(&self) -> bool {
        match self.state {
            State::Invite(state) => {
                !matches!(state, invite_client::State::Completed | invite_client::State::Accepted)
            }
            State::Plain(state) => {
                state != plain_client::State::Completed && !self.flow.transport.is_reliable()
            }
            State::Reserved => true,
        }
    }

    /// How its ACK and its CANCEL go: over the connection of the request (RFC 3261 sections 17.1.1.3, 9.1).
    fn delivery(&self) -> Delivery {
        Delivery { existing: self.existing, ..Delivery::default() }
    }

    /// Keeps `bytes`, where nothing was kept.
    fn keep(&mut self, bytes: &[u8], pool: &mut Pool) {
        self.buffer = pool.take(self.payer, bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// What is kept, whole; `room` is for one that has to be made again.
    fn kept<'a>(&'a self, room: &'a mut Vec<u8>) -> &'a [u8] {
        let Some(original) = &self.original else { return &self.buffer };
        room.clear();
        apply_packed(&self.buffer, original, room);
        room
    }
}

/// The peer of the message queued last has to prove the name of the transaction in this slot, if it has one.
#[inline]
fn verify(names: &BTreeMap<u32, Box<[u8]>>, slot: u32, out: &mut Outbox) {
    if let Some(name) = names.get(&slot) {
        out.verifies(name);
    }
}

/// [`Client::method`] of a CANCEL.
const CANCEL: u32 = MethodCode::CANCEL.number();

/// A machine's step as a step of either.
fn wrap<S>(step: Step<S, ClientAct>, state: impl FnOnce(S) -> State) -> Step<State, ClientAct> {
    Step { state: step.state.map(state), act: step.act, resend: step.resend, end: step.end }
}

/// All client transactions, by slot.
pub(super) struct Clients {
    slab: Slab<Client>,
    share: Share,
    /// A message made again from what its branches share.
    whole: Vec<u8>,
    /// The names that peers have to prove, by slot, where transports are secure.
    names: BTreeMap<u32, Box<[u8]>>,
}

impl Clients {
    /// None, and `limit` at most. Each may have a CANCEL beside it.
    pub fn new(limit: usize) -> Clients {
        let slab = Slab::new(limit.saturating_mul(2).min(SLOTS));
        Clients { slab, share: Share::new(limit), whole: Vec::new(), names: BTreeMap::new() }
    }

    /// How many there are, with reservations and CANCELs.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    fn get(&self, id: ClientId) -> Option<&Client> {
        self.slab.get(id.slot, id.generation)
    }

    fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.slab.get_mut(id.slot, id.generation)
    }

    /// Whether there is a transaction with this id.
    pub fn has(&self, id: ClientId) -> bool {
        self.get(id).is_some()
    }

    /// Asks the processor for the transaction in this slot.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        self.slab.prefetch(slot);
    }

    /// An id for a request to be sent, see [`Layer::reserve_client`](crate::Layer::reserve_client).
    pub fn reserve(&mut self, shared: &mut Shared, payer: Payer) -> Option<ClientId> {
        if !self.share.admits(payer, 1) {
            shared.counts.refused += 1;
            shared.counts.refused_share += u64::from(self.share.has_room(1));
            return None;
        }
        let id = self.add(shared, payer)?;
        self.share.take(payer, 1);
        if let Some(client) = self.slab.at_mut(id.slot) {
            client.times.expect_request(&mut shared.timing);
        }
        Some(id)
    }

    /// Sends the request of a reserved id, see [`Layer::send_request`](crate::Layer::send_request). `number`
    /// is that of its method.
    pub fn send(
        &mut self,
        shared: &mut Shared,
        request: &ClientRequest<'_>,
        number: u32,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.begin(shared, request, number) {
            return false;
        }
        let range = out.deliver(request.flow, request.id.token(), request.delivery, write);
        verify(&self.names, request.id.slot, out);
        if let Some(client) = self.slab.at_mut(request.id.slot)
            && client.needs_request()
        {
            client.keep(out.bytes().get(range).unwrap_or(&[]), &mut shared.pool);
        }
        true
    }

    /// The same of one that is `original` with these edits.
    pub fn send_edited(
        &mut self,
        shared: &mut Shared,
        request: &ClientRequest<'_>,
        number: u32,
        (original, edits): (&Original, &Splices),
        out: &mut Outbox,
    ) -> bool {
        if !self.begin(shared, request, number) {
            return false;
        }
        out.deliver(request.flow, request.id.token(), request.delivery, |out| edits.apply(original, out));
        verify(&self.names, request.id.slot, out);
        if let Some(client) = self.slab.at_mut(request.id.slot)
            && client.needs_request()
        {
            self.whole.clear();
            edits.pack(&mut self.whole);
            client.keep(&self.whole, &mut shared.pool);
            client.original = Some(original.clone());
        }
        true
    }

    /// Starts the machine of a reserved id; false if that cannot be.
    fn begin(&mut self, shared: &mut Shared, request: &ClientRequest<'_>, number: u32) -> bool {
        let &ClientRequest { id, method, flow, user, delivery, name } = request;
        let Some(client) = self.get_mut(id) else { return false };
        if client.state != State::Reserved || method == Method::Ack {
            return false;
        }
        (client.user, client.flow, client.method) = (user, flow, number);
        client.existing = delivery.existing;
        if flow.transport.is_secure() && !name.is_empty() {
            self.names.insert(id.slot, name.into());
        }
        let Some(client) = self.get_mut(id) else { return false };
        let step = start(method, flow, shared.timing.clock());
        client.state = step.state.unwrap_or(client.state);
        client.times.follow(&step, &mut shared.timing);
        true
    }

    /// A response to a method of this number, see
    /// [`Layer::receive_response`](crate::Layer::receive_response).
    pub fn receive(
        &mut self,
        shared: &mut Shared,
        (id, number): (ClientId, u32),
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(slot) = self.find(id, number) else {
            shared.counts.responses_unknown += 1;
            return Outcome::Unknown;
        };
        let input = match message.status() {
            100..=199 => ClientInput::Provisional,
            200..=299 => ClientInput::Success,
            _ => ClientInput::Failure,
        };
        let client = invariant::some!(self.slab.at_mut(slot), "a slot that was found has a transaction");
        let Some(client) = client else { return Outcome::Unknown };
        let step = client.step(input, shared.timing.clock());
        client.state = step.state.unwrap_or(client.state);
        client.again = u8::MAX;
        client.times.follow(&step, &mut shared.timing);
        let (user, cancel) = (client.user, client.is_cancel());
        match step.act {
            ClientAct::DeliverAndAck => self.acknowledge(shared, slot, message, out),
            ClientAct::Ack => self.repeat_ack(shared, slot, out),
            ClientAct::Deliver if !client.needs_request() => {
                client.waiting_cancel = None;
                self.let_go(shared, slot);
            }
            ClientAct::Deliver if client.waiting_cancel.is_some() => {
                self.send_waiting_cancel(shared, slot, out)
            }
            _ => {}
        }
        if cancel || !matches!(step.act, ClientAct::Deliver | ClientAct::DeliverAndAck) {
            shared.counts.responses_absorbed += u64::from(!cancel);
            return Outcome::Absorbed;
        }
        Outcome::Deliver { user }
    }

    /// Cancels an INVITE, see [`Layer::cancel`](crate::Layer::cancel).
    pub fn cancel(&mut self, shared: &mut Shared, id: ClientId, extra_headers: &[u8], out: &mut Outbox) {
        let Some(client) = self.get_mut(id) else { return };
        match client.state {
            State::Invite(invite_client::State::Calling) if client.waiting_cancel.is_none() => {
                client.waiting_cancel = Some(extra_headers.into());
            }
            State::Invite(invite_client::State::Proceeding) => {
                self.send_cancel(shared, id.slot, extra_headers, out);
            }
            _ => {}
        }
    }

    /// Forgets a transaction, sent or only reserved, and its CANCEL, without an event.
    pub fn abandon(&mut self, shared: &mut Shared, id: ClientId) {
        if self.has(id) {
            self.remove(shared, id.slot);
        }
    }

    /// Sends a request three times at most, however long nothing answers: its receiver may never have asked
    /// for it.
    pub fn spare(&mut self, id: ClientId) {
        if let Some(client) = self.get_mut(id) {
            client.again = 2;
        }
    }

    /// What was given in the request.
    pub fn user_of(&self, id: ClientId) -> Option<u64> {
        self.get(id).map(|client| client.user)
    }

    /// Where the request went.
    pub fn flow_of(&self, id: ClientId) -> Option<Flow> {
        self.get(id).map(|client| client.flow)
    }

    /// Whether a provisional response has come and no final one yet: a CANCEL would go out at once.
    pub fn is_proceeding(&self, id: ClientId) -> bool {
        self.get(id).is_some_and(|client| {
            matches!(
                client.state,
                State::Invite(invite_client::State::Proceeding | invite_client::State::Cancelling)
                    | State::Plain(plain_client::State::Proceeding)
            )
        })
    }

    /// Takes a slot and a node.
    fn add(&mut self, shared: &mut Shared, payer: Payer) -> Option<ClientId> {
        if self.slab.is_full() {
            return None;
        }
        let generation = shared.generations.next();
        let slot = self.slab.insert(Client::new(payer), |_| generation)?;
        shared.pool.held.take(payer, COST);
        if let Some(client) = self.slab.at_mut(slot) {
            client.times.reserve(Owner::Client(slot), &mut shared.timing);
        }
        shared.counts.clients_created += 1;
        Some(ClientId { slot, generation })
    }

    /// Destroys a transaction, and an INVITE's CANCEL with it.
    fn remove(&mut self, shared: &mut Shared, slot: u32) {
        let Some(client) = self.slab.remove(slot) else { return };
        if client.flow.transport.is_secure() {
            self.names.remove(&slot);
        }
        client.times.release(&mut shared.timing);
        let (cancel, relative) = (client.is_cancel(), client.relative);
        shared.pool.held.give(client.payer, COST);
        give_back(&mut shared.pool, client.payer, client.buffer, client.original);
        if !cancel {
            self.share.give(client.payer, 1);
        }
        if cancel {
            shared.counts.cancels -= 1;
            if let Some(invite) = self.slab.at_mut(relative) {
                invite.relative = NIL;
            }
        } else if relative != NIL {
            // Responses to the CANCEL are found through the INVITE. It goes first only if the CANCEL
            // has had 64*T1, or on a reliable transport, where nothing is left to repeat.
            self.remove(shared, relative);
        }
    }

    /// Gives back the stored request: nothing will be made from it any more.
    fn let_go(&mut self, shared: &mut Shared, slot: u32) {
        if let Some(client) = self.slab.at_mut(slot) {
            let (buffer, original) = (mem::take(&mut client.buffer), client.original.take());
            give_back(&mut shared.pool, client.payer, buffer, original);
        }
    }

    /// The transaction of a response: the one named in the branch, or its CANCEL, which has the same
    /// branch (17.1.3).
    fn find(&self, id: ClientId, number: u32) -> Option<u32> {
        let named = self.get(id)?;
        if named.state == State::Reserved {
            return None;
        }
        if number == named.method {
            // A CANCEL is never named itself: its branch is the INVITE's.
            return (number != CANCEL).then_some(id.slot);
        }
        (number == CANCEL && named.relative != NIL).then_some(named.relative)
    }

    /// Makes the ACK of a first failure from the stored INVITE (17.1.1.3), sends it, and keeps it
    /// where the failure may be repeated.
    fn acknowledge(&mut self, shared: &mut Shared, slot: u32, response: &Message<'_>, out: &mut Outbox) {
        let Some(id) = self.id(slot) else { return };
        let Some(client) = self.slab.at_mut(slot) else { return };
        client.waiting_cancel = None;
        let (payer, buffer, original) = (client.payer, mem::take(&mut client.buffer), client.original.take());
        let invite = match &original {
            None => &buffer,
            Some(original) => {
                self.whole.clear();
                apply_packed(&buffer, original, &mut self.whole);
                &self.whole
            }
        };
        if let Parsed::Good(request) | Parsed::Bad(request, _) =
            sip_message::parse(invite, &mut shared.scratch, &Limits::READ_BEFORE)
        {
            let write = |out: &mut Vec<u8>| write::ack(&request, response, out);
            let range = out.deliver(client.flow, id.token(), client.delivery(), write);
            verify(&self.names, slot, out);
            shared.counts.acks_sent += 1;
            if !client.flow.transport.is_reliable() {
                client.keep(out.bytes().get(range).unwrap_or(&[]), &mut shared.pool);
            }
        } else {
            invariant::broken!("the kept INVITE can be read again for its ACK");
        }
        give_back(&mut shared.pool, payer, buffer, original);
    }

    /// Sends the stored ACK again for a repeated failure (17.1.1.2).
    fn repeat_ack(&self, shared: &mut Shared, slot: u32, out: &mut Outbox) {
        let Some(id) = self.id(slot) else { return };
        let Some(client) = self.slab.at(slot) else { return };
        if !client.buffer.is_empty() {
            out.send(client.flow, id.token(), &client.buffer);
            shared.counts.acks_sent += 1;
        }
    }

    /// The first provisional response has come: now the CANCEL may go (9.1).
    fn send_waiting_cancel(&mut self, shared: &mut Shared, slot: u32, out: &mut Outbox) {
        let Some(client) = self.slab.at_mut(slot) else { return };
        if let Some(extra) = client.waiting_cancel.take() {
            self.send_cancel(shared, slot, &extra, out);
        }
    }

    /// Sends a CANCEL in a transaction of its own, to where the INVITE went (9.1), and starts the
    /// INVITE's last 64*T1.
    fn send_cancel(&mut self, shared: &mut Shared, slot: u32, extra: &[u8], out: &mut Outbox) {
        let Some(invite) = self.slab.at_mut(slot) else { return };
        let step = invite.step(ClientInput::Cancelled, shared.timing.clock());
        invite.state = step.state.unwrap_or(invite.state);
        invite.times.follow(&step, &mut shared.timing);
        // There is room for a CANCEL beside each client transaction; without one the INVITE would still
        // end after 64*T1.
        let Some(payer) = self.slab.at(slot).map(|invite| invite.payer) else { return };
        let Some(id) = self.add(shared, payer) else { return };
        shared.counts.cancels += 1;
        shared.counts.cancels_sent += 1;
        let invite = invariant::some!(self.slab.at_mut(slot), "the INVITE is there while its CANCEL is made");
        let Some(invite) = invite else { return };
        invite.relative = id.slot;
        let (flow, delivery) = (invite.flow, invite.delivery());
        let bytes = invite.kept(&mut self.whole);
        let mut range = 0..0;
        if let Parsed::Good(request) | Parsed::Bad(request, _) =
            sip_message::parse(bytes, &mut shared.scratch, &Limits::READ_BEFORE)
        {
            range = out.deliver(flow, id.token(), delivery, |out| write::cancel(&request, extra, out));
            verify(&self.names, slot, out);
        } else {
            invariant::broken!("the kept INVITE can be read again for its CANCEL");
        }
        let cancel = invariant::some!(self.slab.at_mut(id.slot), "a CANCEL is there after it was added");
        let Some(cancel) = cancel else { return };
        let step = start(Method::Cancel, flow, shared.timing.clock());
        (cancel.flow, cancel.method, cancel.relative) = (flow, CANCEL, slot);
        cancel.state = step.state.unwrap_or(cancel.state);
        if cancel.needs_request() {
            cancel.keep(out.bytes().get(range).unwrap_or(&[]), &mut shared.pool);
        }
        cancel.times.follow(&step, &mut shared.timing);
    }

    /// A timer of a client transaction fired.
    pub fn due(&mut self, shared: &mut Shared, slot: u32, out: &mut Outbox, events: &mut Vec<Event>) {
        let Some(client) = self.slab.at_mut(slot) else { return };
        if !client.times.fired(&mut shared.timing) {
            return;
        }
        let step = client.step(client.times.client_input(shared.timing.now()), shared.timing.clock());
        if let Some(state) = step.state {
            client.state = state;
            client.times.follow(&step, &mut shared.timing);
        }
        if step.act == ClientAct::Resend {
            self.resend_request(shared, slot, out);
        }
        if step.state.is_none() {
            self.end(shared, slot, step.act, events);
        }
    }

    /// A request, or the ACK of a failure, could not be sent.
    pub fn failed(&mut self, shared: &mut Shared, slot: u32, events: &mut Vec<Event>) {
        let Some(client) = self.slab.at(slot) else { return };
        let step = client.step(ClientInput::SendFailed, shared.timing.clock());
        if step.state.is_none() {
            self.end(shared, slot, step.act, events);
        }
    }

    /// Sends the stored request again (timers A and E).
    fn resend_request(&mut self, shared: &mut Shared, slot: u32, out: &mut Outbox) {
        let Some(id) = self.id(slot) else { return };
        let Some(client) = self.slab.at_mut(slot) else { return };
        if !client.buffer.is_empty() && client.again > 0 {
            // What has no bound ends by its timer, long before this does.
            client.again -= 1;
            out.send(client.flow, id.token(), client.kept(&mut self.whole));
            shared.counts.requests_resent += 1;
        }
    }

    /// Destroys a terminated transaction and tells its user; a CANCEL and a reservation have none.
    fn end(&mut self, shared: &mut Shared, slot: u32, act: ClientAct, events: &mut Vec<Event>) {
        let Some(id) = self.id(slot) else { return };
        let Some(client) = self.slab.at(slot) else { return };
        let (user, silent) = (client.user, client.is_cancel());
        self.remove(shared, slot);
        let event = match act {
            _ if silent => return,
            ClientAct::Timeout => {
                shared.counts.client_timeouts += 1;
                Event::ClientTimeout { id, user }
            }
            ClientAct::Unreachable => Event::ClientUnreachable { id, user },
            ClientAct::Gone => Event::ClientGone { id, user },
            _ => return,
        };
        events.push(event);
    }

    /// The id of the transaction in a slot.
    fn id(&self, slot: u32) -> Option<ClientId> {
        self.slab.generation(slot).map(|generation| ClientId { slot, generation })
    }
}

/// Gives back what was stored of a request.
fn give_back(pool: &mut Pool, payer: Payer, buffer: Vec<u8>, original: Option<Original>) {
    pool.give(payer, buffer);
    if let Some(original) = original {
        pool.release(payer, original);
    }
}

/// The machine for a method, started.
fn start(method: Method<'_>, flow: Flow, clock: &Clock) -> Step<State, ClientAct> {
    let reliable = flow.transport.is_reliable();
    if method == Method::Invite {
        wrap(invite_client::start(clock, reliable), State::Invite)
    } else {
        wrap(plain_client::start(clock, reliable), State::Plain)
    }
}
