//! The recipe for random hours: other machines, jobs, limits and prices than in limo-2018, section 4.4, but of the
//! same kind. Equal seeds give equal hours. Independent of policies, and written before any policy ran on it.
//!
//! - Machines: 2 or 3 with a Xeon, one to all of them with an Intel HD and one or two a Quadro; one or two ODROID-C1+
//!   and as many ODROID-C2. A machine with a Xeon draws 14 W while idle, 1 W more with an Intel HD and 4 W more with a
//!   Quadro.
//! - Each idle draw, and for each type of hardware the power and the duration of each benchmark, is that of the example
//!   times a factor from 2/3 to 3/2, all equally likely on a logarithmic scale.
//! - Limits: every ten minutes a row of Table 4.6, each equally likely. Its lower limit above idle and its width are
//!   scaled by the draw of all units together, in proportion to the example, and each by a factor from 4/5 to 5/4.
//!   For each benchmark, some set of units must reach the band while all of them run it; otherwise the band is drawn
//!   again.
//! - Jobs: 14 to 18 sets of the five benchmarks. Each set is submitted at the beginning of a section, drawn with the
//!   weights of Table 4.6 (4, 4, 4, 2, 1, 1). Sets come earlier if the jobs would run out otherwise.
//! - Enough work: all durations are multiplied by one number. The jobs together then take 1.5 times the energy of the
//!   lower limit over the hour, each job at the mean over all units. At any time, the work needed so far has been
//!   submitted.
//! - Prices: those of consecutive days. Each day with enough days after it is equally likely to be the first.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use limo_model::{Power, Span};
use limo_power::{Hardware, Noise};
use toml::{Table, Value};

use super::Hour;
use super::prices::Market;
use super::workload::{APPLICATIONS, Day, HOURS_OF_DAY, SECTION, SECTIONS, Section};

/// First reported hour; policies may be tuned only on the hours from 1 to 100.
pub const FIRST_SEED: u64 = 1_001;

/// Energy of the jobs, divided by that of the lower limit.
const SUPPLY: f64 = 1.5;

/// Free power below the upper limit that a reachable band must have, because policies keep a reserve.
const RESERVE: f64 = 0.01;

/// Attempts to draw a band before its machines are discarded.
const ATTEMPTS: usize = 10_000;

struct Random(Noise);

impl Random {
    /// Returns a number from `low` to `high`, both included.
    fn among(&mut self, low: usize, high: usize) -> usize {
        let count = (high - low) as u64 + 1;
        low + usize::try_from(self.0.next_u64() % count).unwrap_or_default()
    }

    /// Returns a factor from `1 / most` to `most`.
    fn factor(&mut self, most: f64) -> f64 {
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        most.powf(2.0 * unit - 1.0)
    }
}

/// Makes the hour of a seed from the machines of the example.
///
/// # Errors
/// If the example does not describe the machines of limo-2018.
pub fn hour(seed: u64, example: &str, market: &Market) -> Result<Hour> {
    let mut random = Random(Noise::new(seed));
    let models = Models::of(example)?;
    let cluster = models.cluster(&mut random)?;
    let known = MachineFigures::of(&cluster)?;
    let bands = bands(&mut random, &MachineFigures::of(&models.0)?, &known)?;
    let sets = sets(&mut random, &bands, known.idle);
    let day = bands.iter().zip(sets.iter().chain(std::iter::repeat(&0)));
    let day = Day(day.map(|((low_w, high_w), sets)| Section { sets: *sets, low_w: *low_w, high_w: *high_w }).collect());
    let needed: f64 = need(&bands[..SECTIONS.len()], known.idle).iter().sum();
    let count: usize = sets.iter().sum();
    let stretch = SUPPLY * needed / (count as f64 * known.set_energy());
    let machines = toml::to_string(&scaled(cluster, |_, _| (1.0, stretch))?)?;
    let prices = market.starting_on(random.among(0, market.days() - 1));
    Ok(Hour { machines, day, prices })
}

/// The machines of the example.
struct Models(Table);

impl Models {
    fn of(text: &str) -> Result<Self> {
        Ok(Self(text.parse().context("the example is not TOML")?))
    }

    fn machine(&self, name: &str) -> Result<Table> {
        let machines = self.0.get("machine").and_then(Value::as_array).into_iter().flatten();
        let found = machines.filter_map(Value::as_table).find(|machine| is_named(machine, name));
        found.cloned().with_context(|| format!("the example has no machine `{name}`"))
    }

    /// Returns a unit of the Xeon that has accelerators.
    fn accelerator(&self, name: &str) -> Result<Value> {
        let machine = self.machine("xeon2")?;
        let mut units = machine.get("unit").and_then(Value::as_array).into_iter().flatten();
        let found = units.find(|unit| unit.as_table().is_some_and(|unit| is_named(unit, name)));
        found.cloned().with_context(|| format!("the example has no unit `{name}`"))
    }

