//! Call records of a real server: the file that an operator reads.

use live::{Link, PATIENCE, Req, Server, Setup, fresh_ip, unique};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A server with a file of records, and the phone of bob.
fn site() -> (Server, Link, PathBuf) {
    let file = std::env::temp_dir().join(format!("strowger-records-{}.jsonl", unique("r")));
    let server = Setup::open().config(&format!("[records]\nfile = \"{}\"\n", file.display())).start();
    let mut bob = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    let answer = bob.ask(&Req::register("bob", &bob));
    assert_eq!(answer.status(), Some(200));
    (server, bob, file)
}

/// The records in the file, when there are `count` of them.
fn records(file: &PathBuf, count: usize) -> Vec<serde_json::Value> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if text.lines().count() >= count || begun.elapsed() > PATIENCE {
            let all: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            assert_eq!(all.len(), count, "{text}");
            return all;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn calls_before_and_after_a_kill_have_one_record_each() {
    let (mut server, mut bob, file) = site();
    let mut ann = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    // Refused.
    let busy = Req::invite("sip:bob@example.com", &ann).user("ann");
    ann.send(&busy.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(486, "x", &[]));
    assert_eq!(ann.response(&busy).status(), Some(486));
    // Answered, and up when the server is killed.
    let (invite, tag) = (Req::invite("sip:bob@example.com", &ann).user("ann"), unique("b"));
    ann.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(180, &tag, &[]));
    bob.send(&received.reply(200, &tag, &[&format!("Contact: <{}>", bob.contact("bob"))]));
    let answer = ann.find_within(PATIENCE, |m| m.answers(&invite) && m.status() == Some(200)).expect("a 200");
    ann.send(&invite.in_dialog("ACK", &answer, &ann).bytes());
    bob.request("ACK");
    server.kill();
    server.restart();
    let bye = invite.in_dialog("BYE", &answer, &ann);
    ann.send(&bye.bytes());
    let received = bob.request("BYE");
    bob.send(&received.reply(200, "", &[]));
    assert_eq!(ann.response(&bye).status(), Some(200));

    let all = records(&file, 2);
    assert_eq!((&all[0]["status"], &all[0]["ended_by"]), (&486.into(), &"callee".into()));
    assert_eq!(all[0]["answered"], serde_json::Value::Null);
    assert_eq!((&all[1]["status"], &all[1]["ended_by"]), (&200.into(), &"caller".into()));
    assert_eq!(all[1]["call_id"], invite.call_id.as_str());
    for name in ["started", "ringing", "answered", "ended"] {
        assert!(all[1][name].is_string(), "{name}: {}", all[1]);
    }
    assert_eq!(server.metric("strowger_call_record_events_lost_total"), 0);
    let _ = fs::remove_file(file);
}

#[test]
fn invite_with_the_ids_of_a_call_has_its_own_record() {
    let (server, mut bob, file) = site();
    let [mut ann, mut eve] = [(); 2].map(|()| Link::udp_at((fresh_ip(), 5060).into(), server.sip()));
    let (invite, tag) = (Req::invite("sip:bob@example.com", &ann).user("ann"), unique("b"));
    ann.send(&invite.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(200, &tag, &[&format!("Contact: <{}>", bob.contact("bob"))]));
    let answer = ann.find_within(PATIENCE, |m| m.answers(&invite) && m.status() == Some(200)).expect("a 200");
    ann.send(&invite.in_dialog("ACK", &answer, &ann).bytes());
    bob.request("ACK");
    let (call_id, from) = (invite.call_id.clone(), invite.from.clone());
    let copy = Req { call_id, from, ..Req::invite("sip:bob@example.com", &eve) };
    eve.send(&copy.bytes());
    let received = bob.request("INVITE");
    bob.send(&received.reply(486, "x", &[]));
    assert_eq!(eve.response(&copy).status(), Some(486));
    let bye = invite.in_dialog("BYE", &answer, &ann);
    ann.send(&bye.bytes());
    let received = bob.request("BYE");
    bob.send(&received.reply(200, "", &[]));
    assert_eq!(ann.response(&bye).status(), Some(200));
    let all = records(&file, 2);
    let of = |name: &str| [&all[0][name], &all[1][name]];
    assert_eq!(of("status"), [&486.into(), &serde_json::Value::from(200)]);
    assert_eq!(of("joined"), [&0.into(), &serde_json::Value::from(0)]);
    assert_eq!(of("call_id")[0], of("call_id")[1]);
    let _ = fs::remove_file(file);
}

#[test]
fn stateless_server_refuses_to_keep_records() {
    let config = "[proxy]\nmode = \"stateless\"\n[records]\nfile = \"calls.jsonl\"\n";
    let path = std::env::temp_dir().join(format!("strowger-records-{}.toml", unique("c")));
    fs::write(&path, config).expect("it is written");
    let output = live::run(["check".as_ref(), "--config".as_ref(), path.as_os_str()]);
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("a stateless server keeps no call records"), "{said}");
    let _ = fs::remove_file(path);
}

/// A server of records that refuses the first requests: what it was sent and accepted.
fn collector(refusals: usize) -> (String, std::sync::mpsc::Receiver<serde_json::Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/calls", listener.local_addr().expect("an address"));
    let (told, accepted) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = BufReader::new(stream.expect("a connection"));
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).expect("a body");
            let status = if number < refusals { 500 } else { 200 };
            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.get_mut().write_all(answer.as_bytes()).expect("an answer");
            for line in String::from_utf8(body).expect("text").lines().filter(|_| status == 200) {
                let _ = told.send(serde_json::from_str(line).expect("JSON"));
            }
        }
    });
    (url, accepted)
}

#[test]
fn records_are_sent_when_their_server_takes_them_again() {
    let (url, accepted) = collector(2);
    let mut server = Setup::open().config(&format!("[records]\nurl = \"{url}\"\n")).start();
    let mut ann = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    let call = |ann: &mut Link| {
        let invite = Req::invite("sip:nobody@example.com", ann).user("ann");
        ann.send(&invite.bytes());
        assert_eq!(ann.response(&invite).status(), Some(404));
        invite.call_id
    };
    let first = call(&mut ann);
    let second = call(&mut ann);
    server.kill();
    server.restart();
    let third = call(&mut ann);
    for expected in [first, second, third] {
        let record = accepted.recv_timeout(PATIENCE).expect("a record");
        assert_eq!((&record["call_id"], &record["status"]), (&expected.into(), &404.into()));
    }
}
