//! Generated years, checked against the recipe and the paper.

use std::collections::HashMap;
use std::fs;
use std::sync::LazyLock;

use super::*;
use crate::pool::session::Session;
use crate::pool::{PoolClock, PoolJob};

const DAY_MS: i64 = 86_400_000;

/// Sessions of the seeds 1 and 2.
static SESSIONS: [LazyLock<Sessions>; 2] =
    [LazyLock::new(|| logins::sessions(1)), LazyLock::new(|| logins::sessions(2))];

/// Counts the jobs of each day.
fn days(seed: u64) -> Vec<u32> {
    let mut days = vec![0; n::DAYS];
    let counted = jobs::jobs::<()>(seed, n::JOBS, |job| {
        days[((job.submit - n::START) / 86_400) as usize] += 1;
        Ok(())
    });
    assert_eq!(counted, Ok(()));
    days
}

#[test]
fn years_look_like_that_of_the_paper() {
    for (sessions, seed) in SESSIONS.iter().zip(1..) {
        let validation = Validation::new(&sessions.sessions, &days(seed), n::JOBS);
        assert!(validation.is_met(), "seed {seed}:\n{validation}");
    }
}

#[test]
fn sessions_do_not_overlap_and_end_at_the_closing() {
    let sessions = &*SESSIONS[0];
    let mut free: HashMap<u32, i64> = HashMap::new();
    let mut last = i64::MIN;
    for session in &sessions.sessions {
        let Session { login, logout, computer, .. } = *session;
        assert!(last <= login && login < logout, "{session:?}");
        assert!(free.insert(computer, logout).is_none_or(|free| free < login), "{session:?}: the computer is taken");
        // The groups 21 to 35 are open from 8 to 18 on five days. 1970 began on a Thursday.
        if sessions.computers.name(computer) >= b"g21".as_slice() {
            let (day, of_day) = (login / DAY_MS, login % DAY_MS);
            assert!((day + 3) % 7 < 5 && of_day >= 8 * 3_600_000, "{session:?}: closed");
            assert!(logout <= day * DAY_MS + 18 * 3_600_000, "{session:?}: open after the closing");
        }
        last = login;
    }
    assert_eq!((sessions.sessions.len(), free.len()), (1_229_820, 1_400));
}

#[test]
fn sessions_are_made_again_from_the_dumps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let sessions = &*SESSIONS[1];
    for (lines, name) in logins::dumps(&sessions.sessions, 2).iter().zip(["in", "out"]) {
        let mut text = Vec::new();
        dump(lines, sessions, &mut text).expect("memory");
        fs::write(path(name), text).expect("written");
    }
    let (again, tally) = crate::pool::logins(&path("in"), &path("out"), PoolClock::default()).expect("dumps");
    assert_eq!((tally.unmatched_logins, tally.unmatched_logouts), (1_229, 0));
    assert_eq!(tally.logins - tally.duplicate_logins, 1_229_820 + 1_229);
    assert_eq!(tally.logouts - tally.duplicate_logouts, 1_229_820);
    let share = tally.duplicate_logins as f64 / 1_231_049.0;
    assert!((share - 0.15).abs() < 0.002, "{share}");
    let named = |of: &Sessions, session: &Session| {
        let Session { login, logout, computer, user } = *session;
        (login, logout, of.computers.name(computer).to_vec(), of.users.name(user).to_vec())
    };
    let pairs = again.sessions.iter().zip(&sessions.sessions);
    assert!(pairs.clone().all(|(made, first)| named(&again, made) == named(sessions, first)), "other sessions");
    assert_eq!(pairs.len(), 1_229_820);
}

#[test]
fn a_seed_gives_one_year() {
    let jobs = |seed| {
        let mut jobs: Vec<PoolJob> = Vec::new();
        let taken = jobs::jobs::<()>(seed, 1_000, |job| {
            jobs.push(job.clone());
            Ok(())
        });
        assert_eq!(taken, Ok(()));
        jobs
    };
    let [first, second] = SESSIONS.each_ref().map(|sessions| &sessions.sessions);
    assert!(*first == logins::sessions(1).sessions && first != second);
    assert!(jobs(3) == jobs(3) && jobs(3) != jobs(4));
    assert!(jobs(3).is_sorted_by_key(|job| job.submit));
}

#[test]
fn scales() {
    let jobs = |scale| PoolYear::new(1, scale).map(|year| year.jobs);
    assert_eq!(jobs(1.0), Some(561_851));
    assert_eq!(jobs(0.01), Some(5_619));
    assert_eq!(jobs(10.68), Some(6_000_569));
    assert!([0.0, -1.0, 178.1, f64::NAN].into_iter().all(|scale| jobs(scale).is_none()));
}
