//! The balancer: one worker's whole machine.
//!
//! A proxy without transactions that knows calls (RFC 3261 section 16.11, with the choice of 16.11's "target"
//! kept in the records of [`Dispatcher`]). It forwards what it receives as it is, with its own Via on top;
//! responses go back by what its Via says. It repeats nothing but what nobody else would (see
//! [`crate::failover::store`]).

mod connections;
mod overload;
mod phones;
mod reflection;
mod requests;
mod responses;

use crate::cluster::probes::Probes;
use crate::failover::retransmission::{Looked, Rescue};
use crate::failover::state::Failover;
use crate::failover::store::KeptMessage;
use crate::forwarding::forwarder::Forwarder;
use crate::forwarding::step::Step;
use crate::message::wait;
use crate::timers::work;
use crate::token::{Keys, Sealer};
use crate::transmit::TransmitToken;
use crate::{Cluster, Counts, Dispatcher, Events, Load, MethodClass, NodeStats, Settings};
use core::net::SocketAddr;
use sip_message::{Flaw, Index, Message, Method, Parsed, parse};
use sip_proxy::stun::Binding;
use sip_proxy::transport::broken_stream;
use std::sync::Arc;
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Machine, Outbox, Time, Transport};

/// What other threads tell a worker.
pub enum Notice {
    /// New settings, in force from here.
    Settings(Arc<Settings>),
    /// Take no new calls (503 with Retry-After), or take them again.
    Drain(bool),
    /// Nodes have gone down or come back: see what that means for what is under way.
    Look,
    /// Show what is going on, by calling `show` once with the worker's report.
    Report {
        /// Count anew what the counters count. That looks at every record, and nobody is served meanwhile.
        audit: bool,
        /// Takes the report.
        show: Box<dyn FnOnce(Report) + Send>,
    },
}

/// What a worker is doing.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What it counted.
    pub counts: Counts,
    /// What happened to requests.
    pub events: Events,
    /// Its figures of each node.
    pub nodes: Vec<NodeStats>,
    /// What it has given to each node.
    pub loads: Vec<Load>,
    /// Whether these are what the records say, where that was looked at. If not, it is a defect of this
    /// program.
    pub exact: Option<bool>,
    /// Calls and dialogs alive.
    pub alive: usize,
    /// Calls that are over and remembered for late retransmissions.
    pub ended: usize,
    /// Transactions unfinished or remembered.
    pub transactions: usize,
    /// Messages kept because they may have to be sent once more.
    pub kept: usize,
    /// Those for which there was no room, since start.
    pub unkept: u64,
    /// Whether the worker drains.
    pub draining: bool,
}

/// What a balancer is made from besides its settings.
#[derive(Clone)]
pub struct Setup {
    /// Which worker this is.
    pub worker: u16,
    /// How many there are.
    pub workers: u16,
    /// The nodes, shared by all workers.
    pub cluster: Arc<Cluster>,
    /// The secrets, shared by all workers and all balancers of the cluster.
    pub keys: Keys,
    /// The most calls of this worker.
    pub calls: usize,
    /// Spreads the choices of several workers.
    pub seed: u64,
    /// The same for all workers, and another one from start to start: what an earlier process said of its
    /// connections is known by that.
    pub life: u32,
}

/// One worker's machine.
pub struct Balancer {
    cluster: Arc<Cluster>,
    dispatcher: Dispatcher,
    forwarder: Forwarder,
    failover: Failover,
    probes: Probes,
    draining: bool,
}

impl Balancer {
    /// A balancer with nothing going on. Worker 0 probes the nodes; others ask those that they doubt.
    pub fn new(setup: Setup, settings: Arc<Settings>) -> Balancer {
        let Setup { worker, workers, cluster, keys, calls, seed, life } = setup;
        let sealer = Sealer::new(keys);
        let seed = seed ^ u64::from(worker).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (algorithm, rules) = (settings.algorithm, settings.rules);
        Balancer {
            dispatcher: Dispatcher::new(Arc::clone(&cluster), worker, algorithm, rules, calls, seed),
            failover: Failover::new(calls, cluster.generation()),
            probes: Probes::new(worker, workers, seed),
            draining: false,
            forwarder: Forwarder::new(settings, Arc::clone(&cluster), sealer, life),
            cluster,
        }
    }

    /// What is going on; `audit` as in [`Notice::Report`].
    pub fn report(&self, audit: bool) -> Report {
        let loads = self.dispatcher.calls().loads();
        let exact = audit.then(|| self.dispatcher.calls().is_exact());
        let (alive, ended, transactions) = self.dispatcher.calls().held();
        Report {
            counts: self.forwarder.counts,
            events: self.dispatcher.events(),
            nodes: self.dispatcher.stats().to_vec(),
            loads: loads.to_vec(),
            exact,
            alive,
            ended,
            transactions,
            kept: self.failover.len(),
            unkept: self.failover.missed(),
            draining: self.draining,
        }
    }

