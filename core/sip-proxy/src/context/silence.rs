//! Branches on which nothing comes: not even a 100.
//!
//! Timer B lets a caller wait for 32 s before a server that is not there is given up (RFC 3261 section
//! 17.1.1.2). The caller of a context that has something else to try says how long it waits. A branch that it
//! leaves is cancelled, and its late responses count: a provisional one triggers the CANCEL, a 2xx goes to
//! the caller (16.7 step 5).

use super::branch::{State, flag};
use super::{Action, BranchId, Context};
use wire::Time;

impl Context {
    /// [`Action::Silent`] comes if nothing has come on a running branch by then.
    pub fn watch(&mut self, branch: BranchId, until: Time, out: &mut Vec<Action>) {
        let Some(b) = self.open(branch) else { return };
        if b.state != State::Running || b.has(flag::PROVISIONAL) || until >= b.deadline {
            return;
        }
        b.flags |= flag::WATCHED;
        b.deadline = until;
        self.arm(out);
    }

    /// Nothing has come on a branch, and it is waited for no longer: the next address is tried, else it
    /// counts as if a 408 had come. What comes late still counts.
    pub fn branch_silent(&mut self, now: Time, branch: BranchId, out: &mut Vec<Action>) {
        if !self.is_silent(branch) {
            return;
        }
        let invite = self.policy.invite;
        let before = out.len();
        if self.try_next_address(now, branch, out) {
            if invite {
                out.insert(before, Action::CancelBranch(branch));
            }
            if let Some(b) = self.branches.as_mut_slice().get_mut(usize::from(branch.slot)) {
                b.flags |= flag::LEFT;
            }
        } else {
            self.give_up(branch, out);
        }
        self.settle(now, out);
    }

    /// Whether no branch has had any response.
    pub fn is_unheard(&self) -> bool {
        !self.any(|b| b.has(flag::PROVISIONAL) || b.status != 0 && !b.has(flag::GENERATED))
    }

    /// The time of a watched branch is over.
    pub(super) fn report_silence(&mut self, now: Time, id: BranchId, out: &mut Vec<Action>) {
        let deadline = if self.policy.invite { now + self.policy.timer_c() } else { Time::FAR };
        if let Some(b) = self.open(id) {
            b.flags &= !flag::WATCHED;
            b.deadline = deadline;
            out.push(Action::Silent(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Policy;

    const WAIT: Time = Time::from_secs(2);

    fn watched(policy: Policy, addresses: usize) -> (Context, BranchId) {
        let (mut context, mut out) = (Context::new(policy), Vec::new());
        context.add_target(1000);
        context.start(Time::ZERO, &mut out);
        let id = BranchId::from_u16(0);
        context.branch_located(id, addresses);
        context.watch(id, WAIT, &mut out);
        assert!(out.contains(&Action::SetTimer(WAIT)), "{out:?}");
        (context, id)
    }

    fn at(time: Time, context: &mut Context) -> Vec<Action> {
        let mut out = Vec::new();
        context.timeout(time, &mut out);
        out
    }

    #[test]
    fn silence_is_reported_once_and_the_branch_goes_on() {
        let (mut context, id) = watched(Policy::INVITE, 1);
        let out = at(WAIT, &mut context);
        assert_eq!(out.first(), Some(&Action::Silent(id)));
        assert!(
            context.is_running(id) && !at(Time::from_secs(20), &mut context).contains(&Action::Silent(id))
        );
        let mut out = Vec::new();
        context.branch_response(Time::from_secs(20), id, 180, &mut out);
        assert_eq!(out, [Action::ForwardProvisional(id)]);
    }

    #[test]
    fn a_100_ends_the_watch_and_timer_c_runs() {
        let (mut context, id) = watched(Policy::INVITE, 1);
        context.branch_response(Time::from_secs(1), id, 100, &mut Vec::new());
        assert!(!at(WAIT, &mut context).contains(&Action::Silent(id)));
        let late = Time::from_secs(1) + Policy::INVITE.timer_c();
        assert!(at(late, &mut context).contains(&Action::CancelBranch(id)));
    }

    #[test]
    fn a_silent_branch_goes_to_its_next_address_and_late_2xx_counts() {
        let (mut context, id) = watched(Policy::INVITE, 2);
        at(WAIT, &mut context);
        let mut out = Vec::new();
        context.branch_silent(WAIT, id, &mut out);
        assert_eq!(out[0], Action::CancelBranch(id));
        let Action::StartBranch { branch: next, .. } = out[1] else { panic!("{out:?}") };
        assert_eq!((next.target(), next.attempt()), (0, 1));
        assert!(context.gave_up());
        let mut out = Vec::new();
        context.branch_response(Time::from_secs(3), id, 200, &mut out);
        assert_eq!(out[..2], [Action::ForwardFinal(id), Action::CancelBranch(next)]);
    }

    #[test]
    fn a_silent_request_other_than_invite_is_not_cancelled() {
        let (mut context, id) = watched(Policy::OTHER, 1);
        assert_eq!(at(WAIT, &mut context).first(), Some(&Action::Silent(id)));
        let mut out = Vec::new();
        context.branch_silent(WAIT, id, &mut out);
        assert!(out.ends_with(&[Action::Finished]), "{out:?}");
        assert!(!out.contains(&Action::CancelBranch(id)), "{out:?}");
    }
}
