//! Messages from somebody who has no account and wishes nobody well. He hears the
//! requests that phones send to their servers, sends from his own address and, over UDP, in the name of
//! others; he does not hear what servers say (their branches are secrets) and cannot send from a
//! phone's address.

use crate::rng::Rng;
use crate::text::{Reader, Request, Sender, string};
use std::net::SocketAddr;
use wire::Transport;

/// The attacker's own address.
pub(crate) const ATTACKER: &str = "198.51.100.66:5060";
/// Somebody who has nothing to do with it all.
pub(crate) const VICTIM: &str = "203.0.113.66";
/// In whose name requests are sent.
pub(crate) const FORGED: &str = "203.0.113.99:5060";

/// One thing to send.
pub(crate) struct Shot {
    /// From [`FORGED`] instead of [`ATTACKER`].
    pub forged: bool,
    /// Over a stream, cut into pieces of this size.
    pub stream: Option<usize>,
    pub bytes: Vec<u8>,
}

impl Shot {
    fn udp(bytes: Vec<u8>) -> Shot {
        Shot { forged: false, stream: None, bytes }
    }
}

/// What the attacker knows when he chooses.
pub(crate) struct Knowledge<'a> {
    /// Messages of phones, overheard.
    pub heard: &'a [Vec<u8>],
    /// A subscriber, and the server's domain and address.
    pub user: &'a str,
    pub domain: &'a str,
    pub server: SocketAddr,
    /// The neighbours that it has as trunks.
    pub trunks: &'a [SocketAddr],
    /// Whether calls get its Record-Route.
    pub recorded: bool,
}

/// A header field of requests that no server may forward.
pub(crate) const CLOSED: &str = "X-Closed";

/// Chooses what to send.
pub(crate) fn shot(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    match rng.below(14) {
        0 => relay(rng, know),
        1 => route(rng, know),
        2 => via(rng, know),
        3 => response(rng, know),
        4 => cancel(rng, know),
        5 => ack(rng, know),
        6 => Shot::udp(heard(rng, know)),
        7 => mutant(rng, know),
        8 => hijack(rng, know),
        9 => reflect(rng, know),
        10 | 11 => closed(rng, know),
        12 => command(rng, know),
        _ => stream(rng, know),
    }
}

fn heard(rng: &mut Rng, know: &Knowledge<'_>) -> Vec<u8> {
    know.heard.get(rng.index(know.heard.len())).cloned().unwrap_or_default()
}

/// Places that no stranger may make a server send to.
fn target(rng: &mut Rng, know: &Knowledge<'_>) -> String {
    let server = know.server.ip();
    match rng.below(9) {
        0 => format!("sip:x@{VICTIM}"),
        1 => "sip:x@victim.test".into(),
        2 => format!("sip:{}@{};maddr={VICTIM}", know.user, know.domain),
        3 => format!("sip:x@{server};maddr={VICTIM}"),
        4 => "sip:x@127.0.0.1:8080".into(),
        5 => "sip:x@169.254.169.254:80".into(),
        6 => format!("sip:x@{server}:8080"),
        7 => format!("sip:{VICTIM}:5060;transport=tcp"),
        _ => format!("sip:x%40victim.test@{VICTIM}?Route=%3Csip:{VICTIM}%3E"),
    }
}

/// Header values for somebody with nothing, or with credentials that are not worth anything.
fn papers(rng: &mut Rng, know: &Knowledge<'_>) -> String {
    let (user, domain) = (know.user, know.domain);
    match rng.below(4) {
        0 => String::new(),
        1 => format!(
            "Proxy-Authorization: Digest username=\"{user}\", realm=\"{domain}\", nonce=\"{:032x}\", \
             uri=\"sip:{domain}\", response=\"{:032x}\"\r\n",
            rng.next(),
            rng.next()
        ),
        2 => "Proxy-Authorization: Digest realm=\r\n".into(),
        _ => {
            // Overheard ones.
            let bytes = heard(rng, know);
            let text = string(&bytes);
            let lines = text.lines().filter(|l| l.contains("uthorization:"));
            lines.map(|l| format!("{l}\r\n")).collect()
        }
    }
}

fn from(rng: &mut Rng, know: &Knowledge<'_>) -> String {
    match rng.below(3) {
        0 => format!("<sip:{}@{}>;tag=x", know.user, know.domain),
        1 => format!("<sip:nobody@{}>;tag=x", know.domain),
        _ => "<sip:evil@evil.test>;tag=x".into(),
    }
}

