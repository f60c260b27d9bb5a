//! Where a setting comes from: the layers of an experiment, the highest first (paper 003, figure 7).
//!
//! The command line, the personal file, the experiment, the files of systems, the defaults. Each layer is
//! read over the ones below it.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use toml_form::named;
use toml_form::reader::Reader;

named! {
    /// A layer of settings, the lowest first.
    Layer {
        /// What the program assumes.
        Default = "default",
        /// The file of a system.
        System = "system file",
        /// The experiment.
        Experiment = "experiment",
        /// The personal file.
        Personal = "personal file",
        /// The command line.
        Option = "command line",
    }
}

/// Where a setting was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The layer.
    #[serde(serialize_with = "layer_name")]
    pub layer: Layer,
    /// The file, or the option; empty for a default.
    pub file: String,
    /// The line, from 1; 0 where there is no place in a file.
    pub line: u32,
    /// The column in characters, from 1; 0 where there is no place in a file.
    pub column: u32,
}

fn layer_name<S: serde::Serializer>(layer: &Layer, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(layer.name())
}

impl Origin {
    /// What the program assumes.
    pub fn default_value() -> Origin {
        Origin { layer: Layer::Default, file: String::new(), line: 0, column: 0 }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.layer, self.line) {
            (Layer::Default, _) => f.write_str("default"),
            (layer, 0) => write!(f, "{} {}", layer.name(), self.file),
            (layer, line) => write!(f, "{} {}:{line}:{}", layer.name(), self.file, self.column),
        }
    }
}

/// One setting of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its key, such as `workload.rate`.
    pub key: String,
    /// Its value as TOML.
    pub value: String,
    /// Where it was written.
    pub origin: Origin,
}

/// Where settings and sections were written, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Notes that a key was written there. Layers are read from the lowest on, so the last note counts.
    pub fn note(&mut self, key: String, origin: Origin) {
        self.0.insert(key, origin);
    }

    /// Where a key was written.
    pub fn of(&self, key: &str) -> Option<&Origin> {
        self.0.get(key)
    }

    /// The layer of a key.
    pub fn layer(&self, key: &str) -> Layer {
        self.of(key).map_or(Layer::Default, |origin| origin.layer)
    }

    /// Where a key was written, or else the section that it is in, or else the file.
    pub fn nearest(&self, key: &str) -> Origin {
        let section = key.rsplit_once('.').map_or("", |(section, _)| section);
        let found = self.of(key).or_else(|| self.of(section)).or_else(|| self.of(""));
        found.cloned().unwrap_or_else(Origin::default_value)
    }
}

/// What turns an offset within a document into an origin.
#[derive(Clone, Copy)]
pub(super) struct Place<'d> {
    pub layer: Layer,
    pub file: &'d str,
}

impl Place<'_> {
    /// The document as a whole.
    pub fn file_only(self) -> Origin {
        Origin { layer: self.layer, file: self.file.to_owned(), line: 0, column: 0 }
    }

    /// The origin of what stands at this offset.
    pub fn of(self, reader: &Reader<'_>, offset: usize) -> Origin {
        let (line, column) = if self.layer == Layer::Option { (0, 0) } else { reader.place(offset) };
        Origin { layer: self.layer, file: self.file.to_owned(), line, column }
    }
}
