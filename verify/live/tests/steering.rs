//! Which worker a datagram reaches: the steering program in the real kernel, and the whole server with it.

use live::{Link, PATIENCE, Req, Server, Setup, Via, eventually, fresh_ip, load, text, without_capabilities};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use sip_steering::{Ownership, SteeringProgram, emulate};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::Stdio;
use std::sync::{Arc, mpsc};
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Machine, Outbox, Time, Transport};
use worker_runtime::{Bound, Listener, Runtime, RuntimeConfig};

const WORKERS: u16 = 3;

/// Says for each message which worker had it.
struct Witness {
    me: u16,
    ownership: Arc<Ownership>,
    seen: mpsc::Sender<(u16, Vec<u8>)>,
}

impl Machine for Witness {
    type Notice = ();

    fn frame(&self, _: Transport, _: &[u8], _: usize) -> Frame {
        Frame::Idle
    }

    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        self.ownership.owner(message, workers)
    }

    fn receive(&mut self, arrival: Arrival<'_>, _: &mut Outbox) -> Option<u16> {
        if let Some(other) = arrival.other_owner(self) {
            return Some(other);
        }
        let _ = self.seen.send((self.me, arrival.message.to_vec()));
        None
    }

    fn refuse(&mut self, _: Time, _: Flow, _: &[u8], _: FrameError, _: &mut Outbox) {}
    fn disconnected(&mut self, _: Time, _: ConnId, _: &mut Outbox) {}
    fn undeliverable(&mut self, _: Time, _: u64, _: &mut Outbox) {}
    fn notice(&mut self, _: Time, _: (), _: &mut Outbox) {}
    fn timeout(&mut self, _: Time, _: &mut Outbox) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

struct Steered {
    runtime: Runtime<()>,
    ownership: Arc<Ownership>,
    program: SteeringProgram,
    seen: mpsc::Receiver<(u16, Vec<u8>)>,
    senders: Vec<(UdpSocket, SocketAddr)>,
}

impl Steered {
    /// Workers on an address of each family, steered by the kernel. `None`, with the reason said, where the
    /// kernel does not let this process.
    fn start() -> Option<Steered> {
        let any = |address: &str| Listener { transport: Transport::Udp, address: address.parse().unwrap() };
        let mut listeners = vec![any("127.0.0.1:0")];
        if UdpSocket::bind("[::1]:0").is_ok() {
            listeners.push(any("[::1]:0"));
        }
        let config = RuntimeConfig { listeners, ..RuntimeConfig::default() };
        let mut bound = Bound::new(config, usize::from(WORKERS)).unwrap();
        let ownership = Arc::new(Ownership::new(b"sixteen bytes---"));
        let program = ownership.program(WORKERS).unwrap();
        if let Err(error) = bound.steer(&program) {
            assert!(error.is_permission(), "the kernel does not take the program: {error}");
            let said =
                format!("\nSKIPPED, the kernel's part is not tested here: {error}; {}\n", error.mend());
            assert!(std::env::var_os("STROWGER_STEERING").is_none_or(|wish| wish != "kernel"), "{said}");
            // Not by the macro, whose text is kept from whoever looks at tests that pass.
            let _ = std::io::stderr().write_all(said.as_bytes());
            return None;
        }
        let (sender, seen) = mpsc::channel();
        let witness = |me| Witness { me, ownership: Arc::clone(&ownership), seen: sender.clone() };
        let to: Vec<SocketAddr> = bound.listeners().iter().map(|l| l.address).collect();
        let senders = to.iter().cycle().take(6).map(|&to| {
            let from: SocketAddr = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }.parse().unwrap();
            (UdpSocket::bind(from).unwrap(), to)
        });
        let senders = senders.collect();
        let runtime = bound.start((0..WORKERS).map(witness).collect()).unwrap();
        Some(Steered { runtime, ownership, program, seen, senders })
    }

    /// Sends a message by the socket of this number and answers how many datagrams have crossed workers so
    /// far, and who had it at last.
    fn send(&self, number: usize, message: &[u8]) -> (u64, u16) {
        let (socket, to) = &self.senders[number % self.senders.len()];
        socket.send_to(message, to).unwrap();
        let (who, seen) = self.seen.recv_timeout(PATIENCE).expect("the message arrives");
        assert_eq!(seen, message);
        (self.runtime.handle().counts().udp_hops, who)
    }

    fn end(self) {
        self.runtime.handle().shutdown();
        self.runtime.join().unwrap();
    }
}

const REST: &str = "CSeq: 1 INVITE\r\nContact: <sip:a@192.0.2.1>\r\nContent-Length: 0\r\n\r\n";

