//! What the operator has set for calls to users who have rules for them.

/// What the operator has set for forwarding by the rules of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallForwarding {
    /// Forwardings of one call, those of earlier servers included, at most.
    pub limit: u32,
    /// How long the phones of a user ring who forwards calls that nobody answers and has set no time,
    /// milliseconds.
    pub ring_ms: u32,
    /// The answer for a user who does not want to be disturbed: 480 or 486.
    pub quiet_status: u16,
    /// Requests to trunks report forwardings in Diversion (RFC 5806).
    pub diversion: bool,
    /// All requests report them in History-Info (RFC 7044).
    pub history: bool,
}

impl Default for CallForwarding {
    fn default() -> CallForwarding {
        CallForwarding { limit: 5, ring_ms: 20_000, quiet_status: 486, diversion: true, history: true }
    }
}
