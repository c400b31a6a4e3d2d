//! Another user listens in place of a master. Nodes and clients of root send it only a greeting.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Child, Command, Stdio};

use limo_tests::{Cluster, Hostile, Ran, STRANGER, Setup, Stranger, finish, programs, until};

const SECRET: &str = "a-secret-of-the-environment";

/// Starts a client of root that calls `endpoint`, with a secret in its environment.
fn client(program: &str, endpoint: &str, arguments: &[&str]) -> Ran {
    let mut command = programs::command(program);
    command.args(arguments).env("LIMO_MASTER", endpoint).env("SECRET", SECRET);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("a program that is built"))
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node of root that calls `endpoint`.
struct Node {
    _daemon: Killed,
    dir: tempfile::TempDir,
}

impl Node {
    fn calling(endpoint: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let log = fs::File::create(dir.path().join("log")).expect("a log");
        let mut command: Command = programs::command("lslave");
        command.args(["--master", endpoint, "--name", "n1", "--state-dir"]).arg(dir.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self { _daemon: Killed(command.spawn().expect("a program that is built")), dir }
    }

    fn logs(&self, words: &str) {
        until(&format!("the node logs `{words}`"), || {
            fs::read_to_string(self.dir.path().join("log")).is_ok_and(|log| log.contains(words)).then_some(())
        });
    }
}

/// Returns a port that was just free.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string()
}

/// Checks that each connection ended with no byte after its greeting.
fn was_sent_nothing(impostor: &Hostile) {
    until("every caller has hung up", || {
        (impostor.count("greeted") == impostor.count("sent nothing") + impostor.count("SENT")).then_some(())
    });
    let lines = impostor.lines();
    assert!(!lines.iter().any(|line| line.starts_with("SENT") || line.contains(SECRET)), "{lines:#?}");
}

#[test]
fn an_impostor_on_the_port_is_sent_nothing() {
    let Some(stranger) = Stranger::new() else { return };
    let port = free_port();
    let impostor = stranger.impostor(&port);
    let expected =
        format!("uid {STRANGER} listens at {port}; the master must belong to root (uid 0), so nothing was sent");
    client("lrun", &port, &["true"]).failed(&expected);
    client("lrun", &port, &["--detach", "true"]).failed(&expected);
    client("lq", &port, &["nodes"]).failed(&expected);
    client("lconf", &port, &["status"]).failed(&expected);
    let node = Node::calling(&port);
    node.logs(&expected);
    until("the node has called", || (impostor.count("greeted by a Node") > 0).then_some(()));
    assert!(impostor.count("greeted by a Client") >= 4);
    drop(node);
    was_sent_nothing(&impostor);
}

#[test]
fn an_impostor_on_the_socket_does_not_even_see_a_greeting() {
    let Some(stranger) = Stranger::new() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("limo");
    fs::create_dir(&place).expect("made");
    let mode = |mode| fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("root may");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("own directory");
    mode(0o1777);
    let endpoint = format!("unix:{}/master.sock", place.display());
    let impostor = stranger.impostor(&endpoint);
    client("lrun", &endpoint, &["true"]).failed("can be written by other users (mode 1777)");
    // The directory may have been open before, but is closed now.
    mode(0o755);
    let expected = format!("uid {STRANGER} listens at {endpoint}; the master must belong to root (uid 0)");
    client("lrun", &endpoint, &["true"]).failed(&expected);
    client("lq", &endpoint, &["nodes"]).failed(&expected);
    let node = Node::calling(&endpoint);
    node.logs(&expected);
    drop(node);
    chown(&place, Some(STRANGER), None).expect("root may");
    client("lrun", &endpoint, &["true"]).failed(&format!("belongs to uid {STRANGER}"));
    assert_eq!(impostor.count("greeted"), 0, "{:#?}", impostor.lines());
    assert!(!impostor.lines().iter().any(|line| line.contains(SECRET)));
    // The operator names this user as the master's, so its master is trusted.
    let named =
        client("lrun", &endpoint, &["--master-user", &STRANGER.to_string(), "--reconnect-timeout", "0s", "true"]);
    assert_eq!(named.code, Some(125), "{named:?}");
    until("a submission came", || (impostor.count("SENT") > 0).then_some(()));
}

