//! Last message and exit code of `lrun`.

use std::path::Path;

use limo_client::{Clock, Failure, end_in_words, exit, signal_name};
use limo_model::{JobEnd, Outcome, StopReason};
use limo_proto::JobReport;
use nix::libc::SIGPIPE;

use crate::args::HowArgs;
use crate::session::Leave;

/// Exit code, and the message before it without its line break.
pub struct Farewell {
    pub code: u8,
    pub words: Option<String>,
    /// Command to type instead.
    pub hint: Option<String>,
}

impl Farewell {
    /// Returns the lines, without the program's name and line breaks.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.words.clone().into_iter().chain(self.hint.iter().map(|hint| format!("hint: {hint}")))
    }
}

/// Makes the last message. An exit code of the job is passed on silently unless `-v` is given; other ends are reported
/// unless `-Q` is given. A command that could not be started is always reported.
pub fn farewell(leave: Leave, how: &HowArgs) -> Result<Farewell, Failure> {
    match leave {
        Leave::Failed(failure) => Err(failure),
        Leave::Interrupted { signal, job } => {
            let left = job.map_or("a job that may have been accepted".into(), |job| format!("job {job} as it is"));
            let words = (!how.quiet).then(|| format!("{}: leaving {left}", signal_name(signal)));
            Ok(Farewell { code: exit::of_signal(signal), words, hint: None })
        }
        Leave::Over { report, interrupt, output_lost } => Ok(over(&report, interrupt, output_lost, how)),
    }
}

fn over(report: &JobReport, interrupt: Option<i32>, output_lost: bool, how: &HowArgs) -> Farewell {
    let Some(end) = &report.end else {
        let words = Some(format!("error: job {}: the master did not say how it ended", report.job));
        return Farewell { code: exit::FAILED, words, hint: None };
    };
    let cancelled =
        matches!(end, JobEnd::Cancelled { .. } | JobEnd::Ran { stopped: Some(StopReason::Cancelled { .. }), .. });
    let code = match interrupt {
        Some(signal) if cancelled => exit::of_signal(signal),
        _ => exit::of_end(end),
    };
    // With lost output, exit code 0 would be wrong.
    let code = if output_lost && code == exit::DONE { exit::FAILED } else { code };
    let said = match end {
        JobEnd::Ran { outcome: Outcome::Exited(_), stopped: None } => how.verbose,
        JobEnd::Ran { outcome: Outcome::Signaled(SIGPIPE), stopped: None } => how.verbose,
        JobEnd::Ran { outcome: Outcome::NotStarted { .. }, .. } => true,
        _ => !how.quiet,
    };
    let hint = match end {
        JobEnd::Ran { outcome: Outcome::NotStarted { code: exit::NOT_FOUND, .. }, .. } => missing(&report.command),
        _ => None,
    };
    Farewell { code, words: said.then(|| words(report, end)), hint }
}

fn words(report: &JobReport, end: &JobEnd) -> String {
    let is_error = matches!(
        end,
        JobEnd::Refused { .. }
            | JobEnd::Ran {
                outcome: Outcome::NotStarted { .. } | Outcome::Lost { .. } | Outcome::NodeFailed { .. },
                ..
            }
    );
    let error = if is_error { "error: " } else { "" };
    let nodes = if report.nodes.is_empty() { String::new() } else { format!("{}: ", report.nodes.join(",")) };
    format!("{error}job {}: {nodes}{}", report.job, end_in_words(end, &Clock::system()))
}

/// Suggests an alternative to a command that was not found.
fn missing(command: &str) -> Option<String> {
    let name = command.split_ascii_whitespace().next()?;
    if name == "help" {
        return Some("`lrun --help` shows the options".into());
    }
    let is_here = !name.contains('/') && Path::new(name).is_file();
    is_here.then(|| {
        format!("`{name}` is in this directory: write `./{name}`, or `--script {name}` to send it with the job")
    })
}
