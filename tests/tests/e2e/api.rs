//! The API of a running master: its answers are those of `lq --json`, and as its description says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use limo_tests::{Cluster, STRANGER, Setup, Stranger, until};
use serde_json::Value;

use crate::metrics::{address, get};

const DESCRIPTION: &str = include_str!("../../../docs/openapi.json");

/// Returns the answer of a path below the root of the API.
fn ask(address: &str, path: &str) -> Value {
    let (status, body) = get(address, &format!("/api/v1{path}"), address);
    assert_eq!(status, "HTTP/1.1 200 OK", "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// Sends a request as another user and group; returns the answer.
pub(crate) fn request_as((uid, gid): (u32, u32), address: &str, request: &str) -> String {
    let (place, text) = (address.replace(':', "/"), request.replace("\r\n", "\\r\\n"));
    let script = format!("exec 3<>/dev/tcp/{place}; printf '{text}' >&3; cat <&3");
    let said = Command::new("bash").args(["-c", &script]).uid(uid).gid(gid).output().expect("bash runs");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

/// Returns the status and the text of an error.
fn refusal(address: &str, path: &str) -> (String, String) {
    let (status, body) = get(address, &format!("/api/v1{path}"), address);
    let json: Value = serde_json::from_str(&body).expect("JSON");
    (status, json["error"].as_str().expect("a text").to_owned())
}

/// A cluster with limits, prices, a budget and jobs: one ended, one that runs, one that is held, and one that waits.
fn cluster() -> (Cluster, [u64; 4]) {
    let cluster = Setup::nodes(2, 2).master(&["--web", "127.0.0.1:0"]).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["set", "limits", "10W", "10kW"]).succeeded();
    let prices = "time,price\n2026-01-01 00:00,-5 EUR/MWh\n2100-01-01 00:00,0 EUR/MWh\n";
    std::fs::write(submitter.path("prices.csv"), prices).expect("written");
    submitter.lconf(&["set", "price", "prices.csv"]).succeeded();
    submitter.lconf(&["set", "budget", "1kWh", "--until", "now+1h"]).succeeded();
    let over = submitter.detach(&["true"]);
    assert_eq!(submitter.wait(over), Some(0));
    let running = submitter.detach(&["-c", "2", "-t", "1h", "sleep", "1000"]);
    until("the job runs", || (submitter.state(running) == "running").then_some(()));
    let held = submitter.detach(&["--hold", "true"]);
    let waiting = submitter.detach(&["-N", "2", "-t", "10min", "true"]);
    until("the job waits", || (submitter.state(waiting) == "waiting").then_some(()));
    (cluster, [over, running, held, waiting])
}

/// Checks that a value fits a schema of the description: all keys are there, and no others.
fn fits(all: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let found = all.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{place}: no {name}"));
        return fits(all, found, value, place);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().for_each(|part| fits(all, part, value, place));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let of_null = |choice: &&Value| (choice["type"] == "null") == value.is_null();
        return fits(all, choices.iter().find(of_null).expect("a choice"), value, place);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let named = |named: &Value| named == kind || (kind == "integer" && named == "number");
    let types = &schema["type"];
    assert!(named(types) || types.as_array().is_some_and(|all| all.iter().any(named)), "{place} is {value}: {types}");
    match value {
        Value::Array(values) => values.iter().for_each(|value| fits(all, &schema["items"], value, place)),
        Value::Object(entries) => {
            for (key, value) in entries {
                let inner = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
                assert!(inner.is_object(), "{place} has no {key} in the description");
                fits(all, inner, value, &format!("{place}.{key}"));
            }
            for key in schema["required"].as_array().into_iter().flatten() {
                assert!(entries.contains_key(key.as_str().expect("a name")), "{place} has no {key}");
            }
        }
        _ => {}
    }
}

#[test]
fn answers_are_as_described() {
    let (cluster, [over, running, _, waiting]) = cluster();
    let address = address(&cluster);
    let description = ask(&address, "/openapi.json");
    assert_eq!(description, serde_json::from_str::<Value>(DESCRIPTION).expect("JSON"));
    let job = |id: u64| format!("/jobs/{id}");
    let mut paths = vec!["/overview", "/jobs", "/jobs?over=true", "/nodes", "/map", "/plan", "/draw", "/changes"];
    let energy = ["user", "application", "job", "node", "group", "state", "day"].map(|by| format!("/energy?by={by}"));
    let jobs = [job(over), job(running), job(waiting)];
    paths.extend(energy.iter().chain(&jobs).map(String::as_str));
    for path in paths {
        let route = path.split('?').next().unwrap_or_default();
        let route = if route.starts_with("/jobs/") { "/jobs/{id}" } else { route };
        let described = &description["paths"][format!("/api/v1{route}")]["get"];
        let schema = &described["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{route} is described");
        fits(&description, schema, &ask(&address, path), path);
    }
}

#[test]
fn jobs_are_those_of_lq_and_come_in_pages() {
    let (cluster, [over, running, held, waiting]) = cluster();
    let submitter = cluster.submitter();
    let address = address(&cluster);
    let ids = |path: &str| {
        let page = ask(&address, path);
        let ids: Vec<u64> =
            page["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_u64()).collect();
        (ids, page["cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(ids("/jobs"), (vec![running, held, waiting], None));
    assert_eq!(ids("/jobs?order=desc"), (vec![waiting, held, running], None));
    assert_eq!(ids("/jobs?over=true"), (vec![over], None));
    assert_eq!(ids("/jobs?state=waiting"), (vec![held, waiting], None));
    assert_eq!(ids("/jobs?state=waiting,running&user=nobody"), (vec![], None));
    // The limits are 1 h, none and 10 min; those without one come last.
    assert_eq!(ids("/jobs?sort=time_limit"), (vec![waiting, running, held], None));
    let node = ask(&address, &format!("/jobs/{running}"))["job"]["nodes"][0].as_str().expect("a node").to_owned();
    assert_eq!(ids(&format!("/jobs?node={node}")), (vec![running], None));
    for sort in ["number", "start", "time_limit", "cores"] {
        for order in ["asc", "desc"] {
            let path = format!("/jobs?sort={sort}&order={order}");
            let (mut pages, mut cursor) = (Vec::new(), String::new());
            loop {
                let (page, next) = ids(&format!("{path}&limit=1{cursor}"));
                assert_eq!(page.len(), 1, "{path}: {pages:?}");
                pages.extend(page);
                match next {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(pages, ids(&path).0, "{path}");
        }
    }
    let of_lq: Value =
        serde_json::from_str(&submitter.lq(&["show", &over.to_string(), "--json"]).succeeded()).expect("JSON");
    assert_eq!(ask(&address, &format!("/jobs/{over}"))["job"], of_lq["jobs"][0]);
    let detail = ask(&address, &format!("/jobs/{held}"));
    assert_eq!(detail["explanation"]["job"]["wait_kind"], "held", "{detail}");
    assert_eq!(ask(&address, &format!("/jobs/{running}"))["explanation"], Value::Null);
}

#[test]
fn prices_below_zero_budgets_and_reasons_are_in_the_overview() {
    let (cluster, _) = cluster();
    let overview = until("the reasons are there", || {
        let overview = ask(&address(&cluster), "/overview");
        (overview["waiting_by_reason"]["held"] == 1).then_some(overview)
    });
    assert_eq!(overview["price_per_mwh"], -5.0);
    assert_eq!((&overview["currency"], &overview["band_high_w"]), (&"EUR".into(), &10_000.0.into()));
    assert_eq!((&overview["nodes"]["up"], &overview["cores_used"]), (&2.into(), &2.into()), "{overview}");
    assert_eq!(overview["budget"]["energy_j"], 3_600_000.0, "{overview}");
    let plan = ask(&address(&cluster), "/plan");
    assert_eq!(plan["prices"][0]["price_per_mwh"], -5.0, "{plan}");
    assert_eq!(plan["limits"][0]["high_w"], 10_000.0, "{plan}");
    let subjects = ask(&address(&cluster), "/changes").to_string();
    assert!(subjects.contains("limits") && subjects.contains("price"), "{subjects}");
}

#[test]
fn wrong_requests_are_refused_with_a_reason() {
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let address = address(&cluster);
    let check = |path: &str, status: &str, expected: &str| {
        let (found, reason) = refusal(&address, path);
        assert!(found.contains(status) && reason.contains(expected), "{path}: {found}: {reason}");
    };
    check("/jobs?limit=201", "400", "limit=201: it must be 1 to 200");
    check("/jobs?state=asleep", "400", "state=asleep: it must be one of waiting, starting");
    check("/jobs?cursor=x", "400", "cursor=x: it must be the cursor of the page before");
    check("/jobs?color=red", "400", "there is no parameter `color` here");
    check(&format!("/jobs?user={}", "a".repeat(300)), "400", "longest of the names");
    check(&format!("/jobs?user={}", "a,".repeat(3_000)), "400", "the query has 6005 bytes: the limit is 4096");
    check("/jobs/7", "404", "there is no job 7");
    check("/jobs/x", "400", "a whole number");
    check("/plan?from_unix_ms=1&until_unix_ms=99999999999", "400", "the range is longer than 366 days");
    check("/energy?by=colour", "400", "by=colour: it must be user");
    check("/nothing", "404", "there is no");
    let port = address.rsplit_once(':').expect("a port").1;
    assert_eq!(get(&address, "/api/v1/jobs", &format!("evil.example:{port}")).0, "HTTP/1.1 403 Forbidden");
    let mut stream = TcpStream::connect(&address).expect("it listens");
    write!(stream, "POST /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 405") && answer.contains("this method is not possible"), "{answer}");
}

#[test]
fn a_greedy_user_does_not_keep_others_from_the_page() {
    let Some(_) = Stranger::new() else { return };
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let address = address(&cluster);
    // More silent connections than the master has for all users; the last is refused at once.
    let open = format!("for i in {{1..500}}; do exec {{fd}}<>/dev/tcp/{}; done", address.replace(':', "/"));
    let script = format!("ulimit -n 1024; {open}; read -r line <&$fd; echo \"$line\"; cat");
    let mut greedy = Command::new("bash");
    greedy.args(["-c", &script]).uid(STRANGER).gid(STRANGER).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut greedy = greedy.spawn().expect("bash runs");
    let mut said = BufReader::new(greedy.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line.trim_end(), "HTTP/1.1 429 Too Many Requests");
    // Its connections are still open.
    assert_eq!(ask(&address, "/overview")["nodes"]["up"], 1);
    drop(greedy.stdin.take());
    greedy.wait().expect("it ends");
}

#[test]
fn another_user_does_not_see_commands_that_lq_hides() {
    let Some(_) = Stranger::new() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("lmaster.toml");
    std::fs::write(&settings, "[privacy]\ncommands = \"owner\"\n").expect("written");
    let config = settings.to_str().expect("text");
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0", "--config", config]).start();
    let submitter = cluster.submitter();
    let job = submitter.detach(&["--hold", "sleep", "confidential"]);
    let address = address(&cluster);
    assert!(ask(&address, "/jobs").to_string().contains("confidential"));
    let request = format!("GET /api/v1/jobs/{job} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let text = request_as((STRANGER, STRANGER), &address, &request);
    assert!(text.contains("(hidden)") && !text.contains("confidential"), "{text}");
}
