//! What trunks and routes may claim only once.
//!
//! These decide who is trusted, so what looks like a mistake is refused rather than guessed.

use super::error::Fault;
use super::reader::{Reader, Span};
use std::collections::BTreeMap;

/// Trunks and routes a file may have; more belongs in a database.
const MOST: usize = 10_000;

/// What is already taken, and where it was written, to refuse a second claim.
pub(super) type Claims = BTreeMap<String, Span>;

/// Reports that `what` was claimed before; otherwise claims it.
pub(super) fn claim(reader: &mut Reader<'_>, claims: &mut Claims, what: String, at: &Span, mend: &str) {
    if let Some(first) = claims.get(&what) {
        let (line, column) = reader.place(first.start);
        reader.error(at, Fault::new(format!("{what} is already taken at {line}:{column}"), mend));
    } else {
        claims.insert(what, at.clone());
    }
}

/// Reports a list that is too long and cuts it.
pub(super) fn cap<T>(reader: &mut Reader<'_>, list: &mut Vec<T>, at: &Span, what: &str) {
    if list.len() > MOST {
        reader.error(at, Fault::new(format!("more than {MOST} {what}"), ""));
        list.truncate(MOST);
    }
}
