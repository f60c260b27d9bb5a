//! Route information preprocessing (RFC 3261 section 16.4).

use sip_message::{Malformed, Message, Name, NameAddr, Uri};

/// The name of the URI parameter that carries a dialog token in our Record-Route.
pub const TOKEN_PARAM: &[u8] = b"d";

/// What the Route set and Request-URI of a request mean to this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routing<'a> {
    /// The Request-URI, restored if a strict router had put ours there.
    pub request_uri: &'a [u8],
    /// How many leading Route values name this server and are to be removed.
    pub own: usize,
    /// The last Route value has become the Request-URI and is to be removed.
    pub drop_last: bool,
    /// The dialog token in the Route (or Request-URI) that named this server.
    pub token: Option<&'a [u8]>,
    /// The URI of the first Route value that remains.
    pub next: Option<&'a [u8]>,
    /// Whether `next` is a loose router (has `lr`).
    pub next_is_loose: bool,
}

/// Reads the Route set. `uri` is the Request-URI, if it can be read; `ours` tells whether a URI names this
/// server. `as_written` gives the token of a Route value that is, byte for byte, a Record-Route value of this
/// server; of any other it gives nothing, which says nothing.
///
/// Of several leading values that name us, a second is taken off only if it belongs to the same visit:
/// the other half of a double Record-Route (RFC 5658), which carries the same token. Another token
/// means that the dialog really came through here twice (a spiral).
pub fn preprocess<'a>(
    request: &Message<'a>,
    uri: Option<&Uri<'a>>,
    as_written: impl Fn(&'a [u8]) -> Option<&'a [u8]>,
    ours: impl Fn(&Uri<'a>) -> bool,
) -> Result<Routing<'a>, Malformed> {
    let mut routing = Routing {
        request_uri: request.request_uri(),
        own: 0,
        drop_last: false,
        token: None,
        next: None,
        next_is_loose: true,
    };
    if request.header(Name::Route).is_none() {
        return Ok(routing);
    }
    restore_request_uri(request, uri, &ours, &mut routing)?;
    // Most requests within dialogs bring back what was written, and nothing else.
    if !routing.drop_last
        && let Some(only) = request.lone_value(Name::Route)
        && let Some(token) = as_written(only.value)
    {
        (routing.own, routing.token) = (1, Some(token));
        return Ok(routing);
    }
    let total = match routing.drop_last {
        true => request.values(Name::Route).count() - 1,
        false => usize::MAX,
    };
    for value in request.values(Name::Route).take(total) {
        let addr = NameAddr::parse(value)?;
        let uri = Uri::parse(addr.uri).map_err(|_| Malformed)?;
        let token = uri.param(TOKEN_PARAM);
        let same_visit = routing.own == 0 && routing.token.is_none() || token == routing.token;
        if !(same_visit && ours(&uri)) {
            routing.next = Some(addr.uri);
            routing.next_is_loose = uri.param(b"lr").is_some();
            break;
        }
        routing.own += 1;
        routing.token = token;
    }
    Ok(routing)
}

/// A strict router before us has put our own Record-Route URI into the Request-URI and the real one at
/// the end of the Route set (16.4, first paragraph).
fn restore_request_uri<'a>(
    request: &Message<'a>,
    uri: Option<&Uri<'a>>,
    ours: &impl Fn(&Uri<'a>) -> bool,
    routing: &mut Routing<'a>,
) -> Result<(), Malformed> {
    let Some(uri) = uri else { return Ok(()) };
    if uri.user.is_some() || uri.param(b"lr").is_none() || !ours(uri) {
        return Ok(());
    }
    let Some(last) = request.values(Name::Route).last() else { return Ok(()) };
    routing.request_uri = NameAddr::parse(last)?.uri;
    routing.drop_last = true;
    routing.token = uri.param(TOKEN_PARAM);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    fn with(uri: &str, routes: &str, test: impl FnOnce(Result<Routing<'_>, Malformed>)) {
        let text = format!(
            "BYE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 BYE\r\n{routes}\r\n"
        );
        let mut index = Index::new();
        let Parsed::Good(m) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
            panic!("{text}")
        };
        let uri = Uri::parse(m.request_uri()).ok();
        let slow = preprocess(&m, uri.as_ref(), |_| None, |u| u.host == b"us");
        fn as_written(value: &[u8]) -> Option<&[u8]> {
            let token = value.strip_prefix(b"<sip:us;lr;d=")?.strip_suffix(b">")?;
            sip_message::is_base64url(token).then_some(token)
        }
        assert_eq!(preprocess(&m, uri.as_ref(), as_written, |u| u.host == b"us"), slow);
        test(slow);
    }

    #[test]
    fn our_own_routes_are_taken_off() {
        with("sip:x@far", "Route: <sip:us;lr;d=A>, <sip:us:5061;lr;d=A>\r\nRoute: <sip:p2;lr>\r\n", |r| {
            let r = r.unwrap();
            assert_eq!((r.own, r.token, r.next), (2, Some(&b"A"[..]), Some(&b"sip:p2;lr"[..])));
            assert!(r.next_is_loose && r.request_uri == b"sip:x@far");
        });
        with("sip:x@far", "Route: <sip:us;lr;d=A-_9>\r\n", |r| {
            let r = r.unwrap();
            assert_eq!((r.own, r.token, r.next, r.drop_last), (1, Some(&b"A-_9"[..]), None, false));
        });
        for odd in ["A;x", "A>;x", "A>,<sip:p2;lr", "A?x=y", "%41", "", "A ", "A=b"] {
            with("sip:x@far", &format!("Route: <sip:us;lr;d={odd}>\r\n"), |_| {});
        }
        with("sip:us;lr;d=A", "Route: <sip:us;lr;d=A>\r\n", |r| assert_eq!(r.unwrap().own, 0));
        with("sip:x@far", "Route: <sip:us;lr;d=A>,<sip:us;lr;d=B>\r\n", |r| {
            let r = r.unwrap();
            assert_eq!((r.own, r.token, r.next), (1, Some(&b"A"[..]), Some(&b"sip:us;lr;d=B"[..])));
        });
        with("sip:x@far", "Route: <sip:us;lr>,<sip:us;lr>,<sip:strict>\r\n", |r| {
            let r = r.unwrap();
            assert_eq!((r.own, r.token, r.next_is_loose), (2, None, false));
        });
        with("sip:x@far", "Route: <sip:other;lr>,<sip:us;lr>\r\n", |r| assert_eq!(r.unwrap().own, 0));
        with("sip:x@far", "", |r| assert_eq!(r.unwrap().next, None));
    }

    #[test]
    fn a_strict_router_before_us_is_undone() {
        with("sip:us;lr;d=A", "Route: <sip:p2;lr>, <sip:x@far>\r\n", |r| {
            let r = r.unwrap();
            assert_eq!((r.request_uri, r.drop_last, r.token), (&b"sip:x@far"[..], true, Some(&b"A"[..])));
            assert_eq!((r.own, r.next), (0, Some(&b"sip:p2;lr"[..])));
        });
        with("sip:us;lr;d=A", "Route: <sip:x@far>\r\n", |r| {
            let r = r.unwrap();
            assert_eq!((r.request_uri, r.next), (&b"sip:x@far"[..], None));
        });
    }

    #[test]
    fn a_broken_route_is_an_error() {
        with("sip:x@far", "Route: <sip:us;lr\r\n", |r| assert_eq!(r, Err(Malformed)));
        with("sip:x@far", "Route: not a uri\r\n", |r| assert_eq!(r, Err(Malformed)));
    }
}
