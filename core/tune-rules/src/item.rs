//! One subject of `strowger tune`.

use crate::look::Look;

/// One subject of `strowger tune`: its name, its explanation, and its rule.
#[derive(Clone, Copy)]
pub struct Item {
    name: &'static str,
    title: &'static str,
    explanation: &'static str,
    untouched: &'static str,
    rule: fn(&mut Look<'_>),
}

impl Item {
    /// An item whose `explanation` says what it is and what is wanted, and `untouched` what is left alone and
    /// why.
    pub(crate) const fn new(
        name: &'static str,
        title: &'static str,
        explanation: &'static str,
        untouched: &'static str,
        rule: fn(&mut Look<'_>),
    ) -> Item {
        Item { name, title, explanation, untouched, rule }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it is about, in a few words.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// What it is, what is wanted and why.
    pub fn explanation(&self) -> &'static str {
        self.explanation
    }

    /// What `strowger tune` leaves alone here, and why.
    pub fn untouched(&self) -> &'static str {
        self.untouched
    }

    pub(crate) fn run(&self, look: &mut Look<'_>) {
        (self.rule)(look);
    }
}
