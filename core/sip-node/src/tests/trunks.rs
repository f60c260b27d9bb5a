//! Ways out of the domain: trunks, static routes, tel URIs, name resolution and failover (RFC 3263
//! section 4.3, RFC 3261 16.7).

use super::*;
use number_routes::{Builder, Digits, Way};
use sip_proxy::locate::{Kind, Srv};

const CARRIER: &str = "203.0.113.5:5060";
const BACKUP: &str = "203.0.113.6:5060";

/// A lab with one trunk of two targets for numbers that begin with +49.
fn lab(change: impl FnOnce(&mut Settings)) -> Lab {
    Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(trunk(&["sip:203.0.113.5", "sip:203.0.113.6"], "+49"));
        change(s);
    })
}

fn number_of(user: &str) -> Req {
    Req::new("INVITE", &format!("sip:{user}@here.example")).alice()
}

#[test]
fn feature_codes_lose_whole_characters_on_the_way_to_a_trunk() {
    let mut lab = lab(|s| {
        let mut pbx = trunk(&["sip:203.0.113.7"], "*21%23");
        (pbx.strip, pbx.prepend) = (4, b"%23".to_vec());
        pbx.domains.push(b"pbx.example".to_vec());
        s.trunks.push(pbx);
    });
    for dialled in ["sip:*21%23123@here.example", "sip:*21#123@here.example", "tel:*21#12-3"] {
        let mut call = number_of("x");
        call.uri = dialled.to_owned();
        let sent = lab.invite(ALICE, call.text());
        assert_eq!(sent[0].uri(), "sip:%23123@203.0.113.7", "{dialled}");
    }
    let mut call = number_of("x");
    call.uri = "sip:%2A21%23123@pbx.example".to_owned();
    assert_eq!(lab.invite(ALICE, call.text())[0].uri(), "sip:%23123@pbx.example");
}

#[test]
fn numbers_go_over_the_trunk_with_the_longest_prefix() {
    let mut lab = lab(|s| {
        let mut other = trunk(&["sip:203.0.113.7:5070"], "+4930");
        (other.strip, other.prepend) = (1, b"00".to_vec());
        s.trunks.push(other);
    });
    let sent = lab.invite(ALICE, number_of("+4940555").text());
    assert_eq!((sent[0].to().as_str(), sent[0].uri()), (CARRIER, "sip:+4940555@203.0.113.5"));
    let sent = lab.invite(ALICE, number_of("+4930555").text());
    assert_eq!(
        (sent[0].to().as_str(), sent[0].uri()),
        ("203.0.113.7:5070", "sip:004930555@203.0.113.7:5070")
    );
    // A stranger's call does not get out this way.
    let stranger = Req::new("INVITE", "sip:+4940555@here.example");
    assert_eq!(lab.ask(CAROL, stranger.text()).status(), 403);
    // Back over the trunk itself it would be a loop: the number is nobody's here.
    let back = stranger.sent_by("UDP", CARRIER);
    assert_eq!(lab.ask(CARRIER, back.text()).status(), 404);
}

#[test]
fn tel_uris() {
    let mut lab = lab(|_| {});
    let tel = |number: &str| {
        let mut req = Req::new("INVITE", "tel:x").alice();
        (req.uri, req.to) = (format!("tel:{number}"), format!("<tel:{number}>"));
        req.text()
    };
    let sent = lab.invite(ALICE, tel("+49-40-(555)"));
    assert_eq!((sent[0].to().as_str(), sent[0].uri()), (CARRIER, "sip:+4940555@203.0.113.5"));
    assert_eq!(lab.ask(ALICE, tel("+1234")).status(), 404);
    // The number of one of our own phones.
    lab.bind("100", &format!("<sip:100@{BOB}>"), udp(BOB));
    assert_eq!(lab.invite(ALICE, tel("100;phone-context=here.example"))[0].to(), BOB);
}

