//! Keys that are written and that no run reads: what they ask for would not happen.

use super::check::at;
use super::keys::{Keys, joined, shown};
use super::layers::Origins;
use super::read::numbered;
use super::{FaultKind, FaultPlace, FaultStep, Setup, System, SystemKind, WarmUp};
use std::collections::BTreeSet;
use toml_form::error::{ConfigError, Fault};

/// Keys that count under a condition alone.
struct Rule<T> {
    /// The section of the keys; empty for the top and for sections of which there are several.
    section: &'static str,
    keys: &'static [&'static str],
    /// Whether a run reads them.
    are_read: fn(&T) -> bool,
    /// Where they count.
    only: &'static str,
    mend: &'static str,
}

const OF_SETUPS: &[Rule<Setup>] = &[
    Rule {
        section: "",
        keys: &[
            "measure",
            "warm_up",
            "tolerated_failures",
            "tolerated_retransmissions",
            "capture",
            "witness",
        ],
        are_read: makes_calls,
        only: "in runs that make calls",
        mend: "remove it, or `associations` of [workload]",
    },
    Rule {
        section: "",
        keys: &["warm_up"],
        are_read: |setup| setup.workload.users > 0 || !setup.workload.find_peak,
        only: "in runs at one rate, or of users",
        mend: "remove it, or find_peak of [workload]",
    },
    Rule {
        section: "",
        keys: &["warm_up_limit"],
        are_read: |setup| {
            let warms_up = setup.workload.users > 0 || !setup.workload.find_peak;
            makes_calls(setup) && warms_up && setup.measuring.warm_up == WarmUp::Steady
        },
        only: "in runs that make calls until all is steady",
        mend: "write warm_up = \"steady\" at the top, or remove it",
    },
    Rule {
        section: "network",
        keys: &["queue"],
        are_read: |setup| setup.network.rate > 0.0,
        only: "beside `rate` in [network]",
        mend: "write rate = 10 in [network], or remove it",
    },
    Rule {
        section: "workload",
        keys: &["rows", "registrations", "workers"],
        are_read: makes_calls,
        only: "in runs that make calls",
        mend: "remove it, or associations",
    },
    Rule {
        section: "workload",
        keys: &["rate_max"],
        are_read: |setup| setup.workload.find_peak && makes_calls(setup),
        only: "in a search of calls",
        mend: "write find_peak = true in [workload], or remove it",
    },
    Rule {
        section: "workload",
        keys: &["most_users"],
        are_read: |setup| setup.workload.find_peak,
        only: "in a search of users",
        mend: "write find_peak = true in [workload], or remove it",
    },
    Rule {
        section: "workload",
        keys: &["answer"],
        are_read: |setup| setup.workload.callees > 0 || has_backends(setup),
        only: "where there are callees or back ends",
        mend: "write callees = 1000 in [workload], or remove it",
    },
    Rule {
        section: "workload",
        keys: &["registrations"],
        are_read: registers,
        only: "where callees answer calls of a system that is a registrar",
        mend: "write callees = 1000 and `answer` in [workload], or remove it",
    },
    Rule {
        section: "workload",
        keys: &["contacts"],
        are_read: |setup| registers(setup) && setup.workload.registrations.is_none(),
        only: "where the lab itself registers callees",
        mend: "remove it, or `registrations`, or `users`",
    },
    Rule {
        section: "workload",
        keys: &["name_ttl"],
        are_read: |setup| setup.systems.values().any(System::asks_names),
        only: "where a system asks ${resolver}",
        mend: "name ${resolver} in the config of a system, or remove it",
    },
    Rule {
        section: "workload",
        keys: &["backends"],
        are_read: has_backends,
        only: "where a system has back ends",
        mend: "add a system of kind \"balance\", or one that has ${backends}; or remove it",
    },
    Rule {
        section: "workload",
        keys: &["stall_every"],
        are_read: |setup| !setup.workload.stall.is_zero(),
        only: "beside `stall` in [workload]",
        mend: "write stall = \"1s\" in [workload], or remove it",
    },
];

const OF_SYSTEMS: &[Rule<System>] = &[
    Rule {
        section: "",
        keys: &["environment", "start_limit", "processor_share"],
        are_read: |system| system.kind != SystemKind::None,
        only: "in systems that have a process",
        mend: "write another kind than \"none\", or remove it",
    },
    Rule {
        section: "",
        keys: &["workers"],
        are_read: |system| {
            let alone = matches!(system.kind, SystemKind::None | SystemKind::Relay | SystemKind::Sink);
            !alone && !system.serves_associations()
        },
        only: "in systems of the kinds \"strowger\", \"balance\", \"kamailio\" and \"command\"",
        mend: "write such a kind, or remove it",
    },
    Rule {
        section: "",
        keys: &["config"],
        are_read: |system| system.kind != SystemKind::Command || system.names_config(),
        only: "where a command names the file that has it",
        mend: "write \"${config}\" in command, or remove it",
    },
];

