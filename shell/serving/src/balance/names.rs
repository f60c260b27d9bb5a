//! Nodes by name: looked up at the start and whenever the DNS says that they may have changed.
//!
//! One that is no longer there is removed from the list, so that it gets nothing new and keeps what it has;
//! one that is new is added. While the DNS does not answer, or knows of none at all, everything stays as it
//! is: what was known of servers that run is worth more than no answer. What an operator has ordered of a
//! node stays in force.

use super::build;
use super::lookup::{End, Found, Lookup, Wanted};
use control::config::{BalanceNode, NodePlace};
use resolver::{Answer, Question, Resolver, ResolverConfig};
use sip_balancer::{Cluster, Listener, Node, NodeIndex, Order};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use wire::Time;

/// Nothing is believed for less or for longer.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(3_600);
/// After a look-up that came to nothing.
const AGAIN: Duration = Duration::from_secs(5);
/// Services and then hosts, each with the resolver's time limit.
const STAGES: u32 = 2;

/// A name.
#[derive(Debug)]
struct Named {
    written: BalanceNode,
    /// The nodes that it stands for.
    nodes: Vec<Found>,
    /// When it is looked up again, or by when the look-up that is under way must have ended, and its number.
    next: Time,
    lookup: Option<(u32, Lookup)>,
    /// Why the last one came to nothing.
    failed: Option<String>,
}

/// All names.
#[derive(Debug)]
pub struct Names {
    settings: ResolverConfig,
    resolver: Option<Resolver>,
    answers: (Sender<Answer>, Receiver<Answer>),
    /// Answers that came at once.
    refused: VecDeque<Answer>,
    all: Vec<Named>,
    number: u32,
}

