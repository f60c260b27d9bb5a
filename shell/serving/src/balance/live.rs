//! What the dashboard of a balancer shows as it changes.

use control::admin::{Live, LiveBalance, LiveRole, Nodes, Status};
use sip_balancer::Report;
use std::time::Duration;

/// A sample, so long after the start.
pub(super) fn of(at: Duration, status: Status, nodes: Nodes, reports: &[Report]) -> Live {
    let sum = |pick: fn(&Report) -> u64| reports.iter().map(pick).sum();
    let own = LiveBalance {
        algorithm: nodes.algorithm,
        assigned: sum(|r| r.events.assigned),
        requests_refused: sum(|r| {
            let counts = &r.counts;
            counts.malformed + counts.loops + counts.forbidden + counts.forged + counts.unavailable
        }),
        held_back: sum(|r| r.events.held_back),
        nodes: nodes.items,
    };
    Live {
        role: LiveRole::Balance(own),
        at_ms: at.as_millis() as u64,
        state: status.state,
        calls: status.calls,
        connections: status.connections,
        messages_received: status.messages_received,
        messages_sent: status.messages_sent,
        alarms: status.alarms,
    }
}
