//! What the workers share: their mailboxes, and the flags that end them.

use crate::config::{Listener, WorkerPanic};
use crate::counters::Counters;
use crate::sieve::Sieves;
use crate::sys::WakeUp;
use crate::transport::stream::{Question, StreamShared, Ticket};
use crossbeam_queue::ArrayQueue;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use wire::{ConnId, Flow, Identity, Time};

/// Something one worker hands to another.
pub enum Hop {
    /// A message that the receiver owns.
    Message {
        /// Where it came from.
        flow: Flow,
        /// The message, in a buffer of worker `from`.
        bytes: Vec<u8>,
        /// Whose buffer it is.
        from: u16,
        /// When it came, if that is known.
        arrived: Option<Time>,
    },
    /// A message to send on a connection that the receiver owns.
    Send {
        /// The connection.
        conn: ConnId,
        /// The message, in a buffer of the ticket's origin.
        bytes: Vec<u8>,
        /// Who wants to hear if it fails.
        ticket: Ticket,
    },
    /// A connection of the receiver's to close.
    Close(ConnId),
    /// A connection of the receiver's is not in use any more, see [`wire::Outbox::release`].
    Release(ConnId),
    /// A message of the receiver's machine could not be sent.
    Failed(u64),
    /// One that had left whole was lost with its connection, or its answer was.
    CutOff(u64),
    /// The peer of a connection has proven who it is.
    Identified(ConnId, Arc<Identity>),
    /// A connection is gone.
    Gone(ConnId),
    /// A connection is to end: its worker wants to know when everything before this is answered.
    Settle(ConnId),
    /// Everything of a connection of the receiver's that came before it was to end is answered.
    Settled(ConnId),
    /// A datagram to this address came back; this is the beginning of it.
    Returned(SocketAddr, Box<[u8]>),
}

/// Messages of at most this size count as nothing: as many as a ring has places are few bytes.
const SMALL: usize = 2 << 10;
/// Bytes of longer ones that may wait in a ring.
const LARGE_WAITING: usize = 16 << 20;

/// Questions for connections that may wait for a worker.
const QUESTIONS: usize = 8;

impl Hop {
    /// Whether it is never dropped. A machine keeps the state of a connection until it hears of the end, and
    /// takes a peer for a stranger until it hears who it is. No timer mends that. There are two for each
    /// connection at most, so connections bound their number.
    pub fn must_arrive(&self) -> bool {
        matches!(self, Hop::Identified(..) | Hop::Gone(_))
    }

    /// Bytes of a message that is not small.
    fn large(&self) -> usize {
        match self {
            Hop::Message { bytes, .. } | Hop::Send { bytes, .. } if bytes.len() > SMALL => bytes.len(),
            _ => 0,
        }
    }
}

/// Where a worker takes from what others give it.
pub struct Mailbox<N> {
    /// From other workers.
    ring: ArrayQueue<Hop>,
    /// Bytes of the long messages in it.
    large: AtomicUsize,
    /// From other threads.
    pub notices: ArrayQueue<N>,
    /// Questions of other threads for connections.
    pub questions: ArrayQueue<Question>,
    /// Buffers of this worker that come back from the others.
    pub spare: ArrayQueue<Vec<u8>>,
    /// Rung to wake the worker.
    pub wake: WakeUp,
    asleep: AtomicBool,
}

impl<N> Mailbox<N> {
    fn new(ring: usize, notices: usize) -> io::Result<Mailbox<N>> {
        Ok(Mailbox {
            ring: ArrayQueue::new(ring.max(1)),
            large: AtomicUsize::new(0),
            notices: ArrayQueue::new(notices.max(1)),
            questions: ArrayQueue::new(QUESTIONS),
            spare: ArrayQueue::new(ring.max(1)),
            wake: WakeUp::new()?,
            asleep: AtomicBool::new(false),
        })
    }

    /// Gives the owner something.
    ///
    /// # Errors
    /// It, if the ring is full, or long messages that wait in it hold too many bytes.
    pub fn give(&self, hop: Hop) -> Result<(), Hop> {
        let bytes = hop.large();
        let fits = |held: usize| (held == 0 || held + bytes <= LARGE_WAITING).then_some(held + bytes);
        if bytes > 0 && self.large.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return Err(hop);
        }
        self.ring.push(hop).inspect_err(|_| self.let_go(bytes))
    }

    /// The next thing that others gave.
    pub fn take(&self) -> Option<Hop> {
        self.ring.pop().inspect(|hop| self.let_go(hop.large()))
    }

    fn let_go(&self, bytes: usize) {
        if bytes > 0 {
            self.large.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// How many things others may give before it takes one.
    pub fn places(&self) -> usize {
        self.ring.capacity()
    }

    /// Whether others gave nothing.
    pub fn has_no_hops(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.notices.is_empty() && self.questions.is_empty()
    }

    /// The owner says that it is about to sleep. It must look into the mailbox once more after this.
    pub fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `rouse`: either the giver sees the flag or the owner sees the gift.
        fence(Ordering::SeqCst);
    }

    /// The owner is awake.
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the owner if it sleeps. To be called after something was put in.
    pub fn rouse(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.wake.ring();
        }
    }
}

