//! What a node counts and times, with the names under which an operator reads it.

/// Counters that an operator reads under one name.
#[derive(Clone, Copy, Debug)]
pub struct CounterFamily {
    /// The name; of counters it ends with `_total`.
    pub name: &'static str,
    /// The name of the label that tells them apart; empty where there is one.
    pub label: &'static str,
    /// What is counted, and what each value of the label means: Markdown in one line.
    pub help: &'static str,
    /// Values of the label, each with the counters that are added up for it.
    pub members: &'static [(&'static str, &'static [Counter])],
}

/// Declares the counters, family by family: `"name"[label]: "help" { /// Comment. Counter = "value", }`.
/// A value behind `sum` adds up counters of other families.
macro_rules! counters {
    ($(
        $name:literal$([$label:ident])?: $help:literal {
            $($(#[doc = $doc:literal])+ $counter:ident $(= $value:literal)?,)+
            $(sum $sum:literal = $($part:ident)+,)?
        }
    )+) => {
        /// What a node counts.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum Counter {
            $($($(#[doc = $doc])+ $counter,)+)+
        }

        impl Counter {
            /// How many there are.
            pub const COUNT: usize = [$($(Counter::$counter),+),+].len();
        }

        /// Every counter, by name.
        pub const FAMILIES: &[CounterFamily] = &[$(CounterFamily {
            name: $name,
            label: concat!($(stringify!($label))?),
            help: $help,
            members: &[
                $((concat!($($value)?), &[Counter::$counter]),)+
                $(($sum, &[$(Counter::$part),+]),)?
            ],
        }),+];
    };
}

counters! {
    "strowger_responses_received_total": "Responses received." {
        /// Responses received.
        Responses,
    }
    "strowger_messages_dropped_total"[reason]:
        "Dropped without an answer: `garbage` (no SIP, or nobody to answer), `stray` (responses to nothing that was sent)." {
        /// Messages dropped because they could not be answered.
        Garbage = "garbage",
        /// Responses that belong to nothing here.
        Stray = "stray",
    }
    "strowger_requests_refused_total"[reason]:
        "Refused before anything was remembered: `malformed`, `overload` (a pool is full, or the server drains), `policy` (it may not go where it wants), `loop`." {
        /// Requests answered with an error because they were malformed.
        Malformed = "malformed",
        /// Requests refused because a pool was full or the server drains.
        Overload = "overload",
        /// Requests refused because they may not go where they want to.
        Forbidden = "policy",
        /// Requests that came back to where they had been.
        Loops = "loop",
    }
    "strowger_overload_refused_total"[how]:
        "New requests not accepted because of overload: `answered` with 503, `unanswered`." {
        /// New requests refused in an overload.
        Refused = "answered",
        /// New requests that got no answer in an overload.
        Unanswered = "unanswered",
    }
    "strowger_overload_held_back_total":
        "Requests not sent on because the next hop asked for less (RFC 7339)." {
        /// Requests not sent on because the next hop asked for less.
        HeldBack,
    }
    "strowger_forwarded_total"[kind]: "Messages forwarded: `request` (each branch counts), `response`." {
        /// Requests forwarded, each branch counted.
        Forwarded = "request",
        /// Responses forwarded.
        Relayed = "response",
    }
    "strowger_class_refused_total"[rule]:
        "Calls that the class of the caller did not let leave: `number` (denied, or not among the allowed), `trunk`, `hours`, `channels`, `hour`, `day`, `unknown` (the user's class is not configured), `room` (too many accounts are counted)." {
        /// Calls to a number that a class does not allow.
        ClassNumber = "number",
        /// Calls over a trunk, or to a host, that a class does not allow.
        ClassTrunk = "trunk",
        /// Calls at a time that a class does not allow.
        ClassHours = "hours",
        /// Calls beyond the channels of a class.
        ClassChannels = "channels",
        /// Calls beyond those of a class in an hour.
        ClassHour = "hour",
        /// Calls beyond those of a class on a day.
        ClassDay = "day",
        /// Calls of users whose class is not configured.
        ClassUnknown = "unknown",
        /// Calls that there was no room to count.
        ClassRoom = "room",
    }
    "strowger_strangers_held_total"[limit]:
        "Requests of strangers answered with 503 because of `strangers = \"rate\"`: `network` (too many of one), `total`." {
        /// Requests of strangers whose network has sent too many.
        StrangerNetwork = "network",
        /// Requests of strangers beyond those of all together.
        StrangerTotal = "total",
    }
    "strowger_auth_total"[result]:
        "Digest checks: `challenged`, `passed`, `failed` (wrong credentials), `held-off` (not checked because of too many wrong ones before: 403 with Retry-After)." {
        /// Challenges sent.
        Challenged = "challenged",
        /// Requests with right credentials.
        Authenticated = "passed",
        /// Requests with wrong credentials.
        WrongCredentials = "failed",
        /// Requests refused for a while after too many wrong credentials.
        Throttled = "held-off",
    }
    "strowger_registrations_total"[result]:
        "REGISTER requests `accepted` and `refused`. A first challenge is not a refusal; a wrong answer to it is." {
        /// REGISTER requests accepted.
        Registered = "accepted",
        sum "refused" = RegisterCredentials RegisterHeldOff RegisterForbidden RegisterNotOurs RegisterMalformed
            RegisterUnsupported RegisterContacts RegisterStore RegisterOverload,
    }
    "strowger_registrations_refused_total"[reason]:
        "The refused ones: `credentials` (wrong, or no such user), `held-off` (too many wrong ones before), `forbidden`, `not-ours` (another domain), `malformed`, `unsupported` (an extension), `contacts` (their number, interval or order), `store`, `overload`." {
        /// REGISTER: the digest is not right, or there is no such user.
        RegisterCredentials = "credentials",
        /// REGISTER: too many wrong answers before.
        RegisterHeldOff = "held-off",
        /// REGISTER: the sender may not register that address-of-record, or that Contact or Path.
        RegisterForbidden = "forbidden",
        /// REGISTER: the address-of-record is not of this server.
        RegisterNotOurs = "not-ours",
        /// REGISTER: it cannot be read.
        RegisterMalformed = "malformed",
        /// REGISTER: it requires an extension that this server does not have.
        RegisterUnsupported = "unsupported",
        /// REGISTER: the registrar does not accept its contacts: their number, interval or order.
        RegisterContacts = "contacts",
        /// REGISTER: the store takes nothing.
        RegisterStore = "store",
        /// REGISTER: the server has no time or room, or is draining.
        RegisterOverload = "overload",
    }
    "strowger_calls_total"[outcome]: "INVITEs of new calls `answered` with a 2xx or `failed`." {
        /// INVITEs that ended in a 2xx.
        CallsAnswered = "answered",
        /// INVITEs that ended otherwise.
        CallsFailed = "failed",
    }
    "strowger_calls_diverted_total": "Calls sent on to voicemail." {
        /// Calls rerouted to voicemail.
        Voicemail,
    }
    "strowger_forwardings_total"[result]:
        "Forwardings by the rules of users: `forwarded`, `limit` (not forwarded: too many before, or by the same user)." {
        /// Calls forwarded by the rules of users, each forwarding counted.
        Forwardings = "forwarded",
        /// Calls not forwarded because of too many forwardings before.
        ForwardingsEnded = "limit",
    }
    "strowger_target_failures_total"[reason]:
        "Requests to which a target of a trunk, route, voicemail or `[emergency]` sent no response: `silent` (for `silent_after`), `unreachable` (reported by the network)." {
        /// A target left a request without any response for `silent_after`.
        TargetSilent = "silent",
        /// The network said that nobody listens at a target.
        TargetUnreachable = "unreachable",
    }
    "strowger_trunk_challenges_total"[result]:
        "Challenges (401, 407) of trunks at which this server has an account: `answered` with credentials, `refused` (its answer was not accepted, or it cannot be answered)." {
        /// A trunk's challenge to a forwarded request was answered.
        TrunkAnswered = "answered",
        /// A trunk did not accept the account, or asked for what this server cannot do.
        TrunkRefused = "refused",
    }
    "strowger_location_waits_total"[result]:
        "Requests that waited for bindings that another node or a store holds: `answered`, `silent` (no answer in time), `down` (the location service cannot tell), `cancelled`, `refused` (too many wait)." {
        /// A request got the bindings that it waited for.
        LocationAnswered = "answered",
        /// A request got no answer in time.
        LocationSilent = "silent",
        /// A request waited, and the location service cannot tell.
        LocationDown = "down",
        /// A request was cancelled while it waited.
        LocationCancelled = "cancelled",
        /// A request was refused because too many wait.
        LocationRefused = "refused",
    }
"strowger_trunk_unproven_total"[certificate]:
        "Requests over TLS outside a dialog that belong to no trunk, if `sources` of a trunk names certificates: `none` (the peer sent no certificate), `other` (its certificate is valid, but has no name of a trunk). `crowded` counts connections that are treated as without a certificate, because too many peers with certificates are connected." {
        /// A peer of no trunk has shown no certificate.
        PeerUnknown = "none",
        /// A peer has shown a certificate of no trunk.
        PeerOther = "other",
        /// The identity of a peer was not noted, because too many are known.
        PeerCrowded = "crowded",
    }
    "strowger_dns_questions_total": "Names asked of the resolver." {
        /// Questions to the resolver.
        Lookups,
    }
}

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Span {
    /// From an INVITE to its 2xx.
    CallSetup,
    /// From any other forwarded request to its final response.
    Answer,
}

impl Span {
    /// Every one, with its name and what it means.
    pub const ALL: [(Span, &'static str, &'static str); 2] = [
        (Span::CallSetup, "strowger_call_setup_seconds", "From an INVITE to its 2xx; ringing included."),
        (
            Span::Answer,
            "strowger_answer_seconds",
            "From a forwarded request other than INVITE to its final response.",
        ),
    ];
}
