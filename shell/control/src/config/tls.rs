//! `[tls]`: what clients are shown, and who is believed.

use super::error::Fault;
use super::form::*;
use super::load::{Context, Overrides};
use super::reader::{Reader, Section, kind};
use super::schema::{Checks, section};
use super::server::Server;
use super::types::Listener;
use super::values::{LONGEST_TEXT, listener, shown};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tls::ClientCertificates;
use toml::de::DeValue;

/// A certificate in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, the server's own certificate first, in PEM.
    pub chain: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// The domains that it is for; empty: those that it names.
    pub domains: Vec<String>,
}

section! {
    /// `[tls]`: certificates, and who is believed.
    pub struct Tls = "tls" {
        /// Certificates of this server, each with its key, in PEM: `{ chain = "fullchain.pem", key =
        /// "privkey.pem" }`. A client that asks for a name (SNI) is shown the one for it: by its exact name,
        /// else by a wildcard, else the first of the list. `domains = ["example.com"]` in an entry says which
        /// names it is for; without it, those in the certificate. A reload reads the files anew. It is
        /// refused if one of them cannot be used.
        certificates: Vec<CertificateFiles> = Vec::new(), list(certificate()).once("certificate"), live;
        /// Whether clients are asked for a certificate. `"offered"`: who has none is served as anybody, a
        /// bad one ends the connection. `"required"`: who has none is not served.
        client_certificates: ClientCertificates =
            ClientCertificates::Off, choice(CLIENT_CERTIFICATES), restart;
        /// A file of the authorities that are believed about clients, and about servers that this one
        /// connects to, in PEM. Without it those of the system. A server must prove the host of its URI (RFC
        /// 5922); one that asks for a certificate is shown the first of `certificates`.
        roots: Option<PathBuf> = None, path().optional(), restart;
        /// How long a handshake with a client may take.
        handshake_timeout: Duration = Duration::from_secs(10), length(HANDSHAKE), restart;
        /// The largest number of handshakes with clients at a time. If more begin, handshakes that have made
        /// no progress for the longest time are closed.
        handshakes: usize = 10_000, number(1..=1_000_000), restart;
        /// The same from one source: an IPv4 address or an IPv6 /56.
        handshakes_per_source: usize = 1_000, number(1..=1_000_000), restart;
        /// A secret of 32 bytes and more, from which the keys of session tickets follow, one for each six
        /// hours. Nodes with the same file resume each other's sessions. Without it each process has a secret
        /// of its own, and its sessions end with it.
        ticket_keys: Option<PathBuf> = None, path().optional(), restart;
        /// A file to which the keys of all sessions are appended, so that a capture can be decrypted: for a
        /// search for faults, never for longer. Who has the file reads everything.
        key_log: Option<PathBuf> = None, path().optional(), restart;
    }
}

/// How long a handshake may be allowed to take.
const HANDSHAKE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);

/// By name.
const CLIENT_CERTIFICATES: &[(&str, ClientCertificates)] = &[
    ("off", ClientCertificates::Off),
    ("offered", ClientCertificates::Offered),
    ("required", ClientCertificates::Required),
];

/// How an entry of `certificates` is written.
const EXAMPLE: &str = "write it as { chain = \"fullchain.pem\", key = \"privkey.pem\" }";

/// `{ chain = "…", key = "…" }`.
pub(super) fn pair() -> One<CertificateFiles> {
    certificate().except(|value| match value {
        DeValue::Table(table) if table.contains_key("domains") => {
            let what = "unknown key \"domains\" of a certificate for one trunk";
            Some(Fault::new(what, "the keys are chain and key"))
        }
        _ => None,
    })
}

