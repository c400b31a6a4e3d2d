//! `cargo xtask package deb`: builds the programs, their manual pages and completions, and makes Debian packages of them
//! by debhelper. The files of the packages are in `deploy/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::workspace::{cargo, root, target_dir};

/// The installed programs with the sections of their pages, as `--generate man` prints them.
const PROGRAMS: [(&str, u8); 6] = [("lrun", 1), ("lq", 1), ("lconf", 1), ("lsim", 1), ("lmaster", 8), ("lslave", 8)];

/// Programs with completions.
const COMPLETED: [&str; 3] = ["lrun", "lq", "lconf"];

/// Units, sysusers files, and the packages that install them.
const RENAMED: [(&str, &str); 5] = [
    ("systemd/lmaster.service", "limo-master.lmaster.service"),
    ("systemd/lslave.service", "limo-node.lslave.service"),
    ("systemd/limo-jobs.service", "limo-node.limo-jobs.service"),
    ("sysusers/limo.conf", "limo-master.sysusers"),
    ("sysusers/limo.conf", "limo-node.sysusers"),
];

#[derive(Debug, Args)]
pub struct Arguments {
    /// Format of the packages
    #[arg(value_enum)]
    format: Format,
    /// Cargo profile of the programs
    #[arg(long, default_value = "release")]
    profile: String,
    /// Address of the packages' maintainer
    #[arg(long, env = "DEBEMAIL", default_value = "limo@limo.invalid")]
    address: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Debian packages; needs dpkg-dev and debhelper
    Deb,
}

/// Runs `cargo xtask package`; prints the paths of the packages.
///
/// # Errors
/// If a tool is missing or fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Format::Deb = arguments.format;
    succeed(cargo(&["build", "--workspace", "--bins", "--locked", "--profile", &arguments.profile])?)?;
    // The profile `dev` has a directory of another name.
    let built = if arguments.profile == "dev" { "debug" } else { &arguments.profile };
    let target = target_dir()?;
    let place = target.join("package");
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    let source = place.join("source");
    programs(&target.join(built), &source)?;
    deployed(&source, &arguments.address)?;
    let mut build = Command::new("dpkg-buildpackage");
    succeed(build.args(["--build=binary", "--unsigned-changes", "--unsigned-buildinfo"]).current_dir(&source))?;
    for entry in fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))? {
        let path = entry.context("cannot read a directory")?.path();
        if path.extension().is_some_and(|extension| extension == "deb" || extension == "changes") {
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Copies the programs, and writes their pages and completions.
fn programs(built: &Path, source: &Path) -> Result<()> {
    let dirs = ["bin", "man", "bash", "zsh", "fish"].map(|name| source.join(name));
    dirs.iter().try_for_each(fs::create_dir_all).context("cannot make the directories of the packages")?;
    let [bin, man, bash, zsh, fish] = dirs;
    for program in PROGRAMS.iter().map(|(program, _)| *program).chain(["lshepherd"]) {
        copy(&built.join(program), &bin.join(program))?;
    }
    for (program, section) in PROGRAMS {
        generate(&bin, program, "man", &man.join(format!("{program}.{section}")))?;
    }
    for program in COMPLETED {
        generate(&bin, program, "bash", &bash.join(program))?;
        generate(&bin, program, "zsh", &zsh.join(format!("_{program}")))?;
        generate(&bin, program, "fish", &fish.join(format!("{program}.fish")))?;
    }
    copy(&root()?.join("deploy/lshepherd.8"), &man.join("lshepherd.8"))
}

fn generate(bin: &Path, program: &str, form: &str, to: &Path) -> Result<()> {
    let output = Command::new(bin.join(program)).args(["--generate", form]).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} --generate {form}: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(to, output.stdout).with_context(|| format!("cannot write {}", to.display()))
}

/// Copies `deploy/` and the documents, and fills in the templates.
fn deployed(source: &Path, address: &str) -> Result<()> {
    let root = root()?;
    for dir in ["default", "etc", "examples", "debian"] {
        copy(&root.join("deploy").join(dir), &source.join(dir))?;
    }
    for (from, to) in [("README.md", "README.md"), ("docs", "docs"), ("CHANGELOG.md", "docs/CHANGELOG.md")] {
        copy(&root.join(from), &source.join(to))?;
    }
    let debian = source.join("debian");
    for (from, to) in RENAMED {
        copy(&root.join("deploy").join(from), &debian.join(to))?;
    }
    let date = jiff::Zoned::now().strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
    for name in ["control", "changelog"] {
        let template = debian.join(format!("{name}.in"));
        let text = fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
        fs::remove_file(&template).with_context(|| format!("cannot remove {}", template.display()))?;
        let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION")).replace("@DATE@", &date);
        let text = text.replace("@ADDRESS@", address);
        fs::write(debian.join(name), text).with_context(|| format!("cannot write debian/{name}"))?;
    }
    Ok(())
}

/// Copies a file or a directory, with its modes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    succeed(Command::new("cp").arg("-rT").arg(from).arg(to))
}

fn succeed(mut command: impl std::borrow::BorrowMut<Command>) -> Result<()> {
    let command = command.borrow_mut();
    let program = PathBuf::from(command.get_program());
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(status.success(), "{} failed: {status}", program.display());
    Ok(())
}
