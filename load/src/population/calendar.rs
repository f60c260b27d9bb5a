//! What is due when: tens of millions of entries, in bounded work for each.
//!
//! A hierarchical timing wheel (Varghese and Lauck, 1987) with two differences to the usual one. Entries of a
//! list lie side by side in chunks of 32, so that moving a list down a level reads memory in order; a linked
//! list through the users would miss the cache at each of them. And a list is not moved when its time begins,
//! all at once (the upper lists hold millions), but bit by bit during the period before. The wheel of
//! `timing` has neither, one entry for each place, and ticks of 65 ms.
//!
//! | level | a list covers | lists |
//! |---|---|---|
//! | 0 | 1 µs | 512 |
//! | 1 | 512 µs | 1,024 |
//! | 2 | 0.26 s | 1,024 |
//! | 3 | 134 s | 8,192: 12.7 days |
//!
//! An upper level reaches two periods of the next one, so that what is moved early has its place.

/// How far the calendar reaches, in microseconds.
pub(super) const HORIZON: u64 = 1 << 40;

const LEVELS: usize = 4;
/// Binary logarithm of the microseconds that a list covers.
const SHIFT: [u32; LEVELS] = [0, 9, 18, 27];
const LISTS: [usize; LEVELS] = [512, 1_024, 1_024, 8_192];
/// Where the lists of each level begin.
const FIRST: [usize; LEVELS] = [0, 512, 1_536, 2_560];
const ALL_LISTS: usize = 10_752;
/// Microseconds of a list of level 1, all of which level 0 holds.
const PERIOD: u64 = 1 << SHIFT[1];

const CHUNK: usize = 32;
const NONE: u32 = u32::MAX;

/// Something that is due: `due` is the low half of the microseconds, the list says the rest.
#[derive(Clone, Copy, Default)]
struct Entry {
    id: u32,
    due: u32,
}

#[derive(Clone, Copy)]
struct List {
    /// The chunk being filled.
    head: u32,
    /// Entries of all its chunks.
    count: u32,
}

/// The calendar of one worker. Times are microseconds since its start, below [`HORIZON`].
pub(super) struct Calendar {
    /// Begin of the period that level 0 covers.
    base: u64,
    /// Everything before it has been handed out.
    cursor: u64,
    lists: Vec<List>,
    /// Which lists have entries.
    occupied: Bits,
    /// Entries at each level.
    counts: [usize; LEVELS],
    /// Of the list that is being moved down at each level: what it had, and how much of that has gone.
    moving: [(usize, usize); LEVELS],
    entries: Vec<Entry>,
    /// The next chunk of the same list, or of the free ones.
    links: Vec<u32>,
    free: u32,
}

impl Calendar {
    /// An empty calendar that allocates nothing while it has at most `capacity` entries.
    pub(super) fn new(capacity: usize) -> Calendar {
        // Each list may have one chunk that is not full.
        let chunks = capacity / CHUNK + capacity.min(ALL_LISTS) + 1;
        Calendar {
            base: 0,
            cursor: 0,
            lists: vec![List { head: NONE, count: 0 }; ALL_LISTS],
            occupied: Bits::default(),
            counts: [0; LEVELS],
            moving: [(0, 0); LEVELS],
            entries: Vec::with_capacity(chunks * CHUNK),
            links: Vec::with_capacity(chunks),
            free: NONE,
        }
    }

