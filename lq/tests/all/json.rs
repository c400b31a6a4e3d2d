//! The JSON of each command is valid, and unchanged if other programs rely on it.

use std::num::NonZeroU32;

use limo_fake::{answer, candidate, finished_job, node, running_job, waiting_job};
use limo_model::{Band, Mode, Outcome, Power, Widths};
use limo_proto::{Answer, Explanation, JobReport, MasterToClient};
use serde_json::{Value, json};

use crate::answered;

async fn parsed(args: &[&str], reply: MasterToClient) -> Value {
    let (output, _) = answered(args, reply).await;
    let text = output.strip_prefix("exit 0\n--- stdout\n").and_then(|rest| rest.strip_suffix("--- stderr\n"));
    serde_json::from_str(text.unwrap_or_else(|| panic!("{output}"))).expect("JSON")
}

#[tokio::test]
async fn jobs_have_the_keys_that_others_build_on() {
    let jobs = vec![
        waiting_job(3),
        running_job(4),
        finished_job(5, Outcome::Exited(7)),
        finished_job(6, Outcome::Signaled(9)),
    ];
    let found = parsed(&["--json", "--all"], answer(Answer::Jobs(jobs))).await;
    assert_eq!(found["schema"], 1);
    let waiting = &found["jobs"][0];
    let reason = waiting_job(3).wait.expect("it waits").shown(|_| "2017-10-26 14:00".into()).to_string();
    let mut expected = json!({
        "id": 3, "state": "waiting", "user": "ada", "name": "cg", "application": "cg", "command": "./cg -n 5 'a b'",
        "cores": 1, "memory_bytes": 1_073_741_824, "time_limit_s": 3600.0, "deadline_unix_ms": 1_509_051_600_000_i64,
        "start_by_unix_ms": null, "nodes": [], "units": [], "submit_unix_ms": 1_509_015_600_000_i64,
        "start_unix_ms": null, "end_unix_ms": null, "exit_code": null, "signal": null, "end_reason": null,
        "wait_reason": reason, "wait_kind": "band", "estimate": null, "energy_j": null, "cost": null,
        "start_now_cost": null, "emulated": false, "energy_measured": null, "energy_confidence": null, "stdout_path": null, "stderr_path": null,
        "held_by": null, "begin_unix_ms": null, "dependencies": [], "array_id": null, "task": null, "array": null,
        "unreachable": [], "evictions_by_owner": 0, "evictions_by_reboot": 0, "checkpoint_kept_s": null, "checkpoint_failed": null,
    });
    for (key, value) in [("node_count", json!(1)), ("total_cores", json!(1)), ("work_dir", json!("/home/ada"))] {
        expected[key] = value;
    }
    for key in [
        "energy_limit_j",
        "cost_limit",
        "used_up",
        "packed",
        "explores_cap_w",
        "queue",
        "nodes_least",
        "nodes_most",
        "nodes_planned",
    ] {
        expected[key] = Value::Null;
    }
    for key in ["cpu_user_s", "cpu_system_s", "cpu_efficiency", "memory_peak_bytes", "memory_efficiency"] {
        expected[key] = Value::Null;
    }
    expected["licences"] = json!([]);
    expected["currency"] = json!("EUR");
    expected["account"] = Value::Null;
    expected["qos"] = Value::Null;
    expected["used_so_far"] = Value::Null;
    expected["steps"] = json!(0);
    for key in ["step_of", "step", "suspended_unix_ms", "suspended_by", "suspended_for_limit"] {
        expected[key] = Value::Null;
    }
    for key in ["priority", "priority_own", "priority_age", "priority_share"] {
        expected[key] = json!(0);
    }
    assert_eq!(*waiting, expected);
    let running = &found["jobs"][1];
    assert_eq!(running["units"], json!(["n1/gpu"]));
    assert_eq!(
        (&running["cores"], &running["emulated"], &running["energy_j"]),
        (&Value::Null, &json!(true), &json!(120.0))
    );
    let ends: Vec<_> = (2..4).map(|at| (&found["jobs"][at]["exit_code"], &found["jobs"][at]["signal"])).collect();
    assert_eq!(ends, [(&json!(7), &Value::Null), (&Value::Null, &json!(9))]);
    let used = ["cpu_user_s", "cpu_system_s", "cpu_efficiency", "memory_efficiency"].map(|key| &found["jobs"][2][key]);
    assert_eq!(used, [&json!(420.0), &json!(30.0), &json!(0.75), &json!(0.5)]);
    assert_eq!(found["jobs"][2]["memory_peak_bytes"], json!(536_870_912));
    assert_eq!((&found["jobs"][2]["cost"], &found["jobs"][2]["state"]), (&json!(0.0012), &json!("failed")));
}

