//! Work of a job: a command, a script or a line, and the file that is sent with it.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use limo_client::Failure;

use crate::args::Args;
use crate::script::{Script, read_file};
use crate::submission::Surroundings;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scripts and arrays")]
pub struct ScriptArgs {
    /// Run this script, which may begin with lines `#LIMO --option value`
    #[arg(long, value_name = "FILE", conflicts_with = "wrap")]
    pub script: Option<PathBuf>,
    /// Run this line with sh
    #[arg(long, value_name = "LINE", conflicts_with = "command", hide = true)]
    pub wrap: Option<OsString>,
    /// Send the file of the command to the node
    #[arg(long, conflicts_with_all = ["script", "wrap"], hide = true)]
    pub bcast: bool,
}

/// Name of jobs from `--wrap`, as in sbatch.
const WRAP: &str = "wrap";

/// Name of jobs from `--no-shell`, as in salloc.
const NO_SHELL: &str = "no-shell";

/// Work for the node.
#[derive(Debug, PartialEq, Eq)]
pub struct Work {
    /// Command and arguments; at least one word.
    pub argv: Vec<OsString>,
    /// Application name, unless options name another.
    pub application: OsString,
    /// Content of the file that the first word refers to.
    pub carried: Option<Vec<u8>>,
}

impl Work {
    /// Makes the work of a command line.
    ///
    /// # Errors
    /// If the command's file is to be sent, and does not exist or cannot be sent.
    pub fn of(args: &Args, script: Option<Script>, around: &Surroundings) -> Result<Self, Failure> {
        if let Some(line) = &args.script.wrap {
            let argv = vec!["sh".into(), "-c".into(), line.clone()];
            return Ok(Self { argv, application: WRAP.into(), carried: None });
        }
        if args.steps.no_shell {
            return Ok(Self { argv: vec![NO_SHELL.into()], application: NO_SHELL.into(), carried: None });
        }
        let mut argv = args.command.clone();
        let carried = match (&args.script.script, script) {
            (Some(path), Some(script)) => {
                argv.insert(0, file_name(path.as_os_str()));
                Some(script.content)
            }
            _ if args.script.bcast => {
                let path = found(&argv[0], &around.start(args.job.chdir.as_deref()), around.path())?;
                argv[0] = file_name(path.as_os_str());
                Some(read_file(&path)?)
            }
            _ => None,
        };
        Ok(Self { application: file_name(&argv[0]), argv, carried })
    }
}

fn file_name(path: &OsStr) -> OsString {
    Path::new(path).file_name().unwrap_or(path).to_owned()
}

/// Finds the file that `command` would run in `directory`.
fn found(command: &OsStr, directory: &Path, search: Option<&OsStr>) -> Result<PathBuf, Failure> {
    if command.as_encoded_bytes().contains(&b'/') {
        return Ok(directory.join(command));
    }
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let places = search.map(std::env::split_paths).into_iter().flatten();
    places
        .map(|place| directory.join(place).join(command))
        .find(is_program)
        .ok_or_else(|| Failure::new(format_args!("command not found: {}", command.display())))
}
