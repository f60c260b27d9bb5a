//! The variables that calls share: those of their user and of the run.

use super::Settings;
use crate::scenario::{Scope, Side, Values};

/// The variables of all users and of the run.
pub struct Variables {
    users: Vec<Values>,
    /// The first user's number, and the step to the next.
    numbers: (u64, u64),
    /// The variables of the callees, who are nobody's users: one set for all their calls.
    callee: Values,
    /// The caller's scenario's of the run, and the callee's.
    global: [Values; 2],
}

impl Variables {
    /// As they are at the beginning of a run. Without users there is one set for all calls.
    pub fn new(settings: &Settings) -> Variables {
        let [user, callee] = settings.values(Scope::User);
        let count = settings.users.map_or(1, |users| users.count.max(1));
        Variables {
            users: vec![user; count as usize],
            numbers: settings.users.map_or((0, 1), |users| users.numbers),
            callee,
            global: settings.given(),
        }
    }

    /// What all users of a side begin with.
    pub fn begin_with(&mut self, side: Side, values: &Values) {
        match side {
            Side::Client => self.users.iter_mut().for_each(|own| own.clone_from(values)),
            Side::Server => self.callee.clone_from(values),
        }
    }

    /// Those of the run.
    pub fn global(&mut self, side: Side) -> &mut Values {
        &mut self.global[side as usize]
    }

    /// Those of the user of a call, and of the run.
    #[inline]
    pub fn of(&mut self, side: Side, user: u64) -> (&mut Values, &mut Values) {
        let Variables { users, numbers: (first, step), callee, global } = self;
        let global = &mut global[side as usize];
        if side == Side::Server {
            return (callee, global);
        }
        let nth = (user.saturating_sub(*first) / (*step).max(1)) as usize;
        let last = users.len() - 1;
        (&mut users[nth.min(last)], global)
    }
}
