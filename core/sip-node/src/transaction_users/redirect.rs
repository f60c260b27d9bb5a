//! Tells the caller where to go (RFC 3261 section 8.3).

use crate::admitted::Admitted;
use crate::services::Services;
use crate::step::Step;
use sip_proxy::transport::always_rport;
use sip_transaction::Prepared;
use wire::Flow;

/// Answers 302 with these Contact values.
pub(super) fn answer<S: Services>(
    step: &mut Step<'_, S>,
    flow: Flow,
    request: &Prepared<'_>,
    a: &Admitted<'_>,
    contacts: &[u8],
) {
    let Some(server) = step.accept(flow, request, a) else { return };
    let source = Some((flow.remote, always_rport(flow, request)));
    let extra = [b"Contact: ", contacts, b"\r\n"].concat();
    step.answer(server.id, request, source, 302, &extra);
}
