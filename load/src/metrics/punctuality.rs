//! How punctual the generator itself was.

use super::hist::Hist;

/// How late what was scheduled in the measured window was, and what waited at a wake.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Punctuality {
    /// Microseconds.
    lateness: Hist,
    /// Those of starts alone.
    starts: Hist,
    /// Messages due at a wake.
    queue: Hist,
}

impl Punctuality {
    /// Lateness of everything scheduled: what is sent when it is due, and what has come.
    pub fn lateness(&self) -> &Hist {
        &self.lateness
    }

    /// Of that, the starts of calls and registrations. Each call has one start and several other times, so
    /// that lateness which hits starts alone hardly shows among all.
    pub fn starts(&self) -> &Hist {
        &self.starts
    }

    /// Lengths of the send queue, in messages.
    pub fn queue(&self) -> &Hist {
        &self.queue
    }

    /// Something was sent so late, microseconds.
    #[inline]
    pub(super) fn sent(&mut self, late: u64) {
        self.lateness.record(late);
    }

    /// What was sent was the first request of a call or a registration.
    #[inline]
    pub(super) fn started(&mut self, late: u64) {
        self.starts.record(late);
    }

    /// A number of calls was left out, each after this wait.
    pub(super) fn left_out(&mut self, late: u64, calls: u64) {
        self.lateness.record_times(late, calls);
        self.starts.record_times(late, calls);
    }

    /// Messages were due when a worker woke.
    #[inline]
    pub(super) fn queued(&mut self, messages: u64) {
        self.queue.record(messages);
    }

    pub(super) fn merge(&mut self, other: &Punctuality) {
        self.lateness.merge(&other.lateness);
        self.starts.merge(&other.starts);
        self.queue.merge(&other.queue);
    }
}
