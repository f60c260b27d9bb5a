//! Look-ups of the operator's targets, with or without calls.

use crate::node::Node;
use crate::services::Services;
use crate::site::domain;
use core::hash::Hasher;
use sip_message::Uri;
use wire::Time;

impl<S: Services> Node<S> {
    /// Looks up the targets whose time has come.
    pub(crate) fn find_targets(&mut self, now: Time) {
        while let Some((at, uri)) = self.site.places_mut().found.due(now) {
            let mut seed = self.site.keyed(domain::TARGETS);
            seed.write_u64(now.as_micros());
            let found = match Uri::parse(&uri) {
                Ok(uri) => self.locate_now(now, &uri, false, seed.finish()),
                Err(_) => Some(Default::default()),
            };
            if let Some(found) = found {
                self.site.places_mut().found.note(now, at, found.as_slice());
            }
        }
    }

    /// The DNS has answered something.
    pub(crate) fn find_further(&mut self, now: Time) {
        self.site.places_mut().found.look();
        self.find_targets(now);
    }
}
