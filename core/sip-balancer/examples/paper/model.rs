//! The testbed of the paper in virtual time: servers that share their processor, a generator that does not
//! wait for them, and the real dispatcher in between.
//!
//! A server is what it is in `strowger load --backend` (`load::backend::Station`): it works on up to four
//! requests at a time, each getting its part of the processor, and others wait in order: between processor
//! sharing and first come first served, as the paper has it (section VI-C). An INVITE costs 1.75 times a BYE,
//! both together a 300th of a second. How much one request costs varies (gamma, coefficient of variation
//! 0.5). Servers may stall now and then, as programs with garbage collection do.
//!
//! Callers may repeat what nobody answers, as RFC 3261 has it (17.1.1.2 and 17.1.2.2): after T1, then after
//! twice as long each time, BYE up to T2; an INVITE until a 100 comes, which a server sends 200 ms after the
//! INVITE came if it does not stand still; nothing after 64 T1. A repeated request costs its server
//! something.

use load::backend::{Kind, Model, Station};
use load::population::{Distribution, Rng};
use sip_balancer::{
    Algorithm, Answer, CallKey, Cluster, Dispatcher, MethodClass, Node, NodeIndex, OCCUPANCIES, Proof,
    Request, Rules,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Time;

/// Calls a second that one whole server can do.
pub const CAPACITY: f64 = 300.0;
/// RFC 3261's T1 and T2, and 64 T1 after which nobody waits any longer; when an INVITE gets a 100, and how
/// often who stands still looks whether it may send that.
const T1: f64 = 0.5;
const T2: f64 = 4.0;
pub const PATIENCE: f64 = 64.0 * T1;
const TRYING: f64 = 0.2;
const LOOK: f64 = 0.02;

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
    /// A server stalls at random intervals, mean and length in seconds, at the same times for every
    /// algorithm.
    pub stalls: Option<(f64, f64)>,
    /// What a request that is repeated costs beside a BYE. Without it nobody repeats anything.
    pub repeats: Option<f64>,
    /// A request that takes longer has failed, seconds: a client without an answer repeats it after 0.5.
    pub limit: f64,
    /// The rate begins with one call a second and grows each second by one for each server, before `warm`
    /// begins.
    pub ramp: bool,
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
            repeats: None,
            limit: 0.5,
            ramp: false,
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
    /// Of INVITEs whose caller has received the 200, which it does within 32 s or not at all: what the paper
    /// calls the response time (section V).
    pub received: f64,
    /// The part of requests that failed.
    pub failed: f64,
    /// Transactions by the number of unfinished ones that they found at their server.
    pub occupancy: Vec<u64>,
    /// Requests that were repeated, of those that counted.
    pub repeated: u64,
    /// Calls by server.
    pub shares: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    call: u64,
    class: MethodClass,
    came: f64,
    /// It has come before.
    again: bool,
}

/// A request that its caller waits for.
#[derive(Clone, Copy, Debug)]
struct Open {
    came: f64,
    server: usize,
    /// Its INVITE has had a 100.
    trying: bool,
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
    /// A caller has waited so long for what was sent last.
    Repeat(u64, MethodClass, f64),
    /// A server says 100, if it can.
    Trying(u64),
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
    /// When the ramp is over and what is after it is over; when something begins to count.
    end: f64,
    warm: f64,
    /// Requests without their answer, where they are repeated.
    open: BTreeMap<u64, Open>,
    calls: u64,
    outcome: Outcome,
    counts: [(f64, u64); 2],
    received: (f64, u64),
    failed: u64,
}