    /// Entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.links.capacity() * 4
            + self.lists.len() * size_of::<List>()
            + size_of::<Bits>()
    }

    /// Adds an entry. What is due already comes out next; what is beyond the horizon is not kept.
    pub(super) fn push(&mut self, due: u64, id: u32) {
        if due < HORIZON {
            self.insert(due.max(self.cursor), id);
        }
    }

    /// Takes out an entry that is due at `now`, with the time it was due; in order of these times. Call
    /// until there is none.
    pub(super) fn pop(&mut self, now: u64) -> Option<(u64, u32)> {
        let now = now.min(HORIZON - 1);
        loop {
            let within = (self.cursor - self.base) as usize;
            if let Some(list) = self.occupied.next(within, LISTS[0]) {
                let due = self.base + list as u64;
                if due > now {
                    self.cursor = self.cursor.max(now);
                    return None;
                }
                self.cursor = due;
                return self.take(0, list).map(|entry| (due, entry.id));
            }
            if now < self.base + PERIOD {
                self.cursor = self.cursor.max(now);
                return None;
            }
            self.step(now);
        }
    }

    /// When [`Calendar::pop`] may have something: exact within the current half millisecond, else possibly
    /// too early (at most once for each level), never too late.
    pub(super) fn next(&self) -> Option<u64> {
        let within = (self.cursor - self.base) as usize;
        if let Some(list) = self.occupied.next(within, LISTS[0]) {
            return Some(self.base + list as u64);
        }
        self.upper()
    }

    /// Begin of the first list of the upper levels that has entries. Lists of a lower level may lie behind
    /// those of an upper one, as these are moved down early.
    fn upper(&self) -> Option<u64> {
        let turn = ((self.base >> SHIFT[2]) + 1) << SHIFT[2];
        match self.first(1) {
            // The usual case under load.
            Some(begin) if begin <= turn => Some(begin),
            first => (2..LEVELS).filter_map(|level| self.first(level)).chain(first).min(),
        }
    }

    /// Begin of the first list of `level` that has entries.
    fn first(&self, level: usize) -> Option<u64> {
        if self.counts.get(level).copied().unwrap_or(0) == 0 {
            return None;
        }
        let (shift, first, lists) = (SHIFT[level], FIRST[level], LISTS[level]);
        let current = self.base >> shift;
        let within = current as usize & (lists - 1);
        // Round the ring: behind the current list, then before it.
        let ahead = match self.occupied.next(first + within, first + lists) {
            Some(list) => list - first - within,
            None => self.occupied.next(first, first + within)? + lists - first - within,
        };
        Some((current + ahead as u64) << shift)
    }

    /// Goes on to the next period that has something; at most to the one of `now`.
    fn step(&mut self, now: u64) {
        let last = now & !(PERIOD - 1);
        let before = self.base;
        // Lists in between are empty. After a silence the next one is moved down at once, after all.
        self.base = self.upper().map_or(last, |begin| begin.min(last));
        self.cursor = self.base;
        // From above, as what comes down may have to go further.
        for level in (1..LEVELS).rev() {
            self.settle(level, before);
        }
    }

    /// Moves down what must be below `level` at the time of `base`, where it was `before`.
    fn settle(&mut self, level: usize, before: u64) {
        let shift = SHIFT[level];
        let current = self.base >> shift;
        if before >> shift != current {
            // What is left of the list that begins now.
            while self.lower(level, current) {}
            let coming = self.list(level, current + 1).count as usize;
            self.moving[level] = (coming, 0);
        }
        if level == 1 {
            return;
        }
        // Of the list that begins next, the share of the period that has passed.
        let (coming, mut gone) = self.moving[level];
        let elapsed = self.base & ((1 << shift) - 1);
        let wanted = ((coming as u64 * elapsed) >> shift) as usize;
        while gone < wanted && self.lower(level, current + 1) {
            gone += 1;
        }
        self.moving[level].1 = gone;
    }

    /// Moves one entry of list `index` of `level` down; false if there is none.
    fn lower(&mut self, level: usize, index: u64) -> bool {
        let within = index as usize & (LISTS[level] - 1);
        let Some(entry) = self.take(level, within) else { return false };
        let mask = (1u64 << SHIFT[level]) - 1;
        self.insert(index << SHIFT[level] | u64::from(entry.due) & mask, entry.id);
        true
    }

    fn list(&self, level: usize, index: u64) -> List {
        let within = index as usize & (LISTS[level] - 1);
        self.lists.get(FIRST[level] + within).copied().unwrap_or(List { head: NONE, count: 0 })
    }

    /// Puts an entry where it belongs. The list that begins next at a level takes no new entries, because
    /// it is being moved down: they go directly below.
    fn insert(&mut self, due: u64, id: u32) {
        let ahead = |level: usize| (due >> SHIFT[level]) - (self.base >> SHIFT[level]);
        let level = if ahead(1) == 0 {
            0
        } else if ahead(2) <= 1 {
            1
        } else if ahead(3) <= 1 {
            2
        } else {
            3
        };
        let within = (due >> SHIFT[level]) as usize & (LISTS[level] - 1);
        self.put(level, within, Entry { id, due: due as u32 });
    }

    fn put(&mut self, level: usize, within: usize, entry: Entry) {
        let at = FIRST[level] + within;
        let Some(list) = self.lists.get_mut(at) else { return };
        let fill = list.count as usize % CHUNK;
        if fill == 0 {
            let chunk = match self.links.get(self.free as usize) {
                Some(&next) => core::mem::replace(&mut self.free, next),
                None => {
                    self.entries.resize(self.entries.len() + CHUNK, Entry::default());
                    self.links.push(NONE);
                    (self.links.len() - 1) as u32
                }
            };
            if let Some(link) = self.links.get_mut(chunk as usize) {
                *link = list.head;
            }
            list.head = chunk;
            self.occupied.set(at);
        }
        list.count += 1;
        if let Some(slot) = self.entries.get_mut(list.head as usize * CHUNK + fill) {
            *slot = entry;
        }
        self.counts[level] += 1;
    }

    fn take(&mut self, level: usize, within: usize) -> Option<Entry> {
        let at = FIRST[level] + within;
        let list = self.lists.get_mut(at)?;
        list.count = list.count.checked_sub(1)?;
        let fill = list.count as usize % CHUNK;
        let chunk = list.head;
        let entry = self.entries.get(chunk as usize * CHUNK + fill).copied();
        if fill == 0 {
            let link = self.links.get_mut(chunk as usize)?;
            list.head = core::mem::replace(link, self.free);
            self.free = chunk;
            if list.count == 0 {
                self.occupied.clear(at);
            }
        }
        self.counts[level] -= 1;
        entry
    }
}

