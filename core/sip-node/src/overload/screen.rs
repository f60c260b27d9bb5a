//! What a message is, as far as an overloaded server must know before it reads on.

use crate::Emergency;
use sip_message::find_to_and_call_id;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind<'a> {
    /// It goes first: a response, ACK or CANCEL, or nothing that can be told.
    First,
    /// A request that says it is within a dialog, which has to be seen.
    Unsure,
    /// New work, with its Call-ID; whether it is an INVITE.
    New(&'a [u8], bool),
    /// The same, of an emergency call.
    Emergency(&'a [u8], bool),
    /// The same, if it is one more than a few of its kind: somebody asks whether we are there (OPTIONS).
    Probe(&'a [u8]),
}

/// Looks at the first line, To and Call-ID of a message; no byte after them is read.
pub(crate) fn screen<'a>(mut message: &'a [u8], emergency: Option<&Emergency>) -> Kind<'a> {
    // As the parser does (RFC 3261 section 7.5).
    while let [b'\r', b'\n', rest @ ..] = message {
        message = rest;
    }
    let Some(at) = message.iter().position(|&byte| byte == b' ') else { return Kind::First };
    let method = &message[..at];
    if matches!(method, b"ACK" | b"CANCEL" | b"SIP/2.0") {
        return Kind::First;
    }
    // What is no request that could be answered is cheap to find out in the usual way.
    let Some((to, call_id)) = find_to_and_call_id(message) else { return Kind::First };
    // Registrations are within no dialog (RFC 3261 section 10).
    if may_have_tag(to) && method != b"REGISTER" {
        Kind::Unsure
    } else if method == b"OPTIONS" {
        Kind::Probe(call_id)
    } else if emergency.is_some_and(|emergency| emergency.is_asked_by(method, &message[at + 1..])) {
        Kind::Emergency(call_id, method == b"INVITE")
    } else {
        Kind::New(call_id, method == b"INVITE")
    }
}

