//! Walks a parsed TOML document, notes what was asked for, and reports everything that does not
//! fit, each with its place.
//!
//! Serde stops at the first error; a person who edits a file wants all of them. So the document is
//! read key by key from the tree that `toml` gives out with byte spans.

use crate::error::{ConfigError, Fault, closest};
use crate::form::One;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Entries a list may have; lists are searched for doubles one by one.
const LONGEST_LIST: usize = 10_000;

/// What stands for the file's name where there is no file.
pub const NO_FILE: &str = "(defaults)";

/// Byte offsets of something in the file.
pub type Span = Range<usize>;

/// A place as people count it: line and column, both from 1, the column in characters.
pub type Place = (u32, u32);

/// What a file's schema knows of a key that its section does not have.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere {
    /// What is said of a key of this name in this section, if it asks for something that does not exist.
    pub missing: fn(&str, &str) -> Option<Fault>,
    /// Where else than in this section a key of this name may stand, in words.
    pub places: fn(&str, &str) -> Option<String>,
}

/// Collects findings about one file.
pub struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    line_starts: Vec<usize>,
    elsewhere: Option<Elsewhere>,
    /// What makes the configuration unusable.
    pub errors: Vec<ConfigError>,
    /// What the operator should know.
    pub warnings: Vec<ConfigError>,
    /// Where each section and each top-level key starts, for findings of later stages.
    pub places: BTreeMap<String, Place>,
}

impl<'t> Reader<'t> {
    /// For this text of a file of this name.
    pub fn new(file: &'t str, text: &'t str) -> Reader<'t> {
        let mut line_starts = vec![0];
        line_starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1));
        let (errors, warnings, places) = (Vec::new(), Vec::new(), BTreeMap::new());
        Reader { file, text, line_starts, elsewhere: None, errors, warnings, places }
    }

    /// With what the schema knows of unknown keys.
    pub fn with(self, elsewhere: Elsewhere) -> Reader<'t> {
        Reader { elsewhere: Some(elsewhere), ..self }
    }

    /// Line and column of a byte offset.
    pub fn place(&self, offset: usize) -> Place {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|i| self.line_starts.get(i)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count()) + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }

    fn finding(&self, span: &Span, fault: Fault) -> ConfigError {
        // Without a file there is no place in one.
        let (line, column) = if self.file == NO_FILE { (0, 0) } else { self.place(span.start) };
        ConfigError { file: self.file.to_owned(), line, column, message: fault.message, mend: fault.mend }
    }

    /// Reports an error at `span`.
    pub fn error(&mut self, span: &Span, fault: Fault) {
        let finding = self.finding(span, fault);
        self.errors.push(finding);
    }

    /// Reports a warning at `span`.
    pub fn warn(&mut self, span: &Span, fault: Fault) {
        let finding = self.finding(span, fault);
        self.warnings.push(finding);
    }

    /// Reports an error in a command-line option.
    pub fn option_error(&mut self, option: &str, fault: Fault) {
        self.errors.push(in_option(option, fault));
    }

    /// Reports a warning about a command-line option.
    pub fn option_warn(&mut self, option: &str, fault: Fault) {
        self.warnings.push(in_option(option, fault));
    }
}

fn in_option(option: &str, fault: Fault) -> ConfigError {
    ConfigError { file: option.to_owned(), line: 0, column: 0, message: fault.message, mend: fault.mend }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Span,
}

/// One table of the document. A missing table reads like an empty one, so that defaults need no
/// second path.
pub struct Section<'d, 'i> {
    table: Option<&'d DeTable<'i>>,
    path: &'static str,
    span: Span,
    asked: Vec<&'static str>,
    faults: usize,
}

impl<'d, 'i> Section<'d, 'i> {
    /// The table at `span`; `path` names it in messages and is empty for the top of the file.
    pub fn new(path: &'static str, span: Span, table: Option<&'d DeTable<'i>>) -> Section<'d, 'i> {
        Section { table, path, span, asked: Vec::new(), faults: 0 }
    }

    /// Where the section starts.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Where a key's value stands, or the section if it is not written.
    pub fn span_of(&self, key: &str) -> Span {
        match self.table.and_then(|table| table.get(key)) {
            Some(value) => value.span(),
            None => self.span.clone(),
        }
    }

    /// Counts these keys as known: they are read elsewhere.
    pub fn know(&mut self, keys: impl IntoIterator<Item = &'static str>) {
        for key in keys {
            if !self.asked.contains(&key) {
                self.asked.push(key);
            }
        }
    }

    /// Notes how many of its values were reported.
    pub fn note_faults(&mut self, faults: usize) {
        self.faults = faults;
    }

    /// Whether none of its values was reported.
    pub fn is_sound(&self) -> bool {
        self.faults == 0
    }

