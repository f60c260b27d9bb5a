//! REGISTER (RFC 3261 section 10): who may register, and what is answered. The rest is in `sip-registrar`.

mod promised;

use crate::admitted::Admitted;
use crate::bindings::Unserved;
use crate::extensions::unsupported;
use crate::replies::retry_after;
use crate::services::{Counter, Refusal, Services, StoreDown};
use crate::site::Aor;
use crate::step::Step;
use promised::Promised;
use sip_message::{Name, Uri};
use sip_proxy::token::Role;
use sip_transaction::Prepared;
use wire::Flow;

/// Seconds that the connection of a phone matters beyond its registration: time for a late refresh.
const KEPT_LONGER: u32 = 60;

/// Handles REGISTER.
#[derive(Default)]
pub(crate) struct Registrar {
    /// Answers that wait for the end of the round.
    promised: Promised,
}

impl Registrar {
    /// A REGISTER for one of our domains, authenticated if policy wants that.
    pub(crate) fn register<S: Services>(
        &mut self,
        step: &mut Step<'_, S>,
        flow: Flow,
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        aor: Option<Aor<'_>>,
    ) {
        if let Some(extra) = unsupported(request, Name::Require) {
            step.site.services().count(Counter::RegisterUnsupported);
            return step.decline(flow, request, admitted, (420, b""), &extra);
        }
        // The scheme of an address-of-record is sip or sips (sections 10.2, 10.3 step 5); of one that
        // was found out it is.
        if aor.is_none() && !Uri::parse(request.to_uri()).is_ok_and(|uri| uri.is_sip()) {
            step.site.services().count(Counter::RegisterMalformed);
            return step.decline(flow, request, admitted, (400, b"Unusable To"), b"");
        }
        let named = || step.site.aor_of(request.to_uri());
        let aor = aor.or_else(named);
        // Section 10.3 step 5: an address-of-record that is not of this domain is not found. Someone
        // who is not the user in To has no business here either (10.3 step 4).
        let Some(aor) = aor.filter(|aor| !aor.user().is_empty()) else {
            step.site.services().count(Counter::RegisterNotOurs);
            step.site.tell(Refusal::NotOurs, request.to_uri(), flow, request);
            return step.decline(flow, request, admitted, (404, b""), b"");
        };
        if admitted.caller.role != Role::Local {
            step.site.services().count(Counter::RegisterForbidden);
            step.site.tell(Refusal::Unproven, aor.text(), flow, request);
            return step.decline(flow, request, admitted, (403, b""), b"");
        }
        match step.bindings().carry_out(step.now, flow, request, aor.text()) {
            Ok(mut reply) if reply.status == 200 => {
                step.bindings().push_date(&mut reply.headers);
                let matters = flow.conn.is_some() && has_bindings(&reply.headers);
                let longest = step.site.settings().registrar.max_expires;
                let keeps = if matters { longest.saturating_add(KEPT_LONGER) } else { 0 };
                if request.header(Name::Contact).is_some() {
                    // A promise: what changed is written before it leaves, together with all else of the
                    // round.
                    return self.promised.add(step, flow, request, &reply, keeps);
                }
                step.site.services().count(Counter::Registered);
                step.answer_once(flow, request, (reply.status, reply.reason), &reply.headers);
                if let Some(conn) = flow.conn.filter(|_| keeps != 0) {
                    step.out.keeps(conn, keeps);
                }
            }
            Ok(reply) => {
                step.site.services().count(Counter::RegisterContacts);
                // A retransmission must be no second registration with an old CSeq.
                step.answer_once(flow, request, (reply.status, reply.reason), &reply.headers);
            }
            Err(Unserved::Claimed) => {
                step.site.services().count(Counter::RegisterForbidden);
                step.site.services().count(Counter::Forbidden);
                step.site.tell(Refusal::Claimed, aor.text(), flow, request);
                let why = (403, &b"Contact At A Trunk Or Service"[..]);
                step.decline(flow, request, admitted, why, b"");
            }
            Err(Unserved::Store(StoreDown { retry_after: seconds })) => {
                step.site.services().count(Counter::RegisterStore);
                let why = retry_after(seconds);
                step.decline(flow, request, admitted, (503, b""), &why);
            }
        }
    }

    /// The round ends: what changed in it is written, then answered.
    pub(crate) fn round_ends<S: Services>(&mut self, step: &mut Step<'_, S>) {
        if !self.promised.is_empty() {
            self.promised.answer(step);
        }
    }
}

/// Whether these lines of an answer name a binding.
fn has_bindings(lines: &[u8]) -> bool {
    lines.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Contact:"))
}
