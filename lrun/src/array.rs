//! `lrun --array` and `--each-line`: the tasks of an array and the line that each one gets.

use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;

use limo_client::Failure;
use limo_model::Tasks;
use limo_proto::Array;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scripts and arrays")]
pub struct ArrayArgs {
    /// Run once for each of these numbers, e.g. 0-999%50 for at most 50 at a time
    #[arg(short, long, value_name = "TASKS", conflicts_with = "immediate")]
    pub array: Option<Tasks>,
    /// Run once for each line of this file, or for the lines of --array, from 0; the line is in LIMO_ARRAY_ENTRY
    #[arg(long, value_name = "FILE", conflicts_with = "immediate", hide = true)]
    pub each_line: Option<PathBuf>,
}

impl ArrayArgs {
    /// Returns the array; `None` for a single job.
    ///
    /// # Errors
    /// If the file cannot be read, is empty, or has no line for a task.
    pub fn array(&self) -> Result<Option<Array>, Failure> {
        let Some(path) = &self.each_line else {
            return Ok(self.array.clone().map(|tasks| Array { tasks, entries: Vec::new() }));
        };
        let failed = |what: String| Failure::new(format_args!("--each-line {}: {what}", path.display()));
        let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let count = u32::try_from(lines.len()).ok().and_then(NonZeroU32::new).filter(|_| !text.is_empty());
        let count = count.ok_or_else(|| failed("is empty".into()))?;
        let tasks = match &self.array {
            Some(tasks) => tasks.clone(),
            None => Tasks::first(count).map_err(|error| failed(error.to_string()))?,
        };
        let line = |place: u32| {
            let number = tasks.number(place).unwrap_or_default();
            let line = lines
                .get(number as usize)
                .ok_or_else(|| failed(format!("has {count} lines, but task {number} needs its own")))?;
            if line.contains(&0) {
                return Err(failed(format!("line {} has a NUL byte", u64::from(number) + 1)));
            }
            Ok(line.to_vec())
        };
        let entries = (0..tasks.count()).map(line).collect::<Result<_, _>>()?;
        Ok(Some(Array { tasks, entries }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check(text: &str, tasks: Option<&str>, expected: Result<(&str, &[&str]), &str>) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lines");
        fs::write(&path, text).expect("written");
        let args = ArrayArgs { array: tasks.map(|text| text.parse().expect("tasks")), each_line: Some(path.clone()) };
        match (args.array(), expected) {
            (Ok(Some(array)), Ok((tasks, entries))) => {
                assert_eq!(array.tasks.to_string(), tasks);
                assert_eq!(array.entries, entries.iter().map(|entry| entry.as_bytes().to_vec()).collect::<Vec<_>>());
            }
            (Err(failure), Err(expected)) => {
                assert_eq!(failure.message, format!("--each-line {}: {expected}", path.display()));
            }
            (got, _) => panic!("{text:?}: {got:?}"),
        }
    }

    #[test]
    fn a_task_for_each_line() {
        check("a\nb b\n\nc", None, Ok(("0-3", &["a", "b b", "", "c"])));
        check("a\nb\n", None, Ok(("0-1", &["a", "b"])));
        check("a\nb\nc\n", Some("0,2%1"), Ok(("0,2%1", &["a", "c"])));
        check("a\n", Some("0-1"), Err("has 1 lines, but task 1 needs its own"));
        check("", None, Err("is empty"));
        check("\n", None, Err("is empty"));
        check("a\nb\0\n", None, Err("line 2 has a NUL byte"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let args = ArrayArgs { array: None, each_line: Some(Path::new("/nowhere/lines").into()) };
        let failure = args.array().expect_err("no file");
        assert_eq!(failure.message, "--each-line /nowhere/lines: No such file or directory (os error 2)");
    }
}
