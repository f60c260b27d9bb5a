//! The experiment file, the layers of its settings, and the plan of its runs.
//!
//! An experiment compares systems under a workload. Factors vary the workload or the systems; every block of
//! the plan has each system once at each combination of factors, and one system twice (the A/A control).

mod associations;
mod check;
mod claim;
mod claims;
mod design;
mod document;
mod effective;
mod factor;
mod fault;
mod forms;
mod identity;
mod keys;
mod layers;
mod measuring;
mod network;
mod network_check;
mod overlaps;
mod paper;
mod places;
mod plan;
mod population;
mod read;
mod reference;
mod refused;
mod search;
mod sentence;
mod setup;
mod show;
mod substitute;
mod system;
#[cfg(test)]
mod tests;
mod unread;
mod workload;

pub use claim::{Bound, Claim, Limit, Measure, Quantity, Statistic};
pub use design::Design;
pub use factor::{Combination, Level};
pub use fault::{FaultKind, FaultPlace, FaultStep};
pub use identity::{ExperimentId, NotAnId, RunId};
pub use layers::{Layer, Origin, Setting};
pub use measuring::{Host, Hosts, LEAST_WARM_UP, Measuring, Repetitions, SETTLE, STEADY_WINDOW, WarmUp};
pub use network::{Network, NetworkKind};
pub use paper::{Base, Counterpart, Point, Reference};
pub use plan::{Estimate, Plan, Run, Subject};
pub use population::Population;
pub use read::Sources;
pub use reference::fill_reference;
pub use search::search_limit;
pub use system::{Beside, PLACEHOLDERS, Sockets, System, SystemKind};
pub use toml_form::error::ConfigError;
pub use workload::{ArrivalTimes, Connections, Contacts, Transport, Workload};

use crate::outcome::LookMade;
use crate::statistics::{Detectable, Goal, NoInterval, Rule, Schedule, Spread, detectable};
use layers::Origins;
use std::collections::BTreeMap;

/// What the runs at one combination of factors are made of: the experiment with each `${factor}` replaced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// The values of the factors.
    pub combination: Combination,
    /// How a run is warmed up and measured.
    pub measuring: Measuring,
    /// Where the parts of a run are.
    pub hosts: Hosts,
    /// What is between them.
    pub network: Network,
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
    controls: Vec<String>,
    setups: Vec<Setup>,
    claims: Vec<Claim>,
    references: Vec<Reference>,
    settings: Vec<Setting>,
    text: String,
    refused: Vec<ConfigError>,
}

/// The confidence of all verdicts of an experiment together.
pub const CONFIDENCE: f64 = 0.95;
/// The share of experiments that find a difference of the size that a plan names.
const POWER: f64 = 0.8;
/// Moments at most at which claims are judged.
pub const LOOKS: usize = 3;

/// The looks under other plans than one of this number of blocks, until its own begin.
pub fn of_earlier_plans(made: &[LookMade], blocks: usize) -> &[LookMade] {
    let own = made.iter().position(|look| look.planned == blocks).unwrap_or(made.len());
    made.get(..own).unwrap_or_default()
}

