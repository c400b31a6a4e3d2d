//! `lq explain`: explains why jobs wait, with figures.

use limo_client::json::ExplanationJson;
use limo_client::{
    Clock, Failure, Master, answer, answer_json, candidate_table, dependencies, end_in_words, exit, marked, plain,
};
use limo_model::Power;
use limo_proto::{Explanation, JobReport, JobState, Planned, Selector};

/// Explains each job; in JSON one per line.
///
/// # Errors
/// If the master cannot be asked, or a job is unknown or over.
pub async fn run(which: &[Selector], json: bool, master: &Master) -> Result<u8, Failure> {
    let mut session = master.session().await?;
    let ids = session.select(which, true).await?;
    for (index, id) in ids.into_iter().enumerate() {
        let explanation = session.explain(id).await?;
        let clock = Clock::system();
        if json {
            answer_json(&ExplanationJson::new(&explanation, &clock))?;
        } else {
            let gap = if index > 0 { "\n" } else { "" };
            answer(&format!("{gap}{}", as_text(&explanation, &clock)))?;
        }
    }
    Ok(exit::DONE)
}

fn as_text(explanation: &Explanation, clock: &Clock) -> String {
    let Explanation { job, mode, price, draw, band, candidates, more, planned } = explanation;
    let mut text = format!("{}\n\n", headline(job, clock));
    let price = price.map_or_else(|| "no price is known".into(), |price| format!("energy costs {price}"));
    let left = if band.high().is_unlimited() {
        "the draw has no limit".into()
    } else {
        format!("the upper limit {} leaves {}", band.high(), (band.high() - *draw).at_least_zero())
    };
    text += &format!("draw         {}; {left}\n", marked(draw, job.emulated));
    if band.low() > Power::ZERO {
        text += &format!("lower limit  {}\n", band.low());
    }
    text += &format!("mode         {mode}; {price}\n");
    if let Some(Planned { at, place }) = planned {
        text += &format!("planned      {} on {}\n", clock.show(*at), plain(place));
    }
    if let Some(licences) = crate::show::licences(job) {
        text += &format!("licences     {licences}\n");
    }
    if let Some(nodes) = crate::show::nodes(job) {
        text += &format!("nodes        {nodes}\n");
    }
    if let Some(deadline) = job.deadline {
        text += &format!("deadline     {}\n", clock.show(deadline));
    }
    if let Some(start_by) = job.start_by {
        text += &format!("start by     {}\n", clock.show(start_by));
    }
    if let Some(begin) = job.begin {
        text += &format!("begin        {}\n", clock.show(begin));
    }
    let depends = dependencies(job);
    if !depends.is_empty() {
        text += &format!("depends on   {}\n", depends.join(", "));
    }
    if let Some(holder) = &job.held {
        text += &format!("held by      {}\n", plain(holder));
    }
    if let Some(priority) = crate::show::priority(job).filter(|priority| priority != "0") {
        text += &format!("priority     {priority}\n");
    }
    if candidates.is_empty() {
        text += "\nno unit of a registered node could run it\n";
    } else {
        text += "\n";
        text += &candidate_table((candidates, *more), clock);
    }
    text
}

fn headline(job: &JobReport, clock: &Clock) -> String {
    let id = job.job;
    let at = |units: &[String]| units.join(", ");
    match (&job.wait, &job.end) {
        (Some(wait), _) => format!("job {id} waits: {}", wait.shown(|time| clock.show(time))),
        (None, Some(end)) => format!("job {id} is over: {}", end_in_words(end, clock)),
        (None, None) if job.state == JobState::Waiting => format!("job {id} waits; no round has considered it yet"),
        (None, None) => {
            let explores = job.explores.map_or(String::new(), |cap| format!("; explores cap {cap}"));
            format!("job {id} is {} on {}{explores}", job.state.name(), at(&job.units))
        }
    }
}
