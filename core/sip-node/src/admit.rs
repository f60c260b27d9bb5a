//! What happens to a new request before it is given any memory: RFC 3261 sections 16.3 and 22.
//!
//! Everything here answers statelessly, at most once per request, so that a flood of unproven requests
//! costs no memory and is not amplified.

use crate::inbound::retry_after;
use crate::node::Node;
use crate::overload::Verdict;
use crate::services::{Counter, Refusal, Services, Unregistered};
use crate::settings::{Auth, Mode};
use crate::strangers::{is_anonymous, status_of, unmask};
use sip_auth::{Decision, Status};
use sip_message::{
    Malformed, Message, Method, Name, Scheme, Uri, UriError, plain_aor, push_canonical_user, same_user,
};
use sip_proxy::loops::read_branch;
use sip_proxy::routes::{Routing, preprocess};
use sip_proxy::token::{Dialog, End, Role};
use sip_registrar::Expected;
use sip_transaction::Prepared;
use std::borrow::Cow;
use wire::{Flow, Outbox, Time};

/// Who sent a request, as far as that was proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caller<'a> {
    /// Standing.
    pub role: Role,
    /// The realm whose credentials proved it.
    pub realm: Option<Cow<'a, [u8]>>,
    /// The trunk, for [`Role::Trunk`].
    pub trunk: Option<usize>,
    /// It speaks within a dialog on the strength of the token alone: under a name that its credentials
    /// are not of, or from beside the address that the token names, where anyone behind the same address
    /// translation may be. Such a request may reach the other end (a phone whose port has changed, or
    /// that took a call meant for another, still hangs up), but choose no way to it.
    pub borrowed: bool,
}

/// A new request that passed the checks, with what was found out on the way.
pub(crate) struct Admitted<'a> {
    pub uri: Uri<'a>,
    pub routing: Routing<'a>,
    pub dialog: Option<Dialog>,
    pub caller: Caller<'a>,
}

/// Which way a request is to go, by what it says itself: read before it is known whether it is new, while the processor
/// fetches what tells that.
pub(crate) struct Way<'a> {
    /// What the Route set means here, and the Request-URI that is meant.
    pub read: Result<(Routing<'a>, Result<Uri<'a>, UriError>), Malformed>,
    /// The dialog that a token of ours says it belongs to.
    pub dialog: Option<Dialog>,
}

/// An address-of-record in canonical form: part of the message where it stands there so, as it nearly always
/// does.
pub(crate) struct Aor<'a> {
    text: Cow<'a, [u8]>,
    /// Where the domain begins.
    domain: usize,
}

impl<'a> Aor<'a> {
    /// Of its parts, the domain in canonical form.
    pub fn new(user: impl Iterator<Item = u8>, domain: &[u8]) -> Aor<'a> {
        let user: Vec<u8> = user.collect();
        let mut text = Vec::with_capacity(user.len() + 1 + domain.len());
        push_canonical_user(&user, &mut text);
        text.push(b'@');
        let start = text.len();
        text.extend_from_slice(domain);
        Aor { text: text.into(), domain: start }
    }

    /// `user@domain`.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The domain.
    pub fn domain(&self) -> &[u8] {
        self.text.get(self.domain..).unwrap_or(b"")
    }

    /// The domain, for longer.
    fn kept_domain(&self) -> Cow<'a, [u8]> {
        match self.text {
            Cow::Borrowed(text) => text.get(self.domain..).unwrap_or(b"").into(),
            Cow::Owned(_) => self.domain().to_vec().into(),
        }
    }

    /// The user; empty if there is none.
    pub fn user(&self) -> &[u8] {
        self.text.get(..self.domain.saturating_sub(1)).unwrap_or(b"")
    }
}

