//! One worker: its event loop.

mod alarm;
mod busy_poll;
mod deferred;
mod dispatch;
mod driver;
mod grain;
mod host;
mod overload;
mod pressure;
mod reading;
mod receiving;
mod records;
mod rings;
mod sleep;
mod web;

use crate::config::RuntimeConfig;
use crate::counters::Counters;
use crate::listen::WorkerSockets;
use crate::monotonic_now;
use crate::shared::{Hop, Shared};
use crate::sys::{Event, Interest, Poller};
use crate::transport::stream::{Reason, Streams, Ticket, answer, handshakes, hold_up, sharing};
use crate::transport::udp::Datagrams;
use driver::Driver;
pub use host::{Generating, Host, Notice, Serving};
use overload::Overload;
use rings::Rings;
use sleep::{Sleep, Wait, Woken};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::{Load, Machine, Time};

/// Kinds of registration, in the upper 16 bits of what epoll reports; a kind's number is below.
const KIND_SHIFT: u32 = 48;
const KIND_CONN: u64 = 0;
const KIND_UDP: u64 = 1;
const KIND_LISTENER: u64 = 2;
const KIND_WAKE: u64 = 3;
const KIND_ALARM: u64 = 4;

/// Hops and notices taken in one round before sockets get their turn.
const HOP_BUDGET: usize = 256;
/// How long a worker that ends waits for the others' answers on its connections.
const PARTING: Duration = Duration::from_millis(100);
/// Rounds of reporting failures whose answers fail again, before sockets get their turn.
const SETTLE_ROUNDS: usize = 4;
/// Reports taken from epoll at a time.
const EVENTS: usize = 256;

/// One thread's worth of the runtime.
pub struct Worker<H: Host> {
    driver: Driver<H>,
    poller: Poller,
    sleep: Sleep,
    overload: Overload,
    counters: Arc<Counters>,
    datagrams: Datagrams,
    streams: Streams,
    /// Messages (or keepalives) of one connection handled before others get their turn.
    work_budget: u32,
    max_message: usize,
    drained: bool,
}

impl<H: Host> Worker<H> {
    /// Worker number `me` with its sockets registered, which the kernel has `steered` datagrams into or not;
    /// nothing runs yet.
    pub fn new(
        me: u16,
        host: H,
        sockets: WorkerSockets,
        (config, steered): (&RuntimeConfig, bool),
        shared: Arc<Shared<Notice<H>>>,
    ) -> io::Result<Worker<H>> {
        let now = monotonic_now();
        let poller = Poller::new(EVENTS)?;
        let counters = Arc::clone(&shared.counters[usize::from(me)]);
        let wake = &shared.mailboxes[usize::from(me)].wake;
        poller.add(wake.as_fd(), Interest::EDGE, KIND_WAKE << KIND_SHIFT)?;
        let workers = shared.mailboxes.len() as u16;
        let mut streams = Streams::new(
            (me, workers),
            (config.streams, config.patience),
            Arc::clone(&shared.streams),
            Arc::clone(&counters),
            now,
        )?;
        for (index, listening) in sockets.tcp.into_iter().enumerate() {
            streams.listen(listening, (KIND_LISTENER << KIND_SHIFT) | index as u64, &poller)?;
        }
        let alarm = (&poller, KIND_ALARM << KIND_SHIFT);
        let sleep = Sleep::new(config, !sockets.udp.is_empty(), alarm, Arc::clone(&counters), now)?;
        let watch = (&poller, |number| (KIND_UDP << KIND_SHIFT) | number as u64);
        let datagrams = Datagrams::new(config, sockets.udp, Arc::clone(&counters), watch, now)?;
        let rings = Rings::new(me, shared);
        let own = Arc::clone(&counters);
        let told = (steered, datagrams.are_stamped());
        Ok(Worker {
            driver: Driver::new(host, rings, counters, told, now),
            poller,
            sleep,
            overload: Overload::new(config.patience),
            counters: own,
            datagrams,
            streams,
            work_budget: config.streams.work_budget.max(1),
            max_message: config.streams.max_message,
            drained: false,
        })
    }

    /// The event loop, until the runtime is told to stop.
    ///
    /// # Errors
    /// If epoll itself fails, which no input can cause.
    pub fn run(mut self) -> io::Result<()> {
        self.sleep.begin();
        while !self.driver.rings().shared().stop.load(Ordering::Relaxed) {
            if !self.drained && self.driver.rings().shared().drain.load(Ordering::Relaxed) {
                self.drained = true;
                self.streams.stop_accepting(&self.poller, self.driver.now());
            }
            match self.wait()? {
                Woken::Events(events) => {
                    for index in 0..events {
                        if let Some(event) = self.poller.event(index) {
                            self.event(event);
                        }
                    }
                }
                Woken::Grain => {
                    for number in 0..self.datagrams.count() {
                        if self.datagrams.is_lively(number) {
                            self.receive_datagrams(number);
                        }
                    }
                }
            }
            self.take_hops();
            self.take_ready();
            self.take_notices();
            self.take_timers();
            self.end_round();
            self.settle();
            self.take_handshakes();
        }
        self.part();
        self.streams.close_all(&self.poller, self.driver.now());
        Ok(())
    }

