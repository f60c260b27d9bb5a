//! A simulated phone: registers with digest, calls, answers, hangs up. It is written from the RFCs and
//! shares with the server only the reading of messages, so that it can tell right from wrong.

mod callee;
mod caller;
mod client;

pub(crate) use callee::{Leg, LegState};
pub(crate) use caller::{Call, CallSpec, Final, Stage};

use crate::rng::Rng;
use crate::text::{Reader, Request, Sender, address_of, string, uri_of};
use crate::translation::Translation;
use callee::Answer;
use client::{Client, Ended, Opening, Party, Purpose, State};
use core::time::Duration;
use sip_auth::{Algorithm, Question, ha1, response};
use sip_message::{AuthParams, Message, Method, Name};
use std::net::SocketAddr;
use wire::{Time, Transport};

/// Something to send. With `conn` on that connection if it is still there, else to the address.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub to: SocketAddr,
    pub conn: Option<u64>,
    pub bytes: Vec<u8>,
}

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub address: SocketAddr,
    pub conn: Option<u64>,
}

/// What a phone does when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// Rings and answers after that many milliseconds.
    Answers(u64),
    /// Says 486.
    Busy,
    /// Rings, then says 603.
    Declines,
    /// Says 480.
    Away,
    /// Rings until it is cancelled.
    Rings,
    /// Says nothing at all to anything but what concerns its registration.
    Silent,
}

/// What a phone is, for the whole run.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub user: String,
    pub domain: String,
    pub password: String,
    pub algorithm: Algorithm,
    pub transport: Transport,
    /// The address that the network sees.
    pub network: SocketAddr,
    /// The address that the phone believes it has.
    pub claimed: SocketAddr,
    pub rport: bool,
    /// What is between it and the network, if it is on UDP.
    pub translation: Option<Translation>,
    /// How often it sends a keepalive.
    pub keepalive: Option<Duration>,
    /// Its server.
    pub home: SocketAddr,
    pub manner: Manner,
    pub registers: bool,
    /// Seconds to ask for.
    pub expires: u32,
    /// In thousandths.
    pub q: u32,
    /// Uses the nonce it has instead of waiting for a challenge.
    pub eager: bool,
    /// Takes its binding away at the end.
    pub leaves: bool,
}

impl Profile {
    pub fn aor(&self) -> String {
        format!("{}@{}", self.user, self.domain)
    }

    /// What all its requests have in common.
    pub fn sender(&self) -> Sender {
        Sender { transport: self.transport, sent_by: self.claimed.to_string(), rport: self.rport }
    }

    pub fn contact(&self) -> String {
        let parameter = match self.transport {
            Transport::Udp => String::new(),
            transport => format!(";transport={transport}"),
        };
        format!("sip:{}@{}{parameter}", self.user, self.claimed)
    }
}

/// A challenge being used.
struct Challenge {
    realm: String,
    nonce: String,
    algorithm: Algorithm,
    count: u32,
}

/// The registration of a phone.
#[derive(Default)]
struct Registration {
    call_id: String,
    cseq: u32,
    expires: u32,
    tries: u32,
    next: Option<Time>,
    /// When the last REGISTER was first sent.
    asked: Time,
    /// When the last REGISTER that was accepted began, and when that was known.
    confirmed: Option<(Time, Time)>,
}

/// One end of a dialog (RFC 3261 section 12).
#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    pub call_id: String,
    /// From and To as this end writes them.
    pub local: String,
    pub remote: String,
    pub local_tag: String,
    pub remote_tag: String,
    pub target: String,
    pub routes: Vec<String>,
    pub cseq: u32,
}

/// A question asked outside of dialogs, and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub method: &'static str,
    pub aor: String,
    call_id: String,
    tag: String,
    tries: u32,
    pub result: Option<Final>,
}

