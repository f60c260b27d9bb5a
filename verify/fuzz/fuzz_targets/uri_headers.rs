//! The typed readers of header values: no panic, parts that come from the text they were read from,
//! and an equality of URIs that is one.
#![no_main]

use fuzz::Feed;
use libfuzzer_sys::fuzz_target;
use sip_message::{AuthParams, NameAddr, Params, Uri, Values, Via, push_received, unquote};
use std::net::SocketAddr;

/// Whether `part` is a piece of `whole`.
fn within(whole: &[u8], part: &[u8]) -> bool {
    part.is_empty() || whole.as_ptr_range().contains(&part.as_ptr())
}

fn uris(a: &[u8], b: &[u8]) {
    let (one, other) = (Uri::parse(a), Uri::parse(b));
    for (text, uri) in [(a, &one), (b, &other)] {
        let Ok(uri) = uri else { continue };
        assert!(uri.equivalent(uri), "{} is not itself", text.escape_ascii());
        assert!(within(text, uri.host) && within(text, uri.params) && within(text, uri.headers));
        let _ = (uri.param(b"lr"), uri.transport(), uri.host_ip());
        if uri.is_sip() {
            check_aor(text, uri);
        }
    }
    if let (Ok(one), Ok(other)) = (&one, &other) {
        let (there, back) = (one.equivalent(other), other.equivalent(one));
        assert_eq!(there, back, "{} and {}", a.escape_ascii(), b.escape_ascii());
    }
}

/// The canonical address-of-record is one: writing it again changes nothing.
fn check_aor(text: &[u8], uri: &Uri<'_>) {
    let mut aor = Vec::new();
    uri.write_aor(&mut aor);
    let again = [b"sip:", &aor[..]].concat();
    let Ok(parsed) = Uri::parse(&again) else {
        panic!("{} became {}", text.escape_ascii(), aor.escape_ascii());
    };
    let mut twice = Vec::new();
    parsed.write_aor(&mut twice);
    assert_eq!(aor.escape_ascii().to_string(), twice.escape_ascii().to_string());
}

fn via(text: &[u8], source: SocketAddr) {
    let Ok(read) = Via::parse(text) else { return };
    assert!(within(text, read.host) && within(text, read.branch));
    let _ = (read.source_ip(), read.port_or_default(), read.has_cookie());
    for always in [false, true] {
        let mut completed = Vec::new();
        push_received(&read, source, always, &mut completed);
        let Ok(again) = Via::parse(&completed) else {
            panic!("{} became {}", text.escape_ascii(), completed.escape_ascii());
        };
        assert_eq!((again.host, again.port, again.branch), (read.host, read.port, read.branch));
        let asked = always || read.rport.is_some();
        assert_eq!(again.rport.flatten(), if asked { Some(source.port()) } else { None });
    }
}

fuzz_target!(|data: &[u8]| {
    let mut feed = Feed::new(data);
    let source = SocketAddr::from(([192, 0, 2, feed.byte()], 5060));
    let text = feed.rest();
    let cut = text.iter().position(|&b| b == b'\n');
    let (a, b) = cut.map_or((text, &b""[..]), |at| (&text[..at], &text[at + 1..]));
    uris(a, b);
    via(a, source);
    if let Ok(name) = NameAddr::parse(a) {
        assert!(within(a, name.uri) && within(a, name.params));
        let _ = (name.param(b"tag"), Uri::parse(name.uri));
    }
    if let Some(auth) = AuthParams::parse(a) {
        for (name, value) in auth.iter() {
            assert!(within(a, value) && auth.get(name).is_some());
        }
    }
    let mut from = 0;
    for value in Values::new(a) {
        assert!(!value.is_empty());
        let at = value.as_ptr() as usize - a.as_ptr() as usize;
        assert!(at >= from, "values out of order");
        from = at + value.len();
    }
    let mut out = Vec::new();
    for (name, value) in Params::new(a) {
        assert!(within(a, name));
        out.clear();
        unquote(value.unwrap_or(b""), &mut out);
        assert!(out.len() <= value.unwrap_or(b"").len());
    }
});
