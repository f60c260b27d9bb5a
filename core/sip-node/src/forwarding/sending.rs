//! Sending a request to one address of one target (RFC 3261 section 16.6).

use super::Forwarder;
use super::accounts::SHARED;
use super::challenged::prove;
use super::channels::claim_outbound;
use super::diverted::{edit_forwarded, is_renamed};
use super::proxied::{Branch, Proxied, Reach, StoredTarget};
use super::silence::{sort_hops, watch_branch};
use crate::emergency::is_urgent;
use crate::overload::Category;
use crate::records::Recorded;
use crate::remote_targets::{Reached, reached};
use crate::routing::is_dialled_never;
use crate::services::{Counter, Services};
use crate::site::{Aor, OC, Sender, Site, callee_end, caller_end};
use crate::step::Step;
use core::mem;
use sip_message::{Message, Method, Name, Splices};
use sip_proxy::context::{Action, BranchId};
use sip_proxy::loops::write_branch;
use sip_proxy::rewrite::{Outgoing, edit_request};
use sip_proxy::token::{End, Ends, Role};
use sip_transaction::{ClientId, ClientRequest};
use wire::{Delivery, Flow, Time, Transport};

/// Whether a request begins something, which is better refused at once than late. One without To tag may
/// still belong to something that goes on, with a peer of RFC 2543 (RFC 3261 section 12.2.1.1).
fn begins(request: &Message<'_>) -> bool {
    let method = request.method();
    let new = matches!(
        method,
        Method::Invite | Method::Register | Method::Subscribe | Method::Publish | Method::Message
    );
    new && request.to_tag().is_empty()
}

