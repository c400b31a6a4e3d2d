//! `/api/v1`: questions to the master, with answers as `lq --json` has them. `docs/openapi.json` describes
//! the routes and the answers.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use limo_json::{ChangeJson, Clock, EnergyJson, ExplanationJson, JobJson, NodeJson, SCHEMA};
use limo_model::{JobId, Span, Time};
use limo_proto::{
    ChangesQuery, EnergyBy, EnergyQuery, ExplainQuery, Finished, JobFilter, JobOrder, JobQuery, JobReport, JobState,
    ListingQuery, NodeReport, PlanQuery, ReadingsQuery, UsageQuery,
};
use serde::Serialize;

use super::documents::{ChangesPageJson, DrawJson, JobDetailJson, JobsPageJson, MapJson, NodesPageJson, PlanJson};
use super::overview::OverviewJson;
use super::parameters::Parameters;
use super::{ApiError, Web, WebCaller, act, draw};

/// Description of the API.
const DESCRIPTION: &str = include_str!("../../../docs/openapi.json");

/// Most rows of a page, and their number unless the request names one.
const MOST_ROWS: u32 = 200;
const ROWS: u32 = 100;

/// Longest range of a request in days.
const DAYS: i64 = 366;

/// States of jobs, by their words.
const STATES: [JobState; 13] = [
    JobState::Waiting,
    JobState::Starting,
    JobState::Running,
    JobState::Suspended,
    JobState::Stopping,
    JobState::Completed,
    JobState::Failed,
    JobState::Cancelled,
    JobState::TimedOut,
    JobState::Lost,
    JobState::Refused,
    JobState::UsedUp,
    JobState::NodeFailed,
];

/// Returns each route below the root of the API.
fn routes() -> [(&'static str, MethodRouter<Arc<Web>>); 15] {
    [
        ("/openapi.json", get(description)),
        ("/overview", get(overview)),
        ("/events", get(events)),
        ("/jobs", get(jobs)),
        ("/jobs/{id}", get(job)),
        ("/nodes", get(nodes)),
        ("/map", get(map)),
        ("/plan", get(plan)),
        ("/draw", get(drawn)),
        ("/energy", get(energy)),
        ("/changes", get(changes)),
        ("/session", get(act::session)),
        ("/jobs/{id}/{action}", post(act::job)),
        ("/jobs/selected/{action}", post(act::selected)),
        ("/changes/{number}/undo", post(act::undo)),
    ]
}

pub fn router() -> Router<Arc<Web>> {
    let all = routes().into_iter().fold(Router::new(), |router, (path, route)| router.route(path, route));
    Router::new().nest("/api/v1", all.fallback(unknown).method_not_allowed_fallback(wrong_method))
}

async fn unknown(uri: Uri) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, format!("there is no {}: see /api/v1/openapi.json", uri.path()))
}

async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this method is not possible here")
}

pub fn json(document: &impl Serialize) -> Result<Response, ApiError> {
    let failed = |error: serde_json::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let text = serde_json::to_vec(document).map_err(failed)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}

async fn overview(State(web): State<Arc<Web>>, uri: Uri) -> Result<Response, ApiError> {
    Parameters::of(&uri)?.end()?;
    let snapshot = web.figures().await.ok_or_else(ApiError::stopping)?;
    json(&OverviewJson::new(&snapshot.0))
}

async fn map(State(web): State<Arc<Web>>, uri: Uri) -> Result<Response, ApiError> {
    Parameters::of(&uri)?.end()?;
    let snapshot = web.figures().await.ok_or_else(ApiError::stopping)?;
    json(&MapJson::new(&snapshot.0))
}

async fn events(State(web): State<Arc<Web>>, Extension(caller): Extension<WebCaller>) -> Result<Response, ApiError> {
    web.events.watch(&caller)
}

/// Takes the filters of jobs.
fn filter(query: &mut Parameters) -> Result<JobFilter, ApiError> {
    let state = |word: &String| {
        let known = || STATES.map(JobState::name).join(", ");
        let found = STATES.into_iter().find(|state| state.name() == word);
        found.ok_or_else(|| ApiError::bad(format!("state={word}: it must be one of {}", known())))
    };
    Ok(JobFilter {
        users: query.list("user"),
        states: query.list("state").iter().map(state).collect::<Result<_, _>>()?,
        names: query.list("name"),
        nodes: query.list("node"),
        queues: query.list("queue"),
        steps_of: None,
    })
}

