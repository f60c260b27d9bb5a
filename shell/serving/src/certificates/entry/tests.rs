use super::*;
use std::path::PathBuf;

/// A folder with a certificate in it, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("strowger-certificates-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn files(&self) -> c::CertificateFiles {
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| self.0.join(name));
        c::CertificateFiles { chain, key, domains: Vec::new() }
    }

    fn write(&self, (chain, key): &(String, String)) {
        std::fs::write(self.files().chain, chain).unwrap();
        std::fs::write(self.files().key, key).unwrap();
    }

    /// An entry that has read these files.
    fn entry(&self, pair: &(String, String)) -> Entry {
        self.write(pair);
        let mut entry = Entry::new(self.files());
        entry.read_first(NOW).unwrap();
        entry
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Long before the files are written: none of them is young.
const NOW: i64 = 1_000_000_000;

/// A chain and its key, which expires this number of days after [`NOW`].
fn pair(name: &str, days: i64) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_after =
        (std::time::UNIX_EPOCH + std::time::Duration::from_secs((NOW + days * DAY) as u64)).into();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn name(entry: &Entry) -> String {
    entry.facts().unwrap().names.to_string()
}

#[test]
fn files_that_change_are_read_and_others_are_not() {
    let folder = Folder::new("change");
    let mut entry = folder.entry(&pair("one.example", 90));
    assert!(!entry.look(NOW, false));
    folder.write(&pair("two.example", 90));
    assert!(entry.look(NOW, false));
    assert_eq!(name(&entry), "two.example");
    assert!(!entry.look(NOW, false), "once");
}

#[test]
fn half_written_pair_keeps_the_old_one_until_it_is_whole() {
    let folder = Folder::new("half");
    let mut entry = folder.entry(&pair("one.example", 90));
    let (chain, key) = pair("two.example", 90);
    std::fs::write(folder.files().chain, chain).unwrap();
    assert!(!entry.look(NOW, false));
    assert!(entry.alarm(NOW).is_none(), "what lasts a moment is not reported");
    assert_eq!(name(&entry), "one.example");
    std::fs::write(folder.files().key, key).unwrap();
    assert!(entry.look(NOW, false) && entry.fault.is_none());
    assert_eq!(name(&entry), "two.example");
}

#[test]
fn fault_that_lasts_is_told_once_a_change() {
    let folder = Folder::new("fault");
    let mut entry = folder.entry(&pair("one.example", 90));
    let told = |entry: &Entry| entry.fault.as_ref().map(|fault| fault.told);
    std::fs::write(folder.files().key, pair("two.example", 90).1).unwrap();
    entry.look(NOW, false);
    assert_eq!(told(&entry), Some(false));
    entry.look(NOW, false);
    assert_eq!(told(&entry), Some(true));
    let text = entry.alarm(NOW).unwrap();
    assert!(text.contains("key.pem: is not the key of the certificate in"), "{text}");
    assert_eq!(name(&entry), "one.example");
    std::fs::remove_file(folder.files().key).unwrap();
    entry.look(NOW, false);
    assert_eq!(told(&entry), Some(false), "another fault");
    entry.look(NOW, true);
    assert_eq!(told(&entry), Some(true));
}

#[test]
fn fault_is_told_at_once_where_an_operator_asks() {
    let folder = Folder::new("asked");
    let mut entry = folder.entry(&pair("one.example", 90));
    std::fs::write(folder.files().chain, "no certificate").unwrap();
    entry.look(NOW, true);
    assert!(entry.alarm(NOW).unwrap().contains("chain.pem"));
}

#[test]
fn links_that_lead_elsewhere_are_a_change() {
    // As Kubernetes mounts secrets: the files are links through `..data`, which is exchanged as a whole.
    let folder = Folder::new("links");
    for (version, name) in [("v1", "one.example"), ("v2", "two.example")] {
        let (chain, key) = pair(name, 90);
        std::fs::create_dir(folder.0.join(version)).unwrap();
        std::fs::write(folder.0.join(version).join("chain.pem"), chain).unwrap();
        std::fs::write(folder.0.join(version).join("key.pem"), key).unwrap();
    }
    let link = |to: &str| {
        std::os::unix::fs::symlink(to, folder.0.join("..new")).unwrap();
        std::fs::rename(folder.0.join("..new"), folder.0.join("..data")).unwrap();
    };
    link("v1");
    for file in ["chain.pem", "key.pem"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), folder.0.join(file)).unwrap();
    }
    let mut entry = Entry::new(folder.files());
    entry.read_first(NOW).unwrap();
    assert!(!entry.look(NOW, false));
    link("v2");
    assert!(entry.look(NOW, false));
    assert_eq!(name(&entry), "two.example");
}

#[test]
fn expiry_is_told_from_thirty_days_on_once_a_day() {
    let folder = Folder::new("expiry");
    let mut entry = folder.entry(&pair("one.example", 31));
    assert_eq!((entry.warned, entry.alarm(NOW)), (None, None));
    let soon = NOW + 2 * DAY;
    entry.look(soon, false);
    assert_eq!(entry.warned, Some(soon));
    assert!(entry.alarm(soon).unwrap().contains("expires in 29 days"));
    entry.look(soon + DAY - 1, false);
    assert_eq!(entry.warned, Some(soon));
    entry.look(soon + DAY, false);
    assert_eq!(entry.warned, Some(soon + DAY));
    assert!(entry.alarm(NOW + 33 * DAY).unwrap().contains("expired 2 days ago"));
    let status = entry.status(soon);
    assert_eq!((status.days_left, status.key_kind.as_deref()), (Some(29), Some("ECDSA P-256")));
    assert_eq!(status.not_after.as_deref(), Some("Wed, 10 Oct 2001 01:46:40 GMT"));
}
