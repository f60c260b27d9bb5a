//! What the scheme `sips:` asks for (RFC 3261 section 26.2.2, RFC 5630 section 5.3). A request for a `sips:`
//! URI does not go on in the clear or to a `sip:` URI. A request for a `sip:` URI does not become one for
//! `sips:` on its way.

use crate::services::Refusal;
use crate::uris::is_sips;
use sip_proxy::transport::SIPS_NOT_ALLOWED;
use wire::Flow;

/// Why a request does not go to a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barred {
    /// It asks for security all the way, and the target has no `sips:` URI, or the way there is in the clear.
    Downgrade,
    /// The target is to be reached by an encrypted transport only, and the way there is in the clear.
    Clear,
}

impl Barred {
    /// The Warning line of the 480 (RFC 5630 section 5.3).
    pub const fn warning(self) -> &'static [u8] {
        match self {
            Barred::Downgrade => SIPS_NOT_ALLOWED,
            Barred::Clear => b"Warning: 381 proxy \"SIPS Required\"\r\n",
        }
    }

    /// What is told to the operator.
    pub const fn refusal(self) -> Refusal {
        match self {
            Barred::Downgrade => Refusal::Downgrade,
            Barred::Clear => Refusal::Clear,
        }
    }
}

/// Whether a request may go this way. `sips`: it came with a `sips:` Request-URI. `uri`: the one that it
/// leaves with. `secure`: the target demands an encrypted transport.
pub(super) fn bar(flow: Flow, sips: bool, uri: &[u8], secure: bool) -> Option<Barred> {
    let encrypted = flow.transport.is_secure();
    match sips {
        true if !(encrypted && is_sips(uri)) => Some(Barred::Downgrade),
        false if secure && !encrypted => Some(Barred::Clear),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;
    use wire::{ListenerId, Transport};

    #[test]
    fn schemes_and_transports_decide_together() {
        let over = |transport| {
            let remote = SocketAddr::from(([192, 0, 2, 1], 5061));
            Flow { transport, ..Flow::udp(ListenerId(0), remote) }
        };
        for transport in [Transport::Udp, Transport::Tcp, Transport::Ws, Transport::Sctp] {
            let flow = over(transport);
            assert_eq!(bar(flow, false, b"sip:a@b", false), None);
            assert_eq!(bar(flow, false, b"sip:a@b", true), Some(Barred::Clear));
            assert_eq!(bar(flow, true, b"sip:a@b", false), Some(Barred::Downgrade));
            assert_eq!(bar(flow, true, b"SIPS:a@b", true), Some(Barred::Downgrade));
        }
        for transport in [Transport::Tls, Transport::Wss] {
            let flow = over(transport);
            assert_eq!(bar(flow, false, b"sip:a@b", true), None);
            assert_eq!(bar(flow, true, b"sips:a@b", true), None);
            assert_eq!(bar(flow, true, b"sip:a@b", false), Some(Barred::Downgrade), "no last hop exception");
        }
    }
}
