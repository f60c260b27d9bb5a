//! A request that is sent again on its branch, with the credentials that its target has asked for.

use super::branch::{State, flag};
use super::{Action, BranchId, Context};
use wire::Time;

impl Context {
    /// The request of a running branch is sent to the same address again (RFC 3261 section 22.3), so what has
    /// come on the branch until now no longer counts. Its Max-Breadth value; `None` if it does not run.
    pub fn branch_again(&mut self, now: Time, branch: BranchId, out: &mut Vec<Action>) -> Option<u8> {
        let deadline = if self.policy.invite { now + self.policy.timer_c() } else { Time::FAR };
        let b = self.open(branch).filter(|b| b.state == State::Running)?;
        b.flags &= !(flag::PROVISIONAL | flag::WATCHED);
        b.deadline = deadline;
        let breadth = b.breadth;
        self.arm(out);
        Some(breadth)
    }
}
