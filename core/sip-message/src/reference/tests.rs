//! The readers against the plain walks, over damaged messages and values.

#![cfg(test)]

use super::scan::{Outcome, Reading, read, response_branch};
use super::values;
use crate::*;
use core::net::SocketAddr;

/// Messages as they are usual, and as they are odd but legal.
const MESSAGES: [&str; 7] = [
    "INVITE sip:u1000@bench.test SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.21.2:25061;branch=z9hG4bKi1ab99\r\n\
     Max-Forwards: 70\r\nFrom: \"Caller\" <sip:u1@bench.test>;tag=c99\r\nTo: <sip:u1000@bench.test>\r\n\
     Call-ID: L99-ab@127.0.21.2\r\nCSeq: 1 INVITE\r\nContact: <sip:u1@127.0.21.2:25061>\r\n\
     Proxy-Authorization: Digest username=\"u1\",realm=\"bench.test\",nonce=\"abcdefgh\",uri=\"sip:u1000@bench.test\",\
     response=\"0123456789abcdef0123456789abcdef\",algorithm=MD5\r\nUser-Agent: bench\r\n\
     Content-Type: application/sdp\r\nContent-Length: 17\r\n\r\nv=0\r\no=- 1 1 IN\r\n",
    "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKabcdef0123456789;rport=5060;received=10.0.0.9\r\n\
     Via: SIP/2.0/UDP 127.0.21.2:25061;branch=z9hG4bKi1ab99\r\nRecord-Route: <sip:10.0.0.1;lr;d=0123456789abcdef>\r\n\
     From: \"Caller\" <sip:u1@bench.test>;tag=c99\r\nTo: <sip:u1000@bench.test>;tag=s99\r\n\
     Call-ID: L99-ab@127.0.21.2\r\nCSeq: 1 INVITE\r\nContact: <sip:127.0.21.3:25070>\r\nContent-Length: 0\r\n\r\n",
    "BYE sip:127.0.21.3:25070;transport=tcp SIP/2.0\r\nVia: SIP/2.0/TLS [2001:db8::1]:5061;branch=z9hG4bKb2;rport;alias\r\n\
     Route: <sip:10.0.0.1;lr>, \"x, y\" <sip:edge.test;lr>\r\nMax-Forwards: 69\r\nFrom: <sip:a@b.test;user=phone>;tag=1\r\n\
     To: sip:c@d.test;tag=2;x=\"a;b\"\r\nCall-ID: x\r\nCSeq: 4 BYE\r\nContent-Length: 0\r\n\r\n",
    "REGISTER sips:example.test SIP/2.0\r\nv: SIP / 2.0 / TCP  host.example.test : 5061 ; rport ; Branch = z9hG4bKx ;ttl=16;maddr=224.2.0.1\r\n\
     f: \"Bo \\\"b\\\" <x>\" <sip:b%6fb@example.test> ; tag = ff-1;a;;b=c\r\nt:  Bob Smith <sip:bob@example.test:5060>\r\n\
     i:a84b4c76e66710@pc33.example.test\r\ncseq : 314159\tREGISTER\r\nm: <sip:bob@[::1]:5070;ob>;expires=5;q=0.1, <tel:+1-2>\r\n\
     Supported: path, outbound\r\nExpires: 7200\r\nX-A: b\\\0c\r\nl:0\r\n\r\n",
    "SIP/2.0 407 Proxy Authentication Required\r\nVia: SIP/2.0/WS df7jal23ls0d.invalid;branch=z9hG4bK56sdasks, SIP/2.0/UDP b;branch=c\r\n\
     Proxy-Authenticate: Digest realm=\"a, b\", nonce=\"x==\", qop=\"auth,auth-int\", opaque=\"\", stale=FALSE\r\n\
     Max-Forwards: 0\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>\r\nCall-ID: y@z\r\nCSeq: 2147483647 ACK\r\n\r\nbody without length",
    "OPTIONS sip:user;par=u%40x@h.test:5080;lr?Subject=a%20b&c=d SIP/2.0\r\nVia: SIP/2.0/SCTP a;received=2001:db8::9;rport=9\r\n\
     From: a\r\n b <sip:x@y>;tag=q\r\nTo: <tel:+49-30-1;isub=2>\r\nCall-ID: f\r\n o\r\nCSeq: 1 OPTIONS\r\nAccept: a/b,\r\n\tc/d\r\n\r\n",
    "\r\n\r\nNEWMETHOD unknown:opaque SIP/2.0\r\nVia: SIP/2.0/UDP x:5;branch=\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:a@b>\r\n\
     Call-ID: 1\r\nCSeq: 0 NEWMETHOD\r\nContent-Length: 3\r\n\r\nabcdef",
];

