//! What is wrong with a configuration, where, and how to mend it.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// One finding in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigError {
    /// The file, or the command-line option, that the finding is in.
    pub file: String,
    /// The line, from 1; 0 where there is no place in a file.
    pub line: u32,
    /// The column in characters, from 1; 0 where there is no place in a file.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub mend: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, &self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        f.write_str(": ")?;
        print(f, &self.message)?;
        if !self.mend.is_empty() {
            f.write_str("; ")?;
            print(f, &self.mend)?;
        }
        Ok(())
    }
}

/// Writes text of a file from another author: its control characters have no effect on a terminal, and
/// begin no line.
fn print(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|c| match c.is_control() {
        true => write!(f, "{}", c.escape_debug()),
        false => f.write_char(c),
    })
}

impl std::error::Error for ConfigError {}

/// A value that does not do, before it is known where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// What to do about it; may be empty.
    pub mend: String,
}

impl Fault {
    /// What is wrong, and what to do about it.
    pub fn new(message: impl Into<String>, mend: impl Into<String>) -> Fault {
        Fault { message: message.into(), mend: mend.into() }
    }
}

/// Names longer than this are not compared: the comparison is quadratic in the length.
const LONGEST_COMPARED: usize = 64;

/// The candidate that `written` was probably meant to be: at most two edits away, and at most one
/// for short words.
pub fn closest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = if written.chars().count() <= 4 { 1 } else { 2 };
    candidates
        .into_iter()
        .map(|candidate| (distance(written, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) between two words, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    if a.len() > LONGEST_COMPARED || b.len() > LONGEST_COMPARED {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_place_and_mend() {
        let mut error = ConfigError {
            file: "strowger.toml".into(),
            line: 3,
            column: 7,
            message: "unknown key `listn`".into(),
            mend: "did you mean `listen`?".into(),
        };
        assert_eq!(error.to_string(), "strowger.toml:3:7: unknown key `listn`; did you mean `listen`?");
        error.line = 0;
        error.mend.clear();
        assert_eq!(error.to_string(), "strowger.toml: unknown key `listn`");
    }

    #[test]
    fn distances() {
        assert_eq!(distance("listn", "listen"), 1);
        assert_eq!(distance("lisetn", "listen"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("ABC", "abc"), 0);
        assert_eq!(distance(&"x".repeat(65), "x"), usize::MAX);
    }

    #[test]
    fn control_characters_are_escaped() {
        let error = ConfigError {
            file: "a\nb".into(),
            line: 1,
            column: 1,
            message: "unknown key `\u{1b}[2Jkey\nINFO forged`".into(),
            mend: "remove \u{9b}1m".into(),
        };
        let text = "a\\nb:1:1: unknown key `\\u{1b}[2Jkey\\nINFO forged`; remove \\u{9b}1m";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn closest_prefers_the_nearest_and_knows_when_to_be_silent() {
        assert_eq!(closest("max_expire", ["min_expires", "max_expires"]), Some("max_expires"));
        assert_eq!(closest("t9", ["t1", "t2"]), Some("t1"));
        assert_eq!(closest("colour", ["listen", "workers"]), None);
    }
}
