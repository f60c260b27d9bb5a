//! The load generator where something is in its way: itself, the machine, or what it was given.

use live::{Beside, fresh_ip, fresh_ips, load, run, text};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

fn file(name: &str, content: &str) -> PathBuf {
    live::file(env!("CARGO_TARGET_TMPDIR"), name, content)
}

/// A callee that answers all calls.
fn callee() -> (Beside, String) {
    let ip = fresh_ip().to_string();
    (Beside::load(&["-sn", "uas", "-i", &ip, "-p", "5060"]), ip)
}

#[test]
fn a_generator_that_stood_still_says_nothing_of_the_server() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    // Four seconds of calls, of which it sleeps through one.
    let generator = Beside::load(&["-sn", "uac", "-i", &ip, &target, "-r", "100", "-m", "400", "-nr"]);
    std::thread::sleep(Duration::from_millis(500));
    generator.signal("STOP");
    std::thread::sleep(Duration::from_secs(1));
    generator.signal("CONT");
    let (said, code) = generator.end();
    assert_eq!(code, Some(3), "{said}");
    let verdict: Vec<&str> = said.lines().skip_while(|line| *line != "VOID").collect();
    assert!(verdict.iter().any(|line| line.contains("generator's lateness")), "{said}");
    for server in ["srd", "successful", "FAIL"] {
        assert!(verdict.iter().all(|line| !line.contains(server)), "{server}: {said}");
    }
    // What was measured is from when calls were meant to begin, so the second is in it.
    let late = said.lines().find(|line| line.starts_with("lateness")).expect("its lateness");
    let numbers: Vec<f64> = late.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.get(4).is_some_and(|&max| max > 500.0), "{late}");
}

#[test]
fn a_generator_that_stood_still_while_calls_paused_says_nothing_of_the_server() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    // All calls have begun when it stops, and should end before it goes on. The bound of lateness is wide
    // because this machine is busy with other tests.
    let pause = ["-d", "2000", "-r", "100", "-m", "20", "--lateness", "500", "-nr"];
    let generator = Beside::load(&[&["-sn", "uac", "-i", &ip, &target], &pause[..]].concat());
    std::thread::sleep(Duration::from_secs(1));
    generator.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    generator.signal("CONT");
    let (said, code) = generator.end();
    assert_eq!(code, Some(3), "{said}");
    let verdict: Vec<&str> = said.lines().skip_while(|line| *line != "VOID").collect();
    assert!(verdict.iter().any(|line| line.contains("generator's lateness")), "{said}");
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).expect("its line").to_owned();
    let numbers =
        |text: &str| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<f64>>();
    // From when the BYE was meant to go.
    let bye = line("sdd");
    assert!(numbers(&bye).first().is_some_and(|&p50| p50 > 500.0), "{said}");
}

/// With nothing due meanwhile: the kernel knows when the answer came, also where messages do not wait for
/// each other.
#[test]
fn what_lay_there_while_the_generator_stood_still_is_its_lateness() {
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    server.set_read_timeout(Some(live::PATIENCE)).expect("a limit");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    // A second is more than the ten times that one of few may be late.
    let args = ["-sn", "options", "-i", &ip, &target, "-m", "1", "-nr", "--grain", "0", "--lateness", "50"];
    let generator = Beside::load(&args);
    let mut room = [0; 65_536];
    let (length, from) = server.recv_from(&mut room).expect("an OPTIONS");
    generator.signal("STOP");
    let asked = String::from_utf8_lossy(&room[..length]).into_owned();
    let copied = asked.lines().skip(1).map(|line| format!("{line}\r\n")).collect::<String>();
    server.send_to(format!("SIP/2.0 200 OK\r\n{copied}").as_bytes(), from).expect("it is sent");
    std::thread::sleep(Duration::from_secs(1));
    generator.signal("CONT");
    let (said, code) = generator.end();
    assert!(code == Some(3) && said.contains("generator's lateness"), "{said}");
}

