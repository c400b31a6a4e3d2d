//! The reason for waiting is shown in place on a terminal, on a line for each change with `-v`, and otherwise not at
//! all.

use std::fs::File;
use std::io::Read;

use limo_fake::FakeMaster;
use limo_model::{Outcome, Power, Span, Time, Wait};
use limo_proto::{Channel, ClientToMaster, MasterToClient};
use nix::pty::{Winsize, openpty};

use crate::stage::{JOB, Stage, end, lrun};

fn waiting(left: i64) -> MasterToClient {
    let until = Some(Time::from_unix_ms(0) + Span::from_secs(14 * 3600));
    let wait = Wait::Band { needs: Power::from_watts(90), left: Power::from_watts(left), until };
    MasterToClient::Waiting { job: JOB, wait }
}

/// Returns the line for [`waiting`], in the words of the core.
fn line(left: i64) -> String {
    let MasterToClient::Waiting { wait, .. } = waiting(left) else { unreachable!("made above") };
    format!("lrun: job 12 waits: {}", wait.shown(|_| "1970-01-01 14:00".into()))
}

#[tokio::test]
async fn a_terminal_shows_the_reason_in_place_until_the_start() {
    let master = FakeMaster::start().await.expect("a master");
    let size = Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).expect("a terminal");
    let child = lrun(master.address(), &["a"]).stderr(pty.slave).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.accept().await;
    stage.say(waiting(41)).await;
    stage.say(waiting(41)).await;
    stage.say(waiting(9)).await;
    stage.say(MasterToClient::Running { job: JOB, node: "n1".into(), unit: "cpu".into() }).await;
    // The job's output begins on an empty line.
    stage.peer.data(JOB, Channel::Stderr, 0, b"err\n").await.expect("sent");
    stage.end_streams(0, 4).await;
    stage.finish(Outcome::Exited(0)).await;
    assert_eq!(end(child).await, "exit 0\n--- stdout\n--- stderr\n");
    let mut shown = Vec::new();
    // A terminal whose other side is closed gives an error after its last byte.
    let _ = File::from(pty.master).read_to_end(&mut shown);
    let (first, second) = (line(41), line(9));
    let expected = format!("\r{first}\r{second} \r{}\rerr\r\n", " ".repeat(second.len()));
    assert_eq!(String::from_utf8_lossy(&shown), expected);
}

#[tokio::test]
async fn a_narrow_terminal_keeps_one_line() {
    let master = FakeMaster::start().await.expect("a master");
    let size = Winsize { ws_row: 24, ws_col: 20, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).expect("a terminal");
    let child = lrun(master.address(), &["a"]).stderr(pty.slave).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.accept().await;
    stage.say(waiting(41)).await;
    stage.end_streams(0, 0).await;
    stage.finish(Outcome::Exited(0)).await;
    assert_eq!(end(child).await, "exit 0\n--- stdout\n--- stderr\n");
    let mut shown = Vec::new();
    let _ = File::from(pty.master).read_to_end(&mut shown);
    assert_eq!(String::from_utf8_lossy(&shown), format!("\rlrun: job 12 waits:\r{}\r", " ".repeat(19)));
}

#[tokio::test]
async fn elsewhere_the_reason_needs_an_option() {
    let said = format!("lrun: job 12 accepted\n{}\n{}\nlrun: job 12: n1: exited with code 0\n", line(41), line(9));
    for (args, stderr) in [(&["a"][..], ""), (&["-v", "a"], said.as_str())] {
        let master = FakeMaster::start().await.expect("a master");
        let child = lrun(master.address(), args).spawn().expect("lrun");
        let mut stage = Stage::client(&master).await;
        stage.accept().await;
        stage.say(waiting(41)).await;
        stage.say(waiting(9)).await;
        stage.say(waiting(9)).await;
        stage.end_streams(0, 0).await;
        stage.finish(Outcome::Exited(0)).await;
        assert_eq!(end(child).await, format!("exit 0\n--- stdout\n--- stderr\n{stderr}"));
    }
}

/// Runs `lrun` in the background of its terminal, as a shell with job control does. A read from that terminal would
/// stop it.
#[tokio::test]
async fn a_background_process_leaves_the_terminal_alone() {
    let master = FakeMaster::start().await.expect("a master");
    let pty = openpty(None, None).expect("a terminal");
    let program = env!("CARGO_BIN_EXE_lrun");
    let mut shell = tokio::process::Command::new("setsid");
    shell
        .args(["--ctty", "--wait", "sh", "-mc", "\"$0\" -Q a & wait $!", program])
        .env("LIMO_MASTER", master.address());
    let terminal = || std::process::Stdio::from(pty.slave.try_clone().expect("a descriptor"));
    shell.stdin(terminal()).stdout(terminal()).stderr(terminal()).kill_on_drop(true);
    let mut child = shell.spawn().expect("a shell");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    // Enough output for an acknowledgement, which `lrun` sends long after it began to read its stdin.
    let output = vec![0; 64 * 1024];
    let mut shown = tokio::fs::File::from_std(File::from(pty.master.try_clone().expect("a descriptor")));
    tokio::spawn(async move { tokio::io::copy(&mut shown, &mut tokio::io::sink()).await });
    stage.peer.data(JOB, Channel::Stdout, 0, &output).await.expect("sent");
    let ClientToMaster::StreamAck { .. } = stage.hear().await else { panic!("no acknowledgement") };
    stage.end_streams(output.len() as u64, 0).await;
    stage.finish(Outcome::Exited(7)).await;
    assert_eq!(child.wait().await.expect("an end").code(), Some(7));
}
