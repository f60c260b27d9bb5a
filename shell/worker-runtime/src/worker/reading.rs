//! Reading streams: bytes to messages, a bounded number at a time.

use super::Worker;
use super::host::Host;
use crate::transport::stream::{Begun, Bytes, Input, Read, Reason};
use wire::{ConnId, Flow, Frame, FrameError, Machine};

/// Why the digestion of a buffer stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nothing is left, or only the beginning of a message.
    Hungry,
    /// Others are to have their turn.
    Budget,
    /// The owner of the next message has no room for it.
    RingFull,
    /// The stream cannot be followed; its next bytes, so many, may be answered.
    Broken(usize, FrameError),
}

/// What the digestion of a buffer did.
struct Digest {
    /// Bytes that are done with.
    consumed: usize,
    /// What the framing said of the bytes after those.
    begun: Begun,
    /// Whether a whole message was among them.
    message: bool,
    stop: Stop,
}

impl<H: Host> Worker<H> {
    /// Reads once from a connection that has something.
    pub(super) fn read_stream(&mut self, id: ConnId) {
        match self.streams.read(id, &self.poller, self.driver.now()) {
            Read::Nothing => {}
            Read::Bytes(bytes) => {
                self.handle(id, &bytes);
                self.streams.give_back(bytes);
            }
            Read::Input(input) => self.digest_input(id, input),
        }
    }

    /// Handles bytes where they are. What is left over is copied.
    fn handle(&mut self, id: ConnId, bytes: &Bytes) {
        let digest = self.digest(id, bytes.get(), bytes.resume);
        let rest = bytes.get().get(digest.consumed..);
        let rest = invariant::some!(rest, "consumed bytes were in the buffer").unwrap_or_default();
        let since = if digest.consumed > 0 { self.driver.now() } else { bytes.since };
        let kept = rest.is_empty() || self.streams.leave(id, rest, digest.begun, since);
        self.digested(id, digest, kept);
    }

    /// Handles input that was left over before, and leaves with the connection what is again.
    fn digest_input(&mut self, id: ConnId, input: Box<Input>) {
        let digest = self.digest(id, input.unread(), input.resume());
        let now = self.driver.now();
        let kept = self.streams.leave_rest(id, input, digest.consumed, digest.begun, now);
        self.digested(id, digest, kept);
    }

    /// Hands the messages in `bytes` on, until they end or the budget does.
    fn digest(&mut self, id: ConnId, bytes: &[u8], resume: usize) -> Digest {
        let begun = Begun { resume, message: false };
        let mut done = Digest { consumed: 0, begun, message: false, stop: Stop::Hungry };
        let Some(flow) = self.streams.flow(id) else { return done };
        for _ in 0..self.work_budget {
            let rest = bytes.get(done.consumed..).unwrap_or_default();
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
                Frame::Skip { len } => done.consumed += len.clamp(1, rest.len()),
                Frame::Ping { len, pong } => {
                    done.consumed += len.clamp(1, rest.len());
                    self.streams.pong(id, pong, &self.poller, self.driver.now());
                }
                Frame::Message { skip, len } => match self.message(flow, rest, skip, len) {
                    Ok(()) => {
                        done.message = true;
                        done.consumed += skip + len;
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
        if done.consumed < bytes.len() {
            done.stop = Stop::Budget;
        }
        done
    }

    /// Hands on one message of `len` bytes at `skip`.
    fn message(&mut self, flow: Flow, rest: &[u8], skip: usize, len: usize) -> Result<(), Stop> {
        let message = rest.get(skip..).and_then(|bytes| bytes.get(..len)).filter(|m| !m.is_empty());
        let Some(message) = invariant::some!(message, "a frame lies within its buffer") else {
            return Err(Stop::Broken(0, FrameError::NotAMessage));
        };
        if self.driver.offer(flow, message) { Ok(()) } else { Err(Stop::RingFull) }
    }

    /// Acts on the outcome of a digestion; the input has been put back, unless it is not `kept` because there
    /// is no room.
    fn digested(&mut self, id: ConnId, digest: Digest, kept: bool) {
        if digest.message {
            self.streams.has_message(id);
        }
        if matches!(digest.stop, Stop::Budget | Stop::RingFull) {
            self.streams.wait(id, digest.stop == Stop::RingFull);
        }
        if let Stop::Broken(head, error) = digest.stop {
            self.refuse(id, head, error);
        } else {
            self.streams.set_read_deadline(id, digest.message, self.driver.now());
        }
        self.dispatch();
        match self.streams.is_useful(id) {
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
        let Some(flow) = self.streams.flow(id) else { return };
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
        for _ in 0..self.streams.begin_turns() {
            let Some((id, input)) = self.streams.next_turn() else { return };
            if let Some(input) = input {
                self.digest_input(id, input);
            }
        }
    }
}
