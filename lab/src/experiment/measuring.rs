//! How a run is warmed up, measured and sampled, where its parts are, and how often it is repeated.

use super::named::named;
use std::fmt;
use std::time::Duration;

named! {
    /// A time series that is sampled each second.
    Series {
        /// Calls a second, by the generator.
        Rate = "rate",
        /// Response times, by the generator.
        Response = "response",
        /// Processor time of each thread of the system.
        Cpu = "cpu",
        /// Memory of the system (PSS).
        Memory = "memory",
        /// Context switches of the system.
        Switches = "switches",
        /// Processor time of softirqs on each processor.
        Softirq = "softirq",
        /// Datagrams that the kernel dropped (UdpRcvbufErrors, softnet, listen queues).
        Drops = "drops",
        /// Slab memory of the kernel.
        Slab = "slab",
        /// Instructions and cycles of the system (`perf stat`).
        Instructions = "instructions",
    }
}

/// How a run is warmed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Until rate and processor time are steady.
    Steady,
    /// For a fixed time.
    Fixed(Duration),
}

/// How often each block is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetitions {
    /// This number of blocks.
    Blocks(u32),
    /// As many blocks as fit into this time, two at least.
    Within(Duration),
}

/// How a run is warmed up and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measuring {
    /// How long calls are made before the measurement.
    pub warm_up: WarmUp,
    /// How long a warm-up until steady may take; a run that is not steady by then says so.
    pub warm_up_limit: Duration,
    /// Length of the measurement.
    pub measure: Duration,
    /// What is sampled each second.
    pub sample: Vec<Series>,
}

impl Measuring {
    /// Time before the measurement: the least and the most.
    pub fn warm_up_bounds(&self) -> (Duration, Duration) {
        match self.warm_up {
            WarmUp::Fixed(length) => (length, length),
            WarmUp::Steady => (LEAST_WARM_UP.min(self.warm_up_limit), self.warm_up_limit),
        }
    }
}

/// A warm-up until steady has samples of this length at least.
pub const LEAST_WARM_UP: Duration = Duration::from_secs(5);

impl Default for Measuring {
    fn default() -> Measuring {
        let all = Series::ALL.iter().map(|(_, series)| *series);
        Measuring {
            warm_up: WarmUp::Steady,
            warm_up_limit: Duration::from_secs(30),
            measure: Duration::from_secs(10),
            sample: all.filter(|series| *series != Series::Instructions).collect(),
        }
    }
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// The machine that runs the experiment.
    #[default]
    Local,
    /// Another one, reached by `ssh`: `user@host` or `host`.
    Ssh(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Local => f.write_str("local"),
            Host::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

/// Where the parts of a run are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The system under test.
    pub system: Host,
    /// The generator.
    pub load: Host,
}
