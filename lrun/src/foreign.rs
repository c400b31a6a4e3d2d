//! Advice about options of `srun` and `sbatch` that `lrun` does not have.

/// Forms of each option, and the advice.
const OPTIONS: [(&[&str], &str); 12] = [
    (&["--clusters", "-M"], "write `--master ENDPOINT` to reach another cluster"),
    (&["--cpus-per-task"], "write `--cores N`"),
    (&["--cpu-freq"], "Limo chooses caps itself; `lq explain JOB` shows them"),
    (&["--gpus-per-node"], "write `--gpus N`: the number per node"),
    (&["--gpus-per-task"], "write `--gpus N`: the number per node"),
    (&["--hint"], "write `--cpu-bind cores` to bind tasks to cores"),
    (&["--mem-per-cpu"], "write `--mem SIZE` for each node"),
    (&["--mpi"], "Limo starts the tasks of a job without MPI: call mpirun in the job"),
    (&["-q"], "write `--qos NAME`"),
    (&["--tasks-per-node"], "write `--ntasks-per-node N`"),
    (&["--time-min"], "Limo has only one time limit: `--time SPAN`"),
    (&["--tmp"], "Limo does not manage the disks of nodes"),
];

/// Returns advice for an option that `lrun` does not know.
pub fn instead(option: &str) -> Option<String> {
    let option = option.split('=').next().unwrap_or(option);
    let (_, advice) = OPTIONS.iter().find(|(forms, _)| forms.contains(&option))?;
    Some((*advice).to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn advice_is_found_for_each_form_of_an_option() {
        assert_eq!(instead("--tasks-per-node").as_deref(), Some("write `--ntasks-per-node N`"));
        assert_eq!(instead("--cpus-per-task=4").as_deref(), Some("write `--cores N`"));
        assert_eq!(instead("--cores"), None);
    }

    #[test]
    fn lrun_has_none_of_these_options() {
        let command = crate::args::Args::command();
        for form in OPTIONS.iter().flat_map(|(forms, _)| *forms) {
            let own = command.get_arguments().any(|arg| {
                arg.get_long_and_visible_aliases()
                    .is_some_and(|names| names.iter().any(|name| *form == format!("--{name}")))
                    || arg.get_short().is_some_and(|short| *form == format!("-{short}"))
            });
            assert!(!own, "{form} is an option of lrun");
        }
    }
}
