//! What new work is counted in, and what becomes of it.

/// Units of an INVITE. Any other new request is one: it is followed by less.
pub const CALL: u32 = 4;
/// Requests of a call: INVITE, ACK and BYE. A rate that is told is one of all requests (RFC 7415 section
/// 3.4).
pub const REQUESTS: f32 = 3.0;
/// What is not taken on is noticed from this part on.
pub const SHED: f32 = 0.005;

/// What becomes of new work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is taken on.
    Take,
    /// It is refused.
    Refuse,
    /// It is not answered.
    Drop,
}
