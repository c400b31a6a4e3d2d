//! Plugs of Shelly and with Tasmota.

use std::sync::Mutex;
use std::time::Duration;

use limo_model::Power;
use limo_power::{MeterChoice, Reading, Site};
use sha2::{Digest, Sha256};

use crate::http::access;
use crate::web::{Answer, Request, Server};

/// Reads a meter. `SERVER` in the choice and in errors stands for the server's address.
fn read(server: &Server, choice: &str, site: &Site) -> Result<Reading, String> {
    let choice: MeterChoice = choice.replace("SERVER", &server.url("")).parse().expect("a choice");
    choice.meter(site).read(Duration::ZERO).map_err(|error| error.to_string().replace(&server.url(""), "SERVER"))
}

fn site() -> Site {
    Site::new("/sys".as_ref())
}

fn check(choice: &str, answer: &'static str, expected: Result<i64, &str>) {
    let server = Server::start(move |_| Answer::json(answer));
    match (read(&server, choice, &site()), expected) {
        (Ok(reading), Ok(mw)) => assert_eq!(reading, Reading::Draw(Power::from_mw(mw))),
        (Err(error), Err(text)) => assert!(error.starts_with(text), "`{text}` begins\n`{error}`"),
        (found, expected) => panic!("{answer}: {found:?} instead of {expected:?}"),
    }
}

#[test]
fn a_switch_of_shelly() {
    let status = "{\"id\":3,\"source\":\"init\",\"output\":true,\"apower\":41.53,\"voltage\":229.7,\"current\":0.2,\
                  \"aenergy\":{\"total\":11.679,\"by_minute\":[0.0],\"minute_ts\":1654511972}}";
    let server = Server::start(move |_| Answer::json(status));
    assert_eq!(read(&server, "shelly:SERVER#3", &site()), Ok(Reading::Draw(Power::from_mw(41_530))));
    assert_eq!(read(&server, "shelly:SERVER", &site()), Ok(Reading::Draw(Power::from_mw(41_530))));
    assert_eq!(server.lines(), ["GET /rpc/Switch.GetStatus?id=3", "GET /rpc/Switch.GetStatus?id=0"]);
    check(
        "shelly:SERVER",
        "{\"id\":0,\"output\":true}",
        Err("SERVER/rpc/Switch.GetStatus?id=0 has no `/apower`: this switch does not measure, or the device is older"),
    );
    check(
        "shelly:SERVER",
        "{\"apower\":0.0}",
        Err("SERVER/rpc/Switch.GetStatus?id=0 shows 0.0 W: the draw of a running machine"),
    );
    let missing = Server::start(|_| Answer::status("404 Not Found"));
    let error = read(&missing, "shelly:SERVER#9", &site()).expect_err("no such switch");
    assert_eq!(error, "SERVER/rpc/Switch.GetStatus answers HTTP 404: the address does not exist");
}

/// Returns a field of `Authorization`.
fn field(request: &Request, name: &str) -> Option<String> {
    let header = request.header("authorization")?.strip_prefix("Digest ")?;
    let value = header.split(", ").find_map(|part| part.strip_prefix(&format!("{name}=")))?;
    Some(value.trim_matches('"').to_owned())
}

fn hash(text: String) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if the request proves knowledge of the password; `seen` has the used counters.
fn is_proven(request: &Request, nonce: &str, seen: &mut Vec<String>) -> bool {
    let Some(count) = field(request, "nc") else { return false };
    let of = |name: &str| field(request, name).expect("a whole answer");
    assert!(!seen.contains(&count), "each is used once: {count}");
    seen.push(count.clone());
    let (method, path) = request.line.split_once(' ').expect("a request");
    let secret = hash("admin:shellyplus1pm-a8032abe54dc:geheim".to_owned());
    let asked = hash(format!("{method}:{path}"));
    let proof = hash(format!("{secret}:{nonce}:{count}:{}:auth:{asked}", of("cnonce")));
    of("nonce") == nonce && of("uri") == path && of("username") == "admin" && of("response") == proof
}

