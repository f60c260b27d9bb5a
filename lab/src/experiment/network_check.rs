//! What a network and the faults of networks ask for.

use super::check::Wrong;
use super::keys::shown;
use super::{Contacts, Experiment, FaultStep, Measure, Network, Setup, System, Transport};
use toml_form::error::Fault;

/// Checks a network.
pub(super) fn of_network(setup: &Setup) -> Vec<Wrong> {
    let network = &setup.network;
    if network.is_apart() {
        let what = "associations are counted on the loopback interface".to_owned();
        let wrong = ("kind", what, "remove [network], or associations of [workload]");
        return Some(wrong).filter(|_| setup.workload.associations > 0).into_iter().collect();
    }
    let usual: Vec<(&str, String)> = shown(&Network::default()).collect();
    let differs = shown(network).filter(|pair| !usual.contains(pair));
    let wrong = |(key, _)| (key, format!("the loopback interface has no `{key}`"), NAMESPACES);
    differs.map(wrong).collect()
}

const ASK: &str = "let its config name ${resolver}: [dns] servers = [\"${resolver}\"]";
const NAMESPACES: &str = "write kind = \"namespaces\" in [network]";

/// Checks a fault of the network, or of the DNS.
pub(super) fn of_fault(fault: &FaultStep, setup: &Setup) -> Vec<Wrong> {
    let (mut wrong, kind) = (Vec::new(), fault.kind);
    if kind.is_of_network() && !setup.network.is_apart() {
        wrong.push(("kind", format!("the loopback interface has no \"{}\"", kind.name()), NAMESPACES));
    }
    let mut concerned = setup.systems.iter().filter(|(name, _)| fault.concerns(name));
    if kind.is_of_names()
        && let Some((name, _)) = concerned.find(|(_, system)| !System::asks_names(system))
    {
        let what = format!("{name} does not ask the DNS server of the lab");
        wrong.push(("kind", what, ASK));
    }
    wrong
}

/// Whether systems can look up the names that they are given.
pub(super) fn of_contacts(setup: &Setup) -> Option<Wrong> {
    let mut concerned = setup.systems.iter().filter(|(_, system)| !system.is_baseline());
    let (name, _) = concerned.find(|(_, system)| !system.asks_names())?;
    let what = format!("{name} does not ask the DNS server of the lab for the names of Contacts");
    (setup.workload.contacts == Contacts::Name).then_some(("contacts", what, ASK))
}

/// Claims about a figure that some of their runs do not have, by number.
pub(super) fn of_claims(experiment: &Experiment) -> Vec<(usize, Fault)> {
    let counts = |setup: &Setup| setup.network.is_apart() && setup.workload.transport == Transport::Udp;
    let mut wrong = Vec::new();
    for (nth, claim) in experiment.claims().iter().enumerate() {
        let mut concerned = experiment.setups().iter().filter(|setup| claim.concerns(&setup.combination));
        if claim.quantity.measure == Measure::Lost && concerned.any(|setup| !counts(setup)) {
            let what = "lost datagrams are counted over UDP between namespaces alone";
            wrong.push((
                nth,
                Fault::new(what, "write kind = \"namespaces\" in [network], and transport = \"udp\""),
            ));
        }
    }
    wrong
}