/// It has the processor, and not enough of it.
#[test]
fn a_generator_that_is_asked_for_more_than_it_can_says_nothing_of_the_server() {
    // Bound, and nobody reads.
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    // A call for each tenth of a microsecond. Nobody answers, so each of them fails.
    let args = ["-sn", "uac", "-i", &ip, &target, "-r", "10000000", "-m", "50000", "--workers", "1"];
    let generator = Beside::load(&[&args[..], &["-recv_timeout", "50", "-nr"]].concat());
    let (said, code) = generator.end();
    assert_eq!(code, Some(3), "{said}");
    let verdict: Vec<&str> = said.lines().skip_while(|line| *line != "VOID").collect();
    assert!(verdict.iter().any(|line| line.contains("generator's lateness")), "{said}");
    assert!(!said.contains("FAIL"), "{said}");
}

#[test]
fn calls_that_wait_for_an_answer_when_the_run_ends_have_failed() {
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    let generator = Beside::load(&["-sn", "uac", "-i", &ip, &target, "-r", "10", "--lateness", "60000"]);
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    let (mut room, begun) = ([0; 65_536], std::time::Instant::now());
    let mut asked = 0;
    // It takes all calls (100) and answers none of them.
    while begun.elapsed() < Duration::from_secs(5) {
        let Ok((length, from)) = server.recv_from(&mut room) else { continue };
        let invite = String::from_utf8_lossy(&room[..length]).into_owned();
        let copied = invite.lines().filter(|line| {
            ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
        });
        let copied: String = copied.map(|line| format!("{line}\r\n")).collect();
        let trying = format!("SIP/2.0 100 Trying\r\n{copied}Content-Length: 0\r\n\r\n");
        server.send_to(trying.as_bytes(), from).expect("it is sent");
        asked += 1;
    }
    assert!(asked > 10, "{asked}");
    generator.signal("INT");
    std::thread::sleep(Duration::from_millis(500));
    generator.signal("INT");
    let (said, code) = generator.end();
    assert!(code == Some(1) && said.contains("FAIL") && said.contains("successful calls: 0 %"), "{said}");
}

#[test]
fn calls_that_wait_for_requests_that_never_come_are_no_pass() {
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    // Half of the calls want no more than their answer.
    let scenario = "<scenario name=\"waits\"><send retrans=\"500\"><![CDATA[\n\nOPTIONS sip:x SIP/2.0\n\
        Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\nFrom: <sip:u@x>;tag=[call_number]\nTo: <sip:x>\n\
        Call-ID: [call_id]\nCSeq: 1 OPTIONS\nContent-Length: 0\n\n]]></send>\
        <recv response=\"200\" next=\"1\" chance=\"0.5\"/><recv request=\"MESSAGE\"/><label id=\"1\"/></scenario>";
    let scenario = file("waits.xml", scenario).to_str().expect("a name").to_owned();
    let args = ["-sf", &scenario, "-i", &ip, &target, "-r", "20", "--lateness", "60000", "--seed", "1"];
    let generator = Beside::load(&args);
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    let (mut room, begun) = ([0; 65_536], std::time::Instant::now());
    while begun.elapsed() < Duration::from_secs(5) {
        let Ok((length, from)) = server.recv_from(&mut room) else { continue };
        let asked = String::from_utf8_lossy(&room[..length]).into_owned();
        let copied = asked.lines().skip(1).map(|line| format!("{line}\r\n")).collect::<String>();
        server.send_to(format!("SIP/2.0 200 OK\r\n{copied}").as_bytes(), from).expect("it is sent");
    }
    generator.signal("INT");
    std::thread::sleep(Duration::from_millis(500));
    generator.signal("INT");
    let (said, code) = generator.end();
    assert_eq!(code, Some(3), "{said}");
    for words in ["Calls unfinished", "VOID", "calls that waited for the other side when the run ended: "] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn calls_that_had_no_room_are_said() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let few =
        ["-l", "2", "-r", "20", "-d", "2000", "-timeout", "2s", "--workers", "1", "--lateness", "60000"];
    let generator = Beside::load(&[&["-sn", "uac", "-i", &ip, &target], &few[..]].concat());
    let (said, code) = generator.end();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("calls left out, for there was no room for them (-l): "), "{said}");
}

