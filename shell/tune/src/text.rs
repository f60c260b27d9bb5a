//! Reports for people.

use crate::apply::{Applied, Outcome};
use crate::plan::AFTER_UNIT;
use crate::undo::Undone;
use crate::verify::Verified;
use std::collections::BTreeSet;
use std::fmt::Write;
use tune_rules::{Finding, ITEMS, Item, Level, OWN_UNIT_FILE, Rights};

/// Changes of one finding that are shown: a large machine has hundreds of processors.
const SHOWN_CHANGES: usize = 4;

/// Adds a line `    label   text`.
fn row(text: &mut String, label: &str, what: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "    {label:<9} {what}");
}

/// The report of `strowger tune`.
pub fn report(findings: &[Finding], rights: &Rights) -> String {
    place(rights) + &rows(findings) + &summary(findings)
}

/// Where this runs, if that limits what can be seen or changed.
fn place(rights: &Rights) -> String {
    let container = rights.container().map(|kind| format!("this is a {kind} container"));
    let network =
        rights.own_network().then(|| "this network namespace is not that of the machine".to_owned());
    let parts: Vec<String> = [container, network, rights.missing()].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("HERE     {}\n\n", parts.join("; ")) }
}

/// The findings, the worst first.
fn rows(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.level());
    for finding in sorted {
        let level = finding.level().name().to_uppercase();
        let _ = writeln!(text, "{level:<8} {}: {}", finding.item(), finding.title());
        for line in finding.evidence_lines() {
            row(&mut text, "evidence", line);
        }
        if !finding.reason().is_empty() && finding.level() != Level::Unseen {
            row(&mut text, "why", finding.reason());
        }
        for change in finding.changes().iter().take(SHOWN_CHANGES) {
            row(&mut text, "change", &change_line(change));
        }
        if let more @ 1.. = finding.changes().len().saturating_sub(SHOWN_CHANGES) {
            row(&mut text, "change", &format!("and {more} more like these"));
        }
        if !finding.changes().is_empty() {
            row(&mut text, "benefit", &finding.benefit());
        }
        for step in finding.steps_by_hand() {
            row(&mut text, "to do", step);
        }
        if let Some(obstacle) = finding.obstacle() {
            row(&mut text, "not here", obstacle);
        }
        if finding.level() != Level::Unseen {
            text.push('\n');
        }
    }
    // What could not be seen has one reason or two, however many items miss something.
    let reasons: BTreeSet<&str> =
        findings.iter().filter(|finding| finding.level() == Level::Unseen).map(Finding::reason).collect();
    for reason in reasons {
        row(&mut text, "why", reason);
        text.push('\n');
    }
    text
}

fn change_line(change: &tune_rules::Change) -> String {
    match change {
        tune_rules::Change::Value { now, value, .. } => format!("{}: {now} -> {value}", change.name()),
        tune_rules::Change::UnitLine { key, value } => format!("{key}={value} in the unit strowger.service"),
    }
}

fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|finding| finding.level() == level).count();
    let without =
        ITEMS.iter().filter(|item| findings.iter().all(|finding| finding.item() != item.name())).count();
    let mut text = format!(
        "problems: {}, advice: {}, notes: {}, not seen: {}; {without} of {} items without findings\n",
        count(Level::Problem),
        count(Level::Advice),
        count(Level::Note),
        count(Level::Unseen),
        ITEMS.len(),
    );
    let can = |level| {
        findings.iter().any(|f| f.level() == level && !f.changes().is_empty() && f.obstacle().is_none())
    };
    if can(Level::Problem) {
        text.push_str("`strowger tune apply` makes the changes of all problems, `strowger tune undo` takes them back.\n");
    }
    if can(Level::Advice) {
        text.push_str("`strowger tune apply NAME` follows advice.\n");
    }
    if !findings.is_empty() {
        text.push_str("`strowger tune explain NAME` explains an item.\n");
    }
    text
}

/// The page of an item.
pub fn explanation(item: &Item) -> String {
    let untouched = format!("Not touched: {}", item.untouched());
    let (name, title) = (item.name(), item.title());
    format!("{name}: {title}\n\n{}\n{}", filled(item.explanation()), filled(&untouched))
}

/// A paragraph in lines of at most 100 characters.
fn filled(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > 100 {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines.push('\n');
    lines
}

/// What an item finds on this machine.
pub fn here(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "Nothing to report on this machine.\n".to_owned();
    }
    format!("On this machine:\n\n{}", rows(findings))
}

/// What is to be done by hand.
pub fn steps(steps: &[String]) -> String {
    steps.iter().fold(String::new(), |mut text, step| {
        let _ = writeln!(text, "to do    {step}");
        text
    })
}

/// All items, one on each line.
pub fn items() -> String {
    ITEMS.iter().fold(String::new(), |mut text, item| {
        let _ = writeln!(text, "{:<22} {}", item.name(), item.title());
        text
    })
}

/// What `apply` did.
pub fn applied(results: &[Applied]) -> String {
    let mut text = String::new();
    for result in results {
        let old = result.old().map(|old| format!("{old} -> ")).unwrap_or_default();
        let (name, new) = (result.name(), result.new_value());
        let _ = match result.outcome() {
            Outcome::Done => writeln!(text, "changed  {name}: {old}{new}"),
            Outcome::Rounded(seen) => writeln!(text, "changed  {name}: {old}{seen} (asked for {new})"),
            Outcome::Obstacle(why) => writeln!(text, "not here {name}: {new} wanted, but {why}"),
            Outcome::Unsupported => writeln!(text, "not here {name}: not supported by this card"),
            Outcome::Failed(why) => writeln!(text, "failed   {name}: {new} wanted: {why}"),
        };
    }
    if results.is_empty() {
        text.push_str("nothing to change\n");
    }
    if results.iter().any(Applied::made) {
        text.push_str("`strowger tune verify` in a minute shows whether other programs leave it so\n");
    }
    text
}

/// What `undo` did.
pub fn undone(results: &[Undone]) -> String {
    let mut text = String::new();
    for result in results {
        let _ = match result {
            Undone::Restored { name, old } if name == OWN_UNIT_FILE => {
                writeln!(text, "restored {name}: {old}\nto do    {AFTER_UNIT}")
            }
            Undone::Restored { name, old } => writeln!(text, "restored {name}: {old}"),
            Undone::WasBack { name } => writeln!(text, "same     {name}: already as before"),
            Undone::LeftAlone { name, old, ours, now, restarted } => {
                let since = if *restarted { " and the machine started anew since" } else { "" };
                writeln!(
                    text,
                    "left     {name}: {now}, not {ours} as applied{since}: something else changed it; it was {old} before"
                )
            }
            Undone::Gone { name } => {
                writeln!(text, "gone     {name}: it ended with the last boot, or no longer exists")
            }
            Undone::Failed { name, why } => writeln!(text, "failed   {name}: {why}"),
        };
    }
    text
}

/// What `verify` saw.
pub fn verified(results: &[Verified]) -> String {
    let mut text = String::new();
    for result in results {
        let (name, wanted) = (result.name(), result.wanted());
        let by = result.by().map(|by| format!(": {by}")).unwrap_or_default();
        let _ = match (result.kept(), result.now()) {
            (true, _) => writeln!(text, "kept     {name}: {wanted}"),
            (false, Some(now)) if tune_rules::same_value(now, wanted) => {
                writeln!(text, "at risk  {name}: {now}{by}")
            }
            (false, Some(now)) => writeln!(text, "changed  {name}: {now}, not {wanted} as applied{by}"),
            (false, None) => writeln!(text, "gone     {name}{by}"),
        };
    }
    text
}
