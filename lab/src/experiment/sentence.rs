//! Claims as sentences: `p99 of setup of A at most 60 ms at 4000/s`, `cpu/call of B within 5% of A`,
//! `cpu/call of A where transport = tls at most 2 of A where transport = udp`.

use super::Setup;
use super::claim::{Bound, Claim, Limit, Measure, Quantity, Statistic};
use super::factor::{Combination, Level};
use super::paper::{Base, Counterpart};
use std::collections::BTreeMap;
use toml_form::error::{Fault, closest};
use toml_form::text::shown;

/// The longest claim, octets.
pub(super) const LONGEST: usize = 1_024;

/// What the words of a claim may refer to.
#[derive(Clone, Copy)]
pub(super) struct Known<'k> {
    /// Each system, and whether it is there for comparison alone.
    pub systems: &'k BTreeMap<String, bool>,
    /// The combinations of factors.
    pub combinations: &'k [Combination],
    /// The rate of the workload, if it is the same in all runs.
    pub rate: Option<f64>,
}

/// What [`Known`] refers to.
pub(super) struct Names {
    systems: BTreeMap<String, bool>,
    combinations: Vec<Combination>,
    rate: Option<f64>,
}

impl Names {
    /// The names of an experiment; `None` where no setup could be read.
    pub fn of(setups: &[Setup]) -> Option<Names> {
        let first = setups.first()?;
        let systems = first.systems.iter().map(|(name, system)| (name.clone(), system.is_baseline()));
        let rate = first.workload.rate;
        let same = setups.iter().all(|setup| setup.workload.rate == rate);
        Some(Names {
            systems: systems.collect(),
            combinations: setups.iter().map(|setup| setup.combination.clone()).collect(),
            rate: same.then_some(rate),
        })
    }

    /// Its names, lent.
    pub fn known(&self) -> Known<'_> {
        Known { systems: &self.systems, combinations: &self.combinations, rate: self.rate }
    }
}

/// What is wrong with a sentence, and at which octet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub at: usize,
    pub fault: Fault,
}

/// Reads a claim.
pub(super) fn parse(text: &str, known: Known<'_>) -> Result<Claim, Wrong> {
    if text.len() > LONGEST {
        let fault = Fault::new(format!("a claim longer than {LONGEST} octets"), "write several claims");
        return Err(Wrong { at: 0, fault });
    }
    let mut words = Words { text, at: 0 };
    let quantity = quantity(&mut words)?;
    let system = system(&mut words, known)?;
    let own = places(&mut words, known)?;
    let bound = bound(&mut words)?;
    let mut limit = limit(&mut words, quantity, bound, (&system, !own.is_empty()), known)?;
    if let Limit::Ratio { of, at, .. } = &mut limit {
        let place = words.place();
        if !own.is_empty() {
            *at = places(&mut words, known)?;
        }
        differs((&system, &own), (of, at)).map_err(|fault| {
            let begin = if at.is_empty() { text.rfind(of.as_str()).unwrap_or(0) } else { place };
            Wrong { at: begin, fault }
        })?;
    }
    let at = levels(&mut words, own, known)?;
    Ok(Claim { quantity, system, bound, limit, at })
}

/// Reads what is measured of which system, without a limit.
pub(super) fn figure(text: &str, known: Known<'_>) -> Result<Counterpart, Wrong> {
    if text.len() > LONGEST {
        let fault = Fault::new(format!("longer than {LONGEST} octets"), "name one figure");
        return Err(Wrong { at: 0, fault });
    }
    let mut words = Words { text, at: 0 };
    let quantity = quantity(&mut words)?;
    let system = system(&mut words, known)?;
    let own = places(&mut words, known)?;
    if !words.take("relative") {
        let at = levels(&mut words, own, known)?;
        return Ok(Counterpart { quantity, system, relative_to: None, at });
    }
    if !words.take("to") {
        let found = words.found();
        return words.wrong(format!("expected `to`, found {found}"), "write `relative to SYSTEM`");
    }
    let place = words.place();
    let same = words.peek().eq_ignore_ascii_case("where");
    let other = if same { system.clone() } else { named(&mut words, known)? };
    // What follows is of the other side alone, unless nothing says so.
    let of_other = !own.is_empty() || other == system;
    let other_at = if of_other { places(&mut words, known)? } else { Vec::new() };
    if other == system && other_at.is_empty() {
        let mend = "name another system, or values of factors: `relative to where workers = 1`";
        return Err(Wrong { at: place, fault: Fault::new(format!("{other} relative to itself"), mend) });
    }
    let at = levels(&mut words, own, known)?;
    Ok(Counterpart { quantity, system, relative_to: Some(Base { system: other, at: other_at }), at })
}

