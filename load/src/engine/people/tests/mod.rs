//! Users against a node of this suite's own core, in virtual time.

mod town;

use super::*;
use crate::metrics::{Failure, Measure, Method as Counted, Side};
use crate::population::{Distribution, Parameters};
use town::{Town, ends};

/// Users who live a hundred times faster than in life, for half a minute.
fn lively(users: u64) -> Parameters {
    Parameters {
        users,
        compression: 100.0,
        ramp: 600.0,
        warm_up: 300.0,
        measure: 1_200.0,
        think: Distribution::exponential(600e3),
        ..Parameters::default()
    }
}

#[test]
fn users_register_call_answer_and_leave_messages() {
    let (metrics, town) = Town::new(&lively(300), true, |_| {}).run();
    let all = &metrics.all;
    let [good, cancelled, failed, unfinished] = ends(all, Side::Caller);
    assert_eq!((failed, unfinished), (0, 0), "{}", town.ladder());
    let calls = good + cancelled;
    assert!(calls > 200, "{calls}");
    // 65, 30 and 5 per cent.
    let share = |part: u64| part as f64 / calls as f64;
    assert!((0.22..0.38).contains(&share(all.voicemails)), "{} of {calls}", all.voicemails);
    assert!((0.01..0.10).contains(&share(cancelled)), "{cancelled} of {calls}");
    // Each call has a callee; one that goes to voicemail has the mailbox beside it.
    assert_eq!(ends(all, Side::Callee), [good + all.voicemails, cancelled, 0, 0], "{}", town.ladder());
    assert_eq!((all.sessions_completed, all.sessions_established), (good, good));
    assert_eq!((all.registrations, all.registrations_ok), (300, 300));
    // Every six seconds for 21 seconds, the first one left out.
    assert!((600..=1_000).contains(&all.refreshes) && all.refreshes == all.refreshes_ok, "{}", all.refreshes);
    // Every REGISTER, INVITE and BYE was challenged.
    assert_eq!(all.challenges, all.registrations + all.refreshes + calls + good);
    assert_eq!((all.retransmissions(), all.unexpected_messages(), all.dead_call_messages), (0, 0, 0));
    assert_eq!(all.transactions_percent(), Some(100.0));
    assert_eq!(metrics.punctuality().lateness().max(), 0);
    assert_eq!(metrics.latency(Measure::RrdFirst).sent.count(), 300, "those of the ramp");
    assert!(metrics.latency(Measure::SddSuccess).sent.count() > 0);
    // Nothing is left of anybody's calls.
    for people in &town.people {
        assert!(people.is_idle() && people.answering.is_empty());
    }
}

#[test]
fn measured_window_ends_when_the_run_is_stopped() {
    let parameters = lively(300);
    let mut town = Town::new(&parameters, true, |_| {});
    let phases = crate::population::Phases::of(&parameters, town.now);
    let stop = phases.start_of(Phase::Measured) + core::time::Duration::from_secs(3);
    town.pass(stop);
    assert!(town.people.iter_mut().all(|people| people.progress(stop).beginning));
    town.people.iter_mut().for_each(|people| people.notice(stop, Notice::Quit, &mut Outbox::new()));
    let sent = |town: &Town| town.people.iter().map(|p| p.metrics.measured.messages_sent()).sum::<u64>();
    let (before, whole) = (sent(&town), town.passed);
    let (metrics, town) = town.run();
    assert_eq!((metrics.window().until, metrics.measured.messages_sent()), (stop, before));
    assert!(before > 0 && town.passed > whole, "calls under way ended");
}

#[test]
fn nothing_more_begins_in_the_cool_down() {
    let parameters = lively(10);
    let mut town = Town::new(&parameters, true, |_| {});
    let phases = crate::population::Phases::of(&parameters, town.now);
    let [measured, after] = [Phase::Measured, Phase::CoolDown].map(|phase| phases.start_of(phase));
    assert_eq!([measured, after].map(|at| town.people[0].progress(at).beginning), [true, false]);
}

#[test]
fn the_time_of_a_cancel_is_its_own() {
    let parameters = Parameters { completed: 0.0, voicemail: 0.0, cancelled: 1.0, ..lively(100) };
    let (metrics, town) = Town::new(&parameters, true, |_| {}).run();
    let [_, cancelled, failed, _] = ends(&metrics.all, Side::Caller);
    assert!(cancelled > 20 && failed == 0, "{}", town.ladder());
    // Nothing takes time here but the callers' patience, which is no server's.
    assert_eq!(metrics.latency(Measure::Transaction).sent.max(), 0);
}

