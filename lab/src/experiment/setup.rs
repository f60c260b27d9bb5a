//! Reads what the runs at one combination of factors are made of.

use super::design::Design;
use super::document::{Document, Parsed};
use super::factor::Factor;
use super::forms::{NAMES, is_name};
use super::keys::{joined, read_over};
use super::layers::{Layer, Origins};
use super::read::{names_of, numbered, required};
use super::substitute::Values;
use super::{Combination, FaultStep, Setup, System, Workload};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_form::error::{ConfigError, Fault};
use toml_form::reader::{Section, Span, kind};
use toml_form::text::shown;

/// Built-in scenarios whose calls `uas` answers.
const CALLING: [&str; 3] = ["uac", "proxy200", "proxy200_auth"];

/// Systems of an experiment at most.
pub(super) const MOST_SYSTEMS: usize = 50;
/// Faults of an experiment at most.
pub(super) const MOST_FAULTS: usize = 100;
/// How files that an experiment names are read.
pub(super) type Open<'o> = &'o dyn Fn(&Path) -> Result<String, String>;

/// The name of the system where the file has none.
const ONLY: &str = "this";

/// Reads setups from the documents of an experiment.
pub(super) struct SetupReader<'s, 'd> {
    pub open: Open<'s>,
    pub parsed: &'s mut [Parsed<'d>],
    pub origins: &'s mut Origins,
    /// Factors that set a key of `[workload]`.
    pub implied: &'s BTreeSet<String>,
    /// Factors whose names occurred.
    pub used: &'s mut BTreeSet<String>,
    /// Findings outside of the documents.
    pub extra: &'s mut Vec<ConfigError>,
}

/// The values of a combination, by factor.
type Chosen<'d> = BTreeMap<String, (DeValue<'d>, String)>;

/// The entry of a system in a document: the document, the table and where it stands.
type Entry<'t, 'd> = (usize, &'t DeTable<'d>, Span);

