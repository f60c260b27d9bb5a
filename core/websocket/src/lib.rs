//! WebSocket (RFC 6455) as far as SIP over WebSocket (RFC 7118) needs it, for both sides of a connection.
//!
//! - [`read_request`] and [`Upgrade`] are the server's side of the opening handshake, [`ClientRequest`] and
//!   [`read_response`] that of the client.
//! - [`Connection`] is the state of a connection after that. [`Connection::read`] parses received bytes in
//!   place: payloads are unmasked in the caller's buffer, and fragments are joined there.
//! - [`MessageHeader`] and [`ControlFrame`] are written to the peer.
//!
//! There is no input and output here, no clock and no entropy: keys are arguments. Nothing is allocated for a
//! frame. A WebSocket message is given unchanged: by RFC 7118 section 5 each has one SIP message, and the
//! reader of SIP messages refuses anything else.
//!
//! No extension is offered or accepted, so reserved bits are refused.
#![forbid(unsafe_code)]

mod close;
mod connection;
mod fault;
mod frame;
mod handshake;
mod limits;
mod mask;
mod output;
mod reader;

pub use close::CloseCode;
pub use connection::{Connection, State};
pub use fault::Fault;
pub use frame::{Kind, Role};
pub use handshake::{
    Accepted, ClientRequest, FieldValues, Fields, InvalidPart, Key, Received, Refusal, Request,
    ResponseFault, Status, Upgrade, read_request, read_response, write_response,
};
pub use limits::Limits;
pub use mask::mask;
pub use output::{ControlFrame, MAX_HEADER, MessageHeader};
pub use reader::{Event, Reader};

#[cfg(test)]
mod tests;
