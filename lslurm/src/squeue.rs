//! `squeue`: lists jobs.

mod columns;
mod steps;

use std::cmp::Reverse;

use limo_client::{Clock, Failure, Master, Selectors, Session, answer_json, answer_screen, exit};
use limo_proto::{JobFilter, JobReport, JobState};

use crate::call::Call;
use crate::format::{Part, letters, line, names};
use crate::getopt::Takes::{Nothing, Perhaps, Value};
use crate::getopt::{OptionRow, both, long};
use crate::select::{Accounting, filter, is_named, job_list, jobs_since, remembered, states};
use crate::submit::JobOptions;
use crate::view::View;
use crate::{json, status, values};

const USUAL: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

const OPTIONS: [OptionRow; 36] = [
    both('A', "account", Value),
    both('a', "all", Nothing),
    both('h', "noheader", Nothing),
    both('i', "iterate", Value),
    both('j', "jobs", Perhaps),
    both('l', "long", Nothing),
    both('L', "licenses", Value),
    both('M', "clusters", Value),
    both('n', "name", Value),
    both('o', "format", Value),
    both('O', "Format", Value),
    both('p', "partition", Value),
    both('P', "priority", Nothing),
    both('q', "qos", Value),
    both('R', "reservation", Value),
    both('r', "array", Nothing),
    both('S', "sort", Value),
    both('s', "steps", Perhaps),
    both('t', "states", Value),
    both('u', "user", Value),
    both('v', "verbose", Nothing),
    both('V', "version", Nothing),
    both('w', "nodelist", Value),
    long("array-unique", Nothing),
    long("federation", Nothing),
    long("help", Nothing),
    long("hide", Nothing),
    long("local", Nothing),
    long("me", Nothing),
    long("noconvert", Nothing),
    long("node", Value),
    long("sibling", Nothing),
    long("start", Nothing),
    long("usage", Nothing),
    long("only-job-state", Nothing),
    long("json", Nothing),
];

/// Jobs that the options select.
struct Wanted {
    filter: JobFilter,
    /// Names of states; empty for those of jobs that are not over.
    states: Vec<&'static str>,
    all_states: bool,
    jobs: Vec<Selectors>,
    accounting: Accounting,
}

/// Prints the list.
///
/// # Errors
/// If an option is wrong, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let options = match call.options(&OPTIONS, true) {
        Ok((given, operands)) if operands.is_empty() => JobOptions(given),
        // The value of `--jobs` and `--steps` may be a word of its own.
        Ok((mut given, operands)) => match given.iter_mut().rev().find(|given| ["jobs", "steps"].contains(&given.name))
        {
            Some(jobs) if jobs.value.is_empty() => {
                jobs.value = operands.join(",");
                JobOptions(given)
            }
            _ => return Err(Failure::new(format_args!("Unrecognized option: {}", operands.join(" ")))),
        },
        Err(code) => return Ok(code),
    };
    let (master, clock) = (call.master()?, Clock::system());
    let wanted = Wanted::of(&options, &master).await?;
    let (parts, title) = table(&options);
    for part in &parts {
        if let Part::Field { key, .. } = part
            && !columns::is_known(title, key)
            && !(options.has("steps") && key == "stepid")
        {
            return Err(Failure::new(format_args!("Invalid job format specification: {key}")));
        }
    }
    let mut session = master.session().await?;
    if options.has("steps") {
        return steps::run(&options, &wanted, &mut session).await;
    }
    let mut jobs = wanted.ask(&mut session, &clock).await?;
    if jobs.is_empty() && wanted.jobs.len() == 1 && options.has("jobs") && !wanted.is_known(&mut session).await? {
        limo_client::tell("slurm_load_jobs error: Invalid job id specified\n");
        return Ok(crate::call::FAILED);
    }
    if options.has("array") {
        jobs = expanded(jobs);
    }
    if options.has("start") && !options.has("states") {
        jobs.retain(|job| job.state == JobState::Waiting);
    }
    sort(&mut jobs, options.get("sort"), &clock);
    if options.has("json") {
        let shown = jobs.iter().map(|job| json::queued(&View { job, clock: &clock })).collect();
        answer_json(&json::answer("slurm", shown))?;
        return Ok(exit::DONE);
    }
    let mut text = String::new();
    if options.has("long") && !options.has("noheader") {
        text += &format!("{}\n", crate::moment::long_date(&clock));
    }
    if !options.has("noheader") {
        text += &line(&parts, |key| columns::title(title, key));
    }
    for job in &jobs {
        let view = View { job, clock: &clock };
        text += &line(&parts, |key| columns::cell(title, key, &view));
    }
    answer_screen(&text)?;
    Ok(exit::DONE)
}

