//! Errors before a job exists (command lines, masters, refusals), and commands that attach to a missing job.

use limo_fake::{FakeMaster, answer, candidate};
use limo_model::{Power, Time, Wait};
use limo_proto::{Answer, ClientToMaster, DryRun, DryRunQuery, Io, MasterToClient, Query, SendExec};

use crate::stage::{Stage, end, lrun};

/// Address of this machine without a listener.
const NOBODY: &str = "127.0.0.1:1";

async fn check(args: &[&str], stderr: &str) {
    let child = lrun(NOBODY, args).spawn().expect("lrun");
    assert_eq!(end(child).await, format!("exit 125\n--- stdout\n--- stderr\n{stderr}"), "{args:?}");
}

#[tokio::test]
async fn wrong_command_lines_are_refused_with_a_hint() {
    let help = "lrun: hint: try `lrun --help`\n";
    let no_unit = "`30` has no unit: write for example `30min` (units: s, min, h, d, w, ms, m)";
    check(&["-t", "30", "a"], &format!("lrun: error: invalid value '30' for '--time <SPAN>': {no_unit}\n{help}")).await;
    let no_unit = "`2000` has no unit: write for example `512M` (units: B, K, M, G, T, KiB, MiB, GiB, TiB, kB, MB, GB)";
    check(&["--mem", "2000", "a"], &format!("lrun: error: invalid value '2000' for '--mem <SIZE>': {no_unit}\n{help}"))
        .await;
    let cores = "`0` is not a number of cores: 1 or more, or `all`";
    check(&["-c", "0", "a"], &format!("lrun: error: invalid value '0' for '--cores <N>': {cores}\n{help}")).await;
    let forms = "write `18:00`, `2026-10-26 18:00`, `2026-10-26T18:00:00Z` or `now+2h`";
    let text =
        format!("lrun: error: invalid value 'noon' for '--deadline <TIME>': `noon` is not a time: {forms}\n{help}");
    check(&["--deadline", "noon", "a"], &text).await;
    let text = "lrun: error: invalid value '2020-01-01' for '--start-by <TIME>': 2020-01-01 00:00 has passed\n";
    check(&["--start-by", "2020-01-01", "a"], &format!("{text}{help}")).await;
    let text = "lrun: error: invalid value 'n[4-1]' for '--nodelist <LIST>': `4-1` in `n[4-1]` ends before it begins\n";
    check(&["-w", "n[4-1]", "a"], &format!("{text}{help}")).await;
    check(
        &["--imediate", "a"],
        "lrun: error: unexpected argument '--imediate' found\nlrun: hint: a similar argument exists: '--immediate'\n",
    )
    .await;
    check(&[], &format!("lrun: error: the following required arguments were not provided: <COMMAND>...\n{help}")).await;
    check(&["--variant", "gpu=a", "--variant", "gpu=b", "a"], "lrun: error: --variant is given twice for `gpu`\n")
        .await;
    check(
        &["--json", "a"],
        "lrun: error: --json is for --detach and --dry-run: otherwise standard output is the job's own\n\
         lrun: hint: `lq show ID --json` prints a job as JSON\n",
    )
    .await;
}

#[tokio::test]
async fn unreachable_masters_are_reported() {
    let hint = "lrun: hint: check that lmaster runs there, or name another address with LIMO_MASTER or --master\n";
    let text = "lrun: error: cannot connect to 127.0.0.1:1: Connection refused (os error 111)\n";
    check(&["a"], &format!("{text}{hint}")).await;
    check(
        &["--master", "192.0.2.1:6817", "a"],
        "lrun: error: the master at 192.0.2.1:6817 (192.0.2.1:6817) is on another machine: without certificates Limo \
         connects only over loopback\nlrun: hint: name the master with LIMO_MASTER or --master, for example 127.0.0.1:6817\n",
    )
    .await;
    check(
        &["--master", "nowhere", "a"],
        "lrun: error: invalid value 'nowhere' for '--master <ENDPOINT>': `nowhere` is not an address: \
         write unix:/PATH, tls://HOST:PORT or HOST:PORT, for example 127.0.0.1:6817\nlrun: hint: try `lrun --help`\n",
    )
    .await;
}

