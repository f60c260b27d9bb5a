//! The figures for other programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::outcome::Outcome;

/// The figures as CSV (RFC 4180): a header line, then one line for each system, combination of factors,
/// figure and block. Each factor has a column. The value is empty where the run is void, missing, or has no
/// such figure.
pub fn csv(outcome: &Outcome) -> String {
    let factors: BTreeSet<&str> =
        outcome.figures.iter().flat_map(|f| &f.factors).map(|fact| fact.name.as_str()).collect();
    let mut out = String::from("subject");
    for factor in &factors {
        let _ = write!(out, ",{}", field(&format!("factor.{factor}")));
    }
    out.push_str(",quantity,unit,block,value\r\n");
    for figure in &outcome.figures {
        let mut start = field(&figure.subject);
        for factor in &factors {
            let value = figure.factors.iter().find(|fact| fact.name == *factor).map(|f| f.value.as_str());
            let _ = write!(start, ",{}", field(value.unwrap_or_default()));
        }
        let _ = write!(start, ",{},{}", field(&figure.quantity), field(&figure.unit));
        for (nth, value) in figure.values.iter().enumerate() {
            let _ = write!(out, "{start},{},", nth + 1);
            if let Some(value) = value.filter(|v| v.is_finite()) {
                let _ = write!(out, "{value}");
            }
            out.push_str("\r\n");
        }
    }
    out
}

/// A field, in quotes where it needs them. Spreadsheets take a field that begins with one of four characters
/// for a formula; an apostrophe before it makes it text.
fn field(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
