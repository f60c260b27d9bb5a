//! The control side: starting, posting, counting, ending.

use crate::config::{Listener, PanicHook, RuntimeConfig, StartError, WorkerPanic};
use crate::counters::Counts;
use crate::listen::{Bound, sharers};
use crate::shared::Shared;
use crate::sys;
use crate::transport::sctp::Associations;
use crate::transport::stream::{Caps, Directory, Question, StreamShared};
use crate::worker::{Host, Notice, Worker};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use wire::Machine;

/// Running workers. Dropping it leaves them running; [`Runtime::join`] waits for their end.
pub struct Runtime<N: Send + 'static> {
    handle: RuntimeHandle<N>,
    threads: Vec<JoinHandle<()>>,
}

impl<N: Send + 'static> Runtime<N> {
    /// Opens the listeners and starts one thread per machine. Where the machines need the addresses
    /// that the listeners got, use [`Bound::new`] and [`Bound::start`].
    ///
    /// # Errors
    /// A listener that cannot be opened, with what to do about it; or no thread to be had.
    pub fn start<M>(config: RuntimeConfig, machines: Vec<M>) -> Result<Runtime<N>, StartError>
    where
        M: Machine<Notice = N> + Send + 'static,
    {
        Bound::new(config, machines.len())?.start(machines)
    }

    pub(crate) fn run<H>(bound: Bound, machines: Vec<H>) -> Result<Runtime<N>, StartError>
    where
        H: Host,
        H::Machine: Machine<Notice = N>,
    {
        let Bound { config, listeners, sockets, steered, sieves } = bound;
        if machines.len() != sockets.len() {
            return Err(StartError::Unusable("there must be as many machines as workers"));
        }
        let weak =
            sockets.iter().map(|s| s.udp.iter().map(|socket| Arc::downgrade(&socket.fd)).collect()).collect();
        let open = sockets.iter().map(|worker| worker.udp.len() + worker.tcp.len()).sum();
        let streams = StreamShared {
            caps: Caps::new(
                connection_cap(config.streams.max_connections, open),
                config.streams.max_per_source,
            )
            .with_handshakes(config.streams.max_handshakes, config.streams.max_handshakes_per_source),
            directory: Directory::new(),
            tls: config.tls.clone(),
            tls_client: config.tls_client.clone(),
            websocket: config.websocket.clone(),
            websocket_client: config.websocket_client.clone(),
            sharers: sharers(&listeners),
            sctp: Associations::new(&config.sctp),
        };
        let system = |what| move |error| StartError::System { what, error };
        let shared = Shared::new(listeners, weak, sieves, streams, config.ring, config.notices)
            .map_err(system("an eventfd"))?;
        let shared = Arc::new(shared);
        let mut workers = Vec::with_capacity(machines.len());
        for (index, (machine, sockets)) in machines.into_iter().zip(sockets).enumerate() {
            let worker = Worker::new(index as u16, machine, sockets, (&config, steered), Arc::clone(&shared))
                .map_err(system("a worker's event queue"))?;
            workers.push(worker);
        }
        let threads = spawn_all(workers, &config, &shared).map_err(system("a worker's thread"))?;
        Ok(Runtime { handle: RuntimeHandle { shared }, threads })
    }

    /// A handle, to be cloned and kept anywhere.
    pub fn handle(&self) -> RuntimeHandle<N> {
        self.handle.clone()
    }

    /// Waits until every worker has ended, after [`RuntimeHandle::shutdown`] or a panic.
    ///
    /// # Errors
    /// The workers that ended by a panic.
    pub fn join(self) -> Result<(), Vec<WorkerPanic>> {
        for thread in self.threads {
            // A panic of the worker has been caught and noted; one of the hook is not ours.
            let _ = thread.join();
        }
        let panics = self.handle.panics();
        if panics.is_empty() { Ok(()) } else { Err(panics) }
    }
}

/// Descriptors left to the rest of the process: files, databases, the control side.
const OTHER_DESCRIPTORS: u64 = 512;

/// The cap on connections, lowered to what the process has descriptors for beside its `open` sockets.
fn connection_cap(wanted: usize, open: usize) -> usize {
    let Some(descriptors) = sys::raise_descriptor_limit() else { return wanted };
    let room = room_for_connections(descriptors, open);
    if room < wanted {
        log_events::workers::descriptors_short(wanted, room);
    }
    room.min(wanted)
}