/// A figure of a paper: a number with its unit, or with `unit` if it has none of its own.
pub(super) fn of_paper(text: &str, unit: Option<&str>, of: &Counterpart) -> Result<f64, Fault> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, own) = text.split_at_checked(digits).unwrap_or((text, ""));
    let Some(number) = number.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        let what = format!("expected a number, found \"{}\"", shown(text));
        return Err(Fault::new(what, "write one such as `\"60 ms\"`"));
    };
    let unit = match own.trim() {
        "" => unit.unwrap_or_default(),
        own => own,
    };
    match of.relative_to {
        Some(_) => times(number, unit, Bound::AtMost),
        None => value(number, unit, of.quantity.measure),
    }
}

/// Whether both sides of a comparison differ, and how the values of factors are written.
fn differs(own: (&str, &[Level]), other: (&str, &[Level])) -> Result<(), Fault> {
    let mine = |level: &Level| own.1.iter().find(|mine| mine.factor == level.factor);
    if let Some(level) = other.1.iter().find(|level| mine(level).is_none()) {
        let mend = format!("write `where {} = VALUE` before the limit too", level.factor);
        return Err(Fault::new(format!("`{}` has a value on one side only", level.factor), mend));
    }
    if own.0 == other.0 && other.1.iter().all(|level| mine(level) == Some(level)) {
        let mend = "name another system; or write values of factors on both sides, such as `of A where transport = \
                    tls at most 2 of A where transport = udp`";
        return Err(Fault::new(format!("{} is compared with itself", own.0), mend));
    }
    Ok(())
}

/// `where transport = tls and rate = 1000` beside a side of a comparison; empty without it.
fn places(words: &mut Words<'_>, known: Known<'_>) -> Result<Vec<Level>, Wrong> {
    let mut levels: Vec<Level> = Vec::new();
    while words.take("where") || (!levels.is_empty() && words.take("and")) {
        let place = words.place();
        let level = level(words, known)?;
        add(&mut levels, level, place)?;
    }
    Ok(levels)
}

/// Adds a level of a factor that has none yet.
fn add(levels: &mut Vec<Level>, level: Level, place: usize) -> Result<(), Wrong> {
    if levels.iter().any(|other| other.factor == level.factor) {
        let fault = Fault::new(format!("`{}` has two values", level.factor), "write two claims");
        return Err(Wrong { at: place, fault });
    }
    levels.push(level);
    Ok(())
}

/// The words of a sentence, one after the other.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    /// Where the next word begins.
    fn place(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at + (rest.len() - rest.trim_start().len())
    }

    fn peek(&self) -> &'t str {
        let rest = self.text.get(self.place()..).unwrap_or_default();
        rest.split(char::is_whitespace).next().unwrap_or_default()
    }

    fn next(&mut self) -> &'t str {
        let word = self.peek();
        self.at = self.place() + word.len();
        word
    }

    /// Takes the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        let found = self.peek().eq_ignore_ascii_case(word);
        if found {
            self.next();
        }
        found
    }

    fn wrong<T>(&self, what: impl Into<String>, mend: impl Into<String>) -> Result<T, Wrong> {
        Err(Wrong { at: self.place(), fault: Fault::new(what, mend) })
    }

    /// The next word for a message.
    fn found(&self) -> String {
        match self.peek() {
            "" => "the end".to_owned(),
            word => format!("\"{}\"", shown(word)),
        }
    }
}

