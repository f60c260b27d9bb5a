//! What the class of a caller lets leave: the usual frauds, each refused with its reason.

use super::emergency::{help, to};
use super::*;
use crate::call_limits::{
    Barred, Class, ClassName, Classes, Hours, Limits, Prefixes, Rule, StrangerRate, Zone,
};
use call_rules::{NumberPlan, PlanParts};
use number_routes::Digits;

const CARRIER: &str = "203.0.113.5:5060";

fn digits(list: &[&str]) -> Vec<Digits> {
    list.iter().map(|prefix| Digits::parse(prefix.as_bytes()).unwrap()).collect()
}

fn class(name: &str, allow: &[&str], deny: &[&str]) -> Class {
    Class { prefixes: Prefixes::new(&digits(allow), &digits(deny)).unwrap(), ..Class::open(name.as_bytes()) }
}

/// The users of the domain are guests, who may call Germany and Britain, but no premium numbers.
fn guest() -> Class {
    class("guest", &["+49", "+44"], &["+44900", "+49900"])
}

fn classes(list: Vec<Class>) -> Classes {
    let mut classes = Classes::new(list);
    classes.of_users_at(b"here.example", b"guest");
    classes.of_calls_from(b"pbx", b"guest");
    classes
}

/// Numbers are dialled as in Germany, and go over one trunk, of which all prefixes are.
fn lab_with(list: Vec<Class>, change: impl FnOnce(&mut Settings)) -> Lab {
    let parts = PlanParts {
        country: "49",
        national: &["0".to_owned()],
        international: "00",
        area: "",
        short: 6,
        format: None,
    };
    let numbers = NumberPlan::new(&parts).ok();
    Lab::with(|s| {
        s.auth.in_dialog = false;
        s.trunks.push(trunk(&["sip:203.0.113.5"], "+"));
        s.domain_rules.push(Domain { name: b"here.example".to_vec(), numbers, ..Domain::default() });
        s.proxy.classes = classes(list);
        change(s);
    })
}

fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    lab_with(vec![guest(), class("staff", &[], &[])], change)
}

/// What became of a request: the Request-URI that left and where it went, or status and warning.
fn outcome(sent: &[Sent]) -> String {
    if let Some(left) = sent.iter().find(|s| s.status() == 0) {
        return format!("{} at {}", left.uri(), left.to());
    }
    let last = sent.last().expect("an answer");
    match last.get("Warning") {
        Some(warning) => {
            format!("{} {}", last.status(), warning.trim_start_matches("399 proxy ").trim_matches('"'))
        }
        None => last.status().to_string(),
    }
}

/// What becomes of a call of alice's with her password.
fn dial(lab: &mut Lab, uri: &str) -> String {
    let sent = lab.as_user(ALICE, "alice", &to("INVITE", uri).alice());
    outcome(&sent)
}

fn refusal(lab: &Lab) -> (Refusal, String) {
    lab.world.refused.borrow().last().expect("a refusal").clone()
}

fn barred(class: &str, rule: Rule) -> Refusal {
    Refusal::Class(Barred { class: ClassName::new(class.as_bytes()), rule })
}

const DENIED: &str = "403 class guest: numbers that begin with +44900 are denied";

