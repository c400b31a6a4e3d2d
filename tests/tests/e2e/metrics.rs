//! Metrics of a running master, as Prometheus reads them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use limo_requirements::{Requirement, skip};
use limo_tests::{Cluster, Setup, until};
use serde_json::Value;
use tempfile::TempDir;

/// Files for the site's Prometheus and Grafana.
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

/// Returns the address at which a master serves metrics.
pub(crate) fn address(cluster: &Cluster) -> String {
    let written = std::fs::read_to_string(cluster.state_dir().join("web-address")).expect("the master serves metrics");
    written.trim().to_owned()
}

/// Requests a path under a host's name; returns the first line, and the body.
pub(crate) fn get(address: &str, path: &str, host: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

fn metrics(address: &str) -> String {
    let (status, text) = get(address, "/metrics", address);
    assert_eq!(status, "HTTP/1.1 200 OK", "{text}");
    text
}

/// Returns the value of a series.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn figures_of_a_cluster_are_those_of_lq() {
    let cluster = Setup::nodes(2, 2).master(&["--web", "127.0.0.1:0"]).start();
    let submitter = cluster.submitter();
    let address = address(&cluster);
    submitter.lconf(&["set", "limits", "10W", "10kW"]).succeeded();
    assert_eq!(submitter.wait(submitter.detach(&["true"])), Some(0));
    assert_eq!(submitter.wait(submitter.detach(&["false"])), Some(1));
    let running = submitter.detach(&["-c", "2", "sleep", "1000"]);
    until("the job runs", || (submitter.state(running) == "running").then_some(()));
    let held = submitter.detach(&["--hold", "true"]);
    let text = until("the held job has its reason", || {
        let text = metrics(&address);
        value(&text, "limo_jobs_waiting{reason=\"held\"}").is_some().then_some(text)
    });
    for (series, expected) in [
        ("limo_jobs{state=\"running\"}", 1.0),
        ("limo_jobs{state=\"waiting\"}", 1.0),
        ("limo_jobs_ended_total{state=\"completed\"}", 1.0),
        ("limo_jobs_ended_total{state=\"failed\"}", 1.0),
        ("limo_jobs_ended_total{state=\"lost\"}", 0.0),
        ("limo_nodes{state=\"up\"}", 2.0),
        ("limo_cores{state=\"used\"}", 2.0),
        ("limo_cores{state=\"idle\"}", 2.0),
        ("limo_power_limit_watts{bound=\"low\"}", 10.0),
        ("limo_power_limit_watts{bound=\"high\"}", 10_000.0),
        ("limo_connections{role=\"node\"}", 2.0),
        ("limo_plan_violations_total", 0.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series} in {text}");
    }
    let used: f64 =
        ["n1", "n2"].iter().filter_map(|node| value(&text, &format!("limo_node_cores_used{{node=\"{node}\"}}"))).sum();
    assert_eq!(used, 2.0, "{text}");
    // The nodes have no meters; the job draws on one of them.
    let of_node = |node: &str| value(&text, &format!("limo_node_power_watts{{node=\"{node}\"}}")).expect("a draw");
    let (first, second) = (of_node("n1"), of_node("n2"));
    assert!(first.max(second) > 0.0, "{text}");
    let estimated = value(&text, "limo_power_watts{how=\"estimated\"}").expect("a sum");
    assert!((estimated - first - second).abs() < 0.002, "{estimated}, {first} and {second}");
    assert_eq!(value(&text, "limo_power_watts{how=\"measured\"}"), Some(0.0), "{text}");
    assert!(value(&text, "limo_round_duration_seconds_count") > Some(0.0), "{text}");
    assert!(value(&text, "limo_commit_duration_seconds_count") > Some(0.0), "{text}");
    submitter.lq(&["cancel", &running.to_string(), &held.to_string()]).succeeded();
    until("they count as cancelled", || {
        (value(&metrics(&address), "limo_jobs_ended_total{state=\"cancelled\"}") == Some(2.0)).then_some(())
    });
}

/// Writes settings of a master with a feed of carbon intensities, and returns their path.
fn with_carbon() -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let (table, settings) = (directory.path().join("carbon.csv"), directory.path().join("lmaster.toml"));
    let rows = "time,carbon_g_per_kwh\n2026-01-01T00:00:00Z,263.5\n2100-01-01T00:00:00Z,1\n";
    std::fs::write(&table, rows).expect("written");
    let text = format!("[feed.carbon]\nsource = \"csv\"\nfile = {table:?}\nweight = \"80 EUR/t\"\n");
    std::fs::write(&settings, text).expect("written");
    let path = settings.to_str().expect("UTF-8").to_owned();
    (directory, path)
}

