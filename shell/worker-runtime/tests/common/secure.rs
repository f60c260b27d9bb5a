//! What tests over TLS need: authorities, certificates, servers that show them, clients that believe them.

use super::{Server, config, patient};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use tls::{Certificate, Choice, Client, ClientCertificates, ClientSettings, ServerSettings};
use wire::Transport;
use worker_runtime::{Listener, RuntimeConfig};

/// A client's stream within TLS.
pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A private authority.
pub struct Authority {
    pub issuer: Issuer<'static, KeyPair>,
    pub roots: Arc<RootCertStore>,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
        Authority { issuer: Issuer::new(params, key), roots: Arc::new(roots) }
    }

    pub fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        with_key(vec![signed.der().clone()], &key)
    }

    /// A certificate of these names.
    pub fn certificate(&self, names: &[&str]) -> Certificate {
        self.issue(names, |_| {})
    }

    /// What a client starts from that believes this authority.
    pub fn settings(&self, certificate: Option<Certificate>) -> ClientSettings {
        let roots = Arc::clone(&self.roots);
        ClientSettings { roots, wildcards: false, certificate, resume: true, key_log: None }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.settings(None), []).unwrap()
    }

    /// What a server starts from that shows these certificates.
    pub fn serving(&self, certificates: &[Certificate], clients: ClientCertificates) -> ServerSettings {
        ServerSettings {
            choice: Arc::new(Choice::new(certificates.iter().map(|one| (one, &[][..])))),
            clients,
            roots: Arc::clone(&self.roots),
            key_log: None,
        }
    }

    /// A server that shows these certificates, behind the two listeners of [`config`].
    pub fn server(&self, certificates: &[Certificate], clients: ClientCertificates, workers: u16) -> Server {
        let mut config = config("127.0.0.1");
        listens(&mut config, Transport::Tls);
        config.tls = Some(self.serving(certificates, clients).server().unwrap());
        Server::with(config, workers)
    }

    pub fn of(&self, names: &[&str]) -> Server {
        self.server(&[self.certificate(names)], ClientCertificates::Off, 1)
    }
}

/// A chain with the key of its first certificate.
pub fn with_key(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Certificate {
    Certificate::new(chain, &PrivateKeyDer::try_from(key.serialize_der()).unwrap()).unwrap()
}

/// Adds a listener on a free port.
pub fn listens(config: &mut RuntimeConfig, transport: Transport) {
    config.listeners.push(Listener { transport, address: "127.0.0.1:0".parse().unwrap() });
}

/// Has listeners serve TLS as `example.org`. What clients of it begin from.
pub fn secured(config: &mut RuntimeConfig) -> Arc<ClientConfig> {
    let authority = Authority::new();
    let certificate = authority.certificate(&["example.org"]);
    config.tls = Some(authority.serving(&[certificate], ClientCertificates::Off).server().unwrap());
    authority.settings(None).config().unwrap()
}

/// The address of the first listener behind the two of [`config`].
pub fn address(server: &Server) -> SocketAddr {
    server.handle.listeners()[2].address
}

/// A client's end of TLS to `example.org`, without a socket.
pub fn client_end(client: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(client), ServerName::try_from("example.org").unwrap()).unwrap()
}

/// A connection on which the handshake is made with the first byte that is written or read.
pub fn connect(client: &Arc<ClientConfig>, to: SocketAddr) -> Stream {
    StreamOwned::new(client_end(client), patient(TcpStream::connect(to).unwrap()))
}