#[test]
fn premium_number_is_refused_however_it_is_written() {
    let mut lab = lab(|_| {});
    for uri in [
        "sip:+44900123@here.example",
        "SIP:+44900123@HERE.example",
        "sip:+44900123@198.51.100.1",
        "sip:0044900123@here.example",
        "sip:+44-900-12.3@here.example",
        "sip:+44-(900)123@here.example;user=phone",
        "sip:%2B44900123@here.example",
        "sip:+44%39%30%30123@here.example",
        "sip:++44900123@here.example",
        "sip:+%2B44900123@here.example",
        "sip:+0044900123@here.example",
        "sip:+44%20900%20123@here.example",
        "sip:+44900123;phone-context=+1@here.example;user=phone",
        "sip:+44900123;ext=1@here.example",
        "sip:+44900123:secret@here.example",
        "tel:+44900123",
        "tel:+44-900-123",
        "TEL:+44900123;phone-context=+49",
        // The address of the trunk.
        "sip:+44900123@203.0.113.5",
        "sip:+44-900-123@203.0.113.5;user=phone",
    ] {
        assert_eq!(dial(&mut lab, uri), DENIED, "{uri}");
        let prefix = Digits::parse(b"+44900").unwrap();
        let (why, about) = refusal(&lab);
        assert_eq!(why, barred("guest", Rule::Denied(prefix)), "{uri}");
        assert!(about.starts_with("alice@here.example -> "), "{about}");
    }
    // What cannot leave anyway.
    for (uri, status) in [
        ("tel:900123;phone-context=+44", "404"),
        ("sip:900123;phone-context=+44@here.example;user=phone", "404"),
        ("sip:44900123@here.example", "404"),
    ] {
        assert_eq!(dial(&mut lab, uri), status, "{uri}");
    }
    lab.rest();
}

#[test]
fn local_number_with_a_foreign_context_is_judged_with_it() {
    let mut lab = lab(|s| s.trunks[0].prefixes.push(b"9".to_vec()));
    assert_eq!(dial(&mut lab, "tel:900123;phone-context=+44"), DENIED);
    assert_eq!(dial(&mut lab, "sip:900123;phone-context=+44@here.example;user=phone"), DENIED);
}

#[test]
fn allowed_numbers_leave_and_others_do_not() {
    let mut lab = lab(|_| {});
    for (uri, expected) in [
        ("sip:+4930123456@here.example", "sip:+4930123456@203.0.113.5 at 203.0.113.5:5060"),
        ("sip:030123456@here.example", "sip:+4930123456@203.0.113.5 at 203.0.113.5:5060"),
        ("tel:+44-20-123", "sip:+4420123@203.0.113.5 at 203.0.113.5:5060"),
        ("sip:+1555123@here.example", "403 class guest: the number begins with none of the allowed prefixes"),
        (
            "sip:001555123@here.example",
            "403 class guest: the number begins with none of the allowed prefixes",
        ),
        ("sip:0900123456@here.example", "403 class guest: numbers that begin with +49900 are denied"),
        // Without a list of trunks other hosts can be called; a number there is judged like any other.
        ("sip:+44900123@192.0.2.99", DENIED),
        ("sip:+4420123@192.0.2.99", "sip:+4420123@192.0.2.99 at 192.0.2.99:5060"),
        ("sip:carol@192.0.2.99", "403 class guest: the number begins with none of the allowed prefixes"),
    ] {
        assert_eq!(dial(&mut lab, uri), expected, "{uri}");
    }
    // Users are no numbers that leave.
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    assert_eq!(dial(&mut lab, "sip:bob@here.example"), format!("sip:bob@{BOB} at {BOB}"));
    assert_eq!(lab.count(Counter::ClassNumber), 5);
}

#[test]
fn outside_line_prefix_hides_no_number() {
    let mut lab = lab(|s| {
        let mut line = trunk(&["sip:203.0.113.7"], "7");
        (line.name, line.strip) = (b"line".to_vec(), 1);
        s.trunks.push(line);
    });
    assert_eq!(dial(&mut lab, "sip:7%2B44900123@here.example"), DENIED);
    assert_eq!(dial(&mut lab, "sip:7+4420123@here.example"), "sip:+4420123@203.0.113.7 at 203.0.113.7:5060");
}

