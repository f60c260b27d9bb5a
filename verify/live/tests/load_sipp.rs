//! What `strowger load` does as SIPp does, and what it keeps to itself.

use live::{Beside, PATIENCE, figure, fresh_ip, load, run, text};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn file(name: &str, content: &str) -> PathBuf {
    live::file(env!("CARGO_TARGET_TMPDIR"), name, content)
}

#[test]
fn an_answering_side_ends_after_its_calls() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let answering =
        Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060", "-m", "3", "--lateness", "60000"]);
    let out = load(&["-sn", "uac", "-i", &caller, &callee, "-r", "100", "-m", "3"]);
    assert!(out.status.success(), "{}", text(&out));
    let (said, code) = answering.end();
    assert_eq!(code, Some(0), "{said}");
    let out = load(&["-sn", "uas", "-i", &callee, "-m", "3", "--workers", "2"]);
    assert!(out.status.code() == Some(2) && text(&out).contains("--workers 2: -m"), "{}", text(&out));
}

/// Answers the first INVITE that comes with this status line.
fn refuse_one(socket: &UdpSocket, status: &str) {
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut room = [0; 65_536];
    let (length, from) = socket.recv_from(&mut room).expect("an INVITE");
    let text = String::from_utf8_lossy(&room[..length]).into_owned();
    let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let lines = text.lines().filter(|line| copied.iter().any(|name| line.starts_with(name)));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    let answer = format!("{status}\r\n{lines}Content-Length: 0\r\n\r\n")
        .replace("To: ", "To: <sip:x@y>;tag=1\r\nX-To: ");
    socket.send_to(answer.as_bytes(), from).expect("it is sent");
}

#[test]
fn what_a_peer_writes_steers_no_terminal() {
    let socket = UdpSocket::bind((fresh_ip(), 5060)).expect("a socket");
    let target = socket.local_addr().expect("its address").to_string();
    let caller = fresh_ip().to_string();
    let answering = std::thread::spawn(move || refuse_one(&socket, "SIP/2.0 603 \x1b]0;OWNED\x07\x1b[31mNo"));
    let out = load(&["-sn", "uac", "-i", &caller, &target, "-m", "1"]);
    answering.join().expect("it has answered");
    let said = text(&out);
    assert!(said.contains("OWNED"), "the reason is shown: {said}");
    assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
}

