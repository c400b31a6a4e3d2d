//! The parts of the benchmark. Each runs in a separate process, so that its memory and CPU time can be measured.

use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use limo_model::{OrderRule, Overrides, PlacementRule};
use serde::{Deserialize, Serialize};

use super::cluster::Size;
use super::easy::{ORACLES, Oracle};
use super::figure::Figure;
use super::pool::{POOL_PARTS, PoolPart};
use super::{campaign, dynshare, htc, predictor, rounds};

/// The results of a part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    pub figures: Vec<Figure>,
    /// Reason why the part was skipped, if it was.
    pub skipped: Option<String>,
}

impl Report {
    pub fn of(figures: Vec<Figure>) -> Self {
        Self { figures, skipped: None }
    }

    pub fn skipped(why: String) -> Self {
        Self { figures: Vec::new(), skipped: Some(why) }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    Easy(&'static Oracle),
    Htc(u32),
    Pool(&'static PoolPart),
    Rounds(&'static Rounds),
    Owners,
    DynShare,
    Campaign,
    Predictor,
}

/// A measurement of rounds.
#[derive(Debug)]
pub struct Rounds {
    name: &'static str,
    /// The policy, for the title.
    policy: &'static str,
    size: Size,
    /// Upper limit of the 99th percentile, in us.
    limit_us: f64,
    /// Number of measured job ends, and of measured arrivals.
    rounds: usize,
}

const PRESET: Overrides = Overrides { order: None, admission: None, placement: None, caps: None, idle: None };
const SIZE: Size =
    Size { nodes: 10_000, waiting: 100_000, width: NonZeroU32::MIN, parts: PRESET, depth: 512, has_owners: false };
/// Nodes of a job in the part with windows.
// 64 is not zero.
const WIDE: NonZeroU32 = NonZeroU32::new(64).unwrap();
const ROUND_PARTS: [Rounds; 4] = [
    Rounds { name: "rounds", policy: "powercap", size: SIZE, limit_us: 50.0, rounds: ROUNDS },
    Rounds {
        name: "rounds-ranked",
        policy: "powercap with placement=ranked, every node different",
        size: Size { parts: Overrides { placement: Some(PlacementRule::Ranked), ..PRESET }, ..SIZE },
        limit_us: 50.0,
        rounds: ROUNDS,
    },
    Rounds {
        name: "rounds-window",
        policy: "powercap with placement=window, every node different, jobs on 64 nodes",
        size: Size { parts: Overrides { placement: Some(PlacementRule::Window), ..PRESET }, width: WIDE, ..SIZE },
        limit_us: 200.0,
        rounds: ROUNDS,
    },
    Rounds {
        name: "rounds-program",
        policy: "powercap with order=program, depth=1000",
        size: Size {
            nodes: 1_000,
            waiting: 1_000,
            parts: Overrides { order: Some(OrderRule::Program), ..PRESET },
            depth: 1_000,
            ..SIZE
        },
        limit_us: 5_000.0,
        rounds: ROUNDS / 10,
    },
];
/// Number of measured job ends, and of measured arrivals.
const ROUNDS: usize = 20_000;

/// Upper limit of the 99th percentile of rounds with changes of owners, in us.
const OWNERS_US: f64 = 5_000.0;

impl Part {
    /// Returns the parts in the order of measurement. `quick` omits slow ones.
    pub fn all(quick: bool) -> Vec<Self> {
        let oracles = if quick { &ORACLES[..2] } else { &ORACLES[..] };
        let counts = if quick { &htc::COUNTS[..1] } else { &htc::COUNTS[..] };
        let easy = oracles.iter().map(Self::Easy);
        let pools = if quick { &POOL_PARTS[..3] } else { &POOL_PARTS[..] };
        easy.chain(counts.iter().copied().map(Self::Htc))
            .chain(pools.iter().map(Self::Pool))
            .chain(ROUND_PARTS.iter().map(Self::Rounds))
            .chain([Self::Owners, Self::DynShare, Self::Campaign, Self::Predictor])
            .collect()
    }

    /// Returns the name for `--only`. [`Part::group`] is another accepted name.
    pub fn name(self) -> String {
        match self {
            Self::Easy(oracle) => oracle.name.to_owned(),
            Self::Htc(jobs) => format!("htc-{jobs}"),
            Self::Pool(pool) => pool.name.to_owned(),
            Self::Rounds(rounds) => rounds.name.to_owned(),
            Self::Owners | Self::DynShare | Self::Campaign | Self::Predictor => self.group().to_owned(),
        }
    }

    pub fn group(self) -> &'static str {
        match self {
            Self::Easy(_) => "easy",
            Self::Htc(_) => "htc",
            Self::Pool(_) => "pools",
            Self::Rounds(_) => "rounds",
            Self::Owners => "owners",
            Self::DynShare => "dynshare",
            Self::Campaign => "campaign",
            Self::Predictor => "predictor",
        }
    }

    /// Returns the number of jobs of a part that counts for the growth of time and memory.
    pub fn jobs(self) -> Option<u32> {
        match self {
            Self::Htc(jobs) => Some(jobs),
            Self::Pool(pool) => pool.jobs,
            _ => None,
        }
    }

    pub fn title(self) -> String {
        match self {
            Self::Easy(oracle) => {
                format!("{}: EASY; reading, accounting, checking and writing included", oracle.name)
            }
            Self::Htc(jobs) => format!("htc-{jobs}: jobs of one processor on 1,400 nodes; writing included"),
            Self::Pool(PoolPart { name, what, .. }) => {
                format!("{name}: a generated year of a pool; reading and writing included; {what}")
            }
            Self::Rounds(Rounds { name, policy, size, .. }) => {
                let nodes = size.nodes;
                format!(
                    "{name}: an event and its round; {nodes} nodes of 20 classes, 256 signatures, a limit; {policy}"
                )
            }
            Self::Owners => {
                "owners: 50 changes of owners and their round, every 5 ms; 10,000 nodes of 20 classes".to_owned()
            }
            Self::DynShare => "dynshare: a step of caps=ellsworth; 10,000 nodes of 20 classes, all busy".to_owned(),
            Self::Campaign => {
                "campaign: energy-budget-2017; contiguous processors, a budget of 70 % for three days".to_owned()
            }
            Self::Predictor => "predictor: a model of 100,000 generated jobs of 500 users; quick: of 10,000".to_owned(),
        }
    }

    /// Measures in this process.
    ///
    /// # Errors
    /// If a file cannot be read or written, or a simulation fails.
    pub fn measure(self, traces: &Path, quick: bool) -> Result<Report> {
        match self {
            Self::Easy(oracle) => oracle.measure(traces),
            Self::Htc(jobs) => htc::measure(jobs),
            Self::Pool(pool) => pool.measure(),
            Self::Rounds(Rounds { size, limit_us, rounds, .. }) => {
                let rounds = if quick { rounds / 10 } else { *rounds };
                Ok(Report::of(rounds::measure(*size, *limit_us, rounds)?))
            }
            Self::Owners => {
                let size = Size { has_owners: true, ..SIZE };
                Ok(Report::of(rounds::owners(size, OWNERS_US, if quick { 200 } else { 2_000 })?))
            }
            Self::DynShare => Ok(Report::of(dynshare::measure(SIZE.nodes, if quick { 20 } else { 200 })?)),
            Self::Campaign => campaign::measure(traces, quick),
            Self::Predictor => Ok(Report::of(predictor::measure(quick)?)),
        }
    }

    /// Measures in a separate process.
    ///
    /// # Errors
    /// If it cannot be started, fails, or prints an invalid result.
    pub fn apart(self, traces: &Path, quick: bool) -> Result<Report> {
        let program = std::env::current_exe().context("the program's own file is not known")?;
        let mut command = Command::new(program);
        command.args(["bench", "--part", &self.name()]).arg("--traces").arg(traces);
        if quick {
            command.arg("--quick");
        }
        let run = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let run = run.context("the program cannot be run again")?;
        if !run.status.success() {
            bail!("the part `{}` ends with {}", self.name(), run.status);
        }
        serde_json::from_slice(&run.stdout).with_context(|| format!("the part `{}` prints no figures", self.name()))
    }
}
