//! How an event is declared.

use std::fmt::Display;
use tracing::Value;
use tracing::field::{DisplayValue, display};

/// An event as its declaration describes it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its name, which stays the same from version to version.
    pub name: &'static str,
    /// `ERROR`, `WARN` or `INFO`.
    pub level: &'static str,
    /// The sentence; text in braces differs from line to line.
    pub sentence: &'static str,
    /// The fields that follow the sentence.
    pub fields: &'static [&'static str],
    /// What an operator does about it.
    pub advice: &'static str,
}

/// What a field of an event may be: a number, a text in quotes (`&str`), or something shown without quotes
/// (`&dyn Display`).
pub trait Field {
    /// The value as the log has it.
    fn value(&self) -> impl Value;
}

macro_rules! fields {
    ($($type:ty),+) => {
        $(impl Field for $type {
            fn value(&self) -> impl Value {
                *self
            }
        })+
    };
}

fields!(u16, u32, u64, usize, i32, i64, &str);

impl Field for &dyn Display {
    fn value(&self) -> impl Value {
        let shown: DisplayValue<&dyn Display> = display(*self);
        shown
    }
}

/// Declares events: level, name, fields, what only the sentence shows, the sentence, and what to do.
macro_rules! events {
    ($(
        $level:ident $name:ident($($field:ident: $type:ty),* $(; $($part:ident: $shown:ty),+)?)
            $sentence:literal
            $advice:literal;
    )+) => {
        $(
            #[doc = concat!("Logs: ", $sentence, ". ", $advice)]
            pub fn $name($($field: $type,)* $($($part: $shown,)+)?) {
                tracing::$level!(
                    target: stringify!($name),
                    $($field = $crate::Field::value(&$field),)*
                    $sentence
                );
            }
        )+

        pub(crate) const EVENTS: &[$crate::Event] = &[$($crate::Event {
            name: stringify!($name),
            level: $crate::declare::level!($level),
            sentence: $sentence,
            fields: &[$(stringify!($field)),*],
            advice: $advice,
        }),+];
    };
}

macro_rules! level {
    (error) => {
        "ERROR"
    };
    (warn) => {
        "WARN"
    };
    (info) => {
        "INFO"
    };
}

pub(crate) use level;
