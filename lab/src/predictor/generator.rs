//! Makes jobs whose draws are known up to their noise: users and applications by Zipf's law, drifts and upgrades of
//! applications, and users that name another application than they run.

use std::f64::consts::TAU;

use limo_model::{Power, Span, Time};
use limo_profiles::predict::{Features, FinishedJob, Submission};

use super::KnownJob;
use crate::random::Random;

/// How many of what.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    pub jobs: u32,
    pub users: u32,
    pub applications: usize,
    /// One user of so many names a wrong application and requests times without relation to its jobs.
    pub one_liar_of: usize,
    pub days: u32,
    pub seed: u64,
}

/// The recipe of the published targets.
pub const RECIPE: Recipe =
    Recipe { jobs: 100_000, users: 500, applications: 40, one_liar_of: 20, days: 180, seed: 20_260_101 };

/// Exponent of Zipf's law.
const ZIPF: f64 = 1.1;
/// Deviation of the logarithm of a job's draw: what nobody can predict.
const NOISE: f64 = 0.10;
const DURATION_NOISE: f64 = 0.25;
/// Largest change of a draw by drift and by an upgrade.
const DRIFT: f64 = 0.15;
const UPGRADE: f64 = 0.15;
const CORES: u32 = 16;
const DAY_S: f64 = 86_400.0;

struct Application {
    /// Logarithm of the watts for each core.
    watts: f64,
    /// Change of this logarithm with each doubling of the nodes.
    by_nodes: f64,
    drift: f64,
    /// In days, as is the phase.
    period: f64,
    phase: f64,
    upgrade: f64,
    upgraded: f64,
    peak: f64,
}

impl Application {
    fn draw(random: &mut Random, days: f64) -> Self {
        Self {
            // 2 to 12 W.
            watts: 2_f64.ln() + 6_f64.ln() * random.unit(),
            by_nodes: -0.1 * random.unit(),
            drift: DRIFT * random.unit(),
            period: 60.0 + 240.0 * random.unit(),
            phase: TAU * random.unit(),
            upgrade: days * random.unit(),
            upgraded: UPGRADE * (2.0 * random.unit() - 1.0),
            peak: 0.3 * random.unit(),
        }
    }

    fn at(&self, day: f64) -> f64 {
        let drift = self.drift * (TAU * day / self.period + self.phase).sin();
        self.watts + drift + if day >= self.upgrade { self.upgraded } else { 0.0 }
    }
}

/// A request that a user repeats.
struct Shape {
    nodes: u32,
    cores: u32,
    memory_mib: u64,
    requested_s: f64,
    /// Part of the requested time that the job needs.
    used: f64,
}

impl Shape {
    fn draw(random: &mut Random) -> Self {
        let nodes = if random.unit() < 0.5 { 1 } else { 1 << random.index(5) };
        let cores = if nodes == 1 { 1 << random.index(5) } else { nodes * CORES };
        let hours = [0.5, 1.0, 2.0, 4.0, 8.0, 12.0][random.index(6)];
        let memory_mib = u64::from(cores) * [512, 1_024, 2_048, 3_500][random.index(4)];
        Self { nodes, cores, memory_mib, requested_s: 3_600.0 * hours, used: 0.1 + 0.7 * random.unit() }
    }
}

/// A habit of a user: an application with its inputs.
struct Habit {
    application: usize,
    /// Change of the logarithm of the draw by the inputs.
    inputs: f64,
    shapes: Vec<Shape>,
}

struct User {
    habits: Vec<Habit>,
    /// The application that a liar names.
    lie: Option<usize>,
}

/// Draws indices by Zipf's law.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: usize) -> Self {
        let mut sum = 0.0;
        let sums = (1..=count).map(|rank| {
            sum += (rank as f64).powf(-ZIPF);
            sum
        });
        Self(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let wanted = random.unit() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|sum| *sum <= wanted).min(self.0.len().saturating_sub(1))
    }
}

