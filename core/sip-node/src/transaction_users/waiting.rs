//! Requests waiting for bindings that others hold, each in its server transaction.

use crate::admitted::Caller;
use crate::routing::{Ask, Finding, Findings};
use crate::server_side::ServerSide;
use crate::services::{Question, Services};
use crate::shortage::Shortage;
use crate::step::Step;
use crate::trunk_ref::TrunkRef;
use core::mem;
use core::time::Duration;
use sip_transaction::{Layer, Original, Payer, Share, TimerId};
use std::collections::BTreeMap;
use wire::{Flow, Time};

/// Requests that may wait at a time; unproven senders have their shares of it.
const MOST: usize = 4_096;
/// A request waits for one answer no longer than this, whatever the location service allows.
const LONGEST: Duration = Duration::from_secs(2);
/// Answers that one request may wait for: a static route may name several users.
pub(super) const MOST_ANSWERS: usize = 4;
/// Requests shown in one step of a walk, as of those that are forwarded.
const WALKED: usize = 1_024;
/// A question has no more names of requests that do not wait any longer than of those that do, and these.
const STALE: usize = 64;

/// Names a waiting request; kept by its server transaction and its timer. Its lower half is 0; that of a
/// forwarded request's name is not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaiterId(u64);

impl WaiterId {
    /// From the user data of a server transaction or timer.
    pub const fn of(user: u64) -> Option<WaiterId> {
        if user != 0 && user as u32 == 0 { Some(WaiterId(user)) } else { None }
    }
}

/// A request that waits.
pub(super) struct Waiter {
    pub server: ServerSide,
    pub flow: Flow,
    pub caller: Caller<'static>,
    /// Its trunk: a reload may change the place that the caller has.
    pub trunk: Option<TrunkRef>,
    pub findings: Findings,
    request: Original,
    aor: Box<[u8]>,
    timer: TimerId,
}

impl Waiter {
    /// A waiter without a question. Its payer is charged for the request.
    pub fn new(
        server: ServerSide,
        flow: Flow,
        (caller, trunk): (Caller<'static>, Option<TrunkRef>),
        request: Original,
    ) -> Waiter {
        let (findings, aor) = (Findings::default(), Box::default());
        Waiter { server, flow, caller, trunk, findings, request, aor, timer: TimerId::NONE }
    }

    /// Takes the request out, to read it.
    pub fn take_request(&mut self) -> Original {
        mem::take(&mut self.request)
    }

    /// Puts it back.
    pub fn with_request(self, request: Original) -> Waiter {
        Waiter { request, ..self }
    }

    /// Notes the result of its question.
    pub fn note(&mut self, finding: Finding) {
        self.findings.add(mem::take(&mut self.aor), finding);
    }
}

/// A question under way.
struct Asked {
    /// When its answer counts as lost.
    until: Time,
    /// In order of arrival, with some that do not wait any longer.
    waiters: Vec<WaiterId>,
    /// How many of these wait.
    live: usize,
}

/// All requests of a worker that wait.
pub(super) struct Waiting {
    waiters: BTreeMap<WaiterId, Waiter>,
    share: Share,
    questions: BTreeMap<Box<[u8]>, Asked>,
    last: u32,
    /// Where [`Waiting::walk`] goes on; none when it is done.
    walk: Option<WaiterId>,
}

impl Default for Waiting {
    fn default() -> Waiting {
        let (waiters, questions) = (BTreeMap::new(), BTreeMap::new());
        Waiting { waiters, share: Share::new(MOST), questions, last: 0, walk: None }
    }
}

impl Waiting {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether another request of this payer may wait.
    ///
    /// # Errors
    /// What there is no room in.
    pub fn admits(&self, payer: Payer) -> Result<(), Shortage> {
        match self.share.admits(payer, 1) {
            true => Ok(()),
            false if self.share.has_room(1) => Err(Shortage::Share),
            false => Err(Shortage::Waiting),
        }
    }

    /// Lets a request wait for an answer, and asks unless the question is under way.
    pub fn add<S: Services>(&mut self, step: &mut Step<'_, S>, mut waiter: Waiter, Ask { aor, until }: Ask) {
        let until = until.min(step.now + LONGEST);
        let id = self.next_id();
        step.layer.set_user(waiter.server.id, id.0);
        waiter.timer = step.layer.schedule(until, id.0);
        match self.questions.get_mut(&aor) {
            Some(asked) => {
                if asked.waiters.len() > 2 * asked.live + STALE {
                    asked.waiters.retain(|id| self.waiters.contains_key(id));
                }
                asked.waiters.push(id);
                asked.live += 1;
                if asked.until <= step.now {
                    asked.until = until;
                    step.site.services().ask(Question::Bindings { aor: aor.clone() });
                }
            }
            None => {
                self.questions.insert(aor.clone(), Asked { until, waiters: vec![id], live: 1 });
                step.site.services().ask(Question::Bindings { aor: aor.clone() });
            }
        }
        waiter.aor = aor;
        self.share.take(waiter.server.payer, 1);
        let other = self.waiters.insert(id, waiter);
        invariant::holds!(other.is_none(), "no request waits while 2^32 others come");
    }

    /// Takes out a request that no longer waits for an answer. `None`: it does not wait.
    pub fn take(&mut self, layer: &mut Layer, id: WaiterId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        self.share.give(waiter.server.payer, 1);
        layer.unschedule(waiter.timer);
        layer.set_user(waiter.server.id, 0);
        if let Some(asked) = self.questions.get_mut(&waiter.aor) {
            asked.live = asked.live.saturating_sub(1);
            if asked.live == 0 {
                self.questions.remove(&waiter.aor);
            }
        }
        Some(waiter)
    }

    /// The same if it is an INVITE; only an INVITE gets a 100 while it waits.
    pub fn take_invite(&mut self, layer: &mut Layer, id: WaiterId) -> Option<Waiter> {
        self.waiters.get(&id).filter(|waiter| waiter.server.sent_trying)?;
        self.take(layer, id)
    }

    /// A question was answered: the requests waiting for it, in order of arrival, among some that do not wait
    /// any longer. The caller takes them out.
    pub fn answered(&mut self, aor: &[u8]) -> Vec<WaiterId> {
        self.questions.remove(aor).map_or(Vec::new(), |asked| asked.waiters)
    }

    /// Lets [`Waiting::walk`] begin.
    pub fn begin_walk(&mut self) {
        self.walk = Some(WaiterId(0));
    }

    /// Shows all of them, a bounded number at a time, in as many calls as it takes.
    pub fn walk(&mut self, mut show: impl FnMut(&[u8])) {
        let Some(from) = self.walk else { return };
        let mut rest = self.waiters.range(from..);
        rest.by_ref().take(WALKED).for_each(|(_, waiter)| show(&waiter.request));
        self.walk = rest.next().map(|(id, _)| *id);
    }

    fn next_id(&mut self) -> WaiterId {
        self.last = self.last.checked_add(1).unwrap_or(1);
        WaiterId(u64::from(self.last) << 32)
    }
}
