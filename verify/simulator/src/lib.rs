//! Several Strowger servers, their phones and an attacker in virtual time, from one seed.
//!
//! The servers are the real ones: [`sip_node::Node`]s with all that is below them, driven through
//! [`wire::Machine`] as the runtime drives them. What stands in for the world is small: a network that
//! loses, doubles, delays and cuts; a disk that loses, tears and fails, under the real location service and
//! its real log; name service; phones that register, call, answer and hang up; and an attacker. There is no
//! thread, no clock and no entropy, so that the same seed gives the same bytes at the same times.
//!
//! [`run`] plays one seed and checks what must hold ([`Check`]). A failure prints as the seed, the
//! check and the last messages as a ladder; `SIM_SEED=n cargo test -p simulator` plays it again.
#![forbid(unsafe_code)]

mod attack;
mod check;
mod cluster;
mod disk;
mod mutation;
mod network;
mod phone;
mod records;
mod rng;
mod scenario;
mod services;
mod site;
mod store;
mod text;
mod trace;
mod translation;
mod verdict;
mod world;

pub use check::{Check, Violation};
pub use cluster::{ClusterFailure, ClusterMistake, ClusterOutcome, run_cluster};
pub use mutation::Mutation;
pub use scenario::Weather;
pub use store::{StoreFailure, StoreMistake, StoreOutcome, run_store};

use core::fmt;
use scenario::Scenario;
use world::World;

/// How to play a seed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A deliberate mistake, to test a check.
    pub mutation: Option<Mutation>,
    /// The weather, if it is not to be the seed's own.
    pub weather: Option<Weather>,
    /// Messages to keep for the ladder.
    pub keep: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { mutation: None, weather: None, keep: 60 }
    }
}

/// What a run without a violation did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Outcome {
    /// A hash of all bytes sent and of their times.
    pub hash: u64,
    /// Messages sent, lost ones included.
    pub messages: u64,
    /// Calls tried, and those that were answered.
    pub calls: u64,
    /// See `calls`.
    pub answered: u64,
    /// Final responses that were sent again and compared.
    pub repeated: u64,
    /// Answers of location services that others ask.
    pub told: u64,
    /// Connections of TLS that broke.
    pub broken: u64,
    /// Call records that were compared.
    pub recorded: u64,
}

impl Outcome {
    /// Adds the numbers of another run.
    pub fn add(&mut self, other: &Outcome) {
        self.hash ^= other.hash;
        self.messages += other.messages;
        self.calls += other.calls;
        self.answered += other.answered;
        self.repeated += other.repeated;
        self.told += other.told;
        self.broken += other.broken;
        self.recorded += other.recorded;
    }
}

/// A run with a violation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What did not hold.
    pub violation: Violation,
    /// The last messages.
    pub ladder: String,
    /// The weather of the run.
    pub weather: Weather,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, violation, ladder, weather } = self;
        writeln!(f, "seed {seed} ({weather:?}): {:?} does not hold", violation.check)?;
        writeln!(f, "  {}", violation.detail)?;
        writeln!(f, "{ladder}")?;
        writeln!(f, "again: SIM_SEED={seed} cargo test -p simulator -- --nocapture")
    }
}

/// Plays a seed and checks it.
///
/// # Errors
/// The first property that did not hold.
pub fn run(seed: u64, options: &Options) -> Result<Outcome, Box<Failure>> {
    let mut scenario = Scenario::new(seed);
    if let Some(weather) = options.weather {
        scenario.set_weather(weather);
    }
    let mut world = World::new(seed, scenario, options.mutation, options.keep);
    world.run();
    verdict::judge(&mut world);
    if let Some(violation) = world.violation() {
        return Err(Box::new(Failure {
            seed,
            violation: violation.clone(),
            ladder: world.trace.ladder(|address| world.name_of(address)),
            weather: world.scenario.weather,
        }));
    }
    let calls = world.phones.iter().flat_map(|p| &p.calls);
    Ok(Outcome {
        hash: world.trace.hash(),
        messages: world.trace.messages(),
        calls: calls.clone().count() as u64,
        answered: calls.filter(|c| verdict::is_answered(c)).count() as u64,
        repeated: world.monitor.repeated,
        told: world.told_count(),
        broken: world.network.broken,
        recorded: world.sites.iter().map(|site| site.book.borrow().len() as u64).sum(),
    })
}

/// Plays a seed twice; the second time with `second`'s options.
///
/// # Errors
/// As [`run`], and [`Check::SameBytes`] if the two differ.
pub fn run_twice(seed: u64, first: &Options, second: &Options) -> Result<Outcome, Box<Failure>> {
    let (a, b) = (run(seed, first)?, run(seed, second)?);
    if a == b {
        return Ok(a);
    }
    let detail = format!("{:016x} and {:016x}, {} and {} messages", a.hash, b.hash, a.messages, b.messages);
    Err(Box::new(Failure {
        seed,
        violation: Violation { check: Check::SameBytes, detail },
        ladder: String::new(),
        weather: Scenario::new(seed).weather,
    }))
}
