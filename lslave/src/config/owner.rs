//! Settings of the owner of the machine.

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use limo_model::Span;
use limo_node::duration;
use limo_owner::{OwnerChoice, Place};

/// Default time without a sign of input after which the owner is away.
const AWAY_AFTER: Span = Span::from_secs(60);

/// Shortest and longest such time.
const RANGE: (Span, Span) = (Span::from_ms(100), Span::from_secs(86_400));

#[derive(Debug, Clone, Default, Args)]
pub struct OwnerArguments {
    /// How to tell if the owner of the machine is there: auto, or some of logind, input, tty, load and command:COMMAND (the
    /// last one), separated by commas [default: the machine has no owner]
    #[arg(long, env = "LIMO_OWNER", value_name = "SOURCES")]
    pub owner: Option<OwnerChoice>,
    /// Time without input after which the owner is away, 100ms to 1d [default: 1min]
    #[arg(long, env = "LIMO_OWNER_AWAY_AFTER", value_name = "SPAN")]
    pub owner_away_after: Option<Span>,
}

/// Settings of a machine with an owner.
#[derive(Debug, Clone)]
pub struct OwnerSettings {
    pub sources: OwnerChoice,
    pub place: Place,
}

impl OwnerArguments {
    /// Fills in what the file says.
    pub fn over(self, owner: Option<OwnerChoice>, owner_away_after: Option<Span>) -> Self {
        Self { owner: self.owner.or(owner), owner_away_after: self.owner_away_after.or(owner_away_after) }
    }

    /// Returns the settings; `None` if the machine has no owner.
    ///
    /// # Errors
    /// If the time is out of range.
    pub fn settings(self, dev: PathBuf, sysfs: PathBuf) -> anyhow::Result<Option<OwnerSettings>> {
        let (least, most) = RANGE;
        let after = self.owner_away_after.unwrap_or(AWAY_AFTER);
        ensure!(
            least <= after && after <= most,
            "the owner is away after {after}: it must be {least} to {most}, for example `{AWAY_AFTER}`"
        );
        let place = Place { dev, sysfs, away_after: duration(after), ..Place::default() };
        Ok(self.owner.map(|sources| OwnerSettings { sources, place }))
    }
}