    fn cluster(&self, random: &mut Random) -> Result<Table> {
        let xeons = random.among(2, 3);
        let (intels, quadros) = (random.among(1, xeons), random.among(1, 2));
        let mut machines = Vec::new();
        for index in 0..xeons {
            let mut machine = self.machine("xeon1")?;
            let (has_intel, has_quadro) = (index < intels, index < quadros);
            let units = machine.get_mut("unit").and_then(Value::as_array_mut).context("a Xeon has no unit")?;
            if has_intel {
                units.push(self.accelerator("intel-hd")?);
            }
            if has_quadro {
                units.push(self.accelerator("quadro")?);
            }
            let idle = 14.0 + if has_intel { 1.0 } else { 0.0 } + if has_quadro { 4.0 } else { 0.0 };
            machines.push(renamed(machine, &format!("xeon{}", index + 1), idle * random.factor(1.5)));
        }
        for model in ["odroid-c1", "odroid-c2"] {
            for index in 0..random.among(1, 2) {
                let machine = self.machine(model)?;
                let idle = power(machine.get("idle"))? * random.factor(1.5);
                machines.push(renamed(machine, &format!("{model}-{}", index + 1), idle));
            }
        }
        let mut factors: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
        let cluster = Table::from_iter([("machine".to_owned(), Value::Array(machines))]);
        scaled(cluster, |hardware, application| {
            let key = (hardware.to_owned(), application.to_owned());
            *factors.entry(key).or_insert_with(|| (random.factor(1.5), random.factor(1.5)))
        })
    }
}

fn is_named(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Value::as_str) == Some(name)
}

fn renamed(mut machine: Table, name: &str, idle_w: f64) -> Value {
    machine.insert("name".to_owned(), name.into());
    machine.insert("idle".to_owned(), milliwatts(idle_w).into());
    Value::Table(machine)
}

fn milliwatts(watts: f64) -> String {
    format!("{} mW", (watts * 1e3).round() as i64)
}

/// Converts to watts.
fn power(value: Option<&Value>) -> Result<f64> {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    let power: Power = text.parse().with_context(|| format!("`{text}` is not a power"))?;
    Ok(power.watts())
}

/// Returns the machines with the power and the duration of each application multiplied by `factors` for the hardware
/// and the application. Nameplates and highest caps are at least the draw.
fn scaled(mut cluster: Table, mut factors: impl FnMut(&str, &str) -> (f64, f64)) -> Result<Table> {
    let machines = cluster.get_mut("machine").and_then(Value::as_array_mut).into_iter().flatten();
    let units = machines.filter_map(|machine| machine.get_mut("unit")?.as_array_mut()).flatten();
    for unit in units.filter_map(Value::as_table_mut) {
        let hardware = unit.get("hardware").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut most = power(unit.get("nameplate"))?;
        let applications = unit.get_mut("application").and_then(Value::as_table_mut).context("no application")?;
        for (name, application) in applications.iter_mut() {
            let (more_power, longer) = factors(&hardware, name);
            let application = application.as_table_mut().context("an application is not a table")?;
            let watts = power(application.get("power"))? * more_power;
            let text = application.get("duration").and_then(Value::as_str).unwrap_or_default();
            let duration: Span = text.parse().with_context(|| format!("`{text}` is not a duration"))?;
            let ms = (duration.ms() as f64 * longer).round() as i64;
            application.insert("power".to_owned(), milliwatts(watts).into());
            application.insert("duration".to_owned(), format!("{ms} ms").into());
            most = most.max(watts);
        }
        unit.insert("nameplate".to_owned(), milliwatts(most).into());
        if let Some(highest) = unit.get_mut("caps").and_then(Value::as_array_mut).and_then(|caps| caps.last_mut()) {
            *highest = milliwatts(most).into();
        }
    }
    Ok(cluster)
}

/// The figures of machines for the recipe.
struct MachineFigures {
    idle: f64,
    /// Power and duration of each benchmark on each unit.
    units: Vec<Vec<(f64, f64)>>,
}

impl MachineFigures {
    fn of(cluster: &Table) -> Result<Self> {
        let hardware = Hardware::parse(std::path::Path::new("machines.toml"), &toml::to_string(cluster)?)?;
        let units = || hardware.machines.iter().flat_map(|machine| &machine.units);
        let on = |name: &&str| {
            let known = units().map(|unit| unit.application(name, ""));
            known.map(|known| known.map(|known| (known.power.watts(), known.duration.secs()))).collect::<Option<_>>()
        };
        let units: Option<Vec<Vec<(f64, f64)>>> = APPLICATIONS.iter().map(on).collect();
        let idle = hardware.machines.iter().map(|machine| machine.spec.idle.watts()).sum();
        Ok(Self { idle, units: units.context("a unit does not know each benchmark")? })
    }

    /// Returns the draw of all units above idle, with each at the mean of its benchmarks.
    fn full(&self) -> f64 {
        let all: f64 = self.units.iter().flatten().map(|(power, _)| power).sum();
        all / self.units.len() as f64
    }

