//! The folder of a database, and the account that it runs as.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::leftovers::LARGE;
use crate::owner;

/// The accounts that a server may have, the first of which is there.
const ACCOUNTS: [&str; 2] = ["mysql", "nobody"];

/// The account of a database where this program is root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Account {
    /// An account without privileges.
    Named {
        /// Its number.
        uid: u32,
        /// That of its group.
        gid: u32,
    },
    /// Root of a user namespace that has no other account. Outside it is a user without privileges.
    RootOfNamespace,
}

impl Account {
    /// The account to use; nothing where this program has no privileges itself.
    ///
    /// # Errors
    /// If this program is root, and there is no account without privileges.
    pub fn to_use() -> Result<Option<Account>, String> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let text = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        chosen(&text("/etc/passwd")?, &text("/proc/self/uid_map")?).map(Some)
    }
}

/// The account of these files.
fn chosen(passwd: &str, map: &str) -> Result<Account, String> {
    let of = |name: &&str| {
        let line = passwd.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(':'))?;
        let mut fields = line.split(':').skip(1);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (uid != 0 && is_mapped(map, uid)).then_some(Account::Named { uid, gid })
    };
    if let Some(account) = ACCOUNTS.iter().find_map(of) {
        return Ok(account);
    }
    // In the first user namespace every number is mapped.
    if is_mapped(map, u32::MAX - 1) {
        return Err("root may not run a database here, and there is no account `mysql` or `nobody`: \
                    apt-get install mariadb-server"
            .to_owned());
    }
    Ok(Account::RootOfNamespace)
}

/// Whether a number is one of this user namespace: user_namespaces(7), "inside outside count".
fn is_mapped(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        match (numbers.next(), numbers.nth(1)) {
            (Some(Ok(first)), Some(Ok(count))) => {
                (first..first.saturating_add(count)).contains(&u64::from(uid))
            }
            _ => false,
        }
    })
}

/// A folder that goes when this is dropped. Others may pass through it, and read nothing.
#[derive(Debug)]
pub struct Home(PathBuf);

impl Home {
    /// Makes it, with folders that belong to the account.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make(account: Option<&Account>) -> Result<Home, String> {
        let path = Path::new(LARGE).join(owner::name("mariadb")?);
        make(&path, 0o711)?;
        let home = Home(path);
        for folder in [home.data(), home.files()] {
            make(&folder, 0o700)?;
            own(&folder, account)?;
        }
        Ok(home)
    }

    /// The data.
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// The one folder whose files statements may use. It is empty.
    pub fn files(&self) -> PathBuf {
        self.0.join("files")
    }

    /// The socket: only root and the account get into its folder.
    pub fn socket(&self) -> PathBuf {
        self.data().join("socket")
    }

    /// A file of its own.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file that only the account can read, or this program alone.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str, account: Option<&Account>) -> Result<(), String> {
        let path = self.file(name);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        own(&path, account)
    }
}

fn make(path: &Path, mode: u32) -> Result<(), String> {
    DirBuilder::new().mode(mode).create(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn own(path: &Path, account: Option<&Account>) -> Result<(), String> {
    let Some(Account::Named { uid, gid }) = account else { return Ok(()) };
    chown(path, Some(*uid), Some(*gid)).map_err(|error| format!("{}: {error}", path.display()))
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "         0          0 4294967295\n";

    #[test]
    fn account_without_privileges_is_chosen() {
        let passwd =
            "root:x:0:0:r:/:/bin/sh\nnobody:x:65534:65534::/:\nmysqld:x:7:7::/:\nmysql:x:105:109::/:\n";
        let named = |uid, gid| Ok(Account::Named { uid, gid });
        assert_eq!(chosen(passwd, ALL), named(105, 109));
        assert_eq!(chosen("nobody:x:65534:65534::/:\nmysql:x:0:0::/:\n", ALL), named(65_534, 65_534));
        assert!(chosen("root:x:0:0:r:/:/bin/sh\n", ALL).is_err_and(|why| why.contains("apt-get install")));
        // `unshare -Ur`: the one number of the namespace is that of root.
        assert_eq!(chosen(passwd, "         0       1000          1\n"), Ok(Account::RootOfNamespace));
    }

    #[test]
    fn home_is_closed_to_others_and_goes_with_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let account = Account::to_use().expect("known");
        let home = Home::make(account.as_ref()).expect("made");
        home.write("secret", "x", account.as_ref()).expect("written");
        let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(home.data()), mode(home.file("secret"))), (0o700, 0o600));
        let path = home.file("");
        assert!(path.as_os_str().len() < 90, "its socket has a short path: {}", path.display());
        drop(home);
        assert!(!path.exists());
    }
}
