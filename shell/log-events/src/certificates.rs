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
}
