//! Calls taken on of late in an overload, so that what repeats their INVITE is not passed over unread.

use core::time::Duration;
use wire::Time;

/// Bits of each generation, a power of two.
const BITS: usize = 1 << 20;
/// How long a generation takes what comes: as long as a client repeats its INVITE (64 times T1).
const LIFE: Duration = Duration::from_secs(32);

/// Two generations of bits, one for each call. It may take a call for one that it is not, which costs a look at the
/// transactions; it forgets none before its time.
#[derive(Default)]
pub struct Recent {
    /// None before the first call.
    young: Vec<u64>,
    old: Vec<u64>,
    since: Time,
}

impl Recent {
    /// Remembers a call by a hash of its Call-ID.
    pub fn note(&mut self, now: Time, call: u64) {
        if self.young.is_empty() {
            (self.young, self.old) = (vec![0; BITS / 64], vec![0; BITS / 64]);
            self.since = now;
        }
        if now.since(self.since) >= LIFE {
            core::mem::swap(&mut self.young, &mut self.old);
            self.young.fill(0);
            self.since = now;
        }
        let (word, bit) = place(call);
        if let Some(word) = self.young.get_mut(word) {
            *word |= bit;
        }
    }

    /// Whether it may have been noted within the life of a generation.
    pub fn knows(&self, call: u64) -> bool {
        let (word, bit) = place(call);
        [&self.young, &self.old].iter().any(|bits| bits.get(word).is_some_and(|word| word & bit != 0))
    }

    /// Forgets all, with the memory.
    pub fn clear(&mut self) {
        *self = Recent::default();
    }
}

/// The word and the bit of a call. The lowest bits of the hash decide about its fate and are the same for many.
fn place(call: u64) -> (usize, u64) {
    let at = (call >> 16) as usize % BITS;
    (at / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
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
