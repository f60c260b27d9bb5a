//! Peers of connections that have proven who they are by a certificate.

use crate::settings::Settings;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{ConnId, Flow, Identity};

/// Peers known at one time. Those beyond are as if they had no certificate, unless they are trunks.
const MOST: usize = 65_536;

/// A peer, and the trunk that it is by its names.
#[derive(Debug)]
struct Peer {
    identity: Arc<Identity>,
    trunk: Option<usize>,
}

/// The peers, by their connections.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    by_conn: BTreeMap<ConnId, Peer>,
}

impl Peers {
    /// Notes who the peer of a connection is; `false` if too many are known, and this one is no trunk.
    pub fn note(&mut self, settings: &Settings, conn: ConnId, identity: &Arc<Identity>) -> bool {
        let trunk = trunk_named(settings, identity);
        let room = trunk.is_some() || self.by_conn.len() < MOST;
        if room {
            self.by_conn.insert(conn, Peer { identity: Arc::clone(identity), trunk });
        }
        room
    }

    /// A connection is gone.
    pub fn forget(&mut self, conn: ConnId) {
        if !self.by_conn.is_empty() {
            self.by_conn.remove(&conn);
        }
    }

    /// New settings are in force.
    pub fn renew(&mut self, settings: &Settings) {
        for peer in self.by_conn.values_mut() {
            peer.trunk = trunk_named(settings, &peer.identity);
        }
    }

    /// What the peer of a flow has proven.
    pub fn of(&self, flow: Flow) -> Option<&Identity> {
        self.peer(flow).map(|peer| &*peer.identity)
    }

    /// The trunk that the peer of a flow has proven to be.
    #[inline]
    pub fn trunk_of(&self, flow: Flow) -> Option<usize> {
        if !flow.transport.is_secure() {
            return None;
        }
        self.peer(flow)?.trunk
    }

    fn peer(&self, flow: Flow) -> Option<&Peer> {
        self.by_conn.get(&flow.conn?)
    }
}

/// The first trunk whose requests come from a peer with one of these names.
fn trunk_named(settings: &Settings, identity: &Identity) -> Option<usize> {
    settings
        .trunks
        .iter()
        .position(|trunk| trunk.source_names.iter().any(|name| identity.proves(name, &trunk.authority)))
}
