//! A step: one message, timer or answer, with the time, the outbox, and what all parts of a node
//! use to handle it.

use crate::admitted::Admitted;
use crate::bindings::Bindings;
use crate::calls::Calls;
use crate::ingress::Ingress;
use crate::overload::{Overload, Verdict};
use crate::random::Random;
use crate::recent_responses::RecentResponses;
use crate::routing::{Charge, Findings, Limiter, Others, Plan, Router, Target};
use crate::services::Services;
use crate::settings::Settings;
use crate::shortage::Shortages;
use crate::site::{Keys, Site};
use sip_message::{Index, Message, Splices};
use sip_transaction::{Layer, Limits, Timers};
use std::sync::Arc;
use wire::{Flow, Outbox, Time};

/// What all parts of a node use. It is lent to them for one step at a time.
pub(crate) struct Base<S> {
    site: Site<S>,
    layer: Layer,
    calls: Calls,
    overload: Overload,
    shortages: Shortages,
    responses: RecentResponses,
    random: Random,
    parser: Parser,
    splices: Splices,
    scratch: Vec<u8>,
    targets: Vec<(u16, Target)>,
}

impl<S: Services> Base<S> {
    /// With nothing going on.
    pub fn new(
        keys: &Keys,
        seed: [u64; 2],
        (timers, limits): (Timers, Limits),
        settings: Arc<Settings>,
        services: S,
    ) -> Base<S> {
        let [a, b] = seed;
        let mut calls = Calls::new(settings.calls, seed);
        calls.set_forget(settings.proxy.session_timeout);
        let mut overload = Overload::new(settings.overload, a.rotate_left(32) ^ b);
        overload.set_numbers(settings.emergency.as_ref());
        Base {
            calls,
            overload,
            shortages: Shortages::default(),
            responses: RecentResponses::default(),
            random: Random::new(a ^ b.rotate_left(17)),
            layer: Layer::new(timers, limits, seed),
            site: Site::new(keys, settings, services),
            parser: Parser::default(),
            splices: Splices::new(),
            scratch: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Begins a step.
    #[inline]
    pub fn step<'a>(&'a mut self, now: Time, out: &'a mut Outbox) -> Step<'a, S> {
        Step {
            now,
            out,
            verdict: None,
            charge: None,
            site: &mut self.site,
            layer: &mut self.layer,
            calls: &mut self.calls,
            overload: &mut self.overload,
            shortages: &mut self.shortages,
            responses: &mut self.responses,
            random: &self.random,
            parser: &mut self.parser,
            splices: &mut self.splices,
            scratch: &mut self.scratch,
            targets: &mut self.targets,
        }
    }

    /// What the server is.
    #[inline]
    pub const fn site(&self) -> &Site<S> {
        &self.site
    }

    /// The same, to change it.
    pub const fn site_mut(&mut self) -> &mut Site<S> {
        &mut self.site
    }

    /// The transactions.
    pub const fn layer(&self) -> &Layer {
        &self.layer
    }

    /// The calls.
    pub const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// What there was too little of.
    pub const fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    /// How much new work is accepted.
    pub const fn overload(&self) -> &Overload {
        &self.overload
    }

    /// The same, to change it.
    pub const fn overload_mut(&mut self) -> &mut Overload {
        &mut self.overload
    }

    /// Notes a request that was taken on before the overload.
    pub fn remember(&mut self, call_id: &[u8]) {
        self.overload.remember(self.site.ownership().lot(call_id));
    }

    /// New settings, in force from here.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.calls.set_limit(settings.calls);
        self.calls.set_forget(settings.proxy.session_timeout);
        if self.overload.set_rules(settings.overload).is_some() {
            self.site.services().overloaded(false, core::time::Duration::ZERO);
        }
        self.overload.set_numbers(settings.emergency.as_ref());
        self.site.set_settings(settings);
    }
}

/// One step.
pub(crate) struct Step<'a, S> {
    pub now: Time,
    pub out: &'a mut Outbox,
    /// In an overload: what becomes of the message if it is new work. `None`: that is to be judged
    /// when it is known to be new.
    pub verdict: Option<Verdict>,
    /// What the call that was planned last is counted as.
    pub charge: Option<Charge>,
    pub site: &'a mut Site<S>,
    pub layer: &'a mut Layer,
    pub calls: &'a mut Calls,
    pub overload: &'a mut Overload,
    pub shortages: &'a mut Shortages,
    pub responses: &'a mut RecentResponses,
    pub random: &'a Random,
    parser: &'a mut Parser,
    /// The changes of a message that is being written.
    pub splices: &'a mut Splices,
    /// An empty buffer, or one to empty.
    pub scratch: &'a mut Vec<u8>,
    targets: &'a mut Vec<(u16, Target)>,
}

impl<'a, S: Services> Step<'a, S> {
    /// Routing by what is known here.
    pub const fn router(&self) -> Router<'_, S> {
        Router::new(self.site, self.calls, Others::Local(Findings::NONE), self.random)
    }

    /// What requests show.
    pub const fn ingress(&self) -> Ingress<'_, S> {
        Ingress::new(self.site, self.calls)
    }

    /// What is bound.
    pub const fn bindings(&self) -> Bindings<'_, S> {
        Bindings::new(self.site)
    }

    /// Decides where a request goes. The memory of its targets comes back with [`Step::recycle`].
    pub fn plan(&mut self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>, others: Others<'_>) -> Plan {
        let router = Router::new(self.site, self.calls, others, self.random);
        let plan = router.plan_into(self.targets, self.now, flow, request, a);
        let Some(limiter) = Limiter::new(self.site, self.now) else { return plan };
        let (plan, charge) = limiter.limited(plan, flow, request, a);
        self.charge = charge;
        plan
    }

    /// Keeps the memory of a plan's targets.
    pub fn recycle(&mut self, mut targets: Vec<(u16, Target)>) {
        targets.clear();
        if targets.capacity() <= 16 {
            *self.targets = targets;
        }
    }

    /// Runs `work` with an index to parse with. Nested uses get an index of their own.
    pub fn with_index<R>(&mut self, work: impl FnOnce(&mut Step<'a, S>, &mut Index) -> R) -> R {
        let mut index = self.parser.take();
        let result = work(self, &mut index);
        self.parser.put(index);
        result
    }

    /// Keeps the response that was queued last, in case that its connection is gone.
    pub fn keep_response(&mut self) {
        self.responses.keep(self.layer, self.out);
    }
}

/// Indexes to parse with: one for the message that came, and one for a message that is parsed meanwhile.
#[derive(Default)]
pub(crate) struct Parser {
    first: Option<Box<Index>>,
    second: Option<Box<Index>>,
}

impl Parser {
    fn take(&mut self) -> Box<Index> {
        self.first.take().or_else(|| self.second.take()).unwrap_or_default()
    }

    fn put(&mut self, index: Box<Index>) {
        match self.first {
            None => self.first = Some(index),
            Some(_) => self.second = Some(index),
        }
    }
}
