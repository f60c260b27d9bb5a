//! A forwarded request and everything that belongs to it until it is over.

use crate::calls::Within;
use crate::overload::Algorithm;
use crate::prompt::Group;
use crate::routing::Wish;
use crate::settings::Bounds;
use crate::short::Short;
use crate::trunk_ref::TrunkRef;
use crate::watch::Watch;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use prefetch_index::prefetch_index;
use sip_proxy::context::{BranchId, Context};
use sip_proxy::locate::Locate;
use sip_proxy::token::Role;
use sip_transaction::{ClientId, Original, Payer, ServerId, TimerId};
use std::mem;
use std::sync::Arc;
use wire::{Flow, Time};

/// Names a [`Proxied`] request; kept by its transactions and timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProxiedId {
    pub slot: u32,
    pub generation: u16,
}

impl ProxiedId {
    /// The user data of a client transaction on this branch.
    pub fn with_branch(self, branch: BranchId) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation) << 16 | u64::from(branch.as_u16())
    }

    /// Back from [`ProxiedId::with_branch`].
    pub fn split(user: u64) -> (ProxiedId, BranchId) {
        let id = ProxiedId { slot: (user >> 32) as u32, generation: (user >> 16) as u16 };
        (id, BranchId::from_u16(user as u16))
    }

    /// The user data of the server transaction and of timers.
    pub fn as_u64(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation) << 16
    }
}

/// Where the addresses of a target come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// They are in [`Target::hops`].
    Known,
    /// This URI has to be looked up first; a range of [`Proxied::text`].
    Locate(Range<u32>),
}

/// One element of the target set (RFC 3261 section 16.5).
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The Request-URI for it; a range of [`Proxied::text`].
    pub uri: Range<u32>,
    /// Whole Route lines for it, likewise.
    pub routes: Range<u32>,
    /// A whole Route line to put last, likewise (strict routing).
    pub last_route: Range<u32>,
    pub reach: Reach,
    /// Its addresses, in the order in which to try them.
    pub hops: Short<Flow>,
    /// Where it may be found.
    pub bounds: Bounds,
    /// The standing of whoever is there.
    pub role: Role,
    /// The trunk that it is a target of, as it was when the call began.
    pub trunk: Option<TrunkRef>,
    /// Whether it answers is watched.
    pub watch: Option<Watch>,
    /// It is a phone with an instance identifier, `next` another flow to the same phone (RFC 5626).
    pub instance: bool,
    /// Only the flow of the registration leads there (RFC 5626).
    pub flow_only: bool,
    /// Chosen by a sender that has not proven that it is there.
    pub elsewhere: bool,
    /// Where its binding was registered from.
    pub registered_from: Option<IpAddr>,
    /// What is tried in its place if it cannot be reached.
    pub next: Option<Box<Wish>>,
}

/// A name being looked up for a branch.
#[derive(Debug)]
pub(crate) struct Pending {
    pub branch: BranchId,
    pub breadth: u8,
    pub locate: Box<Locate>,
}

/// A forwarded request: its response context, its transactions, and what later branches need.
pub(crate) struct Proxied {
    pub id: ProxiedId,
    pub context: Context,
    pub server: ServerId,
    pub invite: bool,
    /// The context is over; an INVITE that may be accepted in spite of its failure stays until its server
    /// transaction ends, because every 2xx goes through it (RFC 3261 16.7).
    pub over: bool,
    /// A branch could not be made for lack of room here.
    pub overloaded: bool,
    /// A branch was not made because the next hop asked for less.
    pub held_back: bool,
    /// How the caller wants to be told of our load.
    pub oc: Option<Algorithm>,
    /// It may believe what is said of load in its Via.
    pub knows_oc: bool,
    /// A 2xx was forwarded.
    pub accepted: bool,
    /// The received request, until no branch or answer can need it any more.
    pub request: Option<Original>,
    /// Who pays for what is held here, and the bytes that were charged besides the request.
    pub payer: Payer,
    pub charged: usize,
    /// Where it came from.
    pub source: Flow,
    /// Who sent it has not shown that it receives anything.
    pub bounded: bool,
    /// The dialog that its token names.
    pub within: Option<Within>,
    /// The standing of who sent it.
    pub role: Role,
    /// Whether `rport` goes unasked into the received Via.
    pub always_rport: bool,
    /// Route values to take off: how many at the beginning, and whether the last one.
    pub drop_routes: (usize, bool),
    /// Whether to put our Record-Route into it.
    pub record_route: bool,
    /// The realm whose credentials to take off.
    pub realm: Option<Range<u32>>,
    /// Whole Reason lines of the CANCEL received, for those sent.
    pub reason: Range<u32>,
    /// Hash for loop detection.
    pub loop_hash: u64,
    pub started: Time,
    pub timer: TimerId,
    /// When the context wants to be woken.
    pub wakes: Time,
    /// When an INVITE that nobody has answered yet gets a 100.
    pub trying: Time,
    /// The neighbour that an INVITE without a response went to first, where it is watched how soon it
    /// answers.
    pub asked: Option<Group>,
    /// Bit n: target n is a trunk. Kept when the targets are not, for answers that come again. A
    /// context has 65 targets at most.
    pub trusted: u128,
    /// Backing of the ranges.
    pub text: Vec<u8>,
    pub targets: Vec<Target>,
    pub clients: Vec<(BranchId, ClientId)>,
    pub lookups: Vec<Pending>,
    /// Final responses kept for later, without our Via.
    pub kept: Vec<(BranchId, Vec<u8>)>,
}

