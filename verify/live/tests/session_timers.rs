//! Session timers between phones that know them and phones that do not (RFC 4028), and lost calls.

use live::{Link, Msg, PATIENCE, Req, Server, Setup, eventually, fresh_ip, http, unique};
use std::time::{Duration, Instant};

const SUPPORTED: &str = "Supported: timer";
/// How long after the end of its session the record of a lost call is written, and some seconds for a busy
/// machine.
const LOST: Duration = Duration::from_secs(32 + 30);

/// A server, and the phones of ann and bob.
struct Site {
    server: Server,
    ann: Link,
    bob: Link,
}

fn site(proxy: &str) -> Site {
    let server = Setup::open().config(&format!("[proxy]\n{proxy}\n")).start();
    let mut bob = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    assert_eq!(bob.ask(&Req::register("bob", &bob)).status(), Some(200));
    let ann = Link::udp_at((fresh_ip(), 5060).into(), server.sip());
    Site { server, ann, bob }
}

fn asking() -> Site {
    site("session_interval = \"30m\"\nmin_session = 120")
}

/// A call that is up: its INVITE, what bob got, and what ann got.
struct Call {
    invite: Req,
    got: Msg,
    answer: Msg,
}

impl Site {
    fn invite(&self, lines: &[&str]) -> Req {
        let invite = Req::invite("sip:bob@example.com", &self.ann).user("ann");
        lines.iter().fold(invite, |invite, line| invite.with(line))
    }

    /// A call that bob answers with these lines.
    fn call(&mut self, invite: Req, lines: &[&str]) -> Call {
        self.ann.send(&invite.bytes());
        let got = self.bob.request("INVITE");
        let contact = format!("Contact: <{}>", self.bob.contact("bob"));
        let lines: Vec<&str> = std::iter::once(&contact[..]).chain(lines.iter().copied()).collect();
        self.bob.send(&got.reply(200, &unique("b"), &lines));
        let is_answer = |m: &Msg| m.answers(&invite) && m.status() == Some(200);
        let answer = self.ann.find_within(PATIENCE, is_answer).expect("a 200");
        self.ann.send(&invite.in_dialog("ACK", &answer, &self.ann).bytes());
        self.bob.request("ACK");
        Call { invite, got, answer }
    }

    fn bye(&mut self, call: &Call) {
        let bye = Req { cseq: 900, ..call.invite.in_dialog("BYE", &call.answer, &self.ann) };
        self.ann.send(&bye.bytes());
        let received = self.bob.request("BYE");
        self.bob.send(&received.reply(200, "", &[]));
        assert_eq!(self.ann.response(&bye).status(), Some(200));
    }

    /// The only call that is listed, when it is as wanted.
    fn listed(&self, what: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        eventually(what, || {
            let output = self.server.ctl(&["calls", "--output", "json"]);
            let all: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            all.get(0).filter(|call| wanted(call)).cloned()
        })
    }
}

/// Session-Expires, Min-SE and Require of a message.
fn timers(message: &Msg) -> [Option<&str>; 3] {
    ["Session-Expires", "Min-SE", "Require"].map(|name| message.header(name))
}

#[test]
fn each_pair_of_phones_gets_the_timer_that_it_can_have() {
    let mut site = asking();
    let theirs = "Session-Expires: 1800;refresher=uas";
    // Supported by the caller; the answer; what the caller gets; interval and session in the list.
    let [none, with]: [&[&str]; 2] = [&[], &[SUPPORTED]];
    let [alone, required]: [&[&str]; 2] = [&[theirs], &[theirs, "Require: timer"]];
    let confirmed = [Some("1800;refresher=uac"), None, Some("timer")];
    let both = [Some("1800;refresher=uas"), None, Some("timer")];
    let rows = [
        (with, none, confirmed, Some(1_800)),
        (none, alone, [Some("1800;refresher=uas"), None, None], Some(1_800)),
        (with, required, both, Some(1_800)),
        (none, none, [None; 3], None),
    ];
    for (supported, answer, wanted, interval) in rows {
        let call = site.call(site.invite(supported), answer);
        assert_eq!(timers(&call.got), [Some("1800"), None, None], "{supported:?} {answer:?}");
        assert_eq!(timers(&call.answer), wanted, "{supported:?} {answer:?}");
        let listed = site.listed("the call is answered", |call| call["state"] == "answered");
        assert_eq!(listed["session_interval_s"].as_u64(), interval, "{listed}");
        let session = if interval.is_some() { "live" } else { "unknown" };
        assert_eq!(listed["session"], session, "{listed}");
        site.bye(&call);
    }
}

