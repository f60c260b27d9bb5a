//! What the admin API says of a called number.

use serde::{Deserialize, Serialize};

/// Where calls to a number go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberRoute {
    /// The number as it is looked up.
    pub number: String,
    /// The longest prefix that the route table or a trunk has; none: no trunk serves the number.
    pub prefix: Option<String>,
    /// Where that prefix stands, in words.
    pub source: Option<String>,
    /// What comes before trunks, and so gets the call: a `[[route]]` or `[emergency]`.
    pub before: Option<String>,
    /// The trunks in the order in which they are tried.
    pub trunks: Vec<NumberTrunk>,
}

/// A trunk that calls to a number are tried at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberTrunk {
    /// Its name.
    pub trunk: String,
    /// The line of the row in the file; none: the trunk has the prefix itself.
    pub line: Option<u32>,
    /// The priority of the row. The lowest is tried first.
    pub priority: Option<u16>,
    /// The cost of the row. Of equal priority the lowest is tried first.
    pub cost: Option<f64>,
    /// Its targets, in failover order.
    pub targets: Vec<String>,
    /// Those of them that are down: they are tried last, behind those of the other trunks.
    pub down: Vec<String>,
}
