//! TLS of a load generator: it measures a server, and may do so without knowing who it is.

use crate::certificate::Certificate;
use crate::choice::Choice;
use crate::client::Client;
use crate::settings::{ClientCertificates, ClientSettings, Server, ServerSettings};
use crate::tickets::TicketSecret;
use crate::verify::Anybody;
use crate::versions::Versions;
use rustls::{Error, RootCertStore};
use std::sync::Arc;

/// What decides about the connections of a load generator, in both directions.
pub struct GeneratorSettings {
    /// Who is believed about servers. `None`: every certificate is taken.
    pub roots: Option<Arc<RootCertStore>>,
    /// What peers are shown. Without one nobody can connect to the generator.
    pub certificate: Option<Certificate>,
    /// The versions.
    pub versions: Versions,
    /// Whether a later connection may resume the session of an earlier one.
    pub resume: bool,
}

impl GeneratorSettings {
    /// What connections that peers open begin from.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn server(&self) -> Result<Server, Error> {
        let settings = ServerSettings {
            choice: Arc::new(Choice::new(self.certificate.iter().map(|own| (own, &[][..])))),
            clients: ClientCertificates::Off,
            roots: Arc::new(RootCertStore::empty()),
            key_log: None,
        };
        settings.of_versions(TicketSecret::random()?, self.versions.list())
    }

    /// What connections begin from that the generator opens, all of them to the server of this name.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn client(&self, name: &str) -> Result<Client, Error> {
        let settings = ClientSettings {
            roots: self.roots.clone().unwrap_or_else(|| Arc::new(RootCertStore::empty())),
            wildcards: true,
            certificate: self.certificate.clone(),
            resume: self.resume,
            key_log: None,
        };
        let config = match self.roots {
            Some(_) => settings.of_versions(None, self.versions.list()),
            None => settings.of_versions(Some(Arc::new(Anybody::new())), self.versions.list()),
        };
        Ok(Client::of_one(config?, name))
    }
}