/// Shared by the workers and the handles.
pub struct Shared<N> {
    /// One per worker.
    pub mailboxes: Vec<Mailbox<N>>,
    /// One per worker.
    pub counters: Vec<Arc<Counters>>,
    /// Caps and directory of streams.
    pub streams: Arc<StreamShared>,
    /// The listeners with their actual addresses.
    pub listeners: Vec<Listener>,
    /// The datagram sockets of each worker, to ask the kernel about.
    pub datagram_sockets: Vec<Vec<Weak<OwnedFd>>>,
    /// What has the kernel drop datagrams in an overload, once it is there.
    pub sieves: Arc<OnceLock<Sieves>>,
    /// Datagrams that the workers' sockets were seen to have lost, without those that the overload program
    /// dropped.
    pub lost: AtomicU64,
    /// Accept nothing new.
    pub drain: AtomicBool,
    /// End.
    pub stop: AtomicBool,
    /// How many phases of their end the workers have begun, all together.
    pub parted: AtomicUsize,
    /// Workers that run.
    pub live: AtomicUsize,
    /// Workers that panicked.
    pub panics: Mutex<Vec<WorkerPanic>>,
}

impl<N> Shared<N> {
    /// Mailboxes and counters for as many workers as have datagram sockets.
    pub fn new(
        listeners: Vec<Listener>,
        datagram_sockets: Vec<Vec<Weak<OwnedFd>>>,
        sieves: Arc<OnceLock<Sieves>>,
        streams: StreamShared,
        ring: usize,
        notices: usize,
    ) -> io::Result<Shared<N>> {
        let workers = datagram_sockets.len();
        Ok(Shared {
            mailboxes: (0..workers).map(|_| Mailbox::new(ring, notices)).collect::<io::Result<_>>()?,
            counters: (0..workers).map(|_| Arc::default()).collect(),
            streams: Arc::new(streams),
            listeners,
            datagram_sockets,
            sieves,
            lost: AtomicU64::new(0),
            drain: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            parted: AtomicUsize::new(0),
            live: AtomicUsize::new(workers),
            panics: Mutex::new(Vec::new()),
        })
    }

    /// Whether every worker that runs has begun this phase of its end.
    pub fn have_parted(&self, phase: usize) -> bool {
        self.parted.load(Ordering::SeqCst) >= phase * self.live.load(Ordering::SeqCst)
    }

    /// Sets a flag and makes every worker look at it.
    pub fn raise(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::SeqCst);
        for mailbox in &self.mailboxes {
            mailbox.wake.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ListenerId;

    fn message(len: usize) -> Hop {
        let flow = Flow::udp(ListenerId(0), "127.0.0.1:9".parse().expect("an address"));
        Hop::Message { flow, bytes: vec![0; len], from: 0, arrived: None }
    }

    #[test]
    fn long_messages_in_a_ring_are_bounded_by_bytes() {
        let mailbox = Mailbox::<()>::new(1_000, 1).expect("a mailbox");
        let taken = (0..1_000).filter(|_| mailbox.give(message(60_000)).is_ok()).count();
        assert_eq!(taken, LARGE_WAITING / 60_000);
        assert!(mailbox.give(message(SMALL)).is_ok(), "short ones are few bytes");
        assert!(mailbox.take().is_some() && mailbox.give(message(60_000)).is_ok());
        while mailbox.take().is_some() {}
        assert_eq!(mailbox.large.load(Ordering::Relaxed), 0);
        // One alone is taken whatever its length, or it would never be.
        assert!(mailbox.give(message(LARGE_WAITING + 1)).is_ok());
        assert!(mailbox.give(message(SMALL + 1)).is_err());
        assert!(mailbox.take().is_some() && mailbox.give(message(SMALL + 1)).is_ok());
    }

    #[test]
    fn full_ring_holds_no_bytes_for_what_it_refused() {
        let mailbox = Mailbox::<()>::new(1, 1).expect("a mailbox");
        assert!(mailbox.give(message(3_000)).is_ok() && mailbox.give(message(4_000)).is_err());
        assert_eq!(mailbox.large.load(Ordering::Relaxed), 3_000);
    }
}
