//! Compares answers of `lq`, `lconf` and the report with the journal. Two users work with arrays, failures and
//! quotas. The prices, limits, budgets and policies of their cluster change, and its nodes and master die. Each
//! answer must have been true at a time between its question and its end.
//!
//! `LIMO_STATEMENTS` is the duration, such as `2h`; by default 30 s. `LIMO_SEED` repeats the choices of a run.

mod claims;
mod life;
mod looks;
mod reasons;
mod site;
mod timeline;
mod totals;
mod world;

use std::thread;
use std::time::{Duration, Instant};

use limo_model::Span;
use limo_tests::{Dice, Person};

use claims::Verdict;
use life::Life;
use looks::Looks;
use world::World;

#[test]
fn no_answer_contradicts_the_journal() {
    let length = std::env::var("LIMO_STATEMENTS").unwrap_or_else(|_| "30s".into());
    let length: Span = length.parse().expect("LIMO_STATEMENTS is a span such as 2h");
    let length = Duration::from_millis(u64::try_from(length.ms()).expect("a span above zero"));
    let dice = Dice::from_env("LIMO_SEED");
    let (cluster, _files) = site::start();
    let operator = cluster.submitter().clone();
    let Some(user) = Person::of(&operator, "daemon", &["lrun", "lq"]) else { return };
    let state_dir = cluster.state_dir().to_owned();
    let looks = Looks::new(operator.clone(), length);
    let begin = Instant::now();
    let mut life = Life::new(cluster, user, dice, &looks);
    thread::scope(|scope| {
        let over = looks.ending();
        scope.spawn(|| looks.go_on());
        while begin.elapsed() < length {
            life.one();
        }
        life.end();
        drop(over);
    });
    looks.all_once();
    let world = World::read(&state_dir, std::mem::take(&mut life.kills));
    let mut verdict = Verdict::new(&world);
    for look in looks.taken() {
        verdict.check(&look);
    }
    totals::check(&mut verdict, &operator, &state_dir);
    verdict.pass(|| life.backup());
}
