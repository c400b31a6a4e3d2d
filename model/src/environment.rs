//! The variables that Limo sets in the environment of a job. `docs/environment.md` is made from this list.

/// A variable of a job's environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Name in the environment.
    pub name: &'static str,
    /// The meaning, as a sentence without its full stop.
    pub meaning: &'static str,
    /// The jobs that have the variable.
    pub set: Set,
    /// The equivalent variable of Slurm, if any.
    pub slurm: Option<&'static str>,
}

/// Condition under which a variable is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Set in every job.
    Always,
    /// Set in a job with a time limit.
    WithTimeLimit,
    /// Set in a job with `--cpu-bind`.
    WithCpuBind,
    /// Set in a job with checkpoints.
    WithCheckpoints,
    /// Set in the command that makes checkpoints.
    InCheckpointCommand,
    /// Set in a step of a job.
    InStep,
    /// Set in a task of an array.
    InArray,
    /// Set in a task of an array from the lines of a file.
    WithLines,
    /// Set on accelerators.
    OnAccelerators,
    /// Set on emulated hardware that knows the application.
    OnEmulatedHardware,
}

impl Set {
    fn words(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::WithTimeLimit => "with a time limit",
            Self::WithCpuBind => "with `--cpu-bind`",
            Self::WithCheckpoints => "with `--checkpoint`",
            Self::InCheckpointCommand => "in the command of `--checkpoint`",
            Self::InStep => "in a step",
            Self::InArray => "in a task of an array",
            Self::WithLines => "with `--each-line`",
            Self::OnAccelerators => "on accelerators",
            Self::OnEmulatedHardware => "on emulated hardware that knows the application",
        }
    }
}

const fn always(name: &'static str, slurm: Option<&'static str>, meaning: &'static str) -> Variable {
    Variable { name, meaning, set: Set::Always, slurm }
}

const fn on_accelerators(name: &'static str, slurm: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning, set: Set::OnAccelerators, slurm: Some(slurm) }
}

const fn in_array(name: &'static str, slurm: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning, set: Set::InArray, slurm: Some(slurm) }
}

/// The variables in the order of the page.
pub const VARIABLES: [Variable; 37] = [
    always("LIMO_JOB_ID", Some("SLURM_JOB_ID"), "the job's number"),
    Variable {
        name: "LIMO_STEP_ID",
        meaning: "the number of the step in its job; its other variables, but for `LIMO_JOB_ID`, are those of the step",
        set: Set::InStep,
        slurm: Some("SLURM_STEP_ID"),
    },
    always("LIMO_JOB_NAME", Some("SLURM_JOB_NAME"), "the job's name"),
    always("LIMO_JOB_NODELIST", Some("SLURM_JOB_NODELIST"), "the names of its nodes, as a list of hosts"),
    always("LIMO_JOB_NUM_NODES", Some("SLURM_JOB_NUM_NODES"), "how many nodes it has"),
    always("LIMO_NNODES", Some("SLURM_NNODES"), "the same as `LIMO_JOB_NUM_NODES`"),
    always("LIMO_NODELIST", Some("SLURM_NODELIST"), "the same as `LIMO_JOB_NODELIST`"),
    always("LIMO_TASKS_PER_NODE", Some("SLURM_TASKS_PER_NODE"), "how many tasks each node has, e.g. `2(x3),1`"),
    always("LIMO_NTASKS", Some("SLURM_NTASKS"), "how many tasks it has"),
    always("LIMO_PROCID", Some("SLURM_PROCID"), "which of its tasks this is, from 0"),
    always("LIMO_LOCALID", Some("SLURM_LOCALID"), "which of its tasks on this node this is, from 0"),
    always("LIMO_NODEID", Some("SLURM_NODEID"), "which of its nodes this is, from 0"),
    always("LIMO_NODE", Some("SLURMD_NODENAME"), "the name of this node"),
    always("LIMO_UNIT", None, "the units of this node that it has, with commas between them"),
    always("LIMO_HARDWARE", None, "the types of these units, in the same order"),
    on_accelerators(
        "LIMO_JOB_GPUS",
        "SLURM_JOB_GPUS",
        "which of the accelerators of this node it has, from 0, with commas between them",
    ),
    on_accelerators("CUDA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "the same, for CUDA: it finds no others"),
    on_accelerators(
        "CUDA_DEVICE_ORDER",
        "CUDA_DEVICE_ORDER",
        "`PCI_BUS_ID`: CUDA counts the accelerators as the node does",
    ),
    always("LIMO_CPUS", None, "how many cores it has; the same as `LIMO_CPUS_ON_NODE`"),
    always("LIMO_CPUS_ON_NODE", Some("SLURM_CPUS_ON_NODE"), "how many cores of this node it has"),
    always("LIMO_CPUS_PER_TASK", Some("SLURM_CPUS_PER_TASK"), "how many cores each task has"),
    Variable {
        name: CPU_BIND,
        meaning: "the binding of its tasks to cores: `none`, `cores`, `sockets` or `numa`",
        set: Set::WithCpuBind,
        slurm: None,
    },
    always("LIMO_SUBMIT_DIR", Some("SLURM_SUBMIT_DIR"), "the directory in which `lrun` was called"),
    always("LIMO_SUBMIT_HOST", Some("SLURM_SUBMIT_HOST"), "the machine on which `lrun` was called"),
    always("LIMO_RESTART_COUNT", Some("SLURM_RESTART_COUNT"), "how often it was ended to run again (`--requeue`)"),
    always("LIMO_JOB_START_TIME", Some("SLURM_JOB_START_TIME"), "when it started, in seconds since 1970 (UTC)"),
    Variable {
        name: "LIMO_JOB_END_TIME",
        meaning: "when its time limit ends it, in seconds since 1970 (UTC); later by as long as it is suspended",
        set: Set::WithTimeLimit,
        slurm: Some("SLURM_JOB_END_TIME"),
    },
    Variable {
        name: "LIMO_CHECKPOINT_DIR",
        meaning: "the directory for its checkpoints, the same one at each restart",
        set: Set::WithCheckpoints,
        slurm: None,
    },
    Variable {
        name: "LIMO_JOB_PID",
        meaning: "the number of the first process of the job on this node",
        set: Set::InCheckpointCommand,
        slurm: None,
    },
    in_array("LIMO_ARRAY_JOB_ID", "SLURM_ARRAY_JOB_ID", "the array's own number"),
    in_array("LIMO_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_ID", "the number of the task"),
    in_array("LIMO_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_COUNT", "how many tasks the array has"),
    in_array("LIMO_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MIN", "the lowest number of its tasks"),
    in_array("LIMO_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_MAX", "the highest number of its tasks"),
    Variable { name: "LIMO_ARRAY_ENTRY", meaning: "the line of the file", set: Set::WithLines, slurm: None },
    always("LIMO_ATTEMPT", None, "a random word by which the node finds the processes of the job; do not change it"),
    Variable {
        name: "LIMO_EMULATED_WORK_FD",
        meaning: "the descriptor that reads as ended when the job's modelled work is done",
        set: Set::OnEmulatedHardware,
        slurm: None,
    },
];

/// Variable in the environment of a submission, by which a job also gets Slurm's names of its variables.
pub const WITH_SLURM_NAMES: &str = "LIMO_SLURM";

/// Variable by which a submission asks nodes to bind its tasks to cores; a [`crate::CpuBind`].
pub const CPU_BIND: &str = "LIMO_CPU_BIND";

/// Further names that Slurm has for a variable of the list.
const OLD_NAMES: [(&str, &str); 2] = [("LIMO_JOB_ID", "SLURM_JOBID"), ("LIMO_NTASKS", "SLURM_NPROCS")];

/// Returns true if Limo sets a variable of this name. An inherited value is then meaningless.
pub fn is_own(name: &[u8]) -> bool {
    name.starts_with(b"LIMO_") && VARIABLES.iter().any(|variable| variable.name.as_bytes() == name)
}

/// Returns Slurm's names for a variable of the list.
pub fn slurm_names(name: &str) -> impl Iterator<Item = &'static str> {
    let usual = VARIABLES.iter().filter(move |variable| variable.name == name).filter_map(|variable| variable.slurm);
    let old = OLD_NAMES.iter().filter(move |(own, _)| *own == name).map(|(_, slurm)| *slurm);
    usual.chain(old).filter(|slurm| slurm.starts_with("SLURM"))
}

