//! The message that leaves: the received bytes plus splices (RFC 3261 sections 16.6 and 16.7).

use core::net::SocketAddr;
use core::ops::Range;
use sip_message::{AuthParams, Message, Name, Splices, Values, push_received, push_u64};

/// What a forwarded request differs in from the received one. Fields that hold lines hold whole ones,
/// with their CRLF, in the order in which they are to stand.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The new Request-URI (16.6 step 2).
    pub request_uri: &'a [u8],
    /// Our Via line (step 8).
    pub via: &'a [u8],
    /// Our Record-Route lines (step 4), or nothing.
    pub record_routes: &'a [u8],
    /// Route lines to put before those that remain (Path of a binding, RFC 3327), or nothing.
    pub routes: &'a [u8],
    /// Leading Route values to take off.
    pub drop_routes: usize,
    /// The last Route value to take off as well.
    pub drop_last_route: bool,
    /// A Route line to put after all others (step 6, strict routing), or nothing.
    pub last_route: &'a [u8],
    /// The new Max-Forwards (step 3).
    pub max_forwards: u8,
    /// The new Max-Breadth (RFC 5393 section 5.3); `None`: leave it as it is.
    pub max_breadth: Option<u8>,
    /// Where the request came from, for the received Via (18.2.1), and whether to add an unasked
    /// `rport`; `None`: it has been done.
    pub source: Option<(SocketAddr, bool)>,
    /// Take off identity assertions, because whoever sent them is not trusted (RFC 3325 section 5).
    pub strip_identity: bool,
    /// Take off the credentials of this realm, which nobody further on has a use for. This request
    /// proved itself with them, so it has some.
    pub strip_realm: Option<&'a [u8]>,
    /// Take off what makes a phone answer by itself or end another call, because a stranger sent it.
    pub strip_commands: bool,
}

/// Appends the forwarded request. `splices` is scratch memory.
pub fn write_request(request: &Message<'_>, o: &Outgoing<'_>, splices: &mut Splices, out: &mut Vec<u8>) {
    edit_request(request, o, splices);
    splices.apply(request.bytes(), out);
}

/// The edits that make the forwarded request from the received one.
pub fn edit_request(request: &Message<'_>, o: &Outgoing<'_>, splices: &mut Splices) {
    splices.clear();
    let uri = request.request_uri();
    if uri != o.request_uri {
        splices.replace(request.range_of(uri), o.request_uri);
    }
    let line_end = request.headers_start().saturating_sub(2);
    write_version(request, line_end.saturating_sub(VERSION.len())..line_end, splices);
    splices.replace_with(request.headers_start()..request.headers_start(), |text| {
        text.extend_from_slice(o.via);
        text.extend_from_slice(o.record_routes);
        text.extend_from_slice(o.routes);
        if request.max_forwards().is_none() {
            text.extend_from_slice(b"Max-Forwards: ");
            push_u64(o.max_forwards.into(), text);
            text.extend_from_slice(b"\r\n");
        }
    });
    if let Some((source, always_rport)) = o.source {
        complete_via(request, source, always_rport, splices);
    }
    if request.max_forwards().is_some()
        && let Some(header) = request.header(Name::MaxForwards)
    {
        splices.replace_with(request.range_of(header.value), |text| push_u64(o.max_forwards.into(), text));
    }
    if let Some(breadth) = o.max_breadth {
        set_max_breadth(request, breadth, splices);
    }
    edit_routes(request, o, splices);
    add_content_length(request, splices);
    if o.strip_identity {
        strip_identity(request, splices);
    }
    if o.strip_commands {
        crate::commands::strip(request, splices);
    }
    if let Some(realm) = o.strip_realm {
        strip_credentials(request, realm, splices);
    }
}

