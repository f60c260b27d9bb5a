//! Whether a run counts at all.
//!
//! Paper 003 (Hrischuk and DeVal 2006, section 2.4) begins an analysis with screening: protocol errors,
//! retransmissions and exceptions in the logs make a measurement invalid. To these come failures of what
//! measures: a late generator, packets that the witness missed, a series that never became steady.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::steady::Steadiness;

/// Events of a kind, and of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Share {
    /// Events.
    pub count: u64,
    /// Out of these.
    pub of: u64,
}

impl Share {
    fn exceeds(self, most: f64) -> bool {
        // A limit that is no number is exceeded.
        most.is_nan() || self.count as f64 > most * self.of as f64
    }
}

/// What was seen of a run besides its figures; `None` where it was not observed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Observed {
    /// Calls that failed.
    pub errors: Option<Share>,
    /// Messages that were sent again.
    pub retransmissions: Option<Share>,
    /// Panics, errors and exceptions in the log of the system.
    pub exceptions: Option<u64>,
    /// 99.9th percentile of how late the generator was, milliseconds.
    pub lateness_ms: Option<f64>,
    /// What the generator says if its own verdict is VOID.
    pub generator_void: Option<String>,
    /// Packets that the generator speaks of and the witness did not see, of those that it speaks of.
    pub lost: Option<Share>,
    /// Packets that the witness saw and the generator does not speak of.
    pub unknown: Option<Share>,
    /// Times that the system was started again.
    pub restarts: Option<u64>,
    /// Whether the measured part is steady.
    pub steady: Option<Steadiness>,
}

/// What is tolerated in a valid run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Tolerance {
    /// Share of calls that may fail.
    pub errors: f64,
    /// Share of messages that may be sent again.
    pub retransmissions: f64,
    /// Share of packets that may be lost, or be unknown to the generator.
    pub lost: f64,
    /// 99.9th percentile of the generator's lateness, milliseconds.
    pub lateness_ms: f64,
    /// Restarts of the system, such as those that a planned fault makes.
    pub restarts: u64,
    /// A run that drifts is valid: for experiments about drift.
    pub drift: bool,
}

impl Default for Tolerance {
    /// One call in ten thousand may fail, as in the load generator's verdicts, and as many messages may be
    /// sent again. The witness may miss one packet in a thousand: those of the moments in which generators
    /// begin and end.
    fn default() -> Tolerance {
        Tolerance {
            errors: 1e-4,
            retransmissions: 1e-4,
            lost: 1e-3,
            lateness_ms: 10.0,
            restarts: 0,
            drift: false,
        }
    }
}

/// Why a run is void.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fact")]
pub enum Fact {
    /// Calls failed.
    Errors(Share),
    /// Messages were sent again.
    Retransmissions(Share),
    /// The log has exceptions.
    Exceptions {
        /// How many.
        count: u64,
    },
    /// The generator was late.
    GeneratorLate {
        /// 99.9th percentile, milliseconds.
        ms: f64,
    },
    /// The generator says VOID.
    GeneratorVoid {
        /// Why.
        reason: String,
    },
    /// Packets were lost.
    Lost(Share),
    /// The generator does not know of packets.
    Unknown(Share),
    /// The system was started again.
    Restarted {
        /// How often.
        times: u64,
    },
    /// The measured part is not steady.
    NotSteady {
        /// What was found.
        found: Steadiness,
    },
}

