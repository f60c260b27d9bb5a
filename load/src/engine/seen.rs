//! What the record wants to know of a call: sessions and registrations as RFC 6076 defines them, seen from
//! its messages whatever its scenario is.

use super::Moment;
use super::receive::Heard;
use super::registered::{Asked, Registered};
use crate::metrics::{Began, Bye, Method, Metrics, TransactionEnd};
use crate::scenario::Side;
use wire::Time;

/// What is recorded of all calls.
pub(super) struct Statistics {
    pub metrics: Metrics,
    registered: Registered,
}

impl Statistics {
    /// Nothing yet.
    pub fn new(metrics: Metrics, registered: Registered) -> Statistics {
        Statistics { metrics, registered }
    }
}

/// The client transaction that a call waits in.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub method: Method,
    pub began: Began,
    /// The scenario has given up waiting for its response, and gone on without (`ontimeout`). It may come
    /// yet.
    given_up: bool,
}

/// The session of a call that begins here.
#[derive(Clone, Copy, Debug)]
struct Session {
    /// Its first INVITE.
    began: Began,
    /// When the first provisional response above 100 came.
    progress: Option<Time>,
    /// One has come to the INVITE sent last.
    rings: bool,
    /// When the 2xx came.
    established: Option<Time>,
    /// It was refused, or has ended.
    over: bool,
    /// CANCEL has been sent.
    cancelled: bool,
    /// Its INVITE was answered with a 3xx that the scenario wants; it may go on elsewhere.
    redirected: bool,
}

impl Session {
    fn new(began: Began) -> Session {
        Session {
            began,
            progress: None,
            rings: false,
            established: None,
            over: false,
            cancelled: false,
            redirected: false,
        }
    }

    /// Whether its INVITE has no end yet: what comes later is an INVITE within the session, whose answer says
    /// nothing of it (RFC 3261 section 14.1).
    fn is_asked_for(&self) -> bool {
        self.established.is_none() && !self.over
    }
}

/// What a call remembers for the record.
#[derive(Debug)]
pub struct Seen {
    side: Side,
    /// When the call was meant to begin, and did.
    began: Began,
    /// The INVITE that has no final response yet.
    inviting: Option<Asking>,
    /// The other request, sent last, that has none.
    asking: Option<Asking>,
    /// Requests that have none, in the order in which others took their place.
    earlier: Vec<Asking>,
    /// When one that still has none was given up last.
    given_up: Option<Time>,
    /// There was a request.
    asked: bool,
    session: Option<Session>,
    /// The first BYE: a challenge, or another refusal that the scenario recovers from, does not end what it
    /// began (RFC 6076 section 4.4).
    bye: Option<Began>,
    /// When that was refused last, and no other one has followed.
    bye_refused: Option<Time>,
    /// The first REGISTER of the attempt under way.
    registering: Option<(Began, Asked)>,
    /// A response that says something has come.
    responded: bool,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen {
            side: Side::Client,
            began: Began::at(Time::ZERO),
            inviting: None,
            asking: None,
            earlier: Vec::new(),
            given_up: None,
            asked: false,
            session: None,
            bye: None,
            bye_refused: None,
            registering: None,
            responded: false,
        }
    }
}

fn awaited(asking: Asking) -> bool {
    !asking.given_up
}

/// Requests of a call without a final response that are remembered besides the last ones. Beyond it the
/// oldest has timed out.
const MOST_EARLIER: usize = 16;

/// What is asked of it.
impl Seen {
    /// When the call was meant to begin, and did.
    pub fn began(&self) -> Began {
        self.began
    }

    /// Whether its INVITE has been heard of, and is not answered.
    pub fn rings(&self) -> bool {
        let session = self.session.is_some_and(|session| session.rings && session.established.is_none());
        session && self.inviting.is_some_and(awaited) && !self.asking.is_some_and(awaited)
    }

    /// Whether a session is up.
    pub fn is_up(&self) -> bool {
        self.session.is_some_and(|session| session.established.is_some() && !session.over)
    }

