//! Current wait reasons. A round gives each reason once. These functions omit outdated parts of a reason, and add
//! missing reasons, without a change of the state.

use limo_model::{JobId, Power, Time, Wait};

use super::Core;
use crate::apply::obstacle;
use crate::state::{Array, Node, Phase};

impl Core {
    /// Counts the waiting jobs; arrays count by their tasks, including those that are not jobs yet.
    pub fn waiting_tasks(&self) -> u64 {
        let state = &self.cluster.state;
        let blocked = state.arrays.keys().filter(|own| state.blocked.contains(**own)).count();
        let coming: u64 = state.arrays.values().map(|array| u64::from(array.left())).sum();
        (self.waiting() - blocked) as u64 + coming
    }

    /// Returns the wait reason of a job; `None` if it does not wait or has no reason.
    pub fn reason(&self, id: JobId, now: Time) -> Option<Wait> {
        let Phase::Waiting(told) = &self.job(id)?.phase else { return None };
        if let Some(array) = self.array(id) {
            if let Some(limit) = self.reached_limit(id, array) {
                return Some(Wait::ArrayLimit { limit });
            }
            // A reason of the array is for tasks that are not jobs yet.
            if array.left() == 0 {
                return self.reason(self.waiting_task(id, array)?, now);
            }
        }
        if let Some(step) = self.job(id)?.request.step {
            return Some(Wait::Step { job: step.of });
        }
        match told {
            Some(wait) => Some(self.still(now, id, wait.clone())),
            None if self.cluster.state.blocked.contains(id) => self.blocked_by(now, id),
            // A round gives a reason to all jobs that it considers.
            None => Some(Wait::Depth { depth: self.cluster.state.settings.options.depth }),
        }
    }

    /// Returns a reason of an earlier round without its outdated parts.
    pub fn still(&self, now: Time, id: JobId, wait: Wait) -> Wait {
        let ahead = |until: Option<Time>| until.filter(|until| *until > now);
        if matches!(wait, Wait::Resources { .. } | Wait::NoNode | Wait::Owner { .. })
            && let Some(wait) = self.view(now).waits_for_owner(id)
        {
            return wait;
        }
        match wait {
            Wait::Band { needs, until: None, .. } if self.never_leaves(now, needs) => {
                Wait::Never { needs, most: self.most_left(now) }
            }
            Wait::Band { needs, left, until } => Wait::Band { needs, left, until: ahead(until) },
            Wait::Resources { .. } if self.has_no_node(now, id) => Wait::NoNode,
            Wait::Resources { .. } if self.has_room(id) => self.behind_the_first(id),
            Wait::Resources { until } => Wait::Resources { until: ahead(until) },
            Wait::Budget { needs, left, until } => Wait::Budget { needs, left, until: ahead(until) },
            // Suspended jobs continue before others start.
            Wait::Behind { job, until }
                if self.job(job).is_some_and(|job| matches!(job.phase, Phase::Waiting(_) | Phase::Suspended(..))) =>
            {
                Wait::Behind { job, until: ahead(until) }
            }
            // The job of the reason runs or is over: now the first waiting job must not be delayed.
            Wait::Behind { .. } => self.behind_the_first(id),
            Wait::Reservation { reservation, .. } => {
                let from =
                    self.cluster.state.reservations.get(&reservation).map(|of| of.from).filter(|from| *from > now);
                Wait::Reservation { reservation, from }
            }
            Wait::Reserved { reservation, .. } if !self.cluster.state.reservations.contains_key(&reservation) => {
                Wait::Resources { until: None }
            }
            Wait::Group { .. } => self.view(now).waits_for_group(id).unwrap_or(Wait::Resources { until: None }),
            Wait::Quota(_) | Wait::Account { .. } | Wait::Qos { .. } | Wait::Licence { .. } => {
                self.blocked_by(now, id).unwrap_or(wait)
            }
            Wait::Sooner { until } if until <= now => Wait::Resources { until: None },
            other => other,
        }
    }

