//! Requests that may have to be sent once more, as they were received.
//!
//! Most of what comes is forwarded and forgotten: who sent it repeats it. These are kept, until they are
//! answered:
//!
//! - an INVITE outside a dialog, because another node may have to get it,
//! - what came over a stream, which nobody repeats, and leaves in a datagram, which may be lost: it is
//!   repeated here (RFC 3261 section 17.1), and so is a refusal that goes the other way (17.2.1),
//! - what leaves over a stream, which may turn out to be dead.
//!
//! To send one again is to receive it again: it passes the same checks, and goes where it belongs by now.

use crate::sessions::index::Index;
use crate::timers::{GIVE_UP, LATE, T1, T2};
use crate::transmit::{GENERATION, TransmitToken};
use crate::{CallKey, MethodClass, NodeIndex};
use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;
use wire::{ConnId, Flow, Time};

/// Most that are kept at one time.
const MOST: usize = 65_536;
/// Most bytes of them.
const MOST_BYTES: usize = 64 << 20;
/// A buffer that grew beyond this is freed after use.
const KEEP_CAPACITY: usize = 4 << 10;
/// Deadlines for each of them, and besides, of which all but one may say nothing any more.
const STALE: usize = 3;
const SPARE: usize = 64;

/// What is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeptMessage {
    /// A request to a node.
    ToNode,
    /// A request of a node's side to the caller's.
    ToCaller,
    /// A node's refusal of an INVITE, to its caller.
    Refusal,
    /// A CANCEL or BYE of our own to this node.
    Own(NodeIndex),
}

/// What a message is kept under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MessageKey {
    pub what: KeptMessage,
    pub call: CallKey,
    pub id: u64,
    pub class: MethodClass,
}

/// The place of an entry in the store.
#[derive(Clone, Copy, Debug)]
struct Slot {
    due: Time,
    generation: u32,
    used: bool,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) key: MessageKey,
    /// Where it came from, and the message.
    pub(super) from: Flow,
    pub(super) bytes: Vec<u8>,
    /// An INVITE outside a dialog.
    pub(super) fresh: bool,
    /// Who has it, and whether that one has said something provisional.
    pub(super) node: NodeIndex,
    pub(super) rang: bool,
    /// A node has answered with more than 100: a phone may be ringing, and the caller knows.
    pub(super) alerted: bool,
    /// From one repetition to the next, and when that comes.
    pub(super) wait: Duration,
    pub(super) repeat: Time,
    /// When it is forgotten.
    pub(super) until: Time,
    /// How often a way of it was found to lead nowhere, or its node silent.
    pub(super) tries: u8,
    /// It has left a node that ignored it.
    pub(super) ignored: bool,
    /// What the node that has it and has said something provisional may have forgotten.
    pub(super) memory: Memory,
    /// How often that one got it once more because of that.
    pub(super) reminded: u8,
    /// A final response went back, and when.
    pub(super) settled: bool,
    ended: Time,
    /// It was our own, of this status: nobody has the call, whatever a node says.
    pub(super) refused: Option<u16>,
    /// From when on that one is told again that it is over.
    tell_at: Time,
    /// Who had it before.
    earlier: Vec<Earlier>,
    slot: Slot,
}

/// Whether a node still knows an INVITE that it has said something provisional to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// As far as is known.
    Whole,
    /// It has been down since, and may have been started anew.
    InDoubt,
    /// It has got it once more since.
    Renewed,
}

/// A node that had an INVITE, whether it has said something provisional since it was last told that it is
/// over, and from when on it is told again.
#[derive(Clone, Copy, Debug)]
struct Earlier {
    node: NodeIndex,
    rang: bool,
    tell_at: Time,
}

/// All of one worker.
#[derive(Debug)]
pub(crate) struct MessageStore {
    entries: Vec<Entry>,
    free: Vec<u32>,
    index: Index,
    /// Deadlines; one that is not its entry's any more says nothing.
    due: BinaryHeap<Reverse<(Time, u32, u32)>>,
    most: usize,
    bytes: usize,
    /// What there was no room for, since start.
    pub missed: u64,
}

/// What the index knows a message by.
fn hashed(id: u64, class: MethodClass, what: KeptMessage) -> CallKey {
    let kind = match what {
        KeptMessage::ToNode => 0,
        KeptMessage::Refusal => 0x100,
        KeptMessage::ToCaller => 0x200,
        // Two nodes may be told the same.
        KeptMessage::Own(node) => 0x300 | u64::from(node.0) << 16,
    };
    CallKey(id, kind | class as u64)
}

