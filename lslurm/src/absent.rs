//! Commands for things that Limo does not have.

use std::process::ExitCode;

use limo_client::{answer, exit, tell};

use crate::call::{Call, FAILED, VERSION};

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
