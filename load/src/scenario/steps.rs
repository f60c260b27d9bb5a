//! The program that a scenario file becomes.

use super::actions::{Action, Deed};

use super::facts::Run;
use super::regexp::Pattern;
use super::template::{Seeker, Template};
use super::variables::{Scope, Slot, Variables};
use crate::metrics::Method;
use crate::population::Distribution;
use std::collections::BTreeSet;

/// A scenario, ready to be run: immutable, shared by all calls.
#[derive(Debug)]
pub struct Scenario {
    /// The `name` attribute, or the file's name.
    pub name: String,
    /// Whether calls are begun here or by the other side.
    pub side: Side,
    /// The steps of `<init>`, run once before the first call; only [`Op::Nop`]s.
    pub init: Vec<Step>,
    /// The steps of a call. A call that comes to `steps.len()` has ended well.
    pub steps: Vec<Step>,
    /// The variables' names and scopes.
    pub variables: Variables,
    /// Names of the response timers; a timer's number is its place here. `rtd="true"` is called `1`.
    /// A timer that no step starts runs from the beginning of the call.
    pub timers: Vec<String>,
    /// Names of the counters; a counter's number is its place here.
    pub counters: Vec<String>,
    /// Names of the transactions that `start_txn` begins; a transaction's number is its place here.
    pub transactions: Vec<String>,
    /// Upper bounds of the response time table in milliseconds, ascending; empty if there is none.
    pub response_times_ms: Vec<u32>,
    /// Upper bounds of the call length table in milliseconds, ascending; empty if there is none.
    pub call_lengths_ms: Vec<u32>,
    /// Where a call goes on after an unexpected message, in place of failing: the label `_unexp.main`.
    pub unexpected: Option<Unexpected>,
    /// The headers of received messages that any text asks for: what an [`super::Outline`] notes.
    pub headers: Seeker,
    /// Whether [`Recv::keep`] is set anywhere.
    pub keeps_messages: bool,
    /// Some request has a text before the `[call_id]` of its Call-ID (`abc///[call_id]`), or one that is not
    /// known.
    pub prefixes_call_ids: bool,
    /// The timers that no step starts.
    pub running_timers: Vec<u16>,
    /// The keywords of `-key` ([`super::Surroundings::keys`]) that it uses.
    pub keys: BTreeSet<String>,
}

impl Scenario {
    /// Writes what is the same in all calls of this run (`[service]`, `[remote_ip]`, `[pid]` and so
    /// on) into the literal pieces of all templates, so that rendering has less to do.
    pub fn bind(&mut self, run: &Run) {
        for step in self.init.iter_mut().chain(&mut self.steps) {
            if let Op::Send(send) = &mut step.op {
                send.template.bind(run);
            }
            step.actions.iter_mut().for_each(|action| action.bind(run));
        }
    }

    pub(super) fn join_headers(&mut self) {
        let mut all = core::mem::take(&mut self.headers);
        for step in self.init.iter_mut().chain(&mut self.steps) {
            if let Op::Send(send) = &mut step.op {
                send.template.join(&mut all);
            }
            step.actions.iter_mut().for_each(|action| action.join(&mut all));
        }
        self.headers = all;
    }

    /// What its calls share that each worker would have for itself, if there is anything: such a scenario is
    /// for one worker.
    pub fn shares(&self) -> Option<&'static str> {
        let returns = self.unexpected.and_then(|unexpected| unexpected.return_to);
        if self.variables.writes_global || returns.is_some_and(|slot| slot.scope == Scope::Global) {
            return Some("its calls write <Global> variables");
        }
        let changes = |action: &Action| matches!(action.deed, Deed::Insert { .. } | Deed::Replace { .. });
        let changes = self.steps.iter().flat_map(|step| &step.actions).any(changes);
        changes.then_some("its calls change injection files (<insert>, <replace>)")
    }

    /// All templates with the lines of the file where they begin.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.init.iter().chain(&self.steps).flat_map(|step| {
            let sent = match &step.op {
                Op::Send(send) => Some(&send.template),
                _ => None,
            };
            sent.into_iter().chain(step.actions.iter().flat_map(Action::templates))
        })
    }
}

/// Who begins a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// We do: the first message of the scenario is sent.
    Client,
    /// The other side: the first message of the scenario is received.
    Server,
}

impl From<Side> for crate::metrics::Side {
    fn from(side: Side) -> crate::metrics::Side {
        match side {
            Side::Client => crate::metrics::Side::Caller,
            Side::Server => crate::metrics::Side::Callee,
        }
    }
}

/// The label `_unexp.main`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unexpected {
    /// The step to go on with.
    pub to: usize,
    /// The variable `_unexp.retaddr`, which gets the step that the call was at, if it is used.
    pub return_to: Option<Slot>,
}

/// One command.
#[derive(Debug)]
pub struct Step {
    /// Its line in the file.
    pub line: u32,
    /// What it does.
    pub op: Op,
    /// Where to go on afterwards, if not with the next step.
    pub next: Option<Branch>,
    /// `condexec`: the step is passed over (its `next` too) where this does not hold.
    pub condition: Option<Condition>,
    /// `start_rtd`: the timer that starts here.
    pub start_timer: Option<u16>,
    /// `rtd`: the timer that stops here; it counts once per call unless `repeat_timer`.
    pub stop_timer: Option<u16>,
    /// `repeat_rtd`.
    pub repeat_timer: bool,
    /// `counter`: the counter that goes up by one here.
    pub counter: Option<u16>,
    /// What to do when the step is done: a message sent or received, a pause over.
    pub actions: Vec<Action>,
    /// `hide`: not to be shown to people.
    pub hidden: bool,
    /// `display`: how to name it to people, if it is not to be named by what it does.
    pub display: Option<String>,
}

