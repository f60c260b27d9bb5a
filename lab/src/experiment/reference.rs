//! The tables of `docs/reference/lab.md`, from the declarations of the keys.

use super::claims::{self, ClaimKeys};
use super::keys::{Declared, Described};
use super::paper::{self, ReferenceKeys};
use super::{Design, FaultStep, Hosts, Measure, Measuring, Network, PLACEHOLDERS, System, Workload};
use super::{check, document, factor, fault, forms, sentence, setup};
use std::time::Duration;
use toml_form::form::coarse;

/// Every section, in the order of the reference page. The top of the file has two declarations.
pub(super) fn sections() -> Vec<Described> {
    let mut top = Described::of::<Design>();
    top.keys.extend(Described::of::<Measuring>().keys);
    vec![
        top,
        Described::of::<System>(),
        Described::of::<Workload>(),
        Described::of::<Network>(),
        Described::of::<FaultStep>(),
        Described::of::<ClaimKeys>(),
        Described::of::<ReferenceKeys>(),
        Described::of::<Hosts>(),
    ]
}

/// The page with its tables written anew: below the heading of each section, the first table. Everything else
/// stays.
pub fn fill_reference(page: &str) -> String {
    let tables = tables();
    let mut wanted: Option<&str> = None;
    let (mut out, mut in_table) = (String::with_capacity(page.len()), false);
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            wanted = tables.iter().find(|(title, _)| title == heading).map(|(_, table)| table.as_str());
        }
        if in_table && line.starts_with('|') {
            continue;
        }
        in_table = false;
        match wanted.filter(|_| line.starts_with("| ")) {
            Some(table) => {
                out.push_str(table);
                (wanted, in_table) = (None, true);
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

/// Each heading of the page that has a table, with the table.
fn tables() -> Vec<(String, String)> {
    let mut tables: Vec<(String, String)> = sections().iter().map(|s| (title(s), table(s))).collect();
    tables.push(("Placeholders".to_owned(), placeholders()));
    tables.push(("Metrics".to_owned(), metrics()));
    tables.push(("Limits".to_owned(), limits()));
    tables
}

/// The heading of a section on the page.
fn title(section: &Described) -> String {
    match section.header {
        "" => "Top of the file".to_owned(),
        header => format!("`{header}`"),
    }
}

fn table(section: &Described) -> String {
    let mut out = "| key | default | values | meaning |\n|---|---|---|---|\n".to_owned();
    for key in &section.keys {
        out.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            key.name,
            default(key),
            key.values.text,
            key.help
        ));
    }
    out
}

/// The default as it may be written, lengths of time with a unit.
fn default(key: &Declared) -> String {
    let Some(written) = key.default.as_ref().filter(|_| !key.is_required()) else {
        return if key.is_required() { "required" } else { "none" }.to_owned();
    };
    match written.parse().ok().filter(|seconds| key.values.is_length && *seconds > 0) {
        Some(seconds) => format!("`\"{}\"`", coarse(Duration::from_secs(seconds))),
        None => format!("`{written}`"),
    }
}

fn placeholders() -> String {
    let mut out = "| name | stands for |\n|---|---|\n".to_owned();
    for (name, meaning) in PLACEHOLDERS {
        out.push_str(&format!("| `${{{name}}}` | {meaning} |\n"));
    }
    out
}

fn metrics() -> String {
    let mut out = "| metric | unit | values in a run | meaning |\n|---|---|---|---|\n".to_owned();
    for (name, measure) in Measure::ALL {
        let unit = if measure.unit().is_empty() { "count" } else { measure.unit() };
        let values = if measure.is_distribution() { "many" } else { "one" };
        out.push_str(&format!("| `{name}` | {unit} | {values} | {} |\n", measure.meaning()));
    }
    out
}

/// What has a limit, and what happens beyond it.
fn limits() -> String {
    let refused = "the file is refused";
    let rows = [
        ("octets of a file", document::LARGEST, refused),
        ("octets of a template", forms::LONGEST_TEMPLATE, refused),
        ("options `--set`", document::MOST_OPTIONS, "refused"),
        ("characters of the name of a system or factor", forms::LONGEST_NAME, refused),
        ("systems", setup::MOST_SYSTEMS, refused),
        ("values of a factor", factor::MOST_VALUES, refused),
        ("octets of a value", factor::LONGEST_VALUE, refused),
        ("combinations of factors", factor::MOST_COMBINATIONS, refused),
        ("faults", setup::MOST_FAULTS, refused),
        ("repetitions of a fault in a run", fault::MOST_TIMES, "further ones do not happen"),
        ("claims", claims::MOST_CLAIMS, refused),
        ("octets of a claim", sentence::LONGEST, refused),
        ("references", paper::MOST_REFERENCES, refused),
        ("runs", check::MOST_RUNS, "the plan is refused"),
    ];
    let mut out = "| what | limit | beyond it |\n|---|---|---|\n".to_owned();
    for (what, limit, beyond) in rows {
        out.push_str(&format!("| {what} | {limit} | {beyond} |\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_its_table_on_the_page() {
        let page = include_str!("../../../docs/reference/lab.md");
        assert!(
            fill_reference(page) == page,
            "the tables are not those of the program: run `make reference`"
        );
        for (heading, table) in tables() {
            assert!(page.contains(&format!("## {heading}\n")) && page.contains(&table), "{heading}");
        }
    }
}
