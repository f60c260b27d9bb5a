//! INVITE server transaction (RFC 3261 17.2.1, figure 7 as replaced by RFC 6026 8.6).

use super::ServerAct as Act;
use super::ServerInput as Input;
use super::{Set, zero_if};
use crate::timers::Clock;

/// States of figure 7. "Terminated" is the absence of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not finally answered.
    Proceeding,
    /// A failure was sent and is repeated until its ACK comes.
    Completed,
    /// The ACK came; more of them are absorbed.
    Confirmed,
    /// A success was sent; retransmissions of the INVITE are absorbed.
    Accepted,
}

type Step = super::Step<State, Act>;

/// A new request.
pub(crate) fn start(clock: &Clock) -> Step {
    Step::to(State::Proceeding, Act::Nothing).end(clock.lifetime)
}

/// One input.
pub(crate) fn step(state: State, input: Input, clock: &Clock, reliable: bool) -> Step {
    match state {
        State::Proceeding => proceeding(input, clock, reliable),
        State::Completed => completed(input, clock, reliable),
        State::Confirmed => confirmed(input),
        State::Accepted => accepted(input),
    }
}

/// 17.2.1. Each provisional response renews the lifetime; an end without an answer only means that
/// the transaction user forgot.
fn proceeding(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Request => Step::to(State::Proceeding, Act::Resend),
        Input::Provisional => Step::to(State::Proceeding, Act::Send).end(clock.lifetime),
        Input::Success => Step::to(State::Accepted, Act::Send).hold(clock.t1_x64),
        Input::Failure => {
            let resend = if reliable { Set::Off } else { Set::After(clock.t1) };
            Step::to(State::Completed, Act::Send).resend(resend).end(clock.t1_x64)
        }
        Input::EndDue => Step::terminated(Act::Gone),
        // RFC 6026 7.1: a transport error ends no INVITE server transaction.
        Input::SendFailed => Step::to(State::Proceeding, Act::Unreachable),
        // An ACK for what was never sent.
        Input::Ack | Input::ResendDue { .. } => Step::to(State::Proceeding, Act::Nothing),
    }
}

/// 17.2.1: repeats the failure (timer G) until the ACK comes or timer H fires.
fn completed(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Request => Step::to(State::Completed, Act::Resend),
        Input::ResendDue { interval } => {
            let next = interval.saturating_mul(2).min(clock.t2);
            Step::to(State::Completed, Act::Resend).resend(Set::After(next))
        }
        Input::Ack => {
            Step::to(State::Confirmed, Act::Nothing).resend(Set::Off).hold(zero_if(reliable, clock.t4))
        }
        Input::EndDue => Step::terminated(Act::AckTimeout),
        Input::SendFailed => Step::to(State::Completed, Act::Unreachable),
        Input::Provisional | Input::Success | Input::Failure => Step::to(State::Completed, Act::Refuse),
    }
}

/// 17.2.1: absorbs what still arrives until timer I.
fn confirmed(input: Input) -> Step {
    match input {
        Input::EndDue => Step::terminated(Act::Gone),
        Input::Provisional | Input::Success | Input::Failure => Step::to(State::Confirmed, Act::Refuse),
        _ => Step::to(State::Confirmed, Act::Nothing),
    }
}

