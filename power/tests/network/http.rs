//! Faults of devices over HTTP, and authentication.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use limo_power::{Access, Http, HttpError, Scheme, check_url};
use serde_json::json;
use tempfile::TempDir;

use crate::web::{Answer, LONG, Server, Then};

/// Makes a file that only its owner may read.
pub fn file(dir: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, content).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("own file");
    path
}

/// Reads access data with this content.
pub fn access(content: &str) -> Access {
    let dir = tempfile::tempdir().expect("a directory");
    Access::read(&file(&dir, "access.toml", content)).expect("good")
}

fn http() -> Http {
    Http::new(&Access::default(), Scheme::None)
}

/// Expects this error, in which `URL` stands for the address.
fn check(answer: impl Fn() -> Answer + Send + Sync + 'static, expected: &str) {
    let server = Server::start(move |_| answer());
    let url = server.url("/state");
    let error = http().get(&format!("{url}?password=secret")).expect_err("no answer").to_string();
    assert!(error.replace(&url, "URL").starts_with(expected), "`{expected}` begins\n`{error}`");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn an_answer_is_json() {
    let server = Server::start(|request| match request.line.as_str() {
        "GET /state?id=0" => Answer::json("{\"apower\": 41.5}"),
        "GET /odd" => Answer::new("200 OK", "Content-Type: application/vnd.x+json; charset=utf-8\r\n", "[1]"),
        _ => Answer::status("404 Not Found"),
    });
    let mut http = http();
    assert_eq!(http.get(&server.url("/state?id=0")).expect("an answer"), json!({"apower": 41.5}));
    assert_eq!(http.get(&server.url("/odd")).expect("an answer"), json!([1]));
    assert!(http.get(&server.url("/none")).expect_err("nothing there").is_not_found());
}

#[test]
fn invalid_answers_are_reported() {
    check(|| Answer::status("404 Not Found"), "URL answers HTTP 404: the address does not exist");
    check(|| Answer::status("429 Too Many Requests"), "URL answers HTTP 429: too many requests; raise");
    check(|| Answer::status("500 Internal Server Error"), "URL answers HTTP 500");
    check(|| Answer::status("401 Unauthorized"), "URL asks for a user and a password, or does not accept those it was");
    check(
        || Answer::new("200 OK", "content-type: text/html\r\n", "41.5"),
        "URL answers with `text/html` instead of application/",
    );
    check(|| Answer::new("200 OK", "", "41.5"), "URL answers with no content type instead of application/json");
    check(|| Answer::json("{\"apower\":"), "URL answers with invalid JSON: EOF while parsing");
    check(|| Answer::json(""), "URL answers with invalid JSON");
    check(|| Answer::json(&" ".repeat((1 << 20) + 1)), "URL answers with more than 1048576 bytes");
    let half = || {
        let bytes =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{\"a\":1}".to_vec();
        Answer { bytes, then: Then::Close }
    };
    check(half, "URL cannot be reached: ");
    check(|| Answer { bytes: b"SSH-2.0-x\r\n".to_vec(), then: Then::Close }, "URL cannot be reached: ");
    check(|| Answer { bytes: Vec::new(), then: Then::Close }, "URL cannot be reached: ");

    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let error = http().get(&format!("http://{port}/")).expect_err("nobody listens").to_string();
    assert!(error.contains("cannot be reached: ") && error.contains("refused"), "{error}");
}

/// Tests answers that are slow to begin or slow to end.
#[test]
fn an_exchange_has_a_time_limit() {
    for bytes in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"] {
        let server = Server::start(move |_| Answer { bytes: bytes.to_vec(), then: Then::Hang });
        let begin = Instant::now();
        let mut http = http().with_limit(Duration::from_millis(300));
        let error = http.get(&server.url("/")).expect_err("no answer").to_string();
        assert!(error.ends_with("did not answer within 300 ms"), "{error}");
        assert!(begin.elapsed() < LONG, "{:?}", begin.elapsed());
    }
}

#[test]
fn redirects_stay_on_their_host() {
    let to = |place: String| Answer::new("308 Permanent Redirect", &format!("location: {place}\r\n"), "");
    let server = Server::start(move |request| match request.line.as_str() {
        "GET /a" => to("/a/".to_owned()),
        "GET /a/" => Answer::json("1"),
        "GET /round" => to("/round".to_owned()),
        "GET /away" => to("http://192.0.2.1/a?token=secret".to_owned()),
        "GET /port" => to(format!("http://{}:1/a", "127.0.0.1")),
        "GET /odd" => to("//192.0.2.1/a".to_owned()),
        "GET /file" => to("file:///etc/passwd".to_owned()),
        _ => Answer::status("301 Moved Permanently"),
    });
    let mut http = http();
    assert_eq!(http.get(&server.url("/a")).expect("an answer"), json!(1));
    let mut fails = |path: &str, expected: &str| {
        let error = http.get(&server.url(path)).expect_err("no answer").to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "`{expected}` in\n`{error}`");
    };
    fails("/round", "/round has too many redirects: 3 were followed");
    fails("/away", "/away redirects to `http://192.0.2.1/a`, which is not on the same host");
    fails("/port", "/port redirects to `http://127.0.0.1:1/a`");
    fails("/odd", "/odd redirects to `//192.0.2.1/a`");
    fails("/file", "/file redirects to `file:///etc/passwd`");
    fails("/nowhere", "/nowhere redirects to ``");
}

