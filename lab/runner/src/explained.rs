//! How many failures and repetitions the declared network of a run explains: those count, and more do not.
//!
//! The rule, docs/design/lab-networks.md: a request and its response cross the network four times, to the
//! system and from it to the other end, and back. What is declared says how likely one of them is lost, and
//! how late the response is. A request is sent at the times of RFC 3261 section 17.1.1.2, so that gives the
//! share of requests that are repeated, and of calls of which every attempt is lost.

use lab::experiment::{Network, Setup};
use lab::record::RunRecord;
use lab::statistics::Tolerance;

/// T1 of RFC 3261: a request is sent again after it, after two further T1, four, and so on.
const T1: f64 = 0.5;
/// Timers B and F: 64 T1.
const PATIENCE: f64 = 64.0 * T1;
/// A request is sent this often at most (RFC 3261 section 17.1.2.2).
const MOST_SENDS: u32 = 11;
/// How often a request and its response cross the network between generator and system.
const CROSSINGS: i32 = 4;
/// Bits of the largest packet.
const PACKET: f64 = 1_514.0 * 8.0;
/// Standard deviations by which chance may exceed what is expected.
const CHANCE: f64 = 4.0;

/// What the declared network explains.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Explained {
    /// Share of the calls that may fail.
    pub failures: f64,
    /// Repetitions for each request.
    pub repetitions: f64,
}

impl Explained {
    /// What the network of a setup explains in a run.
    pub fn of(setup: &Setup, record: &RunRecord) -> Explained {
        let network = &setup.network;
        if !network.is_apart() {
            return Explained::default();
        }
        // What a queue drops is told to its sender, and makes the run void.
        let lost = network.loss / 100.0;
        let late = f64::from(CROSSINGS) * crossing(network);
        let counted = |beginning: &str| {
            let these = record.load.measured.iter().filter(|(key, _)| key.starts_with(beginning));
            these.map(|(_, count)| *count as f64).sum::<f64>()
        };
        let calls = record.load.metric("calls.begun").unwrap_or(0.0);
        let sent = counted("requests_sent.");
        let requests = (sent / calls.max(1.0)).max(1.0);
        let options = &setup.workload.options;
        // An attempt counts whose response can come in time.
        let attempts = sends_before(patience(options) - late).min(most_sends(options));
        let unanswered = 1.0 - (1.0 - lost).powi(CROSSINGS);
        let failing = requests * unanswered.powi(i32::try_from(attempts).unwrap_or(i32::MAX));
        let losses: f64 = (1..MOST_SENDS).map(|sends| unanswered.powi(sends as i32)).sum();
        // Each repetition of a request may have its response repeated.
        let repeated = 2.0 * (losses + f64::from(sends_before(late).saturating_sub(1)));
        Explained { failures: with_chance(failing, calls), repetitions: with_chance(repeated, sent) }
    }

    /// The tolerance of a run with it.
    pub fn added_to(self, tolerance: Tolerance) -> Tolerance {
        Tolerance {
            errors: tolerance.errors + self.failures,
            retransmissions: tolerance.retransmissions + self.repetitions,
            ..tolerance
        }
    }

    /// For the notes of a run; nothing where nothing is explained.
    pub fn note(self) -> Option<String> {
        (self != Explained::default()).then(|| {
            format!(
                "the declared network explains up to {:.2} % failed calls and {:.2} repetitions for each request",
                (100.0 * self.failures).min(100.0),
                self.repetitions
            )
        })
    }
}

/// The longest that a packet takes in one direction, seconds: its delay, and a full queue before it.
fn crossing(network: &Network) -> f64 {
    let queued = if network.rate > 0.0 {
        (f64::from(network.queue) + 1.0) * PACKET / (network.rate * 1e6)
    } else {
        0.0
    };
    network.delay.as_secs_f64() + queued
}

/// How often a request is sent within this time, seconds; never after the time is over.
fn sends_before(seconds: f64) -> u32 {
    let at = |send: u32| T1 * (2_f64.powi(send as i32) - 1.0);
    u32::try_from((0..MOST_SENDS).filter(|send| at(*send) <= seconds).count()).unwrap_or(MOST_SENDS)
}

fn with_chance(share: f64, of: f64) -> f64 {
    if share > 0.0 { share + CHANCE * (share / of.max(1.0)).sqrt() } else { 0.0 }
}

/// How long the generator waits for a response, seconds.
fn patience(options: &[String]) -> f64 {
    value(options, "recv-timeout").and_then(seconds).map_or(PATIENCE, |own| own.min(PATIENCE))
}

/// How often the generator sends a request at most.
fn most_sends(options: &[String]) -> u32 {
    if options.iter().any(|option| option.trim_start_matches('-') == "nr") {
        return 1;
    }
    let limits = ["max-retrans", "max-invite-retrans", "max-non-invite-retrans"];
    let of = |name: &&str| value(options, name)?.parse::<u32>().ok();
    limits.iter().filter_map(of).min().map_or(MOST_SENDS, |again| again.saturating_add(1).min(MOST_SENDS))
}

