//! A client's answers to digest challenges (RFC 2617, RFC 7616, RFC 8760).

/// The challenge of a dialog or registration, and how often it was answered.
#[derive(Clone, Debug, Default)]
pub struct Challenge {
    /// The value of WWW-Authenticate or Proxy-Authenticate.
    text: Vec<u8>,
    proxy: bool,
    count: u32,
}

/// Secrets already hashed, and the source of cnonces. One per worker.
#[derive(Debug)]
pub struct Credentials {
    seed: u64,
}

impl Credentials {
    /// No secrets yet; cnonces follow from `seed`.
    pub fn new(seed: u64) -> Credentials {
        Credentials { seed }
    }
}

impl Challenge {
    /// Takes the challenge of a 401 or 407, raw. False if there is none that can be answered; then the
    /// old one stays.
    pub fn learn(&mut self, message: &[u8]) -> bool {
        let _ = message;
        false
    }
}