/// Runs an experiment.
pub fn run(setup: &Setup) -> Outcome {
    let node = |i: usize| {
        let address = SocketAddr::new([10, 0, 0, i as u8 + 1].into(), 5060);
        Node::new(address)
    };
    let cluster = Cluster::new((0..setup.speeds.len()).map(node).collect(), 1);
    let room = (setup.rate
        * (setup.hold.0 + setup.hold.1 * 4.0 + if setup.repeats.is_some() { 200.0 } else { 40.0 }))
        as usize
        + 10_000;
    // What does not answer for a while here is busy, not dead.
    let rules = Rules { down_after: u32::MAX, outlier_share: 0, ..Rules::default() };
    let dispatcher = Dispatcher::new(Arc::clone(&cluster), 0, setup.algorithm, rules, room, setup.seed);
    let model = |speed: &f64| Model {
        capacity: speed * CAPACITY,
        room: usize::MAX,
        stalls: setup.stalls,
        repeat_cost: setup.repeats.unwrap_or(0.0),
        ..Model::default()
    };
    let server = |(nth, speed): (usize, &f64)| Server {
        station: Station::new(model(speed), setup.seed, nth as u64),
        version: 0,
    };
    let growth = setup.speeds.len() as f64;
    let warm = setup.warm + if setup.ramp { setup.rate / growth } else { 0.0 };
    let mut world = World {
        random: Rng::new(setup.seed, u64::MAX),
        dispatcher,
        servers: setup.speeds.iter().enumerate().map(server).collect(),
        queue: BinaryHeap::new(),
        events: Vec::new(),
        free: Vec::new(),
        now: 0.0,
        end: warm + setup.seconds,
        warm,
        open: BTreeMap::new(),
        calls: 0,
        outcome: Outcome { shares: vec![0; setup.speeds.len()], ..Outcome::default() },
        counts: [(0.0, 0); 2],
        received: (0.0, 0),
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
        self.at(0.0, Event::Call);
        while let Some(Reverse((nanos, place))) = self.queue.pop() {
            let event = self.events[place as usize];
            self.free.push(place);
            self.now = nanos as f64 / 1e9;
            if self.now > self.end {
                break;
            }
            self.dispatcher.timeout(self.time());
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Call => {
                let next = self.now + self.random.exponential() / self.rate();
                self.at(next, Event::Call);
                self.calls += 1;
                self.request(self.calls, MethodClass::Invite);
            }
            Event::HangUp(call) => self.request(call, MethodClass::Bye),
            Event::Look(server, version) if self.servers[server].version == version => {
                self.answers(server);
                self.changed(server);
            }
            Event::Look(..) => {}
            Event::Repeat(call, class, waited) => self.repeat(call, class, waited),
            Event::Trying(call) => self.trying(call),
        }
    }

    /// New calls a second by now.
    fn rate(&self) -> f64 {
        let grown = 1.0 + self.setup.speeds.len() as f64 * self.now.floor();
        if self.setup.ramp { grown.min(self.setup.rate) } else { self.setup.rate }
    }

    /// A caller sends once more what nobody has answered.
    fn repeat(&mut self, call: u64, class: MethodClass, waited: f64) {
        let Some(&open) = self.open.get(&id(call, class)) else { return };
        if open.trying {
            return;
        }
        if self.now - open.came > PATIENCE - T1 {
            self.open.remove(&id(call, class));
            return;
        }
        self.outcome.repeated += u64::from(self.now >= self.warm);
        self.send(call, class, open.came, true);
        let next = if class == MethodClass::Invite { waited * 2.0 } else { (waited * 2.0).min(T2) };
        self.at((self.now + next).min(open.came + PATIENCE), Event::Repeat(call, class, next));
    }

    /// An INVITE that is not answered gets a 100, from one that does not stand still.
    fn trying(&mut self, call: u64) {
        let now = self.time();
        let Some(open) = self.open.get_mut(&id(call, MethodClass::Invite)) else { return };
        let server = open.server;
        if self.servers[server].station.is_stalled() {
            let later = self.now + LOOK;
            return self.at(later, Event::Trying(call));
        }
        open.trying = true;
        let node = NodeIndex(server as u16);
        self.dispatcher.response(
            now,
            key(call),
            id(call, MethodClass::Invite),
            MethodClass::Invite,
            node,
            &Answer::new(100),
        );
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

    fn request(&mut self, call: u64, class: MethodClass) {
        let Some(server) = self.send(call, class, self.now, false) else { return };
        if class == MethodClass::Invite && self.now >= self.warm {
            self.outcome.shares[server] += 1;
        }
        if self.setup.repeats.is_some() {
            self.open.insert(id(call, class), Open { came: self.now, server, trying: false });
            self.at(self.now + T1, Event::Repeat(call, class, T1));
            if class == MethodClass::Invite {
                self.at(self.now + TRYING, Event::Trying(call));
            }
        }
    }

    /// A request on its way to a server, which is the answer.
    fn send(&mut self, call: u64, class: MethodClass, came: f64, again: bool) -> Option<usize> {
        // As SIPp writes them.
        let call_id = format!("{call}-31415@10.0.1.{}", call % 3 + 1);
        let request = Request {
            call: key(call),
            call_id: call_id.as_bytes(),
            id: id(call, class),
            class,
            inside: class == MethodClass::Bye,
            token: None,
            sealed: true,
            home: None,
            large: false,
            secure: false,
            bytes: 0,
            proof: Proof::None,
            back: None,
        };
        let now = self.time();
        let Ok(assigned) = self.dispatcher.request(now, &request) else {
            self.failed += u64::from(!again);
            return None;
        };
        let server = usize::from(assigned.node.0);
        self.answers(server);
        let job = Job { call, class, came, again };
        let kind = match (again, class) {
            (true, _) => Kind::Repeat,
            (false, MethodClass::Invite) => Kind::Invite,
            (false, _) => Kind::Other,
        };
        let taken = self.servers[server].station.offer(self.now, kind, job);
        self.failed += u64::from(taken.is_err() && !again);
        self.changed(server);
        Some(server)
    }

    fn answered(&mut self, server: usize, job: Job) {
        if job.again {
            // It came after the first one, which has been answered by now.
            return;
        }
        let took = self.now - job.came;
        let now = self.time();
        let node = NodeIndex(server as u16);
        let id = id(job.call, job.class);
        self.dispatcher.response(now, key(job.call), id, job.class, node, &Answer::new(200));
        self.open.remove(&id);
        if job.came >= self.warm {
            let (sum, count) = &mut self.counts[usize::from(job.class == MethodClass::Bye)];
            *sum += took;
            *count += 1;
            self.failed += u64::from(took > self.setup.limit);
            if job.class == MethodClass::Invite && took < PATIENCE {
                let (sum, count) = self.received;
                self.received = (sum + took, count + 1);
            }
        }
        if job.class == MethodClass::Invite && took < PATIENCE {
            let (mean, stdev) = self.setup.hold;
            let hold = Distribution::Normal { mean, stdev }.sample(&mut self.random).max(0.0);
            self.at(self.now + hold, Event::HangUp(job.call));
        }
    }

    fn finish(mut self) -> Outcome {
        // What waits already longer than it may has failed as well. Where requests are repeated whole servers
        // may be lost to that, and a mean of the others' would be a good one: there it counts as long as it
        // has waited, but not in the time of those received, which the paper has.
        let (end, warm, limit, all) = (self.end, self.warm, self.setup.limit, self.setup.repeats.is_some());
        let waiting = self.servers.iter().flat_map(|server| server.station.processor().jobs());
        for job in waiting.filter(|job| !job.again && job.came >= warm) {
            let waited = end - job.came;
            self.failed += u64::from(waited > limit);
            if all {
                let (sum, count) = &mut self.counts[usize::from(job.class == MethodClass::Bye)];
                (*sum, *count) = (*sum + waited, *count + 1);
            }
        }
        let [(invites, invite_count), (byes, bye_count)] = self.counts;
        let mut occupancy = vec![0; OCCUPANCIES];
        for stats in self.dispatcher.stats() {
            occupancy.iter_mut().zip(stats.occupancy.iter()).for_each(|(sum, n)| *sum += n);
        }
        Outcome {
            invite: invites / invite_count.max(1) as f64,
            bye: byes / bye_count.max(1) as f64,
            received: self.received.0 / self.received.1.max(1) as f64,
            // Of those that were refused nothing else is known.
            failed: self.failed as f64 / (invite_count + bye_count).max(self.failed).max(1) as f64,
            occupancy,
            ..self.outcome
        }
    }
}

fn id(call: u64, class: MethodClass) -> u64 {
    call << 1 | u64::from(class == MethodClass::Bye)
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