struct Draft {
    method: &'static str,
    uri: String,
    from: String,
    to: String,
    lines: String,
    via: Option<String>,
    transport: Transport,
}

fn draft(rng: &mut Rng, know: &Knowledge<'_>) -> Draft {
    let methods = ["INVITE", "MESSAGE", "OPTIONS", "BYE", "SUBSCRIBE", "REFER", "ACK", "PRACK", "FROB"];
    Draft {
        method: rng.pick(&methods, "INVITE"),
        uri: format!("sip:{}@{}", know.user, know.domain),
        from: from(rng, know),
        to: format!("<sip:{}@{}>", know.user, know.domain),
        lines: format!("Contact: <sip:evil@{ATTACKER}>\r\n{}", papers(rng, know)),
        via: None,
        transport: Transport::Udp,
    }
}

fn write(rng: &mut Rng, draft: &Draft) -> Vec<u8> {
    let branch = format!("z9hG4bKx{:x}", rng.next());
    let sender = Sender {
        transport: draft.transport,
        sent_by: draft.via.clone().unwrap_or_else(|| ATTACKER.into()),
        rport: rng.chance(500),
    };
    Request {
        method: draft.method,
        uri: &draft.uri,
        branch: &branch,
        from: &draft.from,
        to: &draft.to,
        call_id: &format!("x{:x}", rng.next()),
        cseq: rng.between(1, 9) as u32,
        lines: &draft.lines,
        body: if rng.chance(300) { "\0\r\n\r\nINVITE sip:a SIP/2.0\r\n" } else { "" },
    }
    .write(&sender)
}

/// A request to somewhere else.
fn relay(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let draft = Draft { uri: target(rng, know), ..draft(rng, know) };
    Shot::udp(write(rng, &draft))
}

/// A Route of his own making, a made-up dialog, a made-up token.
fn route(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut draft = draft(rng, know);
    let token = match rng.below(3) {
        0 => String::new(),
        1 => format!(";d={:016x}{:016x}{:016x}", rng.next(), rng.next(), rng.next()),
        _ => ";d=".into(),
    };
    let own = format!("<sip:{};lr{token}>", know.server);
    let far = format!("<{};lr>", target(rng, know));
    let routes = match rng.below(4) {
        0 => far,
        1 => format!("{own}, {far}"),
        2 => format!("{own}\r\nRoute: {own}, {far}"),
        _ => format!("<sip:{};transport=tcp;lr{token}>", know.server),
    };
    draft.lines = format!("Route: {routes}\r\n{}", draft.lines);
    if rng.chance(500) {
        draft.to = format!("{};tag=made-up", draft.to);
    }
    if rng.chance(500) {
        draft.uri = target(rng, know);
    }
    Shot::udp(write(rng, &draft))
}

/// A cell of the table in `docs/design/access.md` that is closed to strangers, whatever their From says.
fn closed(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut draft = draft(rng, know);
    let trunk = know.trunks.get(rng.index(know.trunks.len()));
    let trunk = trunk.map_or(VICTIM.to_string(), |trunk| trunk.ip().to_string());
    let phone = contact(rng, know).unwrap_or_else(|| VICTIM.to_string());
    let voicemail = crate::site::VOICEMAIL.trim_start_matches("sip:vm@");
    let places =
        [phone, trunk, voicemail.to_string(), format!("{}:8080", know.server.ip()), VICTIM.to_string()];
    let number = rng.pick(&["+19005551234", "1900", "sos", "vm2"], "1900");
    let parameter = rng.pick(&["", ";transport=udp", ";user=phone", ";maddr=127.0.0.1", ";lr"], "");
    let place = places.get(rng.index(places.len())).map_or("", String::as_str);
    match rng.below(3) {
        0 => draft.uri = format!("sip:{number}@{place}{parameter}"),
        1 => draft.lines = format!("Route: <sip:{place};lr>\r\n{}", draft.lines),
        _ => {
            let own = format!("<sip:{};lr>", know.server);
            draft.lines = format!("Route: {own}, <sip:{place};lr>\r\n{}", draft.lines);
        }
    }
    // Over the token of a dialog that was overheard, whose other end is none of these.
    let admin = format!("{}:8080", know.server.ip());
    if rng.chance(300)
        && let Some(bytes) =
            know.heard.iter().rev().find_map(|bytes| within(bytes, rng.pick(&[VICTIM, &admin], VICTIM)))
    {
        return Shot::udp(bytes);
    }
    draft.lines = format!("{CLOSED}: 1\r\n{}", draft.lines);
    Shot::udp(write(rng, &draft))
}

