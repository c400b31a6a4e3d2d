//! Tables of feeds, valid and invalid.

use super::*;

fn built(text: &str) -> Result<Feeds, String> {
    let tables: FeedTables = toml::from_str(text).map_err(|error| error.to_string())?;
    tables.build().map_err(|error| error.to_string())
}

fn refused(text: &str, expected: &str) {
    let error = built(text).err().unwrap_or_else(|| panic!("good: {text}"));
    assert!(error.contains(expected), "`{expected}` is not in: {error}");
}

#[test]
fn a_feed_with_defaults() {
    let feeds = built("[[price]]\nsource = \"energy-charts\"\nzone = \"DE-LU\"\n").expect("good");
    let feed = &feeds.prices[0];
    assert_eq!((feed.name.as_str(), feed.every, feed.stale_after), ("energy-charts DE-LU", EVERY, STALE_AFTER));
    assert_eq!((feed.fallback, feeds.currency.as_str()), (Fallback::RunNow, "EUR"));
    assert!(built("").expect("good").is_empty());
}

#[test]
fn fallbacks_and_weights() {
    let check = |text: &str, expected| assert_eq!(text.parse::<Fallback<Price>>().ok(), expected, "{text}");
    check("run-now", Some(Fallback::RunNow));
    check("last-day", Some(Fallback::LastDay));
    check("80 EUR/MWh", Some(Fallback::Fixed(Price::from_milli_per_mwh(80_000))));
    check("-1.5ct/kWh", Some(Fallback::Fixed(Price::from_milli_per_mwh(-15_000))));
    for wrong in ["80", "EUR/MWh", "soon", "", "80 g/kWh"] {
        check(wrong, None);
    }
    let grams = Fallback::Fixed(Intensity::from_mg_per_kwh(400_000));
    assert_eq!("400 g/kWh".parse(), Ok(grams));
    assert!("-1 g/kWh".parse::<Fallback<Intensity>>().is_err());
    let text = "[carbon]\nsource = \"uk\"\nweight = \"80.5 GBP/t\"\n";
    let feeds = built(text).expect("good");
    assert_eq!((feeds.weight_milli_per_t, feeds.currency.as_str()), (80_500, "GBP"));
    refused("[carbon]\nsource = \"uk\"\n", "feed.carbon: weight: it is missing");
    refused("[carbon]\nsource = \"uk\"\nweight = \"80\"\n", "feed.carbon: weight: `80` is not a price of a tonne");
    refused(&format!("{text}[[price]]\nsource = \"awattar\"\nzone = \"DE\"\n"), "the feeds are in GBP and in EUR");
}

#[test]
fn refusals_name_the_table_and_the_key() {
    let one = |rest: &str| format!("[[price]]\n{rest}\n");
    refused(&one(""), "feed.price, number 1: source: it is missing");
    refused(&one("source = \"oracle\""), "source: `oracle` is unknown (known: energy-charts, awattar");
    refused(&one("source = \"energy-charts\""), "feed.price, number 1: missing field `zone`");
    refused(&one("source = \"energy-charts\"\nzone = \"FR\"\nproduct = \"x\""), "unknown field `product`");
    refused(&one("source = \"energy-charts\"\nzone = \"FR\"\nevery = 30"), "every: `30` has no unit");
    refused(
        &one("source = \"energy-charts\"\nzone = \"FR\"\nstale_after = \"10ms\""),
        "stale_after: it is 10ms: it must be at least 1s",
    );
    refused(&one("source = \"energy-charts\"\nzone = \"FR\"\nfallback = 5"), "fallback: it is `5` instead of a text");
    let kroner = |fallback: &str| one(&format!("source = \"energinet\"\nzone = \"DK1\"\nfallback = \"{fallback}\""));
    refused(&kroner("90 EUR/MWh"), "fallback: it is in EUR, but the feed is in DKK");
    assert!(built(&kroner("90 DKK/MWh")).is_ok() && built(&kroner("last-day")).is_ok());
    refused(&one("source = \"awattar\"\nzone = \"FR\""), "unknown variant `FR`");
    refused(&one("source = \"entsoe\"\nzone = \"X\"\ntoken_file = \"/nowhere\""), "cannot read /nowhere: No such file");
    refused(
        &one(concat!(
            "source = \"energy-charts\"\nzone = \"FR\"\nauthorities = \"",
            env!("CARGO_MANIFEST_DIR"),
            "/Cargo.toml\""
        )),
        "authorities: cannot speak TLS",
    );
    let one = "[[price]]\nsource = \"awattar\"\nzone = \"DE\"\nfallback = \"last-day\"\n";
    refused(&one.repeat(2), "feed.price, number 2: name: two feeds have the name `awattar DE`");
    let two = format!("{one}{}", one.replace("DE", "AT"));
    refused(&two, "feed.price, number 1: fallback: only the last feed of prices can have a fallback");
    refused("[[prices]]\n", "unknown field `prices`");
}

