//! The keys of `[[trunk]]` for an account at a carrier: what proves this server there, and how it registers.

use super::error::{ConfigError, Fault};
use super::form::*;
use super::load::Loaded;
use super::reader::{Reader, Section, kind};
use super::trunk::Trunk;
use super::types::Target;
use super::values::{plain, shown, target, user_part};
use sip_node::{Account, Mode, RegistrationRules, Standings};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::de::DeValue;

/// Bytes of a password file that are read.
const PASSWORD_BYTES: u64 = 1_024;
/// The interval that may be asked for.
const EXPIRES: RangeInclusive<Duration> = Duration::from_secs(10)..=DAY;
/// How the table is written.
const EXAMPLE: &str = "write true, or { registrar = \"sip:carrier.example\", expires = 600 }";

/// How this server registers at a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Where; `None`: at the targets.
    pub registrar: Option<Target>,
    /// The user of the address-of-record; `None`: the account's.
    pub user: Option<String>,
    /// The user in the Contact; `None`: the same.
    pub contact: Option<String>,
    /// The interval that is asked for.
    pub expires: Duration,
    /// All numbers of the account at once (RFC 6140).
    pub bulk: bool,
}

impl Default for Registration {
    fn default() -> Registration {
        let expires = Duration::from_secs(600);
        Registration { registrar: None, user: None, contact: None, expires, bulk: false }
    }
}

/// `true`, `false` or a table.
pub(super) fn registration() -> One<Option<Registration>> {
    let parse = |value: &DeValue<'_>| match value {
        DeValue::Boolean(true) => Ok(Some(Registration::default())),
        DeValue::Boolean(false) => Ok(None),
        DeValue::Table(table) => {
            let mut read = Registration::default();
            for (name, value) in table.iter() {
                let value = value.get_ref();
                match name.get_ref().as_ref() {
                    "registrar" => read.registrar = Some(text("SIP URI", target).read(value)?),
                    "user" => read.user = Some(text("user", user_part).read(value)?),
                    "contact" => read.contact = Some(text("user", user_part).read(value)?),
                    "expires" => read.expires = length(EXPIRES).read(value)?,
                    "bulk" => read.bulk = flag().read(value)?,
                    other => {
                        let what = format!("unknown key \"{}\" of register", shown(other));
                        let mend = "the keys are registrar, user, contact, expires and bulk";
                        return Err(Fault::new(what, mend));
                    }
                }
            }
            Ok(Some(read))
        }
        other => Err(Fault::new(format!("expected true or a table, found {}", kind(other)), EXAMPLE)),
    };
    let values = "`true`, `false`, or `{ registrar = \"URI\", user = \"USER\", contact = \"USER\", expires = 600, \
                  bulk = false }`";
    One::new(values, parse, |read| read.as_ref().map_or_else(|| "false".to_owned(), written))
}

/// A registration as TOML.
fn written(registration: &Registration) -> String {
    let Registration { registrar, user, contact, expires, bulk } = registration;
    if *registration == Registration::default() {
        return "true".to_owned();
    }
    let mut parts = Vec::new();
    let texts = [("user", user), ("contact", contact)];
    parts.extend(registrar.iter().map(|uri| format!("registrar = {}", quoted(uri))));
    parts.extend(texts.iter().filter_map(|(key, text)| Some(format!("{key} = {}", quoted(text.as_ref()?)))));
    parts.push(format!("expires = {}", expires.as_secs()));
    if *bulk {
        parts.push("bulk = true".to_owned());
    }
    format!("{{ {} }}", parts.join(", "))
}

/// A name at a carrier.
pub(super) fn name() -> One<String> {
    text("text", plain)
}

/// Reports keys of an account that do not go together.
pub(super) fn check(trunk: &Trunk, section: &Section<'_, '_>, reader: &mut Reader<'_>) {
    let asks = [("register", trunk.register.is_some()), ("raise_cseq", trunk.raise_cseq)];
    let written = ["password_file", "realm"].map(|key| (key, section.has(key)));
    for (key, _) in written.into_iter().chain(asks).filter(|(_, asked)| *asked) {
        if trunk.user.is_none() && section.is_sound() {
            let fault =
                Fault::new(format!("`{key}` needs an account"), "add user = \"...\" and password_file");
            reader.error(&section.span_of(key), fault);
        }
    }
    if trunk.user.is_some() && trunk.password_file.is_none() && section.is_sound() {
        let mend = "add password_file = \"carrier.password\", a file with the password in its first line";
        reader.error(&section.span_of("user"), Fault::new("an account without a password", mend));
    }
    let place = reader.place(section.span_of("password_file").start);
    reader.places.insert(format!("trunk {} password_file", trunk.name), place);
}

