//! From XML to a scenario.

use super::inject::Injections;
use super::problem::Problem;
use super::steps::Scenario;
use std::io;

/// What a scenario file may refer to.
pub struct Surroundings<'a> {
    /// Names and values of `-key`: further keywords.
    pub keys: &'a [(String, String)],
    /// The injection files: `[field0]` and so on are checked against them.
    pub injections: &'a Injections,
    /// Reads the files of `[file name=...]`.
    pub read_file: &'a dyn Fn(&str) -> io::Result<Vec<u8>>,
}

/// Reads a scenario file. `bytes` may be UTF-8 or, if it says so, ISO-8859-1. No external entity is read.
///
/// # Errors
/// Everything wrong in it, in the order of the file.
pub fn parse(file_name: &str, bytes: &[u8], around: &Surroundings<'_>) -> Result<Scenario, Vec<Problem>> {
    let _ = (file_name, bytes, around.keys, around.injections);
    Err(Vec::new())
}
