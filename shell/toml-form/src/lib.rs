//! TOML files that people write: values with declared forms, every finding at once, each with its line, its
//! column and a mend.
//!
//! A file is parsed with `toml::de::DeTable::parse_recoverable`. [`syntax::first`] says what is wrong with
//! one that is no TOML. A [`reader::Section`] reads the keys of a table by [`form`]s and reports unknown
//! keys.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod error;
pub mod form;
mod named;
pub mod reader;
pub mod syntax;
pub mod text;
