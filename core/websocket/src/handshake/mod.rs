//! The opening handshake (RFC 6455 section 4) of both sides.

mod accept;
mod client;
mod head;
mod request;
mod response;

pub use accept::Key;
pub use client::{ClientRequest, InvalidPart, ResponseFault, read_response};
pub use head::{FieldValues, Fields, Received};
pub use request::{Refusal, Request, Upgrade, read_request};
pub use response::{Accepted, Status, write_response};
