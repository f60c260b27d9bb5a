//! Tells the caller where to go (RFC 3261 section 8.3).

use crate::server_side::ServerSide;
use crate::services::Services;
use crate::step::Step;
use sip_transaction::Prepared;
use wire::Flow;

/// Answers 302 with these Contact values.
pub(super) fn answer<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    server: ServerSide,
    contacts: &[u8],
) {
    let extra = [b"Contact: ", contacts, b"\r\n"].concat();
    step.answer_in(flow, request, server, 302, &extra);
}
