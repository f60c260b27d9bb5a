//! Plain counters. All merge by addition.

use super::events::{Failure, Method, Unexpected};

/// Counts by SIP status, 100 to 699.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statuses([u64; 600]);

impl Default for Statuses {
    fn default() -> Statuses {
        Statuses([0; 600])
    }
}

impl Statuses {
    /// Adds one. A status outside 100..=699 is no SIP status and is not counted.
    #[inline]
    pub fn add(&mut self, status: u16) {
        if let Some(n) = self.0.get_mut(usize::from(status).wrapping_sub(100)) {
            *n += 1;
        }
    }

    /// How often this one.
    pub fn of(&self, status: u16) -> u64 {
        self.0.get(usize::from(status).wrapping_sub(100)).copied().unwrap_or(0)
    }

    /// How many of a class: 1 for 1xx to 6 for 6xx.
    pub fn class(&self, class: u16) -> u64 {
        (0..100).map(|i| self.of(class * 100 + i)).sum()
    }

    /// All that occurred, ascending.
    pub fn seen(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (100..700).map(|s| (s, self.of(s))).filter(|(_, n)| *n > 0)
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Statuses) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a += b);
    }
}

/// What became of the calls of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SideCounts {
    /// Begun.
    pub begun: u64,
    /// Ended as the scenario wants, those cancelled as planned not included.
    pub succeeded: u64,
    /// Cancelled as planned.
    pub cancelled: u64,
    /// Failed, by [`Failure`].
    pub failed: [u64; Failure::ALL.len()],
    /// Of those that had not ended, the ones that waited for the other side when the run did: their end is
    /// open.
    pub open: u64,
}

