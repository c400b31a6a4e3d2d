//! Feeds of prices and of carbon intensities: queries each when it is due, in its own task, and stores the results.
//! Sends the resulting curve to the controller whenever it may have changed, and once a minute, because the controller
//! may have dropped it.

use std::collections::BTreeMap;
use std::time::Duration;

use limo_feeds::config::{Feed, Feeds};
use limo_feeds::fetch::FetchError;
use limo_feeds::outlook::Outlook;
use limo_feeds::series::Series;
use limo_feeds::slot::{Intensity, Quantity};
use limo_feeds::source::Loaded;
use limo_model::{Price, Span, Time};
use limo_proto::FeedKind;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::kept;
use super::look::Look;
use crate::controller::{Input, News};
use crate::serve::now;

const LONGEST_PAUSE: Span = Span::from_secs(60);

/// Shortest time between two rounds of this loop.
const SHORTEST_PAUSE: Span = Span::from_ms(50);

/// A finished query.
enum Came {
    Prices(usize, Loaded<Price>),
    Carbon(Loaded<Intensity>),
}

struct Telling {
    prices: Vec<Look<Price>>,
    carbon: Option<Look<Intensity>>,
    outlook: Outlook,
    /// Text for the journal; `None` until a feed has reported.
    kept: Option<String>,
    came: Sender<Came>,
}

/// Passes the reports of the feeds to the controller, without an end; `kept` is the journal's text. Returns if no
/// feed is configured, or the controller has ended.
pub async fn run(feeds: Feeds, kept: Option<String>, controller: Sender<Input>) {
    if feeds.is_empty() {
        return;
    }
    let (came, coming) = channel(feeds.prices.len() + 1);
    let kept = kept.map(|text| kept::read(&text)).unwrap_or_default();
    match Telling::new(feeds, &kept, came) {
        Ok(telling) => telling.serve(coming, controller).await,
        Err(error) => tracing::error!(%error, "no feed is asked"),
    }
}

/// Returns the kept reports of a feed.
fn taken_up<V: Quantity>(feed: &Look<V>, kept: &BTreeMap<String, Value>) -> Series<V> {
    let Feed { stale_after, fallback, ref name, .. } = feed.feed;
    let mut series = Series::new(stale_after, fallback);
    if let Some(Err(error)) = kept.get(&feed.key()).cloned().map(|stored| series.take_up(stored)) {
        tracing::warn!(%error, feed = name.as_str(), "the earlier values of a feed are no longer known");
    }
    series
}

impl Telling {
    fn new(feeds: Feeds, kept: &BTreeMap<String, Value>, came: Sender<Came>) -> Result<Self, FetchError> {
        let at = now();
        let Feeds { prices, carbon, weight_milli_per_t, .. } = feeds;
        let prices: Vec<_> =
            prices.into_iter().map(|feed| Look::new(feed, FeedKind::Price, at)).collect::<Result<_, _>>()?;
        let carbon = carbon.map(|feed| Look::new(feed, FeedKind::Carbon, at)).transpose()?;
        let outlook = Outlook {
            prices: prices.iter().map(|look| taken_up(look, kept)).collect(),
            carbon: carbon.as_ref().map(|look| taken_up(look, kept)),
            weight_milli_per_t,
        };
        Ok(Self { prices, carbon, outlook, kept: None, came })
    }

    async fn serve(mut self, mut coming: Receiver<Came>, controller: Sender<Input>) {
        loop {
            self.ask();
            if controller.send(Input::Feeds(Box::new(self.news()))).await.is_err() {
                return;
            }
            let pause = self.pause(now());
            tokio::select! {
                Some(came) = coming.recv() => self.take(came),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Begins all due queries.
    fn ask(&mut self) {
        let at = now();
        for (index, look) in self.prices.iter_mut().enumerate() {
            if let Some(looking) = look.begin(at) {
                let came = self.came.clone();
                // The receiver no longer exists when the process ends.
                tokio::spawn(async move { drop(came.send(Came::Prices(index, looking.await)).await) });
            }
        }
        if let Some(looking) = self.carbon.as_mut().and_then(|look| look.begin(at)) {
            let came = self.came.clone();
            tokio::spawn(async move { drop(came.send(Came::Carbon(looking.await)).await) });
        }
    }

    fn take(&mut self, came: Came) {
        let at = now();
        match came {
            Came::Prices(index, loaded) => {
                let (Some(look), Some(series)) = (self.prices.get_mut(index), self.outlook.prices.get_mut(index))
                else {
                    return;
                };
                series.merge(&loaded.slots, at);
                look.end(at, &loaded, series.known_until(at));
            }
            Came::Carbon(loaded) => {
                let (Some(look), Some(series)) = (&mut self.carbon, &mut self.outlook.carbon) else { return };
                series.merge(&loaded.slots, at);
                look.end(at, &loaded, series.known_until(at));
            }
        }
        self.keep();
    }

    fn keep(&mut self) {
        let mut feeds = BTreeMap::new();
        let prices = self.prices.iter().zip(&self.outlook.prices).map(|(look, series)| (look.key(), series.stored()));
        let carbon = self.carbon.iter().zip(&self.outlook.carbon).map(|(look, series)| (look.key(), series.stored()));
        for (key, stored) in prices.chain(carbon) {
            match stored {
                Ok(stored) => drop(feeds.insert(key, stored)),
                Err(error) => tracing::error!(%error, key, "the values of a feed cannot be written"),
            }
        }
        match kept::write(feeds) {
            Ok(text) => self.kept = Some(text),
            Err(error) => tracing::error!(%error, "the values of the feeds are lost at a restart"),
        }
    }

    fn news(&self) -> News {
        let at = now();
        let prices = self.prices.iter().zip(&self.outlook.prices);
        let prices = prices.map(|(look, series)| look.report(series.known_until(at)));
        let carbon = self.carbon.iter().zip(&self.outlook.carbon);
        let carbon = carbon.map(|(look, series)| look.report(series.known_until(at)));
        News {
            prices: self.outlook.curve(at),
            intensity: self.outlook.intensity(at),
            reports: prices.chain(carbon).collect(),
            kept: self.kept.clone(),
        }
    }

    fn pause(&self, at: Time) -> Duration {
        let due = self.prices.iter().filter_map(|look| look.due.map(|due| due.at));
        let carbon = self.carbon.iter().filter_map(|look| look.due.map(|due| due.at));
        let next = due.chain(carbon).chain(self.outlook.next_change(at)).min().map_or(LONGEST_PAUSE, |next| next - at);
        let pause = next.max(SHORTEST_PAUSE).min(LONGEST_PAUSE);
        Duration::from_millis(u64::try_from(pause.ms()).unwrap_or(0))
    }
}
