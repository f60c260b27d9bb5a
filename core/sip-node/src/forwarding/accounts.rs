//! What is held of requests, and on whose account (see `docs/design/memory.md`).

use super::proxied::Proxied;
use super::slab::ProxiedSlab;
use crate::channels::Claimed;
use sip_transaction::Layer;

/// Requests of at least this length are kept once for all their branches. Shorter ones are copied for each:
/// that takes less time, and little more memory than storing the differences.
pub(super) const SHARED: usize = 2_048;

impl ProxiedSlab {
    /// Keeps the received request.
    pub fn hold(&mut self, layer: &mut Layer, p: &mut Proxied, bytes: &[u8]) {
        let original = self.original(bytes);
        layer.hold(p.upstream.payer, &original);
        p.request = Some(original);
    }

    /// Puts a request back that was taken out, charged for what it holds now.
    pub fn put_back(&mut self, layer: &mut Layer, mut p: Box<Proxied>) {
        let held = p.held();
        layer.charge(p.upstream.payer, p.charged, held);
        p.charged = held;
        self.put(p);
    }

    /// Frees one that was taken out.
    pub fn end(&mut self, layer: &mut Layer, mut p: Box<Proxied>) {
        self.let_go(layer, &mut p);
        self.free(p);
    }

    /// Keeps of one that was taken out what an accepted INVITE needs.
    pub fn keep_accepted(&mut self, layer: &mut Layer, mut p: Box<Proxied>) {
        self.let_go(layer, &mut p);
        self.accepted(p);
    }

    /// Takes from one that was taken out what only new branches and answers need, and puts it back.
    pub fn put_shrunk(&mut self, layer: &mut Layer, mut p: Box<Proxied>) {
        self.let_go(layer, &mut p);
        self.shrink(&mut p);
        self.put_back(layer, p);
    }

    fn let_go(&mut self, layer: &mut Layer, p: &mut Proxied) {
        // What was answered has handed them on.
        p.claimed = Claimed::default();
        if let Some(original) = p.request.take()
            && let Some(original) = layer.release(p.upstream.payer, original)
        {
            self.reuse(original);
        }
        layer.charge(p.upstream.payer, p.charged, 0);
        p.charged = 0;
    }
}
