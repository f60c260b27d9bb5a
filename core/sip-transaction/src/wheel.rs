//! Hierarchical timing wheel: arming and cancelling cost a few writes, and one call of
//! [`Wheel::poll`] does a bounded amount of work however many timers are due.
//!
//! Ticks are 4.096 ms. The first level has 8,192 slots of one tick (33.5 s), so that every timer of
//! RFC 3261 with the default T1 (the longest is 64*T1 = 32 s) is linked once and never moved. Longer
//! ones (timer C, transaction lifetimes) wait in 256 slots of 33.5 s, and beyond that in 256 slots of
//! 2.4 hours; they move down one level when their slot comes, node by node.
//!
//! A timer never fires early. It fires in the first poll at or after its time, and the deadline that
//! the wheel names is at most one tick after its earliest timer: timers that are close together cost
//! one wake-up. Two runs with the same calls fire in the same order.
//!
//! The wheel of `timing` is not used: its ticks of 65 ms are too long for timers A and E, and it has neither
//! deadlines beyond a turn nor a bound on the work of one poll.

use core::mem;
use prefetch_index::prefetch_index;

/// log2 of a tick in microseconds.
const TICK: u32 = 12;
const TICK_MICROS: u64 = 1 << TICK;
/// log2 of the slots of the first level.
const L0: u32 = 13;
/// log2 of the slots of each further level.
const LN: u32 = 8;
const L0_SLOTS: usize = 1 << L0;
const LN_SLOTS: usize = 1 << LN;
/// Lists: first level, second level, third level, and the timers of the current slot found due.
const LIST_1: usize = L0_SLOTS;
const LIST_2: usize = LIST_1 + LN_SLOTS;
const LIST_READY: usize = LIST_2 + LN_SLOTS;
const LISTS: usize = LIST_READY + 1;
/// Nodes of the current, not yet ended, slot that are looked at in one go.
const PARTIAL_SCAN: u32 = 256;
/// Nodes are stored in blocks, so that growing never copies what is there.
const BLOCK: usize = 1024;

const NIL: u32 = u32::MAX;
const IDLE: u16 = u16::MAX;
/// "No deadline" in microseconds.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a node belongs to; handed back when it fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// The client transaction in this slot.
    Client(u32),
    /// The server transaction in this slot.
    Server(u32),
    /// The transaction user, with its token.
    User(u64),
}

/// A timer of the transaction user. Stale handles are harmless: a node that was used again has
/// another generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerId {
    node: u32,
    generation: u32,
}

impl TimerId {
    /// A timer that never was.
    pub const NONE: TimerId = TimerId { node: NIL, generation: 0 };
}

/// Half a line of the processor's cache, and in one line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Node {
    /// Due time in microseconds.
    at: u64,
    /// Slot or token of the owner.
    owner: u64,
    next: u32,
    prev: u32,
    generation: u32,
    /// The list it is linked in, or `IDLE`.
    list: u16,
    kind: Kind,
}

/// [`Owner`] without its number, which is stored beside it to keep a node at 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Free,
    Client,
    Server,
    User,
}

const FREE: Node =
    Node { at: 0, owner: 0, next: NIL, prev: NIL, generation: 0, list: IDLE, kind: Kind::Free };
const _: () = assert!(size_of::<Node>() == 32);

#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    /// Of the first level: no timer in it is looked at before this part of its tick, in microseconds.
    from: u16,
}

const EMPTY: List = List { head: NIL, tail: NIL, from: TICK_MICROS as u16 };

/// One bit for each slot of a level.
struct Occupied<const WORDS: usize> {
    words: [u64; WORDS],
    /// One bit for each word that is not zero.
    summary: [u64; 2],
}

impl<const WORDS: usize> Occupied<WORDS> {
    const fn new() -> Self {
        Occupied { words: [0; WORDS], summary: [0; 2] }
    }

    fn set(&mut self, slot: usize) {
        let word = slot / 64 % WORDS;
        self.words[word] |= 1 << (slot % 64);
        self.summary[word / 64 % 2] |= 1 << (word % 64);
    }

    fn clear(&mut self, slot: usize) {
        let word = slot / 64 % WORDS;
        self.words[word] &= !(1 << (slot % 64));
        if self.words[word] == 0 {
            self.summary[word / 64 % 2] &= !(1 << (word % 64));
        }
    }

    fn is_empty(&self) -> bool {
        self.summary == [0; 2]
    }

    /// The first occupied slot at or after `from`, going round; as a distance from `from`.
    fn distance_from(&self, from: usize) -> Option<usize> {
        let slots = WORDS * 64;
        let first = self.words[from / 64 % WORDS] >> (from % 64);
        if first != 0 {
            return Some(first.trailing_zeros() as usize);
        }
        let word = self.word_from(from / 64 + 1).or_else(|| self.word_from(0))?;
        let slot = word * 64 + self.words[word % WORDS].trailing_zeros() as usize;
        Some((slot + slots - from) % slots)
    }

