//! Names of experiments and runs that stay the same as long as they measure the same.

use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

/// What was measured: a digest of everything that changes a measurement, the seed included. How often it is
/// repeated, the question and the claims are not in it, so that an experiment can be extended and judged
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExperimentId(u64);

impl ExperimentId {
    /// The digest of a canonical text.
    pub fn of(text: &str) -> ExperimentId {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let first = digest.first_chunk::<8>().copied().unwrap_or_default();
        ExperimentId(u64::from_be_bytes(first))
    }
}

impl fmt::Display for ExperimentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for ExperimentId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<ExperimentId, NotAnId> {
        let good = text.len() == 16 && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
        let value = u64::from_str_radix(text, 16).ok().filter(|_| good);
        value.map(ExperimentId).ok_or(NotAnId)
    }
}

/// Which run of an experiment: its block, its subject and its combination of factors. The text form is the
/// name of its folder: `0123456789abcdef-b2-A.again-c3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    experiment: ExperimentId,
    block: u32,
    subject: String,
    combination: u32,
}

impl RunId {
    /// The run of `subject` in this block, from 1, at this combination, from 1.
    pub fn new(experiment: ExperimentId, block: u32, subject: impl fmt::Display, combination: u32) -> RunId {
        RunId { experiment, block, subject: subject.to_string(), combination }
    }

    /// The experiment.
    pub fn experiment(&self) -> ExperimentId {
        self.experiment
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-b{}-{}-c{}", self.experiment, self.block, self.subject, self.combination)
    }
}

impl FromStr for RunId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<RunId, NotAnId> {
        let (experiment, rest) = text.split_once("-b").ok_or(NotAnId)?;
        let (block, rest) = rest.split_once('-').ok_or(NotAnId)?;
        let (subject, combination) = rest.rsplit_once("-c").ok_or(NotAnId)?;
        let id = RunId {
            experiment: experiment.parse()?,
            block: block.parse().map_err(|_| NotAnId)?,
            subject: subject.to_owned(),
            combination: combination.parse().map_err(|_| NotAnId)?,
        };
        // Only the one spelling that is written: no plus sign, no leading zero.
        Some(id).filter(|id| id.to_string() == text).ok_or(NotAnId)
    }
}

/// A text that names no experiment or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnId;

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the name of a run, such as 0123456789abcdef-b1-A-c1")
    }
}

impl std::error::Error for NotAnId {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn experiment_id_is_the_start_of_sha256() {
        assert_eq!(ExperimentId::of("abc").to_string(), "ba7816bf8f01cfea");
    }

    proptest! {
        #[test]
        fn run_id_reads_back_as_it_was_written(
            text in ".*", block: u32, subject in "[A-Za-z0-9_-]{1,32}(\\.again)?", combination: u32
        ) {
            let id = RunId::new(ExperimentId::of(&text), block, subject, combination);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn run_id_of_any_text_does_not_panic(text in ".*") {
            if let Ok(id) = text.parse::<RunId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
