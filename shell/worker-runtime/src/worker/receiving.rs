//! Receiving datagrams, and answering them: one by one while there are few, else in batches.

use super::Worker;
use super::host::Host;
use crate::monotonic_now;
use crate::shared::Hop;
use crate::transport::udp::{BATCH_PAYS, BATCHES, Looks, Taken};
use wire::Machine;

impl<H: Host> Worker<H> {
    /// Takes datagrams from socket `number` and sends what the machine answers. What is left there,
    /// epoll reports again.
    pub(super) fn receive_datagrams(&mut self, number: usize) {
        if !self.datagrams.takes_batches(number) && !self.sleep.is_dense() {
            let taken = self.receive_plainly(number);
            if taken < BATCH_PAYS {
                return;
            }
        }
        for round in 0..BATCHES {
            if round > 0 {
                self.driver.set_now(monotonic_now());
            }
            let received = self.receive_batch(number);
            // Fewer than fit: the last look found nothing, or a report, of which epoll tells.
            if received < self.datagrams.batch() {
                return;
            }
        }
        self.sleep.more();
    }

    /// Takes datagrams one by one, as long as looking for more pays, and answers how many.
    fn receive_plainly(&mut self, number: usize) -> usize {
        let taken = self.receive_some(number);
        if self.datagrams.defers() {
            self.dispatch();
            self.driver.rings_mut().rouse();
        }
        taken
    }

    fn receive_some(&mut self, number: usize) -> usize {
        // Of the first a report has told.
        if !self.receive_one(number) {
            return 0;
        }
        for taken in 1..BATCH_PAYS {
            if !self.datagrams.looks(number, taken).is_some_and(Looks::wanted) {
                return taken;
            }
            let more = self.receive_one(number);
            if let Some(looks) = self.datagrams.looks(number, taken) {
                looks.done(more);
            }
            if !more {
                return taken;
            }
        }
        BATCH_PAYS
    }

    /// Takes one datagram, or what was said of one sent before; `false` if there was neither.
    fn receive_one(&mut self, number: usize) -> bool {
        match self.datagrams.receive_one(number, &mut self.driver) {
            Taken::Nothing => return false,
            Taken::Report => return true,
            Taken::Datagram => self.sleep.note(1),
        }
        if !self.datagrams.defers() {
            self.dispatch();
        }
        self.driver.rings_mut().rouse();
        true
    }

    fn receive_batch(&mut self, number: usize) -> usize {
        let now = self.driver.now();
        let (received, count) = self.datagrams.receive_batch(number, now, &mut self.driver);
        if received > 0 {
            self.sleep.note(count);
            self.dispatch_unless_dense();
            self.driver.rings_mut().rouse();
        }
        received
    }

    /// Tells every worker's machine what came back.
    pub(super) fn report_returned(&mut self) {
        for (to, quoted) in self.datagrams.take_reports() {
            self.driver.drive(|machine, now, out| machine.returned(now, to, &quoted, out));
            let rings = self.driver.rings_mut();
            let (me, workers) = (rings.me(), rings.workers());
            for worker in (0..workers).filter(|&worker| worker != me) {
                rings.tell(worker, Hop::Returned(to, quoted.clone()));
            }
        }
    }
}
