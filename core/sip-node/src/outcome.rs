//! What comes back: responses, timeouts, answers of the resolver; and the actions that follow.

use crate::calls::Within;
use crate::inbound::{RETRY_AFTER, passed_on, told};
use crate::node::Node;
use crate::overload::wish;
use crate::prober::is_probe;
use crate::prompt::Group;
use crate::proxied::{Back, Proxied, ProxiedId};
use crate::routing::Wish;
use crate::services::{Counter, Services, Span};
use crate::settings::Bounds;
use crate::silence::NO_TARGET;
use crate::site::OC;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use sip_message::{Limits, Message, Method, Name, NameAddr, Parsed, Response, Uri, parse};
use sip_proxy::context::{Action, BranchId};
use sip_proxy::loops::read_branch;
use sip_proxy::rewrite;
use sip_proxy::token::Role;
use sip_registrar::parse_q;
use sip_transaction::{ClientId, Event, Outcome, Payer, ServerId, TimerId};
use wire::{ConnId, Flow, Outbox, Time};

/// Stands where a branch has an address.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Seconds that a stream connection matters on which a caller was told that the call is answered.
const CALL_KEEPS: u32 = 7_200;

impl<S: Services> Node<S> {
    /// A response without a flaw (RFC 3261 section 16.7).
    pub(crate) fn response(&mut self, now: Time, flow: Flow, response: &Message<'_>, out: &mut Outbox) {
        if !self.site.is_our_via(response) {
            return self.site.services().count(Counter::Stray);
        }
        let client = read_branch(response.via_branch()).and_then(|b| ClientId::decode(b.client));
        let Some(client) = client else { return self.stateless_response(flow, response, out) };
        // Without a second Via there is nobody to pass it on to; a well-behaved peer never drops one.
        match self.layer.receive_response(now, client, response, out) {
            Outcome::Deliver { user } if response.via_count() > 1 => {
                let (id, branch) = ProxiedId::split(user);
                self.branch_response(now, flow, id, branch, response, out);
            }
            Outcome::Deliver { user } if is_probe(user) => self.probe_answered(now, user),
            Outcome::Deliver { .. } | Outcome::Unknown => self.site.services().count(Counter::Stray),
            Outcome::Absorbed => {}
        }
    }

    fn branch_response(
        &mut self,
        now: Time,
        flow: Flow,
        id: ProxiedId,
        branch: BranchId,
        response: &Message<'_>,
        out: &mut Outbox,
    ) {
        let Some(mut proxied) = self.proxied.take(id) else {
            return self.further_response(now, flow, id, branch, response, out);
        };
        let status = response.status();
        if proxied.invite && status >= 300 {
            // Its ACK goes back to where it came from.
            self.count_within(now, flow);
            self.calls.refused(response);
        }
        self.hear(now, flow, &proxied, branch, response);
        self.branch_heard(now, &proxied, branch);
        if proxied.over {
            // A 2xx to an INVITE of which a branch was given up.
            if proxied.invite
                && (200..300).contains(&status)
                && !self.relay(now, proxied.back(branch, flow.remote), response, out)
                && self.relay_late(&proxied, branch, response, out)
            {
                let callee = proxied.back(branch, flow.remote).place;
                let within = proxied.within.or(Some(Within { by_caller: true, callee }));
                self.calls.responded(now, status, response, callee, within);
            }
            return self.put_back(proxied);
        }
        if status > 100
            && let Some(neighbour) = proxied.asked.take_if(|asked| *asked == Group::of(flow.remote))
        {
            self.prompt.answered(neighbour, now.since(proxied.started));
        }
        let mut actions = mem::take(&mut self.actions);
        if (300..400).contains(&status) && self.recurse(now, &mut proxied, branch, response) {
            proxied.context.branch_redirected(now, branch, &mut actions);
        } else if self.gives_way(&proxied, branch, status) {
            self.branch_refused(now, &proxied, branch, status);
            match has_more(&proxied, branch) {
                true => proxied.context.branch_unreachable(now, branch, &mut actions),
                false if replace(&mut proxied, branch) => {
                    proxied.context.branch_redirected(now, branch, &mut actions);
                }
                false => proxied.context.branch_response(now, branch, status, &mut actions),
            }
        } else {
            proxied.context.branch_response(now, branch, status, &mut actions);
        }
        self.perform(now, proxied, actions, None, Some(response), out);
    }

