//! What passes, told to the record: sessions and registrations as RFC 6076 defines them, seen from the
//! messages of a call whatever its scenario is.

use super::Engine;
use super::call::Call;
use super::receive::Heard;
use super::registered::{Asked, Registered};
use crate::metrics::Metrics;
use crate::metrics::{Began, Bye, TransactionEnd};
use crate::scenario::Side;
use wire::Time;

type Method = crate::metrics::Method;

/// The client transaction that a call waits in.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    pub method: Method,
    pub began: Began,
    /// The scenario has given up waiting for its response, and gone on without (`ontimeout`). It may come
    /// yet.
    pub given_up: bool,
}

/// The session of a call that begins here.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Its first INVITE.
    pub began: Began,
    /// When the first provisional response above 100 came.
    pub progress: Option<Time>,
    /// One has come to the INVITE sent last.
    pub rings: bool,
    /// When the 2xx came.
    pub established: Option<Time>,
    /// It was refused, or has ended.
    pub over: bool,
    /// CANCEL has been sent.
    pub cancelled: bool,
    /// Its INVITE was answered with a 3xx that the scenario wants; it may go on elsewhere.
    pub redirected: bool,
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
#[derive(Clone, Copy, Default, Debug)]
pub struct Seen {
    /// The INVITE that has no final response yet.
    pub inviting: Option<Asking>,
    /// The other request, sent last, that has none.
    pub asking: Option<Asking>,
    /// When one that still has none was given up last.
    pub given_up: Option<Time>,
    /// There was a request.
    pub asked: bool,
    pub session: Option<Session>,
    /// The first BYE: a challenge, or another refusal that the scenario recovers from, does not end what it
    /// began (RFC 6076 section 4.4).
    pub bye: Option<Began>,
    /// When that was refused last, and no other one has followed.
    pub bye_refused: Option<Time>,
    /// The first REGISTER of the attempt under way.
    pub registering: Option<(Began, Asked)>,
    /// A response that says something has come.
    pub responded: bool,
}

impl Seen {
    /// Whether its INVITE has been heard of, and is not answered.
    pub fn rings(&self) -> bool {
        let session = self.session.is_some_and(|session| session.rings && session.established.is_none());
        session && self.inviting.is_some_and(awaited) && !self.asking.is_some_and(awaited)
    }

    /// The request whose final response is awaited.
    pub fn awaits(&self) -> Option<Asking> {
        self.asking.filter(|own| awaited(*own)).or(self.inviting.filter(|own| awaited(*own)))
    }

    /// The request of this method that may wait for its final response.
    pub(super) fn asking(&mut self, method: Method) -> &mut Option<Asking> {
        if method == Method::Invite { &mut self.inviting } else { &mut self.asking }
    }
}

fn awaited(asking: Asking) -> bool {
    !asking.given_up
}

/// Requests of a call without a final response that are remembered besides the last ones. Beyond it the
/// oldest has timed out.
const MOST_EARLIER: usize = 16;

impl Call {
    /// The scenario goes on without the responses that have not come.
    #[cold]
    pub fn give_up_asking(&mut self, now: Time) {
        let Seen { inviting, asking, given_up, .. } = &mut self.seen;
        let open = inviting.iter_mut().chain(asking).chain(&mut self.earlier);
        for asking in open.filter(|asking| !asking.given_up) {
            asking.given_up = true;
            *given_up = Some(now);
        }
    }

    /// A request that was given up, which is forgotten.
    fn take_given_up(&mut self) -> Option<Asking> {
        let at = self.earlier.iter().position(|asking| asking.given_up);
        let earlier = at.map(|at| self.earlier.remove(at));
        let Seen { inviting, asking, .. } = &mut self.seen;
        earlier
            .or_else(|| inviting.take_if(|own| own.given_up))
            .or_else(|| asking.take_if(|own| own.given_up))
    }

    /// The request that a final response to this method belongs to, which is forgotten: of several the one
    /// sent first.
    #[inline]
    fn answered(&mut self, method: Method) -> Option<Asking> {
        if self.earlier.is_empty() {
            return self.seen.asking(method).take_if(|own| own.method == method);
        }
        self.answered_one_of_several(method)
    }

    #[cold]
    fn answered_one_of_several(&mut self, method: Method) -> Option<Asking> {
        if let Some(at) = self.earlier.iter().position(|earlier| earlier.method == method) {
            return Some(self.earlier.remove(at));
        }
        let own = self.seen.asking(method).take_if(|own| own.method == method)?;
        // What was sent before it is awaited again.
        let is_invite = |method| method == Method::Invite;
        let before = self.earlier.iter().rposition(|other| is_invite(other.method) == is_invite(method));
        *self.seen.asking(method) = before.map(|at| self.earlier.remove(at));
        Some(own)
    }
}

/// When a request that goes out now was meant to: the first of a call that begins here with the call, others
/// with what came before them.
fn began(call: &Call, now: Time, woken: Time) -> Began {
    match call.seen.asked || call.side == Side::Server {
        false => call.began,
        true => Began { intended: now, sent: now.max(woken) },
    }
}

