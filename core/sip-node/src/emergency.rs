//! Emergency calls: requests for `urn:service:sos` and the services below it (RFC 5031), and for the numbers
//! that people dial instead. They go to where the operator says, before any other route, and in an overload
//! before other new work.

use crate::uris::is_sips;
use sip_message::{Message, Method};

/// Where emergency calls go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emergency {
    /// SIP URIs in failover order.
    pub targets: Vec<Vec<u8>>,
    /// What people dial.
    pub numbers: Vec<Vec<u8>>,
    /// Whether anybody may make emergency calls; otherwise our users and trunks.
    pub strangers: bool,
    /// How long a target may say nothing at all, milliseconds.
    pub silent_after_ms: u32,
}

impl Default for Emergency {
    fn default() -> Emergency {
        Emergency { targets: Vec::new(), numbers: Vec::new(), strangers: false, silent_after_ms: 1_000 }
    }
}

impl Emergency {
    /// Whether a Request-URI, which may be followed by a blank and more, names a service for emergencies by
    /// how it is written: whose number it is, its host would say, which is not looked at.
    pub(crate) fn is_named_by(&self, uri: &[u8]) -> bool {
        let Some((scheme, rest)) = uri.split_at_checked(4) else { return false };
        if scheme.eq_ignore_ascii_case(b"urn:") {
            return is_sos(rest);
        }
        if is_sips(uri) {
            return rest.strip_prefix(b":").is_some_and(|rest| self.is_number(rest));
        }
        (scheme.eq_ignore_ascii_case(b"sip:") || scheme.eq_ignore_ascii_case(b"tel:")) && self.is_number(rest)
    }

    /// Whether what follows the scheme begins with one of the numbers, and not with a longer one.
    fn is_number(&self, rest: &[u8]) -> bool {
        self.numbers.iter().any(|number| {
            let behind = rest.strip_prefix(&number[..]);
            behind.is_some_and(|behind| matches!(behind.first(), None | Some(b'@' | b';' | b':' | b' ')))
        })
    }

    /// Whether these are the digits of one of the numbers.
    pub(crate) fn has(&self, digits: &[u8]) -> bool {
        self.numbers.iter().any(|number| number == digits)
    }

    /// Whether a request is one for help, as far as that shows before it is known for whom it is.
    pub(crate) fn is_asked_by(&self, method: &[u8], uri: &[u8]) -> bool {
        matches!(method, b"INVITE" | b"MESSAGE") && self.is_named_by(uri)
    }
}

/// Whether this, behind `urn:`, is the service "sos" or one below it, in any case (RFC 5031 sections 3 and
/// 4.2).
fn is_sos(name: &[u8]) -> bool {
    const SOS: &[u8] = b"service:sos";
    name.split_at_checked(SOS.len()).is_some_and(|(service, behind)| {
        service.eq_ignore_ascii_case(SOS) && matches!(behind.first(), None | Some(b'.' | b' '))
    })
}

/// Whether a request begins an emergency call, for the rules of an overload.
pub(crate) fn is_urgent(emergency: Option<&Emergency>, request: &Message<'_>) -> bool {
    let method: Method<'_> = request.method();
    emergency.is_some_and(|emergency| emergency.is_asked_by(method.as_bytes(), request.request_uri()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emergency() -> Emergency {
        let numbers = [&b"112"[..], b"15", b"+112"].map(<[u8]>::to_vec).to_vec();
        Emergency { targets: vec![b"sip:192.0.2.1".to_vec()], numbers, ..Emergency::default() }
    }

    #[test]
    fn services_are_known_by_name_and_numbers_as_configured() {
        for uri in [
            "urn:service:sos",
            "URN:SERVICE:SOS",
            "urn:service:sos.fire",
            "urn:Service:Sos.police.x",
            "sip:112@here",
            "SIP:112@here",
            "sips:112@here",
            "sip:112;phone-context=+49@here;user=dialstring",
            "sip:112:x@here",
            "tel:112",
            "TEL:15",
            "tel:112;phone-context=+49",
            "sip:+112@here",
            "sip:15@here SIP/2.0",
            "urn:service:sos SIP/2.0",
        ] {
            assert!(emergency().is_named_by(uri.as_bytes()), "{uri}");
        }
        for uri in [
            "urn:service:sosx",
            "urn:service:so",
            "urn:service:counseling",
            "urn:service:test.sos",
            "urn:services:sos",
            "urn:",
            "",
            "sip",
            "sip:1123@here",
            "sip:11@here",
            "sip:bob@112",
            "tel:1-1-2",
            "tel:0112",
            "http:112",
            "urn:service:sos-x",
        ] {
            assert!(!emergency().is_named_by(uri.as_bytes()), "{uri}");
        }
        for (method, asks) in
            [("INVITE", true), ("MESSAGE", true), ("invite", false), ("REGISTER", false), ("OPTIONS", false)]
        {
            assert_eq!(emergency().is_asked_by(method.as_bytes(), b"urn:service:sos"), asks, "{method}");
        }
    }
}
