//! Tokens of the admin API: a name, rights, and the hash of the token. The token itself is stored nowhere.

use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use subtle::ConstantTimeEq;

/// The file of a data directory.
pub const TOKENS_FILE: &str = "api-tokens";
/// Tokens of one server.
pub const TOKENS_MAX: usize = 100;
/// Longest name of a token, bytes.
const NAME_MAX: usize = 64;
/// Largest file, bytes.
const FILE_MAX: u64 = 64 * 1_024;
/// Random bytes of a token.
const RANDOM: usize = 32;

/// What a token may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights(u8);

impl Rights {
    /// Read everything.
    pub const READ: Rights = Rights(1);
    /// Read and change users.
    pub const USERS: Rights = Rights(2);
    /// Reload, drain, and tell nodes of a balancer what is wanted.
    pub const OPERATE: Rights = Rights(4);
    /// All of them.
    pub const ALL: Rights = Rights(7);

    const NAMES: [(&'static str, Rights); 3] =
        [("read", Rights::READ), ("users", Rights::USERS), ("operate", Rights::OPERATE)];

    /// Of names with commas between.
    ///
    /// # Errors
    /// The name that is none.
    pub fn parse(text: &str) -> Result<Rights, String> {
        let mut rights = 0;
        for name in text.split(',').map(str::trim) {
            let known = Rights::NAMES.iter().find(|(known, _)| *known == name);
            rights |= known.ok_or_else(|| format!("\"{name}\" is no right; use read, users, operate"))?.1.0;
        }
        Ok(Rights(rights))
    }

    /// As [`Rights::parse`] reads it.
    pub fn names(self) -> String {
        let names: Vec<&str> =
            Rights::NAMES.iter().filter(|(_, right)| self.has(*right)).map(|(name, _)| *name).collect();
        names.join(",")
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// What its owner is called.
    pub name: String,
    /// What it may do.
    pub rights: Rights,
    hash: [u8; 32],
}

impl Token {
    /// A new one, and its text, which is not kept.
    ///
    /// # Errors
    /// The name is unusable, or the system gives no random bytes.
    pub fn make(name: &str, rights: Rights) -> io::Result<(Token, String)> {
        let usable = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@');
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(usable) {
            let why = "a name has 1 to 64 letters, digits, dots, hyphens, underscores or @";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut random = [0; RANDOM];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let text = format!("stw_{}", hex(&random));
        let hash = Sha256::digest(text.as_bytes()).into();
        Ok((Token { name: name.to_owned(), rights, hash }, text))
    }

    fn line(&self) -> String {
        format!("{} {} {}\n", self.name, self.rights.names(), hex(&self.hash))
    }

    fn parse(line: &str) -> Option<Token> {
        let mut parts = line.split_ascii_whitespace();
        let (name, rights, hash) = (parts.next()?, parts.next()?, parts.next()?);
        let rights = Rights::parse(rights).ok()?;
        Some(Token { name: name.to_owned(), rights, hash: unhex(hash)? }).filter(|_| parts.next().is_none())
    }
}

/// The tokens of a file; none if there is no file. Empty lines and those that begin with `#` are passed over.
///
/// # Errors
/// The file cannot be read, or a line is no token.
pub fn read_tokens(path: &Path) -> io::Result<Vec<Token>> {
    let mut text = String::new();
    match regular_file::open(path) {
        Ok(file) => file.take(FILE_MAX).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let token = |(at, line): (usize, &str)| {
        let wrong = format!("{}:{}: is no token; remove the line", path.display(), at + 1);
        Token::parse(line).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, wrong))
    };
    lines.map(token).collect()
}

/// Writes the tokens to a file that only its owner reads.
///
/// # Errors
/// There are more than [`TOKENS_MAX`], or the file cannot be written.
pub fn write_tokens(path: &Path, tokens: &[Token]) -> io::Result<()> {
    if tokens.len() > TOKENS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there are 100 tokens; remove one"));
    }
    let fresh = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    tokens.iter().try_for_each(|token| file.write_all(token.line().as_bytes()))?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

/// The tokens of a running server. The file is read again when it has changed.
#[derive(Debug)]
pub(super) struct Tokens {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// When the file was changed that was read, and its size.
    read: Option<(SystemTime, u64)>,
    tokens: Arc<[Token]>,
}

impl Tokens {
    /// Those of this file.
    pub(super) fn new(path: PathBuf) -> Tokens {
        Tokens { path, known: Mutex::default() }
    }

    /// What a token may do; `None`: it is not known.
    pub(super) fn rights_of(&self, given: &[u8]) -> Option<Rights> {
        let hash: [u8; 32] = Sha256::digest(given).into();
        // The hash of a guess tells nothing about the others by how long this takes.
        let all = self.all();
        all.iter().find(|token| token.hash.ct_eq(&hash).into()).map(|token| token.rights)
    }

    fn all(&self) -> Arc<[Token]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let about = fs::metadata(&self.path).ok();
        let state = about.and_then(|about| Some((about.modified().ok()?, about.len())));
        if known.read != state {
            // A file that cannot be read lets nobody in, and is read again for the next request.
            *known = match read_tokens(&self.path) {
                Ok(tokens) => Known { read: state, tokens: tokens.into() },
                Err(_) => Known { read: None, tokens: Arc::default() },
            };
        }
        Arc::clone(&known.tokens)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_only_their_hash_is_stored() {
        let path = std::env::temp_dir().join(format!("strowger-tokens-{}", std::process::id()));
        let (token, text) = Token::make("portal", Rights::USERS).unwrap();
        let (other, _) = Token::make("monitor", Rights::parse("read,operate").unwrap()).unwrap();
        write_tokens(&path, &[token.clone(), other.clone()]).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains(&text[4..]));
        assert_eq!(read_tokens(&path).unwrap(), [token.clone(), other]);
        let tokens = Tokens::new(path.clone());
        assert_eq!(tokens.rights_of(text.as_bytes()), Some(Rights::USERS));
        assert_eq!(tokens.rights_of(b"stw_"), None);
        // Another size, so that it shows whatever the clock does.
        write_tokens(&path, &[token]).unwrap();
        fs::write(&path, "").unwrap();
        assert_eq!(tokens.rights_of(text.as_bytes()), None);
        fs::write(&path, "nonsense\n").unwrap();
        assert!(read_tokens(&path).unwrap_err().to_string().contains(":1: is no token"));
        assert_eq!(tokens.rights_of(text.as_bytes()), None);
        fs::remove_file(&path).unwrap();
        assert_eq!(read_tokens(&path).unwrap(), []);
    }

    #[test]
    fn rights_and_names_are_checked() {
        assert_eq!(Rights::parse("operate, read").map(Rights::names), Ok("read,operate".into()));
        assert!(Rights::parse("write").is_err() && Rights::parse("").is_err());
        for name in ["", "a b", "a\n", &"x".repeat(65)] {
            assert!(Token::make(name, Rights::READ).is_err(), "{name}");
        }
        assert!(Rights::ALL.has(Rights::USERS) && !Rights::READ.has(Rights::USERS));
    }
}