/// The phone.
pub(crate) struct Phone {
    pub profile: Profile,
    pub calls: Vec<Call>,
    pub legs: Vec<Leg>,
    pub asks: Vec<Ask>,
    pub out: Vec<Packet>,
    /// After this it registers no more.
    pub retires: Time,
    rng: Rng,
    clients: Vec<Client>,
    answers: Vec<Answer>,
    challenge: Option<Challenge>,
    registration: Registration,
    /// When the next keepalive is due.
    keep_at: Time,
}

impl Phone {
    pub fn new(profile: Profile, begins: Time, retires: Time, rng: Rng) -> Phone {
        let next = profile.registers.then_some(begins);
        let expires = profile.expires;
        let keep_at = profile.keepalive.map_or(Time::FAR, |interval| begins + interval);
        let mut phone = Phone {
            profile,
            calls: Vec::new(),
            legs: Vec::new(),
            asks: Vec::new(),
            out: Vec::new(),
            retires,
            rng,
            clients: Vec::new(),
            answers: Vec::new(),
            challenge: None,
            registration: Registration { next, expires, ..Registration::default() },
            keep_at,
        };
        phone.registration.call_id = phone.token("r");
        phone
    }

    /// Whether the server confirmed the binding, and lately.
    pub fn is_registered(&self) -> bool {
        self.registration.confirmed.is_some()
    }

    /// When the last REGISTER that the server accepted began, and when that was known.
    pub fn confirmed(&self) -> Option<(Time, Time)> {
        self.registration.confirmed
    }

    /// Transactions of any kind still going on, for the check that nothing hangs. An INVITE within a
    /// dialog whose 2xx was lost too often ends with the dialog.
    pub fn open_clients(&self) -> usize {
        let over = |c: &Client| match c.purpose {
            Purpose::Within(Party::Caller(call)) if c.method == "INVITE" => {
                self.calls.get(call).is_none_or(|c| c.stage == Stage::Over)
            }
            _ => false,
        };
        self.clients.iter().filter(|c| c.state != State::Done && !over(c)).count()
    }

    fn token(&mut self, prefix: &str) -> String {
        format!("{prefix}{:016x}", self.rng.next())
    }

    fn reliable(&self) -> bool {
        self.profile.transport.is_reliable()
    }

    /// Sends a request in a transaction of its own.
    fn begin(
        &mut self,
        now: Time,
        purpose: Purpose,
        method: &'static str,
        cseq: u32,
        to: SocketAddr,
        write: impl FnOnce(&mut Phone, &str) -> Vec<u8>,
    ) {
        let branch = self.token("z9hG4bK");
        let bytes = write(self, &branch);
        let packet = Packet { to, conn: None, bytes };
        let opening = Opening { branch, method, cseq, purpose };
        self.clients.push(Client::new(now, opening, self.reliable(), &packet));
        self.out.push(packet);
    }

    /// The credentials line for a request, if there is a challenge to answer.
    fn credentials(&mut self, method: &str, uri: &str, fresh: bool) -> String {
        if !fresh && !self.profile.eager {
            return String::new();
        }
        let cnonce = format!("{:08x}", self.rng.next() as u32);
        let p = &self.profile;
        let Some(c) = &mut self.challenge else { return String::new() };
        c.count += 1;
        let nc = format!("{:08x}", c.count);
        let secret = ha1(c.algorithm, p.user.as_bytes(), c.realm.as_bytes(), p.password.as_bytes());
        let question = Question {
            method: method.as_bytes(),
            uri: uri.as_bytes(),
            nonce: c.nonce.as_bytes(),
            counted: Some((nc.as_bytes(), cnonce.as_bytes(), b"auth")),
        };
        let proof = string(response(&secret, &question).as_bytes());
        let header = if method == "REGISTER" { "Authorization" } else { "Proxy-Authorization" };
        let algorithm = match c.algorithm {
            Algorithm::Md5 => "MD5",
            Algorithm::Sha256 => "SHA-256",
            Algorithm::Sha512_256 => "SHA-512-256",
        };
        format!(
            "{header}: Digest username=\"{}\", realm=\"{}\", nonce=\"{}\", uri=\"{uri}\", response=\"{proof}\", \
             algorithm={algorithm}, qop=auth, nc={nc}, cnonce=\"{cnonce}\"\r\n",
            p.user, c.realm, c.nonce
        )
    }