/// Returns true for a name of Slurm that [`slurm_names`] returns for some variable.
pub fn is_slurm_name(name: &[u8]) -> bool {
    name.starts_with(b"SLURM")
        && VARIABLES.iter().any(|variable| slurm_names(variable.name).any(|slurm| slurm.as_bytes() == name))
}

/// Returns the text of `docs/environment.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# The environment of a job\n\n\
         A job gets the environment of its submitter, or what `lrun --export` leaves of it, and these variables. Those of another\n\
         job, which the submitter may be part of, do not come along. This page is made from the list in\n\
         `model/src/environment.rs` by `cargo xtask environment`.\n\n\
         A job with `LIMO_SLURM` in its environment gets each variable under the name in the last column, too. The\n\
         [commands of `lslurm`](coming-from-slurm.md) set it.\n\n\
         | variable | set | meaning | in Slurm |\n|---|---|---|---|\n",
    );
    for Variable { name, meaning, set, slurm } in VARIABLES {
        let slurm = slurm.map_or_else(String::new, |slurm| format!("`{slurm}`"));
        page += &format!("| `{name}` | {} | {meaning} | {slurm} |\n", set.words());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_the_list() {
        let written = include_str!("../../docs/environment.md");
        assert!(written == page(), "docs/environment.md is not what `cargo xtask environment` writes");
    }

    #[test]
    fn each_variable_stands_once() {
        for (index, variable) in VARIABLES.iter().enumerate() {
            let is_of_others = variable.set == Set::OnAccelerators && variable.name.starts_with("CUDA_");
            assert!(variable.name.starts_with("LIMO_") || is_of_others, "{}", variable.name);
            assert!(VARIABLES[..index].iter().all(|other| other.name != variable.name), "{}", variable.name);
        }
        assert!(slurm_names("LIMO_JOB_ID").eq(["SLURM_JOB_ID", "SLURM_JOBID"]));
        assert!(slurm_names("LIMO_UNIT").next().is_none() && slurm_names("CUDA_VISIBLE_DEVICES").next().is_none());
        assert!(is_slurm_name(b"SLURMD_NODENAME") && is_slurm_name(b"SLURM_JOBID") && !is_slurm_name(b"SLURM_CONF"));
        assert!(is_own(b"LIMO_JOB_ID") && !is_own(b"LIMO_MASTER") && !is_own(b"CUDA_VISIBLE_DEVICES"));
    }
}
