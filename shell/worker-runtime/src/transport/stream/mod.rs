//! The stream connections of one worker: accepting, connecting, reading, writing, deadlines, closing.
//!
//! The worker, which has the machine, finds the messages in what is read; everything else about a connection
//! is here. Closed connections and messages that could not be sent are collected as [`News`], for the worker
//! to report when it holds nothing else.

mod accept;
pub mod asking;
mod buffers;
mod caps;
mod conn;
mod dial;
mod directory;
mod ending;
pub mod handshakes;
mod input;
mod link;
mod listing;
mod loose;
mod output;
mod phase;
mod places;
mod reading;
mod secure;
pub mod sharing;
mod standing;
mod table;
mod told;
mod upgrade;
mod web;

pub use accept::hold_up;
pub use caps::Caps;
pub use conn::Conn;
pub use directory::{Directory, Key, Place};
pub use input::{Begun, Input, WHOLE};
pub use listing::{Agreed, ConnectionView, Portion, Question, Wanted, answer};
pub use output::Ticket;
pub use phase::Reason;
pub use reading::{Bytes, Read, end_broken};
pub use web::End;

use super::sctp::Associations;
use crate::config::{StreamLimits, WebSocket, WebSocketClient};
use crate::counters::Counters;
use crate::sys::{self, Interest, Poller, is_transient};
use accept::Acceptor;
use asking::Masks;
use buffers::Buffers;
use conn::Queue;
use dial::Dial;
use ending::Ending;
use handshakes::Handshakes;
use link::Link;
use loose::Loose;
use phase::State;
use reading::Reading;
use sharing::Sharing;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use table::Table;
use timing::Wheel;
use web::Web;
use websocket::CloseCode;
use wire::{ConnId, Identity, ListenerId, Time, Transport};

/// Bytes that are queued before the kernel is given them.
const CHUNK: usize = 64 << 10;

/// What the workers know together about streams.
pub struct StreamShared {
    /// How many connections there are.
    pub caps: Caps,
    /// Where they lead.
    pub directory: Directory,
    /// What TLS listeners serve with.
    pub tls: Option<tls::Server>,
    /// What TLS connections begin with that we open.
    pub tls_client: Option<tls::Client>,
    /// What is accepted of WebSocket.
    pub websocket: WebSocket,
    /// The settings of WebSocket connections that we open.
    pub websocket_client: Option<WebSocketClient>,
    /// For each listener the WebSocket listener that shares its socket.
    pub sharers: Vec<Option<ListenerId>>,
    /// How associations of SCTP are made.
    pub sctp: Associations,
}

impl StreamShared {
    /// The WebSocket listener that shares the socket of this one.
    fn sharer(&self, listener: ListenerId) -> Option<ListenerId> {
        self.sharers.get(usize::from(listener.0)).copied().flatten()
    }

    /// The layer of WebSocket that an accepted connection begins with.
    fn web(&self, transport: Transport, listener: ListenerId) -> Option<Web> {
        match transport {
            Transport::Ws | Transport::Wss => Some(Web::expected()),
            _ => self.sharer(listener).map(|_| Web::possible()),
        }
    }

    /// A connection is WebSocket, and its layer takes a step.
    fn becomes_web(&self, id: ConnId, conn: Option<&mut Conn>, step: impl FnOnce(&mut Web)) {
        let Some(conn) = conn else { return };
        let sharer = self.sharer(conn.flow(id).listener);
        conn.becomes_web(id, sharer, step, &self.directory);
    }

    /// The identity of the peer of an open connection, if peers are asked for certificates.
    fn identity(&self, conn: &Conn) -> Option<Arc<Identity>> {
        let session = conn.link().secure()?.session();
        if !conn.is_inbound()
            && let Some(client) = &self.tls_client
        {
            client.succeeded(conn.link().name());
        }
        let (found, authorities) = self.tls.as_ref()?.authorities()?.identify(session)?;
        let addresses = found.addresses().iter().map(|address| address.to_string().into());
        let names = found.domains().map(Into::into).chain(addresses).collect();
        Some(Arc::new(Identity::new(names, authorities)))
    }

    /// A connection that we opened has failed. If its server must prove a name, the reason is kept.
    fn note_failure(&self, conn: &Conn, why: &dyn Display) {
        let link = conn.link();
        match &self.tls_client {
            Some(client) if link.transport().is_secure() && conn.state() == State::Connecting => {
                client.unconnected(link.name(), why);
            }
            Some(client) if link.transport().is_secure() => client.failed(link.name(), why),
            _ => {}
        }
    }

