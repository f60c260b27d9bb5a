//! How values of `strowger.toml` are written: the common forms, and those of this file alone.

use super::error::Fault;
use super::values::OTHER_DATABASES;
use std::path::PathBuf;
use toml::de::DeValue;
pub(super) use toml_form::form::*;

/// A path, which must say something.
pub fn path() -> One<PathBuf> {
    let parse = |value: &DeValue<'_>| {
        let written = string(value)?;
        if written.contains("://") {
            return Err(Fault::new(OTHER_DATABASES, "write a folder's name"));
        }
        match written.is_empty() || written.contains('\0') {
            true => Err(Fault::new("not a path", "")),
            false => Ok(PathBuf::from(written)),
        }
    };
    One::new("path", parse, |path| quoted(path.display()))
}
