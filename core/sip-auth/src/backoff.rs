//! Slows password guessing down without refusing an account because of others.
//!
//! Three scores are kept, all of them only for answers that were really compared with a secret:
//!
//! * **Pair**: one account as tried from one network. After a few wrong answers the pair waits, twice
//!   as long each time. This is what stops a guesser; the account stays open to every other network.
//! * **Source**: one network, whatever the account. It falls by one a second, and refuses no account by
//!   itself: an office or a carrier's NAT is one network. While it is past its allowance, each wrong answer
//!   makes its own pair wait until the score has fallen to the allowance again. So a guesser with many
//!   accounts has one try at each, and one a second after that. Wrong answers of accounts that are at home at
//!   the network do not count. Only at [`SourceRule::most`] do accounts wait that gave no wrong answer: those
//!   that are not at home there. One of them a second is judged.
//! * **Account**: one account, whatever the network. It never refuses anything itself, for then a
//!   botnet could lock the owner out. While it is high, every network that is not familiar with the
//!   account has its allowance taken away and starts at a long wait: still one try each, so that the
//!   owner gets in from a new place with the right password, but no second one soon.
//!
//! An account is at home at a network where it is registered from
//! ([`Lookup::familiar`](crate::Lookup::familiar)), or where it answered rightly within
//! [`BackoffRules::home`] while the network had wrong answers.
//!
//! A wrong answer is charged to the network that the nonce was sent to, not to the address the
//! request claims to come from: whoever forges source addresses never saw a challenge sent there, so
//! a victim's network cannot be charged from outside. Unknown accounts are scored like known ones.
//!
//! Scores fall by one per forgiveness; a right answer clears the pair, and so does another
//! password: whoever is held off for answers to the one before need not wait once it is mended. (So who
//! keeps a pair waiting learns when the account gets another password, is made or removed.) Neither
//! eases the source, or a guesser with one account of his own could pay with it for guesses at others.
//! The table is bounded; a full set gives up its lowest score.

use crate::table::{Sets, WAYS};
use core::fmt;
use core::time::Duration;
use wire::Time;

/// How one kind of score turns into a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Wrong answers that cost nothing.
    pub free: u16,
    /// The wait after the first one that costs; doubled by each further one.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// How long it takes to forgive one wrong answer. Not shorter than a microsecond.
    pub forgive: Duration,
}

/// How the wrong answers of one network count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceRule {
    /// Wrong answers that cost nothing.
    pub free: u16,
    /// Wrong answers past these that are counted. From this count on, accounts that are not at home at the
    /// network wait.
    pub most: u16,
    /// How long it takes to forgive one wrong answer, which is also the pace of guesses in the long run.
    /// Not shorter than a microsecond.
    pub forgive: Duration,
}

/// The rules of the three scores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackoffRules {
    /// One account from one network. Default: five free, then 1 s doubling to 300 s, one forgiven
    /// in 600 s; in the long run under 300 guesses a day.
    pub pair: Rule,
    /// The same while the account is under attack and the network is not familiar. Default: none
    /// free, 30 s doubling to 1 h, one forgiven in 1 h.
    pub stranger: Rule,
    /// One network. Default: fifty free, 3,600 counted past these, one forgiven in 1 s.
    pub source: SourceRule,
    /// How long an account is at home where it answered rightly. Default 24 h.
    pub home: Duration,
    /// Wrong answers for one account, from all networks together, that make it count as under attack.
    /// Default 20.
    pub attack: u16,
    /// How long it takes to forgive one of these. Default 60 s.
    pub attack_forgive: Duration,
}

impl Default for BackoffRules {
    fn default() -> BackoffRules {
        const fn rule(free: u16, base: u64, cap: u64, forgive: u64) -> Rule {
            Rule {
                free,
                base: Duration::from_secs(base),
                cap: Duration::from_secs(cap),
                forgive: Duration::from_secs(forgive),
            }
        }
        BackoffRules {
            pair: rule(5, 1, 300, 600),
            stranger: rule(0, 30, 3_600, 3_600),
            source: SourceRule { free: 50, most: 3_600, forgive: Duration::from_secs(1) },
            home: Duration::from_secs(24 * 3_600),
            attack: 20,
            attack_forgive: Duration::from_secs(60),
        }
    }
}

/// The kinds of score.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Pair,
    Stranger,
    Source,
    Account,
    Home,
}

/// The score of an account that is at home: worth more than a few wrong answers where room is short.
const HOME: u16 = 8;

/// One score. Empty while `score` is zero. Times in microseconds.
#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    /// When `score` was last brought up to date.
    since: u64,
    until: u64,
    /// Of the secret that the wrong answers were compared with; of other kinds than pairs zero.
    mark: u32,
    score: u16,
    kind: Kind,
}

