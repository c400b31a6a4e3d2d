//! `cargo xtask package deb|rpm`: builds the programs, their manual pages and completions, and makes packages of them by
//! debhelper or rpmbuild. The files of the packages are in `deploy/`.

mod pages;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::workspace::{cargo, root, target_dir};

/// The installed programs with the sections of their pages, as `--generate man` prints them.
const PROGRAMS: [(&str, u8); 7] =
    [("lrun", 1), ("lq", 1), ("lconf", 1), ("lsim", 1), ("lprof", 1), ("lmaster", 8), ("lslave", 8)];

/// Installed programs whose options are not those of clap, with the sections of their pages in `deploy`.
const WRITTEN: [(&str, u8); 2] = [("lshepherd", 8), ("lslurm", 1)];

/// Packages with the programs whose completions they install.
const COMPLETED: [(&str, &[&str]); 4] = [
    ("client", &["lrun", "lq", "lconf"]),
    ("master", &["lmaster"]),
    ("node", &["lslave", "lprof"]),
    ("sim", &["lsim"]),
];

/// Units, sysusers files, and the packages that install them.
const RENAMED: [(&str, &str); 6] = [
    ("systemd/lmaster.service", "limo-master.lmaster.service"),
    ("systemd/lslave.service", "limo-node.lslave.service"),
    ("systemd/limo-jobs.service", "limo-node.limo-jobs.service"),
    ("systemd/limo-relay.service", "limo-client.limo-relay.service"),
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
    /// RPM packages; needs rpmbuild
    Rpm,
}

/// Returns true if the tools for Debian packages are installed.
pub fn can_make_deb() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    ["dpkg-buildpackage", "dh"]
        .iter()
        .all(|tool| std::env::split_paths(&paths).any(|directory| directory.join(tool).is_file()))
}

