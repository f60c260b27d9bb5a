//! Bindings that another node or a store holds: a request waits for them in its server transaction (RFC 3261
//! section 16.5).

use super::*;
use sip_proxy::context::Reroute;
use sip_registrar::Record;
use wire::Load;

/// The node that holds the bindings, as their flow.
const OWNER: &str = "203.0.113.90:5060";
const MAILBOX: &str = "203.0.113.60:5060";

/// A lab where others hold the bindings of bob and dave.
fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    let lab = Lab::with(change);
    *lab.world.elsewhere.borrow_mut() = vec!["bob", "dave"];
    lab
}

fn with_mailbox(settings: &mut Settings) {
    settings.voicemail = Some(Voicemail {
        uri: b"sip:mailbox@203.0.113.60".to_vec(),
        on: Reroute::ALWAYS,
        ..Voicemail::default()
    });
}

/// A binding of a user's at an address.
fn binding(user: &str, address: &str, q: u16) -> Record {
    Record {
        aor: format!("{user}@here.example").into_bytes().into(),
        contact: format!("sip:{user}@{address}").into_bytes().into(),
        params: Box::default(),
        q,
        expires: Time::from_secs(1_000_000),
        call_id: b"reg"[..].into(),
        cseq: 1,
        flow: udp(address),
        path: Box::default(),
        instance: Box::default(),
        reg_id: 0,
        user_agent: Box::default(),
    }
}

impl Lab {
    /// An answer about a user, whether asked for or not.
    fn tell(&mut self, user: &str, found: Result<Vec<Record>, StoreDown>) {
        let aor = format!("{user}@here.example").into_bytes().into();
        self.notice(Notice::Located(Located::Bindings {
            aor,
            found: found.map(|records| BindingSet::new(records, Vec::new())),
        }));
    }

    /// The users whose bindings were asked for since the last call.
    fn asked(&self) -> Vec<String> {
        let questions = std::mem::take(&mut *self.world.questions.borrow_mut());
        let user = |question: Question| match question {
            Question::Bindings { aor } => {
                String::from_utf8(aor.to_vec()).unwrap().split('@').next().unwrap().to_owned()
            }
            Question::Name { .. } => panic!("{question:?}"),
        };
        questions.into_iter().map(user).collect()
    }

    /// A new INVITE that waits for the bindings of bob.
    #[track_caller]
    fn waits(&mut self, req: &Req) {
        assert_eq!(self.invite(CAROL, req.text()).len(), 0);
        assert_eq!(self.report().pending, 1);
    }
}

#[test]
fn invite_waits_for_bindings_and_goes_on() {
    let mut lab = lab(|_| {});
    let req = Req::invite();
    lab.waits(&req);
    assert_eq!(lab.asked(), ["bob"]);
    // After the 100 it is not repeated. If it is, it gets the same 100 again.
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100);
    assert_eq!(lab.asked(), [""; 0]);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    let got = lab.one();
    assert_eq!((got.method(), got.to().as_str(), got.uri()), ("INVITE", BOB, "sip:bob@192.0.2.20:5060"));
    lab.send(BOB, got.accept("b"));
    let ok = lab.one();
    assert_eq!((ok.status(), ok.to().as_str()), (200, CAROL));
    assert_eq!(lab.ask(CAROL, req.within("ACK", &ok).text()).to(), BOB);
    assert_eq!(lab.ask(CAROL, req.within("BYE", &ok).text()).to(), BOB);
    assert_eq!(lab.count(Counter::LocationAnswered), 1);
    lab.rest();
}

#[test]
fn answer_takes_the_place_of_what_is_known_here() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    lab.waits(&Req::invite());
    lab.tell("bob", Ok(vec![binding("bob", BOB2, 500), binding("bob", BOB3, 500)]));
    let sent = requests(&lab.sent());
    assert_eq!(sent, [BOB2, BOB3].map(|to| ("INVITE".to_owned(), to.to_owned())));
    lab.rest();
}

