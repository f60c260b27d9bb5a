//! Non-INVITE client transaction (RFC 3261 17.1.2, figure 6).

use super::ClientAct as Act;
use super::ClientInput as Input;
use super::{Set, zero_if};
use crate::timers::Clock;

/// States of figure 6. "Terminated" is the absence of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Sent, nothing heard.
    Trying,
    /// A provisional response came.
    Proceeding,
    /// A final response came; retransmissions of it are absorbed.
    Completed,
}

type Step = super::Step<State, Act>;

/// Sending the request: timer E over unreliable transports, timer F always.
pub(crate) fn start(clock: &Clock, reliable: bool) -> Step {
    let resend = if reliable { Set::Off } else { Set::After(clock.t1) };
    Step::to(State::Trying, Act::Nothing).resend(resend).end(clock.t1_x64)
}

/// One input.
pub(crate) fn step(state: State, input: Input, clock: &Clock, reliable: bool) -> Step {
    match state {
        State::Trying => trying(input, clock, reliable),
        State::Proceeding => proceeding(input, clock, reliable),
        State::Completed => completed(input),
    }
}

/// 17.1.2.2: retransmits with intervals doubling up to T2.
fn trying(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Provisional => Step::to(State::Proceeding, Act::Deliver),
        Input::ResendDue { interval } => {
            let next = interval.saturating_mul(2).min(clock.t2);
            Step::to(State::Trying, Act::Resend).resend(Set::After(next))
        }
        _ => unanswered(State::Trying, input, clock, reliable),
    }
}

/// 17.1.2.2: retransmits every T2, since only that makes the server repeat a lost final response.
fn proceeding(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Provisional => Step::to(State::Proceeding, Act::Deliver),
        Input::ResendDue { .. } => Step::to(State::Proceeding, Act::Resend).resend(Set::After(clock.t2)),
        _ => unanswered(State::Proceeding, input, clock, reliable),
    }
}

/// What "Trying" and "Proceeding" have in common: the final response, timer F, transport errors.
fn unanswered(state: State, input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Success | Input::Failure => {
            Step::to(State::Completed, Act::Deliver).resend(Set::Off).hold(zero_if(reliable, clock.t4))
        }
        Input::EndDue => Step::terminated(Act::Timeout),
        Input::SendFailed => Step::terminated(Act::Unreachable),
        _ => Step::to(state, Act::Nothing),
    }
}

/// 17.1.2.2: absorbs retransmissions of the response until timer K.
fn completed(input: Input) -> Step {
    match input {
        Input::EndDue => Step::terminated(Act::Gone),
        _ => Step::to(State::Completed, Act::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{Virtual, clock};

    const SECOND: u64 = 1_000_000;

    #[test]
    fn retransmits_up_to_every_t2_then_times_out() {
        let mut v = Virtual::new(start(&clock(), false));
        let acts = v.run_client(|s, i| step(s, i, &clock(), false));
        let expected: Vec<(u64, Act)> =
            [500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]
                .into_iter()
                .map(|ms| (ms * 1_000, Act::Resend))
                .chain([(32 * SECOND, Act::Timeout)])
                .collect();
        assert_eq!(acts, expected);
        let mut v = Virtual::new(start(&clock(), true));
        assert_eq!(v.run_client(|s, i| step(s, i, &clock(), true)), [(32 * SECOND, Act::Timeout)]);
    }

    #[test]
    fn a_provisional_response_slows_retransmission_to_t2() {
        let mut v = Virtual::new(start(&clock(), false));
        v.now = 100_000;
        assert_eq!(v.apply(step(State::Trying, Input::Provisional, &clock(), false)), Act::Deliver);
        let times: Vec<u64> =
            v.run_client(|s, i| step(s, i, &clock(), false)).into_iter().map(|(at, _)| at / 1_000).collect();
        assert_eq!(times, [500, 4_500, 8_500, 12_500, 16_500, 20_500, 24_500, 28_500, 32_000]);
    }

    #[test]
    fn a_final_response_is_delivered_once_and_absorbed_for_timer_k() {
        for state in [State::Trying, State::Proceeding] {
            for last in [Input::Success, Input::Failure] {
                let mut v = Virtual::new(start(&clock(), false));
                assert_eq!(v.apply(step(state, last, &clock(), false)), Act::Deliver);
                for again in [Input::Success, Input::Failure, Input::Provisional, Input::SendFailed] {
                    assert_eq!(v.apply(step(State::Completed, again, &clock(), false)), Act::Nothing);
                }
                let acts = v.run_client(|s, i| step(s, i, &clock(), false));
                assert_eq!(acts, [(5 * SECOND, Act::Gone)]);
                assert_eq!(step(state, last, &clock(), true).end, Set::Loosely(0), "timer K over TCP");
            }
        }
    }

    #[test]
    fn a_transport_error_ends_what_is_unanswered() {
        for state in [State::Trying, State::Proceeding] {
            let end = step(state, Input::SendFailed, &clock(), false);
            assert_eq!(end, Step::terminated(Act::Unreachable));
        }
    }
}
