//! Requests of each source, and its parsing of the server's format.

use limo_feeds::error::FeedError;
use limo_feeds::fetch::Fetcher;
use limo_feeds::moment::Window;
use limo_feeds::slot::Intensity;
use limo_feeds::source::load;
use limo_model::Time;

use crate::server::{Answer, Server, json, reply};
use crate::{NOW, Row, feeds, is_unpublished, look, rows};

fn fetcher() -> Fetcher {
    Fetcher::new(std::time::Duration::from_secs(30), None).expect("TLS")
}

fn row(begin: &str, minutes: i64, thousandths: i64) -> Row {
    (begin.into(), minutes, thousandths)
}

/// Checks the slots that a source makes of one answer, and its requests.
async fn check(table: &str, body: &str, targets: &[&str], expected: &[Row]) {
    let server = Server::saying(json(body)).await;
    let loaded = look(&server, table, &fetcher()).await;
    assert_eq!(loaded.failure, None);
    assert_eq!(rows(&loaded), expected);
    assert_eq!(server.targets(), targets);
}

#[tokio::test]
async fn energy_charts() {
    let body = r#"{"license_info":"CC BY 4.0","unix_seconds":[1761429600,1761430500,1761431400],
        "price":[-5.25,null,80],"unit":"EUR / MWh","deprecated":false}"#;
    let table = "[[price]]\nsource = \"energy-charts\"\nzone = \"DE-LU\"\nbase = \"BASE\"\n";
    let expected = [row("2025-10-25T22:00:00Z", 15, -5_250), row("2025-10-25T22:30:00Z", 15, 80_000)];
    check(table, body, &["/price?bzn=DE-LU&start=2025-10-24T22:00:00Z&end=2025-10-27T23:00:00Z"], &expected).await;
    let server = Server::saying(reply("404 Not Found", "application/json", "{\"detail\":\"no data\"}")).await;
    assert!(is_unpublished(&look(&server, table, &fetcher()).await));
    let other = body.replace("EUR / MWh", "EUR / kWh");
    let server = Server::saying(json(&other)).await;
    let loaded = look(&server, table, &fetcher()).await;
    let failure = loaded.failure.expect("another unit").to_string();
    assert_eq!(failure, "/unit is `EUR / kWh`; expected `EUR/MWh`");
}

/// 100 quarters of an hour on the day of 25 hours.
#[tokio::test]
async fn a_day_of_25_hours() {
    let seconds: Vec<i64> = (0..100).map(|quarter| 1_761_429_600 + quarter * 900).collect();
    let prices: Vec<i64> = (0..100).collect();
    let body = format!("{{\"unix_seconds\":{seconds:?},\"price\":{prices:?},\"unit\":\"EUR / MWh\"}}");
    let server = Server::saying(json(&body)).await;
    let table = "[[price]]\nsource = \"energy-charts\"\nzone = \"DE-LU\"\nbase = \"BASE/\"\n";
    let rows = rows(&look(&server, table, &fetcher()).await);
    assert_eq!((rows.len(), rows[99].clone()), (100, row("2025-10-26T22:45:00Z", 15, 99_000)));
}

#[tokio::test]
async fn awattar() {
    let body = r#"{"object":"list","data":[
        {"start_timestamp":1761429600000,"end_timestamp":1761433200000,"marketprice":83.5,"unit":"Eur/MWh"},
        {"start_timestamp":1761433200000,"end_timestamp":1761436800000,"marketprice":-0.01,"unit":"Eur/MWh"}],"url":"/"}"#;
    let table = "[[price]]\nsource = \"awattar\"\nzone = \"AT\"\nbase = \"BASE\"\n";
    let expected = [row("2025-10-25T22:00:00Z", 60, 83_500), row("2025-10-25T23:00:00Z", 60, -10)];
    check(table, body, &["/v1/marketdata?start=1761343200000&end=1761606000000"], &expected).await;
}

