//! Certificates of TLS.

use std::fmt::Display;

events! {
    info certificate_read(file: &dyn Display, names: &dyn Display, days: i64)
        "certificate read"
        "";
    warn certificate_expires_soon(file: &dyn Display, names: &dyn Display, days: i64)
        "a certificate expires soon; this is said once a day"
        "Renew it. The file is watched: nothing needs to be reloaded.";
    error certificate_expired(file: &dyn Display, names: &dyn Display, days_ago: i64)
        "a certificate has expired: clients that look at it refuse the connection"
        "Renew it. The file is watched: nothing needs to be reloaded.";
    error certificates_kept(error: &dyn Display)
        "a certificate cannot be read anew; the one from before stays"
        "Correct the file that the line names. It is tried again by itself.";
    error certificate_unusable(error: &dyn Display)
        "a certificate cannot be used, and there is none from before"
        "Correct the file that the line names. It is tried again by itself.";
    warn not_tls(remote: &dyn Display, connections: u64; what: &str)
        "{what} on a TLS port: the connection is closed"
        "Point the client at the port of its transport, or have it use TLS (`transport=tls`).";
    warn handshakes_full(connections: u64)
        "too many TLS handshakes at a time, in total or from one source: closing connections that make no progress"
        "Raise `handshakes` or `handshakes_per_source` in `[tls]` if these are your phones; else find who connects.";
    warn tls_peer_refused(remote: &dyn Display, error: &dyn Display, connections: u64)
        "the certificate of a peer is not accepted: its connection is closed"
        "If it is your peer: its certificate must be valid, and its authority must be in `roots` of `[tls]` or of its trunk. With `client_certificates = \"required\"` it must have a certificate.";
    warn key_log_on(file: &dyn Display)
        "keys of TLS sessions are written to a file: who has it can decrypt all of them"
        "Take `key_log` out of [tls] and restart when the search is over. Delete the file.";
    warn ticket_keys_open(path: &dyn Display)
        "the secret of session tickets is open to other users; `chmod 600` it"
        "Run `chmod 600` on the file. Replace the secret if others may have read it.";
    warn no_authorities(error: &dyn Display)
        "no TLS connection to a server can be verified, so none is made"
        "Install `ca-certificates`, or name a file in `roots` of `[tls]`.";
    error client_certificate_kept(error: &dyn Display)
        "servers are shown the certificate from before: the new one cannot be used"
        "Correct the first of `certificates`, and reload.";
}
