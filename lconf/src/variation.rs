//! `lconf variation`: shows the differences of equal units, and changes them from files and by hand.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, or_dash};
use limo_model::{Factor, Power, UnitName, decimal};
use limo_profiles::text::TextError;
use limo_profiles::variation;
use limo_proto::{Change, FACTORS_LIMIT};
use serde::Serialize;

use crate::args::{application, not_negative};
use crate::measure::{self, VariationMeasure};
use crate::profiles;

#[derive(Debug, Subcommand)]
pub enum VariationCommand {
    /// List all factors
    Show,
    /// Read factors from a file, or `-` for standard input; they replace those of the same application, node, unit and cap
    Import { file: PathBuf },
    /// Write all factors to a file, or to standard output
    Export { file: Option<PathBuf> },
    /// Set the factors of one unit by hand; runs do not change them
    Set(VariationSet),
    /// Forget the factors of one unit
    Forget(VariationName),
    /// Run an application on nodes, so that their factors are learned
    Measure(VariationMeasure),
}

/// Key of factors.
#[derive(Debug, clap::Args)]
pub struct VariationName {
    pub node: String,
    /// Name of the unit, e.g. cpu0
    pub unit: String,
    /// Application [default: all applications]
    #[arg(long, value_name = "APP", value_parser = application)]
    pub app: Option<String>,
    /// Cap of the unit [default: without a cap]
    #[arg(long, value_name = "POWER", value_parser = not_negative::<Power>)]
    pub cap: Option<Power>,
}

#[derive(Debug, clap::Args)]
pub struct VariationSet {
    #[command(flatten)]
    pub name: VariationName,
    /// Draw above idle, relative to the profile of the hardware, e.g. 1.04
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    pub power: u32,
    /// Duration, relative to the profile of the hardware, e.g. 0.98
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    pub duration: u32,
}

/// Parses a factor as millionths.
fn factor(text: &str) -> Result<u32, String> {
    let millionths = decimal::parse(text, 6).and_then(|value| u32::try_from(value).ok());
    let valid = millionths.filter(|value| (Factor::ABOVE + 1..Factor::BELOW).contains(value));
    valid.ok_or_else(|| "it must be above 0.1 and below 10, with at most six decimals".to_owned())
}

#[derive(Serialize)]
struct VariationJson {
    schema: u32,
    factors: Vec<FactorJson>,
}

#[derive(Serialize)]
struct FactorJson {
    /// Application; `null` means all of them.
    application: Option<String>,
    node: String,
    unit: String,
    /// Cap; `null` means no cap.
    cap_w: Option<f64>,
    power: f64,
    duration: f64,
    runs: u32,
}

/// Runs a command.
///
/// # Errors
/// If a file is wrong, the master cannot be asked, or it refuses.
pub async fn run(command: VariationCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    match command {
        VariationCommand::Show if json => {
            let factors = master.variation().await?.into_iter().map(as_json).collect();
            answer_json(&VariationJson { schema: SCHEMA, factors })?;
        }
        VariationCommand::Show => answer(&table(&master.variation().await?))?,
        VariationCommand::Import { file } => import(&file, master).await?,
        VariationCommand::Export { file } => export(&master.variation().await?, file.as_deref())?,
        VariationCommand::Set(VariationSet { name, power, duration }) => {
            let factor = Factor { power, duration, runs: 0 };
            master.change(Change::SetVariation(vec![(key(name), Some(factor))])).await?;
        }
        VariationCommand::Forget(name) => {
            let key = key(name);
            if !master.variation().await?.iter().any(|(known, _)| *known == key) {
                return Err(Failure::new(format_args!("there is no factor of {key}: see `lconf variation show`")));
            }
            master.change(Change::SetVariation(vec![(key, None)])).await?;
        }
        VariationCommand::Measure(measure) => return measure::variation(measure, master).await,
    }
    Ok(exit::DONE)
}

fn key(VariationName { node, unit, app, cap }: VariationName) -> UnitName {
    UnitName { application: app.unwrap_or_default(), node, unit, cap }
}

/// Reads a file, checks all of it, and sets its factors.
async fn import(file: &Path, master: &Master) -> Result<(), Failure> {
    let name = file.display();
    let cannot = |error: &std::io::Error| Failure::new(format_args!("cannot read {name}: {error}"));
    let read = if file == Path::new("-") {
        variation::read(std::io::stdin().lock())
    } else {
        variation::read(File::open(file).map_err(|error| cannot(&error))?)
    };
    let lines = read.map_err(|error| match error {
        TextError::Read(error) => cannot(&error),
        error => Failure::new(format_args!("{name}: {error}")),
    })?;
    let nodes: BTreeMap<String, Vec<String>> = master
        .nodes()
        .await?
        .into_iter()
        .map(|node| (node.name, node.units.into_iter().map(|unit| unit.name).collect()))
        .collect();
    for (line, of, _) in &lines {
        let units = nodes.get(&of.node).ok_or_else(|| {
            Failure::new(format_args!("{name}: line {line}: there is no node `{}`: see `lconf node list`", of.node))
        })?;
        if !units.contains(&of.unit) {
            let known = units.join(", ");
            return Err(Failure::new(format_args!(
                "{name}: line {line}: node `{}` has no unit `{}`: its units are {known}",
                of.node, of.unit
            )));
        }
    }
    for lines in lines.chunks(FACTORS_LIMIT) {
        let factors = lines.iter().map(|(_, of, factor)| (of.clone(), Some(*factor)));
        master.change(Change::SetVariation(factors.collect())).await?;
    }
    Ok(())
}

fn export(factors: &[(UnitName, Factor)], file: Option<&Path>) -> Result<(), Failure> {
    let mut written = Vec::new();
    variation::write(factors, &mut written)
        .map_err(|error| Failure::new(format_args!("cannot write factors: {error}")))?;
    profiles::write(&written, file)
}

fn as_json((key, factor): (UnitName, Factor)) -> FactorJson {
    FactorJson {
        application: Some(key.application).filter(|application| !application.is_empty()),
        node: key.node,
        unit: key.unit,
        cap_w: key.cap.map(|cap| cap.watts()),
        power: f64::from(factor.power) / 1e6,
        duration: f64::from(factor.duration) / 1e6,
        runs: factor.runs,
    }
}

pub fn table(factors: &[(UnitName, Factor)]) -> String {
    let mut table = Table::new(&[
        ("APPLICATION", Align::Left),
        ("NODE", Align::Left),
        ("UNIT", Align::Left),
        ("CAP", Align::Figure),
        ("POWER", Align::Right),
        ("DURATION", Align::Right),
        ("RUNS", Align::Right),
    ]);
    for (key, factor) in factors {
        table.row([
            or_dash((!key.application.is_empty()).then_some(&key.application)),
            key.node.clone(),
            key.unit.clone(),
            or_dash(key.cap),
            decimal::text(factor.power.into(), 6),
            decimal::text(factor.duration.into(), 6),
            factor.runs.to_string(),
        ]);
    }
    table.render()
}
