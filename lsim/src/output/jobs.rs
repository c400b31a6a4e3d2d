//! `jobs.csv`: one row per job, in the order in which jobs left.
//!
//! The first 17 columns have Batsim's names, order and states, so that tools for its `_jobs.csv` read this file. Times
//! are seconds from the workload's start. A value that does not exist is empty; a missing walltime is -1 as in Batsim.
//! Interval lists are Batsim's: node numbers, `a-b` inclusive, separated by blanks.

use limo_model::decimal::divide;
use limo_model::{Span, Time};

use super::line::{LineBuffer, narrow};
use crate::record::{Fate, JobRow};

/// Columns: those of Batsim, then those of Limo.
pub const COLUMNS: &str = "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,\
success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,\
allocated_resources,consumed_energy,metadata,consumed_energy_j,cost,user";

/// Values common to all rows.
#[derive(Debug)]
pub struct Rows {
    start: Time,
    /// The text `,workload_name,profile,`. A trace has no profiles, so the second column is empty.
    workload: Vec<u8>,
}

impl Rows {
    pub fn new(start: Time, workload: &str) -> Self {
        let mut line = LineBuffer::default();
        line.comma();
        line.text(workload);
        line.raw(b",,");
        Self { start, workload: line.bytes().to_vec() }
    }

    /// Writes one row, without its line break.
    pub fn write(&self, line: &mut LineBuffer, job: &JobRow<'_>) {
        line.signed(job.number);
        line.raw(&self.workload);
        line.thousandths((job.submit - self.start).ms());
        line.comma();
        line.unsigned(u64::from(job.processors));
        line.comma();
        line.thousandths(job.walltime.map_or(-1_000, Span::ms));
        line.raw(state(job));
        self.times(line, job);
        intervals(line, job.allocated);
        line.comma();
        let energy_from = line.len();
        if job.start.is_some() {
            line.thousandths(job.energy.mj());
        }
        let energy = line.len() - energy_from;
        line.raw(b",,");
        line.again(energy_from, energy);
        line.comma();
        if let Some(cost) = job.cost {
            line.millionths(cost.micro());
        }
        line.comma();
        line.signed(i64::from(job.user));
    }

    /// Writes the columns from `starting_time` to `stretch`, with the comma after them.
    fn times(&self, line: &mut LineBuffer, job: &JobRow<'_>) {
        let Some(start) = job.start else {
            line.raw(b",,,,,,");
            return;
        };
        line.thousandths((start - self.start).ms());
        line.comma();
        let Some(end) = job.end else {
            line.raw(b",,");
            line.thousandths((start - job.submit).ms());
            line.raw(b",,,");
            return;
        };
        let (execution, turnaround) = ((end - start).ms(), (end - job.submit).ms());
        line.thousandths(execution);
        line.comma();
        line.thousandths((end - self.start).ms());
        line.comma();
        line.thousandths((start - job.submit).ms());
        line.comma();
        line.thousandths(turnaround);
        line.comma();
        if execution > 0 {
            line.millionths(stretch(turnaround, execution));
        }
        line.comma();
    }
}

