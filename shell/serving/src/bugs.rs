//! Conditions that only a bug of strowger breaks: the log names each place once, status and metrics count.

use control::metrics::{Kind, Text};
use invariant::Broken;

/// What of them was logged.
#[derive(Default)]
pub struct Bugs {
    total: u64,
    named: Vec<(&'static str, u32)>,
}

impl Bugs {
    /// Logs the places that are new since the last look.
    pub fn look(&mut self) {
        for line in self.fresh(invariant::total(), invariant::broken()) {
            tracing::error!("{line}");
        }
    }

    /// A line for each place that was not named before.
    fn fresh(&mut self, total: u64, broken: impl Iterator<Item = Broken>) -> Vec<String> {
        if total == self.total {
            return Vec::new();
        }
        self.total = total;
        let fresh: Vec<Broken> = broken.filter(|b| !self.named.contains(&(b.file, b.line))).collect();
        self.named.extend(fresh.iter().map(|b| (b.file, b.line)));
        fresh.iter().map(line).collect()
    }
}

fn line(broken: &Broken) -> String {
    let Broken { file, line, message, times } = broken;
    let plural = if *times == 1 { "" } else { "s" };
    format!("a bug of strowger: {file}:{line} {message}, {times} time{plural}; please report")
}

/// The alarm once there was one.
pub fn alarm() -> Option<String> {
    alarm_of(invariant::total())
}

fn alarm_of(total: u64) -> Option<String> {
    let plural = if total == 1 { "" } else { "s" };
    (total > 0).then(|| {
        format!("a bug of strowger was noticed {total} time{plural}: please report what the log says of it")
    })
}

/// Appends how often there was one.
pub fn metrics(text: &mut Text<'_>) {
    const NAME: &str = "strowger_bugs_total";
    const HELP: &str = "Conditions found broken that only a bug of strowger can break. The log says where.";
    text.family(NAME, HELP, Kind::Counter);
    text.sample(NAME, &[], invariant::total());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_named_once() {
        let at = |line, times| Broken { file: "core/x.rs", line, message: "x is y", times };
        let mut bugs = Bugs::default();
        assert!(bugs.fresh(0, [].into_iter()).is_empty());
        let first = bugs.fresh(3, [at(1, 3)].into_iter());
        assert_eq!(first, ["a bug of strowger: core/x.rs:1 x is y, 3 times; please report"]);
        assert!(bugs.fresh(3, [at(1, 3)].into_iter()).is_empty());
        let second = bugs.fresh(5, [at(1, 4), at(2, 1)].into_iter());
        assert_eq!(second, ["a bug of strowger: core/x.rs:2 x is y, 1 time; please report"]);
    }

    #[test]
    fn alarm_is_raised_by_the_first() {
        assert_eq!(alarm_of(0), None);
        let text = "a bug of strowger was noticed 2 times: please report what the log says of it";
        assert_eq!(alarm_of(2).as_deref(), Some(text));
    }

    #[test]
    fn metrics_have_the_count() {
        let mut out = String::new();
        metrics(&mut Text::new(&mut out));
        assert!(out.ends_with("strowger_bugs_total 0\n"), "{out}");
    }
}
