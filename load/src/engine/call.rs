//! One call, and the room for all of a worker's.

use super::SILENT;
use super::acks::Acks;
use super::observe::{Asking, Seen};
use crate::metrics::{Began, Method};
use crate::scenario::{Challenge, Outline, Side, Values};
use core::num::NonZeroU64;
use core::time::Duration;
use wire::{Flow, ListenerId, Time};

/// What a call is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// The slot is free.
    Nothing,
    /// It is at a step that receives.
    Waiting,
    /// It is at a pause until this time.
    Pausing(Time),
    /// It has ended well and answers retransmissions until this time (`<timewait>`).
    Lingering(Time),
    /// It has failed and waits, until this time, for answers to what it said at last.
    Leaving(Time),
}

/// The message sent last, to be sent again.
#[derive(Clone, Copy, Debug)]
pub struct Resend {
    /// When.
    pub at: Time,
    /// Microseconds since it was sent before.
    pub interval: u64,
    /// How often it may still be.
    pub left: u32,
    /// The largest interval, microseconds (T2; none for an INVITE).
    pub longest: u64,
    /// The step that sent it.
    pub step: usize,
}

/// One call. Freed calls are kept with the memory of their texts, so that a steady state allocates
/// nothing.
#[derive(Debug)]
pub struct Call {
    pub generation: u32,
    pub doing: Doing,
    pub side: Side,
    /// From 1.
    pub number: u64,
    /// The step it is at.
    pub step: usize,
    /// How often it went back to an earlier step.
    pub round: u32,
    pub flow: Flow,
    pub call_id: Vec<u8>,
    /// That of its Call-ID, if the other side began it.
    pub hash: u64,
    /// The last message received that was no retransmission.
    pub last: Vec<u8>,
    /// What it has in common with others whose outline is known.
    pub likeness: Option<NonZeroU64>,
    /// Where the headers stand in it that texts ask for, if it is not like others.
    pub outline: Option<Box<Outline>>,
    /// Something was sent since.
    pub answered: bool,
    /// A provisional response to its INVITE has come.
    pub tried: bool,
    /// The message sent last.
    pub sent: Vec<u8>,
    /// The step that sent it; none if it is what a call said at last.
    pub sent_at: Option<usize>,
    /// The ACKs sent: a final response that comes again is answered with its own, whatever was sent since.
    pub acks: Acks,
    pub resend: Option<Resend>,
    /// When the step that receives gives up.
    pub give_up: Option<Time>,
    /// When it began to wait in its step.
    pub since: Time,
    /// Same, or when a message came after that which a step takes.
    pub quiet: Time,
    pub cseq: u32,
    pub peer_tag: Vec<u8>,
    pub routes: Vec<u8>,
    pub next_url: Vec<u8>,
    pub challenge: Option<Box<Challenge>>,
    pub challenged: bool,
    pub values: Values,
    /// Its line in each injection file.
    pub lines: Vec<u32>,
    /// Branches of named transactions.
    pub branches: Vec<Vec<u8>>,
    /// When response timers were started.
    pub timers: Vec<Option<Time>>,
    pub user: u64,
    pub began: Began,
    /// What the record wants to know.
    pub seen: Seen,
    /// Requests that have no final response, in the order in which others took their place in `seen`.
    pub earlier: Vec<Asking>,
    /// Its flow's connection is its own, and closed with it.
    pub connected: bool,
    /// Slot and generation of the call here that answers this one.
    pub other: Option<(u32, u32)>,
    /// Whose variables `values` were made for.
    pub side_values: Option<Side>,
}

impl Call {
    fn new() -> Call {
        let nowhere = Flow::udp(ListenerId(0), ([0, 0, 0, 0], 0).into());
        Call {
            generation: 0,
            doing: Doing::Nothing,
            side: Side::Client,
            number: 0,
            step: 0,
            round: 0,
            flow: nowhere,
            call_id: Vec::new(),
            hash: 0,
            last: Vec::new(),
            likeness: None,
            outline: None,
            answered: false,
            tried: false,
            sent: Vec::new(),
            sent_at: None,
            acks: Acks::default(),
            resend: None,
            give_up: None,
            since: Time::ZERO,
            quiet: Time::ZERO,
            cseq: 0,
            peer_tag: Vec::new(),
            routes: Vec::new(),
            next_url: Vec::new(),
            challenge: None,
            challenged: false,
            values: Values::default(),
            lines: Vec::new(),
            branches: Vec::new(),
            timers: Vec::new(),
            user: 0,
            began: Began::at(Time::ZERO),
            seen: Seen::default(),
            earlier: Vec::new(),
            connected: false,
            other: None,
            side_values: None,
        }
    }

