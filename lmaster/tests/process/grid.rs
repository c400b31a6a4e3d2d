//! Limits of the grid through a real master. Sent, served and written limits come into force, and a lost connection
//! leads to the failsafe limit. All of this survives a crash.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{Client, Master};
use limo_model::{Band, Curve, Power};
use limo_proto::{Answer, Change, ClientToMaster, GridState, MasterToClient, Query, Status, StatusQuery};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Longest wait of a test: longer than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval between two queries of the status.
const LOOK: Duration = Duration::from_millis(20);

/// Directory of a master, with its configuration.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new(configuration: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let token = dir.path().join("token");
        std::fs::write(&token, "s3cret\n").expect("written");
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("allowed");
        let site = Self { dir };
        let text = configuration.replace("DIR", &site.dir.path().display().to_string());
        std::fs::write(site.path("lmaster.toml"), text).expect("written");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.path("state")
    }

    fn start(&self) -> Master {
        let file = self.path("lmaster.toml");
        Master::start_with(&self.state(), "127.0.0.1:0", &["--config", file.to_str().expect("text")])
    }
}

/// Queries the status until it has the wanted property.
async fn until(client: &mut Client, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
    let mut looks = tokio::time::interval(LOOK);
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            looks.tick().await;
            let status = status(client).await;
            if wanted(&status) {
                return status;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

async fn status(client: &mut Client) -> Status {
    match client.ask(Query::Status(StatusQuery)).await {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

fn is_high(watts: i64) -> impl Fn(&Status) -> bool {
    move |status| status.band.high() == Power::from_watts(watts)
}

/// Sends a request to the listener of `source`; returns the status line of the answer.
async fn send(state: &Path, source: &str, line: &str, body: &str) -> String {
    let address = std::fs::read_to_string(state.join(format!("grid-{source}.address"))).expect("an address");
    let mut stream = TcpStream::connect(address.trim()).await.expect("listening");
    let length = body.len();
    let text = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer s3cret\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer.lines().next().unwrap_or_default().to_owned()
}

const PUSH: &str = "[[grid]]\nname = \"dso\"\npush = { listen = \"127.0.0.1:0\", token_file = \"DIR/token\" }\n";

#[tokio::test]
async fn a_limit_that_is_sent_comes_into_force_and_outlasts_a_crash() {
    let site = Site::new(PUSH);
    let master = site.start();
    let mut client = Client::new(&master).await;
    let first = status(&mut client).await;
    assert_eq!((first.band, first.grid[0].state), (Band::UNLIMITED, GridState::Ok));
    let limit = r#"{"high_w": 500, "until": "2100-01-01T00:00:00Z"}"#;
    assert_eq!(send(&site.state(), "dso", "PUT /limits", limit).await, "HTTP/1.1 202 Accepted");
    let limited = until(&mut client, "500 W", is_high(500)).await;
    assert_eq!(limited.own_band, Some(Band::UNLIMITED));
    // At the end of the limit the operator's band holds again, as the report already shows.
    assert_eq!(limited.next_band.map(|(_, band)| band), Some(Band::UNLIMITED));
    // A narrower band of the operator stays known.
    let own = Band::new(Power::from_watts(100), Power::from_watts(900)).expect("a band");
    client.say(ClientToMaster::ChangeConf(Box::new(Change::Limits(Curve::constant(own))))).await;
    client.hear_of(|message| matches!(message, MasterToClient::Answer(_)).then_some(())).await;
    let narrowed = status(&mut client).await;
    let expected = Band::new(Power::from_watts(100), Power::from_watts(500)).expect("a band");
    assert_eq!((narrowed.band, narrowed.own_band), (expected, Some(own)));
    drop(master);
    let master = site.start();
    let mut client = Client::new(&master).await;
    let again = status(&mut client).await;
    assert_eq!((again.band, again.own_band), (expected, Some(own)));
    assert_eq!(send(&site.state(), "dso", "DELETE /limits", "").await, "HTTP/1.1 202 Accepted");
    let free = until(&mut client, "the operator's band", |status| status.band == own).await;
    assert_eq!(free.own_band, None);
}

#[tokio::test]
async fn a_silent_source_is_failsafe_until_it_answers() {
    let more = "obligatory = true\nheartbeat = \"1s\"\nfailsafe_high = \"30 W\"\nfailsafe_for = \"0s\"\n";
    let site = Site::new(&PUSH.replace("push =", &format!("{more}push =")));
    let master = site.start();
    let mut client = Client::new(&master).await;
    let first = status(&mut client).await;
    assert_eq!((first.grid[0].state, first.band.high()), (GridState::Failsafe, Power::from_watts(30)), "at the start");
    send(&site.state(), "dso", "PUT /limits", r#"{"high_w": 500}"#).await;
    until(&mut client, "500 W", is_high(500)).await;
    master.logged("a source of limits works again");
    let lost = until(&mut client, "failsafe", is_high(30)).await;
    assert_eq!(lost.grid[0].state, GridState::Failsafe);
    master.logged("its failsafe limit applies");
    // The limit survives a crash.
    drop(master);
    let master = site.start();
    let mut client = Client::new(&master).await;
    assert!(is_high(30)(&status(&mut client).await));
    send(&site.state(), "dso", "PUT /limits", "[]").await;
    until(&mut client, "no limits", |status| status.grid[0].state == GridState::Ok).await;
}

/// Runs a VTN that answers every request with the same event, until its task ends.
async fn vtn() -> (u16, tokio::task::JoinHandle<()>) {
    let event = r#"[{"id":"e","createdDateTime":"2026-01-01T00:00:00Z","modificationDateTime":"2026-01-01T00:00:00Z",
        "objectType":"EVENT","programID":"p","priority":1,
        "intervalPeriod":{"start":"2026-01-01T00:00:00Z","duration":"P9999Y"},
        "payloadDescriptors":[{"payloadType":"IMPORT_CAPACITY_LIMIT","units":"KW"}],
        "intervals":[{"id":0,"payloads":[{"type":"IMPORT_CAPACITY_LIMIT","values":[0.7]}]}]}]"#;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            // A request for events fits into one read of loopback.
            let _ = stream.read(&mut head).await;
            let length = event.len();
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all((text + event).as_bytes()).await;
        }
    });
    (port, serving)
}

