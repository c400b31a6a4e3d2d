//! Power limits over Redfish: a server that stores new values, or does not.

use std::sync::{Arc, Mutex};

use limo_model::Power;
use limo_power::{Access, Cap, RedfishCap};
use serde_json::{Value, json};

use crate::web::{Answer, Server};

const CHASSIS: &str = "/redfish/v1/Chassis/1";

fn watts(watts: i64) -> Power {
    Power::from_watts(watts)
}

/// State of a controller: the name of its resource, and its content.
type State = Arc<Mutex<(&'static str, Value)>>;

/// Starts a controller that merges received values into its state, unless it is `deaf`.
fn controller(resource: &'static str, held: Value, deaf: bool) -> (Server, State) {
    let state: State = Arc::new(Mutex::new((resource, held)));
    let shared = state.clone();
    let server = Server::start(move |request| {
        let mut state = shared.lock().expect("no panic");
        let (method, path) = request.line.split_once(' ').expect("a line");
        if path != format!("{CHASSIS}/{}", state.0) {
            return Answer::status("404 Not Found");
        }
        match method {
            "GET" => Answer::json(&state.1.to_string()),
            "PATCH" => {
                let change: Value = serde_json::from_str(&request.body).expect("JSON");
                if !deaf {
                    merge(&mut state.1, &change);
                }
                Answer::status("204 No Content")
            }
            _ => Answer::status("405 Method Not Allowed"),
        }
    });
    (server, state)
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            change.iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (Value::Array(into), Value::Array(change)) => {
            into.iter_mut().zip(change).for_each(|(into, change)| merge(into, change));
        }
        (into, change) => *into = change.clone(),
    }
}

fn cap(server: &Server, range: Option<(i64, i64)>) -> RedfishCap {
    RedfishCap::new(&server.url(CHASSIS), &Access::default(), range.map(|(low, high)| (watts(low), watts(high))))
}

fn environment() -> Value {
    json!({
        "PowerWatts": { "Reading": 300 },
        "PowerLimitWatts": { "SetPoint": 600, "AllowableMin": 150, "AllowableMax": 800, "ControlMode": "Disabled" }
    })
}

#[test]
fn the_new_resource() {
    let (server, state) = controller("EnvironmentMetrics", environment(), false);
    let mut cap = cap(&server, None);
    assert_eq!(cap.range().expect("it tells"), (watts(150), watts(800)));
    let originals = cap.capture().expect("readable");
    let control = format!("{}/EnvironmentMetrics/PowerLimitWatts", server.url(CHASSIS));
    assert_eq!(originals[&control], "{\"ControlMode\":\"Disabled\",\"SetPoint\":600}");
    cap.set(Power::from_mw(350_900)).expect("set");
    let body = server.asked().into_iter().rfind(|request| request.line.starts_with("PATCH")).expect("a change").body;
    assert_eq!(body, "{\"PowerLimitWatts\":{\"ControlMode\":\"Automatic\",\"SetPoint\":350}}");
    assert_eq!(state.lock().expect("no panic").1["PowerWatts"]["Reading"], 300);
    cap.restore(&control, &originals[&control]).expect("put back");
    assert_eq!(state.lock().expect("no panic").1, environment());
    let narrow = RedfishCap::new(&server.url(CHASSIS), &Access::default(), Some((watts(100), watts(400)))).range();
    assert_eq!(narrow.expect("what it obeys of it"), (watts(150), watts(400)));
}

#[test]
fn the_older_resource() {
    let held = json!({ "PowerControl": [{ "PowerConsumedWatts": 300, "PowerLimit": { "LimitInWatts": null } }] });
    let (server, state) = controller("Power", held.clone(), false);
    let error = cap(&server, None).range().expect_err("it does not tell").to_string();
    assert!(
        error.ends_with("/Power does not report the range of its caps: add it, for example `,20W..90W`"),
        "{error}"
    );
    let mut cap = cap(&server, Some((200, 500)));
    assert_eq!(cap.range().expect("as configured"), (watts(200), watts(500)));
    let originals = cap.capture().expect("readable");
    let control = format!("{}/Power/PowerControl/0/PowerLimit", server.url(CHASSIS));
    assert_eq!(originals[&control], "{\"LimitInWatts\":null}");
    cap.set(watts(250)).expect("set");
    assert_eq!(state.lock().expect("no panic").1["PowerControl"][0]["PowerLimit"]["LimitInWatts"], 250);
    cap.restore(&control, "{\"LimitInWatts\":null}").expect("lifted");
    assert_eq!(state.lock().expect("no panic").1, held);
    for (control, value) in [(control.as_str(), "[]"), (control.as_str(), "{"), ("x", "{}")] {
        let error = cap.restore(control, value).expect_err("no such value").to_string();
        assert!(error.ends_with(&format!(" held `{value}`, which is not a valid value: set it by hand")), "{error}");
    }
}

#[test]
fn unsupported_limits_of_a_controller_are_reported() {
    let (deaf, _) = controller("EnvironmentMetrics", environment(), true);
    let shown =
        |server: &Server, error: limo_power::CapError| error.to_string().replace(&server.url(CHASSIS), "CHASSIS");
    let error = shown(&deaf, cap(&deaf, None).set(watts(350)).expect_err("not set"));
    assert!(error.starts_with("CHASSIS/EnvironmentMetrics holds 600.0 W after 350.0 W was written"), "{error}");
    let error = shown(&deaf, cap(&deaf, None).set(watts(600)).expect_err("not enforced"));
    assert!(error.starts_with("CHASSIS/EnvironmentMetrics does not enforce the limit of 600.0 W"), "{error}");
    let held = json!({ "PowerControl": [{ "PowerLimit": { "LimitInWatts": 300 } }] });
    let (old, _) = controller("Power", held, true);
    let control = format!("{}/Power/PowerControl/0/PowerLimit", old.url(CHASSIS));
    let error = shown(&old, cap(&old, None).restore(&control, "{\"LimitInWatts\":null}").expect_err("still capped"));
    assert_eq!(error, "CHASSIS/Power is still capped to 300.0 W after its cap was lifted");
    let absurd = json!({ "PowerLimitWatts": { "SetPoint": -1e300, "ControlMode": "Automatic" } });
    let (absurd, _) = controller("EnvironmentMetrics", absurd, true);
    let error = shown(&absurd, cap(&absurd, None).set(watts(350)).expect_err("not set"));
    assert!(error.starts_with("CHASSIS/EnvironmentMetrics holds -9223372036.855 MW"), "{error}");
    // The controller shows temperatures only, and has no `Power`.
    let (none, _) = controller("EnvironmentMetrics", json!({ "TemperatureCelsius": { "Reading": 21 } }), false);
    let error = shown(&none, cap(&none, None).range().expect_err("no limit"));
    assert!(error.starts_with("CHASSIS/Power answers HTTP 404"), "{error}");
    let wrong = json!({ "PowerLimitWatts": { "SetPoint": 1, "AllowableMin": "low", "AllowableMax": 3 } });
    let (wrong, _) = controller("EnvironmentMetrics", wrong, false);
    let error = shown(&wrong, cap(&wrong, None).range().expect_err("no number"));
    assert!(error.starts_with("CHASSIS/EnvironmentMetrics has `\"low\"` as `AllowableMin`"), "{error}");
    let refusing = Server::start(|_| Answer::status("500 Internal Server Error"));
    let error = shown(&refusing, cap(&refusing, None).set(watts(300)).expect_err("refused"));
    assert_eq!(error, "CHASSIS/EnvironmentMetrics answers HTTP 500");
}