#[tokio::test]
async fn nord_pool_day_by_day_until_one_is_not_published() {
    let table = "[[price]]\nsource = \"nordpool\"\nzone = \"SE3\"\ncurrency = \"SEK\"\nbase = \"BASE\"\n";
    let server = Server::start(|asked| {
        let day = asked.target().split("date=").nth(1).expect("a date")[..10].to_owned();
        if day == "2025-10-27" {
            return Answer::Bytes(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".to_vec());
        }
        Answer::Bytes(json(&format!(
            r#"{{"deliveryDateCET":"{day}","currency":"SEK","multiAreaEntries":[
            {{"deliveryStart":"{day}T12:00:00Z","deliveryEnd":"{day}T12:15:00Z","entryPerArea":{{"SE3":451.2}}}}]}}"#
        )))
    })
    .await;
    let loaded = look(&server, table, &fetcher()).await;
    assert_eq!(loaded.failure, None);
    assert_eq!(rows(&loaded), [row("2025-10-25T12:00:00Z", 15, 451_200), row("2025-10-26T12:00:00Z", 15, 451_200)]);
    let first = "/api/DayAheadPrices?market=DayAhead&date=2025-10-25&deliveryArea=SE3&currency=SEK";
    assert_eq!((server.targets()[0].as_str(), server.targets().len()), (first, 3));
    let empty = Server::saying(reply("200 OK", "application/json", "")).await;
    assert!(is_unpublished(&look(&empty, table, &fetcher()).await));
}

#[tokio::test]
async fn elprisenligenu() {
    let table = "[[price]]\nsource = \"elprisenligenu\"\nzone = \"DK1\"\nbase = \"BASE\"\n";
    let server = Server::start(|asked| {
        if !asked.target().contains("10-26") {
            return Answer::Bytes(reply("404 Not Found", "text/html", "<html>not there</html>"));
        }
        Answer::Bytes(json(
            r#"[{"DKK_per_kWh":0.75123,"EUR_per_kWh":0.10065,"EXR":7.46,"time_start":"2025-10-26T02:00:00+02:00","time_end":"2025-10-26T02:00:00+01:00"},
            {"DKK_per_kWh":-0.1,"EUR_per_kWh":-0.013,"EXR":7.46,"time_start":"2025-10-26T02:00:00+01:00","time_end":"2025-10-26T03:00:00+01:00"}]"#,
        ))
    })
    .await;
    let loaded = look(&server, table, &fetcher()).await;
    assert_eq!(loaded.failure, None);
    assert_eq!(rows(&loaded), [row("2025-10-26T00:00:00Z", 60, 751_230), row("2025-10-26T01:00:00Z", 60, -100_000)]);
    assert_eq!(server.targets()[1], "/api/v1/prices/2025/10-26_DK1.json");
}

#[tokio::test]
async fn energinet() {
    let body = r#"{"total":3,"dataset":"DayAheadPrices","records":[
        {"TimeUTC":"2025-10-25T22:00:00","TimeDK":"2025-10-26T00:00:00","PriceArea":"DK1","DayAheadPriceEUR":10.1,"DayAheadPriceDKK":75.4},
        {"TimeUTC":"2025-10-25T22:15:00","TimeDK":"2025-10-26T00:15:00","PriceArea":"DK1","DayAheadPriceEUR":10.1,"DayAheadPriceDKK":null},
        {"TimeUTC":"2025-10-25T22:30:00","TimeDK":"2025-10-26T00:30:00","PriceArea":"DK1","DayAheadPriceEUR":10.1,"DayAheadPriceDKK":-3.25}]}"#;
    let table = "[[price]]\nsource = \"energinet\"\nzone = \"DK1\"\nbase = \"BASE\"\n";
    let expected = [row("2025-10-25T22:00:00Z", 15, 75_400), row("2025-10-25T22:30:00Z", 15, -3_250)];
    let target = "/dataset/DayAheadPrices?start=2025-10-25T00:00&end=2025-10-28T00:00&filter={\"PriceArea\":[\"DK1\"]}&sort=TimeUTC&limit=0";
    check(table, body, &[target], &expected).await;
}