#[test]
fn a_search_of_which_no_trial_says_anything_blames_nobody() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let search = ["--find-peak", "-r", "2", "--trial", "1s", "--lateness", "0"];
    let out = run(["load", "-sn", "uac", "-i", &ip, &target].iter().chain(&search));
    let said = text(&out);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("no peak: no trial conformed"), "{said}");
}

/// Where the first `count` messages that come to `socket` are from.
fn sources(socket: &UdpSocket, count: usize) -> Vec<SocketAddr> {
    socket.set_read_timeout(Some(live::PATIENCE)).expect("a limit");
    let mut room = [0; 65_536];
    (0..count).map(|_| socket.recv_from(&mut room).expect("a message").1).collect()
}

#[test]
fn each_call_has_a_socket_of_its_own_if_asked() {
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    // Nobody answers, so all calls are under way at a time.
    let args = ["-sn", "uac", "-t", "un", "-i", &ip, &target, "-r", "500", "-m", "50", "-l", "50", "-nr"];
    let _generator = Beside::load(&args);
    let mut ports: Vec<u16> = sources(&server, 50).iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 50);
}

#[test]
fn each_call_has_a_connection_of_its_own_if_asked() {
    let server = TcpListener::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    let args = ["-sn", "uac", "-t", "tn", "-i", &ip, &target, "-r", "500", "-m", "20", "--lateness", "1000"];
    let generator = Beside::load(&args);
    // Nobody answers, so all calls are under way at a time.
    server.set_nonblocking(true).expect("an option");
    let mut streams = Vec::new();
    live::eventually("20 connections", || {
        streams.extend(server.accept().map(|(stream, _)| stream));
        (streams.len() == 20).then_some(())
    });
    let call_id = |stream: &TcpStream| {
        stream.set_nonblocking(false).expect("an option");
        stream.set_read_timeout(Some(live::PATIENCE)).expect("a limit");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(head[0].starts_with("INVITE "), "{head:?}");
        head.into_iter().find(|line| line.starts_with("Call-ID:")).expect("a Call-ID")
    };
    let mut calls: Vec<String> = streams.iter().map(call_id).collect();
    calls.sort();
    calls.dedup();
    assert_eq!(calls.len(), 20, "one call to each");
    // A call ends with its connection.
    drop(streams);
    let (said, code) = generator.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("destination unreachable"), "{said}");
}

#[test]
fn calls_come_from_the_addresses_of_a_range_or_of_a_file() {
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let target = server.local_addr().expect("its address").to_string();
    let ips: [_; 6] = fresh_ips();
    let range = format!("{}-{}", ips[0], ips[5]);
    let common = [&target, "-sn", "uac", "-t", "ui", "-r", "500", "-nr", "-m", "30"];
    {
        let _generator = Beside::load(&[&common[..], &["-i", &range]].concat());
        let mut seen: Vec<_> = sources(&server, 30).iter().map(SocketAddr::ip).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, ips, "all of them are used");
    }
    let csv = file("ips.csv", &format!("SEQUENTIAL\na;{}\nb;{}\n", ips[1], ips[4]));
    let csv = csv.to_str().expect("a name");
    let _generator = Beside::load(&[&common[..], &["-inf", csv, "-ip_field", "1"]].concat());
    let mut seen: Vec<_> = sources(&server, 30).iter().map(|a| (a.ip(), a.port())).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.iter().map(|(ip, _)| *ip).collect::<Vec<_>>(), [ips[1], ips[4]], "one socket for each");
}

