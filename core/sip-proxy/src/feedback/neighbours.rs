//! Next hops that have said how much they can take: RFC 7339 sections 5.3 to 5.10 and 7.2, RFC 7415 section
//! 3.5, as a client.

use super::oc::{Algorithm, Wish};
use core::net::SocketAddr;
use core::time::Duration;
use wire::Time;

/// Next hops remembered. They are configured, trunks or nodes, and few of them ask at one time.
const MOST: usize = 256;
/// A sequence number below the last one by less than this, in steps of 10 us, is late; by more, its sender
/// has begun anew (RFC 7339 section 4.4). A minute.
const LATE: u64 = 60 * 100_000;
/// Requests after which the mix of the two categories is weighed anew.
const SAMPLE: u32 = 1_000;
/// How long a next hop is known after what it said is over.
const KEPT: Duration = Duration::from_secs(5);
/// Tolerance of the leaky bucket for what may be held back, in intervals (RFC 7415 section 3.5.2), and the
/// most that what goes in any case fills it with.
const TAU: f64 = 5.0;
const FULL: f64 = 20.0;
/// What part of what may be held back is held back at most, and what rate is kept to at least, requests a
/// second: of nothing at all nobody finds out whether it is still so, and whoever speaks in a trunk's name
/// cannot close it.
const MOST_LOST: f64 = 0.95;
const LEAST_RATE: f64 = 1.0;

/// What kind of request is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    /// It may be held back.
    New,
    /// It goes, and counts: within a dialog.
    Within,
}

#[derive(Clone, Debug)]
struct Neighbour {
    address: SocketAddr,
    algorithm: Algorithm,
    value: u32,
    until: Time,
    sequence: Option<u64>,
    /// Requests of each category of late.
    new: u32,
    within: u32,
    /// The leaky bucket, in intervals, and when it was looked at.
    filled: f64,
    drained: Time,
    /// When something new went last.
    trickled: Time,
}

/// The next hops that asked for less.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    hops: Vec<Neighbour>,
    /// Workers of this server, each of which keeps to its part of a rate; 0 counts as one.
    workers: u16,
}

impl Neighbours {
    /// Of one of so many workers: a rate is one of them all (RFC 7415 section 3.4), and calls fall to them
    /// alike.
    pub fn set_workers(&mut self, workers: u16) {
        self.workers = workers;
    }

    /// A next hop said this.
    pub fn told(&mut self, now: Time, address: SocketAddr, wish: &Wish) {
        let known = self.hops.iter_mut().find(|neighbour| neighbour.address == address);
        if let Some(neighbour) = known {
            let late = |(last, said): (u64, u64)| said <= last && last - said < LATE;
            // What is over orders nothing any more: a number far ahead silences its sender for as long as it
            // is valid.
            if now < neighbour.until && neighbour.sequence.zip(wish.sequence).is_some_and(late) {
                return;
            }
            if neighbour.algorithm != wish.algorithm {
                (neighbour.filled, neighbour.drained) = (0.0, now);
            }
            neighbour.algorithm = wish.algorithm;
            neighbour.value = wish.value;
            neighbour.until = now + wish.valid;
            neighbour.sequence = wish.sequence;
            return;
        }
        // There is nothing to remember of those that are well.
        if wish.valid == Duration::ZERO || (wish.algorithm == Algorithm::Loss && wish.value == 0) {
            return;
        }
        let neighbour = Neighbour {
            address,
            algorithm: wish.algorithm,
            value: wish.value,
            until: now + wish.valid,
            sequence: wish.sequence,
            new: 0,
            within: 0,
            filled: 0.0,
            drained: now,
            trickled: now,
        };
        if self.hops.len() < MOST {
            self.hops.push(neighbour);
        } else if let Some(oldest) = self.hops.iter_mut().min_by_key(|neighbour| neighbour.until) {
            *oldest = neighbour;
        }
    }

    /// Whether nobody has asked for less of late.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// Whether this next hop asks for less now.
    pub fn asks(&self, now: Time, address: SocketAddr) -> bool {
        self.asking(now).any(|(hop, ..)| hop == address)
    }

    /// The next hops that ask for less now, how it is counted and how much: by so many per cent, or to so
    /// many requests a second.
    pub fn asking(&self, now: Time) -> impl Iterator<Item = (SocketAddr, Algorithm, u32)> {
        let less =
            move |hop: &&Neighbour| now < hop.until && (hop.algorithm == Algorithm::Rate || hop.value > 0);
        self.hops.iter().filter(less).map(|hop| (hop.address, hop.algorithm, hop.value))
    }

    /// Forgets those that have asked for nothing for so long that neither what they said last orders anything
    /// nor what they got since weighs anything.
    pub fn tidy(&mut self, now: Time) {
        self.hops.retain(|hop| now < hop.until + KEPT);
    }

