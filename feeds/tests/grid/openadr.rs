//! VTN of OpenADR 3.1: its token, its events as in the specification, and its faults.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use limo_feeds::fetch::Fetcher;
use limo_feeds::grid::openadr::{OpenAdr, run};
use limo_feeds::grid::{Limit, Word};
use limo_model::Power;
use serde_json::{Value, json};

use crate::server::{Asked, Back, Server, answer, json as answer_json};
use crate::{Ear, POLL};

const TIMEOUT: Duration = Duration::from_secs(3);

/// An incomplete answer.
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n[{";

/// An event of the program `p` with `content` besides the common members.
fn event(id: &str, content: Value) -> Value {
    let mut event = json!({
        "id": id,
        "createdDateTime": "2026-11-01T00:00:00Z",
        "modificationDateTime": "2026-11-02T00:00:00Z",
        "objectType": "EVENT",
        "programID": "p",
        "targets": null,
        "priority": null,
    });
    for (key, value) in content.as_object().expect("an object") {
        event[key] = value.clone();
    }
    event
}

/// A capacity limit for an hour from 2026-11-22 18:00 UTC, as in the reference of the format.
fn limit(id: &str, units: Option<&str>, value: f64) -> Value {
    let mut event = event(
        id,
        json!({
            "intervalPeriod": {"start": "2026-11-22T18:00:00Z", "duration": "PT1H"},
            "intervals": [{"id": 0, "payloads": [{"type": "IMPORT_CAPACITY_LIMIT", "values": [value]}]}],
        }),
    );
    if let Some(units) = units {
        event["payloadDescriptors"] = json!([{"payloadType": "IMPORT_CAPACITY_LIMIT", "units": units}]);
    }
    event
}

/// Returns a script of a VTN with these events.
fn vtn(events: Vec<Value>) -> impl FnMut(&Asked) -> Back + Send + 'static {
    let events = Value::Array(events).to_string();
    move |asked| {
        if asked.line.starts_with("POST /auth/token") {
            assert!(asked.head.contains("authorization: basic "), "{}", asked.head);
            return answer_json(r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":30}"#);
        }
        if !asked.head.contains("authorization: bearer t0ken") {
            let problem = r#"{"title":"no token","status":403}"#;
            return answer("403 Forbidden", "content-type: application/problem+json\r\n", problem);
        }
        answer_json(&events)
    }
}

fn credentials(dir: &Path) -> PathBuf {
    let path = dir.join("vtn.toml");
    std::fs::write(&path, "client_id = \"ven\"\nclient_secret = \"secret\"\n").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("allowed");
    path
}

fn ask(server: &Server, credentials: Option<PathBuf>) -> Ear {
    let (teller, ear) = Ear::new();
    let ven = OpenAdr {
        url: server.url("/openadr3/3.1.0"),
        token_url: None,
        credentials,
        program: Some("p".into()),
        emergency_high: Power::from_watts(100),
        poll: POLL,
    };
    tokio::spawn(run(ven, Fetcher::new(TIMEOUT, None).expect("TLS"), teller));
    ear
}

/// Returns the limits of events, and the receiver for later messages.
async fn read(events: Vec<Value>) -> (Vec<Limit>, Ear) {
    let server = Server::start(vtn(events)).await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut ear = ask(&server, Some(credentials(dir.path())));
    let limits = ear
        .next_of(|word| match word {
            Word::Limits(limits) => Some(limits.clone()),
            _ => None,
        })
        .await;
    (limits, ear)
}

/// Returns seconds after 2026-11-22 18:00 UTC, which is 1795370400 s (date -d).
fn seconds(at: limo_model::Time) -> i64 {
    at.unix_ms() / 1_000 - 1_795_370_400
}

/// Checks begin, end and watts of each limit.
async fn check(events: Vec<Value>, expected: &[(i64, Option<i64>, f64)]) {
    let (limits, _) = read(events).await;
    let found: Vec<_> =
        limits.iter().map(|limit| (seconds(limit.from), limit.until.map(seconds), limit.high.watts())).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_token_is_had_and_the_events_of_the_program_are_asked_for() {
    let server = Server::start(vtn(vec![limit("e", Some("KW"), 5.0)])).await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut ear = ask(&server, Some(credentials(dir.path())));
    assert_eq!(ear.watts(1).await, [5_000.0]);
    let asked = server.asked();
    assert!(asked[0].line.starts_with("POST /auth/token") && asked[0].body.contains("grant_type=client_credentials"));
    let line = &asked[1].line;
    assert!(line.starts_with("GET /openadr3/3.1.0/events?") && line.contains("programID=p"), "{line}");
    // The event is withdrawn.
    server.now(vtn(Vec::new()));
    assert!(ear.watts(0).await.is_empty());
}

#[tokio::test]
async fn units_are_those_of_the_descriptor() {
    check(vec![limit("e", Some("KW"), 5.5)], &[(0, Some(3_600), 5_500.0)]).await;
    check(vec![limit("e", Some("W"), 800.0)], &[(0, Some(3_600), 800.0)]).await;
    check(vec![limit("e", None, 2.0)], &[(0, Some(3_600), 2_000.0)]).await;
    let (limits, mut ear) = read(vec![limit("bad", Some("KVA"), 5.0), limit("good", Some("W"), 7.0)]).await;
    assert_eq!(limits.iter().map(|limit| limit.high.watts()).collect::<Vec<_>>(), [7.0], "the others still count");
    ear.fault("event bad: IMPORT_CAPACITY_LIMIT is in `KVA`: it must be in KW or W").await;
    let (limits, mut ear) = read(vec![limit("bad", None, -1.0)]).await;
    assert!(limits.is_empty());
    ear.fault("a limit of -1000 W").await;
}

#[tokio::test]
async fn intervals_follow_each_other_and_repeat() {
    let payload = |watts: f64| json!([{"type": "IMPORT_CAPACITY_LIMIT", "values": [watts]}]);
    let period =
        |duration: &str| json!({"start": "2026-11-22T18:00:00Z", "duration": duration, "randomizeStart": "PT5M"});
    let two = json!([{"id": 0, "payloads": payload(1.0)}, {"id": 1, "payloads": payload(2.0)}]);
    let hours = json!({"intervalPeriod": period("PT1H"), "intervals": two});
    check(vec![event("e", hours)], &[(0, Some(3_600), 1e3), (3_600, Some(7_200), 2e3)]).await;
    let looped = json!({"intervalPeriod": period("PT1H"), "duration": "PT2H30M", "intervals": two});
    let expected = [(0, Some(3_600), 1e3), (3_600, Some(7_200), 2e3), (7_200, Some(9_000), 1e3)];
    check(vec![event("e", looped)], &expected).await;
    let own = json!({"intervals": [{"id": 0, "intervalPeriod": period("PT15M"), "payloads": payload(1.0)}]});
    check(vec![event("e", own)], &[(0, Some(900), 1e3)]).await;
    let endless = json!({"intervalPeriod": period("P9999Y"), "intervals": two});
    check(vec![event("e", endless)], &[(0, None, 1e3)]).await;
    // "Now" is the time of the event's last change: 2026-11-02, 20 days and 18 h before.
    let begin = json!({"start": "0001-01-01T00:00:00Z", "duration": "PT0S"});
    let now = json!({"intervalPeriod": begin, "intervals": [{"id": 0, "payloads": payload(1.0)}]});
    check(vec![event("e", now)], &[(-(20 * 24 + 18) * 3_600, None, 1e3)]).await;
}

#[tokio::test]
async fn priorities_and_alerts_are_read_and_other_events_ignored() {
    let period = json!({"start": "2026-11-22T18:00:00Z", "duration": "PT1H"});
    let of = |kind: &str, value: Value| json!([{"id": 0, "payloads": [{"type": kind, "values": [value]}]}]);
    let mut first = limit("first", None, 1.0);
    first["priority"] = json!(3);
    let alert = json!({"intervalPeriod": period, "intervals": of("ALERT_GRID_EMERGENCY", json!("save power"))});
    let price = json!({"intervalPeriod": period, "intervals": of("PRICE", json!("dear"))});
    let (limits, _) = read(vec![first, event("a", alert), event("b", price)]).await;
    let found: Vec<_> = limits.iter().map(|limit| (limit.priority, limit.emergency, limit.high.watts())).collect();
    assert_eq!(found, [(3, false, 1e3), (u32::MAX, true, 100.0)]);
}

#[tokio::test]
async fn faults_are_reported_and_a_new_token_is_requested() {
    let server = Server::start(vtn(Vec::new())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut ear = ask(&server, Some(credentials(dir.path())));
    assert!(ear.watts(0).await.is_empty());
    // After each fault the server works for a moment, so that the pauses stay short.
    let mut check = async |script: fn(&Asked) -> Back, part: &str| {
        server.now(script);
        ear.fault(part).await;
        server.now(vtn(Vec::new()));
        ear.watts(0).await;
    };
    let oh_no = |_: &Asked| answer("500 Internal Server Error", "content-type: text/html\r\n", "<h1>oh no</h1>");
    check(oh_no, "status 500: the server said `<h1>oh no</h1>`").await;
    check(|_| answer("429 Too Many Requests", "retry-after: 0\r\n", ""), "status 429").await;
    check(|_| Back::Bytes(HALF.into()), "end of file before message length reached").await;
    check(|_| answer("200 OK", "content-type: text/html\r\n", "<p>"), "the answer is `text/html`").await;
    check(|_| Back::Silence, "no complete answer within 3 s").await;
    server.now(|_| answer_json(r#"{"access_token":"x","token_type":"mac"}"#));
    ear.fault("is not OpenADR 3.1: ").await;
    ear.fault("the token has the type `mac` instead of Bearer").await;
    let before = server.asked().len();
    server.now(vtn(vec![limit("e", None, 1.0)]));
    assert_eq!(ear.watts(1).await, [1_000.0]);
    assert!(server.asked()[before..].iter().any(|asked| asked.line.starts_with("POST /auth/token")));
}

#[tokio::test]
async fn invalid_events_and_endless_lists_are_refused() {
    let server = Server::start(|asked| {
        if asked.line.starts_with("POST") {
            return answer_json(r#"{"access_token":"t","token_type":"Bearer"}"#);
        }
        answer_json(r#"[{"id":"e","programID":5}]"#)
    })
    .await;
    let dir = tempfile::tempdir().expect("a directory");
    let mut ear = ask(&server, Some(credentials(dir.path())));
    ear.fault("the answer is not OpenADR 3.1: ").await;
    // The server's text may be long, but the reported fault is not.
    let unit = "u".repeat(100_000);
    server.now(vtn(vec![limit("e", Some(&unit), 1.0)]));
    let fault = ear.fault("IMPORT_CAPACITY_LIMIT is in `uu").await;
    assert!(fault.chars().count() <= 500, "{} characters", fault.chars().count());
    // Every requested page is full.
    server.now(vtn((0..50).map(|index| limit(&format!("e{index}"), None, 1.0)).collect()));
    ear.fault("more than 1000 events").await;
}

#[tokio::test]
async fn without_valid_credentials_no_request_is_sent() {
    let server = Server::start(vtn(Vec::new())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = credentials(dir.path());
    std::fs::write(&path, "client_id = \"ven\"\nsecret = \"hush\"\n").expect("written");
    let mut ear = ask(&server, Some(path));
    let fault = ear.fault("has no credentials").await;
    assert!(!fault.contains("hush") && server.asked().is_empty());
}
