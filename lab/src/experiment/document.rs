//! The texts of an experiment, parsed, each with its reader.

use super::layers::{Layer, Place};
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use toml_form::error::{ConfigError, Fault};
use toml_form::form::quoted;
use toml_form::reader::{Reader, Span};
use toml_form::syntax;

/// The largest file of an experiment, octets.
pub(super) const LARGEST: usize = 1 << 20;
/// Options on a command line at most.
pub(super) const MOST_OPTIONS: usize = 1_000;

/// A text and its layer.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub layer: Layer,
    /// The file, or the option.
    pub name: String,
    pub text: String,
    /// Where the program runs; empty if that is not known.
    pub here: PathBuf,
}

impl Document {
    /// A path written in it, as it is opened: it starts at the file, or for an option where the program runs.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        let folder = match self.layer {
            Layer::Option => None,
            _ => Path::new(&self.name).parent(),
        };
        self.here.join(folder.unwrap_or(Path::new(""))).join(path)
    }

    /// The file of a system that this document names.
    pub fn of_system(&self, path: &Path, text: String) -> Document {
        Document { layer: Layer::System, name: path.display().to_string(), text, here: self.here.clone() }
    }

    /// What `--set KEY=VALUE` says. A value that is no TOML is a text.
    pub fn of_option(written: &str) -> Document {
        let is_toml = |text: &str| DeTable::parse_recoverable(text).1.is_empty();
        let text = match written.split_once('=') {
            Some((key, value)) if !is_toml(written) => {
                let as_text = format!("{key}={}", quoted(value.trim()));
                if is_toml(&as_text) { as_text } else { written.to_owned() }
            }
            _ => written.to_owned(),
        };
        Document { layer: Layer::Option, name: format!("--set {written}"), text, here: PathBuf::new() }
    }

    /// The layer and the name.
    pub fn place(&self) -> Place<'_> {
        Place { layer: self.layer, file: &self.name }
    }

    fn fault(&self, fault: Fault) -> ConfigError {
        let Fault { message, mend } = fault;
        ConfigError { file: self.name.clone(), line: 0, column: 0, message, mend }
    }
}

/// A parsed document.
pub(super) struct Parsed<'d> {
    pub document: &'d Document,
    pub reader: Reader<'d>,
    pub table: DeTable<'d>,
}

impl<'d> Parsed<'d> {
    /// Reports the one mistake to mend first if it is no TOML.
    pub fn new(document: &'d Document) -> Result<Parsed<'d>, ConfigError> {
        if document.text.len() > LARGEST {
            let fault =
                Fault::new(format!("larger than {LARGEST} octets"), "move templates into files: config_file");
            return Err(document.fault(fault));
        }
        if document.layer == Layer::Option && !document.text.contains('=') {
            return Err(document.fault(Fault::new("not KEY=VALUE", "write it as --set workload.rate=2000")));
        }
        let mut reader = Reader::new(&document.name, &document.text).with(super::keys::ELSEWHERE);
        let (table, errors) = DeTable::parse_recoverable(&document.text);
        if let Some((span, fault)) = syntax::first(&document.text, &errors) {
            reader.error(&span, fault);
            return Err(without_place(document, reader.errors.remove(0)));
        }
        Ok(Parsed { document, reader, table: table.into_inner() })
    }

    /// The layer and the name.
    pub fn place(&self) -> Place<'d> {
        self.document.place()
    }

    /// Reports what is wrong at these places.
    pub fn report(&mut self, faults: impl IntoIterator<Item = (Span, Fault)>) {
        for (span, fault) in faults {
            self.reader.error(&span, fault);
        }
    }

    /// Everything that was reported, in the order of places, each once.
    pub fn findings(self) -> Vec<ConfigError> {
        let mut errors = self.reader.errors;
        errors.sort_by_key(|e| (e.line, e.column));
        errors.dedup();
        errors.into_iter().map(|error| without_place(self.document, error)).collect()
    }
}

/// Options have no lines.
fn without_place(document: &Document, error: ConfigError) -> ConfigError {
    match document.layer {
        Layer::Option => ConfigError { line: 0, column: 0, ..error },
        _ => error,
    }
}

/// Parses all; what is no TOML is reported.
pub(super) fn parse(documents: &[Document]) -> Result<Vec<Parsed<'_>>, Vec<ConfigError>> {
    if let Some(beyond) = documents.get(MOST_OPTIONS) {
        let fault = Fault::new(format!("more than {MOST_OPTIONS} options"), "write a file");
        return Err(vec![beyond.fault(fault)]);
    }
    let (mut parsed, mut errors) = (Vec::new(), Vec::new());
    for document in documents {
        match Parsed::new(document) {
            Ok(one) => parsed.push(one),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(parsed) } else { Err(errors) }
}
