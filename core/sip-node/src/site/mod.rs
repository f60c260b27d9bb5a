//! What a server is: its settings, services, secrets, and the addresses of the operator's targets. All parts
//! of a node read it; only new settings and answers of the DNS change it.

mod accounts;
mod branches;
mod heard;
mod identity;
mod names;
mod peers;
mod record;
mod rules;
mod senders;

pub(crate) use crate::aor::Aor;
pub(crate) use accounts::{LINE, account_at, line_of, trunk_of_line};
pub use heard::Heard;
pub(crate) use record::{OC, callee_end, caller_end};
pub(crate) use rules::Sender;

use crate::access::Places;
use crate::numbers::NumberPlan;
use crate::services::{Counter, Services};
use crate::settings::Settings;
use crate::site::peers::Peers;
use call_records::Namer;
use core::hash::Hasher;
use core::net::SocketAddr;
use number_routes::RouteTable;
use seal::Gathered;
use sip_proxy::loops::LoopGuard;
use sip_proxy::token::Sealer;
use sip_steering::Ownership;
use siphasher::sip::SipHasher13;
use std::sync::Arc;
use wire::{ConnId, Flow, Identity};

/// Secrets that all workers share. They outlive restarts, so that dialogs do.
#[derive(Clone)]
pub struct Keys {
    /// Seals dialogs into Record-Route.
    pub dialog: [u8; 16],
    /// Chooses owners, marks loops and stateless branches, makes tags.
    pub hash: [u8; 16],
}

impl Keys {
    /// Who owns what, as the nodes have it.
    pub fn ownership(&self) -> Ownership {
        Ownership::new(&self.key_of(domain::OWNER))
    }

    /// A key of its own for a use of the shared one.
    fn key_of(&self, domain: u8) -> [u8; 16] {
        let key = |half: u8| {
            let mut hash = SipHasher13::new_with_key(&self.hash);
            hash.write(&[domain, half]);
            hash.finish().to_le_bytes()
        };
        let [low, high] = [key(0), key(1)];
        core::array::from_fn(|n| if n < 8 { low[n] } else { high[n - 8] })
    }
}

/// One server, as a worker of it knows it.
pub(crate) struct Site<S> {
    services: S,
    settings: Arc<Settings>,
    places: Places,
    peers: Peers,
    /// Which trunks a called number goes over.
    pub numbers: NumberPlan,
    sealer: Sealer,
    guard: LoopGuard,
    namer: Namer,
    key: [u8; 16],
    ownership: Ownership,
    heard: Arc<Heard>,
    /// Whether anything is changed in requests that leave.
    has_rules: bool,
}

/// What the operator has changed in requests that leave: `rules` has most of it, `identity` who calls.
pub(crate) struct Rules<'a, S> {
    site: &'a Site<S>,
}

impl<S: Services> Site<S> {
    /// A server with these settings. Nothing has been heard yet.
    pub fn new(keys: &Keys, settings: Arc<Settings>, services: S) -> Site<S> {
        Site {
            services,
            places: Places::of(&settings),
            has_rules: settings.has_rules(),
            peers: Peers::default(),
            numbers: NumberPlan::default(),
            settings,
            sealer: Sealer::new(keys.dialog),
            guard: LoopGuard::new(keys.hash),
            namer: Namer::new(keys.key_of(domain::RECORD)),
            key: keys.hash,
            ownership: keys.ownership(),
            heard: Arc::default(),
        }
    }

    /// What the operator decided.
    #[inline]
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// New settings, in force from here. What the DNS has said of the same targets goes on.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.places.renew(&settings);
        self.peers.renew(&settings);
        self.has_rules = settings.has_rules();
        self.numbers.renew(&settings.trunks);
        self.settings = settings;
    }

    /// Called numbers go by this table from now on.
    pub fn route_by(&mut self, table: Arc<RouteTable>) {
        self.numbers = NumberPlan::new(table, &self.settings.trunks);
    }

    /// What all workers share.
    #[inline]
    pub const fn services(&self) -> &S {
        &self.services
    }

    /// The addresses and names of the operator's targets.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// The same, to note what the DNS says of them.
    pub const fn places_mut(&mut self) -> &mut Places {
        &mut self.places
    }

    /// The peer of a connection has proven who it is.
    pub fn identified(&mut self, conn: ConnId, identity: &Arc<Identity>) {
        if !self.peers.note(&self.settings, conn, identity) {
            self.services.count(Counter::PeerCrowded);
        }
    }

    /// A connection is gone.
    #[inline]
    pub fn disconnected(&mut self, conn: ConnId) {
        self.peers.forget(conn);
    }

    /// The trunk whose requests come over this flow: by the name that the peer has proven, or by its
    /// address.
    #[inline]
    pub fn trunk_of(&self, flow: Flow) -> Option<usize> {
        self.peers.trunk_of(flow).or_else(|| self.settings.trunk_of(flow.remote.ip()))
    }

    /// Whether a flow leads to a trunk, or to a proxy or balancer in front of this server. These send calls
    /// of others, and may get the load of this server (RFC 7339).
    pub fn is_neighbour(&self, flow: Flow) -> bool {
        self.trunk_of(flow).is_some() || self.settings.auth.is_front(flow.remote.ip())
    }

    /// What is changed in requests that leave.
    #[inline]
    pub const fn rules(&self) -> Rules<'_, S> {
        Rules { site: self }
    }

    /// Seals and opens the tokens of dialogs.
    pub const fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Detects loops.
    pub const fn guard(&self) -> &LoopGuard {
        &self.guard
    }

    /// Names calls in records.
    pub const fn namer(&self) -> &Namer {
        &self.namer
    }

    /// Which worker owns what.
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Where responses have come from.
    pub fn heard(&self) -> &Heard {
        &self.heard
    }

    /// It is one of the workers that share this.
    pub fn share_heard(&mut self, heard: Arc<Heard>) {
        self.heard = heard;
    }

    /// A hash under the workers' shared key.
    pub(crate) fn keyed(&self, domain: u8) -> SipHasher13 {
        let mut hash = SipHasher13::new_with_key(&self.key);
        hash.write_u8(domain);
        hash
    }

    /// The same of several fields.
    pub(crate) fn gathered<const N: usize>(&self, domain: u8) -> Gathered<N, SipHasher13> {
        let mut text = Gathered::new(SipHasher13::new_with_key(&self.key));
        text.add(&[domain]);
        text
    }

    /// The worker that owns a Call-ID.
    pub(crate) fn owner_of(&self, call_id: &[u8], workers: u16) -> Option<u16> {
        self.ownership.owner_of(call_id, workers)
    }

    /// A number for whoever sends from here.
    pub(crate) fn source(&self, remote: SocketAddr) -> u64 {
        self.ownership.source(remote.ip())
    }
}

/// Keeps the uses of the shared hash key apart.
pub(crate) mod domain {
    pub const OWNER: u8 = 1;
    pub const TAG: u8 = 2;
    pub const STATELESS: u8 = 3;
    /// What is sealed is text that anybody may write; what he learns of hashes of other uses must not be a
    /// seal.
    pub const SEAL: u8 = 4;
    pub const SEAL_V6: u8 = 5;
    pub const ACCOUNT: u8 = 6;
    pub const HEARD: u8 = 7;
    pub const TARGETS: u8 = 8;
    pub const RECORD: u8 = 9;
    pub const LINE: u8 = 10;
    /// Accounts whose calls are counted.
    pub const CALLER: u8 = 20;
}
