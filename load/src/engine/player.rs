//! Plays scenarios: all calls of one worker, and what they share.

use super::call::Calls;
use super::connections::Connections;
use super::directory::Directory;
use super::interpreter::Interpreter;
use super::starts::Starts;
use super::waiting::{Ahead, Outlook};
use super::wheel::tick;
use super::{Moment, Progress, Record, Recorder, Settings, Stop};
use crate::population::{Rng, Times};
use crate::scenario::{Desk, Side};
use foldhash::fast::FixedState;
use wire::{Outbox, Time};

/// Calls begun in one go before received messages get their turn.
const BURST: usize = 64;

/// The calls of one worker.
pub(super) struct Player {
    pub(super) calls: Calls,
    pub(super) directory: Directory,
    pub(super) connections: Connections,
    pub(super) starts: Starts,
    pub(super) interpreter: Interpreter,
    pub(super) recorder: Recorder,
    pub(super) outlook: Outlook,
    /// What a scenario has asked for.
    stop: Option<Stop>,
}

impl Player {
    /// Nothing goes on. `times` says when calls begin.
    pub fn new(settings: &Settings, desk: Desk, times: Option<Times>) -> Player {
        let mut rng = Rng::new(settings.seed, u64::from(settings.worker));
        let hasher = FixedState::with_seed(rng.next_u64());
        Player {
            calls: Calls::new(settings.start),
            directory: Directory::new(settings, hasher.clone()),
            connections: Connections::new(hasher.clone()),
            starts: Starts::new(settings, times),
            interpreter: Interpreter::new(settings, desk, rng),
            recorder: Recorder::new(settings, hasher),
            outlook: Outlook::new(settings.scenario(Side::Client)),
            stop: None,
        }
    }

    /// Runs the `<init>` of each scenario, and asks for the first call.
    ///
    /// # Errors
    /// What was wrong with an `<init>`. No call begins then.
    pub fn prepare(&mut self, moment: Moment<'_>) -> Result<(), String> {
        let mut prepared = Ok(());
        for side in [Side::Client, Side::Server] {
            let Some(scenario) = moment.scenario(side).filter(|own| !own.init.is_empty()) else { continue };
            match self.interpreter.init(moment.settings, side, scenario, &mut self.recorder) {
                Ok(Some(stop)) => self.stop(moment, stop),
                Ok(None) => {}
                Err(why) => {
                    prepared = Err(format!("<init> of {}: {why}", scenario.name));
                    self.quit(moment);
                }
            }
        }
        self.starts.schedule(moment.settings);
        prepared
    }

    /// What is going on.
    pub fn progress(&mut self, moment: Moment<'_>) -> Progress {
        let settings = moment.settings;
        Progress {
            pulse: self.recorder.metrics().pulse(),
            calls: self.calls.len() - self.calls.lingering(),
            begun: self.starts.begun(),
            waiting: self.starts.is_behind(settings),
            beginning: self.starts.is_beginning(settings),
            idle: self.look(moment) == Ahead::Open,
            done: self.is_done(settings) || self.outlook.ahead() == Ahead::Nothing,
            stop: self.stop,
            lines: self.interpreter.take_lines(),
            messages: self.recorder.messages(),
            figures: self.recorder.metrics().figures(),
        }
    }

    /// What is ahead where no call can begin any more.
    fn look(&mut self, moment: Moment<'_>) -> Ahead {
        let begins = self.starts.deadline(moment.settings).is_some();
        let more = begins || self.calls.len() == 0;
        self.outlook.look(moment, more, self.calls.iter())
    }

    /// What was recorded. The run is over.
    pub fn record(&mut self, moment: Moment<'_>) -> Record {
        self.quit(moment);
        self.cut(moment);
        Record {
            metrics: Box::new(self.recorder.metrics().clone()),
            ladders: self.recorder.ladders.kept().to_vec(),
        }
    }

    /// Whether nothing more will happen by itself.
    pub fn is_done(&self, settings: &Settings) -> bool {
        let more = self.starts.has_next() && !self.starts.is_stopping();
        // The last call of `-m` that was answered may still be asked again.
        let rest = if self.starts.has_answered_all(settings) { 0 } else { self.calls.lingering() };
        self.stop == Some(Stop::Now)
            || (!more && self.calls.len() == rest && (settings.client.is_some() || self.starts.is_stopping()))
    }

    /// Does what is due.
    pub fn timeout(&mut self, moment: Moment<'_>, out: &mut Outbox) {
        let before = out.transmits().len();
        while let Some(slot) = self.calls.due(moment.now) {
            self.due(moment, slot, out);
        }
        self.begin_due(moment, out);
        self.recorder.trace(moment.now, None, before, out);
        let sent = out.transmits().len().saturating_sub(before);
        self.recorder.round(moment.now, sent, self.starts.is_due(moment));
        self.connections.close(out);
    }

    /// When something is due next.
    pub fn next_deadline(&self, settings: &Settings) -> Option<Time> {
        self.calls.next().into_iter().chain(self.starts.deadline(settings)).min()
    }

    /// Begins the calls that are due, each with the time it was meant to begin.
    fn begin_due(&mut self, moment: Moment<'_>, out: &mut Outbox) {
        for _ in 0..BURST {
            let Some((intended, user)) = self.starts.take(moment) else { return };
            self.begin(moment, intended, user, out);
        }
    }

    /// Begins the calls that are due and have room, then no more. With users, only those due now begin: a
    /// user whose call ends at once would be due again for ever.
    pub fn finish_starts(&mut self, moment: Moment<'_>, out: &mut Outbox) {
        let first = out.transmits().len();
        let users = self.starts.by_users();
        if users {
            self.begin_due(moment, out);
        }
        while !users && self.starts.is_due(moment) {
            self.begin_due(moment, out);
        }
        self.recorder.trace(moment.now, None, first, out);
        self.quit(moment);
    }

    /// No more calls. Those that are due and had no room ([`Settings::most_calls`]) are never begun: that is
    /// said, and their wait is lateness.
    pub fn quit(&mut self, moment: Moment<'_>) {
        let window = self.recorder.metrics().window();
        // There may be millions: those of one millisecond are taken together.
        let alike = |first, at| tick(at) == tick(first) && window.contains(at) == window.contains(first);
        while let Some(left) = self.starts.leave_out(moment, alike) {
            self.recorder.metrics().calls_left_out(moment.now, (left.first, left.last), left.calls);
        }
        self.starts.stop();
    }

    /// A scenario wants the run to end. That of other workers ends when they are told ([`Progress::stop`]).
    pub fn stop(&mut self, moment: Moment<'_>, stop: Stop) {
        self.stop = self.stop.max(Some(stop));
        self.quit(moment);
    }
}