#[test]
fn binding_of_another_node_is_reached_by_its_path() {
    let mut lab = lab(|_| {});
    lab.waits(&Req::invite());
    let path = format!("<sip:sealed@{OWNER};lr>").into_bytes().into();
    lab.tell("bob", Ok(vec![Record { path, flow: udp(OWNER), ..binding("bob", BOB, 1000) }]));
    let got = lab.one();
    assert_eq!((got.to().as_str(), got.uri()), (OWNER, "sip:bob@192.0.2.20:5060"));
    assert_eq!(got.get("Route"), Some("<sip:sealed@203.0.113.90:5060;lr>"));
    lab.rest();
}

#[test]
fn cancel_ends_an_invite_that_waits() {
    let mut lab = lab(|_| {});
    let req = Req::invite();
    lab.waits(&req);
    // No other sender may cancel it.
    lab.send("192.0.2.66:5060", req.cancel().text());
    assert_eq!(statuses(&lab.sent()), [481]);
    lab.send(CAROL, req.cancel().text());
    let sent = lab.sent();
    assert_eq!(statuses(&sent), [200, 487]);
    assert_eq!(sent[0].get("To"), sent[1].get("To"), "9.2: the same tag");
    assert_eq!(lab.report().pending, 0);
    assert_eq!(lab.ask(CAROL, req.text()).status(), 487, "repeated until the ACK comes");
    lab.send(CAROL, req.ack(&sent[1]).text());
    // The answer comes too late.
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    lab.silent();
    assert_eq!((lab.count(Counter::LocationCancelled), lab.count(Counter::CallsFailed)), (1, 1));
    lab.rest();
}

#[test]
fn caller_that_disconnects_leaves_nothing_behind() {
    let mut lab = lab(|_| {});
    let (req, caller) = (Req::invite().sent_by("TCP", CAROL), tcp("192.0.2.10:40000", 1));
    lab.send_on(caller, req.text());
    let trying = lab.one();
    lab.node.disconnected(lab.now, caller.conn.unwrap(), &mut lab.out);
    lab.undeliverable(&trying);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    let got = lab.one();
    assert_eq!(got.method(), "INVITE", "its transaction stays (RFC 6026 section 8.8)");
    lab.send(BOB, got.reply(486, "b", ""));
    assert_eq!(statuses(&lab.sent()), [486]);
    lab.rest();
}

#[test]
fn silence_leaves_the_bindings_known_here() {
    let mut lab = lab(|_| {});
    lab.phones(&[BOB]);
    let req = Req::invite();
    lab.waits(&req);
    lab.pass(19);
    lab.silent();
    lab.pass(5);
    let got = lab.one();
    assert_eq!((got.method(), got.to().as_str()), ("INVITE", BOB));
    // What comes after that is ignored.
    lab.tell("bob", Ok(vec![binding("bob", BOB2, 1000)]));
    lab.silent();
    assert_eq!((lab.count(Counter::LocationSilent), lab.count(Counter::LocationAnswered)), (1, 0));
    lab.rest();
}

#[test]
fn silence_about_a_callee_without_binding_is_480() {
    for change in [|_: &mut Settings| {}, |s: &mut Settings| s.auth.enabled = false] {
        let mut lab = lab(change);
        lab.world.elsewhere.borrow_mut().push("erin");
        for user in ["bob", "erin"] {
            let req = Req::new("INVITE", &format!("sip:{user}@here.example"));
            assert_eq!(lab.invite(CAROL, req.text()).len(), 0);
            lab.pass(25);
            let end = lab.one();
            assert_eq!((end.status(), end.get("Retry-After")), (480, None));
            assert_eq!(lab.ask(CAROL, req.text()).text, end.text);
            lab.send(CAROL, req.ack(&end).text());
            lab.silent();
        }
        lab.rest();
    }
}

