//! What a hot reload may change.

use super::error::ConfigError;
use super::load::Loaded;
use super::reader::NO_FILE;
use super::schema::{Checks, Key, Reload};
use super::sections::{Config, Visit};
use serde::{Deserialize, Serialize};

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Sections that changed and are in force now, and what was ordered at run time and is undone.
    pub changed: Vec<String>,
    /// Findings that did not keep it from working.
    pub warnings: Vec<String>,
}

/// The sections in which two configurations differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A reload can bring these into force.
    pub live: Vec<String>,
    /// These need a restart: keys of the top of the file, sections, or `section.key` where a section has keys
    /// of both kinds.
    pub restart: Vec<String>,
}

impl Visit for Changes {
    fn section<S: Checks>(&mut self, here: &S, there: &S) {
        let needs_restart = |key: &Key<S>| key.reload == Reload::Restart;
        let whole = S::KEYS.iter().all(needs_restart);
        for key in S::KEYS.iter().filter(|key| !(key.same)(here, there)) {
            let (list, name) = match (S::NAME, needs_restart(key)) {
                ("", true) => (&mut self.restart, key.name.to_owned()),
                ("", false) => (&mut self.live, key.name.to_owned()),
                (section, true) if whole => (&mut self.restart, section.to_owned()),
                (section, true) => (&mut self.restart, format!("{section}.{}", key.name)),
                (section, false) => (&mut self.live, section.to_owned()),
            };
            if list.last() != Some(&name) {
                list.push(name);
            }
        }
    }
}

/// Compares two configurations key by key. Nothing is decided silently: a difference always shows in one
/// list.
pub fn diff(old: &Config, new: &Config) -> Changes {
    let mut changes = Changes::default();
    old.visit(new, &mut changes);
    let lists = [
        ("voicemail", old.voicemail != new.voicemail),
        ("emergency", old.emergency != new.emergency),
        ("trunk", old.trunks != new.trunks),
        ("route", old.routes != new.routes),
        ("class", old.classes != new.classes),
        ("domain", old.domain_rules != new.domain_rules),
        ("caller", old.callers != new.callers),
    ];
    changes.live.extend(lists.iter().filter(|(_, differs)| *differs).map(|(name, _)| (*name).to_owned()));
    changes
}

/// Decides about a reload: either all of it can be done, and the report says what changes, or none
/// of it is, and the errors say what needs a restart.
pub fn plan_reload(old: &Config, new: &Loaded) -> Result<ReloadReport, Vec<ConfigError>> {
    let changes = diff(old, &new.config);
    if changes.restart.is_empty() {
        return Ok(ReloadReport {
            changed: changes.live,
            warnings: new.warnings.iter().map(|w| w.to_string()).collect(),
        });
    }
    let file = new.file.as_ref().map_or(NO_FILE.to_owned(), |file| file.display().to_string());
    let refuse = |name: &String| {
        let section = name.split('.').next().unwrap_or(name);
        let (line, column) = new.places.get(section).copied().unwrap_or((0, 0));
        ConfigError {
            file: file.clone(),
            line,
            column,
            message: format!("`{name}` cannot change while the server runs; nothing was changed"),
            mend: "restart the server, or undo the change".into(),
        }
    };
    Err(changes.restart.iter().map(refuse).collect())
}
