//! `lrun -N`, `-n`, `-l`, `-K`: jobs of several tasks, with common streams and a common end.

use std::num::NonZeroU32;

use limo_client::Failure;
use limo_model::{Arrange, Cores, CpuBind, NodeRange, Spread, Widths};
use limo_proto::Parallel;

use crate::args::Args;
use crate::files::StdinSource;
use crate::resources::ResourceArgs;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Resources")]
pub struct TaskArgs {
    /// Number of nodes (or 2-8), with one task each unless -n gives more
    #[arg(short = 'N', long, value_name = "N")]
    pub nodes: Option<NodeRange>,
    /// Number of tasks
    #[arg(short = 'n', long, value_name = "N")]
    pub ntasks: Option<NonZeroU32>,
    /// Run at most N tasks on one node
    #[arg(long, value_name = "N", hide = true)]
    pub ntasks_per_node: Option<NonZeroU32>,
    /// Place each task where there is room, so nodes may get different numbers; --mem and --gres are per task
    #[arg(long, hide = true, requires = "ntasks", conflicts_with_all = ["nodes", "ntasks_per_node"])]
    pub pack: bool,
    /// Begin each line of output with the number of its task
    #[arg(short, long, hide = true)]
    pub label: bool,
    /// End the other tasks when one fails
    #[arg(short = 'K', long, hide = true)]
    pub kill_on_bad_exit: bool,
    /// Bind each task to cores of its own, or to their sockets or NUMA nodes
    #[arg(long, value_name = "none|cores|sockets|numa", hide = true)]
    pub cpu_bind: Option<CpuBind>,
}

impl TaskArgs {
    /// Returns the number of tasks, on the least number of nodes.
    pub fn count(&self) -> NonZeroU32 {
        let least = self.nodes.map_or(NonZeroU32::MIN, |nodes| nodes.least);
        self.ntasks.unwrap_or_else(|| self.each().saturating_mul(least))
    }

    /// Returns the number of tasks of each node, if it determines that of the job.
    fn each(&self) -> NonZeroU32 {
        self.ntasks_per_node.unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the range of nodes, if one is given.
    pub fn widths(&self) -> Option<Widths> {
        let NodeRange { least, most } = self.nodes.filter(|nodes| nodes.least < nodes.most)?;
        let tasks_per_node = self.ntasks.is_none().then(|| self.each());
        Some(Widths { least, most, tasks_per_node })
    }

    /// Returns the cores of each task. With whole nodes, a single task uses all of their cores by default, and each
    /// of several tasks uses one.
    pub fn cores(&self, resources: &ResourceArgs) -> Cores {
        let usual =
            if self.ntasks.is_none() && resources.is_exclusive() { Cores::All } else { Cores::Count(NonZeroU32::MIN) };
        resources.cores.unwrap_or(usual)
    }

    /// Returns the arrangement of the tasks.
    pub fn arrange(&self) -> Arrange {
        if self.pack { Arrange::Pack } else { Arrange::Spread }
    }

    /// Returns the request for several nodes or tasks; `None` for one plain task.
    pub fn spread(&self, resources: &ResourceArgs) -> Option<Spread> {
        let cores = self.cores(resources);
        let nodes = self.nodes.map(|nodes| nodes.least);
        let spread = Spread { tasks: self.count(), cores, nodes, per_node: self.ntasks_per_node };
        let one = self.count() == NonZeroU32::MIN && self.nodes.is_none_or(|nodes| nodes.most == NonZeroU32::MIN);
        (self.label || !one).then_some(spread)
    }
}

/// Returns the tasks' use of the streams, if there is a [`Spread`].
///
/// # Errors
/// If stdin is for a task that does not exist, or several tasks would share a terminal.
pub fn parallel(args: &Args) -> Result<Option<Parallel>, Failure> {
    let TaskArgs { label, kill_on_bad_exit, .. } = args.tasks;
    let count = args.tasks.count().get();
    let reader = match args.files.input {
        Some(StdinSource::Task(task)) if task >= count => {
            let words =
                if count == 1 { "the only task is 0".to_owned() } else { format!("the tasks are 0 to {}", count - 1) };
            return Err(Failure::new(format_args!("--input {task}: {words}"))
                .hint(format_args!("write `--input ./{task}` for a file of that name")));
        }
        Some(StdinSource::Task(task)) => Some(task),
        _ => None,
    };
    let several = args.tasks.spread(&args.resources).is_some();
    if several && args.files.pty {
        return Err(Failure::new("--pty is for one task: -N, -n and --label give several, or change its output"));
    }
    Ok(several.then_some(Parallel { label, reader, kill_on_bad_exit, quiet: args.how.quiet }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn check(options: &[&str], expected: Result<Option<(u32, Option<u32>)>, &str>) {
        let args = Args::try_parse_from(["lrun"].iter().chain(options).chain(&["a"])).expect("a command line");
        let found = parallel(&args).map(|parallel| {
            let spread = args.tasks.spread(&args.resources);
            assert_eq!(spread.is_some(), parallel.is_some(), "{options:?}");
            spread.zip(parallel).map(|(spread, parallel)| (spread.tasks.get(), parallel.reader))
        });
        assert_eq!(found.map_err(|failure| failure.message), expected.map_err(str::to_owned), "{options:?}");
    }

    #[test]
    fn one_plain_task_is_not_spread() {
        check(&[], Ok(None));
        check(&["-n", "1", "-K"], Ok(None));
        check(&["-i", "0"], Ok(None));
        check(&["-l"], Ok(Some((1, None))));
        check(&["-n", "3", "-i", "2"], Ok(Some((3, Some(2)))));
        check(&["--ntasks-per-node", "4"], Ok(Some((4, None))));
        check(&["-N", "1"], Ok(None));
        check(&["-N", "2"], Ok(Some((2, None))));
        check(&["-N", "2", "--ntasks-per-node", "3", "-i", "5"], Ok(Some((6, Some(5)))));
        check(&["-N", "2", "-n", "5"], Ok(Some((5, None))));
        check(&["-N", "1-4"], Ok(Some((1, None))));
        check(&["-N", "2-4", "--ntasks-per-node", "3"], Ok(Some((6, None))));
        check(&["-n", "3", "-i", "all"], Ok(Some((3, None))));
    }

    #[test]
    fn tasks_follow_a_range_of_nodes_unless_n_gives_them() {
        let check = |options: &[&str], expected: Option<(u32, u32, Option<u32>)>| {
            let args = Args::try_parse_from(["lrun"].iter().chain(options).chain(&["a"])).expect("a command line");
            let widths = args.tasks.widths();
            let found = widths.map(|of| (of.least.get(), of.most.get(), of.tasks_per_node.map(NonZeroU32::get)));
            assert_eq!(found, expected, "{options:?}");
        };
        check(&["-N", "2"], None);
        check(&["-N", "2-2"], None);
        check(&["--nodes", "2-8"], Some((2, 8, Some(1))));
        check(&["-N", "2-8", "--ntasks-per-node", "4"], Some((2, 8, Some(4))));
        check(&["-N", "2-8", "-n", "16"], Some((2, 8, None)));
    }

    #[test]
    fn impossible_combinations_are_refused() {
        check(&["-n", "3", "-i", "3"], Err("--input 3: the tasks are 0 to 2"));
        check(&["-i", "3"], Err("--input 3: the only task is 0"));
        let words = "--pty is for one task: -N, -n and --label give several, or change its output";
        check(&["-n", "3", "--pty"], Err(words));
    }
}
