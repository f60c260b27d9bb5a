//! Between our values and the library's.

use crate::types::{Failure, Kind, Naptr, Outcome, Srv};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name, RData, RecordType};

/// Most records taken from one answer; nobody tries more servers than that.
const MAX_RECORDS: usize = 512;
/// How long the absence of a record is believed, in seconds, where the zone says nothing.
const NEGATIVE_TTL: u32 = 60;

/// The name in the library's form. With a dot inside it is absolute whether written so or not: a name
/// from a stranger's URI must not be completed with our own domains.
pub(crate) fn name(text: &[u8]) -> Option<Name> {
    let text = core::str::from_utf8(text).ok()?;
    if text.is_empty() || !text.is_ascii() {
        return None;
    }
    let mut name = Name::from_ascii(text).ok()?;
    if text.contains('.') {
        name.set_fqdn(true);
    }
    Some(name)
}

pub(crate) fn record_type(kind: Kind) -> RecordType {
    match kind {
        Kind::Naptr => RecordType::NAPTR,
        Kind::Srv => RecordType::SRV,
        Kind::A => RecordType::A,
        Kind::Aaaa => RecordType::AAAA,
    }
}

/// The records of `kind` in an answer, and how many seconds they may be believed: the least TTL among
/// them and the aliases on the way.
pub(crate) fn records(kind: Kind, lookup: &Lookup) -> (Outcome, u32) {
    let data = || lookup.answers().iter().map(|record| &record.data);
    let outcome = match kind {
        Kind::Naptr => list(data().filter_map(naptr), Outcome::Naptr),
        Kind::Srv => list(data().filter_map(srv), Outcome::Srv),
        Kind::A => list(
            data().filter_map(|d| match d {
                RData::A(a) => Some(a.0),
                _ => None,
            }),
            Outcome::A,
        ),
        Kind::Aaaa => list(
            data().filter_map(|d| match d {
                RData::AAAA(a) => Some(a.0),
                _ => None,
            }),
            Outcome::Aaaa,
        ),
    };
    let ttl = lookup.answers().iter().map(|record| record.ttl).min();
    (outcome, ttl.unwrap_or(NEGATIVE_TTL))
}

/// What an error says: that there is nothing, or that nothing is known.
pub(crate) fn error(error: &NetError) -> (Outcome, u32) {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            (Outcome::Nothing, none.negative_ttl.unwrap_or(NEGATIVE_TTL))
        }
        NetError::Timeout => (Outcome::Failed(Failure::Timeout), 0),
        NetError::Busy => (Outcome::Failed(Failure::Busy), 0),
        _ => (Outcome::Failed(Failure::Server), 0),
    }
}

fn list<T>(records: impl Iterator<Item = T>, wrap: impl Fn(Box<[T]>) -> Outcome) -> Outcome {
    let list: Box<[T]> = records.take(MAX_RECORDS).collect();
    if list.is_empty() { Outcome::Nothing } else { wrap(list) }
}

fn naptr(data: &RData) -> Option<Naptr> {
    let RData::NAPTR(record) = data else { return None };
    record.regexp.is_empty().then(|| Naptr {
        order: record.order,
        preference: record.preference,
        flags: record.flags.clone(),
        service: record.services.clone(),
        replacement: text(&record.replacement),
    })
}

fn srv(data: &RData) -> Option<Srv> {
    let RData::SRV(record) = data else { return None };
    Some(Srv {
        priority: record.priority,
        weight: record.weight,
        port: record.port,
        target: text(&record.target),
    })
}

fn text(name: &Name) -> Box<[u8]> {
    let text = name.to_ascii();
    text.strip_suffix('.').unwrap_or(&text).as_bytes().into()
}
