//! What a worker of a population run is told.

use super::Names;
use crate::metrics::Setup;
use crate::population::Parameters;
use core::net::SocketAddr;
use std::sync::Arc;
use wire::{Flow, ListenerId, Time, Transport};

/// What one worker is told at its beginning.
#[derive(Clone)]
pub struct Settings {
    /// Which worker this is.
    pub worker: u16,
    /// Of how many.
    pub workers: u16,
    /// Tells this run's Call-IDs from those of others.
    pub run_id: u32,
    /// What users do.
    pub parameters: Parameters,
    /// Who they are.
    pub names: Arc<Names>,
    /// Their domain.
    pub domain: String,
    /// How they speak to the server.
    pub transport: Transport,
    /// Where the server is.
    pub remote: SocketAddr,
    /// All listeners' addresses in the order of their ids.
    pub listeners: Vec<SocketAddr>,
    /// What phones call themselves in place of an address, where nobody can connect to them (RFC 7118 section
    /// 5).
    pub alias: Option<String>,
    /// The listener of worker 0; those of the others follow. Users register there.
    pub own_from: u16,
    /// Where the mailbox is that the server sends calls on to. None: phones of users who are away take
    /// the message themselves, at once.
    pub mailbox: Option<ListenerId>,
    /// What a phone says whose user is away, where there is a mailbox: 486, 480 and so on.
    pub away: u16,
    /// Whether nonces are used again (RFC 7616 section 3.3), so that most requests need no challenge.
    pub reuse_nonces: bool,
    /// Calls under way at a time that begin at this worker.
    pub most_calls: usize,
    /// Everything random comes from it.
    pub seed: u64,
    /// When the run begins.
    pub start: Time,
    /// What is measured.
    pub metrics: Setup,
    /// How many failing call flows are kept.
    pub ladders: usize,
}

impl Settings {
    /// The address of a listener.
    pub fn local(&self, listener: ListenerId) -> SocketAddr {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        self.listeners.get(usize::from(listener.0)).copied().unwrap_or(any)
    }

    /// Where this worker's users are.
    pub fn own(&self) -> ListenerId {
        ListenerId(self.own_from + self.worker)
    }

    /// From this worker's users to the server.
    pub fn flow(&self) -> Flow {
        Flow { transport: self.transport, listener: self.own(), remote: self.remote, conn: None }
    }
}
