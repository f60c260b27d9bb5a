//! TLS of a run: certificates, who is believed, versions.

use super::args::{LoadArgs, Switch};
use super::target::host_of;
use super::{advice, say, ways};
use clap::{Args, ValueEnum};
use load::report::{Fact, Report};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use tls::{Certificate, Client, GeneratorSettings, Server, Versions};
use worker_runtime::{Counts, RuntimeConfig};

/// Options of a run over TLS.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// The certificate, with its chain, in PEM: shown where calls come in, and to a server that asks for one
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "backend")]
    pub tls_cert: Option<PathBuf>,
    /// Its key, in PEM, unencrypted
    #[arg(long, value_name = "FILE", requires = "tls_cert", conflicts_with = "backend")]
    pub tls_key: Option<PathBuf>,
    /// Verify the server: its certificate has to be of an authority in this file (PEM), and for the host of
    /// the target [default: any certificate is accepted]
    #[arg(long, value_name = "FILE", conflicts_with = "backend")]
    pub tls_ca: Option<PathBuf>,
    /// Offer and take this version only [default: both]
    #[arg(long, value_name = "1.2|1.3", conflicts_with = "backend")]
    pub tls_version: Option<Version>,
    /// Whether a new connection may resume an earlier session, which costs both sides less [default: on]
    #[arg(long, value_name = "on|off", conflicts_with = "backend")]
    pub tls_resume: Option<Switch>,
}

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Version {
    /// TLS 1.2.
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "1.3")]
    Tls13,
}

/// What connections of a run begin from; nothing without TLS.
#[derive(Default)]
pub struct Secure {
    server: Option<Server>,
    client: Option<Client>,
}

impl TlsArgs {
    /// The first option that is given.
    fn given(&self) -> Option<&'static str> {
        let all = [
            ("-tls_cert", self.tls_cert.is_some()),
            ("-tls_ca", self.tls_ca.is_some()),
            ("-tls_version", self.tls_version.is_some()),
            ("--tls-resume", self.tls_resume.is_some()),
        ];
        all.into_iter().find(|(_, is)| *is).map(|(name, _)| name)
    }

    fn resume(&self) -> bool {
        self.tls_resume != Some(Switch::Off)
    }

    fn settings(&self) -> Result<GeneratorSettings, String> {
        let pair = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let certificate = pair.map(|(chain, key)| Certificate::read(chain, key)).transpose();
        let roots = self.tls_ca.as_deref().map(tls::settings::roots_in).transpose();
        Ok(GeneratorSettings {
            certificate: certificate.map_err(|error| format!("-tls_cert, -tls_key: {error}"))?,
            roots: roots.map_err(|error| format!("-tls_ca: {error}"))?,
            versions: match self.tls_version {
                None => Versions::Both,
                Some(Version::Tls12) => Versions::Tls12,
                Some(Version::Tls13) => Versions::Tls13,
            },
            resume: self.resume(),
        })
    }
}

/// Whether it has been said that certificates are not verified.
static SAID: AtomicBool = AtomicBool::new(false);

impl Secure {
    /// What the command line asks for. `answers`: calls come in at a port that others connect to.
    pub fn new(args: &LoadArgs, answers: bool) -> Result<Secure, String> {
        let own = &args.tls;
        if !args.over().is_secure() {
            return match own.given() {
                Some(option) => Err(format!("{option} needs TLS: add {WAYS}")),
                None => Ok(Secure::default()),
            };
        }
        // Over WebSocket, calls come in on connections that we open.
        let connects = ways::is_web(args.over()) && args.target.is_some();
        if answers && !connects && own.tls_cert.is_none() {
            return Err(format!(
                "-t {}: where calls come in, a certificate is shown; add -tls_cert FILE and -tls_key FILE",
                args.transport
            ));
        }
        let settings = own.settings()?;
        let wrong = |error: &dyn std::fmt::Display| format!("-t {}: {error}", args.transport);
        // Without a target all connections come in, except in a self-test, whose target is the program.
        let name = args.target.as_deref().map(host_of).or(args.self_test.then(|| "localhost".to_owned()));
        let client = name.map(|name| settings.client(&name)).transpose().map_err(|error| wrong(&error))?;
        let server = settings.server().map_err(|error| wrong(&error))?;
        if client.is_some() && own.tls_ca.is_none() && !SAID.swap(true, Ordering::Relaxed) {
            say::err(format_args!(
                "strowger load: the server's certificate is not verified; -tls_ca FILE verifies it"
            ));
        }
        Ok(Secure { server: Some(server), client })
    }

