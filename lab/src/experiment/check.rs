//! What only shows when all settings are known.

use super::associations;
use super::design::Design;
use super::keys::{joined, shown};
use super::layers::{Layer, Origin, Origins};
use super::read::numbered;
use super::{
    Beside, Claim, Experiment, FaultPlace, FaultStep, Host, LEAST_WARM_UP, Measure, Population, Repetitions,
    Setup, System, SystemKind, WarmUp, Workload,
};
use std::time::Duration;
use toml_form::error::{ConfigError, Fault, closest};
use toml_form::text::{show_duration, shown as quoted};

/// What `strowger load --backend` takes at least: calls a second, and the length of a stall.
const LEAST_CAPACITY: f64 = 0.01;
const LEAST_STALL: Duration = Duration::from_millis(1);
/// Calls of a trial of a search have 60 s to end.
const LONGEST_HOLD: Duration = Duration::from_secs(50);
/// Runs of a plan at most.
pub(super) const MOST_RUNS: usize = 20_000;

/// A finding at the place of a key, or of its section where the key is not written.
pub(super) fn at(origins: &Origins, key: &str, fault: Fault) -> ConfigError {
    let Origin { file, line, column, .. } = origins.nearest(key);
    ConfigError { file, line, column, message: fault.message, mend: fault.mend }
}

/// Checks what the runs of a combination are made of.
pub(super) fn setup(setup: &Setup, origins: &Origins, errors: &mut Vec<ConfigError>) {
    let mut wrong = |key: &str, what: String, mend: &str| {
        let error = at(origins, key, Fault::new(what, mend));
        if !errors.contains(&error) {
            errors.push(error);
        }
    };
    for (name, system) in &setup.systems {
        for (key, what, mend) in of_system(system) {
            wrong(&format!("system.{name}.{key}"), what, mend);
        }
    }
    if setup.measuring.warm_up == WarmUp::Steady && setup.measuring.warm_up_limit < LEAST_WARM_UP {
        let limit = show_duration(setup.measuring.warm_up_limit);
        let (what, least) =
            (format!("no series is found steady within {limit}"), show_duration(LEAST_WARM_UP));
        let key = if origins.of("warm_up_limit").is_some() { "warm_up_limit" } else { "warm_up" };
        wrong(
            key,
            what,
            &format!("write warm_up_limit = \"{least}\" or more, or a length: warm_up = \"{limit}\""),
        );
    }
    let of_names = super::network_check::of_contacts(setup);
    for (key, what, mend) in of_workload(setup, origins).into_iter().chain(of_names) {
        wrong(&format!("workload.{key}"), what, mend);
    }
    for (key, what, mend) in super::network_check::of_network(setup) {
        wrong(&format!("network.{key}"), what, mend);
    }
    for (nth, fault) in setup.faults.iter().enumerate() {
        for (key, what, mend) in
            super::network_check::of_fault(fault, setup).into_iter().chain(of_fault(fault, setup))
        {
            wrong(&joined(&numbered("fault", nth), key), what, mend);
        }
    }
}

/// A key, what is wrong with it, and the mend.
pub(super) type Wrong = (&'static str, String, &'static str);

fn of_system(system: &System) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let kind = system.kind.name();
    match (system.kind, system.command.is_empty()) {
        (SystemKind::Command, true) => {
            wrong.push((
                "kind",
                "a system of kind \"command\" has a command".to_owned(),
                "add command = [\"...\"]",
            ));
        }
        (SystemKind::Command, false) | (_, true) => {}
        _ => wrong.push((
            "command",
            format!("a system of kind \"{kind}\" has no command"),
            "write kind = \"command\"",
        )),
    }
    if system.kind == SystemKind::Kamailio && system.config.is_empty() {
        wrong.push((
            "kind",
            "Kamailio needs a configuration".to_owned(),
            "add config_file = \"kamailio.cfg\"",
        ));
    }
    wrong.extend(of_database(system));
    let no_binary = system.is_baseline() || matches!(system.kind, SystemKind::Command | SystemKind::Sink);
    if system.binary.is_some() && no_binary {
        wrong.push(("binary", format!("a system of kind \"{kind}\" has no binary"), "remove binary"));
    }
    if system.kind == SystemKind::Sink && !system.config.is_empty() {
        wrong.push(("config", "a sink has no configuration".to_owned(), "remove config"));
    }
    if system.kind != SystemKind::Sink && system.receive_buffer.is_some() {
        let what = format!("a system of kind \"{kind}\" has no `receive_buffer` here");
        wrong.push(("receive_buffer", what, "remove it; Strowger has such a key in its own configuration"));
    }
    if !system.config.is_empty() && system.is_baseline() {
        wrong.push(("config", format!("a system of kind \"{kind}\" has no configuration"), "remove config"));
    }
    wrong.extend(associations::of_system(system));
    wrong
}

