//! Which processors the parts of a run have: different cores for system and generator where there are two.

use std::fs;

use lab::experiment::System;
use rustix::thread::{CpuSet, sched_getaffinity};

/// A processor that this program may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processor {
    number: u32,
    /// The first processor of its core: hyperthreads of a core have the same one.
    core: u32,
}

/// The processors that this program may use, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    usable: Vec<Processor>,
}

/// The processors of a run. An empty list: all that this program may use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Places {
    /// Of the system under test.
    pub system: Vec<u32>,
    /// Of the generator, and of the servers behind the system.
    pub generator: Vec<u32>,
}

impl Machine {
    /// This machine, as far as a cpuset or `taskset` lets this program use it.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn here() -> Result<Machine, String> {
        let set =
            sched_getaffinity(None).map_err(|error| format!("the processors of this program: {error}"))?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number));
        let usable = numbers.filter_map(|number| u32::try_from(number).ok());
        Ok(Machine { usable: usable.map(|number| Processor { number, core: core_of(number) }).collect() })
    }

    /// The places of a run. `alone`: the generator has one worker, so that one processor is enough for it.
    ///
    /// # Errors
    /// If the system is to have a processor that this program may not use.
    pub fn places(&self, system: &System, alone: bool) -> Result<Places, String> {
        if let Some(missing) = system.cpus.iter().find(|cpu| self.find(**cpu).is_none()) {
            let all: Vec<String> = self.usable.iter().map(|usable| usable.number.to_string()).collect();
            return Err(format!(
                "cpus: no processor {missing} for this program; it may use {}",
                all.join(", ")
            ));
        }
        let Some(first) = self.usable.first().filter(|_| alone && self.usable.len() >= 2) else {
            return Ok(Places { system: system.cpus.clone(), generator: Vec::new() });
        };
        let own = if system.cpus.is_empty() { vec![first.number] } else { system.cpus.clone() };
        let generator = self.away_from(&own).into_iter().collect();
        // More workers than one need more than one processor.
        let bound = !system.cpus.is_empty() || system.workers <= 1;
        Ok(Places { system: if bound { own } else { Vec::new() }, generator })
    }

    /// What of the places makes the generator a burden of the system; nothing if each has its own core.
    pub fn shared(&self, places: &Places) -> Option<&'static str> {
        let cores = |numbers: &[u32]| -> Vec<u32> {
            let found = |number: &u32| self.find(*number).map(|processor| processor.core);
            numbers.iter().filter_map(found).collect()
        };
        if places.system.is_empty() || places.generator.is_empty() {
            return Some("system and generator share processors");
        }
        if places.system.iter().any(|number| places.generator.contains(number)) {
            return Some("system and generator share a processor");
        }
        let (system, generator) = (cores(&places.system), cores(&places.generator));
        system.iter().any(|core| generator.contains(core)).then_some("system and generator share a core")
    }

    /// A processor outside of `taken`, of another core if there is one.
    fn away_from(&self, taken: &[u32]) -> Option<u32> {
        let cores: Vec<u32> = taken.iter().filter_map(|number| Some(self.find(*number)?.core)).collect();
        let free = || self.usable.iter().filter(|processor| !taken.contains(&processor.number));
        let other = free().find(|processor| !cores.contains(&processor.core));
        other.or_else(|| free().next()).map(|processor| processor.number)
    }

    fn find(&self, number: u32) -> Option<&Processor> {
        self.usable.iter().find(|processor| processor.number == number)
    }
}

impl Places {
    /// For the record: "system 0; generator 1".
    pub fn text(&self) -> String {
        let list = |numbers: &[u32]| {
            let all: Vec<String> = numbers.iter().map(u32::to_string).collect();
            if all.is_empty() { "all".to_owned() } else { all.join(", ") }
        };
        format!("system {}; generator {}", list(&self.system), list(&self.generator))
    }
}

/// The first processor of the core that a processor belongs to; itself where the kernel does not tell.
fn core_of(number: u32) -> u32 {
    let folder = format!("/sys/devices/system/cpu/cpu{number}/topology");
    // The older name of the list comes second.
    let list = ["core_cpus_list", "thread_siblings_list"]
        .into_iter()
        .find_map(|name| fs::read_to_string(format!("{folder}/{name}")).ok());
    list.and_then(|list| first_of(&list)).unwrap_or(number)
}

/// The first number of a list such as "0-1" or "3,7".
fn first_of(list: &str) -> Option<u32> {
    list.trim().split([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: &[(u32, u32)]) -> Machine {
        Machine {
            usable: cores.iter().map(|(number, core)| Processor { number: *number, core: *core }).collect(),
        }
    }

    fn system(cpus: &[u32], workers: u32) -> System {
        System { cpus: cpus.to_vec(), workers, ..System::default() }
    }

    fn places(machine: &Machine, system: &System) -> (Vec<u32>, Vec<u32>) {
        let places = machine.places(system, true).expect("they are usable");
        (places.system, places.generator)
    }

    #[test]
    fn system_and_generator_get_different_cores() {
        // Hyperthreads with neighbouring numbers, and a cpuset that begins at 2.
        let threads = machine(&[(2, 2), (3, 2), (4, 4), (5, 4)]);
        assert_eq!(places(&threads, &system(&[], 1)), (vec![2], vec![4]));
        assert_eq!(threads.shared(&threads.places(&system(&[], 1), true).expect("usable")), None);
        // Both hyperthreads of the only core.
        let one = machine(&[(6, 6), (7, 6)]);
        let both = one.places(&system(&[], 1), true).expect("usable");
        assert_eq!((&*both.system, &*both.generator), (&[6][..], &[7][..]));
        assert_eq!(one.shared(&both), Some("system and generator share a core"));
    }

    #[test]
    fn generator_keeps_away_from_the_processors_of_a_system() {
        let four = machine(&[(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(places(&four, &system(&[1], 1)), (vec![1], vec![0]));
        assert_eq!(places(&four, &system(&[0, 1, 2], 3)), (vec![0, 1, 2], vec![3]));
        // Several workers are bound to nothing unless the experiment says so.
        assert_eq!(places(&four, &system(&[], 2)), (vec![], vec![1]));
        // Nothing is left for the generator.
        let all = four.places(&system(&[0, 1, 2, 3], 4), true).expect("usable");
        assert_eq!(all.generator, [0; 0]);
        assert_eq!(four.shared(&all), Some("system and generator share processors"));
        assert_eq!(four.places(&system(&[2], 1), false).expect("usable").generator, [0; 0]);
    }

    #[test]
    fn processor_outside_of_the_cpuset_is_refused() {
        let two = machine(&[(2, 2), (5, 5)]);
        let error = two.places(&system(&[0], 1), true).expect_err("it is not usable");
        assert_eq!(error, "cpus: no processor 0 for this program; it may use 2, 5");
        assert_eq!(machine(&[(3, 3)]).places(&system(&[], 1), true), Ok(Places::default()));
    }

    #[test]
    fn processors_here_are_those_of_this_program() {
        let here = Machine::here().expect("they are known");
        assert!(!here.usable.is_empty());
        assert_eq!(["0-1", "3,7\n", "5", ""].map(first_of), [Some(0), Some(3), Some(5), None]);
    }
}
