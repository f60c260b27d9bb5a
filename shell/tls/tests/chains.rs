//! Chains that peers show: their length, and the names that their authorities may vouch for.
#![allow(clippy::unwrap_used, missing_docs)]

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, NameConstraints, SanType,
};
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore};
use std::sync::Arc;
use tls::verify::Judge;

type Constraints = Option<NameConstraints>;

/// An authority, and the certificates from it up to its root, which is not among them.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    chain: Vec<CertificateDer<'static>>,
    roots: Arc<RootCertStore>,
}

fn authority_params(name: &str, constraints: Constraints) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.name_constraints = constraints;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn root(constraints: Constraints) -> Authority {
        let params = authority_params("root", constraints);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
        Authority { issuer: Issuer::new(params, key), chain: Vec::new(), roots: Arc::new(roots) }
    }

    fn below(self, name: &str, constraints: Constraints) -> Authority {
        let params = authority_params(name, constraints);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let chain = [vec![signed.der().clone()], self.chain].concat();
        Authority { issuer: Issuer::new(params, key), chain, roots: self.roots }
    }

    fn issue(
        &self,
        common: &str,
        names: &[SanType],
        purpose: ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages = vec![purpose];
        params.signed_by(&KeyPair::generate().unwrap(), &self.issuer).unwrap().der().clone()
    }

    /// What is said of a server of `name` with this certificate.
    fn server(&self, certificate: &CertificateDer<'_>, name: &str) -> Result<(), Error> {
        let judge = Judge::of_servers(Arc::clone(&self.roots), &default_provider(), false);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        judge.verify_server_cert(certificate, &self.chain, &name, &[], UnixTime::now()).map(|_| ())
    }

    /// What is said of a client with this certificate.
    fn client(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let provider = Arc::new(default_provider());
        let judge = Judge::of_clients(Arc::clone(&self.roots), &provider, true).unwrap();
        judge.verify_client_cert(certificate, &self.chain, UnixTime::now()).map(|_| ())
    }

    /// Whether servers and clients with such a certificate are believed. All say the same.
    fn believes(&self, common: &str, names: &[SanType], name: &str) -> bool {
        let server = self.issue(common, names, ExtendedKeyUsagePurpose::ServerAuth);
        let client = self.issue(common, names, ExtendedKeyUsagePurpose::ClientAuth);
        let all = [self.server(&server, name), self.client(&server), self.client(&client)];
        let believed = all.iter().filter(|said| said.is_ok()).count();
        assert!(believed == 0 || believed == 3, "{all:?}");
        believed == 3
    }
}

fn only(parent: &str) -> Constraints {
    let permitted_subtrees = vec![GeneralSubtree::DnsName(parent.into())];
    Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() })
}

fn all_but(parent: &str) -> Constraints {
    let excluded_subtrees = vec![GeneralSubtree::DnsName(parent.into())];
    Some(NameConstraints { permitted_subtrees: Vec::new(), excluded_subtrees })
}

fn uri(host: &str) -> SanType {
    SanType::URI(format!("sip:{host}").try_into().unwrap())
}

fn dns(host: &str) -> SanType {
    SanType::DnsName(host.try_into().unwrap())
}

/// Whether a domain is believed in a SIP URI, in a common name, and in a name of the DNS.
fn of_all_forms(authority: &Authority, domain: &str) -> [bool; 3] {
    [
        authority.believes("server", &[uri(domain)], domain),
        authority.believes(domain, &[], domain),
        authority.believes("server", &[dns(domain)], domain),
    ]
}

#[test]
fn authority_vouches_only_for_domains_that_it_may() {
    for authority in [
        Authority::root(None).below("one", only("example.org")),
        Authority::root(only("example.org")).below("one", None),
        Authority::root(None).below("one", only("example.org")).below("two", None),
        Authority::root(None).below("one", all_but("example.com")),
        Authority::root(all_but("example.com")),
    ] {
        assert_eq!(of_all_forms(&authority, "sip.example.org"), [true; 3]);
        assert_eq!(of_all_forms(&authority, "example.org"), [true; 3]);
        assert_eq!(of_all_forms(&authority, "sip.example.com"), [false; 3]);
    }
    let free = Authority::root(None).below("one", None);
    assert_eq!(of_all_forms(&free, "example.com"), [true; 3]);
}

#[test]
fn one_excluded_name_makes_a_certificate_invalid() {
    let authority = Authority::root(None).below("one", only("example.org"));
    assert!(authority.believes("server", &[uri("a.example.org"), uri("example.org")], "example.org"));
    assert!(!authority.believes("server", &[uri("example.org"), uri("example.com")], "example.org"));
}

#[test]
fn refusal_names_the_domain() {
    let authority = Authority::root(None).below("one", only("example.org"));
    let server = authority.issue("server", &[uri("example.com")], ExtendedKeyUsagePurpose::ServerAuth);
    let said = format!("{:?}", authority.server(&server, "example.com").unwrap_err());
    assert!(said.contains("Excluded(\"example.com\")"), "{said}");
}

#[test]
fn chain_may_have_five_certificates() {
    let purpose = || ExtendedKeyUsagePurpose::ServerAuth;
    let mut authority = Authority::root(None);
    for n in 1..30 {
        authority = authority.below(&format!("authority {n}"), None);
        let server = authority.issue("server", &[dns("example.org")], purpose());
        let said = [authority.server(&server, "example.org"), authority.client(&server)];
        match n {
            1..=4 => assert!(said.iter().all(Result::is_ok), "{n}: {said:?}"),
            _ => assert!(said.iter().all(|said| format!("{said:?}").contains("Long(")), "{n}: {said:?}"),
        }
    }
}

#[test]
fn second_certificate_of_a_subject_is_not_looked_at() {
    let (authority, other) =
        (Authority::root(None).below("one", None), Authority::root(None).below("one", None));
    let server = authority.issue("server", &[dns("example.org")], ExtendedKeyUsagePurpose::ServerAuth);
    let with = |chain: [&Authority; 2]| {
        let chain = chain.iter().flat_map(|authority| authority.chain.clone()).collect();
        let roots = Arc::clone(&authority.roots);
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(CertificateParams::default(), key);
        Authority { issuer, chain, roots }.server(&server, "example.org")
    };
    assert!(with([&authority, &other]).is_ok());
    assert!(with([&other, &authority]).is_err(), "a server that shows the right one first is believed");
}
