//! A balancer in front of several servers, of which one dies now and then: random runs, from one seed.
//!
//! Balancer and servers are the real machines. The servers share what phones have registered, as through a
//! shared location service. The run checks what `docs/design/balance-failover.md` promises. Each call has one
//! final response. A call is answered if no server dies during its set-up, even if one is down. An
//! established call can be ended once its server is back. The balancer's counters match its records.

use crate::network::{Network, Place};
use crate::phone::{CallSpec, Final, Manner, Packet, Phone, Profile, Source, Stage};
use crate::rng::Rng;
use crate::scenario::{Location, Net, ROOM};
use crate::services::{Shared, SimServices, Users};
use crate::site::{Site, SiteSpec, UDP};
use crate::text::Reader;
use crate::trace::{Fate, Trace};
use core::fmt;
use core::time::Duration;
use location::{BindingLog, Clock, Keeper};
use sip_auth::{Algorithm, Credentials};
use sip_balancer::token::{Key, Keys};
use sip_balancer::{Balancer, Cluster, Listener, NodeIndex, Notice, Settings, Setup};
use sip_message::Method;
use sip_node::Node;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use wire::{Arrival, Flow, Machine, Outbox, Time, Transport};

const BALANCER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 100)), 5060);
const DOMAIN: &str = "a.test";
/// Calls begin, and servers die, between these.
const BEGIN: Time = Time::from_secs(5);
const LAST: Time = Time::from_secs(60);
/// Everything is over, and the balancer has forgotten it.
const END: Time = Time::from_secs(400);
/// A call that no server dies under is answered within this.
const ANSWERED: Duration = Duration::from_secs(8);
/// Without loss it is answered within this, though a server is down: callees let it ring for two seconds.
const SOON: Duration = Duration::from_secs(4);
/// The end of a call takes no longer than this.
const SETTLED: Duration = Duration::from_secs(8);
/// A final response is repeated within this: T2 (RFC 3261 section 17.2.1), and the way from its server.
const REPEATED: Duration = Duration::from_millis(4_100);
/// A server that is back takes requests of its calls after this: it has answered two probes.
const BACK: Duration = Duration::from_secs(4);
const EVENTS_MAX: u64 = 200_000;

/// What a run without a violation did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClusterOutcome {
    /// A hash of all bytes sent and of their times.
    pub hash: u64,
    /// Calls tried, and those that were answered.
    pub calls: u64,
    /// See `calls`.
    pub answered: u64,
    /// Times that a server died.
    pub crashes: u64,
    /// Calls that were up when their server died.
    pub carried: u64,
}

/// A run with a violation.
#[derive(Clone, Debug)]
pub struct ClusterFailure {
    /// The seed.
    pub seed: u64,
    /// What did not hold, and the last messages.
    pub detail: String,
}

impl fmt::Display for ClusterFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster seed {}: {}", self.seed, self.detail)
    }
}

/// A location service elsewhere, which keeps what it is told.
struct Elsewhere;

impl BindingLog for Elsewhere {
    fn keep(&self, _: &[u32]) -> location::Result<()> {
        Ok(())
    }
}

enum Event {
    Datagram {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// The network says that a message of the balancer cannot be delivered.
    Refused(u64),
    Wake(Who),
    Call(usize),
    Crash(usize, Duration),
    Restart(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Who {
    Balancer,
    Server { server: usize, life: u32 },
    Phone(usize),
}

/// A server of the cluster.
struct Server {
    site: Site,
    node: Option<Node<SimServices>>,
    life: u32,
    /// When it was down.
    down: Vec<(Time, Time)>,
    /// When it was up, and the balancer gave it no calls: where messages are lost, so are answers to probes.
    doubted: Vec<(Time, Time)>,
    doubted_since: Option<Time>,
}

impl Server {
    fn new(site: Site) -> Server {
        let (down, doubted) = (Vec::new(), Vec::new());
        Server { site, node: None, life: 0, down, doubted, doubted_since: None }
    }
}

struct Run {
    now: Time,
    rng: Rng,
    network: Network,
    balancer: Balancer,
    cluster: Arc<Cluster>,
    generation: u32,
    servers: Vec<Server>,
    shared: Rc<Shared>,
    clock: Clock,
    phones: Vec<Phone>,
    calls: Vec<(Time, usize, CallSpec)>,
    wakes: BTreeMap<Who, Time>,
    queue: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    trace: Trace,
    mistake: Option<ClusterMistake>,
    lossy: bool,
    /// When calls had their answers.
    answers: BTreeMap<usize, Time>,
    /// Final responses to INVITEs, other than challenges, that were lost on their way to the caller: when and
    /// of which Call-ID.
    lost_finals: Vec<(Time, Vec<u8>)>,
}

/// A deliberate mistake, to see that the checks can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterMistake {
    /// The balancer does not notice that a server is silent or down.
    NoFailover,
    /// A server that died stays away when it should be back.
    StaysDown,
}

/// Plays a run, with a mistake or without.
///
/// # Errors
/// The first promise that was broken.
pub fn run_cluster(
    seed: u64,
    mistake: Option<ClusterMistake>,
) -> Result<ClusterOutcome, Box<ClusterFailure>> {
    let mut run = Run::new(seed, mistake);
    let outcome = run.play().and_then(|()| run.judge());
    outcome.map_err(|problem| {
        let ladder = run.trace.ladder(|address| run.name_of(address));
        Box::new(ClusterFailure { seed, detail: format!("{problem}\n{ladder}") })
    })
}

fn address_of(server: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 10 + server as u8], 5060))
}

