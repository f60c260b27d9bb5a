//! A retransmission gets the answer that the request got, also where credentials were used up by it.

use super::*;

/// Sends `request` as alice with credentials, twice, and gives the two answers.
fn twice(lab: &mut Lab, request: &Req) -> (Sent, Sent) {
    let challenge = lab.ask(ALICE, request.text());
    let again = request.answer("alice", &challenge).text();
    (lab.ask(ALICE, &again), lab.ask(ALICE, &again))
}

#[test]
fn a_refusal_after_authentication_is_repeated_as_it_was() {
    let mut lab = Lab::new();
    let register =
        || Req::new("REGISTER", "sip:here.example").alice().line("Contact: <sip:alice@192.0.2.30>");
    let cases = [
        (Req::new("INVITE", "sip:nobody@here.example").alice(), 404),
        (Req::new("MESSAGE", "sip:dave@here.example").alice(), 480),
        (Req::new("OPTIONS", "sip:here.example").alice(), 200),
        (Req::new("PUBLISH", "sip:here.example").alice(), 405),
        (Req { to: "<sip:alice@here.example>".to_owned(), ..register().line("Require: foo") }, 420),
    ];
    for (request, status) in cases {
        let (first, second) = twice(&mut lab, &request);
        assert_eq!(first.status(), status, "{}", first.text);
        assert_eq!(first.text, second.text);
    }
    lab.world.store_down.set(true);
    let (first, second) = twice(&mut lab, &Req { to: "<sip:alice@here.example>".to_owned(), ..register() });
    assert_eq!((first.status(), first.text), (503, second.text));
}

#[test]
fn credentials_of_another_user_are_refused_twice_in_the_same_words() {
    let mut lab = Lab::new();
    let request = Req::new("MESSAGE", "sip:bob@here.example").alice();
    let challenge = lab.ask(ALICE, request.text());
    let again = request.answer_with("bob", "secret-b", &challenge).text();
    let (first, second) = (lab.ask(ALICE, &again), lab.ask(ALICE, &again));
    assert_eq!((first.status(), first.text), (403, second.text));
}

#[test]
fn a_refusal_without_credentials_still_costs_no_memory() {
    let mut lab = Lab::new();
    let answer = lab.ask(CAROL, Req::new("INVITE", "sip:nobody@here.example").text());
    assert_eq!(answer.status(), 480);
    assert_eq!(lab.report().transactions.server, 0);
}

#[test]
fn a_call_that_goes_on_without_this_server_is_not_counted() {
    let mut lab = Lab::with(|s| s.proxy.record_route = false);
    lab.phones(&[BOB]);
    let forwarded = lab.invite(CAROL, Req::invite().text());
    assert_eq!(lab.report().calls.len(), 1);
    lab.send(BOB, forwarded[0].accept("b"));
    assert_eq!(lab.report().calls.len(), 0, "its BYE will not come by");
}
