//! What neighbours tell each other of their overload (RFC 7339, RFC 7415), as text in Via and as what a
//! client makes of it.

pub mod neighbours;
pub mod oc;

pub use neighbours::{Category, Neighbours};
pub use oc::{Algorithm, Wish};
