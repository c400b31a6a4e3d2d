//! Commands for things that Limo does not have.

use std::process::ExitCode;

use limo_client::tell;

use crate::call::{Call, FAILED};

/// `sattach` and `sstat`: says what to use instead.
pub fn refuse(call: &Call) -> ExitCode {
    let (reason, hint) = match call.name {
        "sattach" => ("the streams of a step stay with its srun", "lq attach --take JOB, for a job of lrun"),
        _ => ("a running step has no figures yet", "lq show JOB, and sacct -j JOB when it is over"),
    };
    tell(&format!("{}: error: {reason}\n{}: hint: {hint}\n", call.name, call.name));
    ExitCode::from(FAILED)
}