/// Reports an account where no challenge can be answered.
pub(super) fn check_mode(
    reader: &mut Reader<'_>,
    top: &Section<'_, '_>,
    trunks: &[Trunk],
    proxy: &super::Proxy,
) {
    let account = trunks.iter().find(|trunk| trunk.user.is_some());
    if let Some(trunk) = account.filter(|_| proxy.mode == Mode::Stateless) {
        let message =
            format!("trunk \"{}\" has an account, and a stateless proxy answers no challenge", trunk.name);
        let fault = Fault::new(message, "write mode = \"stateful\" in [proxy]");
        reader.error(&top.span_of("trunk"), fault);
    }
}

/// The passwords for accounts at trunks, by the names of the trunks. They are read at the start and at each
/// reload.
#[derive(Clone, Default)]
pub struct Passwords {
    by_trunk: BTreeMap<String, Vec<u8>>,
    /// Files that other users can read.
    open: Vec<PathBuf>,
}

impl Passwords {
    /// Files that other users can read.
    pub fn open_files(&self) -> &[PathBuf] {
        &self.open
    }

    /// The account at a trunk. What `before` knows of its registration goes on.
    pub fn account(&self, trunk: &Trunk, before: &Standings) -> Option<Arc<Account>> {
        let (user, password) = (trunk.user.as_ref()?, self.by_trunk.get(&trunk.name)?);
        let standing = before.get(trunk.name.as_bytes()).cloned().unwrap_or_default();
        Some(Arc::new(Account {
            trunk: trunk.name.clone().into_bytes(),
            user: user.clone().into_bytes(),
            password: password.clone(),
            realm: trunk.realm.clone().map(String::into_bytes),
            raise_cseq: trunk.raise_cseq,
            rules: trunk.register.as_ref().map(|registration| registration.rules(user)),
            standing,
        }))
    }
}

impl Registration {
    /// What the core needs of it. `account`: the user name that proves this server.
    fn rules(&self, account: &str) -> RegistrationRules {
        let own = account.split_once('@').map_or(account, |(user, _)| user).to_owned();
        let user = self.user.clone().unwrap_or(own);
        let contact = self.contact.clone().unwrap_or_else(|| user.clone());
        RegistrationRules {
            registrar: self.registrar.as_ref().map(|target| target.uri.clone().into_bytes()),
            user: user.into_bytes(),
            contact: contact.into_bytes(),
            expires: u32::try_from(self.expires.as_secs()).unwrap_or(u32::MAX),
            bulk: self.bulk,
        }
    }
}

impl Loaded {
    /// Reads the passwords for accounts at trunks.
    ///
    /// # Errors
    /// A finding for each file that cannot be used.
    pub fn read_passwords(&self) -> Result<Passwords, Vec<ConfigError>> {
        let (mut read, mut findings) = (Passwords::default(), Vec::new());
        for trunk in &self.config.trunks {
            let Some(file) = &trunk.password_file else { continue };
            match read_password(file) {
                Ok((password, is_open)) => {
                    read.by_trunk.insert(trunk.name.clone(), password);
                    read.open.extend(is_open.then(|| file.clone()));
                }
                Err(error) => {
                    let what = format!("password_file cannot be used: {error}");
                    let mend = "make the file, with the password in its first line";
                    findings.push(self.at(&format!("trunk {} password_file", trunk.name), what, mend));
                }
            }
        }
        if findings.is_empty() { Ok(read) } else { Err(findings) }
    }
}

