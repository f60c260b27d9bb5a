//! Handshakes of TLS that clients begin: when they have their turn, how many there may be, what came of them.
//!
//! A handshake costs as much as some hundred messages. So those that have bytes wait until everything else
//! of the round is done, and then have a part of the time that it took. What is left over waits for the
//! next round, unwatched, so that it does not crowd the reports of epoll.

use super::Streams;
use super::caps::Caps;
use super::conn::Conn;
use super::phase::Reason;
use crate::counters::Counters;
use crate::sys::{Interest, Poller};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tls::{Fault, FaultClass, Spoken};
use wire::{ConnId, Time};

/// Handshakes have this time of a round at least, and one of them always.
const LEAST: Duration = Duration::from_micros(250);
/// They have no more: so long a message waits for them, and for the one that exceeds it.
const MOST: Duration = Duration::from_millis(2);
/// Time between two log lines about clients that do not speak TLS.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The handshakes of one worker.
pub struct Handshakes {
    /// Connections with bytes for theirs, in the order in which they came.
    queue: VecDeque<ConnId>,
    next_log: Time,
    unlogged: u64,
}

impl Handshakes {
    /// None.
    pub fn new() -> Handshakes {
        Handshakes { queue: VecDeque::new(), next_log: Time::ZERO, unlogged: 0 }
    }

    /// Counts a handshake from `ip` that begins; `false` if there are too many.
    pub fn admit(&self, caps: &Caps, ip: IpAddr, counters: &Counters) -> bool {
        let admitted = caps.begin_handshake(ip);
        counters.tls_refused.add(u64::from(!admitted));
        admitted
    }

    /// Counts why a handshake or a session has failed, and logs who does not speak TLS.
    pub fn failed(&mut self, error: &std::io::Error, remote: SocketAddr, counters: &Counters, now: Time) {
        counters.tls_failures.one();
        let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
        match fault.map_or(FaultClass::Other, Fault::class) {
            FaultClass::NothingInCommon => counters.tls_failed_common.one(),
            FaultClass::Certificate => counters.tls_failed_certificate.one(),
            FaultClass::Alert => counters.tls_failed_alert.one(),
            FaultClass::NotTls => counters.tls_failed_not_tls.one(),
            FaultClass::Other => counters.tls_failed_other.one(),
        }
        if let Some(Fault::NotTls(spoken)) = fault {
            self.log(*spoken, remote, now);
        }
    }

    fn log(&mut self, spoken: Spoken, remote: SocketAddr, now: Time) {
        self.unlogged += 1;
        if now >= self.next_log {
            log_events::certificates::not_tls(&remote, self.unlogged, spoken.text());
            self.next_log = now + LOG_INTERVAL;
            self.unlogged = 0;
        }
    }
}

/// Whether some wait for their turn.
pub fn wait(streams: &Streams) -> bool {
    !streams.handshakes.queue.is_empty()
}

/// Puts a connection that has bytes for its handshake in the queue; `false` if it has none to make.
pub fn defers(streams: &mut Streams, id: ConnId) -> bool {
    let Some(conn) = streams.table.get_mut(id).filter(|conn| conn.is_half_made()) else { return false };
    if conn.wait() {
        streams.handshakes.queue.push_back(id);
    }
    true
}

/// The next connection that may go on with its handshake.
pub fn next(streams: &mut Streams, poller: &Poller) -> Option<ConnId> {
    loop {
        let id = streams.handshakes.queue.pop_front()?;
        if let Some(conn) = streams.table.get_mut(id) {
            conn.wait_no_more();
            conn.watch(Interest::READ, id, poller);
            return Some(id);
        }
    }
}

/// Those left over wait unwatched.
pub fn mute(streams: &mut Streams, poller: &Poller) {
    // Those further on were muted before.
    for id in streams.handshakes.queue.iter().rev() {
        let Some(conn) = streams.table.get_mut(*id) else { continue };
        if !conn.mute(*id, poller) {
            break;
        }
        streams.counters.tls_deferred.one();
    }
}

/// How long they may take after a round that took `rest` without them: as long, within bounds. So calls that
/// fill the rounds are left most of the time, and an idle worker spends it on handshakes.
pub fn budget(rest: Duration) -> Duration {
    rest.clamp(LEAST, MOST)
}

/// A connection is closed whose handshake was not over.
pub(super) fn broken_off(conn: &Conn, reason: Reason, caps: &Caps, counters: &Counters) {
    if conn.is_half_made() {
        caps.end_handshake(conn.remote().ip());
        let late = u64::from(reason == Reason::Useless);
        counters.tls_failures.add(late);
        counters.tls_failed_timeout.add(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_as_long_as_the_rest_of_the_round_within_bounds() {
        assert_eq!(budget(Duration::ZERO), LEAST);
        assert_eq!(budget(Duration::from_millis(1)), Duration::from_millis(1));
        assert_eq!(budget(Duration::from_secs(1)), MOST);
    }
}