/// What phones obey, and no stranger may send them: a method outside of any call, or an INVITE that they
/// answer by themselves.
fn command(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut draft = draft(rng, know);
    draft.lines = format!("{CLOSED}: 1\r\nEvent: check-sync\r\n");
    match rng.below(4) {
        0 => draft.method = rng.pick(&["REFER", "NOTIFY", "SUBSCRIBE", "PUBLISH"], "REFER"),
        1 | 2 => draft.method = rng.pick(&["BYE", "INFO", "UPDATE", "PRACK"], "INFO"),
        _ => {
            draft.method = "INVITE";
            match rng.below(3) {
                0 => draft.uri.push_str(";intercom=true"),
                1 => draft.to = format!("<sip:{}@{};answer-after=0>", know.user, know.domain),
                _ => draft.lines.push_str("Require: replaces\r\n"),
            }
        }
    }
    // A To tag is enough for methods that phones refuse outside of dialogs, and for all without our
    // Record-Route.
    let believed = match draft.method {
        "BYE" | "PRACK" | "UPDATE" => true,
        method => !know.recorded && method != "INVITE",
    };
    if !believed && rng.chance(700) {
        draft.to = format!("{};tag=made-up", draft.to);
    }
    Shot::udp(write(rng, &draft))
}

/// Where a phone that was overheard is registered.
fn contact(rng: &mut Rng, know: &Knowledge<'_>) -> Option<String> {
    let bytes = heard(rng, know);
    let mut reader = Reader::default();
    let m = reader.read(&bytes).filter(|m| m.method().as_bytes() == b"REGISTER")?;
    let uri = crate::text::uri_of(m.header(sip_message::Name::Contact)?.value);
    Some(crate::text::address_of(uri.as_bytes())?.to_string())
}

/// A request of a dialog with a Route that no proxy recorded.
fn within(bytes: &[u8], place: &str) -> Option<Vec<u8>> {
    let mut reader = Reader::default();
    let m = reader.read(bytes).filter(|m| m.is_request())?;
    // Behind several it would be the next server's to refuse.
    m.lone_value(sip_message::Name::Route)?;
    let branch = string(m.via().branch);
    let text = string(bytes).replacen(&branch, &format!("{branch}x"), 1);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let route = format!("{CLOSED}: 1\r\nRoute: <sip:{place};lr>");
    Some(format!("{head}\r\n{route}\r\n\r\n{body}").into_bytes())
}

/// A Via that points elsewhere.
fn via(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut draft = draft(rng, know);
    let via = match rng.below(6) {
        0 => format!("{VICTIM}:5060"),
        1 => format!("{VICTIM}:5060;received={VICTIM}"),
        2 => format!("{ATTACKER};maddr={VICTIM}"),
        3 => format!("{ATTACKER};received={VICTIM};rport=5060"),
        4 => "255.255.255.255:5060".into(),
        _ => format!("127.0.0.1:5060;ttl=255;maddr={VICTIM}"),
    };
    draft.via = Some(via);
    if rng.chance(400) {
        draft.uri = format!("sip:{}", know.domain);
    }
    Shot::udp(write(rng, &draft))
}

/// An answer to something that the server may have asked.
fn response(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let bytes = heard(rng, know);
    let mut reader = Reader::default();
    let Some(m) = reader.read(&bytes) else { return relay(rng, know) };
    let via = string(m.via().raw);
    let status =
        rng.pick(&["100 Trying", "200 OK", "302 Moved", "486 Busy Here", "503 No", "603 No"], "200 OK");
    // The real ones are unguessable: slot, generation and hash.
    let branch = format!("z9hG4bKs{:016x}.{:016x}", rng.next() & 0xf_0000_0003, rng.next());
    let text = format!(
        "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP {};branch={branch}\r\nVia: {via}\r\nFrom: <sip:x@x>;tag={}\r\n\
         To: <sip:y@y>;tag=evil\r\nCall-ID: {}\r\nCSeq: {} {}\r\nContact: <sip:{VICTIM}>\r\n\
         Content-Length: 0\r\n\r\n",
        know.server,
        string(m.from_tag()),
        string(m.call_id()),
        m.cseq(),
        string(m.method().as_bytes())
    );
    Shot::udp(text.into_bytes())
}