/// The first line of a file, and whether other users can read the file.
fn read_password(path: &Path) -> std::io::Result<(Vec<u8>, bool)> {
    let named = |e: Error| Error::new(e.kind(), format!("{}: {e}", path.display()));
    let file = regular_file::open(path).map_err(named)?;
    let is_open = file.metadata().is_ok_and(|meta| meta.mode() & 0o007 != 0);
    let mut bytes = Vec::new();
    file.take(PASSWORD_BYTES + 1).read_to_end(&mut bytes).map_err(named)?;
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let wrong = match line {
        [] => "there is no password in its first line",
        _ if line.len() as u64 >= PASSWORD_BYTES => "the password is too long",
        _ => return Ok((line.to_vec(), is_open)),
    };
    Err(Error::new(ErrorKind::InvalidData, format!("{}: {wrong}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    fn load(keys: &str) -> Result<Config, String> {
        let text =
            format!("[[trunk]]\nname = 'a'\ntargets = ['sip:carrier.example']\nprefixes = ['+']\n{keys}");
        let read = Config::parse("x.toml", &text, &Overrides::default(), &[]);
        let shown =
            |errors: Vec<ConfigError>| errors.iter().map(|error| format!("{error}\n")).collect::<String>();
        read.map(|loaded| loaded.config).map_err(shown)
    }

    const ACCOUNT: &str = "user = '4930555'\npassword_file = 'p'\n";

    #[test]
    fn registration_is_read_and_shown_as_it_was_written() {
        for (keys, effective) in [
            ("register = true", "register = true"),
            ("register = false", "register = false"),
            ("register = {}", "register = true"),
            (
                "register = { registrar = 'sip:r.example;transport=tcp', user = 'u', contact = 'c', expires = '2m', bulk = true }",
                "register = { registrar = \"sip:r.example;transport=tcp\", user = \"u\", contact = \"c\", expires = 120, bulk = true }",
            ),
        ] {
            let config = load(&format!("{ACCOUNT}{keys}")).expect("good");
            let rendered = config.render_effective();
            assert!(rendered.contains(&format!("\n{effective}\n")), "{keys}: {rendered}");
            assert!(rendered.contains("\nuser = \"4930555\"\npassword_file = \"p\"\n"), "{rendered}");
        }
    }

    #[test]
    fn keys_of_an_account_go_together() {
        for (keys, wanted) in [
            ("register = true", "5:12: `register` needs an account"),
            ("realm = 'r'", "`realm` needs an account"),
            ("password_file = 'p'", "`password_file` needs an account"),
            ("user = 'u'", "an account without a password"),
            ("user = 'u'\npassword = 'x'", "passwords do not stand in this file"),
            ("register = 7", "expected true or a table"),
            ("register = { x = 1 }", "unknown key \"x\" of register"),
            ("register = { expires = 5 }", "out of range"),
            ("register = { registrar = 'carrier.example' }", "is not a SIP URI"),
        ] {
            let found = load(keys).expect_err(keys);
            assert!(found.contains(wanted), "{keys}: {found}");
        }
        let stateless = format!("{ACCOUNT}\n[proxy]\nmode = 'stateless'\n");
        assert!(load(&stateless).expect_err("stateless").contains("answers no challenge"));
    }

    #[test]
    fn rules_follow_from_the_account() {
        let config =
            load("user = '4930555@carrier.example'\npassword_file = 'p'\nregister = true").expect("good");
        let rules = config.trunks[0].register.as_ref().unwrap().rules("4930555@carrier.example");
        assert_eq!(
            (&rules.user[..], &rules.contact[..], rules.expires),
            (&b"4930555"[..], &b"4930555"[..], 600)
        );
    }

    #[test]
    fn password_is_the_first_line_of_its_file() {
        let file = std::env::temp_dir().join(format!("strowger-password-{}", std::process::id()));
        for (text, wanted) in
            [("se cret", Some("se cret")), ("x\r\ny\n", Some("x")), ("", None), ("\nx", None)]
        {
            std::fs::write(&file, text).unwrap();
            let read = read_password(&file).ok().map(|(password, _)| password);
            assert_eq!(read.as_deref(), wanted.map(str::as_bytes), "{text:?}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(read_password(&file).is_err());
    }

    #[test]
    fn password_file_that_is_missing_is_reported_at_its_place() {
        let text = "[[trunk]]\nname = 'a'\ntargets = ['sip:192.0.2.1']\nprefixes = ['+']\nuser = 'u'\n\
                    password_file = '/none/p'\n";
        let loaded = Config::parse("x.toml", text, &Overrides::default(), &[]).unwrap();
        let Err(findings) = loaded.read_passwords() else { panic!("there is no such file") };
        assert_eq!((findings[0].line, findings.len()), (6, 1));
        assert!(findings[0].message.contains("/none/p"), "{}", findings[0].message);
    }
}
