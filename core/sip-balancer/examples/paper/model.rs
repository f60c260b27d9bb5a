//! The testbed of the paper in virtual time: servers that share their processor, a generator that does not wait for
//! them, and the real dispatcher in between.
//!
//! A server works on up to four requests at a time, each getting its part of the processor, and others wait in
//! order: between processor sharing and first come first served, as the paper has it (section VI-C). An INVITE costs
//! 1.75 times a BYE, both together a 300th of a second. How much one request costs varies (gamma, coefficient of
//! variation 0.5). Servers may stall now and then, as programs with garbage collection do.

use sip_balancer::{
    Algorithm, CallKey, Cluster, Dispatcher, Node, NodeIndex, OCCUPANCIES, Request, Rules, Tag,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Time;

/// Calls a second that one whole server can do.
pub const CAPACITY: f64 = 300.0;
/// Requests that share a server's processor.
const SHARING: usize = 4;
/// Work of a BYE and an INVITE, seconds.
const BYE: f64 = 1.0 / CAPACITY / 2.75;
const INVITE: f64 = 1.75 * BYE;

/// An experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    pub algorithm: Algorithm,
    /// Servers, by their part of a whole one.
    pub speeds: Vec<f64>,
    /// New calls a second, at random (Poisson).
    pub rate: f64,
    /// Length of calls, seconds: mean and deviation (normal, not below zero).
    pub hold: (f64, f64),
    /// A server stalls every so many seconds (at random) for so many seconds.
    pub stalls: Option<(f64, f64)>,
    /// A request that takes longer has failed, seconds: a client without an answer repeats it after 0.5.
    pub limit: f64,
    /// Seconds before anything counts, and seconds that count.
    pub warm: f64,
    pub seconds: f64,
    pub seed: u64,
}