#[test]
fn a_change_is_sent_as_json() {
    let server = Server::start(|request| match request.line.as_str() {
        "PATCH /good" => Answer::status("204 No Content"),
        "PATCH /told" => Answer::new("200 OK", "content-type: text/plain\r\n", "done"),
        "PATCH /moved" => Answer::new("307 Temporary Redirect", "location: /good\r\n", ""),
        _ => Answer::status("400 Bad Request"),
    });
    let mut http = Http::new(&access("user = \"u\"\npassword = \"p:w\"\ninsecure = true\n"), Scheme::Basic);
    let change = json!({"PowerLimitWatts": {"SetPoint": 300}});
    http.patch(&server.url("/good"), &change).expect("taken");
    http.patch(&server.url("/told"), &change).expect("taken");
    let mut fails = |path: &str, expected: u16| match http.patch(&server.url(path), &change) {
        Err(HttpError::Status { status, .. }) => assert_eq!(status, expected),
        other => panic!("{other:?}"),
    };
    fails("/moved", 307);
    fails("/bad", 400);
    let first = &server.asked()[0];
    assert_eq!(first.body, "{\"PowerLimitWatts\":{\"SetPoint\":300}}");
    assert_eq!(first.header("content-type"), Some("application/json"));
    // The text is `u:p:w` in base 64.
    assert_eq!(first.header("authorization"), Some("Basic dTpwOnc="));
}

/// Checks that a password goes out in the clear only if the operator allows it.
#[test]
fn a_password_needs_tls() {
    let server = Server::start(|_| Answer::json("1"));
    let mut http = Http::new(&access("user = \"u\"\npassword = \"secret\"\n"), Scheme::Basic);
    let error = http.get(&server.url("/")).expect_err("not sent").to_string();
    assert!(error.contains("would get the password in the clear: write `https`"), "{error}");
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn addresses_of_devices() {
    let check = |url: &str, expected: &str| {
        let error = check_url(url).expect_err("no address").to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "{error}");
    };
    assert!(check_url("https://bmc1:8443/redfish/v1/Chassis/1").is_ok());
    assert!(check_url("http://[::1]/").is_ok());
    check("bmc1", "`bmc1` is not an address of a device: it must begin `http://` or `https://`; write for example");
    check("ftp://bmc1/", "it must begin");
    check("http://", "it has no host");
    check("http://:80/", "it has no host");
    check("", "it must begin");
    check("http://bmc 1/", "it is not a valid URL");
    check(
        "http://u:secret@bmc1/",
        "`bmc1/` is not an address of a device: a user and a password belong in the file of",
    );
}

#[test]
fn files_with_passwords() {
    let dir = tempfile::tempdir().expect("a directory");
    let fails = |path: &Path, expected: &str| {
        let error = Access::read(path).expect_err("refused").to_string();
        assert!(error.contains(expected) && !error.contains("secret"), "`{expected}` in\n`{error}`");
    };
    let with = |content: &str, expected: &str| fails(&file(&dir, "a.toml", content), expected);
    with("user = \"u\"\npassword = secret", "a.toml:2: ");
    with("token = \"secret\"", "a.toml:1: unknown field `token`");
    with("user = \"u\"", "a.toml has a `user` but no `password`: write both or none");
    with("password = \"secret\"", "a.toml has a `password` but no `user`");
    with("ca = \"none.pem\"", "none.pem: No such file");
    with("ca = \"a.toml\"", "a.toml has no certificate");
    with("ca = \"a.toml\"\ninsecure = true", "has both `ca` and `insecure = true`");
    fails(&dir.path().join("missing"), "cannot read ");
    for mode in [0o640, 0o604, 0o660] {
        let path = file(&dir, "open.toml", "user = \"u\"\npassword = \"secret\"");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("own file");
        fails(&path, &format!("may be read by others (mode {mode:03o}): do `chmod 600 "));
    }
    let good = access("user = \"u\"\npassword = \"secret\"");
    assert!(!format!("{good:?}").contains("secret"));
}
