//! The received request, for branches and responses that come later.

use super::proxied::Proxied;
use crate::services::Services;
use crate::step::Step;
use sip_message::{Limits, Message, Parsed, parse};

/// Runs `work` with the received request: the one given, or the stored one indexed again.
pub(super) fn with_request<'s, S: Services>(
    step: &mut Step<'s, S>,
    p: &mut Proxied,
    request: Option<&Message<'_>>,
    work: impl FnOnce(&mut Step<'s, S>, &mut Proxied, &Message<'_>),
) {
    if let Some(request) = request {
        return work(step, p, request);
    }
    let Some(stored) = p.request.clone() else { return };
    step.with_index(|step, index| match parse(&stored, index, &Limits::READ_BEFORE) {
        Parsed::Good(request) | Parsed::Bad(request, _) => work(step, p, &request),
        // It was read once already.
        Parsed::Garbage(_) => {}
    });
}
