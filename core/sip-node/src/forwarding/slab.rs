//! All forwarded requests of a worker, in slots that are used again.

use super::proxied::{Back, Buffers, POOLED, Proxied, ProxiedId, is_trunk};
use crate::calls::DialogKey;
use core::net::SocketAddr;
use prefetch_index::prefetch_index;
use sip_proxy::context::BranchId;
use sip_proxy::feedback::Algorithm;
use sip_transaction::{Original, ServerId};
use std::mem;
use std::sync::Arc;

/// What is left of an INVITE that was accepted, for as long as its server transaction lasts: every further
/// 2xx goes back like the first one (RFC 6026 section 7). Half a minute of calls is much, so it is small, and
/// the box of a [`Proxied`] is used again while the processor has it in its cache.
struct Accepted {
    server: ServerId,
    /// [`Proxied::trunks`] in halves, which want less alignment.
    trusted: [u64; 2],
    /// [`DialogKey::half`].
    key: u32,
    oc: Option<Algorithm>,
    knows_oc: bool,
}

/// All forwarded requests of a worker. Slots are reused with their memory.
#[derive(Default)]
pub(crate) struct ProxiedSlab {
    /// In segments, so that more of them never copies what is there.
    segments: Vec<Box<[Slot]>>,
    used: u32,
    free: Vec<u32>,
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
}

struct Slot {
    generation: u16,
    value: Value,
}

enum Value {
    /// Free, or taken out.
    None,
    Whole(Box<Proxied>),
    Accepted(Accepted),
}

// Memory of each call of the last half minute.
const _: () = assert!(size_of::<Slot>() <= 40);

const SPARE_MAX: usize = 1_024;
/// Slots looked at, and requests shown, in one step of a walk: some tenths of a millisecond.
const WALKED_SLOTS: u32 = 16_384;
const WALKED: u32 = 1_024;
/// Slots in one segment.
const SEGMENT: usize = 512;

impl ProxiedSlab {
    /// A fresh one, not yet stored: hand it to [`ProxiedSlab::put`].
    pub fn create(&mut self, make: impl FnOnce(ProxiedId, Buffers) -> Proxied) -> Box<Proxied> {
        let slot = self.free.pop().unwrap_or_else(|| self.add());
        let generation = self.at(slot).map_or(1, |s| s.generation);
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

    /// Another slot.
    fn add(&mut self) -> u32 {
        let slot = self.used;
        if slot as usize == self.segments.len() * SEGMENT {
            self.segments.push((0..SEGMENT).map(|_| Slot { generation: 1, value: Value::None }).collect());
        }
        self.used += 1;
        slot
    }

    #[inline]
    fn at(&mut self, slot: u32) -> Option<&mut Slot> {
        self.segments.get_mut(slot as usize / SEGMENT)?.get_mut(slot as usize % SEGMENT)
    }

    fn slot(&mut self, id: ProxiedId) -> Option<&mut Slot> {
        self.at(id.slot).filter(|slot| slot.generation == id.generation)
    }

    /// Whether this slot is kept for one that was taken out.
    fn is_taken(&mut self, id: ProxiedId) -> bool {
        self.slot(id).is_some_and(|slot| matches!(slot.value, Value::None))
    }

    /// Takes one out to work on it; [`ProxiedSlab::put`], [`ProxiedSlab::accepted`] or [`ProxiedSlab::free`]
    /// must follow.
    pub fn take(&mut self, id: ProxiedId) -> Option<Box<Proxied>> {
        let slot = self.slot(id)?;
        match mem::replace(&mut slot.value, Value::None) {
            Value::Whole(value) => {
                self.pending -= usize::from(!value.over);
                Some(value)
            }
            other => {
                slot.value = other;
                None
            }
        }
    }

    /// Puts one back.
    pub fn put(&mut self, value: Box<Proxied>) {
        let pending = !value.over;
        debug_assert!(self.is_taken(value.id), "it was taken out or created, and not ended");
        if let Some(slot) = self.at(value.id.slot) {
            slot.value = Value::Whole(value);
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
        if let Some(slot) = self.at(value.id.slot) {
            slot.value = Value::Accepted(Accepted {
                server: value.upstream.server,
                trusted: [trunks as u64, (trunks >> 64) as u64],
                key: value.upstream.key.half(),
                oc: value.upstream.oc,
                knows_oc: value.upstream.knows_oc,
            });
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
        let Value::Accepted(held) = &self.slot(id)?.value else { return None };
        let [low, high] = held.trusted.map(u128::from);
        let trusted = is_trunk(high << 64 | low, branch);
        Some(Back {
            server: held.server,
            oc: held.oc,
            knows_oc: held.knows_oc,
            trusted,
            place: seen,
            key: key(held.key),
        })
    }

    /// The server transaction of an accepted INVITE is over: forgets it. `false` if `id` is none of these.
    pub fn end_accepted(&mut self, id: ProxiedId) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        if !matches!(slot.value, Value::Accepted(_)) {
            return false;
        }
        slot.value = Value::None;
        self.vacate(id.slot);
        true
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
        self.vacate(value.id.slot);
        self.recycle(value);
    }

    fn vacate(&mut self, slot: u32) {
        if let Some(s) = self.at(slot) {
            // Never 0: that is the user data of transactions that belong to no proxied request.
            s.generation = s.generation.checked_add(1).unwrap_or(1);
            self.free.push(slot);
        }
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
        let to = self.used.min(from.saturating_add(WALKED_SLOTS));
        let mut shown = 0;
        for slot in from..to {
            let segment = self.segments.get(slot as usize / SEGMENT);
            if let Some(Value::Whole(value)) =
                segment.and_then(|s| s.get(slot as usize % SEGMENT)).map(|s| &s.value)
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
        self.walk = (to < self.used).then_some(to);
    }

    /// How many there are that are not over.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// How many there are, accepted ones included.
    pub fn len(&self) -> usize {
        self.used as usize - self.free.len()
    }

    /// Asks the processor for a slot that is needed soon.
    #[inline]
    pub fn prefetch(&self, id: ProxiedId) {
        if let Some(segment) = self.segments.get(id.slot as usize / SEGMENT) {
            // Where the slot begins, and where it ends.
            let at = id.slot as usize % SEGMENT;
            prefetch_index(segment, at);
            prefetch_index(segment, at + 1);
        }
    }
}
