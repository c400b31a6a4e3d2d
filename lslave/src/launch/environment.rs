//! Environment of a job: the submitter's variables and Limo's own.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use limo_model::environment::{CPU_BIND, WITH_SLURM_NAMES, is_own, is_slurm_name, slurm_names};
use limo_model::{CpuBind, Part, UnitKind, host_list};
use limo_proto::{DoExec, Launch, Share};

use super::{Surroundings, checkpoint_directory};
use limo_shepherd::processes::COOKIE;

/// Makes the environment. [`limo_model::environment`] lists the variables.
pub(super) fn environment(exec: &DoExec, around: &Surroundings, work_end: Option<RawFd>) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let number = |number: i64| OsString::from(number.to_string());
    let Launch { cwd, origin, env, .. } = &exec.launch;
    let units: Vec<_> =
        exec.placement.iter().filter_map(|part| around.spec.units.get(usize::from(part.unit.unit))).collect();
    let list = |names: Vec<&str>| OsString::from(names.join(","));
    let own_cores = own_cores(exec, around);
    let cores = number(own_cores);
    let node = OsString::from(&around.spec.name);
    let spread = Spread::of(exec, &around.spec.name);
    let all = OsString::from(&spread.nodes);
    // The tasks of a job without CPU cores share its accelerators.
    let per_task = number((own_cores / spread.here.max(1)).max(1));
    let mut own = vec![
        ("LIMO_JOB_ID", exec.step.map_or(exec.job, |of| of.job).to_string().into()),
        ("LIMO_JOB_NAME", OsString::from(&exec.name)),
        ("LIMO_JOB_NODELIST", all.clone()),
        ("LIMO_NODELIST", all),
        ("LIMO_JOB_NUM_NODES", number(spread.count)),
        ("LIMO_NNODES", number(spread.count)),
        ("LIMO_TASKS_PER_NODE", OsString::from(&spread.per_node)),
        ("LIMO_NTASKS", number(spread.total)),
        // Each of several tasks gets its own value.
        ("LIMO_PROCID", number(spread.first)),
        ("LIMO_LOCALID", number(0)),
        ("LIMO_NODEID", number(spread.index)),
        ("LIMO_NODE", node),
        ("LIMO_UNIT", list(units.iter().map(|unit| unit.name.as_str()).collect())),
        ("LIMO_HARDWARE", list(units.iter().map(|unit| unit.hardware.as_str()).collect())),
        ("LIMO_CPUS", cores.clone()),
        ("LIMO_CPUS_ON_NODE", cores),
        ("LIMO_CPUS_PER_TASK", per_task),
        // Jobs stored by earlier versions have no directory of submission, so they get the working directory.
        ("LIMO_SUBMIT_DIR", text(if origin.directory.is_empty() { cwd } else { &origin.directory })),
        ("LIMO_SUBMIT_HOST", OsString::from(&origin.host)),
        ("LIMO_RESTART_COUNT", number(exec.restarts.into())),
        ("LIMO_JOB_START_TIME", number(around.now_s)),
        (COOKIE, around.cookie.into()),
    ];
    if let Some(of) = exec.step {
        own.push(("LIMO_STEP_ID", number(of.number.into())));
    }
    match cpu_bind(&exec.launch) {
        CpuBind::None => {}
        bind => own.push((CPU_BIND, bind.to_string().into())),
    }
    if let Some(limit) = exec.time_limit {
        own.push(("LIMO_JOB_END_TIME", number(around.now_s.saturating_add(limit.ms() / 1000))));
    }
    if let Some(name) = checkpoint_directory(exec, around.spec) {
        own.push(("LIMO_CHECKPOINT_DIR", Path::new(&text(cwd)).join(name).into_os_string()));
    }
    if let Some(task) = &exec.task {
        own.extend([
            ("LIMO_ARRAY_JOB_ID", task.array.to_string().into()),
            ("LIMO_ARRAY_TASK_ID", task.number.to_string().into()),
            ("LIMO_ARRAY_TASK_COUNT", task.count.to_string().into()),
            ("LIMO_ARRAY_TASK_MIN", task.lowest.to_string().into()),
            ("LIMO_ARRAY_TASK_MAX", task.highest.to_string().into()),
        ]);
        own.extend(task.entry.as_deref().map(|entry| ("LIMO_ARRAY_ENTRY", text(entry))));
    }
    if let Some(ordinals) = ordinals(exec, around) {
        own.extend([("LIMO_JOB_GPUS", ordinals.clone()), ("CUDA_VISIBLE_DEVICES", ordinals)]);
        own.push(("CUDA_DEVICE_ORDER", "PCI_BUS_ID".into()));
    }
    if let Some(end) = work_end {
        own.push(("LIMO_EMULATED_WORK_FD", number(end.into())));
    }
    let with_slurm = env.iter().any(|(key, _)| key == WITH_SLURM_NAMES.as_bytes());
    if with_slurm {
        let renamed = own.iter().flat_map(|(name, value)| slurm_names(name).map(|slurm| (slurm, value.clone())));
        let mut renamed: Vec<_> = renamed.collect();
        // On several nodes, this one does not know the numbers of the others.
        renamed.extend((spread.count == 1).then(|| ("SLURM_JOB_CPUS_PER_NODE", number(own_cores))));
        own.extend(renamed);
    }
    // If a job submits this one, the values of that job would be wrong here.
    // A step is of the same task of an array as its job.
    let of_array = |key: &[u8]| key.starts_with(b"LIMO_ARRAY_") || key.starts_with(b"SLURM_ARRAY_");
    let is_kept = |key: &[u8]| exec.step.is_some() && of_array(key);
    let is_foreign = |key: &[u8]| (is_own(key) || with_slurm && is_slurm_name(key)) && !is_kept(key);
    let is_set = |key: &[u8]| is_foreign(key) || own.iter().any(|(name, _)| name.as_bytes() == key);
    let inherited = env.iter().filter(|(key, _)| !is_set(key));
    let mut all: Vec<_> = inherited.map(|(key, value)| (text(key), text(value))).collect();
    all.extend(own.into_iter().map(|(key, value)| (key.into(), value)));
    all
}

