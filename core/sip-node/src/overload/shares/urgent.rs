//! Emergency calls, of which some are taken on whoever brings them.

use super::super::{CALL, Verdict};
use super::Shares;
/// Emergency calls that are taken on in a window whatever else there is: what part of all that may be taken
/// on, and no fewer than this; of one source no more than half of them.
const URGENT: f32 = 0.1;
const URGENT_LEAST: f32 = 4.0;

impl Shares {
    /// The numbers whose calls the kernel lets pass.
    pub fn set_numbers(&mut self, numbers: &[Vec<u8>]) {
        self.table.set_numbers(numbers.iter().map(|number| &number[..]));
    }

    /// How many emergency calls may be taken on in the next window whatever else there is.
    pub(super) fn allow_urgent(&mut self, budget: f32, seconds: f32) {
        self.urgent = (URGENT * budget * seconds / CALL as f32).max(URGENT_LEAST) as u16;
        self.urgent_each = self.urgent / 2;
    }

    /// Judges an emergency call. It is new work like any other, but a few from each source are accepted
    /// whatever the load. They are few, so that claiming an emergency does not bypass overload control. Only
    /// sources above their share need them: others are served in full. `known`: the call was accepted before.
    pub fn judge_emergency(
        &mut self,
        source: u64,
        call: u16,
        units: u32,
        (stream, known): (bool, bool),
    ) -> Verdict {
        let places = self.places(source);
        let (take, answer) = self.weigh(places, call, units, known);
        if take {
            return Verdict::Take;
        }
        let (mut few, mut little) = (false, known);
        for (row, at) in self.rows.iter_mut().zip(places) {
            let Some(bucket) = row.get_mut(at) else { continue };
            few |= bucket.urgent < self.urgent_each;
            // Somebody to whom nobody answers waits, and does not try elsewhere.
            little |= bucket.urgent < self.urgent_each.saturating_mul(2);
            bucket.urgent = bucket.urgent.saturating_add(1);
        }
        if !few || self.urgent == 0 {
            return self.refuse(answer || little, units, stream);
        }
        self.urgent -= 1;
        for (row, at) in self.rows.iter_mut().zip(places) {
            if let Some(bucket) = row.get_mut(at) {
                bucket.taken = bucket.taken.saturating_add(units);
            }
        }
        Verdict::Take
    }
}

#[cfg(test)]
mod tests {
    use super::super::Answers;
    use super::*;

    const SAID: Answers = Answers { all: 100.0, datagrams: 100.0, streams: 100.0 };
    const FLOOD: u64 = 1_000_000_007;

    fn mix(n: u64) -> u64 {
        let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }

    /// So many emergency calls in a window, from this source: how many are taken on.
    fn brings(shares: &mut Shares, source: u64, window: u64, calls: u64) -> usize {
        let lots = (0..calls).map(|n| mix(window << 32 ^ source << 20 ^ n) as u16);
        let urgent = |lot| shares.judge_emergency(source, lot, CALL, (false, false)) == Verdict::Take;
        lots.map(urgent).filter(|taken| *taken).count()
    }

    #[test]
    fn a_flood_that_says_it_is_urgent_gets_its_share_and_a_few_calls() {
        for (budget, few) in [(400.0f32, 2), (80_000.0, 50)] {
            let mut shares = Shares::new(7);
            shares.begin(budget, SAID, 0.05);
            let share = (budget / CALL as f32 * 0.05) as usize;
            let (mut flood, mut other, mut least) = (0, 0, 0);
            for window in 0..300 {
                let taken = brings(&mut shares, FLOOD, window, 3 * share as u64 + 50);
                // One from elsewhere, and one whose source brings as much as nobody else but few such calls.
                let from_elsewhere = brings(&mut shares, 5, window, 1);
                for n in 0..3 * share as u64 + 50 {
                    shares.judge(6, mix(window << 32 | n << 8 | 3) as u16, CALL, false);
                }
                let among_many = brings(&mut shares, 6, window, 1);
                if window >= 100 {
                    (flood, other, least) = (flood + taken, other + from_elsewhere, least + among_many);
                }
                shares.turn(budget, SAID, 0.05);
            }
            assert!(flood <= 200 * (share + few + 3), "{flood} in 200 windows of {share}");
            assert_eq!((other, least), (200, 200), "of 200, with {budget}");
        }
    }

    #[test]
    fn refusals_of_such_calls_are_said_as_far_as_they_are_few() {
        let mut shares = Shares::new(7);
        shares.begin(400.0, Answers { all: 4_000.0, datagrams: 4_000.0, streams: 4_000.0 }, 0.05);
        shares.rows.iter_mut().flatten().for_each(|bucket| (bucket.take, bucket.answer) = (0, 0));
        let judged: Vec<Verdict> =
            (0..20).map(|n| shares.judge_emergency(FLOOD, n, CALL, (false, false))).collect();
        assert_eq!(judged[..2], [Verdict::Take; 2]);
        assert_eq!(judged[2..4], [Verdict::Refuse; 2]);
        assert_eq!(judged[4..], [Verdict::Drop; 16]);
    }
}
