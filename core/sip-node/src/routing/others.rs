//! Bindings that another node or a store holds: what routing asks for, and what it was told.

use super::Router;
use crate::located::{BindingSet, Coverage, StoreDown};
use crate::services::Services;
use crate::site::Aor;
use sip_registrar::BindingView;
use std::sync::Arc;
use wire::Time;

/// The bindings of an address-of-record have to be asked for.
#[derive(Debug)]
pub(crate) struct Ask {
    pub aor: Box<[u8]>,
    /// When waiting for them ends.
    pub until: Time,
}

/// What came of a question for bindings.
#[derive(Debug)]
pub(crate) enum Finding {
    /// All of them.
    Bindings(Arc<BindingSet>),
    /// No answer in time.
    Silent,
    /// The location service cannot tell.
    Down(StoreDown),
}

/// What came of the questions for the bindings of these addresses-of-record.
#[derive(Default, Debug)]
pub(crate) struct Findings(Vec<(Box<[u8]>, Finding)>);

impl Findings {
    /// None: nobody was asked.
    pub const NONE: &Findings = &Findings(Vec::new());

    /// Adds one.
    pub fn add(&mut self, aor: Box<[u8]>, finding: Finding) {
        self.0.push((aor, finding));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn of(&self, aor: &[u8]) -> Option<&Finding> {
        self.0.iter().find(|(told, _)| **told == *aor).map(|(_, finding)| finding)
    }
}

/// What routing does where others hold bindings that it was not told.
#[derive(Clone, Copy)]
pub(crate) enum Others<'a> {
    /// It goes on with what is known here.
    Left(&'a Findings),
    /// It asks for them.
    Asked(&'a Findings),
}

impl<'a> Others<'a> {
    /// That the location service could not tell, if it said so.
    pub fn down(self) -> Option<StoreDown> {
        self.findings().0.iter().find_map(|(_, finding)| match finding {
            Finding::Down(down) => Some(*down),
            _ => None,
        })
    }

    fn findings(self) -> &'a Findings {
        let (Others::Asked(findings) | Others::Left(findings)) = self;
        findings
    }
}

impl<S: Services> Router<'_, S> {
    /// Calls `each` for every live binding of an address-of-record, in order of falling q. An error: those
    /// were not all, and the others have to be asked for them.
    #[inline]
    pub(super) fn bindings(
        &self,
        aor: &Aor<'_>,
        now: Time,
        each: &mut dyn FnMut(&BindingView<'_>),
    ) -> Result<(), Ask> {
        if let Some(Finding::Bindings(set)) = self.finding(aor) {
            set.live(now).for_each(|binding| each(&binding));
            return Ok(());
        }
        match self.site.services().bindings(aor.text(), now, each) {
            Coverage::Complete => Ok(()),
            Coverage::Partial { until } => self.partly(aor, until),
        }
    }

    #[cold]
    fn partly(&self, aor: &Aor<'_>, until: Time) -> Result<(), Ask> {
        match self.others {
            Others::Asked(findings) if findings.of(aor.text()).is_none() => {
                Err(Ask { aor: aor.text().into(), until })
            }
            _ => Ok(()),
        }
    }

    /// Whether others who hold bindings of this address-of-record were asked and told nothing.
    pub(super) fn is_unsure(&self, aor: &Aor<'_>) -> bool {
        matches!(self.finding(aor), Some(Finding::Silent | Finding::Down(_)))
    }

    fn finding(&self, aor: &Aor<'_>) -> Option<&Finding> {
        self.others.findings().of(aor.text())
    }
}