#[test]
fn a_trunk_that_is_down_gives_way_to_the_next_target() {
    // 503, a transport error, silence.
    for how in ["503", "undeliverable", "silent"] {
        let mut lab = lab(|_| {});
        let sent = lab.invite(ALICE, number_of("+4940555").text());
        assert_eq!(requests(&sent), [("INVITE".to_owned(), CARRIER.to_owned())]);
        match how {
            "503" => lab.send(CARRIER, sent[0].reply(503, "x", "")),
            "undeliverable" => lab.undeliverable(&sent[0]),
            _ => lab.pass(32_100),
        }
        let next = lab.sent();
        assert!(statuses(&next).is_empty(), "{how}: {next:?}");
        let second =
            next.iter().find(|s| s.to() == BACKUP).unwrap_or_else(|| panic!("{how}: {next:?}")).clone();
        assert_eq!(second.uri(), "sip:+4940555@203.0.113.6");
        lab.send(BACKUP, second.accept("x"));
        assert_eq!(statuses(&lab.sent()), [200], "{how}");
        lab.rest();
    }
}

#[test]
fn what_the_called_person_says_is_the_end_of_it() {
    for status in [404, 480, 486, 487, 500, 603] {
        let mut lab = lab(|_| {});
        let sent = lab.invite(ALICE, number_of("+4940555").text());
        lab.send(CARRIER, sent[0].reply(status, "x", ""));
        let end = lab.sent();
        assert_eq!(requests(&end), [("ACK".to_owned(), CARRIER.to_owned())], "no second call");
        assert_eq!(statuses(&end), [status]);
        lab.rest();
    }
}

#[test]
fn a_trunk_that_rings_and_then_falls_silent_is_not_called_again() {
    let mut lab = lab(|_| {});
    let sent = lab.invite(ALICE, number_of("+4940555").text());
    lab.send(CARRIER, sent[0].reply(180, "x", ""));
    lab.pass(300_000);
    let all = lab.sent();
    assert!(!requests(&all).iter().any(|(method, to)| method == "INVITE" && to == BACKUP), "{all:?}");
    lab.rest();
}

#[test]
fn statuses_that_the_operator_names_give_way_too() {
    let mut lab = lab(|s| s.trunks[0].retry_on = vec![500, 486]);
    let sent = lab.invite(ALICE, number_of("+4940555").text());
    lab.send(CARRIER, sent[0].reply(500, "x", ""));
    let next = lab.sent();
    assert_eq!(requests(&next), [("ACK".to_owned(), CARRIER.to_owned()), ("INVITE".into(), BACKUP.into())]);
    let second = next[1].clone();
    lab.send(BACKUP, second.reply(486, "x", ""));
    assert_eq!(statuses(&lab.sent()), [486], "there is no third");
    lab.rest();
}

#[test]
fn names_are_resolved_and_their_servers_tried_in_order() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(trunk(&["sip:carrier.example"], "+49"));
    });
    let req = number_of("+4940555");
    assert!(lab.invite(ALICE, req.text()).is_empty());
    let srv =
        |priority, target: &str| Srv { priority, weight: 1, port: 5070, target: target.as_bytes().into() };
    lab.resolve_with(|q| match (q.kind, &*q.name) {
        (Kind::Srv, b"_sip._udp.carrier.example") => {
            Answer::Srv(Box::new([srv(2, "b.carrier.example"), srv(1, "a.carrier.example")]))
        }
        (Kind::A, b"a.carrier.example") => Answer::A(Box::new(["203.0.113.11".parse().unwrap()])),
        (Kind::A, b"b.carrier.example") => Answer::A(Box::new(["203.0.113.12".parse().unwrap()])),
        _ => Answer::Nothing,
    });
    let first = lab.one();
    assert_eq!((first.to().as_str(), first.uri()), ("203.0.113.11:5070", "sip:+4940555@carrier.example"));
    // RFC 3263 section 4.3: a new transaction with a new branch.
    lab.send("203.0.113.11:5070", first.reply(503, "x", ""));
    let next = lab.sent();
    let second = next.iter().find(|s| s.method() == "INVITE").unwrap();
    assert_eq!(second.to(), "203.0.113.12:5070");
    assert_ne!(second.get("Via"), first.get("Via"));
    // What is known is not asked again.
    let sent = lab.invite(ALICE, number_of("+4940556").text());
    assert_eq!(sent[0].to(), "203.0.113.11:5070");
    lab.rest();
}

