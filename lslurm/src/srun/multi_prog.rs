//! `srun --multi-prog FILE`: a command for each task, by a script of `sh` in which each task finds its own.

use std::collections::BTreeSet;
use std::fmt::Write;

use limo_client::Failure;

/// Longest file, in bytes: a submission may have 1 MiB, and the script is longer than the file.
const LONGEST: u64 = 256 << 10;

/// Highest number of a task.
const LAST: u32 = 1 << 20;

/// A line of the file.
struct Program {
    /// Its tasks in order; `None` for all that have no line of their own.
    tasks: Option<Vec<u32>>,
    words: Vec<String>,
}

/// Reads the file and returns the command line of the dispatching shell. With `count`, each task must have a line.
///
/// # Errors
/// If the file cannot be read, or a line is wrong.
pub fn command(path: &str, count: Option<u32>) -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| Failure::new(format_args!("fatal: cannot read {path}: {error}"));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > LONGEST {
        return Err(Failure::new(format_args!("fatal: {path} has {size} bytes: the limit is {LONGEST}")));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let script = script(&text, count).map_err(|error| Failure::new(format_args!("fatal: {path}: {error}")))?;
    Ok(vec!["sh".into(), "-c".into(), script])
}

fn script(text: &str, count: Option<u32>) -> Result<String, String> {
    let programs = programs(text)?;
    let mut cases = String::new();
    let (mut all, mut rest) = (BTreeSet::new(), false);
    for Program { tasks, words } in &programs {
        // Nobody writes into a string that fails.
        let _ = match tasks {
            None => {
                rest = true;
                writeln!(cases, "*) exec {};;", quoted(words, "$LIMO_PROCID"))
            }
            Some(tasks) if words.iter().any(|word| word.contains("%o")) => {
                tasks.iter().enumerate().try_for_each(|(offset, task)| {
                    writeln!(cases, "{task}) exec {};;", quoted(words, &offset.to_string()))
                })
            }
            Some(tasks) => {
                let list: Vec<String> = tasks.iter().map(u32::to_string).collect();
                writeln!(cases, "{}) exec {};;", list.join("|"), quoted(words, ""))
            }
        };
        all.extend(tasks.iter().flatten().copied());
    }
    if let Some(missing) = (0..count.unwrap_or(0)).find(|task| !rest && !all.contains(task)) {
        return Err(format!("no record for task id {missing}"));
    }
    // A line for all other tasks comes last.
    let mut lines: Vec<&str> = cases.lines().collect();
    lines.sort_by_key(|line| line.starts_with('*'));
    let none = "*) echo \"srun: error: no program for task $LIMO_PROCID\" >&2; exit 1;;";
    Ok(format!("case $LIMO_PROCID in\n{}\n{none}\nesac\n", lines.join("\n")))
}

/// Quotes words for the shell, with `%t` as the number of the task and `%o` as its offset in its line.
fn quoted(words: &[String], offset: &str) -> String {
    let one = |word: &String| {
        let mut out = String::from("'");
        let mut rest = word.as_str();
        while let Some(at) = rest.find(['%', '\'']) {
            out += &rest[..at];
            let (replaced, length) = match &rest[at..] {
                tail if tail.starts_with("%t") => ("'\"$LIMO_PROCID\"'".to_owned(), 2),
                tail if tail.starts_with("%o") => (format!("'\"{offset}\"'"), 2),
                tail if tail.starts_with('\'') => ("'\\''".to_owned(), 1),
                _ => ("%".to_owned(), 1),
            };
            out += &replaced;
            rest = &rest[at + length..];
        }
        out + rest + "'"
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn programs(text: &str) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    let joined = text.replace("\\\n", " ");
    for line in joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (ranks, command) =
            line.split_once(char::is_whitespace).ok_or_else(|| format!("`{line}` has no program"))?;
        let words = shell_words::split(command).map_err(|_| format!("`{line}` has a quote without an end"))?;
        let tasks = if ranks == "*" { None } else { Some(numbers(ranks)?) };
        programs.push(Program { tasks, words });
    }
    if programs.is_empty() {
        return Err("no line names a program".to_owned());
    }
    Ok(programs)
}

/// Reads `0,2-4`.
fn numbers(ranks: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("`{ranks}` is not a list of tasks: 0 to {LAST}, such as 0,2-4");
    let mut all = Vec::new();
    for part in ranks.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number <= LAST).ok_or_else(wrong);
        let (from, to) = (number(from)?, number(to)?);
        if from > to || all.len() as u64 + u64::from(to - from) > u64::from(LAST) {
            return Err(wrong());
        }
        all.extend(from..=to);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const FILE: &str =
        "# tasks\n2-3,5  echo %t \"off %o\" it\\'s\n* printf '%s-%%\\n' rest\n0 \\\n echo zero '$HOME'\n";

    fn output(task: &str) -> String {
        let script = script(FILE, Some(9)).expect("a script");
        let output = Command::new("sh").args(["-c", &script]).env("LIMO_PROCID", task).output().expect("sh");
        String::from_utf8(output.stdout).expect("text")
    }

    #[test]
    fn each_task_runs_its_program() {
        assert_eq!(output("0"), "zero $HOME\n");
        assert_eq!(output("2"), "2 off 0 it's\n");
        assert_eq!(output("5"), "5 off 2 it's\n");
        assert_eq!(output("4"), "rest-%\n");
    }

    #[test]
    fn wrong_files_are_refused() {
        let check = |text: &str, expected: &str| assert_eq!(script(text, Some(2)), Err(expected.to_owned()), "{text}");
        check("", "no line names a program");
        check("0 a", "no record for task id 1");
        check("0-1", "`0-1` has no program");
        check("0-1 'a", "`0-1 'a` has a quote without an end");
        let list = "is not a list of tasks: 0 to 1048576, such as 0,2-4";
        for ranks in ["x", "3-1", "0-1048577", ""] {
            let (text, complaint) = (format!("{ranks}, a"), format!("`{ranks},` {list}"));
            check(&text, &complaint);
        }
    }
}
