//! What a worker reports.

use crate::clock::Clock;
use crate::counts::Counts;
use crate::ring::Writer;
use call_records::{CallName, Event, What, frame};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Refused calls of strangers that one worker reports at once.
const AT_ONCE: u64 = 256;
/// After that it reports one in this time.
const EACH_MICROS: u64 = 1_000_000;

/// Reports the events of one worker.
#[derive(Debug)]
pub struct Teller {
    ring: Writer,
    bytes: Vec<u8>,
    clock: Clock,
    counts: Arc<Counts>,
    strangers: Allowance,
}

impl Teller {
    pub(crate) fn new(ring: Writer, clock: Clock, counts: Arc<Counts>) -> Teller {
        let strangers = Allowance { left: AT_ONCE, since: clock.now() };
        Teller { ring, bytes: Vec::new(), clock, counts, strangers }
    }

    /// Something happens to a call now. Without a system call; if the ring is full, it is lost and counted.
    /// Calls of strangers have half of the ring, and refused ones are few: a flood of them takes no room from
    /// others, neither here nor in the files of records.
    pub fn tell(&mut self, name: CallName, what: What<'_>) {
        let at = self.clock.now();
        let (skipped, ahead) = match &what {
            What::Refused(..) => (!self.ring.has_room() || !self.strangers.take(at), self.clock.ahead(at)),
            What::Began(began) => {
                let stranger = began.user.is_empty() && began.trunk.is_empty();
                (stranger && !self.ring.has_room(), self.clock.ahead(at))
            }
            _ => (false, 0),
        };
        if skipped {
            self.counts.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.bytes.clear();
        frame::write(&Event { name, at, ahead, what }, &mut self.bytes);
        if !self.ring.append(&self.bytes) {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How many may be reported now.
#[derive(Debug)]
struct Allowance {
    left: u64,
    since: u64,
}

impl Allowance {
    fn take(&mut self, now: u64) -> bool {
        let more = now.saturating_sub(self.since) / EACH_MICROS;
        self.left = self.left.saturating_add(more).min(AT_ONCE);
        self.since = self.since.saturating_add(more.saturating_mul(EACH_MICROS));
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_comes_back_with_time() {
        let mut allowance = Allowance { left: AT_ONCE, since: 5 };
        let taken = |allowance: &mut Allowance, now| (0..1_000).filter(|_| allowance.take(now)).count();
        assert_eq!(taken(&mut allowance, 6), 256);
        assert_eq!(taken(&mut allowance, 999_999), 0);
        assert_eq!(taken(&mut allowance, 3_500_005), 3);
        assert_eq!(taken(&mut allowance, 4_000_005), 1);
        assert_eq!(taken(&mut allowance, u64::MAX), 256);
    }
}
