//! What a forwarded call says of its forwardings: Diversion (RFC 5806) and History-Info (RFC 7044).

use crate::chain::Hop;
use sip_message::{Message, Name, NameAddr, Splices, Uri, push_u64};

/// Bytes of History-Info that are added to; a longer one leaves as it came.
const HISTORY_MAX: usize = 4_096;
/// Longest index of an entry that is added to, bytes.
const INDEX_MAX: usize = 64;
/// Stands for a user who is not to be named (RFC 7044 section 10.1.2).
const ANONYMOUS: &[u8] = b"sip:anonymous@anonymous.invalid";

/// How much the next hop learns of who forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disclosure {
    /// All.
    Open,
    /// All, and that it is not to be passed on: the request asks for privacy, and the next hop is trusted.
    Private,
    /// That there were forwardings, and why.
    Hidden,
}

impl Disclosure {
    /// To a next hop that is `trusted` or not. Privacy is asked for by `history`, `header` or `session` in
    /// Privacy (RFC 7044 section 10.1.1).
    pub fn of(request: &Message<'_>, trusted: bool) -> Disclosure {
        let mut wishes = request.headers(Name::Privacy).flat_map(|header| header.value.split(|b| *b == b';'));
        let asks = |wish: &[u8]| {
            let wish = wish.trim_ascii();
            [&b"history"[..], b"header", b"session"].iter().any(|name| wish.eq_ignore_ascii_case(name))
        };
        match (wishes.any(asks), trusted) {
            (false, _) => Disclosure::Open,
            (true, true) => Disclosure::Private,
            (true, false) => Disclosure::Hidden,
        }
    }
}

/// Adds the edits that put a Diversion for each forwarding above those received: the last one first (RFC 5806
/// section 5).
pub fn write_diversion(request: &Message<'_>, hops: &[Hop], how: Disclosure, splices: &mut Splices) {
    let start = request.headers_start();
    splices.replace_with(start..start, |text| {
        for hop in hops.iter().rev() {
            text.extend_from_slice(b"Diversion: <");
            match how {
                Disclosure::Open | Disclosure::Private => {
                    text.extend_from_slice(b"sip:");
                    text.extend_from_slice(&hop.by);
                }
                Disclosure::Hidden => text.extend_from_slice(ANONYMOUS),
            }
            text.extend_from_slice(b">;reason=");
            text.extend_from_slice(hop.reason.diversion().as_bytes());
            text.extend_from_slice(match how {
                Disclosure::Open => b";counter=1;privacy=off\r\n",
                Disclosure::Private | Disclosure::Hidden => b";counter=1;privacy=full\r\n",
            });
        }
    });
}

