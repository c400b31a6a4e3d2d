//! `lprof workload`: makes, checks and shows workload files, and sends them to an executor.

mod run;
mod show;
mod source;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use limo_files::Outlasts;

use crate::workload::format::Writer;
use crate::workload::matrix::Matrices;
use crate::workload::recipe::Recipe;
use source::Source;

#[derive(Debug, clap::Subcommand)]
pub enum WorkloadCommand {
    /// Make one of the twenty workloads of limo-2018, Table 4.3, such as m256_i50; up to 6 GB
    Generate(Generate),
    /// Read a workload file and report the first error
    Check(Source),
    /// Show the number, size and work of the packages of a file or a recipe
    Show(show::Show),
    /// Send a workload to an executor, each package at its time
    Run(run::Run),
}

#[derive(Debug, clap::Args)]
pub struct Generate {
    /// Name of the workload: m16, m64, m256, m1024 or m4096, then _i0, _i10, _i50 or _i200
    recipe: Recipe,
    /// File to write, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seed of the matrices; equal seeds make equal files
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// The arguments of `lprof workload`.
#[derive(Debug, clap::Parser)]
struct Line {
    #[command(subcommand)]
    command: WorkloadCommand,
}

/// Names the application and the size class of a command that is `lprof workload run`; `None` for all others.
pub fn names(argv: &[String]) -> Option<(String, String)> {
    let (program, rest) = argv.split_first()?;
    if Path::new(program).file_name()? != "lprof" || rest.first()? != "workload" {
        return None;
    }
    match Line::try_parse_from(rest).ok()?.command {
        WorkloadCommand::Run(run) => run.names(),
        _ => None,
    }
}

impl WorkloadCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// If a file cannot be read or written, or is not a workload.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Generate(arguments) => generate(&arguments),
            Self::Check(source) => check(&source),
            Self::Show(arguments) => show::run(&arguments),
            Self::Run(arguments) => run::run(&arguments),
        }
    }
}

fn generate(arguments: &Generate) -> Result<ExitCode> {
    let write = |target: &mut dyn Write| {
        let mut target = BufWriter::with_capacity(1 << 18, target);
        write(&mut target, arguments.recipe, arguments.seed)?;
        target.flush()
    };
    match &arguments.output {
        Some(path) => limo_files::replace(path, 0o666, Outlasts::Process, |file| write(file))
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => write(&mut io::stdout().lock()).context("cannot write to standard output")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write(target: impl Write, recipe: Recipe, seed: u64) -> io::Result<()> {
    let mut writer = Writer::new(target);
    writer.comment(&format!("{recipe} of limo-2018, Table 4.3, with seed {seed}: matrices of little-endian f32"))?;
    let mut matrices = Matrices::new(seed);
    let mut content = Vec::new();
    for job in recipe.jobs(seed) {
        content.clear();
        content.extend(matrices.draw(job.dimension()).iter().flat_map(|value| value.to_le_bytes()));
        writer.package(job.delay, &content)?;
    }
    Ok(())
}

fn check(source: &Source) -> Result<ExitCode> {
    let figures = source.summary()?.figures();
    println!("{}: {} packages, {} bytes of content", source.name(), figures.packages, figures.content_bytes);
    Ok(ExitCode::SUCCESS)
}

/// Returns a name for messages.
fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_workload_names_its_profile() {
        let names = |line: &str| names(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let expected = Some(("lud-cpu".to_owned(), "m256_i50".to_owned()));
        assert_eq!(names("/usr/bin/lprof workload run data/m256_i50.workload --app lud-cpu --stdio x"), expected);
        for other in
            ["lprof workload run - --app dummy", "lprof workload check m256_i50", "lprof workload run a", "sh -c x"]
        {
            assert_eq!(names(other), None, "{other}");
        }
    }
}
