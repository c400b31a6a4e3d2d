//! Commands for things that Limo does not have.

use std::process::ExitCode;

use limo_client::{answer, exit, tell};

use crate::call::{Call, FAILED, VERSION};

/// `sattach` and `sstat`: says what to use instead.
pub fn refuse(call: &Call) -> ExitCode {
    let (reason, hint) = match call.name {
        "sattach" => ("the streams of a step stay with its srun", "lq attach --take JOB, for a job of lrun"),
        _ => ("a running step has no figures yet", "lq show JOB, and sacct -j JOB when it is over"),
    };
    tell(&format!("{}: error: {reason}\n{}: hint: {hint}\n", call.name, call.name));
    ExitCode::from(FAILED)
}

/// `sacctmgr`: Limo has no accounts, so each list is empty, but for that of the clusters.
pub fn accounts(call: &Call) -> ExitCode {
    let words: Vec<&str> = call.words.iter().map(String::as_str).collect();
    if words.iter().any(|word| ["-V", "--version"].contains(word)) {
        return shown(&format!("slurm-wlm {VERSION}\n"));
    }
    let plain: Vec<&str> = words.iter().filter(|word| !word.starts_with('-')).copied().collect();
    match plain.as_slice() {
        ["show" | "list", entity, ..] if entity.starts_with("cluster") => shown("limo\n"),
        ["show" | "list", ..] => shown(""),
        _ => {
            tell("sacctmgr: error: Limo has no accounts: only `show` and `list` are there\n");
            ExitCode::from(FAILED)
        }
    }
}

fn shown(text: &str) -> ExitCode {
    ExitCode::from(answer(text).map_or(FAILED, |()| exit::DONE))
}
