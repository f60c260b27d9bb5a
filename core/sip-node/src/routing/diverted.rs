//! The targets of calls to users who have rules for them: those of the user, or of the one that the call is
//! forwarded to.

use super::{Limiter, Plan, Target};
use crate::admitted::{Admitted, Caller};
use crate::aor::Aor;
use crate::diverting::{Diverting, Trail};
use crate::routing::Router;
use crate::services::{Counter, Services};
use call_forwarding::{First, Hop, Reason, received, uri_of};
use sip_message::{Message, Method, Name, Uri, canonical_user};
use sip_proxy::context::Reroute;
use sip_proxy::routes::Routing;
use sip_proxy::token::Role;
use wire::{Flow, Time};

/// The value of Priority of an emergency service that calls back (RFC 7090 section 5).
const CALL_BACK: &[u8] = b"psap-callback";

/// A user who forwards acts as one that has proven itself.
fn forwarder(user: &[u8]) -> Caller<'_> {
    Caller { account: Some(Aor::of_text(user)), ..Caller::unproven(Role::Local) }
}

/// A call that is being set up.
pub(crate) struct Setup<'a> {
    pub now: Time,
    /// Where it came from.
    pub flow: Flow,
    pub request: &'a Message<'a>,
    /// As it was admitted; `None`: it has been forwarded since.
    pub called: Option<&'a Admitted<'a>>,
}

/// Finds the targets of calls to users who have rules for them.
pub(crate) struct Diverter<'a, S>(Router<'a, S>);

/// Targets and the forwardings that led to each of them.
#[derive(Default)]
struct Found {
    targets: Vec<(u16, Target)>,
    trails: Vec<Option<Trail>>,
}

impl Found {
    fn add(&mut self, targets: Vec<(u16, Target)>, trail: Option<&Trail>) {
        self.trails.extend(targets.iter().map(|_| trail.cloned()));
        self.targets.extend(targets);
    }
}

