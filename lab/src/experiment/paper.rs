//! `[[reference]]`: what a paper measured, beside what the experiment measures. It decides no verdict.

use super::claims::{begin_of, limit, sentence_as_written};
use super::document::Parsed;
use super::factor::MOST_VALUES;
use super::forms::sentence;
use super::keys::{keys, read_over};
use super::layers::Origins;
use super::read::{numbered, required};
use super::sentence::{Known, Names, figure, of_paper};
use super::{Combination, Level, Quantity, Setup};
use std::fmt;
use toml_form::error::{Fault, closest};
use toml_form::form::list;
use toml_form::reader::{Section, Span};
use toml_form::text::shown;

/// References of an experiment at most.
pub(super) const MOST_REFERENCES: usize = 300;

keys! {
    /// `[[reference]]`: a figure of the paper.
    pub struct ReferenceKeys = "[[reference]]" {
        /// Where it stands in the paper: `"Table 3"`, `"figure 6"`. Required.
        source: String = String::new(), sentence();
        /// Its counterpart, a figure as in a claim: `mean of setup of tlwl at 960/s`. Or that of a system
        /// relative to another one, or to other values of factors: `peak of two relative to one`,
        /// `cpu/call of A where transport = udp relative to where workers = 1`. Without it there is none.
        what: Option<String> = None, sentence_as_written().optional();
        /// Figure of the paper: `"60 ms"`; with `over` a list. Without a counterpart: any text.
        value: Vec<String> = Vec::new(), list(limit()).no_default();
        /// The unit of values that have none of their own.
        unit: Option<String> = None, sentence().optional();
        /// The factor over which `value` is a list.
        over: Option<String> = None, sentence().optional();
        /// The values of that factor in the paper, in the order of `value`. Without it: those of the
        /// experiment. Other values are not measured; the report shows and plots them.
        at: Vec<String> = Vec::new(), list(limit()).no_default();
        /// A sentence that says why ours differs, or why there is no counterpart. Required.
        note: String = String::new(), sentence();
    }
}

/// What is measured here in place of a figure of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Counterpart {
    /// The figure.
    pub quantity: Quantity,
    /// The system that it is of.
    pub system: String,
    /// What it is divided by, within each block.
    pub relative_to: Option<Base>,
    /// Factors and values at which it is taken; empty: at every combination.
    pub at: Vec<Level>,
}

/// The same figure of another system, or at other values of factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Base {
    /// The system.
    pub system: String,
    /// Values of factors in place of those of the counterpart; empty: the same ones.
    pub at: Vec<Level>,
}

impl Counterpart {
    /// The unit of its figures; "x" of a quotient, empty of a count.
    pub fn unit(&self) -> &'static str {
        if self.relative_to.is_some() { "x" } else { self.quantity.measure.unit() }
    }

    /// Whether it is taken at this combination of factors.
    pub fn concerns(&self, combination: &Combination) -> bool {
        self.at.iter().all(|level| combination.value(&level.factor) == Some(level.value.as_str()))
    }
}

impl fmt::Display for Counterpart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = places_text(&self.at);
        match &self.relative_to {
            None => write!(f, "{} of {}{own}", self.quantity, self.system),
            Some(Base { system, at }) if at.is_empty() => {
                write!(f, "{} of {} relative to {system}{own}", self.quantity, self.system)
            }
            Some(Base { system, at }) => {
                let other = places_text(at);
                write!(f, "{} of {}{own} relative to {system}{other}", self.quantity, self.system)
            }
        }
    }
}

/// ` where transport = tls and rate = 1000`; nothing without levels.
fn places_text(levels: &[Level]) -> String {
    let place = |(nth, level): (usize, &Level)| {
        let word = if nth == 0 { "where" } else { "and" };
        format!(" {word} {} = {}", level.factor, level.value)
    };
    levels.iter().enumerate().map(place).collect()
}

/// A value of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The value of the factor in [`Reference::over`].
    pub at: Option<String>,
    /// In the unit of the counterpart.
    pub value: f64,
}

/// A figure or a series of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Where it stands in the paper.
    pub source: String,
    /// What is measured here in its place; `None` if nothing is.
    pub what: Option<Counterpart>,
    /// The factor over which there are several values.
    pub over: Option<String>,
    /// What the paper has; empty without counterpart.
    pub points: Vec<Point>,
    /// What the paper has, as written, where there is no counterpart.
    pub said: String,
    /// Why ours differs, or why there is no counterpart.
    pub note: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what.as_ref().map_or_else(|| self.note.clone(), ToString::to_string);
        write!(f, "{}: {what}", self.source)
    }
}

