//! Back ends, asked in virtual time without a socket.

use super::*;
use wire::ListenerId;

const CALLER: &str = "192.0.2.1:5062";

/// A second of work for an INVITE and a BYE, always the same, one after the other.
fn slow() -> Model {
    Model { capacity: 1.0, sharing: 1, room: 2, variation: 0.0, ..Model::default() }
}

struct World {
    backend: Backend,
    now: Time,
    out: Outbox,
}

impl World {
    fn new(models: &[Model]) -> World {
        let address = |nth: usize| SocketAddr::new([192, 0, 2, 10 + nth as u8].into(), 5060);
        let all: Vec<_> = models.iter().enumerate().map(|(nth, model)| (address(nth), *model)).collect();
        let now = Time::from_secs(100);
        World { backend: Backend::new(&all, 1, now), now, out: Outbox::new() }
    }

    /// A request to a back end; what comes back at once.
    fn ask(&mut self, node: u16, text: &str) -> Vec<String> {
        let flow = Flow::udp(ListenerId(node), CALLER.parse().unwrap());
        self.backend.receive(self.now, flow, text.as_bytes(), &mut self.out);
        self.sent()
    }

    /// What leaves in so many seconds, each with when (seconds from now).
    fn pass(&mut self, seconds: f64) -> Vec<(f64, String)> {
        let (start, end) = (self.now, self.now + Duration::from_secs_f64(seconds));
        let mut all = Vec::new();
        while let Some(at) = self.backend.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.backend.timeout(self.now, &mut self.out);
            let at = self.now.since(start).as_secs_f64();
            all.extend(self.sent().into_iter().map(|text| ((at * 100.0).round() / 100.0, text)));
        }
        self.now = end;
        all
    }

    fn sent(&mut self) -> Vec<String> {
        let all = self.out.transmits().iter().map(|transmit| {
            assert_eq!(transmit.flow.remote, CALLER.parse().unwrap());
            String::from_utf8(self.out.message(transmit).to_vec()).unwrap()
        });
        let all = all.collect();
        self.out.clear();
        all
    }
}