/// What a message of a call is told to.
pub(super) struct Note<'e> {
    pub metrics: &'e mut Metrics,
    pub registered: &'e mut Registered,
    pub call: &'e mut Call,
}

impl Note<'_> {
    /// A message of a scenario went out: a request of this method, or a response.
    #[inline]
    pub fn sent(self, now: Time, woken: Time, method: Option<Method>) {
        let Note { metrics, registered, call } = self;
        let left = now.max(woken);
        let Some(method) = method else { return metrics.response_sent(left) };
        metrics.request_sent(left, method);
        if method == Method::Ack {
            return;
        }
        let began = began(call, now, woken);
        if call.seen.asking(method).is_some() {
            Note { metrics, registered, call }.overtaken(now, method);
        }
        match method {
            Method::Cancel => {
                call.seen.session.iter_mut().for_each(|session| session.cancelled = true);
                // Its end is awaited again.
                call.seen.inviting.iter_mut().for_each(|inviting| inviting.given_up = false);
            }
            Method::Bye => {
                call.seen.bye.get_or_insert(began);
                call.seen.bye_refused = None;
            }
            // Sessions and registrations are those of who asks for them.
            _ if call.side == Side::Server => {}
            Method::Invite => match call.seen.session.as_mut().filter(|session| !session.over) {
                Some(session) => {
                    if core::mem::take(&mut session.redirected) {
                        metrics.redirect_followed(session.began);
                    }
                    (session.cancelled, session.rings) = (false, false);
                }
                None => {
                    call.seen.session = Some(Session::new(began));
                    call.seen.bye = None;
                    metrics.session_requested(began);
                }
            },
            Method::Register if call.seen.registering.is_none() => {
                let asked = registered.asked(&call.sent);
                call.seen.registering = Some((began, asked));
                metrics.registration_begun(began, asked.kind);
            }
            _ => {}
        }
        *call.seen.asking(method) = Some(Asking { method, began, given_up: false });
        call.seen.asked = true;
    }

    /// A request goes out while another one has no final response. Nobody could tell the response to one that
    /// was given up from that to its repetition; all others may get theirs.
    #[cold]
    fn overtaken(mut self, now: Time, method: Method) {
        let other = self.call.seen.asking(method).take();
        self.call.earlier.extend(other);
        let is_repeated = |own: &Asking| own.given_up && own.method == method;
        while let Some(at) = self.call.earlier.iter().position(is_repeated) {
            let before = self.call.earlier.remove(at);
            match method {
                // What it began is asked for again, as after a refusal.
                Method::Bye | Method::Register => {
                    self.metrics.transaction_ended(now, method, before.began, TransactionEnd::Timeout);
                }
                _ => self.timed_out(now, before),
            }
        }
        if self.call.earlier.len() > MOST_EARLIER {
            let oldest = self.call.earlier.remove(0);
            self.timed_out(now, oldest);
        }
    }

    /// A request got no answer at all.
    fn timed_out(&mut self, now: Time, Asking { method, began, .. }: Asking) {
        self.metrics.transaction_ended(now, method, began, TransactionEnd::Timeout);
        let seen = &mut self.call.seen;
        match method {
            Method::Invite => {
                if let Some(session) = seen.session.as_mut().filter(|s| s.is_asked_for()) {
                    session.over = true;
                    self.metrics.session_timed_out(session.began);
                }
            }
            Method::Bye => {
                if let Some(session) = seen.session.as_mut().filter(|s| !s.over)
                    && let Some(established) = session.established
                {
                    session.over = true;
                    self.metrics.session_ended(now, session.began, established, Bye::Timeout);
                }
            }
            Method::Register => {
                if let Some((began, asked)) = seen.registering.take() {
                    self.metrics.registration_failed(now, began, asked.kind);
                }
            }
            _ => {}
        }
    }

    /// A message that a step of the scenario waited for.
    #[inline]
    pub fn received(self, now: Time, heard: Heard) {
        if heard.request {
            if heard.method == Method::Bye
                && let Some(session) = self.call.seen.session.as_mut().filter(|s| !s.over)
                && let Some(established) = session.established
            {
                session.over = true;
                self.metrics.session_ended(now, session.began, established, Bye::Received);
            }
            return;
        }
        self.response(now, heard, true);
    }

    /// A final response that the scenario did not want.
    pub fn refused(self, now: Time, heard: Heard) {
        if !heard.request {
            self.response(now, heard, false);
        }
    }

    fn response(self, now: Time, heard: Heard, wanted: bool) {
        let Note { metrics, registered, call } = self;
        let Heard { status, method, .. } = heard;
        if status < 200 {
            if status > 100
                && method == Method::Invite
                && call.seen.inviting.is_some()
                && let Some(session) = call.seen.session.as_mut().filter(|s| s.is_asked_for())
            {
                session.rings = true;
                if session.progress.is_none() {
                    session.progress = Some(now);
                    metrics.session_progress(now, session.began);
                }
            }
            return;
        }
        let Some(asking) = call.answered(method) else { return };
        let challenge = matches!(status, 401 | 407) && wanted;
        if challenge {
            metrics.challenged(now);
        }
        let end = match wanted {
            true => TransactionEnd::Success,
            false => TransactionEnd::Failed,
        };
        metrics.transaction_ended(now, method, asking.began, end);
        match method {
            Method::Invite if !challenge => {
                let session = call.seen.session.as_mut().filter(|session| session.is_asked_for());
                let Some(session) = session else { return };
                match status {
                    200..=299 => {
                        session.established = Some(now);
                        metrics.session_established(now, session.began, session.progress, status);
                    }
                    300..=399 => {
                        (session.redirected, session.over) = (wanted, !wanted);
                        metrics.session_redirected(session.began);
                    }
                    _ => {
                        session.over = true;
                        metrics.session_refused(now, session.began, session.progress, status);
                    }
                }
            }
            Method::Bye if status < 300 => Note { metrics, registered, call }.bye_ended(now, Bye::Answered),
            Method::Bye if wanted => call.seen.bye_refused = Some(now),
            Method::Bye => Note { metrics, registered, call }.bye_ended(now, Bye::Refused),
            Method::Register if !challenge => {
                let Some((began, asked)) = call.seen.registering.take() else { return };
                match status {
                    200..=299 => {
                        registered.done(asked);
                        metrics.registered(now, began, asked.kind);
                    }
                    _ => metrics.registration_refused(now, began, asked.kind, status),
                }
            }
            // A challenge of a registration is no response to it yet.
            _ if asking.method != Method::Register
                && !call.seen.responded
                && call.seen.session.is_none()
                && call.side == Side::Client =>
            {
                call.seen.responded = true;
                metrics.responded(now, asking.began);
            }
            _ => {}
        }
    }

    /// The BYE of a call has its end: that of a caller ends a session, that of a callee is measured only.
    fn bye_ended(self, now: Time, end: fn(Began) -> Bye) {
        let Note { metrics, call, .. } = self;
        call.seen.bye_refused = None;
        let Some(bye) = call.seen.bye.take() else { return };
        if call.side == Side::Server {
            return metrics.callee_bye(now, bye, matches!(end(bye), Bye::Answered(_)));
        }
        let Some(session) = call.seen.session.as_mut().filter(|session| !session.over) else { return };
        let Some(established) = session.established else { return };
        session.over = true;
        metrics.session_ended(now, session.began, established, end(bye));
    }

    /// A call has come to its end: nothing more is tried of what was refused last, and what was given up has
    /// no answer.
    #[inline]
    pub fn ended(self, now: Time) {
        let seen = &self.call.seen;
        if seen.registering.is_some() || seen.bye_refused.is_some() || seen.given_up.is_some() {
            self.settled(now);
        }
    }

    #[cold]
    fn settled(mut self, now: Time) {
        let since = self.call.seen.given_up.take().unwrap_or(now);
        while let Some(asking) = self.call.take_given_up() {
            self.timed_out(since, asking);
        }
        let Note { metrics, registered, call } = self;
        // An attempt that ends with a challenge, or without an answer, has failed (RFC 6076 section 4.2).
        if let Some((began, asked)) = call.seen.registering.take() {
            metrics.registration_failed(now, began, asked.kind);
        }
        if let Some(at) = call.seen.bye_refused {
            Note { metrics, registered, call }.bye_ended(at, Bye::Refused);
        }
    }
}

