//! INVITE client transaction (RFC 3261 17.1.1, figure 5 as replaced by RFC 6026 8.4).

use super::ClientAct as Act;
use super::ClientInput as Input;
use super::{Set, zero_if};
use crate::timers::Clock;

/// States of figure 5. "Terminated" is the absence of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Sent, nothing heard.
    Calling,
    /// A provisional response came.
    Proceeding,
    /// "Proceeding" after a CANCEL was sent: 64*T1 are left for a final response (9.1).
    Cancelling,
    /// A failure came; its retransmissions are acknowledged.
    Completed,
    /// A success came; its retransmissions and those of other branches are passed on.
    Accepted,
}

type Step = super::Step<State, Act>;

/// Sending the request: timer A over unreliable transports, timer B always.
pub(crate) fn start(clock: &Clock, reliable: bool) -> Step {
    let resend = if reliable { Set::Off } else { Set::After(clock.t1) };
    Step::to(State::Calling, Act::Nothing).resend(resend).end(clock.t1_x64)
}

/// One input.
pub(crate) fn step(state: State, input: Input, clock: &Clock, reliable: bool) -> Step {
    match state {
        State::Calling => calling(input, clock, reliable),
        State::Proceeding => proceeding(input, clock, reliable),
        State::Cancelling => cancelling(input, clock, reliable),
        State::Completed => completed(input),
        State::Accepted => accepted(input),
    }
}

/// 17.1.1.2: retransmits with doubling intervals until anything is heard.
fn calling(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Provisional => Step::to(State::Proceeding, Act::Deliver).resend(Set::Off).end(clock.lifetime),
        Input::Success | Input::Failure => finally(input, clock, reliable),
        Input::ResendDue { interval } => {
            Step::to(State::Calling, Act::Resend).resend(Set::After(interval.saturating_mul(2)))
        }
        Input::EndDue => Step::terminated(Act::Timeout),
        Input::SendFailed => Step::terminated(Act::Unreachable),
        Input::Cancelled => Step::to(State::Calling, Act::Nothing),
    }
}

/// 17.1.1.2: no limit of its own, so each provisional response renews ours.
fn proceeding(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Provisional => Step::to(State::Proceeding, Act::Deliver).end(clock.lifetime),
        Input::Success | Input::Failure => finally(input, clock, reliable),
        Input::Cancelled => Step::to(State::Cancelling, Act::Nothing).end(clock.t1_x64),
        Input::EndDue => Step::terminated(Act::Timeout),
        // The request has arrived, or nobody would have answered it.
        Input::SendFailed | Input::ResendDue { .. } => Step::to(State::Proceeding, Act::Nothing),
    }
}

/// 9.1: "If there is no final response for the original request in 64*T1 seconds, the client SHOULD
/// then consider the original transaction cancelled". Provisional responses do not renew that.
fn cancelling(input: Input, clock: &Clock, reliable: bool) -> Step {
    match input {
        Input::Provisional => Step::to(State::Cancelling, Act::Deliver),
        Input::Success | Input::Failure => finally(input, clock, reliable),
        Input::EndDue => Step::terminated(Act::Timeout),
        Input::Cancelled | Input::SendFailed | Input::ResendDue { .. } => {
            Step::to(State::Cancelling, Act::Nothing)
        }
    }
}

/// The first final response: timer M after a success (RFC 6026 7.2), timer D and an ACK after a
/// failure (17.1.1.2).
fn finally(input: Input, clock: &Clock, reliable: bool) -> Step {
    if input == Input::Success {
        Step::to(State::Accepted, Act::Deliver).resend(Set::Off).hold(clock.t1_x64)
    } else {
        Step::to(State::Completed, Act::DeliverAndAck).resend(Set::Off).hold(zero_if(reliable, clock.d))
    }
}

/// 17.1.1.2: acknowledges retransmissions of the failure and passes nothing up.
fn completed(input: Input) -> Step {
    match input {
        Input::Failure => Step::to(State::Completed, Act::Ack),
        Input::EndDue => Step::terminated(Act::Gone),
        Input::SendFailed => Step::terminated(Act::Unreachable),
        Input::Provisional | Input::Success | Input::Cancelled | Input::ResendDue { .. } => {
            Step::to(State::Completed, Act::Nothing)
        }
    }
}

