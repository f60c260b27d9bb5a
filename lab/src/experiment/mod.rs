//! The experiment file, the layers of its settings, and the plan of its runs.
//!
//! An experiment compares systems under a workload. Factors vary the workload or the systems; every block of
//! the plan has each system once at each combination of factors, and one system twice (the A/A control).

mod claim;
mod factor;
mod fault;
mod identity;
mod measuring;
mod named;
mod plan;
mod system;
mod workload;

pub use claim::{Bound, Claim, Limit, Measure, Quantity, Statistic};
pub use factor::{Combination, Level};
pub use fault::{FaultKind, FaultPlace, FaultStep};
pub use identity::{ExperimentId, RunId};
pub use measuring::{Host, Hosts, Measuring, Repetitions, Series, WarmUp};
pub use plan::{Estimate, Plan, Run, Subject};
pub use system::{System, SystemKind};
pub use workload::{ArrivalTimes, Connections, Transport, Workload};

use std::collections::BTreeMap;

/// What the runs at one combination of factors are made of: the experiment with each `${factor}` replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The values of the factors.
    pub combination: Combination,
    /// How a run is warmed up and measured.
    pub measuring: Measuring,
    /// Where the parts of a run are.
    pub hosts: Hosts,
    /// The systems by name, without the twin of the A/A control.
    pub systems: BTreeMap<String, System>,
    /// What is asked of them.
    pub workload: Workload,
    /// What happens to them during the measurement, by time.
    pub faults: Vec<FaultStep>,
}
