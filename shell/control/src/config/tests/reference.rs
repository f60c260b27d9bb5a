//! Defaults of `docs/reference/configuration.md`, written into a file, change nothing.

use super::*;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../../../docs/reference/configuration.md");

/// Key and default of every row, by section; `None` where the default is described in words.
fn rows() -> BTreeMap<&'static str, Vec<(&'static str, Option<&'static str>)>> {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut section = "";
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = if heading == "Top of the file" { "" } else { heading.trim_matches(['`', '[', ']']) };
        } else if let Some(row) = line.strip_prefix("| `") {
            let cells: Vec<&str> = row.split(" | ").collect();
            let default = cells[1].strip_prefix('`').map(|d| d.strip_suffix('`').unwrap());
            rows.entry(section).or_default().push((cells[0].trim_end_matches('`'), default));
        }
    }
    rows
}

#[test]
fn the_defaults_described_are_the_real_ones() {
    for (section, rows) in rows() {
        // What a section cannot do without, and the brackets of its heading.
        let (heading, base) = match section {
            "" => ("", ""),
            "voicemail" => ("[voicemail]\n", "target = \"sip:vm@192.0.2.1\"\n"),
            "emergency" => ("[emergency]\n", "targets = [\"sip:192.0.2.1\"]\n"),
            "trunk" => ("[[trunk]]\n", "name = \"t\"\ntargets = [\"sip:192.0.2.1\"]\n"),
            "route" => ("[[route]]\n", "user = \"u\"\ntargets = [\"sip:192.0.2.1\"]\n"),
            "class" => ("[[class]]\n", "name = \"c\"\nallow = \"+49\"\n"),
            "domain" => ("[[domain]]\n", "name = \"example.com\"\n"),
            "caller" => ("[[caller]]\n", "user = \"a@example.com\"\nnumbers = \"+491\"\n"),
            other => (&*format!("[{other}]\n").leak(), ""),
        };
        let given: String =
            rows.iter().filter_map(|(key, d)| d.map(|value| format!("{key} = {value}\n"))).collect();
        let mut plain = good(&format!("{heading}{base}"));
        let spelt = good(&format!("{heading}{base}{given}"));
        // Listeners that were asked for by name must not be missing.
        plain.server.listen.iter_mut().for_each(|l| l.optional &= !section.is_empty());
        assert_eq!(spelt, plain, "[{section}]");
    }
}
