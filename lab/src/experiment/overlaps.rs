//! Faults that would have to happen at the same time: the lab injects one after the other.

use super::{FaultStep, Setup};
use std::time::Duration;
use toml_form::text::show_duration;

/// When a fault happens, from and until, and its number in the file.
type Span = (Duration, Duration, usize);

/// Of each system the first fault that begins before another one is over: its number, and what is wrong.
pub(super) fn overlaps(setup: &Setup) -> Vec<(usize, String)> {
    let here = setup.systems.iter().filter(|(_, system)| system.runs_at(&setup.combination));
    let of_system = |(name, _): (&String, _)| {
        let (before, after) = first_overlap(spans(setup, name))?;
        let what = format!(
            "the fault at {} begins before that of {} is over, at {}: {name} has one at a time",
            show_duration(after.0),
            show_duration(before.0),
            show_duration(before.1)
        );
        Some((after.2, what))
    };
    here.filter_map(of_system).collect()
}

/// All faults that the runs of a system have, in the order in which they are injected.
fn spans(setup: &Setup, system: &str) -> Vec<Span> {
    let mut all = Vec::new();
    let concerned = setup.faults.iter().enumerate().filter(|(_, fault)| fault.concerns(system));
    for (nth, fault) in concerned {
        let times = FaultStep::times(fault, setup.measuring.measure);
        all.extend(times.into_iter().map(|at| (at, at.saturating_add(fault.length()), nth)));
    }
    all.sort_unstable();
    all
}

/// The first that begins within another one. What repeats itself too soon is reported elsewhere.
fn first_overlap(spans: Vec<Span>) -> Option<(Span, Span)> {
    let mut open: Option<Span> = None;
    for span in spans {
        if let Some(before) = open.filter(|before| span.0 < before.1 && span.2 != before.2) {
            return Some((before, span));
        }
        open = open.filter(|before| before.1 > span.1).or(Some(span));
    }
    None
}
