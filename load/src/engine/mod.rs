//! Calls under way: what they send, wait for and time.
//!
//! One [`Engine`] is one worker's machine; the worker runtime drives it as it drives a proxy's node. A
//! call runs a scenario step by step until it has to wait, for a message or for time; then its slot and
//! its one timer are all there is of it. Calls begin when the schedule says so, whatever has become of
//! those before (open loop), and everything is counted from the time that the schedule meant.
//!
//! What is fixed for the run ([`Settings`], with the scenarios) is apart from what goes on (`Player`) and is
//! lent with each message as a `Moment`. A player has parts with their own state:
//!
//! | part | holds |
//! |---|---|
//! | `Starts` | the schedule: which call begins when, how many there are |
//! | `Calls` | the calls and their timers |
//! | `Directory`, `Connections` | which call a message, or a connection, belongs to |
//! | `Interpreter` | variables, injection files, random numbers, the texts of steps |
//! | `Recorder` | what is counted, flows of failed calls, traces |
//! | `Outlook` | what is ahead when no more calls begin |
//!
//! A call has parts too: its place in the scenario (`Cursor`), what it sent and received (`Sent`,
//! `Received`), the other side (`Peer`), variables (`Data`), its wait (`Waiting`), and what the record wants
//! to know (`Seen`).

mod abort;
mod acks;
mod begin;
mod call;
mod connections;
mod directory;
mod ids;
mod interpreter;
mod moment;
mod peer;
pub mod people;
mod player;
mod receive;
mod received;
mod recorder;
mod registered;
mod run;
mod seen;
mod sent;
mod settings;
mod starts;
#[cfg(test)]
mod tests;
mod trace;
mod unwanted;
mod users;
mod variables;
mod waiting;
pub(crate) mod wheel;

pub use settings::{
    Addresses, CallIds, Conduct, Defaults, Origin, Progress, Record, Retransmission, Settings, Stop, Users,
};
pub use trace::Traced;

use crate::metrics::Unexpected;
use crate::population::Times;
use crate::scenario::Desk;
use core::hash::BuildHasher;
use core::time::Duration;
use foldhash::fast::FixedState;
use ids::CallName;
use moment::Moment;
use player::Player;
use recorder::Recorder;
use sip_message::{Index, Limits, Parsed, find_call_id, parse};
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Generator, Machine, Outbox, Time, Transport};

/// A request that nobody has answered for so long when the run is over has failed. What is younger may yet be
/// answered.
const SILENT: Duration = Duration::from_secs(2);

/// How often it is looked whether the calls under way are left by the other side.
const LOOK: Duration = Duration::from_secs(1);

/// What other threads tell an engine.
pub enum Notice {
    /// Show what is going on, by calling this once.
    Progress(Box<dyn FnOnce(Progress) + Send>),
    /// Hand over what was recorded. The run is over: what waits for an answer has failed, whatever else is
    /// under way is unfinished.
    Record(Box<dyn FnOnce(Record) + Send>),
    /// Begin no more calls; end those under way as they come to their end.
    Quit,
    /// So many calls a second from now on, on all workers together; 0 for a pause.
    Rate(f64),
}

/// One worker's machine.
pub struct Engine {
    settings: Settings,
    /// What goes on.
    player: Player,
    /// What was wrong with an `<init>`.
    trouble: Option<String>,
    index: Box<Index>,
}

impl Engine {
    /// An engine with nothing going on. `arrivals` says when calls begin; none: it only answers.
    pub fn new(settings: Settings, desk: Desk, arrivals: Option<Times>) -> Engine {
        let mut player = Player::new(&settings, desk, arrivals);
        let trouble = player.prepare(Moment::new(&settings, settings.start)).err();
        Engine { settings, player, trouble, index: index() }
    }

    /// What was wrong with the `<init>` of a scenario. Such an engine begins no call.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What comes, or came before the worker woke for it at `woken`.
    fn message(&mut self, (now, woken): (Time, Time), flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let Engine { settings, player, index, .. } = self;
        let moment = Moment { settings, now, woken };
        let first = out.transmits().len();
        match parse(bytes, index, &Limits::DEFAULT) {
            Parsed::Good(message) => player.receive_message(moment, flow, &message, out),
            Parsed::Bad(..) | Parsed::Garbage(_) => {
                player.recorder.stray(moment, flow, bytes, Unexpected::Malformed);
            }
        }
        player.recorder.trace(woken, Some((now, flow, bytes)), first, out);
        player.connections.close(out);
    }
}

/// An index to parse with.
#[cold]
fn index() -> Box<Index> {
    Box::new(Index::new())
}

impl Machine for Engine {
    type Notice = Notice;

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        sip_message::frame(buffer, resume, &Limits::default())
    }

    /// Calls of ours name their worker in the Call-ID; those of others are dealt out by its hash.
    fn owner(&self, message: &[u8], workers: u16) -> Option<u16> {
        let call_id = self.player.directory.name_in(find_call_id(message).unwrap_or(b""));
        if let Some(name) = CallName::read(call_id, self.settings.run_id) {
            return Some(name.worker % workers.max(1));
        }
        // The same on every worker.
        let hasher = FixedState::with_seed(self.settings.seed ^ u64::from(self.settings.run_id));
        Some((((hasher.hash_one(call_id) >> 32) * u64::from(workers.max(1))) >> 32) as u16)
    }

    /// Everything is counted from the arrival, and what is sent upon it was meant to leave then: the
    /// wait is lateness of ours.
    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        if let Some(other) = arrival.other_owner(self) {
            return Some(other);
        }
        let Arrival { now, at, flow, message, .. } = arrival;
        if let Some(at) = at {
            self.player.recorder.metrics().scheduled_send(now, at);
        }
        self.message((at.unwrap_or(now), now), flow, message, out);
        None
    }

    fn refuse(&mut self, now: Time, _flow: Flow, _head: &[u8], _error: FrameError, _out: &mut Outbox) {
        self.player.recorder.metrics().unexpected(now, Unexpected::Malformed);
    }

    fn disconnected(&mut self, now: Time, conn: ConnId, _out: &mut Outbox) {
        self.player.lost_connection(Moment::new(&self.settings, now), conn);
    }

    fn undeliverable(&mut self, now: Time, token: u64, _out: &mut Outbox) {
        self.player.unreachable(Moment::new(&self.settings, now), token);
    }

    fn notice(&mut self, now: Time, notice: Notice, out: &mut Outbox) {
        let moment = Moment::new(&self.settings, now);
        match notice {
            Notice::Progress(show) => {
                self.player.recorder.metrics().tick(now);
                show(self.player.progress(moment));
            }
            Notice::Record(take) => take(self.player.record(moment)),
            Notice::Quit => self.player.finish_starts(moment, out),
            Notice::Rate(rate) => {
                self.player.starts.set_rate(moment, rate);
                self.player.timeout(moment, out);
            }
        }
    }

    fn timeout(&mut self, now: Time, out: &mut Outbox) {
        self.player.timeout(Moment::new(&self.settings, now), out);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.player.next_deadline(&self.settings)
    }
}

impl Generator for Engine {
    fn connected(&mut self, _now: Time, token: u64, conn: ConnId) {
        self.player.connections.opened(token, conn, &mut self.player.calls);
    }
}
