//! What must hold, checked on every message that a server sends and on what it remembers.

use crate::records::Truth;
use crate::text::string;
use core::hash::Hasher;
use core::time::Duration;
use sip_message::{Index, Limits, Message, Method, Name, NameAddr, Parsed, parse, parse_u32};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::{Time, Transport};

/// The properties that a run checks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Check {
    /// One final response per server transaction; its repetitions are the same bytes. Several 2xx to an
    /// INVITE come from several phones (their To tags differ).
    OneFinal,
    /// Responses go to where the request came from and nowhere else.
    RightPeer,
    /// After 64*T1, timer C and some more of silence nothing is left of any transaction.
    NoLeak,
    /// No binding is found after its time, and none that its user did not ask for.
    BindingEnds,
    /// A binding that was confirmed more than a second before a crash is there after the restart.
    BindingKept,
    /// With a network that loses nothing every call goes as its script says.
    CallSucceeds,
    /// Whatever the network does, every transaction of a phone ends.
    NoHang,
    /// Nobody without an account makes a server send something to a third party.
    NoRelay,
    /// What a server sends is well-formed.
    WellFormed,
    /// Each attempt to call has one record, with the times and the outcome that it had.
    RecordTrue,
    /// The same seed gives the same bytes at the same times.
    SameBytes,
    /// The simulation itself comes to an end.
    Terminates,
}

/// A property that did not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which one.
    pub check: Check,
    /// What was seen.
    pub detail: String,
}

/// Which server, which of its lives, and which policy it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who {
    pub site: usize,
    pub life: u32,
    pub epoch: u32,
}

/// A server transaction as it can be told from outside.
type Key = (usize, u32, String);

struct Seen {
    /// Where the request came from, and the port that its Via asks for where it asks for one.
    sources: Vec<(SocketAddr, Option<u16>)>,
    good: bool,
}

struct Answer {
    status: u16,
    to_tag: String,
    hash: u64,
    epoch: u32,
}

/// A confirmation of a binding: when, and until when it holds.
#[derive(Clone, Copy, Debug)]
struct Confirmed {
    at: Time,
    until: Time,
}

/// When a server last ended and came back, and whether the wall clock was set meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub crash: Time,
    /// What was confirmed by then outlives it. After a kill that is the time of the crash, after a power cut
    /// the time when all was on the disk last.
    pub kept: Time,
    /// It was in the midst of an operation of its disk: what it had not said yet may be there.
    pub within: bool,
    pub restart: Time,
    pub clock_set: bool,
}

/// Watches all servers of a run.
#[derive(Default)]
pub(crate) struct Monitor {
    index: Index,
    seen: BTreeMap<Key, Seen>,
    finals: BTreeMap<(Key, SocketAddr), Vec<Answer>>,
    bindings: BTreeMap<(usize, String, String), Vec<Confirmed>>,
    outages: BTreeMap<usize, Outage>,
    /// REGISTERs by server and address-of-record: when the last came, and the latest end that any asked for.
    asked: BTreeMap<(usize, String), (Time, Time)>,
    /// The same: when one last may have been carried out without a 200, and
    /// until when what it asked for may last.
    unsure: BTreeMap<(usize, String), (Time, Time)>,
    /// The contacts that the phones of an address-of-record use.
    pub contacts: BTreeMap<String, Vec<String>>,
    /// Everybody that a server may have a reason to talk to.
    pub peers: Vec<SocketAddr>,
    /// By how much bindings may end early or late after a restart, because clocks were set a little.
    pub drift: Duration,
    /// The servers have too little room to remember every answer.
    pub forgetful: bool,
    /// Addresses that play no fair game.
    pub hostile: Vec<IpAddr>,
    /// Requests with this forged source, less answers to it.
    pub reflected: BTreeMap<SocketAddr, i64>,
    pub violation: Option<Violation>,
    /// Final responses compared with an earlier one.
    pub repeated: u64,
    /// What the records of calls have to say.
    pub truth: Truth,
}

impl Monitor {
    /// Notes a violation; the first one counts.
    pub fn violate(&mut self, check: Check, detail: String) {
        self.violation.get_or_insert(Violation { check, detail });
    }

