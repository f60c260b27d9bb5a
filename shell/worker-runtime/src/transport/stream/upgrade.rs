//! The handshake of WebSocket on a stream (RFC 6455 section 4.2), and what its frames owe the peer.

use super::Streams;
use super::asking;
use super::input::Begun;
use super::phase::Reason;
use super::reading::Read;
use super::web::{Begins, End, Web};
use crate::config::WebSocket;
use crate::sys::Poller;
use std::borrow::Cow;
use std::ops::Range;
use websocket::{
    Accepted, CloseCode, Connection, ControlFrame, Limits, Received, Request, Status, read_request,
};
use wire::{ConnId, Time};

/// The path under which everybody may ask whether the server serves.
const HEALTH: &[u8] = b"/healthz";

/// What the bytes of a client mean that may be a request.
enum Verdict {
    /// There are too few of them; this is what the reader wants back.
    Wait(usize),
    /// They are SIP.
    Sip,
    /// It is accepted with this.
    Accept(Box<Accepted>),
    /// It gets this answer. `refused`: the client asked for what it does not get.
    Answer { response: Cow<'static, [u8]>, refused: bool },
}

impl Verdict {
    /// 503 says that the server stops, which is no fault of the client.
    fn refuse(status: Status) -> Verdict {
        Verdict::Answer { response: Cow::Borrowed(status.response()), refused: status.code() < 500 }
    }
}

impl WebSocket {
    /// What the bytes of a connection mean whose handshake goes on, of which nobody may know yet that there
    /// is one (`undecided`). `resume` is what [`Verdict::Wait`] said; the server `stops` or does not.
    fn judge(&self, bytes: &[u8], undecided: bool, resume: usize, stops: bool) -> Verdict {
        if undecided {
            match Begins::of(bytes) {
                Begins::Unclear => return Verdict::Wait(0),
                Begins::Sip => return Verdict::Sip,
                Begins::Http => {}
            }
        }
        match read_request(bytes, resume) {
            Ok(Received::Partial { resume }) => Verdict::Wait(resume),
            Ok(Received::Whole(request)) => self.answer(&request, stops),
            Err(refusal) => {
                tracing::debug!(%refusal, "WebSocket refused");
                Verdict::refuse(refusal.status())
            }
        }
    }

    /// Whether a page of this origin may connect. Only browsers send an origin, and always do (RFC 6455
    /// section 10.2).
    fn takes_origin(&self, origin: Option<&[u8]>) -> bool {
        let known = |origin| self.origins.iter().any(|o| o.as_bytes().eq_ignore_ascii_case(origin));
        self.origins.is_empty() || origin.is_none_or(known)
    }

    /// Whether a client with this query may connect.
    fn admits(&self, query: Option<&[u8]>) -> bool {
        self.admission.as_ref().is_none_or(|admission| admission.admits(query.unwrap_or_default()))
    }

    /// What a whole request is answered with.
    fn answer(&self, request: &Request<'_>, stops: bool) -> Verdict {
        if request.path() == HEALTH && !request.asks_for_websocket() {
            let (code, reason, body) =
                if stops { (503, "Service Unavailable", "stopping\n") } else { (200, "OK", "ok\n") };
            let mut response = Vec::new();
            websocket::write_response(&mut response, code, reason, body);
            return Verdict::Answer { response: Cow::Owned(response), refused: false };
        }
        if self.path.as_ref().is_some_and(|path| path.as_bytes() != request.path()) {
            return Verdict::refuse(Status::NotFound);
        }
        match request.upgrade() {
            Err(refusal) => Verdict::refuse(refusal.status()),
            Ok(upgrade) if !self.takes_origin(upgrade.origin()) => Verdict::refuse(Status::Forbidden),
            Ok(_) if stops => Verdict::refuse(Status::Unavailable),
            Ok(_) if !self.admits(request.query()) => Verdict::refuse(Status::Forbidden),
            Ok(upgrade) => Verdict::Accept(Box::new(upgrade.accept())),
        }
    }
}

impl Streams {
    /// New bytes are at `fresh` in the scratch buffer, of a connection whose handshake goes on. Returns all
    /// that has come if it is SIP.
    pub(super) fn greet(&mut self, id: ConnId, fresh: Range<usize>, poller: &Poller, now: Time) -> Read {
        let mut input = self.take_input(id).unwrap_or_else(|| self.buffers.input());
        let resume = input.resume();
        input.add(self.reading.scratch.get(fresh).unwrap_or_default());
        let asked = self.table.get(id).and_then(|conn| conn.link().web()?.asked());
        if let Some(key) = asked {
            return asking::answered(self, (id, &key), input, poller, now);
        }
        let undecided =
            self.table.get(id).is_some_and(|conn| conn.link().web().is_some_and(Web::is_undecided));
        let stops = self.acceptor.has_stopped();
        match self.shared.websocket.judge(input.unread(), undecided, resume, stops) {
            Verdict::Wait(resume) => {
                input.consume(0, Begun { resume, message: true }, now);
                if !self.park(id, input) {
                    self.close(id, Reason::Slow);
                }
                return Read::Nothing;
            }
            Verdict::Sip => {
                input.consume(0, Begun { resume: 0, message: false }, now);
                if let Some(conn) = self.table.get_mut(id) {
                    conn.link_mut().is_no_web();
                }
                self.opened(id, poller, now);
                return Read::Input(input);
            }
            Verdict::Accept(accepted) => {
                self.counters.websocket_handshakes.one();
                self.shared.becomes_web(id, self.table.get_mut(id), Web::opens);
                self.write_bytes(id, accepted.as_bytes());
                self.opened(id, poller, now);
            }
            Verdict::Answer { response, refused } => {
                if refused {
                    self.counters.websocket_refused.one();
                }
                self.shared.becomes_web(id, self.table.get_mut(id), Web::is_answered);
                self.write_bytes(id, &response);
                self.begin_close(id, Reason::Useless, poller, now);
            }
        }
        self.buffers.recycle_input(input);
        Read::Nothing
    }

