//! The environment of a job: the submitter's, and what Limo tells the job.

use std::ffi::OsString;
use std::io::PipeReader;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;

use limo_proto::DoExec;

use super::Surroundings;
use crate::kill::COOKIE;

/// Names the descriptor on which a job on emulated hardware reads the end of its work.
const WORK_FD: &str = "LIMO_EMULATED_WORK_FD";

/// Later entries win.
pub(super) fn environment(
    exec: &DoExec,
    around: &Surroundings,
    work_end: Option<&PipeReader>,
) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let units: Vec<_> =
        exec.placement.iter().filter_map(|part| around.spec.units.get(usize::from(part.unit.unit))).collect();
    let list = |names: Vec<&str>| OsString::from(names.join(","));
    let cores: u32 = exec.placement.iter().map(|part| part.cores).sum();
    let mut own = vec![
        ("LIMO_JOB_ID", exec.job.to_string().into()),
        ("LIMO_JOB_NAME", OsString::from(&exec.name)),
        (COOKIE, around.cookie.into()),
        ("LIMO_NODE", OsString::from(&around.spec.name)),
        ("LIMO_UNIT", list(units.iter().map(|unit| unit.name.as_str()).collect())),
        ("LIMO_HARDWARE", list(units.iter().map(|unit| unit.hardware.as_str()).collect())),
        ("LIMO_CPUS", cores.to_string().into()),
        ("LIMO_SUBMIT_DIR", text(&exec.launch.cwd)),
    ];
    if let Some(end) = work_end {
        own.push((WORK_FD, end.as_raw_fd().to_string().into()));
    }
    // A number that means something in the job which submits this one would mean something else here.
    let inherited = exec.launch.env.iter().filter(|(key, _)| key != WORK_FD.as_bytes());
    let given = inherited.map(|(key, value)| (text(key), text(value)));
    // Later ones win, so a job started from inside a job does not carry the other's names.
    given.chain(own.into_iter().map(|(key, value)| (key.into(), value))).collect()
}