    /// Answers on its connections what other workers still have of them. First all take what they were given
    /// before any of them stopped reading, then the answers to that, for a moment at most.
    fn part(&mut self) {
        let until = monotonic_now() + PARTING;
        for phase in 1..=2 {
            self.driver.rings().shared().parted.fetch_add(1, Ordering::SeqCst);
            loop {
                let all = self.driver.rings().shared().have_parted(phase);
                self.driver.set_now(monotonic_now());
                self.take_hops();
                self.end_round();
                self.settle();
                if (all && self.driver.rings().mailbox().has_no_hops()) || self.driver.now() > until {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    /// Waits for the next report or deadline and reads the clock.
    fn wait(&mut self) -> io::Result<Woken> {
        let (wait, now) = (self.may_wait(), self.driver.now());
        let mailbox = self.driver.rings().mailbox();
        let few = || self.datagrams.may_be_looked_at();
        let (woken, now, load) = self.sleep.sleep(wait, now, &mut self.poller, mailbox, few)?;
        self.driver.set_now(now);
        if let Some(load) = load {
            self.pace(load);
        }
        Ok(woken)
    }

    /// How long the worker may wait.
    fn may_wait(&mut self) -> Wait {
        if handshakes::wait(&self.streams) {
            return Wait::No;
        }
        if !self.streams.news().is_empty() || self.datagrams.has_reports() || self.streams.turns().are_due() {
            return Wait::No;
        }
        let deadline = match (self.driver.machine().next_deadline(), self.streams.next_deadline()) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(Time::FAR),
        };
        if deadline <= self.driver.now() {
            return Wait::No;
        }
        match self.streams.turns().wait_for_ring() || self.driver.rings().has_deferred() {
            true => Wait::Shortly,
            false => Wait::Until(deadline),
        }
    }

    /// Tells the machine how the worker keeps up, and the kernel what the machine makes of it.
    fn pace(&mut self, mut load: Load) {
        let (rings, now) = (self.driver.rings(), self.driver.now());
        self.overload.measure(&mut load, rings.shared(), rings.me(), self.datagrams.descriptors());
        self.driver.drive(|machine, now, _| machine.pace(now, &load));
        let machine = self.driver.machine();
        self.overload.follow(|| machine.sieve(), now, self.datagrams.descriptors());
        self.datagrams.fit_buffers(now);
    }

    fn event(&mut self, event: Event) {
        let number = event.data & ((1 << KIND_SHIFT) - 1);
        match event.data >> KIND_SHIFT {
            KIND_CONN => self.stream_event(number, event),
            KIND_UDP => {
                if event.dead {
                    self.datagrams.collect(number as usize);
                }
                if event.writable {
                    self.datagrams.writable(number as usize, &self.poller);
                }
                if event.readable {
                    self.receive_datagrams(number as usize);
                }
            }
            KIND_LISTENER if sharing::shares_socket(&self.streams, number as usize) => {
                self.read_associations(number as usize);
            }
            KIND_LISTENER => self.streams.accept(number as usize, &self.poller, self.driver.now()),
            // The mailbox and the deadlines are looked at in every round.
            _ => {}
        }
    }

    fn stream_event(&mut self, sequence: u64, event: Event) {
        let id = self.streams.id_of(sequence);
        if event.writable {
            self.streams.writable(id, &self.poller, self.driver.now());
        }
        let Some(conn) = self.streams.conn(id) else { return };
        let (ended, now) = (conn.has_ended(), self.driver.now());
        if event.dead && (ended || conn.half_made().is_some()) {
            // Nothing is read any more, so nobody else would find out.
            self.streams.close(id, Reason::Peer);
        } else if event.readable && !ended && !handshakes::defers(&mut self.streams, id, now) {
            self.read_stream(id);
        }
    }

    /// Takes what other workers have given.
    fn take_hops(&mut self) {
        for _ in 0..HOP_BUDGET {
            let Some(hop) = self.driver.rings().mailbox().take() else { break };
            let now = self.driver.now();
            match hop {
                Hop::Message { flow, bytes, from, arrived } => {
                    self.driver.take_over(flow, &bytes, arrived);
                    self.driver.rings().give_back(from, bytes);
                }
                Hop::Send { conn, bytes, ticket } => {
                    self.streams.write(conn, &bytes, ticket, &self.poller, now);
                    self.driver.rings().give_back(ticket.origin, bytes);
                }
                Hop::Close(conn) => self.streams.close_gently(conn, Reason::Asked, &self.poller, now),
                Hop::Release(conn) => self.streams.release(conn, now),
                Hop::Failed(token) => self.driver.drive(|m, now, out| m.undeliverable(now, token, out)),
                Hop::CutOff(token) => self.driver.drive(|m, now, out| m.cut_off(now, token, out)),
                Hop::Returned(to, quoted) => {
                    self.driver.drive(|m, now, out| m.returned(now, to, &quoted, out))
                }
                Hop::Settle(conn) => self.driver.rings_mut().settle(conn),
                Hop::Settled(conn) => self.streams.settled(conn, &self.poller, now),
                Hop::Identified(conn, identity) => {
                    self.driver.drive(|m, now, _| m.identified(now, conn, &identity));
                }
                Hop::Gone(conn) => self.driver.drive(|m, now, out| m.disconnected(now, conn, out)),
            }
        }
        self.dispatch_unless_dense();
    }

    /// Takes the notices that are there now. Those that come meanwhile wait for the next round: each
    /// may take its time, and somebody who posts the next as soon as one is done would keep the sockets
    /// waiting.
    fn take_notices(&mut self) {
        // One a round: each looks at many connections.
        if let Some(question) = self.driver.rings().mailbox().questions.pop() {
            answer(&self.streams, question, self.driver.now());
        }
        for _ in 0..self.driver.rings().mailbox().notices.len().min(HOP_BUDGET) {
            let Some(notice) = self.driver.rings().mailbox().notices.pop() else { break };
            self.driver.notice(notice);
        }
        self.dispatch_unless_dense();
    }

    fn take_timers(&mut self) {
        let now = self.driver.now();
        if self.driver.machine().next_deadline().is_some_and(|at| at <= now) {
            self.sleep.note(1);
            self.driver.drive(|machine, now, out| machine.timeout(now, out));
        }
        self.dispatch();
        self.streams.expire(&self.poller, now);
    }

    /// Lets the machine answer what it has kept for the end of the round.
    fn end_round(&mut self) {
        self.driver.drive(|machine, now, out| machine.round_ends(now, out));
        self.dispatch();
    }

    /// Sends what is queued on streams, and reports what could not be sent and what is gone. The
    /// reports may make the machine send more, so this goes round a few times.
    fn settle(&mut self) {
        let now = self.driver.now();
        for _ in 0..SETTLE_ROUNDS {
            self.streams.flush(&self.poller, now);
            if self.streams.news().is_empty() && !self.datagrams.has_reports() {
                break;
            }
            self.report_returned();
            self.introduce();
            let news = std::mem::take(self.streams.news());
            for ticket in news.failed {
                self.tell_origin(ticket, Hop::Failed(ticket.token), |m, now, token, out| {
                    m.undeliverable(now, token, out);
                });
            }
            for ticket in news.cut_off {
                self.tell_origin(ticket, Hop::CutOff(ticket.token), |m, now, token, out| {
                    m.cut_off(now, token, out);
                });
            }
            for conn in news.gone {
                self.driver.drive(|machine, now, out| machine.disconnected(now, conn, out));
                self.driver.rings_mut().tell_gone(conn);
            }
            self.dispatch();
        }
        self.streams.flush(&self.poller, now);
        let rings = self.driver.rings_mut();
        for conn in self.streams.take_ending() {
            rings.ask_to_settle(conn);
        }
        rings.tell_settled();
        rings.retry();
        rings.rouse();
        hold_up(&mut self.streams, self.driver.rings().defers_most());
    }

    /// Passes the identities of peers to all machines, before the first messages of their connections.
    fn introduce(&mut self) {
        while let Some((conn, identity)) = self.streams.news().identified.pop() {
            self.driver.drive(|machine, now, _| machine.identified(now, conn, &identity));
            self.driver.rings_mut().tell_identity(conn, &identity);
        }
    }

    /// Tells the machine that wants to hear of a message what became of it: by `report` if it is ours.
    fn tell_origin(
        &mut self,
        ticket: Ticket,
        hop: Hop,
        report: impl FnOnce(&mut H::Machine, Time, u64, &mut wire::Outbox),
    ) {
        if ticket.origin == self.driver.rings().me() {
            self.driver.drive(|machine, now, out| report(machine, now, ticket.token, out));
        } else {
            self.driver.rings_mut().tell(ticket.origin, hop);
        }
    }
}
