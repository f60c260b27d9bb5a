//! The load balancer in front of real servers and generators.

use live::{
    Answer, Beside, Link, Msg, Req, Server, Setup, Via, binary, compare_metrics, eventually, fresh_ip, http,
    run, text, unique,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A running balancer.
struct Balancer {
    beside: Beside,
    ip: Ipv4Addr,
    dir: PathBuf,
    args: Vec<String>,
}

impl Balancer {
    /// In front of these nodes, with further arguments.
    fn start(nodes: &[SocketAddr], more: &[&str]) -> Balancer {
        let ip = fresh_ip();
        let dir = std::env::temp_dir().join(format!("strowger-balance-{}-{ip}", std::process::id()));
        let mut args: Vec<String> = vec!["balance".into()];
        for transport in ["udp", "tcp"] {
            args.extend(["--listen".into(), format!("{transport}:{ip}:5060")]);
        }
        args.extend(["--admin".into(), format!("{ip}:8080"), "--data-dir".into(), dir.display().to_string()]);
        args.extend(nodes.iter().flat_map(|node| ["--node".to_owned(), format!("sip:{node}")]));
        args.extend(more.iter().map(|text| text.to_string()));
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let beside = Beside::start(&words);
        Balancer { beside, ip, dir, args }
    }

    fn restart(&mut self) {
        self.beside.kill();
        self.start_again();
    }

    fn start_again(&mut self) {
        let words: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.beside = Beside::start(&words);
    }

    fn sip(&self) -> SocketAddr {
        (self.ip, 5060).into()
    }

    fn admin(&self) -> SocketAddr {
        (self.ip, 8080).into()
    }

    fn ctl(&self, args: &[&str]) -> Output {
        run([&["ctl"], args, &["--admin", &self.admin().to_string()]].concat())
    }

    fn get(&self, path: &str) -> Answer {
        http(self.admin(), "GET", path)
    }

    /// A metric's value for a label, summed over the others.
    fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.get("/metrics").body;
        let mut lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label)).peekable();
        assert!(lines.peek().is_some(), "no {name} with {label} in\n{text}");
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>() as u64
    }

    fn of(&self, name: &str, node: SocketAddr) -> u64 {
        self.metric(&format!("{name}{{"), &format!("node=\"{node}\""))
    }

    /// Every counter of every node is zero.
    fn is_empty(&self, nodes: &[SocketAddr]) -> bool {
        nodes
            .iter()
            .all(|&n| self.of("strowger_balance_calls", n) + self.of("strowger_balance_transactions", n) == 0)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A generator that answers calls.
fn callee() -> (Beside, SocketAddr) {
    let ip = fresh_ip();
    let beside = Beside::start(&["load", "--quiet", "-sn", "uas", "-i", &ip.to_string(), "-p", "5060"]);
    (beside, (ip, 5060).into())
}

/// A generator makes so many calls through a balancer, and all of them succeed.
fn calls(balancer: &Balancer, count: u32) {
    calls_over(balancer, count, "u1");
}

/// The same over this kind of transport.
fn calls_over(balancer: &Balancer, count: u32, transport: &str) {
    let (ip, target, count) = (fresh_ip().to_string(), balancer.sip().to_string(), count.to_string());
    // A machine that is busy with other tests makes it late; that is not what is tested here.
    let args = [
        "load",
        "--quiet",
        "--lateness",
        "60000",
        "-sn",
        "uac",
        "-t",
        transport,
        "-i",
        &ip,
        &target,
        "-r",
        "100",
        "-m",
        &count,
    ];
    let out = run(args);
    assert!(out.status.success(), "{}", text(&out));
}

#[test]
fn calls_are_spread_and_leave_nothing_behind() {
    let (_one, a) = callee();
    let (_other, b) = callee();
    let balancer = Balancer::start(&[a, b], &["--algorithm", "round-robin", "--workers", "1"]);
    calls(&balancer, 100);
    // INVITE and BYE of each call: in turn is in turn, and a BYE goes where its INVITE went.
    for node in [a, b] {
        assert_eq!(balancer.of("strowger_balance_assigned_total", node), 100, "{node}");
    }
    assert!(balancer.is_empty(&[a, b]));
    // The others in turn, while it runs. What is hashed needs not be even.
    for algorithm in ["tlwl", "tjsq", "cjsq", "hash", "fnv-hash", "rwma", "maglev"] {
        let out = balancer.ctl(&["algorithm", algorithm]);
        assert!(
            out.status.success() && text(&out).contains(&format!("algorithm: {algorithm}\n")),
            "{}",
            text(&out)
        );
        calls(&balancer, 20);
        assert!(balancer.is_empty(&[a, b]), "{algorithm}");
    }
    let all = [a, b].map(|node| balancer.of("strowger_balance_assigned_total", node));
    assert_eq!(all.iter().sum::<u64>(), 200 + 7 * 40);
    let refused = balancer.ctl(&["algorithm", "best"]);
    assert!(!refused.status.success() && text(&refused).contains("no algorithm \"best\"; one of cjsq,"));
}

/// A generator that answers calls over TCP.
fn callee_over_tcp() -> (Beside, SocketAddr) {
    let ip = fresh_ip();
    let args = ["load", "--quiet", "-sn", "uas", "-t", "t1", "-i", &ip.to_string(), "-p", "5060"];
    let beside = Beside::start(&args);
    (beside, (ip, 5060).into())
}

#[test]
fn calls_over_datagrams_and_streams_on_either_side() {
    let (_udp, a) = callee();
    let (_tcp, b) = callee_over_tcp();
    let over_tcp = format!("sip:{b};transport=tcp");
    let more = ["--node", &over_tcp, "--algorithm", "round-robin", "--workers", "2"];
    let balancer = Balancer::start(&[a], &more);
    for transport in ["u1", "t1"] {
        calls_over(&balancer, 40, transport);
    }
    for node in [a, b] {
        let given = balancer.of("strowger_balance_assigned_total", node);
        assert!((60..=100).contains(&given), "{node}: {given}");
    }
    assert!(balancer.is_empty(&[a, b]));
    let audit = text(&balancer.ctl(&["audit"]));
    assert!(audit.contains("every counter is what the records say; 2 workers"), "{audit}");
}

#[test]
fn a_stopped_node_fails_no_call_and_comes_back() {
    let (stopped, a) = callee();
    let (_other, b) = callee();
    // Never by probes: they would take too long.
    let balancer = Balancer::start(&[a, b], &["--algorithm", "round-robin", "--workers", "2"]);
    calls(&balancer, 10);
    stopped.signal("STOP");
    calls(&balancer, 40);
    assert!(balancer.metric("strowger_balance_events_total", "event=\"retried\"") > 0);
    // What it slept over is taken from it, and the callers learn of nothing.
    stopped.signal("CONT");
    eventually("it is up", || (balancer.of("strowger_balance_node_open", a) == 1).then_some(()));
    calls(&balancer, 10);
    eventually("nothing is left", || balancer.is_empty(&[a, b]).then_some(()));
}

#[test]
fn a_tcp_node_that_is_killed_fails_no_call() {
    let (mut killed, a) = callee_over_tcp();
    let (_other, b) = callee_over_tcp();
    let nodes = [a, b].map(|node| format!("sip:{node};transport=tcp"));
    let more = ["--node", &nodes[0], "--node", &nodes[1], "--algorithm", "round-robin", "--workers", "2"];
    let balancer = Balancer::start(&[], &more);
    calls_over(&balancer, 10, "t1");
    killed.kill();
    calls_over(&balancer, 30, "t1");
    eventually("it is down", || (balancer.of("strowger_balance_node_up", a) == 0).then_some(()));
    calls_over(&balancer, 10, "u1");
    assert!(balancer.is_empty(&[a, b]));
}

#[test]
fn nodes_come_and_go_while_calls_are_up() {
    let (_one, a) = callee();
    let (_other, b) = callee();
    let balancer = Balancer::start(&[a], &["--algorithm", "round-robin", "--workers", "2"]);
    let load = lasting_calls(&balancer);
    eventually("calls are up", || (balancer.of("strowger_balance_calls", a) > 20).then_some(()));
    let added = balancer.ctl(&["add-node", &format!("sip:{b}")]);
    assert!(added.status.success(), "{}", text(&added));
    let removed = balancer.ctl(&["remove-node", &a.to_string()]);
    assert!(removed.status.success() && text(&removed).contains("removed;"), "{}", text(&removed));
    let given = balancer.of("strowger_balance_assigned_total", a);
    let out = load.wait_with_output().expect("its end");
    assert!(no_call_is_said_to_have_failed(&text(&out)), "{}", text(&out));
    // The BYEs of its calls, and no new ones.
    assert!(balancer.of("strowger_balance_assigned_total", a) - given < 60);
    assert!(balancer.of("strowger_balance_assigned_total", b) > 200);
    assert!(balancer.is_empty(&[a, b]));
    for (args, expected) in [
        (["add-node", &format!("sip:{b}")], "is there already"),
        (["add-node", &format!("sip:{}", balancer.sip())], "is this balancer itself"),
        (["add-node", "sip:app.example.com"], "is a name; write the node's address"),
        (["remove-node", &b.to_string()], "is the last node"),
        (["undrain", &a.to_string()], "add it again"),
    ] {
        let said = balancer.ctl(&args);
        assert!(!said.status.success() && text(&said).contains(expected), "{args:?}: {}", text(&said));
    }
    assert!(balancer.ctl(&["add-node", &format!("sip:{a};weight=2")]).status.success());
    calls(&balancer, 12);
}

#[test]
fn several_workers_know_what_each_has_given() {
    let (_one, a) = callee();
    let (_other, b) = callee();
    let balancer = Balancer::start(&[a, b], &["--workers", "3", "--algorithm", "cjsq"]);
    calls(&balancer, 100);
    let all = [a, b].map(|node| balancer.of("strowger_balance_assigned_total", node));
    assert_eq!(all.iter().sum::<u64>(), 200);
    assert!(balancer.is_empty(&[a, b]));
    assert_eq!(balancer.metric("strowger_workers", ""), 3);
}

/// A server with bob, who is at `bob` for each of these.
fn server(bob: &mut Link) -> Server {
    let server = Setup::open().start();
    bob.set_server(server.sip());
    bob.register("bob");
    server
}

/// A call that is up: its INVITE and the answer to it.
struct Up {
    invite: Req,
    answer: Msg,
}

/// Answers where the topmost Via says.
fn reply(bob: &mut Link, request: &Msg, bytes: &[u8]) {
    let via = request.header("Via").and_then(|via| via.split([' ', ';']).nth(1)).expect("a Via");
    bob.set_server(via.parse().expect("an address and port"));
    bob.send(bytes);
}

/// Somebody calls bob through the balancer. The INVITE is repeated as a phone would.
fn call(caller: &mut Link, bob: &mut Link) -> Up {
    let invite = Req::invite("sip:bob@example.com", caller);
    let received = eventually("bob rings", || {
        caller.send(&invite.bytes());
        bob.find_within(Duration::from_millis(500), |m| {
            m.method() == "INVITE" && m.header("Call-ID") == Some(&invite.call_id)
        })
    });
    let contact = format!("Contact: <sip:bob@{}>", bob.local());
    reply(bob, &received, &received.reply(200, "b", &[&contact]));
    let answer = caller.response(&invite);
    assert_eq!(answer.status(), Some(200), "{answer:?}");
    caller.send(&invite.in_dialog("ACK", &answer, caller).bytes());
    bob.find_within(live::PATIENCE, |m| m.method() == "ACK").expect("the ACK");
    Up { invite, answer }
}

fn hang_up(caller: &mut Link, bob: &mut Link, up: &Up) {
    let bye = up.invite.in_dialog("BYE", &up.answer, caller);
    caller.send(&bye.bytes());
    let received = bob.find_within(live::PATIENCE, |m| m.method() == "BYE").expect("the BYE");
    reply(bob, &received, &received.reply(200, "", &[]));
    assert_eq!(caller.response(&bye).status(), Some(200));
}

fn bob() -> Link {
    // Registered at several servers from one place.
    Link::udp_at((fresh_ip(), 5060).into(), (fresh_ip(), 5060).into())
}

#[test]
fn two_servers_behind_one_address() {
    let mut bob = bob();
    let servers = [server(&mut bob), server(&mut bob)];
    let nodes = [servers[0].sip(), servers[1].sip()];
    let mut balancer = Balancer::start(&nodes, &["--algorithm", "round-robin", "--workers", "2"]);
    let mut caller = Link::open(Via::Udp, balancer.sip());
    let ups: Vec<Up> = (0..4).map(|_| call(&mut caller, &mut bob)).collect();
    assert_eq!(nodes.map(|n| balancer.of("strowger_balance_calls", n)).iter().sum::<u64>(), 4);
    let shown = text(&balancer.ctl(&["nodes"]));
    assert!(
        nodes.iter().all(|node| shown.contains(&node.to_string())) && shown.contains("answers"),
        "{shown}"
    );
    // A node that drains gets no new calls and keeps what it has.
    let name = nodes[0].to_string();
    assert!(balancer.ctl(&["drain", &name]).status.success());
    let before = balancer.of("strowger_balance_assigned_total", nodes[0]);
    let further: Vec<Up> = (0..3).map(|_| call(&mut caller, &mut bob)).collect();
    assert_eq!(balancer.of("strowger_balance_assigned_total", nodes[0]), before);
    hang_up(&mut caller, &mut bob, &ups[0]);
    hang_up(&mut caller, &mut bob, &ups[1]);
    // Restarted in between, it knows by their tokens where calls belong.
    balancer.restart();
    for up in ups[2..].iter().chain(&further) {
        hang_up(&mut caller, &mut bob, up);
    }
    assert!(balancer.is_empty(&nodes));
    assert!(balancer.ctl(&["drain", &name]).status.success());
    assert!(balancer.ctl(&["undrain", &name]).status.success());
    let unknown = text(&balancer.ctl(&["drain", "192.0.2.9:5060"]));
    assert!(unknown.contains(&format!("no node \"192.0.2.9:5060\"; there are {name}, ")), "{unknown}");
}

#[test]
fn the_other_end_hangs_up_through_both() {
    let mut bob = bob();
    let servers = [server(&mut bob)];
    let nodes = [servers[0].sip()];
    let balancer = Balancer::start(&nodes, &[]);
    let mut caller = Link::open(Via::Udp, balancer.sip());
    let invite = Req::invite("sip:bob@example.com", &caller);
    caller.send(&invite.bytes());
    let received = bob.request("INVITE");
    let contact = format!("Contact: <sip:bob@{}>", bob.local());
    reply(&mut bob, &received, &received.reply(200, "b", &[&contact]));
    let answer = caller.response(&invite);
    caller.send(&invite.in_dialog("ACK", &answer, &caller).bytes());
    bob.request("ACK");
    let mut bye = Req::new("BYE", "", &bob);
    bye.uri = format!("sip:caller@{}", caller.local());
    (bye.from, bye.to) = (answer.header("To").expect("a To").into(), invite.from.clone());
    bye.call_id = invite.call_id.clone();
    bye.extra = received.all("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    bob.set_server(nodes[0]);
    bob.send(&bye.bytes());
    let received = caller.request("BYE");
    caller.send(&received.reply(200, "", &[]));
    assert_eq!(bob.response(&bye).status(), Some(200));
    eventually("the call is over", || balancer.is_empty(&nodes).then_some(()));
}

#[test]
fn calls_move_on_when_a_node_is_killed() {
    let mut bob = bob();
    let mut servers = [server(&mut bob), server(&mut bob)];
    let nodes = [servers[0].sip(), servers[1].sip()];
    let balancer = Balancer::start(&nodes, &["--algorithm", "round-robin"]);
    let mut caller = Link::open(Via::Udp, balancer.sip());
    let ups: Vec<Up> = (0..6).map(|_| call(&mut caller, &mut bob)).collect();
    servers[0].kill();
    // Every one of them, also those that were to go to the dead node first.
    let further: Vec<Up> = (0..6).map(|_| call(&mut caller, &mut bob)).collect();
    assert_eq!(balancer.of("strowger_balance_node_up", nodes[0]), 0);
    let shown = text(&balancer.ctl(&["nodes"]));
    assert!(shown.lines().any(|l| l.contains(&nodes[0].to_string()) && l.contains(" down ")), "{shown}");
    for up in &further {
        hang_up(&mut caller, &mut bob, up);
    }
    // Those of the dead node are answered somehow by the other, at once, and so are over here as well.
    for up in &ups {
        let bye = up.invite.in_dialog("BYE", &up.answer, &caller);
        caller.send(&bye.bytes());
        if let Some(received) = bob.find_within(Duration::from_millis(300), |m| m.method() == "BYE") {
            reply(&mut bob, &received, &received.reply(200, "", &[]));
        }
        assert!(caller.response(&bye).status().is_some());
    }
    eventually("every counter is zero", || balancer.is_empty(&nodes).then_some(()));
    // It comes back by its probes.
    servers[0].restart();
    eventually("it is up", || (balancer.of("strowger_balance_node_up", nodes[0]) == 1).then_some(()));
}

fn no_call_is_said_to_have_failed(said: &str) -> bool {
    let line = said.lines().find_map(|line| line.strip_prefix("Calls failed"));
    line.is_some_and(|count| count.trim() == "0")
}

/// Waits for the end of [`lasting_calls`].
fn no_call_failed(load: Child) {
    let out = load.wait_with_output().expect("its end");
    assert!(out.status.success(), "{}", text(&out));
    assert!(no_call_is_said_to_have_failed(&text(&out)), "{}", text(&out));
}

/// A generator whose calls last a second and bring back the routes that they were given.
fn lasting_calls(balancer: &Balancer) -> Child {
    let (ip, target) = (fresh_ip().to_string(), balancer.sip().to_string());
    let users = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("users.csv"));
    std::fs::write(&users, "SEQUENTIAL\nann;secret;bob\n").expect("a file");
    let args = ["load", "--quiet", "--lateness", "60000", "-sn", "proxy200", "-key", "domain", "example.com"];
    let rest = ["-i", &ip, &target, "-r", "50", "-m", "200", "-d", "1000", "-inf"];
    let mut command = Command::new(binary());
    command
        .args(args)
        .args(rest)
        .arg(users)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().expect("it starts")
}

#[test]
fn no_call_is_lost_when_the_balancer_is_killed() {
    let (_one, a) = callee();
    let (_other, b) = callee();
    let mut balancer = Balancer::start(&[a, b], &["--workers", "2"]);
    let load = lasting_calls(&balancer);
    // With calls up, and more of them coming in.
    let up = || [a, b].map(|node| balancer.of("strowger_balance_calls", node)).iter().all(|calls| *calls > 5);
    eventually("calls are up", || up().then_some(()));
    balancer.restart();
    no_call_failed(load);
    assert!(balancer.is_empty(&[a, b]));
}

#[test]
fn no_call_is_lost_when_the_balancer_is_told_to_end_and_started_again() {
    let (_one, a) = callee();
    let (_other, b) = callee();
    let mut balancer = Balancer::start(&[a, b], &["--workers", "2"]);
    let load = lasting_calls(&balancer);
    let given = |balancer: &Balancer| {
        [a, b].map(|node| balancer.of("strowger_balance_assigned_total", node)).iter().sum::<u64>()
    };
    eventually("calls are up", || (given(&balancer) > 20).then_some(()));
    balancer.beside.signal("TERM");
    // Whoever moves its address sees that it is about to end, and callers see nothing.
    eventually("it says so", || (balancer.get("/readyz").status == 503).then_some(()));
    let said = balancer.ctl(&["status"]);
    assert!(!said.status.success() && text(&said).contains("stopping"), "{}", text(&said));
    assert_eq!(balancer.metric("strowger_up", ""), 0);
    let before = given(&balancer);
    eventually("new calls come in", || (given(&balancer) > before + 10).then_some(()));
    assert_eq!(balancer.metric("strowger_balance_refused_total", "unavailable"), 0);
    assert_eq!(balancer.beside.wait(), Some(0));
    balancer.start_again();
    no_call_failed(load);
    assert!(balancer.is_empty(&[a, b]));
}

#[test]
fn who_waits_for_its_end_need_not_wait_for_others() {
    let (_one, a) = callee();
    let config = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("stop.toml"));
    std::fs::write(&config, "[balance]\nstop_delay = \"40s\"\n").expect("a file");
    let mut balancer = Balancer::start(&[a], &["--config", &config.display().to_string()]);
    let begun = Instant::now();
    balancer.beside.signal("TERM");
    eventually("it is about to end", || (balancer.get("/readyz").status == 503).then_some(()));
    balancer.beside.signal("TERM");
    assert_eq!(balancer.beside.wait(), Some(0));
    balancer.start_again();
    balancer.beside.signal("INT");
    assert_eq!(balancer.beside.wait(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
}

/// The commands in a guide, block by block, each without the program's name.
fn commands(guide: &str) -> Vec<Vec<Vec<String>>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let text = std::fs::read_to_string(folder.join(guide)).expect("the guide");
    let words = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
    let blocks = text.split("```\n").skip(1).step_by(2);
    blocks.map(|block| block.lines().map(words).collect()).collect()
}

#[test]
fn the_steps_of_the_guide_do_what_it_says() {
    let (ip, dir) = (fresh_ip(), std::env::temp_dir().join(unique("strowger-try")));
    let [setup, first, second]: [Vec<Vec<String>>; 3] =
        commands("balance-try.md").try_into().expect("three blocks");
    // In an address of its own, and with fewer calls; a machine that is busy with other tests makes the
    // generator late.
    let typed = |words: &[String], more: &[&str]| -> Vec<String> {
        let own = |word: &String| match word.as_str() {
            "1000" => "100".to_owned(),
            ".cache/balance" => dir.display().to_string(),
            _ => word.replace("127.0.0.1", &ip.to_string()).replace(":8082", ":8080"),
        };
        words.iter().map(own).chain(more.iter().map(|word| word.to_string())).collect()
    };
    let start = |words: &[String]| {
        let more: &[&str] = if words[0] == "load" { &["--quiet"] } else { &[] };
        let args = typed(words, more);
        (Beside::start(&args.iter().map(String::as_str).collect::<Vec<_>>()), args)
    };
    let run = |words: &[String]| {
        let more: &[&str] = if words[0] == "load" { &["--quiet", "--lateness", "60000"] } else { &[] };
        let out = run(typed(words, more));
        assert!(out.status.success(), "{words:?}: {}", text(&out));
    };
    let mut machines = [Some(start(&setup[0]).0), Some(start(&setup[1]).0)];
    let (beside, args) = start(&setup[2]);
    let balancer = Balancer { beside, ip, dir: dir.clone(), args };
    let nodes: [SocketAddr; 2] = [(ip, 5081).into(), (ip, 5082).into()];
    first.iter().for_each(|words| run(words));
    for node in nodes {
        let given = balancer.of("strowger_balance_assigned_total", node);
        assert!((60..=140).contains(&given), "{given} of 200 at {node}");
    }
    second.iter().for_each(|words| run(words));
    // Whichever of them is ended, the other has all calls.
    for ended in 0..2 {
        for node in nodes {
            eventually("both take calls", || {
                (balancer.of("strowger_balance_node_open", node) == 1).then_some(())
            });
        }
        machines[ended].take().expect("it runs").kill();
        let before = balancer.of("strowger_balance_responses_total", nodes[1 - ended]);
        run(&first[0]);
        assert!(balancer.of("strowger_balance_responses_total", nodes[1 - ended]) >= before + 200);
        machines[ended] = Some(start(&setup[ended]).0);
    }
}

#[test]
fn with_no_node_left_callers_are_told_when_to_come_back() {
    let dead = SocketAddr::from((fresh_ip(), 5060));
    let balancer = Balancer::start(&[dead], &[]);
    let mut caller = Link::open(Via::Udp, balancer.sip());
    let answer = eventually("it is refused", || {
        let invite = Req::invite("sip:bob@example.com", &caller);
        caller.send(&invite.bytes());
        caller.response_within(&invite, Duration::from_millis(300))
    });
    assert_eq!((answer.status(), answer.header("Retry-After")), (Some(503), Some("5")));
    assert_eq!(balancer.get("/readyz").status, 503);
    assert!(text(&balancer.ctl(&["status"])).contains("no node takes calls"));
}

#[test]
fn what_a_balancer_cannot_do_it_says() {
    let refused = |args: &[&str], expected: &str| {
        let out = run([&["balance", "--data-dir", "/nonexistent/strowger"], args].concat());
        assert!(!out.status.success() && text(&out).contains(expected), "{args:?}: {}", text(&out));
    };
    let node = ["--node", "sip:192.0.2.1:5060"];
    refused(&["--listen", "udp:127.0.0.1:0"], "no node to balance to; name them with --node");
    refused(
        &[&node[..], &["--listen", "tls:127.0.0.1:0"]].concat(),
        "--listen: the listener \"tls:127.0.0.1:0\" has no certificate to show",
    );
    refused(&["--node", "sip:192.0.2.1;transport=ws"], "nodes over ws are not possible");
    let udp = ["--listen", "udp:127.0.0.1:0"];
    for (over, port) in [("tls", 5061), ("sctp", 5060)] {
        let node = format!("sip:192.0.2.1;transport={over}");
        let expected =
            format!("node 192.0.2.1:{port} cannot be reached: there is no IPv4 listener over {over}");
        refused(&[&["--node", node.as_str()][..], &udp].concat(), &expected);
    }
    let tcp = ["--node", "sip:192.0.2.1;transport=tcp", "--listen", "udp:127.0.0.1:0"];
    refused(&tcp, "cannot be reached: there is no IPv4 listener over tcp; add one");
    refused(&["--node", "sip:app.example.com:0"], "has no usable address");
    refused(&[&node[..], &["--algorithm", "best"]].concat(), "--algorithm: unknown algorithm \"best\"");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("balance.toml"));
    std::fs::write(&file, "[balance]\nnodes = [\"sip:192.0.2.1\"]\nalgorithm = \"tlwk\"\n").expect("a file");
    let path = file.display().to_string();
    refused(&["--config", &path], "3:13: unknown value \"tlwk\"; did you mean \"tlwl\"?");
}

