//! Simulations as tasks of arrays, which `lrun` or `sbatch` submits. Each task writes its row to a file in the folder
//! of the sweep. The sweep's file, the files that it names, that folder and this program must be on a file system that
//! all nodes share.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::file::absolute;
use super::results::Row;
use super::timed::read_duration;
use crate::record::WriteError;

/// Folder of the tasks' outputs, in that of the sweep.
const TASKS: &str = "tasks";
/// Most tasks of an array: Slurm's default `MaxArraySize` is 1001.
const ARRAY: usize = 1_000;
/// Time between looks at the outputs.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest output of a task that is read, in bytes; a row is shorter.
const OUTPUT: u64 = 64 << 10;

/// Program that submits arrays. Both take the same options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Submitter {
    /// Limo; LIMO_MASTER is the address of the master
    Lrun,
    /// Slurm
    Sbatch,
}

impl Submitter {
    fn name(self) -> &'static str {
        match self {
            Self::Lrun => "lrun",
            Self::Sbatch => "sbatch",
        }
    }
}

/// Result of a task.
#[derive(Debug)]
pub struct TaskOutcome {
    /// Index of its key.
    pub index: usize,
    /// Row, or the reason why it has none.
    pub row: Result<Row, String>,
    /// Duration of its simulation.
    pub took: Duration,
}

/// Programs and folders for the arrays of a sweep.
#[derive(Debug)]
pub struct Arrays {
    submitter: PathBuf,
    lsim: PathBuf,
    file: PathBuf,
    /// Folder of this run's outputs. Its name differs from those of earlier runs, whose tasks may still run.
    folder: PathBuf,
    /// Most tasks at once.
    at_once: usize,
}

