//! The call of a command: its name, its words, its master, and the way it ends.

use std::process::ExitCode;

use clap::Parser;
use limo_client::{Failure, Master, MasterArg, exit, in_runtime, tell};

use crate::getopt::{Given, OptionRow, parse};

/// Version of Slurm whose options and output the commands follow.
pub const VERSION: &str = "22.05.8";

/// Exit code of Slurm's commands after an error.
pub const FAILED: u8 = 1;

/// Exit code of sbatch and srun after a wrong option.
pub const WRONG_OPTION: u8 = 255;

/// A command with its arguments.
#[derive(Debug, Clone)]
pub struct Call {
    /// Name as typed, for messages about options.
    pub path: String,
    pub name: &'static str,
    pub words: Vec<String>,
}

/// Reads the address of the master from the environment, as all clients do.
#[derive(Debug, Parser)]
struct MasterLine {
    #[command(flatten)]
    master: MasterArg,
}

impl Call {
    /// Runs a command; prints its failure in Slurm's form, which may begin with `fatal: `.
    pub fn run<F: Future<Output = Result<u8, Failure>>>(self, command: impl FnOnce(Call) -> F) -> ExitCode {
        let name = self.name;
        match in_runtime(command(self)) {
            Ok(code) => ExitCode::from(code),
            Err(failure) => {
                let lines = failure.lines(name);
                tell(&lines.replacen(": error: fatal: ", ": fatal: ", 1));
                ExitCode::from(if failure.code == exit::FAILED { FAILED } else { failure.code })
            }
        }
    }

    /// Returns the master of `LIMO_MASTER` or the default one.
    ///
    /// # Errors
    /// If the variable is wrong.
    pub fn master(&self) -> Result<Master, Failure> {
        let line = MasterLine::try_parse_from([self.name]).map_err(|error| limo_client::complaint_of(&error))?;
        Ok(line.master.master())
    }

    /// Parses the options. `Err` is the exit code, after help, the version or a complaint was printed.
    pub fn options(&self, known: &[OptionRow], mixed: bool) -> Result<(Vec<Given>, Vec<String>), u8> {
        match parse(known, &self.words, mixed) {
            Err(complaint) => {
                tell(&format!("{}: {complaint}\n", self.path));
                // sacct alone gives no advice.
                if self.name != "sacct" {
                    tell(&format!("Try \"{} --help\" for more information\n", self.name));
                }
                let submits = ["sbatch", "srun", "salloc"].contains(&self.name);
                Err(if submits { WRONG_OPTION } else { FAILED })
            }
            Ok((given, _)) if given.iter().any(|given| given.name == "version") => {
                // If the version cannot be printed, nothing remains to be done.
                let _ = limo_client::answer(&format!("slurm-wlm {VERSION}\n"));
                Err(exit::DONE)
            }
            Ok((given, _)) if given.iter().any(|given| given.name == "help" || given.name == "usage") => {
                let _ = limo_client::answer(&self.help(known));
                Err(exit::DONE)
            }
            Ok(parsed) => Ok(parsed),
        }
    }

    fn help(&self, known: &[OptionRow]) -> String {
        let mut text = format!("Usage: {} [OPTIONS...], as in Slurm; docs/coming-from-slurm.md of Limo\n", self.name);
        for row in known {
            let short = row.short.map_or_else(|| "   ".to_owned(), |short| format!("-{short},"));
            text += &format!("  {short} --{}{}\n", row.long, row.value.shown());
        }
        text
    }
}