impl<'a, S: Services> Diverter<'a, S> {
    /// By these routes.
    pub(crate) const fn new(router: Router<'a, S>) -> Diverter<'a, S> {
        Diverter(router)
    }

    /// The call that an INVITE begins, if it is for a user of ours who has rules for it. An emergency service
    /// that calls back over a trunk reaches the phones whatever their user has set (RFC 7090).
    pub(crate) fn begin(&self, request: &Message<'_>, a: &Admitted<'_>) -> Option<Box<Diverting>> {
        let services = self.0.site.services();
        let sets_up = request.method() == Method::Invite && request.to_tag().is_empty() && a.dialog.is_none();
        if !services.has_rules() || !sets_up || a.routing.next.is_some() {
            return None;
        }
        let called = self.0.site.called_aor(&a.uri, a.routing.request_uri)?;
        let user = self.0.meant(&a.caller, called);
        let rules = services.rules(user.user(), user.domain())?;
        let calls_back = a.caller.role == Role::Trunk
            && self.0.site.rules().believes(a.caller.trunk)
            && request.header(Name::Priority).is_some_and(|line| line.value.eq_ignore_ascii_case(CALL_BACK));
        if calls_back || self.0.site.is_emergency_call(&a.uri, a.routing.request_uri) {
            return None;
        }
        Some(Box::new(Diverting::new(&user, rules, received(request))))
    }

    /// Where a call goes: by the rules of the callee, and of the users that it is forwarded to.
    /// `why`: the reason to forward it, with its `cause`; `None`: it begins. Where there is no target,
    /// [`Plan::Offline`].
    pub(crate) fn advance(
        &self,
        call: &mut Diverting,
        mut why: Option<(Reason, u16)>,
        setup: &Setup<'_>,
    ) -> Plan {
        // Each turn is a forwarding, and nobody forwards a call twice.
        loop {
            let (reason, cause) = match (why.take(), call.rules().first()) {
                (Some(why), _) => why,
                (None, First::Forward(reason)) => (reason, reason.cause()),
                (None, First::Refuse) => return self.undisturbed(call, setup),
                (None, First::Ring) => match self.ring(call, setup) {
                    Plan::Offline if call.rules().forwards(Reason::Unreachable).is_some() => {
                        (Reason::Unreachable, 404)
                    }
                    plan => return plan,
                },
            };
            if !self.forward(call, reason, cause) {
                return Plan::Offline;
            }
        }
    }

    /// The call of a user who does not want to be disturbed: to the mailbox if busy users have one.
    fn undisturbed(&self, call: &mut Diverting, setup: &Setup<'_>) -> Plan {
        let settings = self.0.site.settings();
        let mailbox = settings.voicemail.as_ref().filter(|voicemail| voicemail.on.has(Reroute::BUSY));
        let target = mailbox.and_then(|_| self.0.voicemail_target(setup.now, setup.flow, setup.request, 486));
        let Some(target) = target else { return Plan::Refuse(settings.proxy.forwarding.quiet_status) };
        self.0.site.services().count(Counter::Voicemail);
        call.go_to_mailbox();
        call.set_trails(Vec::new());
        Plan::Forward(vec![(1000, target)])
    }

    /// Notes a forwarding, if there may be one.
    fn forward(&self, call: &mut Diverting, reason: Reason, cause: u16) -> bool {
        let (services, limit) = (self.0.site.services(), self.0.site.settings().proxy.forwarding.limit);
        let Some(text) = call.rules().forwards(reason) else { return false };
        let to = uri_of(text, call.domain());
        let Ok(uri) = Uri::parse(&to) else { return false };
        // The caller of such an emergency call would not be the one who needs help.
        if self.is_for_help(call.user(), &uri, &to) {
            return false;
        }
        if !call.chain().may_forward(call.user(), limit) {
            services.count(Counter::ForwardingsEnded);
            return false;
        }
        services.count(Counter::Forwardings);
        let user = self.0.site.called_aor(&uri, &to).map(|aor| self.0.meant(&forwarder(call.user()), aor));
        let rules = user.as_ref().and_then(|user| services.rules(user.user(), user.domain()));
        let hop = Hop { by: call.user().into(), to: to.as_slice().into(), reason, cause };
        call.go(hop, user.as_ref(), rules);
        true
    }

    /// The phones of the callee, or the target that the call was forwarded to, and the numbers that ring at
    /// the same time.
    fn ring(&self, call: &mut Diverting, setup: &Setup<'_>) -> Plan {
        let led: Option<Trail> = call.chain().to().map(|_| call.chain().hops().into());
        let plan = match (call.chain().hops().last(), setup.called) {
            (Some(hop), _) => self.on_behalf(&hop.by, &hop.to, setup),
            (None, Some(a)) => {
                let plan = self.0.plan_into(&mut Vec::new(), setup.now, setup.flow, setup.request, a);
                match Limiter::new(self.0.site, setup.now) {
                    Some(limiter) => limiter.limited(plan, setup.flow, setup.request, a).0,
                    None => plan,
                }
            }
            (None, None) => Plan::Offline,
        };
        let mut found = Found::default();
        match plan {
            Plan::Forward(targets) => found.add(targets, led.as_ref()),
            Plan::Offline => {}
            // What the caller may not do is an answer; what a user has set and may not is none.
            Plan::Refuse(_) | Plan::Redirect(_) | Plan::NoDialog | Plan::Barred(_) if led.is_some() => {}
            plan => return plan,
        }
        self.ring_further(call, setup, &mut found);
        call.set_trails(found.trails);
        if found.targets.is_empty() { Plan::Offline } else { Plan::Forward(found.targets) }
    }

    /// Whether a target is for emergencies, however it is written and whatever its host is.
    fn is_for_help(&self, by: &[u8], uri: &Uri<'_>, whole: &[u8]) -> bool {
        let site = self.0.site;
        let Some(emergency) = &site.settings().emergency else { return false };
        let separator = |b: &u8| matches!(b, b'-' | b'.' | b'(' | b')');
        let user = canonical_user(uri.user.unwrap_or(b""));
        let digits: Vec<u8> = user.iter().copied().filter(|b| !separator(b)).collect();
        let named = site.called_aor(uri, whole).map(|aor| self.0.meant(&forwarder(by), aor));
        emergency.is_named_by(whole)
            || emergency.has(&digits)
            || named.is_some_and(|aor| emergency.has(aor.user()))
            || emergency.targets.iter().any(|target| target == whole)
    }

    /// Adds the numbers that ring together with the targets that ring first.
    fn ring_further(&self, call: &Diverting, setup: &Setup<'_>, found: &mut Found) {
        let (services, limit) = (self.0.site.services(), self.0.site.settings().proxy.forwarding.limit);
        if call.rules().also().next().is_some() && !call.chain().may_forward(call.user(), limit) {
            // A carrier that sends the call back makes it anew, so only this limit ends the loop.
            services.count(Counter::ForwardingsEnded);
            return;
        }
        let q = found.targets.iter().map(|(q, _)| *q).max().unwrap_or(1000);
        for number in call.rules().also() {
            let to = uri_of(number, call.domain());
            if Uri::parse(&to).is_ok_and(|uri| self.is_for_help(call.user(), &uri, &to)) {
                continue;
            }
            let reason = Reason::FollowMe;
            let hop = Hop { by: call.user().into(), to: to.as_slice().into(), reason, cause: reason.cause() };
            let trail: Trail = call.chain().hops().iter().cloned().chain([hop]).collect();
            if let Plan::Forward(mut more) = self.on_behalf(call.user(), &to, setup) {
                more.iter_mut().for_each(|(own, _)| *own = q);
                found.add(more, Some(&trail));
            }
        }
    }

    /// The targets of a call that one of our users forwards: those that it would have if that user had made
    /// it. So the rights and the class of that user count, not the caller's.
    fn on_behalf(&self, user: &[u8], to: &[u8], setup: &Setup<'_>) -> Plan {
        let Ok(uri) = Uri::parse(to) else { return Plan::Offline };
        let routing = Routing {
            request_uri: to,
            own: 0,
            drop_last: false,
            token: None,
            next: None,
            next_is_loose: true,
        };
        let a = Admitted { uri, routing, dialog: None, caller: forwarder(user) };
        let plan = self.0.plan_into(&mut Vec::new(), setup.now, setup.flow, setup.request, &a);
        match Limiter::new(self.0.site, setup.now) {
            Some(limiter) => limiter.forwarded(user, plan, setup.flow, setup.request, &a),
            None => plan,
        }
    }
}
