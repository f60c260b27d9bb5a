//! `[network]`: what is between generator and system.

use super::forms::amount;
use super::keys::keys;
use std::time::Duration;
use toml_form::form::{choice, length, number};
use toml_form::named;

named! {
    /// What connects generator and system.
    NetworkKind {
        /// The loopback interface of this machine.
        Loopback = "loopback",
        /// Two network namespaces with a pair of virtual cards between them.
        Namespaces = "namespaces",
    }
}

keys! {
    /// `[network]`: what is between generator and system.
    pub struct Network = "[network]" {
        /// Kind of the network. `namespaces`: generator and system each have a network namespace for the run,
        /// with a pair of virtual cards between them. It needs root, or `unshare -Urn`.
        kind: NetworkKind = NetworkKind::Loopback, choice(NetworkKind::ALL);
        /// How long a packet takes, in each direction.
        delay: Duration = Duration::ZERO, length(Duration::ZERO..=Duration::from_secs(10));
        /// Packets that are lost at random in each direction, percent.
        loss: f64 = 0.0, amount(0.0..=100.0);
        /// Rate in each direction, Mbit/s. 0: no limit.
        rate: f64 = 0.0, amount(0.0..=100_000.0);
        /// Packets that may wait in each direction if there is a `rate`. Further ones are lost.
        queue: u32 = 1_000, number(1..=1_000_000);
    }
}

impl Network {
    /// Whether generator and system have namespaces of their own.
    pub fn is_apart(&self) -> bool {
        self.kind == NetworkKind::Namespaces
    }
}
