//! `lprof serve` and `lprof workload run` together, and each with another peer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use limo_requirements::{Requirement, skip};
use lprof::session::wire::{Status, StreamHeader, StreamInit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const LPROF: &str = env!("CARGO_BIN_EXE_lprof");

/// An executor, which ends with the test.
struct Server {
    process: Child,
    address: SocketAddr,
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// Starts one whose temporary files are in `dir`.
    fn start_in(dir: &Path) -> Self {
        let mut serve = Command::new(LPROF);
        serve.env("TMPDIR", dir).args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut process = serve.spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { process, address, _stdout: stdout }
    }

    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// A client whose session has begun.
    fn begun(&self) -> TcpStream {
        let mut client = self.client();
        begin(&mut client);
        client
    }

    /// Runs `lprof workload run` with a workload on its standard input.
    fn run(&self, arguments: &[&str], workload: &[u8]) -> Output {
        let address = self.address.to_string();
        run(&[&["--connect", &address], arguments].concat(), workload)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended if it was killed before.
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

fn run(arguments: &[&str], workload: &[u8]) -> Output {
    let mut run = Command::new(LPROF);
    run.args(["workload", "run", "-"]).args(arguments);
    run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    // A run that fails does not read it.
    let _ = run.stdin.take().unwrap().write_all(workload);
    run.wait_with_output().unwrap()
}

#[track_caller]
fn expect(client: &mut TcpStream, status: Status) {
    let header = StreamHeader::read(client).unwrap().expect("a status, not the end");
    assert_eq!(header.status(), Some(status), "{header:?}");
}

fn expect_end(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

fn begin(client: &mut TcpStream) {
    expect(client, Status::AwaitStart);
    client.write_all(&StreamInit::new(0, "a test").unwrap().to_bytes()).unwrap();
    expect(client, Status::AckStart);
}

fn end(client: &mut TcpStream) {
    client.write_all(&Status::Fini.to_bytes(0)).unwrap();
    expect(client, Status::AckEnd);
    expect_end(client);
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn check_json(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["schema"], &json["application"], &json["name"]), (&1.into(), &"dummy".into(), &"one".into()));
    assert_eq!((&json["packages"], &json["content_bytes"]), (&2.into(), &5.into()));
    // The second package is due after 20 ms.
    let (duration, rate) = (json["duration_s"].as_f64().unwrap(), json["packages_per_s"].as_f64().unwrap());
    assert!(duration >= 0.02 && (rate * duration - 2.0).abs() < 1e-6, "{json}");
    let [start, end] = ["start", "end"].map(|key| json[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap());
    assert!((end.duration_since(start).as_secs_f64() - duration).abs() < 1.0, "{json}");
}

#[test]
fn a_workload_runs_over_a_socket_and_over_a_command() {
    let workload = b"# two\n0:2\nab20000:3\nabc";
    let arguments = ["--app", "dummy", "--name", "one", "--json"];
    check_json(&Server::start().run(&arguments, workload));
    let command = format!("{LPROF} serve --stdio");
    let output = run(&[&["--stdio", &command], arguments.as_slice()].concat(), workload);
    check_json(&output);
    assert!(stderr(&output).starts_with("lprof: session \"one\": dummy: 2 jobs, 5 B in 0.02"), "{}", stderr(&output));
}

#[test]
fn sessions_run_one_after_the_other() {
    let server = Server::start();
    let (mut first, mut second) = (server.begun(), server.client());
    second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    second.read(&mut [0]).expect_err("the first session runs");
    second.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    end(&mut first);
    begin(&mut second);
    end(&mut second);
}

#[test]
fn a_generator_that_goes_frees_the_executor() {
    let server = Server::start();
    let mut first = server.begun();
    let header = StreamHeader { sqn: 0, size: 1000 };
    first.write_all(&header.to_bytes()).unwrap();
    drop(first);
    end(&mut server.begun());
}

#[test]
fn a_killed_generator_frees_the_executor() {
    let server = Server::start();
    let mut run = Command::new(LPROF);
    run.args(["workload", "run", "-", "--app", "dummy", "--connect", &server.address.to_string()]);
    let mut run = run.stdin(Stdio::piped()).spawn().unwrap();
    let package = [b"0:1000000\n".as_slice(), &[7; 1_000_000]].concat();
    // More than all buffers hold, so the executor has read packages when this is written.
    run.stdin.as_mut().unwrap().write_all(&package.repeat(20)).unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    end(&mut server.begun());
}

#[test]
fn a_signal_ends_the_session_and_removes_its_files() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start_in(dir.path());
        let mut client = server.begun();
        let files = || std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files(), 1, "the directory of the compiler");
        kill(Pid::from_raw(i32::try_from(server.process.id()).unwrap()), signal).unwrap();
        assert_eq!(server.process.wait().unwrap().code(), Some(code));
        // The connection ends with the process of the session.
        expect_end(&mut client);
        assert_eq!(files(), 0);
    }
}

#[test]
fn garbage_ends_one_session_only() {
    let server = Server::start();
    let mut client = server.client();
    expect(&mut client, Status::AwaitStart);
    client.write_all(&b"GET / HTTP/1.1\r\n\r\n".repeat(1000)).unwrap();
    expect(&mut client, Status::WrongVersion);
    expect_end(&mut client);
    let mut client = server.begun();
    client.write_all(&StreamHeader { sqn: 0, size: i64::MAX }.to_bytes()).unwrap();
    // The connection may have ended already; the reason arrives anyway.
    let _ = client.write_all(&[7; 1 << 20]);
    expect(&mut client, Status::Error);
    end(&mut server.begun());
}

#[test]
fn the_generator_tells_why_a_session_failed() {
    let server = Server::start();
    let output = server.run(&["--app", "dummy", "--name", "a b=c"], b"0:1\na");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("lprof: the executor reports an error while it prepared the application"));
    let output = server.run(&["--app", "dummy"], b"0:1\na0:9\nb");
    let wrong = "lprof: the workload is wrong: line 3, byte 9: the file ends after 1 of the 9 bytes of this package\n";
    assert_eq!(stderr(&output), wrong);
    let output = server.run(&["--app", "no-such"], b"");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("possible applications: dummy"), "{}", stderr(&output));
    let output = run(&["--app", "dummy", "--stdio", "true"], b"0:1\na");
    assert_eq!(stderr(&output), "lprof: the executor ended the connection before it was ready\n");
}

#[test]
fn only_this_machine_is_reached_without_certificates() {
    let serve = Command::new(LPROF).args(["serve", "--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(serve.status.code(), Some(1));
    assert!(stderr(&serve).starts_with("lprof: 0.0.0.0:0 is not a loopback address: use 127.0.0.1:7317"));
    let output = run(&["--app", "dummy", "--connect", "192.0.2.1:7317"], b"0:1\na");
    assert!(stderr(&output).starts_with("lprof: 192.0.2.1:7317 is not a loopback address"), "{}", stderr(&output));
}

#[test]
fn a_generator_in_python_gets_the_codes_of_table_3_1() {
    let server = Server::start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client.py");
    let port = server.address.port().to_string();
    let output = match Command::new("python3").args([script, &port]).output() {
        Ok(output) => output,
        Err(error) => return skip(Requirement::Program, &format!("no python3: {error}")),
    };
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "all sessions as expected\n");
}
