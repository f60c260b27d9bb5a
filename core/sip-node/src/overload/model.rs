//! A worker with little time, its kernel, and callers who repeat what gets no answer: what comes of it.

use super::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So long a worker waits for its share of the processor, which is [`SHARE`] microseconds.
const PERIOD: u64 = 16_667;
const SHARE: f64 = 1_000.0;
/// Microseconds of the worker's time: to read a request and leave it unanswered, to refuse one and read the
/// ACK, to take on an INVITE; then for each of 180, 200, ACK, BYE and its 200.
const LEAVES: f64 = 4.0;
const REFUSES: f64 = 15.0;
const TAKES: f64 = 25.0;
const FOLLOWS: f64 = 9.0;
/// What a call takes in all; so many calls a second the worker can do.
const CALL_MICROS: f64 = TAKES + 5.0 * FOLLOWS;
const CAPACITY: f64 = SHARE * 1_000_000.0 / PERIOD as f64 / CALL_MICROS;
/// When an INVITE is repeated, microseconds after the first (RFC 3261 section 17.1.1.2).
const REPEATS: [u64; 6] = [500_000, 1_500_000, 3_500_000, 7_500_000, 15_500_000, 31_500_000];
/// When each message of a call comes after the one before was done: 180, 200, ACK, BYE, 200.
const PAUSES: [u64; 5] = [0, 20_000, 0, 20_000, 0];
/// A worker that finds fewer messages than this keeps up.
const FEW: usize = 8;
/// What a datagram takes in the kernel, bytes.
const DATAGRAM: u64 = 2_304;
/// When an INVITE with credentials comes after the one without was challenged.
const CHALLENGED: u64 = 20_000;

/// A message: of which call, and which one of it. Number 0 is the INVITE, without credentials and then with
/// them.
#[derive(Clone, Copy)]
struct Message {
    call: usize,
    number: usize,
    credentials: bool,
}

struct Call {
    hash: u64,
    begun: u64,
    /// Nobody repeats its INVITE any more: the one without credentials, the one with them.
    answered: [bool; 2],
}

struct World {
    overload: Overload,
    kernel: bool,
    /// INVITEs without credentials are challenged.
    challenges: bool,
    now: u64,
    calls: Vec<Call>,
    /// What comes, by when.
    comes: BTreeMap<u64, Vec<Message>>,
    queue: VecDeque<Message>,
    /// What the kernel dropped, and what it was told of.
    remembered: BTreeSet<u64>,
    known: BTreeSet<u32>,
    dropped: u64,
    /// INVITEs with credentials that were not taken on, of calls that began since this; and all such.
    spoilt: u32,
    refused: u32,
    since: u64,
    behind: Duration,
    kept_up: bool,
    time_left: f64,
    /// The machine stands still for so many microseconds more, and has for so long.
    still: u64,
    stood: Duration,
    /// The worker sees how much waits for it.
    sees: bool,
    /// When the last window ended.
    paced: u64,
    /// Calls that came to their end, and how long each took to be answered, since it was asked last.
    done: u32,
    setups: Vec<u64>,
}

const SOURCE: u64 = 77;

impl World {
    fn new(kernel: bool, challenges: bool) -> World {
        World {
            overload: Overload::new(Rules::default(), 7),
            kernel,
            challenges,
            now: 1_000_000,
            calls: Vec::new(),
            comes: BTreeMap::new(),
            queue: VecDeque::new(),
            remembered: BTreeSet::new(),
            known: BTreeSet::new(),
            spoilt: 0,
            refused: 0,
            sees: false,
            since: 0,
            dropped: 0,
            behind: Duration::ZERO,
            kept_up: true,
            time_left: 0.0,
            still: 0,
            stood: Duration::ZERO,
            paced: 1_000_000,
            done: 0,
            setups: Vec::new(),
        }
    }

    fn come(&mut self, at: u64, message: Message) {
        self.comes.entry(at / PERIOD).or_default().push(message);
    }

    /// So many seconds with so many new calls in each. Calls a second that came to their end, and the 99th
    /// percentile of the time to an answer in microseconds.
    fn run(&mut self, seconds: u64, offered: f64) -> (f64, u64) {
        (self.done, self.spoilt, self.refused, self.since, self.setups) = (0, 0, 0, self.now, Vec::new());
        let mut new = 0.0;
        for _ in 0..seconds * 1_000_000 / PERIOD {
            new += offered * PERIOD as f64 / 1e6;
            while new >= 1.0 {
                new -= 1.0;
                self.begin_call();
            }
            self.period();
        }
        self.setups.sort_unstable();
        let late = self.setups.get(self.setups.len() * 99 / 100).copied().unwrap_or(0);
        (f64::from(self.done) / seconds as f64, late)
    }

