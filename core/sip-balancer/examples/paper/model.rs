//! The testbed of the paper in virtual time: servers that share their processor, a generator that does not wait for
//! them, and the real dispatcher in between.
//!
//! A server is what it is in `strowger load --backend` (`load::backend::Station`): it works on up to four requests at a
//! time, each getting its part of the processor, and others wait in order: between processor sharing and first come
//! first served, as the paper has it (section VI-C). An INVITE costs 1.75 times a BYE, both together a 300th of a
//! second. How much one request costs varies (gamma, coefficient of variation 0.5). Servers may stall now and then, as
//! programs with garbage collection do.

use load::backend::{Kind, Model, Station};
use load::population::{Distribution, Rng};
use sip_balancer::{
    Algorithm, CallKey, Cluster, Dispatcher, Node, NodeIndex, OCCUPANCIES, Request, Rules, Tag,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Time;

/// Calls a second that one whole server can do.
pub const CAPACITY: f64 = 300.0;

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
    /// A server stalls every so many seconds (at random) for so many seconds, at the same times whoever chooses.
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

#[derive(Clone, Copy, Debug)]
struct Job {
    call: u64,
    tag: Tag,
    came: f64,
}

struct Server {
    station: Station<Job>,
    /// What was foreseen before something changed does not count.
    version: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Call,
    HangUp(u64),
    Look(usize, u64),
}

struct World {
    setup: Setup,
    random: Rng,
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
    let model = |speed: &f64| Model {
        capacity: speed * CAPACITY,
        room: usize::MAX,
        stalls: setup.stalls,
        ..Model::default()
    };
    let server = |(nth, speed): (usize, &f64)| Server {
        station: Station::new(model(speed), setup.seed, nth as u64),
        version: 0,
    };
    let mut world = World {
        random: Rng::new(setup.seed, u64::MAX),
        dispatcher,
        servers: setup.speeds.iter().enumerate().map(server).collect(),
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
                let next = self.now + self.random.exponential() / self.setup.rate;
                self.at(next, Event::Call);
                self.calls += 1;
                self.request(self.calls, Tag::Invite);
            }
            Event::HangUp(call) => self.request(call, Tag::Bye),
            Event::Look(server, version) if self.servers[server].version == version => {
                self.answers(server);
                self.changed(server);
            }
            Event::Look(..) => {}
        }
    }

    /// What a server has done by now.
    fn answers(&mut self, server: usize) {
        while let Some((_, job)) = self.servers[server].station.pop(self.now) {
            self.answered(server, job);
        }
    }

    /// Foresees anew when there is something to be seen at a server.
    fn changed(&mut self, server: usize) {
        let one = &mut self.servers[server];
        one.version += 1;
        let (next, version) = (one.station.next(), one.version);
        if let Some(next) = next {
            // Two nanoseconds later, so that rounding leaves nothing to do.
            self.at(next + 2e-9, Event::Look(server, version));
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
        if tag == Tag::Invite && self.now >= self.setup.warm {
            self.outcome.shares[server] += 1;
        }
        self.answers(server);
        let job = Job { call, tag, came: self.now };
        let kind = if tag == Tag::Invite { Kind::Invite } else { Kind::Other };
        let taken = self.servers[server].station.offer(self.now, kind, job);
        self.failed += u64::from(taken.is_err());
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
            let (mean, stdev) = self.setup.hold;
            let hold = Distribution::Normal { mean, stdev }.sample(&mut self.random).max(0.0);
            self.at(self.now + hold, Event::HangUp(job.call));
        }
    }

    fn finish(mut self) -> Outcome {
        let [(invites, invite_count), (byes, bye_count)] = self.counts;
        // What waits already longer than it may has failed as well.
        let end = self.setup.warm + self.setup.seconds;
        let (warm, limit) = (self.setup.warm, self.setup.limit);
        let waiting = self.servers.iter().flat_map(|server| server.station.processor().jobs());
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
