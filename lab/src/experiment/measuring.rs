//! How a run is warmed up and measured, where its parts are, and how often it is repeated.

use super::forms::{amount, host, warm_up};
use super::keys::keys;
use std::fmt;
use std::time::Duration;
use toml_form::form::{DAY, HOUR, flag, length};

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

keys! {
    /// How a run is warmed up and measured.
    pub struct Measuring = "" {
        /// How long calls are made before the measurement: until rate and processor time are steady, or for a
        /// fixed time.
        warm_up: WarmUp = WarmUp::Steady, warm_up();
        /// Longest warm-up until steady, 17 s or more, because shorter series of samples show nothing. A run
        /// that is not steady by then is measured, and the report names it.
        warm_up_limit: Duration = Duration::from_secs(30), length(Duration::from_secs(1)..=HOUR);
        /// Length of the measurement.
        measure: Duration = Duration::from_secs(10), length(Duration::from_secs(1)..=DAY);
        /// Percent of the calls of a run that may fail without effect on its figures. With more failures,
        /// only these figures count: success, failures, calls/s, peak, and the shares and rates of a
        /// population.
        tolerated_failures: f64 = 0.01, amount(0.0..=100.0);
        /// Percent of the requests of a run that may be repeated without effect on its figures. With more,
        /// only retransmissions and the figures about failures count.
        tolerated_retransmissions: f64 = 0.01, amount(0.0..=100.0);
        /// Whether all runs are made in an emulated machine, whose clock counts instructions: for
        /// `instructions/call` where the processor hides its counters. It is about fifty times slower and has
        /// one processor. It needs QEMU, busybox, cpio and a kernel of Debian's packages.
        emulated: bool = false, flag();
        /// Whether packets of the system are captured for half a second just before the measurement and just
        /// after it, into the archive of the run. For the second capture calls continue for a second.
        capture: bool = true, flag();
        /// Whether a witness in the kernel counts the packets between generator and system. It takes about a
        /// third of a microsecond for each packet.
        witness: bool = true, flag();
    }
}

impl Measuring {
    /// Whether calls that last so long are warmed up by the run that measures them: until steady they need as
    /// long as they last.
    pub fn is_long(&self, hold: Duration) -> bool {
        self.warm_up == WarmUp::Steady && hold > LONG
    }

    /// Time before the measurement: the least and the most.
    pub fn warm_up_bounds(&self) -> (Duration, Duration) {
        match self.warm_up {
            WarmUp::Fixed(length) => (length, length),
            WarmUp::Steady => {
                let most = self.warm_up_limit.saturating_add(SETTLE);
                (LEAST_WARM_UP.saturating_add(SETTLE).min(most), most)
            }
        }
    }
}

/// Samples of a window in which a series is to be steady, one a second. A statement needs two windows.
pub const STEADY_WINDOW: usize = 8;
/// A warm-up until steady takes this long at least: two windows, and the rest of the second in which it
/// begins.
pub const LEAST_WARM_UP: Duration = Duration::from_secs(2 * STEADY_WINDOW as u64 + 1);
/// The generator that measures has this long to reach its rate after a warm-up until steady, which has a
/// generator of its own.
pub const SETTLE: Duration = Duration::from_secs(1);
/// Calls that last longer than this are long.
const LONG: Duration = Duration::from_secs(2);

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

keys! {
    /// `[hosts]`: where the parts of a run are.
    pub struct Hosts = "[hosts]" {
        /// The system under test.
        system: Host = Host::Local, host();
        /// The generator.
        load: Host = Host::Local, host();
    }
}