fn hash_of(entries: &[Entry], at: u32) -> CallKey {
    let entry = invariant::some!(entries.get(at as usize), "an indexed message has a place");
    entry.map_or(CallKey(0, 0), |entry| hashed(entry.key.id, entry.key.class, entry.key.what))
}

impl MessageStore {
    /// Nothing, with room for as many as `calls` or as many as there may be.
    pub fn new(calls: usize) -> MessageStore {
        let most = calls.clamp(16, MOST);
        MessageStore {
            entries: Vec::new(),
            free: Vec::new(),
            index: Index::new(most),
            due: BinaryHeap::new(),
            most,
            bytes: 0,
            missed: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Keeps a message; `None`: there is no room, or it is kept already.
    pub fn keep(&mut self, key: MessageKey, from: Flow, message: &[u8], until: Time) -> Option<u32> {
        if self.len() >= self.most || self.bytes + message.len() > MOST_BYTES {
            self.missed += 1;
            return None;
        }
        if self.find(key.id, key.class, key.what).is_some() {
            return None;
        }
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.entries.push(Entry::new(from));
                self.entries.len() as u32 - 1
            }
        };
        let entry = invariant::some!(self.entries.get_mut(at as usize), "a free place is one")?;
        let (mut bytes, generation) = (std::mem::take(&mut entry.bytes), entry.slot.generation);
        bytes.clear();
        bytes.extend_from_slice(message);
        let slot = Slot { due: Time::FAR, generation, used: true };
        *entry = Entry { key, bytes, until, slot, ..Entry::new(from) };
        self.bytes += message.len();
        self.index.insert(hashed(key.id, key.class, key.what), at);
        Some(at)
    }

    /// The message with this id and method that goes this way.
    pub fn find(&self, id: u64, class: MethodClass, what: KeptMessage) -> Option<u32> {
        self.index.find(hashed(id, class, what), |at| hash_of(&self.entries, at))
    }

    /// The connection that a request came on, if it is still kept.
    pub fn conn_of(&self, id: u64, class: MethodClass, what: KeptMessage) -> Option<ConnId> {
        self.get(self.find(id, class, what)?)?.from.conn
    }

    /// How often the way of a request that is kept was found to lead nowhere.
    pub fn tries(&self, id: u64, class: MethodClass, what: KeptMessage) -> u8 {
        let at = self.find(id, class, what);
        at.and_then(|at| self.get(at)).map_or(0, |entry| entry.tries)
    }

    /// Forgets what is kept under an id, if it is.
    pub fn forget_by(&mut self, id: u64, class: MethodClass, what: KeptMessage) {
        if let Some(at) = self.find(id, class, what) {
            self.forget(at);
        }
    }

    /// With which status an INVITE was refused here after a node had it, if it was.
    pub fn refusal(&self, id: u64) -> Option<u16> {
        let at = self.find(id, MethodClass::Invite, KeptMessage::ToNode)?;
        self.get(at)?.refused
    }

    /// The caller has got a refusal of ours: it is not repeated any more.
    pub fn refusal_acknowledged(&mut self, id: u64) {
        let Some(at) = self.find(id, MethodClass::Invite, KeptMessage::ToNode) else { return };
        if let Some(entry) = self.get_mut(at).filter(|entry| entry.refused.is_some()) {
            entry.repeat = Time::FAR;
        }
    }

    /// Whether a node that answers an INVITE is another one than the one whose answer it is to have.
    pub fn has_left(&self, id: u64, node: NodeIndex) -> bool {
        let at = self.find(id, MethodClass::Invite, KeptMessage::ToNode);
        at.and_then(|at| self.get(at)).is_some_and(|entry| entry.has_left(node))
    }

    /// Whether an INVITE has been at another node before, so that both may have sent it to the same phone.
    /// That takes the second one for a copy that came by another way and says 482 (RFC 3261 section 8.2.2.2).
    /// To the caller this is no loop of its own, and it may well try again.
    pub fn is_merged(&self, id: u64) -> bool {
        let at = self.find(id, MethodClass::Invite, KeptMessage::ToNode);
        at.and_then(|at| self.get(at)).is_some_and(|entry| entry.fresh && entry.has_earlier())
    }

    /// A node knows that an INVITE that it had is over.
    pub fn told(&mut self, id: u64, node: NodeIndex) {
        let at = self.find(id, MethodClass::Invite, KeptMessage::ToNode);
        if let Some(entry) = at.and_then(|at| self.get_mut(at)) {
            entry.mark(node, false);
        }
    }