impl Forwarder {
    /// Starts a branch: looks its target up if need be, and sends.
    pub(super) fn start_branch<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: Branch,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
    ) {
        if p.invite && !p.clients.is_empty() {
            // Another target is being tried, so the caller's transaction must last as long as that may. There
            // are 64 targets at most, and each has timer C at most.
            step.layer.renew(step.now, p.upstream.server);
        }
        let id = branch.id;
        if !claim_outbound(step, p, id) {
            return p.branch_useless(step.now, id, 503, actions);
        }
        let Some(target) = p.target_mut(id) else {
            return p.context.branch_failed(step.now, id, 500, actions);
        };
        if let Reach::Locate(uri) = mem::replace(&mut target.reach, Reach::Known) {
            return self.look_up(step, p, branch, &uri, request, actions);
        }
        if id.attempt() == 0 {
            sort_hops(step.now, target);
        }
        let hops = target.hops.len();
        let Some(&flow) = target.hop(id) else {
            return p.context.branch_failed(step.now, id, 503, actions);
        };
        if id.attempt() == 0 && hops > 1 {
            p.context.branch_located(id, hops);
        }
        self.send_branch(step, p, branch, flow, request, actions);
    }

    pub(super) fn send_branch<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: Branch,
        flow: Flow,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
    ) {
        let Some((client, listens)) = self.reserve(step, p, branch.id, flow, request, actions) else {
            return;
        };
        let mut lines = mem::take(step.scratch);
        lines.clear();
        let via = step.site.settings().listener(flow.listener).map_or(&b""[..], |l| l.via_prefix());
        invariant::holds!(!via.is_empty(), "`reserve` has found the listener");
        lines.extend_from_slice(via);
        write_branch(&client.encode(), p.edits.loop_hash, &mut lines);
        if listens {
            // RFC 7339 section 5.1, RFC 7415 section 3.3.
            lines.extend_from_slice(OC);
        }
        lines.extend_from_slice(b"\r\n");
        let via_end = lines.len();
        if p.records(branch.id) {
            p.recorded = true;
            push_record_routes(step, p, branch.id, flow, request, &mut lines);
        }
        let parts = (&lines[..via_end], &lines[via_end..]);
        let most = step.site.settings().proxy.max_forwards;
        let outgoing = outgoing(p, branch, request, parts, most);
        let Some(outgoing) = invariant::some!(outgoing, "a branch that is sent has its target") else {
            return;
        };
        let user = p.id.with_branch(branch.id);
        let delivery = delivery(step, p, branch.id, flow, request);
        let next_hop = p.target(branch.id).map_or(&b""[..], |target| p.text(&target.next_hop));
        let name = step.site.name_at(flow, next_hop);
        let sent = ClientRequest { id: client, method: request.method(), flow, user, delivery, name: &name };
        let splices = &mut *step.splices;
        edit_request(request, &outgoing, splices);
        edit_forwarded(step.site, p, branch.id, request, splices);
        let has_another_from = edit_for_target(step.site, p, branch.id, request, splices);
        let way = (&*step.site, step.random);
        prove(&mut self.logins, way, (p, branch.id), (request, outgoing.request_uri), splices);
        match p.request.as_ref().filter(|original| original.len() >= SHARED) {
            Some(original) => {
                step.layer.send_edited(step.now, &sent, (original, splices), step.out);
            }
            None => {
                step.layer.send_request(step.now, &sent, step.out, |buf| {
                    splices.apply(request.bytes(), buf);
                });
            }
        }
        if !p.is_again(branch.id) {
            note_sent(step, p, branch.id, flow, request);
        }
        *step.scratch = lines;
        if p.target(branch.id).is_some_and(|target| target.elsewhere) && !step.site.has_heard(flow.remote) {
            step.layer.spare(client);
        }
        p.clients.push((branch.id, client));
        if has_another_from && p.edits.from.is_none() {
            p.edits.from = Some(request.from_uri().into());
        }
        step.site.services().count(Counter::Forwarded);
        watch_branch(step.now, p, branch.id, actions);
    }

    /// A client transaction for a branch, if its request may go to `flow`, and whether the target is told
    /// that it may report overload. Otherwise the branch goes on to its next address or target, or ends.
    fn reserve<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: BranchId,
        flow: Flow,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
    ) -> Option<(ClientId, bool)> {
        if step.site.settings().listener(flow.listener).is_none() {
            p.branch_lost(step.now, branch, actions);
            return None;
        }
        let barred = p.bars(branch, flow);
        let listens = p.target(branch).is_some_and(|t| listens_to(step, t));
        let status = if barred.is_some() {
            p.withheld.barred = barred;
            480
        } else if !self.may_send(step, flow, request, listens) {
            p.withheld.held_back = true;
            503
        } else if let Some(client) = step.layer.reserve_client(p.upstream.payer) {
            return Some((client, listens));
        } else {
            step.site.services().count(Counter::Overload);
            p.withheld.overloaded = true;
            p.context.branch_failed(step.now, branch, 503, actions);
            return None;
        };
        match p.has_more(branch) {
            true => p.context.branch_unreachable(step.now, branch, actions),
            false => p.branch_useless(step.now, branch, status, actions),
        }
        None
    }

    /// Whether a next hop that may have asked for less gets this request (RFC 7339 section 5.10.1). What is
    /// within a dialog goes, and counts whatever way it goes there; `listens`: to the trunk by which
    /// something new does.
    fn may_send<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Message<'_>,
        listens: bool,
    ) -> bool {
        let category = match request.to_tag().is_empty() {
            true if !listens => return true,
            true => Category::New,
            false => {
                self.count_within(step.now, flow);
                return true;
            }
        };
        let dice = step.random.next();
        let goes = self.neighbours.lets(step.now, flow.remote, category, dice >> 16);
        if !goes {
            step.site.services().count(Counter::HeldBack);
        }
        goes
    }

    /// What goes to a next hop in any case counts where it asked for less (RFC 7415 section 3.4: a rate is
    /// one of all requests).
    pub(super) fn count_within(&mut self, now: Time, flow: Flow) {
        if !self.neighbours.is_empty() {
            self.neighbours.lets(now, flow.remote, Category::Within, 0);
        }
    }

    /// Starts the branch to voicemail.
    pub(super) fn start_voicemail<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        p: &mut Proxied,
        branch: Branch,
        cause: u16,
        request: &Message<'_>,
        actions: &mut Vec<Action>,
    ) {
        let Some(target) = step.router().voicemail_target(step.now, p.upstream.source, request, cause) else {
            return p.context.branch_failed(step.now, branch.id, 480, actions);
        };
        p.push_target(target);
        self.start_branch(step, p, branch, request, actions);
    }
}

/// Notes where a request went, for the record of its call. One that its sender has led elsewhere than to the
/// other end of its dialog says nothing of the call.
fn note_sent<S: Services>(
    step: &mut Step<'_, S>,
    p: &mut Proxied,
    branch: BranchId,
    flow: Flow,
    request: &Message<'_>,
) {
    let upstream = &p.upstream;
    let reached = match (upstream.key.is_within(), upstream.led_from) {
        (true, None) => Reached::End,
        (true, Some(end)) => reached(step.site, end, flow.remote),
        (false, _) => {
            let uri = p.target(branch).map_or(&b""[..], |target| p.text(&target.uri));
            step.reached_without_token(upstream.recorded, &upstream.key, (flow.remote, uri))
        }
    };
    match reached {
        Reached::End => {
            p.upstream.recorded = p.upstream.recorded.map(Recorded::sent_to_end);
            step.note_sender(request, &p.upstream.key);
        }
        Reached::Near => step.record_tried(p.upstream.recorded, &p.sent(branch, flow.remote)),
        Reached::Astray => {
            p.upstream.recorded = None;
            p.upstream.key = p.upstream.key.astray();
        }
    }
}

/// Whether requests to a target of this trunk say that it may report overload, and what it reports is
/// believed: only where the operator says so. A trunk that knows nothing of `oc` passes on what others
/// behind it write.
pub(super) fn listens_to<S: Services>(step: &Step<'_, S>, target: &StoredTarget) -> bool {
    let trunk = target.trunk.as_ref().and_then(|trunk| trunk.get());
    trunk.is_some_and(|trunk| trunk.overload_control) && step.overload.speaks()
}

