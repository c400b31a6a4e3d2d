//! Valid and invalid workloads.

use super::*;

fn read(text: &str, speed: Option<f64>) -> Result<Workload, String> {
    let source = io::Cursor::new(text.to_owned().into_bytes());
    parse("w.json", source, Options { speed }).map_err(|error| error.to_string())
}

fn document(jobs: &str, profiles: &str) -> String {
    format!("{{\"nb_res\": 4, \"jobs\": [{jobs}], \"profiles\": {{{profiles}}}, \"version\": 0}}")
}

const DELAY: &str = r#""d": {"type": "delay", "delay": 20.2}"#;

#[test]
fn jobs_with_delays() {
    let jobs = r#"{"id": "w0!12", "subtime": 10.5, "walltime": 100, "res": 4, "profile": "d"},
        {"id": 3, "subtime": 0.1, "res": 1, "profile": "d", "extra": true},
        {"id": "first", "subtime": 10.5, "walltime": -1, "res": 1, "profile": "d"}"#;
    let workload = read(&document(jobs, DELAY), None).expect("a workload");
    let shown: Vec<_> = workload
        .jobs
        .iter()
        .map(|job| {
            (job.number, job.submit.ms(), job.run.ms(), job.walltime.map(|span| span.span().ms()), job.processors)
        })
        .collect();
    let limit = Some(100_000);
    assert_eq!(shown, [(2, 100, 20_200, None, 1), (1, 10_500, 20_200, limit, 4), (3, 10_500, 20_200, None, 1)]);
    assert_eq!(workload.notes.len(), 1);
    let numbers = read(&document(&jobs.replace("first", "w0!0"), DELAY), None).expect("a workload");
    assert_eq!(numbers.jobs.iter().map(|job| job.number).collect::<Vec<_>>(), [3, 12, 0]);
}

#[test]
fn fields_of_limo_are_read() {
    let jobs = r#"{"id": 1, "subtime": 0, "res": 8, "profile": "d", "application": "ft", "variants": ["p2000"],
        "whole_unit": true, "may_suspend": true},
        {"id": 2, "subtime": 0, "res": 1, "profile": "d", "application": "cg", "may_requeue": true, "explore": true, "accelerators": 2,
        "packed": true},
        {"id": 3, "subtime": 0, "res": 1, "profile": "d", "filler": true},
        {"id": 4, "subtime": 0, "res": 1, "profile": "d", "application": "cg"}"#;
    let workload = read(&document(jobs, DELAY), None).expect("a workload");
    let shown = |job: &Job| {
        let Treatment { may_suspend, may_requeue, filler, explore, whole_unit, accelerators, packed, .. } =
            job.treatment;
        let name = workload.application(job).map(|application| application.name.as_str());
        (name.unwrap_or("-").to_owned(), [may_suspend, may_requeue, filler, explore, whole_unit, packed], accelerators)
    };
    let expected = [
        ("ft".to_owned(), [true, false, false, false, true, false], 0),
        ("cg".to_owned(), [false, true, false, true, false, true], 2),
        ("-".to_owned(), [false, false, true, false, false, false], 0),
        ("cg".to_owned(), [false; 6], 0),
    ];
    assert_eq!(workload.jobs.iter().map(shown).collect::<Vec<_>>(), expected);
    assert_eq!(workload.applications.len(), 2);
    assert_eq!(workload.application(&workload.jobs[0]).expect("ft").variants, ["p2000"]);
    assert_eq!(
        read(&document(&jobs.replace("\"ft\"", "\"f t\""), DELAY), None).expect_err("refused"),
        "w.json: job `1` (number 1 of the list): the name `f t` has the character ` `: letters, digits, `.`, `_`, `-`, `+` are allowed"
    );
}

#[test]
fn computation_needs_a_speed() {
    let job = r#"{"id": 1, "subtime": 0, "walltime": 9, "res": 1, "profile": "16078"}"#;
    let profile = r#""16078": {"com": 0.0, "type": "msg_par_hg", "cpu": 1607800000000.0}"#;
    let run = |speed| read(&document(job, profile), speed).map(|workload| workload.jobs[0].run.ms());
    assert_eq!(run(Some(100e6)), Ok(16_078_000));
    assert_eq!(
        run(None).expect_err("refused"),
        "w.json: job `1`: profile `16078` gives computation (`cpu`), but the hosts' speed is unknown: give Batsim's platform too"
    );
    assert!(run(Some(0.0)).expect_err("refused").ends_with("gives a duration that is negative or out of range"));
}