/// A request of a phone as another method with the same ids.
fn as_method(bytes: &[u8], method: &str) -> Option<Vec<u8>> {
    let mut reader = Reader::default();
    let m = reader.read(bytes).filter(|m| m.method().as_bytes() == b"INVITE" && m.is_request())?;
    let line = |name: &str, value: String| format!("{name}: {value}\r\n");
    let header = |name| m.header(name).map_or(String::new(), |h| string(h.value));
    let text = format!(
        "{method} {} SIP/2.0\r\n{}Max-Forwards: 70\r\n{}{}{}CSeq: {} {method}\r\nContent-Length: 0\r\n\r\n",
        string(m.request_uri()),
        line("Via", string(m.via().raw)),
        line("From", header(sip_message::Name::From)),
        line("To", header(sip_message::Name::To)),
        line("Call-ID", string(m.call_id())),
        m.cseq()
    );
    Some(text.into_bytes())
}

fn cancel(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let invite = know.heard.iter().rev().find_map(|b| as_method(b, "CANCEL"));
    invite.map_or_else(|| relay(rng, know), Shot::udp)
}

fn ack(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let method = rng.pick(&["ACK", "BYE"], "ACK");
    let invite = know.heard.iter().rev().find_map(|b| as_method(b, method));
    invite.map_or_else(|| relay(rng, know), Shot::udp)
}

/// An overheard message with something broken.
fn mutant(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut bytes = heard(rng, know);
    for _ in 0..rng.between(1, 6) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.index(bytes.len());
        match rng.below(5) {
            0 => bytes[at] = rng.next() as u8,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, rng.pick(b"\r\n\0;,:<>\"@ ", b' ')),
            3 => {
                let end = (at + rng.index(60)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                bytes.remove(at);
            }
        }
    }
    Shot { forged: false, stream: rng.chance(300).then(|| 1 + rng.index(400)), bytes }
}

/// A registration for somebody else.
fn hijack(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let contact = match rng.below(4) {
        0 => "*".into(),
        1 => format!("<sip:{}@{VICTIM}>", know.user),
        2 => format!("<sip:{}@{ATTACKER}>;expires=4294967296", know.user),
        _ => format!("<sip:{}@{ATTACKER}>", know.user),
    };
    let papers = papers(rng, know).replace("Proxy-Auth", "Auth");
    let draft = Draft {
        method: "REGISTER",
        uri: format!("sip:{}", know.domain),
        from: format!("<sip:{}@{}>;tag=x", know.user, know.domain),
        lines: format!("Contact: {contact}\r\nExpires: {}\r\n{papers}", rng.pick(&[0, 60, 3600], 60)),
        ..draft(rng, know)
    };
    Shot::udp(write(rng, &draft))
}

/// A request in the name of somebody else, who will get the answer: at most one, and no more.
fn reflect(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut draft = draft(rng, know);
    draft.via = Some(FORGED.into());
    draft.from = format!("<sip:{}@{}>;tag=x", know.user, know.domain);
    draft.lines = String::new();
    draft.method = rng.pick(&["INVITE", "OPTIONS", "REGISTER", "MESSAGE"], "INVITE");
    Shot { forged: true, stream: None, bytes: write(rng, &draft) }
}

/// Bytes on a stream that are no messages, or too much of one.
fn stream(rng: &mut Rng, know: &Knowledge<'_>) -> Shot {
    let mut bytes = match rng.below(6) {
        0 => b"\r\n\r\n\r\n\r\n\r\n".to_vec(),
        1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        2 => (0..rng.between(1, 3_000)).map(|_| rng.next() as u8).collect(),
        3 => {
            let mut draft = draft(rng, know);
            draft.transport = Transport::Tcp;
            string(&write(rng, &draft)).replace("Content-Length: ", "Content-Length: 4294967296").into_bytes()
        }
        4 => {
            let mut draft = draft(rng, know);
            draft.transport = Transport::Tcp;
            string(&write(rng, &draft)).replace("Content-Length: ", "X: ").into_bytes()
        }
        _ => {
            let mut draft = draft(rng, know);
            draft.transport = Transport::Tcp;
            draft.uri = target(rng, know);
            write(rng, &draft)
        }
    };
    if rng.chance(300) {
        bytes.truncate(rng.index(bytes.len()));
    }
    Shot { forged: false, stream: Some(1 + rng.index(700)), bytes }
}
