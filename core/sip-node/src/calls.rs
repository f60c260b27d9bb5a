//! The calls that go through this worker: for people who ask, and for the cap on their number.
//!
//! A proxy needs no memory of calls to forward requests. This table decides three things about messages. Does
//! a stranger's INFO without our token belong to a call here? Does a request forge the ends of a known
//! dialog? Does an INVITE, MESSAGE, REFER or INFO with our token belong to a dialog that exists? Entries are
//! found by Call-ID and the caller's tag. They are removed when the BYE of the last answered dialog is
//! answered, when the set-up fails, or after `session_timeout` without INVITE or UPDATE. If there is no more
//! room, the call that was answered first makes it: that call goes on unseen, and nobody can keep others out
//! by never hanging up. So the cap holds for calls being set up.

mod charges;
mod judging;
mod life;
mod named;

pub use life::Life;

use crate::callees::{Callees, Named};
use crate::channels::{Channels, Holding};
use crate::shortage::Shortage;
use charges::Charges;
use core::mem;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use hashbrown::HashTable;
use seal::Gathered;
use sip_message::{Message, Method};
use sip_proxy::token::{Dialog, Role};
use sip_transaction::{Payer, Share, TableHash};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use wire::{ConnId, Outbox, Time};

/// Nothing is judged for so long after a call was forgotten that may go on.
const GAP: Duration = Duration::from_secs(24 * 3600);
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
    /// The session interval, seconds; 0: it has no session timer (RFC 4028).
    pub session: u32,
    /// Seconds since an INVITE or UPDATE of it was last answered.
    pub refreshed: u64,
    /// What is known of it, if it was answered.
    pub life: Life,
}

struct Entry {
    hash: u64,
    sequence: u64,
    since: Time,
    /// When something of it was seen last.
    seen: Time,
    callees: Callees,
    /// Where its caller wants requests sent.
    named: Named,
    /// A hash of the address of the host that its INVITE came from; 0: not noted.
    origin: u32,
    /// INVITEs that began it and have not failed: a proxy before this server may send one for each of its
    /// targets. While the call is not answered, each has its part of `ringing`.
    attempts: u8,
    /// The session interval of the last 2xx, seconds; 0: there was none (RFC 4028).
    session: u32,
    payer: Payer,
    /// The connection of the caller, if the call keeps it in use.
    conn: Option<ConnId>,
    /// The channels of trunks that it holds.
    channels: Channels,
    /// It gave them back, because its session interval is over.
    released: bool,
    /// Call-ID, From URI and To URI, one after the other.
    text: Vec<u8>,
    call_id: u8,
    from: u8,
}

/// The dialog of a request that had our token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Within {
    /// The one who set it up sent the request.
    by_caller: bool,
    /// Where the callee is, by the token.
    callee: SocketAddr,
    /// The table may not know its call. If the callee sent it, it came from the callee's address.
    unknown: bool,
    /// An INVITE set it up.
    call: bool,
    /// Whether the sender is a trunk, and whether the other end is one.
    trunks: (bool, bool),
}

/// The requests that say something of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Invite,
    Update,
    Bye,
    Other,
}

/// What a request has to do with a call: hashes of its Call-ID with each of its tags. They are of the
/// request, because its receiver may write others into the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DialogKey {
    part: Part,
    from: u64,
    /// Zero in an INVITE without To tag.
    to: u64,
    within: Option<Within>,
}

impl DialogKey {
    /// Of a request that has nothing to do with calls.
    const NONE: DialogKey = DialogKey { part: Part::Other, from: 0, to: 0, within: None };

    /// Whether the request had our token.
    pub const fn is_within(&self) -> bool {
        self.within.is_some()
    }

    /// Whether an INVITE has set up the dialog that the request is of, or sets one up with it.
    pub fn is_of_call(&self) -> bool {
        self.within.map_or(self.part == Part::Invite, |within| within.call)
    }

    /// Whether the sender of the request is the one who began the call.
    pub fn by_caller(&self) -> bool {
        self.within.is_none_or(|within| within.by_caller)
    }

    /// The same of a request that its sender has led elsewhere than to the other end: it says nothing of the
    /// call.
    pub const fn astray(self) -> DialogKey {
        DialogKey { part: Part::Other, from: 0, to: 0, within: self.within }
    }

