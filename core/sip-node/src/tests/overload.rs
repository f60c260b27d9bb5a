//! Overload: what is refused, what goes first, and what neighbours tell each other (RFC 7339, RFC 7415).

use super::*;
use crate::Algorithm;
use wire::Load;

const CARRIER: &str = "203.0.113.5:5060";
const BACKUP: &str = "203.0.113.6:5060";

/// One window in which the worker was behind for so long.
fn window(lab: &mut Lab, behind: u64) {
    lab.now = lab.now + Load::WINDOW;
    let load = Load {
        window: Load::WINDOW,
        behind: Duration::from_millis(behind),
        kept_up: behind < 50,
        ..Load::default()
    };
    lab.node.pace(lab.now, &load);
}

/// A lab that has been overloaded for a while by a stranger who sends 400 calls in each window, so that
/// nearly nothing of him is taken on.
fn overloaded(change: impl FnOnce(&mut Settings)) -> Lab {
    let mut lab = Lab::with(change);
    lab.phones(&[BOB]);
    window(&mut lab, 1_000);
    assert!(lab.report().overload.overloaded);
    for _ in 0..8 {
        flood(&mut lab, CAROL, 400);
        window(&mut lab, 1_000);
    }
    lab
}

/// So many new calls for nobody from here; what came back: no 503 for those that were taken on.
fn flood(lab: &mut Lab, from: &str, calls: usize) -> Vec<Sent> {
    let call = || Req::new("INVITE", "sip:nobody@here.example").sent_by("UDP", from);
    (0..calls).for_each(|_| lab.send(from, call().text()));
    lab.sent()
}

/// The same over some windows.
fn floods(lab: &mut Lab, from: &str) -> Vec<Sent> {
    let mut all = Vec::new();
    for _ in 0..20 {
        all.extend(flood(lab, from, 400));
        window(lab, 1_000);
    }
    all
}

#[test]
fn an_overload_begins_and_ends() {
    let mut lab = Lab::new();
    window(&mut lab, 150);
    assert!(!lab.report().overload.overloaded);
    window(&mut lab, 200);
    assert!(lab.report().overload.overloaded);
    (0..350).for_each(|_| window(&mut lab, 0));
    assert!(!lab.report().overload.overloaded);
    assert_eq!(*lab.world.overloads.borrow(), [true, false]);
}

#[test]
fn switched_off_nothing_is_refused() {
    let mut lab = Lab::with(|s| s.overload.enabled = false);
    window(&mut lab, 60_000);
    assert!(!lab.report().overload.overloaded);
    // And an overload ends when it is switched off.
    let mut lab = overloaded(|_| {});
    lab.reconfigure(|s| s.overload.enabled = false);
    lab.invite(CAROL, Req::invite().text());
    assert_eq!(*lab.world.overloads.borrow(), [true, false]);
}

#[test]
fn new_work_is_refused_without_memory_or_not_answered() {
    let mut lab = overloaded(|_| {});
    let sent = floods(&mut lab, CAROL);
    let refused: Vec<&Sent> = sent.iter().filter(|s| s.status() == 503).collect();
    assert!((1..200).contains(&refused.len()), "{} are answered", refused.len());
    assert_eq!(refused[0].get("Retry-After"), Some("5"));
    assert_eq!(lab.report().transactions.server, 0);
    let taken = statuses(&sent).iter().filter(|status| **status != 503).count();
    assert!(taken < 100 && taken + refused.len() == sent.len(), "{taken} of {}", sent.len());
    assert!(lab.count(Counter::Refused) >= refused.len() && lab.count(Counter::Unanswered) > 3_000);
    let loss = lab.report().overload.loss;
    assert!((0.9..1.0).contains(&loss), "{loss}");
    // The ACK of a refusal ends here.
    let refused = refused[0].clone();
    let mut req = Req::invite();
    req.via = refused.get("Via").unwrap().split(";received").next().unwrap().to_owned();
    (req.from, req.call_id) =
        (refused.get("From").unwrap().to_owned(), refused.get("Call-ID").unwrap().to_owned());
    lab.send(CAROL, req.ack(&refused).text());
    lab.silent();
}

