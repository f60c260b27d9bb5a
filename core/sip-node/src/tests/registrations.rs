//! Registrations at trunks, and calls that come by them.

use super::*;

const CARRIER: &str = "203.0.113.5:5060";
const OTHER: &str = "203.0.113.6:5060";

fn account(change: impl FnOnce(&mut RegistrationRules)) -> Arc<Account> {
    let mut rules = RegistrationRules {
        registrar: None,
        user: b"4930555".to_vec(),
        contact: b"4930555".to_vec(),
        expires: 600,
        bulk: false,
    };
    change(&mut rules);
    let plain = trunk_accounts::account(None);
    Arc::new(Account { rules: Some(rules), ..(*plain).clone() })
}

fn with_trunk(s: &mut Settings, targets: &[&str], account: Arc<Account>) {
    s.auth.enabled = false;
    s.trunks = vec![Trunk { account: Some(account), sources: Vec::new(), ..trunk(targets, "+49") }];
}

fn lab(targets: &[&str]) -> Lab {
    Lab::with(|s| with_trunk(s, targets, account(|_| {})))
}

const CHALLENGE: &str = "WWW-Authenticate: Digest realm=\"carrier.example\", nonce=\"n\", qop=\"auth\"\r\n";

/// The REGISTER that leaves within this time.
#[track_caller]
fn register(lab: &mut Lab, millis: u64) -> Sent {
    for _ in 0..millis.div_ceil(100) {
        lab.pass(100);
        if let Some(sent) = lab.sent().pop() {
            assert_eq!(sent.method(), "REGISTER", "{}", sent.text);
            return sent;
        }
    }
    panic!("no REGISTER within {millis} ms")
}

/// A 200 that grants our Contact this number of seconds.
fn granted(register: &Sent, seconds: u32) -> String {
    let contact = inside(register.get("Contact").unwrap()).to_owned();
    register.reply(200, "r", &format!("Contact: <{contact}>;expires={seconds}\r\n"))
}

/// A registration in force at [`CARRIER`], and its REGISTER.
fn registered(lab: &mut Lab, seconds: u32) -> Sent {
    let first = register(lab, 100);
    lab.send(CARRIER, first.reply(401, "r", CHALLENGE));
    let second = lab.one();
    lab.send(CARRIER, granted(&second, seconds));
    lab.silent();
    second
}

fn state(lab: &Lab) -> RegistrationState {
    lab.settings.trunks[0].account.as_ref().unwrap().standing.shown().state
}

fn news(lab: &Lab) -> Vec<String> {
    std::mem::take(&mut *lab.world.news.borrow_mut())
}

#[test]
fn registration_is_made_at_the_start_and_refreshed_in_time() {
    let mut lab = lab(&["sip:203.0.113.5"]);
    let first = register(&mut lab, 100);
    assert_eq!((first.uri(), first.to()), ("sip:203.0.113.5", CARRIER.to_owned()));
    assert_eq!(inside(first.get("To").unwrap()), "sip:4930555@203.0.113.5");
    assert_eq!(first.get("Expires"), Some("600"));
    let contact = inside(first.get("Contact").unwrap()).to_owned();
    assert!(contact.starts_with("sip:4930555@198.51.100.1:5060;line="), "{contact}");
    assert_eq!(state(&lab), RegistrationState::Trying);
    lab.send(CARRIER, first.reply(401, "r", CHALLENGE));
    let second = lab.one();
    let value = second.get("Authorization").expect("credentials");
    assert!(value.contains("username=\"4930555\"") && value.contains("uri=\"sip:203.0.113.5\""), "{value}");
    assert_eq!((first.get("CSeq"), second.get("CSeq")), (Some("1 REGISTER"), Some("2 REGISTER")));
    assert_eq!((first.get("Call-ID"), first.get("From")), (second.get("Call-ID"), second.get("From")));
    lab.send(CARRIER, granted(&second, 10));
    lab.silent();
    assert_eq!(
        (state(&lab), news(&lab)),
        (RegistrationState::Registered, vec!["carrier registered at 203.0.113.5:5060 10".to_owned()])
    );
    lab.pass(7_000);
    lab.silent();
    let refresh = register(&mut lab, 2_000);
    assert!(refresh.get("Authorization").is_some_and(|value| value.contains("nc=00000002")), "at once");
    lab.send(CARRIER, granted(&refresh, 10));
    assert!(news(&lab).is_empty(), "a refresh is no news");
}

