//! Inputs from outside the cluster: limits of the grid, prices of feeds and jumps of the wall clock. They
//! become events when they change what is in force, so that a replay of the journal has them.

use std::collections::BTreeMap;

use limo_feeds::grid::{Word, same_from};
use limo_model::{Currency, Now, Span, Time};
use limo_proto::FeedReport;
use limo_sched::{Clock, Event};

use super::feeds::KEPT as KEPT_PRICES;
use super::grid::KEPT as KEPT_GRID;
use super::tx::Tx;
use super::{Grid, News};
use crate::changed::FEEDS;
use crate::recover::KEPT_CURRENCY;

/// Smaller differences are ignored: clocks under a time service drift by milliseconds.
const TOLERANCE: Span = Span::from_secs(1);

/// The last reports from outside.
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) grid: Grid,
    /// The latest report of the feeds.
    pub(super) news: Option<News>,
    /// Texts of the sources that are in the journal, or in a batch for it.
    kept: BTreeMap<String, String>,
}

impl Signals {
    pub(super) fn new(grid: Grid, kept: BTreeMap<String, String>) -> Self {
        Self { grid, news: None, kept }
    }

    /// Handles a journal that went back to an earlier state, with its texts.
    pub(super) fn rolled_back(&mut self, kept: BTreeMap<String, String>) {
        self.kept = kept;
        self.grid.forget_kept();
    }

    /// Keeps a text over a restart, replacing the earlier one. Returns true if it is in the journal or in a batch for
    /// it.
    pub(super) fn keep(&mut self, tx: &mut Tx, name: &str, text: &str) -> bool {
        if self.kept.get(name).is_some_and(|kept| kept == text) {
            return true;
        }
        if !tx.commits.is_open() {
            return false;
        }
        self.kept.insert(name.to_owned(), text.to_owned());
        tx.commits.batch().keep(name, text);
        true
    }

    /// Keeps the currency of the journal.
    pub(super) fn keep_currency(&mut self, tx: &mut Tx) {
        self.keep(tx, KEPT_CURRENCY, Currency::agreed().code());
    }

    /// Handles a message of a source, or a failed query.
    pub(super) fn word(&mut self, tx: &mut Tx, source: usize, word: Word) {
        let wall = tx.wall();
        self.grid.arbiter.hear(wall, source, word);
        self.follow_grid(tx);
    }

    /// Returns the next time at which a source is lost, or something else changes without a message.
    pub(super) fn grid_due(&self, tx: &Tx) -> Option<Time> {
        self.grid.arbiter.deadline().map(|at| tx.core.clock().cluster(at))
    }

    /// Applies the present limits of the sources and the operator, and keeps the text for a restart.
    pub(super) fn follow_grid(&mut self, tx: &mut Tx) {
        if self.grid.arbiter.is_empty() && tx.core.settings().own_limits.is_none() {
            return;
        }
        let wall = tx.wall();
        self.grid.arbiter.advance(wall);
        self.grid.log(wall);
        let kept = self.grid.arbiter.kept();
        if self.grid.kept.as_ref() != Some(&kept) {
            match serde_json::to_string(&kept) {
                Ok(text) if self.keep(tx, KEPT_GRID, &text) => self.grid.kept = Some(kept),
                Ok(_) => {}
                Err(error) => tracing::error!(%error, "what was heard of the grid cannot be written"),
            }
        }
        // Without a state this is postponed until one is available.
        if !tx.commits.is_open() {
            return;
        }
        let (settings, clock) = (tx.core.settings(), tx.core.clock());
        let limits = self.grid.arbiter.curve(wall, &clock.shown_curve(settings.operator_limits()));
        if !same_from(wall, &limits, &clock.shown_curve(&settings.limits)) {
            let band = limits.band(wall);
            tracing::info!(high = %band.high(), low = %band.low(), "the limits in force change");
            tx.must(Event::GridLimited { limits });
        }
    }

    /// Handles a report of the feeds.
    pub(super) fn told(&mut self, tx: &mut Tx, news: News) {
        // On a full disk the remaining space is reserved for the ends of jobs; the feeds report again.
        if let Some(text) = news.kept.as_ref().filter(|_| tx.commits.trouble().is_none()) {
            self.keep(tx, KEPT_PRICES, text);
        }
        self.news = Some(news);
        self.feeds_in_force(tx);
    }

    /// Applies the prices of the feeds, unless an operator's hold.
    pub(super) fn feeds_in_force(&self, tx: &mut Tx) {
        // On a full disk the remaining space is reserved for the ends of jobs; the feeds report again.
        if !tx.commits.is_open() || tx.commits.trouble().is_some() || prices_by_operator(tx).is_some() {
            return;
        }
        let settings = tx.core.settings();
        let prices = match &self.news {
            Some(news) => news.prices.clone(),
            // The feeds were configured once; their old prices are not a forecast forever.
            None if !tx.settings.has_feeds => None,
            None => return,
        };
        if settings.prices.as_ref().map(|prices| tx.core.clock().shown_curve(prices)) != prices {
            tx.must(Event::PricesSet { prices, by: FEEDS.to_owned() });
        }
    }

    pub(super) fn feed_reports(&self) -> Vec<FeedReport> {
        self.news.as_ref().map(|news| news.reports.clone()).unwrap_or_default()
    }

    /// Records a jump of the wall clock.
    pub(super) fn follow_clock(&mut self, tx: &mut Tx, now: Now) {
        if !tx.commits.is_open() {
            return;
        }
        let (old, new) = (tx.core.clock().offset, now.wall.ahead_of(now.at));
        let jump = new - old;
        if jump > TOLERANCE || jump < Span::ZERO - TOLERANCE {
            tracing::warn!(by = %jump, old_offset = %old, new_offset = %new,
                "the wall clock has jumped: prices, begins and displayed times follow it, running jobs do not");
            self.keep_clock(tx, new);
            self.follow_grid(tx);
        }
    }

    /// Records `offset` and the clock of this process as the cluster's.
    pub(super) fn keep_clock(&mut self, tx: &mut Tx, offset: Span) {
        let clock = Clock { offset, ..tx.clock.clone() };
        if *tx.core.clock() != clock {
            let Clock { offset, boot, since } = clock;
            tx.must(Event::ClockOffset { offset, boot, since });
        }
        tx.metering.follow_clock(offset);
        self.grid.follow_clock(offset);
    }
}

/// Returns the operator whose prices hold. Old journals do not name the operator who set prices.
pub(super) fn prices_by_operator(tx: &Tx) -> Option<String> {
    let settings = tx.core.settings();
    match settings.prices_by.as_str() {
        FEEDS => None,
        "" => settings.prices.is_some().then(|| "an operator".to_owned()),
        by => Some(by.to_owned()),
    }
}
