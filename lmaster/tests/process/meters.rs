//! A plug at the master that serves two nodes, over HTTP, and its failures.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use limo_model::{Meter, Power};
use limo_proto::{Answer, NodeReport, NodesQuery, Query, Role, Status, StatusQuery};

use crate::harness::{Client, Master, Node, lmaster, slave};

/// Longest wait of a test: longer than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Shelly plug with a configurable answer.
struct Plug {
    url: String,
    answer: Arc<Mutex<String>>,
}

impl Plug {
    fn new(watts: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let plug = Self { url, answer: Arc::default() };
        plug.show(watts);
        let answer = Arc::clone(&plug.answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
                // The request ends with an empty line.
                lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
                let answer = answer.lock().expect("no panic").clone();
                // The master may have closed the connection.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        plug
    }

    fn answers(&self, status: &str, body: &str) {
        let head = "content-type: application/json\r\nconnection: close\r\n";
        let text = format!("HTTP/1.1 {status}\r\n{head}content-length: {}\r\n\r\n{body}", body.len());
        *self.answer.lock().expect("no panic") = text;
    }

    fn show(&self, watts: &str) {
        self.answers("200 OK", &format!("{{\"id\":0,\"output\":true,\"apower\":{watts}}}"));
    }
}

fn configured(dir: &Path, plug: &Plug) -> String {
    let file = dir.join("lmaster.toml");
    let meter = format!(
        "readings_every = \"50ms\"\n[policy]\nstale_after = \"2s\"\n\
         [[meter]]\nsource = \"shelly:{}\"\nserves = [\"n1\", \"n2\"]\ninterval = \"50ms\"\n",
        plug.url
    );
    std::fs::write(&file, meter).expect("written");
    file.to_str().expect("UTF-8").to_owned()
}

/// Registers a node without a meter, which draws 10 W without jobs.
async fn bare(master: &Master, name: &str) -> Node {
    let mut node = Node::call(master, Role::Node).await;
    let mut slave = slave(name, Vec::new());
    slave.slave.journal = node.connection.identity.journal;
    slave.slave.spec.meter = Meter::None;
    for message in slave.into_messages() {
        node.say(message).await;
    }
    node.hear_of(|message| matches!(message, limo_proto::MasterToNode::Registered).then_some(())).await;
    node
}

async fn seen(client: &mut Client) -> (Status, Vec<NodeReport>) {
    let Answer::Status(status) = client.ask(Query::Status(StatusQuery)).await else { panic!("no status") };
    let Answer::Nodes(nodes) = client.ask(Query::Nodes(NodesQuery)).await else { panic!("no nodes") };
    (*status, nodes)
}

/// Queries the status until the condition holds.
async fn until(client: &mut Client, what: &str, is_so: impl Fn(&Status, &[NodeReport]) -> bool) {
    let begin = Instant::now();
    let mut between = tokio::time::interval(Duration::from_millis(20));
    loop {
        between.tick().await;
        let (status, nodes) = seen(client).await;
        if is_so(&status, &nodes) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "not in time: {what}; {status:?} {nodes:?}");
    }
}

#[tokio::test]
async fn a_plug_of_two_nodes_is_read_and_may_fail() {
    let dir = tempfile::tempdir().expect("a directory");
    let plug = Plug::new("41.5");
    let file = configured(dir.path(), &plug);
    let master = Master::start_with(&dir.path().join("state"), "127.0.0.1:0", &["--config", &file]);
    let _nodes = (bare(&master, "n1").await, bare(&master, "n2").await);
    let mut client = Client::new(&master).await;
    let halves = |mw: i64| {
        move |status: &Status, nodes: &[NodeReport]| {
            let each = nodes.iter().all(|node| node.measured && node.draw == Power::from_mw(mw / 2));
            each && nodes.len() == 2 && status.draw == Power::from_mw(mw) && status.meters[0].draw.is_some()
        }
    };
    until(&mut client, "41.5 W are two halves", halves(41_500)).await;
    assert!(seen(&mut client).await.1.iter().all(|node| node.meter == Meter::Shared));
    plug.show("60.0");
    until(&mut client, "60 W are two halves", halves(60_000)).await;

    plug.answers("500 Internal Server Error", "");
    master.logged("the meter fails: its nodes are estimated");
    until(&mut client, "both are estimated", |status, nodes| {
        let why = status.meters[0].failing.as_deref().unwrap_or_default();
        why.contains("HTTP 500") && nodes.iter().all(|node| !node.measured && node.draw == Power::from_watts(10))
    })
    .await;
    // A draw of zero is not a reading.
    plug.show("0.0");
    until(&mut client, "it says why", |status, _| {
        status.meters[0].failing.as_deref().is_some_and(|why| why.contains("0.0 W"))
    })
    .await;
    plug.show("30.0");
    let again = master.logged("the meter ");
    assert!(again.contains("the meter works again"), "said once that it fails: {again}");
    until(&mut client, "30 W are two halves", halves(30_000)).await;
    master.signal(nix::sys::signal::SIGTERM);
    assert_eq!(master.wait(), Some(0));
}

#[test]
fn a_password_that_everybody_can_read_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, access) = (dir.path().join("lmaster.toml"), dir.path().join("access"));
    std::fs::write(&access, "user = \"limo\"\npassword = \"x\"\n").expect("written");
    let meter = "[[meter]]\nsource = \"shelly:http://plug1\"\nserves = \"all\"\n";
    std::fs::write(&file, format!("{meter}access = \"{}\"\n", access.display())).expect("written");
    let mut command = lmaster();
    command.arg("--config").arg(&file).args(["--listen", "127.0.0.1:0", "--state-dir"]).arg(dir.path().join("state"));
    let output = command.output().expect("lmaster");
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "lmaster: cannot use the meter `shelly:http://plug1`: ";
    assert!(output.status.code() == Some(1) && said.starts_with(expected) && said.contains("chmod 600"), "{said}");
}
