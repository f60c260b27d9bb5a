use super::*;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};

fn identities(common: Option<&str>, names: &[SanType]) -> Identities {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if let Some(common) = common {
        params.distinguished_name.push(DnType::CommonName, common);
    }
    params.subject_alt_names = names.to_vec();
    let key = KeyPair::generate().unwrap();
    Identities::of(params.self_signed(&key).unwrap().der())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn uri(uri: &str) -> SanType {
    SanType::URI(uri.try_into().unwrap())
}

#[test]
fn names_of_the_dns_are_domains_where_no_sip_uri_is() {
    let found = identities(None, &[dns("Example.ORG"), dns("sip.example.org")]);
    assert_eq!(found.domains().collect::<Vec<_>>(), ["example.org", "sip.example.org"]);
    assert!(found.prove("EXAMPLE.org", false) && !found.prove("a.example.org", false));
}

#[test]
fn sip_uris_go_before_names_of_the_dns() {
    let found = identities(None, &[dns("host.example.org"), uri("SIP:example.org"), uri("sip:b.org:5061")]);
    assert_eq!(found.domains().collect::<Vec<_>>(), ["example.org", "b.org"]);
}

#[test]
fn uris_of_users_and_other_schemes_are_no_domains() {
    let found = identities(
        None,
        &[uri("sip:alice@example.org"), uri("https://example.org"), uri("sips:example.org")],
    );
    assert!(found.is_empty());
    assert_eq!(found.to_string(), "no SIP domain");
}

#[test]
fn common_name_counts_only_without_alternative_names() {
    assert!(identities(Some("example.org"), &[]).prove("example.org", false));
    assert!(!identities(Some("example.org"), &[dns("b.org")]).prove("example.org", false));
    assert!(identities(Some("Example Ltd"), &[]).is_empty());
}

#[test]
fn wildcard_stands_for_one_label_and_only_where_allowed() {
    let found = identities(None, &[dns("*.example.org")]);
    assert!(!found.prove("a.example.org", false), "RFC 5922 section 7.2");
    assert!(found.prove("a.example.org", true));
    assert!(!found.prove("a.b.example.org", true) && !found.prove("example.org", true));
    assert!(!found.prove(".example.org", true));
}

#[test]
fn no_suffix_matches() {
    let found = identities(None, &[dns("foo.example.com")]);
    assert!(!found.prove("example.com", true) && !found.prove("xfoo.example.com", true));
}

#[test]
fn addresses_prove_themselves() {
    let found = identities(None, &[SanType::IpAddress([192, 0, 2, 1].into())]);
    assert!(found.prove_address([192, 0, 2, 1].into()) && !found.prove_address([192, 0, 2, 2].into()));
    assert_eq!(found.to_string(), "192.0.2.1");
}

#[test]
fn address_counts_from_an_ip_entry_alone() {
    for found in [
        identities(None, &[dns("127.77.0.9")]),
        identities(None, &[dns("127.77.0.9.")]),
        identities(None, &[dns("*.77.0.9")]),
        identities(None, &[uri("sip:127.77.0.9")]),
        identities(Some("127.77.0.9"), &[]),
    ] {
        assert!(!found.prove("127.77.0.9", true) && !found.prove("127.77.0.9.", true), "{found}");
        assert!(found.domains().all(|name| name.starts_with("*.")), "{found}");
    }
    // Domains of cameras (GB/T 28181) are digits alone.
    assert!(identities(None, &[dns("3402000000")]).prove("3402000000", false));
}

#[test]
fn garbage_proves_nothing() {
    assert!(Identities::of(&CertificateDer::from(vec![0x30, 0x80, 1, 2])).is_empty());
}
