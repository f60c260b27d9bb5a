//! What reading the messages of a usual call costs. Count its instructions:
//!
//! ```text
//! cargo build --release -p sip-message --example reading
//! valgrind --tool=callgrind target/release/examples/reading 1000
//! ```
//!
//! Every round reads four messages, and of each what a proxy asks for.

use sip_message::{Index, Limits, Message, Name, NameAddr, Parsed, Uri, parse};
use std::hint::black_box;

const VIA: &str = "Via: SIP/2.0/UDP 127.0.21.2:25061;branch=z9hG4bKi1ab12cd345\r\n";
const OWN_VIA: &str =
    "Via: SIP/2.0/UDP 127.0.21.1:25060;branch=z9hG4bK0123456789abcdef0123456789abcdef-1234\r\n";
const ENDS: &str = "From: \"Caller\" <sip:u1@bench.test>;tag=c345\r\nTo: <sip:u1345@bench.test>";
const CALL: &str = "\r\nCall-ID: L345-ab12cd@127.0.21.2\r\nCSeq: 1";
const SDP: &str = "v=0\r\no=- 4711 4711 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 40000 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";

fn messages() -> [String; 4] {
    let length = SDP.len();
    let route = "<sip:127.0.21.1:25060;lr;d=0123456789abcdef0123456789abcdef>";
    let contact = "Contact: <sip:u1@127.0.21.2:25061>\r\n";
    let credentials = "Proxy-Authorization: Digest username=\"u1\",realm=\"bench.test\",\
        nonce=\"0123456789abcdef0123456789abcdef\",uri=\"sip:u1345@bench.test\",\
        response=\"0123456789abcdef0123456789abcdef\",algorithm=MD5\r\n";
    [
        format!(
            "INVITE sip:u1345@bench.test SIP/2.0\r\n{VIA}Max-Forwards: 70\r\n{ENDS}{CALL} INVITE\r\n{contact}{credentials}\
             User-Agent: bench\r\nContent-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{SDP}"
        ),
        format!(
            "SIP/2.0 180 Ringing\r\n{OWN_VIA}{VIA}Record-Route: {route}\r\n{ENDS};tag=s345{CALL} INVITE\r\n\
             Contact: <sip:127.0.21.3:25070>\r\nContent-Length: 0\r\n\r\n"
        ),
        format!(
            "SIP/2.0 200 OK\r\n{OWN_VIA}{VIA}Record-Route: {route}\r\n{ENDS};tag=s345{CALL} INVITE\r\n\
             Contact: <sip:127.0.21.3:25070>\r\nContent-Type: application/sdp\r\nContent-Length: {length}\r\n\r\n{SDP}"
        ),
        format!(
            "BYE sip:127.0.21.3:25070 SIP/2.0\r\n{VIA}Route: {route}\r\nMax-Forwards: 70\r\n{ENDS};tag=s345{CALL} BYE\r\n\
             Content-Length: 0\r\n\r\n"
        ),
    ]
}

/// What is asked of nearly every message.
#[inline(never)]
fn ask(m: &Message<'_>) {
    black_box((m.via_branch(), m.call_id(), m.cseq(), m.method()));
    if m.is_request() {
        black_box(via_of(m));
        black_box(uri_of(m.request_uri()));
        black_box((m.from_tag(), m.to_tag(), m.max_forwards()));
        black_box(uri_of(m.from_uri()));
        for value in m.values(Name::Route) {
            black_box(NameAddr::parse(value).is_ok_and(|a| uri_of(a.uri)));
        }
    }
}

#[inline(never)]
fn via_of(m: &Message<'_>) -> (Option<core::net::IpAddr>, Option<u16>) {
    let via = m.via();
    (via.host_ip, via.port)
}

#[inline(never)]
fn uri_of(text: &[u8]) -> bool {
    Uri::parse(text).is_ok_and(|uri| black_box(uri).host_ip().is_some())
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let messages = messages();
    let limits = Limits::default();
    let mut index = Index::new();
    for _ in 0..rounds {
        for text in &messages {
            match parse(text.as_bytes(), &mut index, &limits) {
                Parsed::Good(m) => ask(&m),
                other => panic!("{other:?}"),
            }
        }
    }
    println!("{rounds} rounds of {} bytes", messages.iter().map(String::len).sum::<usize>());
}
