//! Documents as the platform writes them.

use super::*;

fn entsoe(sequence: Option<u32>) -> Entsoe {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "s3cret\n").expect("written");
    let token_file = Token(file.path().into());
    let options = Options { zone: "10Y1001A1001A82H".into(), token_file, currency: "EUR".into(), sequence };
    source(BASE, options).expect("good")
}

fn series(inner: &str, start: &str, end: &str, resolution: &str, points: &[(u32, &str)]) -> String {
    let points: String = points
        .iter()
        .map(|(at, price)| format!("<Point><position>{at}</position><price.amount>{price}</price.amount></Point>"))
        .collect();
    format!(
        "<TimeSeries><currency_Unit.name>EUR</currency_Unit.name><price_Measure_Unit.name>MWH</price_Measure_Unit.name>{inner}\
         <Period><timeInterval><start>{start}</start><end>{end}</end></timeInterval><resolution>{resolution}</resolution>\
         {points}</Period></TimeSeries>"
    )
}

fn document(series: &[String]) -> String {
    let namespace = "urn:iec62325.351:tc57wg16:451-3:publicationdocument:7:3";
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<Publication_MarketDocument xmlns=\"{namespace}\">{}</Publication_MarketDocument>",
        series.concat()
    )
}

fn read(entsoe: &Entsoe, text: &str) -> Result<Vec<(String, i64, i64)>, String> {
    let page = entsoe.parse(text.as_bytes()).map_err(|error| error.to_string())?;
    let row = |slot: &Slot| {
        (crate::error::shown(slot.from), (slot.until - slot.from).ms() / 60_000, slot.value.milli_per_mwh())
    };
    Ok(page.slots.iter().map(row).collect())
}

const A03: &str = "<curveType>A03</curveType>";

#[test]
fn the_token_is_sent_and_hidden() {
    let window = Window::around(Time::from_unix_ms(1_761_516_720_000), &TimeZone::UTC);
    let requests = entsoe(None).requests(&window);
    assert_eq!(
        requests[0].url,
        "https://web-api.tp.entsoe.eu/api?documentType=A44&in_Domain=10Y1001A1001A82H&out_Domain=10Y1001A1001A82H\
         &periodStart=202510250000&periodEnd=202510280000&securityToken=s3cret"
    );
    assert!(requests[0].shown().ends_with("securityToken=***"));
}

#[test]
fn a_missing_position_repeats_or_is_a_gap() {
    let of = |kind: &str| {
        document(&[series(kind, "2025-10-25T22:00Z", "2025-10-25T23:00Z", "PT15M", &[(1, "80"), (4, "-5.25")])])
    };
    let row = |minute: &str, price| (format!("2025-10-25T22:{minute}:00Z"), 15, price);
    let repeated = vec![row("00", 80_000), row("15", 80_000), row("30", 80_000), row("45", -5_250)];
    assert_eq!(read(&entsoe(None), &of(A03)), Ok(repeated));
    assert_eq!(read(&entsoe(None), &of("<curveType>A01</curveType>")), Ok(vec![row("00", 80_000), row("45", -5_250)]));
    let late = document(&[series(A03, "2025-10-25T22:00Z", "2025-10-25T23:00Z", "PT30M", &[(2, "1")])]);
    assert_eq!(read(&entsoe(None), &late), Ok(vec![("2025-10-25T22:30:00Z".into(), 30, 1_000)]));
}

#[test]
fn days_of_23_and_25_hours() {
    let count = |start, end, resolution| {
        let text = document(&[series(A03, start, end, resolution, &[(1, "1")])]);
        read(&entsoe(None), &text).expect("good").len()
    };
    assert_eq!(count("2025-03-29T23:00Z", "2025-03-30T22:00Z", "PT60M"), 23);
    assert_eq!(count("2025-10-25T22:00Z", "2025-10-26T23:00Z", "PT60M"), 25);
    assert_eq!(count("2025-10-25T22:00Z", "2025-10-26T23:00Z", "PT15M"), 100);
}

