//! The calls that go through this worker: for people who ask, and for the cap on their number.
//!
//! A proxy needs no memory of calls, and this table decides nothing about messages. Entries are found
//! by Call-ID and are gone when the BYE is answered, when the set-up fails, or, if the end was never
//! seen, after a day.

use core::hash::Hasher;
use core::time::Duration;
use hashbrown::HashTable;
use sip_message::{Message, Method};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use wire::Time;

/// After this a call whose end was never seen is forgotten.
const FORGET: Duration = Duration::from_secs(24 * 3600);
/// Longest text kept of a URI or Call-ID.
const TEXT_MAX: usize = 96;
/// Old entries looked at in one go.
const WORK: usize = 64;

/// A call as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its Call-ID, cut to 96 bytes.
    pub call_id: String,
    /// The caller's URI, likewise.
    pub from: String,
    /// The callee's URI, likewise.
    pub to: String,
    /// Whether it was answered.
    pub answered: bool,
    /// Seconds since the INVITE, or since the answer.
    pub seconds: u64,
}

struct Entry {
    hash: u64,
    sequence: u64,
    since: Time,
    answered: bool,
    /// Call-ID, From URI and To URI, one after the other.
    text: Vec<u8>,
    call_id: u8,
    from: u8,
}

/// The table of one worker.
pub(crate) struct Calls {
    table: HashTable<Entry>,
    /// In the order of their beginning: hash and sequence.
    queue: VecDeque<(Time, u64, u64)>,
    spare: Vec<Vec<u8>>,
    limit: usize,
    seed: [u64; 2],
    sequence: u64,
}

impl Calls {
    pub fn new(limit: usize, seed: [u64; 2]) -> Calls {
        Calls { table: HashTable::new(), queue: VecDeque::new(), spare: Vec::new(), limit, seed, sequence: 0 }
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether another call may begin.
    pub fn has_room(&self) -> bool {
        self.table.len() < self.limit
    }

    /// An INVITE without To tag was let through.
    pub fn begin(&mut self, now: Time, invite: &Message<'_>) {
        let hash = self.hash(invite.call_id());
        if self.table.find(hash, |e| e.hash == hash).is_some() {
            // A repeated attempt (credentials, say) or a spiral.
            return;
        }
        let mut text = self.spare.pop().unwrap_or_default();
        text.clear();
        let call_id = push(invite.call_id(), &mut text);
        let from = push(invite.from_uri(), &mut text);
        push(invite.to_uri(), &mut text);
        self.sequence += 1;
        let entry = Entry { hash, sequence: self.sequence, since: now, answered: false, text, call_id, from };
        self.queue.push_back((now, hash, self.sequence));
        self.table.insert_unique(hash, entry, |e| e.hash);
        // One call that lasts keeps the entries behind it from being dropped at the front.
        if self.queue.len() > 2 * self.table.len() + 64 {
            let table = &self.table;
            let live = |hash: u64, sequence| table.find(hash, |e| e.hash == hash && e.sequence == sequence);
            self.queue.retain(|&(_, hash, sequence)| live(hash, sequence).is_some());
        }
    }

    /// A final response went back. `message` is that response, or the request it answers.
    pub fn concluded(&mut self, now: Time, method: Method<'_>, status: u16, message: &Message<'_>) {
        let hash = self.hash(message.call_id());
        let ended = match method {
            Method::Invite if status < 300 => {
                if let Some(entry) = self.table.find_mut(hash, |e| e.hash == hash)
                    && !entry.answered
                {
                    entry.answered = true;
                    entry.since = now;
                }
                false
            }
            Method::Invite => self.table.find(hash, |e| e.hash == hash).is_some_and(|e| !e.answered),
            // However it is answered, the session is over (section 15.1.1), unless it is to be sent again.
            Method::Bye => !matches!(status, 401 | 407),
            _ => false,
        };
        if ended {
            self.remove(hash, None);
        }
    }

    /// The call goes on without this server.
    pub fn left(&mut self, message: &Message<'_>) {
        let hash = self.hash(message.call_id());
        self.remove(hash, None);
    }

    /// Forgets calls whose end was never seen, and cleans the queue. Bounded work.
    pub fn expire(&mut self, now: Time) {
        for _ in 0..WORK {
            let Some(&(since, hash, sequence)) = self.queue.front() else { return };
            let live = self.table.find(hash, |e| e.hash == hash && e.sequence == sequence).is_some();
            if live && now < since + FORGET {
                return;
            }
            self.queue.pop_front();
            if live {
                self.remove(hash, Some(sequence));
            }
        }
    }

    /// All calls.
    pub fn list(&self, now: Time) -> Vec<Call> {
        self.table.iter().map(|e| e.show(now)).collect()
    }

    fn remove(&mut self, hash: u64, sequence: Option<u64>) {
        let wanted = |e: &Entry| e.hash == hash && sequence.is_none_or(|s| s == e.sequence);
        if let Ok(found) = self.table.find_entry(hash, wanted) {
            let (entry, _) = found.remove();
            if self.spare.len() < 1_024 {
                self.spare.push(entry.text);
            }
        }
        // Entries of ended calls at the front go at once, so that the queue follows the table.
        while let Some(&(_, hash, sequence)) = self.queue.front() {
            if self.table.find(hash, |e| e.hash == hash && e.sequence == sequence).is_some() {
                break;
            }
            self.queue.pop_front();
        }
    }

    fn hash(&self, call_id: &[u8]) -> u64 {
        let mut hash = SipHasher13::new_with_keys(self.seed[0], self.seed[1]);
        hash.write(call_id);
        hash.finish()
    }
}

impl Entry {
    fn show(&self, now: Time) -> Call {
        let (call_id, rest) = self.text.split_at(usize::from(self.call_id).min(self.text.len()));
        let (from, to) = rest.split_at(usize::from(self.from).min(rest.len()));
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        Call {
            call_id: text(call_id),
            from: text(from),
            to: text(to),
            answered: self.answered,
            seconds: now.since(self.since).as_secs(),
        }
    }
}

fn push(text: &[u8], out: &mut Vec<u8>) -> u8 {
    let text = &text[..text.len().min(TEXT_MAX)];
    out.extend_from_slice(text);
    text.len() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::{Index, Limits, Parsed, parse};

    #[test]
    fn one_call_that_lasts_keeps_no_memory_of_those_behind_it() {
        let mut calls = Calls::new(10, [1, 2]);
        let mut with = |id: usize, what: &mut dyn FnMut(&mut Calls, &Message<'_>)| {
            let text = format!(
                "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@x>;tag=1\r\n\
                 To: <sip:b@x>\r\nCall-ID: {id}\r\nCSeq: 1 INVITE\r\n\r\n"
            );
            let mut index = Index::new();
            let Parsed::Good(invite) = parse(text.as_bytes(), &mut index, &Limits::default()) else {
                panic!()
            };
            what(&mut calls, &invite);
        };
        with(0, &mut |calls, invite| calls.begin(Time::ZERO, invite));
        for id in 1..10_000 {
            with(id, &mut |calls, invite| {
                calls.begin(Time::ZERO, invite);
                calls.concluded(Time::ZERO, Method::Invite, 486, invite);
            });
        }
        assert_eq!(calls.table.len(), 1);
        assert!(calls.queue.len() < 100, "{}", calls.queue.len());
    }
}
