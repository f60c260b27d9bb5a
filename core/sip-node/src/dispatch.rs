//! From an admitted request to a response context with its first branches.

use crate::access::{Asker, Holder};
use crate::admit::{Admitted, unsupported};
use crate::node::Node;
use crate::overload::knows;
use crate::proxied::{Proxied, ProxiedId};
use crate::services::{Counter, Refusal, Services};
use crate::settings::{Mode, Trying, Voicemail};
use crate::targets::{Plan, Wish, is_recorded, max_breadth};
use core::time::Duration;
use sip_message::{Message, Method, Name, Via, canonical_user};
use sip_proxy::breadth;
use sip_proxy::context::{Context, Policy, Reroute};
use sip_proxy::loops::read_branch;
use sip_proxy::transport::{always_rport, reply_flow};
use sip_transaction::{Payer, Prepared, ServerId, TimerId};
use wire::{Flow, Outbox, Time};

/// Longest that an INVITE may wait for its 100 (section 17.2.1).
pub(crate) const TRYING: Duration = Duration::from_millis(200);
/// Bytes of the Reason lines of a CANCEL that are passed on.
const REASONS: usize = 512;
/// Bytes of the texts that a usual response context keeps: its targets' and a realm.
const TEXT_ROOM: usize = 192;

impl<S: Services> Node<S> {
    /// Counts and tells of a request that may not go where it wants to.
    pub(crate) fn note_refusal(&self, status: u16, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) {
        if status == 404 && goes_back(self, a) {
            self.tell(Refusal::Loop, request.request_uri(), flow, request);
        }
        if status != 403 {
            return;
        }
        self.services.count(Counter::Forbidden);
        let elsewhere = || a.uri.is_sip() && !self.is_local_host(&a.uri);
        let at_trunk = || matches!(self.places.of_uri(&self.settings, &a.uri), Some(Holder::Trunk(_)));
        let why = match self.asker(&a.caller) {
            Asker::Trunk if self.lacks_transit(a) => Refusal::Transit,
            Asker::Trunk if elsewhere() => Refusal::Elsewhere,
            Asker::Stranger | Asker::End if elsewhere() => Refusal::Elsewhere,
            Asker::Proven if elsewhere() && at_trunk() => Refusal::Rules,
            _ => Refusal::Target,
        };
        self.tell(why, request.request_uri(), flow, request);
    }

    /// Whether a trunk's request was refused that would pass if the trunk's calls might leave again.
    fn lacks_transit(&self, a: &Admitted<'_>) -> bool {
        let number: Vec<u8> = a.uri.unescaped_user().collect();
        let over = self.prefix_trunk(&number).is_some_and(|at| a.caller.trunk != Some(at));
        let holder = self.places.of_uri(&self.settings, &a.uri);
        let at_home = !a.uri.is_sip() || self.is_local_host(&a.uri);
        let by_domain = || {
            self.settings.trunks.iter().any(|t| t.domains.iter().any(|d| d.eq_ignore_ascii_case(a.uri.host)))
        };
        let by_route = || a.routing.next.is_some();
        let routed = || at_home && !self.settings.routes.is_empty();
        (over && (at_home || matches!(holder, Some(Holder::Trunk(_)))))
            || routed()
            || by_domain()
            || by_route()
    }

    /// Tells why a request was refused that is about somebody.
    pub(crate) fn tell(&self, why: Refusal, about: &[u8], flow: Flow, request: &Message<'_>) {
        self.services.refused(why, about, self.settings.auth.source(flow.remote.ip(), request));
    }

