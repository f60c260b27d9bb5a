//! What there is too little of, and who was refused for it.

use core::net::IpAddr;
use core::time::Duration;
use sip_transaction::Short;
use wire::Time;

/// How long a refusal for lack of room is reported.
const REPORTED: Duration = Duration::from_secs(60);
/// What there is too little of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shortage {
    /// Transactions are at their limit.
    Transactions,
    /// The bytes held of messages are.
    Bytes,
    /// Calls being set up are.
    Calls,
    /// Unproven senders, or one of them, hold their share of any of these.
    Share,
    /// Requests waiting for bindings of others are.
    Waiting,
}

impl From<Short> for Shortage {
    fn from(short: Short) -> Shortage {
        match short {
            Short::Transactions => Shortage::Transactions,
            Short::Bytes => Shortage::Bytes,
            Short::Share => Shortage::Share,
        }
    }
}

/// The last refusal of each kind, and who got it.
#[derive(Default)]
pub(crate) struct Shortages([Option<(Time, IpAddr)>; 5]);

impl Shortages {
    const KINDS: [Shortage; 5] =
        [Shortage::Transactions, Shortage::Bytes, Shortage::Calls, Shortage::Share, Shortage::Waiting];

    /// Notes one; true if there was none in the last minute.
    pub fn note(&mut self, now: Time, kind: Shortage, source: IpAddr) -> bool {
        let Some(last) = self.0.get_mut(kind as usize) else { return false };
        last.replace((now, source)).is_none_or(|(at, _)| now.since(at) >= REPORTED)
    }

    /// Those of the last minute.
    pub fn recent(&self, now: Time) -> Vec<(Shortage, IpAddr)> {
        let kinds = Shortages::KINDS.into_iter().zip(&self.0);
        let recent = |at: Time| now.since(at) < REPORTED;
        kinds.filter_map(|(kind, last)| last.filter(|l| recent(l.0)).map(|l| (kind, l.1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_is_reported_for_a_minute() {
        let (mut shortages, ip) = (Shortages::default(), IpAddr::from([192, 0, 2, 1]));
        let at = Time::from_secs(100);
        assert!(shortages.note(at, Shortage::Share, ip));
        assert!(!shortages.note(at + Duration::from_secs(59), Shortage::Share, ip));
        assert!(shortages.note(at, Shortage::Calls, ip));
        let later = at + Duration::from_secs(60);
        assert_eq!(shortages.recent(later), [(Shortage::Share, ip)]);
        assert_eq!(shortages.recent(later + REPORTED), []);
        assert!(shortages.note(later + REPORTED, Shortage::Share, ip));
    }
}