    /// One of them.
    pub fn get(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize).filter(|entry| entry.slot.used)
    }

    /// One of them.
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Entry> {
        self.entries.get_mut(at as usize).filter(|entry| entry.slot.used)
    }

    /// The places of all.
    pub fn places(&self) -> impl ExactSizeIterator<Item = u32> + use<> {
        0..self.entries.len() as u32
    }

    /// What a transmit of it is known by.
    pub fn token(&self, at: u32) -> u64 {
        let entry = invariant::some!(self.get(at), "a sent message is stored");
        entry.map_or(0, |entry| TransmitToken::Kept(at, entry.slot.generation, entry.node).to_u64())
    }

    /// The message of which a transmit with such a token could not be sent, if it still waits for it: not
    /// where it is answered, and not where another node has it by now.
    pub fn of_token(&self, at: u32, generation: u32, node: NodeIndex) -> Option<u32> {
        let same = |e: &&Entry| e.slot.generation & GENERATION == generation && e.node == node && !e.settled;
        self.get(at).filter(same).map(|_| at)
    }

    /// When one of them is looked at next: when it is repeated or its time is up, or at `look` if that is
    /// sooner.
    pub fn arm_or(&mut self, at: u32, look: Time) {
        if let Some(due) = self.get(at).map(|entry| entry.repeat.min(entry.until).min(look)) {
            self.arm(at, due);
        }
    }

    /// Takes the message out to be received again; it is brought back by [`MessageStore::bring_back`].
    pub fn lend(&mut self, at: u32) -> Option<(Flow, Vec<u8>, u32)> {
        let entry = invariant::some!(self.get_mut(at), "a lent message is stored")?;
        Some((entry.from, std::mem::take(&mut entry.bytes), entry.slot.generation))
    }

    /// Puts a message back, if its entry is still there.
    pub fn bring_back(&mut self, at: u32, generation: u32, bytes: Vec<u8>) {
        match self.get_mut(at).filter(|entry| entry.slot.generation == generation) {
            Some(entry) => entry.bytes = bytes,
            // Its length went when the entry did, as nothing.
            None => self.bytes -= bytes.len(),
        }
    }

    /// Forgets one.
    pub fn forget(&mut self, at: u32) {
        let Some(entry) = invariant::some!(self.get(at), "a forgotten message was stored") else { return };
        let (key_of_it, length) = (hashed(entry.key.id, entry.key.class, entry.key.what), entry.bytes.len());
        let entries = &self.entries;
        self.index.remove(key_of_it, |at| hash_of(entries, at));
        self.bytes -= length;
        if let Some(entry) = self.entries.get_mut(at as usize) {
            entry.slot.used = false;
            entry.slot.generation = entry.slot.generation.wrapping_add(1);
            if entry.bytes.capacity() > KEEP_CAPACITY {
                entry.bytes = Vec::new();
            }
        }
        self.free.push(at);
        self.prune();
    }

    /// Sets when it has to be looked at.
    pub fn arm(&mut self, at: u32, due: Time) {
        let Some(entry) = invariant::some!(self.get_mut(at), "a message with a timer is stored") else {
            return;
        };
        if entry.slot.due == due {
            return;
        }
        entry.slot.due = due;
        let generation = entry.slot.generation;
        self.due.push(Reverse((due, at, generation)));
        self.prune();
        if self.due.len() > STALE * self.len() + SPARE {
            let mut due = std::mem::take(&mut self.due);
            due.retain(|Reverse(one)| self.is_due(*one));
            self.due = due;
        }
    }

    fn is_due(&self, (due, at, generation): (Time, u32, u32)) -> bool {
        self.get(at).is_some_and(|entry| entry.slot.generation == generation && entry.slot.due == due)
    }

    /// Takes what says nothing any more off the top.
    fn prune(&mut self) {
        while let Some(Reverse(top)) = self.due.peek().copied() {
            if self.is_due(top) {
                return;
            }
            self.due.pop();
        }
    }

    /// One whose deadline has come.
    pub fn pop(&mut self, now: Time) -> Option<u32> {
        self.prune();
        let Reverse((due, at, _)) = *self.due.peek()?;
        if due > now {
            return None;
        }
        self.due.pop();
        if let Some(entry) = self.get_mut(at) {
            entry.slot.due = Time::FAR;
        }
        Some(at)
    }

    /// When [`MessageStore::pop`] wants to be asked next.
    pub fn next(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }
}