const WORDS: usize = ALL_LISTS / 64;

/// A bit for each list, and one for each word of these, so that a search reads three words at most here
/// and there.
struct Bits {
    words: [u64; WORDS],
    summary: [u64; WORDS.div_ceil(64)],
}

impl Default for Bits {
    fn default() -> Bits {
        Bits { words: [0; WORDS], summary: [0; WORDS.div_ceil(64)] }
    }
}

impl Bits {
    fn set(&mut self, at: usize) {
        let word = at / 64;
        if let (Some(bits), Some(all)) = (self.words.get_mut(word), self.summary.get_mut(word / 64)) {
            *bits |= 1 << (at % 64);
            *all |= 1 << (word % 64);
        }
    }

    fn clear(&mut self, at: usize) {
        let word = at / 64;
        if let (Some(bits), Some(all)) = (self.words.get_mut(word), self.summary.get_mut(word / 64)) {
            *bits &= !(1 << (at % 64));
            *all &= !(u64::from(*bits == 0) << (word % 64));
        }
    }

    /// The first set bit from `from` on, below `to`.
    fn next(&self, from: usize, to: usize) -> Option<usize> {
        let rest = self.words.get(from / 64)? >> (from % 64);
        let found = if rest != 0 {
            from + rest.trailing_zeros() as usize
        } else {
            let word = self.next_word(from / 64 + 1)?;
            word * 64 + self.words.get(word)?.trailing_zeros() as usize
        };
        (found < to).then_some(found)
    }

