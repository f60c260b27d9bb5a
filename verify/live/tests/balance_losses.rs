//! A balancer whose network loses, repeats and reorders, on either side: what it counts ends at zero.

use live::{Beside, PATIENCE, eventually, fresh_ip, http, load, unique};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What the network has done to datagrams.
#[derive(Default)]
struct Done {
    passed: AtomicU64,
    lost: AtomicU64,
    repeated: AtomicU64,
    late: AtomicU64,
}

/// One way through the network: of a hundred datagrams five are lost, five come twice, and five after the
/// next one.
struct Way {
    seed: u64,
    late: Option<Vec<u8>>,
    done: Arc<Done>,
}

impl Way {
    fn new(seed: u64, done: &Arc<Done>) -> Way {
        Way { seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, late: None, done: Arc::clone(done) }
    }

    fn pass(&mut self, bytes: &[u8], send: impl Fn(&[u8])) {
        // xorshift64
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let count = |counter: &AtomicU64| _ = counter.fetch_add(1, Ordering::Relaxed);
        match self.seed % 100 {
            0..5 => count(&self.done.lost),
            5..10 => {
                count(&self.done.repeated);
                send(bytes);
                send(bytes);
            }
            10..15 if self.late.is_none() => {
                count(&self.done.late);
                self.late = Some(bytes.to_vec());
                return;
            }
            _ => {
                count(&self.done.passed);
                send(bytes);
            }
        }
        if let Some(late) = self.late.take() {
            send(&late);
        }
    }
}

/// An address behind which `target` is, with such a network between, both ways. Who sends there has a socket
/// of his own towards the target, as behind NAT.
fn network(target: SocketAddr, done: &Arc<Done>) -> SocketAddr {
    let ip = fresh_ip();
    let front = Arc::new(UdpSocket::bind((ip, 5060)).expect("an address"));
    let here = front.local_addr().expect("it is bound");
    let done = Arc::clone(done);
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut senders: BTreeMap<SocketAddr, (Arc<UdpSocket>, Way)> = BTreeMap::new();
        while let Ok((len, from)) = front.recv_from(&mut buffer) {
            let (back, way) = senders.entry(from).or_insert_with(|| {
                let back = Arc::new(UdpSocket::bind((ip, 0)).expect("a port"));
                back.connect(target).expect("an address");
                let (front, answers) = (Arc::clone(&front), Arc::clone(&back));
                let mut way = Way::new(u64::from(from.port()) << 1 | 1, &done);
                thread::spawn(move || {
                    let mut buffer = vec![0; 65_536];
                    loop {
                        // Nobody may be there for a moment, which a connected socket hears of.
                        let Ok(len) = answers.recv(&mut buffer) else { continue };
                        way.pass(&buffer[..len], |bytes| _ = front.send_to(bytes, from));
                    }
                });
                (back, Way::new(u64::from(from.port()), &done))
            });
            way.pass(&buffer[..len], |bytes| _ = back.send(bytes));
        }
    });
    here
}

/// All values of a metric.
fn values(admin: SocketAddr, name: &str) -> Vec<f64> {
    let text = http(admin, "GET", "/metrics").body;
    let all: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")))
        .map(|line| line.rsplit_once(' ').expect("a value").1.parse().expect("a number"))
        .collect();
    assert!(!all.is_empty(), "no {name} in\n{text}");
    all
}

/// What a balancer must come back from.
const COUNTERS: [&str; 2] = ["strowger_balance_calls", "strowger_balance_transactions"];

/// A call whose BYE never comes.
fn no_bye() -> PathBuf {
    let uac = load(&["-sd", "uac"]);
    let text = String::from_utf8(uac.stdout).expect("text");
    let end = text.find("<pause").expect("a call has a length");
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("no_bye.xml"));
    std::fs::write(&path, format!("{}</scenario>\n", &text[..end])).expect("a file");
    path
}

#[test]
fn every_counter_ends_at_zero_whatever_the_network_does() {
    let done = Arc::new(Done::default());
    let callees: Vec<_> = (0..3)
        .map(|_| {
            let ip = fresh_ip().to_string();
            (Beside::load(&["-sn", "uas", "-i", &ip, "-p", "5060"]), format!("{ip}:5060"))
        })
        .collect();
    let nodes: Vec<SocketAddr> =
        callees.iter().map(|(_, at)| network(at.parse().expect("an address"), &done)).collect();
    let (ip, dir) = (fresh_ip(), PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique("losses")));
    std::fs::create_dir_all(&dir).expect("a folder");
    let config = dir.join("strowger.toml");
    std::fs::write(&config, "[balance]\nsession_timeout = \"60s\"\n").expect("a file");
    let (listen, admin) = (format!("udp:{ip}:5060"), SocketAddr::from((ip, 8080)));
    let own =
        ["balance", "--config", config.to_str().expect("text"), "--data-dir", dir.to_str().expect("text")];
    let admin_text = admin.to_string();
    let mut args = [&own[..], &["--listen", &listen, "--admin", &admin_text, "--workers", "2"]].concat();
    let nodes: Vec<String> = nodes.iter().map(|node| format!("sip:{node}")).collect();
    args.extend(nodes.iter().flat_map(|node| ["--node", node]));
    let _balancer = Beside::start(&args);
    let front = network((ip, 5060).into(), &done).to_string();

    let no_bye = no_bye();
    let users = dir.join("users.csv");
    std::fs::write(&users, "SEQUENTIAL\nann;secret;bob\n").expect("a file");
    let users = users.to_str().expect("text");
    let kinds: [(&[&str], &str); 3] = [
        (&["-sn", "uac"], "600"),
        (&["-sn", "cancel", "-key", "domain", "example.com", "-d", "0", "-inf", users], "300"),
        (&["-sf", no_bye.to_str().expect("text")], "100"),
    ];
    thread::scope(|scope| {
        for (kind, count) in kinds {
            let front = &front;
            scope.spawn(move || {
                let ip = fresh_ip().to_string();
                // Calls may fail: a callee's own answers are lost as well.
                let all = ["-i", &ip, front, "-r", "60", "-m", count, "-recv_timeout", "20000"];
                load(&[kind, &all].concat());
            });
        }
    });
    let most = |name: &str| values(admin, name).into_iter().fold(0.0, f64::max);
    for name in COUNTERS {
        assert!(
            values(admin, name).iter().all(|&value| (0.0..=1_000.0).contains(&value)),
            "{name} is no count"
        );
    }
    assert!(most("strowger_balance_calls") > 0.0, "calls without a BYE are still there");
    // Those whose BYE never comes are given up after 60 s (the least there is), transactions after 33.
    let end = Instant::now() + Duration::from_secs(60 + 33) + PATIENCE;
    while COUNTERS.iter().any(|name| most(name) > 0.0) {
        assert!(Instant::now() < end, "{:?}", COUNTERS.map(|name| values(admin, name)));
        thread::sleep(Duration::from_millis(200));
    }
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let [passed, lost, repeated, late] = [&done.passed, &done.lost, &done.repeated, &done.late].map(of);
    assert!(
        passed > 5_000 && lost > 300 && repeated > 300 && late > 300,
        "{passed} {lost} {repeated} {late}"
    );
    let given_up = eventually("it is counted", || {
        let text = http(admin, "GET", "/metrics").body;
        text.lines().find(|l| l.contains("event=\"lost-call\"")).map(|l| l.to_owned())
    });
    let given_up: u64 = given_up.rsplit_once(' ').expect("a value").1.parse().expect("a number");
    assert!(given_up >= 90, "{given_up} calls ended without a BYE");
    let _ = std::fs::remove_dir_all(&dir);
}