#[test]
fn silent_registrar_is_left_for_the_next_target() {
    let mut lab = lab(&["sip:203.0.113.5", "sip:203.0.113.6"]);
    assert_eq!(register(&mut lab, 100).to(), CARRIER);
    lab.pass(32_500);
    let sent = lab.sent();
    let last = sent.last().unwrap().clone();
    assert_eq!((last.method(), last.to()), ("REGISTER", OTHER.to_owned()));
    lab.send(OTHER, granted(&last, 600));
    assert_eq!(state(&lab), RegistrationState::Registered);
    // It stays where it is.
    assert_eq!(register(&mut lab, 520_000).to(), OTHER);
}

#[test]
fn refused_registration_rests_and_shows_why() {
    let mut lab = lab(&["sip:203.0.113.5"]);
    let first = register(&mut lab, 100);
    lab.send(CARRIER, first.reply(403, "r", ""));
    assert_eq!(state(&lab), RegistrationState::Refused(403));
    assert_eq!(
        news(&lab),
        ["carrier refused by 203.0.113.5:5060 403: it says 403: account or password are wrong, or blocked"]
    );
    lab.pass(140_000);
    lab.silent();
    register(&mut lab, 170_000);
}

#[test]
fn registrar_that_moves_is_followed_at_the_next_refresh() {
    let mut lab = Lab::with(|s| with_trunk(s, &["sip:carrier.example:5060"], account(|_| {})));
    lab.pass(100);
    let address = |address: &'static str| {
        move |q: &NameAsked| match q.kind {
            Kind::A => Answer::A(Box::new([address.parse().unwrap()])),
            _ => Answer::Nothing,
        }
    };
    lab.resolve_with(address("203.0.113.5"));
    let first = register(&mut lab, 100);
    assert_eq!((first.to(), first.uri()), (CARRIER.to_owned(), "sip:carrier.example:5060"));
    assert_eq!(inside(first.get("From").unwrap()), "sip:4930555@carrier.example");
    lab.send(CARRIER, granted(&first, 100));
    // The name leads elsewhere when its answer is a minute old.
    for _ in 0..20 {
        lab.pass(5_000);
        lab.resolve_with(address("203.0.113.6"));
    }
    let sent = lab.sent();
    assert_eq!(sent.last().expect("a refresh").to(), OTHER);
}

#[test]
fn call_from_the_registered_address_is_the_trunks() {
    let mut lab = Lab::with(|s| {
        with_trunk(s, &["sip:203.0.113.5"], account(|_| {}));
        s.routes.push(Route {
            domain: None,
            prefix: None,
            user: Some(b"4930555".to_vec()),
            silent_after_ms: 2_000,
            action: RouteAction::Forward(vec![b"sip:bob@here.example".to_vec()]),
        });
        s.proxy.strangers.allowed = false;
    });
    lab.phones(&[BOB]);
    let call = |uri: &str| {
        let mut call = Req::new("INVITE", uri).sent_by("UDP", CARRIER);
        call.from = format!("<sip:+4940@carrier.example>;tag=t{}", number());
        call.text()
    };
    let answer = |lab: &mut Lab, from: &str, uri: &str| {
        lab.send(from, call(uri));
        let sent = lab.sent();
        requests(&sent).first().map_or_else(|| statuses(&sent)[0].to_string(), |(_, to)| to.clone())
    };
    assert_eq!(answer(&mut lab, CARRIER, "sip:4930555@198.51.100.1"), "403", "not registered yet");
    let register = registered(&mut lab, 100);
    let contact = inside(register.get("Contact").unwrap()).to_owned();
    assert_eq!(answer(&mut lab, CARRIER, "sip:4930555@198.51.100.1"), BOB);
    // From another address of the carrier: only with the Contact that was registered.
    assert_eq!(answer(&mut lab, "203.0.113.99:5060", &contact), BOB);
    assert_eq!(answer(&mut lab, "203.0.113.99:5060", "sip:4930555@198.51.100.1"), "403");
    let forged = format!("sip:4930555@198.51.100.1:5060;line={}", "0".repeat(32));
    assert_eq!(answer(&mut lab, "203.0.113.99:5060", &forged), "403");
    // The registration has run out.
    lab.pass(300_000);
    lab.sent();
    assert_eq!(answer(&mut lab, CARRIER, "sip:4930555@198.51.100.1"), "403");
}

