//! `lab history`: where figures changed over many results. Each machine has a history of its own.

use control::say;
use lab::outcome::{Figure, Outcome};
use lab::statistics::{ChangeRule, changes};
use load::report::Fact;
use serde::Serialize;

use crate::args::{HistoryArgs, Output};
use crate::cli::outcome_of;

/// All changes together are reported with this confidence, and from this part of the level on.
const CONFIDENCE: f64 = 0.99;
const LEAST: f64 = 0.02;
/// Exit status where a figure changed.
const CHANGED: u8 = 1;
/// Facts that tell one machine from another. Its kernel may be what changed a figure.
const MACHINE: [&str; 2] = ["processor", "processors"];
/// How the name of the second copy of the A/A control ends: it is the same system, and has no history of its
/// own.
const AGAIN: &str = ".again";

/// A change of a figure.
#[derive(Debug, Serialize)]
struct Changed {
    machine: String,
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

/// The results of one machine, with their names, the oldest first.
#[derive(Debug)]
struct Series<'a> {
    machine: String,
    results: Vec<(&'a str, &'a Outcome)>,
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
    let series = by_machine(&outcomes);
    let found = changed(&series);
    match args.output {
        Output::Json => {
            say::out(format_args!("{}\n", serde_json::to_string_pretty(&found).unwrap_or_default()))
        }
        Output::Text => print(&found, &series),
    }
    Ok(if found.is_empty() { 0 } else { CHANGED })
}

/// The results of each machine, in their order.
fn by_machine(outcomes: &[(String, Outcome)]) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for (name, outcome) in outcomes {
        let machine = machine(&outcome.machine);
        let at = all.iter().position(|series| series.machine == machine).unwrap_or_else(|| {
            all.push(Series { machine, results: Vec::new() });
            all.len() - 1
        });
        if let Some(series) = all.get_mut(at) {
            series.results.push((name, outcome));
        }
    }
    all
}

/// "Xeon, 2 processors, 8 GiB".
fn machine(facts: &[Fact]) -> String {
    let of = |name: &str| facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str());
    let [processor, processors] = MACHINE.map(|name| of(name).unwrap_or("unknown"));
    // The kernel keeps some of it for itself, and not always the same.
    let kib = of("memory").and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let gib = kib.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.0}", kib / f64::from(1 << 20)));
    format!("{processor}, processors: {processors}, memory: {gib} GiB")
}

/// The figures of a series: those of its newest result.
fn figures<'a>(series: &Series<'a>) -> impl Iterator<Item = &'a Figure> {
    let newest = series.results.last().map(|(_, outcome)| *outcome);
    newest.into_iter().flat_map(|outcome| &outcome.figures).filter(|figure| !figure.subject.ends_with(AGAIN))
}

/// The changes of all figures. They share the probability of a change that is none.
fn changed(series: &[Series<'_>]) -> Vec<Changed> {
    let rule =
        ChangeRule::new(CONFIDENCE, LEAST, 1).among(series.iter().map(|one| figures(one).count()).sum());
    let mut found = Vec::new();
    for one in series {
        for figure in figures(one) {
            found.extend(of_figure(one, figure, &rule));
        }
    }
    found
}

fn of_figure(series: &Series<'_>, figure: &Figure, rule: &ChangeRule) -> Vec<Changed> {
    // A result without the figure leaves a gap.
    let value = |outcome: &Outcome| {
        let same = outcome.figures.iter().find(|other| {
            (&other.subject, &other.quantity, &other.factors)
                == (&figure.subject, &figure.quantity, &figure.factors)
        });
        same.and_then(|same| same.median).unwrap_or(f64::NAN)
    };
    let history: Vec<f64> = series.results.iter().map(|(_, outcome)| value(outcome)).collect();
    let factors: Vec<String> =
        figure.factors.iter().map(|fact| format!("{} = {}", fact.name, fact.value)).collect();
    let all = changes(&history, rule).into_iter();
    all.map(|change| Changed {
        machine: series.machine.clone(),
        subject: figure.subject.clone(),
        quantity: figure.quantity.clone(),
        unit: figure.unit.clone(),
        factors: factors.join(", "),
        since: series.results.get(change.index).map(|(name, _)| (*name).to_owned()).unwrap_or_default(),
        before: change.before,
        after: change.after,
        p: change.p,
    })
    .collect()
}

fn print(found: &[Changed], series: &[Series<'_>]) {
    for one in series {
        if series.len() > 1 {
            say::out(format_args!("{}:\n", one.machine));
        }
        let mut own = found.iter().filter(|change| change.machine == one.machine).peekable();
        if own.peek().is_none() {
            let percent = 100.0 * LEAST;
            say::out(format_args!(
                "no figure changed by {percent} % or more in {} results\n",
                one.results.len()
            ));
        }
        for change in own {
            say::out(format_args!("{}\n", line(change)));
        }
    }
}

fn line(change: &Changed) -> String {
    let percent = 100.0 * (change.after / change.before - 1.0);
    let at = if change.factors.is_empty() { String::new() } else { format!(" at {}", change.factors) };
    format!(
        "{} of {}{at}: {:.4} {unit} to {:.4} {unit} ({percent:+.1} %) since {}, p = {:.4}",
        change.quantity,
        change.subject,
        change.before,
        change.after,
        change.since,
        change.p,
        unit = change.unit,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(processor: &str, memory: &str, values: &[f64]) -> Outcome {
        let figure = |(nth, value): (usize, &f64)| Figure {
            subject: "A".to_owned(),
            quantity: format!("figure {nth}"),
            median: Some(*value),
            ..Figure::default()
        };
        Outcome {
            figures: values.iter().enumerate().map(figure).collect(),
            machine: vec![Fact::new("processor", processor), Fact::new("memory", memory)],
            ..Outcome::default()
        }
    }

    fn found(results: Vec<Outcome>) -> Vec<Changed> {
        let named: Vec<(String, Outcome)> =
            (1..).zip(results).map(|(nth, outcome)| (format!("r{nth}"), outcome)).collect();
        changed(&by_machine(&named))
    }

    #[test]
    fn another_machine_is_no_change() {
        let noise = |nth: i32| f64::from(nth * 7 % 5) / 10.0;
        let one = |nth: i32| result("small", "8000000 kB", &[100.0 + noise(nth)]);
        let other = |nth: i32| result("large", "8000000 kB", &[50.0 + noise(nth)]);
        let moved = found((0..15).map(one).chain((0..15).map(other)).collect());
        assert!(moved.is_empty(), "{moved:?}");
        // A little less memory is the same machine under another kernel.
        let slower = |nth: i32| result("small", "7990000 kB", &[110.0 + noise(nth)]);
        let changes = found((0..15).map(one).chain((0..15).map(other)).chain((0..15).map(slower)).collect());
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!((changes[0].since.as_str(), changes[0].machine.starts_with("small")), ("r31", true));
    }

    #[test]
    fn figures_share_the_probability_of_a_false_change() {
        // Of ten results, no order is as unlikely as one in a thousand: among many figures that is chance.
        let step = |nth: i32| if nth < 5 { 100.0 } else { 110.0 } + f64::from(nth * 3 % 4) / 10.0;
        assert_eq!(found((0..10).map(|nth| result("small", "", &[step(nth)])).collect()).len(), 1);
        let among = |nth: i32| {
            let others: Vec<f64> =
                (0..50).map(|other| 100.0 + f64::from((nth * 7 + other) % 5) / 10.0).collect();
            result("small", "", &[vec![step(nth)], others].concat())
        };
        assert_eq!(found((0..10).map(among).collect()).len(), 0);
    }
}
