//! An experiment and its plan as text: TOML that reads as the same experiment, settings with their origins,
//! the plan for people and as JSON.

use super::design::Design;
use super::keys::{Keys, joined, shown};
use super::layers::{Origin, Origins};
use super::read::numbered;
use super::substitute::escaped;
use super::{Claim, Estimate, Experiment, Plan, Reference, Run, Setting, Setup};
use crate::statistics::Spread;
use serde_json::{Value, json};
use std::time::Duration;
use toml_form::form::quoted;

/// How much the runs of one system differ, before any was made.
const ASSUMED: Spread = Spread::Assumed { relative: 0.02 };

/// Everything that changes a measurement, as one text.
pub(super) fn canonical(seed: u64, controls: &[String], setups: &[Setup]) -> String {
    let mut out = format!("seed = {seed}\ncontrol = {}\n", listed(controls));
    for setup in setups {
        out.extend(["\n# ", &setup.combination.to_string(), "\n", &rendered(setup)]);
        for (path, digest) in &setup.inputs {
            out.extend(["# ", path, " ", digest, "\n"]);
        }
    }
    out
}

/// `"A", "B"`.
fn listed(names: &[String]) -> String {
    names.iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// The setup as TOML, without factors: each has its value.
pub(super) fn rendered(setup: &Setup) -> String {
    let mut out = String::new();
    section(&mut out, "", &setup.measuring);
    section(&mut out, "[hosts]", &setup.hosts);
    section(&mut out, "[network]", &setup.network);
    section(&mut out, "[workload]", &setup.workload);
    for (name, system) in &setup.systems {
        section(&mut out, &format!("[system.{name}]"), system);
    }
    for fault in &setup.faults {
        section(&mut out, "[[fault]]", fault);
    }
    out
}

fn section<S: Keys>(out: &mut String, header: &str, section: &S) {
    if !header.is_empty() {
        out.extend(["\n", header, "\n"]);
    }
    for (key, value) in shown(section) {
        out.extend([key, " = ", &escaped(key, &value), "\n"]);
    }
}

/// Every setting, with where it was written. One that factors vary has all its values.
pub(super) fn settings(
    design: &Design,
    controls: &[String],
    setups: &[Setup],
    claims: &[Claim],
    origins: &Origins,
) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add = |key: String, value: String| {
        let origin = origins.of(&key).cloned().unwrap_or_else(Origin::default_value);
        all.push(Setting { key, value, origin });
    };
    for (key, value) in shown(design).filter(|(key, _)| *key != "control") {
        add(key.to_owned(), value);
    }
    add("control".to_owned(), listed(controls));
    let Some(first) = setups.first() else { return all };
    for level in first.combination.levels() {
        add(
            joined("factor", &level.factor),
            values(setups, |setup| setup.combination.value(&level.factor).map(str::to_owned)),
        );
    }
    let lists = setups.iter().map(keyed).collect::<Vec<_>>();
    for (nth, (key, _)) in lists.first().into_iter().flatten().enumerate() {
        let mut found: Vec<&str> = Vec::new();
        // Every setup has the same keys, but for optional ones that a factor leaves out nowhere.
        for value in lists.iter().filter_map(|list| list.get(nth)).map(|(_, value)| value.as_str()) {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        add(key.clone(), found.join(", "));
    }
    for (nth, claim) in claims.iter().enumerate() {
        add(numbered("claim", nth), quoted(claim));
    }
    all
}

/// The references as settings.
pub(super) fn references(references: &[Reference], origins: &Origins) -> Vec<Setting> {
    let setting = |(nth, reference): (usize, &Reference)| {
        let key = numbered("reference", nth);
        let origin = origins.of(&key).cloned().unwrap_or_else(Origin::default_value);
        Setting { key, value: quoted(reference), origin }
    };
    references.iter().enumerate().map(setting).collect()
}

/// The values of something in all setups, each once.
fn values(setups: &[Setup], of: impl Fn(&Setup) -> Option<String>) -> String {
    let mut found: Vec<String> = Vec::new();
    for value in setups.iter().filter_map(of) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found.join(", ")
}

/// Each key of a setup with its value.
fn keyed(setup: &Setup) -> Vec<(String, String)> {
    let mut all = Vec::new();
    under(&mut all, "", &setup.measuring);
    under(&mut all, "hosts", &setup.hosts);
    under(&mut all, "network", &setup.network);
    under(&mut all, "workload", &setup.workload);
    for (name, system) in &setup.systems {
        under(&mut all, &joined("system", name), system);
    }
    for (nth, fault) in setup.faults.iter().enumerate() {
        under(&mut all, &numbered("fault", nth), fault);
    }
    all
}

fn under<S: Keys>(all: &mut Vec<(String, String)>, path: &str, section: &S) {
    all.extend(shown(section).map(|(key, value)| (joined(path, key), value)));
}

impl Setup {
    /// The setup as TOML that reads as an experiment with this setup alone.
    pub fn to_toml(&self) -> String {
        let mut own = self.clone();
        // There are no factors in it, so systems that run elsewhere are left out.
        own.systems.retain(|_, system| system.runs_at(&self.combination));
        own.systems.values_mut().for_each(|system| system.at.clear());
        rendered(&own)
    }
}

impl Experiment {
    /// The plan for people: what is compared, how long it takes, what it can show, the order of the runs.
    /// `measured`: how much runs spread in results that are there.
    pub fn plan_text(&self, plan: &Plan, measured: Option<Spread>) -> String {
        let mut out = String::new();
        for (name, text) in self.head(plan, measured.unwrap_or(ASSUMED)) {
            out.push_str(&format!("{name:<11} {text}\n"));
        }
        out.push_str("\nblock  order\n");
        for block in plan.runs().chunk_by(|one, other| one.block() == other.block()) {
            let number = block.first().map_or(0, Run::block);
            let runs: Vec<String> = block.iter().map(|run| self.run_text(run)).collect();
            out.push_str(&format!("{number:>5}  {}\n", runs.join(" | ")));
        }
        out
    }

    /// The settings for people, one a line, each with its origin.
    pub fn settings_text(&self) -> String {
        let line = |setting: &Setting| format!("{} = {}  # {}\n", setting.key, setting.value, setting.origin);
        self.settings().iter().map(line).collect()
    }

    fn head(&self, plan: &Plan, spread: Spread) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if !self.question().is_empty() {
            lines.push(("question", self.question().to_owned()));
        }
        lines.push(("experiment", format!("{}, seed {}", self.id(), self.seed())));
        let subjects: Vec<String> = plan.subjects().iter().map(ToString::to_string).collect();
        let (controls, run) =
            (self.controls().join(" and "), if self.controls().len() == 1 { "runs" } else { "run" });
        lines.push(("systems", format!("{} (A/A control: {controls} {run} twice)", subjects.join(", "))));
        let levels = self.setups().first().map_or(&[][..], |setup| setup.combination.levels());
        for level in levels {
            let of = |setup: &Setup| setup.combination.value(&level.factor).map(str::to_owned);
            lines.push(("factor", format!("{} = {}", level.factor, values(self.setups(), of))));
        }
        lines.extend(self.claims().iter().map(|claim| ("claim", claim.to_string())));
        if !self.paper().is_empty() {
            lines.push(("paper", self.paper().to_owned()));
        }
        if !self.references().is_empty() {
            let with = self.references().iter().filter(|reference| reference.what.is_some()).count();
            let all = self.references().len();
            lines.push(("references", format!("{with} of {all} have a counterpart here")));
        }
        let each = plan.runs().iter().filter(|run| run.block() == 1).count();
        lines.push(("runs", format!("{} in {} blocks of {each}", plan.runs().len(), plan.blocks())));
        lines.push(("time", time(plan.estimate())));
        lines.push(("shows", self.power_text(plan, spread)));
        lines
    }

    /// What the blocks can show, in words.
    fn power_text(&self, plan: &Plan, spread: Spread) -> String {
        match self.detectable(spread) {
            Ok(detectable) => detectable.to_string(),
            Err(_) if self.claims().is_empty() => {
                let (fewest, blocks) = (self.fewest_blocks(), plan.blocks());
                format!(
                    "figures without interval: {blocks} blocks are too few for one; {fewest} would do, \
                     with --set repetitions={fewest}"
                )
            }
            Err(_) => {
                let (fewest, verdicts) = (self.fewest_blocks(), self.judged().max(1));
                format!(
                    "no verdict: {} blocks are too few for {verdicts} claims; write repetitions = {fewest} or more",
                    plan.blocks()
                )
            }
        }
    }

    fn run_text(&self, run: &Run) -> String {
        let combination = self.setups().get(run.setup()).map(|setup| setup.combination.to_string());
        match combination.filter(|text| !text.is_empty()) {
            Some(text) => format!("{} at {text}", run.subject()),
            None => run.subject().to_string(),
        }
    }

    /// The plan for programs.
    pub fn plan_json(&self, plan: &Plan, measured: Option<Spread>) -> Value {
        let factors = |run: &Run| -> Value {
            let levels = self.setups().get(run.setup()).map_or(&[][..], |setup| setup.combination.levels());
            levels.iter().map(|level| (level.factor.clone(), Value::from(level.value.clone()))).collect()
        };
        let run = |run: &Run| {
            json!({
                "id": run.id().to_string(),
                "block": run.block(),
                "system": run.subject().system,
                "twin": run.subject().twin,
                "factors": factors(run),
            })
        };
        json!({
            "experiment": self.id().to_string(),
            "question": self.question(),
            "seed": self.seed(),
            "controls": self.controls(),
            "blocks": plan.blocks(),
            "fewest_blocks": self.fewest_blocks(),
            "seconds": {
                "least": plan.estimate().least.as_secs_f64(),
                "most": plan.estimate().most.as_secs_f64(),
            },
            "detectable": self.detectable(measured.unwrap_or(ASSUMED)).ok(),
            "claims": self.claims().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "paper": self.paper(),
            "references": self.references().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "settings": self.settings(),
            "runs": plan.runs().iter().map(run).collect::<Vec<_>>(),
        })
    }
}

/// `12 to 20 minutes`.
fn time(estimate: Estimate) -> String {
    let minutes = |time: Duration| time.as_secs().div_ceil(60);
    match (minutes(estimate.least), minutes(estimate.most)) {
        (least, most) if least == most => format!("{most} minutes"),
        (least, most) => format!("{least} to {most} minutes"),
    }
}
