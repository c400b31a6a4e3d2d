//! What the end of a job returns, beside its time: without the job, which is elsewhere in memory.

use limo_model::{JobId, Part, Power, width};

use super::Index;
use crate::state::{Assignment, Job};

/// The resources that the end of a job returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    pub power: Power,
    /// Nodes that become free of jobs: the class, the unit and the number. Set if the job has whole units of nodes of
    /// one class.
    pub whole: Option<(usize, u16, u32)>,
    /// Positions of these nodes in their class, if they are one run.
    pub run: Option<(u32, u32)>,
    /// True if the job is stopped at that time, in case it has not ended by itself.
    pub is_sure: bool,
    /// The part of a job on one unit.
    pub sole: Option<Sole>,
}

/// A job on one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sole {
    pub part: Part,
    /// True if no other job is on its node.
    pub alone: bool,
    /// Expected draw now.
    pub draw: Power,
}

impl Index {
    pub(super) fn freed_by(&self, job: &Job, assignment: &Assignment) -> Freed {
        let first = assignment.placement.first();
        let class = first.and_then(|part| self.classes.place_of(part.unit.node)).map(|(class, _)| class);
        let whole = first.zip(class).filter(|(first, class)| {
            let unit = first.unit.unit;
            let units = &self.classes.class(*class).units;
            let cores = units.get(usize::from(unit)).map(|unit| unit.cores);
            // A job that is alone on its nodes has all of their units.
            let all = assignment.alone && units.len() == 1;
            (all || !assignment.alone)
                && assignment.placement.iter().all(|part| {
                    let at = self.classes.place_of(part.unit.node).map(|(class, _)| class);
                    (all || Some(part.cores) == cores) && part.unit.unit == unit && at == Some(*class)
                })
        });
        Freed {
            power: assignment.estimate.power,
            whole: whole.map(|(first, class)| (class, first.unit.unit, width(&assignment.placement))),
            run: first
                .filter(|_| assignment.placement.len() == 1)
                .and_then(|part| self.classes.run_of(part))
                .map(|(_, run)| (run.start, run.end)),
            is_sure: job.request.time_limit.is_some_and(|limit| limit <= assignment.estimate.duration),
            sole: assignment.sole_part().map(|part| Sole {
                part: *part,
                alone: assignment.alone,
                draw: assignment.draw,
            }),
        }
    }

    /// Notes the changed draw of an active job.
    pub fn note_draw(&mut self, id: JobId, job: &Job) {
        let freed = job.estimated_end().and_then(|end| self.ends.get_mut(&(end, id)));
        if let Some((sole, assignment)) = freed.and_then(|freed| freed.sole.as_mut()).zip(job.assignment()) {
            sole.draw = assignment.draw;
        }
    }
}
