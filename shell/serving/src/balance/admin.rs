//! The control side of a running balancer.

use super::names::{self, Names};
use super::{build, live, metrics};
use crate::METHODS;
use crate::certificates::{Certificates, refuse_unusable};
use crate::operator::{self, Reloads, lock, no_file, post_all, silence};
use crate::steering::Grade;
use crate::{bugs, connections};
use control::admin::{
    Admin, AnswerTimes, Audit, BalanceStatus, BalancedNode, Binding, Call, CertificateStatus, Connection,
    ConnectionFilter, Listing, Live, NodeOrder, Nodes, Page, Records, Role, State, Status,
};
use control::config::{
    BalanceNode, Config, ConfigError, Loaded, NodePlace, Overrides, ReloadReport, plan_reload,
};
use control::log::LogHandle;
use control::metrics::Text;
use sip_balancer::{
    Algorithm, BYE_COST, Cluster, Health, Kind, Load, MOST_NODES, Node, NodeIndex, NodeStats, Notice, Order,
    Report, Rules, Settings, Why,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::Time;
use worker_runtime::{RuntimeHandle, monotonic_now};

/// Everything about the running balancer that the control side needs.
pub struct Running {
    pub loaded: Loaded,
    pub overrides: Overrides,
    pub handle: RuntimeHandle<Notice>,
    pub cluster: Arc<Cluster>,
    pub workers: usize,
    pub grade: Grade,
    pub log: LogHandle,
    pub certificates: Option<Certificates>,
}

/// The control side.
pub struct Control {
    running: Running,
    /// The configuration in force, and what was made of it, with the algorithm that was last asked for.
    force: Mutex<(Config, Arc<Settings>)>,
    /// Nodes by name. Whoever locks both locks `force` first.
    names: Mutex<Names>,
    draining: AtomicBool,
    stopping: AtomicBool,
    started: Time,
    reloads: Reloads,
}

/// What has changed though a reload failed.
const UNTOUCHED: &str = "nothing was changed";
const SOME_WORKERS: &str = "some workers have the new settings, and others those before";
const ALL_BUT_NODES: &str = "all but the nodes is in force as the file has it";

/// The figures of all workers together.
pub(super) struct Sum {
    pub reports: Vec<Report>,
    pub nodes: Vec<NodeStats>,
}

impl Control {
    pub fn new(running: Running, settings: Arc<Settings>, names: Names) -> Control {
        let config = running.loaded.config.clone();
        Control {
            running,
            force: Mutex::new((config, settings)),
            names: Mutex::new(names),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            started: monotonic_now(),
            reloads: Reloads::default(),
        }
    }

    /// What it does, in a line.
    pub fn summary(&self) -> String {
        let nodes = self.running.cluster.members().count();
        let algorithm = lock(&self.force).1.algorithm.name();
        let (listeners, workers) = (self.listeners().join(", "), self.running.workers);
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (workers, nodes) = (count(workers, "worker"), count(nodes, "node"));
        format!("{listeners} with {workers}; {nodes} by {algorithm}")
    }

    fn listeners(&self) -> Vec<String> {
        let all = self.running.handle.listeners().iter();
        all.map(|l| format!("{}:{}", l.transport, l.address)).collect()
    }

    /// It is about to end, which whoever asks is told from now on. Callers are served as ever.
    pub fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        // When its address has moved, who has it gets the answers to what was asked here: silence is none any
        // more.
        let force = lock(&self.force);
        let rules = Rules { silent_after: Duration::ZERO, ..force.1.rules };
        let settings = Arc::new(Settings { rules, ..(*force.1).clone() });
        post_all(&self.running.handle, || Notice::Settings(Arc::clone(&settings)));
    }

    /// For how long it is to serve on when it is told to end.
    pub fn stop_delay(&self) -> Duration {
        lock(&self.force).0.balance.stop_delay
    }

    /// Whether all workers are there.
    pub fn is_whole(&self) -> bool {
        self.running.handle.live_workers() >= self.running.workers
    }

    fn state(&self) -> State {
        match (self.stopping.load(Ordering::Relaxed), self.draining.load(Ordering::Relaxed)) {
            (true, _) => State::Stopping,
            (false, true) => State::Draining,
            (false, false) => State::Ready,
        }
    }

    /// Looks names up whose time has come, and takes what came of it. Nodes that were removed long ago are
    /// forgotten.
    pub fn look_up(&self) {
        // Nobody waits here for a reload that takes its time: the next look comes soon.
        let Ok(force) = self.force.try_lock() else { return };
        let rules = force.1.rules;
        self.running.cluster.forget_removed(monotonic_now(), rules.session_timeout);
        let mut names = lock(&self.names);
        if !names.is_empty() {
            let listed = |node: &Node| build::is_listed(&force.0, node);
            names.tick(monotonic_now(), &self.running.cluster, &force.1.listeners, listed);
        }
    }

    /// Logs which nodes have gone down or come back since `seen` was written.
    pub fn tell_changes(&self, seen: &mut Vec<Health>) {
        let cluster = &self.running.cluster;
        let now: Vec<Health> = cluster.indexes().map(|at| cluster.health(at).0).collect();
        let changes = changes(seen, &now);
        if !changes.is_empty() {
            // A worker that has nothing to do would not see it by itself.
            post_all(&self.running.handle, || Notice::Look);
        }
        for (at, came_back) in changes {
            let at = NodeIndex(at as u16);
            let node = cluster.node(at).map_or_else(String::new, |node| node.name());
            let why = self.cause(at, cluster.health(at).1);
            if came_back {
                log_events::balancer::node_up(&node);
            } else if cluster.order(at) == Order::Removed {
                log_events::balancer::removed_node_down(&node, &why);
            } else {
                log_events::balancer::node_down(&node, &why);
            }
        }
        *seen = now;
    }

    /// Looks whether files of certificates have changed.
    pub fn look_at_certificates(&self) {
        self.running.certificates.iter().for_each(Certificates::look);
    }

    /// Why a node is as it is, with the reason for which connections to it over TLS fail.
    fn cause(&self, at: NodeIndex, why: Why) -> String {
        let cluster = &self.running.cluster;
        operator::cause(why, || {
            let name = cluster.names().of(&cluster.node(at)?)?;
            self.running.certificates.as_ref()?.client().fault_of(&name)
        })
    }

    fn loads(&self) -> Vec<Load> {
        let cluster = &self.running.cluster;
        cluster.indexes().map(|at| cluster.load(at)).collect()
    }

    /// What every worker is doing, with the worker's number.
    fn ask(&self) -> Vec<(u16, Report)> {
        self.ask_all(false)
    }

    /// The same; `audit`: with its counters counted anew, which takes its time.
    fn ask_all(&self, audit: bool) -> Vec<(u16, Report)> {
        let handle = &self.running.handle;
        operator::ask(handle, 0..handle.workers(), |show| Notice::Report { audit, show })
    }

    fn sum(&self) -> Sum {
        let reports: Vec<Report> = self.ask().into_iter().map(|(_, report)| report).collect();
        let mut nodes = vec![NodeStats::default(); self.running.cluster.indexes().count()];
        for report in &reports {
            nodes.iter_mut().zip(&report.nodes).for_each(|(sum, one)| sum.merge(one));
        }
        Sum { reports, nodes }
    }

    fn alarms(&self, answering: usize) -> Vec<String> {
        let (handle, workers) = (&self.running.handle, self.running.workers);
        let mut alarms: Vec<String> = operator::worker_alarms(handle, workers, answering).collect();
        let (cluster, now) = (&self.running.cluster, monotonic_now());
        for (at, node) in cluster.members().filter(|(at, _)| cluster.order(*at) != Order::Removed) {
            if let (Health::Down, why) = cluster.health(at) {
                alarms.push(format!("node {} is down: {}", node.name(), self.cause(at, why)));
            }
        }
        if !cluster.is_open(now) {
            alarms.push("no node takes calls".into());
        }
        let short = self.running.handle.short_of_streams();
        alarms.extend(crate::room::streams_alarm(short, now, lock(&self.force).0.limits.connections));
        alarms.extend(lock(&self.names).alarms());
        alarms.extend(self.running.certificates.iter().flat_map(Certificates::alarms));
        alarms.extend(bugs::alarm());
        alarms
    }

    /// What went wrong comes with what has changed all the same.
    fn try_reload(&self) -> Result<ReloadReport, (Vec<ConfigError>, &'static str)> {
        let running = &self.running;
        let untouched = |errors| (errors, UNTOUCHED);
        let Some(file) = running.loaded.file.as_deref() else { return Err(untouched(vec![no_file()])) };
        let new = Config::load(Some(file), &running.overrides, METHODS).map_err(untouched)?;
        refuse_unusable(&new).map_err(untouched)?;
        plan_reload(&lock(&self.force).0, &new).map_err(untouched)?;
        // Files are read before anything is held that others wait for.
        let certificates = running.certificates.as_ref().map(|held| (held, held.prepare(&new.config)));
        // Held to the end, so that of two reloads at once one comes wholly after the other.
        let mut force = lock(&self.force);
        let mut report = plan_reload(&force.0, &new).map_err(untouched)?;
        let settings = Arc::new(build::settings(&new.config, force.1.listeners.clone()));
        // What was ordered at run time is in no file, so a comparison of files does not name it.
        report.changed.extend(other_algorithm(force.1.algorithm, settings.algorithm));
        report.changed.extend(self.other_weights(&force.0, &new.config));
        let fault = |message: String, changed: &'static str| {
            let mend = format!("mend `nodes` in [balance]; {changed}");
            (
                vec![ConfigError { file: file.display().to_string(), line: 0, column: 0, message, mend }],
                changed,
            )
        };
        let nodes = build::nodes(&new.config, &force.1.listeners)
            .map_err(|error| fault(error.to_string(), UNTOUCHED))?;
        self.room_for(&nodes).map_err(|message| fault(message, UNTOUCHED))?;
        self.bring_intoforce(&settings).map_err(|errors| (errors, SOME_WORKERS))?;
        let changed = self.change_nodes(&force.0, &new.config, &nodes);
        running.log.set_level(new.config.log.level);
        if let Some((held, new)) = certificates {
            held.follow(new);
        }
        let before = std::mem::replace(&mut *force, (new.config, settings));
        changed.map_err(|message| {
            // What is missing of these is done by the next reload, which compares with what was before.
            force.0.balance.nodes = before.0.balance.nodes;
            fault(message, ALL_BUT_NODES)
        })?;
        Ok(report)
    }

    /// The nodes of an unchanged line of the list whose share was given to them at run time, and the file's
    /// is another.
    fn other_weights(&self, before: &Config, after: &Config) -> Vec<String> {
        let cluster = &self.running.cluster;
        let listed = after.balance.nodes.iter().filter(|node| before.balance.nodes.contains(node));
        let other = |node: &BalanceNode| {
            let NodePlace::Address(address) = node.place else { return None };
            let at = cluster.at(Node::new(address).address)?;
            let weight = cluster.weight(at);
            let differs = weight != node.weight && cluster.order(at) != Order::Removed;
            differs.then(|| format!("weight of {address}: {weight} -> {}", node.weight))
        };
        listed.filter_map(other).collect()
    }

    fn bring_intoforce(&self, settings: &Arc<Settings>) -> Result<(), Vec<ConfigError>> {
        let told = post_all(&self.running.handle, || Notice::Settings(Arc::clone(settings)));
        let workers = usize::from(self.running.handle.workers());
        if told == workers {
            // A report comes after the settings in a worker's queue: once all are here, all are in force.
            self.ask();
            return Ok(());
        }
        let message = format!("only {told} of {workers} workers took the new settings");
        let mend = "try again; until then they differ".to_owned();
        Err(vec![ConfigError { file: "reload".into(), line: 0, column: 0, message, mend }])
    }

    fn find(&self, name: &str) -> Result<NodeIndex, String> {
        let cluster = &self.running.cluster;
        let bare = name.strip_prefix("sip:").or_else(|| name.strip_prefix("sips:")).unwrap_or(name);
        let bare = bare.split(';').next().unwrap_or(bare);
        let mut all = cluster.members();
        all.find(|(_, node)| node.name() == bare).map(|(at, _)| at).ok_or_else(|| {
            let names: Vec<String> = cluster.members().map(|(_, n)| n.name()).collect();
            format!("no node \"{bare}\"; there are {}", names.join(", "))
        })
    }

    /// Adds a node. Whoever calls this holds `force`, so that one comes after the other.
    fn add(&self, node: &Node) -> Result<NodeIndex, String> {
        let cluster = &self.running.cluster;
        cluster.add(monotonic_now(), node).map_err(|why| build::not_added(cluster, node, why))
    }

    /// Whether all of these may be added.
    fn room_for(&self, nodes: &[Node]) -> Result<(), String> {
        let cluster = &self.running.cluster;
        for node in nodes {
            let other = cluster.by_id(node.id()).and_then(|at| cluster.node(at));
            if let Some(other) = other.filter(|_| cluster.at(node.address).is_none()) {
                return Err(build::alike(&other.name(), &node.name()));
            }
        }
        let fresh = nodes.iter().filter(|node| cluster.at(node.address).is_none()).count();
        match cluster.room(monotonic_now()) < fresh {
            true => Err(format!(
                "no room for {fresh} nodes more: there are {MOST_NODES}, counting removed ones that still have calls"
            )),
            false => Ok(()),
        }
    }

    /// Brings the nodes to what has changed from one configuration to the next; what was ordered besides
    /// stays.
    fn change_nodes(&self, before: &Config, after: &Config, nodes: &[Node]) -> Result<(), String> {
        let (cluster, now) = (&self.running.cluster, monotonic_now());
        let listed = build::is_listed;
        let mut by_name = lock(&self.names);
        let unnamed =
            by_name.set(now, &after.balance.nodes).map_err(|error| format!("no DNS look-ups: {error}"))?;
        for old in unnamed.iter().filter(|old| !listed(after, old)) {
            names::remove(now, cluster, old, "");
        }
        for old in &before.balance.nodes {
            let NodePlace::Address(address) = old.place else { continue };
            let old = Node::new(address);
            let wanted = listed(after, &old) || by_name.has(&old);
            if let Some(at) = cluster.at(old.address).filter(|_| !wanted) {
                cluster.remove(now, at);
                log_events::balancer::node_removed(&old.name());
            }
        }
        drop(by_name);
        build::prove_listed(cluster, &after.balance.nodes);
        for node in nodes {
            match cluster.at(node.address).filter(|at| cluster.order(*at) != Order::Removed) {
                Some(at) => {
                    cluster.change(at, node);
                    cluster.set_rank(at, 0);
                }
                None if listed(before, node) => {}
                None => {
                    self.add(node)?;
                    log_events::balancer::node_added(&node.name());
                }
            }
        }
        Ok(())
    }

    /// A node as it is shown.
    fn shown(&self, at: NodeIndex) -> BalancedNode {
        let sum = self.sum();
        let none = NodeStats::default();
        self.node(at, sum.nodes.get(usize::from(at.0)).unwrap_or(&none))
    }

    fn node(&self, at: NodeIndex, stats: &NodeStats) -> BalancedNode {
        let cluster = &self.running.cluster;
        let now = monotonic_now();
        let (load, (health, _)) = (cluster.load(at), cluster.health(at));
        BalancedNode {
            name: cluster.node(at).map_or_else(String::new, |node| node.name()),
            weight: cluster.weight(at),
            order: match cluster.order(at) {
                Order::Serve => NodeOrder::Serve,
                Order::Drain => NodeOrder::Drain,
                Order::Maintenance => NodeOrder::Maintenance,
                Order::Removed => NodeOrder::Removed,
            },
            health: health_name(health).into(),
            why: whether_rests(cluster, now, at, self.cause(at, cluster.reason(now, at))),
            takes_calls: cluster.gets_calls(now, at),
            calls: load.calls.into(),
            transactions: load.transactions().into(),
            work: work_of(&load),
            assigned: stats.assigned,
            falls: cluster.falls(at).into(),
            times: times(stats),
        }
    }

    fn all_nodes(&self) -> Nodes {
        self.nodes_of(&self.sum())
    }

    fn nodes_of(&self, sum: &Sum) -> Nodes {
        let none = NodeStats::default();
        let stats = |at: NodeIndex| sum.nodes.get(usize::from(at.0)).unwrap_or(&none);
        Nodes {
            algorithm: lock(&self.force).1.algorithm.name().into(),
            items: self.running.cluster.members().map(|(at, _)| self.node(at, stats(at))).collect(),
        }
    }
}