/// Returns the parts of a line, and the kind of their keys.
fn table(options: &JobOptions) -> (Vec<Part>, columns::Keys) {
    match options.0.iter().rev().find(|given| ["format", "Format"].contains(&given.name)) {
        Some(given) if given.name == "Format" => (names(&given.value), columns::Keys::Names),
        Some(given) => (letters(&given.value), columns::Keys::Letters),
        None if options.has("steps") => (letters(steps::USUAL), columns::Keys::Letters),
        None => {
            let is_usual = !options.has("long") && !options.has("start");
            let own = std::env::var("SQUEUE_FORMAT").ok().filter(|_| is_usual);
            let usual = match (options.has("long"), options.has("start")) {
                (_, true) => START,
                (true, _) => LONG,
                _ => USUAL,
            };
            (letters(own.as_deref().unwrap_or(usual)), columns::Keys::Letters)
        }
    }
}

impl Wanted {
    async fn of(options: &JobOptions, master: &Master) -> Result<Self, Failure> {
        let list = options.get("states").unwrap_or_default();
        // As JSON, Slurm shows all jobs that it remembers.
        let all_states = list.eq_ignore_ascii_case("all") || list.is_empty() && options.has("json");
        let states = if all_states { Vec::new() } else { states(list)? };
        let mut jobs = Vec::new();
        for job in job_list(options.get("jobs").unwrap_or_default()) {
            jobs.push(job.parse().map_err(|_| Failure::new(format_args!("Invalid job id: {job}")))?);
        }
        let accounting = Accounting::of(options);
        Ok(Self { filter: filter(options, master).await?, states, all_states, jobs, accounting })
    }

    fn shows(&self, job: &JobReport) -> bool {
        match self.all_states {
            true => true,
            false if self.states.is_empty() => !job.state.is_over(),
            false => self.states.contains(&status::of_job(job).name),
        }
    }

    async fn ask(&self, session: &mut Session, clock: &Clock) -> Result<Vec<JobReport>, Failure> {
        let with_ended = self.all_states || !self.states.is_empty() || !self.jobs.is_empty();
        let mut jobs = match with_ended {
            true => jobs_since(session, &self.filter, Some(remembered(clock))).await?,
            false => session.jobs(self.filter.clone(), 0).await?,
        };
        // The tasks of an array stand for it, unless some of them have no number yet.
        jobs.retain(|job| job.array.as_ref().is_none_or(|array| array.waiting.is_some()));
        jobs.retain(|job| self.shows(job) && self.is_named(job) && self.accounting.passes(&View { job, clock }));
        Ok(jobs)
    }

    fn is_named(&self, job: &JobReport) -> bool {
        self.jobs.is_empty() || is_named(&self.jobs, job)
    }

    /// Returns true if the master remembers the only job for as long as Slurm would.
    async fn is_known(&self, session: &mut Session) -> Result<bool, Failure> {
        let named = limo_client::selectors(&self.jobs);
        let number = named.first().and_then(|selector| match selector {
            limo_proto::Selector::Job(job) | limo_proto::Selector::Tasks(job, _) => Some(*job),
            _ => None,
        });
        let Some(number) = number else { return Ok(true) };
        let Ok(job) = session.job(number).await else { return Ok(false) };
        Ok(job.ended.is_none_or(|ended| ended > remembered(&Clock::system())))
    }
}

