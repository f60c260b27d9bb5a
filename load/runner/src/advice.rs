//! What to do about a run that shows nothing.

use super::args::LoadArgs;
use super::target::with_port;
use load::metrics::Counters;
use load::report::Report;
use std::fmt::Write as _;
use std::time::Duration;
use wire::Time;
use worker_runtime::Counts;

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
    /// To be called often. The words when requests have gone to `target` for a while and nothing came back;
    /// they are said once. `fault`: why a connection over TLS failed.
    pub fn look(
        &mut self,
        now: Time,
        counters: &Counters,
        counts: &Counts,
        target: Option<&str>,
        fault: Option<String>,
    ) -> Option<String> {
        if self.over {
            return None;
        }
        let sent: u64 = counters.requests_sent.iter().sum();
        let received: u64 = counters.requests_received.iter().sum();
        self.over = received > 0 || counters.responses_received.seen().any(|(_, n)| n > 0);
        if self.over {
            return None;
        }
        // That is known at once.
        let given_back = target.and_then(|target| given_back(counts, target));
        let unconnected = || target.and_then(|target| unconnected(counts, target));
        if let Some(text) = fault.or_else(unconnected).or(given_back) {
            self.over = true;
            return Some(text);
        }
        if sent == 0 {
            return None;
        }
        let target = target.unwrap_or("the other side");
        let since = *self.since.get_or_insert(now);
        self.over = now.since(since) >= SILENCE;
        self.over.then(|| {
            let seconds = SILENCE.as_secs();
            format!(
                "nothing has come back from {target} in {seconds} s ({sent} requests sent): does a server listen \
                 there? `ss -lntup` on its machine shows its sockets. The run goes on; Ctrl-C ends it"
            )
        })
    }
}

/// Where messages go, with its port, if calls begin here.
pub fn target(args: &LoadArgs) -> Option<String> {
    let shown = args.sipp.rsa.as_ref().filter(|_| args.target.is_some()).or(args.target.as_ref());
    shown.map(|target| with_port(target, args.over()))
}

/// Whether requests went out in a run, and nothing came back.
pub fn is_silent(report: &Report) -> bool {
    let any = |what: &str| report.whole.keys().any(|key| key.starts_with(what));
    any("requests_sent.") && !any("responses_received.") && !any("requests_received.")
}

/// How the note of [`unconnected`] begins.
pub const UNCONNECTED: &str = "cannot connect to ";

/// Why there is no connection to the target, from which nothing has come back; none if there is another
/// reason.
pub fn unconnected(counts: &Counts, target: &str) -> Option<String> {
    // What is lacking here is said elsewhere.
    let failed = counts.tcp_connect_failures.saturating_sub(counts.tcp_exhausted);
    let why = match counts.tcp_connects_refused {
        0 => "no answer, or no way to it; is the address right, and does a firewall let it through?",
        _ => "connection refused; does a server listen there?",
    };
    (failed > 0).then(|| format!("{UNCONNECTED}{target}: {why} `ss -lnt` on its machine shows its sockets"))
}

/// What was not sent because the target read too slowly; none if it did not.
pub fn congested(counts: &Counts) -> Option<String> {
    (counts.tcp_congested > 0).then(|| {
        format!(
            "requests that were not sent, because the other side read slower than they came: {}. Each is a call that failed, \
             as \"destination unreachable\"",
            counts.tcp_congested
        )
    })
}

/// That the network gives back what was sent to the target (ICMP), and nothing else has come back; none if it
/// does not.
fn given_back(counts: &Counts, target: &str) -> Option<String> {
    (counts.udp_returned > 0).then(|| {
        format!(
            "nobody listens at {target} over UDP, or there is no way to it: the network says that what is sent there is \
             unreachable. `ss -lnu` on its machine shows its sockets. The run goes on; Ctrl-C ends it"
        )
    })
}

/// Statuses of the whole run, the most frequent one first, without those that only say to wait or who are
/// you.
fn refusals(report: &Report) -> Vec<(u16, u64)> {
    let status = |(name, n): (&String, &u64)| {
        let status: u16 = name.strip_prefix("responses_received.")?.parse().ok()?;
        (status >= 400 && !matches!(status, 401 | 407)).then_some((status, *n))
    };
    let mut all: Vec<(u16, u64)> = report.whole.iter().filter_map(status).collect();
    all.sort_by_key(|&(status, n)| (std::cmp::Reverse(n), status));
    all
}

