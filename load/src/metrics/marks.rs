//! Which messages a call has sent and received, without the messages: little enough to be kept of every call
//! under way.

use std::net::SocketAddr;

use super::ladders::{Direction, Step};
use wire::Time;

/// Calls whose marks are kept at a time; those with higher places have none.
const CALLS: usize = 1 << 16;
/// Marks of a call at most.
const MARKS: u16 = 64;
/// Marks that stand in one place: a call of six messages has that many.
const FIRST: usize = 8;
/// Pairs of addresses of a call at most.
const PAIRS: usize = 4;
/// Bytes of a start line that are kept: the longest method that is registered has nine, and a status line has
/// its status there.
const START: usize = 12;

/// A message in 24 bytes.
#[derive(Clone, Copy)]
struct Mark {
    at: Time,
    start: [u8; START],
    /// Its length, whether it was sent, and the number of its addresses among the pairs of the call: 28 bits,
    /// one, and three.
    what: u32,
}

impl Mark {
    const NONE: Mark = Mark { at: Time::ZERO, start: [0; START], what: 0 };

    #[inline(always)]
    fn new(at: Time, direction: Direction, pair: u8, bytes: &[u8]) -> Mark {
        let length = bytes.len().min((1 << 28) - 1) as u32;
        let sent = u32::from(direction == Direction::Sent);
        Mark { at, start: start(bytes), what: length << 4 | sent << 3 | u32::from(pair & 7) }
    }

    fn length(self) -> usize {
        (self.what >> 4) as usize
    }

    fn is_sent(self) -> bool {
        self.what >> 3 & 1 == 1
    }

    fn pair(self) -> usize {
        (self.what & 7) as usize
    }
}

/// The marks of one call. Its memory serves the next one in its place.
struct Flow {
    call: u64,
    /// Whether its messages are kept besides.
    watched: bool,
    /// The number of `latest` among the pairs.
    nth: u8,
    /// How many marks there are.
    count: u16,
    /// Messages that there was no room for.
    lost: u32,
    /// The addresses of its message before, which most have that follow.
    latest: (SocketAddr, SocketAddr),
    /// The first marks: of most calls, all.
    first: [Mark; FIRST],
    further: Vec<Mark>,
    pairs: Vec<(SocketAddr, SocketAddr)>,
}

impl Default for Flow {
    fn default() -> Flow {
        let nowhere = SocketAddr::from(([0; 4], 0));
        Flow {
            call: 0,
            watched: false,
            nth: 0,
            count: 0,
            lost: 0,
            latest: (nowhere, nowhere),
            first: [Mark::NONE; FIRST],
            further: Vec::new(),
            pairs: Vec::new(),
        }
    }
}

impl Flow {
    fn is_new(&self) -> bool {
        self.count == 0 && self.lost == 0
    }

    /// Notes a message. Answers whether the call is watched.
    #[inline(always)]
    fn add(&mut self, at: Time, direction: Direction, bytes: &[u8]) -> bool {
        let mark = Mark::new(at, direction, self.nth, bytes);
        match self.first.get_mut(usize::from(self.count)) {
            Some(place) => *place = mark,
            None => self.further.push(mark),
        }
        self.count += 1;
        self.watched
    }

    /// Whether these are the addresses of the message before.
    #[inline(always)]
    fn has_latest(&self, pair: (&SocketAddr, &SocketAddr)) -> bool {
        is_same(&self.latest.1, pair.1) && is_same(&self.latest.0, pair.0)
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.first.iter().take(usize::from(self.count)).chain(&self.further)
    }

    /// A message has other addresses than the one before. False if there is no room for another pair.
    fn turn_to(&mut self, pair: (SocketAddr, SocketAddr)) -> bool {
        let nth = self.pairs.iter().position(|own| *own == pair).unwrap_or(self.pairs.len());
        if nth == self.pairs.len() {
            if nth >= PAIRS {
                return false;
            }
            self.pairs.push(pair);
        }
        (self.latest, self.nth) = (pair, nth as u8);
        true
    }
}

/// Which calls are watched: every so manyth.
pub(super) struct Watch {
    /// A power of two.
    every: u32,
    left: u32,
}

impl Watch {
    /// At least one call of so many.
    const RAREST: u32 = 1 << 12;

    /// Every call.
    pub(super) fn new() -> Watch {
        Watch { every: 1, left: 1 }
    }

    /// Whether every call is.
    pub(super) fn all(&self) -> bool {
        self.every == 1
    }

    /// Whether one is of which nothing is known: the same of all its messages.
    fn takes(&self, call: u64) -> bool {
        let mixed = call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed & u64::from(self.every - 1) == 0
    }

    /// Half as many from now on.
    pub(super) fn rarer(&mut self) {
        self.every = (self.every * 2).min(Watch::RAREST);
    }

    /// Twice as many.
    pub(super) fn more_often(&mut self) {
        self.every = (self.every / 2).max(1);
        self.left = self.left.min(self.every);
    }

    /// Whether the next call is watched.
    fn next(&mut self) -> bool {
        self.left -= 1;
        let watched = self.left == 0;
        if watched {
            self.left = self.every;
        }
        watched
    }
}

/// Flows that are made room for at a time.
const CHUNK: usize = 64;

