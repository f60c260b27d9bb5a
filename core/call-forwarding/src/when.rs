//! When a call is forwarded.

/// When a call is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// In any case.
    Always,
    /// The user is busy, declines, or does not want to be disturbed.
    Busy,
    /// Nobody answers in time.
    NoAnswer,
    /// No phone is registered or can be reached.
    Unreachable,
}

impl When {
    /// All of them.
    pub const ALL: [When; 4] = [When::Always, When::Busy, When::NoAnswer, When::Unreachable];

    /// As it is written in commands, columns and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            When::Always => "always",
            When::Busy => "busy",
            When::NoAnswer => "no_answer",
            When::Unreachable => "unreachable",
        }
    }

    /// The one with this name; a hyphen counts as an underscore.
    pub fn from_name(name: &str) -> Option<When> {
        When::ALL.into_iter().find(|when| name.replace('-', "_") == when.name())
    }
}
