//! What to do about a run that shows nothing.

use load::metrics::Counters;
use load::report::Report;
use std::fmt::Write as _;
use std::time::Duration;
use wire::Time;

/// For how long nothing may come back before that is said.
const SILENCE: Duration = Duration::from_secs(5);

/// Looks out for a server that says nothing.
#[derive(Default)]
pub struct Silence {
    /// When it was first seen that something had been sent.
    since: Option<Time>,
    /// It was said, or something has come back.
    over: bool,
}

impl Silence {
    /// To be called often. The words when requests have gone to `target` for a while and nothing came back; they
    /// are said once.
    pub fn look(&mut self, now: Time, counters: &Counters, target: &str) -> Option<String> {
        if self.over {
            return None;
        }
        let sent: u64 = counters.requests_sent.iter().sum();
        let received: u64 = counters.requests_received.iter().sum();
        self.over = received > 0 || counters.responses_received.seen().any(|(_, n)| n > 0);
        if self.over || sent == 0 {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.over = now.since(since) >= SILENCE;
        self.over.then(|| {
            let seconds = SILENCE.as_secs();
            format!(
                "nothing has come back from {target} in {seconds} s ({sent} requests sent): does a server listen \
                 there? `ss -lntup` on its machine shows its sockets"
            )
        })
    }
}

/// Statuses of the whole run, the most frequent one first, without those that only say to wait or who are you.
fn refusals(report: &Report) -> Vec<(u16, u64)> {
    let status = |(name, n): (&String, &u64)| {
        let status: u16 = name.strip_prefix("responses_received.")?.parse().ok()?;
        (status >= 400 && !matches!(status, 401 | 407)).then_some((status, *n))
    };
    let mut all: Vec<(u16, u64)> = report.whole.iter().filter_map(status).collect();
    all.sort_by_key(|&(status, n)| (std::cmp::Reverse(n), status));
    all
}

/// What was answered in a run in which nothing was measured, and the mend; empty for other runs. `domain` is that
/// of the users, if there are any.
pub fn nothing_measured(report: &Report, target: Option<&str>, domain: Option<&str>) -> String {
    let mut out = String::new();
    if !report.verdict.why.iter().any(|why| why.starts_with("nothing was measured")) {
        return out;
    }
    let refusals = refusals(report);
    let any = report.whole.keys().any(|key| key.starts_with("responses_received."));
    let Some(target) = target else {
        let _ = writeln!(
            out,
            "no call came in; does the other side call this address and port, over this transport (-t)?"
        );
        return out;
    };
    if refusals.is_empty() && !any {
        let _ = writeln!(out, "nothing came back from {target}: does a server listen there?");
        return out;
    }
    let named: Vec<String> =
        refusals.iter().take(3).map(|(status, n)| format!("{status} ({n} times)")).collect();
    if !named.is_empty() {
        let _ = writeln!(out, "{target} answered {}", named.join(", "));
    }
    let challenges = ["401", "407"]
        .iter()
        .filter_map(|status| report.whole.get(&format!("responses_received.{status}")))
        .sum::<u64>();
    let all_registered = report.metric("registrations.success") == Some(100.0);
    match (domain, refusals.first()) {
        (Some(domain), Some((403 | 404 | 405 | 416 | 480 | 501, _))) => {
            let _ = writeln!(
                out,
                "  either it does not serve {domain}, then --domain names one that it does (of strowger serve: `domains` \
                 in its configuration), or it does not know these users: --write-users FILE and `strowger user import \
                 FILE` add them"
            );
        }
        (Some(domain), _) if challenges > 0 && !all_registered => {
            let _ = writeln!(
                out,
                "{target} refuses the passwords, or does not know the users of {domain}: --write-users FILE and \
                 `strowger user import FILE` add them"
            );
        }
        _ => {}
    }
    out
}

/// How the note of [`exhausted`] begins.
pub const EXHAUSTED: &str = "connections that could not be opened";

/// Why connections were not opened, and the mend; none if all were.
pub fn exhausted(connections: u64) -> Option<String> {
    let files = worker_runtime::descriptors_allowed().map_or_else(String::new, |n| format!(" (now {n})"));
    (connections > 0).then(|| {
        format!(
            "{EXHAUSTED}: {connections}. Each takes an open file of this program{files}: a higher `ulimit -n` allows \
             more at a time, -l fewer calls under way; and each takes a port for a minute after its end: more \
             addresses (-i A-B), or a lower rate, need fewer of one address"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(why: &str, answers: &[(&str, u64)]) -> Report {
        let mut report = Report::default();
        report.verdict.why = vec![why.to_owned()];
        report.whole =
            answers.iter().map(|(status, n)| (format!("responses_received.{status}"), *n)).collect();
        report
    }

    #[test]
    fn what_was_answered_and_the_mend_are_said() {
        const NOTHING: &str = "nothing was measured: no call began in the measured window";
        let said = |report: &Report| nothing_measured(report, Some("192.0.2.1"), Some("x.test"));
        assert!(nothing_measured(&run(NOTHING, &[]), None, None).starts_with("no call came in"));
        let unserved = said(&run(NOTHING, &[("404", 9), ("403", 100), ("401", 7), ("100", 1)]));
        assert!(unserved.starts_with("192.0.2.1 answered 403 (100 times), 404 (9 times)\n"), "{unserved}");
        assert!(unserved.contains("x.test") && unserved.contains("--domain"), "{unserved}");
        let unknown = said(&run(NOTHING, &[("401", 7)]));
        assert!(unknown.contains("user import"), "{unknown}");
        assert!(said(&run(NOTHING, &[])).starts_with("nothing came back from 192.0.2.1"));
        assert_eq!(said(&run("something else", &[("404", 9)])), "");
        let overload = said(&run(NOTHING, &[("503", 2)]));
        assert!(overload.contains("503") && !overload.contains("--domain"), "{overload}");
        // A server that locks out who guesses says 503 in the end.
        assert!(said(&run(NOTHING, &[("401", 40), ("503", 60)])).contains("passwords"));
        let mut idle = run(NOTHING, &[("401", 40)]);
        idle.metrics.push(load::report::MetricRow {
            key: "registrations.success".to_owned(),
            value: Some(100.0),
            ..load::report::MetricRow::default()
        });
        assert_eq!(said(&idle), "", "nobody called, but everybody registered");
    }

    #[test]
    fn what_connections_lacked_is_said() {
        assert_eq!(exhausted(0), None);
        let said = exhausted(299).unwrap_or_default();
        assert!(said.starts_with(EXHAUSTED) && said.contains("299") && said.contains("ulimit -n"), "{said}");
    }

    #[test]
    fn silence_is_silence_after_something_was_said() {
        let (mut silence, mut counters) = (Silence::default(), Counters::default());
        assert_eq!(silence.look(Time::from_secs(60), &counters, "x"), None, "nothing was sent");
        counters.requests_sent[0] = 3;
        assert_eq!(silence.look(Time::from_secs(61), &counters, "x"), None);
        assert_eq!(silence.look(Time::from_secs(65), &counters, "x"), None);
        let said = silence.look(Time::from_secs(66), &counters, "x");
        assert!(said.is_some_and(|text| text.contains("3 requests sent")));
        assert_eq!(silence.look(Time::from_secs(99), &counters, "x"), None, "once");
        let mut answered = Silence::default();
        answered.look(Time::from_secs(1), &counters, "x");
        counters.responses_received.add(100);
        assert_eq!(answered.look(Time::from_secs(99), &counters, "x"), None);
    }
}
