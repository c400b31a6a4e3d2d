//! Programs that are shell scripts, with their state in files next to them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

pub struct Script {
    dir: TempDir,
}

impl Script {
    /// Makes a script. `body` finds its state in `$dir`; the file `asked` lists all calls.
    pub fn new(body: &str) -> Self {
        let script = Self { dir: tempfile::tempdir().expect("a directory") };
        let text = format!("#!/bin/sh\ndir=$(dirname \"$0\")\necho \"$@\" >> $dir/asked\n{body}\n");
        fs::write(script.program(), text).expect("written");
        fs::set_permissions(script.program(), fs::Permissions::from_mode(0o755)).expect("own file");
        script
    }

    pub fn program(&self) -> PathBuf {
        self.dir.path().join("program")
    }

    pub fn set(&self, file: &str, content: &str) {
        fs::write(self.dir.path().join(file), content).expect("written");
    }

    pub fn unset(&self, file: &str) {
        fs::remove_file(self.dir.path().join(file)).expect("removed");
    }

    pub fn has(&self, file: &str) -> bool {
        self.dir.path().join(file).exists()
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join(file)).expect("readable").trim().to_owned()
    }

    /// Returns the text of an error, with `PROGRAM` for the path.
    pub fn shown(&self, error: impl ToString) -> String {
        error.to_string().replace(&self.program().display().to_string(), "PROGRAM")
    }
}
