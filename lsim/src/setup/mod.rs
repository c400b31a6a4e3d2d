//! Setup of a simulation from a command line or a sweep. Reads every file and checks every value before the first
//! event.

mod check;
pub mod files;
mod groups;
mod listed;
mod loaded;
pub mod options;
mod owners;
mod periods;
mod queues;
mod selection;
mod values;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use limo_model::{
    Band, Budgets, CheckpointEvery, Curve, Groups, JobShare, Preset, Price, Profile, ProfileKey, Queues, Release, Span,
    Variation, as_text,
};
use limo_sched::Options;
use limo_trace::hot_start::filling_profiles;
use limo_trace::pool::Sessions;
use limo_trace::{Platform, Workload, swf};
use serde::Deserialize;

use crate::engine::{Bandwidth, Mispredict, Variations, Visits};
use files::{LoadedPlatform, name};
use options::choose;
pub use owners::Reboots;
pub use values::{Amount, Date, Extent, Ratio, Setting, Share};

/// Options of a setup, under the same names on a command line and in the file of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Setup {
    /// Workload: Standard Workload Format, Batsim's JSON or jobs of a pool, plain or gzipped
    #[arg(long, value_name = "FILE", required = true)]
    pub trace: Option<PathBuf>,
    /// Policy; `lsim policies` lists them
    #[arg(long, value_name = "NAME", required = true)]
    pub policy: Option<Preset>,
    /// Part of the policy in place of its own, such as idle=power-off; `lsim policies` lists them
    #[arg(long, value_name = "PART=RULE")]
    pub part: Vec<Setting>,
    /// Option of the policy; `lsim policies` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<Setting>,

    /// Number of nodes with one processor each, with the draws of energy-budget-2017 [default: MaxProcs of the trace]
    #[arg(long, value_name = "N", conflicts_with = "platform", help_heading = "Platform")]
    pub nodes: Option<u32>,
    /// Nodes and their draws: TOML, SimGrid's XML, or the groups of a pool
    #[arg(long, value_name = "FILE", help_heading = "Platform")]
    pub platform: Option<PathBuf>,

    /// Visits of the owners of nodes: a CSV file of sessions, plain or gzipped
    #[arg(long, value_name = "FILE", help_heading = "Owners")]
    pub sessions: Option<PathBuf>,
    /// Time after a visit in which no job starts, in place of that of the groups
    #[arg(long, value_name = "SPAN", requires = "platform", help_heading = "Owners")]
    #[serde(with = "as_text::option")]
    pub start_after: Option<Span>,
    /// Time for which a visit suspends jobs until it evicts them, in place of that of the groups
    #[arg(long, value_name = "SPAN", requires = "platform", help_heading = "Owners")]
    #[serde(with = "as_text::option")]
    pub evict_after: Option<Span>,
    /// Effect of the daily reboots of a pool on jobs: evict, defer (they wait for its end) or off [default: evict]
    #[arg(long, value_name = "RULE", requires = "platform", help_heading = "Owners")]
    #[serde(with = "as_text::option")]
    pub reboots: Option<Reboots>,
    /// Running time between checkpoints of a pool's jobs: a span, or auto for the time of least expected loss
    #[arg(long, value_name = "SPAN|auto", requires = "platform", help_heading = "Owners")]
    #[serde(with = "as_text::option")]
    pub checkpoint_every: Option<CheckpointEvery>,
    /// Time that a checkpoint takes [default: 0s]
    #[arg(long, value_name = "SPAN", requires = "checkpoint_every", help_heading = "Owners")]
    #[serde(with = "as_text::option")]
    pub checkpoint_cost: Option<Span>,
    /// Rate at which a pool's computer transfers the bytes of its jobs, such as 100Mbit/s [default: at once]
    #[arg(long, value_name = "RATE", requires = "platform", help_heading = "Owners")]
    #[serde(with = "as_text::option")]
    pub bandwidth: Option<Bandwidth>,

    /// Energy for one period: 40MWh, or 80% of what all processors would use while they compute
    #[arg(long, value_name = "ENERGY|N%", requires = "from", requires = "until", help_heading = "Energy")]
    #[serde(with = "as_text::option")]
    pub budget: Option<Amount>,
    /// Begin of the budget's period, from the start of the workload
    #[arg(long, value_name = "SPAN", requires = "budget", help_heading = "Energy")]
    #[serde(with = "as_text::option")]
    pub from: Option<Span>,
    /// End of the budget's period, from the start of the workload
    #[arg(long, value_name = "SPAN", requires = "budget", help_heading = "Energy")]
    #[serde(with = "as_text::option")]
    pub until: Option<Span>,
    /// Budgets for successive periods: a CSV file with from,until,energy_kwh
    #[arg(long, value_name = "FILE", conflicts_with = "budget", help_heading = "Energy")]
    pub budgets: Option<PathBuf>,
    /// Release of budgets over their periods: even or by-price [default: even]
    #[arg(long, value_name = "RULE", help_heading = "Energy")]
    pub release: Option<Release>,
    /// Prices: a CSV file with time,price_eur_per_mwh
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub prices: Option<PathBuf>,
    /// Lower and upper limits of the draw: a CSV file with time,low_w,high_w
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub limits: Option<PathBuf>,
    /// Window for utilisation, energy and cost, e.g. 2d..5d from the start of the workload [default: the time of all
    /// budgets]
    #[arg(long, value_name = "FROM..UNTIL", help_heading = "Energy")]
    #[serde(with = "as_text::option")]
    pub measure: Option<Extent>,
    /// Hide each limit from the policy until it comes into force
    #[arg(long, requires = "limits", help_heading = "Energy")]
    pub unwarned: bool,
    /// Groups of nodes with power limits: TOML with a table [group.NAME] for each, as in lmaster's settings
    #[arg(long, value_name = "FILE", help_heading = "Energy")]
    pub groups: Option<PathBuf>,

    /// Profiles of applications for the policy: a CSV file in the format of `lconf profile export`
    #[arg(long, value_name = "FILE", help_heading = "Jobs")]
    pub profiles: Option<PathBuf>,
    /// Differences between equal units: a CSV file in the format of `lconf variation export`
    #[arg(long, value_name = "FILE", help_heading = "Jobs")]
    pub variation: Option<PathBuf>,
    /// The differences that the policy knows, if they are not the true ones
    #[arg(long, value_name = "FILE", requires = "variation", help_heading = "Jobs")]
    pub believed_variation: Option<PathBuf>,
    /// Predict the draws of jobs without a profile from jobs that have ended in the simulation, as the master does
    #[arg(long, help_heading = "Jobs")]
    pub predict: bool,
    /// Share of the jobs that may be suspended, e.g. 30%, spread evenly [default: as the trace says]
    #[arg(long, value_name = "N%", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub suspendable: Option<Share>,
    /// Share of the jobs that may be requeued
    #[arg(long, value_name = "N%", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub requeueable: Option<Share>,
    /// Share of the jobs that are fillers, which only keep the draw above the lower limit
    #[arg(long, value_name = "N%", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub fillers: Option<Share>,
    /// Share of the jobs that may run at a cap without a profile
    #[arg(long, value_name = "N%", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub explorable: Option<Share>,
    /// Share of these that do, as by `lconf set explore` [default: 0%]
    #[arg(long, value_name = "N%", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub explore: Option<JobShare>,
    /// Queues of jobs: TOML with a table [queue.N] for each queue number of the trace, as in lmaster's settings
    #[arg(long, value_name = "FILE", help_heading = "Jobs")]
    pub queues: Option<PathBuf>,
    /// Share of the nodes that are full when the workload begins: half of them for 10 minutes, half for 20
    #[arg(long, value_name = "N%", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub hot_start: Option<Share>,
    /// Predict the draw of each job: of this share of the jobs as FACTOR times the real one, e.g. 10%:0.6
    #[arg(long, value_name = "N%:FACTOR[:SEED]", conflicts_with_all = ["profiles", "predict"], help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub mispredict: Option<Mispredict>,
    /// Calendar time of the trace's zero, e.g. 2017-10-26T00:00:00Z [default: UnixStartTime of the trace]
    #[arg(long, value_name = "TIME", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub start: Option<Date>,
    /// Simulate only jobs submitted in this part of the trace, e.g. 2d..5d; its begin becomes the start of the
    /// workload
    #[arg(long, value_name = "FROM..UNTIL", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub window: Option<Extent>,
    /// Simulate only jobs of these users
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = "Jobs")]
    pub users: Vec<i32>,
    /// Simulate only the first N jobs
    #[arg(long, value_name = "N", help_heading = "Jobs")]
    pub first: Option<usize>,
    /// Factor of the load: times between submissions are divided by it
    #[arg(long, value_name = "FACTOR", help_heading = "Jobs")]
    #[serde(with = "as_text::option")]
    pub load: Option<Ratio>,
}