/// How many connections a process has descriptors for; one at least.
fn room_for_connections(descriptors: u64, open: usize) -> usize {
    let others = OTHER_DESCRIPTORS.saturating_add(open as u64);
    usize::try_from(descriptors.saturating_sub(others)).unwrap_or(usize::MAX).max(1)
}

/// Starts the threads, which wait for each other's success: either all run or none has done anything.
fn spawn_all<H: Host>(
    workers: Vec<Worker<H>>,
    config: &RuntimeConfig,
    shared: &Arc<Shared<Notice<H>>>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::with_capacity(workers.len());
    let mut gates = Vec::with_capacity(workers.len());
    for (index, worker) in workers.into_iter().enumerate() {
        let cpu =
            if config.pin.is_empty() { None } else { config.pin.get(index % config.pin.len()).copied() };
        let (hook, shared, first) = (config.on_panic.clone(), Arc::clone(shared), config.first);
        let (gate, go) = mpsc::channel::<()>();
        #[allow(clippy::disallowed_methods, reason = "the runtime's threads are made here")]
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            // An error means that another thread could not be made.
            if go.recv().is_ok() {
                pin(index, cpu);
                go_first(index, first);
                guard(index as u16, worker, &shared, hook.as_ref());
            }
        })?;
        threads.push(thread);
        gates.push(gate);
    }
    for gate in gates {
        let _ = gate.send(());
    }
    Ok(threads)
}

fn pin(worker: usize, cpu: Option<usize>) {
    if let Some(cpu) = cpu
        && let Err(error) = sys::pin_to_cpu(cpu)
    {
        log_events::workers::worker_not_pinned(worker, cpu, &error);
    }
}

/// The kernel's own order does for those that run before other programs.
fn go_first(worker: usize, wanted: bool) {
    if !wanted && let Err(error) = sys::take_short_turns(sys::TURN) {
        tracing::debug!(worker, %error, "the worker waits for others' turns of the processor to end");
    }
    if wanted && let Err(error) = sys::run_first(sys::RUN_FIRST) {
        log_events::workers::worker_not_first(worker, &error);
    }
}

/// Runs a worker and notes how it ends.
fn guard<H: Host>(index: u16, worker: Worker<H>, shared: &Shared<Notice<H>>, hook: Option<&PanicHook>) {
    let result = catch_unwind(AssertUnwindSafe(|| worker.run()));
    shared.live.fetch_sub(1, Ordering::SeqCst);
    let message = match result {
        Ok(Ok(())) => return,
        Ok(Err(error)) => format!("the event queue failed: {error}"),
        Err(payload) => match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(message) => (*message).to_owned(),
                Err(_) => "no message".to_owned(),
            },
        },
    };
    log_events::workers::worker_panicked(index, &message);
    let panic = WorkerPanic { worker: index, message };
    shared.panics.lock().unwrap_or_else(|e| e.into_inner()).push(panic.clone());
    if let Some(hook) = hook {
        hook(&panic);
    }
}

/// Why a notice was not posted. It is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PostError<N> {
    /// The worker's queue is full.
    Full(N),
    /// There is no such worker.
    NoWorker(N),
}

impl<N> fmt::Debug for PostError<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PostError::Full(_) => "Full",
            PostError::NoWorker(_) => "NoWorker",
        })
    }
}

/// A count that was `before` and is now, modulo 2^32, `now`. It may seem to have become less, when what it
/// was made of went on between two looks, or a socket was closed; then it is as before.
fn grown(before: u64, now: u32) -> u64 {
    let more = now.wrapping_sub(before as u32);
    if more < 1 << 31 { before + u64::from(more) } else { before }
}

/// What other threads hold of the running workers.
pub struct RuntimeHandle<N> {
    shared: Arc<Shared<N>>,
}

impl<N> Clone for RuntimeHandle<N> {
    fn clone(&self) -> RuntimeHandle<N> {
        RuntimeHandle { shared: Arc::clone(&self.shared) }
    }
}

