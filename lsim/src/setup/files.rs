//! Detects the formats of a setup's files and reads them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use limo_model::{
    Band, Budget, Budgets, Curve, NodeId, NodeSpec, Price, Profile, ProfileKey, Release, Time, UnitId, Variation,
    VariationKey,
};
use limo_trace::curve::{self, Clock, CurveFileError, Table};
use limo_trace::pool::{self, Pool};
use limo_trace::{Platform, Workload, batsim, log_crypt, swf};

use crate::engine::node_specs;

/// Bytes to read ahead: enough to see past blanks and a byte order mark.
const PEEKED: u64 = 512;

/// Platform, with data that only Batsim's files have.
pub struct LoadedPlatform {
    pub platform: Platform,
    /// Speed of each host, in flop/s.
    pub speed: Option<f64>,
    /// The groups of a pool, if it is one.
    pub pool: Option<Pool>,
    pub notes: Vec<String>,
}

impl From<Platform> for LoadedPlatform {
    fn from(platform: Platform) -> Self {
        Self { platform, speed: None, pool: None, notes: Vec::new() }
    }
}

/// Reads SimGrid's XML, the groups of a pool, or Limo's TOML, depending on the content.
///
/// # Errors
/// The errors of the readers.
pub fn platform(path: &Path) -> Result<LoadedPlatform> {
    if first_character(path)? == Some(b'<') {
        let batsim = batsim::platform(path)?;
        return Ok(LoadedPlatform { speed: Some(batsim.speed), notes: batsim.notes, ..batsim.platform.into() });
    }
    if Pool::is_pool(path) {
        let pool = Pool::read(path)?;
        return Ok(LoadedPlatform { pool: Some(pool.clone()), ..pool.platform.into() });
    }
    Ok(Platform::read(path)?.into())
}

/// Reads jobs of a pool if the first line says so, and a `log_crypt` file if its name says so; else Batsim's JSON or the
/// Standard Workload Format, depending on the first bytes. All may be gzipped.
///
/// # Errors
/// Those of the readers.
pub fn workload(path: &Path, options: swf::Options, speed: Option<f64>) -> Result<Workload> {
    if pool::is_jobs(path) {
        Ok(pool::jobs(path)?)
    } else if log_crypt::name(path).is_some() {
        Ok(log_crypt::load(path)?)
    } else if first_character(path)? == Some(b'{') {
        Ok(batsim::workload(path, batsim::Options { speed })?)
    } else {
        Ok(swf::load(path, options)?)
    }
}

/// Returns the first character that is not blank, after unpacking.
fn first_character(path: &Path) -> Result<Option<u8>> {
    let peek = || -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        File::open(path)?.take(PEEKED).read_to_end(&mut start)?;
        if !start.starts_with(b"\x1f\x8b") {
            return Ok(start);
        }
        let mut text = Vec::new();
        // The reader of the format reports damage, with the line.
        let _ = flate2::read::MultiGzDecoder::new(File::open(path)?).take(PEEKED).read_to_end(&mut text);
        Ok(text)
    };
    let start = peek().with_context(|| format!("{}: the file cannot be read", path.display()))?;
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    Ok(text.iter().copied().find(|byte| !byte.is_ascii_whitespace()))
}

/// Reads a price curve: `time,price_eur_per_mwh`, or one row an hour on the clock of Central Europe.
///
/// # Errors
/// [`CurveFileError`].
pub fn prices(path: &Path, clock: Clock) -> Result<Curve<Price>, CurveFileError> {
    match curve::price(Table::open(path)?, clock) {
        Err(other @ CurveFileError::Columns { .. }) => match curve::hourly_price(Table::open(path)?, clock) {
            Err(CurveFileError::Columns { .. }) => Err(other),
            hourly => hourly,
        },
        read => read,
    }
}

/// Reads the band of the cluster's draw.
///
/// # Errors
/// [`CurveFileError`].
pub fn limits(path: &Path, clock: Clock) -> Result<Curve<Band>, CurveFileError> {
    curve::band(Table::open(path)?, clock)
}

/// Reads profiles in the format of `lconf profile export`.
///
/// # Errors
/// If the file cannot be read, or a line is wrong.
pub fn profiles(path: &Path) -> Result<Vec<(ProfileKey, Profile)>> {
    let shown = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("{}: the file cannot be read", shown()))?;
    limo_profiles::text::read(file).with_context(shown)
}

/// Reads factors of units in the format of `lconf variation export`, and checks that the platform has the units.
///
/// # Errors
/// If the file cannot be read, a line is wrong, or a node or unit is unknown.
pub fn variation(path: &Path, platform: &Platform) -> Result<Variation> {
    let shown = || path.display().to_string();
    let file = File::open(path).with_context(|| format!("{}: the file cannot be read", shown()))?;
    let factors = limo_profiles::variation::read(file).with_context(shown)?;
    let nodes: Vec<NodeSpec> = node_specs(platform).collect();
    let numbers: BTreeMap<&str, usize> = nodes.iter().enumerate().map(|(index, node)| (&*node.name, index)).collect();
    let mut variation = Variation::default();
    for (line, name, factor) in factors {
        let unknown = |what: String| anyhow!("{}: line {line}: {what}", shown());
        let index = numbers.get(&*name.node);
        let index = *index.ok_or_else(|| unknown(format!("the platform has no node `{}`", name.node)))?;
        let unit = nodes[index].units.iter().position(|unit| unit.name == name.unit);
        let unit = unit.ok_or_else(|| unknown(format!("node `{}` has no unit `{}`", name.node, name.unit)))?;
        // Platforms with more nodes or units are refused.
        let (node, unit) = (u32::try_from(index).unwrap_or(u32::MAX), u16::try_from(unit).unwrap_or(u16::MAX));
        let unit = UnitId { node: NodeId(node), unit };
        variation.set(&VariationKey { application: name.application, unit, cap: name.cap }, Some(factor));
    }
    Ok(variation)
}

/// Reads budgets for successive periods.
///
/// # Errors
/// [`CurveFileError`].
pub fn budgets(path: &Path, clock: Clock, release: Release) -> Result<Budgets> {
    let periods = curve::budget(Table::open(path)?, clock)?;
    let budget =
        |period: curve::Period| Budget { from: period.from, until: period.until, energy: period.energy, release };
    Ok(Budgets::new(periods.into_iter().map(budget).collect())?)
}

/// Returns the clock of files for a workload that starts at `start`.
pub fn clock(start: Option<Time>) -> Clock {
    start.map_or(Clock::from_start(None), Clock::unix)
}

/// Returns the name of a file without its folder, so that equal runs in different folders are equal.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
