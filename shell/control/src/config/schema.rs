//! What a configuration key is, and what follows from its declaration.
//!
//! [`section!`] declares the keys of a section: name, type, default, form in the file, whether a reload takes
//! it, and what the reference page says of it. From that follow the struct that the program reads, its
//! default, the parser with its errors, the list of known keys, the effective configuration, what a reload
//! may change, and `docs/reference/configuration.md`.

use super::error::Fault;
use super::form::Values;
use super::load::Context;
use super::reader::{Reader, Section};
use super::sections::sections;
use super::values::OTHER_DATABASES;
use toml_form::reader::Elsewhere;

/// What is said of keys that a section does not have.
pub(super) const ELSEWHERE: Elsewhere = Elsewhere { missing, places: places_of };

/// When a changed value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reload {
    /// With a reload.
    Live,
    /// With the next start.
    Restart,
}

/// One key of a section that is read into an `S`.
pub(super) struct Key<S: 'static> {
    /// Its name in the file, and of the field.
    pub name: &'static str,
    /// What it means: the lines of its comment.
    pub help: &'static [&'static str],
    pub reload: Reload,
    /// Reads what is written over the default; what does not fit is reported.
    pub take: fn(&mut Section<'_, '_>, &mut Reader<'_>, &mut S),
    /// The value as TOML; `None` where there is nothing to write.
    pub show: fn(&S) -> Option<String>,
    pub same: fn(&S, &S) -> bool,
    /// What may be written.
    pub values: fn(&S) -> Values,
}

/// A section with declared keys; [`section!`] implements this.
pub(super) trait Keys: Default + 'static {
    /// Its name; empty for the top of the file.
    const NAME: &'static str;
    const KEYS: &'static [Key<Self>];
}

/// What a declaration of single keys cannot say of a section.
pub(super) trait Checks: Keys {
    /// Applies the command line, and reports values that do not go together.
    fn check(&mut self, _section: &mut Section<'_, '_>, _reader: &mut Reader<'_>, _context: &Context<'_>) {}

    /// Whether the key stands in the effective configuration.
    fn shows(&self, _key: &str) -> bool {
        true
    }

    /// Whether the default of the key is a value. Otherwise it follows from other keys.
    fn has_default(_key: &str) -> bool {
        true
    }
}

/// Declares a section: `pub struct Name = "name" { /// Help. key: Type = default, form, live; }`.
///
/// A form says how a value is written, see [`form`](super::form). `live` or `restart` says when a change
/// counts.
macro_rules! section {
    (
        $(#[doc = $doc:literal])*
        pub struct $Name:ident = $section:literal {
            $($(#[doc = $help:literal])+ $key:ident: $Type:ty = $default:expr, $form:expr, $reload:ident;)+
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $Name {
            $($(#[doc = $help])+ pub $key: $Type,)+
        }

        impl Default for $Name {
            fn default() -> $Name {
                $Name { $($key: $default),+ }
            }
        }

        impl $crate::config::schema::Keys for $Name {
            const NAME: &'static str = $section;
            const KEYS: &'static [$crate::config::schema::Key<$Name>] = &[$(
                $crate::config::schema::Key {
                    name: stringify!($key),
                    help: &[$($help),+],
                    reload: section!(@$reload),
                    take: |section, reader, to| ($form).take(section, reader, stringify!($key), &mut to.$key),
                    show: |from| ($form).show(&from.$key),
                    same: |one, other| one.$key == other.$key,
                    values: |like| ($form).values(&like.$key),
                }
            ),+];
        }
    };
    (@live) => { $crate::config::schema::Reload::Live };
    (@restart) => { $crate::config::schema::Reload::Restart };
}
pub(super) use section;

/// Reads a section; a missing one reads like an empty one.
pub(super) fn read<S: Checks>(
    section: &mut Section<'_, '_>,
    reader: &mut Reader<'_>,
    context: &Context<'_>,
) -> S {
    let (mut read, faults) = (S::default(), reader.errors.len());
    for key in S::KEYS {
        (key.take)(section, reader, &mut read);
    }
    section.note_faults(reader.errors.len() - faults);
    read.check(section, reader, context);
    read
}

/// Appends a section as TOML, without its header.
pub(super) fn render<S: Checks>(section: &S, out: &mut String) {
    for key in S::KEYS.iter().filter(|key| section.shows(key.name)) {
        if let Some(value) = (key.show)(section) {
            out.extend([key.name, " = ", &value, "\n"]);
        }
    }
}

/// A declared key, whatever its section is read into.
pub(super) struct Declared {
    pub name: &'static str,
    pub help: String,
    pub reload: Reload,
    /// The default as TOML; `None` where there is none.
    pub default: Option<String>,
    pub values: Values,
}

/// A section and its keys.
pub(super) struct Described {
    /// Its name; empty for the top of the file.
    pub name: &'static str,
    /// Whether it may stand more than once: `[[name]]`.
    pub repeated: bool,
    pub keys: Vec<Declared>,
}

impl Described {
    /// A section, which may be `repeated`.
    pub fn of<S: Checks>(repeated: bool) -> Described {
        let usual = S::default();
        let declared = |key: &Key<S>| Declared {
            name: key.name,
            help: key.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
            reload: key.reload,
            default: (key.show)(&usual).filter(|_| S::has_default(key.name)),
            values: (key.values)(&usual),
        };
        Described { name: S::NAME, repeated, keys: S::KEYS.iter().map(declared).collect() }
    }

    /// How the section begins in a file; empty for the top.
    pub fn header(&self) -> String {
        match (self.name, self.repeated) {
            ("", _) => String::new(),
            (name, true) => format!("[[{name}]]"),
            (name, false) => format!("[{name}]"),
        }
    }
}

/// Where else than in `here` a key of this name may stand, in words; `None` where no other place knows it.
fn places_of(key: &str, here: &str) -> Option<String> {
    let sections = sections();
    let others =
        sections.iter().filter(|section| section.name != here && section.keys.iter().any(|k| k.name == key));
    let mut places: Vec<String> = others
        .map(|section| match section.name {
            "" => "at the top of the file".to_owned(),
            _ => format!("in {}", section.header()),
        })
        .collect();
    let last = places.pop()?;
    Some(if places.is_empty() { last } else { format!("{} or {last}", places.join(", ")) })
}

/// What a key of this name asks for, if other servers have it and this one does not yet.
fn missing(name: &str, section: &str) -> Option<Fault> {
    let (what, mend) = match name {
        "password" | "secret" if section == "trunk" => {
            let what = "passwords do not stand in this file";
            (what.to_owned(), "write it into a file, and name that with password_file = \"FILE\"")
        }
        "username" | "auth_user" if section == "trunk" => {
            (format!("there is no key {name}"), "the user name of an account is `user`")
        }
        "registration" | "registrar" if section == "trunk" => (
            format!("there is no key {name}"),
            "write register = true, or register = { registrar = \"URI\" }",
        ),
        "backend" | "database" | "db" | "db_url" | "postgres" | "postgresql" | "mysql" | "redis" => {
            (OTHER_DATABASES.to_owned(), "users and bindings are in SQLite below `data_dir`")
        }
        "ws" | "wss" => {
            (format!("there is no section {name}"), "listen on \"wss:ADDRESS:PORT\"; see [websocket]")
        }
        "cluster" | "presence" => (format!("{name} is not in this version"), ""),
        _ => return None,
    };
    Some(Fault::new(what, mend))
}
