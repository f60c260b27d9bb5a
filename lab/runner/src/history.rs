//! `lab history`: where figures changed over many results.

use control::say;
use lab::statistics::{ChangeRule, changes};
use serde::Serialize;

use crate::args::{HistoryArgs, Output};
use crate::cli::outcome_of;

/// Changes are reported with this confidence, and from this part of the level on.
const CONFIDENCE: f64 = 0.99;
const LEAST: f64 = 0.02;
/// Exit status where a figure changed.
const CHANGED: u8 = 1;

/// A change of a figure.
#[derive(Debug, Serialize)]
struct Changed {
    subject: String,
    quantity: String,
    unit: String,
    factors: String,
    /// The first result of the new level.
    since: String,
    before: f64,
    after: f64,
    p: f64,
}

/// Prints the changes; the exit status is 1 if there are any.
///
/// # Errors
/// If a result cannot be read.
pub fn run(args: &HistoryArgs) -> Result<u8, String> {
    let mut outcomes = Vec::new();
    for folder in &args.folders {
        outcomes.push((folder.display().to_string(), outcome_of(folder)?));
    }
    let mut found = Vec::new();
    let Some((_, newest)) = outcomes.last() else { return Ok(0) };
    for figure in &newest.figures {
        // A result without the figure leaves a gap.
        let value = |outcome: &lab::outcome::Outcome| {
            let same = outcome.figures.iter().find(|other| {
                (&other.subject, &other.quantity, &other.factors)
                    == (&figure.subject, &figure.quantity, &figure.factors)
            });
            same.and_then(|same| same.median).unwrap_or(f64::NAN)
        };
        let history: Vec<f64> = outcomes.iter().map(|(_, outcome)| value(outcome)).collect();
        for change in changes(&history, &ChangeRule::new(CONFIDENCE, LEAST, 1)) {
            let factors: Vec<String> =
                figure.factors.iter().map(|fact| format!("{} = {}", fact.name, fact.value)).collect();
            found.push(Changed {
                subject: figure.subject.clone(),
                quantity: figure.quantity.clone(),
                unit: figure.unit.clone(),
                factors: factors.join(", "),
                since: outcomes.get(change.index).map(|(name, _)| name.clone()).unwrap_or_default(),
                before: change.before,
                after: change.after,
                p: change.p,
            });
        }
    }
    match args.output {
        Output::Json => {
            say::out(format_args!("{}\n", serde_json::to_string_pretty(&found).unwrap_or_default()))
        }
        Output::Text => print(&found, outcomes.len()),
    }
    Ok(if found.is_empty() { 0 } else { CHANGED })
}

fn print(found: &[Changed], results: usize) {
    if found.is_empty() {
        say::out(format_args!("no figure changed by 2 % or more in {results} results\n"));
    }
    for change in found {
        let percent = 100.0 * (change.after / change.before - 1.0);
        let at = if change.factors.is_empty() { String::new() } else { format!(" at {}", change.factors) };
        say::out(format_args!(
            "{} of {}{at}: {:.4} {unit} to {:.4} {unit} ({percent:+.1} %) since {}, p = {:.3}\n",
            change.quantity,
            change.subject,
            change.before,
            change.after,
            change.since,
            change.p,
            unit = change.unit,
        ));
    }
}
