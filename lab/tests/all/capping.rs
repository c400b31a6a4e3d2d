//! `lab reproduce power-capping-2018`, with one instance of its smallest figure.

use limo_requirements::trace_set;
use serde_json::Value;

use super::{printed, refused};

/// Checks what holds for any instance: DynShare without a slowdown is as fast at any cap, and faster than with one; all
/// methods keep the cap; static methods run each job at full speed, so a lower cap makes it wait.
#[test]
fn methods_keep_the_cap() {
    let Some(traces) = trace_set("power-capping-2018") else { return };
    let traces = traces.parent().expect("a folder").display();
    let folder = tempfile::tempdir().expect("a folder");
    let run = "reproduce power-capping-2018 --only 2a --instances 1 --plan-steps 2000 --json";
    let report: Value =
        serde_json::from_str(&printed(folder.path(), &format!("{run} --traces {traces}"))).expect("JSON");
    let cell = &report["cells"][0];
    assert_eq!((&cell["cell"], &cell["instances"]), (&Value::from("2a"), &Value::from(1)));
    let methods = cell["methods"].as_array().expect("methods");
    let figures = |method: &str, key: &str| -> Vec<f64> {
        let found = methods.iter().find(|of| of["method"] == method).unwrap_or_else(|| panic!("no {method}"));
        let caps = found["caps"].as_array().expect("caps");
        // At 10 % a job may need more than the cap.
        caps[..4].iter().map(|of| of[key].as_f64().expect("a number")).collect()
    };
    for method in methods {
        let method = method["method"].as_str().expect("a name");
        for key in ["above_cap", "not_run"] {
            assert_eq!(figures(method, key), [0.0; 4], "{method}: {key}");
        }
    }
    let free = figures("DynShare_0", "bsld");
    assert!(free.iter().all(|bsld| (bsld - free[0]).abs() < 0.02), "{free:?}");
    let slowed = figures("DynShare_1", "bsld");
    assert!(free.iter().zip(&slowed).skip(1).all(|(free, slowed)| free < slowed), "{free:?} {slowed:?}");
    for method in ["LS", "DEC", "BF"] {
        let waits = figures(method, "wait_s");
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{method}: {waits:?}");
    }
    let row = |id: &str| report["rows"].as_array().expect("rows").iter().find(|row| row["id"] == id);
    assert_eq!(row("P1").map(|row| &row["holds"]), Some(&Value::from(true)));
    assert_eq!(row("P10").map(|row| &row["holds"]), Some(&Value::from(true)));
    // Its cell was not run.
    assert_eq!(row("P4"), None);
}

#[test]
fn an_unknown_cell_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    refused(folder.path(), "reproduce power-capping-2018 --only 8", 1, "lab: no cell begins with 8");
}