impl Arrays {
    /// Finds the programs.
    ///
    /// # Errors
    /// If the submitter is missing.
    pub fn new(submitter: Submitter, file: &Path, out: &Path, at_once: usize) -> Result<Self> {
        let lsim = std::env::current_exe().context("cannot find the path of this program")?;
        let (name, path) = (submitter.name(), std::env::var_os("PATH").unwrap_or_default());
        let places = std::env::split_paths(&path).chain(lsim.parent().map(Path::to_owned));
        let Some(submitter) = places.map(|folder| folder.join(name)).find(|found| found.is_file()) else {
            bail!("--on {name}: {name} is neither in PATH nor beside lsim: install it, or omit --on");
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let folder = absolute(out).join(TASKS).join(now.to_string());
        Ok(Self { submitter, lsim, file: absolute(file), folder, at_once })
    }

    /// Runs the configurations with `keys`, and passes on each result soon after its task has ended. Ends early if
    /// `each` returns false; the tasks go on.
    ///
    /// # Errors
    /// If the array cannot be submitted, or its files cannot be written.
    pub fn run(&self, keys: &[&str], mut each: impl FnMut(TaskOutcome) -> bool) -> Result<()> {
        for (turn, some) in keys.chunks(ARRAY).enumerate() {
            let folder = self.folder.join(turn.to_string());
            let mut submission = self.submit(&folder, some)?;
            let mut outstanding: Vec<usize> = (0..some.len()).collect();
            loop {
                let ended = submission.ended()?;
                let mut wanted = true;
                outstanding.retain(|task| {
                    let Some((row, took)) = row(&folder, *task, some[*task]) else { return true };
                    wanted &= each(TaskOutcome { index: turn * ARRAY + task, row: Ok(row), took });
                    false
                });
                if !wanted {
                    return Ok(());
                }
                if ended || outstanding.is_empty() {
                    break;
                }
                thread::sleep(PAUSE);
            }
            if outstanding.is_empty() {
                // If this fails, the next run removes them.
                let _ = fs::remove_dir_all(&folder);
            }
            for task in outstanding {
                let row = Err(self.reason(&folder, task));
                if !each(TaskOutcome { index: turn * ARRAY + task, row, took: Duration::ZERO }) {
                    return Ok(());
                }
            }
        }
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    /// Submits an array that runs the configurations with `keys`.
    fn submit(&self, folder: &Path, keys: &[&str]) -> Result<Submission> {
        fs::create_dir_all(folder).map_err(|source| WriteError::new(folder, source))?;
        let list = folder.join("keys");
        let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
        fs::write(&list, lines).map_err(|source| WriteError::new(&list, source))?;
        let [lsim, file, list] = [&self.lsim, &self.file, &list].map(|path| quoted(path));
        let [lsim, file, list] = [lsim?, file?, list?];
        // Both number tasks in a variable of their own.
        let line = format!(
            "exec {lsim} sweep {file} --only \"$(sed -n \"$((${{LIMO_ARRAY_TASK_ID:-$SLURM_ARRAY_TASK_ID}} + 1))p\" {list})\""
        );
        // `%` begins a pattern in the names of outputs.
        let outputs = folder.to_str().map(|folder| folder.replace('%', "%%")).context("a path is not UTF-8")?;
        let told = folder.join("submission");
        let messages = File::create(&told).map_err(|source| WriteError::new(&told, source))?;
        let mut command = Command::new(&self.submitter);
        command.args(["--wait", "--job-name", "sweep"]);
        command.arg(format!("--array=0-{}%{}", keys.len() - 1, self.at_once));
        command.args([format!("--output={outputs}/%a.out"), format!("--error={outputs}/%a.err")]);
        command.args(["--wrap", &line]).stdin(Stdio::null());
        command.stdout(messages.try_clone().context("cannot share a file")?).stderr(messages);
        let child = command.spawn().with_context(|| format!("cannot run {}", self.submitter.display()))?;
        Ok(Submission(child))
    }

    /// Returns why a task gave no row: the last line that it wrote, or that the submitter did.
    fn reason(&self, folder: &Path, task: usize) -> String {
        let last = |name: String| {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
        };
        let reason = last(format!("{task}.err")).or_else(|| last("submission".to_owned()));
        let name = self.submitter.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}: {}", reason.as_deref().unwrap_or("no reason given"))
    }
}

/// Submitter that waits for the end of its array.
struct Submission(Child);

impl Submission {
    fn ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait().context("cannot wait for the submitter")?.is_some())
    }
}

/// Returns the rows of tasks of earlier runs of the sweep in `out`, and removes their files. A task that still runs
/// gives none.
pub fn leftovers(out: &Path) -> Vec<Row> {
    let entries = |folder: &Path| {
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
    };
    let folder = out.join(TASKS);
    let runs: Vec<PathBuf> = entries(&folder);
    let turns: Vec<PathBuf> = runs.iter().flat_map(|run| entries(run)).collect();
    let outputs =
        turns.iter().flat_map(|turn| entries(turn)).filter(|path| path.extension().is_some_and(|of| of == "out"));
    let rows = outputs.filter_map(|path| Row::read(last_line(&path)?.as_str())).collect();
    // A later run removes the rest.
    let _ = fs::remove_dir_all(&folder);
    rows
}

/// Returns the row of a task with the duration of its simulation, once both are written.
fn row(folder: &Path, task: usize, key: &str) -> Option<(Row, Duration)> {
    let row = Row::read(&last_line(&folder.join(format!("{task}.out")))?).filter(|row| row.key == key)?;
    let took = fs::read_to_string(folder.join(format!("{task}.err"))).ok().and_then(|text| read_duration(&text));
    Some((row, took.unwrap_or_default()))
}

/// Returns the last line of a file, if it is complete.
fn last_line(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.len() > OUTPUT {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    text.strip_suffix('\n')?.lines().last().map(str::to_owned)
}

fn quoted(path: &Path) -> Result<String> {
    let path = path.to_str().with_context(|| format!("{}: the path is not UTF-8", path.display()))?;
    Ok(shell_words::quote(path).into_owned())
}
