//! Non-INVITE server transaction (RFC 3261 17.2.2, figure 8; RFC 4320; RFC 6026 8.8).

use super::ServerAct as Act;
use super::ServerInput as Input;
use super::zero_if;
use crate::timers::Clock;

/// States of figure 8. "Terminated" is the absence of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Nothing sent.
    Trying,
    /// A 100 was sent.
    Proceeding,
    /// Answered; the answer is repeated when the request is.
    Completed,
}

type Step = super::Step<State, Act>;

/// A new request.
pub(crate) fn start(clock: &Clock) -> Step {
    Step::to(State::Trying, Act::Nothing).end(clock.non_invite_lifetime)
}

/// One input.
pub(crate) fn step(state: State, input: Input, clock: &Clock, reliable: bool) -> Step {
    match state {
        State::Trying => trying(input, clock, reliable),
        State::Proceeding => proceeding(input, clock, reliable),
        State::Completed => completed(input),
    }
}

/// 17.2.2: retransmissions are discarded.
fn trying(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Request => Step::to(State::Trying, Act::Nothing),
        _ => unanswered(State::Trying, input, clock, reliable),
    }
}

/// 17.2.2: retransmissions are answered with the last provisional response.
fn proceeding(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Request => Step::to(State::Proceeding, Act::Resend),
        _ => unanswered(State::Proceeding, input, clock, reliable),
    }
}

/// What "Trying" and "Proceeding" have in common. A provisional response renews nothing: the client
/// gives up at timer F in any case.
fn unanswered(state: State, input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Provisional => Step::to(State::Proceeding, Act::Send),
        Input::Success | Input::Failure => {
            Step::to(State::Completed, Act::Send).hold(zero_if(reliable, clock.t1_x64))
        }
        Input::EndDue => Step::terminated(Act::Gone),
        // RFC 6026 8.8 has changed this for every server transaction: it stays.
        Input::SendFailed => Step::to(state, Act::Unreachable),
        _ => Step::to(state, Act::Nothing),
    }
}

/// 17.2.2: answers retransmissions with the final response until timer J.
fn completed(input: Input) -> Step {
    match input {
        Input::Request => Step::to(State::Completed, Act::Resend),
        Input::EndDue => Step::terminated(Act::Gone),
        Input::Provisional | Input::Success | Input::Failure => Step::to(State::Completed, Act::Refuse),
        Input::SendFailed => Step::to(State::Completed, Act::Unreachable),
        Input::Ack | Input::ResendDue { .. } => Step::to(State::Completed, Act::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Set;
    use crate::machine::testing::{Virtual, clock};

    const SECOND: u64 = 1_000_000;

    #[test]
    fn retransmissions_get_the_last_response() {
        assert_eq!(step(State::Trying, Input::Request, &clock(), false).act, Act::Nothing);
        assert_eq!(step(State::Proceeding, Input::Request, &clock(), false).act, Act::Resend);
        assert_eq!(step(State::Completed, Input::Request, &clock(), false).act, Act::Resend);
    }

    #[test]
    fn a_final_response_leaves_once_and_timer_j_ends_it() {
        for state in [State::Trying, State::Proceeding] {
            for last in [Input::Success, Input::Failure] {
                let mut v = Virtual::new(start(&clock()));
                v.now = SECOND;
                assert_eq!(v.apply(step(state, last, &clock(), false)), Act::Send);
                for again in [Input::Provisional, Input::Success, Input::Failure] {
                    assert_eq!(v.apply(step(State::Completed, again, &clock(), false)), Act::Refuse);
                }
                let acts = v.run_server(|s, i| step(s, i, &clock(), false));
                assert_eq!(acts, [(33 * SECOND, Act::Gone)]);
                assert_eq!(step(state, last, &clock(), true).end, Set::Loosely(0), "timer J over TCP");
            }
        }
    }

    #[test]
    fn an_unanswered_request_ends_after_the_client_has_given_up() {
        let mut v = Virtual::new(start(&clock()));
        v.now = 4 * SECOND;
        assert_eq!(v.apply(step(State::Trying, Input::Provisional, &clock(), false)), Act::Send);
        let acts = v.run_server(|s, i| step(s, i, &clock(), false));
        assert_eq!(acts, [(37 * SECOND, Act::Gone)], "64*T1 and T4, not renewed");
    }

    #[test]
    fn transport_errors_are_told_and_end_nothing() {
        for state in [State::Trying, State::Proceeding, State::Completed] {
            assert_eq!(step(state, Input::SendFailed, &clock(), false), Step::to(state, Act::Unreachable));
        }
    }
}