    /// Returns what keeps a job out of the queue, or the last task of an array.
    fn blocked_by(&self, now: Time, id: JobId) -> Option<Wait> {
        let last_task = || Some(Array::job_at(id, self.array(id)?.made.checked_sub(1)?));
        obstacle(&self.cluster, now, id).or_else(|| obstacle(&self.cluster, now, last_task()?))
    }

    /// Returns true if every node that the job names is unreachable or drained. For a job that names none, this
    /// concerns every node.
    fn has_no_node(&self, now: Time, id: JobId) -> bool {
        let Some(job) = self.job(id) else { return false };
        let is_there = |node: &Node| node.is_available(now);
        match job.request.include.as_slice() {
            [] => !self.nodes().iter().any(is_there),
            names => !names.iter().filter_map(|name| self.node_named(name)).any(is_there),
        }
    }

    /// Returns true if the last round found enough nodes for the job; false if it did not count them.
    fn has_room(&self, id: JobId) -> bool {
        if self.cluster.parts.takes_whole_units() || !self.cluster.index.capped.is_empty() {
            return false;
        }
        let shape = self.job(id).and_then(|job| Some((self.cluster.index.shapes.find(&job.request)?, job)));
        shape.is_some_and(|(shape, job)| !shape.asks_each && shape.room() >= job.request.nodes.get())
    }

    fn behind_the_first(&self, id: JobId) -> Wait {
        match self.cluster.state.queue.iter().next().filter(|first| *first != id) {
            Some(job) => Wait::Behind { job, until: None },
            None => Wait::Resources { until: None },
        }
    }

    /// Returns the first waiting task of an array that is a job.
    fn waiting_task(&self, own: JobId, array: &Array) -> Option<JobId> {
        let numbers = array.numbers(own, 0);
        let tasks = self.cluster.state.jobs.iter_from(*numbers.start());
        tasks.take_while(|(id, _)| numbers.contains(id)).find_map(|(id, task)| task.is_waiting().then_some(id))
    }

    /// Returns the limit of an array if it has so many running tasks, and no task waits as a job.
    fn reached_limit(&self, id: JobId, array: &Array) -> Option<u32> {
        let limit = array.tasks.limit()?.get();
        let is_reached = array.left() > 0 && array.waiting == 0 && array.live() >= limit;
        (is_reached && !self.cluster.state.blocked.contains(id)).then_some(limit)
    }

    /// Returns the draw without jobs: the idle draw, or the measured one if that is lower. It is zero if nodes may
    /// sleep.
    fn floor(&self) -> Power {
        match self.cluster.parts.powers_off() {
            false => self.idle().min(self.cluster.state.sums.draw),
            true => Power::ZERO,
        }
    }

    /// Returns the highest power that the limits leave for jobs, from now on.
    fn most_left(&self, now: Time) -> Power {
        let limits = &self.cluster.state.settings.limits;
        let later = limits.bands(now).map(|(_, band)| band.high());
        self.left_of(later.fold(limits.band(now).high(), Power::max))
    }

    fn left_of(&self, high: Power) -> Power {
        if high.is_unlimited() { high } else { (high - self.floor()).at_least_zero() }
    }

    /// Returns true if no known limit ever leaves so much power.
    fn never_leaves(&self, now: Time, needs: Power) -> bool {
        let (parts, limits) = (self.cluster.parts, &self.cluster.state.settings.limits);
        let leaves = |high: Power| needs <= self.left_of(high);
        parts.heeds_upper_limit()
            // Algorithm 3.3 of limo-2018 starts a job below the lower limit, regardless of the upper one.
            && (parts.keeps_upper_limit() || parts.keeps_budget())
            && !leaves(limits.band(now).high())
            && !limits.bands(now).any(|(_, band)| leaves(band.high()))
    }
}
