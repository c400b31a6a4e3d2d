//! A Slurm to compare with, started by an external script. The script gets its own folder as `BASE`, and prints the
//! path of its configuration as `export SLURM_CONF=...`. A `stop.sh` next to it stops the Slurm.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

pub struct Slurm {
    script: PathBuf,
    base: TempDir,
    config: String,
    /// Version, such as `slurm-wlm 22.05.8`.
    pub version: String,
}

impl Slurm {
    /// Starts a Slurm.
    ///
    /// # Errors
    /// If the script fails, or does not print the path of the configuration.
    pub fn start(script: &Path) -> Result<Self> {
        let base = super::site::place()?;
        let output = Command::new("bash")
            .arg(script)
            .env("BASE", base.path())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        ensure!(output.status.success(), "{} failed ({})", script.display(), output.status);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let config = said.lines().find_map(|line| line.strip_prefix("export SLURM_CONF="));
        let config = config.with_context(|| format!("{} did not print `export SLURM_CONF=...`", script.display()))?;
        let mut slurm =
            Self { script: script.to_owned(), base, config: config.trim().to_owned(), version: String::new() };
        let version = slurm.command("sinfo").arg("--version").output().context("cannot run sinfo")?;
        slurm.version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        Ok(slurm)
    }

    /// Returns a command that runs one of Slurm's programs.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", &self.config).current_dir(self.base.path());
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let stop = self.script.with_file_name("stop.sh");
        let mut command = Command::new("bash");
        command.arg(&stop).env("BASE", self.base.path()).stdin(Stdio::null()).stdout(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("bench: {} failed: parts of Slurm may still run", stop.display());
        }
    }
}
