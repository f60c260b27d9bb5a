//! Files of a machine, or of a tree that stands for one.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Error, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Times that an open is repeated while something renames folders of the tree (openat2(2), EAGAIN).
const TRIES: u32 = 16;

/// Where paths start: the root of this machine, or a tree. In a tree, links lead to places of the tree only,
/// so that an image from elsewhere cannot name a file of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    tree: Option<PathBuf>,
}

impl Root {
    /// The root of this machine, where a relative path starts in the current folder.
    pub(crate) const MACHINE: Root = Root { tree: None };

    /// This machine, if the folder is `/`, else the tree below it.
    pub(crate) fn at(folder: &Path) -> Root {
        Root { tree: (folder != Path::new("/")).then(|| folder.to_owned()) }
    }

    /// Whether it is the root of this machine.
    pub(crate) fn is_machine(&self) -> bool {
        self.tree.is_none()
    }

    /// Where a path is, for messages.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        match &self.tree {
            None => path.to_owned(),
            Some(tree) => tree.join(path.strip_prefix("/").unwrap_or(path)),
        }
    }

    /// Opens what is at a path.
    ///
    /// # Errors
    /// As openat(2). A tree needs Linux 5.6 (openat2).
    pub(crate) fn open(&self, path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
        let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode));
        let Some(tree) = &self.tree else {
            return Ok(rustix::fs::openat(CWD, path, flags, mode)?.into());
        };
        let root =
            rustix::fs::openat(CWD, tree, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let mut tries = TRIES;
        loop {
            match rustix::fs::openat2(&root, path, flags, mode, inside) {
                Ok(file) => return Ok(file.into()),
                Err(Errno::AGAIN) if tries > 0 => tries -= 1,
                Err(Errno::NOSYS) => {
                    let what = "links of a tree cannot be followed safely: openat2 needs Linux 5.6 or later";
                    return Err(Error::new(ErrorKind::Unsupported, what));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens the folder of a path, and the last name of the path.
    fn folder<'a>(&self, path: &'a Path) -> io::Result<(OwnedFd, &'a Path)> {
        let name = path.file_name().ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        let folder = self.open(parent(path), OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
        Ok((folder.into(), Path::new(name)))
    }

    /// What is at a path: links are followed.
    pub(crate) fn about(&self, path: &Path) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(self.open(path, OFlags::PATH, 0)?)?)
    }

    /// What is at a path itself, even if it is a link.
    pub(crate) fn about_itself(&self, path: &Path) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(self.open(path, OFlags::PATH | OFlags::NOFOLLOW, 0)?)?)
    }

    /// Whether there is a folder.
    pub(crate) fn has_folder(&self, path: &Path) -> bool {
        self.about(path).is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::Directory)
    }

    /// Whether this process may write what is at a path.
    pub(crate) fn may_write(&self, path: &Path) -> bool {
        use rustix::fs::Access;
        if self.is_machine() {
            return rustix::fs::access(path, Access::WRITE_OK).is_ok();
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, 0);
        match folder {
            Ok(folder) => rustix::fs::accessat(folder, ".", Access::WRITE_OK, AtFlags::empty()).is_ok(),
            Err(_) => self.folder(path).is_ok_and(|(folder, name)| {
                rustix::fs::accessat(folder, name, Access::WRITE_OK, flags).is_ok()
            }),
        }
    }

    /// The names in a folder that are text.
    pub(crate) fn names(&self, path: &Path) -> Vec<String> {
        let open = || {
            let folder = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY, 0).ok()?;
            rustix::fs::Dir::new(folder).ok()
        };
        let names = open().into_iter().flatten().flatten();
        names
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .collect()
    }

    /// Where a link leads.
    pub(crate) fn link(&self, path: &Path) -> io::Result<String> {
        let (folder, name) = self.folder(path)?;
        Ok(rustix::fs::readlinkat(folder, name, Vec::new())?.to_string_lossy().into_owned())
    }

    /// Makes or empties a file, and writes it to the disk. A link in its place is refused.
    pub(crate) fn write_new(&self, path: &Path, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mut file = self.open(path, flags, 0o666)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Gives a file another name in its folder, on the disk.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (folder, to) = self.folder(to)?;
        let from = from.file_name().ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        rustix::fs::renameat(&folder, from, &folder, to)?;
        Ok(rustix::fs::fsync(folder)?)
    }

    /// Makes what was written into a folder last.
    pub(crate) fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        self.open(parent(path), OFlags::RDONLY | OFlags::DIRECTORY, 0)?.sync_all()
    }

    /// Removes a file, on the disk.
    pub(crate) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        rustix::fs::unlinkat(&folder, name, AtFlags::empty())?;
        Ok(rustix::fs::fsync(folder)?)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Makes a folder whose parent exists.
    pub(crate) fn make_folder(&self, path: &Path, mode: u32) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        Ok(rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(mode))?)
    }
}

/// The folder of a path: the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => path,
    }
}
