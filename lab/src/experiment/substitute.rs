//! `${name}` in an experiment file: the value of a factor.

use super::system::PLACEHOLDERS;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use toml_form::error::{Fault, closest};
use toml_form::reader::Span;
use toml_form::text::shown;

/// Keys in which the runner replaces names of its own, such as `${ip}`.
const FILLED_LATER: [&str; 3] = ["config", "command", "environment"];
/// Sections and keys in which nothing is replaced.
const RAW: [&str; 3] = ["factor", "claim", "reference"];

/// The values of the factors of one combination.
pub(super) struct Values<'f, 'd> {
    /// By factor: the value, and its text.
    pub of: &'f BTreeMap<String, (DeValue<'d>, String)>,
    /// Factors whose names occurred.
    pub used: &'f mut BTreeSet<String>,
    /// What does not fit, and where.
    pub faults: Vec<(Span, Fault)>,
}

impl<'d> Values<'_, 'd> {
    /// The top of a document with every name replaced, without the keys of `except`.
    pub fn document(&mut self, table: &DeTable<'d>, except: &[&str]) -> DeTable<'d> {
        let mut out = DeTable::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let kept = RAW.contains(&name) || except.contains(&name);
            let filled = if kept { value.get_ref().clone() } else { self.value(name, value) };
            out.insert(key.clone(), Spanned::new(value.span(), filled));
        }
        out
    }

    fn value(&mut self, key: &str, value: &Spanned<DeValue<'d>>) -> DeValue<'d> {
        match value.get_ref() {
            DeValue::String(text) if text.contains("${") => self.string(key, text, value.span()),
            DeValue::Array(array) => {
                let mut out = DeArray::new();
                for element in array {
                    out.push(Spanned::new(element.span(), self.value(key, element)));
                }
                DeValue::Array(out)
            }
            DeValue::Table(table) => {
                let mut out = DeTable::new();
                for (key, value) in table {
                    let filled = self.value(key.get_ref(), value);
                    out.insert(key.clone(), Spanned::new(value.span(), filled));
                }
                DeValue::Table(out)
            }
            other => other.clone(),
        }
    }

    /// A text that is one name becomes the value with its type.
    fn string(&mut self, key: &str, text: &str, span: Span) -> DeValue<'d> {
        let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if let Some((name, (value, _))) = whole.and_then(|name| self.of.get_key_value(name)) {
            self.used.insert(name.clone());
            return value.clone();
        }
        let filled = self.text(text, FILLED_LATER.contains(&key), &span);
        DeValue::String(filled.into())
    }

    /// A text with each name replaced; `later`: the runner replaces names of its own in it.
    pub fn text(&mut self, text: &str, later: bool, span: &Span) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(kept) = before.strip_suffix('$') {
                // `$${` is a literal `${`.
                out.extend([kept, "${"]);
                rest = after;
                continue;
            }
            out.push_str(before);
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            if let Some((factor, (_, value))) = self.of.get_key_value(name) {
                self.used.insert(factor.clone());
                out.push_str(value);
            } else {
                if !(later && PLACEHOLDERS.iter().any(|(placeholder, _)| *placeholder == name)) {
                    self.faults.push((span.clone(), self.unknown(name, later)));
                }
                out.extend(["${", name, "}"]);
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    fn unknown(&self, name: &str, later: bool) -> Fault {
        let placeholders = PLACEHOLDERS.iter().map(|(name, _)| *name);
        let names = || self.of.keys().map(String::as_str);
        let known: Vec<&str> = if later { names().chain(placeholders).collect() } else { names().collect() };
        let mend = match closest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean `${{{meant}}}`?"),
            None if known.is_empty() => "add it to [factor], or write `$${` for `${`".to_owned(),
            None => format!("one of {}; write `$${{` for `${{`", known.join(", ")),
        };
        Fault::new(format!("no factor `{}`", shown(name)), mend)
    }
}

/// A text that [`Values::text`] reads as this one: each `${` is escaped, but for the names of the runner in
/// keys that it fills.
pub(super) fn escaped(key: &str, text: &str) -> String {
    let later = FILLED_LATER.contains(&key);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let name = after.split_once('}').map_or("", |(name, _)| name);
        let stays = later && !before.ends_with('$') && PLACEHOLDERS.iter().any(|(known, _)| *known == name);
        out.extend([before, if stays { "${" } else { "$${" }]);
        rest = after;
    }
    out.push_str(rest);
    out
}
