//! The calls of each account: how many are under way, and how many began in the hour and on the day.

use crate::class::Limits;
use crate::hours::Moment;
use crate::rule::Rule;
use hashbrown::HashTable;

#[derive(Clone, Copy, Debug)]
struct Entry {
    account: u64,
    day: i64,
    hour: i64,
    today: u32,
    this_hour: u32,
    running: u32,
}

/// Calls by account, in bounded memory.
#[derive(Debug, Default)]
pub struct Usage {
    entries: HashTable<Entry>,
    most: usize,
    /// The day on which room was made last.
    swept: i64,
}

impl Usage {
    /// With room for `most` accounts.
    pub fn new(most: usize) -> Usage {
        Usage { entries: HashTable::new(), most, swept: i64::MIN }
    }

    /// A call of an account begins, if its limits let it. The account is a keyed hash.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn begin(&mut self, account: u64, limits: &Limits, now: Moment) -> Result<(), Rule> {
        if self.entries.find(account, |e| e.account == account).is_none() {
            self.make_room(now)?;
            let new = Entry { account, day: now.day, hour: now.hour, today: 0, this_hour: 0, running: 0 };
            self.entries.insert_unique(account, new, |e| e.account);
        }
        let Some(entry) = self.entries.find_mut(account, |e| e.account == account) else {
            return Err(Rule::Room);
        };
        if entry.day != now.day {
            (entry.day, entry.today) = (now.day, 0);
        }
        if entry.hour != now.hour {
            (entry.hour, entry.this_hour) = (now.hour, 0);
        }
        let reached = |limit: Option<u32>, count: u32| limit.filter(|limit| count >= *limit);
        if let Some(most) = reached(limits.channels, entry.running) {
            return Err(Rule::Channels(most));
        }
        if let Some(most) = reached(limits.per_day, entry.today) {
            return Err(Rule::Day(most));
        }
        if let Some(most) = reached(limits.per_hour, entry.this_hour) {
            return Err(Rule::Hour(most));
        }
        entry.today = entry.today.saturating_add(1);
        entry.this_hour = entry.this_hour.saturating_add(1);
        entry.running = entry.running.saturating_add(u32::from(limits.channels.is_some()));
        Ok(())
    }

    /// A call of an account that was limited by channels has ended.
    pub fn end(&mut self, account: u64) {
        if let Some(entry) = self.entries.find_mut(account, |e| e.account == account) {
            entry.running = entry.running.saturating_sub(1);
        }
    }

    /// How many accounts are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets accounts of earlier days without a call, at most once a day: an attacker with many accounts
    /// must not make every call expensive. Of zones the days differ by one.
    fn make_room(&mut self, now: Moment) -> Result<(), Rule> {
        if self.entries.len() < self.most {
            return Ok(());
        }
        if self.swept < now.day {
            self.swept = now.day;
            self.entries.retain(|e| e.running > 0 || e.day >= now.day - 1);
        }
        if self.entries.len() < self.most { Ok(()) } else { Err(Rule::Room) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(day: i64, hour: i64) -> Moment {
        Moment { minute: 0, day, hour: day * 24 + hour }
    }

    #[test]
    fn channels_are_free_again_when_calls_end() {
        let limits = Limits { channels: Some(2), ..Limits::default() };
        let mut usage = Usage::new(10);
        for account in [1, 2] {
            assert_eq!(usage.begin(account, &limits, at(1, 1)), Ok(()));
            assert_eq!(usage.begin(account, &limits, at(1, 1)), Ok(()));
            assert_eq!(usage.begin(account, &limits, at(1, 1)), Err(Rule::Channels(2)));
        }
        usage.end(1);
        assert_eq!(usage.begin(1, &limits, at(2, 1)), Ok(()));
        assert_eq!(usage.begin(2, &limits, at(2, 1)), Err(Rule::Channels(2)), "a day does not end calls");
        usage.end(7);
    }

    #[test]
    fn counts_begin_anew_with_hour_and_day() {
        let limits = Limits { channels: None, per_hour: Some(2), per_day: Some(3) };
        let mut usage = Usage::new(10);
        let mut begin = |day, hour| usage.begin(1, &limits, at(day, hour));
        assert_eq!([begin(1, 0), begin(1, 0), begin(1, 0)], [Ok(()), Ok(()), Err(Rule::Hour(2))]);
        assert_eq!([begin(1, 1), begin(1, 2)], [Ok(()), Err(Rule::Day(3))]);
        assert_eq!(begin(2, 0), Ok(()));
    }

    #[test]
    fn full_memory_refuses_new_accounts_until_the_next_days() {
        let limits = Limits { per_day: Some(1), ..Limits::default() };
        let mut usage = Usage::new(2);
        assert_eq!((usage.begin(1, &limits, at(1, 0)), usage.begin(2, &limits, at(1, 0))), (Ok(()), Ok(())));
        assert_eq!(usage.begin(3, &limits, at(1, 0)), Err(Rule::Room));
        assert_eq!(usage.begin(1, &limits, at(1, 0)), Err(Rule::Day(1)), "it is not forgotten");
        assert_eq!(usage.begin(3, &limits, at(3, 0)), Ok(()));
        assert_eq!(usage.len(), 1);
    }

    proptest! {
        #[test]
        fn no_more_run_than_there_are_channels(
            channels in 1..5_u32,
            steps in prop::collection::vec((0..3_u64, any::<bool>()), 0..200),
        ) {
            let limits = Limits { channels: Some(channels), ..Limits::default() };
            let mut usage = Usage::new(3);
            let mut running = [0_u32; 3];
            for (account, begins) in steps {
                let count = &mut running[account as usize];
                if begins {
                    let begun = usage.begin(account, &limits, at(1, 1)).is_ok();
                    prop_assert_eq!(begun, *count < channels);
                    *count += u32::from(begun);
                } else if *count > 0 {
                    usage.end(account);
                    *count -= 1;
                }
            }
        }
    }
}