    /// A message reaches a server.
    pub fn received(&mut self, now: Time, who: Who, from: SocketAddr, bytes: &[u8]) {
        let mut index = core::mem::take(&mut self.index);
        let (message, good) = match parse(bytes, &mut index, &Limits::default()) {
            Parsed::Good(m) => (Some(m), true),
            Parsed::Bad(m, _) => (Some(m), false),
            Parsed::Garbage(_) => (None, false),
        };
        if let Some(m) = message.filter(|m| m.is_request() && m.method() != Method::Ack) {
            let via = m.via();
            let port = via.rport.is_none().then_some(via.port_or_default());
            let seen = self.seen.entry(key(who, &m)).or_insert(Seen { sources: Vec::new(), good });
            if !seen.sources.contains(&(from, port)) {
                seen.sources.push((from, port));
            }
            seen.good &= good;
            if m.method() == Method::Register {
                let asked = m.header(Name::Expires).and_then(|h| parse_u32(h.value)).unwrap_or(3_600);
                let until = now + Duration::from_secs(asked.into());
                let last = self.asked.entry((who.site, aor_of(&m))).or_insert((now, until));
                *last = (now, until.max(last.1));
            }
            if !good {
                // Its answer may not even have a method to tell it by.
                let key = loose_key(who, &m);
                let loose = self.seen.entry(key).or_insert(Seen { sources: Vec::new(), good: false });
                loose.sources.push((from, port));
            }
        }
        self.index = index;
    }

    /// A server sends a message.
    pub fn sent(&mut self, now: Time, who: Who, transport: Transport, to: SocketAddr, bytes: &[u8]) {
        let mut index = core::mem::take(&mut self.index);
        match parse(bytes, &mut index, &Limits::default()) {
            Parsed::Good(m) if m.is_request() => self.request_sent(transport, to, &m),
            Parsed::Good(m) => self.response_sent(now, who, transport, to, &m, true),
            Parsed::Bad(m, _) if !m.is_request() => self.response_sent(now, who, transport, to, &m, false),
            Parsed::Bad(_, flaw) => {
                let text = string(bytes.get(..bytes.len().min(200)).unwrap_or(b""));
                self.violate(Check::WellFormed, format!("a request with a flaw ({flaw:?}): {text}"));
            }
            Parsed::Garbage(why) => {
                let text = string(bytes.get(..bytes.len().min(200)).unwrap_or(b""));
                self.violate(Check::WellFormed, format!("not a message ({why}): {text}"));
            }
        }
        self.index = index;
    }

    fn request_sent(&mut self, transport: Transport, to: SocketAddr, m: &Message<'_>) {
        // A stream that the other side opened has a port of its own.
        let stream = transport != Transport::Udp && to.port() >= 50_000;
        let known = |p: &SocketAddr| *p == to || stream && p.ip() == to.ip();
        let closed = m.headers(Name::Other).any(|h| string(h.raw_name) == crate::attack::CLOSED);
        if closed || !self.peers.iter().any(known) {
            let what = format!("to {to}: {}", string(m.bytes().get(..m.head_len()).unwrap_or(b"")));
            self.violate(Check::NoRelay, what);
        }
    }

    fn response_sent(
        &mut self,
        now: Time,
        who: Who,
        transport: Transport,
        to: SocketAddr,
        m: &Message<'_>,
        good: bool,
    ) {
        let key = key(who, m);
        let what = format!("{} to {} {}", m.status(), string(m.method().as_bytes()), string(m.call_id()));
        let loose = self.seen.get(&loose_key(who, m));
        let Some(seen) = self.seen.get(&key).or(loose) else {
            return self.violate(Check::RightPeer, format!("{what} to {to}: no such request was received"));
        };
        let right = |&(from, port): &(SocketAddr, Option<u16>)| {
            from == to || from.ip() == to.ip() && (port == Some(to.port()) || transport != Transport::Udp)
        };
        let flawed = loose.is_some_and(|s| s.sources.iter().any(right));
        if seen.good && !good && !flawed {
            return self.violate(Check::WellFormed, format!("{what}: a response with a flaw"));
        }
        if !flawed && !seen.sources.iter().any(right) {
            let sources = format!("{:?}", seen.sources);
            return self
                .violate(Check::RightPeer, format!("{what} to {to}; the request came from {sources}"));
        }
        if let Some(balance) = self.reflected.get_mut(&to) {
            *balance -= 1;
            if *balance < 0 {
                let text = format!("{what}: more answers to {to} than requests in its name");
                self.violate(Check::NoRelay, text);
            }
        }
        // Whoever sends different requests with the same ids may get different answers.
        if !self.hostile.contains(&to.ip()) {
            self.final_sent(now, who, key, to, m, &what);
        }
    }