#[test]
fn calls_go_over_ipv6() {
    let server = UdpSocket::bind("[::1]:0").expect("this machine has IPv6");
    let port = server.local_addr().expect("its address").port().to_string();
    drop(server);
    let _callee = Beside::load(&["-sn", "uas", "-i", "::1", "-p", &port]);
    let target = format!("[::1]:{port}");
    for transport in ["u1", "un"] {
        let out = run([
            "load",
            "--quiet",
            "--lateness",
            "60000",
            "-sn",
            "uac",
            &target,
            "-t",
            transport,
            "-m",
            "20",
        ]);
        assert!(out.status.success(), "{transport}: {}", text(&out));
    }
}

#[test]
fn users_call_again_when_they_are_done() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let json = file("users.json", "");
    let json = json.to_str().expect("a name");
    let args = ["-sn", "uac", "-i", &ip, &target, "-users", "5", "-m", "40", "-d", "20", "--json", json];
    let out = load(&args);
    let said = text(&out);
    assert!(
        out.status.success() && said.contains("Calls begun                                              40"),
        "{said}"
    );
    let report = std::fs::read_to_string(json).expect("its report");
    assert!(report.contains("closed loop: 5 users") && !report.contains("evenly spaced"), "{report}");
}

#[test]
fn users_who_are_all_in_a_call_do_not_end_what_is_measured() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let args =
        ["-sn", "uac", "-i", &ip, &target, "-users", "2", "-d", "300", "--timeout", "3s", "--warm-up", "1"];
    let out = load(&args);
    let said = text(&out);
    let busy = said
        .lines()
        .find_map(|line| line.strip_prefix("Generator's processor time, busiest worker"))
        .unwrap_or("");
    let percent: f64 = busy.trim().trim_end_matches('%').trim().parse().unwrap_or(-1.0);
    assert!(out.status.success() && (0.0..=100.0).contains(&percent), "{said}");
}

#[test]
fn fewer_users_than_workers_make_all_the_calls() {
    let (_callee, target) = callee();
    let ip = fresh_ip().to_string();
    let args = ["-sn", "uac", "-i", &ip, &target, "-users", "1", "-m", "10", "--workers", "2"];
    let out = load(&args);
    let said = text(&out);
    assert!(said.contains("Calls begun                                              10"), "{said}");
}

