//! `[sctp]`: how associations are made and watched.

use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::values::show_duration;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a retransmission timeout may be.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(120);

/// The styles of sockets. `true`: associations share a socket.
const SOCKETS: &[(&str, bool)] = &[("one-to-one", false), ("one-to-many", true)];

section! {
    /// `[sctp]`: associations of SCTP (RFC 9260 section 16 has the defaults).
    pub struct Sctp = "sctp" {
        /// Between two heartbeats of an idle path. 0: none are sent, and a path that fails is noticed when
        /// something is sent over it.
        heartbeat: Duration = Duration::from_secs(30), length(Duration::ZERO..=HOUR), restart;
        /// The retransmission timeout before a round trip was measured.
        rto_initial: Duration = Duration::from_secs(1), length(TIMEOUTS), restart;
        /// The shortest retransmission timeout. After the first one, data goes over another path if the peer
        /// has more addresses, so this is about how long a call waits when a path fails.
        rto_min: Duration = Duration::from_secs(1), length(TIMEOUTS), restart;
        /// The longest retransmission timeout.
        rto_max: Duration = Duration::from_secs(60), length(TIMEOUTS), restart;
        /// Retransmissions in a row after which a path counts as unreachable.
        path_retransmissions: u16 = 5, number(1..=100), restart;
        /// Retransmissions in a row, over all paths, after which an association ends.
        retransmissions: u16 = 10, number(1..=100), restart;
        /// The style of the listening sockets (RFC 6458). `one-to-one`: each association that a peer opens
        /// has its own socket, so it uses a descriptor. `one-to-many`: the associations of a worker share its
        /// listening socket; an association that must wait gets its own socket.
        sockets: bool = false, choice(SOCKETS), restart;
        /// Streams that a peer may use towards this server. Messages are accepted on each. This server sends
        /// over stream 0, without order (RFC 4168 section 5.1).
        streams: u16 = 64, number(1..=65_535), restart;
    }
}

impl Checks for Sctp {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, _: &Context<'_>) {
        let (initial, min, max) = (self.rto_initial, self.rto_min, self.rto_max);
        if !(min..=max).contains(&initial) {
            let [initial, min, max] = [initial, min, max].map(show_duration);
            let what = format!("rto_initial ({initial}) is not between rto_min ({min}) and rto_max ({max})");
            let written = ["rto_initial", "rto_min", "rto_max"].into_iter().find(|key| section.has(key));
            let fault = Fault::new(what, "the kernel refuses such timeouts; change one of the three");
            reader.error(&section.span_of(written.unwrap_or("rto_initial")), fault);
        }
        if self.retransmissions < self.path_retransmissions {
            let what = format!(
                "retransmissions ({}) is below path_retransmissions ({})",
                self.retransmissions, self.path_retransmissions
            );
            let at = if section.has("retransmissions") { "retransmissions" } else { "path_retransmissions" };
            let mend = "an association would end before its first path is given up; raise retransmissions";
            reader.error(&section.span_of(at), Fault::new(what, mend));
        }
    }
}
