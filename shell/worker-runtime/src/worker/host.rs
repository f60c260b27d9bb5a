//! What a worker hosts: the machine of a server, or that of a generator, which is told more.

use wire::{ConnId, Generator, Machine, Time};

/// A machine, and the events of its connections.
pub trait Host: Send + 'static {
    /// The machine.
    type Machine: Machine;

    /// The machine, to be asked something.
    fn machine(&self) -> &Self::Machine;

    /// The machine.
    fn machine_mut(&mut self) -> &mut Self::Machine;

    /// Tells it of the connection that was begun for a message of its own.
    fn connected(&mut self, now: Time, token: u64, conn: ConnId);
}

/// What other threads post to the machine of `H`.
pub type Notice<H> = <<H as Host>::Machine as Machine>::Notice;

/// The machine of a server.
pub struct Serving<M>(pub M);

impl<M: Machine + Send + 'static> Host for Serving<M> {
    type Machine = M;

    #[inline]
    fn machine(&self) -> &M {
        &self.0
    }

    #[inline]
    fn machine_mut(&mut self) -> &mut M {
        &mut self.0
    }

    fn connected(&mut self, _: Time, _: u64, _: ConnId) {}
}

/// The machine of a generator.
pub struct Generating<G>(pub G);

impl<G: Generator + Send + 'static> Host for Generating<G> {
    type Machine = G;

    #[inline]
    fn machine(&self) -> &G {
        &self.0
    }

    #[inline]
    fn machine_mut(&mut self) -> &mut G {
        &mut self.0
    }

    fn connected(&mut self, now: Time, token: u64, conn: ConnId) {
        self.0.connected(now, token, conn);
    }
}
