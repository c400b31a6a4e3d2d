//! The published scheduler: a pass after every single event starts what may start from the front of the queue, reserves
//! processors for the head of the rest and backfills behind it.
//!
//! A state machine: events in, [`Order`]s out. Times in ms from the start of the workload.

use super::counter::{Algorithm, Counter, Terms, Trial, Window};
use super::growth::Growth;
use super::intervals::{FreeIntervals, Interval, Widest};
use super::nodes::{Effect, Nodes};
use super::queue::{Queue, Request};
use super::running::{Running, RunningJob};

/// What the scheduler adds to the estimated end of a job for each run of nodes that it waits for.
const SWITCHING_MS: i64 = 210_000;

/// What the platform is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Start { job: u32, at: Interval },
    SwitchOff(Interval),
    SwitchOn(Interval),
    WakeAt(i64),
    AskMeter,
}

/// Which variant of the scheduler.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub algorithm: Algorithm,
    /// Free nodes go off within the window.
    pub shutdown: bool,
    /// The published sign error: what running jobs draw above the cap until the head starts counts as saved.
    pub sign_error: bool,
}

/// See the module.
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
    /// The end of the window was asked for, because nothing runs that could end before it.
    pub(super) end_asked: bool,
    requests: Vec<Request>,
    /// Jobs placed in this pass.
    placed: Vec<(u32, Interval)>,
    effects: Vec<Effect>,
    /// Filled by the events, emptied by the caller.
    pub orders: Vec<Order>,
}

impl Scheduler {
    /// For the jobs with these requests, in order of submission.
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

    /// Jobs that wait.
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

    /// The meter answers with all energy since the start, in uJ.
    pub fn answer(&mut self, now: i64, measured: i128) {
        let next = self.counter.answer(now, measured);
        self.pass(now);
        self.orders.extend(next.map(Order::WakeAt));
    }

    /// Nodes report that they are on or off. No pass follows.
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
        // Jobs are counted with 32 bits by the caller.
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
            // Not limited: there are no marks outside `backfill`.
            let Some(at) = self.free.take(request.processors, 0) else { return };
            self.place(now, job, at);
        }
    }

    fn backfill(&mut self, now: i64) {
        let Some((head, request)) = self.queue.front() else { return };
        self.watch_end(now);
        // Even where nobody fits, marks are not idle: they turn hints.
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

    /// Without running jobs nothing would happen before the end of the window: it is asked for, once.
    fn watch_end(&mut self, now: i64) {
        let until = self.counter.window.until;
        let idle = self.running.list().is_empty() && now < until;
        if self.counter.is_budgeted() && idle && !self.end_asked {
            self.end_asked = true;
            self.orders.push(Order::WakeAt(until));
        }
    }

    /// Can a job that asks for no less than this be placed, whatever is reserved for the head? Where none can, nothing
    /// needs to be reserved.
    fn could_fit_anywhere(&self, now: i64, widest: u32, least: Request) -> bool {
        let capped = self.variant.algorithm == Algorithm::PowerCap && self.counter.crosses(now, least.ms);
        let most = if capped { self.counter.most(self.free.processors(), None) } else { i64::MAX };
        least.processors <= widest && i64::from(least.processors) <= most
    }

    /// Backfills the jobs from `from` on, while the marks stand for a head that starts at `start`.
    fn fill(&mut self, now: i64, from: usize, start: i64) {
        let own = self.variant.algorithm == Algorithm::EnergyBud;
        let ms = start - now.max(self.counter.window.from);
        let lowered = (!own && ms != 0).then_some((self.counter.reserved, ms));
        let terms = Terms { spends: own, reserves: own, lowered, ..Terms::default() };
        let mut room = Room::new(self, now, start, lowered);
        let mut from = from;
        // What jobs set aside matters to those behind them that find processors; behind the last of these, to nobody.
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

    /// Turns what follows from changes of nodes into orders; neighbours that are switched alike become one request.
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

/// What a backfilled job finds at a moment.
struct Room {
    now: i64,
    widest: Widest,
    /// Of the limited processors.
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

    /// Are there processors for so long?
    fn fits(&self, request: Request) -> bool {
        request.processors <= self.widest.unlimited
            || (request.processors <= self.widest.limited && request.ms <= self.limit_ms)
    }

    /// Can a job that asks for no less than this be placed, or set energy aside?
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
