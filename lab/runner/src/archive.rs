//! The archive of a run: one file that holds everything needed to judge the run and to repeat it. Its name
//! ends in a hash of its contents, so that a copy can be checked.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// How the name of an archive ends.
pub const EXTENSION: &str = "run.tgz";
/// How the name of an archive ends that is being written.
pub const PARTIAL: &str = "run.partial";
/// Digits of the hash in the name of an archive.
const DIGITS: usize = 12;
/// The list of the other files with their hashes.
const MANIFEST: &str = "manifest";
/// A run's files are smaller than this, all together: more is no archive of ours.
const BYTES_MAX: u64 = 1 << 30;
const FILES_MAX: usize = 1_000;

/// The files of a run, by their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Archive {
    files: BTreeMap<String, Vec<u8>>,
}

/// Why an archive cannot be read.
#[derive(Debug)]
pub enum ArchiveError {
    /// The file cannot be read or unpacked.
    Io(PathBuf, io::Error),
    /// It is larger than archives are.
    TooLarge(PathBuf),
    /// A file in it is not as its manifest says.
    Damaged(PathBuf, String),
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveError::Io(path, error) => {
                write!(f, "{}: {error}; name an archive of `lab run`", path.display())
            }
            ArchiveError::TooLarge(path) => {
                write!(
                    f,
                    "{}: more than {FILES_MAX} files or 1 GiB; name an archive of `lab run`",
                    path.display()
                )
            }
            ArchiveError::Damaged(path, what) => {
                write!(f, "{}: {what}; copy the archive anew", path.display())
            }
        }
    }
}

impl std::error::Error for ArchiveError {}

impl Archive {
    /// Adds a file, in place of one of this name.
    pub fn put(&mut self, name: &str, contents: impl Into<Vec<u8>>) {
        self.files.insert(name.to_owned(), contents.into());
    }

    /// A file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// A file as text; empty if there is none. Bytes that are no UTF-8 are replaced.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8_lossy(self.file(name).unwrap_or_default()).into_owned()
    }

    /// SHA-256 of the manifest: the names of all files and the SHA-256 of each.
    pub fn hash(&self) -> String {
        hex(&Sha256::digest(self.manifest()))
    }

    fn manifest(&self) -> String {
        self.files.iter().map(|(name, bytes)| format!("{} {name}\n", hex(&Sha256::digest(bytes)))).collect()
    }

    /// Writes it into a folder as `STEM-HASH.run.tgz`, complete or not at all; where it is.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, folder: &Path, stem: &str) -> io::Result<PathBuf> {
        let name = format!("{stem}-{}", self.digits());
        let (path, partial) =
            (folder.join(format!("{name}.{EXTENSION}")), folder.join(format!("{name}.{PARTIAL}")));
        let written = self.write_into(&partial).and_then(|()| fs::rename(&partial, &path));
        if let Err(error) = written {
            // What is not whole is of no use, and may be what filled the disk.
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
        Ok(path)
    }

    /// The beginning of its hash, as it stands in its name.
    fn digits(&self) -> String {
        self.hash().chars().take(DIGITS).collect()
    }

    fn write_into(&self, path: &Path) -> io::Result<()> {
        let mut tar = tar::Builder::new(GzEncoder::new(File::create(path)?, Compression::default()));
        let manifest = self.manifest();
        let all = std::iter::once((MANIFEST, manifest.as_bytes()));
        for (name, bytes) in
            all.chain(self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())))
        {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append_data(&mut header, name, bytes)?;
        }
        let mut file = tar.into_inner()?.finish()?;
        file.flush()?;
        file.sync_all()
    }

    /// Reads an archive and checks each file.
    ///
    /// # Errors
    /// If the file is no archive, is too large, or is damaged.
    pub fn read(path: &Path) -> Result<Archive, ArchiveError> {
        let failed = |error| ArchiveError::Io(path.to_owned(), error);
        let file = regular_file::open(path).map_err(failed)?;
        let mut tar = tar::Archive::new(GzDecoder::new(file).take(BYTES_MAX + 1));
        let mut files = BTreeMap::new();
        let mut bytes = 0_u64;
        for entry in tar.entries().map_err(failed)? {
            let mut entry = entry.map_err(failed)?;
            let name = entry.path().map_err(failed)?.to_string_lossy().into_owned();
            bytes = bytes.saturating_add(entry.size());
            if bytes > BYTES_MAX || files.len() >= FILES_MAX {
                return Err(ArchiveError::TooLarge(path.to_owned()));
            }
            let mut contents = Vec::new();
            entry.read_to_end(&mut contents).map_err(failed)?;
            files.insert(name, contents);
        }
        let damaged = |what: String| ArchiveError::Damaged(path.to_owned(), what);
        let manifest = files.remove(MANIFEST).ok_or_else(|| damaged("it has no manifest".to_owned()))?;
        let archive = Archive { files };
        if archive.manifest().as_bytes() != manifest {
            return Err(damaged("its files are not those of its manifest".to_owned()));
        }
        // A file under another name has no hash in it.
        if digits_of(path).is_some_and(|digits| digits != archive.digits()) {
            return Err(damaged("its contents have another hash than its name".to_owned()));
        }
        Ok(archive)
    }
}

