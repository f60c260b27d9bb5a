//! What the other side is told when a call fails.

use super::*;

/// A callee: what it answers to the INVITE, and what follows.
fn callee(answer: &str, then: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8" ?>
<scenario name="callee">
  <recv request="INVITE"/>
  {answer}
  {then}
</scenario>"#
    )
}

fn response(line: &str) -> String {
    format!(
        "<send><![CDATA[

      SIP/2.0 {line}
      [last_Via:]
      [last_From:]
      [last_To:];tag=callee
      [last_Call-ID:]
      [last_CSeq:]
      Contact: <sip:bob@192.0.2.2:5060>
      Record-Route: <sip:proxy;lr>
      Content-Length: 0

  ]]></send>"
    )
}

/// One call of `caller` to `callee`; the first lines of what passed.
fn one_call(caller: &str, callee: &str, change: fn(&mut Settings)) -> Pair {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[caller], |settings, plan| {
            plan.calls = 1;
            change(settings);
        }),
        engine(CALLEE, CALLER, &[callee], nothing),
    );
    pair.pass(Time::from_secs(60));
    assert_eq!(pair.ends_of(0, End::Caller), (0, 1), "{:?}", pair.log);
    assert_eq!(pair.ends[0].1.calls(), 0, "nothing is left of it");
    pair
}

fn methods(pair: &Pair) -> Vec<String> {
    let word = |line: &String| line.trim_start_matches("SIP/2.0 ").split(' ').next().unwrap().to_owned();
    pair.log.iter().map(word).collect()
}

const IMPATIENT: fn(&mut Settings) = |s| s.conduct.recv_timeout = Some(Duration::from_secs(3));

#[test]
fn a_call_that_rings_for_too_long_is_cancelled_and_its_end_acknowledged() {
    let then = format!(
        r#"<recv request="CANCEL"/>{}<nop/>{}<recv request="ACK"/>"#,
        response("200 OK").replace("Record-Route: <sip:proxy;lr>\n", ""),
        response("487 Request Terminated").replace("[last_CSeq:]", "CSeq: 1 INVITE")
    );
    let pair = one_call("uac", &callee(&response("180 Ringing"), &then), IMPATIENT);
    assert_eq!(methods(&pair), ["INVITE", "180", "CANCEL", "200", "487", "ACK"]);
    assert_eq!(pair.ends_of(1, End::Callee), (1, 0));
}

#[test]
fn a_refused_call_is_acknowledged() {
    let busy = callee(&response("486 Busy Here"), r#"<recv request="ACK"/>"#);
    let pair = one_call("uac", &busy, |_| {});
    assert_eq!(methods(&pair), ["INVITE", "486", "ACK"]);
    assert_eq!(pair.ends_of(1, End::Callee), (1, 0));
}

#[test]
fn an_answer_that_is_not_expected_is_acknowledged_and_ended() {
    let then = format!(r#"<recv request="ACK"/><recv request="BYE"/>{}"#, response("200 OK"));
    let accepted = callee(&response("202 Accepted"), &then);
    let pair = one_call("uac", &accepted, |_| {});
    assert_eq!(methods(&pair), ["INVITE", "202", "ACK", "BYE", "200"]);
    assert!(pair.log[2].starts_with("ACK sip:bob@192.0.2.2:5060 "), "{:?}", pair.log);
    assert!(pair.log[3].starts_with("BYE sip:bob@192.0.2.2:5060 "), "{:?}", pair.log);
    let bye = pair.texts.iter().find(|text| text.starts_with("BYE ")).unwrap();
    for line in ["Route: <sip:proxy;lr>\r\n", ";tag=callee\r\n", "CSeq: 2 BYE\r\n"] {
        assert!(bye.contains(line), "{line} in {bye}");
    }
}

#[test]
fn an_established_call_that_meets_something_else_is_ended() {
    let info = "<send><![CDATA[

      INFO sip:load@192.0.2.1:5060 SIP/2.0
      Via: SIP/2.0/UDP 192.0.2.2:5060;branch=z9hG4bKinfo
      Max-Forwards: 70
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 7 INFO
      Content-Length: 0

  ]]></send>";
    let then = format!(
        r#"<recv request="ACK"/>{info}<recv response="481"/><recv request="BYE"/>{}"#,
        response("200 OK")
    );
    let hold = scenario_with_pause(2_000);
    let pair = one_call(&hold, &callee(&response("200 OK"), &then), |_| {});
    assert_eq!(methods(&pair), ["INVITE", "200", "ACK", "INFO", "481", "BYE", "200"]);
    // It is answered where that is asked for, and the call goes on.
    let then = then.replace("481", "200");
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&hold], |settings, plan| {
            plan.calls = 1;
            settings.conduct.defaults.auto_answer = true;
        }),
        engine(CALLEE, CALLER, &[&callee(&response("200 OK"), &then)], nothing),
    );
    pair.pass(Time::from_secs(60));
    assert_eq!(methods(&pair), ["INVITE", "200", "ACK", "INFO", "200", "BYE", "200"]);
    assert_eq!((pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)), ((1, 0), (1, 0)));
}

