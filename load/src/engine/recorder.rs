//! What is kept of a run: what is counted, the flows of calls that fail, and all messages if they are wanted.

use super::call::Call;
use super::registered::Registered;
use super::seen::Statistics;
use super::trace::{Trace, Traced};
use super::{Moment, Settings};
use crate::metrics::{Began, Direction, Ladders, Method, Metrics, Unexpected};
use crate::scenario::Side;
use foldhash::fast::FixedState;
use wire::{Flow, Outbox, Time};

/// The record of one worker.
pub(super) struct Recorder {
    pub statistics: Statistics,
    pub ladders: Ladders,
    /// Where the callee's stopwatches and counters stand among those of the record.
    firsts: [(usize, usize); 2],
    /// Messages sent in rounds that did not come to the end of what is due.
    backlog: usize,
    trace: Option<Box<Trace>>,
}

impl Recorder {
    /// Nothing yet.
    pub fn new(settings: &Settings, hasher: FixedState) -> Recorder {
        let first = |side| (settings.first(side, |s| &s.timers), settings.first(side, |s| &s.counters));
        Recorder {
            statistics: Statistics::new(Metrics::new(&settings.measured()), Registered::new(hasher)),
            ladders: Ladders::new(settings.ladders, 1 << 20),
            firsts: [Side::Client, Side::Server].map(first),
            backlog: 0,
            trace: settings.traces.then(Box::default),
        }
    }

    /// What is counted.
    #[inline(always)]
    pub fn metrics(&mut self) -> &mut Metrics {
        &mut self.statistics.metrics
    }

    /// A counter of a scenario goes up, if a step has one.
    #[inline]
    pub fn count(&mut self, side: Side, counter: Option<u16>) {
        if let Some(number) = counter {
            self.statistics.metrics.tally(self.firsts[side as usize].1 + usize::from(number));
        }
    }

    /// A stopwatch of a scenario was stopped.
    pub fn stopped(&mut self, side: Side, number: u16, now: Time, began: Began) {
        let first = self.firsts[side as usize].0;
        self.statistics.metrics.stopwatch(first + usize::from(number), now, began);
    }

    /// A message of a call passes.
    #[inline(always)]
    pub fn pass(
        &mut self,
        (settings, at): (&Settings, Time),
        direction: Direction,
        name: u64,
        flow: Flow,
        bytes: &[u8],
    ) {
        let pair = (settings.addresses.local(flow.listener), &flow.remote);
        self.ladders.pass(name, at, direction, pair, bytes);
    }

    /// A call failed, which has sent this last: its flow is kept for people to see.
    pub fn failed(&mut self, now: Time, call: &Call, sent: &[u8], why: &str) {
        let began = call.seen.began();
        let (first, identity) = (began.sent.min(began.intended), &call.identity);
        let last = (sent, call.received.last());
        self.ladders.failed(now, identity.name, first, &identity.call_id, last, why);
    }

    /// A message that nobody waits for.
    #[cold]
    pub fn stray(&mut self, moment: Moment<'_>, flow: Flow, bytes: &[u8], kind: Unexpected) {
        self.statistics.metrics.unexpected(moment.now, kind);
        let local = *moment.settings.addresses.local(flow.listener);
        self.ladders.stray(moment.now, local, flow.remote, bytes, kind.text());
    }

    /// A message went out again.
    pub fn repeated(&mut self, now: Time, bytes: &[u8]) {
        if bytes.starts_with(b"SIP/2.0 ") {
            return self.statistics.metrics.response_repeated(now);
        }
        let name = bytes.split(|&b| b == b' ').next().unwrap_or(b"");
        self.statistics.metrics.request_repeated(now, Method::from(sip_message::Method::from_bytes(name)));
    }

    /// Keeps what came, and what was sent upon it, if that is wanted.
    #[inline]
    pub fn trace(&mut self, now: Time, came: Option<(Time, Flow, &[u8])>, first: usize, out: &Outbox) {
        if let Some(trace) = &mut self.trace {
            if let Some((at, flow, message)) = came {
                trace.received(at, flow.transport, message);
            }
            trace.sent(now, first, out);
        }
    }

    /// The messages since they were last asked for, and how many there was no room for.
    pub fn messages(&mut self) -> (Vec<Traced>, u64) {
        self.trace.as_mut().map(|trace| trace.take()).unwrap_or_default()
    }

    /// A number of messages was sent in a round. `more`: what is due still comes in the next one, and has
    /// waited with these.
    pub fn round(&mut self, now: Time, sent: usize, more: bool) {
        self.backlog += sent;
        if self.backlog > 0 && !more {
            self.statistics.metrics.queue_depth(now, core::mem::take(&mut self.backlog));
        }
    }
}
