//! Reads the jobs in a command line: `7`, `3-9`, `last`, `all`, and steps such as `7.0`, separated by commas or spaces.
//! The master resolves them.

use std::str::FromStr;

use limo_model::{JobId, Tasks, TasksError, parse_step};
use limo_proto::Selector;
use thiserror::Error;

use crate::location::Master;
use crate::master::AskError;

/// Jobs and steps for a command.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct JobsArg {
    /// Jobs: 7, 3-9, last (your newest), all (your unfinished ones); tasks of an array: 12_7, 12_[0-4,9]; steps: 12.0
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<Named>,
}

impl JobsArg {
    /// Calls [`resolve`].
    ///
    /// # Errors
    /// The same as for [`resolve`].
    pub async fn resolve(&self, master: &Master) -> Result<Vec<Selector>, AskError> {
        resolve(&self.jobs, master).await
    }
}

/// Returns the selectors of all arguments in their order. Asks the master for the job numbers of steps.
///
/// # Errors
/// If a step does not exist, or the master cannot be asked.
pub async fn resolve(arguments: &[Named], master: &Master) -> Result<Vec<Selector>, AskError> {
    let (mut found, mut session) = (Vec::new(), None);
    for name in arguments.iter().flat_map(|argument| &argument.0) {
        found.push(match name {
            Name::Jobs(selector) => selector.clone(),
            Name::Step(job, number) => {
                let session = match &mut session {
                    Some(session) => session,
                    none => none.insert(master.session().await?),
                };
                Selector::Job(session.step(*job, *number).await?.job)
            }
        });
    }
    Ok(found)
}

/// An argument that names jobs and steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named(Vec<Name>);

/// A word for jobs or for a step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Jobs(Selector),
    /// A step, by the number of its job and its own.
    Step(JobId, u32),
}

impl FromStr for Named {
    type Err = SelectorError;
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let name = |part: &str| match parse_step(part) {
            Some((job, step)) => Ok(Name::Step(job, step)),
            None => one(part, text).map(Name::Jobs),
        };
        parts(text).map(name).collect::<Result<_, _>>().map(Self)
    }
}

/// Joins the selectors of all arguments in their order.
pub fn selectors(arguments: &[Selectors]) -> Vec<Selector> {
    arguments.iter().flat_map(|argument| argument.0.iter().cloned()).collect()
}

/// An argument that names one or several jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selectors(pub Vec<Selector>);

/// Error of a text that names no jobs.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum SelectorError {
    #[error("`{text}` has nothing between two commas")]
    EmptyPart { text: String },
    #[error("`{part}` names no job: write a number of the column JOBID, a range such as `3-9`, `last` or `all`")]
    Unknown { part: String },
    #[error("`{part}` names no tasks: {error}")]
    Tasks { part: String, error: TasksError },
    #[error("the range `{part}` ends before it begins")]
    Backwards { part: String },
    #[error("`{part}`: job numbers begin at 1")]
    Zero { part: String },
}

impl FromStr for Selectors {
    type Err = SelectorError;
    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parts(text).map(|part| one(part, text)).collect::<Result<_, _>>().map(Self)
    }
}

/// Splits an argument. Commas within brackets do not separate parts.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut within = false;
    text.split(move |letter: char| {
        within = (within || letter == '[') && letter != ']';
        !within && matches!(letter, ',' | ' ')
    })
}

/// Parses tasks as `lq` shows them: `12_7`, `12_[3-9%2]`.
fn tasks(part: &str, numbers: &str) -> Result<Tasks, SelectorError> {
    let bracketed = numbers.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let tasks = bracketed.unwrap_or(numbers).parse::<Tasks>();
    tasks.map_err(|error| SelectorError::Tasks { part: part.to_owned(), error })
}

