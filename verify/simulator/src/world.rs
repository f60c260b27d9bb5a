//! The loop: events in the order of their times, and what each does to servers, phones and network.

use crate::attack::{ATTACKER, FORGED};
use crate::check::{Check, Monitor, Outage, Violation, Who};
use crate::disk::{End, Faults};
use crate::mutation::Mutation;
use crate::network::{Network, Place, Ticket};
use crate::phone::{Packet, Phone, Source};
use crate::records::Truth;
use crate::rng::Rng;
use crate::scenario::{END, Fault, RETIRE, ROOM, Scenario};
use crate::services::{SimServices, Users};
use crate::site::{Site, SiteSpec, UDP, secure};
use crate::text::string;
use crate::trace::{Fate, Trace};
use crate::translation::Translator;
use core::time::Duration;
use location::Clock;
use sip_auth::Credentials;
use sip_node::Node;
use sip_proxy::locate::Kind;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use wire::{Arrival, Flow, Machine, Outbox, Time, Transport};

mod answers;
mod streams;
mod trouble;

use answers::Answers;

/// More events than this in one run are a run that does not end.
const EVENTS_MAX: u64 = 200_000;
/// Wall-clock time at the beginning, microseconds since 1970.
const WALL: i64 = 1_800_000_000_000_000;

/// Something that happens at its time.
enum Event {
    Datagram { from: SocketAddr, to: SocketAddr, bytes: Vec<u8> },
    Stream { conn: u64, to: usize, bytes: Vec<u8>, ticket: Option<Ticket> },
    Closed { conn: u64 },
    Undeliverable(Ticket),
    Wake { site: usize, life: u32, worker: usize },
    Phone(usize),
    Call(usize),
    Ask(usize),
    Attack,
    Fault(usize),
    Restart { site: usize, outage: Outage, clock: i64 },
    StoreUp(usize),
    Commit { site: usize, life: u32 },
    Move { site: usize, life: u32 },
    Sweep { site: usize, life: u32 },
    Name { site: usize, life: u32, worker: usize, kind: Kind, name: Box<[u8]> },
    Bindings { site: usize, life: u32, worker: usize, aor: Box<[u8]>, down: bool },
}

/// Monotonic time, and the wall clock minus that, in microseconds.
#[derive(Default)]
struct Hands {
    monotonic: AtomicU64,
    wall: AtomicI64,
}

impl Hands {
    fn clock(self: &Arc<Hands>) -> Clock {
        let (one, other) = (Arc::clone(self), Arc::clone(self));
        let monotonic = |hands: &Hands| hands.monotonic.load(Ordering::Relaxed);
        let wall = move || other.wall.load(Ordering::Relaxed) + monotonic(&other).cast_signed();
        Clock::new(move || Time::from_micros(monotonic(&one)), wall)
    }
}

/// One run.
pub(crate) struct World {
    pub now: Time,
    pub scenario: Scenario,
    pub sites: Vec<Site>,
    pub phones: Vec<Phone>,
    pub monitor: Monitor,
    pub trace: Trace,
    pub network: Network,
    translators: Vec<Option<Translator>>,
    /// The phones that were registered when each call began.
    pub ready: BTreeMap<usize, Vec<usize>>,
    pub mutation: Option<Mutation>,
    /// Times that a mutation was applied.
    pub mutated: u32,
    queue: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    events: u64,
    rng: Rng,
    heard: VecDeque<Vec<u8>>,
    /// The clocks as the servers read them.
    hands: Arc<Hands>,
    answers: Answers,
    phone_wakes: Vec<Time>,
    out: Outbox,
}

