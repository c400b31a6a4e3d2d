//! Selections of jobs by options, which squeue, scancel, sacct and scontrol share.

use std::collections::BTreeSet;

use limo_client::{Clock, Failure, Master, Selectors, Session};
use limo_model::{Span, Time, parse_hosts};
use limo_proto::{Finished, JobFilter, JobReport};
use nix::unistd::{Uid, User, getuid};

use crate::partitions::{ONLY, Partitions};
use crate::status;
use crate::submit::JobOptions;
use crate::view::{View, belongs};

/// Time for which Slurm's controller remembers a finished job, by default.
pub const MIN_JOB_AGE: Span = Span::from_secs(300);

/// Most finished jobs in a list.
const ENDED_LIMIT: u32 = 1_000_000;

/// Options that select jobs by users, names, nodes and partitions, in the words of all commands.
const USERS: [&str; 2] = ["user", "uid"];
const NAMES: [&str; 2] = ["name", "jobname"];
const NODES: [&str; 2] = ["nodelist", "node"];

/// Returns the filter of the options.
///
/// # Errors
/// If a name of a node is wrong, or the master cannot be asked for the partitions.
pub async fn filter(options: &JobOptions, master: &Master) -> Result<JobFilter, Failure> {
    let mut filter = plain_filter(options)?;
    // A cluster without queues has one partition, which all jobs are in.
    if filter.queues.iter().any(|queue| queue == ONLY) && Partitions::ask(master).await?.0.is_empty() {
        filter.queues.clear();
    }
    Ok(filter)
}

fn plain_filter(options: &JobOptions) -> Result<JobFilter, Failure> {
    let all = |names: &[&str]| names.iter().flat_map(|name| words(options.get(name))).collect::<Vec<String>>();
    let mut users: Vec<String> = all(&USERS).into_iter().map(user_name).collect();
    users.extend(options.has("me").then(own_user));
    let nodes = match all(&NODES).join(",").as_str() {
        "" => Vec::new(),
        nodes => parse_hosts(nodes).map_err(|error| Failure::new(format_args!("Invalid node name: {error}")))?,
    };
    let queues = words(options.get("partition"));
    Ok(JobFilter { users, states: Vec::new(), names: all(&NAMES), nodes, queues, steps_of: None })
}

/// Accounts and QOS of `-A` and `-q`, by which the commands select jobs themselves.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    accounts: Vec<String>,
    qos: Vec<String>,
}

impl Accounting {
    pub fn of(options: &JobOptions) -> Self {
        let accounts = words(options.get("account").or(options.get("accounts")));
        Self { accounts, qos: words(options.get("qos")) }
    }

    /// Returns true if they select all jobs.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.qos.is_empty()
    }

    pub fn passes(&self, view: &View) -> bool {
        let named = |names: &[String], own: String| names.is_empty() || names.contains(&own);
        named(&self.accounts, view.account()) && named(&self.qos, view.qos())
    }
}

/// Returns true if one of the selectors names the job, or its array.
pub fn is_named(jobs: &[Selectors], job: &JobReport) -> bool {
    use limo_proto::Selector::{Job, Range, Tasks};
    let named = |selectors: &Selectors| {
        selectors.0.iter().any(|selector| match selector {
            Job(number) => belongs(job, *number),
            Range(from, to) => (*from..=*to).contains(&job.job),
            Tasks(array, tasks) => job.task.is_some_and(|(of, task)| of == *array && tasks.place(task).is_some()),
            _ => false,
        })
    };
    jobs.iter().any(named)
}

/// Splits a list at its commas.
fn words(text: Option<&str>) -> Vec<String> {
    let words = text.unwrap_or_default().split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the name of this user.
pub fn own_user() -> String {
    user_name(getuid().to_string())
}

/// Returns the names of the groups of this user.
pub fn own_groups() -> BTreeSet<String> {
    let all = nix::unistd::getgroups().unwrap_or_default().into_iter().chain([nix::unistd::getgid()]);
    all.filter_map(|gid| nix::unistd::Group::from_gid(gid).ok().flatten()).map(|group| group.name).collect()
}

/// Returns the name for a name or a number of a user.
fn user_name(text: String) -> String {
    let user = text.parse().ok().and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    user.map_or(text, |user| user.name)
}

/// Reads a list of states; returns their names.
///
/// # Errors
/// If one is unknown.
pub fn states(list: &str) -> Result<Vec<&'static str>, Failure> {
    let refused = |word: String| Failure::new(format_args!("Invalid job state specified: {word}"));
    Ok(status::read(list).map_err(refused)?.iter().map(|state| state.name).collect())
}

/// Returns jobs that are not over or ended after `since`, by their numbers.
///
/// # Errors
/// If the master cannot be asked.
pub async fn jobs_since(
    session: &mut Session,
    filter: &JobFilter,
    since: Option<Time>,
) -> Result<Vec<JobReport>, Failure> {
    // A job that ends between the two questions is in both answers.
    let mut jobs = session.jobs(filter.clone(), 0).await?;
    let query = Finished { filter: filter.clone(), since, until: None, after: None, limit: ENDED_LIMIT };
    jobs.extend(session.finished(query).await?);
    jobs.sort_by_key(|job| (job.job, job.ended.is_none()));
    jobs.dedup_by_key(|job| job.job);
    Ok(jobs)
}

/// Returns the time since which Slurm's controller would remember finished jobs.
pub fn remembered(clock: &Clock) -> Time {
    clock.now() - MIN_JOB_AGE
}

/// Splits a list of jobs, such as `3,5_[1-2,4]`.
pub fn job_list(text: &str) -> impl Iterator<Item = &str> {
    // Commas within brackets do not separate jobs.
    let mut within = false;
    let between = move |letter: char| {
        within = (within || letter == '[') && letter != ']';
        !within && (letter == ',' || letter.is_ascii_whitespace())
    };
    text.split(between).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt::Given;

    #[test]
    fn options_select_users_names_nodes_and_partitions() {
        let given = |name, value: &str| Given { name, value: value.to_owned() };
        let options =
            [given("user", "ada,0"), given("name", "a, b"), given("nodelist", "n[1-2]"), given("partition", "short")];
        let filter = plain_filter(&JobOptions(options.to_vec())).expect("a filter");
        assert_eq!(
            (filter.users, filter.names),
            (vec!["ada".to_owned(), "root".into()], vec!["a".to_owned(), "b".into()])
        );
        assert_eq!((filter.nodes, filter.queues), (vec!["n1".to_owned(), "n2".into()], vec!["short".to_owned()]));
        assert!(plain_filter(&JobOptions(vec![given("nodelist", "n[")])).is_err());
        assert!(plain_filter(&JobOptions(Vec::new())).expect("a filter").is_empty());
    }

    #[test]
    fn lists_of_jobs_keep_their_brackets() {
        assert_eq!(job_list("3,5_[1-2,4] 7,").collect::<Vec<_>>(), ["3", "5_[1-2,4]", "7"]);
    }
}
