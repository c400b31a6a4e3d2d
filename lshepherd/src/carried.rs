//! The file that is sent with a job: a script, or the command itself. From the start of the job to its end, it is in a
//! directory that only the job's user may enter. It keeps its name, which the job sees.
//!
//! All of this runs in workers, as the job's user.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use limo_shepherd::Carried;

/// Writes the file.
///
/// # Errors
/// The reason; no part of the file remains then.
pub fn write(carried: &Carried) -> Result<(), String> {
    let directory = Path::new(OsStr::from_bytes(&carried.directory));
    let path = directory.join(OsStr::from_bytes(&carried.name));
    let made = DirBuilder::new().mode(0o700).create(directory);
    let written = made.and_then(|()| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        file.write_all(&carried.content)?;
        // The daemon's umask does not apply.
        file.set_permissions(fs::Permissions::from_mode(0o700))
    });
    written.map_err(|error| {
        if error.kind() != io::ErrorKind::AlreadyExists {
            // Remaining files do little harm in a directory for temporary files.
            let _ = fs::remove_dir_all(directory);
        }
        error.to_string()
    })
}

/// Removes the directory and everything in it.
///
/// # Errors
/// The reason; files that could not be removed stay.
pub fn remove(directory: &[u8]) -> Result<(), String> {
    let directory = Path::new(OsStr::from_bytes(directory));
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", directory.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = dir.path().join("limo-x");
        let bytes = directory.as_os_str().as_bytes();
        let carried = Carried { directory: bytes.to_vec(), name: b"job.sh".to_vec(), content: b"#!/bin/sh\n".to_vec() };
        write(&carried).expect("written");
        let path = directory.join("job.sh");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&directory)), (0o700, 0o700));
        assert!(write(&carried).is_err() && path.exists(), "an existing directory is not taken, and not removed");
        fs::write(directory.join("more"), "").expect("written");
        remove(bytes).expect("removed");
        assert!(!directory.exists());
        remove(bytes).expect("nothing to do");
    }
}
