//! What a rule sees while it looks, and where it reports.

use crate::expected::Expected;
use crate::finding::{Change, Finding, Level};
use crate::parse::numbers;
use crate::rights::Rights;
use crate::snapshot::{Reading, Snapshot};
use crate::sysctl::{SysctlLine, lines_for, path_of, shown};

/// What a rule sees while it looks, and where it reports.
pub(crate) struct Look<'a> {
    item: &'static str,
    snapshot: &'a Snapshot,
    expected: &'a Expected,
    rights: &'a Rights,
    lines: &'a [SysctlLine],
    unseen: Vec<String>,
    findings: Vec<Finding>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(
        item: &'static str,
        snapshot: &'a Snapshot,
        expected: &'a Expected,
        rights: &'a Rights,
        lines: &'a [SysctlLine],
    ) -> Look<'a> {
        Look { item, snapshot, expected, rights, lines, unseen: Vec::new(), findings: Vec::new() }
    }

    pub(crate) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    pub(crate) fn expected(&self) -> &'a Expected {
        self.expected
    }

    pub(crate) fn lines(&self) -> &'a [SysctlLine] {
        self.lines
    }

    /// A finding of this item, to be given to [`Look::report`].
    pub(crate) fn finding(&self, level: Level, title: impl Into<String>) -> Finding {
        Finding::new(self.item, level, title)
    }

    pub(crate) fn report(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// The numbers of a kernel setting. Where they cannot be seen, that is reported.
    pub(crate) fn sysctl_numbers(&mut self, name: &str) -> Option<Vec<u64>> {
        numbers(self.file(&path_of(name))?)
    }

    /// The number of a kernel setting.
    pub(crate) fn sysctl(&mut self, name: &str) -> Option<u64> {
        self.sysctl_numbers(name)?.first().copied()
    }

    /// The content of a file. Where it exists and cannot be seen, that is reported.
    pub(crate) fn file(&mut self, path: &str) -> Option<&'a str> {
        match self.snapshot.seen(path)?.reading() {
            Reading::Text(text) => Some(text),
            Reading::Absent => {
                if path.starts_with("/proc/sys/net/") && self.rights.own_network() {
                    self.unseen.push(shown(path));
                }
                None
            }
            Reading::Denied(why) => {
                self.unseen.push(format!("{} ({why})", shown(path)));
                None
            }
        }
    }

    /// The change of a value of `/proc/sys`.
    pub(crate) fn set(&self, name: &str, value: impl ToString) -> Change {
        self.set_path(&path_of(name), value)
    }

    /// The change of a value at a path.
    pub(crate) fn set_path(&self, path: &str, value: impl ToString) -> Change {
        let now = self.snapshot.word(path).unwrap_or_default().to_owned();
        Change::Value { path: path.to_owned(), now, value: value.to_string() }
    }

    /// The file and line that set a name at boot, as evidence.
    pub(crate) fn set_by(&self, name: &str) -> Option<String> {
        let line = lines_for(self.lines, name).last()?;
        Some(format!("set by {}: {} = {}", line.place(), name, line.value()))
    }

    /// Reports that a value is below what is wanted, and raises it. Never lowers.
    pub(crate) fn raise(&mut self, name: &str, wanted: u64, why: &str) -> bool {
        let Some(now) = self.sysctl(name).filter(|now| *now < wanted) else { return false };
        let finding = self
            .finding(Level::Problem, format!("{name} is {now}, the expected load needs {wanted}"))
            .evidence_if(self.set_by(name))
            .why(why)
            .change(self.set(name, wanted));
        self.report(finding);
        true
    }

    /// Ends the look: the findings, with obstacles where changes cannot be made from here.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        for finding in &mut self.findings {
            let refused = finding.changes().iter().any(|change| match change {
                Change::Value { path, .. } => self.snapshot.seen(path).is_some_and(|seen| !seen.writable()),
                Change::UnitLine { .. } => {
                    self.snapshot.seen(crate::OWN_UNIT_FILE).is_some_and(|seen| !seen.writable())
                }
            });
            if refused {
                finding.set_obstacle(self.rights.obstacle());
            }
        }
        if !self.unseen.is_empty() {
            self.unseen.dedup();
            let mut finding =
                Finding::new(self.item, Level::Unseen, format!("not seen: {}", self.unseen.join(", ")));
            if let Some(missing) = self.rights.missing() {
                finding = finding.why(format!("{missing}: run `strowger tune` as root on the host"));
            } else if self.rights.own_network() {
                finding = finding.why("only in the network namespace of the host: run `strowger tune` there");
            }
            self.findings.push(finding);
        }
        self.findings
    }
}
