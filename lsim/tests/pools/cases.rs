//! Random small pools, in whole seconds and watts.

use limo_model::{Beside, Curve, GroupSpec, Groups, NodeId, OwnerRules, Power, Span};
use limo_sched::PoolRank;
use limo_trace::generate::Dice;
use limo_trace::platform::{Draw, Group, Names, Rest};
use limo_trace::{CompactSpan, Index, Job, Platform, Treatment, Workload};
use lsim::engine::{DailyReboot, OwnerVisit, Visits};

use super::at;

pub const DAY: i64 = 86_400;
/// Time to fall asleep, and to wake.
pub const SWITCH: i64 = 10;

/// Group of equal computers.
#[derive(Debug, Clone)]
pub struct CaseGroup {
    pub count: usize,
    pub cores: u32,
    pub active_w: i64,
    pub idle_w: i64,
    /// Draw asleep, if they can sleep.
    pub sleep_w: Option<i64>,
    pub owners: Option<CaseOwners>,
    /// Times from which it is open to owners, or closed; always open if empty.
    pub open: Vec<(i64, bool)>,
}

#[derive(Debug, Clone, Copy)]
pub struct CaseOwners {
    /// True if jobs are suspended while an owner is there.
    pub suspends: bool,
    pub start_after: i64,
    pub evict_after: i64,
}

#[derive(Debug, Clone, Copy)]
pub struct CaseJob {
    pub submit: i64,
    /// Times of input, work and output.
    pub input: i64,
    pub run: i64,
    pub output: i64,
    /// Time at which its user removes it.
    pub removed: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub struct CaseSession {
    pub login: i64,
    pub logout: i64,
    pub node: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct CaseReboot {
    /// Time of the day, and the end of its window.
    pub at: i64,
    pub until: i64,
    pub node: usize,
}

/// A pool with its jobs. Times are seconds since 1970.
#[derive(Debug, Clone)]
pub struct PoolCase {
    pub start: i64,
    /// Time until which it is simulated at least.
    pub until: i64,
    pub groups: Vec<CaseGroup>,
    pub jobs: Vec<CaseJob>,
    pub sessions: Vec<CaseSession>,
    pub reboots: Vec<CaseReboot>,
    pub defers: bool,
    pub rest: Option<i64>,
    pub rank: PoolRank,
    /// Time for which rank S6 counts sessions.
    pub window: i64,
}

/// Draws whole numbers.
struct Draws(Dice);

impl Draws {
    /// Both ends are included.
    fn number(&mut self, low: i64, high: i64) -> i64 {
        self.0.between(low as f64, (high + 1) as f64) as i64
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number(0, all.len() as i64 - 1) as usize]
    }

    fn chance(&mut self, percent: i64) -> bool {
        self.number(0, 99) < percent
    }
}

impl PoolCase {
    /// Draws a pool. Seeds take the ranks in turn.
    pub fn of(seed: u64) -> Self {
        let mut draws = Draws(Dice::of_purpose(seed, 0));
        let start = draws.number(10_000, 10_006) * DAY + draws.number(-DAY / 2, DAY - 1).max(0);
        let length = draws.number(1, 4) * 3_600;
        let groups = draws.number(1, 3);
        let groups: Vec<_> = (0..groups).map(|_| group(&mut draws, (start, length))).collect();
        let owned = groups.iter().flat_map(|group| (0..group.count).map(|_| group.owners.is_some()));
        let owned: Vec<bool> = owned.collect();
        let mut sessions = Vec::new();
        let mut reboots = Vec::new();
        let reboots_percent = draws.one_of(&[0, 30, 100]);
        for (node, owned) in owned.into_iter().enumerate() {
            if owned {
                sessions_of(&mut draws, (start, start + length), node, &mut sessions);
            }
            if draws.chance(reboots_percent) {
                let from = draws.number(start, start + length) % DAY;
                let until = (from + draws.one_of(&[60, 1_800, 7_200])).min(DAY);
                reboots.push(CaseReboot { at: draws.number(from, until - 1), until, node });
            }
        }
        sessions.sort_by_key(|session| (session.login, session.node));
        reboots.sort_by_key(|reboot| (reboot.at, reboot.node));
        let rank = PoolRank::NAMES[(seed % 9) as usize].1;
        let rest = draws.one_of(&[None, Some(0), Some(1), Some(60), Some(600), Some(1_800)]);
        Self {
            start,
            until: start + length + draws.number(1, 3_000),
            groups,
            jobs: jobs(&mut draws, (start, start + length)),
            sessions,
            reboots,
            defers: draws.chance(50),
            rest,
            rank,
            window: draws.one_of(&[300, 900, 3_600]),
        }
    }

    /// Returns the index of the group of each computer.
    pub fn group_of_nodes(&self) -> Vec<usize> {
        let each = |(index, group): (usize, &CaseGroup)| std::iter::repeat_n(index, group.count);
        self.groups.iter().enumerate().flat_map(each).collect()
    }

    pub fn platform(&self) -> Platform {
        let group = |(index, of): (usize, &CaseGroup)| {
            let draw = Draw { idle: Power::from_watts(of.idle_w), busy: Power::from_watts(of.active_w) };
            let switch = Span::from_secs(SWITCH);
            let rest = of.sleep_w.map(|sleep| Rest {
                draw: Power::from_watts(sleep),
                down_time: switch,
                down_draw: draw.idle,
                up_time: switch,
                up_draw: draw.idle,
            });
            Group {
                names: Names::Listed(self.names(index)),
                count: of.count as u32,
                cores: of.cores,
                memory: None,
                hardware: "computer".to_owned(),
                units: Vec::new(),
                draw,
                believed: draw,
                rest,
                start_delay: Span::ZERO,
                variation: None,
            }
        };
        Platform { groups: self.groups.iter().enumerate().map(group).collect() }
    }

