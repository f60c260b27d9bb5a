//! What the two servers do with a message. Neither remembers anything of it.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use sip_message::{Index, Limits, Message, Method, Parsed, Response, hex16, parse};
use wire::{Arrival, ConnId, Flow, Frame, FrameError, Machine, Outbox, Time, Transport};

/// Which of the two servers it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It sends back what comes.
    Echo,
    /// It reads SIP requests and answers 200.
    FrontEnd,
}

impl Role {
    /// As in the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Echo => "echo",
            Role::FrontEnd => "front-end",
        }
    }
}

/// The machine of a server.
pub struct Server {
    role: Role,
    index: Box<Index>,
    limits: Limits,
    /// Key of the tags in To: a repeated request gets the same one (RFC 3261 section 8.2.7).
    key: RandomState,
}

impl Server {
    /// A server that has seen nothing.
    pub fn new(role: Role) -> Server {
        Server { role, index: Box::new(Index::new()), limits: Limits::default(), key: RandomState::new() }
    }

    /// Answers a request: 200, or what is wrong with it. An ACK and a response have no answer.
    fn answer(&mut self, flow: Flow, bytes: &[u8], out: &mut Outbox) {
        let (message, status, reason) = match parse(bytes, &mut self.index, &self.limits) {
            Parsed::Good(message) => (message, 200, ""),
            Parsed::Bad(message, flaw) => (message, flaw.status, flaw.reason),
            Parsed::Garbage(_) => return,
        };
        if !message.is_request() || message.method() == Method::Ack {
            return;
        }
        let tag = hex16(self.key.hash_one((message.call_id(), message.from_tag())));
        let source = Some((flow.remote, false));
        let response = Response { tag: &tag, source, reason: reason.as_bytes(), ..Response::new(status) };
        out.send_with(back(flow, &message), 0, |out| response.write(&message, out));
    }
}

/// Where the response goes (RFC 3261 section 18.2.2, RFC 3581 section 4).
fn back(flow: Flow, message: &Message<'_>) -> Flow {
    let via = message.via();
    if flow.transport.is_reliable() || via.rport.is_some() {
        return flow;
    }
    Flow { remote: SocketAddr::new(flow.remote.ip(), via.port_or_default()), ..flow }
}

impl Machine for Server {
    type Notice = ();

    fn frame(&self, _: Transport, buffer: &[u8], resume: usize) -> Frame {
        match self.role {
            // Whatever has come goes back.
            Role::Echo => Frame::Message { skip: 0, len: buffer.len() },
            Role::FrontEnd => sip_message::frame(buffer, resume, &self.limits),
        }
    }

    fn owner(&self, _message: &[u8], _workers: u16) -> Option<u16> {
        None
    }

    fn receive(&mut self, arrival: Arrival<'_>, out: &mut Outbox) -> Option<u16> {
        match self.role {
            Role::Echo => {
                out.send(arrival.flow, 0, arrival.message);
            }
            Role::FrontEnd => self.answer(arrival.flow, arrival.message, out),
        }
        None
    }

    fn refuse(&mut self, _now: Time, flow: Flow, head: &[u8], _error: FrameError, out: &mut Outbox) {
        if !head.is_empty() {
            self.answer(flow, head, out);
        }
    }

    fn disconnected(&mut self, _now: Time, _conn: ConnId, _out: &mut Outbox) {}

    fn undeliverable(&mut self, _now: Time, _token: u64, _out: &mut Outbox) {}

    fn notice(&mut self, _now: Time, (): (), _out: &mut Outbox) {}

    fn timeout(&mut self, _now: Time, _out: &mut Outbox) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ListenerId;

    fn said(role: Role, message: &[u8]) -> Vec<String> {
        let mut out = Outbox::new();
        let flow = Flow::udp(ListenerId(0), ([127, 0, 0, 1], 7000).into());
        Server::new(role).receive(Arrival::new(Time::ZERO, flow, message), &mut out);
        let text = |transmit| String::from_utf8_lossy(out.message(transmit)).into_owned();
        out.transmits().iter().map(text).collect()
    }

    fn request(method: &str, more: &str) -> Vec<u8> {
        format!(
            "{method} sip:a@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:7000;branch=z9hG4bKx;rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:b@example.com>;tag=b\r\nTo: <sip:a@example.com>\r\nCall-ID: c\r\n\
             CSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn front_end_answers_requests_alone() {
        let [ok] = &said(Role::FrontEnd, &request("REGISTER", ""))[..] else { panic!("one answer") };
        assert!(ok.starts_with("SIP/2.0 200 OK\r\n") && ok.contains("To: <sip:a@example.com>;tag="), "{ok}");
        assert!(said(Role::FrontEnd, &request("ACK", "")).is_empty());
        assert!(said(Role::FrontEnd, ok.as_bytes()).is_empty());
        assert!(said(Role::FrontEnd, b"\0\xff\r\n\r\n").is_empty());
    }

    #[test]
    fn front_end_says_what_is_wrong_with_a_request() {
        let wrong = request("INVITE", "CSeq: 2 INVITE\r\n");
        let [answer] = &said(Role::FrontEnd, &wrong)[..] else { panic!("one answer") };
        assert!(answer.starts_with("SIP/2.0 400 "), "{answer}");
    }

    #[test]
    fn echo_sends_back_whatever_comes() {
        assert_eq!(said(Role::Echo, b"\0any\r\n"), ["\0any\r\n"]);
        let frame = Server::new(Role::Echo).frame(Transport::Tcp, b"abc", 0);
        assert_eq!(frame, Frame::Message { skip: 0, len: 3 });
    }
}
