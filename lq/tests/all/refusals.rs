//! Errors of `lq` for impossible requests.

use limo_fake::{FakeMaster, answer};
use limo_proto::{Answer, MasterToClient};
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::{answered, lq, snapshot};

fn failed(stderr: &str) -> String {
    format!("exit 125\n--- stdout\n--- stderr\n{stderr}")
}

#[tokio::test]
async fn wrong_command_lines() {
    let check = async |args: &[&str], stderr: &str| {
        assert_eq!(snapshot(lq("127.0.0.1:1", args)).await, failed(stderr), "{args:?}");
    };
    let help = "lq: hint: try `lq --help`\n";
    let forms = "write a number of the column JOBID, a range such as `3-9`, `last` or `all`";
    for command in ["show", "explain", "cancel", "wait"] {
        let text = format!("lq: error: invalid value 'x' for '<JOB>...': `x` names no job: {forms}\n{help}");
        check(&[command, "x"], &text.replace("<JOB>...", if command == "cancel" { "[JOB]..." } else { "<JOB>..." }))
            .await;
    }
    check(&["cancel"], &format!("lq: error: the following required arguments were not provided: <JOB>...\n{help}"))
        .await;
    check(&["cancel", "-t", "F"], "lq: error: a job that is failed is over and cannot be ended\n").await;
    check(&["history", "-t", "R"], "lq: error: a job that is running is not over\nlq: hint: lq -t running\n").await;
    check(
        &["--json", "--long"],
        "lq: error: --format, --long and --noheader cannot be combined with --json, which has all columns\n",
    )
    .await;
    check(
        &["energy", "--by", "group", "-u", "ada"],
        "lq: error: the energy of nodes is not divided among jobs: --by group cannot be combined with filters of jobs\n\
         lq: hint: lq energy --by group --since now-1d\n",
    )
    .await;
    check(
        &["energy", "--by", "state", "-w", "n1", "-u", "ada"],
        "lq: error: states are those of nodes: --by state cannot be combined with filters of jobs\n\
         lq: hint: lq energy --by state -w n1\n",
    )
    .await;
    check(&["nodse"], "lq: error: unrecognized subcommand 'nodse'\nlq: hint: a similar subcommand exists: 'nodes'\n")
        .await;
    let states = "waiting (PD), starting (CF), running (R), suspended (S), stopping (CG), completed (CD), failed (F), cancelled (CA), \
                  timed_out (TO), lost (LO), refused (RF), used_up (UU), node_failed (NF)";
    let text = format!("lq: error: invalid value 'ZZ' for '--states <STATE>': `ZZ` is not a state: {states}\n{help}");
    check(&["-t", "ZZ"], &text).await;
    check(
        &["-a", "nodes"],
        "lq: error: table options cannot be combined with a subcommand\n\
         lq: hint: `lq COMMAND --help` shows the options of a command, which follow it\n",
    )
    .await;
}

#[tokio::test]
async fn a_refusal_with_its_hint() {
    let refused = MasterToClient::Refused { reason: "there is no job 7".into(), hint: Some("lq --all".into()) };
    let (output, _) = answered(&["show", "7"], refused).await;
    assert_eq!(output, failed("lq: error: there is no job 7\nlq: hint: lq --all\n"));
}

#[tokio::test]
async fn a_master_that_talks_nonsense() {
    let (output, _) = answered(&["nodes"], answer(Answer::Done)).await;
    assert_eq!(output, failed("lq: error: the master's answer does not match the question: Done\n"));
}

#[tokio::test]
async fn a_master_that_hangs_up() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    let served = tokio::spawn(async move {
        let mut peer = master.client().await.expect("a client");
        peer.hear().await.expect("a question");
    });
    let output = snapshot(lq(&address, &[])).await;
    assert_eq!(output, failed("lq: error: the master closed the connection before it answered\n"));
    served.await.expect("served");
}

#[tokio::test]
async fn a_reader_that_ends_is_not_a_failure() {
    let master = FakeMaster::start().await.expect("a master");
    let address = master.address().to_owned();
    master.answering(|_| answer(Answer::Jobs(vec![])));
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    drop(reader);
    let mut command = lq(&address, &[]);
    command.stdout(std::process::Stdio::from(writer));
    assert_eq!(snapshot(command).await, "exit 0\n--- stdout\n--- stderr\n");
}
