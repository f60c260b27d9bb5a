//! One worker's record of the run, and the methods that fill it.

use wire::Time;

use super::counters::{Counters, Lost};
use super::custom::{Custom, Paired};
use super::events::{
    Began, Bye, CallEnd, Measure, Method, Registering, Side, TransactionEnd, Unexpected, Window,
};
use super::figures::Figures;
use super::punctuality::Punctuality;
use super::series::{Point, Series};

/// What a worker must know to keep a record. The same for all workers of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the time series begins.
    pub origin: Time,
    /// Length of an interval of the time series, microseconds.
    pub interval_micros: u64,
    /// What is measured, without warm-up and cool-down.
    pub window: Window,
    /// Where first registrations are measured too: a population registers before the measured window begins.
    pub ramp: Option<Window>,
    /// Names of the scenarios' stopwatches (SIPp's `rtd`), at most 64 of each side.
    pub stopwatches: Vec<String>,
    /// Names of the scenario's counters.
    pub tallies: Vec<String>,
    /// The scenario's tables of times.
    pub tables: Vec<Table>,
    /// Whether [`Metrics::figures`] are kept.
    pub figures: bool,
}

/// A table of times that a scenario asks for (SIPp's `ResponseTimeRepartition` and `CallLengthRepartition`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The place of the stopwatch it is of; `None`: the lengths of calls.
    pub stopwatch: Option<usize>,
    /// Its upper bounds in milliseconds, ascending.
    pub bounds_ms: Vec<u32>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            origin: Time::ZERO,
            interval_micros: 1_000_000,
            window: Window::ALWAYS,
            ramp: None,
            stopwatches: Vec::new(),
            tallies: Vec::new(),
            tables: Vec::new(),
            figures: false,
        }
    }
}

/// Microseconds since `from`; 0 if that is later.
#[inline]
pub(super) fn micros(now: Time, from: Time) -> u64 {
    now.as_micros().saturating_sub(from.as_micros())
}

/// What a worker tells a live view: small enough to be copied every second without making it late.
#[derive(Clone, Debug)]
pub struct Pulse {
    /// Of the whole run.
    pub counters: Counters,
    /// The last interval that is over, and its index in the series.
    pub last: Option<(usize, Point)>,
    /// Length of that interval, microseconds.
    pub width: u64,
}

impl Pulse {
    /// Adds another worker's. Of last intervals, those of the later index count; workers that are one
    /// interval behind are left out of it.
    pub fn merge(&mut self, other: &Pulse) {
        self.counters.merge(&other.counters);
        match (&mut self.last, &other.last) {
            (Some((i, mine)), Some((j, theirs))) if i == j && self.width == other.width => mine.merge(theirs),
            (Some((i, _)), Some((j, _))) if *i as u64 * self.width >= *j as u64 * other.width => {}
            (_, None) => {}
            (mine, theirs) => {
                *mine = theirs.clone();
                self.width = other.width;
            }
        }
    }
}

/// The record of one worker, or of all after [`Metrics::merge`].
#[derive(Clone, Debug)]
pub struct Metrics {
    window: Window,
    ramp: Option<Window>,
    /// When the last call was meant to begin, whether it did or not.
    last_call: Option<Time>,
    /// The whole run.
    pub all: Counters,
    /// The measured window.
    pub measured: Counters,
    latencies: [Paired; Measure::COUNT],
    /// What the scenarios want measured.
    custom: Custom,
    punctuality: Punctuality,
    series: Series,
}

impl Metrics {
    /// An empty record.
    pub fn new(setup: &Setup) -> Metrics {
        Metrics {
            window: setup.window,
            ramp: setup.ramp,
            last_call: None,
            all: Counters::default(),
            measured: Counters::default(),
            latencies: core::array::from_fn(|_| Paired::default()),
            custom: Custom::new(setup),
            punctuality: Punctuality::default(),
            series: Series::new(setup.origin, setup.interval_micros),
        }
    }

    /// The measured window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Where first registrations are measured too.
    pub fn ramp(&self) -> Option<Window> {
        self.ramp
    }

    /// Sets the measured window for what begins from now on: a run that is stopped early closes it.
    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// A latency of the measured window.
    pub fn latency(&self, measure: Measure) -> &Paired {
        &self.latencies[measure as usize]
    }

