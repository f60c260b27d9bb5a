//! What was handled later than it came.

use super::*;

fn ms(millis: u64) -> Time {
    Time::from_secs(1) + Duration::from_millis(millis)
}

/// The messages of an outbox, which is emptied.
fn sent(out: &mut Outbox) -> Vec<Vec<u8>> {
    let all = out.transmits().iter().map(|transmit| out.message(transmit).to_vec()).collect();
    out.clear();
    all
}

#[test]
fn times_are_counted_from_the_arrival_and_the_wait_is_lateness() {
    let mut caller = engine(CALLER, CALLEE, &["uac"], |_, plan| plan.calls = 1);
    let mut callee = engine(CALLEE, CALLER, &["uas"], nothing);
    let (to_callee, to_caller) =
        (Flow::udp(ListenerId(0), address(CALLER)), Flow::udp(ListenerId(0), address(CALLEE)));
    let mut out = Outbox::new();
    caller.timeout(ms(0), &mut out);
    let invite = sent(&mut out).remove(0);
    callee.receive(Arrival::new(ms(0), to_callee, &invite), &mut out);
    let answers = sent(&mut out);
    // 180 and 200 come after 4 ms and wait for 6 more; ACK and BYE leave then.
    for answer in &answers {
        caller.receive(Arrival { at: Some(ms(4)), ..Arrival::new(ms(10), to_caller, answer) }, &mut out);
    }
    let requests = sent(&mut out);
    assert_eq!((answers.len(), requests.len()), (2, 2));
    for request in &requests {
        callee.receive(Arrival::new(ms(11), to_callee, request), &mut out);
    }
    let bye_answer = sent(&mut out).remove(0);
    caller.receive(Arrival { at: Some(ms(12)), ..Arrival::new(ms(13), to_caller, &bye_answer) }, &mut out);

    let metrics = caller.metrics();
    let micros = |hist: &crate::metrics::Hist| (hist.count(), hist.max());
    let setup = metrics.latency(Measure::Setup);
    assert_eq!((micros(&setup.intended), micros(&setup.sent)), ((1, 4_000), (1, 4_000)));
    let bye = metrics.latency(Measure::Transaction);
    assert_eq!((micros(&bye.intended), micros(&bye.sent)), ((1, 8_000), (1, 2_000)));
    // The start, which was on time, and three messages.
    assert_eq!(micros(metrics.punctuality().lateness()), (4, 6_000));
    assert!(caller.is_done());
}