fn profile(number: usize, user: &str, rng: &mut Rng) -> Profile {
    let address = SocketAddr::from(([198, 51, 100, 10 + number as u8], 5060));
    Profile {
        user: user.into(),
        domain: DOMAIN.into(),
        password: format!("secret of {user}"),
        algorithm: Algorithm::Md5,
        transport: Transport::Udp,
        network: address,
        claimed: address,
        rport: true,
        translation: None,
        keepalive: None,
        home: BALANCER,
        manner: Manner::Answers(rng.between(100, 2_000)),
        registers: true,
        expires: 3_600,
        q: 1_000,
        eager: rng.chance(500),
        leaves: false,
    }
}

impl Run {
    fn new(seed: u64, mistake: Option<ClusterMistake>) -> Run {
        let mut rng = Rng::new(seed ^ 0x6e6f_6465_7320_6469);
        let lossy = rng.chance(300);
        let net = Net {
            loss: if lossy { rng.between(5, 50) } else { 0 },
            duplicate: rng.pick(&[0, 0, 50], 0),
            low_ms: 1,
            high_ms: rng.between(2, 30),
            late: 0,
            late_ms: 1,
        };
        let mut network = Network::new(net, rng.fork());
        let users = ["alice", "bob", "carol", "dave"];
        let profiles: Vec<Profile> =
            users.iter().enumerate().map(|(number, user)| profile(number, user, &mut rng)).collect();
        let phones: Vec<Phone> = profiles
            .iter()
            .map(|profile| {
                let begins = Time::ZERO + rng.millis(100, 2_000);
                Phone::new(profile.clone(), begins, Time::FAR, rng.fork())
            })
            .collect();
        for (number, phone) in phones.iter().enumerate() {
            network.put(phone.profile.network, Place::Phone(number));
        }
        let users = Rc::new(secrets(&profiles));
        let clock = Clock::new(|| Time::ZERO, || 0);
        let secret = [seed as u8 | 1; 16];
        let servers: Vec<Server> = (0..rng.between(2, 3) as usize)
            .map(|server| {
                network.put(address_of(server), Place::Site(server));
                let site =
                    Site::new(spec(server, secret), users.clone(), Location::Here, clock.clone(), rng.fork());
                Server::new(site)
            })
            .collect();
        let members = (0..servers.len()).map(|server| sip_balancer::Node::new(address_of(server))).collect();
        let cluster = Cluster::new(members, 1);
        let keys = Keys { current: Key { epoch: 1, secret }, previous: None, hash: secret };
        let setup =
            Setup { worker: 0, workers: 1, cluster: Arc::clone(&cluster), keys, calls: 1_000, seed, life: 1 };
        let mut settings = Settings::new(vec![Listener::new(Transport::Udp, BALANCER, None)]);
        if mistake == Some(ClusterMistake::NoFailover) {
            (settings.probing.interval, settings.rules.silent_after) = (Duration::ZERO, Duration::ZERO);
            settings.rules.down_after = u32::MAX;
        }
        let mut run = Run {
            now: Time::ZERO,
            network,
            balancer: Balancer::new(setup, Arc::new(settings)),
            generation: cluster.generation(),
            cluster,
            servers,
            shared: Rc::new(Shared::new([rng.next(), rng.next()], users, Location::Here)),
            clock,
            phones,
            calls: Vec::new(),
            wakes: BTreeMap::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            trace: Trace::new(80),
            mistake,
            lossy,
            answers: BTreeMap::new(),
            lost_finals: Vec::new(),
            rng,
        };
        run.plan();
        run
    }

