//! The vocabulary that the protocol core and the I/O shell share: time, flows, and the bounded
//! buffer into which a machine writes what it wants sent.
//!
//! Nothing here performs I/O or reads a clock; nothing here knows SIP. The shell
//! (`worker-runtime`) sees a [`Machine`] that eats bytes and fills an [`Outbox`]; the core sees
//! integers for time and plain values for addresses. The deterministic simulator stands in the
//! shell's place by driving the same [`Machine`].
#![forbid(unsafe_code)]

mod credit;
mod flow;
mod generator;
mod identity;
mod load;
mod machine;
mod outbox;
mod sieve;
mod time;

pub use credit::Credit;
pub use flow::{ConnId, Flow, ListenerId, Transport};
pub use generator::Generator;
pub use identity::Identity;
pub use load::Load;
pub use machine::{Arrival, Frame, FrameError, Machine};
pub use outbox::{Close, Delivery, Outbox, Transmit};
pub use sieve::Sieve;
pub use time::Time;