    /// The session that an accepted connection of this transport begins with.
    fn session(&self, transport: Transport) -> Result<Option<tls::Session>, tls::Fault> {
        match (transport, &self.tls) {
            (Transport::Tls | Transport::Wss, Some(server)) => server.session().map(Some),
            _ => Ok(None),
        }
    }
}

/// What the machines have to know of connections.
#[derive(Default)]
pub struct News {
    /// Messages that could not be sent.
    pub failed: Vec<Ticket>,
    /// Messages that had left when their connection ended.
    pub cut_off: Vec<Ticket>,
    /// Connections whose peers have proven who they are.
    pub identified: Vec<(ConnId, Arc<Identity>)>,
    /// Connections that were open and are closed.
    pub gone: Vec<ConnId>,
}

impl News {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty()
            && self.cut_off.is_empty()
            && self.identified.is_empty()
            && self.gone.is_empty()
    }
}

/// The stream connections of one worker.
pub struct Streams {
    me: u16,
    limits: StreamLimits,
    /// How long a message that left may still be answered.
    patience: Duration,
    shared: Arc<StreamShared>,
    counters: Arc<Counters>,
    table: Table,
    wheel: Wheel,
    acceptor: Acceptor,
    dial: Dial,
    masks: Masks,
    handshakes: Handshakes,
    buffers: Buffers,
    reading: Reading,
    /// Connections with output to send.
    dirty: Vec<ConnId>,
    ending: Ending,
    loose: Loose,
    sharing: Sharing,
    news: News,
}

impl Streams {
    /// No connections yet, of worker `me`.
    pub fn new(
        (me, workers): (u16, u16),
        (limits, patience): (StreamLimits, Duration),
        shared: Arc<StreamShared>,
        counters: Arc<Counters>,
        now: Time,
    ) -> io::Result<Streams> {
        Ok(Streams {
            me,
            limits,
            patience,
            shared,
            counters,
            table: Table::new(me),
            wheel: Wheel::new(now, 0),
            acceptor: Acceptor::new()?,
            dial: Dial::new(),
            masks: Masks::new(),
            handshakes: Handshakes::new(),
            buffers: Buffers::new(limits.max_held),
            reading: Reading::new(),
            dirty: Vec::new(),
            ending: Ending::new(workers),
            loose: Loose::default(),
            sharing: Sharing::default(),
            news: News::default(),
        })
    }

    /// The identifier that epoll reports: the part of a [`ConnId`] that is not the worker.
    pub fn id_of(&self, sequence: u64) -> ConnId {
        ConnId::new(self.me, sequence)
    }

    /// When [`Streams::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Time> {
        match (self.wheel.next(), self.acceptor.resume_at()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Sets the wheel for the connection's earliest deadline.
    fn arm(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get(id) {
            let due = conn.due();
            if due != Time::FAR {
                self.wheel.set_lazily(Table::slot_of(id), due);
            }
        }
    }

    fn add(&mut self, conn: Conn, poller: &Poller) -> Result<ConnId, Conn> {
        let id = self.table.insert(conn)?;
        if self.table.get(id).is_none_or(|conn| conn.register(id, poller).is_err()) {
            return Err(self.table.remove(id).expect("it was put in just now"));
        }
        if let Some(conn) = self.table.get(id) {
            self.buffers.hold(conn.link().held());
            self.shared.directory.insert(&conn.key(), id);
        }
        sharing::note(self, id);
        self.counters.tcp_open.set(self.table.len() as u64);
        self.arm(id);
        Ok(id)
    }

    /// Reports that a message could not be sent.
    pub fn fail(&mut self, ticket: Ticket) {
        self.counters.undeliverable.one();
        if ticket.token != 0 {
            self.news.failed.push(ticket);
        }
    }

    /// Queues a message on a connection of this worker. It is sent by [`Streams::flush`].
    pub fn write(&mut self, id: ConnId, message: &[u8], ticket: Ticket, poller: &Poller, now: Time) {
        let limits = self.limits;
        let Some(conn) = self.table.get_mut(id) else { return self.fail(ticket) };
        let queue = conn.takes(message.len(), &ticket, &limits, now);
        self.counters.tcp_congested.add(u64::from(queue == Queue::Congested));
        if queue != Queue::Takes {
            return self.fail(ticket);
        }
        let before = conn.pending();
        let mut mask = None;
        if let Some(web) = conn.link().web() {
            mask = web.is_client().then(|| self.masks.mask());
            let header = web.header(message, mask);
            conn.push_bytes(header.as_bytes(), || self.buffers.output());
        }
        let pending = conn.push((message, mask), ticket, (&self.shared.caps, now), || self.buffers.output());
        self.buffers.hold(pending - before);
        if conn.make_dirty() {
            self.dirty.push(id);
        }
        // What else waits for this connection fails with it.
        if ticket.hurries && conn.hurries(now + limits.connect_hurried) {
            self.arm(id);
        }
        self.counters.tcp_messages_out.one();
        if pending >= CHUNK || self.buffers.lack_room_for(0) {
            self.send(id, poller, now);
            let pending = self.table.get(id).map_or(0, Conn::pending);
            // However little it is: many that hold a little hold as much as one that holds a lot.
            if pending > limits.max_queued || (pending > 0 && self.buffers.lack_room_for(0)) {
                self.close(id, Reason::Stalled);
            }
        }
    }

    /// Queues bytes of a layer, which are no message.
    fn write_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.push_bytes(bytes, || self.buffers.output());
        self.buffers.hold(bytes.len());
        if conn.make_dirty() {
            self.dirty.push(id);
        }
    }

