//! Steps: inside of a job, an attached `lrun` runs its command in the allocation of that job.

use std::num::NonZeroU32;
use std::str::FromStr;

use limo_client::Failure;
use limo_model::{Cores, JobId, NodeRange, Step};
use limo_proto::Hold;

use crate::args::Args;

/// Options about allocations and their steps.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Steps")]
pub struct StepArgs {
    /// Inside of a job: submit a job of its own, and not a step of that job
    #[arg(long, hide = true)]
    pub new_job: bool,
    /// In a step: share the cores, memory and accelerators of other steps
    #[arg(long, conflicts_with = "new_job", hide = true)]
    pub overlap: bool,
    /// Run the command once, on the first node; steps use the other nodes and cores
    #[arg(long, conflicts_with_all = ["label", "pty"], hide = true)]
    pub batch: bool,
    /// Only allocate: print the job's number, and keep its nodes for steps until `lq cancel`
    #[arg(long, conflicts_with_all = ["command", "script", "wrap", "batch", "array", "each_line", "wait"], hide = true)]
    pub no_shell: bool,
}

impl StepArgs {
    /// Returns the nodes that only wait for steps.
    pub fn hold(&self) -> Hold {
        match (self.batch, self.no_shell) {
            (_, true) => Hold::All,
            (true, false) => Hold::Others,
            (false, false) => Hold::Nothing,
        }
    }
}

/// Makes a step of the command line if this process runs in a job: options that are not given are those of the job.
/// `variable` returns a variable of the environment.
///
/// # Errors
/// If a variable of the job is damaged, or an option needs a job.
pub fn of_job(args: &mut Args, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Step>, Failure> {
    let is_own = args.steps.new_job || args.how.is_detached() || args.how.dry_run || args.steps.hold() != Hold::Nothing;
    let Some(of) = variable("LIMO_JOB_ID").filter(|_| !is_own) else {
        return match args.steps.overlap {
            true => Err(Failure::new("--overlap is for a step: this is not inside of a job, or the job is a new one")),
            false => Ok(None),
        };
    };
    let of: JobId = read("LIMO_JOB_ID", &of)?;
    let number = |name: &str| variable(name).map(|text| read::<NonZeroU32>(name, &text)).transpose();
    let one = NonZeroU32::MIN;
    let nodes = number("LIMO_NNODES")?.unwrap_or(one);
    let (tasks, cores) = (number("LIMO_NTASKS")?.unwrap_or(one), number("LIMO_CPUS_PER_TASK")?);
    let own = &mut args.tasks;
    if let (None, None, false) = (own.nodes, own.ntasks, args.files.pty) {
        // Like the job itself, on the nodes that are named.
        let named =
            args.resources.nodelist.as_ref().and_then(|list| NonZeroU32::new(u32::try_from(list.0.len()).ok()?));
        let width = named.map_or(nodes, |named| named.min(nodes));
        own.nodes = Some(NodeRange { least: width, most: width });
        if own.ntasks_per_node.is_none() {
            own.ntasks = Some(if named.is_some() { width } else { tasks });
        }
        args.resources.cores = args.resources.cores.or(cores.map(Cores::Count));
    } else if let (None, Some(tasks)) = (own.nodes, own.ntasks) {
        let width = nodes.min(tasks);
        own.nodes = Some(NodeRange { least: width, most: width });
    }
    Ok(Some(Step { of, number: 0, overlap: args.steps.overlap }))
}

fn read<T: FromStr>(name: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| {
        Failure::new(format_args!("the variable {name} is `{text}`, which is not a number of a job's environment"))
            .hint("to submit a job of its own, and not a step: lrun --new-job")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// Makes a step in a job of 8 tasks with 2 cores each, on 2 nodes.
    fn step(options: &[&str]) -> (Option<Step>, Args) {
        let mut args = Args::try_parse_from([&["lrun"], options, &["a"]].concat()).expect("a command line");
        let variable = |name: &str| {
            let value = match name {
                "LIMO_JOB_ID" => "7",
                "LIMO_NNODES" => "2",
                "LIMO_NTASKS" => "8",
                "LIMO_CPUS_PER_TASK" => "2",
                _ => return None,
            };
            Some(value.to_owned())
        };
        (of_job(&mut args, variable).expect("a step or none"), args)
    }

    #[test]
    fn a_step_is_as_large_as_its_job_unless_options_say_otherwise() {
        let check = |options: &[&str], expected: (u32, u32, &str)| {
            let (step, args) = step(options);
            assert_eq!(step.map(|step| step.of), Some(JobId(7)), "{options:?}");
            let nodes = args.tasks.nodes.map_or(1, |nodes| nodes.least.get());
            let cores = args.tasks.cores(&args.resources).to_string();
            assert_eq!((nodes, args.tasks.count().get(), cores.as_str()), expected, "{options:?}");
        };
        check(&[], (2, 8, "2"));
        check(&["-c", "1"], (2, 8, "1"));
        check(&["-n", "1"], (1, 1, "1"));
        check(&["-n", "3"], (2, 3, "1"));
        check(&["-N", "1"], (1, 1, "1"));
        check(&["-N", "2", "-n", "4", "-c", "3"], (2, 4, "3"));
        check(&["-w", "n2"], (1, 1, "2"));
        check(&["--ntasks-per-node", "3"], (2, 6, "2"));
    }

    #[test]
    fn other_jobs_are_no_steps() {
        for options in [&["--new-job"][..], &["--detach"], &["-W"], &["--dry-run"], &["--batch"]] {
            assert_eq!(step(options).0, None, "{options:?}");
        }
        assert!(step(&["--overlap"]).0.is_some_and(|step| step.overlap));
        let mut outside = Args::try_parse_from(["lrun", "--overlap", "a"]).expect("a command line");
        assert!(of_job(&mut outside, |_| None).is_err());
        let mut damaged = Args::try_parse_from(["lrun", "a"]).expect("a command line");
        let failure = of_job(&mut damaged, |_| Some("x".to_owned())).expect_err("no number");
        let expected = "the variable LIMO_JOB_ID is `x`, which is not a number of a job's environment";
        assert_eq!(failure.message, expected);
    }
}
