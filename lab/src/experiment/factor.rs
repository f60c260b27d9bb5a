//! `[factor]`: what is varied, and the combinations of its values.

use super::Workload;
use super::document::Parsed;
use super::effective;
use super::forms::{NAMES, is_name};
use super::keys::joined;
use super::layers::Origins;
use super::read::names_of;
use super::setup::Open;
use load::report::Fact;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use toml::de::DeValue;
use toml_form::error::Fault;
use toml_form::reader::{Section, Span, kind};
use toml_form::text::shown;

/// Values of a factor at most.
pub(super) const MOST_VALUES: usize = 100;
/// Combinations of an experiment at most.
pub(super) const MOST_COMBINATIONS: usize = 500;
/// The longest text of a value, octets.
pub(super) const LONGEST_VALUE: usize = 64;

/// One factor at one of its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    /// The factor.
    pub factor: String,
    /// Its value, as text.
    pub value: String,
}

/// A value for each factor, in the order of the factors' names. Empty without factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination(Vec<Level>);

impl Combination {
    /// These levels.
    pub fn new(mut levels: Vec<Level>) -> Combination {
        levels.sort();
        Combination(levels)
    }

    /// Each factor with its value.
    pub fn levels(&self) -> &[Level] {
        &self.0
    }

    /// The combination with these values in place of its own.
    #[must_use]
    pub fn with(&self, levels: &[Level]) -> Combination {
        let own =
            self.0.iter().map(|own| levels.iter().find(|other| other.factor == own.factor).unwrap_or(own));
        Combination(own.cloned().collect())
    }

    /// Each factor with its value, as a record and an outcome have it.
    pub fn facts(&self) -> Vec<Fact> {
        self.0.iter().map(|level| Fact::new(&*level.factor, &level.value)).collect()
    }

    /// The value of a factor.
    pub fn value(&self, factor: &str) -> Option<&str> {
        self.0.iter().find(|level| level.factor == factor).map(|level| level.value.as_str())
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, level) in self.0.iter().enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            write!(f, "{comma}{} = {}", level.factor, level.value)?;
        }
        Ok(())
    }
}

/// A factor and its values.
#[derive(Clone, Debug)]
pub(super) struct Factor<'d> {
    /// The document that it is from.
    pub document: usize,
    /// Where it stands there.
    pub span: Span,
    pub values: Vec<FactorValue<'d>>,
}

/// A value of a factor.
#[derive(Clone, Debug)]
pub(super) struct FactorValue<'d> {
    pub value: DeValue<'d>,
    pub text: String,
}

/// `[factor]` of every document; of two lists of one factor that of the higher layer counts.
pub(super) fn read<'d>(parsed: &mut [Parsed<'d>], origins: &mut Origins) -> BTreeMap<String, Factor<'d>> {
    let mut factors = BTreeMap::new();
    for (document, one) in parsed.iter_mut().enumerate() {
        let place = one.place();
        let mut top = Section::new("", 0..0, Some(&one.table));
        if one.table.get("factor").is_some_and(|value| value.get_ref().is_array()) {
            let mend = "write [factor], and below it `rate = [1000, 4000]`";
            one.reader.error(&top.span_of("factor"), Fault::new("`factor` is one section", mend));
            continue;
        }
        let section = top.section(&mut one.reader, "factor", "factor");
        for (name, value, span) in section.entries() {
            if !is_name(name.value) {
                let what = format!("\"{}\" cannot be the name of a factor", shown(name.value));
                one.reader.error(&name.span, Fault::new(what, NAMES));
                continue;
            }
            match values(value) {
                Ok(values) => {
                    origins.note(joined("factor", name.value), place.of(&one.reader, span.start));
                    let factor = Factor { document, span: name.span, values };
                    factors.insert(name.value.to_owned(), factor);
                }
                Err((at, fault)) => one.reader.error(&at.unwrap_or(span), fault),
            }
        }
    }
    factors
}

