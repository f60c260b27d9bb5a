//! One call, and the room for all of a worker's.

use super::peer::Peer;
use super::received::Received;
use super::seen::Seen;
use super::sent::Sent;
use super::waiting::Waiting;
use super::wheel::Wheel;
use crate::scenario::{Scenario, Scope, Side, Values};
use timing::{Slab, Tenant};
use wire::{Flow, ListenerId, Time};

/// What a call is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It is at a step that receives.
    Waiting,
    /// It is at a pause until this time.
    Pausing(Time),
    /// It has ended well and answers retransmissions until this time (`<timewait>`).
    Lingering(Time),
    /// It has failed and waits, until this time, for answers to what it said at last.
    Leaving(Time),
}

impl Doing {
    /// Whether the call has been counted as ended.
    pub fn is_over(self) -> bool {
        matches!(self, Doing::Lingering(_) | Doing::Leaving(_))
    }
}

/// Where a call is in its scenario.
#[derive(Debug)]
pub struct Cursor {
    pub doing: Doing,
    /// The step it is at.
    pub step: usize,
    /// How often it went back to an earlier step.
    pub round: u32,
}

impl Cursor {
    /// Goes on at another step.
    pub fn move_to(&mut self, to: usize) {
        self.round += u32::from(to <= self.step);
        self.step = to;
    }
}

/// What names a call.
#[derive(Debug)]
pub struct Identity {
    /// Slot and generation in one number, for the record of flows.
    pub name: u64,
    pub side: Side,
    /// From 1.
    pub number: u64,
    pub user: u64,
    pub call_id: Vec<u8>,
    /// That of its Call-ID, if it is in the directory.
    pub hash: u64,
    /// Slot and generation of the call here that answers this one.
    pub other: Option<(u32, u32)>,
}

/// What a scenario's texts and actions use of a call.
#[derive(Debug, Default)]
pub struct Data {
    pub values: Values,
    /// Whose variables `values` were made for.
    side: Option<Side>,
    /// Its line in each injection file.
    pub lines: Vec<u32>,
    /// When response timers were started.
    pub timers: Vec<Option<Time>>,
}

impl Data {
    /// Sets it up for a call that was meant to begin at this time.
    pub fn begin(&mut self, side: Side, scenario: &Scenario, intended: Time) {
        // The variables of a call that used this slot before have the same names.
        match self.side {
            Some(kept) if kept == side => self.values.clear(),
            _ => self.values = scenario.variables.values(Scope::Call),
        }
        self.side = Some(side);
        self.timers.resize(scenario.timers.len(), None);
        // A timer that no step starts runs from the beginning of the call.
        for &number in &scenario.running_timers {
            if let Some(timer) = self.timers.get_mut(usize::from(number)) {
                *timer = Some(intended);
            }
        }
    }
}

/// One call. Freed calls are kept with the memory of their texts, so that a steady state allocates
/// nothing.
#[derive(Debug)]
pub struct Call {
    pub identity: Identity,
    pub cursor: Cursor,
    pub waiting: Waiting,
    pub flow: Flow,
    /// Its flow's connection is its own, and closed with it.
    pub connected: bool,
    pub received: Received,
    pub sent: Sent,
    pub peer: Peer,
    pub data: Data,
    /// What the record wants to know.
    pub seen: Seen,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            identity: Identity {
                name: 0,
                side: Side::Client,
                number: 0,
                user: 0,
                call_id: Vec::new(),
                hash: 0,
                other: None,
            },
            cursor: Cursor { doing: Doing::Waiting, step: 0, round: 0 },
            waiting: Waiting::default(),
            flow: Flow::udp(ListenerId(0), ([0, 0, 0, 0], 0).into()),
            connected: false,
            received: Received::default(),
            sent: Sent::default(),
            peer: Peer::default(),
            data: Data::default(),
            seen: Seen::default(),
        }
    }
}

impl Call {
    /// When something has to be done for it, if nothing is received before.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        let own = match self.cursor.doing {
            Doing::Waiting => self.waiting.gives_up_at().unwrap_or(Time::FAR),
            Doing::Pausing(until) | Doing::Lingering(until) | Doing::Leaving(until) => until,
        };
        let first = self.sent.resend_at().map_or(own, |at| at.min(own));
        (first != Time::FAR).then_some(first)
    }
}