    /// Failover, and what it works with.
    fn parts<'a>(&'a mut self, now: Time, out: &'a mut Outbox) -> (&'a mut Failover, Step<'a>) {
        let Balancer { failover, dispatcher, forwarder, .. } = self;
        (failover, Step { now, dispatcher, forwarder, out })
    }

    fn with_index<R>(&mut self, task: impl FnOnce(&mut Balancer, &mut Index) -> R) -> R {
        let mut index = self.forwarder.take_index();
        let result = task(self, &mut index);
        self.forwarder.return_index(index);
        result
    }

    fn flawed(&mut self, flow: Flow, message: &Message<'_>, flaw: Flaw, out: &mut Outbox) {
        // Responses with a fault are dropped (RFC 3261 section 18.1.2), ACKs never answered.
        if message.is_request() && message.method() != Method::Ack {
            self.forwarder.counts.malformed += 1;
            self.forwarder.refuse(flow, message, flaw.status, flaw.reason.as_bytes(), b"", out);
        } else {
            self.forwarder.counts.garbage += 1;
        }
    }

    fn response(&mut self, now: Time, flow: Flow, response: &Message<'_>, out: &mut Outbox) {
        let Some(probe) = self.forwarder.sealer().open_probe(response.via_branch()) else {
            return self.relay(now, flow, response, out);
        };
        let (status, wait) = (response.status(), wait(response, MethodClass::Other));
        let rules = &self.forwarder.settings().probing;
        if let Some(node) = self.probes.answered(now, rules, &self.cluster, probe, (status, wait)) {
            self.hear_probe(now, node, response, out);
        }
    }

    /// Receives a message that is kept once more.
    fn replay(&mut self, now: Time, at: u32, out: &mut Outbox) {
        let (failover, mut step) = self.parts(now, out);
        let Some(replay) = failover.take_out(&mut step, at) else { return };
        let limits = self.forwarder.settings().message;
        self.with_index(|this, index| {
            // It was good when it came.
            let (Parsed::Good(message) | Parsed::Bad(message, _)) = parse(&replay.bytes, index, &limits)
            else {
                return;
            };
            match replay.what {
                KeptMessage::ToNode | KeptMessage::ToCaller => this.request(now, replay.from, &message, out),
                KeptMessage::Refusal => this.relay(now, replay.from, &message, out),
                KeptMessage::Own(node) => {
                    let (failover, mut step) = this.parts(now, out);
                    failover.send_own(&mut step, replay.from, &message, node, at);
                }
            }
        });
        let (failover, mut step) = self.parts(now, out);
        failover.put_back(&mut step, at, replay);
    }

    /// What is due of what is kept, and what has lost its node.
    fn look_after(&mut self, now: Time, out: &mut Outbox) {
        for _ in 0..work(now, self.failover.next_due()) {
            let Some(at) = self.failover.pop(now) else { break };
            let (failover, mut step) = self.parts(now, out);
            let Looked::Replay(look) = failover.look_at(&mut step, at) else { continue };
            self.replay(now, at, out);
            if let Some(look) = look {
                self.failover.look_again(at, look);
            }
        }
        let (mut sends, looks) = self.failover.begin_search(now, &self.cluster);
        for _ in 0..looks {
            let (failover, mut step) = self.parts(now, out);
            match failover.search(&mut step) {
                None => return,
                Some((_, Rescue::Wait(_))) => {}
                Some((_, Rescue::Over)) => sends -= 1,
                Some((at, Rescue::Replay)) => {
                    self.replay(now, at, out);
                    sends -= 1;
                }
            }
            if sends == 0 {
                return;
            }
        }
    }

    /// A transmit could not be sent. `unseen`: its peer cannot have read it.
    fn lost(&mut self, now: Time, token: u64, unseen: bool, out: &mut Outbox) {
        match TransmitToken::from_u64(token) {
            Some(TransmitToken::Probe(at, serial)) => self.probes.returned(at, serial),
            Some(token) => {
                let (failover, mut step) = self.parts(now, out);
                if let Some(at) = failover.lost(&mut step, token, unseen) {
                    self.replay(now, at, out);
                }
            }
            None => {}
        }
    }
}