#[test]
fn too_short_interval_is_asked_for_again() {
    let mut site = asking();
    let first = site.invite(&[SUPPORTED, "Session-Expires: 90"]);
    site.ann.send(&first.bytes());
    let refused = site.ann.response(&first);
    assert_eq!((refused.status(), refused.header("Min-SE")), (Some(422), Some("120")));
    site.ann.send(&first.ack(&refused).bytes());
    let mut retry = first.again(&site.ann, "Min-SE: 120");
    for line in retry.extra.iter_mut().filter(|line| line.starts_with("Session-Expires")) {
        *line = "Session-Expires: 120".to_owned();
    }
    let call = site.call(retry, &[]);
    assert_eq!(timers(&call.got), [Some("120"), Some("120"), None]);
    assert_eq!(timers(&call.answer), [Some("120;refresher=uac"), None, Some("timer")]);
    site.bye(&call);
    // A caller without timers cannot ask again: its interval is raised.
    let call = site.call(site.invite(&["Session-Expires: 60"]), &[]);
    assert_eq!(timers(&call.got), [Some("120"), Some("120"), None]);
}

#[test]
fn refresh_keeps_a_call_that_would_be_lost() {
    let mut site = asking();
    let call = site.call(site.invite(&[SUPPORTED]), &["Session-Expires: 2;refresher=uac", "Require: timer"]);
    assert_eq!(timers(&call.answer)[0], Some("2;refresher=uac"), "it is as bob has said");
    site.listed("the call is lost", |call| call["session"] == "lost");
    let update = call.invite.in_dialog("UPDATE", &call.answer, &site.ann).with(SUPPORTED);
    site.ann.send(&update.bytes());
    let received = site.bob.request("UPDATE");
    assert_eq!(received.header("Session-Expires"), Some("1800"));
    site.bob.send(&received.reply(200, "", &["Session-Expires: 1800;refresher=uac", "Require: timer"]));
    assert_eq!(site.ann.response(&update).status(), Some(200));
    let listed = site.listed("the call is live", |call| call["session"] == "live");
    assert_eq!(listed["session_interval_s"], 1_800);
    let table = site.server.ctl(&["calls"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("REFRESHED") && table.contains("1800 s"), "{table}");
    site.bye(&call);
}

#[test]
fn without_session_interval_nothing_is_asked_for() {
    let mut site = site("");
    let call = site.call(site.invite(&[SUPPORTED, "Session-Expires: 60"]), &[]);
    assert_eq!(timers(&call.got), [Some("60"), None, None]);
    assert_eq!(timers(&call.answer), [None; 3]);
    let described = http(site.server.admin(), "GET", "/v1/calls").body;
    assert!(described.contains("\"session\":\"unknown\""), "{described}");
    site.bye(&call);
}

#[test]
fn record_of_a_lost_call_ends_with_its_session() {
    let file = std::env::temp_dir().join(format!("strowger-timers-{}.jsonl", unique("t")));
    let records = format!("[records]\nfile = \"{}\"", file.display());
    let mut site = site(&format!("session_interval = \"30m\"\n{records}"));
    let lines = &["Session-Expires: 3;refresher=uac", "Require: timer"];
    let call = site.call(site.invite(&[SUPPORTED]), lines);
    // What was agreed on is known after a kill too.
    site.server.kill();
    site.server.restart();
    let begun = Instant::now();
    let record: serde_json::Value = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(line) = text.lines().next() {
            break serde_json::from_str(line).expect("JSON");
        }
        assert!(begun.elapsed() < LOST, "no record of the lost call");
        std::thread::sleep(Duration::from_millis(50));
    };
    let _ = std::fs::remove_file(file);
    assert_eq!((&record["status"], &record["ended_by"]), (&200.into(), &"timeout".into()));
    assert_eq!(record["call_id"], call.invite.call_id.as_str());
    // From the answer to the end of the session, not to when the record was written.
    assert!(record["seconds"].as_f64().is_some_and(|seconds| (3.0..30.0).contains(&seconds)), "{record}");
}
