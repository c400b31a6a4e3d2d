//! Real signals to the real `lrun` process.

use limo_fake::{FakeMaster, waiting_job};
use limo_model::{JobEnd, Outcome};
use limo_proto::{Change, ClientToMaster, JobReport, JobState, MasterToClient};
use nix::libc::{SIGCONT, SIGINT, SIGSTOP, SIGUSR1};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::stage::{JOB, Stage, end, lrun, send_signal};

fn signalled(signal: i32) -> ClientToMaster {
    ClientToMaster::Signal { job: JOB, signal }
}

fn cancel() -> ClientToMaster {
    ClientToMaster::ChangeConf(Box::new(Change::Cancel(vec![JOB])))
}

#[tokio::test]
async fn a_running_job_gets_signals() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["-Q", "sleep", "100"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.settle().await;
    for signal in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGQUIT, Signal::SIGUSR2, Signal::SIGINT] {
        send_signal(&child, signal);
        assert_eq!(stage.hear().await, signalled(signal as i32));
    }
    stage.end_streams(0, 0).await;
    stage.finish(Outcome::Signaled(SIGINT)).await;
    assert_eq!(end(child).await, "exit 130\n--- stdout\n--- stderr\n");
}

#[tokio::test]
async fn the_second_interrupt_stops_the_job() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["-Q", "sleep", "100"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.settle().await;
    send_signal(&child, Signal::SIGINT);
    assert_eq!(stage.hear().await, signalled(SIGINT));
    send_signal(&child, Signal::SIGINT);
    assert_eq!(stage.hear().await, cancel());
}

#[tokio::test]
async fn a_waiting_job_is_cancelled() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["sleep", "100"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.accept().await;
    send_signal(&child, Signal::SIGINT);
    assert_eq!(stage.hear().await, cancel());
    let by = "ada".to_owned();
    let report = JobReport { state: JobState::Cancelled, end: Some(JobEnd::Cancelled { by }), ..waiting_job(12) };
    stage.say(MasterToClient::Finished { job: JOB, report: Box::new(report) }).await;
    let said = "lrun: job 12: cancelled by ada before it started\n";
    assert_eq!(end(child).await, format!("exit 130\n--- stdout\n--- stderr\n{said}"));
}

#[tokio::test]
async fn ignored_signals_stay_ignored() {
    let master = FakeMaster::start().await.expect("a master");
    let program = lrun(master.address(), &[]).as_std().get_program().to_owned();
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(["-c", "trap '' INT; exec \"$0\" -Q sleep 100 </dev/null"])
        .arg(program)
        .env("LIMO_MASTER", master.address());
    let child = shell.kill_on_drop(true).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.settle().await;
    send_signal(&child, Signal::SIGINT);
    send_signal(&child, Signal::SIGUSR1);
    assert_eq!(stage.hear().await, signalled(SIGUSR1));
}

#[tokio::test]
async fn a_stop_from_the_terminal_stops_lrun_and_the_job() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["-Q", "sleep", "100"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.start().await;
    stage.settle().await;
    send_signal(&child, Signal::SIGTSTP);
    assert_eq!(stage.hear().await, signalled(SIGSTOP));
    let id = Pid::from_raw(i32::try_from(child.id().expect("alive")).expect("a pid"));
    let stopped = tokio::task::spawn_blocking(move || waitid(Id::Pid(id), WaitPidFlag::WSTOPPED));
    stopped.await.expect("a task").expect("lrun stops");
    send_signal(&child, Signal::SIGCONT);
    assert_eq!(stage.hear().await, signalled(SIGCONT));
}
