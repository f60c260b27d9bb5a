//! `-trace_stat`: SIPp's file of statistics, for scripts that read one.
//!
//! Columns have the names that SIPp 3.6 gives them, and its order; (P) is of the time since the line before,
//! (C) of the whole run. Those that this program knows no figure for are left out.

use load::engine::Progress;
use load::metrics::{Counters, Failure, Figures, Side, Spread, Unexpected};
use load::scenario::timestamp;
use wire::Time;

/// What a line tells.
#[derive(Clone, Default)]
struct Look {
    counters: Counters,
    figures: Figures,
}

/// The lines so far.
pub struct Statistics {
    /// `-r` or `-users`, where that is one number.
    target: Option<f64>,
    /// Whether a message that cannot be sent is told from a connection that ends: over UDP there is none.
    datagrams: bool,
    started: Time,
    /// Microseconds since 1970 at [`Time::ZERO`].
    wall: u64,
    before: (Time, Look),
    begun: bool,
}

/// Columns of calls that failed, and why.
const FAILED: [(&str, &[Failure]); 3] = [
    ("FailedMaxUDPRetrans", &[Failure::Retransmissions]),
    ("FailedUnexpectedMessage", &[Failure::UnexpectedMessage, Failure::Refused]),
    ("FailedTimeoutOnRecv", &[Failure::ReceiveTimeout]),
];

impl Statistics {
    pub fn new(target: Option<f64>, datagrams: bool, started: Time, wall: u64) -> Statistics {
        Statistics { target, datagrams, started, wall, before: (started, Look::default()), begun: false }
    }

    /// The next line, after the names of the columns if it is the first.
    pub fn line(&mut self, now: Time, all: &[Progress]) -> String {
        let mut look = Look::default();
        let mut figures: Option<Figures> = None;
        for one in all {
            look.counters.merge(&one.pulse.counters);
            match (&mut figures, &one.figures) {
                (Some(sum), Some(own)) => sum.merge(own),
                (sum, own) => *sum = sum.take().or_else(|| own.clone()),
            }
        }
        look.figures = figures.unwrap_or_default();
        let columns = self.columns(now, &look);
        let mut out = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            columns.iter().for_each(|(name, _)| out.extend([name, ";"]));
            out.push('\n');
        }
        columns.iter().for_each(|(_, value)| out.extend([value, ";"]));
        out.push('\n');
        self.before = (now, look);
        out
    }

    fn columns(&self, now: Time, look: &Look) -> Vec<(String, String)> {
        let (since, before) = (self.before.0, &self.before.1);
        let mut columns: Vec<(String, String)> = Vec::new();
        let mut put = |name: &str, value: String| columns.push((name.to_owned(), value));
        for (name, at) in [("StartTime", self.started), ("LastResetTime", since), ("CurrentTime", now)] {
            put(name, timestamp(self.wall + at.as_micros()));
        }
        let seconds = [("P", since), ("C", self.started)].map(|(of, from)| (of, now.since(from)));
        for (of, length) in seconds {
            put(&format!("ElapsedTime({of})"), clock(length.as_secs()));
        }
        if let Some(target) = self.target {
            put("TargetRate", target.to_string());
        }
        let created = |c: &Counters| c.sides.iter().map(|side| side.begun).sum::<u64>();
        let period = created(&look.counters) - created(&before.counters);
        for ((of, length), calls) in seconds.into_iter().zip([period, created(&look.counters)]) {
            let length = length.as_secs_f64();
            let rate = if length > 0.0 { calls as f64 / length } else { 0.0 };
            put(&format!("CallRate({of})"), format!("{rate:.3}"));
        }
        let mut both = |name: &str, of: &dyn Fn(&Counters) -> u64| {
            let (all, earlier) = (of(&look.counters), of(&before.counters));
            put(&format!("{name}(P)"), all.saturating_sub(earlier).to_string());
            put(&format!("{name}(C)"), all.to_string());
        };
        both("IncomingCall", &|c| c.sides[Side::Callee as usize].begun);
        both("OutgoingCall", &|c| c.sides[Side::Caller as usize].begun);
        put("TotalCallCreated", created(&look.counters).to_string());
        put("CurrentCall", look.counters.sides.iter().map(|side| side.unfinished()).sum::<u64>().to_string());
        self.outcomes(&mut columns, &look.counters, &before.counters);
        times(&mut columns, &look.figures, &before.figures);
        columns
    }

    /// What became of calls and messages.
    fn outcomes(&self, columns: &mut Vec<(String, String)>, all: &Counters, before: &Counters) {
        let mut both = |name: &str, of: &dyn Fn(&Counters) -> u64| {
            columns.push((format!("{name}(P)"), of(all).saturating_sub(of(before)).to_string()));
            columns.push((format!("{name}(C)"), of(all).to_string()));
        };
        let failed = |c: &Counters, whys: &[Failure]| -> u64 {
            c.sides.iter().map(|side| whys.iter().map(|&why| side.failed[why as usize]).sum::<u64>()).sum()
        };
        both("SuccessfulCall", &|c| c.sides.iter().map(|side| side.succeeded + side.cancelled).sum());
        both("FailedCall", &|c| c.sides.iter().map(|side| side.failures()).sum());
        if self.datagrams {
            both("FailedCannotSendMessage", &|c| failed(c, &[Failure::Unreachable]));
        }
        for (name, whys) in FAILED {
            both(name, &|c| failed(c, whys));
        }
        both("OutOfCallMsgs", &|c| c.unexpected[Unexpected::NoCall as usize]);
        both("DeadCallMsgs", &|c| c.dead_call_messages);
        both("Retransmissions", &|c| c.retransmissions() + c.responses_repeated);
    }
}

