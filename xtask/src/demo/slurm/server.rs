//! A separate Slurm for the demo: started by a START_SH of the caller, with power programs that the demo writes, and
//! stopped by the `stop.sh` next to it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use limo_model::Span;

use crate::demo::pace::shortened;

/// Idle time, in the time of the hour, after which a machine is switched off.
const IDLE: Span = Span::from_secs(300);
/// Boot time of a machine, in the time of the hour.
const BOOT: Span = Span::from_secs(60);

/// Slurm's limits for shutdown and boot, in seconds of wall time. Its manual requires that [`IDLE`] is at least their
/// sum.
const OFF_S: u64 = 5;
const ON_S: u64 = 25;

/// Log of the power programs, below the directory of Slurm.
pub const POWER_LOG: &str = "power.log";

/// Range in which free ports are searched, and the step.
const PORTS: std::ops::Range<u16> = 17_000..30_000;
const PORT_STEP: usize = 1_500;
/// First port of the nodes in START_SH, relative to that of `slurmctld`.
const NODE_PORT: u16 = 11;

/// START_SH, and the `stop.sh` next to it.
#[derive(Debug, Clone)]
pub struct Scripts {
    start: PathBuf,
    stop: PathBuf,
}

impl Scripts {
    /// Finds both scripts.
    ///
    /// # Errors
    /// If one of them does not exist.
    pub fn find(start: &Path) -> Result<Self> {
        let found = start.canonicalize().ok().filter(|start| start.is_file());
        let found = found.with_context(|| format!("START_SH {} does not exist or is not a file", start.display()))?;
        let stop = found.with_file_name("stop.sh");
        ensure!(stop.is_file(), "START_SH {} has no stop.sh beside it", start.display());
        Ok(Self { start: found, stop })
    }
}

/// A Slurm that starts or runs; stopped when dropped.
pub struct SlurmServer {
    dir: PathBuf,
    stop: PathBuf,
    config: PathBuf,
}

impl SlurmServer {
    /// Starts Slurm on `machines` nodes of one CPU each, below `dir`.
    ///
    /// # Errors
    /// If START_SH fails.
    pub async fn start(scripts: &Scripts, dir: &Path, machines: usize, factor: i64) -> Result<Self> {
        let named = || format!("START_SH {}", scripts.start.display());
        let text = dir.to_str().with_context(|| format!("{} is not UTF-8 text", dir.display()))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        ensure!(
            text.chars().all(is_plain),
            "the path {text} is not for Slurm; it must be of letters, digits and `/._-+`"
        );
        write_power_saving(dir, text, factor)?;
        let mut slurm = Self { dir: dir.to_owned(), stop: scripts.stop.clone(), config: PathBuf::new() };
        let mut command = without_settings(&scripts.start);
        command.current_dir(dir).env("BASE", dir).env("EXTRA_CONF", dir.join("power.conf"));
        command.env("NODES", machines.to_string()).env("CPUS", "1").env("PROFILE", "backfill");
        command.env("PORT0", free_port(machines)?.to_string()).stderr(io::stderr());
        let mut command = tokio::process::Command::from(command);
        let output = command.kill_on_drop(true).stdout(Stdio::piped()).spawn();
        let output = output.with_context(|| format!("cannot run {}", named()))?.wait_with_output().await;
        let output = output.with_context(|| format!("cannot run {}", named()))?;
        ensure!(output.status.success(), "{} failed ({})", named(), output.status);
        let config = config_in(&String::from_utf8_lossy(&output.stdout));
        slurm.config = config.with_context(|| format!("{} did not print `export SLURM_CONF=FILE`", named()))?;
        Ok(slurm)
    }

    /// Returns the output of a command of Slurm, without the user's own settings.
    ///
    /// # Errors
    /// If it fails, with its message.
    pub async fn ask(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = without_settings(Path::new(program));
        command.args(arguments).env("SLURM_CONF", &self.config).current_dir(&self.dir);
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await;
        let output = output.with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{program} {} failed ({}): {}", arguments.join(" "), output.status, said.trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("{program} printed no text"))
    }
}

impl Drop for SlurmServer {
    fn drop(&mut self) {
        let mut command = without_settings(&self.stop);
        // Output goes to stderr, because stdout is for the answer.
        let status = command.env("BASE", &self.dir).stdout(io::stderr()).stderr(io::stderr()).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => eprintln!("demo: {} failed ({status}): look for daemons of Slurm", self.stop.display()),
            Err(error) => eprintln!("demo: cannot run {}: {error}: look for daemons of Slurm", self.stop.display()),
        }
    }
}

/// Returns the longest time from the last job until all machines are off: twice the expected one.
pub fn patience(factor: i64) -> Duration {
    Duration::from_millis(shortened(IDLE, factor).ms().unsigned_abs() * 2) + Duration::from_secs(OFF_S + ON_S)
}

/// Returns a command for a program, without settings for Limo, Slurm or START_SH.
fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let prefixes = ["LIMO_", "SLURM_", "SBATCH_", "SQUEUE_"];
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) || name == "KEEP_STATE" {
            command.env_remove(&*name);
        }
    }
    command.stdin(Stdio::null());
    command
}

fn config_in(said: &str) -> Option<PathBuf> {
    said.lines().find_map(|line| line.strip_prefix("export SLURM_CONF=")).map(|path| PathBuf::from(path.trim()))
}

/// Returns the first of several consecutive free ports: that of `slurmctld`, and those of the nodes.
fn free_port(machines: usize) -> Result<u16> {
    let nodes = NODE_PORT..NODE_PORT.saturating_add(u16::try_from(machines).unwrap_or(u16::MAX));
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let all_free = |first: &u16| is_free(*first) && nodes.clone().all(|node| is_free(first.saturating_add(node)));
    PORTS.step_by(PORT_STEP).find(all_free).context("no free ports for Slurm between 17000 and 30000")
}

