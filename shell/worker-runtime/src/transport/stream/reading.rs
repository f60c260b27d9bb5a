//! Reading from connections, and the bytes of theirs that are left over.

use super::asking;
use super::conn::Conn;
use super::dial::is_refusal;
use super::input::{Begun, Input, WHOLE};
use super::phase::{Reason, State};
use super::secure::{MOST, Secure, Took};
use super::{Streams, handshakes, reason_of, sharing};
use crate::sys::{Poller, is_transient};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use wire::{ConnId, Time};

/// Bytes left over that are put in front of what is read next; of more, it is put behind them.
const CARRIED: usize = 4 << 10;

/// What a worker keeps for reading from its connections.
pub(super) struct Reading {
    /// Room for one read.
    pub scratch: Vec<u8>,
    /// A buffer for the bytes of a layer while it reads.
    pub layer: Vec<u8>,
    /// A buffer for the output of a layer.
    pub sealed: Vec<u8>,
    turns: Turns,
}

/// Connections whose input waits for their next turn.
#[derive(Default)]
pub struct Turns {
    ready: VecDeque<ConnId>,
    /// Some input is left over only because another worker's ring is full.
    ring_full: bool,
    /// Connections that are closed for a fault after the data before it was handed on.
    broken: Vec<ConnId>,
}

impl Turns {
    /// How many they are. To be called when their turn has come.
    pub fn begin(&mut self) -> usize {
        self.ring_full = false;
        self.ready.len()
    }

    /// Whether input waits for its turn which can be handled now.
    pub fn are_due(&self) -> bool {
        (!self.ready.is_empty() || !self.broken.is_empty()) && !self.ring_full
    }

    /// Whether input waits only because another worker's ring is full.
    pub fn wait_for_ring(&self) -> bool {
        self.ring_full
    }
}

/// Closes connections for a fault after the bytes before it were handed on.
pub fn end_broken(streams: &mut Streams, now: Time) {
    for id in std::mem::take(&mut streams.reading.turns.broken) {
        let Some(conn) = streams.table.get_mut(id) else { continue };
        if conn.is_waiting() {
            streams.reading.turns.broken.push(id);
        } else if let Some(fault) = conn.link_mut().secure_mut().and_then(Secure::take_fault) {
            streams.fails(id, &fault, now);
        }
    }
}

impl Reading {
    /// Nothing is left over.
    pub fn new() -> Reading {
        let scratch = vec![0; MOST + CARRIED];
        Reading { scratch, layer: Vec::new(), sealed: Vec::new(), turns: Turns::default() }
    }
}

/// What was read from a connection.
pub enum Read {
    /// Nothing to handle.
    Nothing,
    /// New bytes, behind the beginning of a message that was left over, if there is one.
    Bytes(Bytes),
    /// Bytes that were added to those left over, which are to be handled together.
    Input(Box<Input>),
}

/// Bytes in a worker's own buffer, which goes [back](Streams::give_back) after they were handled.
pub struct Bytes {
    buffer: Vec<u8>,
    len: usize,
    /// What the framing said of those that were there before.
    pub resume: usize,
    /// When the first of them came.
    pub since: Time,
}

impl Bytes {
    /// The bytes.
    pub fn get(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// The bytes, to be changed in place.
    pub fn get_mut(&mut self) -> &mut [u8] {
        self.buffer.get_mut(..self.len).unwrap_or_default()
    }
}

impl Streams {
    /// A connection, if it is still there.
    pub fn conn(&self, id: ConnId) -> Option<&Conn> {
        self.table.get(id)
    }

    /// Reads once from a connection that has something.
    pub fn read(&mut self, id: ConnId, poller: &Poller, now: Time) -> Read {
        let Some(conn) = self.table.get_mut(id) else { return Read::Nothing };
        // Its earlier input waits for its turn; the kernel keeps the rest, and so does the sender.
        if conn.is_waiting() || conn.state() == State::Connecting {
            return Read::Nothing;
        }
        // The beginning of a message that is there already goes in front, so that what comes need not be
        // copied to it.
        let begun = conn.input().map(Input::unread).and_then(|bytes| {
            let room = self.reading.scratch.get_mut(..bytes.len()).filter(|room| room.len() <= CARRIED)?;
            room.copy_from_slice(bytes);
            Some(bytes.len())
        });
        let carried = begun.unwrap_or(0);
        let room = self.reading.scratch.get_mut(carried..carried + MOST).unwrap_or_default();
        let (held, half_made) = (conn.link().held(), conn.half_made());
        let result = conn.link_mut().read(room, &mut self.reading.layer);
        self.buffers.holds_now(held, conn.link().held());
        if let Some(before) = half_made {
            handshakes::went_on(self, id, before, now);
        }
        self.counters.syscalls.one();
        let took = match result {
            Ok(took) => took,
            Err(error) if is_transient(&error) => return Read::Nothing,
            Err(error) => {
                self.fails(id, &error, now);
                return Read::Nothing;
            }
        };
        self.go_on(id, poller, now);
        taken(self, id, took, begun, poller, now)
    }