#[test]
fn passwords_stay_where_they_were_given() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let (json, html) = (file("secret.json", ""), file("secret.html", ""));
    let (json, html) = (json.to_str().expect("a name"), html.to_str().expect("a name"));
    let secrets = ["-ap", "geheim42", "-key", "my_password", "geheim43", "--json", json, "--html", html];
    // A keyword that the scenario does not ask for is refused.
    let uac = run(["load", "-sd", "uac"].iter());
    let uac = String::from_utf8_lossy(&uac.stdout)
        .replace("Max-Forwards:", "X-Secret: [my_password]\n      Max-Forwards:");
    let uac = file("secret.xml", &uac);
    let uac = uac.to_str().expect("a name");
    let out = load(&[&["-sf", uac, "-i", &caller, &callee, "-r", "100", "-m", "5"], &secrets[..]].concat());
    assert!(out.status.success(), "{}", text(&out));
    for path in [json, html] {
        let report = std::fs::read_to_string(path).expect("a report");
        assert!(report.contains("my_password") && !report.contains("geheim"), "{path}");
    }
    let users = file("users.csv", "what everybody may read");
    let path = users.to_str().expect("a name");
    let args = ["--users", "2", "--domain", "x.test", "--first-password", "-geheim1", "--write-users", path];
    let out = run(["load"].iter().chain(&args));
    assert!(out.status.success(), "{}", text(&out));
    assert!(std::fs::read_to_string(&users).is_ok_and(|text| text.ends_with("x.test,-geheim2\n")));
    let mode = std::fs::metadata(&users).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let ip = fresh_ip().to_string();
    let of_users = file("of_users.csv", "USER\nann\nbob\n");
    let of_users = of_users.to_str().expect("a name");
    let cases: [(&[&str], &str); 28] = [
        (&["-sn", "uas", "-l", "5"], "only answers"),
        (&["-users", "10", "-l", "5"], "leave -l out"),
        (&["--json", "x.json", "--html", "./x.json"], "one file"),
        (&["--warm-up", "nan"], "number"),
        (&["--lateness", "nan"], "number"),
        (&["-lost", "200"], "from 0 to 100"),
        (&["-users", "0"], "0"),
        (&["-sn", "uas", "-users", "5"], "only answers"),
        (&["-inf", of_users], "give -users N"),
        (&["-inf", of_users, "--answer", "uas"], "write SEQUENTIAL"),
        (&["-max_socket", "5"], "-t un"),
        (&["-t", "tn", "-max_socket", "5"], "-l limits calls"),
        (&["-ip_field", "1"], "-t ui"),
        (&["-l", "0"], "from 1"),
        (&["-m", "0"], "0"),
        (&["-rate_interval", "2x"], "such as 10s"),
        (&["-base_cseq", "2147483648"], "2147483648"),
        (&["--arrivals", "ramp:10/60s"], "such as ramp:10..1000/60s"),
        (&["--arrivals", "steps:10"], "such as steps:100@60s,200@60s"),
        (&["--arrivals", "sawtooth:10"], "there are constant, poisson, ramp, steps, burst"),
        (&["--arrivals", "constant:0"], "no call would ever begin"),
        (&["--arrivals", "constant:5", "-r", "5"], "cannot be used with"),
        (&["--arrivals", "constant:5", "--poisson"], "cannot be used with"),
        (&["--arrivals", "constant:5", "-rate_max", "50"], "cannot be used with"),
        (&["--arrivals", "constant:5", "-users", "5"], "cannot be used with"),
        (&["--arrivals", "constant:5", "--users", "5"], "cannot be used with"),
        (&["--arrivals", "constant:5", "--find-peak"], "cannot be used with"),
        (
            &["-sf", "/nonexistent.xml", "-rp", "5s", "-d", "1m", "-recv_timeout", "2s", "-T2", "4s"],
            "/nonexistent.xml",
        ),
    ];
    for (args, expected) in cases {
        let out = run(["load", &ip].into_iter().chain(args.iter().copied()));
        let said = text(&out);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn a_rate_rises_by_the_second() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let args = ["-sn", "uac", "-i", &caller, &callee, "-r", "10", "-rate_increase", "10", "-rate_max", "20"];
    // 10 a second for two seconds, then 20 until the next would be more than the highest.
    let out = load(&[&args[..], &["-rate_interval", "2", "-timeout", "3"]].concat());
    let said = text(&out);
    let begun = said.lines().find_map(|line| line.strip_prefix("Calls begun")).expect("calls");
    let begun: f64 = begun.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    assert!((20.0..50.0).contains(&begun), "{said}");
}

#[test]
fn calls_begin_as_they_are_told_to() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let _callee = Beside::load(&["-sn", "uas", "-i", &callee, "-p", "5060"]);
    let begun = |how: &str, more: &[&str]| {
        let args = ["-sn", "uac", "-i", &caller, &callee, "--arrivals", how];
        let out = load(&[&args[..], more].concat());
        assert!(out.status.success(), "{how}: {}", text(&out));
        figure(&text(&out), "Calls begun")
    };
    // What ends by itself is exact; with --timeout a call more or less may begin.
    assert_eq!(begun("steps:20@500ms,100@500ms", &[]), 60.0);
    assert_eq!(begun("ramp:200..0/1s", &[]), 100.0);
    assert_eq!(begun("burst:7/100ms", &["-m", "21"]), 21.0);
    let ramped = begun("ramp:0..200/1s", &["-timeout", "2"]);
    assert!((270.0..=330.0).contains(&ramped), "100 in the first second and 200 in the other: {ramped}");
    let random = begun("poisson-steps:200@1s", &["--seed", "3"]);
    assert!((130.0..270.0).contains(&random) && random == begun("poisson-steps:200@1s", &["--seed", "3"]));
}

