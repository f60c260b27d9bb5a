//! Session timers (RFC 4028 section 8): asking for them, and noting what the ends of a call agree on.
//!
//! Without `session_interval` in the settings none of this reads a message.

use crate::admitted::Admitted;
use crate::calls::DialogKey;
use crate::emergency::is_urgent;
use crate::records::{Recorded, Sent};
use crate::services::Services;
use crate::step::Step;
use call_records::{CallName, SESSION_MAX, What};
use sip_message::{Message, Method, push_u64};
use sip_proxy::session_timer::{Asked, Decision, Policy, agreed, missing, refreshes};
use sip_transaction::Prepared;
use wire::Flow;

impl<S: Services> Step<'_, S> {
    /// What is to be done with a request, if session timers are asked for and it may refresh a session. An
    /// emergency call is never refused for its interval.
    fn session_decision(&self, request: &Message<'_>) -> Option<(Policy, Decision)> {
        let settings = self.site.settings();
        let policy = settings.proxy.session?;
        if !matches!(request.method(), Method::Invite | Method::Update) {
            return None;
        }
        match policy.judge(request) {
            Decision::TooShort if is_urgent(settings.emergency.as_ref(), request) => None,
            decision => Some((policy, decision)),
        }
    }

    /// What the forwarded request asks for.
    #[inline]
    pub(crate) fn session_asked(&self, request: &Message<'_>) -> Asked {
        match self.session_decision(request) {
            Some((_, Decision::Ask(asked))) => asked,
            // A request that has waited; the settings have changed meanwhile.
            Some((_, Decision::TooShort)) | None => Asked::default(),
        }
    }

    /// The header lines of a 422, if the session interval of a request is too short.
    #[inline]
    pub(crate) fn session_too_short(&self, request: &Message<'_>) -> Option<Vec<u8>> {
        let (policy, decision) = self.session_decision(request)?;
        (decision == Decision::TooShort).then(|| {
            let mut line = b"Min-SE: ".to_vec();
            push_u64(policy.shortest.into(), &mut line);
            line.extend_from_slice(b"\r\n");
            line
        })
    }

    /// Refuses a request for its session interval. As after a challenge, the sender asks again, so this is no
    /// attempt to call that has a record.
    pub(crate) fn refuse_session(
        &mut self,
        flow: Flow,
        request: &Prepared<'_>,
        a: &Admitted<'_>,
        lines: &[u8],
    ) {
        match a.caller.realm {
            None => self.refuse(flow, request, 422, b"", lines),
            // Its credentials are used up, so a retransmission would be challenged.
            Some(_) => {
                self.answer_once(flow, request, (422, b""), lines);
            }
        }
    }

    /// A response went back to the sender of a request with this key. `confirmed`: the session interval that
    /// was added to it, or 0. A 2xx sets when the session ends, or that nothing tells (RFC 4028 section 8.2).
    #[inline]
    pub(crate) fn note_session(&mut self, response: &Message<'_>, key: &DialogKey, confirmed: u16) {
        if self.site.settings().proxy.session.is_some() && refreshes(response) && key.is_of_call() {
            self.session_refreshed(response, key, confirmed);
        }
    }

    fn session_refreshed(&mut self, response: &Message<'_>, key: &DialogKey, confirmed: u16) {
        // One with another Call-ID or From tag than its request says nothing of this call.
        if self.calls.is_of(response, key) {
            self.calls.set_session(key, interval(response, confirmed));
        }
    }

    /// The same for the record of the call, after its answer was recorded.
    #[inline]
    pub(crate) fn record_session(
        &self,
        response: &Message<'_>,
        key: &DialogKey,
        recorded: Option<Recorded>,
        (sent, to_confirm): (&Sent<'_>, u16),
    ) {
        if self.site.settings().proxy.session.is_none() || !refreshes(response) || !key.is_of_call() {
            return;
        }
        let dialog = match recorded {
            Some(Recorded::Call(_)) => self.dialog_set_up(response, key, sent),
            Some(Recorded::Within(dialog)) => dialog,
            Some(Recorded::End(_)) | None => return,
        };
        if self.calls.is_of(response, key) {
            let seconds = interval(response, missing(response, to_confirm));
            self.record(CallName::NONE, What::Refreshed(dialog, seconds));
        }
    }
}

/// The session interval of a 2xx, seconds; 0: none. `confirmed`: what was added to it, or 0.
fn interval(response: &Message<'_>, confirmed: u16) -> u32 {
    if confirmed > 0 { confirmed.into() } else { agreed(response).unwrap_or(0).min(SESSION_MAX) }
}
