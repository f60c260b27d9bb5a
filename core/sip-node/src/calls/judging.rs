//! What the table of calls tells of requests: whether they belong to a call here.

use super::{Calls, Entry, GAP, cut};
use crate::uris::undotted;
use core::time::Duration;
use sip_message::{Message, Uri, canonical_user};
use sip_proxy::token::Dialog;
use wire::Time;

/// How long early dialogs may still be answered after the first one was: 64*T1 (section 13.2.2.4).
const FORKS: Duration = Duration::from_secs(32);

impl Calls {
    /// Whether a request belongs to a dialog of a call here, early or answered, whichever end sent it.
    /// Call-ID, both tags and the URI of the other end must match.
    pub fn knows(&self, request: &Message<'_>) -> bool {
        let (from, to) = (
            self.hash(request.call_id(), request.from_tag()),
            self.hash(request.call_id(), request.to_tag()),
        );
        let name = cut(request.to_uri());
        let find = |hash: u64| self.table.find(hash, |e| e.hash == hash);
        find(from).is_some_and(|e| e.callees.has(to) && e.parts().2 == name)
            || find(to).is_some_and(|e| e.callees.has(from) && e.parts().1 == name)
    }

    /// Whether the tags of a request without our token say that the callee of a call here has sent it. If
    /// each end seems to have called the other one, the earlier INVITE counts: the later one was within that
    /// call.
    pub fn is_by_callee(&self, request: &Message<'_>) -> bool {
        let hash = |tag| self.hash(request.call_id(), tag);
        let (from, to) = (hash(request.from_tag()), hash(request.to_tag()));
        let call = |caller: u64, callee: u64| {
            let entry = self.table.find(caller, |e| e.hash == caller);
            entry.filter(|e| e.callees.has(callee)).map(|e| e.sequence)
        };
        let own = call(from, to);
        call(to, from).is_some_and(|other| own.is_none_or(|own| other < own))
    }

    /// Whether a request has the tags of a dialog of a call here, and users or hosts in From or To that its
    /// ends do not have: its sender has seen a message of that call.
    pub fn is_forged(&self, request: &Message<'_>) -> bool {
        let (from, to) = (
            self.hash(request.call_id(), request.from_tag()),
            self.hash(request.call_id(), request.to_tag()),
        );
        let (from_name, to_name) = (request.from_uri(), request.to_uri());
        let find = |hash: u64| self.table.find(hash, |e| e.hash == hash);
        let forged = |e: &Entry, callee, caller_name: &[u8], callee_name: &[u8]| {
            let (_, caller, called) = e.parts();
            e.callees.has(callee) && !(is_name(caller, caller_name) && is_name(called, callee_name))
        };
        find(from).is_some_and(|e| forged(e, to, from_name, to_name))
            || find(to).is_some_and(|e| forged(e, from, to_name, from_name))
    }

    /// Whether this table knows all calls that the token may be of. It knows those that it named itself in,
    /// and after a day all that have seen a message since. `others`: other servers may have begun it.
    pub(super) fn judges(&self, now: Time, dialog: &Dialog, others: bool) -> bool {
        let old = others || self.since.is_none_or(|since| now < since + self.forget.max(GAP));
        now >= self.gaps_until && (dialog.keeper == self.keeper || !old)
    }

    /// Whether a request with our token belongs to no dialog, as far as this table knows its calls.
    pub fn denies(&self, now: Time, request: &Message<'_>, dialog: &Dialog, others: bool) -> bool {
        if !self.judges(now, dialog, others) {
            return false;
        }
        let (from, to) = (
            self.hash(request.call_id(), request.from_tag()),
            self.hash(request.call_id(), request.to_tag()),
        );
        let (caller, callee) = if dialog.by_caller { (from, to) } else { (to, from) };
        let place = self.place(dialog.callee().remote);
        let lives = |e: &Entry| {
            let early = !e.callees.is_answered() || now < e.since + FORKS;
            e.callees.has_at(callee, place, early)
        };
        !self.table.find(caller, |e| e.hash == caller).is_some_and(lives)
    }
}

/// Whether a URI names who a kept one does, however it is written.
fn is_name(kept: &[u8], uri: &[u8]) -> bool {
    if kept == cut(uri) {
        return true;
    }
    let (Ok(kept), Ok(uri)) = (Uri::parse(kept), Uri::parse(uri)) else { return false };
    let [kept_user, user] = [&kept, &uri].map(|uri| canonical_user(uri.user.unwrap_or(b"")));
    kept_user == user && undotted(kept.host).eq_ignore_ascii_case(undotted(uri.host))
}