    /// Takes the challenge of a 401 or 407 over; false: it has none that can be answered.
    fn learn(&mut self, message: &Message<'_>) -> bool {
        let name = if message.status() == 401 { Name::WwwAuthenticate } else { Name::ProxyAuthenticate };
        for header in message.headers(name) {
            let Some(params) = AuthParams::parse(header.value) else { continue };
            let algorithm = params.get(b"algorithm").map_or(Some(Algorithm::Md5), Algorithm::from_name);
            let (Some(realm), Some(nonce)) = (params.get(b"realm"), params.get(b"nonce")) else { continue };
            if algorithm != Some(self.profile.algorithm) || realm != self.profile.domain.as_bytes() {
                continue;
            }
            self.challenge = Some(Challenge {
                realm: string(realm),
                nonce: string(nonce),
                algorithm: self.profile.algorithm,
                count: 0,
            });
            return true;
        }
        false
    }

    // ------------------------------------------------------------- registration

    fn register(&mut self, now: Time, fresh: bool) {
        self.registration.cseq += 1;
        self.registration.asked = now;
        self.registration.next = None;
        let cseq = self.registration.cseq;
        let home = self.profile.home;
        self.begin(now, Purpose::Register, "REGISTER", cseq, home, |phone, branch| {
            let p = phone.profile.clone();
            let uri = format!("sip:{}", p.domain);
            let expires = phone.registration.expires;
            let credentials = phone.credentials("REGISTER", &uri, fresh);
            let q = if p.q < 1000 { format!(";q=0.{:03}", p.q) } else { String::new() };
            let lines = format!("Contact: <{}>{q}\r\nExpires: {expires}\r\n{credentials}", p.contact());
            let aor = format!("<sip:{}@{}>", p.user, p.domain);
            let (from, call_id) = (format!("{aor};tag=r{cseq}"), phone.registration.call_id.clone());
            let (method, uri, from, to) = ("REGISTER", &*uri, &*from, &*aor);
            Request { method, uri, branch, from, to, call_id: &call_id, cseq, lines: &lines, body: "" }
                .write(&p.sender())
        });
    }

    fn registered(&mut self, now: Time, message: &Message<'_>) {
        let r = &mut self.registration;
        match message.status() {
            200 => {
                r.tries = 0;
                r.confirmed = (r.expires > 0).then_some((r.asked, now));
                if r.expires > 0 {
                    let half = Duration::from_secs(u64::from(r.expires) / 2);
                    r.next = Some(now + half);
                }
            }
            401 | 407 => {
                r.tries += 1;
                let again = r.tries < 4;
                if again && self.learn(message) {
                    return self.register(now, true);
                }
                self.registration.tries = 0;
                self.registration.next = Some(now + Duration::from_secs(10));
            }
            423 => {
                let least = message.header(Name::MinExpires).and_then(|h| sip_message::parse_u32(h.value));
                r.expires = least.unwrap_or(60).max(r.expires);
                self.register(now, false);
            }
            _ => r.next = Some(now + Duration::from_secs(5)),
        }
    }

    /// The connection to the server was lost: a phone registers again soon.
    pub fn connection_lost(&mut self, now: Time) {
        if self.profile.registers && self.registration.expires > 0 {
            let soon = now + Duration::from_millis(1_500);
            self.registration.next = Some(self.registration.next.map_or(soon, |n| n.min(soon)));
        }
    }

    // ------------------------------------------------------------- questions

    /// Sends an OPTIONS or a MESSAGE to somebody.
    pub fn ask(&mut self, now: Time, method: &'static str, aor: &str) {
        let (call_id, tag) = (self.token("q"), self.token("t"));
        self.asks.push(Ask { method, aor: aor.into(), call_id, tag, tries: 0, result: None });
        self.ask_again(now, self.asks.len() - 1, false);
    }