fn one(part: &str, text: &str) -> Result<Selector, SelectorError> {
    match part {
        "" if text.is_empty() => return Err(SelectorError::Unknown { part: String::new() }),
        "" => return Err(SelectorError::EmptyPart { text: text.to_owned() }),
        "last" => return Ok(Selector::Last),
        "all" => return Ok(Selector::All),
        _ => {}
    }
    let unknown = || SelectorError::Unknown { part: part.to_owned() };
    let number = |digits: &str| {
        let digits_only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits_only { digits.parse::<u64>().ok() } else { None };
        match number.ok_or_else(unknown)? {
            0 => Err(SelectorError::Zero { part: part.to_owned() }),
            number => Ok(JobId(number)),
        }
    };
    if let Some((array, numbers)) = part.split_once('_') {
        return Ok(Selector::Tasks(number(array)?, tasks(part, numbers)?));
    }
    match part.split_once('-') {
        None => Ok(Selector::Job(number(part)?)),
        Some((from, to)) => match (number(from)?, number(to)?) {
            (from, to) if from > to => Err(SelectorError::Backwards { part: part.to_owned() }),
            (from, to) => Ok(Selector::Range(from, to)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_name_jobs_ranges_and_tasks() {
        let check = |text: &str, expected: &[Selector]| {
            assert_eq!(text.parse::<Selectors>(), Ok(Selectors(expected.to_vec())), "{text}");
        };
        let job = |id| Selector::Job(JobId(id));
        check("7", &[job(7)]);
        check("3-9", &[Selector::Range(JobId(3), JobId(9))]);
        check("3-3,last", &[Selector::Range(JobId(3), JobId(3)), Selector::Last]);
        check("all,7 8", &[Selector::All, job(7), job(8)]);
        let tasks = |array, text: &str| Selector::Tasks(JobId(array), text.parse().expect("tasks"));
        check("12_7", &[tasks(12, "7")]);
        check("12_[3-9%2]", &[tasks(12, "3-9%2")]);
        check("3,12_[1,5-7],12_0-4 8", &[job(3), tasks(12, "1,5-7"), tasks(12, "0-4"), job(8)]);
        let both = ["9".parse().expect("a job"), "last,2".parse().expect("jobs")];
        assert_eq!(selectors(&both), [job(9), Selector::Last, job(2)]);
    }

    #[test]
    fn steps_are_named_beside_jobs() {
        let step = |job, number| Name::Step(JobId(job), number);
        let jobs = |text: &str| Name::Jobs(one(text, text).expect("jobs"));
        assert_eq!("12.3".parse::<Named>(), Ok(Named(vec![step(12, 3)])));
        let all = vec![step(1, 0), jobs("3-9"), jobs("12_[1,2]"), step(7, 10)];
        assert_eq!("1.0,3-9 12_[1,2],7.10".parse::<Named>(), Ok(Named(all)));
        for wrong in ["12.x", "12.", ".3", "1.2.3", "last.0", "1.0,"] {
            assert!(wrong.parse::<Named>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_selectors_are_refused() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Selectors>().map_err(|error| error.to_string());
            assert_eq!(error, Err(expected.to_owned()), "{text}");
        };
        let forms = "write a number of the column JOBID, a range such as `3-9`, `last` or `all`";
        for part in ["x", "+7", "-3", "3-", "3-x", "1-2-3", "Last", "18446744073709551616"] {
            check(part, &format!("`{part}` names no job: {forms}"));
        }
        check("", &format!("`` names no job: {forms}"));
        check("7,,8", "`7,,8` has nothing between two commas");
        check("7,x", &format!("`x` names no job: {forms}"));
        check("9-3", "the range `9-3` ends before it begins");
        check("0", "`0`: job numbers begin at 1");
        check("0_3", "`0_3`: job numbers begin at 1");
        check("x_3", &format!("`x_3` names no job: {forms}"));
        let ranges = "write for example 0-999, 1,3,7 or 0-100:5, and %50 for at most 50 at a time";
        check("12_", &format!("`12_` names no tasks: `` is not a range of tasks: {ranges}"));
        check("12_[3", &format!("`12_[3` names no tasks: `[3` is not a range of tasks: {ranges}"));
        check("12_[9-3]", "`12_[9-3]` names no tasks: `9-3` ends before it begins");
        check("0-3", "`0-3`: job numbers begin at 1");
    }
}
