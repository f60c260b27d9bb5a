//! One stream connection.

use super::caps::Caps;
use super::directory::{Directory, Key, Place};
use super::input::Input;
use super::link::Link;
use super::output::{Outgoing, Output, Ticket};
use super::phase::{Phase, State};
use super::secure::Progress;
use super::standing::Standing;
use super::web::Web;
use crate::config::StreamLimits;
use crate::sys::{Interest, Poller};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::time::Duration;
use wire::{ConnId, Flow, ListenerId, Time};

/// The other end of a connection, and ours.
struct Peer {
    /// How it leads there, and to which address.
    place: Place,
    /// Our end.
    listener: ListenerId,
    /// Whether the peer opened it (and is counted for its source).
    inbound: bool,
    /// Whether a whole message has come, or we opened it ourselves.
    useful: bool,
}

/// One stream connection.
pub struct Conn {
    link: Link,
    peer: Peer,
    phase: Phase,
    standing: Standing,
    /// Whether it is in the list of connections with input left over.
    waiting: bool,
    /// Whether it is in the list of connections with output to send.
    dirty: bool,
    /// When it was accepted or begun, or its last handshake so far was over.
    opened: Time,
    /// When the present state, or the silence in it, has lasted too long.
    deadline: Time,
    /// Before this, no ping is answered.
    next_pong: Time,
    /// Bytes received and not consumed, while there are any.
    input: Option<Box<Input>>,
    outgoing: Outgoing,
}

/// An idle connection is small: with its number in the table it is two cache lines.
const _: () = assert!(size_of::<Conn>() <= 120);

/// What becomes of a message that is to be queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// It is queued.
    Takes,
    /// It yields, because much is queued.
    Congested,
    /// There is no room for it, or the connection is ending.
    Refuses,
}

impl Conn {
    /// One that a peer opened, which has until then for its first message, or for its handshake.
    pub fn accepted(link: Link, remote: SocketAddr, listener: ListenerId, deadline: Time, now: Time) -> Conn {
        let place = Place::new(link.transport(), remote);
        let peer = Peer { place, listener, inbound: true, useful: false };
        let phase = if link.is_ready() { Phase::open() } else { Phase::handshake() };
        Conn::new((link, peer), phase, Standing::accepted(), deadline, now)
    }

    /// One that is being opened, for which the peer has until then.
    pub fn begun(link: Link, remote: SocketAddr, listener: ListenerId, deadline: Time, now: Time) -> Conn {
        let place = Place::new(link.transport(), remote);
        let peer = Peer { place, listener, inbound: false, useful: true };
        Conn::new((link, peer), Phase::connecting(), Standing::begun(), deadline, now)
    }

    fn new((link, peer): (Link, Peer), phase: Phase, standing: Standing, deadline: Time, now: Time) -> Conn {
        let (opened, next_pong) = (now, Time::ZERO);
        let (input, outgoing) = (None, Outgoing::new());
        let (waiting, dirty) = (false, false);
        Conn { link, peer, phase, standing, waiting, dirty, opened, deadline, next_pong, input, outgoing }
    }

