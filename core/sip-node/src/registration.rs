//! REGISTER (RFC 3261 section 10) as the node sees it: the rest is `sip-registrar`'s.

use crate::admit::unsupported;
use crate::admitted::Admitted;
use crate::bindings::Unserved;
use crate::inbound::retry_after;
use crate::node::Node;
use crate::services::{Counter, Refusal, Services, StoreDown, Unregistered};
use crate::site::Aor;
use sip_message::{Name, Uri};
use sip_proxy::token::Role;
use sip_transaction::Prepared;
use wire::{Flow, Outbox, Time};

/// Seconds that the connection of a phone matters beyond its registration: time for a late refresh.
const KEPT_LONGER: u32 = 60;

impl<S: Services> Node<S> {
    /// A REGISTER for one of our domains, authenticated if policy wants that.
    pub(crate) fn registration(
        &mut self,
        now: Time,
        flow: Flow,
        request: &Prepared<'_>,
        admitted: &Admitted<'_>,
        aor: Option<Aor<'_>>,
        out: &mut Outbox,
    ) {
        if let Some(extra) = unsupported(request, Name::Require) {
            self.site.services().count(Counter::RegisterRefused(Unregistered::Unsupported));
            return self.decline(now, flow, request, admitted, (420, b""), &extra, out);
        }
        // The scheme of an address-of-record is sip or sips (sections 10.2, 10.3 step 5); of one that
        // was found out it is.
        if aor.is_none() && !Uri::parse(request.to_uri()).is_ok_and(|uri| uri.is_sip()) {
            self.site.services().count(Counter::RegisterRefused(Unregistered::Malformed));
            return self.decline(now, flow, request, admitted, (400, b"Unusable To"), b"", out);
        }
        let named = || self.site.aor_of(request.to_uri());
        let aor = aor.or_else(named);
        // Section 10.3 step 5: an address-of-record that is not of this domain is not found. Someone
        // who is not the user in To has no business here either (10.3 step 4).
        let Some(aor) = aor.filter(|aor| !aor.user().is_empty()) else {
            self.site.services().count(Counter::RegisterRefused(Unregistered::NotOurs));
            self.site.tell(Refusal::NotOurs, request.to_uri(), flow, request);
            return self.decline(now, flow, request, admitted, (404, b""), b"", out);
        };
        if admitted.caller.role != Role::Local {
            self.site.services().count(Counter::RegisterRefused(Unregistered::Forbidden));
            self.site.tell(Refusal::Unproven, aor.text(), flow, request);
            return self.decline(now, flow, request, admitted, (403, b""), b"", out);
        }
        match self.bindings().carry_out(now, flow, request, aor.text()) {
            Ok(mut reply) if reply.status == 200 => {
                self.bindings().push_date(&mut reply.headers);
                let matters = flow.conn.is_some() && has_bindings(&reply.headers);
                let longest = self.site.settings().registrar.max_expires;
                let keeps = if matters { longest.saturating_add(KEPT_LONGER) } else { 0 };
                if request.header(Name::Contact).is_some() {
                    // A promise: what changed is written before it leaves, together with all else of the
                    // round.
                    return self.promise(now, flow, request, &reply, keeps, out);
                }
                self.site.services().count(Counter::Registered);
                self.answer_once(now, flow, request, (reply.status, reply.reason), &reply.headers, out);
                if keeps != 0 {
                    out.keeps(keeps);
                }
            }
            Ok(reply) => {
                self.site.services().count(Counter::RegisterRefused(Unregistered::Contacts));
                // A retransmission must be no second registration with an old CSeq.
                self.answer_once(now, flow, request, (reply.status, reply.reason), &reply.headers, out);
            }
            Err(Unserved::Claimed) => {
                self.site.services().count(Counter::RegisterRefused(Unregistered::Forbidden));
                self.site.services().count(Counter::Forbidden);
                self.site.tell(Refusal::Claimed, aor.text(), flow, request);
                let why = (403, &b"Contact At A Trunk Or Service"[..]);
                self.decline(now, flow, request, admitted, why, b"", out);
            }
            Err(Unserved::Store(StoreDown { retry_after: seconds })) => {
                self.site.services().count(Counter::RegisterRefused(Unregistered::Store));
                let why = retry_after(seconds);
                self.decline(now, flow, request, admitted, (503, b""), &why, out);
            }
        }
    }
}

/// Whether these lines of an answer name a binding.
fn has_bindings(lines: &[u8]) -> bool {
    lines.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Contact:"))
}
