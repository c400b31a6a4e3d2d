//! Initial values of a new journal: the section `[initial]` of the settings. Later `lconf` changes them.

use anyhow::{Context, Result};
use clap::Args;
use limo_model::{Band, ModeSetting, Power, Preset, as_text};
use serde::Deserialize;

use crate::controller::Initial;

/// The section `[initial]`.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct InitialLayer {
    /// Policy of a new cluster: a name from `lconf set policy --help` [default: limo]
    #[arg(id = "initial_policy", long = "initial-policy", value_name = "NAME", env = "LIMO_INITIAL_POLICY")]
    policy: Option<Preset>,
    /// Lower power limit of a new cluster [default: none]
    #[arg(id = "initial_low", long = "initial-low", value_name = "POWER", env = "LIMO_INITIAL_LOW")]
    #[serde(with = "as_text::option")]
    low: Option<Power>,
    /// Upper power limit of a new cluster [default: none]
    #[arg(id = "initial_high", long = "initial-high", value_name = "POWER", env = "LIMO_INITIAL_HIGH")]
    #[serde(with = "as_text::option")]
    high: Option<Power>,
    /// Mode of a new cluster: high, low or auto [default: auto]
    #[arg(id = "initial_mode", long = "initial-mode", value_name = "MODE", env = "LIMO_INITIAL_MODE")]
    mode: Option<ModeSetting>,
}

impl InitialLayer {
    /// Takes values that this layer does not set from the layer below.
    pub(super) fn over(self, below: Self) -> Self {
        Self {
            policy: self.policy.or(below.policy),
            low: self.low.or(below.low),
            high: self.high.or(below.high),
            mode: self.mode.or(below.mode),
        }
    }

    pub(super) fn resolve(self) -> Result<Initial> {
        let low = self.low.unwrap_or(Power::ZERO);
        let band = Band::new(low, self.high.unwrap_or(Power::MAX)).context("the initial limits are not a band")?;
        Ok(Initial { preset: self.policy.unwrap_or(Preset::DEFAULT), band, mode: self.mode.unwrap_or_default() })
    }
}
