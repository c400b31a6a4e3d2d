//! `lq show`: prints everything about a job, one fact a line.

use limo_client::json::{JobJson, JobsJson};
use limo_client::{
    Align, Clock, Failure, Master, Session, Table, Used, answer, answer_json, dependencies, elapsed, end_in_words,
    exit, job_label, marked, or_dash, plain,
};
use limo_model::{Allowance, Evictions, Memory, WhenUsed, host_list};
use limo_proto::{JobReport, JobState, PackedTasks, Selector, UsageQuery, UsageReport};

use crate::columns::{places, time_run, unreachable};

/// Prints the jobs.
///
/// # Errors
/// If the master cannot be asked, or does not know a job.
pub async fn run(which: &[Selector], json: bool, master: &Master) -> Result<u8, Failure> {
    let mut session = master.session().await?;
    let (mut jobs, mut texts, clock) = (Vec::new(), Vec::new(), Clock::system());
    for id in session.select(which, false).await? {
        let job = session.job(id).await?;
        let steps = session.steps(&job).await?;
        if json {
            for job in [job].into_iter().chain(steps) {
                let usage = usage(&mut session, &job).await;
                jobs.push(JobJson::new(&job, &clock).with_usage(usage.as_ref()));
            }
        } else {
            let so_far = usage(&mut session, &job).await.map_or_else(String::new, |report| used_so_far(&report));
            texts.push(facts(&job, &clock) + &so_far + &steps_of(&steps, &clock));
        }
    }
    if json {
        answer_json(&JobsJson::of(jobs))?;
    } else {
        answer(&texts.join("\n"))?;
    }
    Ok(exit::DONE)
}

/// Asks for the resources that a running job has used so far.
async fn usage(session: &mut Session, job: &JobReport) -> Option<UsageReport> {
    match job.state {
        // An older master does not know the question.
        JobState::Running | JobState::Suspended => session.ask(UsageQuery(job.job)).await.ok(),
        _ => None,
    }
}

/// Formats the resources that a running job and its steps have used; empty if no node knows them.
fn used_so_far(report: &UsageReport) -> String {
    if report.answered == 0 {
        return String::new();
    }
    let UsageReport { nodes, answered, sum, most, .. } = report;
    let of = if answered < nodes { format!(", on {answered} of {nodes} nodes") } else { String::new() };
    let cpu = sum.user_cpu + sum.system_cpu;
    let cpu = format!("{cpu} (user {}, system {}) so far{of}", sum.user_cpu, sum.system_cpu);
    let memory = format!("{} now{of}, at most {most}{}", sum.memory, if *nodes > 1 { " on one node" } else { "" });
    let lines = [("CPU time", Some(cpu)), ("memory used", (*most > Memory::ZERO).then_some(memory))];
    lines.into_iter().filter_map(|(what, value)| Some(format!("{what:<12} {}\n", value?))).collect()
}

/// Formats the steps of a job, a line each.
fn steps_of(steps: &[JobReport], clock: &Clock) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let columns = [("STEP", left), ("NAME", left), ("STATE", left), ("TIME", right), ("CORES", right), ("NODES", left)];
    let mut table = Table::new(&[&columns[..], &[("END", left)]].concat());
    for step in steps {
        table.row([
            job_label(step),
            step.name.clone(),
            step.state.name().to_owned(),
            step.started.map_or_else(|| "-".to_owned(), |_| elapsed(time_run(step, clock))),
            step.cores.to_string(),
            host_list(step.nodes.iter().map(String::as_str)),
            step.end.as_ref().map_or_else(String::new, |end| end_in_words(end, clock)),
        ]);
    }
    if steps.is_empty() { String::new() } else { format!("\n{}", table.render()) }
}

/// Returns the range of nodes of a moldable job, with the number that was chosen.
pub fn nodes(job: &JobReport) -> Option<String> {
    job.widths.map(|(widths, nodes)| format!("{widths}: {nodes} by the last plan"))
}

