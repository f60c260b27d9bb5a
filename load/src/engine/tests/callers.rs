//! Calls by users, and the sockets of calls.

use super::*;

#[test]
fn users_keep_the_number_of_calls() {
    let hold =
        scenario_with_pause(1_000).replace("Max-Forwards: 70", "Max-Forwards: 70\n      X-User: [userid]");
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&hold], |settings, _| {
            settings.users = Some(Users { numbers: (0, 1), count: 3, calls: Some(9) });
        }),
        engine(CALLEE, CALLER, &["uas"], nothing),
    );
    for millis in [1_500, 2_500, 3_500] {
        pair.pass(Time::from_millis(millis));
        assert_eq!(pair.ends[0].1.calls(), 3, "at {millis}");
        assert!(!pair.ends[0].1.is_done());
    }
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (9, 0));
    assert!(pair.ends[0].1.is_done());
    let user = |text: &String| Some(text.split_once("X-User: ")?.1.split('\r').next()?.to_owned());
    let invites = pair.texts.iter().filter(|text| text.starts_with("INVITE "));
    let mut users: Vec<String> = invites.filter_map(user).collect();
    users.sort();
    assert_eq!(users.join(""), "111222333", "each is named and none is left out");
}

#[test]
fn variables_of_a_user_last_from_call_to_call() {
    let text = builtin("options").unwrap();
    let text = text.replace("[service]", "bob").replace(
        "<send",
        "<User variables=\"n\"/><nop><action><add assign_to=\"n\" value=\"1\"/></action></nop>\n  <send",
    );
    let text = text.replacen("Max-Forwards: 70", "Max-Forwards: 70\n      X-Calls: [$n]", 1);
    // Longer than one begins after the other, so that both make as many.
    let text = text.replacen("</scenario>", "<pause milliseconds=\"10\"/></scenario>", 1);
    let answer = r#"<scenario name="x"><recv request="OPTIONS"/><send><![CDATA[

      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

    ]]></send></scenario>"#;
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&text], |settings, _| {
            settings.users = Some(Users { numbers: (0, 1), count: 2, calls: Some(6) });
        }),
        engine(CALLEE, CALLER, &[answer], nothing),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (6, 0), "{:?}", pair.log);
    let calls = |text: &String| Some(text.split_once("X-Calls: ")?.1.split('\r').next()?.to_owned());
    let mut calls: Vec<String> = pair.texts.iter().filter_map(calls).collect();
    calls.sort();
    assert_eq!(calls.len(), 6);
    assert_eq!(calls[0], calls[1], "two users who count alike");
    assert_ne!(calls[1], calls[2], "and remember it");
}

#[test]
fn calls_under_way_share_no_socket() {
    let listeners: Vec<SocketAddr> = (0..4).map(|n| SocketAddr::from(([192, 0, 2, 1], 5_060 + n))).collect();
    let mut engine = engine(CALLER, CALLEE, &["uac"], |settings, plan| {
        plan.rate = 1_000.0;
        settings.addresses.own = (0..4).map(ListenerId).collect();
        settings.addresses.listeners = listeners;
        settings.addresses.origin = Origin::Call;
    });
    let mut out = Outbox::new();
    engine.timeout(Time::from_millis(1_003), &mut out);
    let mut used: Vec<u16> = out.transmits().iter().map(|t| t.flow.listener.0).collect();
    let texts: Vec<_> =
        out.transmits().iter().map(|t| String::from_utf8_lossy(out.message(t)).into_owned()).collect();
    for (listener, text) in used.iter().zip(&texts) {
        assert!(text.contains(&format!("Via: SIP/2.0/UDP 192.0.2.1:{};", 5_060 + listener)), "{text}");
    }
    used.sort_unstable();
    assert_eq!(used, [0, 1, 2, 3]);
}

#[test]
fn the_first_cseq_can_be_chosen() {
    let text = builtin("uac").unwrap().replace("CSeq: 1 INVITE", "CSeq: [cseq] INVITE");
    let mut engine = engine(CALLER, CALLEE, &[&text], |settings, _| settings.conduct.base_cseq = 100);
    let mut out = Outbox::new();
    engine.timeout(Time::from_secs(1), &mut out);
    let text = String::from_utf8_lossy(out.message(&out.transmits()[0])).into_owned();
    assert!(text.contains("CSeq: 100 INVITE\r\n"), "{text}");
}

#[test]
fn who_registers_again_is_counted_apart() {
    const USER: &str = r#"<scenario name="user"><send><![CDATA[

REGISTER sip:x SIP/2.0
Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
From: <sip:u@x>;tag=[call_number]
To: <sip:u@x>
Call-ID: [call_id]
CSeq: [cseq] REGISTER
Content-Length: 0

]]></send><recv response="200"/></scenario>"#;
    const REGISTRAR: &str = r#"<scenario name="registrar"><recv request="REGISTER"/><send><![CDATA[

SIP/2.0 200 OK
[last_Via:]
[last_From:]
[last_To:];tag=1
[last_Call-ID:]
[last_CSeq:]
Content-Length: 0

]]></send></scenario>"#;
    let mut pair =
        Pair::new(engine(CALLER, CALLEE, &[USER], nothing), engine(CALLEE, CALLER, &[REGISTRAR], nothing));
    pair.pass(Time::from_secs(10));
    let all = &pair.caller().all;
    assert_eq!((all.registrations_ok, all.refreshes_ok, all.refreshes_failed), (1, 19, 0));
}
