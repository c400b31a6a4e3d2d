//! The page is usable with a keyboard and a screen reader, as far as axe-core can tell: no view has a violation, in
//! light and dark colours and on a small screen. `tests/clients/axe.sh` fetches axe-core.

use std::env;
use std::fs;
use std::path::PathBuf;

use limo_requirements::{Requirement, skip};
use limo_tests::Browser;
use serde_json::Value;

use crate::metrics::address;
use crate::page::{cluster, code, take_picture, visit};

/// Variable with the directory of `axe.min.js`.
const AXE: &str = "LIMO_AXE";

/// Returns the script. Without it, prints the reason and returns `None`.
fn axe() -> Option<String> {
    let Some(directory) = env::var_os(AXE) else {
        skip(Requirement::Program, &format!("{AXE} is not set: tests/clients/axe.sh fetches axe-core"));
        return None;
    };
    let path = PathBuf::from(directory).join("axe.min.js");
    Some(fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// Returns each violation of the shown view with the elements that have it. The driver runs the script beside the
/// content policy, which holds for the scripts of the page.
fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    let run = "axe.run(document, { resultTypes: ['violations'] }).then(({ violations, testEngine }) => done({ violations, testEngine }), \
               (error) => done({ error: String(error) }));";
    let found = browser.run_until_done(&format!("{axe}; {run}"));
    assert_eq!(found["testEngine"]["name"], "axe-core", "{found}");
    let elements = |violation: &Value| {
        let nodes = violation["nodes"].as_array().into_iter().flatten();
        nodes.map(|node| format!("\n  {} {}", node["target"], node["failureSummary"])).collect::<String>()
    };
    let all = found["violations"].as_array().expect("a list");
    all.iter().map(|violation| format!("{}: {}{}", violation["id"], violation["help"], elements(violation))).collect()
}

#[test]
fn no_view_has_a_violation_in_light_and_dark_colours() {
    let (Some(axe), Some(browser)) = (axe(), Browser::open()) else { return };
    let (cluster, [running, waiting]) = cluster();
    let address = address(&cluster);
    // With the buttons of a browser that may act.
    browser.go(&code(cluster.submitter()));
    browser.until("the overview is shown", "document.body?.dataset.ready === '/'");
    let views = [
        ("overview", "/".to_owned()),
        ("jobs", "/jobs".to_owned()),
        ("finished", "/jobs?over=true".to_owned()),
        ("empty", "/jobs?user=nobody".to_owned()),
        ("job", format!("/jobs/{running}")),
        ("waiting", format!("/jobs/{waiting}")),
        ("nodes", "/nodes".to_owned()),
        ("states", "/nodes?by=state".to_owned()),
        ("plan", "/plan".to_owned()),
        ("energy", "/energy".to_owned()),
        ("changes", "/changes".to_owned()),
        ("error", "/jobs/999".to_owned()),
    ];
    let mut found = Vec::new();
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("dark", 420)] {
        browser.prefer(scheme);
        browser.resize(width, 900);
        for (name, path) in &views {
            if *name == "error" {
                browser.go(&format!("http://{address}{path}"));
                browser.until("the error is shown", "document.querySelector('main [role=alert]') !== null");
            } else {
                visit(&browser, &address, path);
            }
            browser.run("for (const details of document.querySelectorAll('details')) details.open = true;");
            let all = violations(&browser, &axe);
            found.extend(all.into_iter().map(|violation| format!("{path}, {scheme}, {width} px: {violation}")));
            take_picture(&browser, &format!("{name}-{scheme}-{width}"));
            // The missing job, which the next view is not to blame for.
            browser.complaints();
        }
    }
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}
