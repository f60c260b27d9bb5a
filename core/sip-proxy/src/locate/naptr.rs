//! Choosing a transport by NAPTR records (RFC 3263 section 4.1).

use super::dns::{Naptr, canonical, is_host_name};
use super::want::{Ability, Want};
use wire::Transport;

/// Most NAPTR records that are looked at, and most that are followed.
const MAX_RECORDS: usize = 64;
const MAX_FOLLOWED: usize = 4;

/// The SRV names to go on with, best first. Empty: no record is of use.
///
/// Of the usable records only those of the lowest order count (RFC 3403 section 4.1), unless the
/// request is too large for a datagram: then all do, and UDP comes last.
pub(super) fn choose(records: &[Naptr], want: &Want<'_>, able: &Ability) -> Vec<(Transport, Box<[u8]>)> {
    let records = records.get(..MAX_RECORDS).unwrap_or(records);
    let mut usable: Vec<(&Naptr, Transport)> = records
        .iter()
        .filter(|record| record.flags.eq_ignore_ascii_case(b"s"))
        .filter_map(|record| Some((record, transport_of(&record.service, want.secure)?)))
        .filter(|(record, transport)| able.transports.has(*transport) && is_name(&record.replacement))
        .collect();
    usable.sort_by_key(|(record, transport)| {
        (want.large && *transport == Transport::Udp, record.order, record.preference)
    });
    if !want.large {
        let lowest = usable.first().map_or(0, |(record, _)| record.order);
        usable.retain(|(record, _)| record.order == lowest);
    }
    usable.truncate(MAX_FOLLOWED);
    usable.into_iter().map(|(record, transport)| (transport, canonical(&record.replacement))).collect()
}

/// The registered services (RFC 3263 section 9, RFC 7118 section 10.2). A SIPS URI takes only those
/// with SIPS; a SIP URI takes both.
fn transport_of(service: &[u8], secure: bool) -> Option<Transport> {
    const TABLE: [(&[u8], Transport, bool); 6] = [
        (b"SIP+D2U", Transport::Udp, false),
        (b"SIP+D2T", Transport::Tcp, false),
        (b"SIP+D2S", Transport::Sctp, false),
        (b"SIP+D2W", Transport::Ws, false),
        (b"SIPS+D2T", Transport::Tls, true),
        (b"SIPS+D2W", Transport::Wss, true),
    ];
    let entry = TABLE.iter().find(|(name, ..)| name.eq_ignore_ascii_case(service))?;
    (entry.2 || !secure).then_some(entry.1)
}

fn is_name(name: &[u8]) -> bool {
    is_host_name(name.strip_suffix(b".").unwrap_or(name))
}
