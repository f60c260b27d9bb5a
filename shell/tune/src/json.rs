//! Reports for programs.

use crate::apply::{Applied, Outcome};
use crate::undo::Undone;
use crate::verify::Verified;
use serde_json::{Value, json};
use tune_rules::{Change, Finding, ITEMS, Item, Level, Rights};

/// The report of `strowger tune`.
pub fn report(findings: &[Finding], rights: &Rights) -> Value {
    let count = |level| findings.iter().filter(|finding| finding.level() == level).count();
    let clean =
        ITEMS.iter().map(|item| item.name()).filter(|name| findings.iter().all(|f| f.item() != *name));
    json!({
        "place": {
            "container": rights.container(),
            "own_network": rights.own_network(),
            "missing": rights.missing(),
        },
        "problems": count(Level::Problem),
        "advice": count(Level::Advice),
        "notes": count(Level::Note),
        "unseen": count(Level::Unseen),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "items_without_findings": clean.collect::<Vec<_>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "item": finding.item(),
        "level": finding.level().name(),
        "title": finding.title(),
        "evidence": finding.evidence_lines(),
        "why": finding.reason(),
        "changes": finding.changes().iter().map(change).collect::<Vec<_>>(),
        "benefit": (!finding.changes().is_empty()).then(|| finding.benefit()),
        "by_hand": finding.steps_by_hand(),
        "obstacle": finding.obstacle(),
    })
}

fn change(change: &Change) -> Value {
    match change {
        Change::Value { path, now, value } => {
            json!({"name": change.name(), "path": path, "now": now, "wanted": value})
        }
        Change::UnitLine { key, value } => {
            json!({"name": key, "path": tune_rules::OWN_UNIT_FILE, "now": null, "wanted": value})
        }
    }
}

/// Items with their pages, and what they find on this machine.
pub fn explained(items: &[Item], findings: &[Finding]) -> Value {
    let one = |item: &Item| {
        let found = findings.iter().filter(|finding| finding.item() == item.name());
        json!({
            "item": item.name(),
            "title": item.title(),
            "explanation": item.explanation().replace('\n', " "),
            "untouched": item.untouched().replace('\n', " "),
            "findings": found.map(finding).collect::<Vec<_>>(),
        })
    };
    json!({"items": items.iter().map(one).collect::<Vec<_>>()})
}

/// What `apply` did.
pub fn applied(results: &[Applied]) -> Value {
    let one = |result: &Applied| {
        let (outcome, detail) = match result.outcome() {
            Outcome::Done => ("changed", None),
            Outcome::Rounded(seen) => ("changed", Some(seen)),
            Outcome::Obstacle(why) => ("not_here", Some(why)),
            Outcome::Unsupported => ("unsupported", None),
            Outcome::Failed(why) => ("failed", Some(why)),
        };
        json!({
            "item": result.item(), "name": result.name(), "old": result.old(), "new": result.new_value(),
            "outcome": outcome, "detail": detail,
        })
    };
    json!({"changes": results.iter().map(one).collect::<Vec<_>>()})
}

/// What `apply` did, what is not as it should be all the same, and what is to be done by hand.
pub fn applied_then(results: &[Applied], lost: &[Verified], steps: &[String]) -> Value {
    let mut value = applied(results);
    value["not_kept"] = verified(lost)["settings"].take();
    value["by_hand"] = json!(steps);
    value
}

/// What `undo` did.
pub fn undone(results: &[Undone]) -> Value {
    let one = |result: &Undone| match result {
        Undone::Restored { name, old } => json!({"name": name, "outcome": "restored", "old": old}),
        Undone::WasBack { name } => json!({"name": name, "outcome": "same"}),
        Undone::LeftAlone { name, old, ours, now, restarted } => json!({
            "name": name, "outcome": "left", "old": old, "ours": ours, "now": now, "restarted": restarted,
        }),
        Undone::Gone { name } => json!({"name": name, "outcome": "gone"}),
        Undone::Failed { name, why } => json!({"name": name, "outcome": "failed", "detail": why}),
    };
    json!({"settings": results.iter().map(one).collect::<Vec<_>>()})
}

/// What `verify` saw.
pub fn verified(results: &[Verified]) -> Value {
    let one = |result: &Verified| {
        json!({
            "name": result.name(), "wanted": result.wanted(), "now": result.now(), "kept": result.kept(),
            "by": result.by(),
        })
    };
    json!({"settings": results.iter().map(one).collect::<Vec<_>>()})
}
