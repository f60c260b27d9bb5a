//! Requests for the server itself, such as OPTIONS (RFC 3261 section 11).

use crate::admitted::Admitted;
use crate::extensions::unsupported;
use crate::services::Services;
use crate::step::Step;
use sip_message::{Method, Name};
use sip_transaction::Prepared;
use wire::Flow;

/// A request for the server itself (section 16.5: the Request-URI names no user).
pub(super) fn answer<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    a: &Admitted<'_>,
) {
    // What this server does itself; what it passes on is no question of methods (section 11.2).
    const ALLOW: &[u8] = b"Allow: OPTIONS, REGISTER, ACK, CANCEL\r\n";
    const ABLE: &[u8] =
        b"Supported: path, outbound\r\nAccept: application/sdp\r\nAccept-Encoding: identity\r\nAccept-Language: en\r\n";
    // The method first (8.2.1), then what the request requires (8.2.2.3).
    match request.method() {
        Method::Options => match unsupported(request, Name::Require) {
            Some(extra) => step.decline(flow, request, a, (420, b""), &extra),
            // Idempotent, so it needs no transaction.
            None => step.decline(flow, request, a, (200, b""), ABLE),
        },
        Method::Other(_) => step.decline(flow, request, a, (501, b""), b""),
        _ if !request.to_tag().is_empty() => step.decline(flow, request, a, (481, b""), b""),
        Method::Invite => step.decline(flow, request, a, (484, b""), b""),
        _ => step.decline(flow, request, a, (405, b""), ALLOW),
    }
}
