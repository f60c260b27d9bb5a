//! What response times tell: the moving average of RWMA, and the costs of methods beside each other.

use crate::Kind;
use wire::Time;

/// Samples that RWMA looks at (paper III-B.3).
const SAMPLES: usize = 20;

/// The last 20 response times of one node with linear weights: the newest counts 20 times, the oldest
/// once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    samples: [u32; SAMPLES],
    count: usize,
    next: usize,
    /// As long as there is no sample: until when the one request is waited for that it has been given.
    pub tried: Time,
}

impl Window {
    /// Adds a response time, microseconds.
    pub fn add(&mut self, micros: u32) {
        if let Some(place) = self.samples.get_mut(self.next) {
            *place = micros;
        }
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(SAMPLES);
    }

    /// The weighted average, microseconds; zero as long as there is no sample, so that who was never
    /// tried is tried first.
    pub fn average(&self) -> u64 {
        let (mut sum, mut weights) = (0u64, 0u64);
        for age in 0..self.count {
            let at = (self.next + SAMPLES - 1 - age) % SAMPLES;
            let weight = (SAMPLES - age) as u64;
            sum += weight * u64::from(self.samples.get(at).copied().unwrap_or(0));
            weights += weight;
        }
        sum / weights.max(1)
    }
}

/// One thousandth of the cost of a BYE, in which costs are counted.
pub const UNIT: u32 = 1_000;
/// What an INVITE costs beside a BYE until something better is known (paper VI-A: "1.75").
const INVITE: u32 = 1_750;
/// Samples of a kind, and of BYE, before its estimate counts.
const ENOUGH: u32 = 32;
/// A new sample's part in the running mean is one in this many.
const SLOW: f64 = 64.0;
/// How far an estimate may go from one: a stray must not turn the choice upside down.
const BOUNDS: (f64, f64) = (0.1, 20.0);

/// What transactions of each kind cost a node, beside a BYE.
///
/// The estimate comes from transactions that had a node for themselves from beginning to end: nothing
/// was unfinished there when they came and nothing came while they were worked on. Their response
/// time is their service time and the way there and back, whatever the node's scheduling, and never the
/// wait behind others. Of an INVITE the first response other than 100 ends the sample, because what
/// comes after it is people.
#[derive(Clone, Debug)]
pub struct Costs {
    fixed: [u32; Kind::COUNT],
    mean: [f64; Kind::COUNT],
    seen: [u32; Kind::COUNT],
}

impl Default for Costs {
    fn default() -> Costs {
        Costs::new([INVITE, UNIT, UNIT, UNIT])
    }
}

impl Costs {
    /// Costs to begin with, in thousandths of a BYE.
    pub const fn new(fixed: [u32; Kind::COUNT]) -> Costs {
        Costs { fixed, mean: [0.0; Kind::COUNT], seen: [0; Kind::COUNT] }
    }

    /// A transaction that had its node for itself took so long.
    pub fn sample(&mut self, kind: Kind, micros: u32) {
        let (Some(mean), Some(seen)) = (self.mean.get_mut(kind as usize), self.seen.get_mut(kind as usize))
        else {
            return;
        };
        *seen = seen.saturating_add(1);
        // The plain mean of the first ones, then a moving one.
        *mean += (f64::from(micros) - *mean) / f64::from(*seen).min(SLOW);
    }

    /// The cost of a kind in thousandths of a BYE; `estimated`: by what was measured, if that is enough.
    pub fn of(&self, kind: Kind, estimated: bool) -> u32 {
        let at = kind as usize;
        let fixed = self.fixed.get(at).copied().unwrap_or(UNIT);
        let known = |k: usize| self.seen.get(k).is_some_and(|n| *n >= ENOUGH);
        if !(estimated && known(at) && known(Kind::Bye as usize)) {
            return fixed;
        }
        let ratio = self.mean[at] / self.mean[Kind::Bye as usize].max(1.0);
        (ratio.clamp(BOUNDS.0, BOUNDS.1) * f64::from(UNIT)) as u32
    }

    /// The costs of all kinds.
    pub fn all(&self, estimated: bool) -> [u32; Kind::COUNT] {
        Kind::ALL.map(|kind| self.of(kind, estimated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_twenty_counts_most() {
        let mut window = Window::default();
        assert_eq!(window.average(), 0);
        window.add(100);
        assert_eq!(window.average(), 100);
        window.add(200);
        // (20 * 200 + 19 * 100) / 39
        assert_eq!(window.average(), 5_900 / 39);
        for n in 1..=20 {
            window.add(n);
        }
        // The sum of squares over the sum of numbers: nothing older is left.
        assert_eq!(window.average(), 2_870 / 210);
    }

    #[test]
    fn costs_are_fixed_until_enough_was_seen() {
        let mut costs = Costs::default();
        assert_eq!(costs.all(true), [1_750, 1_000, 1_000, 1_000]);
        for _ in 0..31 {
            costs.sample(Kind::Invite, 9_000);
            costs.sample(Kind::Bye, 3_000);
        }
        assert_eq!(costs.of(Kind::Invite, true), 1_750);
        costs.sample(Kind::Invite, 9_000);
        costs.sample(Kind::Bye, 3_000);
        assert_eq!(costs.of(Kind::Invite, true), 3_000);
        assert_eq!(costs.of(Kind::Invite, false), 1_750);
        assert_eq!(costs.of(Kind::Register, true), 1_000);
        for _ in 0..5_000 {
            costs.sample(Kind::Invite, u32::MAX);
        }
        assert_eq!(costs.of(Kind::Invite, true), 20_000, "bounded");
    }
}