/// RFC 6026 7.2: passes on every 2xx; acknowledging them is the transaction user's.
fn accepted(input: Input) -> Step {
    match input {
        Input::Success => Step::to(State::Accepted, Act::Deliver),
        Input::EndDue => Step::terminated(Act::Gone),
        _ => Step::to(State::Accepted, Act::Nothing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{Virtual, clock};

    const SECOND: u64 = 1_000_000;

    #[test]
    fn seven_requests_then_timeout_over_udp() {
        let mut v = Virtual::new(start(&clock(), false));
        let acts = v.run_client(|s, i| step(s, i, &clock(), false));
        let expected: Vec<(u64, Act)> = [500, 1_500, 3_500, 7_500, 15_500, 31_500]
            .into_iter()
            .map(|ms| (ms * 1_000, Act::Resend))
            .chain([(32 * SECOND, Act::Timeout)])
            .collect();
        assert_eq!(acts, expected);
    }

    #[test]
    fn one_request_then_timeout_over_tcp() {
        let mut v = Virtual::new(start(&clock(), true));
        let acts = v.run_client(|s, i| step(s, i, &clock(), true));
        assert_eq!(acts, [(32 * SECOND, Act::Timeout)]);
    }

    #[test]
    fn a_provisional_response_stops_timer_a_and_is_bounded() {
        let mut v = Virtual::new(start(&clock(), false));
        v.now = 200_000;
        assert_eq!(v.apply(step(State::Calling, Input::Provisional, &clock(), false)), Act::Deliver);
        let acts = v.run_client(|s, i| step(s, i, &clock(), false));
        assert_eq!(acts, [(200_000 + clock().lifetime, Act::Timeout)]);
    }

    #[test]
    fn a_failure_is_acknowledged_for_timer_d() {
        for state in [State::Calling, State::Proceeding, State::Cancelling] {
            let mut v = Virtual::new(start(&clock(), false));
            v.state = Some(state);
            assert_eq!(v.apply(step(state, Input::Failure, &clock(), false)), Act::DeliverAndAck);
            assert_eq!(v.state, Some(State::Completed));
            assert_eq!(step(State::Completed, Input::Failure, &clock(), false).act, Act::Ack);
            let acts = v.run_client(|s, i| step(s, i, &clock(), false));
            assert_eq!(acts, [(32 * SECOND, Act::Gone)], "no retransmission after {state:?}");
            let tcp = step(state, Input::Failure, &clock(), true);
            assert_eq!((tcp.act, tcp.end), (Act::DeliverAndAck, Set::Loosely(0)));
        }
    }

    #[test]
    fn successes_are_passed_on_until_timer_m_and_never_acknowledged() {
        for state in [State::Calling, State::Proceeding, State::Cancelling] {
            let first = step(state, Input::Success, &clock(), true);
            assert_eq!((first.state, first.act), (Some(State::Accepted), Act::Deliver));
            assert_eq!(first.end, Set::Loosely(32 * SECOND), "timer M on reliable transports as well");
        }
        assert_eq!(step(State::Accepted, Input::Success, &clock(), false).act, Act::Deliver);
        for late in [Input::Failure, Input::Provisional, Input::SendFailed] {
            let stays = step(State::Accepted, late, &clock(), false);
            assert_eq!((stays.state, stays.act), (Some(State::Accepted), Act::Nothing));
        }
        assert_eq!(step(State::Accepted, Input::EndDue, &clock(), false), Step::terminated(Act::Gone));
    }

    #[test]
    fn nothing_but_failures_matters_once_completed() {
        for late in [Input::Provisional, Input::Success] {
            assert_eq!(step(State::Completed, late, &clock(), false).act, Act::Nothing);
        }
        assert_eq!(
            step(State::Completed, Input::SendFailed, &clock(), false),
            Step::terminated(Act::Unreachable)
        );
    }

    #[test]
    fn a_cancelled_call_ends_64_t1_later_whatever_rings() {
        let mut v = Virtual::new(start(&clock(), false));
        v.apply(step(State::Calling, Input::Provisional, &clock(), false));
        v.now = 10 * SECOND;
        v.apply(step(State::Proceeding, Input::Cancelled, &clock(), false));
        v.now = 20 * SECOND;
        assert_eq!(v.apply(step(State::Cancelling, Input::Provisional, &clock(), false)), Act::Deliver);
        let acts = v.run_client(|s, i| step(s, i, &clock(), false));
        assert_eq!(acts, [(42 * SECOND, Act::Timeout)]);
    }

    #[test]
    fn a_transport_error_ends_only_the_calling_state() {
        let end = step(State::Calling, Input::SendFailed, &clock(), false);
        assert_eq!(end, Step::terminated(Act::Unreachable));
        for state in [State::Proceeding, State::Cancelling] {
            assert_eq!(step(state, Input::SendFailed, &clock(), false), Step::to(state, Act::Nothing));
        }
    }
}