impl Entry {
    fn new(from: Flow) -> Entry {
        Entry {
            key: MessageKey {
                what: KeptMessage::ToNode,
                call: CallKey(0, 0),
                id: 0,
                class: MethodClass::Other,
            },
            from,
            bytes: Vec::new(),
            fresh: false,
            node: NodeIndex(0),
            rang: false,
            alerted: false,
            wait: T1,
            repeat: Time::FAR,
            until: Time::FAR,
            tries: 0,
            ignored: false,
            memory: Memory::Whole,
            reminded: 0,
            settled: false,
            ended: Time::ZERO,
            refused: None,
            tell_at: Time::ZERO,
            earlier: Vec::new(),
            slot: Slot { due: Time::FAR, generation: 0, used: false },
        }
    }

    /// It has been repeated.
    pub fn repeated(&mut self, now: Time) {
        // Until something comes back an INVITE's interval grows, and its sender gives it up after 64*T1 (RFC
        // 3261 section 17.1.1.2).
        let invite =
            self.key.class == MethodClass::Invite && self.key.what != KeptMessage::Refusal && !self.settled;
        self.wait = (self.wait * 2).min(if invite { LATE } else { T2 });
        // A refusal of ours for as long (17.2.1, timer H), though its entry may be there longer.
        let more = self.refused.is_none() || now + self.wait < self.ended + LATE;
        self.repeat = if more { now + self.wait } else { Time::FAR };
    }

    /// Something provisional has come back: an INVITE is repeated no more, others seldom (17.1.2.2).
    pub fn heard(&mut self) {
        if self.key.class == MethodClass::Invite {
            self.repeat = Time::FAR;
        }
        if self.memory == Memory::InDoubt {
            self.memory = Memory::Whole;
        }
        (self.wait, self.rang) = (T2, true);
    }

    /// Whether a node that answers it, and so had it once, is not the one whose answer it is to have.
    pub fn has_left(&self, node: NodeIndex) -> bool {
        self.refused.is_some() || self.node != node
    }

    /// Who had it before, or was the last to have it of what is refused, has said something provisional, and
    /// has not been told yet that it is over.
    pub fn rung(&self) -> impl Iterator<Item = NodeIndex> {
        self.ringing().map(|other| other.node)
    }

    /// Those of them whose time has come to be told, or told again.
    pub fn to_tell(&self, now: Time) -> impl Iterator<Item = NodeIndex> {
        self.ringing().filter(move |other| other.tell_at <= now).map(|other| other.node)
    }

    fn ringing(&self) -> impl Iterator<Item = Earlier> {
        let last = Earlier { node: self.node, rang: self.rang, tell_at: self.tell_at };
        let last = self.refused.is_some().then_some(last);
        self.earlier.iter().copied().chain(last).filter(|other| other.rang)
    }

    /// A node is told that it is over: again, if need be, after at least so long. One CANCEL is all that
    /// there has to be (RFC 3261 section 9.1), so others come more and more seldom.
    pub fn put_off(&mut self, now: Time, node: NodeIndex, least: Duration) {
        let since = if self.settled { now.since(self.ended) } else { Duration::ZERO };
        let next = now + least.max(since / 4);
        match self.earlier.iter_mut().find(|other| other.node == node) {
            Some(other) => other.tell_at = next,
            None => self.tell_at = next,
        }
    }

    /// A node that had its INVITE rings, although the INVITE is over; it may do so for this long after its
    /// end.
    pub fn wait_for_earlier(&mut self, ring: Duration) {
        self.until = self.until.max(self.ended + ring);
    }

    /// Whether a node that does not have it any more rings, as far as is known: it has said something
    /// provisional since it was told that it is over, or it knows.
    pub fn mark(&mut self, node: NodeIndex, rings: bool) {
        let known = self.earlier.iter_mut().find(|other| other.node == node);
        match known {
            Some(other) => other.rang = rings,
            None if self.node == node => self.rang = if self.refused.is_some() { rings } else { self.rang },
            None if rings => self.earlier.push(Earlier { node, rang: true, tell_at: Time::ZERO }),
            None => {}
        }
    }

    /// It goes to another node.
    pub fn give_to(&mut self, node: NodeIndex) {
        if self.node == node {
            return;
        }
        let before = Earlier { node: self.node, rang: self.rang, tell_at: self.tell_at };
        let known = self.earlier.iter().position(|other| other.node == node);
        let known = known.map(|at| self.earlier.swap_remove(at));
        (self.node, self.rang, self.memory) = (node, known.is_some_and(|other| other.rang), Memory::Whole);
        self.tell_at = known.map_or(Time::ZERO, |other| other.tell_at);
        // There are no more of them than nodes.
        self.earlier.push(before);
    }

