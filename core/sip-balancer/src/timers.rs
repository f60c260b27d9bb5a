//! Times of RFC 3261 that the balancer goes by.

use core::time::Duration;

/// T1 (RFC 3261 section 17.1.1.1).
pub(crate) const T1: Duration = Duration::from_millis(500);
/// T2 (RFC 3261 section 17.1.2.1).
pub(crate) const T2: Duration = Duration::from_secs(4);
/// Grace after timers B and F of the client, which are 32 s by default.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(33);
/// How long a late retransmission may come: 64*T1 (RFC 3261 section 17).
pub(crate) const LATE: Duration = Duration::from_secs(32);