    /// The first word at or after `from` that is not zero.
    fn word_from(&self, from: usize) -> Option<usize> {
        if from < 64 {
            let low = self.summary[0] >> from;
            if low != 0 {
                return Some(from + low.trailing_zeros() as usize);
            }
        }
        let high = self.summary[1] & (u64::MAX << from.saturating_sub(64).min(63));
        (high != 0 && from < 128).then(|| 64 + high.trailing_zeros() as usize)
    }
}

/// The wheel. Times are microseconds on the caller's monotonic clock.
pub(crate) struct Wheel {
    blocks: Vec<Box<[Node; BLOCK]>>,
    used: u32,
    free: u32,
    armed: usize,
    lists: Box<[List]>,
    level0: Occupied<128>,
    level1: Occupied<4>,
    level2: Occupied<4>,
    /// The tick being worked on: everything before it has fired.
    cursor: u64,
    /// A time at or before which nothing needs a poll; exact after a poll, possibly too early after
    /// a cancel.
    next: u64,
}

impl Wheel {
    /// An empty wheel at time zero.
    pub(crate) fn new() -> Wheel {
        Wheel {
            blocks: Vec::new(),
            used: 0,
            free: NIL,
            armed: 0,
            lists: vec![EMPTY; LISTS].into_boxed_slice(),
            level0: Occupied::new(),
            level1: Occupied::new(),
            level2: Occupied::new(),
            cursor: 0,
            next: NEVER,
        }
    }

    /// A node for `owner`, not armed yet. It stays the owner's until [`Wheel::release`].
    pub(crate) fn reserve(&mut self, owner: Owner) -> u32 {
        if self.free == NIL {
            self.grow();
        }
        let id = self.free;
        let node = self.node_mut(id);
        (node.kind, node.owner) = match owner {
            Owner::Client(slot) => (Kind::Client, u64::from(slot)),
            Owner::Server(slot) => (Kind::Server, u64::from(slot)),
            Owner::User(token) => (Kind::User, token),
        };
        let next = mem::replace(&mut node.next, NIL);
        self.free = next;
        id
    }

    /// Gives a node back, armed or not.
    pub(crate) fn release(&mut self, id: u32) {
        self.disarm(id);
        let free = self.free;
        let node = self.node_mut(id);
        node.kind = Kind::Free;
        node.generation = node.generation.wrapping_add(1);
        node.next = free;
        self.free = id;
    }

    /// Makes a node fire at `at`, in place of when it was to fire before.
    pub(crate) fn arm(&mut self, id: u32, at: u64) {
        let node = self.node(id);
        if node.list != IDLE {
            if node.at == at {
                return;
            }
            self.unlink(id);
            self.armed -= 1;
        }
        self.node_mut(id).at = at;
        self.link(id, at);
        self.armed += 1;
    }

    /// The end of the tick in which `at` is: a timer that may fire then as well is looked at once, and not in
    /// each round of that tick in which another one is due.
    pub(crate) fn end_of_tick(at: u64) -> u64 {
        at | (TICK_MICROS - 1)
    }

    /// Makes a node fire no more.
    pub(crate) fn disarm(&mut self, id: u32) {
        if self.node(id).list != IDLE {
            self.unlink(id);
            self.armed -= 1;
        }
    }

    /// Arms a timer of the transaction user.
    pub(crate) fn schedule(&mut self, at: u64, token: u64) -> TimerId {
        let node = self.reserve(Owner::User(token));
        self.arm(node, at);
        TimerId { node, generation: self.node(node).generation }
    }

    /// Cancels a timer of the transaction user; false if it has fired or was cancelled already.
    pub(crate) fn unschedule(&mut self, id: TimerId) -> bool {
        if id.node >= self.used {
            return false;
        }
        let node = self.node(id.node);
        if node.generation != id.generation || node.kind != Kind::User {
            return false;
        }
        self.release(id.node);
        true
    }

    /// When [`Wheel::poll`] should be called next: at most one tick after the earliest timer.
    /// May be early after a cancel. `NEVER` if nothing is armed.
    pub(crate) fn next_deadline(&self) -> u64 {
        self.next
    }

    /// Timers armed.
    pub(crate) fn armed(&self) -> usize {
        self.armed
    }

