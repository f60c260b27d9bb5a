//! What the dashboard shows as it changes.

use super::model::{BalancedNode, State};
use crate::metrics::Distribution;
use serde::{Deserialize, Serialize};

/// The state of a server in numbers, small enough to be sent each second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// What this server is, and what it has by that.
    #[serde(flatten)]
    pub role: LiveRole,
    /// When it was taken, milliseconds since the server started.
    pub at_ms: u64,
    /// Where the server is in its life.
    pub state: State,
    /// Calls in progress.
    pub calls: u64,
    /// Stream connections open.
    pub connections: u64,
    /// Messages received since start.
    pub messages_received: u64,
    /// Messages sent since start.
    pub messages_sent: u64,
    /// What the operator should act on now.
    pub alarms: Vec<String>,
}

/// What a server is; `role` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum LiveRole {
    /// A proxy and registrar.
    Serve(LiveServe),
    /// A load balancer.
    Balance(LiveBalance),
}

/// What only `strowger serve` has. Totals are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveServe {
    /// Addresses-of-record with a binding.
    pub registered: u64,
    /// Bindings.
    pub bindings: u64,
    /// INVITEs of new calls answered with a 2xx.
    pub calls_answered: u64,
    /// INVITEs of new calls that ended otherwise.
    pub calls_failed: u64,
    /// REGISTER requests accepted.
    pub registrations: u64,
    /// REGISTER requests refused.
    pub registrations_refused: u64,
    /// Requests refused before anything was remembered: malformed, loops, by policy, for lack of room.
    pub requests_refused: u64,
    /// New requests not accepted because of overload.
    pub overload_refused: u64,
    /// Workers that refuse new work now because of overload.
    pub overloaded_workers: u64,
    /// Whether new work is refused, in words.
    pub overload: String,
    /// Times from an INVITE to its 2xx.
    pub setup: Times,
    /// Times from any other forwarded request to its final response.
    pub answer: Times,
}

/// What only `strowger balance` has. Totals are since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveBalance {
    /// Who gets a new call.
    pub algorithm: String,
    /// Transactions given to nodes.
    pub assigned: u64,
    /// Requests refused.
    pub requests_refused: u64,
    /// New requests that a node did not get because it asks for less.
    pub held_back: u64,
    /// The nodes in their order.
    pub nodes: Vec<BalancedNode>,
}

/// Durations since the start, by size: upper bound in microseconds, and how many are above the bound before
/// it and not above this one. Two of them give the quantiles of the time between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times(pub Vec<(u64, u64)>);

impl From<&Distribution> for Times {
    fn from(all: &Distribution) -> Times {
        Times(all.filled().collect())
    }
}
