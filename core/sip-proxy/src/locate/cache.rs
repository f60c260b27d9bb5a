//! Answers of the DNS, kept for as long as their TTL allows, and questions that are under way.
//!
//! One cache per worker: no locks, bounded in entries, in records per entry and in waiters. Questions
//! asked while the same one is under way join it instead of going out again.

use super::dns::{Answer, Kind};
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Time;

/// A TTL of 0 still serves the requests of one second, or a hot name would be asked for each of them.
const MIN_TTL: u32 = 1;
/// Nothing is believed for longer than this, in seconds.
const MAX_TTL: u32 = 3_600;
/// Upper bound for "does not exist", in seconds (RFC 2308 section 5 suggests one to three hours; a
/// customer who has just mended his zone should not wait that long).
const MAX_NEGATIVE_TTL: u32 = 300;
/// How long a failure is remembered, in seconds: long enough to spare a dead server, short enough to
/// notice that it is back.
const FAILED_TTL: u32 = 5;
/// After this a question is asked again, should its answer have been lost.
const LOST: Duration = Duration::from_secs(30);
/// Most who may wait for one answer.
const MAX_WAITERS: usize = 4_096;
/// Most records kept of one answer; SRV records of the lowest priorities stay.
const MAX_RECORDS: usize = 128;

/// What the cache has to say about a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup<'a> {
    /// The answer.
    Hit(&'a Answer),
    /// Send the question out; the waiter is told by [`Cache::fill`].
    Ask,
    /// The question is under way; the waiter is told by [`Cache::fill`].
    Joined,
    /// No room for a further question: take it for [`Answer::Failed`].
    Full,
}

/// A bounded cache of DNS answers.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<Arc<[u8]>, Entry, Keyed>,
    /// Keys in the order in which they came; the first is the next to go.
    queue: VecDeque<Arc<[u8]>>,
    capacity: usize,
    /// Reused to build keys in.
    key: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Asked for since it was last passed over for eviction.
    used: bool,
}

#[derive(Debug)]
enum State {
    Pending { waiters: Vec<u128>, since: Time },
    Ready { answer: Answer, until: Time },
}

/// Names come from strangers, so the table's hash is keyed.
#[derive(Clone, Debug)]
struct Keyed([u64; 2]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

impl Cache {
    /// A cache of at most `capacity` questions (at least 1); `seed` keys its hash.
    pub fn new(capacity: usize, seed: [u64; 2]) -> Cache {
        Cache {
            entries: HashMap::with_hasher(Keyed(seed)),
            queue: VecDeque::new(),
            capacity: capacity.max(1),
            key: Vec::new(),
        }
    }

    /// Looks a question up. If there is no answer yet, `waiter` is remembered until there is one.
    pub fn ask(&mut self, now: Time, kind: Kind, name: &[u8], waiter: u128) -> Lookup<'_> {
        write_key(&mut self.key, kind, name);
        let full = self.entries.len() >= self.capacity && !self.entries.contains_key(self.key.as_slice());
        if full && !self.evict(now) {
            return Lookup::Full;
        }
        if !self.entries.contains_key(self.key.as_slice()) {
            let key: Arc<[u8]> = self.key.as_slice().into();
            self.queue.push_back(key.clone());
            let state = State::Pending { waiters: vec![waiter], since: now };
            self.entries.insert(key, Entry { state, used: false });
            return Lookup::Ask;
        }
        match self.entries.get_mut(self.key.as_slice()) {
            Some(entry) => entry.ask(now, waiter),
            None => Lookup::Full,
        }
    }

    /// An answer came, good for `ttl` seconds. Appends the waiters to `woken` and returns what to tell
    /// them. An answer to a question that nobody asked is not believed: `None`.
    pub fn fill(
        &mut self,
        now: Time,
        kind: Kind,
        name: &[u8],
        answer: Answer,
        ttl: u32,
        woken: &mut Vec<u128>,
    ) -> Option<&Answer> {
        write_key(&mut self.key, kind, name);
        let entry = self.entries.get_mut(self.key.as_slice())?;
        let State::Pending { waiters, .. } = &mut entry.state else { return None };
        woken.append(waiters);
        let until = now + Duration::from_secs(lifetime(&answer, ttl).into());
        entry.state = State::Ready { answer: trimmed(answer), until };
        match &entry.state {
            State::Ready { answer, .. } => Some(answer),
            State::Pending { .. } => None,
        }
    }

    /// How many questions are known, answered or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Makes room: drops the oldest entry that is out of date or was not asked for lately. Questions
    /// under way stay. Looks at a bounded number of entries.
    fn evict(&mut self, now: Time) -> bool {
        for _ in 0..self.queue.len().min(32) {
            let Some(key) = self.queue.pop_front() else { return false };
            match self.entries.get_mut(&key) {
                None => {}
                Some(entry) if entry.must_stay(now) => {
                    entry.used = false;
                    self.queue.push_back(key);
                }
                Some(_) => {
                    self.entries.remove(&key);
                    return true;
                }
            }
        }
        false
    }
}