    /// Whether the sender of the request is a trunk, and whether its receiver is one, by the token.
    pub fn trunk_ends(&self) -> (bool, bool) {
        self.within.map_or((false, false), |within| within.trunks)
    }

    /// What is kept to recognize further 2xx responses: half a hash, or zero if nothing is to be noted.
    pub const fn half(&self) -> u32 {
        if self.within.is_none() { self.from as u32 } else { 0 }
    }
}

/// The table of one worker.
pub(crate) struct Calls {
    table: HashTable<Entry>,
    /// In the order of their beginning: hash and sequence.
    queue: VecDeque<(Time, u64, u64)>,
    /// Those that were answered, in that order.
    answered: VecDeque<(u64, u64)>,
    /// Those that hold channels of trunks.
    holding: Holding,
    spare: Vec<Vec<u8>>,
    /// Connections of calls that are over.
    released: Vec<ConnId>,
    /// What calls take of the channels of their callers.
    charges: Charges,
    limit: usize,
    /// Those being set up.
    ringing: Share,
    hash: TableHash,
    /// Of texts that are longer than nearly all.
    long: SipHasher13,
    sequence: u64,
    /// Names this table in tokens.
    keeper: u16,
    /// When its first call began.
    since: Option<Time>,
    /// Until then calls may go on that are not here.
    gaps_until: Time,
    /// A call whose end was never seen is forgotten one to two times as long after its last INVITE or UPDATE.
    forget: Duration,
}

impl Calls {
    pub fn new(limit: usize, seed: [u64; 2]) -> Calls {
        let (queue, answered) = (VecDeque::new(), VecDeque::new());
        Calls {
            table: HashTable::new(),
            queue,
            answered,
            holding: Holding::default(),
            spare: Vec::new(),
            released: Vec::new(),
            charges: Charges::default(),
            limit,
            ringing: Share::new(limit),
            hash: TableHash::new(seed),
            long: SipHasher13::new_with_keys(seed[0], seed[1]),
            sequence: 0,
            keeper: ((seed[0] ^ seed[1].rotate_left(24)) as u16).max(1),
            since: None,
            gaps_until: Time::ZERO,
            forget: GAP,
        }
    }