#[test]
fn route_and_gateway_are_no_way_round_the_class() {
    let mut lab = lab(|_| {});
    for (uri, route, expected) in [
        ("sip:+44900123@203.0.113.5", "<sip:203.0.113.5;lr>", DENIED),
        ("sip:+44900123@here.example", "<sip:203.0.113.5;lr>", DENIED),
        ("sip:+44900123@here.example", "<sip:192.0.2.99;lr>", DENIED),
        ("sip:+4420123@here.example", "<sip:203.0.113.5;lr>", "sip:+4420123@203.0.113.5 at 203.0.113.5:5060"),
    ] {
        let call = to("INVITE", uri).alice().line(&format!("Route: {route}"));
        let sent = lab.as_user(ALICE, "alice", &call);
        assert_eq!(outcome(&sent), expected, "{uri} by {route}");
    }
    // A gateway that registers like a phone takes every number at its address.
    lab.bind("dave", "<sip:gw@192.0.2.50>", udp("192.0.2.50:5060"));
    assert_eq!(dial(&mut lab, "sip:+44900123@192.0.2.50"), DENIED);
    assert_eq!(
        dial(&mut lab, "sip:+1555123@192.0.2.50"),
        "403 class guest: the number begins with none of the allowed prefixes"
    );
    assert_eq!(dial(&mut lab, "sip:gw@192.0.2.50"), "sip:gw@192.0.2.50 at 192.0.2.50:5060");
    // Nor is a Contact of the caller's own that names such a number there.
    lab.bind("alice", "<sip:+44900123@192.0.2.50>", udp(ALICE));
    assert_eq!(dial(&mut lab, "sip:+44900123@192.0.2.50"), DENIED);
}

#[test]
fn user_has_its_own_class_before_that_of_the_domain() {
    let mut lab = lab(|_| {});
    lab.world.classes.borrow_mut().push(("alice", "staff"));
    assert_eq!(dial(&mut lab, "sip:+44900123@here.example"), "sip:+44900123@203.0.113.5 at 203.0.113.5:5060");
    lab.world.classes.borrow_mut()[0].1 = "gone";
    assert_eq!(dial(&mut lab, "sip:+4930123@here.example"), "403 class gone: there is no such class");
    assert_eq!(refusal(&lab).0, barred("gone", Rule::Unknown));
}

#[test]
fn name_of_another_user_in_from_gives_no_other_class() {
    let mut lab = lab(|_| {});
    lab.world.classes.borrow_mut().push(("alice", "staff"));
    let call = to("INVITE", "sip:+44900123@here.example").alice();
    assert_eq!(outcome(&lab.as_user(ALICE, "bob", &call)), "403");
    assert_eq!(refusal(&lab).0, Refusal::OtherUser);
    lab.reconfigure(|s| s.auth.bind_from = false);
    let call = to("INVITE", "sip:+44900123@here.example").alice();
    assert_eq!(outcome(&lab.as_user(ALICE, "bob", &call)), DENIED, "whose credentials these are decides");
    assert!(refusal(&lab).1.starts_with("bob@here.example -> "));
    // A caller without a name.
    let mut call = to("INVITE", "sip:+44900123@here.example").alice();
    call.from = "<sip:anonymous@anonymous.invalid>;tag=a".to_owned();
    assert_eq!(outcome(&lab.as_user(ALICE, "bob", &call)), DENIED);
}

#[test]
fn phone_without_password_has_the_class_of_its_registration() {
    let mut lab = lab(|s| s.auth.challenge = Challenge::Only(vec![b"REGISTER".to_vec()]));
    lab.bind("bob", &format!("<sip:bob@{ALICE}>"), udp(ALICE));
    lab.world.classes.borrow_mut().push(("alice", "staff"));
    let call = to("INVITE", "sip:+44900123@here.example").alice();
    lab.send(ALICE, call.text());
    assert_eq!(outcome(&lab.sent()), DENIED, "alice is not registered there");
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    let call = to("INVITE", "sip:+44900123@here.example").alice();
    lab.send(ALICE, call.text());
    assert_eq!(outcome(&lab.sent()), "sip:+44900123@203.0.113.5 at 203.0.113.5:5060");
}

