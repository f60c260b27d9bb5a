//! What SIPp's files rely on: `<init>`, named transactions, and two scenarios in one program that are apart
//! as if two programs played them.

use super::*;

/// A scenario that sends an OPTIONS with these header lines, with these elements before it.
fn asks(before: &str, lines: &str, recv: &str) -> String {
    format!(
        "<scenario name=\"asks\">{before}<send start_txn=\"o\"><![CDATA[\n\nOPTIONS sip:x SIP/2.0\n\
         Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\nFrom: <sip:u@x>;tag=[call_number]\n\
         To: <sip:u@x>\nCall-ID: [call_id]\nCSeq: [cseq] OPTIONS\n{lines}Content-Length: 0\n\n]]></send>{recv}\
         </scenario>"
    )
}

const TAKEN: &str = "<recv response=\"200\" response_txn=\"o\"/>";

/// A scenario that answers an OPTIONS with these header lines, with these elements before the answer.
fn answers(before: &str, lines: &str) -> String {
    format!(
        "<scenario name=\"answers\"><Global variables=\"tag\"/><recv request=\"OPTIONS\"/>{before}<send><![CDATA[\n\n\
         SIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n[last_To:];tag=1\n[last_Call-ID:]\n[last_CSeq:]\n{lines}\
         Content-Length: 0\n\n]]></send></scenario>"
    )
}

fn quiet() -> Engine {
    engine(CALLEE, CALLER, &[&answers("", "")], nothing)
}

/// The values of a header in all messages that have it.
fn values(pair: &Pair, name: &str) -> Vec<String> {
    let value = |text: &String| Some(text.split_once(&format!("{name}: "))?.1.split('\r').next()?.to_owned());
    pair.texts.iter().filter_map(value).collect()
}

#[test]
fn init_runs_once_before_the_first_call() {
    let init = "<Global variables=\"g,n\"/><User variables=\"u\"/><init>\
                <nop next=\"1\"><action><assignstr assign_to=\"g\" value=\"hello\"/></action></nop>\
                <nop><action><assignstr assign_to=\"g\" value=\"passed over\"/></action></nop><label id=\"1\"/>\
                <nop counter=\"begun\"><action><add assign_to=\"n\" value=\"1\"/><assign assign_to=\"u\" value=\"2\"/>\
                <log message=\"g is [$g]\"/></action></nop></init>";
    let text = asks(init, "X-G: [$g] [$n] [$u]\n", TAKEN);
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &[&text], |settings, plan| {
            plan.calls = 3;
            settings.users = Some(Users { numbers: (0, 1), count: 3, calls: Some(3) });
        }),
        quiet(),
    );
    pair.pass(Time::from_secs(5));
    assert_eq!(pair.ends_of(0, End::Caller), (3, 0), "{:?}", pair.log);
    assert_eq!(values(&pair, "X-G"), ["hello 1.000000 2.000000"; 3]);
    let own = &mut pair.ends[0].1;
    assert_eq!((own.trouble(), own.metrics().custom().tallies()), (None, &[("begun".to_owned(), 1)][..]));
    assert_eq!(own.player.interpreter.take_lines(), [(Level::Log, b"g is hello".to_vec())]);
}

#[test]
fn an_init_that_cannot_be_done_begins_no_call() {
    for (action, why) in [
        ("<error message=\"no\"/>", "<init> of asks: the action in line 1 did not hold"),
        ("<jump value=\"0\"/>", "<init> of asks: it goes round for ever"),
    ] {
        let init = format!("<init><nop><action>{action}</action></nop></init>");
        let mut own = engine(CALLER, CALLEE, &[&asks(&init, "", TAKEN)], nothing);
        assert_eq!(own.trouble(), Some(why));
        let mut out = Outbox::new();
        own.timeout(Time::from_secs(9), &mut out);
        assert!(out.transmits().is_empty() && own.is_done());
    }
}