#[test]
fn names_that_lead_nowhere() {
    for (answer, statuses_of) in [(Answer::Nothing, [404]), (Answer::Failed, [500])] {
        let mut lab = Lab::open();
        lab.invite(ALICE, Req::new("INVITE", "sip:x@nowhere.example").alice().text());
        lab.resolve_with(|_| answer.clone());
        assert_eq!(statuses(&lab.sent()), statuses_of);
        let why = if answer == Answer::Nothing { "NotFound" } else { "Unavailable" };
        assert_eq!(*lab.world.news.borrow(), [format!("unresolved nowhere.example {why}")]);
        lab.rest();
    }
    // An answer that never comes: the server transaction ends some day, and with it everything.
    let mut lab = Lab::open();
    lab.invite(ALICE, Req::new("INVITE", "sip:x@nowhere.example").alice().text());
    lab.send(ALICE, Req::new("MESSAGE", "sip:x@nowhere.example").alice().text());
    lab.pass(300_000);
    lab.world.questions.borrow_mut().clear();
    assert!(lab.report().calls.is_empty());
    lab.rest();
}

#[test]
fn name_that_was_not_asked_for_is_told_apart_from_a_silent_dns() {
    let mut lab = Lab::open();
    for n in 0..=100 {
        assert!(lab.world.news.borrow().is_empty(), "{n}");
        lab.send(ALICE, Req::new("INVITE", &format!("sip:x@n{n}.example")).alice().text());
    }
    assert_eq!(*lab.world.news.borrow(), ["unresolved n100.example Full"]);
}

#[test]
fn the_second_target_of_a_trunk_serves_where_the_first_has_no_address() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(trunk(&["sip:nowhere.example", "sip:203.0.113.6"], "+49"));
    });
    lab.invite(ALICE, number_of("+4940555").text());
    lab.resolve_with(|_| Answer::Nothing);
    assert_eq!(lab.one().to(), BACKUP);
}

#[test]
fn domains_of_a_trunk() {
    let mut lab = lab(|s| s.trunks[0].domains = vec![b"carrier.example".to_vec()]);
    let sent = lab.invite(ALICE, Req::new("INVITE", "sip:someone@carrier.example").alice().text());
    assert_eq!((sent[0].to().as_str(), sent[0].uri()), (CARRIER, "sip:someone@carrier.example"));
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:someone@carrier.example").text()).status(), 403);
    // Digits are changed in the user, whatever else of the URI looks like him.
    let mut lab = self::lab(|s| {
        s.trunks[0].domains = vec![b"carrier.example".to_vec()];
        (s.trunks[0].strip, s.trunks[0].prepend) = (1, b"00".to_vec());
    });
    let sent = lab.invite(ALICE, Req::new("INVITE", "sip:sip@carrier.example").alice().text());
    assert_eq!(sent[0].uri(), "sip:00ip@carrier.example");
}

#[test]
fn transit() {
    let out = Req::new("INVITE", "sip:x@192.0.2.200").sent_by("UDP", CARRIER);
    let mut closed = lab(|_| {});
    assert_eq!(closed.ask(CARRIER, out.text()).status(), 403);
    // A trunk may always call in.
    closed.phones(&[BOB]);
    assert_eq!(closed.invite(CARRIER, Req::invite().sent_by("UDP", CARRIER).text())[0].to(), BOB);
}

