//! What is said of calls for their records (crate `call-records`).
//!
//! A record has an attempt to call that was admitted: of a user who has proven its name, of a trunk, or of a
//! stranger who may call. What is challenged, barred or refused for lack of room has none; counters and the
//! list of refusals tell of those.

use crate::admitted::Admitted;
use crate::calls::DialogKey;
use crate::services::Services;
use crate::step::Step;
use call_records::{ALL_DIALOGS, Answered, Began, CallName, Party, What};
use sip_message::{Message, Method, Name, NameAddr, Uri, canonical_user};
use sip_proxy::token::{Dialog, Role};
use wire::Flow;

/// What a request has to do with the record of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recorded {
    /// It begins one.
    Call(CallName),
    /// It is a BYE of this sender in this dialog of the call. Whether it had our token.
    End(CallName, Party, u64, bool),
}

impl Recorded {
    /// The call that the request begins.
    pub const fn call(self) -> Option<CallName> {
        match self {
            Recorded::Call(name) => Some(name),
            Recorded::End(..) => None,
        }
    }
}

impl<S: Services> Step<'_, S> {
    /// What a request has to do with a record, if records are kept.
    pub(crate) fn recorded(&self, request: &Message<'_>, dialog: Option<&Dialog>) -> Option<Recorded> {
        if !self.site.settings().records {
            return None;
        }
        let namer = self.site.namer();
        let (from, to) = (request.from_tag(), request.to_tag());
        let end = |caller, callee, by| {
            let call_id = request.call_id();
            Recorded::End(namer.name(call_id, caller), by, namer.dialog(call_id, callee), dialog.is_some())
        };
        match (request.method(), dialog) {
            (Method::Invite, None) => Some(Recorded::Call(namer.name(request.call_id(), from))),
            (Method::Bye, Some(dialog)) if !dialog.by_caller => Some(end(to, from, Party::Callee)),
            // Without a token nothing tells who sends it; most calls are ended by who began them.
            (Method::Bye, _) => Some(end(from, to, Party::Caller)),
            _ => None,
        }
    }

    /// An INVITE outside dialogs was accepted.
    pub(crate) fn record_began(&self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>) {
        let Some(Recorded::Call(name)) = self.recorded(request, a.dialog.as_ref()) else { return };
        let settings = self.site.settings();
        let trunk = a.caller.trunk.and_then(|at| settings.trunks.get(at));
        let mut user = Vec::new();
        if a.caller.role == Role::Local {
            push_user(request.from_uri(), &mut user);
        }
        let asserted =
            request.values(Name::PAssertedIdentity).next().filter(|_| a.caller.role == Role::Trunk);
        let began = Began {
            call_id: request.call_id(),
            from: request.from_uri(),
            caller_tag: request.from_tag(),
            to: request.to_uri(),
            request_uri: request.request_uri(),
            asserted: asserted.and_then(|value| NameAddr::parse(value).ok()).map_or(b"", |value| value.uri),
            user: &user,
            trunk: trunk.map_or(b"", |trunk| &trunk.name),
            source: flow.remote,
            transport: flow.transport.via_name().as_bytes(),
        };
        self.record(name, What::Began(began));
    }

    /// An INVITE that was admitted is refused at once.
    pub(crate) fn record_refused(&self, flow: Flow, request: &Message<'_>, a: &Admitted<'_>, status: u16) {
        self.record_began(flow, request, a);
        self.record_failed(self.recorded(request, a.dialog.as_ref()), status);
    }

    /// A request got this final response of another one than 2xx, of this server.
    pub(crate) fn record_failed(&self, recorded: Option<Recorded>, status: u16) {
        let by = if status == 408 { Party::Timeout } else { Party::Server };
        self.record_concluded(recorded, status, by);
    }

    /// A request got this final response, which is `by`'s.
    pub(crate) fn record_concluded(&self, recorded: Option<Recorded>, status: u16, by: Party) {
        match recorded {
            Some(Recorded::Call(name)) if status >= 300 => {
                // A CANCEL, as nothing else is answered so (RFC 3261 section 21.4.23).
                let by = if status == 487 { Party::Caller } else { by };
                self.record(name, What::Failed(status, by));
            }
            Some(Recorded::End(name, by, dialog, proven)) if ends(status, proven) => {
                self.record(name, What::Ended(by, dialog));
            }
            Some(Recorded::End(..)) => {}
            Some(Recorded::Call(_)) | None => {}
        }
    }

    /// The call goes on without this server.
    pub(crate) fn record_left(&self, recorded: Option<Recorded>) {
        if let Some(Recorded::Call(name)) = recorded {
            self.record(name, What::Ended(Party::Timeout, ALL_DIALOGS));
        }
    }

    /// A response other than a failure went back to the sender of an INVITE with this key. Where it was sent:
    /// the Request-URI, and the name of the trunk.
    pub(crate) fn record_response(&self, response: &Message<'_>, key: &DialogKey, sent: (&[u8], &[u8])) {
        let status = response.status();
        if !self.site.settings().records || !matches!(status, 180..=189 | 200..=299) || key.is_within() {
            return;
        }
        if response.method() != Method::Invite || !self.calls.is_of(response, key) {
            return;
        }
        let name = self.site.namer().name(response.call_id(), response.from_tag());
        if status < 200 {
            return self.record(name, What::Rang);
        }
        let mut codec = Vec::new();
        push_codec(response, &mut codec);
        let answered = Answered {
            status,
            dialog: self.site.namer().dialog(response.call_id(), response.to_tag()),
            callee_tag: response.to_tag(),
            target: sent.0,
            trunk: sent.1,
            codec: &codec,
        };
        self.record(name, What::Answered(answered));
    }

    /// Says something of a call.
    pub(crate) fn record(&self, name: CallName, what: What<'_>) {
        self.site.services().record(self.now, name, what);
    }
}

/// Whether a BYE that was answered so has ended its dialog (RFC 3261 section 15.1.1): the other end has taken
/// it, or does not know the dialog, or is silent. What is refused, such as one with an old sequence number,
/// ends nothing. Without our token the request may have gone anywhere.
const fn ends(status: u16, proven: bool) -> bool {
    matches!(status, 200..=299) || proven && matches!(status, 408 | 481)
}

/// The address-of-record of a URI, without scheme and port.
fn push_user(uri: &[u8], out: &mut Vec<u8>) {
    let Ok(uri) = Uri::parse(uri) else { return };
    out.extend_from_slice(&canonical_user(uri.user.unwrap_or(b"")));
    out.push(b'@');
    out.extend(uri.host.iter().map(u8::to_ascii_lowercase));
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
