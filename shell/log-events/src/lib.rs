//! What the programs log: each event is declared once, with its name, level, sentence, fields and advice.
//!
//! The declaration makes a function that logs the event, and its row in `docs/reference/log.md`. The name
//! takes the place of the module as target: `WARN target_down: ...` as text, `"target":"target_down"` as
//! JSON. Lines of level debug and trace are for developers and stand where they are logged.
#![forbid(unsafe_code)]

#[macro_use]
mod declare;
pub mod admin;
pub mod balancer;
pub mod bindings;
pub mod carriers;
pub mod certificates;
pub mod dns;
pub mod process;
pub mod records;
mod reference;
pub mod server;
pub mod subscribers;
pub mod workers;

pub use declare::{Event, Field};
pub use reference::fill;

/// Every event, by subject, with the heading of each.
pub fn sections() -> [(&'static str, &'static [Event]); 11] {
    [
        ("Start, reload and end", process::EVENTS),
        ("Server", server::EVENTS),
        ("Accounts at trunks", carriers::EVENTS),
        ("Balancer", balancer::EVENTS),
        ("Bindings on disk", bindings::EVENTS),
        ("Subscribers and data directory", subscribers::EVENTS),
        ("Call records", records::EVENTS),
        ("Workers and sockets", workers::EVENTS),
        ("Certificates", certificates::EVENTS),
        ("DNS", dns::EVENTS),
        ("Admin API", admin::EVENTS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_told_apart() {
        let names: Vec<&str> =
            sections().iter().flat_map(|(_, events)| *events).map(|event| event.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    }

    #[test]
    fn warnings_and_errors_say_what_to_do() {
        for event in sections().iter().flat_map(|(_, events)| *events) {
            assert!(event.level == "INFO" || !event.advice.is_empty(), "{}", event.name);
            for text in [event.sentence, event.advice] {
                assert!(!text.contains(['\n', '|']), "{}: not one cell of a table", event.name);
            }
        }
    }
}