impl Wish {
    /// Moves the wish into the target set of `proxied`.
    pub fn store(self, proxied: &mut Proxied) -> Target {
        let uri = proxied.push_text(|t| t.extend_from_slice(&self.uri));
        let routes = proxied.push_text(|t| t.extend_from_slice(&self.routes));
        let last_route = proxied.push_text(|t| t.extend_from_slice(&self.last_route));
        let reach = if self.locate.is_empty() {
            Reach::Known
        } else {
            Reach::Locate(proxied.push_text(|t| t.extend_from_slice(&self.locate)))
        };
        Target {
            uri,
            routes,
            last_route,
            reach,
            hops: self.hops,
            bounds: self.bounds,
            role: self.role,
            trunk: self.trunk,
            watch: self.watch,
            instance: !self.instance.is_empty(),
            flow_only: self.flow_only,
            elsewhere: self.elsewhere,
            registered_from: self.registered_from,
            next: self.next,
        }
    }
}

impl Proxied {
    /// Bytes held here besides the request.
    pub fn held(&self) -> usize {
        let kept: usize = self.kept.iter().map(|(_, bytes)| bytes.capacity()).sum();
        size_of::<Proxied>() + self.text.capacity() + kept
    }

    /// The received request, if it is still there.
    pub fn request(&self) -> &[u8] {
        self.request.as_ref().map_or(&[], |request| request.as_slice())
    }

    /// Appends to the text and returns its range.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<u32> {
        let start = self.text.len() as u32;
        write(&mut self.text);
        start..self.text.len() as u32
    }

    /// The text of a range.
    pub fn text(&self, range: &Range<u32>) -> &[u8] {
        self.text.get(range.start as usize..range.end as usize).unwrap_or(b"")
    }

    /// The client transaction of a branch.
    pub fn client(&self, branch: BranchId) -> Option<ClientId> {
        self.clients.iter().find(|(b, _)| *b == branch).map(|(_, id)| *id)
    }

    /// Whether identity assertions of whoever answers on this branch are believed (RFC 3325 section 5).
    pub fn trusts(&self, branch: BranchId) -> bool {
        match self.targets.get(usize::from(branch.target())) {
            Some(target) => target.role == Role::Trunk,
            None => is_trunk(self.trusted, branch),
        }
    }

    /// How a response of this branch goes back that came from `seen`.
    pub fn back(&self, branch: BranchId, seen: SocketAddr) -> Back {
        let target = self.targets.get(usize::from(branch.target()));
        let hop = target.and_then(|target| target.hops.get(usize::from(branch.attempt())));
        Back {
            server: self.server,
            oc: self.oc,
            knows_oc: self.knows_oc,
            trusted: self.trusts(branch),
            place: hop.map_or(seen, |hop| hop.remote),
            within: self.within,
        }
    }

    /// Bit n: target n is a trunk.
    fn trunks(&self) -> u128 {
        let trunks = (0..u128::BITS).zip(&self.targets).filter(|(_, t)| t.role == Role::Trunk);
        trunks.fold(self.trusted, |bits, (bit, _)| bits | 1 << bit)
    }

    /// Forgets what only new branches and answers need, and gives back the memory of it.
    fn shrink(&mut self) -> Buffers {
        self.trusted = self.trunks();
        self.lookups.clear();
        self.kept.clear();
        let (mut text, mut targets) = (mem::take(&mut self.text), mem::take(&mut self.targets));
        targets.clear();
        if text.capacity() > POOLED {
            text = Vec::new();
        }
        text.clear();
        Buffers { text, targets, clients: Vec::new() }
    }
}

/// How a response goes back to where the request came from.
pub(crate) struct Back {
    pub server: ServerId,
    /// How the caller wants to be told of our load.
    pub oc: Option<Algorithm>,
    /// It may believe what is said of load in its Via.
    pub knows_oc: bool,
    /// Identity assertions in it are believed.
    pub trusted: bool,
    /// Where the request went.
    pub place: SocketAddr,
    /// It had our token.
    pub within: Option<Within>,
}

/// What is left of an INVITE that was accepted, for as long as its server transaction lasts: every further
/// 2xx goes back like the first one (RFC 6026 section 7). Half a minute of calls is much, so it is small, and
/// the box of a [`Proxied`] is used again while the processor has it in its cache.
struct Accepted {
    server: ServerId,
    /// [`Proxied::trusted`] in halves, which want less alignment.
    trusted: [u64; 2],
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
/// Larger buffers do not stay in the pool.
const POOLED: usize = 4_096;
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
                server: value.server,
                trusted: [trunks as u64, (trunks >> 64) as u64],
                oc: value.oc,
                knows_oc: value.knows_oc,
            });
        }
        self.recycle(value);
    }

    /// How a further 2xx of an accepted INVITE goes back.
    pub fn back(&mut self, id: ProxiedId, branch: BranchId, seen: SocketAddr) -> Option<Back> {
        let Value::Accepted(held) = &self.slot(id)?.value else { return None };
        let [low, high] = held.trusted.map(u128::from);
        let trusted = is_trunk(high << 64 | low, branch);
        Some(Back {
            server: held.server,
            oc: held.oc,
            knows_oc: held.knows_oc,
            trusted,
            place: seen,
            within: None,
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

    /// Asks the processor for a slot: somebody will look at it soon.
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

/// Vectors with memory from an earlier use.
#[derive(Default)]
pub(crate) struct Buffers {
    pub text: Vec<u8>,
    pub targets: Vec<Target>,
    pub clients: Vec<(BranchId, ClientId)>,
}

/// Whether the target of a branch is a trunk, of which bit n says it of target n.
fn is_trunk(trunks: u128, branch: BranchId) -> bool {
    trunks.checked_shr(branch.target().into()).is_some_and(|bits| bits & 1 == 1)
}
