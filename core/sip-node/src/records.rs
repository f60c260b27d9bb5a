//! What is said of calls for their records (crate `call-records`).
//!
//! A record has an attempt to call that was admitted: of a user who has proven its name, of a trunk, or of a
//! stranger who may call. A refused INVITE of a stranger has one as long as there is room. What is challenged
//! or refused for lack of room has none; counters and the list of refusals tell of those.

use crate::admitted::Admitted;
use crate::calls::DialogKey;
use crate::remote_targets::Reached;
use crate::services::Services;
use crate::step::Step;
use call_forwarding::Hop;
use call_records::{Answered, Began, CallName, Ended, Failed, Invite, Party, Tried, What};
use core::net::SocketAddr;
use sip_message::{Message, Method, Name, NameAddr, Via};
use sip_proxy::context::BranchId;
use sip_proxy::token::{Dialog, Role};
use wire::{Flow, Time};

/// What a request has to do with the record of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recorded {
    /// It begins one.
    Call(CallName),
    /// It is within this dialog, and ends nothing.
    Within(u64),
    /// It is a BYE.
    End(Ending),
}

/// A BYE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ending {
    by: Party,
    /// The dialog. Not known of a caller's BYE without our token before it is answered: the dialog is one
    /// with the callee that it is sent to.
    dialog: Option<u64>,
    /// It was sent to the other end, as our token names it.
    there: bool,
    came: Time,
}

impl Recorded {
    /// The call that the request begins.
    pub const fn call(self) -> Option<CallName> {
        match self {
            Recorded::Call(name) => Some(name),
            Recorded::Within(_) | Recorded::End(_) => None,
        }
    }

    /// The request was sent to the other end of its dialog.
    pub const fn sent_to_end(self) -> Recorded {
        match self {
            Recorded::End(ending) => Recorded::End(Ending { there: true, ..ending }),
            Recorded::Call(_) | Recorded::Within(_) => self,
        }
    }
}

/// A branch of an INVITE.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub branch: BranchId,
    /// Where it went.
    pub to: SocketAddr,
    /// Where the INVITE came from.
    pub source: SocketAddr,
    /// Its Request-URI; empty if that is forgotten.
    pub uri: &'a [u8],
    /// The name of its trunk; else empty.
    pub trunk: &'a [u8],
}

impl Sent<'_> {
    const fn number(&self) -> u16 {
        u16::from_be_bytes([self.branch.target(), self.branch.attempt()])
    }
}

