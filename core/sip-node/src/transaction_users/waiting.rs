//! Requests waiting for bindings that others hold, each in its server transaction.

use crate::admitted::Caller;
use crate::routing::{Ask, Finding, Findings};
use crate::server_side::ServerSide;
use crate::services::{Question, Services};
use crate::step::Step;
use core::mem;
use core::time::Duration;
use sip_transaction::{Layer, Original, TimerId};
use std::collections::BTreeMap;
use wire::{Flow, Time};

/// Requests that may wait at a time.
const MOST: usize = 4_096;
/// A request waits for one answer no longer than this, whatever the location service allows.
const LONGEST: Duration = Duration::from_secs(2);
/// Answers that one request may wait for: a static route may name several users.
pub(super) const MOST_ANSWERS: usize = 4;

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
    pub findings: Findings,
    request: Original,
    aor: Box<[u8]>,
    timer: TimerId,
}

impl Waiter {
    /// A waiter without a question. Its payer is charged for the request.
    pub fn new(server: ServerSide, flow: Flow, caller: Caller<'static>, request: Original) -> Waiter {
        let (findings, aor) = (Findings::default(), Box::default());
        Waiter { server, flow, caller, findings, request, aor, timer: TimerId::NONE }
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
    waiters: Vec<WaiterId>,
}

/// All requests of a worker that wait.
#[derive(Default)]
pub(super) struct Waiting {
    waiters: BTreeMap<WaiterId, Waiter>,
    questions: BTreeMap<Box<[u8]>, Asked>,
    last: u32,
    /// Whether they are to be shown.
    walk: bool,
}

impl Waiting {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether no further one may wait.
    pub fn is_full(&self) -> bool {
        self.waiters.len() >= MOST
    }

    /// Lets a request wait for an answer, and asks unless the question is under way.
    pub fn add<S: Services>(&mut self, step: &mut Step<'_, S>, mut waiter: Waiter, Ask { aor, until }: Ask) {
        let until = until.min(step.now + LONGEST);
        let id = self.next_id();
        step.layer.set_user(waiter.server.id, id.0);
        waiter.timer = step.layer.schedule(until, id.0);
        match self.questions.get_mut(&aor) {
            Some(asked) => {
                asked.waiters.push(id);
                if asked.until <= step.now {
                    asked.until = until;
                    step.site.services().ask(Question::Bindings { aor: aor.clone() });
                }
            }
            None => {
                self.questions.insert(aor.clone(), Asked { until, waiters: vec![id] });
                step.site.services().ask(Question::Bindings { aor: aor.clone() });
            }
        }
        waiter.aor = aor;
        self.waiters.insert(id, waiter);
    }

    /// Takes out a request that no longer waits for an answer. `None`: it does not wait.
    pub fn take(&mut self, layer: &mut Layer, id: WaiterId) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        layer.unschedule(waiter.timer);
        layer.set_user(waiter.server.id, 0);
        if let Some(asked) = self.questions.get_mut(&waiter.aor) {
            asked.waiters.retain(|waits| *waits != id);
            if asked.waiters.is_empty() {
                self.questions.remove(&waiter.aor);
            }
        }
        Some(waiter)
    }

    /// The same if it is an INVITE; only an INVITE gets a 100 while it waits.
    pub fn take_invite(&mut self, layer: &mut Layer, id: WaiterId) -> Option<Waiter> {
        self.waiters.get(&id).filter(|waiter| waiter.server.told)?;
        self.take(layer, id)
    }

    /// A question was answered: the requests waiting for it, in order of arrival. The caller takes them
    /// out.
    pub fn answered(&mut self, aor: &[u8]) -> Vec<WaiterId> {
        self.questions.remove(aor).map_or(Vec::new(), |asked| asked.waiters)
    }

    /// Lets [`Waiting::walk`] begin.
    pub fn begin_walk(&mut self) {
        self.walk = true;
    }

    /// Shows all of them, once.
    pub fn walk(&mut self, mut show: impl FnMut(&[u8])) {
        if mem::take(&mut self.walk) {
            self.waiters.values().for_each(|waiter| show(&waiter.request));
        }
    }

    fn next_id(&mut self) -> WaiterId {
        self.last = self.last.checked_add(1).unwrap_or(1);
        let id = WaiterId(u64::from(self.last) << 32);
        debug_assert!(!self.waiters.contains_key(&id), "no request waits while 2^32 others come");
        id
    }
}
