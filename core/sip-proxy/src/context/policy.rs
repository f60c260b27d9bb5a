//! What the operator decides about forking and rerouting.

use core::time::Duration;

/// How one response context is to behave. Small and `Copy`; each context keeps its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Whether the request is an INVITE: only those have timer C, CANCEL and provisional responses
    /// that are passed on (RFC 3261 16.6 step 11, 9.1; RFC 4320 section 4.1).
    pub invite: bool,
    /// All targets at once, whatever their q. Otherwise equal q in parallel, falling q in turn.
    pub parallel: bool,
    /// One target at a time, whatever their q: those of equal q in the order in which they were added.
    pub serial: bool,
    /// Incoming Max-Breadth, from [`crate::breadth::incoming`].
    pub breadth: u8,
    /// Answer 440 when a group of targets does not fit into the breadth. Otherwise as many as fit
    /// start and the others follow as branches end (RFC 5393 section 5.5).
    pub strict_breadth: bool,
    /// Timer C, in milliseconds. RFC 3261 16.6 step 11 wants more than 3 minutes.
    pub timer_c_ms: u32,
    /// How long a group of targets may ring, in milliseconds from its start; 0: until timer C. Then
    /// the next group is tried, then voicemail, then the call ends with 408.
    pub no_answer_ms: u32,
    /// How long a cancelled branch that never answered at all holds up the others, in milliseconds.
    /// 0: until its client transaction times out (the letter of RFC 3261 16.7).
    pub silence_ms: u32,
    /// When to try voicemail once; [`Reroute::NEVER`] without one.
    pub voicemail: Reroute,
    /// When the call is forwarded by the callee's own rules; see [`super::Context::enter`].
    pub divert: Reroute,
}

impl Policy {
    /// Timer C of 185 seconds, as configured unless told: RFC 3261 wants more than 180.
    pub const TIMER_C_MS: u32 = 185_000;

    /// The default for an INVITE: groups by q, no limit on ringing, no voicemail.
    pub const INVITE: Policy = Policy {
        invite: true,
        parallel: false,
        serial: false,
        breadth: crate::breadth::RECOMMENDED,
        strict_breadth: false,
        timer_c_ms: Policy::TIMER_C_MS,
        no_answer_ms: 0,
        silence_ms: 4_000,
        voicemail: Reroute::NEVER,
        divert: Reroute::NEVER,
    };

    /// The default for any other request.
    pub const OTHER: Policy = Policy { invite: false, ..Policy::INVITE };

    pub(super) fn timer_c(&self) -> Duration {
        Duration::from_millis(self.timer_c_ms.into())
    }

    pub(super) fn no_answer(&self) -> Duration {
        Duration::from_millis(self.no_answer_ms.into())
    }

    pub(super) fn silence(&self) -> Duration {
        Duration::from_millis(self.silence_ms.into())
    }
}

/// Set of the reasons for which a call is rerouted to voicemail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reroute(u8);

impl Reroute {
    /// No voicemail.
    pub const NEVER: Reroute = Reroute(0);
    /// The callee is busy: 486 or 600.
    pub const BUSY: Reroute = Reroute(1);
    /// Nobody answered: the no-answer timer fired, or a phone that rang ended with 408 or 480.
    pub const NO_ANSWER: Reroute = Reroute(2);
    /// The callee declined: 403, 603, 607 or 608.
    pub const REJECTED: Reroute = Reroute(4);
    /// No binding, or the next element knows none: 404, 410, or 480 without ringing.
    pub const UNREGISTERED: Reroute = Reroute(8);
    /// No phone could be reached: 430, 503, 504, a transport error, or silence.
    pub const UNREACHABLE: Reroute = Reroute(16);
    /// All of them.
    pub const ALWAYS: Reroute = Reroute(31);

    /// Both sets together.
    pub const fn and(self, other: Reroute) -> Reroute {
        Reroute(self.0 | other.0)
    }