impl<N: Send + 'static> RuntimeHandle<N> {
    /// Number of workers.
    pub fn workers(&self) -> u16 {
        self.shared.mailboxes.len() as u16
    }

    /// Number of workers that run.
    pub fn live_workers(&self) -> usize {
        self.shared.live.load(Ordering::SeqCst)
    }

    /// The listeners in the order of their ids, with the addresses and ports they got.
    pub fn listeners(&self) -> &[Listener] {
        &self.shared.listeners
    }

    /// Gives a worker's machine a notice. Never waits.
    ///
    /// # Errors
    /// The notice, if the worker's queue is full or there is no such worker.
    pub fn post(&self, worker: u16, notice: N) -> Result<(), PostError<N>> {
        let Some(mailbox) = self.shared.mailboxes.get(usize::from(worker)) else {
            return Err(PostError::NoWorker(notice));
        };
        mailbox.notices.push(notice).map_err(PostError::Full)?;
        mailbox.rouse();
        Ok(())
    }

    /// Gives every worker's machine a notice, and answers how many took it.
    pub fn post_all(&self, notice: &N) -> usize
    where
        N: Clone,
    {
        (0..self.workers()).filter(|&worker| self.post(worker, notice.clone()).is_ok()).count()
    }

    /// Asks a worker for some of its connections. It answers between two rounds. Never waits.
    ///
    /// # Errors
    /// The question, if too many wait there or there is no such worker.
    pub fn ask_connections(&self, worker: u16, question: Question) -> Result<(), Question> {
        let Some(mailbox) = self.shared.mailboxes.get(usize::from(worker)) else { return Err(question) };
        mailbox.questions.push(question)?;
        mailbox.rouse();
        Ok(())
    }

    /// Why the first connection of a load generator that failed in a handshake of TLS did.
    pub fn tls_fault(&self) -> Option<&str> {
        self.shared.streams.tls_client.as_ref()?.fault()
    }

    /// Why the first connection of a load generator that failed in a handshake of WebSocket did.
    pub fn websocket_fault(&self) -> Option<&str> {
        self.shared.streams.websocket_client.as_ref()?.fault()
    }

    /// The counters of all workers together.
    pub fn counts(&self) -> Counts {
        let counters = self.shared.counters.iter().map(|counters| counters.read());
        let mut counts = counters.fold(Counts::default(), |a, b| a + b);
        let sockets = self.shared.datagram_sockets.iter().flatten().filter_map(Weak::upgrade);
        let dropped = sockets.fold(0u32, |sum, fd| sum.wrapping_add(sys::received(fd.as_fd()).drops));
        counts.udp_sieved = self
            .shared
            .sieves
            .get()
            .map_or(0, |sieves| (0..self.workers()).map(|worker| sieves.dropped(worker)).sum());
        // The kernel counts what it drops by our program with what it has no room for, and of all workers
        // only the sums belong together: without steering a worker's socket gets what is dropped by another's
        // table.
        let lost = dropped.wrapping_sub(counts.udp_sieved as u32);
        let told = |before| Some(grown(before, lost));
        let before = self.shared.lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, told);
        counts.udp_kernel_drops = grown(before.unwrap_or_else(|before| before), lost);
        counts
    }

    /// When a stream connection came last for which there was no room, so that it was refused or an older one
    /// closed.
    pub fn short_of_streams(&self) -> Option<wire::Time> {
        self.shared.streams.caps.short()
    }

    /// Accepts no new stream connections from now on; the rest goes on. For a drain.
    pub fn stop_accepting(&self) {
        self.shared.raise(&self.shared.drain);
    }

    /// Ends the workers. What is queued for streams is offered to the kernel once more.
    pub fn shutdown(&self) {
        self.shared.raise(&self.shared.stop);
    }

    /// The workers that ended by a panic so far.
    pub fn panics(&self) -> Vec<WorkerPanic> {
        self.shared.panics.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_the_kernel_goes_on_when_it_begins_anew() {
        let mut count = 0;
        for (now, expected) in [
            (5, 5),
            (3, 5),
            (1 << 31, 1 << 31),
            (u32::MAX, (1 << 32) - 1),
            (0, 1 << 32),
            (7, (1 << 32) + 7),
            (u32::MAX, (1 << 32) + 7),
            (9, (1 << 32) + 9),
        ] {
            count = grown(count, now);
            assert_eq!(count, expected, "{now}");
        }
    }

    #[test]
    fn connections_leave_descriptors_to_all_others() {
        assert_eq!(room_for_connections(4_096, 640), 4_096 - 512 - 640);
        assert_eq!([room_for_connections(512, 3), room_for_connections(0, usize::MAX)], [1, 1]);
    }
}