#[tokio::test]
async fn a_vtn_is_asked_and_its_silence_is_noticed() {
    let (port, serving) = vtn().await;
    let site = Site::new(&format!(
        "[[grid]]\nname = \"vtn\"\nheartbeat = \"2s\"\nfailsafe_high = \"60 W\"\n\
         openadr = {{ url = \"http://127.0.0.1:{port}/openadr3/3.1.0\", program = \"p\", poll = \"100ms\" }}\n"
    ));
    let master = site.start();
    let mut client = Client::new(&master).await;
    let limited = until(&mut client, "700 W", is_high(700)).await;
    assert_eq!((limited.grid[0].state, limited.grid[0].fault.clone()), (GridState::Ok, None));
    serving.abort();
    let lost = until(&mut client, "failsafe", is_high(60)).await;
    let fault = lost.grid[0].fault.clone().expect("a fault");
    assert!(
        lost.grid[0].state == GridState::Failsafe && fault.contains(&format!("http://127.0.0.1:{port}/")),
        "{fault}"
    );
}

#[tokio::test]
async fn an_invalid_file_keeps_the_earlier_limits() {
    let site = Site::new("[[grid]]\nname = \"file\"\nfile = { path = \"DIR/limit.json\", poll = \"100ms\" }\n");
    let path = site.path("limit.json");
    std::fs::write(&path, "{\"high_w\": 400}").expect("written");
    let master = site.start();
    let mut client = Client::new(&master).await;
    until(&mut client, "400 W", is_high(400)).await;
    std::fs::write(&path, "{\"high_w\": 4").expect("written");
    let line = master.logged("a source of limits fails");
    assert!(line.contains("limit.json: not JSON"), "{line}");
    let broken = until(&mut client, "a fault", |status| status.grid[0].fault.is_some()).await;
    assert!(is_high(400)(&broken));
    std::fs::write(&path, "{\"high_w\": 300}").expect("written");
    let good = until(&mut client, "300 W", is_high(300)).await;
    assert_eq!(good.grid[0].fault, None);
}
