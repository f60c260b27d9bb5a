//! Times of RFC 3261 that the balancer goes by, and how much of what is due is done at a time.

use core::time::Duration;
use wire::Time;

/// T1 (RFC 3261 section 17.1.1.1).
pub(crate) const T1: Duration = Duration::from_millis(500);
/// T2 (RFC 3261 section 17.1.2.1).
pub(crate) const T2: Duration = Duration::from_secs(4);
/// Grace after timers B and F of the client, which are 32 s by default.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(33);
/// How long a late retransmission may come: 64*T1 (RFC 3261 section 17).
pub(crate) const LATE: Duration = Duration::from_secs(32);

/// Calls looked at in one timeout. Nobody is served meanwhile, and none of them is in a cache: so few that
/// a message that has come waits no longer than for some others. What is left is due at once.
const WORK: usize = 32;
/// The same where there is so much to do that what is due has waited for longer than `BEHIND`: or else what
/// is over would take the room of what is new.
const MUCH: usize = 1024;
const BEHIND: Duration = Duration::from_secs(1);

/// How many are looked at in one go, of which the first was due then.
pub(crate) fn work(now: Time, due: Option<Time>) -> usize {
    if due.is_some_and(|due| now.since(due) > BEHIND) { MUCH } else { WORK }
}
