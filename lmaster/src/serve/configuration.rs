//! The configuration of a running master, which it can read again.

use crate::config::{Cli, ProgramSettings};
use crate::controller::Input;
use crate::logging::Log;

/// The configuration in force, and the source to read it again.
pub(super) struct Configuration {
    pub cli: Cli,
    pub settings: ProgramSettings,
    pub log: Log,
}

impl Configuration {
    /// Reads the settings that may change while the master runs. An invalid file changes nothing.
    pub fn again(&self) -> Option<Input> {
        let mut settings = match self.cli.settings() {
            Ok(settings) => settings,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "the configuration stays unchanged");
                return None;
            }
        };
        if let Err(error) = self.log.set(&settings.log) {
            tracing::error!(error = format!("{error:#}"), "the log filter stays unchanged");
        }
        let fixed = |settings: &ProgramSettings| {
            let ProgramSettings {
                socket, listen, web, admin_group, connections, tls, state_dir, journal, grid, ..
            } = settings.clone();
            let (log_format, heartbeat) = (settings.log_format, settings.heartbeat);
            ((socket, listen, web), admin_group, connections, tls, (state_dir, journal), grid, log_format, heartbeat)
        };
        if fixed(&settings) != fixed(&self.settings) || settings.feeds != self.settings.feeds {
            tracing::warn!(
                "socket, listen, web, admin_group, [tls], [connections], state_dir, journal, log_format, heartbeat, [[grid]] and feeds change only with a \
                 restart"
            );
        }
        if settings.controller.meters != self.settings.controller.meters {
            tracing::warn!("meters change only with a restart");
        }
        tracing::info!("configuration read again");
        // Feeds change only with a restart.
        settings.controller.has_feeds = self.settings.controller.has_feeds;
        Some(Input::Configured(Box::new(settings.controller)))
    }
}