    /// A response to an INVITE that was accepted: a repeated or second 2xx goes back (RFC 6026 section 7),
    /// and nothing else.
    fn further_response(
        &mut self,
        now: Time,
        flow: Flow,
        id: ProxiedId,
        branch: BranchId,
        response: &Message<'_>,
        out: &mut Outbox,
    ) {
        if (200..300).contains(&response.status())
            && let Some(back) = self.proxied.back(id, branch, flow.remote)
        {
            self.relay(now, back, response, out);
        }
    }

    /// Notes that something came back, and what a trunk says of its load (RFC 7339 section 5.3), if it was
    /// asked to, and said it from where the request went.
    #[inline]
    fn hear(&mut self, now: Time, flow: Flow, p: &Proxied, branch: BranchId, response: &Message<'_>) {
        let Some(target) = p.targets.get(usize::from(branch.target())) else { return };
        let hop = target.hops.get(usize::from(branch.attempt()));
        let unproven = (target.elsewhere || target.role == Role::Stranger) && accepts(response.status());
        if let Some(hop) = hop.filter(|hop| unproven && hop.remote.ip() == flow.remote.ip()) {
            // Of a stranger the Request-URI may be anything.
            let contact = (target.role != Role::Stranger).then(|| p.text(&target.uri));
            self.site.note_heard(contact, p.text(&target.routes), hop.remote);
        }
        if !self.listens_to(target) {
            return;
        }
        let Some(&hop) = hop else { return };
        let via = response.via().raw;
        // As it was written: a trunk that knows nothing of this.
        if hop.remote != flow.remote || via.ends_with(OC) {
            return;
        }
        if let Some(wish) = wish(via) {
            self.neighbours.told(now, hop.remote, &wish);
        }
    }

    /// Whether `status` means that the request is to be tried elsewhere: a trunk's next address or target
    /// for what its owner says, another flow for a phone that is not on this one (RFC 5626 section 7).
    fn gives_way(&self, proxied: &Proxied, branch: BranchId, status: u16) -> bool {
        let Some(target) = proxied.targets.get(usize::from(branch.target())) else { return false };
        let trunk = target.trunk.as_ref().and_then(|trunk| trunk.get());
        match trunk {
            _ if status < 300 || !proxied.context.is_running(branch) => false,
            _ if target.instance => matches!(status, 408 | 430),
            Some(trunk) => status == 503 || trunk.retry_on.contains(&status),
            None => status == 503,
        }
    }

    /// A branch could not be sent: the next address, the next target in its place, or the end of it.
    pub(crate) fn branch_lost(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        actions: &mut Vec<Action>,
    ) {
        let flow_only = p.targets.get(usize::from(branch.target())).is_some_and(|t| t.flow_only);
        if has_more(p, branch) {
            p.context.branch_unreachable(now, branch, actions);
        } else if flow_only {
            // RFC 5626 section 5.3.1.
            self.branch_useless(now, p, branch, 430, actions);
        } else if p.context.is_running(branch) && replace(p, branch) {
            p.context.branch_redirected(now, branch, actions);
        } else {
            p.context.branch_unreachable(now, branch, actions);
        }
    }

    /// A branch has no address at all: the next target in its place, or it ends with `status`.
    pub(crate) fn branch_useless(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        status: u16,
        actions: &mut Vec<Action>,
    ) {
        if p.context.is_running(branch) && replace(p, branch) {
            p.context.branch_redirected(now, branch, actions);
        } else {
            p.context.branch_failed(now, branch, status, actions);
        }
    }

