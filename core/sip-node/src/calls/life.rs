//! Which calls go on, as far as their session timers tell (RFC 4028 section 8.3).

use core::time::Duration;
use wire::Time;

/// What is known of an answered call whose end was not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// The session interval since its last refresh is not over.
    Live,
    /// It has no session timer, or none was asked for.
    Unknown,
    /// The session interval is over without a refresh and without a BYE.
    Lost,
}

impl Life {
    /// Of a call with this session interval (seconds; 0: none) that was last refreshed at `seen`.
    pub(crate) fn of(session: u32, seen: Time, now: Time) -> Life {
        match session {
            0 => Life::Unknown,
            seconds if now < seen + Duration::from_secs(seconds.into()) => Life::Live,
            _ => Life::Lost,
        }
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Life::Live => "live",
            Life::Unknown => "unknown",
            Life::Lost => "lost",
        }
    }
}
