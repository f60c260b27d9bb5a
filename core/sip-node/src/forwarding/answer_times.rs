//! How soon neighbours answer an INVITE: of those that answer soon, its caller needs no 100.
//!
//! RFC 3261 section 17.2.1 has a server send a 100 "unless it knows that the TU will generate a provisional
//! or final response within 200 ms". A proxy can know this only from earlier requests. A neighbour is
//! expected to answer soon if its latest responses all came in half of that time. If it does not, a timer
//! sends the 100 after 200 ms, before the caller repeats its request (T1, 500 ms).

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

/// Groups that are told apart. Neighbours that share a group are known together: the slowest of them decides.
const GROUPS: usize = 256;
/// An answer is soon that comes within this time: half of what section 17.2.1 allows.
const SOON: Duration = Duration::from_millis(100);
/// Answers of a group in a row that must have been soon.
const ENOUGH: u8 = 16;

/// A group of neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group(u8);

impl Group {
    /// The group of an address. To choose an address that shares another's group gains nothing: callers of
    /// both are sent a 100 at once.
    pub(super) fn of(neighbour: SocketAddr) -> Group {
        let ip = match neighbour.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                (bits >> 64) as u64 ^ bits as u64
            }
        };
        let key = ip ^ u64::from(neighbour.port()) << 40;
        // Multiplication by an odd constant without pattern; the upper bits depend on all of the key's.
        Group((key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
    }
}

/// How soon the neighbours of a worker have answered, by groups.
pub(super) struct AnswerTimes {
    in_a_row: [u8; GROUPS],
}

impl Default for AnswerTimes {
    fn default() -> AnswerTimes {
        AnswerTimes { in_a_row: [0; GROUPS] }
    }
}

impl AnswerTimes {
    /// Whether an INVITE to this group is expected to be answered soon.
    pub(super) fn are_short(&self, group: Group) -> bool {
        self.in_a_row.get(usize::from(group.0)).is_some_and(|&n| n >= ENOUGH)
    }

    /// An INVITE was answered with something other than a 100, `after` it had come; [`Duration::MAX`]: not in
    /// time.
    pub(super) fn note(&mut self, group: Group, after: Duration) {
        if let Some(n) = self.in_a_row.get_mut(usize::from(group.0)) {
            *n = if after <= SOON { n.saturating_add(1) } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> Group {
        Group::of(text.parse().unwrap())
    }

    #[test]
    fn answer_times_are_short_until_an_answer_is_late() {
        let (mut times, a) = (AnswerTimes::default(), group("192.0.2.1:5060"));
        for _ in 0..ENOUGH {
            assert!(!times.are_short(a));
            times.note(a, SOON);
        }
        assert!(times.are_short(a));
        for _ in 0..1_000 {
            times.note(a, Duration::ZERO);
        }
        assert!(times.are_short(a));
        times.note(a, SOON + Duration::from_micros(1));
        assert!(!times.are_short(a));
    }

    #[test]
    fn neighbours_are_spread_over_the_groups() {
        let hits = |all: &mut dyn Iterator<Item = String>| {
            let mut hits = [0u32; GROUPS];
            for text in all {
                hits[usize::from(group(&text).0)] += 1;
            }
            hits.into_iter().max().unwrap()
        };
        // 4,096 over 256 groups: 16 each on average.
        assert!(hits(&mut (0..4_096).map(|n| format!("10.0.{}.{}:5060", n / 256, n % 256))) < 48);
        assert!(hits(&mut (0..4_096).map(|n| format!("192.0.2.7:{}", 10_000 + n))) < 48);
        assert!(hits(&mut (0..4_096).map(|n| format!("[2001:db8::{n:x}]:5060"))) < 48);
    }
}
