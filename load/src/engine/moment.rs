//! When something is done, and what is fixed for the whole run.

use super::Settings;
use crate::scenario::{Scenario, Side};
use wire::Time;

/// The moment of the message or the deadline that is being handled.
#[derive(Clone, Copy)]
pub(super) struct Moment<'e> {
    pub settings: &'e Settings,
    /// What is counted from: when the message came, or when it was due.
    pub now: Time,
    /// When the worker woke for it, which may have been later.
    pub woken: Time,
}

impl<'e> Moment<'e> {
    /// What is handled when it comes up.
    pub fn new(settings: &'e Settings, now: Time) -> Moment<'e> {
        Moment { settings, now, woken: now }
    }

    /// The same wake, for something that was meant for another time.
    pub fn meant_for(self, now: Time) -> Moment<'e> {
        Moment { now, ..self }
    }

    /// When a message that is sent now leaves.
    #[inline]
    pub fn left(self) -> Time {
        self.now.max(self.woken)
    }

    /// The scenario of one side.
    #[inline]
    pub fn scenario(self, side: Side) -> Option<&'e Scenario> {
        self.settings.scenario(side)
    }
}