const OF_FAULTS: &[Rule<FaultStep>] = &[
    Rule {
        section: "",
        keys: &["backend"],
        are_read: |fault| fault.place == FaultPlace::Backend,
        only: "in faults of a back end",
        mend: "write place = \"backend\", or remove it",
    },
    Rule {
        section: "",
        keys: &["share"],
        are_read: |fault| fault.kind == FaultKind::Loss,
        only: "in faults of the kind \"loss\"",
        mend: "write kind = \"loss\", or remove it",
    },
    Rule {
        section: "",
        keys: &["delay"],
        are_read: |fault| fault.kind == FaultKind::SlowDns,
        only: "in faults of the kind \"slow_dns\"",
        mend: "write kind = \"slow_dns\", or remove it",
    },
    Rule {
        section: "",
        keys: &["lasts"],
        // That it takes no time is true.
        are_read: |fault| fault.kind.takes_time() || fault.lasts.is_zero(),
        only: "in faults that take time: all kinds but \"reload\" and \"renew_certificate\"",
        mend: "write another kind, or remove it",
    },
];

fn makes_calls(setup: &Setup) -> bool {
    setup.workload.associations == 0
}

fn has_backends(setup: &Setup) -> bool {
    setup.systems.values().any(System::has_backends)
}

/// Whether callees register at a system, users apart.
fn registers(setup: &Setup) -> bool {
    let workload = &setup.workload;
    let is_registrar = |system: &System| !system.is_baseline() && !system.has_backends();
    let answers = workload.callees > 0 && workload.answer.is_some() && workload.users == 0;
    answers && makes_calls(setup) && setup.systems.values().any(is_registrar)
}

/// What is written and read at no combination of factors, each at its place.
pub(super) fn check(setups: &[Setup], origins: &Origins) -> Vec<ConfigError> {
    let mut found = Found { origins, errors: Vec::new() };
    for rule in OF_SETUPS {
        found.unread(rule, rule.section, setups, |setup| match rule.section {
            "workload" => differing(&setup.workload),
            "network" => differing(&setup.network),
            _ => differing(&setup.measuring),
        });
    }
    let names: BTreeSet<&String> = setups.iter().flat_map(|setup| setup.systems.keys()).collect();
    for name in names {
        let all: Vec<System> = setups.iter().filter_map(|setup| setup.systems.get(name).cloned()).collect();
        for rule in OF_SYSTEMS {
            found.unread(rule, &format!("system.{name}"), &all, differing);
        }
    }
    let most = setups.iter().map(|setup| setup.faults.len()).max().unwrap_or(0);
    for nth in 0..most {
        let all: Vec<FaultStep> = setups.iter().filter_map(|setup| setup.faults.get(nth).cloned()).collect();
        for rule in OF_FAULTS {
            found.unread(rule, &numbered("fault", nth), &all, differing);
        }
    }
    found.errors
}

/// The keys whose values are not the usual ones.
fn differing<S: Keys>(section: &S) -> Vec<&'static str> {
    let usual: Vec<(&str, String)> = shown(&S::default()).collect();
    shown(section).filter(|pair| !usual.contains(pair)).map(|(key, _)| key).collect()
}

struct Found<'o> {
    origins: &'o Origins,
    errors: Vec<ConfigError>,
}

impl Found<'_> {
    fn unread<T>(
        &mut self,
        rule: &Rule<T>,
        path: &str,
        all: &[T],
        differing: impl Fn(&T) -> Vec<&'static str>,
    ) {
        if all.iter().any(rule.are_read) {
            return;
        }
        for key in rule.keys {
            // A configuration may come from a file.
            let written = [*key, if *key == "config" { "config_file" } else { *key }];
            let place =
                written.into_iter().map(|key| joined(path, key)).find(|key| self.origins.of(key).is_some());
            let Some(place) = place.filter(|_| all.iter().any(|one| differing(one).contains(key))) else {
                continue;
            };
            let what = format!("nothing reads `{key}` here: it counts {}", rule.only);
            let error = at(self.origins, &place, Fault::new(what, rule.mend));
            if !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
    }
}
