//! One certificate: its files, what was read of them last, and what the log has said of it.

use super::stamp::Stamp;
use control::admin::CertificateStatus;
use control::config as c;
use sip_message::DateText;
use std::path::Path;
use tls::certificate::Facts;
use tls::{Certificate, CertificateError};

/// Days before the end of a certificate from which on the log warns, once a day.
pub const SOON: i64 = 30;
/// Seconds of a day.
const DAY: i64 = 86_400;

/// What is wrong with files.
#[derive(Clone)]
pub struct Fault {
    text: String,
    /// Whether the log has it.
    told: bool,
}

impl Fault {
    /// The fault now, after the fault `before`. It is logged if a check was `asked` for, or if it is found
    /// again in files that have not `changed`. `kept`: the content read earlier stays in use.
    pub fn next(
        before: Option<Fault>,
        error: &CertificateError,
        (changed, asked): (bool, bool),
        kept: bool,
    ) -> Fault {
        let text = error.to_string();
        let again = before.as_ref().is_some_and(|fault| fault.text == text) && !changed;
        let told = again && before.is_some_and(|fault| fault.told);
        let tell = !told && (again || asked);
        if tell {
            match kept {
                true => log_events::certificates::certificates_kept(&text),
                false => log_events::certificates::certificate_unusable(&text),
            }
        }
        Fault { text, told: told || tell }
    }

    /// The alarm for operators, once the fault was logged.
    pub fn alarm(&self) -> Option<&str> {
        self.told.then_some(&self.text)
    }
}

/// One certificate.
#[derive(Clone)]
pub struct Entry {
    files: c::CertificateFiles,
    /// The files when they were read last.
    seen: [Option<Stamp>; 2],
    /// From the last files that could be used.
    certificate: Option<Certificate>,
    fault: Option<Fault>,
    /// When the log said last that it expires.
    warned: Option<i64>,
}

impl Entry {
    /// Nothing is read yet.
    pub fn new(files: c::CertificateFiles) -> Entry {
        Entry { files, seen: [None; 2], certificate: None, fault: None, warned: None }
    }

    /// The same for other domains. Its files are read anew.
    pub fn with_domains(&self, files: &c::CertificateFiles) -> Entry {
        let certificate = self.certificate.clone();
        Entry { certificate, warned: self.warned, ..Entry::new(files.clone()) }
    }

    /// Whether it is of these files.
    pub fn has_files(&self, files: &c::CertificateFiles) -> bool {
        (&self.files.chain, &self.files.key) == (&files.chain, &files.key)
    }

    /// The file of the chain.
    pub fn chain(&self) -> String {
        self.files.chain.display().to_string()
    }

    /// What the certificate in use says.
    pub fn facts(&self) -> Option<&Facts> {
        self.certificate.as_ref().map(Certificate::facts)
    }

    /// The certificate in use and the domains that it is for.
    pub fn shown(&self) -> Option<(&Certificate, &[String])> {
        Some((self.certificate.as_ref()?, &self.files.domains))
    }

    /// Reads it for the start, which fails without it.
    pub fn read_first(&mut self, now: i64) -> Result<(), CertificateError> {
        let certificate = self.read()?;
        self.take(certificate, now);
        Ok(())
    }

    /// Reads the files if they have changed, or could not be used. Of bad files the certificate from before
    /// stays. `asked`: a fault is logged at once; otherwise only if the next look finds it still, because
    /// files that are being replaced do not fit each other for a moment. `true` if there is another
    /// certificate then.
    pub fn look(&mut self, now: i64, asked: bool) -> bool {
        let stamps = self.stamps();
        let changed = stamps != self.seen;
        let mut taken = false;
        if changed || self.fault.is_some() || stamps.iter().flatten().any(|stamp| stamp.is_young(now)) {
            match self.read() {
                Ok(certificate) => taken = self.take(certificate, now),
                Err(error) => self.refuse(&error, changed, asked),
            }
        }
        self.warn(now);
        taken
    }

    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.files.chain, &self.files.key].map(|file| Stamp::of(file))
    }

    fn read(&mut self) -> Result<Certificate, CertificateError> {
        // Before the bytes: what changes meanwhile is seen the next time.
        self.seen = self.stamps();
        Certificate::read(&self.files.chain, &self.files.key)
    }

    /// `true` if it is another certificate than before.
    fn take(&mut self, certificate: Certificate, now: i64) -> bool {
        self.fault = None;
        if self.certificate.as_ref().is_some_and(|before| before.is_same(&certificate)) {
            return false;
        }
        let facts = certificate.facts();
        let days = facts.days_left(now);
        if days >= SOON {
            log_events::certificates::certificate_read(&self.files.chain.display(), &facts.names, days);
        }
        self.certificate = Some(certificate);
        self.warned = None;
        self.warn(now);
        true
    }

    fn refuse(&mut self, error: &CertificateError, changed: bool, asked: bool) {
        let kept = self.certificate.is_some();
        self.fault = Some(Fault::next(self.fault.take(), error, (changed, asked), kept));
    }

    /// Says once a day that it expires soon.
    fn warn(&mut self, now: i64) {
        let Some(facts) = self.facts() else { return };
        let days = facts.days_left(now);
        if days >= SOON || self.warned.is_some_and(|at| (at..at + DAY).contains(&now)) {
            return;
        }
        let file = self.files.chain.display();
        match days {
            ..0 => log_events::certificates::certificate_expired(&file, &facts.names, -days),
            _ => log_events::certificates::certificate_expires_soon(&file, &facts.names, days),
        }
        self.warned = Some(now);
    }

    /// What an operator should look at.
    pub fn alarm(&self, now: i64) -> Option<String> {
        if let Some(text) = self.fault.as_ref().and_then(Fault::alarm) {
            return Some(format!("a certificate cannot be used: {text}"));
        }
        let (facts, file) = (self.facts()?, self.chain());
        match facts.days_left(now) {
            days @ ..0 => {
                Some(format!("the certificate {file} ({}) expired {} days ago", facts.names, -days))
            }
            days @ 0..SOON => {
                Some(format!("the certificate {file} ({}) expires in {days} days", facts.names))
            }
            _ => None,
        }
    }

    /// For people.
    pub fn status(&self, now: i64) -> CertificateStatus {
        let text = |path: &Path| path.display().to_string();
        let facts = self.facts();
        let names = |facts: &Facts| {
            let addresses = facts.names.addresses().iter().map(ToString::to_string);
            facts.names.domains().map(str::to_owned).chain(addresses).collect()
        };
        let domains = |(certificate, listed): (&Certificate, &[String])| {
            certificate.domains(listed).map(str::to_owned).collect()
        };
        CertificateStatus {
            chain: text(&self.files.chain),
            key: text(&self.files.key),
            names: facts.map(names).unwrap_or_default(),
            serves: self.shown().map(domains).unwrap_or_default(),
            default: false,
            trunk: None,
            issuer: facts.map(|facts| facts.issuer.clone()),
            not_after: facts.map(|facts| date(facts.not_after)),
            days_left: facts.map(|facts| facts.days_left(now)),
            key_kind: facts.map(|facts| facts.key.clone()),
            fault: self.fault.as_ref().map(|fault| fault.text.clone()),
        }
    }
}

/// A second since 1970 as people write it.
fn date(second: i64) -> String {
    let mut text = DateText::default();
    String::from_utf8_lossy(text.at(u64::try_from(second).unwrap_or(0))).into_owned()
}

#[cfg(test)]
mod tests;
