//! One timer for each registration, caller and callee under way.

use super::words::Kind;
use crate::engine::wheel::Wheel;
use wire::Time;

/// The timers of one worker's users.
pub struct Timers {
    registrations: Wheel,
    callers: Wheel,
    callees: Wheel,
}

impl Timers {
    /// None armed; time begins at `start`.
    pub fn new(start: Time) -> Timers {
        let wheel = || Wheel::new(start.as_micros());
        Timers { registrations: wheel(), callers: wheel(), callees: wheel() }
    }

    fn of(&mut self, kind: Kind) -> &mut Wheel {
        match kind {
            Kind::Register => &mut self.registrations,
            Kind::Caller => &mut self.callers,
            Kind::Callee => &mut self.callees,
        }
    }

    /// Arms or disarms the timer of a place.
    pub fn arm(&mut self, kind: Kind, slot: u32, at: Option<Time>) {
        match at {
            Some(at) => self.of(kind).arm(slot, at.as_micros()),
            None => self.of(kind).cancel(slot),
        }
    }

    /// A place of this kind whose timer is due; call until there is none.
    pub fn due(&mut self, kind: Kind, now: Time) -> Option<u32> {
        self.of(kind).pop(now.as_micros())
    }

    /// When there may be one of any kind.
    pub fn next(&self) -> Option<Time> {
        let all = [&self.registrations, &self.callers, &self.callees];
        all.into_iter().filter_map(Wheel::next).min().map(Time::from_micros)
    }
}
