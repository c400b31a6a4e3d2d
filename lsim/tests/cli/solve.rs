//! `lsim solve`: problems solved by hand.

use super::{folder, lsim, refused};

/// The second job saves 6 if the first one moves, which costs 1. The third one can run nowhere else.
const WEIGHTS: &str = r#"{"weights_mj": [[1, 2, null], [3, 9, null], [null, 1, null]]}"#;

/// Two nodes and 6 W: the wide job first would cost 3 * 10 s, the other order costs 1 * 2 s.
const JOBS: &str = r#"{"capacity": [2], "power_w": 6, "jobs": [
    {"weight": 1, "duration_s": 10, "needs": [2], "power_w": 5},
    {"weight": 3, "duration_s": 2, "needs": [1], "power_w": 1}]}"#;

#[test]
fn assignments() {
    let folder = folder(&[("a.json", WEIGHTS)]);
    let solved = lsim(folder.path(), "solve assignment a.json --json");
    assert_eq!(solved, "exit 0\n--- stdout\n{\"total_mj\":5,\"nodes\":[1,0,null]}\n--- stderr\n");
    let solved = lsim(folder.path(), "solve assignment a.json");
    assert_eq!(solved, "exit 0\n--- stdout\ntotal 5 mJ\njob 0 node 1\njob 1 node 0\njob 2 node -\n--- stderr\n");
}

#[test]
fn plans() {
    let folder = folder(&[("p.json", JOBS)]);
    let solved = lsim(folder.path(), "solve plan p.json --json");
    assert_eq!(solved, "exit 0\n--- stdout\n{\"weighted_start_s\":2.0,\"starts_s\":[2.0,0.0]}\n--- stderr\n");
}

#[test]
fn bad_problems() {
    let check = |command: &str, text: &str, stderr: &str| {
        let folder = folder(&[("x.json", text)]);
        refused(folder.path(), &format!("solve {command} x.json"), 1, stderr);
    };
    check(
        "assignment",
        &WEIGHTS.replace("[3, 9, null]", "[3, 9]"),
        "lsim: x.json: row 1 has 2 weights: there are 3 nodes",
    );
    check(
        "assignment",
        &WEIGHTS.replace('9', "99999999999999"),
        "lsim: x.json: row 1, column 1: 99999999999999 mJ is out of range: at most 17592186044416 mJ on either side of zero",
    );
    check(
        "assignment",
        &WEIGHTS.replace("weights_mj", "weights"),
        "lsim: x.json: unknown field `weights`, expected `weights_mj` at line 1 column 11",
    );
    check(
        "plan",
        &JOBS.replace("[2], \"power_w\": 5", "[3], \"power_w\": 5"),
        "lsim: x.json: job 0 needs 3000 of resource 0: it has 2000",
    );
    check(
        "plan",
        &JOBS.replace("\"duration_s\": 10", "\"duration_s\": -1"),
        "lsim: x.json: job 0: the duration is -1: from 0 to 1125899906842.624 is possible",
    );
}
