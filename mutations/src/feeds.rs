//! Answers of servers with prices and limits, and the tables of feeds.

pub mod prices {
    //! Answers of sources of prices and of carbon intensities. The first byte chooses the source.

    use std::sync::OnceLock;

    use limo_feeds::config::{FeedTables, Feeds};
    use limo_feeds::slot::{Quantity, Slot};
    use limo_feeds::source::Page;

    use crate::input::{choice, chosen, in_file};

    pub const WORDS: &[&str] = &[
        "null",
        "\"unix_seconds\":",
        "\"EUR / MWh\"",
        "\"2025-10-26T02:00:00\"",
        "\"9999-12-31T23:59:59Z\"",
        "time,price_eur_per_mwh\n",
        "</TimeSeries>",
        "<resolution>PT15M</resolution>",
        "<curveType>A03</curveType>",
        "<Point><position>1</position><price.amount>1</price.amount></Point>",
        "<!DOCTYPE a>",
        "&a;",
        "{\"s\":-9223372036854775808,\"v\":1}",
        "{\"s\":9223372036854775807,\"v\":9e18}]",
    ];

    /// A table of each source, and an answer.
    const SOURCES: [(&str, &str); 8] = [
        (
            "source = \"energy-charts\"\nzone = \"DE\"",
            r#"{"license_info":"CC BY 4.0","unix_seconds":[1761429600,1761430500,1761431400],
                "price":[-5.25,null,80],"unit":"EUR / MWh","deprecated":false}"#,
        ),
        (
            "source = \"awattar\"\nzone = \"DE\"",
            r#"{"object":"list","data":[
                {"start_timestamp":1761429600000,"end_timestamp":1761433200000,"marketprice":83.5,"unit":"Eur/MWh"},
                {"start_timestamp":1761433200000,"end_timestamp":1761436800000,"marketprice":-0.01,"unit":"Eur/MWh"}]}"#,
        ),
        (
            "source = \"entsoe\"\nzone = \"X\"\ntoken_file = \"TOKEN\"",
            "<Publication_MarketDocument><TimeSeries><currency_Unit.name>EUR</currency_Unit.name>\
             <price_Measure_Unit.name>MWH</price_Measure_Unit.name><curveType>A03</curveType><Period><timeInterval>\
             <start>2025-10-25T22:00Z</start><end>2025-10-25T23:00Z</end></timeInterval><resolution>PT15M</resolution>\
             <Point><position>1</position><price.amount>1.5</price.amount></Point></Period></TimeSeries>\
             </Publication_MarketDocument>",
        ),
        (
            "source = \"nordpool\"\nzone = \"FI\"",
            r#"{"deliveryDateCET":"2025-10-25","currency":"EUR","multiAreaEntries":[{"deliveryStart":"2025-10-25T12:00:00Z",
                "deliveryEnd":"2025-10-25T12:15:00Z","entryPerArea":{"FI":451.2}}]}"#,
        ),
        (
            "source = \"elprisenligenu\"\nzone = \"DK1\"\ncurrency = \"EUR\"",
            r#"[{"DKK_per_kWh":0.75123,"EUR_per_kWh":0.10065,"EXR":7.46,"time_start":"2025-10-26T02:00:00+02:00",
                "time_end":"2025-10-26T02:00:00+01:00"}]"#,
        ),
        (
            "source = \"energinet\"\nzone = \"DK1\"\ncurrency = \"EUR\"",
            r#"{"total":1,"dataset":"DayAheadPrices","records":[{"TimeUTC":"2025-10-25T22:00:00",
                "TimeDK":"2025-10-26T00:00:00","PriceArea":"DK1","DayAheadPriceEUR":10.1,"DayAheadPriceDKK":75.4},
                {"TimeUTC":"2025-10-25T22:15:00","TimeDK":"2025-10-26T00:15:00","PriceArea":"DK1","DayAheadPriceEUR":1,
                "DayAheadPriceDKK":null}]}"#,
        ),
        (
            "source = \"csv\"\nfile = \"/p\"",
            "time,price_eur_per_mwh\n2025-10-26T00:00:00Z,5\n2025-10-26T01:00:00Z,-6.5\n",
        ),
        (
            "source = \"json\"\nurl = \"http://h/\"\nrows = \"\"\nstart = \"/s\"\nvalue = \"/v\"\ntimes = \"unix-s\"\n\
             unit = \"EUR/MWh\"",
            "[{\"s\":0,\"v\":1},{\"s\":900,\"v\":-2.5}]",
        ),
    ];

    const CARBON: (&str, &str) = (
        "source = \"electricity-maps\"\nzone = \"DE\"\nweight = \"80 EUR/t\"\ntoken_file = \"TOKEN\"",
        r#"{"zone":"DE","forecast":[{"carbonIntensity":326,"datetime":"2025-10-26T09:00:00.000Z"},
            {"carbonIntensity":297,"datetime":"2025-10-26T10:00:00.000Z"}],"updatedAt":"2025-10-26T08:55:00.000Z"}"#,
    );

    fn sources() -> &'static Feeds {
        static ALL: OnceLock<Feeds> = OnceLock::new();
        ALL.get_or_init(|| {
            let prices = SOURCES.iter().map(|(table, _)| format!("[[price]]\n{table}\n"));
            let text = format!("{}[carbon]\n{}\n", prices.collect::<String>(), CARBON.0);
            in_file(b"t", |token| {
                let text = text.replace("TOKEN", &token.display().to_string());
                // These tables are the ones above, which are valid.
                toml::from_str::<FeedTables>(&text).expect("tables").build().expect("valid tables")
            })
        })
    }

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, body) = choice(bytes, SOURCES.len() + 1);
        let feeds = sources();
        match (feeds.prices.get(kind), &feeds.carbon) {
            (Some(feed), _) => feed.source.parse(body).map(check).is_ok(),
            (None, Some(feed)) => feed.source.parse(body).map(check).is_ok(),
            (None, None) => false,
        }
    }

    fn check<V: Quantity>(page: Page<V>) {
        let ordered = page.slots.windows(2).all(|pair: &[Slot<V>]| pair[0].until <= pair[1].from);
        assert!(ordered && !page.slots.is_empty(), "{:?}", page.slots);
        assert!(page.slots.iter().all(|slot| slot.from < slot.until && slot.value.thousandths() != i64::MAX));
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        (0..).zip(SOURCES.iter().chain([&CARBON])).map(|(kind, (_, body))| chosen(kind, body)).collect()
    }
}