/// `{ chain = "…", key = "…", domains = ["…"] }`.
fn certificate() -> One<CertificateFiles> {
    let parse = |value: &DeValue<'_>| {
        let DeValue::Table(table) = value else {
            return Err(Fault::new(format!("expected a table, found {}", kind(value)), EXAMPLE));
        };
        let (mut chain, mut key, mut domains) = (None, None, Vec::new());
        for (name, value) in table.iter() {
            match name.get_ref().as_ref() {
                "chain" => chain = Some(path().read(value.get_ref())?),
                "key" => key = Some(path().read(value.get_ref())?),
                "domains" => domains = names(value.get_ref())?,
                other => {
                    let what = format!("unknown key \"{}\" of a certificate", shown(other));
                    return Err(Fault::new(what, "an entry has chain, key and domains"));
                }
            }
        }
        match (chain, key) {
            (Some(chain), Some(key)) => Ok(CertificateFiles { chain, key, domains }),
            (None, _) => Err(Fault::new("a certificate without chain", EXAMPLE)),
            (_, None) => Err(Fault::new("a certificate without key", EXAMPLE)),
        }
    };
    One::new("`{ chain = \"FILE\", key = \"FILE\" }`", parse, |files| {
        let domains: Vec<String> = files.domains.iter().map(quoted).collect();
        let domains = match domains.is_empty() {
            true => String::new(),
            false => format!(", domains = [{}]", domains.join(", ")),
        };
        format!(
            "{{ chain = {}, key = {}{domains} }}",
            quoted(files.chain.display()),
            quoted(files.key.display())
        )
    })
}

/// Domains, the first label of which may be `*`.
fn names(value: &DeValue<'_>) -> Result<Vec<String>, Fault> {
    let one = |value: &DeValue<'_>| {
        let written = string(value)?;
        let plain = written.strip_prefix("*.").unwrap_or(written);
        match tls::names::is_domain(plain) && written.len() <= LONGEST_TEXT {
            true => Ok(written.to_ascii_lowercase()),
            false => Err(Fault::new(
                format!("\"{}\" is not a domain", shown(written)),
                "write \"sip.example.com\", or \"*.example.com\" for all names one label below",
            )),
        }
    };
    match value {
        DeValue::Array(list) => list.iter().map(|value| one(value.get_ref())).collect(),
        value => one(value).map(|name| vec![name]),
    }
}

impl Tls {
    /// Paths in a file are meant from `base`, those of the command line from where it runs.
    pub(super) fn resolve_paths(&mut self, base: &Path, overrides: &Overrides) {
        let given = [&overrides.tls_cert, &overrides.tls_key];
        self.each_path(|path| {
            if !given.into_iter().flatten().any(|given| given == path) {
                *path = base.join(&*path);
            }
        });
    }

    /// Does something with each path.
    pub(super) fn each_path(&mut self, mut act: impl FnMut(&mut PathBuf)) {
        for files in &mut self.certificates {
            act(&mut files.chain);
            act(&mut files.key);
        }
        let files = [&mut self.roots, &mut self.ticket_keys, &mut self.key_log];
        files.into_iter().flatten().for_each(act);
    }
}

impl Checks for Tls {
    fn check(&mut self, _: &mut Section<'_, '_>, reader: &mut Reader<'_>, context: &Context<'_>) {
        let overrides = context.overrides;
        match (&overrides.tls_cert, &overrides.tls_key) {
            (Some(chain), Some(key)) => {
                let files = CertificateFiles { chain: chain.clone(), key: key.clone(), domains: Vec::new() };
                self.certificates.insert(0, files);
            }
            (Some(_), None) => {
                reader.option_error("--tls-cert", Fault::new("there is no key to it", "add --tls-key FILE"));
            }
            (None, Some(_)) => {
                reader.option_error(
                    "--tls-key",
                    Fault::new("there is no certificate to it", "add --tls-cert FILE"),
                );
            }
            (None, None) => {}
        }
    }
}

/// Reports the first listener that needs a certificate if `[tls]` has none.
pub(super) fn check_listeners(
    reader: &mut Reader<'_>,
    top: &Section<'_, '_>,
    (tls, server): (&Tls, &Server),
    overrides: &Overrides,
) {
    let listens = |l: &&Listener| l.transport.is_secure();
    let Some(first) = server.listen.iter().find(listens).filter(|_| tls.certificates.is_empty()) else {
        return;
    };
    let fault = Fault::new(
        format!("the listener \"{first}\" has no certificate to show"),
        "name the files in [tls], certificates = [{ chain = \"fullchain.pem\", key = \"privkey.pem\" }], or give \
         --tls-cert FILE and --tls-key FILE",
    );
    if !overrides.listen.is_empty() {
        return reader.option_error("--listen", fault);
    }
    let places = top.places("listen", &text("", listener));
    let place = places.iter().find(|at| at.value.transport.is_secure());
    reader.error(&place.map_or_else(|| top.span_of("listen"), |at| at.span.clone()), fault);
}