    fn final_sent(&mut self, now: Time, who: Who, key: Key, to: SocketAddr, m: &Message<'_>, what: &str) {
        let forgetful = self.forgetful;
        let earlier = self.finals.entry((key, to)).or_default();
        if m.status() < 200 {
            if !forgetful && earlier.iter().any(|a| a.epoch == who.epoch) {
                self.violate(Check::OneFinal, format!("{what} to {to} after a final response"));
            }
            return;
        }
        let answer =
            Answer { status: m.status(), to_tag: string(m.to_tag()), hash: masked_hash(m), epoch: who.epoch };
        let invite = m.method() == Method::Invite;
        let success = |status: u16| (200..300).contains(&status);
        // Each 2xx to an INVITE is forwarded, also after a failure response (RFC 3261 section 16.7 step 5): a
        // callee that was given up after a CANCEL, because nothing came from it, may have answered all the
        // same.
        let fork = |a: &Answer| {
            invite && success(answer.status) && (!success(a.status) || a.to_tag != answer.to_tag)
        };
        let other =
            earlier.iter().find(|a| !forgetful && a.epoch == who.epoch && !fork(a) && a.hash != answer.hash);
        if let Some(other) = other {
            let text = format!("{what} to {to} after {} with another text or tag", other.status);
            return self.violate(Check::OneFinal, text);
        }
        let first = earlier.is_empty();
        if first {
            earlier.push(answer);
        } else {
            self.repeated += 1;
            if earlier.iter().all(|a| a.to_tag != answer.to_tag) {
                earlier.push(answer);
            }
        }
        if first && m.method() == Method::Register {
            match m.status() {
                200 => self.confirmed(now, who.site, m),
                // Memory may keep what could not be written.
                503 => self.doubt(now, who.site, &aor_of(m)),
                _ => {}
            }
        }
    }

    /// What was asked for an address-of-record may be so without a 200.
    fn doubt(&mut self, now: Time, site: usize, aor: &str) {
        let key = (site, aor.to_string());
        if let Some((_, until)) = self.asked.get(&key) {
            self.unsure.insert(key, (now, *until));
        }
    }

    /// A 200 to a REGISTER lists all bindings of the address-of-record.
    fn confirmed(&mut self, now: Time, site: usize, m: &Message<'_>) {
        let aor = aor_of(m);
        let mut listed = Vec::new();
        for value in m.values(Name::Contact) {
            let Ok(contact) = NameAddr::parse(value) else { continue };
            let seconds = contact.param(b"expires").and_then(parse_u32).unwrap_or(0);
            listed.push((string(contact.uri), now + Duration::from_secs(seconds.into())));
        }
        let gone: Vec<String> = self
            .bindings
            .keys()
            .filter(|(s, a, c)| *s == site && *a == aor && !listed.iter().any(|(l, _)| l == c))
            .map(|(_, _, c)| c.clone())
            .collect();
        listed.extend(gone.into_iter().map(|contact| (contact, now)));
        for (contact, until) in listed {
            let list = self.bindings.entry((site, aor.clone(), contact)).or_default();
            list.push(Confirmed { at: now, until });
        }
    }

    /// A server was killed and has come back; `found` are the bindings it has now, with their ends.
    pub fn restarted(&mut self, site: usize, outage: Outage, found: &[(String, String, Time)]) {
        // A row that was written before the clock was set says so at every later start, too.
        let before = self.outages.get(&site).is_some_and(|o| o.clock_set);
        let clock_set = outage.clock_set || before;
        self.outages.insert(site, Outage { clock_set, ..outage });
        if outage.within {
            let asked = self.asked.iter().filter(|((s, _), (at, _))| *s == site && *at == outage.crash);
            let asked: Vec<String> = asked.map(|((_, aor), _)| aor.clone()).collect();
            asked.iter().for_each(|aor| self.doubt(outage.crash, site, aor));
        }
        for (aor, contact, until) in found {
            // Its end must be one that was promised before the crash.
            self.still_there(*until, site, aor, contact);
        }
        let mut lost = None;
        let unsure = &self.unsure;
        for ((_, aor, contact), list) in self.bindings.iter_mut().filter(|((s, _, _), _)| *s == site) {
            let doubted = unsure.get(&(site, aor.clone())).map(|(at, _)| *at);
            let there = found.iter().find(|(a, c, _)| a == aor && c == contact).map(|(_, _, until)| *until);
            // Set forward, the clock may rightly end bindings.
            if !clock_set
                && let Some(last) = broken_promise(list, &outage, there, self.drift)
                && doubted.is_none_or(|at| at < last.at)
            {
                lost.get_or_insert(format!(
                    "{aor} at {contact}, confirmed at {:?} until {:?}, has {there:?}",
                    last.at, last.until
                ));
            }
            // From here on this counts, rightly lost or not.
            list.push(Confirmed { at: outage.restart, until: there.unwrap_or(outage.restart) });
        }
        if let Some(text) = lost {
            let text = format!("site {site} lost {text}; it crashed at {:?}", outage.crash);
            self.violate(Check::BindingKept, text);
        }
    }