impl Tenant for Call {
    fn clear(&mut self) {
        clear(&mut self.identity.call_id);
        self.identity.other = None;
        self.cursor = Cursor { doing: Doing::Waiting, step: 0, round: 0 };
        self.waiting = Waiting::default();
        self.connected = false;
        self.received.clear();
        self.sent.clear();
        self.peer.clear();
        self.data.timers.fill(None);
        self.seen.clear();
    }
}

/// Texts that grew beyond this do not stay with a freed call.
const LARGE: usize = 8 << 10;

/// Forgets a text, and its memory if that is large.
pub(super) fn clear(text: &mut Vec<u8>) {
    text.clear();
    if text.capacity() > LARGE {
        *text = Vec::new();
    }
}

/// A worker's calls and their timers. Calls stay where they are, each beside its texts: moving thousands of
/// them to a larger place would make the worker late by milliseconds.
pub struct Calls {
    slab: Slab<Box<Call>>,
    wheel: Wheel,
    /// Calls that have been counted as ended, and answer retransmissions.
    lingering: usize,
}

impl Calls {
    /// None; time begins at `start`.
    pub fn new(start: Time) -> Calls {
        Calls { slab: Slab::default(), wheel: Wheel::new(start.as_micros()), lingering: 0 }
    }

    /// A call for use; `None` if there are too many already.
    pub fn take(&mut self) -> Option<u32> {
        let (slot, generation) = self.slab.take()?;
        let call = self.slab.at_mut(slot)?;
        call.identity.name = u64::from(generation) << 32 | u64::from(slot);
        Some(slot)
    }

    /// Frees a call. Its timer stays as it is: the next one takes its place.
    pub fn give(&mut self, slot: u32) {
        self.slab.give(slot);
    }

    /// The call in a slot.
    #[inline(always)]
    pub fn at(&mut self, slot: u32) -> Option<&mut Call> {
        self.slab.at_mut(slot).map(Box::as_mut)
    }

    /// The call in a slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&Call> {
        self.slab.at(slot).map(Box::as_ref)
    }

    /// The call in a slot if it is of this generation.
    #[inline]
    pub fn find(&self, slot: u32, generation: u32) -> Option<&Call> {
        self.slab.get(slot, generation).map(Box::as_ref)
    }

    /// Same, to be changed.
    #[inline]
    pub fn find_mut(&mut self, slot: u32, generation: u32) -> Option<&mut Call> {
        self.slab.get_mut(slot, generation).map(Box::as_mut)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// How many of them have been counted as ended.
    pub fn lingering(&self) -> usize {
        self.lingering
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Call> {
        self.slab.iter().map(|(_, call)| call.as_ref())
    }

    /// Slots of all.
    pub fn slots(&self) -> Vec<u32> {
        self.slab.taken()
    }

    /// One more has been counted as ended, and stays.
    pub fn lingers(&mut self) {
        self.lingering += 1;
    }

    /// One that had been counted as ended is freed.
    pub fn lingered(&mut self) {
        debug_assert!(self.lingering > 0, "it was counted");
        self.lingering -= 1;
    }

    /// Arms the timer of a call for whatever comes first. One that is armed for somewhat too early is left as
    /// it is, and so is that of a call that has ended, whose place the next one takes: who is woken looks
    /// again.
    #[inline]
    pub fn arm(&mut self, slot: u32) {
        match self.get(slot).and_then(Call::deadline) {
            Some(at) => self.wheel.arm_lazily(slot, at.as_micros()),
            // To wait for the other side may take long, and nobody is to be woken for nothing.
            None => self.wheel.cancel(slot),
        }
    }

    /// A call whose timer is due; call until there is none.
    pub fn due(&mut self, now: Time) -> Option<u32> {
        self.wheel.pop(now.as_micros())
    }

    /// When there may be one.
    pub fn next(&self) -> Option<Time> {
        self.wheel.next().map(Time::from_micros)
    }
}