    /// What it is found by.
    pub fn key(&self) -> Key<'_> {
        self.peer.place.proven_by(self.link.name())
    }

    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.peer.place.remote()
    }

    /// The flow of messages that come in on it.
    pub fn flow(&self, id: ConnId) -> Flow {
        let Peer { place, listener, .. } = self.peer;
        Flow { transport: place.transport(), listener, remote: place.remote(), conn: Some(id) }
    }

    /// Whether the peer opened it.
    pub fn is_inbound(&self) -> bool {
        self.peer.inbound
    }

    /// Whether a whole message has come, or we opened it ourselves.
    pub fn is_useful(&self) -> bool {
        self.peer.useful
    }

    /// A whole message has come.
    pub fn has_message(&mut self) {
        self.peer.useful = true;
    }

    /// The time for its first message starts now: a handshake is over.
    pub fn starts_time(&mut self, limits: &StreamLimits, now: Time) {
        (self.opened, self.deadline) = (now, now + limits.first_message);
    }

    /// How old it is, without handshakes that are over.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.opened)
    }

    /// Where it stands.
    #[inline]
    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// Whether it has ended so far that nothing is read from it any more.
    pub fn has_ended(&self) -> bool {
        matches!(self.state(), State::HalfClosed | State::Ending)
    }

    /// Its socket and layers.
    #[inline]
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Its socket and layers.
    #[inline]
    pub fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    /// How far it has come.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// How far it has come.
    pub fn phase_mut(&mut self) -> &mut Phase {
        &mut self.phase
    }

    /// How much it matters.
    pub fn standing(&mut self) -> &mut Standing {
        &mut self.standing
    }

    /// Whether it has never mattered.
    pub fn is_loose(&self) -> bool {
        self.standing.is_loose()
    }

    /// Has its socket watched, as connection `id`.
    pub fn register(&self, id: ConnId, poller: &Poller) -> io::Result<()> {
        self.link.register(id, poller)
    }

    /// Has its socket watched for this from now on.
    pub fn watch(&mut self, interest: Interest, id: ConnId, poller: &Poller) {
        self.link.watch(interest, id, poller);
    }

    /// Has its socket watched for room where output waits for it, and for nothing else.
    pub fn watch_for_room_only(&mut self, id: ConnId, poller: &Poller) {
        let interest = if self.outgoing.is_blocked() { Interest::WRITE } else { Interest::NONE };
        self.link.watch(interest, id, poller);
    }

    /// When it has to be looked at.
    pub fn due(&self) -> Time {
        self.deadline.min(self.outgoing.stall())
    }

    /// When its present state has lasted too long.
    pub fn set_deadline(&mut self, deadline: Time) {
        self.deadline = deadline;
    }

    /// Whether the peer takes nothing for too long.
    pub fn is_stalled(&self, now: Time) -> bool {
        self.outgoing.stall() <= now
    }

    /// It is silent from now on, if messages come on it and none has begun; `message`: one has just come.
    pub fn falls_silent(&mut self, limits: &StreamLimits, now: Time, message: bool) {
        if self.peer.useful && self.input.is_none() {
            self.deadline = self.standing.silence(limits, now, message);
        }
    }

    /// Sets the deadline that fits what has been read; `message`: a whole one was.
    pub fn set_read_deadline(&mut self, limits: &StreamLimits, now: Time, message: bool) {
        let silence = match self.peer.useful {
            true => self.standing.silence(limits, now, message),
            false => self.opened + limits.first_message,
        };
        let input = self.input.as_ref().filter(|_| !self.waiting);
        let end = input.and_then(|input| input.must_end(limits.message, limits.min_bytes_per_second));
        self.deadline = end.map_or(silence, |end| silence.min(end));
    }

    /// What becomes of a message of `len` bytes that is to be queued.
    pub fn takes(&mut self, len: usize, ticket: &Ticket, limits: &StreamLimits, now: Time) -> Queue {
        let takes = match self.phase.state() {
            State::Open | State::HalfClosed | State::Ending
                if self.link.web().is_some_and(|web| !web.may_send()) =>
            {
                false
            }
            State::Open | State::HalfClosed | State::Ending => {
                if ticket.yields && self.outgoing.is_congested(len, limits, now) {
                    return Queue::Congested;
                }
                true
            }
            // Nobody knows yet what the peer speaks, or its handshake may be refused.
            State::Connecting | State::Handshake if self.link.web().is_some_and(|web| !web.is_client()) => {
                false
            }
            State::Connecting | State::Handshake => {
                self.outgoing.pending() + len <= limits.max_queued_connecting
            }
            State::Closing | State::Lingering => false,
        };
        if takes { Queue::Takes } else { Queue::Refuses }
    }

    /// Queues a message, masked if there is a mask. `fresh` gives the buffer if there is none yet. Returns
    /// the number of queued bytes.
    pub fn push(
        &mut self,
        (message, mask): (&[u8], Option<[u8; 4]>),
        ticket: Ticket,
        (caps, now): (&Caps, Time),
        fresh: impl FnOnce() -> Box<Output>,
    ) -> usize {
        if ticket.keeps > 0 {
            self.standing.mark(&ticket, caps, now);
        }
        let pending = self.outgoing.push(message, ticket, self.link.has_records(), fresh);
        if let Some(mask) = mask {
            self.outgoing.mask(message.len(), mask);
        }
        pending
    }

    /// Queues bytes that are no message.
    pub fn push_bytes(&mut self, bytes: &[u8], fresh: impl FnOnce() -> Box<Output>) {
        self.outgoing.push(bytes, Ticket::none(0), false, fresh);
    }

    /// Bytes that are queued.
    pub fn pending(&self) -> usize {
        self.outgoing.pending()
    }

    /// Whether nothing is queued.
    pub fn has_no_output(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Notes that it is in the list of those with output to send; `false` if it was.
    pub fn make_dirty(&mut self) -> bool {
        !mem::replace(&mut self.dirty, true)
    }

    /// Notes that it was taken from that list.
    pub fn clean(&mut self) {
        self.dirty = false;
    }

    /// If it is not open yet, it must be by then; `true` if that is earlier than before.
    pub fn hurries(&mut self, until: Time) -> bool {
        let making = matches!(self.phase.state(), State::Connecting | State::Handshake);
        let earlier = making && until < self.deadline;
        if earlier {
            self.deadline = until;
        }
        earlier
    }

    /// Whether a ping is to be answered: not soon after another, nor where other output is queued, which says
    /// as well that we are alive.
    pub fn may_pong(&mut self, interval: Duration, now: Time) -> bool {
        let may = now >= self.next_pong && self.outgoing.is_empty();
        if may {
            self.next_pong = now + interval;
        }
        may
    }

    /// Writes as much as the kernel takes. How many bytes that was; `None` if nothing can be written now.
    pub fn send(&mut self, scratch: &mut Vec<u8>, now: Time) -> Option<io::Result<usize>> {
        let may = match self.phase.state() {
            State::Connecting => false,
            State::Handshake => self.link.owes(),
            _ => true,
        };
        if !may || self.outgoing.is_blocked() {
            return None;
        }
        self.outgoing.send(&mut self.link, scratch, now)
    }

    /// Whether the socket needs room before more can be done: for what a layer owes, or for what is queued.
    #[inline]
    pub fn lacks_room(&self) -> bool {
        self.link.owes() || (self.link.is_ready() && self.outgoing.pending() > 0)
    }

    /// Sees that what a layer owes is sent like what is queued; `true` if it owes something.
    #[inline]
    pub fn queue_owed(&mut self, fresh: impl FnOnce() -> Box<Output>) -> bool {
        if self.link.owes() {
            self.outgoing.push(&[], Ticket::none(0), false, fresh);
        }
        self.link.owes()
    }

    /// It is WebSocket, of that listener if it differs, and its layer takes a step. It is found by that from
    /// now on.
    pub fn becomes_web(
        &mut self,
        id: ConnId,
        listener: Option<ListenerId>,
        step: impl FnOnce(&mut Web),
        directory: &Directory,
    ) {
        self.link.web_mut().map(step);
        self.peer.listener = listener.unwrap_or(self.peer.listener);
        let place = Place::new(self.link.transport(), self.remote());
        if place != self.peer.place {
            directory.remove(&self.key(), id);
            self.peer.place = place;
            directory.insert(&self.key(), id);
        }
    }

    /// The progress of its TLS handshake, if the peer opened it and the handshake is not finished.
    #[inline]
    pub fn half_made(&self) -> Option<Progress> {
        let secure = self.link.secure().filter(|secure| self.peer.inbound && !secure.is_ready())?;
        Some(secure.progress())
    }

    /// Watches its socket for input, and for room if output waits.
    pub fn watch_all(&mut self, id: ConnId, poller: &Poller) {
        let room = if self.outgoing.is_blocked() { Interest::WRITE } else { Interest::NONE };
        self.link.watch(Interest::READ.and(room), id, poller);
    }

    /// Extends the deadline of its present state by the time that it waited for us.
    pub fn extend_deadline(&mut self, by: Duration) {
        self.deadline = self.deadline + by;
    }

    /// The kernel has no room for the rest of the output. It must have some by `until`.
    pub fn block(&mut self, until: Time, now: Time, id: ConnId, poller: &Poller) {
        self.outgoing.block(until, now);
        self.link.watch_for_room(id, poller);
    }

    /// The kernel has room again; `true` if something is queued.
    pub fn unblock(&mut self) -> bool {
        self.outgoing.unblock()
    }

    /// The buffer for output, of which everything has left.
    pub fn take_output(&mut self) -> Option<Box<Output>> {
        self.outgoing.take_buffer()
    }

    /// Forgets what was sent long ago.
    pub fn forget(&mut self, patience: Duration, now: Time) {
        self.outgoing.forget(patience, now);
    }

    /// The peer has answered: whether messages can go both ways now. Otherwise a layer begins its handshake.
    ///
    /// # Errors
    /// It has refused, or cannot be reached.
    pub fn answered(&mut self) -> io::Result<bool> {
        self.link.opened()?;
        if !self.link.is_ready() {
            self.phase.shakes_hands();
        }
        Ok(self.link.is_ready())
    }

    /// The bytes that are left over.
    pub fn input(&self) -> Option<&Input> {
        self.input.as_deref()
    }

    /// Leaves bytes with it.
    pub fn set_input(&mut self, input: Box<Input>) {
        debug_assert!(self.input.is_none(), "what was left over before was taken");
        self.input = Some(input);
    }

    /// Takes the bytes that are left over.
    pub fn take_input(&mut self) -> Option<Box<Input>> {
        self.input.take()
    }

    /// Whether it is in the list of connections with input left over.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Notes that it is in that list; `false` if it was.
    pub fn wait(&mut self) -> bool {
        !mem::replace(&mut self.waiting, true)
    }

    /// Notes that it was taken from that list.
    pub fn wait_no_more(&mut self) {
        self.waiting = false;
    }

    /// What it holds when it is closed: input, output with who wants to hear of it, and the socket.
    pub fn into_parts(self) -> (Option<Box<Input>>, Outgoing, Link) {
        (self.input, self.outgoing, self.link)
    }
}
