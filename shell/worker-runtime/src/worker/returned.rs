//! Datagrams that the network gave back, on their way to the machines.

use super::Worker;
use crate::counters::Counters;
use crate::shared::Hop;
use crate::sys;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use wire::Machine;

/// Reports taken from a socket in a row.
const TAKEN: usize = 64;
/// Reports that wait for the machines. More than that are lost: the machines' own timers see to it.
const WAITING: usize = 256;
/// Bytes kept of a datagram that came back: as many as ICMP repeats at most (RFC 1812 section 4.3.2.3).
const QUOTED: usize = 548;

/// Reports of one worker that its machine and the others' have not been told of yet.
#[derive(Default)]
pub(super) struct Reports(Vec<(SocketAddr, Box<[u8]>)>);

impl Reports {
    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes what a socket has to say, which also clears the error that its next call would meet, and
    /// answers how many reports there were, of any kind.
    pub(super) fn collect(&mut self, fd: BorrowedFd<'_>, counters: &Counters) -> usize {
        let mut quoted = [0; QUOTED];
        for taken in 0..TAKEN {
            counters.syscalls.one();
            let Ok(report) = sys::take_returned(fd, &mut quoted) else { return taken };
            let Some(report) = report.filter(|report| report.lost) else { continue };
            counters.udp_returned.one();
            let bytes = quoted.get(..report.len).unwrap_or(&quoted);
            if !bytes.is_empty() && self.0.len() < WAITING {
                self.0.push((report.to, bytes.into()));
            }
        }
        TAKEN
    }
}

impl<M: Machine> Worker<M> {
    /// Tells every worker's machine what came back.
    pub(super) fn report_returned(&mut self) {
        for (to, quoted) in std::mem::take(&mut self.datagrams.reports.0) {
            self.machine.returned(self.now, to, &quoted, &mut self.out);
            let (me, workers) = (self.links.me(), self.links.workers());
            for worker in (0..workers).filter(|&worker| worker != me) {
                self.links.tell(worker, Hop::Returned(to, quoted.clone()));
            }
        }
    }
}