/// Appends a response without its topmost Via (16.7 step 3); `strip_identity` as in [`Outgoing`].
pub fn write_response(
    response: &Message<'_>,
    strip_identity: bool,
    splices: &mut Splices,
    out: &mut Vec<u8>,
) {
    edit_response(response, strip_identity, splices);
    splices.apply(response.bytes(), out);
}

/// The edits that [`write_response`] makes.
#[inline]
pub fn edit_response(response: &Message<'_>, strip_identity: bool, splices: &mut Splices) {
    splices.clear();
    write_version(response, 0..VERSION.len(), splices);
    match response.lone_via() {
        Some(line) => splices.remove(line.line),
        None => drop_topmost_via(response, splices),
    }
    add_content_length(response, splices);
    if strip_identity {
        strip(response, &ASSERTIONS, splices);
    }
}

/// Adds the edit that writes this URI into From of a response: the one that its request had before it left
/// with another one.
pub fn restore_from(response: &Message<'_>, uri: &[u8], splices: &mut Splices) {
    if !response.from_uri().is_empty() {
        splices.replace(response.range_of(response.from_uri()), uri);
    }
}

/// Appends a response without its topmost Via, with another status line (`line`, CRLF included) and without
/// the header fields of one name, folded ones as a whole.
pub fn write_response_as(
    response: &Message<'_>,
    line: &[u8],
    without: Name,
    splices: &mut Splices,
    out: &mut Vec<u8>,
) {
    splices.clear();
    splices.replace(0..response.headers_start(), line);
    match response.lone_via() {
        Some(line) => splices.remove(line.line),
        None => drop_topmost_via(response, splices),
    }
    add_content_length(response, splices);
    strip(response, &[without], splices);
    splices.apply(response.bytes(), out);
}

/// How the version is written, however it was read (RFC 3261 section 7.1).
const VERSION: &[u8] = b"SIP/2.0";

/// Writes the version in capitals, which stands at `at` in the start line.
fn write_version(message: &Message<'_>, at: Range<usize>, splices: &mut Splices) {
    let written = message.bytes().get(at.clone());
    if written.is_some_and(|written| written != VERSION && written.eq_ignore_ascii_case(VERSION)) {
        splices.replace(at, VERSION);
    }
}

/// What says who somebody is, on the word of who sent it. A user's preference among his identities is a
/// hint for this server alone (RFC 3325 section 6).
const ASSERTIONS: [Name; 3] = [Name::PAssertedIdentity, Name::PPreferredIdentity, Name::RemotePartyId];
/// The same among other names: for whom a request is served (RFC 5502) and with what service (RFC 6050).
const OTHER_ASSERTIONS: [&[u8]; 2] = [b"P-Served-User", b"P-Asserted-Service"];

/// Removes what says who sent a request, on the word of who sent it (RFC 3325 section 5).
pub fn strip_identity(request: &Message<'_>, splices: &mut Splices) {
    strip(request, &ASSERTIONS, splices);
    for header in request.headers(Name::Other) {
        if OTHER_ASSERTIONS.iter().any(|name| name.eq_ignore_ascii_case(header.raw_name)) {
            splices.remove(header.line);
        }
    }
}

fn strip(message: &Message<'_>, names: &[Name], splices: &mut Splices) {
    for &name in names {
        for header in message.headers(name) {
            splices.remove(header.line);
        }
    }
}

/// The received Via with `received` and `rport`, if anything changes.
fn complete_via(request: &Message<'_>, source: SocketAddr, always_rport: bool, splices: &mut Splices) {
    let via = request.via();
    let plain = via.rport.is_none() && via.received.is_none() && !always_rport;
    if plain && via.host_ip == Some(source.ip().to_canonical()) {
        return;
    }
    splices.replace_with(request.range_of(via.raw), |text| push_received(&via, source, always_rport, text));
}

