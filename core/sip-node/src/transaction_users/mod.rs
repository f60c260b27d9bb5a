//! What is above the transactions: a request that was admitted is handled by one transaction user (RFC 3261
//! section 5).
//!
//! A new kind of transaction user is a variant of [`TransactionUser`], its case in
//! [`TransactionUsers::new_request`], and a file of its own.
//!
//! A request whose targets must be asked of another node or a store waits in `waiting`; `resume` continues
//! it.

mod own;
mod redirect;
mod resume;
mod waiting;

use crate::admitted::{Addressing, Admitted};
use crate::forwarding::Forwarder;
use crate::gate::{Gate, admit_unproven};
use crate::ingress::status_of;
use crate::overload::Verdict;
use crate::registrar::Registrar;
use crate::replies::retry_after;
use crate::routing::{Ask, Diverter, Findings, Others, Plan, Router, Setup, TargetSet};
use crate::server_side::ServerSide;
use crate::services::{Counter, Refusal, Services};
use crate::settings::Mode;
use crate::step::Step;
use call_limits::Barred;
use sip_message::{Message, Method, Response};
use sip_proxy::context::Reroute;
use sip_proxy::transport::{always_rport, reply_flow};
use sip_transaction::{Inbound, Prepared, ServerId};
use waiting::{WaiterId, Waiting};
use wire::Flow;

/// Who handles a new request.
enum TransactionUser {
    /// A REGISTER for a domain of ours (section 10).
    Registrar,
    /// For the server itself.
    Own,
    /// Forwards without transactions (section 16.11).
    StatelessProxy(Plan),
    /// A proxy or redirect server with transactions.
    Stateful(Course),
}

/// What is done with a request that is not for the server itself.
enum Course {
    /// Tell the caller to try these Contact values (section 8.3).
    Redirect(Vec<u8>),
    /// Forward to these targets, in groups of falling q (section 16).
    Proxy(TargetSet),
    /// Answer with this status and reason phrase; with Retry-After if there is a number of seconds.
    Decline(u16, &'static [u8], Option<u32>),
    /// Answer 403, because of the class of the caller.
    Barred(Barred),
    /// Wait for bindings that others hold.
    Wait(Ask),
}

/// The transaction users of one worker, and the gate before them.
pub(crate) struct TransactionUsers {
    gate: Gate,
    registrar: Registrar,
    forwarder: Forwarder,
    waiting: Waiting,
}

impl TransactionUsers {
    /// With nothing going on.
    pub fn new(gate: Gate, forwarder: Forwarder) -> TransactionUsers {
        TransactionUsers { gate, registrar: Registrar::default(), forwarder, waiting: Waiting::default() }
    }

    /// The gate.
    pub const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The same, to change it.
    pub const fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// What forwards.
    pub const fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }

    /// The same, to tell it something.
    pub const fn forwarder_mut(&mut self) -> &mut Forwarder {
        &mut self.forwarder
    }

    /// What registers.
    pub const fn registrar_mut(&mut self) -> &mut Registrar {
        &mut self.registrar
    }

    /// A request without a flaw.
    pub fn request<S: Services>(&mut self, step: &mut Step<'_, S>, flow: Flow, request: &Message<'_>) {
        if step.overload.sheds() && matches!(step.verdict, Some(Verdict::Refuse | Verdict::Drop)) {
            return self.unwanted(step, flow, request);
        }
        // Whether it is new, and who is called, is to be read where nobody has looked for long. All else that
        // can be done before is done while that is fetched.
        let callee = step.ingress().expect_callee(request);
        let request = step.layer.prepare(request);
        let addressing = step.ingress().addressing(&request);
        if let Some(callee) = callee {
            step.site.services().fetch(callee);
        }
        let found = step.layer.absorb(step.now, &request, reply_of(flow, &request), step.out);
        match found {
            None => self.new_request(step, flow, &request, addressing),
            Some(found) => self.found(step, flow, &request, found, addressing),
        }
        step.layer.finish(request);
    }

    /// A request that is not taken on in an overload, unless it belongs to one that was. Which way it would
    /// go is not read.
    #[cold]
    fn unwanted<S: Services>(&mut self, step: &mut Step<'_, S>, flow: Flow, request: &Message<'_>) {
        let request = step.layer.prepare(request);
        match step.layer.absorb(step.now, &request, reply_of(flow, &request), step.out) {
            None if step.verdict == Some(Verdict::Refuse) => step.shed(flow, &request),
            None => step.site.services().count(Counter::Unanswered),
            Some(found) => {
                let addressing = step.ingress().addressing(&request);
                self.found(step, flow, &request, found, addressing);
            }
        }
        step.layer.finish(request);
    }

