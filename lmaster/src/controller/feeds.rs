//! Prices from feeds. They hold unless an operator has set others. They are recorded as events, so that a replay of the
//! journal has them.

use limo_model::{Curve, Price};
use limo_proto::FeedReport;
use limo_sched::Event;

use super::commit::done;
use super::history::Actor;
use super::{Controller, PeerId};
use crate::changed::FEEDS;

/// The latest report of the feeds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// Known prices; `None` if no price is known now.
    pub prices: Option<Curve<Price>>,
    pub reports: Vec<FeedReport>,
    /// Text to keep over a restart.
    pub kept: Option<String>,
}

/// Name of that text in the journal.
pub const KEPT: &str = "prices";

impl Controller {
    pub(super) fn told(&mut self, news: News) {
        // On a full disk, the remaining space is reserved for the ends of jobs. The feeds report again.
        if let Some(text) = news.kept.as_ref().filter(|_| self.commits.trouble().is_none()) {
            self.keep(KEPT, text);
        }
        self.news = Some(news);
        self.feeds_in_force();
    }

    /// Applies the prices of the feeds, unless an operator's hold.
    pub(super) fn feeds_in_force(&mut self) {
        // On a full disk, the remaining space is reserved for the ends of jobs. The feeds report again.
        if !self.commits.is_open() || self.commits.trouble().is_some() || self.prices_by_operator().is_some() {
            return;
        }
        let settings = self.core.settings();
        let prices = match &self.news {
            Some(news) => news.prices.clone(),
            // The feeds are no longer configured, and their old prices are not a forecast without an end.
            None if !self.settings.has_feeds => None,
            None => return,
        };
        if settings.prices.as_ref().map(|prices| self.core.clock().shown_curve(prices)) != prices {
            self.must(Event::PricesSet { prices, by: FEEDS.to_owned() });
        }
    }

    /// Returns the operator whose prices hold. Old journals do not contain the operator who set prices.
    pub(super) fn prices_by_operator(&self) -> Option<String> {
        let settings = self.core.settings();
        match settings.prices_by.as_str() {
            FEEDS => None,
            "" => settings.prices.is_some().then(|| "an operator".to_owned()),
            by => Some(by.to_owned()),
        }
    }

    /// Applies an operator's request to follow the feeds again.
    pub(super) fn follow_feeds(&mut self, peer: PeerId) {
        if !self.settings.has_feeds {
            let hint = "add a table [[feed.price]] to the configuration of lmaster, and start it again";
            return self.refuse(peer, "no feed of prices is configured", Some(hint));
        }
        let prices = self.news.as_ref().and_then(|news| news.prices.clone());
        self.actor = self.caller(peer).map(|caller| Actor { by: caller.user.clone(), undo_of: None });
        self.must(Event::PricesSet { prices, by: FEEDS.to_owned() });
        self.actor = None;
        self.after(done(peer));
    }

    pub(super) fn feed_reports(&self) -> Vec<FeedReport> {
        self.news.as_ref().map(|news| news.reports.clone()).unwrap_or_default()
    }
}
