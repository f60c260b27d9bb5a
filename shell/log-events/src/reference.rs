//! The tables of `docs/reference/log.md`, from the declarations of the events.

use crate::declare::Event;
use crate::sections;

/// The first line of each table.
const HEAD: &str = "| event | level | line | fields | what to do |";

/// The page with its tables written anew: below the heading of each section, the first table. Everything else
/// stays.
pub fn fill(page: &str) -> String {
    let sections = sections();
    let mut section: Option<&[Event]> = None;
    let (mut out, mut in_table) = (String::with_capacity(page.len()), false);
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = sections.iter().find(|(title, _)| *title == heading).map(|(_, events)| *events);
        }
        if in_table && line.starts_with('|') {
            continue;
        }
        in_table = false;
        match section.filter(|_| line.starts_with("| event |")) {
            Some(events) => {
                out.push_str(&table(events));
                (section, in_table) = (None, true);
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

fn table(events: &[Event]) -> String {
    let mut out = format!("{HEAD}\n|---|---|---|---|---|\n");
    for Event { name, level, sentence, fields, advice } in events {
        let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        out.push_str(&format!("| `{name}` | {level} | {sentence} | {} | {advice} |\n", fields.join(", ")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_its_table_on_the_page() {
        let page = include_str!("../../../docs/reference/log.md");
        assert!(fill(page) == page, "the tables are not those of the program: run `make reference`");
        for (title, events) in sections() {
            let (heading, table) = (format!("## {title}\n"), table(events));
            assert!(page.contains(&heading) && page.contains(&table), "{heading}");
        }
    }
}