    /// Whether the INVITE was cancelled, and nobody has answered the call.
    pub fn is_cancelled(&self) -> bool {
        self.session.is_some_and(|session| session.established.is_none() && session.cancelled)
    }

    /// The request whose final response is awaited.
    pub fn awaits(&self) -> Option<Asking> {
        self.asking.filter(|own| awaited(*own)).or(self.inviting.filter(|own| awaited(*own)))
    }

    /// The request of this method that may wait for its final response.
    fn asking(&mut self, method: Method) -> &mut Option<Asking> {
        if method == Method::Invite { &mut self.inviting } else { &mut self.asking }
    }

    /// When a request that goes out now was meant to: the first of a call that begins here with the call,
    /// others with what came before them.
    fn meant(&self, moment: Moment<'_>) -> Began {
        match self.asked || self.side == Side::Server {
            false => self.began,
            true => Began { intended: moment.now, sent: moment.left() },
        }
    }

    /// A request that was given up, which is forgotten.
    fn take_given_up(&mut self) -> Option<Asking> {
        let at = self.earlier.iter().position(|asking| asking.given_up);
        let earlier = at.map(|at| self.earlier.remove(at));
        earlier
            .or_else(|| self.inviting.take_if(|own| own.given_up))
            .or_else(|| self.asking.take_if(|own| own.given_up))
    }

    /// The request that a final response to this method belongs to, which is forgotten: of several the one
    /// sent first.
    #[inline]
    fn answered(&mut self, method: Method) -> Option<Asking> {
        if self.earlier.is_empty() {
            return self.asking(method).take_if(|own| own.method == method);
        }
        self.answered_one_of_several(method)
    }

    #[cold]
    fn answered_one_of_several(&mut self, method: Method) -> Option<Asking> {
        if let Some(at) = self.earlier.iter().position(|earlier| earlier.method == method) {
            return Some(self.earlier.remove(at));
        }
        let own = self.asking(method).take_if(|own| own.method == method)?;
        // What was sent before it is awaited again.
        let is_invite = |method| method == Method::Invite;
        let before = self.earlier.iter().rposition(|other| is_invite(other.method) == is_invite(method));
        *self.asking(method) = before.map(|at| self.earlier.remove(at));
        Some(own)
    }
}

/// What it is told.
impl Seen {
    /// The call begins.
    pub fn begin(&mut self, side: Side, began: Began) {
        (self.side, self.began) = (side, began);
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        let mut earlier = core::mem::take(&mut self.earlier);
        earlier.clear();
        *self = Seen { earlier, ..Seen::default() };
    }

    /// The scenario goes on without the responses that have not come.
    #[cold]
    pub fn give_up_asking(&mut self, now: Time) {
        let Seen { inviting, asking, earlier, given_up, .. } = self;
        let open = inviting.iter_mut().chain(asking).chain(earlier);
        for asking in open.filter(|asking| !asking.given_up) {
            asking.given_up = true;
            *given_up = Some(now);
        }
    }

    /// A message of a scenario went out: a request of this method, or a response.
    #[inline]
    pub fn sent(
        &mut self,
        moment: Moment<'_>,
        (method, bytes): (Option<Method>, &[u8]),
        all: &mut Statistics,
    ) {
        let left = moment.left();
        let Some(method) = method else { return all.metrics.response_sent(left) };
        all.metrics.request_sent(left, method);
        if method == Method::Ack {
            return;
        }
        let began = self.meant(moment);
        if self.asking(method).is_some() {
            self.overtaken(moment.now, method, all);
        }
        match method {
            Method::Cancel => {
                self.session.iter_mut().for_each(|session| session.cancelled = true);
                // Its end is awaited again.
                self.inviting.iter_mut().for_each(|inviting| inviting.given_up = false);
            }
            Method::Bye => {
                self.bye.get_or_insert(began);
                self.bye_refused = None;
            }
            // Sessions and registrations are those of who asks for them.
            _ if self.side == Side::Server => {}
            Method::Invite => match self.session.as_mut().filter(|session| !session.over) {
                Some(session) => {
                    if core::mem::take(&mut session.redirected) {
                        all.metrics.redirect_followed(session.began);
                    }
                    (session.cancelled, session.rings) = (false, false);
                }
                None => {
                    self.session = Some(Session::new(began));
                    self.bye = None;
                    all.metrics.session_requested(began);
                }
            },
            Method::Register if self.registering.is_none() => {
                let asked = all.registered.asked(bytes);
                self.registering = Some((began, asked));
                all.metrics.registration_begun(began, asked.kind);
            }
            _ => {}
        }
        *self.asking(method) = Some(Asking { method, began, given_up: false });
        self.asked = true;
    }

