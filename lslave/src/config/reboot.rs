//! Settings of the restart of the machine: the section `[reboot]`, only in the file.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde::Deserialize;

const COMMAND: &str = "systemctl reboot";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The section.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RebootTable {
    command: Option<String>,
    boot_id: Option<PathBuf>,
}

/// Settings of the restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootSettings {
    /// Command that restarts the machine; `None` for emulated hardware, which shares its machine with other nodes.
    pub command: Option<String>,
    /// File with an id that changes with each start of the machine.
    pub boot_id: PathBuf,
}

impl RebootTable {
    /// Returns the settings of a node; `is_emulated` if its hardware is.
    ///
    /// # Errors
    /// If the command is empty.
    pub fn settings(self, is_emulated: bool) -> anyhow::Result<RebootSettings> {
        let command = self.command.or_else(|| Some(COMMAND.to_owned()).filter(|_| !is_emulated));
        let is_empty = command.as_ref().is_some_and(|command| command.trim().is_empty());
        ensure!(!is_empty, "[reboot] command is empty: write for example `command = \"{COMMAND}\"`");
        Ok(RebootSettings { command, boot_id: self.boot_id.unwrap_or_else(|| Path::new(BOOT_ID).to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, is_emulated: bool) -> Result<RebootSettings, String> {
        let table: RebootTable = toml::from_str(text).map_err(|error| error.to_string())?;
        table.settings(is_emulated).map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_real_machine_has_a_command_of_its_own() {
        let real = read("", false).expect("good");
        assert_eq!((real.command.as_deref(), real.boot_id.as_path()), (Some(COMMAND), Path::new(BOOT_ID)));
        assert_eq!(read("", true).expect("good").command, None);
        let given = read("command = \"shutdown -r now\"\nboot_id = \"/run/id\"", true).expect("good");
        assert_eq!(given.command.as_deref(), Some("shutdown -r now"));
        assert_eq!(given.boot_id, Path::new("/run/id"));
        assert!(read("command = \" \"", false).expect_err("refused").contains("[reboot] command is empty"));
        assert!(read("when = \"03:00\"", false).expect_err("refused").contains("unknown field `when`"));
    }
}