#[test]
fn a_redirect_server_tells_the_way_over_a_trunk() {
    let mut lab = lab(|s| s.proxy.mode = Mode::Redirect);
    let moved = lab.ask(ALICE, number_of("+4940555").text());
    assert_eq!(moved.status(), 302);
    assert_eq!(moved.get("Contact"), Some("<sip:+4940555@203.0.113.5>, <sip:+4940555@203.0.113.6>"));
    // 8.3: never to the URI that was asked for.
    let sent = lab.invite(ALICE, Req::new("INVITE", "sip:x@192.0.2.77").alice().text());
    assert_eq!(sent[0].to(), "192.0.2.77:5060");
}

#[test]
fn static_routes() {
    let mut lab = Lab::with(|s| {
        let route = |user: &str, action| Route {
            domain: Some(b"here.example".to_vec()),
            prefix: None,
            user: Some(user.as_bytes().to_vec()),
            silent_after_ms: 2_000,
            action,
        };
        let uris = |list: &[&str]| list.iter().map(|u| u.as_bytes().to_vec()).collect();
        s.auth.enabled = false;
        s.routes = vec![
            route("fax", RouteAction::Forward(uris(&["sip:203.0.113.20", "sip:203.0.113.21"]))),
            route("old", RouteAction::Redirect(uris(&["sip:new@here.example", "sip:new@far.example"]))),
        ];
    });
    let fax = Req::new("INVITE", "sip:fax@here.example");
    let sent = lab.invite(ALICE, fax.clone().alice().text());
    assert_eq!((sent[0].to().as_str(), sent[0].uri()), ("203.0.113.20:5060", "sip:fax@203.0.113.20"));
    lab.undeliverable(&sent[0]);
    assert_eq!(lab.one().to(), "203.0.113.21:5060");
    assert_eq!(lab.ask(CAROL, fax.text()).status(), 403);
    let moved = lab.ask(CAROL, Req::new("INVITE", "sip:old@here.example").text());
    assert_eq!(moved.status(), 302);
    assert_eq!(moved.get("Contact"), Some("<sip:new@here.example>, <sip:new@far.example>"));
    lab.rest();
}

#[test]
fn a_backup_that_never_answers_ends_the_call_too() {
    let mut lab = lab(|_| {});
    lab.invite(ALICE, number_of("+4940555").text());
    lab.pass(32_100);
    let second = lab.sent().into_iter().find(|s| s.to() == BACKUP).unwrap();
    lab.send(BACKUP, second.reply(100, "", ""));
    lab.pass(300_000);
    assert_eq!(statuses(&lab.sent()).first(), Some(&408));
    lab.rest();
}

#[test]
fn a_static_route_is_no_transit_for_trunks() {
    let route = |prefix: &str, target: &str| Route {
        domain: None,
        prefix: Some(prefix.as_bytes().to_vec()),
        user: None,
        silent_after_ms: 2_000,
        action: RouteAction::Forward(vec![target.as_bytes().to_vec()]),
    };
    let routes = || {
        vec![
            // Whatever was called, to another host; to a fixed place there; to one of our own users.
            route("00", "sip:192.0.2.200"),
            route("1", "sip:desk@192.0.2.200"),
            route("2", "sip:bob@here.example"),
            // One number to another host is a fixed place as well.
            Route { prefix: None, user: Some(b"300".to_vec()), ..route("", "sip:192.0.2.200") },
        ]
    };
    let call = |user: &str| Req::new("INVITE", &format!("sip:{user}@here.example")).sent_by("UDP", CARRIER);
    let mut lab = lab(|s| s.routes = routes());
    assert_eq!(lab.ask(CARRIER, call("0049900").text()).status(), 403);
    assert_eq!(lab.invite(CARRIER, call("123").text())[0].uri(), "sip:desk@192.0.2.200");
    assert_eq!(lab.invite(CARRIER, call("300").text())[0].uri(), "sip:300@192.0.2.200");
    assert_eq!(lab.invite(ALICE, number_of("0049900").text())[0].uri(), "sip:0049900@192.0.2.200");
    lab.reconfigure(|s| s.trunks[0].may_transit = true);
    assert_eq!(lab.invite(CARRIER, call("0049900").text())[0].to(), "192.0.2.200:5060");
}

