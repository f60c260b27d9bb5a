//! `[limits]`: caps.

use super::form::*;
use super::schema::{Checks, section};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest cap on a number of things.
const MANY: u64 = 1 << 30;
/// How long a stream may be silent.
const SILENCES: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;

section! {
    /// `[limits]`: caps of the whole server.
    pub struct Limits = "limits" {
        /// Largest message.
        message_bytes: usize = 65_535, number(1_300..=(16 << 20)), restart;
        /// Header fields in a message.
        headers: usize = 256, number(16..=10_000), restart;
        /// Server transactions, and as many client transactions, at one time; over UDP one is remembered for
        /// 32 s after its answer. `"auto"`: one for each 8 KiB of the machine's memory or the container's, at
        /// least 1,000,000; they take about one KiB each when they are there.
        transactions: Option<usize> = None, number(16..=MANY).or("auto"), restart;
        /// Calls remembered at one time; `"auto"`: one for each 16 KiB of memory, at least 500,000. Beyond
        /// that the one answered first is forgotten (it goes on, but is no longer listed); where all are
        /// still being set up, a new one gets 503 with Retry-After.
        calls: Option<usize> = None, number(1..=MANY).or("auto"), restart;
        /// Memory that the server may use, MiB. Half of it is for messages in transactions, an eighth for
        /// streams; see [design/memory.md](../design/memory.md). `"auto"`: the machine's memory, or less
        /// where a control group or resource limit allows less.
        memory_mib: Option<u64> = None, number(64..=MANY).or("auto"), restart;
        /// Stream connections at one time. Those without a registration or an answered call of a proven
        /// caller have at most three quarters of it. When either limit is reached, the oldest of them without
        /// a call is closed for a new one, and `ctl status` has an alarm. Calls of strangers protect at most
        /// half of all connections.
        connections: usize = 100_000, number(1..=MANY), restart;
        /// Accepted stream connections of one IPv4 address or IPv6 /56.
        connections_per_source: usize = 1_000, number(1..=MANY), restart;
        /// How long a message that has begun may take to arrive.
        tcp_head_timeout: Duration = Duration::from_secs(10), length(SILENCES), restart;
        /// How long a stream may be silent. A stream without a registration, and without an answered call
        /// under way, may be silent for five minutes at most. The default is longer than the longest
        /// registration, so that phones without keepalives stay reachable. Below 16 minutes, phones that
        /// register with outbound (RFC 5626) are told how often to send a keepalive (Flow-Timer).
        tcp_idle_timeout: Duration = Duration::from_secs(7_500), length(SILENCES), restart;
    }
}

impl Checks for Limits {}

/// A phone without a Flow-Timer sends a keepalive at least this often (RFC 5626 section 4.4.1, where battery
/// power is a concern).
const KEEPALIVES: Duration = Duration::from_secs(840);

impl Limits {
    /// How often phones with a flow of their own are asked for keepalives, seconds; 0: as often as they like
    /// (RFC 5626 section 5.4). A server waits for longer than it says.
    pub fn flow_timer(&self) -> u32 {
        let most = self.tcp_idle_timeout * 9 / 10;
        if most >= KEEPALIVES { 0 } else { u32::try_from(most.as_secs()).unwrap_or(0) }
    }

    /// The caps of the message parser.
    pub fn message(&self) -> sip_message::Limits {
        sip_message::Limits {
            message: self.message_bytes,
            head: self.message_bytes.min(32_768),
            body: self.message_bytes,
            headers: self.headers,
            ..sip_message::Limits::default()
        }
    }
}