    /// Handles a request that is not a REGISTER for us.
    pub(crate) fn dispatch(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        own: bool,
        out: &mut Outbox,
    ) {
        if own {
            return self.own_request(now, flow, request, a, out);
        }
        let plan = self.plan(now, flow, request, a);
        let plan = if self.settings.proxy.mode == Mode::Redirect { plan.redirected(a) } else { plan };
        let plan = match plan {
            Plan::Refuse(status) => {
                self.note_refusal(status, flow, request, a);
                return self.decline(now, flow, request, a, (status, b""), b"", out);
            }
            Plan::NoDialog => {
                self.services.count(Counter::Forbidden);
                self.tell(Refusal::UnknownDialog, request.request_uri(), flow, request);
                return self.decline(now, flow, request, a, (403, b"Unknown Dialog"), b"", out);
            }
            // The same answer in the same way as for someone unknown: strangers learn nothing.
            Plan::Offline if !self.voicemail(request, a).is_some_and(|v| v.on.has(Reroute::UNREGISTERED)) => {
                return self.decline(now, flow, request, a, (480, b""), b"", out);
            }
            plan => plan,
        };
        let invite = request.method() == Method::Invite;
        // A To tag that no dialog of ours has (made up, or of a client that ignores the Record-Route) is no
        // way round the cap.
        let new_call = invite && a.dialog.is_none();
        let (payer, receives) = self.standing(flow, request, a);
        if new_call && let Err(shortage) = self.calls.make_room(now, payer) {
            return self.crowded(now, flow, request, shortage, out);
        }
        let server = match self.layer.accept(now, request, reply_flow(flow, request), payer) {
            Ok(server) => server,
            Err(short) => return self.crowded(now, flow, request, short.into(), out),
        };
        if !receives {
            self.layer.bound_replies(server, request.bytes().len());
        }
        let source = Some((flow.remote, always_rport(flow, request)));
        let wishes = match plan {
            Plan::Redirect(contacts) => {
                let extra = [b"Contact: ", &contacts[..], b"\r\n"].concat();
                return self.answer(now, server, request, source, 302, &extra, out);
            }
            Plan::Forward(wishes) => wishes,
            Plan::Offline | Plan::Refuse(_) | Plan::NoDialog => Vec::new(),
        };
        // Stops the caller's retransmissions (sections 16.2, 17.2.1), before they begin also where he hears from the
        // callee soon. Who is behind with its work may not know when that is.
        if invite && (self.settings.proxy.trying == Trying::After(0) || self.overload.sheds()) {
            self.answer(now, server, request, source, 100, b"", out);
        }
        if new_call {
            self.calls.begin(now, request, payer);
        }
        self.forward(now, flow, request, a, (server, payer, !receives), wishes, out);
    }

    /// A request for the server itself (section 16.5: the Request-URI names no user).
    fn own_request(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        out: &mut Outbox,
    ) {
        // What this server does itself; what it passes on is no question of methods (section 11.2).
        const ALLOW: &[u8] = b"Allow: OPTIONS, REGISTER, ACK, CANCEL\r\n";
        const ABLE: &[u8] =
            b"Supported: path, outbound\r\nAccept: application/sdp\r\nAccept-Encoding: identity\r\nAccept-Language: en\r\n";
        // The method first (8.2.1), then what the request requires (8.2.2.3).
        match request.method() {
            Method::Options => match unsupported(request, Name::Require) {
                Some(extra) => self.decline(now, flow, request, a, (420, b""), &extra, out),
                // Idempotent, so it needs no transaction.
                None => self.decline(now, flow, request, a, (200, b""), ABLE, out),
            },
            Method::Other(_) => self.decline(now, flow, request, a, (501, b""), b"", out),
            _ if !request.to_tag().is_empty() => self.decline(now, flow, request, a, (481, b""), b"", out),
            Method::Invite => self.decline(now, flow, request, a, (484, b""), b"", out),
            _ => self.decline(now, flow, request, a, (405, b""), ALLOW, out),
        }
    }

    /// Makes the response context and starts it.
    fn forward(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        (server, payer, bounded): (ServerId, Payer, bool),
        mut wishes: Vec<(u16, Wish)>,
        out: &mut Outbox,
    ) {
        let policy = self.policy(request, a);
        let invite = policy.invite;
        let record_route = self.settings.proxy.record_route && is_recorded(request, a);
        let loop_hash = self.guard.hash(request);
        let asks = self.oc_of(flow.remote, request).map(|wish| wish.algorithm);
        let mut proxied = self.proxied.create(|id, buffers| Proxied {
            id,
            context: Context::new(policy),
            server,
            invite,
            over: false,
            overloaded: false,
            held_back: false,
            oc: asks,
            knows_oc: knows(request.via().raw),
            accepted: false,
            request: None,
            payer,
            charged: 0,
            source: flow,
            bounded,
            role: a.caller.role,
            always_rport: always_rport(flow, request),
            drop_routes: a.routing.own,
            drop_last_route: a.routing.drop_last,
            record_route,
            realm: None,
            reason: 0..0,
            loop_hash,
            started: now,
            timer: TimerId::NONE,
            wakes: Time::FAR,
            trying: Time::FAR,
            asked: None,
            trusted: 0,
            text: buffers.text,
            targets: buffers.targets,
            clients: buffers.clients,
            lookups: Vec::new(),
            kept: Vec::new(),
        });
        self.layer.set_user(server, proxied.id.as_u64());
        self.hold(&mut proxied, request.bytes());
        proxied.text.reserve(TEXT_ROOM);
        if let Some(realm) = &a.caller.realm {
            proxied.realm = Some(proxied.push_text(|t| t.extend_from_slice(realm)));
        }
        let parallel = self.settings.proxy.parallel;
        for (rank, (q, wish)) in wishes.drain(..).enumerate() {
            // One after the other: they come in order of falling q, so each gets a group of its own.
            let q = if parallel { q } else { 1000u16.saturating_sub(u16::try_from(rank).unwrap_or(1000)) };
            if proxied.context.add_target(q).is_some() {
                let target = wish.store(&mut proxied);
                proxied.targets.push(target);
            }
        }
        self.take_back(wishes);
        if !invite {
            proxied.trying = now + self.early_trying;
        } else if !self.overload.sheds() {
            proxied.trying = match self.settings.proxy.trying {
                // Until it goes to someone who is known to answer soon.
                Trying::Learned => now,
                Trying::After(0) => Time::FAR,
                Trying::After(ms) => now + Duration::from_millis(u64::from(ms)).min(TRYING),
            };
        }
        let mut actions = core::mem::take(&mut self.actions);
        proxied.context.start(now, &mut actions);
        self.perform(now, proxied, actions, Some(request), None, out);
    }