/// Whether a database is where one is named, and the other way round.
fn of_database(system: &System) -> Option<Wrong> {
    let kind = system.kind.name();
    let is_ours = matches!(system.kind, SystemKind::Strowger | SystemKind::Balance) || system.is_baseline();
    let beside = system.database != Beside::None;
    let (key, what, mend) = match () {
        () if beside && is_ours => {
            ("database", format!("a system of kind \"{kind}\" uses no database server"), "remove database")
        }
        () if beside && !system.names_database() => {
            ("database", "nothing uses the database".to_owned(), "write ${database} in its configuration")
        }
        () if !beside && !is_ours && system.names_database() => {
            ("config", "${database} without a database".to_owned(), "add database = \"mariadb\"")
        }
        () if !beside && !system.database_options.is_empty() => {
            ("database_options", "options without a database".to_owned(), "add database = \"mariadb\"")
        }
        () if system.data_in_memory && system.kind != SystemKind::Strowger => {
            ("data_in_memory", format!("a system of kind \"{kind}\" has no data folder"), "remove it")
        }
        () => return None,
    };
    Some((key, what, mend))
}

fn of_workload(setup: &Setup, origins: &Origins) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let workload = &setup.workload;
    let usual: Vec<(&str, String)> = shown(&Workload::default()).collect();
    let differs: Vec<(&str, String)> = shown(workload).filter(|pair| !usual.contains(pair)).collect();
    let written = |key: &str| {
        differs.iter().any(|(name, _)| *name == key) && origins.of(&joined("workload", key)).is_some()
    };
    if workload.users > 0 {
        for key in [
            "scenario",
            "answer",
            "rows",
            "registrations",
            "rate",
            "rate_max",
            "arrivals",
            "callees",
            "connections",
        ] {
            if written(key) {
                let what = format!("a population of users has no `{key}`");
                wrong.push((key, what, "remove it, or remove users"));
            }
        }
        wrong.extend(of_population(setup));
    } else {
        for key in ["compress", "most_users", "with", "mailbox"] {
            if written(key) {
                let what = format!("only a population of users has `{key}`");
                wrong.push((key, what, "add users, or remove it"));
            }
        }
        wrong.extend(of_hold(setup));
    }
    if written("resolution") && !workload.find_peak {
        wrong.push(("resolution", "only a search has a resolution".to_owned(), "add find_peak = true"));
    }
    wrong.extend(associations::of_workload(setup, written));
    wrong.extend(of_backends(setup, written));
    if workload.find_peak && written("arrivals") {
        let what = "a search for the peak has arrivals of its own".to_owned();
        wrong.push(("arrivals", what, "remove arrivals or find_peak"));
    }
    wrong
}

/// Whether the generator takes these users, and every system.
fn of_population(setup: &Setup) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if let Err((key, what)) = Population::of(setup) {
        wrong.push((key, what, "docs/reference/load.md lists the numbers of users"));
    }
    if setup.workload.users == 0 {
        return wrong;
    }
    for (name, system) in &setup.systems {
        if system.is_baseline() || system.has_backends() || system.serves_associations() {
            let what = format!("users register, and {name} is no registrar");
            wrong.push(("users", what, "remove that system, or users"));
        }
        let is_told = system.kind == SystemKind::Strowger || system.config.contains("${mailbox}");
        if setup.workload.mailbox && !is_told {
            let what = format!("{name} does not know the mailbox");
            wrong.push(("mailbox", what, "have its configuration send calls to ${mailbox} after 486"));
        }
    }
    wrong
}

