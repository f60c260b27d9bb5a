//! The figures of a paper beside those of the experiment. They decide no verdict.

use load::report::Fact;

use crate::experiment::{Base, Combination, Counterpart, Level, Reference, Setup};
use crate::outcome::{Figure, ReferenceOutcome};
use crate::statistics::{Paired, median, pairs};

/// A row for each value of the paper at each combination of factors that it is about, in the order of the
/// references. `figures` has what was measured of each system at each combination.
pub fn beside(
    references: &[Reference],
    setups: &[Setup],
    figures: &[Figure],
    confidence: f64,
) -> Vec<ReferenceOutcome> {
    let mut rows = Vec::new();
    for reference in references {
        let Some(what) = &reference.what else {
            rows.push(ReferenceOutcome { said: reference.said.clone(), ..empty(reference) });
            continue;
        };
        let over = reference.over.as_deref();
        let combinations = || setups.iter().map(|setup| &setup.combination).filter(|at| what.concerns(at));
        let ours: Vec<&str> = combinations().filter_map(|at| at.value(over?)).collect();
        for rest in rests(combinations(), over) {
            for (at, value) in places(reference, &ours) {
                let factors = factors_of(&rest, over, at);
                rows.push(row(reference, what, value, factors, figures, confidence));
            }
        }
    }
    rows
}

/// The values of the paper, each with that of the factor; then the values of the factor that only we have.
fn places<'a>(reference: &'a Reference, ours: &[&'a str]) -> Vec<(Option<&'a str>, Option<f64>)> {
    let points = reference.points.iter().map(|point| (point.at.as_deref(), Some(point.value)));
    let mut all: Vec<(Option<&str>, Option<f64>)> = points.collect();
    for value in ours {
        if !all.iter().any(|(at, _)| at.is_some_and(|at| at == *value)) {
            all.push((Some(*value), None));
        }
    }
    all
}

fn empty(reference: &Reference) -> ReferenceOutcome {
    let (source, note) = (reference.source.clone(), reference.note.clone());
    ReferenceOutcome { source, note, ..ReferenceOutcome::default() }
}

/// The combinations without the factor of a series, each once.
fn rests<'a>(combinations: impl Iterator<Item = &'a Combination>, over: Option<&str>) -> Vec<Vec<Level>> {
    let mut rests: Vec<Vec<Level>> = Vec::new();
    for combination in combinations {
        let levels = combination.levels().iter().filter(|level| Some(level.factor.as_str()) != over);
        let rest: Vec<Level> = levels.cloned().collect();
        if !rests.contains(&rest) {
            rests.push(rest);
        }
    }
    rests
}

/// The factors of a point, ordered as those of the figures.
fn factors_of(rest: &[Level], over: Option<&str>, at: Option<&str>) -> Vec<Fact> {
    let mut levels = rest.to_vec();
    if let (Some(factor), Some(value)) = (over, at) {
        levels.push(Level { factor: factor.to_owned(), value: value.to_owned() });
    }
    let combination = Combination::new(levels);
    combination.facts()
}

fn row(
    reference: &Reference,
    what: &Counterpart,
    paper: Option<f64>,
    factors: Vec<Fact>,
    figures: &[Figure],
    confidence: f64,
) -> ReferenceOutcome {
    let quantity = what.quantity.to_string();
    let find = |system: &str, at: &[Fact]| {
        figures.iter().find(|f| f.subject == system && f.quantity == quantity && f.factors == at)
    };
    let (measured, interval) = match (find(&what.system, &factors), &what.relative_to) {
        (None, _) => (None, None),
        (Some(figure), None) => (figure.median, figure.interval),
        (Some(figure), Some(Base { system, at })) => {
            find(system, &with(&factors, at)).map_or((None, None), |of| quotient(figure, of, confidence))
        }
    };
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    let known = measured.filter(|v| v.is_finite()).zip(paper.filter(usable));
    let ratio = known.map(|(measured, paper)| measured / paper);
    let shown = Counterpart { at: Vec::new(), ..what.clone() };
    ReferenceOutcome {
        what: shown.to_string(),
        subject: what.system.clone(),
        quantity: if what.relative_to.is_some() { String::new() } else { quantity },
        over: reference.over.clone().unwrap_or_default(),
        factors,
        paper,
        unit: what.unit().to_owned(),
        measured,
        interval,
        ratio,
        ..empty(reference)
    }
}

/// The factors with these values in place of their own.
fn with(factors: &[Fact], levels: &[Level]) -> Vec<Fact> {
    let of = |fact: &Fact| match levels.iter().find(|level| level.factor == fact.name) {
        Some(level) => Fact::new(&*level.factor, &level.value),
        None => fact.clone(),
    };
    factors.iter().map(of).collect()
}

