//! A real master with feeds of prices, from a server of the test.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use limo_model::{Curve, Price, Time};
use limo_proto::{Change, ClientToMaster, MasterToClient, Query, StatusQuery};

use crate::harness::{Client, Master, lmaster};

const HOUR_MS: i64 = 3_600_000;

/// Server with a configurable answer; stops on request.
struct Server {
    port: u16,
    answer: Arc<Mutex<Option<String>>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts a server whose answers are JSON.
    fn saying(body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let answer = Arc::new(Mutex::new(Some(body)));
        let told = Arc::clone(&answer);
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(body) = told.lock().expect("no panic").clone() else { return };
                serve(stream.expect("a client"), &body);
            }
        });
        Self { port, answer, serving }
    }

    fn say(&self, body: String) {
        *self.answer.lock().expect("no panic") = Some(body);
    }

    /// Stops the server. Its port is closed on return.
    fn stop(self) {
        *self.answer.lock().expect("no panic") = None;
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        self.serving.join().expect("no panic");
    }
}

fn serve(mut stream: TcpStream, body: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            // The client closed the connection.
            _ => return,
        }
    }
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // The client may have been killed.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
}

/// Returns the start of this hour, in ms since 1970.
fn this_hour() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let ms = i64::try_from(since.as_millis()).expect("before the year 292 million");
    ms - ms.rem_euclid(HOUR_MS)
}

/// Returns prices in aWATTar's format: the same price from an hour ago until six hours from now, so that no test
/// reaches the end.
fn marketdata(price: &str) -> String {
    let hour = |at: i64| {
        let start = this_hour() + at * HOUR_MS;
        let end = start + HOUR_MS;
        format!("{{\"start_timestamp\":{start},\"end_timestamp\":{end},\"marketprice\":{price},\"unit\":\"Eur/MWh\"}}")
    };
    let hours: Vec<String> = (-1..6).map(hour).collect();
    format!("{{\"object\":\"list\",\"data\":[{}]}}", hours.join(","))
}

fn configure(dir: &Path, port: u16, stale_after: &str) -> String {
    let path = dir.join("lmaster.toml");
    let table = format!(
        "[[feed.price]]\nsource = \"awattar\"\nzone = \"DE\"\nbase = \"http://127.0.0.1:{port}\"\nevery = \"1s\"\n\
         stale_after = \"{stale_after}\"\nfallback = \"123 EUR/MWh\"\n"
    );
    std::fs::write(&path, table).expect("written");
    path.to_str().expect("text").to_owned()
}

fn start(dir: &Path, config: &str) -> Master {
    Master::start_with(&dir.join("state"), "127.0.0.1:0", &["--config", config])
}

fn price(milli: i64) -> Option<Price> {
    Some(Price::from_milli_per_mwh(milli))
}

#[tokio::test]
async fn prices_come_outlast_a_kill_and_expire() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::saying(marketdata("42.5"));
    let port = server.port;
    let master = start(dir.path(), &configure(dir.path(), port, "1h"));
    let mut client = Client::new(&master).await;
    let status = client.status_with("the price comes", |status| status.price == price(42_500)).await;
    let feed = &status.feeds[0];
    assert_eq!((feed.name.as_str(), feed.currency.as_str(), &feed.last_error), ("awattar DE", "EUR", &None));
    let until = feed.known_until.expect("known").unix_ms();
    assert!(feed.last_success.is_some() && until >= this_hour() + 5 * HOUR_MS, "{feed:?}");
    assert!(status.next_price.is_some_and(|(_, next)| next == price(123_000)), "the fallback follows");

    // The next poll brings a new, negative price.
    server.say(marketdata("-7.25"));
    client.status_with("the new price comes", |status| status.price == price(-7_250)).await;

    master.signal(nix::sys::signal::Signal::SIGKILL);
    master.wait();
    server.stop();
    let master = start(dir.path(), &configure(dir.path(), port, "1h"));
    let mut client = Client::new(&master).await;
    let first = client
        .status_with("the feed fails", |status| status.feeds.first().is_some_and(|feed| feed.last_error.is_some()))
        .await;
    assert_eq!(first.price, price(-7_250), "kept without a server");
    let feed = &first.feeds[0];
    assert!(feed.last_success.is_none() && feed.known_until.is_some(), "{feed:?}");
    let (at, reason) = feed.last_error.clone().expect("an error");
    assert!(reason.contains("/v1/marketdata?") && reason.contains("onnection refused"), "{reason}");
    client
        .status_with("it fails again", |status| {
            status.feeds[0].last_error.as_ref().is_some_and(|(again, _)| *again > at)
        })
        .await;
    let said = master.lines().iter().filter(|line| line.contains("a feed fails")).count();
    assert_eq!(said, 1, "each look failed, and one line says so");

    master.signal(nix::sys::signal::Signal::SIGKILL);
    master.wait();
    // The earlier prices are now older than this.
    let master = start(dir.path(), &configure(dir.path(), port, "1s"));
    let mut client = Client::new(&master).await;
    let status = client.status_with("the fallback holds", |status| status.price == price(123_000)).await;
    assert_eq!(status.feeds[0].known_until, None);
}