impl Step {
    /// Whether nothing is to be done at its end but to go on with the next step, as with most.
    #[inline]
    pub fn leads_on(&self) -> bool {
        let timed = self.start_timer.is_some() | self.stop_timer.is_some();
        !(timed | self.counter.is_some() | self.next.is_some() | !self.actions.is_empty())
    }
}

/// `next`, with its conditions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Branch {
    /// The step to go on with; `steps.len()` is the end.
    pub to: usize,
    /// `test`: only if this variable is set (a boolean: true; an expression: it matched).
    pub test: Option<Slot>,
    /// `chance`: only with this probability; 1 if not given.
    pub chance: f64,
}

/// `condexec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition {
    /// The variable that must be set.
    pub test: Slot,
    /// `condexec_inverse`: it must not be set.
    pub inverse: bool,
}

/// What a step does.
#[derive(Debug)]
pub enum Op {
    /// Sends a message.
    Send(Send),
    /// Waits for a message.
    Recv(Recv),
    /// Waits for time to pass.
    Pause(Pause),
    /// Runs its actions only.
    Nop,
}

/// `<send>`.
#[derive(Debug)]
pub struct Send {
    /// The message.
    pub template: Template,
    /// What its first line says.
    pub kind: Kind,
    /// Its method if it is a request, as requests are counted.
    pub method: Option<Method>,
    /// `retrans`: T1 in milliseconds; `None` if it is not to be repeated. Only over unreliable
    /// transports, and until any message is received that lets the call go on.
    pub retrans_ms: Option<u32>,
    /// `lost`: with this chance (0 to 1) it is not really sent; `None` for the run's default.
    pub lost: Option<f64>,
    /// `start_txn`: the transaction whose branch this message begins.
    pub start_txn: Option<u16>,
    /// `ack_txn`: the transaction that this ACK ends.
    pub ack_txn: Option<u16>,
    /// `ontimeout`: the step to go on with when no retransmission was answered; without it, or at the end,
    /// the call fails.
    pub on_timeout: Option<usize>,
}

/// What the first line of a message to be sent says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A request of this method.
    Request(Box<str>),
    /// A response; 0 if the code is made of keywords.
    Response(u16),
}

impl Kind {
    /// Whether it is a request of this method.
    pub fn is_request(&self, method: &str) -> bool {
        matches!(self, Kind::Request(own) if own.as_ref() == method)
    }
}

/// `<recv>`.
#[derive(Debug)]
pub struct Recv {
    /// What is waited for.
    pub expect: Expect,
    /// The methods that `expect` names, as they are counted: a bit for each.
    pub methods: u16,
    /// Whether the call may go on without it.
    pub optional: Optional,
    /// `advance_state`: false if receiving it leaves the call where it is; only for optional messages.
    pub advance: bool,
    /// `timeout` in milliseconds; `None` for the run's default. What is optional has that of what follows, if
    /// it has none of its own.
    pub timeout_ms: Option<u32>,
    /// `ontimeout`: the step to go on with then; without it, or at the end, the call fails.
    pub on_timeout: Option<usize>,
    /// `rrs`: its Record-Route and Contact become `[routes]` and `[next_url]`.
    pub rrs: bool,
    /// `auth`: its challenge is what `[authentication]` answers.
    pub auth: bool,
    /// `lost`: with this chance (0 to 1) it is treated as if it never came; `None` for the run's default.
    pub lost: Option<f64>,
    /// Whether the message is used again after the call has waited for something else. If not, it need
    /// not be kept longer than the steps take that follow at once.
    pub keep: bool,
}

impl Expect {
    /// What [`Recv::methods`] is.
    pub(super) fn methods(&self) -> u16 {
        let bit = |name: &str| 1 << Method::named(name) as u16;
        match self {
            Expect::Request(name) => bit(name),
            Expect::Response { methods, .. } => methods.iter().fold(0, |bits, name| bits | bit(name)),
            Expect::Matching(_) => 0,
        }
    }
}

/// The code of a response that is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Code {
    /// This one.
    One(u16),
    /// One of these: an expression matches them.
    OneOf(Box<[u16]>),
}

impl Code {
    /// Whether this status is waited for.
    #[inline]
    pub fn fits(&self, status: u16) -> bool {
        match self {
            Code::One(code) => *code == status,
            Code::OneOf(codes) => codes.contains(&status),
        }
    }
}

/// The message that a step waits for.
#[derive(Debug)]
pub enum Expect {
    /// A response with this code.
    Response {
        /// The code.
        code: Code,
        /// `response_txn`: only in this transaction, by the branch of its topmost Via.
        transaction: Option<u16>,
        /// Without `response_txn`, the methods its CSeq may name: those of requests further up in the
        /// file that begin no named transaction. Empty: any.
        methods: Vec<Box<str>>,
    },
    /// A request of this method.
    Request(Box<str>),
    /// A request whose method matches (`regexp_match`).
    Matching(Pattern),
}

/// `optional`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Optional {
    /// The call waits for it.
    No,
    /// It may come before the next message that is not optional.
    Yes,
    /// It may come at any later step, too.
    Global,
}

/// `<pause>` and `<timewait>`.
#[derive(Clone, PartialEq, Debug)]
pub enum Pause {
    /// No length given: that of the run (`-d`).
    Default,
    /// This many milliseconds.
    Fixed(u32),
    /// As many milliseconds as the variable says.
    Variable(Slot),
    /// Milliseconds drawn anew each time.
    Random(Distribution),
    /// `<timewait>`: the call counts as ended well when it begins, and answers retransmissions for this
    /// many milliseconds.
    TimeWait(u32),
}
