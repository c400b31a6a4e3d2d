//! Ends of tasks: the worst one, and messages about those that failed.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use limo_model::Outcome;
use nix::libc;
use nix::sys::signal::Signal;

/// Ends of the tasks on this node.
#[derive(Debug, Default)]
pub struct Report {
    /// Numbers of failed tasks, by kind of failure.
    failed: BTreeMap<Failure, Vec<u32>>,
    worst: Option<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Failure {
    Code(u8),
    Signal(i32),
}

pub fn outcome_of(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => Outcome::Signaled(signal.unwrap_or(libc::SIGKILL)),
    }
}

impl Report {
    /// Adds the end of a task; returns true if the task failed.
    pub fn add(&mut self, task: u32, outcome: Outcome) -> bool {
        let failure = match outcome {
            Outcome::Signaled(signal) => Some(Failure::Signal(signal)),
            _ => Some(outcome.exit_code()).filter(|code| *code != 0).map(Failure::Code),
        };
        if let Some(failure) = failure {
            self.failed.entry(failure).or_default().push(task);
        }
        if self.worst.as_ref().is_none_or(|worst| worst.exit_code() < outcome.exit_code()) {
            self.worst = Some(outcome);
        }
        failure.is_some()
    }

    /// Returns the end with the highest exit code.
    pub fn worst(&self) -> Outcome {
        self.worst.clone().unwrap_or(Outcome::Exited(0))
    }

    /// Returns a line for each kind of failure.
    pub fn lines(&mut self, node: &str) -> String {
        let line = |(failure, tasks): (&Failure, &mut Vec<u32>)| {
            let how = match failure {
                Failure::Code(code) => format!("exit code {code}"),
                Failure::Signal(signal) => match Signal::try_from(*signal) {
                    Ok(signal) => format!("ended by {}", signal.as_str()),
                    Err(_) => format!("ended by signal {signal}"),
                },
            };
            format!("limo: {node}: {}: {how}\n", named(tasks))
        };
        self.failed.iter_mut().map(line).collect()
    }
}

/// Formats `task 3` or `tasks 0-2,7`.
fn named(tasks: &mut [u32]) -> String {
    tasks.sort_unstable();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &task in tasks.iter() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == task => *last = task,
            _ => runs.push((task, task)),
        }
    }
    let run = |(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    let many = if tasks.len() == 1 { "task" } else { "tasks" };
    format!("{many} {}", runs.iter().map(run).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_code_counts() {
        let mut report = Report::default();
        assert_eq!(report.worst(), Outcome::Exited(0));
        assert!(!report.add(0, Outcome::Exited(0)));
        assert!(report.add(5, Outcome::Exited(7)) && report.add(1, Outcome::Exited(7)));
        assert!(report.add(2, Outcome::Exited(7)) && report.add(3, Outcome::Exited(3)));
        assert_eq!(report.worst(), Outcome::Exited(7));
        assert!(report.add(4, Outcome::Signaled(15)));
        assert_eq!(report.worst(), Outcome::Signaled(15));
        let lines =
            "limo: n1: task 3: exit code 3\nlimo: n1: tasks 1-2,5: exit code 7\nlimo: n1: task 4: ended by SIGTERM\n";
        assert_eq!(report.lines("n1"), lines);
    }
}