#[test]
fn an_impostor_during_a_restart_is_sent_nothing_and_the_job_continues() {
    let Some(stranger) = Stranger::new() else { return };
    let mut cluster = Setup::nodes(1, 1).over_tcp().start();
    let submitter = cluster.submitter().clone();
    let job = submitter.spawn_lrun(&["sh", "-c", "read line; echo got $line; exit 7"]);
    until("it runs", || submitter.jobs().iter().any(|job| job["state"] == "running").then_some(()));
    cluster.kill_master();
    let impostor = stranger.impostor(&submitter.address);
    until("both have called the impostor", || {
        (impostor.count("greeted by a Node") > 0 && impostor.count("greeted by a Client") > 1).then_some(())
    });
    was_sent_nothing(&impostor);
    drop(impostor);
    cluster.start_master();
    let ran = with_input(job, "word\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(7), "got word\n"), "{}", ran.stderr);
}

fn with_input(mut child: Child, text: &str) -> Ran {
    use std::io::Write;
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("typed");
    finish(child)
}

#[test]
fn silent_connections_of_one_user_do_not_keep_another_waiting() {
    let Some(stranger) = Stranger::new() else { return };
    for over_tcp in [false, true] {
        let setup = Setup { over_tcp, ..Setup::nodes(1, 1) };
        let cluster: Cluster = setup.start();
        let submitter = cluster.submitter();
        let crowd = stranger.crowd(&submitter.address, 3000);
        let times: Vec<_> = (0..5)
            .map(|_| {
                let begin = std::time::Instant::now();
                submitter.lrun(&["true"]).succeeded();
                begin.elapsed()
            })
            .collect();
        println!("over TCP {over_tcp}: lrun true took {times:?} beside {} silent connections", crowd.count("open"));
        let best = times.iter().min().expect("five");
        assert!(best.as_secs_f64() < 1.0, "{times:?}");
        until("silent callers are hung up on", || (crowd.count("closed") > 3000).then_some(()));
        assert_eq!(cluster.node_report("n1").expect("known")["state"], "up");
    }
}

#[test]
fn a_user_has_a_cluster_without_options() {
    let Some(stranger) = Stranger::new() else { return };
    let home = tempfile::tempdir().expect("a directory");
    chown(home.path(), Some(STRANGER), Some(STRANGER)).expect("root may");
    let command = |program: &str| {
        let mut command = stranger.command(program);
        command.env_clear().env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.path().join("run"));
        command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        command
    };
    fs::create_dir(home.path().join("run")).expect("made");
    chown(home.path().join("run"), Some(STRANGER), Some(STRANGER)).expect("root may");
    let run = |program: &str, arguments: &[&str]| {
        let mut command = command(program);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("executable"))
    };
    let daemons = ["lmaster", "lslave"].map(|program| {
        let log = fs::File::create(home.path().join(program)).expect("a log");
        let mut command = command(program);
        if program == "lslave" {
            command.args(["--name", "n1"]);
        }
        Killed(command.stderr(log).spawn().expect("executable"))
    });
    until("the node is up", || run("lq", &["nodes", "--json"]).stdout.contains("\"state\":\"up\"").then_some(()));
    let ran = run("lrun", &["id", "-u"]);
    let socket = home.path().join("run/limo/master.sock");
    let found = (socket.exists(), home.path().join(".local/state/limo/lmaster/journal.db").exists());
    drop(daemons);
    assert_eq!((ran.code, ran.stdout, found), (Some(0), format!("{STRANGER}\n"), (true, true)), "{}", ran.stderr);
}