#[test]
fn a_response_belongs_to_the_transaction_that_its_branch_names() {
    let mut pair = Pair::new(engine(CALLER, CALLEE, &[&asks("", "", TAKEN)], nothing), quiet());
    pair.pass(Time::from_secs(10));
    assert_eq!(pair.ends_of(0, End::Caller), (20, 0), "{:?}", pair.log);

    // The answer to the first of two requests comes when the second has been sent.
    let second = "<send start_txn=\"p\"><![CDATA[\n\nOPTIONS sip:second SIP/2.0\n\
                  Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\nFrom: <sip:u@x>;tag=[call_number]\n\
                  To: <sip:u@x>\nCall-ID: [call_id]\nCSeq: [cseq] OPTIONS\nContent-Length: 0\n\n]]></send>";
    let late = format!(
        "{second}<recv response=\"200\" response_txn=\"p\"/><recv response=\"200\" response_txn=\"o\"/>"
    );
    let mut own = engine(CALLER, CALLEE, &[&asks("", "", &late)], |_, plan| plan.calls = 1);
    let mut out = Outbox::new();
    own.timeout(Time::from_secs(1), &mut out);
    let asked: Vec<Vec<u8>> = out.transmits().iter().map(|sent| out.message(sent).to_vec()).collect();
    let [first, second] = &asked[..] else { panic!("{} requests", asked.len()) };
    let mut answer = |to: &[u8]| {
        let text = String::from_utf8_lossy(to);
        let (_, rest) = text.split_once("\r\n").unwrap();
        let answer = format!("SIP/2.0 200 OK\r\n{rest}").replace("To: <sip:u@x>", "To: <sip:u@x>;tag=1");
        let flow = Flow::udp(ListenerId(0), address(CALLEE));
        own.receive(Arrival::new(Time::from_secs(1), flow, answer.as_bytes()), &mut Outbox::new());
        own.calls()
    };
    assert_eq!((answer(second), answer(first)), (1, 0));
    assert_eq!(own.metrics().all.sides[0].succeeded, 1);
}

