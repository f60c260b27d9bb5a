//! What a call, a message and a registration cost in a run (paper 003, Hrischuk and DeVal 2006, section 2.4).

use crate::experiment::Measure;
use crate::record::RunRecord;

/// The fact of a machine whose clock moves by a nanosecond for each instruction.
pub const EMULATED: &str = "emulated machine";

/// Sums over the measurement of one run; nothing where they are not known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Costs {
    /// Calls that succeeded.
    pub calls: Option<f64>,
    /// Messages that the generator sent and received: all of them went through the system.
    pub messages: Option<f64>,
    /// Registrations that succeeded, refreshes included.
    pub registrations: Option<f64>,
    /// Microseconds of processor time of the system.
    pub cpu: Option<f64>,
    /// Instructions of the system, those of the kernel for it included.
    pub instructions: Option<f64>,
    /// Cycles likewise.
    pub cycles: Option<f64>,
    /// Misses of the last level of cache.
    pub cache_misses: Option<f64>,
    /// Changes between threads.
    pub switches: Option<f64>,
    /// Microseconds of processor time of the generator.
    pub generator: Option<f64>,
}

impl Costs {
    /// Those of a run.
    pub fn of(run: &RunRecord) -> Costs {
        let load = &run.load;
        let seconds = load.windows.measured;
        let sampled = |key: &str| {
            let values = run.within(key);
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64 * seconds)
        };
        let counted = |key: &str| load.measured.get(key).map(|count| *count as f64);
        let sum = |of: [Option<f64>; 2]| of.into_iter().flatten().reduce(|a, b| a + b);
        let cpu = run.cpu().map(|percent| percent * 1e4 * seconds);
        let is_emulated = run.machine.iter().any(|fact| fact.name == EMULATED);
        // A microsecond has a thousand instructions there.
        let emulated = cpu.filter(|_| is_emulated).map(|micros| micros * 1e3);
        // With its database, as the processor time.
        let both = |event: &str| {
            let system = sampled(&format!("system.{event}"))?;
            Some(system + sampled(&format!("database.{event}")).unwrap_or(0.0))
        };
        let waits = [sampled("system.waits"), sampled("system.preemptions")];
        Costs {
            calls: run.succeeded(),
            messages: messages(run),
            registrations: sum(["registrations_ok", "refreshes_ok"].map(counted)).or_else(|| registers(run)),
            cpu,
            instructions: emulated.or_else(|| both("instructions")),
            cycles: both("cycles"),
            cache_misses: both("cache_misses"),
            switches: both("switches").or_else(|| sum(waits)),
            generator: sampled("generator.cpu").map(|percent| percent * 1e4),
        }
    }

    /// The figure of a measure that is a cost.
    pub fn figure(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::CpuPerCall => per(self.cpu, self.calls),
            Measure::CpuPerMessage => per(self.cpu, self.messages),
            Measure::CpuPerRegistration => per(self.cpu, self.registrations),
            Measure::InstructionsPerCall => per(self.instructions, self.calls),
            Measure::CyclesPerCall => per(self.cycles, self.calls),
            _ => None,
        }
    }
}

/// A quotient; nothing where there was no event.
pub fn per(what: Option<f64>, of: Option<f64>) -> Option<f64> {
    Some(what? / of.filter(|of| *of > 0.0)?)
}

/// Each REGISTER of a scenario with its 200 is a registration, if calls do nothing else.
fn registers(run: &RunRecord) -> Option<f64> {
    let measured = &run.load.measured;
    let sent = measured.get("requests_sent.REGISTER")?;
    let others = measured.iter().any(|(key, count)| {
        key.starts_with("requests_sent.") && key != "requests_sent.REGISTER" && *count > 0
    });
    let answered = measured.get("responses_received.200")?;
    (!others).then(|| *sent.min(answered) as f64)
}

