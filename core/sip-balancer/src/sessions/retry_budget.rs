//! How many INVITEs may leave nodes that ignore them and answer what came later.
//!
//! Where one of a node's threads hangs, that saves calls. Where all nodes are overloaded and drop what they
//! cannot do, each of these INVITEs would be sent to one node after the other, and make the overload worse.
//! So they are a part of the calls that come: with a quarter more nobody is brought down.

use wire::Time;

/// Moves that may be made at once after a quiet time.
const MOST: u32 = 20;
/// New calls for one move.
const CALLS: u32 = 4;

/// What one worker may move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryBudget {
    /// Moves left, times [`CALLS`].
    left: u32,
    /// One more each second, since then.
    since: Time,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { left: MOST * CALLS, since: Time::ZERO }
    }
}

impl RetryBudget {
    /// A new call came.
    pub fn earn(&mut self) {
        self.left = (self.left + 1).min(MOST * CALLS);
    }

    /// Whether one more may be moved; then it is.
    pub fn spend(&mut self, now: Time) -> bool {
        let seconds = now.since(self.since).as_secs();
        if seconds > 0 {
            self.since = now;
            let more = u32::try_from(seconds).unwrap_or(MOST).min(MOST) * CALLS;
            self.left = (self.left + more).min(MOST * CALLS);
        }
        let enough = self.left >= CALLS;
        self.left -= if enough { CALLS } else { 0 };
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_quarter_of_the_calls_and_one_a_second_may_be_moved() {
        let (mut budget, now) = (RetryBudget::default(), Time::from_secs(100));
        let spend = |budget: &mut RetryBudget, now| (0..1_000).filter(|_| budget.spend(now)).count();
        assert_eq!(spend(&mut budget, now), 20);
        (0..40).for_each(|_| budget.earn());
        assert_eq!(spend(&mut budget, now), 10);
        assert_eq!(spend(&mut budget, now + Duration::from_secs(3)), 3);
        assert_eq!(spend(&mut budget, now + Duration::from_secs(3_600)), 20);
    }
}