/// A caller and a callee that play `SEQUENTIAL` lines of one file, both in the first of two engines.
fn with_lines(lines: usize, calls: u64) -> Pair {
    let text: String = (0..lines).map(|line| format!("u{line}\n")).collect();
    let files = Injections {
        files: vec![
            crate::scenario::Injection::parse("u", format!("SEQUENTIAL\n{text}").as_bytes()).unwrap(),
        ],
    };
    let around = Surroundings {
        keys: &[],
        injections: &files,
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    let own = |text: String| Some(Arc::new(read("t.xml", text.as_bytes(), &around).unwrap()));
    let (client, server) =
        (own(asks("", "X-Caller: [field0]\n", TAKEN)), own(answers("", "X-Callee: [field0]\n")));
    let mut own = engine(CALLER, CALLER, &["uac"], |settings, plan| {
        plan.calls = calls;
        (settings.client, settings.server) = (client, server);
    });
    *own.player.interpreter.desk() = Desk::new(files.for_worker(0, 1), 1, 10);
    Pair::new(own, quiet())
}

#[test]
fn callees_take_no_lines_from_callers() {
    let mut pair = with_lines(4, 4);
    pair.pass(Time::from_secs(5));
    assert_eq!(pair.ends_of(0, End::Caller), (4, 0), "{:?}", pair.log);
    let want: Vec<String> = (0..4).map(|line| format!("u{line}")).collect();
    assert_eq!(values(&pair, "X-Caller"), want, "each user calls once");
    assert_eq!(values(&pair, "X-Callee"), want, "the other end of a call has its line");
}

#[test]
fn timers_counters_and_variables_of_the_two_scenarios_are_apart() {
    let caller = asks(
        "<Global variables=\"mine\"/>",
        "X-Mine: [$mine]\n",
        "<recv response=\"200\" response_txn=\"o\" rtd=\"1\" counter=\"done\"/>\
         <ResponseTimeRepartition value=\"10\"/><CallLengthRepartition value=\"20\"/>",
    );
    let callee = answers(
        "<pause milliseconds=\"300\"/><nop rtd=\"1\" counter=\"seen\"><action>\
         <add assign_to=\"n\" value=\"1\"/></action></nop><Reference variables=\"n\"/>\
         <ResponseTimeRepartition value=\"30\"/><CallLengthRepartition value=\"40\"/>",
        "X-Tag: [$tag] [$n]\n",
    );
    let mut pair = Pair::new(
        engine(CALLER, CALLER, &[&caller, &callee], |settings, plan| {
            plan.calls = 5;
            settings.set = vec![("tag".into(), b"hello".to_vec()), ("mine".into(), b"me".to_vec())];
        }),
        quiet(),
    );
    pair.pass(Time::from_secs(10));
    assert_eq!(
        (pair.ends_of(0, End::Caller), pair.ends_of(0, End::Callee)),
        ((5, 0), (5, 0)),
        "{:?}",
        pair.log
    );
    assert_eq!(values(&pair, "X-Tag"), ["hello 1.000000"; 5]);
    assert_eq!(values(&pair, "X-Mine"), ["me"; 5]);
    let metrics = pair.caller();
    let watches: Vec<(&str, u64)> = metrics
        .custom()
        .stopwatches()
        .iter()
        .map(|(name, times)| (name.as_str(), times.sent.count()))
        .collect();
    assert_eq!(watches, [("1", 5), ("callee-1", 5)]);
    assert_eq!(metrics.custom().tallies(), [("done".to_owned(), 5), ("callee-seen".to_owned(), 5)]);
    let tables: Vec<(Option<usize>, u32)> =
        metrics.custom().tables().iter().map(|table| (table.stopwatch, table.bounds_ms[0])).collect();
    assert_eq!(tables, [(Some(0), 10), (None, 20), (Some(1), 30)]);
}

#[test]
fn room_for_calls_is_that_of_the_callers() {
    let hold = scenario_with_pause(300);
    let mut pair = Pair::new(
        engine(CALLER, CALLER, &[&hold, "uas"], |settings, plan| {
            (settings.most_calls, plan.rate, plan.calls) = (3, 50.0, 12);
        }),
        quiet(),
    );
    pair.pass(Time::from_millis(1_200));
    assert_eq!(pair.ends[0].1.calling(), 3);
    pair.pass(Time::from_secs(10));
    assert_eq!(
        (pair.ends_of(0, End::Caller), pair.ends_of(0, End::Callee)),
        ((12, 0), (12, 0)),
        "{:?}",
        pair.log
    );
    assert_eq!((pair.caller().all.unexpected_messages(), pair.caller().all.shed), (0, 0));
    assert_eq!(pair.ends[0].1.calling(), 0);
}

const INVITE: &str = "INVITE sip:x@y SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9:5060;branch=z9hG4bK1\r\n\
                      From: <sip:u@x>;tag=1\r\nTo: <sip:x@y>\r\nCall-ID: {call}\r\nCSeq: 1 INVITE\r\n\
                      Content-Length: 0\r\n\r\n";

/// What an engine says to an INVITE with this Call-ID.
fn said(engine: &mut Engine, call_id: &str) -> Vec<String> {
    let mut out = Outbox::new();
    let text = INVITE.replace("{call}", call_id);
    let flow = Flow::udp(ListenerId(0), address("192.0.2.9:5060"));
    engine.receive(Arrival::new(Time::from_secs(2), flow, text.as_bytes()), &mut out);
    let line = |text: &[u8]| String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned();
    out.transmits().iter().map(|sent| line(out.message(sent))).collect()
}

#[test]
fn an_invite_without_room_is_refused_and_the_fault_is_ours() {
    let mut own = engine(CALLEE, CALLER, &["uas"], |settings, _| settings.most_callees = 1);
    assert_eq!(said(&mut own, "one").len(), 2, "180 and 200");
    assert_eq!(
        (said(&mut own, "two"), own.metrics().all.callees_shed),
        (vec!["SIP/2.0 503 Service Unavailable".into()], 1)
    );
    assert_eq!((own.metrics().all.unexpected_messages(), own.metrics().all.shed), (0, 0));
    // Nobody here was to begin it.
    assert_eq!(own.metrics().offered(Time::from_secs(1)), None);
}

#[test]
fn what_is_answered_by_default_begins_no_call() {
    let said = |engine: &mut Engine, method: &str| {
        let text = INVITE.replace("{call}", method).replace("INVITE", method);
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), address("192.0.2.9:5060"));
        engine.receive(Arrival::new(Time::from_secs(2), flow, text.as_bytes()), &mut out);
        let code =
            |text: &[u8]| String::from_utf8_lossy(text).split(' ').nth(1).unwrap_or_default().to_owned();
        out.transmits().iter().map(|sent| code(out.message(sent))).collect::<Vec<_>>()
    };
    let mut own =
        engine(CALLEE, CALLER, &["uas"], |settings, _| settings.conduct.defaults.auto_answer = true);
    for method in ["OPTIONS", "NOTIFY", "PING"] {
        assert_eq!(said(&mut own, method), ["200"], "{method}");
    }
    let all = &own.metrics().all;
    assert_eq!((own.calls(), all.sides[1].begun, all.callees_shed, all.unexpected_messages()), (0, 0, 0, 0));
    assert_eq!(said(&mut own, "INVITE"), ["180", "200"]);
    // A scenario that begins so answers by itself.
    let mut own = engine(CALLEE, CALLER, &[&answers("", "")], |settings, _| {
        settings.conduct.defaults.auto_answer = true
    });
    assert_eq!(
        (said(&mut own, "OPTIONS"), own.metrics().all.sides[1].succeeded),
        (vec!["200".to_owned()], 1)
    );
}