/// RFC 6026 7.1: 2xx are sent as the transaction user passes them and never by the transaction, ACKs
/// go to the transaction user, all until timer L.
fn accepted(input: Input) -> Step {
    match input {
        Input::Success => Step::to(State::Accepted, Act::Send),
        Input::Ack => Step::to(State::Accepted, Act::PassAck),
        Input::EndDue => Step::terminated(Act::Gone),
        Input::SendFailed => Step::to(State::Accepted, Act::Unreachable),
        Input::Provisional | Input::Failure => Step::to(State::Accepted, Act::Refuse),
        Input::Request | Input::ResendDue { .. } => Step::to(State::Accepted, Act::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{Virtual, clock};

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_failure_is_repeated_until_timer_h() {
        let mut v = Virtual::new(start(&clock()));
        assert_eq!(v.apply(step(State::Proceeding, Input::Failure, &clock(), false)), Act::Send);
        let acts = v.run_server(|s, i| step(s, i, &clock(), false));
        let expected: Vec<(u64, Act)> =
            [500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]
                .into_iter()
                .map(|ms| (ms * 1_000, Act::Resend))
                .chain([(32 * SECOND, Act::AckTimeout)])
                .collect();
        assert_eq!(acts, expected);
    }

    #[test]
    fn a_failure_over_tcp_waits_for_its_ack_without_repeating() {
        let mut v = Virtual::new(start(&clock()));
        v.apply(step(State::Proceeding, Input::Failure, &clock(), true));
        let acts = v.run_server(|s, i| step(s, i, &clock(), true));
        assert_eq!(acts, [(32 * SECOND, Act::AckTimeout)]);
        assert_eq!(step(State::Completed, Input::Ack, &clock(), true).end, Set::Loosely(0), "timer I");
    }

    #[test]
    fn the_ack_stops_timer_g_and_timer_i_ends_it() {
        let mut v = Virtual::new(start(&clock()));
        v.apply(step(State::Proceeding, Input::Failure, &clock(), false));
        v.now = 700_000;
        assert_eq!(v.apply(step(State::Completed, Input::Ack, &clock(), false)), Act::Nothing);
        for input in [Input::Ack, Input::Request, Input::SendFailed] {
            assert_eq!(v.apply(step(State::Confirmed, input, &clock(), false)), Act::Nothing);
        }
        assert_eq!(v.apply(step(State::Confirmed, Input::Success, &clock(), false)), Act::Refuse);
        let acts = v.run_server(|s, i| step(s, i, &clock(), false));
        assert_eq!(acts, [(5_700_000, Act::Gone)]);
    }

    #[test]
    fn a_success_is_never_repeated_by_the_transaction_and_timer_l_ends_it() {
        let mut v = Virtual::new(start(&clock()));
        v.now = SECOND;
        assert_eq!(v.apply(step(State::Proceeding, Input::Success, &clock(), true)), Act::Send);
        assert_eq!(v.apply(step(State::Accepted, Input::Request, &clock(), true)), Act::Nothing);
        assert_eq!(v.apply(step(State::Accepted, Input::Ack, &clock(), true)), Act::PassAck);
        assert_eq!(v.apply(step(State::Accepted, Input::Success, &clock(), true)), Act::Send);
        assert_eq!(v.apply(step(State::Accepted, Input::Failure, &clock(), true)), Act::Refuse);
        assert_eq!(v.apply(step(State::Accepted, Input::Provisional, &clock(), true)), Act::Refuse);
        let acts = v.run_server(|s, i| step(s, i, &clock(), true));
        assert_eq!(acts, [(33 * SECOND, Act::Gone)], "64*T1 on reliable transports as well");
    }

    #[test]
    fn only_one_final_response_leaves() {
        for late in [Input::Provisional, Input::Success, Input::Failure] {
            let refused = step(State::Completed, late, &clock(), false);
            assert_eq!(refused, Step::to(State::Completed, Act::Refuse));
        }
    }

    #[test]
    fn an_unanswered_request_ends_and_provisional_responses_renew_it() {
        let mut v = Virtual::new(start(&clock()));
        v.now = 100 * SECOND;
        assert_eq!(v.apply(step(State::Proceeding, Input::Provisional, &clock(), false)), Act::Send);
        let acts = v.run_server(|s, i| step(s, i, &clock(), false));
        assert_eq!(acts, [(100 * SECOND + clock().lifetime, Act::Gone)]);
    }

    #[test]
    fn transport_errors_are_told_and_end_nothing() {
        for state in [State::Proceeding, State::Completed, State::Accepted] {
            assert_eq!(step(state, Input::SendFailed, &clock(), false), Step::to(state, Act::Unreachable));
        }
    }

    #[test]
    fn an_ack_for_nothing_is_ignored() {
        assert_eq!(
            step(State::Proceeding, Input::Ack, &clock(), false),
            Step::to(State::Proceeding, Act::Nothing)
        );
    }
}