    fn ask_again(&mut self, now: Time, index: usize, fresh: bool) {
        let Some(ask) = self.asks.get_mut(index) else { return };
        ask.tries += 1;
        let (ask, home) = (ask.clone(), self.profile.home);
        self.begin(now, Purpose::Ask(index), ask.method, ask.tries, home, |phone, branch| {
            let uri = format!("sip:{}", ask.aor);
            let credentials = phone.credentials(ask.method, &uri, fresh);
            let from = format!("<sip:{}>;tag={}", phone.profile.aor(), ask.tag);
            let body = if ask.method == "MESSAGE" { "hello" } else { "" };
            let to = format!("<{uri}>");
            Request {
                method: ask.method,
                uri: &uri,
                branch,
                from: &from,
                to: &to,
                call_id: &ask.call_id,
                cseq: ask.tries,
                lines: &credentials,
                body,
            }
            .write(&phone.profile.sender())
        });
    }

    fn asked(&mut self, now: Time, index: usize, message: &Message<'_>) {
        let tries = self.asks.get(index).map_or(9, |a| a.tries);
        if matches!(message.status(), 401 | 407) && tries < 4 && self.learn(message) {
            return self.ask_again(now, index, true);
        }
        if let Some(ask) = self.asks.get_mut(index) {
            ask.result = Some(Final::Status(message.status()));
        }
    }

    // ------------------------------------------------------------- coming in

    /// A whole message.
    pub fn receive(&mut self, now: Time, from: Source, bytes: &[u8]) {
        let mut reader = Reader::default();
        let Some(message) = reader.read(bytes) else { return };
        if message.is_request() {
            self.request(now, from, &message);
        } else {
            self.response(now, &message);
        }
    }

    fn response(&mut self, now: Time, message: &Message<'_>) {
        let branch = message.via().branch;
        let found = self
            .clients
            .iter_mut()
            .find(|c| c.branch.as_bytes() == branch && c.method.as_bytes() == message.method().as_bytes());
        let Some(client) = found else { return };
        let status = message.status();
        let before = client.state;
        if client.response(now, status, &mut self.out).is_none() {
            return;
        }
        let (purpose, cseq, is_invite) = (client.purpose, client.cseq, client.method == "INVITE");
        if is_invite && status >= 300 {
            let ack = ack_of(&client.bytes, message);
            client.acknowledge(ack, &mut self.out);
        }
        if status < 200 {
            if let Purpose::Invite(call) = purpose {
                self.progress(now, call, status);
            }
            return;
        }
        let repeated = before == State::Done;
        match purpose {
            Purpose::Register => self.registered(now, message),
            Purpose::Invite(call) => self.concluded(now, call, message),
            Purpose::Cancel => {}
            Purpose::Within(party) => self.within_answered(now, party, cseq, is_invite, repeated, message),
            Purpose::Ask(index) => self.asked(now, index, message),
        }
    }

    fn request(&mut self, now: Time, from: Source, message: &Message<'_>) {
        if self.profile.manner == Manner::Silent && message.method() != Method::Bye {
            return;
        }
        if self.repeat_answer(from, message) {
            return;
        }
        match message.method() {
            Method::Ack => self.acknowledged(now, message),
            Method::Cancel => self.cancelled(now, from, message),
            Method::Invite => self.invited(now, from, message),
            Method::Bye => self.hung_up(now, from, message),
            _ => {
                self.answer(now, from, message, 200, "", "");
            }
        }
    }

    // ------------------------------------------------------------- time

    /// When [`Phone::timeout`] wants to be called.
    pub fn next_deadline(&self) -> Time {
        let clients = self.clients.iter().map(Client::deadline).min().unwrap_or(Time::FAR);
        let calls = self.calls.iter().map(Call::deadline).min().unwrap_or(Time::FAR);
        let legs = self.legs.iter().map(Leg::deadline).min().unwrap_or(Time::FAR);
        let leaves =
            if self.profile.leaves && self.registration.expires > 0 { self.retires } else { Time::FAR };
        let register = self.registration.next.filter(|&n| n < self.retires).unwrap_or(Time::FAR);
        clients.min(calls).min(legs).min(register).min(leaves).min(self.keep_at)
    }

