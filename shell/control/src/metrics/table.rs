//! Every metric there is, with its name, its help and its labels: the one place to add to.

/// A metric family: several numbers under one name, told apart by labels.
pub(super) struct Family<M: 'static> {
    pub name: &'static str,
    pub help: &'static str,
    pub members: &'static [(M, &'static [(&'static str, &'static str)])],
}

/// An enum of the numbers to write, and the table of families to render them by.
macro_rules! metrics {
    ($(#[$doc:meta])* $kind:ident, $table:ident {
        $($name:literal, $help:literal: $($variant:ident $({ $label:ident = $value:literal })?),+ ;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $kind {
            $($(
                #[doc = concat!("`", $name, $("{", stringify!($label), "=\"", $value, "\"}",)? "`: ", $help)]
                $variant,
            )+)+
        }

        impl $kind {
            /// How many there are.
            pub const COUNT: usize = [$($($kind::$variant),+),+].len();
        }

        pub(super) const $table: &[Family<$kind>] = &[$(
            Family {
                name: $name,
                help: $help,
                members: &[$(($kind::$variant, &[$((stringify!($label), $value))?])),+],
            }
        ),+];
    };
}

metrics! {
    /// Numbers that only grow.
    Counter, COUNTERS {
        "strowger_responses_received_total", "Responses received.": ResponsesReceived;
        "strowger_messages_dropped_total", "Messages dropped without an answer.":
            DroppedGarbage { reason = "garbage" }, DroppedStray { reason = "stray" };
        "strowger_requests_refused_total", "Requests refused before they were remembered.":
            RefusedMalformed { reason = "malformed" },
            RefusedOverload { reason = "overload" },
            RefusedPolicy { reason = "policy" },
            RefusedLoop { reason = "loop" };
        "strowger_overload_refused_total", "New requests not taken on in an overload.":
            OverloadAnswered { how = "answered" }, OverloadUnanswered { how = "unanswered" };
        "strowger_overload_held_back_total", "Requests not sent on because the next hop asked for less.": OverloadHeldBack;
        "strowger_forwarded_total", "Messages forwarded.":
            ForwardedRequests { kind = "request" }, ForwardedResponses { kind = "response" };
        "strowger_auth_total", "Digest checks, by result.":
            AuthChallenged { result = "challenged" },
            AuthPassed { result = "passed" },
            AuthFailed { result = "failed" },
            AuthHeldOff { result = "held-off" };
        "strowger_registrations_total", "Registration requests, by result.":
            RegistrationsAccepted { result = "accepted" },
            RegistrationsRefused { result = "refused" };
        "strowger_registrations_refused_total", "Registration requests refused, by reason.":
            UnregisteredCredentials { reason = "credentials" },
            UnregisteredHeldOff { reason = "held-off" },
            UnregisteredForbidden { reason = "forbidden" },
            UnregisteredNotOurs { reason = "not-ours" },
            UnregisteredMalformed { reason = "malformed" },
            UnregisteredUnsupported { reason = "unsupported" },
            UnregisteredContacts { reason = "contacts" },
            UnregisteredStore { reason = "store" },
            UnregisteredOverload { reason = "overload" };
        "strowger_calls_total", "Calls set up or not, by outcome.":
            CallsAnswered { outcome = "answered" }, CallsFailed { outcome = "failed" };
        "strowger_calls_diverted_total", "Calls sent on to voicemail.": CallsDiverted;
        "strowger_target_failures_total", "Requests that a target left without a response, by how.":
            TargetsSilent { reason = "silent" }, TargetsUnreachable { reason = "unreachable" };
        "strowger_dns_questions_total", "Names asked of the resolver.": DnsQuestions;
    }
}

metrics! {
    /// Distributions of durations. Written in microseconds, reported in seconds.
    Histogram, HISTOGRAMS {
        "strowger_answer_seconds", "From a forwarded request to its final response.": Answer;
        "strowger_call_setup_seconds", "From the first request of a call to its success.": CallSetup;
    }
}
