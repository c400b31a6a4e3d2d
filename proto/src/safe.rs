//! Places in the file system that no other user can change: state directories, and directories of sockets.
//!
//! A place is safe if every directory on the way to it belongs to a trusted user and cannot be written by others. A
//! sticky directory such as /tmp may be writable by all: there only the owner can replace an entry, and the entry's
//! owner is checked. Only trusted users can change a place after these checks, so the checks are not repeated. Access
//! lists are not read, because the group's bits show the most that they grant.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;
use thiserror::Error;

use crate::trust::{Trusted, described};

/// Most symbolic links followed on the way to one place; the kernel's own limit.
const LINK_LIMIT: u32 = 40;

/// Write permission for group or others.
const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Reason why a place cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum UnsafePlace {
    #[error(
        "{} belongs to {owner}, who could change what is stored there: it must belong to {expected}",
        path.display()
    )]
    Owner { path: PathBuf, owner: String, expected: String },
    #[error("{} can be written by other users (mode {mode:04o}): run `chmod go-w {}`", path.display(), path.display())]
    Writable { path: PathBuf, mode: u32 },
    #[error("{} is a symbolic link inside a state directory: replace it by its target", path.display())]
    Link { path: PathBuf },
    #[error("{} is not an executable file", path.display())]
    NotProgram { path: PathBuf },
    #[error("{} is not a directory", path.display())]
    NotDirectory { path: PathBuf },
    #[error("{} has more than {LINK_LIMIT} symbolic links on the way", path.display())]
    Links { path: PathBuf },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> UnsafePlace {
    let path = path.to_owned();
    move |source| UnsafePlace::Io { what, path, source }
}

/// Makes the directory and its missing parents with mode 0700 if needed, and checks that only the own user has
/// access. Checks the way to it, its mode and its contents: no symbolic link, and no file of another user than root.
///
/// # Errors
/// [`UnsafePlace`], which names the problem and its solution.
pub fn own_directory(path: &Path) -> Result<(), UnsafePlace> {
    let mode = make_directory(path, 0o700)?.mode();
    contents(path, &Trusted::own(), mode & 0o077 == 0)
}

/// Makes the directory and its missing parents with `mode` if needed, and checks that it belongs to the own user and
/// that no other user can write to it or replace it. Returns its metadata.
///
/// # Errors
/// [`UnsafePlace`].
pub fn make_directory(path: &Path, mode: u32) -> Result<Metadata, UnsafePlace> {
    let own = Trusted::own();
    let (found, missing) = walk(path, &own)?;
    if !missing.is_empty() {
        let path = found.join(missing.into_iter().collect::<PathBuf>());
        DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(failed("make", &path))?;
    }
    let (found, _) = walk(path, &own)?;
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits();
    let directory = OpenOptions::new().read(true).custom_flags(flags).open(&found).map_err(failed("open", path))?;
    let metadata = directory.metadata().map_err(failed("look at", path))?;
    let uid = nix::unistd::geteuid().as_raw();
    if metadata.uid() != uid {
        let (owner, expected) = (described(metadata.uid()), described(uid));
        return Err(UnsafePlace::Owner { path: path.to_owned(), owner, expected });
    }
    unwritable(path, &metadata)?;
    Ok(metadata)
}

/// Checks that the socket at `path` was put there by a trusted user: the way to it, and its directory. Does not check
/// the socket itself; the kernel reveals its listener once it is connected.
///
/// # Errors
/// [`UnsafePlace`]; `Io` with [`io::ErrorKind::NotFound`] if the directory does not exist.
pub(crate) fn safe_socket(path: &Path, trusted: &Trusted) -> Result<(), UnsafePlace> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let (found, missing) = walk(directory, trusted)?;
    if let Some(first) = missing.front() {
        return Err(failed("find", &found.join(first))(io::ErrorKind::NotFound.into()));
    }
    let metadata = fs::symlink_metadata(&found).map_err(failed("look at", &found))?;
    unwritable(&found, &metadata)
}

