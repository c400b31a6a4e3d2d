//! Events of jobs that the master tells the site, by a command or a POST.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use limo_tests::{Cluster, Setup, finish, until};
use serde_json::Value;
use tempfile::TempDir;

/// A cluster whose master has these settings.
fn start(text: &str) -> (Cluster, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = directory.path().join("lmaster.toml");
    fs::write(&settings, text).expect("written");
    let cluster = Setup::nodes(1, 2).master(&["--config", settings.to_str().expect("text")]).start();
    (cluster, directory)
}

struct Told(PathBuf);

impl Told {
    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits for so many events, and returns them.
    fn await_events(&self, count: usize) -> Vec<String> {
        until(&format!("{count} events"), || Some(self.lines()).filter(|lines| lines.len() >= count))
    }
}

#[test]
fn a_command_is_told_what_jobs_ask_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let told = Told(directory.path().join("told"));
    let words = "$LIMO_EVENT $LIMO_JOB_ID $LIMO_JOB_NAME $LIMO_JOB_STATE $LIMO_EXIT_CODE $LIMO_MAIL_USER";
    let text = format!("notify = 'echo \"{words}\" >> {}'\n", told.0.display());
    let (cluster, _settings) = start(&text);
    let submitter = cluster.submitter();
    let asks = |events: &str, command: &[&str]| {
        let options = ["-J", "a", "--mail-user", "ada@example.org", "--mail-type", events];
        let job = submitter.detach(&[&options, command].concat());
        submitter.wait(job);
        job
    };
    submitter.lrun(&["true"]).succeeded();
    let first = asks("BEGIN,END,FAIL", &["true"]);
    let mut expected =
        vec![format!("BEGIN {first} a running  ada@example.org"), format!("END {first} a completed 0 ada@example.org")];
    assert_eq!(told.await_events(2), expected);
    let failing = asks("fail", &["sh", "-c", "exit 3"]);
    expected.push(format!("FAIL {failing} a failed 3 ada@example.org"));
    assert_eq!(told.await_events(3), expected);
    asks("fail", &["true"]);
    asks("none,time_limit_80", &["true"]);
    let link = submitter.path("sbatch");
    symlink(limo_tests::programs::path("lslurm"), &link).expect("a link");
    let line = ["--parsable", "-J", "b", "--mail-type=END", "--mail-user=bob", "--wrap", "exit 4"];
    let ran = finish(submitter.command_of(&link, &line).spawn().expect("a program that is built"));
    assert_eq!(ran.stderr, "");
    let job = ran.succeeded().trim().to_owned();
    expected.push(format!("END {job} b failed 4 bob"));
    assert_eq!(told.await_events(4), expected);
    submitter.lrun(&["--mail-type", "SOON", "true"]).failed("`SOON` is not an event");
    submitter.lrun(&["--mail-type", "END", "--mail-user", "a\nb", "true"]).failed("has the control character");
}

#[test]
fn all_jobs_are_posted_to_an_address() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address");
    let (cluster, _settings) = start(&format!("notify = \"http://{address}/limo\"\nnotify_all = true\n"));
    let job = cluster.submitter().detach(&["-J", "posted", "sh", "-c", "exit 5"]);
    let mut events = Vec::new();
    while events.len() < 2 {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        let body = loop {
            let count = stream.read(&mut piece).expect("a request");
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&request));
            request.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&request);
            let body = text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
            if let Some(body) = body {
                assert!(text.starts_with("POST /limo HTTP/1.1\r\n"), "{text}");
                break body;
            }
        };
        stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("answered");
        events.push(body);
    }
    let found = events.iter().map(|event| (&event["event"], &event["state"], &event["exit_code"], &event["job"]));
    let (begin, end) = (("BEGIN", "running", Value::Null), ("FAIL", "failed", Value::from(5)));
    let expected: Vec<_> =
        [begin, end].map(|(event, state, code)| (event.into(), state.into(), code, job.into())).into();
    let found: Vec<(Value, Value, Value, Value)> =
        found.map(|(event, state, code, job)| (event.clone(), state.clone(), code.clone(), job.clone())).collect();
    assert_eq!(found, expected);
}
