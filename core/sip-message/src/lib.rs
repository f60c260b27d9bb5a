//! SIP messages: one pass over the received bytes makes an index; typed values are read on demand;
//! outgoing messages are the received bytes plus a list of splices.
//!
//! Nothing is copied and, in a steady state, nothing allocated. An [`Index`] is made once and
//! reused for every message. Offsets refer to [`Message::bytes`], which is the received buffer
//! itself unless a header was folded (RFC 3261 section 7.3.1): then it is a copy of the same length
//! in which each line fold has become spaces, so that a fold can never reach an output.
//!
//! The grammar of the frame is strict (header names, line ends, lengths, the header fields that
//! transactions rest on) because whatever this server reads differently from the next one is a
//! way round it. The grammar inside other header values is left to those who need them.
#![forbid(unsafe_code)]

mod auth_params;
mod block;
mod chars;
mod date;
mod find;
mod frame;
mod index;
mod limits;
mod message;
mod method;
mod name;
mod name_addr;
mod number;
mod params;
mod parse;
mod response;
mod spans;
mod splice;
mod uri;
mod values;
mod via;
mod words;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use auth_params::AuthParams;
pub use block::has_pair;
pub use date::DateText;
pub use find::{find_call_id, find_to_and_call_id, find_vias};
pub use frame::frame;
pub use index::Index;
pub use limits::Limits;
pub use message::{Header, Headers, Message};
pub use method::Method;
pub use name::Name;
pub use name_addr::NameAddr;
pub use number::{hex16, parse_u32, parse_u64, push_u64, unhex16};
pub use params::{Params, find_quote, unquote};
pub use parse::{Flaw, Parsed, parse};
pub use response::{Response, reason_phrase};
pub use splice::{Splices, apply_packed};
pub use uri::{
    Scheme, Uri, UriError, canonical_user, is_base64url, parse_ip as host_ip, plain_aor, push_canonical_user,
    request_target, same_user, user_after,
};
pub use values::Values;
pub use via::{Via, ViaError, push_received};

/// A syntax error in a header value that was read on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;
