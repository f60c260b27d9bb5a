//! Timer values (RFC 3261 section 17 and table 4; RFC 4320; RFC 6026).

use core::time::Duration;

/// The base values of all transaction timers.
///
/// Timers that send or that report a failure fire at their time (within a tick of the wheel, 4.1 ms).
/// Those that only keep a finished transaction in memory (D, I, J, K, L, M) may fire up to T1 late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timers {
    /// Round-trip time estimate; 500 ms unless the network is closed and known to be faster.
    pub t1: Duration,
    /// Longest interval between retransmissions of a non-INVITE request or an INVITE response; 4 s.
    pub t2: Duration,
    /// How long a message can stay in the network; 5 s.
    pub t4: Duration,
    /// How long an INVITE transaction of either side may go without anything new (a provisional
    /// response, a final one) before it is ended for good. RFC 3261 has no such bound; without it a
    /// transaction user that forgets to answer would leak. Must be longer than its timer C (more
    /// than 3 minutes, section 16.6 step 11). 240 s.
    pub lifetime: Duration,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            lifetime: Duration::from_secs(240),
        }
    }
}

impl Timers {
    /// 64*T1: timers B, F, H, L, M, and J on unreliable transports.
    pub const fn t1_x64(&self) -> Duration {
        self.t1.saturating_mul(64)
    }

    /// Timer D on unreliable transports: how long a client transaction acknowledges retransmissions
    /// of a failure. At least 32 s whatever our T1, since the server's may be another (17.1.1.2).
    pub fn timer_d(&self) -> Duration {
        self.t1_x64().max(Duration::from_secs(32))
    }

    /// How long a non-INVITE server transaction waits for its answer. The client gives up after
    /// 64*T1 (timer F); the transaction user's own client transaction, started a little later, gets
    /// T4 more so that its end is seen first.
    pub fn non_invite_lifetime(&self) -> Duration {
        self.t1_x64().saturating_add(self.t4)
    }

    /// How long after a non-INVITE request a 100 may first be sent over an unreliable transport: when
    /// the client's timer E has come to T2 (RFC 4320 4.1); 3.5 s with the default values. An element
    /// that has not answered by then must send it.
    pub fn early_trying(&self) -> Duration {
        let (mut waited, mut interval) = (Duration::ZERO, self.t1);
        // 64 doublings reach any T2 from any T1 that is not zero.
        for _ in 0..64 {
            waited = waited.saturating_add(interval);
            interval = interval.saturating_mul(2);
            if interval >= self.t2 {
                break;
            }
        }
        waited
    }
}

/// [`Timers`] in microseconds, as the machines use them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clock {
    pub t1: u64,
    pub t2: u64,
    pub t4: u64,
    pub t1_x64: u64,
    pub d: u64,
    pub lifetime: u64,
    pub non_invite_lifetime: u64,
    pub early_trying: u64,
}

impl Clock {
    pub(crate) fn new(timers: &Timers) -> Clock {
        // A zero T1 would retransmit without end at one instant.
        let t1 = timers.t1.max(Duration::from_millis(1));
        let timers = Timers { t1, t2: timers.t2.max(t1), ..*timers };
        Clock {
            t1: micros(timers.t1),
            t2: micros(timers.t2),
            t4: micros(timers.t4),
            t1_x64: micros(timers.t1_x64()),
            d: micros(timers.timer_d()),
            lifetime: micros(timers.lifetime.max(timers.t1_x64())),
            non_invite_lifetime: micros(timers.non_invite_lifetime()),
            early_trying: micros(timers.early_trying()),
        }
    }
}

/// Microseconds, at most ten years: sums with a time do not overflow.
fn micros(duration: Duration) -> u64 {
    const TEN_YEARS: u64 = 10 * 366 * 86_400 * 1_000_000;
    u64::try_from(duration.as_micros()).unwrap_or(TEN_YEARS).min(TEN_YEARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_values_are_those_of_table_4() {
        let timers = Timers::default();
        assert_eq!(timers.t1_x64(), Duration::from_secs(32));
        assert_eq!(timers.timer_d(), Duration::from_secs(32));
        assert_eq!(timers.early_trying(), Duration::from_millis(3_500));
        assert!(timers.lifetime > Duration::from_secs(180));
    }

    #[test]
    fn timer_d_has_a_floor_and_follows_a_long_t1() {
        let with = |ms| Timers { t1: Duration::from_millis(ms), ..Timers::default() }.timer_d();
        assert_eq!((with(10), with(1_000)), (Duration::from_secs(32), Duration::from_secs(64)));
    }

    #[test]
    fn absurd_values_are_made_harmless() {
        let zero =
            Timers { t1: Duration::ZERO, t2: Duration::ZERO, t4: Duration::ZERO, lifetime: Duration::ZERO };
        let clock = Clock::new(&zero);
        assert!(clock.t1 > 0 && clock.t2 >= clock.t1 && clock.lifetime >= clock.t1_x64);
        let max = Timers { t1: Duration::MAX, t2: Duration::MAX, t4: Duration::MAX, lifetime: Duration::MAX };
        let clock = Clock::new(&max);
        assert!(clock.t1_x64.checked_mul(4).is_some());
    }
}
