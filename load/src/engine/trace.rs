//! Every message as it passes, for who wants a file of them (`-trace_msg`).

use core::mem;
use wire::{Outbox, Time, Transport};

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traced {
    /// When it came, or left.
    pub at: Time,
    /// It left.
    pub sent: bool,
    /// How.
    pub transport: Transport,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// Bytes of messages that a worker keeps until they are asked for, several times a second: beyond it they are
/// left out.
const ROOM: usize = 16 << 20;

/// The messages since they were last asked for.
#[derive(Debug, Default)]
pub struct Trace {
    all: Vec<Traced>,
    bytes: usize,
    missed: u64,
}

impl Trace {
    /// A message came.
    pub fn received(&mut self, at: Time, transport: Transport, bytes: &[u8]) {
        self.keep(at, false, transport, bytes);
    }

    /// What is in an outbox behind the first messages left.
    pub fn sent(&mut self, at: Time, first: usize, out: &Outbox) {
        for transmit in out.transmits().iter().skip(first) {
            self.keep(at, true, transmit.flow.transport, out.message(transmit));
        }
    }

    fn keep(&mut self, at: Time, sent: bool, transport: Transport, bytes: &[u8]) {
        if self.bytes + bytes.len() > ROOM {
            self.missed += 1;
            return;
        }
        self.bytes += bytes.len();
        self.all.push(Traced { at, sent, transport, bytes: bytes.to_vec() });
    }

    /// What there is, and how many had no room.
    pub fn take(&mut self) -> (Vec<Traced>, u64) {
        self.bytes = 0;
        (mem::take(&mut self.all), mem::take(&mut self.missed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let mut trace = Trace::default();
        let large = vec![b'x'; ROOM / 2];
        for at in 0..3 {
            trace.received(Time::from_secs(at), Transport::Udp, &large);
        }
        let (all, missed) = trace.take();
        assert_eq!((all.len(), missed), (2, 1));
        trace.received(Time::from_secs(9), Transport::Udp, &large);
        assert_eq!(trace.take().0.len(), 1, "there is room again");
    }
}
