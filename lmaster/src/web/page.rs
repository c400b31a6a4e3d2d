//! The page: its files are in the program. Every view has its own address and the same document, whose scripts show the
//! view.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;

use super::Web;

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Addresses of the views.
const VIEWS: [&str; 7] = ["/", "/jobs", "/jobs/{id}", "/nodes", "/plan", "/energy", "/changes"];

/// The files beside the document.
const FILES: [(&str, &str, &[&str]); 13] = [
    ("/palette.css", STYLE, &[limo_plot::PALETTE]),
    ("/page.css", STYLE, &[include_str!("page/page.css")]),
    ("/shared.js", SCRIPT, &[limo_plot::SCALE, limo_plot::PARTS, include_str!("page/exports.js")]),
    ("/api.js", SCRIPT, &[include_str!("page/api.js")]),
    ("/chart.js", SCRIPT, &[include_str!("page/chart.js")]),
    ("/main.js", SCRIPT, &[include_str!("page/main.js")]),
    ("/overview.js", SCRIPT, &[include_str!("page/overview.js")]),
    ("/jobs.js", SCRIPT, &[include_str!("page/jobs.js")]),
    ("/selection.js", SCRIPT, &[include_str!("page/selection.js")]),
    ("/nodes.js", SCRIPT, &[include_str!("page/nodes.js")]),
    ("/plan.js", SCRIPT, &[include_str!("page/plan.js")]),
    ("/energy.js", SCRIPT, &[include_str!("page/energy.js")]),
    ("/changes.js", SCRIPT, &[include_str!("page/changes.js")]),
];

pub fn router() -> Router<Arc<Web>> {
    let document = || async { ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], include_str!("page/index.html")) };
    let views = VIEWS.into_iter().fold(Router::new(), |router, path| router.route(path, get(document)));
    FILES.into_iter().fold(views, |router, (path, kind, parts)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], parts.concat()) }))
    })
}