impl Names {
    /// None. These settings are those of the resolver that is started with the first one.
    pub fn new(settings: ResolverConfig) -> Names {
        Names {
            settings,
            resolver: None,
            answers: channel(),
            refused: VecDeque::new(),
            all: Vec::new(),
            number: 0,
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What is wrong, for people.
    pub fn alarms(&self) -> impl Iterator<Item = String> {
        let one = |named: &Named| {
            Some(format!("nodes of {} stay as they are: {}", named.written, named.failed.as_ref()?))
        };
        self.all.iter().filter_map(one)
    }

    /// Whether a name stands for a node.
    pub fn has(&self, node: &Node) -> bool {
        self.all.iter().any(|named| named.has(node))
    }

    /// Those of a list are the names from now on; they are looked up at once. Says which nodes no name stands
    /// for any more.
    ///
    /// # Errors
    /// If the resolver cannot be started.
    pub fn set(&mut self, now: Time, list: &[BalanceNode]) -> io::Result<Vec<Node>> {
        let named = |node: &&BalanceNode| matches!(node.place, NodePlace::Name(_));
        let wanted: Vec<&BalanceNode> = list.iter().filter(named).collect();
        if self.resolver.is_none() && !wanted.is_empty() {
            let sender = self.answers.0.clone();
            let deliver = move |answer| {
                // The other end is there as long as the resolver.
                let _ = sender.send(answer);
            };
            self.resolver = Some(Resolver::start(&self.settings, deliver)?);
        }
        let mut before = std::mem::take(&mut self.all);
        for written in wanted {
            let known = before.iter().position(|named| named.written == *written);
            let fresh = || Named {
                written: written.clone(),
                nodes: Vec::new(),
                next: now,
                lookup: None,
                failed: None,
            };
            self.all.push(known.map_or_else(fresh, |at| before.swap_remove(at)));
        }
        // Whoever orders a reload wants to know what the DNS says by now.
        self.all.iter_mut().filter(|named| named.lookup.is_none()).for_each(|named| named.next = now);
        // What is written otherwise now has the nodes that it had, until the DNS has answered.
        for named in self.all.iter_mut().filter(|named| named.nodes.is_empty()) {
            let alike = |old: &Named| old.host().is_some() && old.host() == named.host();
            if let Some(at) = before.iter().position(alike) {
                named.nodes = before.swap_remove(at).nodes;
            }
        }
        let gone = before.into_iter().flat_map(|named| named.nodes).map(|found| found.node);
        Ok(gone.filter(|node| !self.has(node)).collect())
    }

    /// Puts questions, takes answers, and changes nodes by them. `listed`: a node that is there by its
    /// address stays.
    pub fn tick(
        &mut self,
        now: Time,
        cluster: &Cluster,
        listeners: &[Listener],
        listed: impl Fn(&Node) -> bool,
    ) {
        for at in 0..self.all.len() {
            let Some(named) = self.all.get(at).filter(|named| named.next <= now) else { continue };
            match named.lookup {
                None => self.begin(now, at, listeners),
                // Who was to answer is not there any more.
                Some(_) => {
                    let result = Err("the resolver does not answer");
                    self.done(now, at, result, cluster, (listeners, &listed));
                }
            }
        }
        while let Some(answer) = self.refused.pop_front().or_else(|| self.answers.1.try_recv().ok()) {
            if let Some((at, result)) = self.take(answer) {
                self.done(now, at, result, cluster, (listeners, &listed));
            }
        }
    }

    /// Waits until all of them have been looked up once, be it in vain, but no longer than this.
    pub fn settle(
        &mut self,
        now: impl Fn() -> Time,
        patience: Duration,
        cluster: &Cluster,
        (listeners, listed): (&[Listener], impl Fn(&Node) -> bool),
    ) {
        let end = now() + patience;
        loop {
            self.tick(now(), cluster, listeners, &listed);
            let open = |named: &Named| named.nodes.is_empty() && named.failed.is_none();
            let left = end.since(now());
            if !self.all.iter().any(open) || left.is_zero() {
                return;
            }
            match self.answers.1.recv_timeout(left) {
                Ok(answer) => self.refused.push_back(answer),
                Err(_) => return,
            }
        }
    }

    fn begin(&mut self, now: Time, at: usize, listeners: &[Listener]) {
        let Some(named) = self.all.get_mut(at) else { return };
        let NodePlace::Name(place) = &named.written.place else { return };
        let has = |v4: bool| listeners.iter().any(|l| l.address.is_ipv4() == v4);
        let wanted = Wanted {
            host: place.host.clone(),
            port: place.port,
            transport: named.written.transport,
            weight: named.written.weight,
            families: (has(true), has(false)),
        };
        self.number = self.number.wrapping_add(1);
        named.lookup = Some((self.number, Lookup::new(wanted)));
        named.next = now + STAGES * self.settings.timeout + AGAIN;
        self.put(at);
    }

    /// Puts the questions of a look-up.
    fn put(&mut self, at: usize) {
        let Some((number, lookup)) = self.all.get(at).and_then(|named| named.lookup.as_ref()) else { return };
        let id = |question: u8| u64::from(*number) << 8 | u64::from(question);
        for (question, kind, name) in lookup.questions() {
            let question = Question { worker: 0, id: id(question), kind, name: name.into() };
            let refused = self.resolver.as_ref().and_then(|resolver| resolver.ask(question).err());
            self.refused.extend(refused);
        }
    }

    /// An answer to one of the questions. Says what came of its look-up, if that has ended.
    fn take(&mut self, answer: Answer) -> Option<(usize, Result<End, &'static str>)> {
        let of = |named: &Named| {
            named.lookup.as_ref().is_some_and(|(number, _)| u64::from(*number) == answer.question.id >> 8)
        };
        let at = self.all.iter().position(of)?;
        let (_, lookup) = self.all.get_mut(at)?.lookup.as_mut()?;
        if !lookup.answer(answer.question.id as u8, answer.outcome, answer.ttl) {
            return None;
        }
        let end = lookup.go_on();
        match end {
            Some(result) => Some((at, result)),
            None => {
                self.put(at);
                None
            }
        }
    }

    /// A look-up has ended.
    fn done(
        &mut self,
        now: Time,
        at: usize,
        result: Result<End, &'static str>,
        cluster: &Cluster,
        (listeners, listed): (&[Listener], &impl Fn(&Node) -> bool),
    ) {
        let Some(named) = self.all.get_mut(at) else { return };
        named.lookup = None;
        let name = named.written.to_string();
        let end = match result {
            Ok(end) => end,
            Err(why) => {
                named.next = now + AGAIN;
                return named.fails(Some(why.to_owned()));
            }
        };
        let missing = (!end.whole).then(|| "the DNS does not answer for all of its hosts".to_owned());
        let mut no_place: Option<String> = None;
        let ttl = Duration::from_secs(end.ttl.into()).clamp(SHORTEST, LONGEST);
        named.next = now + if end.whole { ttl } else { AGAIN };
        let before = std::mem::take(&mut named.nodes);
        let mut after = end.nodes;
        if !end.whole {
            let missing = |old: &&Found| !after.iter().any(|new| new.node.id() == old.node.id());
            let missing: Vec<Found> = before.iter().filter(missing).copied().collect();
            after.extend(missing);
        }
        named.nodes.clone_from(&after);
        let prove = named.written.name_to_prove();
        let proof = |found: &Found| (found.node, build::proof(found.node.transport, prove.clone()));
        let proofs: Vec<_> = after.iter().filter(|new| !listed(&new.node)).map(proof).collect();
        cluster.names().prove(&proofs, |id| cluster.by_id(id).is_some());
        for new in &after {
            let old = before.iter().find(|old| old.node.id() == new.node.id());
            let Err(why) = self.enter(now, cluster, (listeners, listed), (old, new), &name) else { continue };
            // There may be room for it by the next time.
            // Of several always the same one, in whatever order they come.
            no_place = Some(no_place.map_or(why.clone(), |other| other.min(why)));
            if let Some(named) = self.all.get_mut(at) {
                named.nodes.retain(|found| found.node.id() != new.node.id());
                named.next = now + AGAIN;
            }
        }
        if let Some(named) = self.all.get_mut(at) {
            named.fails(no_place.or(missing));
        }
        for old in before.iter().filter(|old| !self.has(&old.node) && !listed(&old.node)) {
            remove(now, cluster, &old.node, &name);
        }
    }

    /// A node that a name stands for: new, or perhaps with another share; one that is there by its address
    /// has its own. An error: the cluster has no place for it.
    fn enter(
        &self,
        now: Time,
        cluster: &Cluster,
        (listeners, listed): (&[Listener], &impl Fn(&Node) -> bool),
        (old, new): (Option<&Found>, &Found),
        name: &str,
    ) -> Result<(), String> {
        let there = cluster.at(new.node.address).filter(|at| cluster.order(*at) != Order::Removed);
        let shown = new.node.name();
        match (old, there) {
            (Some(old), Some(at)) if old != new && !listed(&new.node) => {
                cluster.change(at, &new.node);
                cluster.set_rank(at, new.rank);
                log_events::balancer::node_changed(&shown, name, new.node.weight, new.rank);
            }
            // As it was; taken out by an order; or there by its address.
            (Some(_), _) | (None, Some(_)) => {}
            (None, None) => {
                let Node { address, transport, weight } = new.node;
                let written =
                    BalanceNode { place: NodePlace::Address(address), transport, verify: None, weight };
                let node = match build::node(&written, listeners) {
                    Ok(node) => node,
                    Err(error) => {
                        log_events::balancer::node_not_taken(name, &error);
                        return Ok(());
                    }
                };
                cluster
                    .add_ranked(now, &node, new.rank)
                    .map_err(|why| build::not_added(cluster, &node, why))?;
                log_events::balancer::node_of_name_added(&shown, name, weight, new.rank);
            }
        }
        Ok(())
    }
}

impl Named {
    /// What is wrong with its nodes from now on. It is logged when it changes, and not at every look-up.
    fn fails(&mut self, why: Option<String>) {
        if let Some(why) = why.as_deref().filter(|why| self.failed.as_deref() != Some(why)) {
            log_events::balancer::nodes_unchanged(&self.written, why);
        }
        self.failed = why;
    }

    /// The host whose nodes these are.
    fn host(&self) -> Option<&str> {
        match &self.written.place {
            NodePlace::Name(name) => Some(&name.host),
            NodePlace::Address(_) => None,
        }
    }

    fn has(&self, node: &Node) -> bool {
        self.nodes.iter().any(|found| found.node.id() == node.id())
    }
}

/// Takes a node out of the list that a name does not stand for any more.
pub fn remove(now: Time, cluster: &Cluster, node: &Node, name: &str) -> Option<NodeIndex> {
    let at = cluster.at(node.address).filter(|at| cluster.order(*at) != Order::Removed)?;
    cluster.remove(now, at);
    log_events::balancer::node_of_name_removed(&node.name(), name);
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use resolver::{Failure, Outcome};

    fn listeners() -> Vec<Listener> {
        vec![Listener::new(wire::Transport::Udp, "192.0.2.100:5060".parse().unwrap(), None)]
    }

    struct Bench {
        names: Names,
        cluster: std::sync::Arc<Cluster>,
        now: Time,
    }

    impl Bench {
        /// Names without a resolver: what is asked is answered by [`Bench::answer`].
        fn new(written: &[&str]) -> Bench {
            let mut names = Names::new(ResolverConfig::default());
            let now = Time::from_secs(100);
            for written in written {
                names.all.push(Named {
                    written: BalanceNode::parse(written).unwrap(),
                    nodes: Vec::new(),
                    next: now,
                    lookup: None,
                    failed: None,
                });
            }
            Bench { names, cluster: Cluster::new(Vec::new(), 1), now }
        }

        /// Everything that is asked has these addresses, or no answer.
        fn answer(&mut self, seconds: u64, answer: Option<&[u8]>) {
            self.now = self.now + Duration::from_secs(seconds);
            self.names.tick(self.now, &self.cluster, &listeners(), |node| node.address.port() == 9);
            for _ in 0..2 {
                let mut all = Vec::new();
                for (number, lookup) in self.names.all.iter().filter_map(|named| named.lookup.as_ref()) {
                    for (question, kind, name) in lookup.questions() {
                        let id = u64::from(*number) << 8 | u64::from(question);
                        let question = Question { worker: 0, id, kind, name: name.into() };
                        let outcome = match (kind, answer) {
                            (_, None) => Outcome::Failed(Failure::Server),
                            (resolver::Kind::A, Some(list)) => {
                                Outcome::A(list.iter().map(|n| [192, 0, 2, *n].into()).collect())
                            }
                            _ => Outcome::Nothing,
                        };
                        all.push(Answer { question, outcome, ttl: 60 });
                    }
                }
                self.names.refused.extend(all);
                self.names.tick(self.now, &self.cluster, &listeners(), |node| node.address.port() == 9);
            }
        }

        /// The nodes that are in the list, by their last octet.
        fn list(&self) -> Vec<String> {
            let there = |(at, _): &(NodeIndex, Node)| self.cluster.order(*at) != Order::Removed;
            let mut all: Vec<String> =
                self.cluster.members().filter(there).map(|(_, node)| node.name()).collect();
            all.sort_unstable();
            all
        }
    }

    #[test]
    fn nodes_come_and_go_with_their_records() {
        let mut bench = Bench::new(&["sip:cluster.test"]);
        bench.answer(0, Some(&[1, 2]));
        assert_eq!(bench.list(), ["192.0.2.1:5060", "192.0.2.2:5060"]);
        let one = bench.cluster.at("192.0.2.1:5060".parse().unwrap()).unwrap();
        bench.cluster.set_order(one, Order::Drain);
        // It is not asked before its time.
        bench.answer(59, Some(&[3]));
        assert_eq!(bench.list(), ["192.0.2.1:5060", "192.0.2.2:5060"]);
        bench.answer(1, Some(&[1, 3]));
        assert_eq!(bench.list(), ["192.0.2.1:5060", "192.0.2.3:5060"]);
        assert_eq!(bench.cluster.order(one), Order::Drain, "what was ordered stays");
        // One that an operator has removed does not come back by itself, and one that is back does.
        bench.cluster.remove(bench.now, one);
        bench.answer(60, Some(&[1, 2, 3]));
        assert_eq!(bench.list(), ["192.0.2.2:5060", "192.0.2.3:5060"]);
    }

    #[test]
    fn who_found_no_room_is_added_when_there_is_some() {
        let mut bench = Bench::new(&["sip:cluster.test", "sip:more.test:7"]);
        for n in 0..250u8 {
            let node = Node::new(([198, 51, 100, n], 5060).into());
            bench.cluster.add(bench.now, &node).unwrap();
        }
        bench.answer(0, Some(&[1, 2, 3, 4]));
        assert_eq!(bench.list().len(), 256);
        assert_eq!(bench.names.alarms().count(), 1);
        for n in 0..2u8 {
            let at = bench.cluster.at(([198, 51, 100, n], 5060).into()).unwrap();
            bench.cluster.remove(bench.now, at);
        }
        // Places of what was removed are free after a while.
        bench.answer(120, Some(&[1, 2, 3, 4]));
        assert_eq!((bench.list().len(), bench.names.alarms().count()), (256, 0));
        assert_eq!(bench.list().iter().filter(|node| node.starts_with("192.0.2.")).count(), 8);
    }

    /// Counts what is logged as a warning.
    #[derive(Clone, Default)]
    struct Warnings(std::sync::Arc<std::sync::atomic::AtomicUsize>);

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
            *of.level() == tracing::Level::WARN
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
            tracing::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }

        fn enter(&self, _: &tracing::Id) {}
        fn exit(&self, _: &tracing::Id) {}
    }

