//! Prices as feeds tell them: they hold unless an operator has set others, and are an event like any other, so that a
//! replay of the journal has them.

use limo_model::{Curve, Price};
use limo_proto::FeedReport;
use limo_sched::Event;

use super::commit::done;
use super::history::Actor;
use super::{Controller, PeerId};
use crate::changed::FEEDS;

/// What the feeds tell now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// `None` where no price is known now.
    pub prices: Option<Curve<Price>>,
    pub reports: Vec<FeedReport>,
    /// What is to be kept over a restart.
    pub kept: Option<String>,
}

/// The name under which the journal keeps it.
pub const KEPT: &str = "prices";

impl Controller {
    pub(super) fn told(&mut self, news: News) {
        // The room that is left on a full disk belongs to the ends of jobs; the feeds tell again.
        if let Some(text) = news.kept.as_ref().filter(|_| self.commits.trouble().is_none()) {
            self.keep(KEPT, text);
        }
        self.news = Some(news);
        self.feeds_in_force();
    }

    /// The prices of the feeds hold, where they may.
    pub(super) fn feeds_in_force(&mut self) {
        // The room that is left on a full disk belongs to the ends of jobs; the feeds tell again.
        if !self.commits.is_open() || self.commits.trouble().is_some() || self.prices_by_operator().is_some() {
            return;
        }
        let settings = self.core.settings();
        let prices = match &self.news {
            Some(news) => news.prices.clone(),
            // They were configured once, and what they told then is no forecast for ever.
            None if !self.settings.has_feeds => None,
            None => return,
        };
        if settings.prices.as_ref().map(|prices| self.core.clock().shown_curve(prices)) != prices {
            self.must(Event::PricesSet { prices, by: FEEDS.to_owned() });
        }
    }

    /// The operator whose prices hold. Prices of journals that named nobody were set by one.
    pub(super) fn prices_by_operator(&self) -> Option<String> {
        let settings = self.core.settings();
        match settings.prices_by.as_str() {
            FEEDS => None,
            "" => settings.prices.is_some().then(|| "an operator".to_owned()),
            by => Some(by.to_owned()),
        }
    }

    /// An operator gives the prices back to the feeds.
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
