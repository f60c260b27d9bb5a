//! Values and texts as the reports of an experiment show them.

use load::report::{Fact, number, with_unit};

use crate::experiment::Measure;

/// What stands where there is no value.
pub(super) const NOTHING: &str = "-";
/// Characters of a reason, a note or a name; more are cut.
pub(super) const TEXT_MAX: usize = 400;

/// A value with its unit. Factors have three decimals: the difference from 1 is what matters.
pub(super) fn value(value: Option<f64>, unit: &str) -> String {
    match value.filter(|v| v.is_finite()) {
        None => NOTHING.to_owned(),
        Some(v) if unit == "x" => format!("{v:.3} x"),
        Some(v) => with_unit(v, unit),
    }
}

/// An interval with its unit.
pub(super) fn interval(ends: Option<(f64, f64)>, unit: &str) -> String {
    match ends {
        Some((low, high)) if low.is_finite() && high.is_finite() => {
            let bare = |v: f64| if unit == "x" { format!("{v:.3}") } else { number(v) };
            let low = if unit == "%" { value(Some(low), unit) } else { bare(low) };
            format!("{low} to {}", value(Some(high), unit))
        }
        _ => NOTHING.to_owned(),
    }
}

/// A difference in percent: one decimal, two below 1.
pub(super) fn percent(share: Option<f64>) -> String {
    share.filter(|v| v.is_finite()).map_or_else(
        || NOTHING.to_owned(),
        |v| {
            if v.abs() < 1.0 { format!("{v:.2} %") } else { format!("{v:.1} %") }
        },
    )
}

/// Factors and their values; empty without factors.
pub(super) fn factors(facts: &[Fact]) -> String {
    let all: Vec<String> = facts.iter().map(|f| format!("{} = {}", f.name, f.value)).collect();
    short(&all.join(", "))
}

/// A text of bounded length.
pub(super) fn short(text: &str) -> String {
    cut(text, TEXT_MAX)
}

/// A text of at most `most` characters; what is missing is marked.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}\u{2026}", text.get(..at).unwrap_or_default()),
    }
}

/// The style class of a verdict.
pub(super) fn class(verdict: &str) -> &'static str {
    match verdict {
        "PASS" => "PASS",
        "FAIL" => "FAIL",
        "STOPPED" => "STOPPED",
        "VOID" => "VOID",
        _ => "PLAIN",
    }
}

/// What a verdict means, for an outcome that gives no reason.
pub(super) fn meaning(verdict: &str) -> &'static str {
    match verdict {
        "PASS" => "Every claim is shown.",
        "FAIL" => "A claim is shown to be false.",
        "NO DIFFERENCE SHOWN" => "The measurements show neither that the claims hold nor that they do not.",
        "MEASURED" => "The experiment claims nothing; the figures are below.",
        "STOPPED" => "The experiment was stopped before its end.",
        _ => "The measurements say nothing.",
    }
}

/// Whether more of a figure, as "p99 of setup", is better; nothing if it is not a figure of ours.
pub(super) fn more_is_better(quantity: &str) -> Option<bool> {
    let measure = quantity.rsplit(" of ").next()?;
    Measure::ALL.iter().find(|(name, _)| *name == measure).map(|(_, m)| m.more_is_better())
}

/// "1 run", "2 runs".
pub(super) fn count(n: usize, what: &str) -> String {
    format!("{} {what}{}", number(n as f64), if n == 1 { "" } else { "s" })
}
