//! Reading streams: bytes to messages, a bounded number at a time.

use super::Worker;
use super::host::Host;
use crate::monotonic_now;
use crate::transport::stream::{Begun, Bytes, Conn, End, Input, Read, Reason, WHOLE, end_broken, handshakes};
use std::ops::Range;
use std::time::Duration;
use wire::{ConnId, Flow, Frame, FrameError, Machine, Transport};

/// Why the digestion of a buffer stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nothing is left, or only the beginning of a message.
    Hungry,
    /// Others are to have their turn.
    Budget,
    /// The owner of the next message has no room for it.
    RingFull,
    /// The stream cannot be followed; its next bytes, so many, may be answered.
    Broken(usize, FrameError),
    /// The frames of WebSocket end the connection.
    Ends(End),
}

/// What the digestion of a buffer did.
pub(super) struct Digest {
    /// Bytes that are not done with.
    pub rest: Range<usize>,
    /// What the framing said of them.
    pub begun: Begun,
    /// Whether a whole message was among those that are.
    pub message: bool,
    pub stop: Stop,
}

impl<H: Host> Worker<H> {
    /// Reads once from a connection that has something.
    pub(super) fn read_stream(&mut self, id: ConnId) {
        let read = self.streams.read(id, &self.poller, self.driver.now());
        self.introduce();
        self.take_read(id, read);
    }

    /// Handles what was read from a connection.
    pub(super) fn take_read(&mut self, id: ConnId, read: Read) {
        match read {
            Read::Nothing => {}
            Read::Bytes(mut bytes) => {
                self.handle(id, &mut bytes);
                self.streams.give_back(bytes);
            }
            Read::Input(input) => self.digest_input(id, input),
        }
    }

    /// Lets clients go on with their handshakes, for a time that leaves the most to calls. Those that are
    /// left over have their turn in the next round.
    pub(super) fn take_handshakes(&mut self) {
        if !handshakes::wait(&self.streams) {
            return;
        }
        let began = monotonic_now();
        let rest = began.since(self.driver.now());
        let budget = handshakes::budget(rest);
        let mut spent = Duration::ZERO;
        for done in 1u32.. {
            let Some(id) = handshakes::next(&mut self.streams, &self.poller, began) else { break };
            self.read_stream(id);
            spent = monotonic_now().since(began);
            // Another one would exceed it, if it costs what those before did.
            if spent + spent / done > budget {
                break;
            }
        }
        handshakes::mute(&mut self.streams, &self.poller);
        self.sleep.spent_on_handshakes(spent, rest);
        self.counters.tls_busy_us.add(spent.as_micros() as u64);
        self.end_round();
        self.settle();
    }

    /// Handles bytes where they are. What is left over is copied.
    fn handle(&mut self, id: ConnId, bytes: &mut Bytes) {
        let resume = bytes.resume;
        let digest = self.digest(id, bytes.get_mut(), resume);
        let rest = bytes.get().get(digest.rest.clone());
        let rest = invariant::some!(rest, "consumed bytes were in the buffer").unwrap_or_default();
        let since = if digest.rest.start > 0 { self.driver.now() } else { bytes.since };
        let kept = rest.is_empty() || self.streams.leave(id, rest, digest.begun, since);
        self.digested(id, digest, kept);
    }

    /// Handles input that was left over before, and leaves with the connection what is again.
    fn digest_input(&mut self, id: ConnId, mut input: Box<Input>) {
        let resume = input.resume();
        let digest = self.digest(id, input.unread_mut(), resume);
        let now = self.driver.now();
        let kept = self.streams.leave_rest(id, input, digest.rest.clone(), digest.begun, now);
        self.digested(id, digest, kept);
    }

