//! One simulated server: its workers, what they share, its disk, and its life between crashes.

use crate::disk::{Disk, End, Table};
use crate::records::Book;
use crate::rng::Rng;
use crate::scenario::Location;
use crate::services::{NONCE_LIFETIME, Shared, SimServices, Users};
use core::cell::RefCell;
use core::time::Duration;
use location::testing::MemoryTable;
use location::{Clock, Health, Keeper, LoadOptions, LogDir, LogLimits, Mover, Writer, WriterOptions, load};
use sip_auth::{Algorithm, Authenticator, Secret, UriRule};
use sip_node as n;
use sip_node::{Keys, Node, NodeConfig};
use sip_proxy::context::Reroute;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use wire::{Time, Transport};

/// The listener for datagrams and the one for streams.
pub(crate) const UDP: wire::ListenerId = wire::ListenerId(0);
pub(crate) const TCP: wire::ListenerId = wire::ListenerId(1);
/// And to TLS.
pub(crate) const TLS: wire::ListenerId = wire::ListenerId(2);

/// Where a server with this address listens for TLS.
pub(crate) fn secure(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), Transport::Tls.default_port())
}

/// The voicemail server of those who have one.
pub(crate) const VOICEMAIL: &str = "sip:vm@198.51.100.200:5060";

/// What a server is, for the whole run.
#[derive(Clone, Debug)]
pub(crate) struct SiteSpec {
    pub address: SocketAddr,
    pub domain: String,
    pub workers: u16,
    pub record_route: bool,
    pub parallel: bool,
    pub voicemail: bool,
    /// Calls to other domains go through neighbours as trunks; without, by name.
    pub trunks: Vec<TrunkSpec>,
    pub algorithm: Algorithm,
    /// Whether it lets calls from one trunk out over another.
    pub transit: bool,
    /// How many milliseconds after its start the log is brought to the disk first.
    pub commit_ms: u64,
    pub secret: [u8; 16],
    /// Room for transactions, and for calls, of each worker.
    pub room: (usize, usize),
}

/// A neighbour and a domain reached through it.
#[derive(Clone, Debug)]
pub(crate) struct TrunkSpec {
    pub neighbour: SocketAddr,
    pub domain: String,
}

/// A server.
pub(crate) struct Site {
    pub spec: SiteSpec,
    pub nodes: Vec<Node<SimServices>>,
    /// When each worker's next wake-up is scheduled.
    pub wakes: Vec<Time>,
    pub shared: Rc<Shared>,
    pub disk: Disk,
    pub clock: Clock,
    rows: MemoryTable,
    log: Option<(Writer, Mover)>,
    /// When all bindings were on the disk last.
    pub durable: Time,
    /// Until when the disk fails.
    pub fails_until: Time,
    pub up: bool,
    /// Counts restarts; what was meant for an earlier life is dropped.
    pub life: u32,
    /// Counts changes of policy (reload, drain), after which equal requests may be treated differently.
    pub epoch: u32,
    pub next_conn: u64,
    users: Rc<Users>,
    /// Where bindings are.
    others: Location,
    /// What it says of calls.
    pub book: Rc<RefCell<Book>>,
    /// The calls of its trunks.
    lines: RefCell<n::Lines>,
}

impl Site {
    /// A server that is down.
    pub fn new(spec: SiteSpec, users: Rc<Users>, others: Location, clock: Clock, rng: Rng) -> Site {
        Site {
            shared: Rc::new(Shared::new([1, 2], users.clone(), others)),
            spec,
            nodes: Vec::new(),
            wakes: Vec::new(),
            disk: Disk::new(rng),
            clock,
            rows: MemoryTable::default(),
            log: None,
            durable: Time::ZERO,
            fails_until: Time::ZERO,
            up: false,
            life: 0,
            epoch: 0,
            next_conn: 0,
            users,
            others,
            book: Rc::default(),
            lines: RefCell::default(),
        }
    }

    /// Starts the process: reads the disk, then serves.
    ///
    /// # Errors
    /// The bindings cannot be read: a fault of ours, because the disk works then.
    pub fn start(&mut self, now: Time, seed: [u64; 2]) -> location::Result<()> {
        self.life += 1;
        self.epoch += 1;
        self.next_conn = 0;
        self.up = true;
        self.shared = Rc::new(Shared::new([seed[1], !seed[0]], self.users.clone(), self.others));
        self.book.borrow_mut().restart();
        self.open_log()?;
        self.durable = now;
        let Some((writer, _)) = &self.log else { return Ok(()) };
        let settings = Arc::new(self.settings(0));
        self.nodes = (0..self.spec.workers)
            .map(|worker| {
                let config = self.config(worker, seed);
                let location = Arc::clone(&self.shared.location);
                let keeper = Keeper::new(location, writer.appender(), self.clock.clone());
                let (shared, book) = (self.shared.clone(), self.book.clone());
                let services = SimServices { worker, shared, keeper, book };
                Node::new(config, settings.clone(), services)
            })
            .collect();
        self.wakes = vec![Time::FAR; self.nodes.len()];
        Ok(())
    }

    /// What a worker begins with.
    pub fn config(&self, worker: u16, seed: [u64; 2]) -> NodeConfig {
        NodeConfig {
            worker,
            timers: sip_transaction::Timers::default(),
            transactions: sip_transaction::Limits {
                server: self.spec.room.0,
                client: self.spec.room.0,
                bytes: 256 << 20,
            },
            dns_cache: 64,
            keys: Keys { dialog: self.spec.secret, hash: self.spec.secret.map(|b| !b) },
            seed: [seed[0] ^ u64::from(worker).wrapping_mul(0x9e37_79b9_7f4a_7c15), seed[1]],
        }
    }

