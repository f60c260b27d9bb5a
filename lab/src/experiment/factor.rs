//! `[factor]`: what is varied, and the combinations of its values.

use std::fmt;

/// One factor at one of its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level {
    /// The factor.
    pub factor: String,
    /// Its value, as text.
    pub value: String,
}

/// A value for each factor, in the order of the factors' names. Empty without factors.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination(Vec<Level>);

impl Combination {
    /// These levels.
    pub fn new(mut levels: Vec<Level>) -> Combination {
        levels.sort();
        Combination(levels)
    }

    /// Each factor with its value.
    pub fn levels(&self) -> &[Level] {
        &self.0
    }

    /// The value of a factor.
    pub fn value(&self, factor: &str) -> Option<&str> {
        self.0.iter().find(|level| level.factor == factor).map(|level| level.value.as_str())
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, level) in self.0.iter().enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            write!(f, "{comma}{} = {}", level.factor, level.value)?;
        }
        Ok(())
    }
}