impl<S: Services> Node<S> {
    /// A request that matches no transaction.
    pub(crate) fn new_request(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        way: Way<'_>,
        out: &mut Outbox,
    ) {
        // As in an overload, where requests within dialogs are not new work.
        if !self.overload.sheds() && request.to_tag().is_empty() {
            self.overload.note(request.method());
        }
        let Some((admitted, aor)) = self.admit(now, flow, request, way, out) else { return };
        let method = request.method();
        let own = self.is_own_request(method, &admitted.uri, &admitted.routing);
        if method == Method::Register && own {
            return self.registration(now, flow, request, &admitted, aor, out);
        }
        if !own && let Some(why) = self.bars(flow, request, &admitted) {
            self.services.count(Counter::Forbidden);
            self.tell(why, request.request_uri(), flow, request);
            let status = status_of(why);
            return self.decline(now, flow, request, &admitted, (status, b""), b"", out);
        }
        // Credentials that were judged are used up: without memory a retransmission would be challenged.
        let again = admitted.caller.realm.is_none();
        if self.settings.proxy.mode == Mode::Stateless && again && !own {
            return self.forward_plan(now, flow, request, &admitted, out);
        }
        self.dispatch(now, flow, request, &admitted, own, out);
    }

    /// The checks of section 16.3 in their order, then authentication. `None`: answered. The
    /// address-of-record is the one that the sender was identified by.
    fn admit<'a>(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'a>,
        Way { read, dialog }: Way<'a>,
        out: &mut Outbox,
    ) -> Option<(Admitted<'a>, Option<Aor<'a>>)> {
        let Ok((routing, uri)) = read else {
            return self.malformed(flow, request, b"Malformed Route", out);
        };
        let uri = match uri {
            Ok(uri) if self.knows_scheme(&uri) => uri,
            Ok(uri)
                if request.method() != Method::Register && self.is_for_help(&uri, routing.request_uri) =>
            {
                uri
            }
            read if dialog.is_some() && is_carried(&read) => carried(read, &routing),
            Ok(_) => {
                self.refuse(flow, request, 416, b"", b"", out);
                return None;
            }
            Err(_) => return self.malformed(flow, request, b"Malformed Request-URI", out),
        };
        // It limits forwarding; what is for us has arrived (16.3 step 3).
        if request.max_forwards() == Some(0) && !self.is_own_request(request.method(), &uri, &routing) {
            self.refuse(flow, request, 483, b"", b"", out);
            return None;
        }
        let known = |via: &sip_message::Via<'_>| self.settings.is_self(via.host, via.port);
        if request.via_count() > 1 && self.guard.is_loop(request, self.guard.hash(request), known) {
            self.services.count(Counter::Loops);
            self.refuse(flow, request, 482, b"", b"", out);
            return None;
        }
        if let Some(extra) = unsupported(request, Name::ProxyRequire) {
            self.refuse(flow, request, 420, b"", &extra, out);
            return None;
        }
        // A To tag is easily made up; an INVITE belongs to a dialog if our token says so.
        let begins = request.to_tag().is_empty() || request.method() == Method::Invite;
        if self.draining && dialog.is_none() && begins {
            self.services.count(Counter::Overload);
            self.count_unregistered(request, Unregistered::Overload);
            self.refuse(flow, request, 503, b"", &retry_after(30), out);
            return None;
        }
        // What is said to be within a dialog is new if no token of ours says so, unless we give none.
        let recorded = self.settings.proxy.record_route;
        if self.overload.sheds() && self.verdict.is_none() && dialog.is_none() && recorded {
            match self.judge(flow, request) {
                Verdict::Take => {}
                Verdict::Refuse => {
                    self.count_unregistered(request, Unregistered::Overload);
                    self.shed(flow, request, out);
                    return None;
                }
                Verdict::Drop => {
                    self.services.count(Counter::Unanswered);
                    return None;
                }
            }
        }
        let (way, within) = ((&uri, &routing), dialog.as_ref());
        let help = self.caller_for_help(now, flow, request, way, within);
        let (caller, aor) = match help.or_else(|| self.caller_within(flow, request, way, within)) {
            Some(caller) => (caller, None),
            None => self.identify(now, flow, request, &uri, within, out)?,
        };
        if caller.role == Role::Stranger && self.is_overheard(flow, within) {
            self.services.count(Counter::Forbidden);
            self.refuse(flow, request, 403, b"", b"", out);
            return None;
        }
        Some((unmask(self, now, flow, request, Admitted { uri, routing, dialog, caller }, out)?, aor))
    }

    /// Whether a request without credentials speaks for a user of ours in a dialog, from another address than that user's:
    /// its sender has overheard the token.
    fn is_overheard(&self, flow: Flow, dialog: Option<&Dialog>) -> bool {
        let elsewhere = |end: &End| end.remote.ip() != flow.remote.ip().to_canonical();
        let ours = dialog.map(|dialog| dialog.sender).filter(|end| end.role == Role::Local);
        self.settings.auth.enabled && ours.is_some_and(|end| elsewhere(&end))
    }

    /// Reads which way a request is to go.
    #[inline]
    pub(crate) fn way<'a>(&self, request: &Message<'a>) -> Way<'a> {
        let read = self.routing(request);
        let token = read.as_ref().ok().and_then(|(routing, _)| routing.token);
        let dialog = token.and_then(|token| {
            self.sealer.open(token, request.call_id(), request.from_tag(), request.to_tag())
        });
        Way { read, dialog }
    }

    /// Says whose bindings are going to be asked for if this request is a new call for one of our users, as nearly every one is
    /// that looks so.
    #[inline]
    pub(crate) fn expect_callee(&self, request: &Message<'_>) -> Option<Expected> {
        if request.method() != Method::Invite || !request.to_tag().is_empty() {
            return None;
        }
        // It is likely to be challenged first.
        if self.settings.auth.enabled && request.header(Name::ProxyAuthorization).is_none() {
            return None;
        }
        let mut domains = self.settings.domains.iter();
        let aor = domains.find_map(|domain| plain_aor(request.request_uri(), domain))?;
        self.services.expect(aor)
    }

    /// What the Route set and the Request-URI mean here (section 16.4), and the Request-URI that is meant.
    #[inline]
    fn routing<'a>(
        &self,
        request: &Message<'a>,
    ) -> Result<(Routing<'a>, Result<Uri<'a>, UriError>), Malformed> {
        let uri = Uri::parse(request.request_uri());
        let as_written = |value: &'a [u8]| self.settings.own_token(value);
        let routing = preprocess(request, uri.as_ref().ok(), as_written, |uri| self.is_own_route(uri))?;
        let uri = if routing.drop_last { Uri::parse(routing.request_uri) } else { uri };
        Ok((routing, uri))
    }

    fn malformed<T>(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        reason: &[u8],
        out: &mut Outbox,
    ) -> Option<T> {
        self.services.count(Counter::Malformed);
        self.count_unregistered(request, Unregistered::Malformed);
        self.refuse(flow, request, 400, reason, b"", out);
        None
    }

    /// Whether a request is for this server itself: the host is us, and there is no user. A REGISTER must
    /// not have one (section 10.2); if it has, the registrar is meant all the same.
    pub(crate) fn is_own_request(&self, method: Method<'_>, uri: &Uri<'_>, routing: &Routing<'_>) -> bool {
        let bare = uri.user.is_none_or(<[u8]>::is_empty) || method == Method::Register;
        routing.next.is_none() && bare && uri.is_sip() && self.is_local_host(uri)
    }

    /// Whether requests for such URIs can be sent on. Without TLS a sips request could only go on in the
    /// clear, which it must not (section 26.2.2, RFC 5630 section 5.3).
    fn knows_scheme(&self, uri: &Uri<'_>) -> bool {
        match uri.scheme {
            Scheme::Sip | Scheme::Tel => true,
            Scheme::Sips => {
                let mut all = self.settings.listeners.iter().map(|l| l.transport);
                all.any(|t| matches!(t, wire::Transport::Tls | wire::Transport::Wss))
            }
            Scheme::Other(_) => false,
        }
    }

    /// Whether a URI of a Route, or a strict router's Request-URI, names this server.
    pub(crate) fn is_own_route(&self, uri: &Uri<'_>) -> bool {
        self.settings.is_own_route(uri) || self.is_local_host(uri)
    }

    /// Whether the host of a URI is a domain of ours or this server.
    pub(crate) fn is_local_host(&self, uri: &Uri<'_>) -> bool {
        let s = &self.settings;
        if !uri.is_sip() {
            return false;
        }
        let host = undotted(uri.host);
        // Where the domain is an address, at a port that is none of ours somebody else is.
        let elsewhere = uri.port.is_some() && uri.host_ip().is_some() && !s.has_port(uri.port);
        (!elsewhere && self.is_own_domain(host))
            || s.is_self(host, uri.port)
            || (s.domains.is_empty() && uri.host_ip().is_none() && self.is_subscriber_domain(host))
    }

    /// Whether a request was sent by this server to itself (a spiral: one of our addresses stood in a
    /// Contact or Route). It comes from our own address then, and a trunk or mailbox on the same machine
    /// is not who sent it. The branch tells, for another server may go by our name.
    pub(crate) fn is_from_ourselves(&self, request: &Message<'_>) -> bool {
        let via = request.via();
        let ours = match read_branch(via.branch) {
            Some(branch) => self.guard.wrote(&branch),
            None => self.stateless_return(request).is_some(),
        };
        ours && self.settings.is_self(via.host, via.port)
    }

    /// Whether a request comes from where a phone is registered. What comes through a proxy comes from the proxy's address,
    /// whoever sent it: so with one Via only, and never from a proxy in front of this server.
    pub(crate) fn is_at_phone(&self, flow: Flow, request: &Message<'_>) -> bool {
        request.via_count() == 1
            && !self.settings.auth.is_front(flow.remote.ip())
            && self.services.has_contact(flow.remote)
            && !self.is_from_ourselves(request)
    }

    /// Whether a trunk speaks in a dialog in which it is not the end that it says it is. Whoever has the
    /// token can write his own tag where the other end's belongs, and be alice for whom the way is open.
    pub(crate) fn is_borrowed_by(&self, trunk: usize, dialog: Option<&Dialog>) -> bool {
        let settings = &self.settings;
        let may_transit = settings.trunks.get(trunk).is_some_and(|t| t.may_transit);
        dialog.is_some_and(|d| !may_transit && settings.trunk_of(d.sender.remote.ip()) != Some(trunk))
    }

    fn is_own_domain(&self, host: &[u8]) -> bool {
        // As configured, nearly always.
        let mut domains = self.settings.domains.iter();
        domains.any(|d| d.len() == host.len() && (d == host || d.eq_ignore_ascii_case(host)))
    }

    pub(crate) fn is_subscriber_domain(&self, host: &[u8]) -> bool {
        host.len() <= 255 && self.services.is_domain(&host.to_ascii_lowercase())
    }

    /// The address-of-record that a URI of one of our domains names, whose own text is `whole`. An address or
    /// alias of this server stands for the default domain, if there is one.
    pub(crate) fn local_aor<'u>(&self, uri: &Uri<'u>, whole: &'u [u8]) -> Option<Aor<'u>> {
        let host = undotted(uri.host);
        let is_domain = uri.is_sip() && self.is_own_domain(host);
        if !is_domain && !self.is_local_host(uri) {
            return None;
        }
        if is_domain
            && host.len() == uri.host.len()
            && let Some(aor) = uri.aor_in(whole)
        {
            return Some(Aor { text: aor.into(), domain: aor.len() - host.len() });
        }
        let mut text = Vec::with_capacity(48);
        let domains = &self.settings.domains;
        uri.write_aor(&mut text);
        let start = text.len() - uri.host.len();
        text.truncate(start + host.len());
        if !is_domain && let Some(default) = domains.first() {
            text.truncate(start);
            text.extend_from_slice(default);
        }
        Some(Aor { text: text.into(), domain: start })
    }

    /// The address-of-record of ours that a URI names, if it can be read.
    pub(crate) fn aor_of<'u>(&self, uri: &'u [u8]) -> Option<Aor<'u>> {
        // As nearly all are.
        let plain = |d: &Vec<u8>| Some((plain_aor(uri, d)?, d.len()));
        if let Some((aor, domain_len)) = self.settings.domains.iter().find_map(plain) {
            return Some(Aor { text: aor.into(), domain: aor.len() - domain_len });
        }
        self.local_aor(&Uri::parse(uri).ok()?, uri)
    }

    /// Finds out who sent the request; challenges local users. `None`: answered.
    fn identify<'a>(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'a>,
        uri: &Uri<'_>,
        dialog: Option<&Dialog>,
        out: &mut Outbox,
    ) -> Option<(Caller<'a>, Option<Aor<'a>>)> {
        let stranger = Caller { role: Role::Stranger, realm: None, trunk: None, borrowed: false };
        let is_register = request.method() == Method::Register;
        // Phones may share an address with a trunk; what they register has to be proven like any other.
        let trunk = self.settings.trunk_of(flow.remote.ip()).filter(|_| !is_register);
        if let Some(trunk) = trunk.filter(|_| !self.is_from_ourselves(request)) {
            let borrowed = self.is_borrowed_by(trunk, dialog);
            return Some((Caller { role: Role::Trunk, trunk: Some(trunk), borrowed, ..stranger }, None));
        }
        // A registration is about the user in To (section 10.2), any other request from the one in From.
        let about = if is_register { request.to_uri() } else { request.from_uri() };
        let aor = self.aor_of(about);
        // Whoever answered in place of a user of ours (a mailbox, say) bears the name that was called in the
        // dialog and cannot know that user's password. The token says who it is, and which name that was.
        let called = |d: &Dialog| aor.as_ref().is_none_or(|aor| self.sealer.mark(aor.text()) == d.called);
        let answerer = dialog.filter(|d| !d.by_caller && called(d)).map(|d| d.sender);
        let here = |s: &End| s.role != Role::Local && s.remote.ip() == flow.remote.ip().to_canonical();
        if let Some(sender) = answerer.filter(here).filter(|_| !self.is_from_ourselves(request)) {
            let borrowed = dialog.is_some_and(|d| is_beside(d, flow));
            return Some((Caller { role: sender.role, borrowed, ..stranger }, None));
        }
        let Some(aor) = aor else {
            // A phone of ours that took a call for another server's name bears that name, which has no password here.
            let phone = dialog.filter(|d| !d.by_caller && d.called == 0).map(|d| d.sender);
            let known = phone.is_some_and(|end| {
                end.role == Role::Local && end.remote.ip() == flow.remote.ip().to_canonical()
            });
            let caller =
                if known { Caller { role: Role::Local, borrowed: true, ..stranger } } else { stranger };
            return Some((caller, None));
        };
        let settings = self.settings.clone();
        let auth = &settings.auth;
        let local = Caller { role: Role::Local, ..stranger.clone() };
        if !auth.enabled {
            return Some((local, Some(aor)));
        }
        if !auth.challenge.covers(request.method().as_bytes()) {
            // Unproven. Nobody gets out of our domain by writing one of our names into From; a phone that
            // is registered at this address has proven enough.
            let known = is_register || self.is_at_phone(flow, request);
            return Some((if known { local } else { stranger }, Some(aor)));
        }
        // Whoever took a call bears the name that was called: it may have been meant for somebody else.
        let nobody = is_anonymous(aor.user()) && !self.services.is_user(aor.user(), aor.domain());
        let bound = is_register || (auth.bind_from && answerer.is_none() && !nobody);
        let realm = auth.realm.as_deref().unwrap_or(aor.domain());
        // A registrar is the user's server and answers 401, a proxy 407 (section 22).
        let status = match is_register && self.is_local_host(uri) {
            true => Status::Unauthorized,
            false => Status::ProxyAuthenticationRequired,
        };
        let own = self.authenticate(now, flow, request, &aor, (auth, realm), status, bound, out)?;
        let realm = match &auth.realm {
            Some(realm) => Cow::Owned(realm.clone()),
            None => aor.kept_domain(),
        };
        let borrowed = !own && auth.bind_from && (dialog.is_some() || !nobody);
        Some((Caller { realm: Some(realm), borrowed, ..local }, Some(aor)))
    }

    /// The domain that a user name without one is of. Where the domains are those of the subscribers, an
    /// address of this server may stand for any of them, and the realm tells which is meant.
    fn home<'a>(&self, aor: &'a Aor<'_>, realm: &'a [u8]) -> &'a [u8] {
        let by_address = self.settings.domains.is_empty() && aor.domain() != realm;
        if by_address && !self.is_subscriber_domain(aor.domain()) { realm } else { aor.domain() }
    }

    /// Checks the credentials for `realm` and, if `bound`, that they are those of the user in `aor`.
    /// Whether they are; `None`: answered.
    #[expect(clippy::too_many_arguments, reason = "two callers; a struct would only name them twice")]
    pub(crate) fn authenticate(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        aor: &Aor<'_>,
        (auth, realm): (&Auth, &[u8]),
        status: Status,
        bound: bool,
        out: &mut Outbox,
    ) -> Option<bool> {
        let authenticator = &auth.authenticator;
        // The digest `uri` of several clients (SIPp among them) is the address they send to.
        let settings = self.settings.clone();
        let names_server = |uri: &[u8]| {
            let is_self = |uri: Uri<'_>| uri.user.is_none() && settings.is_self(uri.host, uri.port);
            settings.is_own_text(uri) || Uri::parse(uri).is_ok_and(is_self)
        };
        let source = auth.source(flow.remote.ip(), request);
        let about = sip_auth::Request {
            method: request.method().as_bytes(),
            uri: request.request_uri(),
            realm,
            home: self.home(aor, realm),
            source,
            // Behind a front the port is the front's.
            peer: Some(flow.remote).filter(|peer| peer.ip().to_canonical() == source),
            now,
            names_server: &names_server,
        };
        let name = match status {
            Status::Unauthorized => Name::Authorization,
            Status::ProxyAuthenticationRequired => Name::ProxyAuthorization,
        };
        let mut values = request.headers(name).map(|h| h.value);
        let stale = match self.services.check(authenticator, &about, &mut values) {
            Decision::Accepted { user } => {
                let domain = user.domain().unwrap_or(aor.domain());
                let own = same_user(user.user(), aor.user()) && domain.eq_ignore_ascii_case(aor.domain());
                if own || !bound {
                    self.services.count(Counter::Authenticated);
                    return Some(own);
                }
                self.services.count(Counter::Forbidden);
                self.services.refused(Refusal::OtherUser, aor.text(), about.source);
                self.count_unregistered(request, Unregistered::Forbidden);
                let why = (403, &b"Credentials Of Another User"[..]);
                self.answer_once(now, flow, request, why, b"", out);
                return None;
            }
            Decision::Bad(reason) => {
                self.services.refused(Refusal::Unreadable(reason), aor.text(), about.source);
                return self.malformed(flow, request, reason.as_bytes(), out);
            }
            Decision::Throttled { retry_after } => {
                self.services.refused(Refusal::Throttled, aor.text(), about.source);
                self.services.count(Counter::Throttled);
                self.count_unregistered(request, Unregistered::HeldOff);
                return self.hold_off(flow, request, retry_after, out);
            }
            Decision::Wrong { retry_after } => {
                self.services.count(Counter::WrongCredentials);
                self.count_unregistered(request, Unregistered::WrongCredentials);
                self.services.refused(Refusal::WrongCredentials, aor.text(), about.source);
                if retry_after > 0 {
                    return self.hold_off(flow, request, retry_after, out);
                }
                false
            }
            Decision::Challenge { stale } => {
                if stale {
                    self.services.refused(Refusal::Stale, aor.text(), about.source);
                }
                stale
            }
        };
        self.services.count(Counter::Challenged);
        if self.overload.sheds() && request.method() != Method::Invite {
            self.challenges(flow, request.call_id());
        }
        let mut lines = core::mem::take(&mut self.scratch);
        lines.clear();
        let minted = authenticator.challenge(status, &about, stale, self.serial.next(), &mut lines);
        self.services.challenged(realm, minted);
        self.refuse(flow, request, status.code(), b"", &lines, out);
        self.scratch = lines;
        None
    }

    /// Counts a request that is refused, if it is a REGISTER.
    pub(crate) fn count_unregistered(&self, request: &Message<'_>, why: Unregistered) {
        if request.method() == Method::Register {
            self.services.count(Counter::RegisterRefused(why));
        }
    }

    /// Refuses a request whose sender answered wrongly too often. Phones show 403 and stop. 500 or 503 would
    /// mean a failure of this server: a proxy on the way would try another one, or after 503 send this one
    /// nothing at all for that time (section 21.5.4).
    fn hold_off<T>(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        seconds: u32,
        out: &mut Outbox,
    ) -> Option<T> {
        self.refuse(flow, request, 403, b"Too Many Wrong Credentials", &retry_after(seconds), out);
        None
    }
}