    /// Answers a keepalive ping with `pong`, unless one was answered a moment ago or other output is waiting
    /// (which says as well that we are alive).
    pub fn pong(&mut self, id: ConnId, pong: &[u8], poller: &Poller, now: Time) {
        let interval = self.limits.pong_interval;
        if self.table.get_mut(id).is_some_and(|conn| conn.may_pong(interval, now)) {
            self.counters.tcp_pongs.one();
            self.write(id, pong, Ticket::none(self.me), poller, now);
        }
    }

    /// What there is to report.
    pub fn news(&mut self) -> &mut News {
        &mut self.news
    }

    /// Gives the kernel what was queued since the last flush.
    pub fn flush(&mut self, poller: &Poller, now: Time) {
        while let Some(id) = self.dirty.pop() {
            if let Some(conn) = self.table.get_mut(id) {
                conn.clean();
                self.send(id, poller, now);
            }
        }
    }

    /// Writes as much as the kernel takes.
    fn send(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        let held = conn.link().held();
        let Some(sent) = conn.send(&mut self.reading.sealed, now) else { return };
        self.buffers.holds_now(held, conn.link().held());
        self.counters.syscalls.one();
        match sent {
            Ok(n) => {
                self.counters.tcp_bytes_out.add(n as u64);
                self.counters.tls_bytes_out.add(if conn.link().transport().is_secure() {
                    n as u64
                } else {
                    0
                });
                self.buffers.let_go(n);
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => return self.fails(id, &error, now),
        }
        if conn.lacks_room() {
            // Other associations may use the room in the kernel.
            if !sharing::stands_alone(self, id, poller) {
                return;
            }
            let Some(conn) = self.table.get_mut(id) else { return };
            conn.block(now + self.limits.write_stall, now, id, poller);
            self.arm(id);
        } else if conn.pending() == 0 {
            self.sent(id, poller, now);
        } else {
            // What is queued waits for the peer's part of a handshake.
            conn.watch(Interest::READ, id, poller);
        }
    }

    /// Everything queued has left.
    fn sent(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if let Some(output) = conn.take_output() {
            self.buffers.recycle_output(output);
        }
        match conn.state() {
            State::Closing => self.linger(id, poller, now),
            State::Open => {
                conn.falls_silent(&self.limits, now, false);
                conn.watch(Interest::READ, id, poller);
            }
            State::HalfClosed | State::Ending => conn.watch(Interest::NONE, id, poller),
            // One that waits for its turn is watched again then.
            State::Handshake if conn.is_waiting() => conn.watch(Interest::NONE, id, poller),
            State::Handshake => conn.watch(Interest::READ, id, poller),
            State::Connecting | State::Lingering => {}
        }
    }

    /// The socket has room, or its connect has come to an end.
    pub fn writable(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.state() == State::Connecting {
            match conn.answered() {
                Ok(true) => self.opened(id, poller, now),
                Ok(false) => {
                    conn.queue_owed(|| self.buffers.output());
                    self.send(id, poller, now);
                    asking::ask(self, id, poller, now);
                }
                Err(error) => {
                    tracing::debug!(remote = %conn.remote(), %error, "connect failed");
                    self.shared.note_failure(conn, &error);
                    self.counters.tcp_connects_refused.add(u64::from(dial::is_refused(&error)));
                    self.close(id, Reason::Connect);
                }
            }
            return;
        }
        if conn.unblock() {
            self.send(id, poller, now);
        }
        self.end_once_sent(id, poller, now);
    }

    /// Messages can go both ways from now on.
    fn opened(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.phase_mut().opens();
        if let Some(identity) = self.shared.identity(conn) {
            self.news.identified.push((id, identity));
        }
        match conn.is_useful() {
            true => conn.set_deadline(now + self.limits.idle),
            false => conn.starts_time(&self.limits, now),
        }
        conn.watch(Interest::READ, id, poller);
        let unblocked = conn.unblock();
        self.arm(id);
        if unblocked {
            self.send(id, poller, now);
        }
        self.end_once_sent(id, poller, now);
    }

    /// Closes a connection that was to be closed once it is open.
    fn end_once_sent(&mut self, id: ConnId, poller: &Poller, now: Time) {
        if let Some(reason) = self.table.get_mut(id).and_then(|conn| conn.phase_mut().take_end()) {
            self.close_gently(id, reason, poller, now);
        }
    }

    /// The peer has ended its direction. It is answered for a moment if it ever sent something;
    /// most peers have gone altogether, and the next write says so.
    fn ended(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        match conn.state() {
            State::Open if conn.is_useful() => {
                conn.phase_mut().half_closes();
                conn.set_deadline(now + self.limits.half_closed);
                conn.watch_for_room_only(id, poller);
                self.shared.directory.remove(&conn.key(), id);
                self.arm(id);
            }
            State::Closing => conn.watch(Interest::WRITE, id, poller),
            State::Lingering => {
                let reason = conn.phase().reason();
                self.close(id, reason);
            }
            State::Ending => {}
            State::Handshake if !conn.is_inbound() => {
                self.give_up(id, &"the server closed the connection in the handshake", now);
            }
            State::Open | State::HalfClosed | State::Connecting | State::Handshake => {
                self.close(id, Reason::Peer);
            }
        }
    }

    /// Closes a connection at once.
    pub fn close(&mut self, id: ConnId, reason: Reason) {
        let was_open = |conn: &Conn| conn.phase().was_open() && conn.state() != State::Lingering;
        let tells = !reason.resets() && self.table.get(id).is_some_and(was_open);
        let mut link = self.part_from(id, reason);
        // Count first: a peer that sees the end must find it in the counters.
        if let Some(link) = link.as_mut().filter(|link| tells && link.secure().is_some()) {
            // Each end sends an alert before it closes (RFC 8446 section 6.1). A peer that is gone cannot
            // get one.
            let _ = link.finish();
        }
    }

    /// Forgets a connection. What is left is its socket.
    fn part_from(&mut self, id: ConnId, reason: Reason) -> Option<Link> {
        let mut conn = self.table.remove(id)?;
        self.wheel.clear(Table::slot_of(id));
        self.shared.directory.remove(&conn.key(), id);
        if conn.is_inbound() {
            self.shared.caps.release(conn.remote().ip(), conn.is_loose());
            conn.standing().bare(&self.shared.caps);
        } else {
            self.shared.caps.close();
        }
        if reason.resets() || conn.state() == State::Lingering {
            conn.link_mut().reset_on_close();
        }
        if conn.phase().was_open() {
            self.news.gone.push(id);
        }
        self.handshakes.broken_off(&conn, reason, &self.shared.caps, &self.counters);
        self.buffers.let_go(conn.input().map_or(0, Input::held) + conn.pending() + conn.link().held());
        let secure = conn.link().transport().is_secure();
        let (input, outgoing, mut link) = conn.into_parts();
        sharing::forget(self, &mut link);
        if let Some(input) = input {
            self.buffers.recycle_input(input);
        }
        let (queued, left) = outgoing.into_tickets();
        queued.for_each(|ticket| self.fail(ticket));
        // Nobody would find out before a timer.
        if reason.cuts_off() {
            self.news.cut_off.extend(left);
        } else if reason.undoes() {
            left.for_each(|ticket| self.fail(ticket));
        }
        self.counters.tcp_open.set(self.table.len() as u64);
        count_close(&self.counters, reason, secure);
        Some(link)
    }

    /// Closes connections whose deadline has passed, and goes on accepting after a pause.
    pub fn expire(&mut self, poller: &Poller, now: Time) {
        self.acceptor.resume(poller, now);
        while let Some(slot) = self.wheel.pop(now) {
            let Some(id) = self.table.at_slot(slot) else { continue };
            let Some(conn) = self.table.get_mut(id) else { continue };
            conn.forget(self.patience, now);
            if conn.due() > now {
                self.arm(id);
                continue;
            }
            let reason = match conn.state() {
                _ if conn.is_stalled(now) => Reason::Stalled,
                // It still waits for its turn. Waiting does not count as its time.
                State::Handshake if conn.is_inbound() && conn.is_waiting() => {
                    self.wheel.set_lazily(slot, now + handshakes::WAIT);
                    continue;
                }
                State::Handshake if conn.is_inbound() => Reason::Useless,
                State::Handshake => {
                    self.give_up(id, &"the handshake is not done in time", now);
                    continue;
                }
                State::Connecting => Reason::Connect,
                // It is we who are late.
                State::Open if conn.is_waiting() => {
                    conn.set_deadline(now + self.limits.message);
                    self.arm(id);
                    continue;
                }
                State::Open if conn.input().is_some_and(Input::is_begun) => Reason::Slow,
                State::Open if !conn.is_useful() => Reason::Useless,
                State::Open => Reason::Idle,
                State::HalfClosed => Reason::Peer,
                State::Ending => {
                    self.finish(id, poller, now);
                    continue;
                }
                State::Closing | State::Lingering => conn.phase().reason(),
            };
            self.close_when_answered(id, reason, poller, now);
        }
    }

    /// Closes everything, with the outcome unreported: the worker is ending. Peers are told where their
    /// layers can say so.
    pub fn close_all(&mut self, poller: &Poller, now: Time) {
        for slot in 0..self.table.slots() {
            let Some(id) = self.table.at_slot(slot) else { continue };
            if self.write_close(id, CloseCode::GOING_AWAY) {
                self.send(id, poller, now);
            }
            if let Some(conn) = self.table.get_mut(id).filter(|conn| conn.state() == State::Open) {
                let held = conn.link().held();
                // A peer that is gone cannot be told.
                let _ = conn.link_mut().finish();
                self.buffers.holds_now(held, conn.link().held());
            }
            self.close(id, Reason::Asked);
        }
    }
}

/// The part of an identifier that epoll keeps; the worker's number is left out.
fn sequence(id: ConnId) -> u64 {
    id.as_u64() & 0xffff_ffff_ffff
}

/// Counts the end of a connection.
fn count_close(c: &Counters, reason: Reason, secure: bool) {
    if secure {
        match reason {
            Reason::Peer => c.tls_closed_peer.one(),
            Reason::Asked => c.tls_closed_asked.one(),
            Reason::Idle => c.tls_closed_idle.one(),
            Reason::Useless => c.tls_closed_useless.one(),
            Reason::Slow => c.tls_closed_slow.one(),
            Reason::Broken => c.tls_closed_broken.one(),
            Reason::Stalled => c.tls_closed_stalled.one(),
            Reason::Room => c.tls_closed_room.one(),
            Reason::Error => c.tls_closed_error.one(),
            Reason::Connect => {}
        }
    }
    match reason {
        Reason::Peer => c.tcp_closed_peer.one(),
        Reason::Asked => c.tcp_closed_asked.one(),
        Reason::Idle => c.tcp_closed_idle.one(),
        Reason::Useless => c.tcp_closed_useless.one(),
        Reason::Slow => c.tcp_closed_slow.one(),
        Reason::Broken => c.tcp_closed_broken.one(),
        Reason::Stalled => c.tcp_closed_stalled.one(),
        Reason::Room => c.tcp_closed_room.one(),
        Reason::Error => c.tcp_closed_error.one(),
        Reason::Connect => c.tcp_connect_failures.one(),
    }
}

/// Why a connection whose socket says `error` is closed.
fn reason_of(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Reason::Peer,
        io::ErrorKind::TimedOut => Reason::Stalled,
        _ => Reason::Error,
    }
}

/// The options of stream sockets, accepted or connected.
pub fn socket_options(limits: &StreamLimits) -> sys::SocketOptions {
    sys::SocketOptions {
        receive_buffer: limits.receive_buffer,
        send_buffer: 0,
        user_timeout_ms: u32::try_from(limits.write_stall.as_millis()).unwrap_or(u32::MAX),
        backlog: limits.backlog,
    }
}
