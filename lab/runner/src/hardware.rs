//! What `perf stat` counts, for the threads of the watched programs.

use std::collections::BTreeMap;
use std::io;

use lab_kernel::{Event, ThreadCounters};
use load::report::{Fact, SeriesReport};

use crate::sampler::{Kind, Reading, Watched, put};

/// The fact of a machine that says which counters it has.
const FACT: &str = "processor counters";

/// The counters of all programs that were watched so far.
#[derive(Debug, Default)]
pub struct Hardware {
    counters: Vec<(&'static str, ThreadCounters)>,
    /// Why an event has no counters.
    refused: BTreeMap<&'static str, String>,
}

impl Hardware {
    /// Begins to count for further processes.
    pub fn watch(&mut self, watched: &Watched) {
        // Nobody's count is none, and not 0.
        if watched.pids.is_empty() {
            return;
        }
        for event in Event::ALL {
            match ThreadCounters::open(event, &watched.pids) {
                Ok(counters) => self.counters.push((watched.name, counters)),
                Err(error) => {
                    self.refused.insert(event.name(), said(&error));
                }
            }
        }
    }

    /// Adds the counts to a reading.
    pub fn read(&self, reading: &mut Reading) {
        for (name, counters) in &self.counters {
            let key = format!("{name}.{}", counters.event().name());
            put(reading, &key, Kind::Growth, "1/s", counters.read());
        }
    }

    /// Which counters the machine has. Those that stayed zero are hidden, as most virtual machines do: their
    /// columns are removed, because no program executes nothing.
    pub fn facts(&self, samples: &mut SeriesReport) -> Option<Fact> {
        let mut words = Vec::new();
        for event in Event::ALL {
            let ending = format!(".{}", event.name());
            let values: Vec<f64> = samples
                .columns
                .iter()
                .filter(|column| column.key.ends_with(&ending))
                .flat_map(|column| column.values.iter().flatten().copied())
                .collect();
            let state = match self.refused.get(event.name()) {
                Some(why) => why.clone(),
                None if values.is_empty() => continue,
                None if values.iter().all(|value| *value == 0.0) => {
                    samples.columns.retain(|column| !column.key.ends_with(&ending));
                    "hidden by this machine".to_owned()
                }
                None => "counted".to_owned(),
            };
            words.push(format!("{} {state}", event.name()));
        }
        (!words.is_empty()).then(|| Fact::new(FACT, words.join(", ")))
    }
}

fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "not permitted (needs CAP_PERFMON or kernel.perf_event_paranoid = 1)".to_owned()
        }
        // ENOENT: the processor, or the machine that emulates it, has no such counter.
        io::ErrorKind::NotFound => "not in this machine".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::report::Column;

    fn column(key: &str, value: f64) -> Column {
        Column { key: key.to_owned(), unit: String::new(), values: vec![Some(value), None] }
    }

    #[test]
    fn counters_that_stay_zero_are_hidden_and_have_no_column() {
        let columns = vec![column("system.instructions", 0.0), column("system.switches", 7.0)];
        let mut samples = SeriesReport { columns, ..SeriesReport::default() };
        let mut hardware = Hardware::default();
        hardware.refused.insert("cycles", said(&io::Error::from(io::ErrorKind::NotFound)));
        let fact = hardware.facts(&mut samples).expect("something was counted");
        assert_eq!(
            fact.value,
            "instructions hidden by this machine, cycles not in this machine, switches counted"
        );
        assert!(samples.column("system.instructions").is_empty());
        assert_eq!(samples.column("system.switches").len(), 2);
        assert_eq!(Hardware::default().facts(&mut SeriesReport::default()), None);
    }
}
