//! `lq attach`: replaces itself by an `lrun` that takes over a job or a step.

use std::os::unix::process::CommandExt;
use std::str::FromStr;

use limo_client::{Failure, Master, Patience, SelectorError, Selectors, lrun};
use limo_model::{JobId, parse_step};

/// The job whose streams are taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attached {
    /// A job.
    Job(Selectors),
    /// A step, by the number of its job and its own.
    Step(JobId, u32),
}

impl FromStr for Attached {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse_step(text).map_or_else(|| text.parse().map(Self::Job), |(job, step)| Ok(Self::Step(job, step)))
    }
}

/// Runs `lrun`; returns only after a failure.
///
/// # Errors
/// If the selection is not one job or an existing step, or `lrun` cannot be found.
pub async fn run(which: &Attached, take: bool, master: &Master, patience: Patience) -> Result<u8, Failure> {
    let job = match which {
        Attached::Step(job, number) => master.session().await?.step(*job, *number).await?.job,
        Attached::Job(selectors) => match master.select(&selectors.0, true).await?[..] {
            [job] => job,
            ref jobs => {
                return Err(Failure::new(format_args!("can attach only to one job, not to {}", jobs.len())));
            }
        },
    };
    let mut command = lrun(master);
    command.arg("--attach").arg(job.to_string()).args(take.then_some("--take"));
    command.arg("--reconnect-timeout").arg(format!("{}ms", patience.0.as_millis()));
    let error = command.exec();
    Err(Failure::new(format_args!("cannot run {}: {error}", command.get_program().display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_or_a_step_is_named() {
        assert_eq!("12.3".parse::<Attached>(), Ok(Attached::Step(JobId(12), 3)));
        assert_eq!("12".parse::<Attached>(), "12".parse().map(Attached::Job));
        assert!("12.x".parse::<Attached>().is_err());
    }
}
