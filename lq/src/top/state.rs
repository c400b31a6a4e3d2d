//! State of `lq top`: the newest status of the cluster, the draw of the last minutes, and the user's choices. No
//! terminal, no clock.

use std::collections::VecDeque;

use limo_client::Clock;
use limo_model::{Drawn, Power, Span, Time};
use limo_proto::{JobReport, NodeReport, Status};
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::columns::{SortKey, sort};

/// State of the cluster at one time.
#[derive(Debug, Clone)]
pub struct Seen {
    pub status: Status,
    pub nodes: Vec<NodeReport>,
    /// First jobs by number.
    pub jobs: Vec<JobReport>,
    pub more: bool,
    /// Earlier draw of the cluster by interval, for the first status only.
    pub past: Vec<Drawn>,
}

/// State of the cluster, or the error.
pub type Look = Result<Seen, String>;

/// Reaction to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    GoOn,
    Quit,
}

/// Length of a step; the draw is shown as a mean over it.
pub const STEP: Span = Span::from_secs(10);

/// Shortest interval that masters keep.
const SHORTEST_INTERVAL: Span = Span::from_secs(60);

/// Most steps, more than the widest screen shows; half an hour is 180 steps.
const STEPS: usize = 1_000;

/// Sort orders, in the order of selection.
const ORDERS: [&str; 7] = ["jobid", "st", "user", "time", "energy", "cores", "name"];

pub struct Top {
    pub address: String,
    pub seen: Option<Seen>,
    /// Start of the master's absence, and the reason.
    pub away: Option<(Time, String)>,
    /// Means by step, oldest first: the begin of the step, its mean, and the number of its samples.
    means: VecDeque<(Time, Power, i64)>,
    order: usize,
    descending: bool,
    /// Shows only jobs of users whose names begin with this; empty for all.
    pub user: String,
    /// Filter from before the user began to type; `None` while nothing is typed.
    pub typing: Option<String>,
    /// Index of the selected job.
    pub at: usize,
    /// Number of jobs on the screen, when it was last drawn.
    pub page: usize,
}

impl Top {
    pub fn new(address: &str, user: Option<String>) -> Self {
        Self {
            address: address.to_owned(),
            seen: None,
            away: None,
            means: VecDeque::new(),
            order: 0,
            descending: false,
            user: user.unwrap_or_default(),
            typing: None,
            at: 0,
            page: 1,
        }
    }

    pub fn looked(&mut self, look: Look, now: Time) {
        match look {
            Ok(seen) => {
                for (index, drawn) in seen.past.iter().enumerate() {
                    let mut end = drawn.at + drawn.seen.max(STEP);
                    // The current interval is only known until now.
                    if index + 1 == seen.past.len() && seen.status.now - end < SHORTEST_INTERVAL {
                        end = end.max(seen.status.now);
                    }
                    let mut at = step(end - drawn.seen.max(STEP));
                    // An interval of the past is several steps of the same mean.
                    while at < end && at < seen.status.now {
                        self.mean(at, drawn.mean);
                        at = at + STEP;
                    }
                }
                self.mean(seen.status.now, seen.status.draw);
                self.away = None;
                self.seen = Some(seen);
            }
            Err(reason) => {
                let since = self.away.as_ref().map_or(now, |(since, _)| *since);
                self.away = Some((since, reason));
            }
        }
    }

    fn mean(&mut self, at: Time, draw: Power) {
        let at = step(at);
        match self.means.back_mut() {
            Some((last, mean, looks)) if *last == at => {
                *mean = (mean.scaled(*looks, 1) + draw).scaled(1, *looks + 1);
                *looks += 1;
            }
            // A master whose clock was set back has no past to show.
            Some((last, ..)) if *last > at => {}
            _ => self.means.push_back((at, draw, 1)),
        }
        while self.means.len() > STEPS {
            self.means.pop_front();
        }
    }

    /// Returns the means of the last `count` steps, oldest first; `None` for unknown ones.
    pub fn past(&self, count: usize) -> Vec<Option<Power>> {
        let Some((newest, ..)) = self.means.back() else { return Vec::new() };
        let mut past = vec![None; count];
        for (at, mean, _) in &self.means {
            let back = usize::try_from((*newest - *at).ms() / STEP.ms()).unwrap_or(usize::MAX);
            if let Some(place) = count.checked_sub(1).and_then(|last| last.checked_sub(back)) {
                past[place] = Some(*mean);
            }
        }
        past
    }

    /// Returns the shown jobs, in their order.
    pub fn jobs(&self, clock: &Clock) -> Vec<JobReport> {
        let Some(seen) = &self.seen else { return Vec::new() };
        let shown = |job: &&JobReport| job.user.starts_with(&self.user);
        let mut jobs: Vec<JobReport> = seen.jobs.iter().filter(shown).cloned().collect();
        let sign = if self.descending { "-" } else { "" };
        if let Ok(key) = format!("{sign}{}", ORDERS[self.order]).parse::<SortKey>() {
            sort(&mut jobs, &[key], clock);
        }
        jobs
    }

    /// Describes the sort order, such as `time, largest first`.
    pub fn order_in_words(&self) -> String {
        let largest = if self.descending { ", largest first" } else { "" };
        format!("{}{largest}", ORDERS[self.order])
    }

    pub fn key(&mut self, event: &Event) -> Then {
        let Event::Key(key) = event else { return Then::GoOn };
        if key.kind == KeyEventKind::Release {
            return Then::GoOn;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Then::Quit;
        }
        if self.typing.is_some() {
            self.type_user(key.code);
            return Then::GoOn;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Then::Quit,
            KeyCode::Char('s') => self.order = (self.order + 1) % ORDERS.len(),
            KeyCode::Char('r') => self.descending = !self.descending,
            KeyCode::Char('u') => self.typing = Some(std::mem::take(&mut self.user)),
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at = self.at.saturating_add(1),
            KeyCode::PageUp => self.at = self.at.saturating_sub(self.page),
            KeyCode::PageDown => self.at = self.at.saturating_add(self.page),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = usize::MAX,
            _ => {}
        }
        Then::GoOn
    }

    fn type_user(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = None,
            KeyCode::Esc => self.user = self.typing.take().unwrap_or_default(),
            KeyCode::Backspace => drop(self.user.pop()),
            KeyCode::Char(letter) if !letter.is_control() && self.user.len() < 64 => self.user.push(letter),
            _ => {}
        }
    }
}

/// Returns the begin of the step that contains `at`.
fn step(at: Time) -> Time {
    Time::from_unix_ms(at.unix_ms().div_euclid(STEP.ms()) * STEP.ms())
}