/// The value of an option, however it is written: `--recv-timeout 2000`, `-recv_timeout=2s`.
fn value<'o>(options: &'o [String], name: &str) -> Option<&'o str> {
    let mut words = options.iter().map(String::as_str);
    loop {
        let word = words.next()?;
        let (key, own) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        if word.starts_with('-') && key.trim_start_matches('-').replace('_', "-") == name {
            return own.or_else(|| words.next());
        }
    }
}

/// A time as SIPp writes it, milliseconds without a unit.
fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("", 1e-3)];
    let (number, unit) =
        units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))?;
    Some(number.parse::<f64>().ok()? * unit).filter(|time| time.is_finite())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use lab::experiment::NetworkKind;
    use load::report::MetricRow;

    fn setup(network: Network) -> Setup {
        let network = Network { kind: NetworkKind::Namespaces, ..network };
        Setup { network, ..Setup::default() }
    }

    /// A thousand calls of three requests.
    fn record() -> RunRecord {
        let mut record = RunRecord { window: (0.0, 2.0), ..RunRecord::default() };
        let (key, value) = ("calls.begun".to_owned(), Some(1_000.0));
        record.load.metrics.push(MetricRow { key, value, ..MetricRow::default() });
        record.load.measured.insert("requests_sent.INVITE".to_owned(), 3_000);
        record
    }

    #[test]
    fn network_without_loss_or_delay_explains_nothing() {
        let none = Explained::of(&setup(Network::default()), &record());
        assert_eq!((none, none.note()), (Explained::default(), None));
        let short = Network { delay: Duration::from_millis(100), ..Network::default() };
        assert_eq!(Explained::of(&setup(short), &record()), Explained::default());
        let loopback = Network { loss: 50.0, ..Network::default() };
        let setup = Setup { network: loopback, ..Setup::default() };
        assert_eq!(Explained::of(&setup, &record()), Explained::default());
    }

    #[test]
    fn loss_explains_what_all_attempts_lose() {
        let one = setup(Network { loss: 1.0, ..Network::default() });
        let found = Explained::of(&one, &record());
        // 3.9 % of the attempts are lost, and a request has seven of them within 32 s.
        assert!(found.failures < 1e-5, "{found:?}");
        assert!((0.08..0.11).contains(&found.repetitions), "{found:?}");
        let mut hasty = one.clone();
        hasty.workload.options = vec!["--recv-timeout".to_owned(), "1000".to_owned()];
        // Two attempts: 0.16 % of three requests, and what chance adds.
        let found = Explained::of(&hasty, &record());
        assert!((0.0047..0.02).contains(&found.failures), "{found:?}");
        hasty.workload.options = vec!["-nr".to_owned()];
        let found = Explained::of(&hasty, &record());
        assert!((0.11..0.2).contains(&found.failures), "{found:?}");
        let cut = setup(Network { loss: 100.0, ..Network::default() });
        assert!(Explained::of(&cut, &record()).failures >= 1.0);
    }

    #[test]
    fn failures_beyond_the_declared_loss_are_no_part_of_it() {
        let explained = Explained::of(&setup(Network { loss: 1.0, ..Network::default() }), &record());
        let tolerance = explained.added_to(Tolerance::default());
        assert!(tolerance.errors < 0.01, "ten of a thousand calls that fail are not the network's");
        assert!(explained.note().is_some_and(|note| note.contains("failed calls")));
    }

    #[test]
    fn delay_explains_repetitions_as_loss_does() {
        let far = setup(Network { delay: Duration::from_millis(200), ..Network::default() });
        // The response comes after 0.8 s: one repetition of the request, and one of the response.
        let found = Explained::of(&far, &record());
        assert!((2.0..2.2).contains(&found.repetitions) && found.failures == 0.0, "{found:?}");
        // No response comes in time.
        let mut hasty = far;
        hasty.workload.options = vec!["-recv_timeout=700ms".to_owned()];
        assert!(Explained::of(&hasty, &record()).failures >= 1.0);
    }

    #[test]
    fn full_queue_of_a_rate_explains_repetitions() {
        let short = setup(Network { rate: 10.0, queue: 2, ..Network::default() });
        assert_eq!(Explained::of(&short, &record()), Explained::default());
        // A queue that takes longer than T1 to be sent.
        let slow = setup(Network { rate: 0.1, queue: 2, ..Network::default() });
        assert!(Explained::of(&slow, &record()).repetitions >= 2.0);
    }

    #[test]
    fn options_are_read_as_the_generator_reads_them() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, time) in [("--recv-timeout 2000", 2.0), ("-recv_timeout 3s", 3.0), ("--nd", 32.0)] {
            assert_eq!(patience(&words(text)), time, "{text}");
        }
        assert_eq!(patience(&words("--recv-timeout 5m")), 32.0);
        let most = ["-nr", "--max-retrans 2", "-max_invite_retrans 9 -max_non_invite_retrans 1", "--nd"];
        assert_eq!(most.map(|text| most_sends(&words(text))), [1, 3, 2, 11]);
    }
}
