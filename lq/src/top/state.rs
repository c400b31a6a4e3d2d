//! What `lq top` knows and how it is looked at: the newest look at the cluster, the draw of the last minutes, and what keys
//! have chosen. No terminal, no clock.

use std::collections::VecDeque;

use limo_client::Clock;
use limo_model::{Drawn, Power, Span, Time};
use limo_proto::{JobReport, NodeReport, Status};
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::columns::{SortKey, sort};

/// The cluster at one time.
#[derive(Debug, Clone)]
pub struct Seen {
    pub status: Status,
    pub nodes: Vec<NodeReport>,
    /// The first ones by number, and whether there are more.
    pub jobs: Vec<JobReport>,
    pub more: bool,
    /// What the cluster drew before, by intervals; in the first look.
    pub past: Vec<Drawn>,
}

/// What was seen, or why nothing was.
pub type Look = Result<Seen, String>;

/// What follows from a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    GoOn,
    Quit,
}

/// Draw is shown as means over so long.
pub const STEP: Span = Span::from_secs(10);

/// Masters keep no shorter intervals.
const SHORTEST_INTERVAL: Span = Span::from_secs(60);

/// As many means as the widest screen shows: half an hour is 180.
const STEPS: usize = 1_000;

/// By what jobs can be put in order, one after the other.
const ORDERS: [&str; 7] = ["jobid", "st", "user", "time", "energy", "cores", "name"];

pub struct Top {
    pub address: String,
    pub seen: Option<Seen>,
    /// Since when the master does not answer, and why.
    pub away: Option<(Time, String)>,
    /// Means by steps, oldest first, with the begin of each, and how many looks it is of.
    means: VecDeque<(Time, Power, i64)>,
    order: usize,
    descending: bool,
    /// Only jobs of users whose names begin so; empty is all.
    pub user: String,
    /// While a user is typed: what was there before.
    pub typing: Option<String>,
    /// The job on which the eye is, as a place in the list.
    pub at: usize,
    /// How many jobs the screen shows at once, as it was drawn last.
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
                    // Of the interval under way, the time until now is known.
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
            // A master whose clock was set back has no past to be shown.
            Some((last, ..)) if *last > at => {}
            _ => self.means.push_back((at, draw, 1)),
        }
        while self.means.len() > STEPS {
            self.means.pop_front();
        }
    }

    /// The means of the last `count` steps, oldest first; `None` where nothing is known.
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

    /// The jobs that are shown, in their order.
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

    /// `time, largest first`.
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

/// The begin of the step that `at` is in.
fn step(at: Time) -> Time {
    Time::from_unix_ms(at.unix_ms().div_euclid(STEP.ms()) * STEP.ms())
}
