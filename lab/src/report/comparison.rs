//! Two experiments side by side, or the same one at two dates.

use serde::Serialize;

use load::report::Fact;

use super::page::{answer, title, word};
use super::words::more_is_better;
use crate::outcome::{Figure, Outcome};
use crate::statistics::Unpaired;

/// The confidence of all relations together.
const CONFIDENCE: f64 = 0.95;

/// Two outcomes as a comparison shows them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The first.
    pub a: Side,
    /// The second.
    pub b: Side,
    /// Both measured the same: experiment and seed have the same digest.
    pub same_experiment: bool,
    /// All facts of both machines are known and equal. If not, no relation of figures is a claim.
    pub same_machine: bool,
    /// Facts of the machines that differ.
    pub machine: Vec<Difference>,
    /// Every figure of either, in the order of the first.
    pub figures: Vec<FigureRow>,
}

/// One of the two.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Side {
    /// The digest of what was measured.
    pub experiment: String,
    /// The question.
    pub question: String,
    /// The verdict.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// Runs that count.
    pub counted: usize,
    /// Runs that were made.
    pub made: usize,
}

/// A fact that differs. Nothing where a side does not know it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// The fact.
    pub name: String,
    /// Of the first.
    pub a: Option<String>,
    /// Of the second.
    pub b: Option<String>,
}

/// How two figures lie to each other. The runs of two results have no common blocks, so their values are
/// compared as samples ([`Unpaired`]). All figures share the probability of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The second is above the first, beyond chance.
    Higher,
    /// The second is below the first, beyond chance.
    Lower,
    /// Chance explains what differs.
    NoDifference,
    /// A side has too few values.
    Unknown,
}

/// A figure of both.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FigureRow {
    /// The system.
    pub subject: String,
    /// The figure, as "p99 of setup".
    pub quantity: String,
    /// Its unit.
    pub unit: String,
    /// The factors and their values.
    pub factors: Vec<Fact>,
    /// Median and interval of the first.
    pub a: (Option<f64>, Option<(f64, f64)>),
    /// Median and interval of the second.
    pub b: (Option<f64>, Option<(f64, f64)>),
    /// The second minus the first, percent of the first.
    pub change_percent: Option<f64>,
    /// How they lie to each other.
    pub relation: Relation,
    /// Whether the second is better; nothing if no difference is shown or neither direction is better.
    pub better: Option<bool>,
}

/// Sets two outcomes side by side.
pub fn comparison(a: &Outcome, b: &Outcome) -> Comparison {
    let machine = differences(&a.machine, &b.machine);
    let known = !a.machine.is_empty() && !b.machine.is_empty();
    Comparison {
        a: side(a),
        b: side(b),
        same_experiment: !a.experiment.is_empty() && a.experiment == b.experiment,
        same_machine: known && machine.is_empty(),
        machine,
        figures: figures(&a.figures, &b.figures),
    }
}

impl Comparison {
    /// As JSON.
    pub fn to_json(&self) -> String {
        // Numbers, strings and vectors always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

fn side(outcome: &Outcome) -> Side {
    Side {
        experiment: outcome.experiment.clone(),
        question: title(outcome),
        verdict: word(outcome).to_owned(),
        reason: answer(outcome),
        counted: outcome.runs.iter().filter(|run| run.void.is_empty()).count(),
        made: outcome.runs.len(),
    }
}

fn differences(a: &[Fact], b: &[Fact]) -> Vec<Difference> {
    let find = |facts: &[Fact], name: &str| facts.iter().find(|f| f.name == name).map(|f| f.value.clone());
    let only_b = b.iter().filter(|fact| find(a, &fact.name).is_none());
    let names = a.iter().chain(only_b).map(|fact| &fact.name);
    names
        .map(|name| Difference { name: name.clone(), a: find(a, name), b: find(b, name) })
        .filter(|difference| difference.a != difference.b)
        .collect()
}

fn same(a: &Figure, b: &Figure) -> bool {
    (&a.subject, &a.quantity, &a.unit, &a.factors) == (&b.subject, &b.quantity, &b.unit, &b.factors)
}

fn figures(a: &[Figure], b: &[Figure]) -> Vec<FigureRow> {
    let of_both = a.iter().filter(|figure| b.iter().any(|other| same(figure, other))).count();
    let confidence = 1.0 - (1.0 - CONFIDENCE) / of_both.max(1) as f64;
    let of_a =
        a.iter().map(|figure| row(Some(figure), b.iter().find(|other| same(figure, other)), confidence));
    let only_b = b.iter().filter(|figure| !a.iter().any(|other| same(figure, other)));
    of_a.chain(only_b.map(|figure| row(None, Some(figure), confidence))).flatten().collect()
}

/// How the second of two samples lies to the first.
fn relation(a: &Figure, b: &Figure, confidence: f64) -> Relation {
    let known = |figure: &Figure| -> Vec<f64> { figure.values.iter().copied().flatten().collect() };
    match Unpaired::of(&known(b), &known(a), confidence).map(|found| found.shift.interval) {
        Ok(shift) if shift.low() > 0.0 => Relation::Higher,
        Ok(shift) if shift.high() < 0.0 => Relation::Lower,
        Ok(_) => Relation::NoDifference,
        Err(_) => Relation::Unknown,
    }
}

fn row(a: Option<&Figure>, b: Option<&Figure>, confidence: f64) -> Option<FigureRow> {
    let of = a.or(b)?;
    let shown = |figure: Option<&Figure>| {
        let median = figure.and_then(|f| f.median).filter(|v| v.is_finite());
        let interval =
            figure.and_then(|f| f.interval).filter(|(low, high)| low.is_finite() && high.is_finite());
        (median, interval)
    };
    let relation = a.zip(b).map_or(Relation::Unknown, |(a, b)| relation(a, b, confidence));
    let (a, b) = (shown(a), shown(b));
    let more = more_is_better(&of.quantity);
    let change = a.0.zip(b.0).filter(|(a, _)| *a != 0.0).map(|(a, b)| (b - a) * 100.0 / a.abs());
    Some(FigureRow {
        subject: of.subject.clone(),
        quantity: of.quantity.clone(),
        unit: of.unit.clone(),
        factors: of.factors.clone(),
        a,
        b,
        change_percent: change.filter(|v| v.is_finite()),
        relation,
        better: match relation {
            Relation::Higher => more,
            Relation::Lower => more.map(|more| !more),
            Relation::NoDifference | Relation::Unknown => None,
        },
    })
}
