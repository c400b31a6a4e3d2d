//! `--sessions` and `--reboots`: the owners of a pool's computers, and when these start anew.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use limo_model::{DayWindow, GroupSpec, Groups, NodeId, Span, Time};
use limo_sched::{Options, PoolRank};
use limo_trace::pool::{self, OpeningHours, Pool, Session, Sessions};
use limo_trace::{Platform, Workload};

use super::Setup;
use crate::engine::{Checkpointing, DailyReboot, OwnerVisit, Visits, node_specs};

const DAY_MS: i64 = 86_400_000;
const YEAR: Span = Span::from_secs(366 * 86_400);

/// Effect on jobs of the daily reboots in `groups.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reboots {
    /// Nodes never reboot.
    Off,
    /// Reboots evict jobs.
    #[default]
    Evict,
    /// Reboots wait for the end of jobs.
    Defer,
}

impl FromStr for Reboots {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "evict" => Ok(Self::Evict),
            "defer" => Ok(Self::Defer),
            _ => Err(format!("`{text}` is not a rule for reboots: off, evict or defer")),
        }
    }
}

impl fmt::Display for Reboots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Evict => "evict",
            Self::Defer => "defer",
        })
    }
}

impl Setup {
    /// Returns the groups of a pool, with the times of the options in place of their own, and the hours at which they are
    /// open if these matter.
    pub(super) fn pool_groups(
        &self,
        pool: &Pool,
        options: &Options,
        (workload, visits): (&Workload, Option<&Visits>),
    ) -> Result<Groups> {
        let start = workload.start.unwrap_or(Time::from_unix_ms(0));
        let last = workload.jobs.last().map_or(start, |job| start + job.submit);
        let logout = visits.and_then(|visits| visits.visits.iter().map(|visit| visit.logout).max());
        // Jobs may wait and run for long after they were submitted.
        let until = logout.map_or(last, |logout| logout.max(last)) + YEAR;
        let is_ranked = options.pool.rank == PoolRank::S4;
        let of = |((name, spec), open): ((&str, &GroupSpec), &Option<OpeningHours>)| {
            let open = open.as_ref().filter(|_| is_ranked).map(|open| open.curve(start, until));
            let owners = spec.owners.map(|mut rules| {
                rules.start_after = self.start_after.unwrap_or(rules.start_after);
                rules.evict_after = self.evict_after.unwrap_or(rules.evict_after);
                rules
            });
            (name.to_owned(), GroupSpec { owners, open, ..spec.clone() })
        };
        // Both are in the order of the names of the groups.
        let groups = pool.groups.iter().zip(&pool.open).map(of).collect();
        Groups::new(groups).context("--platform, --start-after and --evict-after")
    }

    /// Reads the sessions of owners, if there is a file.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is wrong.
    pub(super) fn sessions(&self) -> Result<Option<Sessions>> {
        Ok(self.sessions.as_deref().map(pool::sessions).transpose()?)
    }

    /// Returns the visits of owners, and finds the times of reboots. A workload with earlier visits begins at their first
    /// midnight.
    ///
    /// # Errors
    /// If a computer is not in the platform.
    pub(super) fn visits(
        &self,
        (platform, pool): (&Platform, Option<&Pool>),
        workload: Arc<Workload>,
        sessions: Option<Sessions>,
    ) -> Result<(Option<Visits>, Arc<Workload>)> {
        let defers = self.reboots == Some(Reboots::Defer);
        let wanted = pool.filter(|_| self.reboots != Some(Reboots::Off));
        let reboots = wanted.map(|pool| reboots(platform, pool)).unwrap_or_default();
        let cost = self.checkpoint_cost.unwrap_or(Span::ZERO);
        let bandwidth = self.bandwidth;
        let checkpointing = self.checkpoint_every.map(|every| Checkpointing { every, cost });
        let Some((path, sessions)) = self.sessions.as_ref().zip(sessions) else {
            let visits = Visits { visits: Vec::new(), reboots, defers, checkpointing, bandwidth };
            return Ok((pool.map(|_| visits), workload));
        };
        let visits = visits_of((path, sessions), platform)?;
        let begins = visits.first().map(|visit| Time::from_unix_ms(visit.login.unix_ms().div_euclid(DAY_MS) * DAY_MS));
        let workload = match (begins, workload.start) {
            (Some(begins), start) if start.is_none_or(|start| begins < start) => {
                let mut workload = Arc::unwrap_or_clone(workload);
                let later = start.map_or(Span::ZERO, |start| start - begins);
                workload.jobs.iter_mut().for_each(|job| job.submit = job.submit + later);
                workload.start = Some(begins);
                Arc::new(workload)
            }
            _ => workload,
        };
        Ok((Some(Visits { visits, reboots, defers, checkpointing, bandwidth }), workload))
    }
}

fn visits_of((path, read): (&Path, Sessions), platform: &Platform) -> Result<Vec<OwnerVisit>> {
    let nodes: HashMap<String, NodeId> =
        (0..).zip(node_specs(platform)).map(|(id, spec)| (spec.name, NodeId(id))).collect();
    let Sessions { sessions, computers, .. } = read;
    let mut known: HashMap<u32, NodeId> = HashMap::new();
    let visit = |session: Session| {
        let node = match known.get(&session.computer) {
            Some(node) => *node,
            None => {
                let name = String::from_utf8_lossy(computers.name(session.computer));
                let Some(node) = nodes.get(&*name) else {
                    bail!("{}: computer `{name}` is not a node of the platform", path.display());
                };
                known.insert(session.computer, *node);
                *node
            }
        };
        let (login, logout) = (Time::from_unix_ms(session.login), Time::from_unix_ms(session.logout));
        Ok(OwnerVisit { login, logout, node })
    };
    // The visits take the memory of the sessions.
    sessions.into_iter().map(visit).collect()
}

/// Spreads the reboots of each group over its window, by the names of the computers.
fn reboots(platform: &Platform, pool: &Pool) -> Vec<DailyReboot> {
    let windows = platform.groups.iter().zip(&pool.reboots).flat_map(|(group, window)| {
        (0..group.count).map(move |index| window.map(|window| (group.node_name(index), window)))
    });
    let reboot = |(node, window): (u32, Option<(String, DayWindow)>)| {
        let (name, window) = window?;
        Some(DailyReboot { at: window.turn(&name), until: window.until(), node: NodeId(node) })
    };
    let mut reboots: Vec<DailyReboot> = (0..).zip(windows).filter_map(reboot).collect();
    reboots.sort_by_key(|reboot| (reboot.at, reboot.node));
    reboots
}
