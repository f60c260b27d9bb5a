//! Probing the nodes with OPTIONS (RFC 3261 section 11).
//!
//! A probe asks one thing: whether the node is there. One that answers 503 is, and only wants nothing new: it
//! keeps what it has. One that leaves a probe unanswered, and answers something else meanwhile, is there as
//! well.

use crate::cluster::names::KnownNames;
use crate::cluster::rest::LONGEST_REST;
use crate::hash::scramble;
use crate::token::Sealer;
use crate::transmit::TransmitToken;
use crate::{Cluster, Health, MOST_NODES, NodeIndex, Probing, Settings, Why};
use core::time::Duration;
use sip_health::{Overdue, Probe, Vital};
use sip_message::{hex16, push_u64};
use wire::{Flow, ListenerId, Outbox, Time, Transport};

/// Call-IDs tried for one that belongs to the worker that probes.
const ATTEMPTS: u64 = 10_000;

/// Offers overload control (RFC 7339 section 4), in the Via of what goes to a node that supports it.
pub(crate) const OFFER: &[u8] = b";oc;oc-algo=\"loss\"";

/// The probes of all nodes. One worker sends them regularly; any may send one at once to a node that it
/// doubts, and goes on until that is up or down.
#[derive(Debug)]
pub(crate) struct Probes {
    probes: Vec<Probe>,
    /// Which nodes this worker has asked out of turn.
    asked: bool,
    worker: u16,
    workers: u16,
    seed: u64,
    /// A Call-ID that this worker owns.
    call_id: Vec<u8>,
}

impl Probes {
    pub fn new(worker: u16, workers: u16, seed: u64) -> Probes {
        let probes = vec![Probe::default(); MOST_NODES];
        Probes { probes, asked: false, worker, workers, seed, call_id: Vec::new() }
    }

    /// Begins anew, with what is known.
    pub fn reset(&mut self, now: Time) {
        self.probes.iter_mut().for_each(|probe| probe.restart(now));
    }

    /// An answer came, of this status and with this Retry-After. Later ones to the same probe say nothing,
    /// and then it is nobody's: else whose it is.
    pub fn answered(
        &mut self,
        now: Time,
        rules: &Probing,
        cluster: &Cluster,
        (node, serial): (u32, u32),
        (status, wait): (u16, Option<Duration>),
    ) -> Option<NodeIndex> {
        let at = cluster.by_id(node)?;
        let probe = self.probes.get_mut(usize::from(at.0))?;
        if status < 200 {
            return None;
        }
        let sent = probe.answered(now, serial)?;
        let (good, full) = (rules.is_good(status), status == 503);
        if !good && !full {
            if probe.failed(rules.down_after) {
                cluster.set_down(at, Why::ProbeRefused);
            }
            return Some(at);
        }
        if !good {
            // Overloaded, or to be left alone for another reason: until it has been asked once more, or as
            // long as it says (RFC 3261 section 21.5.4).
            let time = wait.unwrap_or_default().max(rules.interval + rules.timeout).min(LONGEST_REST);
            cluster.rest_by_probe(now, at, time);
        }
        if good {
            cluster.has_rested(now, at, sent);
        }
        let enough = probe.succeeded(cluster.falls(at), rules.up_after);
        cluster.heard(now, at);
        if let Some(vital) = cluster.vital(at) {
            vital.served(sent);
        }
        if cluster.health(at).0 != Health::Down || enough {
            cluster.came_up(now, at);
        }
        Some(at)
    }

    /// The network brought a probe back.
    pub fn returned(&mut self, at: NodeIndex, serial: u32) {
        if let Some(probe) = self.probes.get_mut(usize::from(at.0)) {
            probe.returned(serial);
        }
    }