    /// A server would use this binding now.
    pub fn still_there(&mut self, now: Time, site: usize, aor: &str, contact: &str) {
        if !self.contacts.get(aor).is_some_and(|c| c.iter().any(|c| c == contact)) {
            return self
                .violate(Check::BindingEnds, format!("{aor} is bound to {contact}: none of its phones"));
        }
        let list = self.bindings.get(&(site, aor.to_string(), contact.to_string()));
        if let Some((at, until)) = self.unsure.get(&(site, aor.to_string()))
            && list.and_then(|l| l.last()).is_none_or(|last| last.at <= *at)
            && now <= *until + Duration::from_secs(2)
        {
            return;
        }
        let Some(last) = list.and_then(|l| l.last()).copied() else {
            return self.violate(Check::BindingEnds, format!("{aor} is bound to {contact}: never confirmed"));
        };
        let limit = match self.outages.get(&site) {
            Some(o) if last.at < o.restart => {
                // What was said after that may be unsaid: the word before counts.
                let recent = list.into_iter().flatten().rev();
                let known = recent.filter(|c| c.at > o.kept);
                let before = list.and_then(|l| l.iter().rev().find(|c| c.at <= o.kept));
                let all = known.chain(before);
                let all = all.map(|c| c.until + Duration::from_secs(2)).max().unwrap_or(last.until);
                // If the clock was set back meanwhile, what was granted at any time may be granted again.
                let granted = list.into_iter().flatten().map(|c| c.until.since(c.at)).max();
                let again = o.restart + granted.unwrap_or_default() + Duration::from_secs(2);
                (if o.clock_set { all.max(again) } else { all }) + self.drift
            }
            _ => last.until,
        };
        // What is told of a binding in answers to others is rounded down to whole seconds.
        if now > limit + Duration::from_secs(1) {
            let text =
                format!("{aor} is still bound to {contact} at {now:?}; its time was over at {limit:?}");
            self.violate(Check::BindingEnds, text);
        }
    }
}

/// The confirmation that a restarted server has not kept: one that was to outlive this end, and the binding
/// is gone or ends too early. What came later may have been kept or not.
fn broken_promise(
    list: &[Confirmed],
    outage: &Outage,
    there: Option<Time>,
    drift: Duration,
) -> Option<Confirmed> {
    let promised = |c: &&Confirmed| c.at <= outage.kept;
    let last = list.iter().rev().find(promised)?;
    let shortened_later = list.iter().any(|c| c.at > last.at && c.until < last.until);
    let slack = Duration::from_secs(2) + drift;
    let kept = match there {
        Some(until) => until + slack >= last.until,
        None => last.until <= outage.restart + slack,
    };
    (!kept && !shortened_later).then_some(*last)
}

fn key(who: Who, m: &Message<'_>) -> Key {
    let via = m.via();
    let text = format!(
        "{} {} {} {} {} {}",
        string(m.method().as_bytes()),
        m.cseq(),
        string(m.call_id()),
        string(m.from_tag()),
        string(via.branch),
        string(via.host)
    );
    (who.site, who.life, text)
}

/// What is left to tell the answer to a malformed request by.
fn loose_key(who: Who, m: &Message<'_>) -> Key {
    (who.site, who.life, format!("flawed {} {}", string(m.via().branch), string(m.via().host)))
}

/// `user@host` of the To header.
fn aor_of(m: &Message<'_>) -> String {
    let uri = string(m.to_uri());
    uri.strip_prefix("sip:").unwrap_or(&uri).to_ascii_lowercase()
}

/// A hash of a response without the nonces in it: an answer without memory makes a new one each time.
fn masked_hash(m: &Message<'_>) -> u64 {
    let mut hash = SipHasher13::new_with_keys(0, 0);
    if !matches!(m.status(), 401 | 407) {
        hash.write(m.bytes());
        return hash.finish();
    }
    let mut rest = m.bytes();
    while let Some(at) = rest.windows(7).position(|w| w == b"nonce=\"") {
        hash.write(rest.get(..at).unwrap_or(b""));
        let after = rest.get(at + 7..).unwrap_or(b"");
        let end = after.iter().position(|&b| b == b'"').unwrap_or(0);
        rest = after.get(end..).unwrap_or(b"");
    }
    hash.write(rest);
    hash.finish()
}