/// One Max-Breadth header field with this value (RFC 5393 section 5.3.3: "a single").
fn set_max_breadth(request: &Message<'_>, breadth: u8, splices: &mut Splices) {
    for header in request.headers(Name::MaxBreadth) {
        splices.remove(header.line);
    }
    let at = request.head_len().saturating_sub(2);
    splices.replace_with(at..at, |text| {
        text.extend_from_slice(b"Max-Breadth: ");
        push_u64(breadth.into(), text);
        text.extend_from_slice(b"\r\n");
    });
}

/// Content-Length where there is none, which only a datagram may do without: on a stream the body would
/// be read as the next message (16.6 step 9, 18.3). Written whatever the way, which may change yet.
fn add_content_length(message: &Message<'_>, splices: &mut Splices) {
    if message.header(Name::ContentLength).is_some() {
        return;
    }
    let at = message.head_len().saturating_sub(2);
    splices.replace_with(at..at, |text| {
        text.extend_from_slice(b"Content-Length: ");
        push_u64(message.body().len() as u64, text);
        text.extend_from_slice(b"\r\n");
    });
}

fn edit_routes(request: &Message<'_>, o: &Outgoing<'_>, splices: &mut Splices) {
    if o.drop_routes > 0
        && let Some(only) = request.lone_value(Name::Route)
    {
        splices.remove(only.line);
    } else if o.drop_routes > 0 || o.drop_last_route {
        let total = request.values(Name::Route).count();
        keep_values(
            request,
            Name::Route,
            o.drop_routes..total - usize::from(o.drop_last_route && total > 0),
            splices,
        );
    }
    if !o.last_route.is_empty() {
        let at = request.headers(Name::Route).last().map_or(request.headers_start(), |h| h.line.end);
        splices.insert(at, o.last_route);
    }
}

/// Takes the topmost Via off that others follow, as a rule in its own line.
fn drop_topmost_via(message: &Message<'_>, splices: &mut Splices) {
    let second = |value| Values::new(value).nth(1);
    if let Some(line) = message.header(Name::Via).filter(|line| !line.value.ends_with(b","))
        && let Some(next) = second(line.value)
    {
        return splices.remove(message.range_of(line.value).start..message.range_of(next).start);
    }
    drop_values(message, Name::Via, 1, splices);
}

/// Takes the first `count` comma-separated values of a header off.
fn drop_values(message: &Message<'_>, name: Name, count: usize, splices: &mut Splices) {
    keep_values(message, name, count..usize::MAX, splices);
}

/// Keeps the comma-separated values of a header whose number is in `kept`, with their lines; lines on
/// which nothing is left go.
fn keep_values(message: &Message<'_>, name: Name, kept: Range<usize>, splices: &mut Splices) {
    let mut number = 0;
    for header in message.headers(name) {
        let mut ends: Option<(Range<usize>, Range<usize>)> = None;
        for value in Values::new(header.value) {
            if kept.contains(&number) {
                let range = message.range_of(value);
                let first = ends.take().map_or(range.clone(), |(first, _)| first);
                ends = Some((first, range));
            }
            number += 1;
        }
        let whole = message.range_of(header.value);
        match ends {
            None => splices.remove(header.line),
            Some((first, last)) => {
                if whole.start < first.start {
                    splices.remove(whole.start..first.start);
                }
                if last.end < whole.end {
                    splices.remove(last.end..whole.end);
                }
            }
        }
        if kept.start <= number && kept.end == usize::MAX {
            return;
        }
    }
}

