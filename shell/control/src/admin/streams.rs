//! What the admin API says of connections and certificates.

use super::search::Search;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// A certificate of TLS listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The trunk, if it is sent to the servers of one trunk only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk: Option<String>,
    /// The file of its chain.
    pub chain: String,
    /// The file of its key.
    pub key: String,
    /// The domains and addresses in it.
    pub names: Vec<String>,
    /// The domains for which clients are shown it (SNI).
    pub serves: Vec<String>,
    /// Whether clients are shown it that ask for no name, or for one of no certificate.
    pub default: bool,
    /// Who issued it.
    pub issuer: Option<String>,
    /// Until when it is valid.
    pub not_after: Option<String>,
    /// Whole days until then; negative: since then.
    pub days_left: Option<i64>,
    /// The kind of its key: `ECDSA P-256`, `RSA 2048`.
    pub key_kind: Option<String>,
    /// What is wrong with the files as they are now. What else is said is of the last good ones.
    pub fault: Option<String>,
}

/// A stream connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// `tcp`, `tls`.
    pub transport: String,
    /// The peer's address.
    pub peer: String,
    /// The domains that the peer has proven to be, if it showed a certificate.
    pub names: Vec<String>,
    /// Whether the peer opened it.
    pub inbound: bool,
    /// Where it stands, in a word.
    pub state: String,
    /// Seconds since it was accepted or begun.
    pub age_s: u64,
    /// Seconds since bytes went either way, as the kernel counts it.
    pub idle_s: u64,
    /// Bytes that the kernel received, those of TLS included.
    pub bytes_in: u64,
    /// Bytes that the peer has acknowledged, those of TLS included.
    pub bytes_out: u64,
    /// Bytes that wait to be sent.
    pub queued: u64,
    /// The version of TLS: `1.3`, `1.2`.
    pub tls: Option<String>,
    /// Its cipher suite.
    pub suite: Option<String>,
    /// The worker that has it.
    pub worker: u16,
}

/// Which connections are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// Those of this transport.
    pub transport: Option<wire::Transport>,
    /// Those to this address.
    pub peer: Option<IpAddr>,
    /// Those to this port of it.
    pub port: Option<u16>,
    /// Those whose peer's address or names contain this.
    pub search: Search,
}

impl ConnectionFilter {
    /// Of what an operator wrote: `tls`; `192.0.2.1`, `192.0.2.1:5061`, `[2001:db8::1]:5061`.
    ///
    /// # Errors
    /// What is wrong with it, and the mend.
    pub fn parse(transport: Option<&str>, peer: Option<&str>) -> Result<ConnectionFilter, String> {
        let streams = [wire::Transport::Tcp, wire::Transport::Tls, wire::Transport::Ws, wire::Transport::Wss];
        let transport = transport
            .map(|name| {
                let found = streams.into_iter().find(|known| known.to_string().eq_ignore_ascii_case(name));
                found.ok_or("transport is one of tcp, tls, ws, wss")
            })
            .transpose()?;
        let (peer, port) = match peer {
            None => (None, None),
            Some(text) => match (text.parse::<SocketAddr>(), text.trim_matches(['[', ']']).parse::<IpAddr>())
            {
                (Ok(address), _) => (Some(address.ip()), Some(address.port())),
                (_, Ok(ip)) => (Some(ip), None),
                _ => return Err("peer is an address, 192.0.2.1, or one with a port, 192.0.2.1:5061".into()),
            },
        };
        Ok(ConnectionFilter { transport, peer, port, search: Search::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_takes_addresses_with_and_without_port() {
        let of = |transport, peer| ConnectionFilter::parse(transport, peer);
        let [v4, v6]: [IpAddr; 2] = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
        let search = Search::default;
        let filter = |transport, peer, port| Ok(ConnectionFilter { transport, peer, port, search: search() });
        assert_eq!(of(None, None), Ok(ConnectionFilter::default()));
        assert_eq!(of(Some("TLS"), None), filter(Some(wire::Transport::Tls), None, None));
        assert_eq!(of(None, Some("192.0.2.1:5061")), filter(None, Some(v4), Some(5061)));
        assert_eq!(of(None, Some("[2001:db8::1]:5061")), filter(None, Some(v6), Some(5061)));
        for text in ["2001:db8::1", "[2001:db8::1]"] {
            assert_eq!(of(None, Some(text)), filter(None, Some(v6), None));
        }
        assert!(of(Some("udp"), None).is_err() && of(None, Some("phone.example")).is_err());
    }
}
