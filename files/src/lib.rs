//! Atomic replacement of files, names that survive a crash, and changes of files. Independent of the contents of files.

#![warn(missing_docs)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Events that a replaced file must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlasts {
    /// The end of the process, for any reason. Costs no write to the disk.
    Process,
    /// A crash of the machine: the content and the name are on the disk.
    Crash,
}

/// Replaces or creates the file at `path` with the content from `write`. `mode` is that of the file, minus the umask. A
/// process that opens `path` meanwhile gets the old file or the new one.
///
/// The new file grows as `PATH.tmp`, which is removed after a failure. A leftover of a killed process is replaced next
/// time. Two processes must not replace one file at the same time.
///
/// # Errors
/// If the file cannot be created, written or renamed, or `write` fails: `path` is then unchanged. Also if the disk
/// does not confirm the new name; then `path` is already the new file.
pub fn replace(
    path: &Path,
    mode: u32,
    outlasts: Outlasts,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let unfinished = path.with_added_extension("tmp");
    // A leftover file may have another mode.
    let _ = fs::remove_file(&unfinished);
    let file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&unfinished);
    let written = file.and_then(|mut file| {
        write(&mut file)?;
        if outlasts == Outlasts::Crash { file.sync_all() } else { Ok(()) }
    });
    written.and_then(|()| fs::rename(&unfinished, path)).inspect_err(|_| {
        // The first error is reported.
        let _ = fs::remove_file(&unfinished);
    })?;
    if outlasts == Outlasts::Crash { sync_name(path) } else { Ok(()) }
}

/// Makes the names in a directory durable across a crash of the machine. An empty path is the current directory.
///
/// # Errors
/// If the directory cannot be opened, or the disk does not confirm.
pub fn sync_directory(dir: &Path) -> io::Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir)?.sync_all()
}

/// Does the same for the directory of `path`.
///
/// # Errors
/// The same as for [`sync_directory`].
pub fn sync_name(path: &Path) -> io::Result<()> {
    sync_directory(path.parent().unwrap_or(path))
}

/// Identity of a file and of its content and mode: another one after each change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    bytes: u64,
    /// Time of the last change of content or mode, in seconds and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    /// Looks at the file at `path`. Two changes within the kernel's clock tick (some ms) that keep the length are one.
    ///
    /// # Errors
    /// If the file does not exist, or its directory cannot be searched.
    pub fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { inode: found.ino(), bytes: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    fn names(dir: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("it").path()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_when_it_is_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.b");
        fs::write(&path, "old").expect("written");
        fs::write(dir.path().join("a.b.tmp"), "left by somebody who was killed").expect("written");
        let write = |file: &mut File| {
            file.write_all(b"ne")?;
            assert_eq!(fs::read(&path)?, b"old");
            file.write_all(b"w")
        };
        replace(&path, 0o600, Outlasts::Crash, write).expect("replaced");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), [path]);
    }

    #[test]
    fn a_failure_leaves_the_file_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a");
        fs::write(&path, "old").expect("written");
        let write = |file: &mut File| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        };
        let error = replace(&path, 0o666, Outlasts::Process, write).expect_err("it fails");
        assert_eq!(error.to_string(), "no more");
        assert_eq!(fs::read(&path).expect("there"), b"old");
        assert_eq!(names(dir.path()), std::slice::from_ref(&path));
        // A directory cannot be replaced by a file.
        let error = replace(dir.path(), 0o666, Outlasts::Process, |_| Ok(())).expect_err("it fails");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(!dir.path().with_added_extension("tmp").exists());
    }

    #[test]
    fn a_name_without_a_directory_is_in_the_current_one() {
        sync_name(Path::new("a")).expect("the current directory");
        assert_eq!(sync_name(Path::new("missing/a")).expect_err("missing").kind(), io::ErrorKind::NotFound);
    }
}
