//! The page in a real browser: each view of a cluster with jobs, without an error in the console and without a violation
//! of its content policy. With `LIMO_PICTURES`, a picture of each view is written to that directory.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use limo_tests::{ARROW_DOWN, Browser, Cluster, Person, SHIFT, Setup, Submitter, until};
use serde_json::{Value, json};

use crate::api::request_as;
use crate::metrics::{address, get};

/// Variable with the directory of the pictures.
const PICTURES: &str = "LIMO_PICTURES";

/// A cluster with limits, changing prices and jobs in several states.
pub(crate) fn cluster() -> (Cluster, [u64; 2]) {
    let cluster = Setup::nodes(3, 4).master(&["--web", "127.0.0.1:0"]).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["set", "limits", "20W", "1kW"]).succeeded();
    submitter.lconf(&["set", "policy", "easy"]).succeeded();
    std::fs::write(submitter.path("prices.csv"), prices()).expect("written");
    submitter.lconf(&["set", "price", "prices.csv"]).succeeded();
    submitter.lconf(&["set", "budget", "1kWh", "--until", "now+1h"]).succeeded();
    for command in ["true", "false", "true"] {
        submitter.wait(submitter.detach(&["-J", "solver", command]));
    }
    let running = submitter.detach(&["-c", "3", "-t", "1h", "-J", "render", "sleep", "1000"]);
    let second = submitter.detach(&["-c", "4", "-t", "2h", "-J", "train", "sleep", "1000"]);
    for job in [running, second] {
        until("the job runs", || (submitter.state(job) == "running").then_some(()));
    }
    let waiting = submitter.detach(&["-N", "3", "-t", "30min", "-J", "wide", "true"]);
    submitter.detach(&["--hold", "-J", "<b>held</b>", "true"]);
    (cluster, [running, waiting])
}

/// Prices of each hour from yesterday to the day after tomorrow, some below zero.
fn prices() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let hour = i64::try_from(now / 3_600).expect("it fits");
    let line = |offset: i64| {
        let at = jiff::Timestamp::from_second((hour + offset) * 3_600).expect("a time");
        // High in the evening and below zero at noon.
        let of_day = (hour + offset).rem_euclid(24);
        format!("{at},{} EUR/MWh\n", [60, 55, 50, 55, 70, 90, 80, 40, 10, -15, -20, 5][(of_day / 2) as usize])
    };
    "time,price\n".to_owned() + &(-30..40).map(line).collect::<String>()
}

/// Opens a view, and checks that its console is silent.
pub(crate) fn visit(browser: &Browser, address: &str, path: &str) {
    browser.go(&format!("http://{address}{path}"));
    let view = path.split('?').next().unwrap_or_default();
    browser.until(&format!("{path} is shown"), &format!("document.body?.dataset.ready === '{view}'"));
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{path}");
}

pub(crate) fn take_picture(browser: &Browser, name: &str) {
    let Some(directory) = std::env::var_os(PICTURES) else { return };
    let file = std::fs::File::create(PathBuf::from(directory).join(format!("{name}.png"))).expect("writable");
    let mut decode = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().expect("base64 runs");
    let mut input = decode.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, browser.picture().as_bytes()).expect("read");
    drop(input);
    decode.wait().expect("it ends");
}

