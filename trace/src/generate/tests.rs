//! Whole recipes: equal seeds, theoretical shares and means, loads, and refusals. Seeds are fixed, so each bound either
//! always holds or always fails; bounds are five deviations of the estimator or wider.

use limo_model::Span;

use super::*;
use crate::compact::CompactSpan;

/// A recipe in which single lines can be replaced.
const BASE: &str = r#"
seed = 1
machine = 64
jobs = 1000
span = "1d"
sizes.uniform = { min = 1, max = 16 }
runtimes.uniform = { min = "10s", max = "30min" }
arrivals = "uniform"
walltimes = "exact"
"#;

/// Returns [`BASE`] with the lines of `changes` instead of those with the same keys; a key alone removes its line.
pub(super) fn recipe_text(changes: &[&str]) -> String {
    let key = |line: &str| line.split(['=', '.', ' ']).next().unwrap_or_default().to_owned();
    let kept = BASE.lines().filter(|line| changes.iter().all(|change| key(change) != key(line)));
    let new = changes.iter().copied().filter(|change| change.contains('='));
    kept.chain(new).collect::<Vec<_>>().join("\n")
}

fn made(changes: &[&str]) -> Workload {
    let recipe = Recipe::from_toml(&recipe_text(changes)).unwrap();
    let workload = generate(&recipe).unwrap();
    check_sound(&recipe, &workload);
    workload
}

/// Checks properties of every workload.
fn check_sound(recipe: &Recipe, workload: &Workload) {
    let jobs = &workload.jobs;
    assert!(!jobs.is_empty());
    assert!(jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit), "not in order");
    assert!(jobs.iter().zip(1..).all(|(job, number)| job.number == number));
    for job in jobs {
        assert!((1..=recipe.machine).contains(&job.processors), "{job:?}");
        assert!(job.submit >= Span::ZERO && recipe.span.is_none_or(|span| job.submit <= span), "{job:?}");
        assert!(job.run >= Span::from_secs(1) && job.walltime.unwrap().span() >= job.run, "{job:?}");
        assert!(
            [job.submit, job.run, job.walltime.unwrap().span()].iter().all(|time| time.ms() % 1_000 == 0),
            "{job:?}"
        );
    }
    assert_eq!(workload.processors, Some(recipe.machine));
    assert!(recipe.jobs.is_none_or(|count| count as usize == jobs.len()));
}

fn mean(jobs: &[Job], value: impl Fn(&Job) -> f64) -> f64 {
    jobs.iter().map(value).sum::<f64>() / jobs.len() as f64
}

fn share(jobs: &[Job], is: impl Fn(&Job) -> bool) -> f64 {
    jobs.iter().filter(|job| is(job)).count() as f64 / jobs.len() as f64
}

fn near(what: &str, found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{what}: {found}, not {expected} within {within}");
}

/// Checks a share over 100,000 jobs.
fn near_share(what: &str, found: f64, expected: f64) {
    near(what, found, expected, 5.0 * (expected * (1.0 - expected) / 100_000.0).sqrt());
}

#[test]
fn equal_seeds_give_equal_jobs_and_others_do_not() {
    for name in Recipe::names() {
        let recipe = Recipe::named(name).unwrap();
        let workload = generate(&recipe).unwrap();
        check_sound(&recipe, &workload);
        assert_eq!(workload, generate(&recipe).unwrap(), "{name}");
        let other = generate(&Recipe { seed: recipe.seed + 1, ..recipe }).unwrap();
        assert_ne!(workload.jobs, other.jobs, "{name}");
    }
}

#[test]
fn walltimes_do_not_change_other_draws() {
    let with = |changes: &[&str]| made(changes).jobs;
    let plain = with(&[]);
    let other = with(&["walltimes.factor = { min = 2, max = 3 }", "users = { count = 3 }"]);
    let same = |pair: (&Job, &Job)| {
        (pair.0.submit, pair.0.run, pair.0.processors) == (pair.1.submit, pair.1.run, pair.1.processors)
    };
    assert!(plain.iter().zip(&other).all(same));
    assert!(plain.iter().all(|job| job.user == -1) && other.iter().all(|job| (1..=3).contains(&job.user)));
}

#[test]
fn a_recipe_survives_its_file() {
    for name in Recipe::names() {
        let recipe = Recipe::named(name).unwrap();
        assert_eq!(Recipe::from_toml(&toml::to_string(&recipe).unwrap()).unwrap(), recipe, "{name}");
    }
}

