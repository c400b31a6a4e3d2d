//! Profiles as a text file, for `lconf profile import` and `export`: CSV with a header, quantities with their units.
//! Written profiles are read back equal, except for their source: read profiles count as imported.
//!
//! ```text
//! application,size,hardware,cores,nodes,cap,duration,power,energy,spread,runs
//! cg,C,xeon-e3-1275v5,8,,,12.345 s,41.5 W,512.3 J,2.5 %,17
//! ```
//!
//! Columns may have any order; all except `cores` and `nodes` are required. `size`, `cores`, `nodes` and `cap` may be
//! empty: no size class, any number of cores, any number of nodes, no cap. Lines that begin with `#` are comments.

use std::io;

use limo_model::{CORE_LIMIT, Energy, EstimateSource, Power, Profile, ProfileKey, Span, WIDTH_LIMIT, decimal};

pub use crate::table::TextError;
use crate::table::{Columns, Row};

/// The columns, in the order in which they are written. `cores` and `nodes` are missing in files of earlier versions.
const COLUMNS: Columns = Columns {
    names: &[
        "application",
        "size",
        "hardware",
        "cores",
        "nodes",
        "cap",
        "duration",
        "power",
        "energy",
        "spread",
        "runs",
    ],
    optional: &["cores", "nodes"],
};

/// Writes `profiles` with a header.
///
/// # Errors
/// The errors of `sink`.
pub fn write(profiles: &[(ProfileKey, Profile)], sink: impl io::Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS.names)?;
    for (key, profile) in profiles {
        writer.write_record([
            key.application.clone(),
            key.size.clone(),
            key.hardware.clone(),
            key.cores.map_or_else(String::new, |cores| cores.to_string()),
            key.nodes.map_or_else(String::new, |nodes| nodes.to_string()),
            key.cap.map_or_else(String::new, |cap| thousandths(cap.mw(), "W")),
            thousandths(profile.duration.ms(), "s"),
            thousandths(profile.power.mw(), "W"),
            thousandths(profile.energy.mj(), "J"),
            format!("{}.{} %", profile.spread_permille / 10, profile.spread_permille % 10),
            profile.runs.to_string(),
        ])?;
    }
    writer.flush()
}

/// Formats `value` thousandths of `unit` exactly.
pub(crate) fn thousandths(value: i64, unit: &str) -> String {
    format!("{} {unit}", decimal::text(value.into(), 3))
}

/// Reads a file of profiles.
///
/// # Errors
/// [`TextError`] for the first error, with its line, column and value.
pub fn read(source: impl io::Read) -> Result<Vec<(ProfileKey, Profile)>, TextError> {
    let lines = COLUMNS.read(source, parse)?;
    Ok(lines.into_iter().map(|(_, key, profile)| (key, profile)).collect())
}

fn parse(row: &Row<'_>) -> Result<(ProfileKey, Profile), TextError> {
    let key = ProfileKey {
        application: row.name("application", "application")?,
        size: row.optional("size", |row| row.name("size", "size class"))?.unwrap_or_default(),
        hardware: row.name("hardware", "hardware")?,
        cores: row.optional("cores", cores)?,
        nodes: row.optional("nodes", nodes)?,
        cap: row.optional("cap", |row| row.quantity::<Power>("cap"))?,
    };
    let profile = Profile {
        duration: row.quantity::<Span>("duration")?,
        power: row.quantity::<Power>("power")?,
        energy: row.quantity::<Energy>("energy")?,
        spread_permille: permille(row.text("spread")).map_err(|problem| row.refused("spread", problem))?,
        runs: row.runs("runs")?,
        source: EstimateSource::Imported,
    };
    Ok((key, profile))
}

/// Parses a number of cores.
fn cores(row: &Row<'_>) -> Result<u32, TextError> {
    let text = row.text("cores");
    text.parse().ok().filter(|count| (1..=CORE_LIMIT).contains(count)).ok_or_else(|| {
        row.refused("cores", format!("`{text}` is not a number of cores: 1 to {CORE_LIMIT}, or empty for any number"))
    })
}

/// Parses a number of nodes.
fn nodes(row: &Row<'_>) -> Result<u32, TextError> {
    let text = row.text("nodes");
    text.parse().ok().filter(|count| (1..=WIDTH_LIMIT).contains(count)).ok_or_else(|| {
        row.refused("nodes", format!("`{text}` is not a number of nodes: 1 to {WIDTH_LIMIT}, or empty for any number"))
    })
}

/// Parses `2.5 %` as thousandths; at most one decimal, so that nothing is rounded.
fn permille(text: &str) -> Result<u32, String> {
    let refused = || format!("`{text}` is not a spread: write for example `2.5 %`, with at most one decimal");
    decimal::percent(text, 1).and_then(|permille| permille.try_into().ok()).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