    /// One timer that is due at `now`, if there is one. Each node touched takes one from `budget`;
    /// at zero the answer is `None` and [`Wheel::next_deadline`] is not later than `now`.
    /// A node of the transaction user is free again when it is returned; one of a transaction stays
    /// reserved, not armed.
    pub(crate) fn poll(&mut self, now: u64, budget: &mut u32) -> Option<Owner> {
        let now_tick = now >> TICK;
        loop {
            if *budget == 0 {
                self.next = self.next.min(now);
                return None;
            }
            let ready = self.list(LIST_READY).head;
            if ready != NIL {
                *budget -= 1;
                return Some(self.fire(ready));
            }
            let (tick, list) = self.first_from(now_tick);
            if tick > now_tick {
                self.cursor = self.cursor.max(now_tick);
                self.next = due(tick, list);
                return None;
            }
            self.cursor = self.cursor.max(tick);
            if list >= L0_SLOTS {
                *budget -= 1;
                self.cascade(list);
            } else if tick < now_tick {
                *budget -= 1;
                return Some(self.fire(self.list(list).head));
            } else if !self.gather(list, now, budget) {
                self.next = due(tick, list);
                return None;
            }
        }
    }

    /// Who may be the next five after one that [`Wheel::poll`] has answered: a guess, for the processor's
    /// cache. The node behind them is asked for, so that next time it is there.
    pub(crate) fn upcoming(&self) -> [Option<Owner>; 5] {
        let ready = self.list(LIST_READY).head;
        let mut id = if ready != NIL { ready } else { self.list(self.cursor as usize % L0_SLOTS).head };
        let mut owners = [None; 5];
        for owner in &mut owners {
            if id == NIL {
                return owners;
            }
            let Node { kind, owner: number, next, .. } = *self.node(id);
            *owner = match kind {
                Kind::Client => Some(Owner::Client(number as u32)),
                Kind::Server => Some(Owner::Server(number as u32)),
                Kind::User | Kind::Free => None,
            };
            id = next;
        }
        if id != NIL {
            prefetch_index(self.blocks[id as usize / BLOCK].as_slice(), id as usize % BLOCK);
        }
        owners
    }

    /// Same as [`Wheel::first`], quicker while a slot that has ended has timers left.
    fn first_from(&self, now_tick: u64) -> (u64, usize) {
        let slot = self.cursor as usize % L0_SLOTS;
        if self.cursor < now_tick && self.list(slot).head != NIL {
            return (self.cursor, slot);
        }
        self.first()
    }

    /// The first place with something to do: its tick and its list; upper levels come first, since
    /// what they hold may belong into the slot of the same tick.
    fn first(&self) -> (u64, usize) {
        let mut best = (NEVER, 0);
        if let Some(d) = self.level0.distance_from(self.cursor as usize % L0_SLOTS) {
            let tick = self.cursor + d as u64;
            best = (tick, tick as usize % L0_SLOTS);
        }
        if !self.level1.is_empty() || !self.level2.is_empty() {
            let (one, two) = (self.cursor >> L0, self.cursor >> (L0 + LN));
            if let Some(d) = self.level1.distance_from(one as usize % LN_SLOTS) {
                let window = one + d as u64;
                best = earlier(best, (window << L0).max(self.cursor), LIST_1 + window as usize % LN_SLOTS);
            }
            if let Some(d) = self.level2.distance_from(two as usize % LN_SLOTS) {
                let window = two + d as u64;
                let start = (window << (L0 + LN)).max(self.cursor);
                best = earlier(best, start, LIST_2 + window as usize % LN_SLOTS);
            }
        }
        best
    }

    /// Moves the first node of an upper slot that has come to where it belongs now.
    fn cascade(&mut self, list: usize) {
        let id = self.list(list).head;
        let at = self.node(id).at;
        self.unlink(id);
        self.link(id, at);
    }

    /// Moves what is due in the current slot to the ready list; false if nothing is. The rest of the
    /// slot is due at its end at the latest.
    fn gather(&mut self, list: usize, now: u64, budget: &mut u32) -> bool {
        if u64::from(self.list(list).from) > now % TICK_MICROS {
            return false;
        }
        let mut found = false;
        let mut from = TICK_MICROS;
        let mut id = self.list(list).head;
        for _ in 0..PARTIAL_SCAN {
            if id == NIL || *budget == 0 {
                break;
            }
            let Node { at, next, .. } = *self.node(id);
            *budget -= 1;
            if at <= now {
                self.unlink(id);
                self.push(id, LIST_READY);
                found = true;
            } else {
                from = from.min(at % TICK_MICROS);
            }
            id = next;
        }
        if id != NIL && *budget == 0 {
            // Cut short: look again next time. A list that is too long is left for its end instead.
            from = 0;
        }
        self.lists[list].from = from as u16;
        found
    }

