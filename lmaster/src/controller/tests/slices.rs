//! Actions and searches on many jobs let other requests pass after each slice.

use limo_proto::{Change, JobState, Selection};

use super::limits::named;
use super::*;

const COUNT: u64 = 1_500;

/// Submits many waiting jobs of user 7. The test gives turns.
fn queue() -> (Bench, PeerId) {
    let mut bench = Bench::new();
    let owner = bench.client(7);
    for key in 0..u32::try_from(COUNT).expect("small") {
        bench.say(owner, named(key));
    }
    bench.heard(owner);
    bench.slow_turns = true;
    (bench, owner)
}

fn change(change: Change) -> ClientToMaster {
    ClientToMaster::ChangeConf(Box::new(change))
}

/// Gives turns until none is wanted, and answers another user in between. Returns the result of `done` after each
/// turn.
fn turns(bench: &mut Bench, done: impl Fn(&Controller) -> usize) -> Vec<usize> {
    let other = bench.client(8);
    let mut found = Vec::new();
    while bench.controller.has_turn() {
        bench.input(Input::Turn);
        found.push(done(&bench.controller));
        assert!(
            matches!(bench.ask(other, Query::Status(StatusQuery)), MasterToClient::Answer(_)),
            "another user is served"
        );
    }
    found
}

#[test]
fn changes_of_many_jobs_are_made_in_slices() {
    let (mut bench, owner) = queue();
    let all = || (1..=COUNT).map(JobId).collect::<Vec<_>>();
    let held = |controller: &Controller| controller.tx.core.jobs().filter(|(_, job)| job.held.is_some()).count();
    let ranked =
        |controller: &Controller| controller.tx.core.jobs().filter(|(_, job)| job.request.priority == -5).count();
    let left = |controller: &Controller| controller.tx.core.jobs().count();
    bench.say(owner, change(Change::Hold(all())));
    assert_eq!(turns(&mut bench, held), [500, 1_000, 1_500]);
    bench.say(owner, change(Change::Priority { jobs: all(), priority: -5 }));
    assert_eq!(turns(&mut bench, ranked), [500, 1_000, 1_500]);
    bench.say(owner, change(Change::Release(all())));
    assert_eq!(turns(&mut bench, held), [1_000, 500, 0]);
    assert_eq!(words(&bench.heard(owner)), ["Answer"; 3]);
    bench.say(owner, change(Change::Cancel(all())));
    bench.input(Input::Turn);
    assert_eq!(left(&bench.controller), 1_000);
    // Jobs that end between two slices need no action.
    let root = bench.client(0);
    bench.say(root, change(Change::Cancel((1_400..=1_500).map(JobId).collect())));
    assert_eq!(turns(&mut bench, left), [399, 0]);
    assert_eq!(words(&bench.heard(root)), ["Answer"]);
    assert!(words(&bench.heard(owner)).iter().any(|word| word == "Answer"));
}

/// Checks the size of slices: 16 MiB are 41.9 launches of 400 kB, so the 42nd is the last of a slice.
#[test]
fn jobs_with_large_environments_are_cancelled_in_smaller_slices() {
    let mut bench = Bench::new();
    let owner = bench.client(7);
    for key in 0..60 {
        let ClientToMaster::SendExec(mut exec) = named(key) else { panic!("another message") };
        exec.launch.env = vec![(b"X".to_vec(), vec![b'x'; 400_000])];
        bench.say(owner, ClientToMaster::SendExec(exec));
    }
    bench.heard(owner);
    bench.slow_turns = true;
    bench.say(owner, change(Change::Cancel((1..=60).map(JobId).collect())));
    let left = |controller: &Controller| controller.tx.core.jobs().count();
    assert_eq!(left(&bench.controller), 18, "so few jobs need no turn for the first slice");
    assert_eq!(turns(&mut bench, left), [0]);
    assert_eq!(words(&bench.heard(owner)).last().map(String::as_str), Some("Answer"));
}

#[test]
fn jobs_are_sifted_in_slices() {
    let (mut bench, owner) = queue();
    let filter = |states: Vec<JobState>| {
        // The right name is the last of hundreds.
        let names = (0..999).map(|number| format!("name {number}")).chain(["x".repeat(250)]).collect();
        JobFilter { users: vec!["user7".into()], states, names, ..JobFilter::default() }
    };
    for (states, slices, found) in [
        (vec![JobState::Running; 1_000], 2, 0),
        (vec![JobState::Running, JobState::Waiting], 2, COUNT),
        (Vec::new(), 1, COUNT),
    ] {
        let selection = Selection { which: Vec::new(), filter: filter(states) };
        bench.say(owner, ClientToMaster::Ask(Box::new(Query::Select(SelectQuery { selection, live: true }))));
        // The request itself is served in the first turn.
        assert_eq!(turns(&mut bench, |_| 0).len(), slices);
        let heard = bench.heard(owner);
        let [MasterToClient::Answer(answer)] = heard.as_slice() else { panic!("{heard:?}") };
        assert_eq!(**answer, Answer::Selected((1..=found).map(JobId).collect()));
    }
}
