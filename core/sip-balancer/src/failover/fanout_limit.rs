//! How many CANCELs of unknown INVITEs are sent to nodes.

use core::time::Duration;
use wire::Time;

/// CANCELs of unknown INVITEs that a worker sends to nodes in a second. More are refused with 481.
const MOST: usize = 1_024;
const WINDOW: Duration = Duration::from_secs(1);

/// How many have been sent to nodes in this window.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FanoutLimit {
    since: Time,
    count: usize,
}

impl FanoutLimit {
    /// Whether `more` of them may be sent now. If so they are counted.
    pub fn take(&mut self, now: Time, more: usize) -> bool {
        if now.since(self.since) >= WINDOW {
            *self = FanoutLimit { since: now, count: 0 };
        }
        let fits = self.count + more <= MOST;
        self.count += if fits { more } else { 0 };
        fits
    }
}
