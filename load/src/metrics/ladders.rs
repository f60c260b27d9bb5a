//! The first call flows that went wrong, kept to be read.
//!
//! Which call will fail is not known while its messages pass, so messages are copied into a ring of fixed
//! size. When a call fails, its messages are picked out of the ring. At a high rate the ring would hold less
//! than a call takes to fail; then only every so manyth call is watched so, as many as the ring holds for
//! seconds. Of each call there is also a list of marks, which message went when and which way, so that the
//! drawing is whole where the messages are not; and its last messages are at hand when it fails, which most
//! often say why. Once enough flows are kept all of it is off and an offer costs one comparison.

use core::time::Duration;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::SocketAddr;

use super::marks::{Marks, Watch};
use wire::Time;

/// Which way a message went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From us.
    Sent,
    /// To us.
    Received,
}

/// One message of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// When.
    pub at: Time,
    /// Which way.
    pub direction: Direction,
    /// Our address.
    pub local: SocketAddr,
    /// The other's.
    pub remote: SocketAddr,
    /// The message, as far as it was kept.
    pub bytes: Vec<u8>,
    /// Its length on the wire.
    pub length: usize,
    /// Whether `bytes` are the message's own. If not it was no longer held, and they are the beginning of a
    /// start line that says which one it was.
    pub held: bool,
}

impl Step {
    /// "INVITE", "180 Ringing": the start line's essence, printable ASCII of at most `width` characters.
    pub fn label(&self, width: usize) -> String {
        let line = self.bytes.split(|b| *b == b'\r' || *b == b'\n').next().unwrap_or_default();
        let essence = match line.strip_prefix(b"SIP/2.0 ") {
            Some(status) => status,
            None => line.split(|b| *b == b' ').next().unwrap_or_default(),
        };
        essence.iter().take(width).map(|b| printable(*b)).collect()
    }
}

fn printable(b: u8) -> char {
    if (b' '..=b'~').contains(&b) { char::from(b) } else { '.' }
}

/// The flow of one call that went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// When it was found wrong.
    pub at: Time,
    /// Its Call-ID, or what else names it.
    pub call_id: String,
    /// What went wrong.
    pub why: String,
    /// Its messages, oldest first.
    pub steps: Vec<Step>,
    /// Messages may be missing.
    pub incomplete: bool,
}

/// Messages of one flow that are kept at most.
const MAX_STEPS: usize = 200;
/// Columns of a drawing; further addresses share the last one.
const MAX_LANES: usize = 5;

/// What names a message that belongs to no call.
const STRAY: &str = "(none)";

impl Ladder {
    fn is_stray(&self) -> bool {
        self.call_id == STRAY
    }

    /// The addresses that take part, ours first.
    pub fn parties(&self) -> Vec<SocketAddr> {
        let mut all = Vec::new();
        for a in self.steps.iter().map(|s| s.local).chain(self.steps.iter().map(|s| s.remote)) {
            if !all.contains(&a) && all.len() < MAX_LANES {
                all.push(a);
            }
        }
        all
    }

    /// Which column an address has.
    pub fn lane(parties: &[SocketAddr], a: SocketAddr) -> usize {
        parties.iter().position(|p| *p == a).unwrap_or(parties.len().saturating_sub(1))
    }

    /// The drawing in plain ASCII, times in seconds since the first message. Anything a peer sent is
    /// reduced to printable characters.
    pub fn text(&self) -> String {
        const LANE: usize = 32;
        let mut out = String::new();
        let clean = |s: &str| s.bytes().map(printable).collect::<String>();
        let _ = writeln!(out, "Call-ID {}: {}", clean(&self.call_id), clean(&self.why));
        if self.incomplete {
            out.push_str("(messages may be missing)\n");
        }
        let parties = self.parties();
        let _ = write!(out, "{:>12} ", "");
        for p in &parties {
            let _ = write!(out, "{:^LANE$}", p.to_string());
        }
        trim(&mut out);
        let first = self.steps.first().map_or(self.at, |s| s.at);
        for s in &self.steps {
            let _ = write!(out, "{:>+12.6} ", s.at.since(first).as_secs_f64());
            draw(&mut out, s, &parties, LANE);
            trim(&mut out);
        }
        let _ = writeln!(out, "{:>+12.6}  {}", self.at.since(first).as_secs_f64(), clean(&self.why));
        out
    }
}

