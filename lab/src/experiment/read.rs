//! From the texts of an experiment to an [`Experiment`].

use super::claims;
use super::design::Design;
use super::document::{Document, Parsed, parse};
use super::factor::{self, Factor};
use super::keys::{Keys, joined, read_over};
use super::layers::{Layer, Origins};
use super::setup::SetupReader;
use super::{Combination, Experiment, Setup, check, effective, paper, places, refused};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml_form::error::{ConfigError, Fault};
use toml_form::reader::{Reader, Section};

/// How files that an experiment names are read: the text, or why there is none.
type OwnedOpen<'s> = Box<dyn Fn(&Path) -> Result<String, String> + 's>;

/// The texts of an experiment, by layer.
pub struct Sources<'s> {
    documents: Vec<Document>,
    here: PathBuf,
    open: OwnedOpen<'s>,
}

impl<'s> Sources<'s> {
    /// An experiment of this name with this text. Without [`Sources::with_files`] it may name no other files.
    pub fn new(name: &str, text: &str) -> Sources<'s> {
        let open = |_: &Path| Err("there are no files here".to_owned());
        let document = Document {
            layer: Layer::Experiment,
            name: name.to_owned(),
            text: text.to_owned(),
            here: PathBuf::new(),
        };
        Sources { documents: vec![document], here: PathBuf::new(), open: Box::new(open) }
    }

    /// With the personal file of this name.
    pub fn with_personal(mut self, name: &str, text: &str) -> Sources<'s> {
        let document = Document {
            layer: Layer::Personal,
            name: name.to_owned(),
            text: text.to_owned(),
            here: PathBuf::new(),
        };
        self.documents.push(document);
        self
    }

    /// With options `KEY=VALUE` of the command line, of which the last counts.
    pub fn with_options<'o>(mut self, options: impl IntoIterator<Item = &'o str>) -> Sources<'s> {
        self.documents.extend(options.into_iter().map(Document::of_option));
        self
    }

    /// With the folder where the program runs, so that paths become whole ones.
    pub fn with_folder(mut self, folder: &Path) -> Sources<'s> {
        self.here = folder.to_owned();
        self
    }

    /// With a way to read the files that the experiment names.
    pub fn with_files(self, open: impl Fn(&Path) -> Result<String, String> + 's) -> Sources<'s> {
        Sources { open: Box::new(open), ..self }
    }
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// Everything that is wrong, each with its place and a mend.
    pub fn read(sources: &Sources<'_>) -> Result<Experiment, Vec<ConfigError>> {
        // Options come last: of two documents that say something of a key the later one counts.
        let mut documents = sources.documents.clone();
        documents.sort_by_key(|document| document.layer);
        documents.iter_mut().for_each(|document| document.here.clone_from(&sources.here));
        let mut parsed = parse(&documents)?;
        let mut origins = Origins::default();
        if let Some(first) = parsed.first() {
            origins.note(String::new(), first.place().file_only());
        }
        let mut design = design(&mut parsed, &mut origins);
        let factors = factor::read(&mut parsed, &mut origins);
        let mut extra = Vec::new();
        let setups = match factor::combinations(&factors) {
            Ok(combinations) => {
                setups(sources, &mut parsed, &mut origins, &factors, combinations, &mut extra)
            }
            Err(fault) => {
                extra.push(check::at(&origins, "factor", fault));
                Vec::new()
            }
        };
        let claims = claims::read(&mut parsed, &mut origins, &setups);
        let references = paper::read(&mut parsed, &mut origins, &setups, &design.paper);
        for setup in &setups {
            check::setup(setup, &origins, &mut extra);
        }
        check::claims(&claims, &setups, &origins, &mut extra);
        let controls = check::design(&mut design, &setups, &claims, &origins, &mut extra);
        places::check(&setups, &claims, &origins, &mut extra);
        // Before the faults are sorted by their times: their places go by the order of the file.
        let mut refused = refused::of_setups(&setups, &claims, &origins);
        let experiment = Experiment::new(design, controls, setups, (claims, references), &origins);
        refused.extend(check::plan(&experiment, &origins));
        let text = effective::text(&parsed, &*sources.open);
        let mut errors: Vec<ConfigError> = parsed.into_iter().flat_map(Parsed::findings).collect();
        // One finding for all combinations that have it.
        for error in extra {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        match errors.is_empty() {
            true => Ok(Experiment { text, refused, ..experiment }),
            false => Err(errors),
        }
    }
}

/// The keys that no factor varies.
fn design(parsed: &mut [Parsed<'_>], origins: &mut Origins) -> Design {
    let mut design = Design::default();
    for one in parsed {
        let place = one.place();
        let mut top = Section::new("", 0..0, Some(&one.table));
        read_over(&mut top, &mut one.reader, origins, ("", place), &mut design);
    }
    design
}

/// What the runs at each combination are made of.
fn setups<'d>(
    sources: &Sources<'_>,
    parsed: &mut [Parsed<'d>],
    origins: &mut Origins,
    factors: &BTreeMap<String, Factor<'d>>,
    combinations: Vec<Combination>,
    extra: &mut Vec<ConfigError>,
) -> Vec<Setup> {
    let implied = factor::implied(parsed, factors, &*sources.open);
    let mut used = BTreeSet::new();
    let mut setups = Vec::new();
    for combination in combinations {
        let mut reader =
            SetupReader { open: &*sources.open, parsed, origins, implied: &implied, used: &mut used, extra };
        setups.push(reader.read(combination, factors));
    }
    for (name, factor) in factors.iter().filter(|(name, _)| !used.contains(*name) && !implied.contains(*name))
    {
        let mend = format!("write `${{{name}}}` where its value belongs; keys of [workload] need no `${{}}`");
        let fault = Fault::new(format!("factor `{name}` varies nothing"), mend);
        if let Some(one) = parsed.get_mut(factor.document) {
            one.report([(factor.span.clone(), fault)]);
        }
    }
    setups
}

/// The names of a section's keys.
pub(super) fn names_of<S: Keys>() -> impl Iterator<Item = &'static str> {
    S::KEYS.iter().map(|key| key.name)
}

/// Reports a key that must be written.
pub(super) fn required(reader: &mut Reader<'_>, section: &Section<'_, '_>, key: &str, example: &str) {
    if !section.has(key) {
        let fault = Fault::new(format!("there is no `{key}`"), format!("write `{example}`"));
        reader.error(section.span(), fault);
    }
}

/// The path of the nth section of a list, from 0.
pub(super) fn numbered(section: &str, nth: usize) -> String {
    joined(section, &(nth + 1).to_string())
}
