//! From an admitted request to a response context with its first branches (RFC 3261 section 16.6).

use super::Forwarder;
use super::channels::claim_inbound;
use super::proxied::{Edits, Proxied, Recording, Upstream};
use super::stages::{add_targets, enter};
use crate::admitted::Admitted;
use crate::overload::knows;
use crate::routing::{TargetSet, is_recorded};
use crate::server_side::ServerSide;
use crate::services::Services;
use crate::step::Step;
use core::mem;
use core::time::Duration;
use sip_message::{Message, Method, Name, NameAddr, Uri};
use sip_proxy::context::Context;
use sip_proxy::transport::always_rport;
use sip_transaction::Prepared;
use wire::{Flow, Time};

impl Forwarder {
    /// Forwards a request that was admitted and accepted in a server transaction.
    pub(crate) fn forward<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        server: ServerSide,
        TargetSet { targets, diverting }: TargetSet,
    ) {
        let Ok(inbound) = claim_inbound(step, flow, request, a, server) else {
            step.give_charge_back();
            return step.recycle(targets);
        };
        let invite = request.method() == Method::Invite;
        // Stops the caller's retransmissions (sections 16.2, 17.2.1). An overloaded server sends it
        // at once.
        let trying = if server.sent_trying { Time::FAR } else { self.trying(step, invite) };
        if trying == step.now {
            step.answer(server.id, request, (flow, always_rport(flow, request)), 100, b"");
        }
        let mut proxied = self.proxied_request(step, flow, request, a, server);
        proxied.claimed.inbound = inbound;
        if server.is_new_call {
            step.calls.begin(step.now, &proxied.upstream.key, request, server.payer);
            step.note_caller(flow, request, &proxied.upstream.key);
            step.hold_charge(&proxied.upstream.key);
        }
        step.layer.set_user(server.id, proxied.id.as_u64());
        self.proxied.hold(step.layer, &mut proxied, request.bytes());
        proxied.reserve_text();
        if let Some(realm) = &a.caller.realm {
            proxied.edits.realm = Some(proxied.push_text(|t| t.extend_from_slice(realm)));
        }
        if let Some(account) = &a.caller.account {
            proxied.edits.account = Some(proxied.push_text(|t| t.extend_from_slice(account.text())));
        }
        let mut trails = Vec::new();
        if let Some(mut call) = diverting {
            call.set_usual(proxied.context.no_answer_ms());
            enter(step, &mut proxied, &call);
            step.record_forwardings(proxied.upstream.recorded, call.chain().hops());
            trails = call.take_trails();
            proxied.edits.diverting = Some(call);
        }
        add_targets(step, &mut proxied, targets, &trails);
        proxied.timing.trying = if trying == step.now { Time::FAR } else { trying };
        let mut actions = mem::take(&mut self.actions);
        proxied.context.start(step.now, &mut actions);
        self.perform(step, proxied, actions, Some(request), None);
    }

    fn proxied_request<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        server: ServerSide,
    ) -> Box<Proxied> {
        let policy = step.router().policy(request, a);
        let invite = policy.invite;
        let others = !step.site.settings().auth.fronts.is_empty();
        let raised = a.dialog.filter(|dialog| dialog.by_caller).map_or(0, |dialog| dialog.raised);
        let edits = Edits {
            drop_routes: (a.routing.own, a.routing.drop_last),
            record_route: recording(step, request, a),
            realm: None,
            account: None,
            sips: step.site.asks_for_security(a),
            loop_hash: step.site.guard().hash(request),
            session: step.session_asked(request),
            from: None,
            diverting: None,
            raised,
            cseq: (raised > 0).then(|| request.cseq()),
            tries: Vec::new(),
        };
        let upstream = Upstream {
            server: server.id,
            source: flow,
            role: a.caller.role,
            distrusted: !step.site.rules().believes(a.caller.trunk),
            payer: server.payer,
            bounded: server.bounded,
            always_rport: always_rport(flow, request),
            oc: step.oc_of(flow, request).map(|wish| wish.algorithm),
            knows_oc: knows(request.via().raw),
            key: step.calls.key(step.now, flow.remote, request, a.dialog.as_ref(), others),
            recorded: server.recorded,
            led_from: step.led_from(request, a),
        };
        let now = step.now;
        self.proxied.create(|id, buffers| {
            Proxied::new(id, Context::new(policy), upstream, edits, invite, (now, buffers))
        })
    }

    /// When the caller gets a 100 if nobody has answered.
    fn trying<S: Services>(&self, step: &Step<'_, S>, invite: bool) -> Time {
        match invite {
            true if step.overload.sheds() => step.now,
            true => step.now + Duration::from_millis(step.site.settings().proxy.trying_ms.into()),
            false => step.now + self.early_trying,
        }
    }
}

/// Who asks by `ob` in its Contact has to be reached over its flow in the dialog (RFC 5626 section 5.3.2).
fn recording<S: Services>(step: &Step<'_, S>, request: &Message<'_>, a: &Admitted<'_>) -> Recording {
    let wants = |value: &[u8]| {
        let uri = NameAddr::parse(value).ok().and_then(|value| Uri::parse(value.uri).ok());
        uri.is_some_and(|uri| uri.param(b"ob").is_some())
    };
    match is_recorded(request, a) {
        false => Recording::Never,
        true if step.site.settings().proxy.record_route => Recording::Always,
        true if request.values(Name::Contact).any(wants) => Recording::Always,
        true => Recording::ToFlows,
    }
}
