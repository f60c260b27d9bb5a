//! Whole calls in bytes, over datagrams that are lost and doubled and streams that break, while nodes stop,
//! come and go, and forget what they knew, now and then all of them for longer than an INVITE waits: in the
//! end nothing is left, and until then every counter is what the records say. Each INVITE has one final
//! response, and what was cancelled goes to no other node.
//!
//! `FLOWS=1000000 cargo test --release -p sip-balancer --test lossy` makes a million calls.

#[allow(dead_code, reason = "each of the tests needs a part of it")]
mod common;

use common::*;
use sip_balancer::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::{Time, Transport};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let n0 = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n1 = (n0 ^ (n0 >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (n1 ^ (n1 >> 31)) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

enum Act {
    Call(u64),
    FromCaller { tcp: bool, text: String },
    AtNode(Sent),
    FromNode { request: Sent, status: &'static str },
    Lost(Sent),
    Stop(u16),
    Start(u16),
    Remove(u16),
    Add(u16),
}

const NODES: u16 = 4;

struct Sim {
    world: World,
    random: Random,
    queue: BTreeMap<(u64, u64), Act>,
    order: u64,
    /// By how many a node is kept from running.
    stopped: [u32; NODES as usize],
    nodes: Vec<Node>,
    /// INVITEs that a node knows, by node and branch, with what it is going to say and what it has said: as
    /// its server transaction does, it answers a repetition as before.
    seen: BTreeMap<(String, String), (&'static str, Option<&'static str>)>,
    answered: u64,
    invites: BTreeMap<String, Invite>,
}

/// What was to be seen of a call's INVITE.
#[derive(Default, Debug)]
struct Invite {
    /// Who got it.
    nodes: BTreeSet<String>,
    cancelled: bool,
    /// Its caller, over a stream, has had something provisional.
    rang: bool,
    /// Final responses that left for the caller, by who made them.
    finals: BTreeSet<String>,
}

impl Sim {
    fn now(&self) -> u64 {
        self.world.now.as_micros() / 1_000
    }

    fn after(&mut self, ms: u64, act: Act) {
        self.order += 1;
        self.queue.insert((self.now() + ms, self.order), act);
    }

    fn node_of(&self, to: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name() == to)
    }

    /// What the balancer sends is on its way.
    fn carry(&mut self, all: Vec<Sent>) {
        for sent in all {
            let lossy = sent.over == Transport::Udp;
            let node = self.node_of(&sent.to);
            let dead = node.is_some_and(|at| self.stopped[at] > 0);
            self.check(&sent, node.is_some());
            let broken = self.random.chance(if lossy { 8 } else { 4 }) || dead;
            let wait = 1 + self.random.below(40);
            if broken {
                if !lossy && sent.token != 0 {
                    self.after(wait, Act::Lost(sent));
                }
                continue;
            }
            for _ in 0..1 + u64::from(lossy && self.random.chance(8)) {
                match node {
                    Some(_) => self.after(wait, Act::AtNode(sent.clone())),
                    None => self.at_caller(&sent),
                }
            }
        }
    }

    /// What holds of all that the balancer sends.
    fn check(&mut self, sent: &Sent, to_node: bool) {
        let (Some(call), Some(cseq)) = (sent.header("Call-ID"), sent.header("CSeq")) else { return };
        if !cseq.ends_with(" INVITE") {
            return;
        }
        let invite = self.invites.entry(call.to_owned()).or_default();
        if to_node {
            let new = invite.nodes.insert(sent.to.clone());
            assert!(!(new && invite.cancelled), "{call} was cancelled: {invite:?}");
            return;
        }
        let (start, to) = (sent.start(), sent.header("To").unwrap_or(""));
        if start.starts_with("SIP/2.0 1") {
            invite.rang |= sent.over == Transport::Tcp;
            return;
        }
        // Of what nobody ever had nothing is known: it is refused as often as it comes.
        if invite.nodes.is_empty() {
            return;
        }
        let tag = to.split(";tag=").nth(1).unwrap_or("");
        let who = if tag.starts_with("node") { tag.to_owned() } else { start.to_owned() };
        invite.finals.insert(who);
        assert!(invite.finals.len() < 2, "{call} is answered twice: {invite:?}");
    }

    fn caller_sends(&mut self, ms: u64, tcp: bool, text: &str) {
        let text = if tcp { text.replace("SIP/2.0/UDP", "SIP/2.0/TCP") } else { text.to_owned() };
        let often = if tcp { 1 } else { 1 + self.random.below(4) };
        for wait in [0, 500, 1_500, 3_500].into_iter().take(often as usize) {
            if tcp || !self.random.chance(8) {
                self.after(ms + wait, Act::FromCaller { tcp, text: text.clone() });
            }
        }
    }

    fn call(&mut self, n: u64) {
        let (name, tcp) = (format!("call{n}"), n.is_multiple_of(2));
        match self.random.below(8) {
            0 => self.caller_sends(0, tcp, &request("MESSAGE", &name, 1, &name, "", "")),
            1 => self.caller_sends(0, tcp, &request("REGISTER", &name, 1, &name, "", "")),
            kind => {
                let more =
                    if n.is_multiple_of(5) { format!("X: {}\r\n", "x".repeat(1_000)) } else { String::new() };
                self.caller_sends(0, tcp, &request("INVITE", &name, 1, &name, "", &more));
                if kind == 2 {
                    let wait = self.random.below(5_000);
                    self.caller_sends(wait, tcp, &request("CANCEL", &name, 1, &name, "", ""));
                }
            }
        }
    }

    /// A response has come to the caller.
    fn at_caller(&mut self, sent: &Sent) {
        let (tcp, status) =
            (sent.over == Transport::Tcp, sent.start().split(' ').nth(1).unwrap_or("").to_owned());
        let (Some(call), Some(cseq)) = (sent.header("Call-ID"), sent.header("CSeq")) else { return };
        if !cseq.ends_with("INVITE") || status.as_str() < "200" {
            return;
        }
        let tag = sent.header("To").and_then(|to| to.split(";tag=").nth(1)).map(|tag| format!(";tag={tag}"));
        let tag = tag.unwrap_or_default();
        if status.as_str() >= "300" {
            return self.caller_sends(5, tcp, &request("ACK", call, 1, call, &tag, ""));
        }
        self.answered += 1;
        let routes: Vec<&str> = sent.text.lines().filter_map(|l| l.strip_prefix("Record-")).collect();
        let routes: String = routes.iter().rev().map(|route| format!("{route}\r\n")).collect();
        self.caller_sends(5, tcp, &request("ACK", call, 1, &format!("{call}a"), &tag, &routes));
        if self.random.chance(90) {
            let hold = self.random.below(30_000);
            self.caller_sends(hold, tcp, &request("BYE", call, 2, &format!("{call}b"), &tag, &routes));
        }
    }

    fn at_node(&mut self, request: Sent) {
        if self.node_of(&request.to).is_none_or(|at| self.stopped[at] > 0) {
            return;
        }
        let key = (request.to.clone(), request.branch().to_owned());
        let method = request.start().split(' ').next().unwrap_or("").to_owned();
        let wait = 1 + self.random.below(100);
        match method.as_str() {
            "INVITE" => {
                let finals = ["200 OK", "200 OK", "200 OK", "486 Busy Here", "503 Service Unavailable", ""];
                let draw = finals[self.random.below(6) as usize];
                let &mut (status, _) = self.seen.entry(key).or_insert((draw, None));
                self.after(wait, Act::FromNode { request: request.clone(), status: "100 Trying" });
                self.after(wait + 20, Act::FromNode { request: request.clone(), status: "180 Ringing" });
                if !status.is_empty() {
                    let wait = wait + self.random.below(8_000);
                    self.after(wait, Act::FromNode { request, status });
                }
            }
            "ACK" => {}
            "CANCEL" if !self.seen.contains_key(&key) => {
                self.after(wait, Act::FromNode { request, status: "481 No Such Transaction" });
            }
            "CANCEL" => {
                let mut invite = request.clone();
                invite.text = invite.text.replace("CANCEL", "INVITE");
                self.after(wait, Act::FromNode { request, status: "200 OK" });
                self.after(wait + 5, Act::FromNode { request: invite, status: "487 Request Terminated" });
            }
            _ if self.random.chance(5) => {}
            _ => self.after(wait, Act::FromNode { request, status: "200 OK" }),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Call(n) => self.call(n),
            Act::FromCaller { tcp, text } => {
                let sent = match tcp {
                    true => self.world.receive_tcp("198.51.100.7:40001", &text),
                    false => self.world.receive(CALLER, &text),
                };
                self.carry(sent);
                let call = text.lines().find_map(|line| line.strip_prefix("Call-ID: ")).unwrap_or("");
                if let Some(invite) = self.invites.get_mut(call).filter(|_| text.starts_with("CANCEL ")) {
                    // One that nobody knows yet is answered with 481.
                    invite.cancelled |= !invite.nodes.is_empty();
                }
            }
            Act::AtNode(request) => self.at_node(request),
            Act::FromNode { request, status } => self.node_says(&request, status),
            Act::Lost(message) => {
                let sent = match self.random.chance(50) {
                    true => self.world.lost(&message),
                    false => self.world.cut_off(&message),
                };
                self.carry(sent);
            }
            Act::Stop(at) => self.stopped[usize::from(at)] += 1,
            Act::Start(at) => {
                let at = usize::from(at);
                self.stopped[at] -= 1;
                if self.stopped[at] == 0 && self.random.chance(50) {
                    // It is started anew, and has forgotten what it knew. A caller that has not heard of its
                    // answer may have it asked once more, and gets another one.
                    let name = self.nodes[at].name();
                    self.seen.retain(|(node, _), _| *node != name);
                }
            }
            Act::Remove(at) => self.world.cluster.remove(self.world.now, NodeIndex(at)),
            Act::Add(at) => {
                let node = self.nodes[usize::from(at)];
                assert_ne!(self.world.cluster.add(self.world.now, &node), Err(NotAdded::Full));
            }
        }
    }

    /// A node answers, if it runs: an INVITE once for good.
    fn node_says(&mut self, request: &Sent, mut status: &'static str) {
        let Some(at) = self.node_of(&request.to).filter(|at| self.stopped[*at] == 0) else { return };
        let key = (request.to.clone(), request.branch().to_owned());
        if request.start().starts_with("INVITE ") {
            match self.seen.get_mut(&key) {
                // It was started anew meanwhile.
                None => return,
                Some((_, Some(_))) if status < "2" => return,
                Some((_, None)) if status < "2" => {}
                Some((_, said)) => status = said.get_or_insert(status),
            }
        }
        if request.over == Transport::Tcp || !self.random.chance(8) {
            let text = response(request, status, "Contact: <sip:bob@192.0.2.50>\r\n");
            let text = text.replace(";tag=callee", &format!(";tag=node{at}"));
            let sent = match request.over {
                Transport::Udp => self.world.receive(&request.to, &text),
                _ => self.world.receive_tcp(&request.to, &text),
            };
            self.carry(sent);
        }
    }

    /// Until this time.
    fn run(&mut self, until: u64) {
        let mut steps = 0u64;
        while self.now() < until {
            let next = self.queue.first_key_value().map_or(until, |((at, _), _)| *at).min(until);
            // Deadlines in between, as a worker keeps them.
            let due = wire::Machine::next_deadline(&self.world.balancer)
                .map_or(next, |t| t.as_micros().div_ceil(1_000));
            let to = due.clamp(self.now() + 1, next.max(self.now() + 1));
            let sent = self.world.pass(Duration::from_millis(to - self.now()));
            self.carry(sent);
            while self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= self.now()) {
                let Some((_, act)) = self.queue.pop_first() else { break };
                self.act(act);
            }
            steps += 1;
            if steps.is_multiple_of(512) {
                assert_eq!(self.world.balancer.report(true).exact, Some(true));
            }
        }
    }
}

fn simulate(seed: u64, calls: u64) -> Sim {
    let mut list = nodes(NODES as u8);
    list[1].transport = Some(Transport::Tcp);
    list[2].transport = Some(Transport::Udp);
    let rules = Rules {
        session_timeout: Duration::from_secs(300),
        ring_timeout: Duration::from_secs(60),
        ..Rules::default()
    };
    let probing = Probing::default();
    let world = World::with(list.clone(), keys(2), Settings { rules, probing, ..streams() });
    let mut sim = Sim {
        world,
        random: Random(seed),
        queue: BTreeMap::new(),
        order: 0,
        stopped: [0; NODES as usize],
        nodes: list,
        seen: BTreeMap::new(),
        answered: 0,
        invites: BTreeMap::new(),
    };
    for n in 0..calls {
        let at = sim.random.below(calls * 40 + 1);
        sim.after(at, Act::Call(n));
    }
    for _ in 0..=calls / 40 {
        let (at, long) = (sim.random.below(calls * 40 + 1), sim.random.below(10_000));
        let node = sim.random.below(u64::from(NODES)) as u16;
        let (begin, end) = match sim.random.chance(60) {
            true => (Act::Stop(node), Act::Start(node)),
            false => (Act::Remove(node), Act::Add(node)),
        };
        sim.after(at, begin);
        sim.after(at + long, end);
    }
    if sim.random.chance(50) {
        // All of them, and each comes back when it likes.
        let at = sim.random.below(calls * 40 + 1);
        for node in 0..NODES {
            let (early, long) = (sim.random.below(3_000), 70_000 + sim.random.below(30_000));
            sim.after(at + early, Act::Stop(node));
            sim.after(at + long, Act::Start(node));
        }
    }
    let begin = sim.now();
    sim.run(begin + calls * 40 + 60_000);
    // Long enough for what nobody ended to be given up and forgotten.
    sim.run(begin + calls * 40 + 600_000);
    let report = sim.world.balancer.report(true);
    assert_eq!(sim.world.load(), (0, 0), "seed {seed}");
    assert_eq!((report.alive, report.ended, report.transactions, report.kept), (0, 0, 0, 0), "seed {seed}");
    assert_eq!(report.exact, Some(true), "seed {seed}");
    let held: u32 = sim.world.cluster.indexes().map(|at| sim.world.cluster.held(at)).sum();
    assert_eq!(held, 0, "seed {seed}");
    assert!(sim.world.now > Time::ZERO);
    let lost = sim.invites.iter().find(|(_, invite)| invite.rang && invite.finals.is_empty());
    assert!(lost.is_none() && report.unkept == 0, "seed {seed}: {lost:?}");
    sim
}

#[test]
fn nothing_is_left_of_calls_over_lossy_networks() {
    let wanted: u64 = std::env::var("FLOWS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let each = 250;
    let (mut retried, mut withdrawn, mut repeated, mut answered) = (0, 0, 0, 0);
    let mut refused = BTreeMap::<String, u32>::new();
    for seed in 0..wanted.div_ceil(each) {
        let sim = simulate(seed, each);
        let report = sim.world.balancer.report(false);
        retried += report.events.retried;
        withdrawn += report.counts.withdrawn;
        repeated += report.counts.repeated;
        answered += sim.answered;
        let own =
            sim.invites.values().flat_map(|invite| &invite.finals).filter(|who| !who.starts_with("node"));
        own.for_each(|who| *refused.entry(who.clone()).or_default() += 1);
    }
    for start in ["503 Service Unavailable", "487 Request Terminated", "408 Request Timeout"] {
        assert!(refused.contains_key(&format!("SIP/2.0 {start}")), "{start}: {refused:?}");
    }
    println!(
        "{wanted} calls, {answered} answered: {retried} requests given to another node, {repeated} repeated, \
         {withdrawn} withdrawn; nothing left, every counter zero"
    );
    // What is tested here has happened.
    assert!(
        retried > 0 && withdrawn > 0 && repeated > 0 && answered > wanted / 4,
        "{retried} {withdrawn} {repeated} {answered}"
    );
}