/// Whether calls so long become steady before they are measured.
fn of_hold(setup: &Setup) -> Vec<Wrong> {
    let (workload, measuring) = (&setup.workload, &setup.measuring);
    let mut wrong = Vec::new();
    let long = show_duration(workload.hold);
    if workload.find_peak && workload.hold > LONGEST_HOLD {
        let what = format!("calls of {long} in a search: more than {}", show_duration(LONGEST_HOLD));
        wrong.push(("hold", what, "make `hold` shorter, or remove find_peak"));
    }
    if measuring.is_long(workload.hold) && workload.hold >= measuring.warm_up_limit {
        let what = format!("calls of {long} are not steady within warm_up_limit");
        wrong.push(("hold", what, "make `warm_up_limit` longer than `hold`, or write a fixed `warm_up`"));
    }
    wrong
}

/// What back ends are like. `written` says which keys differ from their defaults.
fn of_backends(setup: &Setup, written: impl Fn(&str) -> bool) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let workload = &setup.workload;
    if !workload.has_capacity() {
        for key in ["sharing", "room", "variation", "repeat_cost", "stall", "stall_every"] {
            if written(key) {
                let what = format!("only back ends with a capacity have `{key}`");
                wrong.push((key, what, "add capacity = 300 to [workload], or remove it"));
            }
        }
        return wrong;
    }
    let (capacities, backends) = (&workload.capacity, workload.backends);
    if capacities.len() > 1 && u32::try_from(capacities.len()) != Ok(backends) {
        let what = format!("{} capacities for {backends} back ends", capacities.len());
        wrong.push(("capacity", what, "write one number, or one for each back end"));
    }
    if capacities.iter().any(|calls| *calls < LEAST_CAPACITY) {
        let what = format!("a capacity below {LEAST_CAPACITY} calls/s");
        wrong.push(("capacity", what, "write more; without a capacity all back ends answer at once"));
    }
    if !setup.systems.values().any(System::has_backends) {
        let what = "no system has back ends".to_owned();
        wrong.push(("capacity", what, "add a system of kind \"balance\", or one that has ${backends}"));
    }
    if !workload.stall.is_zero() && workload.stall < LEAST_STALL {
        wrong.push(("stall", "a stall below 1 ms".to_owned(), "write 0 for none"));
    }
    wrong
}

fn of_fault(fault: &FaultStep, setup: &Setup) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if fault.at >= setup.measuring.measure {
        let what = format!("a fault after the measurement of {}", show_duration(setup.measuring.measure));
        wrong.push(("at", what, "make `measure` longer, or the fault earlier"));
    }
    if setup.workload.find_peak {
        wrong.push(("at", "a fault in a search for the peak".to_owned(), "remove one of them"));
    }
    if fault.every.is_some_and(|every| every < fault.length()) {
        wrong.push(("every", "a fault that is repeated before it is over".to_owned(), "make `every` longer"));
    }
    for name in &fault.systems {
        match setup.systems.get(name) {
            None => {
                let what = format!("no system \"{}\"", quoted(name));
                let near = closest(name, setup.systems.keys().map(String::as_str));
                let what = near.map_or(what.clone(), |near| format!("{what}: did you mean \"{near}\"?"));
                wrong.push(("systems", what, "name systems of this file"));
            }
            Some(system) if system.is_baseline() => {
                let what = format!("a fault of {name}, which has no process of a server");
                wrong.push(("systems", what, "name other systems"));
            }
            Some(_) => {}
        }
    }
    if fault.place == FaultPlace::Backend {
        let concerned = setup.systems.iter().filter(|(name, _)| fault.concerns(name));
        if concerned.into_iter().any(|(_, system)| !system.has_backends()) {
            let what = "only systems of kind \"balance\", or with ${backends}, have back ends".to_owned();
            wrong.push(("place", what, "name such systems: systems = [\"...\"]"));
        }
        if setup.workload.has_capacity() {
            let what = "back ends with a modelled capacity are one process: no fault of one".to_owned();
            wrong.push(("place", what, "remove `capacity` of [workload], or write stall = \"1s\" there"));
        }
        if fault.backend > setup.workload.backends {
            let what = format!("there are {} back ends", setup.workload.backends);
            wrong.push(("backend", what, "name one of them, or add backends"));
        }
    }
    wrong
}

