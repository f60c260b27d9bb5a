//! The balancer: one worker's whole machine.
//!
//! A proxy without transactions that knows calls (RFC 3261 section 16.11, with the choice of 16.11's "target"
//! kept in the records of [`Dispatcher`]). It forwards what it receives as it is, with its own Via on top;
//! responses go back by what its Via says. It repeats nothing but what nobody else would (see [`crate::failover::store`]).

mod connections;
mod overload;
mod phones;
mod reflection;
pub(crate) mod requests;
mod responses;

use crate::cluster::probes::Probes;
use crate::failover::cancel_fanout::Scattered;
use crate::failover::lost_nodes::Orphans;
use crate::failover::store::Kept;
use crate::message::wait;
use crate::token::{Keys, Sealer};
use crate::{Cluster, Dispatcher, Happened, Kind, Load, NodeStats, Settings, Tag};
use core::net::SocketAddr;
use sip_message::{Flaw, Index, Message, Method, Parsed, Splices, parse};
use sip_proxy::transport::broken_stream;
use std::mem;
use std::sync::Arc;
use wire::{ConnId, Flow, Frame, FrameError, Machine, Outbox, Time};

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

/// What a worker counts. All of these only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests received.
    pub requests: u64,
    /// Responses received.
    pub responses: u64,
    /// Requests forwarded to nodes.
    pub forwarded: u64,
    /// Requests forwarded to callers.
    pub outward: u64,
    /// Responses forwarded.
    pub relayed: u64,
    /// What could be neither read nor answered.
    pub garbage: u64,
    /// Responses with a Via that we did not seal, and ACKs of nothing.
    pub stray: u64,
    /// Requests refused as malformed.
    pub malformed: u64,
    /// Requests refused because they go round and round, or have been forwarded too often.
    pub loops: u64,
    /// Requests refused because they may not go where they want.
    pub forbidden: u64,
    /// Requests refused with 503.
    pub unavailable: u64,
    /// Requests within a dialog whose token none of our keys has sealed.
    pub forged: u64,
    /// Answers of a node that were passed on as 500: 503 because other nodes take calls, 482 because another one had the
    /// INVITE before.
    pub softened: u64,
    /// Responses to datagrams not sent because they exceed three times what their sender sent.
    pub withheld: u64,
    /// Probes sent.
    pub probes: u64,
    /// Requests and refusals repeated here, because their sender's side is a stream and the other one loses datagrams.
    pub repeated: u64,
    /// INVITEs that were cancelled at a node, or ended with ACK and BYE, because another one has them.
    pub withdrawn: u64,
}

/// What a worker is doing.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What it counted.
    pub counts: Counts,
    /// What happened to requests.
    pub happened: Happened,
    /// Its figures of each node.
    pub nodes: Vec<NodeStats>,
    /// What it has given to each node.
    pub loads: Vec<Load>,
    /// Whether these are what the records say, where that was looked at. If not, it is a defect of this program.
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
    /// Costs of the kinds of transactions that it measured, in thousandths of a BYE.
    pub costs: [u32; Kind::COUNT],
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
    /// The same for all workers, and another one from start to start: what an earlier process said of its connections is
    /// known by that.
    pub life: u32,
}

/// One worker's machine.
pub struct Balancer {
    pub(crate) settings: Arc<Settings>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) sealer: Sealer,
    pub(crate) counts: Counts,
    pub(crate) draining: bool,
    pub(crate) splices: Splices,
    pub(crate) scratch: Vec<u8>,
    pub(crate) probes: Option<Probes>,
    pub(crate) kept: Kept,
    /// A message that was kept is received once more.
    pub(crate) feeding: bool,
    /// The state of the cluster that was last looked at.
    pub(crate) seen: u32,
    pub(crate) orphans: Orphans,
    pub(crate) scattered: Scattered,
    pub(crate) life: u32,
    index: Option<Box<Index>>,
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
            probes: Some(Probes::new(worker, workers, seed)),
            kept: Kept::new(calls),
            feeding: false,
            seen: cluster.generation(),
            orphans: Orphans::default(),
            scattered: Scattered::default(),
            life,
            sealer,
            counts: Counts::default(),
            draining: false,
            splices: Splices::new(),
            scratch: Vec::new(),
            index: Some(Box::new(Index::with_memory())),
            cluster,
            settings,
        }
    }

    /// What is going on; `audit` as in [`Notice::Report`].
    pub fn report(&self, audit: bool) -> Report {
        let loads = self.dispatcher.calls().loads();
        let exact = audit.then(|| self.dispatcher.calls().is_exact());
        let (alive, ended, transactions) = self.dispatcher.calls().held();
        Report {
            counts: self.counts,
            happened: self.dispatcher.happened(),
            nodes: self.dispatcher.stats().to_vec(),
            loads: loads.to_vec(),
            exact,
            alive,
            ended,
            transactions,
            kept: self.kept.len(),
            unkept: self.kept.missed,
            costs: self.dispatcher.chooser().estimated_costs(),
            draining: self.draining,
        }
    }

    pub(crate) fn with_index<R>(&mut self, work: impl FnOnce(&mut Balancer, &mut Index) -> R) -> R {
        let mut index = self.index.take().unwrap_or_default();
        let result = work(self, &mut index);
        self.index = Some(index);
        result
    }

    fn flawed(&mut self, flow: Flow, message: &Message<'_>, flaw: Flaw, out: &mut Outbox) {
        // Responses with a fault are dropped (RFC 3261 section 18.1.2), ACKs never answered.
        if message.is_request() && message.method() != Method::Ack {
            self.counts.malformed += 1;
            self.refuse(flow, message, flaw.status, flaw.reason.as_bytes(), b"", out);
        } else {
            self.counts.garbage += 1;
        }
    }

    fn response(&mut self, now: Time, flow: Flow, response: &Message<'_>, out: &mut Outbox) {
        let probe = self.sealer.open_probe(response.via_branch());
        match (probe, &mut self.probes) {
            (Some(probe), Some(probes)) => {
                let (status, wait) = (response.status(), wait(response, Tag::Other));
                let node = probes.answered(now, &self.settings, &self.cluster, probe, status, wait);
                if let Some(node) = node {
                    self.hear_probe(now, node, response);
                }
            }
            _ => self.relay(now, flow, response, out),
        }
    }
}