    /// Whether `reason` is in the set.
    pub const fn has(self, reason: Reroute) -> bool {
        reason.0 != 0 && self.0 & reason.0 == reason.0
    }

    /// Whether any reason is in the set.
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }
}

/// Why a call goes to voicemail, and the `cause` parameter that says so (RFC 4458 section 2.2).
/// `alerted`: some phone rang.
pub(super) fn reason_of(status: u16, generated: bool, alerted: bool) -> Option<(Reroute, u16)> {
    Some(match status {
        486 | 600 => (Reroute::BUSY, 486),
        408 if !alerted && generated => (Reroute::UNREACHABLE, 503),
        408 => (Reroute::NO_ANSWER, 408),
        480 if alerted => (Reroute::NO_ANSWER, 408),
        // "Deflection during alerting" and "Deflection immediate response".
        403 | 603 | 607 | 608 if alerted => (Reroute::REJECTED, 487),
        403 | 603 | 607 | 608 => (Reroute::REJECTED, 480),
        404 | 410 | 480 | 604 => (Reroute::UNREGISTERED, 404),
        430 | 503 | 504 => (Reroute::UNREACHABLE, 503),
        _ => return None,
    })
}

/// Why a call is forwarded by the callee's own rules, as [`reason_of`]. Who declines is busy (603), and it
/// makes no difference whether a phone is not registered or cannot be reached.
pub(super) fn diversion_of(status: u16, generated: bool, alerted: bool) -> Option<(Reroute, u16)> {
    if status == 603 {
        return Some((Reroute::BUSY, 486));
    }
    let (reason, cause) = reason_of(status, generated, alerted)?;
    let reason = if reason == Reroute::UNREGISTERED { Reroute::UNREACHABLE } else { reason };
    Some((reason, cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declined_calls_are_forwarded_as_busy() {
        assert_eq!(diversion_of(603, false, true), Some((Reroute::BUSY, 486)));
        assert_eq!(diversion_of(600, false, true), Some((Reroute::BUSY, 486)));
        assert_eq!(diversion_of(480, false, false), Some((Reroute::UNREACHABLE, 404)));
        assert_eq!(diversion_of(430, false, false), Some((Reroute::UNREACHABLE, 503)));
        assert_eq!(diversion_of(480, false, true), Some((Reroute::NO_ANSWER, 408)));
        assert_eq!(diversion_of(607, false, true), Some((Reroute::REJECTED, 487)));
        assert_eq!(diversion_of(488, false, true), None);
    }

    #[test]
    fn causes_come_from_the_table_of_rfc_4458() {
        let table: [u16; 7] = [404, 486, 408, 302, 487, 480, 503];
        for status in 300..700 {
            for (generated, alerted) in [(false, false), (false, true), (true, false), (true, true)] {
                if let Some((reason, cause)) = reason_of(status, generated, alerted) {
                    assert!(table.contains(&cause), "{status} gives {cause}");
                    assert!(Reroute::ALWAYS.has(reason));
                }
            }
        }
        assert_eq!(reason_of(486, false, true), Some((Reroute::BUSY, 486)));
        assert_eq!(reason_of(480, false, true), Some((Reroute::NO_ANSWER, 408)));
        assert_eq!(reason_of(480, true, false), Some((Reroute::UNREGISTERED, 404)));
        assert_eq!(reason_of(603, false, true), Some((Reroute::REJECTED, 487)));
        assert_eq!(reason_of(408, true, false), Some((Reroute::UNREACHABLE, 503)));
        // A challenge or a media mismatch is the caller's business.
        for status in [401, 407, 415, 420, 484, 488, 302, 487, 500] {
            assert_eq!(reason_of(status, false, true), None);
        }
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let set = Reroute::BUSY.and(Reroute::REJECTED);
        assert!(set.has(Reroute::BUSY) && set.has(Reroute::REJECTED));
        assert!(!set.has(Reroute::NO_ANSWER) && !set.has(Reroute::NEVER));
        assert!(!set.is_never() && Reroute::NEVER.is_never());
    }
}
