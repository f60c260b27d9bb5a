//! A private authority for certificates of a test.

use crate::server::fresh_ip;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};

/// An authority, and a folder for what it issues, gone with the value.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    /// One that has issued nothing.
    ///
    /// # Panics
    /// If there is no room for its folder.
    pub fn new() -> Authority {
        let folder = format!("strowger-live-authority-{}-{}", std::process::id(), fresh_ip());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.join("roots.pem"), root.pem()).expect("a file");
        Authority { folder, issuer: Issuer::new(params, key), root: root.der().clone() }
    }

    /// Its own certificate.
    pub fn root(&self) -> &CertificateDer<'static> {
        &self.root
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a certificate of these names and its key for a server, as ACME clients do.
    ///
    /// # Panics
    /// If a name cannot be in one, or the files cannot be written.
    pub fn issue(&self, server: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(names).expect("names");
        let key = KeyPair::generate().expect("a key");
        let chain = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        for (kind, text) in [("key", key.serialize_pem()), ("chain", chain)] {
            let new = self.folder.join("new");
            std::fs::write(&new, text).expect("a file");
            std::fs::rename(new, self.folder.join(format!("{server}-{kind}.pem"))).expect("its place");
        }
    }

    /// `[tls]` of a server that shows what was issued for it and believes this authority.
    pub fn section(&self, server: &str) -> String {
        let folder = self.folder.display();
        format!(
            "[tls]\ncertificates = [{{ chain = \"{folder}/{server}-chain.pem\", key = \"{folder}/{server}-key.pem\" }}]\n\
             roots = \"{folder}/roots.pem\"\n"
        )
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