#[test]
fn callee_without_binding_is_the_same_here_and_elsewhere() {
    let mut lab = lab(with_mailbox);
    lab.waits(&Req::invite());
    lab.tell("bob", Ok(Vec::new()));
    let got = lab.one();
    assert_eq!(got.to(), MAILBOX);
    assert!(got.uri().ends_with(";target=sip:bob%40here.example;cause=404"), "{}", got.uri());
    lab.send(MAILBOX, got.reply(486, "m", ""));
    lab.sent();
    // As after silence, and where the service is down.
    lab.waits(&Req::invite());
    lab.pass(25);
    assert!(lab.sent().iter().any(|s| s.to() == MAILBOX));
    lab.rest();
    lab.waits(&Req::invite());
    lab.tell("bob", Err(StoreDown { retry_after: 7 }));
    assert_eq!(lab.one().to(), MAILBOX);
    lab.rest();
    // A MESSAGE has no mailbox.
    lab.send(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text());
    lab.tell("bob", Ok(Vec::new()));
    assert_eq!(lab.one().status(), 480);
    lab.rest();
}

#[test]
fn expired_binding_does_not_count() {
    let mut lab = lab(|_| {});
    lab.waits(&Req::invite());
    lab.tell("bob", Ok(vec![Record { expires: lab.now, ..binding("bob", BOB, 1000) }]));
    assert_eq!(lab.one().status(), 480);
    lab.rest();
}

#[test]
fn location_service_that_is_down_is_500_with_retry_after() {
    let mut lab = lab(|_| {});
    let req = Req::invite();
    lab.waits(&req);
    lab.tell("bob", Err(StoreDown { retry_after: 7 }));
    let end = lab.one();
    assert_eq!((end.status(), end.get("Retry-After")), (500, Some("7")));
    lab.send(CAROL, req.ack(&end).text());
    // What is known here counts all the same.
    lab.phones(&[BOB]);
    lab.waits(&Req::invite());
    lab.tell("bob", Err(StoreDown { retry_after: 7 }));
    assert_eq!(lab.one().to(), BOB);
    assert_eq!(lab.count(Counter::LocationDown), 2);
    lab.rest();
}

#[test]
fn requests_for_one_callee_share_a_question() {
    let mut lab = lab(|_| {});
    for _ in 0..3 {
        assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 0);
        lab.pass(1);
    }
    let other = Req::new("INVITE", "sip:dave@here.example");
    lab.invite(CAROL, other.text());
    assert_eq!(lab.asked(), ["bob", "dave"]);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    assert_eq!(requests(&lab.sent()), vec![("INVITE".to_owned(), BOB.to_owned()); 3]);
    // A repeated answer, and one about a user without a waiting request.
    lab.tell("bob", Ok(vec![binding("bob", BOB2, 1000)]));
    lab.tell("alice", Ok(vec![binding("alice", ALICE, 1000)]));
    lab.silent();
    assert_eq!(lab.report().pending, 4);
    // The answers come in another order than the questions went.
    lab.invite(CAROL, Req::invite().text());
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    lab.tell("dave", Ok(Vec::new()));
    assert_eq!((requests(&lab.sent()).len(), lab.asked()), (1, vec!["bob".to_owned()]));
    lab.rest();
}

#[test]
fn lost_question_is_asked_again() {
    let mut lab = lab(|_| {});
    let mut asked = 0;
    // One waits at any time, so the question is never without a waiter.
    for _ in 0..20 {
        lab.send(CAROL, Req::invite().text());
        lab.pass(10);
        asked += lab.asked().len();
    }
    assert!((5..=11).contains(&asked), "{asked}");
    lab.rest();
}

