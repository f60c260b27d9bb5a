//! Faults of the network between generator and system, and of the DNS.

use std::time::Duration;

use lab::experiment::{FaultKind, FaultStep};

use crate::names::Names;
use crate::network::Network;

/// Begins a fault.
///
/// # Errors
/// What the kernel says, or that there is no such part.
pub fn begin(fault: &FaultStep, network: &Network, names: Option<&Names>) -> Result<(), String> {
    match fault.kind {
        FaultKind::Partition => network.lose(100.0),
        FaultKind::Loss => network.lose(fault.share),
        FaultKind::SlowDns => of(names).map(|names| names.slow(fault.delay)),
        FaultKind::WithholdDns => of(names).map(Names::withhold),
        _ => Ok(()),
    }
}

/// Ends it: everything is as it was before.
///
/// # Errors
/// As with [`begin`].
pub fn end(fault: &FaultStep, network: &Network, names: Option<&Names>) -> Result<(), String> {
    if fault.kind.is_of_network() {
        return network.lose(0.0);
    }
    of(names).map(|names| names.slow(Duration::ZERO))
}

fn of(names: Option<&Names>) -> Result<&Names, String> {
    names.ok_or_else(|| "the system does not ask the DNS server of the lab".to_owned())
}