/// What is put into them.
const PIECES: [&[u8]; 72] = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\r\n ",
    b"\0",
    b"\\\0",
    b"\\",
    b"\"",
    b"\\\"",
    b"<",
    b">",
    b";",
    b";;",
    b",",
    b":",
    b"=",
    b" ",
    b"\t",
    b"  ",
    b"@",
    b"?",
    b"%",
    b"%61",
    b"%2",
    b"%zz",
    b"[",
    b"]",
    b"[::1]",
    b"[::1]:5",
    b"0",
    b"00",
    b"1",
    b"255",
    b"256",
    b"65535",
    b"65536",
    b"99999999999999999999",
    b"4294967296",
    b"1.2.3.4",
    b"1.2.3.04",
    b"\x7f",
    b"\x80",
    b"\x8d\x8a",
    b"\xa0",
    b"\xff",
    b"\x01",
    b"\x1f",
    b";tag=x",
    b";TAG=",
    b";tag",
    b"; tag = \"y\"",
    b";branch=z9hG4bKq",
    b";branch=",
    b";rport",
    b";rport=",
    b";rport=0",
    b";received=1.2.3.4",
    b";maddr=h",
    b";ttl=300",
    b"Via: SIP/2.0/UDP h;branch=q\r\n",
    b"To: <sip:x@y>\r\n",
    b"f: <sip:x@y>\r\n",
    b"Call-ID: 2\r\n",
    b"CSeq: 2 BYE\r\n",
    b"Max-Forwards: 7\r\n",
    b"Content-Length: 1\r\n",
    b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    b"aaaaaaaaaaaaaaaa",
    b"SIP/2.0",
    b"a=\"b;c\"",
    b"sip:",
];

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = (at + self.below(4)).min(bytes.len());
        match self.below(10) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..end, [])),
            2 => {
                let end = (at + self.below(80)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            3 => bytes[at..end].iter_mut().for_each(|b| *b ^= 0x20),
            4 => drop(bytes.splice(at..end, [self.below(256) as u8])),
            5 => {
                // A whole line, where lines may stand.
                let to = memchr::memchr(b'\n', &bytes[at..]).map_or(at, |i| at + i + 1);
                bytes.splice(to..to, self.pick(&PIECES).iter().copied());
            }
            6 => {
                let many = self.below(90);
                bytes.splice(at..at, core::iter::repeat_n(b'a', many));
            }
            _ => drop(bytes.splice(at..end, self.pick(&PIECES).iter().copied())),
        }
    }

    fn limits(&mut self) -> Limits {
        match self.below(4) {
            0 => Limits {
                message: 600,
                head: 500,
                body: 16,
                headers: 9,
                vias: 1,
                name: 13,
                header: 90,
                method: 8,
                uri: 40,
                token: 17,
            },
            _ => Limits::default(),
        }
    }
}