#[test]
fn who_brings_little_is_served_beside_who_brings_much() {
    let mut lab = Lab::new();
    // It can do 100 calls in a window.
    for _ in 0..40 {
        flood(&mut lab, CAROL, 100);
        window(&mut lab, 0);
    }
    window(&mut lab, 200);
    let (mut much, mut little) = (0, 0);
    for _ in 0..40 {
        let taken = |sent: &[Sent]| sent.iter().filter(|s| s.status() != 503).count();
        much += taken(&flood(&mut lab, CAROL, 1_000));
        little += taken(&flood(&mut lab, "192.0.2.99:5060", 5));
        window(&mut lab, 60);
    }
    assert!(little >= 190, "{little} of 200");
    assert!((2_500..5_000).contains(&much), "{much} of 40,000");
}

#[test]
fn what_was_taken_on_goes_on() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    window(&mut lab, 200);
    // The first window takes on something.
    let req = Req::invite();
    let got = lab.invite(CAROL, req.text()).remove(0);
    let ringing = Req::invite();
    lab.invite(CAROL, ringing.text());
    floods(&mut lab, CAROL);
    // Responses, a repeated INVITE, ACK, re-INVITE, INFO and BYE of the call; CANCEL of another.
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100);
    let ok = lab.ask(BOB, got.accept("b"));
    assert_eq!(ok.status(), 200);
    assert_eq!(lab.ask(CAROL, req.within("ACK", &ok).text()).method(), "ACK");
    for method in ["INVITE", "INFO", "UPDATE", "MESSAGE", "BYE"] {
        lab.send(CAROL, req.within(method, &ok).text());
        let sent = lab.sent();
        assert!(requests(&sent).contains(&(method.to_owned(), BOB.to_owned())), "{method}: {sent:?}");
    }
    lab.send(CAROL, ringing.cancel().text());
    let sent = lab.sent();
    assert!(statuses(&sent).contains(&200), "{sent:?}");
}

/// A lab that knows where help is, as overloaded as ever.
fn with_help(change: impl FnOnce(&mut Settings)) -> Lab {
    overloaded(|s| {
        s.auth.enabled = false;
        s.emergency = Some(Emergency { strangers: true, ..emergency::help() });
        change(s);
    })
}

/// Whether a request got as far as where help is.
fn reaches_help(lab: &mut Lab, from: &str, req: &Req) -> bool {
    lab.send(from, req.text());
    let reached = requests(&lab.sent()).iter().any(|(_, to)| to == "203.0.113.110:5060");
    // Calls that ring for ever would fill the transactions.
    lab.send(from, req.cancel().text());
    lab.sent();
    reached
}

/// From among a flood, and from elsewhere; each is one among 400 calls of which one in 50 could be taken on.
#[test]
fn an_emergency_call_goes_first() {
    for tag in ["", ";tag=made-up"] {
        let mut lab = with_help(|_| {});
        let mut ordinary = 0;
        for window_number in 0..40 {
            flood(&mut lab, CAROL, 400);
            for (from, uri) in [
                (CAROL, "urn:service:sos"),
                ("192.0.2.99:5060", "urn:service:sos.fire"),
                (CAROL, "sip:112@here.example"),
            ] {
                let mut req = emergency::to("INVITE", uri).sent_by("UDP", from);
                req.to += tag;
                assert!(reaches_help(&mut lab, from, &req), "{uri} of {from} in {window_number}{tag}");
            }
            let other = flood_one(&mut lab, &Req::invite());
            ordinary += usize::from(!requests(&other).is_empty());
            window(&mut lab, 1_000);
        }
        assert!(ordinary < 10, "{ordinary} of 40");
    }
}

/// To call oneself urgent is no way round: a flood gets two calls in a window beyond what is anybody's.
#[test]
fn a_flood_that_calls_itself_urgent_gets_little() {
    for uri in ["urn:service:sos", "sip:112@here.example", "sip:112@far.example"] {
        let mut lab = with_help(|_| {});
        let mut taken = 0;
        for _ in 0..40 {
            for n in 0..400 {
                let mut req = emergency::to("INVITE", uri);
                req.to += if n % 2 == 0 { "" } else { ";tag=made-up" };
                taken += usize::from(flood_one(&mut lab, &req).iter().any(|sent| sent.status() != 503));
            }
            window(&mut lab, 1_000);
        }
        assert!((40..240).contains(&taken), "{uri}: {taken} of 16,000");
    }
}