#[test]
fn waiting_requests_are_bounded() {
    const MOST: usize = 4_096;
    let room = Limits { server: 5_000, client: 100, bytes: 64 << 20 };
    let mut lab = Lab::limited(room, |s| s.auth.enabled = false);
    lab.world.elsewhere.borrow_mut().push("bob");
    for _ in 0..MOST {
        lab.hand_over(udp(CAROL), Req::new("MESSAGE", "sip:bob@here.example").text());
    }
    lab.silent();
    assert_eq!(lab.report().pending, MOST);
    let refused = lab.ask(CAROL, Req::invite().text());
    assert_eq!((refused.status(), refused.get("Retry-After")), (503, Some("5")));
    assert_eq!((lab.count(Counter::LocationRefused), lab.count(Counter::Overload)), (1, 1));
    assert_eq!(lab.report().shortages, [(Shortage::Waiting, "192.0.2.10".parse().unwrap())]);
    // Each gets its answer, and there is room again.
    lab.tell("bob", Ok(Vec::new()));
    assert_eq!(statuses(&lab.sent()), vec![480; MOST]);
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 0);
    lab.rest();
}

#[test]
fn call_that_waited_finds_no_room_for_calls() {
    let mut lab = lab(|s| s.calls = 1);
    lab.waits(&Req::invite());
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    assert_eq!(lab.invite(CAROL, Req::new("INVITE", "sip:alice@here.example").text()).len(), 1);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    let end = lab.one();
    assert_eq!((end.status(), end.get("Retry-After")), (503, Some("5")));
    lab.rest();
}

#[test]
fn strangers_leave_users_room_to_wait() {
    let room = Limits { server: 50_000, client: 100, bytes: 256 << 20 };
    let mut lab = Lab::limited(room, |_| {});
    lab.world.elsewhere.borrow_mut().push("bob");
    let message = || Req::new("MESSAGE", "sip:bob@here.example").text();
    (0..600).for_each(|_| lab.hand_over(udp(CAROL), message()));
    assert_eq!((lab.report().pending, statuses(&lab.sent())), (512, vec![503; 88]));
    assert_eq!(lab.report().shortages, [(Shortage::Share, "192.0.2.10".parse().unwrap())]);
    for n in 0..100 {
        (0..30).for_each(|_| lab.hand_over(udp(&format!("203.0.113.{n}:5060")), message()));
    }
    assert_eq!((lab.report().pending, lab.sent().len()), (2_048, 1_464), "half of all, together");
    assert_eq!(statuses(&lab.as_user(ALICE, "alice", &Req::invite().alice())), [100]);
    // They get their shares again.
    lab.tell("bob", Ok(Vec::new()));
    assert_eq!((lab.report().pending, lab.sent().len()), (0, 2_049));
    lab.hand_over(udp(CAROL), message());
    assert_eq!(lab.report().pending, 1);
    lab.rest();
}

#[test]
fn request_that_waits_takes_no_calls_place() {
    let mut lab = lab(|s| s.calls = 1);
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    let invite = lab.invite(CAROL, Req::new("INVITE", "sip:alice@here.example").text()).remove(0);
    assert_eq!(lab.ask(ALICE, invite.accept("a")).status(), 200);
    let call = |lab: &Lab| lab.report().calls.into_iter().map(|call| (call.answered, call.to)).next();
    let answered = call(&lab);
    assert!(answered.as_ref().is_some_and(|(answered, _)| *answered));
    lab.waits(&Req::invite());
    assert_eq!(call(&lab), answered);
    lab.tell("bob", Ok(Vec::new()));
    assert_eq!((lab.one().status(), call(&lab)), (480, answered.clone()));
    // It does once it becomes a call.
    lab.waits(&Req::invite());
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    assert_eq!(lab.one().to(), BOB);
    assert!(call(&lab).is_some_and(|(answered, _)| !answered));
    lab.rest();
}