impl Engine {
    /// Whom what passes of a call is told to.
    pub(super) fn note(&mut self, slot: u32) -> Option<Note<'_>> {
        let Engine { metrics, registered, calls, .. } = self;
        Some(Note { metrics, registered, call: calls.at(slot)? })
    }

    /// A call comes to its end.
    #[inline]
    pub(super) fn note_end(&mut self, now: Time, slot: u32) {
        if let Some(note) = self.note(slot) {
            note.ended(now);
        }
    }

    /// A message went out again.
    pub(super) fn note_repeated(&mut self, now: Time, _slot: u32, bytes: &[u8]) {
        if bytes.starts_with(b"SIP/2.0 ") {
            return self.metrics.response_repeated(now);
        }
        let name = bytes.split(|&b| b == b' ').next().unwrap_or(b"");
        self.metrics.request_repeated(now, Method::from(sip_message::Method::from_bytes(name)));
    }

    /// What a call waited for will not come: a request of its own got no answer at all, if one is awaited.
    pub(super) fn note_silence(&mut self, now: Time, slot: u32) {
        let Some(mut note) = self.note(slot) else { return };
        let asking = note.call.seen.asking.take();
        // It is the INVITE that a CANCEL is for.
        let other = asking.is_some_and(|asking| asking.method != Method::Cancel && !asking.given_up);
        let inviting = note.call.seen.inviting.take_if(|_| !other);
        while let Some(earlier) = note.call.earlier.pop() {
            note.timed_out(now, earlier);
        }
        asking.into_iter().chain(inviting).for_each(|asking| note.timed_out(now, asking));
    }
}
