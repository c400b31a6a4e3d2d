//! Simulations on a Limo cluster: each is a job that `lrun` submits, with one row as its output. The sweep's file, the
//! files that it names and this program must be on a file system that all nodes share.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::configuration::Configuration;
use super::file::absolute;
use super::results::Row;

/// Programs and arguments for the jobs.
#[derive(Debug)]
pub struct LimoCluster {
    lrun: PathBuf,
    lsim: PathBuf,
    master: String,
    file: PathBuf,
}

impl LimoCluster {
    /// Finds the programs.
    ///
    /// # Errors
    /// If `lrun` is missing.
    pub fn new(master: &str, file: &Path) -> Result<Self> {
        let lsim = std::env::current_exe().context("cannot find the path of this program")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(lsim.parent().map(Path::to_owned));
        let Some(lrun) = places.map(|folder| folder.join("lrun")).find(|lrun| lrun.is_file()) else {
            bail!("--on {master}: there is no lrun in PATH or beside lsim: install it, or omit --on");
        };
        Ok(Self { lrun, lsim, master: master.to_owned(), file: absolute(file) })
    }

    /// Runs one configuration as a job and waits for it.
    ///
    /// # Errors
    /// If the job gave no row, because it was refused, cancelled or lost, or a node has other files.
    pub fn run(&self, configuration: &Configuration) -> Result<Row, String> {
        let key = &configuration.key;
        let mut command = Command::new(&self.lrun);
        command.args(["--quiet", "--master", &self.master, "--job-name", &format!("sweep-{key}"), "--"]);
        command.arg(&self.lsim).arg("sweep").arg(&self.file).args(["--only", key]).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("{}: {error}", self.lrun.display()))?;
        let stdout = String::from_utf8_lossy(&output.stdout);
        match stdout.lines().last().and_then(Row::read).filter(|row| row.key == *key) {
            Some(row) => Ok(Row { labels: configuration.labels.clone(), ..row }),
            None => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                Err(format!("lrun: {}: {}", output.status, stderr.lines().last().unwrap_or("no reason given")))
            }
        }
    }
}
