//! Session tickets (RFC 5077, RFC 8446 section 4.6.1): what a client keeps to resume a session, under keys
//! that rotate.
//!
//! The key of a period is derived from a secret, the number of the period, and the settings for client
//! certificates. So nodes that share the secret accept each other's tickets without any communication, and
//! only the secret is stored. Nodes with other settings or other trusted authorities do not accept them.
//!
//! The ticket of a client contains its certificate. The ticket is valid no longer than the certificate;
//! otherwise a client could resume its session for ever.

use crate::certificate::CertificateError;
use crate::proven;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::Digest;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// Seconds for which a key makes tickets. It opens them for the same time after that.
const PERIOD: u64 = 6 * 3600;
/// Bytes of the number of the period, in front of a ticket.
const NUMBER: usize = 8;
/// Bytes of a ticket before its encrypted part.
const HEAD: usize = NUMBER + NONCE_LEN;
/// Bytes at the end of the encrypted part: the time until which the ticket is valid.
const UNTIL: usize = 8;
/// Fewer bytes are no secret.
const SHORTEST: usize = 32;
/// So few different bytes are no secret. One of hexadecimal digits has more.
const FEW: usize = 8;
/// More bytes are not read.
const LONGEST: u64 = 4096;

/// The secret that keys of tickets follow from.
pub struct TicketSecret(Vec<u8>);

impl TicketSecret {
    /// One of this process alone.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<TicketSecret, rustls::Error> {
        let mut secret = vec![0; SHORTEST];
        rand::fill(&mut secret).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        Ok(TicketSecret(secret))
    }

    /// One that nodes share: all bytes of a file.
    ///
    /// # Errors
    /// It cannot be read, or is too short.
    pub fn read(file: &Path) -> Result<TicketSecret, CertificateError> {
        let mut secret = Vec::new();
        let read = regular_file::open(file).and_then(|file| file.take(LONGEST).read_to_end(&mut secret));
        read.map_err(|error| CertificateError::new(file, error.to_string()))?;
        if secret.len() < SHORTEST {
            let what =
                "has fewer than 32 bytes; make it by `openssl rand -out FILE 48`, the same for all nodes";
            return Err(CertificateError::new(file, what));
        }
        if is_guessed(&secret) {
            let what =
                "is no secret, its bytes are alike or repeated; make it by `openssl rand -out FILE 48`";
            return Err(CertificateError::new(file, what));
        }
        Ok(TicketSecret(secret))
    }
}

/// Whether bytes are no random ones: few of them differ, or all are a shorter block again and again.
fn is_guessed(secret: &[u8]) -> bool {
    let mut differ = secret.to_vec();
    differ.sort_unstable();
    differ.dedup();
    let repeats = |block: usize| secret.chunks(block).all(|chunk| secret.starts_with(chunk));
    differ.len() < FEW || (1..=secret.len() / 2).any(repeats)
}

/// Makes tickets and opens them.
pub struct Tickets {
    secret: TicketSecret,
    /// A digest of the settings for client certificates.
    scope: Digest,
    /// Seconds since 1970.
    clock: fn() -> u64,
}

impl Tickets {
    /// With keys from this secret, and the wall clock. Tickets of another `scope` are not accepted.
    pub fn new(secret: TicketSecret, scope: Digest) -> Tickets {
        Tickets { secret, scope, clock: || UnixTime::now().as_secs() }
    }

    fn period(&self) -> u64 {
        (self.clock)() / PERIOD
    }

