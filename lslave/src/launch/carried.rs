//! The file that travels with a job: a script, or the command itself. It lies in a directory that only the job's user may
//! enter, from the start of the job to its end, and keeps its name, which the job sees.
//!
//! The directory is in the system's one for temporary files (`TMPDIR` of the daemon), because the daemon's own state is
//! closed to users. It is found again by the job's cookie, a name that nobody can guess and take before.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown, fchown};
use std::path::{Path, PathBuf};

fn directory(cookie: &str) -> PathBuf {
    std::env::temp_dir().join(format!("limo-{cookie}"))
}

/// Writes the file and gives it to `owner`, a user and a group, where that is somebody else than the daemon.
///
/// # Errors
/// Where it cannot be made; nothing is left of it then.
pub fn write(cookie: &str, name: &[u8], content: &[u8], owner: Option<(u32, u32)>) -> io::Result<PathBuf> {
    let directory = directory(cookie);
    // A name with a directory in it would lead out of this one.
    let name = Path::new(OsStr::from_bytes(name)).file_name().unwrap_or(OsStr::new("command"));
    let path = directory.join(name);
    DirBuilder::new().mode(0o700).create(&directory)?;
    let (user, group) = owner.unzip();
    let written = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path).and_then(|mut file| {
        file.write_all(content)?;
        fchown(&file, user, group)
    });
    // The directory last: until then nobody else can put anything into it.
    match written.and_then(|()| chown(&directory, user, group)) {
        Ok(()) => Ok(path),
        Err(error) => {
            remove(cookie);
            Err(error)
        }
    }
}

/// Removes the file of a job, where it has one, and whatever else its user has put beside it.
pub fn remove(cookie: &str) {
    let directory = directory(cookie);
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "the file that came with a job stays");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_private_and_goes() {
        let cookie = crate::spool::random_name().expect("randomness");
        let path = write(&cookie, b"../a/job.sh", b"#!/bin/sh\n", None).expect("written");
        assert_eq!(path.file_name(), Some(OsStr::new("job.sh")));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().expect("a directory"))), (0o700, 0o700));
        assert!(write(&cookie, b"job.sh", b"", None).is_err(), "what is there is nobody's to take");
        remove(&cookie);
        assert!(!path.exists() && !directory(&cookie).exists());
        remove(&cookie);
    }
}