#[tokio::test]
async fn a_moldable_job_has_its_range_of_nodes() {
    let [least, planned, most] = [2, 4, 8].map(|nodes| NonZeroU32::new(nodes).expect("positive"));
    let widths = Some((Widths { least, most, tasks_per_node: None }, planned));
    let found = parsed(&["--json"], answer(Answer::Jobs(vec![JobReport { widths, ..waiting_job(3) }]))).await;
    let nodes = ["nodes_least", "nodes_planned", "nodes_most"].map(|key| &found["jobs"][0][key]);
    assert_eq!(nodes, [2, 4, 8]);
}

#[tokio::test]
async fn show_and_wait_print_jobs() {
    for args in [&["show", "5", "--json"][..], &["wait", "5", "--json"]] {
        let found = parsed(args, answer(Answer::Jobs(vec![finished_job(5, Outcome::Exited(0))]))).await;
        assert_eq!((&found["schema"], &found["jobs"][0]["id"]), (&json!(1), &json!(5)), "{args:?}");
    }
}

#[tokio::test]
async fn nodes_say_whether_their_watts_are_measured() {
    let found = parsed(&["nodes", "--json"], answer(Answer::Nodes(vec![node("n1")]))).await;
    let expected = json!({
        "schema": 1,
        "nodes": [{
            "name": "n1", "state": "up", "group": null, "reason": null, "draw_w": 48.5, "idle_w": 15.0, "measured": true,
            "emulated": true, "memory_bytes": 17_179_869_184_i64, "memory_used_bytes": 1_073_741_824, "energy_j": 1000.0,
            "currency": "EUR", "cost": 0.00008, "connected": true, "unreachable_since_unix_ms": null, "held_w": 0.0, "sleep": null,
            "asleep_energy_j": 0.0, "switching_energy_j": 0.0,
            "containment": {"groups": true, "memory": true, "cores": true, "processes": true},
            "units": [
                {"name": "cpu", "hardware": "xeon", "kind": "cpu", "cores": 8, "cores_used": 2, "cap_w": null,
                 "least_cap_w": 8.0, "most_cap_w": 60.0, "jobs": [3]},
                {"name": "gpu", "hardware": "quadro-p2000", "kind": "accelerator", "cores": 1, "cores_used": 1,
                 "cap_w": null, "least_cap_w": null, "most_cap_w": null, "jobs": [4]},
            ],
        }],
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_explanation_without_limits() {
    let job = waiting_job(3);
    let explanation = Explanation {
        mode: Mode::Low,
        price: None,
        draw: Power::from_watts(18),
        band: Band::UNLIMITED,
        candidates: vec![candidate(None)],
        more: 7,
        planned: Some(limo_proto::Planned { at: limo_model::Time::from_unix_ms(60_000), place: "2 nodes".into() }),
        job,
    };
    let found = parsed(&["explain", "3", "--json"], answer(Answer::Explanation(Box::new(explanation)))).await;
    let keys = ["mode", "price_per_mwh", "draw_w", "band_low_w", "band_high_w"].map(|key| &found[key]);
    assert_eq!(keys, [&json!("low"), &Value::Null, &json!(18.0), &Value::Null, &Value::Null]);
    let estimate = json!({"duration_s": 600.0, "power_w": 90.0, "energy_j": 54000.0, "source": "learned", "runs": 3});
    let expected = json!([{
        "node": "n1", "unit": "cpu", "hardware": "xeon", "cap_w": null, "estimate": estimate,
        "estimate_from": "learned from 3 runs of cg", "cost": 0.0012,
        "waiting_cost": 0.0003, "band_cost": -0.0001, "obstacle": null,
    }]);
    assert_eq!((&found["candidates"], &found["candidates_left_out"]), (&expected, &json!(7)));
    assert_eq!((&found["planned_start_unix_ms"], &found["planned_on"]), (&json!(60_000), &json!("2 nodes")));
}
