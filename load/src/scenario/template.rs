//! Messages cut into literal pieces and keywords.

use super::facts::{Facts, Run};
use super::variables::Vars;

/// A text with keywords, cut once.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Its line in the file.
    pub line: u32,
}

/// Why a text could not be made. The call has failed; what was written so far is worthless.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `[authentication]` before any message with a challenge came.
    NoChallenge,
    /// The challenge wants an algorithm or protection that is not known.
    UnknownChallenge,
    /// `line=` of a `[fieldN]` names no line of the file, or the line has too few fields.
    NoField,
}

impl Template {
    /// Appends the text to `out`. Allocates nothing once `out` has the room.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn render(&self, facts: &mut Facts<'_>, vars: &Vars<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
        let _ = (facts, vars, out);
        Ok(())
    }

    pub(super) fn bind(&mut self, run: &Run) {
        let _ = run;
    }
}