    /// When something has to be done for it, if nothing is received before.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        let own = match self.doing {
            Doing::Nothing => Time::FAR,
            Doing::Waiting => self.give_up.unwrap_or(Time::FAR),
            Doing::Pausing(until) | Doing::Lingering(until) | Doing::Leaving(until) => until,
        };
        let first = self.resend.as_ref().map_or(own, |resend| resend.at.min(own));
        (first != Time::FAR).then_some(first)
    }

    /// How its wait is to be taken if its run ends now.
    pub fn wait(&self, now: Time, at: Awaited) -> Wait {
        match self.patience(now, at) {
            Patience::Pauses => Wait::Young,
            Patience::Waits(waited, Some(limit)) if waited > limit => Wait::Overdue,
            Patience::Waits(waited, _) if waited.max(now.since(self.since)) > SILENT => Wait::Open,
            Patience::Waits(..) => Wait::Young,
        }
    }

    /// What is ahead of it if its run begins no more calls. Not to be expected any more is what would not
    /// come either if its request had been sent again until now.
    pub fn ahead(&self, now: Time, at: Awaited) -> Ahead {
        if self.deadline().is_some() || self.doing != Doing::Waiting {
            return Ahead::Something;
        }
        let left = match self.side {
            // It is the callers' run, and whoever would end this call is gone.
            Side::Server => now.since(self.quiet) > OTHERS,
            Side::Client => match self.patience(now, at) {
                Patience::Waits(waited, Some(limit)) => waited > limit.max(self.least()),
                Patience::Waits(_, None) | Patience::Pauses => false,
            },
        };
        if left { Ahead::Nothing } else { Ahead::Open }
    }

    /// How long it waits at least before a run is over without it: what others have waited is a guess, and
    /// not one to call a run failed by while there is time.
    fn least(&self) -> Duration {
        match self.seen.awaits() {
            // A client has no timer once something was said to its INVITE (RFC 3261 section 17.1.1.2).
            Some(asking) if asking.method == Method::Invite && self.tried => RINGING,
            Some(_) => TRANSACTION,
            None if self.seen.rings() => RINGING,
            None => STANDING,
        }
    }

    /// For how long it has waited, and may. SIP has timers for answers; for ringing only those of proxies,
    /// and for what the other side begins none: there the other calls are the measure. What the step says
    /// itself of how long it waits comes first.
    fn patience(&self, now: Time, at: Awaited) -> Patience {
        let quiet = now.since(self.quiet);
        let session = self.seen.session.filter(|s| s.established.is_none());
        let cancelled = session.is_some_and(|s| s.cancelled);
        let rings = self.seen.rings() && !cancelled;
        let asking = self.seen.awaits().filter(|_| !rings);
        let (waited, limit) = match asking {
            _ if rings => (quiet, Some(at.longest.map_or(RINGING, |longest| OTHERS.max(longest * 2)))),
            Some(_) if cancelled => (quiet, Some(SILENT)),
            Some(asking) => (now.since(asking.began.sent), Some(SILENT)),
            None if at.answer => (quiet, Some(OTHERS)),
            // What came once may come again or not.
            None if self.round > 0 => (quiet, None),
            None => (quiet, at.longest.map(|longest| OTHERS + longest * 2)),
        };
        let limit = match self.give_up {
            None => limit,
            // It pauses where something may come.
            Some(_) if at.goes_on && asking.is_none() => return Patience::Pauses,
            Some(_) if asking.is_some() && !at.goes_on => Some(TRANSACTION),
            Some(_) => None,
        };
        Patience::Waits(waited, limit)
    }

    /// Forgets everything but the memory.
    fn clear(&mut self) {
        for text in [
            &mut self.call_id,
            &mut self.last,
            &mut self.sent,
            &mut self.peer_tag,
            &mut self.routes,
            &mut self.next_url,
        ] {
            text.clear();
            if text.capacity() > LARGE {
                *text = Vec::new();
            }
        }
        self.doing = Doing::Nothing;
        self.likeness = None;
        (self.step, self.round, self.cseq) = (0, 0, 0);
        self.sent_at = None;
        (self.answered, self.tried, self.connected) = (false, false, false);
        (self.resend, self.give_up, self.other) = (None, None, None);
        self.challenged = false;
        self.acks.clear();
        self.seen = Seen::default();
        self.earlier.clear();
        self.timers.fill(None);
        self.branches.iter_mut().for_each(Vec::clear);
    }
}

