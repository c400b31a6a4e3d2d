//! Options for restarts after evictions, and for the checkpoints from which a job goes on.

use limo_client::parse_signal;
use limo_model::{CheckpointBy, CheckpointEvery, Restart};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "When power is short")]
pub struct RestartArgs {
    /// Give the job up instead of restarting it more often after evictions [default: the limit of the policy]
    #[arg(long, value_name = "COUNT", requires = "requeue", hide = true)]
    pub max_restarts: Option<u32>,
    /// Make checkpoints in LIMO_CHECKPOINT_DIR: by the job itself at a signal, e.g. signal:USR2, or by command:COMMAND
    #[arg(long, value_name = "HOW", value_parser = way, requires = "requeue", hide = true)]
    pub checkpoint: Option<CheckpointBy>,
    /// Running time between checkpoints, from 1s to 30d [default: auto]
    #[arg(long, value_name = "SPAN|auto", requires = "checkpoint", hide = true)]
    pub checkpoint_every: Option<CheckpointEvery>,
}

impl RestartArgs {
    /// Returns the wishes of the job.
    pub fn restart(&self) -> Restart {
        let every = self.checkpoint_every.unwrap_or(CheckpointEvery::Auto);
        let (signal, command) = match self.checkpoint.clone() {
            Some(CheckpointBy::Signal(signal)) => (Some(signal), None),
            Some(CheckpointBy::Command(command)) => (None, Some(command)),
            None => (None, None),
        };
        let checkpoint = self.checkpoint.as_ref().map(|_| every);
        Restart { most: self.max_restarts, checkpoint, signal, command }
    }
}

/// Parses the way to make a checkpoint.
fn way(text: &str) -> Result<CheckpointBy, String> {
    match text.split_once(':') {
        Some(("signal", name)) => parse_signal(name).map(CheckpointBy::Signal),
        Some(("command", "")) => Err("`command:` names no command".into()),
        Some(("command", command)) => Ok(CheckpointBy::Command(command.to_owned())),
        None if text == "criu" => Err("CRIU is not built in: call it by command:COMMAND, as in docs/lrun.md".into()),
        _ => Err(format!("`{text}` is neither signal:NAME, such as signal:USR2, nor command:COMMAND")),
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Span;

    use super::*;

    #[test]
    fn a_checkpoint_is_made_by_a_signal_or_a_command() {
        for (text, number) in [("signal:USR2", 12), ("signal:12", 12), ("signal:sigusr1", 10)] {
            assert_eq!(way(text), Ok(CheckpointBy::Signal(number)));
        }
        assert_eq!(way("command:cp a:b c"), Ok(CheckpointBy::Command("cp a:b c".into())));
        for other in ["criu:1", "USR2", ""] {
            let expected = format!("`{other}` is neither signal:NAME, such as signal:USR2, nor command:COMMAND");
            assert_eq!(way(other), Err(expected));
        }
        assert!(way("command:").is_err() && way("criu").is_err_and(|error| error.contains("command:COMMAND")));
        assert!(way("signal:65").is_err_and(|error| error.contains("`65` is not a signal")));
    }

    #[test]
    fn the_time_between_checkpoints_is_chosen_unless_it_is_given() {
        let restart = |checkpoint, checkpoint_every| {
            RestartArgs { max_restarts: Some(3), checkpoint, checkpoint_every }.restart()
        };
        let minute = CheckpointEvery::Span(Span::from_secs(60));
        let auto = CheckpointEvery::Auto;
        let (most, none) = (Some(3), Restart::default());
        assert_eq!(restart(None, None), Restart { most, ..none.clone() });
        let (signal, command) = (CheckpointBy::Signal(12), CheckpointBy::Command("save".into()));
        let by_signal = Restart { most, checkpoint: Some(auto), signal: Some(12), ..none.clone() };
        assert_eq!(restart(Some(signal), None), by_signal);
        let by_command = Restart { most, checkpoint: Some(minute), command: Some("save".into()), ..none };
        assert_eq!(restart(Some(command), Some(minute)), by_command);
    }
}