/// `p99 of setup`, `calls/s`.
fn quantity(words: &mut Words<'_>) -> Result<Quantity, Wrong> {
    let statistic = statistic(words.peek());
    let (first, start) = (words.peek(), words.place());
    if statistic.is_some() {
        words.next();
        if !words.take("of") {
            let found = words.found();
            return words.wrong(format!("expected `of`, found {found}"), format!("write `{first} of setup`"));
        }
    }
    let word = words.peek();
    let Some((_, measure)) = Measure::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) else {
        let names = || Measure::ALL.iter().map(|(name, _)| *name);
        let mend = match closest(word, names()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        };
        let found = words.found();
        return words.wrong(format!("expected what is measured, found {found}"), mend);
    };
    match (measure.is_distribution(), statistic) {
        (true, None) => {
            let mend = format!("write `p99 of {word}`, or another percentile, `mean` or `max`");
            words.wrong(format!("`{word}` has many values in each run"), mend)
        }
        (false, Some(_)) => {
            let fault =
                Fault::new(format!("`{word}` has one value in each run"), format!("remove `{first} of`"));
            Err(Wrong { at: start, fault })
        }
        _ => {
            words.next();
            Ok(Quantity { measure: *measure, statistic })
        }
    }
}

/// `p99`, `p99.9`, `median`, `mean`, `max`.
fn statistic(word: &str) -> Option<Statistic> {
    let lower = word.to_ascii_lowercase();
    match lower.as_str() {
        "median" => return Some(Statistic::Percentile(50_000)),
        "mean" => return Some(Statistic::Mean),
        "max" => return Some(Statistic::Max),
        _ => {}
    }
    let digits = lower.strip_prefix('p')?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 2 || part.len() > 3 || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let thousandths: u32 = format!("{part:0<3}").parse().ok()?;
    let value = whole.parse::<u32>().ok()? * 1_000 + thousandths;
    (value > 0).then_some(Statistic::Percentile(value))
}

/// `of A`; without it the only system that is no baseline.
fn system(words: &mut Words<'_>, known: Known<'_>) -> Result<String, Wrong> {
    if words.take("of") {
        return named(words, known);
    }
    let mut under_test = known.systems.iter().filter(|(_, baseline)| !**baseline).map(|(name, _)| name);
    match (under_test.next(), under_test.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(first), Some(_)) => {
            words.wrong("there are several systems", format!("say of which, such as `of {first}`"))
        }
        _ => words.wrong("no system is under test", "say of which system, such as `of none`"),
    }
}

/// The name of a system.
fn named(words: &mut Words<'_>, known: Known<'_>) -> Result<String, Wrong> {
    let word = words.peek();
    if known.systems.contains_key(word) {
        return Ok(words.next().to_owned());
    }
    let names = || known.systems.keys().map(String::as_str);
    let mend = match closest(word, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("one of {}", names().collect::<Vec<_>>().join(", ")),
    };
    let found = words.found();
    words.wrong(format!("expected a system, found {found}"), mend)
}

/// `at most`, `at least`, `within`.
fn bound(words: &mut Words<'_>) -> Result<Bound, Wrong> {
    let mend = "write `at most`, `at least` or `within`";
    if words.take("within") {
        return Ok(Bound::Within);
    }
    let found = words.found();
    if !words.take("at") {
        return words.wrong(format!("expected a limit, found {found}"), mend);
    }
    match () {
        () if words.take("most") => Ok(Bound::AtMost),
        () if words.take("least") => Ok(Bound::AtLeast),
        () => {
            let found = words.found();
            words.wrong(format!("expected `most` or `least`, found {found}"), mend)
        }
    }
}