#[tokio::test]
async fn octopus_in_pages() {
    let table = "[[price]]\nsource = \"octopus\"\nproduct = \"AGILE-24-10-01\"\nzone = \"C\"\nbase = \"BASE\"\n";
    let server = Server::start(|asked| {
        let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").to_owned();
        Answer::Bytes(json(&match asked.target().contains("page=2") {
            false => format!(
                r#"{{"count":3,"next":"http://{host}/v1/next?page=2","previous":null,"results":[
                {{"value_exc_vat":23.4,"value_inc_vat":24.57,"valid_from":"2025-10-26T00:00:00Z","valid_to":null,"payment_method":null}},
                {{"value_exc_vat":99,"value_inc_vat":99,"valid_from":"2025-10-26T00:00:00Z","valid_to":null,"payment_method":"NON_DIRECT_DEBIT"}}]}}"#
            ),
            true => r#"{"count":3,"next":null,"previous":null,"results":[
                {"value_exc_vat":-1.2,"value_inc_vat":-1.26,"valid_from":"2025-10-25T23:30:00Z","valid_to":"2025-10-26T00:00:00Z"}]}"#.into(),
        }))
    })
    .await;
    let loaded = look(&server, table, &fetcher()).await;
    assert_eq!(loaded.failure, None);
    assert_eq!(rows(&loaded)[0], row("2025-10-25T23:30:00Z", 30, -12_000));
    assert_eq!((loaded.slots[1].until, loaded.slots[1].value.milli_per_mwh()), (Time::MAX, 234_000));
    let first = "/v1/products/AGILE-24-10-01/electricity-tariffs/E-1R-AGILE-24-10-01-C/standard-unit-rates/\
                 ?period_from=2025-10-24T23:00:00Z&period_to=2025-10-28T00:00:00Z&page_size=1500";
    assert_eq!(server.targets(), [first, "/v1/next?page=2"]);
}

#[tokio::test]
async fn pages_elsewhere_and_without_end_are_not_followed() {
    let table = "[[price]]\nsource = \"octopus\"\nproduct = \"P\"\nzone = \"C\"\nbase = \"BASE\"\n";
    let row = r#"{"value_exc_vat":1,"valid_from":"2025-10-26T00:00:00Z","valid_to":"2025-10-26T01:00:00Z"}"#;
    let page = move |next: &str| json(&format!(r#"{{"next":"{next}","results":[{row}]}}"#));
    let server = Server::saying(page("http://localhost:1/v1/next")).await;
    let loaded = look(&server, table, &fetcher()).await;
    assert!(matches!(&loaded.failure, Some(FeedError::Elsewhere { found, .. }) if found.contains("localhost:1")));
    assert_eq!(loaded.slots.len(), 1, "what came before is kept");
    let server = Server::start(move |asked| {
        let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
        Answer::Bytes(page(&format!("http://{host}/again")))
    })
    .await;
    assert_eq!(look(&server, table, &fetcher()).await.failure, Some(FeedError::Pages { limit: 50 }));
}

fn token() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "s3cret-token\n").expect("written");
    file
}

