//! Reading from connections, and the bytes of theirs that are left over.

use super::dial::is_refusal;
use super::input::{Begun, Input};
use super::phase::{Reason, State};
use super::secure::{MOST, Took};
use super::{Streams, reason_of};
use crate::sys::{Poller, is_transient};
use std::collections::VecDeque;
use std::io;
use wire::{ConnId, Flow, Time};

/// Bytes left over that are put in front of what is read next; of more, it is put behind them.
const CARRIED: usize = 4 << 10;

/// What a worker keeps for reading from its connections.
pub(super) struct Reading {
    /// Room for one read.
    scratch: Vec<u8>,
    /// Room for a layer's own bytes, while it reads or writes.
    pub layer: Vec<u8>,
    /// Connections whose input waits for their next turn.
    ready: VecDeque<ConnId>,
    /// Some input is left over only because another worker's ring is full.
    ring_full: bool,
}

impl Reading {
    /// Nothing is left over.
    pub fn new() -> Reading {
        let scratch = vec![0; MOST + CARRIED];
        Reading { scratch, layer: Vec::new(), ready: VecDeque::new(), ring_full: false }
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
}

impl Streams {
    /// Whether a connection has ended so far that nothing is read from it any more. `None`: it is gone.
    pub fn has_ended(&self, id: ConnId) -> Option<bool> {
        self.table.get(id).map(|conn| matches!(conn.state(), State::HalfClosed | State::Ending))
    }

    /// The flow of a connection's messages.
    pub fn flow(&self, id: ConnId) -> Option<Flow> {
        self.table.get(id).map(|conn| conn.flow(id))
    }

    /// Whether a message ever came on a connection, or we opened it. `None`: it is gone.
    pub fn is_useful(&self, id: ConnId) -> Option<bool> {
        self.table.get(id).map(|conn| conn.is_useful())
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
        let result = conn.read(room, &mut self.reading.layer);
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
        match took {
            Took::Ended => self.ended(id, poller, now),
            Took::Nothing => {}
            Took::Bytes(n) => {
                self.counters.tcp_bytes_in.add(n as u64);
                let read = self.take_up(id, begun.is_some(), carried + n, now);
                if self.table.get(id).is_some_and(|conn| conn.peer_closed() && conn.is_useful()) {
                    self.ended(id, poller, now);
                }
                return read;
            }
        }
        Read::Nothing
    }

    /// What the bytes that came mean for a layer: it may owe an answer, and its handshake may be over.
    fn go_on(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.queue_owed(|| self.buffers.output()) {
            self.send(id, poller, now);
        }
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.state() == State::Handshake && conn.is_ready() {
            self.counters.tls_handshakes.one();
            self.opened(id, poller, now);
        }
    }

    /// A read or a write says that the connection is over.
    pub(super) fn fails(&mut self, id: ConnId, error: &io::Error, now: Time) {
        let Some(conn) = self.table.get(id) else { return };
        let of_tls = error.kind() == io::ErrorKind::InvalidData;
        self.counters.tls_failures.add(u64::from(of_tls));
        if !conn.is_inbound() && (conn.state() == State::Handshake || is_refusal(error)) {
            return self.give_up(id, error, now);
        }
        tracing::debug!(remote = %conn.remote(), %error, "a connection failed");
        self.close(id, if of_tls { Reason::Error } else { reason_of(error) });
    }

    /// The first `len` bytes of the scratch buffer have come, and what was left over is `in_front` of them.
    /// If nothing else waits they are handled where they are; only what is left over is copied.
    fn take_up(&mut self, id: ConnId, in_front: bool, len: usize, now: Time) -> Read {
        if self.table.get(id).is_none_or(|conn| conn.state() != State::Open) {
            return Read::Nothing; // Closing: read to keep the connection orderly, and dropped.
        }
        let (resume, since) = match self.take_input(id) {
            Some(mut input) if !in_front => {
                input.add(self.reading.scratch.get(..len).unwrap_or_default());
                return Read::Input(input);
            }
            Some(input) => {
                let begun = (input.resume(), input.since(now));
                self.buffers.recycle_input(input);
                begun
            }
            None => (0, now),
        };
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

    /// Leaves with their connection, of bytes that were left over before, those after the first `consumed`,
    /// if there are any. `false` as for [`Streams::leave`].
    #[must_use]
    pub fn leave_rest(
        &mut self,
        id: ConnId,
        mut input: Box<Input>,
        consumed: usize,
        begun: Begun,
        now: Time,
    ) -> bool {
        if input.consume(consumed, begun, now) {
            return self.park(id, input);
        }
        self.buffers.recycle_input(input);
        true
    }

    fn park(&mut self, id: ConnId, input: Box<Input>) -> bool {
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

    /// Forgets the input that waits at a connection.
    pub(super) fn drop_input(&mut self, id: ConnId) {
        let input = self.take_input(id);
        self.recycle(input);
    }

    /// A whole message has come on a connection.
    pub fn has_message(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.has_message();
        }
    }

    /// Sets the deadline that fits what has been read; `message`: a whole one was.
    pub fn set_read_deadline(&mut self, id: ConnId, message: bool, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.state() == State::Open {
            conn.set_read_deadline(&self.limits, now, message);
            self.arm(id);
        }
    }

    /// A connection's input waits for its next turn; if `ring_full`, only because its owner has no room.
    pub fn wait(&mut self, id: ConnId, ring_full: bool) {
        if self.table.get_mut(id).is_some_and(|conn| conn.wait()) {
            self.reading.ready.push_back(id);
        }
        self.reading.ring_full |= ring_full;
    }

    /// How many connections wait for their turn. To be called when it has come.
    pub fn begin_turns(&mut self) -> usize {
        self.reading.ring_full = false;
        self.reading.ready.len()
    }

    /// The next connection that waits for its turn, and its input; `None` within if there is none any more.
    pub fn next_turn(&mut self) -> Option<(ConnId, Option<Box<Input>>)> {
        let id = self.reading.ready.pop_front()?;
        if let Some(conn) = self.table.get_mut(id) {
            conn.wait_no_more();
        }
        Some((id, self.take_input(id)))
    }

    /// Whether input waits for its turn which can be handled now.
    pub fn has_turns(&self) -> bool {
        !self.reading.ready.is_empty() && !self.reading.ring_full
    }

    /// Whether input waits only because another worker's ring is full.
    pub fn waits_for_ring(&self) -> bool {
        self.reading.ring_full
    }
}