/// Whether a Request-URI that leads nowhere by itself is let through in a dialog of ours, which says where
/// it goes: the Contact that it comes from has passed here. But `sips:` must not travel in the clear.
fn is_carried(read: &Result<Uri<'_>, UriError>) -> bool {
    read.is_err() || read.is_ok_and(|uri| uri.scheme != Scheme::Sips)
}

/// The Request-URI of a request in a dialog of ours.
pub(crate) fn carried<'a>(read: Result<Uri<'a>, UriError>, routing: &Routing<'a>) -> Uri<'a> {
    read.unwrap_or_else(|_| Uri::opaque(routing.request_uri))
}

/// A host without the dot that may stand at its end (RFC 3261 section 25.1, `hostname`): the same name.
pub(crate) fn undotted(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

/// Whether a request of a dialog with a stranger comes from beside the end that it says it is of. The
/// stranger has seen the token, and may be behind the same address translation as that end. Users of ours
/// at the other end gain nothing by it, for they may send anywhere themselves; see `is_borrowed_by` for
/// trunks.
pub(crate) fn is_beside(dialog: &Dialog, flow: Flow) -> bool {
    let (end, seen) = (dialog.sender.remote, flow.remote);
    let same = end.port() == seen.port() && end.ip().to_canonical() == seen.ip().to_canonical();
    dialog.peer.role == Role::Stranger && !same
}

/// `Unsupported` with everything that a Require-like header lists and this server does not do, or
/// nothing if it does it all (sections 8.2.2.3, 16.3 step 5).
pub(crate) fn unsupported(request: &Message<'_>, name: Name) -> Option<Vec<u8>> {
    const KNOWN: [&[u8]; 2] = [b"path", b"outbound"];
    request.header(name)?;
    let mut line = Vec::new();
    let unknown = |v: &&[u8]| !(name == Name::Require && KNOWN.iter().any(|k| k.eq_ignore_ascii_case(v)));
    for value in request.values(name).filter(unknown) {
        line.extend_from_slice(if line.is_empty() { b"Unsupported: " } else { b", " });
        line.extend_from_slice(value);
    }
    if line.is_empty() {
        return None;
    }
    line.extend_from_slice(b"\r\n");
    Some(line)
}
