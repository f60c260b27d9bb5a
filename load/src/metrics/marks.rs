//! Which messages a call has sent and received, without the messages: little enough to be kept of every call
//! under way.

use std::net::SocketAddr;

use super::ladders::{Direction, Step};
use wire::Time;

/// Calls whose marks are kept at a time; those with higher places have none.
const CALLS: usize = 1 << 16;
/// Marks of a call at most.
const MARKS: usize = 64;
/// Pairs of addresses of a call at most.
const PAIRS: usize = 4;
/// Bytes of a start line that are kept: the longest method that is registered has nine, and a status line has
/// its status there.
const START: usize = 12;

/// A message in 32 bytes.
#[derive(Clone, Copy)]
struct Mark {
    at: Time,
    length: u32,
    start: [u8; START],
    sent: bool,
    pair: u8,
}

/// The marks of one call. Its memory serves the next one in its place.
struct Flow {
    call: u64,
    /// Whether its messages are kept besides.
    watched: bool,
    /// The number of `latest` among the pairs.
    nth: u8,
    /// Messages that there was no room for.
    lost: u32,
    marks: Vec<Mark>,
    /// The addresses of its message before, which most have that follow.
    latest: (SocketAddr, SocketAddr),
    pairs: Vec<(SocketAddr, SocketAddr)>,
}

impl Default for Flow {
    fn default() -> Flow {
        let nowhere = SocketAddr::from(([0; 4], 0));
        Flow {
            call: 0,
            watched: false,
            nth: 0,
            lost: 0,
            marks: Vec::new(),
            latest: (nowhere, nowhere),
            pairs: Vec::new(),
        }
    }
}

impl Flow {
    fn is_new(&self) -> bool {
        self.marks.is_empty() && self.lost == 0
    }

    /// Notes a message. Answers whether the call is watched.
    #[inline(always)]
    fn add(&mut self, at: Time, direction: Direction, bytes: &[u8]) -> bool {
        self.marks.push(Mark {
            at,
            length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            start: start(bytes),
            sent: direction == Direction::Sent,
            pair: self.nth,
        });
        self.watched
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

/// The marks of the calls under way. They stay where they are: moving thousands of them to a larger place would make
/// the worker late by milliseconds.
pub(super) struct Marks {
    place: fn(u64) -> usize,
    flows: Vec<Box<[Flow]>>,
}

impl Marks {
    pub(super) fn new(place: fn(u64) -> usize) -> Marks {
        Marks { place, flows: Vec::new() }
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
        let place = (self.place)(call);
        let flow = self.flows.get_mut(place / CHUNK)?.get_mut(place % CHUNK)?;
        let goes_on = flow.call == call && flow.latest.1 == *pair.1 && flow.latest.0 == *pair.0;
        // What is kept is the beginning, without a gap.
        let has_room = flow.lost == 0 && (1..MARKS).contains(&flow.marks.len());
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
        let place = (self.place)(call);
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
            flow.pairs.clear();
            flow.marks.clear();
            flow.lost = 0;
        }
        if flow.lost > 0 || flow.marks.len() >= MARKS || !flow.turn_to((*pair.0, *pair.1)) {
            flow.lost = flow.lost.saturating_add(1);
            return flow.watched;
        }
        flow.add(at, direction, bytes)
    }

    fn flow(&self, call: u64) -> Option<&Flow> {
        let place = (self.place)(call);
        self.flows.get(place / CHUNK)?.get(place % CHUNK).filter(|flow| flow.call == call)
    }

    /// Whether a call is watched, if it is known.
    pub(super) fn is_watched(&self, call: u64) -> Option<bool> {
        self.flow(call).filter(|flow| !flow.is_new()).map(|flow| flow.watched)
    }

    /// The messages of a call before its last `held` ones, and whether these are all that there were.
    pub(super) fn before(&self, call: u64, held: usize) -> (Vec<Step>, bool) {
        let Some(flow) = self.flow(call) else { return (Vec::new(), false) };
        let missing = (flow.marks.len() + flow.lost as usize).saturating_sub(held);
        let steps = flow.marks.iter().take(missing).filter_map(|mark| step(flow, mark)).collect();
        (steps, missing <= flow.marks.len())
    }

    /// Gives the memory back.
    pub(super) fn clear(&mut self) {
        self.flows = Vec::new();
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
    let &(local, remote) = flow.pairs.get(usize::from(mark.pair))?;
    // The method or the status. Of a message that is no SIP it is whatever it begins with.
    let (version, rest) = match mark.start.strip_prefix(b"SIP/2.0 ") {
        Some(rest) => (&b"SIP/2.0 "[..], rest),
        None => (&b""[..], &mark.start[..]),
    };
    let word = rest.split(|byte| *byte == 0 || byte.is_ascii_whitespace()).next().unwrap_or_default();
    Some(Step {
        at: mark.at,
        direction: if mark.sent { Direction::Sent } else { Direction::Received },
        local,
        remote,
        bytes: [version, word].concat(),
        length: mark.length as usize,
        held: false,
    })
}
