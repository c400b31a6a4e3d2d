//! The machines of the demo, and their profiles: those of limo-2018 with shortened durations.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use limo_model::{EstimateSource, Profile, ProfileKey, Span};
use limo_power::Hardware;

use super::pace::shortened;
use crate::workspace;

/// The machines and units of limo-2018, below the workspace.
const MACHINES: &str = "power/examples/limo-2018.toml";

/// Returns the text of a hardware file with durations divided by `factor`.
///
/// # Errors
/// If `text` is not a hardware file.
pub fn faster(text: &str, factor: i64) -> Result<String> {
    let mut file: toml::Table = text.parse().context("not TOML")?;
    let machines = file.get_mut("machine").and_then(toml::Value::as_array_mut).context("no machine")?;
    let units = machines.iter_mut().filter_map(|machine| machine.get_mut("unit")?.as_array_mut()).flatten();
    let applications = units.filter_map(|unit| unit.get_mut("application")?.as_table_mut());
    for (name, application) in applications.flatten() {
        let duration = application.get_mut("duration").with_context(|| format!("{name} has no duration"))?;
        let given = duration.as_str().unwrap_or_default();
        let given: Span = given.parse().with_context(|| format!("the duration of {name}"))?;
        *duration = format!("{} ms", shortened(given, factor).ms()).into();
    }
    Ok(toml::to_string(&file)?)
}

/// Returns profiles of all applications on all units, as an expert on the machines would import them.
pub fn profiles(hardware: &Hardware) -> Vec<(ProfileKey, Profile)> {
    let mut profiles = BTreeMap::new();
    for machine in &hardware.machines {
        for (spec, unit) in machine.spec.units.iter().zip(&machine.units) {
            for (name, application) in &unit.applications {
                let (application_name, size) = name.split_once('/').unwrap_or((name, ""));
                let key = ProfileKey {
                    application: application_name.to_owned(),
                    size: size.to_owned(),
                    hardware: spec.hardware.clone(),
                    cores: None,
                    nodes: None,
                    cap: None,
                };
                let profile = Profile {
                    duration: application.duration,
                    power: application.power,
                    energy: application.power * application.duration,
                    // The spread is 1.4826 times the median deviation, which is half of the largest deviation for an
                    // even distribution.
                    spread_permille: unit.duration_noise.millionths() * 3 / 4 / 1_000,
                    runs: 1,
                    source: EstimateSource::Imported,
                };
                profiles.insert(key, profile);
            }
        }
    }
    profiles.into_iter().collect()
}

/// Returns the example of limo-2018 at its original pace.
///
/// # Errors
/// If it cannot be read.
pub fn example() -> Result<String> {
    let path = workspace::root()?.join(MACHINES);
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes machines given at their original pace, and their profiles; returns the machines at the pace of the demo.
///
/// # Errors
/// If the text describes no machines, or a file cannot be written.
pub fn prepare(text: &str, factor: i64, machines: &Path, profiles_file: &Path) -> Result<Hardware> {
    let text = faster(text, factor).context("the machines cannot be used")?;
    std::fs::write(machines, &text).with_context(|| format!("cannot write {}", machines.display()))?;
    let hardware = Hardware::parse(machines, &text)?;
    let file = std::fs::File::create(profiles_file);
    let file = file.with_context(|| format!("cannot write {}", profiles_file.display()))?;
    limo_profiles::text::write(&profiles(&hardware), file)
        .with_context(|| format!("cannot write {}", profiles_file.display()))?;
    Ok(hardware)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::pace::FACTOR;
    use limo_model::Power;

    #[test]
    fn the_machines_of_limo_2018_run_sixty_times_as_fast() {
        let example = example().expect("the example");
        let parse = |text: &str| Hardware::parse(Path::new("machines.toml"), text).expect("machines");
        let (slow, fast) = (parse(&example), parse(&faster(&example, FACTOR).expect("faster")));
        assert_eq!(fast.machines.iter().map(|machine| machine.spec.units.len()).sum::<usize>(), 6);
        let (slow, fast) = (profiles(&slow), profiles(&fast));
        // There are five benchmarks on five types of hardware, because both Xeons have the same type.
        assert_eq!((slow.len(), fast.len()), (25, 25));
        for ((key, slow), (other, fast)) in slow.iter().zip(&fast) {
            assert_eq!((key, slow.power), (other, fast.power));
            assert!((fast.duration.scaled(60, 1) - slow.duration).ms().abs() <= 30, "{key}: {}", fast.duration);
        }
        assert!(fast.iter().all(|(_, profile)| profile.power > Power::ZERO && profile.spread_permille == 15));
    }
}
