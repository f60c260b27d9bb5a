//! What is known of one run, as it stands in the archive.

use serde::{Deserialize, Serialize};

use load::backend::NodeReport;
use load::report::{Distribution, Fact, Report, SeriesReport};

use crate::associations::Associations;
use crate::checks::Checks;
use crate::costs::Costs;
use crate::experiment::{Measure, Quantity, Run, Statistic};
use crate::occupancy;
use crate::statistics::{median, needs};

/// Version of [`RunRecord`] as JSON. It grows when an old reader would misunderstand a new file.
pub const VERSION: u32 = 1;

/// One run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// [`VERSION`].
    pub version: u32,
    /// Which run it is, and when it was made.
    #[serde(flatten)]
    pub run: MadeRun,
    /// Program, arguments and version of the system; SHA-256 of the program.
    pub program: Vec<Fact>,
    /// The machine: processor, kernel, mitigations, clock.
    pub machine: Vec<Fact>,
    /// The report of the generator about the measurement.
    pub load: Report,
    /// What was sampled each second, from the start of the system to its end.
    pub samples: SeriesReport,
    /// When the measurement began and ended, seconds since the first sample.
    pub window: (f64, f64),
    /// What back ends with a modelled capacity did, warm-up included; empty if there were none.
    pub backends: Vec<NodeReport>,
    /// Faults that were injected: when, seconds since the start of the measurement, and what.
    pub faults: Vec<(f64, String)>,
    /// Whether the warm-up ended because everything was steady; `None` if it had a fixed length.
    pub steady: Option<bool>,
    /// What was seen of it beside its figures.
    pub checks: Checks,
    /// What associations cost; nothing where the run made calls.
    pub associations: Option<Associations>,
    /// What the run was found to be worth.
    #[serde(flatten)]
    pub screened: Screened,
    /// What is worth knowing, without being a reason against the run.
    pub notes: Vec<String>,
}

/// What a run was found to be worth. In JSON its keys are beside those of the record.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Screened {
    /// Why the run says nothing about the system; empty if it does.
    pub void: Vec<String>,
    /// Why only some figures of the run count; empty if all do.
    pub reserved: Vec<Reservation>,
    /// Whether the system itself is a reason against the run, as far as can be told.
    pub of_system: bool,
}

/// A reason for which only some figures of a run count.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reservation {
    /// The reason, in a sentence.
    pub why: String,
    /// The names of the measures that count all the same, because they are about it.
    pub only: Vec<String>,
}

/// Which run a record is of, and when it was made. In JSON its keys are beside those of the record.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MadeRun {
    /// The name of the run: see [`RunId`](crate::experiment::RunId).
    pub id: String,
    /// Its block, from 1.
    pub block: u32,
    /// The system.
    pub system: String,
    /// Whether it is the second copy of the A/A control.
    pub twin: bool,
    /// Index of the combination of factors, from 0.
    pub setup: usize,
    /// Each factor with its value.
    pub factors: Vec<Fact>,
    /// Seed of everything random in this run.
    pub seed: u64,
    /// A number that the runs of one `lab run` share.
    pub session: u64,
    /// Wall clock at the start, seconds since 1970.
    pub started: u64,
}

impl MadeRun {
    /// What the plan knows of a run.
    pub fn of(run: &Run) -> MadeRun {
        MadeRun {
            id: run.id().to_string(),
            block: run.block(),
            system: run.subject().system.clone(),
            twin: run.subject().twin,
            setup: run.setup(),
            ..MadeRun::default()
        }
    }
}

/// Samples of a network of namespaces: datagrams sent into it by both sides.
pub const SENT: &str = "network.sent";
/// Those of them that a queue dropped, because the rate of the network is limited.
pub const DROPPED: &str = "network.dropped";
/// Datagrams out of it that programs on either side read.
pub const DELIVERED: &str = "network.delivered";

