//! `sstat`: resources that running jobs and their steps have used so far. The nodes read them when they are asked.

use std::collections::BTreeMap;

use limo_client::{Clock, Failure, Session, answer, answer_screen, exit, plain};
use limo_model::{JobId, Usage};
use limo_proto::{JobReport, JobState, UsageQuery};

use crate::call::{Call, FAILED};
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both, long};
use crate::sacct::{AccountField, Layout, help};
use crate::select::job_list;
use crate::submit::JobOptions;
use crate::view::View;

const OPTIONS: [OptionRow; 12] = [
    both('a', "allsteps", Nothing),
    both('e', "helpformat", Nothing),
    both('h', "help", Nothing),
    both('j', "jobs", Value),
    both('n', "noheader", Nothing),
    both('o', "format", Value),
    both('p', "parsable", Nothing),
    both('P', "parsable2", Nothing),
    both('V', "version", Nothing),
    both('v', "verbose", Nothing),
    long("noconvert", Nothing),
    long("usage", Nothing),
];

const USUAL: &str = "JobID,MaxRSS,AveRSS,TotalCPU,AveCPU,NNodes,NodeList";

/// Number in a list that stands for the script of the job, with its steps.
const BATCH: &str = "batch";

/// Prints the list.
///
/// # Errors
/// If an option is wrong, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let options = match call.options(&OPTIONS, true) {
        Ok((mut given, operands)) => {
            given.extend(
                (!operands.is_empty()).then(|| crate::getopt::Given { name: "jobs", value: operands.join(",") }),
            );
            JobOptions(given)
        }
        Err(code) => return Ok(code),
    };
    if options.has("helpformat") {
        answer(&help())?;
        return Ok(exit::DONE);
    }
    let mut shown = Vec::new();
    for item in options.get("format").unwrap_or(USUAL).split(',').filter(|item| !item.is_empty()) {
        shown.push(AccountField::parse(item)?);
    }
    let list: Vec<String> = options
        .0
        .iter()
        .filter(|given| given.name == "jobs")
        .flat_map(|given| job_list(&given.value))
        .map(str::to_owned)
        .collect();
    if list.is_empty() {
        return Err(Failure::new("Incomplete job steps specified: use -j"));
    }
    let clock = Clock::system();
    let mut session = call.master()?.session().await?;
    let layout = Layout::of(&options);
    let mut text = if options.has("noheader") { String::new() } else { layout.titles(&shown) };
    let (mut rows, mut code) = (BTreeMap::new(), exit::DONE);
    for word in &list {
        match running(&mut session, word, options.has("allsteps")).await? {
            Some(found) => {
                rows.extend(found.into_iter().map(|job| ((job.step.map_or(job.job, |(of, _)| of), job.step), job)))
            }
            None => {
                limo_client::tell(&format!("sstat: error: couldn't get steps for job {word}\n"));
                code = FAILED;
            }
        }
    }
    for job in rows.values_mut() {
        let used = session.ask(UsageQuery(job.job)).await?;
        if used.answered > 0 {
            let sum = used.sum;
            let (user_cpu, system_cpu, max_rss) = (sum.user_cpu, sum.system_cpu, used.most);
            job.usage = Some(Usage { user_cpu, system_cpu, max_rss, ..Usage::default() });
        }
        let view = View { job, clock: &clock };
        text += &layout.row(&shown, |column| match (column.title(), view.job.step) {
            ("JobID" | "JobIDRaw", None) => format!("{}.{BATCH}", view.job.job),
            _ => plain(&column.value(&view)),
        });
    }
    answer_screen(&text)?;
    Ok(code)
}

/// Returns the running steps that a word such as `12`, `12.0` or `12.batch` names. With `all`, or if no
/// step runs, the job itself is among them. `None` if the job is unknown or does not run.
async fn running(session: &mut Session, word: &str, all: bool) -> Result<Option<Vec<JobReport>>, Failure> {
    let (number, step) = word.split_once('.').map_or((word, None), |(number, step)| (number, Some(step)));
    let Ok(number) = number.parse() else { return Ok(None) };
    let runs = |job: &JobReport| matches!(job.state, JobState::Running | JobState::Suspended);
    let Some(job) = session.job(JobId(number)).await.ok().filter(runs) else { return Ok(None) };
    if step == Some(BATCH) {
        return Ok(Some(vec![job]));
    }
    let mut steps = session.steps(&job).await?;
    steps.retain(runs);
    if let Some(step) = step {
        steps.retain(|own| own.step.is_some_and(|(_, number)| step == number.to_string()));
        return Ok(Some(steps).filter(|steps| !steps.is_empty()));
    }
    if all || steps.is_empty() {
        steps.push(job);
    }
    Ok(Some(steps))
}
