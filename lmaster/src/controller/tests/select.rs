//! Jobs selected by words and ranges, and the actions on them.

use limo_proto::{Change, JobFilter, JobState, Selection, Selector};

use super::*;

pub(super) fn selected(message: &MasterToClient) -> Result<Vec<u64>, String> {
    match message {
        MasterToClient::Answer(answer) => match answer.as_ref() {
            Answer::Selected(jobs) => Ok(jobs.iter().map(|job| job.0).collect()),
            other => panic!("{other:?}"),
        },
        MasterToClient::Refused { reason, .. } => Err(reason.clone()),
        other => panic!("{other:?}"),
    }
}

pub(super) fn cancel(
    bench: &mut Bench,
    client: PeerId,
    selection: Selection,
    signal: Option<i32>,
) -> Result<Vec<u64>, String> {
    bench.heard(client);
    bench.say(client, ClientToMaster::ChangeConf(Box::new(Change::CancelSelected { selection, signal })));
    let heard = bench.heard(client);
    // The client also gets the ends of its jobs.
    let mut answers = heard.iter().filter(|message| !matches!(message, MasterToClient::Finished { .. }));
    selected(answers.next_back().expect("an answer"))
}

fn tell(bench: &mut Bench, client: PeerId, which: &[Selector], live: bool) -> Result<Vec<u64>, String> {
    selected(&bench.ask(client, Query::Select(SelectQuery { selection: which.to_vec().into(), live })))
}

const LAST: [Selector; 1] = [Selector::Last];
const ALL: [Selector; 1] = [Selector::All];

fn range(from: u64, to: u64) -> [Selector; 1] {
    [Selector::Range(JobId(from), JobId(to))]
}

/// Makes jobs 1 and 3 of the owner and 2 of another user; 1 is over.
fn three() -> (Bench, PeerId, PeerId) {
    let mut bench = Bench::new();
    let (owner, other) = (bench.client(7), bench.client(8));
    let (first, _, _) = (bench.submit(owner, 1), bench.submit(other, 2), bench.submit(owner, 3));
    assert_eq!(cancel(&mut bench, owner, vec![Selector::Job(first)].into(), None), Ok(vec![1]));
    (bench, owner, other)
}

#[test]
fn words_mean_the_callers_own() {
    let (mut bench, owner, other) = three();
    let root = bench.client(0);
    assert_eq!(tell(&mut bench, owner, &LAST, false), Ok(vec![3]));
    assert_eq!(tell(&mut bench, other, &LAST, true), Ok(vec![2]));
    assert_eq!(tell(&mut bench, root, &LAST, false), Err("user0 has not submitted a job yet".into()));
    assert_eq!(tell(&mut bench, owner, &ALL, false), Ok(vec![3]));
    assert_eq!(tell(&mut bench, root, &ALL, true), Ok(vec![]));
    assert_eq!(tell(&mut bench, root, &range(1, 9), false), Ok(vec![1, 2, 3]));
    assert_eq!(tell(&mut bench, root, &range(2, u64::MAX), true), Ok(vec![2, 3]));
    assert_eq!(tell(&mut bench, owner, &[Selector::All, Selector::Job(JobId(3))], false), Ok(vec![3]));
    assert_eq!(tell(&mut bench, root, &range(4, 9), false), Err("there is no job of 4-9: the newest is 3".into()));
    assert_eq!(tell(&mut bench, root, &range(1, 1), true), Err("no job of 1-1 waits or runs".into()));
    // The state comes from the disk after a crash.
    let mut bench = bench.killed();
    let owner = bench.client(7);
    assert_eq!(tell(&mut bench, owner, &LAST, false), Ok(vec![3]));
}

#[test]
fn a_selection_is_ended_as_a_whole_or_not_at_all() {
    let (mut bench, owner, other) = three();
    let belongs = Err("job 2 belongs to user8, not to user7".to_owned());
    assert_eq!(cancel(&mut bench, owner, range(1, 9).to_vec().into(), None), belongs);
    let of =
        |users: &[&str]| JobFilter { users: users.iter().map(|&user| user.into()).collect(), ..JobFilter::default() };
    let filter = Selection { which: vec![], filter: of(&["user8"]) };
    assert_eq!(cancel(&mut bench, owner, filter, None), belongs);
    assert_eq!(tell(&mut bench, owner, &range(1, 9), true), Ok(vec![2, 3]), "nothing happened");
    // Without users, a filter selects the caller's jobs.
    let waiting = JobFilter { states: vec![JobState::Waiting], ..JobFilter::default() };
    assert_eq!(cancel(&mut bench, other, Selection { which: vec![], filter: waiting }, None), Ok(vec![2]));
    let root = bench.client(0);
    assert_eq!(cancel(&mut bench, root, range(1, 9).to_vec().into(), None), Ok(vec![3]));
    assert_eq!(cancel(&mut bench, root, ALL.to_vec().into(), None), Ok(vec![]));
}

#[test]
fn signals_go_to_those_that_run() {
    let mut bench = Bench::new();
    let node = bench.node("n1");
    let client = bench.client(7);
    let (running, attempt) = bench.running(client, node, 1);
    let waiting = bench.submit(client, 2);
    assert_eq!(cancel(&mut bench, client, ALL.to_vec().into(), Some(10)), Ok(vec![running.0]));
    let expected = MasterToNode::Signal { job: running, attempt, signal: 10 };
    assert_eq!(bench.orders(node), [expected]);
    let named = || Selection::from(vec![Selector::Job(waiting)]);
    let nobody = "job 2 does not run yet: no process can receive signal 10";
    assert_eq!(cancel(&mut bench, client, named(), Some(10)), Err(nobody.into()));
    assert_eq!(cancel(&mut bench, client, named(), Some(0)), Err("0 is not a signal: 1 to 64".into()));
    // A signal that ends commands ends waiting jobs.
    assert_eq!(cancel(&mut bench, client, named(), Some(15)), Ok(vec![2]));
    assert_eq!(tell(&mut bench, client, &ALL, true), Ok(vec![running.0]));
}
