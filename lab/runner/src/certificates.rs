//! The certificate of a run: signed by itself, for the system's names and addresses.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair};

/// A certificate and its key (P-256), in files.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    names: Vec<String>,
}

impl Certificates {
    /// Makes one for these names and addresses.
    ///
    /// # Errors
    /// If a name is no name, or a file cannot be written.
    pub fn make(folder: &Path, names: Vec<String>) -> Result<Certificates, String> {
        let made = Certificates { folder: folder.to_owned(), names };
        made.renew()?;
        Ok(made)
    }

    /// Replaces both files by new ones, each at once.
    ///
    /// # Errors
    /// As for [`Certificates::make`].
    pub fn renew(&self) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("the run's certificate: {error}");
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let params = CertificateParams::new(self.names.clone()).map_err(|error| failed(&error))?;
        let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
        for (path, text) in [(self.key(), key.serialize_pem()), (self.chain(), certificate.pem())] {
            let partial = path.with_extension("new");
            fs::write(&partial, text).map_err(|error| failed(&error))?;
            fs::rename(&partial, &path).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// The certificate, PEM.
    pub fn chain(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// Its key, PEM.
    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewed_certificate_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = Certificates::make(folder.path(), vec!["lab.test".to_owned(), "127.0.0.1".to_owned()])
            .expect("made");
        let first = fs::read_to_string(made.chain()).expect("read");
        assert!(first.starts_with("-----BEGIN CERTIFICATE-----"));
        made.renew().expect("renewed");
        assert_ne!(fs::read_to_string(made.chain()).expect("read"), first);
    }
}
