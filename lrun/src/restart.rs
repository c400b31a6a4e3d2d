//! Options for restarts after evictions, and for the checkpoints from which a job goes on.

use limo_client::parse_signal;
use limo_model::{CheckpointEvery, Restart};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "When power is short")]
pub struct RestartArgs {
    /// Give the job up instead of restarting it more often after evictions [default: the limit of the policy]
    #[arg(long, value_name = "COUNT", requires = "requeue", hide = true)]
    pub max_restarts: Option<u32>,
    /// Let the job write checkpoints to LIMO_CHECKPOINT_DIR when it gets a signal, e.g. signal:USR2
    #[arg(long, value_name = "HOW", value_parser = way, requires = "requeue", hide = true)]
    pub checkpoint: Option<i32>,
    /// Running time between checkpoints, from 1s to 30d [default: auto]
    #[arg(long, value_name = "SPAN|auto", requires = "checkpoint", hide = true)]
    pub checkpoint_every: Option<CheckpointEvery>,
}

impl RestartArgs {
    /// Returns the wishes of the job.
    pub fn restart(&self) -> Restart {
        let every = self.checkpoint_every.unwrap_or(CheckpointEvery::Auto);
        Restart { most: self.max_restarts, checkpoint: self.checkpoint.map(|_| every), signal: self.checkpoint }
    }
}

/// Parses the way to make a checkpoint.
fn way(text: &str) -> Result<i32, String> {
    match text.split_once(':') {
        Some(("signal", name)) => parse_signal(name),
        _ => Err(format!("`{text}` is not signal:NAME, such as signal:USR2, which is the only way so far")),
    }
}

#[cfg(test)]
mod tests {
    use limo_model::Span;

    use super::*;

    #[test]
    fn a_checkpoint_is_made_by_a_signal() {
        assert_eq!(way("signal:USR2"), Ok(12));
        assert_eq!(way("signal:12"), Ok(12));
        assert_eq!(way("signal:sigusr1"), Ok(10));
        for other in ["criu", "command:./save", "USR2", ""] {
            let expected = format!("`{other}` is not signal:NAME, such as signal:USR2, which is the only way so far");
            assert_eq!(way(other), Err(expected));
        }
        assert!(way("signal:65").is_err_and(|error| error.contains("`65` is not a signal")));
    }

    #[test]
    fn the_time_between_checkpoints_is_chosen_unless_it_is_given() {
        let restart = |checkpoint, checkpoint_every| {
            RestartArgs { max_restarts: Some(3), checkpoint, checkpoint_every }.restart()
        };
        let minute = CheckpointEvery::Span(Span::from_secs(60));
        let (most, auto) = (Some(3), CheckpointEvery::Auto);
        assert_eq!(restart(None, None), Restart { most, checkpoint: None, signal: None });
        assert_eq!(restart(Some(12), None), Restart { most, checkpoint: Some(auto), signal: Some(12) });
        assert_eq!(restart(Some(12), Some(minute)), Restart { most, checkpoint: Some(minute), signal: Some(12) });
    }
}
