//! The environment of a job: the submitter's, and what Limo tells the job.

use std::ffi::OsString;
use std::io::PipeReader;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;

use limo_model::environment::is_own;
use limo_proto::{DoExec, Launch};

use super::Surroundings;
use crate::kill::COOKIE;

/// What is set, and when, is listed in [`limo_model::environment`].
pub(super) fn environment(
    exec: &DoExec,
    around: &Surroundings,
    work_end: Option<&PipeReader>,
) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let number = |number: i64| OsString::from(number.to_string());
    let Launch { cwd, origin, env, .. } = &exec.launch;
    let units: Vec<_> =
        exec.placement.iter().filter_map(|part| around.spec.units.get(usize::from(part.unit.unit))).collect();
    let list = |names: Vec<&str>| OsString::from(names.join(","));
    let cores = number(exec.placement.iter().map(|part| i64::from(part.cores)).sum());
    let node = OsString::from(&around.spec.name);
    let mut own = vec![
        ("LIMO_JOB_ID", exec.job.to_string().into()),
        ("LIMO_JOB_NAME", OsString::from(&exec.name)),
        ("LIMO_JOB_NODELIST", node.clone()),
        ("LIMO_JOB_NUM_NODES", number(1)),
        ("LIMO_NTASKS", number(1)),
        ("LIMO_PROCID", number(0)),
        ("LIMO_LOCALID", number(0)),
        ("LIMO_NODEID", number(0)),
        ("LIMO_NODE", node),
        ("LIMO_UNIT", list(units.iter().map(|unit| unit.name.as_str()).collect())),
        ("LIMO_HARDWARE", list(units.iter().map(|unit| unit.hardware.as_str()).collect())),
        ("LIMO_CPUS", cores.clone()),
        ("LIMO_CPUS_ON_NODE", cores.clone()),
        ("LIMO_CPUS_PER_TASK", cores),
        // A job that was stored before this was known tells where it begins.
        ("LIMO_SUBMIT_DIR", text(if origin.directory.is_empty() { cwd } else { &origin.directory })),
        ("LIMO_SUBMIT_HOST", OsString::from(&origin.host)),
        ("LIMO_RESTART_COUNT", number(exec.restarts.into())),
        ("LIMO_JOB_START_TIME", number(around.now_s)),
        (COOKIE, around.cookie.into()),
    ];
    if let Some(limit) = exec.time_limit {
        own.push(("LIMO_JOB_END_TIME", number(around.now_s.saturating_add(limit.ms() / 1000))));
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
    if let Some(end) = work_end {
        own.push(("LIMO_EMULATED_WORK_FD", number(end.as_raw_fd().into())));
    }
    // What means something in the job that submits this one would mean something else here.
    let inherited = env.iter().filter(|(key, _)| !is_own(key));
    let given = inherited.map(|(key, value)| (text(key), text(value)));
    given.chain(own.into_iter().map(|(key, value)| (key.into(), value))).collect()
}