    /// A request goes out while another one has no final response. Nobody could tell the response to one that
    /// was given up from that to its repetition; all others may get theirs.
    #[cold]
    fn overtaken(&mut self, now: Time, method: Method, all: &mut Statistics) {
        let other = self.asking(method).take();
        self.earlier.extend(other);
        let is_repeated = |own: &Asking| own.given_up && own.method == method;
        while let Some(at) = self.earlier.iter().position(is_repeated) {
            let before = self.earlier.remove(at);
            match method {
                // What it began is asked for again, as after a refusal.
                Method::Bye | Method::Register => {
                    all.metrics.transaction_ended(now, method, before.began, TransactionEnd::Timeout);
                }
                _ => self.timed_out(now, before, all),
            }
        }
        if self.earlier.len() > MOST_EARLIER {
            let oldest = self.earlier.remove(0);
            self.timed_out(now, oldest, all);
        }
    }

    /// A request got no answer at all.
    fn timed_out(&mut self, now: Time, Asking { method, began, .. }: Asking, all: &mut Statistics) {
        all.metrics.transaction_ended(now, method, began, TransactionEnd::Timeout);
        match method {
            Method::Invite => {
                if let Some(session) = self.session.as_mut().filter(|s| s.is_asked_for()) {
                    session.over = true;
                    all.metrics.session_timed_out(session.began);
                }
            }
            Method::Bye => {
                if let Some(session) = self.session.as_mut().filter(|s| !s.over)
                    && let Some(established) = session.established
                {
                    session.over = true;
                    all.metrics.session_ended(now, session.began, established, Bye::Timeout);
                }
            }
            Method::Register => {
                if let Some((began, asked)) = self.registering.take() {
                    all.metrics.registration_failed(now, began, asked.kind);
                }
            }
            _ => {}
        }
    }

    /// A message that a step of the scenario waited for.
    #[inline]
    pub fn received(&mut self, now: Time, heard: Heard, all: &mut Statistics) {
        if !heard.request {
            return self.response(now, heard, true, all);
        }
        if heard.method == Method::Bye
            && let Some(session) = self.session.as_mut().filter(|s| !s.over)
            && let Some(established) = session.established
        {
            session.over = true;
            all.metrics.session_ended(now, session.began, established, Bye::Received);
        }
    }

    /// A final response that the scenario did not want.
    pub fn refused(&mut self, now: Time, heard: Heard, all: &mut Statistics) {
        if !heard.request {
            self.response(now, heard, false, all);
        }
    }

    fn response(&mut self, now: Time, heard: Heard, wanted: bool, all: &mut Statistics) {
        let Heard { status, method, .. } = heard;
        if status < 200 {
            if status > 100 && method == Method::Invite && self.inviting.is_some() {
                self.rang(now, all);
            }
            return;
        }
        let Some(asking) = self.answered(method) else { return };
        let challenge = matches!(status, 401 | 407) && wanted;
        if challenge {
            all.metrics.challenged(now);
        }
        let end = if wanted { TransactionEnd::Success } else { TransactionEnd::Failed };
        all.metrics.transaction_ended(now, method, asking.began, end);
        match method {
            Method::Invite if !challenge => self.invite_answered(now, status, wanted, all),
            Method::Bye if status < 300 => self.bye_ended(now, Bye::Answered, all),
            Method::Bye if wanted => self.bye_refused = Some(now),
            Method::Bye => self.bye_ended(now, Bye::Refused, all),
            Method::Register if !challenge => self.register_answered(now, status, all),
            // A challenge of a registration is no response to it yet.
            _ if asking.method != Method::Register
                && !self.responded
                && self.session.is_none()
                && self.side == Side::Client =>
            {
                self.responded = true;
                all.metrics.responded(now, asking.began);
            }
            _ => {}
        }
    }

