//! The lowest moving average of response times (paper III-B.3).

use crate::policy::candidates::Candidates;
use crate::timers::GIVE_UP;
use crate::{MOST_NODES, NodeIndex};
use wire::Time;

/// Samples that RWMA looks at (paper III-B.3).
const SAMPLES: usize = 20;
/// Keeps the precision of an average in microseconds that is divided by a share.
const WHOLE: u64 = 1_000_000;

/// The last 20 response times of one node with linear weights: the newest counts 20 times, the oldest
/// once.
#[derive(Clone, Debug, Default)]
struct Window {
    samples: [u32; SAMPLES],
    count: usize,
    next: usize,
    /// As long as there is no sample: until when the one request is waited for that it has been given.
    tried: Time,
}

impl Window {
    /// Adds a response time, microseconds.
    fn add(&mut self, micros: u32) {
        if let Some(place) = self.samples.get_mut(self.next) {
            *place = micros;
        }
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(SAMPLES);
    }

    /// The weighted average, microseconds; zero as long as there is no sample, so that who was never
    /// tried is tried first.
    fn average(&self) -> u64 {
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

/// The response times of all nodes.
#[derive(Debug)]
pub(crate) struct Rwma {
    windows: Vec<Window>,
    /// Where the last search among equals began.
    turn: usize,
}

impl Rwma {
    /// Nothing was answered yet. `turn` spreads the choices of several workers.
    pub fn new(turn: usize) -> Rwma {
        Rwma { windows: vec![Window::default(); MOST_NODES], turn }
    }

    /// A request was answered after `micros`, microseconds.
    pub fn answered(&mut self, at: NodeIndex, micros: u32) {
        if let Some(window) = invariant::some!(self.windows.get_mut(usize::from(at.0)), "a node has a window")
        {
            window.add(micros);
        }
    }

    /// Forgets a node's history, because its place belongs to a new node.
    pub fn forget(&mut self, at: NodeIndex) {
        if let Some(window) = self.windows.get_mut(usize::from(at.0)) {
            *window = Window::default();
        }
    }

    fn average(&self, at: NodeIndex) -> u64 {
        self.windows.get(usize::from(at.0)).map_or(0, Window::average)
    }

    /// The lowest average response time for its weight. Who has not answered anything yet has one request,
    /// and until that is answered counts as the mean of the others: or one that was just added would have all
    /// calls at once.
    pub fn choose(&mut self, candidates: Candidates<'_>) -> Option<NodeIndex> {
        self.turn = candidates.next_turn(self.turn);
        let (now, nodes) = (candidates.now, candidates.from(self.turn));
        let known = nodes.clone().map(|at| self.average(at)).filter(|average| *average > 0);
        let mean = known.clone().sum::<u64>() / known.count().max(1) as u64;
        let tried = |at: NodeIndex| self.windows.get(usize::from(at.0)).is_some_and(|w| w.tried > now);
        let average = |at: NodeIndex| match self.average(at) {
            0 if tried(at) => mean,
            average => average,
        };
        let best = nodes.min_by_key(|at| average(*at) * WHOLE / candidates.share(*at).max(1))?;
        if self.average(best) == 0
            && let Some(window) = self.windows.get_mut(usize::from(best.0))
        {
            window.tried = now + GIVE_UP;
        }
        Some(best)
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
}
