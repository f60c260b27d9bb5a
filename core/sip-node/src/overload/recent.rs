//! Calls taken on of late in an overload, so that what repeats their INVITE is not passed over unread; and others that are
//! known for a while.

use core::time::Duration;
use wire::Time;

/// Bits of each generation, a power of two: of 30,000 calls a second for [`LIFE`], two each, an eighth is set.
const BITS: usize = 1 << 24;
/// How long a generation takes what comes: as long as a client repeats its INVITE (64 times T1).
const LIFE: Duration = Duration::from_secs(32);

/// Two generations of bits, two for each call. It may take a call for one that it is not, which costs a look at the
/// transactions; it forgets none before its time.
pub struct Recent {
    /// None before the first call.
    young: Vec<u64>,
    old: Vec<u64>,
    since: Time,
    /// Bits of a generation, a power of two, and how long it takes what comes.
    bits: usize,
    life: Duration,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::new(BITS, LIFE)
    }
}

impl Recent {
    /// With so many bits in a generation, a power of two, which is known for one to two lives.
    pub fn new(bits: usize, life: Duration) -> Recent {
        Recent { young: Vec::new(), old: Vec::new(), since: Time::ZERO, bits, life }
    }

    /// Remembers a call by a hash of its Call-ID.
    pub fn note(&mut self, now: Time, call: u64) {
        if self.young.is_empty() {
            (self.young, self.old) = (vec![0; self.bits / 64], vec![0; self.bits / 64]);
            self.since = now;
        }
        self.turn(now);
        for (word, bit) in places(call, self.bits) {
            if let Some(word) = self.young.get_mut(word) {
                *word |= bit;
            }
        }
    }

    /// A new generation, if it is time: who asks whether something is not known any more sees to that.
    pub fn turn(&mut self, now: Time) {
        if !self.young.is_empty() && now.since(self.since) >= self.life {
            core::mem::swap(&mut self.young, &mut self.old);
            self.young.fill(0);
            self.since = now;
        }
    }

    /// Whether it may have been noted within the life of a generation.
    pub fn knows(&self, call: u64) -> bool {
        let places = places(call, self.bits);
        let has = |bits: &Vec<u64>| {
            places.iter().all(|(word, bit)| bits.get(*word).is_some_and(|word| word & bit != 0))
        };
        [&self.young, &self.old].into_iter().any(has)
    }

    /// Forgets all, with the memory.
    pub fn clear(&mut self) {
        *self = Recent::new(self.bits, self.life);
    }
}

/// The words and bits of a call. The lowest bits of the hash decide about its fate and are the same for many.
fn places(call: u64, bits: usize) -> [(usize, u64); 2] {
    // The multipliers of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
    [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb].map(|factor| {
        let at = (call.wrapping_mul(factor) >> 40) as usize % bits;
        (at / 64, 1 << (at % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    /// Hashes as they are: of what is taken on the lowest 16 bits are small.
    #[test]
    fn few_are_taken_for_others_however_many_there_are() {
        let mut recent = Recent::default();
        let hash = |n: u64| {
            let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (n ^ n >> 31) & 0xf_ffff_1fff
        };
        (0..500_000).for_each(|n| recent.note(at(1), hash(n)));
        assert!((0..500_000).all(|n| recent.knows(hash(n))));
        let mistaken = (500_000..600_000).filter(|n| recent.knows(hash(*n))).count();
        assert!(mistaken < 1_000, "{mistaken} of 100,000");
    }

    #[test]
    fn a_call_is_known_for_as_long_as_it_may_be_repeated() {
        let mut recent = Recent::default();
        assert!(!recent.knows(7 << 16));
        recent.note(at(0), 7 << 16);
        recent.note(at(31), 8 << 16);
        recent.note(at(32), 9 << 16);
        assert!([7, 8, 9].iter().all(|n| recent.knows(n << 16)));
        recent.note(at(64), 10 << 16);
        assert!(
            [9, 10].iter().all(|n| recent.knows(n << 16)) && !recent.knows(7 << 16) && !recent.knows(8 << 16)
        );
        recent.clear();
        assert!(!recent.knows(10 << 16));
    }
}