/// Replaces the waiting tasks of each array by one job for each of them.
fn expanded(jobs: Vec<JobReport>) -> Vec<JobReport> {
    let mut out = Vec::with_capacity(jobs.len());
    for job in jobs {
        let waiting = job.array.as_ref().and_then(|array| array.waiting.clone());
        let Some(tasks) = waiting else {
            out.push(job);
            continue;
        };
        let numbers = (0..tasks.count()).filter_map(|place| tasks.number(place));
        out.extend(numbers.map(|task| JobReport { task: Some((job.job, task)), array: None, ..job.clone() }));
    }
    out
}

/// Sorts by keys such as `P,t,-p`, Slurm's default.
fn sort(jobs: &mut [JobReport], keys: Option<&str>, clock: &Clock) {
    let rank = |job: &JobReport| status::of_job(job).code;
    jobs.sort_by_key(|job| (rank(job), Reverse(job.priority.map_or(0, |priority| priority.total())), job.job));
    for key in keys.unwrap_or_default().split(',').rev() {
        let (key, descending) = match key.strip_prefix('-') {
            Some(key) => (key, true),
            None => (key.strip_prefix('+').unwrap_or(key), false),
        };
        let by = |job: &JobReport| {
            let view = View { job, clock };
            let text = columns::cell(columns::Keys::Letters, key, &view);
            // Numbers are sorted as such.
            let number = match key {
                "M" => Some(view.run().ms()),
                "l" => Some(job.time_limit.map_or(i64::MAX, |limit| limit.ms())),
                _ => text.parse::<i64>().ok(),
            };
            (number, text)
        };
        if columns::is_known(columns::Keys::Letters, key) {
            jobs.sort_by(|a, b| if descending { by(b).cmp(&by(a)) } else { by(a).cmp(&by(b)) });
        }
    }
}

/// Returns the time that is left of a limit.
pub fn time_left(view: &View) -> String {
    match view.job.time_limit {
        None => "UNLIMITED".to_owned(),
        Some(limit) if view.run() > limit => "INVALID".to_owned(),
        Some(limit) => values::time_run(limit - view.run()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_fake::{finished_job, running_job, waiting_job};

    fn shown(jobs: &[JobReport], format: &str) -> String {
        let clock = Clock::utc(running_job(1).submitted);
        let parts = letters(format);
        jobs.iter()
            .map(|job| line(&parts, |key| columns::cell(columns::Keys::Letters, key, &View { job, clock: &clock })))
            .collect()
    }

    #[test]
    fn waiting_jobs_come_first_and_keys_change_the_order() {
        let clock = Clock::utc(running_job(1).submitted);
        let mut jobs =
            vec![running_job(2), waiting_job(9), waiting_job(10), finished_job(1, limo_model::Outcome::Exited(0))];
        sort(&mut jobs, None, &clock);
        assert_eq!(shown(&jobs, "%i:%t "), "1:CD \n9:PD \n10:PD \n2:R \n");
        sort(&mut jobs, Some("-i"), &clock);
        assert_eq!(shown(&jobs, "%A"), "10\n9\n2\n1\n");
        sort(&mut jobs, Some("t,-i"), &clock);
        assert_eq!(shown(&jobs, "%A"), "1\n10\n9\n2\n");
    }

    #[test]
    fn waiting_tasks_of_an_array_have_lines_of_their_own_if_asked() {
        let tasks: limo_model::Tasks = "3,5-6%2".parse().expect("tasks");
        let array = limo_proto::ArrayReport {
            tasks: tasks.clone(),
            waiting: Some(tasks),
            active: 0,
            ended: limo_model::TaskCounts::default(),
        };
        let jobs = vec![JobReport { array: Some(array), ..waiting_job(12) }];
        assert_eq!(shown(&jobs, "%i %F %K %R"), "12_[3,5-6%2] 12 3,5-6%2 (PowerNotAvail)\n");
        assert_eq!(shown(&expanded(jobs), "%i %F %K"), "12_3 12 3\n12_5 12 5\n12_6 12 6\n");
    }
}
