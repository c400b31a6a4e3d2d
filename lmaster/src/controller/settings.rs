//! Settings of the controller, and their application.

use limo_model::{Band, ModeSetting, Preset, Span};
use limo_sched::Options;

use super::liveness::Liveness;
use super::tx::Tx;
use super::{Controller, IdleSettings, ReadingsKept};
use crate::changed::CONFIGURATION;
use crate::limits::Limits;
use crate::meters::Shared;

/// Settings of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub ack_timeout: Span,
    pub kill_grace: Span,
    pub orphan_grace: Span,
    /// Time for which a node may be unreachable before its jobs end. Positive.
    pub node_lease: Span,
    pub snapshot_every: u32,
    /// Shortest time between records of readings alone: each record costs a transaction and a round.
    pub readings_every: Span,
    pub kept: ReadingsKept,
    /// Meters that serve several nodes. They change only with a restart.
    pub meters: Vec<Shared>,
    pub options: Options,
    pub limits: Limits,
    pub initial: Initial,
    pub idle: IdleSettings,
    /// True if feeds of prices are configured.
    pub has_feeds: bool,
}

/// Settings when the journal begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initial {
    pub preset: Preset,
    pub band: Band,
    pub mode: ModeSetting,
}

impl Tx {
    /// Applies the configured options; the policy is the one last chosen.
    pub(super) fn options_in_force(&mut self) {
        let (preset, options) = (self.core.settings().preset, self.settings.options);
        if self.core.settings().options != options {
            let by = CONFIGURATION.to_owned();
            self.must(limo_sched::Event::PolicySet { preset, options, by });
        }
    }
}

impl Controller {
    pub(super) fn configured(&mut self, settings: Settings) {
        self.tx.settings = settings;
        self.tx.metering.configure(&self.tx.settings);
        if self.tx.commits.is_open() {
            self.tx.options_in_force();
            Liveness::lease_in_force(&mut self.tx);
        }
    }
}