#[test]
fn requests_that_end_early_leave_their_question_to_others() {
    let room = Limits { server: 10_000, client: 1_000, bytes: 64 << 20 };
    let mut lab = Lab::limited(room, |_| {});
    lab.world.elsewhere.borrow_mut().push("bob");
    lab.world.patience.set(1_000);
    // Each comes before the last one has ended, so that the question lasts.
    let mut last: Option<Req> = None;
    for _ in 0..500 {
        let req = Req::invite();
        assert_eq!(lab.invite(CAROL, req.text()).len(), 0);
        if let Some(last) = last.replace(req) {
            lab.send(CAROL, last.cancel().text());
            assert_eq!(statuses(&lab.sent()), [200, 487]);
        }
    }
    assert_eq!((lab.asked(), lab.report().pending), (vec!["bob".to_owned()], 1));
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    assert_eq!(lab.one().to(), BOB);
    // With the last one its question goes.
    let req = Req::invite();
    assert_eq!(lab.invite(CAROL, req.text()).len(), 0);
    lab.send(CAROL, req.cancel().text());
    lab.sent();
    assert_eq!(lab.invite(CAROL, Req::invite().text()).len(), 0);
    assert_eq!(lab.asked(), ["bob", "bob"]);
    lab.rest();
}

#[test]
fn strangers_share_bounds_waiting_requests() {
    let room = Limits { server: 100, client: 100, bytes: 64 << 20 };
    let mut lab = Lab::limited(room, |_| {});
    lab.world.elsewhere.borrow_mut().push("bob");
    (0..100).for_each(|_| lab.hand_over(udp(CAROL), Req::invite().text()));
    let waits = lab.report().pending;
    assert!((1..100).contains(&waits), "{waits}");
    assert_eq!(lab.sent().iter().filter(|s| s.status() == 503).count(), 100 - waits);
    lab.rest();
}

#[test]
fn overload_lets_waiting_requests_go_on() {
    let mut lab = lab(|_| {});
    lab.world.patience.set(1_000);
    let req = Req::invite();
    lab.waits(&req);
    let load = Load { window: Load::WINDOW, behind: Duration::from_secs(1), ..Load::default() };
    lab.now = lab.now + Load::WINDOW;
    lab.node.pace(lab.now, &load);
    assert!(lab.report().overload.overloaded);
    assert_eq!(lab.ask(CAROL, req.text()).status(), 100, "it was taken on before");
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    assert_eq!(lab.one().to(), BOB);
    lab.rest();
}

#[test]
fn draining_worker_finishes_waiting_requests() {
    let mut lab = lab(|_| {});
    lab.waits(&Req::invite());
    lab.notice(Notice::Drain);
    assert_eq!(lab.ask(CAROL, Req::invite().text()).status(), 503);
    assert_eq!(lab.report().pending, 1);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    assert_eq!(lab.one().to(), BOB);
    lab.rest();
}

#[test]
fn settings_that_change_meanwhile_are_in_force() {
    let mut lab = lab(|_| {});
    lab.waits(&Req::invite());
    lab.reconfigure(|s| s.proxy.mode = Mode::Redirect);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    assert_eq!(lab.one().status(), 302);
    lab.rest();
}

#[test]
fn redirect_server_waits_too() {
    let mut lab = lab(|s| s.proxy.mode = Mode::Redirect);
    let req = Req::invite();
    lab.waits(&req);
    lab.tell("bob", Ok(vec![binding("bob", BOB2, 500), binding("bob", BOB, 1000)]));
    let moved = lab.one();
    let contacts = format!("<sip:bob@{BOB}>, <sip:bob@{BOB2}>;q=0.500");
    assert_eq!((moved.status(), moved.get("Contact")), (302, Some(contacts.as_str())));
    lab.send(CAROL, req.ack(&moved).text());
    lab.silent();
    lab.rest();
}

#[test]
fn stateless_server_waits_with_a_transaction() {
    let mut lab = lab(|s| s.proxy.mode = Mode::Stateless);
    let req = Req::invite();
    lab.waits(&req);
    assert_eq!(lab.report().transactions.server, 1);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    let got = lab.one();
    lab.send(BOB, got.reply(180, "b", ""));
    assert_eq!(lab.one().status(), 180);
    lab.send(CAROL, req.cancel().text());
    let sent = lab.sent();
    assert_eq!((statuses(&sent), requests(&sent)), (vec![200], vec![("CANCEL".to_owned(), BOB.to_owned())]));
    lab.send(BOB, got.reply(487, "b", ""));
    assert_eq!(statuses(&lab.sent()), [487]);
    lab.rest();
}

