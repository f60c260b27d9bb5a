//! Forwarding by the callee's own rules: the target set of one user after that of another.

use super::branch::{Branch, State, flag};
use super::{Action, Context, NONE, Reroute, best, bit, policy};
use wire::Time;

impl Context {
    /// What is added from here on are targets of another user. They ring for so long, milliseconds; for the
    /// reasons in `divert` the call is forwarded from there.
    pub fn enter(&mut self, no_answer_ms: u32, divert: Reroute) {
        (self.policy.no_answer_ms, self.policy.divert) = (no_answer_ms, divert);
        self.stage = u8::try_from(self.branches.len()).unwrap_or(NONE);
        self.no_answer_at = Time::FAR;
        // A callee's last word ends what that callee has; another one may be called.
        self.state &= !(bit::DIVERTING | bit::CLOSED | bit::NO_ANSWER);
    }

    /// The call is not forwarded from here.
    pub fn stay(&mut self) {
        self.policy.divert = Reroute::NEVER;
        self.state &= !bit::DIVERTING;
    }

    /// Voicemail is not tried.
    pub fn forgo_voicemail(&mut self) {
        self.policy.voicemail = Reroute::NEVER;
    }

    /// How long a group of targets may ring, milliseconds; 0: until timer C.
    pub fn no_answer_ms(&self) -> u32 {
        self.policy.no_answer_ms
    }

    /// Asks where the call is forwarded to when the targets of the present user are exhausted for a reason
    /// that its stage names. As with voicemail, 600 and 603 may lead there: the callee asked for it.
    pub(super) fn try_diversion(&mut self, out: &mut Vec<Action>) {
        if self.policy.divert.is_never()
            || self.has(bit::FINAL | bit::CANCELLED | bit::VOICEMAIL | bit::DIVERTING)
            || self.any(|b| matches!(b.state, State::Running | State::Waiting))
        {
            return;
        }
        if let Some((reason, cause)) = self.diversion_cause() {
            self.state |= bit::DIVERTING;
            out.push(Action::Divert { reason, cause });
        }
    }

    /// Why the call is forwarded. `None`: it is not, or not yet.
    fn diversion_cause(&self) -> Option<(Reroute, u16)> {
        let set = self.policy.divert;
        if self.has(bit::NO_ANSWER) && set.has(Reroute::NO_ANSWER) {
            return Some((Reroute::NO_ANSWER, 408));
        }
        let stage = self.branches.as_slice().get(usize::from(self.stage)..)?;
        if stage.iter().any(Branch::is_open) {
            return None;
        }
        let ranked =
            stage.iter().filter_map(|b| Some((best::rank(b.status, b.has(flag::GENERATED), true)?, b)));
        let (_, best) = ranked.min_by_key(|(rank, _)| *rank)?;
        let alerted = stage.iter().any(|b| b.has(flag::ALERTED));
        let diversion = policy::diversion_of(best.status, best.has(flag::GENERATED), alerted);
        diversion.filter(|(reason, _)| set.has(*reason))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BranchId, Policy};
    use super::*;
    use core::time::Duration;

    const START: Time = Time::from_secs(10);

    fn id(slot: u8) -> BranchId {
        BranchId { slot, attempt: 0 }
    }

    /// A call whose callee forwards for these reasons and rings for 15 s.
    fn call(divert: Reroute) -> (Context, Vec<Action>) {
        let (mut context, mut out) = (Context::new(Policy::INVITE), Vec::new());
        context.enter(15_000, divert);
        context.add_target(1000).unwrap();
        context.start(START, &mut out);
        out.clear();
        (context, out)
    }

    fn diverts(reason: Reroute, cause: u16, out: &[Action]) -> bool {
        out.contains(&Action::Divert { reason, cause })
    }

    #[test]
    fn busy_callee_forwards_and_the_next_one_rings() {
        let (mut context, mut out) = call(Reroute::BUSY);
        context.branch_response(START, id(0), 603, &mut out);
        assert!(diverts(Reroute::BUSY, 486, &out) && !out.contains(&Action::Finished), "{out:?}");
        out.clear();
        context.enter(0, Reroute::NEVER);
        assert_eq!(context.add_target(1000), Some(1));
        context.start(START, &mut out);
        assert!(matches!(out.first(), Some(Action::StartBranch { .. })), "{out:?}");
        out.clear();
        context.branch_response(START, id(1), 404, &mut out);
        // The first callee's word is the better one.
        assert!(out.contains(&Action::ForwardBest(id(0))) && out.contains(&Action::Finished), "{out:?}");
    }

    #[test]
    fn callee_who_does_not_answer_is_left_and_may_answer_late() {
        let (mut context, mut out) = call(Reroute::NO_ANSWER);
        context.branch_response(START, id(0), 180, &mut out);
        let later = START + Duration::from_secs(15);
        context.timeout(later, &mut out);
        assert!(
            diverts(Reroute::NO_ANSWER, 408, &out) && out.contains(&Action::CancelBranch(id(0))),
            "{out:?}"
        );
        context.enter(0, Reroute::NEVER);
        context.add_target(1000).unwrap();
        out.clear();
        context.start(later, &mut out);
        assert!(matches!(out.first(), Some(Action::StartBranch { .. })), "{out:?}");
        // A 6xx that crosses the CANCEL does not end the other callee's call.
        out.clear();
        context.branch_response(later, id(0), 603, &mut out);
        assert!(context.is_running(id(1)) && !out.contains(&Action::CancelBranch(id(1))), "{out:?}");
        context.branch_response(later, id(0), 200, &mut out);
        assert!(out.contains(&Action::ForwardFinal(id(0))), "{out:?}");
    }

    #[test]
    fn call_that_stays_ends_with_what_the_callee_said() {
        let (mut context, mut out) = call(Reroute::BUSY);
        context.branch_response(START, id(0), 486, &mut out);
        assert!(diverts(Reroute::BUSY, 486, &out), "{out:?}");
        context.stay();
        out.clear();
        context.start(START, &mut out);
        assert!(out.contains(&Action::ForwardBest(id(0))) && out.contains(&Action::Finished), "{out:?}");
    }

    #[test]
    fn reasons_not_asked_for_forward_nothing() {
        for (divert, status) in [(Reroute::BUSY, 404), (Reroute::UNREACHABLE, 486), (Reroute::ALWAYS, 407)] {
            let (mut context, mut out) = call(divert);
            context.branch_response(START, id(0), status, &mut out);
            assert!(out.contains(&Action::Finished), "{status}: {out:?}");
        }
        let (mut context, mut out) = call(Reroute::ALWAYS);
        context.cancel_all(START, &mut out);
        context.branch_response(START, id(0), 486, &mut out);
        assert!(out.contains(&Action::Finished), "{out:?}");
    }
}