/// The marks of the calls under way. They stay where they are: moving thousands of them to a larger place
/// would make the worker late by milliseconds.
pub(super) struct Marks {
    /// The lower half of the number, if there is none.
    place: Option<fn(u64) -> usize>,
    flows: Vec<Box<[Flow]>>,
}

impl Marks {
    pub(super) fn new(place: Option<fn(u64) -> usize>) -> Marks {
        Marks { place, flows: Vec::new() }
    }

    #[inline(always)]
    fn place(&self, call: u64) -> usize {
        match self.place {
            None => call as u32 as usize,
            Some(place) => place(call),
        }
    }

    /// A message of a call passes, with the addresses of the one before. Answers whether the call is watched;
    /// `None`, and nothing noted, if [`Marks::note`] has to see to it.
    #[inline(always)]
    pub(super) fn go_on(
        &mut self,
        call: u64,
        at: Time,
        direction: Direction,
        pair: (&SocketAddr, &SocketAddr),
        bytes: &[u8],
    ) -> Option<bool> {
        let place = self.place(call);
        let flow = self.flows.get_mut(place / CHUNK)?.get_mut(place % CHUNK)?;
        let goes_on = flow.call == call && flow.has_latest(pair);
        // What is kept is the beginning, without a gap.
        let has_room = flow.lost == 0 && (1..MARKS).contains(&flow.count);
        (goes_on && has_room).then(|| flow.add(at, direction, bytes))
    }

    /// A message of a call passes. Answers whether the call is watched, which `watch` says of each new one.
    pub(super) fn note(
        &mut self,
        call: u64,
        at: Time,
        direction: Direction,
        pair: (&SocketAddr, &SocketAddr),
        bytes: &[u8],
        watch: &mut Watch,
    ) -> bool {
        let place = self.place(call);
        if place >= CALLS {
            return watch.takes(call);
        }
        if place / CHUNK >= self.flows.len() {
            let chunk = || (0..CHUNK).map(|_| Flow::default()).collect();
            self.flows.resize_with(place / CHUNK + 1, chunk);
        }
        let Some(flow) = self.flows.get_mut(place / CHUNK).and_then(|chunk| chunk.get_mut(place % CHUNK))
        else {
            return false;
        };
        if flow.call != call || flow.is_new() {
            flow.call = call;
            flow.watched = watch.next();
            flow.further.clear();
            (flow.count, flow.lost) = (0, 0);
            // Most calls have the addresses of the one before.
            if flow.nth == 0 && !flow.pairs.is_empty() && flow.has_latest(pair) {
                flow.pairs.truncate(1);
                return flow.add(at, direction, bytes);
            }
            flow.pairs.clear();
        }
        if flow.lost > 0 || flow.count >= MARKS || !flow.turn_to((*pair.0, *pair.1)) {
            flow.lost = flow.lost.saturating_add(1);
            return flow.watched;
        }
        flow.add(at, direction, bytes)
    }

    fn flow(&self, call: u64) -> Option<&Flow> {
        let place = self.place(call);
        self.flows.get(place / CHUNK)?.get(place % CHUNK).filter(|flow| flow.call == call)
    }

    /// Whether a call is watched, if it is known.
    pub(super) fn is_watched(&self, call: u64) -> Option<bool> {
        self.flow(call).filter(|flow| !flow.is_new()).map(|flow| flow.watched)
    }

    /// The messages of a call before its last `held` ones, and whether these are all that there were.
    pub(super) fn before(&self, call: u64, held: usize) -> (Vec<Step>, bool) {
        let Some(flow) = self.flow(call) else { return (Vec::new(), false) };
        let count = usize::from(flow.count);
        let missing = (count + flow.lost as usize).saturating_sub(held);
        let steps = flow.marks().take(missing).filter_map(|mark| step(flow, mark)).collect();
        (steps, missing <= count)
    }

    /// Gives the memory back.
    pub(super) fn clear(&mut self) {
        self.flows = Vec::new();
    }
}

/// Whether two addresses are one, without a call where they are of four bytes.
#[inline(always)]
fn is_same(one: &SocketAddr, other: &SocketAddr) -> bool {
    match (one, other) {
        (SocketAddr::V4(one), SocketAddr::V4(other)) => {
            one.ip().to_bits() == other.ip().to_bits() && one.port() == other.port()
        }
        _ => one == other,
    }
}

/// The beginning of a start line.
#[inline]
fn start(bytes: &[u8]) -> [u8; START] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut start = [0; START];
        start.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        start
    })
}

fn step(flow: &Flow, mark: &Mark) -> Option<Step> {
    let &(local, remote) = flow.pairs.get(mark.pair())?;
    // The method or the status. Of a message that is no SIP it is whatever it begins with.
    let (version, rest) = match mark.start.strip_prefix(b"SIP/2.0 ") {
        Some(rest) => (&b"SIP/2.0 "[..], rest),
        None => (&b""[..], &mark.start[..]),
    };
    let word = rest.split(|byte| *byte == 0 || byte.is_ascii_whitespace()).next().unwrap_or_default();
    Some(Step {
        at: mark.at,
        direction: if mark.is_sent() { Direction::Sent } else { Direction::Received },
        local,
        remote,
        bytes: [version, word].concat(),
        length: mark.length(),
        held: false,
    })
}