/// `60 ms`, `1.25 of B`, `5% of B`.
///
/// `own`: the system of the claim, and whether values of factors stand beside it. Those beside the other side
/// are read by [`places`].
fn limit(
    words: &mut Words<'_>,
    quantity: Quantity,
    bound: Bound,
    own: (&str, bool),
    known: Known<'_>,
) -> Result<Limit, Wrong> {
    let start = words.place();
    let word = words.next();
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, glued) = word.split_at_checked(digits).unwrap_or((word, ""));
    let Some(number) = number.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        let found = if word.is_empty() { "the end".to_owned() } else { format!("\"{}\"", shown(word)) };
        let fault = Fault::new(
            format!("expected a number, found {found}"),
            "write one such as `60 ms` or `1.25 of A`",
        );
        return Err(Wrong { at: start, fault });
    };
    let (unit, place) = match glued {
        "" if ["", "of", "at", "where"].contains(&words.peek()) => ("", words.place()),
        "" => {
            let place = words.place();
            (words.next(), place)
        }
        glued => (glued, start + digits),
    };
    if words.take("of") {
        // `of where transport = udp` is of the same system.
        let same = own.1 && words.peek().eq_ignore_ascii_case("where");
        let of = if same { own.0.to_owned() } else { named(words, known)? };
        let times = times(number, unit, bound).map_err(|fault| Wrong { at: place, fault })?;
        if !(times.is_finite() && times > 0.0) || (bound == Bound::Within && times <= 1.0) {
            let fault =
                Fault::new("no factor that can be judged", "write one such as `1.05 of A`, or `5% of A`");
            return Err(Wrong { at: start, fault });
        }
        return Ok(Limit::Ratio { times, of, at: Vec::new() });
    }
    if bound == Bound::Within {
        return words.wrong("`within` compares two systems", "write `within 1.05 of A`, or `at most`");
    }
    let value = value(number, unit, quantity.measure).map_err(|fault| Wrong { at: place, fault })?;
    Ok(Limit::Value(value))
}

/// The factor that a number stands for.
fn times(number: f64, unit: &str, bound: Bound) -> Result<f64, Fault> {
    match (unit, bound) {
        ("" | "x" | "times", _) => Ok(number),
        ("%", Bound::Within) => Ok(1.0 + number / 100.0),
        ("%", _) => Ok(number / 100.0),
        _ => {
            let what = format!("\"{}\" beside another system", shown(unit));
            Err(Fault::new(what, "write a factor, such as `1.05 of A`, or percent"))
        }
    }
}

/// The value in the unit of the measure.
fn value(number: f64, unit: &str, measure: Measure) -> Result<f64, Fault> {
    // Each unit with the numbers to multiply and to divide by, so that 700 us are 0.7 ms and no more.
    let units: &[(&str, f64, f64)] = match measure.unit() {
        "ms" => &[("ms", 1.0, 1.0), ("us", 1.0, 1e3), ("s", 1e3, 1.0)],
        "us" => &[("us", 1.0, 1.0), ("ms", 1e3, 1.0), ("s", 1e6, 1.0)],
        "s" => &[("s", 1.0, 1.0), ("ms", 1.0, 1e3), ("min", 60.0, 1.0)],
        "%" => &[("%", 1.0, 1.0), ("percent", 1.0, 1.0)],
        "MiB" => &[("MiB", 1.0, 1.0), ("KiB", 1.0, 1_024.0), ("GiB", 1_024.0, 1.0)],
        "B" => &[("B", 1.0, 1.0), ("KiB", 1_024.0, 1.0)],
        "/s" => &[
            ("/s", 1.0, 1.0),
            ("calls/s", 1.0, 1.0),
            ("sessions/s", 1.0, 1.0),
            ("refreshes/s", 1.0, 1.0),
            ("", 1.0, 1.0),
        ],
        _ => &[("", 1.0, 1.0), ("calls/s", 1.0, 1.0), ("/s", 1.0, 1.0), ("users", 1.0, 1.0)],
    };
    if let Some((_, times, over)) = units.iter().find(|(name, ..)| *name == unit) {
        return Ok(number * times / over);
    }
    let names: Vec<&str> = units.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty()).collect();
    let what = match unit {
        "" => format!("`{}` needs a unit", measure.name()),
        unit => format!("\"{}\" is no unit of `{}`", shown(unit), measure.name()),
    };
    Err(Fault::new(what, format!("one of {}", names.join(", "))))
}