#[test]
fn lublin_sizes_have_the_published_shares() {
    let jobs = made(&["machine = 128", "jobs = 100000", "sizes.lublin = {}"]).jobs;
    let of = |size: u32| share(&jobs, |job| job.processors == size);
    near_share("1", of(1), 0.244);
    // Calculated by hand: the first stage is 0.86 over 0.8 to 4.5, the second 0.14 over 4.5 to 7. Size 2 has the
    // logarithms 0.8 to 1.5 of powers (0.576) and 0.8 to log2 2.5 of the others (0.18). Size 3 has those from log2
    // 2.5 to log2 3.5 of the others. Size 128 has 6.5 to 7 of powers and log2 127.5 to 7 of the others.
    near_share("2", of(2), 0.115_553);
    near_share("3", of(3), 0.020_309);
    near_share("128", of(128), 0.016_185);
    let few = made(&["machine = 100", "jobs = 20000", "sizes.lublin = {}"]).jobs;
    assert!(few.iter().any(|job| job.processors > 64), "the machine is never filled");
    assert!(made(&["machine = 1", "sizes.lublin = {}"]).jobs.iter().all(|job| job.processors == 1));
}

#[test]
fn lublin_runtimes_follow_the_size() {
    let check = |size: u32, below_1000: f64, mean_s: f64, deviation_s: f64| {
        let sizes = format!("sizes.constant = {{ processors = {size} }}");
        let jobs = made(&["machine = 128", "jobs = 100000", &sizes, "runtimes.lublin = {}"]).jobs;
        near_share("runs below 1000 s", share(&jobs, |job| job.run < Span::from_secs(1_000)), below_1000);
        // Runs of less than a second become one, which adds less than a second to the mean.
        near("mean", mean(&jobs, |job| job.run.secs()), mean_s, 5.0 * deviation_s / 100_000_f64.sqrt() + 1.0);
    };
    // The figures are by numerical integration of the densities up to 12.
    check(1, 0.715_167, 3_596.1, 8_029.9);
    check(100, 0.221_390, 10_367.3, 9_145.0);
}

#[test]
fn other_sizes_and_runtimes_have_their_means() {
    let jobs = made(&["jobs = 100000"]).jobs;
    near("size", mean(&jobs, |job| f64::from(job.processors)), 8.5, 5.0 * 4.61 / 316.0);
    near("run", mean(&jobs, |job| job.run.secs()), 905.0, 5.0 * 517.0 / 316.0);
    let jobs =
        made(&["jobs = 100000", "runtimes.log-normal = { median = \"10min\", sigma = 0.5, max = \"30d\" }"]).jobs;
    near_share("below the median", share(&jobs, |job| job.run < Span::from_secs(600)), 0.5);
    // The mean is median x e^(sigma^2 / 2), the deviation mean x sqrt(e^(sigma^2) - 1).
    near("run", mean(&jobs, |job| job.run.secs()), 679.89, 5.0 * 362.4 / 316.0);
    assert!(made(&["runtimes.constant = { time = \"90s\" }"]).jobs.iter().all(|job| job.run == Span::from_secs(90)));
}

#[test]
fn arrivals_lie_as_their_names_say() {
    let of = |arrivals: &str| made(&["jobs = 100000", "span = \"100d\"", arrivals]).jobs;
    let place = |job: &Job| job.submit.secs() / 8_640_000.0;
    let even = of("arrivals = \"uniform\"");
    near("uniform, mean", mean(&even, place), 0.5, 5.0 * 0.2887 / 316.0);
    near_share("uniform, first tenth", share(&even, |job| place(job) < 0.1), 0.1);
    let skewed = of("arrivals = \"left-skewed\"");
    near("left-skewed, mean", mean(&skewed, place), 1.0 / 3.0, 5.0 * 0.2357 / 316.0);
    near_share("left-skewed, first tenth", share(&skewed, |job| place(job) < 0.1), 0.19);
    let grouped = of("arrivals.burst = { count = 4, width = \"1d\" }");
    for burst in 0..4 {
        let start = Span::from_secs(burst * 25 * 86_400);
        let within = |job: &Job| (start..start + Span::from_secs(86_400)).contains(&job.submit);
        near_share("burst", share(&grouped, within), 0.25);
    }
}

#[test]
fn arrivals_have_their_own_rate() {
    let last = |jobs: &[Job]| jobs.last().unwrap().submit.secs() / jobs.len() as f64;
    let poisson = made(&["jobs = 100000", "span", "arrivals.exponential = { mean-gap = \"90s\" }"]).jobs;
    near("gap", last(&poisson), 90.0, 5.0 * 90.0 / 316.0);
    let poisson = made(&["jobs", "span = \"90d\"", "arrivals.exponential = { mean-gap = \"90s\" }"]).jobs;
    near("jobs", poisson.len() as f64, 86_400.0, 5.0 * 294.0);
    let lublin = made(&["jobs = 100000", "span", "arrivals.lublin = {}"]).jobs;
    // The figure is by numerical integration of the density up to 13.
    near("lublin gap", last(&lublin), 911.3, 5.0 * 6_342.8 / 316.0);
    let month = made(&["jobs", "span = \"30d\"", "arrivals.lublin = {}"]).jobs;
    assert!((1_000..6_000).contains(&month.len()), "{}", month.len());
}