    /// Calls between phones, and servers that die one at a time.
    fn plan(&mut self) {
        let span = |rng: &mut Rng| {
            Time::from_millis(rng.between(BEGIN.as_micros() / 1_000, LAST.as_micros() / 1_000))
        };
        for number in 0..self.rng.between(8, 20) as usize {
            let caller = self.rng.index(self.phones.len());
            let callee = (caller + 1 + self.rng.index(self.phones.len() - 1)) % self.phones.len();
            let spec = CallSpec {
                number,
                callee: self.phones[callee].profile.aor(),
                patience: None,
                talk: self.rng.between(200, 15_000),
                callee_hangs_up: self.rng.chance(300),
                reinvite: false,
                padding: 0,
            };
            let at = span(&mut self.rng);
            self.calls.push((at, caller, spec));
            self.at(at, Event::Call(number));
        }
        let mut at = BEGIN;
        loop {
            at = at + self.rng.millis(2_000, 15_000);
            if at > LAST {
                break;
            }
            let (server, down) = (self.rng.index(self.servers.len()), self.rng.millis(50, 8_000));
            self.at(at, Event::Crash(server, down));
            at = at + down;
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.queue.insert((time.max(self.now), self.sequence), event);
    }

    fn play(&mut self) -> Result<(), String> {
        for server in 0..self.servers.len() {
            self.start(server);
        }
        for phone in 0..self.phones.len() {
            self.rearm(Who::Phone(phone), Some(self.phones[phone].next_deadline()));
        }
        self.with_balancer(|balancer, now, out| balancer.timeout(now, out));
        let mut events = 0;
        while let Some(((time, _), event)) = self.queue.pop_first() {
            if time > END {
                break;
            }
            self.now = time;
            events += 1;
            if events > EVENTS_MAX {
                return Err(format!("{EVENTS_MAX} events by {time:?}"));
            }
            self.happen(event);
            if self.lossy {
                self.note_doubts();
            }
        }
        self.now = END;
        Ok(())
    }

    /// Notes which servers are up and get no calls.
    fn note_doubts(&mut self) {
        for (number, server) in self.servers.iter_mut().enumerate() {
            let at = NodeIndex(number as _);
            let doubted = server.node.is_some() && !self.cluster.takes_calls(self.now, at);
            match server.doubted_since {
                None if doubted => server.doubted_since = Some(self.now),
                Some(since) if !doubted => {
                    server.doubted.push((since, self.now));
                    server.doubted_since = None;
                }
                _ => {}
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { from, to, bytes } => self.arrive(from, to, &bytes),
            Event::Refused(token) => {
                self.with_balancer(|balancer, now, out| balancer.undeliverable(now, token, out));
            }
            Event::Wake(who) => {
                if self.wakes.get(&who).is_none_or(|due| *due > self.now) {
                    return;
                }
                self.wakes.remove(&who);
                match who {
                    Who::Balancer => self.with_balancer(|balancer, now, out| balancer.timeout(now, out)),
                    Who::Server { server, life } if self.servers[server].life == life => {
                        self.with_server(server, |node, now, out| node.timeout(now, out));
                    }
                    Who::Server { .. } => {}
                    Who::Phone(phone) => self.with_phone(phone, |phone, now| phone.timeout(now)),
                }
            }
            Event::Call(number) => {
                let (_, caller, spec) = self.calls[number].clone();
                self.with_phone(caller, |phone, now| phone.call(now, spec));
            }
            Event::Crash(server, down) => {
                self.trace.note(self.now, format!("server {server} dies for {down:?}"));
                let (now, s) = (self.now, &mut self.servers[server]);
                s.node = None;
                s.life += 1;
                s.down.push((now, now + down));
                self.at(now + down, Event::Restart(server));
            }
            Event::Restart(server) => {
                self.trace.note(self.now, format!("server {server} is back"));
                if self.mistake != Some(ClusterMistake::StaysDown) {
                    self.start(server);
                }
            }
        }
    }

    fn start(&mut self, server: usize) {
        let seed = [self.rng.next(), self.rng.next()];
        let keeper = Keeper::new(Arc::clone(&self.shared.location), Arc::new(Elsewhere), self.clock.clone());
        let (shared, book) = (self.shared.clone(), Rc::default());
        let services = SimServices { worker: 0, shared, keeper, book };
        let s = &mut self.servers[server];
        let mut settings = s.site.settings(0);
        settings.aliases.push(BALANCER.ip().to_string().into_bytes());
        settings.auth.fronts.push((BALANCER.ip(), 32));
        s.node = Some(Node::new(s.site.config(0, seed), Arc::new(settings), services));
    }

    fn arrive(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let flow = Flow::udp(UDP, from);
        if to == BALANCER {
            return self.with_balancer(|balancer, now, out| {
                balancer.receive(Arrival::new(now, flow, bytes), out);
            });
        }
        match self.network.at(to) {
            Some(Place::Site(server)) => {
                self.with_server(server, |node, now, out| {
                    node.receive(Arrival::new(now, flow, bytes), out);
                });
            }
            Some(Place::Phone(phone)) => {
                let source = Source { address: from, conn: None };
                self.with_phone(phone, |phone, now| phone.receive(now, source, bytes));
            }
            _ => {}
        }
    }

    fn with_balancer(&mut self, act: impl FnOnce(&mut Balancer, Time, &mut Outbox)) {
        let (now, mut out) = (self.now, Outbox::new());
        act(&mut self.balancer, now, &mut out);
        if self.generation != self.cluster.generation() {
            // As the threads of the binary do it: all workers look what that means for them.
            self.generation = self.cluster.generation();
            self.balancer.notice(now, Notice::Look, &mut out);
        }
        self.send_all(BALANCER, &out);
        self.rearm(Who::Balancer, self.balancer.next_deadline());
    }

    fn with_server(&mut self, server: usize, act: impl FnOnce(&mut Node<SimServices>, Time, &mut Outbox)) {
        let (now, mut out, life) = (self.now, Outbox::new(), self.servers[server].life);
        let Some(node) = &mut self.servers[server].node else { return };
        act(node, now, &mut out);
        node.round_ends(now, &mut out);
        let deadline = node.next_deadline();
        self.send_all(address_of(server), &out);
        self.rearm(Who::Server { server, life }, deadline);
    }

    fn with_phone(&mut self, phone: usize, act: impl FnOnce(&mut Phone, Time)) {
        let now = self.now;
        act(&mut self.phones[phone], now);
        let answered = self.phones[phone].calls.iter().filter(|call| call.result.is_some());
        for number in answered.map(|call| call.spec.number) {
            self.answers.entry(number).or_insert(now);
        }
        let from = self.phones[phone].profile.network;
        for Packet { to, bytes, .. } in core::mem::take(&mut self.phones[phone].out) {
            self.send(from, to, bytes, 0);
        }
        self.rearm(Who::Phone(phone), Some(self.phones[phone].next_deadline()));
    }

    fn rearm(&mut self, who: Who, deadline: Option<Time>) {
        let Some(deadline) = deadline.filter(|deadline| *deadline < Time::FAR) else { return };
        if self.wakes.get(&who).is_some_and(|due| *due <= deadline) {
            return;
        }
        self.wakes.insert(who, deadline);
        // The kernel wakes nobody before his time.
        let late = Duration::from_micros(self.rng.between(1, 1_000));
        self.at(deadline.max(self.now) + late, Event::Wake(who));
    }

    fn send_all(&mut self, from: SocketAddr, out: &Outbox) {
        for transmit in out.transmits() {
            let token = if from == BALANCER { transmit.token } else { 0 };
            self.send(from, transmit.flow.remote, out.message(transmit).to_vec(), token);
        }
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>, token: u64) {
        let dead = matches!(self.network.at(to), Some(Place::Site(s)) if self.servers[s].node.is_none());
        if dead && token != 0 && self.rng.chance(300) {
            // The machine is up, and nothing listens there.
            let delay = self.network.delay();
            self.at(self.now + delay, Event::Refused(token));
        }
        let copies = self.network.copies();
        if copies.is_empty() && from == BALANCER {
            self.note_lost(&bytes);
        }
        let fate = if copies.is_empty() { Fate::Lost } else { Fate::Sent };
        self.trace.message(self.now, from, to, &bytes, fate);
        for delay in copies {
            self.at(self.now + delay, Event::Datagram { from, to, bytes: bytes.clone() });
        }
    }

    /// Notes a final response to an INVITE that is lost, if it is one that only its server repeats.
    fn note_lost(&mut self, bytes: &[u8]) {
        let mut reader = Reader::default();
        let Some(message) = reader.read(bytes).filter(|m| !m.is_request()) else { return };
        if message.method() == Method::Invite && !matches!(message.status(), ..200 | 401 | 407) {
            self.lost_finals.push((self.now, message.call_id().to_vec()));
        }
    }

    /// Whether a final response of a call was lost, and a server died before it would have been repeated.
    fn answer_died(&self, call_id: &str) -> bool {
        let lost = self.lost_finals.iter().filter(|(_, id)| id == call_id.as_bytes());
        let died = |at: Time| {
            let mut down = self.servers.iter().flat_map(|server| &server.down);
            // It may have died while the response was on its way.
            down.any(|(died, _)| at < *died + Duration::from_millis(100) && *died < at + REPEATED)
        };
        lost.into_iter().any(|(at, _)| died(*at))
    }

    /// Whether some server dies, is down or is back for less than `after` between these times.
    fn disturbed(&self, from: Time, to: Time, after: Duration) -> bool {
        let down = self.servers.iter().flat_map(|server| server.down.iter().chain(&server.doubted));
        down.into_iter().any(|(died, back)| *died < to && from < *back + after)
    }

    fn judge(&self) -> Result<ClusterOutcome, String> {
        let mut outcome = ClusterOutcome {
            hash: self.trace.hash(),
            calls: self.calls.len() as u64,
            crashes: self.servers.iter().map(|server| server.down.len() as u64).sum(),
            ..ClusterOutcome::default()
        };
        for phone in &self.phones {
            if phone.open_clients() > 0 {
                return Err(format!("{} has transactions that do not end", phone.profile.aor()));
            }
        }
        for (number, (begun, caller, _)) in self.calls.iter().enumerate() {
            let Some(call) = self.phones[*caller].calls.iter().find(|call| call.spec.number == number) else {
                continue;
            };
            let name = format!("call {number} of {} at {begun:?}", self.phones[*caller].profile.aor());
            let answered = matches!(call.result, Some(Final::Status(200..=299)));
            outcome.answered += u64::from(answered);
            // A server may be down: others take the call. But none dies while it is set up.
            let dies = self
                .servers
                .iter()
                .flat_map(|s| &s.down)
                .any(|(died, _)| *begun <= *died + Duration::from_secs(1) && *died < *begun + ANSWERED);
            // A response that only its server repeats is lost with it (docs/design/balance-failover.md).
            let gone = call.stage == Stage::Over && self.answer_died(&call.call_id);
            if !gone && (!matches!(call.result, Some(Final::Status(_))) || call.stage != Stage::Over) {
                return Err(format!("{name} has no answer: {:?} {:?}", call.result, call.stage));
            }
            // Where the balancer takes the last server for down, too, it has none for the call.
            let doubted = self.lossy && self.disturbed(*begun, *begun + ANSWERED, Duration::ZERO);
            if !answered && !dies && !doubted {
                return Err(format!("{name} failed: {:?}", call.result));
            }
            let late = self.answers.get(&number).is_none_or(|at| at.since(*begun) > SOON);
            if late && !dies && !self.lossy {
                return Err(format!("{name} was answered late: {:?}", self.answers.get(&number)));
            }
            let Some(up) = self.answers.get(&number).filter(|_| answered) else { continue };
            let hangs_up = *up + Duration::from_millis(call.spec.talk);
            outcome.carried += u64::from(self.disturbed(*up, hangs_up, Duration::ZERO));
            // Its server may have died meanwhile, as long as it is back when a phone hangs up.
            let ended = matches!(call.bye, Some(Final::Status(200)));
            if !ended && !self.disturbed(hangs_up, hangs_up + SETTLED, BACK) {
                return Err(format!("{name} did not end as it should: {:?}", call.bye));
            }
        }
        let report = self.balancer.report(true);
        if report.exact != Some(true) {
            return Err(format!("the balancer's counters are not those of its records: {report:?}"));
        }
        if report.transactions != 0 || report.kept != 0 {
            return Err(format!("the balancer has not forgotten everything: {report:?}"));
        }
        Ok(outcome)
    }

    fn name_of(&self, address: &str) -> String {
        let Ok(parsed) = address.parse::<SocketAddr>() else { return address.to_owned() };
        match self.network.at(parsed) {
            _ if parsed == BALANCER => "balancer".to_owned(),
            Some(Place::Site(server)) => format!("server {server}"),
            Some(Place::Phone(phone)) => self.phones[phone].profile.user.clone(),
            _ => address.to_owned(),
        }
    }
}

fn spec(server: usize, secret: [u8; 16]) -> SiteSpec {
    SiteSpec {
        address: address_of(server),
        domain: DOMAIN.into(),
        workers: 1,
        record_route: true,
        parallel: true,
        voicemail: false,
        trunks: Vec::new(),
        algorithm: Algorithm::Md5,
        transit: false,
        commit_ms: 0,
        secret,
        room: ROOM,
    }
}

fn secrets(profiles: &[Profile]) -> Users {
    let secret = |p: &Profile| {
        let (user, domain) = (p.user.as_bytes(), p.domain.as_bytes());
        let made = Credentials::from_password(user, domain, domain, p.password.as_bytes(), &[p.algorithm]);
        ((user.to_vec(), domain.to_vec()), made)
    };
    profiles.iter().map(secret).collect()
}
