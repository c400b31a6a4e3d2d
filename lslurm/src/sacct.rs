//! `sacct`: lists jobs of the past and the present, which Limo records without another daemon.

mod columns;

use std::collections::BTreeMap;

use limo_client::{
    Clock, Failure, Master, Selectors, Session, answer, answer_json, answer_screen, exit, plain, selectors,
};
use limo_model::{JobId, Span, Time};
use limo_proto::{JobFilter, JobReport, Selector};

use crate::call::Call;
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both, long};
use crate::moment::{Toward, read};
use crate::select::{Accounting, filter, job_list, jobs_since, own_user, states};
use crate::submit::JobOptions;
use crate::view::View;
use crate::{json, status};

pub use columns::{AccountField, help};

const OPTIONS: [OptionRow; 45] = [
    both('A', "accounts", Value),
    both('a', "allusers", Nothing),
    both('b', "brief", Nothing),
    both('B', "batch-script", Nothing),
    both('C', "cluster", Value),
    both('c', "completion", Nothing),
    both('D', "duplicates", Nothing),
    both('E', "endtime", Value),
    both('e', "helpformat", Nothing),
    both('F', "flags", Value),
    both('f', "file", Value),
    both('g', "group", Value),
    both('h', "help", Nothing),
    both('i', "nnodes", Value),
    both('I', "ncpus", Value),
    both('j', "jobs", Value),
    both('k', "timelimit-min", Value),
    both('K', "timelimit-max", Value),
    both('l', "long", Nothing),
    both('L', "allclusters", Nothing),
    both('M', "clusters", Value),
    both('n', "noheader", Nothing),
    both('N', "nodelist", Value),
    both('o', "format", Value),
    both('O', "origin", Nothing),
    both('p', "parsable", Nothing),
    both('P', "parsable2", Nothing),
    both('q', "qos", Value),
    both('R', "reason", Value),
    both('r', "partition", Value),
    both('S', "starttime", Value),
    both('s', "state", Value),
    both('T', "truncate", Nothing),
    both('u', "user", Value),
    both('v', "verbose", Nothing),
    both('V', "version", Nothing),
    both('W', "wckeys", Value),
    both('X', "allocations", Nothing),
    both('x', "associations", Value),
    long("delimiter", Value),
    long("json", Nothing),
    long("name", Value),
    long("units", Value),
    long("noconvert", Nothing),
    long("uid", Value),
];

const USUAL: &str = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode";
const BRIEF: &str = "JobID,State,ExitCode";

/// Jobs that the options select.
struct Asked {
    filter: JobFilter,
    jobs: Vec<Selector>,
    /// True if jobs were named, even if only steps of them.
    named: bool,
    /// True if the steps of jobs are listed.
    steps: bool,
    states: Vec<&'static str>,
    since: Option<Time>,
    until: Option<Time>,
    accounting: Accounting,
}

/// Prints the list.
///
/// # Errors
/// If an option is wrong, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let options = match call.options(&OPTIONS, true) {
        Ok((given, operands)) if operands.is_empty() => JobOptions(given),
        Ok((_, operands)) => {
            return Err(Failure::new(format_args!("Unknown arguments:\nsacct: error:  {}", operands.join("\n"))));
        }
        Err(code) => return Ok(code),
    };
    if options.has("helpformat") {
        answer(&help())?;
        return Ok(exit::DONE);
    }
    let format = options.get("format").unwrap_or(if options.has("brief") { BRIEF } else { USUAL });
    let mut shown = Vec::new();
    for item in format.split(',').filter(|item| !item.is_empty()) {
        shown.push(AccountField::parse(item)?);
    }
    let clock = Clock::system();
    let master = call.master()?;
    let asked = Asked::of(&options, &clock, &master).await?;
    let mut session = master.session().await?;
    let mut jobs = if asked.named { asked.by_number(&mut session).await? } else { asked.by_time(&mut session).await? };
    if options.has("json") {
        let views = jobs.values().map(|job| View { job, clock: &clock }).filter(|view| asked.passes(view));
        let shown = views.map(|view| json::accounted(&view)).collect();
        answer_json(&json::answer("slurmdb", shown))?;
        return Ok(exit::DONE);
    }
    if asked.steps {
        let with_steps: Vec<JobReport> = jobs.values().filter(|job| job.steps > 0).cloned().collect();
        for job in with_steps {
            let steps = session.steps(&job).await?;
            jobs.extend(steps.into_iter().map(|step| (key(&step), step)));
        }
    }
    let layout = Layout::of(&options);
    let mut text = String::new();
    if !options.has("noheader") {
        text += &layout.titles(&shown);
    }
    for view in jobs.values().map(|job| View { job, clock: &clock }).filter(|view| asked.passes(view)) {
        text += &layout.row(&shown, |column| plain(&column.value(&view)));
    }
    answer_screen(&text)?;
    Ok(exit::DONE)
}