impl<S: Services> Step<'_, S> {
    /// What a request from `flow` has to do with a record, if records are kept.
    pub(crate) fn recorded(
        &self,
        flow: Flow,
        request: &Message<'_>,
        dialog: Option<&Dialog>,
    ) -> Option<Recorded> {
        if !self.site.settings().records {
            return None;
        }
        match (request.method(), dialog) {
            (Method::Invite, None) => Some(Recorded::Call(self.call_of(request, &request.via()))),
            (Method::Invite | Method::Update, Some(dialog)) => {
                Some(Recorded::Within(self.dialog_of(request, dialog.by_caller, dialog.callee().remote)))
            }
            (Method::Bye, _) => Some(Recorded::End(self.ending(flow, request, dialog))),
            _ => None,
        }
    }

    fn ending(&self, flow: Flow, request: &Message<'_>, dialog: Option<&Dialog>) -> Ending {
        let (by_caller, callee) = match dialog {
            Some(dialog) => (dialog.by_caller, Some(dialog.callee().remote)),
            // Without a token only the table of calls may tell who sends it.
            None if self.calls.is_by_callee(request) => (false, Some(flow.remote)),
            None => (true, None),
        };
        let by = if by_caller { Party::Caller } else { Party::Callee };
        let dialog_of = callee.map(|callee| self.dialog_of(request, by_caller, callee));
        Ending { by, dialog: dialog_of, there: false, came: self.now }
    }

    /// The number of the dialog of a request or response whose From is the caller's, or the callee's.
    pub(crate) fn dialog_of(&self, message: &Message<'_>, from_caller: bool, callee: SocketAddr) -> u64 {
        let (from, to) = (message.from_tag(), message.to_tag());
        let tags = if from_caller { [from, to] } else { [to, from] };
        self.site.namer().dialog(message.call_id(), tags, callee)
    }

    /// The dialog that a 2xx to an INVITE without our token sets up with its callee. Or the one that the
    /// INVITE is within: of a callee that ignores our Record-Route, to the caller. What is dialled over a
    /// trunk is a call of its own.
    pub(crate) fn dialog_set_up(&self, response: &Message<'_>, key: &DialogKey, sent: &Sent<'_>) -> u64 {
        // Whose target is forgotten may have gone over a trunk.
        let dialled = sent.uri.is_empty() || !sent.trunk.is_empty();
        match !dialled && self.calls.is_back_to_caller(key, sent.to, sent.uri) {
            true => self.dialog_of(response, false, sent.source),
            false => self.dialog_of(response, true, sent.to),
        }
    }

    /// Where a request without our token went: to this address, with this Request-URI. Only for a callee's
    /// BYE is it known whether that is the other end.
    pub(crate) fn reached_without_token(
        &self,
        recorded: Option<Recorded>,
        key: &DialogKey,
        (to, uri): (SocketAddr, &[u8]),
    ) -> Reached {
        match recorded {
            Some(Recorded::End(Ending { by: Party::Callee, .. }))
                if !self.calls.is_back_to_caller(key, to, uri) =>
            {
                Reached::Astray
            }
            _ => Reached::Near,
        }
    }

    /// The name of the call of an INVITE that was sent with this Via, or of a response to it.
    fn call_of(&self, message: &Message<'_>, via: &Via<'_>) -> CallName {
        self.site.namer().call(&Invite {
            call_id: message.call_id(),
            caller_tag: message.from_tag(),
            branch: via.branch,
            host: via.host,
            port: via.port,
            sequence: message.cseq(),
        })
    }

    /// The same from a response to an INVITE of which only its transaction is kept.
    pub(crate) fn recorded_of_further(&self, response: &Message<'_>) -> Option<Recorded> {
        if !self.site.settings().records {
            return None;
        }
        let via = response.values(Name::Via).nth(1).and_then(|value| Via::parse(value).ok())?;
        Some(Recorded::Call(self.call_of(response, &via)))
    }

    /// An INVITE outside dialogs was accepted.
    pub(crate) fn record_began(&self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>, name: CallName) {
        let mut user = Vec::new();
        let began = self.began(flow, request, a, &mut user);
        self.record(name, What::Began(began));
    }

    fn began<'m>(
        &'m self,
        flow: Flow,
        request: &Message<'m>,
        a: &Admitted<'_>,
        user: &'m mut Vec<u8>,
    ) -> Began<'m> {
        let trunk = a.caller.trunk.and_then(|at| self.site.settings().trunks.get(at));
        if a.caller.role == Role::Local {
            // Who has to prove nothing is believed. Nobody is the user that From calls anonymous.
            let from = || self.site.aor_of(request.from_uri()).filter(|aor| aor.user() != b"anonymous");
            if let Some(account) = a.caller.account.clone().or_else(from) {
                user.extend_from_slice(account.text());
            }
        }
        let asserted =
            request.values(Name::PAssertedIdentity).next().filter(|_| a.caller.role == Role::Trunk);
        Began {
            call_id: request.call_id(),
            from: request.from_uri(),
            caller_tag: request.from_tag(),
            to: request.to_uri(),
            request_uri: request.request_uri(),
            asserted: asserted.and_then(|value| NameAddr::parse(value).ok()).map_or(b"", |value| value.uri),
            user,
            trunk: trunk.map_or(b"", |trunk| &trunk.name),
            source: flow.remote,
            transport: flow.transport.via_name().as_bytes(),
            within: !request.to_tag().is_empty(),
        }
    }

    /// An INVITE that was admitted is refused at once.
    pub(crate) fn record_refused(
        &self,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        (name, status): (CallName, u16),
    ) {
        self.record_began(flow, request, a, name);
        self.record_failed(Some(Recorded::Call(name)), status, false);
    }

    /// A stranger's INVITE is refused at once, and nothing is kept of it.
    pub(crate) fn record_stranger(
        &self,
        flow: Flow,
        request: &Message<'_>,
        a: &Admitted<'_>,
        (name, status): (CallName, u16),
    ) {
        // Within a dialog there is no new call.
        if request.to_tag().is_empty() {
            let mut user = Vec::new();
            let began = self.began(flow, request, a, &mut user);
            self.record(name, What::Refused(began, status));
        }
    }

    /// A request got this final response other than 2xx, of this server. `late`: a callee may answer yet.
    pub(crate) fn record_failed(&self, recorded: Option<Recorded>, status: u16, late: bool) {
        let by = match status {
            408 => Party::Timeout,
            // A CANCEL: for nothing else does this server answer so (RFC 3261 section 21.4.25).
            487 => Party::Caller,
            _ => Party::Server,
        };
        self.record_concluded(recorded, status, (by, late));
    }

    /// A request got this final response, which is `by`'s. `late`: a callee may answer yet.
    pub(crate) fn record_concluded(
        &self,
        recorded: Option<Recorded>,
        status: u16,
        (by, late): (Party, bool),
    ) {
        match recorded {
            Some(Recorded::Call(name)) if status >= 300 => {
                self.record(name, What::Failed(Failed { status, by, late }));
            }
            Some(Recorded::Within(dialog)) if matches!(status, 200..=299) => {
                self.record(CallName::NONE, What::Lives(dialog));
            }
            Some(Recorded::End(ending)) if ends(status, ending.there) => self.record_ended(&ending),
            Some(Recorded::Call(_) | Recorded::Within(_) | Recorded::End(_)) | None => {}
        }
    }

    /// A request was answered by this server, and no target of it has said anything. A call is over for the
    /// one who hung up if the other end cannot be reached. A BYE that was not sent there ends nothing.
    pub(crate) fn record_unreached(&self, recorded: Option<Recorded>, status: u16, late: bool) {
        match recorded {
            Some(Recorded::End(ending)) if ending.there && matches!(status, 408 | 480 | 500 | 503) => {
                self.record_ended(&ending);
            }
            _ => self.record_failed(recorded, status, late),
        }
    }

    fn record_ended(&self, ending: &Ending) {
        let Some(dialog) = ending.dialog else { return };
        let ago = u64::try_from(self.now.since(ending.came).as_micros()).unwrap_or(u64::MAX);
        self.record(CallName::NONE, What::Ended(Ended { by: ending.by, dialog, ago }));
    }

    /// The call goes on without this server.
    pub(crate) fn record_left(&self, recorded: Option<Recorded>) {
        if let Some(Recorded::Call(name)) = recorded {
            self.record(name, What::Left);
        }
    }

    /// The INVITE of a call is sent to a target.
    pub(crate) fn record_tried(&self, recorded: Option<Recorded>, sent: &Sent<'_>) {
        if let Some(Recorded::Call(name)) = recorded {
            let tried = Tried { target: sent.uri, trunk: sent.trunk, branch: sent.number() };
            self.record(name, What::Tried(tried));
        }
    }

    /// Users have forwarded the call.
    pub(crate) fn record_forwardings(&self, recorded: Option<Recorded>, hops: &[Hop]) {
        if let Some(Recorded::Call(name)) = recorded {
            hops.iter().for_each(|hop| self.record(name, What::Forwarded(hop.cause)));
        }
    }

    /// A response other than a failure went back to the sender of a request with this key.
    pub(crate) fn record_response(
        &self,
        response: &Message<'_>,
        key: &DialogKey,
        recorded: Option<Recorded>,
        sent: &Sent<'_>,
    ) {
        let status = response.status();
        let Some(Recorded::Call(name)) = recorded else { return };
        if !matches!(status, 180..=189 | 200..=299) || !self.calls.is_of(response, key) {
            return;
        }
        if status < 200 {
            return self.record(name, What::Rang);
        }
        let mut codec = Vec::new();
        push_codec(response, &mut codec);
        let answered = Answered {
            status,
            dialog: self.dialog_set_up(response, key, sent),
            branch: sent.number(),
            callee_tag: response.to_tag(),
            target: sent.uri,
            trunk: sent.trunk,
            codec: &codec,
        };
        self.record(name, What::Answered(answered));
    }

    /// What a BYE without our token, which this response answers, has ended: a dialog with the callee that it
    /// was sent to.
    pub(crate) fn recorded_at(
        &self,
        recorded: Option<Recorded>,
        response: &Message<'_>,
        callee: SocketAddr,
    ) -> Option<Recorded> {
        match recorded {
            Some(Recorded::End(ending)) if ending.dialog.is_none() => {
                let dialog = Some(self.dialog_of(response, true, callee));
                Some(Recorded::End(Ending { dialog, ..ending }))
            }
            _ => recorded,
        }
    }

    /// Says something of a call.
    pub(crate) fn record(&self, name: CallName, what: What<'_>) {
        self.site.services().record(self.now, name, what);
    }
}