    pub fn timeout(&mut self, now: Time) {
        let mut ended = Vec::new();
        let out = &mut self.out;
        self.clients.retain_mut(|c| match c.timeout(now, out) {
            Some(end) => {
                ended.push(end);
                false
            }
            None => true,
        });
        for end in ended {
            match end {
                Ended::Timeout(Purpose::Register, _) => {
                    self.registration.next = Some(now + Duration::from_secs(2));
                }
                Ended::Timeout(Purpose::Invite(call), cseq) => self.no_answer(call, cseq),
                Ended::Timeout(Purpose::Ask(index), _) => {
                    if let Some(ask) = self.asks.get_mut(index) {
                        ask.result = Some(Final::Timeout);
                    }
                }
                Ended::Timeout(Purpose::Within(party), _) => self.within_lost(party),
                Ended::Timeout(Purpose::Cancel, _) | Ended::Gone => {}
            }
        }
        if self.registration.next.is_some_and(|n| n <= now && n < self.retires) {
            self.register(now, false);
        }
        if self.profile.leaves && self.retires <= now && self.registration.expires > 0 {
            self.registration.expires = 0;
            self.register(now, false);
        }
        if let Some(interval) = self.profile.keepalive.filter(|_| self.keep_at <= now) {
            self.keep_at = now + interval;
            self.out.push(Packet { to: self.profile.home, conn: None, bytes: b"\r\n\r\n".to_vec() });
        }
        self.calls_timeout(now);
        self.legs_timeout(now);
        self.answers.retain(|a| a.until > now);
    }

    // ------------------------------------------------------------- dialogs

    /// Sends a request within a dialog, in a transaction unless it is an ACK.
    fn within(
        &mut self,
        now: Time,
        party: Party,
        dialog: &Dialog,
        method: &'static str,
        cseq: u32,
        fresh: bool,
    ) {
        let to = self.next_hop(dialog);
        let dialog = dialog.clone();
        self.begin(now, Purpose::Within(party), method, cseq, to, |phone, branch| {
            phone.write_within(&dialog, method, cseq, branch, fresh)
        });
    }

    fn write_within(&mut self, d: &Dialog, method: &str, cseq: u32, branch: &str, fresh: bool) -> Vec<u8> {
        let mut lines = String::new();
        for route in &d.routes {
            lines.push_str(&format!("Route: {route}\r\n"));
        }
        if method == "INVITE" {
            lines.push_str(&format!("Contact: <{}>\r\n", self.profile.contact()));
        }
        if method != "ACK" {
            lines.push_str(&self.credentials(method, &d.target, fresh));
        }
        let Dialog { target: uri, local: from, remote: to, call_id, .. } = d;
        Request { method, uri, branch, from, to, call_id, cseq, lines: &lines, body: "" }
            .write(&self.profile.sender())
    }

    /// Where requests of a dialog go first.
    fn next_hop(&self, dialog: &Dialog) -> SocketAddr {
        let route = dialog.routes.first().map(|r| uri_of(r.as_bytes()));
        let uri = route.unwrap_or_else(|| dialog.target.clone());
        address_of(uri.as_bytes()).unwrap_or(self.profile.home)
    }
}

/// The ACK of a failed INVITE (17.1.1.3).
fn ack_of(invite: &[u8], response: &Message<'_>) -> Vec<u8> {
    let mut reader = Reader::default();
    let Some(request) = reader.read(invite) else { return Vec::new() };
    let header = |m: &Message<'_>, name| m.header(name).map_or(String::new(), |h| string(h.value));
    let uri = string(request.request_uri());
    let mut text = format!("ACK {uri} SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\n", string(request.via().raw));
    for route in request.headers(Name::Route) {
        text.push_str(&format!("Route: {}\r\n", string(route.value)));
    }
    text.push_str(&format!(
        "From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {} ACK\r\nContent-Length: 0\r\n\r\n",
        header(&request, Name::From),
        header(response, Name::To),
        string(request.call_id()),
        request.cseq()
    ));
    text.into_bytes()
}