/// What a call waits for.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// It is a response.
    pub answer: bool,
    /// When the step has waited for as long as it may, it leads elsewhere, and the call has not failed.
    pub goes_on: bool,
    /// How long calls have waited there at most for what then came, if it came to any.
    pub longest: Option<Duration>,
}

/// What is ahead of a call, or of all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ahead {
    /// What it waits for is not to be expected any more.
    Nothing,
    /// It waits for the other side, and has no time of its own.
    Open,
    /// Something is to be done for it at some time.
    Something,
}

/// How long a call waits.
enum Patience {
    /// It pauses where something may come.
    Pauses,
    /// For how long it has waited, and after how long what it waits for is not to be expected any more, if
    /// that is so at any time.
    Waits(Duration, Option<Duration>),
}

/// What the end of a run makes of a call that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// What it waits for is not to be expected any more.
    Overdue,
    /// It may or may not come: what this call says of the server is open.
    Open,
    /// It has hardly begun.
    Young,
}

/// How long a call may ring where none was ever answered: proxies wait longer (timer C, RFC 3261 section
/// 16.6).
const RINGING: Duration = Duration::from_secs(180);
/// How long the other side of a session may say nothing, where it is to speak next.
const STANDING: Duration = Duration::from_secs(600);
/// How much longer than others a call may wait.
const OTHERS: Duration = Duration::from_secs(60);
/// No answer is awaited for longer than this where nothing was said of one (64 times T1: timers B and F, RFC
/// 3261 section 17.1).
const TRANSACTION: Duration = Duration::from_secs(32);

/// Texts that grew beyond this do not stay with a freed call.
const LARGE: usize = 8 << 10;

/// A worker's calls. They stay where they are, each beside its texts: moving thousands of them to a larger
/// place would make the worker late by milliseconds.
#[derive(Default)]
pub struct Calls {
    /// By slot; as many as were ever in use.
    #[expect(clippy::vec_box, reason = "what grows is to be small")]
    made: Vec<Box<Call>>,
    free: Vec<u32>,
}

impl Calls {
    /// A call for use; `None` if there are 2^32 already.
    pub fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = u32::try_from(self.made.len()).ok().filter(|&slot| slot != u32::MAX)?;
        self.made.push(Box::new(Call::new()));
        Some(slot)
    }

    /// Frees a call.
    pub fn give(&mut self, slot: u32) {
        if let Some(call) = self.at(slot).filter(|call| call.doing != Doing::Nothing) {
            call.clear();
            call.generation = call.generation.wrapping_add(1);
            self.free.push(slot);
        }
    }

    /// The call in a slot, whatever it is doing.
    #[inline(always)]
    pub fn at(&mut self, slot: u32) -> Option<&mut Call> {
        self.made.get_mut(slot as usize).map(Box::as_mut)
    }

    /// The call in a slot if it is of this generation and under way.
    #[inline]
    pub fn find(&self, slot: u32, generation: u32) -> Option<&Call> {
        self.get(slot).filter(|c| c.generation == generation && c.doing != Doing::Nothing)
    }

    /// The call in a slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&Call> {
        self.made.get(slot as usize).map(Box::as_ref)
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.made.len() - self.free.len()
    }

    /// All that are under way.
    pub fn under_way(&self) -> impl Iterator<Item = &Call> {
        self.made.iter().map(Box::as_ref).filter(|call| call.doing != Doing::Nothing)
    }

    /// Slots of all that are under way.
    pub fn slots(&self) -> Vec<u32> {
        let live = (0..).zip(&self.made).filter(|(_, call)| call.doing != Doing::Nothing);
        live.map(|(slot, _)| slot).collect()
    }
}
