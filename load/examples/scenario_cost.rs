//! What a scenario costs without sockets: a caller's engine against a callee's, or a client that registers
//! with digest against a registrar that is a scenario too. Prints calls per second of one processor; for
//! instructions run it under `valgrind --tool=callgrind --toggle-collect='*measured*'`.
//!
//! `cargo run --release -p load --example scenario_cost -- [call|register] [CALLS] [RATE]`
//!
//! It has the allocator of `strowger`; `make bench-load` puts it together with the flags of `make build`,
//! too.
use load::engine::{Addresses, Conduct, Engine, Origin, Settings};
use load::metrics::Setup;
use load::population::{Arrivals, RateOptions, Spacing};
use load::scenario::{Desk, Injections, Run, Scenario, Side, Surroundings, builtin, parse};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::{Flow, ListenerId, Machine, Outbox, Time, Transport};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CALLER: &str = "192.0.2.1:5060";
const CALLEE: &str = "192.0.2.2:5060";
/// Calls a second of the engines' own time unless said otherwise. Those that have ended linger for four
/// seconds, so it says how much memory is in use.
const RATE: f64 = 1_000.0;

/// A registrar as a scenario: challenges, and takes whatever answer comes.
const REGISTRAR: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<scenario name="registrar">
  <recv request="REGISTER"/>
  <send><![CDATA[

      SIP/2.0 401 Unauthorized
      [last_Via:]
      [last_From:]
      [last_To:];tag=[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      WWW-Authenticate: Digest realm="example.com", nonce="[call_number]a9f1c8b2d3e4", qop="auth", algorithm=MD5
      Content-Length: 0

  ]]></send>
  <recv request="REGISTER"/>
  <send><![CDATA[

      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:];tag=[call_number]
      [last_Call-ID:]
      [last_CSeq:]
      [last_Contact:]
      Content-Length: 0

  ]]></send>
  <timewait milliseconds="4000"/>
</scenario>"#;

/// A user who registers with digest.
const USER: &str = "SEQUENTIAL\nalice;secret\nbob;secret\n";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn engine(local: &str, remote: &str, text: &str, (calls, rate): (u64, f64)) -> Engine {
    let remote = address(remote);
    let run = Run {
        service: "bob".into(),
        remote_host: remote.ip().to_string(),
        remote_ip: remote.ip().to_string(),
        remote_port: remote.port(),
        transport: "UDP",
        media_ip: "192.0.2.1".into(),
        media_port: 6_000,
        pid: 7,
        auth_user: b"alice".to_vec(),
        auth_password: b"secret".to_vec(),
        auth_uri: None,
        users: -1,
        local_ip: Some(address(local).ip().to_string()),
        local_port: Some(5_060),
        version: "test",
    };
    let file = load::scenario::Injection::parse("users.csv", USER.as_bytes()).expect("two users");
    let injections = Injections { files: vec![file] };
    let keys = [("domain".to_owned(), "example.com".to_owned())];
    let read = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let around = Surroundings { keys: &keys, injections: &injections, read_file: &read };
    let text = builtin(text).unwrap_or(text);
    let mut scenario: Scenario = parse("cost.xml", text.as_bytes(), &around).expect("a scenario");
    scenario.bind(&run);
    let scenario = Arc::new(scenario);
    let (client, server) = match scenario.side {
        Side::Client => (Some(scenario), None),
        Side::Server => (None, Some(scenario)),
    };
    let start = Time::from_secs(1);
    let settings = Settings {
        worker: 0,
        run: Arc::new(run),
        run_id: 0x1234_5678,
        client,
        server,
        addresses: Addresses {
            transport: Transport::Udp,
            remote,
            listeners: vec![address(local)],
            own: vec![ListenerId(0)],
            alias: None,
            origin: Origin::Turn,
        },
        conduct: Conduct::default(),
        users: None,
        set: Vec::new(),
        most_calls: 1_000_000,
        most_callees: 1_000_000,
        callees: None,
        numbers: (1, 1),
        seed: 11,
        start,
        wall_origin: 0,
        metrics: Setup { origin: start, ..Setup::default() },
        ladders: 5,
        traces: false,
    };
    let profile = RateOptions { r: rate, ..RateOptions::default() }.profile().expect("a rate");
    let arrivals = Arrivals::at_rate(profile, Spacing::Even).expect("arrivals");
    let times = settings.client.as_ref().map(|_| arrivals.times(1, 0, 1, Some(calls)));
    Engine::new(settings, Desk::new(injections.for_worker(0, 1), 1, 10), times)
}

/// The two ends and what is on its way between them.
struct Pair {
    now: Time,
    ends: [Engine; 2],
    /// Where what each receives is from.
    sources: [SocketAddr; 2],
    /// What each has sent.
    sent: [Outbox; 2],
    messages: u64,
}

impl Pair {
    fn new(scenarios: (&str, &str), load: (u64, f64)) -> Pair {
        let ends = [engine(CALLER, CALLEE, scenarios.0, load), engine(CALLEE, CALLER, scenarios.1, load)];
        Pair {
            now: Time::from_secs(1),
            ends,
            sources: [address(CALLEE), address(CALLER)],
            sent: [Outbox::new(), Outbox::new()],
            messages: 0,
        }
    }

    /// Gives what `from` has sent to the other. Its answers are the next to be given.
    fn deliver(&mut self, from: usize) {
        let to = 1 - from;
        let flow = Flow::udp(ListenerId(0), self.sources[to]);
        // Nothing of the other's is waiting: it was delivered before.
        let [caller, callee] = &mut self.sent;
        let (sent, answers) = if from == 0 { (caller, callee) } else { (callee, caller) };
        for transmit in sent.transmits() {
            self.messages += 1;
            self.ends[to].receive(wire::Arrival::new(self.now, flow, sent.message(transmit)), answers);
        }
        sent.clear();
    }

    /// What is measured.
    #[inline(never)]
    fn measured(&mut self, until: Time) {
        self.pass(until);
    }

    /// Lets both run until nothing is left to do before `until`.
    fn pass(&mut self, until: Time) {
        loop {
            let next = self.ends.iter().filter_map(Machine::next_deadline).min();
            let Some(next) = next.filter(|&at| at <= until) else { break };
            self.now = self.now.max(next);
            for end in 0..2 {
                self.ends[end].timeout(self.now, &mut self.sent[end]);
                let mut from = end;
                while !self.sent[from].is_empty() {
                    self.deliver(from);
                    from = 1 - from;
                }
            }
        }
    }
}

/// Seconds on a processor so far; other programs' do not count. 0 where the system does not say.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "call".to_owned());
    let calls: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(200_000);
    let rate: f64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(RATE);
    let scenarios = match what.as_str() {
        "call" => ("uac", "uas"),
        "register" => ("register", REGISTRAR),
        other => return eprintln!("{other}: call or register is wanted"),
    };
    // The first second fills the memory that is used again later.
    let warm = (rate * 6.0) as u64;
    let mut pair = Pair::new(scenarios, (warm + calls, rate));
    pair.pass(Time::from_secs(1 + 6));
    let (before, begun) = (pair.messages, processor_seconds());
    pair.measured(Time::from_secs(1 + 6) + core::time::Duration::from_secs_f64(calls as f64 / rate));
    let seconds = (processor_seconds() - begun).max(1e-9);
    let messages = pair.messages - before;
    println!(
        "{what}: {:.0} calls/s of one processor, both sides ({calls} calls, {:.1} messages each)",
        calls as f64 / seconds,
        messages as f64 / calls as f64
    );
}