fn strip_credentials(request: &Message<'_>, realm: &[u8], splices: &mut Splices) {
    const NAMES: [Name; 2] = [Name::ProxyAuthorization, Name::Authorization];
    let mut all = NAMES.iter().flat_map(|&name| request.headers(name));
    if let (Some(only), None) = (all.next(), all.next()) {
        // They were accepted a moment ago, so they need not be read again.
        return splices.remove(only.line);
    }
    for name in NAMES {
        for header in request.headers(name) {
            if AuthParams::parse(header.value).and_then(|a| a.get(b"realm")) == Some(realm) {
                splices.remove(header.line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    const REQUEST: &str = "INVITE sip:bob@us SIP/2.0\r\n\
        Via: SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bK1\r\n\
        Max-Forwards: 70\r\n\
        Route: <sip:us;lr>, <sip:us;lr>,  <sip:p2;lr>\r\n\
        Route: <sip:last@far>\r\n\
        From: <sip:a@us>;tag=1\r\n\
        To: <sip:bob@us>\r\n\
        Call-ID: x\r\n\
        CSeq: 1 INVITE\r\n\
        P-Asserted-Identity: <sip:ceo@us>\r\n\
        Proxy-Authorization: Digest realm=\"us\", username=\"a\"\r\n\
        Proxy-Authorization: Digest realm=\"them\", username=\"a\"\r\n\
        Max-Breadth: 7\r\n\
        Content-Length: 4\r\n\
        \r\n\
        body";

    fn outgoing<'a>() -> Outgoing<'a> {
        Outgoing {
            request_uri: b"sip:bob@10.0.0.9",
            via: b"Via: SIP/2.0/UDP us;branch=z9hG4bKs\r\n",
            record_routes: b"Record-Route: <sip:us;lr>\r\n",
            routes: b"",
            drop_routes: 0,
            drop_last_route: false,
            last_route: b"",
            max_forwards: 69,
            max_breadth: None,
            source: Some(("192.0.2.7:5062".parse().unwrap(), false)),
            strip_identity: false,
            strip_realm: None,
            strip_commands: false,
        }
    }

    fn forwarded(request: &str, o: &Outgoing<'_>) -> String {
        let mut index = Index::new();
        let Parsed::Good(m) = parse(request.as_bytes(), &mut index, &Limits::default()) else { panic!() };
        let mut out = Vec::new();
        write_request(&m, o, &mut Splices::new(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn commands_and_identity_go_only_where_asked_for() {
        let both = "Alert-Info: <http://x>;info=alert-autoanswer\r\np-served-user : <sip:ceo@us>\r\n\
            P-Asserted-Service: urn:urn-7:3gpp-service.x\r\nP-Preferred-Identity: <sip:ceo@us>\r\n\
            Remote-Party-ID: <sip:ceo@us>\r\n";
        let with = |lines: &str| REQUEST.replacen("Max-Breadth", &format!("{lines}Max-Breadth"), 1);
        let o = Outgoing { strip_commands: true, strip_identity: true, ..outgoing() };
        let clean = REQUEST.replace("P-Asserted-Identity: <sip:ceo@us>\r\n", "");
        assert_eq!(forwarded(&with(both), &o), forwarded(&clean, &outgoing()));
        assert!(forwarded(&with(both), &outgoing()).contains(both));
    }

    #[test]
    fn every_edit_lands_where_it_should() {
        let o = Outgoing {
            drop_routes: 2,
            drop_last_route: true,
            last_route: b"Route: <sip:bob@us>\r\n",
            routes: b"Route: <sip:edge;lr>\r\n",
            max_breadth: Some(3),
            strip_identity: true,
            strip_realm: Some(b"us"),
            ..outgoing()
        };
        assert_eq!(
            forwarded(REQUEST, &o),
            "INVITE sip:bob@10.0.0.9 SIP/2.0\r\n\
             Via: SIP/2.0/UDP us;branch=z9hG4bKs\r\n\
             Record-Route: <sip:us;lr>\r\n\
             Route: <sip:edge;lr>\r\n\
             Via: SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK1;received=192.0.2.7;rport=5062\r\n\
             Max-Forwards: 69\r\n\
             Route: <sip:p2;lr>\r\n\
             Route: <sip:bob@us>\r\n\
             From: <sip:a@us>;tag=1\r\n\
             To: <sip:bob@us>\r\n\
             Call-ID: x\r\n\
             CSeq: 1 INVITE\r\n\
             Proxy-Authorization: Digest realm=\"them\", username=\"a\"\r\n\
             Content-Length: 4\r\n\
             Max-Breadth: 3\r\n\
             \r\n\
             body"
        );
    }

    #[test]
    fn the_version_leaves_in_capitals() {
        let small = REQUEST.replacen(" SIP/2.0", " sip/2.0", 1);
        assert_eq!(forwarded(&small, &outgoing()), forwarded(REQUEST, &outgoing()));
        let text = "Sip/2.0 200 OK\r\nVia: SIP/2.0/UDP us;branch=z9hG4bKs\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
                    From: <sip:a@us>;tag=1\r\nTo: <sip:b@us>;tag=2\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\r\n";
        let mut index = Index::new();
        let Parsed::Good(m) = parse(text.as_bytes(), &mut index, &Limits::default()) else { panic!() };
        let mut out = Vec::new();
        write_response(&m, false, &mut Splices::new(), &mut out);
        assert!(out.starts_with(b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;"));
    }

    #[test]
    fn a_missing_max_forwards_is_added() {
        let text = forwarded(&REQUEST.replace("Max-Forwards: 70\r\n", ""), &outgoing());
        assert!(text.contains("Record-Route: <sip:us;lr>\r\nMax-Forwards: 69\r\nVia:"), "{text}");
    }

    #[test]
    fn all_routes_of_a_line_take_the_line_along() {
        let text = forwarded(REQUEST, &Outgoing { drop_routes: 3, ..outgoing() });
        assert!(text.contains("Max-Forwards: 69\r\nRoute: <sip:last@far>\r\n"), "{text}");
        let text = forwarded(REQUEST, &Outgoing { drop_routes: 4, ..outgoing() });
        assert!(!text.contains("\r\nRoute"), "{text}");
    }

    #[test]
    fn routes_taken_off_at_both_ends_of_a_line_take_it_along() {
        let request = REQUEST.replace(",  <sip:p2;lr>\r\nRoute: <sip:last@far>", ", <sip:last@far>");
        let text = forwarded(&request, &Outgoing { drop_routes: 2, drop_last_route: true, ..outgoing() });
        assert!(!text.contains("\r\nRoute"), "{text}");
        let text = forwarded(&request, &Outgoing { drop_routes: 1, drop_last_route: true, ..outgoing() });
        assert!(text.contains("\r\nRoute: <sip:us;lr>\r\nFrom"), "{text}");
    }

    #[test]
    fn a_message_without_content_length_gets_one() {
        let bare = REQUEST.replace("Content-Length: 4\r\n", "");
        let text = forwarded(&bare, &Outgoing { max_breadth: Some(3), ..outgoing() });
        assert!(text.ends_with("Max-Breadth: 3\r\nContent-Length: 4\r\n\r\nbody"), "{text}");
        assert_eq!(forwarded(REQUEST, &outgoing()).matches("Content-Length").count(), 1);
    }

    #[test]
    fn responses_lose_one_via() {
        let text = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP us;branch=z9hG4bKs, SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
                    From: <sip:a@us>;tag=1\r\nTo: <sip:b@us>;tag=2\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\r\n";
        for (given, want) in [
            (text.to_owned(), "OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom"),
            (text.replace(", SIP", "\r\nVia: SIP"), "OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom"),
            (text.replace(", SIP", " ,,\tSIP"), "OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom"),
            (
                text.replace("bK1\r", "bK1, SIP/2.0/UDP b\r"),
                "OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1, SIP/2.0/UDP b\r\nFrom",
            ),
        ] {
            let mut index = Index::new();
            let Parsed::Good(m) = parse(given.as_bytes(), &mut index, &Limits::default()) else { panic!() };
            let mut out = Vec::new();
            write_response(&m, false, &mut Splices::new(), &mut out);
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(want), "{out}");
            assert_eq!(out.matches("Via").count(), 1);
        }
    }
}