    /// Takes the Contacts of a 3xx over as targets (section 16.7 step 4); `false`: pass it on. Only for
    /// callers who might have called those targets themselves.
    fn recurse(&self, now: Time, proxied: &mut Proxied, branch: BranchId, response: &Message<'_>) -> bool {
        let recurses = self.site.settings().proxy.recurse && proxied.role == Role::Local;
        // The sender of a request within a dialog may not be known well enough to choose a target.
        if !recurses || proxied.within.is_some() || proxied.context.is_answered() {
            return false;
        }
        let from = proxied.targets.get(usize::from(branch.target()));
        let from = from.and_then(|target| target.hops.get(usize::from(branch.attempt())));
        let bounds = from.map_or(Bounds::Outside, |hop| Bounds::of(hop.remote));
        let at_home = from.and_then(|hop| self.site.places().at(self.site.settings(), hop.remote));
        let mut wishes = Vec::new();
        for value in response.values(Name::Contact).take(16) {
            let Ok(contact) = NameAddr::parse(value) else { continue };
            let Ok(uri) = Uri::parse(contact.uri) else { continue };
            if !uri.is_sip() || !uri.headers.is_empty() {
                continue;
            }
            let q = contact.param(b"q").and_then(parse_q).unwrap_or(1000);
            match self.site.local_aor(&uri, contact.uri) {
                Some(aor) => {
                    let size =
                        proxied.request().len() + self.site.growth(proxied.source, proxied.record_route);
                    let bound = self.router().bound(now, proxied.source, size, &aor);
                    wishes.extend(bound.into_iter().map(|(_, wish)| (q, wish)));
                }
                // A trunk may redirect to another host of its own.
                None => {
                    let same =
                        at_home.is_some() && self.site.places().of_uri(self.site.settings(), &uri) == at_home;
                    let role = if same { Role::Trunk } else { Role::Stranger };
                    // Who is no target of the operator's may name a host that never asked for calls.
                    let elsewhere = at_home.is_none();
                    wishes.push((q, Wish { elsewhere, ..Wish::located(contact.uri, role, bounds) }));
                }
            }
        }
        // In the order that whoever redirected prefers; equal ones as they stand.
        wishes.sort_by_key(|(q, _)| core::cmp::Reverse(*q));
        let mut added = false;
        for (q, wish) in wishes {
            let known = proxied.targets.iter().any(|t| *proxied.text(&t.uri) == *wish.uri);
            // One after the other: before what waits, in the order of their q.
            let q = if self.site.settings().proxy.parallel { q } else { 1000 };
            if !known && proxied.context.add_target(q).is_some() {
                let target = wish.store(proxied);
                proxied.targets.push(target);
                added = true;
            }
        }
        added
    }

    /// Carries out what the context asked for, and what it asks for on the way. Takes the proxied
    /// request, puts it back or ends it.
    pub(crate) fn perform(
        &mut self,
        now: Time,
        mut proxied: Box<Proxied>,
        mut actions: Vec<Action>,
        request: Option<&Message<'_>>,
        response: Option<&Message<'_>>,
        out: &mut Outbox,
    ) {
        let mut at = 0;
        while let Some(&action) = actions.get(at) {
            at += 1;
            self.act(now, &mut proxied, action, &mut actions, request, response, out);
        }
        actions.clear();
        self.actions = actions;
        if !proxied.over {
            if proxied.trying <= now {
                // It went to nobody who is known to answer soon.
                proxied.trying = Time::FAR;
                self.still_trying(now, &mut proxied, request, out);
            } else if proxied.trying != Time::FAR && proxied.timer == TimerId::NONE {
                self.arm(&mut proxied);
            }
            return self.put_back(proxied);
        }
        self.layer.unschedule(mem::replace(&mut proxied.timer, TimerId::NONE));
        let gave_up = proxied.context.gave_up();
        if proxied.invite && proxied.accepted && !gave_up {
            self.keep_accepted(proxied);
        } else if proxied.invite && gave_up {
            // Where the caller is, for when his transaction is over.
            proxied.source = self.layer.reply_of(proxied.server).unwrap_or(proxied.source);
            self.put_shrunk(proxied);
        } else {
            self.layer.set_user(proxied.server, 0);
            self.free(proxied);
        }
    }

