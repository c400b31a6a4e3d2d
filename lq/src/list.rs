//! `lq`: the table of jobs.

use limo_client::json::{JobJson, SCHEMA};
use limo_client::{
    Align, Clock, Failure, Master, Table, answer, answer_json, elapsed, end_in_words, exit, job_label, marked, or_dash,
};
use limo_model::Span;
use limo_proto::JobReport;
use serde::Serialize;

use crate::args::{ListArgs, STATES};

/// Finished jobs with `--all`: a few screens.
const LIMIT: u32 = 100;

#[derive(Serialize)]
pub struct JobsJson {
    schema: u32,
    jobs: Vec<JobJson>,
}

impl JobsJson {
    pub fn new(jobs: &[JobReport], clock: &Clock) -> Self {
        Self { schema: SCHEMA, jobs: jobs.iter().map(|job| JobJson::new(job, clock)).collect() }
    }
}

/// Prints the jobs that the filters leave.
///
/// # Errors
/// Where the master cannot be asked.
pub async fn run(args: &ListArgs, json: bool, master: &Master) -> Result<u8, Failure> {
    // Whoever asks for a state in which jobs are over wants to see finished ones.
    let ended = args.all || args.states.iter().any(|state| state.is_over());
    let mut jobs = master.jobs(ended.then_some(args.limit.unwrap_or(LIMIT))).await?;
    jobs.retain(|job| {
        (args.user.is_empty() || args.user.contains(&job.user))
            && (args.states.is_empty() || args.states.contains(&job.state))
    });
    let clock = Clock::system();
    if json {
        answer_json(&JobsJson::new(&jobs, &clock))?;
    } else {
        answer(&table(&jobs, &clock))?;
    }
    Ok(exit::DONE)
}

fn table(jobs: &[JobReport], clock: &Clock) -> String {
    let mut table = Table::new(&[
        ("JOBID", Align::Right),
        ("NAME", Align::Left),
        ("USER", Align::Left),
        ("ST", Align::Left),
        ("TIME", Align::Right),
        ("CORES", Align::Right),
        ("NODES(UNIT)", Align::Left),
        ("ENERGY", Align::Left),
        ("REASON", Align::Left),
    ]);
    for job in jobs {
        let code = STATES.iter().find(|(state, _)| *state == job.state).map_or("?", |(_, code)| code);
        table.row([
            job_label(job),
            job.name.clone(),
            job.user.clone(),
            code.to_owned(),
            elapsed(time_run(job, clock)),
            job.cores.to_string(),
            places(job),
            or_dash(job.energy.map(|energy| marked(energy, job.emulated))),
            reason(job, clock),
        ]);
    }
    table.render()
}

/// How long it runs, or ran.
pub fn time_run(job: &JobReport, clock: &Clock) -> Span {
    job.started.map_or(Span::ZERO, |started| job.ended.unwrap_or(clock.now()) - started)
}

/// `n1(cpu),n2(cpu)`.
pub fn places(job: &JobReport) -> String {
    let place = |unit: &String| match unit.split_once('/') {
        Some((node, unit)) => format!("{node}({unit})"),
        None => unit.clone(),
    };
    or_dash((!job.units.is_empty()).then(|| job.units.iter().map(place).collect::<Vec<_>>().join(",")))
}

/// Why it waits, or how it ended.
fn reason(job: &JobReport, clock: &Clock) -> String {
    match (&job.wait, &job.end) {
        (Some(wait), _) => wait.shown(|time| clock.show(time)).to_string(),
        (None, Some(end)) => end_in_words(end, clock),
        (None, None) => String::new(),
    }
}
