//! Settings of the controller, and their application.

use limo_model::{
    Accounts, Band, Groups, Licences, ModeSetting, Overrides, PartRule, Preset, QosClasses, Queues, Span,
};
use limo_sched::{Options, Refused};

use super::liveness::Liveness;
use super::tx::Tx;
use super::{Controller, IdleSettings, ReadingsKept};
use crate::changed::CONFIGURATION;
use crate::hook::SubmitHook;
use crate::limits::Limits;
use crate::messenger::NotifySettings;
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
    /// Shortest time between records of readings alone; each record costs a transaction and a round.
    pub readings_every: Span,
    pub kept: ReadingsKept,
    /// Meters that serve several nodes. They change only with a restart.
    pub meters: Vec<Shared>,
    pub options: Options,
    pub queues: Queues,
    pub groups: Groups,
    pub licences: Licences,
    pub accounts: Accounts,
    pub qos: QosClasses,
    pub submit_hook: Option<SubmitHook>,
    /// The receiver of events of jobs, if there is one.
    pub notify: Option<NotifySettings>,
    pub limits: Limits,
    pub initial: Initial,
    pub idle: IdleSettings,
    /// True if feeds of prices are configured.
    pub has_feeds: bool,
    /// True if users do not see the commands of others.
    pub hides_commands: bool,
}

/// Settings when the journal begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initial {
    pub preset: Preset,
    pub band: Band,
    pub mode: ModeSetting,
}

impl Tx {
    /// Applies the configured options. The preset, and the parts that were chosen with it, are the operator's.
    pub(super) fn options_in_force(&mut self) {
        let settings = self.core.settings();
        let (preset, chosen) = (settings.preset, settings.options.chosen);
        let options = consistent(preset, Options { chosen, ..self.settings.options });
        if settings.options != options {
            let by = CONFIGURATION.to_owned();
            self.must(limo_sched::Event::PolicySet { preset, options, by });
        }
    }
}

impl Controller {
    /// Returns the options for a policy that an operator sets: the configured ones, with these parts.
    ///
    /// # Errors
    /// The reason if the parts do not go together.
    pub(super) fn options_with(&self, preset: Preset, parts: &[PartRule]) -> Result<Options, String> {
        let options = Options { chosen: Overrides::of(parts)?, ..self.tx.settings.options };
        let Some(why) = options.parts_of(preset).senseless() else { return Ok(options) };
        let refused = Refused::Senseless { why }.to_string();
        let configured = options.parts.rules();
        if configured.is_empty() {
            return Err(refused);
        }
        Err(format!("{refused} (the settings of lmaster have {})", in_words(&configured)))
    }

    pub(super) fn configured(&mut self, settings: Settings) {
        self.tx.settings = settings;
        self.tx.metering.configure(&self.tx.settings);
        if self.tx.commits.is_open() {
            self.tx.options_in_force();
            self.tx.queues_in_force();
            self.tx.groups_in_force();
            self.tx.licences_in_force();
            self.tx.accounts_in_force();
            self.owners_in_force();
            self.reboots_in_force();
            Liveness::lease_in_force(&mut self.tx);
        }
    }
}

/// Returns options that go together with a preset. Configured parts that do not are left out, with a warning: a master
/// must start, and an operator chose the preset.
pub(super) fn consistent(preset: Preset, options: Options) -> Options {
    let Some(why) = options.parts_of(preset).senseless() else { return options };
    let parts = in_words(&options.parts.rules());
    tracing::warn!(%preset, parts, why, "the configured parts do not go together with the policy: they are left out");
    // Idle nodes may sleep under each combination.
    let parts = Overrides { idle: options.parts.idle, ..Overrides::default() };
    let without = Options { parts, ..options };
    match without.parts_of(preset).senseless() {
        None => without,
        Some(_) => Options { chosen: Overrides::default(), ..without },
    }
}

fn in_words(parts: &[PartRule]) -> String {
    parts.iter().map(PartRule::to_string).collect::<Vec<_>>().join(" ")
}
