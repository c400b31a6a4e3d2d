//! The published scheduler. A pass after every event starts jobs from the front of the queue, reserves processors for
//! the first job that cannot start, and backfills behind it.
//!
//! A state machine: events in, [`Order`]s out. Times in ms from the start of the workload.

use super::counter::{Algorithm, Counter, Terms, Trial, Window};
use super::growth::Growth;
use super::intervals::{FreeIntervals, Interval, Widest};
use super::nodes::{Effect, Nodes};
use super::queue::{Queue, Request};
use super::running::{Running, RunningJob};

/// Time added to the estimated end of a job for each run of nodes that it waits for.
const SWITCHING_MS: i64 = 210_000;

/// An order to the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Start { job: u32, at: Interval },
    SwitchOff(Interval),
    SwitchOn(Interval),
    WakeAt(i64),
    AskMeter,
}

/// Variant of the scheduler.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub algorithm: Algorithm,
    /// True to switch free nodes off within the window.
    pub shutdown: bool,
    /// True for the published sign error: the draw of running jobs above the cap counts as saved until the head
    /// starts.
    pub sign_error: bool,
}

/// The scheduler; see the module.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) variant: Variant,
    pub(super) counter: Counter,
    pub(super) free: FreeIntervals,
    pub(super) growth: Growth,
    pub(super) running: Running,
    queue: Queue,
    nodes: Nodes,
    registered: bool,
    /// True if a call at the end of the window was requested, because no running job can end before it.
    pub(super) end_asked: bool,
    requests: Vec<Request>,
    /// Jobs placed in this pass.
    placed: Vec<(u32, Interval)>,
    effects: Vec<Effect>,
    /// Orders from the events; the caller removes them.
    pub orders: Vec<Order>,
}

