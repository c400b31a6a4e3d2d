//! `sattach`: takes over the streams of a running step, by `lrun --attach`.

use std::os::unix::process::CommandExt;

use limo_client::{Failure, lrun, tell};
use limo_model::parse_step;

use crate::call::Call;
use crate::getopt::Takes::{Nothing, Value};
use crate::getopt::{OptionRow, both, long};
use crate::submit::JobOptions;

const OPTIONS: [OptionRow; 10] = [
    both('h', "help", Nothing),
    both('l', "label", Nothing),
    both('Q', "quiet", Nothing),
    both('V', "version", Nothing),
    both('v', "verbose", Nothing),
    long("error-filter", Value),
    long("input-filter", Value),
    long("layout", Nothing),
    long("output-filter", Value),
    long("usage", Nothing),
];

/// Options that Limo does not have. Without `--label` at the start of a step, its lines have no numbers.
const REFUSED: [&str; 5] = ["error-filter", "input-filter", "label", "layout", "output-filter"];

/// Replaces this process by `lrun`.
///
/// # Errors
/// If an option is wrong, no such step runs, or `lrun` cannot be run.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let (options, operands) = match call.options(&OPTIONS, true) {
        Ok((given, operands)) => (JobOptions(given), operands),
        Err(code) => return Ok(code),
    };
    if let Some(name) = REFUSED.iter().find(|name| options.has(name)) {
        return Err(Failure::new(format_args!("Limo has nothing like --{name}")));
    }
    let [word] = operands.as_slice() else {
        tell("sattach: error: Job and step id to attach to must be given once, as JOB.STEP\n");
        return Ok(crate::call::FAILED);
    };
    let invalid = || Failure::new(format_args!("Invalid job id specified: {word}"));
    let (job, number) = parse_step(word).ok_or_else(invalid)?;
    let master = call.master()?;
    let report = master.session().await?.step(job, number).await?;
    let mut program = lrun(&master);
    program.arg("--attach").arg(report.job.to_string()).arg("--take");
    program.args(["quiet", "verbose"].iter().filter(|name| options.has(name)).map(|name| format!("--{name}")));
    Err(Failure::new(format_args!("cannot run lrun: {}", program.exec())))
}
