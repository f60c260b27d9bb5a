//! What is wanted of a node, in an octet that all workers share. How it is: see `sip_health`.

pub use sip_health::{Health, Why};

/// What the operator wants of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Order {
    /// Calls.
    Serve = 0,
    /// No new calls; those it has go on.
    Drain = 1,
    /// Nothing at all: calls it has are treated as those of a failed node.
    Maintenance = 2,
    /// It is no longer in the list. As [`Order::Drain`], until it is forgotten or its place is wanted for
    /// another one.
    Removed = 3,
}

pub(crate) const ORDERS: [Order; 4] = [Order::Serve, Order::Drain, Order::Maintenance, Order::Removed];

/// What an octet stands for.
pub(crate) fn pick<T: Copy>(all: &[T], at: u8, otherwise: T) -> T {
    all.get(usize::from(at)).copied().unwrap_or(otherwise)
}