#[test]
fn global_variables_are_one_set() {
    let scenario = file(
        "global.xml",
        "<scenario name=\"global\"><Global variables=\"n\"/>\
         <nop><action><add assign_to=\"n\" value=\"1\"/><log message=\"n is [$n]\"/></action></nop>\
         <send><![CDATA[\n\nOPTIONS sip:[remote_ip] SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
         From: <sip:a@b>;tag=[call_number]\nTo: <sip:a@b>\nCall-ID: [call_id]\nCSeq: [cseq] OPTIONS\nContent-Length: 0\n\n\
         ]]></send><recv response=\"200\"/></scenario>",
    );
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let answer = file(
        "answer.xml",
        "<scenario name=\"answer\"><recv request=\"OPTIONS\"/><send><![CDATA[\n\nSIP/2.0 200 OK\n[last_Via:]\n\
         [last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n\n]]></send></scenario>",
    );
    let _callee = Beside::load(&["-sf", answer.to_str().expect("a name"), "-i", &callee, "-p", "5060"]);
    let path = scenario.to_str().expect("a name");
    let args = ["-sf", path, "-i", &caller, &callee, "-r", "50", "-m", "6", "-recv_timeout", "20s"];
    let out = load(&args);
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    let counted: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("n is ")).collect();
    assert_eq!(counted, ["1.000000", "2.000000", "3.000000", "4.000000", "5.000000", "6.000000"], "{said}");
    let out = load(&[&args[..], &["--workers", "2"]].concat());
    assert!(out.status.code() == Some(2) && text(&out).contains("<Global>"), "{}", text(&out));
}

/// One call says so, and so one worker.
#[test]
fn a_scenario_that_stops_the_run_stops_all_workers() {
    let (caller, callee) = (fresh_ip().to_string(), fresh_ip().to_string());
    let answer = file(
        "answers.xml",
        "<scenario name=\"answers\"><recv request=\"OPTIONS\"/><send><![CDATA[\n\nSIP/2.0 200 OK\n[last_Via:]\n\
         [last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n\n]]></send></scenario>",
    );
    let _callee = Beside::load(&["-sf", answer.to_str().expect("a name"), "-i", &callee, "-p", "5060"]);
    for command in ["stop_now", "stop_gracefully"] {
        let scenario = file(
            &format!("{command}.xml"),
            &format!(
                "<scenario name=\"stops\"><send><![CDATA[\n\nOPTIONS sip:[remote_ip] SIP/2.0\n\
                 Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\nFrom: <sip:a@b>;tag=[call_number]\n\
                 To: <sip:a@b>\nCall-ID: [call_id]\nCSeq: [cseq] OPTIONS\nContent-Length: 0\n\n]]></send>\
                 <recv response=\"200\"/><nop next=\"others\" test=\"other\"><action>\
                 <assignstr assign_to=\"text\" value=\"[call_number]\"/><todouble variable=\"text\" assign_to=\"n\"/>\
                 <test variable=\"n\" compare=\"not_equal\" value=\"15\" assign_to=\"other\"/></action></nop>\
                 <nop><action><exec int_cmd=\"{command}\"/></action></nop><label id=\"others\"/></scenario>"
            ),
        );
        let path = scenario.to_str().expect("a name");
        let started = std::time::Instant::now();
        let out =
            load(&["-sf", path, "-i", &caller, &callee, "-r", "50", "--workers", "2", "--timeout", "60s"]);
        let (said, seconds) = (text(&out), started.elapsed().as_secs());
        assert!(out.status.success() && seconds < 30, "{command}: {seconds} s, {said}");
    }
}
