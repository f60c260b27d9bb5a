//! Forwarding without memory: the ACK of a 2xx, and everything in stateless mode (RFC 3261 section
//! 16.11).

use crate::admit::{Admitted, Caller, Way, carried, is_beside};
use crate::forward::{callee_end, caller_end, is_guarded, may_carry};
use crate::inbound::passed_on;
use crate::node::{Node, domain};
use crate::reach::is_anothers;
use crate::services::{Counter, Question, Services};
use crate::settings::{Mode, Settings};
use crate::targets::{Plan, Wish, max_breadth};
use core::hash::Hasher;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use sip_message::{Message, Method, Name, Uri, has_pair, hex16, unhex16};
use sip_proxy::locate::{Destinations, Located, Lookup, Step, locate};
use sip_proxy::rewrite::{self, Outgoing, write_request};
use sip_proxy::token::{Dialog, Role};
use sip_proxy::transport::{always_rport, reply_flow};
use sip_transaction::Prepared;
use wire::{Flow, ListenerId, Outbox, Time};

/// Begins a branch that was made without memory. The whole of it is this, what tells requests apart, where the response
/// goes, and the seal.
const PREFIX: &[u8; 8] = b"z9hG4bKt";
/// The same where the address of whoever gets the response is in it, which it is if that is IPv4's.
const PREFIX_V4: &[u8; 8] = b"z9hG4bKu";
/// Letters and digits between that and the seal.
const FACTS: usize = 32;

/// What waits for an answer of the DNS and is no branch.
pub(crate) const NOBODY: u128 = u128::MAX;