#[test]
fn refusals() {
    let check = |job: &str, profile: &str, expected: &str| {
        assert_eq!(read(&document(job, profile), Some(1.0)).expect_err("refused"), expected);
    };
    let job = |id: &str, fields: &str| format!(r#"{{"id": {id}, "profile": "d", "walltime": 9, {fields}}}"#);
    let good = job("1", r#""subtime": 0, "res": 1"#);
    check(
        &job("1", r#""subtime": -1, "res": 1"#),
        DELAY,
        "w.json: job `1` (number 1 of the list): its `subtime` is negative or out of range",
    );
    check(
        &job("1", r#""subtime": 0, "res": 0"#),
        DELAY,
        "w.json: job `1` (number 1 of the list): it requests 0 resources (`res`)",
    );
    check(
        &format!("{good},{good}"),
        DELAY,
        "w.json: job `1` (number 2 of the list): its number 1 is also that of job number 1 of the list",
    );
    check(&good, "", "w.json: job `1`: profile `d` is not in the list of profiles");
    check(&good, r#""d": {"type": "delay"}"#, "w.json: job `1`: profile `d` has no number `delay`");
    check(&good, r#""d": {"delay": 3}"#, "w.json: job `1`: profile `d` has no `type`");
    check(
        &good,
        r#""d": {"type": "parallel_homogeneous", "cpu": 1, "com": 5}"#,
        "w.json: job `1`: profile `d` communicates (`com` is not 0), which is not modelled",
    );
    check(
        &good,
        r#""d": {"type": "smpi", "trace": "x"}"#,
        "w.json: job `1`: profile `d` is of type `smpi`: it must be `delay` or `parallel_homogeneous`",
    );
    check("", DELAY, "w.json: the file has no jobs");
    assert_eq!(
        read("{\"jobs\": [\n{\"id\": 1,", None).expect_err("cut"),
        "w.json: EOF while parsing a value at line 2 column 9"
    );
    assert_eq!(
        read("{\"jobs\": 1}", None).expect_err("no list"),
        "w.json: invalid type: integer `1`, expected a sequence at line 1 column 11"
    );
}

#[test]
fn a_range_of_nodes_has_running_times_by_number() {
    let jobs = |more: &str| format!(r#"{{"id": 1, "subtime": 0, "res": 4, "profile": "d", {more}}}"#);
    let delays = r#""d": {"type": "delay", "delay": 60, "delays": {"2": 60, "4": 35.5, "10": 20}}"#;
    let workload = read(&document(&jobs(r#""nodes": "2-10""#), delays), None).expect("a workload");
    let moldable = workload.moldable(&workload.jobs[0]).expect("a range");
    assert_eq!(moldable.widths.to_string(), "2-10");
    let on = |nodes| moldable.run_on(nodes, Span::ZERO).map(Span::ms);
    assert_eq!([2, 3, 4, 9, 10].map(on), [60_000, 60_000, 35_500, 35_500, 20_000].map(Some));
    assert_eq!(on(1), Some(60_000), "that of the smallest number");
    let refused = |more: &str, delays: &str| read(&document(&jobs(more), delays), None).expect_err("refused");
    let begin = "w.json: job `1` (number 1 of the list): ";
    assert_eq!(
        refused(r#""nodes": "8-2""#, delays),
        format!("{begin}its `nodes`: the range 8-2 is empty: write `2-8`")
    );
    let malleable = |more: &str| read(&document(&jobs(&format!(r#"{more}"malleable": true"#)), delays), None);
    let found = malleable(r#""nodes": "2-8", "#).expect("a workload");
    assert!(!moldable.malleable && found.moldables[0].malleable);
    let told = malleable("").expect_err("no range");
    assert_eq!(told, format!("{begin}it is `malleable`, so it needs a range of `nodes`"));
    let told = malleable(r#""nodes": "2-8", "accelerators": 1, "#).expect_err("a GPU");
    assert_eq!(told, format!("{begin}it is `malleable`, so it cannot have `accelerators`"));
    let packed = refused(r#""nodes": "2-8", "packed": true"#, delays);
    assert_eq!(packed, format!("{begin}it has `nodes`, so it cannot be `packed`"));
    let wrong = r#""d": {"type": "delay", "delay": 60, "delays": {"0": 60}}"#;
    let expected = format!("{begin}its profile has `delays` with something else than numbers of nodes and seconds");
    assert_eq!(refused(r#""nodes": "2-8""#, wrong), expected);
}
