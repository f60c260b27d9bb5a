//! Taking connections in: caps, and what to do when the process has no descriptor left.

use super::conn::Conn;
use super::link::Link;
use super::told::Told;
use super::{Streams, sharing};
use crate::sys::{self, Interest, Poller, errno, is_transient};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wire::{ListenerId, Time, Transport};

/// Connections taken from one listening socket before others get their turn.
const ACCEPT_BUDGET: usize = 32;
/// How long to stop accepting when not even a refusal is possible.
const PAUSE: Duration = Duration::from_millis(100);

/// One listening socket of one worker.
pub(super) struct Listening {
    fd: Arc<OwnedFd>,
    id: ListenerId,
    transport: Transport,
    data: u64,
    /// Whether the associations that peers open share this socket.
    shared: bool,
}

impl Listening {
    /// The socket, and the listener that it belongs to, if the associations that peers open share it.
    pub(super) fn shared(&self) -> Option<(&Arc<OwnedFd>, ListenerId)> {
        self.shared.then_some((&self.fd, self.id))
    }
}

/// The listening sockets of one worker.
pub struct Acceptor {
    sockets: Vec<Option<Listening>>,
    /// Given up for a moment when there is no other descriptor, to accept and close: a connection
    /// left in the queue would be reported for ever and its peer would hang.
    reserve: Option<OwnedFd>,
    resume: Option<Time>,
    told: Told,
    /// Whether the listening sockets are closed, because the server is about to end.
    stopped: bool,
    /// Whether no connection begins now, see [`hold_up`].
    held_up: bool,
}

impl Acceptor {
    /// No sockets yet.
    pub fn new() -> io::Result<Acceptor> {
        let reserve = Some(sys::null_descriptor()?);
        Ok(Acceptor {
            sockets: Vec::new(),
            reserve,
            resume: None,
            told: Told::new(),
            stopped: false,
            held_up: false,
        })
    }

    /// Whether no more connections are taken, because the server is about to end.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether no connection begins now, from either side.
    pub(super) fn is_held_up(&self) -> bool {
        self.held_up
    }

    /// Listening socket number `index`.
    pub(super) fn socket(&self, index: usize) -> Option<&Listening> {
        self.sockets.get(index)?.as_ref()
    }

    /// When [`Acceptor::resume`] has something to do.
    pub fn resume_at(&self) -> Option<Time> {
        self.resume
    }

    /// Goes on accepting after a pause.
    pub fn resume(&mut self, poller: &Poller, now: Time) {
        if self.resume.is_some_and(|at| at <= now) {
            self.resume = None;
            self.reserve = self.reserve.take().or_else(|| sys::null_descriptor().ok());
            self.watch(poller, Interest::READ);
        }
    }

    fn watch(&self, poller: &Poller, interest: Interest) {
        for socket in self.sockets.iter().flatten() {
            let _ = poller.modify(socket.fd.as_fd(), interest, socket.data);
        }
    }

    /// Refuses one connection with the reserve descriptor; pauses if that fails.
    fn refuse(&mut self, index: usize, poller: &Poller, now: Time) {
        drop(self.reserve.take());
        if let Some(Some(socket)) = self.sockets.get(index)
            && let Ok((fd, _)) = sys::accept(socket.fd.as_fd())
        {
            sys::reset_on_close(fd.as_fd());
        }
        self.reserve = sys::null_descriptor().ok();
        if self.reserve.is_none() {
            // Another thread was quicker. A worker to which waiting connections are
            // reported again and again would do nothing else.
            self.resume = Some(now + PAUSE);
            self.watch(poller, Interest::NONE);
        }
    }

    /// Logs a refusal, if the last line about one is old enough.
    pub(super) fn log(&mut self, why: &str, now: Time) {
        if let Some(times) = self.told.again(now) {
            log_events::workers::connections_refused(times, why);
        }
    }
}

/// What became of one attempt to accept.
enum Attempt {
    Accepted,
    Passed,
    Exhausted,
    Empty,
}

