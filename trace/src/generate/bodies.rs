//! Properties of jobs apart from their submission: processors, run, walltime, user. Requires a recipe that `check`
//! accepts.

use limo_model::Span;

use super::draw::{Dice, Stream};
use super::recipe::{LublinRuntimes, LublinSizes, Popular, Recipe, Runtimes, Sizes, Users, Walltimes};
use crate::Job;
use crate::compact::CompactSpan;

/// Draws an endless sequence of jobs.
pub(super) struct Bodies<'a> {
    recipe: &'a Recipe,
    stages: Option<Stages>,
    /// Cumulative share of jobs, by user.
    users: Vec<f64>,
    sizes: Dice,
    runtimes: Dice,
    walltimes: Dice,
    user: Dice,
}

/// [`LublinSizes`] with defaults from the machine.
struct Stages {
    low: f64,
    middle: f64,
    high: f64,
    /// Greatest whole logarithm within the machine.
    whole: f64,
}

impl<'a> Bodies<'a> {
    pub(super) fn new(recipe: &'a Recipe) -> Self {
        let dice = |stream| Dice::new(recipe.seed, stream);
        let stages = match &recipe.sizes {
            Sizes::Lublin(model) => Some(Stages::new(model, recipe.machine)),
            Sizes::Uniform { .. } | Sizes::Constant { .. } => None,
        };
        Self {
            recipe,
            stages,
            users: recipe.users.as_ref().map(shares).unwrap_or_default(),
            sizes: dice(Stream::Sizes),
            runtimes: dice(Stream::Runtimes),
            walltimes: dice(Stream::Walltimes),
            user: dice(Stream::Users),
        }
    }

    /// Draws the next job, without a number and submitted at zero.
    pub(super) fn draw(&mut self) -> Job {
        let processors = self.size();
        let run_s = self.run_s(processors);
        let walltime_s = self.walltime_s(run_s);
        Job {
            number: 0,
            submit: Span::ZERO,
            wait: None,
            run: Span::from_secs(run_s),
            walltime: Some(CompactSpan::of(Span::from_secs(walltime_s))),
            processors,
            user: self.user(),
            application: -1,
            queue: -1,
            treatment: crate::workload::Treatment::default(),
            chunks: None,
            moldable: None,
            removed: None,
            bytes: None,
        }
    }

    fn size(&mut self) -> u32 {
        let size = match (&self.recipe.sizes, &self.stages) {
            (Sizes::Constant { processors }, _) => *processors,
            (Sizes::Uniform { min, max }, _) => self.sizes.integer(*min, *max),
            (Sizes::Lublin(model), Some(stages)) => stages.draw(model, &mut self.sizes),
            (Sizes::Lublin(_), None) => 1,
        };
        size.clamp(1, self.recipe.machine)
    }

    fn run_s(&mut self, processors: u32) -> i64 {
        let dice = &mut self.runtimes;
        match &self.recipe.runtimes {
            Runtimes::Constant { time } => secs(*time),
            // Checked spans are at most a century, 3.2e9 s, which fits.
            Runtimes::Uniform { min, max } => i64::from(dice.integer(secs(*min) as u32, secs(*max) as u32)),
            Runtimes::LogNormal { median, sigma, max } => loop {
                let run = secs(*median) as f64 * libm::exp(sigma * dice.normal());
                if run <= secs(*max) as f64 {
                    break whole(run);
                }
            },
            Runtimes::Lublin(model) => whole(libm::exp(logarithm(model, processors, dice))),
        }
    }

    fn walltime_s(&mut self, run_s: i64) -> i64 {
        let dice = &mut self.walltimes;
        match &self.recipe.walltimes {
            Walltimes::Exact => run_s,
            Walltimes::Factor { min, max } => stretched(run_s, dice.between(*min, *max)),
            Walltimes::Popular(popular) => {
                let asked = stretched(run_s, dice.between(popular.min, popular.max));
                rounded_up(popular, asked)
            }
        }
    }

    fn user(&mut self) -> i32 {
        if self.users.is_empty() {
            return -1;
        }
        let drawn = self.user.unit();
        let before = self.users.partition_point(|share| *share <= drawn);
        // There are at most a million users. Rounding may leave the last share below 1.
        before.min(self.users.len() - 1) as i32 + 1
    }
}

impl Stages {
    fn new(model: &LublinSizes, machine: u32) -> Self {
        let machine_log = libm::log2(f64::from(machine));
        let high = model.uhi.unwrap_or(machine_log).max(model.ulow);
        let middle = model.umed.unwrap_or(high - 2.5).clamp(model.ulow, high);
        Self { low: model.ulow, middle, high, whole: f64::from(machine.ilog2()) }
    }

    fn draw(&self, model: &LublinSizes, dice: &mut Dice) -> u32 {
        let kind = dice.unit();
        if kind < model.serial {
            return 1;
        }
        let (low, high) = if dice.unit() < model.uprob { (self.low, self.middle) } else { (self.middle, self.high) };
        let log = dice.between(low, high);
        let is_power = kind < model.serial + model.power_of_two;
        // If the machine's size is not a power of two, rounding may exceed it.
        let log = if is_power { (log + 0.5).floor().min(self.whole) } else { log };
        (libm::exp2(log) + 0.5).floor() as u32
    }
}

/// Draws the natural logarithm of a run in seconds.
fn logarithm(model: &LublinRuntimes, processors: u32, dice: &mut Dice) -> f64 {
    let first = model.pa * f64::from(processors) + model.pb;
    loop {
        let (shape, scale) = if dice.unit() < first { (model.a1, model.b1) } else { (model.a2, model.b2) };
        let log = dice.gamma(shape, scale);
        if log <= model.longest {
            return log;
        }
    }
}

fn secs(span: Span) -> i64 {
    span.ms() / 1_000
}

/// Rounds to the nearest whole second, at least one.
fn whole(secs: f64) -> i64 {
    (secs + 0.5).floor().max(1.0) as i64
}

fn stretched(run_s: i64, factor: f64) -> i64 {
    (run_s as f64 * factor).ceil() as i64
}

fn rounded_up(popular: &Popular, asked_s: i64) -> i64 {
    let next = popular.values.iter().map(|value| secs(value.0)).find(|value| *value >= asked_s);
    let last = popular.values.last().map_or(1, |value| secs(value.0));
    next.unwrap_or_else(|| (asked_s + last - 1) / last * last)
}

fn shares(users: &Users) -> Vec<f64> {
    let weight = |rank: u32| libm::pow(f64::from(rank), -users.exponent);
    let mut sum = 0.0;
    let sums = (1..=users.count).map(|rank| {
        sum += weight(rank);
        sum
    });
    let mut shares: Vec<f64> = sums.collect();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}
