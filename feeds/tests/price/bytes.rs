//! For any bytes of a server, a source returns slots in order or an error, and never panics.

use limo_feeds::config::{FeedTables, Feeds};
use limo_model::Price;
use proptest::prelude::*;

/// Returns every source once.
fn all() -> Feeds {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "t").expect("written");
    let token = token.path().display();
    let mut tables = String::new();
    for table in [
        "source = \"energy-charts\"\nzone = \"DE\"".to_owned(),
        "source = \"awattar\"\nzone = \"DE\"".into(),
        format!("source = \"entsoe\"\nzone = \"X\"\ntoken_file = \"{token}\""),
        "source = \"nordpool\"\nzone = \"FI\"".into(),
        "source = \"elprisenligenu\"\nzone = \"DK1\"\ncurrency = \"EUR\"".into(),
        "source = \"energinet\"\nzone = \"DK1\"\ncurrency = \"EUR\"".into(),
        "source = \"csv\"\nfile = \"/p\"".into(),
        "source = \"json\"\nurl = \"http://h/\"\nrows = \"\"\nstart = \"/s\"\nvalue = \"/v\"\ntimes = \"unix-s\"\nunit = \"EUR/MWh\"".into(),
    ] {
        tables += &format!("[[price]]\n{table}\n");
    }
    toml::from_str::<FeedTables>(&tables).expect("tables").build().expect("good")
}

fn survives(feeds: &Feeds, body: &[u8]) {
    for feed in &feeds.prices {
        let Ok(page) = feed.source.parse(body) else { continue };
        let ordered = page.slots.windows(2).all(|pair| pair[0].until <= pair[1].from);
        assert!(
            ordered && !page.slots.is_empty() && page.slots.iter().all(|slot| slot.from < slot.until),
            "{}",
            feed.name
        );
        assert!(page.slots.iter().all(|slot| slot.value != Price::MAX), "{}", feed.name);
    }
}

/// Pieces of all formats, so that random combinations often look valid.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "-",
    "1e999",
    "99999999999999999999",
    "1761429600",
    "\"data\"",
    "\"price\"",
    "\"unix_seconds\"",
    "\"unit\"",
    "\"EUR / MWh\"",
    "\"start_timestamp\"",
    "\"s\"",
    "\"v\"",
    "\"2025-10-26T02:00:00\"",
    "\"9999-12-31T23:59:59Z\"",
    "time,price_eur_per_mwh\n",
    "2025-10-26T00:00:00Z,",
    "\n",
    "\"",
    "é",
    "\u{0}",
    "<Publication_MarketDocument>",
    "</Publication_MarketDocument>",
    "<TimeSeries>",
    "</TimeSeries>",
    "<Period>",
    "</Period>",
    "<timeInterval><start>2025-10-25T22:00Z</start><end>9999-10-25T23:00Z</end></timeInterval>",
    "<timeInterval><start>2025-10-25T22:00Z</start><end>2025-10-25T23:00Z</end></timeInterval>",
    "<resolution>PT15M</resolution>",
    "<Point><position>1</position><price.amount>1</price.amount></Point>",
    "<curveType>A03</curveType>",
    "<!DOCTYPE a>",
    "&a;",
    "[{\"s\":0,\"v\":1},",
    "{\"s\":-9223372036854775808,\"v\":1}",
    "{\"s\":9223372036854775807,\"v\":9e18}]",
    "{\"unix_seconds\":[0,900],\"price\":[1,",
    "2]}",
];

fn fragments() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES).prop_map(str::to_owned), 0..24).prop_map(|parts| parts.concat())
}

#[test]
fn nothing_that_comes_makes_a_source_panic() {
    let feeds = all();
    proptest!(ProptestConfig::with_cases(400), |(bytes in prop::collection::vec(any::<u8>(), 0..200), text in fragments())| {
        survives(&feeds, &bytes);
        survives(&feeds, text.as_bytes());
    });
}
