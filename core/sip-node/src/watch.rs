//! Targets that leave requests without any response.
//!
//! What is sent to a target of a list (trunk, route, voicemail, emergency) is watched. A target that says
//! nothing for `silent_after` is marked for all workers, and the next one is tried. This worker probes it
//! until it answers.

use crate::settings::{RouteAction, Settings};
use core::time::Duration;
use sip_health::{Gateway, Gateways, Lines};
use std::sync::Arc;

/// The lists of targets that an operator writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// `[[trunk]]`
    Trunk,
    /// `[[route]]`
    Route,
    /// `[voicemail]`
    Voicemail,
    /// `[emergency]`
    Emergency,
}

impl List {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            List::Trunk => "trunk",
            List::Route => "route",
            List::Voicemail => "voicemail",
            List::Emergency => "emergency",
        }
    }
}

/// A target that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub gateway: Arc<Gateway>,
    pub list: List,
    /// How long it may say nothing.
    pub patience: Duration,
    /// It did not answer when it was tried.
    pub doubted: bool,
}

impl Watch {
    /// Whether others are tried before it.
    pub fn is_last(&self) -> bool {
        !self.gateway.takes_calls()
    }
}

impl Settings {
    /// Watches the targets of all lists, and the calls of trunks. What is known of those that `before` has
    /// goes on.
    #[must_use]
    pub fn watching(mut self, before: &Gateways) -> Settings {
        let forwards = self.routes.iter().filter_map(|route| match &route.action {
            RouteAction::Forward(targets) => Some(targets),
            RouteAction::Redirect(_) => None,
        });
        let lists = self.trunks.iter().map(|trunk| &trunk.targets).chain(forwards);
        let lists = lists.chain(self.emergency.iter().map(|emergency| &emergency.targets)).flatten();
        let uris = lists.chain(self.voicemail.iter().map(|voicemail| &voicemail.uri));
        let gateways = Gateways::new(uris.map(|uri| &uri[..]), before);
        let trunks = self.trunks.iter().map(|trunk| (&trunk.name[..], trunk.limits));
        let lines = Lines::new(trunks, before.lines());
        for trunk in &mut self.trunks {
            trunk.line = lines.get(&trunk.name).cloned();
        }
        self.gateways = gateways.with_lines(lines);
        self
    }

    /// The watch on a target of a list.
    pub(crate) fn watch(&self, uri: &[u8], list: List, silent_after_ms: u32) -> Option<Watch> {
        let gateway = Arc::clone(self.gateways.get(uri)?);
        let patience = Duration::from_millis(silent_after_ms.into());
        Some(Watch { gateway, list, patience, doubted: false })
    }
}
