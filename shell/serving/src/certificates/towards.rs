//! TLS settings for the servers of one trunk: our certificate, and the trusted authorities.

use super::entry::{Entry, Fault};
use super::stamp::Stamp;
use control::admin::CertificateStatus;
use control::config as c;
use std::path::PathBuf;
use std::sync::Arc;
use tls::certificate::Facts;
use tls::settings::roots_in;
use tls::{CertificateError, RootCertStore};

/// The files of one trunk.
#[derive(Clone)]
pub struct Towards {
    trunk: String,
    /// The names that its servers must prove.
    names: Vec<String>,
    certificate: Option<Entry>,
    roots: Option<Roots>,
}

/// A file of authorities.
#[derive(Clone)]
struct Roots {
    file: PathBuf,
    seen: Option<Stamp>,
    /// From the last file that could be used. If it is empty, no peer is trusted.
    store: Arc<RootCertStore>,
    fault: Option<Fault>,
}

impl Towards {
    /// The settings of all trunks that have their own. Content read earlier from the same files stays until
    /// they are read again.
    pub fn all(trunks: &[c::Trunk], before: &[Towards]) -> Vec<Towards> {
        let own = trunks.iter().filter(|trunk| trunk.has_own_tls());
        own.map(|trunk| Towards::new(trunk, before)).collect()
    }

    fn new(trunk: &c::Trunk, before: &[Towards]) -> Towards {
        let known = |files: &c::CertificateFiles| {
            let mut entries = before.iter().filter_map(|towards| towards.certificate.as_ref());
            let same = entries.find(|entry| entry.has_files(files));
            same.map_or_else(|| Entry::new(files.clone()), |entry| entry.with_domains(files))
        };
        let read = |file: &PathBuf| {
            let same = before.iter().filter_map(|towards| towards.roots.as_ref()).find(|r| r.file == *file);
            let store = same.map_or_else(|| Arc::new(RootCertStore::empty()), |same| Arc::clone(&same.store));
            Roots { file: file.clone(), seen: None, store, fault: None }
        };
        Towards {
            trunk: trunk.name.clone(),
            names: trunk.proven_names().into_iter().map(str::to_owned).collect(),
            certificate: trunk.certificate.as_ref().map(known),
            roots: trunk.roots.as_ref().map(read),
        }
    }

    /// Reads its files at the start. The start fails without them.
    pub fn read_first(&mut self, now: i64) -> Result<(), CertificateError> {
        if let Some(certificate) = &mut self.certificate {
            certificate.read_first(now)?;
        }
        if let Some(roots) = &mut self.roots {
            roots.read()?;
        }
        Ok(())
    }

    /// Checks its files, like [`Entry::look`]. `true` if their content in use has changed.
    pub fn look(&mut self, now: i64, asked: bool) -> bool {
        let certificate = self.certificate.as_mut().is_some_and(|entry| entry.look(now, asked));
        let roots = self.roots.as_mut().is_some_and(|roots| roots.look(now, asked));
        certificate || roots
    }

    /// The names that its servers prove.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Our certificate for this trunk, if it has its own. The one in `[tls]` is never sent in its place.
    pub fn certificate(&self) -> Option<&Entry> {
        self.certificate.as_ref()
    }

    /// The roots for this trunk with the name of the set, if it has its own.
    pub fn roots(&self) -> Option<(String, Arc<RootCertStore>)> {
        let roots = self.roots.as_ref()?;
        Some((roots.file.display().to_string(), Arc::clone(&roots.store)))
    }

    /// What its certificate says, and the file that it is in.
    pub fn facts(&self) -> Option<(String, &Facts)> {
        let entry = self.certificate.as_ref()?;
        Some((entry.chain(), entry.facts()?))
    }

    /// Alarms for operators.
    pub fn alarms(&self, now: i64) -> impl Iterator<Item = String> {
        let certificate = self.certificate.as_ref().and_then(|entry| entry.alarm(now));
        let roots = self.roots.as_ref().and_then(|roots| roots.fault.as_ref());
        let roots =
            roots.and_then(Fault::alarm).map(|text| format!("roots of a trunk cannot be used: {text}"));
        certificate.into_iter().chain(roots).map(|text| format!("trunk {}: {text}", self.trunk))
    }

    /// Its certificate, for `strowger ctl`.
    pub fn status(&self, now: i64) -> Option<CertificateStatus> {
        let status = self.certificate.as_ref()?.status(now);
        Some(CertificateStatus { serves: Vec::new(), trunk: Some(self.trunk.clone()), ..status })
    }
}

impl Roots {
    fn read(&mut self) -> Result<(), CertificateError> {
        // Taken before the content is read: a later change is seen at the next check.
        self.seen = Stamp::of(&self.file);
        self.store = roots_in(&self.file)?;
        self.fault = None;
        Ok(())
    }

    fn look(&mut self, now: i64, asked: bool) -> bool {
        let stamp = Stamp::of(&self.file);
        let changed = stamp != self.seen;
        if !changed && self.fault.is_none() && !stamp.is_some_and(|stamp| stamp.is_young(now)) {
            return false;
        }
        let before = Arc::clone(&self.store);
        match self.read() {
            Ok(()) => before.roots != self.store.roots,
            Err(error) => {
                let kept = !self.store.is_empty();
                self.fault = Some(Fault::next(self.fault.take(), &error, (changed, asked), kept));
                false
            }
        }
    }
}
