//! `lslave`: the daemon of one node. Registers with a master, runs its jobs and reports their ends.
//!
//! One loop takes every event and gives it to the node (the crate `limo-node`), which decides. The shell (`shell`)
//! performs the effects; everything that waits has its own task. The master decides which job runs where.

mod caps;
mod config;
mod groups;
mod hardware;
mod join;
mod launch;
mod link;
mod log;
mod newest;
mod owner;
mod probe;
mod reap;
mod renewal;
mod scripts;
mod shell;
mod shepherds;
mod sleep;
mod spool;
mod tasks;
mod terminal;
mod users;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use limo_node::{Input, JobsAtExit, Parts, Rhythm, duration};
use limo_program::Notifier;
use limo_program::generate::{Section, requested};
use limo_proto::{Alive, PULSE_EVERY, Pulse, own_directory, raise_descriptor_limit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::config::{Arguments, Settings};
use crate::groups::Groups;
use crate::join::LslaveCommand;
use crate::newest::Masters;
use crate::scripts::ScriptRunner;
use crate::shell::{Event, Privileges, Shell, Tools};
use crate::sleep::Sleeper;
use crate::spool::Spool;

/// Most events that wait for the loop; further senders wait.
const EVENTS: usize = 64;

/// Longest time for work beside the loop when the daemon ends; a meter's command has 5 s.
const UNFINISHED: Duration = Duration::from_secs(6);

/// Directory of the shepherds' sockets, in the state directory.
const SHEPHERDS: &str = "shepherds";

/// Score as low as that of other essential daemons: the kernel kills almost everything else first.
const OOM_SCORE_ADJ: &str = "-900";

fn main() -> ExitCode {
    let mut words = std::env::args();
    match words.next().as_deref() {
        Some(tasks::NAME) => return tasks::main(words.next().and_then(|fd| fd.parse().ok())),
        Some(launch::HELD) => return launch::hold(),
        _ => {}
    }
    if let Some(code) = requested("lslave", Section::Daemons, Arguments::command()) {
        return code;
    }
    limo_program::run("lslave", Arguments::try_parse(), |arguments| run(&arguments).map(|()| ExitCode::SUCCESS))
}

/// Makes the kernel prefer other processes when memory runs out. Shepherds reset this for themselves and the jobs.
fn protect() {
    // Only root may do this; without the change, the kernel treats the daemon like any other process.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(LslaveCommand::Join(join)) = &arguments.command {
        return join::run(join);
    }
    if arguments.probe {
        print!("{}", probe::report(arguments));
        return Ok(());
    }
    let settings = Settings::load(arguments)?;
    let site = settings.site()?;
    let relevel = log::start(&settings.log, settings.log_format)?;
    let (mut spec, machine) = hardware::describe(&settings)?;
    if arguments.check_config {
        println!("node `{}`: {} units, master {}", spec.name, spec.units.len(), settings.master);
        return Ok(());
    }
    protect();
    raise_descriptor_limit().context("cannot raise the limit of open files")?;
    own_directory(&settings.state_dir).context("the state directory is not safe")?;
    let mut spool = Spool::open(&settings.state_dir)?;
    if let Err(error) = spool.probe() {
        warn!(%error, "cannot write the state directory: jobs are refused until this works");
    }
    let boot = std::fs::read_to_string(&settings.reboot.boot_id)
        .with_context(|| format!("cannot read the boot id in {}", settings.reboot.boot_id.display()))?;
    // If a shepherd is killed, its job becomes a child of the daemon, which ends it.
    nix::sys::prctl::set_child_subreaper(true).context("cannot become the reaper of the jobs' processes")?;
    // One thread is enough: waking another one takes longer than reading a message.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The state directory is locked now, so no other daemon restores the caps of this one.
    let keeper = caps::open(&settings, &site, &mut spec);
    let owner = settings.owner.as_ref().map(|owner| owner.sources.open(&owner.place)).transpose()?;
    let (caps, cap_lease) = (keeper.clone(), settings.cap_lease);
    let mut jobs_go_on = true;
    let result = runtime.block_on(async {
        let (sender, events) = mpsc::channel(EVENTS);
        let (rhythm, heartbeat) = (settings.rhythm(), settings.heartbeat());
        let (master, trusted) = (settings.master, settings.trusted);
        let meter = settings.meter.as_ref().map(|choice| choice.meter(&site));
        let boot = boot.trim().to_owned();
        let running = probe::RunningDaemon {
            dev: settings.dev,
            with_gpus: settings.gpus != config::GpuSource::None,
            meter: settings.meter.clone(),
            caps: caps.clone(),
            site: site.clone(),
        };
        let is_machine = settings.hardware.is_none() && settings.cpus.is_none();
        let groups = Groups::open(settings.containment, &spool.instance, &spec, is_machine)?;
        let own = nix::unistd::geteuid();
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| anyhow::anyhow!("cannot get random numbers from the kernel: {error}"))?;
        let parts = Parts {
            spec,
            machine,
            has_meter: meter.is_some(),
            may_cap: caps.is_some(),
            cap_lease,
            own_uid: (!own.is_root()).then_some(own.as_raw()),
            user_rules: settings.users.rules,
            scripts: settings.scripts.present(),
            has_owner: owner.is_some(),
            seed,
            instance: spool.instance.clone(),
            boot,
            rhythm,
            containment: groups.containment(),
        };
        let sleeper = settings.sleep.map(|sleep| Sleeper::new(&sleep.off, duration(sleep.patience())));
        let reboot = settings.reboot.command;
        let scripts = ScriptRunner::new(settings.scripts, &settings.name);
        let privileges = Privileges { no_new_privs: settings.users.no_new_privs, pam: settings.users.pam };
        let tools =
            Tools { spool, groups, scripts, privileges, meter, caps, running, sleeper: sleeper.clone(), reboot };
        let mut shell = Shell::open(parts, tools, &settings.state_dir.join(SHEPHERDS), &sender)?;
        info!(node = shell.name(), %master, state_dir = %settings.state_dir.display(), "the node starts");
        let alive = Alive::new(heartbeat);
        let pulse = alive.pulse.clone();
        if let Some(sources) = owner {
            let events = sender.clone();
            limo_owner::watch(sources, move |news| owner::told(&events, news))?;
        }
        tokio::spawn(renewal::keep(master.clone(), trusted));
        let masters = Masters::read(&settings.state_dir);
        tokio::spawn(link::keep((master, masters), trusted, sender, alive, sleeper));
        let reload = || {
            let settings = Settings::load(arguments)?;
            relevel(&settings.log)?;
            Ok(settings.rhythm())
        };
        let result = serve(&mut shell, events, reload, &pulse).await;
        jobs_go_on = shell.has_jobs();
        result
    });
    // A meter's command ends before that, and a blocked read does not hold up the daemon.
    runtime.shutdown_timeout(UNFINISHED);
    // Jobs keep their caps until the next daemon is there, so that a restart does not raise the draw.
    if let Some(keeper) = keeper.filter(|_| !jobs_go_on) {
        caps::close(keeper);
    }
    result
}

