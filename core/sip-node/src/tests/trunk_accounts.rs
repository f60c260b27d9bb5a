//! Accounts at trunks: challenges of a trunk are answered here, and the caller learns nothing of them.

use super::*;

const FIRST: &str = "203.0.113.5:5060";
const SECOND: &str = "203.0.113.6:5060";

/// An account without registration.
pub(super) fn account(realm: Option<&str>) -> Arc<Account> {
    Arc::new(Account {
        trunk: b"carrier".to_vec(),
        user: b"4930555".to_vec(),
        password: b"carrier-secret".to_vec(),
        realm: realm.map(|realm| realm.as_bytes().to_vec()),
        raise_cseq: false,
        rules: None,
        standing: Arc::default(),
    })
}

/// A lab with one trunk for numbers that begin with +49.
fn lab(targets: &[&str], realm: Option<&str>) -> Lab {
    Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(Trunk { account: Some(account(realm)), ..trunk(targets, "+49") });
    })
}

fn number() -> Req {
    Req::new("INVITE", "sip:+4940555@here.example").alice()
}

/// A challenge with this nonce.
fn challenge(status: u16, nonce: &str, more: &str) -> String {
    let name = if status == 407 { "Proxy-Authenticate" } else { "WWW-Authenticate" };
    format!("{name}: Digest realm=\"carrier.example\", nonce=\"{nonce}\", qop=\"auth\"{more}\r\n")
}

/// The request that left again, behind the ACK of an INVITE.
#[track_caller]
fn again(lab: &mut Lab, from: &str, request: &Sent, status: u16, lines: &str) -> Sent {
    lab.send(from, request.reply(status, "c", lines));
    let sent = lab.sent();
    assert!(statuses(&sent).is_empty(), "the caller is told nothing: {sent:#?}");
    let found = sent.into_iter().find(|s| s.status() == 0 && s.method() == request.method());
    let found = found.filter(|found| !found.text.starts_with("ACK "));
    found.expect("the request leaves again")
}

/// Checks the credentials of a request, and gives their nonce count.
#[track_caller]
fn proven(request: &Sent, header: &str, nonce: &str) -> String {
    let lines = request.all(header);
    assert_eq!(lines.len(), 1, "{}", request.text);
    let part = |name: &str| {
        let value =
            lines[0].split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name}: {}", lines[0]));
        value.trim_start_matches('"').split(['"', ',']).next().unwrap().to_owned()
    };
    assert_eq!((part("username"), part("nonce")), ("4930555".to_owned(), nonce.to_owned()));
    let secret = ha1(Algorithm::Md5, b"4930555", b"carrier.example", b"carrier-secret");
    let (nc, cnonce) = (part("nc"), part(",cnonce"));
    let question = sip_auth::Question {
        method: request.start().split(' ').next().unwrap().as_bytes(),
        uri: request.uri().as_bytes(),
        nonce: nonce.as_bytes(),
        counted: Some((nc.as_bytes(), cnonce.as_bytes(), b"auth")),
    };
    let expected = sip_auth::response(&secret, &question);
    assert_eq!(part("response").as_bytes(), expected.as_bytes(), "{}", request.text);
    nc
}

#[test]
fn challenge_of_a_trunk_is_answered_for_the_caller() {
    for (status, header) in [(407, "Proxy-Authorization"), (401, "Authorization")] {
        let mut lab = lab(&["sip:203.0.113.5"], None);
        let first = lab.invite(ALICE, number().text()).remove(0);
        assert!(first.all(header).is_empty());
        let second = again(&mut lab, FIRST, &first, status, &challenge(status, "n1", ""));
        assert_eq!(proven(&second, header, "n1"), "00000001");
        assert_eq!((second.get("CSeq"), second.uri()), (first.get("CSeq"), first.uri()));
        assert_ne!(second.all("Via")[0], first.all("Via")[0], "it is another transaction");
        // A repetition of the challenge is acknowledged, and no more.
        lab.send(FIRST, first.reply(status, "c", &challenge(status, "n1", "")));
        let sent = lab.sent();
        assert!(sent.iter().all(|s| s.text.starts_with("ACK ")), "{sent:#?}");
        lab.send(FIRST, second.accept("d"));
        assert_eq!(statuses(&lab.sent()), [200]);
        assert_eq!((lab.count(Counter::TrunkAnswered), lab.count(Counter::TrunkRefused)), (1, 0));
    }
}

#[test]
fn next_requests_carry_credentials_at_once() {
    let mut lab = lab(&["sip:203.0.113.5"], None);
    let request = number();
    let first = lab.invite(ALICE, request.text()).remove(0);
    let second = again(&mut lab, FIRST, &first, 407, &challenge(407, "n1", ""));
    lab.send(FIRST, second.accept("d"));
    let accepted = lab.one();
    let bye = lab.ask(ALICE, request.within("BYE", &accepted).text());
    assert_eq!(proven(&bye, "Proxy-Authorization", "n1"), "00000002");
    let next = lab.invite(ALICE, number().text()).remove(0);
    assert_eq!(proven(&next, "Proxy-Authorization", "n1"), "00000003");
    // Its nonce is too old by now.
    let again = again(&mut lab, FIRST, &next, 407, &challenge(407, "n2", ", stale=true"));
    assert_eq!(proven(&again, "Proxy-Authorization", "n2"), "00000001");
}