const EMPTY: Entry = Entry { key: 0, since: 0, until: 0, mark: 0, score: 0, kind: Kind::Pair };

/// One shard of the back-off table: 32 bytes an entry, no growth.
pub struct Backoff {
    sets: Sets<[Entry; WAYS]>,
    rules: BackoffRules,
    /// Set by the first wrong answer; until then nobody needs to look.
    used: bool,
}

impl Backoff {
    /// Room for about `capacity` scores (rounded up to eight times a power of two).
    pub fn new(capacity: usize, rules: BackoffRules) -> Backoff {
        Backoff { sets: Sets::new(capacity, [EMPTY; WAYS]), rules, used: false }
    }

    /// Whether anybody ever answered wrongly: until then no key needs to be looked up, nor made.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// Wrong answers of a network past its allowance, and whether these are the most that are counted.
    pub(crate) fn debt(&mut self, key: u64, now: Time) -> (u16, bool) {
        let rules = self.rules;
        let score = self.find(key).map_or(0, |e| e.current(&rules, now));
        let debt = score.saturating_sub(rules.source.free);
        (debt, debt >= rules.source.most)
    }

    /// Has `key` wait for `debt` to be forgiven.
    pub(crate) fn hold(&mut self, key: u64, debt: u16, now: Time) {
        let until = now + self.rules.source.forgive * u32::from(debt);
        if let Some(entry) = self.find(key).filter(|_| debt > 0) {
            entry.until = entry.until.max(until.as_micros());
        }
    }

    /// Notes that the account of `key` is at home.
    pub(crate) fn welcome(&mut self, key: u64, now: Time) {
        self.fail(key, Kind::Home, 0, now);
    }

    /// Whether the account of `key` is at home.
    pub(crate) fn is_home(&mut self, key: u64, now: Time) -> bool {
        let rules = self.rules;
        self.find(key).is_some_and(|e| e.current(&rules, now) > 0)
    }

    /// How long `key` has to wait, zero if no longer; `None` if it has no score.
    pub(crate) fn wait(&mut self, key: u64, now: Time) -> Option<Duration> {
        self.find(key).map(|e| Time::from_micros(e.until).since(now))
    }

    /// Forgets `key` if it was wrong about a secret with another mark, which is no more. Whether it was.
    pub(crate) fn forget_other(&mut self, key: u64, mark: u32) -> bool {
        let other = self.find(key).filter(|e| e.mark != mark);
        other.map(|e| *e = EMPTY).is_some()
    }

    /// Notes a wrong answer to the secret with this mark. True if the score is now past its allowance.
    pub(crate) fn fail(&mut self, key: u64, kind: Kind, mark: u32, now: Time) -> bool {
        self.used = true;
        let rules = self.rules;
        let Some(set) = self.sets.of(key) else { return false };
        let found = set.iter().position(|e| e.score != 0 && e.key == key);
        let place = match found {
            Some(place) => set.get_mut(place),
            // Empty places have no score; among equals the one untouched longest goes.
            None => set.iter_mut().min_by_key(|e| (e.worth(&rules, now), e.since)),
        };
        let Some(entry) = place else { return false };
        if found.is_none() || entry.mark != mark || entry.current(&rules, now) == 0 {
            *entry = Entry { key, since: now.as_micros(), kind, mark, ..EMPTY };
        }
        // A pair turns into a stranger while the account is under attack, and back when all of its
        // wrong answers are forgiven.
        if kind == Kind::Stranger {
            entry.kind = kind;
        }
        entry.charge(&rules, now)
    }

    /// Forgets `key`: its owner has proven the secret.
    pub(crate) fn clear(&mut self, key: u64) {
        if let Some(entry) = self.find(key) {
            *entry = EMPTY;
        }
    }

    fn find(&mut self, key: u64) -> Option<&mut Entry> {
        if !self.used {
            return None;
        }
        self.sets.of(key)?.iter_mut().find(|e| e.score != 0 && e.key == key)
    }

    /// Scores kept now, forgiven ones that nobody has overwritten included. Walks the shard.
    pub fn len(&self) -> usize {
        self.sets.iter().map(|set| set.iter().filter(|e| e.score != 0).count()).sum()
    }

