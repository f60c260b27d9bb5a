//! Conditions that only a bug of strowger breaks: the log names each place once, status and metrics count.

use control::metrics::{Kind, Text};
use invariant::Broken;

/// The conditions already logged.
#[derive(Default)]
pub struct Bugs {
    total: u64,
    named: Vec<(&'static str, u32)>,
}

impl Bugs {
    /// Logs the places that are new since the last look.
    pub fn look(&mut self) {
        for Broken { file, line, message, times } in self.fresh(invariant::total(), invariant::broken()) {
            log_events::workers::bug_found(file, line, message, &counted(times));
        }
    }

    /// The places that were not named before.
    fn fresh(&mut self, total: u64, broken: impl Iterator<Item = Broken>) -> Vec<Broken> {
        if total == self.total {
            return Vec::new();
        }
        self.total = total;
        let fresh: Vec<Broken> = broken.filter(|b| !self.named.contains(&(b.file, b.line))).collect();
        self.named.extend(fresh.iter().map(|b| (b.file, b.line)));
        fresh
    }
}

fn counted(times: u64) -> String {
    format!("{times} time{}", if times == 1 { "" } else { "s" })
}

/// The alarm, if a condition was broken.
pub fn alarm() -> Option<String> {
    alarm_of(invariant::total())
}

fn alarm_of(total: u64) -> Option<String> {
    let counted = counted(total);
    (total > 0)
        .then(|| format!("a bug of strowger was noticed {counted}: please report what the log says of it"))
}

/// Appends the number of broken conditions.
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
        assert_eq!(first, [at(1, 3)]);
        assert!(bugs.fresh(3, [at(1, 3)].into_iter()).is_empty());
        let second = bugs.fresh(5, [at(1, 4), at(2, 1)].into_iter());
        assert_eq!(second, [at(2, 1)]);
        assert_eq!([counted(1), counted(3)], ["1 time", "3 times"]);
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
