//! The experiment file, the layers of its settings, and the plan of its runs.
//!
//! An experiment compares systems under a workload. Factors vary the workload or the systems; every block of
//! the plan has each system once at each combination of factors, and one system twice (the A/A control).

mod check;
mod claim;
mod claims;
mod design;
mod document;
mod factor;
mod fault;
mod forms;
mod identity;
mod keys;
mod layers;
mod measuring;
mod plan;
mod read;
mod reference;
mod sentence;
mod setup;
mod show;
mod substitute;
mod system;
#[cfg(test)]
mod tests;
mod workload;

pub use claim::{Bound, Claim, Limit, Measure, Quantity, Statistic};
pub use design::Design;
pub use factor::{Combination, Level};
pub use fault::{FaultKind, FaultPlace, FaultStep};
pub use identity::{ExperimentId, NotAnId, RunId};
pub use layers::{Layer, Origin, Setting};
pub use measuring::{Host, Hosts, LEAST_WARM_UP, Measuring, Repetitions, Series, WarmUp};
pub use plan::{Estimate, Plan, Run, Subject};
pub use read::Sources;
pub use reference::fill_reference;
pub use system::{PLACEHOLDERS, System, SystemKind};
pub use toml_form::error::ConfigError;
pub use workload::{ArrivalTimes, Connections, Transport, Workload};

use layers::Origins;
use std::collections::BTreeMap;
use toml_form::error::Fault;

/// What the runs at one combination of factors are made of: the experiment with each `${factor}` replaced.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Scenario files and the digests of their texts.
    pub inputs: Vec<(String, String)>,
}

/// An experiment that was read and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    id: ExperimentId,
    design: Design,
    control: String,
    setups: Vec<Setup>,
    claims: Vec<Claim>,
    origins: Origins,
    settings: Vec<Setting>,
}

/// Runs of a plan at most.
const MOST_RUNS: usize = 20_000;

impl Experiment {
    fn new(
        design: Design,
        control: String,
        mut setups: Vec<Setup>,
        claims: Vec<Claim>,
        origins: Origins,
    ) -> Experiment {
        let settings = show::settings(&design, &control, &setups, &claims, &origins);
        setups.iter_mut().for_each(|setup| setup.faults.sort_by_key(|fault| fault.at));
        let id = ExperimentId::of(&show::canonical(design.seed, &control, &setups));
        Experiment { id, design, control, setups, claims, origins, settings }
    }

    /// Its name, the same for all experiments that measure the same.
    pub fn id(&self) -> ExperimentId {
        self.id
    }

    /// What it is to find out; empty if the file does not say.
    pub fn question(&self) -> &str {
        &self.design.question
    }

    /// What is random follows from this number.
    pub fn seed(&self) -> u64 {
        self.design.seed
    }

    /// The system that runs twice in each block.
    pub fn control(&self) -> &str {
        &self.control
    }

    /// What the runs are made of, for each combination of factors.
    pub fn setups(&self) -> &[Setup] {
        &self.setups
    }

    /// What the measurements are to show.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Every setting with its value and where it was written, defaults included.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Every system, and the twin of the control.
    pub fn subjects(&self) -> Vec<Subject> {
        let names = self.setups.first().into_iter().flat_map(|setup| setup.systems.keys());
        let mut subjects = Vec::new();
        for system in names {
            subjects.push(Subject { system: system.clone(), twin: false });
            if *system == self.control {
                subjects.push(Subject { system: system.clone(), twin: true });
            }
        }
        subjects
    }

    /// Its runs, in order.
    ///
    /// # Errors
    /// What this version cannot do, with the place in the file.
    pub fn plan(&self) -> Result<Plan, Vec<ConfigError>> {
        let mut errors = Vec::new();
        for setup in &self.setups {
            for (key, host) in [("hosts.system", &setup.hosts.system), ("hosts.load", &setup.hosts.load)] {
                if let Host::Ssh(_) = host {
                    let fault = Fault::new("other hosts are not in this version", "write \"local\"");
                    let error = check::at(&self.origins, key, fault);
                    errors.extend(Some(error).filter(|error| !errors.contains(error)));
                }
            }
        }
        let plan = Plan::new(self.id, self.seed(), self.design.repeated(), &self.subjects(), &self.setups);
        if plan.runs().len() > MOST_RUNS {
            let what = format!("{} runs: more than {MOST_RUNS}", plan.runs().len());
            let fault = Fault::new(what, "fewer repetitions, or fewer values of factors");
            errors.push(check::at(&self.origins, "repetitions", fault));
        }
        if errors.is_empty() { Ok(plan) } else { Err(errors) }
    }
}
