//! How much a connection matters, and how long it may be silent.

use super::caps::Caps;
use super::output::Ticket;
use crate::config::StreamLimits;
use std::mem;
use std::time::Duration;
use wire::Time;

/// How much a connection matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weight {
    /// A user has registered or was called on it, or no machine asks.
    Full,
    /// Never so far.
    Loose,
    /// The same, but it is in use and does not have to make room.
    Spared,
}

/// A time that needs no place that eight divides: a connection is two cache lines, to the byte.
#[derive(Clone, Copy)]
#[repr(Rust, packed(4))]
struct Moment(Time);

/// How much a connection matters, and for how long.
pub struct Standing {
    /// Until then it matters; if it is loose and not in use, until then it may be silent.
    lasts: Moment,
    /// How often it is in use, see [`wire::Outbox::uses`].
    uses: u16,
    weight: Weight,
    /// Whether it is in the list of those that make room for others.
    listed: bool,
}

impl Standing {
    /// Of a connection that a peer opened.
    pub fn accepted() -> Standing {
        Standing { lasts: Moment(Time::ZERO), uses: 0, weight: Weight::Full, listed: false }
    }

    /// Of one that we opened.
    pub fn begun() -> Standing {
        Standing { lasts: Moment(Time::FAR), ..Standing::accepted() }
    }

    fn lasts(&self) -> Time {
        self.lasts.0
    }

    /// It matters, or may be silent, until then at least.
    pub fn extend(&mut self, until: Time) {
        self.lasts = Moment(self.lasts().max(until));
    }

    /// It does not matter so far.
    pub fn begins_loose(&mut self) {
        self.weight = Weight::Loose;
    }

    /// Whether it has never mattered.
    pub fn is_loose(&self) -> bool {
        self.weight != Weight::Full
    }

    /// Notes that it is in the list of those that make room; `false` if it was.
    pub fn list(&mut self) -> bool {
        !mem::replace(&mut self.listed, true)
    }

    /// Notes that it was taken from that list. Whether it has to make room.
    pub fn unlist(&mut self) -> bool {
        self.listed = false;
        self.weight == Weight::Loose
    }

    /// Notes what a message that it carries means for it.
    pub fn mark(&mut self, ticket: &Ticket, caps: &Caps, now: Time) {
        self.uses = self.uses.saturating_add(u16::from(ticket.uses));
        if self.is_loose() && ticket.uses {
            if self.uses == 1 && caps.spare() {
                self.weight = Weight::Spared;
            }
            return;
        }
        self.extend(now + Duration::from_secs(ticket.keeps.into()));
        if self.is_loose() {
            caps.tie();
            self.bare(caps);
            self.weight = Weight::Full;
        }
    }

    /// It is not in use any more for one of the reasons for which it was; `true` after the last.
    pub fn release(&mut self, caps: &Caps) -> bool {
        self.uses = self.uses.saturating_sub(1);
        if self.uses == 0 {
            self.bare(caps);
        }
        self.uses == 0
    }

    /// It has to make room again if it did not have to.
    pub fn bare(&mut self, caps: &Caps) {
        if self.weight == Weight::Spared {
            self.weight = Weight::Loose;
            caps.bare();
        }
    }

    /// When its silence has lasted too long, if it is silent from now on; `message`: one has just come.
    pub fn silence(&mut self, limits: &StreamLimits, now: Time, message: bool) -> Time {
        match limits.idle_loose {
            Some(short) if self.uses == 0 && (self.is_loose() || self.lasts() <= now) => {
                if message {
                    self.extend(now + short);
                }
                self.lasts().max(now)
            }
            _ => now + limits.idle,
        }
    }
}