/// The values of a factor, or what is wrong, and where in the list.
fn values<'d>(value: &DeValue<'d>) -> Result<Vec<FactorValue<'d>>, (Option<Span>, Fault)> {
    let DeValue::Array(list) = value else {
        return scalar(value).map(|value| vec![value]).map_err(|fault| (None, fault));
    };
    if list.is_empty() || list.len() > MOST_VALUES {
        let what = format!("a factor has 1 to {MOST_VALUES} values, not {}", list.len());
        return Err((None, Fault::new(what, "write a list such as [1000, 4000]")));
    }
    let mut values: Vec<FactorValue<'d>> = Vec::new();
    for element in list.iter() {
        let value = scalar(element.get_ref()).map_err(|fault| (Some(element.span()), fault))?;
        if values.iter().any(|other| other.text == value.text) {
            let fault = Fault::new(format!("the value \"{}\" twice", shown(&value.text)), "remove one");
            return Err((Some(element.span()), fault));
        }
        values.push(value);
    }
    Ok(values)
}

/// A single value, whose text can be a word of a claim.
fn scalar<'d>(value: &DeValue<'d>) -> Result<FactorValue<'d>, Fault> {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        other => {
            let what = format!("a factor has plain values, not {}", kind(other));
            return Err(Fault::new(what, "write decimal numbers, texts, true or false"));
        }
    };
    let good = |c: char| !c.is_whitespace() && !c.is_control();
    let bad = text.is_empty() || text.len() > LONGEST_VALUE || !text.chars().all(good);
    if bad || text.contains("${") {
        let what = format!("\"{}\" cannot be the value of a factor", shown(&text));
        return Err(Fault::new(what, "1 to 64 characters without blanks and `${`"));
    }
    Ok(FactorValue { value: value.clone(), text })
}

/// Every combination of values, in the order of the factors' names, the last varying fastest.
pub(super) fn combinations(factors: &BTreeMap<String, Factor<'_>>) -> Result<Vec<Combination>, Fault> {
    let count = factors.values().fold(1_usize, |count, factor| count.saturating_mul(factor.values.len()));
    if count > MOST_COMBINATIONS {
        let what = format!("{count} combinations of factors");
        return Err(Fault::new(what, format!("at most {MOST_COMBINATIONS}: remove values")));
    }
    let mut all = vec![Vec::new()];
    for (name, factor) in factors {
        let level = |value: &FactorValue<'_>| Level { factor: name.clone(), value: value.text.clone() };
        let longer = |levels: Vec<Level>| {
            let with = |value| levels.iter().cloned().chain([level(value)]).collect::<Vec<_>>();
            factor.values.iter().map(with).collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    Ok(all.into_iter().map(Combination::new).collect())
}

/// Factors that have the name of a key of `[workload]` and are written nowhere as `${name}`: they set the
/// key.
pub(super) fn implied(
    parsed: &mut [Parsed<'_>],
    factors: &BTreeMap<String, Factor<'_>>,
    open: Open<'_>,
) -> BTreeSet<String> {
    let varied = effective::varied(parsed, open);
    let keys: Vec<&str> = names_of::<Workload>().collect();
    let candidates = factors.iter().filter(|(name, _)| keys.contains(&name.as_str()));
    let mut implied = BTreeSet::new();
    for (name, factor) in candidates {
        if varied.contains(&format!("${{{name}}}")) {
            continue;
        }
        implied.insert(name.clone());
        let written = |one: &Parsed<'_>| {
            let workload = one.table.get("workload").and_then(|value| value.get_ref().as_table());
            workload.is_some_and(|workload| workload.contains_key(name.as_str()))
        };
        if parsed.iter().any(written)
            && let Some(one) = parsed.get_mut(factor.document)
        {
            let mend = format!("remove one, or write `{name} = \"${{{name}}}\"` in [workload]");
            let fault = Fault::new(format!("`{name}` is a factor, and [workload] sets it"), mend);
            one.report([(factor.span.clone(), fault)]);
        }
    }
    implied
}
