//! A forwarded request and everything that belongs to it until it is over.

use crate::overload::Algorithm;
use crate::prompt::Group;
use crate::settings::Bounds;
use crate::short::Short;
use crate::targets::Wish;
use core::ops::Range;
use sip_proxy::context::{BranchId, Context};
use sip_proxy::locate::Locate;
use sip_proxy::token::Role;
use sip_transaction::{ClientId, ServerId, TimerId};
use std::mem;
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
    /// Statuses after which the next hop is tried, of a trunk: its index in the settings.
    pub trunk: Option<u16>,
    /// It is a phone with an instance identifier, `next` another flow to the same phone (RFC 5626).
    pub instance: bool,
    /// Only the flow of the registration leads there (RFC 5626).
    pub flow_only: bool,
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
    /// The context is over; an INVITE that was accepted, or may be in spite of its failure, stays until its
    /// server transaction ends, because every 2xx goes through it (RFC 6026 section 7, RFC 3261 16.7).
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
    /// The received request; empty once no branch or answer can need it any more.
    pub request: Vec<u8>,
    /// Where it came from.
    pub source: Flow,
    /// The standing of who sent it.
    pub role: Role,
    /// Whether `rport` goes unasked into the received Via.
    pub always_rport: bool,
    /// Route values to take off.
    pub drop_routes: usize,
    pub drop_last_route: bool,
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
    /// The neighbour that an INVITE without a response went to first, where it is watched how soon it answers.
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

impl Proxied {
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
            None => self.trusted.checked_shr(branch.target().into()).is_some_and(|bits| bits & 1 == 1),
        }
    }

    /// Forgets what only new branches and answers need, and gives back the memory of it.
    fn shrink(&mut self) -> Buffers {
        for (bit, _) in (0..u128::BITS).zip(&self.targets).filter(|(_, t)| t.role == Role::Trunk) {
            self.trusted |= 1 << bit;
        }
        self.lookups.clear();
        self.kept.clear();
        let (mut request, mut text) = (mem::take(&mut self.request), mem::take(&mut self.text));
        let mut targets = mem::take(&mut self.targets);
        targets.clear();
        // Large ones do not stay in the pool.
        for text in [&mut request, &mut text] {
            if text.capacity() > 4_096 {
                *text = Vec::new();
            }
            text.clear();
        }
        Buffers { request, text, targets, clients: Vec::new() }
    }
}

/// All forwarded requests of a worker. Slots are reused with their memory.
#[derive(Default)]
pub(crate) struct ProxiedSlab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Emptied boxes; bounded.
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    spare: Vec<Box<Proxied>>,
    /// Emptied vectors. An accepted INVITE stays for half a minute, and they are not needed for so long.
    buffers: Vec<Buffers>,
}

struct Slot {
    generation: u16,
    value: Option<Box<Proxied>>,
}

const SPARE_MAX: usize = 1_024;

impl ProxiedSlab {
    /// A fresh one, not yet stored: hand it to [`ProxiedSlab::put`].
    pub fn create(&mut self, make: impl FnOnce(ProxiedId, Buffers) -> Proxied) -> Box<Proxied> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 1, value: None });
            (self.slots.len() - 1) as u32
        });
        let generation = self.slots.get(slot as usize).map_or(1, |s| s.generation);
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

    /// Takes one out to work on it; [`ProxiedSlab::put`] or [`ProxiedSlab::free`] must follow.
    pub fn take(&mut self, id: ProxiedId) -> Option<Box<Proxied>> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        slot.value.take()
    }

    /// Puts one back.
    pub fn put(&mut self, value: Box<Proxied>) {
        if let Some(slot) = self.slots.get_mut(value.id.slot as usize) {
            slot.value = Some(value);
        }
    }

    /// Takes what only new branches and answers need from one that was taken out.
    pub fn shrink(&mut self, value: &mut Proxied) {
        let buffers = value.shrink();
        if buffers.request.capacity() > 0 && self.buffers.len() < SPARE_MAX {
            self.buffers.push(buffers);
        }
    }

    /// Frees the slot of one that was taken out.
    pub fn free(&mut self, mut value: Box<Proxied>) {
        let slot = value.id.slot;
        if let Some(s) = self.slots.get_mut(slot as usize) {
            // Never 0: that is the user data of transactions that belong to no proxied request.
            s.generation = s.generation.checked_add(1).unwrap_or(1);
            self.free.push(slot);
        }
        self.shrink(&mut value);
        if self.spare.len() < SPARE_MAX {
            value.clients.clear();
            self.spare.push(value);
        }
    }

    /// Every one that is in its slot.
    pub fn iter(&self) -> impl Iterator<Item = &Proxied> {
        self.slots.iter().filter_map(|s| s.value.as_deref())
    }
}

/// Vectors with memory from an earlier use.
#[derive(Default)]
pub(crate) struct Buffers {
    pub request: Vec<u8>,
    pub text: Vec<u8>,
    pub targets: Vec<Target>,
    pub clients: Vec<(BranchId, ClientId)>,
}
