//! What is held of requests, and on whose account (see `docs/design/memory.md`).

use crate::inbound::RETRY_AFTER;
use crate::node::Node;
use crate::proxied::Proxied;
use crate::services::{Counter, Services};
use core::net::IpAddr;
use core::time::Duration;
use sip_transaction::{Prepared, Short};
use wire::{Flow, Outbox, Time};

/// How long a refusal for lack of room is reported.
const REPORTED: Duration = Duration::from_secs(60);
/// Requests of at least this length are kept once for all their branches. Shorter ones are copied for each:
/// that takes less time, and little more memory than storing the differences.
pub(crate) const SHARED: usize = 2_048;

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
pub(crate) struct Shortages([Option<(Time, IpAddr)>; 4]);

impl Shortages {
    const KINDS: [Shortage; 4] = [Shortage::Transactions, Shortage::Bytes, Shortage::Calls, Shortage::Share];

    /// Notes one; true if there was none in the last minute.
    fn note(&mut self, now: Time, kind: Shortage, source: IpAddr) -> bool {
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

impl<S: Services> Node<S> {
    /// Refuses for lack of room.
    #[cold]
    pub(crate) fn crowded(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        kind: Shortage,
        out: &mut Outbox,
    ) {
        self.site.services().count(Counter::Overload);
        let source = self.site.settings().auth.source(flow.remote.ip(), request);
        if self.shortages.note(now, kind, source) {
            self.site.services().crowded(kind, source);
        }
        self.refuse(flow, request, 503, b"", RETRY_AFTER, out);
    }

    /// Keeps the received request.
    pub(crate) fn hold(&mut self, p: &mut Proxied, bytes: &[u8]) {
        let original = self.proxied.original(bytes);
        self.layer.hold(p.payer, &original);
        p.request = Some(original);
    }

    /// Puts a request back that was taken out, charged for what it holds now.
    pub(crate) fn put_back(&mut self, mut p: Box<Proxied>) {
        let held = p.held();
        self.layer.charge(p.payer, p.charged, held);
        p.charged = held;
        self.proxied.put(p);
    }

    /// Frees one that was taken out.
    pub(crate) fn free(&mut self, mut p: Box<Proxied>) {
        self.let_go(&mut p);
        self.proxied.free(p);
    }

    /// Keeps of one that was taken out what an accepted INVITE needs.
    pub(crate) fn keep_accepted(&mut self, mut p: Box<Proxied>) {
        self.let_go(&mut p);
        self.proxied.accepted(p);
    }

    /// Takes from one that was taken out what only new branches and answers need, and puts it back.
    pub(crate) fn put_shrunk(&mut self, mut p: Box<Proxied>) {
        self.let_go(&mut p);
        self.proxied.shrink(&mut p);
        self.put_back(p);
    }

    fn let_go(&mut self, p: &mut Proxied) {
        if let Some(original) = p.request.take()
            && let Some(original) = self.layer.release(p.payer, original)
        {
            self.proxied.reuse(original);
        }
        self.layer.charge(p.payer, p.charged, 0);
        p.charged = 0;
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
