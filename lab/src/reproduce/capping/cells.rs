//! The combinations of workload, initial state and methods of the figures.

use limo_model::Span;

use super::instances::Spreading;
use super::simulate::{Law, Method, MethodVariant};

/// The source of the instances of a cell.
#[derive(Debug, Clone)]
pub enum Source {
    /// Published jobs, drawn again.
    Drawn { jobs: usize, window: Span, spreading: Spreading },
    /// A folder of published instances.
    Folder(String),
}

/// Instances, caps and methods of one figure.
#[derive(Debug, Clone)]
pub struct Cell {
    pub name: String,
    pub what: String,
    pub source: Source,
    /// Share of the nodes that are filled at the start.
    pub filled: f64,
    /// Percentages of the highest draw without a cap.
    pub caps: Vec<u32>,
    pub variants: Vec<MethodVariant>,
}

/// The law has no effect without caps of running jobs.
const NO_LAW: Law = Law::Factor(0);
pub const LS: MethodVariant = MethodVariant::of(Method::Ls, NO_LAW);
pub const DEC: MethodVariant = MethodVariant::of(Method::Dec, NO_LAW);
pub const BF: MethodVariant = MethodVariant::of(Method::Bf, NO_LAW);
pub const DVFS: MethodVariant = MethodVariant::of(Method::Dvfs, Law::Mixed);
pub const SIMPLE: MethodVariant = MethodVariant::of(Method::Simple, Law::Mixed);
pub const DEC_RAPL: MethodVariant = MethodVariant::of(Method::DecRapl, Law::Mixed);
pub const LAWS: [Law; 6] =
    [Law::Factor(0), Law::Factor(250), Law::Factor(500), Law::Factor(750), Law::Factor(1_000), Law::Mixed];
/// Windows of Figure 6, in s.
pub const WINDOWS: [u32; 9] = [60, 300, 900, 3_600, 7_200, 14_400, 21_600, 28_800, 36_000];
/// Caps of section 5.2.4 in thousandths of the target.
pub const MARGINS: [u32; 2] = [990, 950];

pub const fn dyn_share(law: Law) -> MethodVariant {
    MethodVariant::of(Method::DynShare, law)
}

pub const fn dyn_share_3(law: Law) -> MethodVariant {
    MethodVariant::of(Method::DynShare3, law)
}

/// Returns all cells.
pub fn cells() -> Vec<Cell> {
    let drawn = |name: &str, what: &str, (jobs, window), spreading, filled, caps: &[u32]| Cell {
        name: name.to_owned(),
        what: what.to_owned(),
        source: Source::Drawn { jobs, window: Span::from_secs(window), spreading },
        filled,
        caps: caps.to_vec(),
        variants: [LS, DEC, BF, DVFS, SIMPLE].into_iter().chain(LAWS.map(dyn_share)).collect(),
    };
    let in_folder = |name: String, what: String, folder: String, variants: &[MethodVariant]| Cell {
        name,
        what,
        source: Source::Folder(folder),
        filled: 0.0,
        caps: CAPS.to_vec(),
        variants: variants.to_vec(),
    };
    let (low, uniform, burst) = ([100, 75, 50, 30, 10], Spreading::Uniform, Spreading::Burst);
    let mut cells = vec![
        drawn("2a", "50 jobs in 300 s, uniform", (50, 300), uniform, 0.0, &low),
        drawn("2b", "50 jobs in 300 s, uniform, 70 % of the nodes filled", (50, 300), uniform, 0.7, &low),
        drawn("3", "200 jobs in 300 s, burst", (200, 300), burst, 0.0, &CAPS),
        drawn("4", "400 jobs in 300 s, burst", (400, 300), burst, 0.0, &CAPS),
        drawn("7", "100 jobs in 900 s, uniform, one in ten under-predicted", (100, 900), uniform, 0.0, &CAPS),
    ];
    cells[3].variants.extend(LAWS.map(dyn_share_3));
    let tight = |of: MethodVariant| MARGINS.map(|margin| MethodVariant { margin: Some(margin), ..of });
    cells[4].variants = [LS, DEC].into_iter().chain(tight(LS)).chain(tight(DEC)).collect();
    let historical = [LS, DEC, BF, DVFS, SIMPLE, dyn_share_3(Law::Mixed), dyn_share_3(Law::Cpi), DEC_RAPL];
    for (name, jobs) in [("5a", 100), ("5b", 400)] {
        let what = format!("{jobs} jobs of a historical trace");
        cells.push(in_folder(name.to_owned(), what, format!("historical/{jobs}"), &historical));
    }
    for window in WINDOWS {
        let (what, folder) = (format!("100 jobs in {window} s, uniform"), format!("synthetic/jobs_100/ws_{window}"));
        cells.push(in_folder(format!("6-{window}"), what, folder, &[DEC, dyn_share(Law::Mixed)]));
    }
    cells
}

const CAPS: [u32; 4] = [100, 75, 50, 30];