/// Adds the edits that continue History-Info: an entry for the Request-URI received where there is none, and
/// one for each forwarding (RFC 7044 sections 9.1 and 9.2). An entry that was left for a reason gets it.
pub fn write_history(request: &Message<'_>, hops: &[Hop], how: Disclosure, splices: &mut Splices) {
    let received: usize = request.headers(Name::HistoryInfo).map(|header| header.value.len()).sum();
    let last = request.values(Name::HistoryInfo).last();
    let entry = last.and_then(|value| NameAddr::parse(value).ok());
    let index = entry.and_then(|entry| entry.param(b"index")).unwrap_or(b"");
    let is_index = index.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let is_folded = request.headers(Name::HistoryInfo).any(|header| header.value.contains(&b'\n'));
    if is_folded {
        return;
    }
    if hops.is_empty() || received > HISTORY_MAX || index.len() > INDEX_MAX || !is_index {
        return;
    }
    let known = entry.filter(|entry| names(entry.uri, request.request_uri()));
    let mut text = b"History-Info: ".to_vec();
    for value in
        request.values(Name::HistoryInfo).filter(|value| last.is_none_or(|last| !core::ptr::eq(*value, last)))
    {
        text.extend_from_slice(value);
        text.extend_from_slice(b", ");
    }
    let mut index = index.to_vec();
    let why = |at: usize| hops.get(at).filter(|hop| hop.reason.is_response()).map(|hop| hop.cause);
    match (known, last) {
        (Some(known), _) => push_known(&known, why(0), &mut text),
        (None, last) => {
            if let Some(last) = last {
                text.extend_from_slice(last);
                text.extend_from_slice(b", ");
            }
            index.extend_from_slice(if index.is_empty() { b"1" } else { b".1" });
            push_entry(request.request_uri(), (None, why(0)), how, &mut text);
            text.extend_from_slice(b";index=");
            text.extend_from_slice(&index);
        }
    }
    if index.is_empty() {
        index.push(b'1');
    }
    for (at, hop) in hops.iter().enumerate() {
        text.extend_from_slice(b", ");
        push_entry(&hop.to, (Some(hop.cause), why(at + 1)), how, &mut text);
        let from = index.clone();
        index.extend_from_slice(b".1");
        for part in [&b";index="[..], &index, b";mp=", &from] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    for header in request.headers(Name::HistoryInfo) {
        splices.remove(header.line);
    }
    let end = request.head_len().saturating_sub(2);
    splices.insert(end, &text);
}

/// Whether an entry is for this Request-URI.
fn names(entry: &[u8], request_uri: &[u8]) -> bool {
    let end = entry.iter().position(|b| *b == b'?').unwrap_or(entry.len());
    let uri = entry.get(..end).and_then(|uri| Uri::parse(uri).ok());
    let wanted = Uri::parse(request_uri).ok();
    uri.zip(wanted).is_some_and(|(uri, wanted)| uri.equivalent(&wanted))
}

/// Appends an entry as it came, with the reason why its target was left.
fn push_known(entry: &NameAddr<'_>, cause: Option<u16>, text: &mut Vec<u8>) {
    text.push(b'<');
    text.extend_from_slice(entry.uri);
    let has_headers = entry.uri.contains(&b'?');
    push_headers((cause, false), has_headers, text);
    text.push(b'>');
    text.extend_from_slice(entry.params);
}

/// Appends the name-addr of a new entry: with the `cause` that led there, and the one why it was left.
fn push_entry(uri: &[u8], (cause, left): (Option<u16>, Option<u16>), how: Disclosure, text: &mut Vec<u8>) {
    text.push(b'<');
    text.extend_from_slice(if how == Disclosure::Hidden { ANONYMOUS } else { uri });
    if let Some(cause) = cause {
        text.extend_from_slice(b";cause=");
        push_u64(cause.into(), text);
    }
    push_headers((left, how == Disclosure::Private), false, text);
    text.push(b'>');
}

/// Appends header fields to a URI: Reason (RFC 7044 section 10.2) and Privacy (section 10.1.1). `more`: it
/// has some already.
fn push_headers((cause, private): (Option<u16>, bool), mut more: bool, text: &mut Vec<u8>) {
    let mut begin =
        |text: &mut Vec<u8>| text.push(if core::mem::replace(&mut more, true) { b'&' } else { b'?' });
    if let Some(cause) = cause {
        begin(text);
        text.extend_from_slice(b"Reason=SIP%3Bcause%3D");
        push_u64(cause.into(), text);
    }
    if private {
        begin(text);
        text.extend_from_slice(b"Privacy=history");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Reason;
    use proptest::prelude::*;
    use sip_message::{Index, Limits, Parsed, parse};

    /// Calls `work` with an INVITE for `sip:bob@here.example` that has these lines besides.
    pub(crate) fn with_message<R>(lines: &str, work: impl FnOnce(&Message<'_>) -> R) -> R {
        let text = format!(
            "INVITE sip:bob@here.example SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\n\
             To: <sip:bob@here.example>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        let mut index = Index::new();
        let Parsed::Good(message) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
            panic!("{text}")
        };
        work(&message)
    }

    fn hop(by: &str, to: &str, reason: Reason) -> Hop {
        Hop { by: by.as_bytes().into(), to: to.as_bytes().into(), reason, cause: reason.cause() }
    }

    fn hops() -> [Hop; 2] {
        [
            hop("bob@here.example", "sip:dave@here.example", Reason::Unconditional),
            hop("dave@here.example", "sip:+49@here.example", Reason::Busy),
        ]
    }

    fn history(lines: &str, hops: &[Hop], how: Disclosure) -> String {
        with_message(lines, |message| {
            let (mut splices, mut out) = (Splices::new(), Vec::new());
            write_history(message, hops, how, &mut splices);
            splices.apply(message.bytes(), &mut out);
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("History-Info")).collect();
            lines.join("\n")
        })
    }

    #[test]
    fn history_begins_with_the_request_uri() {
        assert_eq!(
            history("", &hops(), Disclosure::Open),
            "History-Info: <sip:bob@here.example>;index=1, \
             <sip:dave@here.example;cause=302?Reason=SIP%3Bcause%3D486>;index=1.1;mp=1, \
             <sip:+49@here.example;cause=486>;index=1.1.1;mp=1.1"
        );
    }

    #[test]
    fn history_goes_on_behind_what_came() {
        let busy = [hop("bob@here.example", "sip:1@x", Reason::Busy)];
        let came = "History-Info: <sip:old@x>;index=1\r\nHistory-Info: <sip:bob@here.example;cause=302>;index=1.1;mp=1\r\n";
        assert_eq!(
            history(came, &busy, Disclosure::Open),
            "History-Info: <sip:old@x>;index=1, \
             <sip:bob@here.example;cause=302?Reason=SIP%3Bcause%3D486>;index=1.1;mp=1, <sip:1@x;cause=486>;index=1.1.1;mp=1.1"
        );
        let other = "History-Info: <sip:old@x?Reason=SIP%3Bcause%3D302>;index=1\r\n";
        assert_eq!(
            history(other, &busy, Disclosure::Private),
            "History-Info: <sip:old@x?Reason=SIP%3Bcause%3D302>;index=1, \
             <sip:bob@here.example?Reason=SIP%3Bcause%3D486&Privacy=history>;index=1.1, \
             <sip:1@x;cause=486?Privacy=history>;index=1.1.1;mp=1.1"
        );
    }

    #[test]
    fn hidden_forwardings_name_nobody() {
        let text = history("", &hops(), Disclosure::Hidden);
        assert!(!text.contains("dave") && !text.contains("bob") && !text.contains("+49"), "{text}");
        with_message("", |message| {
            let (mut splices, mut out) = (Splices::new(), Vec::new());
            write_diversion(message, &hops(), Disclosure::Hidden, &mut splices);
            splices.apply(message.bytes(), &mut out);
            let text = String::from_utf8(out).unwrap();
            assert!(
                !text.contains("dave") && text.contains("reason=user-busy;counter=1;privacy=full"),
                "{text}"
            );
        });
    }

    #[test]
    fn diversion_has_the_last_forwarding_first() {
        with_message("Diversion: <sip:old@x>;reason=unknown\r\n", |message| {
            let (mut splices, mut out) = (Splices::new(), Vec::new());
            write_diversion(message, &hops(), Disclosure::Open, &mut splices);
            splices.apply(message.bytes(), &mut out);
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Diversion")).collect();
            let wanted = [
                "Diversion: <sip:dave@here.example>;reason=user-busy;counter=1;privacy=off",
                "Diversion: <sip:bob@here.example>;reason=unconditional;counter=1;privacy=off",
                "Diversion: <sip:old@x>;reason=unknown",
            ];
            assert_eq!(lines, wanted);
        });
    }

    #[test]
    fn privacy_of_the_request_decides_what_is_told() {
        for (line, trusted, how) in [
            ("", false, Disclosure::Open),
            ("Privacy: id\r\n", false, Disclosure::Open),
            ("Privacy: id; History\r\n", true, Disclosure::Private),
            ("Privacy: header\r\n", false, Disclosure::Hidden),
        ] {
            with_message(line, |message| assert_eq!(Disclosure::of(message, trusted), how, "{line}"));
        }
    }

    proptest! {
        #[test]
        fn history_of_any_text_leaves_a_readable_message(value in "[ -~]{0,60}") {
            let lines = format!("History-Info: {value}\r\n");
            with_message(&lines, |message| {
                let (mut splices, mut out) = (Splices::new(), Vec::new());
                write_history(message, &hops(), Disclosure::Open, &mut splices);
                splices.apply(message.bytes(), &mut out);
                let mut index = Index::new();
                let again = parse(&out, &mut index, &Limits::default());
                assert!(matches!(again, Parsed::Good(_)), "{}", String::from_utf8_lossy(&out));
            });
        }
    }
}
