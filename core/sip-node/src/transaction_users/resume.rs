//! How a request begins to wait for bindings that others hold, and how it goes on (RFC 3261 section 16.5).
//!
//! It goes on as if it had just arrived: it is planned again, with the answer. So everything that depends on
//! the target set works without code of its own.

use super::waiting::{MOST_ANSWERS, Waiter, WaiterId};
use super::{Course, TransactionUsers, course_of};
use crate::admitted::{Addressing, Admitted, Caller, carried};
use crate::located::Located;
use crate::routing::{Ask, Finding, Others};
use crate::server_side::ServerSide;
use crate::services::{Counter, Services};
use crate::site::Aor;
use crate::step::Step;
use crate::trunk_ref::TrunkRef;
use sip_message::{Limits, Method, Parsed, parse};
use sip_transaction::{Event, Original, Prepared};
use std::borrow::Cow;
use std::sync::Arc;
use wire::Flow;

impl TransactionUsers {
    /// How many requests wait for bindings.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Starts [`TransactionUsers::walk_pending`] anew.
    pub fn begin_walk(&mut self) {
        self.forwarder.begin_walk();
        self.waiting.begin_walk();
    }

    /// Shows some of the requests that have no final answer yet, in as many calls as it takes.
    pub fn walk_pending(&mut self, mut show: impl FnMut(&[u8])) {
        self.waiting.walk(&mut show);
        self.forwarder.walk_pending(show);
    }