    /// What the scenarios want measured.
    pub fn custom(&self) -> &Custom {
        &self.custom
    }

    /// What SIPp's statistics want, if it is kept.
    pub fn figures(&self) -> Option<Figures> {
        self.custom.figures()
    }

    /// How punctual the generator was in the measured window.
    pub fn punctuality(&self) -> &Punctuality {
        &self.punctuality
    }

    /// The run over time.
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// Lets time pass. To be called before [`Metrics::pulse`], so that a second in which nothing happened is
    /// seen as one.
    pub fn tick(&mut self, now: Time) {
        self.series.tick(now);
    }

    /// What a live view needs.
    pub fn pulse(&self) -> Pulse {
        let last = self.series.last_closed().map(|(i, p)| (i, p.clone()));
        Pulse { counters: self.all.clone(), last, width: self.series.width() }
    }

    /// Adds another worker's record. Associative and commutative; both must have the same [`Setup`].
    pub fn merge(&mut self, other: &Metrics) {
        self.last_call = self.last_call.max(other.last_call);
        self.all.merge(&other.all);
        self.measured.merge(&other.measured);
        self.latencies.iter_mut().zip(&other.latencies).for_each(|(a, b)| a.merge(b));
        self.custom.merge(&other.custom);
        self.punctuality.merge(&other.punctuality);
        self.series.merge(&other.series);
    }

    /// Counts in both scopes; `at` decides about the window.
    #[inline(always)]
    fn count(&mut self, at: Time, f: impl Fn(&mut Counters)) {
        f(&mut self.all);
        if self.window.contains(at) {
            f(&mut self.measured);
        }
    }

    #[inline]
    fn measure(&mut self, measure: Measure, now: Time, began: Began) {
        if self.window.contains(began.intended) {
            self.latencies[measure as usize].record(now, began);
        }
    }

    /// A duration: from `from`, which belongs to something that began at `began`.
    #[inline]
    fn duration(&mut self, measure: Measure, now: Time, from: Time, began: Began) {
        if self.window.contains(began.intended) {
            self.latencies[measure as usize].sent.record(micros(now, from));
        }
    }
}

/// Calls.
impl Metrics {
    /// A call begins: its first request goes out, or (callee) has come in.
    #[inline]
    pub fn call_begun(&mut self, side: Side, began: Began) {
        self.count(began.intended, |c| c.sides[side as usize].begun += 1);
        self.series.call_begun(began.sent, side);
        if side == Side::Caller {
            self.last_call = self.last_call.max(Some(began.intended));
        }
    }

    /// Seconds from `start` in which calls were to begin: to the last one, begun or left out, and once more
    /// the time between two of them. `None` if they were fewer than two.
    pub fn offered(&self, start: Time) -> Option<f64> {
        let begun = (self.all.sides[Side::Caller as usize].begun + self.all.shed) as f64;
        let last = self.last_call?.since(start).as_secs_f64();
        (begun > 1.0).then(|| last * begun / (begun - 1.0))
    }

    /// A call ended.
    #[inline]
    pub fn call_ended(&mut self, now: Time, side: Side, began: Began, end: CallEnd) {
        self.custom.call_ended(micros(now, began.sent));
        self.count(began.intended, |c| {
            let s = &mut c.sides[side as usize];
            match end {
                CallEnd::Success => s.succeeded += 1,
                CallEnd::Cancelled => s.cancelled += 1,
                CallEnd::Failed(why) => s.failed[why as usize] += 1,
            }
        });
        if end == CallEnd::Success {
            self.duration(Measure::CallLength, now, began.sent, began);
        }
        self.series.call_ended(now, side, end);
    }

    /// A call that began at `began` waited for the other side when the run ended, and whether that would have
    /// come is open.
    pub fn call_open(&mut self, side: Side, began: Began) {
        self.count(began.intended, |c| c.sides[side as usize].open += 1);
    }

    /// The schedule wanted a call at `intended` and the generator did not begin it, because of the cap on
    /// calls under way.
    #[inline]
    pub fn call_shed(&mut self, intended: Time) {
        self.count(intended, |c| c.shed += 1);
        self.last_call = self.last_call.max(Some(intended));
    }