    fn key(&self, period: u64) -> Option<LessSafeKey> {
        let salt = Salt::new(HKDF_SHA256, b"strowger session tickets 2");
        let number = period.to_be_bytes();
        let info = [&number[..], self.scope.as_ref()];
        let derived =
            salt.extract(&self.secret.0).expand(&info, &AES_256_GCM_SIV).ok().map(UnboundKey::from)?;
        Some(LessSafeKey::new(derived))
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let period = self.period();
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = [plain, &proven::until().to_be_bytes()].concat();
        let aad = Aad::from(period.to_be_bytes());
        let nonce_of_it = Nonce::assume_unique_for_key(nonce);
        self.key(period)?.seal_in_place_append_tag(nonce_of_it, aad, &mut sealed).ok()?;
        Some([&period.to_be_bytes()[..], &nonce, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (head, sealed) = ticket.split_at_checked(HEAD)?;
        let (number, nonce) = head.split_at_checked(NUMBER)?;
        let period = u64::from_be_bytes(number.try_into().ok()?);
        // The next one: of a node whose clock is ahead.
        if !(self.period().saturating_sub(1)..=self.period() + 1).contains(&period) {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = sealed.to_vec();
        let aad = Aad::from(period.to_be_bytes());
        let plain = self.key(period)?.open_in_place(nonce, aad, &mut bytes).ok()?.len();
        bytes.truncate(plain);
        let until = u64::from_be_bytes(bytes.split_off(plain.checked_sub(UNTIL)?).try_into().ok()?);
        proven::counts_until(until);
        (until > (self.clock)()).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::digest::{SHA256, digest};

    fn at(secret: u8, clock: fn() -> u64) -> Tickets {
        Tickets { secret: TicketSecret(vec![secret; SHORTEST]), scope: digest(&SHA256, b"all"), clock }
    }

    #[test]
    fn what_a_certificate_proved_counts_no_longer_than_it() {
        let (_, ticket) = proven::within(1000, || at(1, || 100).encrypt(b"a session").unwrap());
        let (until, again) = proven::within(proven::UNBOUNDED, || {
            assert!(at(1, || 999).decrypt(&ticket).is_some());
            at(1, || 999).encrypt(b"a session").unwrap()
        });
        assert_eq!(until, 1000, "a resumed session knows it from its ticket");
        for ticket in [ticket, again] {
            let (_, opened) = proven::within(proven::UNBOUNDED, || at(1, || 1000).decrypt(&ticket));
            assert_eq!(opened, None);
        }
    }

    #[test]
    fn ticket_of_another_scope_is_refused() {
        let ticket = at(1, || 100).encrypt(b"a session").unwrap();
        let other = Tickets { scope: digest(&SHA256, b"others"), ..at(1, || 100) };
        assert_eq!(other.decrypt(&ticket), None);
    }

    #[test]
    fn nodes_with_one_secret_open_each_others_tickets() {
        let ticket = at(1, || 100).encrypt(b"a session").unwrap();
        assert_eq!(at(1, || 200).decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
        assert_eq!(at(2, || 200).decrypt(&ticket), None);
        assert_ne!(ticket, at(1, || 100).encrypt(b"a session").unwrap(), "two never look alike");
    }

    #[test]
    fn tickets_live_one_to_two_periods() {
        let ticket = at(1, || 10 * PERIOD).encrypt(b"a session").unwrap();
        for clock in [(|| 9 * PERIOD) as fn() -> u64, || 11 * PERIOD, || 12 * PERIOD - 1] {
            assert!(at(1, clock).decrypt(&ticket).is_some());
        }
        for clock in [(|| 8 * PERIOD) as fn() -> u64, || 12 * PERIOD] {
            assert!(at(1, clock).decrypt(&ticket).is_none());
        }
    }

    #[test]
    fn changed_or_cut_tickets_are_refused() {
        let tickets = at(1, || 100);
        let ticket = tickets.encrypt(b"a session").unwrap();
        for place in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[place] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "{place}");
            assert_eq!(tickets.decrypt(&ticket[..place]), None, "{place}");
        }
    }

    #[test]
    fn bytes_that_are_alike_or_repeated_are_guessed() {
        let key: Vec<u8> = (0..48).collect();
        for guessed in
            [vec![0; 48], b"abcabd".repeat(9), key.repeat(2), [&key[..], &key[..7]].concat().repeat(3)]
        {
            assert!(is_guessed(&guessed), "{guessed:?}");
        }
        let hexadecimal = b"00112233445566778899aabbccddeeff0123456789abcdef";
        for random in [&key[..], hexadecimal, &[&key[..], &key[..7]].concat()] {
            assert!(!is_guessed(random), "{random:?}");
        }
    }

    #[test]
    fn short_file_is_no_secret() {
        let file = std::env::temp_dir().join(format!("strowger-tickets-{}", std::process::id()));
        std::fs::write(&file, [7; 31]).unwrap();
        let text = TicketSecret::read(&file).err().unwrap().to_string();
        assert!(text.contains("fewer than 32 bytes"), "{text}");
        std::fs::write(&file, (0..32).collect::<Vec<u8>>()).unwrap();
        assert!(TicketSecret::read(&file).is_ok());
        std::fs::remove_file(&file).unwrap();
        assert!(TicketSecret::read(&file).is_err());
    }
}