#[test]
fn tokens_are_one_line_and_not_shown() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let token = Token(file.path().into());
    std::fs::write(file.path(), " s3cret \n").expect("written");
    assert_eq!(token.read().as_deref(), Ok("s3cret"));
    for wrong in ["", "two\nlines", "tab\there", &"x".repeat(5000)] {
        std::fs::write(file.path(), wrong).expect("written");
        let error = token.read().expect_err("refused").to_string();
        assert!(error.starts_with('/') && !error.contains("lines"), "{error}");
    }
}

#[test]
fn described_sources() {
    let json = |rest: &str| format!("[[price]]\nsource = \"json\"\nstart = \"/s\"\nvalue = \"/v\"\n{rest}\n");
    let url = "url = \"http://h/{start}\"\nunit = \"SEK/kWh\"\n";
    assert_eq!(built(&json(url)).expect("good").currency, "SEK");
    assert!(built(&json(&format!("{url}rows = [\"/a\", \"/b\"]\nlength = \"15min\"\nscale = \"1.25\"\n"))).is_ok());
    refused(&json(&format!("{url}end = \"/e\"\n")), "rows: it is missing");
    refused(&json(&format!("{url}rows = \"/a\"\nend = \"/e\"\nlength = \"15min\"\n")), "exclude each other");
    refused(&json(&format!("{url}rows = \"/a\"\nend = \"e\"\n")), "`e` is not a JSON pointer");
    refused(&json(&format!("{url}scale = \"0\"\n")), "scale: `0` is not a number above zero");
    refused(&json(&format!("{url}timezone = \"Mars/Olympus\"\n")), "timezone: ");
    refused(&json(&format!("{url}base = \"http://h\"\n")), "base: this source takes a full `url`");
    refused(&json(&format!("{url}token_header = \"x\"\n")), "token_file: it is missing");
    refused(&json("url = \"http://h/\"\n"), "unit: it is missing");
    refused(
        &json("url = \"http://h/{when}\"\nunit = \"EUR/MWh\"\n"),
        "url: the address `http://h/{when}` has the unknown place",
    );
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "s3c/ret").expect("written");
    let token = format!("token_file = \"{}\"", token.path().display());
    let broken = json(&format!("url = \"http://h/{{token}}{{when}}\"\nunit = \"EUR/MWh\"\n{token}\n"));
    refused(&broken, "the address `http://h/***{when}`");
    let csv = |rest: &str| format!("[[price]]\nsource = \"csv\"\n{rest}\n");
    assert!(built(&csv("file = \"/p.csv\"")).is_ok());
    refused(&csv(""), "file: give either `file` or `url`");
    refused(&csv("file = \"/p.csv\"\nvalue = \"x\""), "unit: it is missing");
    refused(&csv("file = \"/p.csv\"\ndelimiter = \"€\""), "delimiter: it must be one ASCII character");
}