impl Entry {
    fn ask(&mut self, now: Time, waiter: u128) -> Lookup<'_> {
        self.used = true;
        let stale = match &self.state {
            State::Ready { until, .. } => *until <= now,
            State::Pending { .. } => false,
        };
        if stale {
            self.state = State::Pending { waiters: vec![waiter], since: now };
            return Lookup::Ask;
        }
        match &mut self.state {
            State::Ready { answer, .. } => Lookup::Hit(answer),
            State::Pending { waiters, .. } if waiters.len() >= MAX_WAITERS => Lookup::Full,
            State::Pending { waiters, since } => {
                waiters.push(waiter);
                if now.since(*since) < LOST {
                    return Lookup::Joined;
                }
                *since = now;
                Lookup::Ask
            }
        }
    }

    fn must_stay(&self, now: Time) -> bool {
        match &self.state {
            State::Ready { until, .. } => self.used && *until > now,
            // One whose answer was lost has waiters that gave up long ago.
            State::Pending { since, .. } => now.since(*since) < LOST,
        }
    }
}

/// Names differ in case only by accident (RFC 4343).
fn write_key(key: &mut Vec<u8>, kind: Kind, name: &[u8]) {
    key.clear();
    key.push(kind as u8);
    key.extend(name.iter().map(u8::to_ascii_lowercase));
}

fn lifetime(answer: &Answer, ttl: u32) -> u32 {
    match answer {
        Answer::Failed => FAILED_TTL,
        Answer::Nothing => ttl.clamp(MIN_TTL, MAX_NEGATIVE_TTL),
        _ => ttl.clamp(MIN_TTL, MAX_TTL),
    }
}

/// Cuts an answer that is longer than anybody needs.
fn trimmed(answer: Answer) -> Answer {
    fn cut<T>(list: Box<[T]>) -> Box<[T]> {
        if list.len() <= MAX_RECORDS {
            return list;
        }
        let mut list = list.into_vec();
        list.truncate(MAX_RECORDS);
        list.into_boxed_slice()
    }
    match answer {
        Answer::Naptr(list) => Answer::Naptr(cut(list)),
        Answer::Srv(mut list) => {
            list.sort_by_key(|record| record.priority);
            Answer::Srv(cut(list))
        }
        Answer::A(list) => Answer::A(cut(list)),
        Answer::Aaaa(list) => Answer::Aaaa(cut(list)),
        short => short,
    }
}

#[cfg(test)]
mod tests {
    use super::super::dns::Srv;
    use super::*;
    use core::net::Ipv4Addr;

    const NAME: &[u8] = b"sip.example.com";

    fn one() -> Answer {
        Answer::A([Ipv4Addr::new(192, 0, 2, 1)].into())
    }

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    fn filled(answer: Answer, ttl: u32) -> Cache {
        let mut cache = Cache::new(4, [1, 2]);
        assert_eq!(cache.ask(at(0), Kind::A, NAME, 7), Lookup::Ask);
        let mut woken = Vec::new();
        assert!(cache.fill(at(0), Kind::A, NAME, answer, ttl, &mut woken).is_some());
        assert_eq!(woken, [7]);
        cache
    }

    #[test]
    fn questions_under_way_are_joined_and_all_are_told() {
        let mut cache = Cache::new(4, [1, 2]);
        assert_eq!(cache.ask(at(0), Kind::A, NAME, 1), Lookup::Ask);
        assert_eq!(cache.ask(at(1), Kind::A, b"SIP.Example.COM", 2), Lookup::Joined);
        assert_eq!(cache.ask(at(1), Kind::Aaaa, NAME, 3), Lookup::Ask, "another kind");
        let mut woken = Vec::new();
        assert_eq!(cache.fill(at(2), Kind::A, NAME, one(), 60, &mut woken), Some(&one()));
        assert_eq!(woken, [1, 2]);
        assert_eq!(cache.ask(at(61), Kind::A, NAME, 4), Lookup::Hit(&one()));
        assert_eq!(cache.ask(at(62), Kind::A, NAME, 5), Lookup::Ask, "a minute is over");
    }

    #[test]
    fn a_ttl_of_zero_serves_one_second() {
        let mut cache = filled(one(), 0);
        assert_eq!(cache.ask(Time::from_millis(999), Kind::A, NAME, 1), Lookup::Hit(&one()));
        assert_eq!(cache.ask(at(1), Kind::A, NAME, 1), Lookup::Ask);
    }