#[test]
fn an_answer_that_comes_again_is_believed_as_the_first_was() {
    let mut lab = lab(|_| {});
    let got = lab.invite(ALICE, number_of("+4940555").text()).remove(0);
    let lines = "Contact: <sip:gw@203.0.113.5>\r\nP-Asserted-Identity: <sip:+4940555@carrier.example>\r\n";
    let ok = got.reply(200, "x", lines);
    let first = lab.ask(CARRIER, &ok);
    assert!(first.get("P-Asserted-Identity").is_some());
    assert_eq!(lab.ask(CARRIER, &ok).text, first.text);
}

#[test]
fn a_number_of_one_of_our_users_rings_there_whoever_calls_it() {
    // Not by way of this server's own address, where the caller's credentials are gone already.
    let number = |user: &str, target: &str| Route {
        domain: None,
        prefix: None,
        user: Some(user.as_bytes().to_vec()),
        silent_after_ms: 2_000,
        action: RouteAction::Forward(vec![target.as_bytes().to_vec()]),
    };
    let routes = || {
        vec![
            number("+4930100", "sip:bob@here.example"),
            number("+4930101", "sip:bob@198.51.100.1"),
            number("+4930102", "sip:dave@here.example"),
        ]
    };
    for user in ["+4930100", "+4930101"] {
        let mut lab = lab(|s| {
            s.routes = routes();
            s.auth.enabled = true;
        });
        lab.phones(&[BOB, BOB2]);
        let call = Req::new("INVITE", &format!("sip:{user}@here.example")).sent_by("UDP", CARRIER);
        let rung = |sent: &[Sent]| requests(sent).into_iter().map(|(_, to)| to).collect::<Vec<_>>();
        assert_eq!(rung(&lab.invite(CARRIER, call.text())), [BOB, BOB2]);
        let call = number_of(user);
        let challenge = lab.ask(ALICE, call.text());
        let sent = lab.invite(ALICE, call.answer("alice", &challenge).text());
        assert_eq!(rung(&sent), [BOB, BOB2]);
        assert_eq!(sent[0].uri(), format!("sip:bob@{BOB}"));
    }
    let mut lab = lab(|s| {
        s.routes = routes();
        s.auth.enabled = true;
    });
    let call = Req::new("INVITE", "sip:+4930102@here.example").sent_by("UDP", CARRIER);
    assert_eq!(lab.ask(CARRIER, call.text()).status(), 480, "dave has no phone now");
    // Strangers use no route, whatever it leads to.
    lab.phones(&[BOB]);
    assert_eq!(lab.ask(CAROL, Req::new("INVITE", "sip:+4930100@here.example").text()).status(), 403);
}

/// Brings a table into force: prefix, trunk and priority of each row.
fn route_by(lab: &mut Lab, rows: &[(&str, u16, u16)]) {
    let mut builder = Builder::new(vec![b"carrier".to_vec(), b"second".to_vec()]);
    for (line, (prefix, trunk, priority)) in (2..).zip(rows) {
        let way = Way { trunk: *trunk, priority: *priority, cost: 0, line };
        builder.add(Digits::parse(prefix.as_bytes()).unwrap(), way).unwrap();
    }
    let table = Arc::new(builder.finish(1).unwrap());
    lab.notice(Notice::Renewed(Arc::new(lab.settings.clone()), table));
}

/// A lab with a second trunk, which serves no prefix.
fn lab_of_two() -> Lab {
    lab(|s| {
        let mut second = trunk(&["sip:198.18.0.7"], "+");
        (second.name, second.prefixes) = (b"second".to_vec(), Vec::new());
        (second.strip, second.prepend) = (1, b"00".to_vec());
        second.sources = vec![("198.18.0.7".parse().unwrap(), 32)];
        second.retry_on = vec![486];
        s.trunks.push(second);
    })
}