    /// So many calls that were wanted at `intended`, and a little later until `last`, will not be begun any
    /// more: they are left out, and the wait until `now` is lateness of each.
    pub fn calls_left_out(&mut self, now: Time, (intended, last): (Time, Time), calls: u64) {
        self.count(intended, |c| c.shed += calls);
        self.last_call = self.last_call.max(Some(last));
        let late = micros(now, intended);
        if self.window.contains(intended) {
            self.punctuality.left_out(late, calls);
        }
        self.series.lateness_of(now, late, calls);
    }

    /// A call came in, and there was no room for it here.
    #[inline]
    pub fn callee_shed(&mut self, now: Time) {
        self.count(now, |c| c.callees_shed += 1);
    }

    /// The first response to a call's first request that says something (not 100), or its final one.
    /// For calls without INVITE; [`Metrics::session_progress`] does it for sessions.
    #[inline]
    pub fn responded(&mut self, now: Time, began: Began) {
        self.measure(Measure::Response, now, began);
        self.series.latency(now, micros(now, began.intended));
    }

    /// A stopwatch of the scenario was stopped; `began` is when it was started. An index that was not
    /// announced in [`Setup`] is ignored.
    #[inline]
    pub fn stopwatch(&mut self, index: usize, now: Time, began: Began) {
        self.custom.stopped(index, now, began, self.window.contains(began.intended));
    }

    /// A counter of the scenario goes up by one.
    #[inline]
    pub fn tally(&mut self, index: usize) {
        self.custom.count(index);
    }

    /// A call ended in voicemail.
    #[inline]
    pub fn voicemail(&mut self, began: Began) {
        self.count(began.intended, |c| c.voicemails += 1);
    }
}

/// Messages.
impl Metrics {
    /// A request goes out for the first time.
    #[inline]
    pub fn request_sent(&mut self, now: Time, method: Method) {
        self.count(now, |c| c.requests_sent[method as usize] += 1);
        self.series.at(now).sent += 1;
    }

    /// A request goes out again.
    #[inline]
    pub fn request_repeated(&mut self, now: Time, method: Method) {
        self.count(now, |c| c.requests_repeated[method as usize] += 1);
        let p = self.series.at(now);
        p.sent += 1;
        p.repeated += 1;
    }

    /// A response goes out for the first time.
    #[inline]
    pub fn response_sent(&mut self, now: Time) {
        self.count(now, |c| c.responses_sent += 1);
        self.series.at(now).sent += 1;
    }

    /// A response goes out again.
    #[inline]
    pub fn response_repeated(&mut self, now: Time) {
        self.count(now, |c| c.responses_repeated += 1);
        self.series.at(now).sent += 1;
    }

    /// A request came in.
    #[inline]
    pub fn request_received(&mut self, now: Time, method: Method) {
        self.count(now, |c| c.requests_received[method as usize] += 1);
        self.series.at(now).received += 1;
    }

    /// A response came in.
    #[inline]
    pub fn response_received(&mut self, now: Time, status: u16) {
        self.count(now, |c| c.responses_received.add(status));
        let point = self.series.at(now);
        point.received += 1;
        if let Some(class) = point.responses.get_mut(usize::from(status / 100).wrapping_sub(1)) {
            *class += 1;
        }
    }

    /// Nobody waited for a message. In addition to its being received, if it was SIP.
    #[inline]
    pub fn unexpected(&mut self, now: Time, kind: Unexpected) {
        self.count(now, |c| c.unexpected[kind as usize] += 1);
        self.series.at(now).unexpected += 1;
    }

    /// A message came for a call that ended shortly before.
    #[inline]
    pub fn dead_call(&mut self, now: Time) {
        self.count(now, |c| c.dead_call_messages += 1);
    }

    /// A digest challenge came.
    #[inline]
    pub fn challenged(&mut self, now: Time) {
        self.count(now, |c| c.challenges += 1);
    }

    /// A client transaction ended. The latency of INVITE transactions is that of sessions.
    #[inline]
    pub fn transaction_ended(&mut self, now: Time, method: Method, began: Began, end: TransactionEnd) {
        self.count(began.intended, |c| match end {
            TransactionEnd::Success => c.transactions_succeeded += 1,
            TransactionEnd::Failed => c.transactions_failed += 1,
            TransactionEnd::Timeout => c.transactions_timed_out += 1,
        });
        if method != Method::Invite && end != TransactionEnd::Timeout {
            self.measure(Measure::Transaction, now, began);
        }
    }
}

