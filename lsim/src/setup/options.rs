//! `--set KEY=VALUE` and `--part PART=RULE`: options and parts of a policy by name.

mod counts;
mod keys;
mod read;

use anyhow::{Result, anyhow, bail};
use limo_model::{PartRule, Parts, Preset};
use limo_sched::Options;

use super::values::Setting;
pub use keys::KEYS;

/// Key of `--set`.
pub struct Key {
    pub name: &'static str,
    /// Values, for the help.
    pub values: &'static str,
    pub default: &'static str,
    pub meaning: &'static str,
    /// Returns true if a policy with these parts uses the option.
    pub counts: fn(Parts) -> bool,
    read: fn(&mut Options, &str) -> Result<(), String>,
}

impl Key {
    /// Returns true if the option replaces a part of the policy.
    pub fn is_part(&self) -> bool {
        matches!(self.name, "admission" | "caps" | "idle" | "order" | "placement")
    }
}

/// Applies the parts and the other options for `preset`; returns a note for each key that it ignores.
///
/// # Errors
/// If a key is unknown or given twice, a value is wrong, or parts do not go together.
pub fn choose(preset: Preset, given: (&[Setting], &[Setting])) -> Result<(Options, Vec<String>)> {
    choose_from(Options::default(), preset, given)
}

/// The same as for [`choose`], starting from `options`.
///
/// # Errors
/// The same as for [`choose`].
pub fn choose_from(
    mut options: Options,
    preset: Preset,
    (parts, settings): (&[Setting], &[Setting]),
) -> Result<(Options, Vec<String>)> {
    let mut chosen: Vec<&Key> = Vec::new();
    let parts = parts.iter().map(|setting| ("--part", setting));
    for (option, setting) in parts.chain(settings.iter().map(|setting| ("--set", setting))) {
        let Setting { key, value } = setting;
        if option == "--part" {
            // A part is also known as an option, but not every option is a part.
            setting.to_string().parse::<PartRule>().map_err(|error| anyhow!("{option} {setting}: {error}"))?;
        }
        let known = KEYS.iter().find(|known| known.name == key).ok_or_else(|| unknown(key))?;
        if chosen.iter().any(|earlier| earlier.name == known.name) {
            bail!("{option} {key}={value}: `{key}` is set twice");
        }
        (known.read)(&mut options, value).map_err(|error| anyhow!("{option} {key}={value}: {error}"))?;
        chosen.push(known);
    }
    let parts = options.parts_of(preset);
    if let Some(why) = parts.senseless() {
        bail!("--policy {preset}: {why}; `lsim policies` lists the parts of each policy");
    }
    let ignored = chosen.into_iter().filter(|key| !(key.counts)(parts));
    let note = |key: &Key| {
        let looks = |policy: &Preset| (key.counts)(policy.parts());
        let policies: Vec<&str> = Preset::ALL.into_iter().filter(looks).map(Preset::name).collect();
        let (name, policies) = (key.name, policies.join(", "));
        format!("--set {name}: `{preset}` ignores it (it is for {policies})")
    };
    let notes = ignored.map(note).collect();
    Ok((options, notes))
}

fn unknown(key: &str) -> anyhow::Error {
    if key == "compat" {
        return anyhow!(
            "--set compat: the scheduler of 2017 is now in `lab`, which is not installed: in Limo's sources, type `cargo lab run --compat 2017` with the other options"
        );
    }
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    anyhow!("--set: unknown key `{key}` (known: {}); `lsim policies` explains them", known.join(", "))
}

#[cfg(test)]
mod tests;