#[test]
fn strangers_reach_no_number_and_trunks_what_their_class_allows() {
    let mut lab = lab(|s| {
        let mut pbx = trunk(&["sip:198.18.0.5"], "x");
        (pbx.name, pbx.may_transit) = (b"pbx".to_vec(), true);
        pbx.sources = vec![("198.18.0.5".parse().unwrap(), 32)];
        s.trunks.push(pbx);
    });
    let stranger = to("INVITE", "sip:+4930123@here.example");
    assert_eq!(lab.ask(CAROL, stranger.text()).status(), 403);
    for (uri, expected) in [
        ("sip:+44900123@here.example", DENIED),
        ("sip:+4930123@here.example", "sip:+4930123@203.0.113.5 at 203.0.113.5:5060"),
    ] {
        lab.send("198.18.0.5:5060", to("INVITE", uri).sent_by("UDP", "198.18.0.5:5060").text());
        assert_eq!(outcome(&lab.sent()), expected, "{uri}");
    }
    assert!(refusal(&lab).1.starts_with("pbx -> +44900123"), "{:?}", refusal(&lab));
}

#[test]
fn class_keeps_calls_on_its_trunks() {
    let only = |trunks: &[&str]| {
        let trunks = trunks.iter().map(|name| name.as_bytes().to_vec()).collect();
        Class { trunks: Some(trunks), ..class("guest", &[], &[]) }
    };
    let mut lab = lab_with(vec![only(&["backup"])], |s| {
        let mut backup = trunk(&["sip:203.0.113.9"], "*");
        backup.name = b"backup".to_vec();
        s.trunks.push(backup);
    });
    assert_eq!(
        dial(&mut lab, "sip:+4930123@here.example"),
        "403 class guest: its calls may not leave over this trunk"
    );
    assert_eq!(
        dial(&mut lab, "sip:carol@192.0.2.99"),
        "403 class guest: its calls may leave over trunks only"
    );
    assert_eq!(dial(&mut lab, "sip:*21@here.example"), "sip:*21@203.0.113.9 at 203.0.113.9:5060");
    assert_eq!(lab.count(Counter::ClassTrunk), 2);
}

#[test]
fn failover_leaves_out_trunks_that_a_class_has_not() {
    let carrier = vec![b"carrier".to_vec()];
    let mut lab = lab_with(vec![Class { trunks: Some(carrier), ..class("guest", &[], &[]) }], |s| {
        let mut dear = trunk(&["sip:203.0.113.9"], "*");
        dear.name = b"dear".to_vec();
        s.trunks.push(dear);
        let targets = ["sip:203.0.113.9", "sip:203.0.113.5"].map(|uri| uri.as_bytes().to_vec());
        s.routes.push(Route {
            domain: None,
            prefix: Some(b"+".to_vec()),
            user: None,
            silent_after_ms: 2_000,
            action: RouteAction::Forward(targets.to_vec()),
        });
    });
    let call = to("INVITE", "sip:+4930123@here.example").alice();
    let sent = lab.as_user(ALICE, "alice", &call);
    assert_eq!(outcome(&sent), "sip:+4930123@203.0.113.5 at 203.0.113.5:5060");
    let left = sent.iter().find(|s| s.status() == 0).unwrap();
    lab.send(CARRIER, left.reply(503, "x", ""));
    assert!(lab.sent().iter().all(|s| s.to() != "203.0.113.9:5060"), "nothing goes to the other one");
}

/// Half past eleven in the night of a Saturday.
const NIGHT: u64 = 1_289_690_940;

#[test]
fn calls_at_night_are_refused_by_the_local_time() {
    // Saturdays from 08:00 to 23:00.
    let hours = Hours::new(&[(5 * 1_440 + 480, 5 * 1_440 + 1_380)]);
    let list = vec![Class { hours, ..guest() }];
    let mut lab = lab_with(list.clone(), |_| {});
    assert_eq!(dial(&mut lab, "sip:+4930123@here.example"), "403 class guest: no calls at this time");
    assert_eq!(lab.count(Counter::ClassHours), 1);
    lab.world.wall_clock.set(Some(NIGHT - 3_600));
    assert_eq!(dial(&mut lab, "sip:+4930123@here.example"), "sip:+4930123@203.0.113.5 at 203.0.113.5:5060");
    // The same hour an hour further east.
    let east = vec![Class { zone: Zone::new(3_600, &[]), ..list[0].clone() }];
    lab.reconfigure(|s| s.proxy.classes = classes(east));
    assert_eq!(dial(&mut lab, "sip:+4930123@here.example"), "403 class guest: no calls at this time");
}

