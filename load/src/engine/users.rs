//! Calls by users (`-users`): a fixed number of calls at a time. Whose call has ended begins the next.

use super::settings::Users;
use crate::scenario::{Side, Values};
use std::collections::VecDeque;
use wire::Time;

/// The variables of users, and who is to call next.
pub struct Callers {
    plan: Option<Users>,
    values: Vec<Values>,
    /// The variables of the callees, who are nobody's users: one set for all their calls.
    callee: Values,
    ready: VecDeque<(u64, Time)>,
    /// Calls that may still be begun.
    left: u64,
}

impl Callers {
    /// All of them ready at `start`. Without a plan there is one set of variables for all calls.
    pub fn new(plan: Option<Users>, [values, callee]: [Values; 2], start: Time) -> Callers {
        let numbers = plan.map_or((0, 1), |plan| plan.numbers);
        let count = plan.map_or(0, |plan| plan.count);
        Callers {
            plan,
            values: vec![values; count.max(1) as usize],
            callee,
            ready: (0..count).map(|nth| (numbers.0 + nth * numbers.1, start)).collect(),
            left: plan.map_or(0, |plan| plan.calls.unwrap_or(u64::MAX)),
        }
    }

    /// Whether calls are made by users.
    pub fn are_there(&self) -> bool {
        self.plan.is_some()
    }

    /// What all users of a side begin with.
    pub fn begin_with(&mut self, side: Side, values: &Values) {
        match side {
            Side::Client => self.values.iter_mut().for_each(|own| own.clone_from(values)),
            Side::Server => self.callee.clone_from(values),
        }
    }

    /// The variables of the user of a call.
    pub fn values(&mut self, side: Side, user: u64) -> &mut Values {
        if side == Side::Server {
            return &mut self.callee;
        }
        let nth = |(first, step): (u64, u64)| (user.saturating_sub(first) / step.max(1)) as usize;
        let nth = self.plan.map_or(0, |plan| nth(plan.numbers));
        let last = self.values.len() - 1;
        &mut self.values[nth.min(last)]
    }

    /// Whether there are users who will call again, now or when the call that they are in has ended.
    pub fn have_more(&self) -> bool {
        self.plan.is_some() && self.left > 0
    }

    /// When the next call is to begin.
    pub fn next(&self) -> Option<Time> {
        self.ready.front().filter(|_| self.left > 0).map(|&(_, at)| at)
    }

    /// Who begins it.
    pub fn take(&mut self) -> Option<u64> {
        let (user, _) = self.ready.pop_front().filter(|_| self.left > 0)?;
        self.left -= 1;
        Some(user)
    }

    /// The call of a user is over.
    pub fn give(&mut self, user: u64, now: Time) {
        if self.plan.is_some() {
            self.ready.push_back((user, now));
        }
    }
}