    /// It goes to another node, and is repeated or not. One that rang may still do so, or has forgotten it.
    pub fn move_to(&mut self, now: Time, node: NodeIndex, repeats: bool) {
        let rang = self.rung().any(|other| other == node);
        self.give_to(node);
        self.memory = if rang { Memory::Renewed } else { Memory::Whole };
        // One that has rung has as long as it had.
        (self.until, self.settled) = (self.until.max(now + GIVE_UP), false);
        self.wait = T1;
        self.repeat = if repeats { now + T1 } else { Time::FAR };
    }

    /// A final response goes back: what is left of it is who else may answer.
    pub fn settle(&mut self, now: Time) {
        (self.settled, self.ended) = (true, now);
        (self.repeat, self.until) = (Time::FAR, now + LATE);
    }

    /// Its sender is told here that it goes nowhere: who has it may still answer, as all who had it before. A
    /// node had it, so this is the end of a transaction, which in a datagram is repeated until its ACK (RFC
    /// 3261 section 17.2.1, timer G).
    pub fn refuse(&mut self, now: Time, status: u16) {
        self.settle(now);
        (self.refused, self.wait) = (Some(status), T1);
        if !self.from.transport.is_reliable() {
            self.repeat = now + T1;
        }
    }

    /// Whether it was sent to a further node, or again to a node that may have forgotten it.
    pub fn was_sent_again(&self) -> bool {
        self.has_earlier() || self.memory == Memory::Renewed
    }

    /// Whether another node may still answer it.
    pub fn has_earlier(&self) -> bool {
        !self.earlier.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transmit::TransmitToken;
    use wire::ListenerId;

    fn flow(port: u16) -> Flow {
        Flow::udp(ListenerId(0), ([192, 0, 2, 1], port).into())
    }

    fn keep(kept: &mut MessageStore, id: u64) -> Option<u32> {
        let key =
            MessageKey { what: KeptMessage::ToNode, call: CallKey(id, 0), id, class: MethodClass::Invite };
        kept.keep(key, flow(1), b"message", Time::from_secs(9))
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_forgotten() {
        let mut kept = MessageStore::new(16);
        let at = keep(&mut kept, 1).unwrap();
        assert_eq!(keep(&mut kept, 1), None, "twice");
        assert_eq!(kept.find(1, MethodClass::Invite, KeptMessage::ToNode), Some(at));
        assert_eq!(kept.find(1, MethodClass::Cancel, KeptMessage::ToNode), None);
        let Some(TransmitToken::Kept(place, generation, node)) = TransmitToken::from_u64(kept.token(at))
        else {
            panic!("its token")
        };
        kept.forget(at);
        assert_eq!((kept.of_token(place, generation, node), kept.len(), kept.bytes), (None, 0, 0));
        let all: Vec<u32> = (0..16).filter_map(|id| keep(&mut kept, id)).collect();
        assert_eq!((all.len(), keep(&mut kept, 99), kept.missed), (16, None, 1));
    }

    #[test]
    fn deadlines_that_were_put_off_take_no_room() {
        let mut kept = MessageStore::new(16);
        // One that is due soon hides them.
        let soon = keep(&mut kept, 99_999).expect("room");
        kept.arm(soon, Time::from_micros(1));
        for id in 0..10_000 {
            let now = Time::from_micros(id * 1_000);
            let at = keep(&mut kept, id).expect("room");
            // Silence, what is provisional, and again.
            for ahead in [400, 200_000, 200_001] {
                kept.arm(at, now + Duration::from_millis(ahead));
            }
            kept.forget(at);
        }
        assert_eq!((kept.missed, kept.len()), (0, 1));
        assert!(kept.due.len() <= 66, "{}", kept.due.len());
    }

    #[test]
    fn deadlines_come_in_order_and_the_last_one_set_counts() {
        let mut kept = MessageStore::new(16);
        let (a, b) = (keep(&mut kept, 1).unwrap(), keep(&mut kept, 2).unwrap());
        kept.arm(a, Time::from_secs(1));
        kept.arm(b, Time::from_secs(2));
        kept.arm(a, Time::from_secs(3));
        assert_eq!((kept.next(), kept.pop(Time::from_secs(1))), (Some(Time::from_secs(2)), None));
        assert_eq!((kept.pop(Time::from_secs(9)), kept.pop(Time::from_secs(9))), (Some(b), Some(a)));
        assert_eq!((kept.pop(Time::from_secs(9)), kept.next()), (None, None));
        kept.arm(b, Time::from_secs(4));
        kept.forget(b);
        assert_eq!(kept.next(), None);
    }
}
