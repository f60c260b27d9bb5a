//! What a plan refuses although it can be read: results that were made before such a rule stay readable.

use super::check::at;
use super::keys::joined;
use super::layers::Origins;
use super::read::numbered;
use super::{Claim, FaultKind, FaultPlace, FaultStep, Limit, Setup, Transport};
use super::{overlaps, search, unread};
use toml_form::error::{ConfigError, Fault};

/// All of it. The faults of the setups are in the order of the file.
pub(super) fn of_setups(setups: &[Setup], claims: &[Claim], origins: &Origins) -> Vec<ConfigError> {
    let mut errors: Vec<ConfigError> = Vec::new();
    let mut add = |key: &str, fault: Fault| {
        let error = at(origins, key, fault);
        if !errors.contains(&error) {
            errors.push(error);
        }
    };
    for setup in setups {
        for (nth, fault) in setup.faults.iter().enumerate() {
            for (key, wrong) in not_yet(fault, setup) {
                add(&joined(&numbered("fault", nth), key), wrong);
            }
        }
        for (nth, what) in overlaps::overlaps(setup) {
            let mend = "move one of them, or make `lasts` shorter";
            add(&joined(&numbered("fault", nth), "at"), Fault::new(what, mend));
        }
        if let Some(fault) = search::too_long(setup) {
            add("measure", fault);
        }
    }
    for (nth, fault) in elsewhere(setups, claims) {
        add(&joined(&numbered("claim", nth), "that"), fault);
    }
    errors.extend(unread::check(setups, origins));
    errors
}

/// What of a fault cannot be injected so far, with its key.
fn not_yet(fault: &FaultStep, setup: &Setup) -> Vec<(&'static str, Fault)> {
    let mut wrong = Vec::new();
    let kind = fault.kind.name();
    if fault.place == FaultPlace::Backend && fault.kind != FaultKind::Stop {
        let what = format!("the fault \"{kind}\" of a back end is not in this version");
        wrong.push(("kind", Fault::new(what, "write \"stop\", or remove `place`")));
    }
    let is_secure = matches!(setup.workload.transport, Transport::Tls | Transport::Wss);
    if fault.kind == FaultKind::RenewCertificate && !is_secure {
        let what = "there is no certificate without TLS".to_owned();
        wrong.push(("kind", Fault::new(what, "write transport = \"tls\" or \"wss\" in [workload]")));
    }
    let mut concerned = setup.systems.iter().filter(|(name, _)| fault.concerns(name));
    if let Some((name, _)) = concerned.find(|(_, system)| system.is_baseline()) {
        let what = format!("a fault of {name}, which has no process of a server");
        wrong.push(("systems", Fault::new(what, "name other systems: systems = [\"...\"]")));
    }
    wrong
}

/// Claims that compare with values of factors at which the other system does not run, by number.
fn elsewhere(setups: &[Setup], claims: &[Claim]) -> Vec<(usize, Fault)> {
    let mut wrong = Vec::new();
    for (nth, claim) in claims.iter().enumerate() {
        let has_values = matches!(&claim.limit, Limit::Ratio { at, .. } if !at.is_empty());
        let missing = |setup: &Setup| {
            let (system, there) = claim.other_side(&setup.combination).filter(|_| has_values)?;
            let runs = setups
                .iter()
                .find(|other| other.combination == there)
                .and_then(|other| other.systems.get(system))
                .is_some_and(|other| other.runs_at(&there));
            let system = system.to_owned();
            (claim.concerns(&setup.combination) && !runs).then_some((system, there))
        };
        if let Some((system, there)) = setups.iter().find_map(missing) {
            let what = format!("{system} does not run at {there}");
            let mend = format!("compare with values at which it runs, or change `at` of [system.{system}]");
            wrong.push((nth, Fault::new(what, mend)));
        }
    }
    wrong
}
