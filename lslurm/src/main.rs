//! `lslurm`: Slurm's commands on Limo. It behaves by the name that it is called by, or by its first argument:
//! `lslurm sbatch job.sh`. Options, output and exit codes are those of Slurm 22.05.

mod call;
mod format;
mod getopt;
mod json;
mod moment;
mod partitions;
mod sacct;
mod sacctmgr;
mod salloc;
mod sattach;
mod sbatch;
mod scancel;
mod scontrol;
mod script;
mod seff;
mod select;
mod sinfo;
mod squeue;
mod srun;
mod sstat;
mod status;
mod submit;
mod values;
mod view;

use std::process::ExitCode;

use limo_client::tell;

use crate::call::Call;

/// A command of Slurm, with the function that runs it.
type SlurmCommand = (&'static str, fn(Call) -> ExitCode);

const COMMANDS: [SlurmCommand; 12] = [
    ("sbatch", |call| call.run(sbatch::run)),
    ("srun", |call| call.run(srun::run)),
    ("squeue", |call| call.run(squeue::run)),
    ("scancel", |call| call.run(scancel::run)),
    ("sacct", |call| call.run(sacct::run)),
    ("sinfo", |call| call.run(sinfo::run)),
    ("scontrol", |call| call.run(scontrol::run)),
    ("seff", |call| call.run(seff::run)),
    ("sacctmgr", |call| call.run(sacctmgr::run)),
    ("salloc", |call| call.run(salloc::run)),
    ("sattach", |call| call.run(sattach::run)),
    ("sstat", |call| call.run(sstat::run)),
];

fn main() -> ExitCode {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let own = words.next().unwrap_or_default();
    let find = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        COMMANDS.iter().find(|(command, _)| *command == name)
    };
    let (path, (name, run)) = match find(&own) {
        Some(command) => (own, command),
        None => {
            let first = words.next().unwrap_or_default();
            let Some(command) = COMMANDS.iter().find(|(command, _)| *command == first) else {
                let known: Vec<&str> = COMMANDS.iter().map(|(command, _)| *command).collect();
                tell(&format!(
                    "lslurm: error: `{first}` is not a command: {}\n\
                     lslurm: hint: lslurm sbatch job.sh, or a link of the command's name to lslurm\n",
                    known.join(", ")
                ));
                return ExitCode::FAILURE;
            };
            (first, command)
        }
    };
    run(Call { path, name, words: words.collect() })
}