    fn policy(&self, request: &Message<'_>, a: &Admitted<'_>) -> Policy {
        let proxy = &self.settings.proxy;
        let invite = request.method() == Method::Invite;
        let base = if invite { Policy::INVITE } else { Policy::OTHER };
        let mut policy = Policy {
            parallel: false,
            serial: !proxy.parallel,
            strict_breadth: self.has_been_here(request),
            breadth: breadth::incoming(max_breadth(request), proxy.max_breadth),
            timer_c_ms: proxy.timer_c_ms,
            ..base
        };
        if let Some(voicemail) = self.voicemail(request, a) {
            policy.voicemail = voicemail.on;
            if voicemail.on.has(Reroute::NO_ANSWER) {
                policy.no_answer_ms = voicemail.no_answer_ms;
            }
        }
        policy
    }

    /// The voicemail of the callee: only a call for one of our users has one, and only while it is being
    /// set up; no call for help has.
    fn voicemail(&self, request: &Message<'_>, a: &Admitted<'_>) -> Option<&Voicemail> {
        let setup = request.method() == Method::Invite && request.to_tag().is_empty();
        let voicemail = self.settings.voicemail.as_ref()?;
        let subscriber = || self.is_for_subscriber(a) && !self.is_for_help(&a.uri, a.routing.request_uri);
        (setup && a.routing.next.is_none() && subscriber()).then_some(voicemail)
    }

    /// Whether a request has passed through this server before (a spiral). Such a one does not wait for
    /// breadth: two users with each other as contacts would keep it alive for as long as Max-Forwards
    /// lasts (RFC 5393 section 5.3.3 lets a proxy answer 440 instead).
    fn has_been_here(&self, request: &Message<'_>) -> bool {
        let ours = |value: &[u8]| {
            Via::parse(value).is_ok_and(|via| {
                let ours = read_branch(via.branch).is_some_and(|branch| self.guard.wrote(&branch));
                ours && self.settings.is_self(via.host, via.port)
            })
        };
        request.via_count() > 1 && request.values(Name::Via).any(ours)
    }

    fn is_for_subscriber(&self, a: &Admitted<'_>) -> bool {
        self.called_aor(&a.uri, a.routing.request_uri)
            .is_some_and(|aor| !self.settings.auth.enabled || self.services.is_user(aor.user(), aor.domain()))
    }

    /// A CANCEL for a request being forwarded (section 16.10).
    pub(crate) fn cancel_proxied(
        &mut self,
        now: Time,
        id: ProxiedId,
        cancel: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(mut proxied) = self.proxied.take(id) else { return };
        // RFC 3326 section 2: copied into the CANCELs that follow from this one.
        let mut lines = cancel.headers(Name::Reason).filter_map(|header| cancel.bytes().get(header.line));
        // Of one CANCEL, however many come.
        if proxied.reason.is_empty() {
            proxied.reason = proxied.push_text(|text| {
                let room = text.len() + REASONS;
                while let Some(line) = lines.next().filter(|line| text.len() + line.len() <= room) {
                    text.extend_from_slice(line);
                }
            });
        }
        let mut actions = core::mem::take(&mut self.actions);
        proxied.context.cancel_all(now, &mut actions);
        self.perform(now, proxied, actions, None, None, out);
    }
}

/// Whether a trunk's call that was not found would go back to that trunk.
fn goes_back<S: Services>(node: &Node<S>, a: &Admitted<'_>) -> bool {
    let Some((at, trunk)) = a.caller.trunk.and_then(|at| Some((at, node.settings.trunks.get(at)?))) else {
        return false;
    };
    let number = canonical_user(a.uri.user.unwrap_or(b""));
    node.is_for_help(&a.uri, a.routing.request_uri)
        || node.prefix_trunk(&number) == Some(at)
        || trunk.domains.iter().any(|domain| domain.eq_ignore_ascii_case(a.uri.host))
}