/// The generator's own state.
impl Metrics {
    /// A send that the schedule wanted at `intended` goes out at `now`.
    #[inline]
    pub fn scheduled_send(&mut self, now: Time, intended: Time) {
        let late = micros(now, intended);
        if self.window.contains(intended) {
            self.punctuality.sent(late);
        }
        self.series.lateness(now, late);
    }

    /// The same, of the first request of a call or a registration.
    #[inline]
    pub fn scheduled_start(&mut self, now: Time, intended: Time) {
        self.scheduled_send(now, intended);
        if self.window.contains(intended) {
            self.punctuality.started(micros(now, intended));
        }
    }

    /// So many messages were due when a worker woke.
    #[inline]
    pub fn queue_depth(&mut self, now: Time, messages: usize) {
        let n = messages as u64;
        if self.window.contains(now) {
            self.punctuality.queued(n);
        }
        let p = self.series.at(now);
        p.queue = p.queue.max(n);
    }

    /// There was no room here for so much since last asked.
    #[inline]
    pub fn lost(&mut self, now: Time, lost: Lost) {
        self.count(now, |c| c.lose(lost));
        self.series.at(now).drops += lost.all();
    }

    /// A message of ours could not be delivered, for whatever reason.
    #[inline]
    pub fn send_failed(&mut self, now: Time) {
        self.count(now, |c| c.undeliverable += 1);
    }
}

/// Sessions, at the caller's end, and what RFC 6076 makes of them.
///
/// `began` is that of the first INVITE throughout: a challenge, a redirect or a retransmission does not
/// reset it (RFC 6076 section 4).
impl Metrics {
    /// The first INVITE of a new session goes out.
    #[inline]
    pub fn session_requested(&mut self, began: Began) {
        self.count(began.intended, |c| {
            c.sessions_requested += 1;
            c.invites += 1;
        });
    }

    /// An INVITE was answered with 3xx.
    #[inline]
    pub fn session_redirected(&mut self, began: Began) {
        self.count(began.intended, |c| c.invites_redirected += 1);
    }

    /// Another one goes out to where the 3xx says.
    #[inline]
    pub fn redirect_followed(&mut self, began: Began) {
        self.count(began.intended, |c| c.invites += 1);
    }

    /// The first provisional response above 100 came.
    #[inline]
    pub fn session_progress(&mut self, now: Time, began: Began) {
        self.responded(now, began);
    }

    /// A 2xx to the INVITE came. `progress`: when [`Metrics::session_progress`] was called, if it was.
    #[inline]
    pub fn session_established(&mut self, now: Time, began: Began, progress: Option<Time>, status: u16) {
        self.count(began.intended, |c| {
            c.sessions_established += 1;
            c.session_finals.add(status);
        });
        self.series.at(now).established += 1;
        self.measure(Measure::Setup, now, began);
        self.session_delay(Measure::SrdSuccess, now, began, progress);
    }

    /// A final response that refuses came: not a challenge that is answered, not a 3xx that is followed;
    /// the 487 after our CANCEL is one.
    #[inline]
    pub fn session_refused(&mut self, now: Time, began: Began, progress: Option<Time>, status: u16) {
        self.count(began.intended, |c| c.session_finals.add(status));
        self.session_delay(Measure::SrdFailed, now, began, progress);
    }

    /// Nobody answered the INVITE until timer B. There is no response, so no delay (section 4.3.2).
    #[inline]
    pub fn session_timed_out(&mut self, began: Began) {
        self.count(began.intended, |c| c.sessions_timed_out += 1);
    }

    fn session_delay(&mut self, measure: Measure, now: Time, began: Began, progress: Option<Time>) {
        if progress.is_none() {
            self.responded(now, began);
        }
        self.measure(measure, progress.unwrap_or(now), began);
    }