/// How many damaged inputs each test tries. A larger number can be asked for.
fn rounds() -> u64 {
    std::env::var("SIP_MESSAGE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

/// The index and the plain walk read the same in these bytes, or refuse them for the same reason.
pub(super) fn agree(bytes: &[u8], index: &mut Index, limits: &Limits) {
    let plain = read(bytes, limits);
    let (message, outcome) = match parse(bytes, index, limits) {
        Parsed::Garbage(why) => (None, Outcome::Garbage(why)),
        Parsed::Good(m) => (Some(m), Outcome::Good),
        Parsed::Bad(m, flaw) => (Some(m), Outcome::Bad(flaw.status, flaw.reason)),
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(outcome, plain.outcome, "{text:?}");
    if let Some(m) = message {
        same_message(&m, &plain, &text);
        same_lines(&m, &plain, &text);
        same_response(&m, &plain, &text);
    }
}

fn same_message(m: &Message<'_>, plain: &Reading, text: &str) {
    assert_eq!(m.bytes(), &plain.bytes[..plain.body.end], "{text:?}");
    assert_eq!(m.is_request(), plain.request.is_some(), "{text:?}");
    if let Some((method, uri)) = &plain.request {
        assert_eq!((m.method(), m.request_uri()), (Method::from_bytes(method), uri.as_slice()), "{text:?}");
        assert_eq!((m.status(), m.reason()), (0, &b""[..]), "{text:?}");
        assert_eq!(Some(m.via()), plain.via(), "{text:?}");
        assert_eq!(m.via_host_ip(), m.via().host_ip, "{text:?}");
    } else {
        assert_eq!(m.method(), Method::from_bytes(&plain.cseq_method), "{text:?}");
        let (status, reason) = plain.response.clone().unwrap();
        assert_eq!(
            (m.status(), m.reason(), m.request_uri()),
            (status, reason.as_slice(), &b""[..]),
            "{text:?}"
        );
        assert_eq!(m.via(), plain.via().unwrap_or_default(), "{text:?}");
    }
    assert_eq!((m.from_uri(), m.from_tag()), (plain.from.0.as_slice(), plain.from.1.as_slice()), "{text:?}");
    assert_eq!((m.to_uri(), m.to_tag()), (plain.to.0.as_slice(), plain.to.1.as_slice()), "{text:?}");
    assert_eq!((m.call_id(), m.cseq()), (plain.call_id.as_slice(), plain.cseq), "{text:?}");
    assert_eq!((m.max_forwards(), m.via_count()), (plain.max_forwards, plain.vias), "{text:?}");
    assert_eq!((m.body(), m.head_len()), (&plain.bytes[plain.body.clone()], plain.body.start), "{text:?}");
    let top = plain.value(plain.all(Name::Via).next().unwrap());
    let top = values::trim(&top[..values::end_of_value(top)]);
    assert_eq!(m.via_branch(), response_branch(top, m.is_request()), "{text:?}");
}

/// A response as it is put together line by line.
fn plain_response(plain: &Reading, tag: &[u8], source: Option<(SocketAddr, bool)>) -> Vec<u8> {
    let mut out = b"SIP/2.0 486 Busy Here\r\n".to_vec();
    let mut line = |name: &str, value: &[u8]| {
        out.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    };
    for (i, field) in plain.all(Name::Via).enumerate() {
        match (i, source, plain.via()) {
            (0, Some((source, always)), via) => {
                let (mut value, via) = (Vec::new(), via.unwrap_or_default());
                push_received(&via, source, always, &mut value);
                value.extend(&plain.value(field)[via.raw.len()..]);
                line("Via", &value);
            }
            _ => line("Via", plain.value(field)),
        }
    }
    for name in [Name::From, Name::To, Name::CallId, Name::CSeq] {
        let Some(field) = plain.all(name).next() else { continue };
        let mut value = plain.value(field).to_vec();
        if name == Name::To && plain.to.1.is_empty() && !tag.is_empty() {
            value.extend([b";tag=", tag].concat());
        }
        line(name.as_str(), &value);
    }
    out.extend(b"Server: s\r\nContent-Length: 0\r\n\r\n");
    out
}

fn same_response(m: &Message<'_>, plain: &Reading, text: &str) {
    let source = "10.200.3.45:5062".parse().unwrap();
    let sources = [None, Some((source, false)), Some((source, true))];
    for (tag, source) in [&b""[..], b"own"].into_iter().zip(sources).chain([(&b"x"[..], sources[2])]) {
        let mut out = Vec::new();
        Response { tag, source, extra: b"Server: s\r\n", ..Response::new(486) }.write(m, &mut out);
        let wanted = plain_response(plain, tag, source);
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&wanted), "{text:?}");
    }
}

fn same_lines(m: &Message<'_>, plain: &Reading, text: &str) {
    let all: Vec<Header<'_>> = m.all_headers().collect();
    assert_eq!(all.len(), plain.headers.len(), "{text:?}");
    for (header, field) in all.iter().zip(&plain.headers) {
        assert_eq!((header.name, &header.line), (field.name, &field.line), "{text:?}");
        // The body may have been cut before what the head was said to be.
        assert_eq!(header.raw_name, &plain.bytes[field.raw_name.clone()], "{text:?}");
        assert_eq!(header.value, plain.value(field), "{text:?}");
    }
    for name in [Name::Via, Name::To, Name::Route, Name::Contact, Name::Other] {
        let lines: Vec<_> = m.headers(name).map(|h| h.line).collect();
        assert_eq!(lines, plain.all(name).map(|f| f.line.clone()).collect::<Vec<_>>(), "{text:?}");
        let split: Vec<&[u8]> = plain.all(name).flat_map(|f| values::values(plain.value(f))).collect();
        assert_eq!(m.values(name).collect::<Vec<_>>(), split, "{text:?}");
    }
    let start = all.first().map_or(m.head_len(), |h| h.line.start);
    assert_eq!(m.headers_start(), start, "{text:?}");
}

#[test]
fn messages_are_read_as_the_plain_walk_reads_them() {
    let mut index = Index::new();
    for seed in 0..rounds() {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut bytes = dice.pick(&MESSAGES).as_bytes().to_vec();
        for _ in 0..dice.below(5) {
            dice.damage(&mut bytes);
        }
        let limits = dice.limits();
        agree(&bytes, &mut index, &limits);
    }
}

/// Every length that a head can have modulo the width of what is looked at together, cut everywhere.
#[test]
fn no_place_of_a_line_matters() {
    let mut index = Index::new();
    for shift in 0..64 {
        let text = MESSAGES[0].replace("Caller", &"c".repeat(shift));
        agree(text.as_bytes(), &mut index, &Limits::default());
        agree(text.replace("v=0", "").as_bytes(), &mut index, &Limits::default());
    }
    for text in MESSAGES {
        for end in 0..text.len() {
            agree(&text.as_bytes()[..end], &mut index, &Limits::default());
        }
    }
}

/// A header value is the same whoever reads it.
pub(super) fn one_value(value: &[u8]) {
    let text = String::from_utf8_lossy(value).into_owned();
    let trimmed = values::trim(value);
    assert_eq!(chars::trim(value), trimmed, "{text:?}");
    assert_eq!(Via::parse(trimmed), values::via(trimmed), "{text:?}");
    assert_eq!(NameAddr::parse(value), values::name_addr(value), "{text:?}");
    assert_eq!(Params::new(value).collect::<Vec<_>>(), values::params(value), "{text:?}");
    for name in [&b"tag"[..], b"lr", b"BRANCH", b"transport"] {
        assert_eq!(Params::new(value).get(name), values::param(value, name), "{text:?}");
    }
    assert_eq!(Values::new(value).collect::<Vec<_>>(), values::values(value), "{text:?}");
    assert_eq!(host_ip(value), values::parse_ip(value), "{text:?}");
    assert_eq!(parse_u64(value), values::number(value), "{text:?}");
    let auth = AuthParams::parse(value).map(|a| (a.scheme, a.iter().collect::<Vec<_>>()));
    assert_eq!(auth, values::auth(value), "{text:?}");
    let uri = Uri::parse(value);
    assert_eq!(uri, values::uri(value), "{text:?}");
    if let Ok(uri) = uri {
        let mut aor = Vec::new();
        uri.write_aor(&mut aor);
        assert_eq!(aor, values::aor(&uri), "{text:?}");
        assert_eq!(uri.host_ip(), values::parse_ip(uri.host), "{text:?}");
    }
}

#[test]
fn values_are_read_as_the_plain_walk_reads_them() {
    let more = [
        "sip:u1000@bench.test",
        "sip:127.0.21.3:25070;lr;transport=udp",
        "sips:a%62c:pw@[2001:db8::10]:5070;x=y?h=v&i=j",
        "sip:a@b.test;lr;x=y",
        "sip:a@b.test;lr;x=y?h=v",
        "sip:b.test:5;d=0123456789abcdef0123456789abcdef;lr",
        "tel:+1-972-555-2222;isub=1",
        "im:someone@example.test",
        "192.168.100.200",
        "255.255.255.255",
        "[2001:db8:::1]",
        "2001:db8::1",
        "18446744073709551615",
        "Digest username=\"bo\\\"b\", realm = \"a,b\" ,nc=00000001,qop=auth,uri=\"sip:a@b\"",
        ";a=1 ; flag;q=\"x;y\\\";z\" ;;last = 2",
        "Digest a=1, b=\"2\" , c = 3",
        "Bob\t<sip:a@b;lr>;tag=1",
        "SIP/2.0/UDP  192.0.2.2 : 5061 ; branch = z9hG4bKkdjuw",
        "SIP/2.0/UDP 192.0.2.2: 5061;branch=z9hG4bKkdjuw",
    ];
    let mut seeds: Vec<&str> = more.to_vec();
    for message in MESSAGES {
        seeds.extend(message.split("\r\n").filter_map(|line| line.split_once(": ")).map(|(_, value)| value));
    }
    for seed in 0..rounds() {
        let mut dice = Dice(seed.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let from = if dice.below(2) == 0 { &more[..] } else { &seeds[..] };
        let mut value = dice.pick(from).as_bytes().to_vec();
        for _ in 0..dice.below(5) {
            dice.damage(&mut value);
        }
        one_value(&value);
    }
}