#[test]
fn users_whose_calls_end_at_once_can_be_stopped() {
    // What is sent and not waited for ends with its sending.
    let scenario = file(
        "at-once.xml",
        "<?xml version=\"1.0\"?><scenario name=\"at once\"><send><![CDATA[\nOPTIONS sip:[service]@[remote_ip] SIP/2.0\n\
         Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\nFrom: <sip:a@b>;tag=[call_number]\n\
         To: <sip:c@d>\nCall-ID: [call_id]\nCSeq: 1 OPTIONS\nContent-Length: 0\n\n]]></send></scenario>",
    );
    let server = UdpSocket::bind((fresh_ip(), 0)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    let path = scenario.to_str().expect("a name");
    let args = ["-sf", path, "-i", &ip, &target, "-users", "1", "--timeout", "300ms"];
    let out = load(&args);
    assert!(text(&out).contains("Calls begun"), "{}", text(&out));
}

#[test]
fn the_search_of_rfc_7502_ends_where_nothing_succeeds() {
    let (ip, target) = (fresh_ip().to_string(), format!("{}:5999", fresh_ip()));
    let search = ["--find-peak", "--rfc7502", "--attempts", "2", "-r", "20", "-max_invite_retrans", "0"];
    let args = ["--lateness", "60000", "-sn", "uac", "-i", &ip, &target];
    let out = run(["load"].iter().chain(&search).chain(&args));
    let said = text(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    // By a tenth each time, in whole numbers: 20, 18, 16, 14.
    let rates: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("trial "))
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    assert!(rates.starts_with(&["20", "18", "16", "14"]) && rates.ends_with(&["2", "1"]), "{said}");
    assert!(said.contains("no peak: even 1 attempts/s do not conform"), "{said}");
}

#[test]
fn silence_is_said_while_the_run_goes_on() {
    // Bound, and nobody reads.
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    let mut child = Command::new(live::binary())
        .args(["load", "-sn", "uac", "-i", &ip, &target, "-r", "5"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the generator starts");
    let lines = BufReader::new(child.stderr.take().expect("its messages")).lines();
    let said = lines.map_while(Result::ok).find(|line| line.starts_with("nothing has come back from"));
    let _ = child.kill();
    let _ = child.wait();
    assert!(said.is_some_and(|line| line.contains(&target)), "it has no end of its own");
}

#[test]
fn what_nobody_listens_to_is_said_at_once() {
    let (ip, target) = (fresh_ip().to_string(), format!("{}:5060", fresh_ip()));
    let out = load(&["-sn", "uac", "-i", &ip, &target, "-m", "1", "-max_invite_retrans", "1"]);
    let said = text(&out);
    assert!(said.contains(&format!("nobody listens at {target} over UDP")), "{said}");
}

#[test]
fn who_answers_and_is_not_called_has_not_failed() {
    let ip = fresh_ip().to_string();
    let out = load(&["-sn", "uas", "-i", &ip, "-p", "5060", "--timeout", "1s"]);
    let said = text(&out);
    assert!(out.status.success() && said.contains("no calls came"), "{said}");
}

#[test]
fn a_self_test_says_how_late_the_machine_is_and_what_was_found() {
    // As lenient as can be, for the machine is busy with other tests; one rate, so that it is short.
    let limits =
        ["--lateness", "60000", "-r", "1000", "-rate_max", "1000", "--trial", "1s", "--workers", "1"];
    let report = file("self.json", "");
    let report = report.to_str().expect("a name");
    let out = run(["load", "--self-test", "--json", report].iter().chain(&limits));
    let said = text(&out);
    assert!(said.contains("lateness of a bare thread on this machine: p50 "), "{said}");
    assert!(
        said.contains("this ends within 5 minutes") && said.contains("trial  2     1000 calls/s"),
        "{said}"
    );
    if out.status.success() {
        for words in [
            "trusted up to 1000 calls/s",
            "limited by nothing up to",
            "half that rate (500 calls/s), the middle of 3 runs: p50",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        let json = std::fs::read_to_string(report).expect("its report");
        assert!(json.contains("lateness of a bare thread") && json.contains("to be trusted up to"), "{json}");
    } else {
        // A machine so busy that packets are lost has no figure, and why is said. It is no other failure.
        assert_eq!(out.status.code(), Some(3), "{said}");
        let why = said.lines().find_map(|line| line.strip_prefix("no figure: ")).expect("why");
        let of_generator =
            ["had no room for", "busiest worker", "successful calls", "successful transactions"];
        assert!(of_generator.iter().any(|limit| why.contains(limit)), "{why}");
        assert!(said.contains("what else runs on this machine"), "{said}");
    }
}

#[test]
fn a_refusal_is_acknowledged_on_the_wire() {
    let server = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    server.set_read_timeout(Some(live::PATIENCE)).expect("a limit");
    let (ip, target) = (fresh_ip().to_string(), server.local_addr().expect("its address").to_string());
    let args = ["-sn", "uac", "-i", &ip, &target, "-m", "1", "--lateness", "60000"];
    let generator = Beside::load(&args);
    let mut room = [0; 65_536];
    let (length, from) = server.recv_from(&mut room).expect("an INVITE");
    let invite = String::from_utf8_lossy(&room[..length]).into_owned();
    let lines = invite.lines().filter(|line| {
        ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
    });
    let copied = lines
        .map(|line| format!("{line}\r\n"))
        .collect::<String>()
        .replace("\r\nCall-ID", ";tag=x\r\nCall-ID");
    let busy = format!("SIP/2.0 486 Busy Here\r\n{copied}Content-Length: 0\r\n\r\n");
    server.send_to(busy.as_bytes(), from).expect("it is sent");
    let ack = loop {
        let (length, _) = server.recv_from(&mut room).expect("an ACK");
        let text = String::from_utf8_lossy(&room[..length]).into_owned();
        // The INVITE may come again meanwhile.
        if !text.starts_with("INVITE ") {
            break text;
        }
    };
    let line = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    assert!(ack.starts_with("ACK "), "{ack}");
    assert_eq!(line(&ack, "Via:"), line(&invite, "Via:"), "of the same transaction");
    assert!(line(&ack, "To:").is_some_and(|to| to.ends_with(";tag=x")), "{ack}");
    let (said, code) = generator.end();
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn what_the_machine_does_not_have_is_said_before_the_first_message() {
    let ip = fresh_ip();
    let taken = UdpSocket::bind((ip, 5070)).expect("a socket");
    let here = ip.to_string();
    let target = fresh_ip().to_string();
    let in_use = run(["load", "-sn", "uac", "-i", &here, "-p", "5070", &target]);
    let said = text(&in_use);
    assert_eq!(in_use.status.code(), Some(2), "{said}");
    assert!(said.contains("5070") && said.contains("ss -lntup"), "{said}");
    drop(taken);
    let few = Command::new("prlimit")
        .args([
            "--nofile=200:200",
            live::binary().to_str().expect("a name"),
            "load",
            "-sn",
            "uac",
            "-t",
            "un",
        ])
        .args(["-max_socket", "500", "-i", &here, &target])
        .output()
        .expect("prlimit is there");
    let said = text(&few);
    assert_eq!(few.status.code(), Some(2), "{said}");
    assert!(said.contains("this process may have 200") && said.contains("ulimit -n"), "{said}");
    // An address that is not of this machine.
    let foreign = run(["load", "-sn", "uac", "-i", "192.0.2.77", &target]);
    let said = text(&foreign);
    assert!(foreign.status.code() == Some(2) && said.contains("ip addr"), "{said}");
}

#[test]
fn mistakes_name_the_file_the_line_and_the_mend() {
    let ip = fresh_ip().to_string();
    let ip = ip.as_str();
    let scenario = |body: &str| format!("<scenario name=\"x\">\n{body}\n</scenario>\n");
    let send = "<send><![CDATA[\n\nOPTIONS sip:[field2]@x SIP/2.0\nCall-ID: [call_id]\n\n]]></send>";
    let fields = file("fields.xml", &scenario(send));
    let truncated = file("truncated.xml", "<scenario name=\"x\">\n<recv request=\"INVITE\">\n");
    let unknown =
        file("unknown.xml", &scenario("<send><![CDATA[\n\nOPTIONS sip:[nothing] SIP/2.0\n\n]]></send>"));
    let third = file("third.xml", &scenario("<sendCmd><![CDATA[\n\nx\n\n]]></sendCmd>"));
    let two = file("two.csv", "SEQUENTIAL\na;b\nc;d\n");
    let order = file("order.csv", "SOMEHOW\na;b\n");
    let blank = file("blank.csv", "SEQUENTIAL\na\n\nb\n");
    let empty = file("empty.csv", "SEQUENTIAL\n");
    let no_address = file("names.csv", "SEQUENTIAL\n127.0.0.1;x\nalice;y\n");
    let name = |path: &PathBuf| path.to_str().expect("a name").to_owned();
    let [fields, truncated, unknown, third] = [&fields, &truncated, &unknown, &third].map(name);
    let [two, order, blank, empty, no_address] = [&two, &order, &blank, &empty, &no_address].map(name);
    let cases: [(&[&str], &[&str]); 23] = [
        (&["-sf", &truncated, ip], &["truncated.xml:2:24: not well-formed XML", "add </recv>"]),
        (&["-sf", &unknown, ip], &["unknown.xml:4", "[nothing]", "-key"]),
        (&["-sf", &third, ip], &["third.xml:2", "sendCmd"]),
        (&["-sf", &fields, ip], &["fields.xml:4", "-inf"]),
        (
            &["-sf", &fields, "-inf", &two, ip],
            &["fields.xml:4:13: [field2]", "two.csv:2 has only 2", "add the field to every line"],
        ),
        (&["-sn", "uac", "-inf", &order, ip], &["order.csv", "SEQUENTIAL"]),
        (&["-sn", "uac", "-inf", &blank, ip], &["blank.csv:3", "take it out"]),
        (&["-sn", "uac", "-inf", &empty, ip], &["empty.csv", "add at least one line"]),
        (&["-sn", "uac", "-t", "ui", "-inf", &no_address, ip], &["names.csv", "alice", "-ip_field"]),
        (&["-sn", "uac", "-t", "ui", ip], &["-ip_field"]),
        (&["-sn", "uac", "-t", "u1", "-i", "127.0.0.2-127.0.0.9", ip], &["-t ui"]),
        (&["-sn", "uac_pcap", ip], &["media", "-sn uac"]),
        (&["-sn", "3pcc-A", ip], &["third-party"]),
        (&["-sn", "uac", "-3pcc", "x", ip], &["-3pcc", "not in this version"]),
        (&["-sn", "uac", "-bg", ip], &["-bg", "&"]),
        (&["-sn", "uac", "-trace_rtt", ip], &["-trace_rtt", "-trace_stat", "--csv"]),
        (&["-sn", "uac", "-trace_shortmsg", ip], &["-trace_msg", "--pcap"]),
        (&["-sn", "uac", "-fd", "1", ip], &["-fd 1", "-trace_stat"]),
        (&["-sn", "uac", "-cid_str", "x@%s", ip], &["-cid_str x@%s", "%u"]),
        (&["-sn", "uac", "-key", "whom", "x", ip], &["-key whom", "[whom]"]),
        (&["-sn", "uac", "-default_behaviors", "all,-hello", ip], &["-hello", "abortunexp"]),
        (&["-sn", "uac", "-set", "x", "1", ip], &["-set x", "<Global"]),
        (&["-sn", "uac", "nowhere.invalid"], &["cannot find nowhere.invalid"]),
    ];
    for (args, expected) in cases {
        let out = run(["load", "--quiet"].iter().chain(args));
        let said = text(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(!said.contains("ready:"), "{args:?}: nothing begins: {said}");
        for words in expected {
            assert!(said.contains(words), "{args:?}: {words} in {said}");
        }
    }
}

/// The name of a thread and its scheduling policy: field 41 of its stat (proc(5)); the 39th behind the name,
/// which may hold blanks.
fn policy(stat: &str) -> Option<(String, u32)> {
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
    Some((name.to_owned(), fields.split(' ').nth(38)?.parse().ok()?))
}

/// The policies of the threads with this pid: workers', and all others'.
fn policies(pid: u32) -> (Vec<u32>, Vec<u32>) {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    let read = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).ok();
    let all: Vec<_> = threads.filter_map(|thread| policy(&read(thread.ok()?)?)).collect();
    let of = |workers| {
        all.iter().filter(|(name, _)| name.starts_with("worker-") == workers).map(|thread| thread.1).collect()
    };
    (of(true), of(false))
}

#[test]
fn the_workers_of_a_generator_run_before_other_programs_where_they_may() {
    let ip = fresh_ip().to_string();
    let options = ["-sn", "uas", "-i", &ip, "-p", "5060", "--realtime"];
    let bare = live::without_capabilities().args(["load"]).args(options).args(["--timeout", "1"]).output();
    let said = text(&bare.expect("it runs"));
    assert!(said.contains("--realtime: Operation not permitted") && said.contains("root"), "{said}");

    let may = Command::new("chrt").args(["-f", "10", "true"]).stderr(Stdio::null()).status();
    if may.is_ok_and(|status| status.success()) {
        let generator = Beside::load(&options);
        let first = |&policy: &u32| policy == 1;
        // Each sees to itself once it runs.
        let mut looks = (0..500).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            policies(generator.pid())
        });
        let (_, others) = looks
            .find(|(workers, _)| !workers.is_empty() && workers.iter().all(first))
            .expect("all workers run first");
        // Who looks after workers that never rest must not wait for them.
        assert!(!others.is_empty() && !others.iter().any(first), "{others:?}");
    }
}