/// Runs the loop: passes events to the shell until the node is finished.
async fn serve(
    shell: &mut Shell,
    mut events: mpsc::Receiver<Event>,
    reload: impl Fn() -> anyhow::Result<Rhythm>,
    pulse: &Pulse,
) -> anyhow::Result<()> {
    let mut children = signal(SignalKind::child())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut notifier = Notifier::from_env().context("cannot reach the service manager at NOTIFY_SOCKET")?;
    // A node that waits for its master is ready, too: the services may start in any order.
    notifier.ready();
    loop {
        if let Some(result) = shell.result.take() {
            shell.leave();
            return result.map_err(|reason| anyhow::anyhow!(reason));
        }
        let now = Instant::now();
        pulse.step(now);
        notifier.alive(now.into_std());
        let deadline = shell.deadline();
        let next = deadline.unwrap_or(now + PULSE_EVERY).min(now + PULSE_EVERY);
        let input = tokio::select! {
            Some(event) = events.recv() => {
                shell.take(event);
                continue;
            }
            _ = children.recv() => {
                reap::collect();
                continue;
            }
            _ = terminate.recv() => ended(&notifier, JobsAtExit::Keep),
            _ = interrupt.recv() => ended(&notifier, JobsAtExit::End),
            _ = hangup.recv() => match reload() {
                Ok(rhythm) => Input::Reconfigured(rhythm),
                Err(error) => {
                    error!("the settings are unchanged: {error:#}");
                    continue;
                }
            },
            () = tokio::time::sleep_until(next) => match deadline {
                Some(deadline) if deadline <= next => Input::Deadline,
                _ => continue,
            },
        };
        shell.feed(input);
    }
}

/// Tells the service manager about the signal that ends the daemon, and returns its input.
fn ended(notifier: &Notifier, jobs: JobsAtExit) -> Input {
    notifier.stopping();
    Input::Terminate(jobs)
}
