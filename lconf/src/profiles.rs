//! `lconf profile`: shows profiles, and changes them from files and by hand.

use std::fs::File;
use std::num::NonZeroU32;
use std::path::Path;

use limo_client::json::SCHEMA;
use limo_client::{Align, Failure, Master, Table, answer, answer_json, exit, or_dash};
use limo_model::{Energy, EstimateSource, Power, Profile, ProfileKey, Slowdown, Span};
use limo_profiles::text::{self, TextError};
use limo_proto::Change;
use serde::Serialize;

use crate::args::{ProfileCommand, application, hardware, not_negative, percent, size_class};
use crate::measure;

#[derive(Serialize)]
struct ProfilesJson {
    schema: u32,
    profiles: Vec<ProfileJson>,
}

#[derive(Serialize)]
struct ProfileJson {
    application: String,
    size: String,
    hardware: String,
    /// Number of cores; `null` means any number.
    cores: Option<u32>,
    /// Number of nodes; `null` means any number.
    nodes: Option<u32>,
    /// Cap; `null` means no cap.
    cap_w: Option<f64>,
    duration_s: f64,
    power_w: f64,
    energy_j: f64,
    /// Spread of the duration, relative to it.
    spread: f64,
    runs: u32,
    source: String,
    /// Law of slowdown that the following profiles under caps tell; `null` for a profile under a cap.
    slowdown: Option<String>,
}

/// Key of a profile.
#[derive(Debug, clap::Args)]
pub struct ProfileName {
    #[arg(value_parser = application)]
    pub app: String,
    #[arg(value_parser = hardware)]
    pub hardware: String,
    /// Number of cores that the run uses [default: any number]
    #[arg(long, value_name = "COUNT")]
    pub cores: Option<NonZeroU32>,
    /// Number of nodes of the run; the other values are those of one node [default: any number]
    #[arg(long, value_name = "COUNT")]
    pub nodes: Option<NonZeroU32>,
    /// Cap of the unit [default: without a cap]
    #[arg(long, value_name = "POWER", value_parser = not_negative::<Power>)]
    pub cap: Option<Power>,
    /// Size class
    #[arg(long, value_name = "CLASS", value_parser = size_class, default_value = "", hide_default_value = true)]
    pub size: String,
}

#[derive(Debug, clap::Args)]
pub struct ProfileSet {
    #[command(flatten)]
    pub name: ProfileName,
    /// Duration of a run, e.g. 10min
    #[arg(long, value_name = "SPAN", value_parser = not_negative::<Span>)]
    pub duration: Span,
    /// Mean draw above idle, e.g. 41.5W
    #[arg(long, value_name = "POWER", value_parser = not_negative::<Power>)]
    pub power: Power,
    /// Energy above idle of a run [default: power x duration]
    #[arg(long, value_name = "ENERGY", value_parser = not_negative::<Energy>)]
    pub energy: Option<Energy>,
    /// Spread of the duration, e.g. 5%
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0%")]
    pub spread: u32,
}

/// Runs a command.
///
/// # Errors
/// If a file is wrong, the master cannot be asked, or it refuses.
pub async fn run(command: ProfileCommand, json: bool, master: &Master) -> Result<u8, Failure> {
    match command {
        ProfileCommand::List => {
            let profiles = master.profiles().await?;
            if json {
                answer_json(&ProfilesJson { schema: SCHEMA, profiles: with_laws(&profiles).map(as_json).collect() })?;
            } else {
                answer(&table(&profiles))?;
            }
        }
        ProfileCommand::Import { file } => master.change(Change::SetProfiles(import(&file)?)).await?,
        ProfileCommand::Export { file } => export(&master.profiles().await?, file.as_deref())?,
        ProfileCommand::Measure(measure) => return measure::profiles(measure, master).await,
        ProfileCommand::Set(set) => master.change(Change::SetProfiles(vec![by_hand(set)])).await?,
        ProfileCommand::Forget(name) => master.change(Change::ForgetProfile(key(name))).await?,
    }
    Ok(exit::DONE)
}

fn key(name: ProfileName) -> ProfileKey {
    ProfileKey {
        application: name.app,
        size: name.size,
        hardware: name.hardware,
        cores: name.cores.map(NonZeroU32::get),
        nodes: name.nodes.map(NonZeroU32::get),
        cap: name.cap,
    }
}