impl<'d> SetupReader<'_, 'd> {
    /// The setup at a combination.
    pub fn read(&mut self, combination: Combination, factors: &BTreeMap<String, Factor<'d>>) -> Setup {
        let mut chosen = Chosen::new();
        for level in combination.levels() {
            let factor = factors.get(&level.factor);
            let value = factor.and_then(|factor| factor.values.iter().find(|v| v.text == level.value));
            if let Some(value) = value {
                chosen.insert(level.factor.clone(), (value.value.clone(), level.value.clone()));
            }
        }
        let tables = self.tables(&chosen, factors);
        let mut setup = Setup { combination, ..Setup::default() };
        for (nth, table) in tables.iter().enumerate() {
            self.over(nth, table, &mut setup);
        }
        setup.systems = self.systems(&tables, &chosen);
        self.digest_scenarios(&mut setup);
        setup
    }

    /// The documents with each `${factor}` replaced.
    fn tables(&mut self, chosen: &Chosen<'d>, factors: &BTreeMap<String, Factor<'d>>) -> Vec<DeTable<'d>> {
        let design: Vec<&str> = names_of::<Design>().collect();
        let mut tables = Vec::new();
        for (nth, one) in self.parsed.iter_mut().enumerate() {
            let mut values = Values { of: chosen, used: self.used, faults: Vec::new() };
            let mut table = values.document(&one.table, &design);
            let faults = values.faults;
            one.report(faults);
            for name in self.implied {
                if let (Some((value, _)), Some(factor)) = (chosen.get(name), factors.get(name))
                    && factor.document == nth
                {
                    imply(&mut table, name, Spanned::new(factor.span.clone(), value.clone()));
                }
            }
            tables.push(table);
        }
        tables
    }

    /// Reads a document over the setup, all but its systems.
    fn over(&mut self, nth: usize, table: &DeTable<'d>, setup: &mut Setup) {
        let Some(one) = self.parsed.get_mut(nth) else { return };
        let (document, place) = (one.document, one.place());
        let mut top = Section::new("", 0..0, Some(table));
        read_over(&mut top, &mut one.reader, self.origins, ("", place), &mut setup.measuring);
        let mut hosts = top.section(&mut one.reader, "hosts", "hosts");
        read_over(&mut hosts, &mut one.reader, self.origins, ("hosts", place), &mut setup.hosts);
        hosts.finish(&mut one.reader);
        let mut network = top.section(&mut one.reader, "network", "network");
        read_over(&mut network, &mut one.reader, self.origins, ("network", place), &mut setup.network);
        network.finish(&mut one.reader);
        let mut workload = top.section(&mut one.reader, "workload", "workload");
        let to = &mut setup.workload;
        read_over(&mut workload, &mut one.reader, self.origins, ("workload", place), to);
        resolve_scenarios(document, &workload, to);
        workload.finish(&mut one.reader);
        if top.has("fault") {
            setup.faults = faults(one, &mut top, self.origins);
        }
        // Read elsewhere.
        top.know(names_of::<Design>().chain(["system", "factor", "claim", "reference"]));
        top.finish(&mut one.reader);
    }

    fn systems(&mut self, tables: &[DeTable<'d>], chosen: &Chosen<'d>) -> BTreeMap<String, System> {
        let mut entries = self.entries(tables);
        if entries.is_empty() {
            entries.insert(ONLY.to_owned(), Vec::new());
        }
        let mut systems = BTreeMap::new();
        for (name, entries) in entries {
            let mut system = System::default();
            self.read_file(&name, &entries, chosen, &mut system);
            for (nth, table, span) in entries {
                let Some(one) = self.parsed.get_mut(nth) else { continue };
                let mut section = Section::new("system", span, Some(table));
                let path = (&*joined("system", &name), one.place());
                read_over(&mut section, &mut one.reader, self.origins, path, &mut system);
                let mut values = Values { of: chosen, used: self.used, faults: Vec::new() };
                resolve(one.document, &section, &mut system, &mut values, self.open);
                let faults = values.faults;
                one.report(faults);
                section.finish(&mut one.reader);
            }
            system.file = None;
            systems.insert(name, system);
        }
        systems
    }

    /// What each document says of each system. The personal file adds no system.
    fn entries<'t>(&mut self, tables: &'t [DeTable<'d>]) -> BTreeMap<String, Vec<Entry<'t, 'd>>> {
        let mut found: BTreeMap<String, Vec<Entry<'t, 'd>>> = BTreeMap::new();
        let mut declared = BTreeSet::new();
        for (nth, (one, table)) in self.parsed.iter_mut().zip(tables).enumerate() {
            let mut top = Section::new("", 0..0, Some(table));
            let section = top.section(&mut one.reader, "system", "system");
            for (name, value, span) in section.entries() {
                let DeValue::Table(inside) = value else {
                    let what = format!("system `{}` is a section, not {}", shown(name.value), kind(value));
                    let mend = "write [system.NAME], and its keys below";
                    one.reader.error(&span, Fault::new(what, mend));
                    continue;
                };
                if !is_name(name.value) {
                    let what = format!("\"{}\" cannot be the name of a system", shown(name.value));
                    one.reader.error(&name.span, Fault::new(what, NAMES));
                    continue;
                }
                if one.document.layer != Layer::Personal {
                    declared.insert(name.value.to_owned());
                }
                if found.len() < MOST_SYSTEMS || found.contains_key(name.value) {
                    found.entry(name.value.to_owned()).or_default().push((nth, inside, span));
                } else {
                    let what = format!("more than {MOST_SYSTEMS} systems");
                    one.reader.error(&name.span, Fault::new(what, "write several experiments"));
                }
            }
        }
        found.retain(|name, _| declared.contains(name));
        found
    }

    /// Reads the file of a system, if one is named.
    fn read_file(&mut self, name: &str, entries: &[Entry<'_, 'd>], chosen: &Chosen<'d>, system: &mut System) {
        let named = entries.iter().rev().find_map(|(nth, table, _)| {
            let value = table.get("file")?;
            Some((*nth, value.get_ref().as_str()?, value.span()))
        });
        let Some((nth, path, span)) = named else { return };
        let Some(one) = self.parsed.get_mut(nth) else { return };
        let path = one.document.resolved(Path::new(path));
        let text = match (self.open)(&path) {
            Ok(text) => text,
            Err(why) => return one.reader.error(&span, unreadable(&path, &why)),
        };
        let document = one.document.of_system(&path, text);
        let mut file = match Parsed::new(&document) {
            Ok(file) => file,
            Err(error) => return self.extra.push(error),
        };
        let mut values = Values { of: chosen, used: self.used, faults: Vec::new() };
        let table = values.document(&file.table, &[]);
        let mut section = Section::new("system", 0..0, Some(&table));
        let path = (&*joined("system", name), file.place());
        read_over(&mut section, &mut file.reader, self.origins, path, system);
        resolve(&document, &section, system, &mut values, self.open);
        if section.has("file") {
            let fault = Fault::new("the file of a system names another one", "copy its keys");
            file.reader.error(&section.span_of("file"), fault);
        }
        section.finish(&mut file.reader);
        let faults = values.faults;
        file.report(faults);
        self.extra.extend(file.findings());
    }

    /// Digests of scenario files: other calls are another measurement.
    fn digest_scenarios(&mut self, setup: &mut Setup) {
        let Workload { scenario, answer, rows, registrations, .. } = &setup.workload;
        let file = |name: &String| Some(name).filter(|name| is_file(name)).map(PathBuf::from);
        let named = [
            ("workload.scenario", file(scenario)),
            ("workload.answer", answer.as_ref().and_then(file)),
            ("workload.rows", rows.clone()),
            ("workload.registrations", registrations.clone()),
        ];
        for (key, path) in named.into_iter().filter_map(|(key, path)| Some((key, path?))) {
            match (self.open)(&path) {
                Ok(text) => {
                    let digest = super::ExperimentId::of(&text).to_string();
                    setup.inputs.push((path.display().to_string(), digest));
                }
                Err(why) => {
                    let fault = unreadable(&path, &why);
                    self.extra.push(super::check::at(self.origins, key, fault));
                }
            }
        }
    }
}

