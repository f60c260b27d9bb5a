//! The stream connections of one worker: accepting, connecting, writing, deadlines, closing.
//!
//! What is read is handled by the worker, which has the machine; everything else about a connection is here.
//! Closed connections and messages that could not be sent are collected in [`Streams::gone`],
//! [`Streams::failed`] and [`Streams::cut_off`], for the worker to report when it holds nothing else.

mod accept;
mod caps;
mod conn;
mod directory;
mod ending;
mod input;
mod loose;
mod table;

pub use caps::Caps;
pub use conn::{Conn, Input, Reason, State, Ticket};
pub use directory::Directory;

use crate::config::StreamLimits;
use crate::counters::Counters;
use crate::sys::{self, Interest, Poller};
use accept::Acceptor;
use conn::Output;
use ending::Ending;
use loose::Loose;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use table::Table;
use timing::Wheel;
use wire::{ConnId, ListenerId, Time};

/// Bytes read in one system call, and written before the kernel is given them.
pub const CHUNK: usize = 64 << 10;
/// A pooled buffer that grew beyond this is freed.
const KEEP_CAPACITY: usize = 16 << 10;
/// Buffers kept in each pool.
const KEEP_BUFFERS: usize = 256;

/// What the workers know together about streams.
pub struct StreamShared {
    /// How many connections there are.
    pub caps: Caps,
    /// Where they lead.
    pub directory: Directory,
}

