//! The names of the things that are counted.

use wire::Time;

/// When something was meant to begin and when it did. `sent` is never before `intended`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Began {
    /// When the schedule wanted it.
    pub intended: Time,
    /// When its first message was given to the socket.
    pub sent: Time,
}

impl Began {
    /// Something that began when it was meant to: an answer, or a test.
    pub const fn at(now: Time) -> Began {
        Began { intended: now, sent: now }
    }
}

/// A span of time, `from` inclusive, `until` exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First instant inside.
    pub from: Time,
    /// First instant after it; [`Time::FAR`] for a run without a set end.
    pub until: Time,
}

impl Window {
    /// All of time: no warm-up, no cool-down.
    pub const ALWAYS: Window = Window { from: Time::ZERO, until: Time::FAR };

    /// Is `at` inside?
    #[inline]
    pub fn contains(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }
}

/// Which end of a call this is. RFC 6076 measures most metrics at the originating end only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end that sends the first request.
    Caller = 0,
    /// The end that answers.
    Callee = 1,
}

/// How a call (one run of a scenario, or one action of a user) ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallEnd {
    /// As the scenario wants.
    Success,
    /// Cancelled while ringing because the plan said so, and properly ended (487). Counts as a success.
    Cancelled,
    /// Not as the scenario wants.
    Failed(Failure),
}

/// Why a call failed. The texts are those of reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Failure {
    /// A message that the scenario does not expect here.
    UnexpectedMessage,
    /// A final response that refuses (4xx other than a challenge, 5xx, 6xx).
    Refused,
    /// The digest challenge could not be met (second challenge, unknown algorithm).
    Authentication,
    /// A request was sent as often as allowed, or until timer B or F, and nobody answered.
    Retransmissions,
    /// An expected message did not come in the time that the scenario gives.
    ReceiveTimeout,
    /// The call as a whole took longer than allowed.
    CallTimeout,
    /// The destination could not be reached, or the connection was refused, reset or closed.
    Unreachable,
    /// A check of the scenario on a received message did not hold (`ereg` with `check_it`).
    Check,
    /// A test, comparison or limit of the scenario did not hold.
    Test,
    /// The scenario ran out of what it needs (a line of its CSV file, a variable).
    Data,
}

impl Failure {
    /// All, in the order of their numbers.
    pub const ALL: [Failure; 10] = [
        Failure::UnexpectedMessage,
        Failure::Refused,
        Failure::Authentication,
        Failure::Retransmissions,
        Failure::ReceiveTimeout,
        Failure::CallTimeout,
        Failure::Unreachable,
        Failure::Check,
        Failure::Test,
        Failure::Data,
    ];

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Failure::UnexpectedMessage => "unexpected message",
            Failure::Refused => "refused by a final response",
            Failure::Authentication => "authentication failed",
            Failure::Retransmissions => "no answer to a request",
            Failure::ReceiveTimeout => "expected message did not come",
            Failure::CallTimeout => "call took too long",
            Failure::Unreachable => "destination unreachable",
            Failure::Check => "check on a message failed",
            Failure::Test => "test failed",
            Failure::Data => "scenario ran out of data",
        }
    }
}

/// A message that nobody waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unexpected {
    /// A request of a call, of another method than expected.
    Method,
    /// A response of a call, with another status than expected.
    Status,
    /// A message that belongs to no call.
    NoCall,
    /// Bytes that are no SIP message.
    Malformed,
}

impl Unexpected {
    /// All, in the order of their numbers.
    pub const ALL: [Unexpected; 4] =
        [Unexpected::Method, Unexpected::Status, Unexpected::NoCall, Unexpected::Malformed];

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Unexpected::Method => "wrong method",
            Unexpected::Status => "wrong status",
            Unexpected::NoCall => "of no call",
            Unexpected::Malformed => "malformed",
        }
    }
}

/// A method as an index of counters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Method {
    /// INVITE
    Invite,
    /// ACK
    Ack,
    /// BYE
    Bye,
    /// CANCEL
    Cancel,
    /// REGISTER
    Register,
    /// OPTIONS
    Options,
    /// PRACK
    Prack,
    /// SUBSCRIBE
    Subscribe,
    /// NOTIFY
    Notify,
    /// PUBLISH
    Publish,
    /// INFO
    Info,
    /// REFER
    Refer,
    /// MESSAGE
    Message,
    /// UPDATE
    Update,
    /// Any other
    Other,
}