    /// The state of a connection's frames, for one pass over bytes; to be [given back](Streams::end_frames).
    /// `None` if it has none.
    pub fn begin_frames(&mut self, id: ConnId) -> Option<(Connection, Limits)> {
        let frames = self.table.get_mut(id)?.link_mut().web_mut()?.take()?;
        Some((frames, Limits { message: self.shared.websocket.max_message, ..Limits::default() }))
    }

    /// A pass over bytes is over. Answers the last Ping that was among them by `pong`. `true`, and no answer,
    /// if the peer sends too many.
    pub fn end_frames(
        &mut self,
        id: ConnId,
        frames: Connection,
        pong: Option<ControlFrame>,
        now: Time,
    ) -> bool {
        let Some(web) = self.table.get_mut(id).and_then(|conn| conn.link_mut().web_mut()) else {
            return false;
        };
        web.give_back(frames);
        let Some(pong) = pong else { return false };
        let many = web.has_many_pings(now);
        if !many {
            self.write_bytes(id, pong.as_bytes());
        }
        many
    }

    /// Begins the closing handshake of a connection.
    pub fn end_web(&mut self, id: ConnId, end: End, poller: &Poller, now: Time) {
        let Some(web) = self.table.get_mut(id).and_then(|conn| conn.link_mut().web_mut()) else { return };
        web.ends(end);
        let reason = match end {
            End::Asked(_) => Reason::Peer,
            End::Broken(_) | End::Pings => {
                self.counters.websocket_faults.one();
                Reason::Broken
            }
        };
        self.close_gently(id, reason, poller, now);
    }

    /// Queues the Close frame of a connection, with this code if nothing else says why it ends; `false` if it
    /// has none to send.
    pub(super) fn write_close(&mut self, id: ConnId, code: CloseCode) -> bool {
        let web = self.table.get_mut(id).and_then(|conn| conn.link_mut().web_mut());
        let frame = web.and_then(|web| {
            let mask = web.is_client().then(|| self.masks.mask());
            web.close(code, mask)
        });
        frame.inspect(|frame| self.write_bytes(id, frame.as_bytes())).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Admission;

    fn answered(settings: &WebSocket, head: &str, stops: bool) -> String {
        let head = format!("{head}\r\n\r\n").replace('|', "\r\n");
        let Ok(Received::Whole(request)) = read_request(head.as_bytes(), 0) else { panic!("{head}") };
        let bytes = match settings.answer(&request, stops) {
            Verdict::Accept(accepted) => accepted.as_bytes().to_vec(),
            Verdict::Answer { response, .. } => response.into_owned(),
            Verdict::Wait(_) | Verdict::Sip => panic!("no answer"),
        };
        String::from_utf8(bytes).expect("text")
    }

    const ASKS: &str = "Host: a|Upgrade: websocket|Connection: Upgrade|Sec-WebSocket-Version: 13|\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==|Sec-WebSocket-Protocol: sip";

    #[test]
    fn path_origin_and_stop_decide_after_the_handshake_is_valid() {
        let any = WebSocket::default();
        let site = "https://phone.example.com";
        let strict = WebSocket { path: Some("/ws".into()), origins: vec![site.into()], ..any.clone() };
        let ask = |settings: &WebSocket, path: &str, more: &str, stops| {
            let text = answered(settings, &format!("GET {path} HTTP/1.1|{ASKS}{more}"), stops);
            text.get(9..12).expect("a status").to_owned()
        };
        assert_eq!(ask(&any, "/", "", false), "101");
        assert_eq!(ask(&any, "/any?x=1", "|Origin: https://evil.example", false), "101");
        assert_eq!(ask(&strict, "/", "", false), "404");
        assert_eq!(ask(&strict, "/ws?x=1", "", false), "101", "no browser");
        assert_eq!(ask(&strict, "/ws", "|Origin: https://evil.example", false), "403");
        assert_eq!(ask(&strict, "/ws", "|Origin: null", false), "403");
        assert_eq!(ask(&strict, "/ws", &format!("|Origin: {site}"), false), "101");
        assert_eq!(ask(&strict, "/ws", "", true), "503");
    }

    #[test]
    fn query_is_judged_last() {
        let admission = Some(Admission::new(|query| query == b"token=right"));
        let settings = WebSocket { admission, path: Some("/ws".into()), ..WebSocket::default() };
        let ask = |target: &str| answered(&settings, &format!("GET {target} HTTP/1.1|{ASKS}"), false);
        for (target, status) in [
            ("/ws?token=right", " 101 "),
            ("/ws?token=", " 403 "),
            ("/ws", " 403 "),
            ("/?token=right", " 404 "),
        ] {
            assert!(ask(target).contains(status), "{target}: {}", ask(target));
        }
    }

    #[test]
    fn health_is_told_on_any_settings() {
        let strict = WebSocket { path: Some("/ws".into()), ..WebSocket::default() };
        assert!(answered(&strict, "GET /healthz HTTP/1.1|Host: a", false).contains("200 OK"));
        assert!(answered(&strict, "GET /healthz HTTP/1.1|Host: a", true).contains("503 "));
        assert!(answered(&strict, "GET / HTTP/1.1|Host: a", false).contains("404 "));
        assert!(answered(&strict, "GET /ws HTTP/1.1|Host: a", false).contains("426 "));
    }
}