    /// Returns the energy of one set of benchmarks, each at the mean over all units.
    fn set_energy(&self) -> f64 {
        let mean = |units: &Vec<(f64, f64)>| {
            units.iter().map(|(power, duration)| power * duration).sum::<f64>() / units.len() as f64
        };
        self.units.iter().map(mean).sum()
    }

    /// Returns true if, for each benchmark, there are units that bring the draw into the band when they run it.
    fn reach(&self, low: f64, high: f64) -> bool {
        let within = |draw: f64| draw >= low && draw <= high * (1.0 - RESERVE);
        self.units.iter().all(|units| {
            let draws = |set: u32| units.iter().enumerate().filter(move |(unit, _)| set & (1 << unit) != 0);
            (0..1_u32 << units.len())
                .any(|set| within(self.idle + draws(set).map(|(_, (power, _))| power).sum::<f64>()))
        })
    }
}

/// Draws the bands of a day, in watts.
fn bands(random: &mut Random, example: &MachineFigures, known: &MachineFigures) -> Result<Vec<(i64, i64)>> {
    let larger = known.full() / example.full();
    let mut bands = Vec::new();
    for _ in 0..ATTEMPTS {
        let row = SECTIONS[random.among(0, SECTIONS.len() - 1)];
        let above_idle = (row.low_w as f64 - example.idle) * larger * random.factor(1.25);
        let width = (row.high_w - row.low_w) as f64 * larger * random.factor(1.25);
        let low = (known.idle + above_idle).ceil();
        let high = (low + width).round();
        if known.reach(low, high) {
            bands.push((low as i64, high as i64));
            if bands.len() == SECTIONS.len() * HOURS_OF_DAY {
                return Ok(bands);
            }
        }
    }
    bail!("no band that these machines can reach was found")
}

/// Returns the energy above idle of each section's lower limit, in joules.
fn need(bands: &[(i64, i64)], idle: f64) -> Vec<f64> {
    bands.iter().map(|(low, _)| (*low as f64 - idle) * SECTION.secs()).collect()
}

/// Returns the number of sets submitted in each section of the hour. At each beginning, at least the share of the work
/// that is needed until the section's end has been submitted.
fn sets(random: &mut Random, bands: &[(i64, i64)], idle: f64) -> Vec<usize> {
    let weights: Vec<usize> = SECTIONS.iter().enumerate().flat_map(|(at, row)| vec![at; row.sets]).collect();
    let mut drawn: Vec<usize> =
        (0..random.among(14, 18)).map(|_| weights[random.among(0, weights.len() - 1)]).collect();
    drawn.sort_unstable();
    let need = need(&bands[..SECTIONS.len()], idle);
    let all: f64 = need.iter().sum();
    let count = drawn.len();
    let mut needed = 0.0;
    for (section, energy) in need.iter().enumerate() {
        needed += energy;
        // Rounding must not require more sets than exist.
        let least = ((needed / all * count as f64 - 1e-9).ceil() as usize).min(count);
        for set in drawn.iter_mut().take(least) {
            *set = (*set).min(section);
        }
    }
    let in_section = |section| drawn.iter().filter(|of| **of == section).count();
    (0..SECTIONS.len()).map(in_section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::hardware::example;

    fn of(seed: u64) -> Hour {
        hour(seed, &example().expect("the example"), &Market::synthetic()).expect("an hour")
    }

    #[test]
    fn equal_seeds_give_equal_hours() {
        let text = |hour: &Hour| (hour.machines.clone(), hour.day.clone(), format!("{:?}", hour.prices));
        assert_eq!(text(&of(1_001)), text(&of(1_001)));
        assert_ne!(of(1_001).machines, of(1_002).machines);
    }

    #[test]
    fn hours_are_within_the_recipe() {
        for seed in 1..=50 {
            let hour = of(seed);
            let known = MachineFigures::of(&hour.machines.parse().expect("TOML")).expect("figures");
            let units = known.units[0].len();
            assert!((6..=12).contains(&units), "seed {seed}: {units} units");
            let day = &hour.day.0;
            assert_eq!(day.len(), 18);
            let bands: Vec<(i64, i64)> = day.iter().map(|section| (section.low_w, section.high_w)).collect();
            assert!(bands.iter().all(|(low, high)| known.reach(*low as f64, *high as f64)), "seed {seed}");
            // The work of each section is submitted when it begins, and half as much again in total.
            let need = need(&bands[..6], known.idle);
            let (mut needed, mut supplied) = (0.0, 0.0);
            for (section, energy) in day.iter().zip(&need) {
                needed += energy;
                supplied += section.sets as f64 * known.set_energy();
                assert!(supplied >= 1.499 * needed, "seed {seed}: {supplied} J of {needed} J");
            }
            assert!((supplied / needed - 1.5).abs() < 0.01, "seed {seed}: {supplied} J of {needed} J");
            let jobs: usize = day.iter().map(|section| section.jobs().count()).sum();
            assert!((70..=90).contains(&jobs), "seed {seed}: {jobs} jobs");
        }
    }
}
