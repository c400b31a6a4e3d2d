//! Final checks.

use limo_tests::until;
use serde_json::Value;

use crate::honest::{Accepted, Entry, LIMIT, LIMIT_SLACK, Work};
use crate::probes::Calm;
use crate::site::JOB_W;

/// Largest allowed peak memory of a master, in bytes.
const MASTER_BYTES: u64 = 512 << 20;

/// Tolerated relative difference between the energy of all jobs and their draw over their times.
const ENERGY_PART: f64 = 0.01;

/// Longest time from a process's last line to the notice of its end, on a machine under attack. A job may be charged
/// for this time.
const ENERGY_END_S: f64 = 0.25;

/// Compares the accepted jobs with the reports of the working master. Jobs may still be running.
pub fn jobs(work: &Work) {
    let (own, era) = (&work.person.submitter, work.era());
    let accepted: Vec<Accepted> = work.accepted().into_iter().filter(|job| job.era == era).collect();
    for some in accepted.chunks(200) {
        let numbers: Vec<u64> = some.iter().map(|job| job.number).collect();
        let reports = own.show(&numbers);
        // The ledger is read afterwards, because it then contains all jobs that were over before.
        let ledger = work.ledger();
        for (job, report) in some.iter().zip(reports) {
            let none = Vec::new();
            match one(job, &report, ledger.get(&job.token).unwrap_or(&none)) {
                Ok(Some((charged, drawn))) => work.measured(charged, drawn),
                Ok(None) => {}
                Err(fault) => work.fault(format!("{}: {fault}: {report}", job.token)),
            }
        }
    }
}

/// Checks the end of the run, over all states of the master. `peak` is the peak memory of a master, in bytes.
pub fn check(peak: u64, work: &Work, calm: &Calm) {
    let own = &work.person.submitter;
    until("honest jobs are over", || own.jobs().iter().all(|job| job["user"] != "daemon").then_some(()));
    jobs(work);
    for (token, entries) in &work.ledger() {
        if entries.iter().any(|entry| entry.what == "doubled") {
            work.fault(format!("{token} ran twice at once"));
        }
    }
    for (token, entries) in &work.ticks() {
        let lived = entries.last().map_or(0.0, |last| last.up - entries[0].up);
        if lived > (LIMIT + LIMIT_SLACK).as_secs_f64() {
            work.fault(format!("{token} lived {lived:.1} s with a limit of {LIMIT:?}"));
        }
    }
    for job in work.accepted() {
        let output = own.read(format!("out.{}", job.token));
        if output.lines().any(|line| line != job.token) {
            work.fault(format!("{} has another's output: {output:?}", job.token));
        }
    }
    if peak > MASTER_BYTES {
        work.fault(format!("a master had {} MiB in memory", peak >> 20));
    }
    let (counts, (probes, slowest)) = (work.counts(), calm.seen());
    let off = counts.charged_j / counts.drawn_j - 1.0;
    if off.abs() > ENERGY_PART {
        work.fault(format!("all jobs were charged {:.1} J and drew {:.1} J", counts.charged_j, counts.drawn_j));
    }
    let faults = work.faults();
    println!(
        "{} detached jobs accepted ({} with their energy compared: {:+.2} %), {} attached jobs whole, {} ended by their limit; \
         {probes} probes, the slowest took {slowest:?}; largest master {} MiB",
        work.accepted().len(),
        counts.measured,
        off * 100.0,
        counts.attached,
        counts.limited,
        peak >> 20
    );
    assert!(faults.is_empty(), "{} faults:\n  {}", faults.len(), faults.join("\n  "));
    let least = [counts.measured, counts.attached, counts.limited, probes].into_iter().min();
    assert!(least > Some(0), "something was not tested at all");
}

/// Checks one job. Returns its charged and its drawn energy, in joules, if they can be compared.
fn one(job: &Accepted, report: &Value, entries: &[Entry]) -> Result<Option<(f64, f64)>, String> {
    match report["state"].as_str() {
        Some("completed") if report["exit_code"] == 0 => {}
        Some("waiting" | "running" | "starting" | "held") => return Ok(None),
        _ => return Err("was accepted and not completed".into()),
    }
    let times = |what: &str| -> Vec<f64> { entries.iter().filter(|e| e.what == what).map(|e| e.up).collect() };
    let (born, begins, ends) = (times("born"), times("begin"), times("end"));
    let ([born], [begin], [end]) = (&born[..], &begins[..], &ends[..]) else {
        // The end of a requeued attempt may have been missed.
        let requeued = begins.len() > 1 && !ends.is_empty();
        return if requeued { Ok(None) } else { Err(format!("began {} times, ended {}", begins.len(), ends.len())) };
    };
    if end - begin < job.seconds {
        return Err(format!("ended after {:.1} s of {}", end - begin, job.seconds));
    }
    let energy = report["energy_j"].as_f64().ok_or("has no energy")?;
    let expected = JOB_W * (end - born);
    if (energy - expected).abs() > ENERGY_PART * expected + JOB_W * ENERGY_END_S {
        return Err(format!("drew {expected} J by its own times"));
    }
    Ok(Some((energy, expected)))
}