    fn names(&self, group: usize) -> Vec<String> {
        (0..self.groups[group].count).map(|node| format!("g{group}-{node}")).collect()
    }

    pub fn owners(&self) -> Groups {
        let spec = |(index, of): (usize, &CaseGroup)| {
            let owners = of.owners.map(|owners| OwnerRules {
                jobs: if owners.suspends { Beside::Suspend } else { Beside::Run },
                start_after: Span::from_secs(owners.start_after),
                evict_after: Span::from_secs(owners.evict_after),
            });
            let steps = of.open.iter().map(|(from, open)| (at(*from), *open)).collect();
            let spec = GroupSpec {
                nodes: self.names(index).into_iter().collect(),
                owners,
                open: Curve::new(steps, None).ok(),
                ..GroupSpec::default()
            };
            (format!("g{index}"), spec)
        };
        Groups::new(self.groups.iter().enumerate().map(spec).collect()).expect("good groups")
    }

    pub fn workload(&self) -> Workload {
        let job = |(number, of): (i64, &CaseJob)| Job {
            removed: of.removed.map(|removed| CompactSpan::of(Span::from_secs(removed - of.submit))),
            bytes: Some(Index::of(number as usize)),
            ..whole_job(number, Span::from_secs(of.submit - self.start), Span::from_secs(of.run))
        };
        let jobs = (0..).zip(&self.jobs).map(job).collect();
        // A computer transfers 1 byte a second.
        let transfers = self.jobs.iter().map(|of| [of.input as u64, of.output as u64]).collect();
        Workload { jobs, transfers, start: Some(at(self.start)), ..Workload::default() }
    }

    pub fn visits(&self) -> Visits {
        let visit =
            |of: &CaseSession| OwnerVisit { login: at(of.login), logout: at(of.logout), node: NodeId(of.node as u32) };
        let reboot = |of: &CaseReboot| DailyReboot {
            at: Span::from_secs(of.at),
            until: Span::from_secs(of.until),
            node: NodeId(of.node as u32),
        };
        Visits {
            visits: self.sessions.iter().map(visit).collect(),
            reboots: self.reboots.iter().map(reboot).collect(),
            defers: self.defers,
            checkpointing: None,
            bandwidth: "8bit/s".parse().ok(),
        }
    }
}

/// Returns a job that takes a whole computer, and may run again.
pub fn whole_job(number: i64, submit: Span, run: Span) -> Job {
    Job {
        number,
        submit,
        wait: None,
        run,
        walltime: None,
        processors: 1,
        user: -1,
        application: -1,
        queue: -1,
        treatment: Treatment { may_suspend: true, may_requeue: true, whole_unit: true, ..Treatment::default() },
        chunks: None,
        moldable: None,
        removed: None,
        bytes: None,
    }
}

fn group(draws: &mut Draws, (start, length): (i64, i64)) -> CaseGroup {
    let (active_w, idle_w) = draws.one_of(&[(57, 40), (57, 40), (114, 67), (120, 57), (74, 57)]);
    let owners = draws.chance(90).then(|| CaseOwners {
        suspends: draws.chance(85),
        start_after: draws.one_of(&[0, 5, 60, 900]),
        evict_after: draws.one_of(&[0, 30, 600]),
    });
    let mut open = Vec::new();
    if draws.chance(60) {
        let mut from = start - draws.number(0, 100);
        let mut is_open = draws.chance(50);
        while from < start + length {
            open.push((from, is_open));
            is_open = !is_open;
            from += draws.number(60, 3_600);
        }
    }
    CaseGroup {
        count: draws.number(1, 3) as usize,
        cores: draws.one_of(&[2, 2, 4]),
        active_w,
        idle_w,
        sleep_w: draws.chance(85).then(|| draws.one_of(&[2, 3])),
        owners,
        open,
    }
}

fn sessions_of(draws: &mut Draws, (start, end): (i64, i64), node: usize, sessions: &mut Vec<CaseSession>) {
    let (gap, length) = (draws.one_of(&[100, 1_200, 5_000]), draws.one_of(&[20, 700, 3_000]));
    let mut free = start;
    loop {
        // A tenth of the owners come when the one before leaves.
        let login = free + if draws.chance(10) { 0 } else { draws.number(0, gap) };
        let logout = login + draws.number(1, length);
        if logout > end {
            return;
        }
        sessions.push(CaseSession { login, logout, node });
        free = logout;
    }
}

fn jobs(draws: &mut Draws, (start, end): (i64, i64)) -> Vec<CaseJob> {
    let mut submits: Vec<i64> = Vec::new();
    let mut last = start;
    for _ in 0..draws.number(5, 40) {
        if !draws.chance(30) {
            last = draws.number(start, end);
        }
        submits.push(last);
    }
    submits.sort_unstable();
    let longest = draws.one_of(&[60, 900, 4_000]);
    let transfer = draws.one_of(&[0, 0, 1, 300]);
    let job = |submit| {
        let removed = draws.chance(5).then(|| submit + draws.number(1, 4_000));
        // A removed job would never have ended.
        let run = if removed.is_some() { 1_000_000_000 } else { draws.number(0, longest) };
        let (input, output) = (draws.number(0, transfer), draws.number(0, transfer));
        CaseJob { submit, input, run, output, removed }
    };
    submits.into_iter().map(job).collect()
}