    /// Reads the bindings, and begins the log. Files are so small that they are full soon.
    fn open_log(&mut self) -> location::Result<()> {
        let dir = LogDir::new(Arc::new(self.disk.clone()), Path::new("/data"));
        let (location, pair) = (Arc::clone(&self.shared.location), self.clock.pair());
        let sockets: Vec<String> =
            self.settings(0).listeners.iter().map(|l| format!("{}:{}", l.transport, l.address)).collect();
        let options = LoadOptions { side_by_side: false, ..LoadOptions::new(&dir, &sockets, pair, 0) };
        let mut table = Table::new(self.disk.clone(), self.rows.clone());
        let start = load(options, &mut table, &location)?;
        let mut writer = Writer::new(WriterOptions {
            location: Arc::clone(&location),
            log: start.log,
            sealed: Arc::clone(&start.sealed),
            sockets,
            clock: self.clock.clone(),
            loaded: pair,
            table_there: Box::new(|| Ok(())),
        });
        writer.set_limits(LogLimits { bytes: (1_500, 1_500), age: Duration::from_secs(60), batch: 3 });
        let expired = (start.report.expired != 0).then_some(pair);
        let mover = Mover::new(location, Box::new(table), dir, start.sealed, self.clock.clone(), expired);
        self.log = Some((writer, mover));
        Ok(())
    }

    /// A round of the writer; answers when the next one is.
    pub fn round(&mut self, now: Time) -> Duration {
        let Some((writer, _)) = &mut self.log else { return Duration::from_secs(1) };
        let pause = writer.round();
        let location = &self.shared.location;
        if location.pending() == 0 && location.health() == Health::Good && !self.disk.is_dead() {
            self.durable = now;
        }
        pause
    }

    /// A step of the mover; answers when the next one is.
    pub fn step(&mut self) -> Duration {
        match &mut self.log {
            Some((_, mover)) => mover.step(),
            None => Duration::from_secs(1),
        }
    }

    /// Ends the process as `kill -9` does, or a power cut.
    pub fn crash(&mut self, how: End) {
        self.up = false;
        self.log = None;
        self.disk.end(how);
        self.nodes.clear();
        self.wakes.clear();
        self.lines.take();
        self.shared = Rc::new(Shared::new([1, 2], self.users.clone(), self.others));
    }

    /// Channels of trunks that calls hold.
    pub fn channels(&self, now: Time) -> u32 {
        let lines = self.lines.borrow();
        let names = self.spec.trunks.iter().map(|trunk| trunk.neighbour.to_string());
        names.filter_map(|name| Some(lines.get(name.as_bytes())?.standing(now).calls)).sum()
    }

    /// The settings; `revision` changes what a reload may change without anybody noticing.
    pub fn settings(&self, revision: u8) -> n::Settings {
        let spec = &self.spec;
        let listener = |transport| n::Listener::new(transport, spec.address, None);
        let voicemail = spec.voicemail.then(|| n::Voicemail {
            uri: VOICEMAIL.as_bytes().to_vec(),
            on: Reroute::ALWAYS,
            no_answer_ms: 8_000,
            ..n::Voicemail::default()
        });
        let algorithms = vec![spec.algorithm];
        let auth = sip_auth::Config {
            algorithms,
            lifetime: NONCE_LIFETIME,
            require_qop: false,
            uri: UriRule::Equivalent,
            opaque: None,
        };
        let secret = Secret { key: spec.secret.map(|b| b ^ 0x55), epoch: self.life as u16 };
        let settings = n::Settings {
            domains: vec![spec.domain.clone().into_bytes()],
            aliases: Vec::new(),
            listeners: vec![
                listener(Transport::Udp),
                listener(Transport::Tcp),
                n::Listener::new(Transport::Tls, secure(spec.address), None),
            ],
            admin: Some(SocketAddr::new(spec.address.ip(), 8080)),
            auth: n::Auth::new(Arc::new(Authenticator::new(&secret, auth))),
            registrar: sip_registrar::Config::default(),
            proxy: n::Proxy {
                parallel: spec.parallel,
                record_route: spec.record_route,
                max_breadth: 60 + revision % 8,
                trying_ms: u32::from(revision % 3) * 100,
                ..n::Proxy::default()
            },
            voicemail,
            emergency: None,
            trunks: spec.trunks.iter().map(|t| trunk(t, spec.transit)).collect(),
            gateways: Default::default(),
            routes: Vec::new(),
            domain_rules: Vec::new(),
            message: sip_message::Limits::default(),
            calls: spec.room.1,
            overload: n::OverloadRules { workers: spec.workers, ..n::OverloadRules::default() },
            records: true,
        }
        .watching(&n::Gateways::default().with_lines(self.lines.borrow().clone()));
        self.lines.replace(settings.gateways.lines().clone());
        settings
    }
}

fn trunk(spec: &TrunkSpec, transit: bool) -> n::Trunk {
    let ip = spec.neighbour.ip();
    let domain = &spec.domain;
    n::Trunk {
        name: spec.neighbour.to_string().into_bytes(),
        targets: vec![format!("sip:{domain};maddr={ip}").into_bytes()],
        sources: vec![(ip, 32)],
        domains: vec![domain.clone().into_bytes()],
        may_transit: transit,
        ..n::Trunk::default()
    }
}