/// Whether a BYE that was answered so has ended its dialog (RFC 3261 section 15.1.1): the other end has taken
/// it, or does not know the dialog, or is silent. What is refused, such as one with an old sequence number,
/// ends nothing. `there`: it went to the other end. Elsewhere silence and ignorance say nothing.
const fn ends(status: u16, there: bool) -> bool {
    matches!(status, 200..=299) || there && matches!(status, 408 | 481)
}

/// The first `m=` line of a session description, and the `a=rtpmap` line of its first format if it has one
/// (RFC 8866 sections 5.14 and 6.6).
fn push_codec(response: &Message<'_>, out: &mut Vec<u8>) {
    let lines = || response.body().split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
    let Some(media) = lines().find(|line| line.starts_with(b"m=")) else { return };
    let printable =
        |text: &[u8]| text.iter().copied().filter(|byte| (b' '..=b'~').contains(byte)).collect::<Vec<u8>>();
    out.extend(printable(media));
    let Some(format) = media.split(|byte| *byte == b' ').nth(3) else { return };
    let map = |line: &&[u8]| {
        let rest = line.strip_prefix(b"a=rtpmap:").and_then(|rest| rest.strip_prefix(format));
        rest.is_some_and(|rest| rest.starts_with(b" "))
    };
    if let Some(line) = lines().skip_while(|line| *line != media).find(map) {
        out.push(b' ');
        out.extend(printable(line));
    }
}
