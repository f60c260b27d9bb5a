//! What a run is going to do, and where it is.

use super::args::LoadArgs;
use super::ending::{Planned, time};
use super::watch::{PATIENCE, patience};
use load::population::{Arrivals, Phase, Phases, SearchOptions};
use load::scenario::date_time;
use std::time::Duration;

/// A part of a run.
struct Part {
    name: &'static str,
    /// When it ends; nothing: it goes on.
    until: Option<Duration>,
}

/// The plan of a run.
pub struct Schedule {
    parts: Vec<Part>,
    /// What there is to say besides the lengths of the parts.
    note: String,
    pub planned: Planned,
}

impl Schedule {
    /// Of a run of users.
    pub fn of_users(phases: &Phases) -> Schedule {
        let until = |phase| Some(phases.start_of(phase).since(phases.start_of(Phase::Ramp)));
        let parts = [
            ("ramp", until(Phase::WarmUp)),
            ("warm-up", until(Phase::Measured)),
            ("measured", until(Phase::CoolDown)),
            ("cool-down", until(Phase::Over)),
        ];
        Schedule {
            parts: parts.map(|(name, until)| Part { name, until }).into(),
            note: "--measure sets the measured time, --compress lets users live faster".to_owned(),
            planned: Planned::At(until(Phase::Over).unwrap_or_default()),
        }
    }

    /// Of a run of scenarios; without `arrivals` calls begin at no rate, or none begin here.
    pub fn of_calls(
        args: &LoadArgs,
        timeout: Option<Duration>,
        begins: bool,
        arrivals: Option<&Arrivals>,
    ) -> Schedule {
        let ends = arrivals.and_then(Arrivals::end).map(Duration::from_micros);
        let last = arrivals.zip(args.most).and_then(|(arrivals, most)| last_of(arrivals, most));
        let until = [ends, last, timeout].into_iter().flatten().min();
        let planned = Planned::of_calls(args, begins, ends.is_some());
        let mut parts = Vec::new();
        if args.warm_up > 0.0 {
            parts.push(Part { name: "warm-up", until: Some(Duration::from_secs_f64(args.warm_up)) });
        }
        parts.push(Part { name: if begins { "calls begin" } else { "answering" }, until });
        let calls = args.most.map(|most| format!("{most} calls")).unwrap_or_default();
        let note = match (until, planned == Planned::Calls) {
            (Some(_), _) if timeout.is_some() => {
                let patience = patience(args).unwrap_or(PATIENCE);
                format!("calls under way then have {} s", patience.as_secs())
            }
            (Some(_), _) => "then calls under way end".to_owned(),
            (None, true) => format!("ends after {calls}"),
            (None, false) => "no planned end: Ctrl-C ends it (-m, --timeout)".to_owned(),
        };
        Schedule { parts, note, planned }
    }

    /// When its last part ends, if that is known.
    fn end(&self) -> Option<Duration> {
        self.parts.last()?.until
    }

    /// The plan in a line; the run begins at `wall`, microseconds since 1970.
    pub fn text(&self, title: &str, wall: u64) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut from = Duration::ZERO;
        for part in &self.parts {
            let Some(until) = part.until else { continue };
            parts.push(format!("{} {}", part.name, time(until.saturating_sub(from))));
            from = until.max(from);
        }
        let ends = self.end().map(|end| {
            let at = date_time(wall + end.as_micros() as u64);
            format!("; until {at}, in {}", time(end))
        });
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        format!("plan: {title}{parts}{}; {}", ends.unwrap_or_default(), self.note)
    }

    /// The phase that it is in after this time; `quit`: it was told to end.
    pub fn phase(&self, at: Duration, quit: bool) -> String {
        let seconds = at.as_secs();
        let total = self.end().map_or_else(String::new, |end| format!(" of {}", time(end)));
        let now = self.parts.iter().find(|part| part.until.is_none_or(|until| at < until));
        let name = if quit { "ending" } else { now.map_or("ending", |part| part.name) };
        format!("{seconds} s{total}, {name}")
    }
}

