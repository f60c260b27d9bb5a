//! Calls taken on of late in an overload, so that what repeats their INVITE is not passed over unread; and
//! others that are known for a while.

use core::time::Duration;
use wire::Time;

/// Words of a generation in a line: both generations and all bits of a call are in one line of the
/// processor's cache, as nearly each look misses it.
const HALF: usize = 4;
/// Bits of each generation, a power of two: of 30,000 calls a second for [`LIFE`], two each, an eighth is
/// set.
const BITS: usize = 1 << 24;
/// How long a generation takes what comes: as long as a client repeats its INVITE (64 times T1).
const LIFE: Duration = Duration::from_secs(32);

/// The words of one generation, and those of the other. An array, so that zeroes come from the system as they
/// are needed; what is so large begins at a line of the cache anyway.
type Line = [[u64; HALF]; 2];

/// Two generations of bits, two for each call. It may take a call for one that it is not, which costs a look
/// at the transactions; it forgets none before its time.
pub struct Recent {
    /// None before the first call.
    lines: Vec<Line>,
    /// Which half of each line is the generation that takes what comes.
    young: usize,
    since: Time,
    /// How many lines there are to be, a power of two, and how long a generation takes what comes.
    wanted: usize,
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
        let wanted = bits / (64 * HALF);
        Recent { lines: Vec::new(), young: 0, since: Time::ZERO, wanted, life }
    }

    /// Remembers a call by a hash of its Call-ID.
    pub fn note(&mut self, now: Time, call: u64) {
        if self.lines.is_empty() {
            self.lines = vec![[[0; HALF]; 2]; self.wanted];
            self.since = now;
        }
        self.turn(now);
        let (line, bits) = places(call, self.wanted);
        let half = self.lines.get_mut(line).and_then(|line| line.get_mut(self.young));
        for (word, bit) in half.into_iter().flatten().zip(bits) {
            *word |= bit;
        }
    }

    /// A new generation, if it is time: who asks whether something is not known any more sees to that.
    pub fn turn(&mut self, now: Time) {
        if !self.lines.is_empty() && now.since(self.since) >= self.life {
            self.young ^= 1;
            let halves = self.lines.iter_mut().filter_map(|line| line.get_mut(self.young));
            halves.for_each(|half| *half = [0; HALF]);
            self.since = now;
        }
    }

    /// Whether it may have been noted within the life of a generation.
    pub fn knows(&self, call: u64) -> bool {
        let (line, bits) = places(call, self.wanted);
        let has = |half: &[u64; HALF]| half.iter().zip(bits).all(|(word, bit)| word & bit == bit);
        self.lines.get(line).is_some_and(|line| line.iter().any(has))
    }

    /// Forgets all, with the memory.
    pub fn clear(&mut self) {
        *self = Recent { lines: Vec::new(), young: 0, since: Time::ZERO, ..*self };
    }
}

/// The line of a call among so many, and its two bits there. The lowest bits of the hash decide about its
/// fate and are the same for many.
fn places(call: u64, lines: usize) -> (usize, [u64; HALF]) {
    // The multipliers of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
    let [line, place] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb].map(|n| call.wrapping_mul(n) >> 40);
    let mut bits = [0; HALF];
    for at in [place & 0xff, place >> 8 & 0xff] {
        if let Some(word) = bits.get_mut((at / 64) as usize) {
            *word |= 1 << (at % 64);
        }
    }
    (line as usize % lines.max(1), bits)
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