/// Returns the binding of the job's tasks that its submission asks for.
pub fn cpu_bind(launch: &Launch) -> CpuBind {
    let value = launch.env.iter().find(|(name, _)| name == CPU_BIND.as_bytes()).map(|(_, value)| value);
    value.and_then(|value| str::from_utf8(value).ok()?.parse().ok()).unwrap_or_default()
}

/// Returns the number of the job's cores of the CPU; if it has none, that of its accelerators.
fn own_cores(exec: &DoExec, around: &Surroundings) -> i64 {
    let kind = |part: &Part| around.spec.units.get(usize::from(part.unit.unit)).map(|unit| unit.kind);
    let of = |part: &Part| i64::from(part.cores);
    let on_cpu = exec.placement.iter().filter(|part| kind(part) == Some(UnitKind::Cpu)).map(of).sum();
    if on_cpu > 0 { on_cpu } else { exec.placement.iter().map(of).sum() }
}

/// Returns the indices of the job's accelerators, from 0, separated by commas; `None` without any.
fn ordinals(exec: &DoExec, around: &Surroundings) -> Option<OsString> {
    let accelerators = (0_u16..).zip(&around.spec.units).filter(|(_, unit)| unit.kind == UnitKind::Accelerator);
    let has = |unit: u16| exec.placement.iter().any(|part| part.unit.unit == unit);
    let own = accelerators.enumerate().filter(|(_, (unit, _))| has(*unit));
    let ordinals: Vec<String> = own.map(|(ordinal, _)| ordinal.to_string()).collect();
    (!ordinals.is_empty()).then(|| ordinals.join(",").into())
}

/// Distribution of a job's tasks, in the words of its environment.
struct Spread {
    nodes: String,
    per_node: String,
    count: i64,
    total: i64,
    first: i64,
    here: i64,
    index: i64,
}

impl Spread {
    fn of(exec: &DoExec, node: &str) -> Self {
        let Some(share) = &exec.share else {
            let (count, total, first, here, index) = (1, 1, 0, 1, 0);
            return Self { nodes: node.to_owned(), per_node: "1".to_owned(), count, total, first, here, index };
        };
        let (first, here) = share.own();
        Self {
            nodes: host_list(share.nodes.iter().map(String::as_str)),
            per_node: per_node(share),
            count: i64::try_from(share.nodes.len()).unwrap_or(i64::MAX),
            total: share.total().into(),
            first: first.into(),
            here: here.into(),
            index: share.index.into(),
        }
    }
}

/// Formats the tasks per node as Slurm does: `2(x3),1`.
fn per_node(share: &Share) -> String {
    let run = |run: &[u32]| match run {
        [count] => count.to_string(),
        [count, ..] => format!("{count}(x{})", run.len()),
        [] => String::new(),
    };
    share.tasks.chunk_by(|a, b| a == b).map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Span;

    #[test]
    fn neighbouring_nodes_with_equal_tasks_are_counted() {
        let check = |tasks: &[u32], expected: &str| {
            let share = Share { nodes: Vec::new(), index: 0, tasks: tasks.to_vec(), grace: Span::ZERO };
            assert_eq!(per_node(&share), expected);
        };
        check(&[2, 2, 2, 1], "2(x3),1");
        check(&[3], "3");
    }
}
