//! The tables of `docs/reference/configuration.md`, from the declarations of the keys.

use super::form::coarse;
use super::schema::{Declared, Described, Reload};
use super::sections::sections;
use std::time::Duration;

/// The first line of each table.
const HEAD: &str = "| key | default | values | reload | meaning |";

/// The page with its tables written anew: below the heading of each section, the first table. Everything else
/// stays. A section without a heading and a table is left out.
pub fn fill_reference(page: &str) -> String {
    let sections = sections();
    let mut section: Option<&Described> = None;
    let (mut out, mut in_table) = (String::with_capacity(page.len()), false);
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = sections.iter().find(|section| title(section) == heading);
        }
        if in_table && line.starts_with('|') {
            continue;
        }
        in_table = false;
        match section.filter(|_| line.starts_with("| key |")) {
            Some(found) => {
                out.push_str(&table(found));
                (section, in_table) = (None, true);
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

/// The heading of a section on the page.
fn title(section: &Described) -> String {
    match section.header().as_str() {
        "" => "Top of the file".to_owned(),
        header => format!("`{header}`"),
    }
}

fn table(section: &Described) -> String {
    let mut out = format!("{HEAD}\n|---|---|---|---|---|\n");
    for key in &section.keys {
        let reload = match key.reload {
            Reload::Live => "yes",
            Reload::Restart => "restart",
        };
        let (name, values, help) = (key.name, &key.values.text, &key.help);
        out.push_str(&format!("| `{name}` | {} | {values} | {reload} | {help} |\n", default(key)));
    }
    out
}

/// The default as it may be written, lengths of time with a unit.
fn default(key: &Declared) -> String {
    let Some(written) = &key.default else { return "none".to_owned() };
    match written.parse().ok().filter(|seconds| key.values.is_length && *seconds > 0) {
        Some(seconds) => format!("`\"{}\"`", coarse(Duration::from_secs(seconds))),
        None => format!("`{written}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_has_its_table_on_the_page() {
        let page = include_str!("../../../../docs/reference/configuration.md");
        assert!(
            fill_reference(page) == page,
            "the tables are not those of the program: run `make reference`"
        );
        for section in sections() {
            let (heading, table) = (format!("## {}\n", title(&section)), table(&section));
            assert!(page.contains(&heading) && page.contains(&table), "{heading}");
        }
    }

    #[test]
    fn default_of_a_length_has_a_unit() {
        let key = |section: &str, key: &str| {
            let all = sections();
            let section = all.iter().find(|s| s.name == section).unwrap();
            default(section.keys.iter().find(|k| k.name == key).unwrap())
        };
        assert_eq!(key("proxy", "timer_c"), "`\"185s\"`");
        assert_eq!(key("balance", "session_timeout"), "`\"4h\"`");
        assert_eq!(key("timers", "t1"), "`\"500ms\"`");
        assert_eq!(key("", "busy_poll"), "`0`");
        assert_eq!(key("limits", "headers"), "`256`");
        assert_eq!(key("auth", "realm"), "none");
    }
}