#[test]
fn without_default_behaviours_nothing_is_said() {
    let busy = callee(&response("486 Busy Here"), r#"<recv request="ACK" timeout="100"/>"#);
    let pair = one_call("uac", &busy, |settings| settings.conduct.defaults.bye = false);
    assert_eq!(methods(&pair), ["INVITE", "486"]);
}

#[test]
fn a_message_that_does_not_fit_changes_nothing_where_that_is_asked_for() {
    let then =
        format!(r#"{}<recv request="ACK"/><recv request="BYE"/>{}"#, response("200 OK"), response("200 OK"));
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |settings, plan| {
            plan.calls = 1;
            settings.conduct.defaults.abort = false;
        }),
        engine(CALLEE, CALLER, &[&callee(&response("199 Early Dialog Terminated"), &then)], nothing),
    );
    pair.pass(Time::from_secs(60));
    assert_eq!(pair.ends_of(0, End::Caller), (1, 0), "{:?}", pair.log);
}

#[test]
fn what_is_said_at_last_is_repeated_until_it_is_answered() {
    let then = format!(r#"<recv request="ACK"/><recv request="BYE"/>{}"#, response("200 OK"));
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[&callee(&response("202 Accepted"), &then)], nothing),
    );
    // INVITE, 202, ACK, and the BYE is lost twice.
    pair.lost = |n| (4..=5).contains(&n);
    pair.pass(Time::from_secs(60));
    assert_eq!(methods(&pair), ["INVITE", "202", "ACK", "BYE", "200"]);
    assert_eq!((pair.passed, pair.ends[0].1.calls()), (7, 0));
}

#[test]
fn a_callee_that_is_cancelled_unawares_ends_the_invite() {
    let hold = callee(&response("180 Ringing"), r#"<pause milliseconds="5000"/>"#);
    let names = [("[field0]", "alice"), ("[field2]", "bob"), ("[domain]", "example.com")];
    let cancel = builtin("cancel").unwrap().to_owned();
    let cancel = names.iter().fold(cancel, |text, (keyword, name)| text.replace(keyword, name));
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&cancel], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[&hold], nothing),
    );
    pair.pass(Time::from_secs(60));
    assert_eq!(pair.ends_of(0, End::Caller), (1, 0), "{:?}", pair.log);
    assert_eq!(pair.ends_of(1, End::Callee), (0, 1));
    assert_eq!(methods(&pair), ["INVITE", "180", "CANCEL", "200", "487", "ACK"]);
    assert_eq!(pair.ends[1].1.calls(), 0);
}

/// The other side refuses credentials for good; the first challenge, come again, is no refusal.
#[test]
fn a_challenge_of_the_answer_to_a_challenge_ends_the_call_at_once() {
    let challenge = |nonce: &str| {
        response("401 Unauthorized").replace(
            "Contact:",
            &format!("WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\"\n      Contact:"),
        )
    };
    let register = |more: &str, cseq: u32| {
        format!(
            "<send retrans=\"500\"><![CDATA[

      REGISTER sip:r SIP/2.0
      Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
      From: <sip:a@r>;tag=1
      To: <sip:a@r>
      Call-ID: [call_id]
      CSeq: {cseq} REGISTER
      {more}
      Content-Length: 0

  ]]></send>"
        )
    };
    let client = format!(
        "<scenario name=\"user\">{}<recv response=\"401\" auth=\"true\"/>{}<recv response=\"200\"/></scenario>",
        register("X: 1", 1),
        register("[authentication username=a password=b]", 2),
    );
    let server = format!(
        "<scenario name=\"registrar\"><recv request=\"REGISTER\"/>{}<recv request=\"REGISTER\"/>{}</scenario>",
        challenge("first"),
        challenge("second"),
    );
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&client], |_, plan| plan.calls = 1),
        engine(CALLEE, CALLER, &[&server], nothing),
    );
    pair.pass(Time::from_secs(2));
    assert_eq!(pair.ends_of(0, End::Caller), (0, 1), "{:?}", pair.log);
    assert_eq!(pair.log.iter().filter(|line| line.starts_with("REGISTER")).count(), 2, "{:?}", pair.log);
    let why = &pair.ends[0].1.ladders().kept()[0].why;
    assert!(why.contains("401"), "{why}");
}
