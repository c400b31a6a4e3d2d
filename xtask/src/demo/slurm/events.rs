//! The record of a run under Slurm, from the output of its jobs and its power programs: the draw of the machines, and
//! the jobs. Pure.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use limo_model::{Curve, JobId, Outcome, Power, Time};

use super::job::{Load, index_of};
use crate::demo::pace::Pace;
use crate::demo::record::{JobRecord, Record};

/// A submitted job.
#[derive(Debug, Clone)]
pub struct Submitted {
    pub application: String,
    /// Time of submission, in wall time.
    pub at: Time,
    /// Loads of the job, one for each machine.
    pub loads: Vec<Load>,
}

/// Output of a job about itself, in wall time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Course {
    /// Index of the job's machine, and time of its beginning.
    pub began: Option<(usize, Time)>,
    /// Exit code, and time of the end.
    pub ended: Option<(u8, Time)>,
}

/// A machine that is switched off, or switched on again and boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    pub at: Time,
    pub machine: usize,
    pub is_on: bool,
}

/// Reads the output of a job, in which the lines `begin NODE MS` and `end CODE MS` count.
///
/// # Errors
/// If one of these lines is invalid or repeated, or an end has no begin.
pub fn course(text: &str, machines: usize) -> Result<Course> {
    let mut course = Course::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["begin", node, ms] => {
                ensure!(course.began.is_none(), "the job began twice: `{line}`");
                let node = index_of(node, machines).with_context(|| format!("in `{line}`"))?;
                course.began = Some((node, time(ms, line)?));
            }
            ["end", code, ms] => {
                ensure!(course.began.is_some() && course.ended.is_none(), "the job cannot end here: `{line}`");
                let code = code.parse().with_context(|| format!("`{code}` in `{line}` is not an exit code"))?;
                course.ended = Some((code, time(ms, line)?));
            }
            ["begin" | "end", ..] => bail!("`{line}` is not `begin NODE MS` or `end CODE MS`"),
            _ => {}
        }
    }
    Ok(course)
}

/// Reads the log of the power programs: lines `MS off NODE`, `MS on NODE` when a machine begins to boot, and `MS up
/// NODE` when it has booted.
///
/// # Errors
/// If a line has another form.
pub fn switches(log: &str, machines: usize) -> Result<Vec<Switch>> {
    let mut switches = Vec::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [ms, what, node] = words[..] else { bail!("`{line}` is not `MS off|on|up NODE`") };
        let (at, machine) = (time(ms, line)?, index_of(node, machines).with_context(|| format!("in `{line}`"))?);
        match what {
            "off" | "on" => switches.push(Switch { at, machine, is_on: what == "on" }),
            "up" => {}
            _ => bail!("`{what}` in `{line}` is not off, on or up"),
        }
    }
    Ok(switches)
}

fn time(ms: &str, line: &str) -> Result<Time> {
    Ok(Time::from_unix_ms(ms.parse().with_context(|| format!("`{ms}` in `{line}` is not a time in ms"))?))
}

/// Makes the record of a run in times of the hour. All machines are on at its beginning. A machine draws nothing while
/// it is off, and its idle draw while it is on or boots, plus the power of the job that runs on it.
///
/// # Errors
/// Never, if all machines of the jobs exist.
pub fn record(idle: &[Power], jobs: &[(Submitted, Course)], switches: &[Switch], pace: Pace) -> Result<Record> {
    let mut changes: Vec<(Time, Power)> = vec![(pace.begin, idle.iter().copied().sum())];
    let mut on = vec![true; idle.len()];
    let mut in_order = switches.to_vec();
    in_order.sort_by_key(|switch| switch.at);
    for switch in in_order {
        let (Some(on), Some(idle)) = (on.get_mut(switch.machine), idle.get(switch.machine)) else {
            bail!("there is no machine {}", switch.machine);
        };
        if std::mem::replace(on, switch.is_on) != switch.is_on {
            changes.push((switch.at, if switch.is_on { *idle } else { Power::ZERO - *idle }));
        }
    }
    let mut records = BTreeMap::new();
    for (number, (job, course)) in (1..).zip(jobs) {
        if let (Some((machine, began)), Some((_, ended))) = (course.began, course.ended) {
            let load = job.loads.get(machine).with_context(|| format!("there is no machine {machine}"))?;
            changes.extend([(began, load.power), (ended, Power::ZERO - load.power)]);
        }
        let record = JobRecord {
            application: job.application.clone(),
            submitted: pace.of_hour(job.at),
            started: course.began.map(|(_, at)| pace.of_hour(at)),
            ended: course.ended.map(|(code, at)| (pace.of_hour(at), Outcome::Exited(code))),
        };
        records.insert(JobId(number), record);
    }
    Ok(Record { draw: sum(changes, pace)?, jobs: records })
}

