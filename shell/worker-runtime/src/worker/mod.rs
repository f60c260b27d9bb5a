//! One worker: its event loop.

mod alarm;
mod datagrams;
mod dispatch;
mod grain;
mod habit;
mod links;
mod peers;
mod pressure;
mod reading;
mod returned;
mod room;
mod spin;
mod stamps;

use crate::config::RuntimeConfig;
use crate::counters::Counters;
use crate::listen::WorkerSockets;
use crate::monotonic_now;
use crate::shared::{Hop, Shared};
use crate::sieve::Sieve;
use crate::streams::{Reason, State, Streams};
use crate::sys::{self, Event, Interest, Poller, RecvBatch, SendBatch};
use alarm::Alarm;
use datagrams::Datagrams;
use grain::Grain;
use links::Links;
use pressure::{Backlog, Pressure};
use room::Room;
use spin::Spin;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::{ConnId, Load, Machine, Outbox, Time};

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

/// When a worker looks again whether another one has room in its ring, in milliseconds.
const LOOK_AGAIN: i32 = 1;

/// How long a worker may sleep.
enum Patience {
    /// Until epoll reports something, or so many milliseconds; -1 for ever.
    Milliseconds(i32),
    /// It has slept already.
    Over,
}

/// What ended a worker's sleep.
enum Woken {
    /// So many reports.
    Events(usize),
    /// The end of a grain: any socket may have something.
    Grain,
}

/// One thread's worth of the runtime.
pub struct Worker<M: Machine> {
    machine: M,
    out: Outbox,
    links: Links<M::Notice>,
    counters: Arc<Counters>,
    poller: Poller,
    alarm: Alarm,
    grain: Grain,
    spin: Spin,
    pressure: Pressure,
    backlog: Backlog,
    room: Room,
    /// What has the kernel drop datagrams in an overload.
    sieve: Option<Sieve>,
    datagrams: Datagrams,
    recv: RecvBatch,
    send: SendBatch,
    streams: Streams,
    /// Whether what comes in datagrams is most probably this worker's.
    steered: bool,
    /// Whether the kernel notes when datagrams come.
    stamped: bool,
    /// How long the sender of a message repeats it.
    patience: Duration,
    work_budget: u32,
    max_message: usize,
    now: Time,
    drained: bool,
    /// The token of the last message on a connection of its own, and that connection.
    fresh: Option<(u64, ConnId)>,
    /// Some input is left over only because another worker's ring is full.
    ring_full: bool,
}

impl<M: Machine> Worker<M> {
    /// Worker number `me` with its sockets registered, which the kernel has `steered` datagrams into or not;
    /// nothing runs yet.
    pub fn new(
        me: u16,
        machine: M,
        mut sockets: WorkerSockets,
        (config, steered): (&RuntimeConfig, bool),
        shared: Arc<Shared<M::Notice>>,
    ) -> io::Result<Worker<M>> {
        let now = monotonic_now();
        let poller = Poller::new(EVENTS)?;
        let counters = Arc::clone(&shared.counters[usize::from(me)]);
        let wake = &shared.mailboxes[usize::from(me)].wake;
        poller.add(wake.as_fd(), Interest::EDGE, KIND_WAKE << KIND_SHIFT)?;
        let alarm = Alarm::new(config.exact_deadlines, &poller, KIND_ALARM << KIND_SHIFT)?;
        let workers = shared.mailboxes.len() as u16;
        let mut streams = Streams::new(
            (me, workers),
            (config.streams, config.patience),
            Arc::clone(&shared.streams),
            Arc::clone(&counters),
            now,
        )?;
        for (index, (id, fd)) in sockets.tcp.into_iter().enumerate() {
            streams.listen(fd, id, (KIND_LISTENER << KIND_SHIFT) | index as u64, &poller)?;
        }
        // Of a message on a stream nobody knows when it came: its wait would count as the peer's.
        let grain = if sockets.udp.is_empty() { Duration::ZERO } else { config.grain };
        let stamped = config.stamps || !grain.is_zero();
        sockets.udp.sort_by_key(|socket| !socket.lent.hears());
        let hearing = sockets.udp.iter().filter(|socket| socket.lent.hears());
        let size = hearing.clone().map(|socket| sys::receive_buffer(socket.fd.as_fd())).min().unwrap_or(0);
        let room = Room::new(config.udp_hold, hearing.count(), size, config.udp_buffer_most, now);
        let mut datagrams = Datagrams::new(config, Arc::clone(&counters));
        for (index, socket) in sockets.udp.into_iter().enumerate() {
            let data = (KIND_UDP << KIND_SHIFT) | index as u64;
            poller.add(socket.fd.as_fd(), Interest::READ, data)?;
            datagrams.add(socket, data);
        }
        Ok(Worker {
            machine,
            out: Outbox::new(),
            links: Links::new(me, shared),
            counters,
            poller,
            alarm,
            grain: Grain::new(grain, now),
            spin: Spin::new(config.busy_poll),
            pressure: Pressure::new(now),
            backlog: Backlog::default(),
            room,
            sieve: None,
            datagrams,
            recv: RecvBatch::new(config.batch, config.together || stamped),
            send: SendBatch::new(config.batch, config.segment.clone()),
            streams,
            steered,
            stamped,
            patience: config.patience,
            work_budget: config.streams.work_budget.max(1),
            max_message: config.streams.max_message,
            now,
            drained: false,
            fresh: None,
            ring_full: false,
        })
    }

