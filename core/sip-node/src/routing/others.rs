//! Bindings that another node or a store holds: the questions of routing, and the answers.

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

/// The result of a question for bindings.
#[derive(Debug)]
pub(crate) enum Finding {
    /// All of them.
    Bindings(Arc<BindingSet>),
    /// No answer in time.
    Silent,
    /// The location service cannot answer.
    Down(StoreDown),
}

/// The results of the questions for the bindings of these addresses-of-record.
#[derive(Default, Debug)]
pub(crate) struct Findings(Vec<(Box<[u8]>, Finding)>);

impl Findings {
    /// No question was asked.
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

/// What routing does if others hold bindings that it does not know.
#[derive(Clone, Copy)]
pub(crate) enum Others<'a> {
    /// It goes on with the bindings known here.
    Local(&'a Findings),
    /// It asks for them.
    Ask(&'a Findings),
}

impl<'a> Others<'a> {
    /// The location service's report that it cannot answer, if there is one.
    pub fn down(self) -> Option<StoreDown> {
        self.findings().0.iter().find_map(|(_, finding)| match finding {
            Finding::Down(down) => Some(*down),
            _ => None,
        })
    }

    fn findings(self) -> &'a Findings {
        let (Others::Local(findings) | Others::Ask(findings)) = self;
        findings
    }
}

impl<S: Services> Router<'_, S> {
    /// Calls `each` for every live binding of an address-of-record, in order of falling q. An error: these
    /// are not all, and the rest must be asked for.
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
            Others::Ask(findings) if findings.of(aor.text()).is_none() => {
                Err(Ask { aor: aor.text().into(), until })
            }
            _ => Ok(()),
        }
    }

    /// Whether the bindings of this address-of-record were asked for without result.
    pub(super) fn is_unsure(&self, aor: &Aor<'_>) -> bool {
        matches!(self.finding(aor), Some(Finding::Silent | Finding::Down(_)))
    }

    fn finding(&self, aor: &Aor<'_>) -> Option<&Finding> {
        self.others.findings().of(aor.text())
    }
}