#[test]
fn nothing_begins_with_an_invite_that_belongs_to_no_call() {
    let mut own = engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 0);
    // The name of a call of this run that is over.
    let mut late = Vec::new();
    CallName { worker: 0, slot: 9, generation: 9 }.write(0x1234_5678, &mut late);
    let late = String::from_utf8(late).unwrap();
    for call_id in [late.as_str(), "nobody"] {
        let answer = said(&mut own, call_id);
        assert!(answer.len() == 1 && answer[0].starts_with("SIP/2.0 481 "), "{answer:?}");
    }
}

#[test]
fn an_answering_side_ends_with_its_last_call() {
    let mut pair = Pair::new(
        engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 5),
        engine(CALLEE, CALLER, &["uas"], |settings, _| settings.callees = Some(3)),
    );
    pair.pass(Time::from_millis(1_250));
    assert!(!pair.ends[1].1.is_done(), "the last one may still be asked again");
    pair.pass(Time::from_secs(60));
    assert!(pair.ends[1].1.is_done());
    assert_eq!(
        (pair.ends_of(0, End::Caller), pair.ends_of(1, End::Callee)),
        ((3, 2), (3, 0)),
        "{:?}",
        pair.log
    );
    assert_eq!(pair.ends[1].1.metrics().all.callees_shed, 0, "it was asked for no more");
}

#[test]
fn the_number_of_a_cseq_stays_below_its_bound() {
    let text = builtin("uac").unwrap().replace("CSeq: 1 INVITE", "CSeq: [cseq] INVITE");
    for base in [i32::MAX as u32, u32::MAX] {
        let mut own = engine(CALLER, CALLEE, &[&text], |settings, _| settings.conduct.base_cseq = base);
        let mut out = Outbox::new();
        own.timeout(Time::from_secs(1), &mut out);
        let text = String::from_utf8_lossy(out.message(&out.transmits()[0])).into_owned();
        assert!(text.contains("CSeq: 2147483647 INVITE\r\n"), "{text}");
    }
}
