//! `squeue --steps`: lists the running steps of jobs.

use limo_client::{Clock, Failure, Session, answer_screen, exit};
use limo_model::{JobId, parse_step};
use limo_proto::{JobReport, JobState};

use super::{Wanted, columns, table};
use crate::format::{Part, line};
use crate::select::job_list;
use crate::submit::JobOptions;
use crate::view::View;

/// The usual format of steps.
pub const USUAL: &str = "%.15i %.8j %.9P %.8u %.9M %N";

/// Most numbers of steps in a command line.
const NAMED: usize = 10_000;

/// Prints the running steps of the wanted jobs.
///
/// # Errors
/// If an option is wrong, or the master cannot be asked.
pub async fn run(options: &JobOptions, wanted: &Wanted, session: &mut Session) -> Result<u8, Failure> {
    let named = named(options.get("steps").unwrap_or_default())?;
    let clock = Clock::system();
    let jobs = session.jobs(wanted.filter.clone(), 0).await?;
    let is_wanted = |job: &&JobReport| {
        let of_named = || named.iter().any(|(of, _)| *of == job.job);
        job.steps > 0 && wanted.is_named(job) && (named.is_empty() || of_named())
    };
    let mut text = String::new();
    let (parts, title) = table(options);
    if !options.has("noheader") {
        text += &line(&parts, |key| if is_number(&parts, key) { "STEPID".into() } else { columns::title(title, key) });
    }
    for job in jobs.iter().filter(is_wanted) {
        let mut steps = session.steps(job).await?;
        steps.retain(|step| {
            step.state == JobState::Running && (named.is_empty() || step.step.is_some_and(|own| named.contains(&own)))
        });
        for step in steps {
            let step = JobReport { queue: job.queue.clone(), ..step };
            let view = View { job: &step, clock: &clock };
            text += &line(
                &parts,
                |key| if is_number(&parts, key) { view.label() } else { columns::cell(title, key, &view) },
            );
        }
    }
    answer_screen(&text)?;
    Ok(exit::DONE)
}

/// Returns true for the key of the column with the number of a step.
fn is_number(parts: &[Part], key: &str) -> bool {
    let is_letter = parts.iter().all(|part| !matches!(part, Part::Field { key, .. } if key.len() > 1));
    if is_letter { key == "i" } else { key == "stepid" }
}

/// Reads a list of steps, such as `12.0,12.3`.
fn named(list: &str) -> Result<Vec<(JobId, u32)>, Failure> {
    let mut all = Vec::new();
    for text in job_list(list) {
        all.push(parse_step(text).ok_or_else(|| Failure::new(format_args!("Invalid job_step id: {text}")))?);
        if all.len() > NAMED {
            return Err(Failure::new(format_args!("--steps names more than {NAMED} steps")));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_by_their_jobs() {
        assert_eq!(named("12.0, 3.14").expect("steps"), [(JobId(12), 0), (JobId(3), 14)]);
        assert_eq!(named("").expect("none"), []);
        for wrong in ["12", "12.x", "a.0"] {
            assert_eq!(named(wrong).expect_err(wrong).message, format!("Invalid job_step id: {wrong}"));
        }
    }
}
