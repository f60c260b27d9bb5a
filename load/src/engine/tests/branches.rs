//! Where `next`, `test` and `chance` lead a call, as SIPp has it.

use super::ends::{request, response};
use super::*;

/// Rings, with a header, and answers a while later.
fn rings() -> String {
    let ringing = response("180 Ringing").replace("[last_CSeq:]", "[last_CSeq:]\nX-Go: yes");
    format!(
        "<scenario name=\"callee\"><recv request=\"INVITE\"/>{ringing}<pause milliseconds=\"200\"/>{}\
         <recv request=\"ACK\" optional=\"global\"/><pause milliseconds=\"60000\"/></scenario>",
        response("200 OK")
    )
}

/// Calls, of which those that follow the `next` of this 180 count `jumped`, and others `stayed`: how many
/// did.
fn follows(ringing: &str, calls: u64) -> [u64; 2] {
    let caller = format!(
        "<scenario name=\"caller\">{}{ringing}<recv response=\"200\"/><nop counter=\"stayed\" next=\"end\"/>\
         <label id=\"go\"/><nop counter=\"jumped\"/><recv response=\"200\"/><label id=\"end\"/>{}</scenario>",
        request("INVITE", 1, ""),
        request("ACK", 1, "[peer_tag_param]"),
    );
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&caller], |_, plan| (plan.calls, plan.rate) = (calls, 100.0)),
        engine(CALLEE, CALLER, &[&rings()], nothing),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (calls, 0), "{:?}", pair.ends[0].1.ladders().kept().first());
    ["jumped", "stayed"].map(|name| {
        let own = pair.caller().custom().tallies().iter().find(|(own, _)| own == name);
        own.map_or(0, |(_, count)| *count)
    })
}

/// A 180 whose action sets a variable that its own `test` asks for.
fn tested(optional: &str, expression: &str) -> String {
    format!(
        "<recv response=\"180\" {optional} next=\"go\" test=\"v\"><action><ereg regexp=\"{expression}\" \
         search_in=\"hdr\" header=\"X-Go:\" assign_to=\"v\"/></action></recv>"
    )
}

#[test]
fn test_of_a_message_sees_its_own_actions() {
    for optional in ["", "optional=\"true\"", "optional=\"global\""] {
        assert_eq!(follows(&tested(optional, "yes"), 20), [20, 0], "{optional}");
        assert_eq!(follows(&tested(optional, "no"), 20), [0, 20], "{optional}");
    }
}

#[test]
fn optional_message_that_does_not_advance_leads_nowhere() {
    assert_eq!(follows(&tested("optional=\"true\" advance_state=\"false\"", "yes"), 20), [0, 20]);
}

#[test]
fn chance_of_a_message_is_drawn_once() {
    for optional in ["", "optional=\"true\"", "optional=\"global\""] {
        let [jumped, stayed] =
            follows(&format!("<recv response=\"180\" {optional} next=\"go\" chance=\"0.5\"/>"), 400);
        // The seed is given; drawn twice it would be a quarter.
        assert!((160..=240).contains(&jumped) && jumped + stayed == 400, "{optional}: {jumped} {stayed}");
        let all = follows(&format!("<recv response=\"180\" {optional} next=\"go\" chance=\"1\"/>"), 20);
        assert_eq!(all, [20, 0], "{optional}");
    }
}

#[test]
fn chance_that_is_not_drawn_leads_to_the_step_behind() {
    // The 183 after it would be passed over if the call stayed at the 180.
    let steps = "<recv response=\"180\" optional=\"true\" next=\"go\" chance=\"0\"/>\
                 <nop counter=\"behind\"/><recv response=\"183\" optional=\"true\"/>";
    let caller = format!(
        "<scenario name=\"caller\">{}{steps}<recv response=\"200\"/><label id=\"go\"/>{}</scenario>",
        request("INVITE", 1, ""),
        request("ACK", 1, "[peer_tag_param]"),
    );
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[&caller], nothing), engine(CALLEE, CALLER, &[&rings()], nothing));
    pair.pass(Time::from_secs(10));
    assert_eq!((pair.ends_of(0, End::Caller), pair.caller().custom().tallies()[0].1), ((20, 0), 20));
}

#[test]
fn response_is_received_by_an_expression() {
    let ringing = |given: &str| format!("<recv {given} next=\"go\"/>");
    assert_eq!(follows(&ringing("response=\"^18.$\""), 20), [20, 0]);
    assert_eq!(follows(&ringing("response=\"18\" regexp_match=\"true\""), 20), [20, 0]);
    let others = "<recv response=\"^18[1-9]$\" optional=\"true\" next=\"go\"/>\
                  <recv response=\"180\" optional=\"true\"/>";
    assert_eq!(follows(others, 20), [0, 20]);
}
