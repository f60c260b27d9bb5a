//! Datagrams that the network gave back, on their way to the machines.

use crate::counters::Counters;
use crate::sys;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Reports taken from a socket in a row.
const TAKEN: usize = 64;
/// Reports that wait for the machines. More than that are lost: the machines' own timers see to it.
const WAITING: usize = 256;
/// Bytes kept of a datagram that came back: as many as ICMP repeats at most (RFC 1812 section 4.3.2.3).
const QUOTED: usize = 548;

/// Reports of one worker that its machine and the others' do not know yet.
pub(super) struct Reports {
    waiting: Vec<(SocketAddr, Box<[u8]>)>,
    counters: Arc<Counters>,
}

impl Reports {
    /// None yet, of the worker with these counters.
    pub fn new(counters: Arc<Counters>) -> Reports {
        Reports { waiting: Vec::new(), counters }
    }

    /// The worker's counters.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Those that wait: where the datagram was sent, and how it began.
    pub fn take(&mut self) -> Vec<(SocketAddr, Box<[u8]>)> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes what a socket has to say, which also clears the error that its next call would meet, and
    /// answers how many reports there were, of any kind.
    pub fn collect(&mut self, fd: BorrowedFd<'_>) -> usize {
        let mut quoted = [0; QUOTED];
        for taken in 0..TAKEN {
            self.counters.syscalls.one();
            let Ok(report) = sys::take_returned(fd, &mut quoted) else { return taken };
            let Some(report) = report.filter(|report| report.lost) else { continue };
            self.counters.udp_returned.one();
            let bytes = quoted.get(..report.len).unwrap_or(&quoted);
            if !bytes.is_empty() && self.waiting.len() < WAITING {
                self.waiting.push((report.to, bytes.into()));
            }
        }
        TAKEN
    }
}