impl World {
    /// A world that has not begun.
    pub fn new(seed: u64, scenario: Scenario, mutation: Option<Mutation>, keep: usize) -> World {
        let mut rng = Rng::new(!seed);
        let users = Rc::new(users(&scenario));
        let hands = Arc::<Hands>::default();
        hands.wall.store(WALL, Ordering::Relaxed);
        // A generator of their own: what else a seed decides stays as it is.
        let mut disks = Rng::new(seed.rotate_left(16));
        let site = |s: &SiteSpec| {
            Site::new(s.clone(), users.clone(), scenario.location, hands.clock(), disks.fork())
        };
        let sites: Vec<Site> = scenario.sites.iter().map(site).collect();
        let mut network = Network::new(scenario.net, rng.fork());
        let mut monitor = Monitor::default();
        for (i, site) in sites.iter().enumerate() {
            for address in [site.spec.address, secure(site.spec.address)] {
                network.put(address, Place::Site(i));
                monitor.peers.push(address);
            }
        }
        let (mut phones, mut translators) = (Vec::new(), Vec::new());
        for (i, profile) in scenario.phones.iter().enumerate() {
            network.put(profile.network, Place::Phone(i));
            // Behind a translation no host is at the address that the phone believes to have.
            let places =
                [Some(profile.network), Some(profile.claimed).filter(|_| profile.translation.is_none())];
            monitor.peers.extend(places.into_iter().flatten());
            translators
                .push(profile.translation.map(|rules| Translator::new(rules, profile.network, profile.home)));
            if profile.registers {
                monitor.contacts.entry(profile.aor()).or_default().push(profile.contact());
            }
            let begins = Time::ZERO + rng.millis(10, 5_000);
            phones.push(Phone::new(profile.clone(), begins, RETIRE, rng.fork()));
        }
        let attacker = address(ATTACKER);
        network.put(attacker, Place::Attacker);
        monitor.peers.push(attacker);
        // A clock that is set by no more than this counts as one that drifts.
        let drifts = |(_, fault): &&(Time, Fault)| matches!(fault, Fault::Clock(-5..=5));
        monitor.drift = Duration::from_secs(5) * scenario.faults.iter().filter(drifts).count() as u32;
        monitor.forgetful = scenario.sites.iter().any(|s| s.room != ROOM);
        monitor.reflected.insert(address(FORGED), 0);
        monitor.hostile = vec![attacker.ip(), address(FORGED).ip()];
        monitor.truth = Truth::new(monitor.hostile.clone());
        World {
            now: Time::ZERO,
            sites,
            phone_wakes: vec![Time::FAR; phones.len()],
            phones,
            monitor,
            trace: Trace::new(keep),
            network,
            translators,
            ready: BTreeMap::new(),
            mutation,
            mutated: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            events: 0,
            rng,
            heard: VecDeque::new(),
            hands,
            answers: Answers::new(seed.rotate_left(48)),
            out: Outbox::new(),
            scenario,
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.sequence += 1;
        self.queue.insert((time.max(self.now), self.sequence), event);
    }

    /// Has the servers' clocks show the time.
    pub(super) fn set_hands(&self) {
        self.hands.monotonic.store(self.now.as_micros(), Ordering::Relaxed);
    }

    /// The wall clock minus monotonic time, microseconds.
    pub(super) fn wall(&self) -> i64 {
        self.hands.wall.load(Ordering::Relaxed)
    }

    /// The wall clock is set by that many seconds.
    pub(super) fn set_wall(&self, seconds: i64) {
        self.hands.wall.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    /// Runs to the end, or to the first violation.
    pub fn run(&mut self) {
        self.set_hands();
        for site in 0..self.sites.len() {
            self.start(site);
        }
        for phone in 0..self.phones.len() {
            self.rearm_phone(phone);
        }
        let calls: Vec<Time> = self.scenario.calls.iter().map(|c| c.at).collect();
        for (i, at) in calls.into_iter().enumerate() {
            self.at(at, Event::Call(i));
        }
        let asks: Vec<Time> = self.scenario.asks.iter().map(|a| a.at).collect();
        for (i, at) in asks.into_iter().enumerate() {
            self.at(at, Event::Ask(i));
        }
        for at in self.scenario.attacks.clone() {
            self.at(at, Event::Attack);
        }
        let faults: Vec<Time> = self.scenario.faults.iter().map(|f| f.0).collect();
        for (i, at) in faults.into_iter().enumerate() {
            self.at(at, Event::Fault(i));
        }
        while let Some(((time, _), event)) = self.queue.pop_first() {
            if time > END || self.monitor.violation.is_some() {
                break;
            }
            self.now = time;
            self.set_hands();
            self.events += 1;
            if self.events > EVENTS_MAX {
                self.monitor.violate(Check::Terminates, format!("{EVENTS_MAX} events by {time:?}"));
                break;
            }
            self.happen(event);
        }
        self.now = END;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { from, to, bytes } => self.datagram_arrives(from, to, &bytes),
            Event::Stream { conn, to, bytes, ticket } => self.stream_arrives(conn, to, &bytes, ticket),
            Event::Closed { conn } => self.break_conn(conn),
            Event::Undeliverable(t) => {
                if self.is_alive(t.site, t.life) {
                    self.drive(t.site, t.worker, |node, now, out| node.undeliverable(now, t.token, out));
                }
            }
            Event::Wake { site, life, worker } => {
                let due = self.is_alive(site, life) && self.sites[site].wakes[worker] <= self.now;
                if due && !self.mutates(Mutation::StopTimers) {
                    self.sites[site].wakes[worker] = Time::FAR;
                    self.drive(site, worker, |node, now, out| node.timeout(now, out));
                }
            }
            Event::Phone(phone) => {
                if self.phone_wakes[phone] <= self.now {
                    self.phone_wakes[phone] = Time::FAR;
                    self.with_phone(phone, |phone, now| phone.timeout(now));
                }
            }
            Event::Call(i) => {
                let planned = self.scenario.calls[i].clone();
                let registered = |(number, phone): (usize, &Phone)| phone.is_registered().then_some(number);
                self.ready.insert(i, self.phones.iter().enumerate().filter_map(registered).collect());
                self.with_phone(planned.phone, |phone, now| phone.call(now, planned.what));
            }
            Event::Ask(i) => {
                let planned = self.scenario.asks[i].clone();
                let (method, aor) = planned.what;
                self.with_phone(planned.phone, |phone, now| phone.ask(now, method, &aor));
            }
            Event::Attack => {
                if self.mutates(Mutation::Loop) {
                    return self.at(self.now, Event::Attack);
                }
                self.attack();
            }
            Event::Fault(i) => self.fault(self.scenario.faults[i].1),
            Event::Restart { site, outage, clock } => self.restart(site, outage, clock),
            Event::StoreUp(site) => self.store_up(site),
            Event::Commit { site, life } => self.commit(site, life),
            Event::Move { site, life } => self.move_log(site, life),
            Event::Sweep { site, life } => self.sweep(site, life),
            Event::Name { site, life, worker, kind, name } => self.named(site, life, worker, kind, name),
            Event::Bindings { site, life, worker, aor, down } => self.told(site, life, worker, aor, down),
        }
    }

    // ------------------------------------------------------------- servers

    fn is_alive(&self, site: usize, life: u32) -> bool {
        self.sites[site].up && self.sites[site].life == life
    }

    pub(crate) fn who(&self, site: usize) -> Who {
        Who { site, life: self.sites[site].life, epoch: self.sites[site].epoch }
    }

    /// Starts the process of a server; false: its disk does not let it.
    fn start(&mut self, site: usize) -> bool {
        let now = self.now;
        let seed = [self.rng.next(), self.rng.next()];
        if let Err(error) = self.sites[site].start(now, seed) {
            self.trace.note(now, format!("site {site} does not start: {error}"));
            let s = &mut self.sites[site];
            if s.fails_until < now {
                self.monitor.violate(Check::BindingKept, format!("site {site} does not start: {error}"));
            }
            s.crash(End::Kill);
            return false;
        }
        if self.mutates(Mutation::DropCommit) {
            self.sites[site].disk.lie();
            self.mutated += 1;
        }
        let life = self.sites[site].life;
        let commit = Duration::from_millis(self.sites[site].spec.commit_ms);
        self.at(now + commit, Event::Commit { site, life });
        self.at(now + commit, Event::Move { site, life });
        self.at(now + Duration::from_millis(700), Event::Sweep { site, life });
        true
    }

    fn restart(&mut self, site: usize, outage: Outage, clock: i64) {
        if !self.start(site) {
            // The disk works by then.
            return self.at(self.now + Duration::from_secs(1), Event::Restart { site, outage, clock });
        }
        let outage = Outage { restart: self.now, clock_set: clock != self.wall(), ..outage };
        let found = self.bindings(site);
        self.monitor.restarted(site, outage, &found);
        self.trace.note(self.now, format!("site {site} is back with {} bindings", found.len()));
    }

    /// Every binding that a server would use now.
    fn bindings(&self, site: usize) -> Vec<(String, String, Time)> {
        let location = &self.sites[site].shared.location;
        let mut found = Vec::new();
        for aor in self.monitor.contacts.keys() {
            location.lookup(aor.as_bytes(), self.now, |b| {
                found.push((aor.clone(), string(b.contact), b.expires));
            });
        }
        found
    }

    fn commit(&mut self, site: usize, life: u32) {
        if !self.is_alive(site, life) {
            return;
        }
        let pause = self.sites[site].round(self.now);
        if self.ended(site) {
            return;
        }
        self.at(self.now + pause, Event::Commit { site, life });
    }

    /// A step of what moves the log into the table.
    fn move_log(&mut self, site: usize, life: u32) {
        if !self.is_alive(site, life) {
            return;
        }
        let pause = self.sites[site].step().max(Duration::from_millis(1));
        if self.ended(site) {
            return;
        }
        self.at(self.now + pause, Event::Move { site, life });
    }

    /// Whether the process of a server has ended in the midst of an operation of its disk; then it crashes.
    fn ended(&mut self, site: usize) -> bool {
        let ended = self.sites[site].up && self.sites[site].disk.is_dead();
        if ended {
            let down = self.rng.millis(10, 8_000);
            self.crash(site, down, true);
        }
        ended
    }

    /// Ends the process of a server for a while. `within`: it was in the midst of an operation.
    fn crash(&mut self, site: usize, down: Duration, within: bool) {
        let now = self.now;
        let s = &mut self.sites[site];
        // What the system gave up is on no disk, and with the process nobody has it any more.
        let power = self.rng.chance(500) || s.disk.gave_up();
        let (how, kept) = if power { (End::Power, s.durable) } else { (End::Kill, now) };
        let failed = now < s.fails_until + Duration::from_secs(8);
        let late = s.durable + Duration::from_secs(1) < now;
        s.crash(how);
        if late && !failed {
            let durable = s.durable;
            self.monitor.violate(Check::BindingKept, format!("site {site} was durable at {durable:?} last"));
        }
        self.trace.note(now, format!("site {site} ends: {how:?}"));
        self.break_streams(site);
        let outage = Outage { crash: now, kept, within, restart: now, clock_set: false };
        self.at(now + down, Event::Restart { site, outage, clock: self.wall() });
    }

    fn store_up(&mut self, site: usize) {
        if self.sites[site].fails_until <= self.now {
            self.sites[site].disk.set_faults(Faults::default());
        }
    }

    /// What the store does each second: forgets bindings that are over. And the checks on the rest.
    fn sweep(&mut self, site: usize, life: u32) {
        if !self.is_alive(site, life) {
            return;
        }
        let now = self.now;
        let location = &self.sites[site].shared.location;
        location.check_stall(now);
        while location.expire(now, 16) {}
        self.spoil_records(site);
        self.plant(site);
        for (aor, contact, _) in self.bindings(site) {
            self.monitor.still_there(now, site, &aor, &contact);
        }
        self.at(now + Duration::from_secs(1), Event::Sweep { site, life });
    }

    /// Calls a worker and sends what it wants sent.
    fn drive(
        &mut self,
        site: usize,
        worker: usize,
        act: impl FnOnce(&mut Node<SimServices>, Time, &mut Outbox),
    ) {
        let mut out = core::mem::take(&mut self.out);
        let now = self.now;
        // It may have died since this was meant for it.
        let Some(node) = self.sites[site].nodes.get_mut(worker) else {
            self.out = out;
            return;
        };
        act(node, now, &mut out);
        node.round_ends(now, &mut out);
        if !self.ended(site) {
            self.flush(site, worker, &out);
            self.rearm(site, worker);
        }
        out.clear();
        self.out = out;
    }

    fn rearm(&mut self, site: usize, worker: usize) {
        let life = self.sites[site].life;
        let Some(deadline) = self.sites[site].nodes[worker].next_deadline() else { return };
        if deadline < self.sites[site].wakes[worker] {
            // The kernel wakes nobody before his time, and everybody a little late.
            let late = Duration::from_micros(self.rng.between(1, 1_500));
            let at = deadline.max(self.now) + late;
            self.sites[site].wakes[worker] = deadline;
            self.at(at, Event::Wake { site, life, worker });
        }
    }

    fn flush(&mut self, site: usize, worker: usize, out: &Outbox) {
        let mut taken = true;
        for transmit in out.transmits() {
            if transmit.instead && taken {
                continue;
            }
            taken = !transmit.existing || self.has_conn(site, transmit.flow);
            let mut bytes = out.message(transmit).to_vec();
            let mut flow = transmit.flow;
            if self.mutation.is_some() && !self.mutate(site, &mut flow, &mut bytes) {
                continue;
            }
            let who = self.who(site);
            self.monitor.sent(self.now, who, flow.transport, flow.remote, &bytes);
            self.monitor.truth.sent(self.now, site, &bytes);
            let life = who.life;
            let ticket =
                (transmit.token != 0).then_some(Ticket { site, life, worker, token: transmit.token });
            match flow.transport {
                Transport::Udp => {
                    let from = self.sites[site].spec.address;
                    self.send_datagram(from, flow.remote, bytes, ticket);
                }
                _ => self.send_stream(site, transmit.existing, flow, bytes, ticket),
            }
        }
        for close in out.closes() {
            if let Some((id, _)) = self.network.find_own(site, close.conn) {
                let at = self.now + Duration::from_millis(5);
                self.at(at, Event::Closed { conn: id });
            }
        }
        self.take_questions(site);
    }

    /// A whole message for a server, to the worker that owns it.
    fn deliver(&mut self, site: usize, flow: Flow, bytes: &[u8]) {
        let who = self.who(site);
        self.monitor.received(self.now, who, flow.remote, bytes);
        self.monitor.truth.received(self.now, site, flow.remote, bytes);
        let workers = self.sites[site].spec.workers;
        // What is nobody's goes where the kernel deals it.
        let owner = self.sites[site].nodes[0].owner(bytes, workers).unwrap_or(flow.remote.port() % workers);
        let owner = usize::from(owner);
        self.drive(site, owner, |node, now, out| {
            node.receive(Arrival::new(now, flow, bytes), out);
        });
        let request = !bytes.starts_with(b"SIP/2.0") && !bytes.starts_with(b"\r\n");
        if request && matches!(self.network.at(flow.remote), Some(Place::Phone(_))) {
            if self.heard.len() == 12 {
                self.heard.pop_front();
            }
            self.heard.push_back(bytes.to_vec());
        }
    }

    // ------------------------------------------------------------- phones

    fn with_phone(&mut self, phone: usize, act: impl FnOnce(&mut Phone, Time)) {
        let now = self.now;
        act(&mut self.phones[phone], now);
        let out = core::mem::take(&mut self.phones[phone].out);
        for packet in out {
            self.send_from_phone(phone, packet);
        }
        if let (Some(translator), Some((asked, confirmed))) =
            (&mut self.translators[phone], self.phones[phone].confirmed())
        {
            translator.renewed(asked, confirmed);
        }
        self.rearm_phone(phone);
    }

    /// Whether a phone could not be reached, for its translation's sake, at some time from `from` on.
    pub(crate) fn lapsed(&self, phone: usize, from: Time, length: Duration) -> bool {
        let translator = self.translators.get(phone).and_then(Option::as_ref);
        translator.is_some_and(|translator| translator.lapsed(from, from + length))
    }

    fn rearm_phone(&mut self, phone: usize) {
        let deadline = self.phones[phone].next_deadline();
        if deadline < self.phone_wakes[phone] {
            self.phone_wakes[phone] = deadline;
            self.at(deadline, Event::Phone(phone));
        }
    }

    fn send_from_phone(&mut self, phone: usize, packet: Packet) {
        let profile = &self.phones[phone].profile;
        let (network, transport) = (profile.network, profile.transport);
        let stream = packet.conn.is_some() || profile.transport.is_reliable();
        if !stream {
            let seen = match &mut self.translators[phone] {
                Some(translator) => translator.leave(self.now, packet.to),
                None => network,
            };
            if self.network.at(seen).is_none() {
                self.network.put(seen, Place::Phone(phone));
                self.monitor.peers.push(seen);
            }
            return self.send_datagram(seen, packet.to, packet.bytes, None);
        }
        let open = packet.conn.filter(|id| self.network.conns.contains_key(id));
        let side = |id: u64| {
            let conn = &self.network.conns[&id];
            (id, usize::from(conn.ends[1].place == Place::Phone(phone)))
        };
        let found = open.map(side).or_else(|| self.network.find(Place::Phone(phone), packet.to));
        let (id, side) = match found {
            Some(found) => found,
            None => {
                self.network.next_port = self.network.next_port.wrapping_add(1).max(50_000);
                let from = SocketAddr::new(network.ip(), self.network.next_port);
                match self.connect((Place::Phone(phone), transport), from, packet.to, None) {
                    Some(id) => (id, 0),
                    None => return,
                }
            }
        };
        self.send_on(id, side, packet.bytes, None);
    }

    // ------------------------------------------------------------- datagrams

    fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>, ticket: Option<Ticket>) {
        if self.network.is_cut(self.now, from.ip(), to.ip()) {
            self.trace.message(self.now, from, to, &bytes, Fate::Lost);
            if let Some(ticket) = ticket.filter(|_| self.network.chance(300)) {
                // "No route to host", some time later.
                let at = self.now + self.network.delay();
                self.at(at, Event::Undeliverable(ticket));
            }
            return;
        }
        let copies = self.network.copies();
        let fate = if copies.is_empty() { Fate::Lost } else { Fate::Sent };
        self.trace.message(self.now, from, to, &bytes, fate);
        for delay in copies {
            let at = self.now + delay;
            self.at(at, Event::Datagram { from, to, bytes: bytes.clone() });
        }
    }