    /// An established session is over: the BYE was answered, refused or given up, or one came.
    /// `established` is when the 2xx to the INVITE came, `began` that of the INVITE.
    #[inline]
    pub fn session_ended(&mut self, now: Time, began: Began, established: Time, bye: Bye) {
        self.count(began.intended, |c| match bye {
            Bye::Answered(_) => {
                c.sessions_completed += 1;
                c.byes_answered += 1;
            }
            Bye::Received => c.sessions_completed += 1,
            Bye::Refused(_) => c.byes_refused += 1,
            Bye::Timeout => c.byes_timed_out += 1,
        });
        match bye {
            Bye::Answered(bye) => {
                self.duration(Measure::SdtSuccess, bye.sent, established, began);
                self.disconnect(Measure::SddSuccess, now, bye);
            }
            Bye::Refused(bye) => {
                self.duration(Measure::SdtSuccess, bye.sent, established, began);
                self.disconnect(Measure::SddFailed, now, bye);
            }
            Bye::Received => self.duration(Measure::SdtSuccess, now, established, began),
            // Excluded from SDD (section 4.4); the duration ends with timer F (section 4.5.2).
            Bye::Timeout => self.duration(Measure::SdtFailed, now, established, began),
        }
    }

    /// The callee's own BYE was answered (`ok`: with 2xx). SDD can be measured at either end (section
    /// 4.4); the session itself is counted at the caller's.
    #[inline]
    pub fn callee_bye(&mut self, now: Time, bye: Began, ok: bool) {
        self.disconnect(if ok { Measure::SddSuccess } else { Measure::SddFailed }, now, bye);
    }

    #[inline]
    fn disconnect(&mut self, measure: Measure, now: Time, bye: Began) {
        // A BYE belongs to the window in which it was meant to go, not to that of its INVITE: in a run
        // with long calls the other rule would leave out most of them.
        self.measure(measure, now, bye);
    }
}

/// Registrations.
impl Metrics {
    /// Counts a registration in both scopes. First ones belong to the measured window if they were meant to
    /// begin in it or in the ramp.
    #[inline]
    fn count_registration(&mut self, began: Began, kind: Registering, f: impl Fn(&mut Counters)) {
        f(&mut self.all);
        if self.measures_registration(began, kind) {
            f(&mut self.measured);
        }
    }

    #[inline]
    fn measures_registration(&self, began: Began, kind: Registering) -> bool {
        let in_ramp = kind == Registering::First && self.ramp.is_some_and(|r| r.contains(began.intended));
        in_ramp || self.window.contains(began.intended)
    }

    /// The first REGISTER of an attempt goes out; one more with credentials belongs to the same attempt.
    #[inline]
    pub fn registration_begun(&mut self, began: Began, kind: Registering) {
        self.count_registration(began, kind, |c| match kind {
            Registering::First => c.registrations += 1,
            Registering::Refresh => c.refreshes += 1,
            Registering::Remove => c.removals += 1,
        });
    }

    /// A registration was due at `intended`, and the one before was still under way.
    #[inline]
    pub fn registration_skipped(&mut self, intended: Time, kind: Registering) {
        self.count_registration(Began::at(intended), kind, |c| c.registrations_skipped += 1);
    }

    /// A 2xx came.
    #[inline]
    pub fn registered(&mut self, now: Time, began: Began, kind: Registering) {
        self.count_registration(began, kind, |c| match kind {
            Registering::First => c.registrations_ok += 1,
            Registering::Refresh => c.refreshes_ok += 1,
            Registering::Remove => {}
        });
        self.series.at(now).registered += 1;
        let measure = match kind {
            Registering::First => Some(Measure::RrdFirst),
            Registering::Refresh => Some(Measure::RrdRefresh),
            Registering::Remove => None,
        };
        if let Some(measure) = measure
            && self.measures_registration(began, kind)
        {
            self.latencies[measure as usize].record(now, began);
        }
        self.responded(now, began);
    }

    /// It failed: a final response that is no challenge, or timer F (RFC 6076 section 4.2).
    #[inline]
    pub fn registration_failed(&mut self, now: Time, began: Began, kind: Registering) {
        self.count_registration(began, kind, |c| match kind {
            Registering::First => c.registrations_failed += 1,
            Registering::Refresh => c.refreshes_failed += 1,
            Registering::Remove => c.removals_failed += 1,
        });
        self.series.at(now).register_failed += 1;
    }

    /// A registration ends with this response, which is no challenge: whether it is refused for who asks.
    pub fn registration_refused(&mut self, now: Time, began: Began, kind: Registering, status: u16) {
        if matches!(status, 401 | 403 | 404 | 407 | 410 | 604) {
            self.count_registration(began, kind, |c| c.registrants_refused += 1);
        }
        self.registration_failed(now, began, kind);
    }
}

#[cfg(test)]
mod tests;
