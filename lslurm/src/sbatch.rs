//! `sbatch`: submits a batch script, by `lrun --detach --script`.

use std::process::{Output, Stdio};
use std::time::Duration;

use limo_client::{Failure, Master, Patience, answer, exit, lrun, slurm_words, tell, until_over};
use limo_model::JobId;

use crate::call::Call;
use crate::getopt::parse;
use crate::script::BatchScript;
use crate::submit::{JOB_OPTIONS, JobOptions, Translated, file_name, from_environment};

/// Longest wait of `--wait` for a master that went away.
const PATIENCE: Patience = Patience(Duration::from_secs(600));

/// Submits the script and prints the number of the job.
///
/// # Errors
/// If the script or an option is wrong, or the master refuses the job.
pub async fn run(call: Call) -> Result<u8, Failure> {
    let (line, operands) = match call.options(&JOB_OPTIONS, false) {
        Ok(parsed) => parsed,
        Err(code) => return Ok(code),
    };
    let own = JobOptions(line);
    let (script, arguments) = match own.get("wrap") {
        Some(_) if !operands.is_empty() => {
            return Err(Failure::new("Script arguments not permitted with --wrap option"));
        }
        Some(line) => (BatchScript::wrap(line), &[][..]),
        None => (BatchScript::read(operands.first().map(String::as_str))?, operands.get(1..).unwrap_or_default()),
    };
    let (in_script, _) = match parse(&JOB_OPTIONS, &script.words()?, false) {
        Ok(parsed) => parsed,
        Err(complaint) => {
            tell(&format!("{}: {complaint}\n", call.path));
            return Err(Failure::new(format_args!("the lines #SBATCH of {} are wrong", script.name)));
        }
    };
    let of_environment = from_environment("SBATCH_", |name| std::env::var(name).ok());
    let options = JobOptions([in_script, of_environment, own.0].concat());
    let master = call.master()?;
    let translated = options.translate(&master).await;
    let mut job = translated.map_err(|failure| failure.as_slurm("sbatch", ACTION))?;
    batch(&options, &script, &mut job);
    for warning in &job.warnings {
        tell(&format!("sbatch: warning: {warning}\n"));
    }
    let test_only = options.has("test-only");
    let output = match options.get("wrap") {
        Some(line) => submit(&master, &job, &["--wrap", line], test_only)?,
        None => {
            let handed = script.hand_over()?;
            let path = handed.path.display().to_string();
            let words = ["--script", &path, "--"].into_iter().chain(arguments.iter().map(String::as_str));
            submit(&master, &job, &words.collect::<Vec<_>>(), test_only)?
        }
    };
    if !output.status.success() {
        tell(&complaint(&String::from_utf8_lossy(&output.stderr)));
        return Ok(crate::call::FAILED);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if test_only {
        // The candidates follow an empty line.
        tell(
            &text
                .lines()
                .take_while(|line| !line.is_empty())
                .map(|line| format!("sbatch: {line}\n"))
                .collect::<String>(),
        );
        return Ok(exit::DONE);
    }
    let number = text.trim().parse::<u64>().map_err(|_| Failure::new(format_args!("lrun answered `{text}`")))?;
    if options.has("parsable") {
        answer(&format!("{number}\n"))?;
    } else if !options.has("quiet") {
        answer(&format!("Submitted batch job {number}\n"))?;
    }
    if options.has("wait") {
        let reports = until_over("sbatch", vec![JobId(number)], &master, PATIENCE).await?;
        return Ok(reports.first().and_then(|report| report.end.as_ref()).map_or(crate::call::FAILED, exit::of_end));
    }
    Ok(exit::DONE)
}

/// Adds what only a batch job has.
fn batch(options: &JobOptions, script: &BatchScript, job: &mut Translated) {
    job.option("--job-name", options.get("job-name").unwrap_or(&script.name));
    if let Some(tasks) = options.get("array") {
        job.option("--array", tasks);
    }
    if job.several {
        // Slurm runs a batch script once, on the first node.
        job.options.push("--batch".into());
    }
    if !options.has("output") {
        let name = if options.has("array") { "slurm-%A_%a.out" } else { "slurm-%j.out" };
        job.option("--output", file_name(name, true));
    }
}

fn submit(master: &Master, job: &Translated, work: &[&str], test_only: bool) -> Result<Output, Failure> {
    let mut command = lrun(master);
    command.arg(if test_only { "--dry-run" } else { "--detach" }).args(&job.options).args(work);
    command.envs(job.variables.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
    command.output().map_err(|error| Failure::new(format_args!("cannot run lrun: {error}")))
}

/// The failed action in Slurm's words.
const ACTION: &str = "Batch job submission failed";

/// Slurm's words for what `lrun` says of its own options.
const OF_OPTIONS: [(&str, &str); 4] = [
    ("'--array", "Invalid job array specification"),
    ("'--dependency", "Job dependency problem"),
    ("'--account", "Invalid account or account/partition combination specified"),
    ("'--qos", "Invalid qos specification"),
];

/// Returns the complaint of `lrun` in the form of sbatch. Slurm's words follow the reason of Limo on a line of their own.
fn complaint(text: &str) -> String {
    let refusal = |reason: &str| {
        let of_option = OF_OPTIONS.iter().find(|(option, _)| reason.contains(&format!("for {option} ")));
        match (of_option, slurm_words(reason)) {
            (Some((_, words)), _) => format!("sbatch: error: {ACTION}: {words}\n"),
            (None, Some(words)) => format!("sbatch: error: {reason}\nsbatch: error: {ACTION}: {words}\n"),
            (None, None) => format!("sbatch: error: {ACTION}: {reason}\n"),
        }
    };
    let line = |line: &str| match line.strip_prefix("lrun: error: ") {
        Some(reason) => refusal(reason),
        // The options of lrun are of no use here.
        None if line.ends_with("`lrun --help`") => String::new(),
        None => format!("sbatch: {}\n", line.strip_prefix("lrun: ").unwrap_or(line)),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_have_the_form_of_sbatch() {
        let text = "lrun: error: the array has no tasks\nlrun: hint: write 0-9\n";
        let expected = "sbatch: error: Batch job submission failed: the array has no tasks\nsbatch: hint: write 0-9\n";
        assert_eq!(complaint(text), expected);
        let text =
            "lrun: error: the account `physics` is not for user ada: use `optics`\nlrun: hint: lconf account list\n";
        let expected = "sbatch: error: the account `physics` is not for user ada: use `optics`\n\
            sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n\
            sbatch: hint: lconf account list\n";
        assert_eq!(complaint(text), expected);
        let text = "lrun: error: there is no QOS `x` (QOS: long)\n";
        let expected = "sbatch: error: there is no QOS `x` (QOS: long)\n\
            sbatch: error: Batch job submission failed: Invalid qos specification\n";
        assert_eq!(complaint(text), expected);
        let text = "lrun: error: invalid value 'x' for '--array <TASKS>': no\nlrun: hint: try `lrun --help`\n";
        let expected = "sbatch: error: Batch job submission failed: Invalid job array specification\n";
        assert_eq!(complaint(text), expected);
    }
}