const SECOND: &str = "198.18.0.7:5060";

#[test]
fn route_table_leads_over_all_targets_of_all_trunks() {
    let mut lab = lab_of_two();
    route_by(&mut lab, &[("+4930", 0, 2), ("+4930", 1, 1)]);
    let sent = lab.invite(ALICE, number_of("+4930555").text());
    assert_eq!((sent[0].to().as_str(), sent[0].uri()), (SECOND, "sip:004930555@198.18.0.7"));
    // Each trunk has its own digits and its own statuses that give way.
    lab.send(SECOND, sent[0].reply(486, "x", ""));
    let next = lab.sent().into_iter().find(|s| s.method() == "INVITE").unwrap();
    assert_eq!((next.to().as_str(), next.uri()), (CARRIER, "sip:+4930555@203.0.113.5"));
    lab.send(CARRIER, next.reply(503, "x", ""));
    let next = lab.sent().into_iter().find(|s| s.method() == "INVITE").unwrap();
    assert_eq!(next.to(), BACKUP);
    lab.send(BACKUP, next.reply(486, "x", ""));
    assert_eq!(statuses(&lab.sent()), [486], "the first trunk takes it for an answer");
    lab.rest();
}

#[test]
fn route_table_stands_beside_prefixes_of_trunks() {
    let mut lab = lab_of_two();
    route_by(&mut lab, &[("+4930", 1, 1)]);
    assert_eq!(lab.invite(ALICE, number_of("+4940555").text())[0].to(), CARRIER, "a prefix of the trunk");
    assert_eq!(lab.invite(ALICE, number_of("+4930555").text())[0].to(), SECOND);
    let stranger = Req::new("INVITE", "sip:+4930555@here.example");
    assert_eq!(lab.ask(CAROL, stranger.text()).status(), 403, "strangers use no trunk");
    // New settings alone keep the table.
    lab.reconfigure(|s| s.trunks.reverse());
    assert_eq!(lab.invite(ALICE, number_of("+4930555").text())[0].to(), SECOND);
    route_by(&mut lab, &[]);
    assert_eq!(lab.invite(ALICE, number_of("+4930555").text())[0].to(), CARRIER);
}

#[test]
fn call_of_a_trunk_goes_on_over_the_others_of_its_number() {
    let mut lab = lab_of_two();
    lab.reconfigure(|s| s.trunks.iter_mut().for_each(|t| t.may_transit = true));
    route_by(&mut lab, &[("+4930", 1, 1), ("+4930", 0, 2), ("+4931", 1, 1)]);
    let call = |user: &str| Req::new("INVITE", &format!("sip:{user}@here.example")).sent_by("UDP", SECOND);
    assert_eq!(lab.invite(SECOND, call("+4930555").text())[0].to(), CARRIER);
    assert_eq!(lab.ask(SECOND, call("+4931555").text()).status(), 404, "only back");
    lab.reconfigure(|s| s.trunks.iter_mut().for_each(|t| t.may_transit = false));
    assert_eq!(lab.ask(SECOND, call("+4930555").text()).status(), 403);
}

#[test]
fn telephone_numbers_go_out_without_visual_separators() {
    let mut lab = lab_of_two();
    route_by(&mut lab, &[("+4930", 1, 1), ("0305", 1, 1)]);
    for (uri, sent_as) in [
        ("tel:+49-30-(55).5", "sip:004930555@198.18.0.7"),
        ("sip:+49-30-555@here.example;user=phone", "sip:004930555@198.18.0.7"),
        ("sip:+49-30-555@here.example", "sip:0049-30-555@198.18.0.7"),
        ("tel:030555;phone-context=+49", "sip:0030555@198.18.0.7"),
    ] {
        let mut call = number_of("x");
        call.uri = uri.to_owned();
        assert_eq!(lab.invite(ALICE, call.text())[0].uri(), sent_as, "{uri}");
    }
}
