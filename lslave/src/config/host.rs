//! The default name of a node.

use anyhow::Context;

/// Returns the name of this machine up to its first dot.
///
/// # Errors
/// If the machine has none.
pub fn host_name() -> anyhow::Result<String> {
    let name = nix::unistd::gethostname().context("cannot read the host name: add `--name NAME`")?;
    let name = name.to_string_lossy();
    Ok(name.split('.').next().unwrap_or_default().to_owned())
}
