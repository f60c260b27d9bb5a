//! Bytes received and not consumed.

use std::time::Duration;
use wire::Time;

/// Stands for what the framing wants back where the socket keeps the boundaries of messages: the message is
/// complete.
pub const WHOLE: usize = usize::MAX;

/// What the machine's framing said of bytes that are left over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begun {
    /// What it wants back when it is asked again about the same message.
    pub resume: usize,
    /// Whether a message has begun, rather than a keepalive at most.
    pub message: bool,
}

/// Bytes received and not yet consumed. A buffer of a pool.
#[derive(Default)]
pub struct Input {
    /// The bytes, those before `start` consumed.
    bytes: Vec<u8>,
    /// First byte not consumed.
    start: usize,
    /// What the machine's framing wants back when it is asked again about the same message.
    resume: usize,
    /// Whether a message has begun, rather than a keepalive at most.
    begun: bool,
    /// When the first byte of the message came that has begun.
    since: Time,
}

impl Input {
    /// The bytes not consumed.
    pub fn unread(&self) -> &[u8] {
        let unread = self.bytes.get(self.start..);
        invariant::some!(unread, "consumed bytes were in the buffer").unwrap_or_default()
    }

    /// The bytes not consumed, to be changed in place.
    pub fn unread_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    /// Of the bytes not consumed, only the first `len` remain.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(self.start + len);
    }

    /// Bytes that it holds, consumed or not.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that it has room for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// What the framing wants back about the bytes not consumed.
    pub fn resume(&self) -> usize {
        self.resume
    }

    /// When the first of the bytes not consumed came that begin a message; `now` if none is begun.
    pub fn since(&self, now: Time) -> Time {
        if self.begun { self.since } else { now }
    }

    /// Whether a message has begun.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// The bytes not consumed are a [`WHOLE`] message.
    pub fn is_whole(&mut self) {
        self.resume = WHOLE;
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
        self.resume = 0;
        self.begun = false;
    }

    /// Adds bytes that have come, and drops those consumed.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Fills an empty one with what is left over, the first of which came at `since`.
    pub fn fill(&mut self, bytes: &[u8], begun: Begun, since: Time) {
        self.bytes.extend_from_slice(bytes);
        (self.resume, self.begun, self.since) = (begun.resume, begun.message, since);
    }

    /// Notes that `bytes` more are consumed, and what the framing said of the rest. Whether any are
    /// left.
    pub fn consume(&mut self, bytes: usize, begun: Begun, now: Time) -> bool {
        if bytes > 0 || !self.begun {
            self.since = now;
        }
        self.start += bytes;
        (self.resume, self.begun) = (begun.resume, begun.message);
        self.start < self.bytes.len()
    }

    /// When the message that has begun must have ended, if one has: after this time, and a second for each
    /// `rate` bytes of it.
    pub fn must_end(&self, time: Duration, rate: u32) -> Option<Time> {
        let seconds = self.unread().len() as u64 / u64::from(rate.max(1));
        self.begun.then(|| self.since + time + Duration::from_secs(seconds))
    }
}