fn trim(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// One arrow between two lanes, with its label in it.
fn draw(out: &mut String, step: &Step, parties: &[SocketAddr], lane: usize) {
    let (mine, theirs) = (Ladder::lane(parties, step.local), Ladder::lane(parties, step.remote));
    let (left, right) = (mine.min(theirs), mine.max(theirs));
    let rightward = (step.direction == Direction::Sent) == (mine <= theirs);
    let post = |i: usize| i * lane + lane / 2;
    let mut row = vec![b' '; parties.len().max(1) * lane];
    for i in 0..parties.len() {
        row[post(i)] = b'|';
    }
    let (from, to) = (post(left) + 1, post(right));
    if from < to {
        row[from..to].fill(b'-');
        if rightward {
            row[to - 1] = b'>';
        } else {
            row[from] = b'<';
        }
        let label = step.label(lane - 8);
        let start = from + (to - from).saturating_sub(label.len() + 2) / 2;
        let text = format!(" {label} ");
        row[start..start + text.len()].copy_from_slice(text.as_bytes());
    } else {
        // Both ends are one address: no arrow to draw.
        let text = format!(" {}", step.label(lane / 2 - 2));
        row[from..from + text.len()].copy_from_slice(text.as_bytes());
    }
    out.extend(row.into_iter().map(char::from));
}

struct Entry {
    call: u64,
    at: Time,
    direction: Direction,
    /// Ours and the other's.
    pair: (SocketAddr, SocketAddr),
    /// Position in an endless ring.
    start: u64,
    /// Where that is in `ring`.
    place: u32,
    kept: u32,
    length: u32,
}

/// Keeps the messages of late and the flows of calls that failed. One for each worker.
pub struct Ladders {
    keep: usize,
    ring: Vec<u8>,
    entries: VecDeque<Entry>,
    /// Most entries; more push the oldest out.
    most: usize,
    /// Position in an endless ring of the next message, and where that is in `ring`.
    next: u64,
    place: usize,
    evicted: bool,
    /// Where the ring stood when it began to be filled as it is.
    lap: u64,
    /// When more calls are watched again, if the ring has not gone round by then.
    relax: Time,
    watch: Watch,
    /// There were calls that were not watched.
    chosen: bool,
    /// A message received last that is not at hand elsewhere, and whose it is.
    latest: (u64, Vec<u8>),
    kept: Vec<Ladder>,
    marks: Marks,
}

/// The ring is to hold messages longer than that: who is asked in vain seven times in four seconds.
const HOLD: Duration = Duration::from_secs(4);

impl core::fmt::Debug for Ladders {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Ladders({} of {} kept)", self.kept.len(), self.keep)
    }
}

impl Ladders {
    /// Bytes of a message that are kept; what follows is rarely the reason.
    pub const SNAP: usize = 4_096;

    /// Keeps at most `keep` flows, and a ring of `ring_bytes` (at least [`Ladders::SNAP`]) of late
    /// messages. `keep` 0 turns it off and takes no memory.
    ///
    /// The messages of a flow can all be read if it was watched and the ring holds what passes between its
    /// first one and its failure. Its drawing needs only marks.
    pub fn new(keep: usize, ring_bytes: usize) -> Ladders {
        let size = if keep == 0 { 0 } else { ring_bytes.clamp(Self::SNAP, u32::MAX as usize) };
        Ladders {
            keep,
            ring: vec![0; size],
            // Small messages are about 300 bytes; more than this many entries push the oldest out.
            entries: VecDeque::with_capacity(size / 256),
            most: size / 256,
            next: 0,
            place: 0,
            evicted: false,
            lap: 0,
            relax: Time::ZERO + HOLD * 4,
            watch: Watch::new(),
            chosen: false,
            latest: (0, Vec::new()),
            kept: Vec::new(),
            marks: Marks::new(None),
        }
    }