#[test]
fn challenge_within_a_dialog_is_answered() {
    let mut lab = lab(&["sip:203.0.113.5"], None);
    let request = number();
    let first = lab.invite(ALICE, request.text()).remove(0);
    lab.send(FIRST, first.accept("d"));
    let accepted = lab.one();
    let bye = lab.ask(ALICE, request.within("BYE", &accepted).text());
    assert!(bye.all("Authorization").is_empty());
    let bye = again(&mut lab, FIRST, &bye, 401, &challenge(401, "n1", ""));
    assert_eq!(proven(&bye, "Authorization", "n1"), "00000001");
    lab.send(FIRST, bye.reply(200, "d", ""));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn challenge_for_ever_is_answered_with_403_and_a_reason() {
    // With one nonce, with new ones, and with ones that are said to be too old.
    for (same, more, answers) in [(true, "", 1), (false, "", 1), (false, ", stale=true", 2)] {
        let mut lab = lab(&["sip:203.0.113.5"], None);
        let mut request = lab.invite(ALICE, number().text()).remove(0);
        for n in 0..answers {
            let nonce = if same { "n".to_owned() } else { format!("n{n}") };
            request = again(&mut lab, FIRST, &request, 407, &challenge(407, &nonce, more));
        }
        let nonce = if same { "n" } else { "last" };
        lab.send(FIRST, request.reply(407, "c", &challenge(407, nonce, more)));
        let sent = lab.sent();
        assert_eq!(statuses(&sent), [403], "{sent:#?}");
        let answer = sent.iter().find(|s| s.status() == 403).unwrap();
        assert!(answer.get("Warning").unwrap().contains("does not accept the account"), "{}", answer.text);
        assert!(answer.all("Proxy-Authenticate").is_empty(), "that is not the caller's to answer");
        assert_eq!(lab.count(Counter::TrunkRefused), 1);
        let news = std::mem::take(&mut *lab.world.news.borrow_mut());
        assert_eq!(news, ["carrier at 203.0.113.5:5060 407: `user` or the password is wrong"]);
        lab.rest();
    }
}

#[test]
fn refused_account_is_tried_at_the_next_target() {
    let mut lab = lab(&["sip:203.0.113.5", "sip:203.0.113.6"], None);
    let first = lab.invite(ALICE, number().text()).remove(0);
    let second = again(&mut lab, FIRST, &first, 407, &challenge(407, "n", ""));
    lab.send(FIRST, second.reply(407, "c", &challenge(407, "n", "")));
    let sent = lab.sent();
    assert_eq!(requests(&sent).last().unwrap(), &("INVITE".to_owned(), SECOND.to_owned()));
    let third = sent.last().unwrap().clone();
    lab.send(SECOND, third.accept("d"));
    assert_eq!(statuses(&lab.sent()), [200]);
}

#[test]
fn challenge_that_cannot_be_read_is_refused() {
    for lines in [
        "",
        "Proxy-Authenticate: Digest\r\n",
        "Proxy-Authenticate: Digest realm=\"carrier.example\"\r\n",
        "Proxy-Authenticate: Digest realm=\"carrier.example\", nonce=\"n\", algorithm=MD5-sess\r\n",
        "Proxy-Authenticate: Basic realm=\"carrier.example\"\r\n",
        "Proxy-Authenticate: Digest realm=\"carrier.example\", nonce=\"n\r\n",
        "WWW-Authenticate: Digest realm=\"carrier.example\", nonce=\"n\"\r\n",
    ] {
        let mut lab = lab(&["sip:203.0.113.5"], None);
        let first = lab.invite(ALICE, number().text()).remove(0);
        lab.send(FIRST, first.reply(407, "c", lines));
        assert_eq!(statuses(&lab.sent()), [403], "{lines}");
    }
}

#[test]
fn challenge_of_another_realm_goes_to_the_caller() {
    let mut lab = lab(&["sip:203.0.113.5"], Some("other.example"));
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.send(FIRST, first.reply(407, "c", &challenge(407, "n", "")));
    let sent = lab.sent();
    assert_eq!(statuses(&sent), [407]);
    assert!(sent.iter().any(|s| !s.all("Proxy-Authenticate").is_empty()));
}

#[test]
fn trunk_without_account_has_its_challenge_passed_on() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        s.trunks.push(trunk(&["sip:203.0.113.5"], "+49"));
    });
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.send(FIRST, first.reply(407, "c", &challenge(407, "n", "")));
    assert_eq!(statuses(&lab.sent()), [407]);
}

#[test]
fn challenge_after_cancel_is_not_answered() {
    let mut lab = lab(&["sip:203.0.113.5"], None);
    let request = number();
    let first = lab.invite(ALICE, request.text()).remove(0);
    lab.send(FIRST, first.reply(100, "", ""));
    lab.send(ALICE, request.cancel().text());
    lab.sent();
    lab.send(FIRST, first.reply(407, "c", &challenge(407, "n", "")));
    let sent = lab.sent();
    assert_eq!(statuses(&sent), [487], "{sent:#?}");
    lab.rest();
}