fn unreadable(path: &Path, why: &str) -> Fault {
    Fault::new(format!("cannot read {}: {why}", path.display()), "correct the path: it starts at this file")
}

/// Whether a scenario is a file, and none of the built-in ones.
pub(super) fn is_file(scenario: &str) -> bool {
    scenario.contains(['/', '.'])
}

/// Paths of scenarios start at the document that they are written in. Who answers follows from the scenario.
fn resolve_scenarios(document: &Document, section: &Section<'_, '_>, workload: &mut Workload) {
    let resolved = |path: &mut String| {
        if is_file(path) {
            *path = document.resolved(Path::new(&*path)).display().to_string();
        }
    };
    if section.has("scenario") {
        resolved(&mut workload.scenario);
    }
    for (key, file) in [("rows", &mut workload.rows), ("registrations", &mut workload.registrations)] {
        if let Some(path) = file.as_mut().filter(|_| section.has(key)) {
            *path = document.resolved(path);
        }
    }
    match (&mut workload.answer, section.has("answer")) {
        (Some(answer), true) => resolved(answer),
        (answer, false) if section.has("scenario") => {
            *answer = CALLING.contains(&&*workload.scenario).then(|| "uas".to_owned());
        }
        _ => {}
    }
}

/// Paths of a system start at the document that they are written in; the template is read.
fn resolve(
    document: &Document,
    section: &Section<'_, '_>,
    system: &mut System,
    values: &mut Values<'_, '_>,
    open: Open<'_>,
) {
    if let Some(binary) = system.binary.as_mut().filter(|_| section.has("binary"))
        && binary.as_os_str().as_encoded_bytes().contains(&b'/')
    {
        *binary = document.resolved(binary);
    }
    let span = section.span_of("config_file");
    let Some(path) = system.config_file.take().map(|path| document.resolved(&path)) else { return };
    match open(&path) {
        Ok(text) => {
            let before = values.faults.len();
            let text = values.text(&text, true, &span);
            // What stands beside the file comes first, such as definitions; that of lower layers is replaced.
            if !section.has("config") {
                system.config.clear();
            }
            system.config.push_str(&text);
            for (_, fault) in values.faults.iter_mut().skip(before) {
                fault.message = format!("{}: {}", path.display(), fault.message);
            }
        }
        Err(why) => values.faults.push((span, unreadable(&path, &why))),
    }
}

/// Puts a value into `[workload]`.
fn imply<'d>(table: &mut DeTable<'d>, key: &str, value: Spanned<DeValue<'d>>) {
    let span = value.span();
    let spanned = |text: &str| Spanned::new(span.clone(), Cow::Owned(text.to_owned()));
    let there = table.get("workload").is_some();
    if !there {
        table.insert(spanned("workload"), Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
    }
    if let Some(DeValue::Table(workload)) = table.get_mut("workload").map(Spanned::get_mut) {
        workload.insert(spanned(key), value);
    }
}

/// Every `[[fault]]` of a document.
fn faults(one: &mut Parsed<'_>, top: &mut Section<'_, '_>, origins: &mut Origins) -> Vec<FaultStep> {
    let mut sections = top.sections(&mut one.reader, "fault", "fault");
    if sections.len() > MOST_FAULTS {
        let fault = Fault::new(format!("more than {MOST_FAULTS} faults"), "repeat one: every = \"1s\"");
        one.reader.error(&top.span_of("fault"), fault);
        sections.truncate(MOST_FAULTS);
    }
    let mut faults = Vec::new();
    for (nth, mut section) in sections.into_iter().enumerate() {
        let mut fault = FaultStep::default();
        let path = numbered("fault", nth);
        read_over(&mut section, &mut one.reader, origins, (&path, one.document.place()), &mut fault);
        required(&mut one.reader, &section, "at", "at = \"5s\"");
        required(&mut one.reader, &section, "kind", "kind = \"kill\"");
        section.finish(&mut one.reader);
        faults.push(fault);
    }
    faults
}