#[test]
fn emergency_call_is_never_limited() {
    let limits = Limits { channels: Some(1), per_hour: Some(1), per_day: Some(1) };
    let closed = Class { hours: Hours::new(&[(0, 1)]), limits, trunks: Some(Vec::new()), ..guest() };
    let mut lab = lab_with(vec![closed], |s| s.emergency = Some(help()));
    lab.bind("alice", &format!("<sip:alice@{ALICE}>"), udp(ALICE));
    for uri in ["sip:112@here.example", "urn:service:sos", "tel:112", "sip:112@here.example"] {
        let sent = lab.invite(ALICE, to("INVITE", uri).alice().text());
        assert_eq!(sent[0].to(), "203.0.113.110:5060", "{uri}");
    }
    assert_eq!(
        dial(&mut lab, "sip:+4930123@here.example"),
        "403 class guest: its calls may not leave over this trunk"
    );
}

/// A call of alice's that was let through: the INVITE, what the carrier got. Or the status.
fn call(lab: &mut Lab, req: &Req) -> Result<(Req, Sent), u16> {
    let challenge = lab.ask(ALICE, req.text());
    let again = req.answer("alice", &challenge);
    lab.send(ALICE, again.text());
    let sent = lab.sent();
    match sent.iter().find(|s| s.status() == 0) {
        Some(left) => Ok((again, left.clone())),
        None => Err(sent.last().expect("an answer").status()),
    }
}

fn outside() -> Req {
    to("INVITE", "sip:+4930123@here.example").alice()
}

fn counted(limits: Limits) -> Lab {
    lab_with(vec![Class { limits, ..guest() }], |_| {})
}

#[test]
fn parallel_calls_are_as_many_as_there_are_channels() {
    let mut lab = counted(Limits { channels: Some(2), ..Limits::default() });
    let (_, at_carrier) = call(&mut lab, &outside()).unwrap();
    let (second, at_carrier_too) = call(&mut lab, &outside()).unwrap();
    for _ in 0..100 {
        assert_eq!(call(&mut lab, &outside()).unwrap_err(), 403);
    }
    assert_eq!(refusal(&lab).0, barred("guest", Rule::Channels(2)));
    assert_eq!(lab.count(Counter::ClassChannels), 100);
    // Users are reached all the same, and other users call.
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    assert!(call(&mut lab, &to("INVITE", "sip:bob@here.example").alice()).is_ok());
    // One that fails is free again, and so is one that ends.
    lab.send(CARRIER, at_carrier.reply(486, "x", ""));
    lab.sent();
    assert!(call(&mut lab, &outside()).is_ok());
    assert_eq!(call(&mut lab, &outside()).unwrap_err(), 403);
    lab.send(CARRIER, at_carrier_too.accept("b"));
    let ok = lab.sent().into_iter().find(|s| s.status() == 200).expect("a 200");
    assert_eq!(call(&mut lab, &outside()).unwrap_err(), 403, "it has been answered, not ended");
    lab.send(ALICE, second.within("BYE", &ok).text());
    let bye = lab.sent().into_iter().find(|s| s.method() == "BYE").expect("a BYE");
    lab.send(CARRIER, bye.reply(200, "", ""));
    lab.sent();
    assert!(call(&mut lab, &outside()).is_ok());
    assert_eq!(call(&mut lab, &outside()).unwrap_err(), 403);
}

#[test]
fn cancelled_call_gives_its_channel_back() {
    let mut lab = counted(Limits { channels: Some(1), ..Limits::default() });
    for _ in 0..3 {
        let (invite, left) = call(&mut lab, &outside()).unwrap();
        lab.send(CARRIER, left.reply(180, "x", ""));
        lab.sent();
        lab.send(ALICE, invite.cancel().text());
        let cancel = lab.sent().into_iter().find(|s| s.method() == "CANCEL" && s.status() == 0);
        lab.send(CARRIER, cancel.expect("a CANCEL").reply(200, "x", ""));
        lab.send(CARRIER, left.reply(487, "x", ""));
        assert!(statuses(&lab.sent()).contains(&487));
    }
}