    fn datagram_arrives(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        match self.network.at(to) {
            Some(Place::Site(site)) if self.sites[site].up => self.deliver(site, Flow::udp(UDP, from), bytes),
            Some(Place::Phone(phone))
                if self.translators[phone].as_ref().is_some_and(|t| !t.admits(self.now, to.port(), from)) => {
            }
            Some(Place::Phone(phone)) => {
                let source = Source { address: from, conn: None };
                self.with_phone(phone, |phone, now| phone.receive(now, source, bytes));
            }
            _ => {}
        }
    }

    /// A name for an address in the ladder.
    pub fn name_of(&self, address: &str) -> String {
        let Ok(parsed) = address.parse::<SocketAddr>() else { return address.to_string() };
        let by_ip = |a: SocketAddr| a.ip() == parsed.ip();
        if let Some(i) = self.sites.iter().position(|s| by_ip(s.spec.address)) {
            return format!("server {i}");
        }
        let phone = self.phones.iter().find(|p| by_ip(p.profile.network) || by_ip(p.profile.claimed));
        match phone {
            Some(p) => {
                let number = p.profile.network.ip().to_string();
                let last = number.rsplit('.').next().unwrap_or("").to_string();
                format!("{}{}.{last}", p.profile.user, p.profile.domain.replace(".test", ""))
            }
            None if parsed.ip() == crate::world::address(ATTACKER).ip() => "attacker".into(),
            None => address.to_string(),
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.monitor.violation.as_ref()
    }
}

/// The subscribers of all servers: each server has its own domain.
fn users(scenario: &Scenario) -> Users {
    let mut users = Users::new();
    for p in scenario.phones.iter().filter(|p| p.registers) {
        let (user, domain) = (p.user.as_bytes(), p.domain.as_bytes());
        let secret = Credentials::from_password(user, domain, domain, p.password.as_bytes(), &[p.algorithm]);
        users.insert((user.to_vec(), domain.to_vec()), secret);
    }
    for (user, domain) in &scenario.users {
        users.insert((user.clone().into_bytes(), domain.clone().into_bytes()), Credentials::new());
    }
    users
}

/// An address written in this program.
pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)))
}