#[test]
fn the_day_has_its_rush_hours_at_any_load() {
    let lublin = made(&["jobs = 100000", "span = \"100d\"", "sizes.lublin = {}", "arrivals.lublin = {}"]).jobs;
    let hour = |job: &Job| job.submit.ms() / 3_600_000 % 24;
    // The shares are by numerical integration of the density. Gaps vary so much that a hundred days do not even them
    // out.
    near("13:00", share(&lublin, |job| hour(job) == 13), 0.076, 0.012);
    near("04:00", share(&lublin, |job| hour(job) == 4), 0.0078, 0.003);
}

#[test]
fn the_load_is_met_within_one_per_cent() {
    let arrivals = [
        "arrivals = \"uniform\"",
        "arrivals = \"left-skewed\"",
        "arrivals = \"steady\"",
        "arrivals.burst = { count = 3, width = \"1h\" }",
        "arrivals.exponential = {}",
        "arrivals.lublin = {}",
    ];
    let bodies = ["sizes.lublin = {}", "runtimes.lublin = {}"];
    for arrivals in arrivals {
        for (load, utilisation) in [(0.3, "utilisation = 0.3"), (1.5, "utilisation = 1.5")] {
            let work = |jobs: &[Job]| jobs.iter().map(|job| job.run.secs() * f64::from(job.processors)).sum::<f64>();
            let span_given = made(&[bodies[0], bodies[1], arrivals, utilisation, "jobs", "span = \"7d\""]).jobs;
            near(arrivals, work(&span_given) / (604_800.0 * 64.0), load, load * 0.01);
            let jobs_given = made(&[bodies[0], bodies[1], arrivals, utilisation, "jobs = 3000", "span"]).jobs;
            // Scaled gaps end with the span, so the span may come from the jobs.
            if arrivals.contains("exponential") || arrivals.contains("lublin") {
                let span = jobs_given.last().unwrap().submit.secs();
                near(arrivals, work(&jobs_given) / (span * 64.0), load, load * 0.01);
            }
        }
    }
}

#[test]
fn a_steady_load_is_steady() {
    let jobs = made(&["jobs", "span = \"10d\"", "utilisation = 0.5", "arrivals = \"steady\""]).jobs;
    for day in 0..10 {
        let within = jobs.iter().filter(|job| job.submit.ms() / 86_400_000 == day);
        let work: f64 = within.map(|job| job.run.secs() * f64::from(job.processors)).sum();
        // One job at each end of the day may belong to the day before or after: 2 x 16 processors x 30 min.
        near("work of a day", work, 0.5 * 64.0 * 86_400.0, 0.01 * 32.0 * 86_400.0 + 57_600.0);
    }
}

#[test]
fn walltimes_are_what_people_type() {
    let factors = made(&["jobs = 100000", "walltimes.factor = { min = 1, max = 5 }"]).jobs;
    let factor = |job: &Job| job.walltime.unwrap().span().secs() / job.run.secs();
    // Rounding up adds at most a second, to runs with a mean of 905 s; the harmonic mean of the runs is 344 s.
    near("factor", mean(&factors, factor), 3.0, 5.0 * 1.155 / 316.0 + 0.003);
    let check = |run: &str, expected_s: i64| {
        let runtimes = format!("runtimes.constant = {{ time = \"{run}\" }}");
        let jobs = made(&[&runtimes, "walltimes.popular = {}"]).jobs;
        assert_eq!(jobs[0].walltime.map(CompactSpan::span), Some(Span::from_secs(expected_s)), "{run}");
    };
    check("1s", 900);
    check("15min", 900);
    check("901s", 1_800);
    check("9h", 43_200);
    check("24h", 86_400);
    check("25h", 172_800);
    check("48h", 172_800);
}

#[test]
fn users_follow_zipf() {
    let jobs = made(&["jobs = 100000", "users = { count = 100 }"]).jobs;
    // The harmonic number of 100 is 5.187378.
    near_share("user 1", share(&jobs, |job| job.user == 1), 1.0 / 5.187_378);
    near_share("user 10", share(&jobs, |job| job.user == 10), 0.1 / 5.187_378);
    assert!(jobs.iter().all(|job| (1..=100).contains(&job.user)));
    let alike = made(&["jobs = 100000", "users = { count = 4, exponent = 0 }"]).jobs;
    near_share("user 4", share(&alike, |job| job.user == 4), 0.25);
}
