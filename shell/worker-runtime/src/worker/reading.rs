//! Reading streams: bytes to messages, a bounded number at a time.

use super::Worker;
use super::datagrams::Sink;
use crate::streams::{CHUNK, Input, Reason, State, is_transient, reason_of};
use crate::sys;
use std::os::fd::AsFd;
use wire::{ConnId, Flow, Frame, FrameError, Machine, Time};

/// Bytes asked for in one system call: about as many messages as one connection has handled in a turn.
const READ: usize = 32 << 10;
/// Bytes left over that are put in front of what is read next; of more, it is put behind them.
const CARRIED: usize = 4 << 10;
const _: () = assert!(READ + CARRIED <= CHUNK);

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
    /// What the framing wants back about the bytes after those.
    resume: usize,
    /// Whether they begin a message.
    begun: bool,
    /// Whether a whole message was among them.
    message: bool,
    stop: Stop,
}

impl<M: Machine> Worker<M> {
    /// Reads once from a connection that has something.
    pub(super) fn read_stream(&mut self, id: ConnId) {
        let Some(conn) = self.streams.get(id) else { return };
        // Its earlier input waits for its turn; the kernel keeps the rest, and so does the sender.
        if conn.waiting || conn.state == State::Connecting {
            return;
        }
        let mut scratch = std::mem::take(&mut self.streams.scratch);
        // The beginning of a message that is there already goes in front, so that what comes need not be
        // copied to it.
        let begun = self.streams.get(id).and_then(|conn| conn.input.as_ref()).and_then(|input| {
            let bytes = input.unread();
            let room = scratch.get_mut(..bytes.len()).filter(|room| room.len() <= CARRIED)?;
            room.copy_from_slice(bytes);
            Some(bytes.len())
        });
        let carried = begun.unwrap_or(0);
        let room = scratch.get_mut(carried..carried + READ).unwrap_or_default();
        let result = self.streams.get(id).map(|conn| sys::recv(conn.fd.as_fd(), room));
        self.counters.syscalls.one();
        match result {
            Some(Ok(0)) => self.streams.ended(id, &self.poller, self.now),
            Some(Ok(n)) => {
                self.counters.tcp_bytes_in.add(n as u64);
                let bytes = scratch.get(..carried + n).unwrap_or_default();
                match begun {
                    Some(_) => self.go_on(id, bytes),
                    None => self.feed(id, bytes),
                }
            }
            Some(Err(error)) if is_transient(&error) => {}
            Some(Err(error)) => self.streams.close(id, reason_of(&error)),
            None => {}
        }
        self.streams.scratch = scratch;
    }

    /// Bytes that have come. If nothing waits already they are handled where they are; only what
    /// is left over is copied.
    fn feed(&mut self, id: ConnId, bytes: &[u8]) {
        let now = self.now;
        let Some(conn) = self.streams.get(id) else { return };
        if conn.state != State::Open {
            return; // Closing: read to keep the connection orderly, and dropped.
        }
        let Some(mut input) = self.streams.unpark(id) else { return self.handle(id, bytes, 0, now) };
        input.bytes.drain(..input.start);
        input.start = 0;
        input.bytes.extend_from_slice(bytes);
        self.digest_input(id, input);
    }

    /// Bytes that have come, behind those that waited.
    fn go_on(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.streams.get(id) else { return };
        if conn.state != State::Open {
            return;
        }
        let Some(input) = self.streams.unpark(id) else { return };
        let (resume, since) = (input.resume, if input.begun { input.since } else { self.now });
        self.streams.recycle(Some(input));
        self.handle(id, bytes, resume, since);
    }

    /// Handles bytes where they are. The first of them came at `since`, and the framing said `resume` of what
    /// there was then. What is left over is copied.
    fn handle(&mut self, id: ConnId, bytes: &[u8], resume: usize, since: Time) {
        let digest = self.digest(id, bytes, resume);
        let rest = bytes.get(digest.consumed..).unwrap_or_default();
        let mut kept = true;
        if !rest.is_empty() {
            let mut input = self.streams.take_input();
            input.bytes.extend_from_slice(rest);
            input.resume = digest.resume;
            input.begun = digest.begun;
            input.since = if digest.consumed > 0 { self.now } else { since };
            kept = self.streams.park(id, input);
        }
        self.digested(id, digest, kept);
    }

    /// Handles input that was left over before, and leaves with the connection what is again.
    fn digest_input(&mut self, id: ConnId, mut input: Box<Input>) {
        let digest = self.digest(id, input.bytes.get(input.start..).unwrap_or_default(), input.resume);
        if digest.consumed > 0 || !input.begun {
            input.since = self.now;
        }
        input.start += digest.consumed;
        input.resume = digest.resume;
        input.begun = digest.begun;
        let mut kept = true;
        if input.start >= input.bytes.len() {
            self.streams.recycle(Some(input));
        } else {
            kept = self.streams.park(id, input);
        }
        self.digested(id, digest, kept);
    }