    /// Settings of a runtime with it.
    pub fn put_into(self, config: RuntimeConfig) -> RuntimeConfig {
        RuntimeConfig { tls: self.server, tls_client: self.client, ..config }
    }
}

/// The transports with TLS, for messages.
pub const WAYS: &str = "-t l1 or -t ln, or -t wss1 or -t wssn for WebSocket";

/// What a report says of TLS.
pub fn fact(args: &LoadArgs) -> Option<Fact> {
    let own = &args.tls;
    let versions = match own.tls_version {
        None => "1.3 or 1.2",
        Some(Version::Tls12) => "1.2",
        Some(Version::Tls13) => "1.3",
    };
    let verified = if own.tls_ca.is_some() { "verified" } else { "not verified" };
    let resumed = if own.resume() { "resumed" } else { "not resumed" };
    let text = format!("{versions}; certificates {verified}, sessions {resumed}");
    args.over().is_secure().then(|| Fact::new("TLS", text))
}

/// Puts into a report what became of handshakes.
pub fn counted(report: &mut Report, args: &LoadArgs, counts: &Counts) {
    if ways::is_web(args.over()) {
        report.whole.insert("websocket_handshakes".to_owned(), counts.websocket_handshakes);
    }
    if !args.over().is_secure() {
        return;
    }
    // Of a connection that we open both counters tell.
    let (done, failed) = (counts.tls_handshakes, counts.tls_failures.max(counts.tls_unproven));
    let resumed = counts.tls_resumed + counts.tls_resumed_servers;
    let full = done.saturating_sub(resumed);
    let microseconds = counts.tls_handshake_us + counts.tls_connect_us;
    for (name, value) in [
        ("tls_handshakes", done),
        ("tls_handshakes_full", full),
        ("tls_handshakes_resumed", resumed),
        ("tls_handshakes_us", microseconds),
        ("tls_failures", failed),
    ] {
        report.whole.insert(name.to_owned(), value);
    }
    let each = microseconds as f64 / 1_000.0 / done.max(1) as f64;
    report.notes.push(format!(
        "{HANDSHAKES}{done} ({full} full, {resumed} resumed), failed: {failed}; {each:.1} ms each, counted from the connect"
    ));
}

/// How the note of [`counted`] begins.
pub const HANDSHAKES: &str = "TLS handshakes: ";

/// That a connection over TLS failed, for this reason, and the mend.
pub fn fault(args: &LoadArgs, why: &str) -> String {
    let name = args.target.as_deref().map(host_of).unwrap_or_default();
    let mend = match args.tls.tls_ca.as_deref() {
        Some(file) => format!(
            "-tls_ca {} has to have the authority of its certificate, which has to be for {name}",
            file.display()
        ),
        None => "does it take TLS at this port?".to_owned(),
    };
    let target = advice::target(args).unwrap_or_default();
    format!("{}{target} over TLS: {why}; {mend}", advice::UNCONNECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str, answers: bool) -> Result<(), String> {
        Secure::new(&LoadArgs::of(line.split(' ')), answers).map(drop)
    }

    #[test]
    fn options_without_tls_are_refused() {
        for line in
            ["-t w1 --tls-ca x", "-t u1 --tls-ca x", "-t tn --tls-version 1.2", "-t t1 --tls-resume off"]
        {
            assert!(said(line, false).is_err_and(|why| why.contains("-t l1")), "{line}");
        }
        assert_eq!(said("-t u1", true), Ok(()));
    }

    #[test]
    fn answering_side_needs_a_certificate() {
        for secure in ["-t l1", "-t wss1"] {
            assert!(said(secure, true).is_err_and(|why| why.contains("add -tls_cert")));
        }
        assert_eq!((said("--quiet -t ln h", false), said("--quiet -t wssn h", false)), (Ok(()), Ok(())));
        let missing = said("-t l1 --tls-cert /nonexistent.pem --tls-key /nonexistent.pem", true);
        assert!(missing.is_err_and(|why| why.contains("/nonexistent.pem")));
    }
}