impl Fact {
    /// The system under test causes it, as far as can be told. Such runs are void for both sides of a
    /// comparison, and their number is a result of its own.
    pub fn is_of_system(&self) -> bool {
        matches!(self, Fact::Errors(_) | Fact::Exceptions { .. } | Fact::Restarted { .. })
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::Errors(Share { count, of }) => write!(f, "{count} of {of} calls failed"),
            Fact::Retransmissions(Share { count, of }) => {
                write!(f, "{count} of {of} messages were sent again")
            }
            Fact::Exceptions { count } => write!(f, "the log of the system has {count} exceptions"),
            Fact::GeneratorLate { ms } => {
                write!(f, "the generator was late: {ms} ms at the 99.9th percentile")
            }
            Fact::GeneratorVoid { reason } => write!(f, "the generator's verdict is VOID: {reason}"),
            Fact::Lost(Share { count, of }) => {
                write!(
                    f,
                    "packets were lost between generator and system: the witness missed {count} of {of}"
                )
            }
            Fact::Unknown(Share { count, of }) => write!(
                f,
                "the generator counts wrong, or lost packets: the witness saw {count} more than its {of}"
            ),
            Fact::Restarted { times } => write!(f, "the system was started again {times} times"),
            Fact::NotSteady { found } => write!(f, "the measurement is not steady: {found}"),
        }
    }
}

/// The result of screening a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Screened {
    /// Why it is void; empty if it is valid.
    pub void: Vec<Fact>,
    /// What was not observed. A run is not void for it, and a report says it.
    pub unobserved: Vec<String>,
}

impl Screened {
    /// Does the run count?
    pub fn is_valid(&self) -> bool {
        self.void.is_empty()
    }
}

/// Screens one run.
pub fn screen(seen: &Observed, tolerance: &Tolerance) -> Screened {
    let mut out = Screened::default();
    let mut found = |what: &str, observed: bool, fact: Option<Fact>| {
        if !observed {
            out.unobserved.push(what.to_owned());
        }
        out.void.extend(fact);
    };
    let beyond = |share: Option<Share>, most: f64| share.filter(|s| s.exceeds(most));
    let errors = beyond(seen.errors, tolerance.errors).map(Fact::Errors);
    found("failed calls", seen.errors.is_some(), errors);
    let again = beyond(seen.retransmissions, tolerance.retransmissions).map(Fact::Retransmissions);
    found("retransmissions", seen.retransmissions.is_some(), again);
    let exceptions = seen.exceptions.filter(|count| *count > 0).map(|count| Fact::Exceptions { count });
    found("log of the system", seen.exceptions.is_some(), exceptions);
    let on_time = |ms: &f64| *ms <= tolerance.lateness_ms;
    let late = seen.lateness_ms.filter(|ms| !on_time(ms)).map(|ms| Fact::GeneratorLate { ms });
    found("lateness of the generator", seen.lateness_ms.is_some(), late);
    found("", true, seen.generator_void.clone().map(|reason| Fact::GeneratorVoid { reason }));
    found("packets, by a witness", seen.lost.is_some(), beyond(seen.lost, tolerance.lost).map(Fact::Lost));
    found("", true, beyond(seen.unknown, tolerance.lost).map(Fact::Unknown));
    let restarts =
        seen.restarts.filter(|times| *times > tolerance.restarts).map(|times| Fact::Restarted { times });
    found("restarts", seen.restarts.is_some(), restarts);
    let drifts = |s: &Steadiness| !tolerance.drift && !matches!(s, Steadiness::Since { .. });
    let unsteady = seen.steady.filter(drifts).map(|found| Fact::NotSteady { found });
    found("steadiness", seen.steady.is_some(), unsteady);
    out
}

/// How many runs of a system are void by its own fault.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failures {
    /// The system.
    pub system: String,
    /// Void runs whose fact [`Fact::is_of_system`].
    pub void: usize,
    /// All its runs.
    pub runs: usize,
}