    /// Hands the messages in `bytes` on, until they end or the budget does.
    fn digest(&mut self, id: ConnId, bytes: &[u8], resume: usize) -> Digest {
        let mut done = Digest { consumed: 0, resume, begun: false, message: false, stop: Stop::Hungry };
        let Some(flow) = self.streams.get(id).map(|conn| conn.flow(id)) else { return done };
        for _ in 0..self.work_budget {
            let rest = bytes.get(done.consumed..).unwrap_or_default();
            if rest.is_empty() {
                return done;
            }
            match self.machine.frame(rest, done.resume) {
                Frame::Idle | Frame::Partial { .. } if rest.len() > self.max_message => {
                    done.stop = Stop::Broken(0, FrameError::BodyTooLong);
                    return done;
                }
                Frame::Idle => return Digest { resume: 0, ..done },
                Frame::Partial { resume } => return Digest { resume, begun: true, ..done },
                Frame::Skip { len } => done.consumed += len.clamp(1, rest.len()),
                Frame::Ping { len } => {
                    done.consumed += len.clamp(1, rest.len());
                    self.streams.pong(id, &self.poller, self.now);
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
            done.resume = 0;
        }
        if done.consumed < bytes.len() {
            done.stop = Stop::Budget;
        }
        done
    }

    /// Hands on one message of `len` bytes at `skip`.
    fn message(&mut self, flow: Flow, rest: &[u8], skip: usize, len: usize) -> Result<(), Stop> {
        let message = rest.get(skip..).and_then(|bytes| bytes.get(..len)).filter(|m| !m.is_empty());
        // A machine that says more than there is would be followed past the end.
        let Some(message) = message else { return Err(Stop::Broken(0, FrameError::NotAMessage)) };
        let Worker { machine, links, out, counters, now, .. } = self;
        let mut sink = Sink { machine, links, out, counters, now: *now, stamped: false, steered: false };
        if !sink.offer(flow, message) {
            return Err(Stop::RingFull);
        }
        self.counters.tcp_messages_in.one();
        Ok(())
    }

    /// Acts on the outcome of a digestion; the input has been put back, unless it is not `kept` because there
    /// is no room.
    fn digested(&mut self, id: ConnId, digest: Digest, kept: bool) {
        if let Some(conn) = self.streams.get_mut(id) {
            conn.useful |= digest.message;
            if matches!(digest.stop, Stop::Budget | Stop::RingFull) && !conn.waiting {
                conn.waiting = true;
                self.streams.ready.push_back(id);
            }
        }
        self.ring_full |= digest.stop == Stop::RingFull;
        if let Stop::Broken(head, error) = digest.stop {
            self.refuse(id, head, error);
        } else {
            self.streams.set_read_deadline(id, digest.message, self.now);
        }
        self.dispatch();
        match self.streams.get(id) {
            Some(conn) if !kept && conn.useful => {
                self.end_round();
                self.streams.close_gently(id, Reason::Slow, &self.poller, self.now);
            }
            Some(_) if !kept => self.streams.close(id, Reason::Slow),
            _ => {}
        }
    }

    /// Lets the machine answer a stream that cannot be followed, and ends it.
    fn refuse(&mut self, id: ConnId, head: usize, error: FrameError) {
        let Some(flow) = self.streams.get(id).map(|conn| conn.flow(id)) else { return };
        // What broke the stream was left over, so it is in the connection's buffer.
        let input = self.streams.unpark(id);
        let bytes = input.as_ref().and_then(|i| i.bytes.get(i.start..)?.get(..head)).unwrap_or_default();
        // What was valid before it is answered before the end.
        self.machine.round_ends(self.now, &mut self.out);
        self.machine.refuse(self.now, flow, bytes, error, &mut self.out);
        self.streams.recycle(input);
        self.dispatch();
        self.streams.close_gently(id, Reason::Broken, &self.poller, self.now);
    }

    /// Gives connections with input left over their next turn, each once.
    pub(super) fn take_ready(&mut self) {
        self.ring_full = false;
        for _ in 0..self.streams.ready.len() {
            let Some(id) = self.streams.ready.pop_front() else { return };
            if let Some(conn) = self.streams.get_mut(id) {
                conn.waiting = false;
            }
            if let Some(input) = self.streams.unpark(id) {
                self.digest_input(id, input);
            }
        }
    }
}