/// `at 4000/s`, `where transport = tcp and rate = 4000`, or nothing; in addition to those that are known.
fn levels(words: &mut Words<'_>, mut levels: Vec<Level>, known: Known<'_>) -> Result<Vec<Level>, Wrong> {
    while !words.peek().is_empty() {
        let place = words.place();
        let level = if words.take("at") {
            rate(words, known)?
        } else if words.take("where") || (!levels.is_empty() && words.take("and")) {
            Some(level(words, known)?)
        } else {
            let found = words.found();
            return words.wrong(
                format!("expected the end, found {found}"),
                "remove it, or write `where FACTOR = VALUE`",
            );
        };
        if let Some(level) = level {
            add(&mut levels, level, place)?;
        }
    }
    levels.sort();
    if known
        .combinations
        .iter()
        .any(|c| levels.iter().all(|level| c.value(&level.factor) == Some(level.value.as_str())))
    {
        return Ok(levels);
    }
    words.wrong("no combination of factors has these values", "remove one of them")
}

/// `4000/s`, `4000 calls/s`: the factor `rate`, or the rate of all runs.
fn rate(words: &mut Words<'_>, known: Known<'_>) -> Result<Option<Level>, Wrong> {
    let place = words.place();
    let word = words.next();
    let number = match word.strip_suffix("/s") {
        Some(number) => number,
        None if words.take("calls/s") || words.take("/s") => word,
        None => {
            let fault = Fault::new(
                format!("\"{}\" is no rate", shown(word)),
                "write one such as `at 4000/s`, or `where`",
            );
            return Err(Wrong { at: place, fault });
        }
    };
    if values_of("rate", known).is_empty() {
        let rate = number.parse::<f64>().ok();
        if rate.is_some() && rate == known.rate {
            return Ok(None);
        }
        let what = format!("no run has the rate \"{}\"", shown(number));
        let mend = match known.rate {
            Some(rate) => format!("all have {rate}/s; make `rate` a factor"),
            None => "write `where FACTOR = VALUE`".to_owned(),
        };
        return Err(Wrong { at: place, fault: Fault::new(what, mend) });
    }
    one_of("rate", number, place, known).map(Some)
}

/// `transport = tcp`, with or without blanks.
fn level(words: &mut Words<'_>, known: Known<'_>) -> Result<Level, Wrong> {
    let place = words.place();
    let rest = words.text.get(place..).unwrap_or_default();
    let Some((name, _)) = rest.split_once('=').filter(|(name, _)| name.split_whitespace().count() == 1)
    else {
        let found = words.found();
        return words.wrong(format!("expected a factor, found {found}"), "write `where FACTOR = VALUE`");
    };
    let factor = name.trim();
    if values_of(factor, known).is_empty() {
        let names: Vec<&str> = known
            .combinations
            .first()
            .into_iter()
            .flat_map(Combination::levels)
            .map(|level| level.factor.as_str())
            .collect();
        let mend = match closest(factor, names.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None if names.is_empty() => "there are no factors".to_owned(),
            None => format!("one of {}", names.join(", ")),
        };
        return words.wrong(format!("\"{}\" is not a factor", shown(factor)), mend);
    }
    words.at = place + name.len() + 1;
    let place = words.place();
    let value = words.next();
    one_of(factor, value, place, known)
}

/// The values of a factor.
fn values_of<'k>(factor: &str, known: Known<'k>) -> Vec<&'k str> {
    let mut values: Vec<&str> = Vec::new();
    for value in known.combinations.iter().filter_map(|combination| combination.value(factor)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The level that is written so, or is the same number.
fn one_of(factor: &str, written: &str, at: usize, known: Known<'_>) -> Result<Level, Wrong> {
    let values = values_of(factor, known);
    let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
    let same =
        |value: &&&str| **value == written || number(value).is_some_and(|n| number(written) == Some(n));
    match values.iter().find(same) {
        Some(value) => Ok(Level { factor: factor.to_owned(), value: (*value).to_owned() }),
        None => {
            let what = format!("no run has {factor} = \"{}\"", shown(written));
            Err(Wrong { at, fault: Fault::new(what, format!("one of {}", values.join(", "))) })
        }
    }
}