    #[test]
    fn long_ttls_and_bad_news_are_believed_for_a_while_only() {
        let mut cache = filled(one(), u32::MAX);
        assert_eq!(cache.ask(at(3_599), Kind::A, NAME, 1), Lookup::Hit(&one()));
        assert_eq!(cache.ask(at(3_600), Kind::A, NAME, 1), Lookup::Ask);
        let mut cache = filled(Answer::Nothing, 86_400);
        assert_eq!(cache.ask(at(299), Kind::A, NAME, 1), Lookup::Hit(&Answer::Nothing));
        assert_eq!(cache.ask(at(300), Kind::A, NAME, 1), Lookup::Ask);
        let mut cache = filled(Answer::Failed, 86_400);
        assert_eq!(cache.ask(at(4), Kind::A, NAME, 1), Lookup::Hit(&Answer::Failed));
        assert_eq!(cache.ask(at(5), Kind::A, NAME, 1), Lookup::Ask);
    }

    #[test]
    fn a_lost_answer_is_asked_for_again() {
        let mut cache = Cache::new(4, [1, 2]);
        cache.ask(at(0), Kind::A, NAME, 1);
        assert_eq!(cache.ask(at(29), Kind::A, NAME, 2), Lookup::Joined);
        assert_eq!(cache.ask(at(30), Kind::A, NAME, 3), Lookup::Ask);
        let mut woken = Vec::new();
        cache.fill(at(31), Kind::A, NAME, one(), 1, &mut woken);
        assert_eq!(woken, [1, 2, 3]);
    }

    #[test]
    fn what_nobody_asked_is_not_believed() {
        let mut cache = filled(one(), 60);
        let mut woken = Vec::new();
        let other = Answer::A([Ipv4Addr::new(203, 0, 113, 9)].into());
        assert_eq!(cache.fill(at(1), Kind::A, NAME, other.clone(), 60, &mut woken), None);
        assert_eq!(cache.fill(at(1), Kind::A, b"other.example", other, 60, &mut woken), None);
        assert!(woken.is_empty());
        assert_eq!(cache.ask(at(1), Kind::A, NAME, 1), Lookup::Hit(&one()));
    }

    #[test]
    fn room_is_made_by_dropping_what_is_not_used() {
        let mut cache = Cache::new(3, [1, 2]);
        let mut woken = Vec::new();
        for name in [b"a", b"b", b"c"] {
            cache.ask(at(0), Kind::A, name, 0);
            cache.fill(at(0), Kind::A, name, one(), 60, &mut woken);
        }
        cache.ask(at(1), Kind::A, b"a", 0);
        assert_eq!(cache.ask(at(1), Kind::A, b"d", 0), Lookup::Ask);
        assert_eq!(cache.len(), 3);
        assert_eq!(cache.ask(at(1), Kind::A, b"a", 0), Lookup::Hit(&one()), "it was used");
        assert_eq!(cache.ask(at(1), Kind::A, b"b", 0), Lookup::Ask, "it was the oldest");
    }

    #[test]
    fn questions_under_way_are_never_dropped_and_so_it_can_be_full() {
        let mut cache = Cache::new(2, [1, 2]);
        cache.ask(at(0), Kind::A, b"a", 0);
        cache.ask(at(0), Kind::A, b"b", 0);
        assert_eq!(cache.ask(at(1), Kind::A, b"c", 0), Lookup::Full);
        assert_eq!(cache.ask(at(1), Kind::A, b"a", 0), Lookup::Joined);
        assert_eq!(cache.ask(at(40), Kind::A, b"c", 0), Lookup::Ask, "theirs were lost");
    }

    #[test]
    fn a_hostile_flood_of_names_keeps_the_size() {
        let mut cache = Cache::new(100, [1, 2]);
        let mut woken = Vec::new();
        for n in 0..10_000_u32 {
            let name = n.to_be_bytes();
            if cache.ask(at(0), Kind::A, &name, 0) == Lookup::Ask {
                cache.fill(at(0), Kind::A, &name, one(), 60, &mut woken);
            }
        }
        assert!(cache.len() <= 100 && cache.queue.len() <= 100);
    }

    #[test]
    fn long_answers_are_cut_to_the_best_priorities() {
        let mut cache = Cache::new(4, [1, 2]);
        cache.ask(at(0), Kind::Srv, NAME, 0);
        let record = |priority| Srv { priority, weight: 0, port: 1, target: b"h"[..].into() };
        let list: Box<[Srv]> = (0..500).rev().map(record).collect();
        let answer = cache.fill(at(0), Kind::Srv, NAME, Answer::Srv(list), 60, &mut Vec::new());
        let Some(Answer::Srv(kept)) = answer else { panic!("an SRV answer") };
        assert_eq!(kept.len(), 128);
        assert!(kept.iter().map(|r| r.priority).eq(0..128));
    }
}
