//! Files that are none to be read: they are refused at once, with little memory.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use tls::settings::roots_in;
use tls::{Certificate, TicketSecret};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("strowger-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A chain and its key, as PEM.
fn pair() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["one.example".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn fifo_is_refused_wherever_a_file_is_named() {
    let folder = Folder::new("fifo");
    let [fifo, chain, key] = ["fifo", "chain.pem", "key.pem"].map(|name| folder.0.join(name));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (chain_text, key_text) = pair();
    std::fs::write(&chain, chain_text).unwrap();
    std::fs::write(&key, key_text).unwrap();
    Certificate::read(&chain, &key).unwrap();
    let errors = [
        Certificate::read(&fifo, &key).unwrap_err(),
        Certificate::read(&chain, &fifo).unwrap_err(),
        roots_in(&fifo).unwrap_err(),
        TicketSecret::read(&fifo).err().unwrap(),
    ];
    for error in errors {
        let error = error.to_string();
        assert!(error.starts_with(&format!("{}: is a FIFO", fifo.display())), "{error}");
    }
}

#[test]
fn large_file_is_refused_unread() {
    let folder = Folder::new("large");
    let large = folder.0.join("large");
    // Larger than any memory; the disk has nothing of it.
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    let errors = [Certificate::read(&large, &large).unwrap_err(), roots_in(&large).unwrap_err()];
    for (error, limit) in errors.iter().zip([1 << 20, 8 << 20]) {
        let wanted = format!("{}: is larger than {limit} bytes; is it the right file?", large.display());
        assert_eq!(error.to_string(), wanted);
    }
}

#[test]
fn roots_may_be_more_than_a_chain_has() {
    let folder = Folder::new("many");
    let file = folder.0.join("roots.pem");
    let all: String = (0..40).map(|_| pair().0).collect();
    std::fs::write(&file, all).unwrap();
    assert_eq!(roots_in(&file).unwrap().len(), 40);
}