/// What a reload says where the algorithm is another one than before.
fn other_algorithm(before: Algorithm, after: Algorithm) -> Option<String> {
    (before != after).then(|| format!("algorithm: {} -> {}", before.name(), after.name()))
}

/// The places where a node has gone down (`false`) or come back (`true`).
fn changes(before: &[Health], after: &[Health]) -> Vec<(usize, bool)> {
    let was_down = |at: usize| before.get(at) == Some(&Health::Down);
    let all = after.iter().enumerate().map(|(at, health)| (at, *health == Health::Down));
    all.filter(|(at, down)| was_down(*at) != *down).map(|(at, down)| (at, !down)).collect()
}

/// The name of a health in the API.
pub(super) const fn health_name(health: Health) -> &'static str {
    match health {
        Health::Unknown => "unknown",
        Health::Up => "up",
        Health::Down => "down",
    }
}

/// Why a node is as it is, in the words of the metrics.
pub(super) fn why_text(cluster: &Cluster, now: Time, at: NodeIndex) -> String {
    whether_rests(cluster, now, at, cluster.reason(now, at).text().to_owned())
}

/// The reason `why`, and whether the node rests for it.
fn whether_rests(cluster: &Cluster, now: Time, at: NodeIndex, why: String) -> String {
    if cluster.resting_until(now, at).is_some() { format!("rests: {why}") } else { why }
}

