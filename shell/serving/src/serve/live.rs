//! What the dashboard shows as it changes, from reports of the workers and what they count.

use control::admin::{Live, LiveRole, LiveServe, Role, Status, Times};
use control::metrics::Registry;
use sip_node::{Counter, Report, Span};
use std::time::Duration;

/// REGISTER requests that were refused, by reason.
const REGISTRATIONS_REFUSED: &[Counter] = &[
    Counter::RegisterCredentials,
    Counter::RegisterHeldOff,
    Counter::RegisterForbidden,
    Counter::RegisterNotOurs,
    Counter::RegisterMalformed,
    Counter::RegisterUnsupported,
    Counter::RegisterContacts,
    Counter::RegisterStore,
    Counter::RegisterOverload,
];
/// Requests that were refused before anything was remembered.
const REQUESTS_REFUSED: &[Counter] =
    &[Counter::Malformed, Counter::Overload, Counter::Forbidden, Counter::Loops];

/// A sample, so long after the start.
pub(super) fn of(at: Duration, status: Status, reports: &[Report], registry: &Registry) -> Live {
    let total = |counters: &[Counter]| counters.iter().map(|counter| registry.total(*counter)).sum();
    let (registered, bindings, overload) = match status.role {
        Role::Serve(own) => (own.registered, own.bindings, own.overload),
        Role::Balance(_) => (0, 0, String::new()),
    };
    let own = LiveServe {
        registered,
        bindings,
        calls_answered: total(&[Counter::CallsAnswered]),
        calls_failed: total(&[Counter::CallsFailed]),
        registrations: total(&[Counter::Registered]),
        registrations_refused: total(REGISTRATIONS_REFUSED),
        requests_refused: total(REQUESTS_REFUSED),
        overload_refused: total(&[Counter::Refused, Counter::Unanswered]),
        overloaded_workers: reports.iter().filter(|report| report.overload.overloaded).count() as u64,
        overload,
        setup: Times::from(&registry.histogram(Span::CallSetup)),
        answer: Times::from(&registry.histogram(Span::Answer)),
    };
    Live {
        role: LiveRole::Serve(own),
        at_ms: at.as_millis() as u64,
        state: status.state,
        calls: status.calls,
        connections: status.connections,
        messages_received: status.messages_received,
        messages_sent: status.messages_sent,
        alarms: status.alarms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_node::FAMILIES;

    /// The counters that a family of metrics adds up.
    fn of_family(name: &str, value: Option<&str>) -> Vec<Counter> {
        let family = FAMILIES.iter().find(|family| family.name == name).unwrap();
        let members = family.members.iter().filter(|member| value.is_none_or(|value| member.0 == value));
        members.flat_map(|member| member.1).copied().collect()
    }

    #[test]
    fn dashboard_counts_what_metrics_count() {
        let refused = of_family("strowger_registrations_total", Some("refused"));
        assert_eq!(refused, REGISTRATIONS_REFUSED);
        assert_eq!(of_family("strowger_requests_refused_total", None), REQUESTS_REFUSED);
    }
}
