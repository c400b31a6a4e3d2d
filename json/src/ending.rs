//! Describes the ends of jobs in words.

use limo_model::{JobEnd, Outcome};
use nix::sys::signal::Signal;

use crate::clock::Clock;

/// Describes the end of a job, such as `exited with code 7`.
pub fn end_in_words(end: &JobEnd, clock: &Clock) -> String {
    match end {
        JobEnd::Ran { outcome: Outcome::NodeFailed { reason }, .. } => reason.clone(),
        JobEnd::Ran { stopped: Some(reason), .. } => reason.to_string(),
        JobEnd::Ran { outcome: Outcome::ExitedAtLimit(_) | Outcome::SignaledAtLimit(_), .. } => {
            "time limit reached".to_owned()
        }
        JobEnd::Ran { outcome: Outcome::Exited(code), .. } => format!("exited with code {code}"),
        JobEnd::Ran { outcome: Outcome::Signaled(signal), .. } => format!("ended by {}", signal_name(*signal)),
        JobEnd::Ran { outcome: Outcome::EndedWithJob { .. }, .. } => "cancelled because its job had ended".to_owned(),
        JobEnd::Ran { outcome: Outcome::ExceededMemory { limit, .. }, .. } => {
            format!("ended by the kernel: exceeded its memory of {limit}")
        }
        JobEnd::Ran { outcome: Outcome::NotStarted { reason, .. } | Outcome::NotPrepared { reason }, .. } => {
            format!("could not be started: {reason}")
        }
        JobEnd::Ran { outcome: Outcome::Lost { reason }, .. } => format!("lost: {reason}"),
        JobEnd::Cancelled { by } => format!("cancelled by {by} before it started"),
        JobEnd::Unmet { dependency, became } => {
            format!("cancelled before it started: {dependency} cannot be met because job {} {became}", dependency.job)
        }
        JobEnd::Refused { wait } => {
            format!("refused because it could not start at once: {}", wait.shown(|time| clock.show(time)))
        }
    }
}

/// Returns `SIGTERM` for 15, and the number of a signal without a name.
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}

/// Parses a signal: `TERM`, `SIGTERM` or `15`.
///
/// # Errors
/// Text that names the value and the accepted forms.
pub fn parse_signal(text: &str) -> Result<i32, String> {
    let name = text.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    let number = text.parse::<i32>().ok().filter(|number| (1..=LAST_SIGNAL).contains(number));
    number.or_else(|| name.parse::<Signal>().ok().map(|signal| signal as i32)).ok_or_else(|| {
        format!("`{text}` is not a signal: write its name, such as `USR1`, or its number, 1 to {LAST_SIGNAL}")
    })
}

/// The highest real-time signal of Linux.
const LAST_SIGNAL: i32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Became, Condition, Dependency, JobId, Memory, Span, StopReason, Wait};

    #[test]
    fn ends_are_described_in_words() {
        let clock = Clock::system();
        let check = |end, expected: &str| assert_eq!(end_in_words(&end, &clock), expected);
        let ran = |outcome| JobEnd::Ran { outcome, stopped: None };
        check(ran(Outcome::Exited(7)), "exited with code 7");
        check(ran(Outcome::Signaled(15)), "ended by SIGTERM");
        check(ran(Outcome::Signaled(40)), "ended by signal 40");
        check(ran(Outcome::NodeFailed { reason: "node n1 failed: dead".into() }), "node n1 failed: dead");
        let exceeded = Outcome::ExceededMemory { code: 137, limit: Memory::from_bytes(2 << 30) };
        check(ran(exceeded), "ended by the kernel: exceeded its memory of 2 GiB");
        check(ran(Outcome::Lost { reason: "n1 restarted".into() }), "lost: n1 restarted");
        let stopped = Some(StopReason::TimeLimit { limit: Span::from_secs(90) });
        check(JobEnd::Ran { outcome: Outcome::Signaled(15), stopped }, "time limit of 1min30s reached");
        let wait = Wait::Depth { depth: 5 };
        let expected = format!("refused because it could not start at once: {}", wait.shown(|_| String::new()));
        check(JobEnd::Refused { wait }, &expected);
        let dependency = Dependency { condition: Condition::AfterOk, job: JobId(3) };
        let expected = "cancelled before it started: afterok:3 cannot be met because job 3 exited with code 1";
        check(JobEnd::Unmet { dependency, became: Became::Exited(1) }, expected);
    }

    #[test]
    fn signals_are_read_as_people_write_them() {
        for (text, number) in [("TERM", 15), ("sigterm", 15), ("15", 15), ("usr1", 10), ("64", 64)] {
            assert_eq!(parse_signal(text), Ok(number), "{text}");
        }
        for text in ["0", "65", "-1", "NONE", ""] {
            assert!(parse_signal(text).is_err_and(|error| error.starts_with(&format!("`{text}` is not a signal"))));
        }
    }
}