/// The unfinished work of a node, in BYEs.
pub(super) fn work_of(load: &Load) -> f64 {
    load.work() as f64 / f64::from(BYE_COST)
}

fn times(stats: &NodeStats) -> Vec<AnswerTimes> {
    let ms = |micros: u64| micros as f64 / 1_000.0;
    let one = |kind: Kind| {
        let times = stats.recent(kind);
        AnswerTimes {
            kind: kind.name().into(),
            count: times.count,
            mean_ms: ms(times.mean()),
            p50_ms: ms(times.quantile(0.5)),
            p95_ms: ms(times.quantile(0.95)),
            p99_ms: ms(times.quantile(0.99)),
        }
    };
    Kind::ALL.into_iter().map(one).collect()
}

impl Admin for Control {
    fn status(&self) -> Status {
        let reports = self.ask();
        let sum = |pick: fn(&Report) -> usize| reports.iter().map(|(_, r)| pick(r) as u64).sum();
        let counts = self.running.handle.counts();
        let loads = self.loads();
        let own = BalanceStatus {
            unfinished_transactions: loads.iter().map(|load| u64::from(load.transactions())).sum(),
            records: Records {
                alive: sum(|r| r.alive),
                ended: sum(|r| r.ended),
                transactions: sum(|r| r.transactions),
            },
        };
        Status {
            role: Role::Balance(own),
            state: self.state(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: monotonic_now().since(self.started).as_secs(),
            workers: self.running.workers,
            steering: self.running.grade.text().into(),
            config_file: self.running.loaded.file.as_ref().map(|f| f.display().to_string()),
            listeners: self.listeners(),
            calls: loads.iter().map(|load| u64::from(load.calls)).sum(),
            connections: counts.tcp_open,
            messages_received: counts.udp_in + counts.tcp_messages_in,
            messages_sent: counts.udp_out + counts.tcp_messages_out,
            alarms: self.alarms(reports.len()),
        }
    }

    fn live(&self) -> Live {
        let sum = self.sum();
        let at = monotonic_now().since(self.started);
        live::of(at, self.status(), self.nodes_of(&sum), &sum.reports)
    }

    fn ready(&self) -> Result<(), String> {
        let state = self.state();
        if state != State::Ready {
            return Err(state.name().to_owned());
        }
        let (cluster, now) = (&self.running.cluster, monotonic_now());
        if !cluster.is_open(now) {
            return Err("no node takes calls".into());
        }
        let answering: Vec<u16> = self.ask().into_iter().map(|(worker, _)| worker).collect();
        silence(self.running.handle.workers(), &answering).map_or(Ok(()), Err)
    }

    /// Nobody registers here.
    fn bindings(&self, _aor: Option<&str>, _page: &Page) -> Option<Listing<Binding>> {
        None
    }

    /// Of a call only its hash is kept, so there is none to show.
    fn calls(&self, _page: &Page) -> Option<Listing<Call>> {
        None
    }

    fn connections(&self, filter: &ConnectionFilter, page: &Page) -> Option<Listing<Connection>> {
        connections::list(&self.running.handle, filter, page)
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        self.running.certificates.as_ref().map(Certificates::list).unwrap_or_default()
    }

    fn reload(&self) -> Result<ReloadReport, Vec<ConfigError>> {
        // Whatever is wrong with the configuration.
        self.running.certificates.iter().for_each(Certificates::look_now);
        let result = self.try_reload();
        self.reloads.note(result.as_ref().map_err(|(errors, changed)| (&errors[..], *changed)));
        result.map_err(|(errors, _)| errors)
    }

    fn drain(&self) {
        log_events::balancer::balancer_draining();
        self.draining.store(true, Ordering::Relaxed);
        post_all(&self.running.handle, || Notice::Drain(true));
    }

    fn metrics(&self, out: &mut String) {
        let (sum, reloads) = (self.sum(), self.reloads.counts());
        let up = self.state() == State::Ready;
        let mut text = Text::new(out);
        metrics::write(&mut text, &self.running, &sum, up, reloads);
    }

    fn is_balancer(&self) -> bool {
        true
    }

    fn nodes(&self) -> Option<Nodes> {
        Some(self.all_nodes())
    }

    fn order(&self, node: &str, order: NodeOrder) -> Result<BalancedNode, String> {
        let at = self.find(node)?;
        // Nothing is added or removed meanwhile.
        let force = lock(&self.force);
        let cluster = &self.running.cluster;
        if cluster.order(at) == Order::Removed {
            return Err(format!("node \"{node}\" was removed; add it again with `ctl add-node`"));
        }
        match order {
            NodeOrder::Serve => cluster.set_order(at, Order::Serve),
            NodeOrder::Drain => cluster.set_order(at, Order::Drain),
            NodeOrder::Maintenance => cluster.set_order(at, Order::Maintenance),
            NodeOrder::Removed => {
                let left =
                    |(other, _): &(NodeIndex, Node)| *other != at && cluster.order(*other) != Order::Removed;
                if !cluster.members().any(|other| left(&other)) {
                    return Err(format!("\"{node}\" is the last node; add another one before"));
                }
                cluster.remove(monotonic_now(), at);
            }
        }
        log_events::balancer::node_ordered(node, order.name());
        drop(force);
        Ok(self.shown(at))
    }

    fn add_node(&self, written: &str) -> Result<BalancedNode, String> {
        let wanted = BalanceNode::parse(written)?;
        let force = lock(&self.force);
        let node = build::node(&wanted, &force.1.listeners)?;
        let (cluster, proof) =
            (&self.running.cluster, build::proof(wanted.transport, wanted.name_to_prove()));
        if cluster.at(node.address).is_none_or(|at| cluster.order(at) == Order::Removed) {
            cluster.names().prove(&[(node, proof)], |id| cluster.by_id(id).is_some());
        }
        let at = self.add(&node)?;
        drop(force);
        log_events::balancer::node_added(&wanted.to_string());
        Ok(self.shown(at))
    }

    fn audit(&self) -> Option<Audit> {
        let live = self.running.handle.live_workers();
        let reports = self.ask_all(true);
        let exact = reports.len() == live && reports.iter().all(|(_, r)| r.exact == Some(true));
        let sum = |pick: fn(&Report) -> usize| reports.iter().map(|(_, r)| pick(r) as u64).sum();
        Some(Audit {
            exact,
            workers: reports.len(),
            unanswered: live.saturating_sub(reports.len()),
            wrong: reports.iter().filter(|(_, r)| r.exact != Some(true)).map(|(w, _)| *w).collect(),
            alive: sum(|r| r.alive),
            ended: sum(|r| r.ended),
            transactions: sum(|r| r.transactions),
        })
    }

    fn set_algorithm(&self, name: &str) -> Result<Nodes, String> {
        let Some(algorithm) = Algorithm::from_name(name) else {
            return Err(format!("no algorithm \"{name}\"; one of {}", Algorithm::names()));
        };
        let mut force = lock(&self.force);
        let settings = Arc::new(Settings { algorithm, ..(*force.1).clone() });
        let failed =
            |errors: Vec<ConfigError>| errors.first().map_or_else(String::new, ConfigError::to_string);
        self.bring_intoforce(&settings).map_err(failed)?;
        force.1 = settings;
        drop(force);
        log_events::balancer::algorithm_changed(algorithm.name());
        Ok(self.all_nodes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Health::{Down, Unknown, Up};

    #[test]
    fn only_what_changes_is_told() {
        assert_eq!(changes(&[], &[Unknown, Down, Up]), [(1, false)]);
        assert_eq!(changes(&[Unknown, Down, Up], &[Up, Up, Down]), [(1, true), (2, false)]);
        assert_eq!(changes(&[Up, Down], &[Up, Down]), []);
    }
}
