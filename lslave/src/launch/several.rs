//! Launch of a job with several tasks on this node: prepares the process that runs them (`crate::tasks`).

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;

use limo_model::{FileFacts, NodeSpec};
use limo_proto::{DoExec, FileNames};
use nix::libc;

use super::{LaunchError, facts};
use crate::groups::asked;
use crate::tasks::{NAME, Plan, share};

/// Program that replaces the command.
pub(super) struct Several {
    pub(super) plan: File,
    /// Files that all tasks here share. `limo-tasks` opens them.
    pub(super) own: FileNames,
    /// True for stdout and stderr files that must keep their contents, because the job's first node has already
    /// opened the same files.
    pub(super) keep: [bool; 2],
}

/// Prepares the process; `None` if the command is started directly. Files with a task's number in their names belong to
/// each task, and every task reads an input file from its beginning.
pub(super) fn prepare(
    exec: &DoExec,
    spec: &NodeSpec,
    (program, arguments): (&OsStr, &[Vec<u8>]),
    files: &FileNames,
) -> Result<Option<Several>, LaunchError> {
    let Some((share, parallel)) = share(exec) else { return Ok(None) };
    let (first, count) = share.own();
    let names: Vec<FileNames> = (0..count).map(|place| exec.launch.file_names(&facts(exec, spec, place))).collect();
    let other = exec.launch.file_names(&facts(exec, spec, count));
    let mut own = FileNames::default();
    // A name that differs between tasks is not shared.
    let shared = |name: &Option<Vec<u8>>, other: &Option<Vec<u8>>| name.clone().filter(|_| name == other);
    own.stdout = shared(&files.stdout, &other.stdout);
    own.stderr = shared(&files.stderr, &other.stderr);
    let each = names.into_iter().map(|names| FileNames {
        stdin: names.stdin,
        stdout: names.stdout.filter(|_| own.stdout.is_none()),
        stderr: names.stderr.filter(|_| own.stderr.is_none()),
    });
    let facts_of_first =
        FileFacts { node: share.nodes.first().map_or("", String::as_str), node_index: 0, ..facts(exec, spec, 0) };
    let of_first = exec.launch.file_names(&facts_of_first);
    let is_later = share.index > 0;
    let keep = [is_later && of_first.stdout == own.stdout, is_later && of_first.stderr == own.stderr];
    let argv = std::iter::once(program.as_bytes().to_vec()).chain(arguments.iter().cloned()).collect();
    let plan = Plan {
        node: spec.name.clone(),
        argv,
        first,
        total: share.total(),
        parallel,
        files: each.collect(),
        append: exec.launch.files.append,
        grace: share.grace,
        bind: super::cpu_bind(&exec.launch),
        cores: asked(exec, spec).0,
    };
    let step = |source| LaunchError::Step { what: "tell the job's tasks apart".into(), source };
    Ok(Some(Several { plan: plan.hand_over().map_err(step)?, own, keep }))
}

/// Returns this program's path and arguments. Its descriptor follows that of its plan.
pub(super) fn program(plan_fd: RawFd) -> (OsString, [OsString; 2]) {
    (format!("/proc/self/fd/{}", plan_fd + 1).into(), [NAME.into(), plan_fd.to_string().into()])
}

/// Opens this program as a descriptor. This works even if its file was replaced, or the user cannot reach it.
pub(super) fn own_program() -> Result<OwnedFd, LaunchError> {
    let step = |source| LaunchError::Step { what: "find the program for the job's tasks".into(), source };
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open("/proc/self/exe").map_err(step)?;
    Ok(file.into())
}
