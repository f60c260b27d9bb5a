//! The runs of an experiment by what they measured.

use std::collections::BTreeSet;

use load::report::Fact;

use crate::outcome::Outcome;
use crate::record::RunRecord;

/// The runs of one system at one combination of factors.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    /// The system.
    pub subject: String,
    /// Its runs that count, in order.
    pub runs: Vec<&'a RunRecord>,
    /// How many more are void.
    pub void: usize,
}

/// All systems at one combination of factors.
#[derive(Clone, Debug)]
pub(super) struct Combination<'a> {
    /// The factors and their values.
    pub factors: &'a [Fact],
    /// Each system, in order of its first run.
    pub groups: Vec<Group<'a>>,
}

/// The runs by combination, then by system.
pub(super) fn combinations<'a>(outcome: &Outcome, records: &'a [RunRecord]) -> Vec<Combination<'a>> {
    let void: BTreeSet<&str> =
        outcome.runs.iter().filter(|run| !run.void.is_empty()).map(|run| run.id.as_str()).collect();
    let mut all: Vec<Combination<'a>> = Vec::new();
    for record in records {
        let at = all.iter().position(|c| c.factors == record.run.factors);
        let at = at.unwrap_or_else(|| {
            all.push(Combination { factors: &record.run.factors, groups: Vec::new() });
            all.len() - 1
        });
        let Some(combination) = all.get_mut(at) else { continue };
        let subject = record.subject();
        let groups = &mut combination.groups;
        let at = groups.iter().position(|g| g.subject == subject).unwrap_or_else(|| {
            groups.push(Group { subject, runs: Vec::new(), void: 0 });
            groups.len() - 1
        });
        let Some(group) = groups.get_mut(at) else { continue };
        if record.screened.void.is_empty() && !void.contains(record.run.id.as_str()) {
            group.runs.push(record);
        } else {
            group.void += 1;
        }
    }
    // Runs come in random order. The same system has the same colour in every plot: that of its figures.
    let place = |subject: &str| outcome.figures.iter().position(|figure| figure.subject == subject);
    for combination in &mut all {
        combination.groups.sort_by_key(|g| (place(&g.subject).unwrap_or(usize::MAX), g.subject.clone()));
    }
    all.sort_by_key(|c| records.iter().find(|r| r.run.factors == c.factors).map(|r| r.run.setup));
    all
}
