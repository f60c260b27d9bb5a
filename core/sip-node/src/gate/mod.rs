//! What happens to a new request before it is given any memory: RFC 3261 sections 16.3 and 22.
//!
//! Everything here answers statelessly, at most once per request, so that a flood of unproven requests
//! costs no memory and is not amplified.
//!
//! | file | what |
//! |---|---|
//! | `identify.rs` | who sent a request |
//! | `credentials.rs` | challenges, and what comes of credentials |
//! | `anonymous.rs` | callers that suppress their name, and phones that have moved |
//! | `unproven.rs` | requests that cannot be challenged |

mod anonymous;
mod credentials;
mod identify;
mod unproven;

pub(crate) use unproven::admit_unproven;

use crate::admitted::{Addressing, Admitted, carried};
use crate::extensions::unsupported;
use crate::overload::Verdict;
use crate::replies::retry_after;
use crate::services::{Counter, Refusal, Services};
use crate::site::Aor;
use crate::step::Step;
use sip_auth::NonceSerial;
use sip_message::{Malformed, Method, Name, Scheme, Uri, UriError, Via};
use sip_proxy::routes::Routing;
use sip_proxy::token::Dialog;
use sip_transaction::Prepared;
use wire::Flow;

/// Checks and authenticates new requests.
pub(crate) struct Gate {
    /// Makes each nonce of this worker another one.
    serial: NonceSerial,
    draining: bool,
}

impl Gate {
    /// The gate of this worker.
    pub const fn new(worker: u16) -> Gate {
        Gate { serial: NonceSerial::new(worker), draining: false }
    }

    /// Admits nothing that begins something from now on.
    pub const fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether nothing that begins something is admitted.
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// The checks of section 16.3 in their order, then authentication. `None`: answered. The
    /// address-of-record is the one that the sender was identified by.
    pub(crate) fn admit<'a, S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'a>,
        Addressing { read, dialog }: Addressing<'a>,
    ) -> Option<(Admitted<'a>, Option<Aor<'a>>)> {
        let (routing, uri) = readable(step, flow, request, read, dialog.as_ref())?;
        passes_checks(step, flow, request, &uri, &routing)?;
        if uri.scheme == Scheme::Sips
            && !step.site.is_emergency_call(&uri, routing.request_uri)
            && is_in_the_clear(step, flow, request, dialog.as_ref())
        {
            return None;
        }
        // A To tag is easily made up; an INVITE belongs to a dialog if our token says so.
        let begins = request.to_tag().is_empty() || request.method() == Method::Invite;
        if self.draining && dialog.is_none() && begins {
            step.site.services().count(Counter::Overload);
            step.site.count_unregistered(request, Counter::RegisterOverload);
            step.refuse(flow, request, 503, b"", &retry_after(30));
            return None;
        }
        if is_too_much(step, flow, request, dialog.as_ref()) {
            return None;
        }
        let (meant, within) = ((&uri, &routing), dialog.as_ref());
        let help = step.ingress().emergency_caller(step.now, flow, request, meant, within);
        let (mut caller, aor) =
            match help.or_else(|| step.ingress().caller_within(step.now, flow, request, meant, within)) {
                Some(caller) => (caller, None),
                None => self.identify(step, flow, request, &uri, within)?,
            };
        if step.ingress().must_prove(flow, request, within, &caller) {
            caller = self.own_phone(step, flow, request, within)?;
        }
        let admitted = self.unmask(step, flow, request, Admitted { uri, routing, dialog, caller })?;
        Some((admitted, aor))
    }
}

/// What the Route set means, and the Request-URI, if it is one that can be handled. `None`: answered.
fn readable<'a, S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    read: Result<(Routing<'a>, Result<Uri<'a>, UriError>), Malformed>,
    dialog: Option<&Dialog>,
) -> Option<(Routing<'a>, Uri<'a>)> {
    let Ok((routing, uri)) = read else {
        return malformed(step, flow, request, b"Malformed Route");
    };
    let uri = match uri {
        Ok(uri) if step.site.knows_scheme(&uri) => uri,
        Ok(uri)
            if request.method() != Method::Register
                && step.site.is_emergency_call(&uri, routing.request_uri) =>
        {
            uri
        }
        read if dialog.is_some() && is_carried(&read) => carried(read, &routing),
        Ok(_) => {
            step.refuse(flow, request, 416, b"", b"");
            return None;
        }
        Err(_) => return malformed(step, flow, request, b"Malformed Request-URI"),
    };
    Some((routing, uri))
}

/// The checks that need no sender. `None`: answered.
fn passes_checks<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    uri: &Uri<'_>,
    routing: &Routing<'_>,
) -> Option<()> {
    // It limits forwarding; what is for us has arrived (16.3 step 3).
    if request.max_forwards() == Some(0) && !step.site.is_own_request(request.method(), uri, routing) {
        step.refuse(flow, request, 483, b"", b"");
        return None;
    }
    let known = |via: &Via<'_>| step.site.settings().is_self(via.host, via.port);
    if request.via_count() > 1 && step.site.guard().is_loop(request, step.site.guard().hash(request), known) {
        step.site.services().count(Counter::Loops);
        step.refuse(flow, request, 482, b"", b"");
        return None;
    }
    if let Some(extra) = unsupported(request, Name::ProxyRequire) {
        step.refuse(flow, request, 420, b"", &extra);
        return None;
    }
    Some(())
}

/// Whether a request for a `sips:` URI has come in the clear; it is answered then. Sent on, it would look as
/// if it had been safe on every hop. A trusted proxy may have received it over TLS. Within a dialog of ours
/// the scheme comes from the other end's Contact, and the dialog has to end.
fn is_in_the_clear<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    dialog: Option<&Dialog>,
) -> bool {
    let trusted = dialog.is_some() || step.site.settings().auth.is_front(flow.remote.ip());
    if flow.transport.is_secure() || trusted {
        return false;
    }
    step.site.count_unregistered(request, Counter::RegisterMalformed);
    step.site.tell(Refusal::InTheClear, request.request_uri(), flow, request);
    step.refuse(flow, request, 400, b"SIPS Over Insecure Transport", b"");
    true
}

/// Whether a request is not taken on in an overload. It is answered then, or gets no answer.
fn is_too_much<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    dialog: Option<&Dialog>,
) -> bool {
    // What is said to be within a dialog is new if no token of ours says so, unless we give none.
    let recorded = step.site.settings().proxy.record_route;
    if !step.overload.sheds() || step.verdict.is_some() || dialog.is_some() || !recorded {
        return false;
    }
    match step.judge(flow, request) {
        Verdict::Take => return false,
        Verdict::Refuse => {
            step.site.count_unregistered(request, Counter::RegisterOverload);
            step.shed(flow, request);
        }
        Verdict::Drop => step.site.services().count(Counter::Unanswered),
    }
    true
}

/// Answers 400.
pub(super) fn malformed<S: Services, T>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    reason: &[u8],
) -> Option<T> {
    step.site.services().count(Counter::Malformed);
    step.site.count_unregistered(request, Counter::RegisterMalformed);
    step.refuse(flow, request, 400, reason, b"");
    None
}

/// Whether a Request-URI that leads nowhere by itself is let through in a dialog of ours, which says where
/// it goes: the Contact that it comes from has passed here. But `sips:` must not travel in the clear.
fn is_carried(read: &Result<Uri<'_>, UriError>) -> bool {
    read.is_err() || read.is_ok_and(|uri| uri.scheme != Scheme::Sips)
}
