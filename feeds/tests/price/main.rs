//! Sources against real servers on loopback with the exact formats, and with all faults of servers.

mod docs;
mod faults;
mod server;
mod sources;
mod tls;

use limo_feeds::config::{FeedTables, Feeds};
use limo_feeds::error::FeedError;
use limo_feeds::fetch::Fetcher;
use limo_feeds::moment::Window;
use limo_feeds::source::{Loaded, load};
use limo_model::{Price, Time};

use server::Server;

/// 2025-10-26 09:30 UTC: the day of 25 hours in most of Europe.
pub const NOW: Time = Time::from_unix_ms(1_761_471_000_000);

/// Makes the feeds of a table `[feed]`, with `BASE` for the server's address.
pub fn feeds(server: &Server, table: &str) -> Feeds {
    let table = table.replace("BASE", &server.base());
    let tables: FeedTables = toml::from_str(&table).expect("a table");
    tables.build().unwrap_or_else(|error| panic!("{error}: {table}"))
}

/// Requests prices from the first feed once.
pub async fn look(server: &Server, table: &str, fetcher: &Fetcher) -> Loaded<Price> {
    let feeds = feeds(server, table);
    let source = feeds.prices[0].source.as_ref();
    load(fetcher, source, &Window::around(NOW, source.zone())).await
}

/// Begin in UTC, minutes, thousandths.
pub type Row = (String, i64, i64);

pub fn rows(loaded: &Loaded<Price>) -> Vec<Row> {
    let row = |slot: &limo_feeds::slot::Slot| {
        let begin = jiff_text(slot.from);
        (begin, (slot.until - slot.from).ms() / 60_000, slot.value.milli_per_mwh())
    };
    loaded.slots.iter().map(row).collect()
}

fn jiff_text(time: Time) -> String {
    jiff::Timestamp::from_millisecond(time.unix_ms()).expect("a time").to_string()
}

pub fn is_unpublished(loaded: &Loaded<Price>) -> bool {
    loaded.slots.is_empty() && matches!(loaded.failure, Some(FeedError::NotPublished { .. }))
}
