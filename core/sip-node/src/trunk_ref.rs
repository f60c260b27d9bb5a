//! The trunk that a call goes by, as it was when the call began.

use crate::settings::{Settings, Trunk};
use core::fmt;
use std::sync::Arc;

/// A trunk with the settings that it is from: a reload may give its place in the list to another one.
#[derive(Clone)]
pub(crate) struct TrunkRef {
    settings: Arc<Settings>,
    at: usize,
}

impl TrunkRef {
    /// The trunk at this place of these settings.
    pub fn new(settings: &Arc<Settings>, at: usize) -> TrunkRef {
        TrunkRef { settings: Arc::clone(settings), at }
    }

    /// Its place in these settings, if they have a trunk of its name.
    pub fn place_in(&self, settings: &Arc<Settings>) -> Option<usize> {
        if Arc::ptr_eq(&self.settings, settings) {
            return Some(self.at);
        }
        let name = &self.get()?.name;
        settings.trunks.iter().position(|trunk| trunk.name == *name)
    }

    /// The trunk.
    pub fn get(&self) -> Option<&Trunk> {
        self.settings.trunks.get(self.at)
    }
}

impl fmt::Debug for TrunkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrunkRef").field(&self.at).finish()
    }
}