/// That nothing came back in a run; what was answered in one in which nothing was measured, and the mend;
/// empty for other runs. `domain` is that of the users, if there are any.
pub fn nothing_measured(report: &Report, target: Option<&str>, domain: Option<&str>) -> String {
    let mut out = String::new();
    // What never left, or could not, has an answer of its own; what is not asked for is not missed.
    let said = report.notes.iter().any(|note| note.starts_with(UNCONNECTED) || note.starts_with(EXHAUSTED));
    let unsent = report.metric("drops.unsent").is_some() || report.verdict.word == "PASS";
    if let Some(target) = target.filter(|_| is_silent(report)) {
        if !said && !unsent {
            let sent = report.whole.iter().filter(|(key, _)| key.starts_with("requests_sent."));
            let sent: u64 = sent.map(|(_, n)| n).sum();
            let _ = writeln!(
                out,
                "nothing has come back from {target} in the whole run ({sent} requests sent): does a server listen there?"
            );
        }
        return out;
    }
    if !report.verdict.why.iter().any(|why| why.starts_with("nothing was measured")) {
        return out;
    }
    let refusals = refusals(report);
    let any = report.whole.keys().any(|key| key.starts_with("responses_received."));
    let Some(target) = target else {
        let _ = writeln!(
            out,
            "no calls came; does the other side call this address and port, over this transport (-t)?"
        );
        return out;
    };
    if !report.whole.keys().any(|key| key.starts_with("requests_sent.")) {
        let _ = writeln!(out, "nothing was sent to {target}");
        return out;
    }
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

/// That a run of users has failed for users that the server does not know, and the mend. Their refusals alone
/// are more than may fail, so that the run says nothing of what the server could carry.
pub fn unknown_users(report: &Report, success_percent: f64) -> Option<String> {
    let of = |names: &[&str]| names.iter().filter_map(|name| report.whole.get(*name)).sum::<u64>();
    let refused = of(&["registrants_refused"]);
    let ended = of(&[
        "registrations_ok",
        "refreshes_ok",
        "registrations_failed",
        "refreshes_failed",
        "removals_failed",
    ]);
    let too_many = refused as f64 * 100.0 > (100.0 - success_percent) * ended as f64;
    (report.verdict.word == "FAIL" && too_many).then(|| {
        format!(
            "{refused} of {ended} registrations were refused for who asks: the server does not know these users, or not \
             their passwords, and the trial says nothing of what it could carry. --find-peak tries more users than \
             --users: with -rate_max N, --write-users FILE writes all that may be tried, for `strowger user import FILE`"
        )
    })
}

/// Where the lines are that failing calls name, if they are those of a scenario that comes with the program.
pub fn lines(report: &Report, args: &LoadArgs) -> Option<String> {
    let named = report.ladders.iter().any(|ladder| ladder.why.contains(" of the scenario: "));
    let built_in = args.sf.is_none() && args.answer.is_none() && args.people.users.is_none();
    let name = args.sn.as_deref().unwrap_or("uac");
    (named && built_in).then(|| format!("`strowger load -sd {name}` shows the lines of the scenario"))
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
        if !answers.is_empty() {
            report.whole.insert("requests_sent.REGISTER".to_owned(), 1);
        }
        report
    }

    #[test]
    fn what_was_answered_and_the_mend_are_said() {
        const NOTHING: &str = "nothing was measured: no call began in the measured window";
        let said = |report: &Report| nothing_measured(report, Some("192.0.2.1"), Some("x.test"));
        assert!(nothing_measured(&run(NOTHING, &[]), None, None).starts_with("no calls came"));
        let unserved = said(&run(NOTHING, &[("404", 9), ("403", 100), ("401", 7), ("100", 1)]));
        assert!(unserved.starts_with("192.0.2.1 answered 403 (100 times), 404 (9 times)\n"), "{unserved}");
        assert!(unserved.contains("x.test") && unserved.contains("--domain"), "{unserved}");
        let unknown = said(&run(NOTHING, &[("401", 7)]));
        assert!(unknown.contains("user import"), "{unknown}");
        assert_eq!(said(&run(NOTHING, &[])), "nothing was sent to 192.0.2.1\n");
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
    fn unknown_users_are_not_a_limit_of_the_server() {
        let run = |word: &str, refused: u64, failed: u64| {
            let mut report = Report::default();
            report.verdict.word = word.to_owned();
            for (name, n) in [
                ("registrants_refused", refused),
                ("registrations_failed", failed),
                ("registrations_ok", 100_000),
            ] {
                report.whole.insert(name.to_owned(), n);
            }
            unknown_users(&report, 99.99)
        };
        let said = run("FAIL", 900, 900).unwrap_or_default();
        assert!(
            ["900 of 100900", "--write-users", "-rate_max"].iter().all(|word| said.contains(word)),
            "{said}"
        );
        assert_eq!(run("FAIL", 0, 900), None, "overload");
        assert_eq!(run("FAIL", 5, 900), None, "a few wrong ones are not the reason");
        assert_eq!(run("PASS", 900, 900), None, "--success allows it");
    }

    #[test]
    fn lines_of_a_built_in_scenario_can_be_seen() {
        let mut report = Report::default();
        let of = |report: &Report, line: &str| lines(report, &LoadArgs::of(line.split(' ')));
        assert_eq!(of(&report, "--sn register h"), None, "no call has failed");
        let why = "unexpected at line 41 of the scenario: 401 Unauthorized to REGISTER sip:x".to_owned();
        report.ladders.push(load::report::LadderReport { why, ..Default::default() });
        let said = |name: &str| Some(format!("`strowger load -sd {name}` shows the lines of the scenario"));
        assert_eq!((of(&report, "--sn register h"), of(&report, "h")), (said("register"), said("uac")));
        assert_eq!((of(&report, "--sf own.xml h"), of(&report, "--answer uas h")), (None, None));
    }

    #[test]
    fn what_connections_lacked_is_said() {
        assert_eq!((exhausted(0), congested(&Counts::default())), (None, None));
        let said = congested(&Counts { tcp_congested: 7, ..Counts::default() }).unwrap_or_default();
        assert!(said.contains("read slower than they came: 7."), "{said}");
        let said = exhausted(299).unwrap_or_default();
        assert!(said.starts_with(EXHAUSTED) && said.contains("299") && said.contains("ulimit -n"), "{said}");
    }

    #[test]
    fn silence_is_silence_after_something_was_said() {
        let (mut silence, mut counters) = (Silence::default(), Counters::default());
        let look = |silence: &mut Silence, second: u64, counters: &Counters| {
            silence.look(Time::from_secs(second), counters, &Counts::default(), Some("x"), None)
        };
        assert_eq!(look(&mut silence, 60, &counters), None, "nothing was sent");
        counters.requests_sent[0] = 3;
        assert_eq!(look(&mut silence, 61, &counters), None);
        assert_eq!(look(&mut silence, 65, &counters), None);
        let said = look(&mut silence, 66, &counters);
        assert!(said.is_some_and(|text| text.contains("from x in 5 s (3 requests sent)")));
        assert_eq!(look(&mut silence, 99, &counters), None, "once");
        let mut answered = Silence::default();
        look(&mut answered, 1, &counters);
        counters.responses_received.add(100);
        assert_eq!(look(&mut answered, 99, &counters), None);
    }

    #[test]
    fn a_connection_that_does_not_come_about_is_said_at_once() {
        let refused = Counts { tcp_connect_failures: 2, tcp_connects_refused: 2, ..Counts::default() };
        let (mut silence, mut counters) = (Silence::default(), Counters::default());
        let mut look = |counts: &Counts, counters: &Counters| {
            silence.look(Time::from_secs(1), counters, counts, Some("192.0.2.1:5060"), None)
        };
        assert_eq!(look(&Counts::default(), &counters), None);
        let said = look(&refused, &counters).unwrap_or_default();
        let want = "cannot connect to 192.0.2.1:5060: connection refused; does a server listen there?";
        assert!(said.starts_with(want), "{said}");
        assert_eq!(look(&refused, &counters), None, "once");
        counters.responses_received.add(200);
        let mut late = Silence::default();
        assert_eq!(
            late.look(Time::from_secs(1), &counters, &refused, Some("x"), None),
            None,
            "the target is there"
        );
        let timeout = Counts { tcp_connect_failures: 1, ..Counts::default() };
        assert!(unconnected(&timeout, "x").is_some_and(|text| text.contains("to x: no answer")));
        let lacking = Counts { tcp_connect_failures: 1, tcp_exhausted: 1, ..Counts::default() };
        assert_eq!(unconnected(&lacking, "x"), None);
    }

    #[test]
    fn what_the_network_gives_back_is_said_at_once() {
        let (mut silence, mut counters) = (Silence::default(), Counters::default());
        counters.requests_sent[0] = 3;
        let returned = Counts { udp_returned: 1, ..Counts::default() };
        let mut look = |counts: &Counts, counters: &Counters| {
            silence.look(Time::from_secs(1), counters, counts, Some("192.0.2.1:5060"), None)
        };
        assert_eq!(look(&Counts::default(), &counters), None);
        let said = look(&returned, &counters).unwrap_or_default();
        assert!(
            said.starts_with("nobody listens at 192.0.2.1:5060 over UDP") && said.contains("Ctrl-C"),
            "{said}"
        );
        assert_eq!(look(&returned, &counters), None, "once");
        counters.responses_received.add(200);
        let mut answered = Silence::default();
        assert_eq!(
            answered.look(Time::from_secs(1), &counters, &returned, Some("x"), None),
            None,
            "the target is there"
        );
    }

    #[test]
    fn a_run_in_which_nothing_came_back_says_so_whatever_its_verdict() {
        let mut silent = run("success: 0 %, limit 99.99 %", &[]);
        silent.whole.insert("requests_sent.INVITE".to_owned(), 5);
        let said = |report: &Report| nothing_measured(report, Some("192.0.2.1:5060"), None);
        let want = "nothing has come back from 192.0.2.1:5060 in the whole run (5 requests sent): does a server listen";
        assert!(said(&silent).starts_with(want), "{}", said(&silent));
        assert_eq!(nothing_measured(&silent, None, None), "", "whoever answers has no target");
        silent.notes.push(format!("{UNCONNECTED}x"));
        assert_eq!(said(&silent), "", "the note says more");
        silent.notes = vec![format!("{EXHAUSTED}: 5")];
        assert_eq!(said(&silent), "", "it is not the server");
        silent.notes.clear();
        silent.verdict.word = "PASS".to_owned();
        assert_eq!(said(&silent), "", "a scenario that only sends");
        silent.verdict.word = "FAIL".to_owned();
        silent.whole.insert("responses_received.503".to_owned(), 1);
        assert_eq!(said(&silent), "");
    }
}
