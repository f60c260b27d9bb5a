//! `[[claim]]`: read as a sentence, or as keys that make one.

use super::document::Parsed;
use super::forms::sentence;
use super::keys::{keys, read_over};
use super::layers::Origins;
use super::read::numbered;
use super::sentence::{Known, Names, Wrong, parse};
use super::{Claim, Level, Setup};
use toml::de::DeValue;
use toml_form::error::Fault;
use toml_form::form::{One, quoted, string};
use toml_form::reader::{Section, Span, kind};

/// Claims of an experiment at most.
pub(super) const MOST_CLAIMS: usize = 100;

keys! {
    /// `[[claim]]`: what the measurements are to show.
    pub struct ClaimKeys = "[[claim]]" {
        /// The claim as a sentence, in place of all other keys: `p99 of setup of A at most 60 ms at 4000/s`,
        /// `calls/s of A at least 1.25 of B`, `cpu/call of B within 5% of A where transport = tcp`,
        /// `cpu/call of A where transport = tls at most 2 of A where transport = udp`.
        that: Option<String> = None, sentence_as_written().optional();
        /// What is measured: `"p99 of setup"`, `"cpu/call"`.
        metric: Option<String> = None, sentence().optional();
        /// The system. Without it: the only one under test.
        of: Option<String> = None, sentence().optional();
        /// The upper limit: `"60 ms"`, or a factor with `relative_to`.
        at_most: Option<String> = None, limit().optional();
        /// The lower limit.
        at_least: Option<String> = None, limit().optional();
        /// How far it may be from another system: `1.05` or `"5%"`.
        within: Option<String> = None, limit().optional();
        /// The system that it is compared with, within each block.
        relative_to: Option<String> = None, sentence().optional();
        /// Values of factors that the other side has: `{ transport = "udp" }`. Needs them in `at` too.
        relative_at: Vec<Level> = Vec::new(), levels().no_default();
        /// Values of factors at which it is judged: `{ rate = 4000 }`. Without it: at every combination.
        at: Vec<Level> = Vec::new(), levels().no_default();
    }
}

/// A sentence whose blanks are kept, so that places in it are those in the file.
pub(super) fn sentence_as_written() -> One<String> {
    One::new("sentence", |value| string(value).map(str::to_owned), |text: &String| quoted(text))
}

/// A number, or a text with a unit.
pub(super) fn limit() -> One<String> {
    let parse = |value: &DeValue<'_>| match value {
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        other => string(other).map(str::to_owned),
    };
    One::new("number, or text with a unit", parse, |text: &String| quoted(text))
}

/// `{ factor = value }`.
pub(super) fn levels() -> One<Vec<Level>> {
    let parse = |value: &DeValue<'_>| {
        let DeValue::Table(table) = value else {
            return Err(Fault::new(
                format!("expected a table, found {}", kind(value)),
                "write it as { rate = 4000 }",
            ));
        };
        let level = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let value = match value.get_ref() {
                DeValue::Boolean(flag) => flag.to_string(),
                other => limit().read(other)?,
            };
            let factor: &std::borrow::Cow<'_, str> = key.get_ref();
            Ok(Level { factor: factor.to_string(), value })
        };
        table.iter().map(level).collect()
    };
    One::new("table of factors", parse, |levels: &Vec<Level>| {
        let all: Vec<String> =
            levels.iter().map(|l| format!("{} = {}", l.factor, quoted(&l.value))).collect();
        format!("{{ {} }}", all.join(", "))
    })
}

