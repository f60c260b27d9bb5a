//! Questions and answers as plain values.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What kind of record is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Naming authority pointers (RFC 3403).
    Naptr,
    /// Server locations (RFC 2782).
    Srv,
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// A look-up wanted by a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Which worker asks; copied into the answer.
    pub worker: u16,
    /// The worker's own number for the question; copied into the answer.
    pub id: u64,
    /// The kind of record.
    pub kind: Kind,
    /// The name, ASCII, with or without a dot at the end. A name with a dot in it is absolute; the
    /// search list of the system applies to single labels only.
    pub name: Box<[u8]>,
}

/// What came of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The question.
    pub question: Question,
    /// The records, or their absence.
    pub outcome: Outcome,
    /// How long the outcome may be believed, in seconds; 0 for failures.
    pub ttl: u32,
}

/// The records, or their absence. Never an empty list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// NAPTR records.
    Naptr(Box<[Naptr]>),
    /// SRV records.
    Srv(Box<[Srv]>),
    /// IPv4 addresses.
    A(Box<[Ipv4Addr]>),
    /// IPv6 addresses.
    Aaaa(Box<[Ipv6Addr]>),
    /// The name does not exist, or has no such record.
    Nothing,
    /// It is not known whether there are any.
    Failed(Failure),
}

/// Why a question has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// Too many questions are waiting.
    Busy,
    /// The time limit passed.
    Timeout,
    /// No server gave a usable answer.
    Server,
    /// The name cannot be asked.
    Name,
    /// The resolver is shutting down.
    Closed,
}

/// A NAPTR record without a regular expression; those with one are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naptr {
    /// Lower first.
    pub order: u16,
    /// Lower first, among equal orders.
    pub preference: u16,
    /// Flags as written.
    pub flags: Box<[u8]>,
    /// Service as written.
    pub service: Box<[u8]>,
    /// The name to go on with, no dot at the end.
    pub replacement: Box<[u8]>,
}

/// An SRV record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Srv {
    /// Lower first.
    pub priority: u16,
    /// Share of the load among equal priorities.
    pub weight: u16,
    /// Port of the service.
    pub port: u16,
    /// Host, no dot at the end; empty for the root, which says that the service is not there.
    pub target: Box<[u8]>,
}

impl Question {
    /// The failed answer to this question.
    pub(crate) fn failed(self, failure: Failure) -> Answer {
        Answer { question: self, outcome: Outcome::Failed(failure), ttl: 0 }
    }
}