#[test]
fn registration_ends_when_the_server_drains() {
    let mut lab = lab(&["sip:203.0.113.5"]);
    registered(&mut lab, 600);
    lab.notice(Notice::Drain);
    let last = lab.one();
    assert_eq!((last.method(), last.get("Expires")), ("REGISTER", Some("0")));
    assert_eq!(lab.report().pending, 1, "its end is waited for");
    lab.send(CARRIER, last.reply(200, "r", ""));
    assert_eq!((lab.report().pending, news(&lab).pop()), (0, Some("carrier ended".to_owned())));
}

#[test]
fn end_of_a_registration_is_not_waited_for_long() {
    let mut lab = lab(&["sip:203.0.113.5"]);
    registered(&mut lab, 600);
    lab.notice(Notice::Drain);
    lab.pass(4_100);
    assert_eq!(lab.report().pending, 0);
}

#[test]
fn changed_account_is_registered_anew() {
    let mut lab = lab(&["sip:203.0.113.5"]);
    let before = registered(&mut lab, 600);
    lab.reconfigure(|_| {});
    lab.pass(100);
    lab.silent();
    let other = account(|rules| rules.user = b"4930666".to_vec());
    lab.reconfigure(|s| with_trunk(s, &["sip:203.0.113.5"], other));
    lab.pass(100);
    let sent = lab.sent();
    let expires: Vec<_> =
        sent.iter().map(|s| (s.get("Call-ID") == before.get("Call-ID"), s.get("Expires"))).collect();
    assert_eq!(expires, [(true, Some("0")), (false, Some("600"))], "{sent:#?}");
    assert_eq!(inside(sent[1].get("To").unwrap()), "sip:4930666@203.0.113.5");
}

#[test]
fn bulk_registration_has_no_user_in_its_contact() {
    let mut lab = Lab::with(|s| with_trunk(s, &["sip:203.0.113.5"], account(|rules| rules.bulk = true)));
    let first = register(&mut lab, 100);
    let contact = first.get("Contact").unwrap();
    assert!(contact.starts_with("<sip:198.51.100.1:5060;line=") && contact.ends_with(";bnc>"), "{contact}");
    assert_eq!(first.get("Require"), Some("gin"));
    lab.send(CARRIER, granted(&first, 60));
    assert_eq!(state(&lab), RegistrationState::Registered);
}

#[test]
fn registrar_of_its_own_is_where_register_goes() {
    let rules = |rules: &mut RegistrationRules| rules.registrar = Some(b"sip:203.0.113.9:5070".to_vec());
    let mut lab = Lab::with(|s| with_trunk(s, &["sip:203.0.113.5"], account(rules)));
    let first = register(&mut lab, 100);
    assert_eq!((first.to(), first.uri()), ("203.0.113.9:5070".to_owned(), "sip:203.0.113.9:5070"));
    assert_eq!(inside(first.get("To").unwrap()), "sip:4930555@203.0.113.9");
}

#[test]
fn answer_with_a_via_too_many_is_not_lost() {
    let mut lab = lab(&["sip:203.0.113.5"]);
    let first = register(&mut lab, 100);
    let via = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKother\r\nFrom:";
    lab.send(CARRIER, first.reply(503, "r", "").replacen("From:", via, 1));
    assert_eq!(state(&lab), RegistrationState::Failing);
    let again = register(&mut lab, 40_000);
    lab.send(CARRIER, granted(&again, 60));
    assert_eq!(state(&lab), RegistrationState::Registered);
}