/// Whether there is a tag parameter in a To, or what may be one.
fn may_have_tag(to: &[u8]) -> bool {
    // The first one: one of the name or of a parameter in quotes leaves more to look at, not less.
    let params = match to.iter().position(|&byte| byte == b'>') {
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
        screen(text.leak().as_bytes(), None)
    }

    #[test]
    fn what_begins_something_is_new() {
        for to in ["To: <sip:b@c>", "t:sip:b@c", "TO : \"tag\" <sip:b@c>"] {
            assert_eq!(kind("INVITE sip:b@c", to), Kind::New(b"c@d", true), "{to}");
            assert_eq!(kind("REGISTER sip:c", to), Kind::New(b"c@d", false));
            assert_eq!(kind("NOSUCH sip:c", to), Kind::New(b"c@d", false));
        }
        assert_eq!(kind("REGISTER sip:c", "To: <sip:b@c>;tag=1"), Kind::New(b"c@d", false));
        assert_eq!(kind("OPTIONS sip:c", "To: <sip:c>"), Kind::Probe(b"c@d"));
        assert_eq!(kind("OPTIONS sip:c", "To: <sip:c>;tag=1"), Kind::Unsure);
    }

    #[test]
    fn what_continues_something_goes_first_or_has_to_be_seen() {
        for method in ["ACK", "CANCEL"] {
            assert_eq!(kind(&format!("{method} sip:b@c"), "To: <sip:b@c>"), Kind::First);
        }
        // A tag can be made up, and what has none is within no dialog.
        for method in ["INVITE", "BYE", "PRACK", "UPDATE", "INFO", "NOTIFY", "REFER", "SUBSCRIBE", "MESSAGE"]
        {
            let method = format!("{method} sip:b@c");
            assert_eq!(kind(&method, "To: <sip:b@c> ; TAG = 1"), Kind::Unsure);
            assert_eq!(kind(&method, "To: sip:vintage@c"), Kind::Unsure);
            assert!(matches!(kind(&method, "To: <sip:b@c>"), Kind::New(b"c@d", _)));
        }
        assert_eq!(screen(b"SIP/2.0 200 OK\r\nTo: a\r\nCall-ID: x\r\n\r\n", None), Kind::First);
    }

    #[test]
    fn line_ends_in_front_change_nothing() {
        let text = "INVITE sip:b SIP/2.0\r\nTo: <sip:b>\r\nCall-ID: x\r\n\r\n";
        for ends in ["\r\n", "\r\n\r\n\r\n"] {
            assert_eq!(screen(format!("{ends}{text}").leak().as_bytes(), None), Kind::New(b"x", true));
        }
        assert_eq!(screen(b"\r\nCANCEL sip:b SIP/2.0\r\nTo: <sip:b>\r\ni: x\r\n\r\n", None), Kind::First);
        assert_eq!(screen(b"\r\nSIP/2.0 100 Trying\r\nTo: <sip:b>\r\ni: x\r\n\r\n", None), Kind::First);
    }

    #[test]
    fn what_cannot_be_told_is_left_to_others() {
        for text in
            [&b""[..], b"\r\n\r\n", b"INVITE", b"INVITE sip:x SIP/2.0\r\nTo: x\r\n\r\n", b"\x16\x03\x01 "]
        {
            assert_eq!(screen(text, None), Kind::First);
        }
    }

    /// Start lines, and ways to write a To, with a tag and without.
    const STARTS: &[&str] = &[
        "INVITE sip:b@c SIP/2.0",
        "BYE sip:b@c SIP/2.0",
        "ACK sip:b@c SIP/2.0",
        "CANCEL sip:b@c SIP/2.0",
        "REGISTER sip:c SIP/2.0",
        "MESSAGE sip:b@c SIP/2.0",
        "invite sip:b@c SIP/2.0",
        "SIP/2.0 200 OK",
        "INVITE urn:service:sos SIP/2.0",
        "MESSAGE URN:Service:SOS.fire SIP/2.0",
        "INVITE urn:service:sosx SIP/2.0",
        "INVITE sip:112@c SIP/2.0",
        "INVITE sip:1123@c SIP/2.0",
        "SUBSCRIBE urn:service:sos SIP/2.0",
    ];
    const TOS: &[&str] = &[
        "To: <sip:b@c>",
        "t: <sip:b@c>;tag=1",
        "TO:<sip:b@c>\r\n ;x=y\r\n\t;TaG=1",
        "To : \"tag >\" <sip:b@c>",
        "to:\r\n sip:b@c ; tag = 1",
        "T\t: \"a\\\" <\" <sip:b@c;tag=no>;x=\"y>\";tag=1",
        "To: sip:b@c",
        "To: <sip:b@c>;x=\"tag>\"",
        "To: <sip:b@c>;tag=1;x=\">\"",
    ];
    const VIA: &str = "Via: SIP/2.0/UDP a;branch=z9hG4bKx";
    const OTHERS: &[&str] = &[
        "Topic: tag",
        "Subject: a\r\n To: b;tag=2",
        "Tor: x",
        "C: text/plain",
        "Content-Type: i",
        "Date: today",
    ];

    proptest! {
        /// What the parser reads without a fault is what the screen took it for: a tag where the parser sees
        /// one (and perhaps where it sees none), the same method, the same call.
        #[test]
        fn the_parser_sees_the_same(ends in 0usize..3, start in 0..STARTS.len(), to in 0..TOS.len(),
                                    others in prop::collection::vec(0..OTHERS.len(), 0..4),
                                    id in 0usize..3, first in 0usize..5) {
            let method = STARTS[start].split(' ').next().unwrap();
            let method = if method == "SIP/2.0" { "INVITE" } else { method };
            let mut lines: Vec<String> = others.iter().map(|n| OTHERS[*n].to_owned()).collect();
            lines.insert(first.min(lines.len()), TOS[to].to_owned());
            lines.push(["Call-ID: c@d", "i : c@d", "CALL-ID:\r\n c@d"][id].to_owned());
            let turn = first % lines.len();
            lines.rotate_left(turn);
            let text = format!(
                "{}{}\r\n{VIA}\r\nFrom: <sip:a@c>;tag=f\r\nCSeq: 1 {method}\r\n{}\r\nContent-Length: 0\r\n\r\n",
                "\r\n".repeat(ends), STARTS[start], lines.join("\r\n"));
            let mut index = sip_message::Index::new();
            let limits = sip_message::Limits::default();
            if let sip_message::Parsed::Good(message) = sip_message::parse(text.as_bytes(), &mut index, &limits) {
                let tagged = !message.to_tag().is_empty();
                let help = Emergency { numbers: vec![b"112".to_vec()], ..Emergency::default() };
                let kind = screen(text.as_bytes(), Some(&help));
                let urgent = message.is_request() && crate::emergency::is_urgent(Some(&help), &message);
                prop_assert_eq!(matches!(kind, Kind::Emergency(..)), urgent && !matches!(kind, Kind::Unsure));
                let first = !message.is_request()
                    || matches!(message.method(), sip_message::Method::Ack | sip_message::Method::Cancel);
                let invite = message.is_request() && message.method() == sip_message::Method::Invite;
                match kind {
                    Kind::First => prop_assert!(first, "{text}"),
                    Kind::Unsure => prop_assert!(!first, "{text}"),
                    Kind::Probe(_) => prop_assert!(false, "{text}"),
                    Kind::New(call_id, is_invite) | Kind::Emergency(call_id, is_invite) => {
                        prop_assert!(!first && call_id == message.call_id() && is_invite == invite, "{text}");
                        prop_assert!(!tagged || message.method() == sip_message::Method::Register, "{text}");
                    }
                }
            } else {
                prop_assert!(false, "{text}");
            }
        }

        #[test]
        fn any_bytes_are_something(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = screen(&bytes, None);
            let help = Emergency { numbers: vec![bytes.clone()], ..Emergency::default() };
            let _ = screen(&[b"INVITE ", &bytes[..]].concat(), Some(&help));
            let _ = screen(&[b"INVITE sip:", &bytes[..]].concat(), Some(&help));
        }
    }
}
