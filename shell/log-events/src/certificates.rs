//! Certificates of TLS.

use std::fmt::Display;

events! {
    info certificate_read(file: &dyn Display, names: &dyn Display, days: i64)
        "certificate read"
        "";
    warn certificate_expires_soon(file: &dyn Display, names: &dyn Display, days: i64)
        "a certificate expires soon"
        "Renew it, and reload (`strowger ctl reload`, SIGHUP).";
    error certificate_expired(file: &dyn Display, names: &dyn Display, days_ago: i64)
        "a certificate has expired: clients that look at it refuse the connection"
        "Renew it, and reload (`strowger ctl reload`, SIGHUP).";
    error certificates_kept(error: &dyn Display)
        "certificates cannot be read anew; those from before stay"
        "Correct the file that the line names, and reload.";
}