    fn begin_call(&mut self) {
        let n = self.calls.len() as u64 + 1;
        let mixed = (n ^ n << 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = ((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 13) & 0xf_ffff_ffff;
        let call = self.calls.len();
        self.calls.push(Call { hash, begun: self.now, answered: [false; 2] });
        self.invite(self.now, call, !self.challenges);
    }

    fn invite(&mut self, at: u64, call: usize, credentials: bool) {
        let first = Message { call, number: 0, credentials };
        self.come(at, first);
        REPEATS.iter().for_each(|after| self.come(at + after, first));
    }

    fn period(&mut self) {
        for message in self.comes.remove(&(self.now / PERIOD)).unwrap_or_default() {
            let Message { call, number, credentials } = message;
            let goes_on = number > 0 || !self.calls[call].answered[usize::from(credentials)];
            if !goes_on {
                continue;
            }
            if number == 0 && self.kernel_drops(call) {
                self.spoil(message);
            } else {
                self.queue.push_back(message);
            }
        }
        if self.still > 0 {
            self.still = self.still.saturating_sub(PERIOD);
            self.now += PERIOD;
            self.stood += Duration::from_micros(PERIOD);
            return;
        }
        self.behind += core::mem::take(&mut self.stood).min(Load::ROUND);
        self.time_left = self.time_left.min(0.0) + SHARE;
        while self.time_left > 0.0
            && let Some(message) = self.queue.pop_front()
        {
            self.time_left -= self.take(message);
        }
        self.now += PERIOD;
        if self.queue.len() < FEW {
            (self.behind, self.kept_up) = (Duration::ZERO, true);
        } else {
            self.behind += Duration::from_micros(PERIOD);
        }
        if (self.now / PERIOD).is_multiple_of(3) {
            let sieved = self.kernel.then(|| core::mem::take(&mut self.dropped));
            let window = Duration::from_micros(self.now - core::mem::replace(&mut self.paced, self.now));
            let load = Load {
                window,
                behind: self.behind,
                kept_up: core::mem::take(&mut self.kept_up),
                sieved,
                waiting: self.sees.then_some(self.queue.len() as u64 * DATAGRAM),
            };
            self.overload.pace(Time::from_micros(self.now), &load);
            self.known.extend(self.overload.sieve().map_or(&[][..], |sieve| sieve.known));
        }
    }

    /// Notes what is not taken on, if it began since this was asked for.
    fn spoil(&mut self, Message { call, credentials, .. }: Message) {
        let since = self.calls[call].begun >= self.since;
        self.refused += u32::from(since);
        self.spoilt += u32::from(since && self.challenges && credentials);
    }

    /// As the program does.
    fn kernel_drops(&mut self, call: usize) -> bool {
        let hash = self.calls[call].hash;
        if !self.kernel || self.overload.sieve().is_none() {
            return false;
        }
        let threshold = self.overload.shares.table().threshold(SOURCE);
        if memory_bits(hash).iter().all(|bit| self.known.contains(bit)) {
            return false;
        }
        let lot = hash as u32 & 0xffff;
        let again = threshold.below < 1 << 16 && self.remembered.contains(&hash);
        if lot < threshold.below && !again {
            return false;
        }
        if again || lot < threshold.near {
            self.remembered.insert(hash);
        }
        self.dropped += 1;
        true
    }

    /// What the worker does with a message, and how long that takes.
    fn take(&mut self, message: Message) -> f64 {
        let Message { call, number, credentials } = message;
        if number == 0 {
            if self.calls[call].answered[usize::from(credentials)] {
                return LEAVES;
            }
            let verdict = match self.overload.sheds() {
                true => self.overload.judge(SOURCE, self.calls[call].hash, true, false),
                false => {
                    self.overload.note(Method::Invite);
                    Verdict::Take
                }
            };
            if verdict != Verdict::Take {
                self.spoil(message);
            }
            if verdict == Verdict::Drop {
                return LEAVES;
            }
            self.calls[call].answered[usize::from(credentials)] = true;
            if verdict == Verdict::Refuse {
                return REFUSES;
            }
            if !credentials {
                self.invite(self.now + PERIOD + CHALLENGED, call, true);
                return REFUSES;
            }
        }
        if number == 2 {
            self.setups.push(self.now - self.calls[call].begun);
        }
        match PAUSES.get(number) {
            Some(pause) => self.come(self.now + PERIOD + pause, Message { number: number + 1, ..message }),
            None => self.done += 1,
        }
        if number == 0 { TAKES } else { FOLLOWS }
    }
}

/// With the kernel's help whatever is offered is as good as what can be carried, and nobody who is served
/// waits for long.
#[test]
fn goodput_and_setup_from_half_to_ten_times_of_what_can_be_carried() {
    let mut all = Vec::new();
    for times in [0.5, 0.8, 0.95, 1.0, 1.03, 1.06, 1.1, 1.2, 1.5, 2.0, 4.0, 6.0, 10.0] {
        let mut world = World::new(true, false);
        world.run(8, CAPACITY * times);
        let (good, late) = world.run(24, CAPACITY * times);
        println!("{times} times {CAPACITY:.0}: {good:.0} good, {} ms", late / 1_000);
        all.push((times, good / CAPACITY, late));
    }
    let peak = all.iter().fold(0.0f64, |most, (_, good, _)| most.max(*good));
    for (times, good, late) in all {
        assert!(good >= 0.9 * peak.min(times), "{times}: {good:.3} of {peak:.3}");
        assert!(late < 500_000, "{times}: {late} us");
    }
}

/// What got no answer in an overload is not connected seconds later because that is over: its caller is gone
/// by then.
#[test]
fn nobody_is_connected_late_because_an_overload_is_over() {
    for kernel in [true, false] {
        for (seconds, times) in [(1, 1.5), (4, 1.8)] {
            let mut world = World::new(kernel, false);
            world.run(4, CAPACITY * 0.7);
            world.run(seconds, CAPACITY * times);
            let (good, late) = world.run(40, CAPACITY * 0.7);
            println!("after {seconds} s of {times}, {kernel}: {good:.0} good, {} ms", late / 1_000);
            assert!(
                good > 0.66 * CAPACITY && late < 500_000,
                "{kernel}, {seconds} s of {times}: {good}, {late} us"
            );
        }
    }
}

/// Who was challenged comes through with his credentials, though the threshold moves all the time; and not
/// late.
#[test]
fn what_was_challenged_comes_through() {
    for (kernel, times) in [(true, 1.5), (true, 4.0), (false, 1.5)] {
        let mut world = World::new(kernel, true);
        world.run(8, CAPACITY * times);
        let (good, late) = world.run(24, CAPACITY * times);
        println!(
            "challenged, {kernel}, {times}: {good:.0} good, {} ms, {} spoilt",
            late / 1_000,
            world.spoilt
        );
        assert!(good > 0.5 * CAPACITY && late < 500_000, "{kernel}, {times}: {good}, {late} us");
        assert!(f64::from(world.spoilt) < 0.002 * 24.0 * good, "{kernel}, {times}: {} spoilt", world.spoilt);
    }
}

/// Without it reading takes what is not there, but what is taken on ends well.
#[test]
fn without_the_kernel_it_does_not_collapse_at_once() {
    for (times, least) in [(1.0, 0.75), (2.0, 0.6)] {
        let mut world = World::new(false, false);
        world.run(8, CAPACITY * times);
        let (good, late) = world.run(24, CAPACITY * times);
        println!("{times} times {CAPACITY:.0} without the kernel: {good:.0} good, {} ms", late / 1_000);
        assert!(good >= least * CAPACITY, "{times}: {good}");
    }
}

/// A machine that stands still now and then loses what it could have done meanwhile, and little more; and
/// what got no answer while the worker was behind is not connected later, when it has caught up.
#[test]
fn who_stood_still_does_soon_what_he_can() {
    for (still, every) in [(100, 2), (250, 4)] {
        for times in [1.0, 2.0, 10.0] {
            let mut world = World::new(true, false);
            world.run(8, CAPACITY * times);
            let (mut good, mut late) = (0.0, 0);
            for _ in 0..24 / every {
                world.still = still * 1_000;
                let (done, p99) = world.run(every, CAPACITY * times);
                good += done * every as f64 / 24.0 / CAPACITY;
                late = late.max(p99);
            }
            println!(
                "{times} times, {still} ms of every {every} s lost: {good:.3} good, {} ms",
                late / 1_000
            );
            let possible = 1.0 - still as f64 / 1_000.0 / every as f64;
            assert!(good > 0.88 * possible && late < 500_000, "{still} ms, {times} times: {good}, {late} us");
        }
    }
}

/// An overload that has passed is not over while its callers repeat what gets no answer. A machine that
/// stands still now and then refuses nothing that is new all the same, whether it has little to do or much.
#[test]
fn what_an_overload_has_left_costs_nobody_a_call() {
    for load in [0.2, 0.35, 0.5, 0.7] {
        let mut world = World { sees: true, ..World::new(true, false) };
        world.run(8, CAPACITY * 1.5);
        world.run(3, CAPACITY * load);
        for n in 0..4 {
            world.still = 300_000;
            world.run(5, CAPACITY * load);
            println!("at {load}, stall {n}: {} refused, {:?}", world.refused, world.overload.sheds());
            assert_eq!(world.refused, 0, "at {load}, stall {n}");
        }
    }
}
