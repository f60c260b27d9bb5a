//! Forwarding without memory: the ACK of a 2xx, and everything in stateless mode (RFC 3261 section
//! 16.11).

use crate::admit::{Admitted, Caller, is_beside};
use crate::forward::may_carry;
use crate::inbound::passed_on;
use crate::node::{Node, domain};
use crate::services::{Counter, Question, Services};
use crate::settings::{Mode, Settings};
use crate::targets::{Plan, Wish, max_breadth};
use core::hash::Hasher;
use core::mem;
use core::net::{IpAddr, SocketAddr};
use sip_message::{Message, Method, Name, Uri, hex16, unhex16};
use sip_proxy::locate::{Located, Lookup, Step, locate};
use sip_proxy::rewrite::{self, Outgoing, write_request};
use sip_proxy::token::{Dialog, End, Role};
use sip_proxy::transport::{always_rport, reply_flow};
use wire::{Flow, ListenerId, Outbox, Time};

/// Begins a branch that was made without memory.
const PREFIX: &[u8] = b"z9hG4bKt";

impl<S: Services> Node<S> {
    /// An ACK, or a CANCEL in stateless mode. Neither can be challenged, so what stands in From proves
    /// nothing here: it goes to the other end of a dialog of ours, to our own users, or where a phone
    /// that is registered at the sender's address may send.
    pub(crate) fn forward_unproven(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Ok((routing, Ok(uri))) = self.routing(request) else {
            return self.services.count(Counter::Garbage);
        };
        let dialog = routing.token.and_then(|token| {
            self.sealer.open(token, request.call_id(), request.from_tag(), request.to_tag())
        });
        let trunk = self.settings.trunk_of(flow.remote.ip());
        let ourselves = self.is_from_ourselves(request);
        let trunk = trunk.filter(|_| !ourselves);
        let phone = || !ourselves && self.services.has_contact(flow.remote);
        let known = || !self.settings.auth.enabled || phone();
        // A token can be read by the other end, too; where the request came from cannot be both.
        let home = |d: &Dialog| !ourselves && d.sender.remote.ip() == flow.remote.ip().to_canonical();
        // A phone may send from another port than it listens at; one that is registered there is ours.
        let beside = |d: &Dialog| is_beside(d, flow) && !(d.sender.role == Role::Local && phone());
        let (role, borrowed) = match (&dialog, trunk) {
            (Some(dialog), _) if home(dialog) => (dialog.sender.role, beside(dialog)),
            (dialog, Some(trunk)) => (Role::Trunk, self.is_borrowed_by(trunk, dialog.as_ref())),
            (dialog, None) if self.claims_local(request) && known() => (Role::Local, dialog.is_some()),
            (dialog, None) => (Role::Stranger, dialog.is_some()),
        };
        let caller = Caller { role, realm: None, trunk, proven: false, borrowed };
        let admitted = Admitted { uri, routing, dialog, caller };
        self.forward_plan(now, flow, request, &admitted, out);
    }

    fn claims_local(&self, request: &Message<'_>) -> bool {
        Uri::parse(request.from_uri()).is_ok_and(|uri| self.is_local_host(&uri))
    }

    /// Sends to the first target: the choice must be the same for every retransmission (16.11).
    pub(crate) fn forward_plan(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        admitted: &Admitted<'_>,
        out: &mut Outbox,
    ) {
        let is_ack = request.method() == Method::Ack;
        if !is_ack && breadth(request, &self.settings) == Some(0) {
            return self.refuse(flow, request, 440, b"", b"", out);
        }
        match self.plan(now, flow, request, admitted) {
            Plan::Forward(wishes) => {
                if let Some((_, wish)) = wishes.first() {
                    self.forward_first(now, flow, request, admitted, wish, out);
                }
                self.take_back(wishes);
            }
            Plan::Refuse(_) | Plan::Offline | Plan::Redirect(_) if is_ack => {
                self.services.count(Counter::Stray);
            }
            Plan::Refuse(status) => self.refuse(flow, request, status, b"", b"", out),
            Plan::Offline => self.refuse(flow, request, 480, b"", b"", out),
            Plan::Redirect(contacts) => {
                let extra = [b"Contact: ", &contacts[..], b"\r\n"].concat();
                self.refuse(flow, request, 302, b"", &extra, out);
            }
        }
    }