/// Refuses what this version cannot run.
pub(super) fn plan(experiment: &Experiment, origins: &Origins) -> Vec<ConfigError> {
    let mut errors: Vec<ConfigError> = Vec::new();
    for setup in experiment.setups() {
        for (key, host) in [("hosts.system", &setup.hosts.system), ("hosts.load", &setup.hosts.load)] {
            if let Host::Ssh(_) = host {
                let error =
                    at(origins, key, Fault::new("other hosts are not in this version", "write \"local\""));
                errors.extend(Some(error).filter(|error| !errors.contains(error)));
            }
        }
    }
    for (nth, fault) in super::network_check::of_claims(experiment) {
        errors.push(at(origins, &numbered("claim", nth), fault));
    }
    let each = experiment.subjects().len().saturating_mul(experiment.setups().len());
    let blocks = match experiment.repetitions() {
        Repetitions::Blocks(blocks) => usize::try_from(blocks).unwrap_or(usize::MAX),
        Repetitions::Within(_) => 1,
    };
    let runs = each.saturating_mul(blocks);
    if runs > MOST_RUNS {
        let what = format!("{runs} runs: more than {MOST_RUNS}");
        let fault = Fault::new(what, "fewer repetitions, or fewer values of factors");
        errors.push(at(origins, "repetitions", fault));
    }
    errors
}

/// Refuses claims about figures that no run of the experiment has.
pub(super) fn claims(claims: &[Claim], setups: &[Setup], origins: &Origins, errors: &mut Vec<ConfigError>) {
    for (nth, claim) in claims.iter().enumerate() {
        let measure = claim.quantity.measure;
        let concerned = || setups.iter().filter(|setup| claim.concerns(&setup.combination));
        let searches = concerned().all(|setup| setup.workload.find_peak);
        let people = concerned().all(|setup| setup.workload.users > 0);
        let missing = match measure {
            Measure::Peak if !searches => "find_peak = true",
            Measure::Users if !(searches && people) => "users = 10000 and find_peak = true",
            Measure::UsersPerCore if !people => "users = 10000",
            _ => continue,
        };
        let what = format!("not every run has `{}`", measure.name());
        let fault = Fault::new(what, format!("write {missing} in [workload]"));
        errors.push(at(origins, &numbered("claim", nth), fault));
    }
}

/// Checks the design, and decides which systems run twice.
pub(super) fn design(
    design: &mut Design,
    setups: &[Setup],
    claims: &[Claim],
    origins: &Origins,
    errors: &mut Vec<ConfigError>,
) -> Vec<String> {
    match origins.layer("repetitions").cmp(&origins.layer("budget")) {
        std::cmp::Ordering::Equal if origins.layer("budget") != Layer::Default => {
            let fault = Fault::new("`repetitions` beside `budget`", "remove one of them");
            errors.push(at(origins, "budget", fault));
        }
        std::cmp::Ordering::Less => design.repetitions = None,
        _ => design.budget = design.budget.filter(|_| design.repetitions.is_none()),
    }
    let Some(systems) = setups.first().map(|setup| &setup.systems) else { return Vec::new() };
    let unknown = design.control.as_ref().filter(|control| !systems.contains_key(*control));
    if let Some(control) = unknown {
        let mend = match closest(control, systems.keys().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("one of {}", systems.keys().cloned().collect::<Vec<_>>().join(", ")),
        };
        errors.push(at(origins, "control", Fault::new(format!("no system \"{}\"", quoted(control)), mend)));
    }
    let under_test =
        || systems.iter().find(|(_, system)| !system.is_baseline()).map(|(name, _)| name.clone());
    let first = || systems.keys().next().cloned();
    let mut controls: Vec<String> = design.control.iter().cloned().collect();
    add_controls(&mut controls, claims);
    if controls.is_empty() {
        controls.extend(under_test().or_else(first));
    }
    controls
}

/// Adds systems until each claim that compares has one on either side: another system's noise says nothing of
/// theirs. The system that most claims need comes first; of several the one that is compared with.
fn add_controls(controls: &mut Vec<String>, claims: &[Claim]) {
    loop {
        let is_open = |claim: &&Claim| {
            claim.compared().next().is_some()
                && !claim.compared().any(|system| controls.iter().any(|c| c == system))
        };
        let open = || claims.iter().filter(is_open);
        let uses =
            |system: &str| open().filter(|claim| claim.compared().any(|other| other == system)).count();
        let all = open().flat_map(Claim::compared);
        let mut best: Option<(usize, &str)> = None;
        for system in all {
            let count = uses(system);
            if best.is_none_or(|(most, _)| count > most) {
                best = Some((count, system));
            }
        }
        let Some((_, next)) = best.map(|(count, system)| (count, system.to_owned())) else { return };
        controls.push(next);
    }
}
