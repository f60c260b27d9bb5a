//! What SIPp's own statistics want of a run while it goes on: means and deviations of all times, and its
//! tables.

use super::record::{Setup, Table};

/// Times so far: how many, their sum and that of their squares, and how many of them are in each part of a
/// table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Microseconds.
    pub sum: f64,
    /// Of the squares.
    pub squares: f64,
    /// Upper bounds of a table in milliseconds, ascending; empty if there is none.
    pub bounds_ms: Vec<u32>,
    /// How many were below each, and not below the one before; the last ones were above all.
    pub parts: Vec<u64>,
}

impl Spread {
    fn new(stopwatch: Option<usize>, tables: &[Table]) -> Spread {
        let own = tables.iter().find(|table| table.stopwatch == stopwatch);
        let bounds_ms = own.map_or_else(Vec::new, |table| table.bounds_ms.clone());
        let parts = vec![0; if bounds_ms.is_empty() { 0 } else { bounds_ms.len() + 1 }];
        Spread { bounds_ms, parts, ..Spread::default() }
    }

    fn add(&mut self, micros: u64) {
        self.count += 1;
        self.sum += micros as f64;
        self.squares += micros as f64 * micros as f64;
        let part = self.bounds_ms.iter().take_while(|&&bound| micros >= u64::from(bound) * 1_000).count();
        if let Some(part) = self.parts.get_mut(part) {
            *part += 1;
        }
    }

    fn merge(&mut self, other: &Spread) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.parts.iter_mut().zip(&other.parts).for_each(|(a, b)| *a += b);
    }

    /// What came since `before`, but for the parts.
    #[must_use]
    pub fn since(&self, before: &Spread) -> Spread {
        Spread {
            count: self.count.saturating_sub(before.count),
            sum: self.sum - before.sum,
            squares: self.squares - before.squares,
            ..Spread::default()
        }
    }

    /// Mean and standard deviation, microseconds; 0 of nothing.
    pub fn mean_and_deviation(&self) -> (f64, f64) {
        if self.count == 0 {
            return (0.0, 0.0);
        }
        let n = self.count as f64;
        let mean = self.sum / n;
        let variance = if self.count > 1 { (self.squares - self.sum * mean) / (n - 1.0) } else { 0.0 };
        (mean, variance.max(0.0).sqrt())
    }
}

/// All that is kept so, of the whole run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    /// The scenario's stopwatches, with their names.
    pub stopwatches: Vec<(String, Spread)>,
    /// Calls, from when they really began to their end, whatever that was.
    pub lengths: Spread,
    /// The scenario's counters.
    pub counters: Vec<(String, u64)>,
}

impl Figures {
    pub(super) fn new(setup: &Setup) -> Figures {
        let own = |(at, name): (usize, &String)| (name.clone(), Spread::new(Some(at), &setup.tables));
        Figures {
            stopwatches: setup.stopwatches.iter().enumerate().map(own).collect(),
            lengths: Spread::new(None, &setup.tables),
            counters: Vec::new(),
        }
    }

    pub(super) fn stopwatch(&mut self, index: usize, micros: u64) {
        if let Some((_, own)) = self.stopwatches.get_mut(index) {
            own.add(micros);
        }
    }

    pub(super) fn ended(&mut self, micros: u64) {
        self.lengths.add(micros);
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Figures) {
        self.stopwatches.iter_mut().zip(&other.stopwatches).for_each(|(a, b)| a.1.merge(&b.1));
        self.lengths.merge(&other.lengths);
        self.counters.iter_mut().zip(&other.counters).for_each(|(a, b)| a.1 += b.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_mean_a_deviation_and_a_part() {
        let tables = [Table { stopwatch: None, bounds_ms: vec![10, 20] }];
        let mut own = Spread::new(None, &tables);
        assert_eq!(own.mean_and_deviation(), (0.0, 0.0));
        own.add(9_999);
        assert_eq!(own.mean_and_deviation(), (9_999.0, 0.0), "of one there is no deviation");
        let before = own.clone();
        for micros in [10_000, 20_000] {
            own.add(micros);
        }
        assert_eq!(own.parts, [1, 1, 1]);
        let (mean, deviation) = own.since(&before).mean_and_deviation();
        assert!(mean == 15_000.0 && (deviation - 7_071.07).abs() < 0.1, "{deviation}");
        let mut both = own.clone();
        both.merge(&own);
        assert_eq!((both.count, both.parts), (6, vec![2, 2, 2]));
    }
}