/// Formats licences such as `ansys:3, matlab:2`.
pub fn licences(job: &JobReport) -> Option<String> {
    let all: Vec<String> = job.licences.iter().map(ToString::to_string).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Formats the priority, with its parts if there are several.
pub fn priority(job: &JobReport) -> Option<String> {
    let standing = job.priority?;
    Some(match (standing.own, standing.age, standing.share) {
        (own, 0, 0) => own.to_string(),
        (own, age, share) => format!("{} (own {own}, age {age}, share {share})", standing.total()),
    })
}

/// Formats the known facts; unknown ones have no line.
fn facts(job: &JobReport, clock: &Clock) -> String {
    let time = |time| clock.show_full(time);
    let mut text = String::new();
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!("{name:<12} {}\n", plain(&value));
        }
    };
    fact("job", Some(job_label(job)));
    fact("name", Some(job.name.clone()));
    fact("user", Some(job.user.clone()));
    fact("state", Some(job.state.name().into()));
    fact("unreachable", unreachable(job, clock));
    fact("suspended", job.suspended.as_ref().map(|suspended| format!("{suspended}, since {}", time(suspended.since))));
    fact("end", job.end.as_ref().map(|end| end_in_words(end, clock)));
    fact("waits", job.wait.as_ref().map(|wait| wait.shown(|time| clock.show(time)).to_string()));
    fact("command", Some(job.command.clone()));
    fact("application", Some(job.application.clone()));
    let each = if job.packed.is_some() { " per task" } else { "" };
    fact("queue", job.queue.clone());
    fact("licences", licences(job));
    fact("account", job.account.clone());
    fact("QOS", job.qos.clone());
    fact("nodes", nodes(job));
    fact("tasks", job.packed.as_ref().map(|packed| tasks(job, packed)));
    fact("cores", Some(format!("{}{each}", job.cores)));
    fact("memory", (job.memory > Memory::ZERO).then(|| format!("{}{each}", job.memory)));
    fact("units", (!job.units.is_empty()).then(|| places(job)));
    fact("stdout", job.stdout.clone());
    fact("stderr", job.stderr.clone());
    fact("submitted", Some(time(job.submitted)));
    fact("started", job.started.map(time));
    fact("ended", job.ended.map(time));
    fact("ran for", job.started.map(|_| elapsed(time_run(job, clock))));
    let used = Used::of(job);
    fact("CPU time", used.map(|used| cpu_time(job, &used)));
    fact("peak memory", used.map(|used| peak_memory(&used)));
    fact("evicted", evicted(job.evictions));
    fact("checkpoint", checkpoint(job));
    fact("time limit", job.time_limit.map(|span| span.to_string()));
    fact("may use", job.allowance.map(allowance));
    fact("used up", job.used_up.map(|used_up| used_up.to_string()));
    fact("deadline", job.deadline.map(time));
    fact("start by", job.start_by.map(time));
    fact("begin", job.begin.map(time));
    fact("depends on", Some(dependencies(job).join(", ")).filter(|list| !list.is_empty()));
    fact("held by", job.held.clone());
    fact("priority", priority(job));
    fact(
        "expected",
        job.estimate.map(|estimate| {
            let power = marked(estimate.power, job.emulated);
            let (duration, energy, source) = (estimate.duration, estimate.energy, estimate.source);
            format!("{duration} at {power}, {energy} ({source}, runs: {})", estimate.runs)
        }),
    );
    fact("energy", job.energy.map(|energy| format!("{}{}", marked(energy, job.emulated), how_sure(job))));
    fact(
        "cost",
        job.energy.map(|_| match job.start_now_cost {
            Some(now) => format!("{} (started at once: {now})", or_dash(job.cost)),
            None => or_dash(job.cost),
        }),
    );
    text
}

/// Formats used against requested CPU time: `7min30s (user 7min, system 30s), 37 % of 2 cores`.
fn cpu_time(job: &JobReport, used: &Used) -> String {
    let share = used.cpu_efficiency().zip(job.total_cores).map_or_else(String::new, |(share, cores)| {
        format!(", {} % of {cores} core{}", percent(share), if cores == 1 { "" } else { "s" })
    });
    format!("{} (user {}, system {}){share}", used.cpu, used.usage.user_cpu, used.usage.system_cpu)
}

/// Formats used against requested memory: `512 MiB, 50 % of 1 GiB`.
fn peak_memory(used: &Used) -> String {
    let share = used.memory_efficiency().zip(used.requested);
    let share = share.map_or_else(String::new, |(share, of)| format!(", {} % of {of}", percent(share)));
    format!("{}{share}", used.usage.max_rss)
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// Formats what checkpoints have kept, and the failure of a later one.
fn checkpoint(job: &JobReport) -> Option<String> {
    let kept = job.kept.map(|ran| format!("{} kept", elapsed(ran)));
    let failed = job.checkpoint_failed.map(|failure| format!("the last one failed: {failure}"));
    let parts: Vec<_> = kept.into_iter().chain(failed).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Formats the number of evictions, such as `by owners: 2, by reboots: 1`.
fn evicted(evictions: Evictions) -> Option<String> {
    let by = |who: &str, count: u32| (count > 0).then(|| format!("by {who}: {count}"));
    let parts = [by("owners", evictions.by_owner), by("reboots", evictions.by_reboot)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Formats packed tasks with their nodes, such as `8, packed: n0 4, n1 2, n2 2`.
fn tasks(job: &JobReport, packed: &PackedTasks) -> String {
    let on = |(node, count): (&String, &u32)| format!("{node} {count}");
    let places: Vec<String> = job.nodes.iter().zip(&packed.per_node).map(on).collect();
    let places = if places.is_empty() { String::new() } else { format!(": {}", places.join(", ")) };
    format!("{}, packed{places}", packed.count)
}

/// Describes a measured energy: `, measured`, and if the node had other jobs `, measured, 75 % sure`.
fn how_sure(job: &JobReport) -> String {
    match job.confidence {
        Some(1_000) if !job.emulated => ", measured".to_owned(),
        Some(permille) if !job.emulated => format!(", measured, {} % sure", permille / 10),
        _ => String::new(),
    }
}

/// Formats limits, such as `2 kWh or 0.40 EUR, then it is ended`.
fn allowance(allowance: Allowance) -> String {
    let energy = allowance.energy.map(|energy| energy.to_string());
    let cost = allowance.cost.map(|cost| cost.to_string());
    let then = match allowance.when_used {
        WhenUsed::Stop => "then it is ended",
        WhenUsed::Warn => "then its user is warned",
    };
    let most: Vec<String> = energy.into_iter().chain(cost).collect();
    format!("{}, {then}", most.join(" or "))
}