    /// Counts probes without an answer and sends those whose time has come. Says how many.
    pub fn timeout(&mut self, now: Time, asks: &mut Asks<'_>, out: &mut Outbox) -> u64 {
        let &mut Asks { settings, cluster, sealer, .. } = asks;
        let rules = &settings.probing;
        if rules.interval.is_zero() {
            return 0;
        }
        if self.call_id.is_empty() {
            self.call_id = self.own_call_id(sealer);
        }
        let (mut sent, mut asked, regular) = (0, false, self.regular());
        for at in cluster.indexes() {
            let Some(probe) = self.probes.get_mut(usize::from(at.0)) else { continue };
            let mut again = false;
            if let Some(Overdue { sent, unreachable }) = probe.overdue(now) {
                let why = if unreachable { Why::Unreachable } else { Why::ProbeTimeout };
                // One that says something else meanwhile, or has since the question before, is there.
                let heard = cluster.vital(at).map_or(Time::ZERO, Vital::heard_at);
                probe.heard(heard);
                if !unreachable && heard > sent {
                    probe.excused();
                } else if probe.failed(rules.down_after) {
                    cluster.set_down(at, why);
                }
                // A node in doubt is asked again at once, until it is known.
                again = unreachable || cluster.is_silent(at);
            }
            let wanted = cluster.vital(at).is_some_and(Vital::take_wish) || again;
            // One question at a time.
            if wanted && probe.due().is_none() && cluster.health(at).0 != Health::Down {
                probe.plan(now);
            } else if !regular || probe.next() > now {
                asked |= probe.due().is_some();
                continue;
            }
            // One that was removed keeps the dialogs that only their tokens know, so it must be seen to come
            // up, too.
            if cluster.node(at).is_none() {
                probe.plan(now + rules.interval);
                continue;
            }
            if probe.next() == Time::ZERO {
                // Not all of them at once, from here on.
                let spread = rules.interval / 64 * (u32::from(at.0) % 64);
                probe.plan(now + spread);
            }
            let serial = probe.ask(now, rules.interval, rules.timeout);
            asked = true;
            sent += u64::from(asks.write(at, serial, &self.call_id, out));
        }
        self.asked = asked;
        sent
    }

    /// Whether this worker probes without being asked to.
    fn regular(&self) -> bool {
        self.worker == 0
    }

    /// A Call-ID that this worker owns, so that answers come to it.
    fn own_call_id(&self, sealer: &Sealer) -> Vec<u8> {
        let name = |n: u64| [&b"probe-"[..], &hex16(scramble(self.seed.wrapping_add(n)))].concat();
        let mine = |id: &Vec<u8>| {
            self.workers < 2 || sealer.ownership().owner_of(id, self.workers) == Some(self.worker)
        };
        (0..ATTEMPTS).map(name).find(mine).unwrap_or_else(|| name(0))
    }

    /// When [`Probes::timeout`] wants to be called next.
    pub fn next_deadline(&self, settings: &Settings, cluster: &Cluster) -> Option<Time> {
        if settings.probing.interval.is_zero() {
            return None;
        }
        let all = self.probes.iter().take(cluster.indexes().len());
        if cluster.indexes().filter_map(|at| cluster.vital(at)).any(Vital::is_wanted)
            || all.clone().any(Probe::is_returned)
        {
            return Some(Time::ZERO);
        }
        match self.regular() {
            true => all.map(Probe::wakes).min(),
            false if self.asked => all.filter_map(Probe::due).min(),
            false => None,
        }
    }
}

/// What a probe is written from.
pub(crate) struct Asks<'a> {
    pub settings: &'a Settings,
    pub cluster: &'a Cluster,
    pub sealer: &'a Sealer,
    pub names: &'a mut KnownNames,
}

impl Asks<'_> {
    /// Sends a probe; false if there is no way to the node.
    fn write(&mut self, at: NodeIndex, serial: u32, call_id: &[u8], out: &mut Outbox) -> bool {
        let &mut Asks { settings, cluster, sealer, .. } = self;
        let Some(node) = cluster.node(at) else { return false };
        let transport = node.transport.unwrap_or(Transport::Udp);
        let near = settings.listener_for(transport, node.address, ListenerId(0));
        let Some((id, listener)) = near.and_then(|id| Some((id, settings.listener(id)?))) else {
            return false;
        };
        let flow = Flow { transport, listener: id, remote: node.address, conn: None };
        let token = if transport.is_reliable() { TransmitToken::Probe(at, serial).to_u64() } else { 0 };
        out.send_with(flow, token, |buf| {
            let address = node.address.to_string();
            let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| buf.extend_from_slice(part));
            let mut branch = Vec::with_capacity(48);
            sealer.push_probe(node.id(), serial, &mut branch);
            let mut number = Vec::with_capacity(10);
            push_u64(u64::from(serial).max(1), &mut number);
            put(&[b"OPTIONS sip:", address.as_bytes(), b" SIP/2.0\r\n", listener.via_prefix(), &branch]);
            let offer = if settings.overload_control { OFFER } else { b"" };
            put(&[
                b";rport",
                offer,
                b"\r\nMax-Forwards: 1\r\nFrom: <sip:",
                listener.sent_by(),
                b">;tag=",
                &branch[9..19],
            ]);
            put(&[b"\r\nTo: <sip:", address.as_bytes(), b">\r\nCall-ID: ", call_id, b"\r\nCSeq: ", &number]);
            put(&[b" OPTIONS\r\nContent-Length: 0\r\n\r\n"]);
        });
        if transport.is_secure() {
            out.verifies(self.names.of(cluster.names(), node.id()));
        }
        true
    }
}