    #[test]
    fn a_node_that_cannot_be_added_is_logged_once_and_says_why() {
        // Two whose names in tokens are the same.
        let mut seen = std::collections::BTreeMap::new();
        let all = (1..=250u8).flat_map(|n| (1_024..3_000u16).map(move |port| (n, port)));
        let (one, (n, port)) = all
            .filter_map(|(n, port)| {
                let node = Node::new(([192, 0, 2, n], port).into());
                Some((seen.insert(node.id(), node)?, (n, port)))
            })
            .next()
            .expect("two of half a million");
        let mut bench = Bench::new(&[&format!("sip:cluster.test:{port}")]);
        bench.cluster.add(bench.now, &one).expect("room");
        let warnings = Warnings::default();
        tracing::subscriber::with_default(warnings.clone(), || {
            bench.answer(0, Some(&[n]));
            (0..5).for_each(|_| bench.answer(5, Some(&[n])));
        });
        assert_eq!(warnings.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        let alarms: Vec<String> = bench.names.alarms().collect();
        assert!(alarms.len() == 1 && alarms[0].contains("look the same in tokens"), "{alarms:?}");
    }

    #[test]
    fn a_node_that_is_there_by_its_address_keeps_its_own_share() {
        let mut bench = Bench::new(&["sip:c.test:9;weight=2"]);
        let node = Node { weight: 7, ..Node::new("192.0.2.1:9".parse().unwrap()) };
        let at = bench.cluster.add(bench.now, &node).unwrap();
        bench.answer(0, Some(&[1]));
        bench.names.all[0].written = BalanceNode::parse("sip:c.test:9;weight=3").unwrap();
        bench.answer(60, Some(&[1]));
        assert_eq!(bench.cluster.weight(at), 7);
    }

    #[test]
    fn a_look_up_that_nobody_ends_is_begun_again() {
        let mut bench = Bench::new(&["sip:cluster.test"]);
        // Nobody answers: there is no resolver.
        bench.names.tick(bench.now, &bench.cluster, &listeners(), |_| false);
        bench.now = bench.now + Duration::from_secs(60);
        bench.names.tick(bench.now, &bench.cluster, &listeners(), |_| false);
        assert_eq!(bench.names.alarms().count(), 1);
        bench.answer(5, Some(&[1]));
        assert_eq!((bench.list().len(), bench.names.alarms().count()), (1, 0));
    }

    #[test]
    fn without_an_answer_everything_stays() {
        let mut bench = Bench::new(&["sip:cluster.test"]);
        bench.answer(0, Some(&[1, 2]));
        for answer in [None, Some(&[][..])] {
            bench.answer(60, answer);
            assert_eq!(bench.list().len(), 2);
            assert_eq!(bench.names.alarms().count(), 1);
        }
        bench.answer(5, Some(&[2]));
        assert_eq!((bench.list(), bench.names.alarms().count()), (vec!["192.0.2.2:5060".to_owned()], 0));
    }

    #[test]
    fn node_of_another_name_stays() {
        let mut bench = Bench::new(&["sip:a.test", "sip:b.test", "sip:c.test:9"]);
        bench.answer(0, Some(&[1, 100]));
        assert_eq!(bench.list(), ["192.0.2.100:9", "192.0.2.1:5060", "192.0.2.1:9"], "but not ourselves");
        bench.names.all.swap_remove(1);
        bench.answer(60, Some(&[2]));
        // One of them is there by its address.
        assert!(bench.list().contains(&"192.0.2.1:9".to_owned()));
        assert!(!bench.list().contains(&"192.0.2.1:5060".to_owned()));
    }

    #[test]
    fn a_name_that_is_written_otherwise_keeps_its_nodes_until_the_dns_answers() {
        let mut bench = Bench::new(&["sip:a.test", "sip:b.test:7"]);
        bench.answer(0, Some(&[1]));
        bench.answer(0, Some(&[2]));
        let list =
            ["sip:a.test:9", "sip:b.test:7;weight=3"].map(|written| BalanceNode::parse(written).unwrap());
        assert_eq!(bench.names.set(bench.now, &list).unwrap(), []);
        let kept: usize = bench.names.all.iter().map(|named| named.nodes.len()).sum();
        assert!(kept > 0 && bench.names.all.iter().all(|named| named.next <= bench.now));
    }

    #[test]
    fn names_of_another_list_are_looked_up_at_once_and_others_forgotten() {
        let mut bench = Bench::new(&["sip:a.test", "sip:b.test:7"]);
        bench.answer(0, Some(&[1]));
        let settings = ResolverConfig { hosts: resolver::HostsFile::None, ..ResolverConfig::default() };
        bench.names.settings =
            ResolverConfig { nameservers: vec!["192.0.2.53:53".parse().unwrap()], ..settings };
        let list = ["sip:a.test", "sip:c.test"].map(|written| BalanceNode::parse(written).unwrap());
        let gone = bench.names.set(bench.now, &list).unwrap();
        assert_eq!(gone.iter().map(Node::name).collect::<Vec<_>>(), ["192.0.2.1:7"]);
        // All of them: a reload asks the DNS anew.
        assert_eq!(bench.names.all.iter().filter(|named| named.next <= bench.now).count(), 2);
    }
}
