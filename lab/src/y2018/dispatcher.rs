//! The published dispatcher: visits the times of the calendar, ends and starts jobs, measures the draw, and moves the power of
//! running jobs under DynShare (PROGRAM.md, sections 2, 3 and 6).

use super::calendar::{Calendar, CalendarEvent, Visit};
use super::collections::Collections;
use super::job::Job;
use super::meter::{self, NodeJobs};
use super::planner::{Believed, Discipline, Planner, Start};
use super::resources::{FreeNodes, NodeList};
use super::shares::{FullPace, RunningPace, Shares};
use super::{JobRecord, JobSchedule, Parameters, SimulationEnd};

/// A job that started.
#[derive(Debug)]
struct StartedJob {
    pace: RunningPace,
    /// Node of each unit.
    places: Vec<usize>,
}

/// A simulation at a visited time.
#[derive(Debug)]
pub struct Dispatcher<'d> {
    jobs: &'d [Job],
    nodes: &'d NodeList,
    discipline: Discipline,
    cap_w: i64,
    /// Allocations and slowdown factor of DynShare.
    shares: Option<(Shares, f64)>,
    now_s: i64,
    calendar: Calendar,
    collections: Collections,
    free: FreeNodes<'d>,
    is_known: Vec<bool>,
    /// By job; `None` while it waits.
    started: Vec<Option<StartedJob>>,
    waiting: usize,
    /// Jobs that run, in order of job numbers.
    running: Vec<usize>,
    on_nodes: Vec<NodeJobs>,
    draws_w: Vec<i64>,
    /// Draw of the system; `None` after a change.
    system_w: Option<i64>,
    peak_w: i64,
}

impl<'d> Dispatcher<'d> {
    pub fn new(jobs: &'d [Job], nodes: &'d NodeList, parameters: Parameters) -> Self {
        let requested_s = jobs.iter().map(|job| job.requested_s).sum();
        Self {
            jobs,
            nodes,
            discipline: parameters.discipline(),
            cap_w: parameters.admission_w(),
            shares: parameters.shared().map(|(target_w, factor)| (Shares::new(target_w), factor)),
            now_s: 0,
            calendar: Calendar::new(jobs.iter().map(|job| job.arrival_s), requested_s),
            collections: Collections::default(),
            free: nodes.idle(),
            is_known: vec![false; jobs.len()],
            started: jobs.iter().map(|_| None).collect(),
            waiting: jobs.len(),
            running: Vec::new(),
            on_nodes: vec![NodeJobs::default(); nodes.len()],
            draws_w: vec![0; nodes.len()],
            system_w: None,
            peak_w: 0,
        }
    }

    /// Simulates up to the visit after the last start.
    pub fn run(mut self) -> SimulationEnd {
        while self.waiting > 0 {
            let visit = self.calendar.advance();
            if !visit.is_some_and(|visit| self.visit(&visit)) {
                return SimulationEnd::Stuck;
            }
        }
        SimulationEnd::Done(self.schedule())
    }

    /// Returns false if the published program ends at an assertion.
    fn visit(&mut self, visit: &Visit) -> bool {
        self.now_s = visit.at_s;
        if visit.is_measured {
            self.measure();
        }
        let mut has_end = false;
        for event in &visit.events {
            if let CalendarEvent::End(job) = event {
                has_end = true;
                self.end(*job);
            }
        }
        if visit.is_measured && visit.events.is_empty() {
            // All jobs that arrived by now are known.
            return true;
        }
        self.admit();
        let could_start = |event: &CalendarEvent| match event {
            CalendarEvent::Arrival(job) => self.free.could_fit(&self.jobs[*job]),
            CalendarEvent::End(_) => false,
        };
        let is_planned = visit.is_empty() || has_end || visit.events.iter().any(could_start);
        !is_planned || self.plan()
    }

    /// Adds the jobs that arrived by now, in order of job numbers.
    fn admit(&mut self) {
        for (job, is_known) in self.is_known.iter_mut().enumerate() {
            if !*is_known && self.jobs[job].arrival_s <= self.now_s {
                *is_known = true;
                self.collections.add(job);
            }
        }
    }

    /// Starts jobs. Returns false if the published program ends at an assertion: a job has no start in its plan.
    fn plan(&mut self) -> bool {
        let waits = |job: &usize| self.is_known[*job] && self.started[*job].is_none();
        if !(0..self.jobs.len()).filter(waits).any(|job| self.free.has_total(&self.jobs[job])) {
            return true;
        }
        self.collections.merge();
        let waiting: Vec<usize> = self.collections.stable().iter().copied().filter(waits).collect();
        // All other jobs fit when no job runs.
        let needs_more = |job: &usize| self.jobs[*job].watts() > self.cap_w;
        if waiting.iter().any(needs_more) && self.planner().strands(&waiting) {
            return false;
        }
        let mut starts = self.planner().plan(&waiting);
        let place = |start: &Start| self.collections.stable().iter().position(|job| *job == start.job);
        starts.sort_by_key(place);
        let jobs: Vec<usize> = starts.iter().map(|start| start.job).collect();
        starts.into_iter().for_each(|start| self.start(start));
        jobs.into_iter().for_each(|job| self.collections.modify(job));
        true
    }

