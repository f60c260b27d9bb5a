//! SCTP associations that share a listening socket (one-to-many style, RFC 6458 section 3), and associations
//! that their peers restart.
//!
//! A read of a shared socket returns the next message of any association, so no single association can be
//! left unread. One that must wait, for its turn or for room in the kernel, is peeled off: it gets its own
//! socket.

use super::Streams;
use super::accept::{self, Listening};
use super::conn::Conn;
use super::link::Link;
use super::phase::{Reason, State};
use super::reading::{self, Read};
use super::secure::Took;
use crate::sys::{self, Arrival, Association, Poller, Record};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::{ConnId, Time};

/// The associations of one worker that share sockets, by the kernel's unique number. They are connections,
/// so the caps of connections limit them.
#[derive(Default)]
pub struct Sharing(BTreeMap<i32, ConnId>);

/// Whether the associations that peers open share listening socket number `index`.
pub fn shares_socket(streams: &Streams, index: usize) -> bool {
    streams.acceptor.socket(index).and_then(Listening::shared).is_some()
}

/// Reads from a shared socket, until something comes for a connection. Each read takes one of `budget`.
pub fn read_shared(
    streams: &mut Streams,
    index: usize,
    budget: &mut u32,
    poller: &Poller,
    now: Time,
) -> Option<(ConnId, Read)> {
    while *budget > 0 {
        *budget -= 1;
        let (socket, _) = streams.acceptor.socket(index)?.shared()?;
        streams.counters.syscalls.one();
        // An error concerns the socket, and epoll reports it again if it persists.
        let arrival = sys::recv_arrival(socket.as_fd(), &mut streams.reading.scratch).ok()?;
        if let Some(id) = arrived(streams, index, &arrival, poller, now) {
            return Some((id, reading::taken(streams, id, Took::of(arrival.record), None, poller, now)));
        }
    }
    None
}

/// Handles events of associations. Returns the connection for anything else.
fn arrived(
    streams: &mut Streams,
    index: usize,
    arrival: &Arrival,
    poller: &Poller,
    now: Time,
) -> Option<ConnId> {
    let Arrival { association, record, remote } = *arrival;
    let id = streams.sharing.0.get(&association).copied();
    match (record, id) {
        (Record::Up, None) => begin(streams, index, association, remote, poller, now),
        (Record::Gone, Some(id)) => gone(streams, id),
        (Record::Part(_) | Record::Last(_), None) => {
            // It was refused, or the kernel had no memory to announce it.
            let (socket, _) = streams.acceptor.socket(index)?.shared()?;
            Association::new(Arc::clone(socket), association).abort_on_drop();
        }
        (_, Some(id)) => return Some(id),
        (_, None) => {}
    }
    None
}

/// A peer has opened an association.
fn begin(
    streams: &mut Streams,
    index: usize,
    number: i32,
    remote: Option<SocketAddr>,
    poller: &Poller,
    now: Time,
) {
    let Some((socket, listener)) = streams.acceptor.socket(index).and_then(Listening::shared) else {
        return;
    };
    let mut association = Association::new(Arc::clone(socket), number);
    let Some(remote) = remote else { return association.abort_on_drop() };
    if streams.acceptor.has_stopped() {
        streams.counters.tcp_refused.one();
        return association.abort_on_drop();
    }
    if !streams.admit(remote.ip(), now) {
        return association.abort_on_drop();
    }
    let first = now + streams.limits.first_message;
    accept::take_in(streams, Conn::accepted(Link::shared(association), remote, listener, first, now), poller);
}

/// The kernel has ended an association.
fn gone(streams: &mut Streams, id: ConnId) {
    let Some(conn) = streams.table.get_mut(id) else { return };
    if let Some(association) = conn.link_mut().association() {
        association.is_over();
    }
    let reason = match conn.state() {
        State::Closing | State::Lingering => conn.phase().reason(),
        _ => Reason::Peer,
    };
    streams.close(id, reason);
}

/// Notes under which number the association of a connection is found, if it shares its socket.
pub fn note(streams: &mut Streams, id: ConnId) {
    let conn = streams.table.get_mut(id);
    if let Some(association) = conn.and_then(|conn| conn.link_mut().association()) {
        streams.sharing.0.insert(association.id(), id);
    }
}

/// Forgets the association of a link, if it shares its socket.
pub fn forget(streams: &mut Streams, link: &mut Link) {
    if let Some(association) = link.association() {
        streams.sharing.0.remove(&association.id());
    }
}

/// Makes sure that a connection has its own socket. If that fails, the connection is closed, and this
/// returns `false`.
pub fn stands_alone(streams: &mut Streams, id: ConnId, poller: &Poller) -> bool {
    let Some(conn) = streams.table.get_mut(id) else { return false };
    let Some(number) = conn.link_mut().association().map(|association| association.id()) else {
        return true;
    };
    streams.sharing.0.remove(&number);
    match conn.link_mut().peel_off(id, poller) {
        Ok(()) => {
            streams.counters.sctp_peeled_off.one();
            true
        }
        Err(error) => {
            tracing::debug!(remote = %conn.remote(), %error, "an association cannot be peeled off");
            streams.close(id, Reason::Slow);
            false
        }
    }
}

/// The peer has restarted an association (RFC 9260 section 5.2). Its connection ends, and the association
/// becomes a new connection. An association that we opened is aborted.
pub fn restart(streams: &mut Streams, id: ConnId, poller: &Poller, now: Time) {
    let Some(conn) = streams.table.get(id) else { return };
    let (remote, listener) = (conn.remote(), conn.flow(id).listener);
    let goes_on = conn.is_inbound() && matches!(conn.state(), State::Open | State::HalfClosed);
    streams.counters.sctp_restarts.one();
    let Some(mut link) = streams.part_from(id, Reason::Peer) else { return };
    if !goes_on || streams.acceptor.has_stopped() || !streams.admit(remote.ip(), now) {
        return link.reset_on_close();
    }
    let first = now + streams.limits.first_message;
    accept::take_in(streams, Conn::accepted(link.begun_anew(poller), remote, listener, first, now), poller);
}
