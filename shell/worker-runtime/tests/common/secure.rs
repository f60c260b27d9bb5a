//! A certificate for tests over TLS.

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tls::Certificate;

/// A certificate that signs itself, and what a client needs to believe it.
pub fn certificate() -> (Certificate, Arc<RootCertStore>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
    let signed = params.self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(signed.der().clone()).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![signed.der().clone()];
    (Certificate::new(chain, &private).unwrap(), Arc::new(roots))
}