impl SideCounts {
    /// Calls that failed.
    pub fn failures(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Calls that ended.
    pub fn ended(&self) -> u64 {
        self.succeeded + self.cancelled + self.failures()
    }

    /// Calls that had not ended when this was read.
    pub fn unfinished(&self) -> u64 {
        self.begun.saturating_sub(self.ended())
    }

    /// Successful calls in percent of those that ended; `None` if there are none.
    pub fn success_percent(&self) -> Option<f64> {
        let good = self.succeeded + self.cancelled;
        let all = good + self.failures();
        (all > 0).then(|| good as f64 * 100.0 / all as f64)
    }

    /// Whether the share of successes that a rule asks for, in percent, is reached or missed by what has
    /// become of the calls that waited when the run ended, and nobody will know.
    pub fn is_open(&self, percent: f64) -> bool {
        let good = self.succeeded + self.cancelled;
        let all = (good + self.failures() + self.open) as f64;
        let share = |good: u64| good as f64 * 100.0 / all;
        self.open > 0 && share(good) < percent && share(good + self.open) >= percent
    }

    fn merge(&mut self, other: &SideCounts) {
        self.begun += other.begun;
        self.open += other.open;
        self.succeeded += other.succeeded;
        self.cancelled += other.cancelled;
        self.failed.iter_mut().zip(&other.failed).for_each(|(a, b)| *a += b);
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Everything counted in one scope (the whole run, or the measured window).
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct Counters {
            /// Calls, by [`super::Side`].
            pub sides: [SideCounts; 2],
            /// Requests sent first, by [`Method`]; a request with credentials after a challenge is one.
            pub requests_sent: [u64; Method::ALL.len()],
            /// Requests sent again by a timer, by [`Method`].
            pub requests_repeated: [u64; Method::ALL.len()],
            /// Requests received, by [`Method`], retransmissions included.
            pub requests_received: [u64; Method::ALL.len()],
            /// Messages that nobody waited for, by [`Unexpected`].
            pub unexpected: [u64; Unexpected::ALL.len()],
            /// Responses received, retransmissions included.
            pub responses_received: Statuses,
            /// Final responses to INVITEs that began a session, challenges not included, by status.
            pub session_finals: Statuses,
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counters {
            /// Adds all of `other`.
            pub fn merge(&mut self, other: &Counters) {
                let add = |a: &mut [u64], b: &[u64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                self.sides.iter_mut().zip(&other.sides).for_each(|(a, b)| a.merge(b));
                add(&mut self.requests_sent, &other.requests_sent);
                add(&mut self.requests_repeated, &other.requests_repeated);
                add(&mut self.requests_received, &other.requests_received);
                add(&mut self.unexpected, &other.unexpected);
                self.responses_received.merge(&other.responses_received);
                self.session_finals.merge(&other.session_finals);
                $(self.$name += other.$name;)+
            }

            /// The plain ones with their names, for reports.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counters! {
    /// Calls that the schedule wanted and the generator did not begin, because of the cap on calls under way.
    /// An open load has none; a run that has some is void.
    shed,
    /// Calls that came in and found no room here, so that they were refused. A run that has some is void.
    callees_shed,
    /// Responses sent first.
    responses_sent,
    /// Responses sent again, by a timer or because the request came again.
    responses_repeated,
    /// Messages for calls that ended shortly before.
    dead_call_messages,
    /// Datagrams that came and that the kernel dropped, because we had not read those before.
    drops_received,
    /// Messages that came to another worker than their own, whose ring was full.
    drops_crossing,
    /// Datagrams that were not sent, because the kernel's buffer and our queue were full.
    drops_unsent,
    /// Stream connections that were not opened or taken, for want of ports, descriptors or memory.
    drops_unopened,
    /// Messages of ours that nobody got, as far as we were told: the network or the kernel refused them, or
    /// they were on a connection that could not be opened or ended before they had left.
    undeliverable,
    /// Digest challenges received (401, 407).
    challenges,
    /// Client transactions that ended as wanted.
    transactions_succeeded,
    /// Client transactions that ended with an unwanted response.
    transactions_failed,
    /// Client transactions that nobody answered.
    transactions_timed_out,
    /// Session requests: an INVITE for a new session, counted once however often it is challenged,
    /// redirected or retransmitted.
    sessions_requested,
    /// INVITE requests for new sessions: one for each session request, and one more for each redirect
    /// that was followed. Retransmissions and repetitions with credentials are not counted.
    invites,
    /// Those of `invites` that were answered with 3xx.
    invites_redirected,
    /// Sessions established (2xx to the INVITE), caller's side.
    sessions_established,
    /// Of these, ended by a BYE that was answered, or that came from the other end.
    sessions_completed,
    /// Session requests that nobody answered until timer B; RFC 3261 section 8.1.3.1 has them taken as 408.
    sessions_timed_out,
    /// BYEs that nobody answered until timer F.
    byes_timed_out,
    /// BYEs answered with 2xx.
    byes_answered,
    /// BYEs answered otherwise.
    byes_refused,
    /// Calls that ended in voicemail.
    voicemails,
    /// First registrations begun.
    registrations,
    /// Of these, successful.
    registrations_ok,
    /// Of these, failed (4xx other than 401, 402, 407; 5xx; 6xx; timer F).
    registrations_failed,
    /// Registrations of all kinds that were refused for who asks: the server does not know the user, or the
    /// password is another (401 or 407 to credentials, 403, 404, 410, 604). No load is the reason of these.
    registrants_refused,
    /// Refreshes of registrations begun.
    refreshes,
    /// Of these, successful.
    refreshes_ok,
    /// Of these, failed.
    refreshes_failed,
    /// Registrations that were due and not begun, because the one before was still under way.
    registrations_skipped,
    /// Removals of bindings begun.
    removals,
    /// Of these, failed.
    removals_failed,
}

/// What a generator had no room for. A run with any of it is void.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Datagrams that came and were not read in time.
    pub received: u64,
    /// Messages on their way from worker to worker.
    pub crossing: u64,
    /// Datagrams on their way out.
    pub unsent: u64,
    /// Stream connections.
    pub unopened: u64,
}

impl Lost {
    /// All kinds.
    pub fn all(self) -> u64 {
        self.received + self.crossing + self.unsent + self.unopened
    }
}

impl Counters {
    /// What we had no room for.
    pub fn lost(&self) -> Lost {
        Lost {
            received: self.drops_received,
            crossing: self.drops_crossing,
            unsent: self.drops_unsent,
            unopened: self.drops_unopened,
        }
    }

    /// Adds what we had no room for.
    pub fn lose(&mut self, lost: Lost) {
        self.drops_received += lost.received;
        self.drops_crossing += lost.crossing;
        self.drops_unsent += lost.unsent;
        self.drops_unopened += lost.unopened;
    }

    /// Messages sent, retransmissions included.
    pub fn messages_sent(&self) -> u64 {
        let requests: u64 = self.requests_sent.iter().chain(&self.requests_repeated).sum();
        requests + self.responses_sent + self.responses_repeated
    }

    /// Messages received that were SIP.
    pub fn messages_received(&self) -> u64 {
        let requests: u64 = self.requests_received.iter().sum();
        requests + self.responses_received.seen().map(|(_, n)| n).sum::<u64>()
    }

    /// Requests sent again, all methods.
    pub fn retransmissions(&self) -> u64 {
        self.requests_repeated.iter().sum()
    }

    /// Messages that nobody waited for, all kinds.
    pub fn unexpected_messages(&self) -> u64 {
        self.unexpected.iter().sum()
    }

    /// Successful registrations, first ones and refreshes, in percent of those that ended; `None` if there
    /// are none.
    pub fn registrations_percent(&self) -> Option<f64> {
        let good = self.registrations_ok + self.refreshes_ok;
        let all = good + self.registrations_failed + self.refreshes_failed;
        (all > 0).then(|| good as f64 * 100.0 / all as f64)
    }

    /// Registrations that were begun when they were due, in percent of those that were due; `None` if there
    /// are none.
    pub fn registrations_begun_percent(&self) -> Option<f64> {
        let begun = self.registrations + self.refreshes;
        let due = begun + self.registrations_skipped;
        (due > 0).then(|| begun as f64 * 100.0 / due as f64)
    }

    /// Successful client transactions in percent of those that ended; `None` if there are none.
    pub fn transactions_percent(&self) -> Option<f64> {
        let all = self.transactions_succeeded + self.transactions_failed + self.transactions_timed_out;
        (all > 0).then(|| self.transactions_succeeded as f64 * 100.0 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_count_what_is_a_status() {
        let mut s = Statuses::default();
        for status in [100, 180, 200, 200, 699, 99, 700, 0, u16::MAX] {
            s.add(status);
        }
        assert_eq!(s.seen().collect::<Vec<_>>(), [(100, 1), (180, 1), (200, 2), (699, 1)]);
        assert_eq!((s.of(200), s.of(99), s.of(700)), (2, 0, 0));
        assert_eq!((s.class(1), s.class(2), s.class(6), s.class(4)), (2, 2, 1, 0));
    }

    #[test]
    fn sides_say_what_is_missing() {
        let mut s = SideCounts { begun: 10, succeeded: 5, cancelled: 1, ..SideCounts::default() };
        s.failed[Failure::Refused as usize] = 2;
        assert_eq!((s.ended(), s.unfinished(), s.failures()), (8, 2, 2));
        assert_eq!(s.success_percent(), Some(75.0));
        assert_eq!(SideCounts::default().success_percent(), None);
    }

    #[test]
    fn merging_adds_every_field() {
        let mut a = Counters { shed: 1, invites: 2, ..Counters::default() };
        a.requests_sent[Method::Bye as usize] = 3;
        a.responses_received.add(200);
        let mut b = a.clone();
        b.merge(&a);
        assert_eq!((b.shed, b.invites), (2, 4));
        assert_eq!(b.messages_sent(), 6);
        assert_eq!(b.messages_received(), 2);
        assert!(b.named().contains(&("invites", 4)));
        assert_eq!(b.transactions_percent(), None);
    }
}