    /// What the bytes that came mean for a layer: it may owe an answer, and its handshake may be over.
    fn go_on(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.queue_owed(|| self.buffers.output()) {
            self.send(id, poller, now);
        }
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.link_mut().completes_tls() {
            completed_tls(self, id, now);
        }
        let Some(conn) = self.table.get(id).filter(|conn| conn.state() == State::Handshake) else { return };
        if conn.link().is_ready() {
            self.opened(id, poller, now);
        } else {
            asking::ask(self, id, poller, now);
        }
    }

    /// A read or a write says that the connection is over.
    pub(super) fn fails(&mut self, id: ConnId, error: &io::Error, now: Time) {
        let Some(conn) = self.table.get(id) else { return };
        let of_tls = error.kind() == io::ErrorKind::InvalidData;
        if of_tls {
            self.handshakes.failed(error, (conn.remote(), conn.is_inbound()), &self.counters, now);
        }
        let accepted = conn.link().secure().is_some_and(Secure::is_accepted);
        let refused = conn.state() == State::Handshake || (is_refusal(error) && !accepted);
        if !conn.is_inbound() && refused {
            return self.give_up(id, error, now);
        }
        tracing::debug!(remote = %conn.remote(), %error, "a connection failed");
        self.close(id, if of_tls { Reason::Error } else { reason_of(error) });
    }

    /// The first `len` bytes of the scratch buffer have come, and what was left over is `in_front` of them.
    /// If nothing else waits they are handled where they are; only what is left over is copied. `whole`: they
    /// end a message.
    fn take_up(&mut self, id: ConnId, (in_front, whole): (bool, bool), len: usize, now: Time) -> Read {
        if self.table.get(id).is_none_or(|conn| conn.state() != State::Open) {
            return Read::Nothing; // Closing: read to keep the connection orderly, and dropped.
        }
        let (resume, since) = match self.take_input(id) {
            Some(mut input) if !in_front => {
                input.add(self.reading.scratch.get(..len).unwrap_or_default());
                if whole {
                    input.is_whole();
                }
                return Read::Input(input);
            }
            Some(input) => {
                let begun = (input.resume(), input.since(now));
                self.buffers.recycle_input(input);
                begun
            }
            None => (0, now),
        };
        let resume = if whole { WHOLE } else { resume };
        Read::Bytes(Bytes { buffer: std::mem::take(&mut self.reading.scratch), len, resume, since })
    }

    /// Takes a worker's own buffer back.
    pub fn give_back(&mut self, bytes: Bytes) {
        self.reading.scratch = bytes.buffer;
    }

    /// Leaves bytes with their connection, which came at `since`. `false` if all buffers together would hold
    /// too much: it is the connection that wants to add to them that goes.
    #[must_use]
    pub fn leave(&mut self, id: ConnId, bytes: &[u8], begun: Begun, since: Time) -> bool {
        let mut input = self.buffers.input();
        input.fill(bytes, begun, since);
        self.park(id, input)
    }

    /// Leaves with their connection, of bytes that were left over before, those at `rest`, if there are any.
    /// `false` as for [`Streams::leave`].
    #[must_use]
    pub fn leave_rest(
        &mut self,
        id: ConnId,
        mut input: Box<Input>,
        rest: Range<usize>,
        begun: Begun,
        now: Time,
    ) -> bool {
        input.truncate(rest.end);
        if input.consume(rest.start, begun, now) {
            return self.park(id, input);
        }
        self.buffers.recycle_input(input);
        true
    }

    pub(super) fn park(&mut self, id: ConnId, input: Box<Input>) -> bool {
        let Some(conn) = self.table.get_mut(id) else {
            self.buffers.recycle_input(input);
            return true;
        };
        if self.buffers.lack_room_for(input.held()) {
            self.buffers.recycle_input(input);
            return false;
        }
        self.buffers.hold(input.held());
        conn.set_input(input);
        true
    }