    /// A request that belongs to something, or could.
    fn found<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        found: Inbound,
        addressing: Addressing<'_>,
    ) {
        match found {
            Inbound::AckOutside => self.ack(step, flow, request, addressing),
            Inbound::Cancel { id, invite, matched } => {
                self.cancel(step, flow, request, (id, invite, matched), addressing);
            }
            Inbound::Full(short) => step.crowded(flow, request, short.into()),
            Inbound::Absorbed | Inbound::New(_) => {}
        }
    }

    /// A request that matches no transaction.
    fn new_request<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        addressing: Addressing<'_>,
    ) {
        // As in an overload, where requests within dialogs are not new work.
        if !step.overload.sheds() && request.to_tag().is_empty() {
            step.overload.note(request.method());
        }
        let Some((admitted, aor)) = self.gate.admit(step, flow, request, addressing) else { return };
        let a = &admitted;
        match user_of(step, flow, request, a) {
            TransactionUser::Registrar => self.registrar.register(step, flow, request, a, aor),
            TransactionUser::Own => own::answer(step, flow, request, a),
            TransactionUser::StatelessProxy(plan) => {
                self.forwarder.forward_stateless(step, flow, request, a, plan);
            }
            TransactionUser::Stateful(course) => self.follow(step, flow, request, a, course, None),
        }
    }

    /// Does what was decided. `waited`: the server transaction of a request that has waited.
    fn follow<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        course: Course,
        waited: Option<ServerSide>,
    ) {
        if waited.is_none()
            && matches!(course, Course::Proxy(_) | Course::Wait(_))
            && let Some(lines) = step.session_too_short(request)
        {
            return step.refuse_session(flow, request, a, &lines);
        }
        let accept = |step: &mut Step<'_, S>| match waited {
            None => step.accept(flow, request, a),
            Some(server) => step.keep_on(flow, request, server),
        };
        match course {
            Course::Redirect(contacts) => {
                if let Some(server) = accept(step) {
                    redirect::answer(step, flow, request, server, &contacts);
                }
            }
            Course::Proxy(targets) => {
                if let Err(barred) = step.take_charge() {
                    return step.bar(flow, request, a, barred, waited);
                }
                match accept(step) {
                    Some(server) => self.forwarder.forward(step, flow, request, a, server, targets),
                    None => step.give_charge_back(),
                }
            }
            Course::Barred(barred) => step.bar(flow, request, a, barred, waited),
            Course::Decline(status, reason, again) => {
                let extra = again.map_or(Vec::new(), retry_after);
                match waited {
                    None => step.decline(flow, request, a, (status, reason), &extra),
                    Some(server) => step.answer_in(flow, request, server, status, &extra),
                }
            }
            Course::Wait(ask) => self.wait(step, flow, request, a, ask),
        }
    }

    /// An ACK that belongs to no failed INVITE of ours: for a 2xx, to be routed; or for a failure that
    /// was answered without memory, which ends here.
    fn ack<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        addressing: Addressing<'_>,
    ) {
        if request.to_tag().len() == 16 && request.to_tag() == step.stateless_tag(request) {
            return;
        }
        if request.max_forwards() == Some(0) {
            return step.site.services().count(Counter::Garbage);
        }
        self.forward_unproven(step, flow, request, addressing);
    }

    /// RFC 3261 sections 9.2 and 16.10.
    fn cancel<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        (id, invite, matched): (ServerId, Option<ServerId>, bool),
        addressing: Addressing<'_>,
    ) {
        let source = Some((flow.remote, always_rport(flow, request)));
        // Only who sent a request may cancel it: a CANCEL cannot be challenged (section 22.1).
        let same_peer = |f: Flow| f.remote.ip().to_canonical() == flow.remote.ip().to_canonical();
        let matched = matched && invite.and_then(|i| step.layer.reply_of(i)).is_none_or(same_peer);
        if !matched {
            // Anybody can send these; they are worth no memory.
            step.layer.abandon_server(id);
            if step.site.settings().proxy.mode == Mode::Stateless {
                // It has not passed the checks that other requests pass (section 16.3 step 3).
                if request.max_forwards() == Some(0) {
                    return step.refuse(flow, request, 483, b"", b"");
                }
                return self.forward_unproven(step, flow, request, addressing);
            }
            return step.refuse(flow, request, 481, b"", b"");
        }
        // The tag of what we may answer the cancelled request with (9.2).
        let tag = step.server_tag(invite.unwrap_or(id));
        step.layer.respond(step.now, id, 200, step.out, |buf| {
            Response { tag: &tag, source, ..Response::new(200) }.write(request, buf);
        });
        let Some(invite) = invite.filter(|&i| step.layer.is_answered(i) == Some(false)) else { return };
        let Some(user) = step.layer.user_of(invite) else { return };
        match WaiterId::of(user) {
            Some(id) => self.cancel_waiting(step, id),
            None => self.forwarder.cancel(step, user, request),
        }
    }

    fn forward_unproven<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        addressing: Addressing<'_>,
    ) {
        if let Some(admitted) = admit_unproven(step, flow, request, addressing) {
            // Neither ACK nor CANCEL has a transaction to wait in.
            let plan = step.plan(flow, request, &admitted, Others::Local(Findings::NONE));
            self.forwarder.forward_stateless(step, flow, request, &admitted, plan);
        }
    }
}