impl Machine for Balancer {
    type Notice = Notice;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &self.forwarder.settings().message)
    }

    /// Every message of a call carries its Call-ID, so its hash names the owner.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        self.forwarder.sealer().ownership().owner(message, workers)
    }

    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        if let Some(other) = arrival.other_owner(self) {
            return Some(other);
        }
        let Arrival { now, flow, message, .. } = arrival;
        let limits = self.forwarder.settings().message;
        self.with_index(|this, index| match parse(message, index, &limits) {
            Parsed::Garbage(_) => match Binding::read(message) {
                // The keepalive of a phone (RFC 5626 section 5.4).
                Some(keepalive) if flow.transport == Transport::Udp => {
                    out.send_with(flow, 0, |buf| keepalive.answer(flow.remote, buf));
                }
                _ => this.forwarder.counts.garbage += 1,
            },
            Parsed::Good(message) if message.is_request() => {
                this.forwarder.counts.requests += 1;
                this.request(now, flow, &message, out);
            }
            Parsed::Good(message) => {
                this.forwarder.counts.responses += 1;
                this.response(now, flow, &message, out);
            }
            Parsed::Bad(message, flaw) => this.flawed(flow, &message, flaw, out),
        });
        self.dispatcher.calls_mut().release(out);
        None
    }

    fn refuse(&mut self, _now: Time, flow: Flow, head: &[u8], error: FrameError, out: &mut Outbox) {
        let limits = self.forwarder.settings().message;
        let (status, reason) = broken_stream(error);
        self.with_index(|this, index| match parse(head, index, &limits) {
            Parsed::Good(message) | Parsed::Bad(message, _)
                if message.is_request() && message.method() != Method::Ack =>
            {
                this.forwarder.counts.malformed += 1;
                this.forwarder.refuse(flow, &message, status, reason, b"", out);
            }
            _ => this.forwarder.counts.garbage += 1,
        });
    }

    /// Answers find another way by themselves, and requests are told by their tokens.
    fn disconnected(&mut self, _now: Time, _conn: ConnId, _out: &mut Outbox) {}

    fn undeliverable(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.lost(now, token, true, out);
    }

    fn cut_off(&mut self, now: Time, token: u64, out: &mut Outbox) {
        self.lost(now, token, false, out);
    }

    fn returned(&mut self, now: Time, to: SocketAddr, quoted: &[u8], _out: &mut Outbox) {
        let Some(branch) = branch_of(quoted) else { return };
        let node = |id| self.cluster.by_id(id).filter(|at| self.cluster.at(to) == Some(*at));
        if let Some((id, serial)) = self.forwarder.sealer().open_probe(branch) {
            if let Some(node) = node(id) {
                self.probes.returned(node, serial);
            }
            return;
        }
        let Some(branch) = self.forwarder.sealer().open_branch(branch).filter(|b| !b.to_caller) else {
            return;
        };
        let Some(node) = node(branch.node) else { return };
        match call_id_of(quoted) {
            Some(call_id) => {
                let class =
                    MethodClass::of(Method::from_bytes(quoted.split(|&b| b == b' ').next().unwrap_or(b"")));
                let call = self.forwarder.sealer().call(call_id);
                self.dispatcher.returned(now, call, branch.id, class, node, true);
            }
            // Too little came back to say which request it was: the next probe will tell.
            None => self.cluster.want_probe(node),
        }
    }

    fn notice(&mut self, now: Time, notice: Notice, out: &mut Outbox) {
        match notice {
            Notice::Look => self.look_after(now, out),
            Notice::Settings(settings) => {
                self.dispatcher.set(settings.algorithm, settings.rules);
                let probed = !self.forwarder.settings().probing.interval.is_zero();
                if settings.probing.interval.is_zero() && probed {
                    self.cluster.forget_probes();
                }
                self.forwarder.set(settings);
                self.probes.reset(now);
            }
            Notice::Drain(draining) => self.draining = draining,
            Notice::Report { audit, show } => {
                let mut report = self.report(audit);
                report.nodes.iter_mut().for_each(|stats| stats.fade(now));
                show(report);
            }
        }
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        self.dispatcher.timeout(now);
        let sent = self.probes.timeout(now, &mut self.forwarder.asks(), out);
        self.forwarder.counts.probes += sent;
        self.look_after(now, out);
        self.dispatcher.calls_mut().release(out);
    }

    fn next_deadline(&self) -> Option<Time> {
        let probes = self.probes.next_deadline(self.forwarder.settings(), &self.cluster);
        [self.dispatcher.next_deadline(), probes, self.failover.next_deadline()].into_iter().flatten().min()
    }
}

/// The branch of the first Via of a request of ours, of which `quoted` is the beginning. What we send to
/// nodes begins with our own Via.
fn branch_of(quoted: &[u8]) -> Option<&[u8]> {
    if quoted.starts_with(b"SIP/2.0 ") {
        return None;
    }
    let via = quoted.split(|&b| b == b'\n').nth(1)?.strip_prefix(b"Via: ")?;
    let mut parameters = via.split(|&b| b == b';' || b == b'\r').skip(1);
    parameters.find_map(|parameter| parameter.strip_prefix(b"branch="))
}

/// The Call-ID in the beginning of a message, if all of it is there.
fn call_id_of(quoted: &[u8]) -> Option<&[u8]> {
    let lines = quoted.split_inclusive(|&b| b == b'\n').skip(1).take_while(|line| *line != b"\r\n");
    lines.filter_map(|line| line.strip_suffix(b"\r\n")).find_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|&b| b == b':')?)?;
        let name = name.trim_ascii_end();
        let named = name.eq_ignore_ascii_case(b"call-id") || name.eq_ignore_ascii_case(b"i");
        named.then(|| value.get(1..).unwrap_or(b"").trim_ascii())
    })
}
