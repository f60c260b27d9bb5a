//! From an admitted request to a response context with its first branches.

use crate::admit::unsupported;
use crate::admitted::Admitted;
use crate::calls::Within;
use crate::node::Node;
use crate::overload::knows;
use crate::proxied::{Proxied, ProxiedId};
use crate::routing::{Plan, Wish, is_recorded};
use crate::services::{Counter, Refusal, Services};
use crate::settings::{Mode, Trying};
use core::time::Duration;
use sip_message::{Message, Method, Name};
use sip_proxy::context::{Context, Reroute};
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
        let plan = if self.site.settings().proxy.mode == Mode::Redirect { plan.redirected(a) } else { plan };
        let plan = match plan {
            Plan::Refuse(status) => {
                self.router().note_refusal(status, flow, request, a);
                return self.decline(now, flow, request, a, (status, b""), b"", out);
            }
            Plan::NoDialog => {
                self.site.services().count(Counter::Forbidden);
                self.site.tell(Refusal::UnknownDialog, request.request_uri(), flow, request);
                return self.decline(now, flow, request, a, (403, b"Unknown Dialog"), b"", out);
            }
            // The same answer in the same way as for someone unknown: strangers learn nothing.
            Plan::Offline
                if !self.router().voicemail(request, a).is_some_and(|v| v.on.has(Reroute::UNREGISTERED)) =>
            {
                return self.decline(now, flow, request, a, (480, b""), b"", out);
            }
            plan => plan,
        };
        let invite = request.method() == Method::Invite;
        // A To tag that no dialog of ours has (made up, or of a client that ignores the Record-Route) is no
        // way round the cap.
        let new_call = invite && a.dialog.is_none();
        let (payer, receives) = self.ingress().standing(flow, request, a);
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
        // Stops the caller's retransmissions (sections 16.2, 17.2.1), before they begin also where he hears
        // from the callee soon. Who is behind with its work may not know when that is.
        if invite && (self.site.settings().proxy.trying == Trying::After(0) || self.overload.sheds()) {
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
        let policy = self.router().policy(request, a);
        let invite = policy.invite;
        let record_route = self.site.settings().proxy.record_route && is_recorded(request, a);
        let loop_hash = self.site.guard().hash(request);
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
            within: a.dialog.map(|d| Within { by_caller: d.by_caller, callee: d.callee().remote }),
            role: a.caller.role,
            always_rport: always_rport(flow, request),
            drop_routes: (a.routing.own, a.routing.drop_last),
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
        let parallel = self.site.settings().proxy.parallel;
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
            proxied.trying = match self.site.settings().proxy.trying {
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