impl Method {
    /// All, in the order of their numbers.
    pub const ALL: [Method; 15] = [
        Method::Invite,
        Method::Ack,
        Method::Bye,
        Method::Cancel,
        Method::Register,
        Method::Options,
        Method::Prack,
        Method::Subscribe,
        Method::Notify,
        Method::Publish,
        Method::Info,
        Method::Refer,
        Method::Message,
        Method::Update,
        Method::Other,
    ];

    /// As on the wire; "other" for the rest.
    pub const fn text(self) -> &'static str {
        match self {
            Method::Invite => "INVITE",
            Method::Ack => "ACK",
            Method::Bye => "BYE",
            Method::Cancel => "CANCEL",
            Method::Register => "REGISTER",
            Method::Options => "OPTIONS",
            Method::Prack => "PRACK",
            Method::Subscribe => "SUBSCRIBE",
            Method::Notify => "NOTIFY",
            Method::Publish => "PUBLISH",
            Method::Info => "INFO",
            Method::Refer => "REFER",
            Method::Message => "MESSAGE",
            Method::Update => "UPDATE",
            Method::Other => "other",
        }
    }
}

impl Method {
    /// The one with this name; [`Method::Other`] for any that has none here.
    pub fn named(name: &str) -> Method {
        Method::from(sip_message::Method::from_bytes(name.as_bytes()))
    }
}

impl From<sip_message::Method<'_>> for Method {
    #[inline]
    fn from(m: sip_message::Method<'_>) -> Method {
        use sip_message::Method as M;
        match m {
            M::Invite => Method::Invite,
            M::Ack => Method::Ack,
            M::Bye => Method::Bye,
            M::Cancel => Method::Cancel,
            M::Register => Method::Register,
            M::Options => Method::Options,
            M::Prack => Method::Prack,
            M::Subscribe => Method::Subscribe,
            M::Notify => Method::Notify,
            M::Publish => Method::Publish,
            M::Info => Method::Info,
            M::Refer => Method::Refer,
            M::Message => Method::Message,
            M::Update => Method::Update,
            M::Other(_) => Method::Other,
        }
    }
}

/// How a client transaction ended, for the share of transactions that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionEnd {
    /// With the response that the scenario wants; a challenge, a redirect or a planned 487 is one.
    Success,
    /// With a response that it does not want.
    Failed,
    /// With none (timer B or F, or the destination was unreachable).
    Timeout,
}

/// What kind of registration (RFC 7502 sections 6.7 and 6.8 tell the first two apart).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registering {
    /// The address-of-record had no binding.
    First,
    /// The binding was still there.
    Refresh,
    /// A binding is taken away; counted among the requests of neither rate.
    Remove,
}

/// How the end of a session went, as seen by the end that reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bye {
    /// Our BYE got a 2xx.
    Answered(Began),
    /// Our BYE got another final response that there is no recovery from.
    Refused(Began),
    /// Our BYE got nothing until timer F.
    Timeout,
    /// The other end sent it.
    Received,
}

/// What a latency histogram measures. Each is kept from the intended and from the actual start, except
/// those that say otherwise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Measure {
    /// First request of a call to the first response that says something: for an INVITE the first
    /// provisional one above 100 or the final one, else the final one. The latency of time series.
    Response,
    /// INVITE to its 2xx, ringing included.
    Setup,
    /// SRD of sessions that were established (RFC 6076 section 4.3.1).
    SrdSuccess,
    /// SRD of session requests that failed (section 4.3.2).
    SrdFailed,
    /// RRD of first registrations (section 4.1).
    RrdFirst,
    /// RRD of refreshes.
    RrdRefresh,
    /// SDD of BYEs answered with 2xx (section 4.4).
    SddSuccess,
    /// SDD of BYEs answered otherwise.
    SddFailed,
    /// Requests outside INVITE transactions to their final response, every method.
    Transaction,
    /// SDT of sessions that completed (section 4.5.1); a duration, actual times only.
    SdtSuccess,
    /// SDT of sessions whose BYE nobody answered (section 4.5.2); a duration, actual times only.
    SdtFailed,
    /// Begin to end of successful calls; a duration, actual times only.
    CallLength,
}

