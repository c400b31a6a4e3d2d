//! Text of other users cannot control a terminal: names of users, jobs and nodes, and reasons.

use limo_fake::{answer, candidate, finished_job, node, running_job, waiting_job};
use limo_model::{Band, JobEnd, Mode, Outcome, Power, Time, Wait};
use limo_proto::{Answer, EnergyReport, EnergySum, Explanation, JobReport, MasterToClient};

use crate::answered;

/// Control characters: title of the window, colour, line feed, carriage return, direction of the text, bell, and
/// control bytes of C1.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31mred\nroot\r\u{202e}\u{9b}2J";

/// All columns with text of other users.
const COLUMNS: &str = "jobid,name,user,nodes(unit),application,command,nodes,how,reason";

fn text() -> String {
    HOSTILE.to_owned()
}

fn hostile(job: JobReport) -> JobReport {
    JobReport {
        user: text(),
        name: text(),
        application: text(),
        command: text(),
        nodes: vec![text()],
        units: vec![format!("{HOSTILE}/{HOSTILE}")],
        stdout: Some(text()),
        stderr: Some(text()),
        held: Some(text()),
        unreachable: vec![(text(), Some(Time::from_unix_ms(0)))],
        ..job
    }
}

fn reserved() -> Wait {
    Wait::Reserved { node: text(), reservation: text(), from: Time::from_unix_ms(0), until: Time::from_unix_ms(1) }
}

/// Returns true for characters that control a terminal; line breaks are allowed.
fn steers(c: char) -> bool {
    (c.is_control() && c != '\n') || c == '\u{202e}'
}

async fn check(args: &[&str], told: MasterToClient) {
    let (output, _) = answered(args, told).await;
    assert!(!output.contains(steers), "{args:?}: {output:?}");
    assert!(!output.lines().any(|line| line.starts_with("root")), "{args:?}: a line of its own: {output}");
    assert!(output.contains("owned"), "{args:?} shows the text: {output}");
}

#[tokio::test]
async fn names_and_reasons_of_others_are_escaped_wherever_they_are_shown() {
    let lost = |outcome| hostile(finished_job(4, outcome));
    let jobs = vec![
        hostile(waiting_job(1)),
        hostile(JobReport { wait: Some(reserved()), ..waiting_job(2) }),
        hostile(running_job(3)),
        lost(Outcome::NotStarted { code: 127, reason: text() }),
        lost(Outcome::NodeFailed { reason: text() }),
        JobReport { end: Some(JobEnd::Cancelled { by: text() }), ..lost(Outcome::Lost { reason: text() }) },
    ];
    let list = || answer(Answer::Jobs(jobs.clone()));
    for args in [&["--all"][..], &["--all", "--noheader"], &["--all", "--json"], &["-o", COLUMNS]] {
        check(args, list()).await;
    }
    for job in &jobs {
        let shown = || answer(Answer::Jobs(vec![job.clone()]));
        check(&["show", &job.job.to_string()], shown()).await;
        check(&["show", "--json", &job.job.to_string()], shown()).await;
    }
    let ended = jobs.iter().filter(|job| job.ended.is_some()).cloned().collect();
    check(&["history"], answer(Answer::History { jobs: ended, more: false })).await;
    let explanation = Explanation {
        job: hostile(waiting_job(1)),
        mode: Mode::Low,
        price: None,
        draw: Power::from_watts(18),
        band: Band::UNLIMITED,
        candidates: vec![limo_proto::Candidate {
            node: text(),
            unit: text(),
            hardware: text(),
            ..candidate(Some(reserved()))
        }],
        more: 0,
        planned: Some(limo_proto::Planned { at: limo_model::Time::from_unix_ms(0), place: text() }),
    };
    check(&["explain", "1"], answer(Answer::Explanation(Box::new(explanation)))).await;
    let mut shown = node(HOSTILE);
    (shown.reason, shown.units[0].name, shown.units[0].hardware) = (Some(text()), text(), text());
    check(&["nodes"], answer(Answer::Nodes(vec![shown]))).await;
    let sums = vec![EnergySum { key: text(), jobs: 1, ..EnergySum::default() }];
    check(&["energy"], answer(Answer::Energy(Box::new(EnergyReport { sums, ..EnergyReport::default() })))).await;
    let refused = MasterToClient::Refused { reason: text(), hint: Some(text()) };
    check(&["cancel", "1"], refused).await;
}
