//! Reading and writing SIP text for phones, attackers and checkers.

use sip_message::{Index, Limits, Message, NameAddr, Parsed, Uri, parse};
use std::net::SocketAddr;
use wire::Transport;

/// Reads messages; keeps its index between them.
#[derive(Default)]
pub(crate) struct Reader {
    index: Index,
}

impl Reader {
    /// A message without a flaw, or nothing.
    pub fn read<'a>(&'a mut self, bytes: &'a [u8]) -> Option<Message<'a>> {
        match parse(bytes, &mut self.index, &Limits::default()) {
            Parsed::Good(message) => Some(message),
            Parsed::Bad(..) | Parsed::Garbage(_) => None,
        }
    }
}

/// Text of bytes that are known to be text.
pub(crate) fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The URI of the first name-addr in a header value.
pub(crate) fn uri_of(value: &[u8]) -> String {
    NameAddr::parse(value).map_or_else(|_| String::new(), |n| string(n.uri))
}

/// The numeric address in a URI.
pub(crate) fn address_of(uri: &[u8]) -> Option<SocketAddr> {
    let uri = Uri::parse(uri).ok()?;
    Some(SocketAddr::new(uri.host_ip()?, uri.port.unwrap_or(5060)))
}

/// What all requests of a sender have in common.
pub(crate) struct Sender {
    pub transport: Transport,
    pub sent_by: String,
    pub rport: bool,
}

/// The parts of a request that its sender chooses.
pub(crate) struct Request<'a> {
    pub method: &'a str,
    pub uri: &'a str,
    pub branch: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub call_id: &'a str,
    pub cseq: u32,
    /// Whole header lines.
    pub lines: &'a str,
    pub body: &'a str,
}

impl Request<'_> {
    pub fn write(&self, sender: &Sender) -> Vec<u8> {
        let Request { method, uri, branch, from, to, call_id, cseq, lines, body } = self;
        let (via, sent_by) = (sender.transport.via_name(), &sender.sent_by);
        let rport = if sender.rport { ";rport" } else { "" };
        let length = body.len();
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{via} {sent_by};branch={branch}{rport}\r\n\
             Max-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             {lines}Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
