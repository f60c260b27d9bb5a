//! What only shows of runs that open associations when all settings are known.

use super::check::Wrong;
use super::{Setup, Sockets, System};

/// Keys of `[workload]` that are about calls.
const OF_CALLS: [&str; 10] = [
    "scenario",
    "answer",
    "users",
    "arrivals",
    "transport",
    "connections",
    "callees",
    "hold",
    "authenticate",
    "options",
];

/// What is wrong with a workload of associations, or with what only such a one has.
pub(super) fn of_workload(setup: &Setup, written: impl Fn(&str) -> bool) -> Vec<Wrong> {
    let workload = &setup.workload;
    let mut wrong: Vec<Wrong> = Vec::new();
    if workload.associations == 0 {
        if written("request") {
            let what = "only associations have `request`".to_owned();
            wrong.push(("request", what, "add associations = 1000 to [workload], or remove it"));
        }
        if setup.systems.values().any(System::serves_associations) {
            let what = "a system of kind \"echo\" or \"front-end\" answers no calls".to_owned();
            wrong.push(("associations", what, "add associations = 1000 to [workload]"));
        }
        return wrong;
    }
    for key in OF_CALLS.into_iter().filter(|key| written(key)) {
        wrong.push((key, format!("associations have no `{key}`"), "remove it, or remove associations"));
    }
    if let Some((name, _)) = setup.systems.iter().find(|(_, system)| !system.serves_associations()) {
        let what = format!("system {name} is of a kind that is measured by calls");
        wrong.push(("associations", what, "write kind = \"echo\" or \"front-end\" for all systems"));
    }
    if !setup.faults.is_empty() {
        let what = "faults while associations are opened are not in this version".to_owned();
        wrong.push(("associations", what, "remove [[fault]]"));
    }
    wrong
}

/// What is wrong with the sockets of a system.
pub(super) fn of_system(system: &System) -> Vec<Wrong> {
    let mut wrong: Vec<Wrong> = Vec::new();
    if system.serves_associations() {
        if system.piggyback && !system.sockets.need_sctp() {
            let what = "only the handshake of SCTP carries a request".to_owned();
            wrong.push(("piggyback", what, "write sockets = \"one-to-many\", or remove piggyback"));
        }
        if !system.config.is_empty() {
            let what = format!("a system of kind \"{}\" has no configuration", system.kind.name());
            wrong.push(("config", what, "remove config"));
        }
        return wrong;
    }
    let what = |key: &str| format!("only systems of kind \"echo\" and \"front-end\" have `{key}`");
    if system.sockets != Sockets::Udp {
        wrong.push(("sockets", what("sockets"), "remove it, or write such a kind"));
    }
    if system.piggyback {
        wrong.push(("piggyback", what("piggyback"), "remove it, or write such a kind"));
    }
    wrong
}