/// How many times the figure of another system one is, within blocks; without an interval if there are too
/// few of them.
fn quotient(own: &Figure, other: &Figure, confidence: f64) -> (Option<f64>, Option<(f64, f64)>) {
    let both = pairs(&own.values, &other.values);
    if let Some(ratio) = Paired::of(&both, confidence).ok().and_then(|paired| paired.ratio) {
        return (Some(ratio.value), Some((ratio.interval.low(), ratio.interval.high())));
    }
    let quotients: Vec<f64> = both.iter().filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b).collect();
    (median(&quotients), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Sources};

    const HEAD: &str = "paper = 'A. Author, On Servers, 2012'\n[system.A]\n[system.B]\n[factor]\n\
        rate = [100, 200]\ntransport = ['udp', 'tcp']\n";

    /// Of each system: the rate at A, twice that at B; two blocks, of which B lacks one.
    fn rows(reference: &str) -> Vec<ReferenceOutcome> {
        let text = format!("{HEAD}[[reference]]\nsource = 'Table 1'\nnote = 'newer machines'\n{reference}\n");
        let experiment = Experiment::read(&Sources::new("x.toml", &text)).expect("it is good");
        let mut figures = Vec::new();
        for setup in experiment.setups() {
            let levels = setup.combination.levels();
            let factors: Vec<Fact> = levels.iter().map(|l| Fact::new(&*l.factor, &l.value)).collect();
            let rate: f64 = setup.combination.value("rate").expect("a factor").parse().expect("a number");
            for (subject, values) in [("A", vec![Some(rate); 2]), ("B", vec![Some(2.0 * rate), None])] {
                figures.push(Figure {
                    subject: subject.to_owned(),
                    quantity: "calls/s".to_owned(),
                    factors: factors.clone(),
                    median: values[0],
                    values,
                    ..Figure::default()
                });
            }
        }
        beside(experiment.references(), experiment.setups(), &figures, 0.95)
    }

    fn told(rows: &[ReferenceOutcome]) -> Vec<(String, Option<f64>, Option<f64>)> {
        let factors = |row: &ReferenceOutcome| {
            row.factors.iter().map(|f| f.value.as_str()).collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(|row| (factors(row), row.measured, row.ratio)).collect()
    }

    #[test]
    fn figure_has_a_row_at_each_combination_it_is_about() {
        let all = rows("what = 'calls/s of A at 200/s'\nvalue = 400");
        let half = |at: &str| (at.to_owned(), Some(200.0), Some(0.5));
        assert_eq!(told(&all), [half("200 tcp"), half("200 udp")].into_iter().rev().collect::<Vec<_>>());
        let row = &all[0];
        assert_eq!((row.what.as_str(), row.unit.as_str(), row.paper), ("calls/s of A", "/s", Some(400.0)));
        assert_eq!((row.source.as_str(), row.note.as_str()), ("Table 1", "newer machines"));
        assert_eq!(rows("what = 'calls/s of A'\nvalue = 400").len(), 4);
    }

    #[test]
    fn series_has_a_row_for_each_of_its_values() {
        let series = "what = 'calls/s of A where transport = udp'\nover = 'rate'\n";
        let all = rows(&format!("{series}value = [100, 100]"));
        assert_eq!(
            told(&all),
            [("100 udp".to_owned(), Some(100.0), Some(1.0)), ("200 udp".to_owned(), Some(200.0), Some(2.0))]
        );
        // Values that were not run have nothing of ours, and others nothing of the paper.
        let all = rows(&format!("{series}at = [200.0, 800]\nvalue = [100, 50]"));
        assert_eq!(
            told(&all),
            [
                ("200 udp".to_owned(), Some(200.0), Some(2.0)),
                ("800 udp".to_owned(), None, None),
                ("100 udp".to_owned(), Some(100.0), None),
            ]
        );
    }

    #[test]
    fn quotient_of_systems_is_within_blocks() {
        let all = rows("what = 'calls/s of B relative to A at 100/s where transport = udp'\nvalue = '400%'");
        assert_eq!(told(&all), [("100 udp".to_owned(), Some(2.0), Some(0.5))]);
        assert_eq!((all[0].unit.as_str(), all[0].interval), ("x", None));
        // A line of a plot has one unit: quotients are no part of it.
        assert!(all[0].quantity.is_empty());
    }

    #[test]
    fn quotient_of_two_values_of_a_factor_is_within_blocks() {
        let what =
            "what = 'calls/s of B where transport = tcp relative to where rate = 100'\nover = 'rate'\n";
        let all = rows(&format!("{what}value = [1, 4]"));
        let told = told(&all);
        assert_eq!(told[0], ("100 tcp".to_owned(), Some(1.0), Some(1.0)));
        assert_eq!(told[1], ("200 tcp".to_owned(), Some(2.0), Some(0.5)));
        assert_eq!(all[1].what, "calls/s of B relative to B where rate = 100");
    }

    #[test]
    fn reference_without_counterpart_is_a_note() {
        let all = rows("value = '85 %'");
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].said.as_str(), all[0].paper, all[0].what.as_str()), ("85 %", None, ""));
    }
}