#[test]
fn one_call_id_for_many_calls_is_no_way_round_the_channels() {
    let mut lab = counted(Limits { channels: Some(1), ..Limits::default() });
    let first = outside();
    let (_, left) = call(&mut lab, &first).unwrap();
    for cseq in [10, 20] {
        let mut same = to("INVITE", "sip:+4940123@here.example").alice();
        (same.call_id, same.from, same.cseq) = (first.call_id.clone(), first.from.clone(), cseq);
        assert_eq!(call(&mut lab, &same).unwrap_err(), 403);
    }
    lab.send(CARRIER, left.reply(404, "x", ""));
    lab.sent();
    assert!(call(&mut lab, &outside()).is_ok());
}

#[test]
fn calls_of_an_hour_and_of_a_day_are_counted() {
    let mut lab = counted(Limits { channels: None, per_hour: Some(2), per_day: Some(3) });
    let answers = |lab: &mut Lab, n: usize| {
        (0..n).map(|_| call(lab, &outside()).err().unwrap_or(0)).collect::<Vec<u16>>()
    };
    lab.world.wall_clock.set(Some(NIGHT - 20 * 3_600));
    assert_eq!(answers(&mut lab, 3), [0, 0, 403]);
    assert_eq!(refusal(&lab).0, barred("guest", Rule::Hour(2)));
    lab.world.wall_clock.set(Some(NIGHT - 18 * 3_600));
    assert_eq!(answers(&mut lab, 2), [0, 403]);
    assert_eq!(refusal(&lab).0, barred("guest", Rule::Day(3)));
    lab.world.wall_clock.set(Some(NIGHT + 3_600));
    assert_eq!(answers(&mut lab, 1), [0]);
    assert_eq!((lab.count(Counter::ClassHour), lab.count(Counter::ClassDay)), (1, 1));
}

#[test]
fn transfer_to_a_premium_number_is_refused() {
    let mut lab = lab(|_| {});
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    for (target, passes) in [
        ("<sip:+44900123@here.example>", false),
        ("sip:0044900123@here.example", false),
        ("<tel:+44-900-123>", false),
        ("<sip:+44900123@203.0.113.5>", false),
        ("<sip:+1555@here.example>", false),
        ("<sip:+4930123@here.example>", true),
        ("<sip:bob@here.example>", true),
        ("<sip:bob@192.0.2.20?Replaces=x%3Bto-tag%3Da%3Bfrom-tag%3Db>", true),
    ] {
        let refer = to("REFER", "sip:bob@here.example").alice().line(&format!("Refer-To: {target}"));
        let sent = lab.as_user(ALICE, "alice", &refer);
        assert_eq!(sent.iter().any(|s| s.status() == 0), passes, "{target}: {}", outcome(&sent));
    }
    assert_eq!(lab.count(Counter::ClassNumber), 5);
}

#[test]
fn call_under_way_is_no_way_to_another_number() {
    let mut lab = lab(|_| {});
    let (invite, left) = call(&mut lab, &outside()).unwrap();
    lab.send(CARRIER, left.accept("b"));
    let ok = lab.sent().into_iter().find(|s| s.status() == 200).expect("a 200");
    lab.send(ALICE, invite.within("ACK", &ok).text());
    lab.sent();
    let again = |uri: &str, cseq| Req { uri: uri.to_owned(), cseq, ..invite.within("INVITE", &ok) };
    lab.send(ALICE, again("sip:+44900123@203.0.113.5", 10).text());
    assert_eq!(outcome(&lab.sent()), DENIED);
    lab.send(ALICE, again("sip:bob@203.0.113.5:5060", 11).text());
    assert_eq!(outcome(&lab.sent()), "sip:bob@203.0.113.5:5060 at 203.0.113.5:5060");
}