/// And it takes nothing from others.
#[test]
fn who_brings_little_is_served_beside_who_calls_himself_urgent() {
    let mut lab = Lab::with(|s| s.emergency = Some(Emergency { strangers: false, ..emergency::help() }));
    // It can do 100 calls in a window.
    for _ in 0..40 {
        flood(&mut lab, CAROL, 100);
        window(&mut lab, 0);
    }
    window(&mut lab, 200);
    let (mut much, mut little) = (0, 0);
    for _ in 0..40 {
        for _ in 0..1_000 {
            let sent = flood_one(&mut lab, &emergency::to("INVITE", "urn:service:sos"));
            much += sent.iter().filter(|s| s.status() != 503).count();
        }
        let sent = flood(&mut lab, "192.0.2.99:5060", 5);
        little += sent.iter().filter(|s| s.status() != 503).count();
        window(&mut lab, 60);
    }
    assert!(little >= 190, "{little} of 200");
    assert!((2_500..5_200).contains(&much), "{much} of 40,000");
}

/// Without `[emergency]` there is no way for them (416), so there is nothing to put first.
#[test]
fn without_a_way_for_them_emergency_calls_are_like_any_other() {
    let mut lab = overloaded(|s| s.auth.enabled = false);
    let urn = || emergency::to("INVITE", "urn:service:sos.police");
    let passed = (0..200).filter(|_| statuses(&flood_one(&mut lab, &urn())).contains(&416)).count();
    assert!(passed < 10, "{passed} of 200");
}

fn flood_one(lab: &mut Lab, req: &Req) -> Vec<Sent> {
    lab.send(CAROL, req.text());
    lab.sent()
}

#[test]
fn a_made_up_dialog_is_no_way_round() {
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "PUBLISH", "REFER", "NOTIFY", "BYE", "UPDATE", "INFO"] {
        for tag in [";tag=made-up", ";x=tag", ""] {
            let mut lab = overloaded(|_| {});
            let mut passed = 0;
            for _ in 0..100 {
                let mut req = Req::new(method, "sip:bob@here.example");
                req.to += tag;
                let sent = flood_one(&mut lab, &req);
                passed += usize::from(sent.iter().any(|s| s.status() != 503));
            }
            assert!(passed < 10, "{method} {tag}: {passed} of 100");
        }
    }
}