/// Stopwatches, lengths of calls, counters and tables.
fn times(columns: &mut Vec<(String, String)>, all: &Figures, before: &Figures) {
    let mut put = |name: String, value: String| columns.push((name, value));
    let nothing = Spread::default();
    let mut spread = |name: &str, own: &Spread, earlier: &Spread| {
        let [period, whole] = [own.since(earlier), own.clone()].map(|spread| spread.mean_and_deviation());
        put(format!("{name}(P)"), length(period.0));
        put(format!("{name}(C)"), length(whole.0));
        put(format!("{name}StDev(P)"), length(period.1));
        put(format!("{name}StDev(C)"), length(whole.1));
    };
    for (at, (name, own)) in all.stopwatches.iter().enumerate() {
        let earlier = before.stopwatches.get(at).map_or(&nothing, |(_, own)| own);
        spread(&format!("ResponseTime{name}"), own, earlier);
    }
    spread("CallLength", &all.lengths, &before.lengths);
    for (at, (name, count)) in all.counters.iter().enumerate() {
        let earlier = before.counters.get(at).map_or(0, |(_, count)| *count);
        put(format!("{name}(P)"), count.saturating_sub(earlier).to_string());
        put(format!("{name}(C)"), count.to_string());
    }
    let named = all.stopwatches.iter().map(|(name, own)| (format!("ResponseTimeRepartition{name}"), own));
    for (name, own) in named.chain([("CallLengthRepartition".to_owned(), &all.lengths)]) {
        let Some(last) = own.bounds_ms.last() else { continue };
        // SIPp's column of this name has nothing in it.
        put(name.clone(), String::new());
        for (bound, part) in own.bounds_ms.iter().zip(&own.parts) {
            put(format!("{name}_<{bound}"), part.to_string());
        }
        put(format!("{name}_>={last}"), own.parts.last().copied().unwrap_or_default().to_string());
    }
}

/// `00:01:30`.
fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// `00:00:00:012000`: microseconds behind the seconds.
fn length(micros: f64) -> String {
    let micros = micros.round().max(0.0) as u64;
    format!("{}:{:06}", clock(micros / 1_000_000), micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sipps() {
        // The names that SIPp 3.6.1 writes, of which some are left out here.
        const SIPP: &str = "StartTime;LastResetTime;CurrentTime;ElapsedTime(P);ElapsedTime(C);TargetRate;CallRate(P);\
            CallRate(C);IncomingCall(P);IncomingCall(C);OutgoingCall(P);OutgoingCall(C);TotalCallCreated;CurrentCall;\
            SuccessfulCall(P);SuccessfulCall(C);FailedCall(P);FailedCall(C);FailedCannotSendMessage(P);\
            FailedCannotSendMessage(C);FailedMaxUDPRetrans(P);FailedMaxUDPRetrans(C);FailedTcpConnect(P);\
            FailedTcpConnect(C);FailedTcpClosed(P);FailedTcpClosed(C);FailedUnexpectedMessage(P);\
            FailedUnexpectedMessage(C);FailedCallRejected(P);FailedCallRejected(C);FailedTimeoutOnRecv(P);\
            FailedTimeoutOnRecv(C);OutOfCallMsgs(P);OutOfCallMsgs(C);DeadCallMsgs(P);DeadCallMsgs(C);Retransmissions(P);\
            Retransmissions(C);AutoAnswered(P);AutoAnswered(C);ResponseTimex(P);ResponseTimex(C);ResponseTimexStDev(P);\
            ResponseTimexStDev(C);CallLength(P);CallLength(C);CallLengthStDev(P);CallLengthStDev(C);c1(P);c1(C);\
            ResponseTimeRepartitionx;ResponseTimeRepartitionx_<10;ResponseTimeRepartitionx_<20;\
            ResponseTimeRepartitionx_>=20;CallLengthRepartition;CallLengthRepartition_<10;CallLengthRepartition_<50;\
            CallLengthRepartition_>=50;";
        let of = |bounds: &[u32], parts: &[u64]| Spread {
            count: 3,
            sum: 36_000.0,
            squares: 432_000_000.0,
            bounds_ms: bounds.to_vec(),
            parts: parts.to_vec(),
        };
        let figures = Figures {
            stopwatches: vec![("x".to_owned(), of(&[10, 20], &[1, 2, 0]))],
            lengths: of(&[10, 50], &[0, 3, 0]),
            counters: vec![("c1".to_owned(), 7)],
        };
        let mut counters = Counters::default();
        counters.sides[0].begun = 5;
        counters.sides[0].succeeded = 3;
        counters.sides[0].failed[Failure::ReceiveTimeout as usize] = 1;
        let mut own = Statistics::new(Some(10.0), true, Time::from_secs(1), 1_795_569_485_112_687);
        own.begun = true;
        let columns = own.columns(Time::from_secs(3), &Look { counters, figures });
        let mut theirs = SIPP.split(';');
        for (name, value) in &columns {
            assert!(theirs.any(|their| their == name), "{name}, in SIPp's order");
            assert!(!value.contains(';'));
        }
        let value = |name: &str| columns.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        for (name, want) in [
            ("StartTime", "2026-11-25\t01:18:06.112687\t1795569486.112687"),
            ("ElapsedTime(C)", "00:00:02"),
            ("CallRate(C)", "2.500"),
            ("CurrentCall", "1"),
            ("SuccessfulCall(P)", "3"),
            ("FailedTimeoutOnRecv(C)", "1"),
            ("ResponseTimex(C)", "00:00:00:012000"),
            ("ResponseTimexStDev(C)", "00:00:00:000000"),
            ("ResponseTimeRepartitionx_<20", "2"),
            ("c1(C)", "7"),
        ] {
            assert_eq!(value(name), Some(want), "{name}");
        }
    }
}