impl Experiment {
    fn new(
        design: Design,
        controls: Vec<String>,
        mut setups: Vec<Setup>,
        (claims, references): (Vec<Claim>, Vec<Reference>),
        origins: &Origins,
    ) -> Experiment {
        let mut settings = show::settings(&design, &controls, &setups, &claims, origins);
        settings.extend(show::references(&references, origins));
        setups.iter_mut().for_each(|setup| setup.faults.sort_by_key(|fault| fault.at));
        let id = ExperimentId::of(&show::canonical(design.seed, &controls, &setups));
        let (text, refused) = (String::new(), Vec::new());
        Experiment { id, design, controls, setups, claims, references, settings, text, refused }
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

    /// The systems that run twice in each block. Each claim that compares has one of them on a side.
    pub fn controls(&self) -> &[String] {
        &self.controls
    }

    /// What the runs are made of, for each combination of factors.
    pub fn setups(&self) -> &[Setup] {
        &self.setups
    }

    /// What the measurements are to show.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The paper that it repeats; empty if there is none.
    pub fn paper(&self) -> &str {
        &self.design.paper
    }

    /// What the paper measured.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Every setting with its value and where it was written, defaults included.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Every system, and the twins of the controls.
    pub fn subjects(&self) -> Vec<Subject> {
        let names = self.setups.first().into_iter().flat_map(|setup| setup.systems.keys());
        let mut subjects = Vec::new();
        for system in names {
            subjects.push(Subject { system: system.clone(), twin: false });
            if self.controls.contains(system) {
                subjects.push(Subject { system: system.clone(), twin: true });
            }
        }
        subjects
    }

    /// How often blocks are repeated.
    pub fn repetitions(&self) -> Repetitions {
        self.design.repeated(self.usual_blocks())
    }

    /// How many verdicts there will be: each claim at each combination that it is about.
    pub fn judged(&self) -> usize {
        let at =
            |claim: &Claim| self.setups.iter().filter(|setup| claim.concerns(&setup.combination)).count();
        self.claims.iter().map(at).sum()
    }

    /// The fewest blocks with which each claim can be decided. The confidence is shared out among the claims
    /// and the looks.
    pub fn fewest_blocks(&self) -> u32 {
        let most = usize::try_from(plan::MOST_BLOCKS).unwrap_or(usize::MAX);
        let fewest = (1..most).find(|blocks| self.last_rule(*blocks).fewest() <= *blocks).unwrap_or(most);
        u32::try_from(fewest).unwrap_or(plan::MOST_BLOCKS)
    }

    /// One block more than each claim needs, so that one void run costs no verdict.
    fn usual_blocks(&self) -> u32 {
        let most = usize::try_from(plan::MOST_BLOCKS).unwrap_or(usize::MAX);
        let enough = (1..most).find(|blocks| self.last_rule(*blocks).fewest() < *blocks).unwrap_or(most);
        u32::try_from(enough).unwrap_or(plan::MOST_BLOCKS)
    }

    /// How each claim is judged at the last look, after this number of blocks.
    fn last_rule(&self, blocks: usize) -> Rule {
        let confidence = Schedule::new(blocks, LOOKS, CONFIDENCE).last_confidence();
        Rule::new(confidence, 0, self.seed()).among(self.judged())
    }

    /// The least difference that the blocks of the plan show if the runs of a system spread so much.
    ///
    /// # Errors
    /// If they are too few to show any.
    pub fn detectable(&self, spread: Spread) -> Result<Detectable, NoInterval> {
        let blocks = usize::try_from(self.planned().blocks()).unwrap_or(usize::MAX);
        detectable(spread, blocks, Goal::new(self.last_rule(blocks).confidence(), POWER))
    }

    /// When the experiment may stop because all claims are decided. Earlier looks cost confidence at the last
    /// one. `made`: looks at which it was judged already, those of shorter plans first; each such plan costs
    /// confidence too.
    pub fn schedule(&self, made: &[LookMade]) -> Schedule {
        let blocks = usize::try_from(self.planned().blocks()).unwrap_or(usize::MAX);
        let earlier = of_earlier_plans(made, blocks);
        let plans = u32::try_from(earlier.chunk_by(|one, other| one.planned == other.planned).count());
        let seen = earlier.iter().map(|look| look.blocks).max().unwrap_or(0);
        Schedule::extended(blocks, LOOKS, CONFIDENCE, plans.unwrap_or(u32::MAX), seen)
    }

    /// Its runs, in order.
    ///
    /// # Errors
    /// What this version cannot run, with the place in the file.
    pub fn plan(&self) -> Result<Plan, Vec<ConfigError>> {
        if self.refused.is_empty() { Ok(self.planned()) } else { Err(self.refused.clone()) }
    }

    /// The runs of an experiment that was made before, whatever a plan refuses by now.
    pub fn plan_as_kept(&self) -> Plan {
        self.planned()
    }

    fn planned(&self) -> Plan {
        Plan::new(self.id, self.seed(), self.repetitions(), &self.subjects(), &self.setups)
    }

    /// The experiment as one file, with the values of all layers. It reads as the same experiment.
    pub fn to_toml(&self) -> &str {
        &self.text
    }
}