#[tokio::test]
async fn an_operators_prices_win_until_they_are_given_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::saying(marketdata("42.5"));
    let config = configure(dir.path(), server.port, "1h");
    let master = start(dir.path(), &config);
    let mut client = Client::new(&master).await;
    client.status_with("the price comes", |status| status.price == price(42_500)).await;
    let curve = Curve::new(vec![(Time::from_unix_ms(0), Price::from_milli_per_mwh(5_000))], None).expect("a curve");
    change(&mut client, Change::Prices(Some(curve))).await;
    master.signal(nix::sys::signal::Signal::SIGKILL);
    master.wait();
    let master = start(dir.path(), &config);
    let mut client = Client::new(&master).await;
    let heard = |status: &limo_proto::Status| status.feeds.first().is_some_and(|feed| feed.last_success.is_some());
    let status = client.status_with("the feed is heard", heard).await;
    assert_eq!((status.price, status.prices_by.is_some()), (price(5_000), true));
    change(&mut client, Change::FollowFeeds).await;
    let status = client.status_with("the feed holds again", |status| status.price == price(42_500)).await;
    assert_eq!(status.prices_by, None);
    server.stop();
}

async fn change(client: &mut Client, change: Change) {
    client.say(ClientToMaster::ChangeConf(Box::new(change))).await;
    let answer = client.hear_of(|message| match message {
        MasterToClient::Answer(_) => Some(Ok(())),
        MasterToClient::Refused { reason, .. } => Some(Err(reason.clone())),
        _ => None,
    });
    assert_eq!(answer.await, Ok(()));
}

#[tokio::test]
async fn without_feeds_the_log_does_not_name_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let master = Master::start(dir.path());
    let mut client = Client::new(&master).await;
    let status = client.status_with("a status", |_| true).await;
    assert_eq!((status.feeds.len(), status.price, status.prices_by), (0, None, None));
    client.say(ClientToMaster::ChangeConf(Box::new(Change::FollowFeeds))).await;
    let refused = client.hear_of(|message| match message {
        MasterToClient::Refused { reason, hint } => Some((reason.clone(), hint.clone())),
        _ => None,
    });
    let (reason, hint) = refused.await;
    assert!(reason == "no feed of prices is configured" && hint.expect("a hint").contains("[[feed.price]]"));
    client.ask(Query::Status(StatusQuery)).await;
}

#[test]
fn a_table_that_is_not_good_is_found_before_anything_starts() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lmaster.toml");
    std::fs::write(&path, "[feed.carbon]\nsource = \"uk\"\nweight = \"80\"\n").expect("written");
    let output = lmaster().arg("--check-config").arg("--config").arg(&path).output().expect("lmaster runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("feed.carbon: weight: `80` is not a price of a tonne: write for example `80 EUR/t`"),
        "{said}"
    );
}