    /// Whether a request may go to this next hop now. `dice` is a random number.
    pub fn lets(&mut self, now: Time, address: SocketAddr, category: Category, dice: u64) -> bool {
        let known = self.hops.iter_mut().find(|neighbour| neighbour.address == address);
        let Some(neighbour) = known.filter(|neighbour| now < neighbour.until) else { return true };
        match neighbour.algorithm {
            Algorithm::Loss => neighbour.loses(category, dice),
            Algorithm::Rate => neighbour.paces(now, category, self.workers),
        }
    }
}

impl Neighbour {
    /// The default algorithm of RFC 7339 section 7.2, but that the second category always goes: what was
    /// taken on is to end well.
    fn loses(&mut self, category: Category, dice: u64) -> bool {
        if self.new + self.within >= SAMPLE {
            (self.new, self.within) = (self.new / 2, self.within / 2);
        }
        if category != Category::New {
            self.within += 1;
            return true;
        }
        self.new += 1;
        // The whole is to be less by so many per cent, and only these can be: so more of them.
        let share = f64::from(self.new) / f64::from(self.new + self.within);
        let loss = (f64::from(self.value) / 100.0 / share).min(MOST_LOST);
        (dice % 1_000_000) as f64 >= loss * 1e6
    }

    /// The leaky bucket of RFC 7415 section 3.5.2, counted in intervals.
    fn paces(&mut self, now: Time, category: Category, workers: u16) -> bool {
        let workers = f64::from(workers.max(1));
        let rate = f64::from(self.value).max(LEAST_RATE) / workers;
        let drained = now.since(self.drained).as_secs_f64() * rate;
        let filled = self.filled - drained;
        let goes = match category {
            // What belongs to calls may be all that is allowed, for as long as they last.
            Category::New => filled <= TAU || now.since(self.trickled).as_secs_f64() * LEAST_RATE >= workers,
            Category::Within => true,
        };
        if goes {
            // What goes though it is too much is paid for by what comes later, within limits.
            self.filled = (filled.max(0.0) + 1.0).min(FULL);
            self.drained = now;
            self.trickled = if category == Category::New { now } else { self.trickled };
        }
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn hop(n: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], n))
    }

    fn wish(algorithm: Algorithm, value: u32, sequence: u64) -> Wish {
        Wish { algorithm, value, valid: Duration::from_millis(500), sequence: Some(sequence) }
    }

    /// Of 1,000 requests within a millisecond each, how many new ones go; every `within`th is within a
    /// dialog.
    fn going(neighbours: &mut Neighbours, from: u64, within: u64) -> (u32, u32) {
        let (mut gone, mut all) = (0, 0);
        for n in 0..1_000u64 {
            let dice = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let now = Time::from_micros(from * 1_000 + n);
            if n % within == 0 {
                assert!(neighbours.lets(now, hop(1), Category::Within, dice));
                continue;
            }
            all += 1;
            gone += u32::from(neighbours.lets(now, hop(1), Category::New, dice));
        }
        (gone, all)
    }

    #[test]
    fn a_loss_is_a_loss_of_the_whole() {
        let mut neighbours = Neighbours::default();
        neighbours.told(at(0), hop(1), &wish(Algorithm::Loss, 30, 1));
        going(&mut neighbours, 0, 2);
        let (gone, all) = going(&mut neighbours, 1, 2);
        // Half of all can be held back, so 60 % of it is.
        assert!((170..=230).contains(&gone), "{gone} of {all}");
        assert!(neighbours.lets(at(1), hop(2), Category::New, 0), "of another nobody said anything");
        assert_eq!(going(&mut neighbours, 500, 2).0, 500, "it is over");
    }

    #[test]
    fn a_loss_of_all_leaves_what_goes_first_and_a_trickle() {
        let mut neighbours = Neighbours::default();
        neighbours.told(at(0), hop(1), &wish(Algorithm::Loss, 100, 1));
        let (gone, all) = going(&mut neighbours, 1, 2);
        assert!((10..=45).contains(&gone), "{gone} of {all}");
    }

    #[test]
    fn a_rate_is_kept() {
        let mut neighbours = Neighbours::default();
        neighbours.told(at(0), hop(1), &wish(Algorithm::Rate, 100, 1));
        let gone = (0..500).filter(|n| neighbours.lets(at(*n), hop(1), Category::New, 0)).count();
        assert!((48..=58).contains(&gone), "{gone} in half a second");
        // Within dialogs more may go than otherwise.
        assert!(!neighbours.lets(at(499), hop(1), Category::New, 0));
        assert!(neighbours.lets(at(499), hop(1), Category::Within, 0));
        neighbours.told(at(499), hop(1), &wish(Algorithm::Rate, 0, 2));
        assert!(!neighbours.lets(at(900), hop(1), Category::New, 0));
        assert!(neighbours.lets(at(999), hop(1), Category::New, 0), "it is over");
    }

    #[test]
    fn a_rate_is_one_of_all_workers() {
        let mut gone = [0; 3];
        for gone in &mut gone {
            let mut neighbours = Neighbours::default();
            neighbours.set_workers(3);
            // Less than can be dealt out in whole numbers.
            for n in 0..60_000 {
                if n % 400 == 0 {
                    neighbours.told(at(n), hop(1), &wish(Algorithm::Rate, 10, n));
                }
                *gone += u32::from(neighbours.lets(at(n), hop(1), Category::New, 0));
            }
        }
        // 600, and what the tolerance of each lets through at first.
        assert!((590..=625).contains(&gone.iter().sum::<u32>()), "{gone:?} in a minute");
    }

    #[test]
    fn no_rate_at_all_leaves_a_trickle() {
        let mut neighbours = Neighbours::default();
        let mut gone = 0;
        for n in 0..600 {
            if n % 4 == 0 {
                neighbours.told(at(n * 100), hop(1), &wish(Algorithm::Rate, 0, n));
            }
            gone += u32::from(neighbours.lets(at(n * 100), hop(1), Category::New, 0));
        }
        assert!((50..=70).contains(&gone), "{gone} in a minute");
    }

    #[test]
    fn what_goes_first_leaves_a_trickle_to_what_is_new() {
        let mut neighbours = Neighbours::default();
        let mut gone = 0;
        for n in 0..6_000 {
            if n % 40 == 0 {
                neighbours.told(at(n * 10), hop(1), &wish(Algorithm::Rate, 10, n));
            }
            assert!(neighbours.lets(at(n * 10), hop(1), Category::Within, 0));
            gone += u32::from(neighbours.lets(at(n * 10), hop(1), Category::New, 0));
        }
        assert!((55..=70).contains(&gone), "{gone} in a minute");
    }

    #[test]
    fn a_moment_without_a_word_is_no_leave_to_begin_anew() {
        let mut neighbours = Neighbours::default();
        let mut gone = 0;
        for n in 0..60 {
            neighbours.told(at(n * 501), hop(1), &wish(Algorithm::Rate, 4, n));
            gone += (0..20).filter(|_| neighbours.lets(at(n * 501), hop(1), Category::New, 0)).count();
        }
        // Two in each, and the tolerance.
        assert!((115..=130).contains(&gone), "{gone} in half a minute");
    }

    #[test]
    fn a_number_far_ahead_silences_nobody_for_long() {
        let mut neighbours = Neighbours::default();
        neighbours.told(at(0), hop(1), &wish(Algorithm::Loss, 100, 5_000_000));
        neighbours.told(at(100), hop(1), &wish(Algorithm::Loss, 0, 7));
        assert_eq!(neighbours.hops[0].value, 100);
        neighbours.told(at(500), hop(1), &wish(Algorithm::Loss, 10, 8));
        assert_eq!(neighbours.hops[0].value, 10);
    }

    #[test]
    fn what_comes_late_says_nothing() {
        let mut neighbours = Neighbours::default();
        let value = |neighbours: &Neighbours| neighbours.hops[0].value;
        neighbours.told(at(0), hop(1), &wish(Algorithm::Loss, 30, 500_000));
        neighbours.told(at(1), hop(1), &wish(Algorithm::Loss, 90, 499_999));
        neighbours.told(at(1), hop(1), &wish(Algorithm::Loss, 90, 500_000));
        assert_eq!(value(&neighbours), 30);
        neighbours.told(at(1), hop(1), &wish(Algorithm::Loss, 50, 500_001));
        assert_eq!(value(&neighbours), 50);
        neighbours.told(at(2), hop(1), &wish(Algorithm::Loss, 60, 100_000_000));
        neighbours.told(at(2), hop(1), &wish(Algorithm::Loss, 70, 3));
        assert_eq!(value(&neighbours), 70, "it was started again");
        let end = Wish { valid: Duration::ZERO, ..wish(Algorithm::Loss, 0, 4) };
        neighbours.told(at(3), hop(1), &end);
        assert!(neighbours.lets(at(3), hop(1), Category::New, 0));
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut neighbours = Neighbours::default();
        for n in 0..1_000u64 {
            neighbours.told(at(n), hop(n as u16), &wish(Algorithm::Loss, 100, 1));
        }
        assert_eq!(neighbours.hops.len(), MOST);
        assert!(!neighbours.lets(at(1_000), hop(999), Category::New, 0), "the newest is known");
        neighbours.told(at(1_000), hop(2_000), &wish(Algorithm::Loss, 0, 1));
        assert!(neighbours.hops.iter().all(|n| n.address != hop(2_000)), "of the well nothing is kept");
    }

    proptest! {
        #[test]
        fn any_wishes_do_no_harm(steps in prop::collection::vec(
            (0u64..100_000, 0u16..100, any::<bool>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()), 1..200)) {
            let mut neighbours = Neighbours::default();
            for (millis, n, rate, value, valid, sequence, dice) in steps {
                let algorithm = if rate { Algorithm::Rate } else { Algorithm::Loss };
                let valid = Duration::from_millis(valid.into());
                neighbours.told(at(millis), hop(n), &Wish { algorithm, value, valid, sequence: Some(sequence) });
                prop_assert!(neighbours.lets(at(millis), hop(n), Category::Within, dice));
                neighbours.lets(at(millis), hop(n), Category::New, dice);
                prop_assert!(neighbours.hops.len() <= MOST && neighbours.hops.iter().all(|n| n.filled.is_finite()));
            }
        }
    }
}