pub mod limits {
    //! Limits of the grid, in JSON and in TOML.

    use limo_feeds::grid::Limit;
    use limo_feeds::grid::document::{from_json, from_toml, to_json};
    use limo_model::Time;

    use crate::input::{choice, chosen};

    pub const WORDS: &[&str] = &["\"low_w\":", "\"high_w\":", "\"until\":", "\"duration_s\":", "null", "[[limits]]\n"];

    const NOW: Time = Time::from_unix_ms(1_761_516_720_000);

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, bytes) = choice(bytes, 2);
        let read = if kind == 0 { from_json(bytes, NOW) } else { from_toml(bytes, NOW) };
        let limits = match read {
            Ok(limits) => limits,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return false;
            }
        };
        assert!(
            limits.iter().all(|limit| limit.low <= limit.high && limit.until.is_none_or(|until| until > limit.from))
        );
        let again = from_json(to_json("s", &limits).to_string().as_bytes(), NOW);
        let watts =
            |limits: &[Limit]| -> Vec<_> { limits.iter().map(|of| (of.low, of.high, of.from, of.until)).collect() };
        assert_eq!(again.map(|again| watts(&again)).ok(), Some(watts(&limits)), "other limits come back");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let json = r#"{"limits":[{"low_w":100,"high_w":5000,"from":"2025-10-26T22:00:00Z","until":"2025-10-26T23:00:00Z",
            "priority":1,"emergency":false},{"high_w":3000.5,"duration_s":900,"emergency":true}]}"#;
        let toml = "[[limits]]\nhigh_w = 5000\nfrom = 2025-10-26T22:00:00Z\nduration_s = 60\n";
        vec![chosen(0, json), chosen(0, "{\"high_w\": null}"), chosen(1, toml)]
    }
}

pub mod openadr {
    //! Events of OpenADR.

    use limo_feeds::grid::openadr::read as events;
    use limo_model::{Power, Time};

    pub const WORDS: &[&str] =
        &["\"P9999Y\"", "\"PT0S\"", "\"0001-01-01T00:00:00Z\"", "\"KW\"", "\"ALERT_GRID_EMERGENCY\""];

    pub fn read(bytes: &[u8]) -> bool {
        let Ok(reading) = events(bytes, Power::from_watts(100), Time::from_unix_ms(1_795_000_000_000)) else {
            return false;
        };
        assert!(reading.limits.iter().all(|limit| limit.low <= limit.high));
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = r#"[{"id":"e1","createdDateTime":"2026-11-01T00:00:00Z","modificationDateTime":"2026-11-02T00:00:00Z",
            "objectType":"EVENT","programID":"p","priority":1,"duration":"PT4H",
            "payloadDescriptors":[{"payloadType":"IMPORT_CAPACITY_LIMIT","units":"W"}],
            "intervalPeriod":{"start":"2026-11-22T18:00:00Z","duration":"PT1H"},
            "intervals":[{"id":0,"payloads":[{"type":"IMPORT_CAPACITY_LIMIT","values":[5000]}]},
            {"id":1,"payloads":[{"type":"ALERT_GRID_EMERGENCY","values":["x"]}]}]}]"#;
        vec![text.into()]
    }
}

pub mod configuration {
    //! The tables of feeds in the configuration of a master.

    use limo_feeds::config::FeedTables;

    use crate::input::text;

    pub const WORDS: &[&str] = &["[[price]]\n", "source = \"", "every = \"", "fallback = \"last-day\"\n", "unit = \""];

    pub fn read(bytes: &[u8]) -> bool {
        let text = text(bytes);
        // A path in an input could name any file of this machine.
        let Ok(tables) = toml::from_str::<FeedTables>(&text.replace('/', "|")) else { return false };
        tables.build().is_ok()
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let text = "[[price]]\nsource = \"awattar\"\nzone = \"DE\"\nevery = \"30min\"\nstale_after = \"2d\"\n\
            [[price]]\nsource = \"csv\"\nfile = \"p\"\nfallback = \"last-day\"\nname = \"b\"\n";
        vec![text.into()]
    }
}
