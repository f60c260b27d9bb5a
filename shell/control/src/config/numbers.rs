//! The keys of a trunk or domain that say how numbers are dialled there.

use super::error::Fault;
use super::form::*;
use super::reader::{Reader, Section};
use super::values::shown;
use sip_node::call_rules::{NumberFormat, NumberPlan, PlanParts, Wrong};

/// How a trunk writes numbers.
const FORMATS: &[(&str, NumberFormat)] = &[
    ("e164_plus", NumberFormat::E164Plus),
    ("e164", NumberFormat::E164),
    ("national", NumberFormat::National),
    ("international", NumberFormat::International),
];

/// The digits of a number that stays as it is, where the file does not say.
pub(super) const USUAL_SHORT: usize = 6;

/// What is dialled before an area code, where the file does not say.
pub(super) fn usual_national() -> Vec<String> {
    vec!["0".to_owned()]
}

/// What is dialled before a country code, where the file does not say.
pub(super) fn usual_international() -> String {
    "00".to_owned()
}

pub(super) fn country() -> One<String> {
    text("country code", country_code).no_default()
}

pub(super) fn national() -> Many<String> {
    list(text("digits", prefix)).once("prefix")
}

pub(super) fn international() -> One<String> {
    text("digits", prefix)
}

pub(super) fn area() -> One<String> {
    text("area code", area_code).no_default()
}

pub(super) fn format() -> One<Option<NumberFormat>> {
    choice(FORMATS).optional()
}

fn country_code(written: &str) -> Result<String, Fault> {
    let is_code = (1..=3).contains(&written.len()) && !written.starts_with('0');
    if !is_code || !written.bytes().all(|b| b.is_ascii_digit()) {
        let what = format!("\"{}\" is not a country code", shown(written));
        return Err(Fault::new(what, "1 to 3 digits without \"+\" or \"00\", such as \"49\""));
    }
    Ok(written.to_owned())
}

fn area_code(written: &str) -> Result<String, Fault> {
    if !(1..=6).contains(&written.len()) || !written.bytes().all(|b| b.is_ascii_digit()) {
        let what = format!("\"{}\" is not an area code", shown(written));
        return Err(Fault::new(what, "1 to 6 digits without the national prefix, such as \"30\""));
    }
    Ok(written.to_owned())
}

fn prefix(written: &str) -> Result<String, Fault> {
    if written.len() > 8 || !written.bytes().all(|b| b.is_ascii_digit()) {
        let what = format!("\"{}\" is not a prefix of numbers", shown(written));
        return Err(Fault::new(what, "at most 8 digits, such as \"0\" or \"00\""));
    }
    Ok(written.to_owned())
}

/// The plan of these keys; `None`: numbers stay as they are.
fn plan(parts: &PlanParts<'_>) -> Option<Result<NumberPlan, Wrong>> {
    let is_any = !parts.country.is_empty() || !parts.area.is_empty() || parts.format.is_some();
    is_any.then(|| NumberPlan::new(parts))
}

/// Keys that change nothing without a country or a format.
const DETAILS: [&str; 3] = ["national_prefix", "international_prefix", "short_numbers"];

/// Whether a key stands in the effective configuration.
pub(super) fn shows(key: &str, parts: &PlanParts<'_>) -> bool {
    !DETAILS.contains(&key) || plan(parts).is_some()
}

/// Reports keys that make no sense together.
pub(super) fn check(section: &Section<'_, '_>, reader: &mut Reader<'_>, parts: &PlanParts<'_>) {
    if !section.is_sound() {
        return;
    }
    match plan(parts) {
        Some(Ok(_)) => {}
        Some(Err(wrong)) => {
            let key = if section.has("area") { "area" } else { "number_format" };
            reader.error(&section.span_of(key), Fault::new(wrong.what, wrong.mend));
        }
        None => {
            let is_usual = |key: &str| match key {
                "national_prefix" => *parts.national == *usual_national(),
                "international_prefix" => parts.international == usual_international(),
                _ => parts.short == USUAL_SHORT,
            };
            for key in DETAILS.into_iter().filter(|key| section.has(key) && !is_usual(key)) {
                let fault =
                    Fault::new(format!("`{key}` changes nothing without a country"), "add country = \"49\"");
                reader.error(&section.span_of(key), fault);
            }
        }
    }
}

/// What the core needs of them.
pub(super) fn settings(parts: &PlanParts<'_>) -> Option<NumberPlan> {
    plan(parts).and_then(Result::ok)
}