#[test]
fn each_view_shows_the_cluster_without_an_error_of_the_browser() {
    let Some(browser) = Browser::open() else { return };
    let (cluster, [running, waiting]) = cluster();
    let address = address(&cluster);
    let shows = |path: &str, words: &[&str]| {
        visit(&browser, &address, path);
        let text = browser.text();
        for word in words {
            assert!(text.contains(word), "{path} shows {word}: {text}");
        }
    };
    shows(
        "/",
        &["Draw", "20 W to 1 kW", "2 running", "2 waiting", "estimated", "Price of electricity", "Policy", "easy"],
    );
    browser.until("the state follows each second", "document.getElementById('live').innerText.startsWith('live')");
    let reason = browser.until("the held job has a reason", "document.body.innerText.includes('held')");
    assert_eq!(reason, true);
    take_picture(&browser, "overview");
    let drawn = "(() => { const c = document.getElementById('price'); const d = c.getContext('2d')\
                 .getImageData(0, 0, c.width, c.height).data; return d.some((v) => v > 0); })()";
    assert_eq!(browser.run(&format!("return {drawn};")), true, "the prices are drawn");
    browser.run("document.querySelector('details').open = true;");
    browser.until("the table behind the draw is there", "document.querySelector('details table') !== null");
    shows("/jobs", &["render", "train", "wide", "<b>held</b>", "running", "waiting", "estimated", "50 jobs a page"]);
    take_picture(&browser, "jobs");
    shows("/jobs?state=running", &["render", "train"]);
    assert!(!browser.text().contains("wide"), "the filter of the address holds");
    shows("/jobs?over=true", &["solver", "completed", "failed", "exited with code 1"]);
    take_picture(&browser, "finished");
    shows(&format!("/jobs/{waiting}"), &["wide", "waiting", "Where it could run", "Obstacle"]);
    take_picture(&browser, "job");
    shows(
        &format!("/jobs/{running}"),
        &["render", "sleep 1000", "Energy above idle", "estimated", &format!("lq logs -f {running}")],
    );
    for by in ["draw", "state", "cap", "cores"] {
        shows(&format!("/nodes?by={by}"), &["3 nodes", "n1", "n2", "n3", "up", "3 of 4"]);
    }
    shows("/nodes", &["estimated"]);
    take_picture(&browser, "nodes");
    shows("/plan", &["render", "train", "on nodes"]);
    browser.until("the waiting job is planned", "document.body.innerText.includes('wide')");
    take_picture(&browser, "plan");
    shows("/energy", &["Total", "Saved", "User"]);
    shows("/energy?by=day&days=7", &["Total", "Day"]);
    take_picture(&browser, "energy");
    shows(&format!("/jobs/{waiting}"), &["The job has not started", &format!("lq logs -f {waiting}"), "Copy"]);
    shows("/changes", &["limits", "price", "lconf undo"]);
    take_picture(&browser, "changes");
    let bad = format!("http://{address}/jobs?state=asleep");
    browser.go(&bad);
    browser.until("the error is shown", "document.querySelector('[role=alert]')?.innerText.includes('state=asleep')");
}