impl Asked {
    async fn of(options: &JobOptions, clock: &Clock, master: &Master) -> Result<Self, Failure> {
        let moment = |name: &str| match options.get(name) {
            None => Ok(None),
            Some(text) => {
                let read = read(text, Toward::Past, clock).map(Some);
                read.ok_or_else(|| Failure::new(format_args!("Invalid time specification (pos=0): {text}")))
            }
        };
        let (mut jobs, mut named) = (Vec::new(), false);
        // Each `-j` adds to the list.
        for given in options.0.iter().filter(|given| given.name == "jobs") {
            for job in job_list(&given.value) {
                named = true;
                // The steps follow their job.
                if job.contains('.') {
                    continue;
                }
                let parsed: Result<Selectors, _> = job.parse();
                jobs.push(parsed.map_err(|_| Failure::new(format_args!("fatal: Bad job/step specified: {job}")))?);
            }
        }
        let mut filter = filter(options, master).await?;
        let all = options.has("allusers") || nix::unistd::getuid().is_root() || named;
        if filter.users.is_empty() && !all {
            filter.users.push(own_user());
        }
        let list = options.get("state").unwrap_or_default();
        let states =
            states(list).map_err(|_| Failure::new(format_args!("fatal: unrecognized job state value '{list}'")))?;
        let (since, until) = (moment("starttime")?, moment("endtime")?);
        // Without jobs and times: since midnight.
        let midnight = || read("today", Toward::Past, clock);
        let since = since.or_else(|| if named { None } else { midnight() });
        let steps = !options.has("allocations");
        let accounting = Accounting::of(options);
        Ok(Self { filter, jobs: selectors(&jobs), named, steps, states, since, until, accounting })
    }

    /// Returns true if the job was there between the times, and has one of the states.
    fn passes(&self, view: &View) -> bool {
        let job = view.job;
        let state = status::accounted(job);
        if !self.accounting.passes(view) {
            return false;
        }
        if job.step.is_some() {
            // A step is shown with its job.
            return self.states.is_empty() || self.states.contains(&state);
        }
        let in_time = self.since.is_none_or(|since| job.ended.is_none_or(|ended| ended >= since))
            && self.until.is_none_or(|until| job.submitted <= until);
        in_time && (self.states.is_empty() || self.states.contains(&state)) && self.filter.passes(job)
    }

    async fn by_time(&self, session: &mut Session) -> Result<BTreeMap<Key, JobReport>, Failure> {
        let jobs = jobs_since(session, &self.filter, self.since).await?;
        Ok(jobs.into_iter().map(|job| (key(&job), job)).collect())
    }

    async fn by_number(&self, session: &mut Session) -> Result<BTreeMap<Key, JobReport>, Failure> {
        let mut found = BTreeMap::new();
        for selector in &self.jobs {
            // Unknown jobs are left out, as by Slurm.
            let Ok(numbers) = session.select(std::slice::from_ref(selector), false).await else { continue };
            for number in numbers {
                let Ok(job) = session.job(number).await else {
                    found.extend(waiting_task(session, number).await?.map(|task| (key(&task), task)));
                    continue;
                };
                if let Some(array) = &job.array {
                    let tasks = Selector::Tasks(job.job, array.tasks.clone());
                    for number in session.select(&[tasks], false).await.unwrap_or_default() {
                        let Ok(task) = session.job(number).await else { continue };
                        found.insert(key(&task), task);
                    }
                }
                found.insert(key(&job), job);
            }
        }
        Ok(found)
    }
}

/// Returns the task of an array that will have this number when it is its turn.
async fn waiting_task(session: &mut Session, number: JobId) -> Result<Option<JobReport>, Failure> {
    let jobs = session.jobs(JobFilter::default(), 0).await?;
    let task = |job: JobReport| {
        let waiting = job.array.as_ref()?.waiting.clone()?;
        let place = number.0.checked_sub(job.job.0 + 1)?;
        let task = job.array.as_ref()?.tasks.number(place.try_into().ok()?)?;
        waiting.place(task)?;
        Some(JobReport { job: number, task: Some((job.job, task)), array: None, ..job })
    };
    Ok(jobs.into_iter().find_map(task))
}

/// Order of the list: an array is followed by its tasks, and a job by its steps.
type Key = (u64, Option<u32>, Option<u32>);

fn key(job: &JobReport) -> Key {
    match (job.task, job.step) {
        (_, Some((of, step))) => (of.0, None, Some(step)),
        (Some((array, task)), None) => (array.0, Some(task), None),
        (None, None) => (job.job.0, None, None),
    }
}

/// Arrangement of the columns.
pub enum Layout {
    /// Aligned, with a space after each column.
    Columns,
    /// A text between the columns; true if also after the last one.
    Between(String, bool),
}

impl Layout {
    pub fn of(options: &JobOptions) -> Self {
        let between = options.get("delimiter").unwrap_or("|").to_owned();
        match options.0.iter().rev().find(|given| ["parsable", "parsable2"].contains(&given.name)) {
            Some(given) => Self::Between(between, given.name == "parsable"),
            None => Self::Columns,
        }
    }

    pub fn row(&self, shown: &[AccountField], value: impl Fn(&AccountField) -> String) -> String {
        match self {
            Self::Columns => shown.iter().map(|column| column.aligned(&value(column)) + " ").collect::<String>() + "\n",
            Self::Between(text, last) => {
                let values: Vec<String> = shown.iter().map(value).collect();
                values.join(text) + if *last { text } else { "" } + "\n"
            }
        }
    }

    pub fn titles(&self, shown: &[AccountField]) -> String {
        let titles = self.row(shown, |column| column.title().to_owned());
        match self {
            Self::Columns => titles + &self.row(shown, |column| "-".repeat(column.width())),
            Self::Between(..) => titles,
        }
    }
}

/// Formats the processor time of a job: its cores for its running time.
fn processor_time(view: &View) -> Span {
    Span::from_ms(view.run().ms().saturating_mul(i64::from(view.cores())))
}
