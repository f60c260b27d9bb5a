//! `[proxy]`: forwarding.

use super::auth::known_methods;
use super::error::Fault;
use super::form::*;
use super::load::Context;
use super::reader::{Reader, Section};
use super::schema::{Checks, section};
use super::timers::Timers;
use super::types::{bytes_of, millis, named};
use super::values::{show_duration, token};
use sip_node::Mode;
use sip_node::call_limits::{Classes, StrangerRate};
use std::time::Duration;

/// Bounds of session intervals (RFC 4028 section 4).
const SHORTEST: Duration = Duration::from_secs(sip_node::SHORTEST_SESSION as u64);
const LONGEST: Duration = Duration::from_secs(43_200);
const MINUTE: Duration = Duration::from_secs(60);

/// Names of the ways to forward requests.
const MODES: &[(&str, Mode)] =
    &[("stateful", Mode::Stateful), ("stateless", Mode::Stateless), ("redirect", Mode::Redirect)];

named! {
    /// The order in which targets of one q value are tried (RFC 3261 16.6). Targets of different q
    /// are always tried in groups, highest first.
    Fork {
        /// All of a group at once.
        Parallel = "parallel",
        /// One after the other.
        Serial = "serial",
    }
}

named! {
    /// What becomes of requests of senders that are no user and no trunk.
    Strangers {
        /// They are forwarded to our users.
        Allow = "allow",
        /// 403.
        Refuse = "refuse",
        /// They are forwarded to our users, up to a number a minute.
        Rate = "rate",
    }
}

section! {
    /// `[proxy]`: forwarding (RFC 3261 section 16).
    pub struct Proxy = "proxy" {
        /// `"stateful"`, `"stateless"` (RFC 3261 section 16.11; requests that proved themselves by
        /// credentials are kept all the same, for those are good once) or `"redirect"` (the caller gets a 302
        /// with the targets).
        mode: Mode = Mode::Stateful, choice(MODES), live;
        /// Targets of one q value: all at once, or one after the other (`"serial"`). Targets of different q
        /// are always tried in groups, highest first.
        fork: Fork = Fork::Parallel, choice(Fork::ALL), live;
        /// Stay in the path of dialogs. Without it later requests of a dialog carry no proof of it, and only
        /// those that a new request could make are let through.
        record_route: bool = true, flag(), live;
        /// Follow 3xx responses instead of passing them on.
        recurse_redirects: bool = false, flag(), live;
        /// Largest Max-Breadth (RFC 5393). 1 to 1000; values over 255 count as 255.
        max_breadth: u32 = 60, number(1..=1_000), live;
        /// Max-Forwards of requests that carry none.
        max_forwards: u8 = 70, number(1..=255), live;
        /// How long a branch may ring after its last provisional response. RFC 3261 requires more than 180 s;
        /// a lower value causes a warning.
        timer_c: Duration = Duration::from_secs(185), length(Duration::from_secs(1)..=DAY), live;
        /// Bytes. Longer requests to trunks, Routes and Request-URIs leave over TCP, and over UDP if no
        /// connection is established within half a second (section 18.1.1). A phone that registered over UDP
        /// gets every request over UDP.
        mtu: usize = 1_300, number(576..=65_535), live;
        /// How requests from senders that are neither a user nor a trunk are handled: `"allow"` forwards them
        /// to our users, `"refuse"` answers 403, `"rate"` forwards as many as the two keys below say. See
        /// [who may call](../guide/who-may-call.md).
        strangers: Strangers = Strangers::Allow, choice(Strangers::ALL), live;
        /// With `strangers = "rate"`: requests a minute that one network of strangers may begin something
        /// with. A network is an IPv4 address or the first 56 bits of an IPv6 address. Others get 503 with
        /// Retry-After.
        stranger_calls: u32 = 10, number(1..=1_000_000), live;
        /// The same of all strangers together.
        stranger_calls_total: u32 = 300, number(1..=10_000_000), live;
        /// Methods that such senders may send, `"*"` for all; others get 403, and 481 if they have a To tag
        /// but not our Route. Requests that belong to a call pass with it: ACK, BYE, CANCEL, INFO, PRACK,
        /// UPDATE, and REFER and NOTIFY if our user began the dialog. SUBSCRIBE does not pass. See [who may
        /// call](../guide/who-may-call.md).
        stranger_methods: Vec<String> =
            ["INVITE", "MESSAGE", "OPTIONS"].map(str::to_owned).to_vec(), list(text("method", token)).once("method"), live;
        /// Session interval that is requested for each call (RFC 4028), and the longest that is allowed.
        /// Phones that support session timers refresh their calls after half of it. `"off"`: no session
        /// timers. See [lost calls](../guide/lost-calls.md).
        session_interval: Option<Duration> = None, length(SHORTEST..=LONGEST).or("off"), live;
        /// Shortest session interval. A phone that asks for a shorter one gets 422 and asks again. It has an
        /// effect only with `session_interval`.
        min_session: Duration = SHORTEST, length(SHORTEST..=LONGEST), live;
        /// How long a call without BYE and without session timer counts as in progress after its last INVITE
        /// or UPDATE.
        session_timeout: Duration = DAY, length(MINUTE..=7 * DAY), live;
    }
}