#[test]
fn links_filters_and_keys_work_within_the_page() {
    let Some(browser) = Browser::open() else { return };
    let (cluster, [running, _]) = cluster();
    let address = address(&cluster);
    visit(&browser, &address, "/");
    browser.run("document.querySelector('nav a[href=\"/jobs\"]').click();");
    browser.until("the list is shown", "document.body.dataset.ready === '/jobs' && location.pathname === '/jobs'");
    browser.run("const s = document.querySelector('select[name=state]'); s.value = 'running'; s.dispatchEvent(new Event('change', { bubbles: true }));");
    browser
        .until("the filter is in the address", "location.search === '?state=running' && document.body.dataset.ready");
    browser.run(&format!("document.querySelector('a[href=\"/jobs/{running}\"]').click();"));
    browser.until("the job is shown", &format!("document.body.dataset.ready === '/jobs/{running}'"));
    browser.run("history.back();");
    browser.until(
        "the filter is back",
        "location.search === '?state=running' && document.querySelector('select[name=state]')?.value === 'running'",
    );
    visit(&browser, &address, "/nodes");
    browser.run(
        "const map = document.getElementById('map'); map.focus(); for (let i = 0; i < 60; i++) { \
         map.dispatchEvent(new KeyboardEvent('keydown', { key: i < 30 ? 'ArrowLeft' : 'ArrowUp', bubbles: true })); }",
    );
    for _ in 0..40 {
        browser.run("document.getElementById('map').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));");
    }
    browser.until(
        "the keys show a node",
        "!document.getElementById('tip').hidden && document.getElementById('tip').innerText.includes('n1')",
    );
    browser.resize(420, 800);
    visit(&browser, &address, "/");
    let overflow = browser.run("return document.documentElement.scrollWidth - innerWidth;").as_i64();
    assert!(overflow <= Some(0), "the page fits a small screen: {overflow:?}");
    take_picture(&browser, "small");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_page_has_its_policy_and_refuses_foreign_hosts() {
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let address = address(&cluster);
    let port = address.rsplit_once(':').expect("a port").1;
    let (status, body) = get(&address, "/", &address);
    assert!(status == "HTTP/1.1 200 OK" && body.contains("<title>Limo</title>") && !body.contains("<style"), "{body}");
    assert_eq!(get(&address, "/", &format!("evil.example:{port}")).0, "HTTP/1.1 403 Forbidden");
    assert_eq!(get(&address, "/main.js", &format!("evil.example:{port}")).0, "HTTP/1.1 403 Forbidden");
}

/// Returns the address with a code that `lq web --act` prints.
pub(crate) fn code(submitter: &Submitter) -> String {
    let said: serde_json::Value =
        serde_json::from_str(&submitter.lq(&["web", "--act", "--json"]).succeeded()).expect("JSON");
    said["url"].as_str().expect("an address").to_owned()
}

/// Sends a change of job 1 with these lines of the head; returns the status and the body.
fn post(address: &str, host: &str, head: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    let request = format!("POST /api/v1/jobs/1/hold HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n{head}\r\n{{}}");
    std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    answer
}

#[test]
fn a_browser_acts_only_after_lq_web_act() {
    let Some(browser) = Browser::open() else { return };
    let (cluster, [running, waiting]) = cluster();
    let submitter = cluster.submitter();
    let address = address(&cluster);
    assert!(submitter.lq(&["web"]).succeeded().starts_with(&format!("http://{address}/\n")));
    visit(&browser, &address, &format!("/jobs/{waiting}"));
    assert!(!browser.text().contains("Cancel"), "it may only look");
    let url = code(submitter);
    browser.go(&url);
    browser.until("the overview is shown", "document.body?.dataset.ready === '/'");
    assert_eq!(browser.run("return document.cookie;"), "", "scripts cannot read the cookie");
    let click = |path: &str, text: &str| {
        visit(&browser, &address, path);
        let found = format!("[...document.querySelectorAll('button')].find((b) => b.innerText === '{text}')");
        browser.until(&format!("{path} has {text}"), &format!("Boolean({found})"));
        browser.run(&format!("window.confirm = (text) => {{ window.asked = text; return true; }}; {found}.click();"));
        let asked = browser.run("return window.asked;");
        assert!(asked.as_str().is_some_and(|asked| asked.starts_with(text)), "it asks before: {asked}");
    };
    click(&format!("/jobs/{waiting}"), "Hold");
    until("the job is held", || {
        submitter.lq(&["show", &waiting.to_string()]).succeeded().contains("held").then_some(())
    });
    click(&format!("/jobs/{waiting}"), "Release");
    until("the job is released", || {
        (!submitter.lq(&["show", &waiting.to_string()]).succeeded().contains("held")).then_some(())
    });
    click(&format!("/jobs/{running}"), "Cancel");
    until("the job is cancelled", || (submitter.state(running) == "cancelled").then_some(()));
    click("/changes", "Undo");
    until("the undo is recorded", || submitter.lconf(&["history"]).succeeded().contains("undo of").then_some(()));
    take_picture(&browser, "acting");
    // A used code lets nobody in.
    browser.go(&url);
    browser.until("the code is refused", "document.body?.innerText.includes('the code is unknown')");
}

#[test]
fn selected_jobs_are_cancelled_together_and_each_refusal_is_shown() {
    let Some(browser) = Browser::open() else { return };
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let (submitter, address) = (cluster.submitter(), address(&cluster));
    let held: Vec<u64> = (0..4).map(|_| submitter.detach(&["--hold", "true"])).collect();
    visit(&browser, &address, "/jobs");
    assert_eq!(browser.run("return document.querySelector('input[type=checkbox]');"), Value::Null, "it may only look");
    browser.go(&code(submitter));
    browser.until("the overview is shown", "document.body?.dataset.ready === '/'");
    visit(&browser, &address, "/jobs");
    let chosen = "[...document.querySelectorAll('td input[type=checkbox]:checked')].map((box) => Number(box.value))";
    let press = |text: &str| {
        browser.run(&format!(
            "window.confirm = (text) => {{ window.asked = text; return true; }}; \
             [...document.querySelectorAll('.selection button')].find((b) => b.innerText === '{text}').click();"
        ));
        browser.run("return window.asked;")
    };
    // The keys reach each box; with Shift, all between two are chosen.
    browser.run(&format!("document.querySelector('input[value=\"{}\"]').focus();", held[0]));
    browser.keys(" ");
    browser.keys(ARROW_DOWN);
    browser.keys(ARROW_DOWN);
    browser.keys(&format!("{SHIFT} "));
    assert_eq!(browser.run(&format!("return {chosen};")), json!(held[..3]));
    // One of them has ended since the list was made.
    submitter.lq(&["cancel", &held[1].to_string()]).succeeded();
    assert_eq!(press("Release selected"), "Release 3 jobs?");
    let said = "document.querySelector('[role=status].trouble, [role=status].done')?.innerText";
    let text = browser.until("the results are shown", said);
    let text = text.as_str().expect("a text");
    assert!(text.contains("Release: 2 done, 1 refused") && text.contains(&format!("Job {}: ", held[1])), "{text}");
    for job in [held[0], held[2]] {
        assert_eq!(submitter.wait(job), Some(0));
    }
    visit(&browser, &address, "/jobs");
    browser.run("document.querySelector('th input[type=checkbox]').click();");
    assert_eq!(browser.run(&format!("return {chosen};")), json!([held[3]]));
    assert_eq!(press("Cancel selected"), "Cancel 1 job?");
    until("the job is cancelled", || (submitter.state(held[3]) == "cancelled").then_some(()));
    // Without the page: bounds, and a right that the cookie gives.
    let many = |count: usize| format!("{{ jobs: Array({count}).fill(1) }}");
    for (body, expected) in [
        (many(101), "101 jobs are selected: it must be 1 to 100"),
        (many(0), "0 jobs are selected"),
        ("{}".to_owned(), "the body must be `{\"jobs\": [NUMBER, ...]}`"),
        ("{ jobs: [-1] }".to_owned(), "the body must be"),
    ] {
        let script = format!(
            "import('/api.js').then((api) => api.act('jobs/selected/hold', {body})).then(done, (error) => done(error.message));"
        );
        let said = browser.run_until_done(&script);
        assert!(said.as_str().is_some_and(|said| said.contains(expected)), "{body}: {said}");
    }
}

#[test]
fn requests_of_other_pages_and_users_change_nothing() {
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let (submitter, address) = (cluster.submitter(), address(&cluster));
    let job = submitter.detach(&["--hold", "true"]);
    assert_eq!(job, 1, "the request names it");
    submitter.lq(&["release", "1"]).succeeded();
    let url = code(submitter);
    let path = url.strip_prefix(&format!("http://{address}")).expect("its address");
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    std::io::Write::write_all(&mut stream, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
        .expect("sent");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).expect("an answer");
    let line = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_else(|| panic!("{answer}"));
    assert!(line.contains("; HttpOnly; SameSite=Strict; Max-Age=28800"), "{line}");
    let cookie = line.split(';').next().expect("a cookie");
    let right = [
        format!("Origin: http://{address}\r\n"),
        "Sec-Fetch-Site: same-origin\r\n".to_owned(),
        "Content-Type: application/json\r\n".to_owned(),
        "X-Limo: act\r\n".to_owned(),
        format!("Cookie: {cookie}\r\n"),
    ];
    let wrong = [
        ("Origin: http://evil.example\r\n", "the origin is http://evil.example"),
        ("Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site is cross-site"),
        ("Content-Type: text/plain\r\n", "the content is text/plain"),
        ("X-Limo: read\r\n", "x-limo is read"),
        ("Cookie: other=1\r\n", "this browser may only look"),
    ];
    for (at, (line, expected)) in wrong.into_iter().enumerate() {
        for replaced in [line, ""] {
            let mut head = right.clone();
            replaced.clone_into(&mut head[at]);
            let answer = post(&address, &address, &head.concat());
            assert!(answer.starts_with("HTTP/1.1 403"), "{head:?}: {answer}");
            assert!(replaced.is_empty() || answer.contains(expected), "{head:?}: {answer}");
        }
    }
    let port = address.rsplit_once(':').expect("a port").1;
    assert!(post(&address, &format!("evil.example:{port}"), &right.concat()).starts_with("HTTP/1.1 403"));
    // The job has ended, so the master itself refuses what the page may ask.
    submitter.wait(job);
    let answer = post(&address, &address, &right.concat());
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    // The code was used.
    assert_eq!(get(&address, path, &address).0, "HTTP/1.1 403 Forbidden");
    let Some(other) = Person::of(submitter, "daemon", &["lq"]) else { return };
    let ids = (other.user.uid.as_raw(), other.user.gid.as_raw());
    let of = |head: &str| {
        format!("POST /api/v1/jobs/2/hold HTTP/1.1\r\nHost: {address}\r\nContent-Length: 2\r\n{head}\r\n{{}}")
    };
    let answer = request_as(ids, &address, &of(&right.concat()));
    assert!(
        answer.starts_with("HTTP/1.1 403") && answer.contains("this browser may only look"),
        "a stolen cookie: {answer}"
    );
    // With an own cookie, the master itself refuses the job of another user.
    let held = submitter.detach(&["--hold", "true"]);
    assert_eq!(held, 2, "the request names it");
    let said = other.run("lq", &["web", "--act", "--json"]).succeeded();
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let path = said["url"].as_str().and_then(|url| url.strip_prefix(&format!("http://{address}"))).expect("an address");
    let entered = request_as(ids, &address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    let line =
        entered.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_else(|| panic!("{entered}"));
    let own = format!("Cookie: {}\r\n", line.split(';').next().expect("a cookie"));
    let head = right[..4].concat() + &own;
    let answer = request_as(ids, &address, &of(&head));
    assert!(answer.starts_with("HTTP/1.1 409") && answer.contains("belongs to root, not to daemon"), "{answer}");
}
