//! A phone's own client transactions: RFC 3261 section 17.1 once more, written without a look at the
//! server's, so that a mistake there is not repeated here.

use crate::phone::Packet;
use core::time::Duration;
use std::net::SocketAddr;
use wire::Time;

const T1: Duration = Duration::from_millis(500);
const T2: Duration = Duration::from_secs(4);
const T1_X64: Duration = Duration::from_secs(32);

/// What a transaction is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Register,
    /// The first INVITE of call `0`.
    Invite(usize),
    /// The CANCEL of it.
    Cancel,
    /// A request within the dialog of call or leg `0`.
    Within(Party),
    /// A MESSAGE or OPTIONS: question number `0`.
    Ask(usize),
}

/// Which end of which call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Party {
    Caller(usize),
    /// A second dialog of a call that was forked.
    Stray(usize, usize),
    Callee(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Calling,
    Proceeding,
    /// A final response came; it may be repeated.
    Done,
}

/// The request that begins a transaction.
pub(crate) struct Opening {
    pub branch: String,
    pub method: &'static str,
    pub cseq: u32,
    pub purpose: Purpose,
}

pub(crate) struct Client {
    pub branch: String,
    pub method: &'static str,
    pub purpose: Purpose,
    pub state: State,
    pub bytes: Vec<u8>,
    pub to: SocketAddr,
    pub cseq: u32,
    /// The ACK of a failed INVITE.
    ack: Vec<u8>,
    reliable: bool,
    interval: Duration,
    resend: Time,
    end: Time,
}

/// What time did to a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// No final response.
    Timeout(Purpose, u32),
    /// Nothing to act on.
    Gone,
}

impl Client {
    pub fn new(now: Time, opening: Opening, reliable: bool, packet: &Packet) -> Client {
        let Opening { branch, method, cseq, purpose } = opening;
        Client {
            branch,
            method,
            purpose,
            state: State::Calling,
            bytes: packet.bytes.clone(),
            to: packet.to,
            cseq,
            ack: Vec::new(),
            reliable,
            interval: T1,
            resend: if reliable { Time::FAR } else { now + T1 },
            end: now + T1_X64,
        }
    }

    fn is_invite(&self) -> bool {
        self.method == "INVITE"
    }

    /// A response with this status; `Some`: it is news.
    pub fn response(&mut self, now: Time, status: u16, out: &mut Vec<Packet>) -> Option<()> {
        match (self.state, status) {
            (State::Done, _) => {
                if self.is_invite() && status >= 300 && !self.ack.is_empty() {
                    out.push(Packet { to: self.to, conn: None, bytes: self.ack.clone() });
                }
                // A 2xx of an INVITE is the call's business each time (13.2.2.4).
                (self.is_invite() && (200..300).contains(&status)).then_some(())
            }
            (_, 100..=199) => {
                self.state = State::Proceeding;
                if self.is_invite() {
                    (self.resend, self.end) = (Time::FAR, Time::FAR);
                } else if !self.reliable {
                    self.interval = T2;
                    self.resend = self.resend.min(now + T2);
                }
                Some(())
            }
            _ => {
                self.state = State::Done;
                self.resend = Time::FAR;
                self.end = now + T1_X64;
                Some(())
            }
        }
    }

    /// Acknowledges a failure, and each time it is repeated.
    pub fn acknowledge(&mut self, ack: Vec<u8>, out: &mut Vec<Packet>) {
        out.push(Packet { to: self.to, conn: None, bytes: ack.clone() });
        self.ack = ack;
    }

    pub fn deadline(&self) -> Time {
        self.resend.min(self.end)
    }

    pub fn timeout(&mut self, now: Time, out: &mut Vec<Packet>) -> Option<Ended> {
        if self.end <= now {
            return Some(match self.state {
                State::Done => Ended::Gone,
                _ => Ended::Timeout(self.purpose, self.cseq),
            });
        }
        if self.resend <= now {
            out.push(Packet { to: self.to, conn: None, bytes: self.bytes.clone() });
            self.interval = if self.is_invite() { self.interval * 2 } else { (self.interval * 2).min(T2) };
            self.resend = now + self.interval;
        }
        None
    }
}
