//! OPTIONS to targets that do not answer, until they do (RFC 3261 section 11).
//!
//! The worker that marked an address probes it, so no two do. An answer of any kind takes the mark off for
//! all.

use crate::node::Node;
use crate::services::Services;
use core::time::Duration;
use sip_health::{Gateway, Overdue, Probe, Why};
use sip_message::{Method, hex16, push_u64};
use sip_proxy::loops::write_branch;
use sip_transaction::{ClientId, ClientRequest, Payer};
use std::mem;
use std::sync::Arc;
use wire::{Flow, Outbox, Time};

/// Addresses that one worker probes at one time. Beyond that none is marked.
const MOST: usize = 256;
/// Time from one question to the next, and limit for an answer.
const INTERVAL: Duration = Duration::from_secs(2);
/// Call-IDs tried for one that belongs to this worker.
const ATTEMPTS: u64 = 10_000;

/// One address that is probed.
struct Job {
    /// What its transactions are known by.
    number: u32,
    gateway: Arc<Gateway>,
    flow: Flow,
    probe: Probe,
    serial: u32,
    /// The question that is open.
    client: Option<ClientId>,
}

/// The addresses that this worker probes.
pub(crate) struct Prober {
    jobs: Vec<Job>,
    next_number: u32,
    worker: u16,
    /// A Call-ID that this worker owns, so that answers come to it.
    call_id: Vec<u8>,
    wakes: Time,
}

impl Prober {
    /// Probes nothing yet.
    pub fn new(worker: u16) -> Prober {
        Prober { jobs: Vec::new(), next_number: 1, worker, call_id: Vec::new(), wakes: Time::FAR }
    }

    /// Whether another address can be probed.
    pub fn has_room(&self) -> bool {
        self.jobs.len() < MOST
    }

    /// Probes this address from now on, beginning in half an interval.
    pub fn begin(&mut self, now: Time, gateway: &Arc<Gateway>, flow: Flow) {
        let mut probe = Probe::default();
        probe.plan(now + INTERVAL / 2);
        self.wakes = self.wakes.min(probe.wakes());
        let number = self.next_number;
        // Never zero: that is the user of a transaction that belongs to nothing.
        self.next_number = number.checked_add(1).unwrap_or(1);
        self.jobs.push(Job { number, gateway: Arc::clone(gateway), flow, probe, serial: 0, client: None });
    }

    /// The targets may be others now.
    pub fn look(&mut self) {
        if !self.jobs.is_empty() {
            self.wakes = Time::ZERO;
        }
    }

    /// When [`Node::probe_on`] wants to be called.
    pub fn wakes(&self) -> Time {
        self.wakes
    }

    fn job(&mut self, user: u64) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.user() == user)
    }
}

impl Job {
    /// The user of the open question's transaction. That of a proxied request has a generation other than
    /// zero.
    fn user(&self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.serial as u16)
    }
}

/// Whether the user of a client transaction is a probe.
pub(crate) const fn is_probe(user: u64) -> bool {
    user != 0 && (user >> 16) as u16 == 0
}

impl<S: Services> Node<S> {
    /// A probe was answered, with whatever status.
    #[cold]
    pub(crate) fn probe_answered(&mut self, now: Time, user: u64) {
        if let Some(job) = self.prober.job(user) {
            let (gateway, flow) = (Arc::clone(&job.gateway), job.flow);
            // The job ends where it is seen that the mark is gone.
            job.probe.plan(now);
            self.prober.wakes = now;
            self.target_heard(now, &gateway, &flow);
        }
    }

    /// The network says that a probe cannot be delivered.
    #[cold]
    pub(crate) fn probe_lost(&mut self, user: u64) {
        if let Some(job) = self.prober.job(user) {
            job.probe.returned(job.serial);
            self.prober.wakes = Time::ZERO;
        }
    }

    /// Puts the questions whose time has come, and ends those that are not needed any more.
    pub(crate) fn probe_on(&mut self, now: Time, out: &mut Outbox) {
        if self.prober.wakes > now {
            return;
        }
        let mut jobs = mem::take(&mut self.prober.jobs);
        jobs.retain_mut(|job| {
            let wanted = job.gateway.is_marked(&job.flow) && self.site.settings().gateways.has(&job.gateway);
            if wanted {
                self.probe_one(now, job, out);
            } else if let Some(client) = job.client.take() {
                self.layer.abandon(client);
            }
            wanted
        });
        let wakes = jobs.iter().map(|job| job.probe.wakes()).min();
        self.prober.wakes = wakes.unwrap_or(Time::FAR);
        self.prober.jobs = jobs;
    }

    fn probe_one(&mut self, now: Time, job: &mut Job, out: &mut Outbox) {
        if let Some(Overdue { unreachable, .. }) = job.probe.overdue(now) {
            job.gateway.probe_failed(if unreachable { Why::Unreachable } else { Why::ProbeTimeout });
            if let Some(client) = job.client.take() {
                self.layer.abandon(client);
            }
        }
        if job.probe.next() <= now {
            job.serial = job.probe.ask(now, INTERVAL, INTERVAL);
            job.client = self.send_probe(now, job, out);
        }
    }

    fn send_probe(&mut self, now: Time, job: &Job, out: &mut Outbox) -> Option<ClientId> {
        let settings = Arc::clone(self.site.settings());
        let listener = settings.listener(job.flow.listener)?;
        let call_id = self.probe_call_id();
        let client = self.layer.reserve_client(Payer::PROVEN)?;
        let mut text = Vec::with_capacity(512);
        let uri = job.gateway.uri();
        let parts: [&[u8]; 4] = [b"OPTIONS ", uri, b" SIP/2.0\r\n", listener.via_prefix()];
        parts.iter().for_each(|part| text.extend_from_slice(part));
        write_branch(&client.encode(), 0, &mut text);
        text.extend_from_slice(b";rport\r\nMax-Forwards: 1\r\nFrom: <sip:");
        let tag = hex16(self.next_random());
        let parts: [&[u8]; 8] = [
            listener.sent_by(),
            b">;tag=",
            &tag,
            b"\r\nTo: <",
            uri,
            b">\r\nCall-ID: ",
            &call_id,
            b"\r\nCSeq: ",
        ];
        parts.iter().for_each(|part| text.extend_from_slice(part));
        push_u64(u64::from(job.serial), &mut text);
        text.extend_from_slice(b" OPTIONS\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n");
        self.prober.call_id = call_id;
        let request = ClientRequest { id: client, method: Method::Options, flow: job.flow, user: job.user() };
        let sent = self.layer.send_request(now, &request, out, |buf| {
            buf.extend_from_slice(&text);
        });
        sent.then_some(client)
    }

    /// A Call-ID that this worker owns; taken out of the prober.
    fn probe_call_id(&mut self) -> Vec<u8> {
        let known = mem::take(&mut self.prober.call_id);
        if !known.is_empty() {
            return known;
        }
        let (seed, worker, workers) =
            (self.next_random(), self.prober.worker, self.site.settings().overload.workers);
        let name = |n: u64| [&b"probe-"[..], &hex16(seed.wrapping_add(n))].concat();
        let mine = |id: &Vec<u8>| workers < 2 || self.site.owner_of(id, workers) == Some(worker);
        (0..ATTEMPTS).map(name).find(mine).unwrap_or_else(|| name(0))
    }
}
