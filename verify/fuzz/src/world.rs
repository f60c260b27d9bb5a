//! The services of a node, in memory and on one thread.

use sip_auth::{
    Algorithm, Authenticator, Backoff, BackoffRules, Decision, LocalLedger, Name, NonceCounts, Secret, ha1,
};
use sip_message::Method;
use sip_node::{
    Auth, Counter, Coverage, Keys, Listener, Mode, NodeConfig, OverloadRules, Proxy, Question, Route,
    RouteAction, Services, Settings, Span, StoreDown, Trunk, Voicemail,
};
use sip_proxy::context::Reroute;
use sip_registrar::{BindingView, Change, ContactAt, Expected, Reply, Table};
use sip_transaction::{Limits, Timers};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use wire::{Time, Transport};

/// The one domain.
pub const DOMAIN: &str = "example.com";
/// Every user's password.
pub const PASSWORD: &[u8] = b"secret";
/// The users.
pub const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
/// Where the admin API is said to listen.
pub const ADMIN: &str = "127.0.0.1:8080";

/// What all calls of [`Services`] share.
pub struct Shared {
    pub table: Table,
    ledger: LocalLedger,
    /// Every address that was ever somebody's contact.
    pub contacts: BTreeSet<SocketAddr>,
    /// Questions not answered yet.
    pub questions: Vec<Question>,
}

/// The services.
#[derive(Clone)]
pub struct World(pub Rc<RefCell<Shared>>);

