//! The published simulator around the scheduler: the platform that executes its orders, and the order of events at one
//! instant.
//!
//! Messages of an instant are handled one after the other. Events that happen while the scheduler answers are kept for
//! its next turn. Its answer is executed one group of orders at a time, each after the messages that arrived before it.

use std::collections::VecDeque;
use std::ops::Range;

use limo_trace::Workload;

use super::account::{Account, PowerState};
use super::clock::Clock;
use super::intervals::Interval;
use super::scheduler::{Order, Scheduler};

/// Times of a switch in seconds: energy-budget-2017, table I.
const OFF_S: f64 = 6.1;
const ON_S: f64 = 151.52;

/// An event of the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    Submitted(usize),
    Ended(usize),
    Woken,
    Answered,
    /// Nodes were switched on or off.
    Switched(Interval, bool),
}

#[derive(Debug)]
enum Message {
    Happened(Happening),
    /// A part of the scheduler's answer.
    Orders(Range<usize>),
    /// The scheduler's answer has ended.
    Ready,
}

/// The fate of a job, in ms from the start of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Life {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub at: Option<Interval>,
}

/// Nodes that were switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switched {
    pub end: i64,
    pub nodes: u32,
    pub on: bool,
}

/// The platform; see the module.
#[derive(Debug)]
pub struct Platform<'a> {
    workload: &'a Workload,
    pub scheduler: Scheduler,
    pub account: Account,
    clock: Clock<Happening>,
    pub lives: Vec<Life>,
    pub switched: Vec<Switched>,
    /// Jobs that ended in this instant.
    pub ended: Vec<usize>,
    pub running: u32,
    /// Number of instants at which the scheduler ran.
    pub rounds: u64,
    mail: VecDeque<Message>,
    replies: VecDeque<Message>,
    orders: Vec<Order>,
    /// Events that the scheduler has not received yet.
    unheard: Vec<Happening>,
    told: Vec<Happening>,
}

impl<'a> Platform<'a> {
    pub fn new(workload: &'a Workload, scheduler: Scheduler, account: Account) -> Self {
        let mut clock = Clock::new();
        if let Some(first) = workload.jobs.first() {
            clock.timer(first.submit.ms(), Happening::Submitted(0));
        }
        Self {
            workload,
            scheduler,
            account,
            clock,
            lives: vec![Life::default(); workload.jobs.len()],
            switched: Vec::new(),
            ended: Vec::new(),
            running: 0,
            rounds: 0,
            mail: VecDeque::new(),
            replies: VecDeque::new(),
            orders: Vec::new(),
            unheard: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Handles the next instant. Returns its time in ms; `None` at the end.
    pub fn instant(&mut self) -> Option<i64> {
        self.clock.step(&mut self.told);
        if self.told.is_empty() {
            return None;
        }
        let now = self.clock.now_ms();
        self.account.advance(now);
        self.ended.clear();
        self.mail.extend(self.told.drain(..).map(Message::Happened));
        let mut is_ready = true;
        while let Some(message) = self.mail.pop_front() {
            match message {
                Message::Happened(happening) => self.happen(now, happening),
                Message::Orders(range) => {
                    for index in range {
                        self.obey(now, self.orders[index]);
                    }
                    self.mail.extend(self.replies.pop_front());
                }
                Message::Ready => is_ready = true,
            }
            if is_ready && !self.unheard.is_empty() {
                is_ready = false;
                self.ask(now);
                self.mail.extend(self.replies.pop_front());
            }
        }
        Some(now)
    }

    fn happen(&mut self, now: i64, happening: Happening) {
        match happening {
            Happening::Submitted(job) => {
                if let Some(next) = self.workload.jobs.get(job + 1) {
                    let submitted = Happening::Submitted(job + 1);
                    if self.clock.is_ahead(next.submit.ms()) {
                        self.clock.timer(next.submit.ms(), submitted);
                    } else {
                        self.mail.push_back(Message::Happened(submitted));
                    }
                }
            }
            Happening::Ended(job) => {
                self.lives[job].end = Some(now);
                self.ended.push(job);
                self.running -= 1;
                if let Some(at) = self.lives[job].at {
                    self.account.change(at, PowerState::Computing, PowerState::Idle);
                }
            }
            Happening::Switched(at, on) => {
                self.switched.push(Switched { end: now, nodes: at.width(), on });
                let (from, to) = if on {
                    (PowerState::SwitchingOn, PowerState::Idle)
                } else {
                    (PowerState::SwitchingOff, PowerState::Off)
                };
                self.account.change(at, from, to);
            }
            Happening::Woken | Happening::Answered => {}
        }
        self.unheard.push(happening);
    }

    /// Gives the new events to the scheduler and splits its answer into messages. Starts that follow from one event go
    /// together. With shutdown, every order goes alone.
    fn ask(&mut self, now: i64) {
        self.rounds += 1;
        let alone = self.scheduler.variant.shutdown;
        let mut group = 0;
        for happening in self.unheard.drain(..) {
            match happening {
                Happening::Submitted(job) => self.scheduler.submit(now, job),
                Happening::Ended(job) => self.scheduler.complete(now, job),
                Happening::Woken => self.scheduler.wake(now),
                Happening::Answered => self.scheduler.answer(now, self.account.answer()),
                Happening::Switched(at, on) => self.scheduler.switched(now, at, on),
            }
            if alone {
                continue;
            }
            let start = |order: &Order| matches!(order, Order::Start { .. });
            for chunk in self.scheduler.orders[group..].chunk_by(|a, b| start(a) && start(b)) {
                self.replies.push_back(Message::Orders(group..group + chunk.len()));
                group += chunk.len();
            }
        }
        self.orders.clear();
        self.orders.append(&mut self.scheduler.orders);
        if alone {
            self.replies.extend((0..self.orders.len()).map(|index| Message::Orders(index..index + 1)));
        }
        if self.replies.is_empty() {
            self.replies.push_back(Message::Orders(0..0));
        }
        self.replies.push_back(Message::Ready);
    }

    fn obey(&mut self, now: i64, order: Order) {
        match order {
            Order::Start { job, at } => {
                let job = job as usize;
                self.lives[job] = Life { start: Some(now), end: None, at: Some(at) };
                self.running += 1;
                self.account.change(at, PowerState::Idle, PowerState::Computing);
                // Work in whole seconds, at the speed of one node.
                let work = (self.workload.jobs[job].run.ms() / 1_000) as f64 * 1e8;
                self.clock.work(1e8 / work, Happening::Ended(job));
            }
            Order::WakeAt(at) => self.clock.timer(at, Happening::Woken),
            Order::AskMeter => self.unheard.push(Happening::Answered),
            Order::SwitchOff(at) => {
                self.account.change(at, PowerState::Idle, PowerState::SwitchingOff);
                self.clock.work(1.0 / OFF_S, Happening::Switched(at, false));
            }
            Order::SwitchOn(at) => {
                self.account.change(at, PowerState::Off, PowerState::SwitchingOn);
                self.clock.work(1.0 / ON_S, Happening::Switched(at, true));
            }
        }
    }
}