/// Takes the cursor of a page: a value and a number.
fn cursor(query: &mut Parameters) -> Result<Option<(i64, u64)>, ApiError> {
    let Some(text) = query.one("cursor")? else { return Ok(None) };
    let parsed = text.split_once('.').and_then(|(value, number)| Some((value.parse().ok()?, number.parse().ok()?)));
    parsed.map(Some).ok_or_else(|| ApiError::bad(format!("cursor={text}: it must be the cursor of the page before")))
}

/// Takes a range of time, which ends now and has this length unless the request says otherwise.
fn range(query: &mut Parameters, (before, after): (Span, Span)) -> Result<(Time, Time), ApiError> {
    let now = crate::serve::now();
    let from = query.time("from_unix_ms")?.unwrap_or(now - before);
    let until = query.time("until_unix_ms")?.unwrap_or(now + after);
    if until <= from {
        return Err(ApiError::bad("until_unix_ms is not after from_unix_ms"));
    }
    if until - from > Span::from_secs(DAYS * 86_400) {
        return Err(ApiError::bad(format!("the range is longer than {DAYS} days")));
    }
    Ok((from, until))
}

async fn jobs(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let filter = filter(&mut query)?;
    let over = query.word("over", &[("true", true), ("false", false)])?.unwrap_or(false);
    let limit = query.number("limit", 1..=MOST_ROWS)?.unwrap_or(ROWS);
    let after = cursor(&mut query)?;
    let refused = |error| ApiError::of(error, StatusCode::BAD_REQUEST);
    let (jobs, more, last): (Vec<JobReport>, bool, Option<i64>) = if over {
        let (since, until) = (query.time("from_unix_ms")?, query.time("until_unix_ms")?);
        query.end()?;
        let after = after.map(|(ended, job)| (Time::from_unix_ms(ended), JobId(job)));
        let question = Finished { filter, since, until, after, limit };
        let page = web.entrance.connect(&caller).await?.ask(question).await.map_err(refused)?;
        let last = page.jobs.last().map(|job| job.ended.map_or(0, Time::unix_ms));
        (page.jobs, page.more, last)
    } else {
        let orders = [
            ("number", JobOrder::Number),
            ("start", JobOrder::Start),
            ("time_limit", JobOrder::TimeLimit),
            ("cores", JobOrder::Cores),
        ];
        let order = query.word("sort", &orders)?.unwrap_or(JobOrder::Number);
        let descending = query.word("order", &[("asc", false), ("desc", true)])?.unwrap_or(false);
        query.end()?;
        let after = after.map(|(value, job)| (value, JobId(job)));
        let question = ListingQuery { filter, order, descending, after, limit };
        let page = web.entrance.connect(&caller).await?.ask(question).await.map_err(refused)?;
        let last = page.jobs.last().map(|job| order.key(job));
        (page.jobs, page.more, last)
    };
    let last = jobs.last().zip(last).filter(|_| more).map(|(job, value)| format!("{value}.{}", job.job.0));
    let clock = Clock::system();
    let jobs = jobs.iter().map(|job| JobJson::new(job, &clock)).collect();
    json(&JobsPageJson { schema: SCHEMA, jobs, cursor: last })
}

async fn job(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Parameters::of(&uri)?.end()?;
    let id = id.parse().map(JobId).map_err(|_| ApiError::bad("the number of a job is a whole number"))?;
    let mut line = web.entrance.connect(&caller).await?;
    let absent = |error| ApiError::of(error, StatusCode::NOT_FOUND);
    let report = line.ask(JobQuery(id)).await.map_err(absent)?.pop();
    let report = report.ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, format!("there is no job {id}")))?;
    let clock = Clock::system();
    let explanation = if report.state == JobState::Waiting {
        // The job may have ended since.
        line.ask(ExplainQuery(id)).await.ok().map(|explanation| ExplanationJson::new(&explanation, &clock))
    } else {
        None
    };
    let usage = match report.state {
        JobState::Running | JobState::Suspended => line.ask(UsageQuery(id)).await.ok(),
        _ => None,
    };
    let job = JobJson::new(&report, &clock).with_usage(usage.as_ref());
    json(&JobDetailJson { schema: SCHEMA, job, explanation })
}