#[test]
fn a_completed_call_is_the_flow_of_the_paper() {
    let mut parameters = lively(2);
    (parameters.completed, parameters.voicemail, parameters.cancelled) = (1.0, 0.0, 0.0);
    parameters.think = Distribution::exponential(200e3);
    let (metrics, town) = Town::new(&parameters, false, |_| {}).run();
    assert_eq!(ends(&metrics.all, Side::Caller)[2], 0, "{}", town.ladder());
    let flow: Vec<&str> = town.log.iter().filter_map(|line| line.split(' ').nth(2)).collect();
    let first = flow.iter().position(|word| *word == "INVITE").expect("a call");
    let words = |at: usize| town.log[at].split(' ').skip(2).take(2).collect::<Vec<_>>().join(" ");
    let call: Vec<String> =
        (first..town.log.len()).map(words).filter(|text| !text.contains("REGISTER")).take(21).collect();
    let text = call.join("\n");
    for (at, start) in [
        "INVITE sip:",
        "SIP/2.0 407",
        "ACK sip:",
        "INVITE sip:",
        "SIP/2.0 100",
        "INVITE sip:",
        "SIP/2.0 180",
        "SIP/2.0 180",
        "SIP/2.0 200",
        "SIP/2.0 200",
        "ACK sip:",
        "ACK sip:",
        "BYE sip:",
        "SIP/2.0 407",
        "BYE sip:",
        "BYE sip:",
        "SIP/2.0 200",
        "SIP/2.0 200",
    ]
    .iter()
    .enumerate()
    {
        let near = call.get(at.saturating_sub(1)..(at + 2).min(call.len())).unwrap_or_default();
        assert!(near.iter().any(|line| line.starts_with(start)), "{at} {start} in\n{text}");
    }
}

#[test]
fn what_is_lost_comes_again() {
    let parameters = lively(200);
    let mut town = Town::new(&parameters, true, |_| {});
    // Who is called before it could register is not there.
    let registered = crate::population::Phases::of(&parameters, town.now).start_of(Phase::WarmUp);
    town.pass(registered);
    town.lost = |n| n % 25 == 0;
    let (metrics, town) = town.run();
    let all = &metrics.all;
    assert_eq!(ends(all, Side::Caller)[2], 0, "{}", town.ladder());
    assert_eq!(ends(all, Side::Callee)[2], 0, "{}", town.ladder());
    assert_eq!((all.registrations_failed, all.refreshes_failed), (0, 0), "{}", town.ladder());
    assert!(all.retransmissions() > 100, "{}", all.retransmissions());
}

#[test]
fn ack_after_the_bye_has_the_credentials_of_the_invite() {
    let mut town = Town::new(&lively(100), false, |_| {});
    // Callees hear nothing of ACK and BYE, so they repeat their 200 while the BYE goes on.
    town.kept = |line| line.starts_with("ACK ") || line.starts_with("BYE ");
    let (metrics, town) = town.run();
    assert!(metrics.all.retransmissions() > 100 && town.late > 100, "{}", town.late);
}

#[test]
fn a_nonce_that_is_used_again_spares_the_challenges() {
    let parameters = lively(200);
    let (fresh, _) = Town::new(&parameters, true, |_| {}).run();
    let (reused, town) = Town::new(&parameters, true, |settings| settings.reuse_nonces = true).run();
    let all = &reused.all;
    assert_eq!(ends(all, Side::Caller)[2] + all.refreshes_failed, 0, "{}", town.ladder());
    assert_eq!(all.registrations_ok, 200);
    assert!(fresh.all.challenges > 1_000, "{}", fresh.all.challenges);
    // One for each user, and one more for whoever calls: a proxy's challenge is another one.
    assert!(all.challenges < 450, "{}", all.challenges);
}

#[test]
fn callees_take_messages_themselves_where_there_is_no_mailbox() {
    let (metrics, town) = Town::new(&lively(200), false, |_| {}).run();
    let all = &metrics.all;
    let [good, cancelled, failed, _] = ends(all, Side::Caller);
    assert_eq!(failed, 0, "{}", town.ladder());
    assert!(all.voicemails > 20);
    assert_eq!(ends(all, Side::Callee)[..3], [good, cancelled, 0]);
}