impl Streams {
    /// Adds a listening socket, reported by epoll as `data`.
    pub fn listen(
        &mut self,
        (id, transport, fd): (ListenerId, Transport, OwnedFd),
        data: u64,
        poller: &Poller,
    ) -> io::Result<()> {
        poller.add(fd.as_fd(), Interest::READ, data)?;
        let shared = transport == Transport::Sctp && self.shared.sctp.share_sockets();
        self.acceptor.sockets.push(Some(Listening { fd: Arc::new(fd), id, transport, data, shared }));
        Ok(())
    }

    /// Takes in what waits at listening socket number `index`.
    pub fn accept(&mut self, index: usize, poller: &Poller, now: Time) {
        // Where no association waits, accept(2) sleeps until the kernel's next tick, 1 to 10 ms, also on a
        // socket that does not block. epoll reports whether another one waits.
        let is_sctp =
            matches!(self.acceptor.sockets.get(index), Some(Some(s)) if s.transport == Transport::Sctp);
        accept_at_most(self, if is_sctp { 1 } else { ACCEPT_BUDGET }, index, poller, now);
    }

    fn accept_one(&mut self, index: usize, poller: &Poller, now: Time) -> Attempt {
        let Some(Some(socket)) = self.acceptor.sockets.get(index) else { return Attempt::Empty };
        let (listener, transport) = (socket.id, socket.transport);
        self.counters.syscalls.one();
        let (fd, remote) = match sys::accept(socket.fd.as_fd()) {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Attempt::Passed,
            Err(error) if is_transient(&error) => return Attempt::Empty,
            Err(error) => {
                return match errno(&error) {
                    libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => Attempt::Exhausted,
                    // The peer was gone already, or the network reported its own errors (accept(2)).
                    _ => Attempt::Passed,
                };
            }
        };
        let Ok(session) = self.shared.session(transport) else { return Attempt::Passed };
        if !self.admit(remote.ip(), now) {
            sys::reset_on_close(fd.as_fd());
            return Attempt::Passed;
        }
        let secure = transport.is_secure();
        let first = if secure { self.limits.handshake } else { self.limits.first_message };
        let link = Link::accepted(fd, session, self.shared.web(transport, listener));
        let link = if transport == Transport::Sctp { link.with_records() } else { link };
        match take_in(self, Conn::accepted(link, remote, listener, now + first, now), poller) {
            true => Attempt::Accepted,
            false => Attempt::Passed,
        }
    }

    /// Takes in what has already come, then closes the listening sockets: new peers are refused by
    /// the kernel and go elsewhere.
    pub fn stop_accepting(&mut self, poller: &Poller, now: Time) {
        for index in 0..self.acceptor.sockets.len() {
            if !sharing::shares_socket(self, index) {
                accept_at_most(self, ACCEPT_BUDGET, index, poller, now);
            }
        }
        for socket in &mut self.acceptor.sockets {
            match socket.as_ref().and_then(Listening::shared) {
                Some((fd, _)) => sys::stop_listening(fd.as_fd()),
                None => *socket = None,
            }
        }
        self.acceptor.stopped = true;
    }
}

/// Takes in this number of those that wait at listening socket number `index`, or all if they are fewer.
fn accept_at_most(streams: &mut Streams, budget: usize, index: usize, poller: &Poller, now: Time) {
    for _ in 0..budget {
        match streams.accept_one(index, poller, now) {
            Attempt::Accepted | Attempt::Passed => {}
            Attempt::Exhausted => {
                streams.counters.tcp_exhausted.one();
                streams.acceptor.log("no descriptors or memory left: raise `ulimit -n`", now);
                streams.acceptor.refuse(index, poller, now);
                // The kernel says so even if nobody waits, so only epoll can tell if more do.
                return;
            }
            Attempt::Empty => return,
        }
    }
}

/// No connection begins while news of others waits for another worker: each would add to it.
pub fn hold_up(streams: &mut Streams, held_up: bool) {
    streams.acceptor.held_up = held_up;
}

/// Adds a connection that a peer opened and that was admitted; `false` if there is no room for it.
pub(super) fn take_in(streams: &mut Streams, conn: Conn, poller: &Poller) -> bool {
    match streams.add(conn, poller) {
        Ok(id) => {
            streams.enlist(id);
            streams.counters.tcp_accepted.one();
            true
        }
        Err(conn) => {
            streams.counters.tcp_refused.one();
            streams.shared.caps.release(conn.remote().ip(), streams.limits.idle_loose.is_some());
            false
        }
    }
}
