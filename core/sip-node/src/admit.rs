//! What happens to a new request before it is given any memory: RFC 3261 sections 16.3 and 22.
//!
//! Everything here answers statelessly, at most once per request, so that a flood of unproven requests
//! costs no memory and is not amplified.

use crate::admitted::{Admitted, Caller, Way, carried, is_beside};
use crate::anonymous::{is_anonymous, own_phone, unmask};
use crate::inbound::retry_after;
use crate::ingress::status_of;
use crate::node::Node;
use crate::overload::Verdict;
use crate::services::{Counter, Refusal, Services, Unregistered};
use crate::settings::{Auth, Mode};
use crate::site::Aor;
use sip_auth::{Decision, Status};
use sip_message::{Message, Method, Name, Scheme, Uri, UriError, same_user};
use sip_proxy::token::{Dialog, End, Role};
use sip_transaction::Prepared;
use std::borrow::Cow;
use wire::{Flow, Outbox, Time};

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
        let own = self.site.is_own_request(method, &admitted.uri, &admitted.routing);
        if method == Method::Register && own {
            return self.registration(now, flow, request, &admitted, aor, out);
        }
        if !own && let Some(why) = self.ingress().bars(flow, request, &admitted) {
            self.site.services().count(Counter::Forbidden);
            self.site.tell(why, request.request_uri(), flow, request);
            let status = status_of(why);
            return self.decline(now, flow, request, &admitted, (status, b""), b"", out);
        }
        // Credentials that were judged are used up: without memory a retransmission would be challenged.
        let again = admitted.caller.realm.is_none();
        if self.site.settings().proxy.mode == Mode::Stateless && again && !own {
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
            Ok(uri) if self.site.knows_scheme(&uri) => uri,
            Ok(uri)
                if request.method() != Method::Register
                    && self.site.is_for_help(&uri, routing.request_uri) =>
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
        if request.max_forwards() == Some(0) && !self.site.is_own_request(request.method(), &uri, &routing) {
            self.refuse(flow, request, 483, b"", b"", out);
            return None;
        }
        let known = |via: &sip_message::Via<'_>| self.site.settings().is_self(via.host, via.port);
        if request.via_count() > 1
            && self.site.guard().is_loop(request, self.site.guard().hash(request), known)
        {
            self.site.services().count(Counter::Loops);
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
            self.site.services().count(Counter::Overload);
            self.site.count_unregistered(request, Unregistered::Overload);
            self.refuse(flow, request, 503, b"", &retry_after(30), out);
            return None;
        }
        if self.is_too_much(flow, request, dialog.as_ref(), out) {
            return None;
        }
        let (way, within) = ((&uri, &routing), dialog.as_ref());
        let help = self.ingress().caller_for_help(now, flow, request, way, within);
        let (mut caller, aor) =
            match help.or_else(|| self.ingress().caller_within(flow, request, way, within)) {
                Some(caller) => (caller, None),
                None => self.identify(now, flow, request, &uri, within, out)?,
            };
        if caller.role == Role::Stranger && self.ingress().is_overheard(flow, within) {
            caller = own_phone(self, now, flow, request, within, out)?;
        }
        Some((unmask(self, now, flow, request, Admitted { uri, routing, dialog, caller }, out)?, aor))
    }

    /// Whether a request is not taken on in an overload. It is answered then, or gets no answer.
    fn is_too_much(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        dialog: Option<&Dialog>,
        out: &mut Outbox,
    ) -> bool {
        // What is said to be within a dialog is new if no token of ours says so, unless we give none.
        let recorded = self.site.settings().proxy.record_route;
        if !self.overload.sheds() || self.verdict.is_some() || dialog.is_some() || !recorded {
            return false;
        }
        match self.judge(flow, request) {
            Verdict::Take => return false,
            Verdict::Refuse => {
                self.site.count_unregistered(request, Unregistered::Overload);
                self.shed(flow, request, out);
            }
            Verdict::Drop => self.site.services().count(Counter::Unanswered),
        }
        true
    }

    fn malformed<T>(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        reason: &[u8],
        out: &mut Outbox,
    ) -> Option<T> {
        self.site.services().count(Counter::Malformed);
        self.site.count_unregistered(request, Unregistered::Malformed);
        self.refuse(flow, request, 400, reason, b"", out);
        None
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
        let trunk = self.site.settings().trunk_of(flow.remote.ip()).filter(|_| !is_register);
        if let Some(trunk) = trunk.filter(|_| !self.site.is_from_ourselves(request)) {
            let borrowed = self.site.is_borrowed_by(trunk, dialog);
            return Some((Caller { role: Role::Trunk, trunk: Some(trunk), borrowed, ..stranger }, None));
        }
        // A registration is about the user in To (section 10.2), any other request from the one in From.
        let about = if is_register { request.to_uri() } else { request.from_uri() };
        let aor = self.site.aor_of(about);
        // Whoever answered in place of a user of ours (a mailbox, say) bears the name that was called in the
        // dialog and cannot know that user's password. The token says who it is, and which name that was.
        let called =
            |d: &Dialog| aor.as_ref().is_none_or(|aor| self.site.sealer().mark(aor.text()) == d.called);
        let answerer = dialog.filter(|d| !d.by_caller && called(d)).map(|d| d.sender);
        let here = |s: &End| s.role != Role::Local && s.remote.ip() == flow.remote.ip().to_canonical();
        if let Some(sender) = answerer.filter(here).filter(|_| !self.site.is_from_ourselves(request)) {
            let borrowed = dialog.is_some_and(|d| is_beside(d, flow));
            return Some((Caller { role: sender.role, borrowed, ..stranger }, None));
        }
        let Some(aor) = aor else {
            // A phone of ours that took a call for another server's name bears that name, which has no
            // password here.
            let phone = dialog.filter(|d| !d.by_caller && d.called == 0).map(|d| d.sender);
            let known = phone.is_some_and(|end| {
                end.role == Role::Local && end.remote.ip() == flow.remote.ip().to_canonical()
            });
            let caller =
                if known { Caller { role: Role::Local, borrowed: true, ..stranger } } else { stranger };
            return Some((caller, None));
        };
        let settings = self.site.settings().clone();
        let auth = &settings.auth;
        let local = Caller { role: Role::Local, ..stranger.clone() };
        if !auth.enabled {
            return Some((local, Some(aor)));
        }
        if !auth.challenge.covers(request.method().as_bytes()) {
            // Unproven. Nobody gets out of our domain by writing one of our names into From; a phone that
            // is registered at this address has proven enough.
            let known = is_register || self.site.is_at_phone(flow, request);
            return Some((if known { local } else { stranger }, Some(aor)));
        }
        // Whoever took a call bears the name that was called: it may have been meant for somebody else.
        let nobody = is_anonymous(aor.user()) && !self.site.services().is_user(aor.user(), aor.domain());
        let bound = is_register || (auth.bind_from && answerer.is_none() && !nobody);
        let realm = auth.realm.as_deref().unwrap_or(aor.domain());
        // A registrar is the user's server and answers 401, a proxy 407 (section 22).
        let status = match is_register && self.site.is_local_host(uri) {
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
        let settings = self.site.settings().clone();
        let names_server = |uri: &[u8]| {
            let is_self = |uri: Uri<'_>| uri.user.is_none() && settings.is_self(uri.host, uri.port);
            settings.is_own_text(uri) || Uri::parse(uri).is_ok_and(is_self)
        };
        let source = auth.source(flow.remote.ip(), request);
        let about = sip_auth::Request {
            method: request.method().as_bytes(),
            uri: request.request_uri(),
            realm,
            home: self.site.home(aor, realm),
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
        let stale = match self.site.services().check(authenticator, &about, &mut values) {
            Decision::Accepted { user } => {
                let domain = user.domain().unwrap_or(aor.domain());
                let own = same_user(user.user(), aor.user()) && domain.eq_ignore_ascii_case(aor.domain());
                if own || !bound {
                    self.site.services().count(Counter::Authenticated);
                    return Some(own);
                }
                self.site.services().count(Counter::Forbidden);
                self.site.services().refused(Refusal::OtherUser, aor.text(), about.source);
                self.site.count_unregistered(request, Unregistered::Forbidden);
                let why = (403, &b"Credentials Of Another User"[..]);
                self.answer_once(now, flow, request, why, b"", out);
                return None;
            }
            Decision::Bad(reason) => {
                self.site.services().refused(Refusal::Unreadable(reason), aor.text(), about.source);
                return self.malformed(flow, request, reason.as_bytes(), out);
            }
            Decision::Throttled { retry_after } => {
                self.site.services().refused(Refusal::Throttled, aor.text(), about.source);
                self.site.services().count(Counter::Throttled);
                self.site.count_unregistered(request, Unregistered::HeldOff);
                return self.hold_off(flow, request, retry_after, out);
            }
            Decision::Wrong { retry_after } => {
                self.site.services().count(Counter::WrongCredentials);
                self.site.count_unregistered(request, Unregistered::WrongCredentials);
                self.site.services().refused(Refusal::WrongCredentials, aor.text(), about.source);
                if retry_after > 0 {
                    return self.hold_off(flow, request, retry_after, out);
                }
                false
            }
            Decision::Challenge { stale } => {
                if stale {
                    self.site.services().refused(Refusal::Stale, aor.text(), about.source);
                }
                stale
            }
        };
        self.site.services().count(Counter::Challenged);
        if self.overload.sheds() && request.method() != Method::Invite {
            self.challenges(flow, request.call_id());
        }
        let mut lines = core::mem::take(&mut self.scratch);
        lines.clear();
        let minted = authenticator.challenge(status, &about, stale, self.serial.next(), &mut lines);
        self.site.services().challenged(realm, minted);
        self.refuse(flow, request, status.code(), b"", &lines, out);
        self.scratch = lines;
        None
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
