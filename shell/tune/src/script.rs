//! The changes as a shell script.

use crate::machine::Machine;
use crate::own_files;
use crate::plan::Plan;
use crate::restore::lost_at_boot;
use tune_rules::{Change, name_of};

/// The changes as a script for `sh`: what `apply` does, without a journal and without what `restore` needs.
pub fn script(machine: &Machine, plans: &[Plan<'_>]) -> String {
    let mut text = "#!/bin/sh\n# The changes of `strowger tune apply`. This script keeps no journal: `tune undo` cannot undo it.\nset -eu\n".to_owned();
    let mut item = "";
    for plan in plans {
        if plan.item() != item {
            item = plan.item();
            text.push_str(&format!("\n# {item}\n"));
        }
        if let Change::Value { path, now, value } = plan.change() {
            text.push_str(&format!("{}  # was {}\n", command(path, value), now.replace('\n', " ")));
        }
    }
    // A script has no journal to restore from.
    let lost = |change: &Change| matches!(change, Change::Value { path, .. } if lost_at_boot(path));
    if plans.iter().any(|plan| lost(plan.change())) {
        text.push_str(
            "\n# Run this script again after each boot: settings of cards, /sys and netfilter are lost.\n",
        );
    }
    let lasting: Vec<&Change> = plans.iter().map(Plan::change).filter(|change| !is_of_card(change)).collect();
    for file in own_files::wanted(machine, &lasting, None) {
        let path = file.path();
        let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
        text.push_str(&format!(
            "\n# what sets these values at boot\nmkdir -p {folder}\ncat > {path} <<'END'\n"
        ));
        text.push_str(file.new_text());
        text.push_str("END\n");
    }
    text
}

/// Whether no file sets a value at boot.
fn is_of_card(change: &Change) -> bool {
    matches!(change, Change::Value { path, .. } if name_of(path).is_none())
}

fn command(path: &str, value: &str) -> String {
    if let Some(name) = name_of(path) {
        return format!("sysctl -q -w {}", quoted(&format!("{name}={value}")));
    }
    if let Some((card, setting)) = path.strip_prefix("/ethtool/").and_then(|rest| rest.split_once('/')) {
        return ethtool(card, setting, value);
    }
    format!("printf '%s\\n' {} > {}", quoted(value), quoted(path))
}

fn ethtool(card: &str, setting: &str, value: &str) -> String {
    let (option, words) = match setting {
        "rx-hash-udp4" => ("-N", format!("rx-flow-hash udp4 {value}")),
        "rx-hash-udp6" => ("-N", format!("rx-flow-hash udp6 {value}")),
        "rx-ring" => ("-G", format!("rx {value}")),
        "tx-ring" => ("-G", format!("tx {value}")),
        "combined" => ("-L", format!("combined {value}")),
        "rx-channels" => ("-L", format!("rx {value}")),
        "rx-usecs" => ("-C", format!("rx-usecs {value}")),
        "adaptive-rx" => ("-C", format!("adaptive-rx {value}")),
        other => ("-K", format!("{other} {value}")),
    };
    format!("ethtool {option} {} {words}", quoted(card))
}

/// A word for the shell, whatever it contains.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