#[test]
fn the_kernel_gives_every_message_of_a_call_to_its_owner() {
    let Some(steered) = Steered::start() else { return };
    for call in 0..300 {
        let via = "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK776asdhds\r\n".repeat(call % 9);
        for (number, (start, name)) in [
            ("INVITE sip:b@example.com SIP/2.0", "Call-ID: "),
            ("SIP/2.0 200 OK", "i:"),
            ("\r\n\r\nACK sip:b@192.0.2.7 SIP/2.0", "CALL-ID \t: "),
            ("BYE sip:b@192.0.2.7 SIP/2.0", "I :\r\n\t "),
        ]
        .into_iter()
        .enumerate()
        {
            let body = "v=0\r\n".repeat(if call % 10 == 0 { 6_000 } else { 0 });
            let text = format!("{start}\r\n{via}{name}{call}-f81d4fae@192.0.2.10\r\n{REST}{body}");
            let (hops, who) = steered.send(call + number, text.as_bytes());
            assert_eq!(hops, 0, "the kernel did not find the owner of {text}");
            assert_eq!(Some(who), steered.ownership.owner(text.as_bytes(), WORKERS));
        }
    }
    steered.end();
}

/// Pieces of which hostile messages are made.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let odd = [
        "\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        "Call-ID",
        "call-id:",
        "i",
        "I",
        "i:",
        "\r\ni: ",
        "\r\nCall-ID: ",
        "\nCall-ID :",
        "\r\n ",
        "\u{e9}\u{8a}",
        "\0",
        "abc@192.0.2.1",
        "\r\nCALL-ID:x",
        "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK776asdhds\r\n",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(odd.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 0..150usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    prop::collection::vec(piece, 1..25).prop_map(|pieces| pieces.concat())
}

#[test]
fn the_kernel_does_as_the_interpreter_does_whatever_comes() {
    let Some(steered) = Steered::start() else { return };
    let mut runner = TestRunner::deterministic();
    let (mut before, mut decided, mut owned) = (0, 0, 0);
    for number in 0..4_000 {
        let message = pieces().new_tree(&mut runner).unwrap().current();
        if message.is_empty() {
            continue;
        }
        let owner = steered.ownership.owner(&message, WORKERS);
        let run = emulate::run(&steered.program, &message, message.len()).unwrap();
        let (hops, who) = steered.send(number, &message);
        if run.chosen.is_some() {
            decided += 1;
            assert_eq!((run.chosen, hops), (owner, before), "{}", message.escape_ascii());
        }
        owned += usize::from(owner.is_some());
        assert!(owner.is_none_or(|owner| owner == who));
        assert!(owner.is_some() || hops == before, "what is nobody's does not move");
        before = hops;
    }
    eprintln!("{decided} of {owned} steered by the kernel, {before} crossed over");
    assert!(decided > 1_000 && decided > owned / 2, "{decided} of {owned}");
    steered.end();
}

/// A message with its Call-ID spelt in one of several ways.
fn spelt(bytes: &[u8], way: usize) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let name =
        ["\r\nCall-ID: ", "\r\ni:", "\r\nCALL-ID \t:  ", "\r\nI :\r\n\t", "\r\ncall-id:\r\n "][way % 5];
    text.replacen("\r\nCall-ID: ", name, 1).into_bytes()
}

/// A call from a newcomer to `callee`, to its end, every message spelt differently.
fn call(server: &Server, callee: &mut Link, user: &str, way: usize) {
    let mut caller = server.link(Via::Udp);
    let invite = Req::invite(&format!("sip:{user}@example.com"), &caller);
    caller.send(&spelt(&invite.bytes(), way));
    let received = callee.request("INVITE");
    let contact = format!("Contact: <sip:{user}@{}>", callee.local());
    callee.send(&spelt(&received.reply(180, "b", &[]), way + 1));
    caller.expect(&invite, 180);
    if way % 7 == 6 {
        let mut cancel = invite.clone();
        (cancel.method, cancel.extra, cancel.body) = ("CANCEL".into(), Vec::new(), Vec::new());
        caller.send(&spelt(&cancel.bytes(), way + 2));
        let cancelled = callee.request("CANCEL");
        callee.send(&spelt(&cancelled.reply(200, "b", &[]), way + 3));
        callee.send(&spelt(&received.reply(487, "b", &[]), way + 4));
        caller.expect(&invite, 487);
        callee.request("ACK");
        return;
    }
    callee.send(&spelt(&received.reply(200, "b", &[&contact]), way + 2));
    let answered = caller.response(&invite);
    caller.send(&spelt(&invite.in_dialog("ACK", &answered, &caller).bytes(), way + 3));
    callee.request("ACK");
    let bye = invite.in_dialog("BYE", &answered, &caller);
    caller.send(&spelt(&bye.bytes(), way + 4));
    let ended = callee.request("BYE");
    callee.send(&spelt(&ended.reply(200, "", &[]), way));
    assert_eq!(caller.response(&bye).status(), Some(200));
    // Keepalives and what is no SIP are nobody's.
    caller.send(b"\r\n\r\n");
    caller.send(b"\0");
}