async fn nodes(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let (names, states) = (query.list("node"), query.list("state"));
    let limit = query.number("limit", 1..=MOST_ROWS)?.unwrap_or(ROWS) as usize;
    let after = query.one("cursor")?;
    query.end()?;
    let all = web.nodes(&caller).await?;
    let first = after.map_or(0, |after| all.partition_point(|node| node.name <= after));
    let mut found = all[first..].iter().filter(|node| {
        (names.is_empty() || names.contains(&node.name))
            && (states.is_empty() || states.iter().any(|state| state == node.state.name()))
    });
    let page: Vec<&NodeReport> = found.by_ref().take(limit).collect();
    let cursor = page.last().filter(|_| found.next().is_some()).map(|last| last.name.clone());
    let nodes = page.into_iter().map(NodeJson::from).collect();
    json(&NodesPageJson { schema: SCHEMA, nodes, cursor })
}

async fn plan(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let day = Span::from_secs(86_400);
    let (from, until) = range(&mut query, (day, day))?;
    query.end()?;
    let refused = |error| ApiError::of(error, StatusCode::BAD_REQUEST);
    let report = web.entrance.connect(&caller).await?.ask(PlanQuery { from, until }).await.map_err(refused)?;
    json(&PlanJson::new(report, crate::serve::now()))
}

async fn drawn(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let (from, until) = range(&mut query, (Span::from_secs(86_400), Span::ZERO))?;
    let node = query.one("node")?;
    query.end()?;
    let refused = |error| ApiError::of(error, StatusCode::BAD_REQUEST);
    let question = ReadingsQuery { node, from, until };
    let report = web.entrance.connect(&caller).await?.ask(question).await.map_err(refused)?;
    let width = draw::width(from, until);
    let draw = draw::buckets(&report.intervals, from, width);
    json(&DrawJson { schema: SCHEMA, emulated: report.emulated, bucket_s: width.secs(), draw })
}

async fn energy(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let (since, until) = range(&mut query, (Span::from_secs(30 * 86_400), Span::ZERO))?;
    let by = query.one("by")?.unwrap_or_else(|| "user".to_owned());
    let limit = query.number("limit", 1..=MOST_ROWS)?.unwrap_or(ROWS);
    query.end()?;
    let clock = Clock::system();
    let by = match by.as_str() {
        "user" => EnergyBy::User,
        "application" => EnergyBy::Application,
        "account" => EnergyBy::Account,
        "job" => EnergyBy::Job,
        "node" => EnergyBy::Node,
        "group" => EnergyBy::Group,
        "state" => EnergyBy::State,
        "day" => EnergyBy::Days(clock.days(since, until).map_err(|error| ApiError::bad(error.to_string()))?),
        other => {
            let known = "user, application, account, job, node, group, state or day";
            return Err(ApiError::bad(format!("by={other}: it must be {known}")));
        }
    };
    let range = (Some(since), Some(until));
    let question = EnergyQuery { by: by.clone(), filter: JobFilter::default(), since: range.0, until: range.1, limit };
    let refused = |error| ApiError::of(error, StatusCode::BAD_REQUEST);
    let report = web.entrance.connect(&caller).await?.ask(question).await.map_err(refused)?;
    json(&EnergyJson::new(&by, range, &report, &clock))
}

async fn changes(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let limit = query.number("limit", 1..=MOST_ROWS)?.unwrap_or(ROWS);
    let (since, by) = (query.time("from_unix_ms")?, query.one("by")?);
    let before = query.number("cursor", 1..=u64::MAX)?;
    query.end()?;
    let refused = |error| ApiError::of(error, StatusCode::BAD_REQUEST);
    let question = ChangesQuery { since, by, before, limit };
    let page = web.entrance.connect(&caller).await?.ask(question).await.map_err(refused)?;
    let cursor = page.changes.last().filter(|_| page.more).map(|last| last.number.to_string());
    let changes = page.changes.into_iter().map(ChangeJson::from).collect();
    json(&ChangesPageJson { schema: SCHEMA, changes, cursor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_described() {
        let description: serde_json::Value = serde_json::from_str(DESCRIPTION).expect("JSON");
        let described: Vec<&String> = description["paths"].as_object().expect("paths").keys().collect();
        let mut routes: Vec<String> = routes().iter().map(|(path, _)| format!("/api/v1{path}")).collect();
        routes.sort();
        let mut sorted = described.clone();
        sorted.sort();
        assert_eq!(sorted, routes.iter().collect::<Vec<_>>());
        assert_eq!(description["openapi"], "3.1.0");
    }
}