    fn forward_first(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Message<'_>,
        admitted: &Admitted<'_>,
        wish: &Wish,
        out: &mut Outbox,
    ) {
        let Some(hop) = self.first_hop(now, wish, flow, request) else { return };
        if may_carry(hop, request, &wish.uri) {
            self.send_stateless(flow, hop, request, admitted, wish, out);
        } else if request.method() == Method::Ack {
            self.services.count(Counter::Stray);
        } else {
            self.refuse(flow, request, 480, b"", b"", out);
        }
    }

    /// The first address of a target. If a name has to be asked for, the message is dropped and the
    /// answer kept: its retransmission finds it.
    fn first_hop(&mut self, now: Time, wish: &Wish, flow: Flow, request: &Message<'_>) -> Option<Flow> {
        if wish.locate.is_empty() {
            return wish.hops.first().copied();
        }
        self.located_hop(now, wish, flow, request).or(wish.hops.first().copied())
    }

    fn located_hop(&mut self, now: Time, wish: &Wish, flow: Flow, request: &Message<'_>) -> Option<Flow> {
        let uri = Uri::parse(&wish.locate).ok()?;
        let large = self.grown(flow, request) > self.settings.proxy.mtu;
        let able = self.ability();
        // The same seed for the same call, so that its messages meet the same server.
        let mut seed = self.keyed(domain::STATELESS);
        seed.write(request.call_id());
        let found = match locate(&crate::forward::want(&uri, large), &able, seed.finish()).ok()? {
            Located::Now(found) => found,
            Located::Ask(mut locate) => loop {
                match locate.poll() {
                    Step::Done(found) => break found.ok()?,
                    Step::Wait => return None,
                    Step::Ask(ask) => {
                        let (kind, name) = locate.question(ask)?;
                        match self.dns.ask(now, kind, name, u64::MAX) {
                            Lookup::Hit(answer) => {
                                let answer = answer.clone();
                                locate.answer(ask, &answer);
                            }
                            Lookup::Ask => {
                                self.services.count(Counter::Lookups);
                                self.services.ask(Question { kind, name: name.into() });
                            }
                            Lookup::Joined => {}
                            Lookup::Full => return None,
                        }
                    }
                }
            },
        };
        found.as_slice().iter().find_map(|d| {
            let allowed = self.settings.allows(wish.bounds, d.address);
            let listener = self.settings.listener_for(d.transport, d.address, flow.listener)?;
            allowed.then_some(Flow { transport: d.transport, listener, remote: d.address, conn: None })
        })
    }

    fn send_stateless(
        &mut self,
        from: Flow,
        hop: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        wish: &Wish,
        out: &mut Outbox,
    ) {
        let settings = self.settings.clone();
        let Some(listener) = settings.listener(hop.listener) else { return };
        let mut lines = mem::take(&mut self.scratch);
        lines.clear();
        lines.extend_from_slice(listener.via_prefix());
        self.push_stateless_branch(from, request, &mut lines);
        lines.extend_from_slice(b"\r\n");
        let via_end = lines.len();
        let recorded = crate::targets::is_recorded(request, a);
        if recorded && settings.proxy.record_route && request.method() != Method::Ack {
            let ends = self.ends(
                request,
                End::new(reply_flow(from, request), a.caller.role),
                End::new(hop, wish.role),
            );
            self.push_routes(&ends, request, &mut lines);
        }
        let outgoing = Outgoing {
            request_uri: &wish.uri,
            via: &lines[..via_end],
            record_routes: &lines[via_end..],
            routes: &wish.routes,
            drop_routes: a.routing.own + usize::from(!wish.last_route.is_empty()),
            drop_last_route: a.routing.drop_last,
            last_route: &wish.last_route,
            max_forwards: request.max_forwards().map_or(settings.proxy.max_forwards, |m| m.saturating_sub(1)),
            // All of it, as there is one branch only.
            max_breadth: breadth(request, &settings),
            source: Some((from.remote, always_rport(from, request))),
            strip_identity: a.caller.role != Role::Trunk
                || (wish.role != Role::Trunk && crate::forward::is_private(request)),
            strip_realm: a.caller.realm.as_deref(),
        };
        let splices = &mut self.splices;
        out.send_with(hop, 0, |buf| write_request(request, &outgoing, splices, buf));
        self.scratch = lines;
        self.services.count(Counter::Forwarded);
    }