#[test]
fn request_that_left_again_is_given_up_when_silent() {
    let mut lab = lab(&["sip:203.0.113.5", "sip:203.0.113.6"], None);
    let first = lab.invite(ALICE, number().text()).remove(0);
    lab.send(FIRST, first.reply(100, "", ""));
    again(&mut lab, FIRST, &first, 407, &challenge(407, "n", ""));
    lab.pass(2_100);
    let sent = lab.sent();
    assert!(requests(&sent).contains(&("INVITE".to_owned(), SECOND.to_owned())), "{:?}", requests(&sent));
}

#[test]
fn cancel_of_what_left_again_goes_with_its_branch() {
    let mut lab = lab(&["sip:203.0.113.5"], None);
    let request = number();
    let first = lab.invite(ALICE, request.text()).remove(0);
    let second = again(&mut lab, FIRST, &first, 407, &challenge(407, "n", ""));
    lab.send(FIRST, second.reply(180, "d", ""));
    lab.sent();
    lab.send(ALICE, request.cancel().text());
    let sent = lab.sent();
    let cancel = sent.iter().find(|s| s.text.starts_with("CANCEL ")).expect("it is cancelled");
    assert_eq!(cancel.all("Via")[0], second.all("Via")[0]);
}

#[test]
fn raised_cseq_stays_in_the_dialog_and_hidden_from_the_caller() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        let raising = Arc::new(Account { raise_cseq: true, ..(*account(None)).clone() });
        s.trunks.push(Trunk { account: Some(raising), ..trunk(&["sip:203.0.113.5"], "+49") });
    });
    let request = number();
    let first = lab.invite(ALICE, request.text()).remove(0);
    assert_eq!(first.get("CSeq"), Some("1 INVITE"));
    let second = again(&mut lab, FIRST, &first, 407, &challenge(407, "n1", ""));
    assert_eq!(second.get("CSeq"), Some("2 INVITE"));
    lab.send(
        FIRST,
        second.reply(183, "d", "RSeq: 7\r\nRequire: 100rel\r\nContact: <sip:gw@203.0.113.5>\r\n"),
    );
    let early = lab.one();
    assert_eq!((early.status(), early.get("CSeq")), (183, Some("1 INVITE")));
    let prack = request.within("PRACK", &early).line("RAck: 7 1 INVITE");
    let prack = lab.ask(ALICE, prack.text());
    assert_eq!((prack.get("CSeq"), prack.get("RAck")), (Some("3 PRACK"), Some("7 2 INVITE")));
    lab.send(FIRST, prack.reply(200, "d", ""));
    assert_eq!(lab.one().get("CSeq"), Some("2 PRACK"));
    lab.send(FIRST, second.accept("d"));
    let accepted = lab.one();
    assert_eq!((accepted.status(), accepted.get("CSeq")), (200, Some("1 INVITE")));
    // Its repetition, too.
    lab.send(FIRST, second.accept("d"));
    assert_eq!(lab.one().get("CSeq"), Some("1 INVITE"));
    let ack = lab.ask(ALICE, request.within("ACK", &accepted).text());
    assert_eq!(ack.get("CSeq"), Some("2 ACK"));
    // What the trunk sends has numbers of its own.
    let mut bye = from_callee(&second, "BYE", FIRST, "<sip:+4940555@here.example>");
    bye.from = bye.from.replace("tag=b", "tag=d");
    let bye = lab.ask(FIRST, bye.text());
    assert_eq!((bye.to(), bye.get("CSeq")), (ALICE.to_owned(), Some("1 BYE")));
}

#[test]
fn challenged_bye_is_raised_once_more() {
    let mut lab = Lab::with(|s| {
        s.auth.enabled = false;
        let raising = Arc::new(Account { raise_cseq: true, ..(*account(None)).clone() });
        s.trunks.push(Trunk { account: Some(raising), ..trunk(&["sip:203.0.113.5"], "+49") });
    });
    let request = number();
    let first = lab.invite(ALICE, request.text()).remove(0);
    let second = again(&mut lab, FIRST, &first, 407, &challenge(407, "n1", ""));
    lab.send(FIRST, second.accept("d"));
    let accepted = lab.one();
    let bye = lab.ask(ALICE, request.within("BYE", &accepted).text());
    assert_eq!(bye.get("CSeq"), Some("3 BYE"));
    let bye = again(&mut lab, FIRST, &bye, 407, &challenge(407, "n2", ""));
    assert_eq!(bye.get("CSeq"), Some("4 BYE"));
    lab.send(FIRST, bye.reply(200, "d", ""));
    assert_eq!(lab.one().get("CSeq"), Some("2 BYE"));
}

#[test]
fn password_shows_nowhere() {
    let shown = format!("{:?}", trunk(&["sip:203.0.113.5"], "+49").name);
    assert!(!shown.is_empty());
    let account = account(Some("r"));
    assert!(!format!("{account:?}").contains("secret"));
}