    fn next_word(&self, from: usize) -> Option<usize> {
        let mut skip = from % 64;
        for (i, all) in self.summary.iter().enumerate().skip(from / 64) {
            let rest = all >> skip;
            if rest != 0 {
                return Some(i * 64 + skip + rest.trailing_zeros() as usize);
            }
            skip = 0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_empty_calendar_has_nothing() {
        let mut calendar = Calendar::new(0);
        assert_eq!((calendar.next(), calendar.pop(HORIZON), calendar.len()), (None, None, 0));
        calendar.push(HORIZON, 1);
        assert_eq!(calendar.len(), 0, "what is beyond the horizon never comes");
        calendar.push(3, 7);
        assert_eq!(calendar.pop(HORIZON - 1), Some((HORIZON - 1, 7)), "the past is over");
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Push(u64),
        Pass(u64),
        PopOne,
    }

    fn deed() -> impl Strategy<Value = Deed> {
        // Delays of all levels.
        let delay =
            prop_oneof![0..20u64, 0..3_000u64, 0..2_000_000u64, 0..1_000_000_000u64, 0..20_000_000_000u64,];
        prop_oneof![
            6 => delay.clone().prop_map(Deed::Push),
            3 => delay.prop_map(Deed::Pass),
            1 => Just(Deed::PopOne),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// Against a sorted set: everything comes out once, at its time and in order; `next` never
        /// oversleeps.
        #[test]
        fn it_does_what_a_sorted_set_would_do(deeds in proptest::collection::vec(deed(), 1..200)) {
            let mut calendar = Calendar::new(16);
            let mut model = BTreeSet::new();
            let mut now = 0;
            for (id, deed) in (0u32..).zip(deeds) {
                match deed {
                    Deed::Push(delay) => {
                        calendar.push(now + delay, id);
                        model.insert((now + delay, id));
                    }
                    Deed::PopOne => {
                        let first = model.first().map(|(due, _)| *due);
                        let got = calendar.pop(now);
                        prop_assert_eq!(got.map(|(due, _)| due), first.filter(|due| *due <= now));
                        if let Some(got) = got {
                            prop_assert!(model.remove(&got));
                        }
                    }
                    Deed::Pass(delay) => {
                        now += delay;
                        let mut last = 0;
                        while let Some(&(due, _)) = model.first() {
                            let next = calendar.next();
                            prop_assert!(next.is_some_and(|at| at <= due), "{next:?} {due}");
                            match calendar.pop(now) {
                                Some(got) => {
                                    prop_assert!(model.remove(&got) && got.0 >= last && got.0 == due);
                                    last = got.0;
                                }
                                None => {
                                    prop_assert!(due > now, "{due} was due at {now}");
                                    prop_assert!(calendar.next().is_some_and(|at| at > now), "it would not sleep");
                                    break;
                                }
                            }
                        }
                    }
                }
                prop_assert_eq!(calendar.len(), model.len());
            }
        }
    }

    /// A sleeper who asks `next`, wakes and pops: how often it wakes in vain, and how much is moved down
    /// at once. That bound is what keeps a worker punctual.
    #[test]
    fn wakes_in_vain_and_moves_at_once_are_few() {
        let entries = 100_000u32;
        let mut rng = Rng::new(1, 1);
        let mut calendar = Calendar::new(entries as usize);
        for id in 0..entries {
            calendar.push(rng.below(600_000_000), id);
        }
        let bytes = calendar.bytes();
        let (mut events, mut vain, mut most) = (0, 0, 0);
        while events < 2 * entries {
            let at = calendar.next().expect("never empty");
            let [_, _, two, three] = calendar.counts;
            let popped = calendar.pop(at);
            let from_three = three - calendar.counts[3];
            most = most.max(from_three).max(two + from_three - calendar.counts[2]);
            let Some((due, id)) = popped else {
                vain += 1;
                continue;
            };
            calendar.push(due + 600_000_000, id);
            events += 1;
        }
        assert_eq!(calendar.bytes(), bytes, "a steady state allocates nothing");
        assert!(vain < 2 * events, "{vain} of {events}");
        assert!(most < 64, "{most} of 100,000 entries moved at once");
    }
}
