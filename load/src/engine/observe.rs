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

    /// Whether its INVITE has no end yet: what comes later is an INVITE within the session, whose answer says nothing of
    /// it (RFC 3261 section 14.1).
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
    /// The scenario has given up waiting for their responses, and gone on without.
    pub given_up: bool,
    /// There was a request.
    pub asked: bool,
    pub session: Option<Session>,
    /// The first BYE: a challenge, or another refusal that the scenario recovers from, does not end what it began
    /// (RFC 6076 section 4.4).
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
        session && self.inviting.is_some() && self.asking.is_none() && !self.given_up
    }

    /// The request whose final response is awaited.
    pub fn awaits(&self) -> Option<Asking> {
        self.asking.or(self.inviting).filter(|_| !self.given_up)
    }

    /// The request of this method that may wait for its final response.
    pub(super) fn asking(&mut self, method: Method) -> &mut Option<Asking> {
        if method == Method::Invite { &mut self.inviting } else { &mut self.asking }
    }
}

/// When a request that goes out now was meant to: the first of a call that begins here with the call, others with what
/// came before them.
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
        let began = began(call, now, woken);
        match method {
            Method::Cancel => {
                call.seen.session.iter_mut().for_each(|session| session.cancelled = true);
                return;
            }
            Method::Ack => return,
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
        if std::mem::take(&mut call.seen.given_up) {
            call.seen.inviting = None;
            call.seen.asking = None;
        }
        *call.seen.asking(method) = Some(Asking { method, began });
        call.seen.asked = true;
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
        let Some(asking) = call.seen.asking(method).filter(|asking| asking.method == method) else { return };
        let challenge = matches!(status, 401 | 407) && wanted;
        if status < 200 {
            if status > 100
                && method == Method::Invite
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
        *call.seen.asking(method) = None;
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
                    _ => metrics.registration_failed(now, began, asked.kind),
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

    /// A call has come to its end: nothing more is tried of what was refused last.
    #[inline]
    pub fn ended(self, now: Time) {
        if self.call.seen.registering.is_some() || self.call.seen.bye_refused.is_some() {
            self.settled(now);
        }
    }

    #[cold]
    fn settled(self, now: Time) {
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

    /// A request got no answer at all.
    pub(super) fn note_silence(&mut self, now: Time, slot: u32) {
        let Some(call) = self.calls.at(slot) else { return };
        let Some(asking) = call.seen.asking.take().or_else(|| call.seen.inviting.take()) else { return };
        self.metrics.transaction_ended(now, asking.method, asking.began, TransactionEnd::Timeout);
        match asking.method {
            Method::Invite => {
                if let Some(session) = call.seen.session.as_mut().filter(|s| s.is_asked_for()) {
                    session.over = true;
                    self.metrics.session_timed_out(session.began);
                }
            }
            Method::Bye => {
                if let Some(session) = call.seen.session.as_mut().filter(|s| !s.over)
                    && let Some(established) = session.established
                {
                    session.over = true;
                    self.metrics.session_ended(now, session.began, established, Bye::Timeout);
                }
            }
            Method::Register => {
                if let Some((began, asked)) = call.seen.registering.take() {
                    self.metrics.registration_failed(now, began, asked.kind);
                }
            }
            _ => {}
        }
    }
}