impl Scheduler {
    /// Makes the scheduler for jobs with these requests, in order of submission.
    pub fn new(nodes: u32, variant: Variant, window: Window, requests: Vec<Request>) -> Self {
        Self {
            variant,
            counter: Counter::new(nodes, variant.algorithm, window),
            free: FreeIntervals::new(nodes),
            growth: Growth::new(nodes),
            running: Running::new(requests.len()),
            queue: Queue::new(requests.len()),
            nodes: Nodes::new(nodes),
            registered: false,
            end_asked: false,
            requests,
            placed: Vec::new(),
            effects: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Returns the number of waiting jobs.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    pub fn submit(&mut self, now: i64, job: usize) {
        if self.counter.is_budgeted() && !self.registered {
            self.registered = true;
            if now == self.counter.window.from {
                self.wake(now);
            } else {
                self.orders.push(Order::WakeAt(self.counter.window.from));
            }
        }
        self.queue.push(job, self.requests[job]);
        self.pass(now);
    }

    pub fn complete(&mut self, now: i64, job: usize) {
        if let Some(run) = self.running.remove(job) {
            self.free.release(run.at);
        }
        self.pass(now);
    }

    pub fn wake(&mut self, now: i64) {
        if now >= self.counter.window.from {
            self.orders.push(Order::AskMeter);
        }
        if now >= self.counter.window.until {
            self.pass(now);
        }
    }

    /// Takes the meter's answer: all energy since the start, in uJ.
    pub fn answer(&mut self, now: i64, measured: i128) {
        let next = self.counter.answer(now, measured);
        self.pass(now);
        self.orders.extend(next.map(Order::WakeAt));
    }

    /// Records that nodes are on or off. Does not run a pass.
    pub fn switched(&mut self, now: i64, at: Interval, on: bool) {
        self.nodes.switched(at, on, &mut self.effects);
        self.obey(now);
    }

    fn pass(&mut self, now: i64) {
        self.start_heads(now);
        if self.queue.len() > 1 {
            self.backfill(now);
        }
        let placed = std::mem::take(&mut self.placed);
        if self.variant.shutdown {
            if self.counter.window.from <= now && now < self.counter.window.until {
                self.nodes.rest(self.free.list(), &mut self.effects);
            }
            for &(job, at) in &placed {
                self.nodes.want(job, at, &mut self.effects);
            }
            self.obey(now);
        } else {
            self.orders.extend(placed.iter().map(|&(job, at)| Order::Start { job, at }));
        }
        self.placed = placed;
        self.placed.clear();
    }

    fn place(&mut self, now: i64, job: usize, at: Interval) {
        let end = now + self.requests[job].ms;
        self.queue.remove(job);
        // The caller counts jobs with 32 bits.
        self.running.add(RunningJob { end, at, job: job as u32 });
        self.placed.push((job as u32, at));
    }

    fn start_heads(&mut self, now: i64) {
        let terms = Terms { spends: self.variant.algorithm.spends(), ..Terms::default() };
        while let Some((job, request)) = self.queue.front() {
            let trial = Trial { request, start: now, free: self.free.processors() };
            if !self.counter.admits(trial, terms) {
                return;
            }
            // The take is not limited, because marks exist only during `backfill`.
            let Some(at) = self.free.take(request.processors, 0) else { return };
            self.place(now, job, at);
        }
    }

    fn backfill(&mut self, now: i64) {
        let Some((head, request)) = self.queue.front() else { return };
        self.watch_end(now);
        // Marks matter even if no job fits, because they change hints.
        let turns = self.free.list().iter().any(|free| !free.low);
        let widest = self.free.widest().unlimited;
        if !turns && self.queue.next(head + 1, |least| self.could_fit_anywhere(now, widest, least)).is_none() {
            return;
        }
        let (reserved, start) = self.reserve(now, request);
        self.free.mark(reserved, start - now);
        self.fill(now, head + 1, start);
        self.counter.reserved = 0;
        self.free.unmark();
    }

    /// Requests one call at the end of the window if no job runs: no other event would come before it.
    fn watch_end(&mut self, now: i64) {
        let until = self.counter.window.until;
        let idle = self.running.list().is_empty() && now < until;
        if self.counter.is_budgeted() && idle && !self.end_asked {
            self.end_asked = true;
            self.orders.push(Order::WakeAt(until));
        }
    }

    /// Returns true if a job with at least this request could be placed, regardless of the reservation. Otherwise the
    /// reservation is not needed.
    fn could_fit_anywhere(&self, now: i64, widest: u32, least: Request) -> bool {
        let capped = self.variant.algorithm == Algorithm::PowerCap && self.counter.crosses(now, least.ms);
        let most = if capped { self.counter.most(self.free.processors(), None) } else { i64::MAX };
        least.processors <= widest && i64::from(least.processors) <= most
    }

    /// Backfills the jobs from `from` on, with the marks of a head that starts at `start`.
    fn fill(&mut self, now: i64, from: usize, start: i64) {
        let own = self.variant.algorithm == Algorithm::EnergyBud;
        let ms = start - now.max(self.counter.window.from);
        let lowered = (!own && ms != 0).then_some((self.counter.reserved, ms));
        let terms = Terms { spends: own, reserves: own, lowered, ..Terms::default() };
        let mut room = Room::new(self, now, start, lowered);
        let mut from = from;
        // The energy that a job reserves matters only to later jobs that fit. After the last of these it can be
        // ignored.
        let mut fitting = from;
        while let Some((job, request)) = self.queue.next(from, |least| room.could_take(&self.counter, least)) {
            if own && job >= fitting {
                match self.queue.next(job, |least| room.fits(least)) {
                    Some((next, _)) => fitting = next + 1,
                    None => return,
                }
            }
            from = job + 1;
            let trial = Trial { request, start: now, free: self.free.processors() };
            if self.counter.admits(trial, terms)
                && room.fits(request)
                && let Some(at) = self.free.take(request.processors, request.ms)
            {
                self.place(now, job, at);
                room = Room::new(self, now, start, lowered);
                fitting = from;
            }
        }
    }

    /// Converts the changes of nodes into orders. Neighbours that are switched alike become one request.
    fn obey(&mut self, now: i64) {
        for effect in self.effects.drain(..) {
            match (effect, self.orders.last_mut()) {
                (Effect::SwitchOff(at), Some(Order::SwitchOff(last))) if last.last + 1 == at.first => {
                    last.last = at.last
                }
                (Effect::SwitchOn(at), Some(Order::SwitchOn(last))) if last.last + 1 == at.first => last.last = at.last,
                (Effect::SwitchOff(at), _) => self.orders.push(Order::SwitchOff(at)),
                (Effect::SwitchOn(at), _) => self.orders.push(Order::SwitchOn(at)),
                (Effect::Delayed(job), _) => self.running.postpone(job as usize, |end| end + SWITCHING_MS),
                (Effect::Ready(job, at), _) => {
                    let end = now + self.requests[job as usize].ms;
                    self.running.postpone(job as usize, |_| end);
                    self.orders.push(Order::Start { job, at });
                }
            }
        }
    }
}

/// Resources that a backfilled job can use.
struct Room {
    now: i64,
    widest: Widest,
    /// Time limit of the limited processors.
    limit_ms: i64,
    free: u32,
    /// Processors within the cap.
    most: i64,
}

impl Room {
    fn new(scheduler: &Scheduler, now: i64, start: i64, lowered: Option<(i128, i64)>) -> Self {
        let free = scheduler.free.processors();
        let most = scheduler.counter.most(free, lowered);
        Self { now, widest: scheduler.free.widest(), limit_ms: start - now, free, most }
    }

    /// Returns true if there are processors for the requested time.
    fn fits(&self, request: Request) -> bool {
        request.processors <= self.widest.unlimited
            || (request.processors <= self.widest.limited && request.ms <= self.limit_ms)
    }

    /// Returns true if a job with at least this request could be placed, or could reserve energy.
    #[inline]
    fn could_take(&self, counter: &Counter, least: Request) -> bool {
        let crosses = counter.crosses(self.now, least.ms);
        match counter.algorithm {
            Algorithm::EnergyBud => {
                (!crosses && self.fits(least))
                    || (self.now < counter.window.until && counter.could_admit(least, self.now, self.free))
            }
            Algorithm::PowerCap | Algorithm::ReducePc if crosses => {
                i64::from(least.processors) <= self.most && self.fits(least)
            }
            _ => self.fits(least),
        }
    }
}
