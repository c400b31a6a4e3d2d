//! Changes by a browser, for its user: cancel, hold and release jobs, and undo changes. A browser gets the right by a
//! code of `lq web --act`. Other pages in the same browser cannot use it: a request needs the cookie, which is sent only
//! from the page itself, and headers that no foreign page can set.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use limo_json::SCHEMA;
use limo_model::JobId;
use limo_proto::{Change, ClientToMaster, ExchangeError, Selector, Undo};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::api::json;
use super::keys::LIFE;
use super::parameters::Parameters;
use super::{ApiError, Web, WebCaller};

/// Longest body of a request.
const BODY_LIMIT: usize = 4_096;

/// Most jobs in one request.
const SELECTED_LIMIT: usize = 100;

/// Time for the jobs of one request, which leaves some of [`super::PATIENCE`] for the answer.
const TURNS: Duration = Duration::from_secs(7);

/// Header that a foreign page cannot send without asking first.
const OWN_HEADER: &str = "x-limo";

/// The right of the caller.
#[derive(Debug, Serialize)]
pub struct SessionJson {
    schema: u32,
    /// True if this browser may change something for its user.
    may_act: bool,
}

/// A change that is on disk and in force.
#[derive(Debug, Serialize)]
pub struct DoneJson {
    schema: u32,
    done: bool,
}

/// An action on several jobs, each as if it were alone.
#[derive(Debug, Serialize)]
pub struct SelectedJson {
    schema: u32,
    /// One result for each job, in the order of the request.
    results: Vec<ResultJson>,
}

/// The result for one job.
#[derive(Debug, Serialize)]
pub struct ResultJson {
    id: u64,
    /// Reason why nothing was changed; `null` if the change is on disk and in force.
    error: Option<String>,
}

/// The body of a request about one thing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

/// The body of a request about several jobs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SelectedBody {
    jobs: Vec<u64>,
}

impl Web {
    /// Name of the cookie; browsers do not tell ports apart.
    fn cookie(&self) -> String {
        let port = self.hosts[0].rsplit(':').next().unwrap_or_default();
        format!("limo_act_{port}")
    }

    fn may_act(&self, caller: &WebCaller, headers: &HeaderMap) -> bool {
        let name = self.cookie();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let key = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
        key.zip(caller.user).is_some_and(|(key, user)| self.keys.may_act(key, user.uid, Instant::now()))
    }

    /// Checks that a request for a change comes from the page, in a browser that may act.
    fn check(&self, caller: &WebCaller, headers: &HeaderMap) -> Result<(), ApiError> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none");
        let refuse = |reason: String| Err(ApiError::new(StatusCode::FORBIDDEN, reason));
        if text("sec-fetch-site") != "same-origin" {
            return refuse(format!("Sec-Fetch-Site is {}: it must be same-origin", text("sec-fetch-site")));
        }
        // The host was checked before.
        if text("origin") != format!("http://{}", text("host")) {
            return refuse(format!("the origin is {}: it must be http://{}", text("origin"), text("host")));
        }
        if text("content-type") != "application/json" {
            return refuse(format!("the content is {}: it must be application/json", text("content-type")));
        }
        if text(OWN_HEADER) != "act" {
            return refuse(format!("the header {OWN_HEADER} is {}: it must be act", text(OWN_HEADER)));
        }
        if !self.may_act(caller, headers) {
            return refuse("this browser may only look: `lq web --act` lets it act for 8 hours".to_owned());
        }
        Ok(())
    }

    /// Makes a change for the caller.
    async fn change(&self, caller: &WebCaller, change: Change) -> Result<Response, ApiError> {
        let mut line = self.entrance.connect(caller).await?;
        let refused = |error| ApiError::of(error, StatusCode::CONFLICT);
        line.exchange(ClientToMaster::ChangeConf(Box::new(change))).await.map_err(refused)?;
        json(&DoneJson { schema: SCHEMA, done: true })
    }
}

/// Exchanges a code for the cookie, and goes to the page.
pub async fn enter(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let mut query = Parameters::of(&uri)?;
    let code = query.one("code")?.unwrap_or_default();
    query.end()?;
    let failed = |error: getrandom::Error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let key = match caller.user {
        Some(user) => web.keys.exchange(&code, user.uid, Instant::now()).map_err(failed)?,
        None => None,
    };
    let Some(key) = key else {
        let reason =
            "the code is unknown, older than a minute, used, or of another user: ask for a new one by `lq web --act`";
        return Err(ApiError::new(StatusCode::FORBIDDEN, reason));
    };
    let (name, life) = (web.cookie(), LIFE.as_secs());
    let cookie = format!("{name}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}");
    Ok((StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/".to_owned())]).into_response())
}

pub async fn session(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    json(&SessionJson { schema: SCHEMA, may_act: web.may_act(&caller, &headers) })
}

/// Reads the body, which has to be an object of this form.
async fn read<T: DeserializeOwned>(body: Body, form: &str) -> Result<T, ApiError> {
    let bytes = to_bytes(body, BODY_LIMIT).await;
    let bytes = bytes.map_err(|_| ApiError::bad(format!("the body is longer than {BODY_LIMIT} bytes or broken")))?;
    serde_json::from_slice(&bytes).map_err(|_| ApiError::bad(format!("the body must be `{form}`")))
}

fn change_of(action: &str, id: JobId) -> Result<Change, ApiError> {
    Ok(match action {
        "cancel" => Change::CancelSelected { selection: vec![Selector::Job(id)].into(), signal: None },
        "hold" => Change::Hold(vec![id]),
        "release" => Change::Release(vec![id]),
        other => return Err(ApiError::bad(format!("`{other}` is not an action: cancel, hold or release"))),
    })
}

pub async fn job(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    Path((id, action)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    web.check(&caller, &headers)?;
    let Empty {} = read(body, "{}").await?;
    let id = id.parse().map(JobId).map_err(|_| ApiError::bad("the number of a job is a whole number"))?;
    web.change(&caller, change_of(&action, id)?).await
}

/// Acts on several jobs, one after the other, and tells for each why it was refused.
pub async fn selected(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    Path(action): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    web.check(&caller, &headers)?;
    let SelectedBody { jobs } = read(body, r#"{"jobs": [NUMBER, ...]}"#).await?;
    if jobs.is_empty() || jobs.len() > SELECTED_LIMIT {
        return Err(ApiError::bad(format!("{} jobs are selected: it must be 1 to {SELECTED_LIMIT}", jobs.len())));
    }
    let mut line = web.entrance.connect(&caller).await?;
    let (begin, mut results) = (Instant::now(), Vec::with_capacity(jobs.len()));
    for id in jobs {
        let change = change_of(&action, JobId(id))?;
        let error = if begin.elapsed() > TURNS {
            Some(format!("not tried: the jobs before it took {} s", TURNS.as_secs()))
        } else {
            match line.exchange(ClientToMaster::ChangeConf(Box::new(change))).await {
                Ok(_) => None,
                Err(ExchangeError::Refused { reason, .. }) => Some(reason),
                Err(error) => Some(error.to_string()),
            }
        };
        results.push(ResultJson { id, error });
    }
    json(&SelectedJson { schema: SCHEMA, results })
}

pub async fn undo(
    State(web): State<Arc<Web>>,
    Extension(caller): Extension<WebCaller>,
    Path(number): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    web.check(&caller, &headers)?;
    let Empty {} = read(body, "{}").await?;
    let number = number.parse().map_err(|_| ApiError::bad("the number of a change is a whole number"))?;
    web.change(&caller, Change::Undo(Undo { number: Some(number), force: false, dry_run: false })).await
}
