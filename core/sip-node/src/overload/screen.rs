//! What a message is, as far as an overloaded server must know before it reads on.

use sip_message::find_to_and_call_id;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind<'a> {
    /// It goes first: a response, a request within a dialog, an emergency call, or nothing that can be told.
    First,
    /// An INVITE that says it is within a dialog, which has to be seen.
    Unsure,
    /// New work, with its Call-ID; whether it is an INVITE.
    New(&'a [u8], bool),
}

/// Looks at the first line, To and Call-ID of a message; no byte after them is read.
pub(crate) fn screen(message: &[u8]) -> Kind<'_> {
    let Some(at) = message.iter().position(|&byte| byte == b' ') else { return Kind::First };
    let (method, rest) = (&message[..at], &message[at + 1..]);
    let invite = match method {
        b"ACK" | b"BYE" | b"CANCEL" | b"PRACK" | b"UPDATE" | b"SIP/2.0" => return Kind::First,
        method => method == b"INVITE",
    };
    if is_emergency(rest) {
        return Kind::First;
    }
    // What is no request that could be answered is cheap to find out in the usual way.
    let Some((to, call_id)) = find_to_and_call_id(message) else { return Kind::First };
    match may_have_tag(to) {
        // Registrations are within no dialog (RFC 3261 section 10).
        true if invite => Kind::Unsure,
        true if method != b"REGISTER" => Kind::First,
        _ => Kind::New(call_id, invite),
    }
}

/// Whether a request with this Request-URI, which more may follow, is a call to emergency services: the URN
/// `service:sos`, or one below it (RFC 5031 section 4.1).
pub(crate) fn is_emergency(uri: &[u8]) -> bool {
    const SOS: &[u8] = b"urn:service:sos";
    let (Some(urn), after) = (uri.get(..SOS.len()), uri.get(SOS.len())) else { return false };
    urn.eq_ignore_ascii_case(SOS) && !after.is_some_and(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether there is a tag parameter in a To, or what may be one.
fn may_have_tag(to: &[u8]) -> bool {
    let params = match to.iter().rposition(|&byte| byte == b'>') {
        Some(at) => &to[at..],
        None => to,
    };
    params.windows(3).any(|three| three.eq_ignore_ascii_case(b"tag"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(first: &str, to: &str) -> Kind<'static> {
        let text =
            format!("{first} SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bKx\r\n{to}\r\nCall-ID: c@d\r\n\r\n");
        screen(text.leak().as_bytes())
    }

    #[test]
    fn what_begins_something_is_new() {
        for to in ["To: <sip:b@c>", "t:sip:b@c", "TO : \"tag\" <sip:b@c>"] {
            assert_eq!(kind("INVITE sip:b@c", to), Kind::New(b"c@d", true), "{to}");
            assert_eq!(kind("REGISTER sip:c", to), Kind::New(b"c@d", false));
            assert_eq!(kind("NOSUCH sip:c", to), Kind::New(b"c@d", false));
        }
        assert_eq!(kind("REGISTER sip:c", "To: <sip:b@c>;tag=1"), Kind::New(b"c@d", false));
    }

    #[test]
    fn what_continues_something_goes_first() {
        for method in ["ACK", "BYE", "CANCEL", "PRACK", "UPDATE"] {
            assert_eq!(kind(&format!("{method} sip:b@c"), "To: <sip:b@c>"), Kind::First);
        }
        for method in ["INFO", "NOTIFY", "REFER", "SUBSCRIBE", "MESSAGE"] {
            assert_eq!(kind(&format!("{method} sip:b@c"), "To: <sip:b@c>;tag=1"), Kind::First);
        }
        assert_eq!(kind("INVITE sip:b@c", "To: <sip:b@c> ; TAG = 1"), Kind::Unsure);
        assert_eq!(screen(b"SIP/2.0 200 OK\r\nTo: a\r\nCall-ID: x\r\n\r\n"), Kind::First);
    }

    #[test]
    fn emergency_calls_go_first() {
        let to = "To: <urn:service:sos>";
        assert_eq!(kind("INVITE urn:service:sos", to), Kind::First);
        assert_eq!(kind("INVITE URN:Service:SOS.police", to), Kind::First);
        assert_eq!(kind("MESSAGE urn:service:sos.fire", to), Kind::First);
        assert_eq!(kind("INVITE urn:service:sosumi", to), Kind::New(b"c@d", true));
        assert_eq!(kind("INVITE sip:urn:service:sos@x", to), Kind::New(b"c@d", true));
    }

    #[test]
    fn what_cannot_be_told_is_left_to_others() {
        for text in
            [&b""[..], b"\r\n\r\n", b"INVITE", b"INVITE sip:x SIP/2.0\r\nTo: x\r\n\r\n", b"\x16\x03\x01 "]
        {
            assert_eq!(screen(text), Kind::First);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_something(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = screen(&bytes);
            let _ = screen(&[b"INVITE ", &bytes[..]].concat());
        }
    }
}