/// The claims of the highest layer that has some.
pub(super) fn read(parsed: &mut [Parsed<'_>], origins: &mut Origins, setups: &[Setup]) -> Vec<Claim> {
    let Some(names) = Names::of(setups) else { return Vec::new() };
    let known = names.known();
    // The list of the highest layer counts as a whole: those below may be about other values of factors.
    let Some(one) = parsed.iter_mut().rev().find(|one| one.table.get("claim").is_some()) else {
        return Vec::new();
    };
    let mut claims = Vec::new();
    let place = one.place();
    let mut top = Section::new("", 0..0, Some(&one.table));
    let sections = top.sections(&mut one.reader, "claim", "claim");
    if sections.len() > MOST_CLAIMS {
        let fault = Fault::new(format!("more than {MOST_CLAIMS} claims"), "write several experiments");
        one.reader.error(&top.span_of("claim"), fault);
    }
    for (nth, mut section) in sections.into_iter().take(MOST_CLAIMS).enumerate() {
        let (mut keys, faults) = (ClaimKeys::default(), one.reader.errors.len());
        let path = numbered("claim", nth);
        read_over(&mut section, &mut one.reader, origins, (&path, place), &mut keys);
        if one.reader.errors.len() == faults {
            match claim(&keys, &section, one.document.text.as_str(), known) {
                Ok(claim) => claims.push(claim),
                Err((span, fault)) => one.reader.error(&span, fault),
            }
        }
        section.finish(&mut one.reader);
    }
    claims
}

/// The claim, or what is wrong and where.
fn claim(
    keys: &ClaimKeys,
    section: &Section<'_, '_>,
    text: &str,
    known: Known<'_>,
) -> Result<Claim, (Span, Fault)> {
    if let Some(sentence) = &keys.that {
        let others = ["metric", "of", "at_most", "at_least", "within", "relative_to", "relative_at", "at"];
        if let Some(other) = others.into_iter().find(|key| section.has(key)) {
            let fault = Fault::new(format!("`{other}` beside a sentence"), "remove one of them");
            return Err((section.span_of(other), fault));
        }
        return parse(sentence, known).map_err(|wrong| {
            let begin = begin_of(sentence, &section.span_of("that"), text);
            begin.map_or((section.span_of("that"), wrong.fault.clone()), |begin| {
                (begin + wrong.at..begin + wrong.at, wrong.fault)
            })
        });
    }
    let (composed, parts) = composed(keys).map_err(|fault| (section.span().clone(), fault))?;
    parse(&composed, known).map_err(|Wrong { at, fault }| {
        let part = parts.iter().rev().find(|(begin, _)| *begin <= at);
        (part.map_or_else(|| section.span().clone(), |(_, key)| section.span_of(key)), fault)
    })
}

/// Where the characters of a string begin in the file; `None` if it has escapes.
pub(super) fn begin_of(value: &str, span: &Span, text: &str) -> Option<usize> {
    let raw = text.get(span.clone())?;
    // The longer quotes first: a sentence does not begin with a quote.
    [3, 1]
        .into_iter()
        .find(|quote| raw.get(*quote..).is_some_and(|rest| rest.starts_with(value)))
        .map(|q| span.start + q)
}

/// Where the part of each key begins in a sentence.
type Parts = Vec<(usize, &'static str)>;

/// The sentence that the keys make, and where the part of each key begins.
fn composed(keys: &ClaimKeys) -> Result<(String, Parts), Fault> {
    let Some(metric) = &keys.metric else {
        let mend = "write `that = \"p99 of setup at most 60 ms\"`, or metric and a limit";
        return Err(Fault::new("a claim without a metric", mend));
    };
    let limits = [
        ("at_most", "at most", &keys.at_most),
        ("at_least", "at least", &keys.at_least),
        ("within", "within", &keys.within),
    ];
    let mut written = limits.iter().filter_map(|(key, words, limit)| Some((*key, *words, limit.as_ref()?)));
    let (Some((key, words, limit)), None) = (written.next(), written.next()) else {
        return Err(Fault::new("a claim has one limit", "write one of at_most, at_least and within"));
    };
    let mut sentence = metric.clone();
    let mut parts = vec![(0, "metric")];
    let mut add = |key: &'static str, text: String| {
        sentence.push(' ');
        parts.push((sentence.len(), key));
        sentence.push_str(&text);
    };
    if let Some(system) = &keys.of {
        add("of", format!("of {system}"));
    }
    let places = |key: &'static str, levels: &[Level], add: &mut dyn FnMut(&'static str, String)| {
        for level in levels {
            add(key, format!("where {} = {}", level.factor, level.value));
        }
    };
    // Where the sides have different values, each has its own beside it.
    let apart = !keys.relative_at.is_empty();
    if apart {
        places("at", &keys.at, &mut add);
    }
    add(key, format!("{words} {limit}"));
    match &keys.relative_to {
        Some(other) => add("relative_to", format!("of {other}")),
        None if apart => add("relative_at", "of".to_owned()),
        None => {}
    }
    let (key, levels) = if apart { ("relative_at", &keys.relative_at) } else { ("at", &keys.at) };
    places(key, levels, &mut add);
    Ok((sentence, parts))
}