#[tokio::test]
async fn tibber() {
    let token = token();
    let table = format!(
        "[[price]]\nsource = \"tibber\"\ncurrency = \"NOK\"\nwith_tax = true\nbase = \"BASE\"\ntoken_file = \"{}\"\n",
        token.path().display()
    );
    let body = r#"{"data":{"viewer":{"homes":[{"currentSubscription":{"priceInfo":{"today":[
        {"startsAt":"2025-10-26T00:00:00.000+02:00","total":1.25,"energy":0.9,"currency":"NOK"},
        {"startsAt":"2025-10-26T00:15:00.000+02:00","total":1.5,"energy":1.1,"currency":"NOK"}],"tomorrow":[]}}}]}}}"#;
    let server = Server::saying(json(body)).await;
    let loaded = look(&server, &table, &fetcher()).await;
    assert_eq!(loaded.failure, None);
    assert_eq!(rows(&loaded), [row("2025-10-25T22:00:00Z", 15, 1_250_000), row("2025-10-25T22:15:00Z", 15, 1_500_000)]);
    let asked = &server.asked()[0];
    assert!(
        asked.head.starts_with("POST /v1-beta/gql HTTP/1.1") && asked.has_header("authorization: Bearer s3cret-token")
    );
    let query: serde_json::Value = serde_json::from_str(&asked.body).expect("JSON");
    assert!(query["query"].as_str().expect("text").contains("priceInfo(resolution: QUARTER_HOURLY)"));
    let refusal = reply("400 Bad Request", "application/json", r#"{"errors":[{"message":"invalid token"}]}"#);
    let server = Server::saying(refusal).await;
    let failure = look(&server, &table, &fetcher()).await.failure.expect("refused");
    assert_eq!(failure.to_string(), "the server refuses: `invalid token`");
}

#[tokio::test]
async fn entsoe() {
    let token = token();
    let table = format!(
        "[[price]]\nsource = \"entsoe\"\nzone = \"10Y1001A1001A82H\"\nbase = \"BASE\"\ntoken_file = \"{}\"\n",
        token.path().display()
    );
    let body = r#"<?xml version="1.0" encoding="utf-8"?>
        <Publication_MarketDocument xmlns="urn:iec62325.351:tc57wg16:451-3:publicationdocument:7:3"><TimeSeries>
        <currency_Unit.name>EUR</currency_Unit.name><price_Measure_Unit.name>MWH</price_Measure_Unit.name><curveType>A03</curveType>
        <Period><timeInterval><start>2025-10-25T22:00Z</start><end>2025-10-26T00:00Z</end></timeInterval><resolution>PT60M</resolution>
        <Point><position>1</position><price.amount>-12.5</price.amount></Point></Period></TimeSeries></Publication_MarketDocument>"#;
    let server = Server::saying(reply("200 OK", "text/xml", body)).await;
    let loaded = look(&server, &table, &fetcher()).await;
    assert_eq!(rows(&loaded), [row("2025-10-25T22:00:00Z", 60, -12_500), row("2025-10-25T23:00:00Z", 60, -12_500)]);
    let empty = "<Acknowledgement_MarketDocument><Reason><code>999</code><text>No matching data found</text></Reason>\
                 </Acknowledgement_MarketDocument>";
    for status in ["200 OK", "400 Bad Request"] {
        let server = Server::saying(reply(status, "application/xml", empty)).await;
        assert!(is_unpublished(&look(&server, &table, &fetcher()).await), "{status}");
    }
    let echo = reply("401 Unauthorized", "text/plain", "unknown token s3cret-token");
    let failure = look(&Server::saying(echo).await, &table, &fetcher()).await.failure.expect("refused").to_string();
    assert!(
        failure.contains("securityToken=***: status 401: the server said `unknown token ***`; check the token"),
        "{failure}"
    );
}

async fn carbon(server: &Server, table: &str) -> Vec<(i64, i64, i64)> {
    let feeds = feeds(server, table);
    let source = feeds.carbon.expect("a feed").source;
    let loaded = load::<Intensity>(&fetcher(), source.as_ref(), &Window::around(NOW, source.zone())).await;
    assert_eq!(loaded.failure, None);
    let minutes = |from: Time, to: Time| (to - from).ms() / 60_000;
    loaded
        .slots
        .iter()
        .map(|slot| (minutes(NOW, slot.from), minutes(slot.from, slot.until), slot.value.mg_per_kwh()))
        .collect()
}

