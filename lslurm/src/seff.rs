//! `seff`: shows the efficiency of a job that is over, as the script of this name that comes with Slurm.

use limo_client::{Clock, Failure, Selectors, answer, exit, plain, tell};
use limo_model::Memory;

use crate::call::{Call, FAILED};
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both};
use crate::view::View;
use crate::{status, values};

const OPTIONS: [OptionRow; 5] = [
    both('d', "debug", Nothing),
    both('h', "help", Nothing),
    both('M', "cluster", Value),
    both('v', "verbose", Nothing),
    both('V', "version", Nothing),
];

/// Prints the report of one job.
///
/// # Errors
/// If the arguments are wrong, or the master cannot be asked.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let operands = match call.options(&OPTIONS, true) {
        Ok((_, operands)) => operands,
        Err(code) => return Ok(code),
    };
    let [number] = operands.as_slice() else {
        return Err(Failure::new("name one job: seff JOB"));
    };
    let selectors: Selectors =
        number.parse().map_err(|_| Failure::new(format_args!("Job not found: `{number}` is not a job")))?;
    let mut session = call.master()?.session().await?;
    let found = match session.select(&selectors.0, false).await {
        Ok(numbers) if numbers.len() == 1 => session.job(numbers[0]).await.ok(),
        _ => None,
    };
    let Some(job) = found else {
        tell("Job not found.\n");
        return Ok(FAILED);
    };
    answer(&report(&View { job: &job, clock: &Clock::system() }))?;
    Ok(exit::DONE)
}

fn report(view: &View) -> String {
    let state = status::accounted(view.job);
    let code = status::exit_code(view.job);
    let code = code.split_once(':').map_or(code.as_str(), |(code, _)| code);
    let (cores, nodes) = (view.cores(), view.node_count());
    let shape = match (cores, nodes) {
        (1, _) => "Cores: 1\n".to_owned(),
        (_, 1) => format!("Nodes: 1\nCores per node: {cores}\n"),
        _ => format!("Nodes: {nodes}\nCores per node: {}\n", cores.div_ceil(nodes)),
    };
    let label = match view.job.task {
        Some(_) => format!("Array Job ID: {}\n", view.label()),
        None => String::new(),
    };
    let head = format!(
        "Job ID: {id}\n{label}Cluster: limo\nUser/Group: {user}/{group}\nState: {state} (exit code {code})\n{shape}",
        id = view.number(),
        user = plain(&view.job.user),
        group = view.group(),
    );
    let Some(used) = view.used() else {
        return head + "Efficiency not available for jobs that are not over or did not run.\n";
    };
    let share = |share: Option<f64>| format!("{:.2}%", share.unwrap_or_default() * 100.0);
    let walltime = used.core_time.unwrap_or_default();
    let memory = used.requested.map_or_else(
        || "Memory Efficiency: no memory was requested\n".to_owned(),
        |most| format!("Memory Efficiency: {} of {}\n", share(used.memory_efficiency()), megabytes(most)),
    );
    format!(
        "{head}CPU Utilized: {cpu}\nCPU Efficiency: {efficiency} of {walltime} core-walltime\n\
         Job Wall-clock time: {run}\nMemory Utilized: {peak}\n{memory}",
        cpu = values::time_whole(used.cpu),
        efficiency = share(used.cpu_efficiency()),
        walltime = values::time_whole(walltime),
        run = values::time_whole(view.run()),
        peak = megabytes(used.usage.max_rss),
    )
}

/// Formats a size with two digits, as seff does.
fn megabytes(memory: Memory) -> String {
    let (mut size, mut units) = (memory.bytes() as f64 / 1024.0, ["KB", "MB", "GB", "TB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, next);
    }
    format!("{size:.2} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_fake::{finished_job, waiting_job};
    use limo_model::Outcome;

    #[test]
    fn a_report_has_the_lines_of_seff() {
        let job = limo_proto::JobReport { total_cores: Some(2), ..finished_job(7, Outcome::Exited(3)) };
        let clock = Clock::utc(job.submitted);
        let text = report(&View { job: &job, clock: &clock });
        let expected = "Job ID: 7\nCluster: limo\nUser/Group: ada/\nState: FAILED (exit code 3)\nNodes: 1\n\
                        Cores per node: 2\nCPU Utilized: 00:07:30\nCPU Efficiency: 37.50% of 00:20:00 core-walltime\n\
                        Job Wall-clock time: 00:10:00\nMemory Utilized: 512.00 MB\nMemory Efficiency: 50.00% of 1.00 GB\n";
        assert_eq!(text, expected);
        let text = report(&View { job: &waiting_job(7), clock: &clock });
        assert!(
            text.ends_with("Cores: 1\nEfficiency not available for jobs that are not over or did not run.\n"),
            "{text}"
        );
    }
}
