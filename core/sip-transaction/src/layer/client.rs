//! Client transactions.

use super::{Deadlines, Event, Layer, Original, Outcome, write};
use crate::id::ClientId;
use crate::key::MethodCode;
use crate::machine::{ClientAct, ClientInput, Step, invite_client, plain_client};
use crate::pool::Pool;
use crate::share::Payer;
use crate::timers::Clock;
use crate::wheel::{Owner, Wheel};
use core::mem;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use sip_message::{Limits, Message, Method, Parsed, Splices, apply_packed};
use wire::{Flow, ListenerId, Outbox, Time};

/// What a client transaction costs besides its buffer: itself, its timer, and what the allocator adds.
const COST: usize = 256;
/// No relative.
const NIL: u32 = u32::MAX;

/// One client transaction.
pub(super) struct Client {
    /// The request while it may be needed: to be sent again, and of an INVITE to make its ACK and
    /// CANCEL from. After a failure of an INVITE over UDP, its ACK. Where there is an original, the edits that make the
    /// request from it.
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
    /// A CANCEL that waits for a provisional response (9.1): its extra header lines.
    waiting_cancel: Option<Box<[u8]>>,
    state: State,
}

/// Which machine, and its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// An id without a request.
    Reserved,
    Invite(invite_client::State),
    Plain(plain_client::State),
}

