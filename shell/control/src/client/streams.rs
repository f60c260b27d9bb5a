//! Connections and certificates as `ctl` shows them.

use super::cell;
use crate::admin::{CertificateStatus, Connection, uptime};

/// The head of the table of connections.
pub const CONNECTIONS: [&str; 11] =
    ["TRANSPORT", "PEER", "NAME", "OPENED BY", "STATE", "AGE", "IDLE", "IN", "OUT", "TLS", "WORKER"];

/// The head of the table of certificates.
pub const CERTIFICATES: [&str; 7] = ["FILE", "SERVES", "NAMES", "ISSUER", "NOT AFTER", "DAYS LEFT", "KEY"];

pub fn connection_row(connection: &Connection) -> [String; 11] {
    let tls = match (&connection.tls, &connection.suite) {
        (Some(version), Some(suite)) => format!("{version} {suite}"),
        _ => String::new(),
    };
    [
        cell(&connection.transport),
        cell(&connection.peer),
        cell(&connection.names.join(", ")),
        if connection.inbound { "peer" } else { "us" }.into(),
        cell(&connection.state),
        uptime(connection.age_s),
        uptime(connection.idle_s),
        connection.bytes_in.to_string(),
        connection.bytes_out.to_string(),
        cell(&tls),
        connection.worker.to_string(),
    ]
}

pub fn certificate_row(certificate: &CertificateStatus) -> [String; 7] {
    let serves = match (certificate.default, certificate.serves.as_slice(), &certificate.trunk) {
        (_, _, Some(trunk)) => format!("trunk {trunk}"),
        (true, [], None) => "all others".to_owned(),
        (true, domains, None) => format!("{}; all others", domains.join(", ")),
        (false, domains, None) => domains.join(", "),
    };
    let days = certificate.days_left.map(|days| days.to_string());
    [
        cell(&certificate.chain),
        cell(&serves),
        cell(&certificate.names.join(", ")),
        cell(certificate.issuer.as_deref().unwrap_or_default()),
        cell(certificate.not_after.as_deref().unwrap_or_default()),
        cell(&days.unwrap_or_default()),
        cell(certificate.key_kind.as_deref().unwrap_or_default()),
    ]
}