    /// Returns the planner with the jobs that it takes as running. A job whose end DynShare moved into the past leaves its
    /// resources and its power to others, except that a job whose end is before its start keeps its resources.
    fn planner(&self) -> Planner<'d> {
        let mut free = self.nodes.idle();
        let mut running = Vec::new();
        for &job in &self.running {
            let Some(StartedJob { pace, places }) = &self.started[job] else { continue };
            let is_expected = pace.end_s() > self.now_s;
            if is_expected || pace.duration_s < 0 {
                free.take(places, self.jobs[job].unit);
            }
            if is_expected {
                running.push(Believed { job, end_s: pace.end_s(), watts: pace.job_w as i64, places: places.clone() });
            }
        }
        let Self { jobs, discipline, cap_w, now_s, .. } = *self;
        Planner { jobs, discipline, cap_w, now_s, free, running }
    }

    fn start(&mut self, Start { job, places }: Start) {
        let of = &self.jobs[job];
        let full = FullPace { duration_s: of.run_s, job_w: of.watts() as f64, unit_w: of.unit_w as f64 };
        let FullPace { duration_s, job_w, unit_w } = full;
        let pace = RunningPace { start_s: self.now_s, duration_s, job_w, unit_w, full };
        self.calendar.add_end(job, pace.end_s());
        self.free.take(&places, of.unit);
        places.iter().for_each(|node| self.on_nodes[*node].add(job));
        let place = self.running.partition_point(|other| *other < job);
        self.running.insert(place, job);
        self.waiting -= 1;
        self.started[job] = Some(StartedJob { pace, places });
        self.measure_nodes_of(job);
    }

    fn end(&mut self, job: usize) {
        let Some(StartedJob { places, .. }) = &self.started[job] else { return };
        self.collections.remove(job);
        self.running.retain(|other| *other != job);
        self.free.give(places, self.jobs[job].unit);
        places.iter().for_each(|node| self.on_nodes[*node].remove(job));
        self.measure_nodes_of(job);
    }

    /// Computes the draws again after a change of a job.
    fn measure_nodes_of(&mut self, job: usize) {
        self.system_w = None;
        let Some(StartedJob { places, .. }) = &self.started[job] else { return };
        let started = &self.started;
        for &node in places {
            self.draws_w[node] = self.on_nodes[node].draw(|job| pace(started, job).unit_w);
        }
    }

    /// Notes the draw of the system. Under DynShare, limits the nodes first.
    fn measure(&mut self) {
        if let Some((shares, _)) = &mut self.shares {
            let allocations = shares.allocate(&self.draws_w).to_vec();
            for (node, allocation) in allocations.into_iter().enumerate() {
                self.limit(node, allocation);
            }
        }
        let measured_w = || meter::sum(self.running.iter().map(|job| pace(&self.started, *job).job_w));
        self.peak_w = self.peak_w.max(*self.system_w.get_or_insert_with(measured_w));
    }

    /// Divides the allocation of a node among its jobs, by their draws.
    fn limit(&mut self, node: usize, allocation_w: i64) {
        let is_slowed = |job: &usize| {
            let pace = pace(&self.started, *job);
            pace.unit_w < pace.full.unit_w
        };
        let jobs = self.on_nodes[node].by_start();
        if allocation_w < 1 || (self.draws_w[node] <= allocation_w && !jobs.iter().any(is_slowed)) {
            return;
        }
        let draw = self.draws_w[node] as f64;
        // All quotients before the first change.
        let limits = jobs.iter().map(|job| (*job, allocation_w as f64 / (draw / pace(&self.started, *job).unit_w)));
        for (job, limit_w) in limits.collect::<Vec<_>>() {
            self.set(job, (limit_w as i64).max(1));
        }
    }

    fn set(&mut self, job: usize, unit_w: i64) {
        let Some((_, factor)) = self.shares else { return };
        let Some(started) = &mut self.started[job] else { return };
        let before = started.pace;
        let Some(limited) = before.limited(unit_w, self.now_s, factor) else { return };
        started.pace = limited;
        self.calendar.remove_end(job, before.end_s());
        self.calendar.add_end(job, limited.end_s());
        if (limited.job_w, limited.duration_s) != (before.job_w, before.duration_s) {
            self.collections.modify(job);
        }
        self.measure_nodes_of(job);
    }

    fn schedule(self) -> JobSchedule {
        let records = self.started.into_iter().flatten();
        let records = records.map(|StartedJob { pace, places }| JobRecord {
            start_s: pace.start_s,
            end_s: pace.end_s(),
            is_slowed: pace.duration_s != pace.full.duration_s,
            places,
        });
        JobSchedule { records: records.collect(), peak_w: self.peak_w }
    }
}

/// Returns the pace of a job that runs.
fn pace(started: &[Option<StartedJob>], job: usize) -> &RunningPace {
    // Callers name jobs of `running` and `on_nodes`, which have only jobs that started.
    &started[job].as_ref().expect("a job that started").pace
}