    /// Takes the input that waits at a connection.
    pub fn take_input(&mut self, id: ConnId) -> Option<Box<Input>> {
        let input = self.table.get_mut(id)?.take_input()?;
        self.buffers.let_go(input.held());
        Some(input)
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, input: Option<Box<Input>>) {
        if let Some(input) = input {
            self.buffers.recycle_input(input);
        }
    }

    /// Notes that a whole message has come on a connection, if one has, and sets the deadline that fits what
    /// has been read.
    pub fn has_read(&mut self, id: ConnId, message: bool, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if message {
            conn.has_message();
        }
        if conn.state() == State::Open {
            conn.set_read_deadline(&self.limits, now, message);
            self.arm(id);
        }
    }

    /// A connection's input waits for its next turn; if `ring_full`, only because its owner has no room.
    pub fn wait(&mut self, id: ConnId, ring_full: bool, poller: &Poller) {
        // Later messages must wait for it, so the kernel keeps them in their own socket.
        if !sharing::stands_alone(self, id, poller) {
            return;
        }
        if self.table.get_mut(id).is_some_and(|conn| conn.wait()) {
            self.reading.turns.ready.push_back(id);
        }
        self.reading.turns.ring_full |= ring_full;
    }

    /// Connections whose input waits for its turn.
    pub fn turns(&mut self) -> &mut Turns {
        &mut self.reading.turns
    }

    /// The next connection that waits for its turn, and its input; `None` within if there is none any more.
    pub fn next_turn(&mut self) -> Option<(ConnId, Option<Box<Input>>)> {
        let id = self.reading.turns.ready.pop_front()?;
        if let Some(conn) = self.table.get_mut(id) {
            conn.wait_no_more();
        }
        Some((id, self.take_input(id)))
    }
}

/// The handshake of TLS is over.
fn completed_tls(streams: &mut Streams, id: ConnId, now: Time) {
    let Some(conn) = streams.table.get_mut(id) else { return };
    streams.counters.tls_handshakes.one();
    if !conn.is_inbound() {
        streams.counters.tls_connect_us.add(conn.age(now).as_micros() as u64);
        streams.counters.tls_resumed_servers.add(u64::from(conn.link().is_resumed()));
        return;
    }
    // The first message has its own time, or a request of WebSocket before it.
    conn.starts_time(&streams.limits, now);
    streams.arm(id);
}

/// The result of a read of a connection, after bytes that were left from earlier reads.
pub(super) fn taken(
    streams: &mut Streams,
    id: ConnId,
    took: Took,
    begun: Option<usize>,
    poller: &Poller,
    now: Time,
) -> Read {
    let carried = begun.unwrap_or(0);
    match took {
        Took::Ended => streams.ended(id, poller, now),
        Took::Nothing if streams.buffers.lack_room_for(0) => streams.close(id, Reason::Slow),
        Took::Nothing if streams.table.get(id).is_some_and(|conn| conn.link().peer_closed()) => {
            streams.ended(id, poller, now)
        }
        Took::Nothing => {}
        Took::Abandoned => {
            let begun = streams.take_input(id);
            streams.recycle(begun);
            streams.has_read(id, false, now);
        }
        Took::PathLost => streams.counters.sctp_paths_lost.one(),
        Took::Restarted => sharing::restart(streams, id, poller, now),
        Took::Bytes(n) | Took::Last(n) => {
            streams.counters.tcp_bytes_in.add(n as u64);
            let secure = streams.table.get(id).is_some_and(|conn| conn.link().transport().is_secure());
            streams.counters.tls_bytes_in.add(if secure { n as u64 } else { 0 });
            let whole = matches!(took, Took::Last(_));
            let read = match streams.table.get(id).is_some_and(|conn| conn.link().awaits_request()) {
                true => streams.greet(id, carried..carried + n, poller, now),
                false => streams.take_up(id, (begun.is_some(), whole), carried + n, now),
            };
            let Some(conn) = streams.table.get(id) else { return read };
            match conn.link().secure() {
                Some(secure) if secure.is_broken() => streams.reading.turns.broken.push(id),
                Some(secure) if secure.peer_closed() && conn.is_useful() => streams.ended(id, poller, now),
                _ => {}
            }
            return read;
        }
    }
    Read::Nothing
}