#[tokio::test]
async fn carbon_intensities() {
    let body = r#"{"data":[{"from":"2025-10-26T09:30Z","to":"2025-10-26T10:00Z","intensity":{"forecast":263,"actual":null,"index":"moderate"}},
        {"from":"2025-10-26T10:00Z","to":"2025-10-26T10:30Z","intensity":{"forecast":null,"actual":null,"index":"low"}}]}"#;
    let server = Server::saying(json(body)).await;
    let table = "[carbon]\nsource = \"uk\"\nweight = \"80 GBP/t\"\nbase = \"BASE\"\n";
    assert_eq!(carbon(&server, table).await, [(0, 30, 263_000)]);
    assert_eq!(server.targets(), ["/intensity/2025-10-26T09:30Z/fw48h"]);

    let token = token();
    let table = |rest: &str| {
        let path = token.path().display();
        format!(
            "[carbon]\nsource = \"electricity-maps\"\nzone = \"DE\"\nweight = \"80 EUR/t\"\nbase = \"BASE\"\ntoken_file = \"{path}\"\n{rest}"
        )
    };
    let body = r#"{"zone":"DE","forecast":[{"carbonIntensity":326,"datetime":"2025-10-26T09:00:00.000Z"},
        {"carbonIntensity":297,"datetime":"2025-10-26T10:00:00.000Z"}],"updatedAt":"2025-10-26T08:55:00.000Z"}"#;
    let server = Server::saying(json(body)).await;
    assert_eq!(carbon(&server, &table("")).await, [(-30, 60, 326_000), (30, 60, 297_000)]);
    assert!(server.asked()[0].has_header("auth-token: s3cret-token"));
    assert_eq!(server.targets(), ["/v3/carbon-intensity/forecast?zone=DE"]);
    let latest = json(r#"{"zone":"DE","carbonIntensity":302,"datetime":"2025-10-26T09:00:00.000Z"}"#);
    assert_eq!(carbon(&Server::saying(latest).await, &table("latest = true\n")).await, [(-30, 60, 302_000)]);
}

#[tokio::test]
async fn described_json_and_csv() {
    let token = token();
    let table = format!(
        "[[price]]\nsource = \"json\"\nurl = \"BASE/p?t={{token}}&from={{start_s}}\"\nrows = \"/list\"\nstart = \"/at\"\nlength = \"30min\"\n\
         value = \"/cost\"\ntimes = \"local\"\ntimezone = \"Europe/Berlin\"\nunit = \"ct/kWh\"\nscale = \"1.19\"\ntoken_file = \"{}\"\n\
         headers = {{ x-place = \"here\" }}\n",
        token.path().display()
    );
    let server = Server::saying(json(r#"{"list":[{"at":"2025-10-26 12:00","cost":"10.00"}]}"#)).await;
    assert_eq!(rows(&look(&server, &table, &fetcher()).await), [row("2025-10-26T11:00:00Z", 30, 119_000)]);
    let asked = &server.asked()[0];
    assert!(
        asked.has_header("x-place: here") && asked.target() == "/p?t=s3cret-token&from=1761343200",
        "{}",
        asked.head
    );

    let text = "time,price_eur_per_mwh\n2025-10-26T00:00:00Z,80.25\n2025-10-26T00:15:00Z,-3\n";
    let server = Server::saying(reply("200 OK", "text/csv", text)).await;
    let expected = [row("2025-10-26T00:00:00Z", 15, 80_250), row("2025-10-26T00:15:00Z", 15, -3_000)];
    let loaded = look(&server, "[[price]]\nsource = \"csv\"\nurl = \"BASE/p.csv\"\n", &fetcher()).await;
    assert_eq!(rows(&loaded), expected);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let table = format!("[[price]]\nsource = \"csv\"\nfile = \"{}\"\n", file.path().display());
    assert_eq!(rows(&look(&server, &table, &fetcher()).await), expected);
    drop(file);
    let failure = look(&server, &table, &fetcher()).await.failure.expect("gone").to_string();
    assert!(
        failure.starts_with("cannot read /") && failure.ends_with("No such file or directory (os error 2)"),
        "{failure}"
    );
}
