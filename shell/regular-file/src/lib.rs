//! Opens files that an operator names.
//!
//! Opening a FIFO or a device could block, and a large file would fill the memory. So files are opened
//! without blocking, only regular files are accepted, and a size limit applies.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file, or a link to one, without blocking. Child processes do not inherit the descriptor.
///
/// # Errors
/// It cannot be opened, or is not a regular file. The error does not name the file; the caller must add it.
pub fn open(path: &Path) -> Result<File> {
    // The standard library adds O_CLOEXEC.
    only_regular(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?)
}

/// Opens a regular file, or a link to one, to append to it. A new one is for its owner alone.
///
/// # Errors
/// As for [`open`].
pub fn append(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NONBLOCK);
    only_regular(options.open(path).map_err(|error| match error.raw_os_error() {
        // A FIFO without a reader, or a socket (open(2)).
        Some(libc::ENXIO) => Error::new(ErrorKind::InvalidInput, "is not a regular file; name one"),
        _ => error,
    })?)
}

fn only_regular(file: File) -> Result<File> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    if kind.is_dir() {
        return Err(Error::from_raw_os_error(libc::EISDIR));
    }
    let kind = match kind {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    let what = format!("is {kind}, not a regular file; write its content to a file and name that");
    Err(Error::new(ErrorKind::InvalidInput, what))
}

/// The content of a regular file that has at most `limit` bytes.
///
/// # Errors
/// As for [`open`]; it cannot be read, or has more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    read_whole(open(path)?, limit)
}

/// The content of a regular file that the caller opened without blocking.
///
/// # Errors
/// It is not a regular file, cannot be read, or has more than `limit` bytes.
pub fn read_opened(file: File, limit: u64) -> Result<Vec<u8>> {
    read_whole(only_regular(file)?, limit)
}

fn read_whole(file: File, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let what = format!("is larger than {limit} bytes; is it the right file?");
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::Command;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("strowger-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn file_is_read_up_to_its_limit() {
        let folder = Folder::new("limit");
        let (file, link) = (folder.0.join("file"), folder.0.join("link"));
        std::fs::write(&file, b"12345").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link, 5).unwrap(), b"12345");
        let error = read(&file, 4).unwrap_err();
        assert_eq!(error.to_string(), "is larger than 4 bytes; is it the right file?");
        // A sparse file larger than any memory.
        File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read(&file, 1 << 20).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let folder = Folder::new("kind");
        let fifo = folder.0.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        // It has no writer, so a blocking open would never return.
        let error = open(&fifo).unwrap_err();
        assert!(error.to_string().starts_with("is a FIFO, not a regular file"), "{error}");
        assert!(open(Path::new("/dev/zero")).unwrap_err().to_string().starts_with("is a device"));
        assert_eq!(open(&folder.0).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(open(&folder.0.join("missing")).unwrap_err().kind(), ErrorKind::NotFound);
        for other in [&fifo, Path::new("/dev/null")] {
            let error = append(other).unwrap_err();
            assert!(error.to_string().contains("not a regular file"), "{error}");
        }
    }

    #[test]
    fn appended_file_is_made_for_its_owner_alone() {
        let folder = Folder::new("append");
        let file = folder.0.join("log");
        for line in [b"a\n", b"b\n"] {
            append(&file).unwrap().write_all(line).unwrap();
        }
        assert_eq!(read(&file, 10).unwrap(), b"a\nb\n");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
    }
}