#[test]
fn redirection_leads_to_no_denied_number() {
    let mut lab = lab(|s| s.proxy.recurse = true);
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    for (contact, status) in [("sip:+44900123@192.0.2.99", 302), ("sip:+4420123@192.0.2.99", 0)] {
        let (_, at_bob) = call(&mut lab, &to("INVITE", "sip:bob@here.example").alice()).unwrap();
        lab.send(BOB, at_bob.reply(302, "x", &format!("Contact: <{contact}>\r\n")));
        let sent = lab.sent();
        let followed = sent.iter().any(|s| s.status() == 0 && s.method() == "INVITE");
        assert_eq!((followed, statuses(&sent).contains(&302)), (status == 0, status == 302), "{contact}");
    }
}

#[test]
fn messages_to_numbers_are_judged_and_the_end_of_a_call_is_not() {
    let mut lab = lab(|_| {});
    let text = to("MESSAGE", "sip:+44900123@here.example").alice();
    assert_eq!(outcome(&lab.as_user(ALICE, "alice", &text)), DENIED);
    // A client that ignores Record-Route ends its call.
    let mut bye = to("BYE", "sip:+44900123@here.example").alice();
    bye.to = "<sip:+44900123@here.example>;tag=b".to_owned();
    assert_eq!(outcome(&lab.as_user(ALICE, "alice", &bye)), "sip:+44900123@203.0.113.5 at 203.0.113.5:5060");
}

#[test]
fn stateless_proxy_judges_numbers_too() {
    let mut lab = lab(|s| s.proxy.mode = Mode::Stateless);
    assert_eq!(dial(&mut lab, "sip:+44900123@here.example"), DENIED);
    let mut lab = lab_with(vec![guest()], |s| {
        (s.proxy.mode, s.auth.enabled) = (Mode::Stateless, false);
    });
    lab.send(ALICE, to("INVITE", "sip:+44900123@here.example").alice().text());
    assert_eq!(outcome(&lab.sent()), DENIED);
}

#[test]
fn strangers_may_call_as_often_as_their_rate_says() {
    let rate = StrangerRate { of_network: 2, total: 3 };
    let mut lab = Lab::with(|s| s.proxy.strangers.rate = Some(rate));
    lab.bind("bob", &format!("<sip:bob@{BOB}>"), udp(BOB));
    let invite = |lab: &mut Lab, from: &str| {
        lab.send(from, Req::invite().sent_by("UDP", from).text());
        lab.sent().into_iter().next().expect("an answer")
    };
    for _ in 0..2 {
        assert_eq!(invite(&mut lab, CAROL).status(), 100);
    }
    let held = invite(&mut lab, CAROL);
    assert_eq!((held.status(), held.get("Retry-After")), (503, Some("30")));
    // Another port of the same address, a made-up To tag, and another method are no way round it.
    assert_eq!(invite(&mut lab, "192.0.2.10:5099").status(), 503);
    let mut tagged = Req::invite();
    tagged.to += ";tag=x";
    assert_eq!(lab.ask(CAROL, tagged.text()).status(), 503);
    assert_eq!(lab.ask(CAROL, Req::new("MESSAGE", "sip:bob@here.example").text()).status(), 503);
    assert!(matches!(refusal(&lab).0, Refusal::Rate(held) if !held.by_total));
    // Others may call until all together are too many.
    assert_eq!(invite(&mut lab, "192.0.2.11:5060").status(), 100);
    let held = invite(&mut lab, "192.0.2.12:5060");
    assert_eq!((held.status(), held.get("Retry-After")), (503, Some("20")));
    assert!(matches!(refusal(&lab).0, Refusal::Rate(held) if held.by_total));
    assert_eq!((lab.count(Counter::StrangerNetwork), lab.count(Counter::StrangerTotal)), (4, 1));
    // Users are no strangers.
    let call = to("INVITE", "sip:bob@here.example").alice();
    assert!(lab.as_user(ALICE, "alice", &call).iter().any(|s| s.status() == 0));
    lab.pass(30_000);
    lab.sent();
    assert_eq!(invite(&mut lab, CAROL).status(), 100);
}