    /// Whether no score is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Entry {
    /// Microseconds in which one wrong answer is forgiven.
    fn forgive(&self, rules: &BackoffRules) -> u64 {
        let time = match self.kind {
            Kind::Pair => rules.pair.forgive,
            Kind::Stranger => rules.stranger.forgive,
            Kind::Source => rules.source.forgive,
            Kind::Account => rules.attack_forgive,
            Kind::Home => rules.home / u32::from(HOME),
        };
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// The score at `now`, forgiveness applied.
    fn current(&self, rules: &BackoffRules, now: Time) -> u16 {
        let forgiven = now.as_micros().saturating_sub(self.since) / self.forgive(rules);
        u16::try_from(u64::from(self.score).saturating_sub(forgiven)).unwrap_or(u16::MAX)
    }

    /// What the entry counts for where room is short: one that waits is kept before a first wrong answer.
    fn worth(&self, rules: &BackoffRules, now: Time) -> u16 {
        self.current(rules, now).max(u16::from(self.until > now.as_micros()) * 2)
    }

    /// Adds a wrong answer and sets the wait; true if the score is past its allowance.
    fn charge(&mut self, rules: &BackoffRules, now: Time) -> bool {
        let elapsed = now.as_micros().saturating_sub(self.since);
        let left = self.current(rules, now);
        // The part of a forgiveness already served stays served, or whoever tries again just before it
        // is due would never be forgiven anything.
        self.since += elapsed - elapsed % self.forgive(rules);
        self.score = left.saturating_add(1);
        let rule = match self.kind {
            Kind::Pair => rules.pair,
            Kind::Stranger => rules.stranger,
            Kind::Source => {
                self.score = self.score.min(rules.source.free.saturating_add(rules.source.most));
                return self.score > rules.source.free;
            }
            Kind::Account => return self.score >= rules.attack,
            Kind::Home => {
                (self.score, self.since) = (HOME, now.as_micros());
                return false;
            }
        };
        if self.score <= rule.free {
            return false;
        }
        let doublings = u32::from(self.score - rule.free - 1).min(30);
        let wait = rule.base.saturating_mul(1 << doublings).min(rule.cap);
        self.until = self.until.max((now + wait).as_micros());
        // Past the cap a higher score would wait no longer, only take longer to be forgiven.
        if wait == rule.cap {
            self.score = left.max(1);
        }
        true
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backoff")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const T0: Time = Time::from_secs(50);

    fn table(capacity: usize) -> Backoff {
        Backoff::new(capacity, BackoffRules::default())
    }

    fn seconds(wait: Option<Duration>) -> Option<u64> {
        wait.map(|w| w.as_secs())
    }

    #[test]
    fn entries_stay_small() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn waits_double_up_to_the_cap_and_wrong_answers_are_forgiven() {
        let mut b = table(8);
        let mut waits = Vec::new();
        for _ in 0..18 {
            b.fail(1, Kind::Pair, 0, T0);
            waits.push(seconds(b.wait(1, T0)).expect("a score"));
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]);
        assert_eq!(seconds(b.wait(1, T0 + Duration::from_secs(299))), Some(1));
        // The score stopped at 14; ten are forgiven in 6,000 s.
        let later = T0 + Duration::from_secs(6_000);
        b.fail(1, Kind::Pair, 0, later);
        assert_eq!(seconds(b.wait(1, later)), Some(0));
        b.fail(1, Kind::Pair, 0, later);
        assert_eq!(seconds(b.wait(1, later)), Some(1));
    }

    #[test]
    fn a_later_wrong_answer_shortens_no_wait() {
        let mut b = table(8);
        b.fail(1, Kind::Pair, 0, T0);
        b.hold(1, 60, T0);
        let later = T0 + Duration::from_secs(10);
        b.hold(1, 20, later);
        b.fail(1, Kind::Pair, 0, later);
        assert_eq!(seconds(b.wait(1, later)), Some(50));
    }

    #[test]
    fn a_source_owes_what_is_past_its_allowance() {
        let mut b = table(8);
        let mut debts = Vec::new();
        for _ in 0..4_000 {
            b.fail(1, Kind::Source, 0, T0);
            debts.push(b.debt(1, T0));
        }
        assert_eq!(debts[49..52], [(0, false), (1, false), (2, false)]);
        assert_eq!(
            (debts[3_648], debts[3_649], debts[3_999]),
            ((3_599, false), (3_600, true), (3_600, true))
        );
        assert_eq!(b.debt(1, T0 + Duration::from_secs(1)), (3_599, false));
        assert_eq!(b.debt(1, T0 + Duration::from_secs(3_700)), (0, false));
        assert_eq!((b.debt(2, T0), seconds(b.wait(1, T0))), ((0, false), Some(0)));
    }

    #[test]
    fn an_account_is_at_home_for_a_day_after_it_was_right() {
        let mut b = table(8);
        let day = Duration::from_secs(24 * 3_600);
        b.welcome(1, T0);
        assert!(b.is_home(1, T0) && !b.is_home(2, T0));
        b.welcome(1, T0 + day / 2);
        assert!(b.is_home(1, T0 + day) && !b.is_home(1, T0 + day * 2));
        // Many names with one wrong answer each do not push it out.
        for key in 10..50 {
            b.fail(key, Kind::Pair, 0, T0 + day);
        }
        assert!(b.is_home(1, T0 + day));
    }

    #[test]
    fn a_full_set_keeps_who_waits_before_who_does_not() {
        let mut b = table(8);
        b.fail(1, Kind::Pair, 0, T0);
        b.hold(1, 3_000, T0);
        // Its wrong answer is forgiven, its wait is not over.
        let later = T0 + Duration::from_secs(1_000);
        for key in 10..17 {
            b.fail(key, Kind::Pair, 0, T0 + Duration::from_secs(500));
        }
        b.fail(20, Kind::Pair, 0, later);
        assert_eq!(seconds(b.wait(1, later)), Some(2_000));
    }

    #[test]
    fn part_of_a_forgiveness_served_is_not_lost() {
        let mut b = table(8);
        // One wrong answer each 400 s, one forgiven each 600 s: two of three remain.
        let mut now = T0;
        for _ in 0..13 {
            b.fail(1, Kind::Pair, 0, now);
            now = now + Duration::from_secs(400);
        }
        let at_last = now + Duration::from_secs(1);
        b.fail(1, Kind::Pair, 0, at_last);
        assert_eq!(
            seconds(b.wait(1, at_last)),
            Some(1),
            "fourteen less eight is six, one past the allowance"
        );
    }

    #[test]
    fn a_stranger_stays_one_until_all_is_forgiven() {
        let mut b = table(8);
        b.fail(1, Kind::Stranger, 0, T0);
        assert_eq!(seconds(b.wait(1, T0)), Some(30));
        b.fail(1, Kind::Pair, 0, T0);
        assert_eq!(seconds(b.wait(1, T0)), Some(60));
        let later = T0 + Duration::from_secs(2 * 3_600);
        b.fail(1, Kind::Pair, 0, later);
        assert_eq!(seconds(b.wait(1, later)), Some(0));
        b.clear(1);
        assert!(b.is_empty() && b.wait(1, later).is_none());
    }

    #[test]
    fn an_account_never_waits_but_tells_of_an_attack() {
        let mut b = table(8);
        let attacked: Vec<bool> = (0..21).map(|_| b.fail(1, Kind::Account, 0, T0)).collect();
        assert_eq!(attacked.iter().position(|&a| a), Some(19));
        assert_eq!(seconds(b.wait(1, T0)), Some(0));
        assert!(!b.fail(1, Kind::Account, 0, T0 + Duration::from_secs(600)));
    }

    #[test]
    fn wrong_answers_to_another_secret_begin_anew() {
        let mut b = table(8);
        for _ in 0..9 {
            b.fail(1, Kind::Stranger, 7, T0);
        }
        assert!(!b.forget_other(1, 7) && !b.forget_other(2, 8));
        assert!(b.wait(1, T0).is_some_and(|w| !w.is_zero()));
        b.fail(1, Kind::Pair, 8, T0);
        assert_eq!((seconds(b.wait(1, T0)), b.len()), (Some(0), 1));
        assert!(!b.forget_other(1, 8) && b.forget_other(1, 7) && b.is_empty());
    }

    #[test]
    fn a_full_set_gives_up_its_lowest_score() {
        let mut b = table(8);
        for key in 0..8 {
            for _ in 0..(20 - key) {
                b.fail(key, Kind::Pair, 0, T0);
            }
        }
        for key in 100..150 {
            b.fail(key, Kind::Pair, 0, T0 + Duration::from_micros(key));
        }
        assert_eq!(b.len(), 8);
        assert!((0..7).all(|key| b.wait(key, T0).is_some()));
        assert!(b.wait(7, T0).is_none());
    }

    proptest! {
        /// No order of events makes anybody wait longer than the longest cap, and memory never grows.
        #[test]
        fn bounded(events in proptest::collection::vec((0u64..30, 0u8..5, 0u64..4_000), 0..300)) {
            let mut b = table(16);
            let mut now = T0;
            for (key, kind, pause) in events {
                now = now + Duration::from_secs(pause / 8);
                let kind = [Kind::Pair, Kind::Stranger, Kind::Source, Kind::Account, Kind::Home][usize::from(kind)];
                b.fail(key, kind, 0, now);
                let (debt, _) = b.debt(key, now);
                b.hold(key, debt, now);
                prop_assert!(b.wait(key, now).is_some_and(|w| w <= Duration::from_secs(3_600)));
                prop_assert!(b.len() <= 16);
            }
        }
    }
}