/// Adds the edits of session timers, and those that the operator has for the target of a branch. Whether From
/// is another one now.
fn edit_for_target<S: Services>(
    site: &Site<S>,
    p: &Proxied,
    branch: BranchId,
    request: &Message<'_>,
    splices: &mut Splices,
) -> bool {
    p.edits.session.edit(request, splices);
    let Some(target) = p.target(branch) else { return false };
    let Some(rules) = target.headers.as_deref() else { return false };
    let forwarder = target.trail.as_ref().and_then(|trail| trail.last()).map(|hop| Aor::of_text(&hop.by));
    let forwards = forwarder.is_some();
    let own = || p.edits.account.as_ref().map(|account| Aor::of_text(p.text(account)));
    let account = forwarder.or_else(own);
    let sender =
        Sender { source: p.upstream.source, role: p.upstream.role, account: account.as_ref(), forwards };
    site.rules().edit(rules, &sender, request, splices)
}

/// Our Record-Route, with the ends of the dialog that the request may set up.
fn push_record_routes<S: Services>(
    step: &Step<'_, S>,
    p: &Proxied,
    branch: BranchId,
    flow: Flow,
    request: &Message<'_>,
    lines: &mut Vec<u8>,
) {
    let caller = caller_end(p.upstream.source, request, p.upstream.role);
    let callee = p.target(branch).map_or(End::new(flow, Role::Stranger), |t| {
        callee_end(flow, t.role, p.text(&t.uri), p.text(&t.routes))
    });
    let ends = step.site.ends(request, (caller, callee), step.calls.keeper(), p.upstream.key.is_of_call());
    let ends = Ends { raised: p.raised(branch), ..ends };
    step.site.push_routes(&ends, request, lines);
}

/// How the received request is changed for a branch, with our lines of Via and of Record-Route. `most`: its
/// Max-Forwards if it has none.
fn outgoing<'a>(
    p: &'a Proxied,
    branch: Branch,
    request: &Message<'_>,
    (via, record_routes): (&'a [u8], &'a [u8]),
    most: u8,
) -> Option<Outgoing<'a>> {
    let target = p.target(branch.id)?;
    Some(Outgoing {
        request_uri: p.text(&target.uri),
        via,
        record_routes,
        routes: p.text(&target.routes),
        // A strict router has become the Request-URI (section 16.6 step 6).
        drop_routes: match target.reroutes {
            true => usize::MAX,
            false => p.edits.drop_routes.0 + usize::from(!target.last_route.is_empty()),
        },
        drop_last_route: p.edits.drop_routes.1,
        last_route: p.text(&target.last_route),
        max_forwards: request.max_forwards().map_or(most, |m| m.saturating_sub(1)),
        max_breadth: Some(branch.breadth),
        source: p.upstream.seen_as(),
        strip_identity: p.upstream.role != Role::Trunk
            || p.upstream.distrusted
            || is_renamed(p, branch.id)
            || (!p.trusts(branch.id) && is_private(request)),
        strip_realm: p.edits.realm.as_ref().map(|r| p.text(r)),
        strip_commands: p.upstream.role == Role::Stranger,
    })
}

/// How the request of a branch goes over a stream.
fn delivery<S: Services>(
    step: &Step<'_, S>,
    p: &Proxied,
    branch: BranchId,
    flow: Flow,
    request: &Message<'_>,
) -> Delivery {
    let yields = begins(request) && !is_urgent(step.site.settings().emergency.as_ref(), request);
    let existing = p.target(branch).is_some_and(|target| {
        // Both of a phone that has moved.
        let moved = is_dialled_never(flow.transport) && target.hops.iter().any(Flow::is_only_way);
        let moved = moved && target.role == Role::Local && !target.behind_edge;
        target.existing && (branch.attempt() == 0 || moved)
    });
    Delivery { yields, hurries: has_datagram(p, branch, flow), existing, ..Delivery::default() }
}

/// Whether the caller wants the identity that a trusted element asserted kept among trusted ones (RFC 3325
/// section 5 and 9.3, RFC 3323 section 4.2).
pub(super) fn is_private(request: &Message<'_>) -> bool {
    if request.header(Name::PAssertedIdentity).is_none() && request.header(Name::RemotePartyId).is_none() {
        return false;
    }
    let mut values = request.headers(Name::Privacy).flat_map(|h| h.value.split(|&b| b == b';'));
    values.any(|value| value.trim_ascii().eq_ignore_ascii_case(b"id"))
}

/// Whether the same host is tried by datagram if a connection to it does not come about.
fn has_datagram(p: &Proxied, branch: BranchId, flow: Flow) -> bool {
    let target = p.target(branch);
    let later = target.map_or(&[][..], |t| t.hops.get(usize::from(branch.attempt()) + 1..).unwrap_or(&[]));
    flow.transport != Transport::Udp
        && later.iter().any(|hop| hop.transport == Transport::Udp && hop.remote.ip() == flow.remote.ip())
}