#[test]
fn callees_hang_up_where_that_is_wanted() {
    let parameters = Parameters { callee_hangs_up: 1.0, ..lively(200) };
    let (metrics, town) = Town::new(&parameters, true, |_| {}).run();
    let all = &metrics.all;
    assert_eq!(ends(all, Side::Caller)[2], 0, "{}", town.ladder());
    assert_eq!(ends(all, Side::Callee)[2], 0, "{}", town.ladder());
    // Callers end what they say to the mailbox, callees all the rest.
    assert_eq!(all.byes_answered, all.voicemails);
    assert!(all.sessions_completed > all.voicemails + 50);
    assert!(metrics.latency(Measure::SddSuccess).sent.count() > 50);
}

#[test]
fn a_callee_that_waits_for_the_ack_to_hang_up_is_not_late() {
    let mut parameters = Parameters { callee_hangs_up: 1.0, ..lively(200) };
    (parameters.completed, parameters.voicemail, parameters.cancelled) = (1.0, 0.0, 0.0);
    // Shorter than the half a second after which a 2xx, and upon it the ACK, comes again.
    parameters.hold = Distribution::fixed(10e3);
    let mut town = Town::new(&parameters, true, |_| {});
    town.pass(crate::population::Phases::of(&parameters, town.now).start_of(Phase::WarmUp));
    town.lost = |n| n % 25 == 0;
    let (metrics, town) = town.run();
    let all = &metrics.all;
    let (byes, repeated) = (metrics.latency(Measure::SddSuccess).sent.count(), all.responses_repeated);
    assert!(byes > 20 && repeated > 10, "{byes} {repeated}");
    assert_eq!(ends(all, Side::Callee)[2], 0, "{}", town.ladder());
    assert_eq!(metrics.punctuality().lateness().max(), 0);
}

#[test]
fn a_server_that_is_gone_fails_registrations_and_begins_no_calls() {
    let mut town = Town::new(&lively(20), true, |_| {});
    town.lost = |_| true;
    let (metrics, town) = town.run();
    let all = &metrics.all;
    assert_eq!(all.registrations_ok + all.sessions_requested, 0);
    // One each until timer F, then others whose end the run did not see.
    assert!(all.registrations_failed >= 20, "{}", all.registrations_failed);
    assert_eq!(all.requests_sent[Counted::Register as usize], all.registrations);
    assert!(town.ladder().contains("REGISTER"), "{}", town.ladder());
}

#[test]
fn registrations_that_a_silent_server_keeps_from_beginning_are_counted() {
    let mut town = Town::new(&lively(20), true, |_| {});
    let phases = crate::population::Phases::of(&lively(20), town.now);
    town.pass(phases.start_of(Phase::WarmUp));
    town.lost = |_| true;
    let (metrics, _) = town.run();
    // Every six seconds, and the first one takes 32 s to be given up.
    let skipped = metrics.measured.registrations_skipped;
    assert!(skipped >= 20, "{skipped}");
}

#[test]
fn wrong_passwords_are_said_to_be_wrong() {
    let names = std::sync::Arc::new(Names::counted("u1000000", "secret").unwrap());
    let town = Town::new(&lively(10), true, |settings| settings.names = std::sync::Arc::clone(&names));
    let (metrics, town) = town.run();
    assert_eq!(metrics.all.registrations_ok, 0);
    assert!(metrics.all.registrations_failed >= 10);
    assert!(town.ladder().contains("credentials were refused"), "{}", town.ladder());
}

#[test]
fn calls_beyond_the_cap_are_left_out_and_counted() {
    let (metrics, _) = Town::new(&lively(300), true, |settings| settings.most_calls = 3).run();
    assert!(metrics.all.shed > 0);
    assert_eq!(metrics.all.sides[Side::Caller as usize].failed[Failure::Refused as usize], 0);
}

