//! What a key of an experiment file is, and what follows from its declaration.
//!
//! [`keys!`] declares the keys of a section: name, type, default, form in the file, and what the reference
//! page says. From that follow the struct that the runner reads, its default, the parser with its errors,
//! the list of known keys, the canonical text and `docs/reference/lab.md`.

use super::layers::{Origins, Place};
use toml_form::error::Fault;
use toml_form::form::Values;
use toml_form::reader::{Elsewhere, Reader, Section};

/// One key of a section that is read into an `S`.
pub(super) struct Key<S: 'static> {
    /// Its name in the file, and of the field.
    pub name: &'static str,
    /// What it means: the lines of its comment.
    pub help: &'static [&'static str],
    /// Reads what is written over the value of lower layers; what does not fit is reported.
    pub take: fn(&mut Section<'_, '_>, &mut Reader<'_>, &mut S),
    /// The value as TOML; `None` where there is nothing to write.
    pub show: fn(&S) -> Option<String>,
    /// What may be written.
    pub values: fn(&S) -> Values,
}

/// A section with declared keys; [`keys!`] implements this.
pub(super) trait Keys: Default + 'static {
    /// How it begins in a file; empty for the top.
    const HEADER: &'static str;
    /// Its keys, in the order of the reference page.
    const KEYS: &'static [Key<Self>];
}

/// Declares a section: `pub struct Name = "[name]" { /// Help. key: Type = default, form; }`.
macro_rules! keys {
    (
        $(#[doc = $doc:literal])*
        pub struct $Name:ident = $header:literal {
            $($(#[doc = $help:literal])+ $key:ident: $Type:ty = $default:expr, $form:expr;)+
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Name {
            $($(#[doc = $help])+ pub $key: $Type,)+
        }

        impl Default for $Name {
            fn default() -> $Name {
                $Name { $($key: $default),+ }
            }
        }

        impl $crate::experiment::keys::Keys for $Name {
            const HEADER: &'static str = $header;
            const KEYS: &'static [$crate::experiment::keys::Key<$Name>] = &[$(
                $crate::experiment::keys::Key {
                    name: stringify!($key),
                    help: &[$($help),+],
                    take: |section, reader, to| ($form).take(section, reader, stringify!($key), &mut to.$key),
                    show: |from| ($form).show(&from.$key),
                    values: |like| ($form).values(&like.$key),
                }
            ),+];
        }
    };
}
pub(super) use keys;

/// Reads the keys of a section over the values of lower layers, and notes where each was written. `path`
/// names the section, such as `system.A`; it is empty for the top.
pub(super) fn read_over<S: Keys>(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    origins: &mut Origins,
    (path, place): (&str, Place<'_>),
    to: &mut S,
) {
    if section.is_written() && !path.is_empty() {
        origins.note(path.to_owned(), place.of(reader, section.span().start));
    }
    for key in S::KEYS {
        if section.has(key.name) {
            let origin = place.of(reader, section.span_of(key.name).start);
            origins.note(joined(path, key.name), origin);
        }
        (key.take)(section, reader, to);
    }
}

/// `path.key`.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Each key with its value as TOML.
pub(super) fn shown<S: Keys>(section: &S) -> impl Iterator<Item = (&'static str, String)> {
    S::KEYS.iter().filter_map(move |key| (key.show)(section).map(|value| (key.name, value)))
}

/// A declared key, whatever its section is read into.
pub(super) struct Declared {
    pub name: &'static str,
    pub help: String,
    /// The default as TOML; `None` where there is none.
    pub default: Option<String>,
    pub values: Values,
}

impl Declared {
    /// Whether it must be written.
    pub fn is_required(&self) -> bool {
        self.help.ends_with("Required.")
    }
}

/// A section and its keys.
pub(super) struct Described {
    pub header: &'static str,
    pub keys: Vec<Declared>,
}

impl Described {
    /// A section.
    pub fn of<S: Keys>() -> Described {
        let usual = S::default();
        let declared = |key: &Key<S>| Declared {
            name: key.name,
            help: key.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
            default: (key.show)(&usual),
            values: (key.values)(&usual),
        };
        Described { header: S::HEADER, keys: S::KEYS.iter().map(declared).collect() }
    }
}

/// What is said of keys that a section does not have.
pub(super) const ELSEWHERE: Elsewhere = Elsewhere { missing, places };

/// What a key asks for, if it is known by another name here.
fn missing(name: &str, section: &str) -> Option<Fault> {
    let (what, mend) = match (section, name) {
        ("", "name" | "title") => ("an experiment has no name", "write `question = \"...\"`"),
        ("", "factors" | "matrix" | "sweep") => {
            ("factors are a section", "write [factor] and below it `name = [values]`")
        }
        ("", "runs" | "reps" | "iterations" | "blocks") => {
            ("the number of blocks has another name", "write `repetitions = N`")
        }
        ("", "duration") | ("workload", "duration" | "seconds" | "measure") => {
            ("the length of the measurement has another name", "write `measure = \"10s\"` at the top")
        }
        ("system", "config_text" | "configuration") => {
            ("the configuration has another name", "write `config` or `config_file`")
        }
        _ => return None,
    };
    Some(Fault::new(what, mend))
}

/// Where else a key of this name may stand, in words.
fn places(key: &str, here: &str) -> Option<String> {
    let named = |section: &Described| match section.header {
        "" => "at the top of the file".to_owned(),
        header => format!("in {header}"),
    };
    let all = super::reference::sections();
    let others = all.iter().filter(|s| {
        let name = s.header.trim_matches(['[', ']']).trim_end_matches(".NAME");
        name != here && s.keys.iter().any(|k| k.name == key)
    });
    let places: Vec<String> = others.map(named).collect();
    Some(places.join(" or ")).filter(|places| !places.is_empty())
}
