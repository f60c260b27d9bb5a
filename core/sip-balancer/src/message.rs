//! What is read from a message in more than one place.

use crate::hash::fnv1a;
use crate::token::Origin;
use crate::{Answer, CallKey, MethodClass};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use sip_message::{Message, Name, parse_u32};
use wire::{Flow, Transport};

/// What makes this request the same as another.
pub(crate) fn origin<'a>(request: &Message<'a>, reply: IpAddr, call: CallKey) -> Origin<'a> {
    let via = request.via();
    Origin {
        branch: via.branch,
        host: via.host,
        port: via.port_or_default(),
        reply,
        call_id: request.call_id(),
        call,
        cseq: request.cseq(),
    }
}

/// A dialog of a call, by the tag of who was called; never zero where there is one.
#[inline]
pub(crate) fn dialog_of(tag: &[u8]) -> u32 {
    if tag.is_empty() { 0 } else { (fnv1a(tag) as u32).max(1) }
}

/// How long something lasts by a response: a 503's Retry-After (section 20.33), Expires of a 2xx to a
/// SUBSCRIBE.
pub(crate) fn wait(response: &Message<'_>, class: MethodClass) -> Option<Duration> {
    let name = match (response.status(), class) {
        (503, _) => Name::RetryAfter,
        (200..300, MethodClass::Subscribe) => Name::Expires,
        _ => return None,
    };
    let value = response.header(name)?.value;
    let digits = value.split(|b| !b.is_ascii_digit()).next()?;
    parse_u32(digits).map(|seconds| Duration::from_secs(seconds.into()))
}

/// A response as assignment sees it.
pub(crate) fn answer_of(response: &Message<'_>, class: MethodClass) -> Answer {
    let status = response.status();
    let dialog = if status < 200 { 0 } else { dialog_of(response.to_tag()) };
    Answer { status, wait: wait(response, class), dialog }
}

/// Where a response goes whose connection is gone: to the port in `sent-by`, over a new one (section
/// 18.2.2). A WebSocket client accepts no connections (RFC 7118 section 5).
pub(crate) fn otherwise(back: Flow, port: u16) -> Option<Flow> {
    let web = matches!(back.transport, Transport::Ws | Transport::Wss);
    (!web).then(|| Flow { conn: None, remote: SocketAddr::new(back.remote.ip(), port), ..back })
}