/// The stream connections of one worker.
#[allow(clippy::vec_box, reason = "the pools hand out boxes, which a connection keeps by pointer")]
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
    inputs: Vec<Box<Input>>,
    outputs: Vec<Box<Output>>,
    dirty: Vec<ConnId>,
    /// Bytes that connections hold in their buffers, both directions.
    held: usize,
    ending: Ending,
    loose: Loose,
    /// Connections whose input waits for their next turn.
    pub ready: VecDeque<ConnId>,
    /// Room for one read.
    pub scratch: Vec<u8>,
    /// Messages that could not be sent.
    pub failed: Vec<Ticket>,
    /// Messages that had left when their connection ended.
    pub cut_off: Vec<Ticket>,
    /// Connections that were open and are closed.
    pub gone: Vec<ConnId>,
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
            inputs: Vec::new(),
            outputs: Vec::new(),
            dirty: Vec::new(),
            held: 0,
            ending: Ending::new(workers),
            loose: Loose::default(),
            ready: VecDeque::new(),
            scratch: vec![0; CHUNK],
            failed: Vec::new(),
            cut_off: Vec::new(),
            gone: Vec::new(),
        })
    }

    /// The connection `id`, if it is still there.
    pub fn get(&self, id: ConnId) -> Option<&Conn> {
        self.table.get(id)
    }

    /// The connection `id`, if it is still there.
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.table.get_mut(id)
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

    fn watch(conn: &mut Conn, id: ConnId, poller: &Poller, interest: Interest) {
        if conn.interest != interest {
            conn.interest = interest;
            // The descriptor is open and watched, so this fails only for want of kernel memory;
            // the connection's deadline closes it then.
            let _ = poller.modify(conn.fd.as_fd(), interest, sequence(id));
        }
    }

    /// Sets the wheel for the connection's earliest deadline.
    pub fn arm(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get(id) {
            let due = conn.due();
            if due != Time::FAR {
                self.wheel.set_lazily(Table::slot_of(id), due);
            }
        }
    }

    fn add(&mut self, conn: Conn, poller: &Poller) -> Result<ConnId, Conn> {
        let id = self.table.insert(conn)?;
        let added =
            self.table.get(id).map(|c| (c.remote, poller.add(c.fd.as_fd(), c.interest, sequence(id))));
        let Some((remote, Ok(()))) = added else {
            return Err(self.table.remove(id).expect("it was put in just now"));
        };
        self.shared.directory.insert(remote, id);
        self.counters.tcp_open.set(self.table.len() as u64);
        self.arm(id);
        Ok(id)
    }

    /// The connection for a message that names none: any open one to `remote`, of any worker.
    pub fn find(&self, remote: SocketAddr) -> Option<ConnId> {
        self.shared.directory.find(remote)
    }

    /// Begins a connection from the address `local` to `remote`.
    pub fn connect(
        &mut self,
        local: IpAddr,
        listener: ListenerId,
        remote: SocketAddr,
        poller: &Poller,
        now: Time,
    ) -> io::Result<ConnId> {
        if !self.shared.caps.open() {
            self.counters.tcp_refused.one();
            self.counters.tcp_exhausted.one();
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.counters.tcp_connects.one();
        let options = socket_options(&self.limits);
        let made = sys::tcp_connect(local, remote, &options).and_then(|fd| {
            let mut conn = Conn::new(fd, remote, listener, false, now);
            conn.deadline = now + self.limits.connect;
            self.add(conn, poller).map_err(|_| io::ErrorKind::OutOfMemory.into())
        });
        if let Err(error) = &made {
            self.shared.caps.close();
            self.counters.tcp_connect_failures.one();
            self.counters.tcp_exhausted.add(u64::from(is_shortage(error)));
            self.counters.tcp_connects_refused.add(u64::from(is_refusal(error)));
        }
        made
    }

    /// Reports that a message could not be sent.
    pub fn fail(&mut self, ticket: Ticket) {
        self.counters.undeliverable.one();
        if ticket.token != 0 {
            self.failed.push(ticket);
        }
    }

    /// Queues a message on a connection of this worker. It is sent by [`Streams::flush`].
    pub fn write(&mut self, id: ConnId, message: &[u8], ticket: Ticket, poller: &Poller, now: Time) {
        let limits = self.limits;
        let Some(conn) = self.table.get_mut(id) else { return self.fail(ticket) };
        let pending = conn.output.as_ref().map_or(0, |o| o.pending());
        let accepts = match conn.state {
            State::Open | State::HalfClosed | State::Ending => {
                let yields = ticket.yields && conn.is_congested(message.len(), &limits, now);
                self.counters.tcp_congested.add(u64::from(yields));
                !yields
            }
            State::Connecting => pending + message.len() <= limits.max_queued_connecting,
            State::Closing | State::Lingering => false,
        };
        if !accepts {
            return self.fail(ticket);
        }
        let output = conn.output.get_or_insert_with(|| self.outputs.pop().unwrap_or_default());
        output.push(message, ticket);
        self.held += message.len();
        let pending = output.pending();
        if ticket.keeps > 0 {
            conn.mark(&ticket, &self.shared.caps, now);
        }
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(id);
        }
        // What else waits for this connection fails with it.
        let soon = now + limits.connect_hurried;
        if ticket.hurries && conn.state == State::Connecting && soon < conn.deadline {
            conn.deadline = soon;
            self.arm(id);
        }
        self.counters.tcp_messages_out.one();
        if pending >= CHUNK || self.held > limits.max_held {
            self.send(id, poller, now);
            let pending = self.table.get(id).and_then(|c| c.output.as_ref()).map_or(0, |o| o.pending());
            // However little it is: many that hold a little hold as much as one that holds a lot.
            if pending > limits.max_queued || (pending > 0 && self.held > limits.max_held) {
                self.close(id, Reason::Stalled);
            }
        }
    }

    /// Answers a keepalive ping, unless one was answered a moment ago or other output is waiting
    /// (which says as well that we are alive).
    pub fn pong(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if now < conn.next_pong || conn.output.is_some() {
            return;
        }
        conn.next_pong = now + self.limits.pong_interval;
        self.counters.tcp_pongs.one();
        self.write(id, b"\r\n", Ticket::none(self.me), poller, now);
    }

    /// Whether there is something to report.
    pub fn has_news(&self) -> bool {
        !(self.failed.is_empty() && self.cut_off.is_empty() && self.gone.is_empty())
    }

    /// Gives the kernel what was queued since the last flush.
    pub fn flush(&mut self, poller: &Poller, now: Time) {
        while let Some(id) = self.dirty.pop() {
            if let Some(conn) = self.table.get_mut(id) {
                conn.dirty = false;
                self.send(id, poller, now);
            }
        }
    }

    /// Writes as much as the kernel takes.
    fn send(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.state == State::Connecting || conn.blocked() {
            return;
        }
        let Some(output) = conn.output.as_mut() else { return };
        self.counters.syscalls.one();
        match sys::send(conn.fd.as_fd(), &output.bytes[output.sent..]) {
            Ok(n) => {
                self.counters.tcp_bytes_out.add(n as u64);
                let recent = &mut conn.recent;
                output.advance(n, |ticket| recent.get_or_insert_default().add(now, ticket));
                self.held -= n;
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => return self.close(id, reason_of(&error)),
        }
        if output.pending() == 0 {
            self.sent(id, poller, now);
        } else {
            output.stall = now + self.limits.write_stall;
            output.since = output.since.min(now);
            let interest = conn.interest.and(Interest::WRITE);
            Streams::watch(conn, id, poller, interest);
            self.arm(id);
        }
    }

    /// Everything queued has left.
    fn sent(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if let Some(mut output) = conn.output.take()
            && self.outputs.len() < KEEP_BUFFERS
            && output.bytes.capacity() <= KEEP_CAPACITY
        {
            output.clear();
            self.outputs.push(output);
        }
        match conn.state {
            State::Closing => self.linger(id, poller, now),
            State::Open => {
                if conn.useful && conn.input.is_none() {
                    conn.deadline = conn.silence(&self.limits, now, false);
                }
                Streams::watch(conn, id, poller, Interest::READ);
            }
            State::HalfClosed | State::Ending => Streams::watch(conn, id, poller, Interest::NONE),
            State::Connecting | State::Lingering => {}
        }
    }

    /// The socket has room, or its connect has come to an end.
    pub fn writable(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if conn.state == State::Connecting {
            if let Err(error) = sys::take_error(conn.fd.as_fd()) {
                tracing::debug!(remote = %conn.remote, %error, "connect failed");
                self.counters.tcp_connects_refused.add(u64::from(is_refusal(&error)));
                return self.close(id, Reason::Connect);
            }
            conn.state = State::Open;
            conn.was_open = true;
            conn.deadline = now + self.limits.idle;
            Streams::watch(conn, id, poller, Interest::READ);
        }
        if let Some(output) = conn.output.as_mut() {
            output.stall = Time::FAR;
            self.send(id, poller, now);
        }
        if let Some(reason) = self.table.get_mut(id).and_then(|conn| conn.ends.take()) {
            self.close_gently(id, reason, poller, now);
        }
    }

    /// The peer has ended its direction. It is answered for a moment if it ever sent something;
    /// most peers have gone altogether, and the next write says so.
    pub fn ended(&mut self, id: ConnId, poller: &Poller, now: Time) {
        let Some(conn) = self.table.get_mut(id) else { return };
        match conn.state {
            State::Open if conn.useful => {
                conn.state = State::HalfClosed;
                conn.deadline = now + self.limits.half_closed;
                let interest = if conn.blocked() { Interest::WRITE } else { Interest::NONE };
                Streams::watch(conn, id, poller, interest);
                let remote = conn.remote;
                self.shared.directory.remove(remote, id);
                self.arm(id);
            }
            State::Closing => Streams::watch(conn, id, poller, Interest::WRITE),
            State::Lingering => {
                let reason = conn.reason;
                self.close(id, reason);
            }
            State::Ending => {}
            State::Open | State::HalfClosed | State::Connecting => self.close(id, Reason::Peer),
        }
    }

    /// Closes a connection at once.
    pub fn close(&mut self, id: ConnId, reason: Reason) {
        let Some(mut conn) = self.table.remove(id) else { return };
        self.wheel.clear(Table::slot_of(id));
        self.shared.directory.remove(conn.remote, id);
        if conn.inbound {
            self.shared.caps.release(conn.remote.ip(), conn.is_loose());
            conn.bare(&self.shared.caps);
        } else {
            self.shared.caps.close();
        }
        if reason.resets() || conn.state == State::Lingering {
            sys::reset_on_close(conn.fd.as_fd());
        }
        let Conn { input, output, recent, was_open, .. } = conn;
        self.held -= input.as_ref().map_or(0, |i| i.bytes.len()) + output.as_ref().map_or(0, |o| o.pending());
        self.recycle(input);
        for (_, ticket) in output.map(|o| o.tickets).unwrap_or_default() {
            self.fail(ticket);
        }
        // What the peer did not take before it went may be lost, and what it took it can answer here no
        // more. Nobody would find out before a timer.
        if matches!(reason, Reason::Peer | Reason::Error | Reason::Stalled) {
            self.cut_off.extend(recent.into_iter().flat_map(|recent| recent.into_tickets()));
        }
        if was_open {
            self.gone.push(id);
        }
        self.counters.tcp_open.set(self.table.len() as u64);
        self.count_close(reason);
    }

    fn count_close(&self, reason: Reason) {
        let c = &self.counters;
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
            let stalled = conn.output.as_ref().is_some_and(|o| o.stall <= now);
            let reason = match conn.state {
                _ if stalled => Reason::Stalled,
                State::Connecting => Reason::Connect,
                // It is we who are late.
                State::Open if conn.waiting => {
                    conn.deadline = now + self.limits.message;
                    self.arm(id);
                    continue;
                }
                State::Open if conn.input.as_ref().is_some_and(|input| input.begun) => Reason::Slow,
                State::Open if !conn.useful => Reason::Useless,
                State::Open => Reason::Idle,
                State::HalfClosed => Reason::Peer,
                State::Ending => {
                    self.finish(id, poller, now);
                    continue;
                }
                State::Closing | State::Lingering => conn.reason,
            };
            self.close_when_answered(id, reason, poller, now);
        }
    }

    /// Closes everything, with the outcome unreported: the worker is ending.
    pub fn close_all(&mut self) {
        for slot in 0..self.table.slots() {
            if let Some(id) = self.table.at_slot(slot) {
                self.close(id, Reason::Asked);
            }
        }
    }
}

/// The part of an identifier that epoll keeps; the worker's number is left out.
pub fn sequence(id: ConnId) -> u64 {
    id.as_u64() & 0xffff_ffff_ffff
}

/// Whether the same call may succeed later.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Why a connection whose socket says `error` is closed.
pub fn reason_of(error: &io::Error) -> Reason {
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
/// Whether the other side has refused a connection.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Whether a connection could not be begun for want of something here: ports, descriptors, memory.
fn is_shortage(error: &io::Error) -> bool {
    let wants = [libc::EADDRNOTAVAIL, libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.kind() == io::ErrorKind::OutOfMemory || wants.contains(&sys::errno(error))
}
