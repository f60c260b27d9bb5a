//! Messages of transports whose sockets keep their boundaries.

use super::Worker;
use super::host::Host;
use super::reading::{Digest, Stop};
use crate::transport::stream::{Begun, WHOLE, sharing};
use wire::{ConnId, Flow, FrameError};

impl<H: Host> Worker<H> {
    /// Takes what came for the associations that share listening socket `number`, in the order in which it
    /// came.
    pub(super) fn read_associations(&mut self, number: usize) {
        let mut budget = self.work_budget;
        while let Some((id, read)) =
            sharing::read_shared(&mut self.streams, number, &mut budget, &self.poller, self.driver.now())
        {
            self.take_read(id, read);
        }
    }

    /// Hands on a message of SCTP, which is one message of SIP (RFC 4168 section 5), once it is `whole`: the
    /// kernel may deliver a long one in parts (RFC 6458 section 3.1.4).
    pub(super) fn digest_record(&mut self, id: ConnId, flow: Flow, bytes: &[u8], whole: bool) -> Digest {
        let begun = Begun { resume: if whole { WHOLE } else { 0 }, message: true };
        let left = |stop| Digest { rest: 0..bytes.len(), begun, message: false, stop };
        if bytes.len() > self.max_message {
            return left(Stop::Broken(0, FrameError::BodyTooLong));
        }
        if !whole {
            return left(Stop::Hungry);
        }
        let skip = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let len = bytes.len() - skip;
        if len > 0
            && let Err(stop) = self.message(flow, bytes, skip, len)
        {
            return left(stop);
        }
        // A keepalive (RFC 5626 section 3.5.1).
        if bytes == b"\r\n\r\n" {
            self.streams.pong(id, b"\r\n", &self.poller, self.driver.now());
        }
        Digest { rest: 0..0, begun, message: len > 0, stop: Stop::Hungry }
    }
}
