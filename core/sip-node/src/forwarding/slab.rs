//! All forwarded requests of a worker.

use super::proxied::{Back, Buffers, POOLED, Proxied, ProxiedId, is_trunk};
use crate::calls::DialogKey;
use core::net::SocketAddr;
use sip_proxy::context::BranchId;
use sip_proxy::feedback::Algorithm;
use sip_transaction::{Original, ServerId};
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use timing::Slab;

/// What is left of an INVITE that was accepted, for as long as its server transaction lasts: every further
/// 2xx goes back like the first one (RFC 6026 section 7). Half a minute of calls is much, so it is small, and
/// the box of a [`Proxied`] is used again while the processor has it in its cache.
struct Accepted {
    server: ServerId,
    /// [`Proxied::trunks`] in halves, which want less alignment.
    trusted: [u64; 2],
    /// [`DialogKey::half`].
    key: u32,
    /// [`Back::session`].
    session: u16,
    oc: Option<Algorithm>,
    knows_oc: bool,
}

/// All forwarded requests of a worker. Their boxes and buffers are used again.
#[derive(Default)]
pub(crate) struct ProxiedSlab {
    slots: Slab<Value>,
    /// Emptied boxes; bounded.
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    spare: Vec<Box<Proxied>>,
    /// Emptied vectors.
    buffers: Vec<Buffers>,
    /// Emptied requests.
    originals: Vec<Original>,
    /// Those in their slots that are not over.
    pending: usize,
    /// The slot where [`ProxiedSlab::walk`] goes on; none when it is done.
    walk: Option<u32>,
    /// The URI in From of those in their slots that were accepted under another one, which are few.
    renamed: BTreeMap<u32, Arc<[u8]>>,
    /// Likewise the number in CSeq.
    raised: BTreeMap<u32, u32>,
}

enum Value {
    /// It is taken out, or not stored yet.
    Out,
    Whole(Box<Proxied>),
    Accepted(Accepted),
}

// Memory of each call of the last half minute.
const _: () = assert!(Slab::<Value>::SLOT_BYTES <= 40);

const SPARE_MAX: usize = 1_024;
/// Slots looked at, and requests shown, in one step of a walk: some tenths of a millisecond.
const WALKED_SLOTS: u32 = 16_384;
const WALKED: u32 = 1_024;

impl ProxiedSlab {
    /// A fresh one, not yet stored: hand it to [`ProxiedSlab::put`].
    pub fn create(&mut self, make: impl FnOnce(ProxiedId, Buffers) -> Proxied) -> Box<Proxied> {
        // Never 0: that is the user data of transactions that belong to no proxied request.
        let next = |last| u32::from((last as u16).checked_add(1).unwrap_or(1));
        let slot = self.slots.insert(Value::Out, next).expect("transactions are fewer than slots");
        let generation = self.slots.generation(slot).map_or(1, |generation| generation as u16);
        let id = ProxiedId { slot, generation };
        let mut buffers = self.buffers.pop().unwrap_or_default();
        match self.spare.pop() {
            Some(mut spare) => {
                buffers.clients = mem::take(&mut spare.clients);
                *spare = make(id, buffers);
                spare
            }
            None => Box::new(make(id, buffers)),
        }
    }

    fn slot(&mut self, id: ProxiedId) -> Option<&mut Value> {
        self.slots.get_mut(id.slot, id.generation.into())
    }

    /// Whether this slot is kept for one that was taken out.
    fn is_out(&mut self, id: ProxiedId) -> bool {
        self.slot(id).is_some_and(|value| matches!(value, Value::Out))
    }

