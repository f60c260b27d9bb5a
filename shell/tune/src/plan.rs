//! Which changes are to be made.

use crate::apply::Applied;
use crate::restore;
use tune_rules::{Change, Finding, Level, OWN_UNIT_FILE};

/// What makes a changed unit count.
pub(crate) const AFTER_UNIT: &str = "systemctl daemon-reload; systemctl restart strowger";

/// A change, the item that wants it, and why it cannot be made from here if so.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    item: &'static str,
    change: &'a Change,
    obstacle: Option<&'a str>,
}

impl<'a> Plan<'a> {
    /// The item that wants it.
    pub fn item(&self) -> &'static str {
        self.item
    }

    /// The change.
    pub fn change(&self) -> &'a Change {
        self.change
    }

    /// Why it cannot be made from here, if so.
    pub fn obstacle(&self) -> Option<&'a str> {
        self.obstacle
    }
}

/// The changes of the items with these names; without names, those of all problems.
pub fn select<'a>(findings: &'a [Finding], names: &[String]) -> Vec<Plan<'a>> {
    let wanted = |finding: &&Finding| {
        if names.is_empty() {
            finding.level() == Level::Problem
        } else {
            names.iter().any(|name| name == finding.item())
        }
    };
    let mut plans: Vec<Plan<'a>> = Vec::new();
    for finding in findings.iter().filter(wanted) {
        for change in finding.changes() {
            // The first rule that wants a value decides.
            if plans.iter().all(|plan| plan.change.name() != change.name()) {
                plans.push(Plan { item: finding.item(), change, obstacle: finding.obstacle() });
            }
        }
    }
    plans
}

/// Whether a change was made that no file of the kernel's settings sets in time at boot.
pub fn lost_at_boot(plans: &[Plan<'_>], results: &[Applied]) -> bool {
    let lost = |change: &Change| match change {
        Change::Value { path, .. } => restore::lost_at_boot(path),
        Change::UnitLine { .. } => false,
    };
    let made = |name: &str| results.iter().any(|result| result.made() && result.name() == name);
    plans.iter().any(|plan| lost(plan.change) && made(&plan.change.name()))
}

/// What is to be done by hand after changes were made, without repetition.
pub fn steps(findings: &[Finding], results: &[Applied]) -> Vec<String> {
    let made = |name: &str| results.iter().any(|result| result.made() && result.name() == name);
    let mut steps: Vec<String> = Vec::new();
    if made(OWN_UNIT_FILE) {
        steps.push(AFTER_UNIT.to_owned());
    }
    let of_change = |change: &Change| matches!(change, Change::Value { .. }) && made(&change.name());
    let changed = findings.iter().filter(|finding| finding.changes().iter().any(of_change));
    for step in changed.flat_map(Finding::steps_by_hand) {
        if !steps.contains(step) {
            steps.push(step.clone());
        }
    }
    steps
}