/// The digits of a hash in the name of an archive, if it has some.
fn digits_of(path: &Path) -> Option<&str> {
    let stem = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let (_, digits) = stem.rsplit_once('-')?;
    let is_hash = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(digits)
}

/// SHA-256 of a file, as hexadecimal digits.
///
/// # Errors
/// If it cannot be read.
pub fn hash_of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            length => hash.update(&buffer[..length]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Archive {
        let mut archive = Archive::default();
        archive.put("experiment.toml", "question = \"\"\n");
        archive.put("logs/system.log", vec![0xff; 100_000]);
        archive
    }

    #[test]
    fn archive_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = sample().write(folder.path(), "1-a").expect("written");
        assert_eq!(Archive::read(&path).expect("read"), sample());
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
        // The same contents have the same name.
        assert_eq!(sample().write(folder.path(), "1-a").expect("written"), path);
    }

    #[test]
    fn changed_archive_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut other = sample();
        let manifest = other.manifest();
        other.put("experiment.toml", "question = \"other\"\n");
        let path = folder.path().join("x");
        let mut tar =
            tar::Builder::new(GzEncoder::new(File::create(&path).expect("made"), Compression::default()));
        for (name, bytes) in [
            ("experiment.toml", other.file("experiment.toml").expect("there")),
            (MANIFEST, manifest.as_bytes()),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_cksum();
            tar.append_data(&mut header, name, bytes).expect("added");
        }
        tar.into_inner().expect("whole").finish().expect("whole");
        assert!(matches!(Archive::read(&path), Err(ArchiveError::Damaged(..))));
    }

    #[test]
    fn archive_under_the_name_of_another_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = sample().write(folder.path(), "1-a").expect("written");
        let mut other = sample();
        other.put("experiment.toml", "question = \"other\"\n");
        let others = other.write(folder.path(), "1-a").expect("written");
        fs::rename(&others, &path).expect("renamed");
        let error = Archive::read(&path).expect_err("its name has another hash");
        assert!(error.to_string().contains("another hash than its name"), "{error}");
        // A name without a hash is no contradiction.
        let renamed = folder.path().join("one.run.tgz");
        fs::rename(&path, &renamed).expect("renamed");
        assert_eq!(Archive::read(&renamed).expect("read"), other);
    }

    #[test]
    fn archive_that_cannot_be_written_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        // A folder is in the place of the archive.
        let name = format!("1-a-{}.{EXTENSION}", sample().digits());
        fs::create_dir_all(folder.path().join(&name).join("full")).expect("made");
        assert!(sample().write(folder.path(), "1-a").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1);
    }

    #[test]
    fn what_is_no_archive_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        for bytes in [&b""[..], b"text", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]] {
            fs::write(&path, bytes).expect("written");
            assert!(Archive::read(&path).is_err());
        }
        assert!(Archive::read(folder.path()).is_err());
        assert!(Archive::read(&folder.path().join("none")).is_err());
    }
}