/// Writes the text that START_SH appends to `slurm.conf`, and the programs named in it.
fn write_power_saving(dir: &Path, text: &str, factor: i64) -> Result<()> {
    let seconds = |span: Span| shortened(span, factor).ms() / 1_000;
    let idle = seconds(IDLE);
    let config = format!(
        "SuspendTime={idle}\nSuspendTimeout={OFF_S}\nResumeTimeout={ON_S}\nSuspendRate=0\nResumeRate=0\n\
         SuspendProgram={text}/power-off\nResumeProgram={text}/power-on\n\
         SlurmctldParameters=power_save_interval=1,power_save_min_interval=0\n"
    );
    write(&dir.join("power.conf"), &config)?;
    let boot = format!("{:.3}", shortened(BOOT, factor).secs());
    for (name, program) in [("power-off", POWER_OFF), ("power-on", POWER_ON)] {
        let path = dir.join(name);
        write(&path, &program.replace("@DIR@", text).replace("@BOOT@", &boot))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make {} executable", path.display()))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Switches the machines of a host list off: `slurmd` ends at once. Slurm runs the script with closed streams.
const POWER_OFF: &str = r#"#!/bin/bash
exec </dev/null >>@DIR@/power.out 2>&1
export SLURM_CONF=@DIR@/run/slurm.conf
for node in $(scontrol show hostnames "$1"); do
    file=@DIR@/run/pid/slurmd.$node.pid
    pid=$(cat "$file")
    [ "$(cat "/proc/$pid/comm")" = slurmd ] && kill -KILL "$pid"
    rm -f "$file"
    echo "$(date +%s%3N) off $node" >>@DIR@/power.log
done
"#;

/// Switches the machines of a host list on; each boots on its own. Slurm runs the script with closed streams and
/// blocked signals, which a `slurmd` must not inherit. A machine that finishes its boot after Slurm was stopped stays
/// off.
const POWER_ON: &str = r#"#!/bin/bash
exec </dev/null >>@DIR@/power.out 2>&1
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin SLURM_CONF=@DIR@/run/slurm.conf
boot() {
    echo "$(date +%s%3N) on $1" >>@DIR@/power.log
    sleep @BOOT@
    [ -e @DIR@/run/pid/slurmctld.pid ] || exit
    env --default-signal slurmd -N "$1" -b -f "$SLURM_CONF" && echo "$(date +%s%3N) up $1" >>@DIR@/power.log
}
for node in $(scontrol show hostnames "$1"); do boot "$node" & done
wait
"#;

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a directory with these scripts.
    fn scripts(scripts: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in scripts {
            let path = dir.path().join(name);
            write(&path, &format!("#!/bin/sh\n{text}\n")).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        }
        fs::create_dir(dir.path().join("base")).expect("a directory");
        dir
    }

    fn start(dir: &Path) -> Result<SlurmServer> {
        let scripts = Scripts::find(&dir.join("start.sh"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(SlurmServer::start(&scripts, &dir.join("base"), 4, 10))
    }

    const STOP: (&str, &str) = ("stop.sh", "echo stopped > \"$BASE/stopped\"");

    #[test]
    fn start_sh_gets_its_settings_and_stop_sh_runs_at_the_end() {
        let settings = "echo \"$NODES $CPUS $PROFILE\" > \"$BASE/settings\"; cat \"$EXTRA_CONF\" >> \"$BASE/settings\"";
        let dir = scripts(&[("start.sh", &format!("{settings}; echo 'export SLURM_CONF=/x/slurm.conf'")), STOP]);
        let base = dir.path().join("base");
        let slurm = start(dir.path()).expect("started");
        assert_eq!(slurm.config, Path::new("/x/slurm.conf"));
        let text = fs::read_to_string(base.join("settings")).expect("settings");
        // At a tenth of real time, five minutes of the hour are 30 s, and a minute is 6 s.
        assert!(text.starts_with("4 1 backfill\nSuspendTime=30\nSuspendTimeout=5\nResumeTimeout=25\n"), "{text}");
        assert!(text.contains(&format!("SuspendProgram={}/power-off\n", base.display())), "{text}");
        assert!(fs::read_to_string(base.join("power-on")).expect("a program").contains("sleep 6.000\n"));
        assert!(!base.join("stopped").exists());
        drop(slurm);
        assert!(base.join("stopped").exists());
    }

    #[test]
    fn a_start_sh_that_does_not_work_is_named() {
        let refused = |given: &[(&str, &str)], said: &str| {
            let dir = scripts(given);
            let error = format!("{:#}", start(dir.path()).err().expect("refused"));
            assert_eq!(error, format!("START_SH {} {said}", dir.path().join("start.sh").display()));
            dir.path().join("base/stopped").exists()
        };
        assert!(!refused(&[], "does not exist or is not a file"));
        assert!(!refused(&[("start.sh", "true")], "has no stop.sh beside it"));
        assert!(refused(&[("start.sh", "exit 3"), STOP], "failed (exit status: 3)"), "what it had started is stopped");
        assert!(refused(&[("start.sh", "echo up"), STOP], "did not print `export SLURM_CONF=FILE`"));
    }

    #[test]
    fn ports_in_use_are_left_alone() {
        let first = free_port(4).expect("ports");
        if let Ok(_taken) = TcpListener::bind((Ipv4Addr::LOCALHOST, first + NODE_PORT + 3)) {
            assert_ne!(free_port(4).expect("ports"), first);
        }
    }
}
