//! Datagrams that the network gave back (RFC 3261 section 18.4).
//!
//! An ICMP report needs no more than two addresses to be forged, so it is believed for what it repeats
//! of the datagram: the branch of our own Via, whose transaction identifier nobody off the path knows.
//! A report that repeats too little is as if it had not come; the transaction's timers see to it.

use sip_proxy::loops::read_branch;
use sip_transaction::ClientId;

/// The client transaction that sent the request of which `quoted` is the beginning. Our requests begin
/// with our own Via. None for responses, which nothing here waits for, and for CANCEL, which has the
/// branch of its INVITE.
pub(crate) fn client_of(quoted: &[u8]) -> Option<ClientId> {
    if quoted.starts_with(b"SIP/2.0 ") || quoted.starts_with(b"CANCEL ") {
        return None;
    }
    let via = quoted.split(|&b| b == b'\n').nth(1)?.strip_prefix(b"Via: ")?;
    let mut parameters = via.split(|&b| b == b';' || b == b'\r').skip(1);
    let branch = parameters.find_map(|parameter| parameter.strip_prefix(b"branch="))?;
    ClientId::decode(read_branch(branch)?.client)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRANCH: &str = "z9hG4bKs0000002a89abcdef.0123456789abcdef";

    #[test]
    fn the_branch_of_our_via_is_found_in_what_was_repeated() {
        let whole =
            format!("INVITE sip:b@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch={BRANCH};x=1\r\n");
        let id = ClientId::decode(b"0000002a89abcdef");
        assert!(id.is_some());
        assert_eq!(client_of(whole.as_bytes()), id);
        let end = whole.find(";x").unwrap();
        for cut in 0..whole.len() {
            assert_eq!(client_of(&whole.as_bytes()[..cut]), id.filter(|_| cut >= end), "{cut}");
        }
        for other in [
            format!("CANCEL sip:b@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch={BRANCH}\r\n"),
            format!("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.9;branch={BRANCH}\r\n"),
            format!("INVITE sip:b@192.0.2.1 SIP/2.0\r\nTo: x\r\nVia: SIP/2.0/UDP a;branch={BRANCH}\r\n"),
            "INVITE sip:b@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n".to_owned(),
        ] {
            assert_eq!(client_of(other.as_bytes()), None, "{other}");
        }
    }
}