impl Checks for Proxy {
    fn check(&mut self, section: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        known_methods(reader, &section.places("stranger_methods", &text("", token)), context.methods);
        if self.timer_c <= Duration::from_secs(180) {
            let message =
                format!("timer_c ({}) is shorter than RFC 3261 allows", show_duration(self.timer_c));
            let fault = Fault::new(message, "calls that ring longer are cancelled; more than 180s");
            reader.warn(&section.span_of("timer_c"), fault);
        }
        if let Some(fault) = self.session_fault() {
            reader.error(&section.span_of("session_interval"), fault);
        }
    }
}

impl Proxy {
    /// What keeps session timers from working.
    fn session_fault(&self) -> Option<Fault> {
        let interval = self.session_interval?;
        if interval < self.min_session {
            let [interval, least] = [interval, self.min_session].map(show_duration);
            let message = format!("session_interval ({interval}) is shorter than min_session ({least})");
            return Some(Fault::new(message, "raise session_interval, or lower min_session"));
        }
        // RFC 4028 section 8.
        match (self.mode, self.record_route) {
            (Mode::Stateless, _) => Some(Fault::new(
                "a stateless server cannot ask for session timers",
                "remove session_interval, or `mode = \"stateless\"`",
            )),
            (_, false) => Some(Fault::new(
                "without Record-Route no refresh of a call comes by here",
                "remove session_interval, or `record_route = false`",
            )),
            _ => None,
        }
    }

    /// The session timers that are asked for.
    fn session(&self) -> Option<sip_node::SessionPolicy> {
        let seconds = |length: Duration| u16::try_from(length.as_secs()).unwrap_or(u16::MAX);
        let interval = self.session_interval.map(seconds)?;
        Some(sip_node::SessionPolicy { interval, shortest: seconds(self.min_session) })
    }

    /// What the core needs of it.
    pub fn settings(&self, timers: &Timers) -> sip_node::Proxy {
        sip_node::Proxy {
            mode: self.mode,
            parallel: self.fork == Fork::Parallel,
            record_route: self.record_route,
            recurse: self.recurse_redirects,
            max_breadth: u8::try_from(self.max_breadth).unwrap_or(u8::MAX),
            max_forwards: self.max_forwards,
            timer_c_ms: millis(self.timer_c),
            trying_ms: millis(timers.trying),
            mtu: self.mtu,
            strangers: sip_node::Strangers {
                allowed: self.strangers != Strangers::Refuse,
                methods: bytes_of(&self.stranger_methods),
                rate: (self.strangers == Strangers::Rate).then_some(StrangerRate {
                    of_network: self.stranger_calls,
                    total: self.stranger_calls_total,
                }),
            },
            classes: Classes::default(),
            session: self.session(),
            session_timeout: self.session_timeout,
            forwarding: sip_node::CallForwarding::default(),
        }
    }
}
