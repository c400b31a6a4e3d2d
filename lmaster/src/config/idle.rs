//! Settings for putting nodes to sleep and waking them: the section `[idle]`. The policy decides which nodes sleep and
//! when: `rest` in `[policy]`.

use anyhow::{Result, ensure};
use limo_model::{Span, as_text};
use serde::Deserialize;

use super::positive;
use crate::controller::IdleSettings;

/// Most attempts to wake a node. With more, an operator would not notice that a node does not wake.
const MOST_TRIES: u32 = 100;

/// Default port for magic packets: that of the discard service.
const WOL_PORT: u16 = 9;

/// The section `[idle]`; only in the file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct IdleTable {
    #[serde(with = "as_text::option")]
    sleep_timeout: Option<Span>,
    #[serde(with = "as_text::option")]
    sleep_again_after: Option<Span>,
    #[serde(with = "as_text::option")]
    wake_timeout: Option<Span>,
    wake_tries: Option<u32>,
    wake_command: Option<String>,
    wol_port: Option<u16>,
}

impl IdleTable {
    pub(super) fn resolve(self) -> Result<IdleSettings> {
        let minutes = |count| Span::from_secs(60).scaled(count, 1);
        let wake_tries = self.wake_tries.unwrap_or(3);
        ensure!(
            (1..=MOST_TRIES).contains(&wake_tries),
            "idle.wake_tries is {wake_tries}: it must be 1 to {MOST_TRIES}"
        );
        let wol_port = self.wol_port.unwrap_or(WOL_PORT);
        ensure!(wol_port > 0, "idle.wol_port is 0: it must be 1 to 65535, most machines listen to {WOL_PORT}");
        if let Some(command) = &self.wake_command {
            ensure!(
                !command.trim().is_empty(),
                "idle.wake_command is empty: it is run with the name of a node, for example `/etc/limo/wake-node`"
            );
        }
        Ok(IdleSettings {
            sleep_timeout: positive("idle.sleep_timeout", self.sleep_timeout, minutes(1))?,
            sleep_again_after: positive("idle.sleep_again_after", self.sleep_again_after, minutes(10))?,
            wake_timeout: positive("idle.wake_timeout", self.wake_timeout, minutes(5))?,
            wake_tries,
            wake_command: self.wake_command,
            wol_port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<IdleSettings, String> {
        let table: IdleTable = toml::from_str(text).map_err(|error| error.to_string())?;
        table.resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_need_be_said() {
        let found = read("").expect("good");
        assert_eq!((found.wake_timeout, found.wake_tries), (Span::from_secs(300), 3));
        assert_eq!((found.wake_command, found.wol_port), (None, 9));
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let refused = |text: &str, expected: &str| {
            let error = read(text).expect_err("refused");
            assert!(error.contains(expected), "`{expected}` is not in: {error}");
        };
        refused("wake_tries = 0", "idle.wake_tries is 0: it must be 1 to 100");
        refused("wol_port = 0", "idle.wol_port is 0: it must be 1 to 65535");
        refused("wol_port = 70000", "70000");
        refused("wake_command = \" \"", "idle.wake_command is empty");
        refused("sleep_timeout = \"0s\"", "idle.sleep_timeout is zero");
        refused("wake_timeout = \"-1s\"", "idle.wake_timeout is -1s");
        refused("sleep_again_after = \"0s\"", "idle.sleep_again_after is zero");
        refused("wake = \"wol\"", "unknown field `wake`");
    }
}