#[tokio::test]
async fn a_refusal_shows_the_masters_hint() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["-c", "99", "a"]).spawn().expect("lrun");
    let mut stage = Stage::client(&master).await;
    stage.hear().await;
    let reason = "no node has 99 cores: the largest, n1/cpu, has 8".to_owned();
    stage.say(MasterToClient::Refused { reason, hint: Some("lrun -c 8".into()) }).await;
    let expected = "exit 125\n--- stdout\n--- stderr\n\
                    lrun: error: no node has 99 cores: the largest, n1/cpu, has 8\nlrun: hint: lrun -c 8\n";
    assert_eq!(end(child).await, expected);
}

#[tokio::test]
async fn detached_jobs_print_their_number() {
    for (args, stdout) in
        [(&["--detach", "a"][..], "12\n"), (&["--detach", "--json", "a"], "{\"schema\":1,\"id\":12}\n")]
    {
        let master = FakeMaster::start().await.expect("a master");
        let child = lrun(master.address(), args).spawn().expect("lrun");
        let exec = Stage::client(&master).await.accept().await;
        assert_eq!(exec.launch.io, Io::Detached);
        assert_eq!(end(child).await, format!("exit 0\n--- stdout\n{stdout}--- stderr\n"));
    }
}

#[tokio::test]
async fn a_detached_job_is_submitted_again_with_its_key() {
    let master = FakeMaster::start().await.expect("a master");
    let child = lrun(master.address(), &["--detach", "a"]).spawn().expect("lrun");
    let ClientToMaster::SendExec(first) = Stage::client(&master).await.hear().await else { panic!("no submission") };
    let second = Stage::client(&master).await.accept().await;
    assert_eq!(SendExec { again: true, ..*first }, second);
    let away = "lrun: the master went away before it answered; retrying\n";
    assert_eq!(end(child).await, format!("exit 0\n--- stdout\n12\n--- stderr\n{away}"));
}

#[tokio::test]
async fn a_dry_run_submits_nothing() {
    let wait = Wait::Band { needs: Power::from_watts(90), left: Power::from_mw(41_500), until: None };
    let result =
        |start| DryRun { start, wait: Some(wait.clone()), candidates: vec![candidate(Some(wait.clone()))], more: 0 };
    let reason = wait.shown(|_: Time| String::new()).to_string();
    let run = async |args: &[&str], result: DryRun| {
        let master = FakeMaster::start().await.expect("a master");
        let child = lrun(master.address(), args).spawn().expect("lrun");
        let mut stage = Stage::client(&master).await;
        let ClientToMaster::Ask(query) = stage.hear().await else { panic!("a submission") };
        assert!(matches!(*query, Query::DryRun(DryRunQuery(request)) if request.application == "+cg"));
        stage.say(answer(Answer::DryRun(Box::new(result)))).await;
        end(child).await
    };
    let table = "UNIT    HARDWARE  CAP  DURATION  POWER   ENERGY      COST NOW    WAITING       BAND  ESTIMATE FROM              OBSTACLE\n\
                 n1/cpu  xeon      -       10min  90.0 W  0.015 kWh  0.001 EUR  0.000 EUR  0.000 EUR  learned from 3 runs of cg  ";
    let got = run(&["--dry-run", "./cg"], result(None)).await;
    assert_eq!(got, format!("exit 0\n--- stdout\nwould wait: {reason}\n\n{table}{reason}\n--- stderr\n"));
    let got = run(&["--dry-run", "./cg"], result(Some(candidate(None)))).await;
    assert!(got.starts_with("exit 0\n--- stdout\nwould start now on n1/cpu\n\n"), "{got}");
    let got = run(&["--dry-run", "--json", "./cg"], result(None)).await;
    let json = got.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    let json: serde_json::Value = serde_json::from_str(json.expect("success")).expect("JSON");
    assert_eq!((&json["schema"], &json["start"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(json["candidates"][0]["estimate"]["power_w"], 90.0);
}

#[tokio::test]
async fn help_fits_a_screen_and_the_version_is_printed() {
    let output = lrun(NOBODY, &["-h"]).output().await.expect("lrun");
    let help = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(help.lines().count() <= 60, "{} lines", help.lines().count());
    let output = lrun(NOBODY, &["--help"]).output().await.expect("lrun");
    let all = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && all.contains("--kill-grace") && !help.contains("--kill-grace"), "{all}");
    let output = lrun(NOBODY, &["-V"]).output().await.expect("lrun");
    assert_eq!(output.stdout, concat!("lrun ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
}