impl Setup {
    /// `count` whole servers at `load` of their capacity.
    pub fn new(algorithm: Algorithm, count: usize, load: f64) -> Setup {
        Setup {
            algorithm,
            speeds: vec![1.0; count],
            rate: load * CAPACITY * count as f64,
            hold: (5.0, 2.5),
            stalls: None,
            limit: 0.5,
            warm: 12.0,
            seconds: 20.0,
            seed: 1,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Mean response times, seconds.
    pub invite: f64,
    pub bye: f64,
    /// The part of requests that failed.
    pub failed: f64,
    /// How many transactions found so many at their server.
    pub occupancy: Vec<u64>,
    /// Calls by server.
    pub shares: Vec<u64>,
    /// What the dispatcher thinks an INVITE costs beside a BYE.
    pub cost: f64,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let n = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    /// Above zero, at most one.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Gamma with a coefficient of variation of 0.5: the sum of four exponentials.
    fn work(&mut self, mean: f64) -> f64 {
        (0..4).map(|_| self.exponential(mean / 4.0)).sum()
    }
}

#[derive(Clone, Copy, Debug)]
struct Job {
    call: u64,
    tag: Tag,
    came: f64,
    left: f64,
}

#[derive(Default)]
struct Server {
    speed: f64,
    working: Vec<Job>,
    waiting: VecDeque<Job>,
    stalled: bool,
    /// Up to when work is accounted for.
    at: f64,
    /// Completions that were foreseen before something changed do not count.
    version: u64,
}

impl Server {
    fn advance(&mut self, now: f64) {
        let share = if self.stalled { 0.0 } else { self.speed / self.working.len().max(1) as f64 };
        let done = (now - self.at) * share;
        self.working.iter_mut().for_each(|job| job.left -= done);
        self.at = now;
    }

    fn fill(&mut self) {
        while self.working.len() < SHARING
            && let Some(job) = self.waiting.pop_front()
        {
            self.working.push(job);
        }
    }

    /// When the next job is done, if nothing changes.
    fn next(&self) -> Option<f64> {
        let least =
            self.working.iter().map(|job| job.left).min_by(f64::total_cmp).filter(|_| !self.stalled)?;
        Some(self.at + least.max(0.0) * self.working.len() as f64 / self.speed)
    }

    fn done(&mut self) -> Option<Job> {
        let at = self.working.iter().position(|job| job.left <= 1e-9)?;
        Some(self.working.swap_remove(at))
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Call,
    HangUp(u64),
    Done(usize, u64),
    Stall(usize),
    GoOn(usize),
}

struct World {
    setup: Setup,
    random: Random,
    dispatcher: Dispatcher,
    servers: Vec<Server>,
    /// Events by time in nanoseconds and order.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: Vec<Event>,
    free: Vec<u64>,
    now: f64,
    calls: u64,
    outcome: Outcome,
    counts: [(f64, u64); 2],
    failed: u64,
}

/// Runs an experiment.
pub fn run(setup: &Setup) -> Outcome {
    let node = |i: usize| {
        let address = SocketAddr::new([10, 0, 0, i as u8 + 1].into(), 5060);
        Node::new(address)
    };
    let cluster = Cluster::new((0..setup.speeds.len()).map(node).collect(), 1);
    let room = (setup.rate * (setup.hold.0 + setup.hold.1 * 4.0 + 40.0)) as usize + 10_000;
    // What does not answer for a while here is busy, not dead.
    let rules = Rules { down_after: u32::MAX, outlier_share: 0, ..Rules::default() };
    let dispatcher = Dispatcher::new(Arc::clone(&cluster), 0, setup.algorithm, rules, room, setup.seed);
    let server = |speed: &f64| Server { speed: *speed, ..Server::default() };
    let mut world = World {
        random: Random(setup.seed),
        dispatcher,
        servers: setup.speeds.iter().map(server).collect(),
        queue: BinaryHeap::new(),
        events: Vec::new(),
        free: Vec::new(),
        now: 0.0,
        calls: 0,
        outcome: Outcome { shares: vec![0; setup.speeds.len()], ..Outcome::default() },
        counts: [(0.0, 0); 2],
        failed: 0,
        setup: setup.clone(),
    };
    world.go();
    world.finish()
}

impl World {
    fn at(&mut self, time: f64, event: Event) {
        let place = match self.free.pop() {
            Some(place) => {
                self.events[place as usize] = event;
                place
            }
            None => {
                self.events.push(event);
                self.events.len() as u64 - 1
            }
        };
        self.queue.push(Reverse(((time * 1e9) as u64, place)));
    }

    fn time(&self) -> Time {
        Time::from_micros((self.now * 1e6) as u64 + 1_000_000)
    }

    fn go(&mut self) {
        let end = self.setup.warm + self.setup.seconds;
        self.at(0.0, Event::Call);
        if let Some((every, _)) = self.setup.stalls {
            for server in 0..self.servers.len() {
                let first = self.random.exponential(every);
                self.at(first, Event::Stall(server));
            }
        }
        while let Some(Reverse((nanos, place))) = self.queue.pop() {
            let event = self.events[place as usize];
            self.free.push(place);
            self.now = nanos as f64 / 1e9;
            if self.now > end {
                break;
            }
            self.dispatcher.timeout(self.time());
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call => {
                let next = self.now + self.random.exponential(1.0 / self.setup.rate);
                self.at(next, Event::Call);
                self.calls += 1;
                self.request(self.calls, Tag::Invite);
            }
            Event::HangUp(call) => self.request(call, Tag::Bye),
            Event::Done(server, version) if self.servers[server].version == version => {
                self.servers[server].advance(self.now);
                while let Some(job) = self.servers[server].done() {
                    self.answered(server, job);
                }
                self.changed(server);
            }
            Event::Done(..) => {}
            Event::Stall(server) | Event::GoOn(server) => {
                let (every, length) = self.setup.stalls.unwrap_or((1.0, 0.0));
                self.servers[server].advance(self.now);
                let stalls = matches!(event, Event::Stall(_));
                self.servers[server].stalled = stalls;
                let next = match stalls {
                    true => (self.now + length, Event::GoOn(server)),
                    false => (self.now + self.random.exponential(every), Event::Stall(server)),
                };
                self.at(next.0, next.1);
                self.changed(server);
            }
        }
    }

    /// Foresees the next completion anew.
    fn changed(&mut self, server: usize) {
        let one = &mut self.servers[server];
        one.fill();
        one.version += 1;
        let (next, version) = (one.next(), one.version);
        if let Some(next) = next {
            // A nanosecond later, so that rounding leaves nothing to do.
            self.at(next + 1e-9, Event::Done(server, version));
        }
    }

    fn request(&mut self, call: u64, tag: Tag) {
        // As SIPp writes them.
        let call_id = format!("{call}-31415@10.0.1.{}", call % 3 + 1);
        let request = Request {
            call: key(call),
            call_id: call_id.as_bytes(),
            id: call << 1 | u64::from(tag == Tag::Bye),
            tag,
            inside: tag == Tag::Bye,
            token: None,
            home: None,
            large: false,
            back: None,
        };
        let now = self.time();
        let Ok(assigned) = self.dispatcher.request(now, &request) else {
            self.failed += 1;
            return;
        };
        let server = usize::from(assigned.node.0);
        let work = self.random.work(if tag == Tag::Invite { INVITE } else { BYE });
        if tag == Tag::Invite && self.now >= self.setup.warm {
            self.outcome.shares[server] += 1;
        }
        self.servers[server].advance(self.now);
        self.servers[server].waiting.push_back(Job { call, tag, came: self.now, left: work });
        self.changed(server);
    }

    fn answered(&mut self, server: usize, job: Job) {
        let took = self.now - job.came;
        let now = self.time();
        let id = job.call << 1 | u64::from(job.tag == Tag::Bye);
        let node = NodeIndex(server as u16);
        self.dispatcher.response(now, key(job.call), id, job.tag, node, 200, None);
        if job.came >= self.setup.warm {
            let (sum, count) = &mut self.counts[usize::from(job.tag == Tag::Bye)];
            *sum += took;
            *count += 1;
            self.failed += u64::from(took > self.setup.limit);
        }
        if job.tag == Tag::Invite {
            let hold = (self.setup.hold.0 + self.setup.hold.1 * self.random.normal()).max(0.0);
            self.at(self.now + hold, Event::HangUp(job.call));
        }
    }

    fn finish(mut self) -> Outcome {
        let [(invites, invite_count), (byes, bye_count)] = self.counts;
        // What waits already longer than it may has failed as well.
        let end = self.setup.warm + self.setup.seconds;
        let (warm, limit) = (self.setup.warm, self.setup.limit);
        let waiting = self.servers.iter().flat_map(|s| s.working.iter().chain(&s.waiting));
        self.failed += waiting.filter(|job| job.came >= warm && end - job.came > limit).count() as u64;
        let mut occupancy = vec![0; OCCUPANCIES];
        for stats in self.dispatcher.stats() {
            occupancy.iter_mut().zip(stats.occupancy.iter()).for_each(|(sum, n)| *sum += n);
        }
        Outcome {
            invite: invites / invite_count.max(1) as f64,
            bye: byes / bye_count.max(1) as f64,
            failed: self.failed as f64 / (invite_count + bye_count).max(1) as f64,
            occupancy,
            cost: f64::from(self.dispatcher.chooser().estimated_costs()[0]) / 1_000.0,
            ..self.outcome
        }
    }
}

fn key(call: u64) -> CallKey {
    CallKey(call.wrapping_mul(0x9e37_79b9_7f4a_7c15), call)
}

/// The highest rate of calls, up to the ideal, at which at most one request in ten thousand fails; to 1 %.
pub fn peak(setup: &Setup) -> f64 {
    let ideal = setup.speeds.iter().sum::<f64>() * CAPACITY;
    let good = |part: f64| run(&Setup { rate: ideal * part, seconds: 30.0, ..setup.clone() }).failed <= 1e-4;
    if good(1.0) {
        return ideal;
    }
    let (mut low, mut high) = (0.5, 1.0);
    while high - low > 0.01 {
        let middle = (low + high) / 2.0;
        if good(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low * ideal
}

/// Seconds as a duration, for people.
pub fn shown(seconds: f64) -> String {
    format!("{:.1?}", Duration::from_micros((seconds * 1e6) as u64))
}
