//! What it takes to check and write messages: settings, nodes, keys, and memory to write in. Nothing here
//! knows of calls.

use crate::cluster::names::KnownNames;
use crate::cluster::probes::Asks;
use crate::token::Sealer;
use crate::{Cluster, Counts, Settings};
use sip_message::{Index, Splices};
use std::mem;
use std::sync::Arc;

/// Checks, forwards and answers messages, and remembers none.
pub(crate) struct Forwarder {
    pub(super) settings: Arc<Settings>,
    pub(super) cluster: Arc<Cluster>,
    /// The names that nodes over TLS must prove.
    pub(super) names: KnownNames,
    pub(super) sealer: Sealer,
    /// The same for all workers, and another one from start to start.
    pub(super) life: u32,
    pub(super) splices: Splices,
    pub(super) scratch: Vec<u8>,
    index: Option<Box<Index>>,
    /// What happened to messages.
    pub counts: Counts,
}

impl Forwarder {
    /// One that has written nothing.
    pub fn new(settings: Arc<Settings>, cluster: Arc<Cluster>, sealer: Sealer, life: u32) -> Forwarder {
        Forwarder {
            settings,
            cluster,
            names: KnownNames::default(),
            sealer,
            life,
            splices: Splices::new(),
            scratch: Vec::new(),
            index: Some(Box::new(Index::new())),
            counts: Counts::default(),
        }
    }

    /// What the operator decided.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// New settings, in force from here.
    pub fn set(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    /// The nodes.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The data that probes are written from.
    pub fn asks(&mut self) -> Asks<'_> {
        let Forwarder { settings, cluster, sealer, names, .. } = self;
        Asks { settings, cluster, sealer, names }
    }

    /// The name that a node has to prove over TLS; empty: none is known.
    pub fn name_of(&mut self, node: u32) -> &[u8] {
        self.names.of(self.cluster.names(), node)
    }

    /// What seals and opens.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Takes the index that messages are parsed into; it is brought back by [`Forwarder::return_index`].
    pub fn take_index(&mut self) -> Box<Index> {
        self.index.take().unwrap_or_default()
    }

    /// Puts it back.
    pub fn return_index(&mut self, index: Box<Index>) {
        self.index = Some(index);
    }

    /// Takes memory that lines are made in.
    pub(super) fn take_scratch(&mut self) -> Vec<u8> {
        let mut lines = mem::take(&mut self.scratch);
        lines.clear();
        lines
    }
}