/// Registrations, calls, cancelled calls and keepalives, all over UDP. Answers how many datagrams came and
/// how many of them crossed workers.
fn mixed_traffic(server: &Server) -> (u64, u64) {
    let users = ["ann", "bob", "eve"];
    let mut phones = users.map(|user| {
        let mut link = server.link(Via::Udp);
        link.register(user);
        (link, user)
    });
    for way in 0..42 {
        let (phone, user) = &mut phones[way % users.len()];
        call(server, phone, user, way);
    }
    server.assert_alive("mixed traffic");
    (server.metric("strowger_udp_in_total"), server.metric("strowger_udp_hops_total"))
}

#[test]
fn no_datagram_crosses_workers_where_the_kernel_steers() {
    if Steered::start().is_none() {
        return;
    }
    let mut server = Setup::open().workers(2).steering("kernel").start();
    for _ in 0..2 {
        assert!(server.log_has("steering"), "{}", server.log_text());
        let (came, crossed) = mixed_traffic(&server);
        assert!(came > 250, "{came}");
        assert_eq!(crossed, 0, "of {came}");
        assert_eq!(server.metric("strowger_steering{grade=\"kernel\"}"), 1);
        assert!(String::from_utf8_lossy(&server.ctl(&["status"]).stdout).contains("kernel"));
        assert_gave_up_what_it_took(&server);
        // A new process takes over the port and what belongs to it.
        server.restart();
    }
}

/// What goes through the kernel together is steered by the first of it.
#[test]
fn a_generator_sends_each_datagram_alone_where_it_is_told_to() {
    if Steered::start().is_none() {
        return;
    }
    let calm = "[overload]\nenabled = false\n";
    let server = Setup::open().workers(2).steering("kernel").config(calm).start();
    let target = server.sip().to_string();
    let figures = || (server.metric("strowger_udp_in_total"), server.metric("strowger_udp_hops_total"));
    let crossed = |more: &[&str]| {
        let before = figures();
        let ip = fresh_ip().to_string();
        let args = ["-sn", "options", &target, "-i", &ip, "-r", "20000", "-m", "1000", "--workers", "1"];
        // How many the server answers in time is not what is tested.
        let done =
            text(&load(&[&args[..], &["-nr", "-recv_timeout", "5000", "--success", "0"], more].concat()));
        let after = figures();
        assert!(after.0 - before.0 > 500, "{before:?} {after:?} {done}");
        after.1 - before.1
    };
    assert_eq!(crossed(&["--udp-segmentation", "off"]), 0);
    assert_eq!(crossed(&["--grain", "0"]), 0);
    let all = crossed(&[]);
    assert!(all > 20, "{all}");
}

/// None of the server's threads may load programs into the kernel any more, once the one that does has ended.
/// It has the overload program checked while the others serve.
fn assert_gave_up_what_it_took(server: &Server) {
    eventually("the thread that steers ends", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")));
        (!names.flatten().any(|name| name.trim_end() == "steering")).then_some(())
    });
    const BPF_AND_PERFMON: u64 = 1 << 39 | 1 << 38;
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    for thread in threads.map(|thread| thread.unwrap().path()) {
        // One may have ended meanwhile.
        let Ok(status) = std::fs::read_to_string(thread.join("status")) else { continue };
        let sets: Vec<&str> =
            status.lines().filter(|line| line.starts_with("Cap") && !line.starts_with("CapBnd")).collect();
        assert_eq!(sets.len(), 4, "{status}");
        for set in sets {
            let bits = u64::from_str_radix(set.split_ascii_whitespace().last().unwrap(), 16).unwrap();
            assert_eq!(bits & BPF_AND_PERFMON, 0, "{set} of {}", thread.display());
        }
    }
}

#[test]
fn over_rings_a_datagram_makes_one_hop_at_most() {
    let server = Setup::open().workers(2).steering("ring").start();
    let (came, crossed) = mixed_traffic(&server);
    assert!(crossed > 0 && crossed < came, "{crossed} of {came}");
    let (given, taken) = (server.metric("strowger_hops_out_total"), server.metric("strowger_hops_in_total"));
    assert_eq!((given, taken), (crossed, crossed));
    assert_eq!(server.metric("strowger_steering{grade=\"ring\"}"), 1);
}

#[test]
fn without_the_privilege_the_rings_take_over_and_the_log_says_what_to_allow() {
    let server = Setup::open().workers(2).steering("auto").unprivileged().start();
    for said in ["the kernel does not steer", "CAP_BPF", "CAP_PERFMON", "a hop", "steering = \"ring\""] {
        assert!(server.log_text().replace("\\\"", "\"").contains(said), "{said}: {}", server.log_text());
    }
    let (came, crossed) = mixed_traffic(&server);
    assert!(crossed > 0 && crossed < came, "{crossed} of {came}");
    // Where it is asked for by name there is no start without it.
    let listen = format!("udp:{}:5060", fresh_ip());
    let mut command = without_capabilities();
    command.args([
        "serve",
        "--listen",
        &listen,
        "--workers",
        "2",
        "--steering",
        "kernel",
        "--admin",
        "off",
        "--data-dir",
    ]);
    command.arg(server.data().with_file_name("other")).stdin(Stdio::null());
    let refused = command.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("cannot steer") && said.contains("CAP_BPF") && said.contains("\"auto\""), "{said}");
}