impl Client {
    /// A reservation.
    fn new(node: u32, payer: Payer) -> Client {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        Client {
            buffer: Vec::new(),
            original: None,
            payer,
            user: 0,
            times: Deadlines::new(node),
            flow: Flow::udp(ListenerId(0), nowhere),
            method: 0,
            relative: NIL,
            again: u8::MAX,
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

/// [`Client::method`] of a CANCEL.
const CANCEL: u32 = MethodCode::CANCEL.number();

/// A machine's step as a step of either.
fn wrap<S>(step: Step<S, ClientAct>, state: impl FnOnce(S) -> State) -> Step<State, ClientAct> {
    Step { state: step.state.map(state), act: step.act, resend: step.resend, end: step.end }
}

impl Layer {
    /// The id of a request to be sent, known before its branch is written; `None` if there is no
    /// room for it on the account of `payer`. One that is neither sent nor abandoned disappears after 64*T1, without an
    /// event.
    pub fn reserve_client(&mut self, payer: Payer) -> Option<ClientId> {
        if !self.client_share.admits(payer, 1) {
            self.counts.refused += 1;
            self.counts.refused_share += u64::from(self.client_share.has_room(1));
            return None;
        }
        let id = self.add_client(payer)?;
        self.client_share.take(payer, 1);
        if let Some(client) = self.clients.at_mut(id.slot) {
            // Armed for what sending it will ask for.
            client.times.end = self.now.saturating_add(self.clock.t1_x64);
            client.times.armed = Wheel::end_of_tick(self.now.saturating_add(self.clock.t1));
            self.wheel.arm(client.times.node, client.times.armed);
        }
        Some(id)
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
        id: ClientId,
        method: Method<'_>,
        flow: Flow,
        user: u64,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.begin_client(now, id, method, flow, user) {
            return false;
        }
        let range = out.send_with(flow, id.token(), write);
        if let Some(client) = self.clients.at_mut(id.slot)
            && client.needs_request()
        {
            client.keep(out.bytes().get(range).unwrap_or(&[]), &mut self.pool);
        }
        true
    }

    /// As [`Layer::send_request`], of a request that is `original` with these edits: all branches of a large one share it,
    /// and keep only what they differ in. `original` must be held, see [`Layer::hold`].
    pub fn send_edited(
        &mut self,
        now: Time,
        id: ClientId,
        method: Method<'_>,
        (flow, user): (Flow, u64),
        (original, edits): (&Original, &Splices),
        out: &mut Outbox,
    ) -> bool {
        if !self.begin_client(now, id, method, flow, user) {
            return false;
        }
        out.send_with(flow, id.token(), |out| edits.apply(original, out));
        if let Some(client) = self.clients.at_mut(id.slot)
            && client.needs_request()
        {
            self.whole.clear();
            edits.pack(&mut self.whole);
            client.keep(&self.whole, &mut self.pool);
            client.original = Some(original.clone());
        }
        true
    }

    /// Starts the machine of a reserved id; false if that cannot be.
    fn begin_client(&mut self, now: Time, id: ClientId, method: Method<'_>, flow: Flow, user: u64) -> bool {
        self.now = now.as_micros();
        let number = self.keys.method_number(method);
        let Some(client) = self.clients.get_mut(id.slot, id.generation) else { return false };
        if client.state != State::Reserved || method == Method::Ack {
            return false;
        }
        (client.user, client.flow, client.method) = (user, flow, number);
        let step = start(method, flow, &self.clock);
        client.state = step.state.unwrap_or(client.state);
        client.times.follow(&step, self.now, &self.clock, &mut self.wheel);
        true
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
        self.now = now.as_micros();
        let Some(slot) = self.find_client(id, message.method()) else {
            self.counts.responses_unknown += 1;
            return Outcome::Unknown;
        };
        let input = match message.status() {
            100..=199 => ClientInput::Provisional,
            200..=299 => ClientInput::Success,
            _ => ClientInput::Failure,
        };
        let Some(client) = self.clients.at_mut(slot) else { return Outcome::Unknown };
        let step = client.step(input, &self.clock);
        client.state = step.state.unwrap_or(client.state);
        client.again = u8::MAX;
        client.times.follow(&step, self.now, &self.clock, &mut self.wheel);
        let (user, cancel) = (client.user, client.is_cancel());
        match step.act {
            ClientAct::DeliverAndAck => self.acknowledge(slot, message, out),
            ClientAct::Ack => self.repeat_ack(slot, out),
            ClientAct::Deliver if !client.needs_request() => {
                client.waiting_cancel = None;
                self.let_go(slot);
            }
            ClientAct::Deliver if client.waiting_cancel.is_some() => self.send_waiting_cancel(slot, out),
            _ => {}
        }
        if cancel || !matches!(step.act, ClientAct::Deliver | ClientAct::DeliverAndAck) {
            self.counts.responses_absorbed += u64::from(!cancel);
            return Outcome::Absorbed;
        }
        Outcome::Deliver { user }
    }

    /// Cancels an INVITE (9.1): sends CANCEL at once if a provisional response has come, else when the
    /// first comes. Other methods, and INVITEs with a final response, are left alone. Without a final
    /// response within 64*T1 the INVITE ends with [`Event::ClientTimeout`].
    ///
    /// `extra_headers` are whole lines to add, such as Reason (RFC 3326).
    pub fn cancel(&mut self, now: Time, id: ClientId, extra_headers: &[u8], out: &mut Outbox) {
        self.now = now.as_micros();
        let Some(client) = self.clients.get_mut(id.slot, id.generation) else { return };
        match client.state {
            State::Invite(invite_client::State::Calling) if client.waiting_cancel.is_none() => {
                client.waiting_cancel = Some(extra_headers.into());
            }
            State::Invite(invite_client::State::Proceeding) => {
                self.send_cancel(id.slot, extra_headers, out);
            }
            _ => {}
        }
    }

    /// Forgets a client transaction, sent or only reserved, and its CANCEL, without an event. What
    /// arrives for it later is unknown.
    pub fn abandon(&mut self, id: ClientId) {
        if self.clients.get(id.slot, id.generation).is_some() {
            self.remove_client(id.slot);
        }
    }

    /// Sends a request three times at most, however long nothing answers: its receiver may never have asked
    /// for it.
    pub fn spare(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(id.slot, id.generation) {
            client.again = 2;
        }
    }

    /// What was given to [`Layer::send_request`].
    pub fn user_of_client(&self, id: ClientId) -> Option<u64> {
        self.clients.get(id.slot, id.generation).map(|client| client.user)
    }

    /// Whether a provisional response has come and no final one yet: a CANCEL would go out at once.
    pub fn is_proceeding(&self, id: ClientId) -> bool {
        self.clients.get(id.slot, id.generation).is_some_and(|client| {
            matches!(
                client.state,
                State::Invite(invite_client::State::Proceeding | invite_client::State::Cancelling)
                    | State::Plain(plain_client::State::Proceeding)
            )
        })
    }

    /// Takes a slot and a node.
    fn add_client(&mut self, payer: Payer) -> Option<ClientId> {
        if self.clients.is_full() {
            return None;
        }
        let generation = self.generations.next();
        let slot = self.clients.insert(generation, Client::new(0, payer))?;
        self.pool.held.take(payer, COST);
        let node = self.wheel.reserve(Owner::Client(slot));
        if let Some(client) = self.clients.at_mut(slot) {
            client.times.node = node;
        }
        self.counts.clients_created += 1;
        Some(ClientId { slot, generation })
    }

    /// Destroys a transaction, and an INVITE's CANCEL with it.
    fn remove_client(&mut self, slot: u32) {
        let Some(client) = self.clients.remove(slot) else { return };
        self.wheel.release(client.times.node);
        let (cancel, relative) = (client.is_cancel(), client.relative);
        self.pool.held.give(client.payer, COST);
        self.give_back(client.payer, client.buffer, client.original);
        if !cancel {
            self.client_share.give(client.payer, 1);
        }
        if cancel {
            self.counts.cancels -= 1;
            if let Some(invite) = self.clients.at_mut(relative) {
                invite.relative = NIL;
            }
        } else if relative != NIL {
            // Responses to the CANCEL are found through the INVITE. It goes first only if the CANCEL
            // has had 64*T1, or on a reliable transport, where nothing is left to repeat.
            self.remove_client(relative);
        }
    }

    /// Gives back the stored request: nothing will be made from it any more.
    fn let_go(&mut self, slot: u32) {
        if let Some(client) = self.clients.at_mut(slot) {
            let (payer, buffer, original) =
                (client.payer, mem::take(&mut client.buffer), client.original.take());
            self.give_back(payer, buffer, original);
        }
    }

    fn give_back(&mut self, payer: Payer, buffer: Vec<u8>, original: Option<Original>) {
        self.pool.give(payer, buffer);
        if let Some(original) = original {
            self.release(payer, original);
        }
    }

    /// The transaction of a response: the one named in the branch, or its CANCEL, which has the same
    /// branch (17.1.3).
    fn find_client(&self, id: ClientId, method: Method<'_>) -> Option<u32> {
        let named = self.clients.get(id.slot, id.generation)?;
        if named.state == State::Reserved {
            return None;
        }
        let number = self.keys.method_number(method);
        if number == named.method {
            // A CANCEL is never named itself: its branch is the INVITE's.
            return (number != CANCEL).then_some(id.slot);
        }
        (number == CANCEL && named.relative != NIL).then_some(named.relative)
    }

    /// Makes the ACK of a first failure from the stored INVITE (17.1.1.3), sends it, and keeps it
    /// where the failure may be repeated.
    fn acknowledge(&mut self, slot: u32, response: &Message<'_>, out: &mut Outbox) {
        let Some(id) = self.client_id(slot) else { return };
        let Some(client) = self.clients.at_mut(slot) else { return };
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
            sip_message::parse(invite, &mut self.scratch, &Limits::READ_BEFORE)
        {
            let range = out.send_with(client.flow, id.token(), |out| write::ack(&request, response, out));
            self.counts.acks_sent += 1;
            if !client.flow.transport.is_reliable() {
                client.keep(out.bytes().get(range).unwrap_or(&[]), &mut self.pool);
            }
        }
        self.give_back(payer, buffer, original);
    }

    /// Sends the stored ACK again for a repeated failure (17.1.1.2).
    fn repeat_ack(&mut self, slot: u32, out: &mut Outbox) {
        let Some(id) = self.client_id(slot) else { return };
        let Some(client) = self.clients.at(slot) else { return };
        if !client.buffer.is_empty() {
            out.send(client.flow, id.token(), &client.buffer);
            self.counts.acks_sent += 1;
        }
    }

    /// The first provisional response has come: now the CANCEL may go (9.1).
    fn send_waiting_cancel(&mut self, slot: u32, out: &mut Outbox) {
        let Some(client) = self.clients.at_mut(slot) else { return };
        if let Some(extra) = client.waiting_cancel.take() {
            self.send_cancel(slot, &extra, out);
        }
    }

    /// Sends a CANCEL in a transaction of its own, to where the INVITE went (9.1), and starts the
    /// INVITE's last 64*T1.
    fn send_cancel(&mut self, slot: u32, extra: &[u8], out: &mut Outbox) {
        let now = self.now;
        let Some(invite) = self.clients.at_mut(slot) else { return };
        let step = invite.step(ClientInput::Cancelled, &self.clock);
        invite.state = step.state.unwrap_or(invite.state);
        invite.times.follow(&step, now, &self.clock, &mut self.wheel);
        // There is room for a CANCEL beside each client transaction; without one the INVITE would still
        // end after 64*T1.
        let Some(payer) = self.clients.at(slot).map(|invite| invite.payer) else { return };
        let Some(id) = self.add_client(payer) else { return };
        self.counts.cancels += 1;
        self.counts.cancels_sent += 1;
        let Some(invite) = self.clients.at_mut(slot) else { return };
        invite.relative = id.slot;
        let flow = invite.flow;
        let bytes = invite.kept(&mut self.whole);
        let mut range = 0..0;
        if let Parsed::Good(request) | Parsed::Bad(request, _) =
            sip_message::parse(bytes, &mut self.scratch, &Limits::READ_BEFORE)
        {
            range = out.send_with(flow, id.token(), |out| write::cancel(&request, extra, out));
        }
        let Some(cancel) = self.clients.at_mut(id.slot) else { return };
        let step = start(Method::Cancel, flow, &self.clock);
        (cancel.flow, cancel.method, cancel.relative) = (flow, CANCEL, slot);
        cancel.state = step.state.unwrap_or(cancel.state);
        if cancel.needs_request() {
            cancel.keep(out.bytes().get(range).unwrap_or(&[]), &mut self.pool);
        }
        cancel.times.follow(&step, now, &self.clock, &mut self.wheel);
    }

    /// A timer of a client transaction fired.
    pub(super) fn client_due(&mut self, slot: u32, out: &mut Outbox, events: &mut Vec<Event>) {
        let now = self.now;
        let Some(client) = self.clients.at_mut(slot) else { return };
        if !client.times.fired(now, &self.clock, &mut self.wheel) {
            return;
        }
        let step = client.step(client.times.client_input(now), &self.clock);
        if let Some(state) = step.state {
            client.state = state;
            client.times.follow(&step, now, &self.clock, &mut self.wheel);
        }
        if step.act == ClientAct::Resend {
            self.resend_request(slot, out);
        }
        if step.state.is_none() {
            self.end_client(slot, step.act, events);
        }
    }

    /// A request, or the ACK of a failure, could not be sent.
    pub(super) fn client_failed(&mut self, slot: u32, events: &mut Vec<Event>) {
        let Some(client) = self.clients.at(slot) else { return };
        let step = client.step(ClientInput::SendFailed, &self.clock);
        if step.state.is_none() {
            self.end_client(slot, step.act, events);
        }
    }

    /// Sends the stored request again (timers A and E).
    fn resend_request(&mut self, slot: u32, out: &mut Outbox) {
        let Some(id) = self.client_id(slot) else { return };
        let Some(client) = self.clients.at_mut(slot) else { return };
        if !client.buffer.is_empty() && client.again > 0 {
            // What has no bound ends by its timer, long before this does.
            client.again -= 1;
            out.send(client.flow, id.token(), client.kept(&mut self.whole));
            self.counts.requests_resent += 1;
        }
    }

    /// Destroys a terminated transaction and tells its user; a CANCEL and a reservation have none.
    fn end_client(&mut self, slot: u32, act: ClientAct, events: &mut Vec<Event>) {
        let Some(id) = self.client_id(slot) else { return };
        let Some(client) = self.clients.at(slot) else { return };
        let (user, silent) = (client.user, client.is_cancel());
        self.remove_client(slot);
        let event = match act {
            _ if silent => return,
            ClientAct::Timeout => {
                self.counts.client_timeouts += 1;
                Event::ClientTimeout { id, user }
            }
            ClientAct::Unreachable => Event::ClientUnreachable { id, user },
            ClientAct::Gone => Event::ClientGone { id, user },
            _ => return,
        };
        events.push(event);
    }

    /// The id of the transaction in a slot.
    fn client_id(&self, slot: u32) -> Option<ClientId> {
        self.clients.generation(slot).map(|generation| ClientId { slot, generation })
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