impl Measure {
    /// How many there are.
    pub const COUNT: usize = Measure::ALL.len();
    /// All, in the order of their numbers.
    pub const ALL: [Measure; 12] = [
        Measure::Response,
        Measure::Setup,
        Measure::SrdSuccess,
        Measure::SrdFailed,
        Measure::RrdFirst,
        Measure::RrdRefresh,
        Measure::SddSuccess,
        Measure::SddFailed,
        Measure::Transaction,
        Measure::SdtSuccess,
        Measure::SdtFailed,
        Measure::CallLength,
    ];

    /// The key in JSON and on the command line.
    pub const fn key(self) -> &'static str {
        match self {
            Measure::Response => "response",
            Measure::Setup => "setup",
            Measure::SrdSuccess => "srd",
            Measure::SrdFailed => "srd-failed",
            Measure::RrdFirst => "rrd-first",
            Measure::RrdRefresh => "rrd-refresh",
            Measure::SddSuccess => "sdd",
            Measure::SddFailed => "sdd-failed",
            Measure::Transaction => "transaction",
            Measure::SdtSuccess => "sdt",
            Measure::SdtFailed => "sdt-failed",
            Measure::CallLength => "call-length",
        }
    }

    /// The one with this key.
    pub fn from_key(key: &str) -> Option<Measure> {
        Measure::ALL.into_iter().find(|m| m.key() == key)
    }

    /// One sentence for reports.
    pub const fn text(self) -> &'static str {
        match self {
            Measure::Response => {
                "First request of a call to the first response that says something (not 100)"
            }
            Measure::Setup => "INVITE to its 2xx, ringing included",
            Measure::SrdSuccess => "Session request delay, established sessions (RFC 6076 section 4.3.1)",
            Measure::SrdFailed => "Session request delay, failed requests (RFC 6076 section 4.3.2)",
            Measure::RrdFirst => "Registration request delay, first registrations (RFC 6076 section 4.1)",
            Measure::RrdRefresh => "Registration request delay, refreshes (RFC 6076 section 4.1)",
            Measure::SddSuccess => "Session disconnect delay, 2xx to the BYE (RFC 6076 section 4.4)",
            Measure::SddFailed => "Session disconnect delay, other answers to the BYE (RFC 6076 section 4.4)",
            Measure::Transaction => "Requests other than INVITE to their final response",
            Measure::SdtSuccess => "Session duration, completed sessions (RFC 6076 section 4.5.1)",
            Measure::SdtFailed => "Session duration, BYE never answered (RFC 6076 section 4.5.2)",
            Measure::CallLength => "Begin to end of successful calls",
        }
    }

    /// Is it a duration that no server should make short: only actual times, no latency limit?
    pub const fn is_duration(self) -> bool {
        matches!(self, Measure::SdtSuccess | Measure::SdtFailed | Measure::CallLength)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_orders_agree() {
        for (i, m) in Measure::ALL.into_iter().enumerate() {
            assert_eq!(m as usize, i);
            assert_eq!(Measure::from_key(m.key()), Some(m));
        }
        for (i, m) in Method::ALL.into_iter().enumerate() {
            assert_eq!(m as usize, i);
        }
        for (i, f) in Failure::ALL.into_iter().enumerate() {
            assert_eq!(f as usize, i);
        }
        for (i, u) in Unexpected::ALL.into_iter().enumerate() {
            assert_eq!(u as usize, i);
        }
        assert_eq!(Measure::from_key("nothing"), None);
    }

    #[test]
    fn methods_of_messages_have_their_counter() {
        assert_eq!(Method::from(sip_message::Method::from_bytes(b"BYE")), Method::Bye);
        assert_eq!(Method::from(sip_message::Method::from_bytes(b"FOO")), Method::Other);
        for m in Method::ALL.into_iter().filter(|m| *m != Method::Other) {
            assert_eq!(Method::from(sip_message::Method::from_bytes(m.text().as_bytes())), m);
        }
    }

    #[test]
    fn a_window_has_its_first_but_not_its_last_instant() {
        let w = Window { from: Time::from_secs(1), until: Time::from_secs(2) };
        assert!(w.contains(Time::from_secs(1)));
        assert!(!w.contains(Time::from_secs(2)));
        assert!(!w.contains(Time::ZERO));
        assert!(Window::ALWAYS.contains(Time::ZERO));
    }
}