/// Adds up changes of the draw in wall time.
fn sum(mut changes: Vec<(Time, Power)>, pace: Pace) -> Result<Curve<Power>> {
    changes.sort_by_key(|(at, _)| *at);
    let mut steps: Vec<(Time, Power)> = Vec::new();
    let mut draw = Power::ZERO;
    for (at, change) in changes {
        draw += change;
        let at = pace.of_hour(at);
        match steps.last_mut() {
            Some((last, value)) if *last == at => *value = draw,
            _ => steps.push((at, draw)),
        }
    }
    Ok(Curve::new(steps, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::Span;

    /// Returns the wall time `ms` milliseconds after the beginning of the hour.
    fn wall(ms: i64) -> Time {
        Time::from_unix_ms(1_000_000 + ms)
    }

    fn watts(watts: i64) -> Power {
        Power::from_watts(watts)
    }

    fn job(at: i64, course: Course) -> (Submitted, Course) {
        // The job draws 30 W on the first machine and 20 W on the second.
        let loads = [30, 20].map(|power| Load { duration: Span::from_ms(5), power: watts(power) }).to_vec();
        (Submitted { application: "cg".into(), at: wall(at), loads }, course)
    }

    fn ran(machine: usize, began: i64, ended: i64) -> Course {
        Course { began: Some((machine, wall(began))), ended: Some((0, wall(ended))) }
    }

    fn switch(at: i64, machine: usize, is_on: bool) -> Switch {
        Switch { at: wall(at), machine, is_on }
    }

    #[test]
    fn machines_draw_idle_nothing_while_off_and_what_their_jobs_take() {
        let jobs = [job(0, ran(0, 10, 50)), job(0, ran(1, 20, 60)), job(5, ran(0, 50, 90)), job(290, ran(1, 300, 350))];
        // The second machine goes off at 100, is ordered to boot at 200, and is twice ordered to go off.
        let switches = [switch(100, 1, false), switch(101, 1, false), switch(200, 1, true), switch(400, 0, false)];
        let pace = Pace { begin: wall(0), factor: 10 };
        let record = record(&[watts(10), watts(5)], &jobs, &switches, pace).expect("a record");
        let expected = [
            (0, 15),
            (100, 45),
            (200, 65),
            // A job of 30 W ends, and the next one begins at the same time.
            (500, 65),
            (600, 45),
            (900, 15),
            (1_000, 10),
            (2_000, 15),
            (3_000, 35),
            (3_500, 15),
            (4_000, 5),
        ];
        assert_eq!(record.draw.steps(), expected.map(|(ms, draw)| (Time::from_unix_ms(ms), watts(draw))));
        let third = &record.jobs[&JobId(3)];
        assert_eq!((third.submitted, third.started), (Time::from_unix_ms(50), Some(Time::from_unix_ms(500))));
        assert_eq!(third.ended, Some((Time::from_unix_ms(900), Outcome::Exited(0))));
        assert!(record.mishaps().is_empty());
    }

    #[test]
    fn jobs_that_did_not_end_well_are_named() {
        let failed = Course { ended: Some((7, wall(20))), ..ran(0, 10, 20) };
        let lost = Course { ended: None, ..ran(0, 30, 40) };
        let jobs = [job(0, ran(1, 10, 20)), job(0, failed), job(0, lost), job(0, Course::default())];
        let record = record(&[watts(10), watts(5)], &jobs, &[], Pace { begin: wall(0), factor: 10 }).expect("a record");
        let expected =
            ["job 2 (cg) ended otherwise: Exited(7)", "job 3 (cg) has not ended", "job 4 (cg) was never started"];
        assert_eq!(record.mishaps(), expected);
    }

    #[test]
    fn jobs_say_when_they_ran_and_where() {
        let text = "begin n2 1000\ncg begins, for 5s\ncg ends: 0 bytes\nend 0 6005\n";
        let at = Time::from_unix_ms;
        let expected = Course { began: Some((1, at(1_000))), ended: Some((0, at(6_005))) };
        assert_eq!(course(text, 4).expect("a course"), expected);
        assert_eq!(course("slurmstepd: error", 4).expect("a course"), Course::default());
        let refused = |text| format!("{:#}", course(text, 4).expect_err("refused"));
        assert_eq!(refused("begin n5 1"), "in `begin n5 1`: `n5` is not one of the nodes n1 to n4");
        assert_eq!(refused("begin n1"), "`begin n1` is not `begin NODE MS` or `end CODE MS`");
        assert_eq!(refused("begin n1 1\nbegin n1 2"), "the job began twice: `begin n1 2`");
        assert_eq!(refused("end 0 1"), "the job cannot end here: `end 0 1`");
        assert!(refused("begin n1 1\nend x 2").starts_with("`x` in `end x 2` is not an exit code"));
        assert!(refused("begin n1 1s").starts_with("`1s` in `begin n1 1s` is not a time in ms"));
    }

    #[test]
    fn power_programs_say_which_machine_goes_off_and_on() {
        let log = "1000 off n4\n2000 on n4\n8000 up n4\n";
        let at = Time::from_unix_ms;
        let expected = [(1_000, false), (2_000, true)].map(|(ms, is_on)| Switch { at: at(ms), machine: 3, is_on });
        assert_eq!(switches(log, 4).expect("switches"), expected);
        let refused = |log| format!("{:#}", switches(log, 4).expect_err("refused"));
        assert_eq!(refused("1000 off"), "`1000 off` is not `MS off|on|up NODE`");
        assert_eq!(refused("1000 of n1"), "`of` in `1000 of n1` is not off, on or up");
        assert_eq!(refused("1000 off n9"), "in `1000 off n9`: `n9` is not one of the nodes n1 to n4");
        assert!(refused("now off n1").starts_with("`now` in `now off n1` is not a time in ms"));
    }
}
