//! Call records of the servers, against what the network has seen of the calls.
//!
//! What a server says of calls outlives it, as it does in the mapped file. The truth is made of the messages
//! alone: when an INVITE came to a server first, what the server answered and when, and when BYEs came.

use crate::text::string;
use call_records::{Event, Ledger, Limits, Party, Record};
use core::time::Duration;
use sip_message::{Index, Limits as Sizes, Message, Method, Name, Parsed, Via, parse};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wire::Time;

const LIMITS: Limits = Limits {
    calls: 100_000,
    setup: Duration::from_secs(900),
    session: Some(Duration::from_secs(24 * 3_600)),
    late: Duration::from_secs(72),
    repeated: Duration::from_secs(40),
};

/// What one server has recorded.
pub(crate) struct Book {
    ledger: Ledger,
    done: Vec<Record>,
}

impl Default for Book {
    fn default() -> Book {
        Book { ledger: Ledger::new(LIMITS), done: Vec::new() }
    }
}

impl Book {
    /// A worker says something.
    pub fn apply(&mut self, event: &Event<'_>) {
        self.ledger.apply(event, &mut self.done);
    }

    /// Another process goes on.
    pub fn restart(&mut self) {
        self.ledger = self.ledger.retold();
    }

    /// Closes calls whose time is over.
    pub fn expire(&mut self, now: Time) {
        while self.ledger.expire(now.as_micros(), &mut self.done) {}
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// How many records of a call say that it was answered.
    pub fn answered(&self, call_id: &str) -> usize {
        let of = |record: &&Record| record.source.call_id == call_id.as_bytes() && record.answered.is_some();
        self.done.iter().filter(of).count()
    }

    /// Loses the last record.
    pub fn forget(&mut self) -> bool {
        self.done.pop().is_some()
    }

    /// Moves the end of the last record.
    pub fn delay(&mut self) -> bool {
        let answered = self.done.iter_mut().rev().find(|record| record.answered.is_some());
        answered.map(|record| record.ended += 60_000).is_some()
    }

    /// All records: also of calls that are still open.
    fn all(&mut self) -> &[Record] {
        while !self.ledger.is_empty() {
            self.ledger.expire(u64::MAX, &mut self.done);
        }
        &self.done
    }
}

/// An INVITE without a To tag, as one server has seen it.
struct Invite {
    call_id: String,
    tag: String,
    came: Vec<Time>,
    rang: Option<Time>,
    /// Final responses: when, the status, and the To tag.
    finals: Vec<(Time, u16, String)>,
    /// One who plays no fair game has sent it too.
    hostile: bool,
}

/// A BYE, likewise.
struct Bye {
    call_id: String,
    from: String,
    to: String,
    came: Vec<Time>,
    status: Option<u16>,
}

/// A request as a server tells it from others: the server, Call-ID, From tag, and its sender's Via and CSeq.
type Key = (usize, String);

/// What the network has seen.
#[derive(Default)]
pub(crate) struct Truth {
    index: Index,
    invites: BTreeMap<Key, Invite>,
    byes: BTreeMap<Key, Bye>,
    /// Those who play no fair game.
    hostile: Vec<IpAddr>,
}

impl Truth {
    /// Nothing yet. `hostile`: those who play no fair game.
    pub fn new(hostile: Vec<IpAddr>) -> Truth {
        Truth { hostile, ..Truth::default() }
    }

    /// A message reaches a server.
    pub fn received(&mut self, now: Time, site: usize, from: SocketAddr, bytes: &[u8]) {
        let mut index = core::mem::take(&mut self.index);
        let hostile = self.hostile.contains(&from.ip());
        match parse(bytes, &mut index, &Sizes::default()) {
            Parsed::Good(m) if m.is_request() => self.request(now, site, hostile, &m),
            // Its answer looks like one to the INVITE whose ids it has.
            Parsed::Bad(m, _) if m.is_request() && hostile => {
                if let Some(invite) = self.invites.get_mut(&key(site, &m)) {
                    invite.hostile = true;
                }
            }
            _ => {}
        }
        self.index = index;
    }

    fn request(&mut self, now: Time, site: usize, hostile: bool, m: &Message<'_>) {
        let (call_id, tag) = (string(m.call_id()), string(m.from_tag()));
        match m.method() {
            Method::Invite if m.to_tag().is_empty() => {
                let invite = self.invites.entry(key(site, m)).or_insert(Invite {
                    call_id,
                    tag,
                    came: Vec::new(),
                    rang: None,
                    finals: Vec::new(),
                    hostile: false,
                });
                invite.came.push(now);
                invite.hostile |= hostile;
            }
            Method::Bye => {
                let to = string(m.to_tag());
                let bye = Bye { call_id, from: tag, to, came: Vec::new(), status: None };
                self.byes.entry(key(site, m)).or_insert(bye).came.push(now);
            }
            _ => {}
        }
    }

    /// A server sends a message.
    pub fn sent(&mut self, now: Time, site: usize, bytes: &[u8]) {
        let mut index = core::mem::take(&mut self.index);
        if let Parsed::Good(m) | Parsed::Bad(m, _) = parse(bytes, &mut index, &Sizes::default())
            && !m.is_request()
        {
            self.response(now, site, &m);
        }
        self.index = index;
    }