impl World {
    /// Nobody registered.
    pub fn new() -> World {
        World(Rc::new(RefCell::new(Shared {
            table: Table::new([5, 6], 64, true),
            ledger: LocalLedger {
                nonces: NonceCounts::new(64, Duration::from_secs(300)),
                backoff: Backoff::new(64, BackoffRules::default()),
                recent: None,
            },
            contacts: BTreeSet::new(),
            questions: Vec::new(),
        })))
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

impl Services for World {
    fn bindings(&self, aor: &[u8], now: Time, each: &mut dyn FnMut(&BindingView<'_>)) -> Coverage {
        // Others hold the bindings of dave, and newer ones of carol.
        if !aor.starts_with(b"dave") {
            self.0.borrow().table.bindings(aor, now, |b| each(&b));
        }
        match aor.starts_with(b"dave") || aor.starts_with(b"carol") {
            true => Coverage::Partial { until: now + Duration::from_millis(50) },
            false => Coverage::Complete,
        }
    }

    fn expect(&self, aor: &[u8]) -> Option<Expected> {
        Some(Expected { part: 0, hash: self.0.borrow().table.expect(aor) })
    }

    fn fetch(&self, expected: Expected) {
        self.0.borrow().table.fetch(expected.hash);
    }

    fn register(
        &self,
        _aor: &[u8],
        _changes: bool,
        work: &mut dyn FnMut(&mut Table, &mut Vec<Change>) -> Reply,
    ) -> Result<Reply, StoreDown> {
        let mut changes = Vec::new();
        let shared = &mut *self.0.borrow_mut();
        let reply = work(&mut shared.table, &mut changes);
        for change in changes {
            if let Change::Put(record) = change {
                shared.contacts.insert(record.flow.remote);
                let uri = sip_message::Uri::parse(&record.contact);
                let host = uri.ok().and_then(|u| Some((u.host_ip()?, u.port.unwrap_or(5060))));
                shared.contacts.extend(host.map(SocketAddr::from));
            }
        }
        Ok(reply)
    }

    fn has_contact(&self, address: SocketAddr) -> bool {
        self.0.borrow().table.has_contact_address(address)
    }

    fn contacts(&self, contact: &ContactAt<'_>, each: &mut dyn FnMut(&BindingView<'_>) -> bool) -> bool {
        self.0.borrow().table.contacts(contact, each)
    }

    fn is_user(&self, user: &[u8], domain: &[u8]) -> bool {
        self.is_domain(domain) && USERS.iter().any(|u| u.as_bytes() == user)
    }

    fn is_domain(&self, domain: &[u8]) -> bool {
        domain.eq_ignore_ascii_case(DOMAIN.as_bytes())
    }

    fn check(
        &self,
        authenticator: &Authenticator,
        request: &sip_auth::Request<'_>,
        values: &mut dyn Iterator<Item = &[u8]>,
    ) -> Decision {
        let mut secrets = |user: &Name, algorithm: Algorithm| {
            let known = USERS.iter().any(|u| u.as_bytes() == user.user());
            known.then(|| ha1(algorithm, user.as_bytes(), DOMAIN.as_bytes(), PASSWORD))
        };
        authenticator.check(request, values, &mut secrets, &mut self.0.borrow_mut().ledger)
    }

    fn ask(&self, question: Question) {
        self.0.borrow_mut().questions.push(question);
    }

    fn count(&self, _counter: Counter) {}

    fn count_method(&self, _method: Method<'_>) {}

    fn observe(&self, _what: Span, _micros: u64) {}
}

fn trunk() -> Trunk {
    Trunk {
        name: b"carrier".to_vec(),
        targets: vec![b"sip:198.51.100.1".to_vec(), b"sip:carrier.example.net".to_vec()],
        sources: vec![("198.51.100.0".parse().expect("an address"), 24)],
        prefixes: vec![b"+".to_vec()],
        domains: vec![b"carrier.example.net".to_vec()],
        strip: 1,
        prepend: b"00".to_vec(),
        overload_control: true,
        retry_on: vec![480],
        ..Trunk::default()
    }
}

/// Settings with one of everything. `choice` varies the modes.
pub fn settings(choice: u8) -> Settings {
    let bit = |n: u8| choice >> n & 1 == 1;
    let address = |port: u16| SocketAddr::from(([192, 0, 2, 1], port));
    Settings {
        domains: vec![DOMAIN.as_bytes().to_vec()],
        aliases: vec![b"sip.example.com".to_vec()],
        listeners: vec![
            Listener::new(Transport::Udp, address(5060), None),
            Listener::new(Transport::Tcp, address(5060), None),
            Listener::new(Transport::Udp, address(5070), Some((b"edge.example.com".to_vec(), None))),
        ],
        admin: Some(ADMIN.parse().expect("an address")),
        auth: Auth {
            enabled: bit(0),
            ..Auth::new(Arc::new(Authenticator::new(
                &Secret { key: [9; 16], epoch: 1 },
                sip_auth::Config::default(),
            )))
        },
        registrar: sip_registrar::Config::default(),
        proxy: Proxy {
            mode: [Mode::Stateful, Mode::Stateful, Mode::Stateless, Mode::Redirect]
                [usize::from(choice >> 1 & 3)],
            parallel: !bit(3),
            record_route: !bit(4),
            recurse: bit(5),
            trying_ms: if bit(3) { 0 } else { 200 },
            mtu: if bit(6) { 600 } else { 1_300 },
            ..Proxy::default()
        },
        voicemail: bit(7).then(|| Voicemail {
            uri: b"sip:voicemail@198.51.100.9".to_vec(),
            on: [Reroute::BUSY, Reroute::NO_ANSWER, Reroute::REJECTED, Reroute::UNREGISTERED]
                .into_iter()
                .fold(Reroute::NEVER, Reroute::and),
            ..Voicemail::default()
        }),
        emergency: None,
        trunks: vec![trunk()],
        gateways: Default::default(),
        domain_rules: Vec::new(),
        routes: vec![
            Route {
                domain: None,
                prefix: Some(b"9".to_vec()),
                user: None,
                silent_after_ms: 2_000,
                action: RouteAction::Forward(vec![b"sip:198.51.100.7:5080".to_vec()]),
            },
            Route {
                domain: None,
                prefix: None,
                user: Some(b"moved".to_vec()),
                silent_after_ms: 2_000,
                action: RouteAction::Redirect(vec![b"sip:moved@198.51.100.8".to_vec()]),
            },
        ],
        message: sip_message::Limits::default(),
        calls: 32,
        overload: OverloadRules::default(),
        records: false,
    }
    .watching(&sip_node::Gateways::default())
}

/// The rest of a node's making; small pools, so that their ends are met.
pub fn config() -> NodeConfig {
    NodeConfig {
        worker: 0,
        timers: Timers::default(),
        transactions: Limits { server: 32, client: 32, bytes: 8 << 20 },
        dns_cache: 16,
        keys: Keys { dialog: [1; 16], hash: [2; 16] },
        seed: [3, 4],
    }
}
