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
        "strowger_messages_received_total", "Messages received.":
            ReceivedUdp { transport = "udp" }, ReceivedTcp { transport = "tcp" };
        "strowger_messages_sent_total", "Messages sent.":
            SentUdp { transport = "udp" }, SentTcp { transport = "tcp" };
        "strowger_received_bytes_total", "Octets of messages received.":
            BytesReceivedUdp { transport = "udp" }, BytesReceivedTcp { transport = "tcp" };
        "strowger_sent_bytes_total", "Octets of messages sent.":
            BytesSentUdp { transport = "udp" }, BytesSentTcp { transport = "tcp" };
        "strowger_messages_dropped_total", "Received messages dropped without an answer.":
            DroppedGarbage { reason = "garbage" },
            DroppedOversize { reason = "oversize" },
            DroppedStray { reason = "stray" },
            DroppedFull { reason = "full" };
        "strowger_messages_refused_total", "Requests refused before a transaction was made.":
            RefusedMalformed { reason = "malformed" },
            RefusedOverload { reason = "overload" },
            RefusedPolicy { reason = "policy" },
            RefusedLoop { reason = "loop" };
        "strowger_send_failures_total", "Messages that could not be sent.":
            SendUnreachable { reason = "unreachable" },
            SendBufferFull { reason = "full" },
            SendOther { reason = "other" };
        "strowger_keepalives_total", "Keepalives answered on streams and datagrams.": Keepalives;
        "strowger_ring_hops_total", "Messages handed to the worker that owns their call.": RingHops;
        "strowger_ring_full_total", "Messages dropped because the owner's ring was full.": RingFull;
        "strowger_wakeups_total", "Times a worker woke up.": Wakeups;
        "strowger_connections_opened_total", "Stream connections opened.":
            ConnectionsIn { direction = "in" }, ConnectionsOut { direction = "out" };
        "strowger_connections_refused_total", "Stream connections refused.":
            ConnectionsRefusedTotal { limit = "total" },
            ConnectionsRefusedSource { limit = "source" };
        "strowger_connections_timed_out_total", "Stream connections closed for want of progress.":
            ConnectionsSlow { state = "message" }, ConnectionsIdle { state = "idle" };
        "strowger_responses_sent_total", "Responses sent, by class.":
            SentProvisional { class = "1xx" },
            SentSuccess { class = "2xx" },
            SentRedirect { class = "3xx" },
            SentRequestFailure { class = "4xx" },
            SentServerFailure { class = "5xx" },
            SentGlobalFailure { class = "6xx" };
        "strowger_responses_received_total", "Responses received, by class.":
            GotProvisional { class = "1xx" },
            GotSuccess { class = "2xx" },
            GotRedirect { class = "3xx" },
            GotRequestFailure { class = "4xx" },
            GotServerFailure { class = "5xx" },
            GotGlobalFailure { class = "6xx" };
        "strowger_retransmissions_total", "Messages repeated by us, and repeats from others answered from memory.":
            RetransmissionsSent { side = "sent" }, RetransmissionsAbsorbed { side = "absorbed" };
        "strowger_transactions_total", "Transactions begun.":
            ServerTransactionsBegun { side = "server" }, ClientTransactionsBegun { side = "client" };
        "strowger_transactions_timed_out_total", "Client transactions without a final answer.":
            TransactionsTimedOut;
        "strowger_transactions_refused_total", "Transactions refused because of the limit.":
            TransactionsRefused;
        "strowger_calls_total", "Calls ended, by outcome.":
            CallsAnswered { outcome = "answered" },
            CallsCancelled { outcome = "cancelled" },
            CallsBusy { outcome = "busy" },
            CallsNoAnswer { outcome = "no-answer" },
            CallsFailed { outcome = "failed" };
        "strowger_calls_diverted_total", "Calls sent on to voicemail.": CallsDiverted;
        "strowger_trunk_failovers_total", "Calls moved to another target of a trunk.": TrunkFailovers;
        "strowger_registrations_total", "Registration requests, by result.":
            RegistrationsAccepted { result = "accepted" },
            RegistrationsRefused { result = "refused" };
        "strowger_bindings_changed_total", "Bindings, by what became of them.":
            BindingsAdded { change = "added" },
            BindingsRefreshed { change = "refreshed" },
            BindingsRemoved { change = "removed" },
            BindingsExpired { change = "expired" };
        "strowger_auth_total", "Digest checks, by result.":
            AuthChallenged { result = "challenged" },
            AuthPassed { result = "passed" },
            AuthFailed { result = "failed" },
            AuthStale { result = "stale" },
            AuthHeldOff { result = "held-off" };
        "strowger_store_writes_total", "Batches written to the store, by result.":
            StoreWritten { result = "written" }, StoreFailed { result = "failed" };
        "strowger_dns_questions_total", "Names looked up, by result.":
            DnsCached { result = "cached" },
            DnsAnswered { result = "answered" },
            DnsFailed { result = "failed" };
        "strowger_reloads_total", "Configuration reloads, by result.":
            ReloadsDone { result = "done" }, ReloadsRefused { result = "refused" };
    }
}

metrics! {
    /// Numbers that go up and down. Each writer sets its share; the sum is reported.
    Gauge, GAUGES {
        "strowger_calls", "Calls in progress.": Calls;
        "strowger_transactions", "Transactions alive.":
            ServerTransactions { side = "server" }, ClientTransactions { side = "client" };
        "strowger_connections", "Stream connections open.": Connections;
        "strowger_registered_users", "Addresses-of-record with a binding.": RegisteredUsers;
        "strowger_bindings", "Bindings.": Bindings;
        "strowger_store_pending", "Changes not yet written to the store.": StorePending;
        "strowger_store_healthy", "1 while the store can be written.": StoreHealthy;
        "strowger_timers", "Timers set.": Timers;
    }
}

metrics! {
    /// Distributions of durations. Written in microseconds, reported in seconds.
    Histogram, HISTOGRAMS {
        "strowger_turn_seconds", "How long a worker is busy between two waits.": Turn;
        "strowger_answer_seconds", "From a request that needs an answer to its final response.": Answer;
        "strowger_call_setup_seconds", "From the first request of a call to its success.": CallSetup;
        "strowger_next_hop_seconds", "From a request forwarded to its first final response.": NextHop;
        "strowger_store_write_seconds", "How long a batch took to be durable.": StoreWrite;
        "strowger_dns_seconds", "How long a name not in the cache took.": Dns;
    }
}