    /// Unlinks a due node and names its owner.
    fn fire(&mut self, id: u32) -> Owner {
        self.unlink(id);
        self.armed -= 1;
        let Node { kind, owner, .. } = *self.node(id);
        match kind {
            Kind::Client => Owner::Client(owner as u32),
            Kind::Server => Owner::Server(owner as u32),
            Kind::User | Kind::Free => {
                self.release(id);
                Owner::User(owner)
            }
        }
    }

    /// Links a node into the slot its time belongs to.
    fn link(&mut self, id: u32, at: u64) {
        let tick = (at >> TICK).max(self.cursor);
        let list = self.place(tick);
        if list < L0_SLOTS {
            self.level0.set(list);
            // What is overdue belongs to the current tick, and is due at once.
            let from = if at >> TICK == tick { (at % TICK_MICROS) as u16 } else { 0 };
            self.lists[list].from = self.lists[list].from.min(from);
            self.next = self.next.min(due(tick, list));
        } else if list < LIST_2 {
            self.level1.set(list - LIST_1);
            self.next = self.next.min((tick >> L0) << (L0 + TICK));
        } else {
            self.level2.set(list - LIST_2);
            // The slot may stand for a nearer window than the timer's own, see `place`.
            let window = (tick >> (L0 + LN)).min((self.cursor >> (L0 + LN)) + LN_SLOTS as u64 - 1);
            self.next = self.next.min(window << (L0 + LN + TICK));
        }
        self.push(id, list);
    }

    /// The list for a tick not before the cursor. Each upper slot holds one window only, because a
    /// timer goes up a level only if its window is not the current one. What is further than the
    /// third level reaches (25 days) waits in its last slot and is placed again when that comes.
    fn place(&self, tick: u64) -> usize {
        if tick - self.cursor < L0_SLOTS as u64 {
            return tick as usize % L0_SLOTS;
        }
        let window = tick >> L0;
        if window - (self.cursor >> L0) < LN_SLOTS as u64 {
            return LIST_1 + window as usize % LN_SLOTS;
        }
        let furthest = (self.cursor >> (L0 + LN)) + LN_SLOTS as u64 - 1;
        LIST_2 + (tick >> (L0 + LN)).min(furthest) as usize % LN_SLOTS
    }

    /// Appends a node to a list.
    fn push(&mut self, id: u32, list: usize) {
        let tail = mem::replace(&mut self.lists[list].tail, id);
        if tail == NIL {
            self.lists[list].head = id;
        } else {
            self.node_mut(tail).next = id;
        }
        let node = self.node_mut(id);
        node.prev = tail;
        node.next = NIL;
        node.list = list as u16;
    }

    /// Takes a linked node out of its list.
    fn unlink(&mut self, id: u32) {
        let Node { next, prev, list, .. } = *self.node(id);
        let list = list as usize;
        if prev == NIL {
            self.lists[list].head = next;
        } else {
            self.node_mut(prev).next = next;
        }
        if next == NIL {
            self.lists[list].tail = prev;
        } else {
            self.node_mut(next).prev = prev;
        }
        self.node_mut(id).list = IDLE;
        if self.lists[list].head == NIL {
            self.emptied(list);
        }
    }

    fn emptied(&mut self, list: usize) {
        self.lists[list].from = EMPTY.from;
        if list < L0_SLOTS {
            self.level0.clear(list);
        } else if list < LIST_2 {
            self.level1.clear(list - LIST_1);
        } else if list < LIST_READY {
            self.level2.clear(list - LIST_2);
        }
    }

    /// Adds one block of free nodes.
    fn grow(&mut self) {
        let base = self.used;
        let mut block = Box::new([FREE; BLOCK]);
        for (i, node) in block.iter_mut().enumerate() {
            node.next = if i + 1 == BLOCK { self.free } else { base + i as u32 + 1 };
        }
        self.blocks.push(block);
        self.used = base + BLOCK as u32;
        self.free = base;
    }

    fn list(&self, list: usize) -> List {
        self.lists[list]
    }

    fn node(&self, id: u32) -> &Node {
        &self.blocks[id as usize / BLOCK][id as usize % BLOCK]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node {
        &mut self.blocks[id as usize / BLOCK][id as usize % BLOCK]
    }
}

/// The earlier of two places; the new one if they are at the same tick.
fn earlier(best: (u64, usize), tick: u64, list: usize) -> (u64, usize) {
    if tick <= best.0 { (tick, list) } else { best }
}

/// When a slot needs a poll: a slot of one tick at its end, an upper one at its start.
fn due(tick: u64, list: usize) -> u64 {
    let tick = if list < L0_SLOTS { tick.saturating_add(1) } else { tick };
    if tick > NEVER >> TICK { NEVER } else { tick << TICK }
}

#[cfg(test)]
mod tests;
