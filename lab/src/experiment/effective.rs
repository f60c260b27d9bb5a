//! An experiment as one text, with the values of all layers: what is kept beside its results.

use super::document::{Document, Parsed};
use super::forms::is_name;
use super::keys::joined;
use super::layers::Layer;
use super::setup::{Open, is_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml_form::form::quoted;

/// Sections whose keys count one by one.
const BY_KEY: [&str; 4] = ["factor", "hosts", "network", "workload"];

/// Keys with their values as TOML.
type Keys = BTreeMap<String, String>;

/// The text. Files of systems and templates are in it; other paths are as the documents resolve them. The
/// documents have no errors.
pub(super) fn text(parsed: &[Parsed<'_>], open: Open<'_>) -> String {
    let (top, sections) = merged(parsed, open);
    let mut out = lines(&top);
    for (name, keys) in &sections {
        out.extend(["\n[", name, "]\n", &lines(keys)]);
    }
    out
}

/// All texts in which factors are replaced.
pub(super) fn varied(parsed: &[Parsed<'_>], open: Open<'_>) -> String {
    let (mut top, mut sections) = merged(parsed, open);
    top.remove("claim");
    top.remove("reference");
    sections.remove("factor");
    top.values().chain(sections.values().flat_map(Keys::values)).map(String::as_str).collect()
}

/// The keys at the top, and those of each section.
fn merged(parsed: &[Parsed<'_>], open: Open<'_>) -> (Keys, BTreeMap<String, Keys>) {
    let declared = declared(parsed);
    let (mut top, mut sections) = (Keys::new(), BTreeMap::<String, Keys>::new());
    for one in parsed {
        for (key, value) in &one.table {
            let name = key.get_ref().as_ref();
            match value.get_ref() {
                DeValue::Table(inside) if BY_KEY.contains(&name) => {
                    over(sections.entry(name.to_owned()).or_default(), inside, one.document, open);
                }
                DeValue::Table(systems) if name == "system" => {
                    for (system, inside) in systems {
                        let system = system.get_ref().as_ref();
                        if let Some(inside) =
                            inside.get_ref().as_table().filter(|_| declared.contains(system))
                        {
                            let keys = sections.entry(joined(name, system)).or_default();
                            over(keys, inside, one.document, open);
                        }
                    }
                }
                other => drop(top.insert(name.to_owned(), written(other))),
            }
        }
    }
    (top, sections)
}

/// The systems that are declared outside of the personal file.
fn declared(parsed: &[Parsed<'_>]) -> BTreeSet<String> {
    let own = parsed.iter().filter(|one| one.document.layer != Layer::Personal);
    let tables = own.filter_map(|one| one.table.get("system")?.get_ref().as_table());
    tables.flat_map(|systems| systems.keys().map(|name| name.get_ref().to_string())).collect()
}

/// Puts the keys of a section over those that are there.
fn over(keys: &mut Keys, table: &DeTable<'_>, document: &Document, open: Open<'_>) {
    if let Some(path) = table.get("file").and_then(|value| value.get_ref().as_str()) {
        // The file of a system is below all that is written in documents.
        let mut below = Keys::new();
        let path = document.resolved(Path::new(path));
        let file = document.of_system(&path, open(&path).unwrap_or_default());
        if let Ok(parsed) = Parsed::new(&file) {
            over(&mut below, &parsed.table, &file, open);
        }
        below.extend(std::mem::take(keys));
        *keys = below;
    }
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let (name, text) = match (name, value.get_ref()) {
            ("file", _) => continue,
            ("config_file", DeValue::String(path)) => {
                let first =
                    table.get("config").and_then(|value| value.get_ref().as_str()).unwrap_or_default();
                let rest = open(&document.resolved(Path::new(path.as_ref()))).unwrap_or_default();
                ("config", quoted(format!("{first}{rest}")))
            }
            // What begins with the value of a factor may be a whole path.
            ("binary" | "scenario" | "answer", DeValue::String(path))
                if (path.contains('/') || (name != "binary" && is_file(path))) && !path.starts_with("${") =>
            {
                (name, quoted(document.resolved(Path::new(path.as_ref())).display()))
            }
            ("rows" | "registrations", DeValue::String(path)) if !path.starts_with("${") => {
                (name, quoted(document.resolved(Path::new(path.as_ref())).display()))
            }
            (name, other) => (name, written(other)),
        };
        keys.insert(name.to_owned(), text);
    }
}

fn lines(keys: &Keys) -> String {
    keys.iter().map(|(key, value)| format!("{} = {value}\n", word(key))).collect()
}

/// A key.
fn word(key: &str) -> String {
    if is_name(key) { key.to_owned() } else { quoted(key) }
}

/// A value as TOML.
fn written(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => match number.radix() {
            2 => format!("0b{}", number.as_str()),
            8 => format!("0o{}", number.as_str()),
            16 => format!("0x{}", number.as_str()),
            _ => number.as_str().to_owned(),
        },
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(list) => {
            let all: Vec<String> = list.iter().map(|element| written(element.get_ref())).collect();
            format!("[{}]", all.join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                format!("{} = {}", word(key), written(value.get_ref()))
            };
            let all: Vec<String> = table.iter().map(pair).collect();
            format!("{{ {} }}", all.join(", "))
        }
    }
}