#[test]
fn the_carbon_intensity_is_that_of_its_feed_and_absent_without_one() {
    let without = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    assert!(!metrics(&address(&without)).contains("limo_carbon_g_per_kwh "), "no feed is configured");
    let (_directory, settings) = with_carbon();
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0", "--config", &settings]).start();
    let address = address(&cluster);
    let found = until("the feed is read", || value(&metrics(&address), "limo_carbon_g_per_kwh"));
    assert_eq!(found, 263.5);
}

#[test]
fn a_foreign_host_and_an_unknown_path_are_refused() {
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let address = address(&cluster);
    let port = address.rsplit_once(':').expect("a port").1;
    let (status, body) = get(&address, "/metrics", &format!("evil.example:{port}"));
    assert_eq!(status, "HTTP/1.1 403 Forbidden");
    assert_eq!(body, format!("the host is `evil.example:{port}`: it must be 127.0.0.1:{port}\n"));
    assert_eq!(get(&address, "/metrics", &format!("localhost:{port}")).0, "HTTP/1.1 200 OK");
    assert_eq!(get(&address, "/nothing", &address).0, "HTTP/1.1 404 Not Found");
}

#[test]
fn prometheus_accepts_the_metrics() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return skip(Requirement::Program, "promtool is not installed (`apt install prometheus`)");
    }
    let cluster = Setup::nodes(1, 1).master(&["--web", "127.0.0.1:0"]).start();
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let text = metrics(&address(&cluster));
    check.stdin.take().expect("piped").write_all(text.as_bytes()).expect("read");
    let said = check.wait_with_output().expect("it ends");
    let words = [said.stdout, said.stderr].concat();
    assert!(said.status.success() && words.is_empty(), "{}\n{text}", String::from_utf8_lossy(&words));
}

/// Returns the queries of the dashboard, with its variables replaced.
fn panels() -> Vec<(String, String)> {
    let path = DEPLOY.to_owned() + "/grafana/limo.json";
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("read")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title");
        let of_panel = panel["targets"].as_array().expect("queries").iter();
        of_panel.map(move |target| (title.to_owned(), target["expr"].as_str().expect("a query").to_owned()))
    });
    queries.map(|(title, query)| (title, query.replace("$instance", ".*").replace("$__rate_interval", "10s"))).collect()
}

/// A Prometheus that reads the metrics of a master each second; killed when dropped.
struct Prometheus {
    process: Child,
    url: String,
    _directory: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    fn start(target: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let rules = DEPLOY.to_owned() + "/prometheus/limo.rules";
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{:?}]\n\
             scrape_configs: [{{job_name: limo, static_configs: [{{targets: [{target:?}]}}]}}]\n",
            rules
        );
        let config = directory.path().join("prometheus.yml");
        std::fs::write(&config, text).expect("written");
        // Prometheus takes no port 0.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus runs");
        Self { process, url: format!("http://127.0.0.1:{port}"), _directory: directory }
    }

    /// Returns the samples of a query; none before the server is ready.
    fn query(&self, query: &str) -> Vec<Value> {
        let arguments = ["query", "instant", "--format=json", &self.url, query];
        let said = Command::new("promtool").args(arguments).output().expect("promtool runs");
        serde_json::from_slice(&said.stdout).unwrap_or_default()
    }
}

#[test]
fn each_panel_of_the_dashboard_has_samples() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return skip(Requirement::Program, "Prometheus is not installed (`apt install prometheus`)");
    }
    let (_directory, settings) = with_carbon();
    let cluster = Setup::nodes(2, 1).master(&["--web", "127.0.0.1:0", "--config", &settings]).start();
    let submitter = cluster.submitter();
    submitter.lconf(&["set", "limits", "10W", "10kW"]).succeeded();
    let prices = "time,price\n2026-01-01 00:00,50 EUR/MWh\n2100-01-01 00:00,0 EUR/MWh\n";
    std::fs::write(submitter.path("prices.csv"), prices).expect("written");
    submitter.lconf(&["set", "price", "prices.csv"]).succeeded();
    submitter.lconf(&["set", "budget", "1kWh", "--until", "now+1h"]).succeeded();
    submitter.detach(&["--hold", "true"]);
    assert_eq!(submitter.wait(submitter.detach(&["true"])), Some(0));
    let prometheus = Prometheus::start(&address(&cluster));
    let queries = panels();
    assert!(queries.len() >= 14, "{queries:?}");
    for (title, query) in queries {
        until(&format!("{title} has samples of {query}"), || {
            // A commit has happened in the time over which a rate is taken.
            submitter.detach(&["true"]);
            let samples = prometheus.query(&query);
            let is_number = |sample: &Value| sample["value"][1].as_str().is_some_and(|value| value != "NaN");
            samples.iter().any(is_number).then_some(())
        });
    }
    assert!(prometheus.query("ALERTS").is_empty(), "no alert fires: {:?}", prometheus.query("ALERTS"));
}