    /// What names this table in the tokens of dialogs; never 0.
    pub const fn keeper(&self) -> u16 {
        self.keeper
    }

    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.ringing.set_limit(limit);
    }

    /// Sets after which time without INVITE or UPDATE a call is forgotten.
    pub fn set_forget(&mut self, after: Duration) {
        self.forget = after;
    }

    /// Whether another call may be set up, if there is room for it.
    ///
    /// # Errors
    /// What there is no room in.
    pub fn may_ring(&self, payer: Payer) -> Result<(), Shortage> {
        match self.ringing.admits(payer, 1) {
            true => Ok(()),
            false if self.ringing.has_room(1) => Err(Shortage::Share),
            false => Err(Shortage::Calls),
        }
    }

    /// Makes room for another call, if need be in the place of one that was answered.
    ///
    /// # Errors
    /// What there is no room in.
    pub fn make_room(&mut self, now: Time, payer: Payer) -> Result<(), Shortage> {
        self.may_ring(payer)?;
        // More than one only where the limit was lowered.
        for _ in 0..WORK {
            if self.table.len() < self.limit {
                break;
            }
            let Some((hash, sequence)) = self.answered.pop_front() else { return Err(Shortage::Calls) };
            self.remove(hash, Some(sequence));
            self.gaps_until = now + GAP;
        }
        Ok(())
    }

    /// What a request from `seen` has to do with a call. `dialog`: it had our token. `others`: other servers
    /// may have begun that call.
    pub fn key(
        &self,
        now: Time,
        seen: SocketAddr,
        request: &Message<'_>,
        dialog: Option<&Dialog>,
        others: bool,
    ) -> DialogKey {
        let within = dialog.map(|dialog| {
            let there = dialog.sender.remote.ip().to_canonical() == seen.ip().to_canonical();
            let unknown = (there || dialog.by_caller) && !self.judges(now, dialog, others);
            let callee = dialog.callee().remote;
            let trunks = (dialog.sender.role == Role::Trunk, dialog.peer.role == Role::Trunk);
            Within { by_caller: dialog.by_caller, callee, unknown, call: dialog.call, trunks }
        });
        let part = match request.method() {
            Method::Invite => Part::Invite,
            Method::Update => Part::Update,
            Method::Bye => Part::Bye,
            _ => return DialogKey { within, ..DialogKey::NONE },
        };
        let (call_id, to_tag) = (request.call_id(), request.to_tag());
        let to = if part == Part::Invite && to_tag.is_empty() { 0 } else { self.hash(call_id, to_tag) };
        DialogKey { part, from: self.hash(call_id, request.from_tag()), to, within }
    }

    /// The key of the request that a further 2xx response to an INVITE answers, of which this half was kept.
    pub fn key_of_further(&self, half: u32, response: &Message<'_>) -> DialogKey {
        let from = self.hash(response.call_id(), response.from_tag());
        match half != 0 && half == from as u32 {
            true => DialogKey { part: Part::Invite, from, ..DialogKey::NONE },
            false => DialogKey::NONE,
        }
    }

    /// An INVITE that belongs to no dialog of ours was let through.
    pub fn begin(&mut self, now: Time, key: &DialogKey, invite: &Message<'_>, payer: Payer) {
        self.since.get_or_insert(now);
        let hash = key.from;
        let Some(entry) = self.table.find_mut(hash, |e| e.hash == hash) else {
            return self.insert(now, hash, [invite.call_id(), invite.from_uri(), invite.to_uri()], payer);
        };
        // A spiral, or another target of a proxy before this server.
        if entry.attempts < u8::MAX {
            entry.attempts += 1;
            if !entry.callees.is_answered() {
                self.ringing.take(entry.payer, 1);
            }
        }
    }

    /// The call with this key takes a channel of an account until it ends.
    pub fn charge(&mut self, key: &DialogKey, account: u64) {
        let lives = self.table.find(key.from, |e| e.hash == key.from).is_some();
        self.charges.take(key.from, account, lives);
    }

    /// The accounts of channels that calls have given back.
    #[inline]
    pub fn freed(&mut self) -> impl Iterator<Item = u64> {
        self.charges.freed()
    }

    /// Adds a call that is being set up, with its Call-ID, From URI and To URI.
    fn insert(&mut self, now: Time, hash: u64, [call_id, from, to]: [&[u8]; 3], payer: Payer) {
        self.ringing.take(payer, 1);
        let mut text = self.spare.pop().unwrap_or_default();
        text.clear();
        let call_id = push(call_id, &mut text);
        let from = push(from, &mut text);
        push(to, &mut text);
        self.sequence += 1;
        let entry = Entry {
            hash,
            sequence: self.sequence,
            since: now,
            seen: now,
            callees: Callees::default(),
            named: Named::default(),
            origin: 0,
            attempts: 1,
            session: 0,
            payer,
            conn: None,
            channels: Channels::default(),
            released: false,
            text,
            call_id,
            from,
        };
        self.queue.push_back((now, hash, self.sequence));
        self.table.insert_unique(hash, entry, |e| e.hash);
        // One call that lasts keeps the entries behind it from being dropped at the front.
        let most = 2 * self.table.len() + 64;
        let table = &self.table;
        let live = |hash: u64, sequence| table.find(hash, |e| e.hash == hash && e.sequence == sequence);
        if self.queue.len() > most {
            self.queue.retain(|&(_, hash, sequence)| live(hash, sequence).is_some());
        }
        if self.answered.len() > most {
            self.answered.retain(|&(hash, sequence)| live(hash, sequence).is_some());
        }
    }

    /// A provisional or 2xx response to an INVITE or UPDATE went back. Of an INVITE it may make a dialog
    /// (section 12.1), with a callee at `place`, where the request went. One with another Call-ID or From tag
    /// than the request is not noted (section 8.2.6.2). Returns whether a call goes on that holds no channels
    /// of trunks, although it may need some.
    pub fn responded(
        &mut self,
        now: Time,
        status: u16,
        response: &Message<'_>,
        key: &DialogKey,
        place: SocketAddr,
    ) -> bool {
        let tag = response.to_tag();
        if !(101..300).contains(&status) || (status < 200 && tag.is_empty()) {
            return false;
        }
        if !self.is_of(response, key) {
            return false;
        }
        let callee = self.hash(response.call_id(), tag);
        if let Some(within) = key.within {
            return callee == key.to && self.went_on(now, status, response, (key, within), place);
        }
        let place = self.place(place);
        let Some(entry) = self.table.find_mut(key.from, |e| e.hash == key.from) else { return false };
        entry.seen = now;
        match key.part {
            Part::Invite if status < 200 => entry.callees.ring(callee, place),
            Part::Invite => self.answer(now, key.from, callee, place),
            _ => {}
        }
        false
    }

    /// A 2xx went back to a callee that ignores our Record-Route and has sent an INVITE without token to the
    /// caller, whose call this INVITE has no part in.
    pub fn came_back(&mut self, now: Time, key: &DialogKey) {
        self.remove(key.from, None);
        if let Some(entry) = self.table.find_mut(key.to, |e| e.hash == key.to) {
            entry.seen = now;
        }
    }

    /// A request within a dialog was answered. This makes no dialog. But a call unknown to this table, such
    /// as one from before a restart, is recorded, with each place where it passes this server. Returns
    /// whether its channels of trunks are to be taken again.
    fn went_on(
        &mut self,
        now: Time,
        status: u16,
        response: &Message<'_>,
        (key, within): (&DialogKey, Within),
        place: SocketAddr,
    ) -> bool {
        let (mut from, mut to) = (response.from_uri(), response.to_uri());
        let (caller, callee) = match within.by_caller {
            true => (key.from, key.to),
            false => (key.to, key.from),
        };
        let entry = self.table.find_mut(caller, |e| e.hash == caller);
        let rings = entry.as_ref().is_some_and(|entry| !entry.callees.is_answered());
        let back = entry.map(|entry| {
            entry.seen = now;
            status >= 200 && mem::take(&mut entry.released)
        });
        let (known, back) = (back.is_some(), back.unwrap_or(false));
        // The callee itself has sent the request or its answer.
        let there = !within.by_caller || self.place(place) == self.place(within.callee);
        if status < 200 || !within.unknown || !there || rings {
            return back;
        }
        if !known {
            if self.table.len() >= self.limit {
                return false;
            }
            if !within.by_caller {
                (from, to) = (to, from);
            }
            self.insert(now, caller, [response.call_id(), from, to], Payer::PROVEN);
        }
        self.answer(now, caller, callee, self.place(within.callee));
        back || !known
    }

    /// A 2xx was forwarded for an INVITE that had already been answered with a failure. `first`: it is the
    /// first such 2xx, so its call has not ended since. Returns whether the call was noted anew.
    pub fn answered_late(
        &mut self,
        now: Time,
        response: &Message<'_>,
        key: &DialogKey,
        place: SocketAddr,
        first: bool,
    ) -> bool {
        let from = self.hash(response.call_id(), response.from_tag());
        if from != key.from || key.within.is_some() {
            return false;
        }
        let anew = self.table.find(from, |e| e.hash == from).is_none();
        if anew {
            if !first || self.table.len() >= self.limit {
                return false;
            }
            let parts = [response.call_id(), response.from_uri(), response.to_uri()];
            self.insert(now, from, parts, Payer::PROVEN);
        }
        let callee = self.hash(response.call_id(), response.to_tag());
        self.answer(now, from, callee, self.place(place));
        anew
    }

    /// A callee at this place has answered.
    fn answer(&mut self, now: Time, caller: u64, callee: u64, place: u32) {
        let Some(entry) = self.table.find_mut(caller, |e| e.hash == caller) else { return };
        let first = !entry.callees.is_answered();
        entry.callees.answer(callee, place);
        if first && entry.callees.is_answered() {
            self.ringing.give(entry.payer, usize::from(entry.attempts));
            entry.since = now;
            self.answered.push_back((caller, entry.sequence));
        }
    }

    /// A request got its final response, or (408) none. An INVITE whose 2xx was not noted counts no longer.
    pub fn concluded(&mut self, status: u16, key: &DialogKey) {
        match key.part {
            Part::Invite if key.within.is_none() => {
                let hash = key.from;
                let Some(entry) = self.table.find_mut(hash, |e| e.hash == hash) else { return };
                if entry.callees.is_answered() {
                    entry.attempts = entry.attempts.saturating_sub(u8::from(status >= 300));
                } else if entry.attempts > 1 {
                    entry.attempts -= 1;
                    self.ringing.give(entry.payer, 1);
                } else {
                    self.remove(hash, None);
                }
            }
            // However it is answered, the session is over (section 15.1.1). A BYE that is sent again with
            // credentials needs no entry here. Either end may have sent it.
            Part::Bye => {
                let _ = self.end(key.from, key.to) || self.end(key.to, key.from);
            }
            _ => {}
        }
    }

    /// A 2xx to a request with this key went back with this session interval, seconds. 0: without one.
    pub fn set_session(&mut self, key: &DialogKey, seconds: u32) {
        let caller = if key.by_caller() { key.from } else { key.to };
        if let Some(entry) = self.table.find_mut(caller, |e| e.hash == caller) {
            entry.session = seconds;
        }
    }

    /// A target refused an INVITE: its early dialog is over.
    pub fn refused(&mut self, response: &Message<'_>, key: &DialogKey) {
        let callee = self.hash(response.call_id(), response.to_tag());
        if let Some(entry) = self.table.find_mut(key.from, |e| e.hash == key.from) {
            entry.callees.refuse(callee);
        }
    }

    /// Ends a dialog, and with the last one the call. False if this caller has no call.
    fn end(&mut self, caller: u64, callee: u64) -> bool {
        let Some(entry) = self.table.find_mut(caller, |e| e.hash == caller) else { return false };
        if entry.callees.end(callee) {
            self.remove(caller, None);
        }
        true
    }

    /// Notes that a call which is answered now needs the caller's connection; false if there is no such call,
    /// or it is noted already.
    pub fn takes(&mut self, key: &DialogKey, conn: ConnId) -> bool {
        let hash = key.from;
        let Some(entry) = self.table.find_mut(hash, |e| e.hash == hash) else { return false };
        if entry.conn == Some(conn) {
            return false;
        }
        self.released.extend(entry.conn.replace(conn));
        true
    }

    /// Gives up the connections of calls that are over.
    #[inline]
    pub fn release(&mut self, out: &mut Outbox) {
        self.released.drain(..).for_each(|conn| out.release(conn));
    }

    /// Whether a response has the Call-ID and the caller's tag of the INVITE with this key.
    pub fn is_of(&self, response: &Message<'_>, key: &DialogKey) -> bool {
        self.hash(response.call_id(), response.from_tag()) == key.from
    }

    /// A hash of an address. Phones and a gateway may be at different ports of one.
    fn place(&self, at: SocketAddr) -> u32 {
        let mut text = [0; 18];
        let (ip, port) = text.split_at_mut(16);
        match at.ip().to_canonical() {
            IpAddr::V4(v4) => ip.copy_from_slice(&v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => ip.copy_from_slice(&v6.octets()),
        }
        port.copy_from_slice(&at.port().to_be_bytes());
        self.hash.hash(&text) as u32
    }

    /// The call goes on without this server.
    pub fn left(&mut self, key: &DialogKey) {
        self.remove(key.from, None);
    }

    /// The call of a request with this key holds these channels from here. Without such a call they are given
    /// back at once.
    pub fn hold(&mut self, key: &DialogKey, channels: Channels) {
        let hash = if key.by_caller() { key.from } else { key.to };
        let Some(entry) = self.table.find_mut(hash, |e| e.hash == hash) else { return };
        let (held, sequence) = (!entry.channels.is_empty(), entry.sequence);
        entry.channels.add(channels);
        if !held {
            let (table, most) = (&self.table, 2 * self.table.len() + 64);
            let live = |(hash, sequence)| table.find(hash, |e| e.hash == hash && e.sequence == sequence);
            self.holding.add((hash, sequence), most, |call| live(call).is_some());
        }
    }

    /// Gives back the channels of calls whose session interval is over without a refresh (RFC 4028 section
    /// 8.3): long before such a call is forgotten, and the trunk has them free. Bounded work.
    fn release_lost(&mut self, now: Time) {
        let table = &mut self.table;
        self.holding.look(now, |(hash, sequence)| {
            let entry = table.find_mut(hash, |e| e.hash == hash && e.sequence == sequence);
            let Some(entry) = entry.filter(|entry| !entry.channels.is_empty()) else { return false };
            let lost = Life::of(entry.session, entry.seen, now) == Life::Lost;
            if lost {
                (entry.channels, entry.released) = (Channels::default(), true);
            }
            !lost
        });
    }

    /// Forgets calls whose end was never seen, and cleans the queue. Bounded work.
    pub fn expire(&mut self, now: Time) {
        self.release_lost(now);
        for _ in 0..WORK {
            let Some(&(at, hash, sequence)) = self.queue.front() else { return };
            let live = self.table.find(hash, |e| e.hash == hash && e.sequence == sequence);
            let seen = live.map(|e| (e.seen, Life::of(e.session, e.seen, now)));
            if seen.is_some() && now < at + self.forget {
                return;
            }
            self.queue.pop_front();
            match seen {
                Some((seen, _)) if now < seen + self.forget => self.queue.push_back((seen, hash, sequence)),
                Some((_, Life::Live)) => self.queue.push_back((now, hash, sequence)),
                Some((_, life)) => {
                    // Its phones may still be talking, for all that is known.
                    if life == Life::Unknown && self.forget < GAP {
                        self.gaps_until = now + GAP;
                    }
                    self.remove(hash, Some(sequence));
                }
                None => {}
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// At most `most` calls, from number `from` on. Their order stays the same only as long as no call
    /// begins or ends.
    pub fn list(&self, now: Time, from: usize, most: usize) -> Vec<Call> {
        self.table.iter().skip(from).take(most).map(|e| e.show(now)).collect()
    }

    /// Forgets a call; false if there is no such one.
    fn remove(&mut self, hash: u64, sequence: Option<u64>) -> bool {
        let wanted = |e: &Entry| e.hash == hash && sequence.is_none_or(|s| s == e.sequence);
        let Ok(found) = self.table.find_entry(hash, wanted) else { return false };
        let (entry, _) = found.remove();
        self.charges.give_back(hash);
        if !entry.callees.is_answered() {
            self.ringing.give(entry.payer, usize::from(entry.attempts));
        }
        self.released.extend(entry.conn);
        if self.spare.len() < 1_024 {
            self.spare.push(entry.text);
        }
        // Entries of ended calls at the front go at once, so that the queues follow the table.
        let table = &self.table;
        let live = |hash: u64, sequence| table.find(hash, |e| e.hash == hash && e.sequence == sequence);
        while self.queue.front().is_some_and(|&(_, hash, sequence)| live(hash, sequence).is_none()) {
            self.queue.pop_front();
        }
        while self.answered.front().is_some_and(|&(hash, sequence)| live(hash, sequence).is_none()) {
            self.answered.pop_front();
        }
        true
    }

    fn hash(&self, call_id: &[u8], tag: &[u8]) -> u64 {
        let mut room = [0; 192];
        // A space stands in neither.
        if let Some(text) = room.get_mut(..call_id.len() + 1 + tag.len())
            && let Some((first, rest)) = text.split_at_mut_checked(call_id.len())
            && let Some((space, second)) = rest.split_first_mut()
        {
            first.copy_from_slice(call_id);
            *space = b' ';
            second.copy_from_slice(tag);
            return self.hash.hash(text);
        }
        let mut text = Gathered::<192, _>::new(self.long);
        text.add(call_id);
        text.add(b" ");
        text.add(tag);
        text.finish()
    }
}

impl Entry {
    /// Call-ID, From URI and To URI.
    fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let (call_id, rest) = self.text.split_at(usize::from(self.call_id).min(self.text.len()));
        let (from, to) = rest.split_at(usize::from(self.from).min(rest.len()));
        (call_id, from, to)
    }

    fn show(&self, now: Time) -> Call {
        let (call_id, from, to) = self.parts();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        Call {
            call_id: text(call_id),
            from: text(from),
            to: text(to),
            answered: self.callees.is_answered(),
            seconds: now.since(self.since).as_secs(),
            session: self.session,
            refreshed: now.since(self.seen).as_secs(),
            life: Life::of(self.session, self.seen, now),
        }
    }
}

fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_MAX)]
}

fn push(text: &[u8], out: &mut Vec<u8>) -> u8 {
    let text = cut(text);
    out.extend_from_slice(text);
    text.len() as u8
}

#[cfg(test)]
mod tests;