#[test]
fn the_lowest_sequence_or_the_one_that_is_configured() {
    let numbered = |number: u32| format!("<{SEQUENCE}>{number}</{SEQUENCE}>{A03}");
    let one = |number, start, price: &'static str| {
        series(
            &numbered(number),
            start,
            if start == "2025-10-25T22:00Z" { "2025-10-25T23:00Z" } else { "2025-10-26T00:00Z" },
            "PT60M",
            &[(1, price)],
        )
    };
    let text = document(&[
        one(2, "2025-10-25T22:00Z", "20"),
        one(1, "2025-10-25T22:00Z", "10"),
        one(2, "2025-10-25T23:00Z", "21"),
    ]);
    let prices =
        |sequence| read(&entsoe(sequence), &text).map(|rows| rows.iter().map(|row| row.2 / 1000).collect::<Vec<_>>());
    assert_eq!(prices(None), Ok(vec![10, 21]));
    assert_eq!(prices(Some(1)), Ok(vec![10]));
    assert_eq!(prices(Some(2)), Ok(vec![20, 21]));
    assert_eq!(prices(Some(3)), Err("nothing is published: the document has no prices".into()));
}

#[test]
fn acknowledgements() {
    let said = |text: &str| {
        format!(
            "<Acknowledgement_MarketDocument xmlns=\"urn:x:8:1\"><Reason><code>999</code><text>{text}</text></Reason></Acknowledgement_MarketDocument>"
        )
    };
    let read = |text: &str| read(&entsoe(None), &said(text)).expect_err("no data");
    assert_eq!(
        read("No matching data found for Data item X"),
        "nothing is published: `No matching data found for Data item X`"
    );
    assert_eq!(read("Unauthorized"), "the server refuses: `Unauthorized`");
}

#[test]
fn refusals() {
    let check = |text: String, expected: &str| {
        let error = read(&entsoe(None), &text).expect_err("refused");
        assert!(error.contains(expected), "`{expected}` is not in: {error}");
    };
    let (start, end) = ("2025-10-25T22:00Z", "2025-10-25T23:00Z");
    check("nonsense".into(), "the answer is not XML");
    check("<html/>".into(), "the document is `html`");
    check(document(&[series(A03, start, end, "P1D", &[])]), "<resolution>, is `P1D`; expected PT15M, PT30M or PT60M");
    check(document(&[series(A03, start, start, "PT15M", &[])]), "a whole number of steps");
    check(document(&[series(A03, start, "2025-10-25T22:20Z", "PT15M", &[])]), "a whole number of steps");
    check(document(&[series(A03, start, "9999-10-25T22:15Z", "PT15M", &[])]), "a whole number of steps");
    check(document(&[series(A03, start, end, "PT15M", &[(5, "1")])]), "<position>, is `5`; expected 1 to 4");
    check(document(&[series(A03, start, end, "PT15M", &[(1, "1"), (1, "2")])]), "occurs once");
    check(document(&[series(A03, start, end, "PT15M", &[(1, "dear")])]), "is `dear`; expected a number of EUR/MWh");
    check(document(&[series(A03, "today", end, "PT15M", &[])]), "<start>, is `today`");
    check(document(&[series(A03, start, end, "PT15M", &[]).replace("EUR", "PLN")]), "is `PLN`; expected `EUR`");
    check(document(&[series(A03, start, end, "PT15M", &[]).replace("MWH", "KWH")]), "is `KWH`; expected `MWH`");
    check(document(&["<TimeSeries><Period/></TimeSeries>".into()]), "line 2, column");
}

#[test]
fn a_small_document_cannot_mean_ever_more_slots() {
    let year = |at: i32| {
        let start = format!("{:04}-01-01T00:00Z", 2000 + at);
        // One repeated point gives 35,040 or 35,136 quarters of an hour.
        series("<curveType>A03</curveType>", &start, &format!("{:04}-01-01T00:00Z", 2001 + at), "PT15M", &[(1, "1")])
    };
    let text = document(&(0..20).map(year).collect::<Vec<_>>());
    let error = entsoe(None).parse(text.as_bytes()).expect_err("too many");
    // The parser refuses too many slots before all of them are in memory.
    assert!(matches!(error, FeedError::TooMany { found: 40_001..=80_000, .. }), "{error}");
}