/// Who handles a request that was admitted.
fn user_of<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    a: &Admitted<'_>,
) -> TransactionUser {
    let method = request.method();
    if step.site.is_own_request(method, &a.uri, &a.routing) {
        let register = method == Method::Register;
        return if register { TransactionUser::Registrar } else { TransactionUser::Own };
    }
    if let Some(why) = step.ingress().bars(flow, request, a) {
        step.site.services().count(Counter::Forbidden);
        step.site.tell(why, request.request_uri(), flow, request);
        return TransactionUser::Stateful(Course::Decline(status_of(why), b"", None));
    }
    if let Some(seconds) = step.ingress().holds(step.now, flow, request, a) {
        return TransactionUser::Stateful(Course::Decline(503, b"", Some(seconds)));
    }
    // Credentials that were judged are used up: without memory a retransmission would be challenged.
    let again = a.caller.realm.is_none();
    let asked = Others::Ask(Findings::NONE);
    if step.site.settings().proxy.mode == Mode::Stateless && again {
        // A request that must wait is handled with transactions (section 16.1).
        return match step.plan(flow, request, a, asked) {
            Plan::Ask(ask) => TransactionUser::Stateful(Course::Wait(ask)),
            plan => TransactionUser::StatelessProxy(plan),
        };
    }
    TransactionUser::Stateful(course_of(step, flow, request, a, asked))
}

/// What is done with a request that is not for the server itself. `others`: what is known of the
/// bindings of others.
fn course_of<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    a: &Admitted<'_>,
    others: Others<'_>,
) -> Course {
    let redirects = step.site.settings().proxy.mode == Mode::Redirect;
    let diverter = Diverter::new(Router::new(step.site, step.calls, others, step.random));
    let mut diverting = if redirects { None } else { diverter.begin(request, a) };
    let plan = match &mut diverting {
        None => step.plan(flow, request, a, others),
        Some(call) => {
            let setup = Setup { now: step.now, flow, request, called: Some(a) };
            diverter.advance(call, None, &setup)
        }
    };
    match if redirects { plan.redirected(a) } else { plan } {
        Plan::Forward(targets) => Course::Proxy(TargetSet { targets, diverting }),
        Plan::Redirect(contacts) => Course::Redirect(contacts),
        Plan::Ask(ask) => Course::Wait(ask),
        Plan::Barred(barred) => Course::Barred(barred),
        Plan::Offline
            if step.router().voicemail(request, a).is_some_and(|v| v.on.has(Reroute::UNREGISTERED)) =>
        {
            Course::Proxy(TargetSet::default())
        }
        // The same answer in the same way as for someone unknown: strangers learn nothing.
        Plan::Offline | Plan::Refuse(480) => unavailable(others),
        Plan::Refuse(status) => {
            step.router().note_refusal(status, flow, request, a);
            Course::Decline(status, b"", None)
        }
        Plan::NoDialog => {
            step.site.services().count(Counter::Forbidden);
            step.site.tell(Refusal::UnknownDialog, request.request_uri(), flow, request);
            Course::Decline(403, b"Unknown Dialog", None)
        }
    }
}

/// The answer to a request whose callee has no known binding (section 21.4.18). If the location
/// service says that it cannot tell, it is 500 with Retry-After (section 21.5.1): a 503 would say that this
/// server is out of service.
fn unavailable(others: Others<'_>) -> Course {
    match others.down() {
        None => Course::Decline(480, b"", None),
        Some(down) => Course::Decline(500, b"", Some(down.retry_after)),
    }
}

/// Where answers go, as far as that matters to transactions here: only if they answer a CANCEL themselves.
fn reply_of(flow: Flow, request: &Message<'_>) -> Flow {
    if request.method() == Method::Cancel { reply_flow(flow, request) } else { flow }
}
