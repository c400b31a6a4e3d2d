//! Redfish: a controller with the new resource, with the old one, or with neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use limo_model::Power;
use limo_power::{Access, Meter, MeterChoice, Reading, Redfish, Site};

use crate::http::access;
use crate::web::{Answer, Server};

const CHASSIS: &str = "/redfish/v1/Chassis/1";
const METRICS: &str = "GET /redfish/v1/Chassis/1/EnvironmentMetrics";
const POWER: &str = "GET /redfish/v1/Chassis/1/Power";

/// Starts a controller with these resources.
fn controller(resources: &'static [(&str, &str)]) -> Server {
    Server::start(move |request| {
        let found = resources.iter().find(|(line, _)| *line == request.line);
        found.map_or(Answer::status("404 Not Found"), |(_, body)| Answer::json(body))
    })
}

fn read(server: &Server) -> Result<Reading, String> {
    let mut meter = Redfish::new(&server.url(CHASSIS), &Access::default());
    meter.read(Duration::ZERO).map_err(|error| error.to_string().replace(&server.url(CHASSIS), "CHASSIS"))
}

fn fails(resources: &'static [(&str, &str)], expected: &str) {
    let error = read(&controller(resources)).expect_err("no reading");
    assert!(error.starts_with(expected), "`{expected}` begins\n`{error}`");
}

#[test]
fn the_new_resource() {
    let server = controller(&[
        (METRICS, "{\"PowerWatts\": {\"Reading\": 374.5, \"DataSourceUri\": \"/x\"}}"),
        (POWER, "{\"PowerControl\": [{\"PowerConsumedWatts\": 1}]}"),
    ]);
    assert_eq!(read(&server), Ok(Reading::Draw(Power::from_mw(374_500))));
    assert_eq!(server.lines(), [METRICS]);
}

/// Checks that a missing resource is not requested each time.
#[test]
fn the_old_resource() {
    let server =
        controller(&[(POWER, "{\"PowerControl\": [{\"PowerConsumedWatts\": 344}, {\"PowerConsumedWatts\": 9}]}")]);
    let mut meter = Redfish::new(&server.url(CHASSIS), &Access::default());
    for _ in 0..3 {
        assert_eq!(meter.read(Duration::ZERO).expect("a reading"), Reading::Draw(Power::from_watts(344)));
    }
    assert_eq!(server.lines(), [METRICS, POWER, POWER, POWER]);
    // The first resource shows temperatures only.
    let server = controller(&[
        (METRICS, "{\"TemperatureCelsius\": {\"Reading\": 21}}"),
        (POWER, "{\"PowerControl\": [{\"PowerConsumedWatts\": 344}]}"),
    ]);
    assert_eq!(read(&server), Ok(Reading::Draw(Power::from_watts(344))));
}

#[test]
fn invalid_draws_are_reported() {
    fails(&[], "CHASSIS/EnvironmentMetrics answers HTTP 404");
    fails(
        &[(METRICS, "{\"PowerWatts\": {\"Reading\": null}}")],
        "CHASSIS/EnvironmentMetrics has no `/PowerWatts/Reading`: this chassis shows no watts; ask another one below \
         `/redfish/v1/Chassis`; it answers `{\"PowerWatts\":{\"Reading\":null}}`",
    );
    fails(&[(POWER, "{\"PowerControl\": []}")], "CHASSIS/EnvironmentMetrics answers HTTP 404");
    fails(
        &[(METRICS, "{\"PowerWatts\": {\"Reading\": \"374\"}}")],
        "CHASSIS/EnvironmentMetrics has `\"374\"` as `/PowerWatts/Reading` instead of a number of watts",
    );
    fails(
        &[(METRICS, "{\"PowerWatts\": {\"Reading\": 0}}")],
        "CHASSIS/EnvironmentMetrics shows 0.0 W: the draw of a running machine is above zero",
    );
    fails(&[(METRICS, "{\"PowerWatts\": {\"Reading\": 1e300}}")], "CHASSIS/EnvironmentMetrics shows unlimited: ");
    fails(&[(METRICS, "{\"PowerWatts\": {\"Reading\": -12}}")], "CHASSIS/EnvironmentMetrics shows -12.0 W: ");
    fails(&[(METRICS, "<html>")], "CHASSIS/EnvironmentMetrics answers with invalid JSON");
    let server = Server::start(|_| Answer::status("500 Internal Server Error"));
    assert_eq!(read(&server), Err("CHASSIS/EnvironmentMetrics answers HTTP 500".to_owned()));
    assert_eq!(server.lines(), [METRICS], "an error is not a missing resource");
}

/// Uses an address as an operator writes it, with a password, and restarts the controller.
#[test]
fn a_controller_with_a_password() {
    let broken = Arc::new(AtomicBool::new(false));
    let is_broken = broken.clone();
    let server = Server::start(move |request| {
        // The text is `admin:geheim` in base 64.
        if request.header("authorization") != Some("Basic YWRtaW46Z2VoZWlt") {
            Answer::status("401 Unauthorized")
        } else if is_broken.load(Ordering::SeqCst) {
            Answer::status("503 Service Unavailable")
        } else {
            Answer::json("{\"PowerWatts\": {\"Reading\": 90}}")
        }
    });
    let choice: MeterChoice = format!("redfish:{}/", server.url(CHASSIS)).parse().expect("a choice");
    let site = |content: &str| Site { access: access(content), ..Site::new("/sys".as_ref()) };
    let mut meter = choice.meter(&site("user = \"admin\"\npassword = \"geheim\"\ninsecure = true"));
    let good = Reading::Draw(Power::from_watts(90));
    assert_eq!(meter.read(Duration::ZERO).expect("a reading"), good);
    broken.store(true, Ordering::SeqCst);
    let error = meter.read(Duration::ZERO).expect_err("it is broken").to_string();
    assert!(error.ends_with("answers HTTP 503: too many requests; raise `--meter-interval`"), "{error}");
    broken.store(false, Ordering::SeqCst);
    assert_eq!(meter.read(Duration::ZERO).expect("a reading"), good);
    let error = choice.meter(&site("insecure = true")).read(Duration::ZERO).expect_err("no password").to_string();
    assert!(error.contains("asks for a user and a password, or does not accept those"), "{error}");
}
