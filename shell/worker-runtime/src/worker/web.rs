//! Reading WebSocket: frames to messages, each of which is one of SIP (RFC 7118 section 5).

use super::Worker;
use super::host::Host;
use super::reading::{Digest, Stop};
use crate::transport::stream::{Begun, End, asking};
use websocket::{ControlFrame, Event, Role};
use wire::{ConnId, Flow, Frame, Machine};

impl<H: Host> Worker<H> {
    /// Hands the messages on that are in the frames in `bytes`, until they end or the budget does.
    pub(super) fn digest_frames(&mut self, id: ConnId, flow: Flow, bytes: &mut [u8]) -> Digest {
        let nothing = Begun { resume: 0, message: false };
        let mut done = Digest { rest: 0..0, begun: nothing, message: false, stop: Stop::Budget };
        let Some((mut frames, limits)) = self.streams.begin_frames(id) else { return done };
        let mask = asking::mask(&mut self.streams, frames.role() == Role::Client);
        let mut reader = frames.read(bytes, &limits);
        let (mut ping, mut keepalive) = (None, None);
        for _ in 0..self.work_budget {
            match reader.next_event() {
                Ok(None) => done.stop = Stop::Hungry,
                Ok(Some(Event::Message { payload, .. })) => {
                    let message = reader.bytes(payload);
                    if is_keepalive(message) {
                        keepalive = self.answer_to_keepalive(flow, message).or(keepalive);
                    } else if self.driver.offer(flow, message) {
                        done.message = true;
                    } else {
                        reader.put_back();
                        done.stop = Stop::RingFull;
                    }
                }
                Ok(Some(Event::Ping(payload))) => {
                    ping = Some(ControlFrame::pong(reader.bytes(payload), mask))
                }
                Ok(Some(Event::Pong(_))) => {}
                Ok(Some(Event::Close { code, .. })) => done.stop = Stop::Ends(End::Asked(code)),
                Err(fault) => done.stop = Stop::Ends(End::Broken(fault)),
            }
            if done.stop != Stop::Budget {
                break;
            }
        }
        done.rest = reader.finish();
        done.begun.message = !done.rest.is_empty();
        if done.stop == Stop::Budget && done.rest.is_empty() {
            done.stop = Stop::Hungry;
        }
        let now = self.driver.now();
        if self.streams.end_frames(id, frames, ping, now) && !matches!(done.stop, Stop::Ends(_)) {
            done.stop = Stop::Ends(End::Pings);
        }
        if let Some(pong) = keepalive {
            self.streams.pong(id, pong, &self.poller, now);
        }
        done
    }

    /// What a keepalive of RFC 5626 is answered with, which the machine knows.
    fn answer_to_keepalive(&self, flow: Flow, message: &[u8]) -> Option<&'static [u8]> {
        if message.is_empty() {
            return None;
        }
        match self.driver.machine().frame(flow.transport, message, 0) {
            Frame::Ping { pong, .. } => Some(pong),
            _ => None,
        }
    }

    /// What the frames said ends a connection, once what was valid before it is answered.
    pub(super) fn end_web(&mut self, id: ConnId, end: End) {
        self.end_round();
        if let End::Broken(fault) = end {
            tracing::debug!(?id, %fault, "WebSocket ended");
        }
        self.streams.end_web(id, end, &self.poller, self.driver.now());
    }
}

/// Whether a message carries no more than a keepalive: line ends (RFC 7118 section 6), or nothing.
fn is_keepalive(message: &[u8]) -> bool {
    message.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}