    /// A provisional response above 100 to the INVITE.
    fn rang(&mut self, now: Time, all: &mut Statistics) {
        let Some(session) = self.session.as_mut().filter(|s| s.is_asked_for()) else { return };
        session.rings = true;
        if session.progress.is_none() {
            session.progress = Some(now);
            all.metrics.session_progress(now, session.began);
        }
    }

    /// A final response to the INVITE that is no challenge.
    fn invite_answered(&mut self, now: Time, status: u16, wanted: bool, all: &mut Statistics) {
        let Some(session) = self.session.as_mut().filter(|session| session.is_asked_for()) else { return };
        match status {
            200..=299 => {
                session.established = Some(now);
                all.metrics.session_established(now, session.began, session.progress, status);
            }
            300..=399 => {
                (session.redirected, session.over) = (wanted, !wanted);
                all.metrics.session_redirected(session.began);
            }
            _ => {
                session.over = true;
                all.metrics.session_refused(now, session.began, session.progress, status);
            }
        }
    }

    /// A final response to a REGISTER that is no challenge.
    fn register_answered(&mut self, now: Time, status: u16, all: &mut Statistics) {
        let Some((began, asked)) = self.registering.take() else { return };
        match status {
            200..=299 => {
                all.registered.done(asked);
                all.metrics.registered(now, began, asked.kind);
            }
            _ => all.metrics.registration_refused(now, began, asked.kind, status),
        }
    }

    /// The BYE of a call has its end: that of a caller ends a session, that of a callee is measured only.
    fn bye_ended(&mut self, now: Time, end: fn(Began) -> Bye, all: &mut Statistics) {
        self.bye_refused = None;
        let Some(bye) = self.bye.take() else { return };
        if self.side == Side::Server {
            return all.metrics.callee_bye(now, bye, matches!(end(bye), Bye::Answered(_)));
        }
        let Some(session) = self.session.as_mut().filter(|session| !session.over) else { return };
        let Some(established) = session.established else { return };
        session.over = true;
        all.metrics.session_ended(now, session.began, established, end(bye));
    }

    /// The call has come to its end: nothing more is tried of what was refused last, and what was given up
    /// has no answer.
    #[inline]
    pub fn ended(&mut self, now: Time, all: &mut Statistics) {
        if self.registering.is_some() || self.bye_refused.is_some() || self.given_up.is_some() {
            self.settled(now, all);
        }
    }

    #[cold]
    fn settled(&mut self, now: Time, all: &mut Statistics) {
        let since = self.given_up.take().unwrap_or(now);
        while let Some(asking) = self.take_given_up() {
            self.timed_out(since, asking, all);
        }
        // An attempt that ends with a challenge, or without an answer, has failed (RFC 6076 section 4.2).
        if let Some((began, asked)) = self.registering.take() {
            all.metrics.registration_failed(now, began, asked.kind);
        }
        if let Some(at) = self.bye_refused {
            self.bye_ended(at, Bye::Refused, all);
        }
    }

    /// What the call waited for will not come: a request of its own got no answer at all, if one is awaited.
    pub fn silent(&mut self, now: Time, all: &mut Statistics) {
        let asking = self.asking.take();
        // It is the INVITE that a CANCEL is for.
        let other = asking.is_some_and(|asking| asking.method != Method::Cancel && !asking.given_up);
        let inviting = self.inviting.take_if(|_| !other);
        while let Some(earlier) = self.earlier.pop() {
            self.timed_out(now, earlier, all);
        }
        asking.into_iter().chain(inviting).for_each(|asking| self.timed_out(now, asking, all));
    }
}
