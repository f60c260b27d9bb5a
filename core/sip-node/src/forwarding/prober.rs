//! OPTIONS to targets that do not answer, until they do (RFC 3261 section 11).
//!
//! The worker that marked an address probes it, so no two do. An answer of any kind takes the mark off for
//! all.

use crate::services::Services;
use crate::site::Site;
use crate::step::Step;
use core::time::Duration;
use sip_health::{Gateway, Overdue, Probe, Why};
use sip_message::{Method, hex16, push_u64};
use sip_proxy::loops::write_branch;
use sip_transaction::{ClientId, ClientRequest, Payer};
use std::mem;
use std::sync::Arc;
use wire::{Delivery, Flow, Time};

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
pub(super) struct Prober {
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
        // Never zero: that is the user of a transaction that belongs to nothing. Those with the highest bit
        // are registrations.
        self.next_number = number.checked_add(1).filter(|next| next >> 31 == 0).unwrap_or(1);
        self.jobs.push(Job { number, gateway: Arc::clone(gateway), flow, probe, serial: 0, client: None });
    }

    /// The targets may be others now.
    pub fn look(&mut self) {
        if !self.jobs.is_empty() {
            self.wakes = Time::ZERO;
        }
    }

    /// When [`Prober::run`] wants to be called.
    pub fn wakes(&self) -> Time {
        self.wakes
    }

    /// A probe was answered, with whatever status.
    #[cold]
    pub fn answered<S: Services>(&mut self, step: &mut Step<'_, S>, user: u64) {
        if let Some(job) = self.job(user) {
            // The job ends where it is seen that the mark is gone.
            job.probe.plan(step.now);
            target_heard(step.site, step.now, &job.gateway, &job.flow);
            self.wakes = step.now;
        }
    }

    /// The network says that a probe cannot be delivered.
    #[cold]
    pub fn lost(&mut self, user: u64) {
        if let Some(job) = self.job(user) {
            job.probe.returned(job.serial);
            self.wakes = Time::ZERO;
        }
    }

    /// Puts the questions whose time has come, and ends those that are not needed any more.
    pub fn run<S: Services>(&mut self, step: &mut Step<'_, S>) {
        if self.wakes > step.now {
            return;
        }
        let mut jobs = mem::take(&mut self.jobs);
        jobs.retain_mut(|job| {
            let wanted = job.gateway.is_marked(&job.flow) && step.site.settings().gateways.has(&job.gateway);
            if wanted {
                self.probe_one(step, job);
            } else if let Some(client) = job.client.take() {
                step.layer.abandon(client);
            }
            wanted
        });
        let wakes = jobs.iter().map(|job| job.probe.wakes()).min();
        self.wakes = wakes.unwrap_or(Time::FAR);
        self.jobs = jobs;
    }

    fn probe_one<S: Services>(&mut self, step: &mut Step<'_, S>, job: &mut Job) {
        if let Some(Overdue { unreachable, .. }) = job.probe.overdue(step.now) {
            job.gateway.probe_failed(if unreachable { Why::Unreachable } else { Why::ProbeTimeout });
            if let Some(client) = job.client.take() {
                step.layer.abandon(client);
            }
        }
        if job.probe.next() <= step.now {
            job.serial = job.probe.ask(step.now, INTERVAL, INTERVAL);
            job.client = self.send_probe(step, job);
        }
    }

    fn send_probe<S: Services>(&mut self, step: &mut Step<'_, S>, job: &Job) -> Option<ClientId> {
        step.site.settings().listener(job.flow.listener)?;
        let call_id = self.call_id(step);
        let client = step.layer.reserve_client(Payer::PROVEN)?;
        let listener = step.site.settings().listener(job.flow.listener)?;
        let mut text = Vec::with_capacity(512);
        let uri = job.gateway.uri();
        let parts: [&[u8]; 4] = [b"OPTIONS ", uri, b" SIP/2.0\r\n", listener.via_prefix()];
        parts.iter().for_each(|part| text.extend_from_slice(part));
        write_branch(&client.encode(), 0, &mut text);
        text.extend_from_slice(b";rport\r\nMax-Forwards: 1\r\nFrom: <sip:");
        let tag = hex16(step.random.next());
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
        self.call_id = call_id;
        let request = ClientRequest {
            id: client,
            method: Method::Options,
            flow: job.flow,
            user: job.user(),
            delivery: Delivery::default(),
            name: &step.site.name_at(job.flow, job.gateway.uri()),
        };
        let sent = step.layer.send_request(step.now, &request, step.out, |buf| {
            buf.extend_from_slice(&text);
        });
        sent.then_some(client)
    }

    /// A Call-ID that this worker owns; taken out of the prober.
    fn call_id<S: Services>(&mut self, step: &mut Step<'_, S>) -> Vec<u8> {
        let known = mem::take(&mut self.call_id);
        if !known.is_empty() {
            return known;
        }
        own_call_id(step, self.worker, b"probe-")
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

/// A Call-ID with this beginning that this worker owns.
pub(super) fn own_call_id<S: Services>(step: &mut Step<'_, S>, worker: u16, begin: &[u8]) -> Vec<u8> {
    let (seed, workers) = (step.random.next(), step.site.settings().overload.workers);
    let name = |n: u64| [begin, &hex16(seed.wrapping_add(n))].concat();
    let mine = |id: &Vec<u8>| workers < 2 || step.site.owner_of(id, workers) == Some(worker);
    (0..ATTEMPTS).map(name).find(mine).unwrap_or_else(|| name(0))
}

/// Whether the user of a client transaction is a probe.
pub(super) const fn is_probe(user: u64) -> bool {
    user != 0 && (user >> 16) as u16 == 0
}

/// Something came from an address of a target.
pub(super) fn target_heard<S: Services>(site: &Site<S>, now: Time, gateway: &Gateway, hop: &Flow) {
    if gateway.heard(now, hop) {
        site.services().target_back(gateway.uri(), hop);
    }
}