    /// Whether the section itself is written.
    pub fn is_written(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the key is written, as an empty list.
    pub fn is_empty_list(&self, key: &str) -> bool {
        let value = self.table.and_then(|table| table.get(key));
        value.is_some_and(|value| matches!(value.get_ref(), DeValue::Array(list) if list.is_empty()))
    }

    /// Whether the key is written.
    pub fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    fn value(&mut self, key: &'static str) -> Option<(&'d DeValue<'i>, Span)> {
        self.know([key]);
        self.table?.get(key).map(|value| (value.get_ref(), value.span()))
    }

    /// Reads one value; what does not do is reported and read as missing.
    pub fn read<T>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        parse: impl Fn(&DeValue<'_>) -> Result<T, Fault>,
    ) -> Option<At<T>> {
        let (value, span) = self.value(key)?;
        match parse(value) {
            Ok(value) => Some(At { value, span }),
            Err(fault) => {
                reader.error(&span, fault);
                None
            }
        }
    }

    /// Reads an array; every element that does not do is reported. A single value counts as an
    /// array of one.
    pub fn list<T>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        parse: impl Fn(&DeValue<'_>) -> Result<T, Fault>,
    ) -> Option<Vec<At<T>>> {
        self.value(key)?;
        let elements = self.elements(key);
        if elements.len() > LONGEST_LIST {
            let message = format!("more than {LONGEST_LIST} entries");
            reader.error(&self.span_of(key), Fault::new(message, "more belongs in a database"));
            return None;
        }
        let mut list = Vec::with_capacity(elements.len());
        for (element, span) in elements {
            match parse(element) {
                Ok(value) => list.push(At { value, span }),
                Err(fault) => reader.error(&span, fault),
            }
        }
        Some(list)
    }

    /// The elements of a list, each with its place; a single value counts as a list of one.
    fn elements(&self, key: &str) -> Vec<(&'d DeValue<'i>, Span)> {
        let Some(value) = self.table.and_then(|table| table.get(key)) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(array) => array.iter().map(|e| (e.get_ref(), e.span())).collect(),
            single => vec![(single, value.span())],
        }
    }

    /// The elements of a list that was read before, with their places, for checks beyond that of each value;
    /// without those that were reported then.
    pub fn places<T: 'static>(&self, key: &str, form: &One<T>) -> Vec<At<T>> {
        let elements = self.elements(key).into_iter().take(LONGEST_LIST);
        elements.filter_map(|(value, span)| form.read(value).ok().map(|value| At { value, span })).collect()
    }

    /// A table below this one.
    pub fn section(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        path: &'static str,
    ) -> Section<'d, 'i> {
        let empty = Section::new(path, self.span.clone(), None);
        let Some((value, span)) = self.value(key) else { return empty };
        match value {
            DeValue::Table(table) => Section::new(path, span, Some(table)),
            other => {
                let message = format!("`{key}` is a section, not {}", kind(other));
                reader.error(&span, Fault::new(message, format!("write it as [{key}]")));
                empty
            }
        }
    }

    /// The tables of a `[[key]]` list.
    pub fn sections(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        path: &'static str,
    ) -> Vec<Section<'d, 'i>> {
        let Some((value, span)) = self.value(key) else { return Vec::new() };
        let mend = format!("write each as [[{key}]]");
        let DeValue::Array(array) = value else {
            reader.error(&span, Fault::new(format!("`{key}` is a list of sections"), mend));
            return Vec::new();
        };
        let mut all = Vec::new();
        for element in array.iter() {
            match element.get_ref() {
                DeValue::Table(table) => all.push(Section::new(path, element.span(), Some(table))),
                other => {
                    let message = format!("`{key}` is a list of sections, not of {}", kind(other));
                    reader.error(&element.span(), Fault::new(message, mend.clone()));
                }
            }
        }
        all
    }

    /// Key, value and place of every entry; for tables whose keys are data.
    pub fn entries(&self) -> impl Iterator<Item = (At<&'d str>, &'d DeValue<'i>, Span)> {
        self.table.into_iter().flat_map(|table| table.iter()).map(|(key, value)| {
            let at = At { value: key.get_ref().as_ref(), span: key.span() };
            (at, value.get_ref(), value.span())
        })
    }

    /// Reports every key that nobody asked for.
    pub fn finish(self, reader: &mut Reader<'_>) {
        let Some(table) = self.table else { return };
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let elsewhere = reader.elsewhere;
            let missing = elsewhere.and_then(|elsewhere| (elsewhere.missing)(name, self.path));
            let fault = missing.unwrap_or_else(|| {
                let inside =
                    if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) };
                Fault::new(format!("unknown key `{name}`{inside}"), self.mend(name, elsewhere))
            });
            reader.error(&key.span(), fault);
        }
    }

    fn mend(&self, written: &str, elsewhere: Option<Elsewhere>) -> String {
        if let Some(meant) = closest(written, self.asked.iter().copied()) {
            return format!("did you mean `{meant}`?");
        }
        match elsewhere.and_then(|elsewhere| (elsewhere.places)(written, self.path)) {
            Some(places) => format!("`{written}` belongs {places}"),
            None => format!("known here: {}", self.asked.join(", ")),
        }
    }
}

/// What a value is, with its article, for "not a number".
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}