    /// A branch that is a function of the request (16.11), so that retransmissions, and the CANCEL and
    /// ACK of an INVITE, get the same. It carries the listener and port that the response goes to, and a
    /// seal over these and the address, so that the response can be passed on without memory and nobody
    /// can use this server as a reflector.
    fn push_stateless_branch(&self, from: Flow, request: &Message<'_>, out: &mut Vec<u8>) {
        let via = request.via();
        let mut text = self.gathered::<256>(domain::STATELESS);
        text.add(via.branch);
        text.add(via.host);
        text.add(&via.port_or_default().to_le_bytes());
        text.add(request.call_id());
        text.add(&request.cseq().to_le_bytes());
        let id = text.finish();
        let back = reply_flow(from, request);
        let place = u64::from(back.listener.0) << 16 | u64::from(back.remote.port());
        out.extend_from_slice(PREFIX);
        out.extend_from_slice(&hex16(id));
        out.extend_from_slice(&hex16(place));
        out.extend_from_slice(&hex16(self.stateless_seal(id, place, back.remote.ip(), request.call_id())));
    }

    fn stateless_seal(&self, id: u64, place: u64, address: IpAddr, call_id: &[u8]) -> u64 {
        let mut text = self.gathered::<256>(domain::STATELESS);
        text.add(&id.to_le_bytes());
        text.add(&place.to_le_bytes());
        match address.to_canonical() {
            IpAddr::V4(v4) => text.add(&v4.octets()),
            IpAddr::V6(v6) => text.add(&v6.octets()),
        }
        text.add(call_id);
        text.finish()
    }

    /// A response to a request that was forwarded without memory: to the next Via, if the branch is
    /// one that we sealed (16.11, 18.2.2).
    pub(crate) fn stateless_response(&mut self, from: Flow, response: &Message<'_>, out: &mut Outbox) {
        let trusted = self.settings.trunk_of(from.remote.ip()).is_some();
        // With transactions only ACKs leave without, and nobody answers those.
        let awaited = self.settings.proxy.mode == Mode::Stateless;
        let Some(flow) = self.stateless_return(response).filter(|_| awaited) else {
            return self.services.count(Counter::Stray);
        };
        let splices = &mut self.splices;
        out.send_with(flow, 0, |buf| {
            passed_on(None, true, buf, |buf| rewrite::write_response(response, !trusted, splices, buf));
        });
        self.services.count(Counter::Relayed);
    }

    /// Where a message with a branch on top that we sealed came from; `None` if we did not.
    pub(crate) fn stateless_return(&self, response: &Message<'_>) -> Option<Flow> {
        // A branch is a token, and some elements change its case.
        let (prefix, rest) = response.via_branch().split_at_checked(PREFIX.len())?;
        if !prefix.eq_ignore_ascii_case(PREFIX) {
            return None;
        }
        let (id, rest) = rest.split_at_checked(16)?;
        let (place, seal) = rest.split_at_checked(16)?;
        let (id, place) = (unhex16(id)?, unhex16(place)?);
        let value = response.values(Name::Via).nth(1)?;
        let via = sip_message::Via::parse(value).ok()?;
        let ip = via.received_ip().or(via.host_ip)?;
        if unhex16(seal)? != self.stateless_seal(id, place, ip, response.call_id()) {
            return None;
        }
        let listener = ListenerId(u16::try_from(place >> 16).ok()?);
        let transport = self.settings.listener(listener)?.transport;
        Some(Flow { transport, listener, remote: SocketAddr::new(ip, place as u16), conn: None })
    }
}

/// The Max-Breadth that a request goes on with (RFC 5393 section 5.3.3); in a CANCEL it means nothing
/// (5.4.1).
fn breadth(request: &Message<'_>, settings: &Settings) -> Option<u8> {
    let most = settings.proxy.max_breadth;
    (request.method() != Method::Cancel).then(|| sip_proxy::breadth::incoming(max_breadth(request), most))
}