#[test]
fn a_call_that_talks_at_the_end_is_unfinished_and_a_silent_server_has_failed() {
    let mut parameters = lively(100);
    (parameters.completed, parameters.voicemail, parameters.cancelled) = (1.0, 0.0, 0.0);
    // Ten minutes of people's time each hundredth of which is six seconds.
    (parameters.hold, parameters.cool_down) = (Distribution::fixed(3_600e3), 3.0);
    let mut town = Town::new(&parameters, true, |_| {});
    let phases = crate::population::Phases::of(&parameters, town.now);
    town.pass(phases.start_of(Phase::CoolDown));
    town.lost = |_| true;
    let (metrics, town) = town.run();
    let [good, _, failed, unfinished] = ends(&metrics.all, Side::Caller);
    assert_eq!(good, 0);
    assert!(unfinished > 20, "{unfinished}");
    assert_eq!(failed, 0, "{}", town.ladder());
}

/// A run whose server takes all messages and keeps some of those that it has for users, from the warm-up on:
/// what became of the calls of the measured window, and the word of the verdict.
fn kept_back(kept: fn(&str) -> bool) -> ([u64; 4], &'static str) {
    let mut parameters = lively(100);
    (parameters.completed, parameters.voicemail, parameters.cancelled) = (1.0, 0.0, 0.0);
    // Less than the 32 s after which the server gives up itself.
    (parameters.hold, parameters.cool_down) = (Distribution::fixed(60e3), 10.0);
    let mut town = Town::new(&parameters, true, |_| {});
    let phases = crate::population::Phases::of(&parameters, town.now);
    town.pass(phases.start_of(Phase::WarmUp));
    town.kept = kept;
    let (metrics, _) = town.run();
    let rule = crate::metrics::Rule::default();
    let verdict = crate::metrics::judge(&rule, &metrics, crate::metrics::Health::default()).0;
    (ends(&metrics.measured, Side::Caller), verdict.word())
}

#[test]
fn an_invite_that_only_a_proxy_has_taken_has_failed() {
    let ([good, _, failed, unfinished], word) = kept_back(|line| line.starts_with("INVITE "));
    assert!(failed > 20, "{failed}");
    assert_eq!((good, unfinished, word), (0, 0, "FAIL"));
}

#[test]
fn a_call_that_rings_for_longer_than_planned_has_failed() {
    let ([good, _, failed, unfinished], word) = kept_back(|line| line.starts_with("SIP/2.0 200 OK"));
    // Some ring yet; what the registrar says is lost, too, as in the warm-up before.
    assert!(failed > 20 && good == 0 && unfinished < failed / 4, "{failed} {unfinished}");
    assert_eq!(word, "FAIL");
}

#[test]
fn the_same_seed_makes_the_same_run() {
    let parameters = lively(100);
    let (first, town) = Town::new(&parameters, true, |_| {}).run();
    let (second, again) = Town::new(&parameters, true, |_| {}).run();
    assert_eq!(first.all, second.all);
    assert_eq!(town.passed, again.passed);
}

#[test]
fn a_user_at_rest_takes_less_than_two_hundred_bytes() {
    let parameters = Parameters { users: 200_000, ..Parameters::default() };
    for (reuse, most) in [(false, 100), (true, 200)] {
        let town = Town::new(&parameters, true, |settings| settings.reuse_nonces = reuse);
        let bytes: usize = town.people.iter().map(People::bytes_at_rest).sum();
        assert!(bytes / 200_000 < most, "{} bytes", bytes / 200_000);
    }
}

#[test]
fn any_message_is_survived() {
    let mut town = Town::new(&lively(10), true, |_| {});
    town.pass(town.now + core::time::Duration::from_secs(20));
    let flow = Flow::udp(wire::ListenerId(1), "192.0.2.1:5060".parse().unwrap());
    let tail = "\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:0@192.0.2.2:6060>;tag=s00000000000000000001\r\n\
                Call-ID: qc0000000000000000000000000000\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    for start in [
        "INVITE sip:0@192.0.2.2:6060 SIP/2.0",
        "BYE sip:0@192.0.2.2:6060 SIP/2.0",
        "CANCEL sip:99999999999@192.0.2.2:6060 SIP/2.0",
        "SIP/2.0 200 OK",
        "SIP/2.0 407 No",
        "garbage",
        "",
    ] {
        for branch in [
            "z9hG4bKx",
            "z9hG4bKc0000000000000000000100000001012345678",
            "z9hG4bKs000000000000000000010000000101234567",
        ] {
            let text = format!("{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={branch}{tail}");
            let mut out = Outbox::new();
            town.people[0].owner(text.as_bytes(), 2);
            town.people[0].receive(Arrival::new(town.now, flow, text.as_bytes()), &mut out);
        }
    }
}