impl<S: Services> Node<S> {
    /// An ACK, or a CANCEL in stateless mode. Neither can be challenged, so what stands in From proves
    /// nothing here: it goes to the other end of a dialog of ours, to our own users, or where a phone
    /// that is registered at the sender's address may send.
    pub(crate) fn forward_unproven(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        Way { read, dialog }: Way<'_>,
        out: &mut Outbox,
    ) {
        let (routing, uri) = match read {
            Ok((routing, Ok(uri))) => (routing, uri),
            Ok((routing, uri)) if dialog.is_some() => (routing, carried(uri, &routing)),
            _ => return self.services.count(Counter::Garbage),
        };
        let trunk = self.settings.trunk_of(flow.remote.ip());
        let ourselves = self.is_from_ourselves(request);
        let trunk = trunk.filter(|_| !ourselves);
        let phone = || self.is_at_phone(flow, request);
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
        let caller = Caller { role, realm: None, trunk, borrowed };
        let admitted = Admitted { uri, routing, dialog, caller };
        if self.bars(flow, request, &admitted).is_some() {
            match request.method() {
                Method::Ack => self.services.count(Counter::Stray),
                _ => self.refuse(flow, request, 403, b"", b"", out),
            }
            return;
        }
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
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        out: &mut Outbox,
    ) {
        let is_ack = request.method() == Method::Ack;
        if !is_ack && breadth(request, &self.settings) == Some(0) {
            return self.refuse(flow, request, 440, b"", b"", out);
        }
        match self.plan(now, flow, request, admitted) {
            Plan::Forward(wishes) => {
                self.forward_first(now, flow, request, admitted, &wishes, out);
                self.take_back(wishes);
            }
            // Neither ACK nor CANCEL begins anything, and in stateless mode no dialog is known.
            Plan::NoDialog => self.services.count(Counter::Stray),
            Plan::Refuse(_) | Plan::Offline | Plan::Redirect(_) if is_ack => {
                self.services.count(Counter::Stray);
            }
            Plan::Refuse(status) => {
                // A CANCEL proves nothing, so it is no sign of what its sender may do.
                if request.method() != Method::Cancel {
                    self.note_refusal(status, flow, request, admitted);
                }
                self.refuse(flow, request, status, b"", b"", out);
            }
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
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        wishes: &[(u16, Wish)],
        out: &mut Outbox,
    ) {
        let Some((_, wish)) = wishes.first() else { return };
        let Some(hop) = self.first_hop(now, wish, flow, request) else { return };
        let phones = wishes.iter().map(|(_, wish)| wish).filter(|wish| !wish.elsewhere);
        let closed = !wish.locate.is_empty()
            && is_guarded(wish.elsewhere, wish.role, admitted.caller.role)
            && is_anothers(&self.services, now, hop.remote, phones.flat_map(|wish| wish.hops.iter()));
        if !closed && may_carry(hop, request, &wish.uri) {
            self.send_stateless(now, flow, hop, request, admitted, wish, out);
        } else if request.method() == Method::Ack {
            self.services.count(Counter::Stray);
        } else {
            self.refuse(flow, request, if closed { 403 } else { 480 }, b"", b"", out);
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
        let large = wish.role != Role::Local && self.grown(flow, request) > self.settings.proxy.mtu;
        // The same seed for the same call, so that its messages meet the same server.
        let mut seed = self.keyed(domain::STATELESS);
        seed.write(request.call_id());
        self.locate_now(now, &uri, large, seed.finish())?.as_slice().iter().find_map(|d| {
            let allowed = self.places.let_through(&self.settings, wish.bounds, wish.role, d.address);
            let listener = self.settings.listener_for(d.transport, d.address, flow.listener)?;
            allowed.then_some(Flow { transport: d.transport, listener, remote: d.address, conn: None })
        })
    }

    /// The destinations of a URI, if all DNS answers are cached. Otherwise asks for the missing ones and
    /// returns `None`.
    pub(crate) fn locate_now(
        &mut self,
        now: Time,
        uri: &Uri<'_>,
        large: bool,
        seed: u64,
    ) -> Option<Destinations> {
        let able = self.ability();
        let mut locate = match locate(&crate::forward::want(uri, large), &able, seed) {
            Ok(Located::Now(found)) => return Some(found),
            Ok(Located::Ask(locate)) => locate,
            Err(_) => return Some(Destinations::new()),
        };
        loop {
            match locate.poll() {
                Step::Done(found) => return Some(found.unwrap_or_default()),
                Step::Wait => return None,
                Step::Ask(ask) => {
                    let (kind, name) = locate.question(ask)?;
                    match self.dns.ask(now, kind, name, NOBODY) {
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
        }
    }

    fn send_stateless(
        &mut self,
        now: Time,
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
                caller_end(from, request, a.caller.role),
                callee_end(hop, wish.role, &wish.uri, &wish.routes),
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
            strip_commands: a.caller.role == Role::Stranger,
        };
        let splices = &mut self.splices;
        out.send_with(hop, 0, |buf| write_request(request, &outgoing, splices, buf));
        self.scratch = lines;
        self.count_within(now, hop);
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
        let (listener, port) = (back.listener.0, back.remote.port());
        let (prefix, place, address) = match back.remote.ip().to_canonical() {
            IpAddr::V4(v4) => (PREFIX_V4, u64::from(v4.to_bits()), None),
            IpAddr::V6(v6) => (PREFIX, 0, Some(v6)),
        };
        let place = place << 32 | u64::from(listener) << 16 | u64::from(port);
        let mut branch = [0; 56];
        let (begin, rest) = branch.split_at_mut(8);
        begin.copy_from_slice(prefix);
        let (facts, seal) = rest.split_at_mut(FACTS);
        let (first, second) = facts.split_at_mut(FACTS / 2);
        first.copy_from_slice(&hex16(id));
        second.copy_from_slice(&hex16(place));
        seal.copy_from_slice(&self.stateless_seal(facts, address, request.call_id()));
        out.extend_from_slice(&branch);
    }

    /// The seal over what stands before it in small letters, as text. `address`: of IPv6, where it is not in that.
    fn stateless_seal(&self, facts: &[u8], address: Option<Ipv6Addr>, call_id: &[u8]) -> [u8; 16] {
        let domain = if address.is_some() { domain::SEAL_V6 } else { domain::SEAL };
        let mut text = self.gathered::<256>(domain);
        text.add(facts);
        if let Some(v6) = address {
            text.add(&v6.octets());
        }
        text.add(call_id);
        hex16(text.finish())
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
        // In most responses the letters stand in no Via, and then there is nothing to take out.
        let named = response.headers(Name::Via).any(|line| has_pair(line.value, b"oc"));
        let token = self.letters.token();
        let splices = &mut self.splices;
        out.send_with(flow, token, |buf| {
            passed_on(None, named, buf, |buf| rewrite::write_response(response, !trusted, splices, buf));
        });
        self.letters.keep(&mut self.layer, out);
        self.services.count(Counter::Relayed);
    }

    /// Where a message with a branch on top that we sealed came from; `None` if we did not.
    pub(crate) fn stateless_return(&self, response: &Message<'_>) -> Option<Flow> {
        if response.via_count() < 2 {
            return None;
        }
        // A branch is a token, and some elements change its case. All of this one is letters and digits, if it is ours.
        let mut branch: [u8; 56] = response.via_branch().try_into().ok()?;
        branch.iter_mut().skip(PREFIX.len()).for_each(|byte| *byte |= 0x20);
        let (prefix, rest) = branch.split_first_chunk()?;
        let (facts, seal) = rest.split_at_checked(FACTS)?;
        let place = unhex16(facts.get(FACTS / 2..)?)?;
        let call_id = response.call_id();
        let ip = if prefix == PREFIX_V4 || prefix.eq_ignore_ascii_case(PREFIX_V4) {
            (seal == self.stateless_seal(facts, None, call_id)).then_some(())?;
            IpAddr::V4(Ipv4Addr::from_bits((place >> 32) as u32))
        } else if prefix.eq_ignore_ascii_case(PREFIX) {
            let via = sip_message::Via::parse(response.values(Name::Via).nth(1)?).ok()?;
            let IpAddr::V6(v6) = via.source_ip()? else { return None };
            (seal == self.stateless_seal(facts, Some(v6), call_id)).then_some(())?;
            IpAddr::V6(v6)
        } else {
            return None;
        };
        let listener = ListenerId((place >> 16) as u16);
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