impl RunRecord {
    /// Reads what [`RunRecord::to_json`] wrote.
    ///
    /// # Errors
    /// If it is no such JSON, or of a later version.
    pub fn from_json(text: &str) -> Result<RunRecord, String> {
        let record: RunRecord =
            serde_json::from_str(text).map_err(|error| format!("not the record of a run: {error}"))?;
        if record.version != VERSION {
            return Err(format!(
                "the record of a run in version {}; this program reads version {VERSION}: use the one that wrote it",
                record.version
            ));
        }
        Ok(record)
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        // Numbers, strings and vectors always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The name by which plan and report call what was measured.
    pub fn subject(&self) -> String {
        format!("{}{}", self.run.system, if self.run.twin { ".again" } else { "" })
    }

    /// Whether a figure of this run counts.
    pub fn counts_for(&self, measure: Measure) -> bool {
        let is_about = |reservation: &Reservation| reservation.only.iter().any(|name| name == measure.name());
        self.screened.void.is_empty() && self.screened.reserved.iter().all(is_about)
    }

    /// Why the run says nothing, or not everything: all reasons.
    pub fn against(&self) -> impl Iterator<Item = &str> {
        let Screened { void, reserved, .. } = &self.screened;
        void.iter().map(String::as_str).chain(reserved.iter().map(|reserved| reserved.why.as_str()))
    }

    /// A figure of this run; nothing if the run has none. A void run has figures too: the caller leaves it
    /// out.
    pub fn figure(&self, quantity: Quantity) -> Option<f64> {
        let load = &self.load;
        if quantity.measure == Measure::Occupancy {
            return occupancy::statistic(&occupancy::merged(&self.backends), quantity.statistic?);
        }
        if quantity.measure.is_distribution() {
            // Named as in the report of the generator.
            return self.latency(quantity.measure.name(), quantity.statistic);
        }
        match quantity.measure {
            share if share.share().is_some() => load.metric(share.share()?),
            Measure::Calls => Some(self.succeeded()? / positive(load.windows.measured)?),
            Measure::Conformance => self.conformance(),
            Measure::Sessions => load.metric("sessions.rate"),
            Measure::Refreshes => load.metric("reregistrations.rate"),
            Measure::Users => load.peak.as_ref().filter(|peak| peak.unit == "users")?.load,
            Measure::UsersPerCore => Some(self.users()? / positive(self.cpu()? / 100.0)?),
            Measure::Failures => load.metric("calls.failed"),
            Measure::Retransmissions => load.metric("retransmissions"),
            Measure::Cpu => self.cpu(),
            Measure::Memory => Some(load.server_memory_mib? + self.at_end("database.memory").unwrap_or(0.0)),
            Measure::Peak => load.peak.as_ref()?.load,
            Measure::Recovery => self.recovery(),
            Measure::Slab => self.associations.as_ref()?.slab(),
            Measure::OwnMemory => self.associations.as_ref()?.own_bytes,
            Measure::Associations => Some(self.associations.as_ref()?.held as f64),
            Measure::Lost => self.lost(),
            cost => Costs::of(self).figure(cost),
        }
    }

    /// Processor time of the system and of its database in the measurement, percent of one processor.
    pub fn cpu(&self) -> Option<f64> {
        let database = self.within("database.cpu");
        let mean = database.iter().sum::<f64>() / (database.len() as f64).max(1.0);
        Some(self.load.server_cpu_percent? + mean)
    }

    /// The last sample of the measurement.
    fn at_end(&self, key: &str) -> Option<f64> {
        self.within(key).last().copied()
    }

    /// Users of the population; of a search those of the run that stands for its answer.
    fn users(&self) -> Option<f64> {
        let fact = self.load.parameters.iter().find(|fact| fact.name == "users")?;
        fact.value.parse().ok()
    }

    /// The least share of what may fail.
    fn conformance(&self) -> Option<f64> {
        let shares = ["calls.success", "callee.success", "registrations.success", "transactions.success"];
        shares.iter().filter_map(|key| self.load.metric(key)).min_by(f64::total_cmp)
    }

    /// Calls that succeeded in the measurement. Those of users may last longer than it: there the calls count
    /// that ended in it, for which others begin.
    pub(crate) fn succeeded(&self) -> Option<f64> {
        if self.load.workload == "population" {
            return self.ended_well();
        }
        self.load.measured.get("calls.succeeded").map(|calls| *calls as f64)
    }

    /// Calls that came to their good end within the measurement, by the time series.
    fn ended_well(&self) -> Option<f64> {
        let series = &self.load.series;
        let from = self.load.windows.before();
        let until = from + self.load.windows.measured;
        let half = series.interval / 2.0;
        let pairs = series.time.iter().zip(series.column("succeeded"));
        let inside = pairs.filter(|(at, _)| **at >= from - half && **at + half <= until);
        let rates: Vec<f64> = inside.filter_map(|(_, rate)| *rate).collect();
        (!rates.is_empty())
            .then(|| rates.iter().sum::<f64>() / rates.len() as f64 * self.load.windows.measured)
    }

    /// Seconds from a fault until a whole second has half of the successful calls that a second had before
    /// the first fault, and no failed one; the longest of all faults. Only seconds that begin after the
    /// fault count. Where none comes, the time to the end of the measurement.
    fn recovery(&self) -> Option<f64> {
        let series = &self.load.series;
        let (good, bad) = (series.column("succeeded"), series.column("failed"));
        let before = self.load.windows.before();
        let end = before + self.load.windows.measured;
        let whole = |from: &f64| *from + series.interval <= end;
        let first = self.faults.iter().map(|(at, _)| *at).min_by(f64::total_cmp)?;
        let usual = self.usual_second(before, before + first);
        let of_fault = |at: f64| {
            let good_second = |nth: usize| {
                let count = |column: &[Option<f64>]| column.get(nth).copied().flatten().unwrap_or(0.0);
                count(good) > 0.0 && count(good) >= usual / 2.0 && count(bad) == 0.0
            };
            let seconds =
                series.time.iter().enumerate().filter(|(_, from)| **from >= before + at && whole(from));
            seconds
                .map(|(nth, from)| (nth, *from))
                .find(|(nth, _)| good_second(*nth))
                .map_or(end, |(_, from)| from)
                - before
                - at
        };
        self.faults.iter().map(|(at, _)| of_fault(*at)).max_by(f64::total_cmp)
    }

    /// Successful calls of a second before a fault: the median of the whole seconds from `from` until
    /// `until`, or of those of the warm-up if there is none.
    fn usual_second(&self, from: f64, until: f64) -> f64 {
        let series = &self.load.series;
        let pairs: Vec<(f64, f64)> = series
            .time
            .iter()
            .zip(series.column("succeeded"))
            .filter(|(at, _)| **at + series.interval <= until)
            .map(|(at, count)| (*at, count.unwrap_or(0.0)))
            .collect();
        let since = |from: f64| -> Vec<f64> {
            pairs.iter().filter(|(at, _)| *at >= from).map(|(_, count)| *count).collect()
        };
        median(&since(from)).or_else(|| median(&since(0.0))).unwrap_or(0.0)
    }

    /// Percent of the datagrams that were sent between generator and system. Those under way at the ends
    /// of the measurement may be counted on one side alone.
    fn lost(&self) -> Option<f64> {
        let sum = |key: &str| self.within(key).iter().sum::<f64>();
        let sent = positive(sum(SENT))?;
        let missing = sent - sum(DELIVERED);
        // Less than one is a matter of the length of seconds.
        Some(if missing < 1.0 { 0.0 } else { 100.0 * missing / sent })
    }

    /// Milliseconds.
    fn latency(&self, key: &str, statistic: Option<Statistic>) -> Option<f64> {
        let distribution = self.load.latency(key)?.main();
        if distribution.count == 0 {
            return None;
        }
        let micros = match statistic? {
            Statistic::Mean => distribution.mean,
            Statistic::Max => distribution.max as f64,
            Statistic::Percentile(thousandths) => percentile(distribution, thousandths)? as f64,
        };
        Some(micros / 1e3)
    }

    /// The samples of a column within the measurement.
    pub fn within(&self, key: &str) -> Vec<f64> {
        let interval = self.samples.interval;
        let inside = |from: f64| {
            from >= self.window.0 - interval / 2.0 && from + interval <= self.window.1 + interval / 2.0
        };
        let column = self.samples.column(key);
        let pairs = self.samples.time.iter().zip(column);
        pairs.filter(|(from, _)| inside(**from)).filter_map(|(_, value)| *value).collect()
    }
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// A percentile, in thousandths of a percent: that of the report if it has it, or else from its buckets,
/// which are up to 2 % wide. Nothing where it would be the largest value of a small sample.
fn percentile(distribution: &Distribution, thousandths: u32) -> Option<u64> {
    // The median is no extreme of any sample.
    if thousandths != 50_000 && distribution.count < needs(f64::from(thousandths) / 1e3) {
        return None;
    }
    let exact = match thousandths {
        50_000 => distribution.p50,
        90_000 => distribution.p90,
        95_000 => distribution.p95,
        99_000 => distribution.p99,
        99_900 => distribution.p999,
        99_990 => distribution.p9999,
        _ => 0,
    };
    if exact > 0 {
        return Some(exact);
    }
    let of_bucket = at(&distribution.buckets, distribution.count, thousandths)?;
    Some(if distribution.max > 0 { of_bucket.min(distribution.max) } else { of_bucket })
}

/// A percentile, in thousandths of a percent, from buckets of (upper end, count).
fn at(buckets: &[(u64, u64)], count: u64, thousandths: u32) -> Option<u64> {
    // Of 1,000 values the 990th is p99.
    let wanted = (u128::from(count) * u128::from(thousandths)).div_ceil(100_000).max(1);
    let mut seen = 0_u128;
    buckets.iter().find_map(|(upper, count)| {
        seen += u128::from(*count);
        (seen >= wanted).then_some(*upper)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::{Column, Latency, Windows};

    fn quantity(measure: Measure) -> Quantity {
        Quantity { measure, statistic: measure.is_distribution().then_some(Statistic::Percentile(99_000)) }
    }

    #[test]
    fn occupancy_is_that_of_the_back_ends() {
        let found = vec![load::backend::Found { requests: 3, seconds: 1.0 }; 2];
        let record = RunRecord { backends: vec![NodeReport { found, ..NodeReport::default() }], ..record() };
        let mean = Quantity { measure: Measure::Occupancy, statistic: Some(Statistic::Mean) };
        assert_eq!(record.figure(mean), Some(0.5));
        assert_eq!(RunRecord::default().figure(mean), None);
    }

    fn record() -> RunRecord {
        let mut record = RunRecord { version: VERSION, ..RunRecord::default() };
        record.load.windows = Windows { warm_up: 2.0, measured: 4.0, ..Windows::default() };
        record.load.measured.insert("calls.succeeded".to_owned(), 400);
        record.load.server_cpu_percent = Some(10.0);
        let setup =
            Distribution { count: 100, buckets: vec![(1_000, 98), (5_000, 2)], ..Distribution::default() };
        record.load.latencies.push(Latency {
            key: "setup".to_owned(),
            intended: setup,
            ..Latency::default()
        });
        record
    }

    #[test]
    fn figures_are_those_of_the_report() {
        let record = record();
        assert_eq!(record.figure(quantity(Measure::Calls)), Some(100.0));
        // A tenth of a core for four seconds, over 400 calls.
        assert_eq!(record.figure(quantity(Measure::CpuPerCall)), Some(1_000.0));
        assert_eq!(record.figure(quantity(Measure::Setup)), Some(5.0));
        assert_eq!(record.figure(quantity(Measure::Response)), None);
        assert_eq!(record.figure(quantity(Measure::Peak)), None);
    }

    #[test]
    fn percentiles_are_those_of_the_report_where_it_has_them() {
        let at = |distribution: &Distribution, percent: f64| percentile(distribution, (percent * 1e3) as u32);
        let mut distribution = Distribution {
            count: 1_000,
            buckets: vec![(1_020, 500), (5_100, 500)],
            ..Distribution::default()
        };
        (distribution.p50, distribution.p99, distribution.max) = (1_001, 5_002, 5_003);
        assert_eq!(at(&distribution, 50.0), Some(1_001));
        assert_eq!(at(&distribution, 99.0), Some(5_002));
        // Others are the end of a bucket, which may be beyond the largest value.
        assert_eq!(at(&distribution, 40.0), Some(1_020));
        assert_eq!(at(&distribution, 75.0), Some(5_003));
    }

    #[test]
    fn percentile_of_too_few_values_is_refused() {
        let of = |count: u64, thousandths: u32| {
            let (p50, p99, p999) = (3, 5, 7);
            percentile(
                &Distribution { count, p50, p99, p999, max: 7, ..Distribution::default() },
                thousandths,
            )
        };
        assert_eq!((of(99, 99_000), of(100, 99_000)), (None, Some(5)));
        assert_eq!((of(999, 99_900), of(1_000, 99_900)), (None, Some(7)));
        assert_eq!(of(1, 50_000), Some(3));
    }

    #[test]
    fn cost_of_a_system_has_that_of_its_database() {
        let mut record = record();
        record.load.server_memory_mib = Some(50.0);
        record.window = (0.0, 3.0);
        let column = |key: &str, values: [f64; 3]| Column {
            key: key.to_owned(),
            unit: String::new(),
            values: values.map(Some).to_vec(),
        };
        let columns =
            vec![column("database.cpu", [20.0, 40.0, 60.0]), column("database.memory", [1.0, 2.0, 3.0])];
        record.samples = SeriesReport { interval: 1.0, time: vec![0.0, 1.0, 2.0], columns };
        assert_eq!(record.figure(quantity(Measure::Cpu)), Some(50.0));
        assert_eq!(record.figure(quantity(Measure::CpuPerCall)), Some(5_000.0));
        assert_eq!(record.figure(quantity(Measure::Memory)), Some(53.0));
        record.load.parameters = vec![Fact::new("users", 1_000)];
        assert_eq!(record.figure(quantity(Measure::UsersPerCore)), Some(2_000.0));
    }

    #[test]
    fn calls_of_users_count_when_they_end() {
        let mut record = with_series([9.0, 9.0, 3.0, 3.0, 3.0, 5.0, 5.0, 5.0, 1.0], [0.0; 9]);
        record.load.workload = "population".to_owned();
        // Of the seven seconds from 2 on.
        assert_eq!(record.figure(quantity(Measure::Calls)), Some(25.0 / 7.0));
    }

    #[test]
    fn conformance_is_the_least_share() {
        let mut record = record();
        let row = |key: &str, value: f64| load::report::MetricRow {
            key: key.to_owned(),
            value: Some(value),
            ..Default::default()
        };
        record.load.metrics =
            vec![row("calls.success", 100.0), row("registrations.success", 99.5), row("ser", 40.0)];
        assert_eq!(record.figure(quantity(Measure::Conformance)), Some(99.5));
        assert_eq!(record.figure(quantity(Measure::Registered)), Some(99.5));
        assert_eq!(record.figure(quantity(Measure::Ser)), Some(40.0));
    }

    #[test]
    fn run_without_calls_has_no_figures_for_a_call() {
        let empty = RunRecord::default();
        for (_, measure) in Measure::ALL {
            assert_eq!(empty.figure(quantity(*measure)), None, "{measure:?}");
        }
    }

    #[test]
    fn recovery_ends_with_the_first_good_second() {
        let mut record = with_series(
            [9.0, 9.0, 9.0, 2.0, 0.0, 7.0, 9.0, 9.0, 1.0],
            [0.0, 0.0, 0.0, 5.0, 9.0, 2.0, 0.0, 0.0, 0.0],
        );
        record.load.windows.measured = 6.0;
        record.faults = vec![(1.0, "kill".to_owned())];
        assert_eq!(record.figure(quantity(Measure::Recovery)), Some(3.0));
        // After the last second of the measurement nothing is judged.
        record.faults = vec![(5.5, "kill".to_owned())];
        assert_eq!(record.figure(quantity(Measure::Recovery)), Some(0.5));
    }

    fn with_series(succeeded: [f64; 9], failed: [f64; 9]) -> RunRecord {
        let mut record = record();
        record.load.windows.measured = 7.0;
        record.load.series.interval = 1.0;
        record.load.series.time = (0..9).map(f64::from).collect();
        let column = |key: &str, values: [f64; 9]| Column {
            key: key.to_owned(),
            unit: String::new(),
            values: values.map(Some).to_vec(),
        };
        record.load.series.columns = vec![column("succeeded", succeeded), column("failed", failed)];
        record
    }

    #[test]
    fn success_just_before_the_fault_is_no_recovery() {
        // Killed 20 ms into the second from 4 on: it has a call that succeeded, and none that failed yet.
        let mut record = with_series(
            [9.0, 9.0, 9.0, 9.0, 1.0, 0.0, 0.0, 9.0, 9.0],
            [0.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 0.0, 0.0],
        );
        record.faults = vec![(2.02, "kill".to_owned())];
        let recovery = record.figure(quantity(Measure::Recovery)).expect("a fault");
        assert!((recovery - 2.98).abs() < 1e-9, "{recovery}");
    }

    #[test]
    fn second_with_few_calls_is_no_recovery() {
        let mut record = with_series([9.0, 9.0, 9.0, 9.0, 0.0, 1.0, 4.0, 5.0, 9.0], [0.0; 9]);
        record.faults = vec![(2.0, "stop".to_owned())];
        assert_eq!(record.figure(quantity(Measure::Recovery)), Some(3.0));
        // Where nothing comes back, it lasts to the end.
        record = with_series([9.0, 9.0, 9.0, 9.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0; 9]);
        record.faults = vec![(2.0, "kill".to_owned()), (3.0, "not back".to_owned())];
        assert_eq!(record.figure(quantity(Measure::Recovery)), Some(5.0));
    }

    #[test]
    fn samples_within_the_window_count() {
        let mut record = record();
        record.samples = SeriesReport {
            interval: 1.0,
            time: vec![0.0, 1.0, 2.0, 3.0],
            columns: vec![Column {
                key: "system.cpu".to_owned(),
                unit: "%".to_owned(),
                values: vec![Some(1.0), Some(2.0), None, Some(4.0)],
            }],
        };
        record.window = (1.0, 4.0);
        assert_eq!(record.within("system.cpu"), [2.0, 4.0]);
        assert_eq!(record.within("none"), [0.0; 0]);
    }

    #[test]
    fn lost_datagrams_are_a_share_of_those_sent_in_the_window() {
        let mut record = record();
        let column = |key: &str, values: [f64; 4]| Column {
            key: key.to_owned(),
            unit: "1/s".to_owned(),
            values: values.map(Some).to_vec(),
        };
        record.samples = SeriesReport {
            interval: 1.0,
            time: vec![0.0, 1.0, 2.0, 3.0],
            columns: vec![
                column(SENT, [900.0, 100.0, 300.0, 900.0]),
                column(DELIVERED, [0.0, 99.0, 297.0, 0.0]),
            ],
        };
        record.window = (1.0, 3.0);
        let lost = record.figure(quantity(Measure::Lost)).expect("both are counted");
        assert!((lost - 1.0).abs() < 1e-9, "{lost}");
        // More read than sent: the rest was under way before.
        record.window = (2.0, 3.0);
        record.samples.columns[1].values[2] = Some(301.0);
        assert_eq!(record.figure(quantity(Measure::Lost)), Some(0.0));
    }

    #[test]
    fn record_reads_back_as_it_was_written() {
        let mut record = record();
        record.run = MadeRun { id: "x-b1-A-c1".to_owned(), session: u64::MAX, ..MadeRun::default() };
        record.screened.void = vec!["late".to_owned()];
        // Which run it is and what it is worth stand beside the other keys, as in every archive so far.
        for part in [
            "\"version\":1,\"id\":\"x-b1-A-c1\"",
            "\"void\":[\"late\"],\"reserved\":[],\"of_system\":false,\"notes\":",
        ] {
            assert!(record.to_json().contains(part), "{part}: {}", record.to_json());
        }
        assert_eq!(RunRecord::from_json(&record.to_json()), Ok(record));
        assert!(RunRecord::from_json("{}").is_err());
        assert!(RunRecord::from_json("[2]").is_err());
    }
}
