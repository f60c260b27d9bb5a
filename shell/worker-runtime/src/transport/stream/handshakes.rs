//! Handshakes of TLS that clients begin: when they have their turn, how many there may be, what came of them.
//!
//! A handshake costs as much as some hundred messages. So those that have bytes wait until everything else
//! of the round is done, and then have a part of the time that it took. The rest waits for the next round.
//! Its sockets are not watched meanwhile, so that epoll does not report them again and again. Handshakes
//! that we have answered go before new ones, because little work is left for them.

use super::Streams;
use super::caps::Caps;
use super::conn::Conn;
use super::phase::Reason;
use super::places::Places;
use super::secure::{Progress, Secure};
use super::told::Told;
use crate::counters::Counters;
use crate::sys::{Poller, is_transient};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tls::{Fault, FaultClass};
use wire::{ConnId, Time};

/// Handshakes have this time of a round at least, and one of them always.
const LEAST: Duration = Duration::from_micros(250);
/// They have no more: so long a message waits for them, and for the one that exceeds it.
const MOST: Duration = Duration::from_millis(2);
/// This number of answered handshakes is processed before one new handshake. A flood of small records cannot
/// block new handshakes.
const IN_A_ROW: u32 = 8;
/// How often room is made for one handshake: another worker may take the room first.
const ATTEMPTS: usize = 8;
/// When the deadline of a handshake is checked again that has expired while its bytes wait for us.
pub(super) const WAIT: Duration = Duration::from_millis(100);

/// Connections with bytes for their handshakes, and since when.
#[derive(Default)]
struct Turns {
    answered: VecDeque<(ConnId, Time)>,
    fresh: VecDeque<(ConnId, Time)>,
    /// Answered ones since the last fresh one.
    row: u32,
}

impl Turns {
    fn push(&mut self, id: ConnId, progress: Progress, now: Time) {
        match progress {
            Progress::Answered => self.answered.push_back((id, now)),
            Progress::Silent | Progress::Begun => self.fresh.push_back((id, now)),
        }
    }

    fn pop(&mut self) -> Option<(ConnId, Time)> {
        if self.row < IN_A_ROW
            && let Some(next) = self.answered.pop_front()
        {
            self.row += 1;
            return Some(next);
        }
        self.row = 0;
        self.fresh.pop_front().or_else(|| self.answered.pop_front())
    }

    fn are_due(&self) -> bool {
        !self.answered.is_empty() || !self.fresh.is_empty()
    }
}

/// The handshakes of one worker.
pub struct Handshakes {
    turns: Turns,
    places: Places,
    full: Told,
    not_tls: Told,
    unbelieved: Told,
}

impl Handshakes {
    /// None.
    pub fn new() -> Handshakes {
        Handshakes {
            turns: Turns::default(),
            places: Places::new(),
            full: Told::new(),
            not_tls: Told::new(),
            unbelieved: Told::new(),
        }
    }

    /// Counts why a handshake or a session has failed. Logs clients that do not use TLS, and those whose
    /// certificate is not accepted. `inbound`: the peer is a client.
    pub fn failed(
        &mut self,
        error: &std::io::Error,
        (remote, inbound): (SocketAddr, bool),
        counters: &Counters,
        now: Time,
    ) {
        counters.tls_failures.one();
        let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
        match fault.map_or(FaultClass::Other, Fault::class) {
            FaultClass::NothingInCommon => counters.tls_failed_common.one(),
            FaultClass::Certificate => counters.tls_failed_certificate.one(),
            FaultClass::Alert => counters.tls_failed_alert.one(),
            FaultClass::NotTls => counters.tls_failed_not_tls.one(),
            FaultClass::Other => counters.tls_failed_other.one(),
        }
        if let Some(Fault::NotTls(spoken)) = fault
            && let Some(times) = self.not_tls.again(now)
        {
            log_events::certificates::not_tls(&remote, times, spoken.text());
        }
        if let Some(fault) = fault.filter(|fault| inbound && fault.class() == FaultClass::Certificate)
            && let Some(times) = self.unbelieved.again(now)
        {
            log_events::certificates::tls_peer_refused(&remote, fault, times);
        }
    }

    /// A connection is closed, maybe before its handshake was over.
    pub(super) fn broken_off(&mut self, conn: &Conn, reason: Reason, caps: &Caps, counters: &Counters) {
        let Some(progress) = conn.half_made() else { return };
        if progress != Progress::Silent {
            caps.end_handshake(conn.remote().ip());
            self.places.give_back();
        }
        let late = u64::from(reason == Reason::Useless);
        counters.tls_failures.add(late);
        counters.tls_failed_timeout.add(late);
    }

    /// A connection is closed because there are too many handshakes.
    fn are_too_many(&mut self, now: Time) {
        if let Some(times) = self.full.again(now) {
            log_events::certificates::handshakes_full(times);
        }
    }
}

/// Whether some wait for their turn.
pub fn wait(streams: &Streams) -> bool {
    streams.handshakes.turns.are_due()
}

