//! What scenarios want measured besides what is always measured: stopwatches, counters, tables of times.

use super::events::Began;
use super::figures::Figures;
use super::hist::Hist;
use super::record::{Setup, Table, micros};
use wire::Time;

/// Stopwatches that are kept: each of the two scenarios has 64 at most.
const MOST_STOPWATCHES: usize = 128;

/// One latency, counted from both starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paired {
    /// From when it was meant to begin: what a user would have seen.
    pub intended: Hist,
    /// From when it did begin: what was on the wire.
    pub sent: Hist,
}

impl Paired {
    #[inline]
    pub(super) fn record(&mut self, now: Time, began: Began) {
        self.intended.record(micros(now, began.intended));
        self.sent.record(micros(now, began.sent));
    }

    pub(super) fn merge(&mut self, other: &Paired) {
        self.intended.merge(&other.intended);
        self.sent.merge(&other.sent);
    }
}

/// The stopwatches, counters and tables of a run's scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    stopwatches: Vec<(String, Paired)>,
    tallies: Vec<(String, u64)>,
    tables: Vec<Table>,
    /// What SIPp's statistics want, if that is kept.
    figures: Option<Box<Figures>>,
}

impl Custom {
    pub(super) fn new(setup: &Setup) -> Custom {
        let stopwatches = setup.stopwatches.iter().take(MOST_STOPWATCHES);
        Custom {
            stopwatches: stopwatches.map(|name| (name.clone(), Paired::default())).collect(),
            tallies: setup.tallies.iter().map(|name| (name.clone(), 0)).collect(),
            tables: setup.tables.clone(),
            figures: setup.figures.then(|| Box::new(Figures::new(setup))),
        }
    }

    /// The stopwatches and their names, of the measured window.
    pub fn stopwatches(&self) -> &[(String, Paired)] {
        &self.stopwatches
    }

    /// The counters and their names, of the whole run.
    pub fn tallies(&self) -> &[(String, u64)] {
        &self.tallies
    }

    /// The tables of times.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    pub(super) fn figures(&self) -> Option<Figures> {
        self.figures.as_ref().map(|own| Figures { counters: self.tallies.clone(), ..Figures::clone(own) })
    }

    /// A call ended after this many microseconds.
    #[inline]
    pub(super) fn call_ended(&mut self, micros: u64) {
        self.figures.iter_mut().for_each(|own| own.ended(micros));
    }

    /// A stopwatch was stopped; `measured`: it was started in the measured window. An index that was not
    /// announced is ignored.
    #[inline]
    pub(super) fn stopped(&mut self, index: usize, now: Time, began: Began, measured: bool) {
        self.figures.iter_mut().for_each(|own| own.stopwatch(index, micros(now, began.sent)));
        if measured && let Some((_, times)) = self.stopwatches.get_mut(index) {
            times.record(now, began);
        }
    }

    /// A counter goes up by one.
    #[inline]
    pub(super) fn count(&mut self, index: usize) {
        if let Some((_, count)) = self.tallies.get_mut(index) {
            *count += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Custom) {
        self.stopwatches.iter_mut().zip(&other.stopwatches).for_each(|(a, b)| a.1.merge(&b.1));
        self.tallies.iter_mut().zip(&other.tallies).for_each(|(a, b)| a.1 += b.1);
    }
}