/// When the last of `most` calls is to begin; nothing if it does not within ten years.
fn last_of(arrivals: &Arrivals, most: u64) -> Option<Duration> {
    let enough = |micros: u64| arrivals.expected_by(micros) >= most as f64;
    let (mut low, mut high) = (0_u64, 1_000_000_u64);
    while !enough(high) {
        (low, high) = (high, high.saturating_mul(2));
        if high > 10 * 365 * 86_400 * 1_000_000 {
            return None;
        }
    }
    while high - low > 1_000 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(Duration::from_micros(high))
}

/// The plan of a search with trials of such a length, the rest before each included.
pub fn search_text(trial: Duration, wall: u64) -> String {
    let trials = SearchOptions::default().trials;
    let most = trial * trials;
    let at = date_time(wall + most.as_micros() as u64);
    format!(
        "plan: mostly 15 to 50 trials, {trials} at most, each of about {}; until {at} at the latest, in {} (longer where calls \
         do not end at once)",
        time(trial),
        time(most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::population::Parameters;
    use wire::Time;

    /// 2026-01-01 00:00:00 UTC.
    const WALL: u64 = 1_767_225_600_000_000;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn plan_of_users_has_its_phases_and_its_end() {
        let schedule = Schedule::of_users(&Phases::of(&Parameters::default(), Time::ZERO));
        let text = schedule.text("10 users", WALL);
        let want = "plan: 10 users: ramp 10 min, warm-up 10 min, measured 120 min, cool-down 35 s; \
                    until 2026-01-01 02:20:35 UTC, in 140 min 35 s; --measure";
        assert!(text.starts_with(want), "{text}");
        assert_eq!(schedule.planned, Planned::At(seconds(8_435)));
        let phase = |at| schedule.phase(seconds(at), false);
        assert_eq!(phase(0), "0 s of 140 min 35 s, ramp");
        assert_eq!(
            [phase(700), phase(1_200), phase(8_400)].map(|text| text.rsplit(' ').next().unwrap().to_owned()),
            ["warm-up", "measured", "cool-down"]
        );
        assert!(schedule.phase(seconds(700), true).ends_with(", ending"));
    }

    #[test]
    fn plan_of_calls_has_the_time_of_the_last_one() {
        let of = |line: &str| {
            let args = LoadArgs::of(line.split(' '));
            let timeout = args.timeout.as_deref().map(|_| seconds(5));
            let arrivals = super::super::plan::arrivals(&args).expect("arrivals");
            Schedule::of_calls(&args, timeout, true, Some(&arrivals))
        };
        let text = |line: &str| of(line).text("uac", WALL);
        let want =
            "plan: uac: calls begin 10 s; until 2026-01-01 00:00:10 UTC, in 10 s; then calls under way end";
        assert_eq!(text("h -r 100 -m 1000"), want);
        assert!(text("h -r 100 -m 1000 --timeout 5s").contains("calls begin 5 s; until"));
        assert!(text("h -r 100 -m 1000 --warm-up 3").contains("warm-up 3 s, calls begin 7 s"));
        assert!(text("h --arrivals steps:5@3s").contains("calls begin 3 s"));
        assert_eq!(text("h"), "plan: uac; no planned end: Ctrl-C ends it (-m, --timeout)");
        assert_eq!(of("h -r 100 -m 1000 --warm-up 3").phase(seconds(2), false), "2 s of 10 s, warm-up");
        assert_eq!(of("h").phase(seconds(2), false), "2 s, calls begin");
        assert_eq!(of("h -m 10").phase(seconds(60), false), "60 s of 1 s, ending");
    }

    #[test]
    fn plan_of_a_search_has_its_latest_end() {
        let text = search_text(seconds(7), WALL);
        assert!(text.contains("60 at most, each of about 7 s; until 2026-01-01 00:07:00 UTC"), "{text}");
    }

    #[test]
    fn plan_of_who_answers_waits_for_others() {
        let of = |line: &str| {
            let args = LoadArgs::of(line.split(' '));
            Schedule::of_calls(&args, None, false, None).text("uas", WALL)
        };
        assert_eq!(of("-m 5"), "plan: uas; ends after 5 calls");
        assert!(of("-p 5060").starts_with("plan: uas; no planned end"));
    }
}