#[test]
fn a_reload_changes_algorithm_and_weights() {
    let (_one, a) = callee();
    let (_other, b) = callee();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("balance.toml"));
    let write = |algorithm: &str, nodes: &str| {
        // Who comes is to get its share at once.
        let rest = "slow_start = \"0s\"";
        let config = format!("[balance]\nalgorithm = \"{algorithm}\"\nnodes = [{nodes}]\n{rest}\n");
        std::fs::write(&file, config).expect("a file");
    };
    write("round-robin", &format!("\"sip:{a}\", \"sip:{b}\""));
    let path = file.display().to_string();
    let balancer = Balancer::start(&[], &["--config", &path, "--workers", "1"]);
    calls(&balancer, 20);
    assert_eq!(balancer.of("strowger_balance_assigned_total", a), 20);
    write("round-robin", &format!("\"sip:{a};weight=3\", \"sip:{b}\""));
    let done = balancer.ctl(&["reload"]);
    assert!(done.status.success() && text(&done).contains("in force now: balance"), "{}", text(&done));
    calls(&balancer, 20);
    assert_eq!(balancer.of("strowger_balance_assigned_total", a), 20 + 30);
    // A node goes and another one comes, with SIGHUP.
    let (_third, c) = callee();
    write("round-robin", &format!("\"sip:{a}\", \"sip:{c}\""));
    balancer.beside.signal("HUP");
    eventually("the new one is there", || {
        balancer.get("/v1/nodes").body.contains(&c.to_string()).then_some(())
    });
    calls(&balancer, 20);
    assert_eq!(balancer.of("strowger_balance_assigned_total", c), 20);
    write("round-robin", &format!("\"sip:{a}\", \"sip:{}\"", balancer.sip()));
    let refused = text(&balancer.ctl(&["reload"]));
    assert!(refused.contains("is this balancer itself"), "{refused}");
    write("nonsense", &format!("\"sip:{a}\""));
    assert!(text(&balancer.ctl(&["reload"])).contains("2:13: unknown value \"nonsense\""));
}

#[test]
fn every_metric_of_a_balancer_is_described_once_and_no_other() {
    let (_callee, node) = callee();
    let balancer = Balancer::start(&[node], &[]);
    calls(&balancer, 5);
    let metrics = balancer.get("/metrics").body;
    compare_metrics("balance-metrics.md", &metrics, |name| name.starts_with("strowger_balance_"));
    // The others are those of `serve`, which has more.
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in names.filter(|name| !name.starts_with("strowger_balance_")) {
        assert!(page.contains(&format!("| `{name}")), "{name} is not described");
    }
}