/// Returns `,success,final_state,` in Batsim's words.
fn state(job: &JobRow<'_>) -> &'static [u8] {
    match (job.fate, job.start) {
        (Fate::Completed, _) => b",1,COMPLETED_SUCCESSFULLY,",
        (Fate::Killed, _) => b",0,COMPLETED_WALLTIME_REACHED,",
        (Fate::Refused, _) => b",0,REJECTED,",
        (Fate::Unfinished, Some(_)) => b",0,RUNNING,",
        (Fate::Unfinished, None) => b",0,SUBMITTED,",
    }
}

/// Returns turnaround by execution time in millionths, rounded; `execution` is positive.
fn stretch(turnaround: i64, execution: i64) -> i64 {
    match turnaround.checked_mul(1_000_000) {
        // The common case avoids a 128-bit division, which costs as much as the rest of the row.
        Some(scaled) if scaled >= 0 => scaled / execution + i64::from(scaled % execution >= execution - execution / 2),
        _ => narrow(divide(i128::from(turnaround) * 1_000_000, i128::from(execution))),
    }
}

fn intervals(line: &mut LineBuffer, intervals: &[(u32, u32)]) {
    for (at, &(first, last)) in intervals.iter().enumerate() {
        if at > 0 {
            line.byte(b' ');
        }
        line.unsigned(u64::from(first));
        if last > first {
            line.byte(b'-');
            line.unsigned(u64::from(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Energy, Money};

    fn secs(secs: i64) -> Time {
        Time::from_unix_ms(1_000_000 + secs * 1_000)
    }

    fn job(allocated: &[(u32, u32)]) -> JobRow<'_> {
        JobRow {
            number: 7,
            submit: secs(10),
            processors: 10,
            walltime: Some(Span::from_secs(100)),
            user: 3,
            fate: Fate::Completed,
            start: Some(secs(40)),
            end: Some(secs(85) + Span::from_ms(500)),
            allocated,
            energy: Energy::from_mj(86_786_250),
            cost: Some(Money::from_micro(1_929)),
        }
    }

    fn check(job: &JobRow<'_>, expected: &str) {
        let mut line = LineBuffer::default();
        Rows::new(secs(0), "kth.swf").write(&mut line, job);
        let row = String::from_utf8(line.bytes().to_vec()).expect("text");
        assert_eq!(row, expected);
        assert_eq!(row.split(',').count(), COLUMNS.split(',').count());
    }

    #[test]
    fn a_job_that_completed() {
        // 75.5 s of turnaround by 45.5 s of execution: 1.6593406...
        check(
            &job(&[(0, 5), (8, 8), (10, 12)]),
            "7,kth.swf,,10,10,100,1,COMPLETED_SUCCESSFULLY,40,45.5,85.5,30,75.5,1.659341,0-5 8 10-12,86786.25,,86786.25,0.001929,3",
        );
    }

    #[test]
    fn a_job_that_was_killed_and_one_without_a_walltime_or_price() {
        let killed = JobRow { fate: Fate::Killed, walltime: None, cost: None, ..job(&[(4, 13)]) };
        check(
            &killed,
            "7,kth.swf,,10,10,-1,0,COMPLETED_WALLTIME_REACHED,40,45.5,85.5,30,75.5,1.659341,4-13,86786.25,,86786.25,,3",
        );
    }

    #[test]
    fn jobs_that_did_not_end() {
        let never = JobRow { start: None, end: None, energy: Energy::ZERO, cost: None, ..job(&[]) };
        check(&JobRow { fate: Fate::Refused, ..never }, "7,kth.swf,,10,10,100,0,REJECTED,,,,,,,,,,,,3");
        check(&JobRow { fate: Fate::Unfinished, ..never }, "7,kth.swf,,10,10,100,0,SUBMITTED,,,,,,,,,,,,3");
        let running = JobRow { fate: Fate::Unfinished, end: None, cost: None, ..job(&[(0, 9)]) };
        check(&running, "7,kth.swf,,10,10,100,0,RUNNING,40,,,30,,,0-9,86786.25,,86786.25,,3");
    }

    #[test]
    fn stretch_is_rounded_and_survives_the_ends_of_the_range() {
        assert_eq!(stretch(3, 2), 1_500_000);
        assert_eq!(stretch(2, 3), 666_667);
        assert_eq!(stretch(1, 3), 333_333);
        // 1/64,000,000 is 0.015625 millionths. 33/64 of a millionth rounds up, 31/64 rounds down.
        assert_eq!((stretch(33, 64_000_000), stretch(32, 64_000_000), stretch(31, 64_000_000)), (1, 1, 0));
        assert_eq!(stretch(i64::MAX, 1_000_000), i64::MAX);
    }
}
