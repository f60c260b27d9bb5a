//! Calls by users (`-users`): a fixed number of calls at a time. Whose call has ended begins the next.

use super::settings::Users;
use core::time::Duration;
use std::collections::VecDeque;
use wire::Time;

/// Who is to call next.
pub struct Callers {
    plan: Option<Users>,
    /// Who has not called yet: the place of the next one among those of this worker.
    first: u64,
    start: Time,
    /// Who has called, and since when the last call is over.
    ready: VecDeque<(u64, Time)>,
    /// Calls that may still be begun.
    left: u64,
}

impl Users {
    /// Users who begin their first call in a second, over all workers. All at once would be a burst that no
    /// generator sends on time, and hardly a server answers; so large a number comes to a phone system one by
    /// one.
    pub const RATE: u64 = 1_000;

    /// When this worker's user of this place is to begin the first call.
    fn begins(&self, nth: u64, start: Time) -> Time {
        let user = self.numbers.0.saturating_add(nth.saturating_mul(self.numbers.1));
        start + Duration::from_micros(user.saturating_mul(1_000_000 / Users::RATE))
    }
}

impl Callers {
    /// All of them begin within as long as it takes from `start` on.
    pub fn new(plan: Option<Users>, start: Time) -> Callers {
        Callers {
            plan,
            first: 0,
            start,
            ready: VecDeque::new(),
            left: plan.map_or(0, |plan| plan.calls.unwrap_or(u64::MAX)),
        }
    }

    /// Whether calls are made by users.
    pub fn are_there(&self) -> bool {
        self.plan.is_some()
    }

    /// Whether there are users who will call again, now or when the call that they are in has ended.
    pub fn have_more(&self) -> bool {
        self.plan.is_some() && self.left > 0
    }

    /// Who of those that have not called is next, and when.
    fn newcomer(&self) -> Option<(u64, Time)> {
        let plan = self.plan.filter(|plan| self.first < plan.count)?;
        Some((plan.numbers.0 + self.first * plan.numbers.1, plan.begins(self.first, self.start)))
    }

    /// When the next call is to begin.
    pub fn next(&self) -> Option<Time> {
        let again = self.ready.front().copied();
        again.into_iter().chain(self.newcomer()).filter(|_| self.left > 0).map(|(_, at)| at).min()
    }

    /// Who begins it.
    pub fn take(&mut self) -> Option<u64> {
        let newcomer = self.newcomer().filter(|_| self.left > 0);
        let again = self.ready.front().copied().filter(|_| self.left > 0);
        let (user, _) = match (newcomer, again) {
            (Some(new), Some(old)) if old.1 <= new.1 => self.ready.pop_front(),
            (Some(new), _) => {
                self.first += 1;
                Some(new)
            }
            (None, Some(_)) => self.ready.pop_front(),
            (None, None) => None,
        }?;
        self.left -= 1;
        Some(user)
    }

    /// The call of a user is over.
    pub fn give(&mut self, user: u64, now: Time) {
        if self.plan.is_some() {
            self.ready.push_back((user, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(1);

    fn callers(numbers: (u64, u64), count: u64, calls: Option<u64>) -> Callers {
        Callers::new(Some(Users { numbers, count, calls }), START)
    }

    #[test]
    fn first_calls_come_one_by_one_over_all_workers() {
        let mut all = Vec::new();
        for worker in 0..3 {
            let mut own = callers((worker, 3), 100, None);
            while let Some(at) = own.next() {
                all.push((own.take().expect("whose time has come"), at));
            }
        }
        all.sort_unstable();
        let millis = |user| START + Duration::from_millis(user);
        assert!(all.iter().enumerate().all(|(n, &own)| own == (n as u64, millis(n as u64))), "{all:?}");
        assert_eq!(all.len(), 300);
    }

    #[test]
    fn whose_call_is_over_does_not_wait_for_newcomers() {
        let mut own = callers((0, 1), 5_000, Some(4));
        assert_eq!((own.next(), own.take()), (Some(START), Some(0)));
        let over = START + Duration::from_micros(1_500);
        own.give(0, over);
        assert_eq!((own.take(), own.next(), own.take()), (Some(1), Some(over), Some(0)));
        assert_eq!((own.take(), own.next(), own.take()), (Some(2), None, None), "all calls are begun");
    }
}
