//! Honest work during attacks and random failures. Apart from wipes and restores, no honest job is lost, doubled or
//! ended early, no data of another user is visible, and the master stays small and fast.
//!
//! `LIMO_ADVERSITY` is the duration, such as `1h`; by default 75 s. `LIMO_SEED` repeats the choices of a run.

mod failures;
mod honest;
mod hostile;
mod probes;
mod site;
mod verdict;

use std::thread;
use std::time::{Duration, Instant};

use limo_model::Span;
use limo_tests::{Dice, Person};

use failures::Failures;
use honest::Work;
use probes::Calm;

/// Last part of the run, in which the state is restored and wiped. Before it, no honest job may notice a failure.
const UNSAFE: Duration = Duration::from_secs(30);

#[test]
fn honest_work_survives_hostile_users_and_failures() {
    let length = std::env::var("LIMO_ADVERSITY").unwrap_or_else(|_| "75s".into());
    let length: Span = length.parse().expect("LIMO_ADVERSITY is a span such as 1h");
    let length = Duration::from_millis(u64::try_from(length.ms()).expect("a span above zero"));
    let mut dice = Dice::from_env("LIMO_SEED");
    let Some(site) = site::Site::start(length) else { return };
    let (submitter, mut cluster) = (site.submitter(), site.cluster);
    let Some(honest) = Person::of(&submitter, "daemon", &["lrun", "lq", "lconf"]) else { return };
    let Some(enemy) = Person::of(&submitter, "games", &["lrun", "lq", "limo-hostile", "limo-stranger"]) else { return };
    site::limit(&cluster, &enemy);
    let (work, calm) = (Work::new(honest.clone()), Calm::new());
    let enemy_dice = Dice::new(dice.next_u64());
    let begin = Instant::now();
    let mut failures = Failures::new(&mut cluster, &site.disk, &enemy, &calm);
    thread::scope(|scope| {
        let ending = work.ending();
        work.start(scope);
        scope.spawn(|| probes::run(&honest, &calm, &work));
        let (enemy, work) = (&enemy, &work);
        scope.spawn(move || hostile::run(enemy, enemy_dice, work));
        while begin.elapsed() < length.saturating_sub(UNSAFE) {
            failures.one(&mut dice, work);
        }
        verdict::jobs(work);
        failures.restore(work);
        verdict::jobs(work);
        failures.wipe(work);
        drop(ending);
    });
    verdict::check(failures.peak_master_bytes(), &work, &calm);
    println!("{} passed after {:.0?}", failures.summary(), begin.elapsed());
}