/// Puts a connection that has bytes for its handshake in the queue; `false` if it has none to make.
pub fn defers(streams: &mut Streams, id: ConnId, now: Time) -> bool {
    let Some(progress) = streams.table.get(id).and_then(Conn::half_made) else { return false };
    if progress == Progress::Silent && !begins(streams, id, now) {
        return true;
    }
    if streams.table.get_mut(id).is_some_and(Conn::wait) {
        streams.handshakes.turns.push(id, progress, now);
    }
    true
}

/// A connection without a handshake so far has something to read. The first bytes of a handshake get it a
/// [place](take_place). An end without a byte is no handshake: port scans make such connections, and so do
/// TCP balancers that probe. Then the connection is closed, and this returns `false`.
fn begins(streams: &mut Streams, id: ConnId, now: Time) -> bool {
    streams.counters.syscalls.one();
    match streams.table.get(id).map(|conn| conn.link().is_at_end()) {
        Some(Ok(false)) => return take_place(streams, id, now),
        Some(Ok(true)) => streams.close(id, Reason::Peer),
        Some(Err(error)) if !is_transient(&error) => streams.fails(id, &error, now),
        Some(Err(_)) | None => {}
    }
    false
}

/// A handshake gets a place, and another handshake may be closed for that. If there is no place, its
/// connection is closed, and this returns `false`.
fn take_place(streams: &mut Streams, id: ConnId, now: Time) -> bool {
    let Some(ip) = streams.table.get(id).map(|conn| conn.remote().ip()) else { return false };
    for _ in 0..ATTEMPTS {
        let Streams { handshakes, table, shared, .. } = streams;
        // If this worker has no places, other workers hold all of them, and it cannot make room there.
        let full = match shared.caps.begin_handshake(ip, handshakes.places.are_free()) {
            Ok(()) => {
                handshakes.places.take(id, table);
                table.get_mut(id).and_then(|conn| conn.link_mut().secure_mut()).map(Secure::begins);
                return true;
            }
            Err(full) => full,
        };
        let Some(other) = handshakes.places.make_room(full, ip, table, &shared.caps) else { break };
        handshakes.are_too_many(now);
        streams.counters.tls_gave_way.one();
        streams.close(other, Reason::Room);
    }
    streams.handshakes.are_too_many(now);
    streams.counters.tls_refused.one();
    streams.close(id, Reason::Room);
    false
}

/// Bytes of a handshake were read. `before`: its progress before that.
pub(super) fn went_on(streams: &mut Streams, id: ConnId, before: Progress, now: Time) {
    let Streams { handshakes, table, shared, counters, .. } = streams;
    let Some(conn) = table.get(id) else { return };
    match conn.half_made() {
        None => {
            handshakes.places.give_back();
            shared.caps.end_handshake(conn.remote().ip());
            counters.tls_handshake_us.add(conn.age(now).as_micros() as u64);
            counters.tls_resumed.add(u64::from(conn.link().is_resumed()));
        }
        Some(Progress::Answered) if before != Progress::Answered => handshakes.places.progress(id, table),
        Some(_) => {}
    }
}

/// The next connection that may go on with its handshake.
pub fn next(streams: &mut Streams, poller: &Poller, now: Time) -> Option<ConnId> {
    loop {
        let (id, since) = streams.handshakes.turns.pop()?;
        if let Some(conn) = streams.table.get_mut(id) {
            conn.wait_no_more();
            conn.extend_deadline(now.since(since));
            conn.watch_all(id, poller);
            return Some(id);
        }
    }
}

/// Those left over wait unwatched, except for room.
pub fn mute(streams: &mut Streams, poller: &Poller) {
    let Streams { handshakes, table, counters, .. } = streams;
    for queue in [&handshakes.turns.answered, &handshakes.turns.fresh] {
        // Those further on were muted before.
        for (id, _) in queue.iter().rev() {
            let Some(conn) = table.get_mut(*id) else { continue };
            if !conn.link().is_watched() {
                break;
            }
            conn.watch_for_room_only(*id, poller);
            counters.tls_deferred.one();
        }
    }
}

/// How long they may take after a round that took `rest` without them: as long, within bounds. So calls that
/// fill the rounds are left most of the time, and an idle worker spends it on handshakes.
pub fn budget(rest: Duration) -> Duration {
    rest.clamp(LEAST, MOST)
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

    #[test]
    fn answered_handshakes_go_first_and_leave_turns_to_fresh_ones() {
        let mut turns = Turns::default();
        let conn = |n| ConnId::accepted(0, n);
        turns.push(conn(0), Progress::Begun, Time::ZERO);
        turns.push(conn(1), Progress::Silent, Time::ZERO);
        (2..22).for_each(|n| turns.push(conn(n), Progress::Answered, Time::ZERO));
        let order: Vec<_> = std::iter::from_fn(|| turns.pop()).map(|(id, _)| id).collect();
        let wanted = (2..10).chain([0]).chain(10..18).chain([1]).chain(18..22);
        assert_eq!(order, wanted.map(conn).collect::<Vec<_>>());
        assert!(!turns.are_due());
    }
}
