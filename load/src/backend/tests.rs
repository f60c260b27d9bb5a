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
        self.backend.receive(Arrival::new(self.now, flow, text.as_bytes()), &mut self.out);
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
fn an_answer_has_a_session_whether_one_was_offered_or_not() {
    let mut world = World::new(&[slow()]);
    let offer = invite(1).replace("Content-Length: 0\r\n\r\n", "Content-Length: 5\r\n\r\nv=0\r\n");
    for invite in [offer, invite(2)] {
        world.ask(0, &invite);
        let sent = world.pass(0.7);
        let (head, body) =
            sent.iter().find(|(_, text)| code(text) == 200).unwrap().1.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Content-Type: application/sdp") && body.starts_with("v=0\r\n"), "{head}");
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
    }
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
    // Twice and three quarters of 300 calls a second for 10 s, spread evenly; each hangs up when it is
    // answered.
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

/// A call that is answered: our tag in it.
fn answered(world: &mut World, call: u32) -> String {
    assert!(world.ask(0, &invite(call)).is_empty());
    let sent = world.pass(0.7);
    assert_eq!(code(&sent.last().expect("an answer").1), 200, "{sent:?}");
    tag(&sent[sent.len() - 1].1)
}

#[test]
fn an_answer_is_not_repeated_after_the_bye() {
    let mut world = World::new(&[slow()]);
    let tag = answered(&mut world, 1);
    assert!(world.ask(0, &request("BYE", 1, "2 BYE", &tag)).is_empty());
    assert_eq!(codes(&world.pass(1.0)), [(BYE, 200)]);
    // The ACK comes after it, or never.
    assert!(world.ask(0, &request("ACK", 1, "1 ACK", &tag)).is_empty());
    assert!(world.pass(40.0).is_empty());
    assert_eq!(world.backend.remembered(), (0, 0));
}

#[test]
fn a_refusal_that_nobody_acknowledges_leaves_its_dialog_alone() {
    let mut world = World::new(&[slow()]);
    let tag = answered(&mut world, 1);
    world.ask(0, &request("ACK", 1, "1 ACK", &tag));
    // Another INVITE in the dialog is taken back.
    let again = request("INVITE", 1, "2 INVITE", &tag);
    assert!(world.ask(0, &again).is_empty());
    let sent = world.ask(0, &request("CANCEL", 1, "2 CANCEL", &tag));
    assert_eq!(sent.iter().map(|text| code(text)).collect::<Vec<_>>(), [200, 487]);
    world.pass(40.0);
    assert_eq!(world.backend.remembered(), (0, 1));
    assert!(world.ask(0, &request("BYE", 1, "3 BYE", &tag)).is_empty());
    assert_eq!(codes(&world.pass(1.0)), [(BYE, 200)]);
    // One is taken back, and a new one takes its place.
    world.ask(0, &invite(2));
    world.ask(0, &request("CANCEL", 2, "1 CANCEL", ""));
    world.ask(0, &request("INVITE", 2, "2 INVITE", ""));
    let sent = world.pass(0.7);
    let tag = sent.iter().find(|(_, text)| code(text) == 180).map(|(_, text)| self::tag(text)).unwrap();
    world.ask(0, &request("ACK", 2, "2 ACK", &tag));
    world.pass(40.0);
    assert_eq!(world.backend.remembered(), (0, 1));
}

#[test]
fn an_ack_is_of_its_own_invite() {
    let mut world = World::new(&[slow()]);
    let tag = answered(&mut world, 1);
    world.ask(0, &request("ACK", 1, "1 ACK", &tag));
    world.ask(0, &request("INVITE", 1, "2 INVITE", &tag));
    assert_eq!(codes(&world.pass(0.7)), [(0.2, 100), (INVITE, 200)]);
    world.ask(0, &request("ACK", 1, "1 ACK", &tag));
    assert_eq!(codes(&world.pass(0.5)), [(0.44, 200)], "the first one's has come again");
    world.ask(0, &request("ACK", 1, "2 ACK", &tag));
    assert!(world.pass(20.0).is_empty());
}

#[test]
fn a_full_program_refuses_what_begins_and_not_what_ends() {
    let mut world = World::new(&[slow()]);
    world.backend.transactions.most = 2;
    let tags = [1, 2].map(|call| {
        let tag = answered(&mut world, call);
        world.ask(0, &request("ACK", call, "1 ACK", &tag));
        world.pass(40.0);
        tag
    });
    assert_eq!(world.backend.remembered(), (0, 2));
    let refused = world.ask(0, &invite(3));
    assert_eq!(refused.iter().map(|text| code(text)).collect::<Vec<_>>(), [503]);
    assert!(world.ask(0, &request("BYE", 1, "2 BYE", &tags[0])).is_empty());
    assert_eq!(codes(&world.pass(1.0)), [(BYE, 200)]);
    answered(&mut world, 4);
    let mut report = world.backend.report(world.now);
    assert_eq!((report.nodes[0].full, report.nodes[0].refused), (1, 0));
    report.judge(1_000_000);
    assert!(report.void[0].starts_with("requests refused because no more"), "{report:?}");
}

#[test]
fn dialogs_that_nobody_ends_are_forgotten() {
    let mut world = World::new(&[slow()]);
    let tag = answered(&mut world, 1);
    world.ask(0, &request("ACK", 1, "1 ACK", &tag));
    world.pass(3_500.0);
    let later = answered(&mut world, 2);
    world.ask(0, &request("ACK", 2, "1 ACK", &later));
    world.pass(200.0);
    // What happens in a dialog keeps it.
    world.ask(0, &request("INVITE", 2, "2 INVITE", &later));
    world.pass(0.7);
    world.ask(0, &request("ACK", 2, "2 ACK", &later));
    world.pass(3_600.0);
    answered(&mut world, 3);
    let report = world.backend.report(world.now);
    assert_eq!((report.forgotten, report.dialogs), (1, 2));
    assert_eq!(code(&world.ask(0, &request("BYE", 1, "2 BYE", &tag))[0]), 481);
    world.pass(20_000.0);
    answered(&mut world, 4);
    assert_eq!(world.backend.remembered().1, 1, "whatever was before a long silence");
    world.pass(10.0);
    answered(&mut world, 5);
    assert_eq!(world.backend.remembered().1, 2);
}

#[test]
fn an_invite_that_comes_two_ways_is_answered_once() {
    let mut world = World::new(&[slow()]);
    assert!(world.ask(0, &invite(1)).is_empty());
    let copy = invite(1).replace("branch=z9hG4bK", "branch=z9hG4bKother");
    let sent = world.ask(0, &copy);
    assert_eq!(sent.iter().map(|text| code(text)).collect::<Vec<_>>(), [482]);
    assert_eq!(codes(&world.pass(0.7)), [(0.2, 100), (INVITE, 180), (INVITE, 200)]);
    let node = &world.backend.report(world.now).nodes[0];
    assert_eq!((node.merged, node.invites, node.refused, node.unknown), (1, 1, 0, 0));
    // It may begin once it is forgotten.
    world.pass(100.0);
    assert!(world.ask(0, &copy).is_empty());
}

#[test]
fn over_streams_a_refusal_is_said_once_and_the_contact_is_theirs() {
    let mut world = World::new(&[slow()]);
    world.backend = world.backend.with_streams(["192.0.2.10:6060".parse().unwrap()].into_iter());
    let flow = Flow { transport: Transport::Tcp, ..Flow::udp(ListenerId(1), CALLER.parse().unwrap()) };
    let ask = |world: &mut World, text: &str| {
        world.backend.receive(Arrival::new(world.now, flow, text.as_bytes()), &mut world.out);
        world.sent()
    };
    ask(&mut world, &invite(1));
    ask(&mut world, &invite(2));
    assert_eq!(ask(&mut world, &request("CANCEL", 2, "1 CANCEL", "")).len(), 2);
    let sent = world.pass(40.0);
    assert!(sent.iter().all(|(_, text)| code(text) != 487), "{sent:?}");
    assert_eq!(world.backend.remembered().0, 0);
    let contact = sent[1].1.lines().find(|line| line.starts_with("Contact:")).unwrap();
    assert_eq!(contact, "Contact: <sip:192.0.2.10:6060;transport=tcp>");
}

#[test]
fn what_waits_for_one_that_stands_still_wakes_nobody() {
    let mut world = World::new(&[Model { stalls: Some((20.0, 5.0)), ..slow() }]);
    while !world.backend.nodes[0].station.is_stalled() {
        world.pass(0.05);
        world.backend.timeout(world.now, &mut world.out);
    }
    world.ask(0, &invite(1));
    let (mut looks, end) = (0, world.now + Duration::from_secs(4));
    while let Some(at) = world.backend.next_deadline().filter(|at| *at <= end) {
        looks += 1;
        world.now = world.now.max(at);
        world.backend.timeout(world.now, &mut world.out);
    }
    // The timers look every quarter of a second by themselves.
    assert!((1..20).contains(&looks), "{looks}");
    assert_eq!(codes(&world.pass(2.0)).iter().map(|(_, code)| *code).collect::<Vec<_>>(), [100, 180, 200]);
}

#[test]
fn figures_of_a_program_that_was_late_or_lost_something_are_void() {
    let mut report = BackendReport { late_p999: 5_000, ..BackendReport::default() };
    report.judge(5_000);
    assert!(report.void.is_empty() && !report.text().contains("VOID"));
    report.drops = 3;
    report.judge(4_999);
    assert_eq!(report.void.len(), 2);
    assert!(
        report.text().contains("VOID\n  datagrams or connections that there was no room for: 3, limit 0\n")
    );
    assert!(report.void[1].ends_with("5.000 ms, limit 4.999 ms"), "{:?}", report.void);
}

#[test]
fn request_is_counted_by_how_many_it_found() {
    let mut world = World::new(&[slow()]);
    // One after the other: the second finds one and waits for it, the third finds two. The fourth is refused.
    (1..=4).for_each(|call| drop(world.ask(0, &invite(call))));
    world.pass(4.0);
    let node = &world.backend.report(world.now).nodes[0];
    let each = node.invite_seconds * 3.0 / 6.0;
    let found: Vec<(u64, f64)> =
        node.found.iter().map(|found| (found.requests, found.seconds / each)).collect();
    assert_eq!(found.iter().map(|(requests, _)| *requests).collect::<Vec<_>>(), [1, 1, 1]);
    for (nth, (_, times)) in found.iter().enumerate() {
        assert!((times - (nth as f64 + 1.0)).abs() < 1e-6, "{found:?}");
    }
    let mut node = NodeReport::default();
    node.count_found(u32::MAX, 1.0);
    assert_eq!((node.found.len(), node.found[MOST_FOUND].requests), (MOST_FOUND + 1, 1));
}
