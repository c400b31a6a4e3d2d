//! `lrun --dry-run COMMAND`: what would happen to the job now.

use limo_client::json::{CandidateJson, SCHEMA};
use limo_client::{Clock, Failure, Master, answer, answer_json, candidate_table, exit};
use limo_model::Request;
use limo_proto::DryRun;
use serde::Serialize;

#[derive(Serialize)]
struct DryRunJson {
    schema: u32,
    /// Where it would start now; `null` where it would wait.
    start: Option<CandidateJson>,
    wait_reason: Option<String>,
    candidates: Vec<CandidateJson>,
    /// How many there are beside these.
    candidates_left_out: u32,
}

/// Asks and prints; submits nothing.
///
/// # Errors
/// Where the master would refuse the job, or cannot be asked.
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