/// Makes a profile of given values, with zero runs.
fn by_hand(set: ProfileSet) -> (ProfileKey, Profile) {
    let ProfileSet { name, duration, power, energy, spread } = set;
    let profile = Profile {
        duration,
        power,
        energy: energy.unwrap_or(power * duration),
        spread_permille: spread,
        runs: 0,
        source: EstimateSource::Imported,
    };
    (key(name), profile)
}

fn import(file: &Path) -> Result<Vec<(ProfileKey, Profile)>, Failure> {
    let name = file.display();
    let cannot = |error: &std::io::Error| Failure::new(format_args!("cannot read {name}: {error}"));
    let read = if file == Path::new("-") {
        text::read(std::io::stdin().lock())
    } else {
        text::read(File::open(file).map_err(|error| cannot(&error))?)
    };
    read.map_err(|error| match error {
        TextError::Read(error) => cannot(&error),
        error => Failure::new(format_args!("{name}: {error}")),
    })
}

fn export(profiles: &[(ProfileKey, Profile)], file: Option<&Path>) -> Result<(), Failure> {
    let mut written = Vec::new();
    text::write(profiles, &mut written)
        .map_err(|error| Failure::new(format_args!("cannot write profiles: {error}")))?;
    write(&written, file)
}

/// Writes an exported text to a file, or to standard output.
///
/// # Errors
/// If it cannot be written.
pub fn write(text: &[u8], file: Option<&Path>) -> Result<(), Failure> {
    match file {
        Some(file) => std::fs::write(file, text)
            .map_err(|error| Failure::new(format_args!("cannot write {}: {error}", file.display()))),
        None => answer(&String::from_utf8_lossy(text)),
    }
}

/// Returns the profiles with the law of slowdown that is learned from them, beside each profile without a cap. Profiles
/// of the same cores under caps follow it.
fn with_laws(profiles: &[(ProfileKey, Profile)]) -> impl Iterator<Item = (&ProfileKey, &Profile, Option<Slowdown>)> {
    profiles.iter().enumerate().map(|(index, (key, profile))| {
        let same = |other: &ProfileKey| ProfileKey { cap: None, ..other.clone() } == *key;
        let capped = profiles[index + 1..].iter().take_while(|(other, _)| same(other));
        let capped = capped.map(|(_, profile)| (profile.power, profile.duration));
        let law = key.cap.is_none().then(|| Slowdown::learned((profile.power, profile.duration), capped));
        (key, profile, law.flatten())
    })
}

fn as_json((key, profile, law): (&ProfileKey, &Profile, Option<Slowdown>)) -> ProfileJson {
    ProfileJson {
        application: key.application.clone(),
        size: key.size.clone(),
        hardware: key.hardware.clone(),
        cores: key.cores,
        nodes: key.nodes,
        cap_w: key.cap.map(|cap| cap.watts()),
        duration_s: profile.duration.secs(),
        power_w: profile.power.watts(),
        energy_j: profile.energy.joules(),
        spread: f64::from(profile.spread_permille) / 1e3,
        runs: profile.runs,
        source: profile.source.to_string(),
        slowdown: law.map(|law| law.to_string()),
    }
}

pub fn table(profiles: &[(ProfileKey, Profile)]) -> String {
    let mut table = Table::new(&[
        ("APPLICATION", Align::Left),
        ("SIZE", Align::Left),
        ("HARDWARE", Align::Left),
        ("CORES", Align::Right),
        ("NODES", Align::Right),
        ("CAP", Align::Figure),
        ("DURATION", Align::Right),
        ("POWER", Align::Figure),
        ("ENERGY", Align::Figure),
        ("SPREAD", Align::Right),
        ("RUNS", Align::Right),
        ("FROM", Align::Left),
        ("SLOWDOWN", Align::Left),
    ]);
    for (key, profile, law) in with_laws(profiles) {
        table.row([
            key.application.clone(),
            or_dash((!key.size.is_empty()).then_some(&key.size)),
            key.hardware.clone(),
            or_dash(key.cores),
            or_dash(key.nodes),
            or_dash(key.cap),
            profile.duration.to_string(),
            profile.power.to_string(),
            profile.energy.to_string(),
            format!("{}.{} %", profile.spread_permille / 10, profile.spread_permille % 10),
            profile.runs.to_string(),
            profile.source.to_string(),
            or_dash(law),
        ]);
    }
    table.render()
}
