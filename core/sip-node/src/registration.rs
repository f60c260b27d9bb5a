//! REGISTER (RFC 3261 section 10) as the node sees it: the rest is `sip-registrar`'s.

use crate::admit::{Admitted, Aor, unsupported};
use crate::inbound::retry_after;
use crate::node::Node;
use crate::reach::refused;
use crate::services::{Counter, Refusal, Services, StoreDown, Unregistered};
use sip_message::{Message, Name, NameAddr, Uri};
use sip_proxy::token::Role;
use sip_registrar::{Registration, Reply};
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
            self.services.count(Counter::RegisterRefused(Unregistered::Unsupported));
            return self.decline(now, flow, request, admitted, (420, b""), &extra, out);
        }
        // The scheme of an address-of-record is sip or sips (sections 10.2, 10.3 step 5); of one that
        // was found out it is.
        if aor.is_none() && !Uri::parse(request.to_uri()).is_ok_and(|uri| uri.is_sip()) {
            self.services.count(Counter::RegisterRefused(Unregistered::Malformed));
            return self.decline(now, flow, request, admitted, (400, b"Unusable To"), b"", out);
        }
        let named = || self.aor_of(request.to_uri());
        let aor = aor.or_else(named);
        // Section 10.3 step 5: an address-of-record that is not of this domain is not found. Someone
        // who is not the user in To has no business here either (10.3 step 4).
        let Some(aor) = aor.filter(|aor| !aor.user().is_empty()) else {
            self.services.count(Counter::RegisterRefused(Unregistered::NotOurs));
            self.tell(Refusal::NotOurs, request.to_uri(), flow, request);
            return self.decline(now, flow, request, admitted, (404, b""), b"", out);
        };
        if admitted.caller.role != Role::Local {
            self.services.count(Counter::RegisterRefused(Unregistered::Forbidden));
            self.tell(Refusal::Unproven, aor.text(), flow, request);
            return self.decline(now, flow, request, admitted, (403, b""), b"", out);
        }
        match self.carry_out(now, flow, request, aor.text()) {
            Ok(mut reply) if reply.status == 200 => {
                self.push_date(&mut reply.headers);
                let matters = flow.conn.is_some() && has_bindings(&reply.headers);
                let longest = self.settings.registrar.max_expires;
                let keeps = if matters { longest.saturating_add(KEPT_LONGER) } else { 0 };
                if request.header(Name::Contact).is_some() {
                    // A promise: what changed is written before it leaves, together with all else of the round.
                    return self.promise(now, flow, request, &reply, keeps, out);
                }
                self.services.count(Counter::Registered);
                self.answer_once(now, flow, request, (reply.status, reply.reason), &reply.headers, out);
                if keeps != 0 {
                    out.keeps(keeps);
                }
            }
            Ok(reply) => {
                self.services.count(Counter::RegisterRefused(Unregistered::Contacts));
                // A retransmission must be no second registration with an old CSeq.
                self.answer_once(now, flow, request, (reply.status, reply.reason), &reply.headers, out);
            }
            Err(Unserved::Claimed) => {
                self.services.count(Counter::RegisterRefused(Unregistered::Forbidden));
                self.services.count(Counter::Forbidden);
                self.tell(Refusal::Claimed, aor.text(), flow, request);
                let why = (403, &b"Contact At A Trunk Or Service"[..]);
                self.decline(now, flow, request, admitted, why, b"", out);
            }
            Err(Unserved::Store(StoreDown { retry_after: seconds })) => {
                self.services.count(Counter::RegisterRefused(Unregistered::Store));
                let why = retry_after(seconds);
                self.decline(now, flow, request, admitted, (503, b""), &why, out);
            }
        }
    }

    /// Reads a REGISTER, decides where each Contact is reached, and carries it out.
    fn carry_out(&self, now: Time, flow: Flow, request: &Message<'_>, aor: &[u8]) -> Result<Reply, Unserved> {
        let config = &self.settings.registrar;
        let mut registration = match Registration::read(request, aor, flow, config) {
            Ok(registration) => registration,
            Err(refusal) => return Ok(refusal),
        };
        if self.path_claims_a_place(flow, request) {
            return Err(Unserved::Claimed);
        }
        let placed = registration.place(|contact, kept| {
            let claimed = self.places.claimed(&self.settings, contact, flow.remote).is_some();
            if claimed { Err(None) } else { self.placed(flow, request, contact, kept).map_err(Some) }
        });
        match placed {
            Ok(()) => {}
            Err(Some(refusal)) => return Ok(refusal),
            Err(None) => return Err(Unserved::Claimed),
        }
        let changes = request.header(Name::Contact).is_some();
        self.note_edge(flow, request);
        let carried = self.services.register(aor, changes, &mut |table, changes| {
            if self.is_one_too_many(now, aor, &registration, table) {
                return refused(b"Too Many Contacts Elsewhere");
            }
            registration.apply(now, config, table, changes)
        });
        carried.map_err(Unserved::Store)
    }
}

impl<S: Services> Node<S> {
    /// Adds a Date line, by which phones without a clock set theirs (section 10.3 step 8).
    fn push_date(&self, headers: &mut Vec<u8>) {
        const NAME: &[u8] = b"Date: ";
        let start = headers.len();
        headers.extend_from_slice(NAME);
        self.services.date(headers);
        match headers.len() == start + NAME.len() {
            true => headers.truncate(start),
            false => headers.extend_from_slice(b"\r\n"),
        }
    }

    /// Whether a Path names the place of a trunk or of an emergency or voicemail target and the REGISTER did not come from
    /// there: otherwise all callers could reach that place through it.
    fn path_claims_a_place(&self, flow: Flow, request: &Message<'_>) -> bool {
        let read = |value| Uri::parse(NameAddr::parse(value).ok()?.uri).ok().filter(Uri::is_sip);
        let mut path = request.values(Name::Path).filter_map(read);
        path.any(|uri| self.places.claimed(&self.settings, &uri, flow.remote).is_some())
    }
}

/// Why a REGISTER has no reply of the registrar.
enum Unserved {
    /// A Contact or Path names the place of a trunk or of an emergency or voicemail target.
    Claimed,
    Store(StoreDown),
}

/// Whether these lines of an answer name a binding.
fn has_bindings(lines: &[u8]) -> bool {
    lines.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"Contact:"))
}
