//! What is held of requests, and on whose account (see `docs/design/memory.md`).

use crate::inbound::RETRY_AFTER;
use crate::node::Node;
use crate::proxied::Proxied;
use crate::services::{Counter, Services};
use crate::shortage::Shortage;
use sip_transaction::Prepared;
use wire::{Flow, Outbox, Time};

/// Requests of at least this length are kept once for all their branches. Shorter ones are copied for each:
/// that takes less time, and little more memory than storing the differences.
pub(crate) const SHARED: usize = 2_048;

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
