//! What the server and the client transactions of a layer have in common.

use crate::counts::Counts;
use crate::id::Generations;
use crate::pool::Pool;
use crate::timing::Timing;

/// Passed to whatever is done with a transaction.
pub(super) struct Shared {
    pub timing: Timing,
    pub pool: Pool,
    pub generations: Generations,
    /// For reading our own stored messages again: to build ACK and CANCEL, and to compare tags.
    pub scratch: sip_message::Index,
    /// Counters; the gauges in it are not kept.
    pub counts: Counts,
}