/// Makes the jobs in the order of their submission. Each starts at once.
pub fn generate(recipe: &Recipe) -> Vec<KnownJob> {
    let mut random = Random::new(recipe.seed, 0);
    let days = f64::from(recipe.days);
    let applications: Vec<Application> =
        (0..recipe.applications).map(|_| Application::draw(&mut random, days)).collect();
    let by_application = Zipf::new(recipe.applications);
    let mut ranks: Vec<usize> = (0..recipe.applications).collect();
    random.shuffle(&mut ranks);
    let user = |index: usize, random: &mut Random| {
        let habits = (0..1 + random.index(4)).map(|_| Habit {
            application: ranks[by_application.draw(random)],
            inputs: 0.15 * random.normal(),
            shapes: (0..1 + random.index(3)).map(|_| Shape::draw(random)).collect(),
        });
        let habits: Vec<Habit> = habits.collect();
        // Liars are among frequent and rare users alike.
        let lie = (index % recipe.one_liar_of == recipe.one_liar_of / 2).then(|| random.index(recipe.applications));
        User { habits, lie }
    };
    let users: Vec<User> = (0..recipe.users as usize).map(|index| user(index, &mut random)).collect();
    let by_user = Zipf::new(recipe.users as usize);
    let mean_gap = days * DAY_S / f64::from(recipe.jobs);
    let mut now = 0.0;
    let job = |_| {
        now += mean_gap * random.exponential();
        let index = by_user.draw(&mut random);
        case(&applications, &users[index], index, now, &mut random)
    };
    (0..recipe.jobs).map(job).collect()
}

fn case(applications: &[Application], user: &User, index: usize, now: f64, random: &mut Random) -> KnownJob {
    let habit = &user.habits[random.index(user.habits.len())];
    let shape = &habit.shapes[random.index(habit.shapes.len())];
    let application = &applications[habit.application];
    let by_nodes = application.by_nodes * f64::from(shape.nodes).log2();
    let logarithm = application.at(now / DAY_S) + by_nodes + habit.inputs;
    let expected = logarithm.exp() * f64::from(shape.cores);
    let measured = expected * (NOISE * random.normal()).exp();
    let needed = shape.requested_s * shape.used * (DURATION_NOISE * random.normal()).exp();
    let requested =
        if user.lie.is_some() { shape.requested_s * (1.0 + 9.0 * random.unit()) } else { shape.requested_s };
    let seconds = needed.clamp(10.0, requested);
    let power = |watts: f64| Power::from_mw((watts * 1e3).round() as i64);
    let time = |seconds: f64| Time::from_unix_ms((seconds * 1e3) as i64);
    let submission = Submission {
        user: &format!("user-{index}"),
        queue: if shape.nodes > 1 { "parallel" } else { "serial" },
        application: &format!("application-{}", user.lie.unwrap_or(habit.application)),
        name: &format!("run-{}", random.index(1_000)),
        requested: Some(Span::from_ms((requested * 1e3) as i64)),
        nodes: shape.nodes,
        cores: shape.cores,
        memory_mib: shape.memory_mib,
        submitted: time(now),
        ..Submission::default()
    };
    let row = FinishedJob {
        features: Features::of(&submission),
        mean: power(measured),
        peak: power(measured * application.peak.exp()),
        nameplate: limo_model::Power::ZERO,
        duration: Span::from_ms((seconds * 1e3) as i64),
        submitted: time(now),
        ended: time(now + seconds),
    };
    KnownJob { row, start: time(now), expected: Some(power(expected)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_recipe_is_kept() {
        let cases = generate(&Recipe { jobs: 20_000, ..RECIPE });
        assert_eq!(cases, generate(&Recipe { jobs: 20_000, ..RECIPE }));
        assert!(cases.is_sorted_by_key(|case| case.row.submitted));
        let mut by_user: BTreeMap<u32, u32> = BTreeMap::new();
        cases.iter().for_each(|case| *by_user.entry(case.features().user).or_default() += 1);
        // The sum of rank^-1.1 for 500 users is 5.2, so the first one has 19 % of the jobs, and nearly all have some.
        let most = f64::from(*by_user.values().max().expect("users")) / 20_000.0;
        assert!((0.17..0.22).contains(&most) && by_user.len() > 480, "{most} {}", by_user.len());
        // The mean absolute deviation of a normal variable is 0.798 of its deviation.
        let distance = |case: &KnownJob| (case.watts() / super::super::watts(case.expected.expect("known"))).ln().abs();
        let noise = cases.iter().map(distance).sum::<f64>() / 20_000.0;
        assert!((0.077..0.083).contains(&noise), "{noise}");
    }
}