/// A request of call `call`; `to` is our tag in it.
fn request(method: &str, call: u32, cseq: &str, to: &str) -> String {
    let branch = if method == "ACK" && cseq == "1 ACK" { "a".into() } else { cseq.replace(' ', "") };
    let branch = branch.replace("CANCEL", "INVITE").replace("1ACK*", "1INVITE");
    let (cseq, tag) = (cseq.trim_end_matches('*'), if to.is_empty() { "" } else { ";tag=" });
    format!(
        "{method} sip:b@192.0.2.10 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5062;branch=z9hG4bK{call}-{branch}\r\n\
         From: <sip:a@192.0.2.1>;tag=f{call}\r\nTo: <sip:b@192.0.2.10>{tag}{to}\r\nCall-ID: c{call}@192.0.2.1\r\n\
         CSeq: {cseq}\r\nRecord-Route: <sip:192.0.2.7;lr>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn invite(call: u32) -> String {
    request("INVITE", call, "1 INVITE", "")
}

/// Status codes with their times.
fn codes(sent: &[(f64, String)]) -> Vec<(f64, u16)> {
    sent.iter().map(|(at, text)| (*at, code(text))).collect()
}

fn code(text: &str) -> u16 {
    text.get(8..11).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn tag(text: &str) -> String {
    let to = text.lines().find(|line| line.starts_with("To:")).unwrap();
    to.split_once(";tag=").map(|(_, tag)| tag.to_owned()).unwrap_or_default()
}

const INVITE: f64 = 0.64;
const BYE: f64 = 0.36;

#[test]
fn a_call_is_answered_when_its_work_is_done() {
    let mut world = World::new(&[slow()]);
    assert!(world.ask(0, &invite(1)).is_empty());
    let sent = world.pass(1.0);
    assert_eq!(codes(&sent), [(0.2, 100), (INVITE, 180), (INVITE, 200)]);
    let answer = &sent[2].1;
    for line in ["Record-Route: <sip:192.0.2.7;lr>", "Contact: <sip:192.0.2.10:5060>", "CSeq: 1 INVITE"] {
        assert!(answer.lines().any(|found| found == line), "{line}: {answer}");
    }
    let tag = tag(answer);
    assert!(!tag.is_empty() && world.ask(0, &request("ACK", 1, "1 ACK", &tag)).is_empty());
    assert!(world.pass(5.0).is_empty(), "acknowledged");
    assert!(world.ask(0, &request("BYE", 1, "2 BYE", &tag)).is_empty());
    assert_eq!(codes(&world.pass(1.0)), [(BYE, 200)]);
    // A late repetition is answered again and costs nothing.
    let again = world.ask(0, &request("BYE", 1, "2 BYE", &tag));
    assert_eq!(again.iter().map(|text| code(text)).collect::<Vec<_>>(), [200]);
    assert_eq!(world.backend.remembered(), (2, 0));
    assert!(world.pass(40.0).is_empty());
    assert_eq!(world.backend.remembered(), (0, 0));
    let node = &world.backend.report(world.now).nodes[0];
    assert_eq!((node.invites, node.byes, node.repeated, node.refused), (1, 1, 1, 0));
    assert!((node.invite_seconds - 1.75 / 2.75).abs() < 1e-3 && (node.busy_seconds - 1.0).abs() < 1e-3);
}

#[test]
fn a_body_is_answered_with_one() {
    let mut world = World::new(&[slow()]);
    world.ask(0, &invite(1).replace("Content-Length: 0\r\n\r\n", "Content-Length: 5\r\n\r\nv=0\r\n"));
    let sent = world.pass(0.7);
    let (head, body) = sent[2].1.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: application/sdp") && body.starts_with("v=0\r\n"), "{head}");
    assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
}

#[test]
fn an_answer_is_repeated_until_its_ack_and_given_up_after_32_seconds() {
    let mut world = World::new(&[slow()]);
    world.ask(0, &invite(1));
    let answered = world.pass(0.7);
    let times: Vec<f64> =
        world.pass(40.0).iter().map(|(at, text)| (at * 10.0 + code(text) as f64).round()).collect();
    // 0.5 s after the answer, then 1, 2, 4, 4 ... later.
    assert_eq!(times, [4, 14, 34, 74, 114, 154, 194, 234, 274, 314].map(|tenths| f64::from(tenths + 200)));
    let tag = tag(&answered[2].1);
    assert_eq!(world.ask(0, &request("BYE", 1, "2 BYE", &tag)).len(), 1);
    assert_eq!(world.backend.remembered(), (0, 0));
}

#[test]
fn a_repeated_invite_costs_nothing_and_hears_what_the_first_one_heard() {
    let mut world = World::new(&[slow()]);
    world.ask(0, &invite(1));
    assert!(world.ask(0, &invite(1)).is_empty(), "nothing was said yet");
    world.pass(0.3);
    assert_eq!(code(&world.ask(0, &invite(1))[0]), 100);
    assert_eq!(
        codes(&world.pass(0.5)),
        [(INVITE - 0.3, 180), (INVITE - 0.3, 200)].map(|(at, c)| ((at * 100.0_f64).round() / 100.0, c))
    );
    assert_eq!(code(&world.ask(0, &invite(1))[0]), 200);
    assert_eq!(world.backend.report(world.now).nodes[0].repeated, 3);
}

#[test]
fn where_repetitions_are_work_they_delay_what_comes_after() {
    let mut world = World::new(&[Model { repeat_cost: 1.0, ..slow() }]);
    for text in [invite(1), invite(1), invite(2)] {
        assert!(world.ask(0, &text).is_empty());
    }
    // There is no room for one more; it is lost, and nobody hears of it.
    assert!(world.ask(0, &invite(1)).is_empty());
    let sent = codes(&world.pass(1.1));
    assert_eq!(sent, [(0.2, 100), (0.2, 100), (INVITE, 180), (INVITE, 200), (INVITE + BYE, 200)]);
    let sent: Vec<_> = codes(&world.pass(0.6)).into_iter().filter(|(_, code)| *code == 180).collect();
    assert_eq!(sent, [(0.54, 180)]);
    let node = &world.backend.report(world.now).nodes[0];
    assert_eq!((node.invites, node.repeated, node.lost, node.refused), (2, 2, 1, 0));
}

#[test]
fn what_finds_no_room_is_refused_and_not_remembered() {
    let mut world = World::new(&[slow(), slow()]);
    for call in 1..=3 {
        assert!(world.ask(0, &invite(call)).is_empty(), "one works, two wait");
    }
    for _ in 0..2 {
        let refused = world.ask(0, &invite(4));
        assert_eq!(refused.iter().map(|text| code(text)).collect::<Vec<_>>(), [503]);
        assert!(!tag(&refused[0]).is_empty());
    }
    assert!(world.ask(0, &request("ACK", 4, "1 ACK*", "x")).is_empty());
    assert!(world.ask(1, &invite(5)).is_empty(), "another one has room of its own");
    assert_eq!(world.backend.remembered(), (4, 0));
    let finals: Vec<_> = codes(&world.pass(2.2)).into_iter().filter(|(_, code)| *code == 180).collect();
    assert_eq!(finals, [(0.64, 180), (0.64, 180), (1.27, 180), (1.91, 180)]);
    let nodes = world.backend.report(world.now).nodes;
    assert_eq!((nodes[0].refused, nodes[0].most, nodes[1].refused, nodes[1].most), (2, 3, 0, 1));
}

#[test]
fn what_is_cancelled_in_time_is_over() {
    let mut world = World::new(&[slow()]);
    world.ask(0, &invite(1));
    world.ask(0, &invite(2));
    let sent = world.ask(0, &request("CANCEL", 2, "1 CANCEL", ""));
    assert_eq!(sent.iter().map(|text| code(text)).collect::<Vec<_>>(), [200, 487]);
    assert!(sent[0].contains("CSeq: 1 CANCEL") && sent[1].contains("CSeq: 1 INVITE"));
    // The 487 comes again until its ACK does; the first call knows nothing of that.
    let again = codes(&world.pass(0.6));
    assert_eq!(again, [(0.2, 100), (0.5, 487)]);
    assert!(world.ask(0, &request("ACK", 2, "1 ACK*", &tag(&sent[1]))).is_empty());
    let answered = world.pass(0.1);
    assert_eq!(codes(&answered), [(0.04, 180), (0.04, 200)]);
    // What is answered cannot be cancelled any more.
    let late = world.ask(0, &request("CANCEL", 1, "1 CANCEL", ""));
    assert_eq!(late.iter().map(|text| code(text)).collect::<Vec<_>>(), [200]);
    assert_eq!(world.backend.report(world.now).nodes[0].cancelled, 1);
}

#[test]
fn nothing_is_known_of_what_never_began() {
    let mut world = World::new(&[slow()]);
    for text in [
        request("BYE", 1, "2 BYE", "x"),
        request("BYE", 1, "2 BYE", ""),
        request("CANCEL", 1, "1 CANCEL", ""),
    ] {
        let sent = world.ask(0, &text);
        assert_eq!(sent.iter().map(|text| code(text)).collect::<Vec<_>>(), [481], "{text}");
    }
    assert!(world.ask(0, &request("ACK", 1, "1 ACK", "x")).is_empty());
    assert!(world.ask(0, "SIP/2.0 200 OK\r\n\r\n").is_empty());
    assert!(world.ask(0, "nonsense").is_empty());
    // An OPTIONS is work like any other.
    assert!(world.ask(0, &request("OPTIONS", 9, "1 OPTIONS", "")).is_empty());
    assert_eq!(codes(&world.pass(1.0)), [(BYE, 200)]);
    let report = world.backend.report(world.now);
    assert_eq!((report.garbage, report.nodes[0].unknown, report.nodes[0].others), (2, 3, 1));
}

#[test]
fn one_that_stands_still_says_nothing() {
    let stalls = Some((20.0, 5.0));
    let mut world = World::new(&[Model { stalls, ..slow() }]);
    let stalled = |world: &World| world.backend.nodes[0].station.is_stalled();
    // Somewhere in the first minutes it stops.
    while !stalled(&world) {
        assert!(world.now < Time::from_secs(400));
        world.pass(0.05);
        world.backend.timeout(world.now, &mut world.out);
    }
    for call in 1..=4 {
        assert!(world.ask(0, &invite(call)).is_empty(), "not even that there is no room");
    }
    assert!(world.ask(0, &request("CANCEL", 1, "1 CANCEL", "")).is_empty());
    assert!(world.pass(4.8).is_empty());
    let sent = codes(&world.pass(1.0));
    assert_eq!(sent.iter().map(|(_, code)| *code).filter(|code| *code == 100).count(), 3, "{sent:?}");
    let node = &world.backend.report(world.now).nodes[0];
    assert_eq!((node.lost, node.refused), (2, 0));
}

#[test]
fn capacity_is_kept_to() {
    // Twice and three quarters of 300 calls a second for 10 s, spread evenly; each hangs up when it is answered.
    for (rate, least, most) in [(600, 2_900, 3_100), (225, 2_240, 2_250)] {
        let model = Model { room: 100, ..Model::default() };
        let mut world = World::new(&[model]);
        let mut answered = 0;
        for call in 0..rate * 10 {
            world.ask(0, &invite(call));
            let sent = world.pass(1.0 / f64::from(rate));
            for (_, text) in sent.iter().filter(|(_, text)| code(text) == 200) {
                let of: u32 = text
                    .split_once("tag=f")
                    .and_then(|(_, rest)| rest.split_once('\r'))
                    .unwrap()
                    .0
                    .parse()
                    .unwrap();
                if text.contains("1 INVITE") {
                    world.ask(0, &request("ACK", of, "1 ACK", &tag(text)));
                    world.ask(0, &request("BYE", of, "2 BYE", &tag(text)));
                } else {
                    answered += 1;
                }
            }
        }
        let node = world.backend.report(world.now).nodes[0].clone();
        let calls = (node.invites as f64 * 1.75 + node.byes as f64) / 2.75;
        assert!((f64::from(least)..=f64::from(most)).contains(&calls), "{rate}: {node:?}");
        assert!((node.refused == 0) == (rate < 300) && answered > 0, "{rate}: {node:?}");
    }
}