/// Runs `cargo xtask package`; prints the paths of the packages.
///
/// # Errors
/// If a tool is missing or fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    succeed(cargo(&["build", "--workspace", "--bins", "--locked", "--profile", &arguments.profile])?)?;
    // The profile `dev` has a directory of another name.
    let built = if arguments.profile == "dev" { "debug" } else { &arguments.profile };
    let target = target_dir()?;
    let (place, ending) = match arguments.format {
        Format::Deb => (target.join("package"), "deb"),
        Format::Rpm => (target.join("package-rpm"), "rpm"),
    };
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    let source = place.join("source");
    programs(&target.join(built), &source)?;
    deployed(&source)?;
    match arguments.format {
        Format::Deb => deb(&source, arguments)?,
        Format::Rpm => rpm(&place, &source, arguments)?,
    }
    for entry in fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))? {
        let path = entry.context("cannot read a directory")?.path();
        if path.extension().is_some_and(|extension| extension == ending || extension == "changes") {
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn deb(source: &Path, arguments: &Arguments) -> Result<()> {
    let debian = source.join("debian");
    copy(&root()?.join("deploy/debian"), &debian)?;
    for (from, to) in RENAMED {
        copy(&root()?.join("deploy").join(from), &debian.join(to))?;
    }
    for name in ["control", "changelog"] {
        fill(&debian.join(format!("{name}.in")), &debian.join(name), &arguments.address)?;
    }
    let mut build = Command::new("dpkg-buildpackage");
    if arguments.profile == "dev" {
        // These packages are for tests, which wait for them.
        build.env("DEB_COMPRESSION", "-z0");
    }
    succeed(build.args(["--build=binary", "--unsigned-changes", "--unsigned-buildinfo"]).current_dir(source))
}

fn rpm(place: &Path, source: &Path, arguments: &Arguments) -> Result<()> {
    let deploy = root()?.join("deploy");
    for dir in ["systemd", "sysusers"] {
        copy(&deploy.join(dir), &source.join(dir))?;
    }
    let spec = place.join("limo.spec");
    fill(&deploy.join("rpm/limo.spec.in"), &spec, &arguments.address)?;
    let mut build = Command::new("rpmbuild");
    for (name, value) in
        [("_topdir", place.join("build")), ("_rpmdir", place.to_owned()), ("limo_source", source.to_owned())]
    {
        build.arg("--define").arg(format!("{name} {}", value.display()));
    }
    build.args(["--define", "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"]);
    if arguments.profile == "dev" {
        build.args(["--define", "_binary_payload w0.gzdio"]);
    }
    succeed(build.arg("-bb").arg(&spec))
}

/// Copies the programs, and writes their pages and completions.
fn programs(built: &Path, source: &Path) -> Result<()> {
    let dirs = ["bin", "man"].map(|name| source.join(name));
    dirs.iter().try_for_each(fs::create_dir_all).context("cannot make the directories of the packages")?;
    let [bin, man] = dirs;
    for program in PROGRAMS.iter().map(|(program, _)| *program).chain(WRITTEN.map(|(program, _)| program)) {
        copy(&built.join(program), &bin.join(program))?;
    }
    for (program, section) in PROGRAMS {
        generate(&bin, program, "man", &man.join(format!("{program}.{section}")))?;
    }
    for (package, programs) in COMPLETED {
        let [bash, zsh, fish] =
            ["bash", "zsh", "fish"].map(|shell| source.join("completions").join(package).join(shell));
        for dir in [&bash, &zsh, &fish] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        for program in programs {
            generate(&bin, program, "bash", &bash.join(program))?;
            generate(&bin, program, "zsh", &zsh.join(format!("_{program}")))?;
            generate(&bin, program, "fish", &fish.join(format!("{program}.fish")))?;
        }
    }
    let settings = root()?.join("docs/configuration.md");
    let settings = fs::read_to_string(&settings).with_context(|| format!("cannot read {}", settings.display()))?;
    for program in ["lmaster", "lslave"] {
        let text = pages::section(&settings, program);
        let text = text.with_context(|| format!("docs/configuration.md has no section {program}"))?;
        let page = pages::page(&format!("{program}.toml"), &format!("settings of {program}"), text);
        fs::write(man.join(format!("{program}.toml.5")), page)
            .with_context(|| format!("cannot write {}", man.display()))?;
    }
    WRITTEN.iter().try_for_each(|(program, section)| {
        let page = format!("{program}.{section}");
        copy(&root()?.join("deploy").join(&page), &man.join(&page))
    })
}

fn generate(bin: &Path, program: &str, form: &str, to: &Path) -> Result<()> {
    let output = Command::new(bin.join(program)).args(["--generate", form]).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} --generate {form}: {}", String::from_utf8_lossy(&output.stderr));
    fs::write(to, output.stdout).with_context(|| format!("cannot write {}", to.display()))
}

/// Copies the documents and the files of all formats from `deploy/`.
fn deployed(source: &Path) -> Result<()> {
    let root = root()?;
    for dir in ["default", "etc", "examples", "grafana", "pam", "prometheus"] {
        copy(&root.join("deploy").join(dir), &source.join(dir))?;
    }
    for (from, to) in [("README.md", "README.md"), ("docs", "docs"), ("CHANGELOG.md", "docs/CHANGELOG.md")] {
        copy(&root.join(from), &source.join(to))?;
    }
    Ok(())
}

/// Writes a file from its template.
fn fill(template: &Path, to: &Path, address: &str) -> Result<()> {
    let text = fs::read_to_string(template).with_context(|| format!("cannot read {}", template.display()))?;
    let now = jiff::Zoned::now();
    let date = now.strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
    let day = now.strftime("%a %b %d %Y").to_string();
    let text = text.replace("@VERSION@", env!("CARGO_PKG_VERSION")).replace("@DATE@", &date).replace("@DAY@", &day);
    fs::write(to, text.replace("@ADDRESS@", address)).with_context(|| format!("cannot write {}", to.display()))
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
