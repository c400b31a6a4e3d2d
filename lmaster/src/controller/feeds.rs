//! Prices from feeds. They hold unless an operator has set others. They are recorded as events, so that a replay of the
//! journal has them.

use limo_feeds::slot::Intensity;
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
    /// Carbon intensity of the electricity; `None` if it is unknown now.
    pub intensity: Option<Intensity>,
    pub reports: Vec<FeedReport>,
    /// Text to keep over a restart.
    pub kept: Option<String>,
}

/// Name of that text in the journal.
pub const KEPT: &str = "prices";

impl Controller {
    /// Applies an operator's request to follow the feeds again.
    pub(super) fn follow_feeds(&mut self, peer: PeerId) {
        if !self.tx.settings.has_feeds {
            let hint = "add a table [[feed.price]] to the configuration of lmaster, and start it again";
            return self.refuse(peer, "no feed of prices is configured", Some(hint));
        }
        let prices = self.signals.news.as_ref().and_then(|news| news.prices.clone());
        self.tx.actor = self.caller(peer).map(|caller| Actor { by: caller.user.clone(), undo_of: None });
        self.tx.must(Event::PricesSet { prices, by: FEEDS.to_owned() });
        self.tx.actor = None;
        self.after(done(peer));
    }
}
