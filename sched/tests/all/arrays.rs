//! Arrays cost as much as their running tasks, and tasks start like jobs.

use limo_model::{JobId, Request};
use limo_sched::Event;

use crate::scenarios::run;
use crate::story::Story;

/// Returns starts and ends with their times, by name; tasks and jobs get equal names.
fn starts_and_ends(story: &str) -> Vec<String> {
    let out = run(story);
    let told = out.lines().filter(|line| line.contains(" start ") || line.contains(" end "));
    told.map(str::to_owned).collect()
}

#[test]
fn tasks_start_as_jobs_would() {
    for policy in ["fifo", "limo", "easy", "conservative", "limo-prototype"] {
        let setting = format!("policy {policy}\nnodes 3 idle=10W\n00:00 limits 0W 75W\n");
        let job = "draw=20W time=7min limit=8min";
        let others = "00:05 submit x draw=20W time=20min limit=20min\n";
        let single = (0..20).map(|number| format!("00:00 submit a_{number} app=a {job}\n")).collect::<String>();
        let expected = starts_and_ends(&format!("{setting}{single}{others}"));
        assert_eq!(expected.len(), 42, "{policy}: {expected:?}");
        let array = format!("{setting}00:00 submit a tasks=0-19 {job}\n{others}");
        assert_eq!(starts_and_ends(&array), expected, "{policy}");
    }
}

#[test]
fn a_million_tasks_cost_as_much_as_the_running_ones() {
    let mut story = Story::new();
    story.set_up(&["policy", "fifo"]);
    story.set_up(&["node", "n0", "cores=4"]);
    let world = &mut story.world;
    let event = Event::ArraySubmitted {
        job: JobId(1),
        tasks: "0-999999".parse().expect("tasks"),
        request: Box::new(Request::one_core("true")),
    };
    let text = serde_json::to_string(&event).expect("written");
    assert!(text.len() < 800, "{} bytes in the journal", text.len());
    world.apply(event).expect("possible");
    assert_eq!(world.core.next_job(), JobId(1_000_002));
    for _ in 0..10 {
        let round = world.round();
        assert!(round.waits.len() <= 1, "told once: {:?}", round.waits);
        // One of the jobs is the array itself.
        assert!(world.core.jobs().count() <= 261 && world.core.active() == 4);
        let size = serde_json::to_string(world.core.state()).expect("written").len();
        assert!(size < 400_000, "a snapshot of {size} bytes");
        let end = world.next_end().expect("four run");
        assert_eq!(world.advance(end).len(), 4);
    }
    let array = world.core.array(JobId(1)).expect("it goes on");
    assert_eq!((array.made, array.ended.counts.completed), (10 * 4 + 256, 9 * 4));
}
