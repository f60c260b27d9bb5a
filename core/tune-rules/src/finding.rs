//! What a rule finds, and what mends it.

/// How much a finding matters, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It limits the expected load, or harms. `apply` mends it without being asked by name.
    Problem,
    /// It may help, at a price. `apply` does it by name only.
    Advice,
    /// Worth knowing. Nothing is changed.
    Note,
    /// It could not be seen.
    Unseen,
}

impl Level {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Problem => "problem",
            Level::Advice => "advice",
            Level::Note => "note",
            Level::Unseen => "unseen",
        }
    }
}

/// One value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file of `/proc` or `/sys`, or a setting of a card (`/ethtool/CARD/SETTING`).
    Value {
        /// Where it is.
        path: String,
        /// What is there, without white space around it.
        now: String,
        /// What is to be there.
        value: String,
    },
    /// A line of `[Service]` in the unit of the server.
    UnitLine {
        /// The key, such as `LimitNOFILE`.
        key: &'static str,
        /// Its value.
        value: String,
    },
}

impl Change {
    /// The name that operators know: `net.core.rmem_max`, `eth0 rx-ring`, `LimitNOFILE`, or the path.
    pub fn name(&self) -> String {
        match self {
            Change::Value { path, .. } => crate::shown(path),
            Change::UnitLine { key, .. } => (*key).to_owned(),
        }
    }

    /// What is to be there.
    pub fn value(&self) -> &str {
        match self {
            Change::Value { value, .. } | Change::UnitLine { value, .. } => value,
        }
    }
}

/// What a rule finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    item: &'static str,
    level: Level,
    title: String,
    evidence: Vec<String>,
    why: String,
    changes: Vec<Change>,
    obstacle: Option<String>,
    by_hand: Vec<String>,
    measured: Option<&'static str>,
}

impl Finding {
    /// A finding of an item: one sentence that says what is wrong.
    pub fn new(item: &'static str, level: Level, title: impl Into<String>) -> Finding {
        Finding {
            item,
            level,
            title: title.into(),
            evidence: Vec::new(),
            why: String::new(),
            changes: Vec::new(),
            obstacle: None,
            by_hand: Vec::new(),
            measured: None,
        }
    }

    /// Adds what live counters or files show.
    #[must_use]
    pub fn evidence(mut self, line: impl Into<String>) -> Finding {
        self.evidence.push(line.into());
        self
    }

    /// Adds what live counters show, if they show anything.
    #[must_use]
    pub fn evidence_if(mut self, line: Option<String>) -> Finding {
        self.evidence.extend(line);
        self
    }

    /// Says why it matters.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Finding {
        self.why = why.into();
        self
    }

    /// Adds what mends it.
    #[must_use]
    pub fn change(mut self, change: Change) -> Finding {
        self.changes.push(change);
        self
    }

    /// Adds what the operator must do, because nothing here does it.
    #[must_use]
    pub fn by_hand(mut self, step: impl Into<String>) -> Finding {
        self.by_hand.push(step.into());
        self
    }

    /// Says where the benefit of the changes was measured.
    #[must_use]
    pub fn measured(mut self, page: &'static str) -> Finding {
        self.measured = Some(page);
        self
    }

    /// Says why the changes cannot be made from here.
    pub(crate) fn set_obstacle(&mut self, obstacle: String) {
        self.obstacle = Some(obstacle);
    }

    /// The item that found it.
    pub fn item(&self) -> &'static str {
        self.item
    }

    /// How much it matters.
    pub fn level(&self) -> Level {
        self.level
    }

    /// What is wrong, in one sentence without a full stop.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What live counters or files show.
    pub fn evidence_lines(&self) -> &[String] {
        &self.evidence
    }

    /// Why it matters.
    pub fn reason(&self) -> &str {
        &self.why
    }

    /// What mends it.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Why the changes cannot be made from here, if so.
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// What the operator must do, because nothing here does it.
    pub fn steps_by_hand(&self) -> &[String] {
        &self.by_hand
    }

    /// Where the benefit was measured, or that it was not.
    pub fn benefit(&self) -> String {
        self.measured.map_or_else(|| "by custom".to_owned(), |page| format!("measured: {page}"))
    }
}