/// Messages by the series of the generator, within its measurement: an interval that is only in part within
/// it counts by that part. Where the series ends before, its rate is that of the rest.
fn messages(run: &RunRecord) -> Option<f64> {
    let (series, windows) = (&run.load.series, &run.load.windows);
    let (from, to) = (windows.before(), windows.before() + windows.measured);
    let columns = [series.column("sent"), series.column("received")];
    let (mut sum, mut covered) = (0.0, 0.0);
    for (nth, at) in series.time.iter().enumerate() {
        let part = (at + series.interval).min(to) - at.max(from);
        let rates: Vec<f64> =
            columns.iter().filter_map(|column| column.get(nth).copied().flatten()).collect();
        if part > 0.0 && !rates.is_empty() {
            sum += part * rates.iter().sum::<f64>();
            covered += part;
        }
    }
    (covered > 0.0).then(|| sum * windows.measured / covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::{Column, SeriesReport};

    fn column(key: &str, values: &[f64]) -> Column {
        let values = values.iter().copied().map(Some).collect();
        Column { key: key.to_owned(), unit: String::new(), values }
    }

    fn record() -> RunRecord {
        let mut record = RunRecord { window: (1.0, 5.0), ..RunRecord::default() };
        record.load.windows.measured = 4.0;
        record.load.server_cpu_percent = Some(10.0);
        record.load.measured.insert("calls.succeeded".to_owned(), 100);
        record.load.series = SeriesReport {
            interval: 1.0,
            time: (0..5).map(f64::from).collect(),
            columns: vec![column("sent", &[100.0; 5]), column("received", &[300.0; 5])],
        };
        record.samples = SeriesReport {
            interval: 1.0,
            time: (0..6).map(f64::from).collect(),
            columns: vec![column("system.instructions", &[0.0, 1e6, 1e6, 1e6, 1e6, 0.0])],
        };
        record
    }

    #[test]
    fn costs_are_sums_of_the_measurement_by_events() {
        let costs = Costs::of(&record());
        // A tenth of a core for four seconds is 400,000 us.
        assert_eq!(costs.figure(Measure::CpuPerCall), Some(4_000.0));
        assert_eq!(costs.figure(Measure::CpuPerMessage), Some(250.0));
        assert_eq!(costs.figure(Measure::InstructionsPerCall), Some(40_000.0));
        assert_eq!(
            (costs.figure(Measure::CyclesPerCall), costs.figure(Measure::CpuPerRegistration)),
            (None, None)
        );
    }

    #[test]
    fn messages_are_those_of_the_real_interval() {
        let mut record = record();
        record.load.series.columns = vec![column("sent", &[100.0, 200.0, 400.0, 800.0, 1_600.0])];
        // From 1.5 to 3.75 s: half of the second, the third, three quarters of the fourth.
        (record.load.windows.warm_up, record.load.windows.measured) = (1.5, 2.25);
        assert_eq!(Costs::of(&record).messages, Some(100.0 + 400.0 + 600.0));
        // A series that ends before the measurement, at 5 s of 6.
        (record.load.windows.warm_up, record.load.windows.measured) = (4.0, 2.0);
        assert_eq!(Costs::of(&record).messages, Some(3_200.0));
        (record.load.windows.warm_up, record.load.windows.measured) = (9.0, 1.0);
        assert_eq!(Costs::of(&record).messages, None);
    }

    #[test]
    fn microseconds_of_an_emulated_machine_are_instructions() {
        let mut record = record();
        record.machine.push(load::report::Fact::new(EMULATED, ""));
        // 4,000 us a call.
        assert_eq!(Costs::of(&record).figure(Measure::InstructionsPerCall), Some(4_000_000.0));
    }

    #[test]
    fn registrations_are_those_of_users_or_of_a_scenario() {
        let mut record = record();
        let count = |record: &mut RunRecord, key: &str, count| {
            record.load.measured.insert(key.to_owned(), count);
        };
        count(&mut record, "requests_sent.REGISTER", 80);
        count(&mut record, "responses_received.200", 50);
        assert_eq!(Costs::of(&record).registrations, Some(50.0));
        count(&mut record, "requests_sent.INVITE", 1);
        assert_eq!(Costs::of(&record).registrations, None, "other requests have a 200 too");
        count(&mut record, "registrations_ok", 3);
        count(&mut record, "refreshes_ok", 4);
        assert_eq!(Costs::of(&record).registrations, Some(7.0));
    }
}