    /// Takes one out to work on it; [`ProxiedSlab::put`], [`ProxiedSlab::accepted`] or [`ProxiedSlab::free`]
    /// must follow.
    pub fn take(&mut self, id: ProxiedId) -> Option<Box<Proxied>> {
        let slot = self.slot(id)?;
        match mem::replace(slot, Value::Out) {
            Value::Whole(value) => {
                self.pending -= usize::from(!value.over);
                Some(value)
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Puts one back.
    pub fn put(&mut self, value: Box<Proxied>) {
        let pending = !value.over;
        debug_assert!(self.is_out(value.id), "it was taken out or created, and not ended");
        if let Some(slot) = self.slots.at_mut(value.id.slot) {
            *slot = Value::Whole(value);
            self.pending += usize::from(pending);
        }
    }

    /// A request to keep, in memory from an earlier one.
    pub fn original(&mut self, bytes: &[u8]) -> Original {
        let spare = if bytes.len() <= POOLED { self.originals.pop() } else { None };
        let mut original = spare.unwrap_or_default();
        // Nobody else has a spare one.
        Arc::make_mut(&mut original).extend_from_slice(bytes);
        original
    }

    /// Takes back the memory of a request that nobody else has.
    pub fn reuse(&mut self, mut original: Original) {
        if let Some(bytes) = Arc::get_mut(&mut original)
            && bytes.capacity() <= POOLED
            && self.originals.len() < SPARE_MAX
        {
            bytes.clear();
            self.originals.push(original);
        }
    }

    /// Puts back what is needed of one that was accepted.
    pub fn accepted(&mut self, value: Box<Proxied>) {
        let trunks = value.trunks();
        if let Some(slot) = self.slots.at_mut(value.id.slot) {
            *slot = Value::Accepted(Accepted {
                server: value.upstream.server,
                trusted: [trunks as u64, (trunks >> 64) as u64],
                key: value.upstream.key.half(),
                session: value.edits.session.to_confirm(),
                oc: value.upstream.oc,
                knows_oc: value.upstream.knows_oc,
            });
            if let Some(from) = &value.edits.from {
                self.renamed.insert(value.id.slot, Arc::clone(from));
            }
            if let Some(cseq) = value.edits.cseq {
                self.raised.insert(value.id.slot, cseq);
            }
        }
        self.recycle(value);
    }

    /// How a further 2xx of an accepted INVITE goes back. `key` makes the key of its request from the half
    /// that is kept.
    pub fn back(
        &mut self,
        id: ProxiedId,
        branch: BranchId,
        seen: SocketAddr,
        key: impl FnOnce(u32) -> DialogKey,
    ) -> Option<Back> {
        let Value::Accepted(held) = self.slots.get_mut(id.slot, id.generation.into())? else { return None };
        let [low, high] = held.trusted.map(u128::from);
        let trusted = is_trunk(high << 64 | low, branch);
        Some(Back {
            server: held.server,
            oc: held.oc,
            knows_oc: held.knows_oc,
            trusted,
            from: self.renamed.get(&id.slot).cloned(),
            cseq: self.raised.get(&id.slot).copied(),
            place: seen,
            key: key(held.key),
            session: held.session,
        })
    }

    /// The server transaction of an accepted INVITE is over: forgets it. `false` if `id` is none of these.
    pub fn end_accepted(&mut self, id: ProxiedId) -> bool {
        let accepted = self.slot(id).is_some_and(|value| matches!(value, Value::Accepted(_)));
        if accepted {
            self.slots.remove(id.slot);
            self.renamed.remove(&id.slot);
            self.raised.remove(&id.slot);
        }
        accepted
    }

    /// Takes what only new branches and answers need from one that was taken out.
    pub fn shrink(&mut self, value: &mut Proxied) {
        let buffers = value.shrink();
        if buffers.text.capacity() > 0 && self.buffers.len() < SPARE_MAX {
            self.buffers.push(buffers);
        }
    }

    /// Frees the slot of one that was taken out.
    pub fn free(&mut self, value: Box<Proxied>) {
        self.slots.remove(value.id.slot);
        self.recycle(value);
    }

    fn recycle(&mut self, mut value: Box<Proxied>) {
        self.shrink(&mut value);
        if self.spare.len() < SPARE_MAX {
            value.clients.clear();
            self.spare.push(value);
        }
    }

    /// Lets [`ProxiedSlab::walk`] begin.
    pub fn begin_walk(&mut self) {
        self.walk = Some(0);
    }

    /// Shows those that are not over, a bounded number of slots and of them at a time, in as many calls as it
    /// takes.
    pub fn walk(&mut self, mut show: impl FnMut(&Proxied)) {
        let Some(from) = self.walk else { return };
        let to = self.slots.slots().min(from.saturating_add(WALKED_SLOTS));
        let mut shown = 0;
        for slot in from..to {
            if let Some(Value::Whole(value)) = self.slots.at(slot)
                && !value.over
            {
                show(value);
                shown += 1;
                if shown == WALKED {
                    self.walk = Some(slot + 1);
                    return;
                }
            }
        }
        self.walk = (to < self.slots.slots()).then_some(to);
    }

    /// How many there are that are not over.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// How many there are, accepted ones included.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Asks the processor for a slot that is needed soon.
    #[inline]
    pub fn prefetch(&self, id: ProxiedId) {
        self.slots.prefetch(id.slot);
    }
}