    fn act(
        &mut self,
        now: Time,
        p: &mut Proxied,
        action: Action,
        actions: &mut Vec<Action>,
        request: Option<&Message<'_>>,
        response: Option<&Message<'_>>,
        out: &mut Outbox,
    ) {
        match action {
            Action::StartBranch { branch, breadth } => {
                self.with_request(p, request, |node, p, request| {
                    node.start_branch(now, p, branch, breadth, request, actions, out);
                });
            }
            Action::StartVoicemail { branch, cause, breadth } => {
                self.site.services().count(Counter::Voicemail);
                self.with_request(p, request, |node, p, request| {
                    node.start_voicemail(now, p, branch, cause, breadth, request, actions, out);
                });
            }
            Action::Silent(branch) => self.branch_silent(now, p, branch, actions),
            Action::CancelBranch(branch) => self.cancel_branch(now, p, branch, actions, out),
            Action::ForwardProvisional(branch) => {
                p.trying = Time::FAR;
                if let Some(response) = response {
                    self.relay(now, p.back(branch, NOWHERE), response, out);
                }
            }
            Action::ForwardFinal(branch) => {
                p.trying = Time::FAR;
                let first = !mem::replace(&mut p.accepted, true);
                if let Some(response) = response
                    && self.relay(now, p.back(branch, NOWHERE), response, out)
                    && first
                {
                    self.concluded(now, p, response.status(), response);
                }
            }
            Action::ForwardBest(branch) => {
                p.trying = Time::FAR;
                self.forward_best(now, p, branch, response, out);
            }
            Action::Generate(status) => {
                p.trying = Time::FAR;
                self.generate(now, p, status, request, out);
            }
            // The transaction stays unanswered until it ends by itself, so that late retransmissions are
            // absorbed and are no new requests.
            Action::Silence => self.with_request(p, request, |node, _, request| {
                node.calls.concluded(request.method(), 408, request);
            }),
            Action::Keep(branch) => {
                if let Some(response) = response {
                    self.keep(p, branch, response);
                }
            }
            Action::Forget(branch) => p.kept.retain(|(b, _)| *b != branch),
            Action::SetTimer(time) => {
                p.wakes = time;
                self.arm(p);
            }
            Action::ClearTimer => {
                p.wakes = Time::FAR;
                self.layer.unschedule(mem::replace(&mut p.timer, TimerId::NONE));
            }
            Action::Finished => p.over = true,
        }
    }

    /// Sets the timer for what is due first.
    fn arm(&mut self, p: &mut Proxied) {
        self.layer.unschedule(mem::replace(&mut p.timer, TimerId::NONE));
        let next = p.wakes.min(p.trying);
        if next != Time::FAR {
            p.timer = self.layer.schedule(next, p.id.as_u64());
        }
    }