#[test]
fn ack_and_stateless_cancel_go_by_what_is_known_here() {
    let mut lab = lab(|s| s.proxy.mode = Mode::Stateless);
    lab.phones(&[BOB]);
    for method in ["ACK", "CANCEL"] {
        assert_eq!(lab.ask(CAROL, Req::new(method, "sip:bob@here.example").text()).to(), BOB);
    }
    lab.send(CAROL, Req::new("ACK", "sip:dave@here.example").text());
    lab.silent();
    assert_eq!((lab.asked(), lab.report().pending), (Vec::new(), 0));
}

#[test]
fn other_requests_wait_without_a_100() {
    let mut lab = lab(|_| {});
    for method in ["MESSAGE", "OPTIONS"] {
        let req = Req::new(method, "sip:bob@here.example");
        lab.send(CAROL, req.text());
        lab.silent();
        // Neither a retransmission nor a CANCEL changes anything (RFC 3261 sections 17.2.2, 9.1).
        lab.send(CAROL, req.text());
        lab.silent();
        assert_eq!(lab.ask(CAROL, req.cancel().text()).status(), 200);
        lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
        let got = lab.one();
        assert_eq!((got.method(), got.to().as_str()), (method, BOB));
        assert_eq!(lab.ask(BOB, got.reply(200, "b", "")).status(), 200);
    }
    lab.rest();
}

#[test]
fn caller_with_credentials_waits_once() {
    let mut lab = lab(|_| {});
    let sent = lab.as_user(ALICE, "alice", &Req::invite().alice());
    assert_eq!(statuses(&sent), [100]);
    lab.tell("bob", Ok(vec![binding("bob", BOB, 1000)]));
    let got = lab.one();
    assert_eq!((got.to().as_str(), got.get("Proxy-Authorization")), (BOB, None), "section 22.3");
    lab.rest();
}

#[test]
fn route_to_several_users_asks_for_each() {
    let users = ["bob", "dave", "erin", "frank", "grace"];
    let mut lab = Lab::open();
    lab.reconfigure(|s| {
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"sales".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(
                users.iter().map(|user| format!("sip:{user}@here.example").into_bytes()).collect(),
            ),
        })
    });
    *lab.world.elsewhere.borrow_mut() = users.to_vec();
    let req = Req::new("INVITE", "sip:sales@here.example").alice();
    assert_eq!(lab.invite(ALICE, req.text()).len(), 0);
    // For the fifth, only the bindings known here count.
    for user in &users[..4] {
        assert_eq!(lab.asked(), [*user]);
        lab.silent();
        let found = if *user == "dave" { vec![binding("dave", BOB2, 1000)] } else { Vec::new() };
        lab.tell(user, Ok(found));
    }
    assert_eq!((lab.asked(), lab.one().to().as_str()), (Vec::new(), BOB2));
    lab.rest();
}

#[test]
fn emergency_call_does_not_wait() {
    let mut lab = lab(|s| {
        s.emergency = Some(Emergency {
            numbers: vec![b"112".to_vec()],
            targets: vec![b"sip:203.0.113.110".to_vec()],
            ..Emergency::default()
        });
    });
    lab.world.elsewhere.borrow_mut().push("alice");
    // Alice is registered at this address with another node.
    let sent = lab.as_user(ALICE, "alice", &Req::new("INVITE", "sip:112@here.example").alice());
    assert_eq!(sent.last().map(|s| s.to()).as_deref(), Some("203.0.113.110:5060"));
    assert_eq!((lab.asked(), lab.count(Counter::LocationAnswered)), (Vec::new(), 0));
}

#[test]
fn service_cannot_make_a_request_wait_for_long() {
    let mut lab = lab(|_| {});
    lab.world.patience.set(60_000);
    lab.waits(&Req::invite());
    lab.pass(1_900);
    lab.silent();
    lab.pass(200);
    assert_eq!(lab.one().status(), 480);
    lab.rest();
}
