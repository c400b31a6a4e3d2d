//! The directory of the workspace, and the cargo that runs this task.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Returns the root of the workspace: the directory above this crate.
pub fn root() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace has no root directory")
}

/// Returns the cargo that runs this task, to be run in the root of the workspace.
pub fn cargo(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Returns the cargo of the nightly toolchain, to be run in the root of the workspace.
///
/// # Errors
/// If rustup or the toolchain is missing.
pub fn nightly(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]);
    // These name the toolchain that runs this task.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(variable);
    }
    command.current_dir(root()?);
    let output = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output();
    let is_there = output.is_ok_and(|output| output.status.success());
    ensure!(is_there, "the nightly toolchain is missing: install it by `rustup toolchain install nightly`");
    command.args(arguments);
    Ok(command)
}

/// Returns true if cargo has this subcommand.
pub fn has_cargo(subcommand: &str) -> Result<bool> {
    let status = cargo(&[subcommand, "--version"])?.stdout(Stdio::null()).stderr(Stdio::null()).status();
    Ok(status.context("cannot run cargo")?.success())
}

/// Returns cargo's target directory.
///
/// # Errors
/// If cargo cannot be run or gives no answer.
pub fn target_dir() -> Result<PathBuf> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"])?.output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata says")?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(target.into())
}

/// Writes a file of the workspace.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &str, text: &str) -> Result<()> {
    std::fs::write(root()?.join(path), text).with_context(|| format!("cannot write {path}"))
}

/// Rewrites a file of the workspace.
///
/// # Errors
/// If it cannot be read or written, or has no place for the new text.
pub fn rewrite(path: &str, renewed: impl Fn(&str) -> Option<String>) -> Result<()> {
    let text = std::fs::read_to_string(root()?.join(path)).with_context(|| format!("cannot read {path}"))?;
    write(path, &renewed(&text).with_context(|| format!("{path} has no place for the table"))?)
}