/// A balancer or a trunk that asks whether we are there, each time with the same Call-ID, is not told that we
/// are not; the rest of a flood of such questions is new work.
#[test]
fn who_asks_whether_we_are_there_has_an_answer() {
    let mut lab = overloaded(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    for who in [CAROL, CARRIER] {
        let probe = Req::new("OPTIONS", "sip:here.example").sent_by("UDP", who);
        for _ in 0..40 {
            flood(&mut lab, CAROL, 400);
            lab.send(who, probe.text());
            assert_eq!(statuses(&lab.sent()), [200], "{who}");
            window(&mut lab, 1_000);
        }
    }
    let asked = |lab: &mut Lab| {
        let probe = Req::new("OPTIONS", "sip:here.example").sent_by("UDP", CAROL);
        statuses(&flood_one(lab, &probe)).contains(&200)
    };
    let answered = (0..400).filter(|_| asked(&mut lab)).count();
    assert!((1..40).contains(&answered), "{answered} of 400");
}

/// Strangers who ask as often as they can leave a trunk that floods itself, and one who brings little, their
/// answers.
#[test]
fn floods_of_questions_leave_others_their_answers() {
    let mut lab = overloaded(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    for window_number in 0..60 {
        for n in 0..4 {
            let stranger = format!("192.0.2.{}:5060", 10 + n);
            let call = || Req::new("INVITE", "sip:nobody@here.example").sent_by("UDP", &stranger);
            (0..100).for_each(|_| lab.send(&stranger, call().text()));
            let probe = || Req::new("OPTIONS", "sip:here.example").sent_by("UDP", &stranger);
            (0..20).for_each(|_| lab.send(&stranger, probe().text()));
        }
        flood(&mut lab, CARRIER, 400);
        for who in [CARRIER, "192.0.2.99:5060"] {
            let probe = Req::new("OPTIONS", "sip:here.example").sent_by("UDP", who);
            lab.send(who, probe.text());
            let answers = statuses(&lab.sent());
            assert!(window_number < 8 || answers == [200], "{who}: {answers:?} in {window_number}");
        }
        window(&mut lab, 60);
    }
}

/// Line ends in front of a message are skipped (RFC 3261 section 7.5), and are no way round either.
#[test]
fn line_ends_in_front_are_no_way_round() {
    let mut lab = overloaded(|_| {});
    let mut passed = 0;
    for tag in ["", ";tag=made-up"] {
        for _ in 0..100 {
            let mut req = Req::invite();
            req.to += tag;
            lab.send(CAROL, format!("\r\n{}", req.text()));
            passed += usize::from(lab.sent().iter().any(|s| s.status() != 503));
        }
    }
    assert!(passed < 10, "{passed} of 200");
}

/// Without Record-Route nothing proves a dialog, so what says that it is within one is not refused.
#[test]
fn without_record_route_a_tag_is_enough() {
    let mut lab = overloaded(|s| s.proxy.record_route = false);
    for _ in 0..50 {
        let mut req = Req::invite();
        req.to += ";tag=b";
        let sent = flood_one(&mut lab, &req);
        assert!(statuses(&sent).iter().all(|status| *status != 503) && !sent.is_empty(), "{sent:?}");
    }
}

/// A call that began shortly before the overload is not lost to it.
#[test]
fn what_was_taken_on_before_the_overload_goes_on() {
    let mut lab = Lab::new();
    lab.phones(&[BOB]);
    let calls: Vec<Req> = (0..50).map(|_| Req::invite()).collect();
    calls.iter().for_each(|req| drop(lab.invite(CAROL, req.text())));
    window(&mut lab, 1_000);
    floods(&mut lab, CAROL);
    for req in &calls {
        assert_eq!(lab.ask(CAROL, req.text()).status(), 100);
    }
}

/// On a stream nobody repeats a request but a proxy without transactions, which passes on what came to it by
/// datagram.
#[test]
fn what_a_front_repeats_on_a_stream_goes_on_too() {
    for front in [true, false] {
        let network = (udp(CAROL).remote.ip(), 24);
        let mut lab = Lab::with(|s| s.auth.fronts.extend(front.then_some(network)));
        lab.phones(&[BOB]);
        let calls: Vec<Req> = (0..50).map(|_| Req::invite()).collect();
        let tried = |lab: &mut Lab, req: &Req| {
            lab.send_on(tcp(CAROL, 1), req.text());
            lab.sent().first().is_some_and(|sent| sent.status() == 100)
        };
        assert!(calls.iter().all(|req| tried(&mut lab, req)));
        window(&mut lab, 1_000);
        // Longer than thresholds are held.
        (0..4).for_each(|_| drop(floods(&mut lab, CAROL)));
        // There is no room left for answers.
        let other = || Req::new("INVITE", "sip:nobody@here.example").sent_by("TCP", CAROL);
        (0..400).for_each(|_| lab.send_on(tcp(CAROL, 1), other().text()));
        lab.sent();
        let heard = calls.iter().filter(|req| tried(&mut lab, req)).count();
        assert!(if front { heard == 50 } else { heard < 25 }, "{front}: {heard}");
    }
}

#[test]
fn without_transactions_what_was_taken_on_goes_on() {
    for flow in [udp(CAROL), tcp(CAROL, 1)] {
        let mut lab = Lab::with(|s| {
            s.auth.enabled = false;
            s.proxy.mode = Mode::Stateless;
        });
        lab.phones(&[BOB]);
        window(&mut lab, 1_000);
        let calls: Vec<Req> = (0..50).map(|_| Req::invite()).collect();
        let went = |lab: &mut Lab, req: &Req| {
            lab.send_on(flow, req.text());
            requests(&lab.sent()).len() == 1
        };
        let taken: Vec<&Req> = calls.iter().filter(|req| went(&mut lab, req)).collect();
        assert!(!taken.is_empty());
        (0..4).for_each(|_| drop(floods(&mut lab, CAROL)));
        assert!(taken.iter().all(|req| went(&mut lab, req)), "each is repeated the way it went");
    }
}

/// Another proxy, one of ours or not, would send nothing of anybody for so long.
#[test]
fn a_proxy_is_refused_without_a_time_to_come_back() {
    let mut lab = overloaded(|_| {});
    let mut refused = 0;
    for _ in 0..20 {
        for _ in 0..200 {
            let call = Req::new("INVITE", "sip:nobody@here.example")
                .line("Via: SIP/2.0/UDP 10.9.9.9;branch=z9hG4bKq");
            let sent = flood_one(&mut lab, &call);
            for sent in sent.iter().filter(|sent| sent.status() == 503) {
                assert_eq!(sent.get("Retry-After"), None);
                refused += 1;
            }
        }
        window(&mut lab, 1_000);
    }
    assert!(refused > 0);
}

#[test]
fn a_trunk_is_refused_without_a_time_to_come_back() {
    let mut lab = overloaded(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    let sent = floods(&mut lab, CARRIER);
    let refused = sent.iter().find(|s| s.status() == 503).expect("a refusal");
    assert_eq!(refused.get("Retry-After"), None);
}

/// An INVITE from the carrier that can be told of overload in these ways.
fn told(algorithms: &str) -> Req {
    let mut req = Req::invite().sent_by("UDP", CARRIER);
    req.via += &format!(";oc;oc-algo=\"{algorithms}\"");
    req
}

#[test]
fn a_trunk_that_asks_is_told_that_all_is_well() {
    let mut lab = Lab::with(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
    lab.phones(&[BOB]);
    window(&mut lab, 0);
    lab.send(CARRIER, told("loss").text());
    let sent = lab.sent();
    let well = ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=";
    assert!(sent[0].status() == 100 && sent[0].get("Via").unwrap().contains(well), "{}", sent[0].text);
    assert!(!sent[1].text.contains("oc-validity"), "nobody else is told: {}", sent[1].text);
    // With each response, also those of others and our own.
    lab.send(BOB, sent[1].reply(180, "b", ""));
    let ringing = lab.one();
    assert!(ringing.get("Via").unwrap().contains(well), "{}", ringing.text);
    assert_eq!(ringing.text.matches(";oc").count(), 4, "once: {}", ringing.text);
    let mut nobody = told("rate,loss");
    nobody.uri = "sip:nobody@here.example".into();
    let refusal = lab.ask(CARRIER, nobody.text());
    assert!(refusal.get("Via").unwrap().contains(";oc=0;oc-algo=\"rate\";oc-validity=0"), "{}", refusal.text);
    // A stranger learns nothing.
    let mut stranger = Req::invite();
    stranger.via += ";oc;oc-algo=\"loss\"";
    let sent = lab.ask_all(CAROL, &stranger);
    assert!(!sent[0].text.contains("oc-validity"), "{}", sent[0].text);
    lab.rest();
}

/// A balancer is no trunk, or its callers would need no password; but it can send calls elsewhere.
#[test]
fn who_is_in_front_of_the_server_is_told_how_it_is() {
    let front = |s: &mut Settings| s.auth.fronts = vec![(CARRIER.parse::<SocketAddr>().unwrap().ip(), 32)];
    let mut lab = Lab::with(front);
    let mut probe = told("loss");
    probe.method = "OPTIONS".into();
    probe.uri = "sip:here.example".into();
    let answer = lab.ask(CARRIER, probe.text());
    let well = ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=";
    assert!(answer.get("Via").unwrap().contains(well), "{}", answer.text);
    let mut stranger = told("loss");
    stranger.method = "OPTIONS".into();
    let sent = lab.ask_all(CAROL, &stranger);
    assert!(sent.iter().all(|m| !m.text.contains("oc-validity")), "{}", sent[0].text);
    let mut lab = overloaded(front);
    let told = less_told(&mut lab, "loss");
    assert!(told >= 90, "{told}");
}

/// How much a neighbour that brings far too much is told to leave away, or the rate that is left to it.
fn less_told(lab: &mut Lab, algorithm: &str) -> u32 {
    floods(lab, CARRIER);
    let answers = (0..4_000).flat_map(|_| lab.ask_all(CARRIER, &told(algorithm)));
    let vias = answers.filter_map(|sent| sent.get("Via").map(str::to_owned));
    let via = vias.into_iter().find(|via| via.contains("oc=")).expect("an answer");
    assert!(via.contains(&format!("oc-algo=\"{algorithm}\";oc-validity=500;oc-seq=")), "{via}");
    let text = via.split(";oc=").nth(1).unwrap();
    text[..text.find(';').unwrap()].parse().unwrap()
}

#[test]
fn a_trunk_that_asks_is_told_how_much_to_leave_away() {
    for algorithm in ["loss", "rate"] {
        let mut lab = overloaded(|s| s.trunks.push(trunk(&["sip:203.0.113.5"], "+49")));
        let value = less_told(&mut lab, algorithm);
        let expected = if algorithm == "loss" { 90..=100 } else { 1..=20 };
        assert!(expected.contains(&value), "{algorithm}: {value}");
    }
}

/// A callee cannot shut up our caller's server in our name.
#[test]
fn what_others_say_of_load_goes_no_further() {
    for (mode, workers) in [(Mode::Stateful, 2), (Mode::Stateless, 1)] {
        let mut lab = Lab::with(|s| {
            s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
            (s.overload.workers, s.proxy.mode) = (workers, mode);
        });
        lab.phones(&[BOB]);
        let sent = lab.ask_all(CARRIER, &told("loss"));
        let got = sent.iter().find(|s| s.status() == 0).unwrap().clone();
        for status in [180, 200, 200] {
            let text = got
                .reply(status, "b", "")
                .replace(";oc;oc-algo", ";oc=100;oc-validity=9000;oc-seq=9.0;oc-algo");
            assert!(text.contains("oc=100"));
            let sent = lab.ask(BOB, text);
            assert!(sent.status() == status && !sent.text.contains(";oc"), "{}", sent.text);
        }
    }
}

/// One of two workers is overloaded, and both tell a trunk the same: half of what that one wants.
#[test]
fn of_several_workers_all_tell_the_same() {
    let several = |s: &mut Settings| {
        s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
        s.overload.workers = 2;
    };
    let (mut busy, mut calm) = (overloaded(several), Lab::with(several));
    calm.phones(&[BOB]);
    calm.now = busy.now;
    let alone = calm.ask_all(CARRIER, &told("loss"));
    assert!(!alone[0].text.contains("oc-validity"), "who does not know of the others says nothing");
    let common = Arc::new(Common::new(2));
    busy.node.join(Arc::clone(&common), 0);
    calm.node.join(common, 1);
    let mut said: Vec<(u32, u64)> = Vec::new();
    for window_number in 0..60 {
        flood(&mut busy, CARRIER, 400);
        for lab in [&mut busy, &mut calm] {
            for sent in lab.ask_all(CARRIER, &told("loss")).iter().filter(|s| s.status() > 0) {
                let via = sent.get("Via").unwrap();
                let number =
                    |name: &str| via.split(name).nth(1).unwrap().split([';', '.']).next().unwrap().to_owned();
                let seq: u64 = number("oc-seq=").parse().unwrap();
                if window_number >= 20 {
                    assert!(via.contains("oc-validity=500"), "{via}");
                    said.push((number(";oc=").parse().unwrap(), seq));
                }
            }
        }
        window(&mut busy, 1_000);
        window(&mut calm, 0);
    }
    assert!(said.len() >= 40 && said.is_sorted_by_key(|(_, seq)| *seq), "{said:?}");
    assert!(said.iter().all(|(loss, _)| (44..=48).contains(loss)), "{said:?}");
    assert!(!calm.report().overload.overloaded);
}

/// A trunk for numbers in +49 that may ask for less.
fn speaking(targets: &[&str]) -> Trunk {
    Trunk { overload_control: true, ..trunk(targets, "+49") }
}

/// Nothing is offered to a trunk that is not said to know of it, and what comes back in its name is not
/// believed: the callee behind it may have written that.
#[test]
fn only_a_trunk_that_may_ask_for_less_is_believed() {
    let wish = ";oc=100;oc-algo=\"loss\";oc-validity=30000;oc-seq=999999999999.0";
    let calls = |lab: &mut Lab, from: &str| {
        let call = || Req::new("INVITE", "sip:+4940555@here.example").alice();
        let mut gone = 0;
        for _ in 0..40 {
            lab.send(ALICE, call().text());
            let sent = lab.sent();
            let Some(got) = sent.iter().find(|s| s.status() == 0) else { continue };
            gone += 1;
            let offer = if got.text.contains(OFFER) { OFFER } else { "" };
            let via = got.get("Via").unwrap().to_owned();
            let said = via.strip_suffix(offer).unwrap().to_owned() + wish;
            lab.send(from, got.reply(180, "b", "").replace(&via, &said));
            lab.sent();
        }
        gone
    };
    let open = |trunk: Trunk| {
        Lab::with(|s| {
            s.auth.enabled = false;
            s.trunks.push(trunk);
        })
    };
    let mut lab = open(trunk(&["sip:203.0.113.5"], "+49"));
    assert_eq!(calls(&mut lab, CARRIER), 40, "nobody asked it");
    let mut lab = open(speaking(&["sip:203.0.113.5"]));
    assert_eq!(calls(&mut lab, CAROL), 40, "that came from somebody else");
    let gone = calls(&mut lab, CARRIER);
    assert!((1..10).contains(&gone), "{gone} of 40");
    // Whatever it says, it is over soon.
    lab.pass(5_000);
    lab.sent();
    assert_eq!(lab.invite(ALICE, Req::new("INVITE", "sip:+4940555@here.example").alice().text()).len(), 1);
}

/// What we offer.
const OFFER: &str = ";oc;oc-algo=\"loss,rate\"";

#[test]
fn a_trunk_that_asks_for_less_gets_less() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(speaking(&["sip:203.0.113.5", "sip:203.0.113.6"]));
    });
    let call = || Req::new("INVITE", "sip:+4940555@here.example").alice();
    let got = lab.invite(ALICE, call().text()).remove(0);
    assert!(got.get("Via").unwrap().ends_with(OFFER), "{}", got.text);
    let (offer, wish) = (OFFER, ";oc=100;oc-algo=\"loss\";oc-validity=1000;oc-seq=7.1");
    lab.send(CARRIER, got.reply(180, "b", "").replace(offer, wish));
    assert_eq!(statuses(&lab.sent()), [180]);
    // The next one goes to the other address, and where that wants nothing either, it is refused.
    let other = lab.invite(ALICE, call().text()).remove(0);
    assert_eq!(other.to(), BACKUP);
    lab.send(BACKUP, other.reply(180, "c", "").replace(offer, wish));
    lab.sent();
    let asking = |lab: &Lab| lab.report().asking;
    let said = [CARRIER, BACKUP].map(|hop| (hop.parse().unwrap(), Algorithm::Loss, 100));
    assert_eq!(asking(&lab), said);
    let sent = lab.ask_all(ALICE, &call());
    assert_eq!(statuses(&sent), [100, 503]);
    assert_eq!(sent[1].get("Retry-After"), None);
    assert_eq!(lab.count(Counter::HeldBack), 3);
    // It lasts as long as they said.
    lab.pass(1_000);
    lab.sent();
    assert_eq!(asking(&lab), []);
    assert_eq!(lab.invite(ALICE, call().text())[0].to(), CARRIER);
    lab.rest();
}

/// A rate is one of all requests (RFC 7415 section 3.4), whoever writes them.
#[test]
fn what_belongs_to_calls_counts_where_a_trunk_asks_for_a_rate() {
    let gone = |how: &str| {
        let mut lab = Lab::with(|s| {
            s.auth.enabled = false;
            s.trunks.push(speaking(&["sip:203.0.113.5"]));
        });
        let (mut gone, wish) = (0, ";oc=1;oc-algo=\"rate\";oc-validity=5000;oc-seq=7.1");
        for _ in 0..20 {
            let call = Req::new("INVITE", "sip:+4940555@here.example").alice();
            lab.send(ALICE, call.text());
            let sent = lab.sent();
            let Some(got) = sent.iter().find(|s| s.status() == 0) else { continue };
            gone += 1;
            lab.send(CARRIER, got.reply(180, "b", "").replace(OFFER, wish));
            lab.sent();
            match how {
                "busy" => lab.send(CARRIER, got.reply(486, "b", "")),
                "cancelled" => lab.send(ALICE, call.cancel().text()),
                "answered" => {
                    lab.send(CARRIER, got.accept("b"));
                    let ok = lab.one();
                    lab.send(ALICE, call.ack(&ok).text());
                    lab.send(ALICE, call.within("BYE", &ok).text());
                }
                _ => {}
            }
            lab.sent();
        }
        gone
    };
    // The first is not counted, for it was sent before; of what follows the tolerance is six requests.
    assert_eq!(["ringing", "busy", "cancelled", "answered"].map(gone), [7, 4, 4, 3]);
}

#[test]
fn without_feedback_nothing_is_said_or_heard() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.overload.feedback = false;
        s.trunks.push(speaking(&["sip:203.0.113.5"]));
    });
    lab.phones(&[BOB]);
    let got = lab.invite(ALICE, Req::new("INVITE", "sip:+4940555@here.example").alice().text()).remove(0);
    assert!(!got.text.contains(";oc"), "{}", got.text);
    let sent = lab.ask_all(CARRIER, &told("loss"));
    assert!(!sent[0].text.contains("oc-validity"), "{}", sent[0].text);
}

impl Lab {
    /// A datagram, and everything that it led to.
    fn ask_all(&mut self, from: &str, req: &Req) -> Vec<Sent> {
        self.send(from, req.text());
        self.sent()
    }
}
