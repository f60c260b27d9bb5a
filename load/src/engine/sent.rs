//! What a call has sent: to be sent again, to be answered, and to be acknowledged again.

use super::acks::Acks;
use super::wheel::tick;
use super::{Retransmission, call};
use crate::metrics::Method;
use crate::scenario::{self, Send};
use crate::timers::T1;
use core::mem;
use core::time::Duration;
use sip_message::Message;
use wire::Time;

/// When the message sent last is sent again.
#[derive(Clone, Copy, Debug)]
struct Resend {
    at: Time,
    /// Microseconds since it was sent before.
    interval: u64,
    /// How often it may still be.
    left: u32,
    /// The largest interval, microseconds (T2; none for an INVITE).
    longest: u64,
    /// The step that sent it; none if it is what a call said at last.
    step: Option<usize>,
}

/// What is to be done with a message whose time to be sent again has come.
pub enum Again {
    /// It is sent again, and was meant to be at this time.
    Send(Time),
    /// It was sent as often as it may; by this step.
    Over(Option<usize>),
}

/// The messages that a call has sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// The last one.
    last: Vec<u8>,
    /// The step that sent it; none if it is what a call said at last.
    step: Option<usize>,
    /// The ACKs: a final response that comes again is answered with its own, whatever was sent since.
    acks: Acks,
    resend: Option<Resend>,
    /// Branches of named transactions.
    branches: Vec<Vec<u8>>,
}

impl Sent {
    /// Of a call that begins, with this number of named transactions.
    pub fn begin(&mut self, transactions: usize) {
        self.branches.resize_with(transactions, Vec::new);
    }

    /// The message sent last.
    #[inline]
    pub fn last(&self) -> &[u8] {
        &self.last
    }

    /// Room for the message of a step; what stands in it is the one before.
    #[inline]
    pub fn last_mut(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    /// The step that sent it.
    pub fn step(&self) -> Option<usize> {
        self.step
    }

    /// The ACKs.
    pub fn acks(&self) -> &Acks {
        &self.acks
    }

    /// The branch of a named transaction.
    pub fn branch(&self, number: u16) -> Option<&[u8]> {
        self.branches.get(usize::from(number)).map(Vec::as_slice)
    }

    /// Whether the message sent last begins with this word.
    pub fn is(&self, method: &[u8]) -> bool {
        self.last.split(|&byte| byte == b' ').next() == Some(method)
    }

    /// A step is about to send. Answers whether it is the first one that does.
    #[inline]
    pub fn prepare(&mut self, step: usize, invite: bool) -> bool {
        if invite {
            self.acks.invite();
        }
        self.resend = None;
        self.step.replace(step).is_none()
    }

    /// The message of a step has left.
    #[inline(always)]
    pub fn left(&mut self, at: Time, send: &Send, rules: Retransmission, reliable: bool) {
        if let Some(branch) = send.start_txn.and_then(|n| self.branches.get_mut(usize::from(n))) {
            branch.clear();
            branch.extend_from_slice(scenario::top_branch(&self.last));
        }
        if send.method == Some(Method::Ack) {
            self.acks.keep(send.ack_txn, &self.last);
        }
        if let Some(t1) = send.retrans_ms.filter(|_| rules.on && !reliable) {
            let (interval, invite) = (u64::from(t1) * 1_000, send.method == Some(Method::Invite));
            self.resend = Some(Resend {
                at: tick(at + Duration::from_micros(interval)),
                interval,
                left: if invite { rules.invite } else { rules.other },
                longest: if invite { u64::MAX } else { rules.t2.as_micros() as u64 },
                step: self.step,
            });
        }
    }

    /// What a call says at last, in place of what it sent before, which is handed back.
    pub fn part(&mut self, farewell: Vec<u8>) -> Vec<u8> {
        mem::replace(&mut self.last, farewell)
    }

    /// The message sent last is what the call says at last, and is repeated until it is answered.
    pub fn insist(&mut self, now: Time, rules: Retransmission, reliable: bool) {
        self.step = None;
        self.resend = (rules.on && !reliable).then_some(Resend {
            at: tick(now + T1),
            interval: T1.as_micros() as u64,
            left: rules.other,
            longest: rules.t2.as_micros() as u64,
            step: None,
        });
    }

    /// The message sent last needs to be sent no more.
    #[inline]
    pub fn stop(&mut self) {
        self.resend = None;
    }

    /// When it is sent again.
    #[inline]
    pub fn resend_at(&self) -> Option<Time> {
        self.resend.as_ref().map(|resend| resend.at)
    }

    /// What is to be done now that its time has come. If it is sent again, the next time is set; otherwise
    /// there is none.
    pub fn again(&mut self, now: Time) -> Option<Again> {
        let resend = self.resend.as_mut().filter(|resend| resend.at <= now)?;
        if resend.left == 0 {
            let step = resend.step;
            self.resend = None;
            return Some(Again::Over(step));
        }
        let meant = resend.at;
        resend.left -= 1;
        resend.interval = (resend.interval * 2).min(resend.longest);
        resend.at = tick(now + Duration::from_micros(resend.interval));
        Some(Again::Send(meant))
    }

    /// The ACK of a final response to an INVITE that comes again.
    pub fn ack_of(&self, answer: &Message<'_>) -> Option<&[u8]> {
        let transaction = match self.branches.is_empty() {
            true => None,
            false => self.branches.iter().position(|branch| branch == answer.via_branch()),
        };
        let transaction = transaction.and_then(|n| u16::try_from(n).ok());
        self.acks.of(transaction, answer.cseq())
    }

    /// Forgets everything but the memory.
    pub fn clear(&mut self) {
        call::clear(&mut self.last);
        (self.step, self.resend) = (None, None);
        self.acks.clear();
        self.branches.iter_mut().for_each(Vec::clear);
    }
}