    /// A new request begins to wait.
    pub(super) fn wait<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        ask: Ask,
    ) {
        let (payer, _) = step.ingress().standing(flow, request, a);
        if let Err(shortage) = self.waiting.admits(payer) {
            step.site.services().count(Counter::LocationRefused);
            return step.crowded(flow, request, shortage);
        }
        let Some(server) = step.accept_to_wait(flow, request, a) else { return };
        // The duration of the wait is unknown (section 17.2.1).
        let sent_trying = request.method() == Method::Invite;
        if sent_trying {
            step.answer_in(flow, request, server, 100, b"");
        }
        let realm = a.caller.realm.as_deref().map(|realm| Cow::Owned(realm.to_vec()));
        let account = a.caller.account.as_ref().map(Aor::kept);
        let caller = Caller { realm, account, ..a.caller };
        let server = ServerSide { sent_trying, ..server };
        let stored = Original::new(request.bytes().to_vec());
        step.layer.hold(server.payer, &stored);
        let trunk = caller.trunk.map(|at| TrunkRef::new(step.site.settings(), at));
        self.waiting.add(step, Waiter::new(server, flow, (caller, trunk), stored), ask);
    }

    /// The answer to a question.
    pub fn located<S: Services>(&mut self, step: &mut Step<'_, S>, located: Located) {
        match located {
            Located::Name { kind, name, answer, ttl } => {
                self.forwarder.located(step, (kind, &name), answer, ttl);
            }
            Located::Bindings { aor, found } => {
                let found = found.map(Arc::new);
                for id in self.waiting.answered(&aor) {
                    let finding = match &found {
                        Ok(set) => Finding::Bindings(Arc::clone(set)),
                        Err(down) => Finding::Down(*down),
                    };
                    self.go_on(step, id, finding);
                }
            }
        }
    }

    /// What time or the transport did.
    #[inline]
    pub fn event<S: Services>(&mut self, step: &mut Step<'_, S>, event: Event) {
        match event {
            Event::User { token: user } | Event::ServerGone { user, .. } => match WaiterId::of(user) {
                Some(id) => self.waited(step, id, event),
                None => self.forwarder.event(step, event),
            },
            _ => self.forwarder.event(step, event),
        }
    }

    /// A request has waited as long as it may, or its transaction has ended.
    #[cold]
    fn waited<S: Services>(&mut self, step: &mut Step<'_, S>, id: WaiterId, event: Event) {
        match event {
            Event::User { .. } => self.go_on(step, id, Finding::Silent),
            _ => {
                if let Some(mut waiter) = self.waiting.take(step.layer, id) {
                    step.record_failed(waiter.server.recorded, 408, false);
                    step.layer.release(waiter.server.payer, waiter.take_request());
                }
            }
        }
    }

    /// A CANCEL for a request that waits: no branch has begun, so it ends at once (sections 9.2, 16.10).
    #[cold]
    pub(super) fn cancel_waiting<S: Services>(&mut self, step: &mut Step<'_, S>, id: WaiterId) {
        let Some(mut waiter) = self.waiting.take_invite(step.layer, id) else { return };
        step.site.services().count(Counter::LocationCancelled);
        step.site.services().count(Counter::CallsFailed);
        let (stored, flow, server) = (waiter.take_request(), waiter.flow, waiter.server);
        step.with_index(|step, index| match parse(&stored, index, &Limits::READ_BEFORE) {
            Parsed::Good(request) | Parsed::Bad(request, _) => {
                step.answer_in(flow, &request, server, 487, b"");
            }
            Parsed::Garbage(_) => unreadable(step, server),
        });
        step.layer.release(server.payer, stored);
    }

    /// A request no longer waits for this answer.
    fn go_on<S: Services>(&mut self, step: &mut Step<'_, S>, id: WaiterId, finding: Finding) {
        let Some(mut waiter) = self.waiting.take(step.layer, id) else { return };
        step.site.services().count(match finding {
            Finding::Bindings(_) => Counter::LocationAnswered,
            Finding::Silent => Counter::LocationSilent,
            Finding::Down(_) => Counter::LocationDown,
        });
        waiter.note(finding);
        let (stored, payer) = (waiter.take_request(), waiter.server.payer);
        let further = step.with_index(|step, index| match parse(&stored, index, &Limits::READ_BEFORE) {
            Parsed::Good(message) | Parsed::Bad(message, _) => {
                let request = step.layer.prepare(&message);
                let further = self.resume(step, &request, waiter);
                step.layer.finish(request);
                further
            }
            Parsed::Garbage(_) => {
                unreadable(step, waiter.server);
                None
            }
        });
        match further {
            Some((waiter, ask)) => self.waiting.add(step, waiter.with_request(stored), ask),
            None => {
                step.layer.release(payer, stored);
            }
        }
    }

    /// Goes on with a request. Returns the next question, if it must wait again.
    fn resume<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        request: &Prepared<'_>,
        waiter: Waiter,
    ) -> Option<(Waiter, Ask)> {
        let (flow, server) = (waiter.flow, waiter.server);
        let Addressing { read, dialog } = step.ingress().addressing(request);
        let Ok((routing, uri)) = read else {
            // The settings have changed meanwhile.
            step.answer_in(flow, request, server, 400, b"");
            return None;
        };
        let mut caller = waiter.caller.clone();
        // It was found when the request came. Its connection may be gone, and the settings may be others.
        caller.trunk = waiter.trunk.as_ref().and_then(|trunk| trunk.place_in(step.site.settings()));
        let a = Admitted { uri: carried(uri, &routing), routing, dialog, caller };
        // For further users, only the bindings known here count.
        let asks = waiter.findings.len() < MOST_ANSWERS;
        let others = if asks { Others::Ask(&waiter.findings) } else { Others::Local(&waiter.findings) };
        match course_of(step, flow, request, &a, others) {
            Course::Wait(ask) => return Some((waiter, ask)),
            course => self.follow(step, flow, request, &a, course, Some(server)),
        }
        None
    }
}

/// A request that waited cannot be read again. Nothing can be written in answer to it, so its transaction is
/// forgotten: what repeats it is a new request.
#[cold]
fn unreadable<S: Services>(step: &mut Step<'_, S>, server: ServerSide) {
    invariant::broken!("a request that waits was read before");
    step.record_failed(server.recorded, 500, false);
    step.layer.abandon_server(server.id);
}