    /// Where the marks of a call are: numbers of calls that are under way at one time lead to places of their
    /// own, low ones, or each call loses those of the other. Without this it is the lower half of the number.
    pub fn placed(mut self, place: fn(u64) -> usize) -> Ladders {
        self.marks = Marks::new(Some(place));
        self
    }

    /// Are enough flows kept, so that offering is of no use?
    #[inline]
    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.keep
    }

    /// A message of call `call` (any number that names it at this worker) passes.
    #[inline]
    pub fn offer(
        &mut self,
        call: u64,
        at: Time,
        direction: Direction,
        local: SocketAddr,
        remote: SocketAddr,
        bytes: &[u8],
    ) {
        if !self.pass(call, at, direction, (&local, &remote), bytes) && direction == Direction::Received {
            self.set_latest(call, bytes);
        }
    }

    /// As [`Ladders::offer`], of a message that will be at hand if the call fails while it is the last that
    /// way, or that [`Ladders::set_latest`] is told of. Answers whether it is held anyway, or not wanted.
    #[inline(always)]
    pub fn pass(
        &mut self,
        call: u64,
        at: Time,
        direction: Direction,
        pair: (&SocketAddr, &SocketAddr),
        bytes: &[u8],
    ) -> bool {
        if self.is_full() {
            return true;
        }
        let watched = match self.marks.go_on(call, at, direction, pair, bytes) {
            Some(watched) => watched,
            None => self.begin(call, at, direction, pair, bytes),
        };
        if watched {
            self.put(call, at, direction, (*pair.0, *pair.1), bytes);
        }
        watched
    }

    /// Keeps the message that a call received last.
    pub fn set_latest(&mut self, call: u64, bytes: &[u8]) {
        if !self.is_full() {
            self.latest.0 = call;
            self.latest.1.clear();
            self.latest.1.extend_from_slice(bytes);
        }
    }

    /// The message that a call received last is at hand.
    #[inline]
    pub fn forget_latest(&mut self, call: u64) {
        if self.latest.0 == call {
            self.latest.1.clear();
        }
    }

    /// The first message of a call, or one unlike the others. Answers whether the call is watched.
    #[inline(never)]
    fn begin(
        &mut self,
        call: u64,
        at: Time,
        direction: Direction,
        pair: (&SocketAddr, &SocketAddr),
        bytes: &[u8],
    ) -> bool {
        if !self.watch.all() && at > self.relax {
            // It was busier once.
            self.watch.more_often();
            self.set_lap(at);
        }
        self.marks.note(call, at, direction, pair, bytes, &mut self.watch)
    }

    /// The ring is filled anew from here.
    fn set_lap(&mut self, now: Time) {
        self.lap = self.next;
        self.relax = now + HOLD * 4;
    }

    /// What is pushed out of the ring came at `oldest`: watches fewer calls, once each time that it goes
    /// round, if that is too young.
    fn adapt(&mut self, now: Time, oldest: Time) {
        if self.next.saturating_sub(self.lap) >= self.ring.len() as u64 {
            self.set_lap(now);
            if now.since(oldest) < HOLD {
                self.watch.rarer();
                self.chosen = true;
            }
        }
    }

    #[inline(never)]
    fn put(
        &mut self,
        call: u64,
        at: Time,
        direction: Direction,
        pair: (SocketAddr, SocketAddr),
        bytes: &[u8],
    ) {
        let size = self.ring.len();
        let kept = bytes.len().min(Self::SNAP);
        if self.place + kept > size {
            // Not across the end: go on at the beginning.
            self.next += (size - self.place) as u64;
            self.place = 0;
        }
        let (start, place) = (self.next, self.place);
        let end = start + kept as u64;
        while let Some(oldest) = self.entries.front()
            && (oldest.start + (size as u64) < end || self.entries.len() >= self.most)
        {
            let oldest = oldest.at;
            self.entries.pop_front();
            self.evicted = true;
            self.adapt(at, oldest);
        }
        if let (Some(to), Some(from)) = (self.ring.get_mut(place..place + kept), bytes.get(..kept)) {
            to.copy_from_slice(from);
        }
        (self.next, self.place) = (end, place + kept);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let (place, kept) = (place as u32, kept as u32);
        self.entries.push_back(Entry { call, at, direction, pair, start, place, kept, length });
    }

    /// Call `call`, which began at `began`, went wrong: keeps its flow if there is room. `last` is what it
    /// sent and what it received last, as far as that is at hand.
    pub fn failed(
        &mut self,
        now: Time,
        call: u64,
        began: Time,
        call_id: &[u8],
        last: (&[u8], &[u8]),
        why: &str,
    ) {
        if self.is_full() {
            return;
        }
        let held = self.entries.iter().filter(|e| e.call == call).count();
        // What the ring no longer has, by its marks.
        let (mut steps, whole) = self.marks.before(call, held);
        let mut left_out = false;
        for e in self.entries.iter().filter(|e| e.call == call) {
            if steps.len() >= MAX_STEPS {
                left_out = true;
                break;
            }
            let place = e.place as usize;
            steps.push(Step {
                at: e.at,
                direction: e.direction,
                local: e.pair.0,
                remote: e.pair.1,
                bytes: self.ring.get(place..place + e.kept as usize).unwrap_or_default().to_vec(),
                length: e.length as usize,
                held: true,
            });
        }
        reveal(&mut steps, Direction::Sent, last.0);
        let latest = Some(&self.latest.1).filter(|text| self.latest.0 == call && !text.is_empty());
        let received = latest.map_or(last.1, Vec::as_slice);
        reveal(&mut steps, Direction::Received, received);
        // Was something pushed out that is younger than the call's begin?
        let horizon = self.entries.front().map_or(Time::FAR, |e| e.at);
        let watched = self.marks.is_watched(call).unwrap_or(!self.chosen);
        let missed = !watched || (self.evicted && horizon > began);
        let incomplete = left_out || (!whole && missed);
        let call_id = String::from_utf8_lossy(call_id.get(..1_024).unwrap_or(call_id)).into_owned();
        self.kept.push(Ladder { at: now, call_id, why: why.to_owned(), steps, incomplete });
        if self.is_full() {
            // Give the memory back: nothing will be offered any more.
            self.ring = Vec::new();
            self.entries = VecDeque::new();
            self.latest.1 = Vec::new();
            self.marks.clear();
        }
    }

    /// A message that belongs to no call went wrong: keeps it alone, if it is the first one and leaves room
    /// for a call.
    pub fn stray(&mut self, at: Time, local: SocketAddr, remote: SocketAddr, bytes: &[u8], why: &str) {
        if self.kept.len() + 1 >= self.keep || self.kept.iter().any(Ladder::is_stray) {
            return;
        }
        let kept = bytes.get(..Self::SNAP).unwrap_or(bytes).to_vec();
        let step = Step {
            at,
            direction: Direction::Received,
            local,
            remote,
            bytes: kept,
            length: bytes.len(),
            held: true,
        };
        let call_id = STRAY.to_owned();
        self.kept.push(Ladder { at, call_id, why: why.to_owned(), steps: vec![step], incomplete: false });
    }

    /// The flows kept, oldest failure first.
    pub fn kept(&self) -> &[Ladder] {
        &self.kept
    }

    /// The oldest of several workers' flows: at most `keep`, and one stray message.
    pub fn first(mut all: Vec<Ladder>, keep: usize) -> Vec<Ladder> {
        all.sort_by(|a, b| (a.at, &a.call_id).cmp(&(b.at, &b.call_id)));
        let mut strays = 0;
        all.retain(|flow| {
            strays += usize::from(flow.is_stray());
            !flow.is_stray() || strays == 1
        });
        all.truncate(keep);
        all
    }
}

/// Puts the text of the last message that went this way where only its mark is.
fn reveal(steps: &mut [Step], direction: Direction, text: &[u8]) {
    let last = steps.iter_mut().rfind(|step| step.direction == direction);
    if let Some(step) =
        last.filter(|step| !step.held && step.length == text.len() && text.starts_with(&step.bytes))
    {
        step.bytes = text.get(..Ladders::SNAP).unwrap_or(text).to_vec();
        step.held = true;
    }
}

#[cfg(test)]
mod tests;