/// Checks that the program at `path` can be changed only by root and the own user: the file, its directory, and the way
/// to it. If it is a symbolic link, the same holds for its target.
///
/// # Errors
/// [`UnsafePlace`].
pub fn safe_program(path: &Path) -> Result<(), UnsafePlace> {
    let own = Trusted::own();
    let target = fs::canonicalize(path).map_err(failed("find", path))?;
    for place in [path, &target] {
        let (directory, _) = walk(place.parent().unwrap_or(Path::new("/")), &own)?;
        let metadata = fs::symlink_metadata(&directory).map_err(failed("look at", &directory))?;
        unwritable(&directory, &metadata)?;
    }
    let metadata = fs::symlink_metadata(&target).map_err(failed("look at", &target))?;
    if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
        return Err(UnsafePlace::NotProgram { path: target });
    }
    trustworthy(&target, &metadata, &own)?;
    unwritable(&target, &metadata)
}

fn unwritable(path: &Path, metadata: &Metadata) -> Result<(), UnsafePlace> {
    let mode = metadata.mode() & 0o7777;
    if mode & WRITABLE == 0 { Ok(()) } else { Err(UnsafePlace::Writable { path: path.to_owned(), mode }) }
}

fn trustworthy(path: &Path, metadata: &Metadata, trusted: &Trusted) -> Result<(), UnsafePlace> {
    if trusted.accepts(metadata.uid()) {
        return Ok(());
    }
    let (owner, expected) = (described(metadata.uid()), trusted.to_string());
    Err(UnsafePlace::Owner { path: path.to_owned(), owner, expected })
}

/// Goes from / to the directory `path` and checks each step. Returns the existing part without symbolic links, and the
/// missing components.
fn walk(path: &Path, trusted: &Trusted) -> Result<(PathBuf, VecDeque<OsString>), UnsafePlace> {
    let absolute = std::path::absolute(path).map_err(failed("find", path))?;
    let mut links = 0;
    let mut found = PathBuf::from("/");
    let mut left: VecDeque<OsString> = names(&absolute).collect();
    directory(&found, trusted, left.is_empty())?;
    while let Some(name) = left.pop_front() {
        if name == ".." {
            found.pop();
            continue;
        }
        let next = found.join(&name);
        let metadata = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                left.push_front(name);
                return Ok((found, left));
            }
            result => result.map_err(failed("look at", &next))?,
        };
        if !metadata.is_symlink() {
            directory(&next, trusted, left.is_empty())?;
            found = next;
            continue;
        }
        trustworthy(&next, &metadata, trusted)?;
        links += 1;
        if links > LINK_LIMIT {
            return Err(UnsafePlace::Links { path: path.to_owned() });
        }
        let target = fs::read_link(&next).map_err(failed("read", &next))?;
        if target.is_absolute() {
            found = PathBuf::from("/");
        }
        names(&target).rev().for_each(|name| left.push_front(name));
    }
    Ok((found, left))
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Checks one directory on the way. The caller checks the last one.
fn directory(path: &Path, trusted: &Trusted, is_last: bool) -> Result<(), UnsafePlace> {
    let metadata = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if !metadata.is_dir() {
        return Err(UnsafePlace::NotDirectory { path: path.to_owned() });
    }
    trustworthy(path, &metadata, trusted)?;
    if is_last || metadata.mode() & STICKY != 0 { Ok(()) } else { unwritable(path, &metadata) }
}

/// Checks everything below a directory that only the own user can write to, because files may be older than its mode.
/// The modes of files count only if other users can reach them.
fn contents(path: &Path, trusted: &Trusted, closed: bool) -> Result<(), UnsafePlace> {
    let mut left = vec![path.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).map_err(failed("read", &directory))? {
            let entry = entry.map_err(failed("read", &directory))?;
            let path = entry.path();
            let metadata = match entry.metadata() {
                // Another daemon that still uses the directory may have removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result.map_err(failed("look at", &path))?,
            };
            trustworthy(&path, &metadata, trusted)?;
            if metadata.is_symlink() {
                return Err(UnsafePlace::Link { path });
            }
            if !closed && (metadata.is_file() || metadata.is_dir()) {
                unwritable(&path, &metadata)?;
            }
            if metadata.is_dir() {
                left.push(path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