    fn response(&mut self, now: Time, site: usize, m: &Message<'_>) {
        let (key, status) = (key(site, m), m.status());
        match m.method() {
            Method::Invite => {
                let Some(invite) = self.invites.get_mut(&key) else { return };
                if (180..190).contains(&status) {
                    invite.rang.get_or_insert(now);
                }
                let tag = string(m.to_tag());
                if status >= 200 && !invite.finals.iter().any(|(_, s, t)| (*s, t) == (status, &tag)) {
                    invite.finals.push((now, status, tag));
                }
            }
            Method::Bye => {
                if let Some(bye) = self.byes.get_mut(&key).filter(|_| status >= 200) {
                    bye.status.get_or_insert(status);
                }
            }
            _ => {}
        }
    }

    /// What is wrong with the records of a server. `routed`: it stays in the dialogs of calls. `crashed`: it
    /// has ended in between.
    pub fn judge(&self, site: usize, (routed, crashed): (bool, bool), book: &mut Book) -> Option<String> {
        let mut counts: BTreeMap<&Key, usize> = BTreeMap::new();
        for record in book.all().iter().filter(|r| !self.hostile.contains(&r.source.address.ip())) {
            let (call_id, tag) = (string(&record.source.call_id), string(&record.source.caller_tag));
            let started = Time::from_micros(record.started);
            let of = |(key, invite): &(&Key, &Invite)| {
                let same = invite.call_id == call_id && invite.tag == tag;
                key.0 == site && same && invite.came.contains(&started)
            };
            let Some((key, invite)) = self.invites.iter().find(of) else {
                return Some(format!("server {site}: a record of no INVITE: {record:?}"));
            };
            *counts.entry(key).or_default() += 1;
            if let Some(text) = wrong(record, invite, crashed).filter(|_| !invite.hostile) {
                return Some(format!("server {site}, call {call_id}: {text}: {record:?}"));
            }
            if let Some(text) = self.wrong_end(site, record, invite).filter(|_| routed && !invite.hostile) {
                return Some(format!("server {site}, call {call_id}: {text}: {record:?}"));
            }
        }
        for (key, invite) in self.invites.iter().filter(|(key, invite)| key.0 == site && !invite.hostile) {
            let count = counts.get(key).copied().unwrap_or(0);
            let concluded = |s: u16| matches!(s, 200..=299 | 404 | 408 | 480 | 486 | 487 | 603);
            let one = invite.finals.iter().any(|(_, status, _)| concluded(*status));
            if count > 1 || one && count == 0 {
                let (id, finals) = (&invite.call_id, &invite.finals);
                return Some(format!("server {site}, call {id}: {count} records, answers {finals:?}"));
            }
        }
        None
    }

    /// What is wrong with the end of a call that was answered.
    fn wrong_end(&self, site: usize, record: &Record, invite: &Invite) -> Option<String> {
        record.answered?;
        let of_call = |(key, bye): &(&Key, &Bye)| key.0 == site && bye.call_id == invite.call_id;
        let byes: Vec<&Bye> = self.byes.iter().filter(of_call).map(|(_, bye)| bye).collect();
        let ended = Time::from_micros(record.ended);
        let (from_caller, known) = match record.ended_by {
            Party::Caller => (true, true),
            Party::Callee => (false, true),
            Party::Server | Party::Timeout => (false, false),
        };
        if known {
            let fits = |bye: &&Bye| {
                let from = if from_caller { &bye.from } else { &bye.to };
                *from == invite.tag && bye.came.contains(&ended)
            };
            return (!byes.iter().any(fits)).then(|| "no BYE came when it ended".to_owned());
        }
        let over = |tag: &String| {
            let of = |bye: &&&Bye| bye.to == *tag || bye.from == *tag;
            byes.iter().filter(of).any(|bye| matches!(bye.status, Some(200..=299)))
        };
        let mut answers = invite.finals.iter().filter(|(_, status, _)| (200..300).contains(status));
        answers
            .all(|(_, _, tag)| over(tag))
            .then(|| "it has not ended, and all BYEs were accepted".to_owned())
    }
}

/// What is wrong with a record up to its answer or failure.
fn wrong(record: &Record, invite: &Invite, crashed: bool) -> Option<String> {
    // Nothing has concluded it before the end of the run.
    if record.answered.is_none() && record.ended == u64::MAX {
        return (!crashed).then(|| "it was never concluded".to_owned());
    }
    let time = |micros: Option<u64>| micros.map(Time::from_micros);
    // What goes back to a stranger is bounded: the response may have to wait for a repeated INVITE.
    let stranger = record.source.user.is_empty() && record.source.trunk.is_empty();
    let ringing = time(record.ringing);
    let waited = stranger && ringing.is_some_and(|ringing| invite.rang.is_none_or(|rang| ringing <= rang));
    if ringing != invite.rang && !waited {
        return Some(format!("rang at {:?}", invite.rang));
    }
    let answers = invite.finals.iter().filter(|(_, status, _)| (200..300).contains(status));
    let answered = answers.map(|(at, ..)| *at).min();
    if time(record.answered) != answered {
        return Some(format!("answered at {answered:?}"));
    }
    let first = invite.finals.first().filter(|_| answered.is_none());
    match first {
        Some((at, status, _)) if (record.status, record.ended) != (*status, at.as_micros()) => {
            Some(format!("{status} at {at:?}"))
        }
        None if answered.is_none() && record.status != 408 => Some("no answer was sent".to_owned()),
        _ => None,
    }
}

fn key(site: usize, m: &Message<'_>) -> Key {
    let via = m.values(Name::Via).next().and_then(|value| Via::parse(value).ok()).unwrap_or_default();
    let parts = [m.call_id(), m.from_tag(), via.branch, via.host].map(string);
    (site, format!("{} {:?} {}", parts.join(" "), via.port, m.cseq()))
}
