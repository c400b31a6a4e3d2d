//! `lrun --dry-run COMMAND`: shows when and where the job would start.

use limo_client::json::{CandidateJson, SCHEMA};
use limo_client::{Clock, Failure, Master, answer, answer_json, candidate_table, exit};
use limo_model::Request;
use limo_proto::DryRun;
use serde::Serialize;

#[derive(Serialize)]
struct DryRunJson {
    schema: u32,
    /// Candidate for a start now; `null` if the job would wait.
    start: Option<CandidateJson>,
    wait_reason: Option<String>,
    candidates: Vec<CandidateJson>,
    /// Number of further candidates.
    candidates_left_out: u32,
}

/// Asks the master and prints the answer; submits nothing.
///
/// # Errors
/// If the master would refuse the job, or cannot be asked.
pub async fn run(request: Request, json: bool, master: &Master) -> Result<u8, Failure> {
    let result = master.dry_run(request).await?;
    let clock = Clock::system();
    if json {
        answer_json(&as_json(&result, &clock))?;
    } else {
        answer(&as_text(&result, &clock))?;
    }
    Ok(exit::DONE)
}

fn as_json(result: &DryRun, clock: &Clock) -> DryRunJson {
    let candidate = |candidate| CandidateJson::new(candidate, clock);
    DryRunJson {
        schema: SCHEMA,
        start: result.start.as_ref().map(candidate),
        wait_reason: result.wait.as_ref().map(|wait| wait.shown(|time| clock.show(time)).to_string()),
        candidates: result.candidates.iter().map(candidate).collect(),
        candidates_left_out: result.more,
    }
}

fn as_text(result: &DryRun, clock: &Clock) -> String {
    let mut text = match (&result.start, &result.wait) {
        (Some(start), _) => format!("would start now on {}/{}\n", start.node, start.unit),
        (None, Some(wait)) => format!("would wait: {}\n", wait.shown(|time| clock.show(time))),
        (None, None) => "would wait\n".into(),
    };
    if !result.candidates.is_empty() {
        text += "\n";
        text += &candidate_table((&result.candidates, result.more), clock);
    }
    text
}