#[test]
fn a_shelly_with_a_password() {
    // The nonce expires after two readings.
    let state: Mutex<(u32, Vec<String>)> = Mutex::default();
    let server = Server::start(move |request| {
        let mut state = state.lock().expect("no panic");
        let (number, seen) = &mut *state;
        if seen.len() < 2 && is_proven(request, &number.to_string(), seen) {
            return Answer::json("{\"apower\":41.5}");
        }
        *number += 1;
        seen.clear();
        let realm = "realm=\"shellyplus1pm-a8032abe54dc\"";
        let header =
            format!("WWW-Authenticate: Digest qop=\"auth\", {realm}, nonce=\"{number}\", algorithm=SHA-256\r\n");
        Answer::new("401 Unauthorized", &header, "")
    });
    let choice: MeterChoice = format!("shelly:{}", server.url("")).parse().expect("a choice");
    let mut meter = choice.meter(&Site { access: access("user = \"admin\"\npassword = \"geheim\""), ..site() });
    for _ in 0..5 {
        assert_eq!(meter.read(Duration::ZERO).expect("a reading"), Reading::Draw(Power::from_mw(41_500)));
    }
    assert_eq!(server.asked().len(), 8, "three challenges for five readings");

    let mut wrong = choice.meter(&Site { access: access("user = \"admin\"\npassword = \"falsch\""), ..site() });
    let error = wrong.read(Duration::ZERO).expect_err("not let in").to_string();
    assert!(error.contains("does not accept those it was given (HTTP 401)"), "{error}");
    let error = choice.meter(&site()).read(Duration::ZERO).expect_err("not let in").to_string();
    assert!(error.contains("asks for a user and a password"), "{error}");
    let old = Server::start(|_| Answer::new("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n", ""));
    let login = Site { access: access("user = \"admin\"\npassword = \"geheim\""), ..site() };
    let error = read(&old, "shelly:SERVER", &login).expect_err("not let in");
    assert_eq!(
        error,
        "SERVER/rpc/Switch.GetStatus requires `Basic realm=\"x\"`: only digest with SHA-256 is supported"
    );
}

#[test]
fn a_plug_with_tasmota() {
    let one =
        "{\"StatusSNS\":{\"Time\":\"2026-01-02T03:04:05\",\"ENERGY\":{\"Total\":3.185,\"Power\":42,\"Factor\":0.9}}}";
    let two = "{\"StatusSNS\":{\"ENERGY\":{\"Total\":3.185,\"Power\":[12.5,30]}}}";
    check("tasmota:SERVER", one, Ok(42_000));
    check("tasmota:SERVER#1", one, Ok(42_000));
    check("tasmota:SERVER#1", two, Ok(12_500));
    check("tasmota:SERVER#2", two, Ok(30_000));
    check("tasmota:SERVER", "{\"StatusSNS\":{\"ENERGY\":{\"Power\":[7]}}}", Ok(7_000));
    check("tasmota:SERVER#2", one, Err("SERVER/cm has no channel 2: it has 1, counted from 1"));
    check("tasmota:SERVER#3", two, Err("SERVER/cm has no channel 3: it has 2, counted from 1"));
    check("tasmota:SERVER", two, Err("SERVER/cm has 2 channels: name one of them, for example `tasmota:SERVER#1`"));
    check(
        "tasmota:SERVER#1",
        "{\"StatusSNS\":{\"ENERGY\":{\"Power\":[null]}}}",
        Err("SERVER/cm has `null` as `/Status"),
    );
    check("tasmota:SERVER", "{\"StatusSNS\":{\"ENERGY\":{\"Power\":[]}}}", Err("SERVER/cm has 0 channels"));
    check(
        "tasmota:SERVER",
        "{\"StatusSNS\":{}}",
        Err("SERVER/cm has no `/StatusSNS/ENERGY/Power`: this device does not"),
    );
    check(
        "tasmota:SERVER#2",
        "{\"StatusSNS\":{\"ENERGY\":{\"Power\":[5,0]}}}",
        Err("SERVER/cm shows 0.0 W: the draw of a running"),
    );
}

/// Checks that the password is in the query, as the firmware requires, and nowhere else.
#[test]
fn a_tasmota_with_a_password() {
    let expected = "GET /cm?user=admin&password=a%20%26b%C3%A4&cmnd=Status%208";
    let server = Server::start(move |request| {
        if request.line == expected {
            Answer::json("{\"StatusSNS\":{\"ENERGY\":{\"Power\":42}}}")
        } else {
            Answer::json("{\"WARNING\":\"Need user=<username>&password=<password>\"}")
        }
    });
    let login = Site { access: access("user = \"admin\"\npassword = \"a &bä\""), ..site() };
    assert_eq!(read(&server, "tasmota:SERVER", &login), Ok(Reading::Draw(Power::from_watts(42))));
    let error = read(&server, "tasmota:SERVER", &site()).expect_err("not let in");
    assert!(error.contains("or wants a user and a password") && error.contains("WARNING"), "{error}");
    assert_eq!(server.lines()[1], "GET /cm?cmnd=Status%208");
    let wrong = Site { access: access("user = \"admin\"\npassword = \"falsch\""), ..site() };
    let error = read(&server, "tasmota:SERVER", &wrong).expect_err("not let in");
    assert!(!error.contains("falsch"), "{error}");
}
