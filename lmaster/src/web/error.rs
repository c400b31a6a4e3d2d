//! Errors of the API, as JSON with a text for people.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use limo_proto::ExchangeError;
use serde::Serialize;

/// An error of a request.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    reason: String,
    hint: Option<String>,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    error: &'a str,
    hint: Option<&'a str>,
}

impl ApiError {
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), hint: None }
    }

    pub fn bad(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    pub fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the master is stopping")
    }

    /// Returns the error of a question, with this status if the master refused it.
    pub fn of(error: ExchangeError, refused: StatusCode) -> Self {
        match error {
            ExchangeError::Refused { reason, hint } => Self { status: refused, reason, hint },
            ExchangeError::TooLarge(_) => Self::bad(error.to_string()),
            _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let json = ErrorJson { error: &self.reason, hint: self.hint.as_deref() };
        let text = serde_json::to_string(&json).unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}