/// Setup with its files read and its values checked.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub workload: Arc<Workload>,
    pub platform: Platform,
    pub preset: Preset,
    pub options: Options,
    pub budgets: Budgets,
    pub limits: Option<Curve<Band>>,
    /// True if the policy sees each limit only when it comes into force.
    pub unwarned: bool,
    pub prices: Option<Curve<Price>>,
    pub profiles: Vec<(ProfileKey, Profile)>,
    /// The true differences of units, and those that the policy knows.
    pub variation: Variations,
    /// True if a model predicts the jobs from those that have ended.
    pub predict: bool,
    /// Share of the jobs that allow it that explore caps.
    pub explore: JobShare,
    pub mispredict: Option<Mispredict>,
    pub queues: Queues,
    pub groups: Groups,
    /// Owners and reboots of nodes, if there are any.
    pub visits: Option<Visits>,
    measure: Option<Extent>,
    /// Repaired and omitted data, and warnings, one line each.
    pub notes: Vec<String>,
    names: Names,
}

/// Texts for a heading.
#[derive(Debug, Clone)]
struct Names {
    workload: String,
    platform: String,
    options: Vec<(String, String)>,
}

impl Setup {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// If something cannot be read, understood or simulated; names file and line or the option.
    pub fn load(&self) -> Result<Loaded> {
        let (workload, sessions) = thread::scope(|scope| {
            // Both files of a pool are large.
            let sessions = scope.spawn(|| self.sessions());
            (self.workload(), sessions.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        self.with_sessions(Arc::new(workload?), sessions?)?.checked()
    }

    /// Reads the trace and takes the selected part.
    ///
    /// # Errors
    /// The same as for [`Setup::load`].
    pub fn workload(&self) -> Result<Workload> {
        self.workload_by(swf::Options::default())
    }

    /// Reads the trace by these rules for the Standard Workload Format, and takes the selected part.
    ///
    /// # Errors
    /// The same as for [`Setup::load`].
    pub fn workload_by(&self, rules: swf::Options) -> Result<Workload> {
        let trace = self.trace.as_ref().ok_or_else(|| anyhow!("no trace: name one with --trace"))?;
        // Only a SimGrid platform has the speed of its hosts, which some of Batsim's profiles need.
        let speed = self.platform.as_deref().map(files::platform).transpose()?.and_then(|cluster| cluster.speed);
        self.options()?;
        let workload = files::workload(trace, rules, speed)?;
        Ok(self.part(workload))
    }

    /// The same as for [`Setup::load`], with a workload from [`Setup::workload`].
    ///
    /// # Errors
    /// The same as for [`Setup::load`].
    pub fn over(&self, workload: Arc<Workload>) -> Result<Loaded> {
        self.over_unchecked(workload)?.checked()
    }

    /// Does the same as [`Setup::over`], but accepts budgets that no policy can keep, for schedulers that ignore budgets.
    ///
    /// # Errors
    /// The same as for [`Setup::load`].
    pub fn over_unchecked(&self, workload: Arc<Workload>) -> Result<Loaded> {
        self.with_sessions(workload, self.sessions()?)
    }

    fn with_sessions(&self, workload: Arc<Workload>, sessions: Option<Sessions>) -> Result<Loaded> {
        let preset = self.policy.ok_or_else(|| anyhow!("no policy: name one with --policy"))?;
        let (options, mut notes) = self.options()?;
        if workload.jobs.is_empty() && self.sessions.is_none() {
            bail!("no job is left to simulate: widen --window, --users or --first");
        }
        let (LoadedPlatform { platform, notes: platform_notes, pool, .. }, platform_name) = self.cluster(&workload)?;
        let workload = self.hot(workload, &platform)?;
        let (visits, workload) = self.visits((&platform, pool.as_ref()), workload, sessions)?;
        let clock = files::clock(workload.start);
        let prices = self.prices.as_deref().map(|path| files::prices(path, clock)).transpose()?;
        let limits = self.limits.as_deref().map(|path| files::limits(path, clock)).transpose()?;
        let budgets = self.periods(&workload, &platform)?;
        let mut profiles = self.profiles.as_deref().map(files::profiles).transpose()?.unwrap_or_default();
        if self.hot_start.is_some() {
            profiles.extend(filling_profiles(&platform));
        }
        let variation = Variations {
            actual: Self::variation(self.variation.as_deref(), &platform)?,
            believed: Self::variation(self.believed_variation.as_deref().or(self.variation.as_deref()), &platform)?,
        };
        let queues = self.queues.as_deref().map(|path| queues::read(path, &platform, &workload)).transpose()?;
        let groups = match (&self.groups, &pool) {
            (Some(path), _) => groups::read(path, &platform)?,
            (None, Some(pool)) => self.pool_groups(pool, &options, (&workload, visits.as_ref()))?,
            (None, None) => Groups::default(),
        };
        notes.extend(self.groups.as_ref().and_then(|path| groups::without_reboots(path, &groups)));
        notes.extend(workload.notes.iter().cloned());
        notes.extend(platform_notes);
        notes.extend(check::too_large(&platform, &workload));
        notes.extend(check::promises((preset, options.parts_of(preset)), &budgets, limits.is_some()));
        if self.release == Some(Release::ByPrice) && prices.is_none() {
            notes.push("--release by-price: there are no prices (--prices), so the release is even".to_owned());
        }
        let workload_name = self.trace.as_deref().map_or_else(|| "workload".to_owned(), name);
        let names = Names { workload: workload_name, platform: platform_name, options: self.listed() };
        let measure = self.measure;
        Ok(Loaded {
            workload,
            platform,
            preset,
            options,
            budgets,
            limits,
            unwarned: self.unwarned,
            prices,
            profiles,
            variation,
            predict: self.predict,
            explore: self.explore.unwrap_or_default(),
            mispredict: self.mispredict,
            queues: queues.unwrap_or_default(),
            groups,
            visits,
            measure,
            notes,
            names,
        })
    }

    /// Adds the jobs that fill nodes at the start.
    fn hot(&self, workload: Arc<Workload>, platform: &Platform) -> Result<Arc<Workload>> {
        let Some(share) = self.hot_start else { return Ok(workload) };
        let mut workload = Arc::unwrap_or_clone(workload);
        workload.hot_start(platform, share.0 as f64 / 10_000.0).context("--hot-start")?;
        Ok(Arc::new(workload))
    }

    /// Reads the factors of units, if there is a file; else the platform may have some.
    fn variation(file: Option<&Path>, platform: &Platform) -> Result<Variation> {
        file.map_or_else(|| Ok(platform.variation()), |path| files::variation(path, platform))
    }

    fn options(&self) -> Result<(Options, Vec<String>)> {
        let preset = self.policy.ok_or_else(|| anyhow!("no policy: name one with --policy"))?;
        choose(preset, (&self.part, &self.set))
    }

    /// Returns the platform and its name.
    fn cluster(&self, workload: &Workload) -> Result<(LoadedPlatform, String)> {
        if let Some(path) = &self.platform {
            if self.nodes.is_some() {
                bail!("--nodes and --platform exclude each other: give one of them");
            }
            return Ok((files::platform(path)?, name(path)));
        }
        let nodes = self.nodes.or(workload.processors).ok_or_else(|| {
            anyhow!("the trace does not say how many processors its machine has (MaxProcs): give --nodes N or --platform FILE")
        })?;
        let platform = Platform::taurus(nodes);
        platform.check().with_context(|| format!("{nodes} nodes cannot be simulated"))?;
        Ok((platform.into(), format!("{nodes} nodes of energy-budget-2017")))
    }
}

#[cfg(test)]
mod tests;
