//! The keys of sessions in a file, so that a capture of the network can be decrypted: the format that other
//! programs write to `SSLKEYLOGFILE`.

use crate::certificate::CertificateError;
use rustls::KeyLog;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A file that keys are appended to.
#[derive(Debug)]
pub struct KeyFile(Mutex<File>);

impl KeyFile {
    /// Opens it, for its owner alone if it is new.
    ///
    /// # Errors
    /// It cannot be written, or is open to others than its owner.
    pub fn open(file: &Path) -> Result<KeyFile, CertificateError> {
        let opened = regular_file::append(file);
        let opened = opened.map_err(|error| CertificateError::new(file, error.to_string()))?;
        let mode = opened.metadata().map_err(|error| CertificateError::new(file, error.to_string()))?.mode();
        if mode & 0o077 != 0 {
            return Err(CertificateError::new(
                file,
                "is open to others than its owner; run `chmod 600` on it",
            ));
        }
        Ok(KeyFile(Mutex::new(opened)))
    }
}

impl KeyLog for KeyFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = String::with_capacity(160);
        line.push_str(label);
        for bytes in [client_random, secret] {
            line.push(' ');
            for byte in bytes {
                // Writing to a String cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
        }
        line.push('\n');
        // A full disk costs lines of this log, not calls.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