/// A warning, if systems fail unequally often: what remains of the worse one are then its better runs.
pub fn unequal(systems: &[Failures]) -> Option<String> {
    let share = |s: &&Failures| s.void as f64 / s.runs.max(1) as f64;
    let worst = systems.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let best = systems.iter().min_by(|a, b| share(a).total_cmp(&share(b)))?;
    (share(&worst) > 0.1 && share(&worst) > 2.0 * share(&best)).then(|| {
        format!(
            "{} of {} runs of {worst_name} are void because it failed calls or ended, and {} of {} of {}: the runs of \
             {worst_name} that count are its better ones",
            worst.void,
            worst.runs,
            best.void,
            best.runs,
            best.system,
            worst_name = worst.system,
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean() -> Observed {
        let none = Some(Share { count: 0, of: 1_000_000 });
        Observed {
            errors: none,
            retransmissions: none,
            exceptions: Some(0),
            lateness_ms: Some(1.0),
            generator_void: None,
            lost: none,
            unknown: none,
            restarts: Some(0),
            steady: Some(Steadiness::Since { index: 0 }),
        }
    }

    #[test]
    fn clean_run_is_valid_and_all_is_observed() {
        assert_eq!(screen(&clean(), &Tolerance::default()), Screened::default());
    }

    #[test]
    fn each_fact_makes_a_run_void_with_its_sentence() {
        let share = Some(Share { count: 101, of: 1_000_000 });
        let cases = [
            (Observed { errors: share, ..clean() }, "101 of 1000000 calls failed"),
            (Observed { retransmissions: share, ..clean() }, "101 of 1000000 messages were sent again"),
            (Observed { exceptions: Some(2), ..clean() }, "the log of the system has 2 exceptions"),
            (
                Observed { lateness_ms: Some(12.5), ..clean() },
                "the generator was late: 12.5 ms at the 99.9th percentile",
            ),
            (
                Observed { generator_void: Some("no calls".to_owned()), ..clean() },
                "the generator's verdict is VOID: no calls",
            ),
            (
                Observed { lost: Some(Share { count: 1_001, of: 1_000_000 }), ..clean() },
                "packets were lost between generator and system: the witness missed 1001 of 1000000",
            ),
            (
                Observed { unknown: Some(Share { count: 1_001, of: 1_000_000 }), ..clean() },
                "the generator counts wrong, or lost packets: the witness saw 1001 more than its 1000000",
            ),
            (Observed { restarts: Some(1), ..clean() }, "the system was started again 1 times"),
            (
                Observed { steady: Some(Steadiness::Never { drift: 0.051 }), ..clean() },
                "the measurement is not steady: never steady: the last window drifts by +5.1 %",
            ),
        ];
        for (seen, sentence) in cases {
            let found = screen(&seen, &Tolerance::default());
            // 101 of a million are one too many for errors and retransmissions, 1,001 for packets.
            assert_eq!(found.void.iter().map(Fact::to_string).collect::<Vec<_>>(), [sentence]);
            assert!(!found.is_valid());
        }
    }

    #[test]
    fn what_is_not_observed_is_said() {
        let found = screen(&Observed::default(), &Tolerance::default());
        assert!(found.is_valid());
        assert_eq!(found.unobserved.len(), 7);
        let late = Observed { lateness_ms: Some(f64::NAN), ..clean() };
        assert!(!screen(&late, &Tolerance::default()).is_valid());
    }

    proptest! {
        #[test]
        fn screening_of_anything_has_a_sentence_for_each_fact(
            counts in (0..u64::MAX, 0..u64::MAX), lateness in prop::num::f64::ANY, tolerated in prop::num::f64::ANY,
        ) {
            let share = Some(Share { count: counts.0, of: counts.1 });
            let seen = Observed { errors: share, lost: share, lateness_ms: Some(lateness), ..Observed::default() };
            let tolerance = Tolerance { errors: tolerated, lateness_ms: tolerated, ..Tolerance::default() };
            let found = screen(&seen, &tolerance);
            prop_assert!(found.void.iter().all(|fact| !fact.to_string().is_empty()));
            // What is not below a limit that is no number is not tolerated.
            prop_assert!(!tolerated.is_nan() || found.void.len() >= 2, "{found:?}");
        }
    }

    #[test]
    fn system_that_fails_more_often_is_named() {
        let of = |system: &str, void| Failures { system: system.to_owned(), void, runs: 10 };
        let found = unequal(&[of("old", 0), of("new", 3)]).unwrap();
        assert_eq!(
            found,
            "3 of 10 runs of new are void because it failed calls or ended, and 0 of 10 of old: the runs of new that \
             count are its better ones"
        );
        assert_eq!(unequal(&[of("old", 2), of("new", 3)]), None);
        assert_eq!(unequal(&[]), None);
    }
}
