//! How long a search for the peak may take: the runner waits so long, and a plan refuses a longer one.

use super::{Population, Setup};
use load::population::SearchOptions;
use std::time::Duration;
use toml_form::error::Fault;
use toml_form::form::DAY;
use toml_form::text::show_duration;

/// Calls of a trial have this long to end, and the generator rests between two trials.
const ENDS: Duration = Duration::from_secs(62);
/// A trial is prepared in this time.
const PREPARED: Duration = Duration::from_secs(10);
/// A search takes this long at most.
const LONGEST_DAYS: u32 = 7;

/// The longest that the search of a setup may take: all trials that the generator allows itself.
pub fn search_limit(setup: &Setup) -> Duration {
    let longest = DAY.saturating_mul(LONGEST_DAYS);
    let options = &setup.workload.options;
    // A trial of RFC 7502 lasts as long as its attempts take.
    if options.iter().any(|option| option.trim_start_matches('-') == "rfc7502") {
        return longest;
    }
    let population = Population::of(setup).ok().flatten();
    let calls = setup.measuring.measure.saturating_add(ENDS);
    let trial = population.as_ref().map_or(calls, Population::trial).saturating_add(PREPARED);
    trial.saturating_mul(SearchOptions::default().trials)
}

/// What is wrong with a search that the runner would have to end.
pub(super) fn too_long(setup: &Setup) -> Option<Fault> {
    let longest = DAY.saturating_mul(LONGEST_DAYS);
    if !setup.workload.find_peak || setup.workload.associations > 0 {
        return None;
    }
    let limit = search_limit(setup);
    let what = || {
        let trials = SearchOptions::default().trials;
        format!(
            "a search of {trials} trials may take {}: more than {LONGEST_DAYS} days",
            show_duration(limit)
        )
    };
    (limit > longest).then(|| Fault::new(what(), "make `measure`, the length of a trial, shorter"))
}