    /// Hands the messages in `bytes` on, until they end or the budget does.
    fn digest(&mut self, id: ConnId, bytes: &mut [u8], resume: usize) -> Digest {
        let begun = Begun { resume, message: false };
        let mut done = Digest { rest: 0..bytes.len(), begun, message: false, stop: Stop::Hungry };
        let Some(flow) = self.streams.conn(id).map(|conn| conn.flow(id)) else { return done };
        if flow.transport == Transport::Sctp {
            return self.digest_record(id, flow, bytes, resume == WHOLE);
        }
        if flow.transport.keeps_boundaries() {
            return self.digest_frames(id, flow, bytes);
        }
        for _ in 0..self.work_budget {
            let rest = bytes.get(done.rest.clone()).unwrap_or_default();
            if rest.is_empty() {
                return done;
            }
            match self.driver.machine().frame(flow.transport, rest, done.begun.resume) {
                Frame::Idle | Frame::Partial { .. } if rest.len() > self.max_message => {
                    done.stop = Stop::Broken(0, FrameError::BodyTooLong);
                    return done;
                }
                Frame::Idle => return Digest { begun: Begun { resume: 0, message: false }, ..done },
                Frame::Partial { resume } => {
                    return Digest { begun: Begun { resume, message: true }, ..done };
                }
                Frame::Skip { len } => done.rest.start += len.clamp(1, rest.len()),
                Frame::Ping { len, pong } => {
                    done.rest.start += len.clamp(1, rest.len());
                    self.streams.pong(id, pong, &self.poller, self.driver.now());
                }
                Frame::Message { skip, len } => match self.message(flow, rest, skip, len) {
                    Ok(()) => {
                        done.message = true;
                        done.rest.start += skip + len;
                    }
                    Err(stop) => {
                        done.stop = stop;
                        return done;
                    }
                },
                Frame::Broken { len, error } => {
                    done.stop = Stop::Broken(len.min(rest.len()), error);
                    return done;
                }
            }
            done.begun.resume = 0;
        }
        if !done.rest.is_empty() {
            done.stop = Stop::Budget;
        }
        done
    }

    /// Hands on one message of `len` bytes at `skip`.
    pub(super) fn message(&mut self, flow: Flow, rest: &[u8], skip: usize, len: usize) -> Result<(), Stop> {
        let message = rest.get(skip..).and_then(|bytes| bytes.get(..len)).filter(|m| !m.is_empty());
        let Some(message) = invariant::some!(message, "a frame lies within its buffer") else {
            return Err(Stop::Broken(0, FrameError::NotAMessage));
        };
        if self.driver.offer(flow, message) { Ok(()) } else { Err(Stop::RingFull) }
    }

    /// Acts on the outcome of a digestion; the input has been put back, unless it is not `kept` because there
    /// is no room.
    fn digested(&mut self, id: ConnId, digest: Digest, kept: bool) {
        if matches!(digest.stop, Stop::Budget | Stop::RingFull) {
            self.streams.wait(id, digest.stop == Stop::RingFull, &self.poller);
        }
        self.streams.has_read(id, digest.message, self.driver.now());
        match digest.stop {
            Stop::Broken(head, error) => self.refuse(id, head, error),
            Stop::Ends(end) => self.end_web(id, end),
            Stop::Hungry | Stop::Budget | Stop::RingFull => {}
        }
        self.dispatch();
        match self.streams.conn(id).map(Conn::is_useful) {
            Some(true) if !kept => {
                self.end_round();
                self.streams.close_gently(id, Reason::Slow, &self.poller, self.driver.now());
            }
            Some(false) if !kept => self.streams.close(id, Reason::Slow),
            _ => {}
        }
    }

    /// Lets the machine answer a stream that cannot be followed, and ends it.
    fn refuse(&mut self, id: ConnId, head: usize, error: FrameError) {
        let Some(flow) = self.streams.conn(id).map(|conn| conn.flow(id)) else { return };
        // What broke the stream was left over, so it is in the connection's buffer.
        let input = self.streams.take_input(id);
        let bytes = input.as_ref().and_then(|input| input.unread().get(..head)).unwrap_or_default();
        self.driver.drive(|machine, now, out| {
            // What was valid before it is answered before the end.
            machine.round_ends(now, out);
            machine.refuse(now, flow, bytes, error, out);
        });
        self.streams.recycle(input);
        self.dispatch();
        self.streams.close_gently(id, Reason::Broken, &self.poller, self.driver.now());
    }

    /// Gives connections with input left over their next turn, each once.
    pub(super) fn take_ready(&mut self) {
        for _ in 0..self.streams.turns().begin() {
            let Some((id, input)) = self.streams.next_turn() else { break };
            if let Some(input) = input {
                self.digest_input(id, input);
            }
        }
        end_broken(&mut self.streams, self.driver.now());
    }
}