    /// Runs `work` with the received request: the one at hand, or the stored one indexed again.
    pub(crate) fn with_request(
        &mut self,
        p: &mut Proxied,
        request: Option<&Message<'_>>,
        work: impl FnOnce(&mut Node<S>, &mut Proxied, &Message<'_>),
    ) {
        if let Some(request) = request {
            return work(self, p, request);
        }
        let Some(stored) = p.request.clone() else { return };
        self.with_index(|node, index| match parse(&stored, index, &Limits::READ_BEFORE) {
            Parsed::Good(request) | Parsed::Bad(request, _) => work(node, p, &request),
            // It was read once already.
            Parsed::Garbage(_) => {}
        });
    }

    /// Passes a response on through the server transaction, without our Via. Whether that was possible.
    fn relay(&mut self, now: Time, back: Back, response: &Message<'_>, out: &mut Outbox) -> bool {
        let status = response.status();
        let source = back.oc.and_then(|_| self.layer.reply_of(back.server));
        let oc = back.oc.zip(source).map(|(algorithm, source)| self.oc_for(source.remote, algorithm));
        let splices = &mut self.splices;
        let sent = self.layer.respond(now, back.server, status, out, |buf| {
            passed_on(oc, back.knows_oc, buf, |buf| {
                rewrite::write_response(response, !back.trusted, splices, buf);
            });
        });
        if sent {
            self.letters.keep(&mut self.layer, out);
            self.site.services().count(Counter::Relayed);
            if matches!(response.method(), Method::Invite | Method::Update) {
                self.calls.responded(now, status, response, back.place, back.within);
            }
            // What was withheld was not queued; to streams nothing is withheld.
            let caller = self.layer.reply_of(back.server).filter(|flow| flow.transport.is_reliable());
            if let Some(caller) = caller
                && (200..300).contains(&status)
                && response.method() == Method::Invite
            {
                self.keep_caller(back.server, caller.conn, response, out);
            }
        }
        sent
    }

    /// The connection of a caller whose call is answered by what was queued last matters: a stranger's as
    /// long as the call is known.
    fn keep_caller(&mut self, id: ServerId, conn: Option<ConnId>, response: &Message<'_>, out: &mut Outbox) {
        if self.layer.payer_of(id) == Some(Payer::PROVEN) {
            out.keeps(CALL_KEEPS);
        } else if let Some(conn) = conn
            && self.calls.takes(response, conn)
        {
            out.uses(CALL_KEEPS);
        }
    }

    /// Passes on a 2xx to an INVITE that was answered with a failure meanwhile, because a branch had been
    /// silent for too long. The caller has to know of the call, to end it (16.7 step 5).
    fn relay_late(
        &mut self,
        p: &Proxied,
        branch: BranchId,
        response: &Message<'_>,
        out: &mut Outbox,
    ) -> bool {
        let token = self.letters.token();
        let (trusted, splices) = (p.trusts(branch), &mut self.splices);
        let sent = out.send_with(p.source, token, |buf| {
            passed_on(None, p.knows_oc, buf, |buf| rewrite::write_response(response, !trusted, splices, buf));
        });
        if p.bounded && !self.layer.pays(p.server, sent.len()) {
            out.take_back();
            return false;
        }
        self.letters.keep(&mut self.layer, out);
        self.site.services().count(Counter::Relayed);
        true
    }

    /// Notes what a final response means for calls.
    fn concluded(&mut self, now: Time, p: &Proxied, status: u16, response: &Message<'_>) {
        if status < 200 {
            return;
        }
        if p.invite {
            let counter = if status < 300 { Counter::CallsAnswered } else { Counter::CallsFailed };
            self.site.services().count(counter);
        }
        if !p.invite || status < 300 {
            let what = if p.invite { Span::CallSetup } else { Span::Answer };
            let micros = now.since(p.started).as_micros();
            self.site.services().observe(what, u64::try_from(micros).unwrap_or(u64::MAX));
        }
        self.calls.concluded(response.method(), status, response);
        if p.invite && status < 300 && !self.site.settings().proxy.record_route {
            // Its BYE goes from phone to phone; nobody here will see the call end.
            self.calls.left(response);
        }
    }

    /// Keeps a final response, without our Via.
    fn keep(&mut self, p: &mut Proxied, branch: BranchId, response: &Message<'_>) {
        let len = response.bytes().len();
        let mut bytes = Vec::with_capacity(len.min(LARGE));
        if len <= LARGE || self.layer.has_room(len) {
            rewrite::write_response(response, !p.trusts(branch), &mut self.splices, &mut bytes);
        } else {
            // What it means is kept all the same.
            let (source, tag) = (Some((p.source.remote, p.always_rport)), self.server_tag(p.server));
            let status = response.status();
            self.with_request(p, None, |_, _, request| {
                Response { tag: &tag, source, ..Response::new(status) }.write(request, &mut bytes);
            });
        }
        bytes.shrink_to_fit();
        p.kept.retain(|(b, _)| *b != branch);
        p.kept.push((branch, bytes));
    }

    /// Section 16.7 steps 6 to 9: the best response, with the challenges of the others.
    fn forward_best(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        response: Option<&Message<'_>>,
        out: &mut Outbox,
    ) {
        let mut bytes = Vec::new();
        // The current response is not kept yet; if it is not the best one, it may still hold challenges.
        let mut current = None;
        match p.kept.iter().position(|(b, _)| *b == branch) {
            Some(at) => {
                bytes = p.kept.swap_remove(at).1;
                current = response.filter(|r| matches!(r.status(), 401 | 407));
            }
            None => match response {
                Some(response) => {
                    rewrite::write_response(response, !p.trusts(branch), &mut self.splices, &mut bytes);
                }
                None => return,
            },
        }
        let mut lines = Vec::new();
        let others: Vec<BranchId> = p.context.challenges().filter(|b| *b != branch).collect();
        for (_, kept) in p.kept.iter().filter(|(b, _)| others.contains(b)) {
            self.with_index(|_, index| {
                if let Parsed::Good(m) | Parsed::Bad(m, _) = parse(kept, index, &Limits::READ_BEFORE) {
                    challenge_lines(&m, &mut lines);
                }
            });
        }
        if let Some(current) = current.filter(|_| !others.is_empty()) {
            challenge_lines(current, &mut lines);
        }
        self.with_index(|node, index| {
            let (Parsed::Good(best) | Parsed::Bad(best, _)) = parse(&bytes, index, &Limits::READ_BEFORE)
            else {
                return;
            };
            let head = best.head_len().saturating_sub(2);
            let oc = p.oc.map(|algorithm| node.oc_for(p.source.remote, algorithm));
            let parts = [best.bytes().get(..head), Some(&lines), best.bytes().get(head..)];
            let sent = node.layer.respond(now, p.server, best.status(), out, |buf| {
                passed_on(oc, p.knows_oc, buf, |buf| {
                    parts.into_iter().flatten().for_each(|part| buf.extend_from_slice(part));
                });
            });
            if sent {
                node.letters.keep(&mut node.layer, out);
                node.site.services().count(Counter::Relayed);
                node.concluded(now, p, best.status(), &best);
            }
        });
    }

    /// A final response of our own.
    fn generate(
        &mut self,
        now: Time,
        p: &mut Proxied,
        status: u16,
        request: Option<&Message<'_>>,
        out: &mut Outbox,
    ) {
        let source = Some((p.source.remote, p.always_rport));
        // A 503 would say that this server is out of service (16.7 step 6), which is then the truth.
        let (status, extra): (u16, &[u8]) = match status {
            500 if p.overloaded => (503, RETRY_AFTER),
            // RFC 7339 section 5.10: without Retry-After.
            500 if p.held_back => (503, b""),
            status if self.is_lost(p, status) => (status, NO_TARGET),
            status => (status, b""),
        };
        let oc = p.oc.map(|algorithm| self.oc_for(p.source.remote, algorithm));
        self.with_request(p, request, |node, p, request| {
            let tag = node.server_tag(p.server);
            node.layer.respond(now, p.server, status, out, |buf| {
                told(oc, buf, |buf| {
                    Response { tag: &tag, source, extra, ..Response::new(status) }.write(request, buf)
                });
            });
            node.letters.keep(&mut node.layer, out);
            if p.invite {
                node.site.services().count(Counter::CallsFailed);
            }
            node.calls.concluded(request.method(), status, request);
        });
    }

    fn cancel_branch(
        &mut self,
        now: Time,
        p: &mut Proxied,
        branch: BranchId,
        actions: &mut Vec<Action>,
        out: &mut Outbox,
    ) {
        if let Some(at) = p.lookups.iter().position(|l| l.branch == branch) {
            p.lookups.swap_remove(at);
            return p.context.branch_failed(now, branch, 487, actions);
        }
        if let Some(client) = p.client(branch) {
            // RFC 3326: why, for phones that list missed calls.
            let reason: &[u8] = match p.accepted {
                true => b"Reason: SIP;cause=200;text=\"Call completed elsewhere\"\r\n",
                false => p.text(&p.reason),
            };
            self.layer.cancel(now, client, reason, out);
            let target = p.targets.get(usize::from(branch.target()));
            if let Some(&hop) = target.and_then(|target| target.hops.get(usize::from(branch.attempt()))) {
                self.count_within(now, hop);
            }
        }
    }

    /// What time or the transport did.
    pub(crate) fn event(&mut self, now: Time, event: Event, out: &mut Outbox) {
        match event {
            Event::ClientTimeout { user, .. } => self.branch_ended(now, user, false, out),
            Event::ClientUnreachable { user, .. } => self.branch_ended(now, user, true, out),
            Event::ServerGone { user, .. } => self.server_gone(user),
            Event::User { token } => {
                let (id, _) = ProxiedId::split(token);
                if let Some(mut proxied) = self.proxied.take(id) {
                    proxied.timer = TimerId::NONE;
                    if proxied.trying <= now {
                        proxied.trying = Time::FAR;
                        if let Some(neighbour) = proxied.asked.take() {
                            self.prompt.answered(neighbour, Duration::MAX);
                        }
                        self.still_trying(now, &mut proxied, None, out);
                    }
                    if now < proxied.wakes {
                        // The timer was set for the 100.
                        self.arm(&mut proxied);
                        return self.put_back(proxied);
                    }
                    proxied.wakes = Time::FAR;
                    let mut actions = mem::take(&mut self.actions);
                    proxied.context.timeout(now, &mut actions);
                    self.perform(now, proxied, actions, None, None, out);
                }
            }
            Event::ClientGone { user, .. } => self.client_gone(user),
            Event::AckTimeout { .. } | Event::ServerUnreachable { .. } => {}
        }
    }

    /// A 100, once the client's retransmissions have come to T2 (RFC 4320 section 4.1) or, of an INVITE,
    /// before they begin (RFC 3261 section 17.2.1).
    fn still_trying(&mut self, now: Time, p: &mut Proxied, request: Option<&Message<'_>>, out: &mut Outbox) {
        let source = Some((p.source.remote, p.always_rport));
        self.with_request(p, request, |node, p, request| {
            node.answer(now, p.server, request, source, 100, b"", out);
        });
    }

    fn branch_ended(&mut self, now: Time, user: u64, unreachable: bool, out: &mut Outbox) {
        if is_probe(user) {
            return if unreachable {
                self.probe_lost(user)
            };
        }
        let (id, branch) = ProxiedId::split(user);
        let Some(mut proxied) = self.proxied.take(id) else { return };
        if proxied.over {
            return self.put_or_free(proxied);
        }
        if unreachable {
            self.branch_unreached(now, &proxied, branch);
        }
        let mut actions = mem::take(&mut self.actions);
        // Only silence counts as "not there"; a branch that answered something ends as it says.
        let silent = proxied.context.is_silent(branch) && !has_more(&proxied, branch);
        if unreachable {
            self.branch_lost(now, &mut proxied, branch, &mut actions);
        } else if silent && replace(&mut proxied, branch) {
            proxied.context.branch_redirected(now, branch, &mut actions);
        } else {
            proxied.context.branch_timeout(now, branch, &mut actions);
        }
        self.perform(now, proxied, actions, None, None, out);
    }

    /// The server transaction has ended: an accepted INVITE needs its proxied request no more, one whose
    /// phones may answer still keeps it for as long as that can be, and one that was never answered takes
    /// everything with it.
    fn server_gone(&mut self, user: u64) {
        let (id, _) = ProxiedId::split(user);
        if self.proxied.end_accepted(id) {
            return;
        }
        let Some(mut proxied) = self.proxied.take(id) else { return };
        if proxied.over && proxied.context.gave_up() {
            return self.put_or_free(proxied);
        }
        if !proxied.over {
            for (_, client) in mem::take(&mut proxied.clients) {
                self.layer.abandon(client);
            }
            self.layer.unschedule(mem::replace(&mut proxied.timer, TimerId::NONE));
            self.with_request(&mut proxied, None, |node, _, request| {
                node.calls.concluded(request.method(), 408, request);
            });
        }
        self.free(proxied);
    }

    /// A client transaction has ended. The last one takes a proxied request with it that was kept for a late
    /// answer, so that there are never more of those than client transactions.
    fn client_gone(&mut self, user: u64) {
        let (id, _) = ProxiedId::split(user);
        if let Some(proxied) = self.proxied.take(id) {
            self.put_or_free(proxied);
        }
    }

    /// Puts a proxied request back that something may still come for: its caller's transaction is there, or
    /// a branch that may bring an answer.
    fn put_or_free(&mut self, proxied: Box<Proxied>) {
        let waits = |(_, client): &(BranchId, ClientId)| self.layer.user_of_client(*client).is_some();
        let caller = self.layer.user_of(proxied.server).is_some();
        match caller || !proxied.over || proxied.clients.iter().any(waits) {
            true => self.put_back(proxied),
            false => self.free(proxied),
        }
    }
}

/// Whether a response shows that calls are meant to come to its sender. Any SIP server rejects requests that
/// it knows nothing of (404, 403, 481 and others).
const fn accepts(status: u16) -> bool {
    matches!(status, 101..300 | 401 | 407 | 480 | 486..=488 | 600 | 603)
}

/// Longer responses are not kept whole while the bytes held are at their limit.
const LARGE: usize = 2_048;

/// The WWW-Authenticate and Proxy-Authenticate lines of a response.
fn challenge_lines(response: &Message<'_>, lines: &mut Vec<u8>) {
    for name in [Name::WwwAuthenticate, Name::ProxyAuthenticate] {
        for header in response.headers(name) {
            lines.extend_from_slice(response.bytes().get(header.line).unwrap_or(b""));
        }
    }
}

/// Whether the target of a branch has another address.
pub(crate) fn has_more(p: &Proxied, branch: BranchId) -> bool {
    let target = p.targets.get(usize::from(branch.target()));
    target.is_some_and(|t| usize::from(branch.attempt()) + 1 < t.hops.len())
}

/// Adds the target that stands in for the one of this branch, if there is one.
pub(crate) fn replace(p: &mut Proxied, branch: BranchId) -> bool {
    let Some(next) = p.targets.get_mut(usize::from(branch.target())).and_then(|t| t.next.take()) else {
        return false;
    };
    // Before all that waits: it is no further choice, but the same one again.
    if p.context.add_target(1000).is_none() {
        return false;
    }
    let target = next.store(p);
    p.targets.push(target);
    true
}