    /// The event loop, until the runtime is told to stop.
    ///
    /// # Errors
    /// If epoll itself fails, which no input can cause.
    pub fn run(mut self) -> io::Result<()> {
        if self.grain.is_there() {
            sys::sleep_exactly();
        }
        while !self.links.shared().stop.load(Ordering::Relaxed) {
            if !self.drained && self.links.shared().drain.load(Ordering::Relaxed) {
                self.drained = true;
                self.streams.stop_accepting(&self.poller, self.now);
            }
            match self.sleep()? {
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
        }
        self.part();
        self.streams.close_all();
        Ok(())
    }

    /// Answers on its connections what other workers still have of them. First all take what they were given
    /// before any of them stopped reading, then the answers to that, for a moment at most.
    fn part(&mut self) {
        let until = monotonic_now() + PARTING;
        for phase in 1..=2 {
            self.links.shared().parted.fetch_add(1, Ordering::SeqCst);
            loop {
                let all = self.links.shared().have_parted(phase);
                self.now = monotonic_now();
                self.take_hops();
                self.end_round();
                self.settle();
                if (all && self.links.mailbox().has_no_hops()) || self.now > until {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    /// Waits for the next report or deadline and reads the clock.
    fn sleep(&mut self) -> io::Result<Woken> {
        let mut timeout = match self.patience()? {
            Patience::Milliseconds(timeout) => timeout,
            Patience::Over => {
                self.counters.rounds.one();
                self.now = monotonic_now();
                return Ok(Woken::Grain);
            }
        };
        let idle = timeout < 0 && self.spin.is_there();
        let matters = self.pressure.waits(self.counters.taken());
        let before = (idle || matters).then(monotonic_now);
        let mut events = 0;
        if let Some(until) = before.filter(|_| idle).and_then(|now| self.spin.until(now)) {
            events = self.look(until)?;
            timeout = if events > 0 || !self.links.mailbox().is_empty() { 0 } else { timeout };
        }
        let mailbox = self.links.mailbox();
        if timeout != 0 {
            mailbox.fall_asleep();
            if !mailbox.is_empty() {
                timeout = 0;
            }
        }
        if events == 0 {
            events = self.poller.wait(timeout)?;
            self.counters.syscalls.one();
        }
        mailbox.wake_up();
        self.counters.rounds.one();
        self.now = monotonic_now();
        if let Some(before) = before.filter(|_| idle) {
            self.spin.waited(self.now.since(before));
        }
        if let Some(load) = self.pressure.woke(before.filter(|_| matters), self.now) {
            self.pace(load);
        }
        Ok(Woken::Events(events))
    }

    /// Looks for reports and for what other workers give, until there is something or the time is up. How
    /// many reports there are.
    fn look(&mut self, until: Time) -> io::Result<usize> {
        let began = monotonic_now();
        loop {
            let events = self.poller.wait(0)?;
            let now = monotonic_now();
            if events > 0 || now >= until || !self.links.mailbox().is_empty() {
                self.counters.busy_polled_us.add(now.since(began).as_micros() as u64);
                return Ok(events);
            }
        }
    }

    /// Tells the machine how the worker keeps up, and the kernel what the machine makes of it.
    fn pace(&mut self, mut load: Load) {
        // It is loaded while the workers run.
        if self.sieve.is_none() {
            let links = &self.links;
            self.sieve =
                links.shared().sieves.get().map(|sieves| sieves.clone().of(links.me(), self.patience));
        }
        load.sieved = self.sieve.as_mut().and_then(Sieve::dropped);
        load.waiting = self.backlog.look(&load, self.datagrams.descriptors());
        self.machine.pace(self.now, &load);
        if let Some(sieve) = &mut self.sieve {
            sieve.follow(self.machine.sieve(), self.now, self.datagrams.descriptors());
        }
        self.datagrams.connect_busy(self.now, &self.links.shared().listeners);
        let (datagrams, bytes) = self.counters.datagrams();
        if let Some(wanted) = self.room.wants(self.now, datagrams, bytes) {
            self.make_room(wanted);
        }
    }

    /// More comes than the sockets' buffers hold for long, or much less.
    #[cold]
    fn make_room(&mut self, wanted: usize) {
        let got = self.datagrams.descriptors().map(|socket| sys::set_receive_buffer(socket, wanted)).min();
        let (wanted_kb, got_kb) = (wanted >> 10, got.unwrap_or(0) >> 10);
        if self.room.got(got.unwrap_or(0)) {
            tracing::debug!(got_kb, "receive buffers for datagrams");
        } else {
            tracing::warn!(
                wanted_kb,
                got_kb,
                "the system gives no larger receive buffers (net.core.rmem_max), so datagrams are lost where the process \
                 stands still for a moment"
            );
        }
    }

    /// How long the worker may sleep. The alarm is set to the next deadline.
    fn patience(&mut self) -> io::Result<Patience> {
        let unreported = self.streams.has_news() || !self.datagrams.reports.is_empty();
        if unreported || (!self.streams.ready.is_empty() && !self.ring_full) {
            return Ok(Patience::Milliseconds(0));
        }
        let deadline = match (self.machine.next_deadline(), self.streams.next_deadline()) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(Time::FAR),
        };
        if deadline <= self.now {
            return Ok(Patience::Milliseconds(0));
        }
        if self.ring_full || self.links.has_deferred() {
            // Another worker is behind, and will not tell when it has room.
            return Ok(Patience::Milliseconds(LOOK_AGAIN));
        }
        if self.grain.sleep(self.now) {
            self.counters.syscalls.one();
            // Sockets that have something in nearly every grain are looked at without asking epoll which.
            let asks = self.grain.asks() || !self.datagrams.may_be_looked_at();
            return Ok(if asks { Patience::Milliseconds(0) } else { Patience::Over });
        }
        if deadline != Time::FAR && self.alarm.cover(self.now, deadline)? {
            self.counters.syscalls.one();
        }
        Ok(Patience::Milliseconds(-1))
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
            KIND_LISTENER => self.streams.accept(number as usize, &self.poller, self.now),
            // The mailbox and the deadlines are looked at in every round.
            _ => {}
        }
    }

    fn stream_event(&mut self, sequence: u64, event: Event) {
        let id = self.streams.id_of(sequence);
        if event.writable {
            self.streams.writable(id, &self.poller, self.now);
        }
        let Some(conn) = self.streams.get(id) else { return };
        let ended = matches!(conn.state, State::HalfClosed | State::Ending);
        if event.dead && ended {
            // Nothing is read any more, so nobody else would find out.
            self.streams.close(id, Reason::Peer);
        } else if event.readable && !ended {
            self.read_stream(id);
        }
    }

    /// Takes what other workers have given.
    fn take_hops(&mut self) {
        for _ in 0..HOP_BUDGET {
            let Some(hop) = self.links.mailbox().take() else { break };
            match hop {
                Hop::Message { flow, bytes, from, arrived } => {
                    self.counters.hops_in.one();
                    match arrived {
                        Some(at) if at < self.now => {
                            self.machine.receive_late(self.now, at, flow, &bytes, &mut self.out);
                        }
                        // It may have come since this round began.
                        _ => self.machine.receive(self.now, flow, &bytes, &mut self.out),
                    }
                    self.links.give_back(from, bytes);
                }
                Hop::Send { conn, bytes, ticket } => {
                    self.streams.write(conn, &bytes, ticket, &self.poller, self.now);
                    self.links.give_back(ticket.origin, bytes);
                }
                Hop::Close(conn) => self.streams.close_gently(conn, Reason::Asked, &self.poller, self.now),
                Hop::Release(conn) => self.streams.release(conn, self.now),
                Hop::Failed(token) => self.machine.undeliverable(self.now, token, &mut self.out),
                Hop::CutOff(token) => self.machine.cut_off(self.now, token, &mut self.out),
                Hop::Returned(to, quoted) => self.machine.returned(self.now, to, &quoted, &mut self.out),
                Hop::Settle(conn) => self.links.settle(conn),
                Hop::Settled(conn) => self.streams.settled(conn, &self.poller, self.now),
                Hop::Gone(conn) => self.machine.disconnected(self.now, conn, &mut self.out),
            }
        }
        self.dispatch_unless_dense();
    }

    /// Takes the notices that are there now. Those that come meanwhile wait for the next round: each
    /// may take its time, and somebody who posts the next as soon as one is done would keep the sockets
    /// waiting.
    fn take_notices(&mut self) {
        for _ in 0..self.links.mailbox().notices.len().min(HOP_BUDGET) {
            let Some(notice) = self.links.mailbox().notices.pop() else { break };
            self.counters.notices.one();
            self.machine.notice(self.now, notice, &mut self.out);
        }
        self.dispatch_unless_dense();
    }

    fn take_timers(&mut self) {
        if self.machine.next_deadline().is_some_and(|at| at <= self.now) {
            self.grain.note(1);
            self.machine.timeout(self.now, &mut self.out);
        }
        self.dispatch();
        self.streams.expire(&self.poller, self.now);
    }

    /// Lets the machine answer what it has kept for the end of the round.
    pub(super) fn end_round(&mut self) {
        self.machine.round_ends(self.now, &mut self.out);
        self.dispatch();
    }

    /// Sends what is queued on streams, and reports what could not be sent and what is gone. The
    /// reports may make the machine send more, so this goes round a few times.
    fn settle(&mut self) {
        for _ in 0..SETTLE_ROUNDS {
            self.streams.flush(&self.poller, self.now);
            if !self.streams.has_news() && self.datagrams.reports.is_empty() {
                break;
            }
            self.report_returned();
            for ticket in std::mem::take(&mut self.streams.failed) {
                if ticket.origin == self.links.me() {
                    self.machine.undeliverable(self.now, ticket.token, &mut self.out);
                } else {
                    self.links.tell(ticket.origin, Hop::Failed(ticket.token));
                }
            }
            for ticket in std::mem::take(&mut self.streams.cut_off) {
                if ticket.origin == self.links.me() {
                    self.machine.cut_off(self.now, ticket.token, &mut self.out);
                } else {
                    self.links.tell(ticket.origin, Hop::CutOff(ticket.token));
                }
            }
            for conn in std::mem::take(&mut self.streams.gone) {
                self.machine.disconnected(self.now, conn, &mut self.out);
                self.links.tell_gone(conn);
            }
            self.dispatch();
        }
        self.streams.flush(&self.poller, self.now);
        for conn in self.streams.take_ending() {
            self.links.ask_to_settle(conn);
        }
        self.links.tell_settled();
        self.links.retry();
        self.links.rouse();
    }
}