impl Machine for Balancer {
    type Notice = Notice;

    fn frame(&self, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &self.settings.message)
    }

    /// Every message of a call carries its Call-ID, so its hash names the owner.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        self.sealer.ownership().owner(message, workers)
    }

    fn receive(&mut self, now: Time, flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let limits = self.settings.message;
        self.with_index(|this, index| match parse(bytes, index, &limits) {
            Parsed::Garbage(_) => this.counts.garbage += 1,
            Parsed::Good(message) if message.is_request() => {
                this.counts.requests += 1;
                this.request(now, flow, &message, out);
            }
            Parsed::Good(message) => {
                this.counts.responses += 1;
                this.response(now, flow, &message, out);
            }
            Parsed::Bad(message, flaw) => this.flawed(flow, &message, flaw, out),
        });
        self.dispatcher.calls_mut().release(out);
    }

    fn refuse(&mut self, _now: Time, flow: Flow, head: &[u8], error: FrameError, out: &mut Outbox) {
        let limits = self.settings.message;
        let (status, reason) = broken_stream(error);
        self.with_index(|this, index| match parse(head, index, &limits) {
            Parsed::Good(message) | Parsed::Bad(message, _)
                if message.is_request() && message.method() != Method::Ack =>
            {
                this.counts.malformed += 1;
                this.refuse(flow, &message, status, reason, b"", out);
            }
            _ => this.counts.garbage += 1,
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
        if let Some((id, serial)) = self.sealer.open_probe(branch) {
            if let (Some(node), Some(probes)) = (node(id), &mut self.probes) {
                probes.returned(node, serial);
            }
            return;
        }
        let Some(branch) = self.sealer.open_branch(branch).filter(|b| !b.to_caller) else { return };
        let Some(node) = node(branch.node) else { return };
        match call_id_of(quoted) {
            Some(call_id) => {
                let tag = Tag::of(Method::from_bytes(quoted.split(|&b| b == b' ').next().unwrap_or(b"")));
                let call = self.sealer.call(call_id);
                self.dispatcher.returned(now, call, branch.id, tag, node, true);
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
                if settings.probing.interval.is_zero() && !self.settings.probing.interval.is_zero() {
                    self.cluster.forget_probes();
                }
                self.settings = settings;
                if let Some(probes) = &mut self.probes {
                    probes.reset(now);
                }
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
        if let Some(mut probes) = self.probes.take() {
            self.counts.probes += probes.timeout(now, &self.settings, &self.cluster, &self.sealer, out);
            self.probes = Some(probes);
        }
        self.look_after(now, out);
        self.dispatcher.calls_mut().release(out);
    }

    fn next_deadline(&self) -> Option<Time> {
        let probes =
            self.probes.as_ref().and_then(|probes| probes.next_deadline(&self.settings, &self.cluster));
        let orphans = self.orphans.next_deadline();
        [self.dispatcher.next_deadline(), probes, self.kept.next(), orphans].into_iter().flatten().min()
    }
}

/// The branch of the first Via of a request of ours, of which `quoted` is the beginning. What we send to nodes
/// begins with our own Via.
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

/// Keeps memory that a message was made in.
pub(crate) fn take_scratch(scratch: &mut Vec<u8>) -> Vec<u8> {
    let mut lines = mem::take(scratch);
    lines.clear();
    lines
}