/// The references of the highest layer that has some. `paper` is what the file says of the paper.
pub(super) fn read(
    parsed: &mut [Parsed<'_>],
    origins: &mut Origins,
    setups: &[Setup],
    paper: &str,
) -> Vec<Reference> {
    let Some(names) = Names::of(setups) else { return Vec::new() };
    let Some(one) = parsed.iter_mut().rev().find(|one| one.table.get("reference").is_some()) else {
        return Vec::new();
    };
    let place = one.place();
    let mut top = Section::new("", 0..0, Some(&one.table));
    let sections = top.sections(&mut one.reader, "reference", "reference");
    if sections.len() > MOST_REFERENCES {
        let fault =
            Fault::new(format!("more than {MOST_REFERENCES} references"), "write several experiments");
        one.reader.error(&top.span_of("reference"), fault);
    }
    if let Some(first) = sections.first().filter(|_| paper.is_empty()) {
        let mend = "write `paper = \"authors, title, year\"` at the top";
        one.reader.error(first.span(), Fault::new("a reference to no paper", mend));
    }
    let mut references = Vec::new();
    for (nth, mut section) in sections.into_iter().take(MOST_REFERENCES).enumerate() {
        let (mut keys, faults) = (ReferenceKeys::default(), one.reader.errors.len());
        let path = numbered("reference", nth);
        read_over(&mut section, &mut one.reader, origins, (&path, place), &mut keys);
        required(&mut one.reader, &section, "source", "source = \"Table 3\"");
        required(&mut one.reader, &section, "note", "note = \"why ours differs\"");
        if one.reader.errors.len() == faults {
            match reference(&keys, &section, &one.document.text, names.known()) {
                Ok(reference) => references.push(reference),
                Err((span, fault)) => one.reader.error(&span, fault),
            }
        }
        section.finish(&mut one.reader);
    }
    references
}

/// A finding and its place.
type Wrong = (Span, Fault);

/// The reference, or what is wrong and where.
fn reference(
    keys: &ReferenceKeys,
    section: &Section<'_, '_>,
    text: &str,
    known: Known<'_>,
) -> Result<Reference, Wrong> {
    let reference = Reference {
        source: keys.source.clone(),
        what: None,
        over: keys.over.clone(),
        points: Vec::new(),
        said: String::new(),
        note: keys.note.clone(),
    };
    let Some(what) = &keys.what else {
        if let Some(key) = ["unit", "over", "at"].into_iter().find(|key| section.has(key)) {
            let fault = Fault::new(format!("`{key}` without `what`"), "name the counterpart, or remove it");
            return Err((section.span_of(key), fault));
        }
        return Ok(Reference { said: keys.value.join(", "), ..reference });
    };
    let what = figure(what, known).map_err(|wrong| {
        let span = section.span_of("what");
        let begin = begin_of(what, &span, text).map(|begin| begin + wrong.at);
        (begin.map_or(span, |begin| begin..begin), wrong.fault)
    })?;
    let places = places(keys, &what, section, known)?;
    if keys.value.len() != places.len() {
        let what = format!("{} values for {}", keys.value.len(), places.len());
        let mend = match keys.over {
            None => "write one value; a list needs `over = \"FACTOR\"`",
            Some(_) => "write one for each value of the factor, or name others with `at`",
        };
        return Err((section.span_of("value"), Fault::new(what, mend)));
    }
    let spans = section.places("value", &limit());
    let mut points = Vec::new();
    for (nth, (written, at)) in keys.value.iter().zip(places).enumerate() {
        let value = of_paper(written, keys.unit.as_deref(), &what).map_err(|fault| {
            (spans.get(nth).map_or_else(|| section.span_of("value"), |place| place.span.clone()), fault)
        })?;
        points.push(Point { at, value });
    }
    Ok(Reference { what: Some(what), points, ..reference })
}

/// The values of the factor, one for each value of the paper; one nothing where there is no factor.
fn places(
    keys: &ReferenceKeys,
    what: &Counterpart,
    section: &Section<'_, '_>,
    known: Known<'_>,
) -> Result<Vec<Option<String>>, Wrong> {
    let wrong = |key: &str, what: String, mend: &str| Err((section.span_of(key), Fault::new(what, mend)));
    let Some(over) = &keys.over else {
        if section.has("at") {
            return wrong("at", "`at` without a factor".to_owned(), "add `over = \"FACTOR\"`");
        }
        return Ok(vec![None]);
    };
    let combinations = || known.combinations.iter().filter(|combination| what.concerns(combination));
    let mut values: Vec<&str> = Vec::new();
    for value in combinations().filter_map(|combination| combination.value(over)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.is_empty() {
        let factors = known.combinations.first().map_or(&[][..], Combination::levels);
        let names = || factors.iter().map(|level| level.factor.as_str());
        let mend = match closest(over, names()) {
            Some(name) => format!("did you mean \"{name}\"?"),
            None if factors.is_empty() => "there are no factors".to_owned(),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        return wrong("over", format!("\"{}\" is not a factor", shown(over)), &mend);
    }
    if what.at.iter().any(|level| level.factor == *over) {
        let fault = format!("`what` has one value of {over}");
        return wrong("over", fault, "remove it there, or remove `over`");
    }
    if keys.at.len() > MOST_VALUES {
        return wrong("at", format!("more than {MOST_VALUES} values"), "leave some out");
    }
    if keys.at.is_empty() {
        return Ok(values.iter().map(|value| Some((*value).to_owned())).collect());
    }
    let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
    let numeric = values.iter().all(|value| number(value).is_some());
    let mut places = Vec::new();
    for at in &keys.at {
        // Written as the factor has it, so that both find each other.
        let same = |value: &&&str| **value == at || (numeric && number(value) == number(at));
        match values.iter().find(same) {
            Some(value) => places.push(Some((*value).to_owned())),
            None if numeric && number(at).is_some() => places.push(Some(at.clone())),
            None => {
                let what = format!("no run has {over} = \"{}\"", shown(at));
                return wrong("at", what, &format!("one of {}", values.join(", ")));
            }
        }
    }
    Ok(places)
}
